"""A study on a cluster: nothing is lost and nothing is kept twice when a worker dies."""

import os
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from experiments import Store, carry_out, catalogue, plan
from experiments.__main__ import app
from toy_study import TRACE, study, traced
from treeleak.core.errors import BadInput

distributed = pytest.importorskip("distributed", reason="needs Dask: make test-cluster")

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A scheduler and two workers, processes of their own."""
    monkeypatch.setenv(TRACE, str(tmp_path))
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    environment = os.environ | {"PYTHONPATH": path, TRACE: str(tmp_path)}
    ready = tmp_path / "scheduler.json"
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    options = ["--port", "0", "--no-dashboard", "--host", "127.0.0.1"]
    processes = [subprocess.Popen([*dask, *options, "--scheduler-file", str(ready)], **quiet)]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-dashboard", "--no-nanny"]
    worker += [
        "--nthreads",
        "1",
        "--scheduler-file",
        str(ready),
        "--local-directory",
        str(tmp_path),
    ]
    workers = [subprocess.Popen(worker, **quiet) for _ in range(2)]
    client = distributed.Client(scheduler_file=str(ready), timeout=60)
    client.wait_for_workers(2, timeout=60)
    yield client.scheduler.address, workers
    client.close()
    for process in [*workers, *processes]:
        process.kill()
        process.wait()


def test_a_worker_that_is_killed_loses_and_repeats_nothing(cluster, tmp_path):
    address, workers = cluster
    store, toy = Store(tmp_path / "runs.sqlite"), study(60, 0.1)

    def told(done, all_, seconds):
        if done == 10:
            os.kill(workers[0].pid, signal.SIGKILL)

    outcome = carry_out(plan(toy, store), store, cluster=address, told=told)
    assert outcome.finished == 59
    assert [p["x"] for p, _ in outcome.failed] == [13]
    kept = [r.parameters["x"] for r in store.runs("toy")]
    assert sorted(kept) == [x for x in range(60) if x != 13]
    begun = traced(tmp_path)
    assert set(begun) == set(range(60))
    # Pure runs whose result died with the worker are run again; those that are kept are not.
    assert len(begun) < 60 + 30


def test_the_same_command_on_a_cluster(cluster, tmp_path, monkeypatch):
    address, _ = cluster
    monkeypatch.setattr(catalogue, "STUDIES", {"toy": study(10)})
    command = ["run", "toy", "--out", str(tmp_path), "--cluster", address]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert len(Store(tmp_path / "runs.sqlite").runs("toy")) == 10


def test_a_scheduler_that_is_not_there(tmp_path, monkeypatch):
    from treeleak.batch import index as cluster_module

    monkeypatch.setattr(cluster_module, "PATIENCE", 1.0)
    store = Store(tmp_path / "runs.sqlite")
    with pytest.raises(BadInput, match="no Dask scheduler answers there"):
        carry_out(plan(study(3), store), store, cluster="tcp://127.0.0.1:9")
