"""Run machine code that takes and returns values of data types as words: see `analysis.cell_layout`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from nnmagic.engine.arguments import Parameter
from nnmagic.engine.relax.analysis import cell_layout as cells
from nnmagic.engine.relax.analysis.data_types import CellSignature
from nnmagic.engine.relax.runtime.aot_executable import AotExecutable
from nnmagic.engine.relax.runtime.compiled_program import CheckedExecutable
from nnmagic.relay.structure.tuple_trees import leaf_types, rebuild
from nnmagic.relay.types import NUMPY_DTYPES, TensorType, TupleType, Type, TypeCall
from nnmagic.relay.values import AdtValue


class CellExecutable(CheckedExecutable):
    """A native program whose entry has data types in its signature; several threads may call it.

    A call takes AdtValue for these, and returns such values. Raises TypeError or ValueError for an argument
    that does not fit, and what the program raises.
    """

    def __init__(
        self, program: AotExecutable, signature: CellSignature, parameters: Sequence[Parameter]
    ) -> None:
        """Make an executable of a program that has words for values of data types.

        Args:
            program: the program.
            signature: the types of parameters and results.
            parameters: to check arguments by.

        """
        self.program = program
        self.artifact, self.compiled = program.artifact, program.compiled
        self._signature, self._parameters = signature, parameters
        self._plans = _Plans(signature.layouts)

    def convert(self, arrays: Sequence[object]) -> list[object]:
        """Return the arguments, checked, with words for values of data types; a call changes the words."""
        return [
            self._with_words(value, parameter.type)
            for value, parameter in zip(super().convert(arrays), self._parameters, strict=True)
        ]

    def _with_words(self, value: Any, type_: Type) -> object:
        if isinstance(type_, TypeCall):
            return _write_words(value, self._plans.of(type_))
        if isinstance(type_, TupleType) and cells.has_data_types(type_):
            return tuple(map(self._with_words, value, type_.fields))
        return value

    def _run(self, values: Sequence[object]) -> Any:
        made, type_ = self.program(values), self._signature.result
        if not cells.has_data_types(type_):
            return made
        words, *others = made
        kinds = leaf_types(type_)
        plans = [self._plans.of(kind) for kind in kinds if isinstance(kind, TypeCall)]
        closed = iter(_read_words(words, plans))
        rest = iter(others)
        return rebuild(type_, (next(closed if isinstance(kind, TypeCall) else rest) for kind in kinds))


_Part: TypeAlias = "tuple[int, _Plan | None, str, tuple[int, ...]]"


class _Plan:
    """What the cells of a data type hold: of each constructor the layout, and its parts.

    A part is where it begins, its own plan if it is of a data type, its dtype, and its shape, in which the
    words of sizes are negative.
    """

    def __init__(self) -> None:
        self.constructors: list[tuple[cells.CellLayout, list[_Part]]] = []
        self.numbers: dict[str, int] = {}


class _Plans:
    """The plans of data types."""

    def __init__(self, layouts: cells.CellLayouts) -> None:
        self._layouts = layouts
        self._known: dict[TypeCall, _Plan] = {}

    def of(self, type_: TypeCall) -> _Plan:
        """Return the plan of a data type."""
        waiting = [type_] if type_ not in self._known else []
        self._known.setdefault(type_, _Plan())
        while waiting:
            self._fill(waiting.pop(), waiting)
        return self._known[type_]

    def _fill(self, type_: TypeCall, waiting: list[TypeCall]) -> None:
        plan = self._known[type_]
        for layout in self._layouts.of(type_):
            field_plans: list[_Part] = []
            for offset, sizes, leaf in zip(layout.offsets, layout.sizes, layout.parts, strict=True):
                if isinstance(leaf, TensorType):
                    words = iter(sizes)
                    shape = (dim if isinstance(dim, int) else -next(words) for dim in leaf.shape)
                    field_plans.append((offset, None, leaf.dtype, tuple(shape)))
                    continue
                if leaf not in self._known:
                    self._known[leaf] = _Plan()
                    waiting.append(leaf)
                field_plans.append((offset, self._known[leaf], "", ()))
            plan.numbers[layout.name] = len(plan.constructors)
            plan.constructors.append((layout, field_plans))


def _write_words(value: AdtValue, plan: _Plan) -> np.ndarray:
    """Return words for a value: the first refers to it. A value that is in several others is shared."""
    size, heads, places = 1, list[tuple[int, int]](), list[tuple[int, int]]()
    tensors: dict[str, tuple[list[int], list[Any]]] = {}
    arrays: list[tuple[int, np.ndarray]] = []
    known: dict[int, int] = {}
    work: list[tuple[int, AdtValue, _Plan]] = [(0, value, plan)]
    while work:
        at, item, plan = work.pop()
        layout, field_plans = plan.constructors[plan.numbers[item.constructor]]
        if not layout.fields:
            heads.append((at, layout.tag))
            continue
        cell = known.get(id(item))
        places.append((at, cell or size))
        if cell is not None:
            continue
        cell = known[id(item)] = size
        heads.append((cell, layout.header))
        size += layout.length
        fields = item.fields if layout.is_flat else _flat(item.fields)
        for (offset, inner, dtype, shape), leaf in zip(
            field_plans, cast("Iterator[Any]", fields), strict=True
        ):
            if inner is not None:
                work.append((cell + offset, leaf, inner))
            elif any(dim < 0 for dim in shape):
                words_of_part = 1 + -(-leaf.nbytes // 8)
                places.append((cell + offset, size))
                heads.append((size, words_of_part << cells.LENGTH_SHIFT))
                heads += (
                    (cell - dim, length) for dim, length in zip(shape, leaf.shape, strict=True) if dim < 0
                )
                arrays.append((size + 1, leaf))
                size += words_of_part
            elif shape:
                arrays.append((cell + offset, leaf))
            else:
                at_words, numbers = tensors.setdefault(dtype, ([], []))
                at_words.append(cell + offset)
                numbers.append(leaf[()])
    words = np.zeros(size, np.int64)
    _put(words, heads)
    _put(words, places, base=words.ctypes.data)
    for dtype, (at_words, numbers) in tensors.items():
        kind = NUMPY_DTYPES[dtype]
        words.view(kind)[np.array(at_words, np.int64) * (8 // kind.itemsize)] = np.array(numbers, kind)
    for at, array in arrays:
        data = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
        words.view(np.uint8)[8 * at : 8 * at + data.nbytes] = data.reshape(-1).view(np.uint8)
    return words


def _put(words: np.ndarray, pairs: Sequence[tuple[int, int]], base: int | None = None) -> None:
    """Write numbers at places; with ``base`` the numbers are words, of which the addresses are written."""
    if pairs:
        places, numbers = np.array(pairs, np.int64).T
        words[places] = numbers if base is None else base + 8 * numbers


def _flat(fields: Sequence[object]) -> Iterator[Any]:
    """Yield the parts of a value's fields, tuples flattened."""
    for field in fields:
        if isinstance(field, tuple):
            yield from _flat(field)
        else:
            yield field


def _read_words(words: np.ndarray, plans: Sequence[_Plan]) -> list[AdtValue]:
    """Return the values to which the first words refer; ``plans``: those of their types.

    A cell comes after the first one that refers to it. So each value is made before its fields are.
    """
    numbers: list[int] = words.tolist()
    views = {dtype: words.view(kind) for dtype, kind in NUMPY_DTYPES.items()}
    made: dict[int, tuple[AdtValue, cells.CellLayout, list[_Part]]] = {}
    tags: dict[tuple[_Plan, int], AdtValue] = {}

    def value(reference: int, plan: _Plan) -> AdtValue:
        if reference < cells.LEAST_ADDRESS:
            found = tags.get((plan, reference))
            if found is None:
                found = tags[plan, reference] = AdtValue(plan.constructors[reference][0].name)
            return found
        at = (reference - cells.LEAST_ADDRESS) >> 3
        known = made.get(at)
        if known is None:
            layout, field_plans = plan.constructors[numbers[at] & _TAG]
            known = made[at] = AdtValue(layout.name), layout, field_plans
        return known[0]

    roots = [value(numbers[number], plan) for number, plan in enumerate(plans)]
    at = len(plans)
    while at < len(numbers):
        if at not in made:  # the elements of an array
            at += numbers[at] >> cells.LENGTH_SHIFT
            continue
        item, layout, field_plans = made[at]
        fields = tuple(
            value(numbers[at + offset], plan)
            if plan is not None
            else _read(views[dtype], *_place(numbers, at, offset, shape))
            for offset, plan, dtype, shape in field_plans
        )
        if not layout.is_flat:
            rest = iter(fields)
            fields = tuple(rebuild(field, rest) for field in layout.fields)
        object.__setattr__(item, "fields", fields)  # no one has seen the value yet
        at += layout.length
    return roots


#: The bits of a cell's first word that hold the tag.
_TAG = (1 << cells.POINTERS_SHIFT) - 1


def _place(
    numbers: Sequence[int], at: int, offset: int, shape: tuple[int, ...]
) -> tuple[int, tuple[int, ...]]:
    """Return the word where a tensor in a cell begins, and its shape."""
    if not any(dim < 0 for dim in shape):
        return at + offset, shape
    apart = (numbers[at + offset] - cells.LEAST_ADDRESS) >> 3
    return apart + 1, tuple(numbers[at - dim] if dim < 0 else dim for dim in shape)


def _read(view: np.ndarray, word: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return a copy of the tensor that begins at a word."""
    first = word * (8 // view.itemsize)
    if not shape:
        return np.array(view[first])
    copy: np.ndarray = view[first : first + math.prod(shape)].reshape(shape).copy()
    return copy
