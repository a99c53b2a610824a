"""A skops archive that is changed as data: what is not touched stays byte for byte."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.private import dataclass
from treeleak.release.readers.npy import parse_npy, write_npy
from treeleak.release.readers.skops_archive import read_members
from treeleak.release.readers.skops_layout import SCHEMA, Node, laid_out

NONE: Node = {
    "__class__": "str",
    "__module__": "builtins",
    "__loader__": "JsonNode",
    "content": "null",
    "is_json": True,
}
_TREES = ("Tree", "TreePredictor")
_OWN_FILES: Mapping[str, str] = {
    "lightgbm": "booster.save_model('model.txt') for booster = model.booster_",
    "xgboost": "booster.save_model('model.json') for booster = model.get_booster()",
    "catboost": "model.save_model('model.cbm')",
}
"""How to save models of libraries that have files of their own."""
_RIGHTS = 0o600 << 16
"""Of a member, as Python's zip files have them."""


@dataclass(frozen=True)
class Place:
    """A named value in an archive."""

    owners: tuple[str, ...]
    """Classes of the objects that hold it, the outermost first."""
    name: str
    """Attribute, or key of a dictionary."""
    node: Node
    """The value, as the archive describes it."""

    @property
    def is_none(self) -> bool:
        """Whether None stands there."""
        return self.node.get("__loader__") == "JsonNode" and self.node.get("content") == "null"


@dataclass(frozen=True)
class TreeArrays:
    """The arrays of a stored tree."""

    owners: tuple[str, ...]
    """Classes of the objects that hold it, the outermost first, itself the last."""
    nodes: NDArray[Any]
    """Structured array."""
    values: NDArray[Any] | None = None
    """Of scikit-learn's trees, shape (n_nodes, n_outputs, n_classes)."""


@dataclass(frozen=True, eq=False)
class Archive:
    """What a skops archive holds."""

    infos: tuple[zipfile.ZipInfo, ...]
    """Names, dates and compression of the members, in their order."""
    data: Mapping[str, bytes]
    """The members."""

    @classmethod
    def read(cls, path: Path) -> Archive:
        """Read an archive, with the bounds of the reader of models.

        Raises BadModel, naming the file and what is wrong with it. Raises NotCovered if parts refer
        to each other in a way that no skops since 0.9 writes.
        """
        members = read_members(path)
        out = cls(members.infos, members.data)
        if any(node.get("__loader__") == "CachedNode" for _, node in walk(out.schema)):
            raise NotCovered(
                f"{path}: parts of it refer to each other in an old way; load it and write it "
                "again with skops.io.dump"
            )

        for _, node in walk(out.schema):
            library = str(node.get("__module__")).partition(".")[0]
            name = str(node.get("__class__"))
            if library in _OWN_FILES and (name == "Booster" or "CatBoost" in name):
                raise BadInput(
                    f"{path}: holds a model of {library}, which hardening cannot change within a "
                    f"skops archive. Save it by itself, {_OWN_FILES[library]}, and harden that file"
                )
        return out

    @property
    def schema(self) -> Node:
        """A fresh copy of the description of all values."""
        schema: Node = json.loads(self.data[SCHEMA])
        return schema

    def without(self, unwanted: Callable[[Place], bool]) -> Archive:
        """Put None in place of values.

        The place keeps its name: libraries look for it.
        """
        schema = self.schema
        found = False
        for owners, content in _dictionaries(schema):
            for name, value in content.items():
                place = Place(owners, name, value if isinstance(value, dict) else {})
                if not place.is_none and unwanted(place):
                    # Without a mark: equal numbers share one, and the next would become None, too.
                    content[name] = copy.deepcopy(NONE)
                    found = True
        return self._described_by(schema) if found else self

    def without_items(
        self, name: str, chosen: Callable[[Mapping[str, Any]], Sequence[bool]]
    ) -> Archive:
        """Put None in place of some items of all lists of a name.

        ``chosen`` gets the arrays beside the list, and says of each item whether it goes.
        """
        schema = self.schema
        found = False
        for _, content in _dictionaries(schema):
            node = content.get(name, {})
            items = node.get("content") if isinstance(node, dict) else None
            if node.get("__loader__") != "ListNode" or not isinstance(items, list):
                continue
            arrays = {
                key: parse_npy(self.data[str(item["file"])], str(item["file"]))
                for key, item in content.items()
                if isinstance(item, dict) and item.get("type") == "numpy"
            }
            going = chosen(arrays)
            for k, goes in enumerate(going if len(going) == len(items) else ()):
                if goes and items[k].get("content") != "null":
                    items[k] = copy.deepcopy(NONE)
                    found = True
        return self._described_by(schema) if found else self

    def with_trees(self, change: Callable[[TreeArrays], TreeArrays]) -> Archive:
        """Change the arrays of all trees."""
        data = dict(self.data)
        for owners, content in _dictionaries(self.schema):
            if not owners or owners[-1] not in _TREES:
                continue
            files = {
                name: str(content[name]["file"])
                for name in ("nodes", "values")
                if name in content and content[name].get("type") == "numpy"
            }
            if "nodes" not in files:
                continue
            old = {name: parse_npy(data[file], file) for name, file in files.items()}
            if not {"left_child", "is_leaf"} & set(old["nodes"].dtype.names or ()):
                continue
            new = change(TreeArrays(owners, **old))
            for name, file in files.items():
                if (array := getattr(new, name)) is not old[name]:
                    data[file] = write_npy(array)
        changed = any(data[name] is not self.data[name] for name in data)
        return replace(self, data=data) if changed else self

    def to_bytes(self) -> bytes:
        """Write the archive; the same content is always written the same way."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as file:
            for info in self.infos:
                # One time for all, so that none says anything.
                member = zipfile.ZipInfo(info.filename, self.infos[0].date_time)
                member.external_attr = _RIGHTS
                file.writestr(member, self.data[info.filename], info.compress_type)
        return buffer.getvalue()

    def _described_by(self, schema: Node) -> Archive:
        """Take another description, and leave out members of which it does not speak."""
        named = {str(node["file"]) for _, node in walk(schema) if "file" in node} | {SCHEMA}
        data = {name: content for name, content in self.data.items() if name in named}
        data[SCHEMA] = laid_out(schema).encode()
        return Archive(tuple(i for i in self.infos if i.filename in named), data)


def _dictionaries(schema: Node) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    for owners, node in walk(schema):
        content = node.get("content")
        if node.get("__loader__") == "DictNode" and isinstance(content, dict):
            yield owners, content


def walk(schema: Node) -> Iterator[tuple[tuple[str, ...], Node]]:
    """List all nodes, with the classes of the objects around them."""
    stack: list[tuple[tuple[str, ...], Any]] = [((), schema)]
    while stack:
        owners, value = stack.pop()
        if isinstance(value, list):
            stack += ((owners, v) for v in reversed(value))
        elif isinstance(value, dict):
            loader = value.get("__loader__")
            if loader is not None:
                yield owners, value
            if loader in ("ObjectNode", "TreeNode"):
                owners = (*owners, str(value.get("__class__")))
            stack += ((owners, v) for v in reversed(value.values()))
