"""Say what operators compute that make, arrange and index tensors, in NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from nnmagic.relay.reference.eval_call import Array, EvalCall, Rule, plain


def _reshape(call: EvalCall, data: Array, *_like: Array) -> Any:
    return data.reshape(call.shape)


def _broadcast(call: EvalCall, data: Array, *_like: Array) -> Any:
    return np.broadcast_to(data, call.shape)


def _arange(call: EvalCall, start: Array, stop: Array, step: Array) -> Any:
    count = max(0, int(np.ceil((stop.astype(float) - start) / step)))
    return (start + np.arange(count) * step).astype(call.dtype)


def _one_hot(call: EvalCall, indices: Array, on: Array, off: Array, *depth: Array) -> Any:
    size = int(depth[0]) if depth else call["depth"]
    axis = call["axis"] % (indices.ndim + 1)
    classes = np.arange(size).reshape([-1 if number == axis else 1 for number in range(indices.ndim + 1)])
    return np.where(np.expand_dims(indices, axis) == classes, on, off)


def slices(
    data: Array, call: EvalCall, begin: Any, end: Any, strides: Any, axes: Any = None
) -> tuple[slice, ...]:
    """Return the slices of ``strided_slice``; one that goes down to the first element has no end."""
    index = [slice(None)] * data.ndim
    for number, axis in enumerate(axes if axes is not None else range(max(len(begin), len(end)))):
        size = data.shape[axis]
        step = int(strides[number]) if number < len(strides) else 1
        first = int(begin[number]) if number < len(begin) else 0
        last = int(end[number]) if number < len(end) else size
        if call.attrs.get("slice_mode") == "size":
            first = first + size if first < 0 else first
            index[axis] = slice(first, None if last < 0 else first + last)
        else:
            index[axis] = slice(first, None if step < 0 and last < -size else last, step)
    return tuple(index)


def _strided_slice(call: EvalCall, data: Array) -> Any:
    return data[slices(data, call, call["begin"], call["end"], call["strides"] or (), call["axes"])]


def _strided_set(call: EvalCall, data: Array, values: Array, begin: Array, end: Array, strides: Array) -> Any:
    changed = data.copy()
    changed[slices(data, call, begin, end, strides)] = values
    return changed


def _take(call: EvalCall, data: Array, indices: Array) -> Any:
    axis, batch = call["axis"], call["batch_dims"]
    if axis is None:
        data, axis = data.reshape(-1), 0
    axis, size = axis % data.ndim, data.shape[axis]
    if call["mode"] == "wrap":
        indices = np.mod(indices, size)
    elif call["mode"] == "clip":
        indices = np.clip(indices, 0, size - 1)
    elif ((indices < 0) | (indices >= size)).any():  # a cell has added the size to a negative index
        wrong = int(indices[(indices < 0) | (indices >= size)].flat[0])
        wrong = wrong - size if wrong < 0 else wrong
        raise IndexError(f"index {wrong} is out of range for an axis of size {size}")
    if not batch:
        return np.take(data, indices, axis=axis)
    batch += indices.ndim if batch < 0 else 0
    rows = [np.take(data[at], indices[at], axis=axis - batch) for at in np.ndindex(data.shape[:batch])]
    return np.asarray(rows).reshape(call.shape)


def _gather_nd(call: EvalCall, data: Array, indices: Array) -> Any:
    batch = call["batch_dims"]
    if not batch:
        return data[tuple(indices)]
    moved = np.moveaxis(indices, 0, batch) if indices.ndim > batch else indices
    rows = [data[at][tuple(moved[at])] for at in np.ndindex(data.shape[:batch])]
    return np.asarray(rows).reshape(call.shape)


def _split(call: EvalCall, data: Array) -> tuple[Array, ...]:
    where = call["indices_or_sections"]
    sections = np.split(data, list(where) if isinstance(where, tuple) else where, axis=call["axis"])
    return tuple(sections)


def _slice_like(call: EvalCall, data: Array, like: Array) -> Any:
    axes = {axis % data.ndim for axis in call["axes"] or range(data.ndim)}
    return data[tuple(slice(like.shape[axis]) if axis in axes else slice(None) for axis in range(data.ndim))]


def _sequence_mask(call: EvalCall, data: Array, lengths: Array) -> Any:
    axis = call["axis"]
    steps = np.arange(data.shape[axis])
    keep = steps[:, None] < lengths if axis == 0 else steps < lengths[:, None]
    return np.where(keep.reshape(*keep.shape, *[1] * (data.ndim - 2)), data, call["mask_value"])


def _reverse_sequence(call: EvalCall, data: Array, lengths: Array) -> Any:
    changed = data.copy()
    for row, length in enumerate(lengths):
        at: list[Any] = [slice(None)] * data.ndim
        back = list(at)
        at[call["batch_axis"]] = back[call["batch_axis"]] = row
        at[call["seq_axis"]] = np.arange(length)
        back[call["seq_axis"]] = np.arange(length)[::-1]
        changed[tuple(at)] = data[tuple(back)]
    return changed


def _scatter_elements(call: EvalCall, data: Array, indices: Array, updates: Array) -> Any:
    axis, changed = call["axis"] % data.ndim, data.copy()
    for at in np.ndindex(indices.shape):
        target = (*at[:axis], int(indices[at]), *at[axis + 1 :])
        changed[target] = _REDUCTIONS[call["reduction"]](changed[target], updates[at])
    return changed


def _scatter_nd(call: EvalCall, data: Array, indices: Array, updates: Array) -> Any:
    changed = data.copy()
    for at in np.ndindex(indices.shape[1:]):
        target = tuple(int(part) for part in np.moveaxis(indices, 0, -1)[at])
        changed[target] = _REDUCTIONS[call["mode"]](changed[target], updates[at])
    return changed


_REDUCTIONS: dict[str, Any] = {
    "update": lambda _old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "mean": lambda old, new: (old + new) / 2,
}


def _axes_of(layout: str) -> list[tuple[str, int]]:
    """Return the letters of a layout, each with the size of a blocked axis, else 0."""
    return [(letter, int(size or 0)) for size, letter in re.findall(r"(\d*)([A-Za-z])", layout)]


def to_layout(data: Array, source: str, target: str) -> Any:
    """Return a tensor of one layout, such as ``NCHW4c``, in another."""
    if source == target:
        return data
    letters = [letter for letter, _ in _axes_of(source)]
    primal = [letter for letter in letters if letter.isupper()]
    order = [letters.index(each) for axis in primal for each in (axis, axis.lower()) if each in letters]
    sizes = dict(zip(letters, data.shape, strict=True))
    extents = [sizes[axis] * sizes.get(axis.lower(), 1) for axis in primal]
    data = data.transpose(order).reshape(extents)
    wanted = _axes_of(target)
    blocks = {letter.upper(): size for letter, size in wanted if letter.islower()}
    split: list[int] = []
    names: list[str] = []
    for axis, size in zip(primal, extents, strict=True):
        split += [size // blocks[axis], blocks[axis]] if axis in blocks else [size]
        names += [axis, axis.lower()] if axis in blocks else [axis]
    return data.reshape(split).transpose([names.index(letter) for letter, _ in wanted])


def _dyn_reshape(call: EvalCall, data: Array, shape: Array) -> Any:
    copies = not call["allowzero"]
    wanted = [data.shape[axis] if size == 0 and copies else int(size) for axis, size in enumerate(shape)]
    return data.reshape(wanted)


def _pad(call: EvalCall, data: Array, widths: Any, value: Array) -> Any:
    given = {"constant_values": value} if call["pad_mode"] == "constant" else {}
    return np.pad(data, widths, call["pad_mode"], **given)


def _space_to_depth(call: EvalCall, data: Array) -> Any:
    x, size = to_layout(data, call["layout"], "NCHW"), call["block_size"]
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // size, size, w // size, size).transpose(0, 3, 5, 1, 2, 4)
    return to_layout(x.reshape(n, c * size * size, h // size, w // size), "NCHW", call["layout"])


def _depth_to_space(call: EvalCall, data: Array) -> Any:
    x, size = to_layout(data, call["layout"], "NCHW"), call["block_size"]
    n, c, h, w = x.shape
    deep = c // size**2
    if call["mode"] == "DCR":
        x = x.reshape(n, size, size, deep, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        x = x.reshape(n, deep, size, size, h, w).transpose(0, 1, 4, 2, 5, 3)
    return to_layout(x.reshape(n, deep, h * size, w * size), "NCHW", call["layout"])


def _sliding_window(call: EvalCall, data: Array) -> Any:
    axis, window, strides = call["axis"], call["window_shape"], call["strides"]
    axes = tuple(range(axis, axis + len(window)))
    views = np.lib.stride_tricks.sliding_window_view(data, window, axis=axes)
    steps = [slice(None)] * views.ndim
    for number, stride in enumerate(strides):
        steps[axis + number] = slice(None, None, stride)
    return views[tuple(steps)]


def _dilate(call: EvalCall, data: Array) -> Any:
    out = np.full(call.shape, call["dilation_value"], data.dtype)
    out[tuple(slice(None, None, stride) for stride in call["strides"])] = data
    return out


def collapse_sum(call: EvalCall, data: Array, *_like: Array) -> Any:
    """Sum the axes along which a tensor of the result's shape was broadcast."""
    shape = call.shape
    extra = data.ndim - len(shape)
    data = data.sum(axis=tuple(range(extra)), dtype=data.dtype)
    axes = tuple(axis for axis, size in enumerate(shape) if size == 1 and data.shape[axis] != 1)
    return data.sum(axis=axes, dtype=data.dtype, keepdims=True)


def _window(_call: EvalCall, x: Array, begin: Array, lengths: Array) -> Any:
    return x[tuple(map(slice, begin.tolist(), (begin + lengths).tolist()))]


RULES: dict[str, Rule] = {
    "zeros": lambda call: np.zeros(call.shape, call.dtype),
    "ones": lambda call: np.ones(call.shape, call.dtype),
    "zeros_like": plain(np.zeros_like),
    "ones_like": plain(np.ones_like),
    "full": _broadcast,
    "full_like": lambda _given, data, value: np.full_like(data, value),
    "broadcast_to": _broadcast,
    "broadcast_to_like": _broadcast,
    "arange": _arange,
    "one_hot": _one_hot,
    "trilu": lambda call, x, k: np.triu(x, int(k)) if call["upper"] else np.tril(x, int(k)),
    "reshape": _reshape,
    "contrib_reverse_reshape": _reshape,
    "reshape_like": _reshape,
    "squeeze": _reshape,
    "expand_dims": _reshape,
    "nn.batch_flatten": _reshape,
    "transpose": lambda call, x: np.transpose(x, call["axes"] or None),
    "reverse": lambda call, x: np.flip(x, call["axis"]),
    "reverse_sequence": _reverse_sequence,
    "layout_transform": lambda call, x: to_layout(x, call["src_layout"], call["dst_layout"]),
    "sliding_window": _sliding_window,
    "shape_of": lambda call, x: np.asarray(x.shape, call.dtype),
    "ndarray_size": lambda call, x: np.asarray(x.size, call.dtype),
    "collapse_sum_like": collapse_sum,
    "collapse_sum_to": collapse_sum,
    "concatenate": lambda call, tensors: np.concatenate(tensors, call["axis"]),
    "stack": lambda call, tensors: np.stack(tensors, call["axis"]),
    "split": _split,
    "tile": lambda call, x: np.tile(x, call["reps"]),
    "repeat": lambda call, x: np.repeat(x, call["repeats"], call["axis"]),
    "meshgrid": lambda call, tensors: tuple(np.meshgrid(*tensors, indexing=call["indexing"])),
    "take": _take,
    "strided_slice": _strided_slice,
    "strided_set": _strided_set,
    "gather": lambda call, x, index: np.take_along_axis(x, index.astype(np.int64), call["axis"]),
    "gather_nd": _gather_nd,
    "adv_index": lambda _given, tensors: tensors[0][tuple(tensors[1:])],
    "argwhere": plain(lambda x: np.argwhere(x != 0)),
    "slice_like": _slice_like,
    "sequence_mask": _sequence_mask,
    "unravel_index": lambda _given, x, shape: np.asarray(np.unravel_index(x, tuple(shape))),
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
    "nn.pad": lambda call, x, value: _pad(call, x, call["pad_width"], value),
    "nn.mirror_pad": lambda call, x: np.pad(x, call["pad_width"], mode=call["mode"].lower()),
    "nn.space_to_depth": _space_to_depth,
    "nn.depth_to_space": _depth_to_space,
    "nn.dilate": _dilate,
    "dyn.broadcast_to": lambda _given, x, shape: np.broadcast_to(x, tuple(shape)),
    "dyn.full": lambda _given, x, shape: np.full(tuple(shape), x),
    "dyn.zeros": lambda call, shape: np.zeros(tuple(shape), call.dtype),
    "dyn.nn.pad": _pad,
    "dyn.one_hot": _one_hot,
    "dyn.reshape": _dyn_reshape,
    "dyn.squeeze": lambda _given, x, axes: np.squeeze(x, tuple(int(axis) for axis in axes)),
    "dyn.strided_slice": lambda call, x, begin, end, strides: x[slices(x, call, begin, end, strides)],
    "python.window": _window,
    "dyn.tile": lambda _given, x, reps: np.tile(x, tuple(reps)),
}
