"""Random numbers under ``torch.compile(backend="nnmagic")`` are those that eager torch draws with a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own
F = torch.nn.functional

DRAWS: dict[str, Callable[[Any], Any]] = {
    "dropout": lambda x: F.dropout(x, 0.3) + F.dropout(x, 0.0) + F.dropout(x, 1.0),
    "dropout of channels": lambda x: F.dropout1d(x[None], 0.4) + F.alpha_dropout(x, 0.2, training=True),
    "dropout of halves": lambda x: F.dropout(x.half(), 0.5).float(),
    "normal": lambda x: (
        torch.randn_like(x) * x + torch.randn(3, 1).sum() + torch.normal(0.0, 2.0, (2,)).sum()
    ),
    "uniform": lambda x: x * torch.rand(x.shape[0], 4) + torch.empty_like(x).uniform_(-1, 2),
    "integers": lambda x: x[torch.randperm(x.shape[0])] * torch.randint(2, 9, x.shape),
    "categories": lambda x: F.gumbel_softmax(x, tau=0.5, hard=True) * x,
    "chance": lambda x: x * torch.empty_like(x).bernoulli_(0.3) + torch.empty_like(x).exponential_(2.0),
    "chances": lambda x: (
        x * torch.bernoulli(x.detach().sigmoid())
        + torch.bernoulli(x.detach().double().sigmoid())
        + x * torch.empty_like(x).bernoulli_(x.detach().double().sigmoid())
    ),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5, scale=0.5),
}


def test_slopes_are_drawn_of_negative_numbers() -> None:
    torch._dynamo.reset()
    module = torch.nn.RReLU(0.1, 0.4)
    x = torch.linspace(-2, 1, 500).requires_grad_()
    y = torch.compile(module, backend="nnmagic", options={"engine": "numpy"})(x)
    y.sum().backward()
    assert torch.equal(y[x > 0], x[x > 0])
    slopes = (y / x)[x <= 0]
    assert 0.1 <= slopes.min() < 0.12 < 0.38 < slopes.max() <= 0.4
    torch.testing.assert_close(x.grad[x <= 0], slopes)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", DRAWS)
def test_the_numbers_are_those_of_eager_torch(name: str, dynamic: bool) -> None:
    """Results, gradients, and what is drawn afterwards."""
    torch._dynamo.reset()
    options = {"engine": "numpy"}
    compiled = torch.compile(DRAWS[name], backend="nnmagic", dynamic=dynamic, options=options)
    for size in (3, 5):
        found = []
        for run in (DRAWS[name], compiled):
            torch.manual_seed(size)
            x = (torch.arange(4.0 * size).reshape(size, 4) / 7 - 1).requires_grad_()
            result = run(x)
            result.square().sum().backward()
            found.append((result, x.grad, torch.rand(1)))
        torch.testing.assert_close(found[1], found[0])
