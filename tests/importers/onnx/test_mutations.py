"""Damaged ONNX files are refused at once with an error of the import: a fixed number of random ones."""

import pytest

from tests.child_process import run_python
from tests.systems import POSIX


@POSIX
@pytest.mark.full
def test_damaged_models_are_refused() -> None:
    run_python("-m", "tests.importers.onnx.mutations", "1", "3000")
