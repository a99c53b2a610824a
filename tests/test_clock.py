"""The time limit: what looks at the clock ends, and what does not is broken off."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, VotingClassifier

import treeleak
from helpers import cli
from helpers.mutations import releases
from helpers.patient import work
from treeleak.auditing import run
from treeleak.auditing.assessors import compared
from treeleak.auditing.case import AuditResults, Case
from treeleak.auditing.findings.finding import OPEN
from treeleak.core.clock import Clock
from treeleak.core.errors import NotCovered, TimeUp
from treeleak.core.parallel import THREADS, Pool, run_all
from treeleak.core.text import percent
from treeleak.release import Release
from treeleak.release.readers.release_file import release_from_dict, write_release


def busy(seconds: float = 30.0) -> None:
    """Look at no clock but the one that keeps a test from hanging."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    raise AssertionError("nobody broke this off")


def test_what_does_not_look_at_the_clock_is_broken_off():
    clock = Clock(0.05)
    with pytest.raises(TimeUp, match=r"the time limit of 0\.05 s was reached"), clock.enforced(0):
        busy()


def test_what_is_cut_short_is_gone_on_from():
    had = []
    with Clock(0.05).cut_short(0):
        had.append(1)
        busy()
    assert had == [1]
    with pytest.raises(ZeroDivisionError), Clock(5).cut_short(0):
        1 / 0  # noqa: B018


def test_what_holds_an_answer_is_spared():
    clock, ended = Clock(0.05), []

    def work() -> None:
        clock.part(0.01).extend_grace(0.5)
        with contextlib.suppress(AssertionError):
            busy(0.2)
        ended.append(True)
        busy()

    with pytest.raises(TimeUp), clock.enforced(0):
        work()
    assert ended == [True]


def test_what_catches_the_alarm_is_told_again():
    def deaf() -> None:
        try:
            busy()
        except NotCovered:
            busy()

    with pytest.raises(TimeUp), Clock(0.01).enforced(0):
        deaf()


@pytest.mark.parametrize("module", ["numba.core.compiler", "importlib._bootstrap"])
@pytest.mark.slow
def test_what_is_done_once_for_all_is_not_broken_off(module: str):
    # As a function of that module would be found on the stack.
    made: dict[str, object] = {"__name__": module}
    exec("def make(work):\n    return work()\n", made)

    ended = []

    def work() -> None:
        end = time.perf_counter() + 0.6
        while time.perf_counter() < end:
            pass
        ended.append(True)

    def both() -> None:
        made["make"](work)  # type: ignore[operator]
        busy()

    with pytest.raises(TimeUp), Clock(0.01).enforced(0.3):
        both()
    assert ended == [True]


def test_nobody_waits_for_jobs_whose_time_is_up():
    going, last = threading.Event(), threading.Event()
    begun: list[int] = []

    def job(k: int) -> None:
        begun.append(k)
        going.wait(60)
        last.set()

    def broken_off() -> None:
        with Pool() as pool:
            for k in range(THREADS + 3):
                pool.submit(partial(job, k))
            while len(begun) < THREADS:
                time.sleep(0.001)
            raise TimeUp("now")

    with pytest.raises(TimeUp):
        broken_off()
    assert not last.is_set()
    going.set()
    assert last.wait(60)
    # Those that had not begun never do.
    assert sorted(begun) == list(range(THREADS))


def test_jobs_come_back_in_their_order():
    with Pool() as pool:
        assert list(pool.map(lambda x, y: x * y, range(5), range(5))) == [0, 1, 4, 9, 16]
    done: list[int] = []
    assert run_all([partial(int, k) for k in range(4)], done.append) == [0, 1, 2, 3]
    assert sorted(done) == [0, 1, 2, 3]
    with pytest.raises(ZeroDivisionError):
        run_all([lambda: 1 // 0])


STUCK = """
import threading
from treeleak.core import signals
from treeleak.core.clock import Clock
signals.LAST = 0.05

def finish():
    print("what there is", flush=True)
    return 3

with signals.terminable(), signals.ended_in_time(Clock(0.05), finish):
    threading.Event().wait(60)
"""


def test_a_program_that_hears_no_alarm_ends_with_what_it_has():
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "what there is\n")


LATE = """
import time
from treeleak.core import signals
from treeleak.core.clock import Clock
signals.LAST = 0.05
steps = 0

def finish():
    time.sleep(0.2)
    before = steps
    time.sleep(0.2)
    print(before > 0, steps - before, flush=True)
    return 3

with signals.terminable(), signals.ended_in_time(Clock(0.05), finish):
    while True:
        try:
            steps += 1
        except Exception:
            pass
"""


def test_what_is_late_takes_no_time_from_what_is_written():
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, "True 0\n", "")


def test_what_was_found_until_an_audit_is_cut_off_is_reported(
    release: Release, attack_is: Callable[..., None]
):
    kept: list[treeleak.Audit] = []
    clock = Clock(60.0)

    def stuck(*_: object, **__: object) -> None:
        kept.append(clock.best())  # type: ignore[misc,arg-type]
        raise TimeUp("now")

    attack_is(stuck)
    ended = treeleak.audit(release, time_limit=clock)
    (found,) = kept
    why = "the time limit of 60 s was reached"
    assert dict(found.not_assessed)["reconstruction"] == why
    assert found.counts is not None
    assert found.inventory
    assert found.verdict == ended.verdict == "not assessed"
    assert found.to_json(edition="releasable")


@pytest.mark.slow
def test_no_break_is_put_off_past_the_limit_of_the_whole():
    clock = Clock(0.05)
    clock.part(0.01).extend_grace(60)
    with pytest.raises(TimeUp), clock.enforced(0):
        busy()


@pytest.mark.slow
def test_compiling_in_another_thread_is_waited_for():
    clock, ended = Clock(0.01), []

    def compiling() -> None:
        before = clock.seconds
        with ThreadPoolExecutor(1) as pool:
            pool.submit(work, 0.6).result()
        ended.append(clock.seconds - before)

    def both() -> None:
        clock.part(5).untimed(compiling)
        busy()

    with pytest.raises(TimeUp), clock.enforced(0):
        both()
    # Its seconds count for no clock.
    assert ended == [0.0]


def test_an_inner_limit_leaves_the_outer_one_as_it_was():
    def inner() -> None:
        with pytest.raises(TimeUp, match=r"of 0\.01 s"), Clock(0.01).enforced(0):
            busy()
        busy()

    with pytest.raises(TimeUp, match=r"of 0\.3 s"), Clock(0.3).enforced(0):
        inner()


def test_what_ends_in_time_is_left_alone():
    before, timer = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    with Clock(1e300).enforced(), Clock(50).enforced():
        assert signal.getsignal(signal.SIGALRM) is not before
    assert signal.getsignal(signal.SIGALRM) is before
    # Whoever watches over the tests may have set an alarm, too.
    after = signal.getitimer(signal.ITIMER_REAL)
    assert after[1] == timer[1]
    assert (after[0] > 0) == (timer[0] > 0)


def test_other_threads_are_not_told():
    ended = []

    def work() -> None:
        with Clock(1e-9).enforced(0):
            ended.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended == [True]


@pytest.fixture
def release() -> Release:
    return release_from_dict(json.loads(releases()[1]))


def test_a_command_without_any_answer_in_time_says_so(tmp_path, release, attack_is):
    def late(*_: object, **__: object) -> None:
        raise TimeUp("later than a part of the limit")

    path = tmp_path / "model.json"
    write_release(release, path)
    attack_is(late)
    done = cli.run("audit", path, "--time-limit", 30)
    assert done.exit_code == 3
    assert "Not assessed: the time limit of 30 s was reached" in done.stdout


def test_an_error_that_foreign_code_makes_of_the_end_is_the_end():
    def foreign():
        try:
            while True:
                pass
        except TimeUp:
            raise TypeError("types differ") from None

    with pytest.raises(TimeUp, match=r"of 0\.01 s"), Clock(0.01).enforced(0):
        foreign()
    with pytest.raises(TypeError), Clock(50).enforced(0):
        raise TypeError


# ---------------------------------------------------------------------- an audit whose time is up


@pytest.fixture(scope="module")
def data():
    found = treeleak.datasets.load_compas()
    X = found.X.sample(60, random_state=0)
    return X, found.y[X.index]


@pytest.mark.parametrize("at", ["open_model", "prepare_case"])
def test_reading_that_takes_too_long_is_not_assessed(data, breaks, at):
    X, y = data
    forest = RandomForestClassifier(3, random_state=0)
    vote = VotingClassifier([("a", forest), ("b", ExtraTreesClassifier(3))]).fit(X, y)
    breaks(run, at, TimeUp("late"))
    found = treeleak.audit(vote, X, y, time_limit=5)
    assert found.verdict == OPEN
    assert {"inventory", "counts", "reconstruction"} <= dict(found.not_assessed).keys()
    policy = treeleak.Policy("p", {"stored_rows": 1, "leaking_parts": 99, "unknown_parts": 99})
    ruling = treeleak.judge(found, policy)
    assert {c.state for c in ruling.checks if c.key != "leak_shown"} == {"not assessed"}
    assert "No part comes from single rows" not in found.to_html()


@pytest.mark.parametrize("part", range(len(run.ASSESSORS)))
def test_no_part_ends_the_audit_because_its_time_is_up(part):
    def late(_):
        raise TimeUp("late")

    clock = Clock.of(5)
    own = replace(run.ASSESSORS[part], assess=late, needs=(), of="leaves")
    after = own(Case(None, clock, None, AuditResults()))
    assert after.found.not_assessed == ((own.part, clock.timeout_message),)


@pytest.mark.slow
@pytest.mark.usefixtures("short_walks")
def test_a_measured_error_outlives_the_baselines(data, breaks):
    X, y = data
    breaks(compared, "run_baselines", TimeUp("late"))
    model = RandomForestClassifier(5, bootstrap=False, max_depth=2, random_state=0).fit(X, y)
    found = treeleak.audit(model, X, y, time_limit=30)
    m = found.measurement
    assert m.error < 0.3
    assert m.yardsticks == ()
    assert "baselines_not_tried" in {w.code for f in found.findings for w in f.messages}
    assert not found.verdict.startswith("no leak")
    policy = treeleak.Policy("p", {"exact_rows": 0.0, "advantage_over_guess": 1.0})
    states = {c.key: c.state for c in treeleak.judge(found, policy).checks}
    assert states["exact_rows"] == ("violated" if m.isolated_rows else "met")
    assert states["advantage_over_guess"] == "not assessed"
    assert percent(m.exact_rows) in found.to_html()
    found.to_json()
