"""What the attack on sums of the loss spends: time, work, rounds and sizes."""

from __future__ import annotations

from treeleak.core.private import dataclass


@dataclass(frozen=True)
class Schedule:
    """How much is done for rows behind sums of the loss, and in which shares of the time.

    Shares of the time end a stage that others follow; work and rounds end it before the clock does.
    """

    cells_share: float = 0.4
    raw_share: float = 0.8
    """Share of the time for a way to rebuild rows behind which there is another one; and where that
    other one says next to nothing."""
    worlds_late: float = 0.5
    """Seconds after the time is up when worlds are no longer held against each other."""
    entries_written: float = 1e6
    writing_share: float = 0.2
    """Rows times trees that are written as an answer in a second, for which time is left; and the
    largest share of the time for that."""
    proof_share: float = 0.5
    """Share of the time that is left for a proof of the rows."""
    proof_factor: float = 2.0
    proof_seconds: float = 2.0
    """How many times as long as the rows a proof may take, and seconds that it may take at any
    rate."""
    whole_off: float = 0.1
    whole_off_shares: float = 0.02
    """How far from whole numbers rows may be; the second where only shares of them are told."""
    shares_sure: float = 0.5
    """Probability of rows of which shares alone are told, if the leaves do not tie all kinds of
    rows together: some of these alone may explain the leaves in which they lie, and be more than
    they seem."""
    used_share: float = 1e-6
    """Least share of the largest number of rows that counts as any."""
    rarest_rows: int = 4
    """Most rows of the rarest kind, where only shares of rows are told."""
    class_free_share: float = 0.6
    """Share of the time for the sums without classes, where there are others."""
    all_sums_share: float = 0.9
    tree_by_tree_share: float = 0.9
    """Share of what is left then for all sums; of the time for going tree by tree, where sums are
    exact enough."""
    step_late: float = 0.2
    """Seconds after which a step is broken off that is not all there is."""
    columns_off: float = 0.1
    """How far from whole numbers those are that need no rounding, over all columns they stand for.
    """
    second_try_share: float = 0.4
    """Share of the time for all trees at once where going tree by tree found no rows."""
    first_columns: int = 1_000
    most_columns: int = 8_000
    """Columns that are looked at together tree by tree: to begin with, and at most."""
    columns_per_tree: int = 60
    """For each tree that is looked at, there may be so many columns."""
    try_off: float = 0.2
    """How far from whole numbers what is worth a try tree by tree may be."""
    corners: int = 40
    """Corners of the solutions that are tried where there are no more trees to look at."""
    interior_rounds: int = 60
    """Steps of the interior-point method, at most."""
    entropy_ridge: float = 1e-3
    """By how much sums may be missed by likely rows, as a share of the variance that they have by
    chance."""
    entropy_rounds: int = 300
    """Of a minimisation of likely rows, at most."""
    entropy_share: float = 0.3
    """Share of the time of likely rows for numbers of rows alone."""
    entropy_kept_rows: float = 0.98
    """Share of the rows that cells which are looked at again hold, as far as numbers of rows say.
    """
    entropy_rows_beyond: int = 20
    """Rows of a column beyond those it is expected to hold that are not likely enough."""
    joining_columns: int = 300
    """Columns that join the pool of least squares at once, at most."""
    joining_worth: float = 0.1
    """Least worth of those, as a share of the best one's."""
    descent_sweeps: int = 100
    """Sweeps of descent before each exact solution."""
    unused_columns: int = 300
    """Columns of the pool that are not in use: beyond this number they leave."""
    refactored_after: int = 6
    """A new factor is made where more than one in so many columns leave."""
    stall_factor: float = 1.0001
    stall_rounds: int = 10
    """If the residual falls by less than this factor in so many rounds, it is at its end."""
    solver_terms: int = 300_000
    """Entries of columns up to which the integer solver is asked."""
    solver_work: float = 10.0
    """Work for the integer solver, about seconds."""
    basis_columns: int = 5_000
    """Columns in use, and those that depend on them, that are looked at."""
    basis_seconds: float = 5e-10
    """Seconds that looking at these takes at most, for the cube of their number."""
    solver_seconds: float = 0.1
    """Seconds that the integer solver has at least."""
    label_rounds: int = 50
    """Rounds of bounded least squares over classes, at most."""
    unlikely_sigmas: float = 4.0
    unlikely_rows: float = 1e-4
    """How far rows of the unlikely class may be more than is usual; and so few that there are none.
    """
    ways_of_group: int = 64
    """Ways in which rows of a group may share out its parts, at most: else each is for itself."""
    subset_choices: int = 4_096
    """Choices that meet all sums, at most."""
    subset_orders: int = 6
    """Orders of the items that are tried where not all choices can be looked at."""
    subset_chance_in_part: float = 1e-3
    subset_chance: float = 256.0
    """Choices that meet the sums by chance, at most: where not all can be looked at, and at all."""
    followed_choices: int = 8
    """Choices that meet a node's sums, at most, that are followed before more trees are looked at.
    """
    node_states: int = 20_000
    """States that are looked at, at most."""
    raw_rows: int = 20_000
    """Most rows of a raw table. Before the first tree they are one group: choices of its nodes take
    time that grows with the square of them, between two looks at the clock, and are counted in 16
    bits."""
    raw_search_share: float = 0.75
    """Share of the time for the search node by node."""
    raw_late: float = 0.2
    """Seconds after which that search is broken off."""
    raw_trees: int = 3
    """Trees that must be settled for their groups to say more than counts alone."""
    box_sure: float = 0.99
    label_sure: float = 0.9
    """Probability that a row lies in its box, and that it is of the class found, at most."""
    sharing_seconds: float = 10.0
    """Most time to share out rows among boxes."""
    missing_row_weight: float = 1e3
    """What a row that a leaf lacks weighs beside how likely boxes are."""
    regression_counts_share: float = 0.15
    regression_sums_share: float = 0.8
    """Share of the time for counts of a regression alone, before sums, and of what is then left for
    sums."""
    sparse_points: int = 256
    sparse_walk_share: float = 0.5
    """Points for each row from which on rows walk over them first, and the share of the time for
    it: of few rows in many cells, datasets over cells are far from all counts."""
    target_ranges: tuple[float, ...] = (0.05, 0.2, 0.6, 2.0)
    """How far targets may lie from predictions, as a multiple of how far means of leaves lie apart.
    """
    regression_whole_seconds: float = 5.0
    """Seconds for whole numbers near a point that meets all sums."""
    regression_met: float = 1e-3
    """How far off a sum may be, weighed, where it is taken to be met by real numbers of rows."""


SCHEDULE = Schedule()
