"""Holding an audit against a policy.

The gate fails closed: what was not assessed, for whatever reason, does not pass. A limit that is
exceeded already is violated, whatever else an attack might find.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, field, replace
from typing import Any, ClassVar

from treeleak.auditing import wording
from treeleak.auditing.findings.finding import LEAK, OPEN, POSSIBLE
from treeleak.auditing.inventory.vocabulary import known_place, parts_of_family
from treeleak.auditing.limits import (
    LIMITS,
    NOT_THESE,
    OF_ATTACKS,
    OF_COLUMN,
    UNDECIDED,
    Limit,
    Provisional,
    forbidden,
    inference_of,
)
from treeleak.auditing.policy import Policy, read_policy
from treeleak.auditing.result import Audit
from treeleak.core.arrays import Place
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.message import static_message
from treeleak.core.private import dataclass
from treeleak.formats.literals import State
from treeleak.reconstruction import Reconstruction

ONLY_LIKELY = static_message(
    "the verdict of the audit is: not assessed, because likely rows prove nothing without "
    "training rows (--train)",
    "only_likely",
)
ONLY_THE_REST = static_message(
    "parts of the rows were given, so the findings cover the rest only. Audit without them",
    "only_the_rest",
)
CUT_SHORT = static_message(
    "the attack had too little time: give it more (--time-limit)", "cut_short"
)


@dataclass(frozen=True)
class Check:
    """One limit, held against an audit.

    Attributes
    ----------
    key : str
        "ended" for the attack itself, which every policy asks for; "review" for its own date;
        "forbidden_parts" for each kind of parts; "inference." and a column for a bound on that;
        else as in :data:`LIMITS` ("unknown_parts" also where the policy does not name it).
    what : str
        In words.
    bound, found : str
        In words, too.
    state : {"met", "violated", "not assessed"}
    """

    _shown_fields: ClassVar = ("key", "state")

    key: str
    what: str
    bound: str
    found: str
    state: State


@dataclass(frozen=True)
class Ruling:
    """Whether an audit meets a policy.

    Attributes
    ----------
    policy : Policy
    checks : tuple of Check
    """

    _shown_fields: ClassVar = ("passed", "checks")

    policy: Policy
    checks: tuple[Check, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """Whether every check is met; what was not assessed is not."""
        return bool(self.checks) and all(check.state == "met" for check in self.checks)

    @property
    def headline(self) -> str:
        """The ruling in one sentence."""
        if self.passed:
            return f"Meets the policy {self.policy.name!r}: all {len(self.checks)} checks."
        counted = Counter[str](check.state for check in self.checks)
        states = (s for s in ("violated", "not assessed") if counted[s])
        parts = [f"{counted[s]} of {len(self.checks)} checks {s}" for s in states]
        known = (*self.policy.limits, "forbidden_parts")
        limits = sum(c.key in known or c.key.startswith(OF_COLUMN) for c in self.checks)
        return (
            f"Does not meet the policy {self.policy.name!r}: {', '.join(parts)} "
            f"({limits} of the {len(self.checks)} are limits)."
        )

    def to_dict(self) -> dict[str, Any]:
        """Describe the ruling (formats/audit.schema.json)."""
        return {
            "policy": self.policy.name,
            "threshold": self.policy.threshold,
            "limits": dict(self.policy.limits),
            "inference_of": dict(self.policy.inference_of),
            "forbidden_parts": list(self.policy.forbidden_parts),
            "allow_possible_leak": self.policy.allow_possible_leak,
            **dict.fromkeys(("attacker", "recipient", "purpose", "review"), ""),
            **self.policy.stated,
            "passed": self.passed,
            "headline": self.headline,
            "checks": [asdict(check) for check in self.checks],
        }


def judge(audit: Audit, policy: Policy | Place) -> Ruling:
    """Compare an audit with a policy.

    Every policy asks for three things: the attack ended with an answer; there is no possible leak,
    unless the policy allows it; and every part of the file is known, unless the policy gives a
    number of ``unknown_parts``. Then it checks each limit that it names, and no other. If no limit
    bounds attacks, the verdict must not be "leak shown".

    Parameters
    ----------
    audit : Audit
        Made with ``threshold=policy.threshold``.
    policy : Policy or path

    Raises
    ------
    BadInput
        If the audit counted leaves with another threshold.
    """
    policy = policy if isinstance(policy, Policy) else read_policy(policy)
    if audit.counts is not None and audit.counts.threshold != policy.threshold:
        raise BadInput(
            f"the audit counted leaves with fewer than {audit.counts.threshold} rows, the policy "
            f"asks for {policy.threshold}: audit with threshold={policy.threshold}"
        )
    checks = [_ended(audit)]
    if audit.verdict == POSSIBLE:
        checks.append(_possible(policy, audit))
    bounds = [*policy.limits.items(), *(("inference", b) for b in policy.inference_of.values())]
    if policy.review is not None:
        checks.append(_reviewed(policy.review, audit))
    if not any(_bounds_leaks(key, bound) for key, bound in bounds):
        checks.append(_checked("leak_shown", LIMITS["leak_shown"], False, audit))
    limits = {"unknown_parts": 0, **policy.limits}
    checks += [_checked(key, LIMITS[key], bound, audit) for key, bound in limits.items()]
    for column, bound in policy.inference_of.items():
        checks.append(_checked(f"{OF_COLUMN}{column}", inference_of(column), bound, audit))
    for name in policy.forbidden_parts:
        checks.append(_checked("forbidden_parts", forbidden(parts_of_family(name), name), 0, audit))
    for part in audit.parts:
        checks = _worst(
            checks, judge(part.audit, policy).checks, f"{part.name} in {known_place(part.place)}"
        )
    return Ruling(policy, tuple(checks))


def _worst(checks: Sequence[Check], of_part: Sequence[Check], where: str) -> list[Check]:
    """Take of each check the worse state, that of the whole or of a model inside."""
    order = ("met", "not assessed", "violated")
    found = {(check.key, check.what): check for check in checks}
    for check in of_part:
        known = found.get((check.key, check.what))
        if known is None or order.index(check.state) > order.index(known.state):
            found[check.key, check.what] = replace(check, found=f"{check.found} ({where})")
    return list(found.values())


def _cut_short(rebuilt: Reconstruction) -> bool:
    """Say whether the time was too short for the whole walk, as :func:`reconstruct` tells."""
    if rebuilt.status != "likely" or "chains" not in rebuilt.numbers:
        return False
    if rebuilt.numbers.get("agreed"):
        return False
    chains, sweeps = (12, 9) if rebuilt.behind_noise else (8, 200)
    return rebuilt.numbers.get("chains", 0) < chains or rebuilt.numbers["sweeps"] < sweeps


def _bounds_leaks(key: str, bound: float) -> bool:
    """Say whether a limit bounds what attacks find, and some audit could exceed it."""
    if key not in OF_ATTACKS:
        return False
    limit = LIMITS[key]
    return limit.kind == "flag" or (bound > 0 if limit.least else bound < 1)


def _ended(audit: Audit) -> Check:
    """Check that some attack said all it can say, and that a verdict follows from it."""
    what, bound = "the attack came to an answer", "in time"
    rebuilt, found = audit.reconstruction, ""
    if audit.mismatch is not None:
        found = NOT_THESE
    elif audit.budget is not None and audit.budget.refuted is not None:
        found = static_message(audit.budget.refuted)
    elif audit.of == "rules" and audit.uncertainty is not None and audit.verdict != OPEN:
        return Check("ended", what, bound, "the residual uncertainty was computed", "met")
    elif rebuilt is None:
        found = audit.reason("reconstruction", static_message("no attack was run"))
    elif rebuilt.interrupted:
        found = static_message("interrupted")
    elif why := audit.reason("reconstruction"):
        found = why
    elif rebuilt.status in ("unknown", "infeasible"):
        found = wording.IN_ONE_WAY(meaning=rebuilt.meaning)
    elif audit.not_looked_at is not None:
        found = audit.not_looked_at
    elif audit.verdict != LEAK and rebuilt.given.any():
        found = ONLY_THE_REST
    elif audit.verdict != LEAK and _cut_short(rebuilt):
        found = CUT_SHORT
    # Whether what the rebuilt rows tell was not assessed, whatever else was.
    elif audit.verdict not in (LEAK, OPEN) and audit.rows_open:
        found = wording.ROWS_OPEN
    elif audit.verdict == OPEN:
        likely = rebuilt.status == "likely" and not audit.rows_provided
        found = ONLY_LIKELY if likely else UNDECIDED
    else:
        return Check("ended", what, bound, f"{rebuilt.status}, {rebuilt.seconds:.1f} s", "met")
    return Check("ended", what, bound, found, "not assessed")


def _possible(policy: Policy, audit: Audit) -> Check:
    what, found = "the verdict is 'possible leak'", "yes"
    test = None if audit.measurement is None else audit.measurement.significance
    stored = any(f.code == wording.ORDER_STORED.code for f in audit.findings)
    if test is None and not stored:
        found += "; --control may decide"
    elif test is not None and test.overlapping:
        found += f"; --control with {test.needed:,} rows or more may decide"
    if policy.allow_possible_leak:
        return Check("possible_leak", what, "allowed", found, "met")
    return Check("possible_leak", what, "no", found, "violated")


def _reviewed(review: datetime.date, audit: Audit) -> Check:
    """Check that the policy is not out of date."""
    day = audit.provenance.time[:10]
    state: State = "met" if day <= review.isoformat() else "violated"
    what = "the policy's day of review has not passed"
    return Check("review", what, f"by {review.isoformat()}", day, state)


def _checked(key: str, limit: Limit, bound: float, audit: Audit) -> Check:
    demand = limit.display(bound)
    if limit.kind != "flag":
        demand = f"at {'least' if limit.least else 'most'} {demand}"
    try:
        figure = limit.figure(audit)
        if math.isnan(figure):
            raise NotCovered(static_message("there is no such figure"))
    except NotCovered as why:
        return Check(key, limit.what, demand, str(why), "not assessed")
    met = figure >= bound if limit.least else figure <= bound
    if met and isinstance(figure, Provisional):
        return Check(key, limit.what, demand, figure.why, "not assessed")
    return Check(key, limit.what, demand, limit.display(figure), "met" if met else "violated")
