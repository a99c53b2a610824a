"""What can go wrong, as users meet it: errors and warnings."""

from treeleak.core.errors import (
    BadInput,
    BadModel,
    BadSchema,
    Mismatch,
    NotCovered,
    PrivacyWarning,
    TimeUp,
    TreeleakError,
    cause,
)

__all__ = [
    "BadInput",
    "BadModel",
    "BadSchema",
    "Mismatch",
    "NotCovered",
    "PrivacyWarning",
    "TimeUp",
    "TreeleakError",
    "cause",
]
