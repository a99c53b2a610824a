"""Random models of random tables, over all settings of four libraries: no proof may be wrong.

Each seed makes a table, a model and an attack, and holds all that the answer claims as proved
against the training rows: rows and values that are proved, "unique", "infeasible", the number of
rows. Part of the models is audited as well. Errors that treeleak raises on purpose are counted by
their reason; any other is a crash. A seed that was found is repeated by itself: ``--seeds 17``.
"""

from __future__ import annotations

import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

import treeleak
from experiments.benchmarks.frame import CONSOLE, Lost, floor, in_processes, options
from experiments.benchmarks.random_settings import Trained, trained
from treeleak.auditing.assessors.isolation import proved_alone
from treeleak.core.arrays import BoolArray
from treeleak.core.errors import TreeleakError
from treeleak.reconstruction import Reconstruction
from treeleak.release import to_release
from treeleak.release.infer_schema import infer_schema

_SECONDS = (2.0, 3.0, 4.0)
"""Time limits, by chance."""
_AUDITS = 0.25
"""Share of models that are audited after the attack."""
_ROUNDED = 1e-6
"""Share by which single precision may move a value or a target."""


@dataclass(frozen=True)
class Outcome:
    """What became of a seed."""

    seed: int
    model: str
    end: str
    """A status, the kind of a refusal, or "crash"."""
    proved: int = 0
    """Rows that are proved."""
    wrong: tuple[str, ...] = ()
    said: str = ""


def run(seed: int) -> Outcome:
    """Train, attack, and compare what is proved."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([seed, 1])
    try:
        case = trained(seed)
    except Exception as why:  # the library refuses the settings
        return Outcome(seed, "", "not trained", said=f"{type(why).__name__}: {why}")
    limit, end, proved = float(rng.choice(_SECONDS)), "", 0
    wrong: list[str] = []
    try:
        release = to_release(case.model)
        schema = infer_schema(release, case.X) if rng.random() < 0.5 else None
        found = treeleak.reconstruct(release, schema, time_limit=limit, seed=seed)
        end, proved = found.status, 0 if found.proved is None else int(found.proved.sum())
        wrong = faults(found, case)
    except TreeleakError as why:
        end = f"{type(why).__name__}: {str(why)[:60]}"
    except Exception:
        return Outcome(seed, case.named, "crash", said=traceback.format_exc())
    if rng.random() < _AUDITS:
        try:
            given = (case.X, case.y) if rng.random() < 0.5 else ()
            treeleak.audit(case.model, *given, time_limit=limit, on_mismatch="report")
        except TreeleakError:
            pass
        except Exception:
            return Outcome(seed, case.named, "crash", said=traceback.format_exc())
    return Outcome(seed, case.named, end, proved, tuple(wrong))


def faults(found: Reconstruction, case: Trained) -> list[str]:
    """Name what an answer claims as proved that is not so."""
    if found.status == "infeasible":
        return [f"infeasible: {found.contradiction}"]
    if found.X is None or found.confidence is None or found.proved is None:
        return []
    rows, n = _fitting(found, case), case.fitted
    wrong = []
    if found.status == "unique" and found.n_rows != n:
        wrong.append(f"unique, of {found.n_rows} rows, not {n}")
    low, high = (n, n) if found.row_count is None else found.row_count.between
    if found.row_count is not None and low == high != n:
        wrong.append(f"{low} rows are taken for certain, not {n}")
    claims = {
        "proved rows": (np.flatnonzero(found.proved), rows.whole),
        "proved values": (np.flatnonzero(rows.claims), rows.values),
    }
    for name, (own, fits) in claims.items():
        if found.ordered:
            missed = int((~fits[own, own]).sum()) if len(own) and max(own) < len(case.X) else 0
        else:
            pairs = maximum_bipartite_matching(csr_array(fits[own]), perm_type="column")
            missed = int((pairs < 0).sum())
        if missed:
            wrong.append(f"{missed} of {len(own)} {name} are wrong ({found.status})")
    if found.ordered or n < len(case.X):
        return wrong  # There, rows are alone among those that were rebuilt.
    alone = proved_alone(found, to_release(case.model))
    # A row of no weight leaves no trace in a model, and takes from nobody that they are alone.
    there = np.ones(n, dtype=bool) if case.weights is None else np.asarray(case.weights) > 0
    if together := int((rows.place[alone][:, there].sum(axis=1) > 1).sum()):
        wrong.append(f"{together} of {alone.sum()} rows called alone are not ({found.status})")
    return wrong


@dataclass(frozen=True)
class _Fitting:
    """Which true rows each rebuilt row may be."""

    whole: BoolArray
    """Shape (n_rows, n_true). In its cell: the leaf of every tree, and the label."""
    values: BoolArray
    """The same, in the values alone that are proved."""
    claims: BoolArray
    """Shape (n_rows,). Whether any of its values are."""
    place: BoolArray
    """Shape (n_rows, n_true). In the same leaf of every tree, with the label, whatever the schema
    allows."""


def _fitting(found: Reconstruction, case: Trained) -> _Fitting:
    assert found.X is not None
    assert found.confidence is not None
    assert found.lower is not None
    assert found.upper is not None
    shape = (found.n_rows, len(case.X))
    values = np.ones(shape, dtype=bool)
    claims = np.zeros(found.n_rows, dtype=bool)
    kinds: dict[str, Any] = {c: a for a in found.schema.attributes for c in a.columns}
    beyond = np.zeros(len(case.X), dtype=bool)
    for name in found.X.columns:
        true = case.X[name].to_numpy(dtype=float)
        kind = kinds[name]
        # Without a schema, a column that is cut at 0.5 alone is taken for one of 0 and 1, and no
        # value for missing where no test asks for that. Answers say so.
        outside = np.isnan(true) & (not getattr(kind, "missing", False))
        beyond |= outside
        if kind.kind == "binary" and not set(true[~np.isnan(true)]) <= {0.0, 1.0}:
            true = np.where(np.isnan(true), true, true > 0.5)
        low, high = (np.asarray(t[name], dtype=float)[:, None] for t in (found.lower, found.upper))
        near = _ROUNDED * np.abs(true)
        fits = (
            (low <= true + near) & (true - near <= high)
            | (np.isnan(low) & np.isnan(true))
            | outside
        )
        sure = found.confidence[name].to_numpy() == 1.0
        claims |= sure
        values &= fits | ~sure[:, None]
    leaves, true_leaves = (case.leaves(X[list(case.X.columns)]) for X in (found.X, case.X))
    whole = (leaves[:, None] == true_leaves[None]).all(axis=2)
    place = whole.copy()
    # A row with values that no row of the schema has is in none of its cells: values alone count.
    whole[:, beyond] = values[:, beyond]
    if found.y is not None and found.label_confidence is not None:
        sure = found.label_confidence.to_numpy() == 1.0
        fits = _same_labels(found.y, case.y)
        values &= fits | ~sure[:, None]
        claims |= sure
        if found.labelled:
            whole &= fits
            place &= fits
    return _Fitting(whole, values, claims, place)


def _same_labels(said: Any, true: Any) -> BoolArray:
    if said.name == "label":
        return np.asarray(said.astype(str).to_numpy()[:, None] == np.asarray(true).astype(str))
    a, b = said.to_numpy(dtype=float)[:, None], np.asarray(true, dtype=float)
    return np.asarray(np.abs(a - b) <= 1e-4 * max(np.ptp(b), 1e-12))


def main(args: Sequence[str]) -> int:
    """Run what the command line asks for; 1 if a proof was wrong or anything crashed."""
    given = options("random_models", __doc__, args, seeds=range(2000), jobs=2)
    ends: Counter[str] = Counter()
    bad = proved = 0
    for seed, found in in_processes(run, given.seeds, given.jobs):
        outcome = Outcome(seed, "", "crash", said=found.why) if isinstance(found, Lost) else found
        ends[outcome.end] += 1
        proved += outcome.proved
        bad += bool(outcome.wrong)
        if outcome.wrong or outcome.end == "crash":
            CONSOLE.print(f"--seeds {outcome.seed}: {outcome.model}: {outcome.end}", markup=False)
            for line in (*outcome.wrong, *outcome.said.strip().splitlines()[-6:]):
                CONSOLE.print(f"    {line}", markup=False)
    for end, times in ends.most_common():
        CONSOLE.print(f"{times:6,}  {end}", markup=False)
    total, crashes = sum(ends.values()) - ends["not trained"], ends["crash"]
    said = f"wrong proofs {bad} of {total:,} models, {proved:,} rows proved; crashes {crashes}"
    return int(not floor(said, not bad and not crashes))
