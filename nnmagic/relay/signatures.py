"""Format types as Python annotations, for signatures and messages: ``Tensor[(3,), f32]``.

Relay's own text writes them differently: ``Tensor[(3), float32]``.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.relay import types as ty

#: The names of dtypes in annotations, by Relay's and NumPy's.
SHORT_NAMES = {
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    "bfloat16": "bf16",
    **{
        f"{word}int{bits}": f"{word}i{bits}".replace("ui", "u")
        for word in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    "bool": "bool_",
    "complex64": "c64",
    "complex128": "c128",
}


def dtype_short_name(name: str) -> str:
    """Return ``f32`` for ``float32``; any other name unchanged."""
    return SHORT_NAMES.get(name, name)


def format_dim(dim: ty.Dim) -> str:
    """Format a dimension as a cell writes it: ``3``, ``"n"``, ``?`` without a name."""
    match dim:
        case ty.AnyDim(label=label):
            return "?" if label is None else f'"{label}"'
        case ty.VarDim(name=name):
            return f'"{name}"'
    return str(int(dim))


def format_shape(shape: Sequence[ty.Dim]) -> str:
    """Format a shape as a cell writes it: ``(2, "n")``, ``(3,)``, ``()``."""
    return f"({', '.join(map(format_dim, shape))}{',' if len(shape) == 1 else ''})"


def format_type(type_: ty.Type) -> str:
    """Format a type as a cell writes it."""
    match type_:
        case ty.TensorType(shape=(), dtype=dtype):
            return dtype_short_name(dtype)
        case ty.TensorType(shape=shape, dtype=dtype):
            return f"Tensor[{format_shape(shape)}, {dtype_short_name(dtype)}]"
        case ty.RecordType(name=name):
            return name
        case ty.TupleType(fields=fields):
            return f"tuple[{', '.join(map(format_type, fields)) or '()'}]"
        case ty.FuncType(arg_types=args, ret_type=result, type_params=()):
            return f"Callable[[{', '.join(map(format_type, args))}], {format_type(result)}]"
        case ty.TypeCall(func=ty.GlobalTypeVar(name=name), args=()):
            return name
    from nnmagic.relay.text.types import type_text

    return type_text(type_)
