"""Legalize sorting, the largest elements, searching.

TVM's sort takes few dtypes, and a NaN makes its result arbitrary. Here every element becomes an integer key
of the same order, NaN above all, and the keys are sorted.
"""

from __future__ import annotations

from tvm import te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, shape_of, te_of
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.tir.types import Index, PrimExpr
from nnmagic.relay.expr import Attrs
from nnmagic.relay.types import is_float

#: dtype -> the dtype of its keys.
_KEYS = {"float64": "int64", "uint32": "int64", "int64": "int64", "uint64": "int64"}


def sort_key(value: PrimExpr) -> PrimExpr:
    """Return an integer that sorts as the number does; -0 and 0 have one key, all NaN the highest."""
    dtype = scalar_functions.dtype_of(value)
    if dtype in {"float16", "bfloat16"}:
        return sort_key(value.astype("float32"))
    kind = _KEYS.get(dtype, "int32")
    if dtype == "uint64":
        return tirx.reinterpret(kind, value) ^ tirx.min_value(kind)
    if not dtype.startswith("float"):
        return value.astype(kind)
    bits = tirx.reinterpret(kind, value)
    key = tirx.Select(bits < 0, bits ^ tirx.max_value(kind), bits)
    key = tirx.Select(value == scalar_functions.constant(0, value), tirx.const(0, kind), key)
    return tirx.Select(scalar_functions.is_nan(value), tirx.max_value(kind), key)


def from_sort_key(key: PrimExpr, dtype: str) -> PrimExpr:
    """Return the number that has this key."""
    if dtype in {"float16", "bfloat16"}:
        return from_sort_key(key, "float32").astype(dtype)
    kind = _KEYS.get(dtype, "int32")
    if dtype == "uint64":
        return tirx.reinterpret(dtype, key ^ tirx.min_value(kind))
    if not dtype.startswith("float"):
        return key.astype(dtype)
    return tirx.reinterpret(dtype, tirx.Select(key < 0, key ^ tirx.max_value(kind), key))


def _keys(data: Tensor) -> Tensor:
    return te.compute(data.shape, lambda *index: sort_key(data(*index)))


def sort_order(data: Tensor, axis: int, *, ascending: bool, dtype: str = "int32") -> Tensor:
    """Return the indices that sort the data along an axis; equal elements keep their order."""
    return topi.argsort(_keys(data), axis=axis, is_ascend=ascending, dtype=dtype)


def _sort(attrs: Attrs, data: Tensor) -> Tensor:
    if is_float(scalar_functions.dtype_of(data)):
        return _sort_floats(attrs, data)
    ordered = topi.sort(_keys(data), axis=integer(attrs["axis"]), is_ascend=bool(attrs["is_ascend"]))
    return te.compute(
        data.shape, lambda *index: from_sort_key(ordered(*index), scalar_functions.dtype_of(data))
    )


def _sort_floats(attrs: Attrs, data: Tensor) -> Tensor:
    """Take the elements in order, since the keys have lost the signs of zeros."""
    axis = integer(attrs["axis"]) % len(data.shape)
    order = sort_order(data, axis, ascending=bool(attrs["is_ascend"]), dtype="int64")
    return te.compute(data.shape, lambda *at: data(*at[:axis], order(*at), *at[axis + 1 :]))


def _argsort(attrs: Attrs, data: Tensor) -> Tensor:
    return sort_order(
        data, integer(attrs["axis"]), ascending=bool(attrs["is_ascend"]), dtype=str(attrs["dtype"]) or "int32"
    )


def _topk(call: OpCall) -> Value:
    """Lower to the first k of the sorted elements; for k < 1 to all."""
    attrs = call.attrs
    kind, dtype = str(attrs["ret_type"]), str(attrs["dtype"])
    if kind != "values" and not dtype:
        call.refuse("the indices need a dtype")
    own, k = shape_of(call.args[0]), integer(attrs["k"])
    axis = integer(attrs["axis"]) % len(own)
    call.require(k <= own[axis], f"k is {k}, more elements than axis {axis} has")

    def compute(data: Tensor) -> Tensor | list[Tensor]:
        shape = [*data.shape[:axis], k if k > 0 else data.shape[axis], *data.shape[axis + 1 :]]
        positions = sort_order(data, axis, ascending=bool(attrs["is_ascend"]), dtype="int64")

        def element(*at: Index) -> PrimExpr:
            return data(*at[:axis], positions(*at), *at[axis + 1 :])

        results = [te.compute(shape, element)] if kind != "indices" else []
        if kind != "values":
            results.append(te.compute(shape, lambda *at: positions(*at).astype(dtype)))
        return results if kind == "both" else results[0]

    return call.te(compute, *call.args)


def _searchsorted(attrs: Attrs, sequence: Tensor, values: Tensor) -> Tensor:
    if scalar_functions.dtype_of(sequence) == "bool":  # TVM cannot compare bools
        sequence, values = topi.cast(sequence, "int8"), topi.cast(values, "int8")
    return topi.searchsorted(sequence, values, bool(attrs["right"]), str(attrs["dtype"]))


RULES.update(
    {
        "sort": te_of(_sort),
        "argsort": te_of(_argsort),
        "topk": _topk,
        "searchsorted": te_of(_searchsorted),
    }
)
