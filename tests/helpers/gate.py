"""Models that leak, and false statements about them in files and options of ``treeleak audit``."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import skops.io
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectFromModel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

import treeleak
from treeleak.cli import app
from treeleak.learn import DPForestClassifier
from treeleak.release import to_release
from treeleak.release.readers.release_file import release_to_dict

LABEL = "recidivated"
STRICT = 'name = "gate"\n[limits]\nleak_shown = false\n'
USUAL = f"{STRICT}stored_rows = 0\nproved_alone = 0.0\nadvantage_over_population = 0.10\n"

Doc = dict[str, Any]


@dataclass(frozen=True)
class Attempt:
    """What is typed: ``treeleak audit MODEL`` with these options."""

    model: Path
    options: tuple[str | Path, ...] = ()
    policy: str = STRICT


@dataclass(frozen=True)
class Outcome:
    """What came of an attempt."""

    way: str
    status: int
    verdict: str
    said: str = ""

    @property
    def open(self) -> bool:
        return self.status == 0

    @property
    def crashed(self) -> bool:
        return self.verdict == "CRASHED"


@dataclass(frozen=True, eq=False)
class Lab:
    """A table, models that leak it, and files made of them."""

    folder: Path
    n_rows: int = 60
    n_trees: int = 20

    @cached_property
    def data(self) -> Any:
        return treeleak.datasets.load_compas()

    @cached_property
    def X(self) -> pd.DataFrame:
        return self.data.X.sample(self.n_rows, random_state=0)

    @cached_property
    def y(self) -> pd.Series[Any]:
        return self.data.y[self.X.index]

    @cached_property
    def train(self) -> pd.DataFrame:
        return self.X.assign(**{LABEL: self.y}).reset_index(drop=True)

    @cached_property
    def others(self) -> pd.DataFrame:
        X = self.data.X.drop(self.X.index)
        return X.assign(**{LABEL: self.data.y[X.index]}).reset_index(drop=True)

    def forest(self, **options: Any) -> RandomForestClassifier:
        settings = {"n_estimators": self.n_trees, "random_state": 0, **options}
        return RandomForestClassifier(**settings).fit(self.X, self.y)

    @cache  # noqa: B019
    def _base(self, kind: str) -> str:
        if kind == "noisy":
            model: Any = DPForestClassifier(
                10, 5, 200.0, schema=self.data.schema, classes=[0, 1], random_state=0
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(self.X, self.y)
        elif kind == "exact":
            model = self.forest(bootstrap=False, random_state=None)
        else:
            model = self.forest(random_state=7)
        document = release_to_dict(to_release(model))
        if kind == "hidden":
            document["sampling"] |= {"tree_seeds": [], "forest_seed": None}
        return json.dumps(document)

    def release(self, kind: str, **changed: Any) -> Doc:
        """A release file that leaks (exact, seeded, hidden, noisy), with something changed."""
        return {**json.loads(self._base(kind)), **changed}

    def bare(self, kind: str, **changed: Any) -> Doc:
        """The same, with nothing beside the counts of leaves."""
        document = self.release(kind, **changed)
        for tree in document["trees"]:
            for key in ("totals", "distinct"):
                tree.pop(key, None)
            tree["counts"] = [
                [0] * len(own) if left >= 0 else own
                for own, left in zip(tree["counts"], tree["left"], strict=True)
            ]
        return document

    def text(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def csv(self, table: pd.DataFrame, name: str = "train.csv") -> Path:
        return self.text(name, table.to_csv(index=False))

    def dumped(self, model: Any, ending: str = "joblib") -> Path:
        path = self.folder / f"model.{ending}"
        (skops.io.dump if ending == "skops" else joblib.dump)(model, path)
        return path

    def attempt(
        self,
        model: Path | Doc,
        *options: str | Path,
        train: pd.DataFrame | None = None,
        labelled: bool = True,
        schema: bool = True,
        policy: str = STRICT,
    ) -> Attempt:
        """An attempt with the training rows and the schema, unless told otherwise."""
        rows = self.csv(self.train if train is None else train)
        given: list[str | Path] = ["--train", rows, *(["--label", LABEL] if labelled else [])]
        if schema:
            given += ["--schema", self.text("schema.toml", self.data.schema.to_toml())]
        place = model if isinstance(model, Path) else self.text("model.json", json.dumps(model))
        return Attempt(place, (*given, *options), policy)


Way = Callable[[Lab], Attempt]


def tried(name: str, make: Way, lab: Lab, time_limit: float = 4.0) -> Outcome:
    """Run one attempt, in this process."""
    attempt = make(lab)
    policy, told = lab.text("policy.toml", attempt.policy), lab.folder / "audit.json"
    told.unlink(missing_ok=True)
    words = ["audit", attempt.model, *attempt.options, "--time-limit", time_limit]
    words += ["--policy", policy, "--json", told, "--quiet"]
    result = CliRunner().invoke(app, [str(word) for word in words])
    crashed = result.exception is not None and not isinstance(result.exception, SystemExit)
    found = json.loads(told.read_text())["verdict"] if told.exists() else "none"
    said = [repr(result.exception)] if crashed else result.stderr.strip().splitlines()
    verdict = "CRASHED" if crashed else found.partition(" by these")[0]
    return Outcome(name, result.exit_code, verdict, said[-1] if said else "")


def _noised(document: Doc, noise: Callable[[int, Any, tuple[int, int]], Any]) -> Doc:
    """Add noise to the leaves of exact counts, and state it as normal, rounded, sigma 20."""
    rng = np.random.default_rng(0)
    for t, tree in enumerate(document["trees"]):
        counts, leaves = np.array(tree["counts"], dtype=float), np.array(tree["left"]) < 0
        counts[leaves] += np.round(noise(t, rng, (int(leaves.sum()), counts.shape[1])))
        tree["counts"] = counts.astype(int).tolist()
        tree.pop("totals", None)
        tree.pop("distinct", None)
    law = {"law": "gaussian", "sigma": 20.0, "rounding": "nearest"}
    return {**document, "noise": law, "n_rows": None}


def _normal(t: int, rng: Any, n: tuple[int, int]) -> Any:
    return rng.normal(0, 20, n)


def _even(t: int, rng: Any, n: tuple[int, int]) -> Any:
    y = np.round(_normal(t, rng, n))
    y[-1] -= y.sum(axis=0)
    return y


def _exact_totals(lab: Lab) -> Doc:
    document, exact = _noised(lab.bare("exact"), _normal), lab.release("exact")
    for tree, own in zip(document["trees"], exact["trees"], strict=True):
        tree["totals"] = [sum(c) for c in own["counts"]]
    return document


def _by_chance(lab: Lab) -> Attempt:
    noise = {"law": "label", "rule": "permute-and-flip", "scale": 1e-3}
    document = lab.bare("exact", counts_are="labels", noise=noise, n_rows=None)
    for tree in document["trees"]:
        tree["counts"] = [[int(a >= b), int(a < b)] for a, b in tree["counts"]]
    return lab.attempt(document, "--n-rows", str(lab.n_rows))


def _wrong_totals(lab: Lab) -> Doc:
    document = lab.release("exact")
    for tree in document["trees"]:
        tree["totals"] = [7] * len(tree["left"])
    return document


def _limited(limits: str) -> Way:
    return lambda lab: lab.attempt(lab.release("exact"), policy=f'name = "p"\n[limits]\n{limits}\n')


_CHANCE = {"law": "discrete-laplace", "epsilon": 1e-4}
_WIDE = {"law": "gaussian", "sigma": 50.0}
_ROUNDED = {"law": "gaussian", "sigma": 1.0, "rounding": "nearest"}

WAYS: Mapping[str, Way] = {
    "noise: --n-rows 1": lambda lab: lab.attempt(lab.release("noisy"), "--n-rows", "1"),
    "noise: --n-rows 20": lambda lab: lab.attempt(lab.release("noisy"), "--n-rows", "20"),
    "noise: the file says n_rows 600": lambda lab: lab.attempt(lab.release("noisy", n_rows=600)),
    "hidden draws: --n-rows 600": lambda lab: lab.attempt(
        lab.release("hidden"), "--n-rows", "600", "--seed-search", "0"
    ),
    "exact: --n-rows 20": lambda lab: lab.attempt(lab.release("exact"), "--n-rows", "20"),
    "exact: the file says n_rows 20": lambda lab: lab.attempt(lab.release("exact", n_rows=20)),
    "exact counts, claimed: gaussian": lambda lab: lab.attempt(
        lab.bare("exact", noise=_WIDE, n_rows=None)
    ),
    "exact counts, claimed: discrete Laplace": lambda lab: lab.attempt(
        lab.bare("exact", noise=_CHANCE, n_rows=None)
    ),
    "drawn counts, claimed: gaussian, rounded": lambda lab: lab.attempt(
        lab.bare("hidden", noise={**_WIDE, "rounding": "nearest"})
    ),
    "exact counts claimed noisy, no labels": lambda lab: lab.attempt(
        lab.bare("exact", noise=_CHANCE), train=lab.X.reset_index(drop=True), labelled=False
    ),
    "exact counts claimed noisy, other rows of the population": lambda lab: lab.attempt(
        lab.bare("exact", noise=_ROUNDED, n_rows=None), train=lab.others[: lab.n_rows]
    ),
    "noise in every other tree only": lambda lab: lab.attempt(
        _noised(lab.bare("exact"), lambda t, rng, n: _normal(t, rng, n) * (t % 2))
    ),
    "noise that adds up to nothing in each tree": lambda lab: lab.attempt(
        _noised(lab.bare("exact"), _even)
    ),
    "noise on the leaves, exact counts in nodes above": lambda lab: lab.attempt(
        _noised(lab.release("exact"), _normal)
    ),
    "noise on the counts, exact totals": lambda lab: lab.attempt(_exact_totals(lab)),
    "leaves name classes, claimed: by chance": _by_chance,
    "exact: wrong totals": lambda lab: lab.attempt(_wrong_totals(lab)),
    "exact, policy: only harmless limits": _limited("unknown_parts = 100\nleaking_parts = 100"),
    "exact, policy: every share may be all": _limited("exact_rows = 1.0\nsmall_leaves = 1.0"),
    "exact, known: all rows": lambda lab: lab.attempt(
        lab.release("exact"), "--known-rows", lab.csv(lab.train, "known.csv")
    ),
    "noisy, known: all rows but one": lambda lab: lab.attempt(
        lab.release("noisy"), "--known-rows", lab.csv(lab.train[1:], "known.csv")
    ),
}
"""Each must stay closed."""


def _stump() -> DecisionTreeClassifier:
    return DecisionTreeClassifier(max_depth=1, min_samples_leaf=20, random_state=0)


def _piped(lab: Lab, step: Any, X: pd.DataFrame) -> Attempt:
    """A stump with large leaves behind a step, with the rows that enter the trees."""
    model = make_pipeline(step, _stump()).fit(X, lab.y)
    columns = list(to_release(model).feature_names)
    rows = pd.DataFrame(np.asarray(model[:-1].transform(X)), columns=columns)
    train = rows.assign(**{LABEL: lab.y.to_numpy()})
    return lab.attempt(lab.dumped(model), "--trust-pickle", schema=False, train=train)


def _with_codes(lab: Lab) -> Attempt:
    codes = [f"p{k:.3f}" for k in np.random.default_rng(0).permutation(lab.n_rows)]
    parts = [("own", OrdinalEncoder(), ["code"]), ("rest", "passthrough", list(lab.X))]
    X = lab.X.assign(code=codes).reset_index(drop=True)
    return _piped(lab, ColumnTransformer(parts, sparse_threshold=0), X)


PARTS: Mapping[str, Way] = {
    "a forest in a selection of columns": lambda lab: _piped(
        lab, SelectFromModel(RandomForestClassifier(10, random_state=42)), lab.X
    ),
    "codes of people in an encoder": _with_codes,
}
"""What stands beside a model that gives nothing away by itself."""


def shallow(lab: Lab) -> Attempt:
    """Three shallow trees with large leaves: this passes."""
    rows = lab.data.X.sample(400, random_state=1)
    y = lab.data.y[rows.index]
    model = RandomForestClassifier(
        3, max_depth=1, min_samples_leaf=100, bootstrap=False, random_state=0
    )
    others = lab.csv(lab.data.X.drop(rows.index), "control.csv")
    return lab.attempt(
        lab.dumped(model.fit(rows, y), "skops"), "--control", others,
        train=rows.assign(**{LABEL: y}), policy=USUAL,
    )  # fmt: skip
