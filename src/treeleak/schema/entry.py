"""Attributes and rules as they stand in a schema file."""

from __future__ import annotations

import math
from typing import Any

from msgspec import UNSET, Struct

from treeleak.core.declared import to_builtins, union_members
from treeleak.formats import schema as declared

_DECLARED: dict[str, type[Struct]] = {
    str(struct.__struct_config__.tag): struct
    for struct in (*union_members(declared.Attribute), *union_members(declared.Rule))
}


def entry_of(item: Any) -> dict[str, Any]:
    """Describe an attribute or a rule, both by its kind; ends that are infinite are left out."""
    kind = _DECLARED[item.kind]
    fields = {name: getattr(item, name) for name in kind.__struct_fields__}
    left_out = (None, -math.inf, math.inf)
    return to_builtins(kind(**{k: UNSET if v in left_out else v for k, v in fields.items()}))
