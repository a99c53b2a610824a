"""Files that somebody damaged or made on purpose: a clear error, whatever they hold."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

import treeleak
from helpers import cli
from helpers.mutations import FORMATS, SCHEMAS, csvs, releases, rules
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.core.errors import TreeleakError
from treeleak.release import StoredObject
from treeleak.release.readers.release_file import release_from_dict

MUTATIONS = {"skops": 60, "R": 150}
"""Of formats that take longer, or are only bytes; of the others, 80."""


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.filterwarnings("ignore")
def test_changed_files_are_read_or_refused(name: str, tmp_path: Path):
    ending, seeds, mutate, use = FORMATS[name]
    path, ends = tmp_path / f"case{ending}", set()
    for index in range(MUTATIONS.get(name, 80)):
        rng = random.Random(f"7/{name}/{index}")
        path.write_bytes(mutate(rng, rng.choice(seeds()), seeds()))
        try:
            use(path)
            ends.add("accepted")
        except TreeleakError:
            ends.add("refused")
    assert "refused" in ends


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.filterwarnings("ignore")
def test_files_that_nobody_changed_are_read(name: str, tmp_path: Path):
    ending, seeds, _, use = FORMATS[name]
    path = tmp_path / f"seed{ending}"
    path.write_bytes(seeds()[0])
    use(path)


def audited(model: Path, *options: str | Path) -> tuple[int, str]:
    """Exit status and what was said on the error stream, without what nobody foresaw."""
    done = cli.run("audit", model, *options, "--quiet", "--time-limit", 5)
    return done.exit_code, done.stderr


@pytest.fixture
def release() -> dict:
    return json.loads(releases()[1])


def test_a_model_without_trees(tmp_path: Path, release: dict):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(release | {"trees": []}))
    assert audited(path) == (2, f"treeleak: {path}: trees is empty\n")


def noisy(release: dict, epsilon: float, **told: object) -> dict:
    """The same as if its leaves carried noise: nothing else counts rows then."""
    for tree in release["trees"]:
        del tree["totals"], tree["distinct"]
        for node, child in enumerate(tree["left"]):
            if child != -1:
                tree["counts"][node] = [0, 0]
    return release | {"noise": {"law": "discrete-laplace", "epsilon": epsilon}} | told


def test_noise_on_the_counts_of_no_rows(tmp_path: Path, release: dict):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(noisy(release, 1.0, n_rows=0)))
    # There is nothing to rebuild: not assessed.
    assert audited(path)[0] == 2


@pytest.mark.slow
def test_noisy_counts_of_more_rows_than_are_rebuilt(tmp_path: Path, release: dict):
    path = tmp_path / "model.json"
    told = noisy(release, 1e-4, n_rows=None)
    for tree in told["trees"]:
        tree["counts"][tree["left"].index(-1)] = [2_500_000, -3_000]
    path.write_text(json.dumps(told))
    # With an answer, or without one in time: what counts is that nothing breaks.
    assert audited(path)[0] in (0, 3)


@pytest.mark.parametrize("key", ["counts", "totals", "distinct"])
def test_nodes_that_count_other_rows_than_their_children(tmp_path: Path, release: dict, key: str):
    release["trees"][1][key][0] = [1, 2] if key == "counts" else 3
    path, table = tmp_path / "model.json", tmp_path / "train.csv"
    path.write_text(json.dumps(release))
    table.write_bytes(csvs()[0])
    for options in ((), ("--train", table, "--label", "label")):
        status, said = audited(path, *options)
        assert status == 2
        assert f"{path}: tree 1, node 0: {key} hold" in said


@pytest.mark.parametrize("number", [-(2**63), 2**63, 2**64, 10**300])
@pytest.mark.parametrize("key", ["is", "above", "upto", "in"])
def test_rules_that_name_whole_numbers_beyond_floats(tmp_path: Path, number: int, key: str):
    changed = json.loads(rules()[0])
    tested = {"column": "age", key: [number, 0] if key == "in" else number}
    changed["rules"][0]["if"] = [tested]
    path = tmp_path / "rules.json"
    path.write_text(json.dumps(changed))
    status, said = audited(path)
    assert status == 2
    assert f"rule 1: condition 1: {key}" in said
    assert "number (whole ones to 2^53)" in said


def test_a_table_with_a_very_long_integer(tmp_path: Path, release: dict):
    path, table = tmp_path / "model.json", tmp_path / "train.csv"
    path.write_text(json.dumps(release))
    lines = csvs()[0].decode().splitlines()
    for digits, said in ((30, "counts"), (400, "too large for a float"), (5_000, "age")):
        lines[3] = "9" * digits + lines[3][lines[3].index(",") :]
        table.write_text("\n".join(lines))
        assert audited(path, "--train", table, "--label", "label")[0] == 2, said


def test_ordinal_bounds_beyond_whole_floats(tmp_path: Path, release: dict):
    path, schema = tmp_path / "model.json", tmp_path / "schema.toml"
    path.write_text(json.dumps(release))
    for bound in ("9" * 300, str(2**63 - 1), "0x" + "f" * 4000):
        schema.write_text(SCHEMAS[0].replace("high = 60", f"high = {bound}"))
        status, said = audited(path, "--schema", schema)
        assert status == 2
        assert str(schema) in said


def test_an_epsilon_of_400_digits_in_a_policy(tmp_path: Path, release: dict):
    path, policy = tmp_path / "model.json", tmp_path / "policy.toml"
    path.write_text(json.dumps(release))
    policy.write_text(f"[limits]\nepsilon = 1{'0' * 400}\n")
    status, said = audited(path, "--policy", policy)
    assert status == 2
    assert f"{policy}: limits.epsilon: must be a number" in said


def test_marginals_that_no_reader_could_nest_or_hold(tmp_path: Path, release: dict):
    path, shares = tmp_path / "model.json", tmp_path / "shares.json"
    path.write_text(json.dumps(release))
    for text in ("[" * 100_000, '{"age": {"53": 1' + "0" * 400 + "}}", '{"flag": 1e999}'):
        shares.write_text(text)
        status, said = audited(path, "--population", shares)
        assert status == 2
        assert str(shares) in said


def test_a_table_too_large_to_be_rebuilt(release: dict):
    wide = {"columns": [f"c{i}" for i in range(1_000)], "counts_are": "rows", "n_rows": None}
    tree = {"feature": [-1], "threshold": [None], "left": [-1], "right": [-1]}
    made = release_from_dict(release | wide | {"trees": [tree | {"counts": [[200_000, 0]]}]})
    found = treeleak.audit(made)
    assert found.reconstruction is None
    assert "at most 100,000,000 values are rebuilt" in dict(found.not_assessed)["reconstruction"]


def test_an_array_of_no_dimension_where_a_list_should_be():
    stored = StoredObject(
        "sklearn.tree._classes.DecisionTreeClassifier", {"sample_weight": np.array(3)}
    )
    assert take_inventory(stored, Context(None, None, None))
