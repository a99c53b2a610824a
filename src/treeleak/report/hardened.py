"""A hardened model as text for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table

from treeleak.core.percent import percent
from treeleak.hardening import Hardened, Leak, State
from treeleak.report.plainly import Text, plainly
from treeleak.report.retrain import retraining_told

__all__ = ["render_hardened"]

_VERDICTS = {"leak shown": "leak", "not assessed": "not assessed"}
_STYLES = {"leak": "red", "not assessed": "yellow"}
_ALWAYS = (
    "Which columns the trees test, and where they split: a split was chosen because of the rows.",
)


def render_hardened(result: Hardened, console: Console) -> None:
    """Print what hardening did, step by step, and what is left.

    Parameters
    ----------
    result : Hardened
    console : rich.console.Console
    """
    with plainly(console):
        _print(result, console)


def _print(result: Hardened, console: Console) -> None:
    console.print(Text(f"{result.out} (sha256 {result.sha256[:16]})", style="dim"))
    _part(console, "What an attack finds after each step", _leaks(result))
    _part(console, "What the steps take away", _steps(result))
    _part(console, "Predictions", [_answers(result)])
    _part(console, "What the file still gives away", _left(result))
    _part(console, "What else to change", _bullets(result.audit.advice))
    if result.retraining is not None:
        _part(console, "What another training would save", retraining_told(result.retraining))


def _part(console: Console, title: str, body: Iterator[RenderableType] | list[Text]) -> None:
    console.print()
    console.print(Text(title, style="bold"))
    console.print(Padding(Group(*body), (0, 0, 0, 2), expand=False))


def _bullets(texts: tuple[str, ...]) -> Iterator[RenderableType]:
    grid = Table.grid(padding=(0, 1))
    for text in texts:
        grid.add_row("-", Text(text))
    yield grid


def _leaks(result: Hardened) -> Iterator[RenderableType]:
    measured = any(state.leak.measured for state in result.states)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="")
    table.add_column("step", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("rows are", no_wrap=True)
    table.add_column("values wrong", justify="right", max_width=7)
    if measured:
        for name in ("rows exact", "random guess", "shape alone"):
            table.add_column(name, justify="right", max_width=7)
    for state in result.states:
        table.add_row(*_line(state, measured))
    yield table
    yield Text(
        "Values wrong: compared with the training rows."
        if measured
        else "Values wrong: as the attack expects; give the training rows (--train) to measure it.",
        style="dim",
    )
    for what, said in _remarks(result):
        yield Text.assemble((what, "bold"), f": {said.rstrip('.')}.")


def _line(state: State, measured: bool) -> list[str | Text]:
    if not state.changed and not state.original:
        return [state.step, Text("nothing found", style="dim")]
    leak = state.leak
    verdict = _VERDICTS.get(leak.verdict, "none shown")
    line: list[str | Text] = [
        state.step,
        Text(verdict, style=_STYLES.get(verdict, "")),
        leak.status or "-",
        _share(leak.wrong),
    ]
    if measured:
        exact = "-" if leak.exact_rows is None else percent(leak.exact_rows)
        line += [exact, _share(leak.guess), _share(leak.shape)]
    return line


def _share(share: float | None) -> str:
    return "-" if share is None else percent(share, 1)


def _remarks(result: Hardened) -> Iterator[tuple[str, str]]:
    before: Leak | None = None
    for state in result.states:
        leak = state.leak
        if leak.why is not None and (before is None or leak.why != before.why):
            yield state.step, f"not assessed: {leak.why}"
        if leak.draws is not None and (before is None or leak.draws != before.draws):
            yield state.step, f"which rows each tree drew is known from {leak.draws}"
        before = leak
    if same := [s.step for s in result.states if s.changed and not s.attacked]:
        yield ", ".join(same), "an attack meets what it met before; not run again"


def _steps(result: Hardened) -> Iterator[RenderableType]:
    grid = Table.grid(padding=(0, 2))
    for state in result.states:
        if state.changed:
            grid.add_row(state.step, Text(f"{state.takes}. Lost: {state.costs}."))
    yield grid


def _answers(result: Hardened) -> Text:
    answers = result.answers
    labels = "All labels are the same"
    if answers.changed_labels:
        labels = f"{answers.changed_labels:,} labels changed, {percent(1 - answers.same_labels, 1)}"
    return Text(
        f"{labels}, on {answers.rows:,} rows ({answers.of}); the largest change of a probability "
        f"or value is {answers.largest_change:.3g}."
    )


def _left(result: Hardened) -> Iterator[RenderableType]:
    leaks = dict.fromkeys(
        f"{e.what[:1].upper()}{e.what[1:]} ({', '.join(e.names[:4])}). {e.why}"
        for e in result.still_there
    )
    yield from _bullets((*(f"Still there: {text}" for text in leaks), *_ALWAYS))
