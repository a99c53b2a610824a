"""What bounds what a model discloses: the privacy budget of its noise, and the size of its file."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np

from treeleak.auditing.record import Serialisable
from treeleak.bound import bound_of
from treeleak.core.errors import NotCovered
from treeleak.core.private import dataclass
from treeleak.core.text import percent
from treeleak.release.noise.goodness_of_fit import Scale
from treeleak.release.noise.laws import CountNoise, DiscreteLaplace, Gaussian, LabelNoise, Laplace
from treeleak.release.release import Release

if TYPE_CHECKING:
    from treeleak.auditing.case import Case


@dataclass(frozen=True)
class Ceiling(Serialisable):
    """How many rows any attack on the file gets right at most (docs/bound.md).

    Attributes
    ----------
    bits : int
        Description length of what depends on the rows.
    code : {"model code", "model code given control rows", "compressed"}
    n_rows : int
    rows : int or None
        At most so many rare rows, but with probability ``delta``; None: no such number.
    delta : float
    rare : float
        Share of people whose rows are rare.
    cell : float
        Logarithm to base 2 of the greatest probability of a rare row.
    ratio : float
        Bits of the file for each bit of the table.
    prior : {"control", "schema"}
    """

    bits: int
    code: str
    n_rows: int
    rows: int | None
    delta: float
    rare: float
    cell: float
    ratio: float
    prior: str


def assess_ceiling(case: Case) -> Case:
    """Bound what attacks get right; only where it is known how rare rows are."""
    request = case.request
    if request.schema is None and case.others is None:
        return case
    n_rows = len(case.found.truth.X) if case.found.truth is not None else request.stated_rows
    release, labels = case.release, None
    if case.others is not None and request.control_y is not None and release.classes:
        labels = release.class_numbers(np.ravel(np.asarray(request.control_y, dtype=object)))
    try:
        found = bound_of(release, request.schema, n_rows, case.others, request.seed, labels=labels)
    except NotCovered:
        return case
    if not (math.isfinite(found.ratio) and math.isfinite(found.log2_q)):
        # Rows that are all alike hold no bits, and nothing is rare among them.
        return case
    return case.plus(
        ceiling=Ceiling(
            bits=math.ceil(found.bits),
            code=found.code,
            n_rows=found.n_rows,
            rows=None if found.rows is None else found.rows - 1,
            delta=found.delta,
            rare=1.0 - found.common,
            cell=found.log2_q,
            ratio=found.ratio,
            prior=found.prior,
        )
    )


_ADDS = {
    "all": "{n} trees that count every row, {each:.4g} each",
    "disjoint": "as much as one tree, because each row reaches one tree only (if one more row "
    "moves no other row to another tree)",
}
_LARGEST = "Leaves name their largest class, without noise"
_PRESENT = "Leaves name the classes of their rows, without noise"
_TIMES = 10
"""Cost over what is stated from which on it is given as a factor, not in percent."""
_UNBOUNDED = {
    "bootstrap": "a tree may draw a row several times and then counts it each time; treeleak has "
    "no bound for this",
    "unknown": "it is not known how rows reached the trees",
}


@dataclasses.dataclass(frozen=True)
class Budget(Serialisable):
    """Privacy budget of a model whose counts carry noise.

    It is the epsilon of pure differential privacy, for tables of which one has one row more. It
    holds if splits, classes and bounds were chosen without looking at the rows, and if nobody can
    draw the noise again.

    Attributes
    ----------
    noise : str
        Its law, in words.
    stated : float or None
        Epsilon that the parameters of the law stand for; None where they stand for none.
    cost : float or None
        Epsilon that it really costs; None where nothing bounds it, or no bound is known.
    why : str
        How the cost comes about.
    refuted : str or None
        Why the counts do not carry the noise that is stated; nothing bounds what they cost then.
    scale : Scale or None
        How large the noise is, given the training rows.
    """

    noise: str
    stated: float | None
    cost: float | None
    why: str
    refuted: str | None = None
    scale: Scale | None = None

    @property
    def doubted(self) -> bool:
        """Whether the counts do not seem to carry the noise that is stated."""
        return self.refuted is not None or self.weaker

    @property
    def weaker(self) -> bool:
        """Whether, by the training rows, the noise is clearly weaker than what is stated."""
        return self.scale is not None and self.scale.weaker

    @property
    def noisy(self) -> bool:
        """Whether there is any noise; leaves that name classes as they are carry none."""
        return self.noise not in (_LARGEST, _PRESENT)

    @property
    def overspent(self) -> bool:
        """Whether the model costs more than stated, as far as that is known."""
        if self.cost is None or self.stated is None:
            return False
        return self.cost > self.stated * (1 + 1e-9)

    def __str__(self) -> str:
        cost = self._of_cost()
        return cost if self.scale is None else f"{cost} {self.scale}."

    def _of_cost(self) -> str:
        stated = "no epsilon" if self.stated is None else f"epsilon = {self.stated:.4g}"
        if self.refuted is not None:
            return f"Stated: {self.noise[:1].lower()}{self.noise[1:]}, {stated}. {self.refuted}."
        if not self.noisy:
            return f"{self.noise}."
        if self.cost is None:
            return f"{self.noise}. Stated: {stated}. No pure epsilon bounds its cost: {self.why}."
        more = ""
        if self.stated and self.overspent:
            times = self.cost / self.stated
            more = f", {percent(times) + ' of' if times < _TIMES else f'{times:,.0f} times'} that"
        return f"{self.noise}. Stated: {stated}. It costs {self.cost:.4g}{more}: {self.why}."


def budget_of(
    release: Release, refuted: str | None = None, scale: Scale | None = None
) -> Budget | None:
    """Work out the budget of a release; None if its counts carry no noise.

    ``release``: as it states its noise. ``refuted``: why the counts do not carry that noise.
    ``scale``: how large it is.
    """
    noise, n_trees, kind = release.noise, len(release.trees), release.sampling.kind
    if noise is None:
        return None
    stated, loss, why = _of_one_tree(noise)
    times = n_trees if kind == "all" else 1
    if kind in _ADDS:
        adds = _ADDS[kind].format(n=n_trees, each=loss) if math.isfinite(loss) else ""
        why = "; ".join(filter(None, (adds, why)))
    else:
        stated, loss, why = None, math.inf, _UNBOUNDED[kind]
    if refuted is not None:
        loss, why = math.inf, refuted
    return Budget(
        noise=_in_words(noise),
        stated=None if stated is None else stated * times,
        cost=loss * times if math.isfinite(loss) else None,
        why=why,
        refuted=refuted,
        scale=scale,
    )


def _of_one_tree(noise: CountNoise | LabelNoise) -> tuple[float | None, float, str]:
    """Epsilon that the law stands for, epsilon that it costs, and what is to be said of it.

    One more row changes one count of a tree, by one.
    """
    if isinstance(noise, LabelNoise):
        if noise.rule == "present":
            return None, math.inf, "leaves name the classes of their rows without noise"
        if noise.rule == "majority":
            return None, math.inf, "leaves name their largest class without noise"
        return noise.scale, noise.scale, ""
    if isinstance(noise, Gaussian):
        why = "normal noise is bounded by an epsilon together with a delta only"
        return None, noise.loss, why
    stated = noise.epsilon if isinstance(noise, (DiscreteLaplace, Laplace)) else None
    rounded = stated is not None and noise.loss > stated
    why = "rounding makes zero noise more probable than the law allows" if rounded else ""
    return stated, noise.loss, why


def _in_words(noise: CountNoise | LabelNoise) -> str:
    match noise:
        case LabelNoise(rule="majority"):
            return _LARGEST
        case LabelNoise(rule="present"):
            return _PRESENT
        case LabelNoise(rule=rule):
            return f"Leaves name one class, chosen by chance ({rule})"
        case DiscreteLaplace():
            return "Counts carry discrete Laplace noise"
        case Laplace(rounding=rounding):
            return "Counts carry Laplace noise" + _rounded(rounding)
        case Gaussian(rounding=rounding):
            return "Counts carry normal noise" + _rounded(rounding)
        case _:
            return "Counts carry noise"


def _rounded(rounding: str) -> str:
    return {"none": "", "nearest": ", rounded"}.get(rounding, f", rounded {rounding}")
