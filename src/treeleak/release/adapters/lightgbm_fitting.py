"""How the leaves of a LightGBM model were fitted, by the parameters in its file.

Also, which trees it left out for a time (dart), by the seed in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import softmax

from treeleak.core.arrays import FloatArray
from treeleak.core.message import static_message
from treeleak.release.adapters.boosted import numbers, whole_sums
from treeleak.release.bounds import MOST_REAL
from treeleak.release.draws.boosters import lightgbm_fractions
from treeleak.release.ensemble import Fitting, kept_shares
from treeleak.release.first_tree import with_start
from treeleak.release.statistics import HESSIAN, L2, ROWS, VALUE, NodeStatistic, Statistics
from treeleak.release.tree import Tree

_STRAIGHT = {
    "path_smooth": "0", "boost_from_average": "1",
    "use_quantized_grad": "0", "linear_tree": "0", "monotone_constraints": "",
}  # fmt: skip
"""Parameters as they are where leaves are steps as :class:`Fitting` has them; but for the start,
defaults."""
_BENT = {"lambda_l1": "0", "max_delta_step": "0", "scale_pos_weight": "1", "is_unbalance": "0"}
"""Parameters that bend steps, or weigh classes, and as they are where they do not."""


_NAMED = 2e-5
"""How far a rate may be off, as a share of it: files give six digits."""
_SUMMED = 6e-6
"""How far sums of hessians may be off, as a share of them: those of inner nodes have six digits."""


def exact(parameters: Mapping[str, str]) -> bool:
    """Whether sums were added up in double precision.

    On GPUs, LightGBM's default is single precision. A small leaf may then be off by what rounding
    makes of a much larger one: it has what is left of its parent's sums.
    """
    device = parameters.get("device_type", "cpu")
    return device == "cpu" or (device == "gpu" and parameters.get("gpu_use_dp") == "1")


def fitting_of(
    objective: str,
    parameters: Mapping[str, str],
    trees: Sequence[Tree],
    outputs: int,
    rate: float | None,
    *,
    drawn: bool,
) -> Fitting | None:
    """Say how leaves were fitted, of the logistic loss or of squares.

    The values of the first tree hold the start as well; their steps, weighed by H + l2, add up to
    nothing, since the sum of all first derivatives is 0 there.
    """
    usual = parameters.get("boosting", "gbdt") in ("gbdt", "dart") and all(
        parameters.get(key, value) == value for key, value in _STRAIGHT.items()
    )
    l2 = l2_of(parameters)
    logistic = objective.split() == ["binary", "sigmoid:1"] and outputs == 1
    softmax = objective.split() == ["multiclass", f"num_class:{outputs}"] and outputs > 1
    squared = objective.split() == ["regression"] and outputs == 1
    if not (logistic or softmax or squared) or not usual or l2 is None:
        return None
    if not trees or len(trees) % outputs:
        return None
    if any(parameters.get(key, value) != value for key, value in _BENT.items()):
        alone = logistic and parameters.get("num_machines", "1") == "1"
        return _bent(parameters, trees[0], l2, rate, drawn) if alone and rate else None
    starts = tuple(_start(tree, Fitting("squared", l2)) for tree in trees[:outputs])
    is_stored = None not in starts
    # Trees that are one leaf each say nothing of a start.
    untold = squared or any(tree.statistics.get(HESSIAN) for tree in trees)
    if not is_stored and (untold or all(tree.n_nodes == 1 for tree in trees)):
        return None
    start = tuple(float(base or 0.0) for base in starts) if is_stored else None
    if squared:
        return Fitting("squared", l2, start=start, derivatives="float32", targets="float32")
    if outputs == 1:
        return Fitting("logistic", l2, start=start, started=is_stored, derivatives="float32")
    # LightGBM counts K / (K - 1) p (1 - p) for each of K classes.
    curvature = outputs / (outputs - 1)
    return Fitting(
        "softmax", l2, start=start, started=is_stored, curvature=curvature, derivatives="float32"
    )


def _bent(
    parameters: Mapping[str, str], tree: Tree, l2: float, rate: float, drawn: bool
) -> Fitting | None:
    """Say how leaves were fitted where steps are bent, or classes weighed, by parameters."""
    limit = parameters.get("max_delta_step", "0")
    l1, longest, weight = map(
        _real,
        (
            parameters.get("lambda_l1", "0"), "0" if limit.startswith("-") else limit,
            parameters.get("scale_pos_weight", "1"),
        ),
    )  # fmt: skip
    unbalanced = parameters.get("is_unbalance", "0") != "0"
    if l1 is None or longest is None or not weight or tree.totals is None:
        return None
    fitting = Fitting(
        "logistic", l2, l1=l1, longest=longest, derivatives="float32", start=(0.0,),
        class_weights=() if weight == 1 else (1.0, weight),
    )  # fmt: skip
    if drawn:
        # Where it starts follows from the number of all rows, which the file does not say.
        return None if unbalanced else fitting
    n = tree.totals[tree.leaves].astype(float)
    return with_start(tree, fitting, rate, n, int(n.sum()), unbalanced=unbalanced)


def with_category_l2(
    trees: Sequence[Tree], parameters: Mapping[str, str], infos: Sequence[str]
) -> list[Tree] | None:
    """Say what is added to H in leaves right below a test for categories: lambda_l2 and cat_l2.

    Of columns with so few categories that each is tried alone, lambda_l2 only. ``infos``: what the
    file says of each column, of categories all of them, as -1:3:1. None if it says nothing, and
    the tests do not tell.
    """
    category_l2, l2 = _real(parameters.get("cat_l2", "10")), l2_of(parameters)
    few = parameters.get("max_cat_to_onehot", "4")
    if not category_l2 or l2 is None or not re.fullmatch(r"\d{1,9}", few):
        return list(trees)
    several: set[int] = set()
    for tree in trees:
        if tree.categories is not None:
            node, size = np.unique(tree.categories.node, return_counts=True)
            several |= set(tree.feature[node[size > 1]].tolist())

    result = []
    for tree in trees:
        tested = np.zeros(tree.n_nodes, dtype=bool)
        if tree.categories is not None:
            tested[tree.categories.node] = True
        for column in set(tree.feature[tested].tolist()):
            info = infos[column] if column < len(infos) else ""
            if ":" not in info and column not in several:
                return None
            if ":" in info and len(info.split(":")) <= int(few):
                tested[tree.feature == column] = False
        below = tree.is_leaf & tested[tree.parent] & (tree.parent >= 0)
        entry = NodeStatistic(L2, np.where(below, l2 + category_l2, 0.0), below)
        statistics = Statistics((*tree.statistics, entry)) if below.any() else tree.statistics
        result.append(tree.with_statistics(statistics))
    return result


def one_start(trees: Sequence[Tree], fitting: Fitting, rate: float | None) -> bool:
    """Whether, as far as a file shows, no row had a weight, nor a score of its own to start from.

    Then each row counts the same in all sums of hessians of the first round, and squares go on from
    what the first tree left of the mean.
    """
    start = np.array(fitting.start or ())
    if fitting.class_weights:
        return True  # Both classes had whole numbers of rows.
    for output, tree in enumerate(trees[: len(start)]):
        rows, sums = tree.totals, tree.statistics.get(HESSIAN)
        if rows is None or sums is None:
            return True
        # Former versions write 0 for the root.
        due = rows[tree.leaves] * _second_derivative(fitting, start, output)
        if (np.abs(sums.values[tree.leaves] - due) > _SUMMED * due).any():
            return False
    if fitting.loss != "squared" or rate is None or len(trees) < 2:
        return True
    # The mean is where all steps of the first tree, times their rows, would cancel out.
    left, taken = _by_rows(trees[0], -start[0], None), _by_rows(trees[1], 0.0, fitting)
    off = abs(float(taken.sum() + rate * left.sum()))
    return off <= _SUMMED * float(np.abs(taken).sum() + rate * np.abs(left).sum())


def _second_derivative(fitting: Fitting, start: FloatArray, output: int) -> float:
    """What each row counts in the sums of an output, at the start."""
    if fitting.loss == "squared":
        return 1.0
    p = softmax(start if len(start) > 1 else [start[0], 0.0])[output]
    return float(fitting.curvature * p * (1.0 - p))


def _by_rows(tree: Tree, shift: float, fitting: Fitting | None) -> FloatArray:
    """Give what leaves add, shifted, times what each row, and l2 of ``fitting``, count in them."""
    value, hessian = (tree.statistics.get(q) for q in (VALUE, HESSIAN))
    if tree.n_nodes == 1 or value is None or hessian is None:
        return np.zeros(1)
    leaves = tree.leaves
    weight = hessian.values[leaves] + (0.0 if fitting is None else fitting.l2_at(tree)[leaves])
    return np.asarray((value.values[leaves] + shift) * weight)


def rate_of(parameters: Mapping[str, str], raw: Sequence[Mapping[str, Any]]) -> float | None:
    """Give the learning rate; for want of it, by what each of the last trees was multiplied."""
    try:
        rate = float(parameters.get("learning_rate", "nan")[:40])
        if "learning_rate" not in parameters and raw and "shrinkage" in raw[-1]:
            rate = float(numbers(raw[-1], "shrinkage", 1, f"tree {len(raw) - 1}")[0])
    except ValueError:
        return None
    return rate if np.isfinite(rate) else None


def one_rate(raw: Sequence[Mapping[str, Any]], outputs: int, rate: float | None) -> bool:
    """Whether all trees were multiplied by the learning rate, as far as they say.

    The first tree of an output holds the start as well, and says 1, as trees of one leaf do.
    """
    for t, fields in enumerate(raw[outputs:], outputs):
        if rate is None or "shrinkage" not in fields or fields["num_leaves"][0] < 2:
            continue
        if abs(float(numbers(fields, "shrinkage", 1, f"tree {t}")[0]) - rate) > _NAMED * abs(rate):
            return False
    return True


def _start(first: Tree, fitting: Fitting) -> float | None:
    """Find the prediction before a first tree whose leaves hold it as well."""
    value, hessian = (first.statistics.get(q) for q in (VALUE, HESSIAN))
    if first.n_nodes == 1 or value is None or hessian is None:
        return None
    weight = (hessian.values + fitting.l2_at(first))[first.leaves]
    return float(value.values[first.leaves] @ weight / weight.sum()) if weight.sum() > 0 else None


def without_estimates(
    trees: Sequence[Tree], parameters: Mapping[str, str], fitting: Fitting | None
) -> list[Tree]:
    """Drop numbers of rows that are estimates, as several machines make them.

    They take a leaf's share of the sum of hessians for its share of the rows. That is right where
    all rows have one second derivative: in the first round, if they start alike, and where leaves
    sum up 1 for each row.
    """
    if parameters.get("num_machines", "1") == "1":
        return list(trees)
    n_first_round = len(fitting.start) if fitting is not None and fitting.start is not None else 0
    result = []
    for t, tree in enumerate(trees):
        rows, hessian = tree.totals, tree.statistics.get(HESSIAN)
        sums = np.zeros(0) if hessian is None or rows is None else hessian.values - rows
        sure = t < n_first_round or (sums.size > 0 and not sums[tree.leaves].any())
        result.append(tree if sure else tree.with_counts(totals=None))
    return result


def with_first_rows(trees: list[Tree], fitting: Fitting | None) -> list[Tree]:
    """Count the rows of the first tree by its sums of hessians, if no tree counts any.

    All rows have one prediction before it, and so one second derivative.
    """
    if fitting is None or fitting.loss != "logistic" or fitting.start is None:
        return trees
    hessian = trees[0].statistics.get(HESSIAN)
    if hessian is None or hessian.present is not None or any(t.statistics.get(ROWS) for t in trees):
        return trees
    each = _second_derivative(fitting, np.array(fitting.start), 0)
    rows = whole_sums(hessian.values, each, _SUMMED, trees[0].left, trees[0].right)
    if rows is None:
        return trees
    counted = Statistics((NodeStatistic(ROWS, rows), *trees[0].statistics))
    return [replace(trees[0], statistics=counted), *trees[1:]]


def l2_of(parameters: Mapping[str, str]) -> float | None:
    """Give what is added to sums of hessians, but below tests for categories."""
    return _real(parameters.get("lambda_l2", "0"))


def _real(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= MOST_REAL else None


ZEROS = (
    "tree {}, node {}: zeros count as missing there (zero_as_missing) and go the other way than "
    "their value: such tests are not covered"
)
COUNTLESS = static_message(
    "the LightGBM file holds no numbers of rows (leaf_count), and rebuilding rows from other "
    "statistics is not covered yet",
    "lightgbm_countless",
)
VALUES_ALONE = static_message(
    "The file holds neither numbers of rows nor parameters: treeleak assumes that every "
    "tree saw all rows, and LightGBM's default regularisation.",
    "lightgbm_values_alone",
)
MISCOUNTED = static_message(
    "the numbers of rows in the LightGBM file do not add up: they do not belong to its trees",
    "lightgbm_miscounted",
)
UNTOLD = static_message(
    "the LightGBM file does not hold the parameters of its training, which say whether each tree "
    "saw all rows",
    "lightgbm_untold",
)
GOSS = static_message(
    "each tree saw the rows with the largest gradients and some of the others (GOSS): its counts "
    "are of these",
    "lightgbm_goss",
)
AVERAGE = static_message(
    "Predictions are the average of the trees, not their sum (boosting=rf).", "lightgbm_average"
)
OWN_START = static_message(
    "The sums of hessians are not those of rows that start alike: rows or classes had weights, or "
    "rows had scores of their own (init_score), which the file does not hold. Only numbers of rows "
    "are used.",
    "lightgbm_own_start",
)
OWN_RATES = static_message(
    "The trees were multiplied by learning rates of their own, or by another than the file names. "
    "Only numbers of rows are used.",
    "lightgbm_own_rates",
)


_SHOWN = 2e-5
"""How far the shares in a file may be off: they have six digits."""
_MOST = 3_000
"""Most trees, each of which looks at all before it."""


def dropped_trees(
    parameters: Mapping[str, str], raw: Sequence[Mapping[str, Any]], rate: float
) -> tuple[tuple[int, ...], ...] | None:
    """Say which earlier trees each tree was grown without, by the generator of the library.

    None where that is not known, or the trees were multiplied by other numbers.
    """
    try:
        seed = int(parameters["drop_seed"])
        drop_rate, skip, most = (
            float(parameters[k]) for k in ("drop_rate", "skip_drop", "max_drop")
        )
    except (KeyError, ValueError):
        return None
    uniform = parameters.get("uniform_drop", "0") == "1"
    if parameters.get("xgboost_dart_mode", "0") != "0" or not 0 < len(raw) <= _MOST:
        return None
    if not (0 <= seed < 2**31 and np.isfinite([drop_rate, skip, most]).all()):
        return None
    n = len(raw)
    draws = iter(lightgbm_fractions(seed, n * (n + 1)).tolist())
    weight, out = np.zeros(n), list[tuple[int, ...]]()
    for t in range(n):
        chosen = list[int]()
        if not next(draws) < skip:
            chance, mean = np.full(t, drop_rate), weight[:t].sum() / max(t, 1)
            if uniform and most > 0:
                chance = np.minimum(chance, most / max(t, 1))
            elif not uniform and t:
                least = min(drop_rate, most / mean / weight[:t].sum()) if most > 0 else drop_rate
                chance = least * weight[:t] / mean
            for i in range(t):
                if next(draws) < chance[i]:
                    chosen.append(i)
                    if 0 < most <= len(chosen):
                        break
        k = len(chosen)
        weight[chosen] *= k / (k + 1.0)
        weight[t] = rate / (1.0 + k)
        out.append(tuple(chosen))
    found = tuple(out)
    return found if _shown(raw, found, rate) else None


def _shown(raw: Sequence[Mapping[str, Any]], dropped: Sequence[Sequence[int]], rate: float) -> bool:
    """Whether the file says that trees were multiplied by what follows.

    The first one holds the start as well, and says nothing of the rate.
    """
    kept, due = kept_shares(dropped), np.ones(len(raw))
    due[1:] = [rate / (1.0 + len(chosen)) for chosen in dropped[1:]]
    stored: FloatArray = np.array(
        [numbers(fields, "shrinkage", 1, f"tree {t}")[0] for t, fields in enumerate(raw)]
        if all("shrinkage" in fields for fields in raw)
        else np.full(len(raw), np.nan)
    )
    grown = np.array([fields["num_leaves"][0] > 1 for fields in raw])
    return bool((np.abs(stored - due * kept) <= _SHOWN * due * kept)[grown].all())
