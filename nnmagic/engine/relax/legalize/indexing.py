"""Operators that read or write at places that other tensors name.

Relay reads outside the data where an index is out of range; here every index is brought into range first
(negative ones count from the end where Relay lets them, others are clamped): none can touch foreign memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import relax, te, tirx, topi
from tvm.script.ir_builder import tirx as T  # noqa: N812  # the name that TVM gives it everywhere

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.binary import broadcast_shape, element_at
from nnmagic.engine.relax.legalize.extern_loops import fill_by_loops, grid
from nnmagic.engine.relax.legalize.manipulation import element_count
from nnmagic.engine.relax.legalize.registry import OPAQUE, RULES, OpCall, Rule, Value, shape_of, te_of
from nnmagic.engine.relax.legalize.registry import te as te_rule
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.runtime.callbacks import INDEX_IN_RANGE
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr
from nnmagic.relay.expr import Attrs


def clamp(index: Index, dim: Extent) -> PrimExpr:
    """The nearest index that exists."""
    return tirx.max(tirx.min(index.astype("int64"), dim - 1), tirx.const(0, "int64"))


def clamp_from_end(index: Index, dim: Extent) -> PrimExpr:
    """As ``clamp``, after counting a negative index from the end."""
    place = index.astype("int64")
    return clamp(tirx.Select(place < 0, place + dim, place), dim)


def wrap(index: Index, dim: Extent) -> PrimExpr:
    """The index modulo the dimension."""
    return tirx.floormod(index.astype("int64"), tirx.max(dim, tirx.const(1, "int64")))


def clip_to_range(value: PrimExpr, low: Extent, high: Extent) -> PrimExpr:
    """A number brought into a range, its dtype kept; NaN becomes the lowest."""
    least, most = (tirx.convert(bound).astype(scalar_functions.dtype_of(value)) for bound in (low, high))
    return tirx.Select(value > least, tirx.Select(value < most, value, most), least)


def refuse_empty(rule: Rule, axes: Callable[[OpCall, list[PrimExpr]], Sequence[PrimExpr]]) -> Rule:
    """The rule, refusing to look for an element where there is none in the dimensions that ``axes`` gives."""

    def looked(call: OpCall) -> Value:
        data, indices = (call.args[0][0], call.args[0][1]) if len(call.args) == 1 else call.args[:2]
        nothing = element_count(shape_of(indices)) == 0
        for dim in axes(call, shape_of(data)):
            present = dim > 0
            if nothing is not True and present is not True:
                call.require(tirx.any(present, nothing), "there is no element to take")
        return rule(call)

    return looked


def require_indices_in_range(call: OpCall, indices: Value, dim: Extent) -> None:
    """Has the call raise IndexError for the first of the indices that is not from 0 to before ``dim``."""

    def first(x: Tensor, shape: Extent) -> Tensor:
        (size,) = shape
        flat = x if len(x.shape) == 1 else topi.reshape(x, [element_count(x.shape)])
        count = flat.shape[0]
        k = te.reduce_axis((0, count), "k")
        place = flat(k).astype("int64")
        bad = tirx.any(place < 0, place >= size)
        far = tirx.const(2**62, "int64")
        at = te.compute((), lambda: te.min(tirx.Select(bad, k.var.astype("int64"), far), axis=k))
        last = tirx.max(count - 1, 0)

        def element(i: Index) -> PrimExpr:
            here = flat(tirx.min(at(), last)).astype("int64")
            found = tirx.Select(i == 0, tirx.const(1, "int64"), here)
            return tirx.if_then_else(at() < far, found, tirx.const(0, "int64"))

        return te.compute((2,), element)

    size = relax.ShapeExpr([dim])
    found = call.emit(call.te(first, indices, size))
    call.emit(relax.Call(relax.ExternFunc(INDEX_IN_RANGE), [found, size], ty_args=[relax.TupleType([])]))


def _take_with_mode(call: OpCall) -> Value:
    """The mode "fast" leaves open what an index out of range gives: here it is an error."""
    if call.attrs["mode"] != "fast":
        return refuse_empty(te_of(_take), _take_axes)(call)
    data, indices = call.args
    axis, shape = call.attrs["axis"], shape_of(data)
    dim = element_count(shape) if axis is None else shape[integer(axis) % len(shape)]
    require_indices_in_range(call, indices, dim)
    return te_of(_take)(call) if dim != 0 else refuse_empty(te_of(_take), _take_axes)(call)


def _take_axes(call: OpCall, shape: list[Extent]) -> Sequence[Extent]:
    axis = call.attrs["axis"]
    return shape if axis is None else [shape[integer(axis)]]


def _take(attrs: Attrs, data: Tensor, indices: Tensor) -> Tensor:
    """Elements (of the flat data), or slices along an axis."""
    fit = wrap if attrs["mode"] == "wrap" else clamp
    if attrs["axis"] is None:
        flat = topi.reshape(data, [element_count(data.shape)])
        return te.compute(indices.shape, lambda *at: flat(fit(indices(*at), flat.shape[0])))
    axis = integer(attrs["axis"]) % len(data.shape)
    batch = integer(attrs["batch_dims"])
    batch = batch + len(indices.shape) if batch < 0 else batch
    inner = len(indices.shape) - batch
    shape = [*data.shape[:axis], *indices.shape[batch:], *data.shape[axis + 1 :]]

    def element(*at: Index) -> PrimExpr:
        chosen = indices(*at[:batch], *at[axis : axis + inner])
        return data(*at[:axis], fit(chosen, data.shape[axis]), *at[axis + inner :])

    return te.compute(shape, element)


def _gather(attrs: Attrs, data: Tensor, indices: Tensor) -> Tensor:
    axis = integer(attrs["axis"]) % len(data.shape)

    def element(*at: Index) -> PrimExpr:
        return data(*at[:axis], clamp_from_end(indices(*at), data.shape[axis]), *at[axis + 1 :])

    return te.compute(indices.shape, element)


def _gather_nd(attrs: Attrs, data: Tensor, indices: Tensor) -> Tensor:
    """Element ``data[indices[0], indices[1], ...]`` for each place of the other axes of ``indices``."""
    batch = integer(attrs["batch_dims"])
    depth = int(indices.shape[0].value)
    places = len(indices.shape) - 1
    shape = [*indices.shape[1:], *data.shape[batch + depth :]]

    def element(*at: Index) -> PrimExpr:
        outer, inner = at[:places], at[places:]
        where = [clamp_from_end(indices(k, *outer), data.shape[batch + k]) for k in range(depth)]
        return data(*outer[:batch], *where, *inner)

    return te.compute(shape, element)


def _adv_index(call: OpCall) -> Value:
    """``data[i, j, ...]`` with index tensors broadcast together."""
    ((data, *indices),) = call.args

    def compute(x: Tensor, *where: Tensor) -> Tensor:
        common: list[PrimExpr] = []
        for one in where:
            common = broadcast_shape(common, one.shape)

        def element(*at: Index) -> PrimExpr:
            outer, inner = at[: len(common)], at[len(common) :]
            places = [element_at(one, outer, common) for one in where]
            fitted = [clamp_from_end(place, dim) for place, dim in zip(places, x.shape, strict=False)]
            return x(*fitted, *inner)

        return te.compute([*common, *x.shape[len(where) :]], element)

    return call.te(compute, data, *indices)


#: What is stored where there is ``old`` and ``new`` comes.
_REDUCTIONS: dict[str, Callable[[PrimExpr, PrimExpr], PrimExpr]] = {
    "update": lambda _old, new: new,
    "add": lambda old, new: tirx.any(old, new) if scalar_functions.dtype_of(old) == "bool" else old + new,
    "mul": lambda old, new: tirx.all(old, new) if scalar_functions.dtype_of(old) == "bool" else old * new,
    "mean": lambda old, new: scalar_functions.divide(old + new, scalar_functions.constant(2, old)),
    "min": scalar_functions.minimum,
    "max": scalar_functions.maximum,
}


def _scatter(call: OpCall, how: str, place: Callable[..., list[PrimExpr]], *operands: Value) -> Value:
    """The data, with an update at ``place(indices, shape of the data, index of the update)``."""
    if how not in _REDUCTIONS:
        call.refuse(f"cannot reduce by {how!r}")
    store = _REDUCTIONS[how]

    def loops(data: Tensor, indices: Tensor, updates: Tensor, result: Buffer) -> None:
        with grid(data.shape) as at:
            T.buffer_store(result, data[tuple(at)], at)
        with grid(updates.shape) as at:
            where = place(indices, data.shape, at)
            T.buffer_store(result, store(result[tuple(where)], updates[tuple(at)]), where)

    def compute(data: Tensor, indices: Tensor, updates: Tensor) -> PrimExpr:
        return fill_by_loops(loops, (data.shape, data.dtype), data, indices, updates)

    return call.te(compute, *operands, primfunc_attrs={"op_pattern": OPAQUE})


def _scatter_elements(call: OpCall) -> Value:
    axis = integer(call.attrs["axis"]) % len(shape_of(call.args[0]))

    def place(indices: Buffer, shape: Sequence[Extent], at: list[Index]) -> list[Extent]:
        return [*at[:axis], clamp_from_end(indices[tuple(at)], shape[axis]), *at[axis + 1 :]]

    return _scatter(call, str(call.attrs["reduction"]), place, *call.args)


def _scatter_nd(call: OpCall) -> Value:
    depth, *rows = shape_of(call.args[1])

    def place(indices: Buffer, shape: Sequence[Extent], at: list[Index]) -> list[Extent]:
        row, rest = at[: len(rows)], at[len(rows) :]
        named = [(k, *row) for k in range(depth)]
        return [*(clamp_from_end(indices[each], dim) for each, dim in zip(named, shape, strict=False)), *rest]

    return _scatter(call, str(call.attrs["mode"]), place, *call.args)


def _sparse_to_dense(call: OpCall) -> Value:
    shape = call.attrs["output_shape"]
    assert isinstance(shape, tuple)
    size = [int(dim) for dim in shape]

    def loops(indices: Tensor, values: Tensor, default: Buffer, result: PrimExpr) -> None:
        with grid(size) as at:
            T.buffer_store(result, default[()].astype(values.dtype), at)
        with grid(indices.shape[:1]) as row:
            columns = len(indices.shape) == 2
            named = [(*row, k) if columns else tuple(row) for k in range(len(size))]
            where = [
                clip_to_range(indices[each].astype("int64"), 0, dim - 1)
                for each, dim in zip(named, size, strict=True)
            ]
            T.buffer_store(result, values[tuple(row) if values.shape else ()], where)

    def compute(*operands: Tensor) -> PrimExpr:
        return fill_by_loops(loops, (size, operands[1].dtype), *operands)

    return call.te(compute, *call.args, primfunc_attrs={"op_pattern": OPAQUE})


def _matrix_set_diag(attrs: Attrs, data: Tensor, diagonal: Tensor) -> Tensor:
    first, last = integer(attrs["k1"]), integer(attrs["k2"])
    sides = (
        "RIGHT" if attrs["super_diag_right_align"] else "LEFT",
        "RIGHT" if attrs["sub_diag_right_align"] else "LEFT",
    )
    return topi.matrix_set_diag(data, diagonal, (first, last), "_".join(sides))


def _invert_permutation(permutation: Tensor) -> Tensor:
    """Where each number stands in the permutation: last, if it is none; 0 where it does not."""
    (length,) = permutation.shape
    k = te.reduce_axis((0, length), "k")

    def here(place: Index) -> PrimExpr:
        return tirx.Select(
            permutation(k) == place, k.var.astype(permutation.dtype), tirx.const(0, permutation.dtype)
        )

    return te.compute((length,), lambda place: te.max(here(place), axis=k))


def _unravel_index(call: OpCall) -> Value:
    """The coordinates of flat indices; a dimension of 0 counts as 1, as a division by it would trap."""
    if not isinstance(shape_of(call.args[1])[0], int):
        call.refuse("how long the shape is must be known when compiling")

    def compute(indices: Tensor, shape: Tensor) -> Tensor:
        safe = te.compute(shape.shape, lambda axis: tirx.max(shape(axis), tirx.const(1, shape.dtype)))
        return topi.unravel_index(indices, safe)

    return call.te(compute, *call.args)


RULES.update(
    {
        "take": _take_with_mode,
        "gather": refuse_empty(te_of(_gather), _take_axes),
        "gather_nd": refuse_empty(te_of(_gather_nd), lambda _call, shape: shape),
        "adv_index": refuse_empty(_adv_index, lambda _call, shape: shape),
        "scatter_elements": _scatter_elements,
        "scatter_nd": _scatter_nd,
        "sparse_to_dense": _sparse_to_dense,
        "matrix_set_diag": te_of(_matrix_set_diag),
        "unravel_index": _unravel_index,
        "invert_permutation": te_rule(_invert_permutation),
    }
)
