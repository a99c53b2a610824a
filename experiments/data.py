"""The papers' tables: what there is, and where it lies."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from experiments.draft_tables import load_draft
from treeleak.core.errors import BadInput

NAMES = {"compas": "COMPAS", "adult": "Adult", "default_credit": "Default credit"}
"""DRAFT's three tables, on which DRAFT-DP's experiments run, too: as figures call them."""
DATASETS = tuple(NAMES)

_BESIDE = Path(__file__).parents[2] / "shared"
_FOLDERS = {"TREELEAK_DATA": "data", "TREELEAK_PUBLISHED": "published"}

draft = cache(load_draft)
"""One of DRAFT's tables, read once."""


def use_folders_beside() -> None:
    """Find tables and published runs beside the project, unless other folders are named."""
    for variable, name in _FOLDERS.items():
        folder = _BESIDE / name
        if not os.environ.get(variable) and folder.is_dir():
            os.environ[variable] = str(folder)


def have_tables() -> None:
    """Raise BadInput if one of DRAFT's tables is neither there nor to be had."""
    for name in DATASETS:
        load_draft(name)


def data_file(name: str, source: str = "") -> Path:
    """Find a file that is not downloaded.

    Parameters
    ----------
    name : str
    source : str
        Where its authors publish it.

    Raises
    ------
    BadInput
        If TREELEAK_DATA names no folder that holds it.
    """
    path = Path(os.environ.get("TREELEAK_DATA", "")) / name
    if not path.is_file():
        told = f"; its authors publish it: {source}" if source else ""
        raise BadInput(
            f"{path}: no such file; TREELEAK_DATA must name the folder that holds it{told}"
        )
    return path
