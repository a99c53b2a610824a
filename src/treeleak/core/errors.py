"""Errors that treeleak raises on purpose, each with the command line's exit status; warnings."""

from __future__ import annotations

import errno

from treeleak.core.message import Message
from treeleak.core.text import plain


class TreeleakError(Exception):
    """Base of every error that treeleak raises on purpose: what it quotes of a file is plain."""

    exit_code = 2

    def __init__(self, *texts: object) -> None:
        super().__init__(*map(_shown, texts))


def _shown(text: object) -> object:
    return plain(text) if isinstance(text, str) and not isinstance(text, Message) else text


class BadInput(TreeleakError, ValueError):
    """What was given cannot be used: the message names the file, the column or the tree."""


class BadModel(BadInput):
    """A model file that is not a model, is damaged, or contradicts itself."""


class BadSchema(BadInput):
    """A schema that contradicts itself or the model."""


class Mismatch(BadInput):
    """The rows given as training data are not the rows that the model counted."""


class NotCovered(TreeleakError):
    """A model, or a part of the audit, that treeleak does not assess; the message says why."""


class TimeUp(NotCovered):
    """The time limit was reached before there was anything to say."""

    exit_code = 3


class PrivacyWarning(UserWarning):
    """A model promises less privacy than it may seem to."""


_WHAT_NEXT = {
    errno.ENOENT: "check the name, and the folder that it starts from",
    errno.EISDIR: "name a file in it",
    errno.ENOTDIR: "a part of the name that should be a folder is a file",
    errno.EACCES: "ask its owner, or choose another place",
    errno.EPERM: "ask its owner, or choose another place",
    errno.EROFS: "choose another place",
    errno.ENOSPC: "make room, or choose another place",
    errno.EDQUOT: "make room, or choose another place",
    errno.EEXIST: "choose another name",
}


def cause(error: Exception) -> str:
    """Say why a file could not be read or written, and what to do about it."""
    if isinstance(error, UnicodeDecodeError):
        return "not text in UTF-8: if it is a text file, save it again with this encoding"
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    step = _WHAT_NEXT.get(error.errno or 0)
    return error.strerror if step is None else f"{error.strerror}: {step}"
