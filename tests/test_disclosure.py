"""Whoever adds and subtracts what a releasable edition tells never gets at few people."""

import itertools
import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

import treeleak
from helpers.documents import valid
from helpers.examples import examples
from treeleak.auditing.disclosure.disclosure import few_behind, jointly_safe, remainders
from treeleak.schema import Binary, Categorical, Schema

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

# --------------------------------------------------------------- an adversary who solves equations


def rank(matrix):
    """Rank in exact fractions, by the book."""
    rows, r = [[Fraction(int(x)) for x in row] for row in matrix], 0
    for c in range(len(rows[0]) if rows else 0):
        pivot = next((k for k in range(r, len(rows)) if rows[k][c]), None)
        if pivot is None:
            continue
        rows[r], rows[pivot] = rows[pivot], rows[r]
        for k in range(len(rows)):
            if k != r and rows[k][c]:
                factor = rows[k][c] / rows[r][c]
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[r], strict=True)]
        r += 1
    return r


def isolated(sets, threshold):
    """Find fewer people than the threshold on whom alone some combination of the figures rests."""
    n = len(sets)
    figures = np.hstack([sets, np.ones((n, 1))]).T
    full = rank(figures)
    for people in itertools.combinations(range(n), threshold - 1):
        rest = [k for k in range(n) if k not in people]
        if rank(figures[:, rest]) < full:
            return people
    return None


def tables(draw_columns):
    """A table of few people, each column of which parts them into groups."""
    return st.integers(4, 9).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(0, 3), min_size=n, max_size=n), min_size=1, max_size=draw_columns
        )
    )


def groups_as_sets(columns):
    return np.column_stack([np.array(c) == g for c in columns for g in sorted(set(c))])


@examples(150, fast=18)
@given(tables(3), st.integers(2, 4))
def test_no_combination_rests_on_few_people(columns, threshold):
    sets = groups_as_sets(columns)
    kept = jointly_safe(sets, [None] * sets.shape[1], threshold)
    if len(sets) < threshold:
        assert not kept.any()
        return
    assert isolated(sets[:, kept], threshold) is None
    # Nothing is hidden where nothing follows.
    if isolated(sets, threshold) is None and (sets.sum(axis=0) >= threshold).all():
        assert kept.all()


@examples(150, fast=18)
@given(
    st.integers(1, 6).flatmap(
        lambda k: st.lists(
            st.tuples(st.lists(st.integers(0, 1), min_size=k, max_size=k), st.integers(1, 3)),
            min_size=1, max_size=8,
        )
    ),
    st.integers(2, 5),
)  # fmt: skip
def test_the_search_finds_few_people_wherever_there_are_some(atoms, threshold):
    people = np.array([n for _, n in atoms])
    matrix = np.array([a for a, _ in atoms]).T
    found = few_behind(matrix, people, threshold)
    full = rank(matrix)
    there = [
        chosen
        for size in range(1, len(people) + 1)
        for chosen in itertools.combinations(range(len(people)), size)
        if people[list(chosen)].sum() < threshold and rank(np.delete(matrix, chosen, axis=1)) < full
    ]
    assert (found is not None) == bool(there)
    if found is not None:
        assert people[found].sum() < threshold
        assert rank(matrix[:, ~found]) < full


def test_who_is_in_no_sum_hides_nobody():
    sets = np.ones((63, 1), dtype=bool)
    sets = np.hstack([sets, np.arange(63)[:, None] < 60])
    counted = np.arange(63) >= 55
    assert jointly_safe(sets, [None, None], 10, counted).tolist() == [False, False]


@pytest.mark.slow
def test_many_columns_come_to_an_end():
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 6, 120) for _ in range(8)]
    kept = jointly_safe(groups_as_sets(columns), [None] * 48, 10)
    assert kept.sum() < 48


def few_left(sets, threshold):
    """What is left of a whole, without parts of it that have nobody in common."""
    n = len(sets)
    own = [np.ones(n, dtype=bool), *sets.T, *~sets.T]
    for whole in own:
        inside = [s for s in own if (s <= whole).all() and 0 < s.sum() < whole.sum()]
        for size in range(4):
            for parts in itertools.combinations(inside, size):
                covered = np.sum(parts, axis=0) if parts else np.zeros(n)
                if covered.max(initial=0) <= 1 and 0 < whole.sum() - covered.sum() < threshold:
                    return True
    return False


@given(
    st.integers(3, 12).flatmap(
        lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), max_size=4)
    ),
    st.integers(2, 4),
)
def test_nothing_is_left_over_of_what_is_counted(columns, threshold):
    if not columns:
        return
    sets = np.array(columns).T
    out = remainders(sets, range(sets.shape[1]), threshold)
    kept = sets[:, [k for k in range(sets.shape[1]) if k not in out]]
    assert len(sets) < threshold or not few_left(kept, threshold)
    if not few_left(sets, threshold):
        assert not out


# ------------------------------------------------------------------------------------ in an audit


def audited(columns, **options):
    """An audit of people in whose groups nothing else is of interest."""
    n = len(next(iter(columns.values())))
    rng = np.random.default_rng(1)
    X = pd.DataFrame({f"f{k}": rng.integers(0, 2, n) for k in range(5)})
    y = rng.integers(0, 2, n)
    model = RandomForestClassifier(3, bootstrap=False, max_depth=3, random_state=0).fit(X, y)
    X = X.assign(**columns)
    schema = Schema(tuple(Binary(f"f{k}") for k in range(5)))
    return treeleak.audit(model, X, y, schema=schema, time_limit=20, groups=[*columns], **options)


def told(audit):
    groups = valid(json.loads(audit.to_json()))["exposure"]["groups"]
    return {(g["column"], g["group"]): g["rows"] for g in groups}


NESTED = {
    "region": np.repeat(["North", "North", "South"], [60, 3, 100]),
    "city": np.repeat(["CityA", "Town", "CityB"], [60, 3, 100]),
}


@pytest.mark.slow
def test_a_town_is_not_told_by_its_region_less_its_city():
    found = told(audited(NESTED))
    assert found["region", "North"] == 63
    assert ("city", "Town") not in found
    assert ("city", "CityA") not in found
    assert found["city", "CityB"] == found["region", "South"] == 100
    rest = "groups under 10 rows, and figures that would disclose them"
    assert found["city", rest] is None


@pytest.mark.slow
def test_a_city_is_told_where_nothing_follows():
    alone = told(audited({"city": np.repeat(["CityA", "CityC", "CityB"], [60, 11, 92])}))
    assert alone["city", "CityA"] == 60


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.slow
def test_an_adversary_with_the_document_solves_for_nobody(seed):
    rng = np.random.default_rng(seed)
    inner = rng.integers(0, 7, 60)
    columns = {"town": [f"t{k}" for k in inner], "region": [f"r{k}" for k in inner // 3],
               "side": [f"s{k}" for k in (inner + (rng.random(60) < 0.05)) % 2]}  # fmt: skip
    audit = audited(columns)
    for threshold in (2, 5, 10):
        solved(audit, pd.DataFrame(columns), threshold)


def solved(audit, truth, threshold):
    """Solve what a document tells for the error of fewer people than its threshold."""
    document = audit.to_dict(threshold=threshold)
    own = []
    for g in document["exposure"]["groups"]:
        if g["rows"] is not None and g["column"] in truth:
            own.append((truth[g["column"]] == g["group"]).to_numpy())
            assert g["rows"] == own[-1].sum() >= threshold
    individual = document["measurement"]["individual"]
    if individual["outliers"]["n_rows"]:
        own.append(audit.measurement.individual.outlier)
    sets = np.column_stack([np.zeros((60, 0), dtype=bool), *own])
    figures = np.hstack([sets, np.ones((60, 1), dtype=bool)]).T
    atoms, people = np.unique(figures, axis=1, return_counts=True)
    full = rank(atoms)
    small = [k for k in range(len(people)) if people[k] < threshold]
    for size in (1, 2, 3):
        for chosen in itertools.combinations(small, size):
            if people[list(chosen)].sum() < threshold:
                assert rank(np.delete(atoms, chosen, axis=1)) == full


@pytest.mark.slow
def test_columns_tell_no_count_by_what_is_left():
    flags = {"north": [1, 1, 0], "city_a": [1, 0, 0], "even": [0, 1, 1]}
    X = pd.DataFrame({k: np.repeat(v, [60, 3, 100]) for k, v in flags.items()})
    rng = np.random.default_rng(0)
    X["other"], y = rng.integers(0, 2, 163), rng.integers(0, 2, 163)
    model = RandomForestClassifier(3, bootstrap=False, max_depth=3, random_state=0).fit(X, y)
    schema = Schema(tuple(Binary(c) for c in X))
    audit = treeleak.audit(model, X, y, schema=schema, time_limit=20, sensitive=["city_a"])
    document = valid(json.loads(audit.to_json()))
    names = {c["column"] for c in document["exposure"]["columns"]}
    assert "other" in names
    assert not {"north", "city_a"} <= names
    assert document["exposure"]["columns_left_out"] == 4 - len(names)
    assert {i["column"] for i in document["article29"]["inference"]} <= names


def test_a_column_of_categories_and_one_within_it():
    region, city = np.repeat([[0, 0, 1, 1], [0, 1, 2, 3]], [60, 3, 70, 30], axis=1)
    X = pd.DataFrame({"region": region, "city": city})
    y = np.random.default_rng(0).integers(0, 2, 163)
    model = RandomForestClassifier(3, bootstrap=False, random_state=0).fit(X, y)
    schema = Schema(
        (Categorical("region", labels=("N", "S")), Categorical("city", labels=("A", "T", "B", "C")))
    )
    audit = treeleak.audit(model, X, y, schema=schema, time_limit=20, groups=["region", "city"])
    document = json.loads(audit.to_json())
    found = {(g["column"], g["group"]) for g in document["exposure"]["groups"]}
    assert not {("region", "N"), ("city", "A")} <= found
    assert ("city", "T") not in found
    internal = json.loads(audit.to_json(edition="internal"))
    assert len(internal["exposure"]["groups"]) == 2 + 2 + 4
    assert "behind" not in internal["exposure"]
