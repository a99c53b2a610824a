"""What of an audit may leave the house: the releasable edition of its document.

All that is left out, merged or put in other words stands here, in one place. Keys that no rule
speaks of are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from pathlib import PurePath
from typing import Any

from treeleak.auditing.inventory.vocabulary import known_names, known_origin, known_place
from treeleak.core.message import ELSEWHERE, Message, Reader, message_of
from treeleak.core.percent import hundredths
from treeleak.core.private import dataclass

_CONTRADICTION = "the counts of the model contradict each other or the schema"
_LEFT_OUT = "remarks that may name single leaves, columns or values"
_MISMATCH = "the model did not count these rows"


@dataclass(frozen=True)
class Kept:
    """What of columns and groups may be told: see :mod:`treeleak.auditing.disclosure.kept`."""

    groups: tuple[bool, ...] = ()
    """Whether each group of the exposure may be told."""
    individual: bool = False
    """Whether rows that resemble others, and those that stand apart, may be."""
    hidden: frozenset[str] = field(default_factory=frozenset)
    """Columns that may not be named, or of which nothing may be said."""
    named: frozenset[str] = field(default_factory=frozenset)
    """Columns that are known to be fit to be named in a sentence."""


def releasable(document: Mapping[str, Any], kept: Kept, reader: Reader) -> dict[str, Any]:
    """Take out of an audit's document what may tell of single people.

    ``document``: without rows, and with the findings as the reader may read them. ``kept``: what of
    columns and groups may be told. ``reader``: names the rows that a group must have to be told.
    """
    threshold = reader.threshold

    def sentences(texts: Sequence[str]) -> list[str]:
        told = [t.told(reader) for t in texts if isinstance(t, Message)]
        left = len(texts) - len(told)
        return [*told, f"Left out of this edition: {_LEFT_OUT}."] if left else told

    def reconstruction(told: dict[str, Any]) -> dict[str, Any]:
        return told | {
            "contradiction": None if told["contradiction"] is None else _CONTRADICTION,
            "notes": sentences(told["notes"]),
            "free_columns": [c for c in told["free_columns"] if c not in hidden],
            "interval_columns": [c for c in told["interval_columns"] if c not in hidden],
            "without_population": _if_any(reconstruction, told["without_population"]),
            "without_distinct": _if_any(reconstruction, told["without_distinct"]),
        }

    def rows(told: dict[str, Any]) -> dict[str, Any]:
        return _rows(told, kept.individual)

    def measurement(told: dict[str, Any]) -> dict[str, Any]:
        shown: dict[str, Any] = _in_hundredths({k: told[k] for k in _SCORES if k in told})
        if "on_tested" in told:
            shown["on_tested"] = measurement(told["on_tested"])
        if (test := told["significance"]) is not None:
            shown["significance"] = test | _in_hundredths({k: test[k] for k in _OF_TEST})
        if kept.hidden:
            # Of categories and numbers apart, one may be about hidden columns alone.
            apart = {"categories": None, "numbers": None}
            for scores in (shown["scores"], *(y["scores"] for y in shown["yardsticks"])):
                if scores is not None and None not in (scores["categories"], scores["numbers"]):
                    scores |= apart
        return told | shown | {"individual": _if_any(rows, told["individual"])}

    def uncertainty(told: dict[str, Any]) -> dict[str, Any]:
        spread = _quantiles(told["quantiles"], told["n_rows"], threshold)
        return {**told, **_OF_SINGLE_LEAVES, "quantiles": spread, "notes": sentences(told["notes"])}

    hidden = kept.hidden
    rules: Mapping[str, Callable[[Any], Any]] = {
        "inventory": _inventory,
        "counts": lambda told: _counts(told, threshold),
        "structure": lambda told: _structure(told, threshold),
        "reconstruction": reconstruction,
        "uncertainty": uncertainty,
        "measurement": measurement,
        "variants": lambda told: [
            v | {"measurement": _if_any(measurement, v["measurement"])} for v in told
        ],
        "exposure": lambda told: _exposure(told, kept, threshold),
        "article29": lambda told: _article29(told, hidden, threshold),
        "membership": lambda told: told if told["n_members"] >= threshold else None,
        "ruling": lambda told: _ruling(told, hidden, reader),
        "mismatch": lambda _: f"{_MISMATCH}; {ELSEWHERE}",
        "notes": sentences,
        "provenance": _provenance,
    }
    as_it_is = {key: document[key] for key in _AS_IT_IS if key in document}
    return as_it_is | {key: _if_any(rule, document[key]) for key, rule in rules.items()}


def _if_any(rule: Callable[[Any], Any], told: Any) -> Any:
    return None if told is None else rule(told)


def _in_hundredths(told: Any) -> Any:
    """Round figures of the training rows: what is left of a sum shows no single column then."""
    if isinstance(told, Mapping):
        exact = ("nearer", "more_rows", "nearer_than_usual", "nearer_than_others")
        return {k: v if k in exact else _in_hundredths(v) for k, v in told.items()}
    if isinstance(told, list):
        return [_in_hundredths(v) for v in told]
    return hundredths(told) if isinstance(told, float) else told


_AS_IT_IS = (
    "format", "version", "edition", "verdict", "headline", "findings", "budget", "advice",
    "frameworks", "not_assessed",
)  # fmt: skip
_SCORES = (
    "error", "error_in_order", "scores", "in_order", "yardsticks", "guess_mean", "guess_sd",
    "shape",
)  # fmt: skip
_OF_TEST = ("error", "others_mean", "train_vs_other_draws")
_OF_GROUP = ("error", "guess")
_OF_COLUMN = "inference."
_OF_FEW = ("worst_person", "worst_group", "worst_group_over_guess")
_OF_SINGLE_LEAVES: Mapping[str, Any] = {
    "exposed": [],
    "as_exposed": None,
    "rows_as_exposed": None,
    "told": None,
    "told_in_small": None,
}


_MODELS = ("policy", "earlier")
"""Inputs that hold no data of people."""


def _provenance(told: dict[str, Any]) -> dict[str, Any]:
    """Leave names of files, for folders may name people; and a known origin.

    Hashes of tables go: who has a guess of all but a value could try which one gives the hash.
    """
    file = None if told["file"] is None else PurePath(told["file"]).name
    inputs = {
        what: {
            "file": PurePath(own["file"]).name,
            "sha256": own["sha256"] if what in _MODELS else None,
        }
        for what, own in told["inputs"].items()
    }
    return told | {"file": file, "origin": known_origin(told["origin"]), "inputs": inputs}


def _inventory(told: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave the names that libraries use: a file may call its parts anything. And no numbers."""
    plain = [{key: value for key, value in entry.items() if key != "told"} for entry in told]
    return [
        entry | {"names": known_names(entry["names"]), "where": known_place(entry["where"])}
        for entry in plain
    ]


def _counts(told: dict[str, Any], threshold: int) -> dict[str, Any]:
    """Leave totals; how few rows the smallest leaf has is said only if they are enough."""

    def enough(n: int) -> int | None:
        return n if n >= threshold else None

    total = told["total"] | {"smallest": enough(told["total"]["smallest"])}
    trees = told["trees"] | {"smallest": [enough(n) for n in told["trees"]["smallest"]]}
    return told | {"total": total, "trees": trees}


def _structure(told: dict[str, Any], threshold: int) -> dict[str, Any]:
    """Leave numbers of groups; numbers of rows only where they are enough."""

    def group(own: dict[str, Any]) -> dict[str, Any]:
        few = {k: own[k] if own[k] >= threshold else None for k in ("smallest", "rows_in_small")}
        # That no row is in a small group tells of nobody.
        return own | few | ({} if own["small"] else {"rows_in_small": 0})

    return told | {"groups": [group(own) for own in told["groups"]]}


def _quantiles(told: Mapping[str, float], n_rows: int, threshold: int) -> dict[str, float]:
    """Leave those with enough rows on either side: the ends speak of single leaves."""
    places = {q: round(int(q) / 100 * (n_rows - 1)) for q in told}
    return {q: told[q] for q, k in places.items() if threshold <= min(k + 1, n_rows - k)}


def _article29(told: dict[str, Any], hidden: Collection[str], threshold: int) -> dict[str, Any]:
    """Leave columns that tell of enough rows."""
    kept = [i for i in told["inference"] if i["column"] not in hidden and i["n_rows"] >= threshold]
    return told | {"inference": kept}


def _ruling(told: dict[str, Any], hidden: Collection[str], reader: Reader) -> dict[str, Any]:
    """Leave what was found, but for what few rows have, and what of reasons is for the owner."""
    threshold = reader.threshold
    checks = []
    for check in told["checks"]:
        key, found = check["key"], check["found"]
        column = key.removeprefix(_OF_COLUMN) if key.startswith(_OF_COLUMN) else None
        if column in hidden:
            check = check | {
                "key": f"{_OF_COLUMN}…",
                "what": "risk of attribute inference of a column",
            }
        if check["state"] == "not assessed" or isinstance(found, Message):
            found = message_of(found).told(reader)
        elif key == "smallest_leaf" and float(found.replace(",", "")) < threshold:
            found = f"fewer than {threshold}"
        elif key in _OF_FEW or column in hidden:
            # The worst of all people is one person.
            found = "within this" if check["state"] == "met" else "above this"
        checks.append(check | {"found": found})
    bounds = {c: b for c, b in told["inference_of"].items() if c not in hidden}
    return told | {"checks": checks, "inference_of": bounds}


def _rows(told: dict[str, Any], sides: bool) -> dict[str, Any]:
    """Leave groups that are large enough, without the worst of their rows."""
    said = {
        name: group | {"worst": None, "error": _in_hundredths(group["error"])}
        for name, group in told.items()
    }
    none = {"n_rows": 0, "error": None, "perfect": None, "worst": None}
    return said if sides else said | dict.fromkeys(("inliers", "outliers"), none)


def _exposure(told: dict[str, Any], kept: Kept, threshold: int) -> dict[str, Any]:
    """Leave columns and groups that tell of enough rows."""
    columns = [c for c in told["columns"] if c["column"] not in kept.hidden]
    groups: list[dict[str, Any]] = []
    pairs = list(zip(told["groups"], kept.groups, strict=True))
    for column in dict.fromkeys(g["column"] for g in told["groups"]):
        if column in kept.hidden:
            continue
        own = [(g, may) for g, may in pairs if g["column"] == column]
        groups += [g | _in_hundredths({k: g[k] for k in _OF_GROUP}) for g, may in own if may]
        if not all(may for _, may in own):
            blank = dict.fromkeys(("rows", "error", "exact", "guess"))
            rest = f"groups under {threshold} rows, and figures that would disclose them"
            groups.append({"column": column, "group": rest, **blank})
    left_out = len(told["columns"]) - len(columns)
    return {
        "recovered": told["recovered"],
        "columns": columns,
        "columns_left_out": left_out,
        "groups": groups,
    }
