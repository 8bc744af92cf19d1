"""Damaged Relay text is refused at once with an error of ours: a fixed number of random ones."""

import pytest

from tests.child_process import run_python
from tests.systems import POSIX


@POSIX
@pytest.mark.full
@pytest.mark.parametrize(("engine", "count"), [("numpy", 3000), ("relax", 400)])
def test_damaged_texts_are_refused(engine: str, count: int) -> None:
    run_python("-m", "tests.relay.text.mutations", engine, "1", str(count))
