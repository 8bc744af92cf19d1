"""The standard's array object: every operator is a cell of its own."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from tests.array_api import cells

_BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "and": "&",
    "or": "|",
    "xor": "^",
    "lshift": "<<",
    "rshift": ">>",
    "matmul": "@",
}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNARY = {"neg": "-", "pos": "+", "invert": "~"}


class Array:
    """A NumPy array, on which cells compute."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    dtype = property(lambda self: self.value.dtype)
    shape = property(lambda self: self.value.shape)
    ndim = property(lambda self: self.value.ndim)
    size = property(lambda self: self.value.size)
    device = property(lambda self: "cpu")
    T = property(lambda self: wrapped(cells.run("{0}.T", [self._of_rank_2()])))
    mT = property(lambda self: wrapped(cells.run("{0}.mT", [self.value])))

    def _of_rank_2(self) -> np.ndarray:
        if self.ndim != 2:
            raise ValueError("the standard defines T for matrices")
        return self.value

    def __array_namespace__(self, *, api_version: str | None = None) -> types.ModuleType:
        from tests.array_api import namespace

        if api_version not in (None, *namespace.VERSIONS):
            raise ValueError(f"no version {api_version!r} of the standard")
        return namespace

    def __getitem__(self, key: object, /) -> Array:
        places, operands = _subscript(key, 1)
        return wrapped(cells.run(f"{{0}}[{places}]", [self.value, *operands]))

    def __setitem__(self, key: object, value: object, /) -> None:
        new = unwrapped(value)
        if _is_position(key) and not isinstance(new, np.ndarray):
            new = np.asarray(new, self.dtype)  # many cells would differ in a number alone
        target = self.value
        if not self.ndim:  # cells change arrays of rank 1 or more
            target, key = target.reshape(1), Array(key.value.reshape(1)) if isinstance(key, Array) else ...
        places, operands = _subscript(key, 1)
        cells.change(f"{{0}}[{places}] = {{{len(operands) + 1}}}", [target, *operands, new])

    def __bool__(self) -> bool:
        return bool(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __float__(self) -> float:
        return float(self._number())

    def __complex__(self) -> complex:
        return complex(self._number())

    def __index__(self) -> int:
        if self.dtype.kind not in "iu":
            raise TypeError(f"an array of {self.dtype} is no index")
        return int(self._number())

    def _number(self) -> Any:
        if self.ndim:
            raise TypeError("only an array of rank 0 is a number")
        return self.value.item()

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any:
        return self.value.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.value.__dlpack_device__()

    def to_device(self, device: str, /, *, stream: object = None) -> Array:
        if device != "cpu" or stream is not None:
            raise ValueError(f"the only device is 'cpu', without streams, not {device!r}")
        return self

    def __repr__(self) -> str:
        return f"Array({self.value!r})"


def wrapped(value: Any) -> Any:
    """Return the result of a cell as arrays of the standard."""
    if isinstance(value, tuple):
        return tuple(wrapped(item) for item in value)
    return Array(np.asarray(value))


def unwrapped(value: object) -> object:
    """Return an argument as an operand of a cell."""
    match value:
        case Array():
            return value.value
        case list() | tuple():
            return type(value)(unwrapped(item) for item in value)
        case np.generic():
            return value.item()
        case _:
            return value


def of_one_shape(*operands: object) -> bool:
    """Return whether all are arrays of one shape: then one cell with named sizes serves them all."""
    return len({operand.shape if isinstance(operand, np.ndarray) else None for operand in operands}) == 1


def _is_position(key: object) -> bool:
    parts = key if isinstance(key, tuple) else (key,)
    return all(isinstance(part, int) and not isinstance(part, bool) for part in parts)


def _subscript(key: object, first: int) -> tuple[str, list[object]]:
    """Return the source of a subscript, whose operands are numbered from ``first`` on.

    The numbers of a position are computed indices, because many cells would differ in them alone.
    """
    if key == () if isinstance(key, tuple) else False:
        return "()", []
    operands: list[object] = []

    def place(value: object) -> str:
        operands.append(value)
        return f"{{{first + len(operands) - 1}}}"

    def part(index: object) -> str:
        match index:
            case slice():
                ends = ["" if end is None else place(unwrapped(end)) for end in (index.start, index.stop)]
                step = "" if index.step is None else f":{index.step}"
                return f"{ends[0]}:{ends[1]}{step}"
            case types.EllipsisType():
                return "..."
            case bool():
                return repr(index)
            case int() if _is_position(key):
                return place(np.asarray(index))
            case _:
                return place(unwrapped(index))

    if isinstance(key, tuple):
        return ", ".join(map(part, key)) + ("," if len(key) == 1 else ""), operands
    return part(key), operands


def _operator(sign: str, *, reflected: bool = False) -> Any:
    def apply(self: Array, other: object, /) -> Any:
        if not isinstance(other, Array | bool | int | float | complex):
            return NotImplemented
        operands = [self.value, unwrapped(other)]
        expression = f"{{1}} {sign} {{0}}" if reflected else f"{{0}} {sign} {{1}}"
        named = sign != "@" and of_one_shape(*operands)
        return wrapped(cells.run(expression, operands, named_sizes=named))

    return apply


def _in_place(sign: str) -> Any:
    def apply(self: Array, other: object, /) -> Any:
        if not isinstance(other, Array | bool | int | float | complex):
            return NotImplemented
        # Cells change arrays of rank 1 or more.
        target, given = self.value if self.ndim else self.value.reshape(1), unwrapped(other)
        if isinstance(given, np.ndarray) and given.ndim > self.ndim:
            raise ValueError("the result does not fit into the array")
        cells.change(f"{{0}} {sign}= {{1}}", [target, given])
        return self

    return apply


def _unary(expression: str) -> Any:
    return lambda self: wrapped(cells.run(expression, [self.value], named_sizes=True))


for _name, _sign in _BINARY.items():
    setattr(Array, f"__{_name}__", _operator(_sign))
    setattr(Array, f"__r{_name}__", _operator(_sign, reflected=True))
    setattr(Array, f"__i{_name}__", _in_place(_sign))
for _name, _sign in _COMPARISONS.items():
    setattr(Array, f"__{_name}__", _operator(_sign))
for _name, _sign in _UNARY.items():
    setattr(Array, f"__{_name}__", _unary(f"{_sign}{{0}}"))
Array.__abs__ = _unary("abs({0})")  # type: ignore[attr-defined]
