"""Coordinates in which the dual is about as steep in every direction.

The dual's curvature along a multiplier is the variance of what it counts, at most about the count
itself, and counts of a forest differ by orders of magnitude. Draws and distinct rows of a leaf,
besides, say nearly the same. So each multiplier is measured in units of its count's root, and a
step of lambda leaves the leaf's distinct rows, as far as they go with its draws, where they are:
with w = n_e / d_v it is a step of lambda_e by s and of nu_v by -w s. That is a preconditioner of
blocks of one leaf each (Nocedal and Wright, Numerical Optimization, 2006, section 5.1).
"""

from __future__ import annotations

import numpy as np

from treeleak.attacks.known_draws.candidates import RowProblem
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.private import dataclass

_LEAST = 0.25
"""Least curvature that is assumed."""


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Multipliers x = ``origin`` + M y; y has only equations in which some candidate stands."""

    origin: FloatArray
    """Shape (n_multipliers,)."""
    open_: IntArray
    """Shape (n_coordinates,). Multipliers that y moves."""
    scale: FloatArray
    """Shape (n_coordinates,)."""
    along: FloatArray
    """Shape (n_leaves, n_classes), or (0, n_classes) without distinct counts. By how much nu_v
    falls as lambda_e rises: the draws of class c in the leaf for each distinct row."""

    @classmethod
    def of(cls, problem: RowProblem, origin: FloatArray) -> Coordinates:
        """Scale the equations of a problem; y = 0 is ``origin``."""
        n, d, n_classes = problem.n.astype(float), problem.d.astype(float), problem.n_classes
        used = np.zeros(len(n), dtype=bool)
        used[problem.equation.ravel()] = True
        if not len(d):
            open_ = np.flatnonzero(used)
            return cls(origin, open_, _units(n[open_]), np.zeros((0, n_classes)))
        along = n.reshape(-1, n_classes) / np.maximum(d, 1.0)[:, None]
        # Of how many draws a draw is one, on average; less by what goes with the distinct rows.
        again = np.repeat(_again(problem), np.diff(problem.first))
        left = n * np.maximum(again - along.ravel(), _LEAST)
        open_ = np.flatnonzero(np.append(used, used.reshape(-1, n_classes).any(axis=1)))
        return cls(origin, open_, _units(np.append(left, d)[open_]), along)

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Compute x."""
        move = np.zeros(len(self.origin))
        move[self.open_] = y * self.scale
        if (size := self.along.size) > 0:
            move[size:] -= (move[:size].reshape(self.along.shape) * self.along).sum(axis=1)
        return self.origin + move

    def gradient(self, g: FloatArray) -> FloatArray:
        """Compute the gradient in y from that in x."""
        if (size := self.along.size) > 0:
            g = np.append(g[:size] - (g[size:, None] * self.along).ravel(), g[size:])
        return g[self.open_] * self.scale


def _again(problem: RowProblem) -> FloatArray:
    """Mean number of draws of a row, draw by draw, in each tree."""
    b = problem.draws.astype(float)
    return np.asarray((b**2).sum(axis=1) / np.maximum(b.sum(axis=1), 1.0))


def _units(curvature: FloatArray) -> FloatArray:
    return np.asarray(1.0 / np.sqrt(np.maximum(curvature, _LEAST)))
