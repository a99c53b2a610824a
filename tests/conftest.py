"""Settings that all tests share."""

from __future__ import annotations

from hypothesis import settings

# Compiled loops make the first example slow, and the machine may be busy.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")
