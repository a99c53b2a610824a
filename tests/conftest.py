"""Settings that all tests share."""

from __future__ import annotations

import pytest
from hypothesis import settings

from helpers import examples

# Compiled loops make the first example slow, and the machine may be busy.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


def pytest_configure(config: pytest.Config) -> None:
    examples.only_fast = "not slow" in config.getoption("markexpr")
