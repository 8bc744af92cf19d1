"""Read and write numbers, strings and attribute values as Relay does."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nnmagic.relay.callbacks import PythonFunction
from nnmagic.relay.expr import Constant, Var
from nnmagic.relay.types import NUMPY_DTYPES, AnyDim, Int64, VarDim, dtype_of_array

_SUFFIXES = {"int16": "i16", "int32": "", "int64": "i64", "float16": "f16", "float32": "f", "float64": "f64"}
_DTYPE_OF_SUFFIX = {suffix: dtype for dtype, suffix in _SUFFIXES.items()} | {"i32": "int32", "f32": "float32"}

_NUMBER = re.compile(r"(-*)(inf|[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?)((?:[if][0-9]*)?)")
_INT32_RANGE = range(-(2**31), 2**31)
_INT64_RANGE = range(-(2**63), 2**63)
_MAX_FLOAT32 = float(np.finfo(np.float32).max)

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "'": "'", "0": "\0"}


def scalar_text(constant: Constant, *, exact: bool = False) -> str | None:
    """Return the literal of a rank-0 constant; None if Relay has none and refers to the metadata instead.

    ``exact``: None, too, if the six digits that Relay writes would be read back as another number.
    """
    data = constant.data
    dtype = dtype_of_array(data)
    if data.ndim or (dtype != "bool" and dtype not in _SUFFIXES):
        return None
    if dtype == "bool":
        return str(bool(data))
    suffix = _SUFFIXES[dtype]
    if dtype.startswith("float"):
        return None if exact and not _reads_back(data) else f"{float(data):g}{suffix}"
    # Relay reads the magnitude before the sign.
    return None if exact and int(data) == _INT64_RANGE.start else f"{int(data)}{suffix}"


def _reads_back(data: np.ndarray) -> bool:
    """Return whether Relay reads the six digits of a floating-point scalar as that very number.

    Its reader refuses NaN, some infinities and numbers that are subnormal in double precision.
    """
    value = float(data)
    normal = value == 0 or sys.float_info.min <= abs(value) < math.inf
    return normal and bool(np.array(float(f"{value:g}"), data.dtype) == data)


def string_text(value: str) -> str:
    """Return a string in double quotes."""
    return '"' + "".join(_ESCAPES.get(char, char) for char in value) + '"'


def attr_text(
    value: object, reference: Callable[[Constant | Var | VarDim], str], *, exact: bool = False
) -> str:
    """Return an attribute's value as text; ``reference`` returns the text of what the metadata holds.

    ``exact``: floating-point numbers with all their digits, where Relay writes six.
    """
    match value:
        case None | bool():
            return str(value)
        case Int64():
            return f"{int(value)}i64"
        case int():
            return str(value)
        case float():
            return _exact_float(value) if exact else f"{value:g}f"
        case str():
            return string_text(value)
        case tuple() | list():
            return f"[{', '.join(attr_text(item, reference, exact=exact) for item in value)}]"
        case AnyDim():
            return "?"
        case Constant() | Var() | VarDim():
            return reference(value)
        case PythonFunction(name=name):
            return string_text(name)
    raise TypeError(f"not an attribute's value: {value!r}")


def _exact_float(value: float) -> str:
    """Return all digits; Relay refuses a number with the suffix ``f`` that float32 cannot hold."""
    suffix = "f64" if _MAX_FLOAT32 < abs(value) < math.inf else "f"
    return f"{float(value)!r}{suffix}"


@dataclass(frozen=True, slots=True)
class NumberLiteral:
    """A number as written: its value and the dtype that its suffix says."""

    value: int | float
    dtype: str

    def constant_data(self) -> np.ndarray:
        """Return the number as a rank-0 array. Raises ValueError if the dtype cannot hold it."""
        if self.dtype.startswith("float"):
            with np.errstate(over="ignore"):
                data = np.array(self.value, NUMPY_DTYPES[self.dtype])
            if np.isinf(data) and abs(self.value) != float("inf"):
                raise ValueError(f"the number {self.value:g} does not fit {self.dtype}")
        else:
            limits = np.iinfo(self.dtype)
            if not limits.min <= self.value <= limits.max:
                raise ValueError(f"the integer {self.value} does not fit {self.dtype}")
            data = np.array(self.value, NUMPY_DTYPES[self.dtype])
        data.flags.writeable = False
        return data

    def attr_value(self) -> int | float:
        """Return the number as the value of an attribute or a dimension."""
        return Int64(self.value) if self.dtype == "int64" else self.value


def read_number(text: str) -> NumberLiteral:
    """Read a literal such as ``3``, ``3i64``, ``-0.5f``, ``1e-05f16``, ``-inff``. Raises ValueError."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"invalid number `{_short(text)}`")
    minus, digits, fraction, exponent, suffix = match.groups()
    dtype = _DTYPE_OF_SUFFIX.get(suffix)
    is_float = digits == "inf" or fraction is not None or exponent is not None
    if dtype is None:
        raise ValueError(f"invalid number `{_short(text)}`: its suffix must be one of f, f16, f64, i16, i64")
    if is_float and not dtype.startswith("float"):
        raise ValueError(f"invalid number `{_short(text)}`: a floating-point literal ends in f (`{digits}f`)")
    sign = -1 if len(minus) % 2 else 1
    if dtype.startswith("float"):
        value = float(digits)
        if math.isinf(value) and digits != "inf":
            raise ValueError(f"invalid number `{_short(text)}`: it does not fit {dtype}")
        return NumberLiteral(sign * value, dtype)
    # Longer ones are never valid, and Python refuses to convert very long ones.
    integer = sign * int(digits) if len(digits) <= 40 else None
    if integer is None or integer not in _INT64_RANGE:
        raise ValueError(f"invalid integer number `{_short(text)}`: it does not fit 64 bits")
    return NumberLiteral(integer, "int64" if not suffix and integer not in _INT32_RANGE else dtype)


def read_string(text: str) -> str:
    """Return the value of a string literal, quotes included in ``text``."""
    return re.sub(
        r"\\(x[0-9a-fA-F]{2}|.)",
        lambda escape: (
            chr(int(escape[1][1:], 16)) if len(escape[1]) == 3 else _UNESCAPES.get(escape[1], escape[0])
        ),
        text[1:-1],
    )


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
