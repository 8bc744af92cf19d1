"""Say what other operators compute, in NumPy: Fourier transforms, sets, blocks of images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnmagic.relay.complex_numbers.pairs import complex_of, pairs_of
from nnmagic.relay.ops.declaration import OPERATORS, RelationError
from nnmagic.relay.reference.eval_call import Array, EvalCall, Rule
from nnmagic.relay.reference.nn import last_axes
from nnmagic.relay.reference.shapes import to_layout
from nnmagic.relay.types import TensorType


def _dft(call: EvalCall, real: Array, imaginary: Array) -> Any:
    values = real.astype(np.float64) + 1j * imaginary.astype(np.float64)
    result = np.fft.ifft(values) if call["inverse"] else np.fft.fft(values)
    return result.real.astype(real.dtype), result.imag.astype(real.dtype)


def _transform(name: str, *parameters: str) -> Rule:
    """Return the rule of a transform of NumPy's with these attributes."""

    def rule(call: EvalCall, data: Array) -> Any:
        inverse = "i" if call.attrs.get("inverse") else ""
        values = complex_of(np.ascontiguousarray(data)) if call["pairs"] and name != "rfft" else data
        result = getattr(np.fft, inverse + name)(
            values, **{parameter: call[parameter] for parameter in parameters}
        )
        is_paired = call["pairs"] and np.iscomplexobj(result)
        return pairs_of(np.ascontiguousarray(result)) if is_paired else result

    return rule


def _stft(call: EvalCall, data: Array, window: Array) -> Any:
    """Return windowed transforms of overlapping frames: (batch, frequency, frame, part)."""
    size = call["n_fft"]
    hop = call["hop_length"] if call["hop_length"] > 0 else size // 4
    width = call["win_length"] if call["win_length"] > 0 else size
    rows = size // 2 + 1 if call["onesided"] else size
    signal = data.reshape(-1, data.shape[-1])
    frames = (signal.shape[1] - size) // hop + 1
    parts = np.stack([signal[:, at * hop : at * hop + width] * window for at in range(frames)], axis=1)
    turn = np.float32(2 * math.pi) * np.outer(np.arange(rows), np.arange(width)).astype(np.float32)
    angle = turn / np.float32(width)
    waves = [np.cos(angle).astype(data.dtype), -np.sin(angle).astype(data.dtype)]
    result = np.stack([np.einsum("bfn,kn->bkf", parts, wave) for wave in waves], axis=-1)
    divisor = np.float32(math.sqrt(size) if call["normalized"] else 1).astype(data.dtype)
    return (result / divisor).reshape(call.shape)


def _unique(call: EvalCall, data: Array) -> Any:
    """Return the values, where each first occurs, which one each element is, their number, and counts.

    As in Relay the results are as long as the data, and 0 behind the values.
    """
    values, first, inverse, counts = np.unique(
        data, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    inverse = inverse.reshape(-1)
    if not call["sorted"]:
        order = np.argsort(first, kind="stable")
        values, first, counts = values[order], first[order], counts[order]
        inverse = np.argsort(order)[inverse]

    def long(array: Array) -> Any:
        return np.concatenate((array, np.zeros(len(data) - len(array), array.dtype)))

    outputs = [long(values), long(first), inverse, np.array([len(values)])]
    return (*outputs, long(counts)) if call["return_counts"] else tuple(outputs)


def _matrix_set_diag(call: EvalCall, data: Array, diagonal: Array) -> Any:
    """Replace diagonals; those that are shorter than the longest are aligned left or right in their rows."""
    first, last = call["k1"], call["k2"]
    rows, columns = data.shape[-2:]
    result, longest = data.copy(), diagonal.shape[-1]
    for k in range(first, last + 1):
        length = min(rows + min(k, 0), columns - max(k, 0))
        right = call["super_diag_right_align"] if k >= 0 else call["sub_diag_right_align"]
        shift = longest - length if right else 0
        values = diagonal if first == last else diagonal[..., last - k, :]
        at = np.arange(max(length, 0))
        result[..., at - min(k, 0), at + max(k, 0)] = values[..., shift : shift + max(length, 0)]
    return result


def _sparse_to_dense(call: EvalCall, indices: Array, values: Array, default: Array) -> Any:
    shape = tuple(int(dim) for dim in call["output_shape"])
    result = np.full(shape, default.astype(values.dtype))
    rows = indices.reshape(-1, len(shape)) if indices.ndim < 2 and len(shape) > 1 else indices
    for number, row in enumerate(np.atleast_1d(rows)):
        where = tuple(np.clip(np.atleast_1d(row), 0, np.array(shape) - 1).tolist())
        result[where] = values[number] if values.ndim else values
    return result


def _fifo_buffer(call: EvalCall, data: Array, buffer: Array) -> Any:
    """Shift the buffer by the data's length and append the data."""
    axis = call["axis"] % data.ndim
    joined = np.concatenate((buffer, data), axis=axis)
    start = data.shape[axis]
    return np.take(joined, np.arange(start, start + buffer.shape[axis]), axis=axis)


def _pairs(call: EvalCall, name: str) -> tuple[list[int], list[tuple[int, int]]]:
    block = [int(length) for length in call["block_shape"]]
    return block, [(int(before), int(after)) for before, after in call[name]]


def _space_to_batch(call: EvalCall, data: Array) -> Any:
    """Turn each position in a block into an image of the batch; positions vary slowest."""
    block, paddings = _pairs(call, "paddings")
    count = len(block)
    rest = [(0, 0)] * (data.ndim - 1 - count)
    wide = np.pad(data, [(0, 0), *paddings, *rest], constant_values=data.dtype.type(call["pad_value"]))
    sizes = [size // length for size, length in zip(wide.shape[1:], block, strict=False)]
    split = [part for pair in zip(sizes, block, strict=True) for part in pair]
    blocks = wide.reshape(wide.shape[0], *split, *wide.shape[1 + count :])
    inside = [2 * axis + 2 for axis in range(count)]
    outside = [2 * axis + 1 for axis in range(count)]
    others = range(2 * count + 1, blocks.ndim)
    return blocks.transpose(*inside, 0, *outside, *others).reshape(-1, *sizes, *wide.shape[1 + count :])


def _batch_to_space(call: EvalCall, data: Array) -> Any:
    """Undo ``space_to_batch_nd``, and crop."""
    block, crops = _pairs(call, "crops")
    count = len(block)
    batch, sizes = data.shape[0] // math.prod(block), data.shape[1 : 1 + count]
    blocks = data.reshape(*block, batch, *data.shape[1:])
    order = [part for axis in range(count) for part in (count + 1 + axis, axis)]
    wide = [size * length for size, length in zip(sizes, block, strict=True)]
    others = range(2 * count + 1, blocks.ndim)
    whole = blocks.transpose(count, *order, *others).reshape(batch, *wide, *data.shape[1 + count :])
    cut = [slice(before, size - after) for (before, after), size in zip(crops, wide, strict=True)]
    where: tuple[Any, ...] = (slice(None), *cut)
    return whole[where]


def _pool_grad(*, average: bool) -> Rule:
    """Give each cotangent to the elements of its window: in equal parts, or to the first of the largest."""

    def rule(call: EvalCall, grad: Array, data: Array) -> Any:
        x = to_layout(data, call["layout"], "NCHW")
        cotangent = to_layout(grad, call["layout"], "NCHW")
        sides = list(call["padding"])
        sides = sides * 4 if len(sides) == 1 else sides * 2 if len(sides) == 2 else sides
        result = np.zeros(x.shape, x.dtype)
        for at in np.ndindex(cotangent.shape[2:]):
            starts = [i * step - before for i, step, before in zip(at, call["strides"], sides, strict=False)]
            spans = [
                (max(start, 0), min(start + size, limit))
                for start, size, limit in zip(starts, call["pool_size"], x.shape[2:], strict=True)
            ]
            window: tuple[Any, ...] = (..., *(slice(*span) for span in spans))
            pooled, flows = x[window], last_axes(cotangent, at)
            if not pooled.size:
                continue
            if average:
                inside = pooled.shape[2] * pooled.shape[3]
                share = math.prod(call["pool_size"]) if call["count_include_pad"] else inside
                result[window] += (flows / share)[..., np.newaxis, np.newaxis]
                continue
            flat = pooled.reshape(*pooled.shape[:2], -1)
            chosen = np.arange(flat.shape[-1]) == flat.argmax(axis=-1)[..., np.newaxis]
            result[window] += (chosen * flows[..., np.newaxis]).reshape(pooled.shape)
        return to_layout(result, "NCHW", call["layout"])

    return rule


def _require(call: EvalCall, data: Array, condition: Array) -> Any:
    if not condition.all():
        raise ValueError(call["message"])
    return data


def _sized(call: EvalCall, data: Array, like: Array) -> Any:
    types = [TensorType(each.shape, str(each.dtype)) for each in (data, like)]
    try:
        OPERATORS["python.sized"].check_shapes(types, call.attrs, nonempty=True)
    except RelationError as error:
        raise ValueError(error.message) from None
    return data


RULES: dict[str, Rule] = {
    "python.require": _require,
    "python.sized": _sized,
    "dft": _dft,
    "numpy.fft": _transform("fft", "axis", "norm"),
    "numpy.rfft": _transform("rfft", "axis", "norm"),
    "numpy.irfft": _transform("irfft", "n", "axis", "norm"),
    "stft": _stft,
    "unique": _unique,
    "matrix_set_diag": _matrix_set_diag,
    "sparse_to_dense": _sparse_to_dense,
    "nn.fifo_buffer": _fifo_buffer,
    "nn.space_to_batch_nd": _space_to_batch,
    "nn.batch_to_space_nd": _batch_to_space,
    "nn.avg_pool2d_grad": _pool_grad(average=True),
    "nn.max_pool2d_grad": _pool_grad(average=False),
}
