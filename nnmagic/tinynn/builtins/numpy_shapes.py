"""NumPy's functions that move elements: shapes, axes, joining, splitting, repeating, padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.ops.dims import product
from nnmagic.relay.types import Dim
from nnmagic.tinynn.binding import Arguments, Builtin
from nnmagic.tinynn.builtins.formula import Formula
from nnmagic.tinynn.builtins.operands import (
    axes,
    checked_axis,
    dtype_argument,
    fixed,
    formula,
    known_int,
    known_or_none,
    of_one_dtype,
    one_axis,
    require_rank,
    shape_argument,
    tensors,
    word,
)
from nnmagic.tinynn.builtins.reshaping import reshape
from nnmagic.tinynn.emit import call_operator, computed_part, is_tensor
from nnmagic.tinynn.strict import dims_differ
from nnmagic.tinynn.values import (
    Known,
    Operand,
    Refusal,
    TupleOf,
    Value,
    described,
    dim_shown,
    number_constant,
    shape_shown,
)

_NAMES = "x=a input=a m=a ary=a array=a"

# -- axes ----------------------------------------------------------------------------------------------


def _flatten(call: Arguments) -> Value:
    """NumPy's method; ``start_dim`` and ``end_dim`` are PyTorch's."""
    data = formula(call, "a")
    if data.rank == 0:
        return data.reshape((1,)).value
    first, last = one_axis(call, "start_dim", data.rank, 0), one_axis(call, "end_dim", data.rank, -1)
    if first > last:
        raise Refusal("flatten: `start_dim` is after `end_dim`", call.span)
    shape = data.shape
    if first == last and data.rank > 1:
        return data.value
    return data.reshape((*shape[:first], product(shape[first : last + 1]), *shape[last + 1 :])).value


def _ravel(call: Arguments) -> Value:
    return formula(call, "a").flat().value


def _transpose(call: Arguments) -> Value:
    data = formula(call, "a")
    if "axes" not in call or call.known("axes") == ():
        return data.op("transpose", axes=None).value if data.rank > 1 else data.value
    found = axes(call, data.rank, "axes")
    assert found is not None
    if len(found) != data.rank:
        message = f"{call.name}: {len(found)} axes for a tensor of rank {data.rank}"
        raise Refusal(message, call.given["axes"].span, hint="list each axis once")
    return data.op("transpose", axes=found).value


def _matrix_transpose(call: Arguments) -> Value:
    data = formula(call, "a")
    require_rank(call, data, "a", 2)
    return data.transpose([*range(data.rank - 2), data.rank - 1, data.rank - 2]).value


def _swapaxes(call: Arguments) -> Value:
    data = formula(call, "a")
    one, other = one_axis(call, "axis1", data.rank), one_axis(call, "axis2", data.rank)
    order = list(range(data.rank))
    order[one], order[other] = other, one
    return data.transpose(order).value


def _moveaxis(call: Arguments) -> Value:
    data = formula(call, "a")
    source, target = axes(call, data.rank, "source") or (), axes(call, data.rank, "destination") or ()
    if len(source) != len(target):
        raise Refusal("moveaxis: `source` and `destination` have different lengths", call.span)
    order = [axis for axis in range(data.rank) if axis not in source]
    for place, axis in sorted(zip(target, source, strict=True)):
        order.insert(place, axis)
    return data.transpose(order).value


def _rollaxis(call: Arguments) -> Value:
    data = formula(call, "a")
    axis, start = one_axis(call, "axis", data.rank), known_int(call, "start", 0)
    start += data.rank if start < 0 else 0
    if not 0 <= start <= data.rank:
        raise Refusal(f"rollaxis: start {start} is out of range", call.span)
    order = list(range(data.rank))
    order.remove(axis)
    order.insert(start - (start > axis), axis)
    return data.transpose(order).value


def _squeeze(call: Arguments) -> Value:
    data = formula(call, "a")
    found = axes(call, data.rank)
    if found is None:
        found = tuple(axis for axis, dim in enumerate(data.shape) if dim == 1)
    for axis in found:
        if data.shape[axis] != 1:
            message = f"squeeze: axis {axis} has the size {dim_shown(data.shape[axis])}, not 1"
            raise Refusal(message, call.given["axis"].span)
    return data.op("squeeze", axis=found).value if found else data.value


def _expand_dims(call: Arguments) -> Value:
    data = formula(call, "a")
    count = known_int(call, "num_newaxis", 1)
    if count != 1:
        return data.op("expand_dims", axis=known_int(call, "axis"), num_newaxis=count).value
    given = call.known("axis")
    listed = given if isinstance(given, tuple) else (given,)
    rank = data.rank + len(listed)
    places = sorted(checked_axis(call, "axis", axis, rank) for axis in listed)
    if len(set(places)) != len(places):
        raise Refusal("expand_dims: an axis is listed twice", call.given["axis"].span)
    for place in places:
        data = data.expand(place)
    return data.value


def _broadcast_to(call: Arguments) -> Value:
    data = formula(call, "a")
    operands = [Operand(data.value, call.given["a"].span)]
    attrs = {"shape": shape_argument(call, "shape")}
    places = {"shape": call.given["shape"].span}
    result = call_operator(OPERATORS["broadcast_to"], operands, attrs, call.span, places)
    return data.value if attrs["shape"] == data.shape else result


def common_shape(call: Arguments, shapes: Sequence[Sequence[Dim]]) -> tuple[Dim, ...]:
    """The shape that all broadcast to."""
    rank = max(map(len, shapes))
    found: list[Dim] = [1] * rank
    for shape in shapes:
        for place, dim in enumerate(shape, rank - len(shape)):
            if found[place] == 1:
                found[place] = dim
            elif dim != 1 and dims_differ(found[place], dim):
                shown = " and ".join(map(shape_shown, shapes))
                raise Refusal(f"{call.name}: the shapes {shown} do not broadcast", call.span)
            elif isinstance(dim, int) and dim != 1:
                found[place] = dim
    return tuple(found)


def broadcast(data: Formula, shape: Sequence[Dim]) -> Formula:
    """Repeated along the axes of size 1."""
    return data if data.shape == tuple(shape) else data.op("broadcast_to", shape=tuple(shape))


def _broadcast_arrays(call: Arguments) -> Value:
    given = call.given["arrays"].value
    assert isinstance(given, TupleOf)
    span = call.given["arrays"].span
    inner = [Arguments(call.name, {"x": Operand(item, span)}, call.span) for item in given.items]
    found = [formula(one, "x") for one in inner]
    shape = common_shape(call, [one.shape for one in found]) if found else ()
    return TupleOf(tuple(broadcast(one, shape).value for one in found))


def at_least(data: Formula, rank: int) -> Formula:
    """With axes of size 1 as atleast_1d, atleast_2d and atleast_3d put them."""
    if data.rank == 0 and rank:
        data = data.reshape((1,))
    if data.rank == 1 and rank > 1:
        data = data.expand(0)
    if data.rank == 2 and rank > 2:
        data = data.expand(2)
    return data


def _atleast(rank: int) -> Builtin:
    def apply_to(call: Arguments) -> Value:
        given = call.given["arrays"].value
        assert isinstance(given, TupleOf)
        inner = [
            Arguments(call.name, {"x": Operand(item, call.given["arrays"].span)}, call.span)
            for item in given.items
        ]
        found = tuple(at_least(formula(one, "x"), rank).value for one in inner)
        return found[0] if len(found) == 1 else TupleOf(found)

    name = f"atleast_{rank}d"
    return Builtin(name, "*arrays", apply_to, f"With {rank} dimensions at least.", name, method=False)


# -- joining -------------------------------------------------------------------------------------------


def joined(call: Arguments, parts: Sequence[Formula], axis: int, operator: str = "concatenate") -> Formula:
    """Tensors of one dtype as one, along an axis (or a new one)."""
    first = next(iter(call.given.values()))
    whole = TupleOf(tuple(part.value for part in parts))
    value = computed_part(Operand(whole, first.span))
    result = call_operator(OPERATORS[operator], [Operand(value, first.span)], {"axis": axis}, call.span)
    from nnmagic.tinynn.values import Computed

    assert isinstance(result, Computed)
    return Formula(result, call.span)


def stacked(parts: Sequence[Formula], axis: int) -> Formula:
    """Tensors of one shape and dtype along a new axis."""
    call = Arguments("stack", {"arrays": Operand(Known(None), parts[0].span)}, parts[0].span)
    return joined(call, parts, axis, "stack")


def _all(call: Arguments) -> list[Formula]:
    """The tensors to join: a list of them; a tensor's rows."""
    dtype = dtype_argument(call)
    found = tensors(call, "arrays")
    return found if dtype is None else [part.cast(dtype) for part in found]


def _same_rank(call: Arguments, parts: Sequence[Formula]) -> None:
    for part in parts:
        if part.rank != parts[0].rank:
            shown = f"{shape_shown(parts[0].shape)} and {shape_shown(part.shape)}"
            raise Refusal(f"{call.name}: the shapes {shown} do not fit together", call.given["arrays"].span)


def _concatenate(call: Arguments) -> Value:
    parts = _all(call)
    if "axis" in call.given and call.known("axis") is None:
        return joined(call, [part.flat() if part.rank else part.reshape((1,)) for part in parts], 0).value
    if parts[0].rank == 0:
        hint = "write stack([a, b]) for scalars"
        raise Refusal(f"{call.name} takes tensors of rank 1 or more", call.given["arrays"].span, hint=hint)
    _same_rank(call, parts)
    return joined(call, parts, one_axis(call, "axis", parts[0].rank, 0)).value


def _stack(call: Arguments) -> Value:
    parts = _all(call)
    _same_rank(call, parts)
    return joined(call, parts, one_axis(call, "axis", parts[0].rank + 1, 0), "stack").value


def _hstack(call: Arguments) -> Value:
    parts = [at_least(part, 1) for part in _all(call)]
    _same_rank(call, parts)
    return joined(call, parts, 0 if parts[0].rank == 1 else 1).value


def _vstack(call: Arguments) -> Value:
    parts = [at_least(part, 2) for part in _all(call)]
    _same_rank(call, parts)
    return joined(call, parts, 0).value


def _dstack(call: Arguments) -> Value:
    parts = [at_least(part, 3) for part in _all(call)]
    _same_rank(call, parts)
    return joined(call, parts, 2).value


def _column_stack(call: Arguments) -> Value:
    parts = [at_least(part, 1) for part in _all(call)]
    parts = [part.expand(1) if part.rank == 1 else part for part in parts]
    _same_rank(call, parts)
    return joined(call, parts, 1).value


def _append(call: Arguments) -> Value:
    parts = of_one_dtype(call, [call.given["arr"], call.given["values"]])
    if "axis" not in call:
        flat = [part.flat() if part.rank else part.reshape((1,)) for part in parts]
        return joined(call, flat, 0).value
    axis = one_axis(call, "axis", parts[0].rank)
    if parts[0].rank != parts[1].rank:
        shown = f"{shape_shown(parts[0].shape)} and {shape_shown(parts[1].shape)}"
        raise Refusal(f"append: the shapes {shown} do not fit together", call.span)
    return joined(call, parts, axis).value


# -- splitting -----------------------------------------------------------------------------------------


def _cut(data: Formula, axis: int, begin: int, end: int) -> Formula:
    return data.op("strided_slice", begin=[begin], end=[end], strides=[1], axes=[axis])


def _split_by(name: str, fixed_axis: int | None, *, equal: bool = True) -> Builtin:
    """Into parts of one size, or at places. ``array_split``: into parts as equal as they can be."""

    def apply_to(call: Arguments) -> Value:
        data = formula(call, "ary")
        axis = fixed_axis
        if name == "hsplit":
            axis = 0 if data.rank == 1 else 1
        if axis is None:
            axis = one_axis(call, "axis", data.rank, 0)
        elif data.rank <= axis:
            require_rank(call, data, "ary", axis + 1)
        how, at = call.known("indices_or_sections"), call.given["indices_or_sections"].span
        places = how if isinstance(how, tuple) else None
        bad = isinstance(how, bool) or not isinstance(how, int | tuple)
        if bad or not all(isinstance(place, int) for place in places or ()):
            raise Refusal(f"{name}: `indices_or_sections` must be an int or a tuple of ints", at)
        if places is None:
            assert isinstance(how, int)
            return _equal_parts(call, data, axis, how, equal)
        return _parts_at(call, data, axis, places)

    summary = "Parts of one size, or cut at places, as a tuple."
    signature = "ary indices_or_sections" + (" axis?" if fixed_axis is None and name != "hsplit" else "")
    return Builtin(name, signature, apply_to, summary, name, "x=ary input=ary")


def _equal_parts(call: Arguments, data: Formula, axis: int, count: int, equal: bool) -> Value:
    at = call.given["indices_or_sections"].span
    if not 0 < count <= 10_000:
        raise Refusal(f"{call.name}: {count} parts", at)
    size = data.shape[axis]
    if not isinstance(size, int) or size % count == 0:
        operand = Operand(data.value, call.given["ary"].span)
        attrs = {"indices_or_sections": count, "axis": axis}
        return call_operator(OPERATORS["split"], [operand], attrs, call.span)
    if equal:
        message = f"{call.name}: axis {axis} of size {size} does not divide into {count} equal parts"
        raise Refusal(message, at, hint="array_split takes parts of different sizes")
    small, larger = divmod(size, count)
    ends, end = [], 0
    for part in range(count - 1):
        end += small + (part < larger)
        ends.append(end)
    return _parts_at(call, data, axis, tuple(ends))


def _parts_at(call: Arguments, data: Formula, axis: int, places: tuple[object, ...]) -> Value:
    size = fixed(call, data.shape[axis], call.given["ary"].span)
    bounds = [0, *(slice(place).indices(size)[1] for place in places if isinstance(place, int)), size]
    parts = [_cut(data, axis, a, max(a, b)) for a, b in pairwise(bounds)]
    return TupleOf(tuple(part.value for part in parts))


# -- repeating, turning --------------------------------------------------------------------------------


def _repeat(call: Arguments) -> Value:
    data = formula(call, "a")
    count = call.known("repeats")
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        hint = "one number, for all elements"
        raise Refusal(
            "repeat: `repeats` must be an int known while compiling", call.given["repeats"].span, hint=hint
        )
    axis = one_axis(call, "axis", data.rank) if "axis" in call else None
    if axis is None:
        data, axis = data.flat() if data.rank else data.reshape((1,)), 0
    if count == 0:
        return _cut(data, axis, 0, 0).value
    return data.op("repeat", repeats=count, axis=axis).value


def _tile(call: Arguments) -> Value:
    data = formula(call, "A")
    reps = call.known("reps")
    listed = reps if isinstance(reps, tuple) else (reps,)
    if not all(isinstance(count, int) and not isinstance(count, bool) and count >= 0 for count in listed):
        raise Refusal("tile: `reps` must be ints that are not negative", call.given["reps"].span)
    counts = [count for count in listed if isinstance(count, int)]
    if 0 in counts:
        shape = [1] * (len(counts) - data.rank) + list(data.shape)
        counts = [1] * (len(shape) - len(counts)) + counts
        empty = data.reshape(shape)
        for axis, count in enumerate(counts):
            if count == 0:
                empty = _cut(empty, axis, 0, 0)
        data, counts = empty, [count or 1 for count in counts]
    return data.op("tile", reps=tuple(counts)).value if counts else data.value


def _flipped(data: Formula, along: Sequence[int]) -> Formula:
    for axis in along:
        data = data.op("reverse", axis=axis)
    return data


def _flip(call: Arguments) -> Value:
    data = formula(call, "a")
    found = axes(call, data.rank)
    return _flipped(data, range(data.rank) if found is None else found).value


def _flip_along(axis: int, rank: int) -> Callable[[Arguments], Value]:
    def apply_to(call: Arguments) -> Value:
        data = formula(call, "a")
        require_rank(call, data, "a", rank)
        return _flipped(data, (axis,)).value

    return apply_to


def _roll(call: Arguments) -> Value:
    data = formula(call, "a")
    shape = data.shape
    shift = call.known("shift")
    shifts = shift if isinstance(shift, tuple) else (shift,)
    if not all(isinstance(step, int) for step in shifts):
        raise Refusal("roll: `shift` must be an int or a tuple of ints", call.given["shift"].span)
    along = axes(call, data.rank)
    if along is None:
        data, along = data.flat() if data.rank else data.reshape((1,)), (0,)
    if len(shifts) == 1:
        shifts *= len(along)
    if len(along) == 1:
        along *= len(shifts)
    if len(along) != len(shifts):
        raise Refusal("roll: `shift` and `axis` have different lengths", call.span)
    for axis, step in zip(along, shifts, strict=True):
        size = fixed(call, data.shape[axis], call.given["a"].span)
        assert isinstance(step, int)
        step = step % size if size else 0  # noqa: PLW2901
        if step:
            data = joined(call, [_cut(data, axis, size - step, size), _cut(data, axis, 0, size - step)], axis)
    return data.value if "axis" in call or not shape else data.reshape(shape).value


def _rot90(call: Arguments) -> Value:
    data = formula(call, "a")
    require_rank(call, data, "a", 2)
    turns = known_int(call, "k", 1) % 4
    plane = axes(call, data.rank, "axes") or (0, 1)
    if len(plane) != 2:
        raise Refusal("rot90: `axes` must be two axes", call.given["axes"].span)
    one, other = plane
    order = list(range(data.rank))
    order[one], order[other] = other, one
    if turns == 0:
        return data.value
    if turns == 2:
        return _flipped(data, plane).value
    if turns == 1:
        return _flipped(data, (other,)).transpose(order).value
    return _flipped(data.transpose(order), (other,)).value


# -- padding -------------------------------------------------------------------------------------------

_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def _are_ints(items: object) -> bool:
    return isinstance(items, tuple) and all(
        isinstance(item, int) and not isinstance(item, bool) for item in items
    )


def _pad_width(call: Arguments, rank: int) -> list[tuple[int, int]]:
    given, at = call.known("pad_width"), call.given["pad_width"].span
    pairs: list[tuple[int, ...]]
    if isinstance(given, int):
        pairs = [(given, given)] * rank
    elif isinstance(given, tuple) and _are_ints(given) and len(given) in (1, 2):
        pairs = [(given[0], given[-1])] * rank
    elif isinstance(given, tuple) and all(_are_ints(each) and each for each in given):
        pairs = [(each[0], each[-1]) for each in given]
        pairs = pairs * rank if len(pairs) == 1 else pairs
    else:
        pairs = []
    if len(pairs) != rank:
        hint = "write one number, (before, after), or a pair for each dimension"
        raise Refusal(f"pad: `pad_width` does not fit a tensor of rank {rank}", at, hint=hint)
    if any(width < 0 for each in pairs for width in each):
        raise Refusal("pad: `pad_width` must not be negative", at)
    return [(each[0], each[-1]) for each in pairs]


def _pad(call: Arguments) -> Value:
    """NumPy's; ``pad_value`` and ``pad_mode`` are Relay's names."""
    data = formula(call, "array")
    widths = _pad_width(call, data.rank)
    if "mode" in call and not isinstance(known_or_none(call.given["mode"].value), str):
        call = Arguments(  # pad(x, widths, 0), as Relay has it
            call.name,
            {"constant_values": call.given["mode"], **{k: v for k, v in call.given.items() if k != "mode"}},
            call.span,
        )
    mode = word(call, "mode", _MODES, "constant")
    if mode != "constant" and "constant_values" in call:
        raise Refusal(f"pad: `constant_values` with the mode {mode!r}", call.given["constant_values"].span)
    if mode == "constant":
        operand = call.given.get("constant_values", Operand(Known(0), call.span))
        number = known_or_none(operand.value)
        if isinstance(number, bool | int | float):
            value: Value = number_constant(
                bool(number) if data.dtype == "bool" else number, data.dtype, operand.span
            )
        elif is_tensor(operand.value):
            value = operand.value
        else:
            message = f"pad: `constant_values` must be one number, not {described(operand.value)}"
            raise Refusal(message, operand.span)
        if not any(map(any, widths)):
            return data.value
        operands = [Operand(data.value, call.given["array"].span), Operand(value, operand.span)]
        return call_operator(OPERATORS["nn.pad"], operands, {"pad_width": widths}, call.span)
    for axis, (before, after) in enumerate(widths):
        if before or after:
            data = _extended(call, data, axis, before, after, mode)
    return data.value


def _extended(call: Arguments, data: Formula, axis: int, before: int, after: int, mode: str) -> Formula:
    """One axis made longer by its own elements."""
    size = fixed(call, data.shape[axis], call.given["array"].span)
    if size == 0:
        raise Refusal(f"pad: axis {axis} has no elements to repeat", call.given["array"].span)

    def source(place: int) -> int:
        if mode == "edge":
            return min(max(place, 0), size - 1)
        if mode == "wrap":
            return place % size
        period = 2 * size if mode == "symmetric" else max(2 * (size - 1), 1)
        place %= period
        if mode == "symmetric":
            return place if place < size else period - 1 - place
        return 0 if size == 1 else place if place < size else period - place

    places = [source(place) for place in range(-before, size + after)]
    from nnmagic.relay import expr as ir
    from nnmagic.relay.types import TensorType
    from nnmagic.tinynn.values import Computed

    indices = Computed(ir.constant(places, "int32", span=call.span), TensorType((len(places),), "int32"))
    return data.op("take", Formula(indices, call.span), axis=axis, mode="clip")


# -- matrices ------------------------------------------------------------------------------------------


def trilu(data: Formula, k: int, *, upper: bool) -> Formula:
    """The upper or lower triangle; 0 elsewhere."""
    return data.op("trilu", Formula(number_constant(k, "int32", data.span), data.span), upper=upper)


def _triangle(*, upper: bool) -> Callable[[Arguments], Value]:
    def apply_to(call: Arguments) -> Value:
        data = formula(call, "m")
        k = known_int(call, "k", 0)
        if data.rank == 1:
            data = broadcast(data, (data.shape[0], data.shape[0]))
        require_rank(call, data, "m", 2)
        if data.dtype == "bool":
            return trilu(data.cast("int8"), k, upper=upper).truth().value
        return trilu(data, k, upper=upper).value

    return apply_to


def diagonal_of(call: Arguments, data: Formula, offset: int, axis1: int, axis2: int) -> Formula:
    """The elements whose places along two axes differ by the offset, along a last axis."""
    if axis1 == axis2:
        raise Refusal(f"{call.name}: the two axes are one", call.span)
    rest = [axis for axis in range(data.rank) if axis not in (axis1, axis2)]
    data = data.transpose([*rest, axis1, axis2])
    at = next(iter(call.given.values())).span
    rows, columns = (fixed(call, dim, at) for dim in data.shape[-2:])
    top, left = max(-offset, 0), max(offset, 0)
    length = max(min(rows - top, columns - left), 0)
    flat = data.reshape((*data.shape[:-2], rows * columns))
    first = top * columns + left
    if length == 0:
        return _cut(flat, len(rest), 0, 0)
    end = first + (length - 1) * (columns + 1) + 1
    return flat.op("strided_slice", begin=[first], end=[end], strides=[columns + 1], axes=[len(rest)])


def _diagonal(call: Arguments) -> Value:
    return _the_diagonal(call).value


def _the_diagonal(call: Arguments) -> Formula:
    data = formula(call, "a")
    require_rank(call, data, "a", 2)
    one, other = one_axis(call, "axis1", data.rank, 0), one_axis(call, "axis2", data.rank, 1)
    return diagonal_of(call, data, known_int(call, "offset", 0), one, other)


def _trace(call: Arguments) -> Value:
    from nnmagic.tinynn.builtins.numpy_reductions import wide_dtype

    diagonal = _the_diagonal(call)
    diagonal = diagonal.cast(dtype_argument(call) or wide_dtype(diagonal.dtype))
    return diagonal.reduce("sum", (diagonal.rank - 1,)).value


def _diag(call: Arguments) -> Value:
    """Of a matrix its diagonal, of a vector the matrix that has it as its diagonal."""
    data = formula(call, "v")
    k = known_int(call, "k", 0)
    if data.rank == 2:
        return diagonal_of(call, data, k, 0, 1).value
    if data.rank != 1:
        message = f"diag takes a tensor of rank 1 or 2, not one of shape {shape_shown(data.shape)}"
        raise Refusal(message, call.given["v"].span)
    size = data.shape[0]
    if not isinstance(size, int):
        raise Refusal("diag of a named dimension is not supported yet", call.given["v"].span)
    from nnmagic.tinynn.builtins.numpy_creation import unit_matrix

    zero = Formula(number_constant(False if data.dtype == "bool" else 0, data.dtype, call.span), call.span)
    values = data.op("nn.pad", zero, pad_width=[(abs(k), 0)]) if k else data
    total = size + abs(k)
    mask = unit_matrix(total, total, k, "bool", call.span)
    return mask.choose(values if k >= 0 else values.expand(1), zero).value


_STACK = "arrays * dtype?"
_STACK_NAMES = "tup=arrays tensors=arrays"

SHAPES = (
    Builtin(
        "reshape",
        "a newshape * allowzero?",
        reshape,
        "Another shape; -1 for one dimension that follows.",
        "reshape",
        "shape=newshape " + _NAMES,
    ),
    Builtin(
        "flatten",
        "a start_dim? end_dim?",
        _flatten,
        "All elements, or PyTorch's range of dimensions, in one.",
        None,
        _NAMES,
    ),
    Builtin("ravel", "a", _ravel, "All elements in one dimension.", "ravel", _NAMES),
    Builtin(
        "transpose",
        "a axes?",
        _transpose,
        "The axes in another order; without any, reversed.",
        "transpose",
        _NAMES,
    ),
    Builtin(
        "permute_dims",
        "a axes",
        _transpose,
        "The axes in another order.",
        "permute_dims",
        _NAMES,
        method=False,
    ),
    Builtin(
        "matrix_transpose", "a", _matrix_transpose, "The last two axes swapped.", "matrix_transpose", _NAMES
    ),
    Builtin(
        "swapaxes",
        "a axis1 axis2",
        _swapaxes,
        "Two axes swapped.",
        "swapaxes",
        "dim0=axis1 dim1=axis2 " + _NAMES,
    ),
    Builtin("moveaxis", "a source destination", _moveaxis, "Axes moved to other places.", "moveaxis", _NAMES),
    Builtin("rollaxis", "a axis start?", _rollaxis, "An axis moved before another.", "rollaxis", _NAMES),
    Builtin("squeeze", "a axis?", _squeeze, "Without axes of size 1.", "squeeze", "dim=axis " + _NAMES),
    Builtin(
        "expand_dims",
        "a axis * num_newaxis?",
        _expand_dims,
        "With new axes of size 1.",
        "expand_dims",
        _NAMES,
    ),
    Builtin(
        "broadcast_to", "a shape", _broadcast_to, "Repeated along axes of size 1.", "broadcast_to", _NAMES
    ),
    Builtin(
        "broadcast_arrays",
        "*arrays",
        _broadcast_arrays,
        "All in their common shape, as a tuple.",
        "broadcast_arrays",
        method=False,
    ),
    *map(_atleast, (1, 2, 3)),
    Builtin(
        "concatenate",
        "arrays axis? * dtype?",
        _concatenate,
        "Joined along an axis.",
        "concatenate",
        _STACK_NAMES,
        method=False,
    ),
    Builtin(
        "concat",
        "arrays axis? * dtype?",
        _concatenate,
        "Joined along an axis.",
        "concat",
        _STACK_NAMES + " dim=axis",
        method=False,
    ),
    Builtin(
        "stack",
        "arrays axis? * dtype?",
        _stack,
        "Joined along a new axis.",
        "stack",
        _STACK_NAMES + " dim=axis",
        method=False,
    ),
    Builtin(
        "hstack",
        _STACK,
        _hstack,
        "Joined along the second axis; vectors along the first.",
        "hstack",
        _STACK_NAMES,
        method=False,
    ),
    Builtin(
        "vstack",
        _STACK,
        _vstack,
        "Joined along the first axis; vectors are rows.",
        "vstack",
        _STACK_NAMES,
        method=False,
    ),
    Builtin("dstack", _STACK, _dstack, "Joined along the third axis.", "dstack", _STACK_NAMES, method=False),
    Builtin(
        "column_stack",
        _STACK,
        _column_stack,
        "Vectors as columns.",
        "column_stack",
        _STACK_NAMES,
        method=False,
    ),
    Builtin(
        "append",
        "arr values axis?",
        _append,
        "Two joined; flattened without an axis.",
        "append",
        method=False,
    ),
    _split_by("split", None),
    _split_by("array_split", None, equal=False),
    _split_by("hsplit", None),
    _split_by("vsplit", 0),
    _split_by("dsplit", 2),
    Builtin("repeat", "a repeats axis?", _repeat, "Each element several times.", "repeat", _NAMES),
    Builtin("tile", "A reps", _tile, "The whole tensor several times.", "tile", "x=A"),
    Builtin("flip", "a axis?", _flip, "In reverse order along axes.", "flip", _NAMES),
    Builtin("fliplr", "a", _flip_along(1, 2), "In reverse order along the second axis.", "fliplr", _NAMES),
    Builtin("flipud", "a", _flip_along(0, 1), "In reverse order along the first axis.", "flipud", _NAMES),
    Builtin("roll", "a shift axis?", _roll, "Moved around along axes.", "roll", _NAMES),
    Builtin("rot90", "a k? axes?", _rot90, "Turned by quarters in a plane.", "rot90", _NAMES),
    Builtin(
        "pad",
        "array pad_width mode? * constant_values?",
        _pad,
        "Made larger at its ends.",
        "pad",
        "pad_value=constant_values pad_mode=mode x=array",
    ),
    Builtin("tril", "m k?", _triangle(upper=False), "The lower triangle.", "tril", "x=m input=m diagonal=k"),
    Builtin("triu", "m k?", _triangle(upper=True), "The upper triangle.", "triu", "x=m input=m diagonal=k"),
    Builtin("diagonal", "a offset? axis1? axis2?", _diagonal, "A diagonal.", "diagonal", _NAMES),
    Builtin("trace", "a offset? axis1? axis2? dtype?", _trace, "The sum of a diagonal.", "trace", _NAMES),
    Builtin("diag", "v k?", _diag, "The diagonal of a matrix; the matrix of a diagonal.", "diag"),
)
