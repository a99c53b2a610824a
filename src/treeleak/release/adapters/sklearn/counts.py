"""From sums of weights in the nodes to counts of rows or draws, where they follow exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import lcm, prod
from typing import Any

import numpy as np

from treeleak.core.arrays import FloatArray
from treeleak.core.errors import BadModel
from treeleak.core.message import Message, MessageTemplate, static_message
from treeleak.core.private import dataclass
from treeleak.release.adapters.shares import counts_from_shares
from treeleak.release.adapters.sklearn.nodes import TOLERANCE, Nodes, check_children, of_ensemble
from treeleak.release.leaf_classes import SURELY_SEEN, UNSEEN, leaf_classes
from treeleak.release.noise.laws import LabelNoise
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows, Bootstrap, Sampling, Subsample
from treeleak.release.statistics import DRAWS, LABELS, ROWS, WEIGHTS, Statistics
from treeleak.release.stored import StoredObject
from treeleak.release.tree import Tree

MAX_TRIED = 10_000


@dataclass(frozen=True)
class Training:
    """How an ensemble was trained."""

    sampling: Sampling
    n_rows: int | None
    class_weight: Any = None
    total: int | None = None  # draws per tree, where the file says so
    share: float | None = None  # of the rows, that is rounded to the draws per tree


WEIGHTED = static_message(
    "Rows were weighted when the model was trained. Its nodes count them all the same, but rows of "
    "weight zero do not show at all.",
    "counts_weighted",
)
NO_DRAWS = static_message(
    "Rows were weighted when the model was trained: how often each was drawn does not follow from "
    "the sums of weights that its nodes hold.",
    "counts_no_draws",
)


def without_classes(
    nodes: Sequence[Nodes], training: Training
) -> tuple[list[Tree], tuple[str, ...]]:
    """Read the numbers of rows of trees whose classes do not count, with notes."""
    drawn = isinstance(training.sampling, (Bootstrap, Subsample))
    weights = [n.weight[:, None] for n in nodes]
    are_draws = drawn and _all_whole(weights) and _consistent(nodes, weights, training)
    trees = []
    for n in nodes:
        if not n.reached.any():
            trees.append(n.shape)
            continue
        draws = np.round(n.weight) if are_draws else None
        totals = draws if drawn else n.reached.astype(float)
        whole = DRAWS if drawn else ROWS
        trees.append(n.shape.with_counts(whole, totals=totals, distinct=n.reached))
    if drawn:
        return trees, () if are_draws else (NO_DRAWS,)
    weighted = any(n.reached.any() and not np.array_equal(n.weight, n.reached) for n in nodes)
    return trees, (WEIGHTED,) * weighted


def counts_of(
    nodes: Sequence[Nodes],
    sums: Sequence[FloatArray],
    training: Training,
    classes: tuple[Any, ...],
) -> tuple[list[Tree], tuple[str, ...]]:
    """Turn sums of weights into counts, where they can be had exactly."""
    drawn = isinstance(training.sampling, (Bootstrap, Subsample))
    plain = training.class_weight is None
    counts: list[FloatArray] | None = None
    if plain:
        # A weight of every row would show, but for weights that add up to the rows in every node.
        bare = drawn or all(np.array_equal(n.weight, n.reached) for n in nodes)
        counts = list(map(np.round, sums)) if bare and _all_whole(sums) else None
    elif isinstance(training.class_weight, Mapping):
        counts = _divided(sums, training.class_weight, classes)
    else:
        counts = _balanced(nodes, sums, training)
    if counts is not None and not _consistent(nodes, counts, training):
        counts = None
    if counts is None:
        totals = [None if drawn else n.reached.astype(float) for n in nodes]
        trees = [
            n.shape.with_counts(WEIGHTS, counts=s, totals=total, distinct=n.reached)
            for n, s, total in zip(nodes, sums, totals, strict=True)
        ]
        note = (
            "Rows were weighted when the model was trained: its nodes hold sums of weights, and "
            "rows of weight zero do not show at all."
        )
        return trees, (note,)
    for t, (n, count) in enumerate(zip(nodes, counts, strict=True)):
        check_children(n.shape, count, f"tree {t}", "count of a class")
    whole = DRAWS if drawn else ROWS
    trees = [
        n.shape.with_counts(whole, counts=count, totals=count.sum(axis=1), distinct=n.reached)
        for n, count in zip(nodes, counts, strict=True)
    ]
    note = "Class weights were given; the counts without them follow from the file."
    return trees, () if plain else (note,)


def _consistent(nodes: Sequence[Nodes], counts: Sequence[FloatArray], training: Training) -> bool:
    """Say whether the counts agree with what else the file says of numbers of rows."""
    drawn = isinstance(training.sampling, (Bootstrap, Subsample))
    fits = np.less_equal if drawn else np.equal
    for n, count in zip(nodes, counts, strict=True):
        if not fits(n.reached, count.sum(axis=1)).all():
            return False
    if not drawn:
        return True
    roots = {float(count[0].sum()) for count in counts}
    return len(roots) == 1 and training.total in (None, *roots)


def _all_whole(sums: Iterable[FloatArray]) -> bool:
    return all(np.all(np.abs(s - np.round(s)) <= TOLERANCE) for s in sums)


def _divided(
    sums: Sequence[FloatArray], class_weight: Mapping[Any, Any], classes: tuple[Any, ...]
) -> list[FloatArray] | None:
    weight = np.array([float(class_weight.get(c, 1.0)) for c in classes])
    if not np.all(weight > 0):
        return None
    divided = [s / weight for s in sums]
    return list(map(np.round, divided)) if _all_whole(divided) else None


def _balanced(
    nodes: Sequence[Nodes], sums: Sequence[FloatArray], training: Training
) -> list[FloatArray] | None:
    """Undo class weights that scikit-learn worked out itself, and does not store."""
    drawn = isinstance(training.sampling, (Bootstrap, Subsample))
    if training.class_weight == "balanced" or not drawn:
        # One weight per class for all trees. Divided by them, the sums add up to what is known:
        # the rows of every node, or the draws of every root.
        left = np.array([s[0] for s in sums]) if drawn else np.concatenate(sums)
        right = np.full(len(left), float(training.total or 1))
        if not drawn:
            right = np.concatenate([n.reached for n in nodes]).astype(float)
        inverse, _, rank, _ = np.linalg.lstsq(left, right, rcond=None)
        if rank == left.shape[1] and np.all(inverse > 0):
            if drawn and training.total is None:
                # The weight of a class is N / (n_classes n_c): their inverses add up to n_classes.
                # That tells the draws, which no file before 1.4 holds.
                inverse *= len(inverse) / inverse.sum()
            solved = [s * inverse for s in sums]
            return list(map(np.round, solved)) if _all_whole(solved) else None
    per_tree = []
    for n, s in zip(nodes, sums, strict=True):
        if drawn and training.total is None and training.class_weight == "balanced":
            return None
        # Weights balanced in each tree leave the sum of all weights as it was.
        total = (training.total or round(float(n.weight[0]))) if drawn else int(n.reached[0])
        fits = np.less_equal if drawn else np.equal
        found = [c for c in _multiples(s, total) if fits(n.reached, c.sum(axis=1)).all()]
        if len(found) != 1:
            return None
        per_tree += found
    return per_tree


def _multiples(sums: FloatArray, total: int) -> list[FloatArray]:
    """All counts that are proportional to the sums of each class and add up to a total.

    Per class, the shares of the nodes in the root have a least common denominator, and the count
    of the root is a multiple of it.
    """
    seen = sums[0] > 0
    shares = sums[:, seen] / sums[0, seen]
    base = [_common_denominator(np.unique(s), total) for s in shares.T]
    spare = total - sum(base)
    steps = [range(1, 2 + max(spare, -1) // b) for b in base[:-1]]
    if not base or prod(map(len, steps)) > MAX_TRIED:
        return []
    out = []
    for some in product(*steps):
        rest = total - sum(k * b for k, b in zip(some, base, strict=False))
        if rest <= 0 or rest % base[-1]:
            continue
        counts = np.zeros_like(sums)
        counts[:, seen] = shares * [*(k * b for k, b in zip(some, base, strict=False)), rest]
        if _all_whole([counts]):
            out.append(np.round(counts))
    return out


def _common_denominator(shares: FloatArray, largest: int) -> int:
    common = 1
    for share in shares:
        common = lcm(common, Fraction(float(share)).limit_denominator(largest).denominator)
        if common > largest:
            break
    return common


RESTORED = MessageTemplate(
    "without_sizes_restored",
    "The file no longer holds the numbers of rows. They follow from the class shares of its "
    "nodes: the least numbers that make all of them whole{lost:message}.",
)
LOST = MessageTemplate(
    "nodes_left_out",
    "; {nodes:number} nodes are left out, because shares do not disclose how their rows split",
)
PRESENT = static_message(
    "The file no longer holds the numbers of rows, and they do not follow from the rest. "
    "The attack used only the classes that each leaf holds.",
    "without_sizes_present",
)
NAMED = static_message(
    "The file no longer holds the numbers of rows, and they do not follow from the rest. "
    "The attack used only the class that each leaf predicts.",
    "without_sizes_named",
)


def without_sizes(
    stored: StoredObject,
    trees: Sequence[StoredObject],
    nodes: Sequence[Nodes],
    training: Training,
    classes: tuple[Any, ...],
) -> tuple[list[Tree], LabelNoise | None, tuple[str, ...]]:
    """Read what is left where the sizes of all nodes were taken out."""
    shares = []
    for t, (tree, n) in enumerate(zip(trees, nodes, strict=True)):
        value = n.value[:, 0, :]
        if (bad := (value < 0).any(axis=1)).any():
            raise BadModel(f"tree {t}, node {bad.argmax()}: a negative class share")
        sums = value.sum(axis=1, keepdims=True)
        value = np.divide(value, sums, out=np.zeros_like(value), where=sums > 0)
        shares.append(of_ensemble(stored, tree, t, value, len(classes)))
    shapes = [n.shape for n in nodes]
    drawn = isinstance(training.sampling, Bootstrap)
    found = None
    if training.class_weight is None:
        found = counts_from_shares(shapes, shares, training.total if drawn else None)
    if found is None:
        # Undo that the shares 0 and 1 were moved towards each other: the least one stands for 0.
        least = min(float(s[n.is_leaf].min()) for n, s in zip(shapes, shares, strict=True))
        if least * shares[0].shape[1] <= 1 - TOLERANCE:
            shares = [np.where(s > least * (1 + TOLERANCE), s, 0.0) for s in shares]
        how_known = _labels_of_leaves(trees, shapes, shares)
        if how_known == "majority":
            named = [
                leaf_classes(share, n.is_leaf) for n, share in zip(shapes, shares, strict=True)
            ]
            return _naming(shapes, named), LabelNoise("majority"), (NAMED,)
        named = [
            np.where(n.is_leaf[:, None], share > 0, 0.0)
            for n, share in zip(shapes, shares, strict=True)
        ]
        law = LabelNoise("present", UNSEEN if drawn else SURELY_SEEN)
        return _naming(shapes, named), law, (PRESENT,)
    lost = sum(len(s.left) - len(tree.left) for s, (tree, _) in zip(shapes, found, strict=True))
    note = RESTORED(lost=LOST(nodes=int(lost)) if lost else "")
    whole = DRAWS if drawn else ROWS
    restored = [tree.with_counts(whole, counts=c, totals=c.sum(axis=1)) for tree, c in found]
    return restored, None, (note,)


def _naming(shapes: Sequence[Tree], named: Sequence[FloatArray]) -> list[Tree]:
    """Let leaves name classes."""
    return [
        n.with_statistics(Statistics.counting(LABELS, c, present=n.is_leaf))
        for n, c in zip(shapes, named, strict=True)
    ]


def _labels_of_leaves(
    trees: Sequence[StoredObject], shapes: Sequence[Tree], shares: Sequence[FloatArray]
) -> str:
    """Say which classes leaves name: all that they hold, or the largest one.

    Most leaves must be of one class for the first to say more; and if all are, in trees that were
    not grown to the end, only the largest class was kept.
    """
    pure = np.concatenate(
        [(s[n.is_leaf] > 0).sum(axis=1) == 1 for n, s in zip(shapes, shares, strict=True)]
    )
    grown = all(
        tree.get("max_depth") is None
        and tree.get("max_leaf_nodes") is None
        and tree.get("min_samples_leaf") == 1
        and tree.get("min_samples_split") == 2
        for tree in trees
    )
    return "present" if pure.mean() > 0.5 and (grown or not pure.all()) else "majority"


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
