"""Represent tensors whose channels are in blocks of one vector, and legalize operators that keep them so.

A convolution returns such a tensor, and it stays blocked as long as these operators follow. Other operators,
branches, calls and results take the dense form, which ``lowering`` computes once. The last block may have
lanes beyond the channels; their contents are never read as a channel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import tvm
from tvm import relax, te, tirx
from tvm_ffi import structural_equal

from nnmagic.engine.relax.analysis.attribute_values import integer, number
from nnmagic.engine.relax.legalize.registry import (
    BLOCKED_RULES,
    OPAQUE,
    RULES,
    OpCall,
    Rule,
    Value,
    shape_of,
    tensor_dtype,
)
from nnmagic.engine.relax.legalize.types import RelaxType, Tensor
from nnmagic.engine.relax.runtime.tensors import as_array, as_tensor
from nnmagic.engine.relax.schedules import cpu_model
from nnmagic.engine.relax.schedules.registry import KIND
from nnmagic.engine.relax.tir.types import Extent, Index, PrimExpr, RelaxExpr


@dataclass(frozen=True, slots=True, eq=False)
class Blocked:
    """data: [n, block, other axes, lane]. shape, axis: the shape and the channel axis of the dense tensor.

    The channels are static; the other dimensions may be dynamic.
    """

    data: RelaxExpr
    shape: tuple[Extent, ...]
    axis: int

    @property
    def ty(self) -> RelaxType:
        """The type of the dense tensor."""
        return relax.TensorType(self.shape, tensor_dtype(self.data))

    @property
    def lanes(self) -> int:
        """The number of channels in a block."""
        return int(shape_of(self.data)[-1])

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return int(shape_of(self.data)[1])

    def to_dense_layout(self, builder: relax.BlockBuilder) -> RelaxExpr:
        """Emit the conversion to the dense layout, and return its variable."""

        def compute(data: Tensor) -> Tensor:
            def element(*index: Index) -> PrimExpr:
                n, *spatial = index
                c = spatial.pop(self.axis - 1)
                return data(n, c // self.lanes, *spatial, c % self.lanes)

            shape = [data.shape[0], *data.shape[2:-1]]  # dynamic sizes have other variables in the kernel
            shape.insert(self.axis, self.shape[self.axis])
            return te.compute(shape, element, name="unblocked", attrs={KIND: "from_blocks"})

        return builder.emit_te(
            compute, self.data, primfunc_name_hint="unblocked", primfunc_attrs={"op_pattern": OPAQUE}
        )

    def with_data(self, data: Tensor) -> Blocked:
        """Return a blocked tensor of the same shape with other data."""
        return Blocked(data, self.shape, self.axis)


def are_equal(lhs: Sequence[Extent], rhs: Sequence[Extent]) -> bool:
    """Return whether two shapes are the same at compile time."""
    return len(lhs) == len(rhs) and all(
        a == b if isinstance(a, int) or isinstance(b, int) else structural_equal(a, b)
        for a, b in zip(lhs, rhs, strict=True)
    )


def lanes_for(dtype: str) -> int | None:
    """Return the number of channels in a block on the target, or None if nothing is to be blocked."""
    target = tvm.target.Target.current(allow_none=True)
    if target is None or int(target.attrs.get("opt-level", 0)) == 0 or dtype not in ("float32", "float64"):
        return None
    return cpu_model(target).lanes(dtype)


def to_blocked_layout(call: OpCall, value: Value, axis: int) -> Blocked:
    """Emit the conversion of a dense tensor to blocks."""
    shape = shape_of(value)
    lanes = lanes_for(tensor_dtype(value))
    assert lanes is not None
    channels = shape[axis]

    def compute(data: Tensor) -> Tensor:
        others = [dim for i, dim in enumerate(data.shape) if i not in (0, axis)]

        def element(n: Index, block: Index, *rest: Index) -> PrimExpr:
            *outer, lane = rest
            c = block * lanes + lane
            index = [n, *outer]
            index.insert(axis, c)
            zero = tirx.const(0, data.dtype)
            return (
                data(*index) if channels % lanes == 0 else tirx.if_then_else(c < channels, data(*index), zero)
            )

        return te.compute(
            (data.shape[0], -(-channels // lanes), *others, lanes),
            element,
            name="blocked",
            attrs={KIND: "to_blocks"},
        )

    return Blocked(emit_layout_kernel(call, compute, value), tuple(shape), axis)


def emit_layout_kernel(call: OpCall, compute: Callable[[Tensor], Tensor], value: Value) -> Value:
    """Emit a kernel of its own that computes a tensor in another layout."""
    return call.builder.emit_te(
        compute, value, primfunc_name_hint="blocked", primfunc_attrs={"op_pattern": OPAQUE}
    )


def constant_array(value: Value) -> np.ndarray | None:
    """Return the array of a constant, or None of a computed value."""
    return as_array(value.value) if isinstance(value, tvm.ir.GenericConst) else None


def channel_vector(call: OpCall, value: Value, like: Blocked) -> Value:
    """Return a vector over the channels as ``[block, 1, ..., lane]``, which broadcasts to blocked data."""
    lanes, blocks, channels = like.lanes, like.blocks, like.shape[like.axis]
    shape = [blocks, *[1] * (len(like.shape) - 2), lanes]
    constant = constant_array(value)
    if constant is not None:
        padded = np.zeros(blocks * lanes, constant.dtype)
        padded[:channels] = constant.reshape(-1)
        return relax.const(as_tensor(padded.reshape(shape)))
    flat = value if shape_of(value) == [channels] else call.emit(relax.op.reshape(value, [channels]))

    def compute(data: Tensor) -> Tensor:
        def element(block: Index, *rest: Index) -> PrimExpr:
            c = block * lanes + rest[-1]
            return tirx.if_then_else(c < channels, data(c), tirx.const(0, data.dtype))

        return te.compute(shape, element, name="vector")

    return call.builder.emit_te(compute, flat, primfunc_name_hint="vector")


def _as_operand(call: OpCall, value: Value, like: Blocked) -> Value | None:
    """Return an operand in a form that broadcasts to blocked data, or None if it has none."""
    if isinstance(value, Blocked):
        same = are_equal(value.shape, like.shape) and value.axis == like.axis and value.lanes == like.lanes
        return value.data if same else None
    shape = shape_of(value)
    if are_equal(shape, like.shape) and lanes_for(tensor_dtype(value)) == like.lanes:
        return to_blocked_layout(call, value, like.axis).data
    if not all(isinstance(dim, int) for dim in shape) or len(shape) > len(like.shape):
        return None
    if not shape:
        return value
    sizes = [1] * (len(like.shape) - len(shape)) + shape
    if all(dim == 1 for dim in sizes):
        constant = constant_array(value)
        if constant is not None:
            return relax.const(as_tensor(np.ascontiguousarray(constant.reshape(()))))
        return call.emit(relax.op.reshape(value, []))
    if all(dim == (like.shape[i] if i == like.axis else 1) for i, dim in enumerate(sizes)):
        return channel_vector(call, value, like)
    return None


def _elementwise_rule(name: str) -> Rule:
    """Apply the rule of an element-wise operator to the blocked data."""

    def rule(call: OpCall) -> Value | None:
        blocked = [arg for arg in call.args if isinstance(arg, Blocked)]
        if not blocked:
            return None
        like = max(blocked, key=lambda arg: len(arg.shape))
        operands = []
        for arg in call.args:
            operand = _as_operand(call, arg, like)
            if operand is None:
                return None
            operands.append(operand)
        lowered = RULES[name](replace(call, args=tuple(operands)))
        return like.with_data(lowered if isinstance(lowered, relax.Var) else call.emit(lowered))

    return rule


def _bias_add(call: OpCall) -> Value | None:
    data, bias = call.args
    if not isinstance(data, Blocked) or integer(call.attrs["axis"]) % len(data.shape) != data.axis:
        return None
    if shape_of(bias) != [data.shape[data.axis]]:
        return None
    return data.with_data(
        call.emit(RULES["add"](replace(call, args=(data.data, channel_vector(call, bias, data)))))
    )


def _batch_norm(call: OpCall) -> Value | None:
    """Compute ``(x - mean) * scale + shift``, with the scale of each channel computed once."""
    data, gamma, beta, mean, variance = call.args
    attrs = call.attrs
    if not isinstance(data, Blocked) or integer(attrs["axis"]) % len(data.shape) != data.axis:
        return None
    epsilon = number(attrs["epsilon"])

    def factor(g: Tensor, v: Tensor) -> Tensor:
        root = te.compute(v.shape, lambda c: tirx.sqrt(v(c) + tirx.const(epsilon, v.dtype)))
        one = tirx.const(1, v.dtype)
        return te.compute(v.shape, lambda c: (g(c) if attrs["scale"] else one) / root(c))

    constants = [constant_array(value) for value in (gamma, variance)]
    if constants[0] is not None and constants[1] is not None:
        with np.errstate(all="ignore"):
            root = np.sqrt(constants[1] + constants[1].dtype.type(epsilon))
            scale = relax.const(as_tensor((constants[0] if attrs["scale"] else np.ones_like(root)) / root))
    else:
        scale = call.builder.emit_te(factor, gamma, variance, primfunc_name_hint="scale")
    vectors = [
        channel_vector(call, value, data) for value in (mean, scale, *([beta] if attrs["center"] else []))
    ]

    def compute(x: Tensor, center: Tensor, by: Tensor, *shift: Tensor) -> Tensor:
        def element(n: Index, block: Index, *index: Index) -> PrimExpr:
            at = (block, *[0] * (len(index) - 1), index[-1])
            value = (x(n, block, *index) - center(*at)) * by(*at)
            return value + shift[0](*at) if shift else value

        return te.compute(x.shape, element, name="normalized")

    return (data.with_data(call.emit(call.te(compute, data.data, *vectors))), mean, variance)


def _dropout(call: OpCall) -> Value | None:
    """Return the data, which stays blocked, and a mask of ones."""
    (data,) = call.args
    if not isinstance(data, Blocked):
        return None
    dtype = tensor_dtype(data)
    return (data, call.emit(relax.op.full(list(data.shape), relax.const(1, dtype), dtype)))


def _concatenate(call: OpCall) -> Value | None:
    """Concatenate along the channels if all but the last tensor have whole blocks."""
    (tensors,) = call.args
    first = tensors[0]
    if not all(isinstance(tensor, Blocked) for tensor in tensors):
        return None
    if integer(call.attrs["axis"]) % len(first.shape) != first.axis:
        return None
    if any((tensor.axis, tensor.lanes) != (first.axis, first.lanes) for tensor in tensors):
        return None
    if any(tensor.shape[tensor.axis] % tensor.lanes for tensor in tensors[:-1]):
        return None
    shape = list(first.shape)
    shape[first.axis] = sum(tensor.shape[first.axis] for tensor in tensors)
    data = call.emit(relax.op.concat([tensor.data for tensor in tensors], axis=1))
    return Blocked(data, tuple(shape), first.axis)


BLOCKED_RULES.update(
    {
        name: _elementwise_rule(name)
        for name in [
            *("abs", "add", "atan", "clip", "copy", "cos", "divide", "erf", "exp", "fast_exp", "fast_tanh"),
            *("log", "maximum", "minimum", "multiply", "negative", "nn.leaky_relu", "nn.relu", "power"),
            *("rsqrt", "sigmoid", "sin", "sqrt", "subtract", "tanh"),
        ]
    }
    | {
        "nn.bias_add": _bias_add,
        "nn.batch_norm": _batch_norm,
        "nn.dropout": _dropout,
        "concatenate": _concatenate,
    }
)

__all__ = [
    "Blocked",
    "channel_vector",
    "constant_array",
    "emit_layout_kernel",
    "lanes_for",
    "to_blocked_layout",
]
