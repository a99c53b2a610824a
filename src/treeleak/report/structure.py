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


def of_structure(told: Doc) -> Iterator[Fact]:
    """Say how many numbers were learnt, and how many rows are left for each."""
    yield "Numbers learnt (tests and leaves)", f"{told['parameters']:,}", ""
    if (left := told["residual_degrees"]) is not None:
        fewest = told["fewest_degrees"]
        said = f"fewer than {fewest}: a risk" if left < fewest else f"at least {fewest}"
        yield "Residual degrees of freedom (rows minus these)", f"{left:,}", said


def heads(told: Doc) -> tuple[str, ...]:
    """Name the columns of :func:`lines`."""
    few = f"under {told['threshold']}"
    return ("Rows grouped by", "groups", "smallest", few, "lack a class", f"{few} of a class")


def lines(told: Doc) -> Sequence[tuple[str, ...]]:
    """Say how small the groups of rows are, one line for each way to group them."""
    return [
        (
            _BY[g["by"]],
            f"{g['groups']:,}",
            f"under {told['threshold']}" if g["smallest"] is None else f"{g['smallest']:,}",
            f"{g['small']:,}",
            _number(g["lack_a_class"]),
            _number(g["few_of_a_class"]),
        )
        for g in told["groups"]
    ]


def remark(told: Doc) -> str:
    """Say what the groups mean, or why there are none."""
    if not told["groups"]:
        return NOT_GROUPED
    of = told["groups"][0]["of"]
    grouped = "Counted in the leaves." if of == "counts" else f"Grouped: {of}."
    return f"{grouped} {_READ_ON}" if len(told["groups"]) > 1 else grouped


def blocks(told: Doc | None) -> list[Block]:
    """Tell the structure on a page."""
    if told is None:
        return []
    figures = Facts(tuple(of_structure(told)))
    quiet = Prose(remark(told), quiet=True)
    if not told["groups"]:
        return [figures, quiet]
    table = Grid(TITLE, heads(told), tuple(lines(told)), frozenset(range(1, 6)))
    return [figures, table, quiet]


def _number(n: int | None) -> str:
    return NONE if n is None else f"{n:,}"
