"""Comparison of rows with a release's trees, by code that no attack shares."""

from treeleak.verification.training_rows import counted

__all__ = ["counted"]
