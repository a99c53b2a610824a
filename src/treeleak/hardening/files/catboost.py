"""What CatBoost's JSON files hold beside what predictions need.

A tree predicts by its splits and the values of its leaves; of the parameters of the training,
predictions ask for the loss only. CatBoost's own reader of numbers is not exact in the last digit,
so every number keeps its text.

In binary files (cbm), numbers and texts are emptied where they stand, no other byte touched.
CatBoost itself could write such a file again, but only by way of its JSON, whose numbers it reads
with another last digit: predictions would change. So its layout (FlatBuffers) is followed as far as
the parts that go.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from treeleak.auditing.inventory.catboost_shapes import INFO, shape_of, sizes_of
from treeleak.auditing.inventory.shapes import FEW, Shape, Sizes, left_over, without
from treeleak.core.errors import BadModel
from treeleak.core.private import dataclass
from treeleak.hardening.files.document import (
    DROPPED,
    NOTHING,
    Change,
    Digits,
    Document,
    changed,
    dropped,
    few_digits,
    read_document,
    step,
    zero,
    zeros,
)
from treeleak.release.bounds import MOST_JSON_BYTES, at_most
from treeleak.release.readers.catboost_json import MAGIC, is_catboost

_MODEL_TREES, _INFO_MAP = 1, 2
_LEAF_VALUES, _LEAF_WEIGHTS = 8, 9
_KEY, _VALUE = 0, 1
"""Numbers of the fields in CatBoost's own description of the format."""
_MOST_NOTES = 10_000


@dataclass(frozen=True, eq=False)
class Cbm:
    """The bytes of a file."""

    data: bytes

    @classmethod
    def read(cls, path: Path) -> Cbm:
        """Read a file, as far as its parts can be found.

        Raises
        ------
        BadModel
        """
        at_most(MOST_JSON_BYTES, path.stat().st_size, "bytes")
        file = cls(path.read_bytes())
        try:
            view = _View(file.data)
            trees = view.table(_MODEL_TREES)
            values, weights = (view.vector(trees, f, 8) for f in (_LEAF_VALUES, _LEAF_WEIGHTS))
            list(view.notes())
        except (struct.error, ValueError) as error:
            raise BadModel(f"{path}: not in CatBoost's layout ({error})") from error
        if values is None or (weights and weights[1] and values[1] % weights[1]):
            raise BadModel(f"{path}: not in CatBoost's layout: leaves do not fit its weights")
        return file

    def to_bytes(self) -> bytes:
        """All bytes of the file."""
        return self.data

    def with_changes(self, changes: Iterable[tuple[str, Change]]) -> Cbm:
        """Change what stands at places of CatBoost's JSON, where the binary form has them."""
        new = self
        for place, change in changes:
            first, *rest = place.split("/")
            if first in ("trees", "oblivious_trees"):
                new = new._without_weights()
            elif first == "model_info":
                new = new._with_notes(rest, change)
        return new

    def _without_weights(self) -> Cbm:
        view = _View(self.data)
        found = view.vector(view.table(_MODEL_TREES), _LEAF_WEIGHTS, 8)
        start, n = found or (0, 0)
        if not any(self.data[start : start + 8 * n]):
            return self
        data = bytearray(self.data)
        data[start : start + 8 * n] = bytes(8 * n)
        return replace(self, data=bytes(data))

    def _with_notes(self, place: list[str], change: Change) -> Cbm:
        """Change the texts that CatBoost keeps by their names."""
        notes = list(_View(self.data).notes())
        old = {note.key: note.text for note in notes}
        new = changed(old, place, change)
        if new is old:
            return self
        data = bytearray(self.data)
        remaining = [note for note in notes if note.key in new]
        for note in notes:
            text = str(new[note.key]).encode() if note.key in new else b""
            if note.key in new and len(text) > note.size:
                raise BadModel(f"a text of a cbm file would grow ({note.key!r:.40})")
            for at, size, content in (
                (note.at, note.size, text),
                *note.key_if(note.key not in new),
            ):
                data[at - 4 : at + size] = struct.pack("<I", len(content)) + content.ljust(
                    size, b"\0"
                )
        for slot, note in zip((n.slot for n in notes), remaining, strict=False):
            # Where a table lies is told from the place that says so.
            struct.pack_into("<I", data, slot, note.table - slot)
        last = notes[len(remaining) :]
        for gone in last:
            struct.pack_into("<I", data, gone.slot, 0)
        struct.pack_into("<I", data, notes[0].slot - 4, len(remaining))
        return replace(self, data=bytes(data))


@dataclass(frozen=True)
class _Note:
    """A text and its name, with their places in the file."""

    key: str
    text: str
    slot: int
    table: int
    key_at: int
    key_size: int
    at: int
    size: int

    def key_if(self, gone: bool) -> tuple[tuple[int, int, bytes], ...]:
        """Where the name stands, if it goes as well."""
        return ((self.key_at, self.key_size, b""),) if gone else ()


class _View:
    """A walk over the tables of a file, every step of which stays inside."""

    def __init__(self, data: bytes) -> None:
        if not data.startswith(MAGIC):
            raise ValueError("no cbm file")
        (size,) = struct.unpack_from("<I", data, 4)
        self._start, self._end = 8, 8 + size
        if self._end > len(data):
            raise ValueError("cut short")
        self._data = data
        self._root = self._offset(self._start)

    def table(self, field: int) -> int:
        """Find a table that the root has."""
        place = self._field(self._root, field)
        if place is None:
            raise ValueError("a part is missing")
        return self._offset(place)

    def vector(self, table: int, field: int, size: int) -> tuple[int, int] | None:
        """Find a list of items of a size: where it begins, and how many there are."""
        place = self._field(table, field)
        if place is None:
            return None
        at = self._offset(place)
        n = self._number(at)
        self._inside(at + 4, n * size)
        return at + 4, n

    def notes(self) -> Iterator[_Note]:
        """List the texts that the root keeps by their names."""
        start, n = self.vector(self._root, _INFO_MAP, 4) or (0, 0)
        at_most(_MOST_NOTES, n, "notes")
        for slot in range(start, start + 4 * n, 4):
            table = self._offset(slot)
            key, text = (self.vector(table, field, 1) or (0, 0) for field in (_KEY, _VALUE))
            if not key[0] or not text[0]:
                raise ValueError("a note without name or text")
            yield _Note(self._text(*key), self._text(*text), slot, table, *key, *text)

    def _text(self, at: int, size: int) -> str:
        return self._data[at : at + size].decode()

    def _field(self, table: int, field: int) -> int | None:
        (back,) = struct.unpack_from("<i", self._data, table)
        layout = table - back
        self._inside(layout, 4)
        (size,) = struct.unpack_from("<H", self._data, layout)
        self._inside(layout, size)
        place = 4 + 2 * field
        if place + 2 > size:
            return None
        (offset,) = struct.unpack_from("<H", self._data, layout + place)
        if offset == 0:
            return None
        self._inside(table + offset, 4)
        return int(table + offset)

    def _offset(self, place: int) -> int:
        at = place + self._number(place)
        self._inside(at, 4)
        return at

    def _number(self, at: int) -> int:
        self._inside(at, 4)
        (number,) = struct.unpack_from("<I", self._data, at)
        return int(number)

    def _inside(self, at: int, size: int) -> None:
        if not self._start <= at <= at + size <= self._end:
            raise ValueError("a place outside of the file")


RESULTS, OPTIONS, SEED = "training", "output_options", "random_seed"
_WIDE = {
    "columns": 10**5,
    "outputs": 10**4,
    "classes": 10**4,
    "rounds": 10**5,
    "few": FEW,
    "two": 2,
}
"""Sizes of a model in binary form, whose notes alone are looked at."""


def read_json_file(path: Path) -> Document:
    """Read a model in JSON."""
    return read_document(path, is_catboost, "model of CatBoost")


def _no_weights(tree: Any) -> Any:
    """Empty the numbers of rows of a tree, whose nodes may hold each other.

    They become zeros: CatBoost breaks down when it writes some trees that have none.
    """
    if not isinstance(tree, Mapping):
        return tree
    new = dict(tree)
    if "leaf_weights" in new:
        new["leaf_weights"] = zeros(new["leaf_weights"])
    if isinstance(weight := new.get("weight"), Digits) and float(weight) != 0:
        new["weight"] = zero(weight)
    for side in ("left", "right"):
        if side in new:
            new[side] = _no_weights(new[side])
    return tree if all(new[key] is tree[key] for key in new) else new


def without_seed(params: Any) -> Any:
    """Drop the seeds from the parameters of the training."""
    if not isinstance(params, Mapping):
        return params
    flat = params.get("flat_params")
    held = {SEED, "random_state"} & {*params, *(flat if isinstance(flat, Mapping) else ())}
    if not held:
        return params
    new = {key: value for key, value in params.items() if key != SEED}
    if isinstance(flat, Mapping):
        new["flat_params"] = {k: v for k, v in flat.items() if k not in (SEED, "random_state")}
    return new


def only_loss(params: Any) -> Any:
    """Keep the loss, by which predictions become probabilities."""
    if not isinstance(params, Mapping):
        return DROPPED
    flat = params.get("flat_params")
    flat = flat if isinstance(flat, Mapping) else {}
    reduced = {key: params[key] for key in ("loss_function",) if key in params}
    reduced["flat_params"] = {key: value for key, value in flat.items() if key == "loss_function"}
    return params if reduced == params else reduced


def in_params(change: Change) -> Change:
    """Change parameters, which some versions write as a text."""

    def of_text(params: Any) -> Any:
        if not isinstance(params, str):
            return change(params)
        try:
            parsed = json.loads(params)
        except ValueError:
            return DROPPED
        new = change(parsed)
        if new is parsed or new is DROPPED:
            return params if new is parsed else DROPPED
        return json.dumps(new, separators=(",", ":"))

    return of_text


def known(value: Any, shape: Shape, sizes: Sizes) -> Any:
    """Keep what CatBoost writes, and of odd parameters the loss."""
    value = few_digits(value)
    places = [place for place, _ in left_over(value, shape, sizes)]
    for place in places:
        if place[-1:] == ("params",):
            value = changed(value, list(map(str, place)), in_params(only_loss))
    return without(value, [place for place in places if place[-1:] != ("params",)])


STEPS = (
    step("counts", "numbers of rows in each leaf",
         "SHAP values and importance of columns without a data set",
         ("trees/*", _no_weights), ("oblivious_trees/*", _no_weights)),
    step("scores", "scores on training and validation rows after each round",
         "evals_result_, best_score_", (f"model_info/{RESULTS}", dropped)),
    step("seeds", "seeds of the training", "training the same model again",
         ("model_info/params", in_params(without_seed))),
    step("parameters", "all other parameters of the training but for the loss",
         "get_all_params, training on from this model",
         ("model_info/params", in_params(only_loss)), (f"model_info/{OPTIONS}", dropped)),
    step("unknown", "all parts that no rule knows: other keys and notes", NOTHING,
         ("model_info", lambda info: known(info, INFO, _WIDE)),
         ("", lambda root: known(root, shape_of(root), sizes_of(root)))),
)  # fmt: skip
"""Measures for JSON and cbm, which hold the same things at different places."""
