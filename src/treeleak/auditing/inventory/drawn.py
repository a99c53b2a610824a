"""Whether numbers can be what a name says of them: drawn at random, or plain numbers at all."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.auditing.inventory.owners import numbers_in
from treeleak.release.stored import StoredObject

CHANCE = 1e-6
"""Draws that are refused although they follow their law."""
_RANDOM = 0.95
"""Random bytes do not get shorter at all; a table within them does."""
_LAWS: Mapping[str, str] = {
    "GaussianRandomProjection": "norm",
    "RBFSampler": "norm",
    "SkewedChi2Sampler": "hypsecant",
}
"""By class: the law of its matrix, but for the scale."""
_QUIET = {2: 0x7E00, 4: 0x7FC00000, 8: 0x7FF8000000000000}
"""How processors write "not a number", by bytes; the sign aside."""


def is_drawn(owner: StoredObject) -> bool:
    """Say whether objects of this class hold numbers that were drawn without looking at rows."""
    return owner.name in _LAWS


def follows_law(value: Any, owner: StoredObject) -> bool:
    """Say whether numbers can have been drawn from the law of their class, each by itself."""
    from scipy.stats import kstest  # Takes long to load.

    array = numbers_in(value)
    if array is None or array.ndim not in (1, 2) or len(np.unique(array)) < array.size:
        return False
    flat = array.ravel().astype(float)
    if array.ndim == 1:
        return bool(kstest(flat / (2 * np.pi), "uniform").pvalue >= CHANCE)
    # The logistic-like law has the deviation pi / 2.
    scale = (np.pi / 2 if _LAWS[owner.name] == "hypsecant" else 1.0) / max(flat.std(), 1e-300)
    return bool(kstest(flat * scale, _LAWS[owner.name]).pvalue >= CHANCE)


def is_random(key: NDArray[Any]) -> bool:
    """Say whether the state of a generator looks random, as it is after any seed."""
    raw = np.ascontiguousarray(key).tobytes()
    return len(raw) < 64 or len(zlib.compress(raw, 9)) >= _RANDOM * len(raw)


def hides_bits(value: Any) -> bool:
    """Say whether numbers hold bits that no arithmetic sees.

    These are the payloads of "not a number", and bytes that pad long numbers.
    """
    if not isinstance(value, (np.ndarray, np.floating)):
        return False
    array = np.asarray(value)
    if array.dtype.kind not in "fc":
        return False
    size = array.dtype.itemsize // (2 if array.dtype.kind == "c" else 1)
    if size not in _QUIET:
        return True
    flat = np.ascontiguousarray(array).ravel().view(f"f{size}")
    bits = flat[np.isnan(flat)].view(f"u{size}")
    return bool(((bits & np.array((1 << (8 * size - 1)) - 1, bits.dtype)) != _QUIET[size]).any())
