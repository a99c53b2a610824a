"""The main road: a model in, a reconstruction out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.attacks import Answer, attack_for
from treeleak.clock import Clock, OutOfTime, Progress
from treeleak.errors import BadInput, NotCovered
from treeleak.evidence import KnownDraws, draws_needed, evidence_for
from treeleak.given import NOTHING
from treeleak.infer import check_schema, infer_schema
from treeleak.partition import Geometry
from treeleak.reconstruction import Reconstruction
from treeleak.release import Release, to_release
from treeleak.release.draws import Draws, known_draws
from treeleak.schema import Schema
from treeleak.verify import check_rows

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
    notes: tuple[str, ...] = ("no schema given: taken from the model alone",)
    doubts: tuple[str, ...] = ()
    draws: Draws | None = None
    with clock.until_interrupt():
        if draws_needed(release, bootstrap) and not release.not_covered:
            draws = _draws(release, seed_search, clock)
            if not draws.checked:
                doubts = ("the model has no numbers of distinct rows that would confirm its draws",)
        counts = None if draws is None else draws.counts
        make = evidence_for(release, bootstrap, counts, use_distinct)
        if schema is None:
            schema = infer_schema(release)
        else:
            notes = tuple(check_schema(schema, release))
        geometry = Geometry.of(release, schema)
        evidence = make(geometry)
        answer = attack_for(evidence, method)(evidence, geometry, clock, int(seed), NOTHING)
    return _written(answer, release, schema, evidence, draws, clock, int(seed), (*notes, *doubts))


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
    release: Release,
    schema: Schema,
    evidence: Any,
    draws: Draws | None,
    clock: Clock,
    seed: int,
    notes: tuple[str, ...],
) -> Reconstruction:
    """Write an answer in the model's columns, after an independent check of every count."""
    free = tuple(
        name for name, cuts in zip(release.feature_names, release.thresholds, strict=True)
        if not len(cuts)
    )  # fmt: skip
    parts = [p for p in answer.values.parts if any(atom.interval for atom in p.atoms)]
    intervals = sorted(int(c) for part in parts for c in part.columns)
    X = y = confidence = label_confidence = proved = None
    misfit = 0.0
    if rows := answer.rows:
        values = np.concatenate([r.values for r in rows])
        sure = np.concatenate([r.confidence for r in rows])
        table = answer.values.rows(values[:, :-1], release.n_features)
        label = values[:, -1] - answer.values.start[-2]
        order = np.arange(len(table))
        if not answer.ordered:
            order = np.lexsort((*table.T[::-1], label))
        table, label, sure = table[order], label[order], sure[order]
        drawn = isinstance(evidence, KnownDraws)
        draw = (evidence.draws, evidence.d is not None) if drawn else ()
        misfit = check_rows(release, table, label, *draw).misfit
        if answer.status in ("unique", "feasible") and misfit:
            raise RuntimeError(
                f"a reconstruction called {answer.status!r} misses counts by {misfit:g}: this is a "
                "bug in treeleak, please report it"
            )
        names = list(release.feature_names)
        X = pd.DataFrame(_tidy(table), columns=names)
        labels = [release.classes[c] for c in label] if release.classes else label
        y = pd.Series(labels, name="label")
        confidence = pd.DataFrame(_per_column(sure[:, :-1], answer), columns=names)
        label_confidence = pd.Series(sure[:, -1], name="label")
        proved = pd.Series(np.concatenate([r.proved for r in rows])[order], name="proved")
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
        contradiction=None if clash is None else str(clash),
        evidence=evidence.kind,
        free_columns=free,
        interval_columns=tuple(release.feature_names[c] for c in intervals),
        schema=schema,
        seed=seed,
        seconds=clock.seconds,
        interrupted=clock.interrupted,
        trace=tuple(clock.trace),
        numbers=answer.numbers,
        notes=(*release.notes, *notes),
    )


def _tidy(table: NDArray[np.float64]) -> NDArray[Any]:
    """Whole numbers as integers, so that a binary column reads 0 and 1."""
    whole = np.isfinite(table).all() and bool((table == np.round(table)).all())
    return table.astype(np.int64) if whole else table


def _per_column(sure: NDArray[np.float64], answer: Answer) -> NDArray[np.float64]:
    out = np.empty((len(sure), sum(len(p.columns) for p in answer.values.parts)))
    for a, part in enumerate(answer.values.parts):
        out[:, part.columns] = sure[:, a, None]
    return out
