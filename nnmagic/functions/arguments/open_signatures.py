"""Show and bind the parameters of functions whose types are open."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeGuard

from nnmagic.functions.arguments.argument_types import written
from nnmagic.functions.arguments.calls import annotation, make_binder, shown_default
from nnmagic.relay.types import RecordType, TupleType, Type
from nnmagic.tinynn.parameters import MISSING
from nnmagic.tinynn.program import FunctionInfo
from nnmagic.tinynn.types.annotations import CHANGED, Generator, OpenTensor, Tensor

if TYPE_CHECKING:
    pass


#: The types of a call by parameter, how its compile-time values are written, and the names in its records.
Key = tuple[
    tuple[tuple[str, Type | Generator], ...], tuple[tuple[str, str], ...], tuple[tuple[str, ...], ...]
]

#: Stands for an argument that a call leaves out.
LEFT_OUT = object()


def specialization_key(types: Mapping[str, Type | Generator], values: Mapping[str, object]) -> Key:
    """Return the key of a specialization: what calls must have in common to share one."""
    known = tuple((name, written(value)) for name, value in values.items())
    return tuple(types.items()), known, tuple(names for type_ in types.values() for names in _names_in(type_))


def _names_in(type_: Type | Generator) -> Iterator[tuple[str, ...]]:
    """Yield the names in records: a record equals the tuple of its fields."""
    if isinstance(type_, RecordType):
        yield type_.name, *type_.names
    if isinstance(type_, TupleType):
        for field_ in type_.fields:
            yield from _names_in(field_)


def is_open(pattern: Type | OpenTensor | None) -> TypeGuard[OpenTensor | None]:
    """Return whether calls decide the type of a parameter."""
    return pattern is None or isinstance(pattern, OpenTensor)


def binder(info: FunctionInfo) -> Callable[..., tuple[Any, ...]]:
    """Return a function that returns the arguments in order, `LEFT_OUT` for those that have a default."""
    marked = [
        parameter if parameter.default is MISSING else replace(parameter, default=LEFT_OUT)
        for parameter in info.parameters
    ]
    return make_binder(info.name, marked)


def signature(info: FunctionInfo) -> inspect.Signature:
    """Return the signature that ``inspect`` shows."""
    shown = [
        inspect.Parameter(
            parameter.name,
            inspect._ParameterKind[parameter.kind],
            default=shown_default(parameter.default),
            annotation=_shown_pattern(info.open.get(parameter.name), parameter.destination),
        )
        for parameter in info.parameters
    ]
    return inspect.Signature(shown)


def _shown_pattern(pattern: Type | OpenTensor | None, destination: str) -> object:
    if pattern is None:
        return inspect.Parameter.empty
    if isinstance(pattern, OpenTensor):
        return pattern
    shown = annotation(pattern)
    return CHANGED[destination](shown) if destination and isinstance(shown, Tensor) else shown
