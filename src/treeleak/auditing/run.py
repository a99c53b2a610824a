"""The audit: inventory, counts, reconstruction, in this order, and what follows from them."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from treeleak.auditing.assessors.article29 import Article29, assess
from treeleak.auditing.assessors.budget import Budget, budget_of
from treeleak.auditing.assessors.control import THE_SAME, too_like
from treeleak.auditing.assessors.counts import THRESHOLD, Counts, count_leaves
from treeleak.auditing.assessors.exposure import Exposure, examine
from treeleak.auditing.assessors.given_parts import check_given
from treeleak.auditing.assessors.measurement import (
    Measurement,
    Variant,
    measure,
    singled_out,
    variants_of,
    with_shape,
)
from treeleak.auditing.assessors.noise_found import NoiseFound, find_noise
from treeleak.auditing.assessors.people import Training, check_names, groups_of, labels_of
from treeleak.auditing.assessors.shape import guesses_from_shape
from treeleak.auditing.assessors.uncertainty import Uncertainty, left_by_tree, uncounted
from treeleak.auditing.findings.advice import advise
from treeleak.auditing.findings.standing import standing_of
from treeleak.auditing.findings.verdict import find, overall
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.auditing.result import Audit, Provenance
from treeleak.auditing.rule_list_audit import audit_rules
from treeleak.core.clock import Clock, Progress
from treeleak.core.errors import BadInput, BadModel, Mismatch, NotCovered, TimeUp
from treeleak.evidence import evidence_for
from treeleak.reconstruction import Reconstruction
from treeleak.reconstruction.run import reconstruct
from treeleak.release import Release, RuleList, StoredObject, read_model, snapshot, to_release
from treeleak.schema import Schema
from treeleak.verification.training_rows import (
    N_ROWS_HINT,
    TrainingRows,
    in_model_columns,
    match_training,
)

__all__ = ["audit"]

FEW_TO_SINGLE_OUT = (
    "Singling out was not tried on the control rows: they are fewer than the training rows, and "
    "fewer rows are singled out more or less easily, whoever they are."
)
_ATTACK, _ATTACK_ON_NOISE = 0.8, 0.5
"""Shares of the time that the attack may take; the rest is for comparing, and behind noise also for
guesses from the shape of the trees."""
_GUESS = 0.25
"""Share of the time left that guesses plan with: twelve, a quarter of it each, take up to 3/4."""
NO_ROWS = "there are no rebuilt rows that could be compared with the training rows"


def audit(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    schema: Schema | None = None,
    time_limit: float | Clock = 60,
    seed: int = 0,
    bootstrap: str = "auto",
    seed_search: int = 1_000_000,
    trust_pickle: bool = False,
    progress: Callable[[Progress], None] | None = None,
    use_distinct: bool = True,
    known_rows: pd.DataFrame | None = None,
    known_columns: pd.DataFrame | None = None,
    population: pd.DataFrame | Mapping[str, Any] | None = None,
    earlier: Any = None,
    n_rows: int | None = None,
    control: Any = None,
    threshold: int = THRESHOLD,
    sensitive: Sequence[str] = (),
    groups: Sequence[str] = (),
) -> Audit:
    """Find out what a model gives away of its training rows.

    Parameters
    ----------
    model : fitted estimator, path, StoredObject, Release or RuleList
        Of an estimator that learnt a rule list (``rule_list_``), the list is audited.
    X : DataFrame or array, optional
        The training rows, in the columns that enter the trees, and, where the trees drew rows, in
        the order of training. They are used only to measure the reconstruction, after it is made,
        and only if the model counted these very rows.
    y : sequence, optional
        Their labels.
    schema : Schema, optional
        What a row can be; what the model itself says, unless given.
    time_limit : float or Clock
        Seconds for the whole audit, or a clock that runs already. The attack gets most of it. What
        did not fit is listed as not assessed.
    seed : int
    bootstrap : {"auto", "none", "known", "hidden"}
        What to assume of the draws.
    seed_search : int
        Forest seeds to try, from 0, where the file's seeds were taken out; 0 for none.
    trust_pickle : bool
        Also open pickle and joblib files, should ``model`` be a path.
    progress : callable, optional
        Receives :class:`~treeleak.core.clock.Progress`.
    use_distinct : bool
        Use the numbers of distinct rows as well. Where the draws are hidden, the audit then tells
        both with and without them.
    known_rows, known_columns, population, earlier, n_rows
        What somebody may know beside the model: as for :func:`treeleak.reconstruct`. With a
        population, the audit tells both with and without it.
    control : DataFrame or array, optional
        Rows of the same population that the model was not trained on, in the same columns, ten
        times as many as training rows or more. The audit then also tests whether the rebuilt rows
        are nearer to the training rows than to others like them.
    threshold : int
        A leaf with fewer rows counts as small.
    sensitive : sequence of str
        Columns, or attributes of the schema: how often does somebody guess them who knows all else
        of a person? Needs the training rows.
    groups : sequence of str
        Columns, or attributes of the schema, by whose values errors are told, as they are by class.
        They may be columns of ``X`` that the model lacks.

    Returns
    -------
    Audit
        Whatever cannot be assessed is listed there with the reason.

    Raises
    ------
    BadInput
        If the model, the file or the schema cannot be used.
    """
    started = time.perf_counter()
    clock = Clock.of(time_limit, progress)
    if X is None and y is not None:
        raise BadInput("labels without rows: give X with y")
    if X is None and (sensitive or groups):
        what = "sensitive columns" if sensitive else "groups"
        raise BadInput(f"{what} without training rows: give X with {what}")
    if X is None and control is not None:
        raise BadInput("control rows without training rows: give X with control")
    with clock.enforced():
        file, sha256, content = _opened(model, trust_pickle)

    def provenance(origin: str) -> Provenance:
        return Provenance(file, sha256, origin, int(seed), time.perf_counter() - started)

    if isinstance(content, RuleList):
        others_given = {
            "known_rows": known_rows, "known_columns": known_columns, "population": population,
            "earlier": earlier, "control": control, "n_rows": n_rows,
        }  # fmt: skip
        if unused := [name for name, given in others_given.items() if given is not None]:
            raise NotCovered(f"the audit of rules makes no use of {unused[0]}")
        try:
            asked = [p for p, c in (("exposure", groups), ("inference", sensitive)) if c]
            with clock.enforced():
                return audit_rules(content, X, y, schema, provenance, threshold, asked)
        except BadModel as error:
            raise (BadModel(f"{file}: {error}") if file else error) from error
    open_parts: list[tuple[str, str]] = []
    notes: list[str] = []
    with clock.enforced():
        release = _release(content, file, open_parts)
        noise: NoiseFound | None = None
        budget: Budget | None = None
        if release is not None:
            try:
                noise = find_noise(release, X, y)
            except BadModel as error:
                raise (BadModel(f"{file}: {error}") if file else error) from error
            budget = budget_of(release, noise.refuted, noise.scale)
            release = noise.release
        inventory = take_inventory(content, _context(content, release), X)
    counts: Counts | None = None
    rebuilt: Reconstruction | None = None
    truth: TrainingRows | None = None
    measured: Measurement | None = None
    variants: tuple[Variant, ...] = ()
    mismatch: str | None = None
    others: pd.DataFrame | None = None
    guesses: tuple[Reconstruction, ...] = ()
    uncertain: Uncertainty | None = None
    beside: dict[str, Any] = {
        "known_rows": known_rows,
        "known_columns": known_columns,
        "population": population,
    }
    alone = impossible = 0
    alike = False
    if release is not None:
        columns = {*release.feature_names, *release.one_hot}
        if schema is not None:
            columns |= {a.name for a in schema.attributes} | set(labels_of(schema))
        check_names(sensitive, columns, "sensitive")
        check_names(groups, columns | set(getattr(X, "columns", ())), "groups")
        notes += release.notes
        if control is not None:
            others, _, said = in_model_columns(release, control, what="control rows")
            if others.empty:
                raise BadInput("the control rows are none: the table is empty")
            notes += said
        try:
            with clock.enforced():
                counts = count_leaves(release, threshold)
        except NotCovered as error:
            open_parts.append(("counts", str(error)))
        share = _ATTACK if release.noise is None else _ATTACK_ON_NOISE
        try:
            rebuilt = reconstruct(
                release, schema, bootstrap, _left_of(clock, share), seed, seed_search=seed_search,
                use_distinct="both" if use_distinct else False, trust_pickle=trust_pickle,
                progress=progress, earlier=earlier, n_rows=n_rows, **beside,
            )  # fmt: skip
            notes += [n for n in rebuilt.notes if n not in notes]
            with clock.enforced():
                alone = singled_out(rebuilt, release)
        except TimeUp:
            open_parts.append(("reconstruction", clock.said))
        except NotCovered as error:
            open_parts.append(("reconstruction", str(error)))
        if X is not None:
            try:
                with clock.enforced():
                    truth = _matched(release, X, y, rebuilt, bootstrap)
                    if rebuilt is not None:
                        check_given(rebuilt, truth.X)
            except TimeUp as error:
                open_parts.append(("measurement", str(error)))
            except NotCovered:
                pass  # Said of the reconstruction already.
            except Mismatch as error:
                mismatch, truth = str(error), None
                open_parts.append(("measurement", mismatch))
            else:
                notes += truth.notes
    if others is not None and truth is not None and too_like(truth.X, others, seed):
        alike, others = True, None
    if release is not None and rebuilt is not None and truth is not None:
        if progress is not None:
            progress(Progress("comparing with the training rows and with yardsticks", 0.0))
        try:
            with clock.enforced():
                measured = measure(rebuilt, truth, release, seed, others, labels=y)
        except (BadInput, TimeUp) as error:
            open_parts.append(("measurement", str(error)))
        if measured is not None and _shape_decides(release, measured, clock.left):
            guesses = guesses_from_shape(
                release, rebuilt, len(truth.X), _left_of(clock, _GUESS), seed, progress, beside
            )
            with _stage(clock, "measurement", open_parts):
                measured = with_shape(measured, guesses, truth, rebuilt.schema, seed)
        notes += _of_sizes(rebuilt, truth, measured)
        impossible = _impossible(truth, rebuilt.schema)
        if impossible:
            notes.append(
                f"{impossible} of the training rows are not possible under the schema: nothing "
                "that is said to be proved under it holds."
            )
    if release is not None:
        # A variant has a shape of its own, made without what it lacks.
        own = () if measured is None or measured.pairs is None else measured.pairs.tried
        tried = tuple(t for t in own if t.name != "shape") or None
        with _stage(clock, "measurement", open_parts):
            variants = variants_of(
                rebuilt, truth, release, seed, others, guesses, labels=y, tried=tried
            )
        if len(release.trees) == 1:
            try:
                with clock.enforced():
                    uncertain = _left(release, schema, X if uncounted(release) else truth, y)
            except (BadInput, NotCovered) as error:
                open_parts.append(("uncertainty", str(error)))
                if isinstance(error, Mismatch):
                    mismatch = str(error)
    broken_off = {part for part, _ in open_parts} & {"reconstruction", "measurement"}
    if measured is not None and measured.significance is None:
        why = "no rows of the population were given (control, --control)"
        if alike:
            why = THE_SAME
        elif others is not None:
            why = "some values were given, and are nearer to the training rows than to any others"
        open_parts.append(("population", why))
    if X is not None and measured is None and "measurement" not in dict(open_parts):
        given = rebuilt is not None and rebuilt.X is not None and len(rebuilt.X) > 0
        open_parts.append(
            ("measurement", "all rows were given" if given else "no rows were rebuilt")
        )
    exposed: Exposure | None = None
    risks: Article29 | None = None
    if release is not None and rebuilt is not None:
        pairs = None if measured is None else measured.pairs
        with _stage(clock, "exposure", open_parts):
            training = None
            if truth is not None and rebuilt.X is not None:
                sorted_ = groups_of(truth.X, y, groups, X, release, rebuilt.schema)
                training = Training(truth.X, sorted_)
            exposed = examine(rebuilt, release, pairs, training, proofs_hold=not impossible)
        if truth is not None and exposed is not None:
            unknown = None if pairs is None else ~np.isnan(pairs.errors)
            try:
                with clock.enforced():
                    risks = assess(rebuilt, release, truth.X, sensitive, others, unknown, seed)
            except (BadInput, TimeUp) as error:
                open_parts.append(("inference", str(error)))
            else:
                single = risks.singling_out
                if others is not None and single is not None and single.control is None:
                    notes.append(FEW_TO_SINGLE_OUT)
    if (
        groups
        and (exposed is None or exposed.groups.empty)
        and not _is_said("exposure", open_parts)
    ):
        open_parts.append(("exposure", NO_ROWS))
    if sensitive and risks is None and not _is_said("inference", open_parts):
        open_parts.append(("inference", NO_ROWS))
    findings = find(
        inventory, counts, rebuilt, measured, alone, proofs_hold=not impossible,
        variants=variants, budget=budget, uncertainty=uncertain, unfinished=bool(broken_off),
    )  # fmt: skip
    verdict = overall(findings)
    return Audit(
        verdict=verdict,
        inventory=inventory,
        counts=counts,
        reconstruction=rebuilt,
        measurement=measured,
        findings=findings,
        advice=advise(inventory, counts, verdict, rebuilt, measured, variants, budget),
        not_assessed=tuple(open_parts),
        mismatch=mismatch,
        notes=tuple(notes),
        provenance=provenance(_origin(content, release)),
        variants=variants,
        budget=budget,
        uncertainty=uncertain,
        exposure=exposed,
        article29=risks,
        truth=truth,
        release=release,
        foreign=() if release is None else release.foreign,
    )


def _shape_decides(release: Release, measured: Measurement, left: float) -> bool:
    """Whether the verdict rests on what the attack would guess without any count.

    Where counts carry no noise, it can only show that a possible leak is none: not if time is up.
    """
    if release.noise is not None:
        return True
    standing = standing_of(measured)
    return left > 1 and standing.tells == "perhaps" and "values" in standing.ways


@contextmanager
def _stage(clock: Clock, part: str, open_parts: list[tuple[str, str]]) -> Iterator[None]:
    """Break a part off when the time is up, and list it as not assessed."""
    try:
        with clock.enforced():
            yield
    except (BadInput, TimeUp) as error:
        open_parts.append((part, str(error)))


def _left_of(clock: Clock, share: float = 1.0) -> float:
    """Seconds that a part may take: next to none where none are left, which it then says itself."""
    return max(share * clock.left, 1e-9)


def _is_said(part: str, open_parts: list[tuple[str, str]]) -> bool:
    return part in dict(open_parts)


def _matched(
    release: Release,
    X: Any,
    y: Any,
    rebuilt: Reconstruction | None,
    bootstrap: str,
) -> TrainingRows:
    """Hold the training rows against the model, if it is known how they reached the trees."""
    if rebuilt is not None and rebuilt.draws is not None:
        return match_training(release, X, y, rebuilt.draws.counts)
    if rebuilt is not None and rebuilt.draws_hidden:
        return match_training(release, X, y, hidden=rebuilt.row_count)
    if release.noise is None:
        evidence_for(release, bootstrap)
    return match_training(release, X, y)


def _left(
    release: Release, schema: Schema | None, truth: Any, y: Sequence[Any] | None
) -> Uncertainty:
    """Say what one tree leaves to know, with training rows that it counted or did not count."""
    if truth is None:
        return left_by_tree(release, schema)
    X = truth.X if isinstance(truth, TrainingRows) else in_model_columns(release, truth)[0]
    return left_by_tree(release, schema, X, y if release.classes else None)


def _of_sizes(
    rebuilt: Reconstruction, truth: TrainingRows, measured: Measurement | None
) -> list[str]:
    """Say where the numbers of rows that were compared do not fit."""
    said = []
    n, found = len(truth.X), rebuilt.n_rows
    if measured is not None and found != n:
        done = "left out" if found > n else "repeated"
        said.append(
            f"{found:,} rows were rebuilt, {n:,} are the training rows: to compare them, some rows "
            f"chosen at random were {done}. {N_ROWS_HINT}"
        )
    test = None if measured is None else measured.significance
    if test is not None and test.overlapping:
        said.append(
            f"{test.n_control:,} control rows are too few to test {n:,} training rows against: the "
            "verdict does not rest on them. Give twice as many or more, better ten times."
        )
    return said


def _impossible(truth: TrainingRows, schema: Schema) -> int:
    return int((~schema.valid(truth.X.to_numpy(), list(truth.X.columns))).sum())


def _opened(
    model: Any, trust_pickle: bool
) -> tuple[str | None, str | None, StoredObject | Release | RuleList]:
    if isinstance(model, (str, os.PathLike)):
        content = read_model(model, trust_pickle)
        with Path(model).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return os.fspath(model), digest, content
    rules = getattr(model, "rule_list_", model)
    if isinstance(rules, (StoredObject, Release, RuleList)):
        return None, None, rules
    return None, None, snapshot(model)


def _release(
    content: StoredObject | Release, file: str | None, open_parts: list[tuple[str, str]]
) -> Release | None:
    try:
        return to_release(content)
    except NotCovered as error:
        open_parts += [("counts", str(error)), ("reconstruction", str(error))]
        return None
    except BadModel as error:
        raise (BadModel(f"{file}: {error}") if file else error) from error


def _context(content: StoredObject | Release, release: Release | None) -> Context:
    if release is None:
        n = content.get("_n_samples") if isinstance(content, StoredObject) else None
        return Context(n if isinstance(n, int) else None, drawn=None, missing=None)
    drawn = release.sampling.kind != "all"
    noise = release.noise
    # Of leaves that name their largest class as it is, nothing was hidden by chance.
    noisy = noise is not None and getattr(noise, "rule", "") not in ("majority", "present")
    return Context(release.n_rows, drawn, bool(release.maybe_missing), noisy)


def _origin(content: StoredObject | Release, release: Release | None) -> str:
    if release is not None:
        return release.origin
    return content.type if isinstance(content, StoredObject) else content.origin
