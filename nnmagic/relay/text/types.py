"""Types as Relay writes them. Knows types only."""

from __future__ import annotations

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


def type_text(type_: Type) -> str:
    """A type as Relay prints it."""
    match type_:
        case TensorType(shape=(), dtype=dtype):
            return dtype
        case TensorType(shape=shape, dtype=dtype):
            return f"Tensor[({', '.join(map(dim_text, shape))}), {dtype}]"
        case TupleType(fields=fields):
            return f"({', '.join(map(type_text, fields))}{',' if len(fields) == 1 else ''})"
        case FuncType(arg_types=args, ret_type=ret, type_params=params):
            generic = f"[{', '.join(p.name for p in params)}]" if params else ""
            return f"fn {generic}({', '.join(map(type_text, args))}) -> {type_text(ret)}"
        case RefType(value=value):
            return f"ref({type_text(value)})"
        case TypeVar(name=name) | GlobalTypeVar(name=name):
            return name
        case TypeCall(func=func, args=args):
            return f"{func.name}[{', '.join(map(type_text, args))}]"
    raise TypeError(f"not a Relay type: {type_!r}")
