"""Documents that are declared once: their JSON Schemas, and what is said of those that differ."""

from __future__ import annotations

import copy
import json
import math
import re
import tomllib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, ClassVar, Literal, get_args

import jsonschema
import numpy as np
import pytest
from msgspec import Meta, field
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeleak
import treeleak.formats
from treeleak.core.declared import (
    Declared,
    Label,
    Number,
    Published,
    Real,
    Whole,
    read,
    schema_of,
    to_builtins,
)
from treeleak.core.errors import BadInput, BadModel
from treeleak.core.text import short
from treeleak.formats import literals
from treeleak.formats.published import PUBLISHED, text_of
from treeleak.partition import Geometry, GridTooLarge
from treeleak.partition.cells import enumerate_cells
from treeleak.release import to_release
from treeleak.release.infer_schema import infer_schema
from treeleak.release.readers.release_file import release_from_dict
from treeleak.release.readers.rule_file import rules_from_dict
from treeleak.schema import Binary, Schema

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

ROOT = Path(__file__).parent.parent
FOLDER = Path(treeleak.formats.__file__).parent
SHIPPED = {
    path.name.partition(".")[0]: json.loads(path.read_text(encoding="utf-8"))
    for path in FOLDER.glob("*.schema.json")
}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_json_schema_is_one(name: str):
    jsonschema.Draft202012Validator.check_schema(SHIPPED[name])


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_stored_json_schema_is_that_of_the_structs(name: str):
    stored = (FOLDER / f"{name}.schema.json").read_text(encoding="utf-8")
    assert stored == text_of(PUBLISHED[name]), "run: python -m treeleak.formats.published"


def guide(page: str, kind: str = "json") -> str:
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    return re.findall(rf"```{kind}\n(.*?)```", text, flags=re.DOTALL)[0]


READ = {
    "release": (json.loads(guide("release-format")), release_from_dict),
    "rules": (json.loads(guide("rule-file")), rules_from_dict),
    "schema": (tomllib.loads(guide("schema-file", "toml")), Schema.from_dict),
}
OTHER = (None, True, -1, 0.5, 10**30, 10**400, "x", "inf", [], [None], {}, {"x": 1}, [[1, 2, 3]])
"""What may stand in a document in the place of something else."""


def places(data: object) -> Iterator[tuple[list | dict, int | str]]:
    """Every place in a document: where it is, and its key or number there."""
    for key in data if isinstance(data, dict) else range(len(data)):
        yield data, key
        if isinstance(data[key], (list, dict)):
            yield from places(data[key])


@pytest.mark.parametrize("name", READ)
def test_what_the_json_schema_refuses_is_refused_with_its_place(name: str):
    example, make = READ[name]
    validator = jsonschema.Draft202012Validator(schema_of(PUBLISHED[name]))
    validator.validate(example)
    make(example)
    refused = []
    for number, _ in enumerate(places(example)):
        for other in (*OTHER, "key left out", "key too many"):
            data = copy.deepcopy(example)
            at, key = next(islice(places(data), number, None))
            if other == "key left out":
                del at[key]
            elif other == "key too many":
                at[key] = {**at[key], "strange": 1} if isinstance(at[key], dict) else [at[key]] * 9
            else:
                at[key] = other
            try:
                make(data)
            except BadInput as error:
                refused.append(str(error))
            else:
                assert validator.is_valid(data), (key, other)
    assert len(refused) > 100
    assert max(map(len, refused)) < 400


class Cat(Declared, frozen=True, tag_field="kind", tag="cat"):
    lives: Annotated[int, Meta(ge=1, le=9)]


class Dog(Declared, frozen=True, tag_field="kind", tag="dog"):
    bark: Literal["loud", "soft"] = "loud"


class House(Published, frozen=True, kw_only=True):
    """Who lives there."""

    schema_id: ClassVar[str] = "house"
    title: ClassVar[str] = "A house"

    pets: tuple[Cat | Dog, ...] = ()
    rent: Number = 0.0
    rooms: Whole = 1
    door: tuple[Number, Number] | None = None
    rates: dict[str, Annotated[float, Meta(gt=0)]] = field(default_factory=dict)
    number: Label = 1
    area: Real | str = 2
    floor: int | float = 0
    street: Annotated[str, Meta(max_length=5)] = ""


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "this is [], must be an object"),
        ({"pet": 1}, "unknown keys ['pet']; did you mean 'pets'?"),
        ({3: 1}, "a key is not a text"),
        ({"pets": [{"bark": "loud"}]}, "pets[0]: kind is missing"),
        ({"pets": [{"kind": "cat", "lives": 0}]}, "pets[0]: lives is 0, must be a whole number"),
        (
            {"pets": [{"kind": "cat", "lives": 10}]},
            "lives is 10, must be a whole number from 1 to 9",
        ),
        ({"rent": math.nan}, "rent is nan, must be a number"),
        ({"rent": 10**400}, "rent is 1000"),
        ({"rent": True}, "rent is True, must be a number"),
        ({"rooms": 2**53}, "rooms is 9007199254740992, must be a whole number of 0 or more"),
        ({"rooms": 1.0}, "rooms is 1.0, must be a whole number"),
        ({"door": [1, "x"]}, "door[1] is 'x', must be a number"),
        ({"rates": {"low": 1, "high": 0}}, "rates: high is 0, must be a number above 0"),
        ({"rates": {1: 2.0}}, "rates: a key is not a text"),
        ({"number": None}, "must be text, true or false or a number"),
        ({"area": 10**30}, "must be a number or text (whole ones to 2^53)"),
        ({"floor": "x"}, "floor is 'x', must be a number"),
        ({"street": "avenue"}, "street is 'avenue', must be text of length 5 at most"),
    ],
)
def test_what_differs_is_named_with_its_place(data: object, says: str):
    with pytest.raises(BadModel) as refused:
        read(House, data, BadModel)
    assert says in str(refused.value)
    validator = jsonschema.Draft202012Validator(schema_of(House))
    strange = {3: 1}, {"rates": {1: 2.0}}, {"rooms": 1.0}
    no_json = ("is nan", "is inf", "is 1000", "to 2^53")
    if data not in strange and not any(word in says for word in no_json):
        assert not validator.is_valid(data)


def test_a_document_survives_and_meets_its_json_schema():
    data = {
        "pets": [{"kind": "cat", "lives": 9}, {"kind": "dog", "bark": "soft"}],
        "rent": 3.5, "rooms": 4, "door": [0.5, 2.0], "rates": {"low": 0.5}, "number": "4b",
        "area": 70, "street": "Lane",
    }  # fmt: skip
    house = read(House, data)
    assert to_builtins(house) == data
    assert type(to_builtins(house)["area"]) is int
    assert to_builtins(House()) == {}
    jsonschema.validate(data, schema_of(House))
    assert repr(house) == "House()"


def test_a_written_reconstruction_meets_its_json_schema_and_a_changed_one_does_not():
    X, y = np.eye(6, 3), [0, 1, 1, 0, 0, 0]
    forest = RandomForestClassifier(3, bootstrap=False, random_state=0).fit(X, y)
    found = treeleak.reconstruct(forest, Schema([Binary(f"x{i}") for i in range(3)]))
    validator = jsonschema.Draft202012Validator(SHIPPED["reconstruction"])
    for include_rows in (False, True):
        data = json.loads(found.to_json(include_rows=include_rows))
        assert ("rows" in data) == include_rows
        validator.validate(data)
    data["rows"]["confidence"][0][0] = 2
    assert not validator.is_valid(data)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.pop("verdict"),
        lambda data: data["findings"][0].update(verdict="leak"),
        lambda data: data["inventory"][0].update(found=0),
        lambda data: data["counts"]["total"].update(few=1),
        lambda data: data["counts"].update(row=1),
        lambda data: data["provenance"].update(sha256="x"),
        lambda data: data["uncertainty"]["quantiles"].update({"7": 1}),
    ],
)
def test_a_written_audit_meets_its_json_schema_and_a_changed_one_does_not(audited, change):
    validator = jsonschema.Draft202012Validator(SHIPPED["audit"])
    for edition in ("releasable", "internal"):
        data = json.loads(json.dumps(audited.to_dict(edition)))
        validator.validate(data)
        change(data)
        assert not validator.is_valid(data)


@pytest.mark.parametrize(
    ("words", "part", "field"),
    [
        (literals.Edition, (), "edition"),
        (literals.Verdict, (), "verdict"),
        (literals.Part, ("Finding",), "part"),
        (literals.State, ("Check",), "state"),
        (literals.Mark, ("Entry",), "mark"),
        (literals.By, ("Groups",), "by"),
        (literals.Knows, ("Yardstick",), "knows"),
    ],
)
def test_the_schema_of_an_audit_lists_the_words_that_it_chooses_from(words, part, field):
    schema = SHIPPED["audit"]
    for name in part:
        schema = schema["$defs"][name]
    assert set(schema["properties"][field]["enum"]) == set(get_args(words))


@pytest.fixture(scope="module")
def audited() -> treeleak.Audit:
    """An audit of a small tree."""
    X, y = np.eye(6, 3), [0, 1, 1, 0, 0, 0]
    tree = DecisionTreeClassifier(random_state=0).fit(X, y)
    return treeleak.audit(tree, X, y, schema=Schema([Binary(f"x{i}") for i in range(3)]))


# -------------------------------------------------------------------- numbers that no float holds


def test_numbers_of_any_size_are_written():
    texts = {
        0: "0",
        999_999: "999,999",
        1_234_567: "1.23e+06",
        10**400: "more than 10^399",
        10**9000: "more than 10^8999",
    }
    for number, text in texts.items():
        assert short(number) == text


def test_a_grid_of_more_points_than_a_float_holds_is_no_error():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 500)), rng.integers(0, 2, 200)
    release = to_release(ExtraTreesClassifier(100, random_state=0).fit(X, y))
    geometry = Geometry.of(release, infer_schema(release))
    with pytest.raises(OverflowError):
        float(geometry.n_points)
    open_leaves = np.ones((int(geometry.leaf_start[-1]), 2), dtype=bool)
    with pytest.raises(GridTooLarge, match=r"has more than 10\^\d+ points"):
        enumerate_cells(geometry, open_leaves)
