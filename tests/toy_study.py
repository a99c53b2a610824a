"""A study that takes no time, for tests; as a program, it runs itself into a store."""

import os
import sys
import time
from pathlib import Path

import pandas as pd

from experiments import Store, Study, Table, carry_out, plan

TRACE = "TOY_STUDY_TRACE"
"""Variable that names a folder in which each run leaves a line."""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
"""In which this runs as a program."""


def square(parameters):
    folder = os.environ.get(TRACE)
    if folder:
        with (Path(folder) / f"{os.getpid()}.txt").open("a") as file:
            file.write(f"{parameters['x']}\n")
    time.sleep(parameters["wait"])
    if parameters["x"] == 13:
        raise ValueError("thirteen")
    return {"square": parameters["x"] ** 2, "nothing": float("nan")}


def table(runs):
    return [Table("toy", "squares", runs[["x", "square"]], "A note.")]


def study(n=20, wait=0.0, **changed):
    return Study(
        **{
            "name": "toy",
            "paper": "none",
            "what": "squares",
            "full": lambda: [{"x": x, "wait": wait} for x in range(n)],
            "quick": lambda: [{"x": x, "wait": wait} for x in range(0, n, 5)],
            "run": square,
            "tables": table,
            **changed,
        }
    )


def traced(folder):
    """Runs that were begun, by all processes."""
    return sorted(int(x) for file in Path(folder).glob("*.txt") for x in file.read_text().split())


if __name__ == "__main__":
    path, jobs, n, wait = sys.argv[1], *map(float, sys.argv[2:5])
    others: list[int] = []
    # As many more processes as are asked for; to load what they need takes longer than to run.
    for _ in range(int(*sys.argv[5:])):
        if (pid := os.fork()) == 0:
            others.clear()
            break
        others.append(pid)
    store, toy = Store(path), study(int(n), wait)
    carry_out(plan(toy, store), store, jobs=int(jobs))
    assert pd.DataFrame([r.record for r in store.runs("toy")]).notna().any(axis=None)
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in others)
