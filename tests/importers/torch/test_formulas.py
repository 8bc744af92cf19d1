"""`importers.torch.formulas`, through ``torch.compile(backend="nnmagic")``: eager torch judges them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import nnmagic  # noqa: E402 - behind the skip

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own
F = torch.nn.functional


def compare(function: Any, *args: Any, tolerance: float = 1e-5) -> None:
    """Compare results, their strides, and the gradients of what has some."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="nnmagic", options={"engine": "numpy"})
    outcomes = []
    for run in (compiled, function):
        given = [arg.detach().clone().requires_grad_(arg.requires_grad) for arg in args]
        result = run(*given)
        if result.requires_grad:
            weights = torch.linspace(0.5, 1, result.numel()).view(result.shape)
            (result.float() * weights).sum().backward()
        outcomes.append([result.detach(), *(arg.grad for arg in given if arg.requires_grad)])
    for found, expected in zip(*outcomes, strict=True):
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance, check_stride=True)


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hann", "kaiser"])
def test_windows(name: str, periodic: bool) -> None:
    make = getattr(torch, f"{name}_window")
    compare(lambda x: x + torch.cat([make(size, periodic) for size in (0, 1, 2, 7, 8)]), torch.ones(18))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"is_causal": True},
        {
            "scale": 0.3,
            "attn_mask": torch.tensor([[True, False, True, False, True], [False] * 5, [True] * 5]),
        },
        {"attn_mask": torch.linspace(-1, 1, 15).view(3, 5)},
        {"enable_gqa": True},
        {"dtype": torch.bfloat16, "is_causal": True},
    ],
    ids=str,
)
def test_attention_lies_in_memory_as_its_query(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    options = dict(options)
    dtype = options.pop("dtype", torch.float32)
    heads = 2 if options.get("enable_gqa") else 4
    query = torch.randn(2, 3, 4, 8, dtype=dtype, requires_grad=True)
    key, value = (torch.randn(2, 5, heads, 8, dtype=dtype, requires_grad=True) for _ in range(2))

    def attend(*tensors: torch.Tensor) -> torch.Tensor:
        moved = F.scaled_dot_product_attention(*(each.transpose(1, 2) for each in tensors), **options)
        return moved.transpose(1, 2).view(2, 3, 32)  # which needs eager's layout

    compare(attend, query, key, value, tolerance=2e-2 if dtype == torch.bfloat16 else 1e-5)


def test_rounding_to_scales() -> None:
    data = torch.tensor([[-9.0, -0.26, 0.125, 0.375], [0.4, 2.0, 7.5, 90.0]], requires_grad=True)
    scales, zeros = torch.tensor([0.25, 0.5]), torch.tensor([1, -2], dtype=torch.int32)
    compare(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.05, 3, 0, 63), data)
    compare(lambda x: torch.fake_quantize_per_tensor_affine(x, scales[:1], zeros[:1], -8, 7), data)
    for zero in (zeros, zeros + 0.5):
        compare(lambda x, zero=zero: torch.fake_quantize_per_channel_affine(x, scales, zero, 0, -8, 7), data)


@pytest.mark.parametrize("ends", [[2, 2, 6], [0, 5, 6]])
def test_products_of_groups(ends: list[int]) -> None:
    """Rows of groups are multiplied by matrices of their own, as by the experts of transformers."""
    torch.manual_seed(0)
    rows = torch.randn(6, 8, dtype=torch.bfloat16, requires_grad=True)
    matrices = torch.randn(3, 8, 16, dtype=torch.bfloat16, requires_grad=True)
    offsets = torch.tensor(ends, dtype=torch.int32)
    compare(lambda x, w: torch._grouped_mm(x, w, offs=offsets), rows, matrices, tolerance=2e-2)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_products_of_reflections(left: bool, transpose: bool) -> None:
    torch.manual_seed(0)
    vectors, scales = torch.geqrf(torch.randn(2, 4, 3))
    other = torch.randn((2, 4, 5) if left else (2, 5, 4))
    compare(lambda a, t, c: torch.ormqr(a, t, c, left, transpose), vectors, scales, other)
    compare(torch.linalg.householder_product, vectors.requires_grad_(), scales.requires_grad_())


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses_of_several_labels(reduction: str) -> None:
    """They end at the first -1, at places that differ."""
    labels = torch.tensor([[1, 2, -1, 0], [3, -1, 0, 0], [0, 3, 2, 1], [-1, 0, 0, 0]])
    data = torch.linspace(-2, 2, 16).view(4, 4).sin().requires_grad_()
    compare(lambda x: F.multilabel_margin_loss(x, labels, reduction=reduction), data)
    compare(lambda x: F.multilabel_margin_loss(x[1], labels[1], reduction=reduction), data)
    captured = nnmagic.from_torch(
        lambda x: F.multilabel_margin_loss(x, labels, reduction=reduction), (data.detach(),), engine="numpy"
    )
    expected = F.multilabel_margin_loss(data.detach(), labels, reduction=reduction)
    torch.testing.assert_close(captured(data.detach()), expected)
