"""Figures of membership in words, for the page and the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from treeleak.core.text import percent
from treeleak.report.blocks import Facts, Prose, Section
from treeleak.report.facts import Doc, Fact
from treeleak.report.sections import reasons

TITLE = "Membership: who is in the training set"


def of_membership(result: Doc) -> Iterator[Fact]:
    """Say how well training rows are told from control rows."""
    area, gain = result["auc"], result["advantage"]
    least, most = f"{area['low']:.2f}", f"{area['high']:.2f}"
    yield "Area under the curve (AUC)", f"{area['value']:.2f} ({least} to {most})", "0.5 by chance"
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


def remark(result: Doc) -> str:
    """Say who was compared, and by what."""
    return (
        f"{result['n_members']:,} training rows against {result['n_others']:,} "
        f"{result['against']}. The score of a row: {result['score']}. Intervals are at 95%."
    )


def membership(found: Doc) -> Section | None:
    """Whether the model tells who is in the training set."""
    if (result := found["membership"]) is None:
        return Section.of("membership", TITLE, reasons(found, "membership"))
    asks = Prose(
        "An adversary has a row, and asks whether it is in the training set. Each training "
        "row and each row of other people gets a score from the rebuilt rows."
    )
    facts = Facts(tuple(of_membership(result)))
    return Section.of("membership", TITLE, [asks, facts, Prose(remark(result), quiet=True)])
