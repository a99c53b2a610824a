"""Answers that a change of the code's form must not change, each against ``golden.json``.

Where the processor and the libraries are those that the file was made with, everything is
compared. Elsewhere sums are rounded, forests grown and programs solved in other ways: only the
status, the numbers of rows and of proved rows, and, where no other rows meet the counts, the hash
of the rows are compared; no other hash is, and no verdict.

When answers are meant to change: ``python tests/test_golden.py --write`` writes the file anew
(names of cases after it: only these).
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from llvmlite import binding
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import treeleak as tl
from helpers.models import without_seeds
from treeleak.core.errors import PrivacyWarning
from treeleak.learn import DPForestClassifier, GreedyRuleList

HERE = Path(__file__).parent
GOLDEN = HERE / "golden.json"
ENOUGH = 1000.0
"""Seconds, far more than any case takes: what the time left decides is the same everywhere."""
LIBRARIES = ("llvmlite", "numba", "numpy", "ortools", "pandas", "scikit-learn", "scipy")
PASSING = {"seconds", "time", "trace", "versions"}
"""Keys of documents under which times and treeleak's own version stand, and nothing else."""
DIGITS = 6


# --------------------------------------------------------------------------------------- releases


def table(n_rows: int, seed: int) -> tuple[pd.DataFrame, pd.Series, tl.Schema]:
    """Some rows of COMPAS."""
    data = tl.datasets.load_compas()
    X = data.X.sample(n_rows, random_state=seed)
    return X, data.y[X.index], data.schema


def flags(n_rows: int, n_columns: int, seed: int) -> tuple[pd.DataFrame, pd.Series, tl.Schema]:
    """Columns of 0 and 1, and a label that follows from two of them, mostly."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        rng.integers(0, 2, (n_rows, n_columns)), columns=[f"x{i}" for i in range(n_columns)]
    )
    wrong = rng.random(n_rows) < 0.2
    y = pd.Series(np.where((X["x0"] == X["x1"]) ^ wrong, "no", "yes"))
    return X, y, tl.Schema.from_columns(X.columns)


def numbers(n_rows: int, n_columns: int, seed: int) -> tuple[pd.DataFrame, pd.Series]:
    """Raw numbers, so many different ones that the grid of thresholds is too large to list."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        rng.normal(size=(n_rows, n_columns)).round(2), columns=[f"v{i}" for i in range(n_columns)]
    )
    return X, pd.Series(rng.choice(["no", "yes"], n_rows))


def people(n_rows: int, seed: int) -> tuple[pd.DataFrame, pd.Series]:
    """Words and numbers, as they enter a pipeline."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "job": rng.choice(["cook", "nurse", "clerk"], n_rows),
            "age": rng.choice([20, 35, 40, 60], n_rows),
        }
    )
    wrong = rng.random(n_rows) < 0.2
    return X, pd.Series(np.where((X["job"] == "cook") ^ (X["age"] > 36) ^ wrong, "no", "yes"))


def forest(n_trees: int, seed: int = 0, **options: Any) -> RandomForestClassifier:
    return RandomForestClassifier(n_trees, random_state=seed, **options)


def private(
    n_trees: int, depth: int, epsilon: float, data: tuple[pd.DataFrame, pd.Series, tl.Schema]
) -> DPForestClassifier:
    X, y, schema = data
    model = DPForestClassifier(
        n_trees, depth, epsilon, schema=schema, classes=sorted(set(y)), random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # That there is a seed is meant.
        return model.fit(X, y)


# ------------------------------------------------------------------------------------------ cases

CASES: dict[str, Callable[[], Any]] = {}


def case(function: Callable[[], Any]) -> Callable[[], Any]:
    CASES[function.__name__] = function
    return function


@case
def exact_counts() -> Any:
    X, y, schema = table(40, 1)
    model = forest(15, bootstrap=False).fit(X, y)
    return tl.reconstruct(model, schema, time_limit=ENOUGH)


@case
def exact_counts_of_one_table() -> Any:
    """No other rows meet the counts."""
    X, y, schema = flags(25, 5, 22)
    model = forest(10, bootstrap=False).fit(X, y)
    return tl.reconstruct(model, schema, time_limit=ENOUGH)


@case
def exact_counts_of_no_table() -> Any:
    """The rows break a rule of the schema: the counts contradict it."""
    X, y, _ = flags(20, 5, 23)
    schema = tl.Schema([tl.Binary(c) for c in X], [tl.Implies({"x0": 1}, {"x1": 0})])
    return tl.reconstruct(forest(6, bootstrap=False).fit(X, y), schema, time_limit=ENOUGH)


@case
def exact_counts_of_few_trees() -> Any:
    X, y, schema = table(30, 2)
    model = forest(3, max_depth=3, bootstrap=False).fit(X, y)
    return tl.reconstruct(model, schema, time_limit=ENOUGH)


@case
def weights() -> Any:
    X, y, schema = flags(25, 5, 3)
    model = forest(4, max_depth=3, bootstrap=False, class_weight="balanced").fit(X, y)
    return tl.reconstruct(model, schema, time_limit=ENOUGH)


@case
def known_draws() -> Any:
    X, y, schema = table(30, 4)
    model = forest(10).fit(X, y)
    return tl.reconstruct(model, schema, time_limit=ENOUGH)


@case
def known_draws_of_one_table() -> Any:
    X, y, schema = flags(20, 5, 24)
    return tl.reconstruct(forest(20).fit(X, y), schema, time_limit=ENOUGH)


@case
def found_seed() -> Any:
    """The draws follow from a seed of the forest that a search finds."""
    X, y, schema = flags(20, 6, 5)
    model = without_seeds(forest(8, 77).fit(X, y))
    return tl.reconstruct(model, schema, time_limit=ENOUGH, seed_search=200)


@case
def hidden_draws() -> Any:
    X, y, schema = flags(12, 5, 6)
    model = without_seeds(forest(4, max_depth=3).fit(X, y))
    return tl.reconstruct(model, schema, bootstrap="hidden", time_limit=ENOUGH)


@case
def noisy_counts() -> Any:
    """The number of rows is inferred, too."""
    data = flags(25, 5, 7)
    return tl.reconstruct(private(4, 3, 20.0, data), data[2], time_limit=ENOUGH)


@case
def leaf_labels() -> Any:
    """Leaves that name a class, by chance, and say nothing else."""
    path = HERE / "models" / "diffprivlib_0.6.6_private.skops"
    return tl.reconstruct(path, n_rows=60, time_limit=ENOUGH)


@case
def raw_numbers() -> Any:
    X, y = numbers(40, 6, 8)
    model = forest(10, bootstrap=False).fit(X, y)
    schema = tl.Schema([tl.Numeric(c, -5.0, 5.0) for c in X])
    return tl.reconstruct(model, schema, time_limit=ENOUGH)


@case
def raw_numbers_behind_draws() -> Any:
    """Solved at once: where rows have to walk behind draws, it takes more than a minute."""
    X, y = numbers(30, 8, 9)
    model = forest(10).fit(X, y)
    return tl.reconstruct(model, time_limit=ENOUGH)


@case
def one_tree() -> Any:
    X, y, schema = table(50, 10)
    model = DecisionTreeClassifier(max_depth=5, random_state=0).fit(X, y)
    return tl.reconstruct(model, schema, time_limit=ENOUGH)


@case
def known_rows_and_population() -> Any:
    X, y, schema = table(30, 11)
    others = tl.datasets.load_compas().X.drop(X.index).sample(100, random_state=0)
    model = forest(4, max_depth=4, bootstrap=False).fit(X, y)
    return tl.reconstruct(
        model, schema, known_rows=X[:8].assign(label=y), population=others, time_limit=ENOUGH
    )


@case
def known_columns() -> Any:
    X, y, schema = flags(20, 6, 12)
    model = forest(4, max_depth=4).fit(X, y)
    return tl.reconstruct(
        model, schema, known_columns=X[["x1", "x3"]].assign(label=y), time_limit=ENOUGH
    )


@case
def earlier_release() -> Any:
    X, y, schema = flags(24, 6, 13)
    later = forest(4, max_depth=4).fit(X, y)
    earlier = forest(6, 1, max_depth=4).fit(X[:18], y[:18])
    return tl.reconstruct(later, schema, earlier=earlier, time_limit=ENOUGH)


@case
def input_of_a_pipeline() -> Any:
    X, y = people(30, 14)
    step = ColumnTransformer(
        [("job", OneHotEncoder(), ["job"]), ("age", StandardScaler(), ["age"])]
    )
    model = make_pipeline(step, forest(8, bootstrap=False)).fit(X, y)
    return tl.reconstruct(model, time_limit=ENOUGH, space="input")


@case
def all_rows_but_one() -> Any:
    data = X, y, schema = flags(60, 5, 15)
    return tl.informed(private(5, 3, 10.0, data), X[1:], y[1:], schema)


@case
def audit_of_all_rows_but_one() -> Any:
    X, y, schema = flags(40, 5, 16)
    model = forest(4, max_depth=3, bootstrap=False).fit(X, y)
    return tl.informed_audit(model, X, y, schema, n_targets=10)


@case
def audit_of_exact_counts() -> Any:
    X, y, schema = table(40, 17)
    others = tl.datasets.load_compas().X.drop(X.index).sample(400, random_state=0)
    model = forest(8, max_depth=5, bootstrap=False).fit(X, y)
    return tl.audit(
        model, X, y, schema=schema, control=others, sensitive=[X.columns[0]],
        groups=[X.columns[1]], time_limit=ENOUGH,
    )  # fmt: skip


@case
def audit_of_known_draws() -> Any:
    X, y, schema = flags(20, 6, 18)
    return tl.audit(forest(8).fit(X, y), X, y, schema=schema, time_limit=ENOUGH)


@case
def audit_of_noise() -> Any:
    data = X, y, schema = flags(20, 4, 19)
    return tl.audit(private(3, 2, 20.0, data), X, y, schema=schema, n_rows=20, time_limit=ENOUGH)


@case
def audit_of_a_tree() -> Any:
    X, y, schema = table(40, 20)
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y)
    return tl.audit(model, X, y, schema=schema, time_limit=ENOUGH)


@case
def audit_of_rules() -> Any:
    X, y, schema = table(80, 21)
    return tl.audit(GreedyRuleList(5, min_support=0.05).fit(X, y), X, y, schema=schema)


# ----------------------------------------------------------------------------------------- hashes


def hashed(told: Any) -> str:
    text = json.dumps(told, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def listed(values: pd.DataFrame | pd.Series | None, digits: int | None = None) -> Any:
    """Names and values in order: numbers as floats, as types are pandas' affair; no index."""
    if values is None:
        return None
    if isinstance(values, pd.Series):
        values = values.to_frame("")

    def written(value: Any) -> str:
        if isinstance(value, (str, bool, np.bool_)):
            return str(value)
        number = float(value) if digits is None else round(float(value), digits)
        return repr(number + 0.0)  # No -0.0.

    rows = values.astype(object).to_numpy()
    return [[str(c) for c in values.columns], [[written(v) for v in row] for row in rows]]


def lasting(told: Any) -> Any:
    """What of a document changes neither with the pace of a machine nor with a new version."""
    if isinstance(told, dict):
        return {k: lasting(v) for k, v in told.items() if k not in PASSING}
    if isinstance(told, list):
        return [lasting(v) for v in told]
    return repr(round(told, DIGITS) + 0.0) if isinstance(told, float) else told


def of_rows(found: tl.Reconstruction) -> dict[str, Any]:
    proved = None if found.proved is None else found.proved.to_numpy()
    sure = [listed(found.confidence, DIGITS), listed(found.label_confidence, DIGITS)]
    return {
        "status": found.status,
        "n_rows": found.n_rows,
        "n_proved": 0 if proved is None else int(proved.sum()),
        "rows": hashed([listed(found.X), listed(found.y)]),
        "confidence": hashed(sure),
        "proved": hashed(None if proved is None else np.flatnonzero(proved).tolist()),
        # Ends of intervals, known values, notes, numbers of the problem: what else is told.
        "document": hashed(lasting(json.loads(found.to_json(include_rows=True)))),
    }


def of_guess(found: tl.InformedGuess) -> dict[str, Any]:
    return {
        "status": found.status,
        "n_rows": 1,
        "n_proved": int(found.status == "unique"),
        "rows": hashed([listed(found.row), str(found.label)]),
        "confidence": hashed([listed(found.confidence, DIGITS), round(found.bits, DIGITS)]),
        "document": hashed(lasting(json.loads(found.to_json(include_rows=True)))),
    }


def of_targets(found: tl.InformedAudit) -> dict[str, Any]:
    return {
        "status": None,
        "n_rows": len(found.targets),
        "n_proved": None,
        "rows": hashed(found.targets.index.tolist()),
        "confidence": hashed(listed(found.targets, DIGITS)),
        "document": hashed(lasting(json.loads(found.to_json(include_rows=True)))),
    }


def of_audit(found: tl.Audit) -> dict[str, Any]:
    rebuilt = found.reconstruction
    rows = {"status": None, "n_rows": 0, "n_proved": 0} if rebuilt is None else of_rows(rebuilt)
    return {
        **rows,
        "verdict": found.verdict,
        "internal": hashed(lasting(json.loads(found.to_json("internal")))),
        "releasable": hashed(lasting(json.loads(found.to_json("releasable")))),
    }


OF = {
    tl.Reconstruction: of_rows,
    tl.InformedGuess: of_guess,
    tl.InformedAudit: of_targets,
    tl.Audit: of_audit,
}


def answered(name: str) -> dict[str, Any]:
    found = CASES[name]()
    return OF[type(found)](found)


def made_with() -> dict[str, str]:
    """What the last digits, the forests and the order of equal answers depend on."""
    return {"cpu": binding.get_host_cpu_name(), **{name: version(name) for name in LIBRARIES}}


# ------------------------------------------------------------------------------------------ tests


def everywhere(answer: Mapping[str, Any]) -> list[str]:
    """Fields that must be the same with any processor and any versions."""
    unique = answer["status"] == "unique"
    return ["status", "n_rows", "n_proved", *(["rows"] if unique else [])]


def golden() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return found


def test_every_case_is_written_down():
    assert list(golden()["cases"]) == sorted(CASES)


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_answer_is_the_same(name):
    written = golden()
    was, now = written["cases"][name], answered(name)
    fields = everywhere(was)
    if written["made_with"] == made_with():
        fields = [*was, *(now.keys() - was.keys())]
    pairs = {field: (was.get(field), now.get(field)) for field in fields}
    changed = {field: f"{a} is now {b}" for field, (a, b) in pairs.items() if a != b}
    assert not changed, f"{name}: {changed}"


def main(asked: list[str]) -> None:
    """Write the file anew, or only the answers asked for."""
    cases = golden()["cases"] if asked else {}
    for name in asked or sorted(CASES):
        begin = time.perf_counter()
        cases[name] = answered(name)
        seconds, status = time.perf_counter() - begin, cases[name]["status"]
        sys.stdout.write(f"{name}: {seconds:.1f} s, {status}\n")
        sys.stdout.flush()
    told = {"made_with": made_with(), "cases": dict(sorted(cases.items()))}
    GOLDEN.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] != ["--write"]:
        sys.exit(__doc__)
    main(sys.argv[2:])
