"""Tensors whose channels stand in blocks of one vector, and the operators that compute on them as they are.

A convolution gives such a tensor, and it stays one through what follows; another operator, a branch, a call
and the result take the plain form, which is made once (``lowering``). The last block may have lanes beyond
the channels: what is in them is never read as a channel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx

from nnmagic.engine.relax.analysis.attribute_values import integer, number
from nnmagic.engine.relax.legalize.registry import (
    BLOCKED_RULES,
    OPAQUE,
    RULES,
    OpCall,
    Rule,
    Value,
    attr_dtype,
    shape_of,
)
from nnmagic.engine.relax.runtime.tensors import as_array, as_tensor
from nnmagic.engine.relax.schedules import cpu_model
from nnmagic.engine.relax.schedules.registry import KIND


@dataclass(frozen=True, slots=True, eq=False)
class Blocked:
    """``data``: [n, block, other axes, lane]; ``shape``: of the plain tensor; ``axis``: its channels'."""

    data: Any
    shape: tuple[int, ...]
    axis: int

    @property
    def ty(self) -> Any:
        """The type of the plain tensor."""
        return relax.TensorType(self.shape, attr_dtype(self.data))

    @property
    def lanes(self) -> int:
        """The channels of a block."""
        return int(shape_of(self.data)[-1])

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return int(shape_of(self.data)[1])

    def plain(self, builder: relax.BlockBuilder) -> Any:
        """A variable with the plain tensor."""

        def compute(data: Any) -> Any:
            def element(*index: Any) -> Any:
                n, *rest = index
                c = rest.pop(self.axis - 1)
                return data(n, c // self.lanes, *rest, c % self.lanes)

            return te.compute(self.shape, element, name="unblocked", attrs={KIND: "from_blocks"})

        return builder.emit_te(
            compute, self.data, primfunc_name_hint="unblocked", primfunc_attrs={"op_pattern": OPAQUE}
        )

    def like(self, data: Any) -> Blocked:
        """Another tensor of the same shape."""
        return Blocked(data, self.shape, self.axis)


def lanes_of(dtype: str) -> int | None:
    """The channels of a block on the machine that is compiled for; None where nothing is to be blocked."""
    target = tvm.target.Target.current(allow_none=True)
    if target is None or int(target.attrs.get("opt-level", 0)) == 0 or dtype not in ("float32", "float64"):
        return None
    return cpu_model(target).lanes(dtype)


def blocked(site: OpCall, value: Value, axis: int) -> Blocked:
    """A plain tensor with its channels in blocks."""
    shape = shape_of(value)
    lanes = lanes_of(attr_dtype(value))
    assert lanes is not None
    channels = shape[axis]
    others = [dim for at, dim in enumerate(shape) if at not in (0, axis)]

    def compute(data: Any) -> Any:
        def element(n: Any, block: Any, *rest: Any) -> Any:
            *places, lane = rest
            c = block * lanes + lane
            index = [n, *places]
            index.insert(axis, c)
            zero = tirx.const(0, data.dtype)
            return (
                data(*index) if channels % lanes == 0 else tirx.if_then_else(c < channels, data(*index), zero)
            )

        return te.compute(
            (shape[0], -(-channels // lanes), *others, lanes),
            element,
            name="blocked",
            attrs={KIND: "to_blocks"},
        )

    return Blocked(moved(site, compute, value), tuple(shape), axis)


def moved(site: OpCall, compute: Callable[[Any], Any], value: Value) -> Value:
    """A tensor in another layout: a kernel of its own."""
    return site.builder.emit_te(
        compute, value, primfunc_name_hint="blocked", primfunc_attrs={"op_pattern": OPAQUE}
    )


def constant_of(value: Value) -> np.ndarray | None:
    """The array of a constant; None of what is computed."""
    return as_array(value.value) if isinstance(value, tvm.ir.GenericConst) else None


def vector_of(site: OpCall, value: Value, like: Blocked) -> Value:
    """A number for each channel as ``[block, 1, ..., lane]``, which broadcasts to blocked data."""
    lanes, blocks, channels = like.lanes, like.blocks, like.shape[like.axis]
    shape = [blocks, *[1] * (len(like.shape) - 2), lanes]
    known = constant_of(value)
    if known is not None:
        padded = np.zeros(blocks * lanes, known.dtype)
        padded[:channels] = known.reshape(-1)
        return relax.const(as_tensor(padded.reshape(shape)))
    flat = value if shape_of(value) == [channels] else site.emit(relax.op.reshape(value, [channels]))

    def compute(data: Any) -> Any:
        def element(block: Any, *rest: Any) -> Any:
            c = block * lanes + rest[-1]
            return tirx.if_then_else(c < channels, data(c), tirx.const(0, data.dtype))

        return te.compute(shape, element, name="vector")

    return site.builder.emit_te(compute, flat, primfunc_name_hint="vector")


def _operand(site: OpCall, value: Value, like: Blocked) -> Value | None:
    """An operand that broadcasts to blocked data; None where it does not."""
    if isinstance(value, Blocked):
        same = value.shape == like.shape and value.axis == like.axis and value.lanes == like.lanes
        return value.data if same else None
    shape = shape_of(value)
    if not all(isinstance(dim, int) for dim in shape) or len(shape) > len(like.shape):
        return None
    if not shape:
        return value
    sizes = [1] * (len(like.shape) - len(shape)) + shape
    if all(dim == 1 for dim in sizes):
        known = constant_of(value)
        if known is not None:
            return relax.const(as_tensor(np.ascontiguousarray(known.reshape(()))))
        return site.emit(relax.op.reshape(value, []))
    if all(dim == (like.shape[at] if at == like.axis else 1) for at, dim in enumerate(sizes)):
        return vector_of(site, value, like)
    if tuple(sizes) == like.shape == tuple(shape) and lanes_of(attr_dtype(value)) == like.lanes:
        return blocked(site, value, like.axis).data
    return None


def _elementwise(name: str) -> Rule:
    """The operator's own rule, on the blocked data: it is the same for every element."""

    def rule(site: OpCall) -> Value | None:
        given = [arg for arg in site.args if isinstance(arg, Blocked)]
        if not given:
            return None
        like = max(given, key=lambda one: len(one.shape))
        operands = []
        for arg in site.args:
            operand = _operand(site, arg, like)
            if operand is None:
                return None
            operands.append(operand)
        found = RULES[name](replace(site, args=tuple(operands)))
        return like.like(found if isinstance(found, relax.Var) else site.emit(found))

    return rule


def _bias_add(site: OpCall) -> Value | None:
    data, bias = site.args
    if not isinstance(data, Blocked) or integer(site.attrs["axis"]) % len(data.shape) != data.axis:
        return None
    if shape_of(bias) != [data.shape[data.axis]]:
        return None
    return data.like(site.emit(RULES["add"](replace(site, args=(data.data, vector_of(site, bias, data))))))


def _batch_norm(site: OpCall) -> Value | None:
    """``(x - mean) * scale + shift``, the scale of each channel computed once."""
    data, gamma, beta, mean, variance = site.args
    attrs = site.attrs
    if not isinstance(data, Blocked) or integer(attrs["axis"]) % len(data.shape) != data.axis:
        return None
    epsilon = number(attrs["epsilon"])

    def factor(g: Any, v: Any) -> Any:
        root = te.compute(v.shape, lambda c: tirx.sqrt(v(c) + tirx.const(epsilon, v.dtype)))
        one = tirx.const(1, v.dtype)
        return te.compute(v.shape, lambda c: (g(c) if attrs["scale"] else one) / root(c))

    known = [constant_of(each) for each in (gamma, variance)]
    if known[0] is not None and known[1] is not None:
        with np.errstate(all="ignore"):
            root = np.sqrt(known[1] + known[1].dtype.type(epsilon))
            scale = relax.const(as_tensor((known[0] if attrs["scale"] else np.ones_like(root)) / root))
    else:
        scale = site.builder.emit_te(factor, gamma, variance, primfunc_name_hint="scale")
    vectors = [vector_of(site, each, data) for each in (mean, scale, *([beta] if attrs["center"] else []))]

    def compute(x: Any, center: Any, by: Any, *shift: Any) -> Any:
        def element(n: Any, block: Any, *rest: Any) -> Any:
            at = (block, *[0] * (len(rest) - 1), rest[-1])
            value = (x(n, block, *rest) - center(*at)) * by(*at)
            return value + shift[0](*at) if shift else value

        return te.compute(x.shape, element, name="normalized")

    return (data.like(site.emit(site.te(compute, data.data, *vectors))), mean, variance)


def _dropout(site: OpCall) -> Value | None:
    """The data, which stays blocked, and a mask of ones."""
    (data,) = site.args
    if not isinstance(data, Blocked):
        return None
    dtype = attr_dtype(data)
    return (data, site.emit(relax.op.full(list(data.shape), relax.const(1, dtype), dtype)))


def _concatenate(site: OpCall) -> Value | None:
    """Along the channels, where all but the last have whole blocks."""
    (parts,) = site.args
    first = parts[0]
    if not all(isinstance(part, Blocked) for part in parts):
        return None
    if integer(site.attrs["axis"]) % len(first.shape) != first.axis:
        return None
    if any((part.axis, part.lanes) != (first.axis, first.lanes) for part in parts):
        return None
    if any(part.shape[part.axis] % part.lanes for part in parts[:-1]):
        return None
    shape = list(first.shape)
    shape[first.axis] = sum(part.shape[first.axis] for part in parts)
    data = site.emit(relax.op.concat([part.data for part in parts], axis=1))
    return Blocked(data, tuple(shape), first.axis)


BLOCKED_RULES.update(
    {
        name: _elementwise(name)
        for name in [
            "abs",
            "add",
            "atan",
            "clip",
            "copy",
            "cos",
            "divide",
            "erf",
            "exp",
            "fast_exp",
            "fast_tanh",
            "log",
            "maximum",
            "minimum",
            "multiply",
            "negative",
            "nn.leaky_relu",
            "nn.relu",
            "power",
            "rsqrt",
            "sigmoid",
            "sin",
            "sqrt",
            "subtract",
            "tanh",
        ]
    }
    | {
        "nn.bias_add": _bias_add,
        "nn.batch_norm": _batch_norm,
        "nn.dropout": _dropout,
        "concatenate": _concatenate,
    }
)

__all__ = ["Blocked", "blocked", "constant_of", "lanes_of", "moved", "vector_of"]
