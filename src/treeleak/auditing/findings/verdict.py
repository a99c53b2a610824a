"""What an audit concludes from what was found: rules, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from treeleak.auditing import wording
from treeleak.auditing.assessors.counts import THRESHOLD, Counts, count_other
from treeleak.auditing.assessors.isolation import Isolation
from treeleak.auditing.assessors.shadow_models import MATERIAL, Shadows
from treeleak.auditing.assessors.uncertainty import FILLED, Uncertainty
from treeleak.auditing.findings.finding import LEAK, NO_LEAK, OPEN, POSSIBLE, Finding
from treeleak.auditing.findings.rows_finding import of_rows, of_variant
from treeleak.auditing.inventory.inventory import Entry
from treeleak.auditing.inventory.other_models import OtherModel
from treeleak.auditing.inventory.vocabulary import known_names, known_place
from treeleak.core.errors import NotCovered
from treeleak.core.message import FigureWithSupport, Message, MessageTemplate, message_of
from treeleak.core.text import listed
from treeleak.formats.literals import Verdict
from treeleak.metrics.membership import Bounded
from treeleak.metrics.shadow_models import DirectScore
from treeleak.reconstruction import Reconstruction

if TYPE_CHECKING:
    from treeleak.auditing.case import AuditResults


MOST_PARTS = 3
"""Parts that one finding names."""


def find(found: AuditResults) -> tuple[Finding, ...]:
    """Judge each part.

    - *Inventory*: leak shown if training rows, or the labels of all in their order, stand in the
      model as they are. Possible leak if another value of each row does, in their order: its leaf,
      its prediction, its weight. Not assessed if there are parts that no rule knows, lists of
      values of single rows, or fitted models that no attack looks at: then "no leak shown" is not
      said. All else that it lists is material for attacks, not a leak by itself: a remark.
    - *Counts*: remarks only, but for targets of single rows that the file holds or proves, a leak
      shown. A small leaf breaks the rules of output checking; whether rows
      follow from it is what the reconstruction finds out.
    - *Noise*: a remark on the privacy budget. A bound on what can leak is neither a leak nor none.
      Where the counts do not carry the noise that is stated, no leak shown is not assessed.
    - *Reconstruction*: by :func:`~treeleak.auditing.findings.rows_finding.of_rows`.
    - *Variants*, made with less to go by: leak shown if measured so, else a remark.
    - *Membership* (shadow models): leak shown, possible leak, or no leak shown, by how often a
      member is picked beside a person left out. It stands for itself where the rows are not
      assessed; the headline then says so, and no policy is met.
    - *Uncertainty*: of a tree, a remark, for the reconstruction says whether rows follow. Of rules:
      leak shown if any row has no residual uncertainty, or of rows that share their rule with fewer
      than ten in all: a table of many alike is a statistic. Otherwise no leak shown; not assessed
      where the counts are not the model's own, or the training rows not possible under the schema.

    Where proofs or the comparison are listed as not assessed, no leak shown is not assessed.
    """
    budget, rebuilt = found.budget, found.reconstruction
    unfinished = found.reason("reconstruction") or found.reason("measurement")
    findings = [*_of_inventory(found.inventory), *_of_people(found), *_of_others(found)]
    findings += [*_of_counts(found.counts), *_of_targets(found), *_of_row_facts(found)]
    findings += _of_isolation(found.isolation)
    if found.release is not None and found.release.left_out is not None:
        findings.append(Finding("counts", OPEN, (message_of(found.release.left_out),)))
    if budget is not None:
        noise_verdict = OPEN if budget.doubted else None
        fix = ("law",) if budget.noisy and (budget.overspent or budget.cost is None) else ()
        findings.append(Finding("noise", noise_verdict, (wording.NOISE(budget=budget),), fix=fix))
    if rebuilt is not None:
        outside = []
        if found.impossible:
            outside.append(wording.IMPOSSIBLE() if found.schema_provided else wording.NOT_GUESSED())
        complete = found.measurement is not None and found.measurement.exact_rows == 1.0
        if found.narrower and not complete:
            of = ("schema", "narrower ") if found.schema_provided else ("model", "")
            outside.append(wording.NARROWER(of=of[0], narrower=of[1]))
        findings += of_rows(found, rebuilt, unfinished, outside)
        findings += _of_draws(rebuilt)
        findings += [
            of_variant(v.what, v.measurement, rebuilt) for v in found.variants if v.measurement
        ]
    if found.shadows is not None and found.mismatch is None:
        findings.append(_of_shadows(found.shadows))
    if found.uncertainty is not None:
        findings.append(_of_uncertainty(found.uncertainty, found.proofs_hold))
    return (*findings, *_of_each_row(found.inventory), *_of_parts(found))


def overall(findings: Iterable[Finding]) -> Verdict:
    """Take the worst: a leak shown anywhere is one; no leak needs an attack that ended.

    Nor can there be said to be none while rows may stand in a part that no rule knows, while values
    of single rows stand in one, while no attack looked at a fitted model in the file or at a part
    of the trees, or while the counts do not carry the noise that is stated for them.
    """
    found = tuple(findings)
    verdicts = {f.verdict for f in found}
    is_open = any(f.part in ("inventory", "noise", "counts") and f.verdict == OPEN for f in found)
    shown = (LEAK, POSSIBLE) if is_open else (LEAK, POSSIBLE, NO_LEAK)
    return next((v for v in shown if v in verdicts), OPEN)


def _of_inventory(inventory: Sequence[Entry]) -> list[Finding]:
    found = []
    if stored := [e for e in inventory if e.rows and e.change == "rows"]:
        found.append(_stored(wording.STORED, LEAK, stored))
    if unknown := [e for e in inventory if e.unknown]:
        n = len(unknown)
        of = "part of the model is" if n == 1 else "parts of the model are"
        places = list(dict.fromkeys(e.where for e in unknown))
        named, known = (
            wording.UNKNOWN_PARTS(parts=n, of=of, where=listed(list(dict.fromkeys(names)), 3))
            for names in (places, map(known_place, places))
        )
        messages = (named.with_instead(known),)
        found.append(Finding("inventory", OPEN, messages, fix=("unknown",)))
    if leaks := [e for e in inventory if e.mark == "leaks"]:
        materials = ", ".join(dict.fromkeys(e.what for e in leaks))
        fix = tuple(dict.fromkeys(str(e.change) for e in leaks if e.change))
        messages = (wording.MATERIAL_FOR_ATTACKS(kinds=materials),)
        found.append(Finding("inventory", None, messages, fix=fix))
    return found


def _stored(kind: MessageTemplate, verdict: Verdict, entries: Sequence[Entry]) -> Finding:
    """Say what is stored of each row, and where."""
    what = listed(list(dict.fromkeys(e.what for e in entries)))
    held = [(e.where, list(e.names)) for e in entries]
    read = [(known_place(place), known_names(names)) for place, names in held]
    named, known = (
        kind(what=what, where=listed([_at(place, names) for place, names in found]))
        for found in (held, read)
    )
    fix = tuple(dict.fromkeys(str(e.change) for e in entries))
    return Finding("inventory", verdict, (named.with_instead(known),), wording.STORED_RULE(), fix)


def _at(place: str, names: Sequence[str]) -> str:
    """Name a place, and what stands there unless the place says it."""
    return place if not names or names[0] in place else f"{place} ({listed(names, 3)})"


def _of_each_row(inventory: Sequence[Entry]) -> list[Finding]:
    """Say what the file holds of each row beside the table: labels, and what follows from a row."""
    labels = [e for e in inventory if e.rows and e.change != "rows"]
    linked = [e for e in inventory if e.in_order]
    kinds = (wording.LABELS_STORED, LEAK, labels), (wording.ORDER_STORED, POSSIBLE, linked)
    return [_stored(*kind) for kind in kinds if kind[2]]


def _of_people(found: AuditResults) -> list[Finding]:
    """Say which parts hold values of single rows, by their number."""
    listed_by = [(entry, entry.held) for entry in found.inventory if entry.held is not None]
    if not listed_by or found.people is None:
        return []
    rows, messages = found.people, []
    for entry, held in listed_by[:MOST_PARTS]:
        where = f"{entry.where} ({', '.join(entry.names[:3])})"
        named, known = (
            wording.VALUES_OF_PEOPLE(values=held.values, rows=rows, where=place)
            for place in (where, known_place(entry.where))
        )
        messages.append(named.with_instead(known))
        if held.column is not None:
            share = "each" if held.values >= rows else "nearly each"
            messages.append(wording.IDENTIFIER(column=[held.column], share=share, rows=rows))
    return [Finding("inventory", OPEN, tuple(messages), fix=("values",))]


def _of_others(found: AuditResults) -> list[Finding]:
    others = found.others
    if not others:
        return []
    threshold = THRESHOLD if found.counts is None else found.counts.threshold
    n = len(others)
    noun, them = ("model", "it") if n == 1 else ("models", "them")
    named, known = (
        wording.OTHER_MODELS(models=n, noun=noun, them=them, where=listed(places, 3))
        for places in (
            [_place(other, threshold) for other in others],
            list(dict.fromkeys(known_place(other.place) for other in others)),
        )
    )
    return [Finding("inventory", OPEN, (named.with_instead(known),), fix=("other models",))]


def _of_parts(found: AuditResults) -> list[Finding]:
    """Give the verdict on each model beside the main one, and what it rests on."""
    findings = []
    for part in found.parts:
        audit = part.audit
        if audit.verdict == OPEN:
            # Said of the models that no attack looked at.
            continue
        decided = [f for f in audit.findings if f.verdict == audit.verdict and f.messages]
        told = wording.PART_FOUND(found=decided[0].messages[0]) if decided else ""
        named, known = (
            wording.PART_ATTACKED(name=part.name, where=place, verdict=audit.verdict, found=told)
            for place in (part.place, known_place(part.place))
        )
        message = named.with_instead(known)
        fix = tuple(dict.fromkeys(code for f in decided for code in f.fix))
        findings.append(Finding("inventory", audit.verdict, (message,), wording.PART_RULE, fix))
    return findings


def _place(other: OtherModel, threshold: int) -> str:
    """Say where a model is, and how many of its leaves are small."""
    try:
        total = count_other(other, threshold).total
    except NotCovered:
        return f"{other.place} ({other.name})"
    small = f"{total['small']:,} of {total['leaves']:,} leaves hold fewer than {threshold} rows"
    return f"{other.place} ({other.name}, {small})"


def _of_counts(counts: Counts | None) -> list[Finding]:
    if counts is None:
        return []
    total, unit, of, found = counts.total, counts.unit, counts.of, []
    if total["small"]:
        message = wording.SMALL(
            small=total["small"], leaves=total["leaves"], of=of, threshold=counts.threshold,
            unit=unit, single=total["single"],
        )  # fmt: skip
        found.append(Finding("counts", None, (message,), fix=(of,)))
    if total["one_class"]:
        message = wording.ONE_CLASS(leaves=total["one_class"], of=of)
        found.append(Finding("counts", None, (message,), fix=(of,)))
    return found


def _of_isolation(isolation: Isolation | None) -> list[Finding]:
    """Say whom counts alone isolate: a remark, for a predicate need not be of few people."""
    if isolation is None:
        return []
    n = isolation.people if isolation.people is not None else isolation.different
    messages = [
        wording.ISOLATED(
            people=n, at_least="" if isolation.people is not None else " at least",
            predicates=isolation.predicates, among=isolation.of,
            beyond=FigureWithSupport(isolation.beyond_luck, isolation.beyond_luck),
        )
    ]  # fmt: skip
    if k := isolation.by_difference:
        messages.append(wording.DIFFERENCED(predicates=FigureWithSupport(k, k)))
    if isolation.false:
        messages.append(wording.FALSE_CLAIMS(wrong=isolation.false))
    return [Finding("counts", None, tuple(messages), fix=("leaves",))]


def _of_shadows(shadows: Shadows) -> Finding:
    """Say whether models trained like this one tell who was among their rows."""
    largest = shadows.direct or shadows.sizes[-1]
    area = largest.auc
    rates = {"auc": area.value, "low": area.interval.low, "high": area.interval.high}
    if isinstance(largest, DirectScore):
        messages = [wording.MEMBERS_DIRECT(**rates)]
    else:
        messages = [wording.MEMBERS_TOLD(rows=largest.rows, models=largest.models, **rates)]
    if largest.caught is not None:
        messages.append(wording.MEMBERS_CAUGHT(share=largest.caught.value))
    if shadows.auc is None:
        messages.append(wording.MEMBERS_OF_SMALLER())
    elif shadows.auc is not largest.auc:
        messages.append(wording.MEMBERS_AT_FULL_SIZE(low=shadows.auc.interval.low))
    if (verdict := of_auc(shadows.auc)) is None:
        return Finding("membership", None, tuple(messages))
    rule = wording.MEMBERS_RULES[verdict](least=MATERIAL)
    if verdict != NO_LEAK:
        return Finding("membership", verdict, tuple(messages), rule, ("leaves", "fewer"))
    return Finding("membership", verdict, tuple(messages), rule)


def of_auc(auc: Bounded | None) -> Verdict | None:
    """Say whether membership is disclosed; None where the interval settles nothing."""
    if auc is None:
        return None
    low, high = auc.interval
    if low >= MATERIAL:
        return LEAK
    return NO_LEAK if high < MATERIAL else POSSIBLE if low > 0.5 else None


def _of_targets(found: AuditResults) -> list[Finding]:
    """Say what can be read of a model of several targets, which no attack rebuilds."""
    release, counts = found.release, found.counts
    if release is None or release.n_targets == 1:
        return []
    messages, fix = [wording.SEVERAL_TARGETS(targets=release.n_targets)], tuple[str, ...]()
    if counts is not None and counts.unit == "rows" and (single := counts.total["single"]):
        messages.append(wording.TARGETS_TOLD(single=single, leaves=counts.total["leaves"]))
        fix = (counts.of,)
    return [Finding("counts", OPEN, tuple(messages), fix=fix)]


def _of_row_facts(found: AuditResults) -> list[Finding]:
    """Say of how many rows the file tells the target, whatever else is rebuilt of them."""
    facts = None if found.release is None else found.release.row_facts
    if facts is None or not facts.exact.any():
        return []
    exact, censored = int(facts.exact.sum()), int(facts.censored.sum())
    order = ", by its number" if facts.in_order else ""
    messages = [wording.OUTCOMES_TOLD(exact=exact, rows=facts.n_rows, order=order)]
    if censored:
        messages.append(wording.CENSORED_TOLD(censored=censored))
    fix = ("event times",) if facts.high is not facts.targets else ("rows",)
    return [Finding("counts", LEAK, tuple(messages), wording.OUTCOMES_RULE(), fix)]


def _of_uncertainty(left: Uncertainty, proofs_hold: bool) -> Finding:
    def found(
        verdict: Verdict | None, *messages: Message, evidence: Message | None = None
    ) -> Finding:
        fix = ("rules", "rule counts") if verdict == LEAK else ()
        return Finding("uncertainty", verdict, messages, evidence, fix)

    if left.of == "leaves":
        return found(None, left.in_full)
    if not left.exact:
        return found(OPEN, FILLED, left.in_full)
    if not proofs_hold:
        return found(OPEN, wording.NOTHING_SURE())
    if left.n_rows and left.told == left.n_rows:
        message, rule = wording.ALL_TOLD(rows=left.n_rows), wording.ALL_TOLD_RULE()
        return found(LEAK, message, left.in_full, evidence=rule)
    if left.told_in_small:
        message = wording.SOME_TOLD(told=left.told_in_small, threshold=THRESHOLD)
        rule = wording.SOME_TOLD_RULE(threshold=THRESHOLD)
        return found(LEAK, message, left.in_full, evidence=rule)
    return found(NO_LEAK, left.in_full, evidence=wording.LEFT_RULE())


def _of_draws(reconstruction: Reconstruction) -> list[Finding]:
    if reconstruction.draws_hidden:
        hidden = wording.DRAWS_HIDDEN()
        return [Finding("reconstruction", None, (hidden,), fix=("hidden",))]
    if reconstruction.draws is None:
        return []
    known = wording.DRAWS_KNOWN(draws=reconstruction.draws)
    found = [Finding("reconstruction", None, (known,), fix=("seeds",))]
    if never := reconstruction.numbers.get("rows_never_drawn", 0):
        found.append(Finding("reconstruction", None, (wording.NEVER_DRAWN(never=never),)))
    return found
