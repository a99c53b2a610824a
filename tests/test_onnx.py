"""Tree ensembles in ONNX graphs: where rows go, and that nothing hides beside the trees."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

import treeleak
from helpers.cli import run
from helpers.protobuf import field
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.core.errors import BadModel, NotCovered
from treeleak.release import read_model, to_release
from treeleak.release.readers.onnx_graph import ENSEMBLES, model_from_onnx
from treeleak.release.statistics import VALUE

FOLDER = Path(__file__).parent / "models/exchange"
TRUTH = json.loads((FOLDER / "onnx.json").read_text())
IRIS, CANCER, SICK = (load_iris(), load_breast_cancer(), load_diabetes())
ROWS = {
    "forest": IRIS.data, "columns": IRIS.data, "two_classes": CANCER.data[:, :6],
    "regressor": SICK.data, "double": SICK.data,
    "scaled": (IRIS.data - IRIS.data.mean(axis=0)) / IRIS.data.std(axis=0),
}  # fmt: skip


def release(name):
    return to_release(FOLDER / f"{name}.onnx")


def test_leaves_add_up_to_the_predictions():
    found = release("regressor")
    leaves = found.leaves(ROWS["regressor"][::4])
    added = [t.statistics.get(VALUE).values[leaves[:, k]] for k, t in enumerate(found.trees)]
    assert np.allclose(sum(added), TRUTH["regressor"]["answers"], rtol=1e-5)
    found = release("scaled")
    leaves = found.leaves(ROWS["scaled"][::4])
    scores = np.tile(found.ensemble.base_scores, (len(leaves), 1))
    for k, tree in enumerate(found.trees):
        scores[:, tree.output] += tree.statistics.get(VALUE).values[leaves[:, k]]
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert np.allclose(shares, TRUTH["scaled"]["answers"], atol=1e-4)


def test_shares_say_which_classes_a_leaf_holds():
    found = release("double")
    y = (SICK.target > 140).astype(int)
    (tree,) = found.trees
    leaves = found.leaves(SICK.data)[:, 0]
    held = {(leaf, c) for leaf, c in zip(leaves, y, strict=True)}
    assert held == {*zip(*(tree.counts > 0).nonzero(), strict=True)}
    assert (found.float_type, found.counts_are, found.noise.rule) == (
        "float64",
        "labels",
        "present",
    )
    # A tree that was not grown to the end: few leaves are of one class, so the largest is used.
    assert release("columns").noise.rule == "majority"
    assert release("two_classes").sampling.kind == "bootstrap"


def test_rows_beside_the_graph_are_found():
    data = (FOLDER / "forest.onnx").read_bytes()
    rows = IRIS.data[:60]
    text = "\n".join(",".join(map(str, row)) for row in rows.tolist()).encode()
    for more in (field(14, field(1, b"a") + field(2, text)), field(25, text), field(77, text)):
        model = model_from_onnx(data + more)
        assert any(e.unknown for e in take_inventory(model, Context(n_rows=150)))
        assert any(e.rows for e in take_inventory(model, Context(n_rows=150), rows=IRIS.data))


def plants(onnx):
    """Places of a graph where a table can stand."""
    rows = np.unique(IRIS.data, axis=0)[:60].astype(np.float32)
    table = onnx.numpy_helper.from_array(rows, "table")
    constant = onnx.helper.make_node("Constant", [], ["z"], value=table)
    branch = onnx.helper.make_graph([], "g", [], [], [table])
    yield "an initializer", lambda g: g.initializer.append(table)
    yield "the same in double", lambda g: g.initializer.append(
        onnx.numpy_helper.from_array(rows.astype(float), "table"))  # fmt: skip
    yield "a constant", lambda g: g.node.append(constant)
    yield "an attribute", lambda g: g.node.append(
        onnx.helper.make_node("Scaler", [], ["z"], offset=rows.ravel().tolist()))  # fmt: skip
    yield "a subgraph", lambda g: g.node.append(
        onnx.helper.make_node("If", ["a"], ["z"], then_branch=branch))  # fmt: skip
    text = "\n".join(" ".join(map(str, row)) for row in rows.tolist())
    yield "a text", lambda g: setattr(g.node[0], "doc_string", text)
    yield "a name", lambda g: setattr(g.input[0].type.tensor_type.shape.dim[0], "dim_param", text)
    yield "a second value", lambda g: g.node[0].attribute[0].strings.append(text.encode())
    lines = ["x" + ",".join(map(str, row)) for row in rows.tolist()]
    yield "x: what a step takes", lambda g: g.node[1].input.extend(lines)
    scaler = [onnx.helper.make_node("Scaler", ["X"], ["z"], offset=r) for r in rows.tolist()]
    yield "steps", lambda g: g.node.extend(scaler)
    yield "x: labels", lambda g: g.node.append(
        onnx.helper.make_node("ZipMap", ["X"], ["z"], classlabels_strings=lines))  # fmt: skip
    yield "sizes of no step", lambda g: g.value_info.extend(
        onnx.helper.make_tensor_value_info(f"v{k}", 1, (10 * row).astype(int).tolist())
        for k, row in enumerate(rows))  # fmt: skip
    yield "the name of a tensor", lambda g: g.node.append(named(onnx, text))
    for key in ("dim_param", "denotation"):
        yield key, lambda g, key=key: setattr(
            g.value_info.add().type.tensor_type.shape.dim.add(dim_value=1), key, text)  # fmt: skip
    for values in ([], [1.0]):
        yield f"sizes of {values}", lambda g, values=values: g.node.extend(
            sized(onnx, [*row, 0], values) for row in (rows * 10).astype(int).tolist())  # fmt: skip
    flags = onnx.TensorProto(data_type=9, dims=[240], raw_data=(rows * 10).astype("u1").tobytes())
    yield "truth values", lambda g: g.node.append(
        onnx.helper.make_node("Constant", [], ["z"], value=flags))  # fmt: skip


def chained(onnx, step):
    """Put steps, one for each row, between what the graph takes and its trees."""

    def put(g):
        new = [step([f"s{k}"], [f"s{k + 1}"], k) for k in range(60)]
        steps = [onnx.helper.make_node("Identity", ["X"], ["s0"]), *new, *g.node]
        next(n for n in steps if n.op_type == "TreeEnsembleClassifier").input[0] = "s60"
        del g.node[:]
        g.node.extend(steps)

    return put


def used_plants(onnx):
    """Places of steps that lead to a result."""
    make = onnx.helper.make_node
    rows = (10 * np.unique(IRIS.data, axis=0)[:60]).round().astype(int).tolist()
    names = ["x" + "_".join(map(str, row)) for row in rows]
    for key in ("offset", "imputed_value_floats", "axes"):
        yield key, chained(onnx, lambda a, b, k, key=key: make("Step", a, b, **{key: rows[k]}))
    yield "names", chained(onnx, lambda a, b, k: make("Identity", a, b, name=names[k]))
    words = [str(value) for row in rows for value in row]
    labels = onnx.helper.make_attribute("classlabels_strings", words)
    yield "labels", lambda g: g.node[-1].attribute[0].CopyFrom(labels)
    typed = [onnx.helper.make_tensor_value_info(name, 1, [None, 1]) for name in names]
    yield "inputs", lambda g: g.input.extend(typed)
    yield (
        "outputs",
        lambda g: (
            g.node.extend(make("Identity", ["probabilities"], [name]) for name in names),
            g.output.extend(typed),
        ),
    )


def test_rows_in_steps_that_are_used_are_found():
    onnx = pytest.importorskip("onnx", reason="needs onnx, which writes the graphs")
    for place, put in used_plants(onnx):
        graph = onnx.load(FOLDER / "forest.onnx")
        put(graph.graph)
        model = model_from_onnx(graph.SerializeToString())
        assert to_release(model).trees
        assert any(e.unknown for e in take_inventory(model, Context(n_rows=150))), place


def named(onnx, name):
    value = onnx.TensorProto(data_type=1, dims=[1], float_data=[1.0], name=name)
    return onnx.helper.make_node("Constant", [], ["z"], value=value)


def sized(onnx, dims, values):
    value = onnx.TensorProto(data_type=1, dims=dims, float_data=values)
    return onnx.helper.make_node("Constant", [], ["z"], value=value)


def test_rows_in_the_graph_are_found():
    onnx = pytest.importorskip("onnx", reason="needs onnx, which writes the graphs")
    for place, put in plants(onnx):
        graph = onnx.load(FOLDER / "forest.onnx")
        put(graph.graph)
        model = model_from_onnx(graph.SerializeToString())
        assert any(e.unknown for e in take_inventory(model, Context(n_rows=150))), place
        tables = (IRIS.data, (10 * IRIS.data).astype(int))
        entries = [e for t in tables for e in take_inventory(model, Context(n_rows=150), rows=t)]
        assert place.startswith("x: ") or any(e.rows for e in entries), place


def ensemble(onnx, mode, tracks, **changes):
    """A tree of one test: column 0 against 1, in float32."""
    lists = {
        "nodes_treeids": [0] * 3, "nodes_nodeids": [7, 2, 5], "nodes_featureids": [0] * 3,
        "nodes_values": [1.0, 0.0, 0.0], "nodes_modes": [mode, "LEAF", "LEAF"],
        "nodes_truenodeids": [2, 0, 0], "nodes_falsenodeids": [5, 0, 0],
        "nodes_missing_value_tracks_true": [tracks, 0, 0], "target_treeids": [0, 0],
        "target_nodeids": [2, 5], "target_ids": [0, 0], "target_weights": [10.0, 20.0],
        "n_targets": 1,
    } | changes  # fmt: skip
    lists = {key: value for key, value in lists.items() if value is not None}
    node = onnx.helper.make_node(
        "TreeEnsembleRegressor", ["X"], ["y"], domain="ai.onnx.ml", **lists
    )
    typed = [onnx.helper.make_tensor_value_info(n, 1, [None, 1]) for n in "Xy"]
    graph = onnx.helper.make_graph([node], "g", typed[:1], typed[1:])
    imports = [onnx.helper.make_opsetid("", 15), onnx.helper.make_opsetid("ai.onnx.ml", 1)]
    return onnx.helper.make_model(graph, opset_imports=imports)


@pytest.mark.parametrize("tracks", [0, 1])
@pytest.mark.parametrize("mode", ["LEQ", "LT", "GT", "GTE", "EQ", "NEQ"])
def test_values_at_a_threshold_go_where_the_operator_says(mode, tracks):
    onnx = pytest.importorskip("onnx", reason="needs onnx, which says where rows go")
    made = ensemble(onnx, f"BRANCH_{mode}", tracks)
    one = np.float32(1)
    x = np.array([-1, 0, np.nextafter(one, one * 0), 1, np.nextafter(one, one * 2), 2], np.float32)
    found = to_release(model_from_onnx(made.SerializeToString()))
    (tree,) = found.trees
    answer = tree.statistics.get(VALUE).values[found.leaves(x[:, None])[:, 0]]
    from onnx.reference import ReferenceEvaluator

    (expected,) = ReferenceEvaluator(made).run(None, {"X": x[:, None]})
    assert answer.tolist() == expected.ravel().tolist()
    # What is missing fails every test but that for another value, unless it is to pass.
    (missing,) = tree.statistics.get(VALUE).values[found.leaves(np.array([[np.nan]]))[:, 0]]
    assert missing == (10.0 if tracks or mode == "NEQ" else 20.0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nodes_truenodeids": [7, 0, 0]}, "does not lead to"),
        ({"nodes_truenodeids": [5, 0, 0]}, "no parent"),
        ({"nodes_truenodeids": [9, 0, 0]}, "not there"),
        ({"nodes_nodeids": [7, 7, 5]}, "one number"),
        ({"nodes_featureids": [2**40, 0, 0]}, "featureids"),
        ({"nodes_featureids": [-1, 0, 0]}, "featureids"),
        ({"nodes_featureids": [0.5, float("nan"), 0.0]}, "featureids"),
        ({"nodes_featureids": ["a", "b", "c"]}, "featureids"),
        ({"nodes_featureids": "abc"}, "featureids"),
        ({"nodes_values": [float("nan"), 0.0, 0.0]}, "NaN"),
        ({"nodes_values": [1.0]}, "1 entries for 3"),
        ({"nodes_modes": ["BRANCH_XX", "LEAF", "LEAF"]}, "nodes_modes"),
        ({"target_nodeids": [7, 5]}, "no leaf"),
        ({"target_ids": [0, 1]}, "target_ids|entry 1 of"),
        ({"target_weights": [float("inf"), 1.0]}, "finite"),
        ({"n_targets": 2**40}, "n_targets"),
        ({"nodes_treeids": None}, "nodes_treeids"),
    ],
)
def test_lists_that_are_no_trees_are_refused(changes, said):
    onnx = pytest.importorskip("onnx", reason="needs onnx, which writes the graphs")
    made = ensemble(onnx, "BRANCH_LEQ", 0, **changes)
    with pytest.raises(BadModel, match=said):
        to_release(model_from_onnx(made.SerializeToString()))


def test_graphs_of_no_tree_or_several_ensembles_are_named(tmp_path):
    onnx = pytest.importorskip("onnx", reason="needs onnx, which writes the graphs")
    made = ensemble(onnx, "BRANCH_LEQ", 0)
    made.graph.node.append(made.graph.node[0])
    with pytest.raises(NotCovered, match="2 tree ensembles"):
        to_release(model_from_onnx(made.SerializeToString()))
    del made.graph.node[:]
    path = tmp_path / "none.onnx"
    path.write_bytes(made.SerializeToString())
    with pytest.raises(NotCovered, match="without a tree ensemble"):
        to_release(path)
    assert "ONNX" in run("audit", path).stderr


def test_the_number_of_rows_follows_from_the_training_rows():
    path, labels = FOLDER / "forest.onnx", IRIS.target
    asked = "labels of leaves do not show how many training rows"
    assert asked in treeleak.audit(path, time_limit=1).reason("reconstruction")
    given = treeleak.audit(path, IRIS.data, labels, time_limit=1)
    assert asked not in given.reason("reconstruction")


def _values(graph, key):
    (node,) = (n for n in graph.graph.node if n.op_type.startswith("TreeEnsemble"))
    (held,) = (a for a in node.attribute if a.name == key)
    return held.ints


def _numbered(graph, keys):
    for key in keys.split():
        values = _values(graph, key)
        values[:] = [3 * x for x in values]


IDLE = {
    "tensors": lambda onnx, g: g.graph.initializer.append(
        onnx.helper.make_tensor("q", 1, [3], [51.0, 35.0, 14.0])),
    "results": lambda onnx, g: [
        g.graph.output.append(onnx.helper.make_tensor_value_info(f"r{k}", 1, [51, 35]))
        or g.graph.node.append(
            onnx.helper.make_node("Identity", [g.graph.output[0].name], [f"r{k}"]))
        for k in range(90)],
    "classes": lambda onnx, g: _values(g, "classlabels_int64s").extend(range(51, 90)),
    "trees": lambda onnx, g: _numbered(g, "nodes_treeids class_treeids"),
    "nodes": lambda onnx, g: _numbered(
        g, "nodes_nodeids class_nodeids nodes_truenodeids nodes_falsenodeids"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "size"), [("nodes_hitrates", None), ("base_values", 32)])
def test_numbers_that_no_prediction_needs_are_unknown(name, size):
    stored = read_model(FOLDER / "forest.onnx")
    (node,) = (n for n in stored.get("graph").get("nodes") if n.name in ENSEMBLES)
    n = size or len(node.get("nodes_modes"))
    node.state[name] = np.resize(load_wine().data, n).astype(np.float32)
    assert any(e.unknown and name in e.names for e in take_inventory(stored, Context()))


@pytest.mark.parametrize("name", IDLE)
def test_what_predictions_do_without_is_left_over(name):
    onnx = pytest.importorskip("onnx", reason="needs onnx, which writes the graphs")
    graph = onnx.load(FOLDER / "forest.onnx")
    IDLE[name](onnx, graph)
    assert model_from_onnx(graph.SerializeToString()).leftovers
