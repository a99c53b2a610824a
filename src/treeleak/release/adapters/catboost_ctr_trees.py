"""CatBoost's statistics of the target, laid out as trees: a leaf for each value that they count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadModel, NotCovered
from treeleak.core.message import MessageTemplate, static_message
from treeleak.release.adapters.boosted import BY_WEIGHT
from treeleak.release.adapters.catboost_ctr import (
    MOST_OF_ALL,
    MOST_TRIED,
    Part,
    Table,
    taken_apart,
    ways,
)
from treeleak.release.adapters.catboost_trees import Columns
from treeleak.release.growing import GrowingTree
from treeleak.release.release import Release
from treeleak.release.statistics import ROWS, Statistics
from treeleak.release.tree import LEAF, Tree

_MOST_VALUES, _MOST_COMPARED = 2**19, 2**12
"""Values of all tables that are laid out as trees; sets of questions that others are held to."""

NOTHING = static_message(
    "CatBoost tests categories through statistics of the target (ctr), and neither these nor other "
    "tests in the file count rows",
    "ctr_nothing_counts",
)
STATISTICS = MessageTemplate(
    "ctr_as_trees",
    "The file counts the rows of each category or combination, by class: {tables:number} such "
    "tables are used like trees, and {trees:number} trees by their other tests.",
)
LEFT_OUT = MessageTemplate(
    "ctr_left_out",
    "{tables:number} tables of combinations of categories are not used: they count other rows, or "
    "their hashes were not found out.",
)


def as_tree(table: Table, codes: IntArray, columns: Columns, by_class: bool) -> Tree:
    """Lay out a table as a tree with a leaf for each value, and empty ones for all others.

    ``codes``: what each value is made of. Raises BadModel if a test is for no category.
    """
    tree, counts = GrowingTree(), list[FloatArray]()
    # Rows of the table, their next part, where they hang, and whether other categories get there.
    waiting: list[tuple[IntArray, int, int, int, bool | None]] = [
        (np.arange(len(codes)), 0, LEAF, 0, None)
    ]
    while waiting:
        at, k, above, side, others = waiting.pop()
        if k == len(table.parts) or not len(at):
            tree.add(parent=above, side=side)
            counts.append(table.counts[at].sum(axis=0))
            continue
        part = table.parts[k]
        here = np.unique(codes[at, k])
        members: IntArray | None = None
        ends: tuple[tuple[int, bool | None], ...]
        if part.code is not None:
            members = np.array(_place(part, columns, table.where), dtype=np.int64)
            left, ends = codes[at, k] == 1, ((k + 1, None), (k + 1, None))
        elif part.tests:
            left, ends = codes[at, k] == 0, ((k + 1, None), (k + 1, None))
        else:
            if others is None:
                others = len(here) < len(columns.levels[columns.names[part.column]])
            if len(here) == 1 and not others:
                waiting.append((at, k + 1, above, side, None))
                continue
            members = here[: (len(here) + 1) // 2]
            left = np.isin(codes[at, k], members)
            ends = ((k, False), (k, others))
        down = members is None and part.column not in columns.missing_right
        border = np.nan if part.border is None else part.border
        node = tree.add(part.column, border, above, side, down, members)
        counts.append(table.counts[at].sum(axis=0))
        waiting += [(at[~left], ends[1][0], node, 1, ends[1][1])]
        waiting += [(at[left], ends[0][0], node, 0, ends[0][1])]
    values = np.array(counts)
    together = values.sum(axis=1)
    return tree.tree(Statistics.counting(ROWS, values if by_class else None, together))


def _place(part: Part, columns: Columns, where: str) -> list[int]:
    known = columns.values.get(part.column, ())
    if part.code not in known:
        raise BadModel(f"ctr_data, {where!r:.60}: a test for a category that no column has")
    return [known.index(part.code)]


Question = tuple[int, float | None, int | None]
"""A column, and the border or the number of the category that is asked for."""


def not_implied(trees: Sequence[Tree], known: Sequence[frozenset[Question]]) -> list[Tree]:
    """Leave out trees whose counts follow from others.

    They ask nothing but what ``known`` tables ask of all rows, or a tree that asks all rows the
    same and more.
    """
    asked = sorted(((_asked(tree), k) for k, tree in enumerate(trees)), key=lambda a: -len(a[0]))
    kept, finer = [], list(known)
    for own, k in asked:
        if any(own <= other for other in finer):
            continue
        kept.append(k)
        if trees[k].n_nodes >> len(own) == 1 and len(finer) < _MOST_COMPARED:
            finer.append(own)
    return [trees[k] for k in sorted(kept)]


def _asked(tree: Tree) -> frozenset[Question]:
    sets = {} if tree.categories is None else tree.categories.by_node
    return frozenset(
        (int(tree.feature[v]), None, int(sets[v][0])) if v in sets
        else (int(tree.feature[v]), float(tree.threshold[v]), None)
        for v in np.flatnonzero(~tree.is_leaf).tolist()
    )  # fmt: skip


def _asked_by(parts: Sequence[Part], columns: Columns) -> frozenset[Question]:
    return frozenset(
        (p.column, p.border, None if p.code is None else columns.values[p.column].index(p.code))
        for p in parts
        if p.tests
    )


def with_tables(release: Release, tables: Sequence[Table], columns: Columns) -> Release:
    """Put tables before the trees of a model that tests them, if they count the same rows.

    Raises
    ------
    NotCovered
        If nothing counts rows.
    """
    if release.not_covered and getattr(release.not_covered, "code", "") == "catboost_unequal":
        return release
    # Tables that count no classes may count validation rows, too: alone, they say no number.
    n = release.n_rows or max((int(t.counts.sum()) for t in tables if t.by_class), default=None)
    found: dict[tuple[Part, ...], Tree] = {}
    tried, laid_out = 0.0, 0
    for table in sorted(tables, key=lambda t: not t.by_class):
        if table.parts in found or n != int(table.counts.sum()):
            continue
        tried += min(ways(table, columns), MOST_TRIED)
        laid_out += len(table.keys)
        if tried > MOST_OF_ALL or laid_out > _MOST_VALUES:
            break
        codes = taken_apart(table, columns)
        if codes is not None:
            each = table.by_class and table.counts.shape[1] == len(release.classes)
            found[table.parts] = as_tree(table, codes, columns, each)
    counted = release.trees if release.n_rows == n else ()
    beside = not_implied(
        [tree for tree in counted if tree.n_nodes > 1 and tree.totals is not None],
        [_asked_by(parts, columns) for parts in found],
    )
    left_out = len({table.parts for table in tables}) - len(found)
    trees = (*found.values(), *beside)
    if not trees:
        raise NotCovered(NOTHING)
    note = STATISTICS(tables=len(found), trees=len(beside))
    more = (LEFT_OUT(tables=left_out),) if left_out else ()
    # Tables heed no weights.
    notes = (*(x for x in release.notes if not found or x != BY_WEIGHT), note, *more)
    release = replace(release, trees=trees, n_rows=n, not_covered=None, notes=notes)
    return replace(release, adds_weights=release.counts_are != "rows")
