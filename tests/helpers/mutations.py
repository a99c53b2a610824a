"""Valid files of the formats that treeleak reads, and files that chance makes of them."""

from __future__ import annotations

import io
import json
import random
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from treeleak.auditing.assessors.counts import count_leaves, count_rules
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.core.errors import NotCovered
from treeleak.release import RuleList, read_model, to_release
from treeleak.release.infer_schema import infer_rule_schema, suggest_schema
from treeleak.release.readers.release_file import release_to_dict
from treeleak.schema import Schema

MODELS = Path(__file__).parents[1] / "models"


@cache
def table() -> tuple[pd.DataFrame, pd.Series]:
    """A small table: two numbers, a flag, a group of two columns."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.integers(18, 60, 14), "dose": rng.integers(0, 4, 14)})
    X["flag"], X["g_a"] = rng.integers(0, 2, 14), rng.integers(0, 2, 14)
    X["g_b"] = 1 - X["g_a"]
    return X.astype(float), pd.Series(rng.integers(0, 2, 14), name="label")


@cache
def releases() -> tuple[bytes, ...]:
    """Releases of several models, with other sampling, and with noise."""
    models: tuple[Any, ...] = (
        DecisionTreeClassifier(random_state=0),
        RandomForestClassifier(3, bootstrap=False, max_depth=3, random_state=0),
        RandomForestClassifier(3, random_state=0),
        BaggingClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=3, random_state=0),
        DecisionTreeRegressor(max_depth=2, random_state=0),
    )
    plain = [release_to_dict(to_release(model.fit(*table()))) for model in models]
    hidden = {"kind": "bootstrap", "n_draws": 14, "rows_between": [10, 20], "hidden": "x"}
    law = {"law": "gaussian", "sigma": 2.0, "rounding": "nearest"}
    more = [plain[2] | {"sampling": hidden, "n_rows": None}, plain[1] | {"noise": law}]
    return tuple(json.dumps(release).encode() for release in (*plain, *more))


@cache
def rules() -> tuple[bytes, ...]:
    """A rule list with counts, and one without."""
    young, flag = {"column": "age", "above": 18, "upto": 30.5}, {"column": "flag", "is": 1}
    head: dict[str, Any] = {"format": "treeleak-rules", "version": 1, "classes": [0, 1],
                            "columns": ["age", "flag"]}  # fmt: skip
    counted = [
        {"if": [young, flag], "then": 1, "counts": [1, 3]},
        {"if": [{"column": "flag", "in": [0, 1]}, young], "then": 0, "counts": [4, 0]},
    ]
    bare = [{"if": [c], "then": 1} for c in (flag, young)]
    out = [
        head | {"rules": counted, "default": {"then": 0, "counts": [3, 3]}, "n_rows": 14},
        head | {"rules": bare, "default": {"then": 0}, "notes": ["x"]},
    ]
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
)


@cache
def csvs() -> tuple[bytes, ...]:
    """The table, with labels."""
    X, y = table()
    return (X.astype(int).assign(label=y).to_csv(index=False).encode(),)


# ------------------------------------------------------------------------------------ mutations

NUMBERS = (
    "0", "-1", "0.5", "1e-320", "1e308", "1e400", "nan", "-inf", "Infinity", "100000001",
    "9007199254740993", "9223372036854775808", "-9223372036854775808", "1" + "0" * 399, "7" * 5000,
)  # fmt: skip
WORDS = (
    "", "true", "null", "[]", "{}", "[[]]", '"x"', '"\\ud800"', '"' + "y" * 100_000 + '"',
    "[" * 2_000, '{"a":' * 500 + "1" + "}" * 500, "[-1,-1]", "'", "\x00", "\ufeff", ",,", "=",
)  # fmt: skip
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[-+]?[\w.]+|[^\s\w]|\n')
_RAW = re.compile(r'"@raw(\d+)@"')
Mutator = Callable[[random.Random, bytes, Sequence[bytes]], bytes]
"""Gets chance, a valid file, and all valid files of its format."""


def of_bytes(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Flip, cut, insert, repeat or splice bytes."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at, length = rng.randrange(len(out) + 1), rng.choice((1, 2, 4, 16, 256))
        match rng.randrange(6):
            case 0 if at < len(out):
                out[at] ^= 1 << rng.randrange(8)
            case 1:
                del out[at : at + length]
            case 2:
                out[at:at] = rng.randbytes(rng.choice((1, 4, 64)))
            case 3:
                out[at:at] = out[at : at + length] * rng.choice((1, 2, 50))
            case 4:
                del out[at:]
            case _:
                other = rng.choice(others)
                cut = rng.randrange(len(other) + 1)
                out[at : at + length] = other[cut : cut + rng.choice((4, 64, len(other)))]
    return bytes(out)


def of_text(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Replace, drop or repeat words; sometimes change bytes."""
    if rng.random() < 0.25:
        return of_bytes(rng, data, others)
    text = data.decode("utf-8", "replace")
    for _ in range(rng.choice((1, 1, 2, 5))):
        spans = [m.span() for m in _WORD.finditer(text)]
        if not spans:
            break
        (start, end), (one, two) = rng.choice(spans), rng.choice(spans)
        new = (rng.choice(NUMBERS), rng.choice(WORDS), "", text[start:end] * 2, text[one:two])
        text = text[:start] + rng.choice(new) + text[end:]
    return text.encode("utf-8", "surrogatepass")


def of_json(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Replace, drop, wrap, repeat or copy values; sometimes change words or bytes."""
    if rng.random() < 0.2:
        return of_text(rng, data, others)
    root, raw = json.loads(data), list[str]()
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(root))
        if not places:
            break
        holder, key = rng.choice([p for p in places if isinstance(p[0], dict)] or places)
        match rng.randrange(6):
            case 0 | 1:
                raw.append(rng.choice(NUMBERS if rng.random() < 0.6 else WORDS))
                holder[key] = f"@raw{len(raw) - 1}@"
            case 2:
                del holder[key]
            case 3:
                holder[key] = [holder[key]] if rng.random() < 0.5 else {"x": holder[key]}
            case 4 if isinstance(holder[key], list):
                holder[key] *= rng.choice((0, 2, 30))
            case _:
                holder[key] = json.loads(json.dumps(rng.choice(places)[0]))
    text = _RAW.sub(lambda m: raw[int(m[1])], json.dumps(root))
    return text.encode("utf-8", "surrogatepass")


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every holder with every key in it; of long lists, the first ten."""
    keys = value if isinstance(value, dict) else range(min(len(value), 10))
    for key in list(keys) if isinstance(value, dict | list) else ():
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def of_archive(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change a member, and pack all again; sometimes change bytes of the whole."""
    if rng.random() < 0.15:
        return of_bytes(rng, data, others)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = "schema.json" if rng.random() < 0.7 else rng.choice(sorted(members))
    change = of_json if name == "schema.json" else of_bytes
    members[name] = change(rng, members[name], [*members.values()])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for own, content in members.items():
            packed.writestr(zipfile.ZipInfo(own), content)
    return out.getvalue()


def used(path: Path) -> None:
    """Read a model and look through it, as a command does before it attacks."""
    content = read_model(path)
    if isinstance(content, RuleList):
        with suppress(NotCovered):
            infer_rule_schema(content)
        with suppress(NotCovered):
            count_rules(content)
        return
    release = None
    with suppress(NotCovered):
        release = to_release(content)
    take_inventory(content, Context(getattr(release, "n_rows", None), None, None))
    if release is not None:
        suggest_schema(release)
        with suppress(NotCovered):
            count_leaves(release)


def _stored(*patterns: str) -> Callable[[], tuple[bytes, ...]]:
    """Models that lie with the tests."""
    return lambda: tuple(p.read_bytes() for q in patterns for p in sorted(MODELS.glob(q)))


def _schemas() -> tuple[bytes, ...]:
    return tuple(text.encode() for text in SCHEMAS)


Format = tuple[str, Callable[[], tuple[bytes, ...]], Mutator, Callable[[Path], Any]]
FORMATS: Mapping[str, Format] = {
    "release": (".json", releases, of_json, used),
    "rules": (".json", rules, of_json, used),
    "schema": (".toml", _schemas, of_text, Schema.read),
    "skops": (".skops", _stored("1.9.1/*.skops"), of_archive, used),
    "xgboost": (".json", _stored("boosted/xgboost-*/*.json"), of_json, used),
    "xgboost ubj": (".ubj", _stored("boosted/xgboost-*/*.ubj"), of_bytes, used),
    "xgboost, old": (".model", _stored("printed/*/*.model"), of_bytes, used),
    "lightgbm": (".txt", _stored("boosted/lightgbm-*/*.txt"), of_text, used),
    "printed": (".json", _stored("printed/xgboost-3*/*.printed.json"), of_json, used),
    "catboost": (".json", _stored("boosted/catboost-*/*.json"), of_json, used),
    "EBM": (".json", _stored("ebm/*.json"), of_json, used),
    "ONNX": (".onnx", _stored("exchange/*.onnx"), of_bytes, used),
    "R": (".rds", _stored("r/*_plain.rds", "r/*_little.rds"), of_bytes, used),
    "j48": (".txt", _stored("j48/*.txt"), of_text, used),
}
"""Ending, valid files, what changes them, and what reads and checks a file."""
