"""How large a model may be: every bound, with its reason, checked before anything is built.

Real models stay far below: a forest of 1,000 trees with 100,000 nodes each is read. What lies
beyond would take hours or more memory than there is, long before it told anybody anything.
"""

from __future__ import annotations

from treeleak.core.errors import BadModel

MOST_JSON_BYTES = 2**29
"""Of a JSON file: a parser cannot be stopped half-way, and reads some 100 MB in a second."""

MOST_JSON_VALUES = 2**26
"""Numbers and texts in a JSON file: each takes up to 40 bytes once it is read."""

MOST_JSON_LISTS = 2**24
"""Lists and objects in a JSON file: each takes some 90 bytes, however short its text is."""

MOST_R_BYTES = 2**30
"""Of an R object, unpacked: its numbers take as much again."""

MOST_R_ITEMS = 2**23
"""Vectors, texts and cells of lists: each takes a step in Python, and up to 300 bytes."""

MOST_R_LEVELS = 3000
"""Of items in items: a formula has a level for each of its columns."""

MOST_R_GROWN = 2**24
"""Numbers and texts that a file describes and does not hold, such as 1 to n."""

MOST_TEXT_BYTES = 2**26
"""Of a J48 tree: read line by line, at some 10 MB in a second."""

MOST_TREES = 50_000
"""Each tree costs a step in Python, in every part of an audit."""

MOST_NODES = 2**27
"""In all trees: each takes 50 bytes or more."""

MOST_COUNTS = 2**28
"""Nodes times classes: each count takes 8 bytes."""

MOST_LEVELS = 10_000
"""A path through a tree is walked for every row and every leaf."""

MOST_COLUMNS = 100_000
"""Rebuilt rows are tables with all of them, of which an attack holds many."""

MOST_CLASSES = 10_000
"""Every node counts each of them."""

MOST_CATEGORY = 2**31
"""Numbers of categories: with the number of its node, one fits into 64 bits."""

MOST_RULES = 10_000
"""Where a rule applies depends on every rule before it."""

MOST_CONDITIONS = 100_000
"""In all rules."""

MOST_ROWS = 10**8
"""More rows than any reconstruction could write down."""

MOST_REAL = 1e100
"""Of a statistic that is no count: its square, and sums of such squares, are still floats."""


def at_most(most: int, n: int, what: str) -> None:
    """Refuse more than there may be of something.

    Raises BadModel, saying how many there are, of what, and how many there may be.
    """
    if n > most:
        raise BadModel(f"{n:,} {what}, more than {most:,}: not read")
