"""Tensors of the twin: NumPy's arrays, with the operators of a cell as methods. Knows nothing of nnmagic."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import ml_dtypes
import numpy as np


class Tensor(np.ndarray):
    """A NumPy array that stays one at rank 0, is never changed in place, and has more methods."""

    #: The free functions of the language, which are methods, too; python_twin.names fills it.
    functions: dict[str, Callable[..., object]] = {}  # noqa: RUF012  # a table of the class

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return np.asarray(array).view(Tensor)

    def __getitem__(self, index: object) -> Tensor:
        return lift(super().__getitem__(index))

    def __iter__(self) -> Iterator[Tensor]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[index] for index in range(len(self)))

    def __getattr__(self, name: str) -> object:
        if name in self.functions:
            return functools.partial(self.functions[name], self)
        raise AttributeError(f"a tensor has no attribute {name!r}")


def lift(value: object) -> object:
    """Arrays and NumPy's scalars as tensors, in tuples and lists, too; everything else as it is."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value).view(Tensor)
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        return type(value)(map(lift, value))
    return value


def lift_results(function: Callable[..., object]) -> Callable[..., object]:
    """The function with tensors for results."""

    @functools.wraps(function)
    def call(*args: object, **keywords: object) -> object:
        return lift(function(*args, **keywords))

    return call


class Dtype:
    """``f32``: NumPy takes it for a dtype, and a call converts."""

    def __init__(self, kind: type) -> None:
        self.dtype = np.dtype(kind)

    def __call__(self, value: object) -> object:
        return lift(np.asarray(value).astype(self.dtype))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dtype | np.dtype) and self.dtype == np.dtype(other)

    def __hash__(self) -> int:
        return hash(self.dtype)


#: Each dtype by the name that a cell uses.
DTYPES = {
    "f16": Dtype(np.float16),
    "bf16": Dtype(ml_dtypes.bfloat16),
    "f32": Dtype(np.float32),
    "f64": Dtype(np.float64),
    **{f"i{bits}": Dtype(getattr(np, f"int{bits}")) for bits in (8, 16, 32, 64)},
    **{f"u{bits}": Dtype(getattr(np, f"uint{bits}")) for bits in (8, 16, 32, 64)},
    "bool_": Dtype(np.bool_),
}

_REDUCTIONS = "all any argmax argmin cumprod cumsum max mean min prod std sum trace var"
_SHAPES = "astype copy diagonal flatten ravel repeat reshape squeeze swapaxes take transpose"
_OTHERS = "argsort clip dot nonzero round"
for _name in f"{_REDUCTIONS} {_SHAPES} {_OTHERS}".split():
    setattr(Tensor, _name, lift_results(getattr(np.ndarray, _name)))

#: `x += y` gives the name another tensor in a cell: what else has the old one keeps it.
_IN_PLACE = "add sub mul truediv floordiv mod pow matmul lshift rshift and or xor"
for _name in _IN_PLACE.split():
    setattr(Tensor, f"__i{_name}__", getattr(np.ndarray, f"__{_name}__"))
