"""Write types as Relay does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnmagic.relay import types as ty


def dim_text(dim: ty.Dim) -> str:
    """Return a dimension's text: ``3``, ``3i64``, ``?``; a VarDim without a module is shown by its name."""
    match dim:
        case ty.AnyDim():
            return "?"
        case ty.VarDim(name=name):
            return name
        case ty.Int64():
            return f"{int(dim)}i64"
    return str(int(dim))


def _incomplete_text(type_: ty.IncompleteType) -> str:
    return type_.name


def type_text(
    type_: ty.Type,
    dim: Callable[[ty.Dim], str] = dim_text,
    incomplete: Callable[[ty.IncompleteType], str] = _incomplete_text,
) -> str:
    """Return a type as Relay prints it.

    ``dim`` and ``incomplete`` return the text of a dimension and of an unknown type.
    """

    def text(part: ty.Type) -> str:
        return type_text(part, dim, incomplete)

    def join(types: Sequence[ty.Type]) -> str:
        return ", ".join(map(text, types))

    match type_:
        case ty.TensorType(shape=(), dtype=dtype):
            return dtype
        case ty.TensorType(shape=shape, dtype=dtype):
            return f"Tensor[({', '.join(map(dim, shape))}), {dtype}]"
        case ty.TupleType(fields=fields):
            return f"({join(fields)}{',' if len(fields) == 1 else ''})"
        case ty.FuncType(arg_types=args, ret_type=ret, type_params=params):
            generic = f"[{join(params)}]" if params else ""
            return f"fn {generic}({join(args)}) -> {text(ret)}"
        case ty.RefType(value=value):
            return f"ref({text(value)})"
        case ty.IncompleteType():
            return incomplete(type_)
        case ty.TypeVar(name=name) | ty.GlobalTypeVar(name=name):
            return name
        case ty.TypeCall(func=func, args=args):
            return f"{func.name}[{join(args)}]"
    raise TypeError(f"not a Relay type: {type_!r}")
