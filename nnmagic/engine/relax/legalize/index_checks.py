"""Clamp, wrap and check the indices that tensors hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm_ffi
from tvm import relax, te, tirx

from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.registry import REDUCES, OpCall, Rule, Value, shape_of, tensor_dtype
from nnmagic.engine.relax.legalize.reshaping import element_count
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.runtime.callbacks import INDEX_IN_RANGE
from nnmagic.engine.relax.tir.builders import as_expr
from nnmagic.engine.relax.tir.types import Extent, Index, PrimExpr


def clamp(index: Index, dim: Extent) -> PrimExpr:
    """Return the nearest index that exists."""
    return tirx.max(tirx.min(index.astype("int64"), dim - 1), tirx.const(0, "int64"))


def clamp_from_end(index: Index, dim: Extent) -> PrimExpr:
    """Count a negative index from the end, then clamp."""
    i = index.astype("int64")
    return clamp(tirx.Select(i < 0, i + dim, i), dim)


def wrap(index: Index, dim: Extent) -> PrimExpr:
    """Return the index modulo the dimension."""
    return tirx.floormod(index.astype("int64"), tirx.max(dim, tirx.const(1, "int64")))


def clip_to_range(value: PrimExpr, low: Extent, high: Extent) -> PrimExpr:
    """Clip a number to a range, its dtype kept; NaN becomes ``low``."""
    least, most = (tirx.convert(bound).astype(scalar_functions.dtype_of(value)) for bound in (low, high))
    return tirx.Select(value > least, tirx.Select(value < most, value, most), least)


def refuse_empty(rule: Rule, axes: Callable[[OpCall, list[Extent]], Sequence[Extent]]) -> Rule:
    """Refuse to index an empty dimension, of those that ``axes`` returns, and apply the rule otherwise."""

    def check_and_apply(call: OpCall) -> Value:
        data, *indices = call.args[0] if len(call.args) == 1 else call.args[:2]
        counts = [element_count(shape_of(tensor)) for tensor in indices]
        if 0 not in counts:
            no_indices = [count == 0 for count in counts if not isinstance(count, int)]
            for dim in axes(call, shape_of(data)):
                if not isinstance(dim, int) or dim == 0:
                    present = as_expr(dim) > 0
                    call.require(tirx.any(present, *no_indices), "there is no element to take")
        return rule(call)

    return check_and_apply


#: Marks a kernel that looks for an index out of range: by FROM_END, if negative ones count from the end.
CHECKS_INDICES, FROM_END = "nnmagic.checks_indices", 2

#: How many checks find a bad index together, at most; the bits of an index that they report.
MOST_JOINED, _BITS = 7, 61


def require_indices_in_range(call: OpCall, indices: Value, dim: Extent, *, from_end: bool = False) -> None:
    """Have the program raise IndexError for an index that is not in ``range(dim)``, of several the largest.

    from_end: negative ones count from the end.
    """
    key = (CHECKS_INDICES, indices, tvm_ffi.StructuralKey(as_expr(dim)), from_end)
    if call.size_names.find(key):
        call.effects.append("checked")
        return
    call.size_names.define(key, value=True)

    def find_bad_index(x: Tensor, shape: Sequence[Extent]) -> Tensor:
        (size,) = shape
        axes = [te.reduce_axis((0, length)) for length in x.shape]
        index = x(*axes).astype("int64")
        place = _place(index, size, from_end=from_end)
        # As numbers without a sign, negative ones are larger than any size.
        largest = te.compute((), lambda: te.max(place.astype("uint64"), axis=axes))
        is_bad = tirx.all(largest() >= size.astype("uint64"), element_count(x.shape) > 0)

        def element(i: Index) -> PrimExpr:
            # Two numbers go to the check: whether there is a bad index, and one of them.
            return tirx.Select(i == 0, is_bad.astype("int64"), largest().astype("int64"))

        return te.compute((2,), element)

    size = relax.ShapeExpr([dim])
    if not shape_of(indices):
        report = indices if tensor_dtype(indices) == "int64" else call.emit(relax.op.astype(indices, "int64"))
    else:
        marks = {CHECKS_INDICES: FROM_END if from_end else 1, REDUCES: True}
        report = call.emit(call.te(find_bad_index, indices, size, primfunc_attrs=marks))
    call.emit(relax.Call(relax.ExternFunc(INDEX_IN_RANGE), [report, size], ty_args=[relax.TupleType([])]))


def find_first_bad(
    arrays: Sequence[Tensor], sizes: Sequence[Extent], places: Sequence[int], counted: Sequence[bool]
) -> Tensor:
    """Find the first of some checks that has an index out of range, and the largest of these.

    Args:
        arrays: arrays of indices, of one shape.
        sizes: what the indices of each check must be below.
        places: the number of the array that each check reads.
        counted: whether its negative indices count from the end.

    Returns:
        A number, 0 if all are in range: `report_of` reads it.

    """
    axes = [te.reduce_axis((0, length)) for length in arrays[0].shape]
    worst: PrimExpr = tirx.const(0, "uint64")
    for at, (number, size, from_end) in enumerate(zip(places, sizes, counted, strict=True)):
        index, place = (tirx.Var(name, "int64") for name in ("index", "place"))
        note = tirx.Let(place, _place(index, size, from_end=from_end), _note(place, size, len(places) - at))
        # Each element is read once: a pass keeps in memory what is computed for several reads.
        worst = tirx.max(worst, tirx.Let(index, arrays[number](*axes).astype("int64"), note))
    return te.compute((), lambda: te.max(worst, axis=axes))


def _place(index: PrimExpr, size: Extent, *, from_end: bool) -> PrimExpr:
    return tirx.Select(index < 0, index + size, index) if from_end else index


def _note(place: PrimExpr, size: Extent, number: int) -> PrimExpr:
    """Return the number of a check and a place that is out of range, in one number; 0 for one in range."""
    half = tirx.const(1 << _BITS - 1, "int64")
    short = tirx.max(tirx.min(place, half - 1), -half).astype("uint64")
    low = tirx.bitwise_and(short, tirx.const((1 << _BITS) - 1, "uint64"))
    # As numbers without a sign, negative ones are larger than any size.
    is_bad = place.astype("uint64") >= as_expr(size).astype("uint64")
    return tirx.Select(is_bad, low + tirx.const(number << _BITS, "uint64"), tirx.const(0, "uint64"))


def report_of(found: Tensor, sizes: Sequence[Extent], number: int) -> Tensor:
    """Return what a check gets, of which so many end the list with it: whether it failed, and an index.

    Of an index that has more bits than are kept, that is the least or the largest that there is.
    """
    shift = tirx.const(64 - _BITS, "int64")
    kept = tirx.shift_right(tirx.shift_left(found().astype("int64"), shift), shift)
    low = tirx.bitwise_and(found(), tirx.const((1 << _BITS) - 1, "uint64"))
    half = tirx.const(1 << _BITS - 1, "uint64")
    least = tirx.const(-(2**63), "int64") + sizes[0]  # which is taken from it again
    index = tirx.Select(low == half - 1, tirx.const(2**63 - 1, "int64"), kept)
    index = tirx.Select(low == half, least, index)
    is_bad = tirx.shift_right(found(), tirx.const(_BITS, "uint64")) == tirx.const(number, "uint64")
    return te.compute((2,), lambda i: tirx.Select(i == 0, is_bad.astype("int64"), index))
