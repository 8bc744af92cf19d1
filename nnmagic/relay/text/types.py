"""Write types as Relay does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnmagic.relay.types import (
    AnyDim,
    Dim,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    Int64,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
    VarDim,
)


def dim_text(dim: Dim) -> str:
    """Return a dimension's text: ``3``, ``3i64``, ``?``; a VarDim without a module is shown by its name."""
    match dim:
        case AnyDim():
            return "?"
        case VarDim(name=name):
            return name
        case Int64():
            return f"{int(dim)}i64"
    return str(int(dim))


def _incomplete_text(type_: IncompleteType) -> str:
    return type_.name


def type_text(
    type_: Type,
    dim: Callable[[Dim], str] = dim_text,
    incomplete: Callable[[IncompleteType], str] = _incomplete_text,
) -> str:
    """Return a type as Relay prints it.

    ``dim`` and ``incomplete`` return the text of a dimension and of an unknown type.
    """

    def text(part: Type) -> str:
        return type_text(part, dim, incomplete)

    def join(types: Sequence[Type]) -> str:
        return ", ".join(map(text, types))

    match type_:
        case TensorType(shape=(), dtype=dtype):
            return dtype
        case TensorType(shape=shape, dtype=dtype):
            return f"Tensor[({', '.join(map(dim, shape))}), {dtype}]"
        case TupleType(fields=fields):
            return f"({join(fields)}{',' if len(fields) == 1 else ''})"
        case FuncType(arg_types=args, ret_type=ret, type_params=params):
            generic = f"[{join(params)}]" if params else ""
            return f"fn {generic}({join(args)}) -> {text(ret)}"
        case RefType(value=value):
            return f"ref({text(value)})"
        case IncompleteType():
            return incomplete(type_)
        case TypeVar(name=name) | GlobalTypeVar(name=name):
            return name
        case TypeCall(func=func, args=args):
            return f"{func.name}[{join(args)}]"
    raise TypeError(f"not a Relay type: {type_!r}")
