"""Run programs with closures, data types, match or references.

Kernels are machine code; the interpreter runs the control flow between them on an explicit stack. So neither
Python's stack nor C's limits recursion, and a tail call takes no stack at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnmagic.engine.arguments import Parameter, convert_argument
from nnmagic.engine.relax.artifact import Artifact
from nnmagic.engine.relax.interpreter.instructions import Block, Frame, FunctionCode
from nnmagic.engine.relax.runtime.tensors import as_array, as_tensor
from nnmagic.engine.relax.runtime.thread_pool import on_deep_stack, run_on_pool
from nnmagic.engine.relax.runtime.vm_executable import CompiledProgram, MachineExecutable, reason_of
from nnmagic.relay.values import AdtValue


class InterpretedProgram(MachineExecutable[list[Callable[..., Any]]]):
    """A program that the interpreter runs on NumPy arrays, tuples and AdtValue; several threads may call it.

    Raises TypeError or ValueError for an argument that does not fit, RecursionError for recursion that is too
    deep, AssertionError with message and location for a failed assertion, RuntimeError if no arm of a match
    takes a value.
    """

    def __init__(
        self,
        entry: FunctionCode,
        parameters: Sequence[Parameter],
        kernels: Sequence[tuple[str, bool]],
        artifact: Artifact,
        compiled: Callable[[], CompiledProgram],
        assertions: Sequence[str] = (),
    ) -> None:
        """Load the kernels.

        Args:
            entry: the code of the entry.
            parameters: its parameters, to check arguments.
            kernels: by number, each kernel's name in the machine code and whether it may recurse.
            artifact: an INTERPRETER artifact.
            compiled: returns the stages, compiling if it must.
            assertions: the texts of the assertions in kernels, by number.

        """
        self._assertions = assertions
        super().__init__(artifact, compiled)
        self._entry = entry
        self._parameters = parameters
        self._kernels = kernels
        self._interpret = (
            run_on_pool(interpret, deep=any(deep for _, deep in kernels)) if self._parallel else interpret
        )

    def __call__(self, arrays: Sequence[Any]) -> Any:
        """Return the result for these arguments."""
        dims: dict[str, int] = {}
        values = [
            _map_leaves(convert_argument(parameter, value, dims), as_tensor)
            for parameter, value in zip(self._parameters, arrays, strict=True)
        ]
        try:
            kernels = self._idle.pop()
        except IndexError:
            kernels = self._start()
        result = self._interpret(self._entry, values, kernels)
        self._idle.append(kernels)  # not where it raised: such a machine is not used again
        return _map_leaves(result, _own_array)

    def _start(self, instrument: Callable[..., Any] | None = None) -> list[Callable[..., Any]]:
        """Return the kernels of a new virtual machine."""
        machine = self._program.start(instrument)
        deep_here = self._parallel  # as the whole run is, then
        return [
            _kernel(machine[name], self._entry.name, deep and not deep_here, self._assertions)
            for name, deep in self._kernels
        ]


def interpret(function: FunctionCode, args: Sequence[Any], kernels: Sequence[Callable[..., Any]]) -> Any:
    """Run a function and return its value."""
    stack: list[tuple[Block, Frame]] = [(_end, ())]  # where to go on, and what is live there
    block, frame = function.start, tuple(args)
    while block is not _end:
        block, frame = block(kernels, stack, frame)
    return frame[0]


def _end(_kernels: Sequence[Callable[..., Any]], _stack: list[tuple[Block, Frame]], _frame: Frame) -> None:
    """Stand for the return from the entry."""


def _kernel(
    run: Callable[..., Any], function: str, deep: bool, assertions: Sequence[str]
) -> Callable[..., Any]:
    """Wrap a kernel to raise ValueError or RecursionError with the machine's message."""

    def call(*tensors: Any) -> Any:
        try:
            return on_deep_stack(run, *tensors) if deep else run(*tensors)
        except (RuntimeError, AssertionError, ValueError) as error:
            raise reason_of(error, function, assertions) from error

    return call


def _own_array(tensor: Any) -> np.ndarray:
    """Return a copy: the tensor may be an argument, a constant, or occur twice in the result."""
    return np.array(as_array(tensor))


def _map_leaves(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """Apply ``leaf`` to each array or tensor of a value, and make lists of AdtValue or the reverse.

    Without recursion because lists nest deep.
    """
    made: list[Any] = []
    work: list[tuple[Any, bool]] = [(value, False)]
    while work:
        item, entered = work.pop()
        if not isinstance(item, tuple | list | AdtValue):
            made.append(leaf(item))
            continue
        parts = item.fields if isinstance(item, AdtValue) else item[1:] if isinstance(item, list) else item
        if not entered:
            work.append((item, True))
            work.extend((part, False) for part in reversed(parts))
            continue
        fields = tuple(made[len(made) - len(parts) :])
        del made[len(made) - len(parts) :]
        match item:
            case AdtValue(constructor=name):
                made.append([name, *fields])
            case list():
                made.append(AdtValue(item[0], fields))
            case _:
                made.append(fields)
    return made[0]
