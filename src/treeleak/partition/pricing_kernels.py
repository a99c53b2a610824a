"""Compiled loops that look for the point of the grid with the largest sum of leaf weights.

The bound is Lagrangian: every factor (a tree or a rule) chooses its leaf and its atoms for itself,
and prices per atom, which add up to nothing over the factors, make the choices agree. Sweeps that
level these prices attribute by attribute only ever lower the bound.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeleak.core.compiled import njit, put

_NONE = -np.inf
_CLIMB_EVERY = 8
"""Boxes of which one is climbed in from the point that its prices favour."""


class Node(NamedTuple):
    """Room for the bound of one box."""

    value: Any
    """Shape (n_boxes,). What a leaf is worth to its factor, at best."""
    part_max: Any
    block_max: Any
    """Float arrays, shape (n_parts,), (n_blocks,). Largest price of an atom that is left, in each
    part and block."""
    top: Any
    """Shape (n_factors,). Value of the best leaf."""
    best: Any
    """Shape (n_factors,). The best leaf."""
    group_max: Any
    worth: Any
    """Shape (n_groups,). Largest price of an atom that is left in each group; what the group is
    worth to its factor, at best, without the price."""
    total: Any
    """Shape (n_atoms,). What an atom is worth, at best, to all factors that test the attribute."""
    stamp: Any
    """Shape (n_boxes,)."""
    left: Any
    """Shape (n_atoms,). Atoms of one attribute that are left."""
    live: Any
    parts: Any
    """Int arrays, shape (n_boxes,), (n_parts,). Leaves that the box meets, by factor, and their
    parts, by block."""
    n_live: Any
    n_parts: Any
    """Int arrays, shape (n_factors,), (n_blocks,)."""


class Search(NamedTuple):
    """A stack of boxes that are still to be looked at, and the best point so far."""

    alive: Any
    """Shape (n_slots, n_atoms). Atoms left in each box."""
    depth: Any
    """Shape (n_slots,)."""
    bound: Any
    """Shape (n_slots,). No point of the box is worth more."""
    price: Any
    """Shape (n_depths, n_prices). Prices to start from, by depth."""
    size: Any
    """Shape (1,). Boxes on the stack."""
    point: Any
    """Shape (n_attributes,). The best point."""
    value: Any
    found: Any
    """Shape (1,). Its value; that, or the bound asked for: what a point must be worth more than."""
    pool: Any
    """Shape (n_pool, n_attributes). Points worth more than ``asked``, as they are met."""
    n_pool: Any
    """Shape (1,)."""
    asked: float


@njit()
def _left(a: int, lay: Any, alive: Any, left: Any) -> Any:
    """List the atoms of an attribute that are left; how many."""
    n = 0
    for i in range(lay.atom_start[a], lay.atom_start[a + 1]):
        if alive[i]:
            left[n] = i
            n += 1
    return n


@njit()
def _block_max(b: int, lay: Any, left: Any, price: Any, group_max: Any) -> Any:
    """Write down the largest price of each group of a block; the largest of all."""
    shift = lay.offset[b] - lay.atom_start[lay.attribute[b]]
    group_max[lay.group_start[b] : lay.group_start[b + 1]] = _NONE
    most = _NONE
    for i in left:
        own = price[shift + i]
        g = lay.group[shift + i]
        if own > group_max[g]:
            group_max[g] = own
            if own > most:
                most = own
    return most


@njit()
def _prepare(lay: Any, weight: Any, alive: Any, price: Any, node: Any) -> Any:
    """Value every leaf and list those that the box meets; the bound of the box, or -inf."""
    for a in range(len(lay.atom_start) - 1):
        left = node.left[: _left(a, lay, alive, node.left)]
        for k in range(lay.attribute_blocks[a], lay.attribute_blocks[a + 1]):
            b = lay.blocks[k]
            node.block_max[b] = _block_max(b, lay, left, price, node.group_max)
    node.n_parts[:] = 0
    bound = 0.0
    for f in range(len(lay.leaf_start) - 1):
        free = 0.0
        for b in range(lay.factor_blocks[f], lay.factor_blocks[f + 1]):
            free += node.block_max[b]
        node.top[f] = _NONE
        node.n_live[f] = 0
        for j in range(lay.leaf_start[f], lay.leaf_start[f + 1]):
            value = weight[j] + free
            for p in range(lay.part_start[j], lay.part_start[j + 1]):
                if value == _NONE:
                    break
                most = _NONE
                for e in range(lay.entry_start[p], lay.entry_start[p + 1]):
                    most = max(most, node.group_max[lay.entry[e]])
                node.part_max[p] = most
                value += most - node.block_max[lay.block[p]]
            node.value[j] = value
            if value == _NONE:
                continue
            node.live[lay.leaf_start[f] + node.n_live[f]] = j
            node.n_live[f] += 1
            for p in range(lay.part_start[j], lay.part_start[j + 1]):
                b = lay.block[p]
                node.parts[lay.block_parts[b] + node.n_parts[b]] = p
                node.n_parts[b] += 1
            if value > node.top[f]:
                node.top[f] = value
                node.best[f] = j
        bound += node.top[f]
        if bound == _NONE:
            break
    return bound


@njit()
def _level(a: int, lay: Any, alive: Any, price: Any, node: Any, bound: float, floor: float) -> Any:
    """Level the prices of one attribute and drop its atoms that are not worth ``floor``."""
    begin, end = lay.attribute_blocks[a], lay.attribute_blocks[a + 1]
    left = node.left[: _left(a, lay, alive, node.left)]
    # Prices of a single atom change nothing.
    if begin == end or len(left) == 1:
        return bound
    for i in left:
        node.total[i] = 0.0
    others = bound
    for k in range(begin, end):
        b = lay.blocks[k]
        f = lay.factor[b]
        others -= node.top[f]
        node.worth[lay.group_start[b] : lay.group_start[b + 1]] = _NONE
        for p in node.parts[lay.block_parts[b] : lay.block_parts[b] + node.n_parts[b]]:
            j = lay.leaf[p]
            node.stamp[j] = b
            base = node.value[j] - node.part_max[p]
            if node.value[j] > _NONE:
                for e in range(lay.entry_start[p], lay.entry_start[p + 1]):
                    g = lay.entry[e]
                    node.worth[g] = max(node.worth[g], base)
        anywhere = _NONE
        for j in node.live[lay.leaf_start[f] : lay.leaf_start[f] + node.n_live[f]]:
            if node.stamp[j] != b:
                anywhere = max(anywhere, node.value[j] - node.block_max[b])
        for g in range(lay.group_start[b], lay.group_start[b + 1]):
            node.worth[g] = max(node.worth[g], anywhere)
        shift = lay.offset[b] - lay.atom_start[a]
        for i in left:
            node.total[i] += node.worth[lay.group[shift + i]] + price[shift + i]
    kept = 0
    for i in left:
        if node.total[i] + others > floor:
            left[kept] = i
            kept += 1
        else:
            alive[i] = False
    if kept == 0:
        return _NONE
    left = left[:kept]
    bound = others
    for k in range(begin, end):
        b = lay.blocks[k]
        f = lay.factor[b]
        shift = lay.offset[b] - lay.atom_start[a]
        for i in left:
            price[shift + i] = node.total[i] / (end - begin) - node.worth[lay.group[shift + i]]
        most = _block_max(b, lay, left, price, node.group_max)
        for p in node.parts[lay.block_parts[b] : lay.block_parts[b] + node.n_parts[b]]:
            j = lay.leaf[p]
            node.stamp[j] = -1
            if node.value[j] == _NONE:
                continue
            largest = _NONE
            for e in range(lay.entry_start[p], lay.entry_start[p + 1]):
                largest = max(largest, node.group_max[lay.entry[e]])
            # What the loop over all leaves adds is taken off again.
            node.value[j] += largest - node.part_max[p] - (most - node.block_max[b])
            node.part_max[p] = largest
        top = _NONE
        for j in node.live[lay.leaf_start[f] : lay.leaf_start[f] + node.n_live[f]]:
            node.value[j] += most - node.block_max[b]
            if node.value[j] > top:
                top = node.value[j]
                node.best[f] = j
        node.block_max[b] = most
        node.top[f] = top
        bound += top
    return bound


@njit()
def _tighten(
    lay: Any, weight: Any, alive: Any, price: Any, node: Any, floor: float, sweeps: int
) -> Any:
    """Bound of a box, whose atoms that are not worth ``floor`` are dropped; -inf if none is."""
    n_attributes = len(lay.atom_start) - 1
    before = _prepare(lay, weight, alive, price, node)
    for s in range(sweeps):
        bound = before
        if bound <= floor:
            return _NONE
        for a in range(n_attributes):
            bound = _level(a, lay, alive, price, node, bound, floor)
            if bound <= floor:
                return _NONE
        # What rounding adds up to is thrown away.
        bound = _prepare(lay, weight, alive, price, node)
        stalled = before - bound < 0.02 * (bound - floor) or before - bound < 1e-7
        before = bound
        if stalled and s > 0:
            break
    return before if before > floor else _NONE


@njit()
def _vote(lay: Any, alive: Any, best: Any, votes: Any) -> Any:
    """Count the best leaves that admit each atom; the attribute on which most disagree, or -1."""
    chosen, most = -1, 0
    votes[:] = 0
    for a in range(len(lay.atom_start) - 1):
        voters = 0
        for k in range(lay.attribute_blocks[a], lay.attribute_blocks[a + 1]):
            b = lay.blocks[k]
            j = best[lay.factor[b]]
            for p in range(lay.part_start[j], lay.part_start[j + 1]):
                if lay.block[p] == b:
                    voters += 1
                    shift = lay.offset[b] - lay.atom_start[a]
                    for i in range(lay.atom_start[a], lay.atom_start[a + 1]):
                        votes[i] += lay.admits[lay.table[p] + lay.group[shift + i]]
        agree = 0
        for i in range(lay.atom_start[a], lay.atom_start[a + 1]):
            if alive[i]:
                agree = max(agree, votes[i])
        if voters - agree > most:
            chosen, most = a, voters - agree
    return chosen


@njit()
def _parting(lay: Any, alive: Any, best: Any, votes: Any, disputed: int) -> Any:
    """Choose the part of a best leaf by which to part a box; -1 if the box lies in all of them.

    It parts the attribute in dispute as evenly as can be, if there is one, or else any.
    """
    favourite = -1
    if disputed >= 0:
        for i in range(lay.atom_start[disputed], lay.atom_start[disputed + 1]):
            if alive[i] and (favourite < 0 or votes[i] > votes[favourite]):
                favourite = i
    closest, taken = len(alive), -1
    for f in range(len(best)):
        j = best[f]
        for p in range(lay.part_start[j], lay.part_start[j + 1]):
            a = lay.attribute[lay.block[p]]
            if disputed >= 0 and a != disputed:
                continue
            left, inside, held = 0, 0, False
            shift = lay.offset[lay.block[p]] - lay.atom_start[a]
            for i in range(lay.atom_start[a], lay.atom_start[a + 1]):
                admitted = lay.admits[lay.table[p] + lay.group[shift + i]]
                left += alive[i]
                inside += alive[i] and admitted
                held |= i == favourite and admitted
            if inside < left and not held and abs(2 * inside - left) < closest:
                closest, taken = abs(2 * inside - left), p
    return taken


class Open(NamedTuple):
    """What is open: the leaves of each factor and the parts of each block, before their ends."""

    leaves: Any
    parts: Any
    """Int arrays, shape (n_boxes,), (n_parts,). Laid out like the layout's own."""
    leaf_stop: Any
    part_stop: Any
    """Int arrays, shape (n_factors,), (n_blocks,)."""
    cost: float
    """A closed leaf costs more than all open ones are worth."""


@njit()
def opened(lay: Any, weight: Any) -> Any:
    """List the leaves with weights, and their parts."""
    leaves, parts = np.empty(len(lay.row), np.int64), np.empty(len(lay.leaf), np.int64)
    leaf_stop = lay.leaf_start[:-1].astype(np.int64)
    part_stop = lay.block_parts[:-1].astype(np.int64)
    cost = 1.0
    for f in range(len(leaf_stop)):
        high, low = _NONE, np.inf
        for j in range(lay.leaf_start[f], lay.leaf_start[f + 1]):
            if weight[j] == _NONE:
                continue
            high, low = max(high, weight[j]), min(low, weight[j])
            leaves[leaf_stop[f]] = j
            leaf_stop[f] += 1
            for p in range(lay.part_start[j], lay.part_start[j + 1]):
                b = lay.block[p]
                parts[part_stop[b]] = p
                part_stop[b] += 1
        if high > low:
            cost += high - low
    return Open(leaves, parts, leaf_stop, part_stop, cost)


@njit()
def climb(
    lay: Any, weight: Any, open_: Any, point: Any, sweeps: int, hotness: float, rng: Any
) -> Any:
    """Change one attribute at a time, in place, for a larger sum; the sum.

    With hotness, atoms are drawn by what they are worth; it falls to nothing over the sweeps.
    """
    n_attributes = len(point)
    n_factors = len(lay.leaf_start) - 1
    # Attributes in which a leaf does not admit the point.
    wrong = np.zeros(len(weight), dtype=np.int32)
    for b in range(len(lay.attribute)):
        g = lay.group[lay.offset[b] + point[lay.attribute[b]]]
        for p in open_.parts[lay.block_parts[b] : open_.part_stop[b]]:
            wrong[lay.leaf[p]] += not lay.admits[lay.table[p] + g]
    gain = np.zeros(lay.atom_start[-1])
    own = np.zeros(lay.group_start[-1])
    stamp = np.full(len(weight), -1, dtype=np.int32)
    for s in range(sweeps):
        changed = False
        temperature = hotness * (1.0 - s / sweeps)
        for _ in range(n_attributes):
            a = int(rng.random() * n_attributes) if hotness > 0 else _
            first, last = lay.atom_start[a], lay.atom_start[a + 1]
            gain[first:last] = 0.0
            for k in range(lay.attribute_blocks[a], lay.attribute_blocks[a + 1]):
                b = lay.blocks[k]
                f = lay.factor[b]
                here = lay.group[lay.offset[b] + point[a]]
                own[lay.group_start[b] : lay.group_start[b + 1]] = -open_.cost
                for p in open_.parts[lay.block_parts[b] : open_.part_stop[b]]:
                    j = lay.leaf[p]
                    stamp[j] = b
                    # No other attribute keeps the leaf from admitting the point.
                    if wrong[j] == (0 if lay.admits[lay.table[p] + here] else 1):
                        for e in range(lay.entry_start[p], lay.entry_start[p + 1]):
                            own[lay.entry[e]] = weight[j]
                for j in open_.leaves[lay.leaf_start[f] : open_.leaf_stop[f]]:
                    if stamp[j] != b and wrong[j] == 0:
                        own[lay.group_start[b] : lay.group_start[b + 1]] = weight[j]
                shift = lay.offset[b] - first
                for i in range(first, last):
                    gain[i] += own[lay.group[shift + i]]
            best, most = first + point[a], gain[first + point[a]]
            if temperature > 0:
                most = _NONE
            for i in range(first, last):
                worth = gain[i]
                if temperature > 0:
                    worth -= temperature * np.log(-np.log(max(rng.random(), 1e-300)))
                if worth > most:
                    best, most = i, worth
            new = best - first
            if new == point[a]:
                continue
            changed = True
            for k in range(lay.attribute_blocks[a], lay.attribute_blocks[a + 1]):
                b = lay.blocks[k]
                was = lay.group[lay.offset[b] + point[a]]
                now = lay.group[lay.offset[b] + new]
                if was == now:
                    continue
                for p in open_.parts[lay.block_parts[b] : open_.part_stop[b]]:
                    inside = int(lay.admits[lay.table[p] + was])
                    wrong[lay.leaf[p]] += inside - int(lay.admits[lay.table[p] + now])
            point[a] = new
        if not changed and temperature == 0:
            break
    worth = 0.0
    for f in range(n_factors):
        reached = _NONE
        for j in open_.leaves[lay.leaf_start[f] : open_.leaf_stop[f]]:
            if wrong[j] == 0:
                reached = weight[j]
        worth += reached
    return worth


@njit()
def climb_all(lay: Any, weight: Any, points: Any, sweeps: int, hotness: float, rng: Any) -> Any:
    """Climb from every point, in place; the sums."""
    open_ = opened(lay, weight)
    out = np.empty(len(points))
    for k in range(len(points)):
        out[k] = climb(lay, weight, open_, points[k], sweeps, hotness, rng)
    return out


@njit()
def explore(
    lay: Any, weight: Any, search: Any, node: Any, nodes: int, sweeps: int, gap: float, rng: Any
) -> Any:
    """Look at up to ``nodes`` boxes of the stack; how many it looked at."""
    n_atoms = len(search.alive[0])
    n_attributes = len(lay.atom_start) - 1
    votes = np.zeros(n_atoms, dtype=np.int64)
    point = np.zeros(n_attributes, dtype=np.int32)
    deepest = len(search.price) - 1
    open_ = opened(lay, weight)
    done = 0
    while done < nodes and search.size[0] > 0 and search.n_pool[0] < len(search.pool):
        slot = search.size[0] - 1
        floor = search.found[0] + gap
        if search.bound[slot] <= floor:
            search.size[0] -= 1
            continue
        done += 1
        depth = min(search.depth[slot], deepest)
        below = min(depth + 1, deepest)
        alive, price = search.alive[slot], search.price[below]
        if below != depth:
            put(price, search.price[depth])
        bound = _tighten(lay, weight, alive, price, node, floor, sweeps)
        bound = min(bound, search.bound[slot])
        if bound == _NONE:
            search.size[0] -= 1
            continue
        disputed = _vote(lay, alive, node.best, votes)
        for a in range(n_attributes):
            chosen, most = -1, 0.0
            for i in range(lay.atom_start[a], lay.atom_start[a + 1]):
                worth = node.total[i] if disputed >= 0 else float(votes[i])
                if alive[i] and (chosen < 0 or worth > most):
                    chosen, most = i, worth
            point[a] = chosen - lay.atom_start[a]
        worth = climb(lay, weight, open_, point, 0 if done % _CLIMB_EVERY else 4, 0.0, rng)
        if worth > search.asked:
            put(search.pool[search.n_pool[0]], point)
            search.n_pool[0] += 1
        if worth > search.found[0]:
            search.found[0] = search.value[0] = worth
            put(search.point, point)
        taken = _parting(lay, alive, node.best, votes, disputed)
        if taken < 0:
            search.size[0] -= 1
            continue
        put(search.alive[slot + 1], alive)
        search.bound[slot : slot + 2] = bound
        search.depth[slot : slot + 2] = search.depth[slot] + 1
        # What the other leaves prefer lies in the second half, which is looked at first.
        b = lay.block[taken]
        a = lay.attribute[b]
        for i in range(lay.atom_start[a], lay.atom_start[a + 1]):
            g = lay.group[lay.offset[b] + i - lay.atom_start[a]]
            search.alive[slot + 1, i] = alive[i] and not lay.admits[lay.table[taken] + g]
            alive[i] = alive[i] and lay.admits[lay.table[taken] + g]
        search.size[0] += 1
    return done
