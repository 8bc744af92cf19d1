"""Power spectra by Fourier transforms: of vectors of smooth, prime and named lengths, and of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.case import Case, Ratio
from benchmarks.cases.products import normal

_GOALS = (Ratio("numpy", 1 / 1.3),)


def _power(z: Any) -> Any:
    return z.real**2 + z.imag**2


def _case(function: str, *shape: int, named: bool = False) -> Case:
    def source(dims: str) -> str:
        body = f"    z = {function}(x)\n    return z.real ** 2 + z.imag ** 2\n"
        return f"def function(x: Tensor[({dims},), f32]):\n{body}"

    known = source(", ".join(map(str, shape)))
    names = ", ".join(f'"{letter}"' for letter in "mn"[: len(shape)])
    size = "x".join(map(str, shape))
    return Case(
        f"{function} of {size}" + (", named" if named else ""),
        "Fourier transforms",
        _GOALS,
        normal(x=shape),
        source(names) if named else known,
        lambda x: _power(getattr(np.fft, function)(x)),
        torch=lambda torch, x: _power(getattr(torch.fft, function)(x)),
        jax=lambda jax, x: _power(getattr(jax.numpy.fft, function)(x)),
        known=known if named else None,
        nbytes=8.0 * np.prod(shape),
    )


ROWS = (
    *(_case("rfft", length) for length in (64, 1000, 4096, 10007, 1 << 16, 1 << 20)),
    *(_case("fft", length, named=True) for length in (64, 1009, 1 << 16)),
    *(_case("fft2", size, size) for size in (64, 1000, 1024)),
    _case("rfft2", 256, 256, named=True),
)
