"""How the training rows reached the trees."""

from __future__ import annotations

from typing import ClassVar

from treeleak.core.errors import BadModel
from treeleak.core.private import dataclass
from treeleak.release.bounds import MOST_ROWS


@dataclass(frozen=True)
class Sampling:
    """How the training rows reached the trees."""

    kind: ClassVar[str] = ""

    @property
    def shuffled(self) -> bool:
        """Whether early stopping had left the rows in another order."""
        return getattr(self, "held_back", None) is not None


YGGDRASIL = "Yggdrasil"
"""How rules of that library begin."""


@dataclass(frozen=True)
class HeldBack:
    """How some rows were kept from all trees, to stop early.

    Attributes
    ----------
    seed : int
    share : float
        Of all rows, below 1; else their number.
    by_class : bool
        Whether each class lost the same share.
    rule : str
        The library whose procedure it was; empty for scikit-learn.

    Raises
    ------
    BadModel
        On a seed that there cannot be, or no share.
    """

    seed: int
    share: float
    by_class: bool
    rule: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**32 or not 0 < self.share < MOST_ROWS:
            raise BadModel("rows that were held back by no seed, or none of them")


@dataclass(frozen=True)
class AllRows(Sampling):
    """Every tree saw every row exactly once.

    Attributes
    ----------
    held_back : HeldBack or None
        How other rows were kept from them, where it is known.
    """

    held_back: HeldBack | None = None
    kind: ClassVar[str] = "all"


@dataclass(frozen=True)
class Disjoint(Sampling):
    """Every row reached one tree only, any of them with the same probability."""

    kind: ClassVar[str] = "disjoint"


@dataclass(frozen=True)
class Bootstrap(Sampling):
    """Every tree drew rows at random, with replacement.

    Attributes
    ----------
    n_draws : int or None
        Draws per tree, where the release says so.
    tree_seeds : tuple of int or None
        Each tree's seed, where the file holds it.
    forest_seed : int or None
        The forest's own seed, where the file holds an integer.
    rule : str
        The procedure that turns a tree's seed into draws (library, version, kind), where known.
    row_weights : tuple of float or None
        Each training row's weight in the draw, where the file holds it; None means equal.
    columns_drawn : int or None
        How many columns each tree drew before its rows, from the same random numbers (a bagging
        does); 0 if none, None where the release does not say.
    columns_replaced : bool
        Whether it drew them with replacement.
    rows_between : tuple of two int or None
        The least and the greatest number of training rows that fit :attr:`n_draws`, where the
        file says more of it than that.
    hidden : str
        Why the draws do not follow from a seed and what else is in the file; empty if they do.
    held_back : HeldBack or None
        How other rows were kept from all trees before: row k of the draws is then row k of those
        that were left, in the order in which they were shuffled.
    """

    n_draws: int | None = None
    tree_seeds: tuple[int | None, ...] = ()
    forest_seed: int | None = None
    rule: str = ""
    row_weights: tuple[float, ...] | None = None
    columns_drawn: int | None = None
    columns_replaced: bool = False
    rows_between: tuple[int, int] | None = None
    hidden: str = ""
    held_back: HeldBack | None = None
    kind: ClassVar[str] = "bootstrap"


@dataclass(frozen=True)
class Subsample(Sampling):
    """Every tree drew rows at random, without replacement: it saw each once or not at all.

    Attributes
    ----------
    n_draws : int or None
        Rows per tree, where the release says so.
    tree_seeds, forest_seed, rule, columns_drawn, columns_replaced, rows_between, hidden, held_back
        As of :class:`Bootstrap`.
    """

    n_draws: int | None = None
    tree_seeds: tuple[int | None, ...] = ()
    forest_seed: int | None = None
    rule: str = ""
    columns_drawn: int | None = None
    columns_replaced: bool = False
    rows_between: tuple[int, int] | None = None
    hidden: str = ""
    held_back: HeldBack | None = None
    kind: ClassVar[str] = "subsample"


@dataclass(frozen=True)
class Joined(Sampling):
    """Several models of one table, some of whose trees drew rows.

    How the rows reached each of them stands in :attr:`Release.parts`.
    """

    kind: ClassVar[str] = "bootstrap"


_PARTS = (
    "each tree saw a part", "each tree saw the rows with the largest", "each tree drew",
    "the roots of its trees count different",
)  # fmt: skip


@dataclass(frozen=True)
class UnknownSampling(Sampling):
    """The release does not say how rows were drawn."""

    why: str = ""
    kind: ClassVar[str] = "unknown"

    @property
    def drawn(self) -> bool:
        """Whether the reason is that trees saw a part of the rows: then none saw all."""
        return self.why.startswith(_PARTS)
