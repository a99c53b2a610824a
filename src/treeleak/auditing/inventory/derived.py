"""What files of boosting libraries say twice: it follows from the rest of the file.

What does not is left over, for somebody may have put it there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.auditing.inventory.shapes import Place, array_in, inside
from treeleak.auditing.inventory.steps import FITS, PRINTED, Lists, is_schedule, odd_steps
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.city_hash import category_hash
from treeleak.core.private import dataclass
from treeleak.release.adapters.catboost_ctr import codes_of
from treeleak.release.adapters.lightgbm_fitting import dropped_trees

_NO_PARENT = 2**31 - 1
"""How XGBoost writes that a node has no parent, or was pruned."""
_RATE, _TINY = 1e-6, 1e-30
"""Roundings of three numbers in single precision, and where it has fewer digits."""
_SET_ANEW = ("reg:absoluteerror", "reg:quantileerror")
"""Losses for which leaves get another value once they are grown."""
_PRINTED = 1e-4
"""How far sums may be off of numbers that are printed with six digits."""
_ENDS = re.compile(r"\[([^:\]]+):([^:\]]+)\]")
_KIND = re.compile(r'"type":"(\w+)"')
_CATEGORY = '"cat_feature_value"'
_COUNTING = ("Borders", "Buckets", "Counter", "FeatureFreq")
_EMPTY = 2**64 - 1
_SMALL, _RARE = np.uint64(2**44), 18
"""Of mixed values, one in a million is smaller; in a table of 2^18 none is, by all odds."""


def of_xgboost(root: Mapping[str, Any]) -> Iterator[tuple[Place, Any]]:
    """List what stands in trees where XGBoost writes what follows from the rest of the tree.

    That is: parents, the sums of second derivatives of inner nodes, their values and gains, what
    leaves would test, numbers of trees and of columns, and where the categories of a node begin.
    """
    learner = inside(root.get("Model", root), "learner")
    booster = inside(learner, "gradient_booster")
    trees = inside(inside(booster, "gbtree") or booster, "model", "trees")
    columns = inside(learner, "learner_model_param", "num_feature")
    loss = inside(learner, "objective", "name")
    listed = [t if isinstance(t, Mapping) else {} for t in trees] if isinstance(trees, list) else []
    read = {t: nodes for t, tree in enumerate(listed) if (nodes := _Nodes.of(tree)) is not None}
    param, forest = (
        inside(learner, "learner_model_param"),
        inside(inside(booster, "gbtree") or booster, "model", "gbtree_model_param"),
    )
    outputs, targets, parallel = (
        int(text) if re.fullmatch(r"[1-9]\d{0,8}", text := str(inside(part, key))) else 1
        for part, key in (
            (param, "num_class"), (param, "num_target"), (forest, "num_parallel_tree"))
    )  # fmt: skip
    shares = _shares(loss, inside(learner, "objective", "quantile_loss_param", "quantile_alpha"))
    # Where leaves hold several numbers, no reader takes the trees.
    lists = {
        t: n.lists(t // (max(outputs, targets) * parallel), shares[t // parallel % len(shares)])
        for t, n in read.items()
        if not (size := str(inside(listed[t], "tree_param", "size_leaf_vector"))).isdecimal()
        or int(size[:9]) < 2
    }
    for t, key in odd_steps(lists):
        if key in listed[t]:
            yield ("trees", t, key), listed[t][key]
    for t, tree in enumerate(listed):
        for key in _odd_lists(read[t]) if t in read else ():
            if key == "base_weights" and loss in _SET_ANEW:
                continue
            yield ("trees", t, key), tree.get(key)
        if str(tree.get("id", t)) != str(t):
            yield ("trees", t, "id"), tree["id"]
        param, children = inside(tree, "tree_param"), array_in(tree.get("left_children"))
        if children is not None:
            n_deleted = len(children) - 1 - 2 * int((children != -1).sum())
            if (stated := str(inside(param, "num_deleted") or 0)) != str(n_deleted):
                yield ("trees", t, "num_deleted"), stated
        if (stated := inside(param, "num_feature")) not in (None, "0", columns):
            yield ("trees", t, "num_feature"), stated


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The lists of a tree of XGBoost that have a number for each node."""

    held: Mapping[str, NDArray[Any]]
    leaf: BoolArray
    below: IntArray
    """Shape (2, nodes that are no leaves). Their children."""

    @classmethod
    def of(cls, tree: Mapping[str, Any]) -> _Nodes | None:
        """Take them from a document; None if it is no tree."""
        held = {key: array for key, value in tree.items() if (array := array_in(value)) is not None}
        left, right = (held.get(key) for key in ("left_children", "right_children"))
        if left is None or right is None or len(left) != len(right) or not len(left):
            return None
        n, leaf = len(left), left == -1
        below = np.stack([left, right])[:, ~leaf].astype(np.int64)
        if not ((below > 0) & (below < n)).all():
            return None
        sized = {k: a for k, a in held.items() if len(a) == n or k.startswith("categories")}
        return cls(sized, leaf, below)

    def pruned(self) -> IntArray | None:
        """Number the nodes that were cut off, children of one parent after each other.

        None if they do not name their parent, which is a leaf now, or pruned as well.
        """
        reached = np.zeros(len(self.leaf), dtype=bool)
        reached[self.below] = True
        cut = np.flatnonzero(~reached[1:]) + 1
        above = self.held["parents"][cut] if "parents" in self.held else np.full(len(cut), -1.0)
        cut, above = (x[np.argsort(above, kind="stable")] for x in (cut, above))
        known = ((above >= 0) & (above < cut)).all() and self.leaf[above.astype(int)].all()
        twice = len(cut) % 2 == 0 and (np.unique(above, return_counts=True)[1] == 2).all()
        return cut if known and twice else None

    def lists(self, rounds: int, share: float | None) -> Lists:
        """Give what values and gains rest on: with pruned nodes, whose parents had tests."""
        held, inner, below = dict(self.held), np.flatnonzero(~self.leaf), self.below
        if (cut := self.pruned()) is not None and len(cut):
            inner = np.append(inner, held["parents"][cut[::2]].astype(np.int64))
            below = np.column_stack([below, cut.reshape(-1, 2).T])
        if share is not None and "base_weights" in held:
            held["split_conditions"] = held["base_weights"]
        return Lists(held, inner, below, rounds, _ratio(self)[0] if share is None else 1.0, share)


def _odd_lists(nodes: _Nodes) -> Iterator[str]:
    """Name the lists of a tree that do not follow from the others."""
    held, leaf, below, n = nodes.held, nodes.leaf, nodes.below, len(nodes.leaf)
    parents = np.full(n, -1.0)
    parents[below] = np.flatnonzero(~leaf)
    n_deleted = int((parents[1:] == -1).sum())
    stated = held.get("parents", parents)
    stated = np.where(stated == _NO_PARENT, -1, stated)
    if (stated != parents)[(parents > -1) | (np.arange(n) == 0)].any():
        yield "parents"
    if (cut := nodes.pruned()) is None or len(cut) != n_deleted:
        yield "parents"
    # A leaf whose children were pruned still has its test.
    empty = leaf.copy()
    if cut is not None and len(cut):
        empty[stated[cut].astype(np.int64)] = False
        # Of those that were pruned, no column is named.
        named = held.get("split_indices", np.zeros(n))[cut]
        if not np.isin(named, (0, _NO_PARENT)).all():
            yield "split_indices"
    for key in ("split_indices", "default_left", "loss_changes", "split_type"):
        at = empty if key == "loss_changes" else empty & (parents > -1)
        if key in held and held[key][at].any():
            yield key
    # Some programs write the same number everywhere.
    if (sums := held.get("sum_hessian")) is not None and np.ptp(sums) > 0:
        grown = nodes.lists(0, None)
        added = sums[grown.below].sum(axis=0)
        if (np.abs(added - sums[grown.inner]) > FITS * np.abs(added)).any():
            yield "sum_hessian"
    if _ratio(nodes)[1]:
        yield "base_weights"
    if "leaf_child_counts" in held and held["leaf_child_counts"].max() > 2:
        yield "leaf_child_counts"
    tests, starts, sizes = (held.get(f"categories_{k}", np.zeros(0)) for k in (
        "nodes", "segments", "sizes"))  # fmt: skip
    if (np.diff(tests) <= 0).any() or (sizes <= 0).any() or len(tests) != len(sizes):
        yield "categories_nodes"
    kinds = held.get("split_type", np.zeros(n))
    if not np.isin(tests, np.flatnonzero(kinds == 1)).all():
        yield "categories_nodes"
    if not np.array_equal(starts, np.cumsum(sizes) - sizes):
        yield "categories_segments"


def _ratio(nodes: _Nodes) -> tuple[float, bool]:
    """Give what the weight of a leaf is of what it adds, and say whether it differs in a tree."""
    weights, added = (nodes.held.get(k, np.zeros(len(nodes.leaf)))[nodes.leaf] for k in (
        "base_weights", "split_conditions"))  # fmt: skip
    if not weights.any():
        return 1.0, False
    k = np.abs(weights).argmax()
    with np.errstate(all="ignore"):
        off = np.abs(added - weights * (added[k] / weights[k]))
        odd = (off > _RATE * np.maximum(np.abs(added), _TINY)).any()
        return float(weights[k] / added[k]), bool(odd)


def _shares(loss: Any, quantiles: Any) -> list[float | None]:
    """Say, by output, how rows count for losses that set leaves anew; None for others."""
    if loss not in _SET_ANEW:
        return [None]
    parts = str(quantiles).strip("[]").split(",") if loss == _SET_ANEW[1] else []
    return [_number_in(part.strip(), 0.0) for part in parts] or [0.0]


def of_lightgbm(state: Mapping[str, Any]) -> Iterator[tuple[Place, Any]]:
    """List counts, weights, importances and ranges that are not those of trees and columns."""
    stored = state.get("trees")
    trees = [t for t in stored if isinstance(t, Mapping)] if isinstance(stored, list) else []
    for t, tree in enumerate(trees):
        for inner, leaf in (("internal_count", "leaf_count"), ("internal_weight", "leaf_weight")):
            held, below = array_in(tree.get(inner)), array_in(tree.get(leaf))
            if held is None or below is None or not len(held) or not held.any():
                continue
            added = _added(tree, below)
            # Versions before 4 leave the root out.
            if added is None or len(added) != len(held):
                yield ("trees", t, inner), tree[inner]
                continue
            off = np.abs(added - held) * (held != 0)
            # Numbers of rows are whole, and written in full.
            few = 0.0 if inner == "internal_count" else PRINTED * added
            if (off > few).any():
                yield ("trees", t, inner), tree[inner]
        if not _numbered(tree):
            yield ("trees", t, "right_child"), tree.get("right_child")
    yield from _odd_lightgbm_steps(state, trees)
    listed = array_in(state.get("importances"))
    if listed is not None and len(listed) and not _are_importances(listed, trees):
        yield ("importances",), state["importances"]
    infos = str(state.get("feature_infos", "")).split()
    ends = [found for info in infos if (found := _ENDS.fullmatch(info))]
    pairs = [(found[0], array_in(list(found.groups()))) for found in ends]
    if odd := [info for info, pair in pairs if pair is None or pair[0] > pair[1]]:
        yield ("feature_infos",), odd
    categories = state.get("pandas_categorical")
    if isinstance(categories, str) and len(categories) > len("null"):
        try:
            categories = json.loads(categories)
        except (ValueError, RecursionError):
            yield ("pandas_categorical",), categories
            return
    if isinstance(categories, list) and len(categories) > len(infos) - len(ends):
        yield ("pandas_categorical",), categories


def _odd_lightgbm_steps(
    state: Mapping[str, Any], trees: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Place, Any]]:
    """List values of inner nodes, gains and rates that do not follow from leaves and settings."""
    held = state.get("parameters")
    known = {k: str(v) for k, v in held.items()} if isinstance(held, Mapping) else {}
    size = str(state.get("num_tree_per_iteration"))
    in_round = max(int(size), 1) if size.isdecimal() and len(size) < 9 else 1
    rates = np.array([_number_in(tree.get("shrinkage"), 1.0) for tree in trees])
    rounds = np.arange(len(trees)) // in_round
    # What holds the start as well, or is one leaf, says 1.
    own = rates != 1.0
    by_round = np.full(int(rounds.max(initial=-1)) + 1, np.nan)
    by_round[rounds[own]] = rates[own]
    dropped = known.get("boosting") == "dart" and dropped_trees(
        known, trees[::in_round], _number_in(known.get("learning_rate"), np.nan)
    ) is not None  # fmt: skip
    usual = dropped or is_schedule(by_round)
    for t in np.flatnonzero(own & ((rates != by_round[rounds]) | (not usual))).tolist():
        yield ("trees", t, "shrinkage"), trees[t]["shrinkage"]
    infos = str(state.get("feature_infos", "")).split()
    several = {column for tree in trees for column in _tested_together(tree)}
    names = {"base_weights": "internal_value", "loss_changes": "split_gain"}
    odd = list[list[tuple[int, str]]]()
    # What a dump does not say is the default, or nothing.
    for settings in [known] if known else [known, {"cat_l2": "0"}]:
        read = [_printed_lists(tree, rounds[t], rates[t], infos, settings, several)
                for t, tree in enumerate(trees)]  # fmt: skip
        lists = {t: one for t, one in enumerate(read) if one is not None}
        odd.append(list(odd_steps(lists, _number_in(known.get("lambda_l2"), 0.0), dropped)))
    for t, key in min(odd, key=len):
        if names[key] in trees[t]:
            yield ("trees", t, names[key]), trees[t][names[key]]


def _number_in(value: Any, otherwise: float) -> float:
    """Read one number; another where there is none."""
    try:
        number = float(np.ravel(value)[0]) if np.size(value) == 1 else otherwise
    except (TypeError, ValueError):
        return otherwise
    return number if np.isfinite(number) else otherwise


def _printed_lists(
    tree: Mapping[str, Any], rounds: int, rate: float, infos: Sequence[str],
    known: Mapping[str, str],
    several: Set[float],
) -> Lists | None:  # fmt: skip
    """Give what values and gains of a tree of LightGBM rest on; None of what is one leaf."""
    children = _children(tree)
    if children is None or not len(children):
        return None
    n = len(children)
    below = np.where(children < 0, n + ~children, children).T
    if not ((below > 0) & (below <= 2 * n)).all():
        return None  # What reads the trees refuses it.
    held = {"split_conditions": _all_nodes(tree, None, "leaf_value", n)}
    for name, key in (("base_weights", "internal_value"), ("loss_changes", "split_gain")):
        held[name] = _all_nodes(tree, key, None, n)
    weights = array_in(tree.get("leaf_weight"))
    held["sum_hessian"] = np.zeros(2 * n + 1)
    fits = weights is not None and len(weights) == n + 1
    if weights is not None and fits and (added := _added(tree, weights)) is not None:
        held["sum_hessian"] = np.append(added, weights)
    # Below tests of several categories, another number is added to l2.
    extra, tests = np.zeros(2 * n + 1), array_in(tree.get("decision_type"))
    columns = array_in(tree.get("split_feature"))
    few = _number_in(known.get("max_cat_to_onehot"), 4.0)
    if tests is not None and columns is not None and len(tests) == len(columns) == n:
        for v in np.flatnonzero(tests.astype(np.int64) & 1).tolist():
            info = infos[int(columns[v])] if 0 <= columns[v] < len(infos) else ""
            if len(info.split(":")) > few and (known or columns[v] in several):
                extra[below[:, v]] = _number_in(known.get("cat_l2"), 10.0)
    biased = rate == 1.0
    return Lists(
        held, np.arange(n), below, rounds, printed=True, biased=biased, extra=extra,
        rate=np.nan if biased else rate, blur=PRINTED * np.abs(held["base_weights"]),
    )  # fmt: skip


def _tested_together(tree: Mapping[str, Any]) -> Iterator[float]:
    """List the columns of tests of several categories, which are bits of words."""
    keys = ("cat_threshold", "cat_boundaries", "split_feature", "decision_type", "threshold")
    found = [array_in(tree.get(key)) for key in keys]
    words, ends, *tests = (np.nan_to_num(np.zeros(0) if x is None else x) for x in found)
    for column, test, place in zip(*tests, strict=False):
        if int(test) & 1 and 0 <= place < len(ends) - 1:
            first, last = (max(int(x), 0) for x in ends[int(place) : int(place) + 2])
            if sum(int(word).bit_count() for word in words[first:last]) > 1:
                yield float(column)


def _all_nodes(tree: Mapping[str, Any], inner: str | None, leaf: str | None, n: int) -> FloatArray:
    """Put numbers of inner nodes and of leaves behind each other; 0 for what is not stated."""
    parts = []
    for key, size in ((inner, n), (leaf, n + 1)):
        stated = array_in(tree.get(key)) if key is not None else None
        known = stated is not None and len(stated) == size
        parts.append(np.asarray(stated, dtype=float) if known else np.zeros(size))
    return np.concatenate(parts)


def _children(tree: Mapping[str, Any]) -> IntArray | None:
    """Children of each node, leaves as -1 and less; None if these are no numbers of nodes."""
    sides = [array_in(tree.get(key)) for key in ("left_child", "right_child")]
    n = len(sides[0]) if sides[0] is not None else 0
    if any(side is None or len(side) != n or not (np.abs(side) <= n + 1).all() for side in sides):
        return None
    return np.stack(sides).astype(np.int64).T  # type: ignore[arg-type]


def _added(tree: Mapping[str, Any], leaves: FloatArray) -> FloatArray | None:
    """Add what leaves hold up to the root; None if nodes do not lead to each other."""
    children = _children(tree)
    if children is None or len(children) != len(leaves) - 1:
        return None
    if (children >= len(children)).any() or (~children >= len(leaves)).any():
        return None
    out = np.zeros(len(children))
    # A node is numbered before those below it.
    for v in range(len(children) - 1, -1, -1):
        out[v] = sum(leaves[~c] if c < 0 else out[c] for c in children[v])
    return out


def _numbered(tree: Mapping[str, Any]) -> bool:
    """Say whether a split gives the next number to the leaf on its right, and keeps the other."""
    children = _children(tree)
    if children is None:  # What reads the trees refuses others.
        stated = array_in(tree.get("left_child"))
        return stated is None or not len(stated)
    first = np.zeros(len(children) + 1, dtype=np.int64)
    for v in range(len(children) - 1, -1, -1):
        left, right = (~c if c < 0 else first[min(c, len(children))] for c in children[v])
        if right != v + 1:
            return False
        first[v] = left
    return int(first[0]) == 0


def _are_importances(listed: FloatArray, trees: list[Mapping[str, Any]]) -> bool:
    """Say whether these count the splits on each column, or add up their gains."""
    splits, gains = dict[float, float](), dict[float, float]()
    for tree in trees:
        tested, gain = (array_in(tree.get(key)) for key in ("split_feature", "split_gain"))
        for k, column in enumerate([] if tested is None else tested.tolist()):
            splits[column] = splits.get(column, 0) + 1
            more = gain[k] if gain is not None and k < len(gain) else 0.0
            gains[column] = gains.get(column, 0.0) + more
    given, counted, added = (np.sort(list(x)) for x in (listed, splits.values(), gains.values()))
    # Gains are cut to whole numbers.
    near = len(given) == len(added) and bool((np.abs(given - added) <= 1 + _PRINTED * added).all())
    return np.array_equal(given, counted) or near


def of_catboost(root: Mapping[str, Any]) -> Iterator[tuple[Place, Any]]:
    """List borders that no tree tests, and tables that count no rows of one and the same training.

    A value is made of hashes of categories, which CatBoost mixes to 64 bits; tables of a kind count
    as many rows of each class. A place without a value repeats the numbers of another.
    """
    named = inside(root, "features_info", "cat_features_hash")
    for k, entry in enumerate(named if isinstance(named, list) else []):
        text, code = str(inside(entry, "value")), inside(entry, "hash")
        expected = category_hash(text)
        if expected is not None and (not isinstance(code, int) or (code - expected) % 2**32):
            yield ("features_info", "cat_features_hash", k, "hash"), code
    yield from _parts_not_tested(root)
    tables, totals = inside(root, "ctr_data"), dict[tuple[str, int], NDArray[Any]]()
    for key, table in tables.items() if isinstance(tables, Mapping) else ():
        kind, stride = _KIND.search(str(key)), inside(table, "hash_stride")
        cells, most = inside(table, "hash_map"), inside(table, "counter_denominator")
        if kind is None or not isinstance(cells, list) or not isinstance(stride, int):
            continue
        if stride < 2 or len(cells) % stride:
            continue  # What reads the trees refuses it.
        values = [int(x) if str(x).isdigit() and int(x) < _EMPTY else 0 for x in cells[::stride]]
        listed = np.array(values, dtype=np.uint64)
        held, numbers = listed > 0, [cells[k::stride] for k in range(1, stride)]
        plain = all(isinstance(x, (int, float)) for column in numbers for x in column)
        counts = np.array(numbers if plain else np.zeros((stride - 1, len(held))), dtype=float).T
        few = int((listed[held] < _SMALL).sum()) > len(held) >> _RARE
        single = str(key).count('"combination_element"') == 1 and _CATEGORY in str(key)
        mixed = not few and (not single or bool(codes_of(listed[held])[1].all()))
        repeats = {*map(tuple, counts[~held].tolist())} <= {*map(tuple, counts[held].tolist())}
        sums = counts[held].sum(axis=0)[0 if kind[1] in _COUNTING else -1 :]
        same = np.array_equal(totals.setdefault((kind[1], stride), sums), sums)
        known = most in (0, None, sums.sum(), counts[held].max(initial=0))
        if not (plain and mixed and repeats and same and known):
            yield ("ctr_data", str(key)), table


_TESTED = {
    "float_features": ("float_feature_index", "feature_index", "borders", "border"),
    "categorical_features": ("cat_feature_index", "feature_index", "values", "value"),
    "ctrs": ("split_type", "", "borders", "border"),
}
"""By list of columns: where a test names one, what it is called, and what tests take of it."""


def _parts_not_tested(root: Mapping[str, Any]) -> Iterator[tuple[Place, Any]]:
    """List borders and categories of columns that no tree tests: CatBoost keeps none."""
    tested: dict[str, set[tuple[Any, Any]]] = {key: set() for key in _TESTED}
    for tree in (*_listed(root.get("oblivious_trees")), *_listed(root.get("trees"))):
        splits = _listed(inside(tree, "splits")) or [inside(node, "split") for node in nodes(tree)]
        for split, (kind, (at, _, _, value)) in product(splits, _TESTED.items()):
            if inside(split, at) is not None and (stated := inside(split, value)) is not None:
                tested[kind].add((None if kind == "ctrs" else str(split[at]), _single(stated)))
    if odd_numbers := _odd_numbers(root):
        yield ("split_index",), odd_numbers
    for kind, (_, name, listed, _) in _TESTED.items():
        for k, column in enumerate(_listed(inside(root, "features_info", kind))):
            of = str(inside(column, name)) if name else None
            values = _listed(inside(column, listed))
            if odd := [v for v in values if (of, _single(v)) not in tested[kind]]:
                yield ("features_info", kind, k, listed), odd


def _odd_numbers(root: Mapping[str, Any]) -> list[Any]:
    """List the numbers of tests against borders if they do not count columns and borders."""
    found: dict[tuple[float, float], set[Any]] = {}
    for tree in _listed(root.get("oblivious_trees")):
        for split in _listed(inside(tree, "splits")):
            column, border, number = (
                inside(split, k) for k in ("float_feature_index", "border", "split_index")
            )
            plain = inside(split, "split_type") == "FloatFeature" and number is not None
            if plain and isinstance(column, int) and isinstance(border, (int, float)):
                found.setdefault((column, _single(border)), set()).add(number)
    numbers = [x for _, each in sorted(found.items()) for x in each]
    return [] if numbers == list(range(len(found))) else numbers


def _listed(value: Any) -> list[Any]:
    return (
        value.tolist()
        if isinstance(value, np.ndarray)
        else value
        if isinstance(value, list)
        else []
    )


def _single(value: Any) -> float:
    """Give a number as tests and columns both write it; NaN, which equals none, for others."""
    known = isinstance(value, (int, float)) and abs(value) < 3.5e38
    return float(np.float32(value)) if known else float("nan")


def nodes(tree: Any) -> Iterator[Any]:
    """List the nodes of a tree of CatBoost whose nodes hold each other."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Mapping) and "split" in node:
            stack += (node.get("right"), node.get("left"))
