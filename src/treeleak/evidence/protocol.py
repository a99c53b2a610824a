"""What all kinds of evidence have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import IntArray
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.message import static_message
from treeleak.core.private import dataclass
from treeleak.evidence.linear_constraints import LinearConstraints
from treeleak.partition import Geometry
from treeleak.release.n_rows import BARE, NO_COUNTS
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.release.statistics import DRAWS, ROWS
from treeleak.release.tree import Tree

HOW_ROWS_CAME = {"bootstrap": ", trees that drew rows", "disjoint": ", each row in one tree"}
"""What is said of noisy leaves besides."""

BOOTSTRAP_MODES = ("auto", "none", "known", "hidden")

_NO_DRAWS = {
    "weights": static_message(
        "its trees drew rows, and rows or classes were weighted: how often each row was drawn does "
        "not follow from the sums of weights that the nodes hold"
    ),
    "rows": static_message("its trees drew rows, but their counts are given as rows, not as draws"),
    "labels": static_message("its trees drew rows, and their leaves name classes without counting"),
    "none": static_message("its trees drew rows, and counts are not given by class"),
}

MAX_ROWS = 2_000_000
"""Most rows that are rebuilt: about 1 GB for twenty columns."""
MAX_VALUES = 10**8
"""Most values in them: about 2.5 GB."""


@dataclass(frozen=True, eq=False)
class SamplingAssumptions:
    """A release, and what is assumed beside it.

    Raises BadInput if there is no such assumption.
    """

    release: Release
    bootstrap: str = "auto"
    """{"auto", "none", "known", "hidden"}. What to assume of the draws; "auto" believes the
    release."""
    draws: NDArray[Any] | None = None
    """Shape (n_trees, n_rows). How often each tree drew each row, where that is known."""
    n_rows: int | None = None
    """N, for hidden draws and for noise."""
    rows_between: tuple[int, int] | None = None
    """Where N lies, for noise; None: it is known."""

    def __post_init__(self) -> None:
        if self.bootstrap not in BOOTSTRAP_MODES:
            raise BadInput(f"bootstrap must be one of {BOOTSTRAP_MODES}, not {self.bootstrap!r}")

    @property
    def draws_needed(self) -> bool:
        """Whether the evidence rests on knowing the draws."""
        drawn = self.release.sampling.kind in ("bootstrap", "subsample")
        return self.bootstrap == "known" or (self.bootstrap == "auto" and drawn)

    @property
    def draws_hidden(self) -> bool:
        """Whether rows were drawn, and it is not known which."""
        return self.bootstrap == "hidden" or (self.draws_needed and self.draws is None)

    @property
    def drawn(self) -> bool:
        """Whether rows were drawn at random."""
        return self.draws_needed or self.draws_hidden

    @property
    def may_be_drawn(self) -> bool:
        """Whether trees count what hidden draws need: draws, or the rows of a boosted model."""
        needed = DRAWS if self.release.ensemble is None else ROWS
        held = [tree.statistics for tree in self.release.trees]
        return all(
            statistics.get(DRAWS) is not None or statistics.get(needed) is not None
            for statistics in held
        )

    @property
    def exact(self) -> bool:
        """Whether no row was drawn at random, and no noise was added."""
        return self.release.noise is None and not self.drawn

    @property
    def sampling(self) -> str:
        """How rows reached the trees."""
        return AllRows.kind if self.bootstrap == "none" else self.release.sampling.kind

    @property
    def counts_are(self) -> str:
        """What leaves count by class."""
        stated = self.release.counts_are
        return "rows" if self.bootstrap == "none" and stated == "draws" else stated

    @property
    def counted(self) -> str:
        """In which of a tree's arrays the draws stand: by class, or in a model without classes."""
        return "counts" if self.release.classes else "totals"

    def check_drawn(self) -> None:
        """Refuse drawn rows whose draws are not counted.

        Raises
        ------
        NotCovered
        """
        if self.release.classes and self.counts_are != "draws":
            raise NotCovered(_NO_DRAWS.get(self.counts_are, _NO_DRAWS["none"]))
        totals = [] if self.release.classes else [t.statistics for t in self.release.trees]
        for t, held in enumerate(totals):
            if held.get(ROWS) is not None:
                raise NotCovered(f"a bootstrap, and tree {t} counts rows, not draws")

    def check_counts(self, what: str, behind: str | None = None) -> None:
        """Refuse trees without ``"counts"`` or ``"totals"``, or with more than is rebuilt.

        Behind all trees that have them, trees may give what ``behind`` names instead. Raises
        NotCovered, naming the tree.
        """
        trees = self.release.trees
        last = max(
            (t for t, tree in enumerate(trees) if getattr(tree, what) is not None), default=0
        )
        for t, tree in enumerate(trees):
            statistic = getattr(tree, what if behind is None or t <= last else behind)
            if statistic is None:
                bare = BARE * (what == "totals")
                raise NotCovered(NO_COUNTS(tree=t, what=what, bare=bare))
            check_size(self.release, int(statistic[tree.leaves].sum()), f"tree {t} counts ")

    def noisy_rows(self) -> int:
        """Give the number of rows, where leaves carry noise.

        Raises NotCovered if it is not known, or not how rows reached the trees; or if a tree gives
        no counts.
        """
        if self.release.sampling.kind == "unknown":
            raise NotCovered(
                static_message("noise, and it is not known how rows reached the trees")
            )
        if self.n_rows is None:
            raise NotCovered(static_message("noise on an unknown number of rows"))
        check_size(self.release, self.n_rows)
        for t, tree in enumerate(self.release.trees):
            if tree.counts is None:
                raise NotCovered(NO_COUNTS(tree=t, what="counts", bare=""))
        return self.n_rows


def check_size(release: Release, n_rows: int, where: str = "") -> None:
    """Refuse more rows, or more values in them, than are rebuilt.

    Raises
    ------
    NotCovered
    """
    if n_rows > MAX_ROWS:
        raise NotCovered(f"{where}{n_rows:,} rows; at most {MAX_ROWS:,} are rebuilt")
    if n_rows * release.n_features > MAX_VALUES:
        raise NotCovered(
            f"{where}{n_rows:,} rows of {release.n_features:,} columns; at most {MAX_VALUES:,} "
            "values are rebuilt"
        )


@dataclass(frozen=True)
class Contradiction:
    """Counts that no dataset meets: where, and what is wrong there."""

    tree: int
    node: int
    why: str

    def __str__(self) -> str:
        return f"tree {self.tree}, node {self.node}: {self.why}"


class Evidence(Protocol):
    """What the leaves say of the rows, given how that came about."""

    kind: ClassVar[str]
    """By which attacks are found."""

    @classmethod
    def fitting(cls, assumed: SamplingAssumptions) -> Callable[[Geometry], Self] | None:
        """Make it of the geometry of a release, or None if the release gives no such evidence.

        Raises NotCovered if it would be of this kind, and cannot be used: with the reason.
        """

    @property
    def geometry(self) -> Geometry:
        """The trees, seen from the atoms of a schema."""

    @property
    def n_rows(self) -> int:
        """N: rows of the training set, or their likeliest number."""

    @property
    def described(self) -> str:
        """What an answer says it was made from."""

    def statements(self) -> tuple[LinearConstraints, ...]:
        """Give what the leaves say, as statements about the rows in them."""

    def contradiction(self) -> Contradiction | None:
        """Find a contradiction that shows before any cell is looked at."""


MakeEvidence = Callable[[Geometry], Evidence]
"""Makes the evidence from the geometry."""


def leaf_counts(trees: Sequence[Tree]) -> IntArray:
    """Count each class in each leaf of the trees that do, shape (n_leaves, n_classes)."""
    counts = [t.counts[t.leaves] for t in trees if t.counts is not None]
    return np.rint(np.concatenate(counts)).astype(np.int64)


def leaf_draws(release: Release, trees: Sequence[Tree]) -> IntArray:
    """Count draws of each class in each leaf; without classes, all of them as of one class."""
    return leaf_counts(trees) if release.classes else leaf_totals(trees)[:, None]


def leaf_totals(trees: Sequence[Tree]) -> IntArray:
    """Count all classes together, shape (n_leaves,)."""
    totals = [t.totals[t.leaves] for t in trees if t.totals is not None]
    return np.rint(np.concatenate(totals)).astype(np.int64)


def leaf_distinct(trees: Sequence[Tree]) -> IntArray | None:
    """Distinct rows in each leaf, or None if a tree does not say."""
    distinct = [t.distinct[t.leaves] for t in trees if t.distinct is not None]
    return np.concatenate(distinct).astype(np.int64) if len(distinct) == len(trees) else None


def unequal(per_tree: IntArray, names: list[str]) -> Contradiction | None:
    """Find a tree that holds another number of something than the first."""
    differs = per_tree != per_tree[0]
    if not differs.any():
        return None
    t, c = (int(i) for i in np.argwhere(differs)[0])
    held, first = per_tree[t, c], per_tree[0, c]
    why = f"its leaves hold {held} rows of {names[c]}, those of tree 0 hold {first}"
    return Contradiction(t, 0, why)
