"""The population that training rows come from, as a prior over what a row can be.

Rows of the population, or its marginals, become a mixture: the types of a latent class model,
each a product over the attributes, and beside them the rows themselves, as often as they stand in
the table. How far the rows are believed is decided by leaving each of them out in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from numbers import Real
from operator import mul
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.special import expit, logit, logsumexp, softmax

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.private import dataclass
from treeleak.partition import AttributeAtoms, Geometry
from treeleak.partition.values import Values, values_of
from treeleak.release.check_schema import read_columns
from treeleak.release.tree import Release
from treeleak.schema import Attribute, Binary, Joint, OneHot, Schema

__all__ = ["Density", "Population"]


_MOST_TYPES = 64
_ROUNDS = 60
"""Steps of EM."""
_DOUBT, _LIKENESS = 1.0, 2.0
"""Rows' worth of all values in the marginals, and of the marginals in each type."""
_NEVER = 1e-6
"""Share of a value that the marginals leave out: counts have the last word."""
_ROUNDED = 0.02
"""How far published shares may add up to something other than 1."""
_BLOCK = 4096
"""Combinations of atoms that are tabled together."""
_CHUNK = 2**13


@dataclass(frozen=True, eq=False)
class Density:
    """Probability of every grid point and class: types of rows, and the rows that were seen.

    Attributes
    ----------
    geometry : Geometry
    values : Values
    log_weight : float array, shape (n_types,)
        Of each type.
    log_share : float array, shape (n_types, n_values)
        Probability of each value within a type; the last values are the classes.
    seen : int array, shape (n_seen,)
        Grid points with class that stand in the table, ascending, as point * n_classes + class.
    times : float array, shape (n_seen,)
        Their shares of the table.
    trust : float
        Weight of the table itself beside the types.
    """

    geometry: Geometry
    values: Values
    log_weight: FloatArray
    log_share: FloatArray
    seen: IntArray
    times: FloatArray
    trust: float

    def log_prior(self, points: IntArray, label: IntArray | int) -> FloatArray:
        """Log probability of grid points together with their classes.

        Over all points of the grid and all classes, the probabilities add up to 1, whether the
        schema's rules allow the point or not.

        Parameters
        ----------
        points : int array, shape (n_points,)
        label : int, or int array, shape (n_points,)
        """
        label = np.broadcast_to(np.asarray(label, dtype=np.int64), points.shape)
        out = np.empty(len(points))
        for begin in range(0, len(points), _CHUNK):
            own = slice(begin, begin + _CHUNK)
            out[own] = logsumexp(self._log_types(points[own], label[own]), axis=1)
        if self.trust:
            with np.errstate(divide="ignore"):
                found = np.log(self.trust * self._found(points, label))
            out = np.logaddexp(np.log1p(-self.trust) + out, found)
        return out

    def within(self, atoms: IntArray) -> FloatArray:
        """Probability of each value given its atom, and given the other atoms of the row.

        Parameters
        ----------
        atoms : int array, shape (n_rows, n_attributes + 1)
            Numbered over all attributes; the last is the class.

        Returns
        -------
        float array, shape (n_rows, n_values)
            Of each atom, the values add up to 1.
        """
        log_type = self.log_weight + sum(self._log_atom.T[own] for own in atoms.T)
        conditional = np.exp(self.log_share - self._log_atom[:, self.values.atom_of])
        return softmax(log_type, axis=1) @ conditional  # type: ignore[no-any-return]

    @cached_property
    def _log_atom(self) -> FloatArray:
        """Log probability of each atom within a type, shape (n_types, n_atoms)."""
        first = np.searchsorted(self.values.atom_of, np.arange(self.values.n_atoms))
        return np.log(np.add.reduceat(np.exp(self.log_share), first, axis=1))

    @cached_property
    def _blocks(self) -> list[tuple[int, FloatArray]]:
        """Log probabilities of neighbouring attributes together: their stride, and a table."""
        tables: list[FloatArray] = []
        start = self.values.atom_start
        for a in reversed(range(len(self.values.parts))):
            own = self._log_atom[:, start[a] : start[a + 1]].T
            if tables and len(own) * len(tables[-1]) <= _BLOCK:
                joined = own[:, None, :] + tables[-1][None, :, :]
                tables[-1] = joined.reshape(-1, own.shape[1])
            else:
                tables.append(own)
        # The last attribute runs fastest in the number of a grid point.
        strides = accumulate([len(t) for t in tables], mul, initial=1)
        return list(zip(strides, tables, strict=False))

    def _log_types(self, points: IntArray, label: IntArray) -> FloatArray:
        """Log probability of type and row together, shape (n_points, n_types)."""
        out = self.log_weight + self._log_atom[:, self.values.atom_start[-2] + label].T
        for stride, table in self._blocks:
            out += table[points // stride % len(table)]
        return out

    def _found(self, points: IntArray, label: IntArray) -> FloatArray:
        """Share of the table's rows at each point and class."""
        code = points * _n_classes(self.values) + label
        at = np.minimum(np.searchsorted(self.seen, code), len(self.seen) - 1)
        return np.where(self.seen[at] == code, self.times[at], 0.0)


@dataclass(frozen=True, eq=False)
class Population:
    """What is known of the population: some of its rows, or its marginals.

    Attributes
    ----------
    rows : float array, shape (n_rows, n_columns), or None
        Rows in the model's columns.
    label : int array, shape (n_rows,), or None
        Class of each row, where they are known.
    shares : mapping of str to (float array, float array)
        Without rows: of some attributes, values (n_values, n_columns) and their shares. Values
        that are not listed have none.
    class_shares : float array, shape (n_classes,), or None
        Without rows: the same for the classes.
    """

    rows: FloatArray | None
    label: IntArray | None
    shares: Mapping[str, tuple[FloatArray, FloatArray]]
    class_shares: FloatArray | None = None

    @classmethod
    def of(
        cls, given: pd.DataFrame | Mapping[str, Any], schema: Schema, release: Release
    ) -> Population:
        """Read and check what is given of the population.

        Parameters
        ----------
        given : DataFrame or mapping
            Rows in the model's columns, with at most one column more, the label. Or marginals:
            for each column (of as many attributes as are known) a mapping of its values to their
            shares; for 0/1 columns, those of one-hot groups included, the share of ones will do.
        schema : Schema
        release : Release

        Raises
        ------
        BadInput
            Naming the column, and the value that the schema or the model does not allow.
        """
        if isinstance(given, pd.DataFrame):
            return _from_rows(given, schema, release)
        if isinstance(given, Mapping):
            return _from_marginals(given, schema, release)
        raise BadInput(
            "the population must be a table of rows, or a mapping of columns to shares, "
            f"not {type(given).__name__}"
        )

    def fitted(self, geometry: Geometry, seed: int = 0) -> Density:
        """Fit the density over the grid of a geometry.

        Parameters
        ----------
        geometry : Geometry
            Of the release and schema with which the population was checked. Where known columns
            are one attribute in it, the types alone speak, and the density adds up to no
            particular number: it says what goes with each known part.
        seed : int
            Where the fit starts.
        """
        if any(isinstance(part.attribute, Joint) for part in geometry.parts):
            return _joined(self.fitted(_taken_apart(geometry), seed), geometry)
        values = values_of(geometry.parts, geometry.release.n_classes)
        if self.rows is None:
            return _product(self, geometry, values)
        return _mixture(self.rows, self.label, geometry, values, seed)


def _taken_apart(geometry: Geometry) -> Geometry:
    """The geometry as it would be without known columns, but for rules."""
    release = geometry.release
    joint = [p.attribute for p in geometry.parts if isinstance(p.attribute, Joint)]
    owners = dict.fromkeys(owner for attribute in joint for owner in attribute.owners)
    beside = [
        p.attribute
        for p in geometry.parts
        if p.attribute not in joint and p.attribute.name not in {owner.name for owner in owners}
    ]
    names = release.feature_names[:-1]
    plain = replace(release, trees=release.trees[:-1], feature_names=names)
    known = [c for attribute in joint for c in attribute.columns]
    return Geometry.of(plain, Schema((*owners, *beside)), known)


def _joined(plain: Density, geometry: Geometry) -> Density:
    """Say of known parts, and of what is unknown beside them, what a density says of both."""
    values = values_of(geometry.parts, _n_classes(plain.values))
    log_share = np.zeros((len(plain.log_weight), values.n_values))
    log_share[:, values.start[-2] :] = plain.log_share[:, plain.values.start[-2] :]
    for a, part in enumerate(values.parts):
        table = dict(zip(part.attribute.columns, values.table(a).T, strict=True))
        own = np.arange(values.start[a], values.start[a + 1])
        for b, whole in enumerate(plain.values.parts):
            held = [table[c] for c in whole.attribute.columns if c in table]
            if not held:
                continue
            zeros = np.zeros(len(own))
            block = np.column_stack([table.get(c, zeros) for c in whole.attribute.columns])
            told = np.arange(len(own))
            first = plain.values.start[b]
            if len(held) < block.shape[1] and isinstance(whole.attribute, OneHot):
                # Of a group that is cut, the part without a 1 leaves the choice to the other; that
                # there is no 1 in either is said by the unknown part, and taken back by the known.
                told = np.flatnonzero(block.any(axis=1))
                if whole.attribute.at_most_one:
                    none = first + _numbered(whole, 0 * block[:1], plain.geometry)
                    if isinstance(part.attribute, Joint):
                        log_share[:, own[told]] -= plain.log_share[:, none]
                    else:
                        told = np.arange(len(own))
            number = first + _numbered(whole, block[told], plain.geometry)
            log_share[:, own[told]] += plain.log_share[:, number]
    none_seen = np.zeros(0)
    return Density(
        geometry, values, plain.log_weight, log_share, none_seen.astype(np.int64), none_seen, 0.0
    )


def _from_rows(given: pd.DataFrame, schema: Schema, release: Release) -> Population:
    what = "the population's rows"
    extra = _beyond([str(c) for c in given.columns], release, what)
    if not len(given):
        raise BadInput(f"{what}: there are none")
    columns = read_columns(release, given, what)
    for attribute in schema.attributes:
        block = np.column_stack([columns[c] for c in attribute.columns])
        _check_domain(attribute, block, what, named=False)
    for rule in schema.rules:
        values = {c: columns[c] for c in rule.columns}
        known = ~np.logical_or.reduce([np.isnan(v) for v in values.values()])
        if (bad := known & ~rule.holds(values)).any():
            raise BadInput(
                f"{what}: row {bad.argmax()} breaks the schema's rule of kind {rule.kind!r} about "
                f"{', '.join(map(repr, rule.columns))}"
            )
    label = None
    if extra is not None:
        found = given.set_axis([str(c) for c in given.columns], axis=1)[extra]
        label = release.class_numbers(found)
        _check_classes(label, None, extra, release, what)
    return Population(np.column_stack([columns[c] for c in release.feature_names]), label, {})


def _from_marginals(given: Mapping[str, Any], schema: Schema, release: Release) -> Population:
    what = "the population's shares"
    own = {str(column): entry for column, entry in given.items()}
    extra = _beyond(list(own), release, what)
    if not own:
        raise BadInput(f"{what}: there are none")
    shares = {}
    for attribute in schema.attributes:
        named = [c for c in attribute.columns if c in own]
        if not named:
            continue
        if isinstance(attribute, OneHot):
            if absent := [c for c in attribute.columns if c not in own]:
                raise BadInput(
                    f"{what} lack column {absent[0]!r} of the one-hot group {attribute.name!r}"
                )
            shares[attribute.name] = _group_shares(attribute, own, what)
        else:
            (column,) = named
            table = _as_mapping(own[column], isinstance(attribute, Binary), column, what)
            points = np.array([_as_value(v, column, what) for v in table])[:, None]
            _check_domain(attribute, points, what, named=True)
            shares[attribute.name] = points, _as_shares(list(table.values()), column, what)
    class_shares: FloatArray | None = None
    if extra is not None:
        two = len(release.classes) == 2
        table = own[extra]
        if two and not isinstance(table, Mapping):
            one = _as_share(table, extra, what)
            table = {release.classes[0]: 1.0 - one, release.classes[1]: one}
        table = _as_mapping(table, False, extra, what)
        number = release.class_numbers(table)
        _check_classes(number, list(table), extra, release, what)
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


def _check_domain(attribute: Attribute, block: FloatArray, what: str, named: bool) -> None:
    """Refuse values outside of the domain; of rows, only their number is told."""
    bad = ~attribute.holds(block)
    if bad.any():
        k = int(bad.argmax())
        values = ", ".join(f"{v:g}" for v in block[k])
        told = f"the value {values}" if named else f"a value in row {k}"
        raise BadInput(
            f"{what}: column {', '.join(map(repr, attribute.columns))} has {told} "
            f"that the schema does not allow ({attribute.kind})"
        )


def _check_classes(
    number: IntArray, label: list[Any] | None, column: str, release: Release, what: str
) -> None:
    if (number < 0).any():
        k = int(number.argmin())
        told = f"the value {label[k]!r}" if label is not None else f"another value in row {k}"
        raise BadInput(
            f"{what}: column {column!r}, taken for the label, has {told}; the model's classes are "
            f"{', '.join(map(repr, release.classes[:10]))}"
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
    attribute: OneHot, own: Mapping[str, Any], what: str
) -> tuple[FloatArray, FloatArray]:
    ones = []
    for column in attribute.columns:
        table = _as_mapping(own[column], True, column, what)
        points = np.array([[_as_value(v, column, what)] for v in table])
        _check_domain(Binary(column), points, what, named=True)
        shares = _as_shares(list(table.values()), column, what)
        ones.append(float(shares @ points[:, 0]))
    points = np.eye(len(ones))
    if attribute.at_most_one:
        points = np.vstack([points, np.zeros(len(ones))])
        ones.append(max(0.0, 1.0 - sum(ones)))
    return points, _as_shares(ones, f"{attribute.name} (one-hot)", what)


def _n_classes(values: Values) -> int:
    return int(values.start[-1] - values.start[-2])


def _sizes(values: Values) -> FloatArray:
    """Share of each value among those of its attribute, if all points of the schema are equal."""
    within = values.atom_sizes / np.bincount(values.atom_of, minlength=values.n_atoms)
    size = within[values.atom_of]
    owner = _attribute_of(values)
    return np.asarray(size / np.bincount(owner, size)[owner])


def _attribute_of(values: Values) -> IntArray:
    return np.repeat(np.arange(len(values.parts) + 1), np.diff(values.start))


def _numbered(part: AttributeAtoms, block: FloatArray, geometry: Geometry) -> IntArray:
    """Listed value of each row of ``block``, counted within the attribute."""
    table = np.concatenate([atom.values for atom in part.atoms])
    if not any(atom.interval for atom in part.atoms) and part.attribute.kind != "numeric":
        # NaN is a value like the others here, and -0.0 is 0.0.
        both = np.nan_to_num(np.concatenate([table, block]), nan=np.inf, posinf=np.inf) + 0.0
        code = np.unique(both, axis=0, return_inverse=True)[1].ravel()
        position = np.empty(code.max() + 1, dtype=np.int64)
        position[code[: len(table)]] = np.arange(len(table))
        return position[code[len(table) :]]
    cuts = geometry.release.thresholds[part.columns[0]]
    with np.errstate(over="ignore"):
        listed, seen = (x[:, 0].astype(geometry.release.float_type) for x in (table, block))
    missing = np.isnan(listed)
    # Where no float lies between two thresholds, there is no atom.
    bins = np.searchsorted(cuts, listed[~missing], side="left")
    at = np.searchsorted(bins, np.searchsorted(cuts, seen, side="left"))
    position = np.flatnonzero(~missing)[np.minimum(at, len(bins) - 1)]
    return np.where(np.isnan(seen), missing.argmax(), position)


def _product(population: Population, geometry: Geometry, values: Values) -> Density:
    """One type, whose shares are the marginals."""
    share = _sizes(values)
    for a, part in enumerate(values.parts):
        if part.attribute.name in population.shares:
            points, found = population.shares[part.attribute.name]
            own = slice(values.start[a], values.start[a + 1])
            number = _numbered(part, points, geometry)
            heard = np.bincount(number, found, minlength=len(share[own]))
            share[own] = _NEVER * share[own] + (1 - _NEVER) * heard
    if population.class_shares is not None:
        own = slice(values.start[-2], values.start[-1])
        share[own] = _NEVER * share[own] + (1 - _NEVER) * population.class_shares
    none = np.zeros(0)
    log_share = np.log(share)[None, :]
    return Density(geometry, values, np.zeros(1), log_share, none.astype(np.int64), none, 0.0)


def _mixture(
    rows: FloatArray, label: IntArray | None, geometry: Geometry, values: Values, seed: int
) -> Density:
    """Types found by EM, and the rows themselves as far as they foretell each other."""
    n_rows, n_classes = len(rows), _n_classes(values)
    chosen = np.column_stack([
        values.start[a] + _numbered(part, rows[:, part.columns], geometry)
        for a, part in enumerate(values.parts)
    ])  # fmt: skip
    atoms = values.atom_of[chosen] - values.atom_start[: chosen.shape[1]]
    if geometry.n_points > np.iinfo(np.int64).max:
        n = geometry.n_points
        raise NotCovered(f"a population on a grid of {n:.3g} points: too many to list")
    points = atoms @ geometry.stride
    if label is None:
        # Of the classes nothing is said: each is as likely.
        code = (points[:, None] * n_classes + np.arange(n_classes)).ravel()
    else:
        code = points * n_classes + label
        chosen = np.column_stack([chosen, values.start[-2] + label])
    log_weight, log_share = _types(chosen, values, seed)
    seen, times = np.unique(code, return_counts=True)
    density = Density(geometry, values, log_weight, log_share, seen, times / len(code), 0.0)
    others = (times - 1) / max(n_rows - 1, 1) * n_rows / len(code)
    log_q = density.log_prior(seen // n_classes, seen % n_classes)
    return replace(density, trust=_trust(times, others, log_q))


def _types(chosen: IntArray, values: Values, seed: int) -> tuple[FloatArray, FloatArray]:
    """Fit a latent class model by EM; ``chosen`` holds a value per attribute of each row."""
    different, times = np.unique(chosen, axis=0, return_counts=True)
    n, n_attributes = different.shape
    ones = np.ones(different.size)
    at = np.arange(0, different.size + 1, n_attributes)
    held = sparse.csr_array((ones, different.ravel(), at), shape=(n, values.n_values))
    total = float(times.sum())
    heard = held.T @ times.astype(float)
    common = (heard + _DOUBT * _sizes(values)) / (total + _DOUBT)
    n_types = int(np.clip(np.sqrt(total), 1, _MOST_TYPES))
    belief = np.random.default_rng(seed).dirichlet(np.full(n_types, 0.5), n)
    owner = _attribute_of(values)
    for _ in range(_ROUNDS):
        weighted = belief * times[:, None]
        log_weight = np.log((weighted.sum(axis=0) + 1.0) / (total + n_types))
        share = (held.T @ weighted).T + _LIKENESS * common
        log_share = np.log(share) - np.log(_totals(share, owner))
        belief = softmax(log_weight + held @ log_share.T, axis=1)
    return log_weight, log_share


def _totals(share: FloatArray, owner: IntArray) -> FloatArray:
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    return np.asarray(np.add.reduceat(share, first, axis=1)[:, owner])


def _trust(times: IntArray, others: FloatArray, log_types: FloatArray) -> float:
    """Weight of the table under which its rows, each left out in turn, are likeliest (EM).

    Parameters
    ----------
    times : int array, shape (n_seen,)
        How often each row stands in the table.
    others : float array, shape (n_seen,)
        What the table says of it when one of these is left out.
    log_types : float array, shape (n_seen,)
        What the types say of it.
    """
    total = float(times.sum())
    with np.errstate(divide="ignore"):
        ratio = np.log(others) - log_types
    trust = 0.5
    for _ in range(_ROUNDS):
        # Never all: what is not in the table may exist.
        trust = min(float(times @ expit(ratio + logit(trust))) / total, total / (total + 1.0))
    return trust
