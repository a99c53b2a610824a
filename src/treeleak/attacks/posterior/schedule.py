"""How chains move, and how often they learn what rows are like."""

from __future__ import annotations

from treeleak.core.private import dataclass


@dataclass(frozen=True)
class Schedule:
    """How chains behind hidden draws and noise move, learn and start.

    How many of them walk, and for how long, say the plans of :class:`.walks.Plan`.
    """

    fresh_rows: float = 0.1
    """Share of the moves that replace a row by one that the learned prior draws."""
    learning_sweeps: float = 1.5
    first_redraws: int = 3
    """Sweeps between two redraws of what rows are like; redraws per attribute before the first row.
    """
    rule_turns: int = 1000
    """Turns in which rows that break rules are sent elsewhere."""
    dependent_pairs: int = 2**16
    """Pairs of atom and bin up to which one attribute may depend on another."""
    steps_at_once: int = 200_000
    """Steps between two looks at the clock, about 0.2 s."""
    swaps: float = 0.15
    jumps: float = 0.1
    """Shares of the moves that exchange attributes of two rows, and that send a row to a likely
    place."""
    long_gibbs: float = 0.6
    single_swaps: float = 0.8
    """Where attributes are long, and the grid is not listed: shares of the moves that weigh all
    atoms of an attribute, and of the swaps that exchange one."""
    likely_rows: float = 1e-6
    """Rows expected at a place from which on it is jumped to."""
    em_at_once: int = 5
    em_looks: int = 12
    start_share: float = 0.15
    """Sweeps of EM between two looks at the clock, and the share of the time left that it may take.
    """
    split_sweeps: int = 4
    """Sweeps between two looks at how distinct rows split among classes."""
    cold: float = 0.2
    cold_stages: int = 2
    """Temperature, and stages, in which a chain looks for the likeliest dataset."""
    sample_doubt: float = 0.5
    """Samples' worth of doubt in every share."""
    most_samples: int = 60
    most_sampled_rows: int = 24_000
    """Samples of which an estimate is taken value by value, at most, and rows in all of them."""
    brief_factor: int = 8
    brief_agreement: float = 1.05
    """A walk so many times shorter comes first. It will do if R-hat, over its chains, is at most
    this: they started apart, each in its own temperature."""
    number_doubt: float = 2.0
    """By what the log likelihood is divided where columns are numbers. Trees put their thresholds
    where the rows that they drew suggest: counts of draws fit these better than chance would have
    it, and rows that fit the counts best are wrong."""
    many_rows: int = 1000
    """Rows from which on chains start where the counts put the rows, and are not tempered."""
    least_noise_samples: int = 20
    most_noise_samples: int = 180
    most_noise_rows: int = 100_000
    """Samples from which is estimated, and rows in all of them."""
    guess_rows: int = 10_000
    guess_samples: int = 20
    """Rows in all samples from which is estimated, and samples: more make no better guess."""


SCHEDULE = Schedule()
