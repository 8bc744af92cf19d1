"""The namespace of the array API standard: a call of a function compiles a cell of that one operation.

``ARRAY_API_TESTS_MODULE=tests.array_api.namespace`` has the standard's conformance suite test it. What is no
operation on elements is not a cell's: `finfo`, `iinfo`, `isdtype`, `can_cast`, `result_type`, devices, DLPack
and the way of Python's numbers into an array are NumPy's. The signatures are those of array-api-strict.
"""

from __future__ import annotations

import builtins
import inspect
import math
import sys
import types
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import array_api_strict
import numpy as np

from tests.array_api import cells
from tests.array_api.array import Array, of_one_shape, unwrapped, wrapped

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
__array_api_version__ = VERSIONS[-1]

e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi
globals().update(cells.DTYPES)

_ELEMENTWISE = """
abs acos acosh add asin asinh astype atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_or
bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide empty_like equal exp expm1 floor
floor_divide greater greater_equal hypot imag isfinite isinf isnan less less_equal log log10 log1p log2
logaddexp logical_and logical_not logical_or logical_xor maximum minimum multiply negative nextafter not_equal
ones_like positive pow real reciprocal remainder round sign signbit sin sinh sqrt square subtract tan tanh
trunc where zeros_like
"""
_NUMBERS = (builtins.bool, int, float, complex)
_RESULTS = {
    "unique_all": namedtuple("unique_all", "values indices inverse_indices counts"),
    "unique_counts": namedtuple("unique_counts", "values counts"),
    "unique_inverse": namedtuple("unique_inverse", "values inverse_indices"),
    "eigh": namedtuple("eigh", "eigenvalues eigenvectors"),
    "eig": namedtuple("eig", "eigenvalues eigenvectors"),
    "qr": namedtuple("qr", "Q R"),
    "slogdet": namedtuple("slogdet", "sign logabsdet"),
    "svd": namedtuple("svd", "U S Vh"),
}


def _function(module: types.ModuleType, name: str, prefix: str) -> Callable[..., Any]:
    """Return a function that calls `np.name` in a cell, with its arguments as the standard names them."""
    signature = inspect.signature(getattr(module, name))

    def call(*args: object, **kwargs: object) -> Any:
        bound = signature.bind(*args, **kwargs)
        _check_device(bound.arguments.pop("device", None))
        places, operands = [], []
        for parameter in signature.parameters.values():
            if parameter.name not in bound.arguments:
                continue
            value = bound.arguments[parameter.name]
            many = parameter.kind is parameter.VAR_POSITIONAL
            for each in value if many else (value,):
                named = "" if many or parameter.kind is parameter.POSITIONAL_ONLY else f"{parameter.name}="
                places.append(f"{named}{{{len(operands)}}}")
                operands.append(unwrapped(each))
        arrays = [operand for operand in operands if isinstance(operand, np.ndarray)]
        named_sizes = name in _ELEMENTWISE.split() and arrays != [] and of_one_shape(*arrays)
        expression = f"np.{prefix}{name}({', '.join(places)})"
        result = wrapped(cells.run(expression, operands, named_sizes=named_sizes))
        return _RESULTS[name](*result) if name in _RESULTS else result

    call.__name__ = call.__qualname__ = name
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__doc__ = f"`np.{prefix}{name}` in a cell."
    return call


def _check_device(device: object) -> None:
    if device not in (None, "cpu"):
        raise ValueError(f"the only device is 'cpu', not {device!r}")


# -- what is no operation of a cell --------------------------------------------------------------------------


def asarray(
    obj: Any, /, *, dtype: Any = None, device: Any = None, copy: builtins.bool | None = None
) -> Array:
    """Return what Python has as an array: NumPy makes it, and a cell converts and copies it."""
    _check_device(device)
    if copy is False or (isinstance(obj, Array) and copy is None and dtype in (None, obj.dtype)):
        given = obj.value if isinstance(obj, Array) else np.asarray(obj, copy=False)
        if dtype not in (None, given.dtype):
            raise ValueError("an array of another dtype is a copy")
        return obj if isinstance(obj, Array) else Array(given)
    if isinstance(obj, Array):
        value = obj.value
    else:
        value = np.asarray(_of_python(obj), None if isinstance(obj, _NUMBERS) else dtype)
    if dtype is None:
        return wrapped(cells.run("np.array({0})", [value], named_sizes=True))
    return wrapped(cells.run("np.array({0}, dtype={1})", [value, dtype], named_sizes=True))


def _of_python(obj: Any) -> Any:
    if isinstance(obj, list | tuple):
        return [_of_python(item) for item in obj]
    return obj.value if isinstance(obj, Array) else obj


def from_dlpack(x: Any, /, *, device: Any = None, copy: builtins.bool | None = None) -> Array:
    """Return an array of another library."""
    return Array(np.from_dlpack(x, device=device, copy=copy))


def can_cast(from_: Any, to: Any, /) -> builtins.bool:
    """Return whether a dtype can be converted to another by the standard's rules."""
    return builtins.bool(np.can_cast(from_.dtype if isinstance(from_, Array) else from_, to))


def finfo(type: Any, /) -> Any:  # noqa: A002 - the standard's name
    """Return what a float dtype can hold."""
    info = np.finfo(type.dtype if isinstance(type, Array) else type)
    return types.SimpleNamespace(
        bits=info.bits,
        **{name: float(getattr(info, name)) for name in ("eps", "max", "min", "smallest_normal")},
        dtype=info.dtype,
    )


def iinfo(type: Any, /) -> Any:  # noqa: A002 - the standard's name
    """Return what an integer dtype can hold."""
    info = np.iinfo(type.dtype if isinstance(type, Array) else type)
    return types.SimpleNamespace(bits=info.bits, max=int(info.max), min=int(info.min), dtype=info.dtype)


def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Return whether a dtype is of a kind."""
    return builtins.bool(np.isdtype(dtype, kind))


def result_type(*arrays_and_dtypes: Any) -> Any:
    """Return the dtype in which arrays, dtypes and Python's numbers meet."""
    return np.result_type(*(each.dtype if isinstance(each, Array) else each for each in arrays_and_dtypes))


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which shapes broadcast."""
    return np.broadcast_shapes(*shapes)


def __array_namespace_info__() -> Any:
    """Return what this namespace offers."""
    return _Info()


class _Info:
    def capabilities(self) -> dict[str, object]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        return "cpu"

    def default_dtypes(self, *, device: object = None) -> dict[str, np.dtype]:
        _check_device(device)
        names = {"real floating": "float64", "complex floating": "complex128"}
        names |= {"integral": "int64", "indexing": "int64"}
        return {kind: cells.DTYPES[name] for kind, name in names.items()}

    def dtypes(self, *, device: object = None, kind: Any = None) -> dict[str, np.dtype]:
        _check_device(device)
        return {
            name: dtype for name, dtype in cells.DTYPES.items() if kind is None or np.isdtype(dtype, kind)
        }

    def devices(self) -> tuple[str, ...]:
        return ("cpu",)


# -- the functions -------------------------------------------------------------------------------------------


def _extension(name: str) -> types.ModuleType:
    of_strict = getattr(array_api_strict, name)
    extension = types.ModuleType(f"{__name__}.{name}")
    for each in {*of_strict.__all__, *_NOT_LISTED.get(name, ())}:
        if inspect.isfunction(getattr(of_strict, each)):
            setattr(extension, each, _function(of_strict, each, f"{name}."))
    return extension


# array-api-strict 2.6 has these and does not list them.
_NOT_LISTED = {"linalg": ("eig", "eigvals")}

_here = sys.modules[__name__]
for _name in array_api_strict.__all__:
    if inspect.isfunction(getattr(array_api_strict, _name)) and not hasattr(_here, _name):
        setattr(_here, _name, _function(array_api_strict, _name, ""))
linalg, fft = _extension("linalg"), _extension("fft")
