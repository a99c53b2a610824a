"""XGBoost's old binary form (0.6 to 3.0), read as data into what its JSON says of the same model.

A file has the structures of the program one after the other, in the order of bytes of the machine
that wrote it (the least first): parameters, names, trees, attributes. The form holds no names of
columns, and its bytes hold no spare room that a model uses: what stands there is left over.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import expit

from treeleak.core.errors import BadModel
from treeleak.release.bounds import (
    MOST_CLASSES,
    MOST_COLUMNS,
    MOST_JSON_BYTES,
    MOST_NODES,
    MOST_TREES,
    at_most,
)
from treeleak.release.checked_json import read_json
from treeleak.release.stored import Leftover

BINARY, CONFIG = b"binf", b"CONFIG-offset:"
"""What the form begins with: of a model (from 1.1 on), and of one in memory."""
_HEADER, _OF_TREES, _OF_TREE = 136, 160, 148
"""Bytes of the parameters of the model, of all trees, and of a tree."""
_MOST_ATTRIBUTES = 1000
_NODE = np.dtype([("parent", "<i4"), ("left", "<i4"), ("right", "<i4"), ("test", "<u4"),
                  ("value", "<f4")])  # fmt: skip
_SUMS = np.dtype([("gain", "<f4"), ("hessian", "<f4"), ("weight", "<f4"), ("leaves", "<i4")])
_TOP = 1 << 31
_LOG_LINK = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox")
_LOGISTIC = ("binary:logistic", "reg:logistic")


def is_old_binary(head: bytes) -> bool:
    """Say whether a file begins as XGBoost's did: its numbers, and many that are reserved."""
    if head.startswith((BINARY, CONFIG)):
        return True
    if len(head) < _HEADER + 8 or any(head[28:_HEADER]):
        return False
    n_columns, n_classes, *flags, major, _ = struct.unpack("<IiiiII", head[4:28])
    (letters,) = struct.unpack("<Q", head[_HEADER : _HEADER + 8])
    named = 0 < letters < 64 and head[_HEADER + 8 : _HEADER + 8 + letters].isascii()
    return n_columns < 2**24 and 0 <= n_classes < 2**16 and set(flags) <= {0, 1} and (
        major < 4 and named
    )  # fmt: skip


def old_binary(data: bytes) -> str:
    """Name the version that wrote a binary model, and say how to write it anew."""
    data = data[len(CONFIG) + 8 :] if data.startswith(CONFIG) else data
    numbers = data.removeprefix(BINARY)[:28].ljust(28, b"\0")
    major, minor = struct.unpack("<20x2I", numbers)
    version = f"{major}.{minor}" if 1 <= major <= 3 and minor < 100 else ""
    by = f"XGBoost {version}" if version else "XGBoost before 1.0, or a damaged file"
    load = f"'xgboost=={version}.*'" if version else "'xgboost<1.6'"
    return (
        f"the old binary form, written by {by}. Load it there (pip install {load}; newer versions "
        "than 3.0 do not read it) and save it again: booster.save_model('model.json')"
    )


def document_of(data: bytes) -> tuple[dict[str, Any], tuple[Leftover, ...]]:
    """Take what a binary model says, as its JSON would say it, and what is left over.

    Raises
    ------
    BadModel
        Naming the byte, and how to write the model anew.
    """
    at_most(MOST_JSON_BYTES, len(data), "bytes")
    try:
        if not data.startswith(CONFIG):
            return _model(data)
        start = len(CONFIG) + 8
        (length,) = struct.unpack("<q", data[len(CONFIG) : start].ljust(8, b"\0"))
        end = start + length
        if not start <= end <= len(data):
            raise BadModel(f"byte {len(CONFIG)}: {length} bytes, there are {len(data) - start}")
        root, left = _model(data[start:end])
        config = read_json(data[end:].decode(), lambda held: held, constants=True)
        named = root.pop("Config", {}).get("learner", {}).get("metrics")
        held = config.get("learner") if isinstance(config, Mapping) else None
        if named and isinstance(held, dict):
            # The settings of an object in memory name its metrics again; if not, they are judged.
            held.setdefault("metrics", named)
        if named and (not isinstance(held, Mapping) or _names(held["metrics"]) != _names(named)):
            left = (*left, Leftover("the model", "metrics that its settings do not name", named))
        return {"Model": root, "Config": config}, left
    except (BadModel, UnicodeDecodeError) as error:
        raise BadModel(f"{error}; this is {old_binary(data)}") from error


def _names(metrics: Any) -> list[Any]:
    """List the names of metrics, which have settings beside them."""
    listed = metrics if isinstance(metrics, list) else [metrics]
    return [one.get("name") if isinstance(one, Mapping) else one for one in listed]


class _Reading:
    """A walk over the bytes; what stands in room that is spare is left over."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at, self.left = data, 0, list[Leftover]()

    def take(self, n: int, what: str) -> bytes:
        rest = len(self._data) - self._at
        if not 0 <= n <= rest:
            raise BadModel(
                f"byte {self._at}: {n:,} bytes of {what} expected, {rest:,} left: the file was cut "
                "short"
            )
        self._at += n
        return self._data[self._at - n : self._at]

    def numbers(self, form: str, size: int, what: str) -> tuple[Any, ...]:
        """Take a structure that begins with these numbers; the rest of it is spare."""
        raw = self.take(size, what)
        used = struct.calcsize(form)
        self.keep(what, "bytes that XGBoost leaves empty", raw[used:])
        return struct.unpack(form, raw[:used])

    def keep(self, where: str, what: str, content: Any) -> None:
        """Keep what is not empty, or not zero."""
        if any(content):
            self.left.append(Leftover(where, what, content))

    def text(self, what: str) -> str:
        (n,) = struct.unpack("<Q", self.take(8, what))
        try:
            return self.take(n, what).decode()
        except UnicodeDecodeError as error:
            raise BadModel(f"byte {self._at - n}: {what} is no text") from error

    def count(self, most: int, what: str) -> int:
        (n,) = struct.unpack("<Q", self.take(8, what))
        at_most(most, n, what)
        return int(n)

    def array(self, n: int, dtype: Any, what: str) -> np.ndarray[Any, Any]:
        return np.frombuffer(self.take(n * np.dtype(dtype).itemsize, what), dtype)

    def end(self) -> None:
        if self._at < len(self._data):
            self.left.append(Leftover("the end", "bytes behind the model", self._data[self._at :]))


def _model(data: bytes) -> tuple[dict[str, Any], tuple[Leftover, ...]]:
    reading = _Reading(data.removeprefix(BINARY))
    base, columns, classes, attributes, metrics, major, minor, targets, mean = reading.numbers(
        "<fIiiiIIIi", _HEADER, "the model's parameters"
    )
    at_most(MOST_COLUMNS, columns, "columns")
    for what, n in (("classes", classes), ("targets", targets)):
        if not 0 <= n <= MOST_CLASSES:
            raise BadModel(f"{n:,} {what}")
    objective, kind = reading.text("objective"), reading.text("booster")
    booster: dict[str, Any] = {"name": kind}
    if kind not in ("gbtree", "dart"):
        raise BadModel(f"a booster {kind!r:.40}, which has no trees")
    booster["model"] = _trees(reading)
    if kind == "dart":
        model = booster.pop("model")
        booster["gbtree"] = {"name": "gbtree", "model": model}
        n = reading.count(len(model["trees"]), "weights of trees") if model["trees"] else 0
        booster["weight_drop"] = reading.array(n, "<f4", "weights of trees")
    listed: dict[str, str] = {}
    for _ in range(reading.count(_MOST_ATTRIBUTES, "attributes") if attributes else 0):
        key = reading.text("the name of an attribute")
        if key in listed:
            raise BadModel(f"the attribute {key!r:.40} appears twice")
        listed[key] = reading.text("an attribute")
    if major < 1 and objective == "count:poisson" and "objective" not in listed:
        listed["count_poisson_max_delta_step"] = reading.text("max_delta_step")
    loss = _loss(objective, listed)
    names = [name for name in listed.pop("metrics", "").split(";") if name] if major else []
    if metrics and not names:
        n = reading.count(_MOST_ATTRIBUTES, "metrics")
        names = [reading.text("a metric") for _ in range(n)]
    reading.end()
    # JSON has a score before the first tree that is no sum; versions before 1.0 keep the sum.
    link = {**dict.fromkeys(_LOGISTIC, expit), **dict.fromkeys(_LOG_LINK, np.exp)}.get(objective)
    if major < 1 and link is not None:
        base = float(link(np.clip(base, -80.0, 80.0)))
    # What versions before had no room for, is zero.
    param = {"base_score": f"{np.float32(base):.9g}",
             "num_class": str(classes), "num_feature": str(columns),
             "num_target": str(max(targets, 1)), "boost_from_average": str(mean)}  # fmt: skip
    learner: dict[str, Any] = {
        "attributes": listed, "feature_names": [], "feature_types": [],
        "gradient_booster": booster, "learner_model_param": param, "objective": loss,
    }  # fmt: skip
    root: dict[str, Any] = {"learner": learner}
    if names:
        root["Config"] = {"learner": {"metrics": [{"name": name} for name in names]}}
    if major >= 1:
        root["version"] = [major, minor, 0]
    return root, tuple(reading.left)


def _trees(reading: _Reading) -> dict[str, Any]:
    what = "the parameters of all trees"
    n_trees, parallel, columns, pad, buffer, _, vector = reading.numbers(
        "<iiiiqii", _OF_TREES, what
    )
    if n_trees < 0 or buffer or vector:
        raise BadModel("trees of a form that is not read (num_pbuffer, size_leaf_vector)")
    at_most(MOST_TREES, n_trees, "trees")
    trees = [_tree(reading, t) for t in range(n_trees)]
    outputs = reading.array(n_trees, "<i4", "tree_info")
    param = {"num_trees": str(n_trees), "num_parallel_tree": str(max(parallel, 1)),
             "size_leaf_vector": "0"}  # fmt: skip
    reading.keep(what, "spare numbers", [pad, columns] if pad or columns < 0 else [])
    return {"gbtree_model_param": param, "tree_info": outputs.astype(np.int64), "trees": trees}


def _tree(reading: _Reading, t: int) -> dict[str, Any]:
    where = f"tree {t}"
    roots, n, deleted, depth, columns, vector = reading.numbers("<iiiiii", _OF_TREE, where)
    if roots != 1 or vector or n < 1 or deleted < 0:
        raise BadModel(f"{where}: {n} nodes below {roots} roots, leaves of {vector} numbers")
    at_most(MOST_NODES, n, f"nodes in {where}")
    node = reading.array(n, _NODE, f"nodes of {where}")
    sums = reading.array(n, _SUMS, f"sums of {where}")
    reading.keep(where, "a depth, which XGBoost leaves empty", [depth])
    parent = node["parent"].astype(np.int64)
    param = {"num_nodes": n, "num_deleted": deleted, "num_feature": columns, "size_leaf_vector": 0}
    tree = {
        "id": t,
        "tree_param": {key: str(value) for key, value in param.items()},
        "left_children": node["left"].astype(np.int64),
        "right_children": node["right"].astype(np.int64),
        # The top bit says which child it is; that follows from the children.
        "parents": np.where(parent == -1, _TOP - 1, parent & (_TOP - 1)),
        "split_indices": (node["test"] & (_TOP - 1)).astype(np.int64),
        "default_left": (node["test"] >> 31).astype(np.int64),
        "split_conditions": node["value"],
        "loss_changes": sums["gain"],
        "sum_hessian": sums["hessian"],
        "base_weights": sums["weight"],
    }
    if sums["leaves"].any():
        tree["leaf_child_counts"] = sums["leaves"].astype(np.int64)
    return tree


def _loss(objective: str, attributes: dict[str, str]) -> dict[str, Any]:
    """Take the objective's parameters, which stand among the attributes."""
    text = attributes.get("objective", "")
    if text.startswith("{"):
        found = read_json(text, lambda held: held)
        if isinstance(found, Mapping) and found.get("name") == objective:
            del attributes["objective"]
            return dict(found)
    loss: dict[str, Any] = {"name": objective}
    if "count_poisson_max_delta_step" in attributes:
        step = attributes.pop("count_poisson_max_delta_step")
        loss["poisson_regression_param"] = {"max_delta_step": step}
    return loss
