"""The content of a report before drawing: the document of an audit as a sheet of plain data.

The document is that of the edition (:meth:`Audit.to_dict`), so a report says nothing that its JSON
does not. What only the internal edition shows, rows, is not built for the other: whatever draws a
sheet cannot leak them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from treeleak.auditing import Audit, Exposure, NearLeaf
from treeleak.auditing.assessors.baselines import WORDS
from treeleak.auditing.findings.advice import of_the_audit
from treeleak.auditing.findings.finding import (
    LEAK,
    NO_LEAK,
    OPEN,
    POSSIBLE,
    rows_open,
)
from treeleak.auditing.wording import PART_ATTACKED
from treeleak.core.text import free_name, listed, percent, plain, shortened
from treeleak.formats.literals import Edition
from treeleak.reconstruction import Reconstruction
from treeleak.report import facts, sections
from treeleak.report import sections_of_rows as of_rows
from treeleak.report.blocks import Answer, Pages, Prose, Section, Sheet, Tile, Tone
from treeleak.report.facts import Doc


def sheet_of(audit: Audit, edition: Edition = "releasable", command: str | None = None) -> Sheet:
    """Say what an audit found.

    ``command``: what to type to get the audit again; whoever writes the releasable edition leaves
    folders out of it.
    """
    found = audit.document(edition)
    parts = sections_of(found, audit.of, command)
    rows = most_exposed(audit) if edition == "internal" else None
    if rows is not None:
        parts.insert(next(k for k, p in enumerate(parts) if p.key in _AFTER_ROWS), rows)
    source = found["provenance"]
    return Sheet(
        edition=edition,
        model=source["file"] or "a model in memory",
        origin=source["origin"] or "model of unknown origin",
        verdict=found["verdict"],
        tone=sections.tone_of(found),
        headline=found["headline"].removeprefix(f"{found['verdict'].capitalize()}. "),
        answers=_answers(found),
        tiles=tuple(tiles_of(found)),
        sections=tuple(parts),
    )


_AFTER_ROWS = ("notes", "provenance")


def sections_of(found: Doc, of: str, command: str | None = None) -> list[Section]:
    """Say what an audit found by its document: all but single rows.

    ``of``: what groups the rows. ``command``: what to type to get the audit again.
    """
    parts = [
        sections.ruling(found),
        sections.verdict(found),
        sections.not_assessed(found),
        sections.advice(found),
        sections.inventory(found),
        sections.counts(found),
        sections.isolation(found),
        sections.ceiling(found),
        of_rows.recovered(found),
        of_rows.against_guesses(found),
        of_rows.article29(found),
        of_rows.membership(found),
        of_rows.columns(found),
        of_rows.groups(found),
        sections.uncertainty(found, of),
        sections.notes(found),
        sections.provenance(found, command),
    ]
    return [p for p in parts if p is not None and p.blocks]


def _answers(found: Doc) -> tuple[Answer, ...]:
    return (
        Answer("May this model go out?", *_may_it(found)),
        Answer("What leaks?", *_what_leaks(found)),
        _what_helps(found),
    )


def _may_it(found: Doc) -> tuple[str, tuple[str, ...]]:
    if (ruling := found["ruling"]) is not None:
        answer = "The policy lets it pass." if ruling["passed"] else "Not under this policy."
        return answer, (ruling["headline"],)
    compared = found["measurement"] is not None
    answer = {
        LEAK: "Not as it is: it discloses training data.",
        POSSIBLE: "Not yet. First find out whether it discloses single people.",
        NO_LEAK: "Rows came back, but no nearer than baselines: look at what leaks."
        if facts.severe(found) and compared
        else "These attacks showed no leak. That is no proof that there is none.",
        OPEN: "This audit cannot say.",
    }[found["verdict"]]
    return answer, ("No policy given: the accountable person decides.",)


def _what_leaks(found: Doc) -> tuple[str, tuple[str, ...]]:
    m, rebuilt, left = found["measurement"], found["reconstruction"], found["uncertainty"]
    materials = list(dict.fromkeys(e["what"] for e in found["inventory"] if e["mark"] == "leaks"))
    more = [f"The file holds material for attacks: {listed(materials)}."] if materials else []
    more += sections.isolated_in_short(found)
    if stored := [e["what"] for e in found["inventory"] if e["training_rows"]]:
        return f"The file stores as they are: {listed(list(dict.fromkeys(stored)))}.", tuple(more)
    leaks = [f for f in found["findings"] if f["verdict"] == LEAK]
    if leaks and all(f["code"] == PART_ATTACKED.code for f in leaks):
        return "Another model in the file discloses training rows.", (leaks[0]["text"], *more)
    if m is not None:
        share, how = facts.came_back(m)
        free = len((found["reconstruction"] or {}).get("free_columns", ()))
        untested = f" (no tree tests {free} of the columns)" * bool(free)
        exactly = f"; {percent(m['exact_rows'])} on all values{untested}"
        exactly *= share > m["exact_rows"]
        answer = f"{percent(share)} of the training rows can be rebuilt {how}{exactly}."
        if found["verdict"] == NO_LEAK and not facts.severe(found):
            more.insert(0, answer)
            answer = "Nothing beyond what chance or the population explains."
            if _members_alone(found):
                answer = "Not settled: membership alone decided."
        return answer, tuple(more)
    if found["verdict"] == NO_LEAK:
        if facts.severe(found):
            proved = percent(found["exposure"]["recovered"]["proved"])
            more.insert(0, f"{proved} of the rows are proved, but only with others like them.")
        if _members_alone(found):
            return "Not settled: membership alone decided.", tuple(more)
        return "The attacks disclosed no single row.", tuple(more)
    if found["exposure"] is not None and (proved := found["exposure"]["recovered"]["proved"]):
        answer = f"{percent(proved)} of the rows are proved by the file alone."
        return answer, tuple(more)
    if rebuilt is not None and rebuilt["n_rows"]:
        wrong = rebuilt["expected_error"]
        sure = "" if wrong is None else f" Its own estimate of the error is {percent(wrong, 1)}."
        answer = f"The attack rebuilt {rebuilt['n_rows']:,} rows.{sure}"
        return "Not measured: no training rows to compare with.", (answer, *more)
    if left is not None and left["dist_g"] is not None:
        share_text = percent(1 - left["dist_g"])
        return f"{share_text} of the entropy of a row is disclosed, on average.", tuple(more)
    return "Not assessed: no rows were rebuilt.", tuple(more)


def _members_alone(found: Doc) -> bool:
    """Say whether membership alone decided."""
    verdicts = [(f["part"], f["verdict"]) for f in found["findings"]]
    return ("membership", NO_LEAK) in verdicts and rows_open(verdicts)


def _what_helps(found: Doc) -> Answer:
    undecided = found["verdict"] in (OPEN, POSSIBLE)
    advice = [text for text in found["advice"] if undecided or not of_the_audit(text)]
    if len(advice) < 2 and len(found["advice"]) > 1:
        return Answer("What would help?", "Not known yet: the audit is not complete.")
    changes = tuple(first_words(text) for text in advice)
    introduction = "These changes; audit again after each:"
    if len(changes) == 1:
        return Answer("What would help?", changes[0])
    return Answer(
        "What would help?", introduction, ("“What to change” gives the reasons.",), changes[:-1]
    )


def first_words(text: str) -> str:
    """The beginning of an advice, which says what to do; the rest says why."""
    return re.split(r"[.:] | \(", text, maxsplit=1)[0].rstrip(".") + "."


def tiles_of(found: Doc) -> Iterator[Tile]:
    """The figures of the first screen."""
    m, rebuilt, counts = found["measurement"], found["reconstruction"], found["counts"]
    left, tone = found["uncertainty"], sections.tone_of(found)
    if m is not None:
        share, how = facts.came_back(m)
        yield Tile(percent(share), f"of training rows rebuilt {how}", "", tone)
        yield from _score_tiles(m, tone, facts.digits(found))
    elif rebuilt is not None and rebuilt["n_rows"]:
        yield Tile(f"{rebuilt['n_rows']:,}", "rows rebuilt", "not compared with training rows")
        if rebuilt["expected_error"] is not None:
            wrong = percent(rebuilt["expected_error"], 1)
            yield Tile(wrong, "expected error", "the attack's own estimate")
    if found["exposure"] is not None and rebuilt["n_rows"] and not facts.likely(rebuilt):
        detail = "alone or with others like them"
        proved = percent(found["exposure"]["recovered"]["proved"])
        on_what = "of rows proved, on every value that the model's splits distinguish"
        yield Tile(proved, on_what, detail)
    if left is not None and left["dist_g"] is not None:
        yield Tile(percent(left["dist_g"]), "residual uncertainty of a row", "on average")
    if counts is not None and counts["total"]["leaves"]:
        small, leaves = counts["total"]["small"] or 0, counts["total"]["leaves"]
        named = f"of {counts['of']} hold fewer than {counts['threshold']} {counts['unit']}"
        yield Tile(percent(small / leaves), named, f"{small:,} of {leaves:,}")


def _strongest(m: Doc) -> Doc | None:
    """The yardstick that errs least."""
    return min(m["yardsticks"], key=lambda y: float(y["scores"]["error"]), default=None)


def _score_tiles(m: Doc, tone: Tone, digits: int) -> Iterator[Tile]:
    m = facts.judged(m)
    best = _strongest(m)
    scores, other = m["scores"], None if best is None else best["scores"]
    beside = "" if best is None else WORDS[best["name"]]
    where = " in columns that trees test" * ("left_out" in m)
    if scores["categories"] is not None:
        share = "" if other is None else f"{percent(other['categories'], digits)} in {beside}"
        wrong = percent(scores["categories"], digits)
        yield Tile(wrong, f"error of rebuilt categories{where}", share, tone)
    if scores["numbers"] is not None:
        off = "" if other is None else f"{other['numbers']['off']:.2f} in {beside}"
        figure = f"{scores['numbers']['off']:.2f}"
        yield Tile(figure, f"standard deviations off, in rebuilt numbers{where}", off, tone)


ROOM = 8_000_000
"""Letters that the rows may take in the file."""
LONGEST = 200
"""Letters of one value."""
LONGEST_NAME = 80
"""Letters of a column's name above it."""
LONGEST_PLACE = 400
"""Letters that say where a leaf lies."""


def most_exposed(audit: Audit, room: int = ROOM) -> Section | None:
    """List the rebuilt rows, the most exposed first, with the leaves that expose them.

    ``room``: letters that they may take.
    """
    rebuilt, exposure = audit.reconstruction, audit.exposure
    if rebuilt is None or rebuilt.X is None or exposure is None or rebuilt.X.empty:
        return None
    X = rebuilt.X
    if (y := rebuilt.outcomes) is not None:
        X = X.assign(**{free_name(str(y.name), X): y})
    true = None if audit.truth is None else audit.truth.X
    values, codes, true_codes = _coded(X, true)
    ordered = _places(audit, rebuilt, exposure)
    leaves: dict[tuple[str, str], int] = {}
    rows: list[Any] = []
    size = sum(len(v) for column in values for v in column)
    for place, (row, matched, wrong, sure, proved) in enumerate(ordered):
        leaves_of_row = exposure.leaves[place] if place < len(exposure.leaves) else ()
        named = [leaves.setdefault(_named(leaf), len(leaves)) for leaf in leaves_of_row]
        shown, differs = codes[row].tolist(), list[int]()
        if true_codes is not None and matched is not None:
            right = [*true_codes[matched].tolist(), *shown[true_codes.shape[1] :]]
            for c, (mine, others) in enumerate(zip(shown, right, strict=True)):
                if mine != others:
                    differs += [c, mine]
            shown = right
        number = "–" if matched is None else f"{matched + 1:,}"
        facts = [f"{row + 1:,}", number, "–" if wrong is None else f"{wrong:,}",
                 "–" if sure is None else percent(sure), "yes" if proved else "no"]  # fmt: skip
        size += sum(len(f) + 3 for f in facts) + 2 * sum(len(str(c)) for c in (*shown, *differs))
        if size + sum(len(name) + len(where) for name, where in leaves) > room:
            break
        rows.append([facts, shown, differs, named])
    heads = ["Rebuilt row", "Training row", "Wrong values", "Least sure value", "Proved"]
    last = ["Leaves that expose it"] * bool(leaves)
    data = {
        "columns": [*heads, *(shortened(str(c), LONGEST_NAME) for c in X), *last],
        "rows": rows,
        "values": values,
        "leaves": list(leaves) or None,
    }
    beside = ", beside the training rows" if true is not None else ""
    blocks = [
        Prose(
            f"The rebuilt rows{beside}, the most exposed first. Rows are numbered from 1; a "
            "mark shows each wrong value, with the true one after it. The leaves are the "
            "smallest ones that hold the row."
        )
    ]
    if len(rows) < len(X):
        blocks.append(Prose(f"The first {len(rows):,} of {len(X):,} rows: the others do not fit in "
            "this file. --json --internal has all.", quiet=True))  # fmt: skip
    table = Pages("Rebuilt rows, the most exposed first", data, len(rows))
    return Section.of("rows", "Most exposed rows", [*blocks, table])


def _named(leaf: NearLeaf) -> tuple[str, str]:
    rows = f"{leaf.rows:,} row{'s' * (leaf.rows != 1)}"
    return f"tree {leaf.tree}, leaf {leaf.leaf}: {rows}", shortened(leaf.conditions, LONGEST_PLACE)


def _coded(
    X: pd.DataFrame, true: pd.DataFrame | None
) -> tuple[list[list[str]], np.ndarray[Any, Any], np.ndarray[Any, Any] | None]:
    """Number the values of each column: most of them stand many times."""
    values, mine, others = [], [], []
    for name in X:
        numbers, column = X[name], X[name]
        if true is not None and name in true:
            column = pd.concat([numbers, true[name]], ignore_index=True)
        codes, found = pd.factorize(column, use_na_sentinel=False)
        values.append([_value(v) for v in found])
        mine.append(codes[: len(numbers)])
        if true is not None and name in true:
            others.append(codes[len(numbers) :])
    return values, np.column_stack(mine), np.column_stack(others) if others else None


def _value(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return "missing" if np.isnan(value) else f"{value:.10g}"
    return plain(str(value)[:LONGEST])


Place = tuple[int, int | None, int | None, float | None, bool]


def _places(audit: Audit, rebuilt: Reconstruction, exposure: Exposure) -> list[Place]:
    """Number, matched row and how sure: those that the audit tells of first, then the others."""
    table = exposure.rows

    def whole(number: float) -> int | None:
        return None if pd.isna(number) else int(number)

    ordered: list[Place] = [
        (int(row), whole(matched), whole(wrong), float(sure), bool(proved))
        for row, matched, wrong, sure, proved in table[
            ["row", "matched", "wrong", "sure", "proved"]
        ].itertuples(index=False)
    ]
    proved, n = rebuilt.proved, rebuilt.n_rows
    compared = rebuilt.ordered and audit.truth is not None and len(audit.truth.X) == n
    for row in sorted({*range(n)} - {row for row, *_ in ordered}):
        sure = proved is not None and bool(proved.iloc[row])
        ordered.append((row, row if compared else None, None, None, sure))
    return ordered
