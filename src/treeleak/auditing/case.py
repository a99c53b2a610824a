"""What an audit goes by: what was given, the model, and what each assessor found in its turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal, cast

import pandas as pd

from treeleak.core.clock import Clock, Progress
from treeleak.core.errors import BadInput, Mismatch, NotCovered, TimeUp
from treeleak.core.message import Message, message_of, own_words
from treeleak.core.private import dataclass

if TYPE_CHECKING:
    from treeleak.auditing.result import Found
    from treeleak.reconstruction import Reconstruction
    from treeleak.release import Release, RuleList, StoredObject
    from treeleak.schema import Schema


@dataclass(frozen=True, eq=False, kw_only=True)
class Given:
    """What somebody gave to be audited, and how; as for :func:`treeleak.audit`."""

    X: Any
    y: Any
    schema: Schema | None
    seed: int
    bootstrap: str
    seed_search: int
    use_distinct: bool
    beside: Mapping[str, Any]
    earlier: Any
    n_rows: int | None
    control: Any
    threshold: int
    sensitive: Sequence[str]
    groups: Sequence[str]
    trust_pickle: bool
    progress: Callable[[Progress], None] | None
    on_mismatch: Literal["raise", "report"] = "raise"

    @property
    def told_rows(self) -> int | None:
        """How many training rows there were, as far as that was given."""
        return self.n_rows if self.n_rows is not None or self.X is None else len(self.X)

    def mismatched(self, error: Mismatch) -> Message:
        """Say why rows are not the model's; raise it unless the caller goes on without them."""
        if self.on_mismatch == "raise":
            raise error
        return message_of(error)


@dataclass(frozen=True, eq=False)
class Case:
    """An audit on its way."""

    given: Given
    clock: Clock
    content: StoredObject | Release | RuleList
    """The model as it was read."""
    found: Found
    """What is known so far."""
    live: Any = None
    """The model itself, where it was no file."""
    others: pd.DataFrame | None = None
    """Rows of the population, in the model's columns, that may be compared."""
    alike: bool = False
    """Whether such rows were given, and are the training rows over again."""
    alone: int = 0
    """Rows that are proved, and proved to share their place with no other."""
    guesses: tuple[Reconstruction, ...] = ()
    """From the shape of the trees alone."""
    unfinished: bool = False
    """Whether proofs or the comparison were broken off."""
    not_covered: str = ""
    """Why there are no trees."""

    @property
    def release(self) -> Release:
        """The trees.

        Raises
        ------
        NotCovered
            If there are none, saying why.
        """
        if self.found.release is None:
            raise NotCovered(self.not_covered)
        return self.found.release

    @property
    def rules(self) -> RuleList:
        """The rules.

        Raises
        ------
        NotCovered
            If there are none.
        """
        if self.found.of != "rules":
            raise NotCovered(own_words("these are no rules", "no_rules"))
        return cast("RuleList", self.content)

    def has(self, name: str) -> bool:
        """Whether something was found, or given, that has this name."""
        whence = self.found if hasattr(self.found, name) else self.given
        return getattr(whence, name) is not None

    def seconds(self, share: float) -> float:
        """Share of the time that is left: next to none where none is, which a part says itself."""
        return max(share * self.clock.left, 1e-9)

    def plus(self, **results: Any) -> Case:
        """Add what was found."""
        return replace(self, found=replace(self.found, **results))

    def noting(self, *notes: str) -> Case:
        """Add remarks."""
        return self.plus(notes=(*self.found.notes, *notes))

    def without(self, part: str, why: str) -> Case:
        """List a part as not assessed."""
        return self.plus(not_assessed=(*self.found.not_assessed, (part, why)))


@dataclass(frozen=True)
class Assessor:
    """A part of an audit."""

    part: str
    """Under which it is listed where it is not assessed."""
    assess: Callable[[Case], Case]
    """Adds what it finds to a case; the very same case where it has nothing to say. Raises, or
    lists, why the part cannot be assessed."""
    yields: tuple[str, ...] = ()
    """What it may add to what was found."""
    needs: tuple[str, ...] = ()
    """What must have been found or given; else it has nothing to say."""
    listed: tuple[type[Exception], ...] = field(default=(BadInput, NotCovered))
    """Tuple of exception classes. What leaves the part open; any other error ends the audit."""
    timed: bool = True
    """Whether it is broken off when the time is up; else it looks at the clock itself."""
    of: str = "leaves"
    """{"leaves", "rules"}. The kind of model."""

    def __call__(self, case: Case) -> Case:
        """Assess a part; what stops it is listed as the reason why it was not assessed."""
        if case.found.of != self.of or not all(map(case.has, self.needs)):
            return case
        try:
            if not self.timed:
                return self.assess(case)
            with case.clock.enforced():
                return self.assess(case)
        except self.listed as error:
            why = case.clock.said if isinstance(error, TimeUp) else message_of(error)
            if isinstance(error, Mismatch):
                case = case.plus(mismatch=case.given.mismatched(error))
            return case.without(self.part, why)
