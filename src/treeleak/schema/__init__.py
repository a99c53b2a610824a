"""What a row can be: attributes and their domains, rules between them, and the schema file."""

from treeleak.schema.attributes import (
    Attribute,
    Binary,
    Categorical,
    Joint,
    Numeric,
    OneHot,
    Ordinal,
)
from treeleak.schema.rules import AtMost, Implies, Linear, Rule
from treeleak.schema.schema import MOST_BYTES, Schema

__all__ = [
    "MOST_BYTES",
    "AtMost",
    "Attribute",
    "Binary",
    "Categorical",
    "Implies",
    "Joint",
    "Linear",
    "Numeric",
    "OneHot",
    "Ordinal",
    "Rule",
    "Schema",
]
