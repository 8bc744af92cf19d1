"""Import Fourier transforms.

The standard: https://onnx.ai/onnx/operators/onnx__DFT.html
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode, normalize_axis
from nnmagic.importers.onnx.operators.slicing import positions
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import Value, check_new_array, constant, count_up, op, with_shape
from nnmagic.relay.ops.dims import add, floor_divide, subtract


def _transform(data: Value, axis: int, *, inverse: bool, onesided: bool) -> Value:
    """Transform along an axis; the last one holds real parts, or both parts.

    In float64: sums that should be 0 have an error that float32 shows.
    """
    wide, last = data.cast("float64"), data.rank - 1
    if onesided and not inverse and data.shape[last] == 1:
        return op("numpy.rfft", shapes.squeeze(wide, [last]), axis=axis, pairs=True).cast(data.dtype)
    spectrum = op("numpy.fft", _pairs(wide), axis=axis, inverse=inverse, pairs=True).cast(data.dtype)
    length = data.shape[axis]
    return _resize(spectrum, axis, _static(length) // 2 + 1) if onesided else spectrum


def _pairs(data: Value) -> Value:
    """Return both parts; those of real numbers have zeros."""
    last = data.rank - 1
    return op("concatenate", [data, op("zeros_like", data)], axis=last) if data.shape[last] == 1 else data


def _static(size: object) -> int:
    if not isinstance(size, int):
        raise UnsupportedError("the length of its axis must be known", "fix it with shapes={...}")
    return int(size)


def _resize(value: Value, axis: int, length: int) -> Value:
    """Cut an axis, or append zeros."""
    size = _static(value.shape[axis])
    if size >= length:
        return shapes.slice_axis(value, axis, 0, length)
    widths = tuple((0, length - size if index == axis else 0) for index in range(value.rank))
    return op("nn.pad", value, value.like(0), pad_width=widths)


@operator("DFT")
def _dft(node: OnnxNode) -> Value:
    data = node[0]
    by_input = node.since >= 20
    if not by_input:
        return _dft_along(node, normalize_axis(node.integer("axis", 1), data.rank))
    axis = node.get(2)
    if axis is None:
        return _dft_along(node, data.rank - 2)
    if axis.known is not None:
        return _dft_along(node, normalize_axis(int(axis.known.reshape(-1)[0]), data.rank))
    declared = node.output_shape()
    if declared is None:
        raise node.unknown(2)
    fits = [at for at in range(data.rank - 1) if _shape_along(node, at) == declared]
    counted = replace(node, inputs=[*node.inputs[:2], (axis < 0).choose(axis + data.rank, axis)])
    return counted.choose(2, fits, lambda at: _dft_along(node, int(str(at))))


def _shape_along(node: OnnxNode, axis: int) -> tuple[int, ...] | None:
    declared = node.output_shape()
    shape = shapes.static_shape(node[0])
    length = shape[axis]
    if node.get(1) is not None:
        length_value = node[1].known
        length = int(length_value.reshape(-1)[0]) if length_value is not None else (declared or shape)[axis]
    inverse, onesided = bool(node.integer("inverse")), bool(node.integer("onesided"))
    if node.get(1) is None and inverse and onesided:
        length = 2 * (length - 1)
    elif onesided and not inverse and (node.get(1) is None or node[1].known is not None):
        length = length // 2 + 1
    shape[axis], shape[-1] = length, 1 if inverse and onesided else 2
    return tuple(shape)


def _dft_along(node: OnnxNode, axis: int) -> Value:
    data = node[0]
    if axis == data.rank - 1:
        raise UnsupportedError("the last axis holds the parts of the numbers, and cannot be transformed")
    inverse, onesided = bool(node.integer("inverse")), bool(node.integer("onesided"))
    if node.get(1) is None and not onesided:
        return _transform(data, axis, inverse=inverse, onesided=False)
    if node.get(1) is None and not inverse and data.shape[-1] == 1:
        return _transform(data, axis, inverse=False, onesided=True)
    size = _static(data.shape[axis])
    length = int(size) if not (inverse and onesided) else 2 * (int(size) - 1)
    if node.get(1) is not None:
        declared = node.output_shape()

        def guess() -> np.ndarray | None:
            if declared is None or (onesided and not inverse):
                return None
            return np.array(declared[axis])

        length = node.static(1, guess)[0]
    if inverse and onesided:
        check_new_array(length)
        half = _pairs(_resize(data, axis, length // 2 + 1)).cast("float64")
        result = op("numpy.irfft", half, n=length, axis=axis, pairs=True).cast(data.dtype)
        return shapes.unsqueeze(result, [data.rank - 1])
    return _transform(_resize(data, axis, length), axis, inverse=inverse, onesided=onesided)


@operator("STFT")
def _stft(node: OnnxNode) -> Value:
    data, window = node[0], node.get(2)
    data = shapes.unsqueeze(data, [2]) if data.rank == 2 else data
    declared = node.output_shape()
    length = data.shape[1]
    onesided = bool(node.integer("onesided", 1))
    if window is not None:
        size = shapes.static_shape(window)[0]
        if node.get(3) is not None:
            node.static(3, lambda: np.array(size))
    else:
        size = node.static(
            3, lambda: declared and np.array(2 * (declared[2] - 1) if onesided else declared[2])
        )[0]

    def frames_of(step: int) -> Value:
        count = add(floor_divide(subtract(length, size), step), 1)
        if isinstance(count, int):
            check_new_array(int(count), size)
        room = shapes.size_along(data, 1) - size
        node.block.check(room >= 0, f"STFT: a frame of {size} elements does not fit the signal")
        firsts = positions(op("floor_divide", room, room.like(step)) + 1, count) * step
        at = shapes.unsqueeze(firsts, [1]) + constant(count_up(size), "int64")
        frames = op("take", data, with_shape(at, [count, size]), axis=1, mode="clip")
        if window is not None:
            frames = frames * shapes.unsqueeze(window, [1])
        return _transform(frames, 2, inverse=False, onesided=onesided)

    if node[1].known is not None:
        return frames_of(int(node[1].known.reshape(-1)[0]))
    if declared is None or not isinstance(length, int):
        raise node.unknown(1)
    steps = [step for step in range(1, length + 1) if 1 + (length - size) // step == declared[1]][:32]
    return node.choose(1, steps, lambda step: frames_of(int(str(step))))
