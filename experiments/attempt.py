"""One attack on a boosted model: what is varied, and what of its answer is kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from treeleak.core.errors import NotCovered, TimeUp
from treeleak.reconstruction import Reconstruction

Record = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One model."""

    model: str
    table: str
    n_rows: int
    seed: int
    time_limit: float


def attempt(attack: Callable[[], Reconstruction]) -> tuple[Record, Reconstruction | None]:
    """Run an attack; its record, and its answer unless the model is not covered or time was up."""
    start = time.perf_counter()
    try:
        found = attack()
    except (NotCovered, TimeUp) as why:
        seconds = time.perf_counter() - start
        return {"status": "refused", "misfit": None, "notes": [str(why)], "seconds": seconds}, None
    return {
        "status": found.status,
        "seconds": time.perf_counter() - start,
        "misfit": None if found.misfit is None else float(found.misfit),
        "evidence": found.evidence,
        "numbers": {k: float(v) for k, v in found.numbers.items()},
        "notes": list(found.notes),
    }, found


def is_there(module: str) -> bool:
    """Whether the library of a module is installed."""
    return find_spec(module.split(".")[0]) is not None
