"""What an audit finds of the noise that a model states, and which counts it then attacks."""

from __future__ import annotations

from typing import Any

from treeleak.core.errors import Mismatch
from treeleak.core.private import dataclass
from treeleak.release.noise.goodness_of_fit import Misfit, Scale
from treeleak.release.noise.laws import LabelNoise
from treeleak.release.release import Release
from treeleak.release.stated_noise import (
    NoiseLeft,
    as_counted,
    check_counts_agree,
    equal_trees,
    noise_left,
    stated_noise_misfit,
)
from treeleak.verification.columns import in_model_columns

_NOT_THERE = {
    "smaller": "The counts do not carry the stated noise",
    "larger": "The counts do not carry the stated noise, but more",
    "other": "The counts do not carry the stated noise, but another one",
}


@dataclass(frozen=True, eq=False)
class NoiseFound:
    """The noise of a model, held against its counts and the training rows."""

    refuted: str | None
    """Why the counts do not carry the noise that is stated, in words."""
    scale: Scale | None
    """How large it is, by the training rows."""
    release: Release
    """What to attack: where the noise is not there, the counts as they are."""


def find_noise(release: Release, X: Any, y: Any) -> NoiseFound:
    """Hold the noise that a release states against its counts, and against training rows.

    Raises BadModel if counts contradict each other, or numbers stand beside noisy ones that carry
    no noise.
    """
    check_counts_agree(release)
    by_file, left = stated_noise_misfit(release), _left(release, X, y)
    if by_file is not None:
        trees = left.exact or equal_trees(release)
        bare = as_counted(release, trees) if trees else release
        return NoiseFound(_sentence(by_file, "the counts"), left.scale, bare)
    misfit = left.misfit
    if misfit is None or misfit.how == "larger":
        # Rows that differ by more may just not be the training rows.
        return NoiseFound(None, left.scale, release)
    what = "the difference between these counts and those of the training rows"
    if isinstance(release.noise, LabelNoise):
        what = "the leaves of the training rows"
    bare = as_counted(release, left.exact) if left.exact else release
    return NoiseFound(_sentence(misfit, what), left.scale, bare)


def _left(release: Release, X: Any, y: Any) -> NoiseLeft:
    if X is None or release.noise is None:
        return NoiseLeft()
    labels = y if release.classes else None
    try:
        table, label, _ = in_model_columns(release, X, labels)
    except Mismatch:
        return NoiseLeft()
    return noise_left(release, table.to_numpy(), None if labels is None else label)


def _sentence(misfit: Misfit, what: str) -> str:
    return (
        f"{_NOT_THERE[misfit.how]}. By {what}: {misfit.why}; by chance, that happens less than "
        "once in a million times"
    )
