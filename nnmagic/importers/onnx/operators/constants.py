"""Import operators that make tensors: constants, ranges, filled tensors, windows.

The standard: https://onnx.ai/onnx/operators/onnx__ConstantOfShape.html
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.element_types import dtype_of
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import Value, check_new_array, constant, count_up, op, sizes_of, with_shape
from nnmagic.relay import expr as ir
from nnmagic.relay.ops.dims import as_polynomial, subtract
from nnmagic.relay.polynomials import is_nonnegative
from nnmagic.relay.types import ANY, NUMPY_DTYPES, Dim


@operator("Constant", note="no strings, no sparse tensors")
def _constant(node: OnnxNode) -> Value:
    for name, dtype in (("value_float", "float32"), ("value_floats", "float32")):
        if node.attr(name) is not None:
            return constant(np.asarray(node.attr(name), dtype))
    for name in ("value_int", "value_ints"):
        if node.attr(name) is not None:
            return constant(np.asarray(node.attr(name), "int64"))
    value = node.attr("value")
    if isinstance(value, np.ndarray):
        try:
            return constant(value)
        except TypeError as error:
            raise UnsupportedError(str(error)) from None
    raise UnsupportedError(f"a constant of {', '.join(node.attributes) or 'nothing'} is not supported")


def target_shape(node: OnnxNode, index: int) -> tuple[list[Dim], Value | None]:
    """Return a shape that is an input, as far as it is known, and the vector to compute it from."""
    vector = node[index].cast("int64")
    sizes = sizes_of(vector)
    if sizes is not None:
        return list(sizes), vector
    length = vector.shape[0] if vector.rank == 1 else None
    if not isinstance(length, int):
        raise node.unknown(index)
    return [ANY] * int(length), vector


@operator("ConstantOfShape")
def _constant_of_shape(node: OnnxNode) -> Value:
    value = node.attr("value")
    fill = constant(np.zeros(1, "float32") if value is None else cast(np.ndarray, value))
    fill = shapes.scalar(fill)
    declared = node.output_shape()
    if node[0].known is None and node[0].sizes is None and declared is not None:
        return shapes.full(node.static(0, lambda: declared), fill)
    shape, vector = target_shape(node, 0)
    return shapes.full(shape, fill, vector=vector)


def arange(start: Value, stop: Value, step: Value, dtype: str) -> Value:
    """Return the numbers from ``start`` on, in steps, before ``stop``."""
    ends = {"start": start, "stop": stop, "step": step}
    if all(end.known is not None for end in ends.values()):
        first, last_, by = (cast(np.ndarray, end.known).item() for end in ends.values())
        if not by:
            raise UnsupportedError("the step is 0")
        check_new_array(max(0, math.ceil((last_ - first) / by)))
        return constant(np.arange(first, last_, by).astype(NUMPY_DTYPES[dtype]))
    attributes = {
        name: end.expr if isinstance(end.expr, ir.Constant) else ir.Var(name, end.type)
        for name, end in ends.items()
    }
    result = op("arange", *ends.values(), **attributes, dtype=dtype)
    last = sizes_of(stop)
    if sizes_of(start) == (0,) and sizes_of(step) == (1,) and last is not None:
        return with_shape(result, last)
    return result


@operator("Range")
def _range(node: OnnxNode) -> Value:
    start, stop, step = (shapes.scalar(node[index]) for index in range(3))
    declared = node.output_shape()
    if all(value.known is not None for value in (start, stop, step)):
        return arange(start, stop, step, start.dtype)
    sizes = [sizes_of(value) for value in (start, stop, step)]
    if sizes[0] is not None and sizes[1] is not None and sizes[2] == (1,):
        count = subtract(sizes[1][0], sizes[0][0])
        room = as_polynomial(count)
        if room is not None and is_nonnegative(room):
            return with_shape(arange(start, stop, step, start.dtype), [count])
    if declared is not None:
        rounds = (stop.cast("float64") - start.cast("float64")) / step.cast("float64")
        length = op("ceil", rounds).maximum(0).cast("int64")
        node.block.require(length, np.array(declared[0]), "Range: the number of elements")
        return start + constant(count_up(declared[0])).cast(start.dtype) * step
    return arange(start, stop, step, start.dtype)


@operator("EyeLike")
def _eye_like(node: OnnxNode) -> Value:
    rows, columns = shapes.static_shape(node[0])
    number = node.attr("dtype")
    dtype = node[0].dtype if number is None else dtype_of(node.integer("dtype"))
    check_new_array(rows, columns)
    return constant(np.eye(rows, columns, node.integer("k"), dtype=NUMPY_DTYPES[dtype]))


@operator("OneHot")
def _one_hot(node: OnnxNode) -> Value:
    """Return rows that are "off" except at an index; negative indices count from the end."""
    indices, values = node[0], node[2]
    rank = indices.rank + 1
    axis = node.axis(rank, -1)
    declared = node.output_shape()
    depth = int(node.static(1, lambda: declared and np.array(declared[axis]))[0])
    dtype = "int64" if not indices.dtype.startswith("int") else indices.dtype
    indices = indices.cast(dtype)
    counted = (indices < 0).choose(indices + depth, indices)
    positions = count_up(depth).reshape([depth if at == axis else 1 for at in range(rank)])
    hot = op("expand_dims", counted, axis=axis).equal(constant(positions, dtype))
    off, on = (shapes.scalar(shapes.slice_axis(values, 0, at, at + 1)) for at in range(2))
    return op("where", hot, on, off)


@operator("Trilu")
def _trilu(node: OnnxNode) -> Value:
    data, k = node[0], node.get(1)
    diagonal = constant(0, "int64") if k is None else shapes.scalar(k)
    if data.dtype == "bool":
        return _triangle(data.cast("uint8"), diagonal, node).cast("bool")
    return _triangle(data, diagonal, node)


def _triangle(data: Value, diagonal: Value, node: OnnxNode) -> Value:
    rows = arange(constant(0, "int64"), shapes.size_along(data, -2), constant(1, "int64"), "int64")
    columns = arange(constant(0, "int64"), shapes.size_along(data, -1), constant(1, "int64"), "int64")
    offset = columns - op("expand_dims", rows, axis=1)
    keep = offset >= diagonal if node.integer("upper", 1) else offset <= diagonal
    return keep.choose(data, data.like(0))


#: The coefficients of each window's cosines.
_WINDOWS = {
    "BlackmanWindow": (0.42, -0.5, 0.08),
    "HammingWindow": (25 / 46, -21 / 46),
    "HannWindow": (0.5, -0.5),
}


@operator(*_WINDOWS)
def _window(node: OnnxNode) -> Value:
    declared = node.output_shape()
    size = node.static(0, lambda: declared and np.array(declared[0]))[0]
    dtype = dtype_of(node.integer("output_datatype", 1))
    count = size if node.integer("periodic", 1) else size - 1
    angle = 2 * math.pi * count_up(size) / max(count, 1)
    terms = [factor * np.cos(number * angle) for number, factor in enumerate(_WINDOWS[node.op_type])]
    return constant(np.sum(terms, axis=0).astype(NUMPY_DTYPES[dtype]))


@operator("MelWeightMatrix", note="all inputs constants")
def _mel_weight_matrix(node: OnnxNode) -> Value:
    dtype = NUMPY_DTYPES[dtype_of(node.integer("output_datatype", 1))]
    declared = node.output_shape()

    def bins() -> np.ndarray | None:
        return None if declared is None else np.array(declared[1])

    mel_bins = node.static(0, bins)[0]
    spectrum = node.static(1, lambda: declared and np.array(2 * (declared[0] - 1)))[0]
    rate, low, high = (shapes.scalar(node[index]).cast("float64") for index in (2, 3, 4))
    rows = spectrum // 2 + 1

    def mel(hertz: Value) -> Value:
        return 2595 * op("log10", 1 + hertz / 700)

    low_mel, step = mel(low), (mel(high) - mel(low)) / (mel_bins + 2)
    points = constant(count_up(mel_bins + 2).astype("float64")) * step + low_mel
    hertz = 700 * (op("power", constant(10.0, "float64"), points / 2595) - 1)
    at = op("floor", hertz * (spectrum + 1) / rate.cast("float64")).cast("int64")
    first, middle, last = (shapes.slice_axis(at, 0, i, i + mel_bins) for i in range(3))
    row = constant(count_up(rows)[:, None])
    gap_up, gap_down = middle - first, last - middle
    up = (row - first).cast("float64") / gap_up.maximum(1).cast("float64")
    down = (last - row).cast("float64") / gap_down.maximum(1).cast("float64")
    rises = op("logical_and", row >= first, row <= middle)
    falls = op("logical_and", row > middle, row < last)
    weights = rises.choose(
        gap_up.equal(0).choose(row.equal(middle).cast("float64"), up), falls.choose(down, 0)
    )
    return weights.cast(dtype.name)
