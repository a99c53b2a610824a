"""The rebuilt rows beside the true ones, for the internal edition alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from treeleak.auditing import Audit, Exposure, NearLeaf
from treeleak.core.listed import free_name
from treeleak.core.percent import percent
from treeleak.core.plain import plain, shortened
from treeleak.reconstruction import Reconstruction
from treeleak.report.blocks import Pages, Prose, Section

ROOM = 8_000_000
"""Letters that the rows may take in the file."""
LONGEST = 200
"""Letters of one value."""
LONGEST_NAME = 80
"""Letters of a column's name above it."""
LONGEST_PLACE = 400
"""Letters that say where a leaf lies."""


def most_exposed(audit: Audit) -> Section | None:
    """List the rebuilt rows, the most exposed first, with the leaves that expose them."""
    rebuilt, exposure = audit.reconstruction, audit.exposure
    if rebuilt is None or rebuilt.X is None or exposure is None or rebuilt.X.empty:
        return None
    X = rebuilt.X
    if (y := rebuilt.outcomes) is not None:
        X = X.assign(**{free_name(str(y.name), X): y})
    true = None if audit.truth is None else audit.truth.X
    values, codes, true_codes = _coded(X, true)
    ordered = _places(audit, rebuilt, exposure)
    leaves: dict[tuple[str, str], int] = {}
    rows: list[Any] = []
    size = sum(len(v) for column in values for v in column)
    for place, (row, matched, wrong, sure, proved) in enumerate(ordered):
        leaves_of_row = exposure.leaves[place] if place < len(exposure.leaves) else ()
        named = [leaves.setdefault(_named(leaf), len(leaves)) for leaf in leaves_of_row]
        shown, differs = codes[row].tolist(), list[int]()
        if true_codes is not None and matched is not None:
            right = [*true_codes[matched].tolist(), *shown[true_codes.shape[1] :]]
            for c, (mine, others) in enumerate(zip(shown, right, strict=True)):
                if mine != others:
                    differs += [c, mine]
            shown = right
        number = "–" if matched is None else f"{matched + 1:,}"
        facts = [f"{row + 1:,}", number, "–" if wrong is None else f"{wrong:,}",
                 "–" if sure is None else percent(sure), "yes" if proved else "no"]  # fmt: skip
        size += sum(len(f) + 3 for f in facts) + 2 * sum(len(str(c)) for c in (*shown, *differs))
        if size + sum(len(name) + len(where) for name, where in leaves) > ROOM:
            break
        rows.append([facts, shown, differs, named])
    heads = ["Rebuilt row", "Training row", "Wrong values", "Least sure value", "Proved"]
    last = ["Leaves that expose it"] * bool(leaves)
    data = {
        "columns": [*heads, *(shortened(str(c), LONGEST_NAME) for c in X), *last],
        "rows": rows,
        "values": values,
        "leaves": list(leaves) or None,
    }
    beside = ", beside the training rows" if true is not None else ""
    blocks = [
        Prose(
            f"The rebuilt rows{beside}, the most exposed first. Rows are numbered from 1; a "
            "mark shows each wrong value, with the true one after it. The leaves are the "
            "smallest ones that hold the row."
        )
    ]
    if len(rows) < len(X):
        blocks.append(Prose(f"The first {len(rows):,} of {len(X):,} rows: the others do not fit in "
            "this file. --json --internal has all.", quiet=True))  # fmt: skip
    table = Pages("Rebuilt rows, the most exposed first", data, len(rows))
    return Section.of("rows", "Most exposed rows", [*blocks, table])


def _named(leaf: NearLeaf) -> tuple[str, str]:
    rows = f"{leaf.rows:,} row{'s' * (leaf.rows != 1)}"
    return f"tree {leaf.tree}, leaf {leaf.leaf}: {rows}", shortened(leaf.conditions, LONGEST_PLACE)


def _coded(
    X: pd.DataFrame, true: pd.DataFrame | None
) -> tuple[list[list[str]], np.ndarray[Any, Any], np.ndarray[Any, Any] | None]:
    """Number the values of each column: most of them stand many times."""
    values, mine, others = [], [], []
    for name in X:
        numbers, column = X[name], X[name]
        if true is not None and name in true:
            column = pd.concat([numbers, true[name]], ignore_index=True)
        codes, found = pd.factorize(column, use_na_sentinel=False)
        values.append([_value(v) for v in found])
        mine.append(codes[: len(numbers)])
        if true is not None and name in true:
            others.append(codes[len(numbers) :])
    return values, np.column_stack(mine), np.column_stack(others) if others else None


def _value(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return "missing" if np.isnan(value) else f"{value:.10g}"
    return plain(str(value)[:LONGEST])


Place = tuple[int, int | None, int | None, float | None, bool]


def _places(audit: Audit, rebuilt: Reconstruction, exposure: Exposure) -> list[Place]:
    """Number, matched row and how sure: those that the audit tells of first, then the others."""
    table = exposure.rows

    def whole(number: float) -> int | None:
        return None if pd.isna(number) else int(number)

    ordered: list[Place] = [
        (int(row), whole(matched), whole(wrong), float(sure), bool(proved))
        for row, matched, wrong, sure, proved in table[
            ["row", "matched", "wrong", "sure", "proved"]
        ].itertuples(index=False)
    ]
    proved, n = rebuilt.proved, rebuilt.n_rows
    compared = rebuilt.ordered and audit.truth is not None and len(audit.truth.X) == n
    for row in sorted({*range(n)} - {row for row, *_ in ordered}):
        sure = proved is not None and bool(proved.iloc[row])
        ordered.append((row, row if compared else None, None, None, sure))
    return ordered
