"""Operators that read or write at places that other tensors name.

Relay reads outside the data where an index is out of range; here every index is brought into range first
(negative ones count from the end where Relay lets them, others are clamped): none can touch foreign memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import te, tirx, topi

from nnmagic.engine.relax.operators import scalar
from nnmagic.engine.relax.operators.binary import broadcast_shape, element_at
from nnmagic.engine.relax.operators.rule import RULES, Rule, Site, Value, integer, shape_of, te_of
from nnmagic.engine.relax.operators.rule import te as te_rule
from nnmagic.engine.relax.operators.shaping import product
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
    least, most = (tirx.convert(bound).astype(scalar.dtype_of(value)) for bound in (low, high))
    return tirx.Select(value > least, tirx.Select(value < most, value, most), least)


def checked(rule: Rule, axes: Callable[[Site, list[Any]], Sequence[Any]]) -> Rule:
    """The rule, refusing to look for an element where there is none in the dimensions that ``axes`` gives."""

    def looked(site: Site) -> Value:
        data, indices = (site.args[0][0], site.args[0][1]) if len(site.args) == 1 else site.args[:2]
        nothing = product(shape_of(indices)) == 0
        for dim in axes(site, shape_of(data)):
            present = dim > 0
            if nothing is not True and present is not True:
                site.require(tirx.any(present, nothing), "there is no element to take")
        return rule(site)

    return looked


def _take_axes(site: Site, shape: list[Any]) -> Sequence[Any]:
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


def _adv_index(site: Site) -> Value:
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


def _fitted(indices: Any, dim: Any) -> Any:
    return te.compute(indices.shape, lambda *at: from_end(indices(*at), dim).astype(indices.dtype))


def _scatter_elements(attrs: Attrs, data: Any, indices: Any, updates: Any) -> Any:
    axis = integer(attrs["axis"]) % len(data.shape)
    return topi.scatter_elements(
        data, _fitted(indices, data.shape[axis]), updates, axis, str(attrs["reduction"])
    )


def _scatter_nd(attrs: Attrs, data: Any, indices: Any, updates: Any) -> Any:
    def fitted(*at: Any) -> Any:
        place = indices(*at)
        result = place
        for k in range(int(indices.shape[0].value)):
            result = tirx.Select(at[0] == k, from_end(place, data.shape[k]).astype(indices.dtype), result)
        return result

    return topi.scatter_nd(data, te.compute(indices.shape, fitted), updates, str(attrs["mode"]))


def _sparse_to_dense(site: Site) -> Value:
    shape = site.attrs["output_shape"]
    assert isinstance(shape, tuple)
    size = [int(dim) for dim in shape]

    def compute(indices: Any, values: Any, default: Any) -> Any:
        def fitted(*at: Any) -> Any:
            place = indices(*at)
            result = within(place, 0, size[0] - 1)
            for axis in range(1, len(size) if len(indices.shape) == 2 else 1):
                result = tirx.Select(at[1] == axis, within(place, 0, size[axis] - 1), result)
            return result

        places = te.compute(indices.shape, fitted)
        return topi.sparse_to_dense(places, size, values, default().astype(values.dtype))

    return site.te(compute, *site.args)


def _matrix_set_diag(attrs: Attrs, data: Any, diagonal: Any) -> Any:
    first, last = integer(attrs["k1"]), integer(attrs["k2"])
    sides = (
        "RIGHT" if attrs["super_diag_right_align"] else "LEFT",
        "RIGHT" if attrs["sub_diag_right_align"] else "LEFT",
    )
    return topi.matrix_set_diag(data, diagonal, (first, last), "_".join(sides))


def _invert_permutation(permutation: Any) -> Any:
    """Where each number stands in the permutation."""
    (length,) = permutation.shape
    k = te.reduce_axis((0, length), "k")

    def here(place: Any) -> Any:
        return tirx.Select(permutation(k) == place, k.var.astype(permutation.dtype), 0)

    return te.compute((length,), lambda place: te.sum(here(place), axis=k))


def _unravel_index(indices: Any, shape: Any) -> Any:
    """The coordinates of flat indices; a dimension of 0 counts as 1, as a division by it would trap."""
    safe = te.compute(shape.shape, lambda axis: tirx.max(shape(axis), tirx.const(1, shape.dtype)))
    return topi.unravel_index(indices, safe)


RULES.update(
    {
        "take": checked(te_of(_take), _take_axes),
        "gather": checked(te_of(_gather), _take_axes),
        "gather_nd": checked(te_of(_gather_nd), lambda _site, shape: shape),
        "adv_index": checked(_adv_index, lambda _site, shape: shape),
        "scatter_elements": te_of(_scatter_elements),
        "scatter_nd": te_of(_scatter_nd),
        "sparse_to_dense": _sparse_to_dense,
        "matrix_set_diag": te_of(_matrix_set_diag),
        "unravel_index": te_rule(_unravel_index),
        "invert_permutation": te_rule(_invert_permutation),
    }
)
