"""``treeleak export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treeleak.cli import options as opt
from treeleak.cli.application import app
from treeleak.cli.files import check_free


@app.command()
def export(
    model: opt.Model,
    out: Annotated[Path, typer.Argument(metavar="RELEASE.JSON", help="Where to write it.")],
    trust_pickle: opt.TrustPickle = False,
    force: opt.Force = False,
) -> None:
    """Write trees and counts to a file that needs no library to read."""
    from treeleak.release import to_release
    from treeleak.release.readers.release_file import write_release

    check_free(out, force, model)
    release = to_release(model, trust_pickle)
    write_release(release, out, overwrite=force)
