"""Where rows lie by what leaves count, held against the rows; walks that begin there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from treeleak.attacks.known_draws.atom_intervals import restrict_to_domains
from treeleak.attacks.known_draws.belief_propagation import places_by_leaves
from treeleak.attacks.known_draws.domains import Domains
from treeleak.attacks.known_draws.leaf_beliefs import LeafBeliefs
from treeleak.attacks.known_draws.leaf_boxes import LeafBoxes
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.walkers import Walker
from treeleak.core.clock import Clock
from treeleak.evidence import KnownDraws
from treeleak.partition import Geometry
from treeleak.release import to_release
from treeleak.release.draws.seeds import known_draws
from treeleak.schema import Numeric, Schema
from treeleak.side_information.side_information import KnownParts

COLUMNS = 4
SCHEMA = Schema([Numeric(f"x{i}", -9.0, 9.0) for i in range(COLUMNS)])


class Forest:
    """A default forest on numbers, and its training set."""

    def __init__(self, n_rows: int, n_trees: int, seed: int, schema: Schema = SCHEMA) -> None:
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(n_rows, COLUMNS)).astype(np.float32)
        self.y = (self.X[:, 0] + rng.normal(size=n_rows) > 0.5).astype(np.int64)
        model = RandomForestClassifier(n_trees, random_state=seed).fit(self.X, self.y)
        release = to_release(model)
        geometry = Geometry.of(release, schema)
        self.evidence = KnownDraws(geometry, known_draws(release).counts)
        start = geometry.leaf_start
        self.leaves = np.column_stack(
            [
                start[t] + np.searchsorted(tree.leaves, tree.apply(self.X))
                for t, tree in enumerate(release.trees)
            ]
        )
        self.boxes = LeafBoxes.of(geometry)
        # An atom that all leaves of a row admit.
        self.atoms = self.boxes.common(self.leaves.astype(np.int32))[1]
        self.possible = self.y[:, None] == np.arange(2)
        none = np.zeros(n_rows, dtype=bool)
        self.constraints = RowConstraints.of_known(self.evidence, geometry, self.y, none, None)

    def beliefs(self, parts: KnownParts | None = None) -> LeafBeliefs:
        return LeafBeliefs.of(self.evidence, self.boxes, parts, self.possible, Clock(60.0))

    def of_leaves(self, atoms: np.ndarray) -> np.ndarray:
        """How probable each leaf is of each row, of atoms believed in independently."""
        geometry, out = self.evidence.geometry, np.ones((len(atoms), self.evidence.n.shape[0]))
        ends = np.cumsum(geometry.radix)
        leaves = np.arange(out.shape[1], dtype=np.int32)[:, None]
        for a, end in enumerate(ends):
            out *= atoms[:, end - geometry.radix[a] : end] @ self.boxes.admitted(leaves, a).T
        return out

    def sure(self, atoms: np.ndarray) -> tuple[float, float]:
        """How probable the leaves of rows are taken to be that they are in, and should be."""
        own = self.of_leaves(atoms)
        right = np.take_along_axis(own, self.leaves, axis=1)
        start = self.evidence.geometry.leaf_start
        whole = np.add.reduceat(own**2, start[:-1], axis=1)
        drawn = self.evidence.draws.T > 0
        return float(right[drawn].mean()), float(whole[drawn].mean())


@pytest.fixture(scope="module")
def forest() -> Forest:
    return Forest(100, 40, 0)


@pytest.mark.slow
def test_places_are_found_and_no_surer_than_they_are_right(forest):
    own = forest.beliefs()
    own.believe()
    before = forest.sure(own.atoms)
    right, stated = forest.sure(places_by_leaves(own, Clock(60.0)))
    assert right > 4 * before[0]
    assert right > 0.5
    assert stated == pytest.approx(right, abs=0.06)


@pytest.mark.slow
def test_columns_without_ends_are_believed_in_as_well(forest):
    """Without training rows, inferred schemas bound no column."""
    endless = Forest(100, 40, 0, Schema([Numeric(f"x{i}") for i in range(COLUMNS)]))
    bounded, right = (
        own.sure(places_by_leaves(own.beliefs(), Clock(60.0)))[0] for own in (forest, endless)
    )
    assert right == pytest.approx(bounded, abs=0.05)


@pytest.mark.slow
def test_what_is_heeded_is_a_share_of_what_is_said(forest):
    said = []
    for heeded in (1.0, 0.5):
        own = forest.beliefs()
        own.believe()
        own.listen(1.0, heeded, Clock(60.0))
        said.append(own.trees[0].messages)
    np.testing.assert_allclose(said[1].pieces, 0.5 * said[0].pieces, rtol=1e-5)
    np.testing.assert_allclose(said[1].parts, 0.5 * said[0].parts)
    assert np.abs(said[0].pieces).max() > 0.1


@pytest.mark.slow
def test_nothing_is_believed_against_what_is_known(forest):
    geometry, n_rows = forest.evidence.geometry, len(forest.y)
    first = geometry.radix[0]
    allowed = np.ones((2, geometry.radix.sum() + 2), dtype=bool)
    allowed[1, 1:first] = False
    group = np.arange(n_rows) % 2
    free, held = forest.beliefs(), forest.beliefs(KnownParts(group, allowed))
    for own in (free, held):
        own.believe()
    np.testing.assert_allclose(held.atoms[group == 0], free.atoms[group == 0])
    np.testing.assert_allclose(held.atoms[group == 1, 0], 1.0)
    assert (held.atoms[group == 1, 1:first] == 0.0).all()
    # Of the other attributes, kinds of rows say something.
    assert np.abs(held.atoms[group == 1, first:] - free.atoms[group == 1, first:]).max() > 0.001


def test_rows_are_believed_where_walls_leave_them(forest):
    domains = Domains.of(forest.evidence)
    domains.narrow(Clock(0.5))
    walls = restrict_to_domains(forest.constraints, domains)
    own = forest.beliefs().within(walls.closed, walls.span, forest.y, Clock(60.0))
    own.believe()
    ends = np.cumsum(forest.evidence.geometry.radix)
    for a, end in enumerate(ends):
        atom = np.arange(forest.evidence.geometry.radix[a])
        inside = (walls.span[0][:, a, None] <= atom) & (atom <= walls.span[1][:, a, None])
        part = own.atoms[:, end - len(atom) : end]
        assert (part[~inside] == 0.0).all()
        np.testing.assert_allclose(part.sum(axis=1), 1.0)


def test_bounds_against_what_is_known_are_not_heeded(forest):
    first, n_rows = forest.evidence.geometry.radix[0], len(forest.y)
    allowed = np.ones((1, forest.evidence.geometry.radix.sum() + 2), dtype=bool)
    allowed[0, 1:first] = False
    span = np.zeros((2, n_rows, COLUMNS), dtype=np.int64)
    span[1] = forest.evidence.geometry.radix - 1
    span[0, :, 0] = 1
    open_ = np.zeros((n_rows, len(forest.evidence.n)), dtype=np.uint8)
    own = forest.beliefs(KnownParts(np.zeros(n_rows, dtype=np.int64), allowed))
    held = own.within(open_, span, forest.y, Clock(60.0))
    held.believe()
    np.testing.assert_allclose(held.atoms[:, 0], 1.0)


def test_what_is_left_of_counts_is_what_the_other_rows_bring(forest):
    evidence, closed = forest.evidence, np.ones((100, len(forest.evidence.n)), dtype=np.uint8)
    np.put_along_axis(closed, forest.leaves, 0, axis=1)
    closed[50:] = 0
    begin = 0
    for t, tree in enumerate(forest.beliefs().trees):
        end = begin + len(tree.pieces.bound) - 1
        rest = np.zeros((end - begin, 2))
        own = forest.leaves[50:, t] - begin, forest.y[50:]
        np.add.at(rest, own, evidence.draws[t, 50:])
        left = tree.rest(closed[:, begin:end], forest.y)
        np.testing.assert_array_equal(left, rest[tree.pieces.leaf, tree.pieces.label])
        begin = end


def test_walks_begin_where_rows_probably_lie_and_may_forget_that(forest):
    constraints = forest.constraints
    start = constraints.masks.start
    probable = np.zeros((len(forest.y), start[-1]), dtype=np.float32)
    np.put_along_axis(probable, start[:-1] + forest.atoms, 1.0, axis=1)
    led = replace(constraints, probable=probable)
    walker = Walker.started(led, 0)
    assert walker.misfit == 0
    assert Walker.started(constraints, 0).misfit > 0
    assert walker.likes.log_share[5, start[1] + forest.atoms[5, 1]] == pytest.approx(0.0, abs=1e-5)
    assert (walker.likes.log_share.min(axis=1) < -5.0).all()
    assert (walker.forgetful().likes.log_share == 0.0).all()
