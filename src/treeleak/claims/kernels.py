"""Compiled loops over nodes and boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.core.compiled import njit

_MISSING_BIT = 62
_DEEPEST = 10_100
"""More than a tree has levels."""


@njit()
def _left(nodes: Any, v: int, atom: int) -> Any:
    if atom < 0:
        return nodes.missing_left[v]
    if nodes.members[v] >= 0:
        return (nodes.members[v] >> atom) & 1 == 1
    return atom <= nodes.code[v]


@njit()
def apply(nodes: Any, rows: Any) -> Any:
    """Find the leaf of each row in each tree."""
    n_trees = len(nodes.root) - 1
    out = np.empty((len(rows), n_trees), dtype=np.int32)
    for i in range(len(rows)):
        for t in range(n_trees):
            v = nodes.root[t]
            while nodes.feature[v] >= 0:
                goes = _left(nodes, v, rows[i, nodes.feature[v]])
                v = nodes.left[v] if goes else nodes.right[v]
            out[i, t] = v
    return out


@njit()
def boxes(nodes: Any, chosen: Any) -> Any:
    """Write what nodes admit: the atoms of each column from low to high, and bits."""
    n, m, q = len(chosen), len(nodes.top), len(nodes.bits)
    low = np.zeros((n, m), dtype=np.int32)
    high = np.empty((n, m), dtype=np.int32)
    bits = np.empty((n, q), dtype=np.int64)
    missing = np.int64(1) << _MISSING_BIT
    for i in range(n):
        for c in range(m):
            high[i, c] = nodes.top[c]
        for s in range(q):
            bits[i, s] = nodes.bits[s]
        v = chosen[i]
        while nodes.parent[v] >= 0:
            above = nodes.parent[v]
            c, goes_left = nodes.feature[above], nodes.left[above] == v
            if nodes.members[above] < 0:
                if goes_left:
                    high[i, c] = min(high[i, c], nodes.code[above])
                else:
                    low[i, c] = max(low[i, c], nodes.code[above] + 1)
            s = nodes.special[c]
            if s >= 0:
                kept = missing if nodes.missing_left[above] == goes_left else np.int64(0)
                if nodes.members[above] >= 0:
                    members = nodes.members[above]
                    kept |= members if goes_left else ~members & ~missing
                bits[i, s] &= kept
            v = above
    return low, high, bits


@njit()
def _inside(special: Any, low: Any, high: Any, bits: Any, wlow: Any, whigh: Any, wbits: Any) -> Any:
    """Whether a box, not empty, lies within another."""
    for c in range(len(special)):
        if low[c] <= high[c] and (low[c] < wlow[c] or high[c] > whigh[c]):
            return False
    outside = np.int64(0)
    for s in range(len(bits)):
        outside |= bits[s] & ~wbits[s]
    return outside == 0


@njit()
def _meet(special: Any, low: Any, high: Any, bits: Any, wlow: Any, whigh: Any, wbits: Any) -> Any:
    """Whether two boxes have a point in common."""
    for c in range(len(special)):
        if max(low[c], wlow[c]) > min(high[c], whigh[c]):
            s = special[c]
            if s < 0 or not bits[s] & wbits[s]:
                return False
    return True


@njit()
def _holds(nodes: Any, low: Any, high: Any, bits: Any, row: Any) -> Any:
    """Whether a box holds a row."""
    for c in range(len(row)):
        x = row[c]
        if x >= 0 and nodes.top[c] >= 0:
            if x < low[c] or x > high[c]:
                return False
            continue
        s = nodes.special[c]
        if s < 0 or not (bits[s] >> (x if x >= 0 else _MISSING_BIT)) & 1:
            return False
    return True


@njit()
def differences(
    nodes: Any, all_: Any, amounts: Any, sides: Any, below: Any, chosen: Any, found: Any
) -> Any:
    """Find nodes of which all people but one lie in nodes of another tree inside them.

    ``all_``: boxes of all nodes. ``amounts``: people by class, and all together last. ``sides``:
    which ends of columns each node bounds, as bits; ``below``: those that any leaf below it does.
    ``found``, shape (most, 4): node, other tree, class or -1, whether others of other classes may
    be there, too. Returns how many were found, and how many nodes were visited.
    """
    low, high, bits = all_
    n_trees, n_classes = len(nodes.root) - 1, amounts.shape[1] - 1
    inside = np.zeros(n_classes + 1, dtype=np.int64)
    stack = np.empty(_DEEPEST, dtype=np.int32)
    n = visits = 0
    for a in chosen:
        for t in range(n_trees):
            visits += 1
            if t == nodes.tree[a] or sides[a] & ~below[nodes.root[t]]:
                continue
            inside[:] = 0
            stack[0], size = nodes.root[t], 1
            while size:
                size -= 1
                v = stack[size]
                visits += 1
                if sides[a] & ~below[v] or amounts[v, n_classes] == 0:
                    continue
                if not sides[a] & ~sides[v] and _inside(
                    nodes.special, low[v], high[v], bits[v], low[a], high[a], bits[a]
                ):
                    for y in range(n_classes + 1):
                        inside[y] += amounts[v, y]
                    continue
                c = nodes.feature[v]
                if c < 0:
                    continue
                open_ = nodes.special[c] >= 0
                if open_ or low[a, c] <= nodes.code[v]:
                    stack[size] = nodes.left[v]
                    size += 1
                if open_ or high[a, c] > nodes.code[v]:
                    stack[size] = nodes.right[v]
                    size += 1
            if inside[n_classes] == 0 or n + n_classes + 1 >= len(found):
                continue
            one = amounts[a, n_classes] - inside[n_classes] == 1
            label = -1
            for y in range(n_classes):
                if amounts[a, y] - inside[y] != 1:
                    continue
                label = y
                if not one and amounts[a, y] > 1:
                    found[n, 0], found[n, 1], found[n, 2], found[n, 3] = a, t, y, 1
                    n += 1
            if one:
                found[n, 0], found[n, 1], found[n, 2], found[n, 3] = a, t, label, 0
                n += 1
    return n, visits


@njit()
def narrow(
    nodes: Any, all_: Any, tight: Any, people: Any, amounts: Any, node: Any, other: Any,
    label: Any, region: Any,
) -> Any:  # fmt: skip
    """Narrow the regions of people by the leaves that each must lie in, in every other tree.

    A leaf cannot hold a person where it counts nobody (of the class), where it does not meet the
    region, or where it is one of those that hold others. If a leaf that counts one person lies
    within a region that holds one person, it is this one.

    ``tight``: boxes of all nodes, or less where their people are known to lie in less. ``people``
    of each node, and ``amounts`` by class and all together last. ``label``: class, or -1.
    ``region``: boxes, changed in place; left as it is where no leaf is left. Returns how many nodes
    were visited.
    """
    low, high, bits = all_
    tlow, thigh, tbits = tight
    rlow, rhigh, rbits = region
    n_trees, m, q = len(nodes.root) - 1, len(nodes.top), len(nodes.bits)
    stack = np.empty(_DEEPEST, dtype=np.int32)
    hlow, hhigh = np.empty(m, dtype=np.int32), np.empty(m, dtype=np.int32)
    hbits = np.empty(q, dtype=np.int64)
    visits = 0
    for i in range(len(node)):
        a, y = node[i], label[i]
        for t in range(n_trees):
            if t == nodes.tree[a]:
                continue
            hlow[:], hhigh[:], hbits[:] = 2**31 - 1, -1, 0
            some = sure = False
            stack[0], size = nodes.root[t], 1
            while size and not sure:
                size -= 1
                v = stack[size]
                visits += 1
                if people[v] == 0 or amounts[v, y] == 0:
                    continue
                c = nodes.feature[v]
                if c >= 0:
                    # Where values may be missing, or are categories, the leaf decides.
                    open_ = nodes.special[c] >= 0
                    if open_ or rlow[i, c] <= nodes.code[v]:
                        stack[size] = nodes.left[v]
                        size += 1
                    if open_ or rhigh[i, c] > nodes.code[v]:
                        stack[size] = nodes.right[v]
                        size += 1
                    continue
                if not _meet(nodes.special, tlow[v], thigh[v], tbits[v], rlow[i], rhigh[i],
                             rbits[i]):  # fmt: skip
                    continue
                if t == other[i]:
                    if _inside(nodes.special, low[v], high[v], bits[v], low[a], high[a],
                               bits[a]):  # fmt: skip
                        continue
                elif other[i] < 0:
                    alone = people[v] == 1 if people[a] == 1 else amounts[v, y] == 1
                    if alone and _inside(nodes.special, tlow[v], thigh[v], tbits[v], rlow[i],
                                         rhigh[i], rbits[i]):  # fmt: skip
                        hlow[:], hhigh[:], hbits[:] = 2**31 - 1, -1, 0
                        sure = True
                some = True
                for c in range(m):
                    down, up = max(tlow[v, c], rlow[i, c]), min(thigh[v, c], rhigh[i, c])
                    if down <= up:
                        hlow[c], hhigh[c] = min(hlow[c], down), max(hhigh[c], up)
                for s in range(q):
                    hbits[s] |= tbits[v, s] & rbits[i, s]
            if not some:
                continue
            for c in range(m):
                if nodes.top[c] < 0:
                    continue
                if hlow[c] > hhigh[c]:
                    hlow[c] = rlow[i, c]
                    hhigh[c] = hlow[c] - 1
                if hlow[c] != rlow[i, c] or hhigh[c] != rhigh[i, c]:
                    rlow[i, c], rhigh[i, c] = hlow[c], hhigh[c]
            for s in range(q):
                if hbits[s] != rbits[i, s]:
                    rbits[i, s] = hbits[s]
    return visits


@njit()
def fitting(nodes: Any, all_: Any, node: Any, other: Any, region: Any, rows: Any, most: int) -> Any:
    """Count the rows that meet each predicate, up to one more than ``most``; give the last one."""
    low, high, bits = all_
    rlow, rhigh, rbits = region
    count = np.zeros(len(node), dtype=np.int64)
    last = np.full(len(node), -1, dtype=np.int64)
    for i in range(len(node)):
        for k in range(len(rows)):
            if count[i] > most:
                break
            if not _holds(nodes, rlow[i], rhigh[i], rbits[i], rows[k]):
                continue
            if other[i] >= 0:
                v = nodes.root[other[i]]
                while nodes.feature[v] >= 0:
                    goes = _left(nodes, v, rows[k, nodes.feature[v]])
                    v = nodes.left[v] if goes else nodes.right[v]
                a = node[i]
                if _inside(nodes.special, low[v], high[v], bits[v], low[a], high[a], bits[a]):
                    continue
            count[i] += 1
            last[i] = k
    return count, last


@njit()
def parts_within(nodes: Any, all_: Any, of_leaf: Any, node: Any, other: Any, region: Any) -> Any:
    """List what leaves of another tree, inside the node of a claim, have of the claim's region.

    Returns the claim of each, and boxes.
    """
    low, high, bits = all_
    start, leaves = of_leaf
    rlow, rhigh, rbits = region
    m, q = len(nodes.top), len(nodes.bits)
    owner = np.zeros(0, dtype=np.int64)
    olow, ohigh = np.zeros((0, m), dtype=np.int32), np.zeros((0, m), dtype=np.int32)
    obits = np.zeros((0, q), dtype=np.int64)
    for fill in range(2):
        n = 0
        for i in range(len(node)):
            a, t = node[i], other[i]
            for k in range(start[t], start[t + 1]) if t >= 0 else range(0):
                v = leaves[k]
                if not _inside(nodes.special, low[v], high[v], bits[v], low[a], high[a], bits[a]):
                    continue
                if not _meet(nodes.special, low[v], high[v], bits[v], rlow[i], rhigh[i], rbits[i]):
                    continue
                if fill:
                    owner[n] = i
                    for c in range(m):
                        olow[n, c] = max(low[v, c], rlow[i, c])
                        ohigh[n, c] = max(min(high[v, c], rhigh[i, c]), olow[n, c] - 1)
                    for s in range(q):
                        obits[n, s] = bits[v, s] & rbits[i, s]
                n += 1
        if not fill:
            owner = np.zeros(n, dtype=np.int64)
            olow, ohigh = np.zeros((n, m), dtype=np.int32), np.zeros((n, m), dtype=np.int32)
            obits = np.zeros((n, q), dtype=np.int64)
    return owner, olow, ohigh, obits


@njit()
def apart(nodes: Any, region: Any, most: int) -> Any:
    """Choose regions, the first first, of which no two have a point in common."""
    low, high, bits = region
    chosen = np.empty(most, dtype=np.int64)
    n = 0
    for i in range(len(low)):
        if n == most:
            break
        free = True
        for k in range(n):
            j = chosen[k]
            if _meet(nodes.special, low[i], high[i], bits[i], low[j], high[j], bits[j]):
                free = False
                break
        if free:
            chosen[n] = i
            n += 1
    return chosen[:n]
