"""Files of text that hold a model, in whatever format."""

from __future__ import annotations

from pathlib import Path

from treeleak.errors import BadModel, cause

__all__ = ["read_text"]


def read_text(path: str | Path, most_bytes: int) -> str:
    """Read a file of text, if it is not too large.

    Raises
    ------
    BadModel
        Naming the file.
    """
    try:
        if Path(path).stat().st_size > most_bytes:
            raise BadModel(f"{path}: larger than {most_bytes >> 20} MiB")
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadModel(f"{path}: {cause(error)}") from error
