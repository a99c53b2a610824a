"""What a search of settings and a selection of columns keep: what they tried, and the scores."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from treeleak.auditing.inventory.forms import MAX_NAME, pieces
from treeleak.auditing.inventory.owners import numbers_in
from treeleak.release.stored import StoredObject

_OF_SEARCH = re.compile(r"(mean|std|rank|split\d+)_\w+|param_\w+|params|iter|n_resources")


def results(value: Any, owner: StoredObject) -> bool:
    """Scores of each choice that a search tried, and these choices."""
    if not isinstance(value, Mapping):
        return False
    plain = [v for k, v in value.items() if not str(k).startswith("param")]
    named = all(_OF_SEARCH.fullmatch(str(k)) and len(str(k)) <= MAX_NAME for k in value)
    return named and all(numbers_in(v) is not None for v in plain) and _searched(value, owner)


def _searched(results: Mapping[str, Any], owner: StoredObject) -> bool:
    """Whether a search states the choices that it tried, once in rows and once in columns."""
    tried = results.get("params")
    columns = {k: _column(v) for k, v in results.items() if k != "params"}
    if not isinstance(tried, list) or any(
        c is None or len(c) != len(tried) for c in columns.values()
    ):
        return not results or (tried is None and all(c is not None for c in columns.values())
                               and not any(k.startswith("param") for k in columns))  # fmt: skip
    rows: list[dict[str, Any]] = [{} for _ in tried]
    for name, column in columns.items():
        if name.startswith("param_"):
            for row, own in zip(rows, column or (), strict=True):
                if own is not _MASKED:
                    row[name.removeprefix("param_")] = own
    if any(
        not isinstance(t, Mapping) or _told(t) != _told(r) for t, r in zip(tried, rows, strict=True)
    ):
        return False
    grid = owner.get("param_grid")
    if grid is not None:
        return [_told(t) for t in tried] == _choices(grid, len(tried))
    known = set(map(repr, pieces(owner.get("param_distributions")).scalars))
    texts = [s for t in tried for s in pieces(t).scalars if isinstance(s, str)]
    return all(repr(text) in known for text in texts)


_MASKED = object()


def _column(value: Any) -> list[Any] | None:
    """Values of a column, in an array, which may be masked, or a list."""
    if isinstance(value, StoredObject) and value.name == "MaskedArray":
        data, mask = value.get("data"), value.get("mask")
        if (
            not isinstance(data, np.ndarray)
            or data.ndim != 1
            or np.shape(mask) not in ((), data.shape)
        ):
            return None
        masked = np.broadcast_to(np.asarray(mask, bool), data.shape)
        # What stands beneath the mask is the same everywhere.
        if len(set(map(repr, data[masked].tolist()))) > 1:
            return None
        return [_MASKED if m else v for v, m in zip(data.tolist(), masked, strict=True)]
    if isinstance(value, np.ndarray):
        return value.tolist() if value.ndim == 1 else None
    return value if isinstance(value, list) else None


def _told(value: Any) -> Any:
    """Tell equal settings from others; objects by what they hold."""
    if isinstance(value, StoredObject):
        return value.type, _told(dict(value.state)), _told(value.args)
    if isinstance(value, Mapping):
        return sorted((str(k), repr(_told(v))) for k, v in value.items())
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_told(v) for v in (value.tolist() if isinstance(value, np.ndarray) else value)]
    return value.item() if isinstance(value, np.generic) else value


def _choices(grid: Any, most: int) -> list[Any] | None:
    """All choices of a grid, in the order in which scikit-learn tries them."""
    found: list[Any] = []
    for one in grid if isinstance(grid, (list, tuple)) else [grid]:
        if not isinstance(one, Mapping):
            return None
        lists = [v.tolist() if isinstance(v, np.ndarray) else v for _, v in sorted(one.items())]
        if (
            any(not isinstance(v, (list, tuple)) for v in lists)
            or math.prod(map(len, lists)) > most
        ):
            return None
        found += [_told(dict(zip(sorted(one), c, strict=True))) for c in itertools.product(*lists)]
    return found
