"""Partial knowledge against brute force: what is called unique, proved or impossible must be."""

from __future__ import annotations

import importlib
import itertools
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.brute_force import as_multiset, datasets, stands_in
from helpers.cases import Drawn, some_drawn
from helpers.examples import examples, seeds
from helpers.grids import cuts_for, schemas, shuffled, some_rows
from helpers.releases import counted, counted_as, leaves_of, random_tree
from treeleak import (
    BadInput,
    Binary,
    Implies,
    Numeric,
    OneHot,
    Ordinal,
    Reconstruction,
    Schema,
    reconstruct,
)
from treeleak.release.draws.recompute import Draws
from treeleak.release.release import Release
from treeleak.verification.counts import check_rows

MOST = 1500


@dataclass(frozen=True)
class Case:
    """A release, and what is known of the rows behind it, or would be known of others."""

    release: Release
    schema: Schema
    rows: pd.DataFrame | None
    columns: pd.DataFrame | None
    label: bool
    true: bool

    @property
    def known(self) -> list[int]:
        """The known columns, as positions in the model."""
        if self.columns is None:
            return []
        names = self.release.feature_names
        return [names.index(c) for c in self.columns.columns if c in names]

    def part(self, table: np.ndarray) -> np.ndarray:
        """What is known of the rows of a table that ends in the class."""
        return table[:, [*self.known, *([-1] if self.label else [])]]

    def worlds(self) -> list[np.ndarray] | None:
        """Every dataset that meets the counts and holds what is known."""
        systems = datasets(self.release, self.schema, MOST)
        if systems is None or np.prod([len(s) for s in systems]) > MOST:
            return None
        every = [np.concatenate(choice) for choice in itertools.product(*systems)]
        rows = Counter() if self.rows is None else as_multiset(self.rows)
        found = [w for w in every if not rows - as_multiset(w)]
        if self.columns is not None:
            wanted = as_multiset(self.columns)
            found = [w for w in found if as_multiset(self.part(w)) == wanted]
        return found


def frame(X: np.ndarray, y: np.ndarray, names) -> pd.DataFrame:
    return pd.DataFrame(X, columns=list(names)).assign(label=y)


@st.composite
def cases(draw) -> Case:
    schema = draw(schemas())
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    names = shuffled(schema.columns, rng)
    counts_are = draw(st.sampled_from(["rows", "rows", "weights", "none"]))
    n_classes = draw(st.integers(1, 3))
    n = draw(st.integers(1, 5))
    X, y = some_rows(schema, names, n, rng), rng.integers(n_classes, size=n)
    trees = [random_tree(rng, cuts_for(schema, names), 4) for _ in range(draw(st.integers(1, 3)))]
    weights = rng.random(n) + 0.1 if counts_are == "weights" else None
    release = counted(trees, names, X, y, n_classes, counts_are=counts_are, weights=weights)
    true = draw(st.booleans())
    if not true:
        other = rng.random(n) < 0.3
        X[other] = some_rows(schema, names, int(other.sum()), rng)
    table = frame(X, y, names)
    rows = columns = None
    label = False
    if draw(st.booleans()):
        chosen = [c for c in names if rng.random() < 0.4]
        label = draw(st.booleans())
        columns = table[shuffled(chosen, rng) + ["label"] * label]
    if columns is None or draw(st.booleans()):
        own = rng.permutation(n)[: rng.integers(0, n + 1)]
        rows = table.iloc[own]
        rows.index.name = draw(st.sampled_from([None, "row"]))
    return Case(release, schema, rows, columns, label, true)


def table_of(result: Reconstruction) -> np.ndarray:
    return np.column_stack([result.X.to_numpy(dtype=float), result.y.to_numpy(dtype=float)])


def check_kept(result: Reconstruction, case: Case) -> None:
    """What is known stands in the answer, at its place and beyond doubt."""
    table = table_of(result)
    sure = np.column_stack([result.confidence, result.label_confidence])
    mask = np.zeros(result.X.shape, dtype=bool)
    if case.columns is not None:
        wanted = case.columns.to_numpy(dtype=float)
        assert np.array_equal(case.part(table), wanted, equal_nan=True)
        assert (case.part(sure) == 1).all()
        mask[:, case.known] = True
    if case.rows is not None:
        wanted = case.rows.to_numpy(dtype=float)
        if case.rows.index.name == "row":
            at = case.rows.index.to_numpy()
        elif case.columns is None:
            at = np.arange(len(wanted))
        else:
            assert not as_multiset(wanted) - as_multiset(table)
            at = np.zeros(0, dtype=int)
        assert np.array_equal(table[at], wanted[: len(at)], equal_nan=True)
        assert (sure[at] == 1).all()
        assert result.proved.to_numpy()[at].all()
        mask[at] = True
    if result.known is None:
        assert not mask.any()
    else:
        assert (result.known.to_numpy() >= mask).all()


@examples(120, fast=10)
@given(cases(), st.integers(0, 3))
def test_exact_counts(case, seed):
    worlds = case.worlds()
    knowledge = {"known_rows": case.rows, "known_columns": case.columns}
    result = reconstruct(case.release, case.schema, seed=seed, **knowledge)
    if worlds == [] or (worlds is None and not case.true and result.X is None):
        assert not case.true
        assert result.status == "infeasible"
        assert result.X is None
        assert result.contradiction
        return
    between = result.between_datasets
    assert between or result.misfit == 0
    check_kept(result, case)
    # Rows between datasets are nearer to all of them; the likeliest comes with them.
    table = np.column_stack(result.most_likely) if between else table_of(result)
    table = table.astype(float)
    names = list(case.release.feature_names)
    assert case.schema.valid(table[:, :-1], names).all()
    assert check_rows(case.release, table[:, :-1], table[:, -1].astype(int)).ok
    if worlds is None:
        return
    assert result.status == ("unique" if len(worlds) == 1 else "likely" if between else "feasible")
    assert as_multiset(table) in [as_multiset(w) for w in worlds]
    sure = np.column_stack([result.confidence, result.label_confidence]) == 1
    for world in worlds:
        assert stands_in(table_of(result), sure, world)
    cells = [cells_of(case, w) for w in worlds]
    mine = cells_of(case, table_of(result))
    for cell in set(mine):
        proved = [p for c, p in zip(mine, result.proved, strict=True) if c == cell]
        least = min(own.count(cell) for own in cells)
        assert sum(proved) == min(least, len(proved) if between else least)


def cells_of(case: Case, table: np.ndarray) -> list[tuple]:
    """What trees and knowledge can tell of each row."""
    part = np.nan_to_num(case.part(table), nan=np.inf)
    leaves = leaves_of(case.release, table[:, :-1])
    return [tuple(row) for row in np.column_stack([leaves, part, table[:, -1]])]


class Told:
    """How draws get into the main road: as if they had been found in the file."""

    def __init__(self, monkeypatch) -> None:
        self.of: dict[int, np.ndarray] = {}
        module = importlib.import_module("treeleak.reconstruction.problem")
        monkeypatch.setattr(module, "known_draws", self.found)

    def found(self, release: Release, **_) -> Draws:
        return Draws(self.of[len(release.trees)], "told", None, True)

    def __call__(self, case: Drawn, **knowledge) -> Reconstruction:
        self.of[len(case.release.trees)] = case.b
        return reconstruct(case.release, case.schema, **knowledge)


def some_knowledge(case: Drawn, rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    """True rows at their positions, true columns, or both."""
    table = frame(case.X, case.y, case.release.feature_names)
    out = {}
    if rng.random() < 0.7:
        chosen = [c for c in table.columns if rng.random() < 0.5]
        out["known_columns"] = table[shuffled(chosen, rng)]
    if not out or rng.random() < 0.5:
        rows = table.iloc[rng.permutation(len(table))[: rng.integers(0, len(table) + 1)]]
        out["known_rows"] = rows.rename_axis("row")
    return out


def agrees(world: np.ndarray, knowledge: dict[str, pd.DataFrame], names: list[str]) -> bool:
    """Whether a table of all rows, in order, holds what is known."""
    columns, rows = knowledge.get("known_columns"), knowledge.get("known_rows")
    if columns is not None:
        own = world[:, [names.index(c) for c in columns.columns]]
        if not np.array_equal(own, columns.to_numpy(dtype=float), equal_nan=True):
            return False
    at = [] if rows is None else rows.index
    return rows is None or np.array_equal(world[at], rows.to_numpy(dtype=float), equal_nan=True)


@seeds(150, fast=20)
@pytest.mark.usefixtures("short_walks")
def test_known_draws(monkeypatch, seeds):
    told, seen = Told(monkeypatch), Counter()
    for seed in seeds:
        case = some_drawn(seed)
        rng = np.random.default_rng(seed)
        names = [*case.release.feature_names, "label"]
        if case.b.shape[1] != len(case.X):
            continue
        knowledge = some_knowledge(case, rng)
        result = told(case, **knowledge)
        worlds = case.worlds(True)
        if worlds is None:
            continue
        order = np.concatenate([np.flatnonzero(case.seen), np.flatnonzero(~case.seen)])
        never = np.column_stack([case.X, case.y])[~case.seen]
        every = [np.concatenate([w, never])[np.argsort(order)] for w in worlds]
        every = [w for w in every if agrees(w, knowledge, names)]
        seen[result.status] += 1
        if not every:
            assert result.status == "infeasible"
            assert result.contradiction
            continue
        rows = knowledge.get("known_rows")
        given_ = np.zeros(len(case.X), dtype=bool)
        given_[[] if rows is None else rows.index] = True
        unique = len(every) == 1 and (case.seen | given_).all()
        assert result.status == ("unique" if unique else "feasible")
        assert result.ordered
        table = table_of(result)
        assert agrees(table, knowledge, names)
        assert case.schema.valid(table[:, :-1], names[:-1]).all()
        assert check_rows(case.release, table[:, :-1], table[:, -1].astype(int), case.b).ok
        sure = np.column_stack([result.confidence, result.label_confidence]) == 1
        for world in every:
            right = (table == world) | (np.isnan(table) & np.isnan(world))
            assert right[sure & case.seen[:, None]].all()
        places = np.stack([case.places(w) for w in every])
        always = (places == places[0]).all(axis=(0, 2))
        proved = result.proved.to_numpy()
        assert (proved == (given_ | (always & case.seen))).all()
    assert all(seen[status] >= len(seeds) / 15 for status in ("unique", "feasible", "infeasible"))


@pytest.mark.usefixtures("short_walks")
def test_known_draws_without_positions(monkeypatch):
    """Rows whose place follows from the known columns are used; of others a note speaks."""
    told = Told(monkeypatch)
    case = some_drawn(3, n_rows=6, n_trees=6, tamper=False)
    table = frame(case.X, case.y, case.release.feature_names)
    result = told(case, known_rows=table.iloc[[2]])
    assert result.known is None
    (note,) = [n for n in result.notes if "position" in n]
    assert note.startswith("1 of 1 known rows without a position are in the answer")
    # All columns known: a row that equals no other has its place, one that equals another has none.
    whole = table[list(case.release.feature_names)]
    single = ~whole.duplicated(keep=False).to_numpy()
    assert 0 < single.sum() < len(single)
    result = told(case, known_rows=table, known_columns=whole)
    assert (result.proved[single]).all()
    assert (result.label_confidence[single] == 1).all()
    assert any(f"of {(~single).sum()} known rows" in n for n in result.notes)


def numbers() -> tuple[Release, Schema, pd.DataFrame]:
    """Columns of numbers, of which no tree can tell the value, a group and a rule."""
    schema = Schema(
        [
            Numeric("size", 0, 10, missing=True),
            OneHot("g", ["g0", "g1", "g2"]),
            Ordinal("o", 0, 3),
            Binary("b"),
        ],
        [Implies({"b": 1}, {"g0": 0})],
    )
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [
            [0.5, 3.25, np.nan, 7.125, 9.0, 3.25],
            np.eye(3)[[0, 1, 2, 1, 1, 0]],
            [0, 1, 2, 3, 3, 1],
            [0, 1, 1, 0, 1, 0],
        ]
    )
    y = np.array([0, 1, 1, 0, 0, 1])
    cuts = [[2.0, 5.0, 8.0], [0.5], [0.5], [], [0.5, 1.5], [0.5]]
    trees = [random_tree(rng, cuts, 6) for _ in range(12)]
    return counted(trees, schema.columns, X, y, 2), schema, frame(X, y, schema.columns)


def test_a_known_row_is_a_row_of_the_known_columns():
    release, schema, table = numbers()
    known = {"known_columns": table[["o"]]}
    result = reconstruct(release, schema, known_rows=table.iloc[[5, 4]], **known)
    assert result.X["o"].tolist() == table["o"].tolist()
    whole = result.known.all(axis=1)
    assert result.X["size"][whole].tolist() == [3.25, 9.0]
    assert table["o"][whole].tolist() == [1, 3]
    at = table.iloc[[5, 4]].set_axis(pd.Index([5, 4], name="row"))
    result = reconstruct(release, schema, known_rows=at, **known)
    assert np.flatnonzero(result.known.all(axis=1)).tolist() == [4, 5]
    wrong = at.set_axis(pd.Index([0, 4], name="row"))
    with pytest.raises(BadInput, match="known_rows, row 0 does not fit row 0 of known_columns"):
        reconstruct(release, schema, known_rows=wrong, **known)
    thrice = table.iloc[[1, 1, 1]]
    with pytest.raises(BadInput, match="known_rows, row 1 fits none of the remaining rows"):
        reconstruct(release, schema, known_rows=thrice, **known)


def test_knowledge_that_cannot_be_names_the_known_part():
    release, schema, table = numbers()
    result = reconstruct(release, schema, known_columns=table[["o", "b"]].assign(b=1 - table["b"]))
    assert result.status == "infeasible"
    # Rows 3 and 4 would have to be of g0, which b rules out.
    leaf = random_tree(np.random.default_rng(0), [[]] * 6, 0).with_counts(totals=np.array([6.0]))
    bare = counted_as(replace(release, trees=(leaf,)), "none")
    columns = table[["b", "g1", "g2"]].assign(g1=[0, 1, 0, 0, 0, 0], b=[0, 1, 1, 1, 1, 0])
    result = reconstruct(bare, schema, known_columns=columns)
    assert result.status == "infeasible"
    assert result.contradiction.startswith("known_columns, row 3 and 1 more like it: holds 2 rows")


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("known_columns", lambda t: t[:-1], "known_columns has 5 rows, the training set 6"),
        ("known_columns", lambda t: t.assign(x=1), r"columns \['label', 'x'\] are not"),
        ("known_columns", lambda t: t.assign(label=7), "'label' is not .* not among the c"),
        ("known_columns", lambda t: t.assign(o=4), "row 0, column 'o': the value is outside"),
        ("known_columns", lambda t: t.assign(g0=1)[["g0", "b"]], "breaks the 'implies' rule"),
        ("known_columns", lambda t: t[["o", "o"]], "column 'o' appears twice"),
        ("known_rows", lambda t: t.drop(columns="label"), "known_rows lack the label"),
        (
            "known_rows",
            lambda t: t[:2].set_axis(pd.Index([0, 6], name="row")),
            "6 is not a position",
        ),
        (
            "known_rows",
            lambda t: t[:2].set_axis(["p", "q"]).assign(b=2),
            "known_rows, row 0, col",
        ),
    ],
)
def test_tables_that_cannot_be_used(name, change, why):
    release, schema, table = numbers()
    with pytest.raises(BadInput, match=why):
        reconstruct(release, schema, **{name: change(table)})
