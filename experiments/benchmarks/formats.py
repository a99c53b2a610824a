"""Other formats than scikit-learn's, each held against its floor.

``python -m experiments run formats --part ydf --seeds 0-1`` prints a table for each part: R (needs
Rscript with ranger, randomForest and rpart for all but objects that R stored), YDF, explainable
boosting machines, survival and quantile forests, other files of boosted models. Parts whose
library is missing are skipped, with the reason.

"in place" is the share of rows that are, with their label, in their own leaf of every tree that
drew them; where trees saw all rows, the share that lies in leaves, of all trees together, in which
the training set has as many. Seconds of an attack are those of the clock.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import treeleak
from experiments.attempt import attempt
from experiments.benchmarks.frame import CONSOLE, options, progress, show
from experiments.benchmarks.usual import table
from experiments.data import draft_sample
from experiments.libraries import unfitted
from treeleak.auditing.findings.finding import OPEN
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.core.errors import TreeleakError
from treeleak.metrics import exact_row_share, random_baseline, reconstruction_error
from treeleak.metrics.knn_baselines import mixed_from, nearest_others
from treeleak.reconstruction import Reconstruction
from treeleak.release import Release, read_model, to_release
from treeleak.release.adapters.r.values import plain
from treeleak.release.draws.recompute import fitted_rows
from treeleak.release.draws.seeds import known_draws
from treeleak.release.draws.yggdrasil import DEFAULT_SEED, drawn
from treeleak.release.row_facts import NOT_TOLD
from treeleak.schema import Binary, Schema
from treeleak.verification.columns import in_model_columns
from treeleak.verification.counts import check_rows

Line = dict[str, Any]
MODELS = Path(__file__).parents[2] / "tests" / "models"
OBJECTS = (
    "attribute", "call", "closure", "formula", "glm", "lm", "nested", "party", "recipe", "s4",
    "train", "workspace",
)  # fmt: skip
"""Objects of R in which rows lie; beside them, some hold none."""
PLAIN = Context(drawn=None, missing=None)
BELOW = 0.05
"""By how much YDF's models may be below those of the usual libraries."""


def line(what: str, seed: Any, measured: str, floor: str, met: bool) -> Line:
    return {"what": what, "seed": str(seed), "measured": measured, "floor": floor, "met": met}


def at_least(what: str, seed: Any, share: float | None, least: float, more: str = "") -> Line:
    """A line whose floor is a share."""
    said = f"no answer{more}" if share is None else f"{share:.3f}{more}"
    met = share is not None and share >= least - 1e-9
    return line(what, seed, said, f">= {least:.3g}", met)


def all_of(what: str, seed: Any, right: int, n: int) -> Line:
    """A line whose floor is all of them."""
    return line(what, seed, f"{right} of {n}", "all", right == n)


def rows_of(name: str, n: int, seed: int) -> tuple[pd.DataFrame, pd.Series[Any], Schema]:
    """Draw rows of a table in columns of 0 and 1, under names that every library takes."""
    data = getattr(treeleak.datasets, f"load_{name}")()
    X, y = draft_sample(data, n, seed)
    X = X.set_axis([f"x{k}" for k in range(X.shape[1])], axis=1)
    return X, y, Schema([Binary(c) for c in X])


def attack(model: Any, schema: Schema | None, limit: float, seed: int = 0) -> Reconstruction | None:
    """Rebuild rows; None where the model is not covered, or there are none in time."""
    found = attempt(lambda: treeleak.reconstruct(model, schema, time_limit=limit, seed=seed))[1]
    return None if found is None or found.X is None else found


def in_place(
    release: Release, X: pd.DataFrame, y: Any, schema: Schema, limit: float
) -> float | None:
    """Share of rows in place after an attack."""
    if (found := attack(release, schema, limit)) is None:
        return None
    own, true = (release.leaves(in_model_columns(release, t)[0]) for t in (found.X[list(X)], X))
    labels, said = np.asarray(y).astype(str), np.asarray(found.y).astype(str)
    if not found.ordered:
        sides = (own, said), (true, labels)
        one, other = (Counter(zip(map(bytes, a), b, strict=True)) for a, b in sides)
        return (one & other).total() / len(own)
    drawn = known_draws(release).counts.T > 0
    return float((((own == true) | ~drawn).all(axis=1) & (said == labels)).mean())


# ------------------------------------------------------------------------------------------- R

_FRESH = """
suppressPackageStartupMessages({library(ranger); library(randomForest); library(rpart)})
args <- commandArgs(TRUE); setwd(args[1]); seed <- as.integer(args[2])
X <- read.csv("rows.csv"); y <- factor(X$label); X$label <- NULL
put <- function(model, name) saveRDS(model, paste0(name, ".rds"), compress = FALSE)
put(ranger(x = X, y = y, probability = TRUE, keep.inbag = TRUE, seed = seed, num.threads = 1),
    "ranger")
set.seed(seed)
put(randomForest(X[1:200, ], y[1:200], ntree = 500), "randomForest")
put(rpart(y ~ ., data.frame(X, y = y)), "rpart")
"""


def objects() -> list[Line]:
    """Read objects of R: those with rows in them, and those without."""
    planted = pd.read_csv(MODELS / "r" / "object_rows.csv")
    read = found = 0
    for name in OBJECTS:
        (file,) = (MODELS / "r").glob(f"object_{name}.[rR]*")
        with suppress(TreeleakError):
            model = read_model(file)
            read += 1
            found += _finds(model, None) and _finds(model, planted[["age", "weight", "smokes"]])
    clean = sorted((MODELS / "r").glob("object_clean_*.rds"))
    quiet = sum(not _finds(read_model(file), rows) for file in clean for rows in (None, planted))
    return [
        all_of("object classes read", "", read, len(OBJECTS)),
        all_of("planted rows found, alone and beside the rows", "", found, len(OBJECTS)),
        all_of("clean objects without a finding", "", quiet, 2 * len(clean)),
    ]


def _finds(model: Any, rows: pd.DataFrame | None) -> bool:
    return any(entry.rows for entry in take_inventory(model, PLAIN, rows))


def of_r(seeds: range, limit: float, _: int) -> Iterator[Line]:
    """Objects that R stored, and models of 300 and 200 rows that it trains anew."""
    yield from objects()
    for seed in seeds:
        X, y, schema = rows_of("compas", 300, seed)
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            X.assign(label=y).to_csv(place / "rows.csv", index=False)
            (place / "fresh.R").write_text(_FRESH)
            command = [shutil.which("Rscript") or "Rscript", place / "fresh.R", folder, str(seed)]
            try:
                subprocess.run(command, check=True, capture_output=True, text=True)
            except (OSError, subprocess.CalledProcessError) as why:
                said = str(getattr(why, "stderr", why)).strip()
                CONSOLE.print(f"models that R trains skipped: {said}", markup=False)
                return
            found, share = attack(place / "ranger.rds", schema, limit), None
            if found is not None and found.ordered:
                right = (found.X[list(X)].to_numpy() == X.to_numpy()).all(axis=1)
                share = float((right & (found.y.astype(str) == y.astype(str)).to_numpy()).mean())
            yield at_least("ranger, keep.inbag, 300 rows: in order", seed, share, 1)
            stored = read_model(place / "randomForest.rds")
            yield all_of("randomForest, 200 rows: labels", seed, _labels(stored, y[:200]), 200)
            found = attack(stored, schema, limit)
            share = None if found is None else exact_row_share(found.X[list(X)], X[:200])
            yield at_least("randomForest, 200 rows: rows, in any order", seed, share, 0.9)
            stored = read_model(place / "rpart.rds")
            leaves = to_release(stored).trees[0].apply(X.to_numpy(float)) + 1
            right = int((leaves == plain(stored.get("where"))).sum())
            yield all_of("rpart, 300 rows: leaves", seed, right, len(X))
            yield all_of("rpart, 300 rows: labels", seed, _labels(stored, y), len(X))


def _labels(stored: Any, y: pd.Series[Any]) -> int:
    """Right labels among those of an object, if the inventory says that they lie there."""
    if not any("y" in e.names and e.mark == "leaks" for e in take_inventory(stored, PLAIN)):
        return 0
    held = stored.get("y")
    codes = np.asarray(held if isinstance(held, np.ndarray) else held.get("codes"))
    return int((codes - 1 == y.to_numpy()).sum()) if len(codes) == len(y) else 0


# ----------------------------------------------------------------------------------------- YDF


def of_ydf(seeds: range, limit: float, models: int) -> Iterator[Line]:
    """YDF's default models beside those of other libraries, and small ones whose leaves count."""
    import ydf

    ydf.verbose(0)
    pairs: Sequence[tuple[str, Any, str]] = (
        ("random forest", ydf.RandomForestLearner, "RandomForestClassifier"),
        ("boosted trees", ydf.GradientBoostedTreesLearner, "LGBMClassifier"),
    )
    for seed in seeds:
        for name in ("compas", "adult"):
            X, y, schema = rows_of(name, 300, seed)
            for kind, learner, other in pairs:
                both = [_ydf_model(learner(label="label"), X.assign(label=y))]
                both.append(to_release(unfitted(other, random_state=seed).fit(X, y)))
                share, usual = (in_place(r, X, y, schema, limit) for r in both)
                least = max(0.0, (usual or 0.0) - BELOW)
                said = f" beside {usual or 0:.3f} of {other}"
                yield at_least(f"{name}, {kind}: in place", seed, share, least, said)
    wrong = [seed for seed in range(models) if not _counts(seed, ydf)]
    said = f"models whose leaves count the rows routed to them; not {wrong[:9]}"
    yield all_of(said, "", models - len(wrong), models)


def _ydf_model(learner: Any, frame: pd.DataFrame) -> Release:
    with tempfile.TemporaryDirectory() as folder:
        learner.train(frame).save(f"{folder}/model")
        return to_release(f"{folder}/model")


def _counts(seed: int, ydf: Any) -> bool:
    """Whether the leaves of a random model count the rows, or draws, that get there."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(60, 200))
    X = pd.DataFrame({
        "a": rng.normal(size=n), "b": rng.integers(0, 20, n), "d": rng.random(n) < 0.3,
        "c": rng.permutation(np.resize(["red", "green", "blue"], n)),
    })  # fmt: skip
    X.loc[rng.random(n) < 0.1, "a"] = np.nan
    score = X.a.fillna(0) + (X.c == "red") + X.b / 10 + rng.normal(size=n)
    cuts = [0.5] if seed % 4 < 2 else [0.5, 1.5]
    kind = (ydf.RandomForestLearner, ydf.GradientBoostedTreesLearner)[seed % 2]
    given = ({}, {"allow_na_conditions": True}, {"missing_value_policy": "LOCAL_IMPUTATION"})
    learner = kind(label="y", num_trees=30, **given[seed % 3])
    release = _ydf_model(learner, X.assign(y=np.digitize(score, cuts)))
    rows = in_model_columns(release, X)[0].to_numpy()
    # So few trees do not always confirm the seed: here the question is what their leaves count.
    drew = release.sampling.kind == "bootstrap"
    draws = drawn(DEFAULT_SEED, len(release.trees), n) if drew else None
    if (held := getattr(release.sampling, "held_back", None)) is not None:
        rows = rows[fitted_rows(held, n, None)]
    return (draws is not None or len(rows) == release.n_rows) and check_rows(
        release, rows, None, draws
    ).ok


# ---------------------------------------------------------------- explainable boosting machines


def of_ebm(seeds: range, limit: float, _: int) -> Iterator[Line]:
    """Rows of machines without pairs, with some and with many, beside rows of the population."""
    from interpret.glassbox import ExplainableBoostingClassifier

    for seed in seeds:
        X, y = table("adult", 300, seed)
        for pairs in (0, 10, 45):
            model = ExplainableBoostingClassifier(interactions=pairs, n_jobs=1, random_state=seed)
            release = to_release(model.fit(X, y))
            found = attack(release, None, limit, seed)
            what, floor = f"{pairs} pairs", "below the baseline, marginals met"
            if found is None:
                yield line(what, seed, "no answer", floor, False)
                continue
            true = in_model_columns(release, X)[0]
            own = found.X[list(true)]
            error = reconstruction_error(own, true, found.schema)
            best = min(_baselines(true, found.schema, seed))
            met = check_rows(release, own.to_numpy(), None).ok
            said = f"error {error:.3f}, baseline {best:.3f}, misfit {found.misfit:g}"
            yield line(what, seed, said, floor, met and error < best)


def _baselines(true: pd.DataFrame, schema: Schema, seed: int) -> Iterator[float]:
    """Errors of random rows, of shuffled columns, and of rows mixed of the ten most like each."""
    rng = np.random.default_rng(seed)
    yield random_baseline(true, schema, 20, seed).mean
    shuffled = true.apply(lambda column: rng.permutation(column.to_numpy()))
    mixed = mixed_from(true, schema, nearest_others(true, schema), rng)
    for guess in (shuffled, mixed):
        yield reconstruction_error(guess, true, schema)


# ------------------------------------------------------------------ survival and quantile forests

SURVIVAL: Mapping[str, tuple[str, str, str]] = {
    "GBSG2": ("load_gbsg2", "cens", "time"),
    "WHAS500": ("load_whas500", "fstat", "lenfol"),
    "veterans": ("load_veterans_lung_cancer", "Status", "Survival_in_days"),
}
"""Tables of scikit-survival: what loads them, and where event and time stand."""


def of_survival(seeds: range, *_: float) -> Iterator[Line]:
    """What default survival and quantile forests disclose of each numbered row."""
    from quantile_forest import RandomForestQuantileRegressor
    from sksurv import datasets
    from sksurv.ensemble import RandomSurvivalForest

    for seed in seeds:
        for name, (load, event, time) in SURVIVAL.items():
            X, y = getattr(datasets, load)()
            X = pd.get_dummies(X).astype(float)
            forest = RandomSurvivalForest(random_state=seed).fit(X, y)
            yield from outcomes(name, seed, to_release(forest), y[event], y[time])
            quantiles = RandomForestQuantileRegressor(random_state=seed).fit(X, y[time])
            facts = to_release(quantiles).row_facts
            right = 0 if facts is None else int((facts.targets == y[time]).sum())
            yield all_of(f"{name}, quantile forest: targets", seed, right, len(X))
            if facts is not None:
                told = facts.leaves != NOT_TOLD
                right = int((facts.leaves == quantiles.apply(X).T)[told].sum())
                yield all_of(f"{name}, quantile forest: members", seed, right, int(told.sum()))


def outcomes(name: str, seed: int, release: Release, event: Any, time: Any) -> Iterator[Line]:
    """Event times and status of all rows in order; nothing false may be among them."""
    facts = release.row_facts
    if facts is None or not facts.in_order:
        yield at_least(f"{name}: event times", seed, None, 0.9)
        return
    exact, left = facts.exact, facts.censored
    right = exact & event & (facts.targets == time)
    status = int((exact & event).sum() + (left & ~event).sum())
    false = int((exact & ~right).sum() + (left & event).sum())
    said = f", {false} false"
    for one in (
        at_least(f"{name}: event times", seed, right.sum() / event.sum(), 0.9, said),
        at_least(f"{name}: status", seed, status / len(event), 0.9, said),
    ):
        yield one | {"met": one["met"] and not false}


# --------------------------------------------------------------- other files of boosted models


def same_rows(one: Path, other: Path, limit: float) -> float | None:
    """Share of the rows rebuilt from one file that are rebuilt from another one, too.

    In the columns that both name: a dump has only those that trees test, an old binary has numbers.
    """
    first, second = (attack(model, None, limit) for model in (one, other))
    if first is None or second is None or len(first.X) != len(second.X):
        return None
    names = [c for c in first.X if c in second.X]
    if not names:
        return exact_row_share(first.X.to_numpy(), second.X.to_numpy())
    return exact_row_share(first.X[names], second.X[names])


def of_boosters(seeds: range, limit: float, _: int) -> Iterator[Line]:
    """Dumps and old binaries beside native files; CatBoost with texts."""
    warnings.simplefilter("ignore")
    for version in ("1.2.1", "1.7.6"):
        old = MODELS / "printed" / f"xgboost-{version}"
        share = same_rows(old / "logistic.json", old / "logistic.model", limit)
        yield at_least(f"XGBoost {version}: old binary beside JSON", "", share, 1)
    for seed in seeds:
        X, y, _ = rows_of("compas", 200, seed)
        with tempfile.TemporaryDirectory() as folder:
            for what, native, dump in _dumps(Path(folder), seed, X, y):
                share = same_rows(native, dump, limit)
                yield at_least(f"{what}, 200 rows", seed, share, 1)
        X, y = table("adult", 300, seed)
        texts = [c for c in X if not pd.api.types.is_numeric_dtype(X[c])]
        model = unfitted("CatBoostClassifier", random_seed=seed, cat_features=texts).fit(X, y)
        found = treeleak.audit(model, X, y, time_limit=limit, seed=seed)
        what = "CatBoost with texts, 300 rows of adult"
        yield line(what, seed, found.verdict, "decided", found.verdict != OPEN)


def _dumps(place: Path, seed: int, X: pd.DataFrame, y: Any) -> Iterator[tuple[str, Path, Path]]:
    """Write models of LightGBM and XGBoost as they are, and printed."""
    booster = unfitted("LGBMClassifier", random_state=seed).fit(X, y).booster_
    booster.save_model(place / "l.txt")
    (place / "l.json").write_text(json.dumps(booster.dump_model()))
    yield "LightGBM: dump beside text", place / "l.txt", place / "l.json"
    booster = unfitted("XGBClassifier", random_state=seed).fit(X, y).get_booster()
    booster.save_model(place / "x.json")
    booster.dump_model(place / "x.printed.json", with_stats=True, dump_format="json")
    yield "XGBoost: JSON dump beside JSON", place / "x.json", place / "x.printed.json"


# --------------------------------------------------------------------------------------- the run

Part = Callable[[range, float, int], Iterator[Line]]
PARTS: Mapping[str, tuple[Part, tuple[str, ...]]] = {
    "r": (of_r, ()),
    "ydf": (of_ydf, ("ydf", "lightgbm")),
    "ebm": (of_ebm, ("interpret",)),
    "survival": (of_survival, ("sksurv", "quantile_forest")),
    "boosters": (of_boosters, ("lightgbm", "xgboost", "catboost")),
}
"""What each part runs, and the libraries that it needs."""


def main(args: Sequence[str]) -> int:
    """Print a table for each part; 1 if a floor is missed."""
    given = options(
        "formats", __doc__, args, parts=list(PARTS), seeds=range(2), time_limit=60.0, models=100,
    )  # fmt: skip
    met = True
    for name in given.parts:
        run, needs = PARTS[name]
        if missing := [module for module in needs if find_spec(module) is None]:
            CONSOLE.print(f"{name} skipped: {', '.join(missing)} not installed")
            continue
        lines: list[Line] = []
        try:
            for one in run(given.seeds, given.time_limit, given.models):
                lines.append(one)
                progress(one["what"])
        except KeyboardInterrupt:
            met = False
        finally:
            met &= show(f"{name}: time limit {given.time_limit:g} s", lines)
    return int(not met)
