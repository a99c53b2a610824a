"""What objects of known libraries can hold: their parameters, and the attributes they set.

The table beside this module was made from the sources of scikit-learn 1.3 to 1.9, of diffprivlib
and of treeleak itself (tools/list_known_classes.py). So no name that a file gives is ever imported,
and a file of any of these versions is known, whichever is installed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources

from treeleak.auditing.inventory.known_files import FILES
from treeleak.core.private import dataclass

LIBRARIES = ("sklearn", "diffprivlib", "treeleak")

_EVERY = (
    "feature_names_in_ n_features_in_ n_features_ _n_features_out _sklearn_version "
    "_sklearn_output_config _metadata_request _validate_params feature_importances_"
)
# Classes that are compiled, or made by others than their methods: what they store.
_BESIDE: Mapping[str, str] = {
    "Tree": "args max_depth node_count nodes values n_features n_classes n_outputs max_n_classes",
    "TreePredictor": "args",
    "_RemainderColsList": "data",
    "Bunch": "*",
    "MetadataRequest": "*",
    "MethodMetadataRequest": "*",
}
_LOSS = re.compile(r"Cy[A-Z]\w*")
# Objects of other libraries that only hold values for those that know them.
_HOLDERS: Mapping[str, str] = {
    "functools.partial": "func args kwds namespace state",
    "builtins.slice": "args",
    "scipy.interpolate._bsplines.BSpline": "t c _t _c k extrapolate axis _asarray",
    "numpy.dtype": "args",
    "numpy.dtypes.*": "args",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.<>]{0,99}")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,39}")


@dataclass(frozen=True)
class KnownClass:
    """What a class can hold."""

    parameters: frozenset[str]
    """Arguments of its constructor."""
    attributes: frozenset[str]
    """What else its methods set."""

    def holds(self, name: str) -> bool:
        """Say whether objects of the class have something of this name."""
        return bool({name, "*"} & (self.parameters | self.attributes))


@cache
def known_class(type_name: str) -> KnownClass | None:
    """Find a class by its full name; None where it is not known.

    Where a library keeps a class changes between versions, so only library and name count.
    """
    if type_name in FILES:
        settings, others = FILES[type_name]
        return KnownClass(frozenset(settings.split()), frozenset(others.split()))
    module, _, name = type_name.rpartition(".")
    for holder in (type_name, f"{module}.*"):
        if holder in _HOLDERS:
            return KnownClass(frozenset(_HOLDERS[holder].split()), frozenset())
    library = next((prefix for prefix in LIBRARIES if f"{module}.".startswith(f"{prefix}.")), None)
    if library is None or not is_name(type_name):
        return None
    # What diffprivlib has from scikit-learn stands in the table of scikit-learn.
    found = [_table().get((prefix, name)) for prefix in (library, "sklearn")]
    beside = _BESIDE.get(name, "args" if _LOSS.fullmatch(name) else None)
    if not any(found) and beside is None:
        return None
    parameters = {p for known in found if known for p in known[0].split()}
    attributes = {a for known in found if known for a in known[1].split()}
    attributes |= {*_EVERY.split(), *(beside or "").split()}
    return KnownClass(frozenset(parameters), frozenset(attributes))


def class_names() -> frozenset[tuple[str, str]]:
    """List the classes of the table: library and name."""
    return frozenset(_table())


def is_name(text: str) -> bool:
    """Say whether a text can name a class or a function, module included."""
    return _NAME.fullmatch(text) is not None


def is_plain_name(text: str) -> bool:
    """Say whether a text can be shown as the name of an attribute."""
    return _PLAIN_NAME.fullmatch(text) is not None


@cache
def _table() -> Mapping[tuple[str, str], tuple[str, str]]:
    text = resources.files(__package__).joinpath("known_classes.json").read_text("ascii")
    return {(library, name): (p, a) for library, name, p, a in json.loads(text)}
