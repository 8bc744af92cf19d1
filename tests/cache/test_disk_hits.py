"""Functions of every kind give the same where their code is found on disk and the compiler is not loaded."""

import os
import subprocess
import sys
from pathlib import Path


def run(cache):
    environment = {**os.environ, "NNMAGIC_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.cache.fresh_process"],
        cwd=Path(__file__).parents[2],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_is_found_on_disk_gives_the_same(tmp_path):
    first = run(tmp_path / "cache")
    second = run(tmp_path / "cache")
    assert first.endswith("True\n")
    assert second.endswith("False\n"), "the compiler was loaded"
    assert second.count("| disk\n") == first.count("| None\n") > 10
    assert second.replace("| disk\n", "| None\n").removesuffix("False\n") == first.removesuffix("True\n")
