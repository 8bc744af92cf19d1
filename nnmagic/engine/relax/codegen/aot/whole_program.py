"""Define an AOT program as a whole: its functions, constants, and what its artifact says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from tvm import ir

from nnmagic.engine.relax.artifact import VALUE, Json
from nnmagic.engine.relax.codegen.aot.program import (
    STATE_WORDS,
    Array,
    CloseCells,
    Exit,
    FunctionCall,
    KernelCall,
    MakeCell,
    NativeFunction,
)
from nnmagic.engine.relax.codegen.aot.size_text import size_to_json
from nnmagic.engine.relax.codegen.aot.step_operands import written_storage
from nnmagic.engine.relax.tir.types import PrimFunc
from nnmagic.engine.relax.tir.types import Var as TirVar


@dataclass(slots=True)
class AotProgram:
    """An AOT program: its entry, the functions that this calls, kernels, constants and possible failures.

    unread: the parameters whose elements it does not read. lengths: the parameters, integers, that the last
    arrays of the entry have as their lengths; a call gives no such array. serial_loops: those that are marked
    as parallel and are not, with the reasons.
    """

    entry: NativeFunction
    functions: list[NativeFunction] = field(default_factory=list)
    constants: list[np.ndarray] = field(default_factory=list)
    kernels: dict[ir.GlobalVar, PrimFunc] = field(default_factory=dict)
    failures: list[Json] = field(default_factory=list)
    records: int = 0
    unread: list[int] = field(default_factory=list)
    lengths: Sequence[int] = ()
    clocked: list[KernelCall] | None = None
    serial_loops: list[tuple[str, str]] = field(default_factory=list)

    @property
    def parameters(self) -> list[Array]:
        """The dtypes and shapes of the arrays that a call gives."""
        return self.entry.arrays[: len(self.entry.arrays) - len(self.lengths)]

    @property
    def results(self) -> list[Array]:
        """The dtypes and shapes of the entry's results."""
        return self.entry.results

    def separate_functions(self) -> list[NativeFunction]:
        """Return the functions of the machine code: shared ones, kernels and parallel loops.

        The others are a part of their only caller.
        """
        shared = set(self.shared_functions())
        return [
            function
            for function in self.functions
            if function in shared or function.is_kernel or function.parallel is not None
        ]

    def shared_functions(self) -> list[NativeFunction]:
        """Return the functions that are called from several places, or that call themselves."""
        calls = Counter(
            step.callee
            for function in (self.entry, *self.functions)
            for step in function.steps()
            if isinstance(step, FunctionCall)
        )
        return [
            function
            for function in self.functions
            if function.recursive or function.recursion is not None or calls[function] > 1
        ]

    @property
    def is_parallel(self) -> bool:
        """Return whether threads share the rounds of a loop."""
        return any(function.parallel is not None for function in self.functions)

    @property
    def has_cells(self) -> bool:
        """Return whether it makes values of data types."""
        functions = (self.entry, *self.functions)
        return any(isinstance(step, MakeCell | CloseCells) for each in functions for step in each.steps())

    @property
    def uses_heap(self) -> bool:
        """Return whether it allocates memory while it runs, but for the frames of recursion."""
        functions = (self.entry, *self.functions)
        if self.has_cells or any(function.recursion is not None for function in functions):
            return True
        return any(
            storage.on_heap
            for function in functions
            for step in function.steps()
            for storage in written_storage(step)
        )

    @property
    def has_control(self) -> bool:
        """Return whether there is more than calls of kernels."""
        return bool(self.functions) or not all(
            isinstance(step, KernelCall | Exit) for step in self.entry.steps()
        )

    def facts(self) -> Json:
        """Return what a call needs to know, as JSON."""
        dims = self.entry.dims
        in_place = (
            {"in place": [list(pair) for pair in self.entry.changed.items()]} if self.entry.changed else {}
        )
        return {
            **in_place,
            **({"unread": self.unread} if self.unread else {}),
            **({"left": self._left_facts()} if self.entry.left else {}),
            "dims": [self.source_of(dim) for dim in dims],
            "parameters": [_array_facts(array, dims) for array in self.parameters],
            "results": [_array_facts(array, dims) for array in self.results],
            "dtypes": self.dtypes(),
            "workspace": size_to_json(self.entry.workspace, dims),
            "state": self.state_words(),
            "failures": self.failures,
        }

    def _left_facts(self) -> Json:
        """Return the number of the result that holds addresses, and what the entry leaves at these."""
        arrays = self.entry.all_results
        facts = [[number, arrays[number].dtype, len(arrays[number].shape)] for number in self.entry.left]
        return [len(arrays) - len(facts), facts]

    def source_of(self, dim: TirVar) -> list[int]:
        """Return the parameter whose axis has a dimension as its length, and the axis.

        The axis is VALUE if the parameter itself is the dimension.
        """
        number, axis = next(
            (number, axis)
            for number, array in enumerate(self.entry.arrays)
            for axis, size in enumerate(array.shape)
            if size is dim or (not isinstance(size, int) and size.same_as(dim))
        )
        count = len(self.parameters)
        return [number, axis] if number < count else [self.lengths[number - count], VALUE]

    def state_words(self) -> int:
        """Return the number of 8-byte words of a call's state: none if nothing can fail but the memory."""
        return STATE_WORDS + self.records if self.has_control or self.clocked is not None else 0

    def dtypes(self) -> list[str]:
        """Return the dtypes of the parameters and results, each once."""
        return list(dict.fromkeys(array.dtype for array in (*self.parameters, *self.results)))


def _array_facts(array: Array, dims: Sequence[TirVar]) -> Json:
    return [array.dtype, [size_to_json(dim, dims) for dim in array.shape]]


def with_clock(program: AotProgram) -> AotProgram:
    """Return a program with one more result, the last one: the times of its kernel calls, ``clocked``.

    A row holds nanoseconds, the number of calls, and the sizes that the last call took. The last row has
    the time of nothing, which is what reading the clock takes.
    """
    calls = [
        step
        for function in (program.entry, *program.functions)
        for step in function.steps()
        if isinstance(step, KernelCall) and step.joined is None
    ]
    sizes = max((len(call.sizes) for call in calls), default=0)
    results = [*program.results, Array("int64", (len(calls) + 1, 2 + sizes))]
    return replace(program, entry=replace(program.entry, results=results), clocked=calls)
