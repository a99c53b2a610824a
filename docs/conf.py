"""How Sphinx makes the site (``make docs``).

The source folder is the root of the repository, so that links between files hold on the site as
they do where the repository is browsed.
"""

import runpy
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from treeleak import __version__

ROOT = Path(__file__).parents[1]
# Commands and keys of files: from the program itself, anew for every build.
runpy.run_path(str(ROOT / "tools" / "write_reference.py"))["write"](ROOT / "docs" / "api")

project = "treeleak"
author = "The treeleak developers"
copyright = author  # noqa: A001
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "docs/*.md",
    "docs/api/*",
    "experiments/README.md",
    "src/treeleak/datasets/data/*.md",
]
exclude_patterns = ["**/.*", "build", "demo", "dist", "docs/_build"]
# Types in docstrings are words: one of them may be the name of two attributes.
suppress_warnings = ["ref.python"]

myst_heading_anchors = 4

autosummary_generate = False
autodoc_default_options = {
    "members": True,
    "member-order": "bysource",
    # Put into every estimator by scikit-learn, with links into its own pages.
    "exclude-members": "set_fit_request, set_score_request",
}
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"treeleak {version}"
html_copy_source = False
html_extra_path = ["site"]


def setup(app: Sphinx) -> None:
    """Keep Napoleon from taking what stands before a property's first colon for its type."""

    def shift(_app: Any, what: str, *rest: Any) -> None:
        lines = rest[-1]
        if what in ("property", "attribute", "data"):
            lines.insert(0, "")

    app.connect("autodoc-process-docstring", shift, priority=400)
