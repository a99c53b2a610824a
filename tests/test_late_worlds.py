"""What the exact attack leaves out where time is up."""

from types import SimpleNamespace

import numpy as np

from treeleak.attacks.exact.annealing_runs import _in_time
from treeleak.attacks.exact.worlds import Solution
from treeleak.partition.value_index import values_of


class Stopwatch:
    """A clock that nobody has to wait for."""

    def __init__(self, left, each):
        self.left, self.each, self.looks = left, each, 0

    @property
    def seconds(self):
        self.looks += 1
        return self.each * self.looks


def worlds(n):
    rng = np.random.default_rng(0)
    rows = [np.sort(rng.integers(0, 2, (4, 1)), axis=0) for _ in range(n)]
    return [Solution(np.zeros(4, dtype=np.int64), own, (7 * k) % n) for k, own in enumerate(rows)]


def kept(n, left, each):
    search = SimpleNamespace(values=values_of((), 2))
    return _in_time(search, worlds(n), Stopwatch(left, each))


def test_where_no_time_is_left_the_worlds_that_miss_least_are_kept():
    assert len(kept(12, left=67.0, each=1.0)) == 12
    late = kept(12, left=65.0, each=1.0)
    assert [w.misfit for w in late] == [0, 1, 2, 3, 4]
    assert [w.misfit for w in kept(4, left=0.0, each=1.0)] == [0, 3, 2, 1]
