"""Files and objects that are no tree model: what each is, and what to do instead, as tables."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from treeleak.release.stored import StoredObject, models_inside

HOW_TO_SAVE = 'save a fitted model with skops.io.dump(model, "model.skops")'
_TREES = "treeleak audits tree models only"
_ROWS = f"{HOW_TO_SAVE}, and give rows as CSV with --train"
_XGBOOST = (
    "trees that XGBoost printed as text, or a single one (dump_model, get_dump): write the model "
    'itself with save_model("model.json")'
)
_KERAS = f"a Keras model (TensorFlow), a neural network: {_TREES}"
_TORCH = f"a PyTorch model: {_TREES}"
_R_ROWS = "its parts are listed, and rows in it are found all the same"

_STARTS: tuple[tuple[str, str], ...] = (
    (
        r"version https://git-lfs",
        "a pointer of Git LFS in place of the file: fetch the file with git lfs pull",
    ),
    (
        r"(?s:.{0,9}/?annex/objects/|.{0,200}\.git/annex/objects/)",
        "a pointer of git-annex in place of the file: fetch the file with git annex get",
    ),
    (
        r"(?s:(md5: .{0,80}\n)?(wdir: .{0,80}\n)?outs:\n)",
        "a description by DVC in place of the file: fetch the file with dvc pull",
    ),
    (
        r"(?is:(\xef\xbb\xbf)?\s*(<\?xml.{0,200}\?>)?\s*(<!doctype html|<html))",
        "a web page (HTML), as servers send instead of a file: download the file itself",
    ),
    (r"\x89HDF\r\n", f"an HDF5 file, as Keras writes them: {_TREES}"),
    (r"PAR1|ARROW1|FEA1", f"a table (Parquet or Arrow): {_ROWS}"),
    (r"GGUF", f"a language model (GGUF): {_TREES}"),
    (r"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P", _TORCH),
    (
        r"ZF0x",
        "a pickle of joblib before 0.10: load it with a joblib of that time, and "
        + HOW_TO_SAVE.replace("a fitted", "the"),
    ),
    (r"(?s:.{8})\{\s*\"", f"a file of tensors (safetensors): {_TREES}"),
    (
        r"\xac\xed\0\x05",
        "a Java object (Weka, say): give the text of a J48 tree, or docs/release-format.md",
    ),
    (r"\x28\xb5\x2f\xfd", "a file packed with Zstandard: unpack it with zstd -d first"),
    (r"7z\xbc\xaf|Rar!", "a packed archive (7-Zip or RAR): unpack it first"),
    (r"\x89PNG|\xff\xd8\xff|GIF8|%PDF", f"not a model file but a picture or a PDF: {HOW_TO_SAVE}"),
    (r"SQLite format 3", f"a database (SQLite): {_ROWS}"),
)
"""First characters by which formats are certain, whatever reader would take the file."""

_LOOKS: tuple[tuple[str, str], ...] = (
    (
        r"(tree|gbdt)\nnum_class=",
        "a model of LightGBM before 2.1: load it with a later version, and write it again with "
        'save_model("model.txt")',
    ),
    (
        r"(?s:.{120,300}(binary|reg|multi|rank|count|survival):.{0,60}(gbtree|gblinear|dart))",
        "a model in the binary format of old XGBoost: load it with a version up to 3.0, and write "
        'it with save_model("model.json")',
    ),
    (r"\s*(booster\[0\]:\s*)?(0:(\[|leaf=)|bias:)", _XGBOOST),
    (
        r"(?s:(artifact_path|flavors|mlflow_version|model_uuid): ?)",
        "the description of an MLflow model: audit the model file that lies beside it",
    ),
    (
        r"(?s:(#!.{0,80}python.{0,20}\n)?(\s*#[^\n]*\n)*\s*(import|from) [\w.]+)",
        f"a Python script: run it, and {HOW_TO_SAVE}",
    ),
    (r"[^\0\n{]*[,;\t][^\0\n{]*\n[^\0]*", f"a table, it seems: {_ROWS}"),
    (r"[\t\n\r -~\x80-\xff]*\Z", f"not a model file but plain text: {HOW_TO_SAVE}"),
)
"""What a file looks like that no reader takes."""

_MEMBERS = (
    (r".*/?data\.pkl", _TORCH),
    (r"model\.weights\.h5", _KERAS),
    (
        r"model\.ini",
        "an H2O model (MOJO), which holds the trees and the weight of each node: write them, with "
        "h2o.tree.H2OTree, as docs/release-format.md says",
    ),
    (r".*\.npy", f"arrays of NumPy (npz): {_ROWS}"),
    (r"\[Content_Types\]\.xml", f"an Office document: {_ROWS}"),
    (r"META-INF/.*", f"a Java archive: {_TREES}"),
)
_FOLDERS = (
    (
        r"treesMetadata",
        "the folder of a Spark model, which holds the class counts of every node: write it as PMML "
        "(pyspark2pmml.PMMLBuilder(spark, rows, pipeline).buildFile), or its trees as "
        "docs/release-format.md says",
    ),
    (r"saved_model\.pb", f"the folder of a TensorFlow model: {_TREES}"),
    (r"tokenizer.*|.*\.safetensors", f"the folder of a language model: {_TREES}"),
)
_MODELS = (
    r".*\.(skops|pkl|pickle|joblib|cbm|ubj|rds|rda|RData)|(.*/)?(model|release)\.(json|txt|bin)"
)
_KEYS = (
    ({"class_name", "config"}, _KERAS),
    ({"nodeid", "split"}, _XGBOOST),
    ({"nbformat", "cells"}, f"a notebook: run it, and {HOW_TO_SAVE}"),
)
_NEIGHBOURS = "a model that holds training rows themselves, for anybody who has it to read"
_CLASSES = (
    (r"pandas\.(.*\.)?(DataFrame|Series)", f"a table (DataFrame or Series): {_ROWS}"),
    (
        r"(sklearn\.(linear_model|discriminant_analysis)|statsmodels)\..*",
        f"a linear model: {_TREES}",
    ),
    (r"sklearn\.svm\..*", f"a support vector machine, {_NEIGHBOURS}; {_TREES}"),
    (r"sklearn\.(neighbors|gaussian_process|semi_supervised)\..*", f"{_NEIGHBOURS}; {_TREES}"),
    (r"sklearn\.naive_bayes\..*", f"naive Bayes: {_TREES}"),
    (r"sklearn\.(cluster|mixture)\..*", f"a clustering: {_TREES}"),
    (
        r"sklearn\.(preprocessing|feature_\w+|impute|decomposition|compose|manifold)\..*",
        "a step that prepares columns: give the model that it belongs to, or the Pipeline of both",
    ),
    (
        r"(sklearn\.neural_network|torch|keras|tensorflow|transformers|flax)\..*",
        f"a neural network: {_TREES}",
    ),
    (r"R\.(lm|glm|mlm|nls|gam|glmnet|cv\.glmnet|coxph|survreg)", f"a linear model of R: {_R_ROWS}"),
    (r"R\.(data\.frame|matrix|vector|factor)", f"a table or a vector of R: {_R_ROWS}"),
    (
        r"R\.gbm",
        "a model of R's gbm, whose trees are not read: to attack them, write them as "
        "docs/release-format.md says. Delete what predict() does without: "
        f"m$data <- m$fit <- m$cv.fitted <- NULL; {_R_ROWS}",
    ),
    (
        r"R\.(const|simple)?party",
        "a tree of R's partykit, which is not read: to attack it, write it as "
        "docs/release-format.md says. Delete the rows in it: m <- as.simpleparty(m); "
        f"m$data <- m$data[0, ]; m$fitted <- m$fitted[0, ]; {_R_ROWS}",
    ),
    (r"R\..*", f"an object of R without such a model in it: {_R_ROWS}"),
    (r"(xgboost|lightgbm|catboost)\..*", "a part of a boosted model: save the model itself"),
)
"""Classes by their full names."""

_PLAIN = {
    np.ndarray: "numbers (an array of NumPy)",
    str: "a text",
    type(None): "nothing (None)",
}
_MOST_SEEN = 10_000


def kind_of_bytes(head: bytes, *, sure: bool) -> str | None:
    """Say what a file is by its first bytes; None if that is unknown.

    ``sure``: by what is certain, before any reader looks at it; else by its looks.
    """
    text = head.decode("latin-1")
    return _first(_STARTS if sure else _LOOKS, text)


def kind_of_members(members: Iterable[str]) -> str | None:
    """Say what an archive is by its members; None if that is unknown."""
    names = list(members)
    for form, kind in _MEMBERS:
        if any(re.fullmatch(form, name) for name in names):
            return kind
    return None


def kind_of_folder(folder: Path) -> str:
    """Say what a folder is, by the names in it."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in islice(entries, _MOST_SEEN))
    if not names:
        return "an empty folder: name the file of a model"
    for form, kind in _FOLDERS:
        if any(re.fullmatch(form, name, re.DOTALL) for name in names):
            return kind
    models = [name for name in names if re.fullmatch(_MODELS, name, re.DOTALL)]
    if not models:
        return f"a folder with no model file in it: {HOW_TO_SAVE}"
    return f"a folder: name a model file in it, such as {folder / models[0]}"


def kind_of_json(data: Any) -> str | None:
    """Say what a JSON file is by its keys; None if that is unknown."""
    keys = set(data) if isinstance(data, Mapping) else set()
    return next((kind for required, kind in _KEYS if required <= keys), None)


def kind_of_value(value: Any, trees: AbstractSet[tuple[str, str]]) -> str | None:
    """Say what is stored where there is no tree model; None of an object of unknown class.

    ``trees``: package and class of tree models.
    """
    inside = models_inside(value, lambda stored: _is_tree_model(stored, trees))
    if (found := next(inside, None)) is not None:
        place, model = found
        return (
            f"{_called(value)} with a {model.name} in it: save that alone, "
            f'skops.io.dump(x{place}, "model.skops") where x is the whole, and audit model.skops'
        )
    if isinstance(value, StoredObject):
        return _first(_CLASSES, value.type)
    return f"{_called(value)} without a tree model in it: {HOW_TO_SAVE}"


def _called(value: Any) -> str:
    if isinstance(value, StoredObject):
        return f"a {value.name}"
    name = "a set" if isinstance(value, (set, frozenset)) else f"a {type(value).__name__}"
    return _PLAIN.get(type(value), name)


def _first(table: Sequence[tuple[str, str]], text: str) -> str | None:
    return next((kind for form, kind in table if re.match(form, text)), None)


def _is_tree_model(stored: StoredObject, trees: AbstractSet[tuple[str, str]]) -> bool:
    package = stored.type.partition(".")[0]
    # scikit-learn's fitted attributes end in "_"; what was to be fitted has none.
    fitted = package != "sklearn" or any(re.fullmatch(r"[a-z].*_", name) for name in stored.state)
    return fitted and (package, stored.name) in trees
