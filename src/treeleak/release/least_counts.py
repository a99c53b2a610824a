"""Counts that are known but for a factor, which the number of training rows gives."""

from __future__ import annotations

from dataclasses import replace

from treeleak.core.message import Message, MessageTemplate
from treeleak.release.adapters.sklearn.without_sizes import RESTORED
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows, Bootstrap

TIMES = MessageTemplate(
    "least_counts_times",
    "Of {rows:number} training rows, each count is {factor:number} times that least number.",
)


def rescale_weights_to_counts(release: Release, n_rows: int | None) -> Release:
    """Multiply counts that were worked out from class shares, so that they are of so many rows.

    Shares tell the least whole numbers that fit. A bootstrap is taken to draw as often as there are
    rows, which is what libraries do unless told otherwise. What fits no factor stays as it is.
    """
    restored = any(isinstance(n, Message) and n.code == RESTORED.code for n in release.notes)
    sampling = release.sampling
    open_ = isinstance(sampling, AllRows) or (
        isinstance(sampling, Bootstrap) and sampling.n_draws is None
    )
    if n_rows is None or not restored or not open_ or not release.trees:
        return release
    totals = release.trees[0].totals
    least = 0 if totals is None else int(totals[0])
    if not least or n_rows % least or n_rows == least:
        return release
    factor = n_rows // least
    trees = []
    for tree in release.trees:
        held = {name: getattr(tree, name) for name in ("counts", "totals")}
        more = {name: weights * factor for name, weights in held.items() if weights is not None}
        trees.append(tree.with_counts(None, **more))
    notes = (*release.notes, TIMES(rows=n_rows, factor=factor))
    number = None if release.n_rows is None else n_rows
    return replace(release, trees=tuple(trees), n_rows=number, notes=notes)
