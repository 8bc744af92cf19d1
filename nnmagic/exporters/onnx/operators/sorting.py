"""Export sorting.

The standard: https://onnx.ai/onnx/operators/onnx__TopK.html
"""

from __future__ import annotations

from nnmagic.exporters.onnx.registry import operator, operators
from nnmagic.exporters.onnx.sites import ExportCall
from nnmagic.relay.types import is_float


def _top(site: ExportCall, count: str, *, ascending: bool) -> list[str]:
    axis = site.axis()
    return site.nodes("TopK", site.args[0], count, outputs=2, axis=axis, largest=int(not ascending), sorted=1)


def _whole(site: ExportCall) -> str:
    return site.vector([site.size(site.axis())])


@operator("numpy.partition")
def _partition(site: ExportCall) -> str:
    """Sort all elements."""
    return _top(site, _whole(site), ascending=True)[0]


@operator("argsort")
def _argsort(site: ExportCall) -> str:
    order = _top(site, _whole(site), ascending=bool(site.attrs["is_ascend"]))[1]
    return site.to_result(order, "int64")


@operator("topk")
def _topk(site: ExportCall) -> str | list[str]:
    count = site.integer("k")
    return _values_and_indices(site, site.vector([count]) if count > 0 else _whole(site))


def _values_and_indices(site: ExportCall, count: str) -> str | list[str]:
    values, indices = _top(site, count, ascending=bool(site.attrs["is_ascend"]))
    dtype = str(site.attrs["dtype"]) or site.dtype
    places = indices if dtype == "int64" else site.cast(indices, dtype)
    forms: dict[str, str | list[str]] = {"both": [values, places], "values": values, "indices": places}
    return forms[str(site.attrs["ret_type"])]


@operator("numpy.isin")
def _isin(site: ExportCall) -> str:
    """Compare each element with all others."""
    same = site.node("Equal", site.unsqueeze(site.args[0], [site.rank]), site.args[1])
    counts = site.node("ReduceSum", site.cast(same, "int64"), site.vector([-1]), keepdims=0)
    return site.cast(counts, "bool")


@operator("searchsorted", note="a vector of sorted elements")
def _searchsorted(site: ExportCall) -> str:
    """Count the elements that lie before each value."""
    sequence, values = site.args
    op = "LessOrEqual" if site.attrs["right"] else "Less"
    if site.rank > 1:
        sequence = site.unsqueeze(sequence, [site.rank - 1])
    values = site.unsqueeze(values, [len(site.shape(1))])
    before = site.node(op, sequence, values)
    if is_float(site.dtype):  # NaN comes behind all numbers
        is_nan = site.node("IsNaN", values)
        if not site.attrs["right"]:
            is_nan = site.node("And", is_nan, site.node("Not", site.node("IsNaN", sequence)))
        before = site.node("Or", before, is_nan)
    counts = site.node("ReduceSum", site.cast(before, "int64"), site.vector([-1]), keepdims=0)
    return site.to_result(counts, "int64")


operators(
    {
        "dyn.topk": lambda site: _values_and_indices(site, site.reshape(site.operand(1, "int64"), [1])),
        "numpy.argpartition": lambda site: _top(site, _whole(site), ascending=True)[1],
        "sort": lambda site: _top(site, _whole(site), ascending=bool(site.attrs["is_ascend"]))[0],
    }
)
