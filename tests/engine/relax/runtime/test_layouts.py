"""No layout of an array gives a wrong number or kills the process: drawn at random in a child process."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.suites import FULL


@pytest.mark.full
def test_random_layouts_in_a_child_process():
    run = subprocess.run(
        [sys.executable, "-m", "tests.engine.relax.runtime.layouts", "1500" if FULL else "500"],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, f"exit status {run.returncode}\n{run.stdout}\n{run.stderr}"
