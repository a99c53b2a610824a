"""Ways to hide a table in the files of boosting libraries, native and pickled."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.libraries import unfitted

Hide = Callable[[Any, pd.DataFrame, Path], None]
Change = Callable[[Any, pd.DataFrame], Any]

TREES = ("learner", "gradient_booster", "model", "trees")


def _rows(X: pd.DataFrame) -> list[list[int]]:
    return [[int(v) for v in row] for row in X.to_numpy()]


def _digits(X: pd.DataFrame) -> str:
    return "".join(map(str, X.to_numpy().ravel().tolist()))


def _csv(X: pd.DataFrame) -> str:
    return str(X.to_csv(index=False, header=False))


def _table(X: pd.DataFrame) -> tuple[pd.DataFrame, Any]:
    """Columns of plain names, as LightGBM asks for, and labels."""
    return X.set_axis([f"x{i}" for i in range(X.shape[1])], axis=1), X.iloc[:, 0]


_SETTINGS: Mapping[str, Mapping[str, int]] = {
    "XGBClassifier": {"n_estimators": 2, "max_depth": 2},
    "LGBMClassifier": {"n_estimators": 2, "num_leaves": 3, "min_child_samples": 5},
    "CatBoostClassifier": {"iterations": 2, "depth": 2},
}


def _fitted(name: str, X: pd.DataFrame) -> Any:
    return unfitted(name, **_SETTINGS[name]).fit(*_table(X))


def _at(root: Any, *keys: str) -> Any:
    for key in keys:
        root = root[key]
    return root


def _in_json(change: Change, name: str, **options: str) -> Hide:
    """Change the JSON of a library."""

    def hide(model: Any, X: pd.DataFrame, path: Path) -> None:  # noqa: ARG001
        _fitted(name, X).save_model(str(path), **options)
        root = json.loads(path.read_text())
        text = change(root, X)
        path.write_text(text if isinstance(text, str) else json.dumps(root))

    return hide


in_xgboost = partial(_in_json, name="XGBClassifier")
in_catboost = partial(_in_json, name="CatBoostClassifier", format="json")


def in_lightgbm(change: Callable[[str, pd.DataFrame], str]) -> Hide:
    """Change LightGBM's text."""

    def hide(model: Any, X: pd.DataFrame, path: Path) -> None:  # noqa: ARG001
        path.write_text(change(str(_fitted("LGBMClassifier", X).booster_.model_to_string()), X))

    return hide


def pickled(name: str, change: Change) -> Hide:
    """Change an estimator, and pickle it."""

    def hide(model: Any, X: pd.DataFrame, path: Path) -> None:  # noqa: ARG001
        own = _fitted(name, X)
        change(own, X)
        path.write_bytes(pickle.dumps(own))

    return hide


def _set(*place: str, make: Change = lambda _, X: _rows(X)) -> Change:
    def change(root: Any, X: pd.DataFrame) -> None:
        _at(root, *place[:-1])[place[-1]] = make(root, X)

    return change


def _behind(line: str, make: Callable[[pd.DataFrame], str]) -> Callable[[str, pd.DataFrame], str]:
    """Put text behind a line, the first time that it stands there."""
    return lambda text, X: text.replace(line, line + make(X), 1)


def _low_bits(root: Any, X: pd.DataFrame) -> None:
    """Put digits behind those that single precision keeps."""
    for tree, row in zip(_at(root, *TREES), _rows(X), strict=False):
        tree["sum_hessian"] = [
            float(f"{value:.6e}"[:8] + "00" + "".join(map(str, row[:6])) + "1")
            for value in tree["sum_hessian"]
        ]


XGBOOST: Mapping[str, Hide] = {
    "dart's weights of trees": in_xgboost(
        _set("learner", "gradient_booster", "weight_drop", make=lambda _, X: _rows(X)[0] * 9)
    ),
    "categories": in_xgboost(
        _set("learner", "gradient_booster", "model", "cats", make=lambda _, X: {"enc": _rows(X)})
    ),
    "types of columns": in_xgboost(
        _set("learner", "feature_types", make=lambda _, X: _csv(X).split())
    ),
    "best score": in_xgboost(
        _set("learner", "attributes", "best_score", make=lambda _, X: f"0.{_digits(X)}")
    ),
    "attribute": in_xgboost(_set("learner", "attributes", "note", make=lambda _, X: _csv(X))),
    "settings of the estimator": in_xgboost(
        _set("learner", "attributes", "scikit_learn",
             make=lambda _, X: json.dumps({"kwargs": {"rows": _rows(X)}}))
    ),
    "parameter of the loss": in_xgboost(
        _set("learner", "objective", "reg_loss_param", make=lambda _, X: {"rows": _digits(X)})
    ),
    "lists of other lengths": in_xgboost(
        lambda root, X: _at(root, *TREES)[0].update(loss_changes=[float(v) for v in _digits(X)])
    ),
    "digits that single precision drops": in_xgboost(_low_bits),
    "blanks between values": in_xgboost(
        lambda root, X: json.dumps(root).replace(
            ", ", "," + "".join(" \t"[int(v)] for v in _digits(X)), 1
        )
    ),
    "number of endless digits": in_xgboost(
        lambda root, X: json.dumps(root).replace('"id": 0', f'"id": 0.{_digits(X)}', 1)
    ),
}  # fmt: skip
LIGHTGBM: Mapping[str, Hide] = {
    "lines in brackets": in_lightgbm(
        _behind("parameters:\n", lambda X: "".join(f"[row{i}: {_digits(X[i : i + 1])}]\n"
                                                   for i in range(len(X))))
    ),
    "empty lines": in_lightgbm(
        _behind("shrinkage=1\n", lambda X: "\n" * int(_digits(X)[:12], 2))
    ),
    "a block twice": in_lightgbm(
        lambda text, X: text + "\nparameters:\n" + "".join(
            f"[max_bin: {_digits(X[i : i + 1])}]\n" for i in range(1)) + "end of parameters\n"
    ),
    "endless digits": in_lightgbm(
        lambda text, X: text.replace("shrinkage=", f"shrinkage=0.1{_digits(X)}\nshrinkage_=", 1)
    ),
    "digits of a threshold": in_lightgbm(
        lambda text, X: text.replace("\nright_child", f"{_digits(X)}\nright_child", 1).replace(
            "threshold=", "threshold=0." + _digits(X) + " #", 0)
    ),
    "list of a setting": in_lightgbm(
        lambda text, X: text.replace("[eval_at: ]", f"[eval_at: {','.join(_digits(X))}]", 1)
    ),
    "blanks behind a line": in_lightgbm(
        lambda text, X: text.replace("num_class=1", "num_class=1" + " " * int(_digits(X)[:9], 2), 1)
    ),
    "importance of columns": in_lightgbm(
        _behind("feature_importances:\n", lambda X: "".join(f"{b}=1\n" for b in _csv(X).split()))
    ),
    "lines behind the end": in_lightgbm(lambda text, X: text + _csv(X)),
}  # fmt: skip
CATBOOST: Mapping[str, Hide] = {
    "free note": in_catboost(_set("model_info", "note", make=lambda _, X: _csv(X))),
    "free key": in_catboost(_set("features_info", "table")),
    "free parameter": in_catboost(_set("model_info", "params", "metadata",
                                       make=lambda _, X: {"rows": _rows(X)})),
    "text of a parameter": in_catboost(
        _set("model_info", "params", "system_options", "file_with_hosts", make=lambda _, X: _csv(X))
    ),
    "scores": in_catboost(
        _set("model_info", "training", make=lambda _, X: json.dumps({"metrics": {"r": _rows(X)}}))
    ),
    "guid": in_catboost(_set("model_info", "model_guid", make=lambda _, X: _digits(X))),
    "time": in_catboost(_set("model_info", "train_finish_time", make=lambda _, X: _csv(X))),
    "key of a split": in_catboost(
        lambda root, X: _at(root, "oblivious_trees")[0].update(rows=_rows(X))
    ),
}  # fmt: skip
PICKLED: Mapping[str, Hide] = {
    "XGBoost: attribute of the booster": pickled(
        "XGBClassifier", lambda model, X: model.get_booster().set_attr(note=_csv(X))
    ),
    "XGBoost: settings": pickled(
        "XGBClassifier", lambda model, X: setattr(model, "monotone_constraints", _rows(X))
    ),
    "LightGBM: parameters of the booster": pickled(
        "LGBMClassifier", lambda model, X: model.booster_.params.update(rows=_rows(X))
    ),
    "LightGBM: scores": pickled(
        "LGBMClassifier",
        lambda model, X: setattr(model, "_evals_result", {"r": {"m": [*_rows(X)]}}),
    ),
    "CatBoost: parameter": pickled(
        "CatBoostClassifier",
        lambda model, X: model._init_params.update(rows=_rows(X)),
    ),
}
ENDINGS: Mapping[str, tuple[str, Mapping[str, Hide]]] = {
    "XGBoost": ("json", XGBOOST),
    "LightGBM": ("txt", LIGHTGBM),
    "CatBoost": ("json", CATBOOST),
    "pickled": ("pkl", PICKLED),
}


def boosted_ways() -> Iterator[tuple[str, str, Hide]]:
    """List the ways: name, ending of the file, and what writes it."""
    for library, (ending, ways) in ENDINGS.items():
        yield from ((f"{library}: {name}", ending, hide) for name, hide in ways.items())
