"""CityHash64, version 1.0: by which CatBoost knows texts of categories (up to 64 bytes here)."""

from __future__ import annotations

_ALL = 2**64 - 1
_K0, _K1, _K2, _K3 = (
    0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557,
)  # fmt: skip
_MULTIPLIER = 0x9DDFEA08EB382D69
MOST_BYTES = 64
"""Longer texts are not hashed."""


def category_hash(text: str) -> int | None:
    """Give the lower 32 bits of a text's hash, with a sign; None for a long text."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > MOST_BYTES:
        return None
    low = _hash64(data) % 2**32
    return low - 2**32 if low >= 2**31 else low


def _hash64(data: bytes) -> int:
    n = len(data)
    if n > 32:
        return _of_33_to_64(data, n)
    if n > 16:
        a, b = _word(data, 0) * _K1 & _ALL, _word(data, 8)
        c, d = _word(data, n - 8) * _K2 & _ALL, _word(data, n - 16) * _K0
        u = _rotated(a - b, 43) + _rotated(c, 30) + d
        return _of_two(u, a + _rotated(b ^ _K3, 20) - c + n)
    if n > 8:
        a, b = _word(data, 0), _word(data, n - 8)
        return _of_two(a, _rotated(b + n, n)) ^ b
    if n >= 4:
        return _of_two(n + (_word(data, 0, 4) << 3), _word(data, n - 4, 4))
    if n:
        y, z = data[0] + (data[n >> 1] << 8), n + (data[-1] << 2)
        return _mixed((y * _K2 ^ z * _K3) & _ALL) * _K2 & _ALL
    return _K2


def _of_33_to_64(data: bytes, n: int) -> int:
    first = _of_half(data, 0, (n + _word(data, n - 16)) * _K0, 24)
    second = _of_half(data, n - 32, _word(data, 16), n - 8)
    r = _mixed(((first[0] + second[1]) * _K2 + (second[0] + first[1]) * _K0) & _ALL)
    return _mixed((r * _K0 + first[1]) & _ALL) * _K2 & _ALL


def _of_half(data: bytes, at: int, more: int, end: int) -> tuple[int, int]:
    """Mix four words."""
    z, a = _word(data, end), _word(data, at) + more
    b, c = _rotated(a + z, 52), _rotated(a, 37)
    a += _word(data, at + 8)
    c += _rotated(a, 7)
    a += _word(data, at + 16)
    return a + z, b + _rotated(a, 31) + c


def _word(data: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _rotated(x: int, by: int) -> int:
    x &= _ALL
    return x >> by | x << (64 - by) & _ALL


def _mixed(x: int) -> int:
    return x ^ x >> 47


def _of_two(u: int, v: int) -> int:
    a = _mixed((u ^ v) * _MULTIPLIER & _ALL)
    b = _mixed((v ^ a) * _MULTIPLIER & _ALL)
    return b * _MULTIPLIER & _ALL
