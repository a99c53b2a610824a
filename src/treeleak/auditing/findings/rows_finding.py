"""What follows from the rebuilt rows: proofs first, then the comparison with the training rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from treeleak.auditing.assessors.counts import THRESHOLD
from treeleak.auditing.assessors.measurement import Measurement
from treeleak.auditing.assessors.pace import time_needed, time_words
from treeleak.auditing.assessors.standing import (
    LEVEL,
    MATERIAL,
    Standing,
    standing_of,
    strongest,
    test_of,
)
from treeleak.auditing.assessors.yardsticks import WORDS
from treeleak.auditing.findings.finding import LEAK, NO_LEAK, OPEN, POSSIBLE, Finding, Verdict
from treeleak.auditing.findings.score_words import in_full, in_short
from treeleak.core.percent import percent
from treeleak.metrics import Significance
from treeleak.metrics.margin import FEWEST_PEOPLE
from treeleak.metrics.scores import Scores
from treeleak.reconstruction import Reconstruction
from treeleak.schema import Numeric, Ordinal

_BY_CHANCE = f"{100 * LEVEL:g} %"
_RULES: Mapping[str, str] = {
    "values": "The values of the rebuilt rows are nearer to the training rows than those of every "
    f"yardstick, by at least {percent(MATERIAL)} of the error of each that knows the population, "
    f"and by chance in at most {_BY_CHANCE} of cases, over people.",
    "rows": "More training rows are rebuilt with every value right than any yardstick gets right, "
    f"by chance in at most {_BY_CHANCE} of cases, over people.",
    "places": "Row by row, in their own places, the rebuilt rows are nearer to the training rows "
    f"than the usual values of each class, by at least {percent(MATERIAL)}, and than to other "
    f"people of the class, by chance in at most {_BY_CHANCE} of cases, over people.",
    "perhaps": "The rebuilt rows are nearer to the training rows than guesses of somebody who "
    f"lacks the counts of leaves, by chance in at most {_BY_CHANCE} of cases, but not than "
    "yardsticks that know the population.",
    "in place, perhaps": "Row by row, the rebuilt rows are nearer to the person in their place "
    f"than to other people of the class, by chance in at most {_BY_CHANCE} of cases, but not "
    "clearly nearer than the usual values of the class.",
    "nothing": "The attack ended, proved no row that stands alone, and came no nearer to the "
    "training rows than somebody who lacks the counts of leaves, or than to others of their "
    "population.",
}

_CLASSLESS: Mapping[str, str] = {
    "the usual values of each class": "the usual values",
    "than to other people of the class": "than to other people",
    "the usual values of the class": "the usual values",
    "other people of the class, and that of its usual": "other people, and that of the usual",
}


def of_rows(
    rebuilt: Reconstruction,
    measured: Measurement | None,
    singled_out: int,
    proofs_hold: bool,
    unfinished: bool = False,
) -> list[Finding]:
    """Judge rebuilt rows.

    Leak shown if the rows are unique (under the schema), and not all of them alike to ten others;
    if they prove a row that shares its place with no other row; or if, measured against the
    training rows, they tell of the people (:mod:`treeleak.auditing.assessors.standing`). Rows that
    were given do not count.

    Possible leak if they are nearer than guesses of somebody who lacks the counts of leaves, but
    not than yardsticks that know the population.

    Otherwise no leak shown if they meet every count; not assessed if they do not (time ran out, or
    the counts contradict each other), or if there are no training rows and what was rebuilt is only
    likely, or one of datasets too many to look at all: such rows prove nothing, and may all be
    right. Where a training row is not possible under the schema, no proof holds, and no leak shown
    is not assessed.

    ``singled_out``: rows that are proved, and proved to share their place with no other.
    ``proofs_hold``: whether the schema allows the training rows. ``unfinished``: whether proofs or
    the comparison were broken off: then no leak shown is not assessed.
    """
    if rebuilt.status == "infeasible":
        text = "No rows fit the counts and the schema"
        return [_finding(OPEN, f"{text}: {rebuilt.contradiction}.", unnamed=f"{text}.")]
    if rebuilt.n_rows and rebuilt.given.all():
        return [
            _finding(OPEN, f"All {rebuilt.n_rows:,} rows were given: there was nothing to rebuild.")
        ]
    found = _proved(rebuilt, singled_out) if proofs_hold else []
    told = _of_targets(rebuilt)
    if measured is not None:
        found.append(_compared(rebuilt, measured, proofs_hold))
    found = found or [_alone(rebuilt, proofs_hold)]
    if unfinished:
        late = "But not all of it was found out: see what was not assessed."
        found = [_finding(OPEN, f"{f.text} {late}") if f.verdict == NO_LEAK else f for f in found]
    return [*found, *told]


def _finding(
    verdict: Verdict | None, text: str, rule: str = "", unnamed: str | None = None
) -> Finding:
    return Finding("reconstruction", verdict, text, unnamed, rule)


# -------------------------------------------------------------------------------------- proofs


def _proved(rebuilt: Reconstruction, singled_out: int) -> list[Finding]:
    n, given = rebuilt.n_rows, int(rebuilt.given.all(axis=1).sum())
    if rebuilt.status == "unique":
        order = ", in their order" if rebuilt.ordered else ""
        open_ = " that were not given" * bool(given)
        text = (
            f"All {n - given:,} training rows{open_} were rebuilt{order}: no other rows fit the "
            "counts and the schema."
        )
        if rebuilt.ordered or _stand_apart(rebuilt):
            return [_finding(LEAK, text, "The file proves all rows.")]
        alike = f"Each of them is like {THRESHOLD - 1} others or more: that is a statistic."
        return [_finding(NO_LEAK, f"{text} {alike}", f"The file proves all rows. {alike}")]
    if not singled_out:
        return []
    of_class = " of their class" * rebuilt.labelled
    rule = f"The file proves rows that share their place with nobody else{of_class}."
    text = (
        f"{singled_out:,} of {n:,} rows are proved under the schema, and proved to share their "
        f"place with no other row{of_class}, in all that the trees can tell apart"
    )
    if rebuilt.ordered:
        rule = "The file proves rows, each under its number, that are like no other rebuilt row."
        proved = round(rebuilt.share_proved_rows * (n - given))
        text = (
            f"{proved:,} of {n:,} rows are proved under the schema, each under the number of "
            f"its row, and {singled_out:,} of them are like no other rebuilt row, in all that "
            "the trees can tell apart"
        )
    if rebuilt.free_columns:
        text += f" ({len(rebuilt.free_columns)} columns are not tested by any tree)"
    return [_finding(LEAK, f"{text}.", rule)]


def _of_targets(rebuilt: Reconstruction) -> list[Finding]:
    """Say how many targets the leaves of a regression hold as they are."""
    y = rebuilt.outcomes
    if y is None or rebuilt.labelled:
        return []
    n, told = rebuilt.n_rows, int(y.notna().sum())
    return [
        _finding(
            None,
            f"Leaves store the target of {told:,} of {n:,} rebuilt rows: as it is, where they hold "
            "one row, or rows of one target only, or in sums from which it follows.",
        )
    ]


def _stand_apart(rebuilt: Reconstruction) -> bool:
    """Whether some row that was not given is like few others only."""
    if rebuilt.X is None:
        return False
    y = rebuilt.outcomes
    table = rebuilt.X.assign(**{"": 0 if y is None else y.to_numpy()})
    size = table.groupby(list(table.columns), dropna=False)[""].transform("size").to_numpy()
    return bool((size[~rebuilt.given.all(axis=1)] < THRESHOLD).any())


# ---------------------------------------------------------------------------------- comparison


def _compared(rebuilt: Reconstruction, m: Measurement, proofs_hold: bool) -> Finding:
    found = _judged(rebuilt, m, proofs_hold)
    kinds = [isinstance(a, (Numeric, Ordinal)) for a in rebuilt.schema.attributes]
    if 1 not in (kinds.count(True), kinds.count(False)):
        return found
    # Of categories and numbers apart, one is about a single column: perhaps one that is not told.
    one = replace(
        m,
        scores=None if m.scores is None else _whole(m.scores),
        yardsticks=tuple(replace(y, scores=_whole(y.scores)) for y in m.yardsticks),
    )
    return replace(found, unnamed=_judged(rebuilt, one, proofs_hold).text)


def _whole(scores: Scores) -> Scores:
    return replace(scores, categories=None, numbers=None)


def _judged(rebuilt: Reconstruction, m: Measurement, proofs_hold: bool) -> Finding:
    found = _weighed(rebuilt, m, proofs_hold)
    if rebuilt.labelled:
        return found
    # Nobody has a class there: people are all of one group.
    text, rule = found.text, found.rule
    for classed, plain in _CLASSLESS.items():
        text, rule = text.replace(classed, plain), rule.replace(classed, plain)
    return replace(found, text=text, rule=rule)


def _weighed(rebuilt: Reconstruction, m: Measurement, proofs_hold: bool) -> Finding:
    standing, test = standing_of(m), test_of(m)
    said = [_scores(rebuilt, m)]
    if (best := strongest(m)) is not None:
        said.append(f"The strongest yardstick is {WORDS[best.name]}: {in_short(best.scores)}.")
    if test is not None:
        said.append(_of_others(test))
    said += _in_places(m, standing)
    if standing.tells == "people":
        return _finding(LEAK, " ".join(said), _RULES[standing.ways[0]])
    blind = rebuilt.behind_noise and test is None and m.shape is None
    if blind:
        said.append("What the shape of the trees alone gives was not found out: interrupted.")
    if standing.tells == "perhaps":
        in_place = standing.ways == ("places",)
        if not in_place:
            said.append(_maybe(m))
        rule = _RULES["in place, perhaps" if in_place else "perhaps"]
        return _finding(POSSIBLE, " ".join(said), rule)
    if test is None and not blind:
        said.append("That is not clearly better than a guess.")
    if not proofs_hold:
        said.append("But not all training rows are possible under the schema.")
    few = m.pairs is not None and np.isfinite(m.pairs.errors).sum() < FEWEST_PEOPLE
    if few:
        said.append(f"Fewer than {FEWEST_PEOPLE} people are too few to test.")
    if rebuilt.status == "unknown" or blind or few or not proofs_hold:
        return _finding(OPEN, " ".join([*said, *_out_of_time(rebuilt)]))
    return _finding(NO_LEAK, " ".join(said), _RULES["nothing"])


def _scores(rebuilt: Reconstruction, m: Measurement) -> str:
    rows, how, in_order = m.exact_rows, "exactly", m.exact_in_order
    if rebuilt.interval_columns:
        rows, how, in_order = m.located_rows, "as far as the trees tell", m.located_in_order
    order = "" if in_order is None else f", {percent(in_order)} in their own place"
    beside = ", of what was not given" * bool(rebuilt.given.any())
    given = " that were not given" * bool(rebuilt.given.all(axis=1).any())
    wrong = f"{percent(m.error, 1)} of the rebuilt values are wrong"
    if m.scores is not None:
        wrong = in_full(m.scores)
    targets = ""
    if m.targets is not None:
        targets = f" The target of {percent(m.targets)} of the training rows was rebuilt exactly."
    return (
        f"{wrong}{beside}; {percent(rows)} of the training rows{given} were rebuilt {how}{order}."
        f"{targets}"
    )


def _in_places(m: Measurement, standing: Standing) -> list[str]:
    """Say what the rows tell in their own places, where that is part of the verdict."""
    if m.in_order is None or "places" not in standing.ways:
        return []
    told = (
        f"Row by row, in their places, their error (DRAFT) is {percent(m.in_order.error, 1)}, "
        f"{percent(m.in_order.others, 1)} against other people of the class, and that of its usual "
        f"values {percent(m.in_order.usual, 1)}"
    )
    if standing.tells == "people":
        return [f"{told}."]
    return [f"{told}: the numbers of the rows tell a little of the people."]


def _maybe(m: Measurement) -> str:
    if test_of(m) is not None:
        return (
            "These are the model's own rows more than others of the population, but somebody who "
            "knows the population comes as near: sums over many rows may explain that."
        )
    return (
        "That is better than a guess without the counts of leaves, but not than somebody who knows "
        "the population: it may be what the model tells of all. Rows of the population that the "
        "model was not trained on (--control) would tell."
    )


def _of_others(test: Significance) -> str:
    near = f"{test.as_near:,} of {len(test.errors):,} other draws of the population are as near: "
    if test.as_near == 0:
        return near + "the model told of these very rows."
    return near + "what was rebuilt may be the population and not these rows."


def of_variant(what: str, m: Measurement) -> Finding:
    """Judge what was made with less to go by: a remark, unless that is a leak already."""
    wrong = f"{percent(m.error, 1)} of the rebuilt values are wrong"
    if m.scores is not None:
        wrong = in_full(m.scores)
    text = (
        f"{what.capitalize()}: {wrong[:1].lower()}{wrong[1:]}; {percent(m.exact_rows)} of the "
        "training rows were rebuilt exactly."
    )
    standing = standing_of(m, LEVEL / 10)
    if standing.tells != "people":
        return _finding(None, text)
    return _finding(LEAK, text, _RULES[standing.ways[0]])


# -------------------------------------------------------------------------- without comparison


def _alone(rebuilt: Reconstruction, proofs_hold: bool) -> Finding:
    """Say what follows where nothing is proved, and there are no training rows."""
    n = rebuilt.n_rows
    if not proofs_hold:
        text = "Training rows are not possible under the schema: nothing is proved."
        return _finding(OPEN, text)
    if rebuilt.status == "unknown":
        return _finding(OPEN, " ".join(_out_of_time(rebuilt)))
    only = "only a comparison with the training rows can show (--train)."
    if rebuilt.status == "likely":
        text = (
            f"The attack rebuilt {n:,} rows that are likely, and proves none.{_expects(rebuilt)} "
            f"How many are right, {only}"
        )
        return _finding(OPEN, text)
    if rebuilt.cells.startswith("generated"):
        text = (
            f"{n:,} rows that fit every count were found. Nothing could be proved of them, nor "
            "that others fit, for there are too many possible values to look at all. How many "
            f"are right, {only}"
        )
        return _finding(OPEN, text)
    text = (
        f"{n:,} rows that fit every count were found; so do others. No row that stands "
        "alone is proved in all that the trees test."
    )
    return _finding(NO_LEAK, text, "The attack ended, and proved no row that stands alone.")


def _expects(rebuilt: Reconstruction) -> str:
    wrong = rebuilt.expected_error
    return f" The attack expects {percent(wrong, 1)} of their values to be wrong." if wrong else ""


def _out_of_time(rebuilt: Reconstruction) -> list[str]:
    """Say how far the attack came, and how much longer it would need."""
    if rebuilt.status != "unknown":
        return []
    n = rebuilt.n_rows
    stopped = "Interrupted" if rebuilt.interrupted else "Time ran out"
    if not n:
        said = f"{stopped} before any row was rebuilt."
    elif rebuilt.row_count is not None:
        said = f"{stopped} before the search for {n:,} likely rows had settled."
    else:
        said = f"{stopped}: the {n:,} rows so far miss counts by {rebuilt.misfit:g}."
    if n and rebuilt.row_count is None:
        needed = time_needed(rebuilt.trace)
        pace = "At this pace it is not foreseeable when all would be met."
        if needed is not None and np.isfinite(needed):
            pace = f"At this pace all would be met after about {time_words(needed)}."
        return [said + _expects(rebuilt), pace]
    return [said + (_expects(rebuilt) if n else "")]
