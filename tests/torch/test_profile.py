"""The profile of a PyTorch program: which nodes of its captured graph each kernel computes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import nnmagic  # noqa: E402 - behind the skip
from nnmagic.functions.profile import profile  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own warnings


def test_each_kernel_says_the_nodes_that_it_computes() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(12, 40), torch.nn.ReLU(), torch.nn.Linear(40, 5))
    x = torch.randn(16, 12)
    function = nnmagic.from_torch(module, (x,)).function
    profiled = profile(function, (x.numpy(),), {})
    work = {name: kernel.flops for kernel in profiled.kernels for name in profiled.origins[kernel.name]}
    assert list(work) == ["addmm", "relu", "addmm_1"]
    assert all(f"  {name} = aten." in function.stages["source"] for name in work)
    first, second = 2 * 16 * 12 * 40, 2 * 16 * 40 * 5
    assert first <= work["addmm"] == work["relu"] <= 1.1 * first
    assert second <= work["addmm_1"] <= 1.1 * second
