"""Kinds of attribute values, and how a Python value becomes one. Knows constants and dtypes, nothing else."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nnmagic.relay.expr import Constant
from nnmagic.relay.types import AnyDim, Int64, VarDim


@dataclass(frozen=True, slots=True)
class AttrKind:
    """``words``: what the value is, for messages and documentation. ``coerce`` raises TypeError or ValueError
    whose message continues "attribute 'x' ...".
    """

    words: str
    coerce: Callable[[object], object]


def _int(value: object) -> int:
    if isinstance(value, Int64):
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"must be an int, not {_shown(value)}")
    return operator.index(value)


def _float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"must be a number, not {_shown(value)}")
    return float(value)


def _bool(value: object) -> bool:
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    raise TypeError(f"must be True or False, not {_shown(value)}")


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"must be a string, not {_shown(value)}")
    return str(value)


def _dtype(value: object) -> str:
    name = getattr(value, "name", value)  # an nnmagic or NumPy dtype object, or its name
    return _str("" if name is None or name == "void" else name)


def _dim(value: object) -> int | AnyDim | VarDim:
    return value if isinstance(value, AnyDim | VarDim) else _int(value)


def _constant(value: object) -> Constant:
    if not isinstance(value, Constant):
        raise TypeError(f"must be a constant, not {_shown(value)}")
    return value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{type(value).__name__} object"


def _items(value: object, words: str) -> Sequence[object]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"must be {words}, not {_shown(value)}")
    return value


INT = AttrKind("int", _int)
FLOAT = AttrKind("float", _float)
BOOL = AttrKind("bool", _bool)
STR = AttrKind("string", _str)
DTYPE = AttrKind("dtype", _dtype)
DIM = AttrKind("dimension", _dim)
CONSTANT = AttrKind("constant", _constant)


def optional(kind: AttrKind) -> AttrKind:
    """The kind, or None."""
    return AttrKind(f"{kind.words} or None", lambda value: None if value is None else kind.coerce(value))


def array(item: AttrKind) -> AttrKind:
    """A tuple of any length of that kind."""
    words = f"a sequence of {item.words}s"
    return AttrKind(words, lambda value: tuple(item.coerce(part) for part in _items(value, words)))


def axes_of(item: AttrKind = INT) -> AttrKind:
    """A tuple; a single value stands for a tuple of one, as in ``axis=1`` of a reduction."""
    words = f"{item.words} or a sequence of {item.words}s"

    def coerce(value: object) -> object:
        if isinstance(value, Sequence) and not isinstance(value, str):
            return tuple(item.coerce(part) for part in value)
        return (item.coerce(value),)

    return AttrKind(words, coerce)


def spatial(rank: int) -> AttrKind:
    """One number for each of ``rank`` spatial dimensions (strides, dilation, pool size); one int stands for all."""
    words = f"int or {rank} ints"

    def coerce(value: object) -> tuple[object, ...]:
        if not isinstance(value, Sequence) or isinstance(value, str):
            return (_dim(value),) * rank
        return tuple(_dim(part) for part in value)

    return AttrKind(words, coerce)


def choice(*names: str) -> AttrKind:
    """A string that is one of ``names``."""
    words = "one of " + ", ".join(map(repr, names))

    def coerce(value: object) -> str:
        if value not in names:
            raise ValueError(f"must be {words}, not {_shown(value)}")
        return str(value)

    return AttrKind(words, coerce)
