"""Sorting, the largest elements, searching.

TVM's sort takes few dtypes and gives anything where there is a NaN. Here every element becomes an integer key
of the same order, NaN above all, and the keys are sorted.
"""

from __future__ import annotations

from typing import Any

from tvm import te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, shape_of, te_of
from nnmagic.relay.expr import Attrs

#: dtype -> the dtype of its keys.
_KEYS = {"float64": "int64", "uint32": "int64", "int64": "int64", "uint64": "int64"}


def key_of(value: Any) -> Any:
    """An integer that orders as the number does; -0 and 0 are one, so are all NaN, which are the highest."""
    dtype = scalar_functions.dtype_of(value)
    if dtype in {"float16", "bfloat16"}:
        return key_of(value.astype("float32"))
    kind = _KEYS.get(dtype, "int32")
    if dtype == "uint64":
        return tirx.reinterpret(kind, value) ^ tirx.min_value(kind)
    if not dtype.startswith("float"):
        return value.astype(kind)
    bits = tirx.reinterpret(kind, value)
    key = tirx.Select(bits < 0, bits ^ tirx.max_value(kind), bits)
    key = tirx.Select(value == scalar_functions.constant(0, value), tirx.const(0, kind), key)
    return tirx.Select(scalar_functions.is_nan(value), tirx.max_value(kind), key)


def value_of(key: Any, dtype: str) -> Any:
    """The number that has this key."""
    if dtype in {"float16", "bfloat16"}:
        return value_of(key, "float32").astype(dtype)
    kind = _KEYS.get(dtype, "int32")
    if dtype == "uint64":
        return tirx.reinterpret(dtype, key ^ tirx.min_value(kind))
    if not dtype.startswith("float"):
        return key.astype(dtype)
    return tirx.reinterpret(dtype, tirx.Select(key < 0, key ^ tirx.max_value(kind), key))


def _keys(data: Any) -> Any:
    return te.compute(data.shape, lambda *index: key_of(data(*index)))


def order(data: Any, axis: int, *, ascending: bool, dtype: str = "int32") -> Any:
    """Where the elements stand that a sort puts first, second, ...; equal elements keep their order."""
    return topi.argsort(_keys(data), axis=axis, is_ascend=ascending, dtype=dtype)


def _sort(attrs: Attrs, data: Any) -> Any:
    ordered = topi.sort(_keys(data), axis=integer(attrs["axis"]), is_ascend=bool(attrs["is_ascend"]))
    return te.compute(data.shape, lambda *index: value_of(ordered(*index), scalar_functions.dtype_of(data)))


def _argsort(attrs: Attrs, data: Any) -> Any:
    return order(
        data, integer(attrs["axis"]), ascending=bool(attrs["is_ascend"]), dtype=str(attrs["dtype"]) or "int32"
    )


def _topk(site: OpCall) -> Value:
    """The first k of everything sorted; for k < 1 all."""
    attrs = site.attrs
    kind, dtype = str(attrs["ret_type"]), str(attrs["dtype"])
    if kind != "values" and not dtype:
        site.refuse("the indices need a dtype")
    own, k = shape_of(site.args[0]), integer(attrs["k"])
    axis = integer(attrs["axis"]) % len(own)
    site.require(k <= own[axis], f"k is {k}, more elements than axis {axis} has")

    def compute(data: Any) -> Any:
        shape = [*data.shape[:axis], k if k > 0 else data.shape[axis], *data.shape[axis + 1 :]]
        places = order(data, axis, ascending=bool(attrs["is_ascend"]), dtype="int64")

        def element(*at: Any) -> Any:
            return data(*at[:axis], places(*at), *at[axis + 1 :])

        found = [te.compute(shape, element)] if kind != "indices" else []
        if kind != "values":
            found.append(te.compute(shape, lambda *at: places(*at).astype(dtype)))
        return found if kind == "both" else found[0]

    return site.te(compute, *site.args)


def _searchsorted(attrs: Attrs, sequence: Any, values: Any) -> Any:
    return topi.searchsorted(sequence, values, bool(attrs["right"]), str(attrs["dtype"]))


RULES.update(
    {
        "sort": te_of(_sort),
        "argsort": te_of(_argsort),
        "topk": _topk,
        "searchsorted": te_of(_searchsorted),
    }
)
