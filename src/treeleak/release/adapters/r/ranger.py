"""The adapter of ranger's forests.

What the objects of ranger 0.10 to 0.17 hold, from its sources and checked against its answers:
``child.nodeIDs`` count from 0, and name 0 twice at a leaf. A row goes left where its value is not
above ``split.values``. Of a factor that is not ordered, ``split.values`` is a number whose bits
name the categories that go right. Leaves hold the class (``split.values``), the mean target, or
the share of each class (``terminal.class.counts``), never how many rows; ``predictions`` are those
of the trees that did not draw a row, one line for each row, in order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadInput, BadModel
from treeleak.core.message import static_message
from treeleak.release.adapters.r import forests
from treeleak.release.adapters.r import values as r
from treeleak.release.bounds import MOST_NODES
from treeleak.release.registry import adapter
from treeleak.release.release import Release
from treeleak.release.sampling import Bootstrap, Sampling, Subsample
from treeleak.release.stored import StoredObject
from treeleak.release.tree import LEAF, Tree

NO_FOREST = (
    "this ranger object holds no trees (write.forest = FALSE): nothing to audit but the rest"
)
OTHER_KIND = static_message(
    "a survival forest of ranger: its leaves hold hazards, which treeleak does not read",
    "r_ranger_survival",
)
_PARTS = ("child.nodeIDs", "split.varIDs", "split.values")


@adapter("R", "ranger", "ranger.forest")
def _ranger(stored: StoredObject) -> Release:
    forest = stored.get("forest") if stored.name == "ranger" else stored
    if not isinstance(forest, StoredObject):
        raise BadInput(NO_FOREST)
    names = r.texts(forest.get("independent.variable.names"), "independent.variable.names")
    kind = r.text(forest.get("treetype")) or r.text(stored.get("treetype"))
    levels: r.Levels = {}
    if (held := forest.get("covariate.levels")) is not None:  # Only where ranger sorted them.
        levels = r.levels_of(zip(names, r.items(held, "covariate.levels", len(names)), strict=True))
    ordered = r.whole_numbers(forest.get("is.ordered"), "is.ordered", (0, 2), len(names))
    n_trees = len(r.items(forest.get(_PARTS[0]), _PARTS[0]))
    parts = zip(*(r.items(forest.get(name), name, n_trees) for name in _PARTS), strict=True)
    read = [_tree(f"tree {t}", part, (names, levels), ordered) for t, part in enumerate(parts)]
    n_rows, rule, draws = r.whole(stored.get("num.samples")), r.text(stored.get("splitrule")), None
    if (kept := stored.get("inbag.counts")) is not None:
        lists = r.items(kept, "inbag.counts", n_trees)
        draws = np.array([r.whole_numbers(b, "inbag.counts", (0, 2**31), n_rows) for b in lists])
    classes, numbered = _classes(forest) if kind in (forests.CLASSES, forests.SHARES) else ((), {})
    predicted = None
    if kind == forests.CLASSES:
        values = [forests.labelled(held, tree, numbered) for tree, _, held in read]
    elif kind == forests.SHARES:
        predicted = forests.in_order(stored.get("predictions"), classes)
        name, places = "terminal.class.counts", list(numbered.values())
        shares = r.items(forest.get(name), name, n_trees)
        values = [_shares(s, *one[:2], places) for s, one in zip(shares, read, strict=True)]
    else:
        predicted = r.plain(stored.get("predictions")) if kind == forests.TARGETS else None
        values = [np.where(tree.is_leaf, held, 0.0)[:, None] for tree, _, held in read]
    return forests.forest_of(
        [tree for tree, *_ in read],
        values,
        kind,
        predicted,
        draws,
        feature_names=names,
        classes=classes,
        sampling=_sampling(stored, draws, n_rows),
        n_rows=n_rows,
        not_covered=None if kind in forests.KINDS else OTHER_KIND,
        levels=levels,
        thresholds_are="unknown" if rule == "extratrees" else "midpoints",
        origin="ranger (R)",
        sources=(stored, forest),
    )


def _tree(
    where: str, parts: tuple[Any, ...], columns: tuple[tuple[str, ...], r.Levels], ordered: IntArray
) -> tuple[Tree, IntArray, FloatArray]:
    """Read a tree: its shape, which node of the file each node is, and what leaves predict."""
    names, levels = columns
    sides = r.items(parts[0], where, 2)
    left = r.whole_numbers(sides[0], where, (0, MOST_NODES))
    right = r.whole_numbers(sides[1], where, (0, MOST_NODES), len(left))
    column = r.whole_numbers(parts[1], where, (0, len(names)), len(left))
    value = r.numbers(parts[2], where, len(left))
    leaf = (left == 0) & (right == 0)
    sets = ~leaf & (ordered[column] == 0)
    # Categories without texts have codes from 1.
    members = {
        int(v): r.subset(value[v], where) + (names[column[v]] not in levels)
        for v in np.flatnonzero(sets)
    }
    # Bits name what goes right: the same test with its children the other way round.
    left, right = np.where(sets, right, left), np.where(sets, left, right)
    children = np.where(leaf, LEAF, left), np.where(leaf, LEAF, right)
    tree, order = r.tree_of(where, children, column, value, columns, members)
    return tree, order, value[order]


def _classes(forest: StoredObject) -> tuple[tuple[Any, ...], dict[float, int]]:
    """Give the labels, and which of them each class value of the file is."""
    values = r.numbers(forest.get("class.values"), "class.values").tolist()
    used = sorted(set(values))
    numbered = {v: used.index(v) for v in values}
    if forest.get("levels") is None:
        return tuple(used), numbered
    levels = r.texts(forest.get("levels"), "levels")
    codes = r.whole_numbers(np.array(used), "class.values", (1, len(levels) + 1))
    return tuple(levels[c - 1] for c in codes), numbered


def _shares(held: Any, tree: Tree, order: IntArray, places: list[int]) -> FloatArray:
    """Read the shares of the classes in each leaf, in the order of the labels."""
    where = "terminal.class.counts"
    listed = r.items(held, where)
    out = np.zeros((tree.n_nodes, len(places)))
    for v in tree.leaves:
        shares = r.numbers(listed[order[v]] if order[v] < len(listed) else None, where, len(places))
        if not (shares >= 0).all() or abs(shares.sum() - 1) > 1e-9:
            raise BadModel(f"{where}: of node {order[v]}, no shares of classes")
        out[v, places] = shares
    return out


def _sampling(stored: StoredObject, draws: IntArray | None, n_rows: int | None) -> Sampling:
    told = forests.call_names(stored)
    weighted = draws is None and bool({"case.weights", "inbag"} & (told or set()))
    hidden = "rows may have been drawn with weights, which the file does not hold" * weighted
    replaced = r.plain(stored.get("replace"))
    with_replacement = not isinstance(replaced, np.ndarray) or bool(replaced.all())
    n_draws = None if draws is None else int(draws[:1].sum())
    if n_draws is None and n_rows is not None and told is not None:
        n_draws = n_rows if with_replacement else round(0.632 * n_rows)
        n_draws = None if "sample.fraction" in told else n_draws
    kind = Bootstrap if with_replacement else Subsample
    return kind(n_draws=n_draws, rule="ranger", hidden=hidden)
