"""Differentiate operators that read or write at indices: the cotangent is scattered or gathered there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from nnmagic.relay.expr import Expr
from nnmagic.relay.gradients.registry import rule, zero
from nnmagic.relay.gradients.vjp_call import Contribution, IndexedSlice, Update, VjpCall, is_static, same_dim
from nnmagic.relay.tensor_expr import TensorExpr
from nnmagic.relay.types import TensorType, TupleType

zero(
    "argwhere",
    "unravel_index",
    "searchsorted",
    "numpy.histogram",
    "numpy.isin",
    *(
        f"numpy.bitwise_{name}.{method}"
        for name in ("and", "or", "xor")
        for method in ("accumulate", "reduce")
    ),
    "argsort",
    "numpy.argpartition",
    "invert_permutation",
    "table.find",
    "table.found",
    "table.slots",
    "table.alive",
)

#: The end of a slice that reaches the end of its axis.
_FAR = 2**48


@rule("take")
def _take(p: VjpCall) -> Sequence[Contribution]:
    """Add the rows of the cotangent to the rows that were taken."""
    if p.attrs["batch_dims"]:
        raise p.unsupported("batch_dims must be 0", "use take_along_axis")
    indices, index_rank = _valid_indices(p), p.rank(1)
    if p.attrs["axis"] is None:
        flat = p.d
        size = p.x().reshape([-1]).zeros()
        # An element that was taken twice gets the sum of both cotangents.
        added = size.op("scatter_nd", indices.op("expand_dims", axis=0), flat, mode="add")
        return [p.reshape_to(added, 0), None]
    axis, rank = p.axis(), p.rank()
    if index_rank == 0:
        return [IndexedSlice(rank, {axis: indices}, p.d).update(), None]
    picked = list(range(axis, axis + index_rank))
    others = [index for index in range(index_rank + rank - 1) if index not in picked]
    rows = p.d.transpose([*picked, *others])
    order = [axis, *(index for index in range(rank) if index != axis)]
    back = [order.index(index) for index in range(rank)]
    where = indices.op("expand_dims", axis=0)

    def add_rows(total: Expr) -> Expr:
        base = p.term(total, p.d.dtype).transpose(order)
        return base.op("scatter_nd", where, rows, mode="add").transpose(back).expr

    # An update changes the cotangent that is collected, one tensor for all reads of it: adding a
    # tensor of zeros with a few rows for each `x[i]` in a loop would cost the whole of x every
    # time.
    return [Update(add_rows), None]


def _valid_indices(p: VjpCall) -> TensorExpr:
    """Return the indices as elements that are there: the mode says what others mean."""
    indices = p.x(1)
    if indices.dtype == "bool":
        indices = indices.cast("int64")
    mode, axis = p.attrs["mode"], p.attrs["axis"]
    if mode not in ("clip", "wrap"):
        return indices
    size: TensorExpr | None = None
    for each in range(p.rank()) if axis is None else [p.axis()]:
        one = p.size(0, each)
        size = one if size is None else size * one
    size = (p.array(1, "int64") if size is None else size).cast(indices.dtype)
    if mode == "wrap":
        return indices.op("floor_mod", size)
    return indices.op("maximum", 0).op("minimum", size - 1)


@rule("gather")
def _gather(p: VjpCall) -> Sequence[Contribution]:
    axis = p.axis()

    def add(total: Expr) -> Expr:
        base = p.term(total, p.d.dtype)
        return base.op("scatter_elements", p.args[1], p.d, axis=axis, reduction="add").expr

    return [Update(add), None]


@rule("gather_nd")
def _gather_nd(p: VjpCall) -> Sequence[Contribution]:
    if p.attrs["batch_dims"]:
        raise p.unsupported("batch_dims must be 0", "use take_along_axis")

    def add(total: Expr) -> Expr:
        return p.term(total, p.d.dtype).op("scatter_nd", p.args[1], p.d, mode="add").expr

    return [Update(add), None]


@rule("adv_index")
def _adv_index(p: VjpCall) -> Sequence[Contribution]:
    """Scatter at the indices, which are broadcast together and stacked."""
    (type_,) = p.types
    assert isinstance(type_, TupleType)
    count = len(type_.fields) - 1
    fields = [cast("TensorType", field) for field in type_.fields]
    total: TensorExpr | None = None
    for index in range(1, count + 1):
        one = p.field(0, index).cast("int64")
        total = one if total is None else total + one
    assert total is not None
    grids = []
    for index in range(1, count + 1):
        grid = p.field(0, index).cast("int64") + total.zeros()
        dim = fields[0].shape[index - 1]
        size: TensorExpr = (
            p.array(dim, "int64")
            if isinstance(dim, int)
            else p.call("shape_of", p.field(0, 0), dtype="int64").op(
                "take", p.array(index - 1, "int64"), axis=0, mode="fast"
            )
        )
        # `scatter_nd` takes no negative indices.
        grids.append((grid < 0).choose(grid + size, grid).op("expand_dims", axis=0))
    where = grids[0] if count == 1 else p.tuple_of(*grids).op("concatenate", axis=0)

    def add(data: Expr) -> Expr:
        return p.term(data, p.d.dtype).op("scatter_nd", where, p.d, mode="add").expr

    return [[Update(add), *([None] * count)]]


@rule("strided_slice")
def _strided_slice(p: VjpCall) -> Sequence[Contribution]:
    shape = p.shape(0)
    slices = _slices(p)
    for axis, bounds in enumerate(slices):
        # x[::-1] is its own transpose.
        if bounds is not None and bounds[0] >= _FAR and bounds[1:] == (-_FAR, -1):  # the whole axis
            p = replace(p, cotangents=p.d.op("reverse", axis=axis))
            slices[axis] = None
    moved = [axis for axis, bounds in enumerate(slices) if bounds is not None]
    if all(isinstance(shape[axis], int) for axis in moved):
        return [_pad(p, slices)]
    begin = [0 if bounds is None else bounds[0] for bounds in slices]
    end = [_FAR if bounds is None else bounds[1] for bounds in slices]
    step = [1 if bounds is None else bounds[2] for bounds in slices]
    where = [p.array(values, "int64") for values in (begin, end, step)]
    return [p.x().zeros().op("strided_set", p.d, *where)]


def _slices(p: VjpCall) -> list[tuple[int, int, int] | None]:
    """Return begin, end and step of each axis; None for a whole one."""
    rank = p.rank()
    axes = cast("Sequence[int] | None", p.attrs["axes"])
    begin = cast("Sequence[int]", p.attrs["begin"])
    end = cast("Sequence[int]", p.attrs["end"])
    strides = cast("Sequence[int]", p.attrs["strides"])
    by_size = p.attrs["slice_mode"] == "size"
    slices: list[tuple[int, int, int] | None] = [None] * rank
    listed = list(axes) if axes is not None else list(range(max(len(begin), len(end), len(strides))))
    for place, axis in enumerate(listed):
        step = strides[place] if place < len(strides) and not by_size else 1
        first = begin[place] if place < len(begin) else (0 if step > 0 else _FAR)
        last = end[place] if place < len(end) else (_FAR if step > 0 else -_FAR)
        if by_size:
            last = _FAR if last < 0 else first + last
        if not (first == 0 and step == 1 and last >= 2**31 - 1):
            slices[axis % rank] = (first, last, step)
    return slices


def _pad(p: VjpCall, slices: Sequence[tuple[int, int, int] | None]) -> TensorExpr:
    """Put the cotangent at its places among zeros."""
    d = p.d
    widths, steps = [[0, 0] for _ in slices], [1] * len(slices)
    for axis, bounds in enumerate(slices):
        if bounds is None:
            continue
        size = cast("int", p.shape(0)[axis])
        taken = range(*slice(*bounds).indices(size))
        if not taken:
            widths[axis] = [0, size]
            continue
        if bounds[2] < 0:
            # A backward slice reads the elements of a forward one: zeros are put between and around
            # these.
            d, taken = d.op("reverse", axis=axis), taken[::-1]
        steps[axis] = taken.step if len(taken) > 1 else 1
        widths[axis] = [taken[0], size - 1 - taken[-1]]
    if any(step > 1 for step in steps):
        d = d.op("nn.dilate", strides=steps, dilation_value=0.0)
    if any(any(width) for width in widths):
        d = d.op("nn.pad", d.like(0), pad_width=widths)
    return d


@rule("dyn.strided_slice")
def _dyn_strided_slice(p: VjpCall) -> Sequence[Contribution]:
    rank = p.rank()
    attr_axes = cast("Sequence[int] | None", p.attrs["axes"])
    axes = (
        list(range(cast("int", p.shape(1)[0]))) if attr_axes is None else [axis % rank for axis in attr_axes]
    )
    if p.attrs["slice_mode"] != "end":
        raise p.unsupported("slice_mode must be 'end'")
    bounds = [p.x(index).cast("int64") for index in (1, 2, 3)]
    return [_put_back(p, bounds, axes), None, None, None]


@rule("python.window")
def _window(p: VjpCall) -> Sequence[Contribution]:
    begin, axes = p.x(1), list(range(cast("int", p.shape(1)[0])))
    bounds = [begin, begin + p.x(2), p.array([1] * len(axes), "int64")]
    return [_put_back(p, bounds, axes), None, None]


def _put_back(p: VjpCall, bounds: Sequence[TensorExpr], axes: Sequence[int]) -> TensorExpr:
    """Return zeros with the cotangent in a slice, by its begins, ends and strides along some axes."""
    if list(axes) != list(range(p.rank())):
        bounds = [_all_axes(p, bound, axes, rest) for bound, rest in zip(bounds, (0, _FAR, 1), strict=True)]
    return p.x().zeros().op("strided_set", p.d, *bounds)


def _all_axes(p: VjpCall, bound: TensorExpr, axes: Sequence[int], rest: int) -> TensorExpr:
    """Return a bound of each axis; ``rest`` where it was given for some."""
    indices = []
    for axis in range(p.rank()):
        if axis in axes:
            at = axes.index(axis)
            indices.append(bound.between(0, at, at + 1))
        else:
            indices.append(p.array([rest], "int64"))
    return p.tuple_of(*indices).op("concatenate", axis=0)


@rule("slice_like")
def _slice_like(p: VjpCall) -> Sequence[Contribution]:
    rank = p.rank()
    zeros, ones = p.array([0] * rank, "int64"), p.array([1] * rank, "int64")
    end = p.call("shape_of", p.d, dtype="int64")
    return [p.x().zeros().op("strided_set", p.d, zeros, end, ones), None]


@rule("sequence_mask")
def _sequence_mask(p: VjpCall) -> Sequence[Contribution]:
    return [p.d.op("sequence_mask", p.args[1], mask_value=0.0, axis=p.attrs["axis"]), None]


@rule("scatter_elements")
def _scatter_elements(p: VjpCall) -> Sequence[Contribution]:
    axis, how = p.axis(), p.attrs["reduction"]
    if how not in ("add", "update"):
        raise p.unsupported(f"the reduction {how!r} has no rule", "use the reduction 'add' or 'update'")
    indices, updates = p.args[1], p.x(2)

    def pick(term: TensorExpr) -> TensorExpr:
        return _reach(p, term, axis).op("gather", indices, axis=axis)

    picked = pick(p.d)
    if how == "add":
        return [p.d, None, picked]
    data = p.d.op("scatter_elements", indices, updates.zeros(), axis=axis, reduction="update")
    numbers = _numbers(updates)
    # Of several updates to one element the last one stays. Numbering the updates and scattering the
    # numbers in the same way shows which; the others have no influence, and so no cotangent.
    last = p.x(0).zeros().cast("float64").op("scatter_elements", indices, numbers, axis=axis)
    return [data, None, pick(last).equal(numbers).choose(picked, 0)]


def _reach(p: VjpCall, term: TensorExpr, axis: int) -> TensorExpr:
    """Cut the axes beside the scattered one to those of the indices."""
    pairs = enumerate(zip(p.shape(0), p.shape(1), strict=True))
    cut = [axis_ for axis_, (size, count) in pairs if axis_ != axis and not same_dim(size, count)]
    if not cut:
        return term
    ends = [p.shape(1)[axis_] for axis_ in cut]
    if not is_static(ends):
        raise p.unsupported("the sizes of the indices must be known at compile time")
    zeros, ones = [0] * len(cut), [1] * len(cut)
    return term.op("strided_slice", begin=zeros, end=ends, strides=ones, axes=cut)


def _numbers(updates: TensorExpr) -> TensorExpr:
    """Return a number for each update: which of several of one element is the last is read from them."""
    ones = updates.op("ones_like").cast("float64")
    flat = ones.reshape([-1]).op("cumsum", axis=0)
    return flat.op("reshape_like", updates)


@rule("scatter_nd")
def _scatter_nd(p: VjpCall) -> Sequence[Contribution]:
    how = p.attrs["mode"]
    if how not in ("add", "update"):
        raise p.unsupported(f"the mode {how!r} has no rule", "use the mode 'add' or 'update'")
    indices, updates = p.args[1], p.x(2)
    depth = cast("int", p.shape(1)[0])

    def pick() -> TensorExpr:
        return p.d.op("gather_nd", indices, batch_dims=0, index_rank=depth)

    if how == "add":
        return [p.d, None, pick() if p.wanted[2] else None]
    data = p.d.op("scatter_nd", indices, updates.zeros(), mode="update") if p.wanted[0] else None
    if not p.wanted[2]:
        return [data, None, None]
    places = p.shape(1)[1:]
    if all(dim == 1 for dim in places):
        return [data, None, pick()]
    numbers = _numbers(updates)
    last = p.x(0).zeros().cast("float64").op("scatter_nd", indices, numbers, mode="update")
    won = last.op("gather_nd", indices, batch_dims=0, index_rank=depth).equal(numbers)
    return [data, None, won.choose(pick(), 0)]


@rule("strided_set")
def _strided_set(p: VjpCall) -> Sequence[Contribution]:
    bounds = p.args[2:]
    data = p.d.op("strided_set", p.x(1).zeros(), *bounds) if p.wanted[0] else None
    v = None
    if p.wanted[1]:
        taken = p.d.op("dyn.strided_slice", *(p.x(index).cast("int64") for index in (2, 3, 4)))
        v = p.like(taken, p.x(1), p.tensor(1))
    return [data, v, None, None, None]


@rule("sparse_to_dense")
def _sparse_to_dense(p: VjpCall) -> Sequence[Contribution]:
    if p.rank(0) != 2 or p.rank(1) != 1:
        raise p.unsupported("the indices must be a matrix, the values a vector")
    picked = p.d.op("gather_nd", p.x(0).transpose([1, 0]))
    return [None, picked, p.d.sum() - picked.sum()]


@rule("matrix_set_diag")
def _matrix_set_diag(p: VjpCall) -> Sequence[Contribution]:
    if p.attrs["k1"] != p.attrs["k2"]:
        raise p.unsupported("k1 and k2 must be one diagonal")
    data = p.d.op("matrix_set_diag", p.x(1).zeros(), k=cast("int", p.attrs["k1"]))
    shape, k = p.static(), cast("int", p.attrs["k1"])
    rank, count = len(shape), p.static(1)[-1]
    rows = [index + max(-k, 0) for index in range(count)]
    columns = [index + max(k, 0) for index in range(count)]
    order = [rank - 2, rank - 1, *range(rank - 2)]
    where = p.array([rows, columns], "int64")
    diagonal = p.d.transpose(order).op("gather_nd", where, batch_dims=0, index_rank=2)
    return [data, diagonal.transpose([*range(1, rank - 1), 0])]


@rule("trilu")
def _trilu(p: VjpCall) -> Sequence[Contribution]:
    return [p.d.op("trilu", p.args[1], upper=p.attrs["upper"]), None]


@rule("one_hot", "dyn.one_hot")
def _one_hot(p: VjpCall) -> Sequence[Contribution]:
    on, off = (p.array(value, p.d.dtype) for value in (1, 0))
    sizes = p.args[3:]
    hot = p.call(p.name, TensorExpr(p.args[0], p.d.dtype), on, off, *sizes, dtype=p.d.dtype, **_other(p))
    chosen = (p.d * hot).sum()
    return [None, chosen, p.d.sum() - chosen, *([None] * len(sizes))]


def _other(p: VjpCall) -> dict[str, Any]:
    return {name: value for name, value in p.attrs.items() if name != "dtype"}


@rule("sort")
def _sort(p: VjpCall) -> Sequence[Contribution]:
    axis = p.axis()
    # A sort is a permutation: its transpose puts each cotangent where its element came from.
    order = p.x().op("argsort", axis=axis, is_ascend=p.attrs["is_ascend"], dtype="int64")
    return [p.x().zeros().op("scatter_elements", order, p.d, axis=axis, reduction="update")]


@rule("numpy.partition")
def _partition(p: VjpCall) -> Sequence[Contribution]:
    """Pass the cotangent of each element on to one that is equal, as the orders of both show them."""
    axis = p.axis()
    own, result = (each.op("argsort", axis=axis, is_ascend=True, dtype="int64") for each in (p.x(), p.y))
    d = p.d.op("gather", result, axis=axis)
    return [p.x().zeros().op("scatter_elements", own, d, axis=axis, reduction="update"), None]


@rule("topk", "dyn.topk")
def _topk(p: VjpCall) -> Sequence[Contribution]:
    others: list[Contribution] = [None] * (len(p.args) - 1)
    axis = p.axis()
    d = p.d_part(0) if isinstance(p.out_type, TupleType) else p.d
    if d is None:
        return [None, *others]
    attrs = {**p.given, "ret_type": "indices", "dtype": "int64"}
    order = p.call(p.name, p.x(), *p.args[1:], **attrs)
    return [p.x().zeros().op("scatter_elements", order, d, axis=axis, reduction="update"), *others]
