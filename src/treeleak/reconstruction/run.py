"""The main road: a model in, a reconstruction out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.attacks import Answer, attack_for
from treeleak.attacks.answer import nothing_open
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock, OutOfTime, Progress
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.private import dataclass
from treeleak.evidence import (
    Evidence,
    KnownDraws,
    MakeEvidence,
    draws_needed,
    evidence_for,
)
from treeleak.partition import Geometry, reachable_leaves
from treeleak.reconstruction import Reconstruction, Space
from treeleak.reconstruction.point_values import PointValues, point_values
from treeleak.reconstruction.posterior import Posterior
from treeleak.release import Release, to_release
from treeleak.release.check_schema import check_schema
from treeleak.release.draws.recompute import Draws
from treeleak.release.draws.seeds import known_draws
from treeleak.release.infer_schema import infer_schema, told_by_transformers
from treeleak.release.n_rows import RowCount, check_row_count, count_rows
from treeleak.release.pipeline.inputs import Inputs
from treeleak.release.stated_noise import check_counts_agree
from treeleak.release.statistics import DISTINCT
from treeleak.release.tree import NO_COLUMNS, Bootstrap
from treeleak.schema import Numeric, Ordinal, Schema
from treeleak.side_information.earlier_release import Releases, aligned
from treeleak.side_information.given import Given
from treeleak.side_information.known_tables import Filled, KnownTables
from treeleak.side_information.population import Population

__all__ = ["reconstruct"]


_SEARCH_SHARE = 0.3
"""Share of the time that the search for a forest's seed may take if nobody insists on it."""
_MANY, _VAGUE = 20_000, 20
"""More rows than this are not rebuilt if their number is uncertain by more than this factor."""
_AGREED = 1.5
"""Gelman and Rubin's R up to which chains are taken to agree."""
_RIGHT, _WRONG = 0.8, 0.5
"""Shares of midpoints met. With all rows right, 0.78 to 1 was seen; with 5 % of the values wrong,
0.7 to 0.87, with 20 %, 0.5 to 0.6; of other rows that meet the same counts, 0.2 to 0.4."""


def reconstruct(
    model: Any,
    schema: Schema | None = None,
    bootstrap: str = "auto",
    time_limit: float | Clock = 60,
    seed: int = 0,
    *,
    method: str = "auto",
    seed_search: int = 1_000_000,
    use_distinct: bool | Literal["both"] = True,
    trust_pickle: bool = False,
    progress: Callable[[Progress], None] | None = None,
    known_rows: pd.DataFrame | None = None,
    known_columns: pd.DataFrame | None = None,
    population: pd.DataFrame | Mapping[str, Any] | None = None,
    earlier: Any = None,
    n_rows: int | None = None,
    space: Space = "model",
) -> Reconstruction:
    """Rebuild the training set of a tree model from the model alone.

    Parameters
    ----------
    model : fitted estimator, path, StoredObject or Release
    schema : Schema, optional
        What a row can be. Without one, what the release itself says: columns whose only
        threshold is 0.5 are binary, and there are no groups but those of fitted encoders.
    bootstrap : {"auto", "none", "known", "hidden"}
        What to assume of the draws. "auto" believes the release: where its trees drew rows, the
        draws are recomputed from the seeds in the file, or from a forest seed found by search;
        where neither works, they are taken as hidden, which a note says.
    time_limit : float or Clock
        Seconds, or a clock that runs already. When they are over, the best rows so far are
        returned, with status "unknown" if they miss a count. Ctrl-C does the same.
    seed : int
        Same model, schema, limits and seed: same rows, unless time ran out. With hidden draws or
        noise: unless the time was too short for the whole walk, which ``numbers["chains"]`` and
        ``numbers["sweeps"]`` tell: 8 and 200 of the whole walk, with noise 12 and 9.
    method : str
        "auto" for treeleak's own attack; "reference-cp" for the published constraint program,
        "reference-milp" for the published integer program (exact counts only).
    seed_search : int
        Forest seeds to try, from 0, where the file's seeds were taken out; 0 for none.
    use_distinct : bool or "both"
        Where rows were drawn: use the numbers of distinct rows (``n_node_samples``) as well.
        "both", where the draws are hidden: the answer from the numbers of draws alone comes too, as
        :attr:`Reconstruction.without_distinct`; each has half of the time.
    trust_pickle : bool
        Also open pickle and joblib files, should ``model`` be a path.
    progress : callable, optional
        Receives :class:`~treeleak.core.clock.Progress`.
    known_rows : DataFrame, optional
        Rows of the training set that are known: the model's columns and one more, the label. If
        the index is named "row", it holds their positions in the training set, from 0. Known
        draws use only rows whose position is known, or follows from ``known_columns``; of others
        a note says how many stand in the answer.
    known_columns : DataFrame, optional
        One row for each row of the training set: some of the model's columns, and maybe one more,
        the label. The answer keeps them in this order. With known draws it must be that of the
        training set.
    population : DataFrame or mapping, optional
        The population that the rows come from, as a prior: other rows of it in the model's columns
        (and maybe one more, the label), or marginals, column -> {value: share}. The answer without
        it comes too, as :attr:`Reconstruction.without_population`; each has half of the time.
    earlier : fitted estimator, path, StoredObject or Release, optional
        A model that was trained before, on some of the rows. With known draws these must be the
        first ones.
    n_rows : int, optional
        Rows of the training set, where draws are hidden or counts carry noise. Without it, what the
        model says, or what its numbers of distinct rows, or noisy counts, make likely.
    space : {"model", "input"}
        In which columns the answer is written: those that enter the trees, or those that enter the
        pipeline that the model is the last step of, with its transformers undone. What is given
        (the schema, known rows and columns, the population) is in the model's columns either way.

    Returns
    -------
    Reconstruction

    Raises
    ------
    BadInput
        If the model, the file or the schema cannot be used.
    NotCovered
        If this kind of model cannot be reconstructed (yet), or a transformer not be undone; the
        message says why.
    TimeUp
        If the model is so large that there was no answer at all in time.
    """
    clock = Clock.of(time_limit, progress)
    if seed < 0:
        raise BadInput(f"seed must be 0 or more, not {seed}")
    if use_distinct not in (True, False, "both"):
        raise BadInput(f'use_distinct must be True, False or "both", not {use_distinct!r}')
    if space not in ("model", "input"):
        raise BadInput(f'space must be "model" or "input", not {space!r}')
    with clock.enforced():
        release = to_release(model, trust_pickle)
        check_counts_agree(release)
        if not release.n_features:
            raise NotCovered(NO_COLUMNS)
        inputs = None
        if space == "input":
            if release.inputs is None:
                raise NotCovered(
                    "the file holds no transformers: no columns are known but the model's"
                )
            release.inputs.check()
            inputs = release.inputs
        before = None if earlier is None else aligned(to_release(earlier, trust_pickle), release)
        with clock.until_interrupt():
            found, notes = _found(release, before, bootstrap, seed_search, clock)
            question = _Question(
                release, before, schema, "hidden" if found.hidden else bootstrap, found, method,
                int(seed), n_rows, known_rows, known_columns, population, notes,
            )  # fmt: skip
            answer = question.answer(use_distinct, clock)
        return answer if inputs is None else _in_input(answer, inputs)


def _in_input(answer: Reconstruction, inputs: Inputs) -> Reconstruction:
    """Write what an answer says of rows in the columns of the input."""
    likeliest, lower, upper = answer.most_likely, answer.lower, answer.upper
    if lower is not None and upper is not None:
        lower, upper = inputs.bounds(lower, upper)
    return replace(
        answer,
        space="input",
        X=None if answer.X is None else inputs.table(answer.X),
        lower=lower,
        upper=upper,
        confidence=None if answer.confidence is None else inputs.least(answer.confidence),
        known=None if answer.known is None else inputs.least(answer.known),
        most_likely=None if likeliest is None else (inputs.table(likeliest[0]), likeliest[1]),
        free_columns=inputs.holding(answer.free_columns),
        interval_columns=inputs.holding(answer.interval_columns),
        notes=(*answer.notes, *inputs.notes()),
        without_population=_other_in_input(answer.without_population, inputs),
        without_distinct=_other_in_input(answer.without_distinct, inputs),
    )


def _other_in_input(other: Reconstruction | None, inputs: Inputs) -> Reconstruction | None:
    return None if other is None else _in_input(other, inputs)


@dataclass(frozen=True)
class _Found:
    """Draws of the later and of the earlier release, or that what became of rows is hidden.

    ``hidden``: by draws that are not known, or by noise.
    """

    draws: Draws | None = None
    earlier: Draws | None = None
    hidden: bool = False


def _found(
    release: Release, before: Release | None, bootstrap: str, seed_search: int, clock: Clock
) -> tuple[_Found, tuple[str, ...]]:
    """Find the draws, if there are any, and say what is in doubt."""
    if release.noise is not None and not release.not_covered:
        if before is not None:
            raise NotCovered("an earlier release, where the counts carry noise")
        if bootstrap not in ("auto", "none"):
            raise NotCovered(f'bootstrap="{bootstrap}", where the counts carry noise')
        return _Found(hidden=True), ()
    if before is not None and before.noise is not None:
        raise NotCovered("an earlier release whose counts carry noise")
    needed = draws_needed(release, bootstrap)
    if release.not_covered or not (needed or bootstrap == "hidden"):
        return _Found(), ()
    if bootstrap == "hidden":
        return _Found(hidden=True), _unequal(release)
    # Where hidden draws are the way out, the search must leave time for them.
    part = clock.part(clock.left * (1.0 if bootstrap == "known" else _SEARCH_SHARE))
    try:
        draws = _draws(release, seed_search, part)
        found = _Found(draws, None if before is None else _draws(before, seed_search, part))
    except NotCovered as why:
        if bootstrap == "known" or clock.stopped:
            raise
        return _Found(hidden=True), (f"the draws are taken as hidden: {why}", *_unequal(release))
    if all(own is None or own.checked for own in (found.draws, found.earlier)):
        return found, ()
    return found, ("the model has no numbers of distinct rows that would confirm its draws",)


def _unequal(release: Release) -> tuple[str, ...]:
    """Say where hidden draws are not what the attack takes them to be."""
    sampling = release.sampling
    if not isinstance(sampling, Bootstrap):
        return ()
    if sampling.row_weights is None and not sampling.hidden:
        return ()
    told = sampling.hidden or "rows of more weight were drawn more often"
    return (f"every row is taken to be as likely to be drawn as any other, but: {told}",)


def _check_told(counted: RowCount) -> None:
    """Raise NotCovered without rows, or if many would be rebuilt, of which there may be but few."""
    low, high = counted.between
    if not counted.n:
        raise NotCovered("the release says that there were no training rows: nothing to rebuild")
    if counted.n > _MANY and high > _VAGUE * low:
        raise NotCovered(
            f"the release does not tell how many training rows there were ({counted}); give their "
            "number (n_rows, --n-rows)"
        )


@dataclass(frozen=True, eq=False)
class _Question:
    """What was asked, with the draws as far as they are known."""

    release: Release
    before: Release | None
    schema: Schema | None
    bootstrap: str
    found: _Found
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
        if use_distinct != "both" or not task.tells_distinct:
            return task.answer(clock)
        # What is compared is what the leaves tell, not what is known of N.
        same = replace(self, n_rows=None if task.counted is None else task.counted.n)
        without = same.task(False).answer(clock.part(clock.left / 2))
        return replace(task.answer(clock.part(clock.left)), without_distinct=without)

    def task(self, use_distinct: bool) -> _Task:
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
            _check_told(counted)
            self.check_row_count(counted, reachable)
        else:
            self.check_row_count(None, None)
        both = self._both(counted, use_distinct)
        notes: tuple[str, ...] = ("no schema given: rebuilt under what the model alone says",)
        if schema is None:
            schema = infer_schema(both.trees_of_both)
            notes = (*notes, *told_by_transformers(schema, both.trees_of_both))
        else:
            notes = tuple(check_schema(schema, both.trees_of_both))
        make = evidence_for(
            both.trees_of_both, self.bootstrap, both.all_draws, use_distinct, both.n_rows,
            None if counted is None else counted.between,
        )  # fmt: skip
        wider = both.whole.n_features > release.n_features
        if self.known_rows is not None and wider:
            raise NotCovered("known rows together with an earlier release, unless draws are known")
        if self.known_columns is not None and self.before is not None and self.found.hidden:
            # Which rows of the table are the earlier ones is not known.
            raise NotCovered(
                "known columns together with an earlier release whose draws are hidden"
            )
        known = KnownTables.of(
            both.whole, both.schema(schema), both.n_rows, self.known_rows,
            both.known_columns(self.known_columns), ordered=both.draws is not None,
        )  # fmt: skip
        prior = None
        if self.population is not None:
            if wider:
                raise NotCovered(
                    "a population together with an earlier release, unless draws are known"
                )
            prior = Population.of(self.population, schema, release)
        return _Task(
            both, self.found.draws, counted, known, schema, make, self.method, self.seed, prior,
            (*notes, *self.notes),
        )  # fmt: skip

    def check_row_count(
        self, counted: RowCount | None, reachable: Sequence[BoolArray] | None
    ) -> None:
        """Hold every number of rows that was stated against what the trees count."""
        release, draws, given = self.release, self.found.draws, self.n_rows
        if self.method == "without-counts":
            return
        if release.n_rows is not None:
            told = f"the model says that it was trained on {release.n_rows} rows"
            check_row_count(release, release.n_rows, reachable, told)
        if given is not None:
            check_row_count(release, given, reachable)
            if draws is not None and draws.counts.shape[1] != given:
                raise BadInput(
                    f"n_rows is {given}, but the draws are of {draws.counts.shape[1]} rows"
                )
        elif counted is not None and self.known_columns is not None:
            told = f"the known columns have {len(self.known_columns)} rows"
            check_row_count(release, counted.n, reachable, told)

    def _both(self, counted: RowCount | None, use_distinct: bool) -> Releases:
        """Put both releases together."""
        release, before, found = self.release, self.before, self.found
        if counted is None:
            own, old = (None if d is None else d.counts for d in (found.draws, found.earlier))
            return Releases(release, before, own, old)
        first = counted.n if before is None else count_rows(before, None, use_distinct).n
        if first > counted.n:
            raise BadInput(
                f"the earlier release was trained on {first} rows, the later one on {counted.n}: a "
                "growing dataset does not lose any"
            )
        return Releases(release, before, hidden=(counted.n, first))


@dataclass(frozen=True, eq=False)
class _Task:
    """Everything that an attack needs but its time and the population."""

    both: Releases
    draws: Draws | None
    counted: RowCount | None
    known: KnownTables
    schema: Schema
    make: MakeEvidence
    method: str
    seed: int
    population: Population | None
    notes: tuple[str, ...]

    @property
    def tells_distinct(self) -> bool:
        """Whether draws are hidden and distinct rows counted."""
        return self.counted is not None and all(
            tree.distinct is not None for tree in self.both.trees_of_both.trees
        )

    def answer(self, clock: Clock) -> Reconstruction:
        """Attack, and where there is a population, first without it in half of the time."""
        if self.population is None:
            return self.done(clock, None)
        without = self.done(clock.part(clock.left / 2), None)
        if without.status in ("unique", "infeasible"):
            note = "a population cannot change what the counts alone prove"
            return replace(without, without_population=without, notes=(*without.notes, note))
        with_ = self.done(clock.part(clock.left), self.population)
        return replace(with_, without_population=without)

    def done(self, clock: Clock, population: Population | None) -> Reconstruction:
        """Attack, and write the answer."""
        both, known, begin = self.both, self.known, clock.seconds
        hidden = both.hidden is not None
        left, clash = both.whole, None
        if not hidden:
            left, clash = known.taken_out(both.whole, both.all_draws)
        # The published programs fix values row by row, as chains do; the others know counts only.
        geometry = known.geometry(left, counted=self.method == "auto" and not hidden)
        evidence = self.make(geometry)
        counted = len(known.others)
        if isinstance(evidence, KnownDraws):
            evidence = replace(evidence, draws=evidence.draws[:, known.others])
            counted = int(evidence.drawn.sum())
        given = Given(known.parts(geometry, rows=hidden), population)
        # Loaded once for all, which is not held against the time.
        before = clock.seconds
        attack = attack_for(evidence, self.method)
        clock.forgive(clock.seconds - before)
        if clash is None and (counted or hidden):
            answer = attack(evidence, geometry, clock, self.seed, given)
        else:
            whole = not len(known.others)
            answer = nothing_open(geometry, clash or evidence.contradiction(), whole=whole)
        written = _written(
            answer, geometry, both, known, self.schema, evidence, self.draws, clock, self.seed,
            self.notes,
        )  # fmt: skip
        return replace(written, seconds=clock.seconds - begin, row_count=self.counted)


def _draws(release: Release, seed_search: int, clock: Clock) -> Draws:
    def tick(done: float) -> None:
        clock.tell("searching for the seed", done)
        clock.check()

    try:
        return known_draws(release, seed_search=seed_search, tick=tick)
    except OutOfTime:
        raise NotCovered(
            "the search for the draws was stopped before it found them; give it more time, or "
            "fewer seeds"
        ) from None


def _written(
    answer: Answer,
    geometry: Geometry,
    both: Releases,
    known: KnownTables,
    schema: Schema,
    evidence: Evidence,
    draws: Draws | None,
    clock: Clock,
    seed: int,
    notes: tuple[str, ...],
) -> Reconstruction:
    """Write an answer in the model's columns, after an independent check of every count."""
    release = both.later
    names = list(release.feature_names)
    tested = both.trees_of_both.thresholds
    free = tuple(name for name, cuts in zip(names, tested, strict=True) if not len(cuts))
    parts = [p for p in answer.values.parts if any(atom.interval for atom in p.atoms)]
    intervals = sorted(int(c) for part in parts for c in part.columns)
    X = y = lower = upper = confidence = label_confidence = proved = given = in_earlier = None
    midpoints_met = None
    misfit, posterior, likeliest = 0.0, None, None
    hidden = both.hidden is not None
    if answer.rows:
        distinct = any(s.quantity == DISTINCT for s in evidence.statements())
        whole = known.filled(_in_columns(answer), ordered=answer.ordered, rows=hidden)
        misfit = both.misfit(whole.table, whole.label, distinct)
        if answer.status in ("unique", "feasible") and misfit:
            raise RuntimeError(
                f"a reconstruction called {answer.status!r} misses counts by {misfit:g}: this is a "
                "bug in treeleak, please report it"
            )
        chosen, low, high = _chosen(whole.table, geometry, both, known)
        if both.misfit(chosen.table, whole.label, distinct) != misfit:
            raise RuntimeError(
                "a value chosen between thresholds changes a count: this is a bug in treeleak, "
                "please report it"
            )
        whole, midpoints_met = replace(whole, table=chosen.table), chosen.midpoints_met
        own = slice(len(names))
        X, lower, upper = (
            pd.DataFrame(_tidy(table[:, own]), columns=names) for table in (chosen.table, low, high)
        )
        classes = release.classes
        y = pd.Series([classes[c] for c in whole.label] if classes else whole.label, name="label")
        confidence = pd.DataFrame(whole.sure[:, own], columns=names)
        label_confidence = pd.Series(whole.label_sure, name="label")
        proved = pd.Series(whole.proved, name="proved")
        if known.known.any():
            given = pd.DataFrame(known.known[:, own], columns=names)
        if (old := both.in_earlier(whole.table)) is not None:
            in_earlier = pd.Series(old, name="in_earlier")
        notes = (*notes, *known.remarks(whole), *_of_midpoints(midpoints_met))
    if answer.samples is not None and answer.likeliest is not None:
        samples = answer.samples

        def write(rows: FloatArray, label: IntArray) -> tuple[FloatArray, IntArray]:
            found = known.filled(_unsure(rows, label), ordered=True, rows=True)
            return _tidy(found.table), found.label

        members = np.column_stack([known.rows[:, : len(names)], known.row_labels])[known.placed]
        posterior = Posterior(samples, geometry, release, write, seed, members)
        likeliest = posterior.written(samples.most_probable(answer.likeliest))
        if samples.disagreement > _AGREED:
            # Behind noise, only walks that time cut short grow longer with more of it.
            noisy = release.noise is not None
            told = (
                "confidences are too sure, more time may help"
                if noisy
                else "more time would make confidences better"
            )
            yet = "" if noisy else " yet"
            notes = (
                *notes, f"the chains do not agree{yet} (R = {samples.disagreement:.2f}): {told}"
            )  # fmt: skip
    clash = answer.contradiction
    return Reconstruction(
        status=answer.status,
        X=X,
        y=y,
        lower=lower,
        upper=upper,
        midpoints_met=midpoints_met,
        confidence=confidence,
        label_confidence=label_confidence,
        proved=proved,
        ordered=answer.ordered and draws is not None,
        draws=draws,
        misfit=misfit,
        contradiction=None if clash is None else known.located(clash) or both.located(clash),
        evidence=evidence.described,
        free_columns=free,
        interval_columns=tuple(names[c] for c in intervals),
        schema=schema,
        seed=seed,
        seconds=clock.seconds,
        interrupted=clock.interrupted,
        trace=tuple(clock.trace),
        numbers=answer.numbers,
        cells=answer.cells,
        notes=(*release.notes, *notes),
        known=given,
        in_earlier=in_earlier,
        posterior=posterior,
        most_likely=likeliest,
        expected_distance=answer.expected_distance,
    )


def _chosen(
    table: FloatArray, geometry: Geometry, both: Releases, known: KnownTables
) -> tuple[PointValues, FloatArray, FloatArray]:
    """Choose values inside the intervals of rows; and the ends of these."""
    low, high = table.copy(), table.copy()
    numbers, whole = np.zeros((2, table.shape[1]), dtype=bool)
    for part in geometry.parts:
        if isinstance(part.attribute, (Numeric, Ordinal)):
            column = part.columns[0]
            low[:, column], high[:, column] = part.ends(table[:, column], geometry.release)
            numbers[column], whole[column] = True, isinstance(part.attribute, Ordinal)
    low[known.known], high[known.known] = table[known.known], table[known.known]
    chosen = point_values(
        both.whole, table, low, high, numbers, whole=whole, draws=both.all_draws,
        told_apart=both.hidden is None,
    )  # fmt: skip
    return chosen, low, high


def _of_midpoints(met: float | None) -> tuple[str, ...]:
    """Say how right the rows are, as far as thresholds tell."""
    if met is None:
        return ()
    if met >= _RIGHT:
        sign = "so nearly all rows are like those of the training set"
    elif met >= _WRONG:
        sign = "so many of the rows are like those of the training set, but not all"
    else:
        sign = "so few of the rows are like those of the training set, whatever counts they meet"
    return (
        f"every test of a number splits midway between two values of the training set; of these "
        f"rows, {met:.0%} do: {sign}",
    )


def _unsure(table: FloatArray, label: IntArray) -> Filled:
    """Rows as they are, of which nothing is proved."""
    none = np.zeros(len(table))
    return Filled(table, label, np.zeros(table.shape), none, none.astype(bool))


def _in_columns(answer: Answer) -> Filled:
    """The rows of an answer in the columns that were attacked."""
    values = np.concatenate([r.values for r in answer.rows])
    sure = np.concatenate([r.confidence for r in answer.rows])
    proved = np.concatenate([r.proved for r in answer.rows])
    width = sum(len(p.columns) for p in answer.values.parts)
    table = answer.values.rows(values[:, :-1], width)
    label = values[:, -1] - answer.values.start[-2]
    order = np.arange(len(table))
    if not answer.ordered:
        order = np.lexsort((*table.T[::-1], label))
    by_column = np.empty(table.shape)
    for a, part in enumerate(answer.values.parts):
        by_column[:, part.columns] = sure[:, a, None]
    return Filled(table[order], label[order], by_column[order], sure[order, -1], proved[order])


def _tidy(table: FloatArray) -> NDArray[Any]:
    """Whole numbers as integers, so that a binary column reads 0 and 1."""
    # From 2^53 on, floats skip whole numbers.
    whole = bool(((np.abs(table) < 2.0**53) & (table == np.round(table))).all())
    return table.astype(np.int64) if whole else table
