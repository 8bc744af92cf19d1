"""Read arrays, sizes and bindings of Relax functions for the planner."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import tvm
import tvm_ffi
from tvm import ir, relax, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.in_place import InPlacePlan
from nnmagic.engine.relax.legalize.kernel_cache import IS_RESHAPE, has_reshape_order
from nnmagic.engine.relax.lowering.module import CALL_DEPTH
from nnmagic.engine.relax.schedules.kernel_analysis import substitute
from nnmagic.engine.relax.tir.builders import as_expr
from nnmagic.engine.relax.tir.types import Extent, PrimExpr, PrimFunc, RelaxExpr, Var
from nnmagic.relay.structure.tuple_trees import flatten

ANALYZER = tvm.sym.Analyzer()

#: What a Relax expression is while it is planned: a value, a tuple of them, or a shape.
Planned: TypeAlias = Any


class UnsupportedError(Exception):
    """A part of a program cannot be native."""


@dataclass(frozen=True, slots=True)
class PlannedShape:
    """A shape that is a value of its own."""

    sizes: tuple[PrimExpr, ...]


def forwarding_position(
    bindings: Sequence[RelaxExpr], result: RelaxExpr, function: ir.GlobalVar | None
) -> int | None:
    """Return the position of a branch, or call of the function itself, whose value is the result as it is."""
    last = len(bindings) - 1
    while last >= 0 and isinstance(bindings[last].value, relax.TupleGetItem | relax.Tuple | relax.Var):
        last -= 1
    if last < 0 or not isinstance(bindings[last], relax.VarBinding):
        return None
    value = bindings[last].value
    recursive = isinstance(value, ir.Call) and function is not None and value.op == function
    if not isinstance(value, relax.If) and not recursive:
        return None
    type_ = bindings[last].var.ty
    count = len(type_.fields) if isinstance(type_, relax.TupleType) else 1
    marks = [object() for _ in range(count)]
    values: dict[RelaxExpr, Planned] = {
        bindings[last].var: tuple(marks) if isinstance(type_, relax.TupleType) else marks[0]
    }
    for binding in bindings[last + 1 :]:
        values[binding.var] = evaluate(binding.value, values)
    # The bindings after the call may rename and take apart, but the fields must come out in their
    # order: `(b, a)` of a call is no tail call.
    return last if list(flatten(evaluate(result, values))) == marks else None


def evaluate(
    expr: RelaxExpr, values: dict[RelaxExpr, Planned], leaf: Callable[[RelaxExpr], Planned] | None = None
) -> Planned:
    """Return the value of an expression that computes nothing."""
    match expr:
        case relax.Tuple(fields=fields):
            inner = leaf or (lambda field: evaluate(field, values))
            return tuple(inner(field) for field in fields)
        case relax.TupleGetItem(tuple_value=whole, index=index):
            value = (leaf or (lambda field: evaluate(field, values)))(whole)
            if isinstance(value, tuple):
                return value[int(index)]
        case relax.Var() if expr in values:
            return values[expr]
        case relax.Var():
            return None
    if leaf is None:
        return None
    raise UnsupportedError


def passed_sizes(param: RelaxExpr) -> list[Var]:
    """Return the sizes that a parameter is there for, but for the depth of calls, which functions count."""
    if not isinstance(param.ty, relax.ShapeType):
        return []
    dims = [dim for dim in param.ty.values or () if isinstance(dim, tirx.Var)]
    return [dim for dim in dims if dim.name != CALL_DEPTH]


def array_numbers(function: relax.Function, plan: InPlacePlan) -> dict[int, int]:
    """Return the results that are changed parameters, with their numbers among those that are no shapes."""
    numbers = [
        number for number, param in enumerate(function.params) if not isinstance(param.ty, relax.ShapeType)
    ]
    return {result: numbers.index(number) for result, number in plan.returned.items()}


def bindings_of(sequence: RelaxExpr) -> list[RelaxExpr]:
    """Return the bindings of a sequence, in order."""
    if not isinstance(sequence, relax.SeqExpr):
        raise UnsupportedError
    return [binding for block in sequence.blocks for binding in block.bindings]


def fields_of(type_: ir.Type) -> list[ir.Type]:
    """Return the fields of a tuple's type, or the type."""
    return list(type_.fields) if isinstance(type_, relax.TupleType) else [type_]


def array_of_type(type_: ir.Type) -> aot.Array:
    """Return the array of a tensor's type."""
    if not has_shape(type_):
        raise UnsupportedError
    return aot.Array(str(type_.dtype.dtype), tuple(map(aot.static_or_expr, type_.shape.values)))


def is_of(size: Extent, dims: Container[Var]) -> bool:
    """Return whether a size is an expression of some dimensions."""
    if isinstance(size, int):
        return True
    return all(var in dims for var in tirx.analysis.undefined_vars(tirx.Evaluate(size)))


def has_shape(type_: ir.Type) -> bool:
    """Return whether a type is one of a tensor with a shape."""
    return isinstance(type_, relax.TensorType) and isinstance(type_.shape, relax.ShapeExpr)


def count_elements(array: aot.Array) -> Extent:
    """Return the number of elements of an array."""
    return math.prod(array.shape)


def static_or_key(size: Extent) -> object:
    """Return a size, or a key that is equal for equal expressions."""
    return size if isinstance(size, int) else tvm_ffi.StructuralKey(size)


def is_reshape(kernel: PrimFunc, arrays: Sequence[aot.Array]) -> bool:
    """Return whether a kernel of sizes that only a call knows copies its array as it lies in memory."""
    static = all(isinstance(dim, int) for array in arrays for dim in array.shape)
    sized = [array for array in arrays if array.shape]
    if static or len(sized) != 2:
        return False
    if IS_RESHAPE in kernel.attrs:
        return True
    if not has_reshape_order(kernel):
        return False
    before, after = (as_expr(count_elements(array)) for array in sized)
    return bool(ANALYZER.can_prove_equal(before, after))  # what writes no elements has any pattern


def match_dims(declared: Sequence[aot.Array], given: Sequence[aot.Array]) -> dict[Var, PrimExpr]:
    """Return the sizes of the dimensions that arrays declare."""
    sizes: dict[Var, PrimExpr] = {}
    for own, array in zip(declared, given, strict=True):
        for dim, size in zip(own.shape, array.shape, strict=True):
            if isinstance(dim, tirx.Var):
                sizes.setdefault(dim, as_expr(size))
    return sizes


def with_sizes(array: aot.Array, sizes: dict[Var, PrimExpr]) -> aot.Array:
    """Return an array with what its sizes stand for."""
    shape = (dim if isinstance(dim, int) else substitute(dim, sizes) for dim in array.shape)
    return aot.Array(
        array.dtype, tuple(aot.static_or_expr(dim) if not isinstance(dim, int) else dim for dim in shape)
    )


def bind_sizes(
    kernel: PrimFunc, arrays: Sequence[aot.Array], explicit: Sequence[PrimExpr]
) -> dict[Var, PrimExpr]:
    """Return the sizes that a kernel takes, from the shapes of its arrays."""
    buffers = [param for param in kernel.params if isinstance(param.ty, tirx.BufferType)]
    declared = [
        aot.Array(str(buffer.ty.dtype), tuple(map(aot.static_or_expr, buffer.ty.shape))) for buffer in buffers
    ]
    if len(declared) != len(arrays):
        raise UnsupportedError
    numbers = [param for param in kernel.params if not isinstance(param.ty, tirx.BufferType)]
    if len(numbers) != len(explicit):
        raise UnsupportedError
    sizes = dict(zip(numbers, explicit, strict=True))
    for var, size in match_dims(declared, arrays).items():
        sizes.setdefault(var, size)
    used: set[Var] = set()
    for array in declared:
        for dim in array.shape:
            if not isinstance(dim, int):
                tvm_vars = tirx.analysis.undefined_vars(tirx.Evaluate(dim))
                used.update(tvm_vars)
    if any(var not in sizes for var in used):
        raise UnsupportedError
    return sizes
