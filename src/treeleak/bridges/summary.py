"""What an audit says to other tools: the object from which every other format is written.

It is made of the document of the releasable edition, from an audit or from the file that it wrote:
a format cannot say more than that edition does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, replace
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from treeleak.auditing import Audit, Check
from treeleak.batch.index import INDEX, read_document, read_index
from treeleak.bridges.sacro_report import global_metrics
from treeleak.core.errors import BadInput
from treeleak.core.private import dataclass
from treeleak.core.text import listed, plain
from treeleak.formats.literals import Part, Verdict
from treeleak.report.facts import capital, ended
from treeleak.report.sections import PARTS
from treeleak.report.sheet import first_words, tiles_of


@dataclass(frozen=True)
class Finding:
    """Something that the audit found, in words."""

    code: Annotated[str, Meta(pattern="^[a-z0-9_]+$")]
    part: Part
    verdict: Verdict | None
    text: str


@dataclass(frozen=True)
class Ruling:
    """Whether a policy is met."""

    passed: bool
    headline: str
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Provenance:
    """Where the audit came from."""

    file: str | None
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None
    origin: str
    time: Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
    threat_model: str
    versions: dict[str, str]


@dataclass(frozen=True)
class Summary:
    """An audit in short, in the words of the releasable edition; fields as in its document."""

    format: Literal["treeleak-audit"]
    version: Literal[3]
    edition: Literal["releasable"]
    verdict: Verdict
    headline: str
    findings: tuple[Finding, ...]
    advice: tuple[str, ...]
    not_assessed: tuple[tuple[str, str], ...]
    """Parts, and why."""
    provenance: Provenance
    ruling: Ruling | None
    figures: dict[str, str | bool | int | float | None] = field(default_factory=dict)
    """What was measured (:func:`~treeleak.bridges.sacro_report.global_metrics`)."""
    tiles: tuple[tuple[str, str, str], ...] = ()
    """Figures of the page's first screen: each with what it is, and more about it."""
    path: str = ""
    """Of the model, not yet made fit to be shown; empty for a model in memory."""

    @property
    def name(self) -> str:
        """The file of the model, fit to be shown."""
        return plain(PurePath(self.path).name) or "a model in memory"

    @property
    def changes(self) -> list[str]:
        """What to change, in short; in full where there is one advice only."""
        texts = self.advice
        return list(texts) if len(texts) == 1 else [first_words(text) for text in texts]

    @property
    def open_parts(self) -> list[str]:
        """What was not assessed, and why, as the page says it."""
        return [
            f"{PARTS.get(part, capital(part))}: {capital(ended(reason))}"
            for part, reason in self.not_assessed
        ]


def summary_of(source: Audit | Mapping[str, Any], folder: str = "") -> Summary:
    """Take what other tools are told out of an audit, or out of its document.

    ``folder``: where the model lies, if formats are to say so.

    Raises
    ------
    BadInput
        If this is no document of the releasable edition.
    """
    document = source.document() if isinstance(source, Audit) else source
    if document.get("edition") == "internal":
        raise BadInput("the internal edition is for you alone: audit without --internal")
    try:
        path = PurePath(folder, PurePath(document["provenance"]["file"] or "").name)
        known = {f.name: document[f.name] for f in fields(Summary) if f.name in document}
        content = known | {
            "figures": global_metrics(document),
            "tiles": [(t.figure, t.label, t.more) for t in tiles_of(document)],
            "not_assessed": [(p["part"], p["reason"]) for p in document["not_assessed"]],
        }
        made = msgspec.convert(_fit_to_be_shown(content), Summary)
        return replace(made, path=path.as_posix() if made.provenance.file else "")
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise BadInput("not the JSON of an audit by this version of treeleak") from error


def _fit_to_be_shown(part: Any) -> Any:
    """Make every text fit to be shown, as pages do."""
    if isinstance(part, Mapping):
        return {str(key): _fit_to_be_shown(value) for key, value in part.items()}
    if isinstance(part, (list, tuple)):
        return [_fit_to_be_shown(value) for value in part]
    return plain(part) if isinstance(part, str) else part


def read_summaries(place: Path, folder: str = "") -> list[Summary]:
    """Read the JSON of an audit, or all audits of a folder that ``--report FOLDER`` made.

    Raises
    ------
    BadInput
        Naming the file; also if one of the folder's models has no audit, which nothing may hide.
    """
    if not place.is_dir():
        return [_read(place, folder)]
    entries = read_index(place)
    if failed := [name for name, entry in entries.items() if entry.get("json") is None]:
        raise BadInput(f"{place}: no audit of {listed(failed)}: audit them first")
    if not entries:
        raise BadInput(f"{place}: holds no {INDEX}: name the JSON of an audit")
    files = [place / PurePath(str(entry["json"])).name for entry in entries.values()]
    return [_read(file, folder) for file in files]


def _read(file: Path, folder: str) -> Summary:
    document = read_document(file)
    try:
        return summary_of(document, folder)
    except BadInput as error:
        raise BadInput(f"{file}: {error}") from error
