"""Comparison of the stated training rows with the model's counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadInput, Mismatch
from treeleak.core.message import MessageTemplate
from treeleak.core.private import dataclass
from treeleak.release.n_rows import RowCount, check_row_count
from treeleak.release.noise.goodness_of_fit import Misfit
from treeleak.release.noise.laws import LabelNoise
from treeleak.release.release import MAY_BE_DRAWS, Release
from treeleak.release.row_facts import NOT_TOLD
from treeleak.release.rule_list import RuleList
from treeleak.release.sampling import AllRows
from treeleak.release.stated_noise import noise_left
from treeleak.release.statistics import ROWS
from treeleak.schema import Categorical, Schema
from treeleak.verification.columns import columns_by_name, in_model_columns
from treeleak.verification.counts import check_drawable, check_rows

HINT = (
    "Were some rows left out or added, values lost or changed, columns encoded in another way, or, "
    "without names, put in another order?"
)
OF_A_FOREST = (
    "But every leaf that counts rows holds some of these: it may be a tree of a random forest, "
    "which counts each row as often as the tree drew it. Such a tree cannot be compared with "
    "training rows by its counts; --bootstrap hidden attacks it as what it is."
)
DRAWN_HINT = " Each tree drew rows by number: give them in the order of training."

FACTS_OF_OTHERS = MessageTemplate(
    "row_facts_of_other_number",
    "The file says something of each of {told:people} training rows, these are {rows:people}.",
)
OTHER_LEAVES = MessageTemplate(
    "row_leaves_of_others",
    "The file says other leaves of {off:people} of {rows:people} training rows. If they are in the "
    "order of training, it was changed, or the model saw others.",
)
OTHER_TARGETS = MessageTemplate(
    "row_targets_of_others",
    "The file says other targets of {off:people} of {rows:people} training rows. If they are in "
    "the order of training, with what the model was fitted to (the time of an event, not whether "
    "there was one), it was changed, or the model saw others.",
)
_ROUNDED = 1e-6
"""By how much targets may be rounded, of the largest."""

N_ROWS_HINT = "If these are all training rows, give their number, too (n_rows, --n-rows)."


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Training rows in the model's columns, whose counts are the model's."""

    X: pd.DataFrame
    """In their order."""
    checked: str
    """What was compared."""
    notes: tuple[str, ...] = ()


def match_training(
    release: Release,
    X: Any,
    y: Any = None,
    draws: NDArray[np.unsignedinteger[Any]] | None = None,
    hidden: RowCount | None = None,
) -> TrainingRows:
    """Put training rows in the model's columns, and check that the model counted them.

    Parameters
    ----------
    X : DataFrame or array
        Columns are found by name where they have names.
    y : sequence, optional
        Labels; without them, only the sums over all classes can be compared.
    draws : int array, shape (n_trees, n_rows), optional
        How often each tree drew each row; without it, every tree saw every row once. With it, the
        order of the rows matters.
    hidden : RowCount, optional
        The number of rows, where each tree drew some that are not known: each leaf then needs the
        rows that it counts draws of, and may hold more.

    Raises
    ------
    Mismatch
        Naming the column, the label, or the tree and leaf whose count differs; where counts carry
        noise, saying that it does not explain the differences.
    """
    labelled = y is not None and bool(release.classes)
    table, label, notes = in_model_columns(release, X, y if labelled else None)
    if release.noise is not None:
        return _behind_noise(release, table, label if labelled else None, notes)
    if hidden is not None:
        return _drawable(release, table, label if labelled else None, hidden, notes)
    n_rows = release.n_rows if draws is None else draws.shape[1]
    if n_rows is not None and len(table) != n_rows:
        by_weight = "; its file counts rows by their weights, if they had any"
        hint = by_weight if release.adds_weights else ""
        raise Mismatch(f"the model was trained on {n_rows} rows, these are {len(table)}{hint}")
    values = table.to_numpy()
    check = check_rows(release, values, label if labelled else None, draws)
    if check.first is not None:
        hint = _suspects(release, values) + ("" if draws is None else DRAWN_HINT)
        if draws is None and _may_be_drawn(release, values, label, labelled):
            raise Mismatch(f"{check.first}. {check.misses} counts differ in all. {OF_A_FOREST}")
        raise Mismatch(f"{check.first}. {check.misses} counts differ in all. {hint}")
    by_class = labelled and release.counts_are in ("rows", "draws")
    unit = "rows" if draws is None else "draws"
    checked = f"{unit} of each class in every leaf" if by_class else f"{unit} in every leaf"
    return TrainingRows(table, checked, notes)


def check_row_facts(release: Release, table: pd.DataFrame, y: Any, by_number: bool = True) -> None:
    """Hold what the file says of each row against training rows.

    Parameters
    ----------
    table : DataFrame
        In the model's columns.
    y : sequence or None
        Labels; without them, leaves alone are compared.
    by_number : bool, optional
        Whether rows are in the order of training; else targets alone are compared, in any order.

    Raises
    ------
    Mismatch
        Where these are other rows, or the file was changed.
    """
    facts = release.row_facts
    if facts is None or release.noise is not None:
        return
    if len(table) != facts.n_rows:
        raise Mismatch(FACTS_OF_OTHERS(told=facts.n_rows, rows=len(table)))
    by_number, off = by_number and facts.in_order, 0
    if by_number:
        told = facts.leaves != NOT_TOLD
        off = int((told & (facts.leaves != release.leaves(table).T)).any(axis=0).sum())
    if off:
        raise Mismatch(OTHER_LEAVES(off=off, rows=facts.n_rows))
    if y is None or release.classes:
        return
    targets = pd.to_numeric(pd.Series(np.ravel(np.asarray(y, dtype=object))), errors="coerce")
    given = targets.to_numpy(dtype=float)
    if len(given) != len(table):
        raise Mismatch(f"{len(given)} labels for {len(table)} training rows")
    near = _ROUNDED * np.abs(facts.targets[facts.told]).max(initial=0.0)
    if by_number:
        fits = (facts.low - near <= given) & (given <= facts.high + near)
        off = int((facts.told & ~fits).sum())
    else:
        values, times = np.unique(facts.targets[facts.exact], return_counts=True)
        ends = np.sort(given[~np.isnan(given)])
        there = np.searchsorted(ends, values + near, "right") - np.searchsorted(ends, values - near)
        off = int(np.maximum(times - there, 0).sum())
    if off:
        raise Mismatch(OTHER_TARGETS(off=off, rows=facts.n_rows))


def _behind_noise(
    release: Release,
    table: pd.DataFrame,
    label: IntArray | None,
    notes: tuple[str, ...],
) -> TrainingRows:
    """Check that the noise explains how the counts differ from those of these rows."""
    noise = release.noise
    if release.n_rows is not None and len(table) != release.n_rows:
        raise Mismatch(f"the model was trained on {release.n_rows} rows, these are {len(table)}")
    try:
        check_row_count(release, len(table), source=f"these are {len(table)} rows")
    except BadInput as error:
        raise Mismatch(str(error)) from None
    left = noise_left(release, table.to_numpy(), label)
    if not left.compared:
        return TrainingRows(table, "not compared with the model, which discloses too little", notes)
    if left.misfit is not None:
        raise Mismatch(_other_noise(left.misfit, release, table))
    named = isinstance(noise, LabelNoise)
    checked = "names of leaves that" if named else "counts that differ by no more than"
    return TrainingRows(table, f"{checked} the noise explains", notes)


def _other_noise(deviation: Misfit, release: Release, table: pd.DataFrame) -> str:
    """Say why what rows leave to the noise is none of the stated law."""
    what = "counts differ from those of these rows"
    if isinstance(release.noise, LabelNoise):
        what = "leaves name classes that are improbable for these rows"
    if deviation.how == "larger":
        suspects = _suspects(release, table.to_numpy())
        return f"the model's {what} by more than its noise explains: {deviation.why}. {suspects}"
    how = "by far less than" if deviation.how == "smaller" else "in another way than by"
    if isinstance(release.noise, LabelNoise):
        what, how = "leaves name their classes", "with far less noise than"
    return (
        f"the model's {what} {how} the stated noise: {deviation.why}. The noise is not there, "
        "or these are not the training rows"
    )


def _drawable(
    release: Release,
    table: pd.DataFrame,
    label: IntArray | None,
    counted: RowCount,
    notes: tuple[str, ...],
) -> TrainingRows:
    """Check that every tree could have drawn its counts from these rows."""
    low, high = counted.between
    if not low <= len(table) <= high:
        more = "" if release.n_rows is not None else f". {N_ROWS_HINT}"
        raise Mismatch(f"these are {len(table)} rows; the model was trained on {counted}{more}")
    if label is None:
        # Without labels, what a leaf drew can be of any class.
        label, release = np.zeros(len(table), dtype=np.int64), _unlabelled(release)
    if lacking := check_drawable(release, table.to_numpy(), label):
        raise Mismatch(
            f"the leaves count draws of {lacking} rows that are not among these. "
            f"{_suspects(release, table.to_numpy())}"
        )
    return TrainingRows(table, "every leaf holds enough of these rows for its draws", notes)


def _may_be_drawn(release: Release, values: FloatArray, label: IntArray, labelled: bool) -> bool:
    """Say whether the counts of a lone tree can be draws of these rows, as a forest draws them."""
    release = release if labelled or not release.classes else _unlabelled(release)
    codes = {getattr(note, "code", "") for note in release.notes}
    return MAY_BE_DRAWS in codes and check_drawable(release, values, label) == 0


def _unlabelled(release: Release) -> Release:
    trees = tuple(
        tree if tree.counts is None else tree.with_counts(counts=tree.counts.sum(axis=1)[:, None])
        for tree in release.trees
    )
    return replace(release, trees=trees, classes=("any",))


def counted(release: Release, X: Any, y: Any = None) -> Release:
    """Fill in how many of these rows reach each node of trees that all saw every row once.

    Parameters
    ----------
    release : Release
    X : DataFrame or array
        Columns are found by name where they have names.
    y : sequence, optional
        Labels; without them, or in a release without classes, rows are counted without them.

    Returns
    -------
    Release
        Without the counts and the noise that it had.

    Raises
    ------
    Mismatch
        Naming the column or the label that does not fit.
    """
    by_class = y is not None and bool(release.classes)
    table, label, notes = in_model_columns(release, X, y if by_class else None)
    rows = np.ascontiguousarray(table.to_numpy(), dtype=release.float_type)
    trees = []
    for tree in release.trees:
        found = np.zeros((tree.n_nodes, release.n_classes if by_class else 1))
        np.add.at(found, (tree.apply(rows), label), 1)
        for node in np.flatnonzero(~tree.is_leaf)[::-1]:
            found[node] = found[tree.left[node]] + found[tree.right[node]]
        trees.append(
            tree.with_counts(
                ROWS,
                counts=found if by_class else None,
                totals=None if by_class else found[:, 0],
                distinct=found.sum(axis=1).astype(np.int64),
            )
        )
    return replace(
        release,
        trees=tuple(trees),
        sampling=AllRows(),
        n_rows=len(rows),
        noise=None,
        not_covered=None,
        notes=(*release.notes, *notes),
    )


def match_rules(
    rules: RuleList, X: Any, y: Any = None, schema: Schema | None = None
) -> TrainingRows:
    """Put training rows in the rules' columns, and check that the rules counted them.

    ``y``: labels; without them, only the sums over all classes can be compared. ``schema``: says
    which texts codes stand for: rules may name one, and rows hold the other. Raises Mismatch,
    naming the column, the label, or the rule whose count differs.
    """
    table, notes = columns_by_name(rules.columns, X, "training rows")
    table = table.reset_index(drop=True)
    try:
        any_class = [rules.default.prediction] * len(table)
        named = _as_rules_name(rules, table, schema)
        found = rules.counted(named, any_class if y is None else list(y))
    except BadInput as error:
        raise Mismatch(str(error)) from error
    if rules.counts is None:
        return TrainingRows(table, "not compared with the rules, which count nothing", notes)
    seen = np.array([rule.counts for rule in (*found.rules, found.default)])
    names = [*(f"rule {j + 1}" for j in range(len(rules.rules))), "the default"]
    if rules.covered is not None:
        seen = np.array([seen[:-1].sum(axis=0), seen[-1]])
        names = ["the set of rules", names[-1]]
    for name, one, two in zip(names, rules.counts, seen.tolist(), strict=True):
        counts = (sum(one), sum(two)) if y is None else (list(one), two)
        if counts[0] != counts[1]:
            raise Mismatch(
                f"{name} counts {counts[0]} rows and captures {counts[1]} of these. {HINT}"
            )
    by_class = "rows" if y is None else "rows of each class"
    return TrainingRows(table, f"{by_class} that each rule captures", notes)


def _as_rules_name(rules: RuleList, table: pd.DataFrame, schema: Schema | None) -> pd.DataFrame:
    """Put texts in place of codes, or codes in place of texts, where rules name the other."""
    named: dict[str, set[float | str]] = {}
    for condition in (c for rule in rules.rules for c in rule.conditions):
        named.setdefault(condition.column, set()).update(condition.values or ())
    moved = {}
    for attribute in () if schema is None else schema.attributes:
        if not isinstance(attribute, Categorical) or attribute.labels is None:
            continue
        if attribute.name not in table:
            continue
        text_of = dict(zip(attribute.values, attribute.labels, strict=True))
        if any(isinstance(v, str) for v in named.get(attribute.name, ())):
            other: dict[Any, Any] = dict(text_of)
        else:
            other = {text: code for code, text in text_of.items()}
        moved[attribute.name] = [other.get(v, v) for v in table[attribute.name]]
    return table.assign(**moved)


def _suspects(release: Release, values: FloatArray) -> str:
    """Name the columns in which no threshold parts the rows, as one of them must have."""
    columns = zip(release.feature_names, release.thresholds, values.T, strict=True)
    same = [name for name, cuts, x in columns if len(cuts) and not _parted(x, cuts)]
    if not same:
        return HINT
    more = f" and {len(same) - 1} others" if len(same) > 1 else ""
    return (
        f"No threshold of the model splits these rows in column {same[0]!r}{more}: was it "
        "encoded in another way?"
    )


def _parted(x: FloatArray, cuts: FloatArray) -> bool:
    known = x[~np.isnan(x)]
    if len(known) < len(x):
        return True
    return bool(known.min() <= cuts[-1] and known.max() > cuts[0])
