"""All studies and benchmarks, by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType

from experiments.studies import draft, draft_dp, ferry, gambs
from experiments.study import Study
from treeleak.core.errors import BadInput

_MODULES = (draft, draft_dp, ferry, gambs)
STUDIES: Mapping[str, Study] = MappingProxyType(
    {study.name: study for module in _MODULES for study in module.STUDIES}
)

BENCHMARKS: Mapping[str, str] = MappingProxyType(
    {
        "exact": "forests without bootstrap, beside those whose draws are hidden",
        "known": "default forests, whose draws are known: rows in order, calibration",
        "noisy": "forests with noise on their counts, beside the published figures",
        "hidden": "default forests whose draws are hidden, populations",
        "beside_sacro": "membership by predictions, beside SACRO-ML's attacks",
        "raw": "columns of numbers and categories as they are",
        "known_raw": "default forests on raw tables, with their seeds: what is settled and proved",
        "boosted": "boosted models with defaults: rows, classes and proofs from sums in leaves",
        "raw_boosted": "boosted models on raw columns, beside what the population alone gives",
        "claims": "people isolated by counts alone: none falsely, weights beside chance",
        "bound": "what no attack can exceed, beside what the best attack reaches",
        "verdicts": "audits of models of which it is known whether they leak",
        "usual": "usual settings on raw tables: audits that decide, no part unknown",
        "containers": "files of several models: what leaks inside is shown of the file",
        "joined": "two forests of one table in one file, beside each of them alone",
        "oob": "out-of-bag predictions as evidence: rows in leaves of trees that did not draw them",
        "folders": "rows beside a model in folders and archives: all found, none on clean ones",
        "ohdsi_bundles": "bundles of OHDSI: rows in order, patients in small leaves",
        "formats": "R, YDF, EBM, survival forests, dumps: what comes back, beside floors",
        "random_models": "random models over all settings of four libraries: no wrong proof",
        "reading_ease": "how easy the first pages are to read",
    }
)
"""What each of the modules in ``benchmarks`` measures."""


def find_study(name: str) -> Study:
    """Find a study.

    Raises
    ------
    BadInput
        If nothing is called so, with what is called most alike.
    """
    if name in STUDIES:
        return STUDIES[name]
    if name in BENCHMARKS:
        raise BadInput(
            f"{name} is a benchmark, which shows its tables when it runs: "
            f"`python -m experiments run {name}`"
        )
    near = difflib.get_close_matches(name, [*STUDIES, *BENCHMARKS], 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise BadInput(
        f"no study or benchmark is called {name!r}; {hint}"
        "`python -m experiments list` names them all"
    )


def find_benchmark(name: str) -> Callable[[Sequence[str]], int | None]:
    """Find what runs a benchmark, given its options."""
    main: Callable[[Sequence[str]], int | None] = import_module(
        f"experiments.benchmarks.{name}"
    ).main
    return main
