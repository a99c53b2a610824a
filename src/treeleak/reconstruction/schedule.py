"""What the road from a model to rows spends: shares of the time, sweeps and sizes."""

from __future__ import annotations

from treeleak.core.private import dataclass


@dataclass(frozen=True)
class Schedule:
    """Shares of the time of ways to an answer, and how much is done for values inside intervals.

    A way that others follow ends with its share; looks at values are those of compiled loops.
    """

    seed_search_share: float = 0.3
    """Share of the time that the search for a forest's seed may take if nobody insists on it."""
    uncertain_rows: int = 20_000
    uncertain_factor: int = 20
    """More rows than this are not rebuilt if their number is uncertain by more than this factor."""
    learning_rates: tuple[float, ...] = (0.1, 0.05, 0.2, 0.01, 0.5, 1.0, 0.02, 0.15, 0.25, 0.03)
    """Learning rates that are tried where none is said and the default explains nothing."""
    drawn_sums_share: float = 0.7
    """Share of the time for sums over rows that trees drew, where their counts may follow."""
    default_rate_share: float = 0.5
    """Share of the time for the default."""
    joined_share: float = 0.6
    """Share of the time for several models together; the rest is for each of them alone."""
    folds_share: float = 0.5
    """Share of the time for the models one by one; the rest is for all of them."""
    late_writing: float = 30.0
    """Seconds that writing and checking an answer may take beyond the attack's share of the time.
    """
    agreed_chains: float = 1.2
    """R-hat up to which chains are taken to agree. Of ranks it grows to no more than about 1.25 if
    one of eight chains stands apart from all others, however far."""
    narrowing_sweeps: int = 100
    """Sweeps over all tests in which intervals are narrowed, at most."""
    narrowing_tests: int = 2 * 10**7
    """Tests on the ways of all rows through all trees; with more, values stay where they are."""
    least_value_sweeps: int = 10
    value_sweeps: int = 300
    """Sweeps over midpoints, at least and at most."""
    value_looks: int = 10**9
    """Looks at values after which the sweeps end early: some seconds."""
    looks_per_second: int = 10**8
    """Looks in a second, on a slow machine."""
    telling_thresholds: int = 3
    """Thresholds that a column must have for its midpoints to tell anything of the rows."""
    crowded_rows: int = 20
    """Rows for each threshold of a column from which on nearly any rows have values beside it."""
    intervals_beside: int = 2
    crowded_density: float = 3.0
    """Intervals beside the first one, and how many times as dense it is if its rows are alike."""
    midpoint_met: float = 1e-3
    """Part of the typical gap between thresholds up to which a midpoint is taken to be met."""
    telling_borders: int = 8
    """Borders from which on values hardly fit between them by chance, if they are no such middles.
    """
    tried_values: int = 10_000
    """Values on the grid that are tried for the first, at most."""
    most_digits: int = 16
    """Digits behind the point to which values are rounded, at most."""
    short_values: float = 0.5
    """Share of values with fewer digits than the grid has that speaks for the grid itself."""
    common_rounds: int = 60
    """Rounds of expectation and maximisation over the values of a column: with many more, all would
    pile up where intervals overlap."""
    even_rows: float = 2.0
    shared_rows: float = 10.0
    """Rows' worth of trust that values are even, and that those of a class are as those of all."""
    grid_values: int = 2**16
    """Values on a grid that are told apart; with more, rows lie between ends of intervals."""
    known_values_share: float = 0.5
    """Share of the even values that is on values which some rows are known to have."""
    chain_doubt: float = 0.5
    """Rows' worth of doubt in how many each chain shares with no other."""
    ratio_doubt: float = 0.2
    """Rows' worth of doubt in a ratio of frequencies, in all chains together."""
    pair_trust: float = 5.0
    """Pairs of equal rows' worth of trust that the prior says how many there are."""
    judged_datasets: int = 6
    judged_parts: int = 5
    imagined_rows: int = 3000
    """Datasets that are looked at, parts of each that others are held against, and rows of the
    prior over which a mean is taken."""
    exchanged_rows: int = 400
    """Rows that may change places, at most: each is held against each."""
    exchanged_leaves: int = 2**25
    """Leaves in which they are looked at, at most."""
    exchange_rounds: int = 20
    """Rounds of exchanges, at most."""


SCHEDULE = Schedule()
