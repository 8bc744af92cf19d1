"""Import Fourier transforms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import Node, normalize_axis
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import (
    Value,
    check_made,
    constant,
    count_up,
    op,
    ops,
)


def transform(real: Value, imaginary: Value, *, inverse: bool) -> tuple[Value, Value]:
    """Transform the last axis, in float64: sums that should be 0 have an error that float32 shows."""
    dtype = real.dtype
    parts = ops("dft", real.cast("float64"), imaginary.cast("float64"), inverse=inverse)
    return parts[0].cast(dtype), parts[1].cast(dtype)


def _resized(value: Value, length: int) -> Value:
    """Cut the last axis, or append zeros."""
    size = value.shape[-1]
    if not isinstance(size, int):
        raise UnsupportedError("the length of its axis must be known", "fix it with shapes={...}")
    if size >= length:
        return shapes.slice_axis(value, value.rank - 1, 0, length)
    widths = tuple((0, 0 if axis < value.rank - 1 else length - int(size)) for axis in range(value.rank))
    return op("nn.pad", value, value.like(0), pad_width=widths)


def _split_parts(data: Value) -> tuple[Value, Value]:
    """Return the real and the imaginary parts, which lie in the last axis."""
    last = data.rank - 1
    real = shapes.squeeze(shapes.slice_axis(data, last, 0, 1), [last])
    if data.shape[last] == 1:
        return real, op("zeros_like", real)
    return real, shapes.squeeze(shapes.slice_axis(data, last, 1, 2), [last])


def _join_parts(real: Value, imaginary: Value) -> Value:
    last = real.rank
    return op("concatenate", [shapes.unsqueeze(real, [last]), shapes.unsqueeze(imaginary, [last])], axis=last)


def _mirrored(real: Value, imaginary: Value, length: int) -> tuple[Value, Value]:
    """Return the whole spectrum of a real signal from its first half."""
    half = length // 2 + 1
    real, imaginary = _resized(real, half), _resized(imaginary, half)
    check_made(half)
    back = np.arange(length - half, 0, -1)
    last = real.rank - 1
    if not len(back):
        return real, imaginary
    at = constant(back, "int64")
    tail = [op("take", part, at, axis=last, mode="clip") for part in (real, -imaginary)]
    return op("concatenate", [real, tail[0]], axis=last), op("concatenate", [imaginary, tail[1]], axis=last)


@operator("DFT")
def _dft(node: Node) -> Value:
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


def _shape_along(node: Node, axis: int) -> tuple[int, ...] | None:
    declared = node.output_shape()
    shape = shapes.static_shape(node[0])
    length = shape[axis]
    if node.get(1) is not None:
        known = node[1].known
        length = int(known.reshape(-1)[0]) if known is not None else (declared or shape)[axis]
    inverse, onesided = bool(node.integer("inverse")), bool(node.integer("onesided"))
    if node.get(1) is None and inverse and onesided:
        length = 2 * (length - 1)
    elif onesided and not inverse and (node.get(1) is None or node[1].known is not None):
        length = length // 2 + 1
    shape[axis], shape[-1] = length, 1 if inverse and onesided else 2
    return tuple(shape)


def _dft_along(node: Node, axis: int) -> Value:
    data = node[0]
    if axis == data.rank - 1:
        raise UnsupportedError("the last axis holds the parts of the numbers, and cannot be transformed")
    inverse, onesided = bool(node.integer("inverse")), bool(node.integer("onesided"))
    real, imaginary = _split_parts(data)
    order = [at for at in range(real.rank) if at != axis] + [axis]
    back = sorted(range(real.rank), key=lambda at: order[at])
    real, imaginary = shapes.transpose(real, order), shapes.transpose(imaginary, order)
    size = real.shape[-1]
    if not isinstance(size, int):
        raise UnsupportedError("the length of its axis must be known", "fix it with shapes={...}")
    length = int(size) if not (inverse and onesided) else 2 * (int(size) - 1)
    if node.get(1) is not None:
        declared = node.output_shape()

        def guess() -> np.ndarray | None:
            if declared is None or (onesided and not inverse):
                return None
            return np.array(declared[axis])

        length = node.static(1, guess)[0]
    if inverse and onesided:
        real, imaginary = _mirrored(real, imaginary, length)
        result, _ = transform(real, imaginary, inverse=True)
        return shapes.unsqueeze(shapes.transpose(result, back), [result.rank])
    parts = list(transform(_resized(real, length), _resized(imaginary, length), inverse=inverse))
    if onesided:
        parts = [_resized(part, length // 2 + 1) for part in parts]
    return _join_parts(*(shapes.transpose(part, back) for part in parts))


@operator("STFT")
def _stft(node: Node) -> Value:
    data, window = node[0], node.get(2)
    declared = node.output_shape()
    batch, length, _ = shapes.static_shape(data)
    onesided = bool(node.integer("onesided", 1))
    if window is not None:
        size = shapes.static_shape(window)[0]
        if node.get(3) is not None:
            node.static(3, lambda: np.array(size))
    else:
        size = node.static(
            3, lambda: declared and np.array(2 * (declared[2] - 1) if onesided else declared[2])
        )[0]
    real, imaginary = _split_parts(data)

    def frames_of(step: int) -> Value:
        count = 1 + (length - size) // step
        check_made(count, size)
        at = count_up(count)[:, None] * step + count_up(size)[None, :]
        parts = [op("take", part, constant(at, "int64"), axis=1, mode="clip") for part in (real, imaginary)]
        if window is not None:
            parts = [part * window for part in parts]
        both = list(transform(parts[0], parts[1], inverse=False))
        if onesided:
            both = [_resized(part, size // 2 + 1) for part in both]
        return _join_parts(both[0], both[1])

    if node[1].known is not None:
        return frames_of(int(node[1].known.reshape(-1)[0]))
    if declared is None:
        raise node.unknown(1)
    steps = [step for step in range(1, length + 1) if 1 + (length - size) // step == declared[1]][:32]
    assert batch >= 0
    return node.choose(1, steps, lambda step: frames_of(int(str(step))))
