"""What the JSON of explainable boosting machines holds beside what predictions need.

A model predicts by its bins, the scores of its terms and its intercept. interpret's own reader
looks for every other list as well, so zeros, and its word for no number, take their place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treeleak.hardening.files.document import (
    NOTHING,
    Digits,
    Document,
    Step,
    few_digits,
    read_document,
    step,
    zero,
)
from treeleak.release.readers.ebm_json import KEYS, is_ebm


def is_ebm_text(head: bytes) -> bool:
    """Say whether a file begins as such a model does."""
    return re.match(rb'\s*\{\s*("version"\s*:\s*"1\.0"\s*,\s*)?"ebm"\s*:', head) is not None


def read_json_file(path: Path) -> Document:
    """Read a model in JSON."""
    return read_document(path, is_ebm, "explainable boosting machine")


def _zeros(value: Any) -> Any:
    """Put zeros in place of numbers, in lists of any depth."""
    if isinstance(value, list):
        new = [_zeros(item) for item in value]
        return new if any(a is not b for a, b in zip(new, value, strict=True)) else value
    done = isinstance(value, Digits) and float(value) == 0
    return value if done else zero(value) if isinstance(value, Digits) else Digits("0E0")


def _no_number(value: Any) -> Any:
    return value if value == "nan" and not isinstance(value, Digits) else "nan"


def _none(value: Any) -> Any:  # noqa: ARG001
    return None


def _known(value: Any, level: str = "") -> Any:
    """Keep the keys that interpret writes."""
    value = value if level else few_digits(value)
    if isinstance(value, list):
        items = [_known(item, level) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    if not isinstance(value, Mapping):
        return value
    new = {key: item for key, item in value.items() if key in KEYS[level]}
    new |= {key: _known(item, key) for key, item in new.items() if key in KEYS}
    same = len(new) == len(value) and all(new[key] is value[key] for key in new)
    return value if same else new


STEPS: tuple[Step, ...] = (
    step("counts", "numbers of rows in each bin of each term, and in histograms",
         "importance and pictures of terms; merging models",
         ("ebm/terms/*/bin_weights", _zeros), ("ebm/features/*/histogram_weights", _zeros)),
    step("ranges", "least and greatest value of columns and target, numbers of different values",
         "the ends of pictures",
         *((f"ebm/features/*/{end}", _no_number) for end in ("min", "max")),
         *((f"ebm/outputs/*/{end}_target", _no_number) for end in ("min", "max")),
         ("ebm/features/*/num_unique_vals", _zeros)),
    step("bags", "scores of each bag, and how far they differ", "error bars; merging models",
         *((f"ebm/terms/*/{k}", _zeros) for k in ("bagged_scores", "standard_deviations")),
         *((f"ebm/{k}", _zeros) for k in ("bagged_intercept", "bag_weights", "best_iteration"))),
    step("seeds", "the seed of the training", "training the same model again",
         ("ebm/implementation_params/random_state", _none)),
    step("unknown", "keys that interpret does not write", NOTHING, ("", _known)),
)  # fmt: skip
