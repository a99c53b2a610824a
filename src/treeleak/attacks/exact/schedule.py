"""What the attack on exact counts spends: work, steps, sweeps and samples."""

from __future__ import annotations

from treeleak.core.private import dataclass


@dataclass(frozen=True)
class Schedule:
    """How long walks and the integer solver look for datasets that meet exact counts.

    Work of the integer solver is deterministic, about seconds. A sweep moves each row once.
    """

    promising_cells: int = 12
    wide_cells: int = 3
    """Open cells per equation up to which the integer solver is asked at all, and from which it is
    not asked first where walks learn what rows are like."""
    first_work: float = 1.0
    proof_work: float = 1.5
    wide_proof_work: float = 0.3
    """Work for the integer solver (about seconds): before walks, and for proofs after them."""
    plain_values: int = 2
    """Values of a column up to which shares of worlds are right as they are."""
    most_worlds: int = 40
    cheap_steps: int = 40_000_000
    """Worlds that are drawn at most, and the steps that all beyond the least may take together."""
    first_run_factor: int = 16
    least_steps: int = 20_000
    """How many times shorter than usual the first runs are, and of what length at least."""
    runs_at_once: int = 2
    run_growth: int = 2
    """Runs at a time, and how many times longer the next ones are if one missed counts."""
    combining_work: float = 1.0
    work_per_step: float = 1e-7
    """Work for the integer solver (about seconds) to combine runs that miss some counts; and to
    solve the whole, for each step of a run: about as long."""
    counts_per_column: float = 4.0
    """Missed counts that a column's worth of expected distance weighs as much as."""
    run_stages: int = 64
    """Temperatures of a run, and looks at the clock."""
    steps_per_move: int = 3500
    """Steps of a draw for each row and each atom it may take."""
    entropy_rounds: int = 12
    few_entropy_rounds: int = 4
    large_system: int = 2_000_000
    """Rounds of maximum entropy, fewer from so many incidences on."""
    nearest_starts: int = 2
    nearest_run_factor: int = 8
    """Worlds from which the nearest one is looked for, and how much shorter than a usual run."""
    point_rounds: int = 4
    """Rounds in which rows of a cell are shared out to its points, and what rows are like is
    fitted."""
    learned_atoms: int = 2**22
    """Atoms of all points together from which nothing is learned: it would take seconds."""
    tail_deviations: float = 4.0
    """Standard deviations above the rows due at a point, from which no more are thought of."""
    many_equations: int = 20
    coldest: float = 0.25
    """Equations of a row from which on a missed count costs no more than a factor e of what rows
    are like; least temperature where rows stand in few."""
    learning_sweeps: float = 40.0
    """Sweeps between two redraws of what rows are like."""
    swaps: float = 0.3
    """Share of the moves in which two rows exchange atoms."""
    freezing_from: float = 1.2
    freezing_to: float = 0.6
    freezing_stages: int = 40
    """Temperatures from and to which a chain cools that looks for a world, and stages of that."""
    prior_powers: tuple[tuple[float, int], ...] = ((1.0, 1), (0.25, 2))
    """Until some chain has found a world, what rows are like counts to such a power, for so many
    times as long: it keeps chains from places that some worlds need."""
    chains_combining_work: float = 2.0
    """Work for the integer solver (about two seconds each) to make a world of what all chains saw.
    """
    pseudo_samples: float = 0.5
    """Samples in which all values are as frequent, added to every share."""
    most_samples: int = 180
    most_sampled_rows: int = 20_000
    """Samples of which the middle is taken, and rows in all of them."""
    estimate_gain: float = 0.01
    """Share of its expected error that the nearest world must cost at least, or it is the answer.
    """


SCHEDULE = Schedule()
