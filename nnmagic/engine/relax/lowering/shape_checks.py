"""Check that the shapes of a call's operands fit: at compile time if they are static, else at run time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tvm
from tvm import relax, tirx
from tvm.ir import StringImm

from nnmagic.engine.relax.analysis.attribute_values import integer, integers
from nnmagic.engine.relax.analysis.shape_constraints import check, is_empty, of_shapes
from nnmagic.engine.relax.analysis.tuple_flattening import leaves
from nnmagic.engine.relax.legalize.indexing import require_taken_in_range
from nnmagic.engine.relax.legalize.registry import OpCall, Value, shape_of
from nnmagic.engine.relax.legalize.sizes import same_size
from nnmagic.engine.relax.runtime.callbacks import (
    REQUIRED,
    SHAPE_TO_NAME,
    SHAPES_FIT,
    SIZES_NAMED,
    encode_check,
)
from nnmagic.engine.relax.tir.builders import as_expr
from nnmagic.engine.relax.tir.types import Extent, PrimExpr
from nnmagic.relay.ops.declaration import OPERATORS, Trait, traits_of
from nnmagic.relay.structure.tuple_trees import flatten, rebuild
from nnmagic.relay.types import TensorType, TupleType, Type


def emit_shape_check(call: OpCall) -> None:
    """Refuse operands whose shapes do not fit: at compile time if they are static, otherwise at run time."""
    types = [arg.checked_type for arg in call.node.args]
    if call.name not in OPERATORS or not all(isinstance(type_, TensorType | TupleType) for type_ in types):
        return
    shapes = [shape_of(value) for value in flatten(call.args)]
    operand_types: list[Type] = [type_ for type_ in types if type_ is not None]
    if _are_static(call.args):
        items = iter([tuple(shape) for shape in shapes])
        try:
            check(call.name, [of_shapes(type_, items) for type_ in operand_types], call.attrs)
        except ValueError as error:
            call.refuse(str(error).removeprefix(f"{call.name}: "))
    elif Trait.CHECKS_SIZES not in traits_of(call.node) and not _fits_always(call):
        key = StringImm(encode_check(call.name, operand_types, call.attrs))
        call.emit(
            relax.Call(
                relax.ExternFunc(SHAPES_FIT),
                [key, _fits(call), *map(relax.ShapeExpr, shapes)],
                ty_args=[relax.TupleType([])],
            )
        )


def move_checks_first(block: relax.BindingBlock) -> relax.BindingBlock:
    """Name and check sizes before computing anything: between kernels it would keep these from being fused.

    Nothing moves before what defines sizes by values or may fail for values.
    """
    shapes: set[relax.Var] = set()
    checks: list[relax.Binding] = []
    kernels: list[relax.Binding] = []
    ordered: list[relax.Binding] = []
    for binding in block.bindings:
        if _is_check_of_sizes(binding) or _names_sizes(binding, shapes):
            checks.append(binding)
        elif _only_computes(binding):
            kernels.append(binding)
        else:
            ordered += [*checks, *kernels, binding]
            checks, kernels = [], []
    return relax.BindingBlock([*ordered, *checks, *kernels], block.span)


def _is_check_of_sizes(binding: relax.Binding) -> bool:
    value = binding.value
    if not isinstance(value, relax.Call) or not isinstance(value.op, relax.ExternFunc):
        return False
    name = value.op.global_symbol
    return name == SHAPES_FIT or (name == REQUIRED and not isinstance(value.args[0], relax.Var))


def _names_sizes(binding: relax.Binding, shapes: set[relax.Var]) -> bool:
    """Return whether a binding makes a shape of sizes, or names it; ``shapes`` are those that were made."""
    value = binding.value
    called = value.op if isinstance(value, relax.Call) else None
    name = called.global_symbol if isinstance(called, relax.ExternFunc) else None
    if name == SIZES_NAMED:
        return value.args[0] in shapes
    if name == SHAPE_TO_NAME or (isinstance(binding, relax.MatchCast) and value in shapes):
        shapes.add(binding.var)
        return True
    return False


def _only_computes(binding: relax.Binding) -> bool:
    """Return whether a binding calls a kernel or an operator of Relax, or takes part of a tuple."""
    value = binding.value
    if isinstance(binding, relax.MatchCast):
        return False
    if isinstance(value, relax.Call):
        return isinstance(value.op, tvm.ir.Op)
    return isinstance(value, relax.TupleGetItem | relax.Tuple | relax.Var)


def _fits_always(call: OpCall) -> bool:
    """Return whether a call's shapes fit whatever its sizes are."""
    if call.name == "scatter_nd":
        data, indices, updates = map(shape_of, call.args)
        depth = indices[0]
        wanted = [*indices[1:], *data[depth:]] if isinstance(depth, int) else []
        return len(wanted) == len(updates) and all(map(same_size, wanted, updates))
    if call.name in ("dyn.strided_slice", "strided_set"):  # the rule checks the values' shape
        data, *rest = map(shape_of, call.args)
        (count, *counts) = (size for (size,) in rest[-3:])
        return isinstance(count, int) and counts == [count, count] and count <= len(data)
    if call.name == "strided_slice":  # its bounds are moved into the axis
        return call.attrs["slice_mode"] == "end"
    if call.name == "adv_index":
        _, first, *rest = map(shape_of, call.args[0])
        return all(len(shape) == len(first) and all(map(same_size, shape, first)) for shape in rest)
    if call.name == "python.window":
        return True
    return call.name == "take" and call.attrs["batch_dims"] == 0


def _fits(call: OpCall) -> PrimExpr:
    """Return a condition under which shapes certainly fit, so that nobody needs to ask."""
    never = tirx.const(0, "bool")
    shapes = [shape_of(value) for value in flatten(call.args)]
    match call.name:
        case "scatter_nd":
            data, indices, updates = shapes
            depth = indices[0]
            wanted = [*indices[1:], *data[depth:]] if isinstance(depth, int) else []
            return _all_equal(wanted, updates) if len(wanted) == len(updates) else never
        case "reshape_like":
            counts = []
            for side, shape in zip(("lhs", "rhs"), shapes, strict=True):
                end = call.attrs[f"{side}_end"]
                part = shape[integer(call.attrs[f"{side}_begin"]) : end if end is None else integer(end)]
                counts.append(math.prod(map(as_expr, part), start=as_expr(1)))
            return tirx.EQ(*counts)
        case "adv_index" if len({len(shape) for shape in shapes[1:]}) == 1:
            return tirx.all(*(_all_equal(shapes[1], shape) for shape in shapes[2:]), tirx.const(1, "bool"))
        case "python.sized":
            axes = integers(call.attrs["axes"])
            return _all_equal([shapes[0][axis] for axis in axes], shapes[1][1:])
        case "squeeze" if call.attrs["axis"] is not None:
            axes = integers(call.attrs["axis"])
            return _all_equal([shapes[0][axis] for axis in axes], [1] * len(axes))
        case "concatenate" if len({len(shape) for shape in shapes}) == 1:
            axis = integer(call.attrs["axis"]) % len(shapes[0])
            first, *rest = ([*shape[:axis], *shape[axis + 1 :]] for shape in shapes)
            return tirx.all(*(_all_equal(first, shape) for shape in rest), tirx.const(1, "bool"))
        case "broadcast_to_like" | "variance":
            actual, like = shapes if call.name == "broadcast_to_like" else reversed(shapes)
            pairs = zip(actual, like[len(like) - len(actual) :], strict=True)
            fits = [tirx.Or(as_expr(dim) == size, as_expr(dim) == 1) for dim, size in pairs]
            return tirx.all(*fits, tirx.const(1, "bool")) if len(actual) <= len(like) else never
    return never


def _all_equal(lhs: Sequence[Extent], rhs: Sequence[Extent]) -> PrimExpr:
    pairs = [as_expr(a) == b for a, b in zip(lhs, rhs, strict=True)]
    return tirx.all(*pairs) if pairs else tirx.const(1, "bool")


def _are_static(values: Sequence[Value]) -> bool:
    return all(isinstance(dim, int) for value in flatten(tuple(values)) for dim in shape_of(value))


def empty_result(call: OpCall) -> Value | None:
    """Return the result of a call if its type says that it has no elements, else None."""
    type_ = call.node.checked_type
    if not isinstance(type_, TensorType | TupleType):
        return None
    if call.name in ("scatter_nd", "strided_set", "topk") or (
        Trait.CHECKS_SIZES in traits_of(call.node) and not _are_static(call.args)
    ):
        return None  # the rule has something to check
    tensors = list(leaves(type_, call.node.span))
    if not tensors or not all(is_empty(tensor.shape) for tensor in tensors):
        return None
    if not all(isinstance(dim, int) for tensor in tensors for dim in tensor.shape):
        return None
    if call.name == "take" and call.attrs["mode"] == "fast":
        require_taken_in_range(call)
    zeros = (
        call.emit(relax.op.full(list(tensor.shape), relax.const(0, tensor.dtype), tensor.dtype))
        for tensor in tensors
    )
    return rebuild(type_, zeros)
