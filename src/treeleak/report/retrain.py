"""What another training would save, as text for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table

from treeleak.core.percent import percent
from treeleak.hardening.retrain import Alternative, Retraining
from treeleak.report.plainly import Text

__all__ = ["retraining_told"]


def retraining_told(result: Retraining) -> Iterator[RenderableType]:
    """Say how use and leak of each way to train compare."""
    yield Text(
        "Accuracy is cross-validated; always the most common class: "
        f"{percent(result.most_common, 1)}. Then each model was audited with the training rows."
    )
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="")
    table.add_column("trained with")
    for column in ("accuracy", "lost", "values wrong", "a guess", "rows exact"):
        table.add_column(column, justify="right")
    for way in result.alternatives:
        table.add_row(*_line(way))
    yield table
    for text in (*(f"Not assessed: {why}." for why in result.not_assessed), *result.advice):
        yield Text(f"- {text}")


def _line(way: Alternative) -> tuple[str, ...]:
    lost = f"{100 * way.lost:+.1f} ± {100 * way.lost_se:.1f}" if way.settings else ""
    used = way.what, percent(way.accuracy, 1), lost
    if way.error is None or way.guess is None or way.exact_rows is None:
        return (*used, "not assessed", "-", "-")
    # Time ran out: a longer attack may do better.
    least = "≤ " * (not way.ended)
    return (
        *used,
        f"{least}{percent(way.error, 1)}",
        percent(way.guess, 1),
        percent(way.exact_rows),
    )
