"""Errors of the import name every operator, its nodes with their lines, and what would help."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import nnmagic  # noqa: E402 - behind the skip
from nnmagic.importers.torch import TorchError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own


def test_all_problems_at_once() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        first = torch.rand_like(x) + x
        second = torch.special.bessel_j0(x) + torch.special.bessel_j0(first)
        return first + second.sin()

    with pytest.raises(TorchError) as caught:
        nnmagic.from_torch(f, (torch.ones(3),))
    messages = [item.message for item in caught.value.diagnostics]
    assert len(messages) == 2
    assert "random numbers are not supported" in messages[0]
    assert "bessel_j0" in messages[1]
    assert "nodes 'special_bessel_j0' at test_errors.py:" in messages[1]
    assert "special_bessel_j0_1" in messages[1]
    assert all(item.hint for item in caught.value.diagnostics)


def test_numpy_in_a_module_is_refused_with_the_fix() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.sort(x.numpy()))

    with pytest.raises(TorchError) as caught:
        nnmagic.from_torch(f, (torch.ones(3),))
    assert "torch.library.custom_op" in (caught.value.diagnostics[0].hint or "")


def test_an_operator_of_one_s_own_needs_a_decomposition() -> None:
    @torch.library.custom_op("nnmagic_tests::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.numpy() * 2)

    double.register_fake(torch.empty_like)
    module, x = torch.nn.Module(), torch.arange(3.0)
    module.forward = lambda x: double(x) + 1
    with pytest.raises(TorchError, match=r"nnmagic_tests\.double") as caught:
        nnmagic.from_torch(module, (x,))
    assert "run_decompositions" in (caught.value.diagnostics[0].hint or "")
    table = {torch.ops.nnmagic_tests.double.default: lambda x: x + x}
    program = torch.export.export(module, (x,)).run_decompositions(table)
    torch.testing.assert_close(nnmagic.from_torch(program)(x), double(x) + 1)


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="a module, a function or an ExportedProgram"):
        nnmagic.from_torch(3)
    with pytest.raises(ValueError, match="Python identifier"):
        nnmagic.from_torch(torch.sin, (torch.ones(1),), name="a b")
    with pytest.raises(TorchError, match=r"torch\.export cannot capture it"):
        nnmagic.from_torch(torch.nn.Linear(3, 2), (torch.ones(4),))


def test_division_by_zero_is_an_error() -> None:
    function = nnmagic.from_torch(torch.floor_divide, (torch.ones(2, dtype=torch.int64),) * 2, name="f")
    with pytest.raises(AssertionError, match="division by zero"):
        function(torch.tensor([4, 5]), torch.tensor([2, 0]))


def test_calls_that_do_not_fit() -> None:
    function = nnmagic.from_torch(torch.sin, (torch.ones(2),), name="f")
    with pytest.raises(TypeError, match="float32"):
        function(torch.ones(2, dtype=torch.float64))
    with pytest.raises(TypeError, match="must be a tensor"):
        function("text")
