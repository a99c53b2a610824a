"""What counts alone disclose, and what no attack can exceed, for the page and the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from treeleak.core.text import percent
from treeleak.report.blocks import Block, Facts, Prose, Section
from treeleak.report.facts import Doc, Fact, whole

TITLE = "People isolated by counts alone"
CEILING = "What no attack can exceed"
_PRIOR = {
    "control": "Weights are from the control rows",
    "counts": "Weights are from a prior fitted to the counts",
}


def of_isolation(result: Doc) -> Iterator[Fact]:
    """Say how many people predicates isolate, and how far beyond luck."""
    yield "Predicates that exactly one person meets", f"{result['predicates']:,}", ""
    yield "of these, differences of nested nodes", whole(result["by_difference"]), ""
    yield "Different people, at least", whole(result["different"]), ""
    if result["false"] is not None:
        yield "People isolated, in the training rows", whole(result["people"]), ""
    light = "luck isolates a person in 5% of cases at most"
    yield "Predicates beyond luck", whole(result["beyond_luck"]), light
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


def in_short(found: Doc) -> list[str]:
    """Say on the first screen how many people counts alone isolate, as far as it may be told."""
    result = found["isolation"]
    people = None if result is None else result["people"] or result["different"]
    if not people:
        return []
    light = result["beyond_luck"]
    beyond = "" if light is None else f", {light:,} of them beyond luck"
    predicates = f"{result['predicates']:,} predicates{beyond}"
    return [f"Counts alone isolate {people:,} people or more ({predicates})."]


def remark(result: Doc) -> str:
    """Say among whom, and what the weights rest on."""
    left = "" if result["complete"] else " Not all was looked at: there may be more."
    if None in (result["by_difference"], result["different"], result["beyond_luck"]):
        left += " A dash stands for a small number, which this edition leaves out."
    return (
        f"Among the {result['of']}, exactly one person meets each predicate, whatever the table, "
        f"if rows had no weights. {_PRIOR[result['prior']]}, with independent columns.{left}"
    )


def of_ceiling(result: Doc) -> Iterator[Fact]:
    """Say how many bits the file has, and what follows."""
    yield "Bits that depend on the rows", f"{result['bits']:,}", result["code"]
    yield "for each bit of the table", f"{result['ratio']:.2g}", ""
    if result["rows"] is not None:
        share = percent(result["rows"] / result["n_rows"], 1)
        yield "Rare rows that any attack rebuilds, at most", f"{result['rows']:,}", share
        yield "People whose rows are rare", percent(result["rare"], 1), ""


def premises(result: Doc) -> str:
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
    blocks: list[Block] = [Facts(tuple(of_isolation(result))), Prose(remark(result), quiet=True)]
    return Section.of("isolation", TITLE, blocks)


def ceiling(found: Doc) -> Section | None:
    """What no attack can exceed."""
    if (result := found["ceiling"]) is None:
        return None
    blocks: list[Block] = [Facts(tuple(of_ceiling(result))), Prose(premises(result))]
    return Section.of("ceiling", CEILING, blocks)
