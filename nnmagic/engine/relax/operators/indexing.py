"""Operators that read or write at places that other tensors name.

Relay reads outside the data where an index is out of range; here every index is brought into range first
(negative ones count from the end where Relay lets them, others are clamped): none can touch foreign memory.
"""

from __future__ import annotations

from typing import Any

from tvm import te, tirx, topi

from nnmagic.engine.relax.operators.binary import broadcast_shape, element_at
from nnmagic.engine.relax.operators.rule import RULES, Site, Value, integer, te_of
from nnmagic.engine.relax.operators.rule import te as te_rule
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


def _take(attrs: Attrs, data: Any, indices: Any) -> Any:
    """Elements (of the flat data), or slices along an axis."""
    fit = wrapped if attrs["mode"] == "wrap" else clamped
    if attrs["axis"] is None:
        flat = topi.reshape(data, [_size(data)])
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


def _size(data: Any) -> Any:
    number: Any = tirx.const(1, "int64")
    for dim in data.shape:
        number = number * dim
    return number


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
        return topi.sparse_to_dense(indices, size, values, default().astype(values.dtype))

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


RULES.update(
    {
        "take": te_of(_take),
        "gather": te_of(_gather),
        "gather_nd": te_of(_gather_nd),
        "adv_index": _adv_index,
        "scatter_elements": te_of(_scatter_elements),
        "scatter_nd": te_of(_scatter_nd),
        "sparse_to_dense": _sparse_to_dense,
        "matrix_set_diag": te_of(_matrix_set_diag),
        "unravel_index": te_rule(topi.unravel_index),
        "invert_permutation": te_rule(_invert_permutation),
    }
)
