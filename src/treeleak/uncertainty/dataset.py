"""The probabilistic dataset: what is known about each row, and its residual uncertainty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treeleak.core.errors import BadInput
from treeleak.core.private import dataclass
from treeleak.uncertainty import distances, questions
from treeleak.uncertainty.groups import Groups


@dataclass(frozen=True)
class Expected:
    """Mean and standard deviation of a statistic over all worlds.

    Attributes
    ----------
    mean, std : float
    n_samples : int or None
        Worlds that were drawn to find out; None where both are exact.
    """

    mean: float
    std: float
    n_samples: int | None = None

    def __str__(self) -> str:
        how = "exact" if self.n_samples is None else f"{self.n_samples} worlds drawn"
        return f"{self.mean:g} (standard deviation {self.std:g}, {how})"


class ProbabilisticDataset(Groups):
    """Rows in groups: of each group it is known where its rows may lie, and nothing more.

    Every choice of a point for each row is a world, and all worlds are equally probable
    (Ferry 2024, section IV-A2). Rows are independent of each other; attributes of a row are
    where its region is a box, as in trees (Gambs 2012), and are not in rule lists.

    Made by :func:`treeleak.uncertainty.from_tree` and
    :func:`~treeleak.uncertainty.from_rule_list`; the classes of rows are known beside and count in
    no entropy.

    Attributes
    ----------
    space : Space
        What a row can be.
    classes : tuple
    names : tuple of str
        Of the groups: "leaf 7", "rule 3".
    sets : tuple of bool array, shape (n_sets, n_atoms)
        For each attribute, sets of its atoms; the first is all of them.
    boxes : int array, shape (n_groups, n_attributes)
        Which of these sets is possible in a group.
    outside, inside : tuple of tuple of Tests
        For each group, boxes in which its rows do not lie; boxes in one of which they do.
    counts : int array, shape (n_groups, n_classes + 1)
        Rows of each class in a group; in the last column, rows of which no class is known.
    origin : str
    notes : tuple of str
        What to know of how the dataset came about.
    ordered : bool
        Whether each group holds what those before it leave of its box, as in a rule list.
    """

    # How far.

    dist = distances.distance

    # Questions.

    contains = questions.contains
    distance = questions.distance_to_world
    membership = questions.membership

    def expectation(
        self,
        f: Callable[..., Any],
        columns: Sequence[str] | None = None,
        n_samples: int = 200,
        seed: int = 0,
    ) -> Expected:
        """Mean of a statistic over all worlds.

        Parameters
        ----------
        f : callable
            With ``columns``: receives a table of these columns and returns a number for each row;
            the statistic is their average over the rows of the dataset, and the result exact.
            Without: receives rows and labels of a world and returns a number, which is averaged
            over worlds that are drawn.
        columns : sequence of str, optional
            Columns whose values can be listed; together up to 65,536 combinations.
        n_samples, seed : int
            Worlds to draw.

        Raises
        ------
        BadInput
            If a column is unknown, or its values cannot be listed.
        NotCovered
            If there are too many combinations.
        """
        if columns is not None:
            return Expected(*questions.mean_over_rows(self, f, columns))
        if n_samples < 2:
            raise BadInput(f"n_samples must be 2 or more, not {n_samples}")
        found = np.array([float(f(X, y)) for X, y in self.sample(n_samples, seed)])
        return Expected(float(found.mean()), float(found.std(ddof=1)), n_samples)
