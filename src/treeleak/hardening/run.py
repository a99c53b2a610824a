"""Harden a model's file step by step, and attack what each step leaves."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from treeleak.auditing import Audit, audit
from treeleak.auditing.inventory.other_models import other_models
from treeleak.auditing.prepare import fitted_part
from treeleak.core.arrays import Labels, Place, Rows
from treeleak.core.clock import Clock, Progress
from treeleak.core.errors import BadInput, BadModel, Mismatch, NotCovered, TimeUp
from treeleak.core.output import write_file
from treeleak.core.signals import private_folder
from treeleak.core.text import listed
from treeleak.hardening.answers import (
    Answers,
    averages,
    chooses_columns,
    comparable,
    compare,
    n_columns_of,
    random_rows,
)
from treeleak.hardening.files.document import Step
from treeleak.hardening.formats import Content, format_of
from treeleak.hardening.result import AS_IT_WAS, Hardened, Leak, State
from treeleak.hardening.steps import parse_steps
from treeleak.release import Release, StoredObject, read_model, to_release
from treeleak.release.adapters.sklearn.attributes import main_model
from treeleak.release.adapters.sklearn.containers import CONTAINERS
from treeleak.release.pipeline.through import TRANSFORM
from treeleak.release.readers.release_file import release_to_dict
from treeleak.release.registry import no_model
from treeleak.release.sampling import Joined
from treeleak.schema import Schema
from treeleak.verification.columns import in_model_columns

_RANDOM_ROWS = 2000
_EXACT = 1e-9
"""Difference of probabilities that sums in another order may make."""
_LEAST = 1.0
"""Seconds that the file to be written is attacked for in any case."""


def harden(
    model: Place,
    out: Place,
    steps: str | Sequence[str] | None = None,
    X: Rows | None = None,
    y: Labels | None = None,
    *,
    rows: Rows | None = None,
    tolerance: float = 0.0,
    force: bool = False,
    schema: Schema | Place | None = None,
    time_limit: float | Clock = 60,
    seed: int = 0,
    seed_search: int = 1_000_000,
    n_rows: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Hardened:
    """Remove from a model's file what predictions do not need, and attack the rest.

    treeleak changes the file as data, and runs nothing of it. After each step it writes the file,
    reads it again and audits it, with the search for seeds.

    Parameters
    ----------
    model : path
        A skops archive, XGBoost's JSON or UBJSON, LightGBM's text, CatBoost's JSON or cbm.
    out : path
        Where to write the hardened one.
    steps : str or sequence of str, optional
        Steps in their order. By default, all steps for the file's format that change no prediction.
        For skops archives these are :data:`STEPS`; ``round=N``, ``merge=N`` and ``majority`` change
        predictions.
    X : DataFrame or array, optional
        The training rows, as for :func:`treeleak.audit`. They measure the leak.
    y : sequence, optional
        Their labels.
    rows : DataFrame or array, optional
        Rows for comparing predictions. By default the training rows, and without these random rows.
    tolerance : float
        Share of these rows whose label may change.
    force : bool
        Overwrite ``out``.
    schema : Schema or path, optional
        What a row can be.
    time_limit : float or Clock
        Seconds for all attacks together. Each state of the file gets an equal share of the rest. A
        state without time is listed as not assessed, but never the last one, which is written. Time
        does not change the file.
    seed : int
    seed_search : int
        Forest seeds to try.
    n_rows : int, optional
        Number of training rows. An adversary may know it, so attacks get it: this number, or that
        of the original file or of the training rows.
    progress : callable, optional
        Receives :class:`~treeleak.core.clock.Progress`.

    Raises
    ------
    Mismatch
        If ``X`` are not the rows that the model counted.
    BadInput
        If the file has another format, a step is not known, or too many labels change. Then nothing
        is written.
    NotCovered
        If treeleak cannot compare predictions of such a model.
    """
    if not isinstance(model, (str, os.PathLike)):
        raise BadInput(
            f"a {type(model).__name__} is not a file: harden changes a saved model. Save it first: "
            "skops.io.dump(model, 'model.skops'); treeleak.harden('model.skops', …)"
        )
    clock = Clock.of(time_limit)
    source, target, schema = Path(model), Path(out), Schema.from_argument(schema)
    kind = format_of(source)
    known = {step.name: step for step in kind.steps}
    chosen = parse_steps(list(known) if steps is None else steps, known)
    if not 0 <= tolerance <= 1:
        raise BadInput(f"tolerance must be from 0 to 1, not {tolerance}")
    _check_target(source, target, force)
    contents: list[Content] = [kind.read(source)]
    before = _stored(source)
    n_columns = n_columns_of(before)
    release = _release(before, source)
    if (lossy := [s.name for s in chosen if not s.lossless]) and not averages(before):
        raise NotCovered(
            f"{source}: step {lossy[0]} changes the values of leaves. treeleak can bound "
            "the effect on predictions only for single trees, forests and baggings"
        )
    held_back = None
    if release is not None:
        # Once the seed is gone, no state tells which rows early stopping kept from the trees.
        X, y, held_back = fitted_part(release, X, y)
    if n_rows is None:
        n_rows = len(X) if X is not None else None if release is None else release.n_rows
    for chosen_step in chosen:
        contents.append(chosen_step.apply(contents[-1]))
    attack = partial(
        audit, X=X, y=y, schema=schema, seed=seed, seed_search=seed_search, n_rows=n_rows
    )
    content = contents[-1].to_bytes()
    with private_folder() as folder:
        # What is attacked must be what is written, and not what is in memory.
        written = folder / "hardened"
        written.write_bytes(content)
        _check_parts(source, written, chosen[-1] if chosen else None)
        answers = _compared(before, _stored(written), release, rows, X, seed, n_columns)
        if 1 - answers.same_labels > tolerance:
            raise BadInput(
                f"{source}: with these steps {answers.changed_labels:,} of {answers.rows:,} "
                f"rows ({answers.of}) get another label, more than allowed (--tolerance "
                f"{tolerance:g}): nothing was written"
            )
        if not lossy and answers.largest_change > _EXACT:
            raise RuntimeError("a step that keeps predictions changed one: this is a bug")
        states, found = _attacked(source, contents, chosen, folder, attack, clock, progress)
    if any(step.name == "unknown" for step in chosen):
        _check_known(source, found)
    write_file(target, content, overwrite=force)
    source_of = replace(found.provenance, file=os.fspath(target))
    notes = found.notes if held_back is None else (*found.notes, held_back)
    return Hardened(
        file=os.fspath(source),
        out=os.fspath(target),
        sha256=hashlib.sha256(content).hexdigest(),
        states=states,
        answers=answers,
        audit=replace(found, provenance=source_of, notes=tuple(dict.fromkeys(notes))),
        still_there=tuple(e for e in found.inventory if e.mark == "leaks"),
    )


def _check_parts(source: Path, place: Path, step: Step | None) -> None:
    """Refuse a file whose predictions may need what hardening removes.

    A step that chooses columns computes its choice from the counts of a fitted model. Models of a
    vote, a stack or a chain only predict, and :func:`~treeleak.hardening.answers.compare` looks at
    all of their trees.
    """
    stored, release = _read_again(source, place, step)
    if chooses_columns(stored):
        raise BadInput(
            f"{source}: holds a SelectFromModel, which chooses columns by what hardening removes "
            "from the model in it. Keep the chosen columns only, train the last step on them, and "
            "harden that; nothing was written"
        )
    if release is None or not (others := other_models(stored, release)):
        return
    answering = main_model(stored)
    inside = other_models(answering, release) if answering.name in CONTAINERS else ()
    if len(inside) < len(others) or not comparable(answering, inside):
        places = listed([f"{other.place} ({other.name})" for other in others], 3)
        raise BadInput(
            f"{source}: holds fitted models beside the one that answers: {places}. Their "
            "predictions cannot be compared before and after. Remove them, or save each in a file "
            "of its own (skops.io.dump) and harden that; nothing was written"
        )


def _attacked(
    source: Path,
    contents: Sequence[Content],
    steps: Sequence[Step],
    folder: Path,
    attack: Callable[..., Audit],
    clock: Clock,
    progress: Callable[[Progress], None] | None,
) -> tuple[tuple[State, ...], Audit]:
    """Attack the original and what each step leaves, where an attack meets something new."""
    states: list[State] = []
    found: Audit | None = None
    leak: Leak | None = None
    seen: Any = None
    read: Content | None = None
    n_states = sum(a is not b for a, b in pairwise((None, *contents)))
    to_come = n_states
    for k, (content, step) in enumerate(zip(contents, (None, *steps), strict=True)):
        if content is read and leak is not None:
            states.append(State.after(step, False, False, leak))
            continue
        place = folder / str(k)
        place.write_bytes(content.to_bytes())
        start = clock.seconds
        _, now = _read_again(source, place, step)
        to_read = clock.seconds - start
        # Trees of several row sets have no place in a release file: each state is attacked.
        several = now is not None and isinstance(now.sampling, Joined)
        document = None if now is None or several else release_to_dict(now)
        # The last state is audited in any case: the inventory tells what is left.
        last = all(later is content for later in contents[k:])
        new = leak is None or last or document is None or document != seen
        looked = False
        if leak is None or new:
            if last:
                # Reading it once more comes before its attack.
                clock.exclude_time(max(0.0, _LEAST + 2 * to_read - clock.limit + clock.seconds))
            report_progress = _counted(progress, step, k, len(steps))
            # What the original file was not trained on is refused, before its attack if it can be.
            held = partial(attack, on_mismatch="report" if k else "raise")
            leak_found = _in_time(held, source, place, clock, to_come, n_states, report_progress)
            if leak_found is not None:
                if leak_found.reconstruction is not None and leak_found.reconstruction.interrupted:
                    raise KeyboardInterrupt
                found, looked = leak_found, True
            leak = (
                Leak.of(leak_found)
                if leak_found is not None
                else Leak.unseen(str(clock.timeout_message))
            )
        to_come -= 1
        seen, read = document, content
        states.append(State.after(step, k > 0, looked, leak))
    if found is None:
        raise TimeUp(clock.timeout_message)
    return tuple(states), found


def _in_time(
    attack: Callable[..., Audit],
    source: Path,
    place: Path,
    clock: Clock,
    to_come: int,
    n_states: int,
    progress: Callable[[Progress], None] | None,
) -> Audit | None:
    """Attack a state in its share of the time; None if that is too short.

    The share of the last state is kept for it, however long those before took.
    """
    last = to_come == 1
    if not last and clock.left <= clock.limit / n_states:
        return None
    try:
        return attack(place, time_limit=clock.part(clock.left / to_come), progress=progress)
    except Mismatch as error:
        raise Mismatch(f"{source}: these are not its training rows: {error}") from error
    except TimeUp:
        if last:
            raise
        return None


def _read_again(
    source: Path, place: Path, step: Step | None
) -> tuple[StoredObject, Release | None]:
    try:
        stored = _stored(place)
        return stored, _release(stored, source)
    except BadModel as error:
        raise BadInput(
            f"{source}: after step {'' if step is None else step.name} leaves contradict "
            "the rest of the file, which would disclose their old values: take counts and "
            "inner first"
        ) from error


def _check_known(source: Path, found: Audit) -> None:
    left = [entry for entry in found.inventory if entry.unknown]
    if left:
        names = ", ".join(left[0].names[:3])
        raise BadInput(
            f"{source}: {left[0].where} ({names}) is known to no rule, and predictions may "
            "need it: remove it from the model yourself, or leave out the step unknown; "
            "nothing was written"
        )


def _counted(
    progress: Callable[[Progress], None] | None, step: Step | None, k: int, n: int
) -> Callable[[Progress], None] | None:
    if progress is None:
        return None
    where = AS_IT_WAS if step is None else f"after {step.name}, {k} of {n}"

    def report(now: Progress) -> None:
        progress(replace(now, stage=f"{where}: {now.stage}"))

    return report


def _check_target(source: Path, target: Path, force: bool) -> None:
    if not target.parent.is_dir():
        raise BadInput(f"{target}: there is no folder {target.parent}")
    if target.exists():
        if source.exists() and target.samefile(source):
            raise BadInput(f"{target}: is the model itself; give another name")
        if not force:
            raise BadInput(f"{target}: exists already; --force overwrites it")


def _stored(path: Path) -> StoredObject:
    stored = read_model(path)
    if isinstance(stored, StoredObject) and stored.type.startswith("builtins."):
        raise BadInput(f"{path}: {no_model(stored.get('value'))}")
    if not isinstance(stored, StoredObject):
        raise BadInput(f"{path}: not a model of a library")
    return stored


def _release(stored: StoredObject, path: Path) -> Release | None:
    try:
        return to_release(stored)
    except NotCovered:
        return None
    except BadModel as error:
        raise BadModel(f"{path}: {error}") from error


def _compared(
    before: StoredObject,
    after: StoredObject,
    release: Release | None,
    rows: Any,
    X: Any,
    seed: int,
    n_columns: int,
) -> Answers:
    table = rows if rows is not None else X
    # Behind steps of their own, trees of other models read columns that no table is given in.
    if table is None or (release is not None and n_columns > release.n_features):
        drawn = random_rows(before, n_columns, _RANDOM_ROWS, seed)
        return compare(before, after, drawn, "drawn at random around the thresholds")
    what = "given rows" if rows is not None else "training rows"
    if release is None:
        names = [f"x{i}" for i in range(n_columns)]
        input_names = before.get("feature_names_in_")
        if (
            isinstance(table, pd.DataFrame)
            and input_names is not None
            and len(input_names) == len(names)
        ):
            table = table[[str(c) for c in input_names]]
        try:
            values = np.asarray(table, dtype=float)
        except ValueError as error:
            # What the error says may quote a value.
            raise BadInput(
                f"{what}: not all values are numbers. Give them in the {n_columns} columns that "
                f"enter the trees. In Python: {TRANSFORM}"
            ) from error
        if values.ndim != 2 or values.shape[1] != len(names):
            raise BadInput(f"{what}: the model's trees read {len(names)} columns")
    else:
        values = in_model_columns(release, table, what=what)[0].to_numpy()
    return compare(before, after, values, what)
