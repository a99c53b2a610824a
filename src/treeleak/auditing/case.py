"""What an audit goes by: what was given, the model, and what each assessor found in its turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import pandas as pd

from treeleak.auditing import wording
from treeleak.auditing.assessors.article29 import Article29
from treeleak.auditing.assessors.budget import Budget, Ceiling
from treeleak.auditing.assessors.counts import Counts
from treeleak.auditing.assessors.domains import Domains
from treeleak.auditing.assessors.exposure import Exposure
from treeleak.auditing.assessors.isolation import Isolation
from treeleak.auditing.assessors.measurement import Measurement, Side, Variant
from treeleak.auditing.assessors.membership import Membership
from treeleak.auditing.assessors.parts import AttackedPart
from treeleak.auditing.assessors.shadow_models import Shadows
from treeleak.auditing.assessors.structure import Structure
from treeleak.auditing.assessors.uncertainty import Uncertainty
from treeleak.auditing.inventory.inventory import Entry
from treeleak.auditing.inventory.other_models import OtherModel
from treeleak.core.clock import Clock, Progress
from treeleak.core.errors import BadInput, Mismatch, NotCovered, TimeUp
from treeleak.core.memory import TooLarge
from treeleak.core.message import Message, MessageTemplate, message_of, static_message
from treeleak.core.private import dataclass
from treeleak.reconstruction import Reconstruction
from treeleak.release import Release
from treeleak.release.check_schema import reached
from treeleak.verification.training_rows import TrainingRows

if TYPE_CHECKING:
    from treeleak.reconstruction.problem import Problem
    from treeleak.release import RuleList, StoredObject
    from treeleak.schema import Schema

T = TypeVar("T")


@dataclass(frozen=True, eq=False, kw_only=True)
class AuditRequest:
    """What the user gave for the audit, and how; as for :func:`treeleak.audit`."""

    X: Any
    y: Any
    schema: Schema | None
    seed: int
    bootstrap: str
    seed_search: int
    beside: Mapping[str, Any]
    n_rows: int | None
    control: Any
    control_y: Any = None
    threshold: int
    sensitive: Sequence[str]
    groups: Sequence[str]
    trust_pickle: bool
    progress: Callable[[Progress], None] | None
    on_mismatch: Literal["raise", "report"] = "raise"

    @property
    def stated_rows(self) -> int | None:
        """How many training rows there were, as far as that was given."""
        return self.n_rows if self.n_rows is not None or self.X is None else len(self.X)

    @property
    def parts_provided(self) -> bool:
        """Whether rows or columns of the training rows were given as known."""
        return any(self.beside[name] is not None for name in ("known_rows", "known_columns"))

    @property
    def other_people(self) -> Any:
        """Control rows, or the population's; None if neither were given."""
        population = self.beside["population"]
        rows = population if isinstance(population, pd.DataFrame) else None
        return rows if self.control is None else self.control

    def mismatched(self, error: Mismatch) -> Message:
        """Say why rows are not the model's; raise it unless the caller goes on without them."""
        if self.on_mismatch == "raise":
            raise error
        return message_of(error)


@dataclass(frozen=True, eq=False, kw_only=True)
class AuditResults:
    """What the assessors of an audit found."""

    inventory: tuple[Entry, ...] = ()
    """What the model holds that stems from single rows, or says how rows were drawn."""
    people: int | None = None
    """Training rows, as far as the inventory knows. In a document as findings only."""
    others: tuple[OtherModel, ...] = ()
    """Fitted tree models in the file that no attack looks at. In a document as findings only."""
    parts: tuple[AttackedPart, ...] = ()
    """Fitted models beside the main one that were audited by themselves. In a document as findings
    only."""
    counts: Counts | None = None
    """Small leaves."""
    structure: Structure | None = None
    """How many numbers were learnt, and which rows the model cannot tell apart; None for rules."""
    budget: Budget | None = None
    """What the noise on the counts costs, where there is some."""
    reconstruction: Reconstruction | None = None
    """The rebuilt rows."""
    measurement: Measurement | None = None
    """The rebuilt rows against the training rows, where these were given and are the ones that the
    model counted."""
    variants: tuple[Variant, ...] = ()
    """The same with less to go by: without the population, or from the numbers of draws alone."""
    uncertainty: Uncertainty | None = None
    """Residual uncertainty of each row for one tree or one rule list; None for other models."""
    exposure: Exposure | None = None
    """What was recovered, of which columns, groups and rows; None where nothing was rebuilt."""
    article29: Article29 | None = None
    """Singling out and inference; None where there is no reconstruction or no truth."""
    membership: Membership | None = None
    """Whether the model tells who is in the training set; None without control rows."""
    shadows: Shadows | None = None
    """Whether models trained like it tell who was among their rows; None without labelled rows."""
    isolation: Isolation | None = None
    """Predicates that exactly one person meets, by the counts alone; None without exact counts."""
    ceiling: Ceiling | None = None
    """What no attack can exceed; None without control rows or a schema."""
    alone: int | None = None
    """Rows that are proved, and proved to share their place with no other; None where nobody
    counted them."""
    alone_and_rare: int | None = None
    """Those of them whose place is so small that luck seldom puts anybody there; None where nothing
    says how likely a place is."""
    not_assessed: tuple[tuple[str, str], ...] = ()
    """Part and reason."""
    mismatch: str | None = None
    """Why the rows given cannot be the training rows."""
    notes: tuple[str, ...] = ()
    schema_provided: bool = True
    """Whether the schema of the reconstruction was given, not inferred from the model."""
    of: str = "leaves"
    """{"leaves", "rules"}. What groups the rows, in a model of this kind."""
    truth: TrainingRows | None = None
    """The training rows, where they were given and are the ones that the model counted. Never in a
    document."""
    release: Release | None = None
    """What was audited; None for rules and for models that are not covered. Never in a document."""

    @property
    def not_looked_at(self) -> Message | None:
        """What no attack looked at although it discloses rows; nothing can be met before that."""
        if self.others:
            return wording.OTHERS_OPEN
        return wording.VALUES_OPEN if any(e.held is not None for e in self.inventory) else None

    def reason(self, part: str, unless: str = "") -> str:
        """Say why a part was not assessed; ``unless`` where nothing says so."""
        return dict(self.not_assessed).get(part, unless)

    @property
    def rows_provided(self) -> bool:
        """Whether training rows were given, be they the model's or not."""
        compared = self.truth is not None or self.mismatch is not None
        return compared or bool(self.reason("measurement"))

    @cached_property
    def domains(self) -> Domains | None:
        """Values of the training rows, as far as they are common knowledge; None without rows."""
        if self.truth is None or self.reconstruction is None or self.release is None:
            return None
        schema, inferred = self.reconstruction.schema, not self.schema_provided
        return Domains.of(schema, self.release, self.truth.X, inferred)

    @property
    def narrower(self) -> bool:
        """Whether the training columns leave out what the attack takes for possible."""
        if self.domains is None:
            return False
        X = None if self.reconstruction is None else self.reconstruction.X
        return self.domains.narrower or (X is not None and self.domains.misses(X))

    def written(self, rebuilt: Reconstruction) -> Reconstruction:
        """Write rebuilt rows for measuring: in these domains."""
        return rebuilt if self.domains is None else self.domains.written(rebuilt)

    @cached_property
    def impossible(self) -> int:
        """Training rows that the schema of the reconstruction does not allow."""
        if self.truth is None or self.reconstruction is None:
            return 0
        X = self.truth.X
        return int((~self.reconstruction.schema.valid(X.to_numpy(), list(X.columns))).sum())

    @cached_property
    def proofs_hold(self) -> bool:
        """Whether the schema allows the training rows, as far as these are known.

        Of a schema that was inferred, proofs need no more than rows in the leaves of these.
        """
        if self.of == "rules" and self.uncertainty is not None:
            return self.uncertainty.contains is not False
        if not self.impossible or self.truth is None or self.reconstruction is None:
            return not self.impossible
        if self.schema_provided or self.release is None:
            return False
        return bool(reached(self.reconstruction.schema, self.release, self.truth.X).all())


@dataclass(frozen=True, eq=False)
class Case:
    """An audit on its way."""

    request: AuditRequest
    clock: Clock
    content: StoredObject | Release | RuleList
    """The model as it was read."""
    found: AuditResults
    """What is known so far."""
    live: Any = None
    """The model itself, where it was no file."""
    provided: tuple[Any, Any] = (None, None)
    """The training rows and their labels as they were given."""
    posed: Problem | None = None
    """The table to rebuild, where there are trees."""
    matched: TrainingRows | None = None
    """The training rows, if they are the model's under the draws in it."""
    put: Side | None = None
    """Rebuilt and training rows as they are compared."""
    others: pd.DataFrame | None = None
    """Rows of the population, in the model's columns, that may be compared."""
    control_is_training: bool = False
    """Whether such rows were given, and are the training rows over again."""
    guesses: tuple[Reconstruction, ...] = ()
    """From the shape of the trees alone."""
    not_covered: str = ""
    """Why there are no trees."""
    reserved_seconds: float = 0.0
    """Seconds that slow parts leave to the quick ones after them."""

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
            raise NotCovered(static_message("these are not rules", "no_rules"))
        return cast("RuleList", self.content)

    @property
    def problem(self) -> Problem:
        """The table to rebuild, for parts that need it."""
        return _there(self.posed)

    @property
    def rebuilt(self) -> Reconstruction:
        """The rebuilt rows, for parts that need them."""
        return _there(self.found.reconstruction)

    @property
    def truth(self) -> TrainingRows:
        """The training rows, for parts that need them."""
        return _there(self.found.truth)

    @property
    def side(self) -> Side:
        """Rebuilt and training rows as they are compared, for parts that need them."""
        return _there(self.put)

    @property
    def measured(self) -> Measurement:
        """The comparison, for parts that need it."""
        return _there(self.found.measurement)

    def has(self, name: str) -> bool:
        """Whether something was found, or given, that has this name."""
        whence = self.found if hasattr(self.found, name) else self.request
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


def _there(found: T | None) -> T:
    if found is None:
        raise LookupError("a part of the audit asks for what it does not need")
    return found


@dataclass(frozen=True)
class Assessor:
    """A part of an audit."""

    part: str
    """Under which it is listed where it is not assessed."""
    assess: Callable[[Case], Case]
    """Adds what it finds to a case. Raises, or lists, why the part cannot be assessed."""
    yields: tuple[str, ...] = ()
    """What it may add to what was found."""
    needs: tuple[str, ...] = ()
    """What must have been found or given; else it has nothing to say, but what is ``lacking``."""
    lacking: Mapping[str, Message] = field(default_factory=dict)
    """Why the part cannot be assessed without what it needs; nothing, where that was said."""
    wish: str = ""
    """Wish without which nothing is said to be lacking."""
    reasons: tuple[MessageTemplate | Message, ...] = ()
    """Why it may leave a part open itself; any other reason is an error of this package."""
    listed: tuple[type[Exception], ...] = field(default=(BadInput, NotCovered))
    """Tuple of exception classes. What leaves the part open, in the words of what stopped it; any
    other error ends the audit."""
    timed: bool = True
    """Whether it is broken off when the time is up; else it looks at the clock itself."""
    slow: bool = False
    """Whether it might take all the time: it leaves some to the quick parts after it."""
    concludes: bool = False
    """Whether it only draws conclusions, which is done however late it is."""
    of: str = "leaves"
    """{"leaves", "rules"}. The kind of model."""

    def cut_off(self, case: Case) -> Case:
        """List the part as not assessed: the time is up, and it may be under way elsewhere."""
        if self.concludes:
            return self(case)
        after = self._left_out(case)
        return case.without(self.part, case.clock.timeout_message) if after is None else after

    def __call__(self, case: Case) -> Case:
        """Assess a part; what stops it is listed as the reason why it was not assessed."""
        if (after := self._left_out(case)) is not None:
            return after
        clock = (
            case.clock.part(case.clock.left - case.reserved_seconds) if self.slow else case.clock
        )
        stopping: tuple[type[Exception], ...] = (TimeUp, *self.listed)
        try:
            with clock.enforced() if self.timed and not self.concludes else nullcontext():
                after = replace(self.assess(replace(case, clock=clock)), clock=case.clock)
        except MemoryError:
            return case.without(self.part, message_of(TooLarge()))
        except stopping as error:
            why = case.clock.timeout_message if isinstance(error, TimeUp) else message_of(error)
            if isinstance(error, Mismatch):
                case = case.plus(mismatch=case.request.mismatched(error))
            return case.without(self.part, why)
        self._check(after.found.not_assessed[len(case.found.not_assessed) :])
        return after

    def _left_out(self, case: Case) -> Case | None:
        """The case after a part that has nothing to say of it; None if it has."""
        if case.found.of != self.of:
            return case
        lacks = next((name for name in self.needs if not case.has(name)), None)
        if lacks is None:
            return None
        why = self.lacking.get(lacks)
        wanted = not self.wish or bool(getattr(case.request, self.wish))
        return case if why is None or not wanted else case.without(self.part, why)

    def _check(self, left_open: Sequence[tuple[str, str]]) -> None:
        """Refuse reasons that were not declared: nobody could look up what they mean."""
        known = {reason.code for reason in self.reasons}
        for part, why in left_open:
            code = message_of(why).code
            if code not in known:
                raise RuntimeError(
                    f"an error in treeleak: {self.part} leaves {part} open for a reason that it "
                    f"does not declare ({code})"
                )
