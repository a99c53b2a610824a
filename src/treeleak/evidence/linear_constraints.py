"""Statements: what each leaf says about the rows, linear in the numbers of rows of each kind.

The left side of a statement adds up the rows in a leaf (of one class, or of all), each times a
coefficient: 1, how often the tree drew the row, or a number that the model gives. The right side is
what the release says. A law tells how the two go together: equal, or as likely as the noise makes
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.release.noise.laws import CountNoise, LabelNoise
from treeleak.release.statistics import Quantity


class Law(Protocol):
    """How the left and the right sides of statements go together."""

    def allows(self, held: FloatArray, stated: FloatArray) -> BoolArray:
        """Say of each statement whether both sides are possible together.

        ``held`` and ``stated``, shape (n_leaves, n_classes) or (n_leaves,): left and right sides.
        """


@dataclass(frozen=True)
class Equal:
    """Both sides are equal."""

    tolerance: float | FloatArray = 0.0
    """Up to this, of all statements or of each: real numbers are rounded where they are stored."""

    def allows(self, held: FloatArray, stated: FloatArray) -> BoolArray:
        """Say where both sides are equal."""
        return np.asarray(np.abs(held - stated) <= self.tolerance)


EXACT = Equal()


@dataclass(frozen=True)
class OnlyIfHeld:
    """Draws at random: n_t ~ Multinomial(N_t, A m / N), so that an empty leaf has none."""

    def allows(self, held: FloatArray, stated: FloatArray) -> BoolArray:
        """Say where nothing is drawn from nothing."""
        return np.asarray((stated == 0) | ((stated > 0) & (held > 0)))


@dataclass(frozen=True)
class AtMost:
    """A part of the rows, drawn at random: no more than there are."""

    def allows(self, held: FloatArray, stated: FloatArray) -> BoolArray:
        """Say where there are as many."""
        return np.asarray((stated >= 0) & (stated <= held))


@dataclass(frozen=True)
class Noisy:
    """Noise was added."""

    noise: CountNoise
    known_rows: bool = True
    """Whether the left side is what was counted; else trees drew or shared out the rows."""

    def allows(self, held: FloatArray, stated: FloatArray) -> BoolArray:
        """Say where noise may explain the difference."""
        counted = held if self.known_rows else np.zeros_like(held)
        possible = self.noise.log_prob(stated - counted) > -np.inf
        if self.noise.whole:
            possible &= stated == np.round(stated)
        return np.asarray(possible)


@dataclass(frozen=True)
class Named:
    """A leaf names a class, chosen by how many rows it holds of each: right sides are 0 or 1."""

    noise: LabelNoise
    known_rows: bool = True
    """As for :class:`Noisy`."""

    def allows(self, held: FloatArray, stated: FloatArray) -> BoolArray:
        """Say where the class may be named."""
        if not self.known_rows:
            return np.ones(stated.shape, dtype=bool)
        return np.asarray((stated == 0) | (self.noise.log_prob(held) > -np.inf))


@dataclass(frozen=True, eq=False)
class LinearConstraints:
    """One statement for each of some leaves, or for each of their classes."""

    quantity: Quantity
    """What the right sides are numbers of."""
    right: NDArray[Any]
    """Shape (n_leaves, n_classes) or (n_leaves,). What each leaf says of each class, or of all
    together."""
    law: Law = EXACT
    first: int = 0
    """Leaf (row of A) of the first statement; the others are those behind it."""
    coefficients: NDArray[Any] | None = None
    """Shape (n_trees, n_items). What each row (or each cell) counts in each tree; None: 1."""
    place: IntArray | None = None
    """Shape (n_leaves,). The statement that each leaf (row of A) has part in, -1 for none; where it
    is given, statements may be about nodes, and ``first`` is 0."""
    counts: Callable[[NDArray[Any], IntArray], FloatArray] | None = None
    """From leaves and labels of some items, as in :meth:`left`, to what each counts in each tree,
    shape (n_items, n_trees); None: as ``coefficients`` say."""
    by_label: bool = False
    """Whether rows of two classes count differently."""
    scale: FloatArray | None = None
    """Shape of ``right``. Where statements are weighed against each other: by how much the left
    side of each changes, about, if other rows of the same population stood in the table."""

    @property
    def by_class(self) -> bool:
        """Whether each class has statements of its own."""
        return self.right.ndim == 2

    def left(
        self, leaf: NDArray[Any], label: IntArray, times: NDArray[Any] | None = None
    ) -> FloatArray:
        """Add up rows, or cells with a class.

        ``leaf``, shape (n_items, n_trees): leaf (row of A) of each in each tree. ``label``, shape
        (n_items,): class of each. ``times``, shape (n_items,): how many rows each stands for: 1 if
        not given. Returns an array of the shape of the right sides.
        """
        n_leaves, n_classes = len(self.right), self.right.shape[1] if self.by_class else 1
        at = leaf - self.first if self.place is None else self.place[leaf]
        weight = np.ones(at.shape) if self.counts is None else self.counts(leaf, label)
        if times is not None:
            weight *= times[:, None]
        if self.coefficients is not None:
            # Trees behind those that drew have no part in it.
            n_trees = len(self.coefficients)
            at, weight = at[:, :n_trees], weight[:, :n_trees] * self.coefficients.T
        listed = (at >= 0) & (at < n_leaves)
        key = at * n_classes + (label[:, None] if self.by_class else 0)
        sums = np.bincount(key[listed], weight[listed], n_leaves * n_classes)
        return np.asarray(sums, dtype=float).reshape(self.right.shape)

    def met(self, leaf: IntArray, label: IntArray, times: NDArray[Any] | None = None) -> BoolArray:
        """Say of each statement whether rows may lie like this: parameters as for :meth:`left`."""
        return self.law.allows(self.left(leaf, label, times), self.right.astype(float))
