"""All candidates of rows where the grid is too large to list: from the domains of their leaves."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.known_draws import box_kernels
from treeleak.attacks.known_draws.candidates import RowProblem, Unmet
from treeleak.attacks.known_draws.domains import MORE_BOXES, Domains
from treeleak.attacks.known_draws.dual import certain_rows, fit, reaction
from treeleak.attacks.known_draws.schedule import SCHEDULE
from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.parallel import THREADS, run_all
from treeleak.core.private import dataclass
from treeleak.evidence import KnownDraws, Pairs
from treeleak.partition import Geometry
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.release.statistics import DRAWS
from treeleak.release.tree import LEAF, Tree
from treeleak.schema import Binary, Schema


@dataclass(frozen=True, eq=False)
class Listing:
    """Candidates of rows: for each tree that drew the row, a leaf, so that some point has them."""

    domains: Domains
    row: IntArray
    label: IntArray
    """Shape (n_candidates,). Rows ascending."""
    places: IntArray
    """Shape (3, n_candidates, n_attributes). Points that the leaves of a candidate admit: with the
    lowest atoms, in the middle, with the highest."""
    complete: BoolArray
    """Shape (n_rows,). Whether all candidates of a row are listed; of other rows, none is."""
    in_all: BoolArray
    """Shape (n_rows,). Whether they have leaves of trees that did not draw the row, too."""

    @property
    def problem(self) -> RowProblem:
        """The choice among candidates; a pair is a candidate of one row.

        Raises Unmet if a row has no candidate.
        """
        evidence = self.domains.evidence
        return RowProblem.of_lists(evidence, self.row, self.leaf(slice(None)), self.label)

    @property
    def pairs(self) -> Pairs:
        """The candidates as pairs, each with points at its ends and in its middle."""
        candidates, n_places = np.arange(len(self.row)), len(self.places)
        points = np.arange(n_places * len(candidates))
        label = np.tile(self.label, n_places)
        return Pairs(points, label, np.tile(candidates, n_places), candidates, self.label)

    def atoms(self, points: IntArray) -> IntArray:
        """Atom of each attribute of points of :attr:`pairs`, shape (n_points, n_attributes)."""
        return self.places.reshape(-1, self.places.shape[2])[points]

    @property
    def spanned(self) -> BoolArray:
        """Of which attributes a candidate admits all atoms between its places; three are listed."""
        boxes = self.domains.boxes
        return np.asarray((boxes.place >= 0) & (boxes.missing == 0))

    def leaf(self, candidates: IntArray | slice) -> NDArray[np.int32]:
        """A leaf of every tree for some candidates; the only one of the trees that drew the row."""
        return self.domains.evidence.geometry.trace_atoms(self.places[1, candidates])

    def proved(self, pair: IntArray, proved: BoolArray) -> BoolArray:
        """Which of the rows whose candidate is proved lie in a cell that is proved, too.

        Trees that did not draw a row may part what its candidate leaves open.
        """
        rows = np.flatnonzero(proved)
        out = np.zeros_like(proved)
        drawn = self.domains.draws.T[rows] > 0
        if self.domains.sums is not None:
            drawn &= self.in_all[rows][:, None] | ~self.domains.sums.beside.T[rows]
        out[rows] = self.domains.boxes.within_one(self.leaf(pair[rows]), drawn)
        return out


def listed(domains: Domains, clock: Clock) -> Listing:
    """Narrow domains, and list the candidates of rows; leaves that no candidate uses go.

    Raises Unmet, with an equation that cannot be met.
    """
    clash, listing = domains.narrow(clock), None
    for most in SCHEDULE.listed_candidates:
        while clash < 0 and not clock.stopped:
            listing, changed = _listed(domains, most, clock)
            if not changed.any():
                break
            clash = domains.narrow(clock, changed)
        if clash >= 0:
            raise Unmet(clash * domains.evidence.n.shape[1], whole=True)
        if (
            listing is None
            or listing.complete.all()
            or listing.complete.mean() < SCHEDULE.listed_rows
        ):
            break
    return _listed(domains, 0, clock)[0] if listing is None else listing


def smallest() -> KnownDraws:
    """Two stumps that drew three rows: enough to compile loops."""
    stump = Tree(
        feature=np.array([0, LEAF, LEAF]),
        threshold=np.array([0.5, np.nan, np.nan]),
        left=np.array([1, LEAF, LEAF]),
        right=np.array([2, LEAF, LEAF]),
        missing_left=np.zeros(3, dtype=bool),
    ).with_counts(DRAWS, counts=np.array([[3.0], [2.0], [1.0]]), distinct=np.array([3, 2, 1]))
    release = Release((stump, stump), ("x",), (0,), AllRows(), 3)
    return KnownDraws(Geometry.of(release, Schema([Binary("x")])), np.ones((2, 3), dtype=np.uint8))


def compile_loops() -> None:
    """Compile what narrows, lists and fits."""
    evidence = smallest()
    for compared in (True, False):
        domains = Domains.of(evidence)
        domains = replace(domains, boxes=replace(domains.boxes, compared=compared))
        listing = listed(domains, Clock(np.inf))
        listing.proved(np.zeros(3, dtype=np.int64), np.ones(3, dtype=bool))
        domains.chosen(np.zeros(3, dtype=np.int64))
    problem = listing.problem.narrowed(Clock(np.inf))
    first_fit = fit(problem, Clock(np.inf), evaluations=1)
    reaction(problem, first_fit.u)
    certain_rows(problem, first_fit.choice, first_fit.multipliers)
    problem.suspicion(problem.descended(first_fit.choice, Clock(np.inf)))


def _listed(domains: Domains, most: int, clock: Clock) -> tuple[Listing, BoolArray]:
    """List the candidates of the rows that have no more than ``most``; say whose leaves went."""
    evidence, boxes, forest = domains.evidence, domains.boxes, domains.boxes.forest
    first, trees = domains.drawn
    start = evidence.geometry.leaf_start
    room = max(SCHEDULE.most_candidates // max(evidence.n_rows, 1), 1)

    def of(rows: IntArray) -> list[tuple[int, IntArray, NDArray[np.int32], IntArray]]:
        found = []
        leaves = np.empty((min(most, 20 * room), len(domains.draws)), dtype=np.int32)
        label = np.empty(len(leaves), dtype=np.int64)
        for k in rows.tolist() if most else ():
            if clock.stopped:
                break
            all_trees = trees[first[k] : first[k + 1]]
            ways = [all_trees]
            if domains.sums is not None:
                # Of a row that trees which did not draw it leave in many places, fewer are listed.
                ways.append(all_trees[~domains.sums.beside[all_trees, k]])
            for row_trees in ways:
                n = box_kernels.list_boxes(
                    k, domains.bits, row_trees, start, boxes.word_start, forest, boxes.depth,
                    min(SCHEDULE.partial_choices * most, MORE_BOXES), leaves, label,
                )  # fmt: skip
                if n >= 0:
                    meets = domains.meets_sums(k, leaves[:n, : len(row_trees)], row_trees)
                    found.append(
                        (k, label[:n][meets], leaves[:n, : len(row_trees)][meets], row_trees)
                    )
                    break
        return found

    rows = np.flatnonzero(evidence.drawn)
    parts = run_all([partial(of, rows[i::THREADS]) for i in range(THREADS)])
    found = sorted((x for part in parts for x in part), key=lambda x: x[0])
    changed = np.zeros(len(domains.bits), dtype=bool)
    places: list[IntArray] = []
    labels: list[IntArray] = []
    for k, label, leaves, row_trees in found:
        places.append(boxes.common(leaves))
        labels.append(label)
        changed[k] = domains.keep(k, label, row_trees, leaves)
    whole = np.array([k for k, *_ in found], dtype=np.int64)
    in_all = np.zeros(len(domains.bits), dtype=bool)
    in_all[whole] = [len(of) == first[k + 1] - first[k] for k, _, _, of in found]
    complete = ~evidence.drawn
    complete[whole] = True
    listing = Listing(
        domains,
        np.repeat(whole, [len(label) for label in labels]),
        np.concatenate([np.zeros(0, np.int64), *labels]),
        np.concatenate(places, axis=1) if places else np.zeros((3, 0, len(boxes.place)), np.int64),
        complete,
        in_all,
    )
    return listing, changed
