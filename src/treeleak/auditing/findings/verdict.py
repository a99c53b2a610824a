"""What an audit concludes from what was found: rules, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from treeleak.auditing.assessors.counts import THRESHOLD, Counts
from treeleak.auditing.assessors.uncertainty import FILLED, Uncertainty
from treeleak.auditing.findings.finding import LEAK, NO_LEAK, OPEN, POSSIBLE, Finding, Verdict
from treeleak.auditing.findings.rows_finding import of_rows, of_variant
from treeleak.auditing.inventory.inventory import Entry
from treeleak.core.listed import listed
from treeleak.reconstruction import Reconstruction

if TYPE_CHECKING:
    from treeleak.auditing.result import Found


def find(found: Found, singled_out: int = 0, unfinished: bool = False) -> tuple[Finding, ...]:
    """Judge each part.

    - *Inventory*: leak shown if training rows stand in the model as they are. Not assessed if there
      are parts that no rule knows: then "no leak shown" is not said. All else that it lists is
      material for attacks, not a leak by itself: a remark.
    - *Counts*: remarks only. A small leaf breaks the rules of output checking; whether rows
      follow from it is what the reconstruction finds out.
    - *Noise*: a remark on the privacy budget. A bound on what can leak is neither a leak nor none.
      Where the counts do not carry the noise that is stated, no leak shown is not assessed.
    - *Reconstruction*: by :func:`~treeleak.auditing.findings.rows_finding.of_rows`.
    - *Variants*, made with less to go by: leak shown if measured so, else a remark.
    - *Uncertainty*: of a tree, a remark, for the reconstruction says whether rows follow. Of rules:
      leak shown if nothing is left to know of any row, or of rows that share their rule with fewer
      than ten in all: a table of many alike is a statistic. Otherwise no leak shown; not assessed
      where the counts are not the model's own, or the training rows not possible under the schema.

    ``singled_out``: rows that are proved, and proved to share their place with no other.
    ``unfinished``: whether proofs or the comparison were broken off: then no leak shown is not
    assessed.
    """
    budget, rebuilt = found.budget, found.reconstruction
    said = [*_of_inventory(found.inventory), *_of_counts(found.counts)]
    if budget is not None:
        said.append(Finding("noise", OPEN if budget.doubted else None, str(budget)))
    if rebuilt is not None:
        said += of_rows(rebuilt, found.measurement, singled_out, found.proofs_hold, unfinished)
        said += _of_draws(rebuilt)
        said += [of_variant(v.what, v.measurement) for v in found.variants if v.measurement]
    if found.uncertainty is not None:
        said.append(_of_uncertainty(found.uncertainty, found.proofs_hold))
    return tuple(said)


def overall(findings: Iterable[Finding]) -> Verdict:
    """Take the worst: a leak shown anywhere is one; no leak needs an attack that ended.

    Nor can there be said to be none while rows may stand in a part that no rule knows, or while
    the counts do not carry the noise that is stated for them.
    """
    found = tuple(findings)
    verdicts = {f.verdict for f in found}
    doubt = any(f.part in ("inventory", "noise") and f.verdict == OPEN for f in found)
    shown = (LEAK, POSSIBLE) if doubt else (LEAK, POSSIBLE, NO_LEAK)
    return next((v for v in shown if v in verdicts), OPEN)


def _of_inventory(inventory: Sequence[Entry]) -> list[Finding]:
    found = []
    if stored := ", ".join(dict.fromkeys(e.where for e in inventory if e.rows)):
        text = f"The model stores training rows as they are, in {stored}."
        rule = "Training rows stand in the file as they are."
        found.append(Finding("inventory", LEAK, text, rule=rule))
    if unknown := [e for e in inventory if e.unknown]:
        n = len(unknown)
        of = "1 part of the model is" if n == 1 else f"{n:,} parts of the model are"
        places = list(dict.fromkeys(e.where for e in unknown))
        text = f"{of} known to no rule: rows may stand there, and nothing is said about them"
        found.append(Finding("inventory", OPEN, f"{text} ({listed(places, 3)})."))
    if leaks := [e for e in inventory if e.mark == "leaks"]:
        kinds = ", ".join(dict.fromkeys(e.what for e in leaks))
        found.append(
            Finding("inventory", None, f"The model holds what attacks are made of: {kinds}.")
        )
    return found


def _of_counts(counts: Counts | None) -> list[Finding]:
    if counts is None:
        return []
    total, unit, of = counts.total, counts.unit, counts.of
    found = []
    if total["small"]:
        found.append(
            f"{total['small']:,} of {total['leaves']:,} {of} hold fewer than {counts.threshold} "
            f"{unit}, {total['single']:,} of them a single one."
        )
    if total["one_class"]:
        found.append(
            f"{total['one_class']:,} {of} hold one class only: whoever is known to lie there "
            "is known to be of that class."
        )
    return [Finding("counts", None, text) for text in found]


def _of_uncertainty(left: Uncertainty, proofs_hold: bool) -> Finding:
    if left.of == "leaves":
        return Finding("uncertainty", None, left.in_full, left.average)
    if not left.exact:
        return Finding("uncertainty", OPEN, f"{FILLED} {left.in_full}", f"{FILLED} {left.average}")
    if not proofs_hold:
        text = "Training rows are not possible under the schema: nothing is told for sure."
        return Finding("uncertainty", OPEN, text)
    if left.n_rows and left.told == left.n_rows:
        text = f"All {left.n_rows:,} training rows are told in every value. "
        rule = "Nothing is left to know of any row."
        return Finding("uncertainty", LEAK, f"{text}{left.in_full}", f"{text}{left.average}", rule)
    if left.told_in_small:
        how = (
            "rows are told in every value, and share their rule with fewer "
            f"than {THRESHOLD} in all."
        )
        text, unnamed = f"{left.told_in_small:,} {how} {left.in_full}", f"Some {how} {left.average}"
        rule = (
            f"Nothing is left to know of some rows that share a rule with fewer than {THRESHOLD}."
        )
        return Finding("uncertainty", LEAK, text, unnamed, rule)
    rule = "Something is left to know of every row that shares its rule with few others."
    return Finding("uncertainty", NO_LEAK, left.in_full, left.average, rule)


def _of_draws(reconstruction: Reconstruction) -> list[Finding]:
    if reconstruction.draws_hidden:
        text = (
            "Which rows each tree drew is not known: the rows are likely over all possible draws."
        )
        return [Finding("reconstruction", None, text)]
    if reconstruction.draws is None:
        return []
    texts = [f"Which rows each tree drew is known from: {reconstruction.draws}."]
    if never := reconstruction.numbers.get("rows_never_drawn", 0):
        texts.append(f"{never:,} rows were drawn by no tree: the model says nothing of them.")
    return [Finding("reconstruction", None, text) for text in texts]
