"""Batch operators that compute elements, reduce, or move elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nnmagic.relay.batching.registry import rule, rules
from nnmagic.relay.batching.site import BatchCall, fields, is_unknown
from nnmagic.relay.expr import Expr, Tuple, constant
from nnmagic.relay.ops.declaration import OPERATORS
from nnmagic.relay.structure.tuple_trees import has_leaf
from nnmagic.relay.types import TensorType, TupleType

_ELEMENTWISE = [
    *(name for name, operator in OPERATORS.items() if operator.family == "unary" and name != "cast_like"),
    *("nn.relu", "nn.leaky_relu", "zeros_like", "ones_like"),
]
_BINARY = [name for name, operator in OPERATORS.items() if operator.family == "binary"]


@rule(*_ELEMENTWISE)
def _elementwise(site: BatchCall) -> Expr | None:
    return site.again()


@rule(*_BINARY, "where")
def _broadcast(site: BatchCall) -> Expr | None:
    rank = len(site.out_shape)
    return site.again(*(site.aligned(index, rank) for index in range(len(site.args))))


@rule("python.require", "python.sized")
def _require(site: BatchCall) -> Expr | None:
    """Require of all examples what is required of one."""
    return site.again(site.full(0), site.args[1])


@rule("full_like")
def _full_like(site: BatchCall) -> Expr | None:
    return site.broadcast(site.aligned(1, len(site.out_shape)), site.op("zeros_like", site.args[0]))


@rule("full")
def _full(site: BatchCall) -> Expr | None:
    assert isinstance(site.out_type, TensorType)
    zeros = site.op("zeros", shape=list(site.out_shape), dtype=site.out_type.dtype)
    return site.broadcast(site.aligned(0, len(site.out_shape)), zeros)


@rule("dyn.full")
def _dyn_full(site: BatchCall) -> Expr | None:
    if site.is_batched(1):
        return None
    zeros = site.again(constant(0, site.types[0].dtype), site.args[1])  # type: ignore[union-attr] # a tensor
    return site.broadcast(site.aligned(0, len(site.out_shape)), zeros)


@rule("broadcast_to")
def _broadcast_to(site: BatchCall) -> Expr | None:
    value = site.aligned(0, len(site.out_shape))
    if isinstance(site.size.dim, int):
        return site.again(value, shape=[site.size.dim, *site.out_shape])
    assert isinstance(site.out_type, TensorType)
    return site.broadcast(value, site.op("zeros", shape=list(site.out_shape), dtype=site.out_type.dtype))


@rule("broadcast_to_like")
def _broadcast_to_like(site: BatchCall) -> Expr | None:
    value = site.aligned(0, len(site.out_shape))
    if site.is_batched(1):
        return site.again(value, site.args[1])
    zeros = site.op("zeros_like", site.op("cast_like", site.args[1], site.args[0]))
    return site.broadcast(value, zeros)


@rule("collapse_sum_like")
def _collapse_sum_like(site: BatchCall) -> Expr | None:
    shape, wanted = site.shape(0), site.shape(1)
    extra = len(shape) - len(wanted)
    pairs = list(zip(shape[extra:], wanted, strict=True))
    value = site.full(0)
    if any(small not in (full, 1) or is_unknown(full) for full, small in pairs):
        value = site.op("sum", value, axis=list(range(1, extra + 1))) if extra else value
        return site.again(value, site.full(1))
    ones = [extra + axis + 1 for axis, (full, small) in enumerate(pairs) if small == 1 and full != 1]
    if ones:
        value = site.op("sum", value, axis=ones, keepdims=True)
    return site.op("sum", value, axis=list(range(1, extra + 1))) if extra else value


# -- reductions --------------------------------------------------------------------------------------------


def _axes(site: BatchCall) -> list[int]:
    rank, axes = site.rank(), site.attrs["axis"]
    if axes is None or (isinstance(axes, tuple | list) and not axes):
        return list(range(1, rank + 1))
    listed = {int(axis) % rank for axis in (axes if isinstance(axes, tuple | list) else (axes,))}
    if site.attrs.get("exclude"):
        listed = set(range(rank)) - listed
    return [axis + 1 for axis in sorted(listed)]


#: The bitwise functions of integers.
_BITWISE = ("and", "or", "xor")


@rule(
    *("sum", "mean", "max", "min", "prod", "all", "any"),
    *(f"numpy.bitwise_{name}.reduce" for name in _BITWISE),
)
def _reduce(site: BatchCall) -> Expr | None:
    axes = _axes(site)
    return site.again(axis=tuple(axes), exclude=False) if axes else site.args[0]


@rule("variance")
def _variance(site: BatchCall) -> Expr | None:
    axes = _axes(site)
    return site.again(site.full(0), site.full(1), axis=tuple(axes), exclude=False) if axes else None


@rule("argmax", "argmin")
def _argreduce(site: BatchCall) -> Expr | None:
    axes = _axes(site)
    if len(axes) == 1:
        return site.again(axis=tuple(axes), exclude=False)
    if site.attrs["keepdims"] or len(axes) != site.rank() or not axes:
        return None
    return site.again(site.op("reshape", site.args[0], newshape=[0, -1]), axis=(1,), exclude=False)


@rule("cumsum", "cumprod")
def _scan(site: BatchCall) -> Expr | None:
    if site.attrs["axis"] is not None:
        return site.again(axis=site.axis())
    flat = site.args[0] if site.rank() == 1 else site.op("reshape", site.args[0], newshape=[0, -1])
    return site.again(flat, axis=1)


@rule(
    *("nn.softmax", "nn.log_softmax", "nn.fast_softmax", "sort", "argsort", "topk", "reverse"),
    *("numpy.maximum.accumulate", "numpy.minimum.accumulate"),
    *(f"numpy.bitwise_{name}.accumulate" for name in _BITWISE),
)
def _along_axis(site: BatchCall) -> Expr | None:
    return site.again(axis=site.axis()) if site.rank() else None


@rule("numpy.partition", "numpy.argpartition")
def _partition(site: BatchCall) -> Expr | None:
    return None if site.batched[1] else site.again(axis=site.axis())


@rule("numpy.fft", "numpy.rfft", "numpy.irfft")
def _fourier(site: BatchCall) -> Expr | None:
    """Count the axes behind that of the batch; that of the pairs is not counted."""
    axis = cast("int", site.attrs["axis"])
    return site.again(axis=axis + 1 if axis >= 0 else axis)


# -- shapes ------------------------------------------------------------------------------------------------


@rule("reshape", "squeeze", "nn.batch_flatten")
def _reshape(site: BatchCall) -> Expr | None:
    if site.name == "reshape" and not site.attrs["allowzero"]:
        return site.again(newshape=[0, *cast("Sequence[int]", site.attrs["newshape"])])
    return _reshape_to_result(site)


def _reshape_to_result(site: BatchCall) -> Expr | None:
    """Reshape to the shape of the result, which has at most one dynamic size."""
    static_dims = [dim if isinstance(dim, int) else -1 for dim in site.out_shape]
    if static_dims.count(-1) > 1 or 0 in static_dims:
        return None
    return site.op("reshape", site.args[0], newshape=[0, *static_dims])


@rule("reshape_like")
def _reshape_like(site: BatchCall) -> Expr | None:
    """Reshape the same range of axes of each example."""
    attrs: dict[str, int] = {}
    for index, side in enumerate(("lhs", "rhs")):
        shift = int(index == 0 or site.is_batched(1))
        for bound, default in ((f"{side}_begin", 0), (f"{side}_end", site.rank(index))):
            position = default if site.attrs[bound] is None else int(cast("int", site.attrs[bound]))
            attrs[bound] = position + shift + (site.rank(index) if position < 0 else 0)
    return site.again(site.full(0), site.args[1], **attrs)


@rule("transpose")
def _transpose(site: BatchCall) -> Expr | None:
    rank, permutation = site.rank(), cast("Sequence[int] | None", site.attrs["axes"])
    axes = [axis % rank for axis in permutation] if permutation else list(range(rank))[::-1]
    return site.again(axes=[0, *(axis + 1 for axis in axes)])


@rule("expand_dims")
def _expand_dims(site: BatchCall) -> Expr | None:
    axis = int(cast("int", site.attrs["axis"]))
    return site.again(axis=axis + 1 if axis >= 0 else axis)


@rule("concatenate", "stack")
def _join(site: BatchCall) -> Expr | None:
    (type_,) = site.types
    assert isinstance(type_, TupleType)
    flags = site.batched[0] if isinstance(site.batched[0], list) else [site.batched[0]] * len(type_.fields)
    parts = [
        field if has_leaf(flag) else site.size.spread(field, own, site.span)
        for field, own, flag in zip(fields(site.args[0], type_), type_.fields, flags, strict=True)
    ]
    axis = int(cast("int", site.attrs["axis"])) % len(site.out_shape)
    return site.again(Tuple(tuple(parts), span=site.span), axis=axis + 1)


@rule("strided_slice")
def _strided_slice(site: BatchCall) -> Expr | None:
    begin = cast("Sequence[int]", site.attrs["begin"])
    attr_axes = cast("Sequence[int] | None", site.attrs["axes"])
    axes = [axis % site.rank() for axis in attr_axes] if attr_axes else list(range(len(begin)))
    return site.again(axes=[axis + 1 for axis in axes])


@rule("dyn.strided_slice")
def _slice_by(site: BatchCall) -> Expr | None:
    """Slice the examples alike; the sizes of what is left may be known at run time only."""
    if not site.only(0) or site.attrs["axes"] is not None or site.attrs["slice_mode"] != "end":
        return None
    bounds = [site.op("cast", each, dtype="int64") for each in site.args[1:]]
    return site.again(site.args[0], *_with_examples(site, bounds))


@rule("python.window")
def _window(site: BatchCall) -> Expr | None:
    """Cut the examples alike."""
    if not site.only(0):
        return None
    bounds = _with_examples(site, site.args[1:])
    return site.again(site.args[0], *bounds, sizes=[-1, *cast("Sequence[int]", site.attrs["sizes"])])


def _with_examples(site: BatchCall, vectors: Sequence[Expr]) -> list[Expr]:
    """Return begins, ends and strides, or begins and lengths, which take all of the examples as well."""
    first = (constant(0, "int64"), site.size.number(site.span), constant(1, "int64"))
    columns = [site.op("expand_dims", each, axis=0) for each in first[: len(vectors)]]
    pairs = (Tuple(pair, span=site.span) for pair in zip(columns, vectors, strict=True))
    return [site.op("concatenate", pair, axis=0) for pair in pairs]


@rule("tile")
def _tile(site: BatchCall) -> Expr | None:
    reps = cast("Sequence[int]", site.attrs["reps"])
    value = site.aligned(0, len(reps))
    return site.again(value, reps=[1, *([1] * (site.rank() - len(reps))), *reps])


@rule("nn.pad", "nn.mirror_pad")
def _pad(site: BatchCall) -> Expr | None:
    widths = cast("Sequence[Sequence[int]]", site.attrs["pad_width"])
    return site.again(pad_width=[[0, 0], *widths]) if site.only(0) else None


@rule("one_hot")
def _one_hot(site: BatchCall) -> Expr | None:
    axis = int(cast("int", site.attrs["axis"]))
    return site.again(axis=axis + 1 if axis >= 0 else axis) if site.only(0) else None


# -- indices -----------------------------------------------------------------------------------------------


@rule("take")
def _take(site: BatchCall) -> Expr | None:
    axis, mode = site.attrs["axis"], site.attrs["mode"]
    if site.attrs["batch_dims"] or mode not in ("clip", "fast", "wrap"):
        return None
    number = None if axis is None else int(cast("int", axis)) % max(site.rank(), 1)
    if not site.is_batched(0):
        result_rank = len(site.out_shape) + 1
        return site.moved(site.again(), result_rank, number or 0, 0)
    if number is None:
        if site.rank() != 1:
            return None
        number = 0
    if not site.is_batched(1):
        return site.again(axis=number + 1)
    if site.rank(1) != 0:
        return None
    return site.again(site.args[0], site.args[1], axis=number + 1, batch_dims=1)


@rule("gather_nd")
def _gather_nd(site: BatchCall) -> Expr | None:
    """Gather with the batch axis behind the data's others, which are taken whole."""
    if not site.only(0) or site.attrs["batch_dims"]:
        return None
    data = site.moved(site.args[0], site.rank() + 1, 0, site.rank())
    return site.moved(site.again(data, site.args[1]), len(site.out_shape) + 1, len(site.out_shape), 0)


@rule("scatter_nd")
def _scatter_nd(site: BatchCall) -> Expr | None:
    """Scatter with the batch axis behind the data's others, which are taken whole."""
    if not site.only(0, 2):
        return None
    data = site.moved(site.full(0), site.rank() + 1, 0, site.rank())
    updates = site.moved(site.full(2), site.rank(2) + 1, 0, site.rank(2))
    return site.moved(site.again(data, site.args[1], updates), site.rank() + 1, site.rank(), 0)


rules(
    {
        "cast_like": lambda site: site.again(site.full(0), site.args[1]),
        "dyn.reshape dyn.squeeze": lambda site: _reshape_to_result(site) if site.only(0) else None,
        "gather": lambda site: site.again(site.full(0), site.full(1), axis=site.axis()),
        "repeat": lambda site: None if site.attrs["axis"] is None else site.again(axis=site.axis()),
        "scatter_elements": lambda site: site.again(
            site.full(0), site.full(1), site.full(2), axis=site.axis()
        ),
        "split": lambda site: site.again(axis=site.axis()),
        "trilu": lambda site: site.again() if site.only(0) else None,
    }
)
