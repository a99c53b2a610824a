"""What an attack rebuilt, as a document."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from treeleak.core.declared import Declared, Positive, Published, Share, Whole, says

Texts = tuple[str, ...]
Status = Literal["unique", "feasible", "likely", "infeasible", "unknown"]
Cell = float | str | bool | None
Values = Annotated[
    list[list[Cell]], says("Texts and truth values only in the columns of a pipeline's input.")
]
Labels = Annotated[
    list[Cell],
    says(
        "Classes; for a regression the disclosed targets, null for the other rows. Empty if none "
        "is disclosed."
    ),
]
Ends = list[float | None]


class RowCount(Declared, frozen=True):
    """The number of training rows."""

    n: Annotated[int, Meta(ge=1)]
    between: Annotated[tuple[int, int], says("Where it lies with 95 % probability.")]
    origin: str


class Posterior(Declared, frozen=True):
    """Datasets drawn from the posterior."""

    samples: Annotated[int, Meta(ge=1)]
    chains: Annotated[int, Meta(ge=1)]
    disagreement: Annotated[
        Positive | None,
        says("Gelman and Rubin's R: near 1 where the chains agree; null where it is not known."),
    ]


class Table(Declared, frozen=True):
    """A dataset."""

    columns: list[str]
    values: Values
    labels: Labels


class Targets(Declared, frozen=True):
    """Of a regression: what each target is likeliest to be, and between which ends it lies.

    They hold if the rows are right. Null where nothing is known of it, or for an end that there
    is not.
    """

    likeliest: Ends
    lower: Ends
    upper: Ends


class Rows(Table, frozen=True):
    """The rows, only where asked for."""

    targets: Targets | None
    lower: Annotated[
        Values | None,
        says(
            "Below each value: the threshold that it exceeds, or the least value of the domain. "
            "Null: no bound, or a missing value; for all: every value is known as one."
        ),
    ]
    upper: Annotated[
        Values | None,
        says(
            "Above each value: the threshold that it does not exceed, or the greatest value of the "
            "domain."
        ),
    ]
    confidence: list[list[Share]]
    proved: list[bool]
    known: Annotated[list[list[bool]] | None, says("Which values were given; null: none.")]
    in_earlier: Annotated[
        list[bool] | None,
        says("Which rows are in the training set of the earlier release, if one was given."),
    ]
    most_likely: Annotated[
        Table | None,
        says(
            "The likeliest dataset, where draws are hidden, or a dataset that meets every count. "
            "The values above err less on average."
        ),
    ]


class Reconstruction(Published, frozen=True, kw_only=True):
    """What an attack rebuilt from a tree model, and how sure it is."""

    schema_id: ClassVar[str] = "treeleak:reconstruction:1"
    title: ClassVar[str] = "treeleak reconstruction, version 1"

    version: Literal[1]
    status: Annotated[Status, says("What is proved of the rows.")]
    meaning: Annotated[str, says("The status in words.")]
    space: Annotated[
        Literal["model", "input"],
        says(
            "Whose columns the rows have, and all that is said of columns: the model's, or those "
            "of the input of the pipeline that it ends."
        ),
    ]
    n_rows: Whole
    ordered: Annotated[bool, says("Whether row k is row k of the training set.")]
    draws: Annotated[
        str | None,
        says("Where the bootstrap draws come from, in words; null if every tree saw every row."),
    ]
    misfit: Annotated[
        Positive,
        says("Sum over all leaves and classes of |released count - count of these rows|."),
    ]
    contradiction: Annotated[str | None, says("Where and why the counts cannot be met.")]
    evidence: Annotated[str, says("The kind of counts it rests on.")]
    cells: Annotated[
        str,
        says(
            "Whether all cells were enumerated, or generated as rows step into them, and why; or "
            "not needed.",
            pattern="^(enumerated|not needed|generated: .+)$",
        ),
    ]
    row_count: Annotated[RowCount | None, says("Where draws are hidden; else null.")]
    posterior: Annotated[
        Posterior | None, says("Datasets drawn from the posterior, where there are any.")
    ]
    known_values: Annotated[
        Whole, says("Values of the rows that were given. Shares and errors do not count them.")
    ]
    share_proved_rows: Share
    share_proved_values: Share
    expected_error: Annotated[
        Share | None,
        says(
            "Share of values that the attack itself expects to be wrong, without the columns of "
            "numbers (interval_columns)."
        ),
    ]
    midpoints_met: Annotated[
        Share | None,
        says(
            "Share of the tests of numbers that split midway between the nearest values of these "
            "rows, as they did in training: near 1 if the rows are right, far less if they only "
            "meet the counts. Null where that cannot be told."
        ),
    ]
    free_columns: Annotated[Texts, says("Columns that no tree tests.")]
    interval_columns: Annotated[
        Texts, says("Columns of numbers, which trees narrow down to an interval at best.")
    ]
    seed: int
    seconds: Positive
    interrupted: Annotated[bool, says("Whether the user stopped it.")]
    trace: Annotated[
        tuple[tuple[float, float], ...], says("Seconds, and the misfit of the best answer then.")
    ]
    numbers: Annotated[dict[str, float], says("Sizes of the problem.")]
    notes: Texts
    versions: dict[str, str]
    without_population: Annotated[
        Reconstruction | None,
        says("The same without the population, where one was given; without rows."),
    ]
    without_distinct: Annotated[
        Reconstruction | None,
        says("The same from the numbers of draws alone, where that was asked for; without rows."),
    ]
    rows: Annotated[Rows | UnsetType, says("Only where asked for.")] = UNSET
