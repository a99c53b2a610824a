"""Part of an audit of one tree or one rule list: the residual uncertainty of each row."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from treeleak.auditing import wording
from treeleak.auditing.assessors.counts import THRESHOLD
from treeleak.auditing.record import Serialisable
from treeleak.core.errors import NotCovered
from treeleak.core.message import Message, message_of
from treeleak.core.private import dataclass
from treeleak.release import Release, RuleList
from treeleak.release.infer_schema import binary_if_unused, infer_rule_schema, infer_schema
from treeleak.schema import Numeric, Schema
from treeleak.uncertainty import ProbabilisticDataset, from_rule_list, from_tree
from treeleak.uncertainty.space import NUMERIC_STEPS
from treeleak.verification.columns import in_model_columns

if TYPE_CHECKING:
    from treeleak.auditing.case import Case

QUANTILES = (0, 5, 25, 50, 75, 95, 100)
MOST_EXPOSED = 8
MOST_LETTERS = 160

FILLED = wording.FILLED()


@dataclass(frozen=True)
class Exposed:
    """A leaf or a rule, and the residual uncertainty of its rows.

    Attributes
    ----------
    name : str
        "leaf 7", "rule 3", "default".
    where : str
        Where its rows lie, in words.
    rows : int
    by_class : mapping of str to int
    bits : float
        Residual uncertainty of each of its rows.
    left : float
        The same, as a share of what there is to know.
    """

    name: str
    where: str
    rows: int
    by_class: Mapping[str, int]
    bits: float
    left: float

    @property
    def place(self) -> str:
        """The beginning of :attr:`where`, for those who read and do not compute."""
        if len(self.where) <= MOST_LETTERS:
            return self.where
        return self.where[: MOST_LETTERS - 2] + " …"


@dataclass(frozen=True)
class Uncertainty(Serialisable):
    """Residual uncertainty of the training rows of one tree or one rule list.

    Attributes
    ----------
    of : {"leaves", "rules"}
        What groups the rows.
    n_rows, n_attributes : int
    dist : float or None
        Gambs' Dist: average share that is left of a value; None where there are no rows.
    dist_g : float or None
        Ferry's Dist_G: share that is left of all rows together, attributes taken jointly.
    log2_worlds : float
        Logarithm of the number of tables that the model allows.
    row_bits : float
        Entropy of a row without the model.
    mean_bits : float or None
        What is left of it, on average.
    quantiles : mapping of int to float
        Spread over rows: percent of the rows to the share that is left of one.
    exposed : tuple of Exposed
        Leaves or rules with rows of which least is left, the least first; of these, the one with
        the fewest rows.
    as_exposed, rows_as_exposed : int
        How many of them leave as little as the first, and how many rows they hold.
    told : int
        Rows without any residual uncertainty.
    told_in_small : int
        Those of them that share their leaf or rule with fewer than ten rows in all.
    schema : str
        Where it came from.
    exact : bool
        Whether the model itself tells the counts, and without noise.
    contains : bool or None
        Whether the training rows are one of these tables; None where they were not given, or are
        others.
    nearest : float or None
        Behind noise: share of the training rows' values that must change before they are.
    notes : tuple of str
    """

    of: str
    n_rows: int
    n_attributes: int
    dist: float | None
    dist_g: float | None
    log2_worlds: float
    row_bits: float
    mean_bits: float | None
    quantiles: Mapping[int, float]
    exposed: tuple[Exposed, ...]
    as_exposed: int
    rows_as_exposed: int
    told: int
    told_in_small: int
    schema: str
    exact: bool
    contains: bool | None = None
    nearest: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def average(self) -> Message:
        """What is left on average: nothing of single leaves."""
        if self.dist_g is None:
            return wording.NO_ROWS_COUNTED()
        return wording.LEFT(left=self.dist_g)

    def __str__(self) -> str:
        return self.average

    @property
    def in_full(self) -> Message:
        """The same, and the leaf or rule that leaves least: that for the owner only."""
        if self.dist_g is None:
            return self.average
        least = self.exposed[0]
        return wording.LEFT_IN_FULL(
            left=self.dist_g,
            least=self.rows_as_exposed,
            rows=self.n_rows,
            left_least=least.left,
            leaf=least.name,
            where=least.place,
            more=f" and {self.as_exposed - 1:,} more" if self.as_exposed > 1 else "",
        ).with_instead(self.average)


def of_trees(case: Case) -> Case:
    """State the residual uncertainty for one tree, as a part of an audit; for several, nothing."""
    release, request, truth = case.found.release, case.request, case.found.truth
    if release is None or len(release.trees) != 1:
        return case
    X: pd.DataFrame | None = None if truth is None else truth.X
    if _uncounted(release) and request.X is not None:
        X = in_model_columns(release, request.X)[0]
    y = request.y if X is not None and release.classes else None
    return case.plus(uncertainty=left_by_tree(release, request.schema, X, y))


def of_rules(case: Case) -> Case:
    """State the residual uncertainty for rules, as a part of an audit."""
    X = None if case.found.truth is None else case.found.truth.X
    return case.plus(uncertainty=left_by_rules(case.rules, case.request.schema, X, case.request.y))


def _uncounted(release: Release) -> bool:
    """Say whether the trees tell nothing of how many rows lie in their leaves."""
    return release.counts_are == "none" and all(tree.totals is None for tree in release.trees)


def left_by_tree(
    release: Release,
    schema: Schema | None = None,
    X: pd.DataFrame | None = None,
    y: Sequence[Any] | None = None,
) -> Uncertainty:
    """State the residual uncertainty for one tree.

    ``X`` and ``y``: the training rows in the model's columns, held against the model already; y
    only with X. Raises NotCovered if the tree tells too little, or a column has no bounds. Raises
    BadInput if counts or schema contradict each other.
    """
    filled = _uncounted(release)
    if filled and X is None:
        raise NotCovered(
            release.not_covered
            or wording.COUNTS_MISSING(who="the tree does not say", what="its leaves hold")
        )
    known, source = _bounded(schema, lambda rows: infer_schema(release, rows), X)
    data = from_tree(release, known, *((X, y) if filled else ()))
    notes = [n for n in data.notes if n not in release.notes]
    if schema is None and X is None:
        columns = zip(release.feature_names, release.thresholds, strict=True)
        notes += binary_if_unused(known, [c for c, cuts in columns if cuts.size])
    noisy = release.noise is not None
    left = _left(data, "leaves", source, not (noisy or filled), [*notes, *[FILLED] * filled])
    if X is None:
        return left
    if not noisy:
        return replace(left, contains=_allowed(data, X))
    try:
        nearest = data.distance(X, y)
    except NotCovered as error:
        why = wording.DISTANCE_OPEN(why=message_of(error))
        return replace(left, notes=(*left.notes, why))
    return replace(left, contains=nearest == 0, nearest=nearest)


def left_by_rules(
    rules: RuleList,
    schema: Schema | None = None,
    X: pd.DataFrame | None = None,
    y: Sequence[Any] | None = None,
) -> Uncertainty:
    """State the residual uncertainty for one rule list, or one rule set; the rest as in
    `left_by_tree`.
    """
    filled = rules.default.counts is None
    if filled and (X is None or y is None):
        raise NotCovered(wording.COUNTS_MISSING(who="the rules do not say", what="they capture"))
    known, source = _bounded(schema, lambda rows: infer_rule_schema(rules, rows), X)
    data = from_rule_list(rules, known, *((X, y) if filled else ()))
    notes: list[str] = [FILLED] * filled
    if schema is None and X is None:
        notes += binary_if_unused(known, [c.column for r in rules.rules for c in r.conditions])
    left = _left(data, "rules", source, not filled, notes)
    return left if X is None else replace(left, contains=_allowed(data, X))


def _allowed(data: ProbabilisticDataset, X: pd.DataFrame) -> bool:
    """Say whether the schema allows rows that the model counts as it does."""
    axes = data.space.axes
    values = np.column_stack([axis.read(X) for axis in axes])
    columns = [column for axis in axes for column in axis.columns]
    return bool(data.space.schema.valid(values, columns).all())


def _bounded(
    schema: Schema | None, infer: Callable[[pd.DataFrame | None], Schema], X: pd.DataFrame | None
) -> tuple[Schema, str]:
    """Find a schema in which every column has bounds, and say where it came from."""
    if schema is None:
        # Rows that a domain taken from the model alone excludes would make every figure wrong.
        and_rows = "" if X is None else " and the training rows"
        known, source = infer(X), f"inferred from the model{and_rows}"
    else:
        known, source = schema, "given"
    endless = _endless(known)
    if endless and schema is not None and X is not None:
        bounds = {a.name: a.bounds for a in infer(X).attributes}
        attributes = [_within(a, *bounds[a.name]) if a in endless else a for a in known.attributes]
        known = Schema(attributes, known.rules)
        source = "given; missing bounds are those of the training rows"
    if endless := _endless(known):
        raise NotCovered(wording.NO_RANGE(columns=[a.name for a in endless]))
    return known, source


def _within(attribute: Any, low: float, high: float) -> Numeric:
    low = attribute.low if math.isfinite(attribute.low) else low
    high = attribute.high if math.isfinite(attribute.high) else high
    return Numeric(attribute.name, low, high, missing=attribute.missing)


def _endless(schema: Schema) -> list[Numeric]:
    """The columns of numbers that lack a bound."""
    numeric = (a for a in schema.attributes if isinstance(a, Numeric))
    return [a for a in numeric if not all(map(math.isfinite, a.bounds))]


def _left(
    data: ProbabilisticDataset, of: str, schema: str, exact: bool, notes: Sequence[str]
) -> Uncertainty:
    held = np.flatnonzero(data.support)
    order = held[np.lexsort((data.support[held], data.group_bits[held]))]
    support, bits = data.support[order], data.group_bits[order]
    last = np.cumsum(support)
    places = [round(q / 100 * (data.n_rows - 1)) for q in QUANTILES if data.n_rows]
    at = np.searchsorted(last, places, side="right")
    exposed_equally = bits == bits[:1]
    determined, small = bits == 0, support < THRESHOLD
    numeric = [a.attribute.name for a in data.space.axes if isinstance(a.attribute, Numeric)]
    if numeric:
        notes = [*notes, wording.STEPS(steps=NUMERIC_STEPS, columns=numeric)]
    some = data.n_rows > 0
    return Uncertainty(
        of=of,
        n_rows=data.n_rows,
        n_attributes=data.n_attributes,
        dist=data.dist() if some else None,
        dist_g=data.dist_g() if some else None,
        log2_worlds=data.log2_worlds,
        row_bits=data.space.bits,
        mean_bits=float(bits @ support) / data.n_rows if some else None,
        quantiles=dict(zip(QUANTILES, data.shares[order][at].tolist(), strict=False)),
        exposed=tuple(_exposed(data, int(g)) for g in order[:MOST_EXPOSED]),
        as_exposed=int(exposed_equally.sum()),
        rows_as_exposed=int(support[exposed_equally].sum()),
        told=int(support[determined].sum()),
        told_in_small=int(support[determined & small].sum()),
        schema=schema,
        exact=exact,
        notes=tuple(notes),
    )


def _exposed(data: ProbabilisticDataset, group: int) -> Exposed:
    by_class = {str(c): int(n) for c, n in zip(data.classes, data.counts[group], strict=False) if n}
    return Exposed(
        name=data.names[group],
        where=data.say(group),
        rows=int(data.support[group]),
        by_class=by_class,
        bits=float(data.group_bits[group]),
        left=float(data.shares[group]),
    )
