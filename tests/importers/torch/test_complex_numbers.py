"""Complex numbers of PyTorch programs: eager torch judges their values and gradients.

The rules that only they have are in importers/torch/operators/complex_numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import nnmagic  # noqa: E402 - behind the skip
from nnmagic.functions.from_torch import torch_backend  # noqa: E402 - behind the skip
from nnmagic.importers.torch import TorchError  # noqa: E402 - behind the skip

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own


def _arithmetic(x: torch.Tensor, y: torch.Tensor) -> Any:
    powers = x.exp() + x.log() + x.sqrt() + x**3 + x**0.5 + x.reciprocal() + x.sgn() + x.rsqrt()
    return (
        (x + y) * (x - 2j) / y.conj() - x.real * y,
        powers,
        x.tanh() + x.acos() + x.sigmoid(),
        (x * 1e-6).expm1() + (y * 1e-6).log1p() + x.log1p(),
    )


def _parts(x: torch.Tensor, y: torch.Tensor) -> Any:
    made = torch.complex(x.real, y.imag) + torch.polar(x.abs(), y.angle())
    return made, torch.view_as_real(x) * 2, (x.isnan(), x == y, x != x.conj(), x.bool())


def _reductions(x: torch.Tensor, y: torch.Tensor) -> Any:
    norms = torch.linalg.vector_norm(x, ord=1), torch.linalg.norm(x), x.var(0), x.std()
    return x.sum(), x.mean(1), x.prod(0), x.cumsum(0), x.cumprod(1), torch.vdot(x[0], y[0]), *norms


def _movements(x: torch.Tensor, y: torch.Tensor) -> Any:
    added = x.index_add(0, torch.tensor([0, 0]), y[:2])
    joined = torch.cat([x, y.flip(0)]).roll(1, 0).tril()
    return added, joined, torch.where(x.real > 0, x, y), torch.nn.functional.pad(x[:, ::2].t(), (1, 2))


def _products(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x @ y.mH, torch.einsum("ij,kj->ik", x, y), torch.addmm(x[:, :3], x, y.t(), alpha=2j)


def _matrices(x: torch.Tensor, y: torch.Tensor) -> Any:
    square = x[:, :3] + 2 * torch.eye(3)
    hermitian = square @ square.mH
    solved = torch.linalg.solve(square, y), torch.cholesky_solve(y, torch.linalg.cholesky(hermitian))
    numbers = torch.linalg.det(square), torch.linalg.eigvalsh(hermitian), torch.linalg.svdvals(x)
    values, vectors = torch.linalg.eig(square)
    return *solved, *numbers, torch.linalg.pinv(x), vectors * values @ torch.linalg.inv(vectors)


def _transforms(x: torch.Tensor, y: torch.Tensor) -> Any:
    fft = torch.fft
    several = fft.fft2(x), fft.ifft2(y, norm="ortho"), fft.rfft2(x.real, norm="forward"), fft.irfft2(y)
    one = fft.fft(x.imag, n=7), fft.ifft(x, dim=0), fft.irfft(x, n=7, norm="forward"), fft.hfft(x)
    return *several, *one, fft.fftshift(x) * fft.fftfreq(4)


def _frames(x: torch.Tensor, y: torch.Tensor) -> Any:
    signal, window = torch.cat([x.real.flatten(), y.imag.flatten()]), torch.hann_window(8)
    spectrum = torch.stft(signal, 8, hop_length=4, window=window, return_complex=True)
    return spectrum.abs(), torch.istft(spectrum * 2, 8, hop_length=4, window=window)


def _rotations(x: torch.Tensor, y: torch.Tensor) -> Any:
    pairs = torch.view_as_complex(torch.stack([x.real, y.real], -1))
    return torch.view_as_real(pairs * torch.polar(torch.ones(4), torch.arange(4.0))).flatten(-2)


PROGRAMS = (
    *(_arithmetic, _parts, _reductions, _movements, _products, _matrices, _transforms, _frames, _rotations),
)


def _operands() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(3, 4, dtype=torch.complex64) for _ in range(2)]


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_values(program: Callable[..., Any]) -> None:
    pytest.importorskip("scipy")
    torch._dynamo.reset()
    compiled = torch.compile(program, backend=torch_backend, options={"engine": "numpy"})
    torch.testing.assert_close(compiled(*_operands()), program(*_operands()), rtol=1e-4, atol=1e-5)


def test_arguments_results_and_buffers_of_an_exported_module() -> None:
    class Filter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("response", torch.arange(5) * (1 - 2j))

        def forward(self, x: torch.Tensor, shift: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            spectrum = torch.fft.rfft(x) * self.response + shift
            return spectrum, torch.fft.irfft(spectrum)

    x, shift = torch.randn(3, 8), torch.tensor(2 + 1j)
    expected = Filter()(x, shift)
    function = nnmagic.from_torch(Filter(), (x, shift))
    torch.testing.assert_close(function(x, shift), expected)
    spectrum, _ = function(x.numpy(), shift.numpy())
    torch.testing.assert_close(torch.from_numpy(spectrum), expected[0])


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("program", [_arithmetic, _matrices, _frames], ids=lambda program: program.__name__)
def test_gradients(program: Callable[..., Any]) -> None:
    pytest.importorskip("scipy")

    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return sum((result.abs() * (1 + result.real)).sum() for result in program(x, y))

    torch._dynamo.reset()
    gradients = []
    for function in (loss, torch.compile(loss, backend=torch_backend, options={"engine": "numpy"})):
        operands = [operand.requires_grad_() for operand in _operands()]
        function(*operands).backward()
        gradients.append([operand.grad for operand in operands])
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-3)


def test_what_has_no_complex_meaning_is_refused() -> None:
    x = torch.ones(3, dtype=torch.complex64)
    with pytest.raises(TorchError, match="topk of complex numbers is not supported"):
        nnmagic.from_torch(torch.unique, (x,))
    for name, relay in (("round", "numpy.rint"), ("floor", "floor"), ("trunc", "trunc")):
        with pytest.raises(TorchError, match=f"{relay} of complex numbers is not supported"):
            nnmagic.from_torch(getattr(torch, name), (x,))
    with pytest.raises(TorchError, match="the element type complex32 is not supported"):
        nnmagic.from_torch(torch.neg, (x.to(torch.complex32),))
