"""How long it takes to count what each rule of a list takes, for lists of many kinds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from experiments.benchmarks.options import Options
from experiments.benchmarks.tables import CONSOLE, new_table, verdict
from treeleak.core.errors import NotCovered
from treeleak.uncertainty.counting import Tests, captured

N_AXES, N_RULES, WIDTH = 60, 200, 3
FLOOR = 1.0

Mask = NDArray[np.bool_]


def learned(rng: np.random.Generator, n_rules: int) -> list[Tests]:
    """Learn a list greedily from rows whose columns depend on each other along a random tree."""
    rows = np.empty((4000, N_AXES), dtype=bool)
    rows[:, 0] = rng.random(len(rows)) < 0.5
    for k in range(1, N_AXES):
        flipped = rng.random(len(rows)) < rng.uniform(0.05, 0.35)
        rows[:, k] = rows[:, rng.integers(k)] ^ flipped
    weights = rng.normal(size=N_AXES)
    score = (rows - 0.5) @ weights + rng.normal(size=len(rows))
    label = score > np.median(score)
    out: list[Tests] = []
    left = np.arange(len(rows))
    while len(out) < n_rules:
        if len(left) < 20:
            left = np.arange(len(rows))
        best: tuple[float, Tests, Mask] | None = None
        for _ in range(100):
            # A rule that holds for some row that is left.
            row = rows[rng.choice(left)]
            tested = rng.choice(N_AXES, WIDTH, replace=False)
            held = (rows[np.ix_(left, tested)] == row[tested]).all(axis=1)
            share = label[left[held]].mean()
            # Gini impurity, a little less for a rule that takes more.
            impurity = 2 * share * (1 - share) - 0.2 * np.log10(held.sum())
            if best is None or impurity < best[0]:
                best = (impurity, {int(k): np.arange(2) == row[k] for k in tested}, held)
        assert best is not None
        out.append(best[1])
        left = left[~best[2]]
    return out


def drawn(
    n_values: int, mask: Callable[[np.random.Generator, int], Mask]
) -> Callable[[np.random.Generator, int], list[Tests]]:
    """Make a function that draws lists whose rules test axes all alike."""

    def draw(rng: np.random.Generator, n_rules: int) -> list[Tests]:
        return [
            {int(k): mask(rng, n_values) for k in rng.choice(N_AXES, WIDTH, replace=False)}
            for _ in range(n_rules)
        ]

    return draw


def one_value(rng: np.random.Generator, n: int) -> Mask:
    return np.arange(n) == rng.integers(n)


def the_last(rng: np.random.Generator, n: int) -> Mask:  # noqa: ARG001
    return np.arange(n) == n - 1


def up_to(rng: np.random.Generator, n: int) -> Mask:
    return (np.arange(n) < rng.integers(1, n)) ^ bool(rng.integers(2))


def some_values(rng: np.random.Generator, n: int) -> Mask:
    while True:
        mask = rng.random(n) < 0.5
        if mask.any() and not mask.all():
            return mask


KINDS: dict[str, tuple[int, Callable[[np.random.Generator, int], list[Tests]], Sequence[int]]] = {
    "learned, 2 values": (2, learned, (N_RULES,)),
    "random, 2 values": (2, drawn(2, one_value), (N_RULES,)),
    "random, the same value always": (2, drawn(2, the_last), (N_RULES,)),
    "random, one of 5 values": (5, drawn(5, one_value), range(30, N_RULES, 5)),
    "random, one of 10 values": (10, drawn(10, one_value), range(30, N_RULES, 5)),
    "random, intervals of 5 values": (5, drawn(5, up_to), range(30, N_RULES, 5)),
    "random, intervals of 10 values": (10, drawn(10, up_to), range(30, N_RULES, 5)),
    "random, sets of 10 values": (10, drawn(10, some_values), range(30, N_RULES, 5)),
}


def seconds(n_values: int, rules: Sequence[Tests]) -> float:
    """Count what the rules take, and return the processor's time for it."""
    sizes = (np.ones(n_values, dtype=np.int64),) * N_AXES
    box = (np.ones(n_values, dtype=bool),) * N_AXES
    began = time.process_time()
    found = captured(sizes, box, rules)
    took = time.process_time() - began
    assert sum(found) == n_values**N_AXES
    return took


def report(seeds: int, kinds: Sequence[str]) -> None:
    """Print, for each kind of list and each seed, how many rules are counted how fast."""
    table = new_table(
        f"rules of width {WIDTH} over {N_AXES} attributes: what each takes; "
        f"floor: {N_RULES} rules in under {FLOOR:.0f} s of processor time",
        "lists, seed, rules in time, seconds, floor, next rules, next seconds",
        left="lists, floor",
    )
    # Compile first, for one modulus and for several.
    for n in (2, 10):
        seconds(n, drawn(n, one_value)(np.random.default_rng(0), 30))
    for name in kinds:
        n_values, draw, lengths = KINDS[name]
        for seed in range(seeds):
            rules = draw(np.random.default_rng(seed), N_RULES)
            done, took, more = 0, 0.0, ("", "")
            for n in lengths:
                try:
                    now = seconds(n_values, rules[:n])
                except NotCovered:
                    more = (str(n), "refused")
                    break
                if now > FLOOR and len(lengths) > 1:
                    more = (str(n), f"{now:.2f}")
                    break
                done, took = n, now
            met = verdict(done == N_RULES and took < FLOOR)
            table.add_row(name, str(seed), str(done), f"{took:.2f}", met, *more)
    CONSOLE.print(table)


def main(args: Sequence[str]) -> None:
    parser = Options("rule_counting", __doc__, kept=False)
    parser.add_argument("--seeds", type=int, default=5, help="lists of each kind (default 5)")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    given = parser.parse_args(args)
    report(given.seeds, given.kinds)
