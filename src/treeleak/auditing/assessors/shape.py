"""The baseline of the attack from the shape of the trees alone, without any count.

It has mild assumptions of its own (rows resemble each other, flags are more often 0 than 1), so it
beats a uniform guess even where the counts say nothing. That much the model did not tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from treeleak.attacks.posterior.noisy_counts import SILENT
from treeleak.auditing.assessors.baselines import BaselineRun
from treeleak.auditing.serialisable import Serialisable
from treeleak.core.clock import Progress
from treeleak.core.errors import NotCovered
from treeleak.core.private import dataclass
from treeleak.metrics import Guesses, same_size
from treeleak.metrics.baseline import Tally
from treeleak.reconstruction import Reconstruction
from treeleak.reconstruction.run import reconstruct
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.release.statistics import ROWS, Statistics
from treeleak.schema import Schema

N_GUESSES = 12
FEWEST = 3
"""Guesses without which their spread is not known."""
MOST_ROWS = 300
"""Rows of a guess where none were given; more would take long and change little."""
_SHARE = 0.25
"""Share of the time limit that a guess may take: far more than it needs."""


@dataclass(frozen=True)
class Shape(Serialisable):
    """Guesses from the shape of the trees alone, against the training rows.

    Attributes
    ----------
    error, sd : float
        Mean and standard deviation of their errors.
    exact_rows : float
        Mean share of the true rows in which every value is right, numbers within 1 % of their
        range.
    n_guesses : int
    """

    error: float
    sd: float
    exact_rows: float
    n_guesses: int

    @classmethod
    def of(cls, guesses: Guesses) -> Shape:
        """Sum guesses up."""
        errors = guesses.errors
        exact = 1.0 - float(guesses.misses.mean())
        return cls(float(errors.mean()), float(errors.std(ddof=1)), exact, len(errors))


def guesses_from_shape(
    release: Release,
    rebuilt: Reconstruction,
    n_true: int,
    time_limit: float,
    seed: int,
    progress: Callable[[Progress], None] | None,
    side_information: Mapping[str, Any],
) -> tuple[Reconstruction, ...]:
    """Guess rows as the attack would if the counts said nothing, with all else that it was given.

    ``release``: its counts, if it has any without noise, are blotted out. ``rebuilt``: what the
    attack made of the counts; after an interruption nothing is guessed. ``n_true``: training rows.
    ``time_limit``: that of the attack. ``side_information``: what was known beside the model, as
    for :func:`treeleak.reconstruct`.
    """
    parts = rebuilt.given.any()
    n_rows = rebuilt.n_rows if parts else min(n_true, MOST_ROWS)
    wanted = min(N_GUESSES, max(FEWEST, N_GUESSES * MOST_ROWS**2 // max(n_rows, 1) ** 2))
    if release.noise is None:
        release, wanted = _silent(release), FEWEST
    found: list[Reconstruction] = []
    while len(found) < wanted and not rebuilt.interrupted:
        if progress is not None:
            done = len(found) / wanted
            progress(Progress("computing the baseline from the shape of the trees", done))
        try:
            guess = reconstruct(
                release, rebuilt.schema, time_limit=_SHARE * time_limit, seed=seed + len(found),
                method="without-counts", n_rows=n_rows, **side_information,
            )  # fmt: skip
        except NotCovered:
            break
        if guess.interrupted or guess.X is None:
            break
        found.append(guess)
    return tuple(found)


def _silent(release: Release) -> Release:
    """Put noise on the counts that hides all of them."""
    trees = tuple(
        replace(
            tree, statistics=Statistics.counting(ROWS, np.zeros((tree.n_nodes, release.n_classes)))
        )
        for tree in release.trees
    )
    classes = release.classes or ("any",)
    return replace(
        release, trees=trees, classes=classes, sampling=AllRows(), noise=SILENT, n_rows=None
    )


def tried_shape(
    guesses: Sequence[Reconstruction], true: pd.DataFrame, schema: Schema, seed: int
) -> BaselineRun | None:
    """Measure guesses in the schema's columns; where they have fewer rows, against as many of the
    training rows.

    None if they are too few to know how they spread.
    """
    columns = list(schema.columns)
    if len(guesses) < FEWEST:
        return None
    tally, rng, n = Tally(true[columns], schema), np.random.default_rng(seed), len(true)
    for guess in guesses:
        if guess.X is None:
            continue
        rows, known = guess.X[columns], None
        if guess.given.any():
            at = same_size(pd.DataFrame({"row": np.arange(len(rows))}), n, seed)["row"]
            known = pd.DataFrame(guess.given, columns=guess.X.columns)[columns]
            rows, known = (t.iloc[at].reset_index(drop=True) for t in (rows, known))
        chosen = np.arange(n) if len(rows) == n else np.sort(rng.permutation(n)[: len(rows)])
        tally.add(rows, chosen, known)
    return BaselineRun("shape", "model", tally.guesses())
