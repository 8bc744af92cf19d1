"""Operators that read or write at places that other tensors name.

Relay reads outside the data where an index is out of range; here every index is brought into range first
(negative ones count from the end where Relay lets them, others are clamped): none can touch foreign memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax, te, tirx, topi
from tvm.script.ir_builder import tirx as T  # noqa: N812  # the name that TVM gives it everywhere

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.binary import broadcast_shape, element_at
from nnmagic.engine.relax.legalize.extern_loops import filled_by, grid
from nnmagic.engine.relax.legalize.manipulation import product
from nnmagic.engine.relax.legalize.registry import OPAQUE, RULES, OpCall, Rule, Value, shape_of, te_of
from nnmagic.engine.relax.legalize.registry import te as te_rule
from nnmagic.engine.relax.runtime.callbacks import INDEX_IN_RANGE
from nnmagic.relay.expr import Attrs


def clamped(index: Any, dim: Any) -> Any:
    """The nearest index that exists."""
    return tirx.max(tirx.min(index.astype("int64"), dim - 1), tirx.const(0, "int64"))


def from_end(index: Any, dim: Any) -> Any:
    """As ``clamped``, after counting a negative index from the end."""
    place = index.astype("int64")
    return clamped(tirx.Select(place < 0, place + dim, place), dim)


def wrapped(index: Any, dim: Any) -> Any:
    """The index modulo the dimension."""
    return tirx.floormod(index.astype("int64"), tirx.max(dim, tirx.const(1, "int64")))


def within(value: Any, low: Any, high: Any) -> Any:
    """A number brought into a range, its dtype kept; NaN becomes the lowest."""
    least, most = (tirx.convert(bound).astype(scalar_functions.dtype_of(value)) for bound in (low, high))
    return tirx.Select(value > least, tirx.Select(value < most, value, most), least)


def checked(rule: Rule, axes: Callable[[OpCall, list[Any]], Sequence[Any]]) -> Rule:
    """The rule, refusing to look for an element where there is none in the dimensions that ``axes`` gives."""

    def looked(site: OpCall) -> Value:
        data, indices = (site.args[0][0], site.args[0][1]) if len(site.args) == 1 else site.args[:2]
        nothing = product(shape_of(indices)) == 0
        for dim in axes(site, shape_of(data)):
            present = dim > 0
            if nothing is not True and present is not True:
                site.require(tirx.any(present, nothing), "there is no element to take")
        return rule(site)

    return looked


def require_places(site: OpCall, indices: Value, dim: Any) -> None:
    """Has the call raise IndexError for the first of the indices that is not from 0 to before ``dim``."""

    def first(x: Any, shape: Any) -> Any:
        (size,) = shape
        flat = x if len(x.shape) == 1 else topi.reshape(x, [product(x.shape)])
        count = flat.shape[0]
        k = te.reduce_axis((0, count), "k")
        place = flat(k).astype("int64")
        bad = tirx.any(place < 0, place >= size)
        far = tirx.const(2**62, "int64")
        at = te.compute((), lambda: te.min(tirx.Select(bad, k.var.astype("int64"), far), axis=k))
        last = tirx.max(count - 1, 0)

        def element(i: Any) -> Any:
            here = flat(tirx.min(at(), last)).astype("int64")
            found = tirx.Select(i == 0, tirx.const(1, "int64"), here)
            return tirx.if_then_else(at() < far, found, tirx.const(0, "int64"))

        return te.compute((2,), element)

    size = relax.ShapeExpr([dim])
    found = site.emit(site.te(first, indices, size))
    site.emit(relax.Call(relax.ExternFunc(INDEX_IN_RANGE), [found, size], ty_args=[relax.TupleType([])]))


def _take_with_mode(site: OpCall) -> Value:
    """The mode "fast" leaves open what an index out of range gives: here it is an error."""
    if site.attrs["mode"] != "fast":
        return checked(te_of(_take), _take_axes)(site)
    data, indices = site.args
    axis, shape = site.attrs["axis"], shape_of(data)
    dim = product(shape) if axis is None else shape[integer(axis) % len(shape)]
    require_places(site, indices, dim)
    return te_of(_take)(site) if dim != 0 else checked(te_of(_take), _take_axes)(site)


def _take_axes(site: OpCall, shape: list[Any]) -> Sequence[Any]:
    axis = site.attrs["axis"]
    return shape if axis is None else [shape[integer(axis)]]


def _take(attrs: Attrs, data: Any, indices: Any) -> Any:
    """Elements (of the flat data), or slices along an axis."""
    fit = wrapped if attrs["mode"] == "wrap" else clamped
    if attrs["axis"] is None:
        flat = topi.reshape(data, [product(data.shape)])
        return te.compute(indices.shape, lambda *at: flat(fit(indices(*at), flat.shape[0])))
    axis = integer(attrs["axis"]) % len(data.shape)
    batch = integer(attrs["batch_dims"])
    batch = batch + len(indices.shape) if batch < 0 else batch
    inner = len(indices.shape) - batch
    shape = [*data.shape[:axis], *indices.shape[batch:], *data.shape[axis + 1 :]]

    def element(*at: Any) -> Any:
        chosen = indices(*at[:batch], *at[axis : axis + inner])
        return data(*at[:axis], fit(chosen, data.shape[axis]), *at[axis + inner :])

    return te.compute(shape, element)


def _gather(attrs: Attrs, data: Any, indices: Any) -> Any:
    axis = integer(attrs["axis"]) % len(data.shape)

    def element(*at: Any) -> Any:
        return data(*at[:axis], from_end(indices(*at), data.shape[axis]), *at[axis + 1 :])

    return te.compute(indices.shape, element)


def _gather_nd(attrs: Attrs, data: Any, indices: Any) -> Any:
    """Element ``data[indices[0], indices[1], ...]`` for each place of the other axes of ``indices``."""
    batch = integer(attrs["batch_dims"])
    depth = int(indices.shape[0].value)
    places = len(indices.shape) - 1
    shape = [*indices.shape[1:], *data.shape[batch + depth :]]

    def element(*at: Any) -> Any:
        outer, inner = at[:places], at[places:]
        where = [from_end(indices(k, *outer), data.shape[batch + k]) for k in range(depth)]
        return data(*outer[:batch], *where, *inner)

    return te.compute(shape, element)


def _adv_index(site: OpCall) -> Value:
    """``data[i, j, ...]`` with index tensors broadcast together."""
    ((data, *indices),) = site.args

    def compute(x: Any, *where: Any) -> Any:
        common: list[Any] = []
        for one in where:
            common = broadcast_shape(common, one.shape)

        def element(*at: Any) -> Any:
            outer, inner = at[: len(common)], at[len(common) :]
            places = [element_at(one, outer, common) for one in where]
            fitted = [from_end(place, dim) for place, dim in zip(places, x.shape, strict=False)]
            return x(*fitted, *inner)

        return te.compute([*common, *x.shape[len(where) :]], element)

    return site.te(compute, data, *indices)


#: What is stored where there is ``old`` and ``new`` comes.
_STORED: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda _old, new: new,
    "add": lambda old, new: tirx.any(old, new) if scalar_functions.dtype_of(old) == "bool" else old + new,
    "mul": lambda old, new: tirx.all(old, new) if scalar_functions.dtype_of(old) == "bool" else old * new,
    "mean": lambda old, new: scalar_functions.divide(old + new, scalar_functions.constant(2, old)),
    "min": scalar_functions.minimum,
    "max": scalar_functions.maximum,
}


def _scattered(site: OpCall, how: str, place: Callable[..., list[Any]], *operands: Value) -> Value:
    """The data, with an update at ``place(indices, shape of the data, index of the update)``."""
    if how not in _STORED:
        site.refuse(f"cannot reduce by {how!r}")
    store = _STORED[how]

    def loops(data: Any, indices: Any, updates: Any, result: Any) -> None:
        with grid(data.shape) as at:
            T.buffer_store(result, data[tuple(at)], at)
        with grid(updates.shape) as at:
            where = place(indices, data.shape, at)
            T.buffer_store(result, store(result[tuple(where)], updates[tuple(at)]), where)

    def compute(data: Any, indices: Any, updates: Any) -> Any:
        return filled_by(loops, (data.shape, data.dtype), data, indices, updates)

    return site.te(compute, *operands, primfunc_attrs={"op_pattern": OPAQUE})


def _scatter_elements(site: OpCall) -> Value:
    axis = integer(site.attrs["axis"]) % len(shape_of(site.args[0]))

    def place(indices: Any, shape: Sequence[Any], at: list[Any]) -> list[Any]:
        return [*at[:axis], from_end(indices[tuple(at)], shape[axis]), *at[axis + 1 :]]

    return _scattered(site, str(site.attrs["reduction"]), place, *site.args)


def _scatter_nd(site: OpCall) -> Value:
    depth, *rows = shape_of(site.args[1])

    def place(indices: Any, shape: Sequence[Any], at: list[Any]) -> list[Any]:
        row, rest = at[: len(rows)], at[len(rows) :]
        named = [(k, *row) for k in range(depth)]
        return [*(from_end(indices[each], dim) for each, dim in zip(named, shape, strict=False)), *rest]

    return _scattered(site, str(site.attrs["mode"]), place, *site.args)


def _sparse_to_dense(site: OpCall) -> Value:
    shape = site.attrs["output_shape"]
    assert isinstance(shape, tuple)
    size = [int(dim) for dim in shape]

    def loops(indices: Any, values: Any, default: Any, result: Any) -> None:
        with grid(size) as at:
            T.buffer_store(result, default[()].astype(values.dtype), at)
        with grid(indices.shape[:1]) as row:
            columns = len(indices.shape) == 2
            named = [(*row, k) if columns else tuple(row) for k in range(len(size))]
            where = [
                within(indices[each].astype("int64"), 0, dim - 1)
                for each, dim in zip(named, size, strict=True)
            ]
            T.buffer_store(result, values[tuple(row) if values.shape else ()], where)

    def compute(*operands: Any) -> Any:
        return filled_by(loops, (size, operands[1].dtype), *operands)

    return site.te(compute, *site.args, primfunc_attrs={"op_pattern": OPAQUE})


def _matrix_set_diag(attrs: Attrs, data: Any, diagonal: Any) -> Any:
    first, last = integer(attrs["k1"]), integer(attrs["k2"])
    sides = (
        "RIGHT" if attrs["super_diag_right_align"] else "LEFT",
        "RIGHT" if attrs["sub_diag_right_align"] else "LEFT",
    )
    return topi.matrix_set_diag(data, diagonal, (first, last), "_".join(sides))


def _invert_permutation(permutation: Any) -> Any:
    """Where each number stands in the permutation: last, if it is none; 0 where it does not."""
    (length,) = permutation.shape
    k = te.reduce_axis((0, length), "k")

    def here(place: Any) -> Any:
        return tirx.Select(
            permutation(k) == place, k.var.astype(permutation.dtype), tirx.const(0, permutation.dtype)
        )

    return te.compute((length,), lambda place: te.max(here(place), axis=k))


def _unravel_index(site: OpCall) -> Value:
    """The coordinates of flat indices; a dimension of 0 counts as 1, as a division by it would trap."""
    if not isinstance(shape_of(site.args[1])[0], int):
        site.refuse("how long the shape is must be known when compiling")

    def compute(indices: Any, shape: Any) -> Any:
        safe = te.compute(shape.shape, lambda axis: tirx.max(shape(axis), tirx.const(1, shape.dtype)))
        return topi.unravel_index(indices, safe)

    return site.te(compute, *site.args)


RULES.update(
    {
        "take": _take_with_mode,
        "gather": checked(te_of(_gather), _take_axes),
        "gather_nd": checked(te_of(_gather_nd), lambda _site, shape: shape),
        "adv_index": checked(_adv_index, lambda _site, shape: shape),
        "scatter_elements": _scatter_elements,
        "scatter_nd": _scatter_nd,
        "sparse_to_dense": _sparse_to_dense,
        "matrix_set_diag": te_of(_matrix_set_diag),
        "unravel_index": _unravel_index,
        "invert_permutation": te_rule(_invert_permutation),
    }
)
