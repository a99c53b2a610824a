"""What a reader gets to see of an audit."""

from treeleak.report.terminal import render

__all__ = ["render"]
