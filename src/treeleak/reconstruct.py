"""The main road: a model in, a reconstruction out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.attacks import Answer, attack_for
from treeleak.attacks.answer import nothing_open
from treeleak.clock import Clock, OutOfTime, Progress
from treeleak.errors import BadInput, NotCovered
from treeleak.evidence import KnownDraws, draws_needed, evidence_for
from treeleak.given import NOTHING
from treeleak.growing import Releases, aligned
from treeleak.infer import check_schema, infer_schema
from treeleak.partial import Filled, KnownTables
from treeleak.reconstruction import Reconstruction
from treeleak.release import Release, to_release
from treeleak.release.draws import Draws, known_draws
from treeleak.schema import Schema

__all__ = ["reconstruct"]


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
    earlier: Any = None,
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
        draws are recomputed from the seeds in the file, or from a forest seed found by search.
    time_limit : float
        Seconds. When they are over, the best rows so far are returned, with status "unknown" if
        they miss a count. Ctrl-C does the same.
    seed : int
        Same model, schema, limits and seed: same rows, unless time ran out.
    method : str
        "auto" for treeleak's own attack; "reference-cp" for the published constraint program.
    seed_search : int
        Forest seeds to try, from 0, where the file's seeds were taken out; 0 for none.
    use_distinct : bool
        With known draws: use the numbers of distinct rows (``n_node_samples``) as well.
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
    earlier : fitted estimator, path, StoredObject or Release, optional
        A model that was trained before, on some of the rows. With known draws these must be the
        first ones.

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
    doubts: tuple[str, ...] = ()
    draws: Draws | None = None
    with clock.until_interrupt():
        if draws_needed(release, bootstrap) and not release.not_covered:
            draws = _draws(release, seed_search, clock)
            if not draws.checked:
                doubts = ("the model has no numbers of distinct rows that would confirm its draws",)
        both = Releases(
            release,
            before,
            None if draws is None else draws.counts,
            None if draws is None or before is None else _draws(before, seed_search, clock).counts,
        )
        make = evidence_for(both.trees_of_both, bootstrap, both.all_draws, use_distinct)
        if schema is None:
            schema = infer_schema(both.trees_of_both)
        else:
            notes = tuple(check_schema(schema, both.trees_of_both))
        if known_rows is not None and both.whole.n_features > release.n_features:
            raise NotCovered("known rows together with an earlier release, unless draws are known")
        known = KnownTables.of(
            both.whole, both.schema(schema), both.n_rows, known_rows,
            both.known_columns(known_columns), ordered=both.draws is not None,
        )  # fmt: skip
        left, clash = known.taken_out(both.whole, both.all_draws)
        # The published programs fix values row by row; the others know counts only.
        geometry = known.geometry(left, counted=method == "auto")
        evidence = make(geometry)
        counted = len(known.others)
        if isinstance(evidence, KnownDraws):
            evidence = replace(evidence, draws=evidence.draws[:, known.others])
            counted = int(evidence.drawn.sum())
        given = replace(NOTHING, parts=known.parts(geometry, rows=False))
        attack = attack_for(evidence, method)
        if clash is None and counted:
            answer = attack(evidence, geometry, clock, int(seed), given)
        else:
            whole = not len(known.others)
            answer = nothing_open(geometry, clash or evidence.contradiction(), whole=whole)
    return _written(
        answer, both, known, schema, evidence, draws, clock, int(seed), (*notes, *doubts)
    )


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
    misfit = 0.0
    if answer.rows:
        whole = known.filled(_in_columns(answer), ordered=answer.ordered, rows=False)
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
    clash = answer.contradiction
    return Reconstruction(
        status=answer.status,
        X=X,
        y=y,
        confidence=confidence,
        label_confidence=label_confidence,
        proved=proved,
        ordered=answer.ordered,
        draws=draws,
        misfit=misfit,
        contradiction=None if clash is None else known.located(clash) or both.located(clash),
        evidence=evidence.kind,
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
    )


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
