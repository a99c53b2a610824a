"""Studies without the network and without copies of the data: a sentence, and no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOBODY = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("study", "said"),
    [("draft-table-2", "TREELEAK_DATA names"), ("ferry-figure-2", "TREELEAK_DATA must name")],
)
@pytest.mark.slow
def test_a_study_without_its_data_says_where_to_put_a_copy(tmp_path, study, said):
    command = [sys.executable, "-m", "experiments", "run", study, "--quick", "--out", tmp_path]
    empty = {"TREELEAK_DATA": str(tmp_path), "http_proxy": NOBODY, "https_proxy": NOBODY}
    ended = subprocess.run(
        command, env=os.environ | empty, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert said in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr
