"""What follows from the rebuilt rows: proofs first, then the comparison with the training rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pandas as pd

from treeleak.auditing import wording
from treeleak.auditing.assessors.baselines import WORDS
from treeleak.auditing.assessors.compared import Compared
from treeleak.auditing.assessors.comparison import (
    LEVEL,
    MATERIAL,
    Decision,
    decide,
    strongest,
    test_of,
)
from treeleak.auditing.assessors.counts import THRESHOLD
from treeleak.auditing.assessors.measurement import Measurement, came_back
from treeleak.auditing.findings.finding import (
    LEAK,
    NO_LEAK,
    OPEN,
    POSSIBLE,
    Finding,
    in_full,
    in_short,
    more_time_helps,
    time_needed,
    time_words,
)
from treeleak.core.arrays import IntArray
from treeleak.core.message import FigureWithSupport, Message, message_of
from treeleak.formats.literals import Verdict
from treeleak.metrics.scores import FEWEST_PEOPLE, Scores
from treeleak.reconstruction import Reconstruction
from treeleak.schema import Numeric, Ordinal

if TYPE_CHECKING:
    from treeleak.auditing.case import AuditResults

M = TypeVar("M", Measurement, Compared)
_MEASURED_FIX = ("counts", "leaves", "noise")
_LEAST_CONFIDENT = 0.5
"""Share of the rows of which an attack must be sure, where nothing was compared: most of them."""


def of_rows(
    audit: AuditResults, rebuilt: Reconstruction, unfinished: str, outside: Sequence[Message]
) -> list[Finding]:
    """Judge rebuilt rows.

    Leak shown if the rows are unique (under the schema), and not all of them alike to ten others;
    if they prove a row that shares its place with no other row; or if, measured against the
    training rows, they tell of the people (:mod:`treeleak.auditing.assessors.comparison`). Rows
    that were given do not count.

    Possible leak if such a proof rests on weights of rows that the file does not tell; or if rows
    are nearer than baselines without the counts of leaves, but
    not than yardsticks that know the population; and if they are no nearer, but leaves hold single
    people, and thresholds do not lie halfway between the values of these rows, as they do in the
    training rows: then other rows exist that say more. So are rows that meet the sums of all
    leaves, if the attack is sure of most of them, a quarter stands in small places, and none was
    compared.

    Otherwise no leak shown if they meet every count, or lie between datasets that do; not assessed
    if they do not (time ran out, or the counts contradict each other), or if there are no training
    rows and what was rebuilt is only likely, or one of datasets too many to look at all: such rows
    prove nothing, and may all be right. Where a training row is not possible under the schema, no
    proof holds, and no leak shown is not assessed.

    ``unfinished``: why proofs or the comparison were broken off: then no leak shown is not
    assessed. ``outside``: says why the schema is not right for the training rows: it
    does not allow the values of all of them, or allows values that none of them can have.
    """
    if rebuilt.status == "infeasible":
        why = "" if rebuilt.contradiction is None else wording.WHY(why=rebuilt.contradiction)
        known = _known(audit.schema_provided)
        message = wording.CONTRADICTION(known=known, why=why)
        message = message.with_instead(wording.CONTRADICTION(known=known, why=""))
        return [_finding(OPEN, message)]
    if rebuilt.n_rows and rebuilt.given.all():
        return [_finding(OPEN, wording.ALL_GIVEN(rows=rebuilt.n_rows))]
    in_values = all(m.kind is wording.NARROWER for m in outside)
    found, alone = list[Finding](), audit.alone or 0
    if audit.proofs_hold:
        under = " under the schema" * audit.schema_provided
        found = _proved(rebuilt, alone, audit.alone_and_rare, in_values, under)
        if rebuilt.weights_open and audit.truth is None:
            found = [
                replace(f, verdict=POSSIBLE, messages=(*f.messages, wording.IF_WEIGHTS_WHOLE))
                if f.verdict == LEAK
                else f
                for f in found
            ]
    targets = _of_targets(rebuilt)
    if audit.measurement is not None:
        found.append(_compared(rebuilt, audit.measurement, outside))
    found = found or [_alone(audit, rebuilt)]
    single = audit.counts is not None and audit.counts.total["single"]
    met = rebuilt.midpoints_met
    if single and met is not None and met < 1.0:
        better, rule = wording.BETTER_ROWS(met=met), _rule("better", rebuilt)
        found = [
            _finding(POSSIBLE, *f.messages, better, evidence=rule, fix=_MEASURED_FIX)
            if f.verdict == NO_LEAK else f
            for f in found
        ]  # fmt: skip
    if unfinished:
        late = wording.UNFINISHED(why=message_of(unfinished))
        found = [_finding(OPEN, *f.messages, late) if f.verdict == NO_LEAK else f for f in found]
    return [*found, *targets]


def _finding(
    verdict: Verdict | None,
    *messages: Message,
    evidence: Message | None = None,
    fix: tuple[str, ...] = (),
) -> Finding:
    return Finding("reconstruction", verdict, messages, evidence, fix)


# -------------------------------------------------------------------------------------- proofs


def _proved(
    rebuilt: Reconstruction, singled_out: int, rare: int | None, in_values: bool, under: str
) -> list[Finding]:
    n, provided = rebuilt.n_rows, int(rebuilt.given.all(axis=1).sum())
    fix = ("seeds", "counts") if rebuilt.draws is not None else ("counts",)
    if rebuilt.status == "unique" and in_values:
        text = wording.UNIQUE(
            rows=n - provided,
            not_given=" that were not given" * bool(provided),
            order=", in their order" * rebuilt.ordered,
            known=_known(bool(under)),
        )
        rule = wording.UNIQUE_RULE()
        if rebuilt.ordered or _stand_apart(rebuilt):
            return [_finding(LEAK, text, evidence=rule, fix=fix)]
        not_unique = wording.ALIKE(others=THRESHOLD - 1)
        return [_finding(NO_LEAK, text, not_unique, evidence=rule)]
    if not singled_out:
        return []
    in_class = " within their class" * rebuilt.labelled
    unused_columns = _columns_not_tested(rebuilt)
    alone = wording.ALONE(
        alone=singled_out, rows=n, under=under, in_class=in_class, untested=unused_columns
    )
    if rare == 0:
        rule = wording.ALONE_RULE(in_class=in_class)
        return [_finding(POSSIBLE, alone, wording.ALONE_NOT_RARE(), evidence=rule, fix=fix)]
    if not rebuilt.ordered:
        return [_finding(LEAK, alone, evidence=wording.ALONE_RULE(in_class=in_class), fix=fix)]
    proved = round(rebuilt.share_proved_rows * (n - provided))
    text = wording.NUMBERED(
        proved=proved, rows=n, under=under, alone=singled_out, untested=unused_columns
    )
    return [_finding(LEAK, text, evidence=wording.NUMBERED_RULE(), fix=fix)]


def _known(schema_provided: bool) -> str:
    """Name what rows have to fit: no schema where none was given."""
    values = "the schema" if schema_provided else "the values that the thresholds suggest"
    return f"the counts and {values}"


def _columns_not_tested(rebuilt: Reconstruction) -> Message | str:
    """Say of how many columns the model holds nothing."""
    free = len(rebuilt.free_columns)
    return wording.UNTESTED(columns=free) if free else ""


def _of_targets(rebuilt: Reconstruction) -> list[Finding]:
    """Say how many targets the leaves of a regression hold as they are."""
    y = rebuilt.outcomes
    if y is None or rebuilt.labelled:
        return []
    known = int(y.notna().sum())
    return [_finding(None, wording.TARGETS_STORED(told=known, rows=rebuilt.n_rows))]


def _stand_apart(rebuilt: Reconstruction) -> bool:
    """Whether some row that was not given is like few others only."""
    if rebuilt.X is None:
        return False
    size = _alike_of_class(rebuilt.X, rebuilt)
    return bool((size[~rebuilt.given.all(axis=1)] < THRESHOLD).any())


def _alike_of_class(table: pd.DataFrame, rebuilt: Reconstruction) -> IntArray:
    """How many rows of the same class stand in equal lines of a table of the rebuilt rows."""
    y = rebuilt.outcomes
    table = table.assign(**{"": 0 if y is None else y.to_numpy()})
    size = table.groupby(list(table.columns), dropna=False)[""].transform("size")
    return np.asarray(size.to_numpy())


# ---------------------------------------------------------------------------------- comparison


def _compared(rebuilt: Reconstruction, m: Measurement, outside: Sequence[Message]) -> Finding:
    found, free = _weighed(rebuilt, m, outside), set(rebuilt.free_columns)
    numbers = [isinstance(a, (Numeric, Ordinal)) for a in rebuilt.schema.attributes]
    tested = [not free.issuperset(a.columns) for a in rebuilt.schema.attributes]
    in_tested = [n for n, t in zip(numbers, tested, strict=True) if t]
    if not any(1 in (k.count(True), k.count(False)) for k in (numbers, in_tested)):
        return found
    # Of categories and numbers apart, one is about a single column: perhaps one that is not told.
    part = m.on_tested
    one = replace(_in_one(m), on_tested=None if part is None else _in_one(part))
    other = _weighed(rebuilt, one, outside)
    messages = (
        message.with_instead(o) for message, o in zip(found.messages, other.messages, strict=True)
    )
    return replace(found, messages=tuple(messages))


def _in_one(m: M) -> M:
    """Mix categories and numbers."""
    return replace(
        m,
        scores=None if m.scores is None else _whole(m.scores),
        yardsticks=tuple(replace(y, scores=_whole(y.scores)) for y in m.yardsticks),
    )


def _whole(scores: Scores) -> Scores:
    return replace(scores, categories=None, numbers=None)


def _perhaps(m: Measurement) -> Message:
    """Say what would tell single people from all of them."""
    if (few := m.significance) is None:
        return wording.MAYBE()
    if few.overlapping:
        return wording.MAYBE_TOO_FEW(control=few.n_control, needed=few.needed, better=few.better)
    return wording.MAYBE_POPULATION()


def _weighed(rebuilt: Reconstruction, m: Measurement, outside: Sequence[Message]) -> Finding:
    standing, test = decide(m), test_of(m)
    messages = list(_scores(rebuilt, m))
    if (part := m.on_tested) is not None:
        scores = "" if part.scores is None else in_short(part.scores)
        columns = len(rebuilt.schema.columns)
        messages.append(wording.ON_TESTED(left_out=part.left_out, columns=columns, scores=scores))
    if (best := strongest(m)) is not None:
        scores = in_short(best.scores)
        messages.append(wording.STRONGEST(yardstick=WORDS[best.name], scores=scores))
    if test is not None:
        kind = wording.POPULATION_TOO if test.as_near else wording.THESE_ROWS
        if standing.outcome == "nothing":
            kind = wording.AS_NEAR
        messages.append(kind(near=test.as_near, draws=len(test.errors)))
    messages += _in_places(m, standing, rebuilt.labelled)
    if standing.outcome == "people":
        rule = _rule(standing.ways[0], rebuilt)
        return _finding(LEAK, *messages, evidence=rule, fix=_MEASURED_FIX)
    blind = rebuilt.behind_noise and test is None and m.shape is None
    if blind:
        messages.append(wording.SHAPE_OPEN())
    if standing.outcome == "perhaps":
        in_place = standing.ways == ("places",)
        if not in_place:
            messages.append(_perhaps(m))
        rule = _rule("in place, perhaps" if in_place else "perhaps", rebuilt)
        wanted = ("control",) if test is None else ()
        return _finding(POSSIBLE, *messages, evidence=rule, fix=(*wanted, *_MEASURED_FIX))
    alone = m.guess_mean is None
    if alone:
        messages.append(wording.BASELINES_OPEN())
    elif test is None and not blind:
        messages.append(wording.NO_BETTER())
    messages += outside
    pairs = m.judged.pairs
    few = pairs is not None and np.isfinite(pairs.errors).sum() < FEWEST_PEOPLE
    if few:
        messages.append(wording.FEW_TO_TEST(people=FEWEST_PEOPLE))
    if rebuilt.status == "unknown" or alone or blind or few or outside:
        return _finding(OPEN, *messages, *_out_of_time(rebuilt), fix=_time(rebuilt))
    return _finding(NO_LEAK, *messages, evidence=_rule("nothing", rebuilt))


def _rule(name: str, rebuilt: Reconstruction) -> Message:
    kind = wording.RULES[name]
    # Where nobody has a class, people are all of one group.
    values = {
        "least": MATERIAL,
        "chance": f"{100 * LEVEL:g} %",
        "of_class": " of the class" * rebuilt.labelled,
        "of_each_class": " of each class" * rebuilt.labelled,
    }
    return kind(**{name: values[name] for name in kind.places})


def _scores(rebuilt: Reconstruction, m: Measurement) -> Iterator[Message]:
    n = rebuilt.n_rows
    rows, how = came_back(m.exact_rows, m.located_rows, None)
    in_order = m.exact_in_order if how == "exactly" else m.located_in_order
    exact = wording.EXACTLY(
        rows=FigureWithSupport(m.exact_rows, n), untested=_columns_not_tested(rebuilt)
    )
    if m.targets is not None and m.targets >= rows:
        yield wording.TARGETS(rows=FigureWithSupport(m.targets, n))
    yield wording.COMPARED(
        scores=_error(m),
        of_the_rest=", of what was not given" * bool(rebuilt.given.any()),
        rows=FigureWithSupport(rows, n),
        not_given=" that were not given" * bool(rebuilt.given.all(axis=1).any()),
        how=how,
        order="" if in_order is None else wording.IN_ORDER(rows=FigureWithSupport(in_order, n)),
        exactly="" if how == "exactly" else exact,
    )
    if m.targets is not None and m.targets < rows:
        yield wording.TARGETS(rows=FigureWithSupport(m.targets, n))


def _error(m: Measurement) -> Message:
    return wording.WRONG(wrong=m.error) if m.scores is None else in_full(m.scores)


def _in_places(m: Measurement, standing: Decision, labelled: bool) -> list[Message]:
    """Say what the rows tell in their own places, where that is part of the verdict."""
    order = m.judged.in_order
    if order is None or "places" not in standing.ways:
        return []
    sure = standing.outcome == "people"
    return [
        wording.IN_PLACES(
            error=order.error,
            others=order.others,
            of_class=" of the class" * labelled,
            usual_of="its" if labelled else "the",
            usual=order.usual,
            little="" if sure else ": the order of the rows discloses a little about the people",
        )
    ]


def of_variant(what: str, m: Measurement, rebuilt: Reconstruction) -> Finding:
    """Judge what was made with less to go by: a remark, unless that is a leak already."""
    text = wording.VARIANT(what=what.capitalize(), scores=_error(m), rows=m.exact_rows)
    standing = decide(m, LEVEL / 10)
    if standing.outcome != "people":
        return _finding(None, text)
    return _finding(LEAK, text, evidence=_rule(standing.ways[0], rebuilt), fix=_MEASURED_FIX)


# -------------------------------------------------------------------------- without comparison


def _alone(audit: AuditResults, rebuilt: Reconstruction) -> Finding:
    """Say what follows where nothing is proved, and nothing was compared."""
    compare = wording.NOT_COMPARED() if audit.rows_provided else wording.COMPARE()
    n = rebuilt.n_rows
    if not audit.proofs_hold:
        return _finding(OPEN, wording.NOTHING_PROVED())
    if rebuilt.status == "unknown":
        return _finding(OPEN, *_out_of_time(rebuilt), fix=_time(rebuilt))
    if rebuilt.between_datasets and not rebuilt.cells.startswith("generated"):
        return _finding(NO_LEAK, wording.BETWEEN(rows=n), evidence=wording.FEASIBLE_RULE())
    if rebuilt.status == "likely":
        return _finding(OPEN, wording.LIKELY(rows=n, expects=_expects(rebuilt), compare=compare))
    if (trees := rebuilt.numbers.get("trees_settled")) is not None:
        expects = _expects(rebuilt)
        text = wording.FOLLOWED(rows=n, trees=trees, expects=expects, compare=compare)
        return _finding(POSSIBLE, text, evidence=_rule("followed", rebuilt), fix=_MEASURED_FIX)
    if rebuilt.meets_sums and audit.exposure is not None:
        recovered = audit.exposure.recovered
        sure = recovered.proved + recovered.probable
        if sure >= _LEAST_CONFIDENT and _in_small_places(audit, rebuilt) >= MATERIAL:
            figure = FigureWithSupport(sure, recovered.n_rows)
            text = wording.SUMS_MET(rows=n, sure=figure, compare=compare)
            hint = (wording.WEIGHTS_DECIDE,) if rebuilt.weights_open else ()
            rule = _rule("sums met", rebuilt)
            return _finding(POSSIBLE, text, *hint, evidence=rule, fix=_MEASURED_FIX)
    if rebuilt.cells.startswith("generated"):
        return _finding(OPEN, wording.FEASIBLE_OPEN(rows=n, compare=compare))
    return _finding(NO_LEAK, wording.FEASIBLE(rows=n), evidence=wording.FEASIBLE_RULE())


def _in_small_places(audit: AuditResults, rebuilt: Reconstruction) -> float:
    """Share of the rebuilt rows whose place, the leaves of all trees, has few of their class."""
    if audit.release is None or rebuilt.X is None:
        return 0.0
    places = pd.DataFrame(audit.release.leaves(rebuilt.X))
    return float((_alike_of_class(places, rebuilt) < THRESHOLD).mean())


def _expects(rebuilt: Reconstruction) -> Message | str:
    wrong = rebuilt.expected_error
    return wording.EXPECTS(wrong=FigureWithSupport(wrong, rebuilt.n_rows)) if wrong else ""


def _time(rebuilt: Reconstruction) -> tuple[str, ...]:
    return ("time",) * (more_time_helps(rebuilt) and "trees_settled" not in rebuilt.numbers)


def _out_of_time(rebuilt: Reconstruction) -> list[Message]:
    """Say how far the attack came, and how much longer it would need."""
    if rebuilt.status != "unknown":
        return []
    n, stopped = rebuilt.n_rows, rebuilt.end.capitalize()
    if not n:
        return [wording.STOPPED_EARLY(stopped=stopped)]
    expects = _expects(rebuilt)
    more = "; raise --time-limit" if rebuilt.timed_out else ""
    more = "; let it run on" if rebuilt.interrupted else more
    figures = {"stopped": stopped, "rows": n, "more": more, "expects": expects}
    if (n_trees := rebuilt.numbers.get("trees_settled")) is not None:
        return [wording.FIRST_TREES(trees=n_trees, rows=n)]
    if rebuilt.row_count is not None:
        return [wording.STOPPED_UNSETTLED(**figures)]
    if not rebuilt.misfit:
        return [wording.STOPPED_SUMS(**figures)]
    needed, misfit = time_needed(rebuilt.trace), f"{rebuilt.misfit:g}"
    if needed == np.inf and not rebuilt.interrupted:
        return [wording.STOPPED_MISSING(**figures | {"more": ""}, misfit=misfit), wording.NO_PACE()]
    found = wording.STOPPED_MISSING(**figures, misfit=misfit)
    if needed is None or needed == np.inf:
        return [found]
    return [found, wording.PACE(time=time_words(needed))]
