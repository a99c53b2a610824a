"""Who is exposed, and to what: columns, groups, rows and risks, as parts of an audit."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, UnsetType

from treeleak.core.declared import Declared, Positive, Share, Whole, says
from treeleak.formats.rates import Interval, Rate, Risk
from treeleak.formats.said import Some


class Recovered(Declared, frozen=True):
    """How surely rows were rebuilt."""

    n_rows: Whole
    proved: Share
    probable: Share
    open: Share


class Column(Declared, frozen=True):
    """What was rebuilt of a column."""

    column: Annotated[str, says("Of a one-hot group, its name.")]
    tested: Annotated[bool, says("Whether a tree tests it.")]
    right: Annotated[
        Share | None,
        says(
            "Of the training rows, whose value is right after matching; a number within 1 % of its "
            "range."
        ),
    ]
    guess: Annotated[Share | None, says("The same for random baselines.")]
    majority: Annotated[Share | None, says("The same for always the most common value.")]
    others: Annotated[Whole | None, says("Rows that differ from the most common value.")]
    expected: Annotated[Share | None, says("Share that the attack expects to be wrong.")]
    proved: Share | None


class Group(Declared, frozen=True):
    """What was rebuilt of some of the training rows."""

    column: str
    group: str
    rows: Whole | None
    error: Annotated[Share | None, says("Of its values, the share that is wrong.")]
    exact: Annotated[Share | None, says("Of its rows, the share rebuilt exactly.")]
    guess: Annotated[Share | None, says("Error of random baselines.")]


class Leaf(Declared, frozen=True):
    """A leaf in which a rebuilt row stands."""

    tree: Whole
    leaf: Whole
    rows: Whole
    conditions: str


class Row(Declared, frozen=True):
    """A rebuilt row, without its values."""

    row: Annotated[Whole, says("Number of the rebuilt row.")]
    matched: Annotated[Positive | None, says("Number of the training row matched with it.")]
    wrong: Annotated[Positive | None, says("Values that differ.")]
    sure: Annotated[Share, says("Least confidence among the values that trees test.")]
    proved: bool
    leaves: Annotated[tuple[Leaf, ...], says("Leaves with fewest rows in which it stands.")]


class Exposure(Declared, frozen=True):
    """What was recovered and how surely, of which columns and groups."""

    recovered: Annotated[
        Recovered,
        says(
            "Shares of the rebuilt rows that were not given: proved, else with a confidence of 0.9 "
            "or more in every value that a tree tests, else open."
        ),
    ]
    columns: tuple[Column, ...]
    columns_left_out: Annotated[
        Whole,
        says(
            "Columns in which fewer rows than the threshold, but some, differ from the most common "
            "value: not in the releasable edition."
        ),
    ]
    groups: Annotated[
        tuple[Group, ...],
        says(
            "Groups of training rows: by class, then by columns that were asked for. Small ones "
            "are one line without figures in the releasable edition."
        ),
    ]
    rows: Annotated[
        tuple[Row, ...] | UnsetType,
        says("Most exposed rebuilt rows first; internal edition only."),
    ] = UNSET


class Inference(Risk, frozen=True):
    """Attribute inference of one sensitive column."""

    column: str
    n_rows: Annotated[Some, says("Training rows; of many, a random part was tried.")]


class Article29(Declared, frozen=True):
    """Singling out and inference, in the terms of the Article 29 Working Party."""

    singling_out: Annotated[
        Risk | None,
        says(
            "Rebuilt rows that, as descriptions in the columns that trees test, fit exactly one "
            "training row; baseline: random rows."
        ),
    ]
    inference: Annotated[
        tuple[Inference, ...],
        says(
            "Attribute inference for each sensitive column: how often an adversary who knows all "
            "else of a person infers it; baseline: the most common value of the rebuilt rows."
        ),
    ]
    linkability: Annotated[
        str | Risk,
        says(
            "Two records of one person, in different columns, that are nearest to the same rebuilt "
            "row; baseline: chance. Or why that was not assessed."
        ),
    ]


class Caught(Declared, frozen=True):
    """Training rows that a threshold catches."""

    false_positives: Share
    true_positives: Annotated[
        Rate | None,
        says(
            "Training rows above the score of all but this share of the control rows, with "
            "Clopper's and Pearson's interval at 95 %; null where control rows are too few."
        ),
    ]
    needed: Annotated[Some, says("Control rows that it asks for.")]


class Membership(Declared, frozen=True):
    """Whether the model discloses who is in the training set."""

    score: Annotated[str, says("What the score of a row is.")]
    n_members: Whole
    n_others: Whole
    auc: Annotated[
        Interval,
        says("Area under the curve, with DeLong's interval at 95 %; 0.5 by chance."),
    ]
    advantage: Annotated[
        Interval,
        says(
            "Share of training rows less share of control rows above a threshold that was chosen "
            "on other people."
        ),
    ]
    at: tuple[Caught, ...]
