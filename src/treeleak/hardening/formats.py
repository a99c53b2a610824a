"""Which file formats can be hardened: one entry each."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from treeleak.core.errors import BadInput, cause
from treeleak.core.private import dataclass
from treeleak.hardening import steps
from treeleak.hardening.archive import Archive
from treeleak.hardening.files import catboost, lightgbm, ohdsi, xgboost
from treeleak.hardening.files.document import Step
from treeleak.release.readers.catboost_json import MAGIC
from treeleak.release.readers.packed import PACKED, first_bytes
from treeleak.release.readers.ubj import is_ubj
from treeleak.release.readers.ydf import HEADERS, MARK
from treeleak.release.registry import HEAD_BYTES, format_name

_SKOPS = b"PK\x03\x04"
HOW = (
    "treeleak changes only files that it reads as data: skops archives, XGBoost's JSON and "
    "UBJSON, LightGBM's text, CatBoost's JSON and cbm, the JSON of OHDSI bundles. First save the "
    "model as one of these, with skops.io.dump or save_model"
)
_SAVE = "from the model itself, and harden that file"
_PRINTED = (
    "trees that XGBoost printed (dump_model), which it does not load, and which need not be "
    "published",
    f'call save_model("model.json") {_SAVE}; or print trees without with_stats',
)
INSTEAD: Mapping[str, tuple[str, str]] = {
    "pickle or joblib": (
        "a pickle or joblib file",
        "who opens it may run code in it. Where it was made, save the model with skops.io.dump or "
        "save_model, and harden that file",
    ),
    "R object": (
        "an R object",
        "in R, delete what predict() does not need, such as m$y <- NULL (treeleak audit writes the "
        "lines for ranger, randomForest and rpart), or train with ranger(..., "
        "keep.inbag = FALSE); then call saveRDS again",
    ),
    "Yggdrasil (YDF, TF-DF)": (
        "a part of a YDF model",
        "it predicts from the counts in its leaves. Train with a larger min_examples, with a "
        "random_seed that you keep secret, and with pure_serving_model=True, which leaves out what "
        "predictions do not need",
    ),
    "ONNX": (
        "an ONNX graph",
        "it holds little but what predictions need: tests, and what leaves answer. Train with "
        "larger leaves, and convert again",
    ),
    "PMML": (
        "PMML",
        "where labels are enough, delete each recordCount and each ScoreDistribution: nodes keep "
        "their score",
    ),
    "EBM JSON": (
        "an explainable boosting machine",
        'in Python, write it with ebm.to_json(file, detail="minimal"), without the counts of bins',
    ),
    "J48 tree": ("the text of a J48 tree", "delete the numbers in brackets behind its leaves"),
    "trees that XGBoost printed, in JSON": _PRINTED,
    "trees that LightGBM printed": (
        "a model that LightGBM printed (dump_model), which it does not load, and which need not be "
        "published",
        f'call save_model("model.txt") {_SAVE}',
    ),
    "XGBoost's old binary form": (
        "XGBoost's old binary form, which current versions do not load",
        'load it in XGBoost before 3.1, call save_model("model.json"), and harden that file',
    ),
}
"""What is read, but not changed, by the name of the format: what it is, and what to do instead."""
_IN_JSON = (
    ("trees that LightGBM printed", re.compile(rb'\s*\{\s*"name":\s*"tree",')),
    ("EBM JSON", re.compile(rb'\s*\{(\s*"\w+":\s*("[^"]*"|\d+),)*\s*"ebm":')),
)
"""First bytes of what other documents look like, too."""


class Content(Protocol):
    """What a file holds, to be written again."""

    def to_bytes(self) -> bytes:
        """Write the file; the same content is always written the same way."""


@dataclass(frozen=True)
class Format:
    """A kind of file."""

    name: str
    recognise: Callable[[bytes], bool]
    """Gets the first bytes of a file."""
    read: Callable[[Path], Content]
    steps: tuple[Step, ...]
    """In the order in which they are applied by default."""


def _begins_with(*keys: str) -> Callable[[bytes], bool]:
    """Say whether a file is a JSON object with one of these keys first."""

    def recognise(head: bytes) -> bool:
        text = b"".join(head.removeprefix(codecs.BOM_UTF8).split())
        return any(text.startswith(f'{{"{key}":'.encode()) for key in keys)

    return recognise


FORMATS: tuple[Format, ...] = (
    Format("skops", lambda head: head.startswith(_SKOPS), Archive.read,
           tuple(steps.STEPS.values())),
    Format("XGBoost UBJSON", is_ubj, xgboost.read_ubj_file, xgboost.STEPS),
    Format("XGBoost JSON", _begins_with("learner", "version", "Config", "Model"),
           xgboost.read_json_file, xgboost.STEPS),
    Format("LightGBM text", lambda head: head.startswith(b"tree"), lightgbm.Text.read,
           lightgbm.STEPS),
    Format("CatBoost cbm", lambda head: head.startswith(MAGIC), catboost.Cbm.read, catboost.STEPS),
    Format("CatBoost JSON",
           _begins_with("features_info", "model_info", "oblivious_trees", "trees",
                        "scale_and_bias", "ctr_data"),
           catboost.read_json_file, catboost.STEPS),
    Format("OHDSI JSON",
           _begins_with("meta", "estimators_", "feature_importances_", "params", "classes_"),
           ohdsi.read_json_file, ohdsi.STEPS),
)  # fmt: skip


def format_of(path: Path) -> Format:
    """Find the format of a file.

    Raises
    ------
    BadInput
        If there is no such file, or it is none that can be changed.
    """
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise BadInput(f"{path}: {cause(error)}") from error
    name = next((name for name, start in _IN_JSON if start.match(head)), format_name(head))
    if path.name.endswith((MARK, "header.pb", *HEADERS.values())):
        name = "Yggdrasil (YDF, TF-DF)"
    elif head.startswith(PACKED):
        name = format_name(first_bytes(head))
    if name in INSTEAD:
        what, how = INSTEAD[name]
        raise BadInput(f"{path}: this is {what}. treeleak does not change it: {how}")
    for known in FORMATS:
        if known.recognise(head):
            return known
    raise BadInput(f"{path}: {HOW}")
