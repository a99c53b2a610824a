"""The audit: inventory, counts, reconstruction, in this order, and what follows from them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, Literal, get_args

import pandas as pd

from treeleak.auditing import wording
from treeleak.auditing.assessors import (
    article29,
    budget,
    comparison,
    counts,
    exposure,
    isolation,
    membership,
    parts,
    shadow_models,
    structure,
    uncertainty,
)
from treeleak.auditing.assessors.counts import THRESHOLD
from treeleak.auditing.case import Assessor, AuditRequest, AuditResults, Case
from treeleak.auditing.findings.advice import advise
from treeleak.auditing.findings.verdict import find, overall
from treeleak.auditing.prepare import errors_name_file, open_model, prepare_case
from treeleak.auditing.record import Provenance, threat_model
from treeleak.auditing.result import Audit
from treeleak.core.arrays import Labels, Place, Rows
from treeleak.core.clock import GRACE, Clock, Progress
from treeleak.core.errors import BadInput, Mismatch, NotCovered, TimeUp
from treeleak.evidence import DrawnLossSums, LeafValueEvidence, LossSums
from treeleak.reconstruction import Reconstruction
from treeleak.reconstruction.problem import NO_ROWS
from treeleak.reconstruction.run import rebuild
from treeleak.release import Model, Release, RuleList, StoredObject
from treeleak.release.statistics import GRADIENT, HESSIAN, MEAN, STEP, VALUE, VARIANCE, WEIGHTS
from treeleak.schema import Schema

_ATTACK, _ATTACK_ON_NOISE = 0.8, 0.5
"""Shares of the time that the attack may take without training rows; the rest is for proofs, and
behind noise also for guesses from the shape of the trees."""
_COMPARING, _MOST_COMPARING = 24.0, 0.45
"""Seconds that comparing takes, however many rows there are, and the share of the time that it may
have."""
_QUICK, _MOST_QUICK = 0.1, 3.0
"""Share of the time, and most seconds, that quick parts keep: they take less than a second."""
_READING = 2 * GRACE
"""Seconds after the limit when reading and the inventory are broken off."""
_NEEDS_ROWS = (
    "labels without rows: give X with y",
    "sensitive columns without training rows: give X with sensitive columns",
    "groups without training rows: give X with groups",
    "control rows without training rows: give X with control",
    "labels of control rows without these: give control with control_y",
)
_REAL = (VALUE, STEP, HESSIAN, GRADIENT, MEAN, VARIANCE)
OnMismatch = Literal["raise", "report"]


def audit(
    model: Model,
    X: Rows | None = None,
    y: Labels | None = None,
    *,
    schema: Schema | Place | None = None,
    time_limit: float | Clock = 60,
    seed: int = 0,
    bootstrap: str = "auto",
    seed_search: int = 1_000_000,
    trust_pickle: bool = False,
    progress: Callable[[Progress], None] | None = None,
    known_rows: pd.DataFrame | None = None,
    known_columns: pd.DataFrame | None = None,
    population: pd.DataFrame | Mapping[str, Any] | None = None,
    n_rows: int | None = None,
    control: Rows | None = None,
    control_y: Labels | None = None,
    threshold: int = THRESHOLD,
    sensitive: Sequence[str] = (),
    groups: Sequence[str] = (),
    on_mismatch: OnMismatch = "raise",
) -> Audit:
    """Audit what a model discloses about its training rows.

    Parameters
    ----------
    model : fitted estimator, path, StoredObject, Release or RuleList
    X : DataFrame or array, optional
        The training rows, in the columns that enter the trees or its pipeline. If the trees drew
        rows, give them in the order of training. They only measure the finished reconstruction, and
        only if the model counted these very rows.
    y : sequence, optional
        Their labels.
    schema : Schema or path, optional
        What a row can be. Without one, the limits of the model itself.
    time_limit : float or Clock
        Seconds for the whole audit, or a running clock. The attack gets most of it. The audit lists
        parts without time as not assessed.
    seed : int
    bootstrap : {"auto", "none", "known", "hidden"}
        What to assume about the draws.
    seed_search : int
        Forest seeds to try, from 0, if the file has no seeds; 0 for none.
    trust_pickle : bool
        Also open pickle and joblib files, if ``model`` is a path.
    progress : callable, optional
        Receives :class:`~treeleak.core.clock.Progress`.
    known_rows, known_columns, population, n_rows
        What an adversary may know besides the model: as for :func:`treeleak.reconstruct`. With a
        population, the audit reports the answers with and without it.
    control : DataFrame or array, optional
        Rows of the same population that the model was not trained on, in the same columns: at least
        ten times as many as training rows. The audit then also tests whether the rebuilt rows are
        nearer to the training rows than to these.
    control_y : sequence, optional
        Their labels. The audit then also tests whether the model's own predictions tell the
        training rows from these.
    threshold : int
        A leaf with fewer rows counts as small.
    sensitive : sequence of str
        Columns, or attributes of the schema, for attribute inference: how often does an adversary
        infer them who knows everything else about a person? Needs the training rows.
    groups : sequence of str
        Columns, or attributes of the schema. The audit reports errors by their values, as it does
        by class. They may be columns of ``X`` that the model lacks.
    on_mismatch : {"raise", "report"}
        What to do if ``X`` and ``y`` are not the rows that the model was trained on: raise an
        error, before the attack if possible; or audit the model without them, and say so in the
        headline.

    Returns
    -------
    Audit
        It lists each part that was not assessed, with the reason.

    Raises
    ------
    Mismatch
        If the rows given are not the model's, unless ``on_mismatch`` is "report".
    BadInput
        If the model, the file or the schema cannot be used.
    """
    started = time.perf_counter()
    beside = {
        "known_rows": known_rows, "known_columns": known_columns, "population": population,
    }  # fmt: skip
    request = AuditRequest(
        X=X, y=y, schema=Schema.from_argument(schema), seed=int(seed),
        bootstrap=bootstrap, seed_search=seed_search,
        beside=beside, n_rows=n_rows, control=control, control_y=control_y,
        threshold=threshold, sensitive=sensitive, groups=groups, trust_pickle=trust_pickle,
        progress=progress, on_mismatch=on_mismatch,
    )  # fmt: skip
    if on_mismatch not in get_args(OnMismatch):
        raise BadInput(f"on_mismatch must be 'raise' or 'report', not {on_mismatch!r}")
    needs_rows = (y is not None, bool(sensitive), bool(groups), control is not None)
    lacking = [needed and X is None for needed in needs_rows]
    for is_lacking, why in zip(
        (*lacking, control_y is not None and control is None), _NEEDS_ROWS, strict=True
    ):
        if is_lacking:
            raise BadInput(why)
    if control is not None and control_y is not None and len(control_y) != len(control):
        raise BadInput(f"{len(control_y)} labels of {len(control)} control rows")
    clock = Clock.of(time_limit, progress)
    file = os.fspath(model) if isinstance(model, (str, os.PathLike)) else None
    sha256, origin = None, ""
    found = AuditResults(schema_provided=request.schema is not None)
    try:
        # Without what is in the file, nothing can be said: it gets some time more.
        with clock.enforced(_READING):
            file, sha256, content = open_model(model, trust_pickle)
            origin = content.type if isinstance(content, StoredObject) else content.origin
        with errors_name_file(file), clock.enforced(_READING):
            live = None if file is not None or content is model else model
            reserve = min(_QUICK * clock.left, _MOST_QUICK)
            case = prepare_case(
                Case(request, clock, content, found, live, (X, y), reserved_seconds=reserve)
            )
    except TimeUp:
        late = tuple(
            (part, clock.timeout_message) for part in ("inventory", "counts", "reconstruction")
        )
        found = replace(found, not_assessed=late)
        return _conclude(found, request, started, file, sha256, origin)

    def ended(case: Case) -> Audit:
        return _conclude(case.found, case.request, started, file, sha256, origin)

    for k, assess in enumerate(ASSESSORS):
        clock.root.best = partial(_cut_off, case, ASSESSORS[k:], ended)
        with errors_name_file(file if isinstance(content, RuleList) else None):
            case = assess(case)
    return ended(case)


def _cut_off(case: Case, left: Sequence[Assessor], ended: Callable[[Case], Audit]) -> Audit:
    """End an audit that nothing can break off: all that is left is not assessed."""
    for assess in left:
        case = assess.cut_off(case)
    return ended(case)


def _conclude(
    found: AuditResults,
    request: AuditRequest,
    started: float,
    file: str | None,
    sha256: str | None,
    origin: str,
) -> Audit:
    findings = find(found)
    verdict = overall(findings)
    seconds = time.perf_counter() - started
    if found.release is not None:
        origin = found.release.origin
    return Audit(
        **{each.name: getattr(found, each.name) for each in fields(found)},
        verdict=verdict,
        findings=findings,
        advice=advise(found, verdict),
        provenance=Provenance(
            file, sha256, origin, request.seed, seconds, threat_model=threat_model(request)
        ),
    )


# ------------------------------------------------------------------------------- the assessors


def _rebuilt(case: Case) -> Case:
    request, release = case.request, case.release
    share = _ATTACK if release.noise is None else _ATTACK_ON_NOISE
    if request.X is not None:
        needed = _COMPARING / max(case.clock.left, _COMPARING)
        share = min(share, 1 - min(needed, _MOST_COMPARING))
    share *= parts.main_share(case)
    # What it compiles is not held against the parts after it either.
    whole = case.clock
    clock = Clock(case.seconds(share), whole.report, parent=whole, stated_limit=whole.stated_limit)
    rebuilt = rebuild(case.problem, request.seed_search, clock)
    if rebuilt.status in ("unique", "feasible") and not rebuilt.n_rows:
        raise NotCovered(NO_ROWS)  # A table without rows leaks nobody's; the model's was another.
    new = [note for note in rebuilt.notes if note not in case.found.notes]
    case = case.plus(reconstruction=rebuilt).noting(*new)
    if _holds_more(release) and not _all_determined(rebuilt):
        kinds = LossSums.kind, DrawnLossSums.kind, LeafValueEvidence.kind
        summed = rebuilt.evidence.startswith(kinds)
        return case.without("reconstruction", wording.LEFT_OPEN if summed else wording.HOLDS_MORE)
    return case


def _holds_more(release: Release) -> bool:
    """Whether a model tells more of its rows than the counts that attacks go by.

    So does a boosted model even if what its leaves add was not read, and so do weights of classes:
    the attack asks only whether there are any.
    """
    return release.ensemble is not None or any(
        tree.statistics.get(*_REAL) is not None
        or tree.statistics.get(*_REAL, WEIGHTS, per_class=True) is not None
        for tree in release.trees
    )


def _all_determined(rebuilt: Reconstruction) -> bool:
    """Whether the rows are the only ones possible, with their classes or all of their targets."""
    y = rebuilt.outcomes
    if rebuilt.status != "unique" or y is None:
        return False
    return rebuilt.labelled or bool(y.notna().all())


def _parts(case: Case) -> Case:
    return parts.assess(case, audit)


def _not_built(case: Case) -> Case:
    requested = {"reconstruction": True, "exposure": case.request.groups,
             "inference": case.request.sensitive}  # fmt: skip
    for part, is_requested in requested.items():
        case = case.without(part, wording.NOT_BUILT) if is_requested else case
    return case


_BOTH = ("reconstruction", "truth")
_COMPARED = ("reconstruction", "truth", "measurement")

ASSESSORS = (
    Assessor("counts", counts.of_trees, ("counts",), listed=(NotCovered,)),
    Assessor("counts", counts.of_rules, ("counts",), listed=(NotCovered,), of="rules"),
    Assessor("isolation", isolation.find, ("isolation",)),
    Assessor(
        "shadows", shadow_models.assess, ("shadows",), ("X", "release"),
        reasons=shadow_models.REASONS,
    ),
    Assessor(
        "reconstruction", _rebuilt, ("reconstruction",), listed=(NotCovered,), timed=False,
        reasons=(wording.LEFT_OPEN, wording.HOLDS_MORE),
    ),
    Assessor(
        "reconstruction", isolation.assess_alone, ("alone", "alone_and_rare"), ("reconstruction",)
    ),
    Assessor("measurement", comparison.match, ("truth",), ("X",), listed=(Mismatch,)),
    Assessor(
        "measurement", comparison.of_rules, ("truth",), ("X",), listed=(Mismatch,), of="rules"
    ),
    Assessor("isolation", isolation.check, ("isolation",), ("truth", "isolation")),
    Assessor("ceiling", budget.assess_ceiling, ("ceiling",)),
    Assessor("structure", structure.assess, ("structure",)),
    Assessor("measurement", comparison.compare, ("measurement",), _BOTH, slow=True),
    Assessor(
        "measurement", comparison.add_baselines, ("measurement",), _COMPARED, slow=True
    ),
    Assessor("measurement", comparison.guess, (), _COMPARED, timed=False, slow=True),
    Assessor("measurement", comparison.add_shape, ("measurement",), _COMPARED, slow=True),
    Assessor("measurement", comparison.variants, ("variants",), ("reconstruction",), slow=True),
    Assessor("uncertainty", uncertainty.of_trees, ("uncertainty",), slow=True),
    Assessor(
        "uncertainty", uncertainty.of_rules, ("uncertainty",), listed=(NotCovered,), of="rules"
    ),
    Assessor("measurement", comparison.close, reasons=comparison.REASONS, concludes=True),
    Assessor("exposure", exposure.assess, ("exposure",), reasons=(article29.NO_ROWS,)),
    Assessor(
        "inference", article29.assess, ("article29",), ("reconstruction", "truth", "exposure"),
        lacking=dict.fromkeys(("reconstruction", "truth", "exposure"), article29.NO_ROWS),
        wish="sensitive",
    ),
    Assessor(
        "membership", membership.assess, ("membership",),
        ("other_people", "truth", "reconstruction"),
        lacking={"reconstruction": membership.NO_ROWS}, reasons=membership.REASONS,
    ),
    Assessor("inventory", _parts, ("parts",), ("others",), timed=False),
    Assessor(
        "reconstruction", _not_built, of="rules", reasons=(wording.NOT_BUILT,), concludes=True
    ),
)  # fmt: skip
"""The parts of an audit in their order, of trees and of rules: each knows what those before it
found."""
