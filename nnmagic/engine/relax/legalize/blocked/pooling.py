"""Pooling of tensors whose channels stand in blocks; ``kernels.convolution`` has the loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te, tirx

from nnmagic.engine.relax.analysis.attribute_values import integers
from nnmagic.engine.relax.legalize.blocked.layout import Blocked
from nnmagic.engine.relax.legalize.convolution import padding_of
from nnmagic.engine.relax.legalize.reduction import MAX
from nnmagic.engine.relax.legalize.registry import BLOCKED_RULES, OpCall, Rule, Value
from nnmagic.engine.relax.schedules.convolution.schedule import AXES, LARGEST
from nnmagic.engine.relax.schedules.convolution.windows import Axis, written
from nnmagic.engine.relax.schedules.registry import KIND
from nnmagic.relay.expr import Attrs
from nnmagic.relay.types import TensorType

_FUSABLE = 4


def _pool(spatial: int, kind: str) -> Rule:
    def rule(site: OpCall) -> Value | None:
        (data,) = site.args
        attrs = site.attrs
        if not isinstance(data, Blocked) or not _has_channels_at(data.axis, attrs):
            return None
        counted = bool(attrs.get("count_include_pad", False))
        if counted and attrs["ceil_mode"]:
            return None
        sizes, strides = integers(attrs["pool_size"]), integers(attrs["strides"])
        steps, pads = integers(attrs["dilation"]), padding_of(attrs, spatial)
        shape = _shape(site)
        seen = [dim for at, dim in enumerate(data.shape) if at not in (0, data.axis)]
        made = [dim for at, dim in enumerate(shape) if at not in (0, data.axis)]
        axes = [
            Axis(seen[at], made[at], sizes[at], strides[at], pads[at], steps[at], transposed=False)
            for at in range(spatial)
        ]
        if any(axis.empty_window() for axis in axes):
            return None
        return _windows(site, data, axes, shape, kind, counted=counted)

    return rule


def _global(kind: str) -> Rule:
    def rule(site: OpCall) -> Value | None:
        (data,) = site.args
        if not isinstance(data, Blocked) or not _has_channels_at(data.axis, site.attrs):
            return None
        seen = [dim for at, dim in enumerate(data.shape) if at not in (0, data.axis)]
        axes = [Axis(dim, 1, dim, 1, 0, 1, transposed=False) for dim in seen]
        return _windows(site, data, axes, _shape(site), kind, counted=True)

    return rule


def _has_channels_at(axis: int, attrs: Attrs) -> bool:
    """Whether a pool's layout is the batch, the spatial axes in their order, and the channels at an axis."""
    layout = list(str(attrs["layout"]))
    channels = layout.pop(axis)
    return channels == "C" and layout == ["N", *"DHW"[4 - len(layout) :]]


def _shape(site: OpCall) -> tuple[int, ...]:
    type_ = site.call.checked_type
    assert isinstance(type_, TensorType)
    return tuple(dim for dim in type_.shape if isinstance(dim, int))


def _windows(
    site: OpCall, data: Blocked, axes: Sequence[Axis], shape: tuple[int, ...], kind: str, *, counted: bool
) -> Value:
    """The largest or the mean of each window; ``counted``: padding counts as elements of the mean."""

    def compute(x: Any) -> Any:
        taps = [te.reduce_axis((0, axis.taps), f"tap{at}") for at, axis in enumerate(axes)]
        join, nothing = (MAX, float("-inf")) if kind == "max" else (te.sum, 0.0)

        def element(n: Any, block: Any, *rest: Any) -> Any:
            *places, lane = rest
            seen = [
                place * axis.stride - axis.before + tap * axis.dilation
                for axis, tap, place in zip(axes, taps, places, strict=True)
            ]
            checked = [(at, axis) for at, axis in zip(seen, axes, strict=True) if not axis.always_inside()]
            value = x(n, block, *seen, lane)
            if checked:
                inside = tirx.all(*(tirx.all(at >= 0, at < axis.size) for at, axis in checked))
                value = tirx.if_then_else(inside, value, tirx.const(nothing, x.dtype))
            return join(value, axis=taps)

        attrs = {KIND: "pooling", AXES: written(axes), LARGEST: int(kind == "max")}
        image = [axis.result for axis in axes]
        found = te.compute((*x.shape[:2], *image, x.shape[-1]), element, name="pool", attrs=attrs)
        if kind == "max":
            return found

        def mean(*index: Any) -> Any:
            count: Any = tirx.const(1, "int64")
            for axis, place in zip(axes, index[2:-1], strict=True):
                count = count * _count(axis, place, counted=counted)
            return found(*index) / count.astype(x.dtype)

        return te.compute(found.shape, mean, name="mean")

    made = site.emit(site.te(compute, data.data, primfunc_attrs={"op_pattern": _FUSABLE}))
    return Blocked(made, shape, data.axis)


def _count(axis: Axis, place: Any, *, counted: bool) -> Any:
    """How many taps of a window see an element that counts."""
    if counted or axis.always_inside():
        return tirx.const(axis.taps, "int64")
    start = axis.before - place * axis.stride
    step = axis.dilation
    first = tirx.max((start + step - 1) // step, tirx.const(0, "int64"))
    last = tirx.min((start + axis.size + step - 1) // step, tirx.const(axis.taps, "int64"))
    return last - first


BLOCKED_RULES.update(
    {f"nn.{kind}_pool{n}d": _pool(n, kind) for kind in ("max", "avg") for n in (1, 2, 3)}
    | {f"nn.global_{kind}_pool2d": _global(kind) for kind in ("max", "avg")}
)
