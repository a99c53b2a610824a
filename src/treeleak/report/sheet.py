"""The content of a report before drawing: the document of an audit as a sheet of plain data.

The document is that of the edition (:meth:`Audit.to_dict`), so a report says nothing that its JSON
does not. What only the internal edition shows, rows, is not built for the other: whatever draws a
sheet cannot leak them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from treeleak.auditing import Audit
from treeleak.auditing.assessors.baselines import WORDS
from treeleak.auditing.findings.advice import of_the_audit
from treeleak.auditing.findings.finding import LEAK, NO_LEAK, OPEN, POSSIBLE
from treeleak.auditing.findings.score_words import in_full, in_short, read_scores
from treeleak.core.listed import listed
from treeleak.core.message import ANYBODY
from treeleak.core.percent import percent
from treeleak.formats.literals import Edition
from treeleak.report import facts, isolation, membership, record, sections
from treeleak.report import sections_of_rows as of_rows
from treeleak.report.blocks import Answer, Sheet, Tile, Tone
from treeleak.report.facts import Doc
from treeleak.report.rows import most_exposed


def sheet_of(audit: Audit, edition: Edition = "releasable", command: str | None = None) -> Sheet:
    """Say what an audit found.

    ``command``: what to type to get the audit again; whoever writes the releasable edition leaves
    folders out of it.
    """
    found = audit.document(edition)
    parts = [
        sections.ruling(found),
        sections.verdict(found),
        sections.inventory(found),
        sections.counts(found),
        isolation.isolation(found),
        isolation.ceiling(found),
        of_rows.recovered(found),
        of_rows.against_guesses(found),
        of_rows.article29(found),
        membership.membership(found),
        of_rows.columns(found),
        of_rows.groups(found),
        sections.uncertainty(found, audit.of),
        most_exposed(audit) if edition == "internal" else None,
        record.frameworks(found),
        sections.not_assessed(found),
        sections.advice(found),
        sections.notes(found),
        sections.provenance(found, command),
    ]
    source = found["provenance"]
    return Sheet(
        edition=edition,
        model=source["file"] or "a model in memory",
        origin=source["origin"] or "model of unknown origin",
        verdict=found["verdict"],
        tone=sections.tone_of(found),
        headline=found["headline"].removeprefix(f"{found['verdict'].capitalize()}. "),
        answers=_answers(found),
        tiles=tuple(_tiles(found)),
        sections=tuple(p for p in parts if p is not None and p.blocks),
    )


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
    answer = {
        LEAK: "Not as it is: it discloses training rows.",
        POSSIBLE: "Not yet. First find out whether it discloses single people.",
        NO_LEAK: "Rows came back, but no nearer than baselines: look at what leaks."
        if facts.severe(found)
        else "These attacks showed no leak. That is no proof that there is none.",
        OPEN: "This audit cannot say.",
    }[found["verdict"]]
    return answer, ("No policy given: the accountable person decides.",)


def _what_leaks(found: Doc) -> tuple[str, tuple[str, ...]]:
    m, rebuilt, left = found["measurement"], found["reconstruction"], found["uncertainty"]
    materials = list(dict.fromkeys(e["what"] for e in found["inventory"] if e["mark"] == "leaks"))
    more = [f"The file holds material for attacks: {listed(materials)}."] if materials else []
    more += isolation.in_short(found)
    if any(e["training_rows"] for e in found["inventory"]):
        return "The file stores training rows as they are.", tuple(more)
    if m is not None:
        share, how = facts.came_back(m)
        answer = f"{percent(share)} of the training rows can be rebuilt {how}."
        if found["verdict"] == NO_LEAK and not facts.severe(found):
            more.insert(0, answer)
            answer = "Nothing beyond what chance or the population explains."
        return answer, (*_beside_the_strongest(m, facts.digits(found)), *more)
    if found["verdict"] == NO_LEAK:
        if facts.severe(found):
            proved = percent(found["exposure"]["recovered"]["proved"])
            more.insert(0, f"{proved} of the rows are proved, but only with others like them.")
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


def _beside_the_strongest(m: Doc, digits: int) -> tuple[str, ...]:
    m = facts.judged(m)
    best = _strongest(m)
    if m["scores"] is None or best is None:
        return ()
    scores, other = read_scores(m["scores"]), read_scores(best["scores"])
    reader = None if digits else ANYBODY
    sentence, beside = in_full(scores).render_for(reader), in_short(other).render_for(reader)
    if "left_out" in m:
        sentence = f"In the columns that trees test: {sentence[:1].lower()}{sentence[1:]}"
    return (f"{sentence}. In {WORDS[best['name']]}: {beside}.",)


def _what_helps(found: Doc) -> Answer:
    advice = [text for text in found["advice"] if not of_the_audit(text)]
    if len(advice) < 2 and len(found["advice"]) > 1:
        return Answer("What would help?", "Not known yet: the audit is not complete.")
    changes = tuple(_first_words(text) for text in advice)
    introduction = "These changes, measured again after each:"
    if len(changes) == 1:
        return Answer("What would help?", changes[0])
    return Answer(
        "What would help?", introduction, ("“What to change” gives the reasons.",), changes[:-1]
    )


def _first_words(text: str) -> str:
    """The beginning of an advice, which says what to do; the rest says why."""
    return re.split(r"[.:] | \(", text, maxsplit=1)[0].rstrip(".") + "."


def _tiles(found: Doc) -> Iterator[Tile]:
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
