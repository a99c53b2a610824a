"""People that a model singles out: by predicates of which counts prove one person, and by proofs.

A predicate that exactly one person of a table meets isolates them. If it is so light that luck
seldom isolates anybody, it is predicate singling out (Cohen and Nissim 2020).
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from treeleak.auditing.record import Serialisable
from treeleak.claims.boxes import Boxes
from treeleak.claims.check import check_claims, pinned
from treeleak.claims.find import Claims, find_claims, is_beyond_luck
from treeleak.core.arrays import BoolArray
from treeleak.core.errors import NotCovered, TimeUp
from treeleak.core.private import dataclass
from treeleak.reconstruction import Reconstruction
from treeleak.release.draws.seeds import known_draws
from treeleak.release.infer_schema import infer_schema
from treeleak.release.release import Release
from treeleak.schema import Schema

if TYPE_CHECKING:
    from treeleak.auditing.case import Case


def assess_alone(case: Case) -> Case:
    """Count the rows that a model singles out, as a part of an audit."""
    alone, rare = proved_alone(case.rebuilt, case.release), None
    y = case.rebuilt.outcomes
    # A leaf of one row of a regression also tells the target, which few others have.
    if case.found.isolation is not None and (y is None or case.rebuilt.labelled):
        rare = int(
            (
                alone & rare_rows(case.rebuilt, case.found.isolation.claims, case.request.schema)
            ).sum()
        )
    return case.plus(alone=int(alone.sum()), alone_and_rare=rare)


def rare_rows(reconstruction: Reconstruction, claims: Claims, schema: Schema | None) -> BoolArray:
    """Find rows whose place in all trees tells of one person.

    Luck seldom puts anybody into so small a place; or it pins half of the columns or more: to one
    value or 5 % of their range, or without a ``schema`` as finely as any test does. A person who is
    alone in a larger place, as one of a class in a leaf of many, is a small cell for a threshold to
    judge. Shape (n_rows,).
    """
    partition, n = claims.partition, reconstruction.n_rows
    if reconstruction.X is None:
        return np.zeros(0, dtype=bool)
    names = list(partition.release.feature_names)
    leaves = partition.apply(partition.encode(reconstruction.X[names].to_numpy(dtype=float)))
    place = partition.boxes(leaves[:, 0])
    for of_tree in leaves.T[1:]:
        box = partition.boxes(of_tree)
        place = Boxes(
            np.maximum(place.low, box.low), np.minimum(place.high, box.high), place.bits & box.bits
        )
    light = is_beyond_luck(n, claims.prior.weight(partition, place))
    if schema is not None and set(names) <= set(schema.columns):
        fixed = pinned(replace(claims, region=place, node=leaves[:, 0]), schema)
    else:
        tested = np.array([len(cuts) > 0 for cuts in partition.cuts])
        fixed = ((place.low == place.high) & tested).sum(axis=1)
    return np.asarray(light | (2 * fixed >= len(names)))


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


SHARE = 0.1
"""Of the time, for finding claims; checking them is quick."""
_MOST_CONTROL = 20_000
"""Control rows that are held against the predicates."""


@dataclass(frozen=True, eq=False)
class Isolation(Serialisable):
    """Predicates that exactly one person meets, in every table that the counts allow.

    Attributes
    ----------
    of : {"training rows", "rows that a tree drew"}
        Among whom exactly one person meets each.
    predicates : int
    described : int
        The lightest of them, to which all that follows refers.
    by_difference : int
        Those that are differences of nested nodes of different trees.
    different : int
        People that are different for sure, without the training rows.
    people : int or None
        People isolated, counted in the training rows; None without these, or where it is not known
        which rows trees drew.
    beyond_luck : int
        Predicates so light that luck would isolate a person in 5 % of cases at most.
    people_beyond_luck : int or None
        People whom they isolate.
    expected : float
        People expected to meet a predicate, in the median: their number times its weight.
    narrowed : float
        Weight that other trees left of a predicate, in the median.
    pinned, most_pinned : float, int
        Columns pinned to one value or 5 % of their range: in the median, and at most.
    columns : int
        Columns that trees test.
    prior : {"control", "counts"}
        Where weights come from: control rows, or a fit to the counts; columns are independent.
    control_rows : int or None
        Those held against the predicates.
    unmet : float or None
        Share of the predicates that no control row meets.
    false : int or None
        Predicates that do not hold in the training rows: sample weights, or an error.
    complete : bool
        Whether all was looked at.
    claims : Claims
        Never in a document.
    """

    of: str
    predicates: int
    described: int
    by_difference: int
    different: int
    people: int | None
    beyond_luck: int
    people_beyond_luck: int | None
    expected: float
    narrowed: float
    pinned: float
    most_pinned: int
    columns: int
    prior: str
    control_rows: int | None
    unmet: float | None
    false: int | None
    complete: bool
    claims: Claims = field(repr=False)


def find(case: Case) -> Case:
    """Find claims, as a part of an audit; what has no exact counts has none."""
    clock = case.clock.part(case.seconds(SHARE))
    schema = case.request.schema
    missing = frozenset(
        c for a in (schema.attributes if schema else ()) if getattr(a, "missing", False)
        for c in a.columns
    )  # fmt: skip
    control = None if case.others is None else _values(case.release, case.others)
    try:
        claims = find_claims(case.release, control, missing, clock, case.request.seed)
    except NotCovered:
        return case
    return case.plus(isolation=_summed_up(case, claims)) if claims.found else case


def check(case: Case) -> Case:
    """Hold claims against the training rows, as a part of an audit."""
    found, release, truth = case.found.isolation, case.release, case.truth
    if found is None:
        return case
    labels = None
    if case.request.y is not None and len(release.classes) > 1:
        labels = release.class_numbers(np.ravel(np.asarray(case.request.y, dtype=object)))
    draws = None if found.claims.counted.all_rows else _draws(case, len(truth.X))
    checked = check_claims(found.claims, _values(release, truth.X), labels, draws)
    known = found.claims.counted.all_rows or draws is not None
    beyond = found.claims.beyond_luck
    result = replace(
        found,
        people=checked.everybody if known else None,
        people_beyond_luck=checked.people(beyond) if known else None,
        false=int((~checked.true).sum()),
    )
    return case.plus(isolation=result)


def _summed_up(case: Case, claims: Claims) -> Isolation:
    release = case.release
    unmet = control = None
    if case.others is not None:
        rows = claims.partition.encode(_values(release, case.others.iloc[:_MOST_CONTROL]))
        unmet, control = float((claims.fits(rows, most=0)[0] == 0).mean()), len(rows)
    schema = case.request.schema
    if schema is None or not set(release.feature_names) <= set(schema.columns):
        schema = infer_schema(release)
    held = pinned(claims, schema)
    return Isolation(
        of="training rows" if claims.counted.all_rows else "rows that a tree drew",
        predicates=claims.found,
        described=len(claims.node),
        by_difference=int((claims.other >= 0).sum()),
        different=claims.different,
        people=None,
        beyond_luck=int(claims.beyond_luck.sum()),
        people_beyond_luck=None,
        expected=float(np.median(claims.n_seen * claims.weight)),
        narrowed=float(np.median(claims.weight / np.maximum(claims.at_first, 1e-300))),
        pinned=float(np.median(held)),
        most_pinned=int(held.max()),
        columns=len(release.tested),
        prior=claims.prior.source,
        control_rows=control,
        unmet=unmet,
        false=None,
        complete=claims.complete,
        claims=claims,
    )


def _draws(case: Case, n_rows: int) -> Any:
    """Give how often each tree drew each row; None where that is not known."""
    rebuilt = case.found.reconstruction
    if rebuilt is not None and rebuilt.draws is not None:
        draws = rebuilt.draws.counts
    elif case.request.bootstrap == "hidden":
        return None
    else:
        try:
            draws = known_draws(case.release, seed_search=0).counts
        except TimeUp:
            raise
        except NotCovered:
            return None
    return draws if draws.shape == (len(case.release.trees), n_rows) else None


def _values(release: Release, X: pd.DataFrame) -> Any:
    return X[list(release.feature_names)].to_numpy(dtype=float)
