"""Adapt Python calls to compiled functions: parameters, signature, binding, results into ``out``."""

from __future__ import annotations

import inspect
import itertools
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, GenericAlias
from typing import TYPE_CHECKING, Any

import numpy as np

from nnmagic.diagnostics import closest, kind_of
from nnmagic.engine.arguments import Parameter
from nnmagic.engine.foreign_arrays import EXPORT_ERRORS, note_change, shared_array
from nnmagic.relay import types as ty
from nnmagic.relay.signatures import format_type
from nnmagic.relay.text.types import type_text
from nnmagic.tinynn.parameters import MISSING, ParameterInfo
from nnmagic.tinynn.types.annotations import CHANGED, Destination, Generator, Tensor, dtype_named

if TYPE_CHECKING:
    from nnmagic.relay.module import Module, TypeData


@dataclass(frozen=True, slots=True)
class ShownType:
    """A type that no annotation of a cell can express, such as one with an unnamed dimension."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, eq=False)
class ArrayDefault:
    """An array as the default in a signature: short to print, equal if the arrays are equal."""

    array: np.ndarray

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        return self.array if dtype is None else self.array.astype(np.dtype(dtype))  # type: ignore[call-overload]  # NumPy's own argument

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArrayDefault):
            return NotImplemented
        return self.array.dtype == other.array.dtype and np.array_equal(self.array, other.array)

    def __hash__(self) -> int:
        return hash((self.array.shape, self.array.dtype))

    def __repr__(self) -> str:
        return repr(self.array.item()) if not self.array.shape else "<array>"


@dataclass(frozen=True, slots=True)
class CallAdapter:
    """How Python calls a function.

    Attributes:
        name: for messages.
        parameters: what each takes; their names are those of messages.
        signature: Python's signature, with annotations.
        takes_out: whether a call takes ``out=``, which the signature does not show; a function may have a
            parameter of that name.
        arity: the number of positional arguments; None if some parameters are keyword-only.
        binder: returns the arguments in the order of the parameters.
        destinations: the numbers of the parameters whose arrays a call changes; what these hold afterwards
            are the last results of the function.
        generators: those of them that are generators of random numbers, whose states the function takes.
        reads: for each of the destinations, whether the function reads the array.
        result: the type of what it returns; None if that is nothing.
        crosses: whether Python can hold all arguments and results; it cannot hold Relay's functions.

    """

    name: str
    parameters: tuple[Parameter, ...]
    signature: inspect.Signature
    takes_out: bool
    arity: int | None
    binder: Callable[..., tuple[object, ...]]
    crosses: bool
    destinations: tuple[int, ...] = ()
    generators: tuple[int, ...] = ()
    reads: tuple[bool, ...] = ()
    result: ty.Type | None = None

    def destinations_read(self) -> list[tuple[int, bool]]:
        """Return the parameters whose arrays a call changes, each with whether the function reads it."""
        return list(zip(self.destinations, self.reads, strict=True))

    def results_in_relay(self) -> list[str]:
        """Return what the results of the function are in Relay, if a call changes arrays."""
        if not self.destinations:
            return []
        names = list(self.signature.parameters)
        return [
            *(["what it returns"] if self.result is not None else []),
            *(names[number] for number in self.destinations),
        ]

    @property
    def keyword_only(self) -> list[str]:
        """The names of the parameters that a call gives by name; they are the last ones."""
        return [name for name, shown in self.signature.parameters.items() if shown.kind is shown.KEYWORD_ONLY]

    def split(self, values: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """Return the values of all parameters as the positional and the keyword arguments of a call."""
        # Each call of a function without types comes here, and few have parameters by name.
        if self.arity is not None:
            return values, {}
        names = self.keyword_only
        first = len(values) - len(names)
        return values[:first], dict(zip(names, values[first:], strict=True))

    def bind(self, args: Sequence[object], keywords: Mapping[str, object]) -> tuple[object, ...]:
        """Return the arguments in the order of the parameters. Raises Python's own TypeError."""
        try:
            return self.binder(*args, **keywords)
        except TypeError as error:
            message = str(error)
            if "unexpected keyword argument" in message and "Did you mean" not in message:
                names = [name for name in self.signature.parameters if name not in keywords]
                unknown = next(name for name in keywords if repr(name) in message)
                close = closest(unknown, names)
                message += f". Did you mean {close!r}?" if close else ""
            raise TypeError(message) from None


def call_of(name: str, module: Module, infos: Sequence[ParameterInfo] = ()) -> CallAdapter:
    """Return the adapter of a function of a typed module; ``infos``: kinds and defaults, if it has any."""
    function = module.functions[name]
    types = [_require_type(var.checked_type or var.type_annotation) for var in function.params]
    hints = [var.name_hint for var in function.params]
    parameter_infos = infos or [ParameterInfo(hint) for hint in parameter_names(hints)]
    if len(parameter_infos) != len(types):
        raise ValueError(f"it has {len(parameter_infos)} parameters, and {name} takes {len(types)} values")
    takes_out = "out" not in hints
    result = _require_type(function.ret_type)
    _check_destinations(parameter_infos, types, result)
    return call_with(name, parameter_infos, types, result, module.types, takes_out=takes_out)


def _check_destinations(infos: Sequence[ParameterInfo], types: Sequence[ty.Type], result: ty.Type) -> None:
    """Raise ValueError unless the last results are of the types of the parameters that a call changes.

    Machine code writes these results into the arrays without a further look.
    """
    changed = [type_ for info, type_ in zip(infos, types, strict=True) if info.destination]
    fields = result.fields if isinstance(result, ty.TupleType) else (result,)
    own = len(fields) - len(changed)
    if changed and (own not in (0, 1) or list(fields[own:]) != changed):
        wanted, given = ", ".join(map(format_type, changed)), format_type(result)
        raise ValueError(f"a call changes the arrays {wanted}, and the last results are of {given}")
    if not all(isinstance(type_, ty.TensorType) for type_ in changed):
        raise ValueError(f"a call changes arrays alone, and not {', '.join(map(format_type, changed))}")


def call_with(
    name: str,
    infos: Sequence[ParameterInfo],
    types: Sequence[ty.Type],
    result: ty.Type,
    data_types: Mapping[str, TypeData],
    *,
    takes_out: bool = False,
) -> CallAdapter:
    """Return the adapter of something with these parameters."""
    shown = [
        inspect.Parameter(
            info.name,
            getattr(inspect.Parameter, info.kind),
            default=shown_default(info.default),
            annotation=_parameter_annotation(info, type_),
        )
        for info, type_ in zip(infos, types, strict=True)
    ]
    destinations = tuple(number for number, info in enumerate(infos) if info.destination)
    generators = tuple(number for number in destinations if infos[number].destination == "Generator")
    reads = tuple(infos[number].destination != "Out" for number in destinations)
    own = _own_result(result, len(destinations))
    takes_out = takes_out and own is not None
    parameters = tuple(
        Parameter(f"{name}() argument {info.name!r}", type_, data_types)
        for info, type_ in zip(infos, types, strict=True)
    )
    shown_result = None if own is None else annotation(own)
    signature = inspect.Signature(shown, return_annotation=shown_result)
    by_name = any(info.kind == "KEYWORD_ONLY" for info in infos)
    arity = None if by_name else len(infos)
    crosses = not any(map(_holds_function, (*types, result)))
    binder = make_binder(name, infos)
    return CallAdapter(
        name, parameters, signature, takes_out, arity, binder, crosses, destinations, generators, reads, own
    )


def _parameter_annotation(info: ParameterInfo, type_: ty.Type) -> object:
    shown = annotation(type_)
    return CHANGED[info.destination](shown) if isinstance(shown, Tensor) and info.destination else shown


def _own_result(result: ty.Type, destinations: int) -> ty.Type | None:
    """Return the type of what a function returns beside what arrays hold; None if it returns nothing."""
    if not destinations:
        return result
    if isinstance(result, ty.TupleType) and len(result.fields) == destinations + 1:
        return result.fields[0]
    return None


def _holds_function(type_: ty.Type) -> bool:
    match type_:
        case ty.FuncType() | ty.RefType():
            return True
        case ty.TupleType(fields=fields):
            return any(map(_holds_function, fields))
    return False


def shown_default(default: object) -> object:
    """Return a default as a signature shows it."""
    match default:
        case np.ndarray():
            return ArrayDefault(default)
        case tuple():
            return tuple(map(shown_default, default))
    return inspect.Parameter.empty if default is MISSING else default


def make_binder(name: str, infos: Sequence[ParameterInfo]) -> Callable[..., tuple[object, ...]]:
    """Return a Python function that returns its arguments, so that Python itself binds and reports errors."""
    written = []
    for index, info in enumerate(infos):
        before = infos[index - 1].kind if index else ""
        if before == "POSITIONAL_ONLY" != info.kind:
            written.append("/")
        if info.kind == "KEYWORD_ONLY" and before not in ("KEYWORD_ONLY", "VAR_POSITIONAL"):
            written.append("*")
        if info.kind == "VAR_POSITIONAL":
            written.append(f"*{info.name}")
            continue
        written.append(info.name if info.default is MISSING else f"{info.name}=None")
    if infos and infos[-1].kind == "POSITIONAL_ONLY":
        written.append("/")
    # With a comma behind each name, one parameter makes a tuple, and none an empty one.
    names = "".join(f"{info.name}, " for info in infos)
    made: dict[str, Callable[..., tuple[object, ...]]] = {}
    exec(f"def binder({', '.join(written)}): return ({names})", made)  # noqa: S102 - identifiers alone
    binder = made.pop("binder")  # or it and the names would keep each other
    assert isinstance(binder, FunctionType)
    # Python's own TypeError names the function: "f() missing 1 required positional argument: 'x'".
    binder.__name__ = binder.__qualname__ = name
    defaults = {info.name: info.default for info in infos if info.default is not MISSING}
    by_name = {info.name for info in infos if info.kind == "KEYWORD_ONLY"}
    binder.__defaults__ = tuple(value for parameter, value in defaults.items() if parameter not in by_name)
    binder.__kwdefaults__ = {
        parameter: value for parameter, value in defaults.items() if parameter in by_name
    }
    return binder


def _require_type(type_: ty.Type | None) -> ty.Type:
    if type_ is None:
        raise TypeError("only a module with inferred types can be called")
    return type_


def parameter_names(hints: Sequence[str]) -> tuple[str, ...]:
    """Return unique Python identifiers: Relay allows ``x.1``, ``if`` and the same name twice."""
    taken: list[str] = []
    for hint in hints:
        name = re.sub(r"\W", "_", hint)
        if not name.isidentifier() or keyword.iskeyword(name) or name == "__debug__":
            name = f"_{name}" if name[:1].isdigit() else f"{name}_"
        candidates = itertools.chain([name], (f"{name}_{count}" for count in itertools.count(1)))
        taken.append(next(candidate for candidate in candidates if candidate not in taken))
    return tuple(taken)


def annotation(type_: ty.Type | Generator) -> object:
    """Return a type as an annotation, ``Tensor[(2, "n"), f32]``, or as text if a cell cannot write it."""
    match type_:
        case Destination():
            return type_
        case ty.TensorType(shape=shape, dtype=dtype):
            dims = [_annotation_dim(dim) for dim in shape]
            known = dtype_named(dtype)
            if known is None or None in dims:
                return ShownType(format_type(type_))
            return Tensor(tuple(dim for dim in dims if dim is not None), known) if shape else known
        case ty.RecordType(name=name):
            return ShownType(name)
        case ty.TupleType(fields=fields):
            return GenericAlias(tuple, tuple(map(annotation, fields)))
        case ty.FuncType(arg_types=args, ret_type=result, type_params=()):
            taken = ", ".join(repr(annotation(arg)) for arg in args)
            return ShownType(f"Callable[[{taken}], {annotation(result)!r}]")
        case ty.TypeCall(func=ty.GlobalTypeVar(name=name), args=()):
            return ShownType(name)
    return ShownType(type_text(type_))


def _annotation_dim(dim: object) -> int | str | None:
    match dim:
        case ty.AnyDim(label=name) | ty.VarDim(name=name):
            return name
        case int():
            return int(dim)
    return None


def store(result: object, out: object, where: str = "out") -> object:
    """Copy a result into ``out``, an array or a tuple of arrays of its structure, and return ``out``.

    Nothing is written unless everything fits. Raises TypeError or ValueError.
    """
    pairs = list(_pairs(result, out, where))
    # All checks come before the first write: `out` is either written as a whole or left alone.
    for (_, one, _, name), (_, other, _, other_name) in itertools.combinations(pairs, 2):
        if np.shares_memory(one, other):
            raise ValueError(f"{name} and {other_name} share memory: one result would overwrite the other")
    for array, target, given, _ in pairs:
        np.copyto(target, array)
        note_change(given)
    return out


def _pairs(result: object, out: object, where: str) -> list[tuple[np.ndarray, np.ndarray, object, str]]:
    """Return each array of a result with the array that receives it, what has that, and its name."""
    if isinstance(result, tuple):
        if not isinstance(out, tuple | list) or len(out) != len(result):
            what = f"of {len(out)}" if isinstance(out, tuple | list) else kind_of(out)
            raise TypeError(f"{where} must be a tuple of {len(result)} arrays, not {what}")
        parts = enumerate(zip(result, out, strict=True))
        return [pair for i, (part, target) in parts for pair in _pairs(part, target, f"{where}[{i}]")]
    if not isinstance(result, np.ndarray):
        raise TypeError(f"{where}: only arrays can be written to, and the result is {kind_of(result)}")
    try:
        target = shared_array(out)
    except EXPORT_ERRORS as error:
        raise TypeError(f"{where}: {kind_of(out)} gave no array: {error}") from error
    if target is None:
        raise TypeError(f"{where} must be a NumPy array, not {kind_of(out)}")
    if target.dtype.newbyteorder("=") != result.dtype:
        raise TypeError(f"{where} must be an array of {result.dtype}, not of {target.dtype}")
    if target.shape != result.shape:
        raise ValueError(f"{where} must have the shape {result.shape}, not {target.shape}")
    if not target.flags.writeable:
        raise ValueError(f"{where} is read-only")
    return [(result, target, out, where)]
