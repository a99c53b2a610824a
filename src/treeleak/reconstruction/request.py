"""The user's question, checked against the model and the schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import pandas as pd

from treeleak.core.arrays import BoolArray
from treeleak.core.clock import Clock, OutOfTime
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.message import MessageTemplate, message_of, static_message
from treeleak.core.private import dataclass
from treeleak.evidence import draws_needed, evidence_for
from treeleak.partition import Geometry, reachable_leaves
from treeleak.reconstruction import Reconstruction
from treeleak.reconstruction.answering import AttackJob
from treeleak.release import Release
from treeleak.release.check_schema import check_schema
from treeleak.release.draws.recompute import Draws
from treeleak.release.draws.seeds import known_draws
from treeleak.release.infer_schema import infer_schema, notes_from_file, notes_on_categories
from treeleak.release.n_rows import RowCount, check_row_count, count_rows
from treeleak.release.sampling import Bootstrap, Subsample
from treeleak.schema import Ordinal, Schema
from treeleak.side_information.earlier_release import Releases
from treeleak.side_information.known_tables import KnownTables
from treeleak.side_information.population import Population

TAKEN_AS_HIDDEN = MessageTemplate(
    "draws_taken_as_hidden", "the attack takes the draws as hidden: {why:foreign}"
)
N_ROWS_UNKNOWN = MessageTemplate(
    "number_of_rows_unknown",
    "the release does not hold the number of training rows ({counted}); give it (n_rows, --n-rows)",
)
NOT_EQUAL = MessageTemplate(
    "draws_not_equal",
    "the attack assumed that trees draw each row with the same probability, but: {why:foreign}",
)
MORE_WEIGHT = static_message("rows of more weight were drawn more often", "rows_of_more_weight")
NOT_CONFIRMED = static_message(
    "the model has no numbers of distinct rows that would confirm its draws", "draws_not_confirmed"
)
NO_SCHEMA = static_message(
    "no schema given: a value can be anything that the thresholds suggest", "no_schema_given"
)

_SEARCH_SHARE = 0.3
"""Share of the time that the search for a forest's seed may take if nobody insists on it."""
_MANY, _VAGUE = 20_000, 20
"""More rows than this are not rebuilt if their number is uncertain by more than this factor."""


@dataclass(frozen=True)
class BootstrapState:
    """Draws of the later and of the earlier release, or that what became of rows is hidden.

    ``hidden``: by draws that are not known, or by noise.
    """

    draws: Draws | None = None
    earlier: Draws | None = None
    hidden: bool = False


def find_draws(
    release: Release, before: Release | None, bootstrap: str, seed_search: int, clock: Clock
) -> tuple[BootstrapState, tuple[str, ...]]:
    """Find the draws, if there are any, and say what is in doubt."""
    if release.noise is not None and not release.not_covered:
        if before is not None:
            raise NotCovered(static_message("an earlier release, where the counts carry noise"))
        if bootstrap not in ("auto", "none"):
            raise NotCovered(f'bootstrap="{bootstrap}", where the counts carry noise')
        return BootstrapState(hidden=True), ()
    if before is not None and before.noise is not None:
        raise NotCovered(static_message("an earlier release whose counts carry noise"))
    needed = draws_needed(release, bootstrap)
    if release.not_covered or not (needed or bootstrap == "hidden"):
        return BootstrapState(), ()
    if bootstrap == "hidden":
        return BootstrapState(hidden=True), _unequal(release)
    # Where hidden draws are the way out, the search must leave time for them.
    part = clock.part(clock.left * (1.0 if bootstrap == "known" else _SEARCH_SHARE))
    try:
        draws = _draws(release, seed_search, part)
        found = BootstrapState(draws, None if before is None else _draws(before, seed_search, part))
    except NotCovered as why:
        if bootstrap == "known" or clock.stopped:
            raise
        taken = TAKEN_AS_HIDDEN(why=message_of(why))
        return BootstrapState(hidden=True), (taken, *_unequal(release))
    if all(entry is None or entry.checked for entry in (found.draws, found.earlier)):
        return found, ()
    return found, (NOT_CONFIRMED,)


def _unequal(release: Release) -> tuple[str, ...]:
    """Say where hidden draws are not what the attack takes them to be."""
    sampling = release.sampling
    if not isinstance(sampling, (Bootstrap, Subsample)):
        return ()
    weighted = isinstance(sampling, Bootstrap) and sampling.row_weights is not None
    return (NOT_EQUAL(why=sampling.hidden or MORE_WEIGHT),) if sampling.hidden or weighted else ()


def _check_earlier(counted: RowCount) -> None:
    """Raise NotCovered without rows, or if many would be rebuilt, of which there may be but few."""
    low, high = counted.between
    if not counted.n:
        raise NotCovered(
            static_message("the release says that there were no training rows: nothing to rebuild")
        )
    if counted.n > _MANY and high > _VAGUE * low:
        raise NotCovered(N_ROWS_UNKNOWN(counted=counted))


@dataclass(frozen=True, eq=False)
class ReconstructionRequest:
    """What was asked, with the draws as far as they are known."""

    release: Release
    before: Release | None
    schema: Schema | None
    bootstrap: str
    found: BootstrapState
    method: str
    seed: int
    n_rows: int | None
    known_rows: pd.DataFrame | None
    known_columns: pd.DataFrame | None
    population: pd.DataFrame | Mapping[str, Any] | None
    notes: tuple[str, ...]

    def answer(self, use_distinct: bool | Literal["both"], clock: Clock) -> Reconstruction:
        """Attack, and where both ways are asked for, first without distinct rows."""
        task = self.task(bool(use_distinct))
        if use_distinct != "both" or not task.uses_distinct:
            return task.answer(clock)
        # What is compared is what the leaves tell, not what is known of N.
        same = replace(self, n_rows=None if task.counted is None else task.counted.n)
        without = same.task(False).answer(clock.part(clock.left / 2))
        return replace(task.answer(clock.part(clock.left)), without_distinct=without)

    def task(self, use_distinct: bool) -> AttackJob:
        """Hold everything against the model and the schema."""
        release, schema = self.release, self.schema
        counted = None
        if self.found.hidden:
            n_rows = self.n_rows
            if n_rows is None and release.n_rows is None and self.known_columns is not None:
                n_rows = len(self.known_columns)
            reachable = None
            if release.noise is not None and schema is not None:
                reachable = reachable_leaves(Geometry.of(release, schema))
            counted = count_rows(release, n_rows, use_distinct, reachable)
            _check_earlier(counted)
            self.check_row_count(counted, reachable)
        else:
            self.check_row_count(None, None)
        both = self._both(counted, use_distinct)
        notes: tuple[str, ...] = (NO_SCHEMA,)
        guessed: frozenset[str] = frozenset()
        if schema is None:
            schema = infer_schema(both.trees_of_both)
            whole = both.trees_of_both
            notes = (*notes, *notes_from_file(schema, whole), *notes_on_categories(schema, whole))
            ordinal = (a.name for a in schema.attributes if isinstance(a, Ordinal))
            sets = zip(release.feature_names, release.category_sets, strict=True)
            coded = {c for c, named in sets if named and c not in release.levels}
            guessed = (frozenset(ordinal) - set(release.ranges)) | coded
        else:
            notes = tuple(check_schema(schema, both.trees_of_both))
        make = evidence_for(
            both.trees_of_both, self.bootstrap, both.all_draws, use_distinct, both.n_rows,
            None if counted is None else counted.between,
        )  # fmt: skip
        wider = both.whole.n_features > release.n_features
        if self.known_rows is not None and wider:
            raise NotCovered(
                static_message(
                    "known rows together with an earlier release, unless draws are known"
                )
            )
        if self.known_columns is not None and self.before is not None and self.found.hidden:
            # Which rows of the table are the earlier ones is not known.
            raise NotCovered(
                static_message(
                    "known columns together with an earlier release whose draws are hidden"
                )
            )
        placed = self.known_rows is not None and self.known_rows.index.name == "row"
        placed |= self.known_columns is not None or self.before is not None
        if placed and both.shuffled and both.draws is not None:
            raise NotCovered(
                static_message(
                    "known columns, positions of rows, or an earlier release, where trees drew "
                    "from rows that early stopping left in another order"
                )
            )
        known = KnownTables.of(
            both.whole, both.schema(schema), both.n_rows, self.known_rows,
            both.known_columns(self.known_columns), ordered=both.draws is not None,
        )  # fmt: skip
        prior = None
        if self.population is not None:
            if wider:
                raise NotCovered(
                    static_message(
                        "a population together with an earlier release, unless draws are known"
                    )
                )
            prior = Population.of(self.population, schema, release)
        return AttackJob(
            both, self.found.draws, counted, known, schema, make, self.method, self.seed, prior,
            (*notes, *self.notes), guessed, self.n_rows is not None,
        )  # fmt: skip

    def check_row_count(
        self, counted: RowCount | None, reachable: Sequence[BoolArray] | None
    ) -> None:
        """Hold every number of rows that was stated against what the trees count."""
        release, draws, stated = self.release, self.found.draws, self.n_rows
        if self.method == "without-counts":
            return
        if release.n_rows is not None:
            source = f"the model says that it was trained on {release.n_rows} rows"
            check_row_count(release, release.n_rows, reachable, source)
        if stated is not None:
            check_row_count(release, stated, reachable)
            if draws is not None and draws.counts.shape[1] != stated:
                raise BadInput(
                    f"n_rows is {stated}, but the draws are of {draws.counts.shape[1]} rows"
                )
        elif counted is not None and self.known_columns is not None:
            source = f"the known columns have {len(self.known_columns)} rows"
            check_row_count(release, counted.n, reachable, source)

    def _both(self, counted: RowCount | None, use_distinct: bool) -> Releases:
        """Put both releases together."""
        release, before, found = self.release, self.before, self.found
        if counted is None:
            later, old = (None if d is None else d.counts for d in (found.draws, found.earlier))
            return Releases(release, before, later, old)
        first = counted.n if before is None else count_rows(before, None, use_distinct).n
        if first > counted.n:
            raise BadInput(
                f"the earlier release was trained on {first} rows, the later one on {counted.n}: a "
                "growing dataset does not lose any"
            )
        return Releases(release, before, hidden=(counted.n, first))


def _draws(release: Release, seed_search: int, clock: Clock) -> Draws:
    def tick(done: float) -> None:
        clock.report_progress("searching for the seed", done)
        clock.check()

    try:
        return known_draws(release, seed_search=seed_search, tick=tick)
    except OutOfTime:
        raise NotCovered(
            static_message(
                "the search for the draws was stopped before it found them; give it more time, or "
                "fewer seeds"
            )
        ) from None
