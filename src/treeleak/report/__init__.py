"""What a reader gets to see of an audit."""

from treeleak.report.hardened import render_hardened
from treeleak.report.informed import render_informed
from treeleak.report.page import render_html
from treeleak.report.terminal import render

__all__ = ["render", "render_hardened", "render_html", "render_informed"]
