"""Which trees LightGBM left out for a time (dart), by the seed in its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treeleak.core.arrays import FloatArray
from treeleak.release.adapters.boosted import numbers
from treeleak.release.draws.boosters import lightgbm_fractions
from treeleak.release.ensemble import kept_shares

_SHOWN = 2e-5
"""How far the shares in a file may be off: they have six digits."""
_MOST = 3_000
"""Most trees, each of which looks at all before it."""


def dropped_trees(
    parameters: Mapping[str, str], raw: Sequence[Mapping[str, Any]], rate: float
) -> tuple[tuple[int, ...], ...] | None:
    """Say which earlier trees each tree was grown without, by the generator of the library.

    None where that is not known, or the trees were multiplied by other numbers.
    """
    try:
        seed = int(parameters["drop_seed"])
        drop_rate, skip, most = (
            float(parameters[k]) for k in ("drop_rate", "skip_drop", "max_drop")
        )
    except (KeyError, ValueError):
        return None
    uniform = parameters.get("uniform_drop", "0") == "1"
    if parameters.get("xgboost_dart_mode", "0") != "0" or not 0 < len(raw) <= _MOST:
        return None
    if not (0 <= seed < 2**31 and np.isfinite([drop_rate, skip, most]).all()):
        return None
    n = len(raw)
    draws = iter(lightgbm_fractions(seed, n * (n + 1)).tolist())
    weight, out = np.zeros(n), list[tuple[int, ...]]()
    for t in range(n):
        chosen = list[int]()
        if not next(draws) < skip:
            chance, mean = np.full(t, drop_rate), weight[:t].sum() / max(t, 1)
            if uniform and most > 0:
                chance = np.minimum(chance, most / max(t, 1))
            elif not uniform and t:
                least = min(drop_rate, most / mean / weight[:t].sum()) if most > 0 else drop_rate
                chance = least * weight[:t] / mean
            for i in range(t):
                if next(draws) < chance[i]:
                    chosen.append(i)
                    if 0 < most <= len(chosen):
                        break
        k = len(chosen)
        weight[chosen] *= k / (k + 1.0)
        weight[t] = rate / (1.0 + k)
        out.append(tuple(chosen))
    found = tuple(out)
    return found if _shown(raw, found, rate) else None


def _shown(raw: Sequence[Mapping[str, Any]], dropped: Sequence[Sequence[int]], rate: float) -> bool:
    """Whether the file says that trees were multiplied by what follows.

    The first one holds the start as well, and says nothing of the rate.
    """
    kept, due = kept_shares(dropped), np.ones(len(raw))
    due[1:] = [rate / (1.0 + len(chosen)) for chosen in dropped[1:]]
    stored: FloatArray = np.array(
        [numbers(fields, "shrinkage", 1, f"tree {t}")[0] for t, fields in enumerate(raw)]
        if all("shrinkage" in fields for fields in raw)
        else np.full(len(raw), np.nan)
    )
    grown = np.array([fields["num_leaves"][0] > 1 for fields in raw])
    return bool((np.abs(stored - due * kept) <= _SHOWN * due * kept)[grown].all())
