"""The attack where the grid of thresholds is too large to list: rows walk on it."""
