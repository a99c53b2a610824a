"""The tables of the papers, DRAFT's sampling of them, and where files lie."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from treeleak.core.errors import BadInput
from treeleak.core.output import write_file
from treeleak.core.private import dataclass
from treeleak.datasets.bundled import ADULT, COMPAS, Dataset
from treeleak.schema import Attribute, Binary, Numeric, OneHot, Ordinal, Schema

DATASETS = ("compas", "adult", "default_credit")
"""DRAFT's three tables, on which DRAFT-DP's experiments run, too."""

_BESIDE = Path(__file__).parents[2] / "shared"
_FOLDERS = {"TREELEAK_DATA": "data", "TREELEAK_PUBLISHED": "published"}

_URL = (
    "https://raw.githubusercontent.com/vidalt/DRAFT/"
    "22e832e3726a9f18bbbeaed108a220ef4db237fb/data/{name}.csv"
)
_SAMPLE = 1500

_EDUCATION = OneHot(
    "EDUCATION",
    (
        *("EDUCATION_Graduate_school", "EDUCATION_High_school"),
        *("EDUCATION_Others", "EDUCATION_University"),
    ),
)
_MARRIAGE = OneHot("MARRIAGE", ("MARRIAGE_Married", "MARRIAGE_Others", "MARRIAGE_Single"))
_DELAYS = [Binary(f"PAY_{month}_Pay_delay>=1") for month in (0, 2, 3, 4, 5, 6)]

# The ranges are those of the published table.
_AMOUNTS = {
    "BILL_AMT1": (-165580, 964511),
    "BILL_AMT2": (-69777, 983931),
    "BILL_AMT3": (-157264, 1664089),
    "BILL_AMT4": (-170000, 891586),
    "BILL_AMT5": (-81334, 927171),
    "BILL_AMT6": (-339603, 961664),
    "PAY_AMT1": (0, 873552),
    "PAY_AMT2": (0, 1684259),
    "PAY_AMT3": (0, 896040),
    "PAY_AMT4": (0, 621000),
    "PAY_AMT5": (0, 426529),
    "PAY_AMT6": (0, 528666),
}
_DEFAULT_CREDIT = Schema(
    [
        _EDUCATION,
        Binary("LIMIT_BAL_high"),
        _MARRIAGE,
        *_DELAYS,
        *(Binary(f"PAY_AMT{month}_high") for month in range(1, 7)),
        Binary("SEX_Female"),
    ]
)
_DEFAULT_CREDIT_NUMERICAL = Schema(
    [
        Numeric("LIMIT_BAL", 10000, 1000000),
        Ordinal("AGE", 21, 79),
        *(Numeric(column, low, high) for column, (low, high) in _AMOUNTS.items()),
        Binary("SEX_Male"),
        _EDUCATION,
        _MARRIAGE,
        *_DELAYS,
    ]
)


def _without_partial_groups(schema: Schema) -> Schema:
    """Take at-most-one groups apart: the papers did not use them."""
    attributes: list[Attribute] = []
    for attribute in schema.attributes:
        if isinstance(attribute, OneHot) and attribute.at_most_one:
            attributes += [Binary(column) for column in attribute.columns]
        else:
            attributes.append(attribute)
    return Schema(attributes)


@dataclass(frozen=True)
class _Published:
    label: str
    schema: Schema
    source: str
    licence: str
    sha256: str


_CREDIT_SOURCE = "Yeh (2009), UCI, https://doi.org/10.24432/C55S3H"
_TABLES = {
    "compas": _Published(
        COMPAS.label,
        COMPAS.schema,
        COMPAS.source,
        COMPAS.licence,
        "88aa496e8b32e549f089f457fd3244e1706860bee5e6162d259090a91b5bee17",
    ),
    "adult": _Published(
        ADULT.label,
        _without_partial_groups(ADULT.schema),
        ADULT.source,
        ADULT.licence,
        "09c54f274f1b4b16c9fa6e6a7ef7b80c65bad852ea6b16381970d81ee3a99b02",
    ),
    "default_credit": _Published(
        "DEFAULT_PAYEMENT",
        _DEFAULT_CREDIT,
        _CREDIT_SOURCE,
        "CC BY 4.0",
        "e1c6fce3d9487a8fce82277c6649b91f9fb3e5f79ad1770e7b8e44a0189a43d6",
    ),
    "default_credit_numerical": _Published(
        "DEFAULT_PAYEMENT",
        _DEFAULT_CREDIT_NUMERICAL,
        _CREDIT_SOURCE,
        "CC BY 4.0",
        "2d170eae765e85c646dcbd5ac108ad00e1fdb7b872d696af4bba3dede7eafd7f",
    ),
}


def load_draft(name: str, data_home: str | Path | None = None) -> Dataset:
    """Load a binarised table of the DRAFT papers, with their one-hot groups and published ranges.

    ``name``: ``compas``, ``adult``, ``default_credit`` or ``default_credit_numerical`` (amounts and
    age left as numbers). ``data_home``: the folder of ``draft_<name>.csv`` or ``<name>.csv``; by
    default that of the environment variable ``TREELEAK_DATA``, else the user's cache. A table that
    is not there is downloaded into it. Raises BadInput if that fails, or it is not that table.
    """
    published = _published(name)
    path = _find(name, published.sha256, data_home or os.environ.get("TREELEAK_DATA"))
    X, y = _read(path, published)
    source = f"{published.source}; binarised by https://github.com/vidalt/DRAFT"
    return Dataset(name, X, y, published.schema, source, published.licence)


def draft_schema(name: str) -> Schema:
    """What a row of a DRAFT table can be: :attr:`Dataset.schema`, without the table.

    Raises BadInput if there is no such table.
    """
    return _published(name).schema


def _published(name: str) -> _Published:
    if name not in _TABLES:
        raise BadInput(f"no DRAFT table is named {name!r}; known: {', '.join(_TABLES)}")
    return _TABLES[name]


def _find(name: str, sha256: str, folder: str | Path | None) -> Path:
    folder = Path(folder or Path.home() / ".cache" / "treeleak")
    for file in (f"draft_{name}.csv", f"{name}.csv"):
        if (path := folder / file).is_file():
            return path
    # Imported here, since it pulls in a network stack that nothing else needs.
    from urllib.request import urlopen

    url = _URL.format(name=name)
    path = folder / f"draft_{name}.csv"
    try:
        with urlopen(url, timeout=60) as answer:  # noqa: S310
            text = answer.read()
        if (found := hashlib.sha256(text).hexdigest()) != sha256:
            raise OSError(f"its SHA-256 is {found}")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text)
    except OSError as error:
        raise BadInput(
            f"{url}: {error}; a copy may be put into the folder that data_home "
            f"or TREELEAK_DATA names"
        ) from error
    return path


def _read(path: Path, published: _Published) -> tuple[pd.DataFrame, pd.Series]:
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: {error}") from error
    columns = published.schema.columns
    if absent := [c for c in (*columns, published.label) if c not in table]:
        raise BadInput(f"{path}: no column {', '.join(map(repr, absent))}")
    for column in (*columns, published.label):
        if not pd.api.types.is_integer_dtype(table[column]):
            raise BadInput(f"{path}: column {column!r} holds other things than whole numbers")
    X, y = table[list(columns)], table[published.label]
    if not (valid := published.schema.valid(X.to_numpy(), columns) & y.isin((0, 1))).all():
        raise BadInput(f"{path}: row {int(np.argmin(valid)) + 1} is outside the schema")
    return X, y


def draft_sample(dataset: Dataset, n_rows: int, seed: int) -> tuple[pd.DataFrame, pd.Series]:
    """Draw a training set as the DRAFT papers do.

    They shuffle a sample of 1,500 rows out of the table and train on the first ``n_rows``. Beyond
    1,500 the sample is that large; a smaller table is taken whole. Raises BadInput if it has no
    ``n_rows`` rows.
    """
    total = len(dataset.X)
    if not 0 <= n_rows <= total:
        raise BadInput(f"{n_rows} rows of the {total} of {dataset.name!r}")
    rows = (
        pd.Series(range(total))
        .sample(n=min(total, max(_SAMPLE, n_rows)), random_state=seed)
        .head(n_rows)
    )
    return (
        dataset.X.iloc[rows].reset_index(drop=True),
        dataset.y.iloc[rows].reset_index(drop=True),
    )


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

    ``source``: where its authors publish it. Raises BadInput if TREELEAK_DATA names no folder that
    holds it.
    """
    path = Path(os.environ.get("TREELEAK_DATA", "")) / name
    if not path.is_file():
        told = f"; its authors publish it: {source}" if source else ""
        raise BadInput(
            f"{path}: no such file; TREELEAK_DATA must name the folder that holds it{told}"
        )
    return path
