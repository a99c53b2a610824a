"""Errors that treeleak raises on purpose, each with the command line's exit status; warnings."""

from __future__ import annotations

__all__ = [
    "BadInput",
    "BadModel",
    "BadSchema",
    "Mismatch",
    "NotCovered",
    "NotProvedWarning",
    "PrivacyWarning",
    "TreeleakError",
]


class TreeleakError(Exception):
    """Base of every error that treeleak raises on purpose."""

    exit_code = 2


class BadInput(TreeleakError, ValueError):
    """What was given cannot be used: the message names the file, the column or the tree."""


class BadModel(BadInput):
    """A model file that is no model, is damaged, or contradicts itself."""


class BadSchema(BadInput):
    """A schema that contradicts itself or the model."""


class Mismatch(BadInput):
    """The rows given as training data are not the rows that the model counted."""


class NotCovered(TreeleakError):
    """A model, or a part of the audit, that treeleak does not assess; the message says why."""


class PrivacyWarning(UserWarning):
    """A model promises less privacy than it may seem to."""


class NotProvedWarning(UserWarning):
    """The best was asked for, and what was found is not proved to be it."""
