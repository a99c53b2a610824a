"""People isolated by counts alone: whether each claim holds, and how light its predicate is.

``random``: random models of four libraries on random tables, without weights of rows: no claim may
be false. ``adult``: usual models on raw Adult; people isolated, people expected to meet a predicate
before and after other trees narrowed it, and seconds.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

import treeleak
from experiments.benchmarks.frame import floor, options, show
from experiments.benchmarks.random_settings import trained
from experiments.libraries import unfitted
from treeleak.claims.check import Checked, check_claims
from treeleak.claims.find import Claims, find_claims
from treeleak.core.errors import TreeleakError
from treeleak.release import Release, to_release
from treeleak.release.draws.seeds import known_draws

SECONDS = 30.0
PEOPLE = {"lightgbm": 45, "lightgbm, 500 rounds": 324}
"""People isolated on 5,000 rows that are the floor."""


def main(argv: Sequence[str] = ()) -> int:
    given = options(
        "claims", __doc__, argv, parts=("random", "adult"), seeds=range(240), rows=5_000,
        models=list(_SETTINGS),
    )  # fmt: skip
    met = "random" not in given.parts or random_models(given.seeds)
    return int(not met or ("adult" in given.parts and not adult(given.rows, given.models)))


def random_models(seeds: Sequence[int]) -> bool:
    """Hold the claims of random models against their training rows."""
    warnings.simplefilter("ignore")
    models = claims = by_difference = narrowed = wrong = refused = 0
    for seed in seeds:
        try:
            case = trained(seed, weighted=False)
        except Exception:
            refused += 1
            continue
        try:
            release = to_release(case.model)
            found = find_claims(release, missing=frozenset(case.X.columns[case.X.isna().any()]))
        except TreeleakError:
            refused += 1
            continue
        models += 1
        checked = checked_of(found, release, case.X, case.y)
        claims += len(found.node)
        by_difference += int((found.other >= 0).sum())
        narrowed += int((found.weight < 0.99 * found.at_first).sum())
        if false := int((~checked.true).sum()):
            wrong += false
            print(f"seed {seed}, {case.named}: {false} of {len(found.node)} are false")
    return floor(
        f"{models} models ({refused} without exact counts, or not trained): {claims:,} claims, "
        f"{by_difference:,} of them differences, {narrowed:,} narrowed; false: {wrong}",
        not wrong,
    )


def checked_of(found: Claims, release: Release, X: pd.DataFrame, y: Any) -> Checked:
    draws = None
    if not found.counted.all_rows:
        with suppress(TreeleakError):
            draws = known_draws(release, seed_search=0).counts
        if draws is not None and draws.shape != (len(release.trees), len(X)):
            draws = None
    labels = None
    if len(release.classes) > 1:
        numbers = release.class_numbers(np.ravel(np.asarray(y, dtype=object)))
        labels = None if (numbers < 0).any() else numbers
    rows = X[list(release.feature_names)] if set(release.feature_names) <= set(X.columns) else X
    return check_claims(found, rows.to_numpy(dtype=float), labels, draws)


_SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "lightgbm": ("LGBMClassifier", {}),
    "lightgbm, 500 rounds": ("LGBMClassifier", {"n_estimators": 500, "learning_rate": 0.05}),
    "catboost": ("CatBoostClassifier", {}),
    "one tree": ("DecisionTreeClassifier", {}),
    "forest": ("RandomForestClassifier", {"n_jobs": 2}),
    "forest, all rows": ("RandomForestClassifier", {"bootstrap": False, "n_jobs": 2}),
    "extra trees": ("ExtraTreesClassifier", {"n_jobs": 2}),
    "histogram boosting": ("HistGradientBoostingClassifier", {"random_state": 0}),
}


def seen_by(model: Any, X: pd.DataFrame, y: Any) -> tuple[pd.DataFrame, Any]:
    """Leave out the rows that early stopping held back, of which claims say nothing."""
    if not getattr(model, "do_early_stopping_", False):
        return X, y
    # scikit-learn draws the split's seed first (HistGradientBoosting, fit).
    seed = check_random_state(model.random_state).randint(np.iinfo(np.uint32).max, dtype="u8")
    share = model.validation_fraction
    fitted, _, labels, _ = train_test_split(X, y, test_size=share, stratify=y, random_state=seed)
    return fitted, labels


def raw_adult(n: int) -> tuple[pd.DataFrame, Any, pd.DataFrame, Any]:
    """Draw rows of raw Adult, its categories as codes: rows, their labels, and all others' too."""
    data = treeleak.datasets.load_adult()
    table = coded(data.raw)
    order = np.random.default_rng(0).permutation(len(table))
    y = np.asarray(pd.factorize(data.y)[0])[order]
    return table.iloc[order[:n]], y[:n], table.iloc[order[n:]], y[n:]


def coded(X: pd.DataFrame) -> pd.DataFrame:
    """Write categories as codes."""
    texts = [c for c in X if not pd.api.types.is_numeric_dtype(X[c])]
    return X.assign(**{c: X[c].astype("category").cat.codes for c in texts})


def adult(n: int, names: Sequence[str]) -> bool:
    """Isolate people of raw Adult, its categories as codes."""
    X, y, others, _ = raw_adult(n)
    lines = []
    for name in names:
        kind, settings = _SETTINGS[name]
        model = unfitted(kind, **settings).fit(X, y)
        release = to_release(model)
        find_claims(release, visits=1)  # Compiles what it needs.
        started = time.perf_counter()
        found = find_claims(release)
        took = time.perf_counter() - started
        checked = checked_of(found, release, *seen_by(model, X, y))
        fits = found.fits(found.partition.encode(others.to_numpy(float)), 1_000)[0]
        people = checked.everybody
        false = int((~checked.true).sum())
        least = PEOPLE.get(name, 0) if n == 5_000 else 0
        first, narrowed = (np.median(found.n_seen * w) for w in (found.at_first, found.weight))
        lines.append({
            "model": name, "seconds": took, "all": bool(found.complete), "predicates": found.found,
            "differences": (found.other >= 0).sum(), "false": false, "people": people,
            "by difference": checked.people(found.other >= 0),
            "beyond luck": checked.people(found.beyond_luck), "expected": first,
            "narrowed": narrowed, "others": fits.mean(), "nobody else": (fits == 0).mean(),
            "met": not false and took <= SECONDS and people >= least,
        })  # fmt: skip
    return show(
        f"{n:,} rows of raw Adult, {len(others):,} others", lines,
        "people: isolated by a leaf of one person, or by one of the 4,000 lightest predicates, to "
        "which all else refers; expected, narrowed: people expected to meet a predicate, in the "
        "median, before and after other trees narrowed it.",
    )  # fmt: skip
