"""`python -m nnmagic` says what there is, and whether functions can be compiled."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import nnmagic


@pytest.mark.budget(4)
def test_the_module_prints_what_there_is() -> None:
    done = subprocess.run([sys.executable, "-m", "nnmagic"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for line in (
        rf"nnmagic +{re.escape(nnmagic.__version__)}",
        r"apache-tvm +0\.",
        r"model +\S",
        r"threads +\d+, on \d+ cores; NNMAGIC_NUM_THREADS",
        r"functions +\d+, [\d.]+ of \d+ MB",
        r"relax +works: compiled and ran a program in",
        r"numpy +works",
        r"LAPACK +SciPy's, which machine code calls",
    ):
        assert re.search(rf"(?m)^  {line}", done.stdout), line
