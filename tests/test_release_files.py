"""Reading model files: honest ones of every format alike, hostile ones never more than an error."""

import io
import json
import os
import pickle
import struct
import sys
import zipfile
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from helpers.documents import rewrite
from helpers.examples import spread
from treeleak.core.errors import BadModel, TreeleakError
from treeleak.release import StoredObject, read_model, to_release

MODELS = Path(__file__).parent / "models"
HONEST = MODELS / "1.9.1" / "all_rows.skops"


def refused(path, *words, **options):
    """The file is refused by an error that names it and says these words."""
    with pytest.raises(BadModel) as caught:
        to_release(path, **options)
    for word in (str(path), *words):
        assert word in str(caught.value)


# ------------------------------------------------------------------------------- no model at all


def test_a_missing_file_a_folder_and_an_empty_file(tmp_path):
    refused(tmp_path / "none.skops", "No such file")
    refused(tmp_path, "folder")
    empty = tmp_path / "empty.skops"
    empty.touch()
    refused(empty, "empty")


# --------------------------------------------------------------------------------- skops archives


def test_a_truncated_archive(tmp_path):
    whole = HONEST.read_bytes()
    path = tmp_path / "cut.skops"
    for end in np.linspace(4, len(whole) - 1, 40).astype(int):
        path.write_bytes(whole[:end])
        refused(path)


def in_nodes(**changes):
    """Change one field of one node of every tree."""

    def change(array):
        if array.dtype.names:
            for name, (node, value) in changes.items():
                array[name][node] = value
        return array

    return change


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"left_child": (0, 10**8)}, ["tree 0", "child index"]),
        ({"left_child": (0, -7)}, ["tree 0", "child index"]),
        ({"left_child": (1, 0)}, ["tree 0"]),
        ({"left_child": (1, 1)}, ["tree 0"]),
        ({"right_child": (0, -1)}, ["tree 0", "node 0", "one child"]),
        ({"feature": (0, 10**8)}, ["tree 0", "column 100000000"]),
        ({"feature": (0, -3)}, ["tree 0", "node 0"]),
        ({"threshold": (0, np.nan)}, ["tree 0", "node 0", "NaN"]),
        ({"threshold": (0, -np.inf)}, ["tree 0", "node 0", "-inf"]),
        ({"n_node_samples": (0, 31)}, ["tree 0", "node 0", "children"]),
        ({"n_node_samples": (0, -30)}, ["tree 0", "node 0", "negative"]),
        ({"weighted_n_node_samples": (2, np.nan)}, ["tree 0", "node 2", "finite"]),
        ({"weighted_n_node_samples": (2, -1.0)}, ["tree 0", "node 2", "negative"]),
    ],
)
def test_hostile_nodes_are_named(tmp_path, changes, words):
    path = rewrite(HONEST, tmp_path / "model.skops", arrays=in_nodes(**changes))
    refused(path, *words)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.nan, ["tree 0", "node 1", "finite"]),
        (np.inf, ["tree 0", "node 1", "finite"]),
        (-0.5, ["tree 0", "node 1", "negative"]),
        (0.123, ["tree 0", "node 1", "add up"]),
    ],
)
def test_hostile_counts_are_named(tmp_path, value, words):
    def change(array):
        if array.ndim == 3:
            array[1, 0, 0] = value
        return array

    refused(rewrite(HONEST, tmp_path / "model.skops", arrays=change), *words)


@pytest.mark.parametrize("root", [[0.5, 0.25, 0.25], [0.3, 0.4, 0.3]], ids=["fraction", "whole"])
def test_children_that_do_not_add_up_are_named(tmp_path, root):
    def change(array):
        if array.ndim == 3:
            array[0, 0, :] = root
        return array

    path = rewrite(HONEST, tmp_path / "model.skops", arrays=change)
    refused(path, "tree 0, node 0", "children's weight of a class")


def test_arrays_of_the_wrong_kind(tmp_path):
    for change in (
        lambda a: a[:0] if a.ndim == 3 else a,
        lambda a: a[:, 0] if a.ndim == 3 else a,
        lambda a: a.astype(complex) if a.ndim == 3 else a,
        lambda a: a[["feature", "threshold"]] if a.dtype.names else a,
        lambda a: a.astype([(n, "f8") for n in a.dtype.names]) if a.dtype.names else a,
        lambda a: a[:1] if a.dtype.names else a,
        lambda a: a.reshape(1, -1) if a.dtype.names else a,
    ):
        refused(rewrite(HONEST, tmp_path / "model.skops", arrays=change), "tree 0")


def npy(descr, shape, data=b""):
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    text = header.encode() + b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


@pytest.mark.parametrize(
    "data",
    [
        npy("<f8", (10**12,)),
        npy("<f8", (10**12, 10**12, 0)),
        npy("<f8", (-1,), b"12345678"),
        npy("|V0", (10**12,)),
        npy("|O", (1,), b"12345678"),
        npy("<f8", (2,), b"12345678"),
        npy("<f8", "oops"),
        npy("nothing", (1,)),
        b"\x93NUMPY\x09\x00" + b" " * 64,
        b"no array",
        b"",
    ],
)
def test_an_array_whose_header_lies_is_not_allocated(tmp_path, data):
    path = tmp_path / "model.skops"
    with zipfile.ZipFile(HONEST) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, data if name.endswith(".npy") else old.read(name))
    refused(path)


def test_a_zip_bomb_is_not_unpacked(tmp_path):
    path = tmp_path / "model.skops"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", "{}")
        archive.writestr("zeros.npy", bytes(200 << 20))
    refused(path, "unpacks to far more")


def test_a_member_that_understates_its_size_is_not_unpacked(tmp_path):
    path = tmp_path / "model.skops"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", b" " * (100 << 20))
    data = path.read_bytes().replace(struct.pack("<I", 100 << 20), struct.pack("<I", 1000))
    path.write_bytes(data)
    refused(path, "damaged archive")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressions_that_cannot_be_bounded_are_refused(tmp_path, method):
    refused(rewrite(HONEST, tmp_path / "m.skops", compression=method), "compression method")


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"a":' * 100_000, "[1]", "null", "{", '{"__loader__": 5}', "\xff\xfe", "{}"],
)
def test_a_schema_that_is_none(tmp_path, text):
    path = tmp_path / "model.skops"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("schema.json", text.encode("latin-1"))
    refused(path)


def test_a_deeply_nested_schema(tmp_path):
    node = {"__loader__": "JsonNode", "content": "1"}
    for _ in range(150):
        node = {"__loader__": "ListNode", "content": [node]}
    path = tmp_path / "model.skops"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("schema.json", json.dumps(node))
    refused(path, "nested deeper")


def json_node(value, **rest):
    return {"__loader__": "JsonNode", "content": json.dumps(value), **rest}


def archive_of(path, values, **members):
    """An archive of an object that holds these values as a list."""
    content = {"x": {"__loader__": "ListNode", "content": values}}
    schema = {
        "__loader__": "ObjectNode",
        "__module__": "sklearn.tree",
        "__class__": "DecisionTreeClassifier",
        "content": {"__loader__": "DictNode", "content": content},
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", json.dumps(schema))
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def doubled(kind, times, levels):
    """Values of which each holds the one before it several times."""
    at = [json_node([], __id__=0)]
    for level in range(levels):
        known = {"__loader__": "CachedNode", "__id__": level}
        at.append({"__loader__": kind, "content": [known] * times, "__id__": level + 1})
    return at


LARGE = npy("<f8", (1 << 18,), bytes(1 << 21))
ONE = {"__loader__": "NdArrayNode", "__class__": "ndarray", "type": "numpy", "file": "a"}


def test_one_member_named_twice_is_read_once(tmp_path):
    one, other = read_model(archive_of(tmp_path / "model.skops", [ONE] * 2, a=LARGE)).get("x")
    assert np.shares_memory(one, other)


def zipped(data):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.npy", data)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("values", "a"),
    [
        ([ONE] * 10_000, LARGE),
        ([{"__loader__": "BytesNode", "file": "a"}] * 10_000, LARGE),
        ([{"__loader__": "SparseMatrixNode", "file": "a"}] * 10_000, zipped(LARGE)),
        # a hash that visits 2**60 numbers
        (
            [
                *doubled("TupleNode", 2, 60),
                {"__loader__": "SetNode", "content": [{"__loader__": "CachedNode", "__id__": 60}]},
            ],
            b"",
        ),
        # an array of 100**8 numbers
        (
            [
                *doubled("ListNode", 100, 8),
                {
                    "__loader__": "NdArrayNode",
                    "type": "json",
                    "content": [{"__loader__": "CachedNode", "__id__": 8}],
                    "shape": json_node([1] * 9),
                },
            ],
            b"",
        ),
        (
            [
                json_node([0] * 100_000, __id__=1),
                *[{"__loader__": "CachedNode", "__id__": 1}] * 10_000,
            ],
            b"",
        ),
    ],
    ids=["array", "bytes", "sparse", "hash", "objects", "text"],
)
def test_what_a_few_bytes_stand_for_is_bounded(tmp_path, values, a):
    refused(archive_of(tmp_path / "model.skops", values, a=a), "far more than its own size")


@pytest.mark.slow
def test_a_nest_of_references_is_no_way_round_the_depth(tmp_path):
    """Nested this deep, the hash of a tuple ends the process."""
    values = doubled("TupleNode", 1, 100_000)
    values.append({"__loader__": "SetNode", "content": [{**values[-1]["content"][0]}]})
    refused(archive_of(tmp_path / "model.skops", values), "nested deeper")


def test_an_array_of_a_million_dimensions(tmp_path):
    node = {
        "__loader__": "NdArrayNode",
        "type": "json",
        "content": [json_node("a" * 100_000)],
        "shape": json_node([1] * 1_000_000),
    }
    refused(archive_of(tmp_path / "model.skops", [node]), "1000000 dimensions")


def test_an_honest_reference_is_the_value_it_names(tmp_path):
    again = {"__loader__": "CachedNode", "__id__": 1}
    values = [json_node([1, 2], __id__=1), again, {**again, "__id__": 2}]
    one, other, unknown = read_model(archive_of(tmp_path / "model.skops", values)).get("x")
    assert one is other
    assert "refers back" in unknown.why


def test_what_the_archive_names_is_not_imported(tmp_path):
    def change(schema):
        schema["__module__"] = "this"
        schema["__class__"] = "Zen"

    path = rewrite(HONEST, tmp_path / "model.skops", change)
    assert read_model(path).type == "this.Zen"
    assert "this" not in sys.modules


def test_an_unknown_loader_leaves_the_rest_readable(tmp_path):
    def change(schema):
        schema["content"]["content"]["estimator"] = {
            "__loader__": "FutureNode",
            "__module__": "a",
            "__class__": "B",
        }

    path = rewrite(HONEST, tmp_path / "model.skops", change)
    assert "FutureNode" in read_model(path).get("estimator").why
    assert len(to_release(path).trees) == 3


# --------------------------------------------------------------------------------- pickle, joblib


@pytest.fixture(scope="module")
def forest():
    X, y = make_classification(40, 6, random_state=1)
    return RandomForestClassifier(3, random_state=0).fit(X, np.array(["a", "b"])[y])


def test_a_pickle_is_refused_without_the_flag(tmp_path, forest):
    for name, write in (
        ("m.pkl", lambda p: p.write_bytes(pickle.dumps(forest))),
        ("m0.pkl", lambda p: p.write_bytes(pickle.dumps(forest, protocol=0))),
        ("m.joblib", lambda p: joblib.dump(forest, p)),
        ("m.joblib.gz", lambda p: joblib.dump(forest, p)),
    ):
        path = tmp_path / name
        write(path)
        refused(path, "can run any code", "--trust-pickle")


class Hostile:
    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


def test_a_hostile_pickle_runs_nothing_even_with_the_flag(tmp_path, forest):
    sign = tmp_path / "sign"
    path = tmp_path / "model.pkl"
    hostile = {
        "system_": Hostile(os.system, f"touch {sign}"),
        "exec_": Hostile(exec, f"open({str(sign)!r}, 'w')"),
        "eval_": Hostile(eval, f"open({str(sign)!r}, 'w')"),
        "open_": Hostile(open, str(sign), "w"),
        "touch_": Hostile(Path.touch, sign),
    }
    vars(forest).update(hostile)
    # A process reads each file: all in one take no longer than each alone.
    for protocol in (0, 2, 5):
        path.write_bytes(pickle.dumps(forest, protocol=protocol))
        stored = read_model(path, trust_pickle=True)
        assert all(isinstance(stored.get(name), StoredObject) for name in hostile)
        assert not sign.exists()
    for name in hostile:
        delattr(forest, name)
    assert len(to_release(path, trust_pickle=True).trees) == 3
    assert not sign.exists()


def opcodes(*parts):
    return b"\x80\x04" + b"".join(parts) + b"."


def name(module, attribute):
    return b"c" + module.encode() + b"\n" + attribute.encode() + b"\n"


def text(value):
    return b"\x8c" + bytes([len(value)]) + value.encode()


@pytest.mark.parametrize(
    "data",
    spread(
        [
            # state set on a name, on a list, on a number
            opcodes(name("builtins", "list"), b"}", text("a"), b"K\x01", b"sb"),
            opcodes(b"]}b"),
            opcodes(b"K\x01}b"),
            # a call of what is no name
            opcodes(text("os"), b")R"),
            opcodes(b"])\x81"),
            # the older ways to make an object
            b"(ios\nsystem\n.",
            opcodes(b"(", name("os", "system"), text("true"), b"o"),
            # extension codes
            opcodes(b"\x82\x01"),
            # lengths that lie
            opcodes(b"\x8e" + struct.pack("<Q", 1 << 60)),
            opcodes(b"\x96" + struct.pack("<Q", 1 << 60)),
            opcodes(b"B" + struct.pack("<I", 1 << 31)),
            # memory that was never filled
            opcodes(b"h\x07"),
            # no end, nothing on the stack
            b"\x80\x04]",
            b"\x80\x04.",
            b"\x80\x05" + b"(" * 100_000,
            # an array that does not fit, of a type that is none
            opcodes(
                name("numpy._core.multiarray", "_reconstruct"),
                name("numpy", "ndarray") + b"K\x00\x85C\x01b\x87R",
                b"(K\x01J\xff\xff\xff\x7f\x85",
                name("numpy", "dtype") + text("f8") + b"\x89\x88\x87R\x89C\x04abcdtb",
            ),
            opcodes(name("numpy", "dtype") + text("nope") + b"\x85R"),
            # compressed, and cut short
            b"\x78\x9c" + b"\x00" * 20,
            b"\x1f\x8b\x08\x00" + b"\x00" * 20,
        ],
        fast=5,
        each=True,
    ),
)
def test_a_malformed_pickle_is_an_error(tmp_path, data):
    path = tmp_path / "model.pkl"
    path.write_bytes(data)
    with pytest.raises(TreeleakError) as caught:
        to_release(path, trust_pickle=True)
    assert str(path) in str(caught.value)


@pytest.mark.slow
def test_a_pickle_that_grows_without_bound_is_stopped(tmp_path):
    grown = b"\x80\x04]q\x00" + b"".join(
        b"](" + (b"h" + bytes([i])) * 10 + b"eq" + bytes([i + 1]) for i in range(30)
    )
    path = tmp_path / "model.pkl"
    path.write_bytes(grown + b".")
    refused(path, "holds more than", trust_pickle=True)


def test_a_pickle_that_ends_its_reader_is_an_error(tmp_path):
    """Hashing a tuple nested this deep exhausts the stack of the process."""
    path = tmp_path / "model.pkl"
    path.write_bytes(opcodes(b"\x8f(", b")", b"\x85" * 300_000, b"\x90"))
    refused(path, "more time or memory than its size explains", trust_pickle=True)


def test_a_pickle_that_holds_itself(tmp_path, forest):
    forest.itself_ = forest
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps(forest))
    del forest.itself_
    assert len(to_release(path, trust_pickle=True).trees) == 3


def test_a_truncated_pickle(tmp_path, forest):
    path = tmp_path / "model.pkl"
    whole = pickle.dumps(forest)
    for end in (3, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        refused(path, "not a readable pickle", trust_pickle=True)
    joblib.dump(forest, path, compress=("zlib", 3))
    path.write_bytes(path.read_bytes()[:-40])
    refused(path, "not a readable pickle", trust_pickle=True)
