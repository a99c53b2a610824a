"""How near rebuilt rows come to the training rows, as parts of an audit."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from treeleak.core.declared import Declared, Number, Positive, Share, Whole, keys, says
from treeleak.formats.informed import Individual
from treeleak.formats.said import Some

Knows = Literal["schema", "model", "people"]
Percent = Literal["0", "5", "25", "50", "75", "95", "100"]


class Numbers(Declared, frozen=True):
    """How far the values of columns of numbers are off."""

    off: Annotated[Positive, says("Mean difference, in standard deviations of the true column.")]
    exact: Share
    near: Annotated[Share, says("Share within 1 % of the column's range.")]


class Scores(Declared, frozen=True):
    """How far rows are off, categories and numbers apart."""

    error: Share
    right_rows: Annotated[
        Share,
        says(
            "Share of the true rows in which every value is right, numbers within 1 % of their "
            "column's range."
        ),
    ]
    categories: Annotated[
        Share | None,
        says("Share of the values of categories that are wrong; null without such columns."),
    ]
    numbers: Annotated[Numbers | None, says("null without columns of numbers.")]


class InOrder(Declared, frozen=True):
    """Row k held against person k."""

    error: Share
    usual: Annotated[Share, says("Error of the usual values of each person's class.")]
    others: Annotated[Share, says("Error against other people of the class.")]
    nearer_than_usual: Annotated[
        Share, says("Probability of so large a margin by chance, over people.")
    ]
    nearer_than_others: Annotated[
        Share, says("Rank among shuffles of the people within their classes.")
    ]


class Yardstick(Declared, frozen=True):
    """A baseline."""

    name: Literal["random", "thresholds", "shape", "mixed", "middle", "population"]
    knows: Knows
    scores: Scores
    sd: Annotated[Positive, says("Of its error, from draw to draw.")]
    nearer: Annotated[
        Share, says("Probability of so large a margin in the error by chance, over people.")
    ]
    more_rows: Annotated[Share, says("The same for rows in which every value is right.")]


class Significance(Declared, frozen=True):
    """How near other people of the population are to the rebuilt rows."""

    error: Annotated[Number, says("Between the rebuilt and the training rows; of n_compared rows.")]
    draws: Annotated[
        int,
        says(
            "Other datasets of the size of the training set, drawn from control and training rows "
            "together.",
            ge=100,
        ),
    ]
    as_near: Annotated[
        Whole,
        says("How many of them are at least as near to the rebuilt rows as the training rows are."),
    ]
    others_mean: Annotated[Number, says("Error against these draws.")]
    others_sd: Positive
    tail: Annotated[
        Share,
        says("Probability of so small an error for another draw, by a fitted normal law."),
    ]
    rank: Annotated[float, says("(1 + as_near) / (1 + draws)", gt=0, le=1)]
    train_vs_other_draws: Annotated[
        Number,
        says(
            "Error between the training rows and other draws: what knowing the population alone "
            "would give."
        ),
    ]
    n_rows: Some
    n_compared: Annotated[
        Some,
        says("Rebuilt rows that error and others_mean compare; fewer than n_rows in large tables."),
    ]
    n_control: Some
    replaced: Annotated[
        bool,
        says(
            "Whether control rows were drawn with replacement for train_vs_other_draws, for there "
            "are too few of them."
        ),
    ]
    overlapping: Annotated[
        bool,
        says(
            "Whether there are less than twice as many control rows as training rows; the verdict "
            "does not rest on them then."
        ),
    ]


class ByShape(Declared, frozen=True):
    """Guesses from the shape of the trees alone."""

    error: Share
    sd: Positive
    exact_rows: Share
    n_guesses: Annotated[int, Meta(ge=3)]


class Measurement(Declared, frozen=True, kw_only=True):
    """Rebuilt rows held against the training rows."""

    error: Annotated[
        Share,
        says(
            "Mean distance of a value, as DRAFT has it: 0 or 1 for a category, the difference over "
            "the range for a number."
        ),
    ]
    scores: Scores | None
    targets: Annotated[
        Share | UnsetType,
        says(
            "Of a regression: share of the training rows whose target was rebuilt beside them, to "
            "nine digits."
        ),
    ] = UNSET
    in_order: Annotated[
        InOrder | None,
        says("Row k held against person k; null where the rebuilt rows have no order."),
    ]
    yardsticks: Annotated[
        tuple[Yardstick, ...],
        says(
            "Baselines without the counts of leaves; only rows nearer than all of them disclose "
            "single people."
        ),
    ]
    exact_rows: Share
    located_rows: Annotated[
        Share, says("Share of the true rows that share every leaf with a rebuilt row.")
    ]
    guess_mean: Share
    guess_sd: Positive
    compared: str
    exact_in_order: Annotated[
        Share | None,
        says(
            "Like exact_rows, for rows rebuilt in their own place; null where the rebuilt rows "
            "have no order."
        ),
    ]
    located_in_order: Annotated[
        Share | None, says("Like located_rows, for rows rebuilt in their own place.")
    ]
    error_in_order: Annotated[
        Share | None,
        says(
            "Share of values that are wrong where row k is compared with row k, without the "
            "columns of numbers."
        ),
    ]
    individual: Annotated[Individual | None, says("Errors row by row, of what was not given.")]
    significance: Annotated[
        Significance | None,
        says(
            "Whether the rebuilt rows are nearer to the training rows than to others of their "
            "population; null where no such rows were given, or some values were."
        ),
    ]
    shape: Annotated[
        ByShape | None,
        says(
            "What the attack would guess from the shape of the trees alone, without any count; "
            "null where that decides nothing, or was not found out."
        ),
    ]


class Exposed(Declared, frozen=True):
    """A leaf or rule, and what it leaves of its rows."""

    name: str
    where: Annotated[str, says("Where its rows lie, in words.")]
    rows: Some
    by_class: dict[str, Some]
    bits: Positive
    left: Share


class Uncertainty(Declared, frozen=True):
    """Residual uncertainty of the training rows."""

    of: Annotated[Literal["leaves", "rules"], says("What groups the rows.")]
    n_rows: Whole
    n_attributes: Whole
    dist: Annotated[
        Share | None,
        says("Average share that is left of a value (Gambs 2012); null without rows."),
    ]
    dist_g: Annotated[
        Share | None,
        says("Share that is left of all rows together (Ferry 2024); null without rows."),
    ]
    log2_worlds: Annotated[
        Positive, says("Logarithm to base 2 of the number of tables that the model allows.")
    ]
    row_bits: Annotated[Positive, says("Entropy of a row of which nothing is known.")]
    mean_bits: Annotated[Positive | None, says("What is left of it on average.")]
    quantiles: Annotated[
        dict[Percent, Share | None],
        keys(Percent),
        says(
            "Percent of the rows to the share that is left of one; the rows of which least is left "
            "come first."
        ),
    ]
    exposed: Annotated[
        tuple[Exposed, ...],
        says(
            "Leaves or rules with rows of which least is left, the least first; empty in the "
            "releasable edition, where the next four are null."
        ),
    ]
    as_exposed: Annotated[
        Whole | None, says("How many leaves or rules leave as little as the first of them.")
    ]
    rows_as_exposed: Annotated[Whole | None, says("How many rows these hold.")]
    told: Annotated[Whole | None, says("Rows without any residual uncertainty.")]
    told_in_small: Annotated[
        Whole | None,
        says("Those of them that share their leaf or rule with fewer than ten in all."),
    ]
    schema: Annotated[str, says("Where it came from.")]
    exact: Annotated[bool, says("Whether the model itself holds the counts, without noise.")]
    contains: Annotated[bool | None, says("Whether the training rows are one of these tables.")]
    nearest: Annotated[
        Share | None,
        says("Behind noise: share of the training rows' values that must change before they are."),
    ]
    notes: tuple[str, ...]
