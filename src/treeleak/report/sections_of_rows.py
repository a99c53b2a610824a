"""The sections of a report on the rebuilt rows: from a document to plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from treeleak.auditing.assessors.baselines import WORDS
from treeleak.auditing.findings.finding import by_chance
from treeleak.core.text import percent
from treeleak.report import facts
from treeleak.report.blocks import Bar, Bars, Block, Facts, Grid, Prose, Section, Share, Stack, Tone
from treeleak.report.facts import Doc, Fact
from treeleak.report.sections import reasons

MOST_BARS = 16
"""Lines of a chart, which then fits on a printed page; its table has all."""


def recovered(found: Doc) -> Section:
    """What was recovered, and how sure it is."""
    key, title = "recovered", "What was recovered, and how sure it is"
    if (rebuilt := found["reconstruction"]) is None:
        return Section.of(key, title, reasons(found, "reconstruction"))
    took = f"{rebuilt['seconds']:.1f} s" + ", interrupted" * rebuilt["interrupted"]
    summary = f"{facts.capital(rebuilt['status'])} ({took}): {rebuilt['meaning']}."
    blocks: list[Block] = [Prose(summary)]
    if rebuilt["contradiction"] is not None:
        return Section.of(key, title, [*blocks, Prose(facts.ended(rebuilt["contradiction"]))])
    if draws := facts.of_draws(rebuilt):
        blocks.append(Prose(draws))
    if (exposure := found["exposure"]) is not None and exposure["recovered"]["n_rows"]:
        blocks.append(_how_sure(exposure["recovered"]))
    if rebuilt["n_rows"]:
        blocks.append(Facts(tuple(facts.of_rebuilt(rebuilt))))
    return Section.of(key, title, [*blocks, _variants(found)])


def _variants(found: Doc) -> Grid | None:
    """Put the answers with less evidence beside that with all of it."""
    if not (variants := found["variants"]):
        return None
    attacks = [(found["reconstruction"]["expected_error"], found["measurement"])]
    attacks += [(v["expected_error"], v["measurement"]) for v in variants]
    lines = [("Expected error", *(facts.share(error, 1) for error, _ in attacks))]
    if any(m is not None for _, m in attacks):
        for what, key, digits in (
            ("Training rows rebuilt exactly", "exact_rows", 0),
            ("Reconstruction error", "error", facts.digits(found)),
        ):
            shares = (facts.share(None if m is None else m[key], digits) for _, m in attacks)
            lines.append((what, *shares))
    heads = ("With less evidence", "all of it", *(v["what"] for v in variants))
    return Grid(heads[0], heads, tuple(lines), frozenset(range(1, len(heads))))


def _how_sure(recovered: Doc) -> Stack:
    parts: tuple[tuple[str, str, Tone], ...] = (
        ("proved", "proved", "leak"),
        ("probable, 90% or more", "probable", "open"),
        ("not proved by the file alone", "open", "grey"),
    )
    return Stack(
        "Rows by confidence, on every value that splits distinguish",
        f"of {recovered['n_rows']:,} rows",
        tuple(Share(name, recovered[k], percent(recovered[k]), tone) for name, k, tone in parts),
    )


def against_guesses(found: Doc) -> Section:
    """The rebuilt rows against guesses and the population."""
    key, title = "guesses", "Against baselines and the population"
    if (m := found["measurement"]) is None:
        return Section.of(key, title, reasons(found, "measurement"))
    charts = [
        _right_beside(
            found, "categories", "Categories that are right", lambda s: 1.0 - s["categories"]
        ),
        _right_beside(
            found, "numbers", "Numbers within 1% of their column's range",
            lambda s: s["numbers"]["near"],
        ),
    ]  # fmt: skip
    table = Facts(tuple(_of_measured(found, facts.digits(found))))
    beside = Grid(
        "Compared with",
        ("Baseline", "It knows", "Error of categories", "Numbers off by, in standard deviations",
         "Mean distance of a value", "Chance of such a margin"),
        tuple(_of_yardstick(y, facts.digits(found)) for y in facts.judged(m)["yardsticks"]),
        numeric=frozenset({2, 3, 4, 5}),
    ).without_empty(facts.NONE)  # fmt: skip
    explanation = Prose(
        "Rows are compared after optimal one-to-one matching. The margin over a baseline is "
        "tested over people.",
        quiet=True,
    )
    left_out = [Prose(text) for text in facts.left_out(facts.judged(m))]
    verified = Prose(f"Training file verified against the leaf counts: {m['compared']}.")
    blocks: list[Block | None] = [verified, table, *left_out, *charts]
    if beside.rows:
        blocks += [beside, explanation]
    return Section.of(key, title, [*blocks, *reasons(found, "population")])


def _right_beside(found: Doc, key: str, what: str, right: Callable[[Doc], float]) -> Bars | None:
    """Show what is right in the rebuilt rows and in every yardstick: more ink, more disclosed."""
    m = facts.judged(found["measurement"])
    if m["scores"] is None or m["scores"][key] is None:
        return None
    lines = [Bar("In the rebuilt rows", (right(m["scores"]),))]
    lines += [
        Bar(facts.capital(v["what"]), (right(facts.judged(v["measurement"])["scores"]),))
        for v in found["variants"]
        if v["measurement"] is not None
    ]
    lines += [Bar(facts.capital(WORDS[y["name"]]), (right(y["scores"]),)) for y in m["yardsticks"]]
    return Bars(
        f"{what}: more than the baselines means more leaks",
        "share of the values, after optimal one-to-one matching",
        (("right", "plain"),),
        tuple(lines),
        digits=facts.digits(found),
    )


_KNOWS = {"schema": "the schema", "model": "the trees without counts", "people": "the population"}


def _of_yardstick(y: Doc, digits: int) -> tuple[str, ...]:
    scores = y["scores"]
    wrong = facts.NONE if scores["categories"] is None else percent(scores["categories"], digits)
    off = facts.NONE if scores["numbers"] is None else f"{scores['numbers']['off']:.2f}"
    chance = by_chance(y["nearer"])
    error = percent(scores["error"], digits)
    error += f" ± {percent(y['sd'], digits)}" if digits else ""
    return facts.capital(WORDS[y["name"]]), _KNOWS[y["knows"]], wrong, off, error, chance


def _of_measured(found: Doc, digits: int) -> Iterator[Fact]:
    m = found["measurement"]
    scores = m["scores"]
    if scores["categories"] is not None:
        yield "Error of categories", percent(scores["categories"], digits), ""
    if (numbers := scores["numbers"]) is not None:
        off = f"{numbers['off']:.2f} standard deviations"
        exact, near = (percent(numbers[k], digits) for k in ("exact", "near"))
        yield "Numbers off by, on average", off, f"{exact} exactly right, {near} near"
    if m["error_in_order"] is not None:
        in_place = percent(m["error_in_order"], digits)
        yield "Error of categories row by row, in their own place", in_place, ""
    if (order := facts.judged(m)["in_order"]) is not None:
        counts = found["counts"]
        classed = counts is None or counts["total"].get("one_class") is not None
        usual = f"the usual values{' of the class' * classed} {percent(order['usual'], digits)}"
        yield "Error in their own place", percent(order["error"], digits), usual
    for what, figure, more in facts.of_measured(found, digits):
        yield facts.capital(what), figure, more


def article29(found: Doc) -> Section | None:
    """Singling out, linkability, inference."""
    risks = found["article29"]
    if risks is None:
        return None
    lines = [
        (name, *map(_rate, (r["success"], r["baseline"], r["control"])), _between(r["risk"]))
        for name, r in facts.risks(risks)
    ]
    blocks: list[Block] = [
        Prose(
            "The Article 29 Working Party judges anonymity by these risks (opinion "
            "05/2014). Each rate has a baseline without the model. The risk is the excess "
            "over it, from 0% to 100%."
        )
    ]
    if lines:
        control = "Control: people not in the training set"
        columns = ("Risk of", "Attack success rate", "Baseline", control, "Risk")
        about = "Rates, each with a 95% interval"
        blocks.append(Grid(about, columns, tuple(lines)))
        blocks.append(
            Prose(
                "A rebuilt row singles a person out if it fits exactly one training row. In "
                "attribute inference, the adversary knows all other values of a person and "
                "takes the missing one from the rebuilt rows. Two records, one with half of "
                "the columns and one with the others, are linked if the same rebuilt row is "
                "nearest to both.",
                quiet=True,
            )
        )
    if not risks["inference"]:
        blocks.append(Prose("Inference: not assessed, because no column was named as sensitive "
            "(--sensitive)."))  # fmt: skip
    if isinstance(risks["linkability"], str):
        blocks.append(Prose(risks["linkability"], lead="Linkability:"))
    title = "Singling out, linkability, inference"
    return Section.of("article29", title, blocks)


def _rate(rate: Doc | None) -> str:
    return facts.NONE if rate is None else _between(rate, "share")


def _between(interval: Doc, key: str = "value") -> str:
    return f"{percent(interval[key])} ({percent(interval['low'])} to {percent(interval['high'])})"


def _expected(column: Doc) -> float | None:
    """Share of a column that is expected to be wrong; of one that no tree tests, nobody knows."""
    return column["expected"] if column["tested"] else None


def columns(found: Doc) -> Section | None:
    """What leaks of each column."""
    exposure = found["exposure"]
    if exposure is None or not exposure["columns"]:
        return None
    by_column, blocks = exposure["columns"], list[Block]()
    values: list[tuple[str, tuple[float | None, ...]]]
    if any(c["right"] is not None for c in by_column):
        order = sorted(by_column, key=lambda c: c["majority"] - (c["right"] or 0))
        names: tuple[tuple[str, Tone], ...] = (("rebuilt", "leak"), ("most common value", "plain"))
        values = [(c["column"], (c["right"], c["majority"])) for c in order]
        title = "Values that are right, by column: rebuilt, and always the most common value"
    else:
        order = sorted(by_column, key=lambda c: _expected(c) or 0)
        names = (("right, as expected", "plain"),)
        expected = [(c["column"], _expected(c)) for c in order]
        values = [(name, (None if wrong is None else 1 - wrong,)) for name, wrong in expected]
        title = "Values that are right, by column, as the attack expects"
    bars = tuple(Bar(name, shares) for name, shares in values)
    left_out = max(len(bars) - MOST_BARS, 0)
    blocks.append(Bars(title, "share of the rows", names, bars, left_out=left_out))
    rows = [
        (
            c["column"],
            *map(facts.share, (c["right"], c["guess"], c["majority"], _expected(c), c["proved"])),
            "yes" if c["tested"] else "no",
        )
        for c in order
    ]
    heads = ("Column", "Right", "Random baseline", "Most common value", "Expected wrong",
             "Proved", "Tested by a tree")  # fmt: skip
    caption = "All figures by column"
    blocks.append(Grid(caption, heads, tuple(rows), numeric=frozenset(range(1, 6)), folded=True))
    if found["reconstruction"]["interval_columns"]:
        about = (
            "Expected wrong: of numbers, those in another interval than the true one. The expected "
            "error of all columns is of another kind: by how much numbers are off, as a share of "
            "their range."
        )
        blocks.append(Prose(about, quiet=True))
    if exposure["columns_left_out"]:
        n = exposure["columns_left_out"]
        blocks.append(Prose(f"Left out: {n:,} columns where few rows differ from the rest.",
                            quiet=True))  # fmt: skip
    return Section.of("columns", "What leaks of each column", blocks)


def groups(found: Doc) -> Section | None:
    """Results by group."""
    exposure = found["exposure"]
    if exposure is None or not exposure["groups"]:
        return None
    with_errors = [g for g in exposure["groups"] if g["error"] is not None]
    names: tuple[tuple[str, Tone], ...] = (("rebuilt", "leak"), ("random baseline", "plain"))
    # No random table may have held a small group of a large table.
    bars = [
        Bar(facts.group_name(g), (1 - g["error"], None if g["guess"] is None else 1 - g["guess"]))
        for g in with_errors
    ]
    title = "Accuracy of the values, by group: more is worse"
    left_out = max(len(bars) - MOST_BARS, 0)
    chart = Bars(
        title,
        "1 - mean distance of a value from the true one",
        names,
        tuple(bars),
        left_out=left_out,
    )
    rows = [
        (
            facts.group_name(g),
            facts.whole(g["rows"]),
            *(facts.share(g[k], facts.digits(found)) for k in ("error", "guess")),
            facts.share(g["exact"]),
        )
        for g in exposure["groups"]
    ]
    heads = ("Group", "Rows", "Mean distance of a value", "In a random baseline", "Rows exact")
    table = Grid("All figures by group", heads, tuple(rows), numeric=frozenset({1, 2, 3, 4}))
    return Section.of("groups", "Results by group", [chart if bars else None, table])


MEMBERSHIP = "Membership: who is in the training set"


def _of_membership(result: Doc) -> Iterator[Fact]:
    """Say how well training rows are told from control rows."""
    area, gain = result["auc"], result["advantage"]
    least, most = f"{area['low']:.2f}", f"{area['high']:.2f}"
    yield (
        "AUC of the scores from rebuilt rows",
        f"{area['value']:.2f} ({least} to {most})",
        "0.5 by chance",
    )
    share = f"{percent(gain['value'])} ({percent(gain['low'])} to {percent(gain['high'])})"
    yield "Advantage", share, "0% by chance; other people set the threshold"
    for caught in result["at"]:
        rate = f"{100 * caught['false_positives']:g}%"
        what, found = f"Members recognised at {rate} false positives", caught["true_positives"]
        if found is None:
            yield what, "not assessed", f"needs {caught['needed']:,} control rows or more"
        else:
            ends = f"{percent(found['low'], 1)} to {percent(found['high'], 1)}"
            yield what, f"{percent(found['share'], 1)} ({ends})", f"{rate} by chance"
    if (off := result["calibration"]) is not None:
        chance = f"{percent(off['by_chance'], 1)} if they were right, by chance"
        yield "Calibration error of probabilities", percent(off["error"], 1), chance


def _of_shadows(result: Doc) -> Iterator[Fact]:
    """Say how well models, this one and those trained like it, tell who was among their rows."""
    found = [
        (f"AUC of shadow models of {size['rows']:,} rows", f"{size['models']:,} models", size)
        for size in result["sizes"]
    ]
    if (own := result["direct"]) is not None:
        found.insert(0, ("AUC of the model's predictions", f"{own['others']:,} control rows", own))
    for what, of, score in found:
        area, caught = score["auc"], score["caught"]
        rate = f"{area['value']:.2f} ({area['low']:.2f} to {area['high']:.2f})"
        yield what, rate, f"{of}; 0.5 by chance"
        if caught is not None:
            ends = f"{percent(caught['low'], 1)} to {percent(caught['high'], 1)}"
            share = f"{percent(caught['value'], 1)} ({ends})"
            yield "members recognised at 1% false positives", share, "1% by chance"


def _shadows_remark(result: Doc) -> str:
    """Say what shadow models are."""
    if not result["sizes"]:
        return "The score of a person: how sure the model is of their label. Intervals are at 95%."
    return (
        f"Shadow models: a {result['trained']} with the settings of this model, trained on one "
        "half of some of the training rows and on the other half. The score of a person: how sure "
        "a model is of their label, less how sure those are that did not see them. Intervals are "
        "at 95%."
    )


def membership(found: Doc) -> Section | None:
    """Whether the model tells who is in the training set."""
    blocks: list[Block] = []
    if (shadows := found["shadows"]) is not None:
        about = Prose(_shadows_remark(shadows), quiet=True)
        blocks = [Facts(tuple(_of_shadows(shadows))), about]
    blocks += reasons(found, "shadows")
    if (result := found["membership"]) is None:
        return Section.of("membership", MEMBERSHIP, [*blocks, *reasons(found, "membership")])
    asks = Prose(
        "An adversary has a row, and asks whether it is in the training set. Each training "
        "row and each row of other people gets a score from the rebuilt rows."
    )
    figures = Facts(tuple(_of_membership(result)))
    remark = (
        f"{result['n_members']:,} training rows against {result['n_others']:,} "
        f"{result['against']}. The score of a row: {result['score']}. Intervals are at 95%."
    )
    blocks += [asks, figures, Prose(remark, quiet=True)]
    return Section.of("membership", MEMBERSHIP, blocks)
