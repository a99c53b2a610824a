"""Which figures of an audit speak to which question of those who judge anonymity; no legal advice.

Each question is put in our own words, and names the figures by their keys in :data:`LIMITS`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from treeleak.auditing.limits import LIMITS
from treeleak.core.errors import NotCovered
from treeleak.core.message import ELSEWHERE, Reader, message_of
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

    def answered(self, audit: Audit, reader: Reader | None) -> dict[str, Any]:
        """Describe the question, with what an audit found (formats/audit.schema.json)."""
        return {
            "source": self.source,
            "asks": self.asks,
            "figures": [_figure(key, audit, reader) for key in self.figures],
            "beyond": self.beyond,
        }


def _figure(key: str, audit: Audit, reader: Reader | None) -> dict[str, Any]:
    limit = LIMITS[key]
    told: dict[str, Any] = {"key": key, "what": limit.what, "found": None, "reason": ""}
    try:
        figure = limit.figure(audit)
    except NotCovered as why:
        return told | {"reason": message_of(why).told(reader)}
    if math.isnan(figure):
        return told | {"reason": "there is no such figure"}
    if reader is not None and key in OF_FEW:
        return told | {"reason": ELSEWHERE}
    return told | {"found": limit.said(figure)}


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
        "How likely is it that such data come out of queries to the model?",
        (),
        "treeleak reads the file and asks no running service. Who holds the file can query it, "
        "too; who can only query it knows less, and was not tried.",
    ),
    Question(
        EDPB,
        "Are these means reasonably likely to be used, by anybody?",
        ("leaking_parts",),
        "The attacks need the file, this free program and an ordinary computer; “Where this report "
        "comes from” says how long they took and what they were given. Who gets the file, and what "
        "would drive them, is in the context.",
    ),
    Question(
        EDPB,
        "Is the likelihood insignificant for each person, not only on average?",
        ("worst_group", "worst_person", "membership_tpr"),
        "An audit tries one training of one model. That no person stands out here does not bound "
        "what could be found of each; differential privacy would.",
    ),
    Question(
        ICO,
        "Could an intruder who is competent and determined, with public sources and without "
        "special knowledge or crime, identify a person?",
        ("proved_alone", "singling_out", "linkability"),
        "The attacks here are more than such an intruder is taken to have: they hold the file and "
        "a program made for it. Which public tables rows could be linked with was not looked for; "
        "--known-columns and --population try some.",
    ),
    Question(
        WP216,
        "Can a person be singled out?",
        ("singling_out", "proved_alone", "membership_auc"),
        "Only rows that were rebuilt were tried.",
    ),
    Question(
        WP216,
        "Can records of one person be linked?",
        ("linkability",),
        "Two halves of the same columns were tried, not another table. Rows rebuilt in their order "
        "can be linked with every table in that order.",
    ),
    Question(
        WP216,
        "Can a value of a person be inferred from others?",
        ("inference", "left_to_know"),
        "Only columns that --sensitive names were tried.",
    ),
    Question(
        ISO,
        "Context: who gets the model, what could they do, what holds them back?",
        (),
        "Not measured. A policy states attacker, recipient and purpose; the report repeats them.",
    ),
    Question(
        ISO,
        "Data: what in it makes people identifiable?",
        ("small_leaves", "stored_rows", "unknown_parts"),
        "Which columns identify, and which are sensitive, is for those who know the data.",
    ),
    Question(
        ISO,
        "Identifiability: is what is left below the threshold that was set?",
        ("recovered_rows", "membership_auc", "epsilon"),
        "The threshold is the policy's, not treeleak's.",
    ),
    Question(
        ISO,
        "Governance: is the decision recorded, and looked at again?",
        (),
        "This report records inputs, versions, date and review; keeping it is for its readers.",
    ),
)


def frameworks(audit: Audit, reader: Reader | None) -> list[dict[str, Any]]:
    """Answer each question as far as an audit's figures speak to it."""
    return [question.answered(audit, reader) for question in QUESTIONS]
