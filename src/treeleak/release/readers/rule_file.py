"""The rule file: rule lists and rule sets as JSON, whatever learnt them.

docs/rule-file.md explains the format to those who write it. What a file says is taken for hostile
until checked, see :mod:`treeleak.release.checked_json`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from treeleak.core.errors import BadInput, BadModel
from treeleak.core.output import write_file
from treeleak.release.bounds import MOST_RULES, at_most
from treeleak.release.checked_json import (
    declared,
    is_finite,
    is_whole,
    label,
    located,
    only,
    read_json,
    take,
)
from treeleak.release.rule_list import Condition, DecisionRule, RuleList, Value

FORMAT = "treeleak-rules"
FORMAT_VERSION = 1


def write_rules(rules: RuleList, path: str | Path) -> None:
    """Write rules as a JSON file, see :func:`rules_to_dict`."""
    text = json.dumps(rules_to_dict(rules), allow_nan=False, indent=1)
    write_file(path, text + "\n")


def read_rules(source: str | Path) -> RuleList:
    """Read a rule file.

    Parameters
    ----------
    source : str or Path
        The file, or its text (a ``str`` that starts with a brace).

    Raises
    ------
    BadModel
        If it holds no rules, naming the file and, where there is one, the rule and the key.
    """
    return read_json(source, rules_from_dict)


def rules_to_dict(rules: RuleList) -> dict[str, Any]:
    """Describe rules in plain lists, texts and numbers that JSON can hold.

    Raises BadInput if a class label is neither text nor a finite number nor a truth value.
    """
    out: dict[str, Any] = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "origin": rules.origin,
        "columns": list(rules.columns),
        "classes": [label(c) for c in rules.classes],
        "ordered": rules.ordered,
    }
    if rules.n_rows is not None:
        out["n_rows"] = int(rules.n_rows)
    out["rules"] = [
        {"if": [_condition_to_dict(c) for c in rule.conditions], **_said(rule)}
        for rule in rules.rules
    ]
    out["default"] = _said(rules.default)
    if rules.covered is not None:
        out["covered"] = list(map(int, rules.covered))
    return out | {"notes": list(rules.notes)}


def rules_from_dict(data: Any) -> RuleList:
    """Read what :func:`rules_to_dict` wrote.

    Raises BadModel, naming the key, and the rule where there is one; rules are numbered from 1.
    """
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise BadModel(f'no rules: "format" is not "{FORMAT}"')
    if not is_whole(data.get("version"), FORMAT_VERSION, FORMAT_VERSION + 1):
        raise BadModel(
            f"rule format version {data.get('version')!r:.40}; "
            f"this program reads version {FORMAT_VERSION}"
        )
    only(data, _KEYS)
    rules = take(data, "rules", list)
    at_most(MOST_RULES, len(rules), "rules")
    return RuleList(
        columns=declared(tuple[str, ...], take(data, "columns", list), "columns"),
        classes=tuple(label(c) for c in take(data, "classes", list)),
        rules=tuple(_rule(r, f"rule {j}: ") for j, r in enumerate(rules, 1)),
        default=_default(take(data, "default", dict)),
        ordered=take(data, "ordered", bool, True),
        covered=_counts(data, "covered"),
        n_rows=declared(int | None, data.get("n_rows"), "n_rows"),
        origin=take(data, "origin", str, ""),
        notes=declared(tuple[str, ...], take(data, "notes", list, []), "notes"),
    )


_KEYS = {
    "format", "version", "origin", "columns", "classes", "ordered", "n_rows", "rules", "default",
    "covered", "notes",
}  # fmt: skip
_BOUNDS = ("above", "upto")


def _said(rule: DecisionRule) -> dict[str, Any]:
    counts = {} if rule.counts is None else {"counts": list(map(int, rule.counts))}
    return {"then": label(rule.prediction)} | counts


def _condition_to_dict(condition: Condition) -> dict[str, Any]:
    out: dict[str, Any] = {"column": condition.column}
    if condition.values is not None:
        values = [_plain(v) for v in condition.values]
        out |= {"is": values[0]} if len(values) == 1 else {"in": values}
    else:
        ends = {key: _plain(getattr(condition, key)) for key in _BOUNDS}
        out |= {key: end for key, end in ends.items() if math.isfinite(end)}
    return out | ({"not": True} if condition.negated else {})


def _plain(value: Any) -> Any:
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, str):
        return str(plain)
    if isinstance(plain, bool):
        return int(plain)
    if not isinstance(plain, (int, float)):
        raise BadInput(f"{value!r:.40} is neither text nor number, and has no place in a rule file")
    return plain


def _rule(data: Any, where: str) -> DecisionRule:
    if not isinstance(data, Mapping):
        raise BadModel(f"{where}no object")
    only(data, {"if", "then", "counts"}, where)
    conditions = (_condition(c, where) for c in take(data, "if", list, where=where))
    return DecisionRule(tuple(conditions), _prediction(data, where), _counts(data, "counts", where))


def _default(data: Mapping[str, Any]) -> DecisionRule:
    where = "default: "
    only(data, {"then", "counts"}, where)
    return DecisionRule((), _prediction(data, where), _counts(data, "counts", where))


def _prediction(data: Mapping[str, Any], where: str) -> Any:
    if "then" not in data:
        raise BadModel(f"{where}then is missing")
    with located(f"{where}then: "):
        return label(data["then"])


def _condition(data: Any, where: str) -> Condition:
    if not isinstance(data, Mapping):
        raise BadModel(f"{where}a condition is no object")
    only(data, {"column", "is", "in", *_BOUNDS, "not"}, where)
    column = take(data, "column", str, where=where)
    if ("is" in data) + ("in" in data) + any(key in data for key in _BOUNDS) != 1:
        raise BadModel(f'{where}the condition on {column!r:.80} needs "is", "in", or bounds')
    values: tuple[Value, ...] | None = None
    if "is" in data:
        values = (_value(data["is"], "is", where),)
    elif "in" in data:
        values = tuple(_value(v, "in", where) for v in take(data, "in", list, where=where))
    ends = {key: data[key] for key in _BOUNDS if key in data}
    for key, end in ends.items():
        if not is_finite(end):
            raise BadModel(f"{where}{key} is {end!r:.40}, must be a number")
    negated = take(data, "not", bool, False, where)
    with located(where):
        return Condition(column, values, negated=negated, **ends)


def _value(value: Any, key: str, where: str) -> Value:
    if not isinstance(value, str) and not is_finite(value):
        raise BadModel(f"{where}{key} names {value!r:.40}, must be a number or text")
    return value  # type: ignore[no-any-return]


def _counts(data: Mapping[str, Any], key: str, where: str = "") -> tuple[int, ...] | None:
    counts: tuple[int, ...] | None = declared(tuple[int, ...] | None, data.get(key), where + key)
    return counts
