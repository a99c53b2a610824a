"""Statistics of nodes: what a model stores of the training rows that reached each of its nodes.

Libraries differ in what they keep: counts of rows, of draws or of weights, by class or together, in
every tree or in the first one only, sums of gradients, means. A :class:`Statistics` table has an
entry for each, with what it is, and where it is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.core.errors import BadModel
from treeleak.core.private import dataclass
from treeleak.release.bounds import MOST_REAL, MOST_ROWS


@dataclass(frozen=True)
class Quantity:
    """What a number at a node is."""

    _shown_fields: ClassVar = ("name", "unit")

    name: str
    """As release files call it."""
    unit: str
    """In which it is measured; empty where that depends on the model."""
    whole: bool = False
    """Whether it numbers rows or draws, and is a whole number unless it carries noise."""


ROWS = Quantity("rows", "rows", whole=True)
"""Rows of the training set."""

DRAWS = Quantity("draws", "draws", whole=True)
"""Draws of a bootstrap: a row may count twice."""

DISTINCT = Quantity("distinct", "rows", whole=True)
"""Different rows, however often each was drawn (scikit-learn's ``n_node_samples``)."""

WEIGHTS = Quantity("weights", "weight")
"""Sums of sample weights."""

LABELS = Quantity("labels", "class")
"""1 for each class that a leaf names, 0 for the others."""

UNTOLD = Quantity("none", "")
"""Counts of which the release does not say what they count."""

HESSIAN = Quantity("hessian", "")
"""Sum of the loss's second derivatives over the rows."""

GRADIENT = Quantity("gradient", "")
"""Sum of the loss's first derivatives over the rows."""

VALUE = Quantity("value", "")
"""What the node adds to a prediction."""

STEP = Quantity("step", "")
"""What the node would add to a prediction as a leaf, before it is made smaller by a rate."""

MEAN = Quantity("mean", "target")
"""Mean of the target."""

VARIANCE = Quantity("variance", "target squared")
"""Variance of the target; of boosted trees, of the gradients that they were fitted to."""

GAIN = Quantity("gain", "")
"""By how much the node's test lowered the loss."""

L2 = Quantity("l2", "")
"""What is added to the sum of second derivatives where a leaf is fitted, if it is not the same
everywhere."""

COUNTS = (ROWS, DRAWS, WEIGHTS, LABELS, UNTOLD)
"""What a release may count of each class."""

QUANTITIES = {
    q.name: q for q in (*COUNTS, DISTINCT, HESSIAN, GRADIENT, VALUE, STEP, MEAN, VARIANCE, GAIN, L2)
}
"""Every quantity by its name."""


@dataclass(frozen=True, eq=False)
class NodeStatistic:
    """One quantity at the nodes of a tree.

    Raises
    ------
    BadModel
        On arrays of other shapes, or on numbers that are not finite or beyond all bounds.
    """

    quantity: Quantity
    values: NDArray[Any]
    """Shape (n_nodes,) or (n_nodes, n_classes). All classes together, or each."""
    present: BoolArray | None = None
    """Shape (n_nodes,). At which nodes the model gives it; None: at all of them. Elsewhere
    ``values`` are 0."""

    def __post_init__(self) -> None:
        if self.values.ndim not in (1, 2):
            raise BadModel(f"{self.called} have {self.values.ndim} dimensions")
        if not np.isfinite(self.values).all():
            raise BadModel(f"{self.called} hold a number that is not finite")
        if self.quantity == DISTINCT and self.values.dtype.kind not in "iu":
            raise BadModel("distinct rows are whole numbers")
        if self.quantity not in (*COUNTS, DISTINCT) and (np.abs(self.values) > MOST_REAL).any():
            raise BadModel(f"{self.called} hold a number beyond {MOST_REAL:g}")
        if self.present is None:
            return
        if self.present.shape != (self.n_nodes,) or self.present.dtype != np.bool_:
            raise BadModel(f"{self.called}: no truth value for each of {self.n_nodes} nodes")
        if self.values[~self.present].any():
            raise BadModel(f"{self.called} hold numbers where they are not present")

    @property
    def n_nodes(self) -> int:
        """Nodes that it has an entry for."""
        return len(self.values)

    @property
    def held(self) -> BoolArray:
        """Shape (n_nodes,). Which nodes it is given for."""
        return np.ones(self.n_nodes, dtype=bool) if self.present is None else self.present

    @property
    def per_class(self) -> bool:
        """Whether it is given for each class."""
        return self.values.ndim == 2

    @property
    def called(self) -> str:
        """What messages call it: ``counts``, ``totals``, or the name of the quantity."""
        if self.quantity in COUNTS:
            return "counts" if self.per_class else "totals"
        return self.quantity.name

    def check_whole(self, *, noisy: bool) -> None:
        """Refuse what numbers no rows: fractions, and more than there can be.

        Parameters
        ----------
        noisy : bool
            Whether it carries noise that is no whole number.

        Raises
        ------
        BadModel
            Naming the node.
        """
        if self.quantity not in (COUNTS if noisy else (ROWS, DRAWS)):
            return
        bad = np.abs(self.values) > MOST_ROWS
        if not noisy:
            bad |= self.values != np.round(self.values)
        if bad.any():
            node, kind = int(np.argwhere(bad)[0, 0]), "number" if noisy else "whole number"
            raise BadModel(
                f"node {node}: {self.called} hold {self.values[bad][0]:g}, "
                f"not a {kind} of up to {MOST_ROWS:g} rows"
            )


@dataclass(frozen=True, eq=False)
class Statistics:
    """What a tree stores at its nodes: each quantity once, and once more by class.

    Raises
    ------
    BadModel
        If a quantity appears twice.
    """

    entries: tuple[NodeStatistic, ...] = ()

    def __post_init__(self) -> None:
        keys = [(entry.quantity, entry.per_class) for entry in self.entries]
        if len(set(keys)) != len(keys):
            raise BadModel("a quantity appears twice among the statistics of a tree")

    @classmethod
    def counting(
        cls,
        quantity: Quantity,
        counts: FloatArray | None = None,
        totals: FloatArray | None = None,
        distinct: NDArray[Any] | None = None,
        present: BoolArray | None = None,
    ) -> Statistics:
        """Make a table of counts by class, and without classes, and of distinct rows.

        ``totals`` are draws where ``quantity`` is :data:`DRAWS`, and else rows; ``present`` is
        that of ``counts``.
        """
        whole = DRAWS if quantity == DRAWS else ROWS
        items = (
            (quantity, counts, present),
            (whole, totals, None),
            (DISTINCT, distinct, None),
        )
        return cls(tuple(NodeStatistic(q, v, p) for q, v, p in items if v is not None))

    def __iter__(self) -> Iterator[NodeStatistic]:
        return iter(self.entries)

    def get(self, *quantities: Quantity, per_class: bool = False) -> NodeStatistic | None:
        """Find the first of some quantities that is given, by class or all classes together."""
        for entry in self.entries:
            if entry.quantity in quantities and entry.per_class == per_class:
                return entry
        return None
