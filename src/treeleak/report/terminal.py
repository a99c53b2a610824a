"""The audit as text for a terminal of 80 columns, for readers who are no programmers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table

from treeleak.auditing import Audit, Ruling
from treeleak.auditing.assessors.baselines import WORDS
from treeleak.auditing.findings.finding import by_chance
from treeleak.core.text import listed, percent
from treeleak.formats.literals import Edition
from treeleak.reconstruction import Reconstruction
from treeleak.report import facts, isolation
from treeleak.report import sections_of_rows as of_rows
from treeleak.report.facts import Doc
from treeleak.report.safe_console import Text, bullets, escape, figures, part, safe_console, table

STYLE = {"leak shown": "bold red", "possible leak": "bold yellow", "not assessed": "bold dim"}
_AGAINST = {
    "measurement": " against the training rows",
    "population": " against the population",
    "exposure": " by group",
    "inference": " what can be inferred about single people",
}
MOST_ROWS = 8
MOST_NAMES = 4
MOST_COLUMNS = 5


def render(audit: Audit, console: Console, include_rows: bool = False) -> None:
    """Print an audit.

    ``include_rows``: show what the internal edition has: the first rebuilt rows, single leaves,
    small groups. Without it all that is printed is that of the releasable edition.
    """
    edition: Edition = "internal" if include_rows else "releasable"
    document = audit.document(edition)
    style = STYLE.get(audit.verdict, "bold")
    with safe_console(console):
        console.print(Panel(Text(document["headline"]), title=Text("Verdict"), border_style=style))
        if audit.ruling is not None:
            console.print(_ruling(audit.ruling, document["ruling"], facts.severe(document)))
        provenance = document["provenance"]
        lines = [provenance["origin"] or "model of unknown origin"]
        if provenance["file"] is not None:
            lines.insert(0, f"{provenance['file']} (sha256 {(provenance['sha256'] or '')[:16]})")
        lines += [f"{what}: {value}" for what, value, _ in facts.of_use(provenance)]
        console.print(Group(*(Text(line, overflow="fold") for line in lines)), style="dim")
        for title, body in _parts(audit, document, include_rows):
            part(console, title, body)


def _parts(audit: Audit, document: Doc, include_rows: bool) -> Iterator[tuple[str, Any]]:
    entries = _inventory(document["inventory"]) if document["inventory"] else ()
    yield "1. What is in the model", [*_reasons(document, "inventory"), *entries]
    yield f"2. Small {audit.of}", _counts(audit, document)
    if document["structure"] is not None:
        yield facts.GROUPS, _structure(document["structure"])
    if (isolated := document["isolation"]) is not None:
        yield isolation.TITLE, _figures_of(isolation.of_isolation, isolation.remark, isolated)
    if (bounded := document["ceiling"]) is not None:
        yield isolation.CEILING, _figures_of(isolation.of_ceiling, isolation.premises, bounded)
    yield "3. Rebuilding the training rows", _reconstruction(audit, document)
    if document["exposure"] is not None:
        yield "What was recovered, and about whom", _recovered(document)
    reasons = audit.reason("membership") or audit.reason("shadows")
    if document["membership"] or document["shadows"] or reasons:
        yield of_rows.MEMBERSHIP, _membership(document)
    if audit.uncertainty is not None or audit.reason("uncertainty"):
        yield "4. Residual uncertainty (entropy) of a row", _uncertainty(audit, document)
    if include_rows and audit.reconstruction is not None:
        yield "Rebuilt rows", [_rows(audit.reconstruction)]
    if document["notes"]:
        yield "Notes", bullets(document["notes"])
    yield "What to change", bullets(document["advice"])


def _ruling(ruling: Ruling, document: Doc, severe: bool) -> Panel:
    """What the policy asks for, and what was found."""
    styles = {"met": "", "violated": "red", "not assessed": "yellow"}
    checks = (
        (c["what"], c["bound"], Text(f"{c['found']} ({c['state']})", style=styles[c["state"]]))
        for c in document["checks"]
    )
    lines = table(("", "asked for", "found"), checks, words=3)
    style = ("bold" if severe else "bold green") if ruling.passed else "bold red"
    stated = [Text(f"{what}: {value}", style="dim") for what, value, _ in facts.of_policy(document)]
    body = Group(Text(ruling.headline, style=style), *stated, Text(), lines)
    return Panel(body, title=Text("Policy"), border_style=style)


def _inventory(entries: Sequence[Doc]) -> Iterator[RenderableType]:
    leaks = facts.by_what(e for e in entries if e["mark"] == "leaks")
    if leaks:
        yield Text("Leaks: comes from single rows, or shows how trees drew them", style="red")
    for what, same in leaks.items():
        yield Text()
        yield Text.assemble((what, "bold"), f" ({_names(same)})")
        why = dict.fromkeys(t for e in same for t in (e["why"], e.get("told")) if t)
        yield Padding(Text(" ".join(why)), (0, 0, 0, 2), expand=False)
    yield Text("" if leaks else "No part comes from single rows.")
    if unknown := facts.by_what(e for e in entries if e["mark"] == "not assessed"):
        yield Text("Not assessed", style="yellow")
        yield from bullets(f"{what}: {_names(same)}" for what, same in unknown.items())
    if harmless := facts.by_what(e for e in entries if e["mark"] == "harmless"):
        yield Text.assemble(("Harmless: ", "green"), ", ".join(harmless))


def _names(entries: Sequence[Doc]) -> str:
    return listed(list(dict.fromkeys(n for e in entries for n in e["names"])), MOST_NAMES)


def _indented(rows: Any) -> Iterator[tuple[str, ...]]:
    """Put what goes on a line before it under that."""
    for what, *rest in rows:
        yield ("  " * what[:1].islower() + what, *rest)


def _counts(audit: Audit, document: Doc) -> Iterator[RenderableType]:
    yield from _reasons(document, "counts")
    if audit.budget is not None:
        yield Text(str(audit.budget))
    if audit.counts is not None:
        yield figures(_indented(facts.of_counts(document["counts"])))


def _structure(result: Doc) -> Iterator[RenderableType]:
    yield figures(facts.of_structure(result))
    if result["groups"]:
        yield table(facts.group_heads(result), facts.group_lines(result), widest=10)
    yield Text(facts.group_remark(result), style="dim")


# ------------------------------------------------------------------------------ reconstruction


def _reconstruction(audit: Audit, document: Doc) -> Iterator[RenderableType]:
    rebuilt, m = audit.reconstruction, audit.measurement
    if rebuilt is None:
        yield from _reasons(document, "reconstruction")
        return
    # The figures of the owner: how many columns no tree tests names none of them.
    found = rebuilt.to_dict()
    took = f"{rebuilt.seconds:.1f} s" + (", interrupted" if rebuilt.interrupted else "")
    yield Text.assemble((rebuilt.status, "bold"), f" ({took}): {rebuilt.meaning}.")
    if draws := facts.of_draws(found):
        yield Text(draws)
    if rebuilt.draws_hidden:
        beside = ", and the number of different rows"
        distinct = beside if "distinct" in rebuilt.evidence else ", nothing else"
        yield Text(f"Used: the draws of each class in every leaf{distinct}.")
    if rebuilt.row_count is not None:
        yield Text(f"Training set: {rebuilt.row_count}.")
    if rebuilt.contradiction is not None:
        yield Text(document["reconstruction"]["contradiction"])
    elif rebuilt.n_rows:
        figures_shown = [(what, n) for what, n, _ in facts.of_rebuilt(found, rebuilt.given.size)]
        if (y := rebuilt.outcomes) is not None and not rebuilt.labelled:
            figures_shown.append(("Targets that leaves disclose", percent(y.notna().mean())))
        if rebuilt.misfit:
            figures_shown.append((f"{rebuilt.misfit_means}, in sum", f"{rebuilt.misfit:,.0f}"))
        yield figures(figures_shown)
    yield from _reasons(document, "reconstruction")
    if m is not None:
        yield Text()
        yield _measurement(document, rebuilt)
    yield from _reasons(document, "measurement" if m is None else "population")
    if audit.variants:
        yield Text()
        yield _compared(document)


def _compared(document: Doc) -> Table:
    """What was used, side by side."""
    all_ = [(document["reconstruction"]["expected_error"], document["measurement"])]
    all_ += [(v["expected_error"], v["measurement"]) for v in document["variants"]]
    lines = [("Expected error", *(facts.share(error, 1) for error, _ in all_))]
    if any(m is not None for _, m in all_):
        digits = facts.digits(document)
        exact = (facts.share(None if m is None else m["exact_rows"]) for _, m in all_)
        wrong = (facts.share(None if m is None else m["error"], digits) for _, m in all_)
        lines += [("Training rows rebuilt exactly", *exact), ("Reconstruction error", *wrong)]
    heads = ("With less evidence", "all of it", *(v["what"] for v in document["variants"]))
    return table(heads, lines, wraps=False, widest=14)


def _measurement(document: Doc, rebuilt: Reconstruction) -> Group:
    m, digits = document["measurement"], facts.digits(document)
    same = ": verified, the same as the model's"
    same *= not (rebuilt.draws_hidden or rebuilt.behind_noise)
    except_provided = ", of what was not given" * bool(rebuilt.given.any())
    head = Text(f"Against the training rows{except_provided} ({m['compared']}{same})")
    rows = _indented((what, n) for what, n, _ in facts.of_measured(document, digits))
    judged = facts.judged(m)
    left_out = [Text(t) for t in facts.left_out(judged)]
    told = any(by_chance(y["nearer"]) for y in judged["yardsticks"])
    chance = [Text(_BY_CHANCE, style="dim")] * told
    return Group(head, figures(rows), Text(), *left_out, _yardsticks(judged, digits), *chance)


_BY_CHANCE = (
    "By chance: how probable so large a margin is if the rebuilt rows are no better than that line."
)


def _yardsticks(m: Doc, digits: int) -> Table:
    """The rebuilt rows beside what they were held against, categories and numbers apart."""
    scored = m["scores"] or {"categories": None, "numbers": None}
    numbers = scored["numbers"] is not None
    # Where neither is told apart, the error of both together is.
    wrong = "error" if scored["categories"] is None and not numbers else "categories"
    heads = [] if wrong == "categories" and scored[wrong] is None else ["error"]
    if numbers:
        heads = ["categories wrong"] * len(heads) + ["numbers off (sd)", "exact", "within 1%"]

    def line(what: str, scores: Doc, chance: str) -> tuple[str, ...]:
        cells = [] if scores[wrong] is None else [percent(scores[wrong], digits)]
        if (n := scores["numbers"]) is not None:
            cells += [f"{n['off']:.2f}", *(percent(n[k], digits) for k in ("exact", "near"))]
        return (what, *cells, chance)

    lines = [] if m["scores"] is None else [line("the rebuilt rows", scored, "")]
    if scored["categories"] is not None and m.get("error_in_order") is not None:
        blank = [""] * len(heads)
        lines.append(("  row by row, in place", percent(m["error_in_order"], digits), *blank))
    lines += [line(WORDS[y["name"]], y["scores"], by_chance(y["nearer"])) for y in m["yardsticks"]]
    return table(("How far off", *heads, "by chance"), lines, widest=10)


# ---------------------------------------------------------------------------------- exposure


def _recovered(document: Doc) -> Iterator[RenderableType]:
    """Say what was recovered, as the edition has it."""
    exposed, risks = document["exposure"], document["article29"]
    rows = exposed["recovered"]
    yield figures(
        (
            ("Rows proved", percent(rows["proved"])),
            ("Rows probable, every tested value at 90% or more", percent(rows["probable"])),
            ("Rows not proved by the file alone", percent(rows["open"])),
        )
    )
    measured = [c for c in exposed["columns"] if c["right"] is not None]
    if measured:
        most = sorted(measured, key=facts.over_others, reverse=True)[:MOST_COLUMNS]
        yield Text()
        yield table(
            ("Columns most exposed", "right", "random baseline", "most common"),
            [
                (c["column"], *(facts.share(c[k]) for k in ("right", "guess", "majority")))
                for c in most
            ],
        )
    if exposed["groups"]:
        yield Text()
        yield table(
            ("Groups of training rows", "rows", "exact", "error", "random baseline"),
            (_of_group(g, facts.digits(document)) for g in exposed["groups"]),
        )
    if risks is not None and (tried := [_of_risk(*risk) for risk in facts.risks(risks)]):
        heads = ("success", "baseline", "control", "risk", "(95 %)")
        yield Text()
        yield table(("Risks (Article 29)", *heads), tried)
    yield from _reasons(document, "exposure")
    yield from _reasons(document, "inference")


def _membership(document: Doc) -> Iterator[RenderableType]:
    if (shadows := document["shadows"]) is not None:
        yield from _figures_of(of_rows.of_shadows, of_rows.shadows_remark, shadows)
    yield from _reasons(document, "shadows")
    if (result := document["membership"]) is None:
        yield from _reasons(document, "membership")
        return
    yield figures((what, found) for what, found, _ in of_rows.of_membership(result))
    yield Text(of_rows.membership_remark(result), style="dim")


def _figures_of(of: Any, remark: Any, result: Doc) -> Iterator[RenderableType]:
    yield figures(_indented((what, found) for what, found, _ in of(result)))
    yield Text(remark(result), style="dim")


def _of_group(group: Doc, digits: int) -> tuple[str, ...]:
    rows = facts.whole(group["rows"])
    wrong, guess = (facts.share(group[k], digits) for k in ("error", "guess"))
    return facts.group_name(group), rows, facts.share(group["exact"]), wrong, guess


def _of_risk(what: str, result: Doc) -> tuple[str, ...]:
    rates = (None if result[k] is None else result[k]["share"] for k in _RATES)
    risk = result["risk"]
    between = f"{percent(risk['low'])} to {percent(risk['high'])}"
    return (what, *map(facts.share, rates), percent(risk["value"]), between)


_RATES = ("success", "baseline", "control")


# ------------------------------------------------------------------------------- uncertainty


def _uncertainty(audit: Audit, document: Doc) -> Iterator[RenderableType]:
    left, shown = audit.uncertainty, document["uncertainty"]
    if left is None or left.dist_g is None:
        yield from _reasons(document, "uncertainty")
        return
    yield Text(left.in_full if shown["exposed"] else left.average)
    yield figures(_indented(facts.of_uncertainty(shown)))
    if quantiles := shown["quantiles"]:
        # Shares that are left of single rows, from the most exposed to the least.
        named = {"0": "first", "50": "half", "100": "all"}
        heads = ("Of all rows, this part", *(named.get(part, f"{part}%") for part in quantiles))
        yield table(heads, [("has at most this left", *map(percent, quantiles.values()))])
    if shown["exposed"]:
        lines = [(e.name, e.place, percent(e.left), f"{e.rows:,}") for e in left.exposed]
        yield Text()
        yield table(("Most exposed", "where its rows lie", "left", "rows"), lines, words=2)
    yield Text(f"Schema of this part: {left.schema}.", style="dim")
    for note in shown["notes"]:
        yield Text(note, style="dim")


def _reasons(document: Doc, name: str) -> Iterator[RenderableType]:
    for open_ in document["not_assessed"]:
        if open_["part"] == name:
            label = f"Not assessed{_AGAINST.get(name, '')}"
            yield Text.assemble((label, "yellow"), f": {facts.ended(open_['reason'])}")


def _number(value: float) -> str:
    return "not known" if value != value else f"{value:.10g}"


def _rows(rebuilt: Reconstruction) -> RenderableType:
    if rebuilt.X is None:
        return Text("none")
    # A row of the data is a column here: there is room for any number of attributes.
    n = min(MOST_ROWS, rebuilt.n_rows)
    lines = Table(box=None, padding=(0, 1, 0, 0))
    lines.add_column("column", overflow="fold", max_width=26)
    for k in range(n):
        lines.add_column(f"#{k + 1}", overflow="fold", justify="right")
    for column in rebuilt.X:
        lines.add_row(escape(str(column)), *(f"{v:g}" for v in rebuilt.X[column].head(n)))
    if (y := rebuilt.outcomes) is not None:
        targets = y.head(n).map(str) if rebuilt.labelled else y.head(n).map(_number)
        lines.add_row(str(y.name), *map(escape, targets), style="bold")
    return Group(lines, Text(f"{n:,} of {rebuilt.n_rows:,} rows", style="dim"))
