"""Scores: rows of attacks against the truth, beside baselines; and the board that sums them up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.store import Run, Store, store_file
from experiments.zoo.make import Entry, Truth, entries, read_rows, truth_of
from experiments.zoo.run import AUDIT, ROWS, STUDY, Case, rows_file
from treeleak.core.errors import BadInput, TreeleakError
from treeleak.metrics import exact_row_share, random_baseline, reconstruction_error, same_size
from treeleak.metrics.matching import best_matching, paired_distances, part_errors, right_values
from treeleak.schema import Categorical, Schema

POPULATION = "population"
"""The attack of somebody who has other rows of the table, and no model."""
_DRAWS = 5
_SHARES = ("rows right", "rows exact", "in order")


def score(folder: Path) -> pd.DataFrame:
    """Score all runs of a zoo, a line for each file and attack.

    Error, matching and baselines are those of audits: rows are matched at the least distance, and a
    number is right within 1 % of its range. Rows too many or too few are cut or repeated.

    Raises
    ------
    BadInput
        If nothing was run yet.
    """
    runs = Store(store_file(folder)).runs(STUDY)
    if not runs:
        raise BadInput(f"{folder}: nothing was run; `python -m experiments zoo run {folder}` does")
    by_name: dict[str, dict[str, Run]] = {}
    # Rows are those of the last run of an attack: of the longest limit, if all were run in turn.
    for run in sorted(runs, key=lambda run: float(run.parameters["limit"])):
        by_name.setdefault(run.parameters["name"], {})[run.parameters["attack"]] = run
    lines: list[dict[str, Any]] = []
    for entry in entries(folder):
        if own := by_name.get(entry.name):
            lines += _scored(folder, entry, [*own.values()])
    return pd.DataFrame(lines)


def _scored(folder: Path, entry: Entry, runs: list[Run]) -> list[dict[str, Any]]:
    truth, schema = truth_of(folder, entry), entry.schema
    X, pool = in_codes(truth.rows, schema), in_codes(truth.control, schema)
    rng, n = np.random.default_rng(0), len(X)
    parts = [rng.permutation(len(pool))[:n] for _ in range(_DRAWS)] if len(pool) >= n else []
    about = {
        "file": entry.name, "family": entry.family, "kind": entry.kind, "table": entry.table,
        "form": entry.form, "n rows": n,
        "random": random_baseline(X, schema, 2 * _DRAWS).mean,
        "others": float(part_errors(X, pool, parts, schema).mean()) if parts else None,
    }  # fmt: skip
    lines = []
    if parts:
        other = truth.control.iloc[parts[0]].reset_index(drop=True)
        lines.append(about | {"attack": POPULATION, "end": ROWS, "seconds": 0.0}
                     | measured(other, truth, schema) | {"error": about["others"]})  # fmt: skip
    for run in runs:
        case, record = Case(**run.parameters), dict(run.record)
        line = about | {"attack": case.attack, "limit": case.limit} | record
        if record["end"] == ROWS:
            try:
                line |= measured(read_rows(rows_file(folder, case), schema), truth, schema)
            except (TreeleakError, OSError, ValueError, KeyError) as error:
                line |= {"end": "not rows of this table", "why": str(error)}
        lines.append(line)
    return lines


def measured(rows: pd.DataFrame, truth: Truth, schema: Schema) -> dict[str, Any]:
    """Hold rows against the training rows; labels do not count, as in DRAFT."""
    names, n = list(truth.rows.columns), len(truth.rows)
    whole = len(rows) == n
    rows = same_size(rows, n)
    own, true = in_codes(rows[names], schema), in_codes(truth.rows, schema)
    match = best_matching(own, true, schema)
    placed = right_values(paired_distances(own, true, schema), names, schema.attributes)
    return {
        "error": reconstruction_error(own, true, schema),
        "rows right": float(
            right_values(match.distance, names, schema.attributes).all(axis=1).mean()
        ),
        "rows exact": exact_row_share(own, true),
        "in order": float(placed.all(axis=1).mean()) if whole else 0.0,
    }


def in_codes(rows: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Write words as the codes that the schema has for them; others as none of these."""
    out = rows
    for a in schema.attributes:
        if isinstance(a, Categorical) and a.labels is not None:
            codes = dict(zip(a.labels, a.values, strict=True))
            own = rows[a.name].astype(str).map(codes).fillna(-1.0)
            out = out.assign(**{a.name: own.astype(float)})
    return out


def board(scores: pd.DataFrame) -> pd.DataFrame:
    """Sum up by family and attack; errors are means over the files that have rows.

    ``decided``: files of which an audit comes to a verdict other than "not assessed", in the line
    of treeleak. ``ratio``: error over that of other rows of the table, on the same files.
    """
    audits = scores[scores.attack == AUDIT].set_index("file")
    lines = []
    attacks = scores[scores.attack != AUDIT]
    for (family, attack), own in attacks.groupby(["family", "attack"], sort=False):
        rows = own[own.error.notna()]
        of = audits.reindex(own.file) if attack == "treeleak" and len(audits) else None
        lines.append({
            "family": family, "attack": attack, "files": len(own), "with rows": len(rows),
            "decided": None if of is None else int((of.end == "decided").sum()),
            "leak shown": None if of is None else int((of.verdict == "leak shown").sum()),
            "error": rows.error.mean(), "others": rows.others.mean(),
            "ratio": rows.error.sum() / rows.others.sum() if rows.others.sum() else None,
            **{name: own[name].fillna(0.0).mean() for name in _SHARES},
            "seconds": own.seconds.median(),
        })  # fmt: skip
    return pd.DataFrame(lines)


def reasons(scores: pd.DataFrame) -> pd.DataFrame:
    """List what is open, late or a fault: the files of which a reader wants to know why."""
    wrong = scores.get("wrong", pd.Series(index=scores.index, dtype=object))
    lines = []
    for line, faults in zip(scores.to_dict("records"), wrong, strict=True):
        odd = line["end"] not in (ROWS, "decided", "refused")
        if line["attack"] in (AUDIT, "treeleak") and line["end"] == "refused":
            odd = True
        if odd or (isinstance(faults, list) and faults):
            why = "; ".join(faults) if isinstance(faults, list) and faults else line["why"]
            shown = {k: line[k] for k in ("file", "table", "n rows", "attack", "end")}
            lines.append(shown | {"why": why})
    return pd.DataFrame(lines, columns=["file", "table", "n rows", "attack", "end", "why"])
