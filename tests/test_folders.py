"""Folders, archives and what is put around models: what is read, what is found, what is refused."""

import bz2
import dataclasses
import gzip
import io
import json
import os
import pickle
import shutil
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.tree._tree import Tree

import treeleak
from experiments.benchmarks.folders import (
    CLEAN,
    PLANTED,
    a_model,
    inventories_of,
    inventory_of,
    mlflow,
)
from experiments.benchmarks.ohdsi_bundles import patients, write_bundle
from helpers.cli import run
from helpers.examples import spread
from helpers.patient import AMPLE
from treeleak.core.errors import BadInput, BadModel, NotCovered
from treeleak.hardening import harden_folder
from treeleak.release import read_model, to_release
from treeleak.release.containers import members
from treeleak.release.containers.bundle import frame_of, mlmodel, packages
from treeleak.release.containers.source import open_source
from treeleak.release.stored import StoredObject

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

MODEL, TABLE, Y = a_model()


@pytest.fixture
def folder(tmp_path):
    """An MLflow folder, with nothing that it need not hold."""
    mlflow(tmp_path / "model", MODEL)
    return tmp_path / "model"


@pytest.fixture
def small_folder(tmp_path):
    """One whose model takes no time to attack."""
    mlflow(tmp_path / "model", DecisionTreeClassifier(max_depth=1).fit(TABLE, Y))
    return tmp_path / "model"


# ------------------------------------------------------------------------------- rows beside


@pytest.mark.parametrize("name", spread(PLANTED, fast=8, each=True))
def test_planted_rows_are_found_with_the_rows_or_without(tmp_path, name):
    source = PLANTED[name](tmp_path / "source", MODEL, TABLE) or tmp_path / "source"
    assert [seen.stored for seen in inventories_of(source, (TABLE, None))] == [True, True]


@pytest.mark.parametrize("name", spread(CLEAN, fast=8, each=True))
def test_on_a_clean_folder_no_rows_are_found_and_files_of_programs_are_known(tmp_path, name):
    source = CLEAN[name](tmp_path / "source", MODEL, TABLE) or tmp_path / "source"
    with_rows, without = inventories_of(source, (TABLE, None))
    assert not with_rows.stored
    assert not without.stored
    if name in ("MLflow", "AutoGluon", "dict", "list", "importances"):
        assert not without.unknown


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "numpy==2.1\n17.5 23.1 0.4\n"),
        ("requirements.txt", "numpy==2.1 # 17 23 4\n"),
        ("requirements.txt", "".join(f"a{k}==1.{k}\n" for k in range(200))),
        ("MLmodel", "flavors:\n  sklearn: [17.5, 23.1]\n"),
        ("MLmodel", 'signature:\n  inputs: \'[{"type": "double", "rows": [1, 2]}]\'\n'),
        ("conda.yaml", "name: a b c d\n"),
    ],
)
def test_a_description_with_more_in_it_is_none(folder, name, text):
    assert not (packages if name != "MLmodel" else mlmodel)(text)
    (folder / name).write_text(text)
    assert inventory_of(folder, None).unknown


def test_scalars_by_the_hundred_are_no_settings(tmp_path):
    values = {f"v{k}": float(x) for k, x in enumerate(TABLE.to_numpy().ravel())}
    (tmp_path / "m.pkl").write_bytes(pickle.dumps({"model": MODEL, **values}))
    seen = inventory_of(tmp_path / "m.pkl", None)
    assert seen.unknown or seen.stored


@pytest.mark.parametrize(
    "ends", [[0, 1, 1, 4], [0, 4, 1, 4], [-1, 1, 1, 4], [0, 1, 4], [0, 2**63 - 1, -(2**63), -1]]
)
def test_texts_that_pandas_keeps_in_arrow_are_cells_of_a_table(ends):
    """As pandas 3 pickles them where pyarrow is installed: validity, ends, and all texts in one."""

    def made(name, *args):
        return StoredObject(name, {}, args)

    def frame_of_texts(length, start, *parts):
        buffers = [made("pyarrow.lib.py_buffer", part) for part in parts]
        kind = made("pyarrow.lib.type_for_alias", "large_string")
        texts = made("pyarrow.lib._restore_array", (kind, length, 1, start, buffers, [], None))
        block = made("pandas._libs.internals._unpickle_block", texts, made("slice", 0, 1, 1), 2)
        manager = made("BlockManager", (block,), [np.array(["a"], dtype=object), None])
        return frame_of(StoredObject("pandas.DataFrame", {"_mgr": manager}))

    whole = np.array(ends, "<i8").tobytes()
    if ends != [0, 1, 1, 4]:
        assert frame_of_texts(3, 0, b"\x05", whole, b"xzzz") is None
        return
    assert frame_of_texts(3, 0, b"\x05", whole, b"xzzz").cells.tolist() == [["x"], [None], ["zzz"]]
    assert frame_of_texts(2, 1, b"\x05", whole, b"xzzz").cells.tolist() == [[None], ["zzz"]]
    assert frame_of_texts(1 << 40, 0, b"\x05", whole, b"xzzz") is None


def test_other_rows_are_not_said_to_be_training_rows(tmp_path):
    """A table of other people, of the model's columns and as many, where the rows are given."""
    other = TABLE + 0.25
    (tmp_path / "m.pkl").write_bytes(pickle.dumps({"model": MODEL, "X_test": other}))
    seen = inventory_of(tmp_path / "m.pkl", TABLE)
    assert not seen.stored
    assert seen.unknown
    # Without them, nobody can tell.
    assert inventory_of(tmp_path / "m.pkl", None).stored


def test_no_leak_is_not_said_beside_an_unknown_file(small_folder):
    (small_folder / "notes.bin").write_bytes(bytes(range(200)))
    found = treeleak.audit(small_folder, time_limit=2)
    assert found.verdict != "no leak shown by these attacks (this is no proof of safety)"
    assert any(e.unknown and "notes.bin" in e.where for e in found.inventory)


def test_a_person_as_a_column_beside_the_names_of_columns_is_no_importance(folder):
    person = pd.DataFrame({"column": list(TABLE), "importance": TABLE.iloc[3].to_numpy()})
    person.to_csv(folder / "importances.csv", index=False)
    assert inventory_of(folder, TABLE).unknown
    (folder / "importances.csv").write_text(
        "column,importance\n" + "".join(f"{name},0.{k}3\n" for k, name in enumerate(TABLE))
    )
    assert not inventory_of(folder, TABLE).unknown


@pytest.mark.parametrize("shift", [0, 1])
def test_rows_in_the_names_of_files_are_found(folder, shift):
    """Rows of others are not said to be the training rows."""
    for row in (TABLE + shift * 0.37).head(20).to_numpy():
        (folder / f"requirements{','.join(f'{v:.10g}' for v in row)}.txt").write_text("")
    assert bool(inventory_of(folder, TABLE).stored) is (shift == 0)


# ------------------------------------------------------------------------------- models inside


@dataclasses.dataclass
class Held:
    model: object
    version: int = 3


@pytest.mark.parametrize(
    "around",
    [
        lambda m: {"model": m, "columns": ["a"]},
        lambda m: {"a": {"b": [0, m]}},
        lambda m: [m],
        lambda m: (m, None),
        Held,
        lambda m: {"fresh": RandomForestClassifier(), "model": m},
    ],
    ids=["dict", "deep", "list", "tuple", "dataclass", "beside one that was never fitted"],
)
@pytest.mark.parametrize("live", [True, False])
def test_a_model_inside_is_the_model(tmp_path, around, live):
    source = around(MODEL)
    if not live:
        (tmp_path / "m.pkl").write_bytes(pickle.dumps(source))
        source = tmp_path / "m.pkl"
    release = to_release(source, trust_pickle=True)
    direct = to_release(MODEL)
    assert [t.n_nodes for t in release.trees] == [t.n_nodes for t in direct.trees]
    assert release.n_rows == len(TABLE)
    assert "of what the file holds" in str(release.notes[0])


def test_of_a_folder_of_models_the_first_is_attacked(tmp_path):
    for k, name in enumerate(["a", "b"]):
        (tmp_path / "m" / name).mkdir(parents=True)
        model = DecisionTreeClassifier(random_state=k, max_depth=k + 2).fit(TABLE, Y)
        skops.io.dump(model, tmp_path / "m" / name / "model.skops")
    found = treeleak.audit(tmp_path / "m", time_limit=2)
    assert "['a/model.skops']" in str(found.release.notes[0])
    assert {o.place for o in (*found.parts, *found.others)} == {"b/model.skops"}


def test_a_model_that_is_not_read_lets_the_next_one_be(tmp_path):
    tree = DecisionTreeClassifier(random_state=3).fit(TABLE, Y)
    several = DecisionTreeClassifier().fit(TABLE, np.column_stack([Y, Y]))
    assert to_release({"a": several, "b": tree}).trees
    with pytest.raises(NotCovered, match="without a tree model"):
        to_release({"a": [1, 2], "b": RandomForestClassifier()})


def test_no_pickle_is_opened_in_a_folder_without_trust(tmp_path):
    marker = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return (open, (str(marker), "w"))

    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.pkl").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(BadModel, match=r"model\.pkl: .*--trust-pickle"):
        read_model(tmp_path / "model")
    skops.io.dump(MODEL, tmp_path / "model" / "model.skops")
    for trust in (False, True):
        read_model(tmp_path / "model", trust)
    assert not marker.exists()
    assert inventory_of(tmp_path / "model", None).unknown


def test_a_text_of_lightgbm_in_a_document_is_read(tmp_path):
    model = next((Path(__file__).parent / "models" / "boosted").glob("lightgbm*/*.txt"))
    (tmp_path / "m").mkdir()
    document = {"modelSettings": {"model": model.read_text()}, "rows": [[1, 2], [3, 4]]}
    (tmp_path / "m" / "model.json").write_text(json.dumps(document))
    (tmp_path / "m" / "attributes.json").write_text("{}")
    assert [t.n_nodes for t in to_release(tmp_path / "m").trees] == [
        t.n_nodes for t in to_release(model).trees
    ]
    # What stands beside the text is no part of the model.
    assert inventory_of(tmp_path / "m", None).unknown


# ------------------------------------------------------------------------------- hostile archives


def tar(path, *entries, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return path


def entry(name, data=b"", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def model_entry():
    return entry("model.skops", skops.io.dumps(MODEL))


def test_an_archive_is_read_as_its_folder(tmp_path, folder):
    names = [p.name for p in sorted(folder.iterdir())]
    entries = [entry(name, (folder / name).read_bytes()) for name in names]
    packed = tar(tmp_path / "m.tar.gz", *entries)
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
        for name in names:
            archive.writestr(name, (folder / name).read_bytes())
    direct = open_source(folder)
    for path in (packed, tmp_path / "m.zip", tar(tmp_path / "m.tar", *entries, mode="w")):
        assert open_source(path).files.keys() == direct.files.keys()
        assert to_release(path).n_rows == to_release(folder).n_rows


@pytest.mark.parametrize(
    "name", ["../out", "/etc/out", "a/../../out", "C:\\out", "..\\out", "\\\\host\\out", "a" * 600]
)
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_names_that_lead_out_are_refused(tmp_path, name, kind):
    path = tmp_path / "in" / f"m.{kind}"
    path.parent.mkdir()
    if kind == "tar":
        tar(path, model_entry(), entry(name, b"x"))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model.skops", skops.io.dumps(MODEL))
            archive.writestr(name, b"x")
    with pytest.raises(BadModel, match="leads out"):
        read_model(path)
    assert [p.name for p in tmp_path.rglob("*")] == ["in", path.name]


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE]
)
def test_links_and_devices_are_refused(tmp_path, kind):
    path = tar(tmp_path / "m.tar", model_entry(), entry("odd", type=kind, linkname="/etc/passwd"))
    with pytest.raises(BadModel, match="odd: a link or a device"):
        read_model(path)


def test_a_link_in_a_zip_is_refused(tmp_path):
    info = zipfile.ZipInfo("odd")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
        archive.writestr("model.skops", skops.io.dumps(MODEL))
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(BadModel, match="odd: a link or a device"):
        read_model(tmp_path / "m.zip")


def test_a_link_in_a_folder_is_not_followed(tmp_path, folder):
    (tmp_path / "secret.csv").write_text(TABLE.to_csv(index=False))
    (folder / "data.csv").symlink_to(tmp_path / "secret.csv")
    (folder / "loop").symlink_to(folder)
    seen = inventory_of(folder, TABLE)
    assert (seen.stored, seen.unknown) == (False, True)


@pytest.mark.parametrize("kind", ["tar.gz", "zip", "nested", "headers"])
def test_bombs_are_refused(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(members, "FREE_BYTES", 1 << 20)
    bomb = bytes(20 << 20)
    path = tmp_path / "m"
    if kind == "tar.gz":
        tar(path, model_entry(), entry("bomb", bomb))
    elif kind == "headers":
        with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
            info, data = entry("bomb", b"x")
            info.pax_headers = {"comment": "a" * len(bomb)}
            archive.addfile(info, io.BytesIO(data))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("bomb", bomb)
        if kind == "nested":
            inner = path.read_bytes()
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("model.skops", skops.io.dumps(MODEL))
                archive.writestr("inner.zip", inner)
    with pytest.raises(BadModel, match=r"unpacks to more|bomb"):
        read_model(path)


def test_a_member_of_more_than_it_states_is_refused(tmp_path):
    path = tmp_path / "m.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.skops", skops.io.dumps(MODEL))
        archive.writestr("odd", b"a" * 5000)
    raw = bytearray(path.read_bytes())
    at = raw.rindex(b"PK\x01\x02")
    raw[at + 24 : at + 28] = (4000).to_bytes(4, "little")
    path.write_bytes(raw)
    with pytest.raises(BadModel, match=r"odd: damaged|odd: cut short"):
        read_model(path)


@pytest.mark.slow
def test_too_many_members_are_refused(tmp_path, folder):
    names = [f"f{k}" for k in range(members.MOST_MEMBERS)]
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
        archive.writestr("model.skops", skops.io.dumps(MODEL))
        for name in names:
            archive.writestr(name, b"x")
            (folder / name).touch()
    with pytest.raises(BadModel, match="more than 10,000"):
        read_model(tmp_path / "m.zip")
    with pytest.raises(BadModel, match="more than 10,000"):
        read_model(folder)


def test_archives_in_archives_end_somewhere(tmp_path):
    data = skops.io.dumps(MODEL)
    for k in range(4):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr(f"inner{k}.zip" if k else "model.skops", data)
        data = out.getvalue()
    (tmp_path / "m.zip").write_bytes(data)
    with pytest.raises(BadModel, match="an archive in an archive in an archive"):
        read_model(tmp_path / "m.zip")


def test_deep_folders_are_refused(tmp_path, folder):
    deep = folder.joinpath(*["d"] * 25)
    deep.mkdir(parents=True)
    with pytest.raises(BadModel, match="more than 20 folders"):
        read_model(folder)
    path = tar(tmp_path / "m.tar", model_entry(), entry("d/" * 25 + "x", b"x"))
    with pytest.raises(BadModel, match="more than 20 folders"):
        read_model(path)


def test_two_members_of_one_name_are_refused(tmp_path):
    path = tar(tmp_path / "m.tar", model_entry(), entry("a", b"1"), entry("./a", b"2"))
    with pytest.raises(BadModel, match="two members"):
        read_model(path)


@pytest.mark.parametrize("hidden", ["pax", "behind", "zip comment", "zip gap"])
def test_what_an_archive_holds_beside_its_members_is_unknown(tmp_path, hidden):
    rows = TABLE.to_csv(index=False).encode()
    path = tmp_path / "m"
    if hidden == "pax":
        with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
            info, data = model_entry()
            info.pax_headers = {"comment": rows.decode()}
            archive.addfile(info, io.BytesIO(data))
    elif hidden == "behind":
        tar(path, model_entry(), mode="w")
        path.write_bytes(path.read_bytes() + rows)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model.skops", skops.io.dumps(MODEL))
            archive.comment = rows if hidden == "zip comment" else b""
            if hidden == "zip gap":
                archive.fp.write(rows)
                archive.start_dir = archive.fp.tell()
    seen = inventory_of(path, None)
    assert seen.unknown or seen.stored
    clean = tar(tmp_path / "clean", model_entry(), mode="w")
    assert not inventory_of(clean, None).unknown


def packed_twice(data, extra):
    """A packed file, and behind it one of nothing, with an extra field."""
    header = b"\x1f\x8b\x08\x04" + bytes(5) + b"\xff" + len(extra).to_bytes(2, "little")
    return gzip.compress(data) + header + extra + gzip.compress(b"")[10:]


def packed_as(data, name):
    packed = io.BytesIO()
    with gzip.GzipFile(filename=name, fileobj=packed, mode="wb") as file:
        file.write(data)
    return packed.getvalue()


def in_padding(data, hidden):
    """Bytes behind the end of the only member of a tar file, in its last block."""
    at = 512 + len(model_entry()[1])
    return data[:at] + hidden[: -at % 512] + data[at + min(len(hidden), -at % 512) :]


HIDDEN_IN_TAR = {
    "padding": in_padding,
    "name": packed_as,
    "second packed file": packed_twice,
    "behind bzip2": lambda data, hidden: bz2.compress(data) + hidden,
}


@pytest.mark.parametrize("name", HIDDEN_IN_TAR)
def test_what_no_reader_of_a_tar_file_shows_is_unknown(tmp_path, name):
    plain = tar(tmp_path / "plain", model_entry(), mode="w").read_bytes()
    hidden = b"17 25 31 " * 13
    path = tmp_path / "m"
    path.write_bytes(HIDDEN_IN_TAR[name](plain, hidden.decode() if name == "name" else hidden))
    seen = inventory_of(path, None)
    assert seen.unknown or seen.stored


class Written(io.RawIOBase):
    """A stream that cannot go back: sizes stand behind each member."""

    def __init__(self, path):
        self.file = path.open("wb")

    def writable(self):
        return True

    def write(self, data):
        return self.file.write(data)


@pytest.mark.parametrize("how", ["streamed", "shutil zip", "shutil tar", "bzip2"])
def test_honest_archives_hold_nothing_beside_their_members(tmp_path, how):
    source = tmp_path / "source"
    (source / "inner").mkdir(parents=True)
    (source / "inner" / "model.skops").write_bytes(skops.io.dumps(MODEL))
    path = tmp_path / "m.zip"
    if how == "streamed":
        stream = Written(path)
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("model.skops", skops.io.dumps(MODEL))
        stream.file.close()
    elif how == "bzip2":
        tar(path, model_entry(), mode="w:bz2")
    else:
        kind = "zip" if how == "shutil zip" else "gztar"
        path = Path(shutil.make_archive(str(tmp_path / "m"), kind, source))
    assert not inventory_of(path, None).unknown


def test_a_file_name_that_is_no_text_is_read(small_folder):
    odd = os.fsdecode(b"\xff.csv")
    try:
        (small_folder / odd).write_text("x,y\n1,2\n")
    except OSError:
        pytest.skip("this file system takes no such name")
    assert treeleak.audit(small_folder, time_limit=2).verdict


@pytest.mark.parametrize("cut", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_a_cut_archive_is_named(tmp_path, kind, cut):
    path = tmp_path / f"m.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model.skops", skops.io.dumps(MODEL))
    else:
        tar(path, model_entry())
    whole = path.read_bytes()
    path.write_bytes(whole[: int(cut * len(whole))])
    with pytest.raises(BadModel, match=r"cut short|damaged"):
        read_model(path)


def test_a_fifo_does_not_hang(folder):
    import os

    os.mkfifo(folder / "pipe")
    assert inventory_of(folder, None).unknown


# ------------------------------------------------------------------------------- OHDSI


def small_forest(n_trees=5, **options):
    X, y = patients(60, 8)
    return RandomForestClassifier(n_trees, random_state=7, **options).fit(X, y), X, y


@pytest.mark.parametrize("kind", ["rf", "tree", "adaboost"])
def test_a_model_of_a_bundle_is_read_as_its_skops_archive(tmp_path, kind):
    X, y = patients(80, 8)
    model = {
        "rf": RandomForestClassifier(5, random_state=7, oob_score=False),
        "tree": DecisionTreeClassifier(random_state=7),
        "adaboost": AdaBoostClassifier(n_estimators=3, random_state=7),
    }[kind].fit(X, y)
    direct, read = to_release(model), to_release(write_bundle(tmp_path / "b", model, X))
    assert read.feature_names == tuple(X.columns)
    assert read.n_rows == direct.n_rows
    assert read.classes == direct.classes
    assert type(read.sampling) is type(direct.sampling)
    assert len(read.trees) == len(direct.trees)
    for a, b in zip(read.trees, direct.trees, strict=True):
        np.testing.assert_array_equal(a.feature, b.feature)
        np.testing.assert_array_equal(a.threshold, b.threshold)
        np.testing.assert_array_equal(a.counts, b.counts)
    if kind == "rf":
        assert read.sampling.tree_seeds == direct.sampling.tree_seeds


def test_rows_come_back_from_a_bundle(tmp_path):
    model, X, _ = small_forest(30)
    schema = treeleak.Schema([treeleak.schema.Binary(c) for c in X.columns])
    bundle = write_bundle(tmp_path / "b", model, X)
    from_model = treeleak.reconstruct(model, schema, time_limit=AMPLE)
    from_bundle = treeleak.reconstruct(bundle, schema, time_limit=AMPLE)
    assert from_bundle.status == from_model.status
    assert from_bundle.ordered
    assert (from_bundle.X.to_numpy() == X.to_numpy()).mean() > 0.9


@pytest.mark.parametrize("least", [None, 5, 17])
def test_a_bundle_is_judged_by_its_own_least_count(tmp_path, least):
    model, X, _ = small_forest(1, max_depth=1)
    bundle = write_bundle(tmp_path / "b", model, X, min_cell_count=least)
    found = treeleak.audit(bundle, time_limit=1)
    assert found.counts.threshold == (least or 10)
    assert any("may not be shown" in str(n) for n in found.notes) == (least is not None)


def test_a_report_with_small_cells_is_found(tmp_path):
    model, X, _ = small_forest(1, max_depth=1)
    bundle = write_bundle(tmp_path / "b", model, X, min_cell_count=10)
    names = {e.what for e in treeleak.audit(bundle, time_limit=1).inventory}
    assert "a report with small cells" not in names
    report = pd.DataFrame({"covariateName": ["a", "b"], "personCount": [40, 3]})
    report.to_csv(bundle / "report.csv", index=False)
    names = {e.what for e in treeleak.audit(bundle, time_limit=1).inventory}
    assert "a report with small cells" in names


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d | {"estimators_": []}, "no trees"),
        (lambda d: d["estimators_"][0]["tree_"].update(nodes=[[1, 2]]), "nodes of other fields"),
        (lambda d: d["estimators_"][0].pop("tree_"), "no tree_"),
        (lambda d: d["estimators_"][0]["tree_"]["nodes"][0].__setitem__(2, 99), "column"),
    ],
)
def test_a_damaged_bundle_is_refused(tmp_path, change, words):
    model, X, _ = small_forest()
    bundle = write_bundle(tmp_path / "b", model, X)
    place = bundle / "model" / "model.json"
    data = json.loads(place.read_text())
    changed = change(data)
    place.write_text(json.dumps(changed if isinstance(changed, dict) and "meta" in changed
                                else data))  # fmt: skip
    with pytest.raises(BadInput, match=words):
        to_release(bundle)


def tree_of(data):
    """A scikit-learn tree as the package loads it."""
    inner = data["tree_"]
    nodes = np.array(
        [tuple(node) for node in inner["nodes"]],
        dtype=Tree(1, np.array([2], dtype=np.intp), 1).__getstate__()["nodes"].dtype,
    )
    tree = Tree(data["n_features_in_"], np.array([data["n_classes_"]], dtype=np.intp), 1)
    values = np.array(inner["values"])
    state = {"max_depth": inner["max_depth"], "node_count": inner["node_count"]}
    tree.__setstate__(state | {"nodes": nodes, "values": values})
    return tree


@pytest.mark.slow
def test_a_hardened_bundle_predicts_the_same_to_the_last_bit(tmp_path):
    model, X, _ = small_forest(40, oob_score=True)
    bundle = write_bundle(tmp_path / "b", model, X)
    X.head(9).to_csv(bundle / "example.csv", index=False)
    place = bundle / "model" / "model.json"
    more = json.loads(place.read_text())
    more["estimators_"][0] |= {"note": X.to_numpy().tolist()}
    place.write_text(json.dumps(more | {"rows": X.to_numpy().tolist()}))
    out = tmp_path / "hardened"
    done = run("harden", bundle, "--out", out, "--time-limit", "20")
    assert done.exit_code in (0, 3), done.stderr
    assert not (out / "example.csv").exists()
    assert "example.csv: left out" in done.stdout
    rows = np.random.default_rng(0).integers(0, 2, (500, X.shape[1])).astype(np.float32)
    data = json.loads((out / "model" / "model.json").read_text())
    for tree, fitted in zip(data["estimators_"], model.estimators_, strict=True):
        np.testing.assert_array_equal(tree_of(tree).predict(rows), fitted.tree_.predict(rows))
        assert not any(node[k] for node in tree["tree_"]["nodes"] for k in (4, 5, 6))
        assert tree["params"]["random_state"] is None
        assert not any(tree["feature_importances_"])
    assert data["params"]["random_state"] is None
    assert "oob_decision_function_" not in data
    assert "rows" not in data
    assert "note" not in data["estimators_"][0]
    # What was written is read again, and gives back less.
    before, after = (to_release(place) for place in (bundle, out))
    assert before.sampling.tree_seeds
    assert not any(s is not None for s in after.sampling.tree_seeds)


@pytest.mark.slow
def test_a_hardened_folder_loads(tmp_path, folder):
    TABLE.head(5).to_json(folder / "input_example.json", orient="split", index=False)
    config = {"sklearn": {"columns": list(TABLE.columns), "model": {"file": "model.skops"},
                          "example_input": TABLE.head(3).to_dict(orient="list")}}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "notes.txt").write_text("look here")
    out = tmp_path / "hardened"
    found = harden_folder(folder, out, time_limit=2)
    assert found.removed == ("input_example.json",)
    assert found.changed == ("config.json",)
    assert "notes.txt" in found.unknown
    assert json.loads((out / "config.json").read_text())["sklearn"].keys() == {"columns", "model"}
    place = out / "model.skops"
    loaded = skops.io.load(place, trusted=skops.io.get_untrusted_types(file=place))
    np.testing.assert_array_equal(loaded.predict_proba(TABLE), MODEL.predict_proba(TABLE))
    assert (out / "MLmodel").read_text() == (folder / "MLmodel").read_text()
    assert not inventory_of(out, TABLE).stored
    assert inventory_of(folder, TABLE).stored
    with pytest.raises(BadInput, match="does not exist yet"):
        harden_folder(folder, out)


def test_a_dictionary_is_not_hardened(tmp_path):
    skops.io.dump({"model": MODEL, "X": TABLE.to_numpy()}, tmp_path / "m.skops")
    refused = run("harden", tmp_path / "m.skops", "--out", tmp_path / "out.skops")
    assert refused.exit_code == 2
    assert "x['model']" in refused.stderr
    assert not (tmp_path / "out.skops").exists()


def test_a_folder_of_a_pickle_is_not_hardened(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.pkl").write_bytes(pickle.dumps(MODEL))
    refused = run("harden", tmp_path / "m", "--out", tmp_path / "out")
    assert refused.exit_code == 2
    assert "model.pkl" in refused.stderr
    assert not (tmp_path / "out").exists()
    refused = run("harden", tmp_path / "m", "--out", tmp_path / "out", "--json", tmp_path / "a")
    assert "--json" in refused.stderr
