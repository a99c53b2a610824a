"""DRAFT's three tables, on which DRAFT-DP's experiments run, too."""

from __future__ import annotations

from treeleak.datasets import load_draft

__all__ = ["NAMES", "NEEDS", "have_tables"]

NAMES = {"compas": "COMPAS", "adult": "Adult", "default_credit": "Default credit"}
"""As figures call them."""
NEEDS = "DRAFT's tables: downloaded, or in the folder that TREELEAK_DATA names"


def have_tables() -> None:
    """Raise BadInput if one of them is neither there nor to be had."""
    for name in NAMES:
        load_draft(name)
