"""Kinds of parts that a policy may forbid: families, by the words of those who write policies."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from treeleak.auditing.inventory.rule import fits
from treeleak.auditing.inventory.rules import RULES, STORED, SUSPICIOUS, UNKNOWN

_BY_CHANGE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "training rows": ("rows",),
        "per-row arrays": ("rows", "per_row"),
        "seeds": ("seeds", "noise seeds"),
        "counts": ("counts", "rule counts"),
        "values of rows": ("values",),
    }
)

_ENDS = ("feature_infos", "data_min_", "_min_value")
"""Attributes in which libraries keep the least and the greatest value of each column."""

KINDS = (*_BY_CHANGE, "minima and maxima", "unknown parts")
"""Families of kinds; beside them, each kind that the inventory names may be forbidden."""


@cache
def parts_of_family(name: str = "") -> frozenset[str]:
    """Find the kinds of a family, or the one kind of this name; all kinds, if none is given.

    Returns an empty set if nothing is called so.
    """
    rules = (*RULES, STORED, SUSPICIOUS, UNKNOWN)
    notable = [rule for rule in rules if rule.mark != "harmless"]
    if name == "minima and maxima":
        ends = [rule for rule in notable if any(fits(rule.names, end) for end in _ENDS)]
        return frozenset(rule.what for rule in ends if rule.change == "values")
    if name == "unknown parts":
        return frozenset(rule.what for rule in notable if rule.unknown)
    if (changes := _BY_CHANGE.get(name)) is not None:
        return frozenset(rule.what for rule in notable if rule.change in changes)
    every = frozenset(rule.what for rule in notable)
    return every if not name else every & {name}
