"""Rows in objects of R of any class are found and named, and nothing else is called rows."""

from __future__ import annotations

import gzip
import lzma
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.tree import DecisionTreeClassifier

from helpers.cli import run
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import Entry, take_inventory
from treeleak.release.registry import read_model
from treeleak.release.stored import Opaque, StoredObject

FILES = Path(__file__).parent / "models" / "r"
HOLDING = {
    "lm.rds": "lm", "glm.rds": "glm", "train.rds": "list.value", "recipe.rds": "recipe",
    "closure.rds": "function.environment.values",
    "formula.rds": "list.value.formula..Environment.values", "attribute.rds": "settings",
    "s4.rds": "Study", "nested.rds": "list.value.a", "call.rds": "list.value.call",
    "workspace.RData": "workspace", "party.rds": "BinaryTree.data.env.values",
}  # fmt: skip
CLEAN = ("forest", "settings", "tree", "function", "coefficients")
TABLE = pd.read_csv(FILES / "object_rows.csv")


def inventory(model: StoredObject, rows=None) -> tuple[Entry, ...]:
    return take_inventory(model, Context(drawn=None, missing=None), rows)


def frame(n: int = 30, **more) -> StoredObject:
    rng = np.random.default_rng(n)
    columns = {"age": rng.integers(20, 80, n), "weight": rng.normal(size=n)}
    return StoredObject("R.data.frame", {**columns, **more, "row.names": n})


def rows_in(model: StoredObject) -> list[str]:
    return [entry.where for entry in inventory(model) if entry.rows]


@pytest.mark.parametrize("name", HOLDING)
def test_the_table_is_found_where_it_lies(name):
    assert HOLDING[name] in rows_in(read_model(FILES / f"object_{name}"))


@pytest.mark.parametrize("name", HOLDING)
def test_given_rows_are_found_as_well(name):
    found = inventory(read_model(FILES / f"object_{name}"), TABLE[["age", "weight", "smokes"]])
    assert any(entry.rows for entry in found)


@pytest.mark.parametrize("name", CLEAN)
@pytest.mark.parametrize("rows", [None, TABLE])
def test_what_holds_no_rows_is_not_said_to(name, rows):
    found = inventory(read_model(FILES / f"object_clean_{name}.rds"), rows)
    assert not any(entry.rows for entry in found)


def test_entries_for_each_row_are_named():
    entries = inventory(read_model(FILES / "object_lm.rds"))
    (per_row,) = (e for e in entries if e.what == "one entry for each training row" and
                  e.where == "lm")  # fmt: skip
    assert {"residuals", "fitted.values", "effects"} <= set(per_row.names)
    assert per_row.mark == "leaks"
    assert not any(entry.unknown for entry in entries)


def test_a_vector_as_long_as_the_table_is_suspicious_under_any_name():
    model = StoredObject("R.own", {"model": frame(), "notes": np.arange(30.0) ** 2})
    (entry,) = (e for e in inventory(model) if "notes" in e.names)
    assert entry.unknown
    assert entry.what == "as many entries as training rows"


def test_environments_that_refer_to_each_other_end_the_walk():
    values: dict = {}
    environment = StoredObject("R.environment", {"values": values, "enclosing": None})
    other = StoredObject("R.environment", {"values": {"t": frame()}, "enclosing": environment})
    values |= {"a": other, "b": environment}
    function = StoredObject("R.function", {"formals": {}, "body": None, "environment": environment})
    assert rows_in(function) == ["function.environment.values.a.values"]


def test_an_environment_of_columns_that_holds_itself_ends_the_walk():
    values: dict = {name: np.cos(k * np.arange(30.0)) for k, name in enumerate("uvw")}
    environment = StoredObject("R.environment", {"values": values, "enclosing": None})
    values["self"] = environment
    assert rows_in(StoredObject("R.own", {"e": environment})) == ["own", "own.e"]


def test_tables_of_columns_settings_and_curves_are_no_rows():
    names = np.array([f"column_{k}" for k in range(40)], dtype=object)
    grid = np.array([(a, b) for a in range(6) for b in range(6)], dtype=float)
    model = StoredObject(
        "R.own",
        {
            "variables": names,
            "importance": StoredObject(
                "R.data.frame", {"column": names, "gain": np.arange(40.0), "row.names": 40}
            ),
            "grid": StoredObject("R.data.frame", {"a": grid[:, 0], "b": grid[:, 1]}),
            "roc": StoredObject("R.data.frame", {"x": np.arange(50.0), "y": np.arange(50.0) % 7}),
            "covariance": np.cov(np.random.default_rng(0).normal(size=(25, 90))),
            "coefficients": StoredObject(
                "R.vector",
                {"value": np.ones((30, 2)), "dimnames": [names[:30], names[:2]]},
            ),
        },
    )
    assert rows_in(model) == []


def test_few_lines_are_unknown_and_not_settings():
    small = StoredObject("R.own", {"z": frame(8)})
    (entry,) = (e for e in inventory(small) if "z" in e.names)
    assert entry.unknown


@pytest.mark.parametrize("name", ["x.order", "importance", "err.rate", "results", "forest"])
def test_a_known_field_cannot_hide_a_table(name):
    model = StoredObject("R.randomForest", {"y": np.arange(30.0), name: frame()})
    assert "randomForest" in rows_in(model)


def test_code_with_data_in_it_is_no_plain_code():
    def call(*arguments):
        symbol = StoredObject("R.symbol", {"name": "c"})
        return StoredObject("R.call", {"function": symbol, "arguments": [*arguments]})

    typed = call(*((None, np.array([float(k)])) for k in range(300)))
    found = inventory(StoredObject("R.own", {"call": typed}))
    assert any(e.what == "code with data in it" and e.unknown for e in found)
    assert rows_in(StoredObject("R.own", {"call": call((None, frame()))}))
    code = Opaque("R.bytecode", "byte code", [np.arange(90), np.arange(40.0).reshape(20, 2)])
    assert any(e.unknown or e.rows for e in inventory(StoredObject("R.own", {"body": code})))


@pytest.mark.parametrize("name", ["lm.rds", "workspace.RData", "closure.rds", "party.rds"])
def test_an_audit_says_that_rows_lie_there(name):
    result = run("audit", FILES / f"object_{name}", "--time-limit", 20)
    assert result.exit_code == 0
    assert "Leak shown" in result.stdout
    assert "holds training rows, for anybody to read" in " ".join(result.stdout.split())


def test_an_object_without_trees_is_no_clean_answer():
    result = run("audit", FILES / "object_clean_settings.rds", "--time-limit", 20)
    assert result.exit_code == 2
    assert "Not assessed" in result.stdout


def test_objects_of_r_beside_a_model_are_taken_apart(tmp_path):
    skops = pytest.importorskip("skops.io")
    tree = DecisionTreeClassifier(max_depth=2).fit(TABLE[["age", "weight"]], TABLE["sick"])
    skops.dump(tree, tmp_path / "model.skops")
    shutil.copy(FILES / "object_workspace.RData", tmp_path / "image.RData")
    shutil.copy(FILES / "object_clean_settings.rds", tmp_path / "settings.rds")
    found = [entry.where for entry in inventory(read_model(tmp_path)) if entry.rows]
    assert found == ["Folder['image.RData']"]


WINE = load_wine().data
MEASURED = np.random.default_rng(7).normal(size=(150, 4)).round(1)
TENTHS = (MEASURED.ravel() * 10).astype(int)
LINES = [",".join(map(str, row)) for row in MEASURED.tolist()]


def symbol(name):
    return StoredObject("R.symbol", {"name": name})


def calls(name, arguments):
    return StoredObject("R.call", {"function": symbol(name), "arguments": list(arguments)})


def one_call_for_each_row():
    return calls("list", ((None, calls("c", ((None, np.array([v])) for v in row)))
                          for row in MEASURED))  # fmt: skip


def byte_code(*content):
    return Opaque("R.bytecode", "byte code", [*content])


def places(array):
    return StoredObject("R.expressionsIndex", {"value": array, "class": "expressionsIndex"})


def source(tokens):
    values = {"parseData": tokens}
    return StoredObject("R.environment", {"values": values, "class": ("srcfile", "environment")})


HIDING_CODE = {
    "constants of many calls": one_call_for_each_row(),
    "names of variables": calls("c", ((None, symbol(line)) for line in LINES)),
    "name of a function": StoredObject("R.builtin", {"name": ",".join(LINES)[:500]}),
    "instructions": byte_code(np.array([12, *abs(TENTHS)]), np.array([5])),
    "places of instructions": byte_code(
        np.array([12, *([17] * 600)]), np.array([5]), places(np.array([np.nan, *TENTHS]))
    ),
    "tokens of a source file": source(TENTHS[:600].reshape(8, 75)),
}


@pytest.mark.parametrize("name", HIDING_CODE)
def test_code_cannot_hide_a_table(name):
    found = inventory(StoredObject("R.own", {"call": HIDING_CODE[name]}))
    assert any(entry.unknown or entry.rows for entry in found)


ROW_NAMES = ["x" + "_".join(str(abs(v)) for v in row) for row in TENTHS.reshape(-1, 4).tolist()]


def function_of(row):
    body = calls("c", ((None, np.array([v])) for v in row))
    return StoredObject("R.function", {"formals": {}, "body": body, "environment": None})


COLUMNS = np.array([f"column_{k}" for k in range(13)], dtype=object)


def nested(parts):
    """Put parts in lists of a few: none of these is a table."""
    groups = [parts[k : k + 15] for k in range(0, len(parts), 15)]
    return {f"g{chr(97 + k)}": {f"p{chr(97 + j)}": part for j, part in enumerate(group)}
            for k, group in enumerate(groups)}  # fmt: skip


SPREAD = {
    "a number for each column": nested(
        [StoredObject("R.vector", {"value": row, "names": COLUMNS}) for row in WINE]),
    "bytes": nested([row.astype(np.uint8).tobytes() for row in np.clip(WINE, 0, 255)]),
    "small bytes": nested([(row > 2).astype(np.uint8).tobytes() for row in WINE]),
    "namespaces": [Opaque("R.environment", "the namespace " + " ".join(map(str, row)))
                   for row in WINE.tolist()][:15],
    "code of one digit": nested([function_of(row) for row in (WINE > 2).astype(float)]),
    "values of a grid": StoredObject("R.data.frame", {
        "a": np.repeat(np.unique(WINE[:, 0]), 2), "b": np.tile([0.0, 1.0], 126)}),
    "functions": {f"f{k}": function_of(row) for k, row in enumerate(MEASURED)},
    "symbols": calls("c", ((None, symbol(name)) for name in ROW_NAMES[:60])),
    "texts": {f"f{k}": calls("c", [(None, np.array([name], dtype=object))])
              for k, name in enumerate(ROW_NAMES)},
    "names": {name: np.array([1.0]) for name in ROW_NAMES},
    "settings": {f"s{k}": {"value": np.array([v]), "of": np.array(["x"], dtype=object)}
                 for k, v in enumerate(MEASURED.ravel())},
}  # fmt: skip


@pytest.mark.parametrize("name", SPREAD)
def test_what_is_small_everywhere_is_counted_over_the_whole_object(name):
    model = StoredObject("R.own", {"held": SPREAD[name], "variables": COLUMNS})
    assert any(entry.unknown or entry.rows for entry in inventory(model))


@pytest.mark.parametrize("owner", ["randomForest", "own"])
@pytest.mark.parametrize("name", ["importance", "localImportance", "loadings"])
def test_a_table_on_its_side_is_no_number_for_each_column(owner, name):
    table = StoredObject("R.vector", {"value": WINE.T.copy(), "dimnames": [COLUMNS, None]})
    model = StoredObject(f"R.{owner}", {name: table, "variables": COLUMNS, "ntree": np.ones(1)})
    assert any(entry.unknown for entry in inventory(model))
    table = StoredObject("R.vector", {"value": WINE.T[:, :5].copy(), "dimnames": [COLUMNS, None]})
    model = StoredObject(f"R.{owner}", {name: table, "variables": COLUMNS})
    assert not any(entry.unknown for entry in inventory(model))


def changed(file, *way):
    """Read a model, and change one of its arrays by the last of the arguments."""
    model = read_model(FILES / f"{file}.rds")
    *keys, last, change = way
    state = model.state
    for key in keys:
        state = state[key] if isinstance(state[key], dict) else state[key].state
    held = state[last]
    if isinstance(held, StoredObject):
        held.state["value"] = change(held.state["value"].copy())
    else:
        state[last] = change(held.copy())
    return model


def below(array):
    array[1:, 0] = np.resize(abs(TENTHS), len(array) - 1)
    return array


def behind(array):
    array[-1, ..., 0] = 51
    return array


def where_0(array):
    array[array == 0] = np.resize(MEASURED.ravel(), (array == 0).sum())
    return array


@pytest.mark.parametrize(
    ("file", "way"),
    [
        ("rpart_classification", ("splits", below)),
        ("rpart_classification", ("splits", lambda a: np.vstack([a, a]))),
        ("rpart_classification", ("splits", lambda a: np.hstack([a, a]))),
        ("rpart_classification", ("cptable", lambda a: MEASURED[:, :4])),
        ("randomforest_classification", ("forest", "xbestsplit", where_0)),
        ("randomforest_classification", ("forest", "treemap", behind)),
        ("randomforest_classification", ("forest", "nodepred", behind)),
        ("randomforest_classification", ("err.rate", lambda a: np.resize(MEASURED, (150, 3)))),
    ],
)
def test_arrays_of_trees_hold_what_their_nodes_say(file, way):
    assert not any(entry.unknown for entry in inventory(read_model(FILES / f"{file}.rds")))
    model = changed(file, *way)
    model.state["ntree"] = np.array([150.0])
    assert any(entry.unknown or entry.rows for entry in inventory(model))


def of_wine(*at):
    """Write rows of a table in the place of some numbers of an array."""

    def change(array):
        array = array.astype(float)
        array[at] = np.resize(WINE, array[at].shape)
        return array

    return change


RPART = ["rpart_classification", "rpart_regression"]
FOLLOWING = [
    *((file, ("frame", name), of_wine()) for file in RPART for name in ("wt", "dev", "complexity")),
    *((file, ("splits",), of_wine(0, 2)) for file in RPART),
    *((file, ("variable.importance",), of_wine()) for file in RPART),
    *((file, ("cptable",), of_wine(slice(None), 2)) for file in RPART),
    ("rpart_classification", ("frame", "yval"), of_wine()),
    ("rpart_classification", ("frame", "yval2"), of_wine(slice(None), -1)),
    ("rpart_classification", ("frame", "yval2"), of_wine(slice(None), -2)),
    ("rpart_classification", ("cptable",), of_wine(slice(None), 3)),
    ("rpart_classification", ("cptable",), of_wine(slice(None), 4)),
    ("rpart_regression", ("frame", "yval"), of_wine()),
    ("randomforest_classification", ("err.rate",), of_wine()),
    ("randomforest_classification", ("confusion",), of_wine()),
    ("randomforest_regression_inbag", ("rsq",), of_wine()),
    ("ranger_classification", ("confusion.matrix",), of_wine()),
]


@pytest.mark.parametrize(("file", "way", "change"), FOLLOWING)
def test_what_r_writes_of_trees_follows_from_their_nodes_or_rows(file, way, change):
    assert not any(entry.unknown for entry in inventory(read_model(FILES / f"{file}.rds")))
    found = inventory(changed(file, *way, change))
    assert any(entry.unknown for entry in found)


@pytest.mark.parametrize(
    "column",
    [
        {"zz": np.resize(WINE, 11)},
        {"dev": StoredObject("R.vector", {"value": np.zeros(11), "note": WINE})},
        {"var": StoredObject("R.factor", {"codes": np.ones(11, int), "levels": np.array(LINES)})},
    ],
)
def test_a_frame_of_nodes_has_its_columns_and_nothing_beside_them(column):
    model = read_model(FILES / "rpart_classification.rds")
    model.state["frame"].state.update(column)
    assert any(entry.unknown for entry in inventory(model))


def test_byte_code_that_r_compiles_is_plain():
    code = byte_code(np.array([12, 20, 0, 1]), symbol("x"), places(np.array([np.nan, 0, 0, 0])))
    (entry,) = inventory(StoredObject("R.own", {"body": code}))
    assert entry.what == "calls and functions"


@pytest.mark.parametrize(
    ("owner", "name"),
    [("lm", "deviance"), ("lm", "coefficients"), ("randomForest", "importance"),
     ("train", "results"), ("train", "resample"), ("settings", "byResample")],
)  # fmt: skip
def test_scores_cannot_hide_a_table(owner, name):
    found = inventory(StoredObject(f"R.{owner}", {name: MEASURED}))
    assert any(entry.unknown or entry.rows for entry in found)


def test_a_table_without_lines_may_state_any_number_of_columns():
    assert inventory(StoredObject("R.own", {"x": np.zeros((0, 2**31))}))


def unnamed_table(names):
    return StoredObject("R.vector", {"value": MEASURED, "dimnames": names})


PARTS = {
    "predictors": np.array(LINES, dtype=object),
    "lev": np.array(LINES, dtype=object),
    "rows": list(MEASURED),
    "records": [
        {
            k: StoredObject("R.vector", {"value": np.array([v]), "names": None})
            for k, v in zip("abcd", row, strict=True)
        }
        for row in MEASURED
    ],
    "blocks": [MEASURED[k : k + 4] for k in range(0, 148, 4)],
    "tuning": StoredObject(
        "R.data.frame", {"u": np.random.default_rng(1).normal(size=150), "v": np.ones(150)}
    ),
    "summary": unnamed_table([None, np.array(["Estimate", "Std. Error", "z", "p"], dtype=object)]),
    "about": unnamed_table([np.array(["(Intercept)", *map(str, range(149))], dtype=object), None]),
}


@pytest.mark.parametrize("name", PARTS)
def test_names_and_small_parts_cannot_hide_a_table(name):
    found = inventory(StoredObject("R.settings", {name: PARTS[name]}))
    assert any(entry.unknown or entry.rows for entry in found)


OF_NODES = [("party", "node"), ("gbm", "trees"), ("rpart", "frame"), ("settings", "Fold1")]


@pytest.mark.parametrize(("owner", "name"), OF_NODES)
def test_a_table_in_place_of_nodes_is_a_table(owner, name):
    assert rows_in(StoredObject(f"R.{owner}", {name: frame()}))


def test_bytes_behind_an_object_are_unknown(tmp_path):
    data = lzma.decompress((FILES / "object_clean_forest.rds").read_bytes())
    (tmp_path / "model.rds").write_bytes(gzip.compress(data + b"51,35,14,2"))
    found = take_inventory(read_model(tmp_path / "model.rds"), Context())
    assert [entry.names for entry in found if entry.unknown]


OMITTED = np.arange(3, 600, 5)


@pytest.mark.parametrize(
    ("state", "known"),
    [
        ({"value": OMITTED, "names": OMITTED.astype(str).astype(object)}, True),
        ({"value": OMITTED, "names": np.array([f"Ada {k}" for k in OMITTED], object)}, False),
        ({"value": OMITTED[::-1]}, False),
        ({"value": OMITTED + 0.25}, False),
        ({"value": OMITTED, "kept": OMITTED}, False),
        ({"value": OMITTED, "names": 5}, False),
    ],
)
def test_rows_left_out_are_named_by_their_numbers(state, known):
    omitted = StoredObject("R.na.rpart", {**state, "class": ("na.rpart", "omit")})
    found = inventory(StoredObject("R.rpart", {"na.action": omitted}))
    assert any(entry.what == "row numbers of rows left out" for entry in found) == known
    assert any(entry.unknown for entry in found) != known


def test_losses_are_settings_where_each_error_costs_the_same():
    equal = 1.0 - np.eye(7)
    assert not any(e.unknown for e in inventory(StoredObject("R.list", {"loss": equal})))
    equal[2, 3] = 4.25
    # A matrix as wide as the last one is long would take 80 GB.
    for loss in (equal, equal[:, :6], np.arange(100_000.0) ** 2):
        assert any(e.unknown for e in inventory(StoredObject("R.list", {"loss": loss})))


def test_rows_left_out_are_no_more_than_there_were():
    """Numbers that rise can be those of a table, added up."""
    omitted = StoredObject("R.omit", {"value": OMITTED, "class": ("omit",)})
    model = StoredObject("R.rpart", {"na.action": omitted})
    for n_rows, known in ((478, True), (477, False)):
        found = take_inventory(model, Context(n_rows=n_rows, drawn=None, missing=None))
        assert any(entry.what == "row numbers of rows left out" for entry in found) == known
        assert any(entry.unknown for entry in found) != known
