"""Build the TIR that schedules write: loops, vectors, loads and stores, sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import tvm
import tvm_ffi
from tvm import sym, tirx
from tvm.tirx.layout import S, TileLayout

from nnmagic.engine.relax.tir.types import Buffer, Call, Extent, Index, Load, Node, PrimExpr, Stmt, Var
from nnmagic.engine.relax.tir.visitors import collect

_KIND = tirx.ForKind

#: Ends a function with -1: it has failed.
FAIL = tirx.Evaluate(
    tvm.ir.Call(tvm.ir.Op.get("tirx.tvm_throw_last_error"), [], ret_ty=tvm.ir.PrimType("int32"))
)
#: The key of a statement that becomes a function, of which equal ones are compiled once.
SHARED = "nnmagic.shared"


def is_for_gpu() -> bool:
    """Return whether the code that is being built is for a GPU."""
    target = tvm.target.Target.current(allow_none=True)
    return target is not None and "gpu" in target.keys


def has_instructions(name: str) -> bool:
    """Return whether the CPU that code is built for has an instruction set, such as "avx512vl"."""
    target = tvm.target.Target.current(allow_none=True)
    return target is not None and name in _instruction_sets(target)


@cache
def _instruction_sets(target: tvm.target.Target) -> frozenset[str]:
    if target.kind.name != "llvm":
        return frozenset()
    return frozenset(map(str, tvm.target.codegen.llvm_get_cpu_features(target)))


def static_int(value: Index) -> int | None:
    """Return the value as an ``int`` if it is known at compile time, else None."""
    number = getattr(value, "value", value)
    return int(number) if isinstance(number, int) else None


def as_expr(value: Index) -> PrimExpr:
    """Return the index as an expression of int64."""
    return tirx.const(value, "int64") if isinstance(value, int) else value


def as_index(value: Index) -> Index:
    """Return the index as an ``int`` if it is known at compile time, else as an int64 expression."""
    number = static_int(value)
    if number is not None:
        return number
    return value if dtype_of(value) == "int64" else value.astype("int64")


def dtype_of(node: Node) -> str:
    """Return the dtype of an expression, or of a buffer's elements."""
    return str(node.ty.dtype)


def shape_of(buffer: Buffer) -> tuple[int, ...]:
    """Return the shape of a buffer whose dimensions are all static."""
    return tuple(int(dim) for dim in buffer.ty.shape)


def round_up_div(value: Index, step: Index) -> Index:
    """Return how many steps cover the value."""
    number, size = static_int(value), static_int(step)
    if number is not None and size is not None:
        return -(-number // size)
    return tirx.floordiv(as_expr(value) + (step - 1), as_expr(step))


def at_least(value: Index, least: int) -> PrimExpr | bool:
    """Return whether a size is so large, as an expression if only the call knows."""
    number = static_int(value)
    return as_expr(value) >= least if number is None else number >= least


def branch(condition: PrimExpr | bool, yes: Callable[[], Stmt], no: Callable[[], Stmt]) -> Stmt:
    """Build one of two statements, or both where only the call knows the condition."""
    if isinstance(condition, bool):
        return yes() if condition else no()
    return tirx.IfThenElse(condition, yes(), no())


def minimum(lhs: Index, rhs: Index) -> Index:
    """Return the smaller of two indices."""
    a, b = static_int(lhs), static_int(rhs)
    return min(a, b) if a is not None and b is not None else tirx.min(as_expr(lhs), as_expr(rhs))


def maximum(lhs: Index, rhs: Index) -> Index:
    """Return the larger of two indices."""
    a, b = static_int(lhs), static_int(rhs)
    return max(a, b) if a is not None and b is not None else tirx.max(as_expr(lhs), as_expr(rhs))


def product(extents: Iterable[Extent]) -> Extent:
    """Return the product of extents: an ``int`` where all are static."""
    result: Extent = 1
    for extent in extents:
        result = result * as_index(extent)
    return result


def are_equal(lhs: Extent, rhs: Extent) -> bool:
    """Return whether two extents are provably equal for all sizes."""
    a, b = static_int(lhs), static_int(rhs)
    if a is not None or b is not None:
        return a == b
    return bool(tvm_ffi.structural_equal(lhs, rhs) or sym.Analyzer().can_prove_equal(lhs, rhs))


def item_bytes(dtype: str) -> int:
    """Return the size of an element in bytes; every array is aligned to it."""
    return max(1, int(tvm.DataType(dtype).bits) // 8)


def collect_loads(*expressions: PrimExpr) -> list[Load]:
    """Return the loads in the expressions, in order."""
    return collect(tvm.ir.TensorLoad, *expressions)


def prefetch(load: Load) -> Stmt:
    """Prefetch a load's data into the first-level cache; its address may be outside of the array."""
    address = tirx.call_intrin("handle", "tirx.address_of", load)
    return tirx.Evaluate(tirx.call_intrin("void", "tirx.prefetch", address, 0, 3, 1))


def is_conditional(call: Call) -> bool:
    """Return whether a call is ``if_then_else``, which computes only one of its two values."""
    return getattr(call.op, "name", "") == "prim.if_then_else"


def is_library_fallback(call: Call) -> bool:
    """Return whether a call is ``if_then_else`` whose first value, a rare one, the C library computes."""
    if not is_conditional(call):
        return False
    value = call.args[1]
    return isinstance(value, tvm.ir.Call) and getattr(value.op, "name", "") == "tirx.call_pure_extern"


def indices_are_axes(indices: Sequence[Index], axes: Sequence[Var]) -> bool:
    """Return whether the indices are the axes, in order."""
    return len(indices) == len(axes) and all(a.same_as(b) for a, b in zip(indices, axes, strict=True))


def sequence(statements: Sequence[Stmt]) -> Stmt:
    """Return one statement that runs the statements in order."""
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(list(statements))


def shared(body: Stmt, array: Buffer) -> Stmt:
    """Mark a statement that uses an array: it becomes a function, which equal statements call, too."""
    return tirx.AttrStmt(array, SHARED, as_expr(1), body)


def bound(**values: Index) -> tuple[list[Stmt], list[Var]]:
    """Return variables for indices, and the statements that bind them."""
    variables = [tirx.Var(name, "int64") for name in values]
    return [*map(tirx.Bind, variables, map(as_expr, values.values()))], variables


def loop(name: str, extent: Extent, body: Callable[[PrimExpr], Stmt], kind: int = _KIND.SERIAL) -> Stmt:
    """Build a loop from 0; return just the body where it runs once."""
    if static_int(extent) == 1:
        return body(as_expr(0))
    var = tirx.Var(name, "int64")
    return tirx.For(var, as_expr(0), as_expr(extent), kind, body(var))


def loop_over(extent: Extent, body: Callable[[PrimExpr], list[Stmt]], kind: int = _KIND.SERIAL) -> list[Stmt]:
    """Build a loop from 0 around several statements; return just these where it runs once, or none."""
    if isinstance(extent, int) and extent <= 1:
        return body(as_expr(0)) if extent else []
    return [loop("i", extent, lambda index: sequence(body(index)), kind)]


def parallel_loop(name: str, extent: Extent, body: Callable[[PrimExpr], Stmt], *, wanted: bool) -> Stmt:
    """Build a loop, one that threads share if that is ``wanted``."""
    return loop(name, extent, body, _KIND.PARALLEL if wanted else _KIND.SERIAL)


def vector_loop(lanes: int, body: Callable[[PrimExpr], Stmt]) -> Stmt:
    """Build a vectorized loop."""
    return loop("lane", lanes, body, _KIND.VECTORIZED if lanes > 1 else _KIND.SERIAL)


def ramp(start: Index, lanes: int) -> PrimExpr:
    """Return the vector of consecutive indices from ``start`` on."""
    return tirx.Ramp(as_expr(start), as_expr(1), lanes) if lanes > 1 else as_expr(start)


def broadcast(value: PrimExpr, lanes: int) -> PrimExpr:
    """Return a vector with the value in every lane."""
    return tirx.Broadcast(value, lanes) if lanes > 1 else value


def load(buffer: Buffer, start: Index, lanes: int, dtype: str) -> PrimExpr:
    """Load elements of a flat buffer as a vector of a dtype."""
    vector = tirx.BufferLoad(buffer, [ramp(start, lanes)])
    return vector if dtype_of(buffer) == dtype else tirx.Cast(vector_type(dtype, lanes), vector)


def store(buffer: Buffer, start: Index, lanes: int, value: PrimExpr) -> Stmt:
    """Store a vector into a flat buffer."""
    return tirx.BufferStore(buffer, value, [ramp(start, lanes)])


def local_array(size: int, dtype: str, name: str, alignment: int | None = None) -> Buffer:
    """Declare a small array of the innermost loops, which LLVM keeps in registers."""
    aligned = {} if alignment is None else {"data_alignment": alignment}
    return tirx.decl_buffer((size,), dtype, name, scope="local", layout=_row_layout(size), **aligned)


@cache
def _row_layout(size: int) -> Any:
    """Return the layout that TVM gives to arrays of one dimension; making it takes longer than the array."""
    return TileLayout(S[size,])


def vector_type(dtype: str, lanes: int) -> str:
    """Return the name of the type of vectors."""
    return f"{dtype}x{lanes}" if lanes > 1 else dtype


def flat_view(buffer: Buffer) -> tuple[Buffer, Stmt]:
    """Return a view of a compact buffer as one dimension, and the statement that declares it."""
    dtype = dtype_of(buffer)
    view = tirx.decl_buffer(
        (product(buffer.ty.shape),), dtype, f"{buffer.name}_flat", data_alignment=item_bytes(dtype)
    )
    return view, tirx.DeclBuffer(view, data=buffer.data)


def unlikely(condition: PrimExpr) -> PrimExpr:
    """Return a condition that LLVM takes to hold nearly never."""
    return tirx.call_llvm_pure_intrin("bool", "llvm.expect", condition, tirx.const(0, "bool"))


def likely(condition: PrimExpr) -> PrimExpr:
    """Return a condition that LLVM takes to hold nearly always."""
    return tirx.call_llvm_pure_intrin("bool", "llvm.expect", condition, tirx.const(1, "bool"))


def words_at(name: str) -> Buffer:
    """Declare an array of 8-byte words of any length."""
    return tirx.decl_buffer((1 << 40,), "int64", name, data_alignment=8)


def as_pointer(address: PrimExpr) -> PrimExpr:
    """Return an address as a pointer."""
    return tirx.reinterpret("handle", address)
