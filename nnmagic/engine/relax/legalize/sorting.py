"""Legalize sorting, the largest elements, searching."""

from __future__ import annotations

from tvm import te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, shape_of, te_of, tensor_dtype
from nnmagic.engine.relax.legalize.sort_loops import sort_along
from nnmagic.engine.relax.legalize.types import Tensor, Tensors
from nnmagic.engine.relax.tir.builders import static_int
from nnmagic.engine.relax.tir.types import Index, PrimExpr, Var
from nnmagic.relay.expr import Attrs


def sort_order(data: Tensor, axis: int, *, ascending: bool, dtype: str = "int32") -> Tensor:
    """Return the indices that sort the data along an axis; equal elements keep their order."""
    return sort_along(data, axis, [("indices", dtype)], ascending=ascending)


def _sort(attrs: Attrs, data: Tensor) -> Tensor:
    outputs = [("values", scalar_functions.dtype_of(data))]
    return sort_along(data, integer(attrs["axis"]), outputs, ascending=bool(attrs["is_ascend"]))


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

    outputs = [("values", tensor_dtype(call.args[0]))] if kind != "indices" else []
    if kind != "values":
        outputs.append(("indices", dtype))
    count = k if k > 0 else own[axis]

    def compute(data: Tensor) -> Tensors:
        return sort_along(data, axis, outputs, ascending=bool(attrs["is_ascend"]), count=count)

    return call.te(compute, *call.args)


def _searchsorted(attrs: Attrs, sequence: Tensor, values: Tensor) -> Tensor:
    of_bools = scalar_functions.dtype_of(sequence) == "bool"
    if of_bools:  # TVM cannot compare them
        sequence, values = topi.cast(sequence, "int8"), topi.cast(values, "int8")
    right, dtype = bool(attrs["right"]), str(attrs["dtype"])
    size = static_int(sequence.shape[0])
    if len(sequence.shape) > 1 or size is None or not 0 < size < _LONG or of_bools:
        return topi.searchsorted(sequence, values, right, dtype)

    def search(*at: Index) -> PrimExpr:
        """Halve the step from the largest power of two on: without branches, which would be mispredicted."""
        value = tirx.Var("value", values.dtype)
        bindings: list[tuple[Var, PrimExpr]] = [(value, values(*at))]
        count: PrimExpr = tirx.const(0, "int64")  # as many elements are known to come before the value
        for exponent in reversed(range(size.bit_length())):
            less, more = count, count + tirx.const(1 << exponent, "int64")
            element = sequence(tirx.min(more, size) - 1)
            before = tirx.all(more <= size, element <= value if right else element < value)
            count = tirx.Var("count", "int64")
            bindings.append((count, tirx.Select(before, more, less)))
        result = count.astype(dtype)
        for var, bound in reversed(bindings):
            result = tirx.Let(var, bound, result)
        return result

    return te.compute(values.shape, search)


#: Longer sequences are searched by TVM's loop, which is shorter code.
_LONG = 1 << 20

RULES.update(
    {
        "sort": te_of(_sort),
        "argsort": te_of(_argsort),
        "topk": _topk,
        "searchsorted": te_of(_searchsorted),
    }
)
