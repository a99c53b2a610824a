"""A table to rebuild: the models of it, what a row can be, and what is known beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray, Labels, Rows
from treeleak.core.clock import Clock, OutOfTime
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.message import MessageTemplate, message_of, static_message
from treeleak.core.private import dataclass
from treeleak.evidence import MakeEvidence, SamplingAssumptions, draws_needed, evidence_for
from treeleak.partition import Geometry, reachable_leaves
from treeleak.release import Release
from treeleak.release.check_schema import check_schema
from treeleak.release.draws.recompute import Draws
from treeleak.release.draws.seeds import known_draws
from treeleak.release.infer_schema import infer_schema, notes_from_file, with_any_other
from treeleak.release.n_rows import RowCount, check_row_count, count_rows
from treeleak.release.row_facts import OutOfBag, RowFacts
from treeleak.release.sampling import Bootstrap, Subsample
from treeleak.schema import Binary, Ordinal, Schema
from treeleak.side_information.earlier_release import distinguished, with_trees_of
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

_SEARCH_SHARE = 0.3
"""Share of the time that the search for a forest's seed may take if nobody insists on it."""
_MANY, _VAGUE = 20_000, 20
"""More rows than this are not rebuilt if their number is uncertain by more than this factor."""


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
    earlier: Release | None = None
    """An earlier model of some of the rows, :func:`aligned` with it."""
    draws: Draws | None = None
    """How often each tree drew each row."""
    earlier_draws: Draws | None = None
    """The same for the earlier model. Its rows come first in the table."""
    hidden: bool = False
    """Whether what became of rows is hidden: by draws that are not known, or by noise."""
    stated_schema: Schema | None = None
    bootstrap: str = "auto"
    use_distinct: bool = True
    """Whether numbers of distinct rows are used where trees drew rows."""
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
            counted = count_rows(
                release, rows if stated is None else stated, self.use_distinct, reachable
            )
            low, high = counted.between
            if not counted.n:
                raise NotCovered(NO_ROWS)
            if counted.n > _MANY and high > _VAGUE * low:
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
    def n_rows(self) -> tuple[int, int]:
        """Rows of the table, and how many of them, the first, the earlier model saw."""
        counted, before = self.row_count, self.earlier
        if counted is not None:
            n = counted.n
            n_before = n if before is None else count_rows(before, None, self.use_distinct).n
        elif self.draws is not None:
            n = n_before = self.draws.counts.shape[1]
            if self.earlier_draws is not None:
                n_before = self.earlier_draws.counts.shape[1]
        else:
            tree = self.release.trees[0]
            counts = tree.counts if tree.totals is None else tree.totals
            n = n_before = 0 if counts is None else int(np.rint(counts[tree.leaves].sum()))
        if n_before > n:
            raise BadInput(
                f"the earlier release was trained on {n_before} rows, the later one on {n}: a "
                "growing dataset does not lose any"
            )
        return n, n_before

    @cached_property
    def all_draws(self) -> NDArray[np.unsignedinteger[Any]] | None:
        """Draws of all trees, shape (n_trees, n_rows); no earlier tree drew what is new."""
        if self.draws is None or self.earlier_draws is None:
            return None if self.draws is None else self.draws.counts
        n, n_before = self.n_rows
        padded = np.pad(self.earlier_draws.counts, ((0, 0), (0, n - n_before)))
        return np.concatenate([self.draws.counts, padded])

    @property
    def shuffled(self) -> bool:
        """Whether the rows that trees drew from were in another order than the training set."""
        every = (self.release, self.earlier)
        return any(r is not None and r.sampling.shuffled for r in every)

    @property
    def out_of_bag(self) -> tuple[OutOfBag, ...]:
        """Out-of-bag predictions of rows whose draws are known; none beside an earlier release."""
        if self.earlier is not None or self.draws is None:
            return ()
        n = self.draws.counts.shape[1]
        return tuple(means for means in self.release.out_of_bag if len(means.mean) == n)

    @property
    def row_facts(self) -> RowFacts | None:
        """What the file says of rows whose draws are known; nothing beside an earlier release."""
        facts = self.release.row_facts
        if facts is None or self.earlier is not None or self.draws is None:
            return None
        return facts if facts.n_rows == self.draws.counts.shape[1] else None

    @cached_property
    def trees(self) -> Release:
        """All trees, in the columns of the model."""
        return self.release if self.earlier is None else with_trees_of(self.release, self.earlier)

    @cached_property
    def joint(self) -> Release:
        """All trees, as they are attacked.

        Draws tell apart what the trees of the two models saw. Where none are known, a column more
        says which rows the earlier model saw.
        """
        if self.earlier is None or self.draws is not None:
            return self.trees
        return distinguished(self.release, self.earlier, drawn=self.hidden)

    @cached_property
    def schema(self) -> Schema:
        """What a row can be: as given, else as the trees suggest."""
        return infer_schema(self.trees) if self.stated_schema is None else self.stated_schema

    @cached_property
    def schema_notes(self) -> tuple[str, ...]:
        """What the reader of an answer should know of the schema."""
        if self.stated_schema is not None:
            return tuple(check_schema(self.stated_schema, self.trees))
        return (NO_SCHEMA, *notes_from_file(self.schema, self.trees, rows=False))

    @cached_property
    def guessed(self) -> frozenset[str]:
        """Columns of whole numbers whose ends were guessed from thresholds, and of categories whose
        last code stands for any that no tree names.
        """
        if self.stated_schema is not None:
            return frozenset()
        ordinal = {a.name for a in self.schema.attributes if isinstance(a, Ordinal)}
        coded = {a.name for a in with_any_other(self.schema, self.trees)}
        return frozenset(ordinal - set(self.release.ranges) | coded)

    @cached_property
    def make_evidence(self) -> MakeEvidence:
        """Makes of a geometry what the leaves say of the rows."""
        between = None if self.row_count is None else self.row_count.between
        bootstrap = "hidden" if self.hidden else self.bootstrap
        return evidence_for(
            self.trees, bootstrap, self.all_draws, self.use_distinct, self.n_rows[0], between
        )

    @cached_property
    def known(self) -> KnownTables:
        """Known rows and columns, held against the model and the schema."""
        rows, columns = self.knowledge.known_rows, self.knowledge.known_columns
        schema, (n, n_before) = self.schema, self.n_rows
        if self.earlier is not None and self.draws is None:
            if rows is not None:
                raise NotCovered(
                    static_message(
                        "known rows together with an earlier release, unless draws are known"
                    )
                )
            if columns is not None and self.hidden:
                # Which rows of the table are the earlier ones is not known.
                raise NotCovered(
                    static_message(
                        "known columns together with an earlier release whose draws are hidden"
                    )
                )
            added = self.joint.feature_names[-1]
            schema = Schema((*schema.attributes, Binary(added)), schema.rules)
            if self.hidden:
                # That these come first is no restriction: the rows have no order.
                columns = pd.DataFrame({added: (np.arange(n) < n_before).astype(int)})
        placed = rows is not None and rows.index.name == "row"
        placed |= columns is not None or self.earlier is not None
        if placed and self.shuffled and self.draws is not None:
            raise NotCovered(
                static_message(
                    "known columns, positions of rows, or an earlier release, where trees drew "
                    "from rows that early stopping left in another order"
                )
            )
        return KnownTables.of(self.joint, schema, n, rows, columns, self.draws is not None)

    @cached_property
    def population(self) -> Population | None:
        """The population that rows come from, as a prior."""
        if self.knowledge.population is None:
            return None
        if self.earlier is not None and self.draws is None:
            raise NotCovered(
                static_message(
                    "a population together with an earlier release, unless draws are known"
                )
            )
        return Population.of(self.knowledge.population, self.schema, self.release)

    def in_earlier(self, table: FloatArray) -> BoolArray:
        """Which rows of a table, in the columns of the joint release, the earlier model saw."""
        if self.draws is not None:
            return np.asarray(np.arange(len(table)) < self.n_rows[1])
        return np.asarray(table[:, self.release.n_features] == 1.0)

    def misfit(self, table: FloatArray, label: IntArray, distinct: bool) -> float:
        """Check rows, in the columns of the joint release, against the counts of all models.

        ``distinct``: against the numbers of distinct rows as well. With hidden draws: how many
        rows are lacking for the counts to be possible. With noise: how much of it the rows leave.
        """
        X = table[:, : self.release.n_features]
        if self.release.noise is not None:
            return check_noisy(self.release, X, label)
        models = [(self.release, X, label, self.draws)]
        if self.earlier is not None:
            old = self.in_earlier(table)
            models.append((self.earlier, X[old], label[old], self.earlier_draws))
        missed: float = 0
        for model, rows, y, draws in models:
            if self.hidden:
                missed += check_drawable(model, rows, y, distinct)
            else:
                counts = None if draws is None else draws.counts
                missed += check_rows(model, rows, y, counts, distinct).misfit
        return missed

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
    release, before, bootstrap = problem.release, problem.earlier, problem.bootstrap
    if problem.hidden:
        return problem
    if release.noise is not None and not release.not_covered:
        if before is not None:
            raise NotCovered(static_message("an earlier release, where the counts carry noise"))
        if bootstrap not in ("auto", "none"):
            raise NotCovered(f'bootstrap="{bootstrap}", where the counts carry noise')
        return replace(problem, hidden=True)
    if before is not None and before.noise is not None:
        raise NotCovered(static_message("an earlier release whose counts carry noise"))
    needed = draws_needed(release, bootstrap)
    if release.not_covered or not (needed or bootstrap == "hidden"):
        return problem
    notes: tuple[str, ...] = ()
    if bootstrap != "hidden":
        # Where hidden draws are the way out, the search must leave time for them.
        part = clock.part(clock.left * (1.0 if bootstrap == "known" else _SEARCH_SHARE))
        try:
            draws = problem.draws or _draws(release, seed_search, part)
            old = problem.earlier_draws
            if old is None and before is not None:
                old = _draws(before, seed_search, part)
        except NotCovered as why:
            # Where trees do not count what they drew, hidden draws are no way out.
            hideable = SamplingAssumptions(release, bootstrap).may_be_drawn
            if bootstrap == "known" or clock.stopped or not hideable:
                raise
            notes = (TAKEN_AS_HIDDEN(why=message_of(why)),)
        else:
            checked = draws.checked and (old is None or old.checked)
            notes = problem.notes
            if not checked and NOT_CONFIRMED not in notes:
                notes = (*notes, NOT_CONFIRMED)
            return replace(problem, draws=draws, earlier_draws=old, notes=notes)
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
