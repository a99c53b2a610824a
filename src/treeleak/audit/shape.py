"""What the attack on noise would guess from the shape of the trees alone, without any count.

It has mild assumptions of its own (rows resemble each other, flags are more often 0 than 1), so it
beats a uniform guess even where the noise hides everything. That much the model did not tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from treeleak._private import dataclass
from treeleak.clock import Progress
from treeleak.reconstruct import reconstruct
from treeleak.reconstruction import Reconstruction
from treeleak.release.tree import Release

__all__ = ["Shape", "guesses_from_shape"]

N_GUESSES = 12
FEWEST = 3
"""Guesses without which their spread is not known."""
MOST_ROWS = 300
"""Rows of a guess where none were given; more would take long and change little."""
_SHARE = 0.25
"""Share of the time limit that a guess may take: far more than it needs."""


@dataclass(frozen=True)
class Shape:
    """Guesses from the shape of the trees alone, against the training rows.

    Attributes
    ----------
    error, sd : float
        Mean and standard deviation of their errors.
    exact_rows : float
        Mean share of the true rows that stand in a guess without any difference.
    n_guesses : int
    """

    error: float
    sd: float
    exact_rows: float
    n_guesses: int

    @classmethod
    def of(cls, errors: Sequence[float], exact: Sequence[float]) -> Shape | None:
        """Sum guesses up; None if they are too few to know how they spread."""
        if len(errors) < FEWEST:
            return None
        sd = float(np.std(errors, ddof=1))
        return cls(float(np.mean(errors)), sd, float(np.mean(exact)), len(errors))

    def to_dict(self) -> dict[str, Any]:
        """Describe it (formats/audit.schema.json)."""
        return asdict(self)


def guesses_from_shape(
    release: Release,
    rebuilt: Reconstruction,
    n_true: int,
    time_limit: float,
    seed: int,
    progress: Callable[[Progress], None] | None,
    given: Mapping[str, Any],
) -> tuple[Reconstruction, ...]:
    """Guess rows as the attack would if the counts said nothing, with all else that it was given.

    Parameters
    ----------
    release : Release
        With noise.
    rebuilt : Reconstruction
        What the attack made of the counts; after an interruption nothing is guessed.
    n_true : int
        Training rows.
    time_limit : float
        That of the attack.
    seed : int
    progress : callable or None
    given : mapping
        What was known beside the model, as for :func:`treeleak.reconstruct`.
    """
    parts = rebuilt.given.any()
    n_rows = rebuilt.n_rows if parts else min(n_true, MOST_ROWS)
    wanted = min(N_GUESSES, max(FEWEST, N_GUESSES * MOST_ROWS**2 // max(n_rows, 1) ** 2))
    found: list[Reconstruction] = []
    while len(found) < wanted and not rebuilt.interrupted:
        if progress is not None:
            done = len(found) / wanted
            progress(Progress("guessing from the shape of the trees alone", done))
        guess = reconstruct(
            release, rebuilt.schema, time_limit=_SHARE * time_limit, seed=seed + len(found),
            method="without-counts", n_rows=n_rows, **given,
        )  # fmt: skip
        if guess.interrupted or guess.X is None:
            break
        found.append(guess)
    return tuple(found)
