"""What ``treeleak warm-up`` compiles, nobody waits for later."""

from __future__ import annotations

import numba
import pytest

import treeleak.warm_up
from helpers import cli
from treeleak.core import compiled
from treeleak.warm_up import QUESTIONS


def test_the_command_says_what_it_does(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []
    monkeypatch.setattr(treeleak.warm_up, "compile_all_loops", lambda: asked.extend(QUESTIONS))
    done = cli.run("warm-up")
    assert done.exit_code == 0
    assert asked == list(QUESTIONS)
    assert "80 s of processor time" in done.stderr
    assert compiled.stored_in() in done.stderr.replace("\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_each_question_has_an_answer(name: str):
    QUESTIONS[name]()


def test_where_nothing_can_be_kept_loops_are_compiled_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
):
    njit = numba.njit

    def nowhere(*function: object, cache: bool = False, **options: object):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(*function, **options)

    monkeypatch.setattr(numba, "njit", nowhere)

    def twice(x: int) -> int:
        return 2 * x

    assert compiled.njit()(twice)(2) == 4
