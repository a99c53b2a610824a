"""What a model's file holds, and how it counts: parts of an audit."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from treeleak.core.declared import Declared, Whole, keys, says
from treeleak.formats.said import Some, Texts

Mark = Literal["leaks", "harmless", "not assessed"]
By = Literal["leaf", "answer", "cell"]
OfLeaves = Literal["leaves", "small", "single", "smallest", "excludes_class", "one_class"]
Epsilon = Annotated[float, Meta(gt=0)]


class Entry(Declared, frozen=True):
    """A part of the model that stems from the training rows, or could."""

    where: Annotated[str, says("Place in the model; [*] stands for every item of a list.")]
    names: Annotated[Texts, Meta(min_length=1)]
    mark: Mark
    what: str
    why: str
    found: Some
    training_rows: Annotated[bool, says("Whether training rows stand there as they are.")]
    unknown: Annotated[
        bool, says("Whether no rule knows what it is, so that rows could stand there.")
    ]
    told: Annotated[
        str | UnsetType,
        says(
            "What a stranger reads there, in numbers of this model; not in the releasable edition."
        ),
    ] = UNSET


class Counts(Declared, frozen=True, kw_only=True):
    """How many rows stand in the leaves."""

    threshold: Annotated[
        int,
        says(
            "A leaf with fewer rows is small; the releasable edition gives the rows of the "
            "smallest leaf only if they are as many."
        ),
    ]
    unit: Literal["rows", "draws"]
    of: Annotated[
        Literal["leaves", "rules"] | UnsetType,
        says("What is counted as a leaf below: leaves, or rules and the default."),
    ] = UNSET
    total: Annotated[dict[OfLeaves, int | None], keys(OfLeaves)]
    trees: Annotated[
        dict[OfLeaves, tuple[int | None, ...]],
        keys(OfLeaves),
        says("One entry per tree in each list."),
    ]


class Groups(Declared, frozen=True):
    """Rows that the model treats alike."""

    by: Annotated[
        By,
        says(
            "What the rows of a group share: their leaf in the only tree, what the model answers, "
            "or their leaf in every tree."
        ),
    ]
    of: Literal["training rows", "rebuilt rows", "counts"]
    groups: Whole
    smallest: int | None
    small: Whole
    rows_in_small: int | None
    lack_a_class: int | None
    few_of_a_class: int | None


class Structure(Declared, frozen=True):
    """How many numbers the model learned, and which rows it treats alike."""

    parameters: Whole
    n_rows: Whole | None
    residual_degrees: Annotated[int | None, says("Rows less parameters.")]
    fewest_degrees: Annotated[int, says("Fewer are a risk.")]
    threshold: Annotated[
        Some,
        says(
            "A group with fewer rows is small; the releasable edition gives numbers of rows only "
            "if they are as many."
        ),
    ]
    groups: tuple[Groups, ...]


class Scale(Declared, frozen=True):
    """The parameter of a law of noise, as stated and as found."""

    parameter: Literal["epsilon", "sigma", "scale"]
    stated: Epsilon
    low: Epsilon | None
    high: Epsilon | None


class Budget(Declared, frozen=True):
    """What noisy counts cost."""

    noise: Annotated[str, says("Its law, in words.")]
    stated: Annotated[Epsilon | None, says("Epsilon that the parameters of the law stand for.")]
    cost: Annotated[
        Epsilon | None,
        says("Epsilon that it really costs; null where nothing bounds it, or no bound is known."),
    ]
    why: str
    refuted: Annotated[
        str | None,
        says(
            "Why the counts do not carry the noise that is stated; null if nothing speaks against "
            "it."
        ),
    ]
    scale: Annotated[
        Scale | None,
        says(
            "Parameter of the law, given the training rows: 95 % of its posterior; null where it "
            "was not found."
        ),
    ]
