"""Forms and rules of what explainable boosting machines hold (interpret-core)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.auditing.inventory import forms
from treeleak.auditing.inventory.conditions import Rule
from treeleak.auditing.inventory.owners import n_classes_of, n_columns, numbers_in, whole
from treeleak.core.arrays import BoolArray
from treeleak.release.stored import StoredObject

_BAGS, _MOST_BAGS = 14, 100
"""What the library takes by default; merged models have those of all."""
_ROUNDED, _WEIGHED = 1e-12, 1e-6
"""Of means of up to 100 numbers in double precision, and of sums of weights, with room to spare."""
_OWNERS = "ExplainableBoosting* DPExplainableBoosting*"


def _parts(value: Any, n: int) -> list[Any] | None:
    """Take apart what lists one part for each of ``n`` columns or terms."""
    return list(value) if isinstance(value, (list, tuple)) and len(value) == n else None


def _n_bags(owner: StoredObject) -> int:
    """Count the bags by their weights; without these, by the setting, or as they are by default."""
    bags = numbers_in(owner.get("bag_weights_"))
    if bags is not None:
        return max(1, bags.size)
    stated = owner.get("outer_bags", _BAGS)
    return max([1, *(n for n in whole([stated]) if n <= forms.SHORT)])


def _shapes(owner: StoredObject) -> list[tuple[int, ...]]:
    """Count the bins of each term, in each of its columns; none where that is not to be had."""
    bins, terms, out = owner.get("bins_"), owner.get("term_features_"), []
    if not isinstance(bins, list) or not isinstance(terms, list):
        return []
    for term in terms:
        columns = whole(term) if isinstance(term, (list, tuple)) else []
        known = all(j < len(bins) and isinstance(bins[j], list) and bins[j] for j in columns)
        if not columns or not known:
            return []
        levels = [bins[j][min(len(columns), len(bins[j])) - 1] for j in columns]
        out.append(tuple(_n_bins(level) for level in levels))
    return out


def _n_bins(level: Any) -> int:
    if isinstance(level, Mapping):
        return max([0, *whole(level.values())]) + 2
    return len(level) + 3 if isinstance(level, np.ndarray) else 0


def _of_terms(before: bool = False, after: bool = False, edited: bool = False) -> forms.Form:
    """A number for each bin of each term; ``before``: for each bag, ``after``: for each class.

    ``edited``: whether a term may have none, as those have that somebody made monotone.
    """

    def form(value: Any, owner: StoredObject) -> bool:
        shapes = _shapes(owner)
        parts = _parts(value, len(shapes)) if shapes else None
        outputs = [(), (n_classes_of(owner),)] if after else [()]
        return parts is not None and all(
            isinstance(part, np.ndarray)
            and part.dtype.kind in "iuf"
            and part.shape[before:] in [(*shape, *end) for end in outputs]
            and (not before or len(part) <= _n_bags(owner))
            for part, shape in zip(parts, shapes, strict=True)
            if part is not None or not edited
        )

    return form


def _scores(value: Any, owner: StoredObject) -> bool:
    """A number for each bin of each term; the same in all bins for which there is none.

    These are bins of missing and of unread values, where no row has any.
    """
    return _of_terms(after=True)(value, owner) and all(
        len(np.unique(part[idle], axis=0)) <= 1
        for part, idle in zip(value, _idle(owner), strict=False)
    )


def _idle(owner: StoredObject) -> list[BoolArray]:
    """Find the bins of missing and of unread values of each term, where no row has any."""
    held, out = owner.get("bin_weights_"), []
    for counts in held if _of_terms()(held, owner) else map(np.zeros, _shapes(owner)):
        idle = np.zeros(counts.shape, dtype=bool)
        for axis, end in product(range(counts.ndim), (0, -1)):
            empty = counts.any() and not counts.take(end, axis).any()
            np.moveaxis(idle, axis, 0)[end] |= empty
        out.append(idle)
    return out


def _bagged(value: Any, owner: StoredObject) -> bool:
    """Scores of bags, of which terms have the means; none of terms that were edited.

    Until 0.4, means were centred, but for bins of no row.
    """
    scores = owner.get("term_scores_")
    if not _of_terms(before=True, after=True, edited=True)(value, owner) or not (
        _of_terms(after=True)(scores, owner)
    ):
        return False
    for bags, part, idle in zip(value, scores, _idle(owner), strict=False):
        if bags is not None and not _near(mean := _mean(bags, owner), part, bags):
            shift = (mean - part)[~idle][:1]
            if not _near(mean - np.where(_wide(idle, part), 0.0, shift), part, bags):
                return False
    return True


def _wide(idle: BoolArray, part: NDArray[Any]) -> BoolArray:
    return idle[(...,) + (None,) * (part.ndim - idle.ndim)]


def _deviations(value: Any, owner: StoredObject) -> bool:
    """How far scores of bags are off their means; whatever it is of bags that are not there."""
    bagged = owner.get("bagged_scores_")
    if not _of_terms(after=True, edited=True)(value, owner) or not _bagged(bagged, owner):
        return bagged is None and _of_terms(after=True, edited=True)(value, owner)
    pairs = [(part, bags) for part, bags in zip(value, bagged, strict=True) if part is not None]
    return all(
        bags is not None
        and _near(_mean((bags - _mean(bags, owner)) ** 2, owner) ** 0.5, part, bags)
        for part, bags in pairs
    )


def _mean(bags: NDArray[Any], owner: StoredObject) -> Any:
    """Average over bags, as much as each weighs."""
    weights = numbers_in(owner.get("bag_weights_"))
    if weights is None or weights.shape != bags.shape[:1] or not (weights > 0).all():
        weights = np.ones(len(bags))
    with np.errstate(all="ignore"):
        return np.average(bags, axis=0, weights=weights)


def _near(found: Any, stated: Any, bags: NDArray[Any]) -> bool:
    """Say whether numbers are the same but for rounding; with a single class, they are infinite."""
    most = np.abs(bags[np.isfinite(bags)]).max(initial=0.0)
    with np.errstate(all="ignore"):
        off = ~(np.abs(found - stated) <= _ROUNDED * most)
    return not (off & (np.isfinite(found) | np.isfinite(stated))).any()


def _cuts(value: Any, owner: StoredObject) -> bool:
    """For each column, ascending cuts or numbers of categories, for terms of each size.

    Cuts lie between the ends of the column, and between two of them lies some row, but for a few
    that somebody chose. Where a file has neither ends nor counts (``detail="minimal"``), nothing
    shows what the numbers are.
    """
    parts, ends = _parts(value, n_columns(owner)), numbers_in(owner.get("feature_bounds_"))
    if parts is None or not all(
        isinstance(levels, list)
        and len(levels) <= forms.SHORT
        and all(map(forms.each_once, levels))
        for levels in parts
    ):
        return False
    if owner.name.startswith("DP"):
        return True
    cuts = [
        (at, cut)
        for at, levels in enumerate(parts)
        for level in levels
        if isinstance(level, np.ndarray)
        for cut in level
    ]
    if ends is None or ends.shape != (len(parts), 2) or owner.get("bin_weights_") is None:
        return not cuts
    outside = sum(not ends[at][0] <= cut <= ends[at][1] for at, cut in cuts)
    empty = sum(int((weights[1:-1] == 0).sum()) for weights in _main_terms(owner))
    return outside + empty <= forms.SHORT


def _main_terms(owner: StoredObject) -> list[Any]:
    """List the rows in each bin of the terms of one column."""
    held = owner.get("bin_weights_")
    counts = [numbers_in(part) for part in held] if isinstance(held, (list, tuple)) else []
    return [part for part in counts if part is not None and part.ndim == 1 and part.any()]


def _histograms(value: Any, owner: StoredObject) -> bool:
    """For each column, parts that together hold all rows, as its bins do."""
    if not _of_columns(1 << 20)(value, owner):
        return False
    arrays, mains = [numbers_in(part) for part in value], _main_terms(owner)
    held = [a for a in (*arrays, *mains[:1]) if a is not None]
    sums = np.array([a.sum() for a in held])
    plain = bool(held) and all((a >= 0).all() and np.isfinite(a).all() for a in held)
    if not plain or owner.name.startswith("DP"):
        return plain
    if all((c == np.round(c)).all() for c in mains):
        plain = all((a == np.round(a)).all() for a in held)
    if not plain or np.ptp(sums) > _WEIGHED * sums.max():
        return False
    ends, counts = numbers_in(owner.get("feature_bounds_")), owner.get("bin_weights_")
    if ends is None or ends.shape != (len(arrays), 2) or not _of_terms()(counts, owner):
        return True
    terms = zip(owner.get("term_features_"), counts, strict=True)
    alone = {of_term[0]: c for of_term, c in terms if len(of_term) == 1 and c.any()}
    return all(
        _are_between(a, alone[j], owner.get("bins_")[j][0], *ends[j])
        for j, a in enumerate(arrays)
        if a is not None and j in alone
    )


def _are_between(held: Any, counts: Any, cuts: Any, low: float, high: float) -> bool:
    """Say whether below each of evenly spaced edges lie as many rows as cuts on both sides say."""
    if not isinstance(cuts, np.ndarray):
        return held.shape == counts.shape and bool(np.allclose(held, counts, rtol=_WEIGHED))
    edges = np.linspace(low, high, max(len(held) - 1, 2))[1:-1]
    if len(counts) != len(cuts) + 3 or len(held) != len(edges) + 3:
        return False
    below = np.concatenate([[0], np.cumsum(counts[1:-1])])
    ends = (np.searchsorted(cuts, edges + k * _WEIGHED * (high - low), "right") for k in (-1, 1))
    least, most = (below[at + k] for k, at in enumerate(ends))
    parts, off = np.cumsum(held[1:-1])[:-1], _WEIGHED * counts.sum()
    return bool((parts >= least - off).all() and (parts <= most + off).all())


def _of_columns(most: int, ascending: bool = False) -> forms.Form:
    """At most so many numbers for each column, or none."""

    def form(value: Any, owner: StoredObject) -> bool:
        parts = _parts(value, n_columns(owner))
        arrays = [numbers_in(part) for part in parts or () if part is not None]
        return parts is not None and all(
            a is not None and a.ndim == 1 and len(a) <= most
            and (not ascending or bool((np.diff(a) >= 0).all()))
            for a in arrays
        )  # fmt: skip

    return form


def _n_values(value: Any, owner: StoredObject) -> bool:
    """A whole number for each column."""
    held = numbers_in(value)
    return held is not None and held.dtype.kind in "iu" and held.shape == (n_columns(owner),)


def _ends(value: Any, owner: StoredObject) -> bool:
    """Two numbers for each column, or one for the target."""
    held = numbers_in(value)
    return held is not None and held.shape in ((n_columns(owner), 2), ())


def _of_bags(value: Any, owner: StoredObject) -> bool:
    """A few numbers for each bag: one for each class or stage."""
    held = numbers_in(value)
    if value is owner.get("bag_weights_"):
        return held is not None and held.ndim == 1 and held.size <= _MOST_BAGS
    most = _n_bags(owner) * max(2, n_classes_of(owner))
    return held is not None and held.ndim <= 2 and held.size <= most


def _of_scores(value: Any, owner: StoredObject) -> bool:
    held = numbers_in(value)
    return held is not None and held.ndim <= 1 and held.size <= max(1, n_classes_of(owner))


def _names(value: Any, owner: StoredObject) -> bool:
    """Columns of each term, or what one is called, and what the columns are."""
    most = max(n_columns(owner), len(owner.get("term_features_", ())))
    parts = value if isinstance(value, (list, tuple)) else [value]
    held = [item for part in parts for item in (part if isinstance(part, tuple) else (part,))]
    return len(parts) <= most and all(forms.is_scalar(item, 2 * forms.MAX_NAME) for item in held)


def _n_cells(value: Any, owner: StoredObject) -> str:  # noqa: ARG001
    """Count the bins that hold rows, and those of a single one."""
    arrays = [numbers_in(part) for part in value]
    counts = np.concatenate([np.zeros(0), *(a.ravel() for a in arrays if a is not None)])
    return f"{int((counts > 0).sum()):,} bins hold rows, {int((counts == 1).sum()):,} a single one."


def _all_empty(value: Any, _: Any) -> bool:
    """Say whether nothing but zeros stands there."""
    parts = value if isinstance(value, (list, tuple)) else [value]
    arrays = [numbers_in(part) for part in parts if part is not None]
    return all(a is not None and not a.any() for a in arrays)


_COUNTS = (
    "Each number counts the training rows in a small part of the data. Every term counts all of "
    "them, and many such counts together determine the rows."
)

# fmt: off
OF_EBM: tuple[Rule, ...] = (
    Rule("bin_weights_ histogram_weights_", "harmless", "counts that were emptied", "All zero.",
         owner=_OWNERS, when=_all_empty),
    Rule("bin_weights_", "leaks", "rows in each bin of each term",
         _COUNTS + " Predictions do not need them.",
         owner=_OWNERS, change="counts", form=_of_terms(), describe=_n_cells),
    Rule("histogram_weights_", "leaks", "rows in each part of a histogram",
         "They count the rows between evenly spaced edges, for the library's pictures. "
             "Predictions do not need them.",
         owner=_OWNERS, change="counts", form=_histograms),
    Rule("bins_", "leaks", "cuts, and the categories of each column",
         "A cut is the middle of two neighbouring values of the training rows: with fewer "
             "different values than bins, of every two. Categories are values of the rows.",
         owner=_OWNERS, change="values", form=_cuts),
    Rule("histogram_edges_", "leaks", "smallest, largest or ranked values",
         "The first and the last one are the least and the greatest value of a column.",
         owner=_OWNERS, change="values", form=_of_columns(1 << 20, ascending=True)),
    Rule("feature_bounds_ min_target_ max_target_", "leaks",
         "smallest and largest value of each column",
         "These are values of single rows, in all their digits.",
         owner=_OWNERS, change="values",
         form=lambda v, o: (forms.is_single(v) and forms.short(v, o)) or _ends(v, o)),
    Rule("unique_val_counts_", "leaks", "number of different values of each column",
         "Where it is that of the bins, each bin is one value, and the cuts give it away.",
         owner=_OWNERS, change="values", form=_n_values),
    Rule("zero_val_counts_ missing_val_counts_", "leaks", "rows in each bin of each term",
         "They count the rows without a value, or with the value 0, in each column.",
         owner=_OWNERS, change="counts", form=_n_values),
    Rule("term_scores_ additive_terms_", "not assessed", "scores of each bin of each term",
         "Predictions need them. They are means over bags, each fitted to other rows. treeleak "
             "does not attack them.",
         owner=_OWNERS, form=_scores),
    Rule("bagged_scores_", "not assessed", "scores of each bag",
         "Predictions do not need them. Each bag was fitted to a part of the rows: nothing says "
             "what its scores must be, but that terms have their means. treeleak does not attack "
             "them.",
         owner=_OWNERS, form=_bagged),
    Rule("standard_deviations_ term_standard_deviations_", "not assessed", "scores of each bag",
         "Predictions do not need them. They say how far bags are off their means.",
         owner=_OWNERS, form=_deviations),
    Rule("intercept_ bagged_intercept_", "not assessed", "fitted parameters",
         "They are computed from all rows together. treeleak does not attack them.",
         owner=_OWNERS, form=lambda v, o: _of_scores(v, o) or _of_bags(v, o)),
    Rule("bag_weights_ best_iteration_ breakpoint_iteration_", "harmless", "sizes",
         "Numbers of rows and rounds of each bag.", owner=_OWNERS, form=_of_bags),
    Rule("noise_scale_* link_ link_param_ has_fitted_", "harmless", "technical notes",
         "Versions and settings of the library.", owner=_OWNERS, form=forms.short),
    Rule("term_features_ term_names_ feature_types_in_ feature_names_in_", "harmless",
         "names of columns and classes",
         "They name columns and labels, not the rows that have them.", owner=_OWNERS, form=_names),
)
# fmt: on
