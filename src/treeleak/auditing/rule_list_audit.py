"""The audit of rules: inventory, counts, and what they leave to know of a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treeleak.auditing.assessors.counts import THRESHOLD, Counts, count_rules
from treeleak.auditing.assessors.uncertainty import Uncertainty, left_by_rules
from treeleak.auditing.findings.advice import advise
from treeleak.auditing.findings.verdict import find, overall
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.auditing.result import Audit, Provenance
from treeleak.core.errors import Mismatch, NotCovered
from treeleak.release import RuleList
from treeleak.schema import Schema
from treeleak.verification.training_rows import TrainingRows, match_rules

__all__ = ["audit_rules"]

NOT_BUILT = (
    "these are rules: what they tell of each row is said below; single rows are not rebuilt from "
    "them"
)


def audit_rules(
    rules: RuleList,
    X: Any,
    y: Sequence[Any] | None,
    schema: Schema | None,
    provenance: Callable[[str], Provenance],
    threshold: int = THRESHOLD,
    asked: Sequence[str] = (),
) -> Audit:
    """Audit rules; see :func:`treeleak.auditing.run.audit`.

    Raises
    ------
    BadInput
        If the rules contradict themselves or the schema that is given.
    """
    open_parts: list[tuple[str, str]] = []
    n_rows = None if rules.counts is None else sum(map(sum, rules.counts))
    inventory = take_inventory(rules, Context(n_rows), X)
    counts: Counts | None = None
    left: Uncertainty | None = None
    truth: TrainingRows | None = None
    mismatch: str | None = None
    try:
        counts = count_rules(rules, threshold)
    except NotCovered as error:
        open_parts.append(("counts", str(error)))
    if X is not None:
        try:
            truth = match_rules(rules, X, y, schema)
        except Mismatch as error:
            mismatch = str(error)
            open_parts.append(("measurement", mismatch))
    try:
        left = left_by_rules(rules, schema, None if truth is None else truth.X, y)
    except NotCovered as error:
        open_parts.append(("uncertainty", str(error)))
    open_parts += [(part, NOT_BUILT) for part in ("reconstruction", *asked)]
    possible = left is None or left.contains is not False
    findings = find(inventory, counts, None, None, 0, possible, uncertainty=left)
    verdict = overall(findings)
    return Audit(
        verdict=verdict,
        inventory=inventory,
        counts=counts,
        reconstruction=None,
        measurement=None,
        findings=findings,
        advice=advise(inventory, counts, verdict),
        not_assessed=tuple(open_parts),
        mismatch=mismatch,
        notes=(*rules.notes, *(() if truth is None else truth.notes)),
        provenance=provenance(rules.origin),
        uncertainty=left,
        of="rules",
        truth=truth,
        foreign=rules.foreign,
    )
