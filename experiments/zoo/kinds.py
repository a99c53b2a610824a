"""The kinds of models in the zoo: settings, what trains them, and the form of file they are in.

Settings, training and saving are those of ``settings`` and of the benchmark ``usual``, here in the
sizes in which people train them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline

from experiments.attempt import is_there
from experiments.benchmarks import usual
from experiments.libraries import module_of, unfitted
from experiments.zoo import settings
from experiments.zoo.tables import CODES, FLAGS, RAW, Sample

Write = Callable[[Sample, int, Path], Path]
"""Trains a model on a sample with a seed, writes it at a path (an ending is added), says where."""
TWO = ("cancer", "votes", "breast", "marriages", "heart", "visits", "trial", "chains")
THREE = ("wine", "iris")
NUMBERS = ("progression", "marriages", "visits", "breast")
PEOPLE = ("breast", "heart", "trial", "chains")
"""Tables by what is learnt of them: two classes, three, numbers, event times."""
UNFOUND = 10_000_019
"""Beyond the seeds that a search tries: a forest that was given none draws one anywhere."""


@dataclass(frozen=True)
class Kind:
    """One kind of model.

    ``family``: the line of the board that it counts in. ``needs``: a module without which it is
    left out, or "Rscript". ``task``, ``tables``, ``forms``: what it learns, and from what.
    """

    name: str
    family: str
    write: Write
    needs: str = "sklearn"
    task: str = "label"
    tables: tuple[str, ...] = TWO
    forms: tuple[str, ...] = (FLAGS, CODES)

    @property
    def missing(self) -> str | None:
        """Say why models of this kind cannot be made here."""
        there = shutil.which(self.needs) if self.needs == "Rscript" else is_there(self.needs)
        return None if there else f"{self.needs} is not installed"


def kinds() -> Iterator[Kind]:
    """List all kinds, in the order of the archive."""
    for (library, family), names in _CHOSEN.items():
        for name, table, params in settings.SETTINGS[library]:
            if name in names.split():
                called = f"{_SHORT[library]}{name}".replace("_", "-")
                task, tables = _LEARNT[table]
                write: Write = partial(_by_library, library, params)
                yield Kind(called, family, write, _MODULES[library], task, tables)
    for name, made in usual.BOOSTED.items():
        write = _as_usual(partial(unfitted, made[0], **made[1]))
        yield Kind(_slug(name), name.split()[0], write, module_of(made[0]))
    for name, make in usual.RAW.items():
        write = _as_usual(make, raw=True)
        yield Kind(f"raw-{_slug(name)}", "pipelines on raw tables", write, "sklearn", "label",
                   PEOPLE, (RAW,))  # fmt: skip
    for name, make in usual.CODED.items():
        yield Kind(_slug(name), "several models in a file", _as_usual(make))
    for name, bare, depth in (
        ("forest-no-seed", False, None),
        ("forest-seeds-removed", True, None),
        ("forest-seeds-removed-shallow", True, 5),
    ):
        family = "forests, seeds removed" if bare else "forests"
        yield Kind(name, family, _made(partial(_without_seed, bare=bare, depth=depth)))
    yield from _others()


_CHOSEN: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("scikit-learn", "single trees"): "tree tree_entropy tree_pruned regression_tree "
        "extra_tree",
        ("scikit-learn", "forests"): "forest forest_share forest_balanced forest_oob "
        "regression_forest isolation",
        ("scikit-learn", "forests, no bootstrap"): "forest_all_rows extra_trees",
        ("scikit-learn", "bagging, AdaBoost"): "bagging bagging_share ada",
        ("scikit-learn", "scikit-learn boosting"): "boosting boosting_classes boosting_subsample "
        "boosting_early boosting_squares boosting_absolute hist hist_early hist_poisson",
        ("scikit-learn", "several models in a file"): "one_vs_rest",
        ("xgboost", "XGBoost"): "default stump subsample random_forest dart scaled softprob "
        "squarederror absolute lossguide ubjson booster_pickle exact",
        ("lightgbm", "LightGBM"): "default deep bagging dart goss forest unbalanced classes "
        "regression quantile booster_pickle",
        ("catboost", "CatBoost"): "default json pickle bernoulli no_bootstrap ordered depthwise "
        "classes squares",
    }
)
"""Settings of ``settings`` by library and family."""
_SHORT = {"scikit-learn": "", "xgboost": "xgb-", "lightgbm": "lgbm-", "catboost": "cat-"}
_MODULES = {library: library for library in _SHORT} | {"scikit-learn": "sklearn"}
_LEARNT: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {"two": ("label", TWO), "three": ("label", THREE)}
    | dict.fromkeys(("number", "counts"), ("number", NUMBERS))
)
"""What is learnt and from which tables, by the table of ``settings``."""
_SIZES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "scikit-learn": {},
        "xgboost": {"_rounds": 100, "max_depth": 6},
        "lightgbm": {"num_iterations": 100, "num_leaves": 31, "min_data_in_leaf": 10},
        "catboost": {"iterations": 100, "depth": 6},
    }
)
_GROWN = {"n_estimators": 100, "max_iter": 100}
"""What replaces the small numbers of trees there."""


def _by_library(
    library: str, params: Mapping[str, Any], data: Sample, seed: int, path: Path
) -> Path:
    given = {**_SIZES[library], **params, **{k: v for k, v in _GROWN.items() if k in params}}
    if library == "scikit-learn" and "_of" not in params:
        given["random_state"] = seed
    rows = {"X": data.X, "y": data.y["target"]}
    written: Path = settings.MAKERS[library](given, rows, path)
    return written


def _made(make: Callable[[Sample, int], Any], form: str = "joblib") -> Write:
    """Write what a function trains, pickled or as joblib does."""
    return lambda data, seed, path: settings.dump(make(data, seed), path, form)


def _as_usual(make: Callable[[], Any], raw: bool = False) -> Write:
    """Train a usual model, on raw columns at the end of a pipeline."""

    def made(data: Sample, seed: int) -> Any:
        model = make()
        for name, value in model.get_params().items():
            # Equal seeds train equal models; the user gave none.
            if name.rpartition("__")[2] == "random_state" and value is None:
                model.set_params(**{name: seed + UNFOUND})
        model = make_pipeline(usual.encoder(data.X), model) if raw else model
        return model.fit(data.X, data.y["target"])

    return _made(made, "pkl")


def _slug(name: str) -> str:
    return name.replace(" ", "-").lower()


def _without_seed(data: Sample, seed: int, *, bare: bool, depth: int | None) -> Any:
    """Train a forest that was given no seed; its trees hold theirs, unless it is made ``bare``."""
    forest = usual.Forest(max_depth=depth, random_state=seed + UNFOUND)
    forest.fit(data.X, data.y["target"]).random_state = None
    for tree in forest.estimators_ if bare else ():
        tree.random_state = None
    return forest


def _survival(name: str, data: Sample, seed: int) -> Any:
    y = data.y[["event", "target"]].to_records(index=False)
    forest = getattr(import_module("sksurv.ensemble"), name)
    return forest(random_state=seed).fit(data.X, np.array(y))


def _quantiles(data: Sample, seed: int) -> Any:
    forest = import_module("quantile_forest").RandomForestQuantileRegressor(random_state=seed)
    return forest.fit(data.X, data.y["target"])


def _ebm(data: Sample, seed: int, *, pairs: int) -> Any:
    machine = import_module("interpret.glassbox").ExplainableBoostingClassifier
    model = machine(interactions=pairs, n_jobs=1, random_state=seed)
    return model.fit(data.X, data.y["target"])


def _ebm_json(data: Sample, seed: int, path: Path) -> Path:
    path = path.with_name(f"{path.name}.json")
    path.write_text(json.dumps(_ebm(data, seed, pairs=0).to_jsonable()))
    return path


def _ydf(learner: str, data: Sample, seed: int, path: Path) -> Path:
    ydf = import_module("ydf")
    ydf.verbose(0)
    made = getattr(ydf, learner)(label="target", random_seed=seed, num_threads=1)
    made.train(data.X.assign(target=data.y["target"])).save(str(path))
    return path


def _private(data: Sample, seed: int, path: Path, *, epsilon: float) -> Path:
    import skops.io

    from treeleak.learn import DPForestClassifier

    forest = DPForestClassifier(
        epsilon=epsilon, schema=data.schema, classes=[0, 1], random_state=seed
    )
    path = path.with_name(f"{path.name}.skops")
    skops.io.dump(forest.fit(data.X, data.y["target"]), path)
    return path


_R: dict[str, str] = {
    "ranger": "ranger::ranger(x = X, y = y, probability = TRUE, seed = seed, num.threads = 1)",
    "ranger-draws": "ranger::ranger(x = X, y = y, probability = TRUE, keep.inbag = TRUE, "
    "seed = seed, num.threads = 1)",
    "random-forest-r": "randomForest::randomForest(X, y, ntree = 200)",
    "rpart": "rpart::rpart(y ~ ., data.frame(X, y = y))",
}
_SCRIPT = """args <- commandArgs(TRUE); seed <- as.integer(args[3]); set.seed(seed)
X <- read.csv(args[1]); y <- factor(X$target); X$target <- NULL
saveRDS({call}, args[2])
"""


def _of_r(call: str, data: Sample, seed: int, path: Path) -> Path:
    path = path.with_name(f"{path.name}.rds")
    rows = path.with_suffix(".csv")
    data.X.assign(target=data.y["target"]).to_csv(rows, index=False)
    script = _SCRIPT.format(call=call)
    command = ["Rscript", "-e", script, str(rows), str(path), str(seed + 1)]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603
    return path


def _others() -> Iterator[Kind]:
    """List survival and quantile forests, EBM, YDF, R and private forests."""
    family, codes = "survival, quantile forests", (CODES,)
    times = ("veterans", *PEOPLE)
    for name, cls in (
        ("survival-forest", "RandomSurvivalForest"),
        ("survival-extra-trees", "ExtraSurvivalTrees"),
        ("survival-boosting", "GradientBoostingSurvivalAnalysis"),
    ):
        write = _made(partial(_survival, cls), "pkl")
        yield Kind(name, family, write, "sksurv", "survival", times, codes)
    write = _made(_quantiles)
    yield Kind("quantile-forest", family, write, "quantile_forest", "number", NUMBERS, codes)
    for name, write in (
        ("ebm", _made(partial(_ebm, pairs=0), "pkl")),
        ("ebm-pairs", _made(partial(_ebm, pairs=10), "pkl")),
        ("ebm-json", _ebm_json),
    ):
        yield Kind(name, "EBM", write, "interpret", forms=codes)
    for name, learner in (
        ("ydf-forest", "RandomForestLearner"),
        ("ydf-boosted", "GradientBoostedTreesLearner"),
        ("ydf-cart", "CartLearner"),
    ):
        yield Kind(name, "YDF", partial(_ydf, learner), "ydf")
    for name, call in _R.items():
        yield Kind(name, "R", partial(_of_r, call), "Rscript")
    for epsilon in (1.0, 5.0, 30.0):
        write = partial(_private, epsilon=epsilon)
        yield Kind(f"private-{epsilon:g}", "private forests", write)
