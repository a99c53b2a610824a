"""Every format that treeleak reads: valid files, how they change, and what is done with them."""

from __future__ import annotations

import json
import random
import tomllib
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import treeleak
from experiments.benchmarks.mutate import Mutator, of_archive, of_bytes, of_json, of_text
from experiments.benchmarks.mutation_seeds import (
    POLICIES,
    SCHEMAS,
    csvs,
    folders,
    marginals,
    of_r,
    outcomes,
    pickles,
    pmml,
    releases,
    rules,
    stored,
    table,
)
from treeleak.auditing import Audit
from treeleak.auditing.assessors.counts import count_leaves, count_rules
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.cli.tables import Beside, Tables, training_rows
from treeleak.core.errors import NotCovered
from treeleak.release import Release, RuleList, StoredObject, read_model, to_release
from treeleak.release.check_schema import check_schema
from treeleak.release.infer_schema import infer_rule_schema, suggest_schema
from treeleak.release.readers.release_file import release_from_dict
from treeleak.release.readers.unpickling import __main__ as worker
from treeleak.report import render_html
from treeleak.schema import Ordinal, Schema

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
    audit.to_json(edition="releasable")
    audit.to_json(edition="internal")
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
        with worker.open_compressed(str(path)) as file:
            model = worker.Unpickler(file).load()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("schema.json", json.dumps(worker.Writer(archive).node(model)))
    except Exception as error:
        # There, whatever a hostile file provokes is one line.
        raise treeleak.errors.BadModel(str(error)[:300]) from error
    return _checked(read_model(out), out, rng)


def _j48(path: Path, rng: random.Random) -> Callable[[], None]:
    release = to_release(path)
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
    files = {"known_rows": None, "known_columns": None, "population": None}
    beside = Beside(**(files | {role: path}))
    given = beside.read(tables)

    def audited() -> None:
        with beside.named():
            _shown(audit(model, X, y, **given))

    return audited


FORMATS: dict[str, Format] = {
    "release": Format(".json", releases, of_release, _model),
    "skops": Format(".skops", partial(stored, "1.9.1/*.skops"), of_archive, _model),
    "pickle": Format(".pkl", pickles, of_bytes, _pickle),
    "xgboost": Format(".json", partial(stored, "boosted/xgboost-*/*.json"), of_json, _model),
    "xgboost ubj": Format(".ubj", partial(stored, "boosted/xgboost-*/*.ubj"), of_bytes, _model),
    "xgboost, old": Format(".model", partial(stored, "printed/*/*.model"), of_bytes, _model),
    "lightgbm": Format(".txt", partial(stored, "boosted/lightgbm-*/*.txt"), of_text, _model),
    "printed JSON": Format(
        ".json",
        partial(stored, "printed/*/*.printed.json", "printed/lightgbm-*/*.json"),
        of_json,
        _model,
    ),
    "catboost": Format(".json", partial(stored, "boosted/catboost-*/*.json"), of_json, _model),
    "catboost ctr": Format(".json", partial(stored, "catboost-ctr/*.json"), of_json, _model),
    "catboost cbm": Format(".cbm", partial(stored, "boosted/catboost-*/*.cbm"), of_bytes, _model),
    "EBM": Format(".json", partial(stored, "ebm/*.json"), of_json, _model),
    "ONNX": Format(".onnx", partial(stored, "exchange/*.onnx"), of_bytes, _model),
    "R": Format(".rds", of_r, of_bytes, _model),
    "YDF": Format(".zip", folders, of_archive, _model),
    "survival": Format(".skops", outcomes, of_archive, _model),
    "PMML": Format(".pmml", pmml, of_text, _model),
    "rules": Format(".json", rules, of_json, _model),
    "j48": Format(".txt", partial(stored, "j48/*.txt"), of_text, _j48),
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
