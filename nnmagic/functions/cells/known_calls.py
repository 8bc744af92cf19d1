"""Find what was compiled for a call by what it gives: arrays, numbers, texts, lists, tuples of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnmagic.functions.arguments.argument_types import list_rows
from nnmagic.functions.arguments.destinations import shares_memory
from nnmagic.functions.arguments.open_signatures import LEFT_OUT
from nnmagic.functions.cells.specializations import Specializations, UntypedCall
from nnmagic.functions.compiled import CompiledFunction

#: So many kinds of calls are known.
_MOST = 256

_SCALARS = frozenset(np.dtype(code).type for code in "?bhilqBHILQefdFD")

#: The types of arguments that decide those of parameters.
_DECIDING = frozenset((bool, int, float, complex, type(None), np.random.Generator, *_SCALARS))

_INTEGERS = frozenset((bool, int))

#: What was compiled; which arguments it takes, None for all; which of them may share no memory.
_Known = tuple[CompiledFunction, "tuple[int, ...] | None", tuple[tuple[int, int], ...]]


class KnownCalls:
    """What a function without types was compiled to, by what calls gave that it took as it is."""

    def __init__(self, specializations: Specializations) -> None:
        self._specializations = specializations
        self._known: dict[tuple[object, ...], _Known] = {}
        #: The parameters whose values are known when the function is compiled.
        self._valued: tuple[int, ...] = ()

    def find(self, bound: Sequence[Any]) -> tuple[CompiledFunction, Sequence[Any]] | None:
        """Return what was compiled for arguments, and those that it takes; None if that is not known."""
        converted = list(bound)
        key = self._key(converted)
        if key is None or (known := self._known.get(key)) is None:
            return None
        compiled, taken, apart = known
        if apart and any(shares_memory(bound[one], bound[other]) for one, other in apart):
            return None  # which is an error
        return compiled, converted if taken is None else [converted[place] for place in taken]

    def _key(self, converted: list[Any]) -> tuple[object, ...] | None:
        """Return what decides what is compiled for arguments; ``converted`` gets arrays for its lists."""
        key: list[object] = []
        for place, arg in enumerate(converted):
            kind = type(arg)
            if kind is np.ndarray:
                key.append((arg.dtype, arg.shape))
            elif kind in _DECIDING:
                key.append(kind)
            elif kind is list and (rows := list_rows(arg)) is not None:
                key.append((rows[0], rows[1].dtype, rows[1].shape))
                converted[place] = (rows[1],)
            elif kind is not list and (structure := _structure(arg)) is not None:
                key.append(structure)
            else:
                return None
        for place in self._valued:
            if not _is_plain_value(converted[place]):
                return None
            key.append(converted[place])
        return tuple(key)

    def keep(self, call: UntypedCall, compiled: CompiledFunction, changed: Sequence[str]) -> None:
        """Note what was compiled for a call, which changes some arguments, if it takes all as they are."""
        names = [parameter.name for parameter in self._specializations.template.info.parameters]
        needed = self._specializations.needed.values()
        valued = tuple(place for place, name in enumerate(names) if any(name in each for each in needed))
        if valued != self._valued or len(self._known) >= _MOST:
            self._known, self._valued = {}, valued
        bound, arguments = call.bound, call.arguments
        converted = list(bound)
        key = self._key(converted)
        taken = tuple(place for place, name in enumerate(names) if name in arguments)
        if key is None or not all(
            _is_same(value, bound[place], converted[place])
            for place, value in zip(taken, arguments.values(), strict=True)
        ):
            return
        holding = [place for place in taken if isinstance(bound[place], np.ndarray | tuple | list | dict)]
        apart = tuple((one, other) for one in map(names.index, changed) for other in holding if one != other)
        everything = taken == tuple(range(len(bound)))
        self._known[key] = compiled, None if everything else taken, apart


def _is_plain_value(arg: Any) -> bool:
    """Return whether an argument that must be known equals another of its type only where it is the same."""
    numbers = arg if type(arg) is tuple else (arg,)
    return (
        arg is LEFT_OUT or arg is None or type(arg) is str or all(type(item) in _INTEGERS for item in numbers)
    )


def _structure(arg: Any) -> object:
    """Return what decides the type of a tuple, a dictionary, or a text; None of anything else."""
    kind = type(arg)
    if arg is LEFT_OUT:
        return kind
    if kind is str:
        return arg
    if kind is tuple or (kind is dict and all(type(name) is str for name in arg)):
        inner = [
            (item.dtype, item.shape)
            if type(item) is np.ndarray
            else type(item)
            if type(item) in _DECIDING and item is not None
            else None
            for item in (arg if kind is tuple else arg.values())
        ]
        return None if None in inner else (kind, tuple(arg) if kind is dict else (), *inner)
    return None


def _is_same(taken: object, arg: Any, converted: Any) -> bool:
    """Return whether what a function takes is an argument, or has the parts of one, or the rows of a list."""
    if type(arg) is list:
        return type(converted) is tuple and type(taken) is tuple and [*map(type, taken)] == [np.ndarray]
    if type(arg) is tuple and isinstance(taken, tuple):
        return len(taken) == len(arg) and all(map(_is_same, taken, arg, arg))
    if type(arg) is dict and isinstance(taken, dict):
        return list(taken) == list(arg) and all(map(_is_same, taken.values(), arg.values(), arg.values()))
    return taken is arg or type(arg) in _SCALARS
