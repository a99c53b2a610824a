"""What an audit concludes from what was found, and what it advises: rules, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from treeleak.audit.budget import Budget
from treeleak.audit.counts import THRESHOLD, Counts
from treeleak.audit.inventory import Entry
from treeleak.audit.measurement import Measurement, Variant
from treeleak.audit.percent import percent
from treeleak.audit.releasable import Edition
from treeleak.audit.uncertainty import FILLED, Uncertainty
from treeleak.metrics import Significance
from treeleak.reconstruction import Reconstruction

__all__ = ["Finding", "Verdict", "advise", "find", "overall"]

Verdict = Literal[
    "leak shown", "no leak shown by these attacks (this is no proof of safety)", "not assessed"
]
LEAK: Verdict = "leak shown"
NO_LEAK: Verdict = "no leak shown by these attacks (this is no proof of safety)"
OPEN: Verdict = "not assessed"

CLEARLY = 3.0
"""Standard deviations below the random guess from which on an error counts as clearly below."""

SIGNIFICANT = 0.05
"""Greatest rank among other draws of the population at which rows count as those of the model."""

_MAYBE_POPULATION = (
    " That may be what the model tells of their population; with other rows of it (--control) the "
    "audit tells these apart."
)


@dataclass(frozen=True)
class Finding:
    """Something that the audit found.

    Attributes
    ----------
    part : {"inventory", "counts", "noise", "reconstruction", "uncertainty"}
    verdict : str or None
        None for a remark that the verdict does not rest on.
    text : str
        In plain words, for somebody who has not read the rest.
    unnamed : str or None
        The same for the releasable edition, where :attr:`text` speaks of single leaves or values.
    """

    part: Literal["inventory", "counts", "noise", "reconstruction", "uncertainty"]
    verdict: Verdict | None
    text: str
    unnamed: str | None = None

    def said(self, edition: Edition) -> str:
        """The text, as it may stand in an edition."""
        return self.text if edition == "internal" or self.unnamed is None else self.unnamed

    def to_dict(self, edition: Edition = "internal") -> dict[str, Any]:
        """Describe the finding (formats/audit.schema.json)."""
        return {"part": self.part, "verdict": self.verdict, "text": self.said(edition)}


def find(
    inventory: Sequence[Entry],
    counts: Counts | None,
    reconstruction: Reconstruction | None,
    measurement: Measurement | None,
    singled_out: int,
    proofs_hold: bool = True,
    variants: Sequence[Variant] = (),
    budget: Budget | None = None,
    uncertainty: Uncertainty | None = None,
) -> tuple[Finding, ...]:
    """Judge each part.

    - *Inventory*: leak shown if training rows stand in the model as they are. All else that it
      lists is material for attacks, not a leak by itself: a remark.
    - *Counts*: remarks only. A small leaf breaks the rules of output checking; whether rows
      follow from it is what the reconstruction finds out.
    - *Noise*: a remark on the privacy budget. A bound on what can leak is neither a leak nor none.
      Where the counts do not carry the noise that is stated, no leak shown is not assessed.
    - *Reconstruction*: leak shown if, measured against the training rows, its error is more than
      three standard deviations below that of a random guess, and, where counts carry noise, as far
      below what the attack guesses from the shape of the trees alone; where other rows of the
      population were given (twice as many as training rows or more), instead if at most one in
      twenty draws of them is as near to what was rebuilt. Or if, with or without training rows, it
      is unique (under the schema), or proves a row that shares its place with no other row. Rows
      that were given do not count. Otherwise no leak shown if it meets every count; not assessed if
      it does not (time ran out, or the counts contradict each other), or if there are no training
      rows and what was rebuilt is only likely, or one of datasets too many to look at all: such
      rows prove nothing, and may all be right.
      Where a training row is not possible under the schema, no proof holds, and no leak shown is
      not assessed.
    - *Variants*, made with less to go by: leak shown if measured so, else a remark.
    - *Uncertainty*: of a tree, a remark, for the reconstruction says whether rows follow. Of rules:
      leak shown if nothing is left to know of any row, or of rows that share their rule with fewer
      than ten in all: a table of many alike is a statistic. Otherwise no leak shown; not assessed
      where the counts are not the model's own, or the training rows not possible under the schema.
    """
    found = [*_of_inventory(inventory), *_of_counts(counts)]
    if budget is not None:
        found.append(Finding("noise", OPEN if budget.refuted else None, str(budget)))
    if reconstruction is not None:
        noisy = reconstruction.behind_noise
        found += _of_rows(reconstruction, measurement, singled_out, proofs_hold, noisy)
        found += _of_draws(reconstruction)
        found += [_of_variant(v.what, v.measurement, noisy) for v in variants if v.measurement]
    if uncertainty is not None:
        found.append(_of_uncertainty(uncertainty, proofs_hold))
    return tuple(found)


def overall(findings: Iterable[Finding]) -> Verdict:
    """Take the worst: a leak shown anywhere is one; no leak needs an attack that ended.

    Nor does no leak follow from counts that do not carry the noise that is stated for them.
    """
    found = list(findings)
    verdicts = {f.verdict for f in found}
    if LEAK in verdicts:
        return LEAK
    refuted = any(f.part == "noise" and f.verdict == OPEN for f in found)
    return NO_LEAK if NO_LEAK in verdicts and not refuted else OPEN


def _of_inventory(inventory: Sequence[Entry]) -> list[Finding]:
    found = []
    if stored := ", ".join(dict.fromkeys(e.where for e in inventory if e.rows)):
        text = f"The model stores training rows as they are, in {stored}."
        found.append(Finding("inventory", LEAK, text))
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
        return Finding("uncertainty", None, str(left), left.average)
    if not left.exact:
        return Finding("uncertainty", OPEN, f"{FILLED} {left}", f"{FILLED} {left.average}")
    if not proofs_hold:
        text = "Training rows are not possible under the schema: nothing is told for sure."
        return Finding("uncertainty", OPEN, text)
    if left.n_rows and left.told == left.n_rows:
        text = f"All {left.n_rows:,} training rows are told in every value. "
        return Finding("uncertainty", LEAK, f"{text}{left}", f"{text}{left.average}")
    if left.told_in_small:
        how = (
            "rows are told in every value, and share their rule with fewer "
            f"than {THRESHOLD} in all."
        )
        text, unnamed = f"{left.told_in_small:,} {how} {left}", f"Some {how} {left.average}"
        return Finding("uncertainty", LEAK, text, unnamed)
    return Finding("uncertainty", NO_LEAK, str(left), left.average)


def _of_rows(
    reconstruction: Reconstruction,
    measurement: Measurement | None,
    singled_out: int,
    proofs_hold: bool,
    noisy: bool,
) -> list[Finding]:
    n, status = reconstruction.n_rows, reconstruction.status
    if status == "infeasible":
        text = "No rows fit the counts and the schema"
        named = f"{text}: {reconstruction.contradiction}."
        return [Finding("reconstruction", OPEN, named, f"{text}.")]
    found: list[Finding] = []
    given = int(reconstruction.given.all(axis=1).sum())
    if n and given == n:
        text = f"All {n:,} rows were given: there was nothing to rebuild."
        return [Finding("reconstruction", OPEN, text)]
    if status == "unique" and proofs_hold:
        order = ", in their order" if reconstruction.ordered else ""
        open_ = " that were not given" * bool(given)
        text = (
            f"All {n - given:,} training rows{open_} were rebuilt{order}: no other rows fit the "
            "counts and the schema."
        )
        found.append(Finding("reconstruction", LEAK, text))
    elif singled_out and proofs_hold:
        text = (
            f"{singled_out:,} of {n:,} rows are proved under the schema, and proved to share their "
            "place with no other row of their class, in all that the trees can tell apart"
        )
        if reconstruction.ordered:
            proved = round(reconstruction.share_proved_rows * (n - given))
            text = (
                f"{proved:,} of {n:,} rows are proved under the schema, each under the number of "
                f"its row, and {singled_out:,} of them are like no other rebuilt row, in all that "
                "the trees can tell apart"
            )
        if reconstruction.free_columns:
            text += f" ({len(reconstruction.free_columns)} columns are not tested by any tree)"
        found.append(Finding("reconstruction", LEAK, text + "."))
    if measurement is not None:
        m = measurement
        leak, test = _shows_leak(m, noisy), _test(m)
        rows, how, in_order = m.exact_rows, "exactly", m.exact_in_order
        if reconstruction.interval_columns:
            rows, how, in_order = m.located_rows, "as far as the trees tell", m.located_in_order
        order = "" if in_order is None else f", {percent(in_order)} in their own place"
        beside = " that were not given" * bool(reconstruction.given.any())
        text = (
            f"{percent(m.error, 1)} of the rebuilt values{beside} are wrong, "
            f"{percent(m.guess_mean, 1)} in a random guess{_of_shape(m)}; {percent(rows)} of the "
            "training rows"
            f"{' that were not given' * bool(given)} were rebuilt {how}{order}."
        )
        if test is not None:
            text += f" {_of_others(test)}"
        elif leak and status == "likely":
            text += _MAYBE_POPULATION
        if leak:
            found.append(Finding("reconstruction", LEAK, text))
        else:
            blind = noisy and test is None and m.shape is None
            if blind:
                text += " What the shape of the trees alone gives was not found out: interrupted."
            elif test is None:
                text += " That is not clearly better."
            if not proofs_hold:
                text += " But not all training rows are possible under the schema."
            tried = OPEN if status == "unknown" or blind or not proofs_hold else NO_LEAK
            found.append(Finding("reconstruction", tried, text))
    if not found:
        if not proofs_hold:
            text = "Training rows are not possible under the schema: nothing is proved."
            found.append(Finding("reconstruction", OPEN, text))
        elif status == "unknown":
            stopped = "Interrupted" if reconstruction.interrupted else "Time ran out"
            text = f"{stopped} before any row was rebuilt."
            if n and reconstruction.row_count is not None:
                text = f"{stopped} before the search for {n:,} likely rows had settled."
            elif n:
                text = f"{stopped}: the {n:,} rows so far miss counts by {reconstruction.misfit:g}."
            found.append(Finding("reconstruction", OPEN, text))
        elif status == "likely":
            wrong = reconstruction.expected_error
            sure = f" It expects {percent(wrong, 1)} of their values to be wrong." if wrong else ""
            text = (
                f"The attack rebuilt {n:,} rows that are likely, and proves none.{sure} How "
                "many are right, only a comparison with the training rows can show."
            )
            found.append(Finding("reconstruction", OPEN, text))
        elif reconstruction.cells.startswith("generated"):
            text = (
                f"{n:,} rows that fit every count were found. Nothing could be proved of them, nor "
                "that others fit, for there are too many possible values to look at all. How many "
                "are right, only a comparison with the training rows can show."
            )
            found.append(Finding("reconstruction", OPEN, text))
        else:
            text = (
                f"{n:,} rows that fit every count were found; so do others. No row that stands "
                "alone is proved in all that the trees test."
            )
            found.append(Finding("reconstruction", NO_LEAK, text))
    return found


def _test(m: Measurement) -> Significance | None:
    """The test against the population, if there were rows enough for it."""
    test = m.significance
    return None if test is None or test.overlapping else test


def _shows_leak(m: Measurement, noisy: bool) -> bool:
    """Whether the rebuilt rows are nearer to the training rows than chance and population explain.

    What a model says of its population is no leak of its rows: so where both can be told apart,
    better than a guess is not enough. Nor is it where the attack would guess as well without what
    the model counts.
    """
    test = _test(m)
    if test is not None:
        return test.rank <= SIGNIFICANT
    bar = m.guess_mean - CLEARLY * m.guess_sd
    if noisy:
        if m.shape is None:
            return False
        bar = min(bar, m.shape.error - CLEARLY * max(m.shape.sd, m.guess_sd))
    return m.error < bar


def _of_shape(m: Measurement) -> str:
    if m.shape is None:
        return ""
    return (
        f", {percent(m.shape.error, 1)} in what the attack would guess from the shape of the trees "
        "alone"
    )


def _of_others(test: Significance) -> str:
    near = f"{test.as_near:,} of {len(test.errors):,} other draws of the population are as near: "
    if test.rank <= SIGNIFICANT:
        return near + "the model told of these very rows."
    return near + "what was rebuilt may be the population and not these rows."


def _of_variant(what: str, m: Measurement, noisy: bool) -> Finding:
    text = (
        f"{what.capitalize()}: {percent(m.error, 1)} of the rebuilt values are wrong, "
        f"{percent(m.exact_rows)} of the training rows were rebuilt exactly."
    )
    if not _shows_leak(m, noisy):
        return Finding("reconstruction", None, text)
    return Finding("reconstruction", LEAK, text + _MAYBE_POPULATION * (_test(m) is None))


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


_CHANGES: Mapping[str, str] = {
    "rows": "Do not release the part that stores the training table; use one that keeps "
    "summaries only.",
    "per_row": "Delete what has one entry per training row (weights, out-of-bag predictions) "
    "before release.",
    "seeds": "Delete all seeds from the released file: that of the forest and those of the trees "
    "(scikit-learn stores one per tree even if you gave none). That alone is not enough: a small "
    "seed of the forest, such as 0 or 42, is found again by trying all. So train with "
    "random_state=None, or with a large seed that you keep secret, and delete n_node_samples, by "
    "which a right seed shows.",
    "hidden": "Do not rely on hidden draws: the counts in the leaves are enough without them, so "
    "that deleting seeds alone does not help.",
    "counts": "Release fewer counts: to predict, a tree needs its splits and the answer of each "
    "leaf. Counts in nodes, impurities and exact class shares are not needed.",
    "rule counts": "Publish the rules without counts: to predict, a rule needs its conditions and "
    "its answer. If readers need its support, round it.",
    "rules": "Publish fewer and shorter rules that each capture more rows (a smallest support of "
    "10 or more, a smaller width).",
    "leaves": "Grow larger leaves and fewer trees (min_samples_leaf=10 or more, max_depth, "
    "n_estimators).",
    "values": "Round, bin or merge rare values before training, so that thresholds, categories "
    "and extremes belong to many rows.",
    "noise": "Train with differential privacy: of all changes named here, it alone also bounds "
    "what attacks not yet known can find.",
    "noise seeds": "Train again without a seed, and delete every seed from the released file: with "
    "it, or with a small one that is found by trying, the noise can be drawn again and taken off.",
    "law": "Use discrete Laplace noise, as treeleak.learn.DPForestClassifier does: it costs what "
    "it states. The noise of this model costs more, or has no bound.",
    "epsilon": "Spend a smaller epsilon. At 1 a row changes no probability by more than a factor "
    "of 3, at 5 already by 148.",
    "trees": "Grow fewer and shallower trees: what several trees say of the same row adds up, and "
    "the noise averages out.",
}


def advise(
    inventory: Sequence[Entry],
    counts: Counts | None,
    verdict: Verdict,
    reconstruction: Reconstruction | None = None,
    measurement: Measurement | None = None,
    variants: Sequence[Variant] = (),
    budget: Budget | None = None,
) -> tuple[str, ...]:
    """Choose what to change, by what was found; the most pressing first."""
    wanted = {e.change for e in inventory if e.mark == "leaks"}
    chosen = {str(key) for key in wanted if key}
    if reconstruction is not None and reconstruction.draws is not None:
        chosen.add("seeds")
    hidden = ""
    if reconstruction is not None and reconstruction.draws_hidden:
        chosen.add("hidden")
        hidden = _of_distinct(reconstruction, measurement, variants)
    if counts is not None and counts.total["small"]:
        chosen.add(counts.of)
    if budget is not None and budget.noisy and (budget.overspent or budget.cost is None):
        chosen.add("law")
    if verdict == LEAK:
        chosen |= {"noise"} if budget is None or not budget.noisy else {"epsilon", "trees"}
    if not chosen:
        return ("Nothing that was assessed calls for a change; what was not assessed may.",)
    again = "Then audit the changed file again: each change alone may not be enough."
    texts = (text + hidden * (key == "hidden") for key, text in _CHANGES.items() if key in chosen)
    return (*texts, again)


def _of_distinct(
    reconstruction: Reconstruction, measurement: Measurement | None, variants: Sequence[Variant]
) -> str:
    """Say what it would save to leave out the numbers of distinct rows."""
    other = next((v for v in variants if v.what == "drawn counts only"), None)
    if other is None:
        return ""
    with_, without, how = reconstruction.expected_error, other.reconstruction.expected_error, ""
    if measurement is not None and other.measurement is not None:
        with_, without = measurement.error, other.measurement.error
    else:
        how = ", as the attack expects"
    if with_ is None or without is None:
        return ""
    return (
        f" If n_node_samples were deleted as well, {percent(without, 1)} of the rebuilt values "
        f"would be wrong{how}; now {percent(with_, 1)} are."
    )
