"""Export operators that combine the elements along axes.

The standard: https://onnx.ai/onnx/operators/onnx__ReduceMean.html
"""

from __future__ import annotations

from collections.abc import Callable

from nnmagic.exporters.onnx.errors import ExportRefusalError
from nnmagic.exporters.onnx.registry import Rule, operator, operators
from nnmagic.exporters.onnx.sites import ExportCall
from nnmagic.relay.types import is_float

#: The dtypes that ONNX does not reduce, with those in which the result is the same.
_WIDE = dict.fromkeys(("int8", "int16", "uint8", "uint16"), "int32")


def reduced_axes(site: ExportCall) -> list[int]:
    """Return the axes along which a call reduces."""
    given = range(site.rank) if site.attrs["axis"] is None else site.integers("axis")
    axes = [axis % site.rank for axis in given]
    if site.attrs.get("exclude"):
        return [axis for axis in range(site.rank) if axis not in axes]
    return sorted(axes)


def reduce(site: ExportCall, op: str, name: str, *, keepdims: bool | None = None) -> str:
    """Reduce a tensor along the axes of a call."""
    kept = bool(site.attrs["keepdims"]) if keepdims is None else keepdims
    axes = reduced_axes(site)
    if not axes:
        return name
    wide = _WIDE.get(site.dtype)
    if wide is None:
        return site.node(op, name, site.vector(axes), keepdims=int(kept))
    reduced = site.node(op, site.cast(name, wide), site.vector(axes), keepdims=int(kept))
    return site.cast(reduced, site.dtype)


def _reduction(onnx_name: str, of_bools: Callable[[ExportCall, str], str]) -> Rule:
    """Return the rule of a reduction; of bools it is another one, since their sums are of one bit."""

    def rule(site: ExportCall) -> str:
        data = site.args[0]
        return of_bools(site, data) if site.dtype == "bool" else reduce(site, onnx_name, data)

    return rule


def _any_of(site: ExportCall, name: str) -> str:
    """Return whether any bool is true; a sum is 0 where there are none, a maximum is not."""
    numbers, axes = site.cast(name, "int64"), reduced_axes(site)
    if axes:
        kept = int(bool(site.attrs["keepdims"]))
        numbers = site.node("ReduceSum", numbers, site.vector(axes), keepdims=kept)
    return site.cast(numbers, "bool")


def _all_of(site: ExportCall, name: str) -> str:
    return site.node("Not", _any_of(site, site.node("Not", name)))


@operator("mean")
def _mean(site: ExportCall) -> str:
    if is_float(site.dtype):
        return reduce(site, "ReduceMean", site.args[0])
    return site.node("Div", reduce(site, "ReduceSum", site.args[0]), site.cast(_count(site), site.dtype))


def _count(site: ExportCall) -> str:
    """Return how many elements a call combines, as an int64 scalar."""
    sizes = site.vector([site.size(axis) for axis in reduced_axes(site)])
    return site.node("ReduceProd", sizes, keepdims=0)


@operator("variance")
def _variance(site: ExportCall) -> str:
    distance = site.node("Sub", *site.args)
    square = site.node("Mul", distance, distance)
    if not site.attrs["unbiased"]:
        return reduce(site, "ReduceMean", square)
    count = site.node("Sub", _count(site), site.constant(1, "int64"))
    return site.node("Div", reduce(site, "ReduceSum", square), site.cast(count, site.dtype))


def _search(onnx_name: str) -> Rule:
    def rule(site: ExportCall) -> str:
        axes, data, kept = reduced_axes(site), site.args[0], int(bool(site.attrs["keepdims"]))
        last = int(bool(site.attrs["select_last_index"]))
        if len(axes) == 1:
            (axis,) = axes
            index = site.node(onnx_name, data, axis=axis, keepdims=kept, select_last_index=last)
        elif len(axes) == site.rank:
            flat = site.reshape(data, [-1])
            index = site.node(onnx_name, flat, axis=0, keepdims=0, select_last_index=last)
            index = site.reshape(index, [1] * site.rank) if kept else index
        else:
            raise ExportRefusalError("ONNX searches along one axis, or all")
        return site.to_result(index, "int64")

    return rule


@operator("cumsum")
def _cumsum(site: ExportCall) -> str:
    dtype = {"bool": "int64", **_WIDE}.get(site.result_dtype, site.result_dtype)
    name = site.operand(0, dtype)
    if site.attrs["axis"] is None:
        name, axis = site.reshape(name, [-1]), 0
    else:
        axis = site.axis()
    exclusive = int(bool(site.attrs["exclusive"]))
    return site.to_result(site.node("CumSum", name, site.constant(axis, "int64"), exclusive=exclusive), dtype)


operators(
    {
        "all": lambda site: site.to_result(_all_of(site, site.operand(0, "bool")), "bool"),
        "any": lambda site: site.to_result(_any_of(site, site.operand(0, "bool")), "bool"),
        "max": _reduction("ReduceMax", _any_of),
        "min": _reduction("ReduceMin", _all_of),
        "prod": _reduction("ReduceProd", _all_of),
        "sum": _reduction("ReduceSum", _any_of),
    }
)
for _name in ("ArgMax", "ArgMin"):
    operator(_name.lower(), note="along one axis, or all")(_search(_name))
