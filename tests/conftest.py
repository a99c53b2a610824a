"""Settings that all tests share."""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

import pytest
import typer.testing
from hypothesis import settings

import treeleak
from helpers import examples, hurried
from helpers.once import once
from helpers.patient import PatientClock
from treeleak.attacks.known_draws import leaf_boxes
from treeleak.attacks.posterior import target
from treeleak.auditing import run
from treeleak.core import clock
from treeleak.partition import cells

# Compiled loops make the first example slow, and the machine may be busy.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")

# Numba, pandas and Hypothesis make many objects and few circles: looking for those at Python's own
# intervals takes a tenth of the time.
gc.set_threshold(50_000, 20, 20)

clock.wall = PatientClock()

SECONDS_OF_A_GUESS = 60.0
"""Far more than a guess from the shape of the trees takes here."""

# Typer's runner puts the commands together for every line that is run: they are the same.
typer.testing._get_command = cache(typer.testing._get_command)


@pytest.fixture(scope="session", autouse=True)
def yardsticks_of_the_same_rows() -> Iterator[None]:
    """Take random guesses and outliers once for the rows that several audits are given.

    They follow from the rows, the schema and the seed, and take longer than many an attack: a fifth
    of the guesses tells the same. What measures them for itself asks the functions where they are
    defined.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("treeleak.auditing.assessors.baselines._MANY", 20)
        for where, name in (
            ("treeleak.auditing.assessors.baselines", "random_guesses"),
            ("treeleak.metrics.individual", "find_outliers"),
        ):
            function = getattr(importlib.import_module(where), name)
            patched.setattr(f"{where}.{name}", once(function))
        patched.setattr("treeleak.auditing.assessors.baselines.reconstruct", _guess_from_shape())
        yield


def _guess_from_shape() -> Callable[..., Any]:
    """Take once, too, what is guessed from the shape of the same trees, which is half of an audit.

    It looks at no count. Where it has a second, it is given what it needs on a busy machine; where
    it has less, that is what the test is about.
    """
    kept = once(treeleak.reconstruct, kept=48)

    def guess(*given: Any, time_limit: float, **options: Any) -> Any:
        if time_limit < 1.0:
            return treeleak.reconstruct(*given, time_limit=time_limit, **options)
        return kept(*given, time_limit=SECONDS_OF_A_GUESS, **options)

    return guess


@pytest.fixture
def few_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    hurried.walk_less(monkeypatch)


@pytest.fixture
def short_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    hurried.walk_little(monkeypatch)


@pytest.fixture(scope="module")
def short_walks_throughout() -> Iterator[None]:
    """``short_walks`` for all tests of a file, and for what its fixtures make."""
    with pytest.MonkeyPatch.context() as patch:
        hurried.walk_little(patch)
        yield


@pytest.fixture
def few_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    hurried.few_chains(monkeypatch)


@pytest.fixture
def instead(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let commands and studies call a function of the test, or a module have another value."""

    def let(name: str, value: Any, module: ModuleType = treeleak) -> None:
        monkeypatch.setattr(module, name, value)

    return let


@pytest.fixture
def breaks(instead: Callable[..., None]) -> Callable[..., None]:
    """Let a function of a module end in an error: ``breaks(module, "name", error)``."""

    def let(module: ModuleType, name: str, error: BaseException) -> None:
        def broken(*_: object, **__: object) -> None:
            raise error

        instead(name, broken, module)

    return let


@pytest.fixture
def unlisted(instead: Callable[..., None]) -> None:
    """No grid is small enough to be listed."""
    instead("MAX_GRID", 0, cells)


@pytest.fixture
def no_table_of_leaves(instead: Callable[..., None]) -> None:
    """No grid is small enough for a table of the leaves of its points."""
    instead("MAX_TABLE", 0, target)


@pytest.fixture
def compared(instead: Callable[..., None]) -> Callable[[bool], None]:
    """Let leaves be few enough to be compared each with each, or too many."""
    most = leaf_boxes.MAX_COMPARED
    return lambda few: instead("MAX_COMPARED", most * few, leaf_boxes)


@pytest.fixture
def attack_is(instead: Callable[..., None]) -> Callable[[Callable[..., Any]], None]:
    """Let audits attack by a function of the test."""
    return lambda attack: instead("rebuild", attack, run)


@pytest.fixture
def no_attack(attack_is: Callable[[Callable[..., Any]], None]) -> None:
    """Fail where an audit begins its attack."""
    attack_is(lambda *_, **__: pytest.fail("ran"))


@pytest.fixture
def no_audit(instead: Callable[..., None]) -> None:
    """Fail where a command begins an audit."""
    instead("audit", lambda *_, **__: pytest.fail("work was done"))


def pytest_configure(config: pytest.Config) -> None:
    examples.only_fast = "not slow" in config.getoption("markexpr")
    settings.register_profile(
        "tests",
        settings.get_profile("tests"),
        max_examples=examples.by_default(),
        derandomize="TREELEAK_REPEATABLE" in os.environ,
    )
    settings.load_profile("tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of many slow cases of one test, keep a share."""
    left_out = examples.beyond_share(items)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """What is loaded by now stays: it need not be looked through again."""
    gc.freeze()
