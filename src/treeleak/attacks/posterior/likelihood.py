"""How likely hidden draws make the released counts, given how many rows lie in each leaf."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from treeleak.attacks.posterior.draw_kernels import DISTINCT, DRAWS, LikelihoodArrays
from treeleak.attacks.posterior.hidden_kernels import (
    TABLED,
    log_complete,
    log_marginal,
    log_surjections,
)
from treeleak.attacks.posterior.schedule import SCHEDULE
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.evidence import HiddenDraws


class Likelihood(ABC):
    """How likely what is released is, given how many rows lie in each equation."""

    n_classes: int
    """Equations are numbered leaf * n_classes + class."""
    power: float = 1.0
    """By what its logarithm is divided where rows are held against it and against the prior."""

    @property
    @abstractmethod
    def n_equations(self) -> int:
        """Leaves times classes."""

    @property
    @abstractmethod
    def law(self) -> LikelihoodArrays:
        """The same for the kernels."""

    @abstractmethod
    def missing(self, rows: NDArray[np.int32]) -> int:
        """How far the rows are from what is released; ``rows`` as :meth:`held` has them."""

    @abstractmethod
    def log_complete(
        self, rows: NDArray[np.int32], seen: NDArray[np.int32], missing_row_penalty: float = np.inf
    ) -> float:
        """Log likelihood of the rows and of what is seen of them."""

    @property
    def row_draws(self) -> NDArray[np.int32] | None:
        """How often each tree drew each row, shape (n_rows, n_trees), where rows are told apart."""
        return None

    def seen(self) -> NDArray[np.int32]:
        """What each equation counts to begin with, where a walk may change it; else nothing."""
        return np.zeros(0, dtype=np.int32)

    def held(self, leaves: NDArray[np.int32], label: NDArray[Any]) -> NDArray[np.int32]:
        """How many rows lie in each equation: a = (A m)_tvc.

        ``leaves``: shape (n_rows, n_trees). ``label``: shape (n_rows,).
        """
        equation = leaves.astype(np.int64) * self.n_classes + label[:, None]
        return np.bincount(equation.ravel(), minlength=self.n_equations).astype(np.int32)


@dataclass(frozen=True, eq=False)
class DrawLikelihood(Likelihood):
    """The likelihood of :class:`HiddenDraws`, equation by equation (leaf x n_classes + class)."""

    draws: NDArray[np.int32]
    """Shape (n_equations,). n_tvc."""
    distinct: IntArray | None
    """Shape (n_leaves,). d_tv."""
    n_classes: int
    most_rows: int
    """More rows than this never lie in a leaf."""
    power: float = 1.0

    @classmethod
    def of(cls, evidence: HiddenDraws, power: float = 1.0) -> DrawLikelihood:
        """Take the counts of the evidence."""
        drawn, *distinct = evidence.statements()
        n = drawn.right
        d = distinct[0].right if distinct else None
        return cls(n.ravel().astype(np.int32), d, n.shape[1], evidence.n_rows, power)

    @property
    def n_equations(self) -> int:
        """Leaves times classes."""
        return len(self.draws)

    @cached_property
    def log(self) -> FloatArray:
        """Logarithms of 0 (never asked for), 1, 2, ..."""
        return np.asarray(np.log(np.maximum(np.arange(self.most_rows + 2.0), 1.0)))

    @cached_property
    def log_factorial(self) -> FloatArray:
        """Of 0, 1, 2, ..."""
        most = max(self.most_rows, int(self.draws.max(initial=0))) + 2
        return np.asarray(gammaln(np.arange(most) + 1.0))

    @cached_property
    def log_surjections(self) -> FloatArray:
        """Log of surj(n, d), for small n."""
        most = int(self.draws.max(initial=0))
        return np.asarray(log_surjections(min(most, TABLED)))

    @cached_property
    def mixed_start(self) -> NDArray[np.int32]:
        """Where the equations of each mixed leaf begin in :attr:`mixed`."""
        present = (self.draws.reshape(-1, self.n_classes) > 0).sum(axis=1)
        return np.concatenate([[0], np.cumsum(present[present > 1])]).astype(np.int32)

    @cached_property
    def mixed(self) -> NDArray[np.int32]:
        """Equations that count draws in leaves that count draws of several classes."""
        table = self.draws.reshape(-1, self.n_classes) > 0
        several = table & (table.sum(axis=1) > 1)[:, None]
        return np.flatnonzero(several).astype(np.int32)

    def seen(self) -> NDArray[np.int32]:
        """What each equation counts: draws, or distinct rows, split in proportion if mixed."""
        if self.distinct is None:
            return self.draws.copy()
        n = self.draws.reshape(-1, self.n_classes)
        out = np.where(n > 0, self.distinct[:, None], 0)
        for leaf in np.flatnonzero((n > 0).sum(axis=1) > 1):
            classes = np.flatnonzero(n[leaf])
            share = self.distinct[leaf] * n[leaf, classes] / n[leaf].sum()
            part = np.clip(np.floor(share).astype(np.int64), 1, n[leaf, classes])
            # The rest goes, one by one, where the share is missed most.
            while (left := int(self.distinct[leaf] - part.sum())) != 0:
                room = part < n[leaf, classes] if left > 0 else part > 1
                gain = np.where(room, (share - part) * np.sign(left), -np.inf)
                part[np.argmax(gain)] += np.sign(left)
            out[leaf, classes] = part
        return out.ravel().astype(np.int32)

    @cached_property
    def law(self) -> LikelihoodArrays:
        """The same for the kernels."""
        split = self.distinct is not None and len(self.mixed) > 0
        return nothing()._replace(
            evidence=DRAWS if self.distinct is None else DISTINCT,
            log=self.log,
            start=self.mixed_start,
            equation=self.mixed,
            draws=self.draws,
            table=self.log_surjections if split else np.zeros((1, 1)),
            log_factorial=self.log_factorial,
            every=SCHEDULE.split_sweeps * self.most_rows if split else 0,
        )

    def missing(self, rows: NDArray[np.int32]) -> int:
        """How many rows are lacking in all leaves together for the counts to be possible.

        ``rows``, shape (n_equations,): a = (A m)_tvc.
        """
        present = self.draws > 0
        lacking = np.where(present, np.maximum(1 - rows, 0), 0).reshape(-1, self.n_classes)
        if self.distinct is None:
            return int(lacking.sum())
        most = np.where(present, np.minimum(rows, self.draws), 0).reshape(-1, self.n_classes)
        short = self.distinct - np.maximum(most, present.reshape(most.shape)).sum(axis=1)
        return int((lacking.sum(axis=1) + np.maximum(short, 0)).sum())

    def log_likelihood(self, rows: NDArray[np.int32], missing_row_penalty: float = np.inf) -> float:
        """Log P(n, d | m), without the terms that no dataset of N rows changes.

        Sum of n log a, or of log C(a, d) + log surj(n, d), over the splits of each mixed leaf.

        ``rows``, shape (n_equations,): a = (A m)_tvc. ``missing_row_penalty``: price of each row
        that an equation lacks; by default, such rows are impossible.
        """
        if self.distinct is None:
            drawn = self.draws > 0
            lacking = int((rows[drawn] == 0).sum())
            return float(self.draws[drawn] @ self.log[rows[drawn]]) - (
                missing_row_penalty * lacking if lacking else 0
            )
        return float(
            log_marginal(
                rows,
                self.distinct,
                self.draws,
                self.n_classes,
                missing_row_penalty,
                self.log_surjections,
                self.log_factorial,
            )
        )

    def log_complete(
        self, rows: NDArray[np.int32], seen: NDArray[np.int32], missing_row_penalty: float = np.inf
    ) -> float:
        """Log P(n, d, splits | m): as :meth:`log_likelihood`, for one way to split each d."""
        if self.distinct is None:
            return self.log_likelihood(rows, missing_row_penalty)
        tables = self.log_surjections, self.log_factorial
        return float(log_complete(rows, seen, self.draws, missing_row_penalty, *tables))


def nothing() -> LikelihoodArrays:
    """Give a law of which nothing is filled in."""
    none, ints = np.zeros(0), np.zeros(0, dtype=np.int32)
    longs = np.zeros(0, dtype=np.int64)
    return LikelihoodArrays(
        DRAWS, none, ints, ints, ints, np.zeros((1, 1)), none, 0, longs, none, ints, 0, 0.0
    )
