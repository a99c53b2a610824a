"""Compiled loops of the chains that walk over datasets. Every loop releases the GIL.

An *equation* is a leaf and a class, numbered leaf * n_classes + class. ``rows`` holds
a = (A m)_tvc, how many rows of the dataset lie there. With hidden draws, ``seen`` holds what the
release counts there, either draws n or distinct rows d; with noise, the law has a table of what a
further row is worth; and where leaves name a class only, that follows from all rows of the leaf.
Where draws are known, ``rows`` holds by how much each equation counts too many draws, and behind
the classes of each leaf by how much it counts too many distinct rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeleak.attacks.kernels import draw_scored, uniform
from treeleak.attacks.posterior.grid_kernels import (
    drop,
    log_prior_of,
    log_priors_of,
    obeys,
    point_of,
    set_log_priors,
)
from treeleak.attacks.posterior.hidden_kernels import split
from treeleak.attacks.posterior.label_kernels import look_at_leaf, relabelled
from treeleak.attacks.posterior.prior_kernels import draw_row, relearn
from treeleak.core.compiled import njit, put

DRAWS, DISTINCT, GAINS, NAMES, KNOWN, KNOWN_DISTINCT = range(6)
"""What leaves say: draws or distinct rows of hidden draws, a table of gains, one class, or draws
that are known, without distinct rows or with them."""


class GridArrays(NamedTuple):
    """What a row can be, and into which leaves it falls."""

    radix: Any
    start: Any
    """Shape (n_attributes + 1,). Atoms of each attribute, and the number of its first one; the last
    attribute is the class."""
    listed: Any
    """Bool. Whether grid points are listed: where that is small enough."""
    stride: Any
    """Shape (n_attributes,) or (0,). As in :attr:`Geometry.stride`, where points are listed."""
    table: Any
    """Shape (n_points, n_trees) or (0, n_trees). Leaves of every grid point that is listed."""
    rule_start: Any
    """Shape (n_tables,). Where each table of ``valid`` begins: one over all points, where they are
    listed, else one per rule of the schema; none without rules."""
    rule_stride: Any
    """Shape (n_tables, n_attributes). Weight of each atom in the place in a table; 0 for attributes
    of which it does not speak."""
    valid: Any
    """Bool array. What the schema's rules allow."""
    until: Any
    """Shape (n_tested,). Per test and atom, the next atom that goes another way."""
    root: Any
    attribute: Any
    test: Any
    left: Any
    right: Any
    goes_left: Any
    """The compiled trees: see :class:`Geometry`."""


class Moves(NamedTuple):
    """What may change, and how often each kind of change is tried."""

    open_rows: Any
    """Int32 array. Rows of which something is not known."""
    group: Any
    """Shape (n_rows,)."""
    allowed: Any
    """Shape (n_groups, n_atoms). As in :class:`KnownParts`."""
    open_start: Any
    """Shape (n_groups + 1,)."""
    open_attribute: Any
    """Int32 array. The attributes that are open in a group."""
    swaps: Any
    jumps: Any
    fresh: Any
    gibbs_share: Any
    """Float. Shares of the moves; fresh ones send a row to a place drawn from the prior, Gibbs
    steps weigh all atoms of an attribute."""
    single: Any
    """Float. Share of the swaps in which rows exchange one attribute."""
    jump_start: Any
    """Shape (n_groups + 1,). Where the pairs begin to which the rows of a group jump."""
    jump_sum: Any
    """Shape (n_jumps,). Their weights, cumulated within the group."""
    jump_pair: Any
    """Shape (n_jumps,). Their numbers, point * n_classes + class."""
    jump_log: Any
    """Shape (n_points * n_classes,). Log weight of every pair; -inf where it is not jumped to."""


class Prior(NamedTuple):
    """Log probability of a row, as a tree of attributes or as a table over all pairs."""

    parent: Any
    """Shape (n_attributes + 1,). The attribute on which each depends; -1 for the root."""
    bin: Any
    """Shape (n_attributes + 1, most atoms). Atoms of a parent that make no difference below it have
    the same number."""
    offset: Any
    """Shape (n_attributes + 1,). Where its table begins: bin of the parent's atom times own radix
    plus own atom."""
    log_share: Any
    """Float64 array."""
    tabled: Any
    """Bool. Whether it is the table, or the tree."""
    grid: Any
    """Shape (n_points * n_classes,). The table."""
    order: Any
    """Shape (n_attributes + 1,) or (0,). Attributes, parents first; needed for fresh moves."""


class LikelihoodArrays(NamedTuple):
    """How what is seen of an equation depends on the rows in it."""

    evidence: Any
    """Int. What leaves say: see :data:`DRAWS` and those beside it."""
    log: Any
    """Float64 array. Logarithms of 0 (never asked for), 1, 2, ..."""
    start: Any
    """Shape (n_mixed + 1,). Where the equations begin of each leaf whose distinct rows split among
    classes."""
    equation: Any
    """Int32 array. Those of them that count any draws."""
    draws: Any
    """Shape (n_equations,)."""
    table: Any
    """Float64 array. Log surj(n, d) for small n: see :func:`log_surjections`."""
    log_factorial: Any
    """Float64 array."""
    every: Any
    """Int. Steps between two looks at the splits; 0 for never."""
    offset: Any
    """Shape (n_equations,). Where the gains of each equation begin in ``gain``; for ``GAINS``."""
    gain: Any
    """Float64 array. Change of the log likelihood when a row joins none, one, two, ..."""
    named: Any
    """Shape (n_leaves,). The class that each leaf names, -1 where it names none; for ``NAMES``."""
    rule: Any
    """Int. How a leaf chooses: see :data:`RULES`."""
    scale: Any
    """Float. As in :class:`LabelNoise`."""


class State(NamedTuple):
    """One dataset on its walk."""

    atoms: Any
    """Shape (n_rows, n_attributes + 1). Atom of each attribute, counted from 0 in each; the class
    is the last."""
    leaves: Any
    """Shape (n_rows, n_trees)."""
    rows: Any
    seen: Any
    """Shape (n_equations,). What lies in each equation, and what is counted there."""
    log_prior: Any
    """Shape (n_rows,)."""
    rng: Any
    """Shape (1,)."""


@njit(inline=True)
def _gain(a: int, seen: int, distinct: bool, penalty: float, log: Any) -> float:
    """Change of the log likelihood when a row joins the a that lie in an equation.

    log (a + 1)^n - log a^n for n draws; log C(a + 1, d) - log C(a, d) for d distinct rows. What no
    draw could give, n > 0 of a = 0 or d > a, costs ``penalty`` per draw or row missing.
    """
    if seen == 0:
        return 0.0
    if distinct:
        return penalty if a < seen else log[a + 1] - log[a + 1 - seen]
    return penalty if a == 0 else seen * (log[a + 1] - log[a])


@njit()
def _flip(rng: Any, atom: Any, g: int, grid: Any, moves: Any) -> None:
    """Give one open attribute of a row another atom."""
    n_open = moves.open_start[g + 1] - moves.open_start[g]
    a = moves.open_attribute[moves.open_start[g] + int(uniform(rng) * n_open)]
    new = int(uniform(rng) * (grid.radix[a] - 1))
    atom[a] = new + 1 if new >= atom[a] else new


@njit()
def _exchanged(
    state: Any, i: int, j: int, first: Any, second: Any, grid: Any, moves: Any, ordered: bool
) -> bool:
    """Exchange some attributes of two rows that may be; False if that comes to nothing.

    Where rows are told apart (``ordered``), two may exchange all, and their classes.
    """
    put(first, state.atoms[i])
    put(second, state.atoms[j])
    differ, exchanged = 0, 0
    all_ = ordered and uniform(state.rng) < 0.5
    if moves.single > 0 and uniform(state.rng) < moves.single:
        one, n = -1, 0
        for a in range(len(first) - 1):
            if first[a] != second[a] and (
                moves.allowed[moves.group[i], grid.start[a] + second[a]]
                and moves.allowed[moves.group[j], grid.start[a] + first[a]]
            ):
                n += 1
                if uniform(state.rng) * n < 1.0:
                    one = a
        if one >= 0:
            first[one], second[one] = second[one], first[one]
        return one >= 0
    # Else, exchanging the classes as well would be exchanging the other attributes instead.
    for a in range(len(first) if ordered else len(first) - 1):
        if first[a] != second[a]:
            differ += 1
            legal = moves.allowed[moves.group[i], grid.start[a] + second[a]]
            legal &= moves.allowed[moves.group[j], grid.start[a] + first[a]]
            if legal and (all_ or uniform(state.rng) < 0.5):
                exchanged += 1
                first[a], second[a] = second[a], first[a]
    interchangeable = moves.group[i] == moves.group[j] and first[-1] == second[-1] and not ordered
    return exchanged > 0 and not (interchangeable and exchanged == differ)


@njit()
def _look(e: int, state: Any, law: Any, penalty: float, tally: Any) -> None:
    """Note what it changes if a row joins equation e, and if one leaves it."""
    a = state.rows[e]
    if law.evidence == GAINS:
        at = law.offset[e] + a
        tally[e, 0] = law.gain[at]
        tally[e, 1] = law.gain[at - 1] if a > 0 else 0.0
        return
    if law.evidence == NAMES:
        look_at_leaf(e, state.rows, law, penalty, tally)
        return
    seen = state.seen[e]
    distinct = law.evidence == DISTINCT
    tally[e, 0] = _gain(a, seen, distinct, penalty, law.log)
    tally[e, 1] = _gain(a - 1, seen, distinct, penalty, law.log) if a > 0 else 0.0


@njit(fastmath=True)
def _moved(tally: Any, old_leaf: Any, new_leaf: Any, old: int, new: int, n_classes: int) -> float:
    """Change of the log likelihood when one row goes from leaves and class to others."""
    change = 0.0
    if new != old:
        for t in range(len(new_leaf)):
            change += tally[new_leaf[t] * n_classes + new, 0]
            change -= tally[old_leaf[t] * n_classes + old, 1]
        return change
    for t in range(len(new_leaf)):
        # Without a branch: which trees tell two rows apart cannot be foreseen.
        step = tally[new_leaf[t] * n_classes + new, 0] - tally[old_leaf[t] * n_classes + old, 1]
        change += step * (new_leaf[t] != old_leaf[t])
    return change


@njit()
def _swapped(
    old_i: Any, new_i: Any, old_j: Any, new_j: Any, c: int, k: int, n_classes: int, tally: Any
) -> float:
    """Change of the log likelihood when rows i and j, of classes c and k, exchange attributes."""
    change = 0.0
    for t in range(len(new_i)):
        from_i, to_i = old_i[t] * n_classes + c, new_i[t] * n_classes + c
        from_j, to_j = old_j[t] * n_classes + k, new_j[t] * n_classes + k
        if (from_i == to_i and from_j == to_j) or (from_i == to_j and from_j == to_i):
            continue
        if from_j == to_j:
            change += tally[to_i, 0] - tally[from_i, 1]
        elif from_i == to_i:
            change += tally[to_j, 0] - tally[from_j, 1]
        elif from_i == to_j:
            change += tally[to_i, 0] - tally[from_j, 1]
        elif from_j == to_i:
            change += tally[to_j, 0] - tally[from_i, 1]
        else:
            # Each leaf is a product of sets: rows never leave or reach one together.
            change += tally[to_i, 0] - tally[from_i, 1]
            change += tally[to_j, 0] - tally[from_j, 1]
    return change


@njit()
def _gains(
    i: int, a: int, state: Any, grid: Any, n_classes: int, tally: Any, stack: Any, out: Any
) -> None:
    """What row i is worth to the likelihood, in place, for each atom of one attribute.

    Every tree is walked once, with all atoms at a time: they part where it tests the attribute.
    """
    atom = state.atoms[i]
    c, r = atom[-1], grid.radix[a]
    out[: r + 1] = 0.0
    for t in range(len(grid.root)):
        stack[0, 0], stack[0, 1], stack[0, 2] = grid.root[t], 0, r
        top = 1
        while top > 0:
            top -= 1
            v, low, high = stack[top, 0], stack[top, 1], stack[top, 2]
            while grid.attribute[v] >= 0:
                tested = grid.attribute[v]
                at = grid.test[v] + (low if tested == a else atom[tested])
                here = grid.left[v] if grid.goes_left[at] else grid.right[v]
                if tested == a:
                    x = min(low + grid.until[at], high)
                    end = x
                    while x < high:
                        at = grid.test[v] + x
                        stack[top, 0] = grid.left[v] if grid.goes_left[at] else grid.right[v]
                        stack[top, 1] = x
                        x = min(x + grid.until[at], high)
                        stack[top, 2] = x
                        top += 1
                    high = end
                v = here
            leaf = grid.left[v]
            e = leaf * n_classes + c
            gain = tally[e, 1] if leaf == state.leaves[i, t] else tally[e, 0]
            out[low] += gain
            out[high] -= gain
    for x in range(1, r):
        out[x] += out[x - 1]


@njit()
def _drawn(i: int, a: int, atom: Any, log_weight: Any, state: Any, grid: Any, moves: Any) -> int:
    """Draw an atom of an attribute for row i, by weights, among those that it may have."""
    r, g = grid.radix[a], moves.group[i]
    has_rules = len(grid.rule_start) > 0
    for x in range(r):
        legal = moves.allowed[g, grid.start[a] + x]
        if legal and has_rules:
            atom[a] = x
            legal = obeys(atom, grid)
        log_weight[x] = log_weight[x] if legal else -np.inf
    return draw_scored(log_weight, r, state.rng)


@njit()
def _settle(
    i: int, atom: Any, leaf: Any, n_classes: int, state: Any, law: Any, penalty: float, tally: Any
) -> None:
    """Let row i lie elsewhere; where draws are known, they are counted there already."""
    last = len(atom) - 1
    for t in range(len(leaf) if law.evidence < KNOWN else 0):
        e = state.leaves[i, t] * n_classes + state.atoms[i, last]
        f = leaf[t] * n_classes + atom[last]
        if e != f:
            state.rows[e] -= 1
            state.rows[f] += 1
            _look(e, state, law, penalty, tally)
            _look(f, state, law, penalty, tally)
    put(state.leaves[i], leaf)
    put(state.atoms[i], atom)


@njit()
def _carried(
    draws: Any, old_leaf: Any, new_leaf: Any, old: int, new: int, n_classes: int, state: Any,
    law: Any,
) -> int:  # fmt: skip
    """Let the draws of a row go from leaves and class to others, in place.

    ``draws``, shape (n_trees,): how often each tree drew it. Returns how many more are missed:
    the change of the sum of |A m - n|.
    """
    width, change, excess = n_classes + 1, 0, state.rows
    for t in range(len(draws)):
        b, u, v = draws[t], old_leaf[t], new_leaf[t]
        if b == 0 or (u == v and old == new):
            continue
        change += _shifted(excess, u * width + old, v * width + new, b)
        if law.evidence == KNOWN_DISTINCT and u != v:
            change += _shifted(excess, u * width + n_classes, v * width + n_classes, 1)
    return change


@njit(inline=True)
def _shifted(excess: Any, e: int, f: int, b: int) -> int:
    was = abs(excess[e]) + abs(excess[f])
    excess[e] -= b
    excess[f] += b
    return abs(excess[e]) + abs(excess[f]) - was  # type: ignore[no-any-return]


def room_for_gibbs(radix: Any) -> tuple[Any, Any, Any]:
    """Arrays that a walk with Gibbs steps writes into: gains, weights and a stack of nodes."""
    most = int(radix.max()) + 1
    return np.empty(most), np.empty(most), np.empty((most, 3), np.int32)


@njit()
def walk(
    steps: int,
    temperature: float,
    penalty: float,
    state: Any,
    law: Any,
    grid: Any,
    moves: Any,
    prior: Any,
    hierarchy: Any,
    room: Any,
    draws: Any,
) -> int:
    """Metropolis-Hastings over the rows of a dataset, and Gibbs steps over the rest, in place.

    The target is the posterior, the prior of every row times the likelihood, to the power of
    1 / temperature; while it is learned what rows are like, only the likelihood is tempered.
    ``penalty`` is that of a missing row, or draw. ``room`` is None where no move is a Gibbs step:
    without them, the loop is compiled to a faster one. ``draws``, shape (n_rows, n_trees): how
    often each tree drew each row; None where that is not known.

    Returns moves that were taken.
    """
    rng, atoms, leaves, log_prior = state.rng, state.atoms, state.leaves, state.log_prior
    n_trees, n_attributes = leaves.shape[1], atoms.shape[1] - 1
    n_classes, n_open = grid.radix[n_attributes], len(moves.open_rows)
    first, second = np.empty(atoms.shape[1], np.int16), np.empty(atoms.shape[1], np.int16)
    leaf, other = np.empty(n_trees, np.int32), np.empty(n_trees, np.int32)
    tally = np.empty((len(state.rows), 2))
    cold = 1.0 / temperature
    cold_prior = 1.0 if hierarchy.every > 0 else cold
    taken, has_rules = 0, len(grid.rule_start) > 0
    if n_open == 0:
        return 0
    if draws is None:
        for e in range(len(state.rows)):
            _look(e, state, law, penalty, tally)
    for step in range(steps):
        if law.every > 0 and step % law.every == 0:
            split(temperature, penalty, state, law)
            for e in law.equation:
                _look(int(np.int64(e)), state, law, penalty, tally)
        if hierarchy.every > 0 and step % hierarchy.every == 0:
            relearn(rng, atoms, grid, hierarchy)
            set_log_priors(state, grid, prior)
        i = moves.open_rows[int(uniform(rng) * n_open)]
        g = moves.group[i]
        kind = uniform(rng)
        if kind < moves.swaps:
            j = moves.open_rows[int(uniform(rng) * n_open)]
            if not _exchanged(state, i, j, first, second, grid, moves, draws is not None):
                continue
            c, k = first[n_attributes], second[n_attributes]
            here, there = point_of(first, grid.stride), point_of(second, grid.stride)
            if has_rules and not (obeys(first, grid) and obeys(second, grid)):
                continue
            log_first = log_prior_of(first, here * n_classes + c, prior, grid.radix)
            log_second = log_prior_of(second, there * n_classes + k, prior, grid.radix)
            drop(first, here, grid, leaf)
            drop(second, there, grid, other)
            if draws is not None:
                was_c, was_k = atoms[i, n_attributes], atoms[j, n_attributes]
                missed = _carried(draws[i], leaves[i], leaf, was_c, c, n_classes, state, law)
                missed += _carried(draws[j], leaves[j], other, was_k, k, n_classes, state, law)
                change = -penalty * missed
            else:
                change = _swapped(leaves[i], leaf, leaves[j], other, c, k, n_classes, tally)
            change *= cold
            change += cold_prior * (log_first + log_second - log_prior[i] - log_prior[j])
            if change >= 0.0 or uniform(rng) < np.exp(change):
                _settle(i, first, leaf, n_classes, state, law, penalty, tally)
                _settle(j, second, other, n_classes, state, law, penalty, tally)
                log_prior[i], log_prior[j] = log_first, log_second
                taken += 1
            elif draws is not None:
                was_c, was_k = atoms[i, n_attributes], atoms[j, n_attributes]
                _carried(draws[j], other, leaves[j], k, was_k, n_classes, state, law)
                _carried(draws[i], leaf, leaves[i], c, was_c, n_classes, state, law)
            continue
        put(first, atoms[i])
        if room is not None and kind >= 1.0 - moves.gibbs_share:
            gain, weight, stack = room
            n_attributes_open = moves.open_start[g + 1] - moves.open_start[g]
            a = moves.open_attribute[moves.open_start[g] + int(uniform(rng) * n_attributes_open)]
            if a == n_attributes:
                continue
            _gains(i, a, state, grid, n_classes, tally, stack, gain)
            log_priors_of(first, a, prior, grid.radix, weight)
            now = weight[first[a]]
            for x in range(grid.radix[a]):
                gain[x] = cold * gain[x] + cold_prior * weight[x]
            new = _drawn(i, a, first, gain, state, grid, moves)
            first[a] = new
            if new != atoms[i, a]:
                drop(first, 0, grid, leaf)
                _settle(i, first, leaf, n_classes, state, law, penalty, tally)
                log_prior[i] += weight[new] - now
                taken += 1
            continue
        old = first[n_attributes]
        proposal, fresh = 0.0, False
        if kind < moves.swaps + moves.jumps:
            begin, end = moves.jump_start[g], moves.jump_start[g + 1]
            if begin == end:
                continue
            cumulative = moves.jump_sum[begin:end]
            at = begin + np.searchsorted(cumulative, uniform(rng) * cumulative[-1], side="right")
            pair = moves.jump_pair[min(at, end - 1)]
            rest = pair // n_classes
            for a in range(n_attributes):
                first[a] = rest // grid.stride[a] % grid.radix[a]
            first[n_attributes] = pair % n_classes
            was = point_of(atoms[i], grid.stride) * n_classes + old
            proposal = moves.jump_log[was] - moves.jump_log[pair]
        elif kind < moves.swaps + moves.jumps + moves.fresh:
            draw_row(rng, first, grid, prior)
            fresh = True
        else:
            _flip(rng, first, g, grid, moves)
            if uniform(rng) < 0.3:
                _flip(rng, first, g, grid, moves)
        new = first[n_attributes]
        same, legal = True, True
        for a in range(n_attributes + 1):
            same &= first[a] == atoms[i, a]
            legal &= moves.allowed[g, grid.start[a] + first[a]]
        if same or not legal:
            continue
        point = point_of(first, grid.stride)
        if has_rules and not obeys(first, grid):
            continue
        log_first = log_prior_of(first, point * n_classes + new, prior, grid.radix)
        drop(first, point, grid, leaf)
        if draws is not None:
            missed = _carried(draws[i], leaves[i], leaf, old, new, n_classes, state, law)
            change = -penalty * missed
        else:
            change = _moved(tally, leaves[i], leaf, old, new, n_classes)
        if new != old and law.evidence == NAMES:
            same_leaves = leaf[leaf == leaves[i]]
            change += relabelled(same_leaves, old, new, state.rows, law, penalty, tally)
        if fresh:
            proposal = log_prior[i] - log_first
        change = cold * change + cold_prior * (log_first - log_prior[i]) + proposal
        if change >= 0.0 or uniform(rng) < np.exp(change):
            _settle(i, first, leaf, n_classes, state, law, penalty, tally)
            log_prior[i] = log_first
            taken += 1
        elif draws is not None:
            _carried(draws[i], leaf, leaves[i], new, old, n_classes, state, law)
    return taken
