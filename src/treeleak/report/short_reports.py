"""Hardened models and the informed adversary as text for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table

from treeleak.auditing.findings.finding import OPEN
from treeleak.auditing.leave_one_out import InformedAudit
from treeleak.core.text import percent
from treeleak.hardening import Hardened, Leak
from treeleak.report import facts
from treeleak.report.blocks import Grid
from treeleak.report.safe_console import Text, bullets, part, safe_console
from treeleak.report.sections import TONES
from treeleak.report.terminal import table

_ALWAYS = ("Always there: the tested columns and the splits. The rows decided each split.",)


def render_hardened(result: Hardened, console: Console) -> None:
    """Print what hardening did, step by step, and what is left."""
    with safe_console(console):
        console.print(Text(f"{result.out} (sha256 {result.sha256[:16]})", style="dim"))
        part(console, "What an attack finds after each step", _leaks(result))
        part(console, "What the steps remove", _steps(result))
        part(console, "Predictions", [_answers(result)])
        part(console, "What the file still discloses", _left(result))
        part(console, "What else to change", bullets(result.advice))


def _leaks(result: Hardened) -> Iterator[RenderableType]:
    measured = any(state.leak.measured for state in result.states)
    heads = ("step", "verdict", "rows are", "error")
    more = ("rows exact", "random baseline", "shape alone") * measured
    shown = [s for s in result.states if s.changed or s.original]
    lines = tuple(_line(s.step, s.leak)[: len((*heads, *more))] for s in shown)
    tones = tuple(TONES.get(s.leak.verdict, "plain") for s in shown)
    yield table(Grid("", (*heads, *more), lines, frozenset(range(3, 7)), tones))
    yield Text(
        "Error: compared with the training rows."
        if measured
        else "Error: the attack's own estimate; give the training rows (--train) to measure it.",
        style="dim",
    )
    for what, sentence in _notes(result):
        yield Text.assemble((what, "bold"), f": {sentence.rstrip('.')}.")


def _line(step: str, leak: Leak) -> tuple[str, ...]:
    verdict = leak.verdict.partition(" by ")[0]
    measured = (facts.share(leak.guess, 1), facts.share(leak.shape, 1))
    wrong, exact = facts.share(leak.wrong, 1), facts.share(leak.exact_rows)
    return step, verdict, leak.status or facts.NONE, wrong, exact, *measured


def _notes(result: Hardened) -> Iterator[tuple[str, str]]:
    before: Leak | None = None
    for state in result.states:
        leak = state.leak
        if leak.why is not None and (before is None or leak.why != before.why):
            how = "not assessed" if leak.verdict == OPEN else "not fully assessed"
            yield state.step, f"{how}: {leak.why}"
        if leak.draws is not None and (before is None or leak.draws != before.draws):
            yield state.step, f"the bootstrap samples are known from {leak.draws}"
        before = leak
    if idle := [s.step for s in result.states if not (s.changed or s.original)]:
        yield ", ".join(idle), "the file holds nothing that these steps remove"
    if same := [s.step for s in result.states if s.changed and not (s.attacked or s.leak.blank)]:
        yield ", ".join(same), "no change for attacks; not run again"


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
        f"{facts.capital(e.what)} ({', '.join(e.names[:4])}). {e.why}" for e in result.still_there
    )
    yield from bullets((*(f"Still there: {text}" for text in leaks), *_ALWAYS))


def render_informed(audit: InformedAudit, console: Console) -> None:
    """Print how well single rows are told."""
    targets = audit.targets
    inlier = ~targets["outlier"]
    groups = {"all": targets, "inliers": targets[inlier], "outliers": targets[~inlier]}
    groups = {name: group for name, group in groups.items() if len(group)}
    lines = [("Rows taken in turn", *(str(len(g)) for g in groups.values()))]
    right = (percent(float((g["error"] == 0).mean())) for g in groups.values())
    sure = (percent(float(g["probability"].mean())) for g in groups.values())
    lines.append(("Probability of the true row and class", *sure))
    lines.append(("Rows rebuilt without any error", *right))
    for what, column in (
        ("Reconstruction error", "error"),
        ("Without the model: most common value of each column", "majority"),
    ):
        lines.append((what, *(percent(float(g[column].mean())) for g in groups.values())))
    lines.append(
        ("Bits that the model adds", *(f"{g['bits'].mean():.1f}" for g in groups.values()))
    )
    with safe_console(console):
        console.print(
            Text(
                f"An adversary knows {audit.n_rows - 1:,} of the {audit.n_rows:,} training "
                "rows. How well does the model disclose the missing one?"
            )
        )
        console.print()
        numeric = frozenset(range(1, 1 + len(groups)))
        console.print(table(Grid("", ("", *groups), tuple(lines), numeric)))
        for note in audit.notes:
            console.print(Text(f"- {note}"))
