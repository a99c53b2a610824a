"""SACRO-ML's target folder: a model, the rows it was trained on, and others, with a description.

Nothing of a folder is run. A model or an array in a pickle is opened only on request, and then as
plain data; what the folder calls a dataset module is code, and is left alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.core.errors import BadInput, BadModel, cause
from treeleak.core.output import read_text
from treeleak.core.private import dataclass
from treeleak.release import Release
from treeleak.release.infer_schema import infer_schema
from treeleak.release.readers.npy import parse_npy
from treeleak.release.readers.pickled import read_pickled_values
from treeleak.release.unsupported_formats import kind_of_folder
from treeleak.schema import Attribute, Binary, OneHot, Schema

if TYPE_CHECKING:
    from yaml import Node

DESCRIPTION = "target.yaml"
MOST_BYTES = 1 << 20
MOST_FEATURES = 100_000
ARRAYS = ("X_train", "y_train", "X_test", "y_test")
MODELS = ("SklearnModel",)


@dataclass(frozen=True)
class Feature:
    """One feature as the folder describes it: which columns hold it, and how it is encoded."""

    name: str
    indices: tuple[int, ...]
    encoding: str

    @property
    def one_hot(self) -> bool:
        """Whether its columns are a one-hot group."""
        return self.encoding.lower().replace("-", "").startswith("onehot") and len(self.indices) > 1


@dataclass(frozen=True, eq=False)
class Target:
    """What a target folder holds.

    Attributes
    ----------
    description : Path
        The file ``target.yaml``.
    model : Path
    X_train, X_test : array, shape (n_rows, n_columns), or None
    y_train, y_test : array, shape (n_rows,), or None
    features : tuple of Feature
    about : mapping
        What the folder says of model and data: ``model_name``, ``model_params``, ``train_params``
        and ``dataset_name``.
    notes : tuple of str
        What was left aside, and why.
    """

    description: Path
    model: Path
    X_train: NDArray[Any] | None = None
    y_train: NDArray[Any] | None = None
    X_test: NDArray[Any] | None = None
    y_test: NDArray[Any] | None = None
    features: tuple[Feature, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """The description and the model."""
        return self.description, self.model

    def schema_for(self, release: Release) -> tuple[Schema | None, tuple[str, ...]]:
        """Infer a schema, with the one-hot groups that the folder describes.

        Returns
        -------
        Schema or None
            None where the folder describes no group: the audit then infers one itself.
        notes : tuple of str
            Groups that were left out, and why; and what other columns are taken for.
        """
        if not any(f.one_hot for f in self.features):
            return None, ()
        inferred = infer_schema(release)
        # A column that no tree tests may be anything.
        binary = {a.name for a in inferred.attributes if isinstance(a, Binary)}
        binary |= {a.name for a in inferred.attributes if a.name not in release.tested}
        groups: list[OneHot] = []
        notes = []
        names = dict.fromkeys(release.feature_names)
        for feature in (f for f in self.features if f.one_hot):
            columns, why = self._group(feature, release.feature_names, binary)
            if why:
                notes.append(f"one-hot group {feature.name!r} of {DESCRIPTION}: {why}; left out")
                continue
            binary -= set(columns)
            name = feature.name
            while name in names:
                name += " (group)"
            names[name] = None
            groups.append(OneHot(name, columns, at_most_one=self._some_without(feature)))
        if not groups:
            return None, tuple(notes)
        # Put groups in the place of their columns.
        of = {column: group for group in groups for column in group.columns}
        attributes: dict[str, Attribute] = {}
        for attribute in inferred.attributes:
            new = of.get(attribute.name, attribute)
            attributes.setdefault(new.name, new)
        return Schema(attributes.values(), inferred.rules), (*notes, OTHER_COLUMNS)

    def _group(
        self, feature: Feature, names: tuple[str, ...], binary: set[str]
    ) -> tuple[tuple[str, ...], str]:
        """Name the columns of a group, or say why it is none."""
        if max(feature.indices) >= len(names):
            return (), f"it names column {max(feature.indices)}, the model has {len(names)}"
        columns = tuple(names[i] for i in feature.indices)
        if not set(columns) <= binary:
            return (
                (),
                "trees split its columns elsewhere than at 0 and 1, or another group shares one",
            )
        for X in (self.X_train, self.X_test):
            if X is None or X.shape[1] != len(names):
                continue
            if not np.isin(X[:, list(feature.indices)], (0, 1)).all():
                return (), "rows have other values than 0 and 1 in it"
            if (_ones(X, feature) > 1).any():
                return (), "rows have several 1 in it"
        return columns, ""

    def _some_without(self, feature: Feature) -> bool:
        """Whether some row has no 1 in a group: one category was left out of its columns."""
        arrays = (X for X in (self.X_train, self.X_test) if X is not None)
        return any(bool((_ones(X, feature) == 0).any()) for X in arrays)


def is_target(path: Path) -> bool:
    """Whether a path is a target folder, or the description in one."""
    return path.name == DESCRIPTION or (path / DESCRIPTION).is_file()


def read_target(path: str | os.PathLike[str], trust_pickle: bool = False) -> Target:
    """Read a target folder.

    Parameters
    ----------
    path : str or path-like
        The folder, or the file ``target.yaml`` in it.
    trust_pickle : bool
        Also open pickle files: those of arrays; the model itself is not opened here.

    Raises
    ------
    BadInput
        Naming the file and what is wrong with it.
    """
    place = Path(path)
    description = place / DESCRIPTION if place.is_dir() else place
    if place.is_dir() and not description.is_file():
        raise BadInput(
            f"{place}: this is {kind_of_folder(place)} (one of SACRO-ML has {DESCRIPTION})"
        )
    text = read_text(description, MOST_BYTES, BadInput)
    try:
        document = parse_yaml(text)
        if not isinstance(document, dict):
            raise BadInput("holds no mapping")
        return _target(description, document, trust_pickle)
    except BadModel as error:
        raise BadModel(_named(description, error)) from error
    except BadInput as error:
        raise BadInput(_named(description, error)) from error


def _named(description: Path, error: BadInput) -> str:
    """Name the file that an error is about: one of the folder, or else its description."""
    has_path = str(error).startswith(f"{description.parent}{os.sep}")
    return str(error) if has_path else f"{description}: {error}"


def _target(description: Path, document: Mapping[Any, Any], trust_pickle: bool) -> Target:
    kind = document.get("model_type", MODELS[0])
    if kind not in MODELS:
        raise BadInput(f"model_type {kind!r:.80}: treeleak audits scikit-learn's tree models")
    model = _inside(description, "model_path", document.get("model_path"))
    if model is None:
        raise BadInput("model_path: names no file, and there is nothing to audit")
    notes = []
    arrays: dict[str, NDArray[Any]] = {}
    for name in ARRAYS:
        if (
            place := _inside(description, f"{name}_path", document.get(f"{name}_path"))
        ) is not None:
            arrays[name] = _array(place, name, trust_pickle)
    if document.get("dataset_module_path") and "X_train" not in arrays:
        notes.append(
            f"the rows come from a module ({document['dataset_module_path']!r:.80}), which is code "
            "and was not run: save them as arrays to have the rebuilt rows compared with them"
        )
    for part in ("train", "test"):
        X = arrays.get(f"X_{part}")
        y = arrays.get(f"y_{part}")
        if y is not None and X is None:
            raise BadInput(f"y_{part}_path: labels without rows (X_{part}_path)")
        if X is not None and y is not None and len(X) != len(y):
            raise BadInput(f"X_{part} has {len(X):,} rows, y_{part} {len(y):,}: they must be equal")
    about = {
        key: document[key]
        for key in ("model_name", "model_params", "train_params", "dataset_name")
        if isinstance(document.get(key), (str, dict))
    }
    features = _features(document.get("features"))
    return Target(description, model, features=features, about=about, notes=tuple(notes), **arrays)


def _inside(description: Path, key: str, name: Any) -> Path | None:
    """Find a file that the description names, which must lie in its folder."""
    if name in (None, ""):
        return None
    if not isinstance(name, str):
        raise BadInput(f"{key}: must be the name of a file, not {name!r:.80}")
    folder = description.parent.resolve()
    pure = PureWindowsPath(name)
    outside = pure.drive or pure.root or PurePosixPath(name).is_absolute() or ".." in pure.parts
    try:
        place = (folder / name).resolve()
        if outside or not place.is_relative_to(folder):
            raise BadInput(f"{key}: {name!r:.80} lies outside the folder: not read")
        if not place.is_file():
            raise BadInput(f"{key}: there is no file {name!r:.80} in the folder")
    except (OSError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{key}: {name!r:.80}: {cause(error)}") from error
    return description.parent / name


def _array(path: Path, name: str, trust_pickle: bool) -> NDArray[Any]:
    """Read an array as SACRO-ML writes it (pickle), or reads it (CSV), or as numpy does (npy)."""
    suffix = path.suffix.lower()
    try:
        if suffix == ".npy":
            values: Any = parse_npy(path.read_bytes(), name)
        elif suffix == ".csv":
            values = pd.read_csv(path, header=None).to_numpy()
        elif suffix == ".pkl":
            values = read_pickled_values(path, trust_pickle)
        else:
            raise BadInput("no array: .pkl, .npy and .csv files are read")
    except BadModel as error:
        raise BadModel(f"{path}: {error}") from error
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: {cause(error)}") from error
    if isinstance(values, list):
        values = np.array(values, dtype=object)
    if not isinstance(values, np.ndarray):
        raise BadInput(f"{path}: holds no array: save numpy arrays (X.to_numpy())")
    if name.startswith("y"):
        if values.size != len(values):
            raise BadInput(f"{path}: labels of the shape {values.shape}: there must be one per row")
        return values.reshape(-1)
    if values.ndim != 2:
        raise BadInput(
            f"{path}: an array of the shape {values.shape}: it must have rows and columns"
        )
    return _as_numbers(values)


def _as_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Make numbers of an array of objects, where they all are; texts stay as they are."""
    if values.dtype != object:
        return values
    try:
        return values.astype(float)
    except (TypeError, ValueError):
        return values


def _features(features: Any) -> tuple[Feature, ...]:
    if features in (None, {}, []):
        return ()
    if not isinstance(features, dict) or len(features) > MOST_FEATURES:
        raise BadInput("features: must be a mapping of numbers to features")
    found = []
    for key, feature in features.items():
        where = f"features, {key!r:.80}"
        if not isinstance(feature, dict):
            raise BadInput(f"{where}: must have name, indices and encoding")
        indices = feature.get("indices")
        if not isinstance(indices, list) or len(indices) > MOST_FEATURES or not indices:
            raise BadInput(f"{where}: indices must be a list of numbers of columns")
        if any(type(i) is not int or i < 0 for i in indices) or len({*indices}) < len(indices):
            raise BadInput(f"{where}: indices must be different whole numbers from 0 on")
        name, encoding = str(feature.get("name")), str(feature.get("encoding", ""))
        found.append(Feature(name, tuple(indices), encoding))
    return tuple(found)


def _ones(X: NDArray[Any], feature: Feature) -> NDArray[Any]:
    """How many columns of a group are not 0, in each row."""
    if max(feature.indices) >= X.shape[1]:
        return np.zeros(len(X), dtype=int)
    return np.asarray((X[:, list(feature.indices)] != 0).sum(axis=1))


MOST_VALUES = 1_000_000
"""Repeated ones counted as often as they stand."""

OTHER_COLUMNS = "other columns are taken for what the thresholds suggest: for more, give --schema"
OPAQUE: Any = type("Opaque", (), {"__repr__": lambda _: "OPAQUE"})()
"""Stands for a value of a type that only code could make."""

_NEEDED = "target folders are read with PyYAML: python -m pip install 'treeleak[sacro]'"
_PLAIN = ("null", "bool", "int", "float", "str", "seq", "map")


def parse_yaml(text: str) -> Any:
    """Read a document. What a tag names beside plain values is :data:`OPAQUE`.

    Raises
    ------
    BadInput
        If this is no YAML, holds too much, or PyYAML is missing.
    """
    try:
        import yaml
    except ImportError as error:
        raise BadInput(_NEEDED) from error

    class Loader(yaml.SafeLoader):
        def __init__(self, stream: str) -> None:
            super().__init__(stream)
            self.sizes: dict[int, int] = {}

        def compose_node(self, parent: Node | None, index: int) -> Node | None:
            repeated = self.check_event(yaml.AliasEvent)
            node = super().compose_node(parent, index)
            if repeated and id(node) not in self.sizes:
                raise BadInput("a value that holds itself")
            if node is not None and not repeated:
                self.sizes[id(node)] = 1 + sum(self.sizes[id(n)] for n in _held(node))
                if self.sizes[id(node)] > MOST_VALUES:
                    raise BadInput(f"more than {MOST_VALUES:,} values")
            return node

    plain = {f"tag:yaml.org,2002:{name}" for name in _PLAIN}
    Loader.yaml_constructors = {
        tag: make for tag, make in yaml.SafeLoader.yaml_constructors.items() if tag in plain
    } | {None: lambda _loader, _node: OPAQUE}
    try:
        return Loader(text).get_single_data()
    except (yaml.YAMLError, ValueError) as error:
        raise BadInput(" ".join(str(error).split())) from error
    except RecursionError as error:
        raise BadInput("too many levels") from error


def _held(node: Node) -> list[Node]:
    """Values in a value, keys included."""
    if not isinstance(node.value, list):
        return []
    return [n for held in node.value for n in (held if isinstance(held, tuple) else (held,))]
