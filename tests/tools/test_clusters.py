"""Functions and cells on the engines of a local ipyparallel cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import nnmagic

pytestmark = pytest.mark.full
SOURCE = "def foo(x: Tensor[('n',), f32]): return relu(x) * 2.5 + 1"
ROWS = [np.arange(-2, 3, dtype="float32") * number for number in range(6)]


@pytest.fixture(scope="module")
def engines() -> Iterator[Any]:
    """Two engines, each a process with a kernel."""
    ipyparallel = pytest.importorskip("ipyparallel", reason="`make test-tools` installs ipyparallel")
    with ipyparallel.Cluster(n=2, log_level=40) as client:
        yield client[:]


def expected(row: np.ndarray) -> np.ndarray:
    return np.maximum(row, 0) * np.float32(2.5) + 1


def test_engines_call_a_function_without_a_compiler(engines: Any) -> None:
    foo = nnmagic.compile(SOURCE)
    for row, found in zip(ROWS, engines.map_sync(foo, ROWS), strict=True):
        np.testing.assert_array_equal(found, expected(row))
    engines.execute("import sys; loaded = 'tvm' in sys.modules", block=True)
    assert engines["loaded"] == [False, False]


def test_a_cell_runs_on_every_engine(engines: Any) -> None:
    engines.push({"foo": nnmagic.compile(SOURCE), "x": ROWS[3]}, block=True)
    engines.execute("%load_ext nnmagic", block=True)
    shown = engines.execute("%%tinynn\ndef bar(x: Tensor[('n',), f32]):\n    return foo(x) - 1\n", block=True)
    assert all("def @bar(" in str(outputs) for outputs in shown.outputs)
    engines.execute("y = bar(x)", block=True)
    for found in engines["y"]:
        np.testing.assert_array_equal(found, expected(ROWS[3]) - 1)


def test_an_engine_s_error_is_located(engines: Any) -> None:
    engines.execute("%load_ext nnmagic", block=True)
    cell = "%%tinynn\ndef wrong(x: Tensor[(3,), f32]):\n    return x + unknown\n"
    with pytest.raises(Exception, match="unknown name `unknown`") as caught:
        engines.execute(cell, block=True)
    assert "3 |     return x + unknown" in str(caught.value)
