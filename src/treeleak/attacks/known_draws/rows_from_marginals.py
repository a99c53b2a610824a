"""From a (cell, class) pair for every row to values, and how sure each of them is."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treeleak.attacks.answer import Rows, most_worlds
from treeleak.attacks.known_draws.candidates import RowProblem
from treeleak.attacks.known_draws.schedule import SCHEDULE
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.decisions import MOST_SURE, on_grid, rounded
from treeleak.core.private import dataclass
from treeleak.evidence import Pairs
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex
from treeleak.side_information.density import Density


@dataclass(frozen=True, eq=False)
class Marginals:
    """Pairs that rows may be, by whatever attack; as in a :class:`RowProblem`."""

    fixed_pair: IntArray
    """Shape (n_rows,). Pair of each row that has one candidate; -1 for the others."""
    rows: IntArray
    """Shape (n_open,). The open rows."""
    column: NDArray[Any]
    """Shape (n_candidates,). Column of each candidate."""
    pair: IntArray
    """Shape (n_columns,). Pair of each column."""
    owner: IntArray
    """Shape (n_candidates,). Open row of each candidate."""


class Places(Protocol):
    """Where the points of pairs are: on a grid, or in a list of candidates."""

    def atoms(self, points: IntArray) -> IntArray:
        """Atom of each attribute, shape (n_points, n_attributes)."""

    @property
    def spanned(self) -> BoolArray:
        """Of which attributes a pair admits more atoms than its points have, shape (n_attributes,).

        It admits all from the lowest to the highest.
        """


def rows_from_marginals(
    pair: IntArray,
    proved: BoolArray,
    problem: Marginals | RowProblem,
    u: FloatArray,
    pairs: Pairs,
    places: Places,
    values: ValueIndex,
    population: Density | None = None,
) -> Rows:
    """Write rows that are told apart.

    Within a cell nothing tells points apart, so that a row gets the one whose values are common
    among all rows. A row that no tree drew gets the pair that resembles the others most.

    Parameters
    ----------
    pair : int array, shape (n_rows,)
        Pair of each row; -1 where no tree drew it.
    proved : bool array, shape (n_rows,)
        Whether the pair is proved.
    problem : Marginals or RowProblem
        What rows may be ...
    u : float array, shape (n_candidates,)
        ... and their probabilities, for the rows that are not proved.
    population : Density, optional
        Says which points of a cell are likely, and which values of an atom.
    """
    share, row = _shares(pair, proved, problem, u, len(pairs.cell))
    times = np.bincount(row).astype(float)
    used = np.flatnonzero(np.asarray(share.sum(axis=0)).ravel())
    share = share[:, used]
    points = _Points.of(used, pairs, places, values)
    marginal = np.zeros(values.n_atoms)
    if population is not None:
        atoms = points.atoms - values.atom_start[:-1]
        if isinstance(places, Geometry):
            log_w = population.log_prior(points.grid, atoms[:, -1])
        else:
            log_w = population.log_boxes(atoms[:, :-1], atoms[:, :-1], atoms[:, -1])
        inside = points.within(log_w)
    for _ in range(SCHEDULE.marginal_rounds):
        if population is None:
            log_w = points.product(marginal + values.atom_sizes / len(pair))
            inside = points.within(log_w)
        table = (share @ inside).tocsr()
        marginal = np.asarray(table.T @ times).ravel()

    typical = points.typical(inside)
    never = pair < 0
    if never.any():
        # Where nothing is known, the pair that shares most values with the rows that are known.
        typicalness = np.asarray(inside @ (marginal / len(pair))).ravel()
        pair = np.where(never, used[int(rounded(typicalness).argmax())], pair)
    at = np.searchsorted(used, pair)
    atoms = typical[at]
    sure = np.column_stack([
        np.asarray(table[row, atoms[:, a]]).ravel() for a in range(atoms.shape[1])
    ])  # fmt: skip
    for a in np.flatnonzero(places.spanned) if population is None else ():
        # The points of a list are few, and shares among them say little of those between.
        chance = points.chance(share, row, atoms[:, a], int(a), values.atom_weights)
        sure[:, a] = np.minimum(sure[:, a], chance)
    prior = values.prior(marginal)[None, :] if population is None else population.within(atoms)
    chosen = values.cheapest(atoms, -prior)
    certain = proved[:, None] & points.single_valued[at] & values.single_valued[atoms]
    share_of = np.take_along_axis(np.broadcast_to(prior, (len(pair), values.n_values)), chosen, 1)
    confidence = np.where(certain, 1.0, np.clip(sure * share_of, SCHEDULE.least_open, MOST_SURE))
    worlds = drawn_worlds(share, row, points.owner, log_w, points.atoms)
    fixed = proved & points.single_valued[at].all(axis=1)
    return Rows(chosen, confidence, proved, bool(proved.all()), 0, worlds, fixed)


def sampled(problem: RowProblem, u: FloatArray) -> tuple[RowProblem, FloatArray]:
    """Draw a few candidates of each open row by their probabilities: of all, writing takes long.

    The draws of a row lie evenly apart, so that what comes of them is hardly ever off.
    """
    if not problem.n_open:
        return problem, u
    share = u / np.add.reduceat(u, problem.start[:-1])[problem.owner]
    draws = (
        np.arange(SCHEDULE.draws_of_candidate * problem.n_open) + 0.5
    ) / SCHEDULE.draws_of_candidate
    times = np.bincount(np.searchsorted(np.cumsum(share), draws), minlength=len(u))
    part = problem.only(times > 0)
    return part, part.carried(problem, times / SCHEDULE.draws_of_candidate)


def typicality(
    pair: IntArray, wanted: IntArray, pairs: Pairs, places: Places, values: ValueIndex
) -> FloatArray:
    """How typical some pairs are of rows: log of the product of their values' shares among these.

    ``pair``, shape (n_rows,): pair of each row; -1 where it is not known. ``wanted``, shape
    (n_wanted,): pairs, ascending. Returns an array of shape (n_wanted,); for a cell of several
    points, the sum over them.
    """
    rows, times = np.unique(pair[pair >= 0], return_counts=True)
    points = _Points.of(rows, pairs, places, values)
    inside = points.within(points.product(values.atom_sizes))
    counted = np.asarray(inside.T @ times.astype(float)).ravel()
    row_points = _Points.of(wanted, pairs, places, values)
    log_w = np.log(counted + values.atom_sizes / values.n_atoms)[row_points.atoms].sum(axis=1)
    out = np.full(len(wanted), -np.inf)
    np.logaddexp.at(out, row_points.owner, log_w)
    return out


def _shares(
    pair: IntArray, proved: BoolArray, problem: Marginals | RowProblem, u: FloatArray, n_pairs: int
) -> tuple[sparse.csr_array, IntArray]:
    """Probability of each pair for each row that some tree drew, and once for all the others.

    Returns
    -------
    share : sparse array, shape (n_different, n_pairs)
    row : int array, shape (n_rows,)
        Where in ``share`` each row stands.
    """
    drawn = np.flatnonzero(pair >= 0)
    row = np.full(len(pair), len(drawn), dtype=np.int64)
    row[drawn] = np.arange(len(drawn))
    open_ = np.zeros(len(pair), dtype=bool)
    open_[problem.rows] = True
    single = drawn[proved[drawn] | ~open_[drawn]]
    chosen = np.where(proved, pair, problem.fixed_pair)[single]
    several = np.flatnonzero(~proved[problem.rows][problem.owner])
    at = np.concatenate([row[single], row[problem.rows[problem.owner[several]]], row[drawn]])
    column = np.concatenate([chosen, problem.pair[problem.column[several]], pair[drawn]])
    # The answer's own pair is never ruled out.
    weight = np.concatenate(
        [np.ones(len(single)), u[several], np.full(len(drawn), SCHEDULE.own_pair)]
    )
    out = sparse.csr_array((weight, (at, column)), shape=(len(drawn), n_pairs))
    if len(drawn) < len(pair):
        common = sparse.csr_array(np.asarray(out.sum(axis=0)).reshape(1, -1))
        out = sparse.vstack([out, common], format="csr")
    total = np.asarray(out.sum(axis=1)).ravel()
    return sparse.csr_array(sparse.diags_array(1.0 / total) @ out), row


class _Points:
    """The points of some pairs, as atoms numbered through; the last attribute is the class."""

    def __init__(
        self,
        grid: IntArray,
        atoms: IntArray,
        owner: IntArray,
        lowest: IntArray,
        highest: IntArray,
        n_pairs: int,
        n_atoms: int,
    ) -> None:
        self.grid, self.atoms, self.owner = grid, atoms, owner
        self.lowest, self.highest, self.single_valued = lowest, highest, lowest == highest
        self.n_pairs, self.n_atoms = n_pairs, n_atoms

    @classmethod
    def of(cls, used: IntArray, pairs: Pairs, places: Places, values: ValueIndex) -> _Points:
        number = np.full(len(pairs.cell), -1, dtype=np.int64)
        number[used] = np.arange(len(used))
        selected = np.flatnonzero(number[pairs.pair] >= 0)
        selected = selected[np.argsort(number[pairs.pair[selected]], kind="stable")]
        owner = number[pairs.pair[selected]]
        atoms = places.atoms(pairs.points[selected]) + values.atom_start[:-2]
        atoms = np.column_stack([atoms, values.atom_start[-2] + pairs.label[selected]])
        first = np.searchsorted(owner, np.arange(len(used)))
        lowest, highest = np.minimum.reduceat(atoms, first), np.maximum.reduceat(atoms, first)
        size = np.bincount(owner, minlength=len(used))
        step = np.maximum(-(-size // SCHEDULE.points_of_cell), 1)
        few = (np.arange(len(owner)) - first[owner]) % step[owner] == 0
        grid = pairs.points[selected[few]]
        return cls(grid, atoms[few], owner[few], lowest, highest, len(used), values.n_atoms)

    def product(self, weight: FloatArray) -> FloatArray:
        """Log of the product of the weights of each point's atoms."""
        return np.log(weight)[self.atoms[:, :-1]].sum(axis=1)  # type: ignore[no-any-return]

    def within(self, log_w: FloatArray) -> sparse.csr_array:
        """Share of each atom in each pair, given the weights of points."""
        highest = np.full(self.n_pairs, -np.inf)
        np.maximum.at(highest, self.owner, log_w)
        w = np.exp(log_w - highest[self.owner])
        w /= np.bincount(self.owner, w, minlength=self.n_pairs)[self.owner]
        n_attributes = self.atoms.shape[1]
        return sparse.csr_array(
            (np.repeat(w, n_attributes), (np.repeat(self.owner, n_attributes), self.atoms.ravel())),
            shape=(self.n_pairs, self.n_atoms),
        )

    def chance(
        self, share: sparse.csr_array, row: IntArray, atom: IntArray, a: int, weight: FloatArray
    ) -> FloatArray:
        """Probability of an atom of attribute ``a`` for each row, shape (n_rows,).

        As if each of its pairs admitted all atoms between its points, and nothing told them apart
        but ``weight``, shape (n_atoms,).
        """
        entries = sparse.coo_array(share[row])
        line, pair = entries.row, entries.col
        low, high, wanted = self.lowest[pair, a], self.highest[pair, a], atom[line]
        below = np.append(0.0, np.cumsum(weight))
        part = weight[wanted] / (below[high + 1] - below[low])
        within = (low <= wanted) & (wanted <= high)
        chance = np.bincount(line, entries.data * part * within, minlength=len(atom))
        return np.asarray(chance, dtype=float)

    def typical(self, inside: sparse.csr_array) -> IntArray:
        """Atoms of the point of each pair that shares most with the others."""
        shared = np.zeros(len(self.owner))
        for a in range(self.atoms.shape[1]):
            shared += np.asarray(inside[self.owner, self.atoms[:, a]]).ravel()
        order = np.lexsort((-on_grid(shared), self.owner))
        first = np.searchsorted(self.owner[order], np.arange(self.n_pairs))
        return self.atoms[order[first]]


def drawn_worlds(
    share: sparse.csr_array, row: IntArray, owner: IntArray, log_w: FloatArray, atoms: IntArray
) -> IntArray:
    """Draw datasets; rows are drawn apart, as if what one row is told nothing of another.

    ``share``, shape (n_different, n_pairs): probability of each pair. ``row``, shape (n_rows,):
    where in it each row stands. ``owner``, ``log_w``, ``atoms``, shape (n_points, ...): pair,
    ascending, weight and atoms of each point. Returns atoms, shape (n_worlds, n_rows, n_atoms).
    """
    rng = np.random.default_rng(0)
    u = rng.random((2, min(SCHEDULE.most_worlds, most_worlds(len(row))), len(row)))
    pair = share.indices[_drawn(share.data, share.indptr.astype(np.int64), row, u[0])]
    highest = np.full(share.shape[1], -np.inf)
    np.maximum.at(highest, owner, log_w)
    start = np.searchsorted(owner, np.arange(share.shape[1] + 1))
    point = _drawn(np.exp(log_w - highest[owner]), start, pair.astype(np.int64), u[1])
    return atoms[point]


def _drawn(weight: FloatArray, start: IntArray, group: IntArray, u: FloatArray) -> IntArray:
    """Draw one entry of each group by its weight; groups lie one after the other."""
    upto = np.concatenate([[0.0], np.cumsum(weight)])
    low, high = upto[start[group]], upto[start[group + 1]]
    found = np.searchsorted(upto, low + u * (high - low), "right") - 1
    return np.asarray(np.clip(found, start[group], start[group + 1] - 1))
