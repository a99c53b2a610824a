"""How many examples a property is tried on: a few in the fast suite, all in the slow one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

Test = Callable[..., Any]

only_fast = False
"""Whether slow tests are left out: ``pytest -m "not slow"``."""


def examples(n: int, *, fast: int) -> Callable[[Test], Test]:
    """``n`` of Hypothesis' examples, as a slow test; where slow tests are left out, ``fast``.

    So the fast suite tries the property, too, and the slow one tries all.
    """

    def decorate(test: Test) -> Test:
        if only_fast:
            return settings(max_examples=fast)(test)
        return pytest.mark.slow(settings(max_examples=n)(test))

    return decorate


def seeds(n: int, *, fast: int) -> Callable[[Test], Test]:
    """The argument ``seeds`` of a test: the first ``fast``, and, as a slow test, all ``n``."""
    every = pytest.param(range(n), id="all", marks=pytest.mark.slow)
    return pytest.mark.parametrize("seeds", [pytest.param(range(fast), id="few"), every])
