"""What a report says, before it is drawn: the document of an audit as a sheet of plain data.

The document is that of the edition (:meth:`Audit.to_dict`), so a report says nothing that its JSON
does not. What only the internal edition shows, rows, is not built for the other: whatever draws a
sheet cannot leak them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from treeleak.auditing import Audit
from treeleak.auditing.assessors.yardsticks import WORDS
from treeleak.auditing.findings.finding import LEAK, NO_LEAK, OPEN, POSSIBLE
from treeleak.auditing.findings.score_words import by_chance, in_full, in_short, read_scores
from treeleak.auditing.result import Edition
from treeleak.core.percent import percent
from treeleak.report.blocks import (
    Answer,
    Bar,
    Bars,
    Block,
    Facts,
    Grid,
    Items,
    Prose,
    Section,
    Share,
    Sheet,
    Stack,
    Tile,
    Tone,
)
from treeleak.report.rows import most_exposed

__all__ = ["MOST_BARS", "sheet_of"]

Doc = Mapping[str, Any]

MOST_BARS = 24
"""Lines of a chart; its table has all."""

TONES: dict[str, Tone] = {LEAK: "leak", POSSIBLE: "open", NO_LEAK: "calm", OPEN: "grey"}
_MARKS: dict[str, Tone] = {"leaks": "leak", "not assessed": "open", "harmless": "calm"}
_STATES: dict[str, Tone] = {"violated": "leak", "not assessed": "open", "met": "calm"}
_PARTS = {
    "inventory": "What is in the model",
    "counts": "How few rows stand behind it",
    "noise": "Noise",
    "reconstruction": "Rebuilding the rows",
    "uncertainty": "What it leaves to know",
    "measurement": "Comparison with the training rows",
    "population": "Comparison with the population",
}
_VERDICTS = (
    (
        LEAK,
        "Training rows stand in the file as they are; or the file proves rows; or the rebuilt rows "
        "are nearer to the training rows than anybody could guess who knows the population.",
        "That every row leaks, or that the values which leak are sensitive.",
    ),
    (
        POSSIBLE,
        "The rebuilt rows are nearer to the training rows than a guess of somebody who lacks the "
        "counts of leaves, but no nearer than somebody who knows the population comes.",
        "Whether that is about single people, or about all of them. Rows of the population that "
        "the model was not trained on (--control) tell these apart.",
    ),
    (
        NO_LEAK,
        "The attacks ran to the end. They proved no row that stands alone, and, where the training "
        "rows were given, came no closer to them than chance and population explain.",
        "That nothing can leak. Somebody who knows more, another model of the same data, or a "
        "better attack may get further.",
    ),
    (
        OPEN,
        "No attack fits this model yet, or none came to an answer in time, or counts and schema "
        "contradict each other; or rows are only likely, and there were no training rows to "
        "compare them with.",
        "Anything about what leaks, either way.",
    ),
)


def sheet_of(
    audit: Audit,
    edition: Edition = "releasable",
    command: str | None = None,
) -> Sheet:
    """Say what an audit found.

    Parameters
    ----------
    audit : Audit
    edition : {"releasable", "internal"}
    command : str, optional
        What to type to get the audit again; whoever writes the releasable edition leaves folders
        out of it.
    """
    found = audit.to_dict(edition)
    ruled = found["ruling"]
    parts = [
        _ruling(ruled),
        _why(found),
        _inventory(found),
        _counts(found),
        _recovered(found),
        _against_guesses(found),
        _article29(found),
        _columns(found),
        _groups(found),
        _left(found, audit.of),
        most_exposed(audit) if edition == "internal" else None,
        _open(found),
        _advice(found),
        _notes(found),
        _provenance(found, command),
    ]
    source = found["provenance"]
    return Sheet(
        edition=edition,
        model=source["file"] or "a model in memory",
        origin=source["origin"] or "model of unknown origin",
        verdict=found["verdict"],
        tone=TONES[found["verdict"]],
        headline=found["headline"].removeprefix(f"{found['verdict'].capitalize()}. "),
        answers=_answers(found, ruled),
        tiles=tuple(_tiles(found)),
        sections=tuple(p for p in parts if p is not None and p.blocks),
    )


# -------------------------------------------------------------------------------- first screen


def _answers(found: Doc, ruled: Doc | None) -> tuple[Answer, ...]:
    return (
        Answer("May this model go out?", *_may_it(found, ruled)),
        Answer("What leaks?", *_what_leaks(found)),
        _what_helps(found),
    )


def _may_it(found: Doc, ruled: Doc | None) -> tuple[str, tuple[str, ...]]:
    if ruled is not None:
        said = "The policy lets it pass." if ruled["passed"] else "Not under this policy."
        return said, (ruled["headline"],)
    said = {
        LEAK: "Not as it is: it gives training rows away.",
        POSSIBLE: "Not before it is known what the model tells of single people.",
        NO_LEAK: "These attacks showed no leak. That is no proof that there is none.",
        OPEN: "That does not follow from this audit.",
    }[found["verdict"]]
    return said, ("No policy was given: whoever is answerable decides (--policy checks one).",)


def _what_leaks(found: Doc) -> tuple[str, tuple[str, ...]]:
    m, rebuilt, left = found["measurement"], found["reconstruction"], found["uncertainty"]
    kinds = list(dict.fromkeys(e["what"] for e in found["inventory"] if e["mark"] == "leaks"))
    more = [f"In the file, for attacks to work with: {_listed(kinds)}."] if kinds else []
    if m is not None:
        share, how = _exact(m, rebuilt)
        said = f"{percent(share)} of the training rows can be rebuilt {how}."
        if found["verdict"] == NO_LEAK:
            more.insert(0, said)
            said = "Nothing beyond what chance or the population explains."
        return said, (*_beside_the_strongest(m), *more)
    if any(e["training_rows"] for e in found["inventory"]):
        return "Training rows stand in the file as they are.", tuple(more)
    if found["verdict"] == NO_LEAK:
        return "Nothing was shown that tells of a single row.", tuple(more)
    if rebuilt is not None and rebuilt["share_proved_rows"]:
        said = f"{percent(rebuilt['share_proved_rows'])} of the rows are proved by the file alone."
        return said, tuple(more)
    if rebuilt is not None and rebuilt["n_rows"]:
        wrong = rebuilt["expected_error"]
        sure = "" if wrong is None else f" It expects {percent(wrong, 1)} of values to be wrong."
        said = f"The attack rebuilt {rebuilt['n_rows']:,} rows.{sure}"
        return "Not measured: no training rows to compare with.", (said, *more)
    if left is not None and left["dist_g"] is not None:
        told = percent(1 - left["dist_g"])
        return f"{told} of what there is to know about a row, on average.", tuple(more)
    return "Not assessed: no rows were rebuilt.", tuple(more)


def _beside_the_strongest(m: Doc) -> tuple[str, ...]:
    best = _strongest(m)
    if m["scores"] is None or best is None:
        return ()
    own, other = read_scores(m["scores"]), read_scores(best["scores"])
    return (f"{in_full(own)}. In {WORDS[best['name']]}: {in_short(other)}.",)


def _what_helps(found: Doc) -> Answer:
    changes = tuple(_first_words(text) for text in found["advice"])
    said = "These changes, measured again after each:"
    if len(changes) == 1:
        return Answer("What would help?", changes[0])
    return Answer("What would help?", said, ("Under “What to change” is why.",), changes[:-1])


def _first_words(text: str) -> str:
    """The beginning of an advice, which says what to do; the rest says why."""
    return re.split(r"[.:] | \(", text, maxsplit=1)[0].rstrip(".") + "."


def _exact(m: Doc, rebuilt: Doc) -> tuple[float, str]:
    """Share of rows rebuilt; a number never is, but for where the trees place it."""
    if rebuilt["midpoints_met"] is not None or m["located_rows"] > m["exact_rows"]:
        return m["located_rows"], "as far as the trees tell"
    return m["exact_rows"], "exactly"


def _tiles(found: Doc) -> Iterator[Tile]:
    m, rebuilt, counts = found["measurement"], found["reconstruction"], found["counts"]
    left, tone = found["uncertainty"], TONES[found["verdict"]]
    if m is not None:
        share, how = _exact(m, rebuilt)
        yield Tile(percent(share), f"of training rows rebuilt {how}", "", tone)
        yield from _score_tiles(m, tone)
    elif rebuilt is not None and rebuilt["n_rows"]:
        yield Tile(f"{rebuilt['n_rows']:,}", "rows rebuilt", "not compared with training rows")
        if rebuilt["expected_error"] is not None:
            wrong = percent(rebuilt["expected_error"], 1)
            yield Tile(wrong, "of values wrong, as the attack expects", "its own estimate")
    if rebuilt is not None and rebuilt["n_rows"] and not _likely(found):
        said = "alone or with others like them"
        proved = percent(rebuilt["share_proved_rows"])
        yield Tile(proved, "of rows proved, as far as trees tell", said)
    if left is not None and left["dist_g"] is not None:
        yield Tile(percent(left["dist_g"]), "left to know of a row", "on average")
    if counts is not None and counts["total"]["leaves"]:
        small, leaves = counts["total"]["small"] or 0, counts["total"]["leaves"]
        named = f"of {_of(counts)} hold fewer than {counts['threshold']} {counts['unit']}"
        yield Tile(percent(small / leaves), named, f"{small:,} of {leaves:,}")


def _strongest(m: Doc) -> Doc | None:
    """The yardstick that errs least."""
    return min(m["yardsticks"], key=lambda y: float(y["scores"]["error"]), default=None)


def _score_tiles(m: Doc, tone: Tone) -> Iterator[Tile]:
    best = _strongest(m)
    scores, other = m["scores"], None if best is None else best["scores"]
    beside = "" if best is None else WORDS[best["name"]]
    if scores["categories"] is not None:
        share = "" if other is None else f"{percent(other['categories'], 1)} in {beside}"
        yield Tile(percent(scores["categories"], 1), "of rebuilt categories wrong", share, tone)
    if scores["numbers"] is not None:
        off = "" if other is None else f"{other['numbers']['off']:.2f} in {beside}"
        figure = f"{scores['numbers']['off']:.2f}"
        yield Tile(figure, "standard deviations off, in rebuilt numbers", off, tone)


def _likely(found: Doc) -> bool:
    """Whether nothing can be proved: draws are hidden, or counts carry noise."""
    return bool(found["reconstruction"]["row_count"])


# -------------------------------------------------------------------------- ruling and verdict


def _ruling(ruled: Doc | None) -> Section | None:
    if ruled is None:
        return None
    order = sorted(ruled["checks"], key=lambda c: list(_STATES).index(c["state"]))
    table = Grid(
        f"Checks of the policy “{ruled['policy']}”",
        ("Check", "Asked for", "Found", "State"),
        tuple((_capital(c["what"]), c["bound"], c["found"], c["state"]) for c in order),
        tones=tuple(_STATES[c["state"]] for c in order),
    )
    closed = Prose("What could not be assessed does not pass.", quiet=True)
    said = Prose(ruled["headline"])
    return Section.of("policy", "The ruling of the policy", [said, table, closed])


def _why(found: Doc) -> Section:
    findings, verdict = found["findings"], found["verdict"]
    table = Grid(
        "What was found, and what the verdict rests on",
        ("Part", "What was found", "Taken as"),
        tuple((_PARTS[f["part"]], f["text"], f["verdict"] or "a remark") for f in findings),
        tones=tuple(TONES[f["verdict"]] if f["verdict"] else "plain" for f in findings),
    )
    held = dict.fromkeys(f["rule"] or f["text"] for f in findings if f["verdict"] == verdict)
    does_not = next(r[2] for r in _VERDICTS if r[0] == verdict)
    fixed = Prose(f"The verdict follows from a fixed rule. “{_capital(verdict)}”, because:")
    others = Grid(
        "All verdicts",
        ("Verdict", "Says", "Does not say"),
        _VERDICTS,
        tones=tuple(TONES[r[0]] for r in _VERDICTS),
        folded=True,
    )
    worst = Prose(
        "The worst finding counts: a leak shown anywhere is one. A remark decides nothing.",
        quiet=True,
    )
    because: list[Block] = [Items(tuple(held))] if held else _reasons(found, "reconstruction")
    blocks = [fixed, *because, Prose(does_not, lead="It does not say:"), table, worst, others]
    return Section.of("verdict", "Why this verdict", blocks)


# ------------------------------------------------------------------------- inventory and counts


def _inventory(found: Doc) -> Section:
    blocks: list[Block] = []
    for mark, caption in (
        ("leaks", "Parts that stem from single rows, or say how rows were drawn"),
        ("not assessed", "Parts that were not assessed"),
        ("harmless", "Parts that are harmless"),
    ):
        if entries := [e for e in found["inventory"] if e["mark"] == mark]:
            blocks.append(_entries(caption, entries, folded=mark == "harmless"))
        elif mark == "leaks":
            blocks.append(Prose("Nothing was found that stems from single rows."))
    return Section.of("inventory", _PARTS["inventory"], blocks)


def _entries(caption: str, entries: Sequence[Doc], folded: bool) -> Grid:
    groups: dict[str, list[Doc]] = {}
    for entry in entries:
        groups.setdefault(entry["what"], []).append(entry)
    rows = [
        (
            _capital(what),
            " ".join(dict.fromkeys(e["why"] for e in same)),
            ", ".join(dict.fromkeys(name for e in same for name in e["names"])),
            ", ".join(dict.fromkeys(e["where"] for e in same)),
        )
        for what, same in groups.items()
    ]
    return Grid(
        caption,
        ("What", "Why", "Names", "Where"),
        tuple(rows),
        code=frozenset({2, 3}),
        tones=(_MARKS[entries[0]["mark"]],) * len(rows),
        folded=folded,
    )


def _counts(found: Doc) -> Section:
    counts, key = found["counts"], "counts"
    if counts is None:
        said = [Prose(f"Noise: {found['budget']['noise']}.")] if found["budget"] else []
        return Section.of(key, _PARTS[key], [*_reasons(found, key), *said])
    total, unit = counts["total"], counts["unit"]
    named = "rows" if unit == "rows" else "draws (a row may count twice)"
    leaves = total["leaves"] or 1
    rows: list[tuple[str, str, str]] = []
    for text, name in (
        (f"All {_of(counts)}", "leaves"),
        (f"With fewer than {counts['threshold']} {named}", "small"),
        ("With a single one", "single"),
        ("That lack a class", "excludes_class"),
        ("That hold one class only", "one_class"),
    ):
        number = total[name]
        share = "" if number is None or name == "leaves" else percent(number / leaves)
        rows.append((text, "not counted" if number is None else f"{number:,}", share))
    if total["smallest"] is not None:
        rows.append((f"Smallest, in {unit}", f"{total['smallest']:,}", ""))
    table = Grid(
        f"Counts of {_of(counts)}", ("Which", "Number", "Share"), tuple(rows), frozenset({1, 2})
    )
    remark = Prose(
        "Output checkers ask for these tables. They decide nothing here: small leaves are neither "
        "needed nor enough for a leak.",
        quiet=True,
    )
    return Section.of(key, _PARTS[key], [_of_size(counts), table, _by_tree(counts), remark])


def _of(counts: Doc) -> str:
    return str(counts["of"])


def _of_size(counts: Doc) -> Stack:
    total, unit, threshold = counts["total"], counts["unit"], counts["threshold"]
    leaves, small, single = (total[k] or 0 for k in ("leaves", "small", "single"))
    parts: list[tuple[str, int, Tone]] = [
        (f"a single {unit[:-1]}", single, "leak"),
        (f"2 to {threshold - 1} {unit}", small - single, "open"),
        (f"{threshold} {unit} or more", leaves - small, "grey"),
    ]
    return Stack(
        f"{_capital(_of(counts))} by the number of their {unit}",
        f"of {leaves:,} {_of(counts)}",
        tuple(
            Share(name, n / (leaves or 1), f"{n:,} ({percent(n / (leaves or 1))})", tone)
            for name, n, tone in parts
        ),
    )


_SHARES = ((0.0, "none"), (0.2, "up to 20%"), (0.4, "20 to 40%"), (0.6, "40 to 60%"),
           (0.8, "60 to 80%"), (1.0, "over 80%"))  # fmt: skip


def _by_tree(counts: Doc) -> Bars | Prose | None:
    trees = counts["trees"]
    shares = [s / n for s, n in zip(trees["small"], trees["leaves"], strict=True) if n]
    if len(shares) < 2 or _of(counts) != "leaves":
        return None
    if min(shares) > _SHARES[-2][0]:
        said = f"In each of the {len(shares):,} trees, over 80% of the leaves are that small."
        return Prose(said)
    if not any(shares):
        return Prose(f"In none of the {len(shares):,} trees is a leaf that small.")
    steps = [next(name for top, name in _SHARES if share <= top) for share in shares]
    return Bars(
        f"Trees by the share of their leaves with fewer than {counts['threshold']} "
        f"{counts['unit']}",
        f"of {len(shares):,} trees",
        (("Trees", "plain"),),
        tuple(Bar(name, (steps.count(name) / len(shares),)) for _, name in _SHARES[1:]),
    )


# -------------------------------------------------------------------------------- rebuilt rows


def _recovered(found: Doc) -> Section:
    key, title, rebuilt = "recovered", "What was recovered, and how sure it is", None
    if (rebuilt := found["reconstruction"]) is None:
        return Section.of(key, title, _reasons(found, "reconstruction"))
    ended = ", interrupted" if rebuilt["interrupted"] else ""
    status, seconds = _capital(rebuilt["status"]), rebuilt["seconds"]
    blocks: list[Block] = [Prose(f"{status} ({seconds:.1f} s{ended}): {rebuilt['meaning']}.")]
    if rebuilt["contradiction"] is not None:
        return Section.of(key, title, [*blocks, Prose(_ended(rebuilt["contradiction"]))])
    if rebuilt["draws"] is not None:
        blocks.append(Prose(f"Which rows each tree drew is known from: {rebuilt['draws']}."))
    elif rebuilt["evidence"].startswith("hidden"):
        blocks.append(
            Prose("Which rows each tree drew is not known: all draws were taken as possible.")
        )
    if (exposure := found["exposure"]) is not None and exposure["recovered"]["n_rows"]:
        blocks.append(_how_sure(exposure["recovered"]))
    if rebuilt["n_rows"]:
        blocks.append(Facts(tuple(_of_rebuilt(rebuilt, _likely(found)))))
    return Section.of(key, title, blocks)


def _how_sure(recovered: Doc) -> Stack:
    parts: tuple[tuple[str, str, Tone], ...] = (
        ("proved", "proved", "leak"),
        ("probable, 90% or more", "probable", "open"),
        ("not proved by the file alone", "open", "grey"),
    )
    return Stack(
        "Rows by how sure they are, as far as the model itself tells",
        f"of {recovered['n_rows']:,} rows",
        tuple(Share(name, recovered[k], percent(recovered[k]), tone) for name, k, tone in parts),
    )


def _of_rebuilt(rebuilt: Doc, likely: bool) -> Iterator[tuple[str, str, str]]:
    order = "in their order: row k is row k of the training table" * rebuilt["ordered"]
    yield "Rows rebuilt", f"{rebuilt['n_rows']:,}", order
    if (rows := rebuilt["row_count"]) is not None:
        low, high = rows["between"]
        wide = f"95 %: {low:,} to {high:,}; " if low < high else ""
        yield "Training rows", f"{rows['n']:,}", f"{wide}{rows['origin']}"
    if rebuilt["known_values"]:
        yield "Values given, not counted here", f"{rebuilt['known_values']:,}", ""
    if not likely:
        every = "they stand in every dataset that meets the counts"
        yield "Rows proved, as far as trees tell", percent(rebuilt["share_proved_rows"]), every
        yield "Values proved", percent(rebuilt["share_proved_values"]), ""
    if rebuilt["expected_error"] is not None:
        own = "the attack's own estimate, made without the training rows"
        yield "Values that may be wrong, as expected", percent(rebuilt["expected_error"], 1), own
    if never := rebuilt["numbers"].get("rows_never_drawn"):
        yield "Rows that no tree drew", f"{never:,}", "guesses"
    if rebuilt["midpoints_met"] is not None:
        many = "above 80% nearly all rows are right"
        yield "Thresholds midway between these rows", percent(rebuilt["midpoints_met"]), many


def _against_guesses(found: Doc) -> Section:
    key, title = "guesses", "Against guesses and the population"
    if (m := found["measurement"]) is None:
        return Section.of(key, title, _reasons(found, "measurement"))
    charts = [
        _right_beside(
            found, "categories", "Categories that are right", lambda s: 1.0 - s["categories"]
        ),
        _right_beside(
            found, "numbers", "Numbers within 1% of their column's range",
            lambda s: s["numbers"]["near"],
        ),
    ]  # fmt: skip
    table = Facts(tuple(_of_measured(m)))
    beside = Grid(
        "What the rebuilt rows were held against",
        ("Yardstick", "It knows", "Categories wrong", "Numbers off by, in standard deviations",
         "Error (DRAFT)", "So large a margin by chance"),
        tuple(_of_yardstick(y) for y in m["yardsticks"]),
        numeric=frozenset({2, 3, 4, 5}),
    )  # fmt: skip
    said = Prose(
        "Each row is laid beside the person whom it fits best. The margin over a yardstick is "
        "tested over people.",
        quiet=True,
    )
    return Section.of(key, title, [*charts, table, beside, said, *_reasons(found, "population")])


def _right_beside(found: Doc, key: str, what: str, right: Callable[[Doc], float]) -> Bars | None:
    """Show what is right in the rebuilt rows and in every yardstick: more ink, more disclosed."""
    m = found["measurement"]
    if m["scores"] is None or m["scores"][key] is None:
        return None
    lines = [Bar("In the rebuilt rows", (right(m["scores"]),))]
    lines += [
        Bar(_capital(v["what"]), (right(v["measurement"]["scores"]),))
        for v in found["variants"]
        if v["measurement"] is not None
    ]
    lines += [Bar(_capital(WORDS[y["name"]]), (right(y["scores"]),)) for y in m["yardsticks"]]
    return Bars(
        f"{what}: the more beside the yardsticks, the more leaks",
        "share of the values, each row laid beside the one that it fits best",
        (("right", "plain"),),
        tuple(lines),
        digits=1,
    )


_KNOWS = {"schema": "the schema", "model": "the trees without counts", "people": "the population"}


def _of_yardstick(y: Doc) -> tuple[str, ...]:
    scores = y["scores"]
    wrong = "–" if scores["categories"] is None else percent(scores["categories"], 1)
    off = "–" if scores["numbers"] is None else f"{scores['numbers']['off']:.2f}"
    chance = by_chance(y["nearer"])
    error = f"{percent(scores['error'], 1)} ± {percent(y['sd'], 1)}"
    return _capital(WORDS[y["name"]]), _KNOWS[y["knows"]], wrong, off, error, chance


def _of_measured(m: Doc) -> Iterator[tuple[str, str, str]]:
    yield "Compared with the model first", m["compared"], "to see that these are its training rows"
    for what, rows, order in (
        ("Training rows rebuilt exactly", m["exact_rows"], m["exact_in_order"]),
        ("Training rows rebuilt as far as trees tell", m["located_rows"], m["located_in_order"]),
    ):
        place = "" if order is None else f"{percent(order)} in their own place"
        yield what, percent(rows), place
    scores = m["scores"]
    if scores["categories"] is not None:
        yield "Categories that are wrong", percent(scores["categories"], 1), ""
    if (numbers := scores["numbers"]) is not None:
        off = f"{numbers['off']:.2f} standard deviations"
        right = f"{percent(numbers['exact'], 1)} exactly right, {percent(numbers['near'], 1)} near"
        yield "Numbers off by, on average", off, right
    yield "Error, as experiments report it (DRAFT)", percent(m["error"], 1), _MIXED
    if m["error_in_order"] is not None:
        yield "Categories wrong row by row, in their own place", percent(m["error_in_order"], 1), ""
    if (order := m["in_order"]) is not None:
        usual = f"the usual values of the class {percent(order['usual'], 1)}"
        yield "Error in their own place", percent(order["error"], 1), usual
    for name, what in (("inliers", "resemble others"), ("outliers", "stand apart")):
        group = (m["individual"] or {}).get(name)
        if group and group["n_rows"]:
            said = f"{percent(group['perfect'])} of them exact"
            wrong = f"error {percent(group['error'], 1)}"
            yield f"In the {group['n_rows']:,} rows that {what}", wrong, said
    if (test := m["significance"]) is not None:
        near = f"{test['as_near']:,} of {test['draws']:,}"
        told = "none: the model told of these very rows"
        yield "Other draws as near as the training rows", near, told


_MIXED = "a wrong category counts 1, a number its difference over the column's range"


def _article29(found: Doc) -> Section | None:
    risks = found["article29"]
    if risks is None:
        return None
    told = [] if risks["singling_out"] is None else [("Singling out", risks["singling_out"])]
    told += [(f"Inference of {r['column']}", r) for r in risks["inference"]]
    lines = [
        (name, *map(_rate, (r["success"], r["baseline"], r["control"])), _risk(r["risk"]))
        for name, r in told
    ]
    blocks: list[Block] = [
        Prose(
            "The risks by which the Article 29 Working Party judges whether data are anonymous "
            "(opinion 05/2014). Each rate stands beside that of somebody who does not have the "
            "model; the risk is what lies above it, from 0% to 100%."
        )
    ]
    if lines:
        columns = ("Risk of", "Succeeds", "A guess", "People not in the training set", "Risk")
        about = "Rates, each with a 95% interval"
        blocks.append(Grid(about, columns, tuple(lines)))
        blocks.append(
            Prose(
                "A rebuilt row singles somebody out if it fits exactly one training row. Somebody "
                "infers a value who knows all else of a person and reads it off the rebuilt rows.",
                quiet=True,
            )
        )
    if not risks["inference"]:
        blocks.append(Prose("Inference: not assessed, for no column was called sensitive "
                            "(--sensitive)."))  # fmt: skip
    blocks.append(Prose(risks["linkability"], lead="Linkability:"))
    title = "Singling out, linkability, inference"
    return Section.of("article29", title, blocks)


def _rate(rate: Doc | None) -> str:
    return "–" if rate is None else _between(rate["share"], rate)


def _risk(risk: Doc) -> str:
    return _between(risk["value"], risk)


def _between(share: float, ends: Doc) -> str:
    return f"{percent(share)} ({percent(ends['low'])} to {percent(ends['high'])})"


def _columns(found: Doc) -> Section | None:
    exposure = found["exposure"]
    if exposure is None or not exposure["columns"]:
        return None
    columns, blocks = exposure["columns"], list[Block]()
    values: list[tuple[str, tuple[float | None, ...]]]
    if any(c["right"] is not None for c in columns):
        order = sorted(columns, key=lambda c: c["majority"] - (c["right"] or 0))
        names: tuple[tuple[str, Tone], ...] = (("rebuilt", "leak"), ("most common value", "plain"))
        values = [(c["column"], (c["right"], c["majority"])) for c in order]
        title = "Values that are right, by column: rebuilt, and always the most common value"
    else:
        order = sorted(columns, key=lambda c: c["expected"] or 0)
        names = (("right, as expected", "plain"),)
        values = [
            (c["column"], (None if c["expected"] is None else 1 - c["expected"],)) for c in order
        ]
        title = "Values that are right, by column, as the attack expects"
    bars = tuple(Bar(name, shares) for name, shares in values)
    left_out = max(len(bars) - MOST_BARS, 0)
    blocks.append(Bars(title, "share of the rows", names, bars, left_out=left_out))
    rows = [
        (
            c["column"],
            *map(_share, (c["right"], c["guess"], c["majority"], c["expected"], c["proved"])),
            "yes" if c["tested"] else "no",
        )
        for c in order
    ]
    heads = ("Column", "Right", "Random guess", "Most common value", "Wrong, as expected",
             "Proved", "Tested by a tree")  # fmt: skip
    caption = "All figures by column"
    blocks.append(Grid(caption, heads, tuple(rows), numeric=frozenset(range(1, 6)), folded=True))
    if exposure["columns_left_out"]:
        n = exposure["columns_left_out"]
        blocks.append(Prose(f"Left out: {n:,} columns in which few rows differ from the rest.",
                            quiet=True))  # fmt: skip
    return Section.of("columns", "What leaks of each column", blocks)


def _share(share: float | None) -> str:
    return "–" if share is None else percent(share)


def _groups(found: Doc) -> Section | None:
    exposure = found["exposure"]
    if exposure is None or not exposure["groups"]:
        return None
    groups = exposure["groups"]
    told = [g for g in groups if g["error"] is not None]
    names: tuple[tuple[str, Tone], ...] = (("rebuilt", "leak"), ("random guess", "plain"))
    bars = [Bar(_group(g), (1 - g["error"], 1 - g["guess"])) for g in told]
    title = "How right the values are, by group: the more, the more leaks"
    chart = Bars(
        title, "1 - error (DRAFT)", names, tuple(bars),
        left_out=max(len(bars) - MOST_BARS, 0),
    )  # fmt: skip
    rows = [
        (
            _group(g),
            "–" if g["rows"] is None else f"{g['rows']:,}",
            *(("–" if g[k] is None else percent(g[k], 1)) for k in ("error", "guess")),
            _share(g["exact"]),
        )
        for g in groups
    ]
    heads = ("Group", "Rows", "Error (DRAFT)", "In a random guess", "Rows exact")
    table = Grid("All figures by group", heads, tuple(rows), numeric=frozenset({1, 2, 3, 4}))
    return Section.of("groups", "Whom it concerns", [chart if bars else None, table])


def _group(group: Doc) -> str:
    return f"{group['column']}: {group['group']}"


def _round_up(share: float) -> float:
    """Find where an axis that must hold this share may end."""
    return next((t for t in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8) if share <= t), 1.0)


# ------------------------------------------------------------------------- what is left to know


def _left(found: Doc, of: str) -> Section:
    key, title, left = "left", "What it leaves to know of a row", found["uncertainty"]
    if left is None or left["dist_g"] is None:
        return Section.of(key, title, _reasons(found, "uncertainty"))
    spread = Bars(
        "Known of single rows, from the most exposed on: the more, the more leaks",
        "share of what there is to know about a row",
        (("Known", "plain"),),
        tuple(Bar(_part_of_rows(int(q)), (1 - share,)) for q, share in left["quantiles"].items()),
    )
    blocks: list[Block] = [Facts(tuple(_of_left(left)))]
    if left["quantiles"]:
        blocks.append(spread)
    if found["edition"] == "releasable":
        ends = "Left out: single leaves or rules, and the ends of this spread, which speak of them."
        blocks.append(Prose(ends, quiet=True))
    if left["exposed"]:
        rows = [
            (e["name"], percent(e["left"]), f"{e['rows']:,}", e["where"]) for e in left["exposed"]
        ]
        columns = ("Name", "Left", "Rows", "Where")
        least = f"{_capital(of)} that leave least"
        blocks.append(Grid(least, columns, tuple(rows), numeric=frozenset({1, 2})))
    blocks += [Prose(note, quiet=True) for note in left["notes"]]
    return Section.of(key, title, blocks)


def _of_left(left: Doc) -> Iterator[tuple[str, str, str]]:
    bits = f"{left['mean_bits']:.1f} of {left['row_bits']:.1f} bits"
    yield "Left of a row, on average (Dist_G)", percent(left["dist_g"], 1), bits
    yield "Left of a single value, on average (Dist)", percent(left["dist"], 1), ""
    if left["contains"] is not None:
        yield "The training rows fit the model", "yes" if left["contains"] else "no", ""
    if left["told"]:
        yield "Rows of which nothing is left to know", f"{left['told']:,}", ""
    yield "Domains", f"schema {left['schema']}", ""


def _part_of_rows(part: int) -> str:
    named = {0: "The most exposed row", 50: "Half of the rows, at least", 100: "All rows, at least"}
    return named.get(part, f"{part}% of the rows, at least")


# ------------------------------------------------------------------------------- the last parts


def _reasons(found: Doc, part: str) -> list[Block]:
    return [
        Prose(f"Not assessed: {_ended(p['reason'])}")
        for p in found["not_assessed"]
        if p["part"] == part
    ]


def _open(found: Doc) -> Section:
    rows = [
        (_PARTS.get(p["part"], _capital(p["part"])), _capital(_ended(p["reason"])))
        for p in found["not_assessed"]
    ]
    unknown = dict.fromkeys(e["what"] for e in found["inventory"] if e["mark"] == "not assessed")
    if unknown:
        rows.append(("Parts of the file", f"{_capital(_listed(list(unknown)))}."))
    rows.append(
        (
            "All other attacks",
            "Only what this report names was tried. Questions to a running service, other models "
            "of the same data, and attacks not yet known were not.",
        )
    )
    tones = (TONES[OPEN],) * len(rows)
    table = Grid("Not assessed", ("Part", "Why"), tuple(rows), tones=tones)
    said = Prose(
        "Nothing follows from what was not assessed, neither a leak nor that there is none."
    )
    return Section.of("open", "What was not assessed, and why", [said, table])


def _advice(found: Doc) -> Section:
    return Section.of("advice", "What to change", [Items(tuple(found["advice"]))])


def _notes(found: Doc) -> Section:
    notes = tuple(found["notes"])
    return Section.of("notes", "Notes", [Items(notes)] if notes else [])


def _provenance(found: Doc, command: str | None) -> Section:
    source = found["provenance"]
    rows = [("Model", source["file"] or "in memory", source["origin"])]
    if source["sha256"] is not None:
        rows.append(("SHA-256 of the file", source["sha256"], ""))
    rows += [
        ("Seed of the audit", f"{source['seed']}", "the same seed gives the same answer"),
        ("Time", f"{source['seconds']:.1f} s", ""),
    ]
    if command is not None:
        rows.append(("To repeat it", command, ""))
    table = Grid("Versions", ("Program", "Version"), tuple(source["versions"].items()), folded=True)
    return Section.of("provenance", "Where this report comes from", [Facts(tuple(rows)), table])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _ended(text: str) -> str:
    return text if text.endswith((".", "?")) else f"{text}."


def _listed(texts: Sequence[str]) -> str:
    most = 5
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
