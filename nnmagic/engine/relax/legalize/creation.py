"""Legalize operators that create tensors: zeros, ones, full, arange, one_hot, and the shape of a tensor."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax, te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Rule, Value, shape_of, tensor_dtype
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.runtime.tensors import as_array
from nnmagic.engine.relax.tir.types import Extent, Index, PrimExpr


def _dtype(call: OpCall) -> str:
    return str(call.attrs["dtype"])


def _shape(call: OpCall) -> list[Extent]:
    shape = call.attrs["shape"]
    assert isinstance(shape, tuple)
    return call.lower_dims(shape)


def _fill_rule(value: int) -> Rule:
    return lambda call: relax.op.full(_shape(call), relax.const(value, _dtype(call)), _dtype(call))


def _fill_like_rule(value: int) -> Rule:
    def rule(call: OpCall) -> Value:
        (data, *_) = call.args
        dtype, shape = tensor_dtype(data), shape_of(data)
        if all(isinstance(dim, int) for dim in shape):
            return relax.op.full(shape, relax.const(value, dtype), dtype)
        number = tirx.const(value, dtype)
        return call.te(lambda x: te.compute(x.shape, lambda *_index: number), data)

    return rule


def _full(call: OpCall) -> Value:
    (value,) = call.args
    return _fill(call, value, _shape(call), _dtype(call) or tensor_dtype(value))


def _full_like(call: OpCall) -> Value:
    data, value = call.args
    return _fill(call, value, shape_of(data), tensor_dtype(data))


def _fill(call: OpCall, value: Value, shape: list[Extent], dtype: str) -> Value:
    return call.te(
        lambda x, dims: te.compute(dims, lambda *_index: x().astype(dtype)), value, relax.ShapeExpr(shape)
    )


def arange(call: OpCall) -> Value:
    """Lower ``arange`` where start, stop and step are constants."""
    start, stop, step = (as_array(arg.value).item() for arg in call.args)
    dtype = _dtype(call)
    if step == 0:
        call.refuse("the step must not be 0")
    length = max(0, -int((start - stop) // step))

    def element(index: Index) -> PrimExpr:
        return tirx.const(start, dtype) + index.astype(dtype) * tirx.const(step, dtype)

    return call.te(lambda: te.compute((length,), element))


def _shape_of(call: OpCall) -> Value:
    (data,) = call.args
    dtype = _dtype(call)

    def compute(dims: Sequence[Extent]) -> Tensor:
        def element(index: Index) -> PrimExpr:
            value: PrimExpr = tirx.const(0, "int64")
            for axis, dim in enumerate(dims):
                value = tirx.Select(index == axis, tirx.convert(dim).astype("int64"), value)
            return value.astype(dtype)

        return te.compute((len(dims),), element)

    return call.te(compute, relax.ShapeExpr(shape_of(data)))


def _size(call: OpCall) -> Value:
    (data,) = call.args
    dtype = _dtype(call)

    def compute(dims: Sequence[Extent]) -> Tensor:
        number: PrimExpr = tirx.const(1, "int64")
        for dim in dims:
            number = number * dim
        return te.compute((), lambda: number.astype(dtype))

    return call.te(compute, relax.ShapeExpr(shape_of(data)))


def one_hot(call: OpCall, depth: Extent) -> Value:
    """Lower to rows of so many elements: the second operand at the index, the third one elsewhere."""
    indices, on, off, *_ = call.args
    dtype, own = str(call.attrs["dtype"]), shape_of(indices)
    axis = integer(call.attrs["axis"]) % (len(own) + 1)

    def compute(x: Tensor, hot: Tensor, cold: Tensor, shape: Sequence[Extent]) -> Tensor:
        def element(*at: Index) -> PrimExpr:
            is_hot = x(*at[:axis], *at[axis + 1 :]).astype("int64") == at[axis].astype("int64")
            return tirx.Select(is_hot, hot().astype(dtype), cold().astype(dtype))

        return te.compute(shape, element)

    return call.te(compute, indices, on, off, relax.ShapeExpr([*own[:axis], depth, *own[axis:]]))


RULES.update(
    {
        "zeros": _fill_rule(0),
        "ones": _fill_rule(1),
        "full": _full,
        "zeros_like": _fill_like_rule(0),
        "ones_like": _fill_like_rule(1),
        "full_like": _full_like,
        "shape_of": _shape_of,
        "ndarray_size": _size,
        "one_hot": lambda call: one_hot(call, integer(call.attrs["depth"])),
        "trilu": lambda call: call.te(
            lambda data, k: topi.trilu(data, k(), bool(call.attrs["upper"])), *call.args
        ),
    }
)
