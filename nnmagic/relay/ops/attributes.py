"""Define the kinds of attribute values, and how a Python value becomes one.

A kind has two ways in. Relay text is taken as it is written: an array must be an array. A call from Python is
first normalised as Relay's Python function does it: ``strides=2`` becomes ``[2, 2]``, ``axis=1`` of a
reduction ``[1]``, ``padding=1`` ``[1, 1, 1, 1]``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from nnmagic.relay.expr import Node
from nnmagic.relay.types import ARRAY_DTYPES, NUMPY_DTYPES, AnyDim, Int64, VarDim

Coerce = Callable[[object], object]


@dataclass(frozen=True, slots=True)
class AttrKind:
    """A kind of attribute values.

    ``words`` describes a value for messages and documentation. ``coerce`` raises TypeError or ValueError
    whose message continues "attribute 'x' ..."; ``from_call`` runs before it in a call from Python.
    """

    words: str
    coerce: Coerce
    from_call: Coerce | None = None

    def in_call(self, value: object) -> object:
        """Return the value that a call from Python passes: normalised, then coerced."""
        return self.coerce(value if self.from_call is None else self.from_call(value))


def _integer(value: object) -> int:
    if isinstance(value, Int64):
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"must be an int, not {_describe(value)}")
    return operator.index(value)


def _int(value: object) -> int:
    return int(_integer(value))


def _float(value: object) -> float:
    if isinstance(value, bool) or not (isinstance(value, int | float) or hasattr(value, "__index__")):
        raise TypeError(f"must be a number, not {_describe(value)}")
    try:
        return float(value if isinstance(value, float) else operator.index(value))
    except OverflowError:
        raise ValueError("is too large for a float") from None


def _float_only(value: object) -> float:
    if not isinstance(value, float):
        raise TypeError(f"must be a floating-point number, not {_describe(value)}")
    return float(value)


def _bool(value: object) -> bool:
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if type(value).__name__ in ("bool", "bool_"):  # NumPy's
        return bool(value)
    raise TypeError(f"must be True or False, not {_describe(value)}")


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"must be a string, not {_describe(value)}")
    return str(value)


#: A dtype as TVM reads it, of any width, or a complex one; tensors may have only those of ARRAY_DTYPES.
_DTYPE_TEXT = re.compile(
    r"(bool|handle|complex64|complex128|(?P<kind>u?int|float|bfloat)(?P<bits>\d*))(?P<lanes>x\d+)?\Z"
)


def _dtype(value: object) -> str:
    name = _str(value)
    if not name:
        return ""
    match = _DTYPE_TEXT.match(name)
    if not match:
        raise ValueError(f"must be a dtype, not {name!r}")
    return f"{name}32" if match["kind"] and not match["bits"] and not match["lanes"] else name


def _dtype_in_call(value: object) -> object:
    name = getattr(value, "name", value)  # an nnmagic or NumPy dtype object, or its name
    if name is None or name == "void":
        return ""
    if isinstance(name, str) and name and name not in ARRAY_DTYPES:
        raise ValueError(f"must be one of the dtypes {', '.join(NUMPY_DTYPES)}, not {name!r}")
    return name


def _expression(value: object) -> Node:
    if not isinstance(value, Node):
        raise TypeError(f"must be an expression, not {_describe(value)}")
    return value


def _describe(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


#: A C++ ``int``; an ``IntImm``, which keeps its width; a number of elements, which may be ``?``.
INT = AttrKind("int", _int)
INTEGER = AttrKind("int", _integer)
DIM = AttrKind("dimension", lambda value: value if isinstance(value, AnyDim | VarDim) else _integer(value))
FLOAT = AttrKind("number", _float)
#: A number that stays an int if it is one; a number that must not be an int.
NUMBER = AttrKind("number", lambda value: _float(value) if isinstance(value, float | bool) else _int(value))
FLOAT_ONLY = AttrKind("number", _float_only)
BOOL = AttrKind("bool", _bool)
STR = AttrKind("string", _str)
DTYPE = AttrKind("dtype", _dtype, _dtype_in_call)
EXPRESSION = AttrKind("expression", _expression)


def optional(kind: AttrKind) -> AttrKind:
    """Return the kind that also takes None."""
    prepare = kind.from_call
    return AttrKind(
        f"{kind.words} or None",
        lambda value: None if value is None else kind.coerce(value),
        prepare and (lambda value: None if value is None else prepare(value)),
    )


def default_for_none(kind: AttrKind, default: object) -> AttrKind:
    """Return the kind that also takes None, which in a call stands for the default."""
    either_way = optional(kind)

    def prepare(value: object) -> object:
        return default if value is None else kind.from_call(value) if kind.from_call else value

    return AttrKind(either_way.words, either_way.coerce, prepare)


def array(item: AttrKind) -> AttrKind:
    """Return the kind of tuples of any length of a kind."""
    words = f"a sequence of {item.words}s"

    def coerce(value: object) -> tuple[object, ...]:
        if not _is_sequence(value):
            raise TypeError(f"must be {words}, not {_describe(value)}")
        return tuple(item.coerce(part) for part in value)

    return AttrKind(words, coerce)


def either(first: AttrKind, second: AttrKind) -> AttrKind:
    """Return the kind that takes a sequence as the second kind, anything else as the first."""
    return AttrKind(
        f"{first.words} or {second.words}",
        lambda value: second.coerce(value) if _is_sequence(value) else first.coerce(value),
    )


def one_or_more(item: AttrKind = INTEGER) -> AttrKind:
    """Return the kind of arrays; in a call ``axis=1`` of a reduction stands for an array of one."""
    kind = array(item)
    return AttrKind(
        f"{item.words} or {kind.words}", kind.coerce, lambda value: value if _is_sequence(value) else (value,)
    )


def spatial(rank: int, item: AttrKind = DIM, lengths: Sequence[int] = ()) -> AttrKind:
    """Return the kind with a value for each of ``rank`` spatial dimensions; in a call one stands for all.

    ``lengths``: how long a sequence may be, if not ``rank``.
    """
    words = f"1 {item.words}" if rank == 1 else f"1 or {rank} {item.words}s"

    def prepare(value: object) -> object:
        if not _is_sequence(value):
            return (value,) * rank
        return _of_length(value, lengths or (rank,), words)

    return AttrKind(words, array(item).coerce, prepare)


def padding(rank: int) -> AttrKind:
    """Return the kind of padding: before all spatial dimensions, then after all.

    In a call one int, or one for each dimension, stands for both sides.
    """
    words = f"{'1' if rank == 1 else f'1, {rank}'} or {2 * rank} ints"

    def prepare(value: object) -> object:
        if not _is_sequence(value):
            return (value,) * (2 * rank)
        _of_length(value, (1, rank, 2 * rank), words)
        return tuple(value) * (2 * rank // len(value))

    return AttrKind(words, array(DIM).coerce, prepare)


def _of_length(value: Sequence[object], lengths: Sequence[int], words: str) -> Sequence[object]:
    if len(value) not in lengths:
        raise ValueError(f"must be {words}, not {_describe(value)}")
    return value


#: The axes of a reduction: None for all of them.
AXES = optional(one_or_more())
DIMS = array(DIM)
OPTIONAL_DIM = optional(DIM)
OPTIONAL_INTEGER = optional(INTEGER)
#: Pairs (before, after) for each dimension.
PAIRS = array(array(INTEGER))


def choice(*names: str) -> AttrKind:
    """Return the kind of strings that are one of ``names``."""
    words = "one of " + ", ".join(map(repr, names))

    def coerce(value: object) -> str:
        if value not in names:
            raise ValueError(f"must be {words}, not {_describe(value)}")
        return str(value)

    return AttrKind(words, coerce)
