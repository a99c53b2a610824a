"""Rows that a model proves and that are alone in their place, and which of these are rare."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treeleak.auditing.assessors.places import Places, count_people, pinned, shares_of
from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.reconstruction import Reconstruction
from treeleak.release.release import Release
from treeleak.schema import Schema

if TYPE_CHECKING:
    from treeleak.auditing.case import Case

LUCK = 0.05
"""Probability of luck, up to which a place is small."""


def assess_alone(case: Case) -> Case:
    """Count the rows that a model singles out, as a part of an audit."""
    rebuilt, schema = case.rebuilt, case.request.schema
    alone, rare = proved_alone(rebuilt, case.release), None
    # A leaf of one row of a regression also tells the target, which few others have.
    if rebuilt.outcomes is None or rebuilt.labelled:
        missing = {
            c for a in (schema.attributes if schema else ()) if getattr(a, "missing", False)
            for c in a.columns
        }  # fmt: skip
        counted = count_people(case.release, missing)
        if counted is not None:
            names = list(case.release.feature_names)
            others = None if case.others is None else case.others[names].to_numpy(dtype=float)
            shares = shares_of(*counted, others, case.request.seed)
            rare = int((alone & rare_rows(rebuilt, counted[0], shares, schema)).sum())
    return case.plus(alone=int(alone.sum()), alone_and_rare=rare)


def proved_alone(reconstruction: Reconstruction, release: Release) -> BoolArray:
    """Find the rows that are proved, and proved to share their place with no other of their class.

    A proof that four hundred rows have the same value in the one column that a tree tests is a
    statistic. A proof that one row lies where no other does speaks of a person. It is there where
    a leaf counts a single row; and where every row (of the class, if classes are counted) is
    proved, since then the rebuilt rows tell of each place how many lie there.

    Where row k is row k of the training set, a proof names the row. There, a proved row counts
    if no other rebuilt row has its place: to prove that all rows are alike is no proof about any.
    A leaf that counts a single draw may hold rows that its tree did not draw, and proves nothing.

    Rows that were given are not counted. Shape (n_rows,).
    """
    X, y, proved = reconstruction.X, reconstruction.outcomes, reconstruction.proved
    if X is None or proved is None or X.empty:
        return np.zeros(reconstruction.n_rows, dtype=bool)
    by_class = y is not None and (reconstruction.ordered or release.counts_are == "rows")
    number = {c: i for i, c in enumerate(release.classes)}
    label = np.zeros(len(X), dtype=np.int64)
    if by_class and y is not None:
        label = np.array([number.get(v, 0) for v in y], dtype=np.int64)
    leaves = release.leaves(X)
    sure = proved.to_numpy(dtype=bool)
    found = sure & ~reconstruction.given.all(axis=1)
    _, group, size = np.unique(
        np.column_stack([label, leaves]), axis=0, return_inverse=True, return_counts=True
    )
    alone = size[group.ravel()] == 1
    if reconstruction.ordered:
        return np.asarray(alone & found)
    alone &= np.array([sure[label == c].all() for c in range(label.max() + 1)])[label]
    for tree, leaf in zip(release.trees, leaves.T, strict=True):
        if by_class and tree.counts is not None:
            alone |= tree.counts[leaf, label] == 1
        elif tree.totals is not None:
            alone |= tree.totals[leaf] == 1
    return np.asarray(alone & found)


def rare_rows(
    reconstruction: Reconstruction,
    places: Places,
    shares: tuple[FloatArray, ...],
    schema: Schema | None,
) -> BoolArray:
    """Find rows whose place in all trees tells of one person.

    Luck seldom puts anybody into so small a place; or it pins half of the columns or more: to one
    value or 5 % of their range, or without a ``schema`` as finely as any test does. A person who is
    alone in a larger place, as one of a class in a leaf of many, is a small cell for a threshold to
    judge. ``shares``: of people in each atom of each column. Shape (n_rows,).
    """
    n, names = reconstruction.n_rows, list(places.release.feature_names)
    if reconstruction.X is None:
        return np.zeros(0, dtype=bool)
    place = places.of_rows(reconstruction.X[names])
    weight = np.clip(places.weight(shares, place), 0.0, 1.0)
    # The probability that exactly one of n people is there (Cohen and Nissim 2020).
    light = (n * weight * (1.0 - weight) ** (n - 1.0) <= LUCK) & (n * weight <= 1.0)
    if schema is not None and set(names) <= set(schema.columns):
        fixed = pinned(places, place, schema)
    else:
        tested = np.array([len(cuts) > 0 for cuts in places.cuts])
        fixed = ((place.low == place.high) & tested).sum(axis=1)
    return np.asarray(light | (2 * fixed >= len(names)))
