"""What of an audit may leave the house: the releasable edition of its document.

All that is left out, merged or put in other words stands here, in one place. Keys that no rule
speaks of are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from pathlib import PurePath
from typing import Any

import numpy as np

from treeleak.auditing.assessors.exposure import Behind
from treeleak.auditing.disclosure.disclosure import jointly_safe, remainders
from treeleak.auditing.inventory.vocabulary import known_names, known_origin, known_place
from treeleak.core.arrays import BoolArray
from treeleak.core.message import ELSEWHERE, Audience, Message, message_of
from treeleak.core.private import dataclass
from treeleak.core.text import hundredths

_CONTRADICTION = "the counts of the model contradict each other or the schema"
_LEFT_OUT = "remarks that may name single leaves, columns or values"
_MISMATCH = "the model did not count these rows"


@dataclass(frozen=True)
class Suppression:
    """Columns and groups that may be told (:mod:`treeleak.auditing.disclosure.releasable`)."""

    groups: tuple[bool, ...] = ()
    """Whether each group of the exposure may be told."""
    individual: bool = False
    """Whether rows that resemble others, and those that stand apart, may be."""
    hidden: frozenset[str] = field(default_factory=frozenset)
    """Columns that may not be named, or of which nothing may be said."""
    named: frozenset[str] = field(default_factory=frozenset)
    """Columns that are known to be fit to be named in a sentence."""


def releasable(
    document: Mapping[str, Any], suppression: Suppression, reader: Audience
) -> dict[str, Any]:
    """Take out of an audit's document what may tell of single people.

    ``document``: without rows, and with the findings as the reader may read them. ``suppression``:
    what of columns and groups may be told. ``reader``: names the rows that a group must have to be
    told.
    """
    threshold = reader.threshold

    def sentences(texts: Sequence[str]) -> list[str]:
        content = [t.render_for(reader) for t in texts if isinstance(t, Message)]
        left = len(texts) - len(content)
        return [*content, f"Left out of this edition: {_LEFT_OUT}."] if left else content

    def reconstruction(content: dict[str, Any]) -> dict[str, Any]:
        return content | {
            "contradiction": None if content["contradiction"] is None else _CONTRADICTION,
            "notes": sentences(content["notes"]),
            "free_columns": [c for c in content["free_columns"] if c not in hidden],
            "interval_columns": [c for c in content["interval_columns"] if c not in hidden],
            "without_population": _if_any(reconstruction, content["without_population"]),
        }

    def rows(content: dict[str, Any]) -> dict[str, Any]:
        return _rows(content, suppression.individual)

    def measurement(content: dict[str, Any]) -> dict[str, Any]:
        shown: dict[str, Any] = _in_hundredths({k: content[k] for k in _SCORES if k in content})
        if "on_tested" in content:
            shown["on_tested"] = measurement(content["on_tested"])
        if (test := content["significance"]) is not None:
            shown["significance"] = test | _in_hundredths({k: test[k] for k in _OF_TEST})
        if suppression.hidden:
            # Of categories and numbers apart, one may be about hidden columns alone.
            apart = {"categories": None, "numbers": None}
            for scores in (shown["scores"], *(y["scores"] for y in shown["yardsticks"])):
                if scores is not None and None not in (scores["categories"], scores["numbers"]):
                    scores |= apart
        return content | shown | {"individual": _if_any(rows, content["individual"])}

    def uncertainty(content: dict[str, Any]) -> dict[str, Any]:
        spread = _quantiles(content["quantiles"], content["n_rows"], threshold)
        return {
            **content,
            **_OF_SINGLE_LEAVES,
            "quantiles": spread,
            "notes": sentences(content["notes"]),
        }

    hidden = suppression.hidden
    rules: Mapping[str, Callable[[Any], Any]] = {
        "inventory": _inventory,
        "counts": lambda content: _counts(content, threshold),
        "structure": lambda content: _structure(content, threshold),
        "reconstruction": reconstruction,
        "uncertainty": uncertainty,
        "measurement": measurement,
        "variants": lambda content: [
            v | {"measurement": _if_any(measurement, v["measurement"])} for v in content
        ],
        "exposure": lambda content: _exposure(content, suppression, threshold),
        "article29": lambda content: _article29(content, hidden, threshold),
        "membership": lambda content: content if content["n_members"] >= threshold else None,
        "shadows": lambda content: content if _trained_on(content) >= threshold else None,
        "isolation": lambda content: _isolation(content, threshold),
        "ceiling": lambda content: content if content["n_rows"] >= threshold else None,
        "ruling": lambda content: _ruling(content, hidden, reader),
        "mismatch": lambda _: f"{_MISMATCH}; {ELSEWHERE}",
        "notes": sentences,
        "provenance": _provenance,
    }
    as_it_is = {key: document[key] for key in _AS_IT_IS if key in document}
    return as_it_is | {key: _if_any(rule, document[key]) for key, rule in rules.items()}


def _if_any(rule: Callable[[Any], Any], part: Any) -> Any:
    return None if part is None else rule(part)


def _in_hundredths(part: Any) -> Any:
    """Round figures of the training rows: what is left of a sum shows no single column then."""
    if isinstance(part, Mapping):
        exact = ("nearer", "more_rows", "nearer_than_usual", "nearer_than_others")
        return {k: v if k in exact else _in_hundredths(v) for k, v in part.items()}
    if isinstance(part, list):
        return [_in_hundredths(v) for v in part]
    return hundredths(part) if isinstance(part, float) else part


_AS_IT_IS = (
    "format", "version", "edition", "verdict", "headline", "findings", "budget", "advice",
    "not_assessed",
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


def _provenance(part: dict[str, Any]) -> dict[str, Any]:
    """Leave names of files, for folders may name people; and a known origin.

    Hashes of tables go: who has a guess of all but a value could try which one gives the hash.
    """
    file = None if part["file"] is None else PurePath(part["file"]).name
    inputs = {
        what: {
            "file": PurePath(entry["file"]).name,
            "sha256": entry["sha256"] if what == "policy" else None,
        }
        for what, entry in part["inputs"].items()
    }
    return part | {"file": file, "origin": known_origin(part["origin"]), "inputs": inputs}


def _inventory(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave the names that libraries use: a file may call its parts anything. And no numbers."""
    plain = [{key: value for key, value in entry.items() if key != "told"} for entry in entries]
    return [
        entry | {"names": known_names(entry["names"]), "where": known_place(entry["where"])}
        for entry in plain
    ]


def _counts(part: dict[str, Any], threshold: int) -> dict[str, Any]:
    """Leave totals; how few rows the smallest leaf has is said only if they are enough."""

    def enough(n: int) -> int | None:
        return n if n >= threshold else None

    total = part["total"] | {"smallest": enough(part["total"]["smallest"])}
    trees = part["trees"] | {"smallest": [enough(n) for n in part["trees"]["smallest"]]}
    return part | {"total": total, "trees": trees}


def _structure(part: dict[str, Any], threshold: int) -> dict[str, Any]:
    """Leave numbers of groups; numbers of rows only where they are enough."""

    def group(figures: dict[str, Any]) -> dict[str, Any]:
        few = {
            k: figures[k] if figures[k] >= threshold else None
            for k in ("smallest", "rows_in_small")
        }
        # That no row is in a small group tells of nobody.
        return figures | few | ({} if figures["small"] else {"rows_in_small": 0})

    return part | {"groups": [group(figures) for figures in part["groups"]]}


def _trained_on(shadows: dict[str, Any]) -> int:
    """Fewest people whom figures are of."""
    own = shadows["direct"]
    people = [] if own is None else [own["members"], own["others"]]
    return min(int(n) for n in (*people, *(size["rows"] for size in shadows["sizes"])))


def _isolation(part: dict[str, Any], threshold: int) -> dict[str, Any]:
    """Leave numbers of predicates; of people only where they are enough."""
    few = {
        k: None if part[k] is None or 0 < part[k] < threshold else part[k]
        for k in ("by_difference", "different", "people", "beyond_luck", "people_beyond_luck")
    }
    return part | few | {"most_pinned": None}


def _quantiles(quantiles: Mapping[str, float], n_rows: int, threshold: int) -> dict[str, float]:
    """Leave those with enough rows on either side: the ends speak of single leaves."""
    places = {q: round(int(q) / 100 * (n_rows - 1)) for q in quantiles}
    return {q: quantiles[q] for q, k in places.items() if threshold <= min(k + 1, n_rows - k)}


def _article29(part: dict[str, Any], hidden: Collection[str], threshold: int) -> dict[str, Any]:
    """Leave columns that tell of enough rows."""
    published = [
        i for i in part["inference"] if i["column"] not in hidden and i["n_rows"] >= threshold
    ]
    return part | {"inference": published}


def _ruling(part: dict[str, Any], hidden: Collection[str], reader: Audience) -> dict[str, Any]:
    """Leave what was found, but for what few rows have, and what of reasons is for the owner."""
    threshold = reader.threshold
    checks = []
    for check in part["checks"]:
        key, found = check["key"], check["found"]
        column = key.removeprefix(_OF_COLUMN) if key.startswith(_OF_COLUMN) else None
        if column in hidden:
            check = check | {
                "key": f"{_OF_COLUMN}…",
                "what": "risk of attribute inference of a column",
            }
        if check["state"] == "not assessed" or isinstance(found, Message):
            found = message_of(found).render_for(reader)
        elif key == "smallest_leaf" and float(found.replace(",", "")) < threshold:
            found = f"fewer than {threshold}"
        elif key in _OF_FEW or column in hidden:
            # The worst of all people is one person.
            found = "within this" if check["state"] == "met" else "above this"
        checks.append(check | {"found": found})
    bounds = {c: b for c, b in part["inference_of"].items() if c not in hidden}
    return part | {"checks": checks, "inference_of": bounds}


def _rows(part: dict[str, Any], sides: bool) -> dict[str, Any]:
    """Leave groups that are large enough, without the worst of their rows."""
    shown = {
        name: group | {"worst": None, "error": _in_hundredths(group["error"])}
        for name, group in part.items()
    }
    none = {"n_rows": 0, "error": None, "perfect": None, "worst": None}
    return shown if sides else shown | dict.fromkeys(("inliers", "outliers"), none)


def _exposure(part: dict[str, Any], suppression: Suppression, threshold: int) -> dict[str, Any]:
    """Leave columns and groups that tell of enough rows."""
    columns = [c for c in part["columns"] if c["column"] not in suppression.hidden]
    groups: list[dict[str, Any]] = []
    pairs = list(zip(part["groups"], suppression.groups, strict=True))
    for column in dict.fromkeys(g["column"] for g in part["groups"]):
        if column in suppression.hidden:
            continue
        members = [(g, may) for g, may in pairs if g["column"] == column]
        groups += [g | _in_hundredths({k: g[k] for k in _OF_GROUP}) for g, may in members if may]
        if not all(may for _, may in members):
            blank = dict.fromkeys(("rows", "error", "exact", "guess"))
            rest = f"groups under {threshold} rows, and figures that would disclose them"
            groups.append({"column": column, "group": rest, **blank})
    left_out = len(part["columns"]) - len(columns)
    return {
        "recovered": part["recovered"],
        "columns": columns,
        "columns_left_out": left_out,
        "groups": groups,
    }


def choose_publishable(
    behind: Behind,
    columns: Sequence[str],
    groups: Sequence[str],
    apart: BoolArray | None,
    few: Collection[str],
    threshold: int,
) -> Suppression:
    """Choose figures so that none follows of fewer people than the threshold.

    ``columns``: those of the exposure, in their order. ``groups``: for each group, the column that
    it is of. ``apart``, shape (n_people,): who stands apart from the others, where their errors
    would be told. ``few``: columns whose very name speaks of few rows: 0 and 1 by category.
    """
    # Columns in which few differ from the rest, or of which few were not given.
    # A share of nearly all rows tells how many the others are.
    sizes = np.column_stack([behind.others.sum(axis=0), behind.free])
    small = np.flatnonzero(((sizes > 0) & (sizes < threshold)).any(axis=1))
    hidden = set(few) | ({columns[k] for k in small.tolist()})
    publishable = np.array([g not in hidden for g in groups], dtype=bool)
    group_sets = behind.groups[:, publishable]
    sides = np.zeros((len(group_sets), 0), dtype=bool)
    if apart is not None:
        sides = np.column_stack([apart, ~apart])
    units = [None] * group_sets.shape[1] + [0] * sides.shape[1]
    jointly = jointly_safe(np.hstack([group_sets, sides]), units, threshold, behind.counted)
    size = sides[behind.counted].sum(axis=0)
    enough = ((size == 0) | (size >= threshold)).all()
    individual = bool(jointly[group_sets.shape[1] :].any() and enough)
    # How many rows a group has is a figure of its own, of people without an error, too.
    jointly = jointly[: group_sets.shape[1]]
    jointly[jointly] = jointly_safe(group_sets[:, jointly], [None] * int(jointly.sum()), threshold)
    publishable[publishable] = jointly
    return Suppression(
        groups=tuple(publishable.tolist()),
        individual=individual,
        hidden=frozenset(
            hidden | _nested(behind, columns, hidden, group_sets[:, jointly], threshold)
        ),
        named=frozenset(columns),
    )


def _nested(
    behind: Behind,
    columns: Sequence[str],
    hidden: Collection[str],
    groups: BoolArray,
    threshold: int,
) -> set[str]:
    """Columns from which, with what else is told, it follows how many few people are."""
    # The most common of many values is not named: that few have it tells of no one.
    common = len(behind.others) - behind.others.sum(axis=0)
    published = [k for k, c in enumerate(columns) if c not in hidden and common[k] >= threshold]
    sets = np.hstack([groups, behind.others[:, published]])
    left_out = remainders(sets, [-1] * groups.shape[1] + published, threshold)
    return {columns[k] for k in left_out}
