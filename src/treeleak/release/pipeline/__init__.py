"""Columns on their way through a pipeline's fitted steps, and back."""
