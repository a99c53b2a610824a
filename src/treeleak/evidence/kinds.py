"""Evidence: the counts of a release as statements about one histogram.

A release and a partition become *systems*: independent sets of equations A m = n, each over the
cells that are not dead. Each way in which counts can come about is one evidence type, found
through :func:`evidence_for`; later types (bootstrap, noise) register beside the exact one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.private import dataclass
from treeleak.partition import Geometry, Partition, RowSets
from treeleak.release.noise.laws import CountNoise, LabelNoise
from treeleak.release.tree import AllRows, Bootstrap, Release, Tree

__all__ = [
    "BOOTSTRAP_MODES",
    "MAX_ROWS",
    "Contradiction",
    "CountSystem",
    "Evidence",
    "ExactCounts",
    "ExactTotals",
    "HiddenDraws",
    "KnownDraws",
    "LeafLabels",
    "NoisyCounts",
    "Pairs",
    "draws_needed",
    "evidence_for",
    "evidence_type",
]

BOOTSTRAP_MODES = ("auto", "none", "known", "hidden")


MAX_ROWS = 2_000_000
"""Most rows that are rebuilt: about 1 GB for twenty columns."""
MAX_VALUES = 10**8
"""Most values in them: about 2.5 GB."""


@dataclass(frozen=True)
class Contradiction:
    """Counts that no dataset meets: where, and what is wrong there."""

    tree: int
    node: int
    why: str

    def __str__(self) -> str:
        return f"tree {self.tree}, node {self.node}: {self.why}"


@dataclass(frozen=True, eq=False)
class CountSystem:
    """Find whole numbers m >= 0 with A m = n: rows of some classes over some points.

    Points are grid points with a class; those with equal signature and the same equations are
    one column of A.

    Attributes
    ----------
    name : str
        For messages, for example ``"class 1"``.
    points : int array, shape (n_points,)
        Grid points.
    label : int array, shape (n_points,)
        Class of each point.
    cell : int array, shape (n_points,)
        Column of A of each point.
    signature : int32 array, shape (n_cells, n_trees)
        Equations in which the cell stands, one per tree.
    target : int array, shape (n_equations,)
        n: rows in each leaf, in the order of the rows of A.
    n_rows : int
    leaf, only : int array, shape (n_equations,), or None
        Row of A and class of each equation, -1 for all of the system's; None where equation i is
        row i of A, for all.
    """

    name: str
    points: IntArray
    label: IntArray
    cell: IntArray
    signature: NDArray[np.int32]
    target: IntArray
    n_rows: int
    leaf: IntArray | None = None
    only: IntArray | None = None

    def row_of(self, equation: int) -> int:
        """Row of A that an equation speaks of."""
        return equation if self.leaf is None else int(self.leaf[equation])

    def first_of(self, row: int) -> int:
        """First equation that speaks of this row of A or of a later one."""
        return row if self.leaf is None else int(np.searchsorted(self.leaf, row))

    def held(self, equation: int, classes: tuple[Any, ...]) -> str:
        """What an equation counts, in words."""
        c = -1 if self.only is None else int(self.only[equation])
        what = self.name if c < 0 else f"class {classes[c]!r}"
        return f"{self.target[equation]} rows of {what}"

    @cached_property
    def cell_size(self) -> IntArray:
        """Points of each cell."""
        return np.bincount(self.cell, minlength=len(self.signature))

    def misfit(self, m: IntArray) -> int:
        """Sum over all equations of |A m - n|."""
        return int(np.abs(self.residual(m)).sum())

    def residual(self, m: IntArray) -> IntArray:
        """A m - n."""
        used = np.flatnonzero(m)
        weights = np.repeat(m[used], self.signature.shape[1]).astype(float)
        drawn = np.bincount(self.signature[used].ravel(), weights, minlength=len(self.target))
        return np.rint(drawn).astype(np.int64) - self.target


@dataclass(frozen=True, eq=False)
class Pairs:
    """(cell, class) pairs that are not dead, and the points in them.

    Attributes
    ----------
    points, label : int arrays, shape (n_points,)
        Grid points with a class.
    pair : int array, shape (n_points,)
        Pair of each.
    cell, label_of : int arrays, shape (n_pairs,)
        Cell and class of each pair.
    """

    points: IntArray
    label: IntArray
    pair: IntArray
    cell: IntArray
    label_of: IntArray

    @classmethod
    def of(cls, partition: Partition) -> Pairs:
        """Number the live pairs of a partition."""
        at, label = np.nonzero(partition.alive)
        n_classes = partition.alive.shape[1]
        key = partition.cell[at] * n_classes + label
        pairs, pair = np.unique(key, return_inverse=True)
        return cls(partition.points[at], label, pair.ravel(), *np.divmod(pairs, n_classes))


class Evidence(Protocol):
    """What the counts say, given how they came about."""

    kind: ClassVar[str]

    def open_leaves(self) -> BoolArray:
        """Whether a row of a class may lie in a leaf, shape (n_leaves, n_classes)."""

    def contradiction(self) -> Contradiction | None:
        """A contradiction that shows before any cell is looked at."""

    def systems(self, partition: Partition) -> Iterator[CountSystem]:
        """The independent sets of equations over the live cells."""


@dataclass(frozen=True, eq=False)
class ExactCounts:
    """Exact leaf counts, every row used once per tree: A m_c = n_c for every class c.

    Trees without classes may stand behind the others: those of what is known of the rows.
    """

    geometry: Geometry
    kind: ClassVar[str] = "exact counts"

    @cached_property
    def n(self) -> IntArray:
        """Rows of each class in each leaf, shape (n_leaves, n_classes), where told by class."""
        return _leaf_counts(self.geometry.release.trees)

    def open_leaves(self) -> BoolArray:
        """Close a leaf that holds no row of a class: its cells are dead for that class."""
        open_ = np.ones((self.geometry.leaf_start[-1], self.n.shape[1]), dtype=bool)
        open_[: len(self.n)] = self.n > 0
        return open_

    def contradiction(self) -> Contradiction | None:
        """Find a tree that holds another number of rows of a class than the first."""
        start = self.geometry.leaf_start[:-1]
        per_tree = np.add.reduceat(self.n, start[start < len(self.n)], axis=0)
        return _unequal(per_tree, [f"class {c!r}" for c in self.geometry.release.classes])

    def systems(self, partition: Partition) -> Iterator[CountSystem]:
        """Give one system per class, if classes do not meet in any equation; else one of all."""
        if len(self.n) < self.geometry.leaf_start[-1]:
            yield self._of_all(partition)
            return
        for c, label in enumerate(self.geometry.release.classes):
            at = np.flatnonzero(partition.alive[:, c])
            cells, cell = np.unique(partition.cell[at], return_inverse=True)
            yield CountSystem(
                name=f"class {label!r}",
                points=partition.points[at],
                label=np.full(len(at), c),
                cell=cell.ravel(),
                signature=partition.signature[cells],
                target=self.n[:, c],
                n_rows=int(self.n[: self.geometry.leaf_start[1], c].sum()),
            )

    def _of_all(self, partition: Partition) -> CountSystem:
        """Give one system over all (cell, class) pairs."""
        pairs = Pairs.of(partition)
        n_leaves, n_classes = self.n.shape
        behind = np.arange(n_leaves, self.geometry.leaf_start[-1])
        totals = _leaf_totals([t for t in self.geometry.release.trees if t.counts is None])
        signature = partition.signature[pairs.cell].astype(np.int64)
        by_class = signature < n_leaves
        equation = signature * n_classes + pairs.label_of[:, None]
        signature = np.where(by_class, equation, signature + n_leaves * (n_classes - 1))
        return CountSystem(
            name="all classes",
            points=pairs.points,
            label=pairs.label,
            cell=pairs.pair,
            signature=signature.astype(np.int32),
            target=np.concatenate([self.n.ravel(), totals]),
            n_rows=int(self.n[: self.geometry.leaf_start[1]].sum()),
            leaf=np.concatenate([np.repeat(np.arange(n_leaves), n_classes), behind]),
            only=np.concatenate(
                [np.tile(np.arange(n_classes), n_leaves), np.full(len(behind), -1)]
            ),
        )


@dataclass(frozen=True, eq=False)
class ExactTotals:
    """Exact leaf totals without classes: sum over c of A m_c = n.

    Where a tree says that a leaf holds no (weight of a) class, the class is dead there.
    """

    geometry: Geometry
    kind: ClassVar[str] = "exact totals"

    @cached_property
    def n(self) -> IntArray:
        """Rows in each leaf."""
        return _leaf_totals(self.geometry.release.trees)

    def open_leaves(self) -> BoolArray:
        """Close empty leaves, and leaves without any weight of a class for that class."""
        release, start = self.geometry.release, self.geometry.leaf_start
        present = np.ones((len(self.n), release.n_classes), dtype=bool)
        for t, tree in enumerate(release.trees):
            if release.counts_are == "weights" and tree.counts is not None and release.classes:
                present[start[t] : start[t + 1]] = tree.counts[tree.leaves] > 0
        return present & (self.n > 0)[:, None]

    def contradiction(self) -> Contradiction | None:
        """Find a tree that holds another number of rows than the first."""
        per_tree = np.add.reduceat(self.n, self.geometry.leaf_start[:-1])
        return _unequal(per_tree[:, None], ["all classes"])

    def systems(self, partition: Partition) -> Iterator[CountSystem]:
        """Give one system over all (cell, class) pairs."""
        pairs = Pairs.of(partition)
        yield CountSystem(
            name="all classes",
            points=pairs.points,
            label=pairs.label,
            cell=pairs.pair,
            signature=partition.signature[pairs.cell],
            target=self.n,
            n_rows=int(self.n[: self.geometry.leaf_start[1]].sum()),
        )


@dataclass(frozen=True, eq=False)
class KnownDraws:
    """Bootstrap with known draws: sum over rows k of b_tk [row k in leaf v, class c] = n_tvc.

    The rows are not exchangeable: row k of an answer is row k of the training set.

    Attributes
    ----------
    geometry : Geometry
    draws : int array, shape (n_trees, n_rows)
        b: how often each tree drew each row. Behind these trees, the geometry may hold one more,
        with a leaf for each group of rows whose known parts are equal.
    use_distinct : bool
        Also use the distinct rows of each leaf, where the release gives them:
        sum over rows k of [b_tk > 0] [row k in leaf v] = d_tv.
    """

    geometry: Geometry
    draws: NDArray[np.unsignedinteger[Any]]
    use_distinct: bool = True
    kind: ClassVar[str] = "known bootstrap draws"

    @cached_property
    def n(self) -> IntArray:
        """Draws of each class in each leaf, shape (n_leaves, n_classes)."""
        return _leaf_counts(self.trees)

    @cached_property
    def d(self) -> IntArray | None:
        """Distinct rows in each leaf, shape (n_leaves,), or None."""
        return _leaf_distinct(self.trees) if self.use_distinct else None

    @property
    def trees(self) -> tuple[Tree, ...]:
        """The trees that drew."""
        return self.geometry.release.trees[: len(self.draws)]

    @property
    def n_rows(self) -> int:
        """N: rows of the training set, drawn or not."""
        return int(self.draws.shape[1])

    @cached_property
    def drawn(self) -> BoolArray:
        """Rows that some tree drew. Of the others the counts say nothing."""
        return np.asarray(self.draws.any(axis=0))

    def row_sets(self, group: IntArray | None = None) -> RowSets:
        """Leave a row open for a class where the leaf counts its draws: b_tk <= n_tvc.

        Parameters
        ----------
        group : int array, shape (n_rows,), optional
            The only leaf that each row may be in, of the tree behind those that drew.
        """
        start = self.geometry.leaf_start
        set_of = np.empty((start[-1], self.n.shape[1]), dtype=np.int32)
        sets: list[NDArray[np.uint64]] = []
        for t, b in enumerate(self.draws):
            own = slice(start[t], start[t + 1])
            most, below = np.unique(b, return_inverse=True)
            rank = np.searchsorted(most, self.n[own], side="right")
            set_of[own] = len(sets) + rank
            # Set r holds the drawn rows whose draws are among the r smallest numbers.
            sets += [_as_bits((below.ravel() < r) & self.drawn) for r in range(len(most) + 1)]
        if group is not None:
            last, n_groups = self.geometry.release.trees[-1], int(start[-1] - start[-2])
            open_ = np.ones((n_groups, 1)) if last.counts is None else last.counts[last.leaves]
            only = np.where(open_ > 0, np.arange(n_groups)[:, None], n_groups)
            set_of[start[-2] :] = len(sets) + only
            sets += [_as_bits((group == g) & self.drawn) for g in range(n_groups + 1)]
        return RowSets(np.array(sets), set_of)

    def contradiction(self) -> Contradiction | None:
        """Find a tree whose leaves hold another number of draws or distinct rows than it drew."""
        start = self.geometry.leaf_start[: len(self.draws)]
        per_tree = np.add.reduceat(self.n.sum(axis=1), start)
        found = [(per_tree, self.draws.sum(axis=1), "draws")]
        if self.d is not None:
            distinct = np.add.reduceat(self.d, start)
            found.append((distinct, (self.draws > 0).sum(axis=1), "distinct rows"))
        for held, drew, what in found:
            if (held != drew).any():
                t = int((held != drew).argmax())
                return Contradiction(t, 0, f"its leaves hold {held[t]} {what}, it drew {drew[t]}")
        return None


@dataclass(frozen=True, eq=False)
class HiddenDraws:
    """Bootstrap with draws that are not known: each tree drew n_t times among N rows.

    Given the histogram m over cells and classes, the draws of tree t are multinomial,
    P(n_t | m) = N_t! / prod n_tvc! x prod ((A m)_tvc / N)^n_tvc, and together with the numbers of
    distinct rows, P(n_t, d_t | m) is the sum, over the ways to split each d_tv among the classes of
    the leaf, of N_t! / prod n_tvc! x N^-N_t x prod C((A m)_tvc, d_tvc) x surj(n_tvc, d_tvc), where
    surj(n, d) counts the maps of n draws onto d rows.

    Attributes
    ----------
    geometry : Geometry
    n_rows : int
        N.
    use_distinct : bool
        Also use the distinct rows of each leaf, where the release gives them.
    """

    geometry: Geometry
    n_rows: int
    use_distinct: bool = True
    kind: ClassVar[str] = "hidden bootstrap draws"

    @cached_property
    def n(self) -> IntArray:
        """Draws of each class in each leaf, shape (n_leaves, n_classes)."""
        return _leaf_counts(self.geometry.release.trees)

    @cached_property
    def d(self) -> IntArray | None:
        """Distinct rows in each leaf, shape (n_leaves,), or None."""
        return _leaf_distinct(self.geometry.release.trees) if self.use_distinct else None

    def contradiction(self) -> Contradiction | None:
        """Find a leaf or a tree whose numbers no draws give."""
        most, least = self.n.sum(axis=1), (self.n > 0).sum(axis=1)
        start = self.geometry.leaf_start[:-1]
        if self.d is None:
            per_tree, what = np.add.reduceat(least, start), "leaves and classes that count draws"
        else:
            for wrong, why in (
                (self.d > most, "holds {d} distinct rows and {n} draws"),
                (self.d < least, "holds {d} distinct rows of {least} classes"),
            ):
                if wrong.any():
                    v = int(wrong.argmax())
                    text = why.format(d=self.d[v], n=most[v], least=least[v])
                    return Contradiction(*self.geometry.leaf_of_row(v), text)
            per_tree, what = np.add.reduceat(self.d, start), "distinct rows"
        if (per_tree > self.n_rows).any():
            t = int((per_tree > self.n_rows).argmax())
            return Contradiction(t, 0, f"it has {per_tree[t]} {what}, of {self.n_rows} rows")
        return None


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Counts with noise of a known law: n* = A m + Y if every tree saw every row.

    If trees drew rows, A m is what they drew; if each row went to one tree, every tree has its m.

    Attributes
    ----------
    geometry : Geometry
    n_rows : int
        N, or the likeliest number where it is not known.
    noise : CountNoise
    rows_between : tuple of two int
        Where N lies; both are ``n_rows`` where it is known.
    sampling : {"all", "bootstrap", "disjoint"}
        How rows reached the trees.
    n_draws : int or None
        Draws of each tree, for a bootstrap.
    """

    geometry: Geometry
    n_rows: int
    noise: CountNoise
    rows_between: tuple[int, int]
    sampling: str = AllRows.kind
    n_draws: int | None = None
    kind: ClassVar[str] = "noisy counts"

    @property
    def n_statements(self) -> int:
        """How many counts there are."""
        return self.n.size

    @cached_property
    def n(self) -> FloatArray:
        """Noisy rows of each class in each leaf, shape (n_leaves, n_classes)."""
        trees = self.geometry.release.trees
        return np.concatenate([t.counts[t.leaves] for t in trees if t.counts is not None])

    def contradiction(self) -> Contradiction | None:
        """Noise may turn any counts into any others."""
        return None


@dataclass(frozen=True, eq=False)
class LeafLabels:
    """Leaves that name one class each, chosen by how many rows they hold of each.

    Attributes
    ----------
    geometry : Geometry
    n_rows : int
        N.
    noise : LabelNoise
    sampling : {"all", "disjoint"}
        How rows reached the trees.
    """

    geometry: Geometry
    n_rows: int
    noise: LabelNoise
    sampling: str = AllRows.kind
    kind: ClassVar[str] = "class of each leaf"

    @property
    def n_statements(self) -> int:
        """How many leaves there are."""
        return len(self.named)

    @cached_property
    def present(self) -> BoolArray:
        """Which classes each leaf names, shape (n_leaves, n_classes)."""
        return np.asarray(_leaf_counts(self.geometry.release.trees) > 0)

    @cached_property
    def named(self) -> NDArray[np.int32]:
        """The class that each leaf names, shape (n_leaves,)."""
        counts = _leaf_counts(self.geometry.release.trees)
        return np.asarray(counts.argmax(axis=1), dtype=np.int32)

    def contradiction(self) -> Contradiction | None:
        """Any leaf may name any class, if the noise is large enough."""
        return None


EvidenceType = Callable[[Geometry], Any]
"""Makes the evidence from the geometry."""

_TYPES: dict[tuple[str, str], EvidenceType] = {}


def evidence_type(sampling: str, counts_are: str, make: EvidenceType) -> None:
    """Register the evidence for a way of sampling and a unit of counts."""
    _TYPES[sampling, counts_are] = make


evidence_type("all", "rows", ExactCounts)
evidence_type("all", "weights", ExactTotals)
evidence_type("all", "none", ExactTotals)


def draws_needed(release: Release, bootstrap: str = "auto") -> bool:
    """Whether the evidence of this release rests on knowing the draws.

    Raises
    ------
    BadInput
        If there is no such assumption.
    """
    if bootstrap not in BOOTSTRAP_MODES:
        raise BadInput(f"bootstrap must be one of {BOOTSTRAP_MODES}, not {bootstrap!r}")
    return bootstrap == "known" or (bootstrap == "auto" and release.sampling.kind == "bootstrap")


def evidence_for(
    release: Release,
    bootstrap: str = "auto",
    draws: NDArray[np.unsignedinteger[Any]] | None = None,
    use_distinct: bool = True,
    n_rows: int | None = None,
    rows_between: tuple[int, int] | None = None,
) -> EvidenceType:
    """Choose the evidence type of a release.

    Parameters
    ----------
    release : Release
    bootstrap : {"auto", "none", "known", "hidden"}
        What to assume of the draws; "auto" believes the release.
    draws : int array, shape (n_trees, n_rows), optional
        How often each tree drew each row, where that is needed and known.
    use_distinct : bool
        With draws, known or hidden: use the numbers of distinct rows as well.
    n_rows : int, optional
        N, for hidden draws and for noise.
    rows_between : tuple of two int, optional
        Where N lies, for noise; by default it is known.

    Raises
    ------
    BadInput
        If there is no such assumption.
    NotCovered
        With the reason.
    """
    needed = draws_needed(release, bootstrap)
    if release.not_covered:
        raise NotCovered(release.not_covered)
    if not release.trees:
        raise NotCovered("the release holds no tree")
    if release.noise is not None:
        return _noisy(release, n_rows, rows_between)
    sampling, counts_are = release.sampling.kind, release.counts_are
    if bootstrap == "none":
        sampling, counts_are = AllRows.kind, "rows" if counts_are == "draws" else counts_are
    hidden = bootstrap == "hidden" or (needed and draws is None)
    if (needed or hidden) and counts_are != "draws":
        raise NotCovered(f"a bootstrap whose counts are given as {counts_are}, not as draws")
    if sampling == "unknown" and not hidden:
        why = getattr(release.sampling, "why", "") or "the release does not say"
        raise NotCovered(
            f"how rows reached the trees is not known ({why}); if every tree saw every row once, "
            'say bootstrap="none"; if each drew rows at random, bootstrap="hidden"'
        )
    make = _TYPES.get((sampling, counts_are))
    if draws is not None and needed:
        _check_size(release, draws.shape[1])
        make = partial(KnownDraws, draws=draws, use_distinct=use_distinct)
    if hidden:
        if n_rows is None:
            raise NotCovered("hidden draws of an unknown number of rows")
        _check_size(release, n_rows)
        make = partial(HiddenDraws, n_rows=n_rows, use_distinct=use_distinct)
    if make is None:
        raise NotCovered(f"counts given as {counts_are!r} with sampling {sampling!r}")
    missing = "counts" if needed or hidden or make is ExactCounts else "totals"
    for t, tree in enumerate(release.trees):
        given = getattr(tree, missing)
        if given is None:
            raise NotCovered(f"tree {t} gives no {missing}")
        _check_size(release, int(given[tree.leaves].sum()), f"tree {t} counts ")
    return make


def _check_size(release: Release, n_rows: int, where: str = "") -> None:
    """Raise NotCovered for more rows, or more values in them, than are rebuilt."""
    if n_rows > MAX_ROWS:
        raise NotCovered(f"{where}{n_rows:,} rows; at most {MAX_ROWS:,} are rebuilt")
    if n_rows * release.n_features > MAX_VALUES:
        raise NotCovered(
            f"{where}{n_rows:,} rows of {release.n_features:,} columns; at most {MAX_VALUES:,} "
            "values are rebuilt"
        )


def _noisy(
    release: Release, n_rows: int | None, rows_between: tuple[int, int] | None
) -> EvidenceType:
    """Choose the evidence type of a release with noise."""
    noise, sampling = release.noise, release.sampling
    if sampling.kind == "unknown":
        raise NotCovered("noise, and how rows reached the trees is not known")
    if n_rows is None:
        raise NotCovered("noise on an unknown number of rows")
    _check_size(release, n_rows)
    for t, tree in enumerate(release.trees):
        if tree.counts is None:
            raise NotCovered(f"tree {t} gives no counts")
    n_draws = (sampling.n_draws or n_rows) if isinstance(sampling, Bootstrap) else None
    if not isinstance(noise, CountNoise):
        if noise is None or (n_draws is not None and noise.rule not in ("majority", "present")):
            raise NotCovered("leaves that name a class only, of trees that drew their rows")
        return partial(LeafLabels, n_rows=n_rows, noise=noise, sampling=sampling.kind)
    return partial(
        NoisyCounts,
        n_rows=n_rows,
        noise=noise,
        rows_between=rows_between or (n_rows, n_rows),
        sampling=sampling.kind,
        n_draws=n_draws,
    )


def _leaf_counts(trees: Sequence[Tree]) -> IntArray:
    counts = [t.counts[t.leaves] for t in trees if t.counts is not None]
    return np.rint(np.concatenate(counts)).astype(np.int64)


def _leaf_totals(trees: Sequence[Tree]) -> IntArray:
    totals = [t.totals[t.leaves] for t in trees if t.totals is not None]
    return np.rint(np.concatenate(totals)).astype(np.int64)


def _leaf_distinct(trees: Sequence[Tree]) -> IntArray | None:
    """Distinct rows in each leaf, or None if a tree does not say."""
    distinct = [t.distinct[t.leaves] for t in trees if t.distinct is not None]
    return np.concatenate(distinct).astype(np.int64) if len(distinct) == len(trees) else None


def _as_bits(member: BoolArray) -> NDArray[np.uint64]:
    bits = np.zeros(-(-len(member) // 64) * 64, dtype=bool)
    bits[: len(member)] = member
    return np.packbits(bits, bitorder="little").view("<u8").astype(np.uint64)


def _unequal(per_tree: IntArray, names: list[str]) -> Contradiction | None:
    differs = per_tree != per_tree[0]
    if not differs.any():
        return None
    t, c = (int(i) for i in np.argwhere(differs)[0])
    return Contradiction(
        t,
        0,
        f"its leaves hold {per_tree[t, c]} rows of {names[c]}, those of tree 0 hold "
        f"{per_tree[0, c]}",
    )
