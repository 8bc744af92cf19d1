"""Legalize pooling over windows, adaptive and global pooling, and the gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tvm import te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integers
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.convolution import full_padding
from nnmagic.engine.relax.legalize.reduction import MAX, lowest, mean, reduce
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Rule, Value, shape_of, te_of
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.tir.types import Index, PrimExpr
from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.layouts import parse_layout

_POOL = {1: topi.nn.pool1d, 2: topi.nn.pool2d, 3: topi.nn.pool3d}
_ADAPTIVE = {1: topi.nn.adaptive_pool1d, 2: topi.nn.adaptive_pool, 3: topi.nn.adaptive_pool3d}


def _pool_rule(spatial: int, kind: str) -> Rule:
    def compute(attrs: Attrs, data: Tensor) -> Tensor:
        strides, pads = integers(attrs["strides"]), full_padding(attrs, spatial)
        if attrs["ceil_mode"]:  # pad for all of Relay's windows, some of which TVM drops
            if attrs.get("count_include_pad", False):
                return _mean_pool_beyond_padding(attrs, data, spatial)
            pads = [
                *pads[:spatial],
                *(pad + stride - 1 for pad, stride in zip(pads[spatial:], strides, strict=True)),
            ]
        if kind == "max":
            return _max_pool(attrs, data, pads)
        result = _POOL[spatial](
            data,
            integers(attrs["pool_size"]),
            strides,
            integers(attrs["dilation"]),
            pads,
            kind,
            False,  # noqa: FBT003 - ceil_mode
            str(attrs["layout"]),
            bool(attrs.get("count_include_pad", False)),
        )
        return result if result.dtype == data.dtype else topi.cast(result, data.dtype)

    return te_of(compute)


def _max_pool(attrs: Attrs, data: Tensor, pads: Sequence[int]) -> Tensor:
    """Return the largest element of each window; NaN where there is one, which TVM's own pool may drop."""
    layout = parse_layout(attrs["layout"])
    axes = [layout.index(letter) for letter in "DHW" if letter in layout.primal]
    sizes, strides, steps = (integers(attrs[name]) for name in ("pool_size", "strides", "dilation"))
    shape = list(data.shape)
    before, after = [0] * len(shape), [0] * len(shape)
    for i, axis in enumerate(axes):
        before[axis], after[axis] = pads[i], pads[i + len(axes)]
        span = (sizes[i] - 1) * steps[i] + 1
        shape[axis] = (data.shape[axis] + before[axis] + after[axis] - span) // strides[i] + 1
    window = [te.reduce_axis((0, size), f"k{i}") for i, size in enumerate(sizes)]
    wide = topi.nn.pad(data, before, after, lowest(scalar_functions.dtype_of(data))) if any(pads) else data

    def element(*index: Index) -> PrimExpr:
        where = list(index)
        for i, axis in enumerate(axes):
            where[axis] = index[axis] * strides[i] + window[i] * steps[i]
        return MAX(wide(*where), axis=window)

    return te.compute(shape, element)


def _mean_pool_beyond_padding(attrs: Attrs, data: Tensor, spatial: int) -> Tensor:
    """Return the means of windows that may exceed the padded data; only data and padding are counted."""
    layout = parse_layout(attrs["layout"])
    axes = [layout.index(letter) for letter in "DHW"[3 - spatial :]]
    sizes, strides, steps = (integers(attrs[name]) for name in ("pool_size", "strides", "dilation"))
    pads = full_padding(attrs, spatial)
    shape, room = list(data.shape), []
    for i, axis in enumerate(axes):
        room.append(data.shape[axis] + pads[i] + pads[i + spatial])
        span = (sizes[i] - 1) * steps[i] + 1
        shape[axis] = (room[i] - span + strides[i] - 1) // strides[i] + 1
    window = [te.reduce_axis((0, size), f"k{i}") for i, size in enumerate(sizes)]

    def total(*index: Index) -> PrimExpr:
        where, inside = list(index), []
        for i, axis in enumerate(axes):
            where[axis] = index[axis] * strides[i] + window[i] * steps[i] - pads[i]
            inside += [where[axis] >= 0, where[axis] < data.shape[axis]]
        return te.sum(
            tirx.if_then_else(tirx.all(*inside), data(*where), tirx.const(0, data.dtype)), axis=window
        )

    sums = te.compute(shape, total)

    def mean(*index: Index) -> PrimExpr:
        count: PrimExpr = tirx.const(1, "int64")
        for i, axis in enumerate(axes):
            rest = (room[i] - index[axis] * strides[i] - 1) // steps[i] + 1
            count = count * tirx.min(rest.astype("int64"), tirx.const(sizes[i], "int64"))
        return scalar_functions.divide(sums(*index), count.astype(data.dtype))

    return te.compute(shape, mean)


def _adaptive_max_pool(data: Tensor, size: Sequence[int], axes: Sequence[int]) -> Tensor:
    """Return the largest element of each of the windows that divide an image; NaN where there is one."""
    shape = list(data.shape)
    for axis, count in zip(axes, size, strict=True):
        shape[axis] = tirx.const(count, "int64")

    def element(*index: Index) -> PrimExpr:
        where, window = list(index), []
        for axis in axes:
            first = index[axis] * data.shape[axis] // shape[axis]
            end = ((index[axis] + 1) * data.shape[axis] + shape[axis] - 1) // shape[axis]
            window.append(te.reduce_axis((0, end - first), f"k{axis}"))
            where[axis] = first + window[-1]
        return MAX(data(*where), axis=window)

    return te.compute(shape, element)


def _adaptive_rule(spatial: int, kind: str) -> Rule:
    """Pool to a given size; without one, return the data."""

    def rule(call: OpCall) -> Value:
        (data,) = call.args
        layout = str(call.attrs["layout"])
        axes = [axis for axis, letter in enumerate(layout) if letter in "DHW"]
        sizes = call.attrs["output_size"]
        if sizes is None or sizes == ():
            return data
        size = integers(sizes) * (spatial if len(integers(sizes)) == 1 else 1)
        assert len(axes) == spatial
        if set(size) == {1}:
            return call.te(lambda x: _GLOBAL[kind](x, axes), data)
        if kind == "max":
            return call.te(lambda x: _adaptive_max_pool(x, size, axes), data)
        return call.te(lambda x: _ADAPTIVE[spatial](x, size, kind, layout), data)

    return rule


def _max_of_image(data: Tensor, axes: Sequence[int]) -> Tensor:
    return reduce(lambda where, spans: MAX(data(*where), axis=spans), data, axes, keepdims=True)


#: The pools whose window is a whole image, by their kind.
_GLOBAL: Mapping[str, Callable[[Tensor, Sequence[int]], Tensor]] = {
    "max": _max_of_image,
    "avg": lambda data, axes: mean(data, axes, keepdims=True),
}


def _global_rule(kind: str) -> Rule:
    def compute(attrs: Attrs, data: Tensor) -> Tensor:
        layout = parse_layout(attrs["layout"])
        return _GLOBAL[kind](data, sorted(layout.index(letter) for letter in "HW"))

    return te_of(compute)


def _gradient_rule(kind: str) -> Rule:
    def compute(attrs: Attrs, grad: Tensor, data: Tensor) -> Tensor:
        return topi.nn.pool_grad(
            grad,
            data,
            integers(attrs["pool_size"]),
            integers(attrs["strides"]),
            full_padding(attrs, 2),
            kind,
            bool(attrs["ceil_mode"]),
            bool(attrs.get("count_include_pad", False)),
            str(attrs["layout"]),
        )

    def rule(call: OpCall) -> Value:
        sizes = [dim for arg in call.args for dim in shape_of(arg)]
        if not all(isinstance(dim, int) for dim in sizes):  # topi's loops would read beyond the data
            call.refuse("the sizes of its tensors must be known at compile time")
        return te_of(compute)(call)

    return rule


RULES.update(
    {f"nn.{kind}_pool{n}d": _pool_rule(n, kind) for kind in ("max", "avg") for n in (1, 2, 3)}
    | {f"nn.adaptive_{kind}_pool{n}d": _adaptive_rule(n, kind) for kind in ("max", "avg") for n in (1, 2, 3)}
    | {f"nn.global_{kind}_pool2d": _global_rule(kind) for kind in ("max", "avg")}
    | {f"nn.{kind}_pool2d_grad": _gradient_rule(kind) for kind in ("max", "avg")}
)
