"""What a search of settings and a selection of columns keep: what they tried, and the scores."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from treeleak.auditing.inventory.forms import MAX_NAME, SHORT, is_scalar, pieces
from treeleak.auditing.inventory.known_classes import is_name
from treeleak.auditing.inventory.owners import n_columns, numbers_in
from treeleak.core.arrays import FloatArray
from treeleak.release.stored import StoredObject

_OF_SEARCH = re.compile(r"(mean|std|rank|split\d+)_\w+|param_\w+|params|iter|n_resources")
_OF_SELECTION = re.compile(r"split\d+_(support|ranking)")
_MAPPINGS, _TRIED = 4, 10_000
"""Most grids of a search, and most values of one setting that follow a rule."""
_ROUNDING = 1e-6


def choices(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """Values to try of each setting: once each, in the order of their size.

    So they tell at most which values a column of a table has, and no row. Those in equal steps are
    told by three numbers, however many they are; of others there are as many as a setting may have.
    """
    grids = value if isinstance(value, (list, tuple)) else [value]
    return 0 < len(grids) <= _MAPPINGS and all(
        isinstance(grid, Mapping)
        and len(grid) <= SHORT
        and all(len(str(k)) <= MAX_NAME and is_name(str(k).replace("__", ".")) for k in grid)
        and all(map(_once, grid.values()))
        for grid in grids
    )


def _once(values: Any) -> bool:
    """Whether a list or an array holds each value once, numbers in the order of their size."""
    if isinstance(values, np.ndarray):
        values = values.tolist() if values.ndim == 1 else None
    if isinstance(values, StoredObject) and values.name == "range" and not values.state:
        ends = pieces(values.args)
        whole = all(isinstance(v, int) and is_scalar(v) for v in ends.scalars)
        return whole and len(ends.scalars) <= 3 and not (ends.others or values.leftovers)
    if not isinstance(values, (list, tuple)) or len(values) > _TRIED:
        return False
    words = [v for v in values if v is None or isinstance(v, (bool, str))]
    numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
    if len(words) + len(numbers) < len(values) or len(set(words)) < len(words):
        return False
    if len(words) > SHORT or not all(is_scalar(v) for v in values):
        return False
    x = np.asarray(numbers, dtype=float)
    steps = np.diff(x)
    if not ((steps > 0).all() or (steps < 0).all()):
        return False
    positive = bool((x > 0).all())
    return len(x) <= SHORT or _equal(steps) or (positive and _equal(np.diff(np.log(x))))


def _equal(steps: FloatArray) -> bool:
    return bool(np.isfinite(steps).all() and np.ptp(steps) <= _ROUNDING * np.abs(steps).max())


def results(value: Any, owner: StoredObject) -> bool:
    """Scores of each choice that a search tried, and these choices."""
    if not isinstance(value, Mapping):
        return False
    if any(_OF_SELECTION.fullmatch(str(k)) for k in value):
        return _selected(value, owner)
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
            for row, value in zip(rows, column or (), strict=True):
                if value is not _MASKED:
                    row[name.removeprefix("param_")] = value
    if any(
        not isinstance(t, Mapping) or _canonical(t) != _canonical(r)
        for t, r in zip(tried, rows, strict=True)
    ):
        return False
    grid, rounds = owner.get("param_grid"), columns.get("iter")
    if grid is not None and rounds is None:
        return [_canonical(t) for t in tried] == _choices(grid, len(tried))
    if rounds is not None and not _halved([_canonical(t) for t in tried], rounds, grid):
        return False
    known = set(map(repr, pieces((grid, owner.get("param_distributions"))).scalars))
    texts = [s for t in tried for s in pieces(t).scalars if isinstance(s, str)]
    return all(repr(text) in known for text in texts)


def _halved(tried: list[Any], rounds: list[Any], grid: Any) -> bool:
    """Whether each round of a search tries some of the last one's choices again, each once."""
    last: list[Any] | None = None if grid is None else _choices(grid, len(tried))
    if rounds != sorted(rounds) or (grid is not None and last is None):
        return False
    for k in dict.fromkeys(rounds):
        now = [t for t, r in zip(tried, rounds, strict=True) if r == k]
        if k == rounds[0] and grid is not None and now != last:
            return False
        if last is not None and any(t not in last for t in now):
            return False
        if len(set(map(repr, now))) < len(now):
            return False
        last = now
    return True


def _selected(value: Mapping[str, Any], owner: StoredObject) -> bool:
    """Whether rankings of columns are those of one elimination for each split of the rows.

    Columns that are left share rank 1; each step before has the next rank (RFECV). The last step
    has all columns, so no rank is higher than there are steps.
    """
    n = n_columns(owner)
    arrays = {str(k): a for k, v in value.items() if (a := numbers_in(v)) is not None}
    sizes = arrays.pop("n_features", None)
    if sizes is None or sizes.ndim != 1 or not 0 < len(sizes) <= n or len(arrays) + 1 < len(value):
        return False
    selected = {k: arrays.pop(k) for k in [*arrays] if _OF_SELECTION.fullmatch(k)}
    for split in {k.partition("_")[0] for k in selected}:
        ranks, support = selected.get(f"{split}_ranking"), selected.get(f"{split}_support")
        if ranks is None or support is None or not ranks.shape == support.shape == (len(sizes), n):
            return False
        steps = np.arange(len(sizes))[:, None]
        if (ranks != np.maximum(ranks[0] - steps, 1)).any() or (ranks[-1] != 1).any():
            return False
        if (support != (ranks == 1)).any() or (support.sum(axis=1) != sizes).any():
            return False
        if ranks.dtype.kind not in "iu":
            return False
    named = all(_OF_SEARCH.fullmatch(k) and len(k) <= MAX_NAME for k in arrays)
    return named and all(a.shape == sizes.shape for a in arrays.values())


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


def _canonical(value: Any) -> Any:
    """Tell equal settings from others; objects by what they hold."""
    if isinstance(value, StoredObject):
        return value.type, _canonical(dict(value.state)), _canonical(value.args)
    if isinstance(value, Mapping):
        return sorted((str(k), repr(_canonical(v))) for k, v in value.items())
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_canonical(v) for v in (value.tolist() if isinstance(value, np.ndarray) else value)]
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
        found += [
            _canonical(dict(zip(sorted(one), c, strict=True))) for c in itertools.product(*lists)
        ]
    return found
