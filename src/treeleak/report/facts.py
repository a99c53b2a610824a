"""Facts of an audit's document in words: each once, for the page, the terminal and the pictures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from treeleak.auditing.assessors import measurement
from treeleak.core.text import percent
from treeleak.reconstruction.result import misfit_means
from treeleak.report.blocks import Block, Facts, Grid, Prose

Doc = Mapping[str, Any]
Fact = tuple[str, str, str]
"""What it is, its figure, and more about it."""

SEVERE = 0.1
"""Share of rows that came back or are proved, from which on no colour and no sentence of a first
screen reads as relief."""
NONE = "–"
_LARGE = 30
"""Logarithm of numbers from which on only their size is written."""
_ALL = {"leaves": "Leaves, in all trees", "rules": "Rules, the default included"}
_SMALLEST = {"leaves": "Smallest leaf", "rules": "Rule with fewest rows"}


def whole(n: int | None) -> str:
    """Write a number, if there is one."""
    return NONE if n is None else f"{n:,}"


def share(part: float | None, digits: int = 0) -> str:
    """Write a share, if there is one."""
    return NONE if part is None else percent(part, digits)


def digits(found: Doc) -> int:
    """Digits of a score in percent: the releasable edition has whole percents."""
    return 0 if found["edition"] == "releasable" else 1


def judged(m: Doc) -> Doc:
    """Take what the verdict rests on: without columns that no tree tests, where there are any."""
    found: Doc = m.get("on_tested", m)
    return found


def came_back(m: Doc) -> tuple[float, str]:
    """The greatest share of training rows that came back, and in what."""
    return measurement.came_back(m["exact_rows"], m["located_rows"], m.get("targets"))


def severe(found: Doc) -> bool:
    """Whether many rows were rebuilt or are proved, whatever the verdict makes of it."""
    m, exposed = found["measurement"], found["exposure"]
    proved = 0.0 if exposed is None else exposed["recovered"]["proved"]
    return max(proved, 0.0 if m is None else came_back(m)[0]) >= SEVERE


def left_out(judged: Doc) -> Iterator[str]:
    """Say which columns the comparison with baselines leaves out."""
    if columns := judged.get("left_out"):
        some = f"the {columns:,} columns" if columns > 1 else "the one column"
        yield f"Without {some} that no tree tests, nor another of the same group:"


def capital(text: str) -> str:
    """Begin a text with a capital."""
    return text[:1].upper() + text[1:]


def ended(text: str) -> str:
    """End a sentence."""
    return text if text.endswith((".", "?")) else f"{text}."


def by_what(entries: Iterable[Doc]) -> dict[str, list[Doc]]:
    """Put entries of the inventory together that are of one kind."""
    groups: dict[str, list[Doc]] = {}
    for entry in entries:
        groups.setdefault(entry["what"], []).append(entry)
    return groups


def of_counts(counts: Doc) -> Iterator[Fact]:
    """Count small leaves or rules: number, and share of all."""
    total, leaves = counts["total"], counts["total"]["leaves"] or 1
    unit = "rows" if counts["unit"] == "rows" else "draws (a row may count twice)"
    yield _ALL[counts["of"]], f"{total['leaves']:,}", ""
    for what, key in (
        (f"with fewer than {counts['threshold']} {unit}", "small"),
        ("with a single one", "single"),
        ("that lack a class", "excludes_class"),
        ("that hold one class only", "one_class"),
    ):
        if (n := total[key]) is None:
            yield what, "not counted by this model", ""
        else:
            yield what, f"{n:,}", percent(n / leaves)
    smallest = total["smallest"]
    least = f"fewer than {counts['threshold']}" if smallest is None else f"{smallest:,}"
    yield _SMALLEST[counts["of"]], least, ""


def likely(rebuilt: Doc) -> bool:
    """Whether nothing can be proved: draws are hidden, or counts carry noise."""
    return bool(rebuilt["row_count"])


def of_draws(rebuilt: Doc) -> str:
    """Say whether it is known which rows each tree drew; nothing where trees drew none."""
    if rebuilt["draws"] is not None:
        return f"The bootstrap samples are known from: {rebuilt['draws']}."
    if rebuilt["evidence"].startswith("hidden"):
        beside = ", and the number of different rows"
        beside = beside if "distinct" in rebuilt["evidence"] else ", nothing else"
        return (
            "It is not known which rows each tree drew: the attack allowed all of them. "
            f"Used: the draws of each class in every leaf{beside}."
        )
    return ""


def of_rebuilt(rebuilt: Doc) -> Iterator[Fact]:
    """Say what was rebuilt, and how sure it is."""
    order = "row k is row k of the training table" * rebuilt["ordered"]
    yield "Rows rebuilt", f"{rebuilt['n_rows']:,}{', in their order' * rebuilt['ordered']}", order
    if (rows := rebuilt["row_count"]) is not None:
        low, high = rows["between"]
        wide = f" (95 %: {low:,} to {high:,})" if low < high else ""
        yield "Training rows", f"{rows['n']:,}{wide}", rows["origin"]
    if n := rebuilt["known_values"]:
        yield "Values given, not counted below", f"{n:,}", ""
    if not likely(rebuilt):
        every = "every dataset that meets the counts, and the schema given or inferred, has them"
        proved = percent(rebuilt["share_proved_rows"])
        yield "Rows proved, on what splits distinguish", proved, every
        yield "Values proved", percent(rebuilt["share_proved_values"]), ""
    if (n_proved := rebuilt["numbers"].get("settled_rows")) is not None:
        follows = (
            "the other rows may be in one of several leaves; draws and counts alone prove this"
        )
        share = percent(n_proved / max(rebuilt["n_rows"], 1))
        yield "Rows proved in each tree that drew them", share, follows
    if left_open := rebuilt["numbers"].get("rows_left_open"):
        other = "another table meets every count, and differs there"
        yield "Rows that the counts leave open", f"{left_open:,}", other
    if rebuilt["expected_error"] is not None:
        how = (
            "by how much numbers are off, as a share of their range; values that differ, of others"
        )
        more = how if rebuilt["interval_columns"] else "made without the training rows"
        wrong = percent(rebuilt["expected_error"], 1)
        yield "Expected error (the attack's own estimate)", wrong, more
    if never := rebuilt["numbers"].get("rows_never_drawn"):
        yield "Rows that no tree drew: no evidence", f"{never:,}", ""
    for what, key in (
        ("Columns that no tree tests", "free_columns"),
        ("Columns of numbers, which have intervals at best", "interval_columns"),
    ):
        if rebuilt[key]:
            yield what, f"{len(rebuilt[key])}", ""
    if rebuilt["misfit"]:
        yield f"{misfit_means(rebuilt['evidence'])}, in sum", f"{rebuilt['misfit']:,.0f}", ""
    if rebuilt["midpoints_met"] is not None:
        many = "above 80% most numbers are right"
        yield "Thresholds explained by the rebuilt rows", percent(rebuilt["midpoints_met"]), many


def of_measured(found: Doc, digits: int) -> Iterator[Fact]:
    """Say how near the rebuilt rows are to the training rows, and to other people."""
    m = found["measurement"]
    kinds = [("Training rows rebuilt exactly", m["exact_rows"], m["exact_in_order"])]
    if found["reconstruction"]["interval_columns"] or m["located_rows"] != m["exact_rows"]:
        what = "Training rows rebuilt on what splits distinguish"
        kinds.append((what, m["located_rows"], m["located_in_order"]))
    for what, rows, order in kinds:
        yield what, percent(rows), ""
        if order is not None:
            yield "in their own place", percent(order), ""
    if m.get("targets") is not None:
        yield "Training rows rebuilt with their exact target", percent(m["targets"]), ""
    mixed = "a wrong category counts 1, a number its difference over the column's range"
    yield "Mean distance of a value from the true one", percent(m["error"], digits), mixed
    individual = m["individual"] or {}
    if individual and individual["all"]["worst"] is not None:
        yield "Error in the worst row", percent(individual["all"]["worst"]), ""
    for what, key in (("resemble others", "inliers"), ("are outliers", "outliers")):
        group = individual.get(key)
        if group and group["n_rows"]:
            error, exact = percent(group["error"], digits), percent(group["perfect"])
            yield f"in the {group['n_rows']:,} rows that {what}", error, f"{exact} of them exact"
    if (test := judged(m)["significance"]) is not None:
        error, mean, alone = (
            percent(test[k], digits) for k in ("error", "others_mean", "train_vs_other_draws")
        )
        where = ", in columns that trees test" * ("left_out" in judged(m))
        yield f"Error, knowing the population only{where}", alone, ""
        if test["n_compared"] < test["n_rows"]:
            yield f"Error, in {test['n_compared']:,} rebuilt rows", error, ""
        spread = f" ± {percent(test['others_sd'], digits)}" if digits else ""
        yield f"Error, against {test['draws']:,} samples of both{where}", mean + spread, ""
        yield "samples as near as the training rows", f"{test['as_near']:,}", ""
        yield "chance of one as near, by a normal law", f"{test['tail']:.2g}", ""


def of_uncertainty(left: Doc) -> Iterator[Fact]:
    """State the residual uncertainty for one tree or one rule list."""
    bits = f"{left['mean_bits']:.1f} of {left['row_bits']:.1f} bits"
    yield "Residual uncertainty of a row (Dist_G)", percent(left["dist_g"], 1), bits
    yield "Residual uncertainty of a value (Dist)", percent(left["dist"] or 0, 1), ""
    yield from _of_worlds(left)
    if left["told"]:
        yield "Rows without any residual uncertainty", f"{left['told']:,}", ""


def _of_worlds(left: Doc) -> Iterator[Fact]:
    log2 = left["log2_worlds"]
    many = f"{round(2**log2):,}" if log2 < _LARGE else f"about 10^{log2 * math.log10(2):,.0f}"
    yield "Tables that the model allows", many, ""
    if left["contains"] is not None:
        yield "the training rows are one of them", "yes" if left["contains"] else "no", ""
    if left["nearest"]:
        yield "their values that differ from the nearest", percent(left["nearest"], 1), ""


def group_name(group: Doc) -> str:
    """Name a group of people; of a one-hot group, the columns often begin with its own name."""
    name, column = str(group["group"]), group["column"]
    return name if name.startswith(column) else f"{column}: {name}"


def risks(article29: Doc) -> Iterator[tuple[str, Doc]]:
    """Name the risks that were assessed."""
    if article29["singling_out"] is not None:
        yield "Singling out", article29["singling_out"]
    if not isinstance(article29["linkability"], str):
        yield "Linking two records", article29["linkability"]
    for risk in article29["inference"]:
        yield f"Attribute inference of {risk['column']!r}", risk


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


def group_blocks(result: Doc) -> list[Block]:
    """Say how many numbers were learnt, and how small the groups of rows are."""
    figures = [("Numbers learnt (tests and leaves)", f"{result['parameters']:,}", "")]
    if (left := result["residual_degrees"]) is not None:
        fewest = result["fewest_degrees"]
        rating = f"fewer than {fewest}: a risk" if left < fewest else f"at least {fewest}"
        figures.append(("Residual degrees of freedom (rows minus these)", f"{left:,}", rating))
    if not (groups := result["groups"]):
        return [Facts(tuple(figures)), Prose(NOT_GROUPED, quiet=True)]
    few = f"under {result['threshold']}"
    heads = ("Rows grouped by", "groups", "smallest", few, "lack a class", f"{few} of a class")
    lines = [
        (
            _BY[g["by"]],
            f"{g['groups']:,}",
            few if g["smallest"] is None else f"{g['smallest']:,}",
            f"{g['small']:,}",
            whole(g["lack_a_class"]),
            whole(g["few_of_a_class"]),
        )
        for g in groups
    ]
    of = groups[0]["of"]
    remark = "Counted in the leaves." if of == "counts" else f"Grouped: {of}."
    remark += f" {_READ_ON}" * (len(groups) > 1)
    table = Grid("Rows that the model treats alike", heads, tuple(lines), frozenset(range(1, 6)))
    return [Facts(tuple(figures)), table, Prose(remark, quiet=True)]


_STATED = (
    ("attacker", "Protects against"),
    ("recipient", "Goes to"),
    ("purpose", "For"),
    ("review", "To be reviewed by"),
)


def of_policy(ruling: Doc) -> Iterator[Fact]:
    """Say what a policy states of attacker, recipient, purpose and review."""
    for key, what in _STATED:
        if ruling[key]:
            yield what, ruling[key], ""


def of_inputs(source: Doc) -> Iterator[Fact]:
    """Name the files that were read, with their hashes."""
    for what, entry in source["inputs"].items():
        withheld = "its SHA-256 is in the internal edition only: it can confirm a guess of the data"
        sha256 = withheld if entry["sha256"] is None else f"SHA-256 {entry['sha256']}"
        yield f"Input: {what.replace('_', ' ')}", entry["file"], sha256


def of_use(source: Doc) -> Iterator[Fact]:
    """Say when the audit was made, against whom, who may see it, and until when it holds."""
    yield "Made", source["time"].replace("T", " ").replace("Z", " UTC"), ""
    yield "Adversary assumed", source["threat_model"], ""
    yield "Readers", source["readers"], ""
    yield "Review", source["review"], ""
