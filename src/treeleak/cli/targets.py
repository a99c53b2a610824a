"""Target folders of SACRO-ML as what commands audit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from treeleak.cli.files import say
from treeleak.core.errors import BadInput

if TYPE_CHECKING:
    from treeleak.bridges.sacro_target import Target
    from treeleak.cli.tables import Tables
    from treeleak.schema import Schema


def target_at(model: Path, trust_pickle: bool, **tables: Path | str | None) -> Target | None:
    """Read the target folder that a command was given in the place of a model, if it is one.

    ``tables``: options that a folder leaves no room for, by their names.
    """
    from treeleak.bridges.sacro_target import is_target, read_target

    if not is_target(model):
        return None
    target = read_target(model, trust_pickle)
    for name, given in tables.items():
        if given is not None:
            raise BadInput(f"--{name}: a target folder has its own rows and labels: leave it out")
    return target


def told_by(
    target: Target, tables: Tables, known: Schema | None, quiet: bool
) -> tuple[Any, Any, Any, Schema | None]:
    """Give a folder's training rows, labels, other rows and schema, and say what was left aside."""
    from treeleak.release import Release

    notes = target.notes
    if known is None and isinstance(tables.content, Release):
        known, more = target.schema_for(tables.content)
        notes += more
    for note in () if quiet else notes:
        say(f"treeleak: {target.description}: {note}")
    others = None if target.X_train is None else target.X_test
    return target.X_train, target.y_train, others, known
