"""Damaged files of functions are refused when they are loaded as data: a fixed number of random ones."""

import pytest

from tests.child_process import run_python
from tests.systems import POSIX


@POSIX
@pytest.mark.full
def test_damaged_files_are_refused() -> None:
    run_python("-m", "tests.functions.file_mutations", "1", "3000")
