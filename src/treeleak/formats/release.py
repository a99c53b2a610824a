"""The release file: docs/release-format.md explains it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from treeleak.core.declared import Declared, Label, Number, Published, Whole, described_as

Texts = tuple[str, ...]
Names = Annotated[Texts, Meta(extra_json_schema={"uniqueItems": True})]
FloatType = Literal["float32", "float64"]
Moderate = Annotated[float, Meta(ge=-1e100, le=1e100)]
Size = Annotated[float, Meta(ge=1e-9, le=1e9)]
"""Of noise: beyond, it hides everything or nothing, and its moments leave the range of floats."""
Rounding = Literal["none", "nearest", "towards zero"]


class Fitting(Declared, frozen=True):
    """How leaves were fitted: each took the step -G / (H + l2).

    G and H are sums of the loss's derivatives over its rows.
    """

    loss: Literal["logistic", "softmax", "squared"]
    l2: Annotated[float, Meta(ge=0, le=1e9)] = 0.0
    l1: Annotated[float, described_as("By which G is brought nearer to 0.", ge=0, le=1e9)] = 0.0
    longest: Annotated[
        float, described_as("The longest step that a leaf takes; 0: any.", ge=0, le=1e9)
    ] = 0.0
    class_weights: Annotated[
        tuple[Annotated[float, Meta(ge=0, le=1e9)], ...],
        described_as("By which derivatives of a row are multiplied; none where all are 1."),
    ] = ()
    parallel: Annotated[
        int, described_as("Trees of each output in a round.", ge=1, le=1_000_000)
    ] = 1
    steps: Annotated[int, described_as("Such steps, one after the other.", ge=1, le=1000)] = 1
    start: Annotated[
        tuple[Moderate, ...] | None,
        described_as(
            "What each output is before the first round, if the values of its leaves hold it as "
            "well."
        ),
    ] = None
    started: Annotated[
        bool, described_as("Whether the predictions before the first round are known.")
    ] = True
    assumed: Annotated[
        bool,
        described_as(
            "Whether l2 and the learning rate are the library's defaults: nothing says them."
        ),
    ] = False
    curvature: Annotated[Moderate, described_as("What p (1 - p) is multiplied by in H.")] = 1.0
    rough: Annotated[
        Moderate,
        described_as(
            "How many times less exactly sums are known than the precision of derivatives says."
        ),
    ] = 1.0
    dropped: Annotated[
        tuple[tuple[Annotated[int, Meta(ge=0, le=1_000_000)], ...], ...],
        described_as("Of each tree, the earlier ones that it was grown without (dart)."),
    ] = ()
    margins: FloatType = "float64"
    derivatives: FloatType = "float64"
    targets: Annotated[
        FloatType, described_as("In which the targets of a regression were held.")
    ] = "float64"
    offsets_shown: Annotated[
        bool,
        described_as(
            "Whether the file of a regression would show it if rows had started from scores of "
            "their own."
        ),
    ] = True


class Ensemble(Declared, frozen=True):
    """How the outputs of the trees are added up, as in boosting."""

    objective: Annotated[str, described_as("The loss, as the library calls it.")]
    base_scores: Annotated[
        tuple[Moderate, ...],
        described_as("What each output is before the first tree.", min_length=1),
    ]
    learning_rate: Annotated[
        Moderate | None, described_as("By which the values of each tree were multiplied.")
    ] = None
    fitting: Fitting | None = None


class HeldBack(Declared, frozen=True):
    """How other rows were kept from all trees, to stop early."""

    seed: Annotated[int, Meta(ge=0, le=2**32 - 1)]
    share: Annotated[float, described_as("Of all rows, below 1; else their number.", gt=0, lt=1e8)]
    by_class: bool
    rule: Annotated[str, described_as("By whose rule; empty: scikit-learn's.")] = ""


class AllRows(Declared, frozen=True, tag_field="kind", tag="all"):
    """Every tree saw every row once."""

    held_back: HeldBack | None = None


class Disjoint(Declared, frozen=True, tag_field="kind", tag="disjoint"):
    """Every row reached one tree."""


class Subsample(Declared, frozen=True, tag_field="kind", tag="subsample"):
    """Each tree drew rows without replacement; all else as of a bootstrap."""

    n_draws: Whole | None = None
    tree_seeds: tuple[Whole | None, ...] = ()
    forest_seed: Whole | None = None
    rule: Annotated[str, described_as("How a seed becomes draws.")] = ""
    columns_drawn: Annotated[
        Whole | None,
        described_as("Columns that each tree drew before its rows, from the same seed."),
    ] = None
    columns_replaced: Annotated[bool, described_as("Whether it drew them with replacement.")] = (
        False
    )
    rows_between: Annotated[
        tuple[Whole, Whole] | None,
        described_as("Least and greatest number of training rows that fit n_draws."),
    ] = None
    hidden: Annotated[
        str, described_as("Why the draws do not follow from a seed; empty if they do.")
    ] = ""
    held_back: HeldBack | None = None


class Bootstrap(Subsample, frozen=True, tag="bootstrap"):
    """Each tree drew rows with replacement."""

    row_weights: Annotated[
        tuple[Annotated[float, Meta(ge=0, le=1.7976931348623157e308)], ...] | None,
        described_as("Weight of each training row in the draw; null: all equal."),
    ] = None


class Unknown(Declared, frozen=True, tag_field="kind", tag="unknown"):
    """The release does not say how rows were drawn."""

    why: str = ""


Sampling = AllRows | Disjoint | Bootstrap | Subsample | Unknown


class DiscreteLaplace(Declared, frozen=True, tag_field="law", tag="discrete-laplace"):
    """Two-sided geometric noise on each count."""

    epsilon: Size


class Laplace(Declared, frozen=True, tag_field="law", tag="laplace"):
    """Laplace noise on each count."""

    epsilon: Size
    rounding: Rounding = "none"


class Gaussian(Declared, frozen=True, tag_field="law", tag="gaussian"):
    """Gaussian noise on each count."""

    # What is rounded is summed over every value.
    sigma: Annotated[float, Meta(ge=1e-9, le=1e5)]
    rounding: Rounding = "none"


class LabelNoise(Declared, frozen=True, tag_field="law", tag="label"):
    """A leaf names one class, by a rule that prefers large ones."""

    rule: Literal["majority", "permute-and-flip", "exponential", "present"]
    scale: Annotated[
        float,
        described_as(
            "Weight of one row in the exponent; 1e-9 or more, except for majority.", ge=0, le=1e9
        ),
    ] = 0.0


Noise = DiscreteLaplace | Laplace | Gaussian | LabelNoise


Index = Annotated[int, Meta(ge=-1, le=2**53 - 1)]
Children = Annotated[list[Index], Meta(min_length=1)]
Flags = list[bool] | None


class Tree(Declared, frozen=True):
    """Nodes of a tree: each list has one entry for each."""

    feature: Annotated[
        list[Index],
        described_as("Column that each node tests, from 0; -1 at a leaf.", min_length=1),
    ]
    threshold: Annotated[
        list[Number | Literal["inf", "-inf"] | None],
        described_as("Left where value <= threshold; null at a leaf, or if there are categories."),
    ]
    left: Children
    right: Children
    missing_left: Flags = None
    strict: Annotated[Flags, described_as("Where a node asks for value < threshold.")] = None
    categories: Annotated[
        list[Annotated[list[Annotated[int, Meta(ge=0, le=2**31 - 1)]], Meta(min_length=1)] | None]
        | None,
        described_as("Left where the value is one of these; ascending."),
    ] = None
    output: Annotated[
        Annotated[int, Meta(ge=0, le=9_999)] | None,
        described_as("The output that the tree adds to; left out: all of them."),
    ] = None
    counts: list[list[Number]] | None = None
    totals: list[Number] | None = None
    distinct: list[Whole] | None = None
    statistics: Annotated[
        dict[str, list[Number | list[Number] | None]],
        described_as("What else nodes hold, by its name; null where a node does not hold it."),
    ] = field(default_factory=dict)


class Release(Published, frozen=True, kw_only=True):
    """Trees and counts of a released tree model, whatever library made it."""

    schema_id: ClassVar[str] = "treeleak:release:2"
    title: ClassVar[str] = "treeleak release file, version 2"

    format: Literal["treeleak-release"]
    version: Literal[2]
    origin: Annotated[str, described_as("Library, its version, and the kind of model.")] = ""
    columns: Annotated[Names, described_as("The model's columns, in order.")]
    classes: Annotated[
        tuple[Label, ...], described_as("Class labels, in the order in which the nodes count them.")
    ]
    n_rows: Annotated[
        Whole | None, described_as("Rows of the training set, null where it is not known.")
    ] = None
    counts_are: Annotated[
        Literal["rows", "draws", "weights", "labels", "none"],
        described_as(
            "What counts count, and totals where they can (rows or draws; else rows): training "
            "rows, bootstrap draws, or weights; labels: 1 for the class that a leaf names (or for "
            "each that it holds, under the rule present)."
        ),
    ]
    ensemble: Ensemble | None = None
    sampling: Sampling
    noise: Annotated[
        Noise | None,
        described_as("What was done to the counts of the leaves before they were released."),
    ] = None
    thresholds_are: Annotated[
        Literal["midpoints", "neighbours", "values", "unknown"],
        described_as(
            "Whether every threshold is the middle between the two nearest values of the rows that "
            "its node saw, or between two neighbouring values of all training rows, or lies right "
            "below a value of a training row."
        ),
    ] = "unknown"
    float_type: Annotated[
        FloatType, described_as("The type in which a value is compared with a threshold.")
    ] = "float64"
    adds_weights: Annotated[
        bool, described_as("Whether a row that weighs 2 may look like two rows.")
    ] = False
    maybe_missing: Annotated[
        frozenset[str], described_as("Columns in which the trees saw missing values.")
    ] = frozenset()
    one_hot: Annotated[
        dict[str, Names], described_as("Groups of 0/1 columns, with one 1 in every row, by name.")
    ] = field(default_factory=dict)
    levels: Annotated[
        dict[str, Annotated[Names, Meta(min_length=1)]],
        described_as("Texts for the codes 0, 1, 2 and so on, by column."),
    ] = field(default_factory=dict)
    borders: Annotated[
        dict[str, tuple[Number, ...]],
        described_as(
            "Of columns of numbers, borders between values of training rows that the file holds, "
            "ascending, tested or not."
        ),
    ] = field(default_factory=dict)
    ranges: Annotated[
        dict[str, tuple[Number, Number]],
        described_as(
            "Of columns of numbers, the least and the greatest value of all training rows."
        ),
    ] = field(default_factory=dict)
    not_covered: Annotated[
        str | None, described_as("Why rows cannot be reconstructed from this kind of model.")
    ] = None
    n_targets: Annotated[
        int,
        Meta(ge=1),
        described_as("Where it is not 1, what leaves hold of targets is not read."),
    ] = 1
    notes: Texts = ()
    trees: Annotated[list[Tree], Meta(min_length=1)]
