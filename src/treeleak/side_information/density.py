"""The density that a population makes: a mixture over what a row can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from operator import mul

import numpy as np
from scipy import sparse
from scipy.special import expit, logit, logsumexp, softmax

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.partition import AttributeAtoms, Geometry
from treeleak.partition.value_index import ValueIndex, values_of
from treeleak.schema import Joint, OneHot, Schema

_MOST_TYPES = 64
_ROUNDS = 60
"""Steps of EM."""
_DOUBT, _LIKENESS = 1.0, 2.0
"""Rows' worth of all values in the marginals, and of the marginals in each type."""
_NEVER = 1e-6
"""Share of a value that the marginals leave out: counts have the last word."""
_BLOCK = 4096
"""Combinations of atoms that are tabled together."""
_CHUNK = 2**13
_LEAST = 1e-12
"""Least share of a box: sums of shares are no more exact."""


@dataclass(frozen=True, eq=False)
class Density:
    """Probability of every grid point and class: types of rows, and the rows that were seen."""

    geometry: Geometry
    values: ValueIndex
    log_weight: FloatArray
    """Shape (n_types,). Of each type."""
    log_share: FloatArray
    """Shape (n_types, n_values). Probability of each value within a type; the last values are the
    classes."""
    seen: IntArray
    """Shape (n_seen,). Grid points with class that stand in the table, ascending, as point *
    n_classes + class."""
    times: FloatArray
    """Shape (n_seen,). Their shares of the table."""
    trust: float
    """Weight of the table itself beside the types."""

    def log_prior(self, points: IntArray, label: IntArray | int) -> FloatArray:
        """Log probability of grid points together with their classes.

        Over all points of the grid and all classes, the probabilities add up to 1, whether the
        schema's rules allow the point or not.

        ``points``: shape (n_points,). ``label``: shape (n_points,).
        """
        label = np.broadcast_to(np.asarray(label, dtype=np.int64), points.shape)
        out = np.empty(len(points))
        for begin in range(0, len(points), _CHUNK):
            block = slice(begin, begin + _CHUNK)
            out[block] = logsumexp(self._log_types(points[block], label[block]), axis=1)
        if self.trust:
            with np.errstate(divide="ignore"):
                found = np.log(self.trust * self._found(points, label))
            out = np.logaddexp(np.log1p(-self.trust) + out, found)
        return out

    def log_boxes(self, low: IntArray, high: IntArray, label: IntArray) -> FloatArray:
        """Log probability of boxes of atoms together with their classes, by the types alone.

        ``low`` and ``high``, shape (n_boxes, n_attributes): the first and last atom of each
        attribute. ``label``: shape (n_boxes,).
        """
        out, first = np.empty(len(label)), self.values.atom_start
        upto = np.concatenate([
            np.zeros((1, len(self.log_weight))), np.cumsum(np.exp(self._log_atom.T), axis=0)
        ])  # fmt: skip
        for begin in range(0, len(label), _CHUNK):
            block = slice(begin, begin + _CHUNK)
            log_type = self.log_weight + self._log_atom.T[first[-2] + label[block]]
            for a, start in enumerate(first[:-2].tolist()):
                share = upto[start + high[block, a] + 1] - upto[start + low[block, a]]
                log_type += np.log(np.maximum(share, _LEAST))
            out[block] = logsumexp(log_type, axis=1)
        return out

    def within(self, atoms: IntArray) -> FloatArray:
        """Probability of each value given its atom, and given the other atoms of the row.

        ``atoms``, shape (n_rows, n_attributes + 1): numbered over all attributes; the last is the
        class. Returns an array of shape (n_rows, n_values); those of each atom add up to 1.
        """
        log_type = self.log_weight + sum(self._log_atom.T[column] for column in atoms.T)
        conditional = np.exp(self.log_share - self._log_atom[:, self.values.atom_of])
        return softmax(log_type, axis=1) @ conditional  # type: ignore[no-any-return]

    @cached_property
    def _log_atom(self) -> FloatArray:
        """Log probability of each atom within a type, shape (n_types, n_atoms)."""
        return np.log(np.add.reduceat(np.exp(self.log_share), self.values.first, axis=1))

    @cached_property
    def _blocks(self) -> list[tuple[int, FloatArray]]:
        """Log probabilities of neighbouring attributes together: their stride, and a table."""
        tables: list[FloatArray] = []
        start = self.values.atom_start
        for a in reversed(range(len(self.values.parts))):
            log_share = self._log_atom[:, start[a] : start[a + 1]].T
            if tables and len(log_share) * len(tables[-1]) <= _BLOCK:
                joined = log_share[:, None, :] + tables[-1][None, :, :]
                tables[-1] = joined.reshape(-1, log_share.shape[1])
            else:
                tables.append(log_share)
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


def taken_apart(geometry: Geometry) -> Geometry:
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


def joined(plain: Density, geometry: Geometry) -> Density:
    """Say of known parts, and of what is unknown beside them, what a density says of both."""
    values = values_of(geometry.parts, _n_classes(plain.values))
    log_share = np.zeros((len(plain.log_weight), values.n_values))
    log_share[:, values.start[-2] :] = plain.log_share[:, plain.values.start[-2] :]
    for a, part in enumerate(values.parts):
        table = dict(zip(part.attribute.columns, values.table(a).T, strict=True))
        columns = np.arange(values.start[a], values.start[a + 1])
        for b, whole in enumerate(plain.values.parts):
            held = [table[c] for c in whole.attribute.columns if c in table]
            if not held:
                continue
            zeros = np.zeros(len(columns))
            block = np.column_stack([table.get(c, zeros) for c in whole.attribute.columns])
            known_values = np.arange(len(columns))
            first = plain.values.start[b]
            if len(held) < block.shape[1] and isinstance(whole.attribute, OneHot):
                # Of a group that is cut, the part without a 1 leaves the choice to the other; that
                # there is no 1 in either is said by the unknown part, and taken back by the known.
                known_values = np.flatnonzero(block.any(axis=1))
                if whole.attribute.at_most_one:
                    none = first + _numbered(whole, 0 * block[:1], plain.geometry)
                    if isinstance(part.attribute, Joint):
                        log_share[:, columns[known_values]] -= plain.log_share[:, none]
                    else:
                        known_values = np.arange(len(columns))
            number = first + _numbered(whole, block[known_values], plain.geometry)
            log_share[:, columns[known_values]] += plain.log_share[:, number]
    return _of_types(geometry, values, plain.log_weight, log_share)


def _n_classes(values: ValueIndex) -> int:
    return int(values.start[-1] - values.start[-2])


def _sizes(values: ValueIndex) -> FloatArray:
    """Share of each value among those of its attribute, if all points of the schema are equal."""
    within = values.atom_sizes / np.bincount(values.atom_of, minlength=values.n_atoms)
    size = within[values.atom_of]
    owner = _attribute_of(values)
    return np.asarray(size / np.bincount(owner, size)[owner])


def _attribute_of(values: ValueIndex) -> IntArray:
    return np.repeat(np.arange(len(values.parts) + 1), np.diff(values.start))


def _numbered(part: AttributeAtoms, block: FloatArray, geometry: Geometry) -> IntArray:
    """Listed value of each row of ``block``, counted within the attribute."""
    table = np.concatenate([atom.values for atom in part.atoms])
    if not part.intervals and part.attribute.kind != "numeric":
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


def product(
    shares: Mapping[str, tuple[FloatArray, FloatArray]],
    class_shares: FloatArray | None,
    geometry: Geometry,
    values: ValueIndex,
) -> Density:
    """One type, whose shares are the marginals, as :class:`Population` has them."""
    share = _sizes(values)
    for a, part in enumerate(values.parts):
        if part.attribute.name in shares:
            points, found = shares[part.attribute.name]
            columns = slice(values.start[a], values.start[a + 1])
            number = _numbered(part, points, geometry)
            observed = np.bincount(number, found, minlength=len(share[columns]))
            share[columns] = _NEVER * share[columns] + (1 - _NEVER) * observed
    if class_shares is not None:
        columns = slice(values.start[-2], values.start[-1])
        share[columns] = _NEVER * share[columns] + (1 - _NEVER) * class_shares
    return _of_types(geometry, values, np.zeros(1), np.log(share)[None, :])


def _of_types(
    geometry: Geometry, values: ValueIndex, log_weight: FloatArray, log_share: FloatArray
) -> Density:
    """Types alone: no rows were seen."""
    none = np.zeros(0)
    return Density(geometry, values, log_weight, log_share, none.astype(np.int64), none, 0.0)


def mixture(
    rows: FloatArray, label: IntArray | None, geometry: Geometry, values: ValueIndex, seed: int
) -> Density:
    """Types found by EM, and the rows themselves as far as they foretell each other.

    Where grid points cannot be numbered, types alone.
    """
    n_rows, n_classes = len(rows), _n_classes(values)
    chosen = np.column_stack([
        values.start[a] + _numbered(part, rows[:, part.columns], geometry)
        for a, part in enumerate(values.parts)
    ])  # fmt: skip
    atoms = values.atom_of[chosen] - values.atom_start[: chosen.shape[1]]
    if label is not None:
        chosen = np.column_stack([chosen, values.start[-2] + label])
    log_weight, log_share = _types(chosen, values, seed)
    if geometry.n_points > np.iinfo(np.int64).max:
        return _of_types(geometry, values, log_weight, log_share)
    points = atoms @ geometry.stride
    if label is None:
        # Of the classes nothing is said: each is as likely.
        code = (points[:, None] * n_classes + np.arange(n_classes)).ravel()
    else:
        code = points * n_classes + label
    seen, times = np.unique(code, return_counts=True)
    density = Density(geometry, values, log_weight, log_share, seen, times / len(code), 0.0)
    others = (times - 1) / max(n_rows - 1, 1) * n_rows / len(code)
    log_q = density.log_prior(seen // n_classes, seen % n_classes)
    return replace(density, trust=_trust(times, others, log_q))


def _types(chosen: IntArray, values: ValueIndex, seed: int) -> tuple[FloatArray, FloatArray]:
    """Fit a latent class model by EM; ``chosen`` holds a value per attribute of each row."""
    different, times = np.unique(chosen, axis=0, return_counts=True)
    n, n_attributes = different.shape
    ones = np.ones(different.size)
    at = np.arange(0, different.size + 1, n_attributes)
    held = sparse.csr_array((ones, different.ravel(), at), shape=(n, values.n_values))
    total = float(times.sum())
    observed = held.T @ times.astype(float)
    common = (observed + _DOUBT * _sizes(values)) / (total + _DOUBT)
    n_types = int(np.clip(np.sqrt(total), 1, _MOST_TYPES))
    belief = np.random.default_rng(seed).dirichlet(np.full(n_types, 0.5), n)
    owner = _attribute_of(values)
    for _ in range(_ROUNDS):
        weighted = belief * times[:, None]
        log_weight = np.log((weighted.sum(axis=0) + 1.0) / (total + n_types))
        share = (held.T @ weighted).T + _LIKENESS * common
        totals = np.add.reduceat(share, values.start[:-1], axis=1)[:, owner]
        log_share = np.log(share) - np.log(totals)
        belief = softmax(log_weight + held @ log_share.T, axis=1)
    return log_weight, log_share


def _trust(times: IntArray, others: FloatArray, log_types: FloatArray) -> float:
    """Weight of the table under which its rows, each left out in turn, are likeliest (EM).

    ``times``, shape (n_seen,): how often each row stands in the table. ``others``, shape (n_seen,):
    what the table says of it when one of these is left out. ``log_types``, shape (n_seen,): what
    the types say of it.
    """
    total = float(times.sum())
    with np.errstate(divide="ignore"):
        ratio = np.log(others) - log_types
    trust = 0.5
    for _ in range(_ROUNDS):
        # Never all: what is not in the table may exist.
        trust = min(float(times @ expit(ratio + logit(trust))) / total, total / (total + 1.0))
    return trust
