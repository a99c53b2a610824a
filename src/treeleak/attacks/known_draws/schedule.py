"""What the attack on known draws spends: time, work, evaluations and sizes."""

from __future__ import annotations

import math

from treeleak.core.private import dataclass


@dataclass(frozen=True)
class Schedule:
    """How much is done for rows whose draws are known, and in which shares of the time.

    Work of the integer solver is deterministic, about seconds. Evaluations are those of the dual.
    """

    fallback_seconds: float = 1e-5
    """Seconds kept for each row and tree, at most half of the time: rows at hand are the answer of
    an attack that runs out of time."""
    walk_seconds: float = 5e-8
    """Seconds that walks take to begin, for each row and leaf: they are not begun with less time.
    """
    late_writing: float = 10.0
    """Seconds that writing rows may take beyond the limit."""
    domains_share: float = 0.25
    promising_share: float = 0.5
    uncompared_share: float = 0.85
    """Share of the time for narrowing the leaves of rows, where the grid is too large to list; the
    second where that will probably leave few places, which is worth more than a walk; the third
    where there are too many leaves to compare: such rows do not walk, they would hardly begin."""
    chains_share: float = 0.5
    search_share: float = 0.3
    brief_share: float = 0.1
    proved_enough: float = 0.5
    """Share of the time for walks over the datasets that meet the counts, and for the search where
    such walks may follow, or will for sure; they do where less than the last share of the rows is
    proved."""
    first_evaluations: int = 60
    repair_evaluations: int = 800
    """Evaluations with all candidates, and with the few of a repair or a proof."""
    reaction_steps: int = 24
    reaction_evaluations: int = 20
    """Steps in which the reaction is turned on, and evaluations in each."""
    candidate_doubt: float = 0.01
    """Rows' worth of prior for each candidate beside the rows that are there."""
    suspect_shares: tuple[float, ...] = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 1e-9)
    """Shares of a row's trees at which counts are missed, from which on it is opened."""
    believable_shares: tuple[float, ...] = (1e-2, 1e-3, 1e-4)
    """Shares of the likelihood of a row's best candidate down to which others are tried together.
    """
    pricing_rounds: int = 12
    least_pricing_rounds: int = 4
    pricing_growth: int = 5
    """Rounds of pricing candidates into a proof, and how much longer each fits than the last."""
    solver_work: float = 2.0
    proof_work: float = 3.0
    """Work for the integer solver, about seconds."""
    open_entropy: float = math.log(2.0)
    """Entropy left for each open row from which on there are several datasets for sure."""
    least_candidate: float = 1e-9
    """Least probability of a candidate, when those of a choice are weighed against each other."""
    unlikely_candidate: tuple[float, ...] = (1e-12, 1e-24)
    """A candidate this much less likely than the row's best is set aside: at first, and if what is
    left meets no counts. After a hundred evaluations over 5,000 rows, one in a thousand rows was in
    a place that looked a million times less likely than another, and none in one of 1e-12."""
    likely_evaluations: int = 100
    likely_rounds: int = 8
    """Evaluations with the likely candidates until all are looked at again, and how often that is.
    """
    open_variance: float = 1e-9
    """Variance of a count from which on it tells anything of open rows."""
    rounding_variance: float = 1.0 / 12.0
    """Variance of what is cut off from a number to make it whole: that of the uniform law."""
    dual_memory: int = 15
    """Steps that L-BFGS remembers."""
    dual_gradient: float = 1e-4
    """Largest gradient at its end."""
    dual_patience: int = 40
    dual_progress: float = 0.08
    """Evaluations in which the dual must gain such a share: its least value is the entropy left,
    towards zero it falls fast, else it levels off."""
    count_variance: float = 0.5
    """A count is a whole number: it says no more than this variance allows."""
    most_reaction: float = 3.0
    """Most that the reaction of one count adds to a log-odds."""
    least_curvature: float = 0.25
    """Least curvature of the dual that is assumed."""
    score_step: float = 2.0**-32
    """Step of scores: equal ones are equal however they were summed, and the fit still converges.
    """
    columns_per_lookup: int = 10
    """Columns of the grid that are scored while one candidate is looked up."""
    rows_at_once: int = 256
    """Rows that are scored over the whole grid together."""
    columns_met: int = 2**25
    """Most pairs of a tree and a column for that: each thread holds some numbers for each."""
    listed_candidates: tuple[int, ...] = (200, 2_000, 20_000)
    """Candidates of a row that are listed at most: more are tried only where fewer move nothing."""
    partial_choices: int = 64
    """Choices in some of the trees that are followed for each candidate that a row may have: most
    end before the last tree."""
    listed_rows: float = 0.8
    """Share of the rows that must be listed before more candidates of the others are."""
    most_candidates: int = 1_000_000
    """Most candidates of all rows."""
    probed_leaves: int = 64
    probed_rows: int = 32
    """Leaves of a tree up to which each is assumed in turn, and rows between two looks at the
    clock."""
    joined_rows: int = 128
    counted_trees: int = 16
    """Rows, and trees, between two looks at the clock where less work is done for each."""
    promising_leaves: float = 2.0
    """Leaves of a tree for each attribute with a test, from which on narrowing mostly leaves each
    row few places. So it was in 20 of 23 runs of ``known_raw`` above it (stroke, diabetes and adult
    of 200 rows, mixed, stroke of 500), and in two of four below it (credit of 100)."""
    out_of_bag_leaves: float = 1.0
    """Open leaves for each tree that drew a row up to which sums over the other trees are used
    early: with more, they take long and say little."""
    closed_pairs: int = 2**29
    """Most pairs of a row and a leaf in a table of bytes."""
    class_work: float = 20.0
    class_proof_work: float = 8.0
    """Work for the integer solver (about seconds): for any classes that meet whole trees, and for
    the proof."""
    message_rounds: int = 200
    message_step: float = 0.6
    """Rounds of message passing, and how far each goes. With 200 equations, 425 rows took up to 50.
    """
    message_variance: float = 1e-10
    """Least variance in message passing: of what is known for sure."""
    classes_alone: float = 20.0 * math.log(2.0)
    """Negative log of the number of other classes that would meet the equations by chance, from
    which on there are taken to be none."""
    fewer_leaves: int = 6
    kept_leaves: float = 0.7
    """How often fewer leaves are assumed where they contradict each other, and which share is kept.
    """
    classes_share: float = 0.2
    """Share of the time for classes alone, where the grid is too large to list, and for what
    follows from them."""
    near_counts: float = 0.05
    """Share of the draws that a dataset must not miss to be near the counts."""
    steps_per_second: float = 5e5
    """Steps of all chains in a second, as a rule: what walks will take before anything is laid out.
    """
    marginal_rounds: int = 3
    """Rounds in which values are fitted to candidates and candidates to values."""
    points_of_cell: int = 4096
    """Points of a cell that are looked at; of larger cells, evenly spaced ones."""
    least_open: float = 1e-3
    """Probability of what is not proved, at least."""
    own_pair: float = 0.01
    """Weight of the answer's own pair beside what is believed of a row."""
    draws_of_candidate: int = 64
    """Draws of a candidate, for each row, where there is no time for all."""
    most_worlds: int = 40
    """Datasets that are drawn, at most."""


SCHEDULE = Schedule()
