"""YAML as data, with PyYAML: plain values, mappings and lists, whatever a file asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treeleak.core.errors import BadInput

if TYPE_CHECKING:
    from yaml import Node

MOST_VALUES = 1_000_000
"""Repeated ones counted as often as they stand."""

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
