"""How sure an answer may be of what it does not prove."""

MOST_SURE = 0.9999
"""Probability of what is not proved, at most."""
