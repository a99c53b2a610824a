"""How the cut of each node was searched for, where the order of columns can be replayed."""

from __future__ import annotations

from treeleak.core.private import dataclass


@dataclass(frozen=True)
class Splitting:
    """Settings of scikit-learn's splitter ``best`` in trees that grow depth first.

    Attributes
    ----------
    most_columns : int
        Columns that a node looks at, if one of them parts its rows.
    least_rows : int
        Rows below which a node is not split.
    deepest : int or None
        Level below which no node is split; the root is at level 0.
    """

    most_columns: int
    least_rows: int = 2
    deepest: int | None = None
