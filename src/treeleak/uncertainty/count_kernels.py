"""How many points lie in none of several boxes: split, take apart, remember, sum out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.bits import count_bits, lowest_bit
from treeleak.core.compiled import njit

Bits = NDArray[np.uint64]

ONE = np.uint64(1)
ZERO = np.uint64(0)


class Boxes(NamedTuple):
    """Boxes by the axes that any of them restricts.

    Boxes are numbered, as are the axes and, over all axes, the branches: sets of values that no
    box tells apart. Sets are bits in words of 64.
    """

    tests: Bits
    """Bits over axes, of each box. Those that it restricts."""
    occurs: Bits
    """Bits over boxes, of each axis. Those that restrict it."""
    start: IntArray
    """Axis a has the branches ``start[a]`` to ``start[a + 1]``."""
    allow: Bits
    """Bits over boxes, of each branch. Those that hold its values."""
    weight: Bits
    total: Bits
    """Array of residues. Of each branch, and of each axis, how many values it has."""
    moduli: Bits
    """What residues are taken by; 0 stands for 2^64."""


class Frames(NamedTuple):
    """Where the search stands: one row for each axis that has been branched on, and one more."""

    alive: Bits
    still: Bits
    """Boxes and axes of the part that is being counted."""
    rest: Bits
    open: Bits
    """Boxes and axes of the current branch which have not been given to a part of it yet."""
    axis: IntArray
    branch: IntArray
    slot: IntArray
    """What it branches on, the current branch, the place in the cache."""
    weight: Bits
    """Array of residues. Values of the current branch."""
    product: Bits
    sum: Bits
    """Array of residues. Points outside of the boxes: of the current branch, of those before."""


class Cache(NamedTuple):
    """Parts that were counted: boxes and axes, how many points, and whether there is an entry."""

    keys: Bits
    kept: Bits
    used: BoolArray


class Tables(NamedTuple):
    """Room to sum the axes of a part out, one after the other."""

    near: Bits
    """Bits over axes, of each axis. Those that share a box with it, or a table once some are summed
    out."""
    n_kinds: IntArray
    """Of each axis, how many of its branches the boxes of the part tell apart."""
    kind: IntArray
    """Shape (n_axes, most branches). These branches, one for each."""
    many: Bits
    """Bits over axes. Those with other than two."""
    size: FloatArray
    """Of each axis, how many entries it takes to sum it out."""
    order: IntArray
    turn: IntArray
    """Which axis comes when, and when each axis comes."""
    bag: Bits
    """Bits over axes, of each turn. Axes that the table of the turn depends on."""
    table: IntArray
    next_table: IntArray
    box: IntArray
    next_box: IntArray
    """Tables and boxes that each turn takes in, as linked lists; -1 ends one."""
    begin: IntArray
    """Where the table of each turn begins."""
    entries: Bits
    work: Bits
    """Array of residues. The tables, and room for one more."""
    scale: Bits
    """Array of residues. How many values each kind of the axis has whose turn it is."""
    offset: NDArray[np.int32]
    """Which entries of a table, or of a box."""


@njit(inline=True)
def _times(a: Any, b: Any, modulus: Any) -> Any:
    return a * b if modulus == ZERO else a * b % modulus


@njit(inline=True)
def _has(bits: Any, i: int) -> Any:
    return (bits[i >> 6] >> np.uint64(i & 63)) & ONE != ZERO


@njit(inline=True)
def _twins(b: Boxes, f: Frames, d: int, one: int, other: int) -> Any:
    """Whether two branches allow the same boxes of a part."""
    for w in range(f.alive.shape[1]):
        if (b.allow[one, w] ^ b.allow[other, w]) & f.alive[d, w] != ZERO:
            return False
    return True


@njit()
def _branch(b: Boxes, f: Frames, d: int) -> bool:
    """Begin the next branch of a part that may have points; say whether there was any."""
    n_words, n_parts, n_mod = f.alive.shape[1], f.still.shape[1], len(b.moduli)
    a = f.axis[d]
    rest, still = f.rest[d], f.open[d]
    for v in range(n_parts):
        still[v] = f.still[d, v]
    still[a >> 6] &= ~(ONE << np.uint64(a & 63))
    while True:
        f.branch[d] += 1
        here = f.branch[d]
        if here == b.start[a + 1]:
            return False
        seen = False
        for c in range(b.start[a], here):
            seen = seen or _twins(b, f, d, c, here)
        if seen:
            continue
        # A box with no test left takes all.
        full = False
        for w in range(n_words):
            rest[w] = f.alive[d, w] & b.allow[here, w]
            x = rest[w] & b.occurs[a, w]
            while x != ZERO and not full:
                box = w * 64 + lowest_bit(x)
                x &= x - ONE
                full = True
                for v in range(n_parts):
                    full = full and b.tests[box, v] & still[v] == ZERO
        if not full:
            break
    for m in range(n_mod):
        p = b.moduli[m]
        x = b.weight[here, m]
        for c in range(here + 1, b.start[a + 1]):
            if _twins(b, f, d, c, here):
                x += b.weight[c, m]
        f.weight[d, m] = x if p == ZERO else x % p
        f.product[d, m] = ONE
    return True


@njit()
def _part(b: Boxes, f: Frames, d: int, at: int) -> None:
    """Take the next part of the current branch, as frame d + 1."""
    n_words, n_parts = f.alive.shape[1], f.still.shape[1]
    rest, still = f.rest[d], f.open[d]
    alive, axes, todo = f.alive[d + 1], f.still[d + 1], f.open[d + 1]
    for w in range(n_words):
        alive[w] = ZERO
    box = at * 64 + lowest_bit(rest[at])
    alive[at] = rest[at] & (~rest[at] + ONE)
    for v in range(n_parts):
        axes[v] = b.tests[box, v] & still[v]
        todo[v] = axes[v]
        # From here on only what has not been reached is open.
        still[v] &= ~axes[v]
    v = 0
    while v < n_parts:
        if todo[v] == ZERO:
            v += 1
            continue
        a = v * 64 + lowest_bit(todo[v])
        todo[v] &= todo[v] - ONE
        for w in range(n_words):
            x = b.occurs[a, w] & rest[w] & ~alive[w]
            alive[w] |= x
            while x != ZERO:
                box = w * 64 + lowest_bit(x)
                x &= x - ONE
                for u in range(n_parts):
                    y = b.tests[box, u] & still[u]
                    if y != ZERO:
                        axes[u] |= y
                        todo[u] |= y
                        still[u] &= ~y
                        v = min(u, v)
    for w in range(n_words):
        rest[w] &= ~alive[w]


@njit()
def _plan(b: Boxes, f: Frames, d: int, t: Tables, most: float) -> int:
    """Plan in which order to sum the axes of a part out; return how many are left undone.

    The next is always the one whose table is smallest; done if the tables together have at most
    so many entries.
    """
    n_words, n_parts = f.alive.shape[1], f.still.shape[1]
    left = f.open[d]
    n_left = 0
    for v in range(n_parts):
        left[v] = f.still[d, v]
        t.many[v] = ZERO
        y = left[v]
        while y != ZERO:
            a = v * 64 + lowest_bit(y)
            y &= y - ONE
            n_left += 1
            for u in range(n_parts):
                t.near[a, u] = ZERO
            n = 0
            for c in range(b.start[a], b.start[a + 1]):
                seen = False
                for i in range(n):
                    seen = seen or _twins(b, f, d, c, t.kind[a, i])
                if not seen:
                    t.kind[a, n] = c
                    n += 1
            t.n_kinds[a] = n
            if n != 2:
                t.many[v] |= ONE << np.uint64(a & 63)
    for w in range(n_words):
        x = f.alive[d, w]
        while x != ZERO:
            box = w * 64 + lowest_bit(x)
            x &= x - ONE
            for v in range(n_parts):
                y = b.tests[box, v] & left[v]
                while y != ZERO:
                    a = v * 64 + lowest_bit(y)
                    y &= y - ONE
                    for u in range(n_parts):
                        t.near[a, u] |= b.tests[box, u] & left[u]
    for v in range(n_parts):
        y = left[v]
        while y != ZERO:
            a = v * 64 + lowest_bit(y)
            y &= y - ONE
            t.size[a] = _entries(t, a, n_parts)
    turn = 0
    total = 0.0
    while n_left:
        best = -1
        for v in range(n_parts):
            y = left[v]
            while y != ZERO:
                a = v * 64 + lowest_bit(y)
                y &= y - ONE
                if best < 0 or t.size[a] < t.size[best]:
                    best = a
        total += t.size[best]
        if total > most:
            return n_left
        t.order[turn] = best
        t.turn[best] = turn
        left[best >> 6] &= ~(ONE << np.uint64(best & 63))
        for v in range(n_parts):
            t.bag[turn, v] = t.near[best, v] & left[v]
        for v in range(n_parts):
            y = t.bag[turn, v]
            while y != ZERO:
                a = v * 64 + lowest_bit(y)
                y &= y - ONE
                for u in range(n_parts):
                    t.near[a, u] = (t.near[a, u] | t.bag[turn, u]) & left[u]
                t.size[a] = _entries(t, a, n_parts)
        turn += 1
        n_left -= 1
    return 0


@njit()
def _entries(t: Tables, a: int, n_parts: int) -> float:
    size = 1.0
    for v in range(n_parts):
        size *= 1 << count_bits(t.near[a, v] & ~t.many[v])
        y = t.near[a, v] & t.many[v]
        while y != ZERO:
            size *= t.n_kinds[v * 64 + lowest_bit(y)]
            y &= y - ONE
    return size


@njit()
def _sum_out(b: Boxes, f: Frames, d: int, t: Tables, m: int, exists: bool) -> Any:
    """Sum the axes of a part out as planned; return its points, modulo one of the moduli."""
    n_words, n_parts = f.alive.shape[1], f.still.shape[1]
    p = b.moduli[m]
    n_turns = 0
    for v in range(n_parts):
        n_turns += count_bits(f.still[d, v])
    for turn in range(n_turns):
        t.table[turn] = -1
        t.box[turn] = -1
    for w in range(n_words):
        x = f.alive[d, w]
        while x != ZERO:
            box = w * 64 + lowest_bit(x)
            x &= x - ONE
            turn = n_turns
            for v in range(n_parts):
                y = b.tests[box, v] & f.still[d, v]
                while y != ZERO:
                    turn = min(turn, t.turn[v * 64 + lowest_bit(y)])
                    y &= y - ONE
            t.next_box[box] = t.box[turn]
            t.box[turn] = box
    digits = np.empty(n_turns, np.int64)
    end = 0
    result = ONE
    for turn in range(n_turns):
        a = t.order[turn]
        # Axes of the table in the order of their turns: the next is the fastest.
        n = 0
        size = 1
        for v in range(n_parts):
            y = t.bag[turn, v]
            while y != ZERO:
                c = v * 64 + lowest_bit(y)
                y &= y - ONE
                i = n
                while i > 0 and t.turn[digits[i - 1]] > t.turn[c]:
                    digits[i] = digits[i - 1]
                    i -= 1
                digits[i] = c
                n += 1
                size *= t.n_kinds[c]
        n_kinds = t.n_kinds[a]
        for i in range(n_kinds):
            x = ZERO
            for c in range(b.start[a], b.start[a + 1]):
                if _twins(b, f, d, c, t.kind[a, i]):
                    x += b.weight[c, m]
            if p != ZERO:
                x %= p
            t.scale[i] = x
        # The first table, if there is one, fills the room.
        fresh = True
        other = t.table[turn]
        while other >= 0:
            t.offset[0] = t.begin[other]
            step, now = n_kinds, 1
            for i in range(n):
                c = digits[i]
                stride = 0
                if _has(t.bag[other], c):
                    stride = step
                    step *= t.n_kinds[c]
                for k in range(1, t.n_kinds[c]):
                    for e in range(now):
                        t.offset[k * now + e] = t.offset[e] + k * stride
                now *= t.n_kinds[c]
            for i in range(n_kinds):
                x = t.scale[i]
                if fresh:
                    if x == ONE:
                        for e in range(size):
                            t.work[i * size + e] = t.entries[t.offset[e] + i]
                    elif p == ZERO:
                        for e in range(size):
                            t.work[i * size + e] = t.entries[t.offset[e] + i] * x
                    else:
                        for e in range(size):
                            t.work[i * size + e] = t.entries[t.offset[e] + i] * x % p
                elif p == ZERO:
                    for e in range(size):
                        t.work[i * size + e] *= t.entries[t.offset[e] + i]
                else:
                    for e in range(size):
                        t.work[i * size + e] = t.work[i * size + e] * t.entries[t.offset[e] + i] % p
            fresh = False
            other = t.next_table[other]
        if fresh:
            for i in range(n_kinds):
                for e in range(size):
                    t.work[i * size + e] = t.scale[i]
        box = t.box[turn]
        while box >= 0:
            w, shift = box >> 6, np.uint64(box & 63)
            t.offset[0] = 0
            step, now = 1, 1
            for i in range(n):
                c = digits[i]
                grown = 0
                low = -1
                for k in range(t.n_kinds[c]):
                    if (b.allow[t.kind[c, k], w] >> shift) & ONE != ZERO:
                        if low < 0:
                            low = k
                        else:
                            grown += 1
                            for e in range(now):
                                t.offset[grown * now + e] = t.offset[e] + (k - low) * step
                if low > 0:
                    for e in range((grown + 1) * now):
                        t.offset[e] += low * step
                now *= grown + 1
                step *= t.n_kinds[c]
            for k in range(n_kinds):
                if (b.allow[t.kind[a, k], w] >> shift) & ONE != ZERO:
                    for e in range(now):
                        t.work[k * size + t.offset[e]] = ZERO
            box = t.next_box[box]
        if n_kinds == 1:
            for e in range(size):
                t.entries[end + e] = t.work[e]
        else:
            for e in range(size):
                t.entries[end + e] = t.work[e] + t.work[size + e]
        for k in range(2, n_kinds):
            for e in range(size):
                t.entries[end + e] += t.work[k * size + e]
        if p != ZERO:
            for e in range(size):
                t.entries[end + e] %= p
        if exists:
            for e in range(size):
                t.entries[end + e] = min(t.entries[end + e], ONE)
        if n == 0:
            result = _times(result, t.entries[end], p)
        else:
            t.begin[turn] = end
            later = t.turn[digits[0]]
            t.next_table[turn] = t.table[later]
            t.table[later] = turn
            end += size
    return result


@njit()
def _best(b: Boxes, f: Frames, d: int, load: IntArray) -> int:
    """Choose the axis of a part to branch on."""
    n_words, n_parts = f.alive.shape[1], f.still.shape[1]
    for v in range(n_parts):
        y = f.still[d, v]
        while y != ZERO:
            load[v * 64 + lowest_bit(y)] = 0
            y &= y - ONE
    for w in range(n_words):
        x = f.alive[d, w]
        while x != ZERO:
            box = w * 64 + lowest_bit(x)
            x &= x - ONE
            left = 0
            for v in range(n_parts):
                left += count_bits(b.tests[box, v] & f.still[d, v])
            # A box with few tests left decides most.
            more = 18 if left == 1 else (3 if left == 2 else 1)
            for v in range(n_parts):
                y = b.tests[box, v] & f.still[d, v]
                while y != ZERO:
                    load[v * 64 + lowest_bit(y)] += more
                    y &= y - ONE
    best = -1
    for v in range(n_parts):
        y = f.still[d, v]
        while y != ZERO:
            a = v * 64 + lowest_bit(y)
            y &= y - ONE
            if best < 0 or load[a] > load[best]:
                best = a
    return best


@njit()
def count_on(
    b: Boxes, f: Frames, cache: Cache, t: Tables, depth: int, exists: bool, steps: int, most: float
) -> tuple[int, int]:
    """Go on counting what lies in none of the boxes.

    The result is ``f.sum[0]``, once the depth that is returned is negative.

    Parameters
    ----------
    f : Frames
        Row 0 is the whole: its one branch holds what is left to count.
    depth : int
        Where the search stands: at first 0.
    exists : bool
        Only say whether there is any point.
    steps : int
        Most steps to take.
    most : float
        Most entries of tables of one part, beyond which it is split.

    Returns
    -------
    depth, taken : int
    """
    n_words, n_parts, n_mod = f.alive.shape[1], f.still.shape[1], len(b.moduli)
    load = np.zeros(len(b.start), np.int64)
    d = depth
    n_slots = len(cache.used)
    taken = 0
    while taken < steps:
        taken += 1
        at = 0
        while at < n_words and f.rest[d, at] == ZERO:
            at += 1
        if at < n_words:
            _part(b, f, d, at)
            if _plan(b, f, d + 1, t, most) == 0:
                # Takes as long as so many splits.
                taken += 20 * n_mod
                for m in range(n_mod):
                    f.sum[d + 1, m] = _sum_out(b, f, d + 1, t, m, exists)
            else:
                h = np.uint64(1469598103934665603)
                for w in range(n_words):
                    h = (h ^ f.alive[d + 1, w]) * np.uint64(0x9E3779B97F4A7C15)
                    h ^= h >> np.uint64(29)
                for v in range(n_parts):
                    h = (h ^ f.still[d + 1, v]) * np.uint64(0x9E3779B97F4A7C15)
                    h ^= h >> np.uint64(29)
                slot = np.int64(h & np.uint64(n_slots - 1))
                same = cache.used[slot]
                for w in range(n_words):
                    same = same and cache.keys[slot, w] == f.alive[d + 1, w]
                for v in range(n_parts):
                    same = same and cache.keys[slot, n_words + v] == f.still[d + 1, v]
                if same:
                    for m in range(n_mod):
                        f.sum[d + 1, m] = cache.kept[slot, m]
                else:
                    d += 1
                    f.slot[d] = slot
                    a = _best(b, f, d, load)
                    f.axis[d] = a
                    f.branch[d] = b.start[a] - 1
                    for m in range(n_mod):
                        f.sum[d, m] = ZERO
                    if _branch(b, f, d):
                        continue
                    d -= 1
        else:
            # All parts of the branch are counted.
            for m in range(n_mod):
                p = b.moduli[m]
                x = _times(f.weight[d, m], f.product[d, m], p)
                for v in range(n_parts):
                    y = f.open[d, v]
                    while y != ZERO:
                        x = _times(x, b.total[v * 64 + lowest_bit(y), m], p)
                        y &= y - ONE
                z = f.sum[d, m] + x
                f.sum[d, m] = z if p == ZERO else z % p
            if exists:
                f.sum[d, 0] = min(f.sum[d, 0], ONE)
            if not (exists and f.sum[d, 0]) and d > 0 and _branch(b, f, d):
                continue
            d -= 1
            if d < 0:
                break
            slot = f.slot[d + 1]
            cache.used[slot] = True
            for w in range(n_words):
                cache.keys[slot, w] = f.alive[d + 1, w]
            for v in range(n_parts):
                cache.keys[slot, n_words + v] = f.still[d + 1, v]
            for m in range(n_mod):
                cache.kept[slot, m] = f.sum[d + 1, m]
        nothing = True
        for m in range(n_mod):
            x = f.sum[d + 1, m]
            if exists:
                x = min(x, ONE)
            f.product[d, m] = _times(f.product[d, m], x, b.moduli[m])
            nothing = nothing and f.product[d, m] == ZERO
        if nothing:
            for w in range(n_words):
                f.rest[d, w] = ZERO
    return d, taken
