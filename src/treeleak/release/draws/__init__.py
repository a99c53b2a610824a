"""Which rows each tree of a bootstrap drew, worked out again from its seed."""
