"""Legalize operators that assign elements at computed places."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm
from tvm import relax, te, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812 - TVM's own name for its builder

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.extern_loops import COPIES_FIRST, fill_by_loops, grid
from nnmagic.engine.relax.legalize.index_checks import clamp_from_end, clip_to_range, require_indices_in_range
from nnmagic.engine.relax.legalize.registry import OPAQUE, RULES, OpCall, Value, shape_of
from nnmagic.engine.relax.legalize.reshaping import reshape_to
from nnmagic.engine.relax.legalize.types import ElementFunction, Tensor
from nnmagic.engine.relax.tir.builders import dtype_of
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index
from nnmagic.relay.expr import operator_of

#: How a scatter combines the element ``old`` with the update ``new``.
_REDUCTIONS: dict[str, ElementFunction] = {
    # Loops run in order, so of several updates to one element the last one stays, as in NumPy.
    "update": lambda _old, new: new,
    "add": lambda old, new: tirx.any(old, new) if scalar_functions.dtype_of(old) == "bool" else old + new,
    "mul": lambda old, new: tirx.all(old, new) if scalar_functions.dtype_of(old) == "bool" else old * new,
    "mean": lambda old, new: scalar_functions.divide(old + new, scalar_functions.constant(2, old)),
    "min": scalar_functions.minimum,
    "max": scalar_functions.maximum,
}


def _scatter(call: OpCall, how: str, target: Callable[..., list[Index]], *operands: Value) -> Value:
    """Lower a scatter; an update goes to ``target(indices, shape of the data, index of the update)``.

    The operands are the data, the indices and the updates; without these each is 1.
    """
    if how not in _REDUCTIONS:
        call.refuse(f"cannot reduce by {how!r}")
    combine = _REDUCTIONS[how]

    def loops(data: Buffer, indices: Buffer, *rest: Buffer) -> None:
        *updates, result = rest
        with grid(data.shape) as at:
            T.buffer_store(result, data[tuple(at)], at)
        with grid((updates or [indices])[0].shape) as at:
            where = target(indices, data.shape, at)
            new = updates[0][tuple(at)] if updates else tirx.const(1, dtype_of(data))
            T.buffer_store(result, combine(result[tuple(where)], new), where)

    def compute(data: Tensor, *others: Tensor) -> Tensor:
        return fill_by_loops(loops, (data.shape, data.dtype), data, *others)

    return call.te(compute, *operands, primfunc_attrs={"op_pattern": OPAQUE, COPIES_FIRST: 1})


def _scatter_elements(call: OpCall) -> Value:
    axis = integer(call.attrs["axis"]) % len(shape_of(call.args[0]))

    def target(indices: Buffer, shape: Sequence[Extent], at: list[Index]) -> list[Index]:
        return [*at[:axis], clamp_from_end(indices[tuple(at)], shape[axis]), *at[axis + 1 :]]

    data, indices, updates = call.args
    # bincount and histograms scatter ones: an array of ones would be written and read for nothing.
    if operator_of(call.node.args[2]) == "ones_like":  # as where elements are counted: nothing is to be read
        return _scatter(call, str(call.attrs["reduction"]), target, data, indices)
    return _scatter(call, str(call.attrs["reduction"]), target, data, indices, updates)


def _scatter_nd(call: OpCall) -> Value:
    """Lower to loops over the updates; an index out of range is an error."""
    data, indices, updates = call.args
    depth, *rows = shape_of(indices)
    assert isinstance(depth, int)
    how = str(call.attrs["mode"])
    if how not in _REDUCTIONS:
        call.refuse(f"cannot reduce by {how!r}")
    if not rows:
        return _scatter_row(call, how, _coordinates(call, indices, depth), updates)
    dims = shape_of(data)[:depth]
    for k, dim in enumerate(dims):
        if depth == 1:
            row = call.emit(reshape_to(indices, rows))
        else:
            row = call.emit(call.te(lambda x, k=k: te.compute(x.shape[1:], lambda *at: x(k, *at)), indices))
        require_indices_in_range(call, row, dim, from_end=True)

    def target(indices: Buffer, shape: Sequence[Extent], at: list[Index]) -> list[Index]:
        row, rest = at[: len(rows)], at[len(rows) :]
        sources = [(k, *row) for k in range(depth)]
        chosen = (clamp_from_end(indices[source], dim) for source, dim in zip(sources, shape, strict=False))
        return [*chosen, *rest]

    return _scatter(call, how, target, data, indices, updates)


def _coordinates(call: OpCall, indices: Value, depth: int) -> list[Value]:
    """Return the coordinates that a vector of indices holds, which are in range, as tensors of rank 0.

    Those that were joined to the vector are taken from where they come from, which may be registers.
    """
    bound = call.builder.lookup_binding(indices) if isinstance(indices, relax.Var) else None
    parts = [(indices, k) for k in range(depth)]
    if isinstance(bound, relax.Call) and bound.op == _CONCAT:
        fields = bound.args[0].fields
        if all(shape_of(field) == [1] for field in fields):
            parts = [(field, 0) for field in fields]
    coordinates = []
    for (source, k), dim in zip(parts, shape_of(call.args[0]), strict=False):

        def wrap_negative(x: Tensor, size: Sequence[Extent], k: int = k) -> Tensor:
            index = x(k).astype("int64")
            return te.compute((), lambda: tirx.Select(index < 0, index + size[0], index))

        index = call.emit(call.te(wrap_negative, source, relax.ShapeExpr([dim])))
        require_indices_in_range(call, index, dim)
        coordinates.append(index)
    return coordinates


_CONCAT = tvm.ir.Op.get("relax.concat")


def _scatter_row(call: OpCall, how: str, coordinates: Sequence[Value], updates: Value) -> Value:
    """Lower the change of one element, or of one row, at coordinates that are in range."""
    combine = _REDUCTIONS[how]

    def loops(data: Buffer, *row: Buffer) -> None:
        *where, updates, result = row
        with grid(data.shape) as at:
            T.buffer_store(result, data[tuple(at)], at)
        first = [index[()] for index in where]
        with grid(updates.shape) as at:
            target = [*first, *at]
            T.buffer_store(result, combine(result[tuple(target)], updates[tuple(at)]), target)

    def compute(data: Tensor, *row: Tensor) -> Tensor:
        return fill_by_loops(loops, (data.shape, data.dtype), data, *row)

    attrs = {"op_pattern": OPAQUE, COPIES_FIRST: 1}
    return call.te(compute, call.args[0], *coordinates, updates, primfunc_attrs=attrs)


def _sparse_to_dense(call: OpCall) -> Value:
    shape = call.attrs["output_shape"]
    assert isinstance(shape, tuple)
    size = [int(dim) for dim in shape]

    def loops(indices: Buffer, values: Buffer, default: Buffer, result: Buffer) -> None:
        with grid(size) as at:
            T.buffer_store(result, default[()].astype(values.dtype), at)
        with grid(indices.shape[:1]) as row:
            columns = len(indices.shape) == 2
            sources = [(*row, k) if columns else tuple(row) for k in range(len(size))]
            where = [
                clip_to_range(indices[source].astype("int64"), 0, dim - 1)
                for source, dim in zip(sources, size, strict=True)
            ]
            T.buffer_store(result, values[tuple(row) if values.shape else ()], where)

    def compute(*operands: Tensor) -> Tensor:
        return fill_by_loops(loops, (size, operands[1].dtype), *operands)

    return call.te(compute, *call.args, primfunc_attrs={"op_pattern": OPAQUE})


RULES.update(
    {"scatter_elements": _scatter_elements, "scatter_nd": _scatter_nd, "sparse_to_dense": _sparse_to_dense}
)
