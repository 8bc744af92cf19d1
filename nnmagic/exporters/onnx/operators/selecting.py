"""Export operators that put elements at indices.

The standard: https://onnx.ai/onnx/operators/onnx__ScatterND.html
"""

from __future__ import annotations

from nnmagic.exporters.onnx.errors import ExportRefusalError
from nnmagic.exporters.onnx.operators.indexing import coordinates_last
from nnmagic.exporters.onnx.registry import operator
from nnmagic.exporters.onnx.sites import ExportCall

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
        "ScatterND", data, coordinates_last(site, 1), updates, reduction=_reduction(site, "mode")
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
