"""What a value is by its type and size: whether it can be what its name says.

A name is easily given. So what a rule calls harmless must also be as small, and of the kind, as
what usually goes by that name; a table does not fit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from treeleak.auditing.inventory.known_classes import is_name
from treeleak.auditing.inventory.owners import (
    checked_by_reader,
    follows_law,
    is_drawn,
    is_model_tree,
    is_random,
    n_classes_of,
    n_columns,
    n_nodes,
    numbers_in,
    whole,
)
from treeleak.core.private import dataclass
from treeleak.release.stored import Opaque, StoredObject

Form = Callable[[Any, StoredObject], bool]

CODE = "code, not data"
SHORT = 32
"""Most scalars in a setting."""
MAX_TEXT = 64
MAX_KNOTS = 10_000
MAX_NAME = 128
MAX_PROSE = 600
MAX_SENTENCES = 32
LETTERS_IN_PROSE = 0.6

# Numbers in a row, as a line of a table has them.
_ROW_LIKE = re.compile(r"[-+\d.eE]+([,;:|/ \t]+[-+\d.eE]+){2,}|[01]{8,}|[0-9a-fA-F]{24,}")
_FIGURE = re.compile(r"\d{1,6}(?:\.\d{1,6})?")
MIN_ENCODED = 20
_BITS = re.compile(r"[01]{20,}")
_RUN = re.compile(r"[A-Za-z0-9+/=]{20,}")
# Where one kind of character ends in another that does not follow it within a word.
_SWITCH = re.compile(r"[a-z](?=[^a-z])|[A-Z](?=[^A-Za-z]|[A-Z][a-z])|[0-9](?=[^0-9])")
_SWITCHES = 1 / 3
"""Of a run: nearly half of encoded bytes switch, of a name in ``CamelCase`` one in each word."""
_MOST_SIGNS = 8
"""Different signs in a name; base85 has 23."""


@dataclass(frozen=True)
class Pieces:
    """What a value holds, through lists, dictionaries and arrays of objects."""

    scalars: tuple[Any, ...]
    """Keys of dictionaries among them."""
    others: tuple[Any, ...]
    """Arrays, bytes, objects, and what was not read."""


def pieces(value: Any) -> Pieces:
    """Take a value apart, but for arrays of numbers and objects."""
    scalars: list[Any] = []
    others: list[Any] = []
    stack, seen = [value], set()
    while stack:
        one = stack.pop()
        if isinstance(one, (list, tuple, set, frozenset, Mapping)) or _of_objects(one):
            # A container that stands several times says nothing new.
            if id(one) in seen:
                continue
            seen.add(id(one))
        if isinstance(one, Mapping):
            scalars += one.keys()
            stack += one.values()
        elif isinstance(one, (list, tuple, set, frozenset)):
            stack += one
        elif isinstance(one, np.ndarray) and one.ndim == 0:
            stack.append(one.item())
        elif _of_objects(one):
            stack += one.ravel().tolist()
        elif isinstance(one, (np.ndarray, bytes, StoredObject, Opaque)):
            others.append(one)
        else:
            scalars.append(one)
    return Pieces(tuple(scalars[::-1]), tuple(others[::-1]))


def _of_objects(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == object and value.ndim > 0


def is_text(value: Any, most: int = MAX_TEXT) -> bool:
    """Say whether this is a short text, and none that looks like a line of a table."""
    return (
        isinstance(value, str)
        and len(value) <= most
        and value.isprintable()
        and _ROW_LIKE.fullmatch(value) is None
        and not _is_encoded(value)
    )


def is_like_row(text: str) -> bool:
    """Say whether a text looks like a line of a table of numbers."""
    return _ROW_LIKE.fullmatch(text) is not None


def figures(text: str) -> int:
    """Count the numbers in a text: of six digits each, as a long one can be several."""
    return len(_FIGURE.findall(text))


def is_long(number: Any) -> bool:
    """Say whether a number has more than one digit, zeros at its ends aside."""
    plain = isinstance(number, (int, float)) and not isinstance(number, bool)
    digits = f"{number:.12g}".partition("e")[0].lstrip("-").replace(".", "") if plain else ""
    return digits.isdigit() and len(digits.strip("0")) > 1


def _is_encoded(text: str) -> bool:
    """Say whether a text holds bytes as base64 and the like write them."""
    if len(text) < MIN_ENCODED:
        return False
    return (
        _BITS.search(text) is not None
        or len({c for c in text if c.isascii() and not c.isalnum()}) > _MOST_SIGNS
        or any(len(_SWITCH.findall(run)) > _SWITCHES * len(run) for run in _RUN.findall(text))
    )


def is_code(value: Any) -> bool:
    """Say whether this names a class or a function, and holds nothing."""
    return (
        isinstance(value, Opaque)
        and value.why == CODE
        and value.content is None
        and is_name(value.type)
    )


def is_scalar(value: Any, most: int = MAX_TEXT) -> bool:
    """Say whether this is a single number, truth value or short text."""
    if value is None or isinstance(value, (bool, float, np.bool_, np.floating, np.integer)):
        return True
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    return is_text(value, most)


# ------------------------------------------------------------------------------------- forms


def _flat(value: Any, most: float, longest: int, code: bool = False) -> list[Any] | None:
    """Numbers and texts that a value holds; None if there are too many, or anything else."""
    held = pieces(value)
    arrays = [a for a in held.others if isinstance(a, np.ndarray) and a.dtype.names is None]
    n_code = sum(map(is_code, held.others)) if code else 0
    size = len(held.scalars) + n_code + sum(a.size for a in arrays)
    if len(arrays) + n_code < len(held.others) or size > most:
        return None
    flat = [*held.scalars, *(v for a in arrays for v in a.ravel().tolist())]
    return flat if all(is_scalar(v, longest) for v in flat) else None


def is_single(value: Any) -> bool:
    """Whether this is one value, and no list or array of whatever shape."""
    return not isinstance(value, (list, tuple)) and np.ndim(value) == 0


def short(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """A few numbers and short texts."""
    return _flat(value, SHORT, MAX_TEXT, code=True) is not None


def seeds(value: Any, owner: StoredObject) -> bool:
    """A seed, one for each tree, or a generator with as much state as generators have."""
    if isinstance(value, StoredObject):
        held = pieces((value.state, value.args))
        inner = [s for s in held.others if isinstance(s, StoredObject)]
        sizes = [s.size for s in held.others if isinstance(s, np.ndarray)]
        if not all(s.type.startswith("numpy.random.") for s in (value, *inner)):
            return False
        if not all(is_random(s) for s in held.others if isinstance(s, np.ndarray)):
            return False
        texts = all(
            is_scalar(s) or (isinstance(s, int) and s.bit_length() <= 128) for s in held.scalars
        )
        numbers = len(held.scalars) + sum(sizes)
        return texts and numbers <= 700 and all(seeds(s, owner) for s in inner)
    array = numbers_in(value)
    if array is None or array.dtype.kind not in "iub":
        return value is None
    return is_single(value) or per_tree(value, owner)


def per_tree(value: Any, owner: StoredObject) -> bool:
    """A number for each tree, or for each round of a search that stops early."""
    trees = owner.get("estimators_", owner.get("_predictors"))
    sizes = [owner.get(k) for k in ("n_estimators", "max_iter", "n_iter_")]
    most = max([len(trees) if isinstance(trees, (list, np.ndarray)) else 0, *whole(sizes)]) + 1
    array = numbers_in(value)
    return array is not None and array.size <= most


def repeated(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """The same few numbers, over and over."""
    held = pieces(value)
    return not held.others and all(map(is_scalar, held.scalars)) and len(set(held.scalars)) <= SHORT


def per_column(value: Any, owner: StoredObject, times: int = 1) -> bool:
    """A number for each column, or a few."""
    array = numbers_in(value)
    return array is not None and array.size <= times * (n_columns(owner) + 1)


def columns(value: Any, owner: StoredObject) -> bool:
    """A number or a short text for each column."""
    return _flat(value, n_columns(owner) + SHORT, MAX_NAME) is not None


def names(value: Any, owner: StoredObject) -> bool:
    """Names of columns or classes, each of them once."""
    stated = n_columns(owner) + sum(whole([owner.get("n_classes_")]))
    flat = _flat(value, stated + SHORT if stated else math.inf, MAX_NAME)
    listed = isinstance(value, np.ndarray) and value.ndim == 1
    return flat is not None and not (listed and len(set(map(str, flat))) < len(flat))


def distinct(value: Any, owner: StoredObject) -> bool:
    """For each column its values or edges, each of them once and mostly in their order."""
    parts = value if isinstance(value, (list, tuple)) else [value]
    if isinstance(value, Mapping):
        return all(is_scalar(k, MAX_NAME) for k in value)
    if isinstance(value, np.ndarray) and value.dtype == object:
        parts = value.ravel().tolist()
    elif isinstance(value, np.ndarray) and value.ndim == 2:
        parts = list(value.T)
    if len(parts) > n_columns(owner) + 1:
        return False
    return all(each_once(part) for part in parts if part is not None)


def encodings(value: Any, owner: StoredObject) -> bool:
    """A number for each category of each column, or for each step of a curve, in their order."""
    categories = owner.get("categories_")
    if not isinstance(categories, (list, tuple)):
        return distinct(value, owner)
    most = [len(c) for c in categories if isinstance(c, np.ndarray)] * max(n_classes_of(owner), 1)
    arrays = [numbers_in(v) for v in value] if isinstance(value, (list, tuple)) else [None]
    return len(arrays) <= len(most) and all(
        a is not None and a.ndim == 1 and len(a) <= max(most) for a in arrays
    )


def each_once(part: Any) -> bool:
    """Values each of which stands there once; numbers ascending."""
    if isinstance(part, Mapping):
        return all(is_scalar(v, MAX_NAME) for v in (*part.keys(), *part.values()))
    if is_scalar(part, MAX_NAME):
        return True
    if not isinstance(part, (list, np.ndarray)):
        return False
    try:
        array = np.asarray(part)
    except ValueError:  # Lists of other lengths.
        return False
    if array.ndim != 1 or array.dtype.names is not None:
        return False
    if array.dtype.kind == "f":
        return bool((np.diff(array[~np.isnan(array)]) >= 0).all())
    flat = array.tolist()
    texts = all(is_scalar(v, MAX_NAME) for v in flat)
    return texts and len(set(map(str, flat))) == len(flat)


def per_node(value: Any, owner: StoredObject) -> bool:
    """A number for each node of a tree."""
    return checked_by_reader(owner) or (
        isinstance(value, np.ndarray)
        and value.ndim == 1
        and value.dtype.kind in "biuf"
        and len(value) == n_nodes(owner)
    )


def flags(value: Any, owner: StoredObject) -> bool:
    """A truth value for each node of a tree."""
    return per_node(value, owner) and (
        checked_by_reader(owner) or bool(np.isin(value, (0, 1)).all())
    )


def tests(value: Any, owner: StoredObject) -> bool:
    """A number for each test of a tree; leaves, which test nothing, all have the same."""
    if not per_node(value, owner) or checked_by_reader(owner):
        return checked_by_reader(owner)
    nodes = owner.get("nodes")
    if is_model_tree(owner):
        return bool(np.isnan(value[owner.get("feature") == -1]).all())
    fields = nodes.dtype.names or ()
    leaf = nodes["is_leaf"] != 0 if "is_leaf" in fields else nodes["left_child"] == -1
    at_leaves = value[leaf]
    return bool((at_leaves == at_leaves[:1]).all() or np.isnan(at_leaves).all())


def shape(value: Any, owner: StoredObject) -> bool:
    """What says how the nodes of a tree hang together, and which values go left."""
    if isinstance(value, np.ndarray) and value.ndim == 2:
        # 256 bits for each split on a categorical column.
        return value.dtype == np.uint32 and value.shape[1] == 8 and len(value) <= n_nodes(owner)
    if is_model_tree(owner) and isinstance(value, np.ndarray) and value.dtype.kind == "i":
        return value.ndim == 1 and len(value) <= n_nodes(owner)
    return per_node(value, owner)


def in_rules(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """What rules test and predict."""
    held = pieces(value)
    return not held.others and all(is_scalar(v, MAX_NAME) for v in held.scalars)


def tree_values(value: Any, owner: StoredObject) -> bool:
    """What each node of a tree says of each class."""
    if checked_by_reader(owner):
        return True
    if is_model_tree(owner):
        array = numbers_in(value)
        return (
            array is not None
            and array.ndim <= 2
            and len(array) == n_nodes(owner) >= (array.size / SHORT)
        )
    args = owner.args
    if len(args) != 3 or not isinstance(args[1], np.ndarray):
        return False
    most = max([1, *whole(args[1].ravel().tolist())])
    return (
        isinstance(value, np.ndarray)
        and value.dtype.kind in "iuf"
        and value.shape == (n_nodes(owner), *whole(args[2:]), most)
    )


def per_row(value: Any, owner: StoredObject) -> bool:
    """A number for each row, or a share for each class."""
    if isinstance(value, Mapping):
        return False
    lists = isinstance(value, (list, tuple)) and any(isinstance(v, np.ndarray) for v in value)
    arrays = [numbers_in(v) for v in value] if lists else [numbers_in(value)]
    n_classes = owner.get("n_classes_")
    most = max(2, *whole(n_classes if isinstance(n_classes, list) else [n_classes]), 2)
    return all(a is not None and (a.ndim < 2 or a.size <= len(a) * most) for a in arrays)


def scores(value: Any, owner: StoredObject) -> bool:
    """Averages: for the whole, each tree or each column."""
    return short(value, owner) or per_tree(value, owner) or per_column(value, owner, 2)


def edges(value: Any, owner: StoredObject) -> bool:
    """Values of each column in their order, or one of each column."""
    return per_column(value, owner, 2) or distinct(value, owner)


def knots(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """Knots of splines in their order, or coefficients that choose one spline each."""
    array = numbers_in(value)
    if array is None or array.ndim == 1:
        return array is not None and each_once(array)
    if array.ndim != 2 or max(array.shape) > MAX_KNOTS:
        return False
    rows, width = array.shape
    return bool((array == np.eye(width)[np.arange(rows) % width]).all())


def fitted(value: Any, owner: StoredObject) -> bool:
    """Numbers for each column and class, pair of columns, or hidden part of a fitted formula."""
    if is_drawn(owner):
        return follows_law(value, owner)
    n, k = n_columns(owner), n_classes_of(owner)
    hidden = owner.get("hidden_layer_sizes", ())
    wide = max([n, k, SHORT, *whole(hidden if isinstance(hidden, (list, tuple)) else [hidden])])
    parts = value if isinstance(value, list) else [value]
    arrays = [numbers_in(part) for part in parts]
    return len(arrays) <= SHORT and all(
        a is not None and a.ndim <= 2 and a.size <= wide * wide for a in arrays
    )


def prose(value: Any, owner: StoredObject) -> bool:
    """A few sentences."""
    texts = value if isinstance(value, (list, tuple)) else [value]
    if not checked_by_reader(owner):
        return short(value, owner)
    return len(texts) <= MAX_SENTENCES and all(_is_sentence(t) for t in texts)


def _is_sentence(text: Any) -> bool:
    if is_scalar(text):
        return True
    if not isinstance(text, str) or len(text) > MAX_PROSE or not text.isprintable():
        return False
    letters = sum(c.isalpha() or c == " " for c in text)
    return letters >= LETTERS_IN_PROSE * len(text) and max(map(len, text.split())) <= MAX_TEXT
