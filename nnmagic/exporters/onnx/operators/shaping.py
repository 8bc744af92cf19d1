"""Export operators that arrange the same elements in another shape or order.

The standard: https://onnx.ai/onnx/operators/onnx__Reshape.html
"""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.exporters.onnx.errors import ExportRefusalError
from nnmagic.exporters.onnx.registry import operator, operators
from nnmagic.exporters.onnx.sites import ExportCall, Size
from nnmagic.relay.types import Dim

_LAST = -(2**63)


def target_sizes(shape: Sequence[Dim]) -> list[Size] | None:
    """Return the sizes of a reshaped tensor if no more than one of them is unknown."""
    if sum(not isinstance(dim, int) for dim in shape) > 1 or (
        0 in shape and not all(isinstance(dim, int) for dim in shape)
    ):
        return None
    return [dim if isinstance(dim, int) else -1 for dim in shape]


@operator("reshape")
def _reshape(site: ExportCall) -> str:
    sizes = target_sizes(site.type.shape)
    if sizes is None:
        sizes = _decode(site, site.integers("newshape"), allowzero=bool(site.attrs["allowzero"]))
    return site.reshape(site.args[0], sizes)


def _decode(site: ExportCall, codes: Sequence[int], *, allowzero: bool) -> list[Size]:
    """Return the sizes that the codes of a reshape stand for."""
    sizes: list[Size] = []
    axis, remaining = 0, list(codes)
    while remaining:
        code = remaining.pop(0)
        if code == -2:
            sizes += [site.size(index) for index in range(axis, site.rank)]
            axis = site.rank
        elif code == -3:
            pair = site.vector([site.size(axis), site.size(axis + 1)])
            sizes.append(site.node("ReduceProd", pair, keepdims=1))
            axis += 2
        elif code == -4:
            first, second = remaining.pop(0), remaining.pop(0)
            whole = site.vector([site.size(axis)])
            quotient = site.node("Div", whole, site.vector([second if first == -1 else first]))
            sizes += [quotient, second] if first == -1 else [first, quotient]
            axis += 1
        elif code == 0 and not allowzero:
            sizes.append(site.size(axis))
            axis += 1
        else:
            sizes.append(code)
            axis += 1
    return sizes


@operator("contrib_reverse_reshape", note="with at most one size that is not known")
def _reverse_reshape(site: ExportCall) -> str:
    sizes = target_sizes(site.type.shape)
    if sizes is None:
        raise ExportRefusalError("more than one size of its result is not known")
    return site.reshape(site.args[0], sizes)


@operator("reshape_like")
def _reshape_like(site: ExportCall) -> str:
    ranks = site.rank, len(site.shape(1))
    bounds = []
    for side, rank in zip(("lhs", "rhs"), ranks, strict=True):
        begin, end = (site.attrs[f"{side}_{which}"] for which in ("begin", "end"))
        start = int(begin) % rank if rank and begin != rank else int(begin)  # type: ignore[call-overload]
        stop = rank if end is None else int(end) + (rank if int(end) < 0 else 0)  # type: ignore[call-overload]
        bounds.append((start, stop))
    (lhs, rhs), (first, last) = bounds
    sizes = [site.size(axis) for axis in range(lhs)]
    sizes += [site.size(axis, 1) for axis in range(first, last)]
    sizes += [site.size(axis) for axis in range(rhs, ranks[0])]
    return site.reshape(site.args[0], sizes)


@operator("dyn.reshape")
def _dyn_reshape(site: ExportCall) -> str:
    zero = int(bool(site.attrs["allowzero"]))
    return site.node("Reshape", site.args[0], site.operand(1, "int64"), allowzero=zero)


@operator("transpose")
def _transpose(site: ExportCall) -> str:
    axes = range(site.rank)[::-1] if site.attrs["axes"] is None else site.integers("axes")
    return site.node("Transpose", site.args[0], perm=[axis % site.rank for axis in axes])


@operator("squeeze")
def _squeeze(site: ExportCall) -> str:
    if site.attrs["axis"] is None:
        return site.reshape(
            site.args[0], list(site.static_shape()) and [d for d in site.static_shape() if d != 1]
        )
    axes = [axis % site.rank for axis in site.integers("axis")]
    return site.node("Squeeze", site.args[0], site.vector(axes)) if axes else site.args[0]


@operator("expand_dims")
def _expand_dims(site: ExportCall) -> str:
    count = site.integer("num_newaxis")
    axis = site.integer("axis")
    start = axis if axis >= 0 else axis + site.rank + 1
    return site.unsqueeze(site.args[0], range(start, start + count))


@operator("reverse")
def _reverse(site: ExportCall) -> str:
    vectors = (site.vector([number]) for number in (-1, _LAST, site.axis(), -1))
    return site.node("Slice", site.args[0], *vectors)


@operator("reverse_sequence", note="along the first two axes")
def _reverse_sequence(site: ExportCall) -> str:
    axes = site.axis("batch_axis"), site.axis("seq_axis")
    if sorted(axes) != [0, 1]:
        raise ExportRefusalError("ONNX reverses sequences along the first two axes only")
    lengths = site.operand(1, "int64")
    return site.node("ReverseSequence", site.args[0], lengths, batch_axis=axes[0], time_axis=axes[1])


@operator("layout_transform", note="between layouts of the same axes")
def _layout_transform(site: ExportCall) -> str:
    source, target = str(site.attrs["src_layout"]), str(site.attrs["dst_layout"])
    return site.transpose(site.args[0], permutation(source, target))


def permutation(source: str, target: str) -> list[int]:
    """Return the order of axes that turns one layout into another."""
    if sorted(source) != sorted(target) or any(letter.isdigit() for letter in source + target):
        raise ExportRefusalError(f"the layouts {source} and {target} differ by more than the order of axes")
    return [source.index(letter) for letter in target]


# -- sizes -----------------------------------------------------------------------------------------------


@operator("shape_of")
def _shape_of(site: ExportCall) -> str:
    if not site.rank:
        raise ExportRefusalError("a scalar has no sizes")
    return site.to_result(site.node("Shape", site.args[0]), "int64")


# -- joining ---------------------------------------------------------------------------------------------


@operator("stack")
def _stack(site: ExportCall) -> str:
    axis = site.integer("axis") % (site.rank + 1)
    return site.node("Concat", *(site.unsqueeze(name, [axis]) for name in site.args), axis=axis)


@operator("split")
def _split(site: ExportCall) -> list[str]:
    from nnmagic.relay.types import TensorType, TupleType

    axis = site.axis()
    assert isinstance(site.result, TupleType)
    dims = [field.shape[axis] for field in site.result.fields if isinstance(field, TensorType)]
    if all(isinstance(dim, int) for dim in dims):
        sizes = site.vector([dim for dim in dims if isinstance(dim, int)])
        return site.nodes("Split", site.args[0], sizes, outputs=len(dims), axis=axis)
    return site.nodes("Split", site.args[0], outputs=len(dims), axis=axis, num_outputs=len(dims))


@operator("tile")
def _tile(site: ExportCall) -> str:
    reps = list(site.integers("reps"))
    data = site.unsqueeze(site.args[0], range(len(reps) - site.rank))
    return site.node("Tile", data, site.vector([1] * (site.rank - len(reps)) + reps))


@operator("dyn.tile")
def _dyn_tile(site: ExportCall) -> str:
    (count,) = site.static_shape(1)
    data = site.unsqueeze(site.args[0], range(count - site.rank))
    reps = site.operand(1, "int64")
    if count < site.rank:
        reps = site.node("Concat", site.vector([1] * (site.rank - count)), reps, axis=0)
    return site.node("Tile", data, reps)


@operator("repeat")
def _repeat(site: ExportCall) -> str:
    data, rank, axis = site.args[0], site.rank, site.attrs["axis"]
    if axis is None:
        data, rank, before, after = site.reshape(data, [-1]), 1, [], []
    else:
        sizes = site.sizes()
        before, after = sizes[: site.axis()], sizes[site.axis() + 1 :]
    place = len(before)
    times = [1] * (rank + 1)
    times[place + 1] = site.integer("repeats")
    tiled = site.node("Tile", site.unsqueeze(data, [place + 1]), site.vector(times))
    return site.reshape(tiled, [*before, -1, *after])


@operator("meshgrid")
def _meshgrid(site: ExportCall) -> list[str]:
    sizes = [site.size(0, index) if site.shape(index) else 1 for index in range(len(site.args))]
    order = list(range(len(sizes)))
    if site.attrs["indexing"] == "xy" and len(order) > 1:
        order[:2] = [1, 0]
    shape = site.vector([sizes[index] for index in order])
    grids = []
    for index, name in enumerate(site.args):
        form: list[Size] = [1] * len(sizes)
        form[order.index(index)] = -1
        grids.append(site.node("Expand", site.reshape(name, form), shape))
    return grids


@operator("collapse_sum_like", "collapse_sum_to", note="of known shapes")
def _collapse_sum(site: ExportCall) -> str:
    from nnmagic.exporters.onnx.sites import static

    source, target = site.static_shape(), static(site.type.shape)
    lead = len(source) - len(target)
    axes = [*range(lead), *(lead + i for i, size in enumerate(target) if source[lead + i] != size)]
    if not axes:
        return site.args[0]
    summed = site.node("ReduceSum", site.args[0], site.vector(axes), keepdims=1)
    return site.reshape(summed, list(target))


operators(
    {
        "concatenate": lambda site: site.node("Concat", *site.args, axis=site.axis()),
        "dyn.squeeze": lambda site: site.node("Squeeze", site.args[0], site.operand(1, "int64")),
        "ndarray_size": lambda site: site.to_result(site.node("Size", site.args[0]), "int64"),
        "nn.batch_flatten": lambda site: site.node("Flatten", site.args[0], axis=1),
    }
)
