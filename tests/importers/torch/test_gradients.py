"""Gradients through ``torch.compile(backend="nnmagic")``: eager torch judges them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from nnmagic.functions.from_torch import torch_backend  # noqa: E402 - behind the skip

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own
nn, F = torch.nn, torch.nn.functional


class Called(nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return self.function(data)


CASES = {
    "grouped convolution": (
        lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2),
        (2, 4, 9, 8),
    ),
    "transposed convolution": (
        lambda: nn.ConvTranspose2d(3, 4, 3, 2, padding=1, output_padding=1),
        (2, 3, 5, 4),
    ),
    "convolution of sequences": (lambda: nn.Conv1d(3, 5, 4), (2, 3, 9)),
    "average pool": (lambda: nn.AvgPool2d(3, 2, padding=1), (2, 3, 8, 7)),
    "adaptive pool": (lambda: nn.AdaptiveAvgPool2d((3, 2)), (2, 3, 8, 7)),
    "max pool": (lambda: nn.MaxPool2d(3, 2, padding=1), (2, 3, 8, 7)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (3, 4, 5, 5)),
    "layer norm": (lambda: nn.LayerNorm((4, 5)), (3, 4, 5)),
    "instance norm": (lambda: nn.InstanceNorm2d(3, affine=True), (2, 3, 4, 4)),
    "activations": (lambda: nn.Sequential(nn.GELU(), nn.SiLU(), nn.ELU(), nn.LeakyReLU()), (4, 6)),
    "attention": (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 5, 8)),
    "copies of edges": (lambda: nn.ReplicationPad2d((2, 1, -1, 3)), (2, 3, 4, 5)),
    "running log-sums": (lambda: Called(lambda x: torch.logcumsumexp(x, 1) + x.median(0).values), (3, 4)),
    "resize": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 4, 5)),
    "indices": (lambda: Called(lambda x: x[:, [0, 2, 2]].cumsum(1) * x.max(1, keepdim=True).values), (3, 4)),
    "patches": (
        lambda: Called(lambda x: F.fold(F.unfold(x, 2, stride=2) * 2, (4, 6), 2, stride=2)),
        (1, 2, 4, 6),
    ),
}


@pytest.mark.parametrize("last", [False, True])
def test_bags_of_open_number(last: bool) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    module = nn.EmbeddingBag(9, 3, mode="mean", padding_idx=2, include_last_offset=last)
    compiled = torch.compile(module, backend=torch_backend, dynamic=True, options={"engine": "numpy"})
    for count, begins in ((8, [0, 3, 3, 5]), (11, [0, 1, 6, 9, 10])):
        indices, offsets = torch.randint(0, 9, (count,)), torch.tensor(begins + [count] * last)
        found = []
        for run in (compiled, module):
            module.zero_grad()
            result = run(indices, offsets)
            result.square().sum().backward()
            found.append((result, module.weight.grad))
        torch.testing.assert_close(*found)


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    maker, shape = CASES[name]
    module = maker()
    twin = copy.deepcopy(module)
    data = torch.randn(shape, requires_grad=True)
    other = data.detach().clone().requires_grad_()
    result = torch.compile(module, backend=torch_backend)(data)
    expected = twin(other)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
    weights = torch.randn_like(expected)
    (result * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(data.grad, other.grad, rtol=1e-4, atol=1e-5)
    for own, theirs in zip(module.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(own.grad, theirs.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings(mode: str) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    bag = nn.EmbeddingBag(10, 3, mode=mode)
    indices, offsets = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 4, 4])
    with torch.no_grad():
        result = torch.compile(bag, backend=torch_backend)(indices, offsets)
        torch.testing.assert_close(result, bag(indices, offsets))


def test_gradients_of_embeddings() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    module = nn.Embedding(6, 3, padding_idx=1)
    twin = copy.deepcopy(module)
    ids = torch.tensor([[0, 1, 1], [5, 5, 2]])
    for run in (torch.compile(module, backend=torch_backend), twin):
        run(ids).square().sum().backward()
    torch.testing.assert_close(module.weight.grad, twin.weight.grad)


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape) + sum(shape)))


def symmetric(size: int) -> torch.Tensor:
    data = numbers(size, size)
    return data @ data.T + torch.eye(size)


def sampled(mode: str, padding: str, align: bool) -> Any:
    return lambda x, grid: F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=align)


INDICES, OFFSETS = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 4, 4])
MASK = torch.tensor([[True, False, True], [False, True, True]])
LEFT_WHOLE = {
    "solve": (torch.linalg.solve, numbers(3, 3), numbers(3)),
    "solve for batches of one matrix": (torch.linalg.solve, numbers(3, 3), numbers(2, 3, 2)),
    "solve for batches, from the right": (
        lambda a, b: torch.linalg.solve(a, b, left=False),
        numbers(2, 3, 3),
        numbers(2, 4, 3),
    ),
    "solve with a transpose": (lambda a, b: torch.linalg.solve(a.mT, b), numbers(3, 3), numbers(3, 2)),
    "determinant": (torch.linalg.det, numbers(2, 3, 3)),
    "determinant of a transpose": (lambda a: torch.linalg.det(a.mT), numbers(3, 3)),
    "determinant with zeros": (torch.linalg.det, torch.tensor([[0.0, 2.0], [3.0, 0.0]])),
    "logarithm of a determinant": (lambda a: torch.linalg.slogdet(a)[1], numbers(4, 4)),
    "swaps and triangles": (lambda a: torch.cat(torch.linalg.lu(a)[1:], 1), numbers(2, 4, 4)),
    "factors, unpacked": (lambda a: torch.lu_unpack(*torch.linalg.lu_factor(a))[2], numbers(5, 3)),
    "solve by factors": (
        lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b, left=False),
        numbers(2, 3, 3),
        numbers(2, 4, 3),
    ),
    "Cholesky": (torch.linalg.cholesky, symmetric(3)),
    "eigenvalues": (lambda a: torch.linalg.eigh(a + a.mT)[0], numbers(3, 3)),
    "QR": (lambda a: torch.linalg.qr(a)[1].abs(), numbers(4, 3)),
    "triangular": (
        lambda a, b: torch.linalg.solve_triangular(a.tril() + 2 * torch.eye(3), b, upper=False),
        numbers(3, 3),
        numbers(3, 2),
    ),
    "exponential of matrices": (torch.linalg.matrix_exp, torch.cat([numbers(1, 3, 3), 9 * numbers(1, 3, 3)])),
    "bags that are summed": (lambda w: F.embedding_bag(INDICES, w, OFFSETS, mode="sum"), numbers(10, 3)),
    "bags of means": (lambda w: F.embedding_bag(INDICES, w, OFFSETS, mode="mean"), numbers(10, 3)),
    "bags of maxima": (lambda w: F.embedding_bag(INDICES, w, OFFSETS, mode="max"), numbers(10, 3)),
    "bags without a row": (
        lambda w: F.embedding_bag(INDICES.view(2, 4), w, mode="mean", padding_idx=4),
        numbers(10, 3),
    ),
    "bags by weights": (
        lambda w, p: F.embedding_bag(
            INDICES, w, OFFSETS, mode="sum", per_sample_weights=p, padding_idx=3, include_last_offset=True
        ),
        numbers(10, 3),
        numbers(8),
    ),
    "rows by how often they are asked for": (
        lambda w: F.embedding(INDICES, w, padding_idx=2, scale_grad_by_freq=True),
        numbers(10, 3),
    ),
    "positions, cubic, zeros": (sampled("bicubic", "zeros", True), numbers(1, 2, 4, 5), numbers(1, 3, 2, 2)),
    "positions, cubic, border": (
        sampled("bicubic", "border", False),
        numbers(1, 2, 4, 5),
        numbers(1, 2, 2, 2),
    ),
    "positions, cubic, reflection": (
        sampled("bicubic", "reflection", True),
        numbers(1, 2, 4, 5),
        2 * numbers(1, 3, 2, 2),
    ),
    "positions, zeros": (sampled("bilinear", "zeros", True), numbers(2, 3, 4, 5), 1.2 * numbers(2, 3, 2, 2)),
    "positions, border": (sampled("bilinear", "border", False), numbers(1, 2, 4, 5), numbers(1, 3, 2, 2)),
    "positions, reflection": (
        sampled("bilinear", "reflection", False),
        numbers(1, 2, 4, 5),
        2 * numbers(1, 3, 2, 2),
    ),
    "positions, reflection, corners": (
        sampled("bilinear", "reflection", True),
        numbers(1, 2, 4, 5),
        2 * numbers(1, 3, 2, 2),
    ),
    "positions, nearest": (sampled("nearest", "zeros", False), numbers(1, 2, 4, 5), numbers(1, 3, 2, 2)),
    "positions in volumes": (
        sampled("bilinear", "zeros", False),
        numbers(1, 2, 3, 4, 5),
        numbers(1, 2, 2, 2, 3),
    ),
    "distances": (torch.cdist, numbers(3, 2), numbers(4, 2)),
    "distances to oneself": (lambda a: torch.cdist(a, a), numbers(3, 2)),
    "distances, p=1": (lambda a, b: torch.cdist(a, b, p=1), numbers(3, 2), numbers(4, 2)),
    "distances, p=3": (lambda a, b: torch.cdist(a, b, p=3), numbers(3, 2), numbers(4, 2)),
    "distances, p=inf": (lambda a, b: torch.cdist(a, b, p=float("inf")), numbers(2, 3, 2), numbers(2, 4, 2)),
    "distances of all pairs": (F.pdist, numbers(4, 3)),
    "distances of all pairs, p=3": (lambda a: F.pdist(a, 3), numbers(4, 3)),
    "second derivatives": (
        torch.func.hessian(lambda x: (x.outer(x).sin() * torch.arange(3.0)).sum()),
        numbers(3),
    ),
    "weight norm": (lambda v, g: torch._weight_norm(v, g, 0), numbers(4, 3), numbers(4, 1)),
    "masked scatter": (lambda x, s: x.masked_scatter(MASK, s), numbers(2, 3), numbers(5)),
    "antialias": (
        lambda x: F.interpolate(x, scale_factor=0.7, mode="bilinear", antialias=True),
        numbers(1, 2, 8, 8),
    ),
    "antialias, cubic": (
        lambda x: F.interpolate(x, size=(3, 11), mode="bicubic", antialias=True),
        numbers(1, 2, 8, 8),
    ),
}


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("name", LEFT_WHOLE)
def test_gradients_of_operators_that_torch_leaves_whole(name: str) -> None:
    """Test the rules of importers/torch/operators/backward."""
    function, *data = LEFT_WHOLE[name]
    torch._dynamo.reset()
    found = []
    for run in (function, torch.compile(function, backend=torch_backend)):
        leaves = [each.clone().requires_grad_() for each in data]
        result = run(*leaves)
        (result * torch.arange(1.0, 1 + result.numel()).view(result.shape)).sum().backward()
        found.append([leaf.grad for leaf in leaves])
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-4)


def test_two_arguments_that_have_no_gradient() -> None:
    def product(a: Any, b: Any, c: Any) -> Any:
        return a.view(-1) * b.view(-1) * c.view(-1)

    first, second, third = (
        torch.arange(6.0).reshape(2, 3).requires_grad_(number == 0) for number in range(3)
    )
    torch.compile(product, backend=torch_backend)(first, second, third).sum().backward()
    torch.testing.assert_close(first.grad, second * third, rtol=0, atol=0)
