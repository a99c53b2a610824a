"""The audit as text for a terminal of 80 columns, for readers who are no programmers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table

from treeleak.auditing import Audit, Counts, Entry, Exposed, Measurement, Ruling
from treeleak.auditing.assessors.yardsticks import WORDS
from treeleak.auditing.findings.score_words import by_chance
from treeleak.auditing.result import Edition
from treeleak.core.percent import percent
from treeleak.metrics import Significance
from treeleak.metrics.scores import Scores
from treeleak.reconstruction import Reconstruction
from treeleak.report.plainly import Text, escape, plainly

__all__ = ["render"]

STYLE = {"leak shown": "bold red", "possible leak": "bold yellow", "not assessed": "bold dim"}
_AGAINST = {
    "measurement": " against the training rows",
    "population": " against the population",
    "exposure": " by group",
    "inference": " what can be inferred of single people",
}
_ALL = {"leaves": "Leaves, in all trees", "rules": "Rules, the default included"}
_SMALLEST = {"leaves": "Smallest leaf", "rules": "Rule with fewest rows"}
MOST_ROWS = 8
MOST_NAMES = 4
MOST_COLUMNS = 5
LARGE = 30
"""Logarithm of numbers from which on only their size is written."""


def render(audit: Audit, console: Console, include_rows: bool = False) -> None:
    """Print an audit.

    Parameters
    ----------
    audit : Audit
    console : rich.console.Console
    include_rows : bool
        Show what the internal edition has: the first rebuilt rows, single leaves, small groups.
        Without it only messages on input that does not fit speak of single leaves and columns.
    """
    with plainly(console):
        _print(audit, console, include_rows)


def _print(audit: Audit, console: Console, include_rows: bool) -> None:
    edition: Edition = "internal" if include_rows else "releasable"
    told = audit.to_dict(edition)
    style = STYLE.get(audit.verdict, "bold")
    console.print(Panel(Text(told["headline"]), title=Text("Verdict"), border_style=style))
    if audit.ruling is not None:
        console.print(_ruling(audit.ruling, told["ruling"]["checks"]))
    console.print(_source(audit), style="dim")
    _part(console, "1. What is in the model", _inventory(audit.inventory))
    _part(console, f"2. How few rows stand behind its {audit.of}", _counts(audit, told))
    _part(console, "3. Rebuilding the training rows", _reconstruction(audit, told))
    if told["exposure"] is not None:
        _part(console, "What was recovered, and of whom", _recovered(audit, told))
    if audit.uncertainty is not None or "uncertainty" in dict(audit.not_assessed):
        _part(console, "4. What it leaves to know of a row", _uncertainty(audit, told))
    if include_rows and audit.reconstruction is not None:
        _part(console, "Rebuilt rows", [_rows(audit.reconstruction)])
    if audit.notes:
        _part(console, "Notes", _bullets(audit.notes))
    _part(console, "What to change", _bullets(audit.advice))


def _ruling(ruling: Ruling, told: Sequence[Mapping[str, Any]]) -> Panel:
    """What the policy asks for, and what was found."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for column in ("", "asked for", "found"):
        table.add_column(column)
    for check, shown in zip(ruling.checks, told, strict=True):
        style = {"met": "", "violated": "red", "not assessed": "yellow"}[check.state]
        found = check.found if check.state == "not assessed" else shown["found"]
        table.add_row(check.what, check.bound, Text(f"{found} ({check.state})", style=style))
    style = "bold green" if ruling.passed else "bold red"
    body = Group(Text(ruling.headline, style=style), Text(), table)
    return Panel(body, title=Text("Policy"), border_style=style)


def _part(console: Console, title: str, body: Iterable[RenderableType]) -> None:
    console.print()
    console.print(Text(title, style="bold"))
    console.print(Padding(Group(*body), (0, 0, 0, 2), expand=False))


def _bullets(texts: Iterable[str]) -> Iterator[RenderableType]:
    grid = Table.grid(padding=(0, 1))
    for text in texts:
        grid.add_row("-", Text(text))
    yield grid


def _source(audit: Audit) -> Group:
    source = audit.provenance
    lines = [source.origin or "model of unknown origin"]
    if source.file is not None:
        lines.insert(0, f"{source.file} (sha256 {(source.sha256 or '')[:16]})")
    return Group(*(Text(line, overflow="fold") for line in lines))


# ----------------------------------------------------------------------------------- inventory


def _inventory(entries: Sequence[Entry]) -> Iterator[RenderableType]:
    leaks = [e for e in entries if e.mark == "leaks"]
    if leaks:
        yield Text("Leaks: stems from single rows, or says how they were drawn", style="red")
        for what, same in _grouped(leaks).items():
            yield Text()
            yield Text.assemble((what, "bold"), f" ({_names(same)})")
            why = dict.fromkeys(e.why for e in same)
            yield Padding(Text(" ".join(why)), (0, 0, 0, 2), expand=False)
        yield Text()
    else:
        yield Text("Nothing was found that stems from single rows.")
    unknown = [e for e in entries if e.mark == "not assessed"]
    if unknown:
        yield Text("Not assessed", style="yellow")
        yield from _bullets(
            f"{what}: {_names(same)}" for what, same in _grouped(unknown).items()
        )  # fmt: skip
    harmless = _grouped(e for e in entries if e.mark == "harmless")
    if harmless:
        yield Text.assemble(("Harmless: ", "green"), ", ".join(harmless))


def _grouped(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.what, []).append(entry)
    return groups


def _names(entries: Iterable[Entry]) -> str:
    names = list(dict.fromkeys(n for e in entries for n in e.names))
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


# -------------------------------------------------------------------------------------- counts


def _counts(audit: Audit, told: Mapping[str, Any]) -> Iterator[RenderableType]:
    if audit.counts is None:
        yield from _reasons(audit, "counts")
        if audit.budget is not None:
            yield Text(str(audit.budget))
        return
    if audit.budget is not None:
        yield Text(str(audit.budget))
        yield Text()
    counts, total = audit.counts, audit.counts.total
    unit = "rows" if counts.unit == "rows" else "draws (a row may count twice)"
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(justify="right", style="dim")
    for text, key in (
        (_ALL[counts.of], "leaves"),
        (f"  with fewer than {counts.threshold} {unit}", "small"),
        ("  with a single one", "single"),
        ("  that lack a class", "excludes_class"),
        ("  that hold one class only", "one_class"),
    ):
        number, leaves = total[key], total["leaves"] or 1
        if number is None:
            table.add_row(text, "not counted by this model", "")
        else:
            table.add_row(text, f"{number:,}", "" if key == "leaves" else percent(number / leaves))
    smallest = told["counts"]["total"]["smallest"]
    least = f"fewer than {counts.threshold}" if smallest is None else f"{smallest:,}"
    table.add_row(_SMALLEST[counts.of], least, "")
    yield table
    if counts.of == "leaves" and len(counts.trees) > 1:
        yield Text(_worst(counts), style="dim")


def _worst(counts: Counts) -> str:
    trees = counts.trees
    share = trees["small"] / trees["leaves"]
    return (
        f"{int((share > 0).sum())} of {len(trees)} trees have small leaves; in the median tree "
        f"{percent(share.median())} of the leaves are small."
    )


# ------------------------------------------------------------------------------ reconstruction


def _reconstruction(audit: Audit, told: Mapping[str, Any]) -> Iterator[RenderableType]:
    rebuilt = audit.reconstruction
    if rebuilt is None:
        yield from _reasons(audit, "reconstruction")
        return
    ended = f"{rebuilt.seconds:.1f} s" + (", interrupted" if rebuilt.interrupted else "")
    yield Text.assemble((rebuilt.status, "bold"), f" ({ended}): {rebuilt.meaning}.")
    if rebuilt.draws is not None:
        yield Text(f"Which rows each tree drew is known from: {rebuilt.draws}.")
    if rebuilt.draws_hidden:
        yield from _hidden(rebuilt)
    if rebuilt.row_count is not None:
        yield Text(f"Training set: {rebuilt.row_count}.")
    if rebuilt.contradiction is not None:
        yield Text(rebuilt.contradiction)
    elif rebuilt.n_rows:
        yield _numbers(rebuilt, noisy=rebuilt.behind_noise)
    if audit.measurement is not None:
        yield Text()
        individual = told["measurement"]["individual"] or {}
        yield _measurement(audit.measurement, individual, rebuilt, noisy=rebuilt.behind_noise)
        yield from _reasons(audit, "population")
    else:
        yield from _reasons(audit, "measurement")
    if audit.variants:
        yield Text()
        yield _compared(audit, rebuilt)


def _hidden(rebuilt: Reconstruction) -> Iterator[RenderableType]:
    """Say in plain words what an answer behind hidden draws rests on."""
    yield Text("Which rows each tree drew is not known: all draws were taken as possible.")
    beside = ", and how many different ones"
    distinct = beside if "distinct" in rebuilt.evidence else ", nothing else"
    yield Text(f"Used: how many draws of each class every leaf counts{distinct}.")


def _compared(audit: Audit, rebuilt: Reconstruction) -> Table:
    """What was used, side by side."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="")
    table.add_column("With less to go by", no_wrap=True)
    for what in ("all of it", *(v.what for v in audit.variants)):
        table.add_column(what, justify="right", max_width=14)
    all_ = [(rebuilt, audit.measurement)]
    all_ += [(v.reconstruction, v.measurement) for v in audit.variants]
    expected = [_share(r.expected_error, 1) for r, _ in all_]
    table.add_row("Values wrong, as expected", *expected)
    if any(m is not None for _, m in all_):
        exact = [_share(None if m is None else m.exact_rows) for _, m in all_]
        table.add_row("Training rows rebuilt exactly", *exact)
        wrong = [_share(None if m is None else m.error, 1) for _, m in all_]
        table.add_row("Values wrong", *wrong)
    return table


def _share(share: float | None, digits: int = 0) -> str:
    return "-" if share is None else percent(share, digits)


def _numbers(rebuilt: Reconstruction, noisy: bool) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_row("Rows rebuilt", f"{rebuilt.n_rows:,}{', in their order' * rebuilt.ordered}")
    if given := int(rebuilt.given.sum()):
        table.add_row("Values given, not counted below", f"{given:,} of {rebuilt.given.size:,}")
    if rebuilt.in_earlier is not None:
        table.add_row("Rows that the earlier model saw, too", f"{int(rebuilt.in_earlier.sum()):,}")
    if rebuilt.misfit:
        table.add_row(f"{rebuilt.misfit_means}, in sum", f"{rebuilt.misfit:,.0f}")
    if not (rebuilt.draws_hidden or noisy):
        table.add_row("Rows proved, as far as trees tell", percent(rebuilt.share_proved_rows))
        table.add_row("Values proved", percent(rebuilt.share_proved_values))
    if rebuilt.expected_error is not None:
        table.add_row("Values that may be wrong, as expected", percent(rebuilt.expected_error, 1))
    if never := rebuilt.numbers.get("rows_never_drawn"):
        table.add_row("Rows that no tree drew: guesses", f"{never:,}")
    if rebuilt.free_columns:
        table.add_row("Columns that no tree tests", f"{len(rebuilt.free_columns)}")
    if rebuilt.interval_columns:
        table.add_row(
            "Columns of numbers, at best narrowed down", f"{len(rebuilt.interval_columns)}"
        )
    if rebuilt.midpoints_met is not None:
        table.add_row("Thresholds midway between these rows", percent(rebuilt.midpoints_met))
    return table


def _measurement(
    m: Measurement, individual: Mapping[str, Any], rebuilt: Reconstruction, noisy: bool
) -> Group:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_row("Training rows rebuilt exactly", percent(m.exact_rows))
    if m.exact_in_order is not None:
        table.add_row("  in their own place", percent(m.exact_in_order))
    if rebuilt.interval_columns:
        table.add_row("Training rows rebuilt as far as trees tell", percent(m.located_rows))
        if m.located_in_order is not None:
            table.add_row("  in their own place", percent(m.located_in_order))
    for what, group in _row_by_row(individual):
        table.add_row(what, group)
    if m.significance is not None:
        for what, found in _against_others(m.significance):
            table.add_row(what, found)
    same = "" if rebuilt.draws_hidden or noisy else ": the same as the model's"
    given = ", of what was not given" * bool(rebuilt.given.any())
    head = Text(f"Against the training rows{given} ({m.compared}{same})")
    return Group(head, table, Text(), _yardsticks(m))


def _yardsticks(m: Measurement) -> Table:
    """The rebuilt rows beside what they were held against, categories and numbers apart."""
    own = m.scores
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="")
    table.add_column("How far off", overflow="fold")
    kinds = [] if own is None or own.categories is None else ["values wrong"]
    if own is not None and own.numbers is not None:
        kinds = ["categories wrong"] if kinds else []
        kinds += ["numbers off (sd)", "exact", "within 1%"]
    for kind in (*kinds, "by chance"):
        table.add_column(kind, justify="right", max_width=10)

    def line(what: str, scores: Scores, chance: str) -> None:
        cells = [] if scores.categories is None else [percent(scores.categories, 1)]
        if (n := scores.numbers) is not None:
            cells += [f"{n.off:.2f}", percent(n.exact, 1), percent(n.near, 1)]
        table.add_row(what, *cells, chance)

    if own is not None:
        line("the rebuilt rows", own, "")
        if m.error_in_order is not None and own.categories is not None:
            blank = [""] * len(kinds)
            table.add_row("  row by row, in place", percent(m.error_in_order, 1), *blank)
    for y in m.yardsticks:
        line(WORDS[y.name], y.scores, by_chance(y.nearer))
    return table


def _row_by_row(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if found and found["all"]["worst"] is not None:
        yield "Values wrong in the worst row", percent(found["all"]["worst"])
    for what, key in (("resemble others", "inliers"), ("stand apart", "outliers")):
        if found and (group := found[key])["n_rows"]:
            yield (
                f"  in the {group['n_rows']:,} rows that {what}",
                f"{percent(group['error'], 1)}, {percent(group['perfect'])} of them exact",
            )


def _against_others(test: Significance) -> Iterator[tuple[str, str]]:
    yield "Values wrong, knowing the population only", percent(test.train_vs_other_draws, 1)
    others = f"{percent(test.errors.mean(), 1)} ± {percent(test.errors.std(), 1)}"
    if test.n_compared < test.n_rows:
        yield f"Values wrong, in {test.n_compared:,} rebuilt rows", percent(test.error, 1)
    yield f"Values wrong, against {len(test.errors):,} draws of both", others
    yield "  draws as near as the training rows", f"{test.as_near:,}"
    yield "  chance of one as near, by a normal law", f"{test.tail:.2g}"


# ---------------------------------------------------------------------------------- exposure


def _recovered(audit: Audit, told: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Say what was recovered, as the edition has it."""
    exposed, risks = told["exposure"], told["article29"]
    rows = exposed["recovered"]
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_row("Rows proved", percent(rows["proved"]))
    table.add_row("Rows probable, every tested value at 90% or more", percent(rows["probable"]))
    table.add_row("Rows not proved by the file alone", percent(rows["open"]))
    yield table
    measured = [c for c in exposed["columns"] if c["right"] is not None]
    if measured:
        yield Text()
        most = sorted(measured, key=_over_others, reverse=True)[:MOST_COLUMNS]
        yield _shares(
            ("Columns most exposed", "right", "random guess", "most common"),
            [(c["column"], c["right"], c["guess"], c["majority"]) for c in most],
        )
    if exposed["groups"]:
        yield Text()
        yield _groups(exposed["groups"])
    yield from _risks(risks)
    yield from _reasons(audit, "exposure")
    yield from _reasons(audit, "inference")


def _over_others(column: Mapping[str, Any]) -> float:
    return float(column["right"] - max(column["guess"] or 0.0, column["majority"] or 0.0))


def _shares(names: Sequence[str], lines: Iterable[Sequence[Any]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="")
    table.add_column(names[0], overflow="fold")
    for name in names[1:]:
        table.add_column(name, justify="right")
    for first, *shares in lines:
        table.add_row(escape(first), *map(_share, shares))
    return table


def _groups(groups: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="")
    table.add_column("Groups of training rows", overflow="fold")
    for name in ("rows", "exact", "values wrong", "random guess"):
        table.add_column(name, justify="right")
    for g in groups:
        rows = "" if g["rows"] is None else f"{g['rows']:,}"
        figures = (_share(g["exact"]), _share(g["error"], 1), _share(g["guess"], 1))
        # Of a one-hot group, the names of its columns often begin with its own.
        told = g["group"].startswith(g["column"])
        table.add_row(
            escape(g["group"] if told else f"{g['column']}: {g['group']}"), rows, *figures
        )
    return table


def _risks(risks: Mapping[str, Any] | None) -> Iterator[RenderableType]:
    if risks is None:
        return
    tried = [] if risks["singling_out"] is None else [("Singling out", risks["singling_out"])]
    tried += [(f"Guessing {i['column']!r}", i) for i in risks["inference"]]
    if tried:
        yield Text()
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="")
        table.add_column("Risks in Article 29's terms", overflow="fold")
        for name in ("success", "without it", "other people", "risk", "(95 %)"):
            table.add_column(name, justify="right")
        for what, r in tried:
            other = None if r["control"] is None else r["control"]["share"]
            low, high = percent(r["risk"]["low"]), percent(r["risk"]["high"])
            shares = (r["success"]["share"], r["baseline"]["share"], other, r["risk"]["value"])
            table.add_row(escape(what), *map(_share, shares), f"{low} to {high}")
        yield table


# ------------------------------------------------------------------------------- uncertainty


def _uncertainty(audit: Audit, told: Mapping[str, Any]) -> Iterator[RenderableType]:
    left, shown = audit.uncertainty, told["uncertainty"]
    if left is None or left.dist_g is None:
        yield from _reasons(audit, "uncertainty")
        return
    yield Text(left.in_full if shown["exposed"] else left.average)
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    bits = f"{left.mean_bits:.1f} of {left.row_bits:.1f}"
    table.add_row("Left of a row, on average (Dist_G)", percent(left.dist_g, 1))
    table.add_row("  in bits", bits)
    table.add_row("Left of a single value, on average (Dist)", percent(left.dist or 0, 1))
    table.add_row("Tables that the model allows", _power(left.log2_worlds))
    if left.contains is not None:
        table.add_row("  the training rows are one of them", "yes" if left.contains else "no")
    if left.nearest:
        table.add_row("  their values that differ from the nearest", percent(left.nearest, 1))
    if shown["told"]:
        table.add_row("Rows of which nothing is left to know", f"{left.told:,}")
    yield table
    if shown["quantiles"]:
        yield _spread(shown["quantiles"])
    if shown["exposed"]:
        yield Text()
        yield _exposed(left.exposed)
    yield Text(f"Domains in this part: schema {left.schema}.", style="dim")
    for note in left.notes:
        yield Text(note, style="dim")


def _power(log2: float) -> str:
    return f"{round(2**log2):,}" if log2 < LARGE else f"about 10^{log2 * math.log10(2):,.0f}"


def _spread(quantiles: Mapping[str, float]) -> Table:
    """Shares that are left of single rows, from the most exposed to the least."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="")
    table.add_column("Of all rows, this part", no_wrap=True)
    for part in quantiles:
        named = {"0": "first", "50": "half", "100": "all"}
        table.add_column(named.get(part, f"{part}%"), justify="right")
    table.add_row("has at most this left", *map(percent, quantiles.values()))
    return table


def _exposed(groups: Sequence[Exposed]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="")
    table.add_column("Most exposed", no_wrap=True)
    table.add_column("left", justify="right")
    table.add_column("rows", justify="right")
    table.add_column("where its rows lie")
    for group in groups:
        rows = f"{group.rows:,}"
        table.add_row(group.name, percent(group.left), rows, escape(group.place))
    return table


def _reasons(audit: Audit, part: str) -> Iterator[RenderableType]:
    for what, why in audit.not_assessed:
        if what == part:
            name = _AGAINST.get(part, "")
            end = "" if why.endswith((".", "?")) else "."
            yield Text.assemble((f"Not assessed{name}", "yellow"), f": {why}{end}")


def _rows(rebuilt: Reconstruction) -> RenderableType:
    if rebuilt.X is None or rebuilt.y is None:
        return Text("none")
    # A row of the data is a column here: there is room for any number of attributes.
    n = min(MOST_ROWS, rebuilt.n_rows)
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("column", overflow="fold", max_width=26)
    for k in range(n):
        table.add_column(f"#{k + 1}", overflow="fold", justify="right")
    for column in rebuilt.X:
        table.add_row(escape(str(column)), *(f"{v:g}" for v in rebuilt.X[column].head(n)))
    table.add_row("label", *(escape(str(v)) for v in rebuilt.y.head(n)), style="bold")
    return Group(table, Text(f"{n:,} of {rebuilt.n_rows:,} rows", style="dim"))
