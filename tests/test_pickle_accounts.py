"""Every byte of a pickle stands in what was read, or is left over."""

import io
import pickle
import pickletools
import struct

import cloudpickle
import joblib
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

from treeleak.release import read_model
from treeleak.release.readers.unpickling.unpickler import Ledger, Source, Unpickler

ROWS = np.random.default_rng(0).normal(size=(40, 3))
TREE = DecisionTreeClassifier(max_depth=2).fit(ROWS, ROWS[:, 0] > 0)


def left_over(content):
    """List what is left over, or why the file is refused; run in this process."""
    ledger = Ledger()
    source = Source(io.BytesIO(content))
    try:
        ledger.take(Unpickler(source, ledger).load())
    except Exception as error:
        # Whatever a hostile file provokes, it is refused.
        return [error]
    return ledger.left()


JUNK = {
    "text": b"X\x05\x00\x00\x00hello0", "number": b"K\x070", "truth value": b"\x880",
    "None": b"N0", "empty list": b"]0", "empty tuple": b")0", "mark": b"(1", "marked": b"(K\x011",
    "name": b"cmodule\nname\n0", "copy": b"20", "protocol": b"\x80\x03",
    "frame": b"\x95" + struct.pack("<Q", 3), "remembered again": b"h\x000",
    "place": b"r\x01\x02\x03\x04", "persistent": b"Phello\n0", "extension": b"\x82\x070",
    "call": b"cbuiltins\nset\n(]K\x01aK\x02atR0", "float": b"G" + bytes(8) + b"0",
    "old instance": b"(K\x05imodule\nname\n0",
    "type": b"cnumpy\ndtype\n(X\x02\x00\x00\x00f8\x89\x88tR0",
}  # fmt: skip


@pytest.mark.parametrize("name", JUNK)
@pytest.mark.parametrize("protocol", [2, 4])
def test_nothing_can_be_put_between_two_opcodes(name, protocol):
    content = pickle.dumps(TREE, protocol)
    assert left_over(content) == []
    places = [at for _, _, at in pickletools.genops(content)][2:]
    for at in places[:: len(places) // 5]:
        changed = content[:at] + JUNK[name] + content[at:]
        if protocol == 4:  # so that the frame fits
            changed = changed[:3] + struct.pack("<Q", len(changed) - 11) + changed[11:]
        assert left_over(changed), (at, name)


OTHER_WORDING = {
    "number": (b"K\x02", b"M\x02\x00"), "wide number": (b"K\x02", b"J\x02\x00\x00\x00"),
    "long number": (b"K\x02", b"\x8a\x03\x02\x00\x00"), "digits": (b"K\x02", b"I0_0_2\n"),
    "text": (b"X\x04\x00\x00\x00gini", b"Vgin\\u0069\n"),
    "decimals": (b"G\x00\x00\x00\x00\x00\x00\x00\x00", b"F0.00000000000000000000\n"),
    "not a number": (b"G\x00\x00\x00\x00\x00\x00\x00\x00", b"G\x7f\xf8\x00rows\x01"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_WORDING)
def test_a_value_is_written_as_picklers_write_it(name):
    usual, other = OTHER_WORDING[name]
    content = pickle.dumps(TREE, 2)
    assert usual in content
    assert left_over(content.replace(usual, other, 1))


def joblib_file(tmp_path, model=TREE, **more):
    path = tmp_path / "model.joblib"
    joblib.dump(model, path, **more)
    return path.read_bytes()


def test_the_fields_of_joblib_hold_nothing_else(tmp_path):
    content = joblib_file(tmp_path, protocol=3)
    assert left_over(content) == []
    wrapper = content.index(b"numpy_array_alignment_bytes") + 27
    more = b"X\x04\x00\x00\x00rowsX\x03\x00\x00\x00abc"
    at = content.index(b"u", wrapper)
    assert left_over(content[:at] + more + content[at:])
    padding = content.index(b"\xff" * 3, at)
    assert left_over(content[:padding] + b"row" + content[padding + 3 :])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"K\x03X\x01\x00\x00\x00<", b"K\x07X\x01\x00\x00\x00<"),
        (b"K\x00t", b"K\x7ft"),
        (b"X\x02\x00\x00\x00f8", b"X\x03\x00\x00\x00 f8"),
    ],
    ids=["version", "flags", "code"],
)
def test_the_state_of_a_type_holds_nothing_else(old, new):
    content = pickle.dumps(np.array([1.5, 2.5]), 3)
    assert left_over(content) == []
    assert left_over(content.replace(old, new, 1))


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_ordinary_values_of_all_types_leave_nothing_over(protocol):
    numbers = np.zeros((3, 4))
    values = [
        np.array(["2020-01-01"], "M8[ns]"), {1, 2}, frozenset([3]), 1j, 2**80, -(2**70), 70_000,
        b"x" * 300, bytearray(b"abc"), np.asfortranarray(numbers), np.ma.array([1, 2], mask=[0, 1]),
        np.zeros(3, [("a", "i4"), ("b", "f8")]), np.zeros(3, np.dtype("i1,f8", align=True)),
        np.array(["ab", None], dtype=object), np.zeros(3, ">f8"), np.zeros(2, [("x", "f4", (2,))]),
        list(range(1500)), {str(i): i for i in range(1500)}, "é" * 70_000 + "\\\n\x00",
        np.random.default_rng(3), np.random.RandomState(1), np.float32("nan"), float("nan"), (),
        np.zeros(20_000), np.dtype("f4"), [[], {}, set(), (1,), (1, 2, 3, 4)], True,
    ]  # fmt: skip
    assert left_over(pickle.dumps(values, protocol)) == []


@pytest.mark.parametrize("how", [("zlib", 3), ("gzip", 3), ("bz2", 3), ("xz", 3), ("lzma", 3), 0])
def test_honest_joblib_files_leave_nothing_over(how, tmp_path):
    forest = RandomForestClassifier(3).fit(ROWS, ROWS[:, 0] > 0)
    path = tmp_path / ("model.pkl.gz" if how == ("gzip", 3) else "model.pkl")
    joblib.dump(forest, path, compress=how)
    assert read_model(path, trust_pickle=True).leftovers == ()


def test_a_pipeline_from_cloudpickle_leaves_nothing_over(tmp_path):
    model = make_pipeline(FunctionTransformer(np.abs), TREE)
    path = tmp_path / "model.pkl"
    path.write_bytes(cloudpickle.dumps(model))
    assert read_model(path, trust_pickle=True).leftovers == ()
