"""Valid files of every format that treeleak reads, to be mutated."""

from __future__ import annotations

import copy
import io
import json
import lzma
import runpy
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from treeleak.release import to_release
from treeleak.release.readers.release_file import release_to_dict
from treeleak.release.readers.unpickling import __main__ as worker

MODELS = Path(__file__).parents[2] / "tests" / "models"


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
    text = X[["dose"]].map(lambda dose: "abcd"[int(dose)])
    return (
        DecisionTreeClassifier(random_state=0).fit(X, y),
        RandomForestClassifier(3, bootstrap=False, max_depth=3, random_state=0).fit(X, y),
        RandomForestClassifier(3, random_state=0).fit(X, y),
        ExtraTreesClassifier(3, max_depth=2, class_weight="balanced", random_state=0).fit(X, y),
        BaggingClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=3, random_state=0).fit(
            X, y
        ),
        DecisionTreeRegressor(max_depth=2, random_state=0).fit(X, y),
        make_pipeline(OneHotEncoder(), DecisionTreeClassifier(random_state=0)).fit(text, y),
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
def stored(*patterns: str) -> tuple[bytes, ...]:
    """Models that lie with the tests: a new one might name its parts anew each time."""
    files = (path for pattern in patterns for path in sorted(MODELS.glob(pattern)))
    return tuple(path.read_bytes() for path in files if path.name != "truth.json")


@cache
def files(*patterns: str) -> tuple[bytes, ...]:
    """Models whose names are of some form."""
    found = (path for pattern in patterns for path in sorted(MODELS.glob(pattern)))
    return tuple(path.read_bytes() for path in found if path.name != "truth.json")


@cache
def folders() -> tuple[bytes, ...]:
    """Models of YDF, each of whose folders is an archive."""
    return tuple(
        _archive({f"m/{file.name}": file.read_bytes() for file in sorted(folder.iterdir())})
        for folder in sorted((MODELS / "ydf").iterdir())
        if folder.is_dir()
    )


def _archive(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for name, content in members.items():
            packed.writestr(zipfile.ZipInfo(name), content)
    return out.getvalue()


@cache
def outcomes() -> tuple[bytes, ...]:
    """Survival and quantile forests, as the process that opens pickles hands them over."""
    out = list(files("outcomes/*.skops"))
    for path in sorted([*MODELS.glob("outcomes/*.pkl"), *MODELS.glob("outcomes/*.joblib")]):
        packed = io.BytesIO()
        with worker.open_compressed(str(path)) as file, zipfile.ZipFile(packed, "w") as archive:
            node = worker.Writer(archive).node(worker.Unpickler(file).load())
            archive.writestr("schema.json", json.dumps(node))
        out.append(packed.getvalue())
    return tuple(out)


@cache
def pmml() -> tuple[bytes, ...]:
    """Trees and forests in PMML, in the manner of two programs."""
    document = runpy.run_path(str(MODELS.parent / "helpers" / "pmml.py"))["document"]
    names, (tree, forest, *_) = list(table()[0]), models()
    return tuple(
        document(model, names, (0, 1), style)
        for model in (tree, forest)
        for style in ("jpmml", "rattle")
    )


@cache
def of_r() -> tuple[bytes, ...]:
    """Objects of R, unpacked: of what is packed, a change would only break the packing."""
    files = sorted((MODELS / "r").glob("*.rds"))
    packed = [lzma.decompress(data) for p in files if (data := p.read_bytes())[:3] == b"\xfd7z"]
    return (*packed, *(p.read_bytes() for p in files if p.stem.endswith(("_plain", "_little"))))


@cache
def pickles() -> tuple[bytes, ...]:
    """Models as pickles, and by joblib: files, too, as memo entries differ between processes."""
    return tuple(
        path.read_bytes()
        for kind in ("pkl", "joblib")
        for path in sorted([*MODELS.glob(f"*/*.{kind}"), *MODELS.glob(f"boosted/*/*.{kind}")])
    )


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
