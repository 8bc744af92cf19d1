"""Legalize pooling on blocked channels; ``schedules.convolution`` has the loops."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import te, tirx

from nnmagic.engine.relax.analysis.attribute_values import integers
from nnmagic.engine.relax.legalize.blocked.layout import Blocked
from nnmagic.engine.relax.legalize.convolution import full_padding
from nnmagic.engine.relax.legalize.reduction import MAX
from nnmagic.engine.relax.legalize.registry import BLOCKED_RULES, OUT_ELEMENTWISE_FUSABLE, OpCall, Rule, Value
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.schedules.convolution.schedule import AXES, LARGEST
from nnmagic.engine.relax.schedules.convolution.windows import Axis, encode_axes
from nnmagic.engine.relax.schedules.registry import KIND
from nnmagic.engine.relax.tir.types import Extent, Index, PrimExpr
from nnmagic.relay.expr import Attrs


def _pool_rule(spatial: int, kind: str) -> Rule:
    def rule(call: OpCall) -> Value | None:
        (data,) = call.args
        attrs = call.attrs
        if not _is_of_known_size(data) or not _has_channels_at(data.axis, attrs):
            return None
        counted = bool(attrs.get("count_include_pad", False))
        if counted and attrs["ceil_mode"]:
            return None
        taps, strides = integers(attrs["pool_size"]), integers(attrs["strides"])
        steps, pads = integers(attrs["dilation"]), full_padding(attrs, spatial)
        shape = _shape(call, data)
        sizes = [dim for i, dim in enumerate(data.shape) if i not in (0, data.axis)]
        results = [dim for i, dim in enumerate(shape) if i not in (0, data.axis)]
        axes = [
            Axis(sizes[i], results[i], taps[i], strides[i], pads[i], steps[i], transposed=False)
            for i in range(spatial)
        ]
        if any(axis.empty_window() for axis in axes):
            return None
        return _emit_pool(call, data, axes, shape, kind, counted=counted)

    return rule


def _global_rule(kind: str) -> Rule:
    def rule(call: OpCall) -> Value | None:
        (data,) = call.args
        if not _is_of_known_size(data) or not _has_channels_at(data.axis, call.attrs):
            return None
        sizes = [dim for i, dim in enumerate(data.shape) if i not in (0, data.axis)]
        axes = [Axis(dim, 1, dim, 1, 0, 1, transposed=False) for dim in sizes]
        return _emit_pool(call, data, axes, _shape(call, data), kind, counted=True)

    return rule


def _is_of_known_size(data: Value) -> bool:
    """Return whether images are in blocks, and only their number may be dynamic."""
    return isinstance(data, Blocked) and all(isinstance(dim, int) for dim in data.shape[1:])


def _has_channels_at(axis: int, attrs: Attrs) -> bool:
    """Return whether a pool's layout is batch, spatial axes in their order, and channels at ``axis``."""
    layout = list(str(attrs["layout"]))
    channels = layout.pop(axis)
    return channels == "C" and layout == ["N", *"DHW"[4 - len(layout) :]]


def _shape(call: OpCall, data: Blocked) -> tuple[Extent, ...]:
    """Return the shape of the dense result, whose batch is the data's."""
    type_ = call.node.inferred_tensor
    return (data.shape[0], *(dim for dim in type_.shape[1:] if isinstance(dim, int)))


def _emit_pool(
    call: OpCall, data: Blocked, axes: Sequence[Axis], shape: tuple[Extent, ...], kind: str, *, counted: bool
) -> Value:
    """Emit the maximum or the mean of each window; ``counted``: padding counts as elements of the mean."""

    def compute(x: Tensor) -> Tensor:
        taps = [te.reduce_axis((0, axis.taps), f"tap{i}") for i, axis in enumerate(axes)]
        reducer, identity = (MAX, float("-inf")) if kind == "max" else (te.sum, 0.0)

        def element(n: Index, block: Index, *rest: Index) -> PrimExpr:
            *outer, lane = rest
            where = [
                i * axis.stride - axis.before + tap * axis.dilation
                for axis, tap, i in zip(axes, taps, outer, strict=True)
            ]
            unsure = [(i, axis) for i, axis in zip(where, axes, strict=True) if not axis.always_inside()]
            value = x(n, block, *where, lane)
            if unsure:
                inside = tirx.all(*(tirx.all(i >= 0, i < axis.size) for i, axis in unsure))
                value = tirx.if_then_else(inside, value, tirx.const(identity, x.dtype))
            return reducer(value, axis=taps)

        attrs = {KIND: "pooling", AXES: encode_axes(axes), LARGEST: int(kind == "max")}
        image = [axis.result for axis in axes]
        pooled = te.compute((*x.shape[:2], *image, x.shape[-1]), element, name="pool", attrs=attrs)
        if kind == "max":
            return pooled

        def mean(*index: Index) -> PrimExpr:
            count: PrimExpr = tirx.const(1, "int64")
            for axis, i in zip(axes, index[2:-1], strict=True):
                count = count * _count(axis, i, counted=counted)
            return pooled(*index) / count.astype(x.dtype)

        return te.compute(pooled.shape, mean, name="mean")

    result = call.emit(call.te(compute, data.data, primfunc_attrs={"op_pattern": OUT_ELEMENTWISE_FUSABLE}))
    return Blocked(result, shape, data.axis)


def _count(axis: Axis, index: Index, *, counted: bool) -> PrimExpr:
    """Return how many taps of a window see an element that counts."""
    if counted or axis.always_inside():
        return tirx.const(axis.taps, "int64")
    start = axis.before - index * axis.stride
    step = axis.dilation
    first = tirx.max((start + step - 1) // step, tirx.const(0, "int64"))
    last = tirx.min((start + axis.size + step - 1) // step, tirx.const(axis.taps, "int64"))
    return last - first


BLOCKED_RULES.update(
    {f"nn.{kind}_pool{n}d": _pool_rule(n, kind) for kind in ("max", "avg") for n in (1, 2, 3)}
    | {f"nn.global_{kind}_pool2d": _global_rule(kind) for kind in ("max", "avg")}
)
