"""Files of text, in whatever format."""

from __future__ import annotations

import os
from pathlib import Path

from treeleak.core.errors import BadInput, BadModel, cause


def read_text(
    path: str | os.PathLike[str], most_bytes: int, error_type: type[BadInput] = BadModel
) -> str:
    """Read a file of text, if it is not too large.

    Raises BadInput of the type that is asked for, naming the file.
    """
    try:
        if Path(path).stat().st_size > most_bytes:
            raise error_type(f"{path}: larger than {most_bytes >> 20} MiB: not read")
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise error_type(f"{path}: {cause(error)}") from error
