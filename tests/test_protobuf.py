"""The walker of Protocol Buffers: what it reads, and what it refuses."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.protobuf import field, varint
from treeleak.core.errors import BadModel
from treeleak.release.readers.protobuf import Messages, tables_of

TABLES = tables_of(
    """
Outer: 1 number i, 2 name s, 3 inner Inner*, 4 shares f*, 5 ids i*, 6 raw y
Inner: 1 value d
"""
)


def read(data: bytes) -> tuple[dict, Messages]:
    messages = Messages("toy", TABLES)
    return messages.read("Outer", data, "the file"), messages


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.lists(st.floats(width=32, allow_nan=False)))
def test_numbers_are_the_same_packed_and_one_by_one(ids, shares):
    apart = b"".join([field(5, n) for n in ids] + [field(4, x) for x in shares])
    packed = field(5, b"".join(varint(n % 2**64) for n in ids))
    packed += field(4, struct.pack(f"<{len(shares)}f", *shares))
    for data in (apart, packed):
        found, _ = read(data)
        assert (found.get("ids", []), found.get("shares", [])) == (ids, shares)


def test_a_table_names_fields_and_what_it_does_not_know_is_left_over():
    inner = varint(1 << 3 | 1) + struct.pack("<d", 0.5) + field(9, b"planted")
    data = field(1, -1) + field(2, "é".encode()) + field(3, inner) + field(3, b"")
    found, messages = read(data + field(6, b"\0\xff"))
    assert [one.state for one in found.pop("inner")] == [{"value": 0.5}, {}]
    assert found == {"number": -1, "name": "é", "raw": b"\0\xff"}
    (left,) = messages.leftovers
    assert b"planted" in b"".join(left.content)


@pytest.mark.parametrize(
    "data",
    [
        b"\x08",
        b"\x08\xff",
        b"\x08\x80\x00",  # 0, in two bytes
        b"\x08" + b"\xff" * 9 + b"\x02",  # more than 64 bits
        b"\x12\xff\xff\xff\xff\x0f",  # a length beyond the end
        b"\x0d123",
        b"\x0b\x0c",  # a group
        field(1, 1) + field(1, 2),
        field(1, b"ab"),
        field(2, 1),
        field(4, b"123"),
        field(4, 1),
        field(5, b"\x80"),
        field(5, b"\x80\x00"),
        field(3, field(1, b"")),
        field(6, 1.5),
    ],
)
def test_what_no_program_writes_is_refused(data):
    with pytest.raises(BadModel):
        read(data)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data):
    with contextlib.suppress(BadModel):
        read(data)
