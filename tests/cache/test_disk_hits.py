"""Functions of every kind give the same where they are found on disk; no compiler is loaded, no parser."""

import pytest

from tests.child_process import run_python


def run(cache):
    return run_python("-m", "tests.cache.fresh_process", NNMAGIC_CACHE_DIR=str(cache)).stdout


@pytest.mark.full
def test_what_is_found_on_disk_gives_the_same(tmp_path):
    first = run(tmp_path / "cache")
    second = run(tmp_path / "cache")
    assert first.endswith("['tvm', 'synr']\n")
    assert second.endswith("[]\n"), "the compiler or the parser was loaded"
    assert second.count("| disk\n") == first.count("| None\n") > 10
    assert second.replace("| disk\n", "| None\n").removesuffix("[]\n") == first.removesuffix(
        "['tvm', 'synr']\n"
    )
