"""Types as Relay writes them. Knows types only."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnmagic.relay.types import (
    AnyDim,
    Dim,
    FuncType,
    GlobalTypeVar,
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
    """A dimension: ``3``, ``3i64``, ``?``. A VarDim without a module around it is shown by its name."""
    match dim:
        case AnyDim():
            return "?"
        case VarDim(name=name):
            return name
        case Int64():
            return f"{int(dim)}i64"
    return str(int(dim))


def type_text(type_: Type, dim: Callable[[Dim], str] = dim_text) -> str:
    """A type as Relay prints it; ``dim`` gives the text of a dimension."""

    def listed(types: Sequence[Type]) -> str:
        return ", ".join([type_text(each, dim) for each in types])

    match type_:
        case TensorType(shape=(), dtype=dtype):
            return dtype
        case TensorType(shape=shape, dtype=dtype):
            return f"Tensor[({', '.join(map(dim, shape))}), {dtype}]"
        case TupleType(fields=fields):
            return f"({listed(fields)}{',' if len(fields) == 1 else ''})"
        case FuncType(arg_types=args, ret_type=ret, type_params=params):
            generic = f"[{listed(params)}]" if params else ""
            return f"fn {generic}({listed(args)}) -> {type_text(ret, dim)}"
        case RefType(value=value):
            return f"ref({type_text(value, dim)})"
        case TypeVar(name=name) | GlobalTypeVar(name=name):
            return name
        case TypeCall(func=func, args=args):
            return f"{func.name}[{listed(args)}]"
    raise TypeError(f"not a Relay type: {type_!r}")
