"""A schema from what is at hand: the release itself and, where the auditor has them, rows.

What is inferred is taken as true by the attacks, so every rule here errs towards saying too
little: a domain that is too wide costs sharpness, one that is too narrow makes the answer wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from treeleak.core.arrays import FloatArray
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.message import MessageTemplate
from treeleak.release.check_schema import (
    ENDLESS,
    check_schema,
    levels_with,
    match_levels,
    read_columns,
)
from treeleak.release.column_types import (
    at_midpoints,
    from_categories,
    from_ends,
    from_thresholds,
    from_values,
    hold,
)
from treeleak.release.release import HASH, Release
from treeleak.release.rule_list import RuleList
from treeleak.schema import Attribute, Binary, Categorical, Numeric, OneHot, Ordinal, Schema

__all__ = [
    "binary_if_unused",
    "check_schema",
    "infer_rule_schema",
    "infer_schema",
    "match_levels",
    "notes_from_file",
    "read_columns",
    "suggest_rule_schema",
    "suggest_schema",
]

ENDS = MessageTemplate(
    "ends_in_the_file",
    "the file holds the least and the greatest value of {columns:number} columns: they end there",
)
ANY_OTHER = MessageTemplate(
    "code_of_any_other",
    "{column:column}: {code:value} stands for any category that no tree names",
)
TRANSFORMERS = MessageTemplate(
    "told_by_transformers", "from the fitted transformers before the model: {told}"
)
TAKEN_AS_BINARY = MessageTemplate(
    "taken_as_binary",
    "The model never tests {n:number} columns. treeleak takes them as 0/1, like all columns that "
    "the model tests: {columns:quoted}.",
)
NARROWEST = MessageTemplate(
    "narrowest_ends",
    "{columns:quoted}: as narrow as the thresholds allow: widen to what is possible",
)
UNTESTED = MessageTemplate(
    "untested_columns", "{columns:quoted}: no tree tests this, so say what it can be"
)
HASHED = MessageTemplate(
    "hashed_texts",
    "{columns:quoted}: the file holds hashes of texts, and no texts: leave these labels",
)

SEPARATORS = "_:=."
MOST_NAMED = 4


def infer_schema(release: Release, X: pd.DataFrame | None = None) -> Schema:
    """Infer a schema from a release alone, or from a release and rows.

    Groups come only from the release, where a fitted encoder declares them (``Release.one_hot``):
    every row has one 1 among their columns. A group is dropped if a threshold or a row speaks
    against it, or if its columns may be missing.

    A column whose codes have texts (``Release.levels``) is categorical, with these for labels. So
    is one that trees test for categories: with all that they name, those of the rows, and, without
    rows, a further code that stands for any other.

    Where transformers are part of the model (``Release.inputs``), groups that may be without a 1
    (a category was dropped), codes and the ends of numbers are theirs, as far as no threshold and
    no row speaks against them.

    A threshold that XGBoost or LightGBM writes between two whole numbers counts as halfway; what
    LightGBM writes between zero and the next value, as 0.5.

    Where the release has the least and the greatest value of a column (``Release.ranges``), it goes
    from one to the other: it is binary from 0 to 1, or ordinal, only where these ends and all
    thresholds speak for it.

    Without rows, another column is binary if all its thresholds are exactly 0.5; ordinal if it has
    several thresholds, all halfway between whole numbers, and then goes from the number below
    the lowest to the number above the highest; otherwise numeric and unbounded. A column that no
    tree tests is binary if trees test some columns and all of these are binary; otherwise numeric.

    With rows, the values seen are the domain, widened where a threshold lies outside: 0 and 1
    make a column binary; up to 100 different whole numbers make it ordinal from the least to the
    greatest; otherwise it is numeric between them. A column whose values are all missing is
    treated as without rows.

    Parameters
    ----------
    release : Release
    X : DataFrame, optional
        Rows to learn from; columns that the model lacks are ignored.

    Returns
    -------
    Schema
        With every column of the model, in the model's order.

    Raises
    ------
    BadInput
        If ``X`` lacks a column of the model, or holds something other than numbers in it.
    """
    release, values = _with_rows(release, X)
    return _assemble(*_judge(release, values))


def infer_rule_schema(rules: RuleList, X: pd.DataFrame | None = None) -> Schema:
    """Infer a schema from rules alone, or from rules and rows.

    Without rows, columns are binary where rules ask for nothing but 0 and 1, and those that no
    rule tests are if all others are; the rest is numeric and unbounded. With rows, columns are
    what :func:`infer_schema` makes of them, with the values that rules name; columns of texts are
    categorical.

    Raises
    ------
    BadInput
        If ``X`` lacks a column of the rules.
    NotCovered
        If there are no rows, and a rule names texts: nobody knows which others there are.
    """
    named: dict[str, set[float | str]] = {c: set() for c in rules.columns}
    ends: dict[str, list[float]] = {c: [] for c in rules.columns}
    for condition in (c for rule in rules.rules for c in rule.conditions):
        named[condition.column].update(condition.values or ())
        ends[condition.column] += [e for e in (condition.above, condition.upto) if np.isfinite(e)]
    binary = {c for c in rules.columns if not ends[c] and named[c] <= {0, 1}}
    if X is None:
        texts = [c for c in rules.columns if any(isinstance(v, str) for v in named[c])]
        if texts:
            raise NotCovered(
                f"the rules name some values of column {texts[0]!r}, and its other values "
                "are not known: give a schema, or the training rows"
            )
        tested = {c for c in rules.columns if ends[c] or named[c]}
        binary -= set() if tested <= binary else set(rules.columns) - tested
        return Schema([Binary(c) if c in binary else Numeric(c) for c in rules.columns])
    attributes: list[Attribute] = []
    for column in rules.columns:
        if column not in X:
            raise BadInput(f"the rows lack column {column!r} of the rules")
        seen = X[column].dropna()
        missing = len(seen) < len(X)
        if not pd.api.types.is_numeric_dtype(seen):
            labels = tuple(sorted({*map(str, seen), *map(str, named[column])}))
            attributes.append(Categorical(column, labels=labels, missing=missing))
            continue
        values = {float(v) for v in named[column] if not isinstance(v, str)}
        known = np.union1d(seen.to_numpy(dtype=float), sorted(values))
        cuts = np.unique(ends[column])
        if known.size:
            attributes.append(from_values(column, known, cuts, missing))
        else:
            attributes.append(from_thresholds(column, cuts, missing))
    return Schema(attributes)


def suggest_rule_schema(rules: RuleList, X: pd.DataFrame | None = None) -> tuple[Schema, list[str]]:
    """Infer a schema of rules, for a human to correct, and remark on what was guessed.

    As :func:`infer_rule_schema`.
    """
    schema = infer_rule_schema(rules, X)
    tested = [c.column for rule in rules.rules for c in rule.conditions]
    return schema, [] if X is not None else binary_if_unused(schema, tested)


def suggest_schema(release: Release, X: pd.DataFrame | None = None) -> tuple[Schema, list[str]]:
    """Infer a schema and propose one-hot groups, for a human to correct.

    Beyond :func:`infer_schema`, binary columns that share a name up to the last run of ``_``,
    ``:``, ``=`` and ``.`` are proposed as a group: with rows, if every row has exactly one 1 (or at
    most one) among them; without rows, always, as a guess.

    Returns
    -------
    schema : Schema
    notes : list of str
        What transformers before the model tell; for each group that was proposed, what it rests
        on; and which columns were guessed without rows.
    """
    release, values = _with_rows(release, X)
    columns, groups = _judge(release, values)
    grouped = {c for group in groups for c in group.columns}
    notes: list[str] = []
    for name, members in _by_prefix(a for a in columns.values() if a.name not in grouped):
        group = OneHot(name, members)
        remark = "a guess from the names alone: check that every row has exactly one 1"
        if values is not None:
            ones = np.sum([values[c] for c in members], axis=0)
            if (ones > 1).any():
                continue
            group = OneHot(name, members, at_most_one=bool((ones == 0).any()))
            how_many = "at most one 1" if group.at_most_one else "exactly one 1"
            remark = f"a guess: each of the {len(ones)} rows given has {how_many}"
        groups.append(group)
        notes.append(f"one-hot group {name!r} of {', '.join(map(repr, members))}: {remark}")
    schema = _assemble(columns, groups)
    guesses = [] if values is not None else _guesses(schema, release)
    return schema, [*notes_from_file(schema, release, rows=values is not None), *notes, *guesses]


def _guesses(schema: Schema, release: Release) -> list[str]:
    """Say which ends of whole numbers, kinds of columns and texts nothing in the model states."""
    cuts = zip(release.feature_names, release.thresholds, strict=True)
    known = {c for c, t in cuts if t.size} | set(release.ranges) | set(release.borders)
    whole = [
        a.name for a in schema.attributes if isinstance(a, Ordinal) and a.name not in release.ranges
    ]
    untested = [
        a.name
        for a in schema.attributes
        if a.name not in known
        and (isinstance(a, Binary) or (isinstance(a, Numeric) and not np.isfinite(a.bounds).any()))
    ]
    hashed = [c for c, texts in release.levels.items() if any(t.startswith(HASH) for t in texts)]
    found = ((NARROWEST, whole), (UNTESTED, untested), (HASHED, hashed))
    return [template(columns=columns) for template, columns in found if columns]


def notes_from_file(schema: Schema, release: Release, *, rows: bool) -> list[str]:
    """Say which parts of an inferred schema the file tells outright, and which stand for more.

    ``rows``: whether it was inferred from rows, too.
    """
    bounds = {a.name: a.bounds for a in schema.attributes if not isinstance(a, OneHot)}
    n_from_ranges = sum(bounds.get(column) == ends for column, ends in release.ranges.items())
    ends = [ENDS(columns=n_from_ranges)] if n_from_ranges else []
    others = () if rows else with_any_other(schema, release)
    more = [ANY_OTHER(column=a.name, code=f"{a.values[-1]:g}") for a in others]
    return [*_notes_on_transformers(schema, release), *ends, *more]


def with_any_other(schema: Schema, release: Release) -> list[Categorical]:
    """Columns whose last code stands for any other, in a schema that was inferred without rows."""
    sets = zip(release.feature_names, release.category_sets, strict=True)
    coded = {c for c, category_sets in sets if category_sets and c not in release.levels}
    return [a for a in schema.attributes if isinstance(a, Categorical) and a.name in coded]


def _notes_on_transformers(schema: Schema, release: Release) -> list[str]:
    attributes = [] if release.inputs is None else release.inputs.attributes()
    columns = {a.columns for a in attributes}
    taken = [a for a in schema.attributes if a.columns in columns]
    counts = {
        "one-hot groups": sum(isinstance(a, OneHot) for a in taken),
        "columns of codes": sum(isinstance(a, Categorical) for a in taken),
        "ranges of numbers": sum(np.isfinite(a.bounds).all() for a in taken if a.kind == "numeric"),
    }
    found = ", ".join(f"{kind} ({n})" for kind, n in counts.items() if n)
    return [TRANSFORMERS(told=found)] if found else []


def binary_if_unused(schema: Schema, tested: Iterable[str]) -> list[str]:
    """Say which columns were taken for binary only because those that the model tests are.

    ``schema``: inferred from a model alone. ``tested``: columns that the model tests. Returns one
    remark, or none.
    """
    known = set(tested)
    binary = (a.name for a in schema.attributes if isinstance(a, Binary))
    taken = [name for name in binary if name not in known]
    if not taken:
        return []
    return [TAKEN_AS_BINARY(n=len(taken), columns=taken)]


def _with_rows(
    release: Release, X: pd.DataFrame | None
) -> tuple[Release, dict[str, FloatArray] | None]:
    """Read rows, and give columns of texts that no tree tests the categories that rows have."""
    if X is None:
        return release, None
    table = X.set_axis([str(c) for c in X.columns], axis=1)
    return replace(release, levels=levels_with(release, table)), read_columns(release, table)


def _judge(
    release: Release, values: dict[str, FloatArray] | None
) -> tuple[dict[str, Attribute], list[OneHot]]:
    """Judge each column by itself, and the groups that the release declares."""
    # A test against infinity parts missing values from known ones: it says nothing of a domain.
    cuts = {
        column: thresholds[np.abs(thresholds) < ENDLESS]
        for column, thresholds in zip(release.feature_names, release.thresholds, strict=True)
    }
    # Values of a column lie on both sides of each of its borders, whether a tree tests it or not.
    for column, borders in release.borders.items():
        cuts[column] = np.union1d(cuts[column], borders)
    halves = {column: at_midpoints(thresholds_of) for column, thresholds_of in cuts.items()}
    tested = [t for t in halves.values() if t.size]
    inputs = [] if release.inputs is None else release.inputs.attributes()
    inputs_by_name = {a.name: a for a in inputs if isinstance(a, (Categorical, Numeric))}
    only_0_1 = all(ends == (0, 1) for c, ends in release.ranges.items() if cuts[c].size)
    unused_binary = bool(tested) and only_0_1 and all((t == 0.5).all() for t in tested)
    named = dict(zip(release.feature_names, release.category_sets, strict=True))
    columns: dict[str, Attribute] = {}
    for column, thresholds_of in cuts.items():
        seen = np.zeros(0) if values is None else values[column]
        known = np.unique(seen[~np.isnan(seen)])
        ends = release.ranges.get(column)
        if ends is not None and not hold(ends, thresholds_of):
            ends = None
        missing = column in release.maybe_missing or bool(np.isnan(seen).any())
        if column in release.levels:
            columns[column] = Categorical(column, labels=release.levels[column], missing=missing)
        elif named.get(column):
            columns[column] = from_categories(column, named[column], known, missing)
        elif known.size:
            known = known if ends is None else np.union1d(known, ends)
            columns[column] = from_values(column, known, thresholds_of, missing)
        elif ends is not None:
            columns[column] = from_ends(column, ends, halves[column], missing, unused_binary)
        elif thresholds_of.size or not unused_binary:
            columns[column] = from_thresholds(column, halves[column], missing)
        else:
            columns[column] = Binary(column, missing=missing)
        if stated := inputs_by_name.get(column):
            # Unless a threshold, or a value of a row, speaks against what transformers say.
            low, high = stated.bounds
            inside = bool(((thresholds_of >= low) & (thresholds_of < high)).all())
            if inside and stated.holds(known[:, None]).all():
                columns[column] = replace(stated, missing=missing)
    groups: list[OneHot] = []
    free = {c for c in cuts if c not in release.maybe_missing and c not in release.levels}
    declared = [
        OneHot(name, members)
        for name, members in release.one_hot.items()
        if members and len(set(members)) == len(members)
    ]
    for group in (*declared, *(a for a in inputs if isinstance(a, OneHot))):
        fits = len(set(group.members) & free) == len(group.members)
        if fits and all(((cuts[c] >= 0) & (cuts[c] < 1)).all() for c in group.members):
            rows = None if values is None else np.column_stack([values[c] for c in group.members])
            if rows is None or group.holds(rows).all():
                groups.append(group)
                free -= set(group.members)
    return columns, groups


def _by_prefix(attributes: Iterable[Attribute]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Group binary columns without missing values by what their names share."""
    groups: dict[str, list[str]] = {}
    for attribute in attributes:
        if isinstance(attribute, Binary) and not attribute.missing:
            # A run of separators counts as one: "priors:=0" and "priors:2-3" share "priors".
            last = max(attribute.name.rfind(s) for s in SEPARATORS)
            prefix = attribute.name[: last + 1].rstrip(SEPARATORS)
            if prefix:
                groups.setdefault(prefix, []).append(attribute.name)
    for prefix, members in groups.items():
        if len(members) > 1:
            yield prefix, tuple(members)


def _assemble(columns: dict[str, Attribute], groups: list[OneHot]) -> Schema:
    """Put each group where its first column stands, under a name that nothing else has."""
    owner = dict(columns)
    for group in groups:
        taken = {a.name for a in owner.values()} - set(group.columns)
        name = group.name
        while name in taken:
            name += "_"
        owner.update(dict.fromkeys(group.columns, replace(group, name=name)))
    return Schema(dict.fromkeys(owner.values()))
