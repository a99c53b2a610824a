"""The main road: a model in, a reconstruction out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.attacks import Answer, attack_for
from treeleak.attacks.answer import nothing_open
from treeleak.clock import Clock, OutOfTime, Progress
from treeleak.errors import BadInput, NotCovered
from treeleak.evidence import EvidenceType, HiddenDraws, KnownDraws, draws_needed, evidence_for
from treeleak.given import Given
from treeleak.growing import Releases, aligned
from treeleak.infer import check_schema, infer_schema
from treeleak.partial import Filled, KnownTables
from treeleak.partition import Geometry
from treeleak.population import Population
from treeleak.posterior import Posterior
from treeleak.reconstruction import Reconstruction
from treeleak.release import Release, to_release
from treeleak.release.draws import Draws, known_draws
from treeleak.release.n_rows import count_rows
from treeleak.schema import Schema

__all__ = ["reconstruct"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_AGREED = 1.5
"""Gelman and Rubin's R up to which chains are taken to agree."""


def reconstruct(
    model: Any,
    schema: Schema | None = None,
    bootstrap: str = "auto",
    time_limit: float = 60,
    seed: int = 0,
    *,
    method: str = "auto",
    seed_search: int = 1_000_000,
    use_distinct: bool = True,
    trust_pickle: bool = False,
    progress: Callable[[Progress], None] | None = None,
    known_rows: pd.DataFrame | None = None,
    known_columns: pd.DataFrame | None = None,
    population: pd.DataFrame | Mapping[str, Any] | None = None,
    earlier: Any = None,
    n_rows: int | None = None,
) -> Reconstruction:
    """Rebuild the training set of a tree model from the model alone.

    Parameters
    ----------
    model : fitted estimator, path, StoredObject or Release
    schema : Schema, optional
        What a row can be. Without one, what the release itself says: columns whose only
        threshold is 0.5 are binary, and no groups are assumed.
    bootstrap : {"auto", "none", "known", "hidden"}
        What to assume of the draws. "auto" believes the release: where its trees drew rows, the
        draws are recomputed from the seeds in the file, or from a forest seed found by search;
        where neither works, they are taken as hidden, which a note says.
    time_limit : float
        Seconds. When they are over, the best rows so far are returned, with status "unknown" if
        they miss a count. Ctrl-C does the same.
    seed : int
        Same model, schema, limits and seed: same rows, unless time ran out.
    method : str
        "auto" for treeleak's own attack; "reference-cp" for the published constraint program,
        "reference-milp" for the published integer program (exact counts only).
    seed_search : int
        Forest seeds to try, from 0, where the file's seeds were taken out; 0 for none.
    use_distinct : bool
        Where rows were drawn: use the numbers of distinct rows (``n_node_samples``) as well.
    trust_pickle : bool
        Also open pickle and joblib files, should ``model`` be a path.
    progress : callable, optional
        Receives :class:`~treeleak.clock.Progress`.
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
        Rows of the training set, where draws are hidden. Without it, what the model says, or what
        its numbers of distinct rows make likeliest.

    Returns
    -------
    Reconstruction

    Raises
    ------
    BadInput
        If the model, the file or the schema cannot be used.
    NotCovered
        If this kind of model cannot be reconstructed (yet); the message says why.
    """
    if not time_limit > 0:
        raise BadInput(f"time_limit must be positive, not {time_limit}")
    if seed < 0:
        raise BadInput(f"seed must be 0 or more, not {seed}")
    clock = Clock(float(time_limit), progress or (lambda _: None))
    release = to_release(model, trust_pickle)
    before = None if earlier is None else aligned(to_release(earlier, trust_pickle), release)
    notes: tuple[str, ...] = ("no schema given: taken from the model alone",)
    with clock.until_interrupt():
        both, draws, doubts = _releases(
            release, before, bootstrap, n_rows, use_distinct, seed_search, clock
        )
        if schema is None:
            schema = infer_schema(both.trees_of_both)
        else:
            notes = tuple(check_schema(schema, both.trees_of_both))
        hidden = both.hidden is not None
        make = evidence_for(
            both.trees_of_both, "hidden" if hidden else bootstrap, both.all_draws, use_distinct,
            both.n_rows,
        )  # fmt: skip
        if known_rows is not None and both.whole.n_features > release.n_features:
            raise NotCovered("known rows together with an earlier release, unless draws are known")
        known = KnownTables.of(
            both.whole, both.schema(schema), both.n_rows, known_rows,
            both.known_columns(known_columns), ordered=both.draws is not None,
        )  # fmt: skip
        prior = None
        if population is not None:
            if both.whole.n_features > release.n_features:
                raise NotCovered(
                    "a population together with an earlier release, unless draws are known"
                )
            prior = Population.of(population, schema, release)
        task = _Task(both, draws, known, schema, make, method, int(seed), (*notes, *doubts))
        if prior is None:
            return task.done(clock, None)
        without = task.done(clock.part(clock.left / 2), None)
        if without.status in ("unique", "infeasible"):
            note = "a population cannot change what the counts alone prove"
            return replace(without, without_population=without, notes=(*without.notes, note))
        return replace(task.done(clock.part(clock.left), prior), without_population=without)


def _releases(
    release: Release,
    before: Release | None,
    bootstrap: str,
    n_rows: int | None,
    use_distinct: bool,
    seed_search: int,
    clock: Clock,
) -> tuple[Releases, Draws | None, tuple[str, ...]]:
    """Put both releases together, with the draws where they can be had, and what is in doubt."""
    if release.not_covered or (bootstrap != "hidden" and not draws_needed(release, bootstrap)):
        return Releases(release, before), None, ()
    doubts: tuple[str, ...] = ()
    if bootstrap != "hidden":
        try:
            draws = _draws(release, seed_search, clock)
            earlier = None if before is None else _draws(before, seed_search, clock)
        except NotCovered as why:
            if bootstrap == "known" or clock.stopped:
                raise
            doubts = (f"the draws are taken as hidden: {why}",)
        else:
            if not all(d.checked for d in (draws, earlier) if d is not None):
                doubts = ("the model has no numbers of distinct rows that would confirm its draws",)
            counts = None if earlier is None else earlier.counts
            return Releases(release, before, draws.counts, counts), draws, doubts
    found = count_rows(release, n_rows, use_distinct)
    if n_rows is None:
        low, high = found.between
        wide = f" (95 %: {low:,} to {high:,})" if low < high else ""
        doubts += (f"{found.n:,} training rows{wide}: {found.origin}",)
    first = found.n if before is None else count_rows(before, None, use_distinct).n
    if first > found.n:
        raise BadInput(
            f"the earlier release was trained on {first} rows, the later one on {found.n}: a "
            "growing dataset does not lose any"
        )
    return Releases(release, before, hidden=(found.n, first)), None, doubts


@dataclass(frozen=True, eq=False)
class _Task:
    """Everything that an attack needs but its time and the population."""

    both: Releases
    draws: Draws | None
    known: KnownTables
    schema: Schema
    make: EvidenceType
    method: str
    seed: int
    notes: tuple[str, ...]

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
        attack = attack_for(evidence, self.method)
        if clash is None and (counted or hidden):
            answer = attack(evidence, geometry, clock, self.seed, given)
        else:
            whole = not len(known.others)
            answer = nothing_open(geometry, clash or evidence.contradiction(), whole=whole)
        written = _written(
            answer, geometry, both, known, self.schema, evidence, self.draws, clock, self.seed,
            self.notes,
        )  # fmt: skip
        return replace(written, seconds=clock.seconds - begin)


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
    evidence: Any,
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
    X = y = confidence = label_confidence = proved = given = in_earlier = None
    misfit, posterior, likeliest = 0.0, None, None
    hidden = both.hidden is not None
    if answer.rows:
        whole = known.filled(_in_columns(answer), ordered=answer.ordered, rows=hidden)
        misfit = both.misfit(whole.table, whole.label, getattr(evidence, "d", None) is not None)
        if answer.status in ("unique", "feasible") and misfit:
            raise RuntimeError(
                f"a reconstruction called {answer.status!r} misses counts by {misfit:g}: this is a "
                "bug in treeleak, please report it"
            )
        own = slice(len(names))
        X = pd.DataFrame(_tidy(whole.table[:, own]), columns=names)
        classes = release.classes
        y = pd.Series([classes[c] for c in whole.label] if classes else whole.label, name="label")
        confidence = pd.DataFrame(whole.sure[:, own], columns=names)
        label_confidence = pd.Series(whole.label_sure, name="label")
        proved = pd.Series(whole.proved, name="proved")
        if known.known.any():
            given = pd.DataFrame(known.known[:, own], columns=names)
        if (old := both.in_earlier(whole.table)) is not None:
            in_earlier = pd.Series(old, name="in_earlier")
        notes = (*notes, *known.remarks(whole))
    if answer.samples is not None and answer.likeliest is not None:
        samples = answer.samples

        def write(rows: FloatArray, label: IntArray) -> tuple[FloatArray, IntArray]:
            found = known.filled(_unsure(rows, label), ordered=True, rows=True)
            return _tidy(found.table), found.label

        posterior = Posterior(samples, geometry, release, write, seed)
        likeliest = posterior.written(samples.most_probable(answer.likeliest))
        if samples.disagreement > _AGREED:
            notes = (
                *notes,
                f"the chains do not agree yet (R = {samples.disagreement:.2f}): more time would "
                "make confidences better",
            )
    clash = answer.contradiction
    return Reconstruction(
        status=answer.status,
        X=X,
        y=y,
        confidence=confidence,
        label_confidence=label_confidence,
        proved=proved,
        ordered=answer.ordered and draws is not None,
        draws=draws,
        misfit=misfit,
        contradiction=None if clash is None else known.located(clash) or both.located(clash),
        evidence=_named(evidence),
        free_columns=free,
        interval_columns=tuple(names[c] for c in intervals),
        schema=schema,
        seed=seed,
        seconds=clock.seconds,
        interrupted=clock.interrupted,
        trace=tuple(clock.trace),
        numbers=answer.numbers,
        notes=(*release.notes, *notes),
        known=given,
        in_earlier=in_earlier,
        posterior=posterior,
        most_likely=likeliest,
    )


def _named(evidence: Any) -> str:
    """Name the evidence; of drawn rows, whether the distinct ones are counted too."""
    if not isinstance(evidence, HiddenDraws):
        return str(evidence.kind)
    return f"{evidence.kind}, " + ("drawn counts only" if evidence.d is None else "distinct counts")


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


def _tidy(table: NDArray[np.float64]) -> NDArray[Any]:
    """Whole numbers as integers, so that a binary column reads 0 and 1."""
    whole = np.isfinite(table).all() and bool((table == np.round(table)).all())
    return table.astype(np.int64) if whole else table
