"""Legalize operators that move elements or change the shape: reshape, concatenate, slice, pad, layouts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tvm_ffi
from tvm import relax, te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer, integers, number
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, op, shape_of, te_of, tensor_dtype
from nnmagic.engine.relax.legalize.registry import te as te_rule
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.runtime.tensors import as_array
from nnmagic.engine.relax.tir.types import Extent, Index, PrimExpr
from nnmagic.relay.expr import Attrs


def element_count(dims: Sequence[Extent]) -> Extent:
    """Return how many elements a shape has, an int if it is static."""
    total: Extent = 1
    for dim in dims:
        total = total * dim
    return total


def resolve_newshape(shape: Sequence[Extent], codes: Sequence[int], *, allowzero: bool) -> list[Extent]:
    """Return the dimensions that Relay's ``newshape`` means.

    0 copies one, -1 is inferred, -2 copies the rest, -3 merges two, -4 splits one into the two that follow
    (one of which may be -1).
    """
    result: list[Extent] = []
    inferred: int | None = None
    axis, code = 0, 0
    while code < len(codes):
        wanted = codes[code]
        if wanted == -4:
            first, second = codes[code + 1], codes[code + 2]
            first = shape[axis] // second if first == -1 else first
            result += [first, shape[axis] // first if second == -1 else second]
            axis, code = axis + 1, code + 2
        elif wanted == -3:
            result.append(shape[axis] * shape[axis + 1])
            axis += 2
        elif wanted == -2:
            result += shape[axis:]
            axis = len(shape)
        elif wanted == -1:
            inferred = len(result)
            result.append(1)
            axis += 1
        else:
            result.append(shape[axis] if wanted == 0 and not allowzero else wanted)
            axis += 1
        code += 1
    if inferred is not None:
        result[inferred] = _quotient(shape, [*result[:inferred], *result[inferred + 1 :]])
    return result


def _quotient(dims: Sequence[Extent], divisors: Sequence[Extent]) -> Extent:
    """Divide a product of dimensions by another one; a divisor that may be 0 counts as 1."""
    above, below = list(dims), []
    for divisor in divisors:
        position = next((i for i, dim in enumerate(above) if dim is divisor), None)
        if position is None or isinstance(divisor, int):
            below.append(divisor)
        else:
            del above[position]
    number = element_count(below)
    if isinstance(number, int):
        return element_count(above) // number if number else 0
    return element_count(above) // tirx.max(number, tirx.const(1, "int64"))


def reshape_to(data: Value, shape: Sequence[Extent]) -> Value:
    """Reshape data to a shape of as many elements."""
    sizes = [getattr(dim, "value", dim) for dim in shape]
    if any(isinstance(size, int) and size == 0 for size in sizes):
        # In TVM's reshape, 0 copies a dimension of the data.
        return relax.op.zeros(relax.ShapeExpr(list(shape)), tensor_dtype(data))
    return relax.op.reshape(data, list(shape))


def _checked_reshape(call: OpCall, data: Value, shape: Sequence[Extent]) -> Value:
    """Reshape data; require that the shape has as many elements."""
    call.require(same_element_count(shape_of(data), shape), "the new shape has not as many elements")
    return reshape_to(data, shape)


def same_element_count(left: Sequence[Extent], right: Sequence[Extent]) -> PrimExpr | bool:
    """Return whether two shapes have as many elements: a bool, or a condition on dynamic dimensions."""
    before, after = element_count(left), element_count(right)
    if isinstance(before, int) and isinstance(after, int):
        return before == after
    return topi.utils.simplify(tirx.convert(before) == tirx.convert(after))


def _reshape(call: OpCall) -> Value:
    (data,) = call.args
    codes = integers(call.attrs["newshape"])
    return _checked_reshape(
        call, data, resolve_newshape(shape_of(data), codes, allowzero=bool(call.attrs["allowzero"]))
    )


def _reverse_reshape(call: OpCall) -> Value:
    """Lower a reshape whose codes are read from the last dimension to the first."""
    (data,) = call.args
    codes = integers(call.attrs["newshape"])[::-1]
    shape = resolve_newshape(shape_of(data)[::-1], codes, allowzero=bool(call.attrs["allowzero"]))
    return _checked_reshape(call, data, shape[::-1])


def _reshape_like(call: OpCall) -> Value:
    data, like = call.args
    left, right = shape_of(data), shape_of(like)
    spans = []
    for side, shape in (("lhs", left), ("rhs", right)):
        begin, end = call.attrs[f"{side}_begin"], call.attrs[f"{side}_end"]
        first = integer(begin)
        last = len(shape) if end is None else integer(end)
        spans.append((first % len(shape) if first < 0 else first, last % len(shape) if last < 0 else last))
    (a, b), (c, d) = spans
    return _checked_reshape(call, data, [*left[:a], *right[c:d], *left[b:]])


def _batch_flatten(call: OpCall) -> Value:
    (data,) = call.args
    rows, *rest = shape_of(data)
    return reshape_to(data, [rows, element_count(rest)])


def _expand_dims(call: OpCall) -> Value:
    (data,) = call.args
    axis, number = integer(call.attrs["axis"]), integer(call.attrs["num_newaxis"])
    shape = shape_of(data)
    axis = axis if axis >= 0 else axis + len(shape) + 1
    return reshape_to(data, [*shape[:axis], *[1] * number, *shape[axis:]])


def _squeeze(call: OpCall) -> Value:
    """Drop the given axes, which must have length 1, or else all axes of the static length 1."""
    (data,) = call.args
    shape = shape_of(data)
    axis = call.attrs["axis"]
    dropped = {a % len(shape) for a in integers(axis)} if axis is not None else _unit_axes(shape)
    for a in dropped:
        call.require(shape[a] == 1, f"the dimension at axis {a} is not 1")
    return reshape_to(data, [dim for a, dim in enumerate(shape) if a not in dropped])


def _unit_axes(shape: Sequence[Extent]) -> set[int]:
    return {axis for axis, dim in enumerate(shape) if isinstance(dim, int) and dim == 1}


def _concatenate(call: OpCall) -> Value:
    (parts,) = call.args
    axis = integer(call.attrs["axis"])
    if _have_same_shape(parts, axis % len(shape_of(parts[0]))):
        return relax.op.concat(list(parts), axis=axis)
    return call.te(lambda *tensors: topi.concatenate(list(tensors), axis), *parts)


def _stack(call: OpCall) -> Value:
    (parts,) = call.args
    axis = integer(call.attrs["axis"])
    if _have_same_shape(parts, None):
        return relax.op.stack(list(parts), axis=axis)
    return call.te(lambda *tensors: topi.stack(list(tensors), axis), *parts)


def _have_same_shape(parts: Sequence[Value], free: int | None) -> bool:
    """Return whether the parts are known to have the same shape, apart from the axis ``free``."""
    columns = enumerate(zip(*map(shape_of, parts), strict=True))
    return all(
        tvm_ffi.structural_equal(dim, column[0]) for axis, column in columns if axis != free for dim in column
    )


def _split(call: OpCall) -> Value:
    (data,) = call.args
    given = call.attrs["indices_or_sections"]
    where = integers(given) if isinstance(given, tuple) else integer(given)
    axis, shape = integer(call.attrs["axis"]), shape_of(data)
    if isinstance(where, int) and shape[axis] == 0:  # TVM requires increasing indices
        return (data,) * where
    parts = call.te(lambda x: topi.split(x, where, axis=axis), data)
    bound = call.emit(parts)
    if not isinstance(bound.ty, relax.TupleType):
        return (bound,)
    return tuple(call.emit(relax.TupleGetItem(bound, i)) for i in range(len(bound.ty.fields)))


def _meshgrid(call: OpCall) -> Value:
    (parts,) = call.args
    if len(parts) == 1:
        return (call.emit(reshape_to(parts[0], [element_count(shape_of(parts[0]))])),)
    return call.te(lambda *tensors: topi.meshgrid(list(tensors), call.attrs["indexing"]), *parts)


#: Beyond the end of any axis.
_FAR = 2**63 - 1


def _strided_slice(call: OpCall) -> Value:
    """Lower to a slice; its bounds are clamped to the data's, as in NumPy."""
    (data,) = call.args
    attrs = call.attrs
    begin, end, strides = (integers(attrs[name]) for name in ("begin", "end", "strides"))
    shape = shape_of(data)
    axes = list(range(len(shape))) if attrs["axes"] is None else integers(attrs["axes"])
    if attrs["axes"] is None:  # axes that are left out are whole
        strides += [1] * (len(shape) - len(strides))
        begin += [0 if step > 0 else _FAR for step in strides[len(begin) :]]
        end += [_FAR if step > 0 else -_FAR for step in strides[len(end) :]]
    starts: list[Index] = [0] * len(shape)
    steps = [1] * len(shape)
    lengths = list(shape)
    for i, axis in enumerate(axis % len(shape) for axis in axes):
        stop: int | None = end[i]
        if attrs["slice_mode"] == "size":
            stop = None if end[i] < 0 or end[i] == _FAR else begin[i] + end[i]
        if attrs["slice_mode"] != "end":
            strides[i] = 1
        starts[axis], lengths[axis] = resolve_slice(shape[axis], begin[i], stop, strides[i])
        steps[axis] = strides[i]

    def compute(x: Tensor, *symbolic: Tensor) -> Tensor:
        first, size = symbolic
        return te.compute(
            size, lambda *index: x(*(a + i * s for a, i, s in zip(first, index, steps, strict=True)))
        )

    return call.te(compute, data, relax.ShapeExpr(starts), relax.ShapeExpr(lengths))


#: No dimension is this long.
_LONGEST = 2**40


def resolve_slice(dim: Extent, begin: int, end: int | None, step: int) -> tuple[Index, Extent]:
    """Return the start and the length of ``begin:end:step`` in a dimension; an ``end`` of None is open."""
    if isinstance(dim, int):
        stop = end if end is not None else dim
        # An end before the start of a reversed slice means "including the first", as INT_MIN does in Relay.
        span = range(*slice(begin, stop if not (step < 0 and stop < -dim) else None, step).indices(dim))
        return (span.start if span else 0), len(span)
    low, high = (0, dim) if step > 0 else (-1, dim - 1)
    start = _clamp_bound(begin, dim, low, high)
    stop = high if end is None else _clamp_bound(end, dim, low, high)
    length = (stop - start + step - 1) // step if step > 0 else (start - stop - step - 1) // -step
    return start, tirx.max(length, tirx.const(0, "int64"))


def _clamp_bound(bound: int, dim: Extent, low: Index, high: Index) -> Index:
    if abs(bound) >= _LONGEST:
        return high if bound > 0 else low
    limit = tirx.const(bound, "int64")
    return tirx.min(tirx.max(limit + dim if bound < 0 else limit, low), high)


def strided_set(call: OpCall) -> Value:
    """Replace the elements of a slice whose begin, end and strides are constants."""
    data, values, *bounds = call.args
    begin, end, strides = ([int(item) for item in as_array(bound.value)] for bound in bounds)
    strides = strides or [1] * len(begin)
    slices = zip(shape_of(data), begin, end, strides, strict=False)
    spans = [resolve_slice(dim, *bounds) for dim, *bounds in slices]
    starts = [start for start, _ in spans]
    lengths = [length for _, length in spans] + shape_of(data)[len(spans) :]
    for given, length in zip(shape_of(values), lengths, strict=True):
        if given is not length:
            call.require(given == length, "the values have not the shape of the slice")

    def compute(x: Tensor, new: Tensor, first: Sequence[Extent], size: Sequence[Extent]) -> Tensor:
        def element(*index: Index) -> PrimExpr:
            steps = zip(index, first, size, strides, strict=False)
            distances = [(i - start, length, step) for i, start, length, step in steps]
            positions = [tirx.floordiv(distance, step) for distance, _, step in distances]
            inside = [
                tirx.all(tirx.floormod(distance, step) == 0, position >= 0, position < length)
                for (distance, length, step), position in zip(distances, positions, strict=True)
            ]
            return tirx.if_then_else(tirx.all(*inside), new(*positions, *index[len(positions) :]), x(*index))

        return te.compute(x.shape, element)

    return call.te(compute, data, values, relax.ShapeExpr(starts), relax.ShapeExpr(lengths))


def _fifo_buffer(attrs: Attrs, data: Tensor, buffer: Tensor) -> Tensor:
    """Shift the buffer by the data's length and append the data."""
    axis = integer(attrs["axis"]) % len(data.shape)
    length, added = buffer.shape[axis], data.shape[axis]

    def element(*index: Index) -> PrimExpr:
        at = index[axis]
        old = [*index[:axis], at + added, *index[axis + 1 :]]
        new = [*index[:axis], at - length + added, *index[axis + 1 :]]
        return tirx.if_then_else(at < length - added, buffer(*old), data(*new))

    return te.compute(buffer.shape, element)


def _slice_like(call: OpCall) -> Value:
    data, like = call.args
    axes = call.attrs["axes"]
    chosen = integers(axes) if axes else range(len(shape_of(like)))
    shape, other = shape_of(data), shape_of(like)
    for axis in (axis % len(shape) for axis in chosen):
        call.require(other[axis] <= shape[axis], f"axis {axis} is longer in the shape to slice to")
        shape[axis] = other[axis]

    def compute(x: Tensor, dims: Sequence[Extent]) -> Tensor:
        return te.compute(dims, lambda *index: x(*index))  # noqa: PLW0108 - TVM counts a function's arguments

    return call.te(compute, data, relax.ShapeExpr(shape))


def broadcast_to(call: OpCall, shape: Sequence[Extent]) -> Value:
    """Repeat the data along its dimensions of 1."""
    data = call.args[0]
    own = shape_of(data)
    call.require(len(own) <= len(shape), "the data has more dimensions than the shape")
    for dim, wanted in zip(reversed(own), reversed(shape), strict=False):
        if dim is not wanted and dim != 1:
            fits = dim == wanted if isinstance(dim, int) else tirx.any(dim == wanted, dim == 1)
            call.require(fits, "the data does not broadcast to this shape")

    def compute(x: Tensor, dims: Sequence[Extent]) -> Tensor:
        def element(*at: Index) -> PrimExpr:
            dims_and_indices = zip(x.shape, at[len(at) - len(x.shape) :], strict=True)
            return x(*(_source_index(dim, i) for dim, i in dims_and_indices))

        return te.compute(dims, element)

    return call.te(compute, data, relax.ShapeExpr(shape))


def _source_index(dim: Extent, index: Index) -> PrimExpr:
    """Return the index in a dimension that is repeated where it is 1."""
    if isinstance(dim, tirx.IntImm):
        return tirx.const(0, "int64") if dim.value == 1 else index
    return tirx.Select(dim == 1, tirx.const(0, "int64"), tirx.convert(index).astype("int64"))


def _broadcast_to(call: OpCall) -> Value:
    shape = call.attrs["shape"]
    assert isinstance(shape, tuple)
    return broadcast_to(call, call.lower_dims(shape))


def _collapse(call: OpCall, shape: Sequence[Extent]) -> Value:
    """Lower to the sums that reverse a broadcast from ``shape``."""
    data = call.args[0]
    added = len(shape_of(data)) - len(shape)

    def compute(x: Tensor, dims: Sequence[Extent]) -> Tensor:
        wide = "float32" if x.dtype in scalar_functions.NARROW_FLOATS else x.dtype
        # A dimension that is not 1 is not summed over: its loop runs once.
        lengths = [*x.shape[:added]]
        lengths += [
            tirx.Select(small == 1, large, tirx.const(1, "int64"))
            for small, large in zip(dims, x.shape[added:], strict=True)
        ]
        spans = [te.reduce_axis((0, length), f"k{axis}") for axis, length in enumerate(lengths)]

        def element(*at: Index) -> PrimExpr:
            where = [span.var for span in spans[:added]]
            where += [span.var + i for span, i in zip(spans[added:], at, strict=True)]
            return te.sum(x(*where).astype(wide), axis=spans)

        sums = te.compute(dims, element) if spans else topi.identity(x)
        return sums if wide == x.dtype else topi.cast(sums, x.dtype)

    return call.te(compute, data, relax.ShapeExpr(shape))


#: How a border is filled: with one value, with the outermost element, or with a mirror image.
PAD_MODES = ("constant", "edge", "reflect")


def _pad(call: OpCall) -> Value:
    """Lower to constant, edge or reflected padding; the constant is the second argument."""
    data, value = call.args
    widths = call.attrs["pad_width"]
    assert isinstance(widths, tuple)
    before, after = [integers(pair)[0] for pair in widths], [integers(pair)[1] for pair in widths]
    mode = call.attrs["pad_mode"]
    if mode == "constant":
        return call.te(lambda x, fill: pad_with(x, before, after, fill()), data, value)
    if mode in PAD_MODES:
        return call.te(lambda x: _pad_by_repeating(x, before, after, str(mode)), data)
    return call.refuse(f"pad_mode must be one of {', '.join(PAD_MODES)}, not {mode!r}")


def pad_with(data: Tensor, before: Sequence[Extent], after: Sequence[Extent], fill: PrimExpr) -> Tensor:
    """Pad with one value; negative widths crop."""
    shape = [a + dim + b for a, dim, b in zip(before, data.shape, after, strict=True)]

    def element(*index: Index) -> PrimExpr:
        where = [i - width for i, width in zip(index, before, strict=True)]
        inside = [tirx.all(i >= 0, i < dim) for i, dim in zip(where, data.shape, strict=True)]
        return (
            tirx.if_then_else(tirx.all(*inside), data(*where), fill.astype(data.dtype)) if inside else data()
        )

    return te.compute(shape, element)


def _pad_by_repeating(data: Tensor, before: Sequence[int], after: Sequence[int], mode: str) -> Tensor:
    shape = [a + dim + b for a, dim, b in zip(before, data.shape, after, strict=True)]

    def element(*index: Index) -> PrimExpr:
        dims = zip(index, before, data.shape, strict=True)
        return data(*(border_index(i - width, dim, mode) for i, width, dim in dims))

    return te.compute(shape, element)


def border_index(index: Index, dim: Extent, mode: str) -> PrimExpr:
    """Return the index of the element that an index beyond the border repeats."""
    if mode == "reflect":  # the border itself is not repeated
        index = tirx.Select(index < 0, -index, index)
        index = tirx.Select(index >= dim, 2 * dim - 2 - index, index)
    return tirx.max(tirx.min(index, dim - 1), tirx.const(0, "int64"))


def _layout_transform(call: OpCall) -> Value:
    (data,) = call.args
    source, target = (str(call.attrs[name]) for name in ("src_layout", "dst_layout"))
    if sorted(source) == sorted(target) and source.isalpha():
        return relax.op.permute_dims(data, [source.index(letter) for letter in target])
    if not all(isinstance(dim, int) for dim in shape_of(data)):
        call.refuse("blocks of a dynamic dimension cannot be run")
    return call.te(lambda x: topi.layout_transform(x, source, target), data)


def _mirror_pad(attrs: Attrs, data: Tensor) -> Tensor:
    widths = attrs["pad_width"]
    assert isinstance(widths, tuple)
    pairs = [integers(pair) for pair in widths]
    return topi.nn.mirror_pad(data, [a for a, _ in pairs], [b for _, b in pairs], str(attrs["mode"]))


def _block_pairs(attrs: Attrs, name: str) -> tuple[list[int], list[int], list[int]]:
    """Return the lengths of a block, and what is padded or cropped before and after."""
    pairs = [integers(pair) for pair in attrs[name]]  # type: ignore[attr-defined]  # a tuple by declaration
    return integers(attrs["block_shape"]), [a for a, _ in pairs], [b for _, b in pairs]


def _space_to_batch(attrs: Attrs, data: Tensor) -> Tensor:
    """Turn each position in a block into an image of the batch; positions vary slowest."""
    lengths, before, after = _block_pairs(attrs, "paddings")
    count, rest = len(lengths), [0] * (len(data.shape) - 1 - len(lengths))
    value = tirx.const(number(attrs["pad_value"]), data.dtype)
    wide = pad_with(data, [0, *before, *rest], [0, *after, *rest], value) if any(before + after) else data
    spatial = [dim // length for dim, length in zip(wide.shape[1:], lengths, strict=False)]

    def element(image: Index, *at: Index) -> PrimExpr:
        position, where = image // data.shape[0], []
        for axis in reversed(range(count)):
            where.append(at[axis] * lengths[axis] + position % lengths[axis])
            position = position // lengths[axis]
        return wide(image % data.shape[0], *reversed(where), *at[count:])

    return te.compute((data.shape[0] * math.prod(lengths), *spatial, *data.shape[1 + count :]), element)


def _batch_to_space(attrs: Attrs, data: Tensor) -> Tensor:
    """Undo ``_space_to_batch``, and crop."""
    lengths, before, after = _block_pairs(attrs, "crops")
    count, batch = len(lengths), data.shape[0] // math.prod(lengths)
    spatial = [
        dim * length - a - b
        for dim, length, a, b in zip(data.shape[1:], lengths, before, after, strict=False)
    ]

    def element(image: Index, *at: Index) -> PrimExpr:
        position: Index = 0
        where = [i + a for i, a in zip(at, before, strict=False)]
        for i, length in zip(where, lengths, strict=True):
            position = position * length + i % length
        inner = [i // length for i, length in zip(where, lengths, strict=True)]
        return data(position * batch + image, *inner, *at[count:])

    return te.compute((batch, *spatial, *data.shape[1 + count :]), element)


def _reverse(attrs: Attrs, data: Tensor) -> Tensor:
    return topi.flip(data, integer(attrs["axis"] or 0))


def _reverse_sequence(attrs: Attrs, data: Tensor, lengths: Tensor) -> Tensor:
    """Reverse the first ``lengths`` elements along an axis, or all if there are fewer."""
    axis, batch = (integer(attrs[name]) % len(data.shape) for name in ("seq_axis", "batch_axis"))

    def element(*at: Index) -> PrimExpr:
        length = tirx.min(lengths(at[batch]).astype("int64"), data.shape[axis])
        position = tirx.Select(at[axis] < length, length - 1 - at[axis], at[axis])
        return data(*at[:axis], position, *at[axis + 1 :])

    return te.compute(data.shape, element)


def _repeat(call: OpCall) -> Value:
    (data,) = call.args
    axis, repeats = call.attrs["axis"], integer(call.attrs["repeats"])
    if repeats < 1:
        call.refuse(f"repeats must be at least 1, not {repeats}")
    if axis is None:
        data, axis = call.emit(reshape_to(data, [element_count(shape_of(data))])), 0
    dims = shape_of(data)
    repeated = integer(axis) % len(dims)
    factor = repeats if isinstance(dims[repeated], int) else tirx.const(repeats, "int64")
    dims[repeated] = dims[repeated] * factor

    def compute(x: Tensor, shape: Sequence[Extent]) -> Tensor:
        def element(*at: Index) -> PrimExpr:
            source = tirx.floordiv(at[repeated], tirx.const(repeats, "int64"))
            return x(*at[:repeated], source, *at[repeated + 1 :])

        return te.compute(shape, element)

    return call.te(compute, data, relax.ShapeExpr(dims))


RULES.update(
    {
        "reshape": _reshape,
        "contrib_reverse_reshape": _reverse_reshape,
        "reshape_like": _reshape_like,
        "nn.batch_flatten": _batch_flatten,
        "expand_dims": _expand_dims,
        "squeeze": _squeeze,
        "transpose": op(relax.op.permute_dims, "axes"),
        "concatenate": _concatenate,
        "stack": _stack,
        "split": _split,
        "meshgrid": _meshgrid,
        "strided_slice": _strided_slice,
        "slice_like": _slice_like,
        "broadcast_to": _broadcast_to,
        "broadcast_to_like": lambda call: broadcast_to(call, shape_of(call.args[1])),
        "collapse_sum_like": lambda call: _collapse(call, shape_of(call.args[1])),
        "collapse_sum_to": lambda call: _collapse(call, integers(call.attrs["shape"])),
        "reverse": te_of(_reverse),
        "reverse_sequence": te_of(_reverse_sequence),
        "repeat": _repeat,
        "tile": op(relax.op.tile, repeats="reps"),
        "sliding_window": te_rule(topi.sliding_window, "axis", "window_shape", "strides"),
        "layout_transform": _layout_transform,
        "nn.pad": _pad,
        "nn.mirror_pad": te_of(_mirror_pad),
        "nn.dilate": te_rule(topi.nn.dilate, "strides", "dilation_value"),
        "nn.depth_to_space": te_rule(topi.nn.depth_to_space, "block_size", "layout", "mode"),
        "nn.space_to_depth": te_rule(topi.nn.space_to_depth, "block_size", "layout"),
        "nn.space_to_batch_nd": te_of(_space_to_batch),
        "nn.batch_to_space_nd": te_of(_batch_to_space),
        "nn.fifo_buffer": te_of(_fifo_buffer),
        "sequence_mask": te_rule(topi.sequence_mask, "mask_value", "axis"),
    }
)
