"""Where file formats and kinds of models are found: one table each, filled by decorators.

A new format is a function under :func:`reader`, a new kind of model a function under
:func:`adapter`; nothing else changes.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from treeleak.core.arrays import Estimator, Place
from treeleak.core.errors import (
    BadInput,
    BadModel,
    NotCovered,
    TimeUp,
    TreeleakError,
    cause,
)
from treeleak.core.message import MessageTemplate, static_message
from treeleak.core.private import dataclass
from treeleak.release.checked_json import located
from treeleak.release.live import snapshot
from treeleak.release.pipeline.through import steps_of
from treeleak.release.release import Release
from treeleak.release.row_sets import by_row_sets
from treeleak.release.rule_list import RuleList
from treeleak.release.stored import StoredObject, models_inside
from treeleak.release.unsupported_formats import (
    HOW_TO_SAVE,
    kind_of_bytes,
    kind_of_value,
)


def state_of(path: Path) -> tuple[tuple[int, ...], ...]:
    """Take place, size and time of a file, or of all files in a folder: cheap to take twice."""
    states = (file.lstat() for _, file in _files(path))
    return tuple((s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns) for s in states)


def sha256_of(path: Path) -> str:
    """Hash a file; of a folder, the names and hashes of its files. Links are not followed."""
    if not path.is_dir():
        with path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    whole = hashlib.sha256()
    for name, file in _files(path):
        regular = file.is_file() and not file.is_symlink()
        whole.update(
            f"{name}\0{sha256_of(file) if regular else ''}\n".encode("utf-8", "surrogateescape")
        )
    return whole.hexdigest()


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    if not path.is_dir():
        yield "", path
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            file = Path(folder, name)
            yield file.relative_to(path).as_posix(), file


Adapter = Callable[[StoredObject], Release]
Reader = Callable[[Path, bool], StoredObject | Release | RuleList]
ReaderOfFiles = Callable[[Mapping[str, Path]], StoredObject]
AnyAdapter = TypeVar("AnyAdapter", bound=Adapter)
AnyReader = TypeVar("AnyReader", bound=Reader)


@dataclass(frozen=True, eq=False)
class ModelFile:
    """A model file, a folder or an archive that was read, so that nobody has to read it again."""

    file: str
    sha256: str
    content: StoredObject | Release | RuleList

    @classmethod
    def read(cls, path: Place, trust_pickle: bool = False) -> ModelFile:
        """Read a file and take its hash; raises BadModel, also if it changed between the two."""
        place = Path(path)
        with located(f"{place}: "):
            try:
                before = state_of(place)
                content = read_model(place, trust_pickle)
                digest = sha256_of(place)
                if state_of(place) != before:
                    raise BadModel("changed while it was read: try again")
            except OSError as error:
                raise BadModel(cause(error)) from error
        return cls(os.fspath(path), digest, content)


Model = Estimator | Place | ModelFile | StoredObject | Release | RuleList
"""What may be audited: a fitted estimator, the path of a file, or what was read of one."""

HEAD_BYTES = 4096
_OLDEST, _NEWEST = (1, 1), (1, 9)
"""Versions of scikit-learn whose own files were read in tests."""
NO_TREES = MessageTemplate(
    "no_known_trees", "{what:foreign} is not a tree model that treeleak knows{kind:message}"
)
WHAT_IT_IS = MessageTemplate("what_it_is", "; it is {kind:foreign}")
INSIDE_OTHER = MessageTemplate(
    "model_inside_other", "The model is the {name} at {place:foreign} of what the file holds"
)
NOT_PLACED = static_message("What was given holds more than the model.", "model_not_placed")
MOST_CANDIDATES = 1000
_LIBRARIES = (
    "sklearn", "xgboost", "lightgbm", "catboost", "imblearn", "diffprivlib", "treeleak", "numpy",
)  # fmt: skip
"""Packages of whose classes an adapter says what they hold; what holds others, is taken apart."""
NO_KNOWN_TREES = static_message("this is not a tree model that treeleak knows", "no_known_trees")


@dataclass(frozen=True)
class _Format:
    name: str
    recognise: Callable[[bytes], bool]
    read: Reader


@dataclass(frozen=True)
class FileFormat:
    """What users are told of a file format (``treeleak formats``)."""

    name: str
    """That of its reader and, if it can be hardened, in :mod:`treeleak.hardening.formats`."""
    endings: str
    """Of its files' names."""
    discloses: str
    """What a file holds of the training rows, as its library writes it by default."""
    needs: str = ""
    """What is needed to read it: an extra of the package, or an option."""


_ADAPTERS: dict[tuple[str, str], Adapter] = {}
_DESCRIBED: list[FileFormat] = []
_FORMATS: list[_Format] = []
_FOLDERS: list[Reader] = []
_OF_FILES: dict[str, tuple[re.Pattern[str], ReaderOfFiles]] = {}


def no_model(value: Any) -> BadModel:
    """Make the error that says what a file holds in place of a model."""
    return BadModel(f"this is {kind_of_value(value, _ADAPTERS.keys())}")


def known_classes() -> frozenset[str]:
    """Names of the classes that some adapter knows."""
    return frozenset(name for _, name in _ADAPTERS)


def has_adapter(stored: StoredObject) -> bool:
    """Say whether some adapter knows the class of an object."""
    return (stored.type.partition(".")[0], stored.name) in _ADAPTERS


def describe_format(name: str, endings: str, discloses: str, needs: str = "") -> None:
    """Say of a file format what ``treeleak formats`` lists, in the words of :class:`FileFormat`."""
    _DESCRIBED.append(FileFormat(name, endings, discloses, needs))


def formats_read() -> tuple[FileFormat, ...]:
    """List the file formats that are read; of one that nothing was said of, its name."""
    described = {known.name for known in _DESCRIBED}
    others = [f.name for f in _FORMATS if f.name not in described]
    # A model of several files goes by the one that each has.
    others += [mark for mark in _OF_FILES if not any(mark in f.endings for f in _DESCRIBED)]
    found = (*_DESCRIBED, *(FileFormat(name, "", "") for name in others))
    return tuple(sorted(found, key=lambda known: known.name.casefold()))


def format_name(head: bytes) -> str:
    """Name the first format that takes a file for one of its own, by its first bytes; or none."""
    return next((known.name for known in _FORMATS if known.recognise(head)), "")


def kinds_read() -> dict[str, tuple[str, ...]]:
    """List the classes of models that are read, by their package."""
    kinds: dict[str, tuple[str, ...]] = {}
    for package, name in sorted(_ADAPTERS):
        kinds[package] = (*kinds.get(package, ()), name)
    return kinds


def adapter(package: str, *classes: str) -> Callable[[AnyAdapter], AnyAdapter]:
    """Register the function that turns stored objects of some classes into a release.

    Parameters
    ----------
    package : str
        First part of the classes' full names, for example ``"sklearn"``.
    *classes : str
        Names without module: where a library keeps a class changes between versions.
    """

    def register(function: AnyAdapter) -> AnyAdapter:
        _ADAPTERS.update({(package, name): function for name in classes})
        return function

    return register


def reader(
    name: str, recognise: Callable[[bytes], bool], first: bool = False
) -> Callable[[AnyReader], AnyReader]:
    """Register the function that reads a file format; errors need not name the file.

    Parameters
    ----------
    name : str
        The format, as an error message should call it.
    recognise : callable
        Gets the first 4096 bytes of a file; the first format that says yes reads it.
    first : bool
        Ask this format before all others. Its function may return NotImplemented: then the next
        format that says yes reads the file.
    """

    def register(function: AnyReader) -> AnyReader:
        _FORMATS.insert(0 if first else len(_FORMATS), _Format(name, recognise, function))
        return function

    return register


def reads_folders(function: AnyReader) -> AnyReader:
    """Register the function that reads a folder."""
    _FOLDERS[:] = [function]
    return function


def reader_of_files(mark: str, members: str) -> Callable[[ReaderOfFiles], ReaderOfFiles]:
    """Register the function that reads a model of several files in one folder.

    Parameters
    ----------
    mark : str
        Name of a file that each such model has.
    members : str
        Pattern of the names of all its files. In the folder, they may begin with a common prefix,
        without which the function gets them.
    """

    def register(function: ReaderOfFiles) -> ReaderOfFiles:
        _OF_FILES[mark] = (re.compile(members), function)
        return function

    return register


def models_of_files(files: Mapping[str, Path]) -> Iterator[tuple[str, StoredObject, set[str]]]:
    """Read the models in a folder that are several files each.

    ``files``: all files, by their paths in it. Returns for each model what the paths of its files
    begin with, the model, and these paths.
    """
    for mark, (members, read) in _OF_FILES.items():
        for start in (name.removesuffix(mark) for name in files if name.endswith(mark)):
            found = {
                name.removeprefix(start): path
                for name, path in files.items()
                if name.startswith(start) and members.fullmatch(name.removeprefix(start))
            }
            with located(start):
                yield start, read(found), {start + name for name in found}


def read_model(
    path: str | os.PathLike[str], trust_pickle: bool = False
) -> StoredObject | Release | RuleList:
    """Read a model file, a folder or an archive as data; nothing of it is run.

    Parameters
    ----------
    path : str or path-like
    trust_pickle : bool
        Also open pickle and joblib files.

    Returns
    -------
    StoredObject, Release or RuleList
        A release or rules where the file is one already.

    Raises
    ------
    BadModel
        Naming the file: it is missing, empty, damaged, or no model.
    """
    path = Path(path)
    with located(f"{path}: "):
        try:
            if path.is_dir() and _FOLDERS:
                return _FOLDERS[0](path, trust_pickle)
            with path.open("rb") as file:
                head = file.read(HEAD_BYTES)
            if not head:
                raise BadModel("the file is empty: save the model again")
            if kind := kind_of_bytes(head, sure=True):
                raise BadModel(f"this is {kind}")
            for known in _FORMATS:
                if known.recognise(head):
                    content = known.read(path, trust_pickle)
                    if content is not NotImplemented:
                        return content
        except OSError as error:
            raise BadModel(cause(error)) from error
        unknown = f"not a model file, nor any other that treeleak can name: {HOW_TO_SAVE}"
        raise BadModel(f"this is {kind_of_bytes(head, sure=False) or unknown}")


def with_steps(release: Release, live: Any) -> Release:
    """Let rows be put through the steps of the live pipeline that a release was taken from.

    What only holds a model, a dictionary say, or several pipelines has no steps.
    """
    if release.inputs is None or not hasattr(live, "predict") or next(steps_of(live), None) is None:
        return release
    return replace(release, inputs=replace(release.inputs, live=live))


def to_release(model: Model, trust_pickle: bool = False) -> Release:
    """Turn any form of a model into what an adversary sees of it.

    Parameters
    ----------
    model : Release, StoredObject, path or fitted estimator
    trust_pickle : bool
        Also open pickle and joblib files, should ``model`` be a path.

    Raises
    ------
    BadModel
        If the file or the trees in it are damaged.
    BadInput
        If the estimator is not fitted.
    NotCovered
        If this is no tree model; the message names the class. Rules have no trees: they are for
        :func:`treeleak.uncertainty.from_rule_list`.
    """
    origin = ""
    if isinstance(model, (str, os.PathLike)):
        origin = f"{os.fspath(model)}: "
        model = read_model(model, trust_pickle)
    elif isinstance(model, ModelFile):
        origin = f"{model.file}: "
        model = model.content
    if isinstance(model, Release):
        return model
    if isinstance(model, RuleList):
        raise NotCovered(
            f"{origin}rules, which hold no trees: use treeleak.uncertainty.from_rule_list, "
            "or treeleak audit"
        )
    if not isinstance(model, StoredObject):
        return with_steps(to_release(snapshot(model)), model)
    stored = model
    function = _ADAPTERS.get((stored.type.partition(".")[0], stored.name))
    if function is None and (inner := _read_inside(stored)) is not None:
        return inner
    if function is None:
        plain = stored.get("value") if stored.type.startswith(("builtins.", "numpy.")) else stored
        kind = kind_of_value(plain, _ADAPTERS.keys())
        message = NO_TREES(
            what=f"{origin}{stored.type}", kind=WHAT_IT_IS(kind=kind) if kind else ""
        )
        raise NotCovered(message.with_instead(NO_KNOWN_TREES))
    try:
        release = by_row_sets(function(stored), bool(stored.get("warm_start")))
        return release if release.sources else replace(release, sources=(stored,))
    except TreeleakError as error:
        version = _old_version(stored) if isinstance(error, BadInput) else ""
        if not (origin or version):
            raise
        raise type(error)(f"{origin}{error}{version}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # A damaged file may hold anything anywhere; a check per attribute would drown the rest.
        raise BadModel(
            f"{origin}{stored.name} is stored in an unknown way ({error}){_old_version(stored)}"
        ) from error


def candidates(stored: Any) -> list[tuple[str, StoredObject]]:
    """List the models in what is put around them, the first to be tried first."""
    found = list(islice(models_inside(stored, has_adapter), MOST_CANDIDATES))
    starts = [f"[{name!r:.80}]" for name in getattr(stored, "models", ())]
    return sorted(
        found,
        key=lambda item: next((k for k, s in enumerate(starts) if item[0].startswith(s)), -1),
    )


def _read_inside(stored: StoredObject) -> Release | None:
    """Read the first model in what is put around it that can be read; None where there is none.

    Raises the error of the first, where none can be.
    """
    if stored.type.partition(".")[0] in _LIBRARIES and not hasattr(stored, "models"):
        return None
    first: TreeleakError | None = None
    for place, inner in candidates(stored):
        try:
            release = to_release(inner)
        except TimeUp:
            raise
        except TreeleakError as error:
            if type(error) is BadInput:
                continue  # Never fitted: no model to audit.
            first = first or type(error)(f"{INSIDE_OTHER(place=place, name=inner.name)}: {error}")
            continue
        note = INSIDE_OTHER(place=place, name=inner.name)
        return replace(release, notes=(note.with_instead(NOT_PLACED), *release.notes))
    if first is not None:
        raise first
    return None


def _old_version(stored: StoredObject) -> str:
    """Name the version of scikit-learn that wrote what cannot be read, and what to do."""
    text = str(stored.get("_sklearn_version", ""))
    version = re.match(r"(\d+)\.(\d+)", text)
    tried = version and _OLDEST <= (int(version[1]), int(version[2])) <= _NEWEST
    if version is None or tried or not stored.type.startswith("sklearn."):
        return ""
    oldest, newest = (".".join(map(str, ends)) for ends in (_OLDEST, _NEWEST))
    return (
        f"; scikit-learn {text} wrote the file, and treeleak was tried on those of {oldest} to "
        f"{newest}: fit the model again with one of these, or write its trees as "
        "docs/release-format.md says"
    )
