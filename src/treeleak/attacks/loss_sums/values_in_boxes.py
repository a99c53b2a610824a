"""Values of rows that are known to lie in boxes: draws that agree with the cuts of all nodes.

Values are drawn one after the other from what their columns hold, and hold beside the other values
of the row. They are the less likely the more nodes would have had a better cut with them
(:mod:`.best_cuts`). First these statements weigh little and then more and more. How often each
value is drawn in the end says how sure it is. In columns of few values, known values count for more
than drawn ones.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np

from treeleak.attacks.loss_sums.best_cuts import axes_of, best_cuts
from treeleak.attacks.loss_sums.value_kernels import (
    BEFORE,
    Axes,
    Nodes,
    Pairs,
    Rules,
    Sums,
    beside,
    draw,
    left_sums,
)
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.parallel import run_all
from treeleak.partition import Geometry

_SWEEPS, _LEAST_SWEEPS = 100, 20
"""Draws of all values in each chain, and the least of them when time runs out."""
_COST = 4.0
"""What a statement weighs in the end: how many times e less likely is a value that misses it."""
_RISING, _HEARD = 0.5, 0.6
"""Share of the draws in which that rises, and after which they count."""
_BINS = 8
"""Bins of the values of a column, at most."""
_DRAWN, _FEW, _MANY = 0.25, 0.5, 0.25
"""What a drawn value counts for in a column of few values, one for each bin: else values would soon
be like those drawn before, and not like known ones. And the powers (:attr:`Pairs.power`) of such
columns and of others."""


def values_in_boxes(
    geometry: Geometry, leaf: IntArray, label: IntArray, box: BoolArray, clock: Clock,
    seed: tuple[int, ...], n_chains: int,
) -> FloatArray:  # fmt: skip
    """Say how likely each row has each atom, shape (n_rows, n_atoms).

    Parameters
    ----------
    leaf : int array, shape (n_rows, n_trees)
        Leaves (rows of A) of the first trees.
    label : int array, shape (n_rows,)
    box : bool array, shape (n_rows, n_atoms)
        Atoms of all attributes that a row may have.
    seed : tuple of int
    n_chains : int
        Chains of draws. When the time is up, the others are left out.
    """
    axes = axes_of(geometry)
    parts = [box[:, begin:end] for begin, end in pairwise(axes.atoms.tolist())]
    low = np.column_stack([part.argmax(axis=1) for part in parts])
    last = [part.shape[1] - 1 - part[:, ::-1].argmax(axis=1) for part in parts]
    ends = low, np.column_stack(last)
    tables = best_cuts(geometry, axes, leaf, label, ends)

    def chain(number: int) -> FloatArray:
        if number and clock.stopped:
            return np.zeros(box.shape)
        return _drawn(box, ends, axes, *tables, clock, np.random.default_rng([*seed, number]))

    share = sum(run_all([partial(chain, i) for i in range(n_chains)]), np.zeros(box.shape))
    for a, (begin, end) in enumerate(pairwise(axes.atoms.tolist())):
        part = share[:, begin:end]
        single = ends[0][:, a] == ends[1][:, a]
        part[single] = parts[a][single]
        part /= part.sum(axis=1, keepdims=True)
    return share


def _drawn(
    box: BoolArray,
    ends: tuple[IntArray, IntArray],
    axes: Axes,
    nodes: Nodes,
    rules: Rules,
    clock: Clock,
    rng: np.random.Generator,
) -> FloatArray:
    """Add up over a chain how likely each value was."""
    first = rng.random(box.shape) * box
    parts = np.split(first, axes.atoms[1:-1], axis=1)
    atom = np.column_stack([x.argmax(axis=1) for x in parts])
    sums = sums_of(atom, ends, nodes, axes)
    share = np.zeros(box.shape)
    for sweep in range(_SWEEPS):
        if clock.stopped and sweep >= _LEAST_SWEEPS:
            break
        if sweep == int(_HEARD * _SWEEPS):
            share[:] = 0.0
        cost = _COST * min((sweep + 1) / (_RISING * _SWEEPS), 1.0)
        draw(
            atom, ends, box, sums, nodes, axes, rules, cost,
            rng.permutation(atom.size), rng.random(atom.size), share,
        )  # fmt: skip
    return share


def sums_of(atom: IntArray, ends: tuple[IntArray, IntArray], nodes: Nodes, axes: Axes) -> Sums:
    """Add up values of all rows; beside each other, by bins of neighbours where there are many.

    ``ends``, shape (n_rows, n_attributes) each: first and last atom that each value may have.
    """
    n_atoms = np.diff(axes.atoms)
    n_bins = np.minimum(n_atoms, _BINS)
    number = np.arange(axes.atoms[-1]) - np.repeat(axes.atoms[:-1], n_atoms)
    of = np.repeat([n_atoms, n_bins, np.cumsum(n_bins) - n_bins], n_atoms, axis=1)
    bin_of = of[2] + number * of[1] // of[0]
    few = n_atoms <= _BINS
    weight = np.where((ends[0] != ends[1]) & few, _DRAWN, 1.0)
    at = atom + axes.atoms[:-1]
    rows = np.bincount(at.ravel(), weight.ravel(), len(bin_of)).astype(float) + BEFORE
    one_hot = np.zeros((len(atom), int(n_bins.sum())))
    np.put_along_axis(one_hot, bin_of[at], 1.0, axis=1)
    weighted = one_hot * np.repeat(weight, n_bins, axis=1)
    power = np.where(few, _FEW, _MANY)
    pairs = Pairs(bin_of, weighted.sum(axis=0), weighted.T @ one_hot, weight, power)
    return Sums(rows, pairs, left_sums(atom, nodes, axes), beside(atom, nodes))
