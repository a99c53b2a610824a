"""Folders and archives with rows beside a model, and clean ones: which are found, with and without
the training rows. A line for each; floor: all found, and no finding on a clean one.
"""

from __future__ import annotations

import io
import json
import pickle
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import skops.io
from sklearn.ensemble import RandomForestClassifier

from experiments.benchmarks.frame import CONSOLE, options, show
from experiments.benchmarks.ohdsi_bundles import write_bundle
from treeleak.auditing.case import AuditRequest, AuditResults, Case
from treeleak.auditing.prepare import open_model, prepare_case
from treeleak.core.clock import Clock

Make = Callable[[Path, RandomForestClassifier, pd.DataFrame], Path | None]
Held = make_dataclass("Held", ["model", "table"])
Held.__module__ = __name__


@dataclass(frozen=True)
class Seen:
    """What the inventory says of a folder."""

    stored: bool
    unknown: bool


def a_model(seed: int = 0) -> tuple[RandomForestClassifier, pd.DataFrame, np.ndarray]:
    """Train a small forest that discloses little itself."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {f"c{k}": rng.integers(0, 7 + k, 80) for k in range(5)} | {"age": rng.normal(50, 9, 80)}
    ).round(2)
    y = rng.integers(0, 2, len(table))
    return RandomForestClassifier(5, max_depth=3, random_state=seed).fit(table, y), table, y


def inventory_of(source: Path, X: pd.DataFrame | None) -> Seen:
    """Take the inventory of a source, without any attack."""
    (seen,) = inventories_of(source, (X,))
    return seen


def inventories_of(source: Path, given: Sequence[pd.DataFrame | None]) -> list[Seen]:
    """Take the inventory of a source that is read once, with each of some tables or without."""
    *_, content = open_model(source, True)
    return [_inventory(content, X) for X in given]


def _inventory(content: Any, X: pd.DataFrame | None) -> Seen:
    beside = {"known_rows": None, "known_columns": None, "population": None}
    request = AuditRequest(
        X=X, y=None, schema=None, seed=0, bootstrap="auto", seed_search=0,
        beside=beside, n_rows=None, control=None, threshold=10, sensitive=(),
        groups=(), trust_pickle=True, progress=None,
    )  # fmt: skip
    found = AuditResults(schema_provided=False)
    entries = prepare_case(Case(request, Clock(600.0), content, found)).found.inventory
    return Seen(any(e.rows for e in entries), any(e.unknown for e in entries))


# ------------------------------------------------------------------------------- planted


def _skops(folder: Path, model: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    skops.io.dump(model, folder / "model.skops")


def _mlflow(name: str, text: Callable[[pd.DataFrame], str]) -> Make:
    def make(folder: Path, model: Any, table: pd.DataFrame) -> None:
        mlflow(folder, model)
        (folder / name).write_text(text(table))

    return make


def mlflow(folder: Path, model: Any) -> None:
    """Write a folder as MLflow does."""
    _skops(folder, model)
    columns = [{"type": "double", "name": c, "required": True} for c in model.feature_names_in_]
    (folder / "MLmodel").write_text(
        "artifact_path: model\nflavors:\n  python_function:\n    env:\n      conda: conda.yaml\n"
        "    loader_module: mlflow.sklearn\n    model_path: model.skops\n"
        "    python_version: 3.11.2\n"
        "  sklearn:\n    pickled_model: model.skops\n    sklearn_version: 1.9.1\n"
        f"mlflow_version: 2.14.1\nmodel_uuid: 0123456789abcdef\nsignature:\n"
        f"  inputs: '{json.dumps(columns)}'\n  params: null\n"
        "utc_time_created: '2026-05-01 10:00:00.000000'\n"
    )
    (folder / "requirements.txt").write_text("mlflow==2.14.1\nscikit-learn==1.9.1\nskops==0.16.0\n")
    (folder / "conda.yaml").write_text(
        "channels:\n- conda-forge\ndependencies:\n- python=3.11.2\n- pip<=24.0\n- pip:\n"
        "  - mlflow==2.14.1\nname: mlflow-env\n"
    )


def _beside(name: str, write: Callable[[Path, pd.DataFrame], None]) -> Make:
    def make(folder: Path, model: Any, table: pd.DataFrame) -> None:
        _skops(folder, model)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write(folder / name, table)

    return make


def _pickled(value: Callable[[Any, pd.DataFrame], Any], dump: Any = pickle.dumps) -> Make:
    def make(folder: Path, model: Any, table: pd.DataFrame) -> Path:
        folder.mkdir(parents=True)
        place = folder / "model.pkl"
        if dump is pickle.dumps:
            place.write_bytes(pickle.dumps(value(model, table)))
        else:
            dump(value(model, table), place)
        return place

    return make


def _as_text(place: Path, text: str) -> None:
    place.write_text(text)


def _huggingface(folder: Path, model: Any, table: pd.DataFrame | None) -> None:
    _skops(folder, model)
    sklearn: dict[str, Any] = {
        "columns": list(model.feature_names_in_), "environment": ["scikit-learn"],
        "model": {"file": "model.skops"}, "model_format": "skops",
    }  # fmt: skip
    if table is not None:
        sklearn["example_input"] = table.head(3).to_dict(orient="list")
    (folder / "config.json").write_text(json.dumps({"sklearn": sklearn}, indent=2))
    (folder / "README.md").write_text("---\nlibrary_name: sklearn\n---\n# A model\n")


def _packed(make: Make, kind: str) -> Make:
    def packed(folder: Path, model: Any, table: pd.DataFrame) -> Path:
        inner = folder / "inner"
        made = make(inner, model, table) or inner
        files = sorted(
            p for p in (made if made.is_dir() else made.parent).rglob("*") if p.is_file()
        )
        place = folder / f"model.{kind}"
        if kind == "zip":
            with zipfile.ZipFile(place, "w") as archive:
                for file in files:
                    archive.writestr(file.relative_to(inner).as_posix(), file.read_bytes())
        else:
            with tarfile.open(place, "w:gz" if kind != "tar" else "w") as tar:
                for file in files:
                    info = tarfile.TarInfo(file.relative_to(inner).as_posix())
                    info.size = file.stat().st_size
                    tar.addfile(info, io.BytesIO(file.read_bytes()))
        return place

    return packed


def _autogluon(folder: Path, model: Any, table: pd.DataFrame | None) -> None:
    (folder / "models" / "RandomForest").mkdir(parents=True)
    (folder / "models" / "RandomForest" / "model.pkl").write_bytes(pickle.dumps({"model": model}))
    (folder / "models" / "trainer.pkl").write_bytes(pickle.dumps({"best": "RandomForest"}))
    (folder / "predictor.pkl").write_bytes(pickle.dumps({"label": "y"}))
    if table is not None:
        (folder / "utils" / "data").mkdir(parents=True)
        table.to_pickle(folder / "utils" / "data" / "X.pkl")


def _ohdsi(name: str, text: Callable[[pd.DataFrame], str]) -> Make:
    def make(folder: Path, model: Any, table: pd.DataFrame) -> None:
        folder.mkdir(parents=True)
        write_bundle(folder / "plp", model, table)
        (folder / "plp" / name).write_text(text(table))

    return make


def _sacro(folder: Path, model: Any, table: pd.DataFrame | None) -> None:
    _skops(folder, model)
    (folder / "target.yaml").write_text("model_path: model.skops\nmodel_type: SklearnModel\n")
    if table is not None:
        (folder / "X_train.pkl").write_bytes(pickle.dumps(table.to_numpy()))


def _nested(folder: Path, model: Any, table: pd.DataFrame) -> None:
    _skops(folder, model)
    with zipfile.ZipFile(folder / "logs.zip", "w") as archive:
        archive.writestr("run/data.csv", table.to_csv(index=False))


def _split(t: pd.DataFrame) -> str:
    return json.dumps({"columns": list(t.columns), "data": t.head(5).to_numpy().tolist()})


def _served(t: pd.DataFrame) -> str:
    return json.dumps({"dataframe_split": json.loads(_split(t))})


def _shuffled(t: pd.DataFrame) -> pd.DataFrame:
    return t[list(t.columns)[::-1]].sample(frac=1, random_state=0)


PLANTED: Mapping[str, Make] = {
    "MLflow: input_example.json": _mlflow("input_example.json", _split),
    "MLflow: serving_input_example.json": _mlflow("serving_input_example.json", _served),
    "MLflow: serving_input_payload.json": _mlflow(
        "serving_input_payload.json",
        lambda t: json.dumps({"dataframe_records": t.head(4).to_dict("records")})),
    "MLflow: one row": _mlflow("input_example.json", lambda t: _split(t.head(1))),
    "Hugging Face: example_input": _huggingface,
    "AutoGluon: utils/data/X.pkl": _autogluon,
    "SACRO: X_train.pkl": _sacro,
    "OHDSI: a table": _ohdsi("covariates.csv", lambda t: t.to_csv(index=False)),
    "OHDSI: trainDetails.json": _ohdsi(
        "trainDetails.json", lambda t: json.dumps({"rows": t.to_dict("records")})),
    "SageMaker: model.tar.gz": _packed(_beside("train.csv", lambda p, t: t.to_csv(p, index=False)),
                                       "tar.gz"),
    "tar": _packed(_pickled(lambda m, t: {"model": m, "X": t}), "tar"),
    "zip": _packed(_beside("data/train.csv", lambda p, t: t.to_csv(p, index=False)), "zip"),
    "archive in a folder": _nested,
    "csv": _beside("train.csv", lambda p, t: t.to_csv(p, index=False)),
    "csv with numbers of rows": _beside("train.csv", lambda p, t: t.to_csv(p)),
    "csv, other order": _beside("a.csv", lambda p, t: _shuffled(t).to_csv(p, index=False)),
    "csv without names": _beside("a.csv", lambda p, t: t.to_csv(p, index=False, header=False)),
    "csv with semicolons": _beside("a.csv", lambda p, t: t.to_csv(p, index=False, sep=";")),
    "tsv": _beside("a.tsv", lambda p, t: t.to_csv(p, index=False, sep="\t")),
    "JSON records": _beside("a.json", lambda p, t: t.to_json(p, orient="records")),
    "JSON lines": _beside("a.jsonl", lambda p, t: t.to_json(p, orient="records", lines=True)),
    "JSON by column": _beside(
        "a.json", lambda p, t: _as_text(p, json.dumps(t.to_dict(orient="list")))),
    "npy": _beside("a.npy", lambda p, t: np.save(p, t.to_numpy())),
    "pickled frame": _beside("a.pkl", lambda p, t: t.to_pickle(p)),
    "pickled array": _beside("a.pkl", lambda p, t: p.write_bytes(pickle.dumps(t.to_numpy()))),
    "dict": _pickled(lambda m, t: {"model": m, "X_train": t, "cut": 0.5}),
    "dict, joblib": _pickled(lambda m, t: {"model": m, "data": t.to_numpy()}, joblib.dump),
    "dict in a dict": _pickled(lambda m, t: {"a": {"model": m, "x": [t.to_numpy(), "z"]}}),
    "list": _pickled(lambda m, t: [m, t]),
    "tuple": _pickled(lambda m, t: (m, ["a"], t.to_numpy())),
    "dataclass": _pickled(Held),
    "skops dict": _pickled(lambda m, t: {"model": m, "X": t.to_numpy()}, skops.io.dump),
}  # fmt: skip


# --------------------------------------------------------------------------------- clean


def _clean(name: str, text: str) -> Make:
    return _beside(name, lambda place, _: place.write_text(text) and None)


def _importances(t: pd.DataFrame) -> str:
    lines = [f"{c},{0.1 * k:.3f}" for k, c in enumerate(t.columns)]
    return "\n".join(["feature,importance", *lines]) + "\n"


def _fresh(t: pd.DataFrame, n: int) -> pd.DataFrame:
    """Other rows of the same population."""
    rng = np.random.default_rng(99)
    return pd.DataFrame(
        {c: rng.permutation(np.resize(t[c].to_numpy(), 3 * n))[:n] + 0.37 for c in t.columns}
    )


CLEAN: Mapping[str, Make] = {
    "a model alone": lambda f, m, _: _skops(f, m),
    "MLflow": lambda f, m, _: mlflow(f, m),
    "MLflow, zipped": _packed(lambda f, m, _: mlflow(f, m), "zip"),
    "MLflow, tar.gz": _packed(lambda f, m, _: mlflow(f, m), "tar.gz"),
    "Hugging Face": lambda f, m, _: _huggingface(f, m, None),
    "AutoGluon": lambda f, m, _: _autogluon(f, m, None),
    "SACRO": lambda f, m, _: _sacro(f, m, None),
    "OHDSI": _ohdsi("trainDetails.json", lambda _: json.dumps({"trainingTime": "1 min"})),
    "tar": _packed(lambda f, m, _: _skops(f, m), "tar"),
    "metrics": _clean("metrics.csv", "metric,value\nAUC,0.81\nbrier,0.1\n"),
    "metrics, JSON": _clean("metrics.json", json.dumps({"auc": 0.81, "folds": [0.8, 0.82, 0.79]})),
    "confusion matrix": _clean("confusion.csv", "class,0,1\n0,30,10\n1,12,28\n"),
    "importances": _beside("importance.csv", lambda p, t: _as_text(p, _importances(t))),
    "importances, JSON": _beside(
        "importance.json",
        lambda p, t: _as_text(p, json.dumps({c: 0.1 * k for k, c in enumerate(t.columns)}))),
    "statistics of columns": _beside("describe.csv", lambda p, t: t.describe().to_csv(p)),
    "correlations": _beside("corr.csv", lambda p, t: t.corr().to_csv(p)),
    "names of columns": _beside(
        "columns.json", lambda p, t: _as_text(p, json.dumps(list(t.columns)))),
    "requirements": _clean("requirements.txt", "scikit-learn==1.9.1\nnumpy>=2\n"),
    "a page": _clean("README.md", "# Model\n\nTrained on 80 rows with 6 columns.\n"),
    "a licence": _clean("LICENSE", "All rights reserved.\n"),
    "a curve": _clean("curve.csv", "threshold,precision\n" + "".join(
        f"{k / 20},{k / 30}\n" for k in range(20))),
    "rounds": _clean("log.csv", "round,loss\n" + "".join(
        f"{k},{1 / (k + 1)}\n" for k in range(40))),
    "an array of scores": _beside("scores.npy", lambda p, _: np.save(p, np.linspace(0, 1, 33))),
    "a picture": _beside("plot.png", lambda p, _: p.write_bytes(b"\x89PNG\r\n" + bytes(99))),
    "other rows, few": _beside("test.csv", lambda p, t: _fresh(t, 20).to_csv(p, index=False)),
    "other rows, many": _beside("test.csv", lambda p, t: _fresh(t, 400).to_csv(p, index=False)),
    "dict": _pickled(lambda m, t: {"model": m, "columns": list(t.columns), "cut": 0.5}),
    "dict, joblib": _pickled(lambda m, _: {"model": m, "auc": 0.8}, joblib.dump),
    "list": _pickled(lambda m, t: [m, list(t.columns)]),
    "tuple": _pickled(lambda m, _: (m, {"version": 3})),
    "dataclass": _pickled(lambda m, _: Held(m, None)),
    "skops dict": _pickled(lambda m, _: {"model": m, "cut": 0.5}, skops.io.dump),
}  # fmt: skip


def main(args: Sequence[str] = ()) -> int:
    """Print a line for each folder, and how many were found; 1 if a floor is missed."""
    options("folders", __doc__, args)
    model, table, _ = a_model()
    lines = []
    for planted, name, make in [
        *((True, *way) for way in PLANTED.items()), *((False, *way) for way in CLEAN.items())
    ]:  # fmt: skip
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "source"
            source = make(folder, model, table) or folder
            given, without = inventories_of(source, (table, None))
        lines.append({
            "folder": name, "rows in it": planted, "rows given": given.stored,
            "without": without.stored, "unknown parts": without.unknown,
            "met": given.stored == without.stored == planted,
        })  # fmt: skip
    met, found = show("stored rows", lines), pd.DataFrame(lines)
    counts = found.groupby("rows in it")[["rows given", "without", "met"]].agg(["sum", "size"])
    CONSOLE.print(counts.to_string())
    return int(not met)
