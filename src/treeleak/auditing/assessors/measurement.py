"""How close a reconstruction is to the training rows, and whom it singles out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.auditing.assessors.baselines import (
    BaselineComparison,
    BaselineRun,
    Shape,
    compare,
    tried_shape,
)
from treeleak.auditing.assessors.compared import (
    Compared,
    InOrder,
    Pairs,
    Tables,
    beside_baselines,
    compared,
    equal_rows,
)
from treeleak.auditing.assessors.domains import Domains
from treeleak.auditing.record import Serialisable
from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.private import dataclass
from treeleak.metrics import Individual, Significance, exact_row_share, same_size
from treeleak.metrics.scores import Scores, right_targets
from treeleak.reconstruction import Reconstruction
from treeleak.release.release import Release, class_numbers
from treeleak.schema import Schema
from treeleak.verification.training_rows import TrainingRows


def came_back(exact: float, located: float, targets: float | None) -> tuple[float, str]:
    """Choose the greatest of these shares of rows, and say in what the rows came back."""
    if targets is not None and targets >= max(exact, located):
        return targets, "with their exact target"
    if located > exact:
        return located, "on every value that the model's splits distinguish"
    return exact, "exactly"


_NOT_EVERY = ("targets", "isolated_rows", "on_tested")


@dataclass(frozen=True)
class Measurement(Serialisable):
    """A reconstruction against the true rows.

    Attributes
    ----------
    error : float
        Mean distance of a value under the best matching of rows, as DRAFT has it; of those that
        were not given, if some were. :attr:`scores` tells categories and numbers apart.
    exact_rows : float
        Share of the true rows that were rebuilt without any difference. Rows that were given are
        not counted, here and in what follows.
    located_rows : float
        Share of the true rows that were rebuilt without a difference that any tree could tell. A
        number is never rebuilt exactly, for trees only narrow it down.
    guess_mean, guess_sd : float or None
        Error of random guesses that know the schema, and what was given, and nothing of the model;
        None where no baseline was tried.
    compared : str
        What was compared first, to see that these are the training rows.
    exact_in_order, located_in_order : float or None
        The same shares of rows, but of those rebuilt in their own place: row k as row k. None
        where the reconstruction has no order.
    error_in_order : float or None
        Share of values that are wrong where each row is compared with the one in its place,
        without the columns of numbers.
    individual : Individual or None
        Errors row by row, of what was not given.
    significance : Significance or None
        Whether the rebuilt rows are nearer to these rows than to others of their population; None
        where no such rows were given, or some values of the training rows were.
    shape : Shape or None
        What the attack would guess from the shape of the trees alone; None where that decides
        nothing, or was not found out.
    scores : Scores or None
        How far the rebuilt rows are off, categories and numbers apart.
    yardsticks : tuple of BaselineComparison
        The rebuilt rows held against guesses of those who know less than the counts of leaves.
    targets : float or None
        Of a regression: the share of the training rows whose target was rebuilt beside them, to
        nine digits; None where no target was rebuilt, or none was given.
    isolated_rows : float or None
        As :attr:`exact_rows`, but a number counts as right, too, if the trees place it between
        thresholds between which all training rows have one value; None if that was not measured.
    in_order : InOrder or None
        Row k held against person k; None where the reconstruction has no order.
    on_tested : Compared or None
        The same comparison without the columns that no tree tests; None where there are none, or
        no others.
    pairs : Pairs or None
        What the errors come from, for those who ask for columns, groups or rows. Never in a
        document.
    """

    error: float
    exact_rows: float
    located_rows: float
    guess_mean: float | None
    guess_sd: float | None
    compared: str
    exact_in_order: float | None = None
    located_in_order: float | None = None
    error_in_order: float | None = None
    individual: Individual | None = None
    significance: Significance | None = None
    shape: Shape | None = None
    scores: Scores | None = None
    yardsticks: tuple[BaselineComparison, ...] = ()
    in_order: InOrder | None = None
    targets: float | None = None
    isolated_rows: float | None = None
    on_tested: Compared | None = None
    pairs: Pairs | None = field(default=None, repr=False, compare=False)

    @property
    def came_back(self) -> tuple[float, str]:
        """The greatest share of training rows that came back, and in what."""
        return came_back(self.exact_rows, self.located_rows, self.targets)

    @property
    def judged(self) -> Measurement | Compared:
        """What shows whether the rows tell of people: the comparison on columns that trees test."""
        return self if self.on_tested is None else self.on_tested

    def to_dict(self) -> dict[str, Any]:
        """Describe it (formats/audit.schema.json): what not every model has, where it is there."""
        values = super().to_dict()
        return {k: v for k, v in values.items() if v is not None or k not in _NOT_EVERY}


@dataclass(frozen=True, eq=False)
class Variant:
    """The same attack with less to go by.

    Attributes
    ----------
    what : str
        What was left out, in words.
    reconstruction : Reconstruction
    measurement : Measurement or None
    """

    _shown_fields: ClassVar = ("what",)

    what: str
    reconstruction: Reconstruction
    measurement: Measurement | None = None

    def to_dict(self) -> dict[str, Any]:
        """Describe the variant (formats/audit.schema.json)."""
        return {
            "what": self.what,
            "status": self.reconstruction.status,
            "expected_error": self.reconstruction.expected_error,
            "measurement": None if self.measurement is None else self.measurement.to_dict(),
        }


@dataclass(frozen=True, eq=False)
class Side:
    """What is compared: rebuilt rows, and the training rows."""

    reconstruction: Reconstruction
    """With as many rows as there are training rows."""
    numbers: IntArray
    """Of these rows."""
    tables: Tables

    @classmethod
    def of(
        cls,
        reconstruction: Reconstruction,
        truth: TrainingRows,
        release: Release,
        seed: int,
        control: pd.DataFrame | None,
        labels: Any,
        domains: Domains | None,
    ) -> Side:
        """Put both side by side; for the parameters, see :func:`measure`."""
        numbers, matched = _as_many(reconstruction, len(truth.X), seed)
        rebuilt = _rows(matched)
        group = _classes(release, labels, len(truth.X)) if matched.ordered else None
        known = pd.DataFrame(matched.given, columns=rebuilt.columns)
        tables = Tables(rebuilt, truth.X, known, control, matched.schema, group, domains)
        return cls(matched, numbers, tables)

    @property
    def tested(self) -> Tables | None:
        """Without the columns that no tree tests, where there are any."""
        return self.tables.tested(self.reconstruction.free_columns)


def measure(
    reconstruction: Reconstruction,
    truth: TrainingRows,
    release: Release,
    seed: int = 0,
    control: pd.DataFrame | None = None,
    *,
    labels: Any = None,
    before: Measurement | None = None,
    domains: Domains | None = None,
) -> Measurement | None:
    """Compare a reconstruction with the training rows; None if there are no rows to compare.

    If there are more or fewer of them than training rows, some chosen at random are left out or
    repeated. ``control`` has rows of the same population that the model was not trained on,
    ``labels`` the classes of the training rows, ``before`` what was measured of other rebuilt rows:
    its yardsticks are taken. ``domains``: in which the rows are written, for guesses, too.
    """
    if nothing_to_compare(reconstruction):
        return None
    side = Side.of(reconstruction, truth, release, seed, control, labels, domains)
    return with_baselines(
        errors_of(side, truth, release, seed, labels), side, release, seed, before
    )


def nothing_to_compare(reconstruction: Reconstruction) -> bool:
    """Whether there are no rebuilt rows, or all was given."""
    X = reconstruction.X
    return X is None or X.empty or bool(reconstruction.given.all())


def errors_of(
    side: Side, truth: TrainingRows, release: Release, seed: int, labels: Any
) -> Measurement:
    """Measure rebuilt rows, without baselines: what can be said soon."""
    reconstruction, tables = side.reconstruction, side.tables
    rebuilt, true, provided = tables.rebuilt, tables.true, reconstruction.given
    whole, on_tested = compared(tables, side.numbers, seed), None
    if (part := side.tested) is not None:
        on_tested = compared(part, side.numbers, seed)
    fully_provided = np.asarray(provided.all(axis=1))
    rebuilt, true = _without_provided(rebuilt, true, fully_provided, reconstruction.ordered)
    rebuilt_leaves, true_leaves = release.leaves(rebuilt), release.leaves(true)
    exact_in_order = located_in_order = error_in_order = None
    if reconstruction.ordered:
        same = _same(rebuilt[true.columns].to_numpy(), true.to_numpy())
        exact_in_order = float(same.all(axis=1).mean())
        located_in_order = float(_same(rebuilt_leaves, true_leaves).all(axis=1).mean())
        open_ = np.broadcast_to(~true.columns.isin(reconstruction.interval_columns), same.shape)
        open_ = open_ & ~provided[~fully_provided][:, rebuilt.columns.get_indexer(true.columns)]
        if open_.any():
            error_in_order = float((~same[open_]).mean())
    isolated = rebuilt if tables.domains is None else tables.domains.isolated(rebuilt)
    split = any(tree.n_nodes > 1 for tree in release.trees)
    return Measurement(
        error=whole.error,
        exact_rows=exact_row_share(rebuilt, true),
        # Where no tree tests anything, nothing is distinguished.
        located_rows=exact_row_share(rebuilt_leaves, true_leaves) if split else 0.0,
        guess_mean=None,
        guess_sd=None,
        compared=truth.checked,
        exact_in_order=exact_in_order,
        located_in_order=located_in_order,
        error_in_order=error_in_order,
        individual=whole.individual,
        scores=whole.scores,
        isolated_rows=exact_row_share(isolated, true),
        targets=_targets(reconstruction, labels, truth.X, whole.pairs),
        on_tested=on_tested,
        pairs=whole.pairs,
    )


def with_baselines(
    measured: Measurement,
    side: Side,
    release: Release,
    seed: int,
    before: Measurement | None = None,
) -> Measurement:
    """Hold measured rows against baselines and other rows of the population, which takes longer."""
    if measured.pairs is None:
        return measured
    pairs, part = (None, None) if before is None else (before.pairs, before.judged.pairs)
    found = replace(measured, **beside_baselines(measured.pairs, side.tables, release, seed, pairs))
    if found.pairs is not None and (guesses := found.pairs.random) is not None:
        found = replace(found, guess_mean=guesses.baseline.mean, guess_sd=guesses.baseline.std)
    if (tested := measured.on_tested) is None or (tables := side.tested) is None:
        return found
    more = beside_baselines(tested.pairs, tables, release, seed, part)
    return replace(found, on_tested=replace(tested, **more))


def with_shape(
    measured: Measurement,
    guesses: Sequence[Reconstruction],
    truth: TrainingRows,
    schema: Schema,
    seed: int,
) -> Measurement:
    """Add what the attack guesses from the shape of the trees, if there are guesses enough."""
    tried = tried_shape(guesses, truth.X, schema, seed)
    if tried is None or measured.pairs is None:
        return measured
    more = _one_more(measured.pairs, measured.yardsticks, tried)
    found = replace(measured, shape=Shape.of(tried.guesses), **more)
    if (part := measured.on_tested) is None:
        return found
    columns = set(part.pairs.columns)
    run = tried_shape(guesses, truth.X, schema.within(lambda a: columns >= set(a.columns)), seed)
    if run is None:
        return found
    return replace(found, on_tested=replace(part, **_one_more(part.pairs, part.yardsticks, run)))


def _one_more(
    pairs: Pairs, yardsticks: tuple[BaselineComparison, ...], tried: BaselineRun
) -> dict[str, Any]:
    """Hold rebuilt rows against one more yardstick."""
    held = compare([tried], pairs.tested, pairs.misses)
    more = replace(pairs, tried=(*pairs.tried, tried))
    return {"yardsticks": (*yardsticks, *held), "pairs": more}


def _targets(
    reconstruction: Reconstruction, labels: Any, X: pd.DataFrame, pairs: Pairs
) -> float | None:
    """Share of the training rows whose target stands beside them."""
    outcomes = reconstruction.outcomes
    if outcomes is None or reconstruction.labelled or labels is None:
        return None
    numeric = pd.to_numeric(pd.Series(np.ravel(np.asarray(labels))), errors="coerce")
    known, n = numeric.to_numpy(dtype=float), len(X)
    if len(known) != n:
        return None
    estimates = outcomes.to_numpy(dtype=float)
    if reconstruction.ordered:
        return right_targets(estimates, known) / n
    # Of people who are alike, nobody says whose row a rebuilt one is.
    return right_targets(estimates[pairs.rebuilt], known[pairs.true], equal_rows(X)[pairs.true]) / n


def _classes(release: Release, labels: Any, n_rows: int) -> IntArray:
    """Class of each training row; the same for all where nobody says."""
    if labels is None or not release.classes:
        return np.zeros(n_rows, dtype=np.int64)
    return class_numbers(release.classes, np.ravel(np.asarray(labels, dtype=object)))


def _rows(reconstruction: Reconstruction) -> pd.DataFrame:
    return pd.DataFrame() if reconstruction.X is None else reconstruction.X


def _as_many(
    reconstruction: Reconstruction, n_rows: int, seed: int
) -> tuple[IntArray, Reconstruction]:
    """Leave rows out, or repeat some, with what was given of them; and say which were taken."""
    rebuilt = _rows(reconstruction)
    numbers = np.arange(len(rebuilt))
    if len(rebuilt) == n_rows:
        return numbers, reconstruction
    chosen = same_size(pd.DataFrame({"row": numbers}), n_rows, seed)["row"].to_numpy()
    known = None
    if reconstruction.known is not None:
        known = reconstruction.known.iloc[chosen].reset_index(drop=True)
    return chosen, replace(
        reconstruction, X=rebuilt.iloc[chosen].reset_index(drop=True), known=known, ordered=False
    )


def _without_provided(
    rebuilt: pd.DataFrame, true: pd.DataFrame, provided: BoolArray, ordered: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Leave out the rows that were given, with one true row for each."""
    if not provided.any():
        return rebuilt, true
    if ordered:
        return rebuilt[~provided], true[~provided]
    columns = list(true.columns)
    provided_rows = rebuilt.loc[provided, columns]
    key = pd.concat([provided_rows, true]).astype(float)
    group = key.groupby(columns, dropna=False, sort=False).ngroup().to_numpy()
    left = np.bincount(group[: len(provided_rows)], minlength=group.max() + 1)
    nth = (
        pd.Series(group[len(provided_rows) :])
        .groupby(group[len(provided_rows) :])
        .cumcount()
        .to_numpy()
    )
    remaining = np.flatnonzero(nth >= left[group[len(provided_rows) :]])
    # Given rows that are none of the true ones take the place of any.
    return rebuilt[~provided], true.iloc[remaining[: int((~provided).sum())]]


def _same(a: NDArray[Any], b: NDArray[Any]) -> BoolArray:
    return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)))
