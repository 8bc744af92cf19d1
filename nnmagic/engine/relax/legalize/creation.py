"""Tensors from nothing: zeros, ones, full, arange, and the like of another tensor."""

from __future__ import annotations

from typing import Any

from tvm import relax, te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Rule, Value, attr_dtype, shape_of
from nnmagic.engine.relax.runtime.tensors import as_array


def _dtype(site: OpCall) -> str:
    return str(site.attrs["dtype"])


def _shape(site: OpCall) -> list[Any]:
    shape = site.attrs["shape"]
    assert isinstance(shape, tuple)
    return site.dims(shape)


def _filled(value: int) -> Rule:
    return lambda site: relax.op.full(_shape(site), relax.const(value, _dtype(site)), _dtype(site))


def _filled_like(value: int) -> Rule:
    def rule(site: OpCall) -> Value:
        (data, *_) = site.args
        return relax.op.full(shape_of(data), relax.const(value, attr_dtype(data)), attr_dtype(data))

    return rule


def _full(site: OpCall) -> Value:
    (value,) = site.args
    return _fill(site, value, _shape(site), _dtype(site) or attr_dtype(value))


def _full_like(site: OpCall) -> Value:
    data, value = site.args
    return _fill(site, value, shape_of(data), attr_dtype(data))


def _fill(site: OpCall, value: Value, shape: list[Any], dtype: str) -> Value:
    return site.te(
        lambda x, dims: te.compute(dims, lambda *_index: x().astype(dtype)), value, relax.ShapeExpr(shape)
    )


def arange(site: OpCall) -> Value:
    """From start to stop, without it; they and the step are constants."""
    start, stop, step = (as_array(arg.value).item() for arg in site.args)
    dtype = _dtype(site)
    if step == 0:
        site.refuse("the step must not be 0")
    length = max(0, -int((start - stop) // step))

    def element(index: Any) -> Any:
        return tirx.const(start, dtype) + index.astype(dtype) * tirx.const(step, dtype)

    return site.te(lambda: te.compute((length,), element))


def _shape_of(site: OpCall) -> Value:
    (data,) = site.args
    dims, dtype = shape_of(data), _dtype(site)

    def compute(given: Any) -> Any:
        def element(index: Any) -> Any:
            value: Any = tirx.const(0, "int64")
            for axis, dim in enumerate(given):
                value = tirx.Select(index == axis, tirx.convert(dim).astype("int64"), value)
            return value.astype(dtype)

        return te.compute((len(given),), element)

    return site.te(compute, relax.ShapeExpr(dims))


def _size(site: OpCall) -> Value:
    (data,) = site.args
    dtype = _dtype(site)

    def compute(dims: Any) -> Any:
        number: Any = tirx.const(1, "int64")
        for dim in dims:
            number = number * dim
        return te.compute((), lambda: number.astype(dtype))

    return site.te(compute, relax.ShapeExpr(shape_of(data)))


def _one_hot(site: OpCall) -> Value:
    depth, axis, dtype = (site.attrs[name] for name in ("depth", "axis", "dtype"))
    on, off = site.args[1:]

    def compute(indices: Any, hot: Any, cold: Any) -> Any:
        rank = len(indices.shape)
        place = integer(axis) % (rank + 1)
        shape = [*indices.shape[:place], integer(depth), *indices.shape[place:]]

        def element(*index: Any) -> Any:
            where = [*index[:place], *index[place + 1 :]]
            chosen = indices(*where).astype("int64") == index[place].astype("int64")
            return tirx.Select(chosen, hot().astype(str(dtype)), cold().astype(str(dtype)))

        return te.compute(shape, element)

    return site.te(compute, site.args[0], on, off)


RULES.update(
    {
        "zeros": _filled(0),
        "ones": _filled(1),
        "full": _full,
        "zeros_like": _filled_like(0),
        "ones_like": _filled_like(1),
        "full_like": _full_like,
        "shape_of": _shape_of,
        "ndarray_size": _size,
        "one_hot": _one_hot,
        "trilu": lambda site: site.te(
            lambda data, k: topi.trilu(data, k(), bool(site.attrs["upper"])), *site.args
        ),
    }
)
