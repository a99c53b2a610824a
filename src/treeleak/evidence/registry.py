"""Which kind of evidence a release gives."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.errors import BadInput, NotCovered
from treeleak.evidence.exact_counts import ExactCounts
from treeleak.evidence.exact_totals import ExactTotals
from treeleak.evidence.hidden_draws import HiddenDraws
from treeleak.evidence.known_draws import KnownDraws
from treeleak.evidence.leaf_labels import LeafLabels
from treeleak.evidence.noisy_counts import NoisyCounts
from treeleak.evidence.protocol import EvidenceType
from treeleak.release.noise.laws import CountNoise
from treeleak.release.tree import AllRows, Bootstrap, Release

__all__ = ["BOOTSTRAP_MODES", "MAX_ROWS", "draws_needed", "evidence_for", "evidence_type"]


BOOTSTRAP_MODES = ("auto", "none", "known", "hidden")

MAX_ROWS = 2_000_000
"""Most rows that are rebuilt: about 1 GB for twenty columns."""
MAX_VALUES = 10**8
"""Most values in them: about 2.5 GB."""


_TYPES: dict[tuple[str, str], EvidenceType] = {}


def evidence_type(sampling: str, counts_are: str, make: EvidenceType) -> None:
    """Register the evidence for a way of sampling and a unit of counts."""
    _TYPES[sampling, counts_are] = make


evidence_type("all", "rows", ExactCounts)
evidence_type("all", "weights", ExactTotals)
evidence_type("all", "none", ExactTotals)


def draws_needed(release: Release, bootstrap: str = "auto") -> bool:
    """Whether the evidence of this release rests on knowing the draws.

    Raises
    ------
    BadInput
        If there is no such assumption.
    """
    if bootstrap not in BOOTSTRAP_MODES:
        raise BadInput(f"bootstrap must be one of {BOOTSTRAP_MODES}, not {bootstrap!r}")
    return bootstrap == "known" or (bootstrap == "auto" and release.sampling.kind == "bootstrap")


def evidence_for(
    release: Release,
    bootstrap: str = "auto",
    draws: NDArray[np.unsignedinteger[Any]] | None = None,
    use_distinct: bool = True,
    n_rows: int | None = None,
    rows_between: tuple[int, int] | None = None,
) -> EvidenceType:
    """Choose the evidence type of a release.

    Parameters
    ----------
    release : Release
    bootstrap : {"auto", "none", "known", "hidden"}
        What to assume of the draws; "auto" believes the release.
    draws : int array, shape (n_trees, n_rows), optional
        How often each tree drew each row, where that is needed and known.
    use_distinct : bool
        With draws, known or hidden: use the numbers of distinct rows as well.
    n_rows : int, optional
        N, for hidden draws and for noise.
    rows_between : tuple of two int, optional
        Where N lies, for noise; by default it is known.

    Raises
    ------
    BadInput
        If there is no such assumption.
    NotCovered
        With the reason.
    """
    needed = draws_needed(release, bootstrap)
    if release.not_covered:
        raise NotCovered(release.not_covered)
    if not release.trees:
        raise NotCovered("the release holds no tree")
    release.check_ordered()
    if release.noise is not None:
        return _noisy(release, n_rows, rows_between)
    sampling, counts_are = release.sampling.kind, release.counts_are
    if bootstrap == "none":
        sampling, counts_are = AllRows.kind, "rows" if counts_are == "draws" else counts_are
    hidden = bootstrap == "hidden" or (needed and draws is None)
    if (needed or hidden) and counts_are != "draws":
        raise NotCovered(f"a bootstrap whose counts are given as {counts_are}, not as draws")
    if sampling == "unknown" and not hidden:
        why = getattr(release.sampling, "why", "") or "the release does not say"
        raise NotCovered(
            f"how rows reached the trees is not known ({why}); if every tree saw every row once, "
            'say bootstrap="none"; if each drew rows at random, bootstrap="hidden"'
        )
    make = _TYPES.get((sampling, counts_are))
    if draws is not None and needed:
        _check_size(release, draws.shape[1])
        make = partial(KnownDraws, draws=draws, use_distinct=use_distinct)
    if hidden:
        if n_rows is None:
            raise NotCovered("hidden draws of an unknown number of rows")
        _check_size(release, n_rows)
        make = partial(HiddenDraws, n_rows=n_rows, use_distinct=use_distinct)
    if make is None:
        raise NotCovered(f"counts given as {counts_are!r} with sampling {sampling!r}")
    missing = "counts" if needed or hidden or make is ExactCounts else "totals"
    for t, tree in enumerate(release.trees):
        given = getattr(tree, missing)
        if given is None:
            raise NotCovered(f"tree {t} gives no {missing}")
        _check_size(release, int(given[tree.leaves].sum()), f"tree {t} counts ")
    return make


def _check_size(release: Release, n_rows: int, where: str = "") -> None:
    """Raise NotCovered for more rows, or more values in them, than are rebuilt."""
    if n_rows > MAX_ROWS:
        raise NotCovered(f"{where}{n_rows:,} rows; at most {MAX_ROWS:,} are rebuilt")
    if n_rows * release.n_features > MAX_VALUES:
        raise NotCovered(
            f"{where}{n_rows:,} rows of {release.n_features:,} columns; at most {MAX_VALUES:,} "
            "values are rebuilt"
        )


def _noisy(
    release: Release, n_rows: int | None, rows_between: tuple[int, int] | None
) -> EvidenceType:
    """Choose the evidence type of a release with noise."""
    noise, sampling = release.noise, release.sampling
    if sampling.kind == "unknown":
        raise NotCovered("noise, and how rows reached the trees is not known")
    if n_rows is None:
        raise NotCovered("noise on an unknown number of rows")
    _check_size(release, n_rows)
    for t, tree in enumerate(release.trees):
        if tree.counts is None:
            raise NotCovered(f"tree {t} gives no counts")
    n_draws = (sampling.n_draws or n_rows) if isinstance(sampling, Bootstrap) else None
    if not isinstance(noise, CountNoise):
        if noise is None or (n_draws is not None and noise.rule not in ("majority", "present")):
            raise NotCovered("leaves that name a class only, of trees that drew their rows")
        return partial(LeafLabels, n_rows=n_rows, noise=noise, sampling=sampling.kind)
    return partial(
        NoisyCounts,
        n_rows=n_rows,
        noise=noise,
        rows_between=rows_between or (n_rows, n_rows),
        sampling=sampling.kind,
        n_draws=n_draws,
    )
