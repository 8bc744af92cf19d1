"""Legalize argwhere and unique, which count their results before they store them."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax, te, tirx, topi
from tvm.script.ir_builder import tirx as T  # noqa: N812 - TVM's own name for its builder

from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.blocked.layout import lanes_for
from nnmagic.engine.relax.legalize.extern_loops import fill_by_loops, grid
from nnmagic.engine.relax.legalize.reduction import scan
from nnmagic.engine.relax.legalize.registry import OPAQUE, OpCall, Value, narrow_indices, shape_of
from nnmagic.engine.relax.legalize.sizes import maximum
from nnmagic.engine.relax.legalize.sorting import sort_order
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.tir.builders import dtype_of, ramp, vector_type
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr

#: The attribute of kernels whose results are numbers of elements of their operand: no more than it has.
COUNTS_ELEMENTS = "nnmagic.counts_elements"

#: More elements than any machine holds: the bytes of so many are counted without a wrap.
_MOST_ELEMENTS = 1 << 47


def emit_dims(call: OpCall, vector: Value, rank: int) -> list[Extent]:
    """Bind the elements of an int64 vector to symbolic dimensions."""
    shape = call.emit(relax.op.tensor_to_shape(vector))
    variables = [tirx.Var(f"size{axis}", "int64") for axis in range(rank)]
    call.define_sizes(shape, variables)
    limit: PrimExpr = tirx.const(_MOST_ELEMENTS, "int64")
    for variable in variables:
        call.require(variable >= 0, "negative dimensions are not allowed")
        call.require(variable <= limit, "the dimensions are too large")
        # The limit is of the product: each dimension leaves a part of it to the others.
        limit = tirx.floordiv(limit, maximum(variable, 1))
    return variables


def _running_sum(x: Tensor) -> Tensor:
    """Return the inclusive cumulative sum. (TVM's own writes to an element even if there is none.)"""
    return scan(lambda a, b: a + b, 0, x, 0, x.dtype, exclusive=False)


def _count_nonzero(x: Tensor) -> Tensor:
    """Return the number of nonzero elements, as a vector of one."""
    axes = [te.reduce_axis((0, dim), "k") for dim in x.shape]

    def element(_at: Index) -> PrimExpr:
        one, none = tirx.const(1, "int64"), tirx.const(0, "int64")
        counted = tirx.Select(scalar_functions.is_true(x(*axes)), one, none)
        return te.sum(counted, axis=axes) if axes else counted

    return te.compute((1,), element)


def argwhere(call: OpCall) -> Value:
    """Lower to the indices of the nonzero elements, in order."""
    (condition,) = call.args
    rank = len(shape_of(condition))
    counted = call.te(_count_nonzero, condition, primfunc_attrs={COUNTS_ELEMENTS: 1})
    (size,) = emit_dims(call, call.emit(counted), 1)

    def compute(x: Tensor, rows: Sequence[Extent]) -> Tensor:
        return fill_by_loops(_collect_indices, ([*rows, rank], "int64"), x)

    indices = call.te(compute, condition, relax.ShapeExpr([size]), primfunc_attrs={"op_pattern": OPAQUE})
    return narrow_indices(call, indices)


#: How many indices a vector of AVX-512 has; there its true lanes are moved together by one instruction.
_LANES = 8


def _collect_indices(condition: Buffer, indices: Buffer) -> None:
    """Emit the loops that store the index of each element that is not zero."""
    size, rank = indices.ty.shape
    position = T.buffer_proxy(T.alloc_buffer((1,), "int64", scope="local"))
    position[0] = tirx.const(0, "int64")
    if rank == 1 and lanes_for("float64") == _LANES and dtype_of(condition) == "bool":
        _collect_vectors(condition, indices, position)
        return
    # After the last element that is not zero, every store would be behind the result.
    with grid(condition.ty.shape) as index, T.If(position[0] < size), T.Then():
        # Each index is stored over the last one unless the element of that was not zero.
        for axis in range(int(rank)):
            T.buffer_store(indices, index[axis].astype("int64"), [position[0], axis])
        is_true = scalar_functions.is_true(tirx.BufferLoad(condition, index))
        position[0] = position[0] + is_true.astype("int64")


def _collect_vectors(condition: Buffer, indices: Buffer, position: Buffer) -> None:
    """Emit loops that store the indices of several truth values at once; what follows overwrites the rest."""
    (length,), size = condition.ty.shape, indices.ty.shape[0]
    column = T.decl_buffer((size,), "int64", data=tirx.buffer.buffer_data(indices), align=8)

    def collect_one(index: Index) -> None:
        with T.If(position[0] < size), T.Then():
            T.buffer_store(column, index, [position[0]])
            position[0] = position[0] + tirx.BufferLoad(condition, [index]).astype("int64")

    with T.serial(length // _LANES) as group:
        every = ramp(group * _LANES, _LANES)
        mask = tirx.BufferLoad(condition, [every])
        bits = tirx.reinterpret("uint64", mask.astype(vector_type("uint8", _LANES)))
        # A whole vector is stored, of which only the true lanes count: near the end it would not fit.
        with T.If(position[0] + _LANES <= size):
            with T.Then():
                packed = tirx.call_llvm_pure_intrin(
                    vector_type("int64", _LANES), "llvm.experimental.vector.compress", every, mask, every
                )
                T.buffer_store(column, packed, [ramp(position[0], _LANES)])
                position[0] = position[0] + tirx.popcount(bits).astype("int64")
            with T.Else(), T.If(bits != 0), T.Then(), T.serial(_LANES) as lane:  # most are false here
                collect_one(group * _LANES + lane)
    with T.serial(length % _LANES) as rest:
        collect_one(length - length % _LANES + rest)


def _ranks(x: Tensor, positions: Tensor) -> Tensor:
    """Return, for each element of the sorted data, its position among the unique elements."""
    one, none = tirx.const(1, "int32"), tirx.const(0, "int32")

    def step(i: Index) -> PrimExpr:
        before = positions(tirx.max(i - 1, 0))
        return tirx.Select(tirx.all(i > 0, scalar_functions.not_equal(x(positions(i)), x(before))), one, none)

    return _running_sum(te.compute(x.shape, step))


def unique(call: OpCall) -> Value:
    """Lower to the unique elements, their first indices, the inverse, their number, and the counts.

    They are sorted, or in the order of the data. As in Relay the results are as long as the data;
    behind the unique elements they are 0.
    """
    (data,) = call.args
    call.require(shape_of(data)[0] <= 2**31 - 1, "there are more elements than an int32 can count")
    with_counts, is_sorted = bool(call.attrs["return_counts"]), bool(call.attrs["sorted"])
    order = call.emit(call.te(lambda x: sort_order(x, 0, ascending=True), data))
    rank = call.emit(call.te(_ranks, data, order))

    def compute(x: Tensor, positions: Tensor, group: Tensor) -> list[Tensor]:
        (size,) = x.shape
        last = tirx.max(size - 1, 0)
        iota = te.compute((size,), lambda i: i.astype("int32"))
        first = topi.searchsorted(group, iota, right=False, out_dtype="int32")
        end = topi.searchsorted(group, iota, right=True, out_dtype="int32")
        number = te.compute(
            (1,), lambda _i: tirx.if_then_else(size > 0, group(last) + 1, tirx.const(0, "int32"))
        )
        inverse = topi.scatter_elements(iota, positions, group, 0, "update")

        def at_most_last(i: Index) -> PrimExpr:
            return tirx.min(i, last.astype("int32"))

        kinds = iota  # the sorted unique element that each result is about
        if not is_sorted:
            lead = te.compute((size,), lambda i: positions(first(inverse(i))))
            is_lead = te.compute((size,), lambda i: (lead(i) == i).astype("int32"))
            seen = _running_sum(is_lead)
            wanted = te.compute((size,), lambda i: i.astype("int32") + 1)
            lead_indices = topi.searchsorted(seen, wanted, right=False, out_dtype="int32")
            kinds = te.compute((size,), lambda i: inverse(at_most_last(lead_indices(i))))
            inverse = te.compute((size,), lambda i: seen(lead(i)) - 1)

        def zero_behind(i: Index, value: PrimExpr) -> PrimExpr:
            return tirx.if_then_else(i < number(0), value, scalar_functions.constant(0, value))

        starts = te.compute((size,), lambda i: zero_behind(i, positions(at_most_last(first(kinds(i))))))
        elements = te.compute((size,), lambda i: zero_behind(i, x(positions(at_most_last(first(kinds(i)))))))
        counts = te.compute((size,), lambda i: zero_behind(i, end(kinds(i)) - first(kinds(i))))
        return [elements, starts, inverse, number, *([counts] if with_counts else [])]

    return call.te(compute, data, order, rank)
