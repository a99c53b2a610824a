"""Whether noise is of the law that is stated for it, and of what size it is.

Each question has one answer that noise of the law would give once in a million times at most, by a
bound that holds for any number of values: too small is as improbable as too large. Of several
trees, each is asked as well, and the million is shared among them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtrc, gammaincc

from treeleak.core.arrays import FloatArray
from treeleak.core.private import dataclass
from treeleak.release.noise.laws import CountNoise, DiscreteLaplace, Gaussian, LabelNoise, Laplace
from treeleak.release.noise.table import NoiseTable, excess_bound

LEVEL = 1e-6
"""How improbable noise of the law must be before the law is doubted, question by question."""
_CREDIBLE = 0.95
_CLEARLY = 1.5
"""Factor by which the likely scales must miss what is stated to count."""
_SCALES = 200
_WIDEST = 1e6
"""Factor between the stated scale and the last one that is looked at, on either side."""


@dataclass(frozen=True)
class Misfit:
    """Why values are not noise of a law."""

    how: Literal["larger", "smaller", "other"]
    """Than noise of the law would be; or of another kind."""
    why: str
    """In words."""


def noise_misfit(
    noise: CountNoise, off: Sequence[FloatArray], centred: bool = True, summed: int = 1
) -> Misfit | None:
    """Test whether values are independent noises of a law.

    Asked in turn: is their sum too far from 0; are they too large or too small, in the sum of
    -log p (Chernoff's bound on either side); are too many of them 0 (binomial); do they lie as the
    law has it (the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart); are the sums of trees
    too near to 0 (Fisher's method); do too many repeat those of another tree (binomial).

    ``off``: the values of each tree. ``centred``: whether they are noise alone. If not, something
    that does not depend on the noise was added to each; they are then at least as large as the
    noise, for the law is symmetric and falls on either side (Anderson's inequality), and only too
    small values tell. ``summed``: each value is the sum of so many noises.
    """
    table = NoiseTable.of_sum(noise, summed)
    trees = [noise_values.ravel() for noise_values in off if noise_values.size]
    if not trees:
        return None
    groups = [(np.concatenate(trees), LEVEL / 2)]
    if len(trees) > 1:
        groups += [(noise_values, LEVEL / 2 / len(trees)) for noise_values in trees]
    else:
        groups = [(trees[0], LEVEL)]
    for noise_values, level in groups:
        least = math.log(level)
        if (
            centred
            and excess_bound(table, float(noise_values.sum()), [(1.0, len(noise_values))]) < least
        ):
            return Misfit("larger", "their sum is too far from 0")
        # Bound the log probability of values at least, and at most, as improbable: Chernoff.
        power, log_moment = table.log_moments
        surprise = float(table.surprise(noise_values).sum())
        bounds = (power - 1) * surprise + noise_values.size * log_moment
        larger, smaller = float(bounds[power < 1].min()), float(bounds[power > 1].min())
        if centred and larger < least:
            return Misfit("larger", "they are too large")
        if smaller < least:
            return Misfit("smaller", "they are too small")
        # Say whether noise would so seldom be 0 so often; of noise that is not whole, nearly 0.
        near = 0.0 if table.whole else 1e-9 * table.sd
        zeros = int((np.abs(noise_values) <= near).sum())
        chance = math.exp(table.log_density[0]) * (1.0 if table.whole else 2 * near)
        if zeros > 0 and float(bdtrc(zeros - 1, noise_values.size, min(chance, 1.0))) < level:
            return Misfit("smaller", "too many of them are 0")
        if centred and _differs_in_location(table, noise_values, level):
            return Misfit("other", "they lie elsewhere")
    if centred and _too_even(
        noise, [(float(noise_values.sum()), summed * noise_values.size) for noise_values in trees]
    ):
        return Misfit("smaller", "in each tree they add up to nearly 0")
    if centred and _repeated(table, trees):
        return Misfit("other", "trees repeat those of others")
    return None


def count_misfit(noise: CountNoise, counts: Sequence[FloatArray], agree: bool) -> Misfit | None:
    """Test noisy counts whose true ones are not known.

    ``counts``: those of the leaves of each tree. ``agree``: whether the true counts of all trees
    add up to the same number.
    """
    if not noise.whole and _whole_by_chance(NoiseTable.of(noise), counts) < LEVEL:
        return Misfit("other", "they are whole numbers, and the noise is not")
    if misfit := noise_misfit(noise, counts, centred=False):
        return replace(misfit, why=f"{misfit.why}, whatever was counted")
    sums = [
        (float(tree_counts.sum()), tree_counts.size) for tree_counts in counts if tree_counts.size
    ]
    if not agree or len(sums) < 2:
        return None
    pairs = [(a - b, m + n) for (a, m), (b, n) in zip(sums[::2], sums[1::2], strict=False)]
    if _too_even(noise, pairs) or _too_many_equal(noise, sums):
        return Misfit("smaller", "the sums of all trees agree too well")
    table = NoiseTable.of(noise)
    least = math.log(LEVEL / len(pairs))
    if any(excess_bound(table, off, [(1.0, number)]) < least for off, number in pairs):
        return Misfit("larger", "the sums of trees differ too much")
    return None


def _whole_by_chance(table: NoiseTable, counts: Sequence[FloatArray]) -> float:
    """How often as many counts would be whole if they were written with one decimal."""
    y = np.concatenate([tree_counts.ravel() for tree_counts in counts])
    whole = int((y == np.round(y)).sum())
    at = np.arange(math.ceil(40 * table.sd) + 1)
    density = np.exp(-table.surprise(at))
    chance = 0.1 * float(density[0] + 2 * density[1:].sum())
    return float(bdtrc(whole - 1, y.size, min(chance, 1.0))) if whole else 1.0


def _differs_in_location(table: NoiseTable, y: FloatArray, level: float) -> bool:
    values, number = np.unique(y, return_counts=True)
    upto = number.cumsum() / y.size
    below, with_ = table.upto(values)
    apart = max(np.abs(upto - with_).max(), np.abs(upto - number / y.size - below).max())
    # What the table itself may be off by.
    return bool(apart - 1e-3 > math.sqrt(math.log(2 / level) / (2 * y.size)))


def _too_even(noise: CountNoise, sums: Sequence[tuple[float, int]]) -> bool:
    """Say whether sums of so many noises each are too near to 0: Fisher's method."""
    surprise, tables = 0.0, {}
    for total, number in sums:
        if number not in tables:
            tables[number] = NoiseTable.of_sum(noise, number)
        near = abs(total)
        (below, _), (_, upto) = tables[number].upto(-near), tables[number].upto(near)
        surprise -= math.log(max(float(upto - below), 1e-12))
    return bool(sums) and float(gammaincc(len(sums), surprise)) < LEVEL


def _too_many_equal(noise: CountNoise, sums: Sequence[tuple[float, int]]) -> bool:
    """Say whether too many sums, each of a number and some noises, are the same.

    Given one of them, each other is the same with the probability of the law's peak at most.
    """
    totals = [total for total, _ in sums]
    same = max(totals.count(total) for total in set(totals)) - 1
    if not noise.whole or not same:
        return same > 0
    least = min(number for _, number in sums)
    peak = math.exp(NoiseTable.of_sum(noise, least).log_density[0])
    return float(bdtrc(same - 1, len(sums) - 1, min(peak, 1.0))) * len(sums) < LEVEL


def _repeated(table: NoiseTable, trees: Sequence[FloatArray]) -> bool:
    """Say whether trees have the size of another's noise, leaf by leaf, too often."""
    same = pairs = 0
    for one, other in zip(trees[::2], trees[1::2], strict=False):
        n = min(one.size, other.size)
        same += int((np.abs(one[:n]) == np.abs(other[:n])).sum())
        pairs += n
    if not same or not table.whole:
        return same > 1
    mass = np.exp(table.log_density)
    chance = float(mass[0] ** 2 + (2 * mass[1:]) @ (2 * mass[1:]))
    return float(bdtrc(same - 1, pairs, min(chance, 1.0))) < LEVEL


# -------------------------------------------------------------------------------------- labels


def label_misfit(
    noise: LabelNoise,
    held: Sequence[FloatArray],
    labelled: Sequence[FloatArray],
    alone: bool = True,
) -> Misfit | None:
    """Test whether leaves name classes as a law has it, by Chernoff's bound on either side.

    Counted are the leaves that name their largest class, or, if they name all that they hold, the
    classes that go unseen.

    ``held``: rows of each class in each leaf, tree by tree. ``labelled``: 1 where the leaf
    names the class. ``alone``: whether each tree saw these very rows; else only some of them, and
    which is not known.
    """
    rows, named = np.concatenate(held), np.concatenate(labelled) > 0
    if noise.rule == "present":
        if (named & (rows == 0)).any():
            return Misfit("larger", "they name classes without a row in them")
        holds = rows > 0
        hit, chance = ~named[holds], np.exp(-noise.scale * rows[holds])
    else:
        top = rows == rows.max(axis=1, keepdims=True)
        one = (top.sum(axis=1) == 1) & (rows.max(axis=1) > 0)
        rows, named, top = rows[one], named[one], top[one]
        if not alone:
            # At most all rows of the largest class, and none of the others.
            rows = np.where(top, rows, 0)
        hit = named[top]
        chance = np.exp(noise.log_prob(rows))[top]
    # Bound the log probability of so many hits or more, and of so many or fewer.
    s = np.concatenate([[0.0], np.geomspace(0.01, 50.0, 80)])[:, None]
    bounds = []
    for seen, p in ((hit, chance), (~hit, 1 - chance)):
        p = np.clip(p, 0.0, 1.0)
        log_mgf = np.log1p(p * np.expm1(s)).sum(axis=1)
        bounds.append(float((log_mgf - s[:, 0] * seen.sum()).min()))
    more, fewer = bounds[0], bounds[1]
    if noise.rule == "present":
        few = Misfit("smaller", "too few of the classes that they hold go unseen")
        many = Misfit("larger", "too many of the classes that they hold go unseen")
    else:
        few = Misfit("larger", "too few of them name their largest class")
        many = Misfit("smaller", "too many of them name their largest class")
    if alone and fewer < math.log(LEVEL):
        return few
    return many if more < math.log(LEVEL) else None


# --------------------------------------------------------------------------------------- scale


@dataclass(frozen=True)
class Scale:
    """The parameter of a law, given the noise: its posterior."""

    parameter: str
    """epsilon, sigma or scale; of one count."""
    stated: float
    low: float | None
    high: float | None
    """Where it lies with 95 % probability, all of its orders of size being equally probable before.
    None where nothing bounds it, as of noise that is all 0; the other is then where the noise is 20
    times less probable than at best."""

    @property
    def weaker(self) -> bool:
        """Whether the noise is clearly weaker than stated: a wide margin, for 95 % are not all."""
        if self.parameter == "sigma":
            return self.high is not None and _CLEARLY * self.high < self.stated
        return self.low is not None and self.low > _CLEARLY * self.stated

    def __str__(self) -> str:
        match self.low, self.high:
            case float(low), float(high):
                found = f"{low:.3g} to {high:.3g} (95 %)"
            case float(low), _:
                found = f"at least {low:.3g}"
            case _, float(high):
                found = f"at most {high:.3g}"
            case _:
                found = "of any size"
        return (
            f"With these rows, {self.parameter} of the noise is {found}; stated: {self.stated:.3g}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Describe the posterior (formats/audit.schema.json)."""
        return asdict(self)


def scale_of_noise(noise: CountNoise, off: Sequence[ArrayLike]) -> Scale | None:
    """Find how large noise is; None of no values, or of a law without a scale."""
    values = [np.abs(np.ravel(noise_values)) for noise_values in off]
    if not values or not sum(noise_values.size for noise_values in values):
        return None
    y, number = np.unique(np.concatenate(values), return_counts=True)
    if not isinstance(noise, (DiscreteLaplace, Laplace, Gaussian)):
        return None
    parameter = "sigma" if isinstance(noise, Gaussian) else "epsilon"

    def log_likelihood(value: float) -> float:
        law = replace(noise, **{parameter: value})  # type: ignore[arg-type]
        return float(number @ law.log_prob(y))

    return _posterior(parameter, getattr(noise, parameter), log_likelihood)


def scale_of_labels(
    noise: LabelNoise, held: Sequence[FloatArray], labelled: Sequence[FloatArray]
) -> Scale | None:
    """Find how large the scale behind the names of leaves is; None of rules without one."""
    if noise.rule not in ("exponential", "permute-and-flip") or not held:
        return None
    rows, counts = np.concatenate(held), np.concatenate(labelled)
    _, first, number = np.unique(
        np.column_stack([rows, counts]), axis=0, return_index=True, return_counts=True
    )
    rows, named = rows[first], counts[first].argmax(axis=1)

    def log_likelihood(value: float) -> float:
        log_p = replace(noise, scale=value).log_prob(rows)
        with np.errstate(invalid="ignore"):
            return float(number @ log_p[np.arange(len(rows)), named])

    return _posterior("scale", noise.scale, log_likelihood)


def _posterior(
    parameter: str, stated: float, log_likelihood: Callable[[float], float]
) -> Scale | None:
    """Weigh scales: first many, far apart, then those that are likely, close together."""
    low, high = math.log(stated / _WIDEST), math.log(stated * _WIDEST)
    ends = [True, True]
    for turn in range(2):
        at = np.linspace(low, high, _SCALES)
        found = np.array([log_likelihood(math.exp(x)) for x in at])
        found = np.where(np.isfinite(found), found, -np.inf)
        if np.isneginf(found).all():
            return None
        found -= found.max()
        likely = np.flatnonzero(found > -25)
        if not turn:
            ends = [bool(likely[0] == 0), bool(likely[-1] == len(at) - 1)]
            # Where all sizes beyond are as good, only the near end is looked at.
            good = np.flatnonzero(found > -0.01)
            begin, end = good[-1] if ends[0] else 0, good[0] if ends[1] else len(at)
            likely = likely[(likely >= begin) & (likely <= end)]
        low, high = at[max(likely[0] - 1, 0)], at[min(likely[-1] + 1, len(at) - 1)]
    if any(ends):
        near = np.exp(at[found > math.log(1 - _CREDIBLE)])
        bounds = [None if end else float(x) for end, x in zip(ends, near[[0, -1]], strict=True)]
    else:
        share = np.exp(found).cumsum()
        inner = np.searchsorted(share / share[-1], [(1 - _CREDIBLE) / 2, (1 + _CREDIBLE) / 2])
        bounds = [float(x) for x in np.exp(at[np.minimum(inner, len(at) - 1)])]
    return Scale(parameter, stated, bounds[0], bounds[1])
