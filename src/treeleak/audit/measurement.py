"""How close a reconstruction is to the training rows, and whom it singles out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak._private import dataclass
from treeleak.audit.shape import Shape
from treeleak.metrics import (
    Guesses,
    Individual,
    Significance,
    exact_row_share,
    individual_errors,
    partial_error,
    random_guesses,
    reconstruction_error,
    same_size,
    significance,
)
from treeleak.metrics.matching import best_matching, table_columns
from treeleak.reconstruction import Reconstruction
from treeleak.release.tree import Release
from treeleak.training import TrainingRows

__all__ = ["Measurement", "Pairs", "Variant", "measure", "singled_out", "variants_of"]


_FEW = 20
"""Random guesses where some values were given: each must be matched on all columns."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Which rebuilt row stands for which training row, and how far each value is off.

    Attributes
    ----------
    rebuilt : int array, shape (n_rows,)
        Numbers of the rebuilt rows that were compared.
    true : int array, shape (n_rows,)
        Number of the training row matched with each.
    distance : float array, shape (n_rows, n_columns)
    given : bool array, shape (n_rows, n_columns)
        Which values were given.
    columns : tuple of str
    errors : float array, shape (n_rows,)
        Of each training row, in their order: mean over what was not given, NaN where all was.
    guesses : Guesses
        Random ones, measured.
    """

    rebuilt: NDArray[np.int64]
    true: NDArray[np.int64]
    distance: NDArray[np.float64]
    given: NDArray[np.bool_]
    columns: tuple[str, ...]
    errors: NDArray[np.float64]
    guesses: Guesses


@dataclass(frozen=True)
class Measurement:
    """A reconstruction against the true rows.

    Attributes
    ----------
    error : float
        Share of values that are wrong, under the best matching of rows; of those that were not
        given, if some were.
    exact_rows : float
        Share of the true rows that were rebuilt without any difference. Rows that were given are
        not counted, here and in what follows.
    located_rows : float
        Share of the true rows that were rebuilt without a difference that any tree could tell. A
        number is never rebuilt exactly, for trees only narrow it down.
    guess_mean, guess_sd : float
        Error of random guesses that know the schema, and what was given, and nothing of the model.
    compared : str
        What was compared first, to see that these are the training rows.
    exact_in_order, located_in_order : float or None
        The same shares of rows, but of those rebuilt in their own place: row k as row k. None
        where the reconstruction has no order.
    error_in_order : float or None
        Share of values that are wrong where each row is compared with the one in its place,
        without the columns of numbers, as the reconstruction's own ``expected_error``.
    individual : Individual or None
        Errors row by row, of what was not given.
    significance : Significance or None
        Whether the rebuilt rows are nearer to these rows than to others of their population; None
        where no such rows were given, or some values of the training rows were.
    shape : Shape or None
        What the attack would guess from the shape of the trees alone; None where counts carry no
        noise, or the audit was interrupted.
    pairs : Pairs or None
        What the errors come from, for those who ask for columns, groups or rows. Never in a
        document.
    """

    error: float
    exact_rows: float
    located_rows: float
    guess_mean: float
    guess_sd: float
    compared: str
    exact_in_order: float | None = None
    located_in_order: float | None = None
    error_in_order: float | None = None
    individual: Individual | None = None
    significance: Significance | None = None
    shape: Shape | None = None
    pairs: Pairs | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Describe the measurement (formats/audit.schema.json)."""
        parts = {
            "individual": self.individual,
            "significance": self.significance,
            "shape": self.shape,
        }
        told = {name: None if part is None else part.to_dict() for name, part in parts.items()}
        return {k: v for k, v in self.__dict__.items() if k != "pairs"} | told


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

    _said: ClassVar = ("what",)

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


def variants_of(
    reconstruction: Reconstruction | None,
    truth: TrainingRows | None,
    release: Release,
    seed: int = 0,
    control: pd.DataFrame | None = None,
    guesses: Sequence[Reconstruction] = (),
) -> tuple[Variant, ...]:
    """List what came with a reconstruction, measured where there are training rows."""
    found: list[tuple[str, Reconstruction | None]] = []
    # Hidden draws come without guesses, so all others are without the population, too.
    bare = [g.without_population for g in guesses if g.without_population is not None]
    if reconstruction is not None:
        found.append(("without the population", reconstruction.without_population))
        if (drawn := reconstruction.without_distinct) is not None:
            found.append(("drawn counts only", drawn))
            found.append(("drawn counts only, without the population", drawn.without_population))
    return tuple(
        Variant(
            what,
            own,
            None if truth is None else measure(own, truth, release, seed, control, bare),
        )
        for what, own in found
        if own
    )


def measure(
    reconstruction: Reconstruction,
    truth: TrainingRows,
    release: Release,
    seed: int = 0,
    control: pd.DataFrame | None = None,
    guesses: Sequence[Reconstruction] = (),
) -> Measurement | None:
    """Compare a reconstruction with the training rows; None if there are no rows to compare.

    If there are more or fewer of them than training rows, some chosen at random are left out or
    repeated. ``control`` has rows of the same population that the model was not trained on,
    ``guesses`` what the attack makes of the shape of the trees alone.
    """
    if reconstruction.X is None or reconstruction.X.empty or reconstruction.given.all():
        return None
    rebuilt, true = reconstruction.X, truth.X
    numbers = np.arange(len(rebuilt))
    if len(rebuilt) != len(true):
        numbers, reconstruction = _as_many(reconstruction, len(true), seed)
        rebuilt = _rows(reconstruction)
    given, schema = reconstruction.given, reconstruction.schema
    known = pd.DataFrame(given, columns=rebuilt.columns)
    matching = best_matching(rebuilt, true, schema)
    individual = individual_errors(rebuilt, true, schema, known, seed, matching)
    columns = table_columns(rebuilt, true, schema)
    told = known[columns].to_numpy()
    nearer = None
    if given.any():
        tried = random_guesses(true, schema, _FEW, seed, (rebuilt, known))
    else:
        tried = random_guesses(true, schema, seed=seed)
        if control is not None:
            nearer = significance(rebuilt, true, control, schema, seed=seed)
    pairs = Pairs(numbers, *matching, told, tuple(columns), individual.errors, tried)
    all_given = np.asarray(given.all(axis=1))
    rebuilt, true = _not_given(rebuilt, true, all_given, reconstruction.ordered)
    rebuilt_leaves, true_leaves = _leaves(rebuilt, release), _leaves(true, release)
    exact_in_order = located_in_order = error_in_order = None
    if reconstruction.ordered:
        same = _same(rebuilt[true.columns].to_numpy(), true.to_numpy())
        exact_in_order = float(same.all(axis=1).mean())
        located_in_order = float(_same(rebuilt_leaves, true_leaves).all(axis=1).mean())
        open_ = np.broadcast_to(~true.columns.isin(reconstruction.interval_columns), same.shape)
        open_ = open_ & ~given[~all_given][:, rebuilt.columns.get_indexer(true.columns)]
        if open_.any():
            error_in_order = float((~same[open_]).mean())
    return Measurement(
        error=float(matching.distance[~told].mean()),
        exact_rows=exact_row_share(rebuilt, true),
        located_rows=exact_row_share(rebuilt_leaves, true_leaves),
        guess_mean=tried.baseline.mean,
        guess_sd=tried.baseline.std,
        compared=truth.checked,
        exact_in_order=exact_in_order,
        located_in_order=located_in_order,
        error_in_order=error_in_order,
        individual=individual,
        significance=nearer,
        shape=_of_shape(guesses, truth.X, seed),
        pairs=pairs,
    )


def _of_shape(guesses: Sequence[Reconstruction], true: pd.DataFrame, seed: int) -> Shape | None:
    """Measure guesses; where they have fewer rows, against as many of the training rows."""
    errors, exact = [], []
    for k, guess in enumerate(guesses):
        if guess.given.any():
            _, own = _as_many(guess, len(true), seed)
            known = pd.DataFrame(own.given, columns=true.columns)
            errors.append(partial_error(_rows(own), true, known, own.schema))
            all_given = np.asarray(own.given.all(axis=1))
            exact.append(exact_row_share(*_not_given(_rows(own), true, all_given, own.ordered)))
        else:
            part = true.sample(guess.n_rows, random_state=seed + k)
            errors.append(reconstruction_error(_rows(guess), part, guess.schema))
            exact.append(exact_row_share(_rows(guess), part))
    return Shape.of(errors, exact)


def _rows(reconstruction: Reconstruction) -> pd.DataFrame:
    return pd.DataFrame() if reconstruction.X is None else reconstruction.X


def _as_many(
    reconstruction: Reconstruction, n_rows: int, seed: int
) -> tuple[NDArray[np.int64], Reconstruction]:
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


def _not_given(
    rebuilt: pd.DataFrame, true: pd.DataFrame, given: NDArray[np.bool_], ordered: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Leave out the rows that were given, with one true row for each."""
    if not given.any():
        return rebuilt, true
    if ordered:
        return rebuilt[~given], true[~given]
    columns = list(true.columns)
    own = rebuilt.loc[given, columns]
    key = pd.concat([own, true]).astype(float)
    group = key.groupby(columns, dropna=False, sort=False).ngroup().to_numpy()
    left = np.bincount(group[: len(own)], minlength=group.max() + 1)
    nth = pd.Series(group[len(own) :]).groupby(group[len(own) :]).cumcount().to_numpy()
    kept = np.flatnonzero(nth >= left[group[len(own) :]])
    # Given rows that are none of the true ones take the place of any.
    return rebuilt[~given], true.iloc[kept[: int((~given).sum())]]


def _same(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)))


def _leaves(X: pd.DataFrame, release: Release) -> NDArray[np.int64]:
    """Leaf of every row in every tree."""
    table = X[list(release.feature_names)]
    rows = np.ascontiguousarray(table.to_numpy(dtype=release.float_type))
    return np.column_stack([tree.apply(rows) for tree in release.trees])


def singled_out(reconstruction: Reconstruction, release: Release) -> int:
    """Count the rows that are proved, and proved to share their place with no other of their class.

    A proof that four hundred rows have the same value in the one column that a tree tests is a
    statistic. A proof that one row lies where no other does speaks of a person. It is there where
    a leaf counts a single row; and where every row (of the class, if classes are counted) is
    proved, since then the rebuilt rows tell of each place how many lie there.

    Where row k is row k of the training set, a proof names the row. There, a proved row counts
    if no other rebuilt row has its place: to prove that all rows are alike is no proof about any.
    A leaf that counts a single draw may hold rows that its tree did not draw, and proves nothing.

    Rows that were given are not counted.
    """
    X, y, proved = reconstruction.X, reconstruction.y, reconstruction.proved
    if X is None or y is None or proved is None or X.empty:
        return 0
    by_class = reconstruction.ordered or release.counts_are == "rows"
    number = {c: i for i, c in enumerate(release.classes)}
    label = np.array([number.get(v, 0) if by_class else 0 for v in y], dtype=np.int64)
    leaves = _leaves(X, release)
    sure = proved.to_numpy(dtype=bool)
    found = sure & ~reconstruction.given.all(axis=1)
    _, group, size = np.unique(
        np.column_stack([label, leaves]), axis=0, return_inverse=True, return_counts=True
    )
    alone = size[group.ravel()] == 1
    if reconstruction.ordered:
        return int((alone & found).sum())
    alone &= np.array([sure[label == c].all() for c in range(label.max() + 1)])[label]
    for tree, leaf in zip(release.trees, leaves.T, strict=True):
        if by_class and tree.counts is not None:
            alone |= tree.counts[leaf, label] == 1
        elif tree.totals is not None:
            alone |= tree.totals[leaf] == 1
    return int((alone & found).sum())
