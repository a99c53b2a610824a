"""The population that training rows come from, as a prior over what a row can be.

Rows of the population, or its marginals, become a mixture: the types of a latent class model,
each a product over the attributes, and beside them the rows themselves, as often as they stand in
the table. How far the rows are believed is decided by leaving each of them out in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadInput
from treeleak.core.private import dataclass
from treeleak.partition import Geometry
from treeleak.partition.value_index import values_in
from treeleak.release.release import Release
from treeleak.schema import Attribute, Binary, Joint, OneHot, Schema
from treeleak.side_information.density import Density, joined, mixture, product, taken_apart
from treeleak.side_information.user_tables import KnownTable

_ROUNDED = 0.02
"""How far published shares may add up to something other than 1."""


@dataclass(frozen=True, eq=False)
class Population:
    """What is known of the population: some of its rows, or its marginals."""

    rows: FloatArray | None
    """Shape (n_rows, n_columns). Rows in the model's columns."""
    label: IntArray | None
    """Shape (n_rows,). Class of each row, where they are known."""
    shares: Mapping[str, tuple[FloatArray, FloatArray]]
    """Without rows: of some attributes, values (n_values, n_columns) and their shares. Values that
    are not listed have none."""
    class_shares: FloatArray | None = None
    """Shape (n_classes,). Without rows: the same for the classes."""

    @classmethod
    def of(
        cls, table: pd.DataFrame | Mapping[str, Any], schema: Schema, release: Release
    ) -> Population:
        """Read and check what is given of the population.

        ``table``: rows in the model's columns, with at most one column more, the label. Or
        marginals: for each column (of as many attributes as are known) a mapping of its values to
        their shares; for 0/1 columns, those of one-hot groups included, the share of ones will do.
        Raises BadInput, naming the column, and the value that the schema or the model does not
        allow.
        """
        if isinstance(table, pd.DataFrame):
            return _from_rows(table, schema, release)
        if isinstance(table, Mapping):
            return _from_marginals(table, schema, release)
        raise BadInput(
            "the population must be a table of rows, or a mapping of columns to shares, "
            f"not {type(table).__name__}"
        )

    def fitted(self, geometry: Geometry, seed: int = 0) -> Density:
        """Fit the density over the grid of a geometry.

        ``geometry``: of the release and schema with which the population was checked. Where known
        columns are one attribute in it, the types alone speak, and the density adds up to no
        particular number: it says what goes with each known part. ``seed``: where the fit starts.
        """
        if any(isinstance(part.attribute, Joint) for part in geometry.parts):
            return joined(self.fitted(taken_apart(geometry), seed), geometry)
        values = values_in(geometry)
        if self.rows is None:
            return product(self.shares, self.class_shares, geometry, values)
        return mixture(self.rows, self.label, geometry, values, seed)


def _from_rows(table: pd.DataFrame, schema: Schema, release: Release) -> Population:
    read = KnownTable("the population's rows", table, release, schema)
    if not len(table):
        raise BadInput(f"{read.what}: there are none")
    return Population(read.whole(release), read.labels, {})


def _from_marginals(marginals: Mapping[str, Any], schema: Schema, release: Release) -> Population:
    what = "the population's shares"
    by_column = {str(column): entry for column, entry in marginals.items()}
    extra = _beyond(list(by_column), release, what)
    if not by_column:
        raise BadInput(f"{what}: there are none")
    shares = {}
    for attribute in schema.attributes:
        named = [c for c in attribute.columns if c in by_column]
        if not named:
            continue
        if isinstance(attribute, OneHot):
            if absent := [c for c in attribute.columns if c not in by_column]:
                raise BadInput(
                    f"{what} lack column {absent[0]!r} of the one-hot group {attribute.name!r}"
                )
            shares[attribute.name] = _group_shares(attribute, by_column, what)
        else:
            (column,) = named
            table = _as_mapping(by_column[column], isinstance(attribute, Binary), column, what)
            points = np.array([_as_value(v, column, what) for v in table])[:, None]
            _check_domain(attribute, points, what)
            shares[attribute.name] = points, _as_shares(list(table.values()), column, what)
    class_shares: FloatArray | None = None
    if extra is not None:
        two = len(release.classes) == 2
        table = by_column[extra]
        if two and not isinstance(table, Mapping):
            one = _as_share(table, extra, what)
            table = {release.classes[0]: 1.0 - one, release.classes[1]: one}
        table = _as_mapping(table, False, extra, what)
        number = release.class_numbers(table)
        if (number < 0).any():
            raise BadInput(
                f"{what}: column {extra!r}, taken for the label, has the value "
                f"{list(table)[number.argmin()]!r}; the model's classes are "
                f"{', '.join(map(repr, release.classes[:10]))}"
            )
        found = _as_shares(list(table.values()), extra, what)
        class_shares = np.zeros(len(release.classes))
        np.add.at(class_shares, number, found)
    return Population(None, None, shares, class_shares)


def _beyond(names: list[str], release: Release, what: str) -> str | None:
    """The one column that the model lacks, which is the label, or None."""
    extra = [c for c in names if c not in set(release.feature_names)]
    if len(extra) > 1 or (extra and not release.classes):
        raise BadInput(
            f"{what} have columns that the model lacks: {', '.join(map(repr, extra[:5]))}; one "
            "may be the label, if the model has classes"
        )
    return extra[0] if extra else None


def _check_domain(attribute: Attribute, block: FloatArray, what: str) -> None:
    bad = ~attribute.holds(block)
    if bad.any():
        values = ", ".join(f"{v:g}" for v in block[bad.argmax()])
        raise BadInput(
            f"{what}: column {', '.join(map(repr, attribute.columns))} has the value {values} "
            f"that the schema does not allow ({attribute.kind})"
        )


def _as_mapping(entry: Any, zero_one: bool, column: str, what: str) -> Mapping[Any, Any]:
    if isinstance(entry, Mapping) and entry:
        return entry
    if not zero_one or isinstance(entry, Mapping):
        raise BadInput(f"{what}: column {column!r} needs a share for each value, not {entry!r}")
    one = _as_share(entry, column, what)
    return {0: 1.0 - one, 1: one}


def _as_value(value: Any, column: str, what: str) -> float:
    number = _float(value)
    if number is None:
        raise BadInput(f"{what}: column {column!r} holds numbers, not {value!r:.40}")
    return number


def _as_share(share: Any, column: str, what: str) -> float:
    number = None if isinstance(share, bool) else _float(share)
    if number is None or not 0 <= number <= 1:
        raise BadInput(
            f"{what}: column {column!r} has the share {share!r:.40}, not one from 0 to 1"
        )
    return number


def _float(value: Any) -> float | None:
    """The value as a float, if it is a number that one can hold."""
    if not isinstance(value, Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _as_shares(entries: list[Any], column: str, what: str) -> FloatArray:
    """Shares that add up to 1, but for rounding."""
    shares = np.array([_as_share(s, column, what) for s in entries])
    total = shares.sum()
    if abs(total - 1.0) > _ROUNDED:
        raise BadInput(f"{what}: those of column {column!r} add up to {total:g}, not to 1")
    return np.asarray(shares / total)


def _group_shares(
    attribute: OneHot, by_column: Mapping[str, Any], what: str
) -> tuple[FloatArray, FloatArray]:
    ones = []
    for column in attribute.columns:
        table = _as_mapping(by_column[column], True, column, what)
        points = np.array([[_as_value(v, column, what)] for v in table])
        _check_domain(Binary(column), points, what)
        shares = _as_shares(list(table.values()), column, what)
        ones.append(float(shares @ points[:, 0]))
    points = np.eye(len(ones))
    if attribute.at_most_one:
        points = np.vstack([points, np.zeros(len(ones))])
        ones.append(max(0.0, 1.0 - sum(ones)))
    return points, _as_shares(ones, f"{attribute.name} (one-hot)", what)
