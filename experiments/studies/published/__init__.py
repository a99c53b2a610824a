"""Published figures: small tables of the means printed in the papers."""

from __future__ import annotations

from importlib.resources import files

import pandas as pd

__all__ = ["read_published"]


def read_published(name: str) -> pd.DataFrame:
    """Read one of the tables; "None" is a depth, an empty cell is missing."""
    with files(__name__).joinpath(f"{name}.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file, keep_default_na=False, na_values=[""])
