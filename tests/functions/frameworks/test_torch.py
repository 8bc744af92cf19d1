"""`f.torch`: compiled functions as functions of PyTorch; torch's own computation is the judge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnmagic

torch = pytest.importorskip("torch")

Pair = tuple[Callable[..., Any], Callable[..., Any]]


@pytest.fixture(scope="module")
def pair() -> Pair:
    squares = nnmagic.compile(
        'def squares(x: Tensor[("n", 3), f64], w: Tensor[(3,), f64], scale: f64 = 2.0):\n'
        "    return (x @ w) ** 2 * scale, x.sum()\n"
    )
    return squares.torch, lambda x, w, scale=2.0: ((x @ w) ** 2 * scale, x.sum())


@pytest.fixture
def given() -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(5, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    return x, torch.randn(3, dtype=torch.float64, generator=generator, requires_grad=True)


def test_values_and_gradients_of_first_and_second_order(pair: Pair, given: Any) -> None:
    ours, theirs = pair
    torch.testing.assert_close(ours(*given), theirs(*given))
    assert torch.autograd.gradcheck(lambda x, w: ours(x, w, scale=1.5), given)
    assert torch.autograd.gradgradcheck(ours, given)


def test_transforms_of_torch_func(pair: Pair, given: Any) -> None:
    x, w = (each.detach() for each in given)
    rows = torch.stack([x, 2 * x, -x])
    results = []
    for f in pair:

        def loss(w: Any, x: Any, f: Callable[..., Any] = f) -> Any:
            return f(x, w)[0].sum()

        results.append(
            [
                torch.func.grad(loss)(w, x),
                torch.func.vmap(f, (0, None))(rows, w),
                torch.func.vmap(torch.func.grad(loss), (None, 0))(w, rows),
                torch.func.jacrev(lambda w, f=f: f(x, w)[0])(w),
            ]
        )
    torch.testing.assert_close(*results)


def test_torch_compile_has_it_in_one_graph_of_any_size(pair: Pair, given: Any) -> None:
    x, w = given
    losses = [lambda x, w, f=f: torch.sin(f(torch.cos(x), w)[0]).sum() for f in pair]
    compiled = torch.compile(losses[0], fullgraph=True, backend="aot_eager")
    ours, theirs = compiled(x, w), losses[1](x, w)
    torch.testing.assert_close(torch.autograd.grad(ours, given), torch.autograd.grad(theirs, given))
    for rows in (4, 6, 9):
        other = torch.full((rows, 3), 0.5, dtype=torch.float64)
        torch.testing.assert_close(compiled(other, w), losses[1](other, w))


def test_the_operator_keeps_torchs_rules(pair: Pair, given: Any) -> None:
    pair[0](*given)
    name = next(name for name in dir(torch.ops.nnmagic) if name.startswith("squares_"))
    scale = torch.tensor(2.0, dtype=torch.float64)
    torch.library.opcheck(getattr(torch.ops.nnmagic, name).default, (*given, scale))


def test_a_module_learns_with_it() -> None:
    layer = nnmagic.compile(
        'def layer(x: Tensor[("n", 2), f64], w: Tensor[(2,), f64]):\n    y = x[:, 0] * 0.0\n'
        "    for i in range(x.shape[0]):\n        y[i] = tanh(x[i] @ w)\n    return y\n"
    )
    w = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
    x = torch.tensor([[1.0, 0.5], [-0.5, 1.0], [0.2, -0.3]], dtype=torch.float64)
    target = torch.tanh(x @ torch.tensor([0.3, -0.7], dtype=torch.float64))
    optimizer = torch.optim.LBFGS([w])

    def loss() -> Any:
        optimizer.zero_grad()
        value = ((layer.torch(x, w) - target) ** 2).sum()
        value.backward()
        return value

    for _ in range(5):
        optimizer.step(loss)
    torch.testing.assert_close(w.detach(), torch.tensor([0.3, -0.7], dtype=torch.float64), atol=1e-4, rtol=0)


def test_integers_bfloat16_records_and_functions_without_types() -> None:
    f = nnmagic.compile(
        'def f(x: Tensor[("n",), bf16], i: i64):\n'
        '    return {"y": x * bf16(2), "i": i + 1, "b": x[x > bf16(0)]}\n'
    ).torch
    x = torch.tensor([1.0, -2.0, 3.0], dtype=torch.bfloat16, requires_grad=True)
    result = f(x, 3)
    assert (result["i"].item(), result["b"].shape, result["y"].dtype) == (4, (2,), torch.bfloat16)
    result["y"].float().sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]

    @nnmagic.function
    def total(x, axis=0):  # type: ignore[no-untyped-def] # what the test is about
        return np.tanh(x).sum(axis=axis)

    y = torch.tensor([[0.1, 0.2], [0.3, 0.4]], dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(total.torch(y, axis=1), torch.tanh(y).sum(1))
    assert torch.autograd.gradcheck(lambda y: total.torch(y, axis=1), (y,))


def test_gradients_of_complex_numbers_are_torchs() -> None:
    f = nnmagic.compile(
        'def f(z: Tensor[("n",), c128], x: Tensor[("n",), f64]):\n'
        "    return z * z * x + conj(z), abs(z) ** 2 * x\n"
    ).torch
    z = torch.tensor([0.5 + 1j, -2 - 0.3j], dtype=torch.complex128, requires_grad=True)
    x = torch.tensor([0.7, -1.2], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(f, (z, x))
    assert torch.autograd.gradgradcheck(f, (z, x))


def test_errors_name_the_argument(pair: Pair, given: Any) -> None:
    x, w = given
    with pytest.raises(TypeError, match=r"'x' must be of torch.float64, not torch.float32; .*\.to\("):
        pair[0](x.float(), w)
    with pytest.raises(ValueError, match="dimension 1 must be 3, not 2"):
        pair[0](x[:, :2], w)
    with pytest.raises(TypeError, match="on the CPU, not on meta"):
        pair[0](x.to("meta"), w)
