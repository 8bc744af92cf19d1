"""Halves and Python numbers under ``torch.compile(backend="nnmagic")``: eager torch judges them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import nnmagic  # noqa: E402 - behind the skip

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own

FUNCTIONS: dict[str, Any] = {
    "a mask": lambda x: (1.0 - x) * -1e9,
    "a small factor": lambda x: x * 1e-8,
    "a large factor": lambda x: x * 70000.0,
    "a large divisor": lambda x: x / 70000.0,
    "a small divisor": lambda x: x / 1e-8,
    "a large dividend": lambda x: 1e6 / x,
    "the least float32": lambda x: x * torch.finfo(torch.float32).min,
    "a sum": lambda x: x + 0.3,
    "a difference": lambda x: 0.3 - x,
    "a multiple is added": lambda x: torch.add(x, x, alpha=0.3),
    "a tensor of rank 0": lambda x: x * torch.tensor(1.1),
    "floor division": lambda x: x // 0.7,
    "a remainder": lambda x: x % 0.7,
    "a power": lambda x: x**1.3,
    "a comparison": lambda x: x > 1.1,
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.3),
    "a distance": lambda x: torch.dist(x, torch.ones_like(x)),
    "leaky relu": lambda x: torch.nn.functional.leaky_relu(-x, 0.3),
    "a scaled product": lambda x: torch.addmm(x[:, None], x[:, None], x[None, :1], beta=1e-8, alpha=1e-8),
}


#: What torch computes with fused multiplications and sums, or with an approximation.
APPROXIMATE = ("a power", "a multiple is added")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_are_rounded_as_in_torch(name: str, dtype: Any) -> None:
    """The engine numpy rounds each result to a half, as torch; machine code may keep bfloat16 wider."""
    data = torch.cat([torch.tensor([0.0, 1.0, 0.5, 60000.0, 1e-4]), torch.linspace(0, 3, 200)]).to(dtype)
    function = FUNCTIONS[name]
    expected = function(data)
    found = nnmagic.from_torch(function, (data,), engine="numpy")(data)
    torch.testing.assert_close(
        found, expected, rtol=1e-2 if name in APPROXIMATE else 0, atol=0, equal_nan=True
    )


def test_machine_code() -> None:
    torch._dynamo.reset()
    data = torch.tensor([0.0, 1.0, 0.5, 60000.0, 1e-4], dtype=torch.float16)

    def f(x: Any) -> Any:
        return x * 1e-6 * 1e6, (1.0 - x) * -1e9, x / 70000.0

    torch.testing.assert_close(
        torch.compile(f, backend="nnmagic")(data), f(data), rtol=2e-3, atol=0, equal_nan=True
    )
