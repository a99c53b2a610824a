"""The probabilistic dataset: what is known of each row, and how much is left to know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from treeleak.core.errors import BadInput
from treeleak.core.private import dataclass
from treeleak.uncertainty import distances, questions
from treeleak.uncertainty.distances import Alignment
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

    Made by :func:`treeleak.uncertainty.from_tree`, :func:`~treeleak.uncertainty.from_rule_list`
    and :func:`~treeleak.uncertainty.from_rows`; the classes of rows are known beside and count
    in no entropy.

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

    def dist(
        self, other: ProbabilisticDataset | pd.DataFrame | None = None, aligned: bool = False
    ) -> float:
        """Average uncertainty that is left of a value: Gambs' distance.

        (1 / nd) sum of H(V_k(x'_i) united with V_k(x_i)) / H(V_k) over rows i and attributes k,
        where V_k(x_i) are the values that row i may have (Gambs 2012, eq. 1). An attribute that has
        one value only counts in no mean.

        Parameters
        ----------
        other : ProbabilisticDataset or DataFrame, optional
            As many rows; the dataset itself if not given. Rows of a table are certain.
        aligned : bool
            Take rows as they stand for each other's; otherwise they are paired such that the
            distance is least.

        Returns
        -------
        float
            0 only if everything is known of both and they are the same.

        Raises
        ------
        BadInput
            If the datasets do not have the same attributes and as many rows.
        """
        return distances.distance(self, other, aligned)

    def compatibility(self, other: ProbabilisticDataset, aligned: bool = False) -> float:
        """Average uncertainty that is left of a value if two datasets are combined.

        As :meth:`dist` with intersections instead of unions (Gambs 2012, eq. 2); an empty
        intersection counts 0. Unless ``aligned``, rows are paired such that it is greatest.

        Raises
        ------
        BadInput
            If the datasets do not have the same attributes and as many rows.
        """
        return distances.compatibility(self, other, aligned)

    def merge(
        self, other: ProbabilisticDataset, alignment: Alignment = "consistent"
    ) -> ProbabilisticDataset:
        """Combine what two releases say of one dataset, or of one that has grown.

        Gambs 2012, section 3.3: the smaller is filled up with rows of which nothing is known, rows
        are paired such that the compatibility is greatest, and each value may be what both allow,
        or anything where they allow nothing in common.

        Parameters
        ----------
        other : ProbabilisticDataset
        alignment : {"consistent", "gambs"}
            Rows that contradict each other cannot be one, though the compatibility does not see it:
            such pairs are avoided first ("consistent"), or only among alignments that are equally
            compatible ("gambs", as in the paper).

        Returns
        -------
        ProbabilisticDataset
            With one group for each pair of groups.

        Raises
        ------
        BadInput
            If the attributes are not the same, or one has a class that the other's lack though
            they are as many or more.
        """
        return distances.merge(self, other, alignment)

    # Questions.

    def contains(self, X: pd.DataFrame, y: Sequence[Any] | None = None) -> bool:
        """Say whether a table is one of the worlds, in any order of its rows.

        Parameters
        ----------
        X : DataFrame
        y : sequence, optional
            Labels; not looked at, if not given.

        Raises
        ------
        BadInput
            Naming the column that is missing or cannot be read.
        """
        return questions.contains(self, X, y)

    def distance(self, X: pd.DataFrame, y: Sequence[Any] | None = None) -> float:
        """Distance of a table to the nearest world.

        The least share of values that must change before the table is a world; with labels, these
        are values as well. A row too many or too few counts as one all of whose values change.
        Behind noise, the training rows need not be a world: this says how far they are from one
        (Ferry 2024, appendix C).

        Raises
        ------
        BadInput
            Naming the column that is missing or cannot be read.
        """
        return questions.distance_to_world(self, X, y)

    def membership(
        self, records: pd.DataFrame, labels: Sequence[Any] | None = None
    ) -> pd.DataFrame:
        """Say of each record whether some row can be it, and how probable that is.

        Parameters
        ----------
        records : DataFrame
            Values of all attributes, or of some; with a one-hot group all of its columns or none.
            Other columns are ignored, as by :meth:`contains`.
        labels : sequence, optional
            The records' classes.

        Returns
        -------
        DataFrame
            With the index of ``records``; ``possible`` is False where no world has the record,
            which is then certainly not among the rows; ``probability`` is the share of worlds that
            have it, with each unknown class as probable as the others.

        Raises
        ------
        BadInput
            Naming the column.
        """
        return questions.membership(self, records, labels)

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
