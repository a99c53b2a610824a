"""The result of an audit: what was found, what was not assessed, and where it came from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import numpy as np
import pandas as pd

from treeleak.auditing import wording
from treeleak.auditing.assessors.counts import THRESHOLD
from treeleak.auditing.case import AuditResults
from treeleak.auditing.disclosure.releasable import Suppression, choose_publishable, releasable
from treeleak.auditing.findings.finding import NO_LEAK, OPEN, Finding, rows_open
from treeleak.auditing.record import READERS, REVIEW, Provenance, figures_of, hashed
from treeleak.core.arrays import Place
from treeleak.core.errors import BadInput
from treeleak.core.message import Audience, FigureWithSupport, message_of
from treeleak.core.output import write_file
from treeleak.core.private import dataclass
from treeleak.formats.literals import Edition, Verdict
from treeleak.reconstruction import written
from treeleak.schema import Binary, OneHot

if TYPE_CHECKING:
    from treeleak.auditing.judging import Ruling

AUDIT_VERSION = 3

_PARTS = (
    "counts", "structure", "budget", "reconstruction", "uncertainty", "measurement", "variants",
    "ruling", "exposure", "article29", "membership", "shadows", "isolation", "ceiling",
)  # fmt: skip
_LEADING = (
    "rows_compared", "targets_rebuilt", "rows_unique", "rows_stored", "labels_stored",
    "model_attacked_alone",
)  # fmt: skip
"""Findings that begin with the greatest harm."""
_ATTACKS = ("reconstruction", "uncertainty")


@dataclass(frozen=True, eq=False, kw_only=True)
class Audit(AuditResults):
    """What a model discloses about its training rows: findings, verdict and advice.

    Attributes
    ----------
    verdict : str
        "leak shown", "possible leak", "no leak shown by these attacks (this is no proof of
        safety)" or "not assessed"; :func:`~treeleak.auditing.findings.verdict.find` states the
        rule.
    findings : tuple of Finding
    advice : tuple of str
        What to change.
    provenance : Provenance
    ruling : Ruling or None
        Whether it meets a policy, if one was given.
    """

    _shown_fields: ClassVar = ("verdict", "findings", "not_assessed", "variants")

    verdict: Verdict
    findings: tuple[Finding, ...]
    advice: tuple[str, ...]
    provenance: Provenance
    ruling: Ruling | None = None

    @property
    def rows_open(self) -> bool:
        """Whether what the rebuilt rows disclose is not settled."""
        return rows_open((f.part, f.verdict) for f in self.findings)

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        return self._headline(None)

    def _headline(self, reader: Audience | None) -> str:
        """Say the verdict in one sentence, as a reader may read it."""
        decided = next((f for f in self.findings if f.verdict == self.verdict), None)
        summary = "" if decided is None else decided.render_for(reader)
        # The greatest harm that was measured comes first, whatever decided.
        if (m := self.measurement) is not None and decided is not None:
            rows, how = m.came_back
            if rows and decided.code not in _LEADING and self.reconstruction is not None:
                n = self.reconstruction.n_rows
                free = len(self.reconstruction.free_columns)
                untested = wording.UNTESTED(columns=free) if free else ""
                exact = wording.EXACTLY(rows=FigureWithSupport(m.exact_rows, n), untested=untested)
                lead = wording.CAME_BACK(
                    rows=FigureWithSupport(rows, n), how=how,
                    exactly=exact if rows == m.located_rows > m.exact_rows else "",
                )  # fmt: skip
                summary = f"{lead.render_for(reader)} {summary}"
        labels = next((f for f in self.findings if f.code == wording.LABELS_STORED.code), decided)
        if labels is not None and labels is not decided:
            summary = f"{summary} {labels.render_for(reader)}"
        reasons = [why for part, why in self.not_assessed if part in _ATTACKS]
        if not summary and reasons:
            summary = wording.NOT_RUN(why=reasons[0]).render_for(reader)
        elif decided is not None and decided.part == "membership" and self.rows_open:
            rest = wording.ROWS_NOT_RUN(why=reasons[0]) if reasons else wording.ROWS_OPEN
            summary = f"{summary} {rest.render_for(reader)}"
        quiet = any(f.verdict == NO_LEAK and f.part == "membership" for f in self.findings)
        summary += f" {wording.MEMBERS_ALONE}" * (quiet and self.verdict == OPEN)
        verdict = f"{self.verdict.capitalize()}. {summary}".rstrip()
        return verdict if self.mismatch is None else f"{wording.OTHER_ROWS} {verdict}"

    def to_dict(
        self, edition: Edition = "releasable", threshold: int | None = None
    ) -> dict[str, Any]:
        """Describe the audit (formats/audit.schema.json).

        Parameters
        ----------
        edition : {"releasable", "internal"}
            The releasable one holds no row, no value of any person, nothing of a single leaf and no
            group under the threshold: see :mod:`treeleak.auditing.disclosure.releasable`.
            The internal one has all that was found, with the rebuilt rows.
        threshold : int, optional
            Rows that a group must have to appear in the releasable edition; unless given, as the
            policy says that the audit was held against, else those of a leaf that is not small.
        """
        return deepcopy(self.document(edition, threshold))

    def document(
        self, edition: Edition = "releasable", threshold: int | None = None
    ) -> dict[str, Any]:
        """Give what :meth:`to_dict` gives, made once for all that show it: not to be changed."""
        if edition == "internal":
            threshold = None
        elif threshold is None and self.ruling is not None:
            threshold = self.ruling.policy.threshold
        elif threshold is None:
            threshold = THRESHOLD if self.counts is None else self.counts.threshold
        if threshold not in self._documents:
            self._documents[threshold] = self._written(threshold)
        return self._documents[threshold]

    @cached_property
    def _documents(self) -> dict[int | None, dict[str, Any]]:
        """Documents so far: releasable ones by their threshold, the internal one under None."""
        return {}

    def _written(self, threshold: int | None) -> dict[str, Any]:
        if threshold is None:
            return self._document(None)
        suppression = self._suppression(threshold)
        reader = Audience(threshold, suppression.named - suppression.hidden)
        return releasable(self._document(reader), suppression, reader)

    def to_frame(self, edition: Edition = "releasable") -> pd.DataFrame:
        """List the figures of the audit, one per line.

        Parameters
        ----------
        edition : {"releasable", "internal"}
            As for :meth:`to_dict`. Rows are in none.

        Returns
        -------
        DataFrame
            ``part`` of the audit, ``figure`` (its name, with the column or group that it is of)
            and ``value``.
        """
        document = self.document(edition)
        lines = [("verdict", "verdict", self.verdict)]
        for part in _PARTS:
            content = (part != "ruling" and document[part]) or {}
            figures = (
                content
                if isinstance(content, list)
                else {k: v for k, v in content.items() if k != "rows"}
            )
            lines += [(part, name, value) for name, value in figures_of(figures)]
        return pd.DataFrame(lines, columns=["part", "figure", "value"])

    def _suppression(self, threshold: int) -> Suppression:
        """Choose what of columns and groups may be told."""
        few = self._few(threshold)
        if self.exposure is not None and self.truth is not None and len(self.truth.X) < threshold:
            # Of so few people, no column and no group is a figure of many.
            none = (False,) * len(self.exposure.groups)
            return Suppression(none, hidden=few | frozenset(self.exposure.columns.index))
        if self.exposure is None or self.exposure.behind is None:
            return Suppression(hidden=few)
        apart = None
        if self.measurement is not None and self.measurement.individual is not None:
            apart = self.measurement.individual.outlier
        columns = list(self.exposure.columns.index)
        groups = list(self.exposure.groups["column"])
        return choose_publishable(self.exposure.behind, columns, groups, apart, few, threshold)

    def _few(self, threshold: int) -> frozenset[str]:
        """Columns of two values in which few rows, but some, differ from the rest.

        Without training rows, all of 0 and 1; and all columns, where they are so many that each may
        stand for one person.
        """
        if self.reconstruction is None:
            return frozenset()
        attributes = self.reconstruction.schema.attributes
        flags = [c for a in attributes if isinstance(a, (Binary, OneHot)) for c in a.columns]
        names, n_rows = frozenset(self.reconstruction.schema.columns), self.reconstruction.n_rows
        if self.truth is None:
            labels = names | {a.name for a in attributes}
            return labels if 2 * len(names) >= n_rows else frozenset(flags)
        X = self.truth.X
        flags += [c for c in X if c in names - set(flags) and X[c].nunique() == 2]
        ones = (X[flags].to_numpy() == X[flags].max().to_numpy()).sum(axis=0)
        least = np.minimum(ones, len(X) - ones)
        return frozenset(c for c, n in zip(flags, least, strict=True) if 0 < n < threshold)

    def _document(self, reader: Audience | None) -> dict[str, Any]:
        internal = reader is None
        rebuilt = self.reconstruction
        special = {
            "reconstruction": None if rebuilt is None else rebuilt.to_dict(internal),
            "variants": [v.to_dict() for v in self.variants],
        }
        parts: dict[str, Any] = {
            n: special[n] if n in special else _described(getattr(self, n)) for n in _PARTS
        }
        if internal and self.exposure is not None:
            parts["exposure"]["rows"] = self.exposure.rows_to_dict()
        return {
            "format": "treeleak-audit",
            "version": AUDIT_VERSION,
            "edition": "internal" if internal else "releasable",
            "verdict": self.verdict,
            "headline": self._headline(reader),
            "findings": [f.to_dict(reader) for f in self.findings],
            "inventory": [e.to_dict() for e in self.inventory],
            **parts,
            "mismatch": self.mismatch,
            "not_assessed": [_reason(p, r, reader) for p, r in self.not_assessed],
            "advice": list(self.advice),
            "notes": list(self.notes),
            "provenance": self._provenance("internal" if internal else "releasable"),
        }

    def _provenance(self, edition: Edition) -> dict[str, Any]:
        policy = None if self.ruling is None else self.ruling.policy
        review = REVIEW
        if policy is not None and policy.review is not None:
            review = f"by {policy.review.isoformat()}, as the policy states, and {REVIEW}"
        return self.provenance.to_dict() | {"readers": READERS[edition], "review": review}

    def with_inputs(self, files: Mapping[str, str | os.PathLike[str] | None]) -> Audit:
        """Note the files that were read, with their hashes, in :attr:`provenance`.

        Parameters
        ----------
        files : mapping of str to path or None
            By what they are: ``{"train": "train.csv", "policy": "policy.toml"}``.

        Returns
        -------
        Audit

        Raises
        ------
        BadInput
            If a file cannot be read.
        """
        paths = {what: None if path is None else Path(path) for what, path in files.items()}
        return replace(self, provenance=replace(self.provenance, inputs=hashed(paths)))

    def _repr_html_(self) -> str:
        """Show the beginning of the releasable report in a notebook."""
        return str(resolve_name("treeleak.report.page:render_piece")(self))

    def to_json(
        self,
        path: Place | None = None,
        edition: Edition = "releasable",
        threshold: int | None = None,
    ) -> str:
        """Write :meth:`to_dict` as JSON, to a file too where one is named.

        A file of the internal edition can be read by its owner only.
        """
        _check_edition(edition)
        document = self.document(edition, threshold)
        return written(lambda _: document, path, include_rows=edition == "internal")

    def to_html(
        self,
        path: Place | None = None,
        edition: Edition = "releasable",
        command: str | None = None,
    ) -> str:
        """Write the report as one page of HTML, to a file too where one is named.

        Parameters
        ----------
        path : path, optional
            A file of the internal edition can be read by its owner only.
        edition : {"releasable", "internal"}
            As for :meth:`to_dict`.
        command : str, optional
            What to type to get the audit again.
        """
        _check_edition(edition)
        page = str(resolve_name("treeleak.report.page:render_html")(self, edition, command))
        if path is not None:
            write_file(path, page, private=edition == "internal")
        return page


def _reason(part: str, why: str, reader: Audience | None) -> dict[str, Any]:
    """Describe why a part was not assessed."""
    message = message_of(why)
    return {"part": part, "reason": message.render_for(reader), **message.as_data(reader)}


def _check_edition(edition: str) -> None:
    if edition not in get_args(Edition):
        raise BadInput(f"edition must be one of {', '.join(get_args(Edition))}, not {edition!r}")


def _described(part: Any) -> Any:
    return part.to_dict() if hasattr(part, "to_dict") else None
