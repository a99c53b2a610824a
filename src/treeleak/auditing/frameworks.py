"""Which figures of an audit speak to which question of those who judge anonymity; no legal advice.

Each question is put in our own words, and names the figures by their keys in :data:`LIMITS`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from treeleak.auditing.limits import LIMITS
from treeleak.core.errors import NotCovered
from treeleak.core.message import ELSEWHERE, Audience, message_of
from treeleak.core.private import dataclass

if TYPE_CHECKING:
    from treeleak.auditing.result import Audit

EDPB = "EDPB Opinion 28/2024 on AI models"
ICO = "ICO, motivated intruder test"
WP216 = "Article 29 Working Party, Opinion 05/2014 (WP 216)"
ISO = "ISO/IEC 27559"

OF_FEW = frozenset({"worst_person", "worst_group", "worst_group_over_guess", "smallest_leaf"})
"""Figures that may be those of one person, or of few."""


@dataclass(frozen=True)
class Question:
    """Something that a framework asks.

    Attributes
    ----------
    source : str
        The framework.
    asks : str
        The question, in our words.
    figures : tuple of str
        Keys of the figures that speak to it; empty where none does.
    beyond : str
        What remains to be judged, or is not answered by them.
    """

    source: str
    asks: str
    figures: tuple[str, ...]
    beyond: str

    def answered(self, audit: Audit, reader: Audience | None) -> dict[str, Any]:
        """Describe the question, with what an audit found (formats/audit.schema.json)."""
        return {
            "source": self.source,
            "asks": self.asks,
            "figures": [_figure(key, audit, reader) for key in self.figures],
            "beyond": self.beyond,
        }


def _figure(key: str, audit: Audit, reader: Audience | None) -> dict[str, Any]:
    limit = LIMITS[key]
    entry: dict[str, Any] = {"key": key, "what": limit.what, "found": None, "reason": ""}
    try:
        figure = limit.figure(audit)
    except NotCovered as why:
        return entry | {"reason": message_of(why).render_for(reader)}
    if math.isnan(figure):
        return entry | {"reason": "there is no such figure"}
    if reader is not None and key in OF_FEW:
        return entry | {"reason": ELSEWHERE}
    return entry | {"found": limit.display(figure)}


QUESTIONS: tuple[Question, ...] = (
    Question(
        EDPB,
        "How likely is it that personal data of people in the training set can be extracted from "
        "the model?",
        ("stored_rows", "proved_alone", "recovered_rows", "exact_rows"),
        "Whether the columns are personal data, and which likelihood is insignificant.",
    ),
    Question(
        EDPB,
        "How likely is it that queries to the model return such data?",
        (),
        "treeleak reads the file and queries no running service. Anyone who has the file can "
        "query it, too. An adversary who can only query it knows less; no attack here tries this "
        "case.",
    ),
    Question(
        EDPB,
        "Are these means reasonably likely to be used, by anyone?",
        ("leaking_parts",),
        "The attacks need the file, this free program and an ordinary computer. “Where this "
        "report comes from” lists their time and their input. The context decides who gets the "
        "file, and what motives they have.",
    ),
    Question(
        EDPB,
        "Is the likelihood insignificant for each person, not only on average?",
        ("worst_group", "worst_person", "membership_tpr"),
        "An audit tries one training of one model. If no person stands out here, that is still "
        "no bound on what others could find about each person. Differential privacy gives such a "
        "bound.",
    ),
    Question(
        ICO,
        "Could a competent and determined intruder identify a person, with public sources, and "
        "without special knowledge or crime?",
        ("proved_alone", "singling_out", "linkability"),
        "The attacks here go beyond this intruder: they use the file and a program made for it. "
        "treeleak does not look for public tables that match rows; --known-columns and "
        "--population try some.",
    ),
    Question(
        WP216,
        "Can a person be singled out?",
        ("singling_out", "proved_alone", "membership_auc"),
        "The figures cover rebuilt rows only.",
    ),
    Question(
        WP216,
        "Can records of one person be linked?",
        ("linkability",),
        "The test links two halves of the same columns, not another table. Rows rebuilt in their "
        "order can be linked with every table in that order.",
    ),
    Question(
        WP216,
        "Can a value of a person be inferred from others?",
        ("inference", "left_to_know"),
        "The figures cover only columns that --sensitive names.",
    ),
    Question(
        ISO,
        "Context: who gets the model, what could they do, what holds them back?",
        (),
        "Not measured. A policy states attacker, recipient and purpose, and the report repeats "
        "them.",
    ),
    Question(
        ISO,
        "Data: what in the data makes people identifiable?",
        ("small_leaves", "stored_rows", "unknown_parts"),
        "People who know the data must say which columns identify, and which are sensitive.",
    ),
    Question(
        ISO,
        "Identifiability: is the remaining risk below the threshold that was set?",
        ("recovered_rows", "membership_auc", "epsilon"),
        "The policy sets the threshold, not treeleak.",
    ),
    Question(
        ISO,
        "Governance: is the decision recorded, and reviewed later?",
        (),
        "This report records inputs, versions, date and review. Its readers must keep it.",
    ),
)


def frameworks(audit: Audit, reader: Audience | None) -> list[dict[str, Any]]:
    """Answer each question as far as an audit's figures speak to it."""
    return [question.answered(audit, reader) for question in QUESTIONS]
