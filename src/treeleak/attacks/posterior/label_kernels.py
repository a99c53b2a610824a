"""Compiled loops of what leaves say that name one class each."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.core.compiled import njit

RULES = {"majority": 0, "permute-and-flip": 1, "exponential": 2}
"""Rules of :class:`LabelNoise`, as numbers."""


@njit()
def log_named(rows: Any, label: int, rule: int, scale: float, penalty: float) -> float:
    """Log probability that a leaf with these rows of each class names one of them.

    What a majority could not name costs ``penalty`` per row missing.
    """
    most = rows[0]
    for a in rows:
        most = max(most, a)
    if rule == 0:
        if rows[label] < most:
            return -penalty * (most - rows[label])  # type: ignore[no-any-return]
        ties = 0
        for a in rows:
            ties += a == most
        return -np.log(ties)  # type: ignore[no-any-return]
    if rule == 2:
        total = 0.0
        for a in rows:
            total += np.exp(scale * (a - most))
        return scale * (rows[label] - most) - np.log(total)  # type: ignore[no-any-return]
    # p_c times the integral over [0, 1] of the product over i != c of (1 - p_i x). In powers of
    # 1 - x all terms are positive: however many classes there are, nothing cancels.
    power = np.zeros(len(rows))
    power[0] = 1.0
    for i in range(len(rows)):
        if i != label:
            p = np.exp(scale * (rows[i] - most))
            for k in range(len(rows) - 1, 0, -1):
                power[k] = (1.0 - p) * power[k] + p * power[k - 1]
            power[0] *= 1.0 - p
    total = 0.0
    for k in range(len(rows)):
        total += power[k] / (k + 1)
    return scale * (rows[label] - most) + np.log(total)  # type: ignore[no-any-return]


@njit()
def look_at_leaf(e: int, rows: Any, law: Any, penalty: float, tally: Any) -> None:
    """Note what joining and leaving change, for all classes of the leaf of equation e."""
    n_classes = len(rows) // len(law.named)
    leaf = e // n_classes
    label, class_counts = law.named[leaf], rows[leaf * n_classes : (leaf + 1) * n_classes]
    if label < 0:
        tally[leaf * n_classes : (leaf + 1) * n_classes] = 0.0
        return
    now = log_named(class_counts, label, law.rule, law.scale, penalty)
    for c in range(n_classes):
        f = leaf * n_classes + c
        class_counts[c] += 1
        tally[f, 0] = log_named(class_counts, label, law.rule, law.scale, penalty) - now
        class_counts[c] -= 1
        tally[f, 1] = 0.0
        if class_counts[c] > 0:
            class_counts[c] -= 1
            tally[f, 1] = now - log_named(class_counts, label, law.rule, law.scale, penalty)
            class_counts[c] += 1


@njit()
def relabelled(
    leaves: Any, old: int, new: int, rows: Any, law: Any, penalty: float, tally: Any
) -> float:
    """What the sum of leaving and joining misses where a row changes its class within a leaf."""
    n_classes = len(rows) // len(law.named)
    out = 0.0
    for leaf in leaves:
        label = law.named[leaf]
        if label >= 0:
            class_counts = rows[leaf * n_classes : (leaf + 1) * n_classes]
            now = log_named(class_counts, label, law.rule, law.scale, penalty)
            class_counts[old] -= 1
            class_counts[new] += 1
            out += log_named(class_counts, label, law.rule, law.scale, penalty) - now
            class_counts[old] += 1
            class_counts[new] -= 1
            out -= tally[leaf * n_classes + new, 0] - tally[leaf * n_classes + old, 1]
    return out
