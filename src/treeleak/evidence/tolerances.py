"""How numbers in files of boosted models and regressions are rounded."""

from __future__ import annotations

from treeleak.core.private import dataclass


@dataclass(frozen=True)
class Tolerances:
    """By how much sums that files hold may be off from those of the training rows.

    The unit of single precision is 2^-24 (6e-8), that of double precision 2^-53 (1.1e-16). A sum of
    some thousand rows is off by tens of units, in the order in which a library adds them up.
    """

    summed: float = 3e-6
    beside_sum: float = 1e-7
    """How far a sum of numbers in single precision may be off: as a share of it, and beside that.
    """
    derived_share: float = 1e-4
    """A sum that is derived and may be off by a greater share says too little."""
    each_row: float = 2e-7
    """How far each row's part may be off, where parts cancel each other."""
    flat_step: float = 1e-3
    """Least step of a leaf from which second derivatives follow."""
    silent_log_odds: float = 300.0
    """Log odds beyond which p (1 - p) is too little for a step."""
    rough_sum: float = 1e-3
    """How far a sum may be off after many steps, for each root of a row."""
    in_double: float = 1e-5
    """How many times these, where all numbers are in double precision."""
    blurred_share: float = 1e-6
    """A sum that rounding may move by more says too little."""
    over_share: float = 1e-6
    """By which share of it a second derivative may lie beyond what there can be."""
    half_row: float = 0.499
    """Sums that may be off by so much or more do not tell which whole number it is."""
    near_one: float = 2.0**-25
    """What single precision makes of a number near one may be off by this much."""
    double_row: float = 1e-14
    """How far a sum in double precision may be off for each row."""
    same_step: float = 1e-7
    """How near the step of a leaf must come to the one in the file, as a share of it and beside it.
    """
    steps_apart: float = 1e-4
    """Least difference between the steps of two children, as a share of them: nearer ones say too
    little."""
    added_to_sums: float = 1e-15
    """What libraries add to sums, so that none is 0."""
    single_unit: float = 2.0**-24
    double_unit: float = 2.0**-53
    """Units of both precisions: half of the distance from 1 to the next number."""
    roundings: float = 8.0
    """Roundings on the way from a sum to the value in a leaf."""
    sums_apart: float = 0.3
    """By how much sums of targets are taken to vary, as a multiple of that for each root of a row.
    """
    targets_apart: float = 8.0
    """How far targets may lie apart that rows share, as a multiple of how far means of leaves do.
    """
    unasked: float = 1e-12
    """What is not asked of any sum, as a share of that distance for each row."""


TOLERANCES = Tolerances()
