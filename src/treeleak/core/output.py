"""The one way in which files are written, all of it or nothing; and how texts are read."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from treeleak.core.errors import BadInput, BadModel, cause
from treeleak.core.signals import unfinished


def write_file(
    path: str | os.PathLike[str],
    content: str | bytes,
    *,
    private: bool = False,
    overwrite: bool = True,
) -> None:
    """Write a file that has its name only once it is whole.

    What stood there before stays until then: a full disk, an interruption or a signal leaves the
    old file, and no part of the new one. A link is replaced, not followed. Text is written as
    UTF-8.

    ``private``: let nobody else read it, not for a moment. ``overwrite``: take the place of a file
    that is there.

    Raises
    ------
    BadInput
        Naming the file, and why it was not written.
    """
    target = Path(path)
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        # Refuse to put a file in the place of a device, a pipe or a folder.
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(target.stat().st_mode):
                raise BadInput(
                    f"{target}: is not an ordinary file, so treeleak cannot replace it: "
                    "name another"
                )
        with unfinished(target.with_name(f".treeleak-{os.urandom(8).hex()}.part")) as draft:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            with open(os.open(draft, flags, _mode(target, private)), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if overwrite:
                draft.replace(target)
            else:
                # Give a draft its name unless that was taken in the meantime.
                try:
                    # Unlike a rename, a link cannot take a name that is taken.
                    os.link(draft, target)
                except FileExistsError:
                    raise
                except OSError:
                    # Some file systems know no links.
                    if os.path.lexists(target):
                        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
                    draft.replace(target)
    except OSError as error:
        raise BadInput(f"{target}: {cause(error)}") from error
    # Make the new name last through a power cut; what stands on the disk is whole either way.
    with suppress(OSError):
        descriptor = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _mode(path: Path, private: bool) -> int:
    """Find who may read a file: never more people than may read the one that it replaces."""
    mode = 0o600 if private else 0o666
    with suppress(OSError):
        found = path.lstat().st_mode
        mode &= 0o777 if stat.S_ISLNK(found) else found
    return mode


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
