"""A compiled function's call as Python sees it: parameters, signature, binding, results into ``out``.

Knows Relay's types and the annotations of a cell; knows no engine but its checks of arguments.
"""

from __future__ import annotations

import inspect
import itertools
import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import GenericAlias

import numpy as np

from nnmagic.diagnostics import closest
from nnmagic.engine.arguments import Parameter
from nnmagic.relay.module import Module
from nnmagic.relay.text.types import type_text
from nnmagic.relay.types import AnyDim, TensorType, TupleType, Type, VarDim
from nnmagic.tinynn.annotations import Tensor, dtype_named
from nnmagic.tinynn.values import type_shown


@dataclass(frozen=True, slots=True)
class ShownType:
    """A type that no annotation of a cell can say, such as one with an unnamed dimension; shown as text."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Call:
    """How a function is called.

    name: for messages. names: of the parameters, as Python takes them. parameters: what each takes; their
    names are those of messages. signature: Python's, annotated. takes_out: whether ``out=`` is ours (it is
    the function's own where a parameter has that name).
    """

    name: str
    names: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    signature: inspect.Signature
    takes_out: bool

    def bind(self, args: Sequence[object], keywords: Mapping[str, object]) -> list[object]:
        """The arguments in the order of the parameters. Raises TypeError, in Python's own words."""
        if len(args) > len(self.names):
            given = f"{len(args)} {'was' if len(args) == 1 else 'were'} given"
            raise TypeError(
                f"{self.name}() takes {_counted(len(self.names), 'positional argument')} but {given}"
            )
        values = dict(zip(self.names, args, strict=False))
        for name, value in keywords.items():
            if name not in self.names:
                close = closest(name, self.names)
                hint = f". Did you mean {close!r}?" if close else ""
                raise TypeError(f"{self.name}() got an unexpected keyword argument {name!r}{hint}")
            if name in values:
                raise TypeError(f"{self.name}() got multiple values for argument {name!r}")
            values[name] = value
        missing = [repr(name) for name in self.names if name not in values]
        if missing:
            counted = _counted(len(missing), "required positional argument")
            raise TypeError(f"{self.name}() missing {counted}: {_listed(missing)}")
        return [values[name] for name in self.names]


def call_of(name: str, module: Module) -> Call:
    """How a function of a typed module is called."""
    function = module.functions[name]
    names = parameter_names([var.name_hint for var in function.params])
    types = [_known_type(var.checked_type or var.type_annotation) for var in function.params]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    shown = [
        inspect.Parameter(name, kind, annotation=annotation(type_))
        for name, type_ in zip(names, types, strict=True)
    ]
    takes_out = "out" not in names
    if takes_out:
        shown.append(inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None))
    result = annotation(_known_type(function.ret_type))
    parameters = tuple(
        Parameter(f"{name}() argument {parameter!r}", type_, module.types)
        for parameter, type_ in zip(names, types, strict=True)
    )
    signature = inspect.Signature(shown, return_annotation=result)
    return Call(name, names, parameters, signature, takes_out)


def _known_type(type_: Type | None) -> Type:
    if type_ is None:
        raise TypeError("only a module with inferred types can be called")
    return type_


def parameter_names(hints: Sequence[str]) -> tuple[str, ...]:
    """Names that Python takes, each once: Relay allows ``x.1``, ``if`` and the same name twice."""
    taken: list[str] = []
    for hint in hints:
        name = re.sub(r"\W", "_", hint)
        if not name.isidentifier() or keyword.iskeyword(name):
            name = f"_{name}" if name[:1].isdigit() else f"{name}_"
        candidates = itertools.chain([name], (f"{name}_{count}" for count in itertools.count(1)))
        taken.append(next(candidate for candidate in candidates if candidate not in taken))
    return tuple(taken)


def annotation(type_: Type) -> object:
    """A type as an annotation, ``Tensor[(2, "n"), f32]``; shown as text where a cell cannot write it."""
    match type_:
        case TensorType(shape=shape, dtype=dtype):
            dims = [_annotated_dim(dim) for dim in shape]
            known = dtype_named(dtype)
            if known is None or None in dims:
                return ShownType(type_shown(type_))
            return Tensor(tuple(dim for dim in dims if dim is not None), known) if shape else known
        case TupleType(fields=fields):
            return GenericAlias(tuple, tuple(map(annotation, fields)))
    return ShownType(type_text(type_))


def _annotated_dim(dim: object) -> int | str | None:
    match dim:
        case AnyDim(label=name) | VarDim(name=name):
            return name
        case int():
            return int(dim)
    return None


def store(result: object, out: object, where: str = "out") -> object:
    """Copies a result into ``out``, an array or a tuple of arrays of its form, and gives ``out``.

    Nothing is written unless everything fits. Raises TypeError or ValueError.
    """
    pairs = list(_pairs(result, out, where))
    for (_, one, name), (_, other, other_name) in itertools.combinations(pairs, 2):
        if np.shares_memory(one, other):
            raise ValueError(f"{name} and {other_name} share memory: one result would overwrite the other")
    for array, target, _ in pairs:
        np.copyto(target, array)
    return out


def _pairs(result: object, out: object, where: str) -> list[tuple[np.ndarray, np.ndarray, str]]:
    """Each array of a result with the array that takes it."""
    if isinstance(result, tuple):
        if not isinstance(out, tuple | list) or len(out) != len(result):
            what = f"of {len(out)}" if isinstance(out, tuple | list) else _kind(out)
            raise TypeError(f"{where} must be a tuple of {len(result)} arrays, not {what}")
        parts = enumerate(zip(result, out, strict=True))
        return [pair for i, (part, target) in parts for pair in _pairs(part, target, f"{where}[{i}]")]
    if not isinstance(result, np.ndarray):
        raise TypeError(
            f"{where}: only arrays can be written to, and the result is a {type(result).__name__}"
        )
    if not isinstance(out, np.ndarray):
        raise TypeError(f"{where} must be a NumPy array, not {_kind(out)}")
    if out.dtype.newbyteorder("=") != result.dtype:
        raise TypeError(f"{where} must be an array of {result.dtype}, not of {out.dtype}")
    if out.shape != result.shape:
        raise ValueError(f"{where} must have the shape {result.shape}, not {out.shape}")
    if not out.flags.writeable:
        raise ValueError(f"{where} is read-only")
    return [(result, out, where)]


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _listed(items: Sequence[str]) -> str:
    """``'a'``, ``'a' and 'b'``, ``'a', 'b', and 'c'``: as Python lists missing arguments."""
    if len(items) <= 2:
        return " and ".join(items)
    return f"{', '.join(items[:-1])}, and {items[-1]}"
