"""CatBoost's models: JSON read as data, and cbm turned into JSON by CatBoost.

Only CatBoost reads its binary format (cbm). It does so in a process of its own, with bounds on
memory and time, whose answer is read like any other JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from treeleak.core.errors import BadModel, NotCovered
from treeleak.core.message import static_message
from treeleak.core.signals import private_folder
from treeleak.release.bounds import MOST_JSON_BYTES, MOST_TREES, at_most
from treeleak.release.checked_json import read_json
from treeleak.release.readers.pickled import Worker, refused_by
from treeleak.release.registry import describe_format, reader
from treeleak.release.stored import Leftover, StoredObject

MODEL = "catboost.core.CatBoost"
MAGIC = b"CBM1"
SECONDS = 600
_MOST_UNREAD = 32
"""Bytes, other than 0, that files have more than what CatBoost writes of them again: 12 to 26 of 42
settings. A hardened file has bytes of 0 where it was emptied; CatBoost writes none there."""
WORKER = Worker(Path(__file__).with_name("cbm_worker.py"), 8 << 30, 64 << 20, 60, 4)
_FORMER = re.compile(r"(initModel|model\d{1,5}):(.+)", re.DOTALL)
_OF_SUM = re.compile(r"(^|:)model\d{1,5}:")
NEEDED = static_message(
    "CatBoost's binary models (cbm) are read with the help of CatBoost: "
    "python -m pip install 'treeleak[catboost]'; or save the model as JSON: "
    'save_model("model.json", format="json")',
    "catboost_json_needed",
)


def is_catboost(root: Any) -> bool:
    """Say whether this is JSON that CatBoost writes."""
    return isinstance(root, Mapping) and isinstance(root.get("features_info"), Mapping)


def model_from_dict(root: Any) -> StoredObject:
    """Take what a file says.

    Raises
    ------
    BadModel
        If it is no model of CatBoost.
    """
    if not is_catboost(root):
        raise BadModel("not a model of CatBoost: it names no columns")
    return StoredObject(MODEL, root)


def trainings(info: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """List what a file says of each training behind it, in the order of their trees, itself last.

    A sum of models keeps what its parts said as ``model0:params`` and so on, a model that went on
    from another as ``initModel:params``. A sum was not trained itself: it has no ``params``.
    """
    former: dict[str, dict[str, Any]] = {}
    for key, value in info.items():
        if found := _FORMER.fullmatch(key):
            former.setdefault(found[1], {})[found[2]] = value
    # The first one was there before; parts of a sum are numbered.
    order = sorted(former, key=lambda head: (len(head), head))
    at_most(MOST_TREES, len(order), "trainings")
    out = [training for head in order for training in trainings(former[head])]
    return [*out, {key: value for key, value in info.items() if not _FORMER.fullmatch(key)}]


def is_sum(info: Mapping[str, Any]) -> bool:
    """Say whether a model is a sum of others, each of which may have been given a weight."""
    return any(_OF_SUM.search(key) for key in info)


def model_from_cbm(data: bytes) -> StoredObject:
    """Read a binary model, by CatBoost in a process of its own.

    Raises
    ------
    NotCovered
        If CatBoost is not installed: how to install it.
    BadModel
        If it cannot read the model, or needs more than the bounds allow.
    """
    at_most(MOST_JSON_BYTES, len(data), "bytes")
    if not data.startswith(MAGIC):
        raise BadModel("no binary model of CatBoost")
    if find_spec("catboost") is None:
        raise NotCovered(NEEDED)
    with private_folder() as folder:
        source, made = folder / "model.cbm", folder / "model.json"
        source.write_bytes(data)
        try:
            why = refused_by(WORKER, source, made, SECONDS, OMP_NUM_THREADS="1", HOME=str(folder))
        except TimeoutError as error:
            raise BadModel(f"CatBoost did not read it within {SECONDS} seconds") from error
        if why:
            raise BadModel(f"CatBoost does not read it ({why:.300})")
        again = made.with_name(f"{made.name}.cbm").read_bytes()
        try:
            stored = read_json(made, model_from_dict)
        except BadModel as error:
            raise BadModel(str(error).replace(f"{made}: ", "")) from error
    unread = len(data.replace(b"\0", b"")) - len(again.replace(b"\0", b""))
    if unread <= _MOST_UNREAD:
        return stored
    beside = Leftover("the file", "bytes that CatBoost does not read", data[-unread:])
    return replace(stored, leftovers=(*stored.leftovers, beside))


describe_format(
    "CatBoost cbm",
    ".cbm",
    "rows of each leaf, borders between values of all columns, settings, seeds",
    "treeleak[catboost]",
)


@reader("CatBoost cbm", lambda head: head.startswith(MAGIC))
def _read_cbm(path: Path, trust_pickle: bool) -> StoredObject:  # noqa: ARG001
    at_most(MOST_JSON_BYTES, path.stat().st_size, "bytes")
    return model_from_cbm(path.read_bytes())
