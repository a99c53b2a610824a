"""How much is tried: a few examples and cases in the fast suite, a share of all in the slow one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import settings

Test = Callable[..., Any]

SHARE = float(os.environ.get("TREELEAK_EXAMPLES", "1"))
"""Share of all examples and cases that slow tests try: all, but for those of ``make test-slow``.

Hypothesis tries others each time, so a share of them finds over many runs what all find in one.
"""
MANY = 4
"""Slow cases of one test beyond which a share of them is tried."""
FEWEST = 5
"""Examples that a slow test tries at least."""
only_fast = False
"""Whether slow tests are left out: ``pytest -m "not slow"``."""


def examples(n: int, *, fast: int = 0) -> Callable[[Test], Test]:
    """``n`` of Hypothesis' examples, as a slow test; ``fast`` where those are left out.

    So the fast suite tries the property, too, and the slow one its share of all.
    """

    def decorate(test: Test) -> Test:
        if only_fast and fast:
            return settings(max_examples=fast)(test)
        return pytest.mark.slow(settings(max_examples=shared(n, fast or FEWEST))(test))

    return decorate


def seeds(n: int, *, fast: int) -> Callable[[Test], Test]:
    """The argument ``seeds`` of a test: a share of ``n``; in the fast suite the first ``fast``."""
    if only_fast:
        return pytest.mark.parametrize("seeds", [pytest.param(range(fast), id="few")])
    every = pytest.param(range(shared(n, 2 * fast)), id="all", marks=pytest.mark.slow)
    return pytest.mark.parametrize("seeds", [every])


def by_default() -> int:
    """How many examples a test tries that does not say."""
    return 6 if only_fast else shared(100, 20)


def beyond_share(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Return the slow cases that are left out: of ``MANY`` of one test all but a share, spread."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("each"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out: set[pytest.Item] = set()
    for several in cases.values():
        if (n := len(several)) > MANY:
            kept = _spread_over(n, shared(n, 2))
            left_out |= {item for i, item in enumerate(several) if i not in kept}
    return left_out


def _spread_over(n: int, k: int) -> set[int]:
    return {round(i * (n - 1) / max(k - 1, 1)) for i in range(k)}


def shared(n: int, least: int) -> int:
    """A share of ``n``, and so many at least, where there are."""
    return min(n, max(least, round(SHARE * n)))


def spread(cases: Iterable[Any], *, fast: int, each: bool = False) -> list[Any]:
    """All cases of a parametrised test; ``fast`` of them, evenly spread, are not slow.

    With ``each``, the slow suite tries all others, too, and not a share of them.
    """
    every = list(cases)
    kept = _spread_over(len(every), fast)
    others = [pytest.mark.slow, *[pytest.mark.each] * each]
    return [
        pytest.param(*_arguments(case), marks=() if i in kept else others)
        for i, case in enumerate(every)
    ]


def _arguments(case: Any) -> Sequence[Any]:
    return case if isinstance(case, tuple) else (case,)
