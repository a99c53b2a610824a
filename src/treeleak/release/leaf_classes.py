"""Classes that leaves name, where nothing but class shares of leaves is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.core.message import Message, static_message
from treeleak.release.noise.laws import LabelNoise
from treeleak.release.statistics import LABELS, NodeStatistic, Statistics
from treeleak.release.tree import Tree

UNSEEN, SURELY_SEEN = 1.0, 8.0
"""How surely a tree sees a row: a bootstrap misses it with probability 1 / e. Where each tree sees
every row it is sure, and as near to that as walks over datasets get along with."""
PRESENT_ONLY = static_message(
    "The file holds the class shares of leaves, and no numbers of rows. The attack uses only the "
    "classes that each leaf holds.",
    "shares_present",
)
LARGEST_ONLY = static_message(
    "The file holds the class shares of leaves, and no numbers of rows. The attack uses only the "
    "largest class of each leaf.",
    "shares_largest",
)


def leaf_classes(shares: FloatArray, leaf: BoolArray) -> FloatArray:
    """Give each leaf 1 for its largest class, which is the one that it predicts."""
    out = np.zeros_like(shares)
    out[np.arange(len(shares)), shares.argmax(axis=1)] = 1.0
    out[~leaf] = 0.0
    return out


def classes_in_leaves(
    trees: Sequence[Tree], shares: Sequence[FloatArray], *, drawn: bool
) -> tuple[list[Tree], LabelNoise, Message]:
    """Let leaves name the classes that they hold, where nothing but their class shares is known.

    Parameters
    ----------
    trees : sequence of Tree
    shares : sequence of float array, shape (n_nodes, n_classes)
        Of leaves; whatever stands at other nodes is not used.
    drawn : bool
        Whether each tree drew some of the rows.

    Returns
    -------
    list of Tree, LabelNoise, Message
        With the rule by which leaves name classes, and a note. A leaf names all classes that it
        holds, but the largest one only where few leaves are of one class, or where leaves side by
        side have the same class: a tree would not have parted them, so only the largest was kept.
    """
    pure, beside = [], False
    for tree, share in zip(trees, shares, strict=True):
        pure.append((share[tree.is_leaf] > 0).sum(axis=1) == 1)
        largest = share.argmax(axis=1)
        both = ~tree.is_leaf & tree.is_leaf[tree.left] & tree.is_leaf[tree.right]
        beside |= bool((largest[tree.left[both]] == largest[tree.right[both]]).any())
    of_one = np.concatenate(pure)
    present = of_one.mean() > 0.5 and not (of_one.all() and beside)
    named = []
    for tree, share in zip(trees, shares, strict=True):
        leaf = tree.is_leaf
        held = np.where(leaf[:, None], share > 0, 0.0) if present else leaf_classes(share, leaf)
        entry = NodeStatistic(LABELS, held, leaf)
        named.append(tree.with_statistics(Statistics((*tree.statistics, entry))))
    if present:
        return named, LabelNoise("present", UNSEEN if drawn else SURELY_SEEN), PRESENT_ONLY
    return named, LabelNoise("majority"), LARGEST_ONLY
