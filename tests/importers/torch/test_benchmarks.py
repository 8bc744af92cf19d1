"""The benchmarks of torch.compile: what the backend computes, judged by eager torch in f64."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from benchmarks.cases import ROWS
from benchmarks.measure import QUICK
from benchmarks.worker import row_result

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore")]  # torch's own warnings


@pytest.mark.parametrize("name", [row.name for row in ROWS if row.name.startswith("torch: ")])
def test_modules_compute_what_torch_does(name: str) -> None:
    import torch

    (row,) = (row for row in ROWS if row.name == name)
    threads = torch.get_num_threads()
    with torch.no_grad():  # a row switches gradients off, and the threads to one: not for the tests after it
        result = row_result(row, 1, ("nnmagic", "torch"), QUICK)
    torch.set_num_threads(threads)
    assert (set(result["timings"]), result["wrong"]) == ({"nnmagic", "torch"}, {})
