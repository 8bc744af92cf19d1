"""Operators that move elements or change the shape: reshape, transpose, concatenate, slice, pad, layouts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import relax, te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer, integers, number
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, attr_dtype, op, shape_of, te_of
from nnmagic.engine.relax.legalize.registry import te as te_rule
from nnmagic.engine.relax.runtime.tensors import as_array
from nnmagic.relay.expr import Attrs


def product(dims: Sequence[Any]) -> Any:
    """How many elements a shape has, an int where that is known."""
    total: Any = 1
    for dim in dims:
        total = total * dim
    return total


def reshaped(shape: Sequence[Any], codes: Sequence[int], *, allowzero: bool) -> list[Any]:
    """The dimensions that Relay's ``newshape`` means.

    0 copies one, -1 is inferred, -2 copies the rest, -3 merges two, -4 splits one into the two that follow
    (one of which may be -1).
    """
    result: list[Any] = []
    inferred: int | None = None
    at, code = 0, 0
    while code < len(codes):
        wanted = codes[code]
        if wanted == -4:
            first, second = codes[code + 1], codes[code + 2]
            first = shape[at] // second if first == -1 else first
            result += [first, shape[at] // first if second == -1 else second]
            at, code = at + 1, code + 2
        elif wanted == -3:
            result.append(shape[at] * shape[at + 1])
            at += 2
        elif wanted == -2:
            result += shape[at:]
            at = len(shape)
        elif wanted == -1:
            inferred = len(result)
            result.append(1)
            at += 1
        else:
            result.append(shape[at] if wanted == 0 and not allowzero else wanted)
            at += 1
        code += 1
    if inferred is not None:
        result[inferred] = _quotient(shape, [*result[:inferred], *result[inferred + 1 :]])
    return result


def _quotient(dims: Sequence[Any], divisors: Sequence[Any]) -> Any:
    """A product of dimensions divided by that of others; nothing is divided by a dimension that may be 0."""
    above, below = list(dims), []
    for divisor in divisors:
        place = next((i for i, dim in enumerate(above) if dim is divisor), None)
        if place is None or isinstance(divisor, int):
            below.append(divisor)
        else:
            del above[place]
    number = product(below)
    if isinstance(number, int):
        return product(above) // number if number else 0
    return product(above) // tirx.max(number, tirx.const(1, "int64"))


def in_shape(data: Value, shape: Sequence[Any]) -> Value:
    """The data in another shape of as many elements."""
    numbers = [getattr(dim, "value", dim) for dim in shape]
    if any(isinstance(number, int) and number == 0 for number in numbers):
        # TVM takes 0 for the dimension that the data has there.
        return relax.op.zeros(relax.ShapeExpr(list(shape)), attr_dtype(data))
    return relax.op.reshape(data, list(shape))


def _to_shape(site: OpCall, data: Value, shape: Sequence[Any]) -> Value:
    """The data in another shape of as many elements."""
    site.require(same_number(shape_of(data), shape), "the new shape has not as many elements")
    return in_shape(data, shape)


def same_number(left: Sequence[Any], right: Sequence[Any]) -> Any:
    """Whether two shapes have as many elements: a bool, or a condition on what the call knows."""
    before, after = product(left), product(right)
    if isinstance(before, int) and isinstance(after, int):
        return before == after
    return topi.utils.simplify(tirx.convert(before) == tirx.convert(after))


def _reshape(site: OpCall) -> Value:
    (data,) = site.args
    codes = integers(site.attrs["newshape"])
    return _to_shape(site, data, reshaped(shape_of(data), codes, allowzero=bool(site.attrs["allowzero"])))


def _reverse_reshape(site: OpCall) -> Value:
    """As reshape, with the codes read from the last dimension to the first."""
    (data,) = site.args
    codes = integers(site.attrs["newshape"])[::-1]
    shape = reshaped(shape_of(data)[::-1], codes, allowzero=bool(site.attrs["allowzero"]))
    return _to_shape(site, data, shape[::-1])


def _reshape_like(site: OpCall) -> Value:
    data, like = site.args
    left, right = shape_of(data), shape_of(like)
    spans = []
    for side, shape in (("lhs", left), ("rhs", right)):
        begin, end = site.attrs[f"{side}_begin"], site.attrs[f"{side}_end"]
        first = integer(begin)
        last = len(shape) if end is None else integer(end)
        spans.append((first % len(shape) if first < 0 else first, last % len(shape) if last < 0 else last))
    (a, b), (c, d) = spans
    return _to_shape(site, data, [*left[:a], *right[c:d], *left[b:]])


def _batch_flatten(site: OpCall) -> Value:
    (data,) = site.args
    rows, *rest = shape_of(data)
    return in_shape(data, [rows, product(rest)])


def _expand_dims(site: OpCall) -> Value:
    (data,) = site.args
    axis, number = integer(site.attrs["axis"]), integer(site.attrs["num_newaxis"])
    shape = shape_of(data)
    place = axis if axis >= 0 else axis + len(shape) + 1
    return in_shape(data, [*shape[:place], *[1] * number, *shape[place:]])


def _squeeze(site: OpCall) -> Value:
    """Drops the named axes, of length 1; without any, all axes whose length is known to be 1."""
    (data,) = site.args
    shape = shape_of(data)
    axis = site.attrs["axis"]
    dropped = {one % len(shape) for one in integers(axis)} if axis is not None else _ones(shape)
    for one in dropped:
        site.require(shape[one] == 1, f"the dimension at axis {one} is not 1")
    return in_shape(data, [dim for one, dim in enumerate(shape) if one not in dropped])


def _ones(shape: Sequence[Any]) -> set[int]:
    return {axis for axis, dim in enumerate(shape) if isinstance(dim, int) and dim == 1}


def _concatenate(site: OpCall) -> Value:
    (parts,) = site.args
    axis = integer(site.attrs["axis"])
    if _alike(parts, axis % len(shape_of(parts[0]))):
        return relax.op.concat(list(parts), axis=axis)
    return site.te(lambda *tensors: topi.concatenate(list(tensors), axis), *parts)


def _stack(site: OpCall) -> Value:
    (parts,) = site.args
    axis = integer(site.attrs["axis"])
    if _alike(parts, None):
        return relax.op.stack(list(parts), axis=axis)
    return site.te(lambda *tensors: topi.stack(list(tensors), axis), *parts)


def _alike(parts: Sequence[Value], free: int | None) -> bool:
    """Whether the parts are known to have one shape, but for the axis ``free``; else the call is asked."""
    columns = enumerate(zip(*map(shape_of, parts), strict=True))
    return all(
        tvm_ffi.structural_equal(dim, column[0]) for axis, column in columns if axis != free for dim in column
    )


def _split(site: OpCall) -> Value:
    (data,) = site.args
    given = site.attrs["indices_or_sections"]
    where = integers(given) if isinstance(given, tuple) else integer(given)
    axis, shape = integer(site.attrs["axis"]), shape_of(data)
    if isinstance(where, int) and shape[axis] == 0:  # TVM wants the places to increase
        return (data,) * where
    parts = site.te(lambda x: topi.split(x, where, axis=axis), data)
    bound = site.emit(parts)
    if not isinstance(bound.ty, relax.TupleType):
        return (bound,)
    return tuple(site.emit(relax.TupleGetItem(bound, place)) for place in range(len(bound.ty.fields)))


def _meshgrid(site: OpCall) -> Value:
    (parts,) = site.args
    if len(parts) == 1:
        return (site.emit(in_shape(parts[0], [product(shape_of(parts[0]))])),)
    return site.te(lambda *tensors: topi.meshgrid(list(tensors), site.attrs["indexing"]), *parts)


#: Beyond the end of any axis.
_FAR = 2**63 - 1


def _strided_slice(site: OpCall) -> Value:
    """A part of the data; its bounds are clamped to the data's, as NumPy does."""
    (data,) = site.args
    attrs = site.attrs
    begin, end, strides = (integers(attrs[name]) for name in ("begin", "end", "strides"))
    shape = shape_of(data)
    axes = list(range(len(shape))) if attrs["axes"] is None else integers(attrs["axes"])
    if attrs["axes"] is None:  # axes that are left out are taken whole
        strides += [1] * (len(shape) - len(strides))
        begin += [0 if step > 0 else _FAR for step in strides[len(begin) :]]
        end += [_FAR if step > 0 else -_FAR for step in strides[len(end) :]]
    starts: list[Any] = [0] * len(shape)
    steps = [1] * len(shape)
    lengths = list(shape)
    for place, axis in enumerate(axis % len(shape) for axis in axes):
        stop: int | None = end[place]
        if attrs["slice_mode"] == "size":
            stop = None if end[place] < 0 or end[place] == _FAR else begin[place] + end[place]
        if attrs["slice_mode"] != "end":
            strides[place] = 1
        starts[axis], lengths[axis] = sliced(shape[axis], begin[place], stop, strides[place])
        steps[axis] = strides[place]

    def compute(x: Any, *symbolic: Any) -> Any:
        first, size = symbolic
        return te.compute(
            size, lambda *index: x(*(a + i * s for a, i, s in zip(first, index, steps, strict=True)))
        )

    return site.te(compute, data, relax.ShapeExpr(starts), relax.ShapeExpr(lengths))


#: No dimension is this long.
_LONGEST = 2**40


def sliced(dim: Any, begin: int, end: int | None, step: int) -> tuple[Any, Any]:
    """The start and the length of ``begin:end:step`` of a dimension; an ``end`` of None goes to its end."""
    if isinstance(dim, int):
        stop = end if end is not None else dim
        # An end before the start of a reversed slice means "including the first", as INT_MIN does in Relay.
        span = range(*slice(begin, stop if not (step < 0 and stop < -dim) else None, step).indices(dim))
        return (span.start if span else 0), len(span)
    low, high = (0, dim) if step > 0 else (-1, dim - 1)
    start = _clamped(begin, dim, low, high)
    stop = high if end is None else _clamped(end, dim, low, high)
    length = (stop - start + step - 1) // step if step > 0 else (start - stop - step - 1) // -step
    return start, tirx.max(length, tirx.const(0, "int64"))


def _clamped(bound: int, dim: Any, low: Any, high: Any) -> Any:
    if abs(bound) >= _LONGEST:
        return high if bound > 0 else low
    limit = tirx.const(bound, "int64")
    return tirx.min(tirx.max(limit + dim if bound < 0 else limit, low), high)


def strided_set(site: OpCall) -> Value:
    """The data with the elements that a slice names replaced; begin, end and strides are constants."""
    data, values, *bounds = site.args
    begin, end, strides = ([int(item) for item in as_array(bound.value)] for bound in bounds)
    strides = strides or [1] * len(begin)
    spans = [sliced(dim, *one) for dim, *one in zip(shape_of(data), begin, end, strides, strict=False)]
    starts = [start for start, _ in spans]
    lengths = [length for _, length in spans] + shape_of(data)[len(spans) :]
    for given, length in zip(shape_of(values), lengths, strict=True):
        if given is not length:
            site.require(given == length, "the values have not the shape of the slice")

    def compute(x: Any, new: Any, first: Any, size: Any) -> Any:
        def element(*index: Any) -> Any:
            steps = zip(index, first, size, strides, strict=False)
            distances = [(at - start, length, step) for at, start, length, step in steps]
            places = [tirx.floordiv(distance, step) for distance, _, step in distances]
            inside = [
                tirx.all(tirx.floormod(distance, step) == 0, place >= 0, place < length)
                for (distance, length, step), place in zip(distances, places, strict=True)
            ]
            return tirx.if_then_else(tirx.all(*inside), new(*places, *index[len(places) :]), x(*index))

        return te.compute(x.shape, element)

    return site.te(compute, data, values, relax.ShapeExpr(starts), relax.ShapeExpr(lengths))


def _fifo_buffer(attrs: Attrs, data: Any, buffer: Any) -> Any:
    """The buffer moved along by the data's length, the data at its end."""
    axis = integer(attrs["axis"]) % len(data.shape)
    length, added = buffer.shape[axis], data.shape[axis]

    def element(*index: Any) -> Any:
        at = index[axis]
        old = [*index[:axis], at + added, *index[axis + 1 :]]
        new = [*index[:axis], at - length + added, *index[axis + 1 :]]
        return tirx.if_then_else(at < length - added, buffer(*old), data(*new))

    return te.compute(buffer.shape, element)


def _slice_like(site: OpCall) -> Value:
    data, like = site.args
    axes = site.attrs["axes"]
    chosen = integers(axes) if axes else range(len(shape_of(like)))
    shape, other = shape_of(data), shape_of(like)
    for axis in (one % len(shape) for one in chosen):
        site.require(other[axis] <= shape[axis], f"axis {axis} is longer in the shape to slice to")
        shape[axis] = other[axis]

    def compute(x: Any, dims: Any) -> Any:
        return te.compute(dims, lambda *index: x(*index))  # noqa: PLW0108 - TVM counts a function's arguments

    return site.te(compute, data, relax.ShapeExpr(shape))


def broadcast_to(site: OpCall, shape: Sequence[Any]) -> Value:
    """The data repeated along its dimensions of 1."""
    data = site.args[0]
    own = shape_of(data)
    site.require(len(own) <= len(shape), "the data has more dimensions than the shape")
    for dim, wanted in zip(reversed(own), reversed(shape), strict=False):
        if dim is not wanted and dim != 1:
            fits = dim == wanted if isinstance(dim, int) else tirx.any(dim == wanted, dim == 1)
            site.require(fits, "the data does not broadcast to this shape")

    def compute(x: Any, dims: Any) -> Any:
        def element(*at: Any) -> Any:
            places = zip(x.shape, at[len(at) - len(x.shape) :], strict=True)
            return x(*(_within_own(dim, place) for dim, place in places))

        return te.compute(dims, element)

    return site.te(compute, data, relax.ShapeExpr(shape))


def _within_own(dim: Any, place: Any) -> Any:
    """The place in a dimension that was repeated where it is 1."""
    if isinstance(dim, tirx.IntImm):
        return tirx.const(0, "int64") if dim.value == 1 else place
    return tirx.Select(dim == 1, tirx.const(0, "int64"), tirx.convert(place).astype("int64"))


def _broadcast_to(site: OpCall) -> Value:
    shape = site.attrs["shape"]
    assert isinstance(shape, tuple)
    return broadcast_to(site, site.dims(shape))


def _collapse(site: OpCall, shape: Sequence[Any]) -> Value:
    """The sums that undo a broadcast from ``shape``."""
    data = site.args[0]
    added = len(shape_of(data)) - len(shape)

    def compute(x: Any, dims: Any) -> Any:
        wide = "float32" if x.dtype in ("float16", "bfloat16") else x.dtype
        # A dimension that is not 1 is not summed over: its loop runs once.
        lengths = [*x.shape[:added]]
        lengths += [
            tirx.Select(small == 1, large, tirx.const(1, "int64"))
            for small, large in zip(dims, x.shape[added:], strict=True)
        ]
        spans = [te.reduce_axis((0, length), f"k{axis}") for axis, length in enumerate(lengths)]

        def element(*at: Any) -> Any:
            where = [span.var for span in spans[:added]]
            where += [span.var + place for span, place in zip(spans[added:], at, strict=True)]
            return te.sum(x(*where).astype(wide), axis=spans)

        found = te.compute(dims, element) if spans else topi.identity(x)
        return found if wide == x.dtype else topi.cast(found, x.dtype)

    return site.te(compute, data, relax.ShapeExpr(shape))


#: How a border is filled: with one value, with the outermost elements, with a mirror image.
PAD_MODES = ("constant", "edge", "reflect")


def _pad(site: OpCall) -> Value:
    """Constant, edge or reflected padding; the constant is the second argument."""
    data, value = site.args
    widths = site.attrs["pad_width"]
    assert isinstance(widths, tuple)
    before, after = [integers(pair)[0] for pair in widths], [integers(pair)[1] for pair in widths]
    mode = site.attrs["pad_mode"]
    if mode == "constant":
        return site.te(lambda x, fill: padded(x, before, after, fill()), data, value)
    if mode in PAD_MODES:
        return site.te(lambda x: _extended(x, before, after, str(mode)), data)
    return site.refuse(f"pad_mode must be one of {', '.join(PAD_MODES)}, not {mode!r}")


def padded(data: Any, before: Sequence[Any], after: Sequence[Any], fill: Any) -> Any:
    """The data with borders of one value; negative widths crop."""
    shape = [a + dim + b for a, dim, b in zip(before, data.shape, after, strict=True)]

    def element(*index: Any) -> Any:
        where = [at - a for at, a in zip(index, before, strict=True)]
        inside = [tirx.all(at >= 0, at < dim) for at, dim in zip(where, data.shape, strict=True)]
        return (
            tirx.if_then_else(tirx.all(*inside), data(*where), fill.astype(data.dtype)) if inside else data()
        )

    return te.compute(shape, element)


def _extended(data: Any, before: Sequence[int], after: Sequence[int], mode: str) -> Any:
    shape = [a + dim + b for a, dim, b in zip(before, data.shape, after, strict=True)]

    def element(*index: Any) -> Any:
        places = zip(index, before, data.shape, strict=True)
        return data(*(repeated(at - width, dim, mode) for at, width, dim in places))

    return te.compute(shape, element)


def repeated(place: Any, dim: Any, mode: str) -> Any:
    """The element that stands at a place beyond the border."""
    if mode == "reflect":  # the border itself is not repeated
        place = tirx.Select(place < 0, -place, place)
        place = tirx.Select(place >= dim, 2 * dim - 2 - place, place)
    return tirx.max(tirx.min(place, dim - 1), tirx.const(0, "int64"))


def _layout_transform(site: OpCall) -> Value:
    (data,) = site.args
    source, target = (str(site.attrs[name]) for name in ("src_layout", "dst_layout"))
    if sorted(source) == sorted(target) and source.isalpha():
        return relax.op.permute_dims(data, [source.index(letter) for letter in target])
    if not all(isinstance(dim, int) for dim in shape_of(data)):
        site.refuse("blocks of a dimension that is known only at the call cannot be run")
    return site.te(lambda x: topi.layout_transform(x, source, target), data)


def _mirror_pad(attrs: Attrs, data: Any) -> Any:
    widths = attrs["pad_width"]
    assert isinstance(widths, tuple)
    pairs = [integers(pair) for pair in widths]
    return topi.nn.mirror_pad(data, [a for a, _ in pairs], [b for _, b in pairs], str(attrs["mode"]))


def _block_pairs(attrs: Attrs, name: str) -> tuple[list[int], list[int], list[int]]:
    """The lengths of a block, and what is padded or cropped before and after."""
    pairs = [integers(pair) for pair in attrs[name]]  # type: ignore[attr-defined]  # a tuple by declaration
    return integers(attrs["block_shape"]), [a for a, _ in pairs], [b for _, b in pairs]


def _blocks(attrs: Attrs, data: Any) -> Any:
    """Each place of a block becomes an image of the batch: first the places, then the images that were."""
    lengths, before, after = _block_pairs(attrs, "paddings")
    count, rest = len(lengths), [0] * (len(data.shape) - 1 - len(lengths))
    value = tirx.const(number(attrs["pad_value"]), data.dtype)
    wide = padded(data, [0, *before, *rest], [0, *after, *rest], value) if any(before + after) else data
    spatial = [dim // length for dim, length in zip(wide.shape[1:], lengths, strict=False)]

    def element(image: Any, *at: Any) -> Any:
        place, where = image // data.shape[0], []
        for axis in reversed(range(count)):
            where.append(at[axis] * lengths[axis] + place % lengths[axis])
            place = place // lengths[axis]
        return wide(image % data.shape[0], *reversed(where), *at[count:])

    return te.compute((data.shape[0] * math.prod(lengths), *spatial, *data.shape[1 + count :]), element)


def _unblocks(attrs: Attrs, data: Any) -> Any:
    """What ``_blocks`` does, undone, and cropped."""
    lengths, before, after = _block_pairs(attrs, "crops")
    count, batch = len(lengths), data.shape[0] // math.prod(lengths)
    spatial = [
        dim * length - a - b
        for dim, length, a, b in zip(data.shape[1:], lengths, before, after, strict=False)
    ]

    def element(image: Any, *at: Any) -> Any:
        place: Any = 0
        places = [i + a for i, a in zip(at, before, strict=False)]
        for i, length in zip(places, lengths, strict=True):
            place = place * length + i % length
        inner = [i // length for i, length in zip(places, lengths, strict=True)]
        return data(place * batch + image, *inner, *at[count:])

    return te.compute((batch, *spatial, *data.shape[1 + count :]), element)


def _reverse(attrs: Attrs, data: Any) -> Any:
    return topi.flip(data, integer(attrs["axis"] or 0))


def _reverse_sequence(attrs: Attrs, data: Any, lengths: Any) -> Any:
    """The first ``lengths`` elements along an axis reversed, as many as there are."""
    axis, batch = (integer(attrs[name]) % len(data.shape) for name in ("seq_axis", "batch_axis"))

    def element(*at: Any) -> Any:
        length = tirx.min(lengths(at[batch]).astype("int64"), data.shape[axis])
        place = tirx.Select(at[axis] < length, length - 1 - at[axis], at[axis])
        return data(*at[:axis], place, *at[axis + 1 :])

    return te.compute(data.shape, element)


def _repeat(site: OpCall) -> Value:
    (data,) = site.args
    axis, repeats = site.attrs["axis"], integer(site.attrs["repeats"])
    if repeats < 1:
        site.refuse(f"repeats must be at least 1, not {repeats}")
    if axis is None:
        data, axis = site.emit(in_shape(data, [product(shape_of(data))])), 0
    dims = shape_of(data)
    place = integer(axis) % len(dims)
    dims[place] = dims[place] * (repeats if isinstance(dims[place], int) else tirx.const(repeats, "int64"))

    def compute(x: Any, shape: Any) -> Any:
        return te.compute(
            shape,
            lambda *at: x(
                *at[:place], tirx.floordiv(at[place], tirx.const(repeats, "int64")), *at[place + 1 :]
            ),
        )

    return site.te(compute, data, relax.ShapeExpr(dims))


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
        "broadcast_to_like": lambda site: broadcast_to(site, shape_of(site.args[1])),
        "collapse_sum_like": lambda site: _collapse(site, shape_of(site.args[1])),
        "collapse_sum_to": lambda site: _collapse(site, integers(site.attrs["shape"])),
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
        "nn.space_to_batch_nd": te_of(_blocks),
        "nn.batch_to_space_nd": te_of(_unblocks),
        "nn.fifo_buffer": te_of(_fifo_buffer),
        "sequence_mask": te_rule(topi.sequence_mask, "mask_value", "axis"),
    }
)
