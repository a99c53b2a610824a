"""Singling out, linkability and inference: the three risks that Article 29's party named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from treeleak.metrics.inference import Risk

__all__ = ["LINKABILITY", "Article29", "Inference"]

LINKABILITY = (
    "Not assessed: to link a rebuilt row with another table, that table is needed. Row numbers "
    "link rows that were rebuilt in their order with every table in the same order."
)


@dataclass(frozen=True)
class Inference:
    """How often somebody who knows all else of a person guesses one column from the rebuilt rows.

    Attributes
    ----------
    column : str
    risk : Risk
        On training rows, beside the most common value of the rebuilt rows.
    n_rows : int
        Training rows; :attr:`risk` rests on a random part of them where they are many.
    """

    column: str
    risk: Risk
    n_rows: int

    def to_dict(self) -> dict[str, Any]:
        """Describe it (formats/audit.schema.json)."""
        return {"column": self.column, "n_rows": self.n_rows, **self.risk.to_dict()}


@dataclass(frozen=True)
class Article29:
    """The risks that the Article 29 Working Party judges anonymisation by (opinion 05/2014).

    Attributes
    ----------
    singling_out : Risk or None
        Share of the rebuilt rows that, taken as a description in the columns that trees test, fit
        exactly one training row; beside random rows under the schema. None if no row was tried.
    inference : tuple of Inference
        One for each sensitive column.
    linkability : str
        Why it is not assessed.
    """

    singling_out: Risk | None
    inference: tuple[Inference, ...] = ()
    linkability: str = LINKABILITY

    def to_dict(self) -> dict[str, Any]:
        """Describe the risks (formats/audit.schema.json)."""
        return {
            "singling_out": None if self.singling_out is None else self.singling_out.to_dict(),
            "inference": [i.to_dict() for i in self.inference],
            "linkability": self.linkability,
        }
