"""All studies, by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from experiments.studies import draft, draft_dp, ferry, gambs
from experiments.study import Study
from treeleak.core.errors import BadInput

__all__ = ["STUDIES", "find_study"]

STUDIES: Mapping[str, Study] = MappingProxyType(
    {study.name: study for paper in (draft, draft_dp, ferry, gambs) for study in paper.STUDIES}
)


def find_study(name: str) -> Study:
    """Find a study.

    Raises
    ------
    BadInput
        If nothing is called so, with what is called most alike.
    """
    if name in STUDIES:
        return STUDIES[name]
    near = difflib.get_close_matches(name, STUDIES, 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise BadInput(f"no study is called {name!r}; {hint}`treeleak study list` names them all")
