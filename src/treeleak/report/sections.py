"""The sections of a report, but for those of the rebuilt rows: from a document to plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from treeleak.auditing.findings.finding import LEAK, NO_LEAK, OPEN, POSSIBLE
from treeleak.core.text import listed, percent
from treeleak.report import facts
from treeleak.report.blocks import (
    Bar,
    Bars,
    Block,
    Facts,
    Grid,
    Items,
    Prose,
    Section,
    Share,
    Stack,
    Tone,
)
from treeleak.report.facts import Doc

TONES: dict[str, Tone] = {LEAK: "leak", POSSIBLE: "open", NO_LEAK: "calm", OPEN: "grey"}
_MARKS: dict[str, Tone] = {"leaks": "leak", "not assessed": "open", "harmless": "calm"}
_STATES: dict[str, Tone] = {"violated": "leak", "not assessed": "open", "met": "calm"}
PARTS = {
    "inventory": "What is in the model",
    "counts": "Small leaves",
    "noise": "Noise",
    "reconstruction": "Rebuilding the rows",
    "uncertainty": "Residual uncertainty (entropy)",
    "measurement": "Comparison with the training rows",
    "population": "Comparison with the population",
    "membership": "Membership",
    "shadows": "Membership by shadow models",
    "isolation": "People isolated by counts alone",
    "ceiling": "What no attack can exceed",
}
_DOES_NOT_SAY = {
    LEAK: "That every row leaks, or that the leaking values are sensitive.",
    POSSIBLE: "Whether the model discloses single people, or what holds for all of them. Control "
    "rows (--control) can decide this of rebuilt rows.",
    NO_LEAK: "That nothing can leak. An adversary who knows more, another model of the same data, "
    "or a better attack may get further.",
    OPEN: "Anything about leaks, either way.",
}


def tone_of(found: Doc) -> Tone:
    """Tone of the verdict: no calm one beside figures that are severe."""
    tone = TONES[found["verdict"]]
    return "open" if tone == "calm" and facts.severe(found) else tone


def reasons(found: Doc, part: str) -> list[Block]:
    """Say why a part was not assessed."""
    open_ = (p["reason"] for p in found["not_assessed"] if p["part"] == part)
    return [Prose(f"Not assessed: {facts.ended(why)}") for why in open_]


def ruling(found: Doc) -> Section | None:
    """The ruling of the policy, if there is one."""
    if (decision := found["ruling"]) is None:
        return None
    order = sorted(decision["checks"], key=lambda c: list(_STATES).index(c["state"]))
    table = Grid(
        f"Checks of the policy “{decision['policy']}”",
        ("Check", "Asked for", "Found", "State"),
        tuple((facts.capital(c["what"]), c["bound"], c["found"], c["state"]) for c in order),
        tones=tuple(_STATES[c["state"]] for c in order),
    )
    closed = Prose("A check without an assessment does not pass.", quiet=True)
    headline, stated = Prose(decision["headline"]), tuple(facts.of_policy(decision))
    blocks: list[Block] = [headline, *[Facts(stated)] * bool(stated), table, closed]
    return Section.of("policy", "The ruling of the policy", blocks)


def verdict(found: Doc) -> Section:
    """Why this verdict."""
    findings, verdict_text = found["findings"], found["verdict"]
    table = Grid(
        "Findings, and the basis of the verdict",
        ("Part", "Finding", "Counts as"),
        tuple((PARTS[f["part"]], f["text"], f["verdict"] or "a remark") for f in findings),
        tones=tuple(TONES[f["verdict"]] if f["verdict"] else "plain" for f in findings),
    )
    held = dict.fromkeys(f["rule"] or f["text"] for f in findings if f["verdict"] == verdict_text)
    does_not = _DOES_NOT_SAY[verdict_text]
    fixed = Prose(
        f"The verdict follows from a fixed rule. “{facts.capital(verdict_text)}”, because:"
    )
    worst = Prose(
        "The worst finding counts: one leak decides. A remark decides nothing.", quiet=True
    )
    because: list[Block] = [Items(tuple(held))] if held else reasons(found, "reconstruction")
    blocks = [fixed, *because, Prose(does_not, lead="It does not say:"), table, worst]
    return Section.of("verdict", "Why this verdict", blocks)


def inventory(found: Doc) -> Section:
    """What is in the model."""
    blocks: list[Block] = reasons(found, "inventory")
    for mark, caption in (
        ("leaks", "Parts that come from single rows, or show how trees drew rows"),
        ("not assessed", "Parts that were not assessed"),
        ("harmless", "Parts that are harmless"),
    ):
        if entries := [e for e in found["inventory"] if e["mark"] == mark]:
            blocks.append(_entries(caption, entries, folded=mark == "harmless"))
        elif mark == "leaks" and not blocks:
            blocks.append(Prose("No part comes from single rows."))
    return Section.of("inventory", PARTS["inventory"], blocks)


def _entries(caption: str, entries: Sequence[Doc], folded: bool) -> Grid:
    rows = [
        (
            facts.capital(what),
            " ".join(dict.fromkeys(t for e in same for t in (e["why"], e.get("told")) if t)),
            ", ".join(dict.fromkeys(name for e in same for name in e["names"])),
            ", ".join(dict.fromkeys(e["where"] for e in same)),
        )
        for what, same in facts.by_what(entries).items()
    ]
    return Grid(
        caption,
        ("What", "Why", "Names", "Where"),
        tuple(rows),
        code=frozenset({2, 3}),
        tones=(_MARKS[entries[0]["mark"]],) * len(rows),
        folded=folded,
    )


def counts(found: Doc) -> Section:
    """Small leaves or rules."""
    found_counts, key = found["counts"], "counts"
    blocks = reasons(found, key)
    if found_counts is None:
        blocks += [Prose(f["text"]) for f in found["findings"] if f["part"] == "noise"]
    else:
        lines = facts.of_counts(found_counts)
        rows = tuple((facts.capital(what), n, share) for what, n, share in lines)
        heads = ("Which", "Number", "Share")
        table = Grid(f"Counts of {found_counts['of']}", heads, rows, frozenset({1, 2}))
        remark = Prose(
            "Output checkers ask for these tables. They do not decide the verdict: a model can "
            "leak without small leaves, and hold small leaves without a leak.",
            quiet=True,
        )
        blocks += [_of_size(found_counts), table, remark]
    if found["structure"] is not None:
        blocks += facts.group_blocks(found["structure"])
    return Section.of(key, PARTS[key], blocks)


def _of_size(counts: Doc) -> Stack:
    total, unit, threshold = counts["total"], counts["unit"], counts["threshold"]
    leaves, small, single = (total[k] or 0 for k in ("leaves", "small", "single"))
    parts: list[tuple[str, int, Tone]] = [(f"{threshold} {unit} or more", leaves - small, "grey")]
    if threshold > 2:
        parts.insert(0, (f"2 to {threshold - 1} {unit}", small - single, "open"))
    if threshold > 1:
        parts.insert(0, (f"a single {unit[:-1]}", single, "leak"))
    return Stack(
        f"{facts.capital(counts['of'])} by the number of their {unit}",
        f"of {leaves:,} {counts['of']}",
        tuple(
            Share(name, n / (leaves or 1), f"{n:,} ({percent(n / (leaves or 1))})", tone)
            for name, n, tone in parts
        ),
    )


_PRIOR = {
    "control": "Weights are from the control rows",
    "counts": "Weights are from a prior fitted to the counts",
}


def _of_isolation(result: Doc) -> Iterator[facts.Fact]:
    """Say how many people predicates isolate, and how far beyond luck."""
    yield "Predicates that exactly one person meets", f"{result['predicates']:,}", ""
    yield "of these, differences of nested nodes", facts.whole(result["by_difference"]), ""
    yield "Different people, at least", facts.whole(result["different"]), ""
    if result["false"] is not None:
        yield "People isolated, in the training rows", facts.whole(result["people"]), ""
    light = "luck isolates a person in 5% of cases at most"
    yield "Predicates beyond luck", facts.whole(result["beyond_luck"]), light
    if result["people_beyond_luck"] is not None:
        yield "people whom these isolate", f"{result['people_beyond_luck']:,}", ""
    yield "People expected to meet one, in the median", f"{result['expected']:.2g}", ""
    of = f"of {result['columns']:,}"
    yield "Columns pinned to 5% of their range, in the median", f"{result['pinned']:g}", of
    if result["unmet"] is not None:
        of = f"of {result['control_rows']:,} control rows"
        yield "Predicates that nobody else meets", percent(result["unmet"]), of
    if result["false"]:
        yield "Predicates that are false", f"{result['false']:,}", "weights, or an error"


def isolated_in_short(found: Doc) -> list[str]:
    """Say on the first screen how many people counts alone isolate, as far as it may be told."""
    result = found["isolation"]
    people = None if result is None else result["people"] or result["different"]
    if not people:
        return []
    light = result["beyond_luck"]
    beyond = "" if light is None else f", {light:,} of them beyond luck"
    predicates = f"{result['predicates']:,} predicates{beyond}"
    return [f"Counts alone isolate {people:,} people or more ({predicates})."]


def _of_ceiling(result: Doc) -> Iterator[facts.Fact]:
    """Say how many bits the file has, and what follows."""
    yield "Bits that depend on the rows", f"{result['bits']:,}", result["code"]
    yield "for each bit of the table", f"{result['ratio']:.2g}", ""
    if result["rows"] is not None:
        share = percent(result["rows"] / result["n_rows"], 1)
        yield "Rare rows that any attack rebuilds, at most", f"{result['rows']:,}", share
        yield "People whose rows are rare", percent(result["rare"], 1), ""


def _premises(result: Doc) -> str:
    """Say what the bound means, and on what it rests."""
    if result["rows"] is None:
        return (
            f"The file holds {result['ratio']:.2g} times the bits of the table. No bound follows: "
            "assume that all of it can be rebuilt."
        )
    of = "a tree of dependencies from the control rows"
    if result["prior"] == "schema":
        of = "all rows of the schema, equally likely"
    return (
        f"With probability 1 - {result['delta']:g}, no attack on this file rebuilds more of the "
        f"rare rows exactly. Premises: rows are independent draws from the prior ({of}); a row is "
        f"rare if its probability is 2^{result['cell']:.1f} at most; the rest of the file does not "
        "depend on the rows (docs/bound.md)."
    )


def isolation(found: Doc) -> Section | None:
    """What counts alone prove of single people."""
    if (result := found["isolation"]) is None:
        return None
    left = "" if result["complete"] else " Not all was looked at: there may be more."
    if None in (result["by_difference"], result["different"], result["beyond_luck"]):
        left += " A dash stands for a small number, which this edition leaves out."
    remark = (
        f"Among the {result['of']}, exactly one person meets each predicate, whatever the table, "
        f"if rows had no weights. {_PRIOR[result['prior']]}, with independent columns.{left}"
    )
    blocks: list[Block] = [Facts(tuple(_of_isolation(result))), Prose(remark, quiet=True)]
    return Section.of("isolation", PARTS["isolation"], blocks)


def ceiling(found: Doc) -> Section | None:
    """What no attack can exceed."""
    if (result := found["ceiling"]) is None:
        return None
    blocks: list[Block] = [Facts(tuple(_of_ceiling(result))), Prose(_premises(result))]
    return Section.of("ceiling", PARTS["ceiling"], blocks)


def uncertainty(found: Doc, of: str) -> Section:
    """Residual uncertainty (entropy) of a row."""
    key, title, left = "left", "Residual uncertainty (entropy) of a row", found["uncertainty"]
    if left is None or left["dist_g"] is None:
        return Section.of(key, title, reasons(found, "uncertainty"))
    spread = Bars(
        "Disclosed about single rows, the most exposed first: more is worse",
        "share of the entropy of a row",
        (("Known", "plain"),),
        tuple(Bar(_part_of_rows(int(q)), (1 - share,)) for q, share in left["quantiles"].items()),
    )
    lines = [(facts.capital(what), n, more) for what, n, more in facts.of_uncertainty(left)]
    blocks: list[Block] = [Facts(tuple(lines)), Prose(f"Schema of this part: {left['schema']}.")]
    if left["quantiles"]:
        blocks.append(spread)
    if found["edition"] == "releasable":
        ends = "Left out: single leaves or rules, and the extremes, which would disclose them."
        blocks.append(Prose(ends, quiet=True))
    if left["exposed"]:
        rows = [
            (e["name"], percent(e["left"]), f"{e['rows']:,}", e["where"]) for e in left["exposed"]
        ]
        columns = ("Name", "Left", "Rows", "Where")
        least = f"{facts.capital(of)} that leave least"
        blocks.append(Grid(least, columns, tuple(rows), numeric=frozenset({1, 2})))
    blocks += [Prose(note, quiet=True) for note in left["notes"]]
    return Section.of(key, title, blocks)


def _part_of_rows(part: int) -> str:
    named = {0: "The most exposed row", 50: "Half of the rows, at least", 100: "All rows, at least"}
    return named.get(part, f"{part}% of the rows, at least")


def not_assessed(found: Doc) -> Section:
    """What was not assessed, and why."""
    rows = [
        (PARTS.get(p["part"], facts.capital(p["part"])), facts.capital(facts.ended(p["reason"])))
        for p in found["not_assessed"]
    ]
    unknown = dict.fromkeys(e["what"] for e in found["inventory"] if e["mark"] == "not assessed")
    if unknown:
        rows.append(("Parts of the file", f"{facts.capital(listed(list(unknown)))}."))
    rows.append(
        (
            "All other attacks",
            "The audit tried only what this report names. It did not try questions to a "
            "running service, other models of the same data, or unknown attacks.",
        )
    )
    tones = (TONES[OPEN],) * len(rows)
    table = Grid("Not assessed", ("Part", "Why"), tuple(rows), tones=tones)
    explanation = Prose(
        "A part that was not assessed is inconclusive: it neither shows nor rules out a leak."
    )
    return Section.of("open", "What was not assessed, and why", [explanation, table])


def advice(found: Doc) -> Section:
    """What to change."""
    return Section.of("advice", "What to change", [Items(tuple(found["advice"]))])


def notes(found: Doc) -> Section:
    """Remarks."""
    notes = tuple(found["notes"])
    return Section.of("notes", "Notes", [Items(notes)] if notes else [])


def provenance(found: Doc, command: str | None) -> Section:
    """Where the report comes from."""
    source = found["provenance"]
    rows = [("Model", source["file"] or "in memory", source["origin"])]
    if source["sha256"] is not None:
        rows.append(("SHA-256 of the file", source["sha256"], ""))
    rows += facts.of_inputs(source)
    rows += facts.of_use(source)
    rows += [
        ("Seed of the audit", f"{source['seed']}", "the same seed gives the same answer"),
        ("Took", f"{source['seconds']:.1f} s", ""),
    ]
    if command is not None:
        rows.append(("To repeat it", command, ""))
    table = Grid("Versions", ("Program", "Version"), tuple(source["versions"].items()), folded=True)
    return Section.of("provenance", "Where this report comes from", [Facts(tuple(rows)), table])
