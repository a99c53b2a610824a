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
from importlib.util import find_spec
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import treeleak
from experiments.benchmarks.options import Options
from experiments.benchmarks.records import Record, Records, flat
from experiments.benchmarks.tables import CONSOLE, depth_name, new_table, title, verdict
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


def floor_table(found: list[Record]) -> int:
    """Print a line for each kind, table and depth; say how many miss a floor."""
    runs = flat(found)
    runs = runs.assign(depth=[depth_name(d) for d in runs.depth])
    out = new_table(
        title("membership, as many others as members", runs),
        "evidence, dataset, depth, runs, s median, AUC, (95 %), TPR at 1%, at 0.1%, advantage, "
        "ECE, by chance, LiRA: AUC, TPR at 1%, threshold: AUC, met",
        left="evidence, dataset, met",
    )
    all_off, misses = [], 0
    for (kind, dataset, depth), own in runs.groupby(["kind", "dataset", "depth"], sort=False):
        ours, theirs, plain = (pooled(own, score) for score in SCORES)
        area, other, off = auc(*ours), auc(*theirs), calibration(*ours)
        at = [caught(*ours, share) for share in FALSE_POSITIVES]
        gain = advantage(*ours, np.random.default_rng(0))
        met = off.error <= ECE and area.value >= other.value
        all_off.append(off)
        misses += not met
        out.add_row(
            kind, dataset, depth, str(len(own)), f"{own.seconds.median():.1f}",
            f"{area.value:.3f}", "{:.3f}-{:.3f}".format(*area.interval),
            *(f"{c.share:.1%}" if c.assessed else "" for c in at), f"{gain.value:.1%}",
            f"{off.error:.3f}", f"{off.by_chance:.3f}", f"{other.value:.3f}",
            f"{caught(*theirs, 0.01).share:.1%}",
            f"{auc(*plain).value:.3f}", verdict(met),
        )  # fmt: skip
    CONSOLE.print(out)
    mean, chance = (float(np.mean([getattr(off, name) for off in all_off]))
                    for name in ("error", "by_chance"))  # fmt: skip
    CONSOLE.print(
        f"ECE {mean:.3f} on average (floor {MEAN_ECE:g}), {chance:.3f} of right probabilities by "
        f"chance: {verdict(mean <= MEAN_ECE)}; {misses} of {len(all_off)} lines miss a floor (ECE "
        f"{ECE:g}, AUC not below LiRA's)"
    )
    return misses


def main(args: Sequence[str]) -> None:
    parser = Options("membership", __doc__, seeds="0-4", at_once=1)
    parser.add_argument("--kind", nargs="+", choices=KINDS, help="of evidence (default: all)")
    parser.add_argument("--table", nargs="+", choices=DATASETS, default=DATASETS)
    parser.add_argument("--time-limit", type=float, default=LIMIT)
    asked = parser.parse_args(args)
    there = [kind for kind in KINDS if kind != "xgboost" or find_spec("xgboost") is not None]
    for absent in set(KINDS) - set(there):
        CONSOLE.print(f"lines of {absent} skipped: pip install 'treeleak[{absent}]'")
    kinds = [kind for kind in asked.kind or KINDS if kind in there]
    store = Records("membership", asked.fresh, asked.out)
    wanted = cases(kinds, asked.table, asked.seeds, asked.time_limit)
    floor_table(store.collect(wanted, run, warm, lambda _: False, asked.at_once))
