"""Compute fingerprints of passes: texts that are equal only for passes that do the same.

A pass of nnmagic is its name, because the version of the compiler is part of every key. A function of one's
own is its code with the values that it captures: globals, closure and defaults, functions among them too.
No code runs.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import BuiltinFunctionType, CellType, CodeType, FunctionType

from nnmagic.functions.caching.fingerprint import fingerprint

_unique = itertools.count()


def pass_fingerprint(run: Callable[..., object]) -> str:
    """Return the fingerprint of a pass."""
    return hashlib.sha256(json.dumps(_data(run, {}, _Found())).encode()).hexdigest()


def opaque_part(run: Callable[..., object]) -> str | None:
    """Return what of a pass has no fingerprint that a later pass could equal, as words; None if all has."""
    collected = _Found()
    _data(run, {}, collected)
    return collected.opaque


class _Found:
    """What is found on the way."""

    opaque: str | None = None


def _data(value: object, seen: dict[int, int], collected: _Found) -> object:
    """Return a value as JSON data. ``seen`` numbers what is being looked at, which may refer to itself."""
    if isinstance(value, FunctionType | functools.partial) or _is_own_dataclass(value):
        if id(value) in seen:
            return ["seen", seen[id(value)]]
        seen[id(value)] = len(seen)
    match value:
        case FunctionType() if _is_own(value.__module__):
            return ["nnmagic", value.__module__, value.__qualname__, _closure(value, seen, collected)]
        case FunctionType():
            captured = {name: _data(datum, seen, collected) for name, datum in _globals_of(value)}
            defaults = [_data(datum, seen, collected) for datum in value.__defaults__ or ()]
            keywords = {
                name: _data(datum, seen, collected)
                for name, datum in sorted((value.__kwdefaults__ or {}).items())
            }
            closure = _closure(value, seen, collected)
            return ["function", _code(value.__code__), captured, defaults, keywords, closure]
        case functools.partial():
            of_partial = (value.func, value.args, value.keywords)
            return ["partial", *(_data(part, seen, collected) for part in of_partial)]
        case BuiltinFunctionType() if not hasattr(value.__self__, "__dict__") or value.__module__:
            return ["builtin", str(value.__module__), value.__qualname__]
        case tuple() | list():
            return [type(value).__name__, [_data(datum, seen, collected) for datum in value]]
        case dict() if all(type(key) is str for key in value):
            return ["dict", {key: _data(datum, seen, collected) for key, datum in value.items()}]
        case frozenset() | set():
            return ["set", sorted(json.dumps(_data(datum, seen, collected)) for datum in value)]
    if _is_own_dataclass(value):  # patterns, types, attributes
        parts = {datum.name: _data(getattr(value, datum.name), seen, collected) for datum in fields(value)}  # type: ignore[arg-type]  # it is a dataclass's instance
        return [type(value).__module__, type(value).__qualname__, parts]
    if isinstance(value, type):
        return ["type", value.__module__, value.__qualname__]
    words = fingerprint(value)
    if fingerprint(value) != words:  # one that equals no other, not even itself
        collected.opaque = collected.opaque or f"a value of type {type(value).__name__}"
        return ["unknown", next(_unique)]
    return words


def _is_own(module: str | None) -> bool:
    return module is not None and (module == "nnmagic" or module.startswith("nnmagic."))


def _is_own_dataclass(value: object) -> bool:
    return is_dataclass(value) and not isinstance(value, type) and _is_own(type(value).__module__)


def _closure(function: FunctionType, seen: dict[int, int], collected: _Found) -> list[object]:
    return [_data(_content(cell), seen, collected) for cell in function.__closure__ or ()]


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return "empty"


def _globals_of(function: FunctionType) -> Iterator[tuple[str, object]]:
    """Yield the globals that a function may read, by name."""
    scope: Mapping[str, object] = function.__globals__
    for name in sorted(set(_names(function.__code__))):
        if name in scope:
            yield name, scope[name]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _names(const)


def _code(code: CodeType) -> list[object]:
    """Return what a function's code does, without the place that it stands at."""
    constants = [
        _code(const) if isinstance(const, CodeType) else f"{type(const).__name__} {const!r}"
        for const in code.co_consts
    ]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    table = getattr(code, "co_exceptiontable", b"").hex()  # new in Python 3.11
    return [code.co_code.hex(), table, constants, *map(list, names), code.co_flags, code.co_argcount]
