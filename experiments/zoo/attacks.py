"""Attacks on one model file: a path and what is public in, rows or None out.

An attack is a function ``attack(path, schema, limit, seed)``: the model file (or folder), the
:class:`~treeleak.Schema` of its table, seconds, and a seed. It returns the rows as a DataFrame in
the columns of the schema, in the order of training if it knows it, with a column ``target`` if it
knows labels, too; or None. An error says why there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType

import pandas as pd

import experiments.published_programs  # noqa: F401 - registers its methods
import treeleak
from experiments.zoo.timberstrike import timberstrike
from treeleak.core.clock import Clock
from treeleak.core.errors import BadInput, NotCovered
from treeleak.release import to_release
from treeleak.schema import Schema

Attack = Callable[[Path, Schema, float, int], "pd.DataFrame | None"]


def rebuilt(
    path: Path, schema: Schema, limit: float, seed: int, method: str = "auto"
) -> pd.DataFrame | None:
    """Rebuild rows by treeleak's public function, with one of its methods.

    Raises
    ------
    NotCovered
        Where there are no rows, with what the answer says instead.
    """
    clock = Clock(limit)
    release = to_release(path, trust_pickle=True)
    # The papers' programs know no draws.
    hidden = method != "auto" and release.sampling.kind == "bootstrap"
    by_name = set(release.feature_names) == set(schema.columns)
    found = treeleak.reconstruct(
        path, schema if by_name else None, "hidden" if hidden else "auto", clock, seed,
        method=method, trust_pickle=True, space="model" if release.inputs is None else "input",
    )  # fmt: skip
    if found.X is None:
        raise NotCovered(found.contradiction or found.meaning)
    return found.X if found.outcomes is None else found.X.assign(target=found.outcomes)


ATTACKS: Mapping[str, Attack] = MappingProxyType(
    {
        "treeleak": rebuilt,
        "DRAFT": partial(rebuilt, method="reference-cp"),
        "DRAFT-MILP": partial(rebuilt, method="reference-milp"),
        "TimberStrike": timberstrike,
    }
)
"""treeleak, the papers' programs, and the core of TimberStrike."""


def find_attack(name: str) -> Attack:
    """Find an attack by its name, or as ``module:function``.

    Raises
    ------
    BadInput
        If there is no such function.
    """
    if name in ATTACKS:
        return ATTACKS[name]
    try:
        found: Attack = resolve_name(name) if ":" in name else ATTACKS[name]
    except (ImportError, AttributeError, ValueError, KeyError) as error:
        known = ", ".join([*ATTACKS, "audit"])
        raise BadInput(f"no attack {name!r}: {known}, or module:function ({error})") from error
    return found
