"""Export operators that read elements at indices, or put elements there.

The standard: https://onnx.ai/onnx/operators/onnx__GatherND.html
"""

from __future__ import annotations

import numpy as np

from nnmagic.exporters.onnx.errors import ExportRefusalError
from nnmagic.exporters.onnx.registry import operator
from nnmagic.exporters.onnx.sites import ExportCall


@operator("python.require", note="the condition is not checked")
@operator("python.sized", note="the sizes are not checked")
def _require(site: ExportCall) -> str:
    return site.args[0]


@operator("take", note="without batch dimensions")
def _take(site: ExportCall) -> str:
    if site.integer("batch_dims"):
        raise ExportRefusalError("ONNX's Gather has no batch dimensions")
    data, axis = site.args[0], 0
    if site.attrs["axis"] is None:
        data, size = site.reshape(data, [-1]), site.node("Size", data)
    else:
        axis = site.axis()
        size = site.reshape(site.vector([site.size(axis)]), [])
    return site.node("Gather", data, _indices(site, size), axis=axis)


def _indices(site: ExportCall, size: str) -> str:
    """Return the indices of a take as its mode wants them."""
    static, length = site.known(1), site.writer.constants.get(size)
    indices = site.operand(1, "int64")
    if static is not None and length is not None and ((static >= 0) & (static < length)).all():
        return indices
    if site.attrs["mode"] == "wrap":
        return site.node("Mod", indices, size)
    if site.attrs["mode"] == "clip":
        last = site.node("Sub", size, site.constant(1, "int64"))
        return site.node("Clip", indices, site.constant(0, "int64"), last)
    return indices


@operator("gather")
def _gather(site: ExportCall) -> str:
    return site.node("GatherElements", site.args[0], site.operand(1, "int64"), axis=site.axis())


@operator("gather_nd")
def _gather_nd(site: ExportCall) -> str:
    indices = _coordinates_last(site, 1)
    return site.node("GatherND", site.args[0], indices, batch_dims=site.integer("batch_dims"))


def _coordinates_last(site: ExportCall, index: int) -> str:
    """Return indices whose coordinates lie along the last axis, as ONNX wants them."""
    rank = len(site.shape(index))
    return site.transpose(site.operand(index, "int64"), [*range(1, rank), 0])


@operator("adv_index")
def _adv_index(site: ExportCall) -> str:
    names = [site.operand(index, "int64") for index in range(1, len(site.args))]
    rank = max(len(site.shape(index)) for index in range(1, len(site.args)))
    if len(names) > 1:
        zero = names[0]
        for name in names[1:]:
            zero = site.node("Add", zero, name)
        shape = site.node("Shape", zero)
        names = [site.node("Expand", name, shape) for name in names]
    columns = [site.unsqueeze(name, [rank]) for name in names]
    indices = columns[0] if len(columns) == 1 else site.node("Concat", *columns, axis=rank)
    return site.node("GatherND", site.args[0], indices)


@operator("argwhere")
def _argwhere(site: ExportCall) -> str:
    places = site.node("Transpose", site.node("NonZero", site.args[0]), perm=[1, 0])
    return site.to_result(places, "int64")


@operator("strided_slice")
def _strided_slice(site: ExportCall) -> str:
    rank = site.rank
    begin, end, strides = (list(site.integers(name)) for name in ("begin", "end", "strides"))
    if site.attrs["axes"] is None:
        axes = list(range(max(len(begin), len(end), len(strides))))
        strides += [1] * (len(axes) - len(strides))
        begin += [0 if step > 0 else _FAR for step in strides[len(begin) :]]
        end += [_FAR if step > 0 else -_FAR for step in strides[len(end) :]]
    else:
        axes = [axis % rank for axis in site.integers("axes")]
    if not axes:
        return site.args[0]
    if site.attrs["slice_mode"] == "size":
        strides = [1] * len(axes)
        end = [_FAR if last < 0 else first + last for first, last in zip(begin, end, strict=True)]
    vectors = (site.vector([min(max(n, -_FAR), _FAR) for n in part]) for part in (begin, end, axes, strides))
    return site.node("Slice", site.args[0], *vectors)


_FAR = 2**63 - 1


@operator("dyn.strided_slice", note="with the mode end")
def _dyn_strided_slice(site: ExportCall) -> str:
    if site.attrs["slice_mode"] == "size":
        raise ExportRefusalError("its slices are given by sizes", "give them by ends")
    begin, end, strides = (site.operand(index, "int64") for index in (1, 2, 3))
    (count,) = site.static_shape(1)
    axes = range(count) if site.attrs.get("axes") is None else site.integers("axes")
    return site.node("Slice", site.args[0], begin, end, site.vector(list(axes)), strides)


@operator("slice_like")
def _slice_like(site: ExportCall) -> str:
    chosen = site.attrs["axes"]
    axes = list(range(site.rank)) if not chosen else [axis % site.rank for axis in site.integers("axes")]
    ends = site.vector([site.size(axis, 1) for axis in axes])
    return site.node("Slice", site.args[0], site.vector([0] * len(axes)), ends, site.vector(axes))


@operator("sequence_mask")
def _sequence_mask(site: ExportCall) -> str:
    axis = site.axis()
    length = site.reshape(site.vector([site.size(axis)]), [])
    steps = site.node("Range", site.constant(0, "int64"), length, site.constant(1, "int64"))
    lengths = site.operand(1, "int64")
    other = 1 - axis
    first, second = (steps, lengths) if axis < other else (lengths, steps)
    first = site.unsqueeze(first, [1])
    mask = site.node("Less", first, second) if axis < other else site.node("Greater", first, second)
    mask = site.unsqueeze(mask, range(2, site.rank))
    return site.node("Where", mask, site.args[0], site.constant(site.number("mask_value")))


@operator("unravel_index", note="of a shape that is a constant")
def _unravel_index(site: ExportCall) -> str:
    shape = site.known(1)
    if shape is None:
        raise ExportRefusalError("the shape must be a constant")
    data, rows = site.operand(0, "int64"), []
    factor = int(np.prod(shape, dtype=np.int64))
    for size in shape.reshape(-1).tolist():
        factor //= max(size, 1)
        row = site.node("Div", data, site.constant(factor, "int64"))
        rows.append(site.unsqueeze(site.node("Mod", row, site.constant(max(size, 1), "int64")), [0]))
    return site.to_result(site.node("Concat", *rows, axis=0), "int64")


_REDUCTIONS = {"update": "none", "add": "add", "mul": "mul", "min": "min", "max": "max"}


def _reduction(site: ExportCall, name: str) -> str:
    mode = str(site.attrs[name])
    if mode not in _REDUCTIONS:
        raise ExportRefusalError(f"ONNX does not combine elements by {mode}")
    return _REDUCTIONS[mode]


@operator("scatter_elements", note="no mean")
def _scatter_elements(site: ExportCall) -> str:
    data, _, updates = site.args
    reduction = _reduction(site, "reduction")
    indices = site.operand(1, "int64")
    return site.node("ScatterElements", data, indices, updates, axis=site.axis(), reduction=reduction)


@operator("scatter_nd", note="no mean")
def _scatter_nd(site: ExportCall) -> str:
    data, _, updates = site.args
    return site.node(
        "ScatterND", data, _coordinates_last(site, 1), updates, reduction=_reduction(site, "mode")
    )


@operator("invert_permutation")
def _invert_permutation(site: ExportCall) -> str:
    data = site.operand(0, "int64")
    length = site.node("Size", data)
    order = site.node("Range", site.constant(0, "int64"), length, site.constant(1, "int64"))
    return site.to_result(site.node("ScatterElements", order, data, order, axis=0), "int64")


@operator("strided_set", note="of bounds that are constants and shapes that are known")
def _strided_set(site: ExportCall) -> str:
    """Put the elements at the flat indices that the slices select."""
    import numpy as np

    shape = site.static_shape()
    bounds = [site.known(index) for index in (2, 3, 4)]
    if any(bound is None for bound in bounds):
        raise ExportRefusalError("its bounds must be constants")
    begin, end, strides = ([int(n) for n in bound.reshape(-1)] for bound in bounds if bound is not None)
    places = np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.int64).reshape(shape)
    chosen = places[tuple(map(slice, begin, end, strides))]
    if chosen.shape != site.static_shape(1):
        raise ExportRefusalError("the elements do not have the shape of the slice")
    flat = site.reshape(site.args[0], [-1])
    indices = site.writer.constant(np.ascontiguousarray(chosen.reshape(-1)))
    written = site.node("ScatterElements", flat, indices, site.reshape(site.args[1], [-1]), axis=0)
    return site.reshape(written, list(shape))
