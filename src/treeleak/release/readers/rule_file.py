"""The rule file: rule lists and rule sets as JSON, whatever learnt them.

docs/rule-file.md explains the format to those who write it. What a file says is taken for hostile
until checked, see :mod:`treeleak.release.checked_json` and :mod:`treeleak.core.declared`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import UNSET

from treeleak.core.declared import Place, in_words, read, set_fields, to_builtins
from treeleak.core.errors import BadInput, BadModel
from treeleak.core.output import write_file
from treeleak.formats import rules as declared
from treeleak.release.bounds import MOST_RULES, at_most
from treeleak.release.checked_json import label, located, read_json
from treeleak.release.rule_list import Condition, DecisionRule, RuleList

FORMAT: Literal["treeleak-rules"] = "treeleak-rules"
FORMAT_VERSION: Literal[1] = 1


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
    return to_builtins(
        declared.Rules(
            format=FORMAT,
            version=FORMAT_VERSION,
            origin=rules.origin,
            columns=tuple(rules.columns),
            classes=tuple(label(c) for c in rules.classes),
            ordered=rules.ordered,
            n_rows=UNSET if rules.n_rows is None else int(rules.n_rows),
            rules=tuple(
                declared.Rule(
                    conditions=tuple(map(_described, rule.conditions)), **_outcome_to_dict(rule)
                )
                for rule in rules.rules
            ),
            default=declared.Default(**_outcome_to_dict(rules.default)),
            covered=UNSET if rules.covered is None else tuple(map(int, rules.covered)),
            notes=tuple(rules.notes),
        )
    )


def rules_from_dict(data: Any) -> RuleList:
    """Read what :func:`rules_to_dict` wrote.

    Raises BadModel, naming the key, and the rule where there is one; rules are numbered from 1.
    """
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise BadModel(f'no rules: "format" is not "{FORMAT}"')
    if data.get("version") != FORMAT_VERSION:
        raise BadModel(
            f"rule format version {data.get('version')!r:.40}; "
            f"this program reads version {FORMAT_VERSION}"
        )
    if isinstance(data.get("rules"), list):
        at_most(MOST_RULES, len(data["rules"]), "rules")
    found = set_fields(read(declared.Rules, data, BadModel, _in_words))
    del found["format"], found["version"]
    default = found.pop("default")
    rules = []
    for j, rule in enumerate(found.pop("rules"), 1):
        with located(f"rule {j}: "):
            conditions = tuple(map(_condition, rule.conditions))
        rules.append(DecisionRule(conditions, rule.then, rule.counts))
    classes = tuple(map(label, found.pop("classes")))
    default = DecisionRule((), default.then, default.counts)
    return RuleList(classes=classes, rules=tuple(rules), default=default, **found)


def _in_words(place: Place) -> str:
    """Number rules and their conditions from 1."""
    match place:
        case "rules", int(rule), "if", int(condition), *more:
            parts = [f"rule {rule + 1}", f"condition {condition + 1}", in_words(more)]
        case "rules", int(rule), *more:
            parts = [f"rule {rule + 1}", in_words(more)]
        case _:
            parts = [in_words(place)]
    return ": ".join(filter(None, parts))


def _outcome_to_dict(rule: DecisionRule) -> dict[str, Any]:
    counts = None if rule.counts is None else tuple(map(int, rule.counts))
    return {"then": label(rule.prediction), "counts": counts}


def _described(condition: Condition) -> declared.Condition:
    fields: dict[str, Any] = {}
    if condition.values is not None:
        values = tuple(map(_plain, condition.values))
        fields = {"one": values[0]} if len(values) == 1 else {"several": values}
    else:
        ends = {key: _plain(getattr(condition, key)) for key in ("above", "upto")}
        fields = {key: end for key, end in ends.items() if math.isfinite(end)}
    return declared.Condition(column=condition.column, negated=condition.negated, **fields)


def _plain(value: Any) -> Any:
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, str):
        return str(plain)
    if isinstance(plain, bool):
        return int(plain)
    if not isinstance(plain, (int, float)):
        raise BadInput(f"{value!r:.40} is neither text nor number, and has no place in a rule file")
    return plain


def _condition(found: declared.Condition) -> Condition:
    fields = set_fields(found)
    ends = {key: fields.pop(key) for key in ("above", "upto") if key in fields}
    if ("one" in fields) + ("several" in fields) + bool(ends) != 1:
        raise BadModel(f'the condition on {found.column!r:.80} needs "is", "in", or bounds')
    values = (fields["one"],) if "one" in fields else fields.get("several")
    return Condition(found.column, values, negated=found.negated, **ends)
