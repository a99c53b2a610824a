"""A density over rows in which each attribute depends on one other: a tree of Chow and Liu."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.decisions import on_grid
from treeleak.core.private import dataclass

_DOUBT, _COUPLING_DOUBT, _WITHIN = 1.0, 2.0, 5.0
"""Rows' worth of the sizes in each marginal, of the marginal in each conditional, and of the sizes
within each bin."""

_MOST_PAIRS = 2**21
"""Pairs of bins or atoms up to which two attributes are taken together."""


@dataclass(frozen=True, eq=False)
class TreePrior:
    """P(row) = product over attributes of P(atom | atom of the parent)."""

    radix: IntArray
    """Shape (n_attributes,). Atoms of each attribute; here the class is an attribute like
    others."""
    parent: IntArray
    """Shape (n_attributes,). -1 for the root."""
    log_share: tuple[FloatArray, ...]
    """Per attribute (1 or parent's bins, own atoms)."""
    bins: tuple[IntArray, ...]
    """Per attribute, the bin of each atom: what lies below an attribute depends on these only."""

    @classmethod
    def flat(cls, radix: IntArray, sizes: FloatArray) -> TreePrior:
        """All points of the schema equally likely.

        ``radix``: shape (n_attributes,). ``sizes``, shape (n_atoms,): points in each atom, over all
        attributes.
        """
        parts = np.split(sizes, np.cumsum(radix)[:-1])
        shares = tuple(np.log(s / s.sum())[None, :] for s in parts)
        bins = tuple(np.arange(r) for r in radix)
        return cls(radix, np.full(len(radix), -1), shares, bins)

    @classmethod
    def fitted(
        cls,
        rows: IntArray,
        n_rows: float | FloatArray,
        radix: IntArray,
        sizes: FloatArray,
        bins: Sequence[IntArray] | None = None,
    ) -> TreePrior:
        """Fit the tree of greatest mutual information to rows (Chow and Liu 1968).

        Parameters
        ----------
        rows : int array, shape (n_samples, n_attributes)
            Atoms, each attribute counted from 0.
        n_rows : float or float array, shape (n_samples,)
            What these rows count for, together (several datasets count for one) or each.
        radix, sizes
            As for :meth:`flat`.
        bins : sequence of int arrays, optional
            Per attribute, the bin of each atom; by default each atom is one.
        """
        n_attributes = len(radix)
        together = not isinstance(n_rows, np.ndarray)
        each, weight = (None, n_rows / len(rows)) if together else (n_rows, 1.0)
        flat = cls.flat(radix, sizes)
        bins = flat.bins if bins is None else tuple(bins)
        n_bins = np.array([bin_of[-1] + 1 for bin_of in bins])
        coarse = np.column_stack([bin_of[rows[:, a]] for a, bin_of in enumerate(bins)])
        marginal: list[FloatArray] = []
        within: list[FloatArray] = []
        for a, bin_of in enumerate(bins):
            size, counts = np.exp(flat.log_share[a][0]), np.bincount(rows[:, a], each, radix[a])
            in_bin, size_in_bin = np.bincount(bin_of, counts * weight), np.bincount(bin_of, size)
            smoothed = in_bin + _DOUBT * size_in_bin * n_bins[a]
            marginal.append(smoothed / smoothed.sum())
            likely = counts * weight + _WITHIN * size / size_in_bin[bin_of]
            within.append(likely / (in_bin + _WITHIN)[bin_of])

        def joint(a: int, b: int) -> FloatArray:
            key = coarse[:, a] * n_bins[b] + coarse[:, b]
            counts = np.bincount(key, each, n_bins[a] * n_bins[b])
            return np.asarray(counts.reshape(n_bins[a], n_bins[b]) * weight, dtype=float)

        information = np.zeros((n_attributes, n_attributes))
        for a in range(n_attributes):
            for b in range(a):
                if n_bins[a] * n_bins[b] > _MOST_PAIRS:
                    continue
                p = joint(a, b) + 2 * _DOUBT * np.outer(marginal[a], marginal[b])
                p /= p.sum()
                log_ratio = np.log(p) - np.log(np.outer(p.sum(axis=1), p.sum(axis=0)))
                information[a, b] = information[b, a] = (p * log_ratio).sum()
        parent = _spanning(information)
        shares = []
        for a, up in enumerate(parent):
            if up >= 0 and n_bins[up] * radix[a] > _MOST_PAIRS:
                parent[a] = up = -1
            table = marginal[a][None, :]
            if up >= 0:
                both = joint(int(up), a)
                table = both + _COUPLING_DOUBT * table
                table /= both.sum(axis=1, keepdims=True) + _COUPLING_DOUBT
            shares.append(np.log(table[:, bins[a]] * within[a]))
        return cls(radix, parent, tuple(shares), bins)

    def log_prior(self, rows: IntArray) -> FloatArray:
        """Log probability of rows of atoms."""
        out = np.zeros(len(rows))
        for a, up in enumerate(self.parent):
            above = self.bins[up][rows[:, up]] if up >= 0 else np.zeros(len(rows), dtype=np.int64)
            out += self.log_share[a][above, rows[:, a]]
        return out

    def drawn(self, n: int, rng: np.random.Generator) -> IntArray:
        """Draw rows of atoms."""
        out = np.full((n, len(self.parent)), -1, dtype=np.int64)
        while (out < 0).any():
            for a, up in enumerate(self.parent):
                if out[:1, a] >= 0 or (up >= 0 and out[:1, up] < 0):
                    continue
                above = self.bins[up][out[:, up]] if up >= 0 else np.zeros(n, dtype=np.int64)
                ends = np.exp(self.log_share[a]).cumsum(axis=1)
                mark = rng.random(n) * ends[above, -1]
                out[:, a] = (ends[above] <= mark[:, None]).sum(axis=1)
        return out


def _spanning(information: FloatArray) -> IntArray:
    """Parents in the spanning tree of greatest information; the last attribute is the root."""
    n, information = len(information), on_grid(information)
    parent = np.full(n, n - 1)
    parent[n - 1] = -1
    inside = np.zeros(n, dtype=bool)
    inside[n - 1] = True
    best = information[n - 1].copy()
    for _ in range(n - 1):
        new = int(np.argmax(np.where(inside, -np.inf, best)))
        inside[new] = True
        better = ~inside & (information[new] > best)
        best[better], parent[better] = information[new][better], new
    return parent
