"""How likely noise makes what leaves say, given how many rows lie in each."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlog1py, xlogy

from treeleak.attacks.posterior.draw_kernels import GAINS, NAMES, LikelihoodArrays
from treeleak.attacks.posterior.label_kernels import RULES, log_named
from treeleak.attacks.posterior.likelihood import Likelihood, nothing
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import NotCovered
from treeleak.core.private import dataclass
from treeleak.release.noise.laws import CountNoise, LabelNoise

MAX_TABLE = 2**26
"""Entries of the table of gains: 512 MiB."""
MAX_DRAWN = 2**28
"""Pairs of rows and draws, for a bootstrap: about 10 s."""
_AT_ONCE = 2**22
_LEAST_LOG = -660.0
_NEVER = 10.0
"""Price of a class that a leaf names without a row, in place of infinity: walks pass through it."""


class _Tabled(Likelihood):
    """What an equation says of the number of its rows depends on nothing else: a table."""

    @property
    @abstractmethod
    def _tables(self) -> tuple[IntArray, FloatArray]:
        """Where the log likelihood of each equation begins, as a table over a = 0, 1, ..., N."""

    @cached_property
    def law(self) -> LikelihoodArrays:
        """For the kernels."""
        offset, log = self._tables
        # The gain beyond N is never asked for.
        return nothing()._replace(evidence=GAINS, offset=offset, gain=np.diff(log, append=0.0))

    def log_complete(
        self,
        rows: NDArray[np.int32],
        seen: NDArray[np.int32],  # noqa: ARG002
        missing_row_penalty: float = np.inf,  # noqa: ARG002
    ) -> float:
        """Log P(what leaves say | m)."""
        offset, log = self._tables
        return float(log[offset + rows].sum())


@dataclass(frozen=True, eq=False)
class CountLikelihood(_Tabled):
    """n*_e = a_e + Y in every equation (leaf x n_classes + class), or = draws of a_e rows + Y."""

    counts: FloatArray
    """Shape (n_equations,). n*; NaN where nothing is said."""
    n_classes: int
    noise: CountNoise
    n_rows: int
    """N."""
    n_draws: int | None = None
    """Draws of each tree, if it drew its rows. The draws of an equation are then Binomial(n_draws,
    a / N), each by itself: that those of a tree have a fixed sum is neglected."""

    @property
    def n_equations(self) -> int:
        """Leaves times classes."""
        return len(self.counts)

    @cached_property
    def _distinct(self) -> tuple[FloatArray, IntArray]:
        """The different noisy counts, and which of them each equation has."""
        values, number = np.unique(self.counts, return_inverse=True)
        return values, number.ravel()

    @cached_property
    def _tables(self) -> tuple[IntArray, FloatArray]:
        counts = self.counts[~np.isnan(self.counts)]
        values, number = self._distinct
        entries = len(values) * (self.n_rows + 1)
        if self.n_draws is None and self.noise.whole and counts.size:
            # One table for all: log P(n* - a) by n* - a, from the greatest n* down.
            top, low = int(counts.max()), int(counts.min())
            if (spread := top - low + self.n_rows + 1) <= entries:
                self._check(spread)
                log = self.noise.log_prob(top - np.arange(spread))
                flat = np.append(log, np.zeros(self.n_rows + 1))
                offset = np.where(np.isnan(self.counts), len(log), top - np.nan_to_num(self.counts))
                return offset.astype(np.int64), flat
        self._check(entries)
        if self.n_draws is None:
            table = self.noise.log_prob(values[:, None] - np.arange(self.n_rows + 1))
        else:
            table = self._through_draws(values, self.n_draws)
        table = np.where(np.isnan(values)[:, None], 0.0, table)
        return number * (self.n_rows + 1), table.ravel()

    def _through_draws(self, values: FloatArray, n_draws: int) -> FloatArray:
        """Log P(n* | a): the sum over n of Binomial(n; n_draws, a / N) P(Y = n* - n)."""
        if (n_draws + 1) * (self.n_rows + 1) > MAX_DRAWN:
            raise NotCovered(
                f"noise on {n_draws:,} draws of {self.n_rows:,} rows; at most {MAX_DRAWN:,} pairs"
            )
        self._check(len(values) * (n_draws + 1))
        n = np.arange(n_draws + 1.0)[:, None]
        ways = gammaln(n_draws + 1.0) - gammaln(n + 1.0) - gammaln(n_draws - n + 1.0)
        log = self.noise.log_prob(values[:, None] - n.T)
        most = log.max(axis=1, keepdims=True)
        each = np.exp(log - most)
        out = np.empty((len(values), self.n_rows + 1))
        step = max(_AT_ONCE // len(n), 1)
        for begin in range(0, self.n_rows + 1, step):
            block = slice(begin, begin + step)
            share = np.arange(self.n_rows + 1)[block] / self.n_rows
            drawn = np.exp(ways + xlogy(n, share) + xlog1py(n_draws - n, -share))
            out[:, block] = each @ drawn
        # Of what is less than any float, as if draws came in proportion: a chain there finds out.
        drawn_evenly = n_draws / self.n_rows * np.arange(self.n_rows + 1)
        bound = np.minimum(self.noise.log_prob(values[:, None] - drawn_evenly), most + _LEAST_LOG)
        positive = out > np.exp(_LEAST_LOG)
        return np.asarray(np.where(positive, most + np.log(np.where(positive, out, 1.0)), bound))

    def _check(self, entries: int) -> None:
        if entries > MAX_TABLE:
            raise NotCovered(
                f"noisy counts that spread over {entries:,} values; at most {MAX_TABLE:,}"
            )

    def missing(self, rows: NDArray[np.int32]) -> int:
        """Sum of |n* - a|, rounded."""
        return round(float(np.nansum(np.abs(self.counts - rows))))


@dataclass(frozen=True, eq=False)
class LabelLikelihood(Likelihood):
    """Every leaf names one class."""

    named: NDArray[np.int32]
    """Shape (n_leaves,). The class; -1 where nothing is said."""
    n_classes: int
    noise: LabelNoise

    @property
    def n_equations(self) -> int:
        """Leaves times classes."""
        return len(self.named) * self.n_classes

    @cached_property
    def law(self) -> LikelihoodArrays:
        """For the kernels."""
        rule = RULES[self.noise.rule]
        return nothing()._replace(
            evidence=NAMES, named=self.named, rule=rule, scale=self.noise.scale
        )

    def missing(self, rows: NDArray[np.int32]) -> int:
        """Rows that leaves lack, together, for the class that they name to be the largest."""
        leaf_rows = rows.reshape(-1, self.n_classes)[self.named >= 0]
        label = self.named[self.named >= 0].astype(np.int64)
        return int((leaf_rows.max(axis=1) - leaf_rows[np.arange(len(leaf_rows)), label]).sum())

    def log_complete(
        self,
        rows: NDArray[np.int32],
        seen: NDArray[np.int32],  # noqa: ARG002
        missing_row_penalty: float = np.inf,
    ) -> float:
        """Log P(labels | m); the penalty is that of each row which a majority lacks."""
        leaf_rows = rows.reshape(-1, self.n_classes)
        rule, scale = RULES[self.noise.rule], self.noise.scale
        labelled = np.flatnonzero(self.named >= 0)
        return float(
            sum(
                log_named(leaf_rows[v], self.named[v], rule, scale, missing_row_penalty)
                for v in labelled
            )
        )


@dataclass(frozen=True, eq=False)
class PresenceLikelihood(_Tabled):
    """Every leaf names all classes of which it saw a row (:class:`LabelNoise`, rule "present")."""

    named: BoolArray
    """Shape (n_leaves, n_classes)."""
    has_label: BoolArray
    """Shape (n_leaves,). Which leaves say anything."""
    noise: LabelNoise
    n_rows: int
    """N."""

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        """Number of classes."""
        return int(self.named.shape[1])

    @property
    def n_equations(self) -> int:
        """Leaves times classes."""
        return self.named.size

    @cached_property
    def _tables(self) -> tuple[IntArray, FloatArray]:
        unseen = -self.noise.scale * np.arange(self.n_rows + 1.0)
        seen = np.append(-_NEVER, np.log(-np.expm1(unseen[1:])))
        which = np.where(self.has_label[:, None], 1 + self.named, 0).ravel()
        tables = np.concatenate([np.zeros(self.n_rows + 1), unseen, seen])
        return which * (self.n_rows + 1), tables

    def missing(self, rows: NDArray[np.int32]) -> int:
        """Classes that leaves name without a row of them."""
        return int((self.named & (rows.reshape(self.named.shape) == 0)).sum())
