"""Membership: is a person in the training set? Beside LiRA and a threshold on the confidence.

In each run 100 people of a table train a model, and 200 others are asked about as well; both sides
weigh the same, as in a game with as many others as members. The attack sees the model and the
schema alone. LiRA (offline, 32 shadow models) has 1,200 more people of the same table beside, and
their labels. A line pools its seeds: AUC with an interval of 95 % (DeLong), members recognised at
1 % and 0.1 % false positives, the advantage, and the calibration error (ECE): how far probabilities
are from shares, over ten bins, beside what right probabilities would show of as many people.

Floors: ECE at most 0.05 in each line and 0.03 on average, and an AUC not below LiRA's.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import treeleak
from experiments.benchmarks.frame import (
    Record,
    collect,
    flat,
    floor,
    options,
    present,
    said_of,
    show,
)
from experiments.benchmarks.published import depth_name
from experiments.data import DATASETS, draft
from experiments.draft_tables import draft_sample
from experiments.lira import confidence, lira
from treeleak.core.arrays import FloatArray
from treeleak.core.errors import PrivacyWarning
from treeleak.learn import DPForestClassifier
from treeleak.metrics.membership import FALSE_POSITIVES, advantage, auc, calibration, caught

N_ROWS, OTHERS, ALL = 100, 200, 1500
ECE, MEAN_ECE = 0.05, 0.03
LIMIT = 10.0
TREES, NOISY_TREES, EPSILON, DEEP = 100, 10, 10.0, 7
"""Of forests; of forests with noise, whose trees share epsilon and are at most so deep."""
SCORES = ("ours", "lira", "threshold")

Kind = Literal["exact", "hidden", "noise", "boosted", "xgboost"]
KINDS: tuple[Kind, ...] = ("exact", "hidden", "noise", "boosted", "xgboost")


@dataclass(frozen=True)
class Case:
    """One model."""

    kind: Kind
    dataset: str
    depth: int | None
    seed: int
    time_limit: float = LIMIT
    n_rows: int = N_ROWS


def fitted(case: Case, X: pd.DataFrame, y: pd.Series[Any], seed: int) -> Any:
    """Train the model of a case, or one like it, on rows."""
    if case.kind == "exact":
        model = RandomForestClassifier(
            TREES, max_depth=case.depth, bootstrap=False, random_state=seed
        )  # fmt: skip
    elif case.kind == "hidden":
        model = RandomForestClassifier(TREES, max_depth=case.depth, random_state=seed)
    elif case.kind == "boosted":
        model = HistGradientBoostingClassifier(max_depth=case.depth)
    elif case.kind == "xgboost":
        from xgboost import XGBClassifier

        model = XGBClassifier(max_depth=case.depth or 0, n_jobs=1)
    else:
        model = DPForestClassifier(
            NOISY_TREES, case.depth or DEEP, EPSILON, schema=draft(case.dataset).schema,
            classes=(0, 1), mechanism="draft-dp", random_state=seed,
        )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return model.fit(X, y)


def people(case: Case) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Members, others that are asked about, and more people of the same table, with labels."""
    X, y = draft_sample(draft(case.dataset), ALL, case.seed)
    table = X.assign(label=y).reset_index(drop=True)
    ends = case.n_rows, case.n_rows + OTHERS
    parts = table[: ends[0]], table[ends[0] : ends[1]], table[ends[1] :]
    return tuple(part.reset_index(drop=True) for part in parts)  # type: ignore[return-value]


def attacked(case: Case, model: Any) -> treeleak.Reconstruction:
    """Rebuild the rows."""
    told: dict[str, Any] = {"n_rows": case.n_rows} if case.kind == "noise" else {}
    if case.kind == "hidden":
        told["bootstrap"] = "hidden"
    return treeleak.reconstruct(
        model, draft(case.dataset).schema, time_limit=case.time_limit, seed=case.seed, **told
    )


def run(case: Case) -> Record:
    """Train, attack, and score all that are asked about in three ways."""
    members, others, pool = people(case)
    fit = partial(fitted, case)
    model = fit(members.drop(columns="label"), members["label"], case.seed)
    start = time.perf_counter()
    result = attacked(case, model)
    seconds = time.perf_counter() - start
    ours = [np.asarray(result.membership(part, 0.5)) for part in (members, others)]
    theirs = lira(model, fit, pool, "label", case.n_rows, (members, others), case.seed)
    plain = [confidence(model, part.drop(columns="label"), part["label"])
             for part in (members, others)]  # fmt: skip
    outcome: Record = {"status": result.status, "seconds": seconds}
    for name, (inside, outside) in zip(SCORES, (ours, theirs, plain), strict=True):
        outcome[f"members_{name}"] = inside.round(5).tolist()
        outcome[f"others_{name}"] = outside.round(5).tolist()
    return outcome


def cases(
    kinds: Iterable[Kind], tables: Iterable[str], seeds: Iterable[int], limit: float
) -> Iterator[Case]:
    """All runs: unlimited depth and depth 3."""
    for kind, dataset, depth, seed in product(kinds, tables, (None, 3), seeds):
        yield Case(kind, dataset, depth, seed, limit)


def warm(case: Case) -> Case:
    """A case that compiles what the case will use."""
    # Of fewer rows, XGBoost's leaves do not tell how they were fitted.
    return replace(case, n_rows=60, depth=2, seed=0)


def pooled(runs: pd.DataFrame, score: str) -> tuple[FloatArray, FloatArray]:
    """Scores of members and of others in all runs of a line."""
    inside, outside = (
        np.concatenate([np.asarray(own, dtype=float) for own in runs[f"{side}_{score}"]])
        for side in ("members", "others")
    )
    return inside, outside


def floor_table(found: list[Record]) -> bool:
    """Print a line for each kind, table and depth; say whether all floors are met."""
    runs = flat(found)
    runs = runs.assign(depth=[depth_name(d) for d in runs.depth])
    lines, errors = [], []
    for key, own in runs.groupby(["kind", "dataset", "depth"], sort=False):
        ours, theirs, plain = (pooled(own, score) for score in SCORES)
        area, other, off = auc(*ours), auc(*theirs), calibration(*ours)
        at = {f"TPR at {share:.1%}": caught(*ours, share) for share in FALSE_POSITIVES}
        errors.append((off.error, off.by_chance))
        lines.append(dict(zip(("evidence", "dataset", "depth"), key, strict=True)) | {
            "runs": len(own), "s": own.seconds.median(), "AUC": area.value,
            "(95 %)": "{:.3f}-{:.3f}".format(*area.interval),
            **{name: c.share if c.assessed else None for name, c in at.items()},
            "advantage": advantage(*ours, np.random.default_rng(0)).value, "ECE": off.error,
            "by chance": off.by_chance, "LiRA: AUC": other.value,
            "LiRA: TPR at 1.0%": caught(*theirs, 0.01).share, "threshold: AUC": auc(*plain).value,
            "met": off.error <= ECE and area.value >= other.value,
        })  # fmt: skip
    met = show(f"membership, as many others as members: {said_of(runs)}", lines)
    mean, chance = np.mean(errors, axis=0)
    return met & floor(
        f"ECE {mean:.3f} on average (floor {MEAN_ECE:g}), {chance:.3f} of right probabilities by "
        "chance", mean <= MEAN_ECE,
    )  # fmt: skip


def main(args: Sequence[str]) -> int:
    given = options(
        "membership", __doc__, args, kept=True, seeds=range(5), at_once=1, kind=list(KINDS),
        table=list(DATASETS), time_limit=LIMIT,
    )  # fmt: skip
    kinds = present(given.kind, lambda k: import_module("xgboost") if k == "xgboost" else None)
    wanted = cases(kinds, given.table, given.seeds, given.time_limit)
    found = collect("membership", wanted, run, warm, given, at_once=given.at_once)
    return int(not floor_table(found))
