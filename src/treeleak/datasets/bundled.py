"""The tables that travel with the package; ``data/LICENCES.md`` says whose they are.

``tools/build_datasets.py`` made the files, from the raw tables as published.
"""

from __future__ import annotations

from importlib import resources

import pandas as pd

from treeleak.datasets.dataset import Dataset
from treeleak.datasets.recipes import ADULT, COMPAS, GERMAN_CREDIT, Recipe


def load_compas() -> Dataset:
    """Load ProPublica's COMPAS table: 7,214 rows, 14 binary columns.

    Returns
    -------
    Dataset
        The label says whether a person was charged again within two years. ``raw`` holds seven
        modelling columns, in shuffled order; nothing that names a person or a case.
    """
    return _load(COMPAS)


def load_adult() -> Dataset:
    """Load UCI Adult: 48,842 rows (the published parts joined), 19 binary columns.

    Returns
    -------
    Dataset
        The label says whether the income exceeds 50,000 dollars. ``raw`` holds all 14
        attributes; ``?`` marks an unknown value, as in the published file.
    """
    return _load(ADULT)


def load_german_credit() -> Dataset:
    """Load UCI German credit: 1,000 rows, 23 binary columns.

    Returns
    -------
    Dataset
        The label is 1 for a bad risk. ``raw`` holds all 20 attributes, in UCI's codes.
    """
    return _load(GERMAN_CREDIT)


def _load(recipe: Recipe) -> Dataset:
    file = resources.files(__package__).joinpath("data", f"{recipe.name}.csv.xz")
    with file.open("rb") as stream:
        raw = pd.read_csv(stream, compression="xz", keep_default_na=False)
    y = raw.pop(recipe.label)
    X = recipe.binarise(raw)
    return Dataset(recipe.name, X, y, recipe.schema, recipe.source, recipe.licence, raw)
