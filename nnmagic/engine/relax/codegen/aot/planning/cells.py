"""Plan the operators of cells, which `analysis.data_types` makes of constructors and matches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import relax, tirx

from nnmagic.engine.relax.analysis.cell_operators import CELL_OPERATORS, CLOSE, FIELD, MAKE, OPEN, TAG
from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.scalar_code import load_element
from nnmagic.engine.relax.tir.types import Extent, RelaxExpr, Var


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """The steps of a call, its value, the names of its sizes, and its array if it has such sizes."""

    steps: Sequence[aot.Step]
    value: aot.Value
    sizes: Sequence[Var] = ()
    array: aot.Array | None = None


def is_cell_call(call: RelaxExpr) -> bool:
    """Return whether a call is one of an operator of cells."""
    return isinstance(call.op, relax.ExternFunc) and str(call.op.global_symbol) in CELL_OPERATORS


def plan_cell(
    call: RelaxExpr,
    values: Sequence[aot.Value],
    arrays: Sequence[aot.Array],
    place: Callable[[aot.Array], aot.Register | aot.Storage],
) -> PlannedCell:
    """Plan a call of an operator of cells.

    Args:
        call: the call.
        values: its operands.
        arrays: their dtypes and shapes.
        place: returns a register or storage for an array.

    """
    name = str(call.op.global_symbol)
    numbers = [int(arg.value) for arg in call.args if isinstance(arg, tirx.IntImm)]
    number = aot.Register("int64", name.rpartition(".")[2])
    if name == MAKE:
        return PlannedCell([_plan_cell(number, numbers, values, arrays)], number)
    if name == CLOSE:
        words, size = aot.Storage("pointer", -1, 0), tirx.Var("words", "int64")
        words.nbytes = size * 8
        close = aot.CloseCells(words, number, tuple(map(_register, values)))
        array = aot.Array("int64", (size,))
        return PlannedCell([close, aot.NameSizes((size,), number)], words, [size], array)
    (value,) = values
    if name == OPEN:
        assert isinstance(value, aot.Storage)
        return PlannedCell([load_element(value, number)], number)
    if name == TAG:
        return PlannedCell([aot.ReadCell(number, _register(value), None)], number)
    assert name == FIELD
    (type_,) = call.ty_args
    if len(numbers) > 1:
        return _plan_open_field(type_, _register(value), numbers)
    array = aot.Array(str(type_.dtype.dtype), tuple(map(aot.static_or_expr, type_.shape.values)))
    target = place(array)
    if isinstance(target, aot.Storage):
        target = aot.Storage("pointer", -1, array.nbytes)
    return PlannedCell([aot.ReadCell(target, _register(value), numbers[0])], target)


def _plan_cell(
    target: aot.Register, numbers: Sequence[int], values: Sequence[aot.Value], arrays: Sequence[aot.Array]
) -> aot.MakeCell:
    """Return the step that makes a cell; the numbers are those that `lowering.cells` writes."""
    header, length, *places = numbers
    fields, apart = list[tuple[int, aot.Value, Extent]](), list[tuple[int, aot.Value, Extent]]()
    sizes: list[tuple[int, Extent]] = []
    at = 0
    for value, array in zip(values, arrays, strict=True):
        offset, count = places[at : at + 2]
        words = places[at + 2 : at + 2 + 2 * count]
        at += 2 + 2 * count
        (apart if words else fields).append((offset, value, array.nbytes))
        sizes += zip(words[1::2], (array.shape[axis] for axis in words[::2]), strict=True)
    return aot.MakeCell(target, header, length, tuple(fields), tuple(apart), tuple(sizes))


def _plan_open_field(
    type_: relax.TensorType, cell: aot.Register | aot.Immediate, numbers: Sequence[int]
) -> PlannedCell:
    """Plan the reading of an array of a size that only a call knows."""
    offset, *axes = numbers
    steps: list[aot.Step] = []
    names: list[Var] = []
    shape: list[Extent] = []
    for number in axes:
        if number <= 0:
            shape.append(-number)
            continue
        size, name = aot.Register("int64", "size"), tirx.Var("size", "int64")
        steps += [aot.ReadCell(size, cell, number), aot.NameSizes((name,), size)]
        names.append(name)
        shape.append(name)
    array = aot.Array(str(type_.dtype.dtype), tuple(shape))
    target = aot.Storage("pointer", -1, array.nbytes)
    steps.append(aot.ReadCell(target, cell, offset, is_apart=True))
    return PlannedCell(steps, target, names, array)


def _register(value: aot.Value) -> aot.Register | aot.Immediate:
    assert isinstance(value, aot.Register | aot.Immediate)
    return value
