"""The profile of a PyTorch program: which nodes of its captured graph each kernel computes."""

from __future__ import annotations

import re

import pytest

torch = pytest.importorskip("torch")

import nnmagic  # noqa: E402 - behind the skip
from nnmagic.functions.inspection.profile import profile  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own warnings


def test_each_kernel_says_the_nodes_that_it_computes() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(12, 40), torch.nn.ReLU(), torch.nn.Linear(40, 5))
    x = torch.randn(16, 12)
    function = nnmagic.from_torch(module, (x,))
    profiled = profile(function, (x,), {})
    assert profiled.origins == profile(function.function, (x.numpy(),), {}).origins
    work = {name: kernel.flops for kernel in profiled.kernels for name in profiled.origins[kernel.name]}
    assert list(work) == ["addmm", "relu", "addmm_1"]
    assert all(f"  {name} = aten." in function.stages["source"] for name in work)
    first, second = 2 * 16 * 12 * 40, 2 * 16 * 40 * 5
    assert first <= work["addmm"] == work["relu"] <= 1.1 * first
    assert second <= work["addmm_1"] <= 1.1 * second


def test_the_magic_takes_tensors() -> None:
    from nnmagic.jupyter.commands import run

    function = nnmagic.from_torch(torch.nn.Softmax(1), (torch.ones(4, 9),))
    shown = str(run("profile f(torch.ones(4, 9))", {"f": function, "torch": torch}))
    assert re.search(r"nn\.softmax +_softmax +1 ", shown)
    with pytest.raises(ValueError, match="dimension 1 must be 9"):
        run("profile f(torch.ones(4, 8))", {"f": function, "torch": torch})


def test_a_profile_updates_buffers_once() -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x + self.calls

    module = Counting()
    profile(nnmagic.from_torch(module, (torch.ones(3),)), (torch.ones(3),), {})
    assert module.calls.item() == 1
