"""More memory than the limit is refused before it is taken."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

import treeleak
from helpers.mutations import releases
from treeleak.auditing import run
from treeleak.auditing.assessors import counts
from treeleak.core.memory import TooLarge, require
from treeleak.metrics.matching import pair_costs
from treeleak.partition.value_index import _distance
from treeleak.release.readers.release_file import release_from_dict
from treeleak.schema import Numeric


def test_what_does_not_fit_is_refused():
    require("this table", (2**29,), np.float64)
    with pytest.raises(TooLarge, match="this table needs more than 4 GB of memory"):
        require("this table", (2**29 + 1,), np.float64)


@pytest.mark.parametrize(
    "step",
    [
        lambda: pair_costs(np.zeros((30_000, 1)), np.zeros((30_000, 1))),
        lambda: _distance(Numeric("x", 0, 1), np.zeros((30_000, 1))),
    ],
)
def test_large_tables_are_asked_for_first(step):
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            step()
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_part_that_needs_too_much_is_not_assessed(breaks: Callable[..., None]):
    release = release_from_dict(json.loads(releases()[1]))
    breaks(counts, "count_leaves", MemoryError())
    breaks(run, "rebuild", MemoryError())
    found = treeleak.audit(release)
    why = "this needs more than 4 GB of memory"
    assert dict(found.not_assessed) == {"counts": why, "reconstruction": why}
    assert found.inventory


BOUNDED = """
import numpy as np
from treeleak.core import memory
memory.LIMIT = 2**28
with memory.bounded():
    small = np.ones(2**26, dtype=np.uint8)
    try:
        with memory.refused():
            np.ones(2**28, dtype=np.uint8)
    except memory.TooLarge as why:
        print(why)
print(np.ones(2**28, dtype=np.uint8).sum())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the bound is that of Linux")
def test_a_program_is_refused_what_is_too_much_by_the_system():
    done = subprocess.run([sys.executable, "-c", BOUNDED], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["this needs more than 0 GB of memory", str(2**28)]
