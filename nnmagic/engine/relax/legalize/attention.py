"""Legalize attention: one kernel where the sizes clearly agree and it is faster, else what was written."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import tvm
from tvm import relax, tirx

from nnmagic.engine.relax.analysis.attention import ATTENTION, CAUSAL
from nnmagic.engine.relax.legalize.attention_loops import Attention, ScoreOperand, ScoreStep
from nnmagic.engine.relax.legalize.extern_loops import independent_kernel
from nnmagic.engine.relax.legalize.registry import OPAQUE, RULES, OpCall, Value, shape_of, tensor_dtype
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.schedules.machine_model import cpu_model
from nnmagic.engine.relax.schedules.matmul.microkernels import Matrix
from nnmagic.engine.relax.tir import builders
from nnmagic.engine.relax.tir.builders import are_equal
from nnmagic.engine.relax.tir.types import Buffer, Extent, PrimExpr, Stmt

#: The queries and the scores from which on one kernel is faster: queries fill a vector, and scores no longer
#: stay in the second cache. Measured on a Zen core, with one thread and with two.
_LEAST_QUERIES, _LEAST_SCORES = 16, 1 << 18


def _attention(call: OpCall) -> Value:
    unfused, query, key, value, scores, *operands = call.args
    transposed, steps = _attributes(call)
    if not _sizes_agree(call):
        return unfused
    batch, rows, keys, depth, width = _sizes(
        [shape_of(operand) for operand in (query, key, value)], transposed, shape_of(unfused)
    )
    if (
        _is_less(rows, _LEAST_QUERIES)
        or _is_less(batch * rows * keys, _LEAST_SCORES)
        or 0 in (keys, depth, width)
        or tvm.target.Target.current().kind.name != "llvm"
    ):
        return unfused
    dtype = tensor_dtype(query)
    machine = cpu_model(tvm.target.Target.current())
    arrays = [operand for operand in operands if not _is_number(operand)]

    def compute(result: Sequence[Extent], common: Sequence[Extent], *tensors: Tensor) -> Tensor:
        shapes = [list(map(builders.as_index, tensor.shape)) for tensor in tensors]

        def emit(*buffers: Buffer) -> Stmt:
            views = list(map(_view, buffers))
            *sources, target = [view for view, _ in views]
            query, key, value = map(_matrices, sources[:3], shapes[:3], transposed)
            left = map(partial(_operand, common), sources[3:], shapes[3:])
            numbers = [_number(operand) if _is_number(operand) else next(left) for operand in operands]
            attention = Attention(
                *_sizes(shapes[:3], transposed, result),
                dtype=dtype,
                query=query,
                key=key,
                value=value,
                steps=[_step(step, numbers, dtype) for step in steps],
                result=target,
                causal=bool(steps) and steps[-1].operator == CAUSAL and steps[-1].constant == -math.inf,
            )
            return builders.sequence([*(declaration for _, declaration in views), attention.loops(machine)])

        return independent_kernel(emit, [(result, dtype)], tensors, "attention")

    dims = tuple(shape_of(unfused)), tuple(shape_of(scores))
    return call.te(compute, *dims, query, key, value, *arrays, primfunc_attrs={"op_pattern": OPAQUE})


class _StepAttribute(NamedTuple):
    """A step as the attribute "steps" has it."""

    operator: str
    operand: int
    constant: float


def _attributes(call: OpCall) -> tuple[tuple[bool, bool, bool], list[_StepAttribute]]:
    transposed, steps = call.attrs["transposed"], call.attrs["steps"]
    assert isinstance(transposed, tuple)
    assert isinstance(steps, tuple)
    return transposed, [_StepAttribute(*step) for step in steps]


def _is_number(value: Value) -> bool:
    """Return whether an operand is a constant of one element."""
    return not isinstance(value, relax.Var) and not shape_of(value)


def _number(value: Value) -> float:
    return float(value.value.numpy())


def _sizes(
    shapes: Sequence[Sequence[Extent]], transposed: Sequence[bool], result: Sequence[Extent]
) -> tuple[Extent, Extent, Extent, Extent, Extent]:
    """Return the sizes: batch, queries, keys, elements of a query and of a value."""
    query, _, value = map(_shape_in_product, shapes, transposed)
    batch = builders.product(result[:-2])
    return batch, *map(builders.as_index, (query[-2], value[-2], query[-1], value[-1]))


def _shape_in_product(shape: Sequence[Extent], is_transposed: bool) -> list[Extent]:
    """Return the shape of an operand as the product uses it."""
    *batch, rows, columns = shape
    return [*batch, columns, rows] if is_transposed else [*batch, rows, columns]


def _sizes_agree(call: OpCall) -> bool:
    """Return whether the sizes clearly fit together as an attention's."""
    result, query, key, value, scores, *operands = call.args
    transposed, steps = _attributes(call)
    shapes = list(map(_shape_in_product, map(shape_of, (query, key, value)), transposed))
    q, k, v = shapes
    out, view = shape_of(result), shape_of(scores)
    pairs = [(q[-1], k[-2]), (k[-1], v[-2]), (out[-2], q[-2]), (out[-1], v[-1]), (view[-1], v[-2])]
    if any(step.operator == CAUSAL for step in steps) or any(shape_of(operand) for operand in operands):
        if len(view) < 2:
            return False
        pairs += [(view[-2], q[-2]), (builders.product(view[:-2]), builders.product(out[:-2]))]
    return (
        all(are_equal(lhs, rhs) for lhs, rhs in pairs)
        and all(len(shape) == len(out) and _broadcasts(shape[:-2], out[:-2]) for shape in shapes)
        and all(_broadcasts(shape_of(operand), view) for operand in operands)
    )


def _broadcasts(shape: Sequence[Extent], common: Sequence[Extent]) -> bool:
    """Return whether a shape clearly broadcasts to another one."""
    if len(shape) > len(common):
        return False
    pairs = zip(reversed(shape), reversed(common), strict=False)
    return all(builders.static_int(own) == 1 or are_equal(own, dim) for own, dim in pairs)


def _is_less(size: Extent, limit: int) -> bool:
    number = builders.static_int(size)
    return number is not None and number < limit


def _view(buffer: Buffer) -> tuple[Buffer, Stmt]:
    """Return a flat view of a buffer, of a buffer of bools as bytes, and the statement that declares it."""
    dtype = builders.dtype_of(buffer)
    if dtype != "bool":
        return builders.flat_view(buffer)
    view = tirx.decl_buffer(
        (builders.product(buffer.ty.shape),), "uint8", f"{buffer.name}_bytes", data_alignment=1
    )
    return view, tirx.DeclBuffer(view, data=buffer.data)


def _matrices(buffer: Buffer, shape: Sequence[Extent], is_transposed: bool) -> Callable[[PrimExpr], Matrix]:
    """Return the function from an index of the batch to its matrix; one matrix may be that of all."""
    row, column = (1, shape[-1]) if is_transposed else (shape[-1], 1)
    is_one = builders.static_int(builders.product(shape[:-2])) == 1
    size = shape[-2] * shape[-1]
    return lambda batch: Matrix(buffer, builders.as_expr(0) if is_one else batch * size, row, column)


def _operand(common: Sequence[Extent], buffer: Buffer, shape: Sequence[Extent]) -> ScoreOperand:
    """Return an operand of the scores, broadcast to their shape."""
    sizes = [1] * (len(common) - len(shape)) + list(shape)
    strides = [
        0 if builders.static_int(size) == 1 else builders.product(sizes[axis + 1 :])
        for axis, size in enumerate(sizes)
    ]
    *batch_strides, row, column = [0, 0, *strides][-max(2, len(strides)) :]

    def matrix(batch: PrimExpr) -> Matrix:
        base: PrimExpr = builders.as_expr(0)
        for axis, stride in reversed(list(enumerate(batch_strides))):
            dim = builders.as_expr(builders.as_index(common[axis]))
            at = batch if axis == 0 else tirx.floormod(batch, dim)
            batch = tirx.floordiv(batch, dim)
            base = base + at * stride
        return Matrix(buffer, base, row, column)

    return ScoreOperand(matrix, per_query=builders.static_int(row) != 0)


#: The steps of arithmetic on a score and an operand.
_ARITHMETIC: dict[str, Callable[[PrimExpr, PrimExpr], PrimExpr]] = {
    "add": lambda score, operand: score + operand,
    "subtract": lambda score, operand: score - operand,
    "multiply": lambda score, operand: score * operand,
    "divide": lambda score, operand: score / operand,
}


def _step(step: _StepAttribute, operands: Sequence[ScoreOperand | float], dtype: str) -> ScoreStep:
    chosen, zero = tirx.const(step.constant, dtype), tirx.const(0, dtype)
    if step.operator == CAUSAL:
        return ScoreStep(lambda score, _, row, column: tirx.Select(column <= row, score, chosen))
    operand = operands[step.operand]
    if isinstance(operand, float):
        compute, number = _ARITHMETIC[step.operator], tirx.const(operand, dtype)
        return ScoreStep(lambda score, *_: compute(score, number))
    if step.operator == "where":
        return ScoreStep(lambda score, mask, *_: tirx.Select(mask != zero, score, chosen), operand)
    if step.operator == "where not":
        return ScoreStep(lambda score, mask, *_: tirx.Select(mask != zero, chosen, score), operand)
    compute = _ARITHMETIC[step.operator]
    return ScoreStep(lambda score, other, *_: compute(score, other), operand)


RULES[ATTENTION] = _attention
