"""What PyTorch's code says, a cell takes under the same names: judged by PyTorch where it is installed."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from tests.tinynn.cases import errors_of

torch = pytest.importorskip("torch")

PARAMETERS = (
    "x: Tensor[(3, 4), f32], y: Tensor[(4, 3), f32], z: Tensor[(2, 3, 4), f32], i: Tensor[(3, 2), i64]"
)

#: Each runs as PyTorch's code and as a cell.
EXPRESSIONS = """
x.view(2, 6)
x.view(-1)
z.permute(0, 2, 1).contiguous().view(2, 12)
x.unsqueeze(0), x.unsqueeze(-1), x.unsqueeze(dim=1)
x.masked_fill(x > 0, float("-inf")), x.masked_fill(x > 0, 2)
z.transpose(1, 2), z.transpose(-1, 0)
z.size(0) + x.size(-1), z.view(z.size(0), -1)
x.t(), x.t() @ x, x.mm(y), x.matmul(y)
z.bmm(z.transpose(1, 2))
x.clamp(-0.5, 0.5), x.clamp(min=0), x.clamp(max=0.25)
x.sum(dim=1), x.sum(dim=1, keepdim=True), x.mean(dim=(0, 1)), x.sum(-1), x.prod(dim=0)
x.argmax(dim=1), x.amax(dim=0), x.cumsum(dim=1), x.any(dim=1), x.softmax(dim=-1)
torch.tril(x), torch.triu(x, diagonal=1), torch.cat([x, x], dim=1), torch.cat((x, x), 0)
torch.arange(4), torch.arange(1, 4), torch.arange(0, 1, 0.25), torch.arange(3, dtype=torch.float64)
torch.zeros(2, 3), torch.ones((2, 3)), torch.zeros(2, dtype=torch.int64)
torch.full((2,), 1.5), torch.full((2,), 3)
torch.eye(3), torch.linspace(0, 1, 5), torch.tensor([1.0, 2.0])
torch.tensor([[1, 2], [3, 4]]), torch.tensor(2.5)
torch.where(x > 0, x, 0), torch.matmul(x, y), torch.einsum("ij,jk->ik", x, y), torch.stack([x, x], dim=1)
torch.topk(x, 2), x.topk(2, dim=0, largest=False), torch.sigmoid(x), torch.logsumexp(x, dim=1)
torch.transpose(x, 0, 1), torch.permute(z, (2, 0, 1)), torch.flatten(z, 1), torch.bmm(z, z.transpose(1, 2))
x.gather(1, i), x.index_select(0, i[:, 0]), torch.gather(x, 1, i)
x.expand(2, 3, 4), x[:, :1].expand(-1, 5), x.chunk(2, dim=1), torch.chunk(x, 2, 1)
x.long(), x.double(), x.to(torch.float64), i.float(), x.to("cpu"), x.dim(), x.numel()
torch.eq(x, x), torch.lt(x, 0), x.sub(1), x.mul(x), x.div(2), torch.add(x, x), torch.clamp(x, 0, 1)
F.relu(x), F.softmax(x, dim=-1), F.gelu(x), F.layer_norm(x, (4,)), F.linear(x, x)
F.batch_norm(x, b, v, w, c), F.batch_norm(x, running_mean=b, running_var=v, eps=1e-3)
torch.squeeze(x[:1], 0), torch.roll(x, 1, 0), torch.flip(x, (0,))
torch.count_nonzero(x > 0), x.clone(), x.detach()
torch.max(x, 1), torch.min(x), torch.max(x, y.T), torch.sort(x, dim=0, descending=True), torch.sort(x)
torch.std(x), torch.var(x, dim=1), torch.std(x, 1, unbiased=False)
torch.var(x, dim=0, correction=0, keepdim=True)
torch.split(x, 3, dim=1), torch.split(x, [1, 2]), torch.nonzero(x > 0)
torch.addmm(c[:3], x, y), torch.addmm(x[:, :3], x, y, beta=0.5, alpha=2), torch.baddbmm(z @ z.mT, z, z.mT)
torch.zeros(2, device=x.device, dtype=x.dtype), torch.arange(3, device="cpu"), x.double().type_as(x)
F.pad(x, (1, 2)), F.pad(z, (1, 0, 0, 2), value=1.5), F.pad(z, (2, 1), mode="reflect")
F.pad(z, (1, 1), "circular")
x.scatter(1, i, x[:, :2]), x.scatter(0, i[:2], 9.0)
x.std(dim=1), x.std(dim=(0, 1)), x.var(dim=0, keepdim=True, correction=0), x.var(dim=1, unbiased=False)
x.max(dim=1).values, x.max(dim=1).indices, x.min(dim=0), torch.max(x, 1).values, x.aminmax(dim=1).max
x.sort(dim=1, descending=True).values, x.topk(2, dim=1).values, x.median(dim=0).values, torch.median(z)
x.split(2, dim=1), x.split([1, 2], dim=0), torch.std_mean(x, dim=1), torch.var_mean(x)[0]
z.unfold(2, 2, 1), z.unfold(1, 2, 2).mean(-1), x.bool(), x.lerp(x * 2, 0.5), x.detach().numpy()
torch.unique(i, return_counts=True), torch.bincount(i[:, 0]), torch.cdist(x, x * 2)
torch.meshgrid(x[0], x[1], indexing="ij")
torch.cummax(x, dim=1), torch.cummin(x, 0), x.cummax(dim=0).values, torch.cummax(x * (x > 0), 1)
torch.cummin(i, 0)
torch.kthvalue(x, 2), x.kthvalue(1, dim=0, keepdim=True).values, torch.mode(i, 0).values, i.mode().values
torch.nanmedian(x), torch.nanmedian(torch.where(x > 0.5, torch.nan, x), dim=1), i.nanmedian(dim=0).values
F.unfold(z[None], 2, padding=1), F.unfold(z, (2, 3), stride=(1, 2))
F.unfold(z[None], 2, dilation=2, padding=(1, 0)), F.fold(x, (2, 4), (1, 3))
F.fold(F.unfold(z[None], 2, stride=2, padding=1), (3, 4), 2, stride=2, padding=1)
x.masked_fill(x > 0, torch.finfo(x.dtype).min), torch.iinfo(torch.int32).max - i
params[f"layer{1}.weight"] * x, [params[f"layer{k}.weight"] for k in range(2)]
""".strip().split("\n")


def namespace() -> dict[str, object]:
    generator = torch.Generator().manual_seed(3)
    vectors = {name: torch.rand(4, generator=generator) + 0.5 for name in "bvwc"}
    params = {f"layer{k}.weight": torch.rand(4, generator=generator) for k in range(2)}
    return {"torch": torch, "F": torch.nn.functional, "params": params, **vectors}


def arrays() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(4)
    shapes = {"x": (3, 4), "y": (4, 3), "z": (2, 3, 4)}
    given = {name: generator.normal(size=shape).astype("float32") for name, shape in shapes.items()}
    return {**given, "i": generator.integers(0, 3, (3, 2))}


def assert_same(ours: object, theirs: object) -> None:
    if isinstance(theirs, tuple | list):
        assert isinstance(ours, tuple)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
        return
    expected = theirs.detach().numpy() if isinstance(theirs, torch.Tensor) else np.asarray(theirs)
    assert isinstance(ours, np.ndarray | np.generic)
    assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(ours, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_torch_agrees(expression: str) -> None:
    given = arrays()
    function = nnmagic.compile(f"def f({PARAMETERS}):\n    return {expression}\n", namespace=namespace())
    tensors = {name: torch.from_numpy(array) for name, array in given.items()}
    assert_same(function(**given), eval(expression, {**namespace(), **tensors}))


def test_what_means_two_things_is_refused() -> None:
    (error,) = errors_of(f"def f({PARAMETERS}):\n    return x.transpose(0, 1)\n")
    assert (
        error.message == "transpose(0, 1) changes nothing in NumPy, and swaps the two dimensions in PyTorch"
    )
    assert error.hint == "write x.T to swap them"
    (error,) = errors_of(f"def f({PARAMETERS}):\n    return x.renorm(dim=1)\n")
    assert error.message == "a Tensor[(3, 4), f32] has no attribute `renorm`"
