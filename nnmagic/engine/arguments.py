"""What a caller passes, checked against a parameter's Relay type and made a NumPy array.

Knows Relay's types and NumPy; no TVM. Every engine and every compiled function uses it.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from nnmagic.relay.text.types import type_text
from nnmagic.relay.types import (
    NUMPY_DTYPES,
    AnyDim,
    Dim,
    TensorType,
    TupleType,
    Type,
    VarDim,
    is_float,
    is_integer,
)

#: An argument or a result: an array, or a tuple of them.
Value = "np.ndarray | tuple[Value, ...]"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a compiled function: its name, for messages, and its Relay type."""

    name: str
    type: Type
    #: What an array that needs no further look has; None where the type is no tensor of a known shape.
    _exact: tuple[np.dtype[np.generic], tuple[int, ...]] | None = field(
        init=False, default=None, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        match self.type:
            case TensorType(shape=shape, dtype=dtype) if dtype in NUMPY_DTYPES:
                fixed = tuple(dim for dim in shape if isinstance(dim, int))
                if len(fixed) == len(shape):
                    object.__setattr__(self, "_exact", (NUMPY_DTYPES[dtype], fixed))


def convert_argument(parameter: Parameter, value: object, dims: MutableMapping[str, int]) -> object:
    """The array (or tuple of arrays) that ``value`` stands for, after checking it against the parameter.

    Takes NumPy arrays and scalars, Python numbers (rank 0 only), and anything with ``__dlpack__`` or
    ``__array__``; nothing is copied that need not be. ``dims`` collects the lengths of named dimensions over
    the arguments of one call. Raises TypeError for a wrong kind, dtype or rank, ValueError for a wrong length
    or a number that the dtype cannot hold; the message names the parameter.
    """
    exact = parameter._exact
    if (
        exact is not None
        and type(value) is np.ndarray
        and value.dtype is exact[0]
        and value.shape == exact[1]
    ):
        return value
    return _convert(parameter.name, parameter.type, value, dims)


def _convert(name: str, type_: Type, value: object, dims: MutableMapping[str, int]) -> object:
    match type_:
        case TensorType():
            array = _as_array(name, type_, value)
            _check_array(name, type_, array, dims)
            return array
        case TupleType(fields=fields):
            if not isinstance(value, tuple | list):
                raise TypeError(f"{name} must be a tuple, {type_text(type_)}, not {_kind(value)}")
            if len(value) != len(fields):
                raise TypeError(
                    f"{name} must be a tuple of {len(fields)}, {type_text(type_)}, not of {len(value)}"
                )
            pairs = enumerate(zip(fields, value, strict=True))
            return tuple(_convert(f"{name}[{i}]", part, item, dims) for i, (part, item) in pairs)
    raise TypeError(f"{name} is of type {type_text(type_)}, which cannot be passed from Python yet")


def _as_array(name: str, type_: TensorType, value: object) -> np.ndarray:
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} must be {type_text(type_)}; a masked array has a mask that would be lost")
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if isinstance(value, bool | int | float):
        return _from_number(name, type_, value)
    imported = _importer(value)
    if imported is None:
        hint = "; convert it with numpy.asarray(..., dtype=...)" if isinstance(value, list | tuple) else ""
        raise TypeError(f"{name} must be {type_text(type_)}, not {_kind(value)}{hint}")
    try:
        return imported()
    except (TypeError, ValueError, RuntimeError, LookupError, BufferError) as error:
        raise TypeError(
            f"{name} must be {type_text(type_)}; {_kind(value)} gave no array: {error}"
        ) from error


def _importer(value: object) -> Callable[[], np.ndarray] | None:
    """How the array is got out of a foreign object (torch, jax, pandas, ...), if there is a way."""
    if hasattr(value, "__dlpack__"):
        return lambda: np.from_dlpack(value)
    if hasattr(value, "__array__"):
        return lambda: np.asarray(value)
    return None


def _from_number(name: str, type_: TensorType, value: bool | float) -> np.ndarray:
    """A Python number takes the parameter's dtype, where the dtype can hold it."""
    if type_.shape:
        raise TypeError(
            f"{name} must be {type_text(type_)}, an array of rank {len(type_.shape)}, not {_kind(value)}"
        )
    dtype = type_.dtype
    fits = (
        dtype == "bool"
        if isinstance(value, bool)
        else is_float(dtype) or (is_integer(dtype) and isinstance(value, int))
    )
    if not fits:
        raise TypeError(f"{name} must be {dtype}, not the Python {type(value).__name__} {value!r}")
    if is_integer(dtype):
        limits = np.iinfo(dtype)
        if not limits.min <= value <= limits.max:
            raise ValueError(f"{name} must be {dtype}, from {limits.min} to {limits.max}; {value} is outside")
    elif is_float(dtype) and np.isfinite(value) and abs(value) > _largest(dtype):
        raise ValueError(f"{name} must be {dtype}; {value!r} is too large for it")
    return np.asarray(value, dtype=NUMPY_DTYPES[dtype])


def _largest(dtype: str) -> float:
    info = ml_dtypes.finfo(NUMPY_DTYPES[dtype])  # type: ignore[no-untyped-call]  # ml_dtypes types its classes only
    return float(info.max)


def _check_array(name: str, type_: TensorType, array: np.ndarray, dims: MutableMapping[str, int]) -> None:
    if array.dtype.newbyteorder("=") != NUMPY_DTYPES[type_.dtype]:
        hint = "" if array.dtype.kind not in "biufV" else f"; convert it with .astype({type_.dtype!r})"
        raise TypeError(f"{name} must be {type_text(type_)}, not an array of {array.dtype}{hint}")
    if array.ndim != len(type_.shape):
        raise TypeError(
            f"{name} must be {type_text(type_)}, of rank {len(type_.shape)}, not of rank {array.ndim} "
            f"(shape {array.shape})"
        )
    for axis, (expected, found) in enumerate(zip(type_.shape, array.shape, strict=True)):
        _check_dim(name, type_, array, axis, expected, found, dims)


def _check_dim(
    name: str,
    type_: TensorType,
    array: np.ndarray,
    axis: int,
    expected: Dim,
    found: int,
    dims: MutableMapping[str, int],
) -> None:
    label = (
        expected.label
        if isinstance(expected, AnyDim)
        else expected.name
        if isinstance(expected, VarDim)
        else None
    )
    wanted = dims.setdefault(label, found) if label is not None else expected
    if isinstance(wanted, int) and wanted != found:
        what = f"must be {wanted}" if label is None else f"({label}) is {wanted} elsewhere in this call"
        raise ValueError(
            f"{name} must be {type_text(type_)}, not of shape {array.shape}: "
            f"dimension {axis} {what}, not {found}"
        )


def _kind(value: object) -> str:
    kind = type(value).__name__
    return f"an {kind}" if kind[:1].lower() in "aeiou" else f"a {kind}"
