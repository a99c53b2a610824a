"""Objects of R are read whole, whatever packs them, and damaged ones are refused."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest

from treeleak.core.errors import BadModel
from treeleak.release.readers import packed
from treeleak.release.readers.r_serialized import read_r_value
from treeleak.release.readers.r_values import names_of, value_of
from treeleak.release.registry import read_model
from treeleak.release.stored import Opaque, StoredObject, objects_in

FILES = Path(__file__).parent / "models" / "r"
NIL = struct.pack(">i", 254)


def values(name: str = "values") -> dict:
    return read_model(FILES / f"object_{name}.rds").get("value")


def header(version: int = 2) -> bytes:
    return b"X\n" + struct.pack(">iii", version, 0x040202, 0x020300)


def ints(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}i", *numbers)


def real(*numbers: float) -> bytes:
    return ints(14, len(numbers)) + struct.pack(f">{len(numbers)}d", *numbers)


@pytest.mark.parametrize("name", ["values", "values_v2", "values_plain", "values_little"])
def test_values_of_all_kinds_are_read_from_every_form_of_file(name):
    held = values(name)
    assert held["nothing"] is None
    assert held["flags"].dtype == bool
    np.testing.assert_array_equal(held["gaps"], [1.0, np.nan])
    np.testing.assert_array_equal(held["whole"], [1, -5])
    np.testing.assert_array_equal(held["whole_gaps"], [1.0, np.nan])
    np.testing.assert_array_equal(held["real"], [0.1, np.nan, np.nan, -np.inf])
    assert held["complex"].tolist() == [3 + 2j]
    assert held["raw"] == b"\1\2\3"
    assert held["texts"].tolist() == ["a", None, "é"]
    assert held["latin"].tolist() == ["é"]
    assert held["sequence"].tolist() == list(range(1, 1001))
    assert held["backwards"].tolist() == [5, 4, 3, 2, 1]
    assert held["real_sequence"].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert held["digits"].tolist() == [str(k) for k in range(1, 21)]
    assert held["sorted"].tolist() == [1.0, 2.0, 3.0]
    assert held["matrix"].tolist() == [[1, 3, 5], [2, 4, 6]]
    assert held["dim"][1, 2, 3] == 24
    factor = held["factor"]
    assert (factor.type, factor.get("codes").tolist()) == ("R.factor", [2, 0, 1])
    assert factor.get("levels").tolist() == ["a", "b"]
    assert held["date"].get("value").tolist() == [18293.0]
    frame = held["frame"]
    assert (frame.type, frame.get("row.names")) == ("R.data.frame", 2)
    assert frame.get("u").tolist() == [1.5, 2.5]
    assert held["named_rows"].get("row.names").tolist() == ["r1", "r2"]
    assert value_of(held["partly"]).tolist() == [1.0, 2.0]
    assert names_of(held["partly"]) == ["a", ""]
    assert names_of(held["same"]) == ["a", "a"]
    assert len(value_of(held["list_partly"])) == 2
    assert held["pairs"].keys() == {"a", "b"}
    classed = held["classed"]
    assert (classed.type, classed.get("class")) == ("R.one", ("one", "two"))
    assert classed.get("[[2]]").tolist() == [2.0]


def test_code_environments_and_s4_are_read_as_data():
    held = values()
    call = held["call"]
    assert call.get("function").get("name") == "f"
    (_, x), (tag, k) = call.get("arguments")
    assert (x.get("name"), tag, k.tolist()) == ("x", "k", [2.0])
    loop = held["loop"]
    assert loop.get("values")["self"] is loop is held["again"]
    assert held["closure"].get("environment").get("enclosing") is loop
    assert held["closure"].get("formals").keys() == {"q", "w"}
    assert held["formula"].get(".Environment") is loop
    body = held["code"].get("body")
    assert isinstance(body, Opaque)
    assert body.content[1][0][1].get("name") == "{"
    assert held["namespace"].why == "the namespace stats, 4.2.2"
    assert held["builtin"].get("name") == "sum"
    s4 = held["s4"]
    assert (s4.type, s4.get("a").tolist()) == ("R.Kept", [1.0])
    assert len({id(stored) for stored in objects_in(StoredObject("R.list", held))}) > 30


def _numbers(value, found: list[float]) -> list[float]:
    for stored in objects_in(StoredObject("all", {"value": value})):
        for inner in stored.state.values():
            parts = inner if isinstance(inner, list) else [inner]
            parts = list(inner.values()) if isinstance(inner, dict) else parts
            found += [
                float(v)
                for part in parts
                if isinstance(part, np.ndarray) and part.dtype == np.float64
                for v in part.ravel()
                if v == v
            ]
    return found


@pytest.mark.parametrize("name", ["lm.rds", "clean_tree.rds", "workspace.RData"])
def test_another_reader_finds_the_same_numbers(name):
    rdata = pytest.importorskip("rdata", reason="needs rdata")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parsed = rdata.parser.parse_file(FILES / f"object_{name}")
    theirs: list[float] = []
    waiting, seen = [parsed.object], set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            theirs += [float(v) for v in one if one.dtype == np.float64 and v == v]
        elif isinstance(one, (list, tuple)):
            waiting += one
        elif one is not None and hasattr(one, "__dict__"):
            waiting += vars(one).values()
    ours = _numbers(read_model(FILES / f"object_{name}"), [])
    assert set(ours) <= set(theirs)
    assert len(ours) > 10


def test_text_and_nothing_are_refused_with_what_to_do(tmp_path):
    with pytest.raises(BadModel, match=r"written as text: .*saveRDS\(x"):
        read_model(FILES / "object_text.rds")
    with pytest.raises(BadModel, match="NULL"):
        read_r_file(tmp_path, header() + NIL)
    with pytest.raises(BadModel, match="only another program knows"):
        read_r_file(tmp_path, header() + ints(247, 0, 0))


def read_r_file(folder: Path, data: bytes) -> StoredObject:
    path = folder / "x.rds"
    path.write_bytes(data)
    return read_model(path)


def test_what_stands_beside_the_object_is_left_over(tmp_path):
    whole = header() + real(1.0)
    assert read_r_file(tmp_path, whole).leftovers == ()
    (left,) = read_r_file(tmp_path, whole + b"12,34").leftovers
    assert left.content == b"12,34"
    packed = gzip.compress(whole)
    (left,) = read_r_file(tmp_path, packed + b"behind").leftovers
    assert left.content == b"behind"
    commented = packed[:3] + b"\x10" + packed[4:10] + b"a comment\0" + packed[10:]
    (left,) = read_r_file(tmp_path, commented).leftovers
    assert left.content == b"a comment"
    for pack in (bz2.compress, lzma.compress):
        assert read_r_file(tmp_path, pack(whole)).get("value").tolist() == [1.0]
        assert read_r_file(tmp_path, pack(whole) + b"x").leftovers
    odd = b"X\n" + ints(3, 0x040202, 0x030500, 4) + b"idna" + real(1.0)
    (left,) = read_r_file(tmp_path, odd).leftovers
    assert left.content == {"encoding": "idna"}
    odd = b"X\n" + ints(2, 123456789, 0x020300) + real(1.0)
    assert read_r_file(tmp_path, odd).leftovers


def test_bits_of_missing_numbers_stay_if_r_does_not_write_them():
    data = (
        header() + ints(14, 3) + bytes.fromhex("7ff00000000007a27ff80000000000007ff8000000abcdef")
    )
    (array,) = [read_r_value(data)[0]]
    bits = array.view(np.uint64)
    assert bits[0] == bits[1] == 0x7FF8000000000000
    assert bits[2] == 0x7FF8000000ABCDEF


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (ints(14, 2**31 - 1), "a length of 2,147,483,647"),
        (ints(14, -1, 2**30, 0), "a length"),
        (ints(14, -2), "a length of -2"),
        (ints(19, 1000), "a length of 1,000"),
        (ints(16, 2, 9, 5) + b"abcde", "bytes expected|a length"),
        (ints(16, 1, 13, 0), "no text"),
        (ints(255 | 7 << 8), "reference"),
        (ints(238) + ints(2, 1, 9, 15) + b"compact_intseq\0" + NIL, "."),
        (ints(99), "kind 99"),
        (ints(13 | 1 << 30, 0), "flags"),
        (ints(254 | 1 << 12), "flags"),
        (ints(4, 0) + NIL + NIL + ints(13, 0), "table of variables"),
        (ints(13 | 1 << 9, 2, 1, 2, 1026, 1, 9, 3) + b"dim" + ints(13, 1, 3, 254), "dimensions"),
        (ints(21, 1, 13, 1, 0, 1, 243, 0), "refers to nothing"),
        (ints(1, 9, 1) + b"a" + b"more", "^$"),
    ],
)  # fmt: skip
def test_hostile_sizes_and_references_are_refused(data, why):
    if why == "^$":
        assert read_r_value(header() + data)[1]
        return
    with pytest.raises(BadModel, match=why):
        read_r_value(header() + data)


def test_lists_in_lists_are_bounded_and_cost_no_stack():
    deep = ints(19, 1) * 2900 + NIL
    value, _ = read_r_value(header() + deep)
    for _ in range(2900):
        (value,) = value
    assert value is None
    with pytest.raises(BadModel, match="nested deeper"):
        read_r_value(header() + ints(19, 1) * 4000 + NIL)
    # Each list announces all bytes that are left.
    n = 1 << 20
    announced = b"".join(ints(19, (4 * n - 8 * k) // 4 - 2) for k in range(2000))
    with pytest.raises(BadModel):
        read_r_value(header() + announced + b"\0" * (4 * n))


def test_short_forms_are_bounded():
    def sequence(n: float, step: float = 1.0) -> bytes:
        info = ints(2, 1, 9, 14) + b"compact_intseq" + ints(2, 1, 9, 4) + b"base"
        return ints(238) + info + ints(2, 13, 1, 13, 254) + real(n, 1.0, step) + NIL

    assert read_r_value(header(3)[:2] + ints(2, 0x040202, 0x030500) + sequence(3))[0].tolist() == [
        1, 2, 3,
    ]  # fmt: skip
    for n, step in ((1e12, 1.0), (3.5, 1.0), (3.0, 2.0), (float("nan"), 1.0)):
        with pytest.raises(BadModel):
            read_r_value(header() + sequence(n, step))


def sym(name: str) -> bytes:
    return ints(1, 9, len(name)) + name.encode()


def short(name: str, state: bytes, attributes: bytes = NIL, info: bytes = b"", kind=14) -> bytes:
    """Write a short form of a vector: its name, its state and its attributes."""
    head = b"".join(ints(2) + part for part in (sym(name), sym("base"), ints(13, 1, kind)))
    return ints(238) + head + info + NIL + state + attributes


def tagged(value: bytes, attributes: bytes = b"") -> bytes:
    """Write a list of one pair that ends; attributes stand before its tag."""
    return ints(2 | 1 << 10 | bool(attributes) << 9) + attributes + sym("u") + value + NIL


HIDDEN = real(51.25)
HIDING = tagged(real(2.0), tagged(HIDDEN))
GAP = bytes.fromhex("7ff8000000abcdef")
LEVELS = ints(2 | 1 << 10) + sym("class") + ints(16, 1, 9, 6) + b"factor" + NIL
SHORT = {
    "meta": short("wrap_real", ints(2) + real(1.0) + HIDDEN),
    "meta_range": short("wrap_real", ints(2) + real(1.0) + ints(13, 2, 1, 51)),
    "inner": short(
        "wrap_real", ints(2, 14 | 1 << 9, 1, 0, 0) + tagged(HIDDEN) + ints(13, 2, 1, 1),
        tagged(real(1.0)),
    ),
    "info": short("wrap_real", ints(2) + real(1.0) + ints(13, 2, 1, 1), info=ints(2) + HIDDEN),
    "info_kind": short("compact_intseq", real(3.0, 1.0, 1.0), kind=51),
    "deferred": short("deferred_string", ints(2) + real(1.0) + ints(2) + HIDDEN + NIL, kind=16),
    "deferred_attributes": short("deferred_string", HIDING, kind=16),
    "deferred_first": short(
        "deferred_string",
        ints(2, 14 | 1 << 9, 1, 0, 0) + tagged(HIDDEN) + ints(13, 1, 0), kind=16,
    ),
    "deferred_gap": short(
        "deferred_string", ints(2, 14, 1) + GAP + ints(13, 1, 0), kind=16
    ),
    "deferred_tag": short(
        "deferred_string", ints(1026) + sym("51.25") + real(1.0) + ints(13, 1, 0), kind=16
    ),
    "sequence": short(
        "compact_intseq", ints(2) + real(3.0, 1.0, 1.0) + ints(2) + HIDDEN + NIL, kind=13
    ),
    "attributes": ints(14 | 1 << 9, 1, 0, 0) + HIDING,
    "variables": ints(4, 0) + NIL + HIDING + NIL + NIL,
    "table": ints(4, 0) + NIL + NIL + ints(19, 1) + HIDING + NIL,
    "bits": ints(13 | 51 << 12, 1, 1),
    "bits_of_s4": ints(13 | 1 << 16, 1, 1),
    "bits_of_text": ints(16, 1, 9 | 51 << 12, 1) + b"a",
    "codes": ints(14 | 3 << 8, 1) + struct.pack(">d", 7.51) + LEVELS,
    "codes_gap": ints(14 | 3 << 8, 1) + GAP + LEVELS,
}  # fmt: skip


@pytest.mark.parametrize("form", SHORT)
def test_nothing_is_lost_beside_what_r_writes(form):
    try:
        value, _ = read_r_value(header() + SHORT[form])
    except BadModel:
        return
    shown = _shown(value)
    assert "51" in shown or "abcdef" in shown


def _shown(value) -> str:
    """Write out what a value holds, and the bits of its numbers."""
    if isinstance(value, Opaque):
        value = value.content
    if isinstance(value, StoredObject):
        value = value.state
    if isinstance(value, dict):
        value = list(value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(map(_shown, value))
    if isinstance(value, np.ndarray) and value.dtype == float:
        return f"{value.tolist()} {value.astype('>f8').tobytes().hex()}"
    return str(value)


def test_a_workspace_whose_list_has_attributes_is_refused():
    with pytest.raises(BadModel, match="a list with attributes"):
        read_r_value(b"RDX2\n" + header() + HIDING)


def test_what_unpacks_to_too_much_is_not_unpacked(tmp_path, instead):
    instead("MOST_R_BYTES", 1 << 20, packed)
    data = header() + ints(24, 1 << 22) + b"\0" * (1 << 22)
    for pack in (gzip.compress, bz2.compress, lzma.compress, bytes):
        with pytest.raises(BadModel, match="more than"):
            read_r_file(tmp_path, pack(data))


def test_other_packed_files_go_to_their_readers(tmp_path):
    with pytest.raises(BadModel, match="pickle"):
        read_r_file(tmp_path, gzip.compress(b"\x80\x04]."))
    with pytest.raises(BadModel, match="cut short"):
        read_r_file(tmp_path, gzip.compress(header() + real(*range(900)))[:-300])
