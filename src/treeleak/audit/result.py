"""The result of an audit: what was found, what was not assessed, and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from treeleak.audit.budget import Budget
from treeleak.audit.counts import Counts
from treeleak.audit.inventory import Entry
from treeleak.audit.measurement import Measurement, Variant
from treeleak.audit.uncertainty import Uncertainty
from treeleak.audit.verdict import Finding, Verdict
from treeleak.reconstruction import Reconstruction, as_json, versions

if TYPE_CHECKING:
    from treeleak.audit.policy import Ruling

__all__ = ["AUDIT_VERSION", "Audit", "Provenance"]

AUDIT_VERSION = 1

_ATTACKS = ("reconstruction", "uncertainty")


@dataclass(frozen=True)
class Provenance:
    """Where an audit came from.

    Attributes
    ----------
    file, sha256 : str or None
        Of the model, where it was a file.
    origin : str
        Library, version and class that made the model, as far as known.
    seed : int
    seconds : float
    versions : mapping of str to str
    """

    file: str | None
    sha256: str | None
    origin: str
    seed: int
    seconds: float
    versions: Mapping[str, str] = field(default_factory=versions)

    def to_dict(self) -> dict[str, Any]:
        """Describe the provenance (formats/audit.schema.json)."""
        return {**self.__dict__, "versions": dict(self.versions)}


@dataclass(frozen=True, eq=False)
class Audit:
    """What a model gives away of its training rows.

    Attributes
    ----------
    verdict : str
        "leak shown", "no leak shown by these attacks (this is no proof of safety)" or
        "not assessed"; :func:`~treeleak.audit.verdict.find` states the rule.
    inventory : tuple of Entry
        What the model holds that stems from single rows, or says how rows were drawn.
    counts : Counts or None
        How few rows stand behind the leaves.
    reconstruction : Reconstruction or None
        The rebuilt rows.
    measurement : Measurement or None
        The rebuilt rows against the training rows, where these were given and are the ones that
        the model counted.
    variants : tuple of Variant
        The same with less to go by: without the population, or from the numbers of draws alone.
    findings : tuple of Finding
    advice : tuple of str
        What to change.
    not_assessed : tuple of (str, str)
        Part and reason.
    mismatch : str or None
        Why the rows given cannot be the training rows.
    notes : tuple of str
    provenance : Provenance
    budget : Budget or None
        What the noise on the counts costs, where there is some.
    uncertainty : Uncertainty or None
        What one tree or one rule list leaves to know of each row; None for other models.
    of : {"leaves", "rules"}
        What groups the rows, in a model of this kind.
    ruling : Ruling or None
        Whether it meets a policy, where it was held against one.
    """

    verdict: Verdict
    inventory: tuple[Entry, ...]
    counts: Counts | None
    reconstruction: Reconstruction | None
    measurement: Measurement | None
    findings: tuple[Finding, ...]
    advice: tuple[str, ...]
    not_assessed: tuple[tuple[str, str], ...]
    mismatch: str | None
    notes: tuple[str, ...]
    provenance: Provenance
    variants: tuple[Variant, ...] = ()
    budget: Budget | None = None
    uncertainty: Uncertainty | None = None
    of: str = "leaves"
    ruling: Ruling | None = None

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        said = next((f.text for f in self.findings if f.verdict == self.verdict), "")
        reasons = [why for part, why in self.not_assessed if part in _ATTACKS]
        if not said and reasons:
            said = f"No attack was run: {reasons[0]}. Nothing follows, neither leak nor safety."
        return f"{self.verdict.capitalize()}. {said}".rstrip()

    def to_dict(self, include_rows: bool = False) -> dict[str, Any]:
        """Describe the audit; rows only where asked for (formats/audit.schema.json)."""
        rebuilt = self.reconstruction
        return {
            "format": "treeleak-audit",
            "version": AUDIT_VERSION,
            "verdict": self.verdict,
            "headline": self.headline,
            "findings": [f.__dict__ for f in self.findings],
            "inventory": [e.to_dict() for e in self.inventory],
            "counts": None if self.counts is None else self.counts.to_dict(),
            "budget": None if self.budget is None else self.budget.to_dict(),
            "reconstruction": None if rebuilt is None else rebuilt.to_dict(include_rows),
            "uncertainty": None if self.uncertainty is None else self.uncertainty.to_dict(),
            "measurement": None if self.measurement is None else self.measurement.to_dict(),
            "variants": [v.to_dict() for v in self.variants],
            "ruling": None if self.ruling is None else self.ruling.to_dict(),
            "mismatch": self.mismatch,
            "not_assessed": [{"part": p, "reason": r} for p, r in self.not_assessed],
            "advice": list(self.advice),
            "notes": list(self.notes),
            "provenance": self.provenance.to_dict(),
        }

    def to_json(self, include_rows: bool = False) -> str:
        """Write :meth:`to_dict` as JSON."""
        return as_json(self.to_dict(include_rows))
