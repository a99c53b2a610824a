"""Trees whose numbers of rows were taken out: what their class shares still tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treeleak.core.arrays import FloatArray
from treeleak.core.errors import BadModel
from treeleak.core.message import MessageTemplate, static_message
from treeleak.release.adapters.shares import counts_from_shares, leaf_classes
from treeleak.release.adapters.sklearn.counts import Training
from treeleak.release.adapters.sklearn.nodes import TOLERANCE, Nodes, of_ensemble
from treeleak.release.noise.laws import LabelNoise
from treeleak.release.sampling import Bootstrap
from treeleak.release.statistics import DRAWS, LABELS, ROWS, Statistics
from treeleak.release.stored import StoredObject
from treeleak.release.tree import Tree

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
UNSEEN, SURELY_SEEN = 1.0, 8.0
"""How surely a tree sees a row: a bootstrap misses it with probability 1 / e. Where each tree sees
every row it is sure, and as near to that as walks over datasets get along with."""
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
        shares = _above_least(shapes, shares)
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
        replace(n, statistics=Statistics.counting(LABELS, c, present=n.is_leaf))
        for n, c in zip(shapes, named, strict=True)
    ]


def _above_least(shapes: Sequence[Tree], shares: Sequence[FloatArray]) -> list[FloatArray]:
    """Undo that the shares 0 and 1 were moved towards each other: the least one stands for 0."""
    least = min(float(s[n.is_leaf].min()) for n, s in zip(shapes, shares, strict=True))
    evenly = least * shares[0].shape[1] > 1 - TOLERANCE
    return [s if evenly else np.where(s > least * (1 + TOLERANCE), s, 0.0) for s in shares]


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
