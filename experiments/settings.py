"""Figures by settings, for `treeleak check`: what attacks of the study `draft` left wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from experiments.runner import as_frame
from experiments.store import Store
from treeleak.core.errors import BadInput
from treeleak.core.output import write_file

STUDY, N_ROWS = "draft", 100


def figures_by_settings(store: Store) -> dict[str, Any]:
    """Give the mean error for each number of trees, depth and use of rows.

    Raises BadInput if the store has no such runs.
    """
    runs = [r for r in store.runs(STUDY) if r.parameters.get("n_rows") == N_ROWS]
    runs = [r for r in runs if r.parameters.get("method") == "auto" and "error" in r.record]
    if not runs:
        raise BadInput(f"no runs of {STUDY!r} with {N_ROWS} rows: import or run them first")
    table = as_frame(runs).dropna(subset=["error", "guess"])
    found = table.groupby(["bootstrap", "depth", "n_trees"], dropna=False)
    errors: list[dict[str, Any]] = [
        {
            "bootstrap": bootstrap,
            "depth": depth,
            "n_trees": n_trees,
            "error": round(float(own["error"].mean()), 4),
            "guess": round(float(own["guess"].mean()), 4),
            "runs": len(own),
        }
        for bootstrap, depth, n_trees, own in ((*_plain(key), own) for key, own in found)
    ]
    tables = sorted(map(str, table["dataset"].unique()))
    return {"study": STUDY, "n_rows": N_ROWS, "tables": tables, "errors": errors}


def _plain(key: Any) -> tuple[str, int | None, int]:
    """Make plain values of a group's key; no depth is a number that is none."""
    bootstrap, depth, n_trees = key
    return str(bootstrap), None if depth != depth else int(depth), int(n_trees)


def write_figures_by_settings(store: Store, to: Path) -> int:
    """Write the figures; give their number."""
    found = figures_by_settings(store)
    write_file(to, json.dumps(found, indent=1) + "\n")
    return len(found["errors"])
