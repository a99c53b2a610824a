"""What a row can be: attributes and their domains, rules between them, and the schema file."""

from treeleak.schema.attributes import (
    MOST_BYTES,
    AtMost,
    Attribute,
    Binary,
    Categorical,
    Implies,
    Joint,
    Linear,
    Numeric,
    OneHot,
    Ordinal,
    Rule,
    Schema,
)

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
