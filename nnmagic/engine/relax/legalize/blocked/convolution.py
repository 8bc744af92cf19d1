"""Legalize convolutions on blocked channels; ``schedules.convolution`` has their loops.

One rule covers floating-point convolutions of 1, 2 and 3 spatial axes, grouped or not, transposed or not.
Constant weights are put into the kernel's order at compile time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from tvm import relax, te, tirx

from nnmagic.engine.relax.analysis.attribute_values import integer, integers
from nnmagic.engine.relax.legalize import registry
from nnmagic.engine.relax.legalize.blocked.layout import (
    Blocked,
    constant_array,
    emit_layout_kernel,
    lanes_for,
    to_blocked_layout,
)
from nnmagic.engine.relax.legalize.sizes import simplify
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.runtime.tensors import as_tensor
from nnmagic.engine.relax.schedules.convolution.schedule import AXES, CHANNELS, PADDED
from nnmagic.engine.relax.schedules.convolution.window_kernel import Channels
from nnmagic.engine.relax.schedules.convolution.windows import Axis, encode_axes
from nnmagic.engine.relax.schedules.registry import KIND
from nnmagic.engine.relax.tir.types import Extent, Index, PrimExpr

#: The elements of a row from which on vectors along it are faster than blocks of channels for one channel.
_LONG_ROW = 32


@dataclass(frozen=True, slots=True)
class _BlockedConvolution:
    """A convolution of images, whose sizes may be dynamic.

    shape: of the dense result. axis: that of the channels, in the data and the result. after: the padding
    behind each axis of ``axes``.
    """

    shape: tuple[Extent, ...]
    axis: int
    axes: tuple[Axis, ...]
    after: tuple[int, ...]
    channels: Channels
    lanes: int
    dtype: str

    @property
    def blocks(self) -> int:
        return -(-self.channels.result // self.lanes)


def lower_to_blocks(call: registry.OpCall, pads: Sequence[int], *, transposed: bool) -> registry.Value | None:
    """Lower to a convolution with a blocked result; None for a call that the kernels do not compute."""
    convolution = _analyze_call(call, pads, transposed=transposed)
    if convolution is None:
        return None
    data, weight = call.args
    if isinstance(data, Blocked):
        if data.axis != convolution.axis or data.lanes != convolution.lanes:
            return None
        data = data.data
    elif convolution.channels.groups > 1:  # vectors of its channels are loaded
        data = to_blocked_layout(call, data, convolution.axis).data
    else:
        convolution = replace(convolution, channels=replace(convolution.channels, axis=convolution.axis))
    constant = constant_array(weight)
    padded = constant is None or not np.isfinite(constant).all()
    packed = _pack_weight(call, convolution, weight, transposed=transposed)
    result = call.emit(
        call.te(
            lambda x, w: _convolve(convolution, x, w, padded=padded),
            data,
            packed,
            primfunc_attrs={"op_pattern": registry.OUT_ELEMENTWISE_FUSABLE},
        )
    )
    return Blocked(result, convolution.shape, convolution.axis)


def _analyze_call(
    call: registry.OpCall, pads: Sequence[int], *, transposed: bool
) -> _BlockedConvolution | None:
    data, weight = call.args
    attrs, dtype = call.attrs, registry.tensor_dtype(data)
    layout, kernel = str(attrs["data_layout"]), str(attrs["kernel_layout"])
    lanes = lanes_for(dtype)
    sizes, window = registry.shape_of(data), registry.shape_of(weight)
    if lanes is None or registry.tensor_dtype(weight) != dtype or str(attrs["out_dtype"]) not in ("", dtype):
        return None
    if not all(isinstance(dim, int) for dim in window) or 0 in window or any(map(_is_zero, sizes)):
        return None
    if str(attrs["out_layout"]) not in ("", layout) or not (layout + kernel).isalpha() or layout[0] != "N":
        return None
    letters = [letter for letter in layout if letter in "DHW"]
    if letters != sorted(letters) or len(layout) != len(sizes) or len(kernel) != len(window):
        return None
    groups, axis = integer(attrs["groups"]), layout.index("C")
    size = dict(zip(layout, sizes, strict=True))
    spatial = len(letters)
    of_known_size = all(isinstance(size[letter], int) for letter in letters)
    if not isinstance(size["C"], int):
        return None
    taps = dict(zip(kernel, window, strict=True))
    result_channels = taps["O"] * groups if transposed else taps["O"] * _multiplier(taps, size, groups)
    strides, dilation = integers(attrs["strides"]), integers(attrs["dilation"])
    type_ = call.node.inferred_tensor
    assert len(pads) == 2 * spatial
    result: dict[str, Extent] = dict(zip(layout, type_.shape, strict=True))
    added = integers(attrs["output_padding"]) if transposed else [0]
    after = [pads[at + spatial] - added[at % len(added)] for at in range(spatial)]
    axes = []
    for at, letter in enumerate(letters):
        stride, step = strides[at % len(strides)], dilation[at % len(dilation)]
        each = Axis(size[letter], result[letter], taps[letter], stride, pads[at], step, transposed)
        if not of_known_size:
            each = _with_size(each, size[letter], after[at])
            result[letter] = each.result
        axes.append(each)
    shape = (sizes[0], *(result[letter] for letter in layout[1:]))
    if result["C"] != result_channels or any(map(_is_zero, shape)):
        return None
    channels = Channels(groups, size["C"], result_channels, -1)
    if result_channels == 1 and _has_long_rows(axes[-1]):
        return None
    return _BlockedConvolution(shape, axis, tuple(axes), tuple(after), channels, lanes, dtype)


def _has_long_rows(last: Axis) -> bool:
    """Return whether vectors along the rows of a result of one channel beat blocks with one lane in use."""
    long = not isinstance(last.result, int) or last.result == 1 or max(last.result, last.taps) >= _LONG_ROW
    return long and last.stride == 1 and not last.transposed


def _is_zero(dim: Extent) -> bool:
    return isinstance(dim, int) and dim == 0


def _multiplier(taps: dict[str, int], size: dict[str, int], groups: int) -> int:
    """Return the channel multiplier of a depthwise weight with the axes (channel, multiplier), else 1."""
    return taps["I"] if groups > 1 and taps["I"] != size["C"] // groups and taps["O"] == groups else 1


def _pack_weight(
    call: registry.OpCall, convolution: _BlockedConvolution, weight: registry.Value, *, transposed: bool
) -> registry.Value:
    """Pack weights as ``[block, (kd, kh,) channel, kw, lane]``, zero in the lanes beyond the channels."""
    kernel = str(call.attrs["kernel_layout"])
    letters = [letter for letter in "DHW" if letter in kernel]
    channels, lanes, blocks = convolution.channels, convolution.lanes, convolution.blocks
    taps = [axis.taps for axis in convolution.axes]
    constant = constant_array(weight)
    order = [kernel.index(letter) for letter in ["I", "O", *letters]]
    order[:2] = order[:2] if transposed else order[1::-1]
    if constant is None:
        ordered = weight if order == sorted(order) else call.emit(relax.op.permute_dims(weight, order))
        return emit_layout_kernel(
            call, lambda w: _pack_computed_weight(convolution, w, transposed=transposed), ordered
        )
    array = constant.transpose(order)
    if transposed:  # [data's channels, of a group's result's, taps]
        parts = array.reshape(channels.groups, channels.per_group, -1, *taps)
        array = np.swapaxes(parts, 1, 2).reshape(channels.result, channels.per_group, *taps)
    else:
        array = array.reshape(channels.result, channels.per_group, *taps)
    padded = np.zeros((blocks * lanes, *array.shape[1:]), array.dtype)
    padded[: channels.result] = array
    split = padded.reshape(blocks, lanes, *array.shape[1:])
    spatial = len(taps)
    axes = [0, *range(3, 2 + spatial), 2, 2 + spatial, 1]
    return relax.const(as_tensor(np.ascontiguousarray(split.transpose(axes))))


def _pack_computed_weight(convolution: _BlockedConvolution, weight: Tensor, *, transposed: bool) -> Tensor:
    channels, lanes = convolution.channels, convolution.lanes
    taps = [axis.taps for axis in convolution.axes]
    group_channels = channels.result // channels.groups
    has_multiplier = not transposed and int(weight.shape[1]) != channels.per_group

    def element(block: Index, *rest: Index) -> PrimExpr:
        *outer, k, last, lane = rest
        o = block * lanes + lane
        where = [*outer, last]
        if transposed:
            value = weight(o // group_channels * channels.per_group + k, o % group_channels, *where)
        elif has_multiplier:
            multiplier = int(weight.shape[1])
            value = weight(o // multiplier, o % multiplier, *where)
        else:
            value = weight(o, k, *where)
        zero = tirx.const(0, weight.dtype)
        return value if channels.result % lanes == 0 else tirx.if_then_else(o < channels.result, value, zero)

    return te.compute(
        (convolution.blocks, *taps[:-1], channels.per_group, taps[-1], lanes),
        element,
        name="packed",
        attrs={KIND: "to_blocks"},
    )


def _with_sizes_of(convolution: _BlockedConvolution, data: Tensor) -> tuple[Axis, ...]:
    """Return the axes with the sizes of a tensor, whose dynamic ones have variables of their own."""
    sizes = convolution.channels.image(data.shape)
    return tuple(
        axis if axis.is_static else _with_size(axis, size, after)
        for axis, size, after in zip(convolution.axes, sizes, convolution.after, strict=True)
    )


def _with_size(axis: Axis, size: Extent, after: int) -> Axis:
    """Return an axis over so many elements, with so much padding behind them."""
    span = (axis.taps - 1) * axis.dilation + 1
    if axis.transposed:
        result = size * axis.stride + (span - axis.stride - axis.before - after)
    else:
        result = (size + (axis.before + after - span)) // axis.stride + 1
    return replace(axis, size=size, result=simplify(result))


def _convolve(convolution: _BlockedConvolution, data: Tensor, weight: Tensor, *, padded: bool) -> Tensor:
    """Return the convolution as a tensor expression."""
    channels, lanes = convolution.channels, convolution.lanes
    convolution = replace(convolution, axes=_with_sizes_of(convolution, data))
    k = te.reduce_axis((0, channels.per_group), "k")
    taps = [te.reduce_axis((0, axis.taps), f"tap{i}") for i, axis in enumerate(convolution.axes)]
    zero = tirx.const(0, convolution.dtype)

    def element(n: Index, block: Index, *rest: Index) -> PrimExpr:
        *outer, lane = rest
        inside: list[PrimExpr] = []
        seen: list[PrimExpr] = []
        for axis, tap, i in zip(convolution.axes, taps, outer, strict=True):
            if axis.transposed:
                at = i + axis.before - tap * axis.dilation
                inside += [at >= 0, at % axis.stride == 0, at // axis.stride < axis.size]
                seen.append(at // axis.stride)
            else:
                at = i * axis.stride - axis.before + tap * axis.dilation
                inside += [] if axis.always_inside() else [at >= 0, at < axis.size]
                seen.append(at)
        c = channels.source(block * lanes + lane, k)
        if channels.axis < 0:
            index = [n, c // lanes, *seen, c % lanes]
        else:
            index = [n, *seen]
            index.insert(channels.axis, c)
        factor = weight(block, *taps[:-1], k, taps[-1], lane)
        value = data(*index)
        reduce_axes = [*taps[:-1], k, taps[-1]]
        if convolution.axes[0].transposed:
            return te.sum(tirx.if_then_else(tirx.all(*inside), value * factor, zero), axis=reduce_axes)
        value = tirx.if_then_else(tirx.all(*inside), value, zero) if inside else value
        return te.sum(value * factor, axis=reduce_axes)

    image = [axis.result for axis in convolution.axes]
    attrs = {
        KIND: "convolution",
        AXES: encode_axes(convolution.axes),
        PADDED: int(padded and not convolution.axes[0].transposed),
        CHANNELS: [channels.groups, channels.data, channels.result, channels.axis],
    }
    return te.compute(
        (data.shape[0], convolution.blocks, *image, lanes), element, name="convolution", attrs=attrs
    )
