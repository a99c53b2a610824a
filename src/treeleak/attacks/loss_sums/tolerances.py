"""By how much numbers in the attack on sums of the loss may be off, and still count as met."""

from __future__ import annotations

from treeleak.core.private import dataclass


@dataclass(frozen=True)
class Tolerances:
    """What rounding leaves of numbers that are equal, or none, and how exact a solution must be.

    Sums of thousands of doubles are off by about 1e-14 to 1e-12 of their size; singular values of
    some thousand columns by 1e-13 of the greatest, and their squares' roots by 1e-7.
    """

    solver_scale: float = 2.0**24
    """By which real coefficients are multiplied, to be whole numbers for the solver."""
    moved_rows: float = 1.0
    sum_off: float = 1e-6
    """How far numbers of rows may move to whole ones, and sums from what they should be."""
    unused_rows: float = 1e-9
    whole_off: float = 1e-3
    """Numbers of rows that are none; how near to whole ones those are that are not looked at again.
    """
    flat_square: float = 1e-13
    dependent_length: float = 1e-6
    """Share of the greatest square that counts as none; the same of columns' lengths."""
    projections: int = 4
    """Times that a projection is repeated against rounding."""
    no_worth: float = 1e-13
    """Worth, as a share of the length of the right side, that counts as none."""
    pull: float = 1e-12
    """How strongly a solution is drawn to the one before, as a share of the squares of columns.
    Along columns that differ by less than its root, rounds are small: with 1e-10, tens of
    thousands."""
    equal_predictions: float = 1e-9
    """How far apart predictions in a group lie, at most."""
    cut_singular: float = 1e-7
    """Share of the greatest singular value below which sums are not looked at, but checked."""
    telling_part: float = 1e-12
    """Least part of a sum that tells parts of a group apart."""
    equation_off: float = 1e-5
    """By how much equations may be missed at the end of the interior-point method."""
    met_product: float = 1e-7
    missed_product: float = 1e-12
    """Mean product of numbers and their prices at the end; the second where equations stay missed.
    """
    missed_equation: float = 1e-3
    whole_row_off: float = 1e-3
    """By how much equations that no point meets are missed; how near to whole a whole number is."""
    softness: float = 1e-12
    """How soft the equations are."""
    added_diagonal: float = 1e-14
    """Share of its diagonal that is added to a matrix, so that it has a factor."""
    step_inside: float = 0.99
    """Share of the way to the next edge that is gone."""


TOLERANCES = Tolerances()
