"""Pooling over windows, adaptive and global pooling, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integers
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.convolution import padding_of
from nnmagic.engine.relax.legalize.reduction import MAX, lowest, reduce
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Rule, Value, shape_of, te_of
from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.layouts import parse_layout

_POOL = {1: topi.nn.pool1d, 2: topi.nn.pool2d, 3: topi.nn.pool3d}
_ADAPTIVE = {1: topi.nn.adaptive_pool1d, 2: topi.nn.adaptive_pool, 3: topi.nn.adaptive_pool3d}


def _pool(spatial: int, kind: str) -> Rule:
    def compute(attrs: Attrs, data: Any) -> Any:
        strides, pads = integers(attrs["strides"]), padding_of(attrs, spatial)
        if attrs["ceil_mode"]:  # so that Relay's windows all have a place, and not only those that TVM leaves
            if attrs.get("count_include_pad", False):
                return _mean_of_padded(attrs, data, spatial)
            pads = [pad + (strides[at - spatial] - 1 if at >= spatial else 0) for at, pad in enumerate(pads)]
        if kind == "max":
            return _largest(attrs, data, pads)
        found = _POOL[spatial](
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
        return found if found.dtype == data.dtype else topi.cast(found, data.dtype)

    return te_of(compute)


def _largest(attrs: Attrs, data: Any, pads: Sequence[int]) -> Any:
    """The largest element of each window; NaN where there is one, which TVM's own may drop."""
    layout = parse_layout(attrs["layout"])
    places = [layout.index(letter) for letter in "DHW" if letter in layout.primal]
    sizes, strides, steps = (integers(attrs[name]) for name in ("pool_size", "strides", "dilation"))
    shape = list(data.shape)
    before, after = [0] * len(shape), [0] * len(shape)
    for axis, at in enumerate(places):
        before[at], after[at] = pads[axis], pads[axis + len(places)]
        span = (sizes[axis] - 1) * steps[axis] + 1
        shape[at] = (data.shape[at] + before[at] + after[at] - span) // strides[axis] + 1
    window = [te.reduce_axis((0, size), f"k{axis}") for axis, size in enumerate(sizes)]
    wide = topi.nn.pad(data, before, after, lowest(scalar_functions.dtype_of(data))) if any(pads) else data

    def element(*index: Any) -> Any:
        where = list(index)
        for axis, at in enumerate(places):
            where[at] = index[at] * strides[axis] + window[axis] * steps[axis]
        return MAX(wide(*where), axis=window)

    return te.compute(shape, element)


def _mean_of_padded(attrs: Attrs, data: Any, spatial: int) -> Any:
    """Means of windows that may stand out of the padded data; the padding counts, what is beyond does not."""
    layout = parse_layout(attrs["layout"])
    places = [layout.index(letter) for letter in "DHW"[3 - spatial :]]
    sizes, strides, steps = (integers(attrs[name]) for name in ("pool_size", "strides", "dilation"))
    pads = padding_of(attrs, spatial)
    shape, room = list(data.shape), []
    for axis, at in enumerate(places):
        room.append(data.shape[at] + pads[axis] + pads[axis + spatial])
        span = (sizes[axis] - 1) * steps[axis] + 1
        shape[at] = (room[axis] - span + strides[axis] - 1) // strides[axis] + 1
    window = [te.reduce_axis((0, size), f"k{axis}") for axis, size in enumerate(sizes)]

    def total(*index: Any) -> Any:
        where, inside = list(index), []
        for axis, at in enumerate(places):
            where[at] = index[at] * strides[axis] + window[axis] * steps[axis] - pads[axis]
            inside += [where[at] >= 0, where[at] < data.shape[at]]
        return te.sum(
            tirx.if_then_else(tirx.all(*inside), data(*where), tirx.const(0, data.dtype)), axis=window
        )

    sums = te.compute(shape, total)

    def mean(*index: Any) -> Any:
        count: Any = tirx.const(1, "int64")
        for axis, at in enumerate(places):
            rest = (room[axis] - index[at] * strides[axis] - 1) // steps[axis] + 1
            count = count * tirx.min(rest.astype("int64"), tirx.const(sizes[axis], "int64"))
        return scalar_functions.divide(sums(*index), count.astype(data.dtype))

    return te.compute(shape, mean)


def _adaptive_largest(data: Any, size: Sequence[int], axes: Sequence[int]) -> Any:
    """The largest element of each of the windows that share out an image; NaN where there is one."""
    shape = list(data.shape)
    for axis, count in zip(axes, size, strict=True):
        shape[axis] = tirx.const(count, "int64")

    def element(*index: Any) -> Any:
        where, window = list(index), []
        for axis in axes:
            first = index[axis] * data.shape[axis] // shape[axis]
            behind = ((index[axis] + 1) * data.shape[axis] + shape[axis] - 1) // shape[axis]
            window.append(te.reduce_axis((0, behind - first), f"k{axis}"))
            where[axis] = first + window[-1]
        return MAX(data(*where), axis=window)

    return te.compute(shape, element)


def _adaptive(spatial: int, kind: str) -> Rule:
    """To a given size; without one, to the size that the data has."""

    def rule(site: OpCall) -> Value:
        (data,) = site.args
        layout = str(site.attrs["layout"])
        axes = [axis for axis, letter in enumerate(layout) if letter in "DHW"]
        given = site.attrs["output_size"]
        if given is None or given == ():
            return data
        size = integers(given) * (spatial if len(integers(given)) == 1 else 1)
        assert len(axes) == spatial
        if kind == "max":
            return site.te(lambda x: _adaptive_largest(x, size, axes), data)
        return site.te(lambda x: _ADAPTIVE[spatial](x, size, kind, layout), data)

    return rule


def _global(kind: str) -> Rule:
    def compute(attrs: Attrs, data: Any) -> Any:
        if kind == "avg":
            return topi.nn.global_pool(data, kind, str(attrs["layout"]))
        layout = parse_layout(attrs["layout"])
        axes = sorted(layout.index(letter) for letter in "HW")
        return reduce(lambda where, spans: MAX(data(*where), axis=spans), data, axes, keepdims=True)

    return te_of(compute)


def _gradient(kind: str) -> Rule:
    def compute(attrs: Attrs, grad: Any, data: Any) -> Any:
        return topi.nn.pool_grad(
            grad,
            data,
            integers(attrs["pool_size"]),
            integers(attrs["strides"]),
            padding_of(attrs, 2),
            kind,
            bool(attrs["ceil_mode"]),
            bool(attrs.get("count_include_pad", False)),
            str(attrs["layout"]),
        )

    def rule(site: OpCall) -> Value:
        sizes = [dim for arg in site.args for dim in shape_of(arg)]
        if not all(isinstance(dim, int) for dim in sizes):  # topi's loops then read beyond the data
            site.refuse("the sizes of its tensors must be known when compiling")
        return te_of(compute)(site)

    return rule


RULES.update(
    {f"nn.{kind}_pool{n}d": _pool(n, kind) for kind in ("max", "avg") for n in (1, 2, 3)}
    | {f"nn.adaptive_{kind}_pool{n}d": _adaptive(n, kind) for kind in ("max", "avg") for n in (1, 2, 3)}
    | {f"nn.global_{kind}_pool2d": _global(kind) for kind in ("max", "avg")}
    | {f"nn.{kind}_pool2d_grad": _gradient(kind) for kind in ("max", "avg")}
)
