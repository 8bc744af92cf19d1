"""Short names for the TIR that schedules write themselves: loops, vectors, sequences. Knows TIR only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import tirx

from nnmagic.engine.relax.tir.visitors import visit

#: A place or an extent: an int where it is known, else an expression of int64.
Place = Any

_KIND = tirx.ForKind


def static_int(value: Place) -> int | None:
    """The number where it is known."""
    found = getattr(value, "value", value)
    return int(found) if isinstance(found, int) else None


def expr(value: Place) -> Any:
    """The place as an expression."""
    return tirx.const(value, "int64") if isinstance(value, int) else value


def as_index(value: Place) -> Place:
    """The place as an int where it is known, as an int64 where not."""
    number = static_int(value)
    if number is not None:
        return number
    return value if str(value.ty.dtype) == "int64" else value.astype("int64")


def round_up_div(value: Place, step: int) -> Place:
    """How many steps cover the value."""
    number = static_int(value)
    return (
        -(-number // step)
        if number is not None
        else tirx.floordiv(value + (step - 1), tirx.const(step, "int64"))
    )


def smaller(left: Place, right: Place) -> Place:
    """The smaller of two places."""
    a, b = static_int(left), static_int(right)
    return min(a, b) if a is not None and b is not None else tirx.min(expr(left), expr(right))


def item_bytes(dtype: str) -> int:
    """The size of an element, to which every array is aligned."""
    return max(1, int(tvm.DataType(dtype).bits) // 8)


def loads_of(*expressions: Any) -> list[Any]:
    """What expressions read, in order."""
    found: list[Any] = []
    for expression in expressions:
        visit(expression, [(tvm.ir.TensorLoad, found.append)])
    return found


def prefetch(load: Any) -> Any:
    """Fetches into the first cache what will be read there; it may lie outside of the array."""
    where = tirx.call_intrin("handle", "tirx.address_of", load)
    return tirx.Evaluate(tirx.call_intrin("void", "tirx.prefetch", where, 0, 3, 1))


def is_choice(call: Any) -> bool:
    """Whether a call computes one of two cases only."""
    return getattr(call.op, "name", "") == "prim.if_then_else"


def same_places(indices: Sequence[Any], axes: Sequence[Any]) -> bool:
    """Whether the indices are the axes, in order."""
    return len(indices) == len(axes) and all(a.same_as(b) for a, b in zip(indices, axes, strict=True))


def sequence(statements: Sequence[Any]) -> Any:
    """The statements one after the other."""
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(list(statements))


def loop(name: str, extent: Place, body: Callable[[Any], Any], kind: Any = _KIND.SERIAL) -> Any:
    """A loop from 0, or just its body where that is run once."""
    if static_int(extent) == 1:
        return body(expr(0))
    var = tirx.Var(name, "int64")
    return tirx.For(var, expr(0), expr(extent), kind, body(var))


def parallel(name: str, extent: Place, body: Callable[[Any], Any], *, wanted: bool) -> Any:
    """A loop whose turns the threads share where that is wanted."""
    return loop(name, extent, body, _KIND.PARALLEL if wanted else _KIND.SERIAL)


def over_lanes(lanes: int, body: Callable[[Any], Any]) -> Any:
    """A vectorised loop."""
    return loop("lane", lanes, body, _KIND.VECTORIZED if lanes > 1 else _KIND.SERIAL)


def ramp(start: Place, lanes: int) -> Any:
    """Places one after the other."""
    return tirx.Ramp(expr(start), expr(1), lanes) if lanes > 1 else expr(start)


def spread(value: Any, lanes: int) -> Any:
    """One number in every lane."""
    return tirx.Broadcast(value, lanes) if lanes > 1 else value


def load(buffer: Any, start: Place, lanes: int, dtype: str) -> Any:
    """Elements of a flat buffer as a vector of a dtype."""
    found = tirx.BufferLoad(buffer, [ramp(start, lanes)])
    if str(buffer.ty.dtype) == dtype:
        return found
    return tirx.Cast(vector_type(dtype, lanes), found)


def store(buffer: Any, start: Place, lanes: int, value: Any) -> Any:
    """A vector into a flat buffer."""
    return tirx.BufferStore(buffer, value, [ramp(start, lanes)])


def vector_type(dtype: str, lanes: int) -> str:
    """The name of the type."""
    return f"{dtype}x{lanes}" if lanes > 1 else dtype


def flat(buffer: Any) -> tuple[Any, Any]:
    """A view of a compact buffer as one dimension, and the statement that declares it."""
    size: Any = 1
    for dim in buffer.ty.shape:
        size = size * as_index(dim)
    dtype = str(buffer.ty.dtype)
    view = tirx.decl_buffer((size,), dtype, f"{buffer.name}_flat", data_alignment=item_bytes(dtype))
    return view, tirx.DeclBuffer(view, data=buffer.data)
