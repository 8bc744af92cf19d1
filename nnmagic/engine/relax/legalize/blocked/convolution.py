"""Convolutions of floating-point numbers, on blocked channels; ``kernels.convolution`` has their loops.

One rule for 1, 2 and 3 spatial axes, grouped or not, transposed or not. Weights that are constants are put
into the kernel's order when compiling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import relax, te, tirx

from nnmagic.engine.relax.analysis.attribute_values import integer, integers
from nnmagic.engine.relax.legalize.blocked.layout import Blocked, blocked, constant_of, lanes_of, moved
from nnmagic.engine.relax.legalize.registry import OpCall, Value, attr_dtype, shape_of
from nnmagic.engine.relax.runtime.tensors import as_tensor
from nnmagic.engine.relax.schedules.convolution.schedule import AXES, CHANNELS, PADDED, Channels
from nnmagic.engine.relax.schedules.convolution.windows import Axis, written
from nnmagic.engine.relax.schedules.registry import KIND
from nnmagic.relay.types import TensorType

#: TVM's number of the kernels into which it fuses the element-wise operators that follow.
_FUSABLE = 4


@dataclass(frozen=True, slots=True)
class _BlockedConvolution:
    """shape: of the plain result. axis: of the channels, in the data and the result."""

    shape: tuple[int, ...]
    axis: int
    axes: tuple[Axis, ...]
    channels: Channels
    lanes: int
    dtype: str

    @property
    def blocks(self) -> int:
        return -(-self.channels.result // self.lanes)


def direct(site: OpCall, pads: Sequence[int], *, transposed: bool) -> Value | None:
    """The result, blocked; None for a call that these kernels do not compute."""
    found = _understood(site, pads, transposed=transposed)
    if found is None:
        return None
    data, weight = site.args
    if isinstance(data, Blocked):
        if data.axis != found.axis or data.lanes != found.lanes:
            return None
        data = data.data
    elif found.channels.groups > 1:  # vectors of its channels are loaded
        data = blocked(site, data, found.axis).data
    else:
        found = replace(found, channels=replace(found.channels, axis=found.axis))
    known = constant_of(weight)
    padded = known is None or not np.isfinite(known).all()
    packed = _packed(site, found, weight, transposed=transposed)
    made = site.emit(
        site.te(
            lambda x, w: _sums(found, x, w, padded=padded),
            data,
            packed,
            primfunc_attrs={"op_pattern": _FUSABLE},
        )
    )
    return Blocked(made, found.shape, found.axis)


def _understood(site: OpCall, pads: Sequence[int], *, transposed: bool) -> _BlockedConvolution | None:
    data, weight = site.args
    attrs, dtype = site.attrs, attr_dtype(data)
    layout, kernel = str(attrs["data_layout"]), str(attrs["kernel_layout"])
    lanes = lanes_of(dtype)
    sizes, window = shape_of(data), shape_of(weight)
    if lanes is None or attr_dtype(weight) != dtype or str(attrs["out_dtype"]) not in ("", dtype):
        return None
    if not all(isinstance(dim, int) for dim in (*sizes, *window)) or 0 in (*sizes, *window):
        return None
    if str(attrs["out_layout"]) not in ("", layout) or not (layout + kernel).isalpha() or layout[0] != "N":
        return None
    letters = [letter for letter in layout if letter in "DHW"]
    if letters != sorted(letters) or len(layout) != len(sizes) or len(kernel) != len(window):
        return None
    groups, axis = integer(attrs["groups"]), layout.index("C")
    size = dict(zip(layout, sizes, strict=True))
    taps = dict(zip(kernel, window, strict=True))
    made = taps["O"] * groups if transposed else taps["O"] * _multiplier(taps, size, groups)
    spatial = len(letters)
    strides, dilation = integers(attrs["strides"]), integers(attrs["dilation"])
    type_ = site.call.checked_type
    assert isinstance(type_, TensorType)
    shape = [dim for dim in type_.shape if isinstance(dim, int)]
    if len(shape) != len(sizes):
        return None
    result = dict(zip(layout, shape, strict=True))
    if result["C"] != made or 0 in shape:
        return None
    axes = tuple(
        Axis(
            size[letter],
            result[letter],
            taps[letter],
            strides[at % len(strides)],
            pads[at],
            dilation[at % len(dilation)],
            transposed,
        )
        for at, letter in enumerate(letters)
    )
    assert len(pads) == 2 * spatial
    channels = Channels(groups, size["C"], made, -1)
    return _BlockedConvolution(tuple(shape), axis, axes, channels, lanes, dtype)


def _multiplier(taps: dict[str, int], size: dict[str, int], groups: int) -> int:
    """How often a weight that counts channels and multipliers makes each channel: 1 for other weights."""
    return taps["I"] if groups > 1 and taps["I"] != size["C"] // groups and taps["O"] == groups else 1


def _packed(site: OpCall, found: _BlockedConvolution, weight: Value, *, transposed: bool) -> Value:
    """The weights as ``[block, (kd, kh,) channel, kw, lane]``, zero in the lanes beyond the channels."""
    kernel = str(site.attrs["kernel_layout"])
    letters = [letter for letter in "DHW" if letter in kernel]
    channels, lanes, blocks = found.channels, found.lanes, found.blocks
    taps = [axis.taps for axis in found.axes]
    known = constant_of(weight)
    order = [kernel.index(letter) for letter in ["I", "O", *letters]]
    order[:2] = order[:2] if transposed else order[1::-1]
    if known is None:
        plain = weight if order == sorted(order) else site.emit(relax.op.permute_dims(weight, order))
        return moved(site, lambda w: _pack(found, w, transposed=transposed), plain)
    array = known.transpose(order)
    if transposed:  # [data's channels, of a group's result's, taps]
        parts = array.reshape(channels.groups, channels.each, -1, *taps)
        array = np.swapaxes(parts, 1, 2).reshape(channels.result, channels.each, *taps)
    else:
        array = array.reshape(channels.result, channels.each, *taps)
    padded = np.zeros((blocks * lanes, *array.shape[1:]), array.dtype)
    padded[: channels.result] = array
    split = padded.reshape(blocks, lanes, *array.shape[1:])
    spatial = len(taps)
    places = [0, *range(3, 2 + spatial), 2, 2 + spatial, 1]
    return relax.const(as_tensor(np.ascontiguousarray(split.transpose(places))))


def _pack(found: _BlockedConvolution, weight: Any, *, transposed: bool) -> Any:
    channels, lanes = found.channels, found.lanes
    taps = [axis.taps for axis in found.axes]
    made = channels.result // channels.groups
    multiplied = not transposed and int(weight.shape[1]) != channels.each

    def element(block: Any, *rest: Any) -> Any:
        *outer, k, last, lane = rest
        o = block * lanes + lane
        where = [*outer, last]
        if transposed:
            value = weight(o // made * channels.each + k, o % made, *where)
        elif multiplied:
            each = int(weight.shape[1])
            value = weight(o // each, o % each, *where)
        else:
            value = weight(o, k, *where)
        zero = tirx.const(0, weight.dtype)
        return value if channels.result % lanes == 0 else tirx.if_then_else(o < channels.result, value, zero)

    return te.compute(
        (found.blocks, *taps[:-1], channels.each, taps[-1], lanes),
        element,
        name="packed",
        attrs={KIND: "to_blocks"},
    )


def _sums(found: _BlockedConvolution, data: Any, weight: Any, *, padded: bool) -> Any:
    """The convolution as a tensor expression."""
    channels, lanes = found.channels, found.lanes
    k = te.reduce_axis((0, channels.each), "k")
    taps = [te.reduce_axis((0, axis.taps), f"tap{at}") for at, axis in enumerate(found.axes)]
    zero = tirx.const(0, found.dtype)

    def element(n: Any, block: Any, *rest: Any) -> Any:
        *places, lane = rest
        inside: list[Any] = []
        seen: list[Any] = []
        for axis, tap, place in zip(found.axes, taps, places, strict=True):
            if axis.transposed:
                at = place + axis.before - tap * axis.dilation
                inside += [at >= 0, at % axis.stride == 0, at // axis.stride < axis.size]
                seen.append(at // axis.stride)
            else:
                at = place * axis.stride - axis.before + tap * axis.dilation
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
        over = [*taps[:-1], k, taps[-1]]
        if found.axes[0].transposed:
            return te.sum(tirx.if_then_else(tirx.all(*inside), value * factor, zero), axis=over)
        value = tirx.if_then_else(tirx.all(*inside), value, zero) if inside else value
        return te.sum(value * factor, axis=over)

    image = [axis.result for axis in found.axes]
    attrs = {
        KIND: "convolution",
        AXES: written(found.axes),
        PADDED: int(padded and not found.axes[0].transposed),
        CHANNELS: [channels.groups, channels.data, channels.result, channels.axis],
    }
    return te.compute((found.shape[0], found.blocks, *image, lanes), element, name="convolution", attrs=attrs)
