"""What a policy may bound: figures of an audit, and why an audit may have none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from treeleak.auditing import wording
from treeleak.auditing.assessors.article29 import Inference
from treeleak.auditing.assessors.isolation import proved_alone
from treeleak.auditing.assessors.measurement import Measurement
from treeleak.auditing.assessors.membership import Membership
from treeleak.auditing.findings.finding import LEAK, OPEN
from treeleak.auditing.inventory.inventory import Entry
from treeleak.core.errors import NotCovered
from treeleak.core.message import MessageTemplate, static_message
from treeleak.core.private import dataclass
from treeleak.core.text import percent
from treeleak.reconstruction import Reconstruction

if TYPE_CHECKING:
    from treeleak.auditing.result import Audit

NOT_THESE = static_message("the rows given do not fit the model", "limits_not_these")
UNDECIDED = static_message("the verdict of the audit is: not assessed", "limits_undecided")
DRAWS = static_message(
    "the model counts draws, and a tree may draw a row several times, so rows may be fewer",
    "limits_draws",
)
NO_PROOF = static_message(
    "the schema does not allow the training rows, so no proof holds", "limits_no_proof"
)
NO_BASELINES = static_message("baselines were not tried", "limits_no_baselines")
NEEDS_TRAIN = static_message(
    "no training rows were given to compare with (in Python X, else --train)", "limits_needs_train"
)
NEEDS_SENSITIVE = static_message(
    "no column was named as sensitive (in Python sensitive, else --sensitive)",
    "limits_needs_sensitive",
)
FEW_CONTROL = MessageTemplate(
    "limits_few_control",
    "{there:people} control rows are too few: {needed:number} or more are needed",
)
SCORE = MessageTemplate("limits_score", "{found:share1}")
NEEDS_CONTROL = static_message(
    "no rows of the population were given (in Python control, else --control)",
    "limits_needs_control",
)
NEEDS_GROUPS = static_message(
    "the training rows have no groups (in Python groups, or y if the model has classes; else "
    "--groups, or --label)",
    "limits_needs_groups",
)
NO_TARGETS = static_message(
    "no target was rebuilt, or the training rows have none (in Python y, else --label)",
    "limits_no_targets",
)

NARROWER = static_message(
    "the training rows leave out values that the schema allows, so an adversary who knows the "
    "columns may get further: give a schema (treeleak schema MODEL --train FILE writes one)",
    "limits_narrower",
)

INTERVALS = static_message(
    "more training rows are rebuilt to intervals that no other value shares, so an adversary who "
    "knows the columns may get further: give a schema that is no wider than the columns",
    "limits_intervals",
)

OF_COLUMN = "inference."
"""Begins the key of a check of one sensitive column."""


class Provisional(float):
    """A figure that can only come nearer to its limit, or exceed it, when more is known."""

    why: str

    def __new__(cls, figure: float, why: str) -> Provisional:
        """Say why more may be found."""
        made = super().__new__(cls, figure)
        made.why = why
        return made

    def __getnewargs__(self) -> tuple[float, str]:  # type: ignore[override]
        """Give what a copy is made of."""
        return float(self), self.why


@dataclass(frozen=True)
class Limit:
    """Something that a policy may bound."""

    what: str
    """In words."""
    figure: Callable[[Audit], float]
    """Takes it from an audit; raises NotCovered where the audit has none. Where an attack that
    knows more may find more, it is :class:`Provisional`."""
    kind: Literal["share", "score", "number", "flag"] = "share"
    """A flag is only ever bounded by ``false``; a score stems from errors of the rebuilt rows."""
    least: bool = False
    """Whether the bound is the least that is allowed; else it is the most."""

    def display(self, figure: float) -> str:
        """Write a figure of this kind."""
        if self.kind == "flag":
            return "yes" if figure else "no"
        if self.kind == "score":
            return SCORE(found=figure)
        return percent(figure, 1) if self.kind == "share" else f"{figure:,.4g}"


def _inventory(audit: Audit) -> tuple[Entry, ...]:
    if why := audit.reason("inventory"):
        raise NotCovered(why)
    return audit.inventory


def _leaking(audit: Audit) -> float:
    return len({entry.what for entry in _inventory(audit) if entry.mark == "leaks"})


def _stored(audit: Audit) -> float:
    return len({entry.where for entry in _inventory(audit) if entry.rows})


def _unknown_parts(audit: Audit) -> float:
    return len({(entry.where, entry.what) for entry in _inventory(audit) if entry.unknown})


def _leak(audit: Audit) -> float:
    if audit.verdict == OPEN:
        raise NotCovered(UNDECIDED)
    return float(audit.verdict == LEAK)


_OF_ROWS = ("small", "single", "smallest")


def _of_leaves(key: str) -> Callable[[Audit], float]:
    def share(audit: Audit) -> float:
        if audit.counts is None:
            raise NotCovered(audit.reason("counts", static_message("no rows were counted")))
        number, leaves = audit.counts.total[key], audit.counts.total["leaves"]
        if number is None or not leaves:
            raise NotCovered(static_message("the model counts no classes"))
        figure = number if key == "smallest" else number / leaves
        drawn = audit.counts.unit == "draws" and key in _OF_ROWS
        return Provisional(figure, DRAWS) if drawn else figure

    return share


def _rebuilt(audit: Audit) -> Reconstruction:
    rebuilt = audit.reconstruction
    if rebuilt is None:
        raise NotCovered(audit.reason("reconstruction", static_message("no attack was run")))
    if rebuilt.X is None:
        raise NotCovered(wording.IN_ONE_WAY(meaning=rebuilt.meaning))
    if rebuilt.given.all():
        raise NotCovered(static_message("all rows were given, so nothing was left to rebuild"))
    return rebuilt


def _found_by(audit: Audit, figure: float) -> float:
    """Take a figure of what an attack found; whoever has more time or knowledge may find more."""
    rebuilt = _rebuilt(audit)
    if rebuilt.status == "unknown":
        return Provisional(figure, wording.IN_ONE_WAY(meaning=rebuilt.meaning))
    return Provisional(figure, NARROWER) if audit.narrower else figure


def _measured_by(audit: Audit, figure: float) -> float:
    """Take a figure of errors, which are too large where values are known to intervals only."""
    m = _measured(audit)
    if (m.isolated_rows or 0.0) > m.exact_rows:
        return Provisional(figure, INTERVALS)
    return _found_by(audit, figure)


def _under_a_true_schema(audit: Audit) -> Reconstruction:
    rebuilt = _rebuilt(audit)
    if not audit.proofs_hold:
        raise NotCovered(NO_PROOF)
    return rebuilt


def _measured(audit: Audit) -> Measurement:
    if audit.mismatch is not None:
        raise NotCovered(NOT_THESE)
    if audit.measurement is None:
        raise NotCovered(audit.reason("measurement", NEEDS_TRAIN))
    return audit.measurement


def _proved(audit: Audit) -> float:
    return _found_by(audit, _under_a_true_schema(audit).share_proved_rows)


def _proved_alone(audit: Audit) -> float:
    rebuilt = _under_a_true_schema(audit)
    if audit.release is None:
        raise NotCovered(static_message("the model's trees are not known"))
    alone = audit.alone
    if alone is None:
        alone = int(proved_alone(rebuilt, audit.release).sum())
    return _found_by(audit, alone / max(rebuilt.n_rows, 1))


def _recovered(audit: Audit) -> float:
    _rebuilt(audit)
    if audit.exposure is None:
        raise NotCovered(static_message("the confidence of single rows is not known"))
    recovered = audit.exposure.recovered
    return _found_by(audit, recovered.proved + recovered.probable)


def _singling_out(audit: Audit) -> float:
    _measured(audit)
    if audit.article29 is None or audit.article29.singling_out is None:
        raise NotCovered(static_message("no rebuilt row was tried"))
    return _measured_by(audit, audit.article29.singling_out.value)


def _linkability(audit: Audit) -> float:
    _measured(audit)
    if audit.article29 is None:
        raise NotCovered(static_message("no rebuilt row was tried"))
    if isinstance(found := audit.article29.linkability, str):
        raise NotCovered(static_message(found.removeprefix("Not assessed: ").rstrip(".")))
    return _measured_by(audit, found.value)


def _membership(audit: Audit) -> Membership:
    _measured(audit)
    if audit.membership is None:
        raise NotCovered(audit.reason("membership", NEEDS_CONTROL))
    return audit.membership


def _membership_auc(audit: Audit) -> float:
    """Take the greater one, of rebuilt rows against control rows and of shadow models."""
    shadows = None if audit.shadows is None or audit.mismatch is not None else audit.shadows.auc
    if audit.membership is None and shadows is not None:
        return shadows.value
    found = _membership(audit).auc.value
    return found if shadows is None else max(found, shadows.value)


def _membership_tpr(audit: Audit) -> float:
    caught = min(_membership(audit).at, key=lambda at: at.false_positives)
    if not caught.assessed:
        raise NotCovered(caught.why_not)
    return caught.share


def _inferred(audit: Audit) -> tuple[Inference, ...]:
    _measured(audit)
    if audit.article29 is None or not audit.article29.inference:
        raise NotCovered(NEEDS_SENSITIVE)
    return audit.article29.inference


def _inference(audit: Audit) -> float:
    return _measured_by(audit, max(found.risk.value for found in _inferred(audit)))


def inference_of(column: str) -> Limit:
    """Bound the risk of guessing one sensitive column."""

    def risk(audit: Audit) -> float:
        found = [i.risk.value for i in _inferred(audit) if i.column == column]
        if not found:
            raise NotCovered(static_message("this column was not named as sensitive"))
        return _measured_by(audit, max(found))

    return Limit(f"risk of attribute inference of {column!r}", risk)


def forbidden(materials: frozenset[str], name: str) -> Limit:
    """Forbid kinds of parts in the file."""

    def number(audit: Audit) -> float:
        entries = {(e.where, e.what) for e in _inventory(audit) if e.mark != "harmless"}
        return len([what for _, what in entries if what in materials])

    return Limit(f"parts of the file: {name}", number, "number")


def _groups(audit: Audit) -> pd.DataFrame:
    _measured(audit)
    if audit.exposure is None or audit.exposure.groups.empty:
        raise NotCovered(NEEDS_GROUPS)
    # Of those of whom all was given, nothing was rebuilt.
    return audit.exposure.groups.dropna(subset=["error"])


def _worst_group(audit: Audit) -> float:
    return _measured_by(audit, float(_groups(audit)["exact"].astype(float).max()))


def _worst_group_over_guess(audit: Audit) -> float:
    groups = _groups(audit)
    error, guess = (groups[name].to_numpy(dtype=float) for name in ("error", "guess"))
    if np.isnan(guess).any():
        raise NotCovered(
            static_message("no random table held some group: the training table is large")
        )
    gain = 1.0 - np.divide(error, guess, out=np.ones_like(error), where=guess > 0)
    return _measured_by(audit, float(np.clip(gain, 0.0, None).max()))


def _worst_person(audit: Audit) -> float:
    pairs = _measured(audit).judged.pairs
    if pairs is None:
        raise NotCovered(static_message("errors of single people are not known"))
    known = ~np.isnan(pairs.errors)
    if not pairs.tried:
        raise NotCovered(audit.reason("measurement", NO_BASELINES))
    if not known.any():
        raise NotCovered(static_message("errors of single people are not known"))
    # Guesses of large tables are measured in parts: one baseline may know a person, another not.
    best = np.fmin.reduce([tried.guesses.row_errors[known] for tried in pairs.tried])
    if np.isnan(best).any():
        raise NotCovered(
            static_message("no baseline held some person: the training table is large")
        )
    return _measured_by(audit, max(0.0, float((best - pairs.errors[known]).max())))


def _of_measured(key: str) -> Callable[[Audit], float]:
    def share(audit: Audit) -> float:
        _rebuilt(audit)
        return _found_by(audit, float(getattr(_measured(audit), key)))

    return share


def _isolated(audit: Audit) -> float:
    _rebuilt(audit)
    m = _measured(audit)
    return _found_by(audit, max(m.exact_rows, m.isolated_rows or 0.0))


def _exact_targets(audit: Audit) -> float:
    _rebuilt(audit)
    m = _measured(audit)
    if audit.release is not None and audit.release.classes:
        raise NotCovered(static_message("the model has classes, not targets"))
    if m.targets is None:
        raise NotCovered(NO_TARGETS)
    return _found_by(audit, m.targets)


def _over_guess(audit: Audit) -> float:
    _rebuilt(audit)
    m = _measured(audit).judged
    if not m.yardsticks:
        raise NotCovered(audit.reason("measurement", NO_BASELINES))
    guess = min(y.scores.error for y in m.yardsticks if y.knows != "people")
    return _measured_by(audit, max(0.0, 1.0 - m.error / guess) if guess > 0 else 0.0)


def _over_population(audit: Audit) -> float:
    _rebuilt(audit)
    test = _measured(audit).judged.significance
    if test is None:
        raise NotCovered(audit.reason("population", NEEDS_CONTROL))
    if test.overlapping:
        raise NotCovered(FEW_CONTROL(there=test.n_control, needed=test.needed))
    others = float(test.errors.mean())
    return _measured_by(audit, max(0.0, 1.0 - test.error / others) if others > 0 else 0.0)


def _left(audit: Audit) -> float:
    if audit.uncertainty is None:
        raise NotCovered(audit.reason("uncertainty", static_message("neither one tree nor rules")))
    if audit.uncertainty.dist is None:
        raise NotCovered(static_message("there are no rows"))
    return audit.uncertainty.dist


def _epsilon(audit: Audit) -> float:
    if audit.budget is None:
        raise NotCovered(static_message("the counts carry no noise"))
    if audit.budget.cost is None:
        raise NotCovered(wording.NOT_BOUNDED(why=static_message(audit.budget.why)))
    if audit.budget.weaker:
        weaker = static_message("the noise seems weaker than what is stated")
        return Provisional(audit.budget.cost, weaker)
    return audit.budget.cost


LIMITS: Mapping[str, Limit] = MappingProxyType(
    {
        "leak_shown": Limit("the verdict is 'leak shown'", _leak, "flag"),
        "stored_rows": Limit(
            "places that hold training rows, or their labels, as they are", _stored, "number"
        ),
        "leaking_parts": Limit("kinds of parts that come from single rows", _leaking, "number"),
        "unknown_parts": Limit("parts of the file that no rule knows", _unknown_parts, "number"),
        "small_leaves": Limit("leaves with fewer rows than the threshold", _of_leaves("small")),
        "single_leaves": Limit("leaves with a single row", _of_leaves("single")),
        "one_class_leaves": Limit("leaves with rows of one class only", _of_leaves("one_class")),
        "smallest_leaf": Limit(
            "rows in the smallest leaf", _of_leaves("smallest"), "number", least=True
        ),
        "proved_rows": Limit("rows that the file proves", _proved),
        "proved_alone": Limit("rows that the file proves, and that equal no other", _proved_alone),
        "recovered_rows": Limit("rows proved or probable", _recovered),
        "exact_rows": Limit(
            "training rows rebuilt exactly, or to an interval that no other value shares",
            _isolated,
        ),
        "located_rows": Limit(
            "training rows rebuilt on every value that splits distinguish",
            _of_measured("located_rows"),
        ),
        "exact_targets": Limit("training rows rebuilt with their exact target", _exact_targets),
        "advantage_over_guess": Limit(
            "how much smaller the error is than a baseline's", _over_guess, "score"
        ),
        "advantage_over_population": Limit(
            "how much smaller the error is than against other rows of the population",
            _over_population,
            "score",
        ),
        "worst_group": Limit("rows rebuilt exactly, in the worst group", _worst_group),
        "worst_group_over_guess": Limit(
            "how much smaller the error of the worst group is than a baseline's",
            _worst_group_over_guess,
        ),
        "worst_person": Limit(
            "values of the worst person that are right beyond the best baseline", _worst_person
        ),
        "singling_out": Limit("risk of singling out", _singling_out),
        "linkability": Limit("risk of linking two records of one person", _linkability),
        "membership_auc": Limit(
            "how often a training row scores above that of another person (AUC)", _membership_auc
        ),
        "membership_tpr": Limit(
            "training rows recognised at 0.1% false positives", _membership_tpr
        ),
        "inference": Limit("greatest risk of attribute inference", _inference),
        "left_to_know": Limit("average residual uncertainty of a value (Dist)", _left, least=True),
        "epsilon": Limit("privacy budget that the noise costs", _epsilon, "number"),
    }
)
"""What a policy may bound."""

OF_ATTACKS = frozenset({
    "leak_shown", "proved_rows", "proved_alone", "recovered_rows", "exact_rows", "located_rows",
    "advantage_over_guess", "advantage_over_population", "worst_group", "worst_group_over_guess",
    "worst_person", "singling_out", "linkability", "membership_auc", "membership_tpr",
    "inference", "left_to_know",
})  # fmt: skip
"""Limits on what attacks find."""
