"""Every format that treeleak reads: valid files, how they change, and what is done with them."""

from __future__ import annotations

import copy
import io
import json
import pickle
import random
import tomllib
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import skops.io
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import treeleak
from benchmarks.mutate import Mutator, of_archive, of_bytes, of_json, of_text
from treeleak.audit import Audit
from treeleak.audit.counts import count_leaves, count_rules
from treeleak.audit.inventory import take_inventory
from treeleak.audit.rules import Context
from treeleak.cli.tables import Beside, Tables, training_rows
from treeleak.errors import NotCovered
from treeleak.infer import check_schema, infer_rule_schema, suggest_schema
from treeleak.release import Release, RuleList, StoredObject, read_j48, read_model, to_release
from treeleak.release import _unpickle_worker as worker
from treeleak.release.exchange import release_from_dict, release_to_dict
from treeleak.release.j48 import read_arff_header
from treeleak.report import render_html
from treeleak.schema import Ordinal, Schema

__all__ = ["FORMATS", "Format", "Use"]

J48 = Path(__file__).parents[1] / "tests" / "models" / "j48"
TIME_LIMIT = 0.5
"""Seconds of an audit."""

Use = Callable[[Path, random.Random], Callable[[], None]]
"""Reads and checks a file; gives what audits it."""


@dataclass(frozen=True)
class Format:
    """A format.

    Attributes
    ----------
    suffix : str
    seeds : callable
        Valid files.
    mutate : Mutator
    use : Use
    """

    suffix: str
    seeds: Callable[[], Sequence[bytes]]
    mutate: Mutator
    use: Use


@cache
def table() -> tuple[pd.DataFrame, pd.Series]:
    """A small table: two numbers, a flag, a group of two columns."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.integers(18, 60, 14), "dose": rng.integers(0, 4, 14)})
    X["flag"], X["g_a"] = rng.integers(0, 2, 14), rng.integers(0, 2, 14)
    X["g_b"] = 1 - X["g_a"]
    return X.astype(float), pd.Series(rng.integers(0, 2, 14), name="label")


@cache
def models() -> tuple[Any, ...]:
    """Small models of each kind."""
    X, y = table()
    text = X.assign(dose=X["dose"].map({0: "a", 1: "b", 2: "c", 3: "d"}))
    return (
        DecisionTreeClassifier(random_state=0).fit(X, y),
        RandomForestClassifier(3, bootstrap=False, max_depth=3, random_state=0).fit(X, y),
        RandomForestClassifier(3, random_state=0).fit(X, y),
        ExtraTreesClassifier(3, max_depth=2, class_weight="balanced").fit(X, y),
        BaggingClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=3).fit(X, y),
        DecisionTreeRegressor(max_depth=2).fit(X, y),
        make_pipeline(OneHotEncoder(handle_unknown="ignore"), DecisionTreeClassifier()).fit(
            text[["dose"]], y
        ),
    )


@cache
def releases() -> tuple[bytes, ...]:
    """Releases with every kind of sampling, noise and counts."""
    plain = [release_to_dict(to_release(m)) for m in models()]
    exact, drawn = plain[1], plain[2]
    kinds: list[dict[str, Any]] = [
        {"kind": "disjoint"}, {"kind": "unknown", "why": "x"}, {"kind": "bootstrap"},
        {"kind": "bootstrap", "n_draws": 14, "rows_between": [10, 20], "hidden": "x"},
        {"kind": "bootstrap", "n_draws": 14, "row_weights": [1.0] * 14, "columns_drawn": 2},
    ]  # fmt: skip
    out = [*plain, *(drawn | {"sampling": kind, "n_rows": None} for kind in kinds)]
    laws: list[dict[str, Any]] = [
        {"law": "discrete-laplace", "epsilon": 1.0},
        {"law": "laplace", "epsilon": 0.5, "rounding": "none"},
        {"law": "gaussian", "sigma": 2.0, "rounding": "nearest"},
    ]
    out += [exact | {"noise": law, "n_rows": n} for law in laws for n in (None, 14)]
    named = copy.deepcopy(exact)
    for tree in named["trees"]:
        tree.pop("totals", None), tree.pop("distinct", None)
        tree["counts"] = [[1, 0] if a >= b else [0, 1] for a, b in tree["counts"]]
    rule = {"law": "label", "rule": "exponential", "scale": 1.0}
    out += [named | {"counts_are": "labels", "noise": rule}]
    bare = copy.deepcopy(exact) | {"classes": [], "counts_are": "none"}
    for tree in bare["trees"]:
        tree.pop("counts")
    out += [bare, exact | {"levels": {"dose": ["a", "b", "c", "d"]}, "maybe_missing": ["age"]}]
    out += [exact | {"one_hot": {"g": ["g_a", "g_b"]}, "thresholds_are": "midpoints"}]
    return tuple(json.dumps(release).encode() for release in out)


@cache
def archives() -> tuple[bytes, ...]:
    """The models as skops archives."""
    return tuple(skops.io.dumps(model) for model in models())


@cache
def pickles() -> tuple[bytes, ...]:
    """The models as pickles of several protocols, and by joblib."""
    out = [pickle.dumps(m, protocol) for m in models() for protocol in (2, 4, 5)]
    for compressed in (0, 3):
        file = io.BytesIO()
        joblib.dump(models()[1], file, compress=compressed)
        out.append(file.getvalue())
    return tuple(out)


@cache
def rules() -> tuple[bytes, ...]:
    """Rule lists and rule sets."""
    young = {"column": "age", "above": 18, "upto": 30.5}
    flag, job = {"column": "flag", "is": 1}, {"column": "job", "in": ["x", "y"], "not": True}
    head: dict[str, Any] = {"format": "treeleak-rules", "version": 1, "classes": [0, 1]}
    counted = [
        {"if": [young, flag], "then": 1, "counts": [1, 3]},
        {"if": [{"column": "flag", "in": [0, 1]}, young], "then": 0, "counts": [4, 0]},
    ]
    bare = [{"if": [c], "then": 1} for c in (flag, young)]
    columns = {"columns": ["age", "flag"]}
    out = [
        head | columns | {"rules": counted, "default": {"then": 0, "counts": [3, 3]}, "n_rows": 14},
        head | columns | {"rules": bare, "default": {"then": 0}, "notes": ["x"]},
        head | columns | {"rules": bare, "default": {"then": 0, "counts": [4, 0]},
                          "ordered": False, "covered": [4, 6]},
        head | {"columns": ["job", "flag"], "rules": [{"if": [job, flag], "then": 1}],
                "default": {"then": 0}},
    ]  # fmt: skip
    return tuple(json.dumps(rule).encode() for rule in out)


SCHEMAS = (
    """version = 1
[[attribute]]
kind = "ordinal"
name = "age"
low = 18
high = 60
[[attribute]]
kind = "ordinal"
name = "dose"
low = 0
high = 3
missing = true
[[attribute]]
kind = "binary"
name = "flag"
[[attribute]]
kind = "one-hot"
name = "g"
columns = ["g_a", "g_b"]
[[rule]]
kind = "implies"
given = { flag = 1 }
then = { g_a = 0 }
""",
    """version = 1
[[attribute]]
kind = "numeric"
name = "age"
low = 18.0
high = 60.5
[[attribute]]
kind = "categorical"
name = "dose"
values = [0, 1, 2, 3]
labels = ["a", "b", "c", "d"]
[[attribute]]
kind = "binary"
name = "flag"
[[attribute]]
kind = "one-hot"
name = "g"
columns = ["g_a", "g_b"]
at_most_one = true
[[rule]]
kind = "linear"
coefficients = { flag = 1.0, dose = 2.5 }
low = 0
high = 100
[[rule]]
kind = "at-most"
columns = ["flag", "g_a"]
k = 1
""",
)
POLICIES = (
    'name = "a"\nthreshold = 10\n[limits]\nleak_shown = false\nsmall_leaves = 0.5\n',
    "threshold = 5\n[limits]\nstored_rows = 0\nepsilon = 2.5\nproved_rows = 0.01\nexact_rows = 1\n"
    "smallest_leaf = 3\nleft_to_know = 0.2\n",
)


@cache
def csvs() -> tuple[bytes, ...]:
    """The table, with labels; and with what else a table may hold."""
    X, y = table()
    whole = X.astype(int).assign(label=y)
    more = whole.assign(age=X["age"] + 0.25, dose=X["dose"].where(X["dose"] > 0), job="x y")
    numbered = whole.head(5).rename_axis("row")
    tables = ((whole, 0), (more, 0), (numbered, 1), (more.drop(columns="job"), 0))
    narrow = whole[["age", "flag", "label"]]
    return tuple(t.to_csv(index=i).encode() for t, i in (*tables, (whole, 0), (narrow, 0)))


@cache
def marginals() -> tuple[bytes, ...]:
    """Shares of the values of columns."""
    X, _ = table()
    shares = {c: {f"{v:g}": p for v, p in X[c].value_counts(normalize=True).items()} for c in X}
    return (json.dumps(shares).encode(), json.dumps({"age": shares["age"]}).encode())


def of_release(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change a release; sometimes leaves, with nodes above that fit: what adds up is believed."""
    if rng.random() < 0.6:
        return of_json(rng, data, others)
    release = json.loads(data)
    for _ in range(rng.choice((1, 2, 8))):
        tree = rng.choice(release["trees"])
        leaf = rng.choice([i for i, child in enumerate(tree["left"]) if child < 0])
        number = rng.choice((0, 1, 2, 7, 100, 10**6, 2 * 10**6, 10**8, -3, 0.5))
        for key in {"counts", "totals", "distinct"} & set(tree):
            own = tree[key][leaf]
            if isinstance(own, list) and own:
                own[rng.randrange(len(own))] = number
            elif not isinstance(own, list):
                tree[key][leaf] = number
    for tree in release["trees"]:
        inner = [i for i, child in enumerate(tree["left"]) if child >= 0]
        for key in {"counts", "totals", "distinct"} & set(tree):
            for i in reversed(inner):
                one, two = tree[key][tree["left"][i]], tree[key][tree["right"][i]]
                both = (
                    [a + b for a, b in zip(one, two, strict=True)]
                    if isinstance(one, list)
                    else one + two
                )
                tree[key][i] = both
    if rng.random() < 0.5:
        release["n_rows"] = None
    if rng.random() < 0.3:
        release["sampling"] = {"kind": rng.choice(("all", "bootstrap", "disjoint", "unknown"))}
    changed = json.dumps(release).encode()
    return of_json(rng, changed, others) if rng.random() < 0.3 else changed


def _texts(suffix: str) -> tuple[bytes, ...]:
    return tuple(p.read_bytes() for p in sorted(J48.glob(f"*{suffix}")))


@cache
def _plain_schema() -> Schema:
    return Schema(Schema.from_dict(tomllib.loads(SCHEMAS[0])).attributes)


@cache
def _base() -> Release:
    return release_from_dict(json.loads(releases()[1]))


@cache
def _audit_of_base(threshold: int) -> Audit:
    return treeleak.audit(_base(), *table(), time_limit=5, threshold=threshold)


def _shown(audit: Audit) -> None:
    """Write an audit in all ways, as a command does."""
    audit.to_json("releasable")
    audit.to_json("internal")
    render_html(audit, "releasable")


def _model(path: Path, rng: random.Random) -> Callable[[], None]:
    content = read_model(path)
    return _checked(content, path, rng)


def _checked(content: Any, path: Path, rng: random.Random) -> Callable[[], None]:
    if isinstance(content, RuleList):
        with suppress(NotCovered):
            infer_rule_schema(content)
        with suppress(NotCovered):
            count_rules(content)
    else:
        release = None
        with suppress(NotCovered):
            release = to_release(content)
        drawn = None if release is None else release.sampling.kind != "all"
        take_inventory(content, Context(getattr(release, "n_rows", None), drawn, None))
        if release is not None:
            suggest_schema(release)
            with suppress(NotCovered):
                count_leaves(release)
    X, y = table() if rng.random() < 0.4 else (None, None)
    model = content if isinstance(content, StoredObject) else path
    given = None
    if rng.random() < 0.3:
        given = _plain_schema()
        if isinstance(content, RuleList):
            given = Schema([Ordinal(c, 0, 100) for c in content.columns])
    return lambda: _shown(treeleak.audit(model, X, y, schema=given, time_limit=TIME_LIMIT))


def _pickle(path: Path, rng: random.Random) -> Callable[[], None]:
    """Unpickle in this process, by the functions of the one that is apart."""
    out = path.with_suffix(".zip")
    try:
        with worker.opened(str(path)) as file:
            model = worker.Unpickler(file).load()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("schema.json", json.dumps(worker.Writer(archive).node(model)))
    except Exception as error:
        # There, whatever a hostile file provokes is one line.
        raise treeleak.errors.BadModel(str(error)[:300]) from error
    return _checked(read_model(out), out, rng)


def _arff(path: Path, rng: random.Random) -> Callable[[], None]:
    read_arff_header(path)
    release = read_j48(J48 / rng.choice(("loans.txt", "three.txt", "quoted.txt")), path)
    return _checked(release, release, rng)  # type: ignore[arg-type]


def _j48(path: Path, rng: random.Random) -> Callable[[], None]:
    release = read_j48(path)
    return _checked(release, release, rng)  # type: ignore[arg-type]


def _schema(path: Path, rng: random.Random) -> Callable[[], None]:
    schema = Schema.read(path)
    Schema.from_dict(schema.to_dict())
    schema.to_toml()
    check_schema(schema, _base())
    X, y = table() if rng.random() < 0.4 else (None, None)
    return lambda: _shown(treeleak.audit(_base(), X, y, schema=schema, time_limit=TIME_LIMIT))


def _policy(path: Path, rng: random.Random) -> Callable[[], None]:  # noqa: ARG001
    policy = treeleak.read_policy(path)

    def judged() -> None:
        audit = _audit_of_base(10 if policy.threshold == 10 else 5)
        treeleak.judge(audit, policy).to_dict()

    return judged


def _csv(path: Path, rng: random.Random) -> Callable[[], None]:
    model = path.with_name("base.json")
    if not model.exists():
        model.write_bytes(releases()[1])
    roles = ("train", "train", "control", "known_rows", "known_columns", "population")
    role = "population" if path.suffix == ".json" else rng.choice(roles)
    schema = _plain_schema()
    tables = Tables(model, schema, "label", trust_pickle=False)
    audit = partial(treeleak.audit, schema=schema, time_limit=TIME_LIMIT)
    X, y = table()
    if role == "train":
        X, y = training_rows(tables, path, ())
        return lambda: _shown(audit(model, X, y))
    if role == "control":
        control = tables.read(path).drop(columns="label", errors="ignore")
        return lambda: _shown(audit(model, X, y, control=control))
    files = {"known_rows": None, "known_columns": None, "population": None, "earlier": None}
    beside = Beside(**(files | {role: path}))
    given = beside.read(tables)

    def audited() -> None:
        with beside.named():
            _shown(audit(model, X, y, **given))

    return audited


FORMATS: dict[str, Format] = {
    "release": Format(".json", releases, of_release, _model),
    "skops": Format(".skops", archives, of_archive, _model),
    "pickle": Format(".pkl", pickles, of_bytes, _pickle),
    "rules": Format(".json", rules, of_json, _model),
    "j48": Format(".txt", lambda: _texts(".txt"), of_text, _j48),
    "arff": Format(".arff", lambda: _texts(".arff"), of_text, _arff),
    "schema": Format(".toml", lambda: [s.encode() for s in SCHEMAS], of_text, _schema),
    "schema as JSON": Format(
        ".json",
        lambda: [json.dumps(tomllib.loads(s)).encode() for s in SCHEMAS],
        of_json,
        _schema,
    ),
    "policy": Format(".toml", lambda: [s.encode() for s in POLICIES], of_text, _policy),
    "csv": Format(".csv", csvs, of_text, _csv),
    "marginals": Format(".json", marginals, of_json, _csv),
}
