"""Figures of a model's structure in words, for the page and the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from treeleak.report.blocks import Block, Facts, Grid, Prose
from treeleak.report.facts import NONE, Doc, Fact

TITLE = "Rows that the model treats alike"
_BY = {
    "leaf": "the leaf they reach",
    "answer": "what the model answers",
    "cell": "their leaf in every tree",
}
NOT_GROUPED = (
    "This needs the training rows, rebuilt rows without alternatives, or the counts of a "
    "single tree."
)
_READ_ON = (
    "An adversary who can only query the model sees groups by answer. One who has the file sees "
    "groups by leaf."
)


def of_structure(result: Doc) -> Iterator[Fact]:
    """Say how many numbers were learnt, and how many rows are left for each."""
    yield "Numbers learnt (tests and leaves)", f"{result['parameters']:,}", ""
    if (left := result["residual_degrees"]) is not None:
        fewest = result["fewest_degrees"]
        rating = f"fewer than {fewest}: a risk" if left < fewest else f"at least {fewest}"
        yield "Residual degrees of freedom (rows minus these)", f"{left:,}", rating


def heads(result: Doc) -> tuple[str, ...]:
    """Name the columns of :func:`lines`."""
    few = f"under {result['threshold']}"
    return ("Rows grouped by", "groups", "smallest", few, "lack a class", f"{few} of a class")


def lines(result: Doc) -> Sequence[tuple[str, ...]]:
    """Say how small the groups of rows are, one line for each way to group them."""
    return [
        (
            _BY[g["by"]],
            f"{g['groups']:,}",
            f"under {result['threshold']}" if g["smallest"] is None else f"{g['smallest']:,}",
            f"{g['small']:,}",
            _number(g["lack_a_class"]),
            _number(g["few_of_a_class"]),
        )
        for g in result["groups"]
    ]


def remark(result: Doc) -> str:
    """Say what the groups mean, or why there are none."""
    if not result["groups"]:
        return NOT_GROUPED
    of = result["groups"][0]["of"]
    grouped = "Counted in the leaves." if of == "counts" else f"Grouped: {of}."
    return f"{grouped} {_READ_ON}" if len(result["groups"]) > 1 else grouped


def blocks(result: Doc | None) -> list[Block]:
    """Tell the structure on a page."""
    if result is None:
        return []
    figures = Facts(tuple(of_structure(result)))
    quiet = Prose(remark(result), quiet=True)
    if not result["groups"]:
        return [figures, quiet]
    table = Grid(TITLE, heads(result), tuple(lines(result)), frozenset(range(1, 6)))
    return [figures, table, quiet]


def _number(n: int | None) -> str:
    return NONE if n is None else f"{n:,}"
