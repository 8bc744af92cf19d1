"""Legalize slices whose bounds are operands: sizes, and numbers that values decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import tvm
import tvm_ffi
from tvm import relax, te, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812 - TVM's own name for its builder

from nnmagic.engine.relax.legalize import slicing
from nnmagic.engine.relax.legalize.extern_loops import COPIES_FIRST, fill_by_loops, grid
from nnmagic.engine.relax.legalize.registry import INJECTIVE, OPAQUE, OpCall, Value, shape_of
from nnmagic.engine.relax.legalize.sizes import maximum, minimum, same_size
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.tir.builders import as_expr
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr

_CONCAT = tvm.ir.Op.get("relax.concat")

#: Longer than any axis, and so short that products with an index fit 64 bits.
_LONGEST = 1 << 48

#: The operators that keep the only element of a tensor.
_UNCHANGED = tuple(map(tvm.ir.Op.get, ("relax.expand_dims", "relax.reshape", "relax.squeeze")))


@dataclass(frozen=True, slots=True)
class Element:
    """The only element of a tensor, a number that values decide."""

    tensor: Value


#: A bound of a slice.
Bound: TypeAlias = Extent | Element


@dataclass(frozen=True, slots=True)
class AxisSlice:
    """The indices ``start + i * step`` of an axis, for ``i`` below ``length``."""

    start: Bound
    length: Extent
    step: int | Element


def resolve_slices(
    call: OpCall, data: Value, bounds: Sequence[Value], *, by_size: bool = False
) -> list[AxisSlice]:
    """Resolve vectors of begins, ends and strides.

    Axes for which the vectors have no number are whole. With ``by_size``, an end is a length (-1: all that
    follows) and strides are 1.
    """
    shape = shape_of(data)
    begins, ends, steps = (_elements(call, vector) for vector in bounds)
    slices = []
    for dim, begin, end, step in zip(shape, begins, ends, steps, strict=False):
        if by_size:
            slices.append(_resolve(call, dim, begin, _end_of_length(call, dim, begin, end), 1))
        else:
            is_known = isinstance(step, Element) or (isinstance(step, int) and step)
            # Of a size it is not known whether it is 0, which is refused where the program runs.
            by = step if is_known else Element(_compute(call, [step], (), lambda numbers: numbers[0]))
            slices.append(_resolve(call, dim, begin, end, cast("int | Element", by)))
    return [*slices, *(AxisSlice(0, dim, 1) for dim in shape[len(slices) :])]


def _end_of_length(call: OpCall, dim: Extent, begin: Bound, length: Bound) -> Element:
    """Return where so many elements end: from the beginning, once that is counted from the front."""

    def end(numbers: Sequence[PrimExpr]) -> PrimExpr:
        first, count, extent = numbers
        return tirx.Select(count < 0, extent, tirx.Select(first < 0, first + extent, first) + count)

    return Element(_compute(call, [begin, length, dim], (), end))


def _elements(call: OpCall, vector: Value) -> list[Bound]:
    """Return the elements of a vector."""
    elements = call.elements(vector)
    if elements is not None:
        return elements
    bound = call.builder.lookup_binding(vector) if isinstance(vector, relax.Var) else None
    if isinstance(bound, relax.Call) and bound.op == _CONCAT:
        fields = list(bound.args[0].fields)
        if all(shape_of(field) == [1] for field in fields):
            return [(call.elements(field) or [_source(call, field)])[0] for field in fields]
    if shape_of(vector) == [1]:
        return [_source(call, vector)]

    def element(k: int) -> Element:
        return Element(call.emit(call.te(lambda items: te.compute((), lambda: items(k)), vector)))

    return [element(k) for k in range(int(shape_of(vector)[0]))]


def _source(call: OpCall, tensor: Value) -> Element:
    """Return the only element of a tensor as where it comes from, which may be a register."""
    while isinstance(tensor, relax.Var):
        bound = call.builder.lookup_binding(tensor)
        if not isinstance(bound, relax.Call) or bound.op not in _UNCHANGED:
            break
        tensor = bound.args[0]
    return Element(tensor)


def _resolve(call: OpCall, dim: Extent, begin: Bound, end: Bound, step: int | Element) -> AxisSlice:
    """Resolve one slice as NumPy does: bounds below 0 count from the end, and all are clipped."""
    if not isinstance(step, Element) and not any(isinstance(bound, Element) for bound in (begin, end)):
        start, length = slicing.resolve_slice(dim, begin, end, step)
        return AxisSlice(start, call.name_size(length), step)
    key = ("slice", *map(_key, (begin, end, dim, step)))
    resolved = call.size_names.find(key)
    if resolved is None and isinstance(step, Element):  # products with a longer one might wrap around
        step = Element(_compute(call, [step], (), lambda numbers: _clamp_step(numbers[0])))
    if resolved is None:
        resolved = _compute_slice(call, dim, (begin, end), step)
        call.size_names.define(key, resolved)
    assert isinstance(resolved, AxisSlice)
    return resolved


def _clamp_step(step: PrimExpr) -> PrimExpr:
    """Return a step that is no longer than any axis, and takes the same elements."""
    return tirx.max(tirx.min(step, as_expr(_LONGEST)), as_expr(-_LONGEST))


def _key(bound: Bound) -> object:
    return bound if isinstance(bound, int | Element) else tvm_ffi.StructuralKey(bound)


def _compute_slice(call: OpCall, dim: Extent, bounds: tuple[Bound, Bound], step: int | Element) -> AxisSlice:
    """Compute the start and the length of a slice where the program runs."""
    clipped = [_clip(call, dim, bound, step) for bound in bounds]

    def count(numbers: Sequence[PrimExpr]) -> PrimExpr:
        start, stop, by, most = numbers
        distance, width = stop - start, by
        if isinstance(step, Element):
            distance, width = tirx.Select(by > 0, distance, -distance), tirx.max(tirx.abs(by), as_expr(1))
        elif step < 0:
            distance, width = -distance, -by
        length = distance if step in (1, -1) else tirx.floordiv(distance - 1, width) + 1
        return tirx.min(tirx.max(length, as_expr(0)), most)

    size = tirx.Var("size", "int64")
    counted = _compute(call, [*clipped, step, dim], (1,), count)
    call.define_sizes(call.emit(relax.op.tensor_to_shape(counted)), [size])
    return AxisSlice(clipped[0], size, step)


def _clip(call: OpCall, dim: Extent, bound: Bound, step: int | Element) -> Bound:
    """Return a bound in the range of an axis: from before the first element to behind the last one."""
    if not isinstance(bound, Element) and not isinstance(step, Element):
        low, high = (0, dim) if step > 0 else (-1, dim - 1)
        if isinstance(bound, int) and abs(bound) >= slicing.BEYOND:
            return high if bound > 0 else low
        return minimum(maximum(slicing.locate(bound, dim), low), high)

    def clip(numbers: Sequence[PrimExpr]) -> PrimExpr:
        number, extent, by = numbers
        back = tirx.Select(by > 0, as_expr(0), as_expr(1)) if isinstance(step, Element) else int(step < 0)
        located = tirx.Select(number < 0, number + extent, number)
        return tirx.min(tirx.max(located, as_expr(0) - back), extent - back)

    return Element(_compute(call, [bound, dim, step], (), clip))


def _compute(
    call: OpCall,
    bounds: Sequence[Bound],
    shape: tuple[int, ...],
    function: Callable[[Sequence[PrimExpr]], PrimExpr],
) -> Value:
    """Emit a kernel of one element, a function of numbers that values decide, sizes and constants."""
    tensors = [bound.tensor for bound in bounds if isinstance(bound, Element)]
    sizes = relax.ShapeExpr([bound for bound in bounds if not isinstance(bound, Element)])

    def compute(*operands: Any) -> Tensor:
        *read, extents = operands
        elements = iter([tensor(*(0 for _ in tensor.shape)).astype("int64") for tensor in read])
        known = map(as_expr, extents)
        numbers = [next(elements if isinstance(bound, Element) else known) for bound in bounds]
        return te.compute(shape, lambda *_at: function(numbers))

    return call.emit(call.te(compute, *tensors, sizes))


def take_slices(call: OpCall, data: Value, slices: Sequence[AxisSlice]) -> Value:
    """Return the elements that slices of all axes leave."""
    tensors, index_of = _operands(slices)

    def compute(x: Tensor, *rest: Any) -> Tensor:
        *numbers, sizes, lengths = rest

        def element(*at: Index) -> PrimExpr:
            return x(*index_of([number() for number in numbers], sizes, at))

        return te.compute(lengths, element)

    sizes, lengths = _shapes(slices)
    has_gaps = any(not isinstance(axis.start, int) for axis in slices[1:])  # else it is a view
    is_copied = has_gaps or slices[-1].step != 1
    attrs: dict[str, object] = {"op_pattern": INJECTIVE} if is_copied else {}
    if has_gaps and all(axis.step == 1 for axis in slices):
        attrs[slicing.COPIES_COLUMNS] = True
    return call.te(compute, data, *tensors, sizes, lengths, primfunc_attrs=attrs)


def take_window(call: OpCall, data: Value, begin: Value, lengths: Sequence[Extent]) -> Value:
    """Return elements of the first axes from the positions of a vector on; -1 of them are all."""
    slices = [AxisSlice(0, dim, 1) for dim in shape_of(data)]
    for axis, (start, length) in enumerate(zip(_elements(call, begin), lengths, strict=True)):
        if not isinstance(length, int) or length >= 0:
            slices[axis] = AxisSlice(start, length, 1)
    return take_slices(call, data, slices)


def set_slices(call: OpCall, data: Value, values: Value, slices: Sequence[AxisSlice]) -> Value:
    """Replace the elements of slices: the copy of all the data is left out where it may be changed."""
    for size, axis in zip(shape_of(values), slices, strict=True):
        if not same_size(size, axis.length):
            call.require(as_expr(size) == axis.length, "the values have not the shape of the slice")
    starts = [axis.start for axis in slices if not isinstance(axis.start, Element)]
    is_region = len(starts) == len(slices) and all(axis.step == 1 for axis in slices)
    if is_region:
        return slicing.set_region(call, data, values, starts, [axis.length for axis in slices])
    tensors, index_of = _operands(slices)

    def compute(x: Tensor, new: Tensor, *rest: Any) -> Tensor:
        *numbers, sizes = rest

        def loops(old: Buffer, source: Buffer, *others: Buffer) -> None:
            *read, result = others
            with grid(old.shape) as at:
                T.buffer_store(result, old[tuple(at)], at)
            known = [buffer[()] for buffer in read]
            with grid(source.shape) as at:
                T.buffer_store(result, source[tuple(at)], index_of(known, sizes, at))

        return fill_by_loops(loops, (x.shape, x.dtype), x, new, *numbers)

    attrs = {"op_pattern": OPAQUE, COPIES_FIRST: 1, slicing.ASSIGNS: 1}
    return call.te(compute, data, values, *tensors, _shapes(slices)[0], primfunc_attrs=attrs)


def _operands(
    slices: Sequence[AxisSlice],
) -> tuple[list[Value], Callable[[Sequence[PrimExpr], Sequence[PrimExpr], Sequence[Index]], list[Index]]]:
    """Return the tensors of numbers, each once, and what makes indices of their elements and the sizes."""
    tensors: list[Value] = []

    def place(bound: Bound) -> int | None:
        """Return the number of a bound's tensor; None where it is known without."""
        if not isinstance(bound, Element):
            return None
        number = next((k for k, other in enumerate(tensors) if other.same_as(bound.tensor)), len(tensors))
        if number == len(tensors):
            tensors.append(bound.tensor)
        return number

    places = [(place(axis.start), place(axis.step)) for axis in slices]

    def index_of(numbers: Sequence[PrimExpr], sizes: Sequence[PrimExpr], at: Sequence[Index]) -> list[Index]:
        return [
            (sizes[k] if start is None else numbers[start])
            + i * (axis.step if step is None else numbers[step])
            for k, (axis, (start, step), i) in enumerate(zip(slices, places, at, strict=True))
        ]

    return tensors, index_of


def _shapes(slices: Sequence[AxisSlice]) -> tuple[Value, Value]:
    """Return the starts that are sizes, with 0 for the others, and the lengths."""
    starts = [0 if isinstance(axis.start, Element) else axis.start for axis in slices]
    return relax.ShapeExpr(starts), relax.ShapeExpr([axis.length for axis in slices])
