"""Rule lists that CORELS learnt: the text that its programs print, and pycorels' own object.

Columns are 0/1; "not X" says that X is 0.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

from treeleak.core.errors import BadModel
from treeleak.core.message import own_words
from treeleak.release.rule_list import Condition, DecisionRule, RuleList

_START = re.compile(r"^[ \t]*(?:OPTIMAL RULE LIST|RULELIST:)[ \t]*$", re.MULTILINE)
_RULE = re.compile(r"\s*(?:else\s+)?if\s+[\[(](?P<when>.+)[\])]\s*(?::|then\b)\s*(?P<said>\S.*)")
_DEFAULT = re.compile(r"\s*(?:else\b)?\s*(?P<said>\S.*)")
_COLUMNS = re.compile(r"All features: \((\[.*\])\)\s*$")
_TRUTH = {"false": False, "true": True}


def read_corels(
    text: str, columns: Sequence[str] | None = None, classes: Sequence[Any] | None = None
) -> RuleList:
    """Read a rule list as pycorels (``print(model.rl())``) or the program ``corels`` prints it.

    Such a list has no counts: :meth:`RuleList.counted` adds those of rows.

    Parameters
    ----------
    text : str
    columns : sequence of str, optional
        All columns that the rules were learnt from, in order. Unless the text lists them
        (``repr(model.rl())`` does), those that no rule tests are not known otherwise.
    classes : sequence, optional
        The negative class and the positive one. Unless given, they are False and True, or the
        texts that the rules predict, sorted.

    Raises
    ------
    BadModel
        Naming the line that is no rule.
    """
    start = _START.search(text)
    at = 0 if start is None else start.end()
    said: list[tuple[tuple[Condition, ...], str]] = []
    while found := _RULE.match(text, at):
        said.append((_conditions(found["when"]), _name(found["said"])))
        at = found.end()
    found = _DEFAULT.match(text, at)
    if found is None or (start is None and not said):
        line = text[at:].strip().partition("\n")[0]
        raise BadModel(f"not a rule list of CORELS: {line!r:.80} is neither a rule nor a default")
    said.append(((), _name(found["said"])))
    listed = _COLUMNS.search(text, found.end())
    notes: tuple[str, ...] = ()
    if columns is None and listed is not None:
        columns = _listed(listed[1])
    elif columns is None:
        columns = list(dict.fromkeys(c.column for conditions, _ in said for c in conditions))
        notes = (own_words("the columns are those that a rule tests: the text names no others"),)
    names = {name for _, name in said}
    label: dict[str, Any] = {name: name for name in names}
    if names <= set(_TRUTH):
        classes = (False, True) if classes is None else classes
        label = {name: classes[number] for name, number in _TRUTH.items()}
    elif classes is not None:
        label = {str(c): c for c in classes}
    if strange := names - set(label):
        raise BadModel(f"the rules predict {min(strange)!r:.80}, the classes are {list(label)}")
    *rules, default = (DecisionRule(conditions, label[name]) for conditions, name in said)
    return RuleList(
        columns=tuple(columns),
        classes=tuple(sorted(names) if classes is None else classes),
        rules=tuple(rules),
        default=default,
        origin="CORELS",
        notes=notes,
    )


def from_corels(model: Any, classes: Sequence[Any] = (False, True)) -> RuleList:
    """Take over the rule list of pycorels, or of what is built on it (imodels, FairCORELS).

    Parameters
    ----------
    model : object
        A fitted classifier, or its rule list: ``rules`` is a list of dicts with ``antecedents``
        (numbers of columns from 1, negative where the column is 0; 0 for the default),
        ``prediction`` and, where there are any, ``train_labels`` (training rows of the two
        classes); ``features`` has the names of the columns.
    classes : sequence
        The negative class and the positive one.

    Raises
    ------
    BadModel
        Naming the rule that is none.
    """
    listed = getattr(model, "rl_", model)
    try:
        features = tuple(map(str, listed.features))
        rules = [_rule(r, j, features, classes) for j, r in enumerate(listed.rules, 1)]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, BadModel):
            raise
        raise BadModel(f"not a rule list of CORELS ({type(error).__name__}: {error})") from error
    if not rules or rules[-1].conditions:
        raise BadModel("not a rule list of CORELS: the last rule is not a default")
    *rules, default = rules
    return RuleList(features, tuple(classes), tuple(rules), default, origin="CORELS")


def _rule(
    data: Any, number: int, features: tuple[str, ...], classes: Sequence[Any]
) -> DecisionRule:
    conditions = []
    for antecedent in data["antecedents"]:
        if abs(antecedent) > len(features):
            raise BadModel(f"rule {number} tests column {antecedent} of {len(features)}")
        if antecedent:
            name = features[abs(antecedent) - 1]
            conditions.append(Condition(name, (int(antecedent > 0),)))
    counts = data.get("train_labels")
    return DecisionRule(
        tuple(conditions),
        classes[int(bool(data["prediction"]))],
        None if counts is None else tuple(int(n) for n in counts),
    )


def _conditions(text: str) -> tuple[Condition, ...]:
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        parts = text[1:-1].split(",")
    else:
        parts = text.split("&&")
    names = [part.strip() for part in parts]
    return tuple(
        Condition(name.removeprefix("not ").strip(), (int(not name.startswith("not ")),))
        for name in names
    )


def _name(text: str) -> str:
    """What is predicted, without the name of the label before it."""
    bare = text.strip().strip("()[]{}")
    if (last := re.split(r"[:=]", bare)[-1].strip().lower()) in _TRUTH:
        return last
    return re.split(r"[:=]", bare, maxsplit=1)[-1].strip()


def _listed(text: str) -> list[str]:
    try:
        return [str(name) for name in ast.literal_eval(text)]
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise BadModel(f"the list of all features cannot be read ({error})") from error
