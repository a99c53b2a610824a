"""Comparison of the noise that a release states with its counts, and with rows.

Nobody is believed who says that counts carry noise: with the training rows, what the counts differ
by must be noise of that law, no more and no less. Without them, counts that are smaller than their
noise, or that agree where noise would part them, show that it is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadModel
from treeleak.core.private import dataclass
from treeleak.release.noise.goodness_of_fit import (
    Misfit,
    Scale,
    count_misfit,
    label_misfit,
    noise_misfit,
    scale_of_labels,
    scale_of_noise,
)
from treeleak.release.noise.laws import CountNoise, LabelNoise
from treeleak.release.release import Release
from treeleak.release.sampling import Bootstrap
from treeleak.release.statistics import DRAWS, ROWS
from treeleak.release.tree import Tree


@dataclass(frozen=True)
class NoiseLeft:
    """What rows leave to the noise."""

    compared: bool = False
    """Whether the release tells enough to compare."""
    misfit: Misfit | None = None
    """Why that is not noise of the stated law."""
    scale: Scale | None = None
    """How large it is."""
    exact: tuple[int, ...] = ()
    """Trees whose every count is that of the rows, without any noise."""


def check_counts_agree(release: Release) -> None:
    """Refuse counts that contradict each other, and numbers beside noisy leaves.

    The law of the noise does not say that these carry noise.

    Raises BadModel, naming the tree, and the node where there is one.
    """
    noisy = isinstance(release.noise, CountNoise)
    for t, tree in enumerate(release.trees):
        if noisy:
            _check_leaves_only(tree, f"tree {t}")
        elif release.counts_are not in ("rows", "draws"):
            continue
        elif tree.counts is not None and tree.totals is not None:
            other = tree.is_leaf & (tree.counts.sum(axis=1) != tree.totals)
            if other.any():
                v = int(other.argmax())
                raise BadModel(
                    f"tree {t}, leaf {v}: counts add up to {tree.counts[v].sum():g}, totals say "
                    f"{tree.totals[v]:g}"
                )


def _check_leaves_only(tree: Tree, where: str) -> None:
    for name in ("totals", "distinct"):
        if getattr(tree, name) is not None:
            raise BadModel(
                f"{where}: {name} beside counts with noise. The noise is on the counts "
                f"only: anyone who has the {name} needs no noisy counts. Leave them out, "
                "and out of what is released; or state no noise"
            )
    if tree.counts is None:
        return
    below = tree.summed(tree.counts)
    counts_of_node = ~tree.is_leaf & (tree.counts != 0).any(axis=1)
    other = counts_of_node & ~np.isclose(tree.counts, below, rtol=1e-9, atol=1e-6).all(axis=1)
    if other.any():
        raise BadModel(
            f"{where}, node {other.argmax()}: it is not a leaf, and its counts are not the sum of "
            "those below. The noise is on the leaves only: write zeros for other nodes"
        )


def stated_noise_misfit(release: Release) -> Misfit | None:
    """Doubt the stated noise by the counts alone."""
    if not isinstance(release.noise, CountNoise):
        return None
    return count_misfit(release.noise, _leaves(release), release.sampling.kind != "disjoint")


def noise_left(release: Release, rows: FloatArray, label: IntArray | None) -> NoiseLeft:
    """Take the counts of rows off those of a release with noise, and test what is left.

    ``rows``: in the model's columns. ``label``: class of each; without it, only sums over all
    classes are compared.
    """
    kind, noise = release.sampling.kind, release.noise
    if noise is None or kind == "unknown" or any(tree.counts is None for tree in release.trees):
        return NoiseLeft()
    held = [_held(tree, release, rows, label) for tree in release.trees]
    stated = _leaves(release)
    if isinstance(noise, LabelNoise):
        if label is None or (kind == "bootstrap" and noise.rule != "present"):
            return NoiseLeft()
        # A tree splits the rows that it drew, so no leaf saw none: fewer classes go unseen.
        misfit = label_misfit(noise, held, stated, alone=kind == "all")
        return NoiseLeft(
            True, misfit, scale_of_labels(noise, held, stated) if kind == "all" else None
        )
    summed = 1
    if label is None:
        summed, stated = (
            release.n_classes,
            [total.sum(axis=1)[:, None] for total in stated],
        )
    if kind == "all":
        off = [total - mine for total, mine in zip(stated, held, strict=True)]
        exact = tuple(t for t, difference in enumerate(off) if not difference.any())
        scale = scale_of_noise(noise, off) if summed == 1 else None
        return NoiseLeft(True, noise_misfit(noise, off, summed=summed), scale, exact)
    if isinstance(release.sampling, Bootstrap) and len(rows):
        times = (release.sampling.n_draws or len(rows)) / len(rows)
        off = [total - times * mine for total, mine in zip(stated, held, strict=True)]
        return NoiseLeft(True, noise_misfit(noise, off, centred=False, summed=summed))
    return NoiseLeft()


def equal_trees(release: Release) -> tuple[int, ...]:
    """Find the trees that may have counted the same rows exactly: most of those that agree."""
    by_sums: dict[tuple[float, ...], list[int]] = {}
    for t, leaf_counts in enumerate(_leaves(release)):
        if (leaf_counts >= 0).all() and (leaf_counts == np.round(leaf_counts)).all():
            sums = (
                leaf_counts.sum(axis=0)
                if release.sampling.kind == "all"
                else leaf_counts.sum(keepdims=True)
            )
            by_sums.setdefault(tuple(sums.ravel().tolist()), []).append(t)
    most: list[int] = []
    for group in by_sums.values():
        most = max(most, group, key=len)
    return tuple(most)


def as_counted(release: Release, trees: Sequence[int]) -> Release:
    """Read the counts of some trees as they are, without noise."""
    drawn = release.sampling.kind == "bootstrap"
    return replace(
        release,
        trees=tuple(release.trees[t].with_counts(DRAWS if drawn else ROWS) for t in trees),
        noise=None,
    )


def _leaves(release: Release) -> list[FloatArray]:
    return [tree.counts[tree.leaves] for tree in release.trees if tree.counts is not None]


def _held(tree: Tree, release: Release, rows: FloatArray, label: IntArray | None) -> FloatArray:
    """Rows of each class in each leaf, or rows."""
    at = tree.apply(np.ascontiguousarray(rows, dtype=release.float_type))
    found = np.zeros((tree.n_nodes, 1 if label is None else release.n_classes))
    np.add.at(found, (at, np.zeros_like(at) if label is None else label), 1)
    return found[tree.leaves]
