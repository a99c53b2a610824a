"""Rows from real-valued sums in leaves: least squares over cells that are taken up as needed."""
