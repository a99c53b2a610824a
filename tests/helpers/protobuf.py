"""Fields of Protocol Buffers, as files have them."""

from __future__ import annotations

import struct


def varint(n: int) -> bytes:
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number: int, value: int | float | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value % 2**64)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3 | 2) + varint(len(value)) + value
