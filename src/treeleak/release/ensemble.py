"""How the outputs of trees become a prediction, and how their leaves were fitted to a loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from treeleak.core.arrays import FloatArray
from treeleak.core.errors import BadModel
from treeleak.core.private import dataclass
from treeleak.release.bounds import MOST_CLASSES, MOST_REAL, at_most
from treeleak.release.statistics import L2, VALUE, Statistics
from treeleak.release.tree import Tree

MOST_STEPS = 1_000
"""Most steps that a leaf takes."""
MOST_L2, LEAST_RATE, MOST_RATE = 1e9, 1e-6, 1e3
"""Bounds beyond which numbers of a file make no sense, and arithmetic none of them."""

_NO_STEP = 1e-9
"""A step of 0, beside the rounding of a start that a leaf holds as well."""
_AT_LIMIT = 1e-5
"""How near steps in single precision, over a learning rate of six digits, come to their limit."""

Loss = Literal["logistic", "softmax", "squared"]
"""Losses whose sums in leaves are understood; the last one is half the square of the difference."""

Precision = Literal["float32", "float64"]


@dataclass(frozen=True)
class Fitting:
    """What makes the numbers in leaves follow from the rows in them.

    A leaf takes the step -S(G) / (H + l2), where G and H are the sums of the loss's first and
    second derivatives over its rows, each times the weight of its class, at the predictions that
    the trees before have come to; S brings G nearer to 0 by l1. No step is longer than a limit.
    """

    loss: Loss
    l2: float = 0.0
    """What is added to H, where a node does not say otherwise."""
    steps: int = 1
    """Such steps that a leaf takes, one after the other."""
    start: tuple[float, ...] | None = None
    """What each output is before the first round, where the values of its leaves hold it as well.
    """
    started: bool = True
    """Whether the predictions before the first round are known."""
    assumed: bool = False
    """Whether l2 and the learning rate are the library's defaults, since nothing says them."""
    curvature: float = 1.0
    """What p (1 - p) is multiplied by in H."""
    rough: float = 1.0
    """How many times less exactly sums are known than the precision of derivatives says."""
    margins: Precision = "float64"
    """In which predictions are added up."""
    derivatives: Precision = "float64"
    """In which a row's derivatives are held before they are added up."""
    targets: Precision = "float64"
    """In which the targets of a regression are held."""
    offsets_shown: bool = True
    """Whether the file of a regression would show it if rows had started from scores of their own:
    else its targets may lack these."""
    l1: float = 0.0
    longest: float = 0.0
    """The limit; 0 for none."""
    class_weights: tuple[float, ...] = ()
    """None where all are 1."""
    parallel: int = 1
    """Trees of each output in a round, which saw the same predictions."""
    dropped: tuple[tuple[int, ...], ...] = ()
    """Of each tree, the earlier ones that it was grown without (dart): their values, and its own,
    were shrunk so that predictions stay about as large. None where no tree was."""

    def l2_at(self, tree: Tree) -> FloatArray:
        """Say what is added to H at each node of a tree; raises BadModel if that makes no sense."""
        statistic = tree.statistics.get(L2)
        out = np.full(tree.n_nodes, self.l2)
        if statistic is not None:
            out[statistic.held] = statistic.values[statistic.held]
        if not ((out >= 0) & (out <= MOST_L2)).all():
            raise BadModel(f"leaves fitted with l2 from {out.min():g} to {out.max():g}")
        return out

    @property
    def plain(self) -> bool:
        """Whether rows count alike, each step is all of -G / (H + l2), and rounds have one tree."""
        bent = self.l1 or self.longest or self.class_weights or self.dropped
        return not bent and self.parallel == 1

    def pulled(self, step: FloatArray) -> FloatArray:
        """Say by how much G was brought nearer to 0, with the sign of the step.

        NaN where that is open: at 0, and at the limit.
        """
        if not self.l1 and not self.longest:
            return np.zeros(len(step))
        free = np.abs(step) > _NO_STEP if self.l1 else np.ones(len(step), dtype=bool)
        if self.longest:
            free &= np.abs(step) < (1 - _AT_LIMIT) * self.longest
        return np.where(free, self.l1 * np.sign(step), np.nan)

    @property
    def of_classes(self) -> bool:
        """Whether rows have classes, not targets."""
        return self.loss != "squared"

    def __post_init__(self) -> None:
        if self.start is not None:
            at_most(MOST_CLASSES, len(self.start), "outputs")
        at_most(MOST_CLASSES, len(self.class_weights), "weights of classes")
        numbers = self.l1, self.longest, *self.class_weights
        if not all(0 <= number <= MOST_L2 for number in numbers) or self.parallel < 1:
            raise BadModel("leaves fitted with l1, a limit or weights out of range")
        for number in (self.l2, self.curvature, self.rough, *(self.start or ())):
            if not abs(number) <= MOST_REAL:
                raise BadModel(f"leaves fitted with the number {number!r:.40}")
        if any(not 0 <= i < t for t, chosen in enumerate(self.dropped) for i in chosen):
            raise BadModel("trees that were grown without later ones")
        if self.dropped and not kept_shares(self.dropped).min() > 1.0 / MOST_REAL:
            raise BadModel("trees of whose values next to nothing was kept")
        weighted = self.class_weights and replace(self, class_weights=()).plain
        if not self.plain and (self.loss != "logistic" or (self.steps > 1 and not weighted)):
            raise BadModel(f"penalties, weights or dropped trees of the loss {self.loss!r}")
        if not 0 < self.steps <= MOST_STEPS or not 0 <= self.l2 <= MOST_L2:
            raise BadModel(f"leaves fitted in {self.steps} steps with l2 = {self.l2:g}")


def kept_shares(dropped: Sequence[Sequence[int]]) -> FloatArray:
    """Say what was left of each tree's values in the end: k / (k + 1), each time k were dropped."""
    out = np.ones(len(dropped))
    for chosen in dropped:
        out[list(chosen)] *= len(chosen) / (len(chosen) + 1.0)
    return out


def as_grown(tree: Tree, kept: float) -> Tree:
    """Give the values of a tree as they were before a share of them was kept."""
    entries = (
        replace(entry, values=entry.values / kept) if entry.quantity == VALUE else entry
        for entry in tree.statistics
    )
    return tree.with_statistics(Statistics(tuple(entries)))


@dataclass(frozen=True)
class Ensemble:
    """How the outputs of trees become a prediction, where they are added up.

    Raises
    ------
    BadModel
        On numbers that are not finite, on no output, or on too many.
    """

    objective: str
    """The loss that was minimised, as the library calls it."""
    base_scores: tuple[float, ...]
    """What each output is before the first tree, in the scale in which trees add to it."""
    learning_rate: float | None = None
    """By which each tree's values were multiplied, where the release says so."""
    fitting: Fitting | None = None
    """How leaves were fitted, where that is known."""

    def __post_init__(self) -> None:
        at_most(MOST_CLASSES, len(self.base_scores), "outputs")
        if not self.base_scores:
            raise BadModel("an ensemble without outputs")
        rate = () if self.learning_rate is None else (self.learning_rate,)
        for number in (*self.base_scores, *rate):
            if not abs(number) <= MOST_REAL:
                raise BadModel(f"an ensemble with the number {number!r:.40}")
        rate_of = self.learning_rate
        if self.fitting and rate_of is not None and not LEAST_RATE <= rate_of <= MOST_RATE:
            raise BadModel(f"leaves fitted with a learning rate of {rate_of:g}")
