"""Write one operation as a cell, compile it once for the types of its operands, and run it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

import nnmagic

DTYPES = {
    name: np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float32", "float64", "complex64", "complex128"),
    )
}


def run(expression: str, operands: Sequence[object], *, named_sizes: bool = False) -> object:
    """Compute an expression of operands in a cell.

    Args:
        expression: Python source, in which ``{0}`` stands for the first operand.
        operands: NumPy arrays, which are parameters of the cell; everything else is written into it.
        named_sizes: whether the sizes of the arrays, which have one shape then, get names.

    """
    function, arrays = _compiled(f"return {expression}", operands, named_sizes=named_sizes)
    return function(*arrays)


def change(statement: str, operands: Sequence[object]) -> None:
    """Run a statement that changes its first operand in place."""
    function, arrays = _compiled(statement, operands, changes=True)
    function(*arrays)


def _compiled(
    statement: str, operands: Sequence[object], *, named_sizes: bool = False, changes: bool = False
) -> tuple[Callable[..., object], list[np.ndarray]]:
    arrays: list[np.ndarray] = []
    parts = [_source(operand, arrays) for operand in operands]
    types = [_annotation(array, named_sizes=named_sizes) for array in arrays]
    if changes:
        types[0] = f"InOut[{types[0]}]"
    parameters = ", ".join(f"x{number}: {type_}" for number, type_ in enumerate(types))
    body = re.sub(r"\{(\d+)\}", lambda place: parts[int(place[1])], statement)
    return _compile(f"def operation({parameters}):\n    {body}\n"), arrays


#: What a cell says at compile time where NumPy raises IndexError.
_INDEX_ERRORS = "out of range|(index|indices) for an? |a mask of shape .* does not fit axes"


@lru_cache(maxsize=20_000)
def _compile(source: str) -> Callable[..., object]:
    try:
        return nnmagic.compile(source, namespace={"np": np}, promote=True)
    except nnmagic.TinyNNError as error:
        if re.search(_INDEX_ERRORS, error.diagnostics[0].message):
            raise IndexError(str(error)) from error
        raise


def _annotation(array: np.ndarray, *, named_sizes: bool) -> str:
    dtype = array.dtype
    short = "bool_" if dtype == np.bool_ else f"{dtype.kind}{dtype.itemsize * 8}"
    shape = tuple(f"n{axis}" for axis in range(array.ndim)) if named_sizes else array.shape
    return f"Tensor[{shape!r}, {short}]"


def _source(value: object, arrays: list[np.ndarray]) -> str:
    """Return an operand as Python source; an array is a new parameter."""
    match value:
        case np.ndarray():
            arrays.append(value)
            return f"x{len(arrays) - 1}"
        case np.dtype():
            return f"np.{value.name}"
        case list() | tuple():
            items = [_source(item, arrays) for item in value]
            if isinstance(value, list):
                return f"[{', '.join(items)}]"
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        case bool() | None | str() | int():
            return repr(value)
        case float():
            return _float(value)
        case complex():
            return f"complex({_float(value.real)}, {_float(value.imag)})"
        case _:
            raise TypeError(f"no operand of a cell: {value!r}")


def _float(value: float) -> str:
    if math.isfinite(value):
        return repr(float(value))
    return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "-np.inf"
