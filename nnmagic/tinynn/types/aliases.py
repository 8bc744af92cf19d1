"""Resolve type aliases of the notebook: ``Pair = tuple[Image, Image]``, ``Fn = Callable[[Image], f32]``.

Only Python's own alias objects are inspected; no code of the notebook runs.
"""

from __future__ import annotations

import collections.abc
import itertools
import types
import typing
from collections.abc import Callable, Iterator

from nnmagic.limits import MAX_TUPLE_SIZE
from nnmagic.relay.types import FuncType, TupleType, Type
from nnmagic.tinynn.types.annotations import DType, Tensor, as_dtype
from nnmagic.tinynn.types.foreign_types import ForeignTypeError, foreign_annotation

#: Classes of ``tuple[...]`` and ``Callable[...]``, from Python's own syntax and from typing.
_ALIASES = (types.GenericAlias, type(typing.Tuple[int]), type(typing.Callable[[], int]))  # noqa: UP006


class NoTypeError(Exception):
    """A part of an alias is not a type of a cell."""

    def __init__(self, part: object) -> None:
        super().__init__(part)
        self.part = part


class WideTypeError(Exception):
    """An alias has too many parts, with those of the aliases in it."""


def is_callable_name(value: object) -> bool:
    """Return whether a value is ``Callable``, of typing or of collections.abc."""
    return value is typing.Callable or value is collections.abc.Callable


def is_alias(value: object) -> bool:
    """Return whether a value is a subscripted type."""
    return isinstance(value, _ALIASES)


def alias_type(value: object, named: Callable[[object], Type | None]) -> Type | None:
    """Return the type that an alias stands for, or None if the value is not an alias of a type.

    ``named``: gives the type of an object that is neither a dtype, a tensor annotation nor an alias, or None.
    A part of an alias that is not a type raises NoTypeError; too many parts raise WideTypeError.
    """
    return _alias_type(value, named, itertools.count(1))


def _annotation(value: object) -> object:
    """Return the dtype or the tensor annotation that a part of an alias stands for, or the part."""
    if isinstance(value, str):
        return None
    try:
        meant = foreign_annotation(value)
    except ForeignTypeError:
        raise NoTypeError(value) from None
    return as_dtype(value if meant is None else meant) or meant or value


def _alias_type(value: object, named: Callable[[object], Type | None], count: Iterator[int]) -> Type | None:
    """Return the type that a part of an alias stands for; ``count`` counts the parts of the whole."""
    if not is_alias(value):
        return None
    origin: object = getattr(value, "__origin__", None)
    items: tuple[object, ...] = getattr(value, "__args__", ())

    def part_type(part: object) -> Type:
        if next(count) > MAX_TUPLE_SIZE:
            raise WideTypeError
        own = _annotation(part)
        resolved = own.relay_type() if isinstance(own, DType | Tensor) else named(part)
        if resolved is None:
            resolved = _alias_type(part, named, count)
        if resolved is None:
            raise NoTypeError(part)
        return resolved

    if origin is tuple:
        return TupleType(() if items == ((),) else tuple(map(part_type, items)))
    if origin is collections.abc.Callable and Ellipsis not in items:
        return FuncType(tuple(map(part_type, items[:-1])), part_type(items[-1]))
    return None
