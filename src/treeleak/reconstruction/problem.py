"""A table to rebuild: the models of it, what a row can be, and what is known beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray, IntArray, Labels, Rows
from treeleak.core.clock import Clock, OutOfTime
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.message import MessageTemplate, message_of, static_message
from treeleak.core.private import dataclass
from treeleak.evidence import MakeEvidence, SamplingAssumptions, draws_needed, evidence_for
from treeleak.partition import Geometry, reachable_leaves
from treeleak.reconstruction.schedule import SCHEDULE
from treeleak.release import Release
from treeleak.release.check_schema import check_schema
from treeleak.release.draws.recompute import Draws
from treeleak.release.draws.seeds import known_draws
from treeleak.release.infer_schema import infer_schema, notes_from_file, with_any_other
from treeleak.release.n_rows import RowCount, check_row_count, count_rows
from treeleak.release.row_facts import OutOfBag, RowFacts
from treeleak.release.sampling import Bootstrap, Subsample
from treeleak.schema import Ordinal, Schema
from treeleak.side_information.known_tables import KnownTables
from treeleak.side_information.population import Population
from treeleak.verification.counts import check_drawable, check_noisy, check_rows
from treeleak.verification.training_rows import TrainingRows, match_training

TAKEN_AS_HIDDEN = MessageTemplate(
    "draws_taken_as_hidden", "the attack takes the draws as hidden: {why:foreign}"
)
NO_ROWS = static_message(
    "the release says that there were no training rows, or its counts were emptied: nothing to "
    "rebuild",
    "no_rows_counted",
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
    "nothing in the model confirms the draws that follow from its seed", "draws_not_confirmed"
)
NO_SCHEMA = static_message(
    "no schema given: a value can be anything that the thresholds suggest", "no_schema_given"
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Knowledge:
    """What an adversary knows beside the models; as for :func:`treeleak.reconstruct`."""

    known_rows: pd.DataFrame | None = None
    known_columns: pd.DataFrame | None = None
    population: pd.DataFrame | Mapping[str, Any] | None = None
    n_rows: int | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """One table to rebuild, with the draws as far as they are known."""

    release: Release
    """The model; of several models of one table, the trees of all."""
    draws: Draws | None = None
    """How often each tree drew each row."""
    hidden: bool = False
    """Whether what became of rows is hidden: by draws that are not known, or by noise."""
    stated_schema: Schema | None = None
    bootstrap: str = "auto"
    knowledge: Knowledge = Knowledge()
    method: str = "auto"
    seed: int = 0
    notes: tuple[str, ...] = ()
    """What the reader of an answer should know of how the problem was posed."""

    @cached_property
    def row_count(self) -> RowCount | None:
        """The number of rows, if what became of them is hidden.

        Every number that was stated is held against what the trees count. Raises BadInput if one
        contradicts them. Raises NotCovered if there are no rows, or if many would be rebuilt, of
        which there may be but few.
        """
        release, stated, columns = self.release, self.knowledge.n_rows, self.knowledge.known_columns
        counted, reachable = None, None
        if self.hidden:
            if release.noise is not None and self.stated_schema is not None:
                reachable = reachable_leaves(Geometry.of(release, self.stated_schema))
            rows = None if columns is None or release.n_rows is not None else len(columns)
            counted = count_rows(release, rows if stated is None else stated, reachable)
            low, high = counted.between
            if not counted.n:
                raise NotCovered(NO_ROWS)
            if counted.n > SCHEDULE.uncertain_rows and high > SCHEDULE.uncertain_factor * low:
                raise NotCovered(N_ROWS_UNKNOWN(counted=counted))
        if self.method == "without-counts":
            return counted
        if release.n_rows is not None:
            source = f"the model says that it was trained on {release.n_rows} rows"
            check_row_count(release, release.n_rows, reachable, source)
        if stated is not None:
            check_row_count(release, stated, reachable)
            if self.draws is not None and self.draws.counts.shape[1] != stated:
                raise BadInput(
                    f"n_rows is {stated}, but the draws are of {self.draws.counts.shape[1]} rows"
                )
        elif counted is not None and columns is not None:
            source = f"the known columns have {len(columns)} rows"
            check_row_count(release, counted.n, reachable, source)
        return counted

    @cached_property
    def n_rows(self) -> int:
        """Rows of the table."""
        if self.row_count is not None:
            return self.row_count.n
        if self.draws is not None:
            return int(self.draws.counts.shape[1])
        tree = self.release.trees[0]
        counts = tree.counts if tree.totals is None else tree.totals
        return 0 if counts is None else int(np.rint(counts[tree.leaves].sum()))

    @property
    def all_draws(self) -> NDArray[np.unsignedinteger[Any]] | None:
        """Draws of all trees, shape (n_trees, n_rows)."""
        return None if self.draws is None else self.draws.counts

    @property
    def out_of_bag(self) -> tuple[OutOfBag, ...]:
        """Out-of-bag predictions of rows whose draws are known."""
        if self.draws is None:
            return ()
        n = self.draws.counts.shape[1]
        return tuple(means for means in self.release.out_of_bag if len(means.mean) == n)

    @property
    def row_facts(self) -> RowFacts | None:
        """What the file says of rows whose draws are known."""
        facts = self.release.row_facts
        if facts is None or self.draws is None:
            return None
        return facts if facts.n_rows == self.draws.counts.shape[1] else None

    @cached_property
    def schema(self) -> Schema:
        """What a row can be: as given, else as the trees suggest."""
        return infer_schema(self.release) if self.stated_schema is None else self.stated_schema

    @cached_property
    def schema_notes(self) -> tuple[str, ...]:
        """What the reader of an answer should know of the schema."""
        if self.stated_schema is not None:
            return tuple(check_schema(self.stated_schema, self.release))
        return (NO_SCHEMA, *notes_from_file(self.schema, self.release, rows=False))

    @cached_property
    def guessed(self) -> frozenset[str]:
        """Columns of whole numbers whose ends were guessed from thresholds, and of categories whose
        last code stands for any that no tree names.
        """
        if self.stated_schema is not None:
            return frozenset()
        ordinal = {a.name for a in self.schema.attributes if isinstance(a, Ordinal)}
        coded = {a.name for a in with_any_other(self.schema, self.release)}
        return frozenset(ordinal - set(self.release.ranges) | coded)

    @cached_property
    def make_evidence(self) -> MakeEvidence:
        """Makes of a geometry what the leaves say of the rows."""
        between = None if self.row_count is None else self.row_count.between
        bootstrap = "hidden" if self.hidden else self.bootstrap
        return evidence_for(self.release, bootstrap, self.all_draws, self.n_rows, between)

    @cached_property
    def known(self) -> KnownTables:
        """Known rows and columns, held against the model and the schema."""
        rows, columns = self.knowledge.known_rows, self.knowledge.known_columns
        placed = columns is not None or (rows is not None and rows.index.name == "row")
        if placed and self.release.sampling.shuffled and self.draws is not None:
            raise NotCovered(
                static_message(
                    "known columns, or positions of rows, where trees drew from rows that early "
                    "stopping left in another order"
                )
            )
        ordered = self.draws is not None
        return KnownTables.of(self.release, self.schema, self.n_rows, rows, columns, ordered)

    @cached_property
    def population(self) -> Population | None:
        """The population that rows come from, as a prior."""
        if self.knowledge.population is None:
            return None
        return Population.of(self.knowledge.population, self.schema, self.release)

    def misfit(self, table: FloatArray, label: IntArray, distinct: bool) -> float:
        """Check rows against the counts of all trees.

        ``distinct``: against the numbers of distinct rows as well. With hidden draws: how many
        rows are lacking for the counts to be possible. With noise: how much of it the rows leave.
        """
        if self.release.noise is not None:
            return check_noisy(self.release, table, label)
        if self.hidden:
            return check_drawable(self.release, table, label, distinct)
        return check_rows(self.release, table, label, self.all_draws, distinct).misfit

    def match(self, X: Rows, y: Labels | None = None) -> TrainingRows:
        """Put training rows in the model's columns, and check that the model counted them.

        Raises
        ------
        Mismatch
            If it did not.
        NotCovered
            If it is not known how rows reached the trees.
        """
        if self.draws is None:
            evidence_for(self.release, self.bootstrap)
            return match_training(self.release, X, y)
        return match_training(self.release, X, y, self.draws.counts)


def find_draws(problem: Problem, seed_search: int, clock: Clock) -> Problem:
    """Find the draws, if there are any, and note what is in doubt."""
    release, bootstrap = problem.release, problem.bootstrap
    if problem.hidden:
        return problem
    if release.noise is not None and not release.not_covered:
        if bootstrap not in ("auto", "none"):
            raise NotCovered(f'bootstrap="{bootstrap}", where the counts carry noise')
        return replace(problem, hidden=True)
    needed = draws_needed(release, bootstrap)
    if release.not_covered or not (needed or bootstrap == "hidden"):
        return problem
    notes: tuple[str, ...] = ()
    if bootstrap != "hidden":
        # Where hidden draws are the way out, the search must leave time for them.
        part = clock.part(
            clock.left * (1.0 if bootstrap == "known" else SCHEDULE.seed_search_share)
        )
        try:
            draws = problem.draws or _draws(release, seed_search, part)
        except NotCovered as why:
            # Where trees do not count what they drew, hidden draws are no way out.
            hideable = SamplingAssumptions(release, bootstrap).may_be_drawn
            if bootstrap == "known" or clock.stopped or not hideable:
                raise
            notes = (TAKEN_AS_HIDDEN(why=message_of(why)),)
        else:
            notes = problem.notes
            if not draws.checked and NOT_CONFIRMED not in notes:
                notes = (*notes, NOT_CONFIRMED)
            return replace(problem, draws=draws, notes=notes)
    sampling = release.sampling
    if isinstance(sampling, (Bootstrap, Subsample)):
        # Hidden draws may not be what the attack takes them to be.
        weighted = isinstance(sampling, Bootstrap) and sampling.row_weights is not None
        if sampling.hidden or weighted:
            notes = (*notes, NOT_EQUAL(why=sampling.hidden or MORE_WEIGHT))
    return replace(problem, hidden=True, notes=(*problem.notes, *notes))


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
