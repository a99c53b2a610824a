"""The probabilistic dataset: what is known about each row, and its residual uncertainty."""

from __future__ import annotations

from treeleak.uncertainty import distances, questions
from treeleak.uncertainty.groups import Groups


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
