"""The tool that pins dependencies to the lowest versions that are promised."""

import re
import runpy
from pathlib import Path

TOOL = Path(__file__).parents[1] / "tools" / "lowest_versions.py"


def test_lines_are_pinned_and_none_asks_a_registry_for_the_project_itself():
    tool = runpy.run_path(str(TOOL))
    lines = list(tool["lowest"](["test", "boosted"]))
    names = [re.split(r"[><=!\[]", line)[0] for line in lines]
    assert "treeleak" not in names
    assert {"numpy", "pytest", "pyyaml", "xgboost", "lightgbm", "catboost"} <= set(names)
    assert all("==" in line for line in lines[: names.index("hypothesis")])
    assert tool["pinned"]("jinja2>=3.1,<4") == "jinja2==3.1"
