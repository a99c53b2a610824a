"""What holds rows shows none: not in a repr, a format, a traceback or an error."""

import dataclasses
import importlib
import inspect
import pkgutil
import pprint
import re
import traceback
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from rich.pretty import pretty_repr
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.examples import spread
from helpers.hurried import walk_little
from helpers.models import without_seeds
from treeleak.cli.application import app
from treeleak.core.private import _line
from treeleak.report.sheet import sheet_of
from treeleak.schema import Categorical, Numeric, Schema

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

HARMLESS = re.compile(
    r"[\s|,\[\]().\"']|\b(int|float|bool|None|ForwardRef|tuple|Literal|ClassVar|field)\b"
)
"""What an annotation may be made of so that nothing of anybody can be in it."""

OWN_WORDS = {
    # Texts in them are treeleak's own, and short.
    "core.clock.Progress", "core.clock.Clock", "auditing.inventory.rules.Rule",
    "auditing.inventory.rules.Context", "auditing.assessors.budget.Budget",
    "release.n_rows.RowCount",
    "release.noise.laws.LabelNoise", "release.noise.laws.Laplace", "release.noise.laws.Gaussian",
    "release.noise.laws.DiscreteLaplace", "release.noise.laws.CountNoise",
}  # fmt: skip


def classes():
    for found in pkgutil.walk_packages(treeleak.__path__, "treeleak."):
        # Loops compiled on their own.
        if found.name.endswith(("_kernels", "__main__")):
            continue
        module = importlib.import_module(found.name)
        for name, cls in inspect.getmembers(module, inspect.isclass):
            holds = dataclasses.is_dataclass(cls) or hasattr(cls, "_fields")
            if holds and cls.__module__ == found.name:
                yield f"{found.name.removeprefix('treeleak.')}.{name}", cls


CLASSES = dict(classes())


def test_every_class_that_may_hold_rows_shows_no_value():
    assert len(CLASSES) > 150
    bare = []
    for name, cls in CLASSES.items():
        told = " ".join(map(str, inspect.get_annotations(cls).values()))
        if HARMLESS.sub("", told) and name not in OWN_WORDS and cls.__repr__ is not _line:
            bare.append(name)
    # It says itself of how many rows it is.
    assert bare == ["uncertainty.dataset.ProbabilisticDataset"], (
        "make it with treeleak.core.private.dataclass, or decorate it with shows_no_value"
    )


# ------------------------------------------------------------------------------------- canaries

NUMBER, TEXT, LABEL = 918273.5, "canary-ill", "canary-label"
CANARY = re.compile(rf"{NUMBER:g}|{NUMBER}|918273|9\.18273\d*e\+05|{TEXT}|{LABEL}")


@pytest.fixture(scope="module", params=spread(["forest", "hidden", "tree"], fast=2))
def audited(request):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "number": np.append(rng.integers(0, 50, 29).astype(float), NUMBER),
            "illness": np.append(rng.integers(0, 2, 29), 2),
            f"{TEXT}-column": rng.integers(0, 2, 30),
        }
    )
    y = np.array(["a", "b"], dtype=object)[rng.integers(0, 2, 30)]
    y[0] = LABEL
    schema = Schema(
        (
            Numeric("number", 0.0, NUMBER),
            Categorical("illness", labels=("none", "cold", TEXT)),
            treeleak.schema.Binary(f"{TEXT}-column"),
        )
    )
    model = {
        "forest": RandomForestClassifier(8, random_state=1),
        # Small, so that its attack ends long before the time is up.
        "hidden": RandomForestClassifier(3, max_depth=3, random_state=2**31 - 7),
        "tree": DecisionTreeClassifier(random_state=0),
    }[request.param].fit(X, y)
    if request.param == "hidden":
        without_seeds(model)
    options = {"seed_search": 0, "time_limit": 120, "schema": schema}
    groups = [f"{TEXT}-column"]
    with pytest.MonkeyPatch.context() as patch:
        walk_little(patch)
        audit = treeleak.audit(model, X, y, groups=groups, sensitive=["illness"], **options)
    policy = treeleak.Policy("house", {"exact_rows": 0.5, "smallest_leaf": 3})
    return dataclasses.replace(audit, ruling=treeleak.judge(audit, policy))


def reachable(root):
    """Everything of treeleak's that attributes, lists and mappings lead to."""
    found, open_ = {}, [root]
    while open_:
        thing = open_.pop()
        if id(thing) in found:
            continue
        found[id(thing)] = thing
        if dataclasses.is_dataclass(thing):
            open_ += [getattr(thing, f.name) for f in dataclasses.fields(thing)]
        elif isinstance(thing, Mapping):
            open_ += thing.values()
        elif isinstance(thing, (tuple, list)):
            open_ += thing
    named = {f"treeleak.{name}".rpartition(".")[0] for name in CLASSES}
    # A sentence is the text that it says.
    own = (x for x in found.values() if not isinstance(x, str))
    return [x for x in own if type(x).__module__ in named]


def test_nothing_that_an_audit_leads_to_shows_a_value(audited):
    things = [*reachable(audited), *reachable(sheet_of(audited, "internal"))]
    kinds = {type(thing).__name__ for thing in things}
    assert {"Audit", "Reconstruction", "Release", "Schema", "TrainingRows", "Pairs"} <= kinds
    assert {"Categorical", "Finding", "Check", "Exposure", "Grid", "Pages"} <= kinds
    for thing in things:
        for shown in (
            repr(thing), str(thing), f"{thing}", f"{thing!r}", pretty_repr(thing),
            pprint.pformat(thing),
        ):  # fmt: skip
            assert not CANARY.search(shown), type(thing)
            assert "\n" not in shown
            assert len(shown) < 500


def test_tracebacks_with_locals_show_no_value(audited):
    def broken(audit, rows):
        raise ZeroDivisionError

    try:
        broken(audited, audited.reconstruction)
    except ZeroDivisionError as error:
        told = traceback.TracebackException.from_exception(error, capture_locals=True)
        console = Console(record=True, width=200, quiet=True)
        console.print_exception(show_locals=True)
        shown = "".join(told.format()) + console.export_text()
    assert "Reconstruction(status=" in shown
    assert not CANARY.search(shown.replace(str(CANARY.pattern), ""))


def test_the_command_line_shows_no_locals():
    assert app.pretty_exceptions_enable is False
    assert app.pretty_exceptions_show_locals is False


GOOD = pd.DataFrame({"a": [0, 1] * 8, "b": [0, 0, 1, 1] * 4})
BAD = [
    ("known_rows", GOOD.assign(a=NUMBER, y="no")),
    ("known_rows", GOOD.assign(y=TEXT).set_index(pd.Index([TEXT] * 16))),
    ("known_columns", GOOD[["a"]].assign(a=NUMBER)),
    ("known_columns", GOOD[["a"]].assign(a=TEXT)),
    ("population", GOOD.assign(a=NUMBER)),
    ("population", GOOD.assign(y=TEXT)),
    ("control", GOOD.assign(a=TEXT)),
    ("X", GOOD.assign(a=TEXT)),
    ("X", GOOD.assign(a=NUMBER)),
]


@pytest.mark.parametrize(("given", "table"), BAD)
def test_errors_quote_no_value_of_a_row(given, table):
    y = np.array(["no", "yes"] * 8)
    model = RandomForestClassifier(3, bootstrap=False, random_state=0).fit(GOOD, y)
    options = {"X": GOOD, "y": y} | {given: table}
    schema = Schema(tuple(treeleak.schema.Binary(c) for c in GOOD))
    try:
        audit = treeleak.audit(model, **options, schema=schema)
    except treeleak.errors.TreeleakError as error:
        said = str(error)
    else:
        said = f"{audit.mismatch} {audit.notes} {audit.not_assessed}"
    assert not CANARY.search(said), said


def test_learners_quote_no_value_of_a_row():
    schema = Schema((treeleak.schema.Binary("a"), treeleak.schema.Binary("b")))
    learner = treeleak.learn.DPForestClassifier(schema=schema, epsilon=1.0, classes=[0, 1])
    y = [0, 1] * 8
    for rows, labels in ((GOOD.assign(a=TEXT), y), (GOOD, [TEXT] * 16), (GOOD.assign(a=NUMBER), y)):
        with pytest.raises(treeleak.errors.BadInput) as found:
            learner.fit(rows, labels)
        assert not CANARY.search(str(found.value))
