"""What walks over grids too large to list spend: sweeps, prices, datasets, shares of the time."""

from __future__ import annotations

from treeleak.core.private import dataclass


@dataclass(frozen=True)
class Schedule:
    """How long rows walk over grids too large to list, and how often they are looked at.

    A sweep moves each row once in the mean. Prices are those of a missed count.
    """

    walkers: int = 2
    """Datasets that walk side by side: what both agree on is taken for right."""
    prices: tuple[tuple[tuple[float, float], ...], ...] = (
        ((0.0, 0.1), (0.12, 0.3), (0.85, 1.0), (1.0, 2.5)),
        ((0.0, 0.3), (0.7, 1.2), (1.0, 2.5)),
    )
    """Share of the sweeps done, and price of a missed count there: in even attempts, which suit
    rows that resemble each other, and in odd ones."""
    least_sweeps: int = 400
    sweeps_per_row: int = 8
    sweeps_per_walled_row: int = 4
    """Sweeps of the first attempt: at least, for each row, and where it is known of many leaves
    that rows do not lie there."""
    price_steps: int = 20
    """Least number of prices in an attempt."""
    learned_datasets: int = 40
    """Datasets of both walkers from which is learned, each time, what rows are like."""
    least_progress: float = 0.1
    """Share of the rows not agreed on that an attempt must settle, or the next one takes longer;
    and of the leaves open to rows that must go, or other means are tried."""
    moves_at_once: int = 20_000
    """Moves between two looks at the clock: about 50 ms."""
    late_share: float = 0.05
    least_seconds: float = 1e-3
    """Share of the time that an attempt may be behind before it hurries, and least seconds that are
    taken to be left."""
    pull_price: float = 80.0
    pull_step: float = 0.03
    """What a count that stays missed by one is pulled at by the end of an attempt, as a price, and
    the least that a sweep adds to it."""
    narrowing_share: float = 0.1
    """Share of the time that is left for what follows from the leaves that walkers never left."""
    prior_fits: int = 5
    datasets_per_fit: int = 6
    sweeps_per_fit: int = 5
    """How often what rows are like is fitted, datasets for each fit, and sweeps before each."""
    samples: int = 40
    sweeps_apart: int = 6
    """Datasets drawn by each walker after that, and sweeps between them."""
    distance_strength: float = 6.0
    """Log prior per column's worth of expected distance, when the Bayes estimate is approached."""
    nearest_sweeps: int = 400
    """Sweeps in which a dataset near the Bayes estimate must meet the counts."""
    unweighed: float = 0.5
    """What is said of values where nothing was weighed."""
    sample_doubt: float = 1.0
    """Samples' worth of doubt in the share of a single one."""
    bins: int = 6
    """Bins of an attribute with more atoms."""
    bin_doubt: float = 2.0
    """Rows' worth of all atoms of a bin being alike."""


SCHEDULE = Schedule()
