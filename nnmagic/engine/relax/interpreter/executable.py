"""Run programs with closures, data types, match or references.

Kernels are machine code; the interpreter runs the control flow between them on an explicit stack. So neither
Python's stack nor C's limits recursion, and a tail call takes no stack at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnmagic.diagnostics import append_location
from nnmagic.engine.arguments import Parameter, convert_argument
from nnmagic.engine.relax.artifact import Artifact
from nnmagic.engine.relax.interpreter.instructions import (
    Apply,
    Branch,
    Closure,
    Code,
    FunctionCode,
    Select,
    Slots,
    Step,
)
from nnmagic.engine.relax.runtime.tensors import as_array, as_tensor, plain_array
from nnmagic.engine.relax.runtime.thread_pool import on_deep_stack, run_on_pool
from nnmagic.engine.relax.runtime.vm_executable import CompiledProgram, MachineExecutable, reason_of
from nnmagic.relay.expr import Constructor
from nnmagic.relay.values import AdtValue

#: Calls and branches inside one another that are still to be returned to: a frame takes about 0.5 kB.
MAX_DEPTH = 1_000_000


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
    slots = _frame(function, (), args, kernels)
    code, pc = function.body, 0
    return_stack: list[tuple[Code, int, Slots, int]] = []  # where to go on, and where the value belongs
    while True:
        if pc == len(code.instructions):
            value = slots[code.result]
            if not return_stack:
                return value
            code, pc, slots, target = return_stack.pop()
            slots[target] = value
            continue
        instruction = code.instructions[pc]
        pc += 1
        if isinstance(instruction, Step):
            instruction.run(slots)
            continue
        goal, goal_slots = _jump_target(instruction, slots, kernels)
        if goal is None:
            slots[instruction.target] = goal_slots
            continue
        if not instruction.is_tail:
            if len(return_stack) >= MAX_DEPTH:
                raise RecursionError(f"the recursion is deeper than {MAX_DEPTH} calls and branches")
            return_stack.append((code, pc, slots, instruction.target))
        code, pc, slots = goal, 0, goal_slots


def _jump_target(
    instruction: Branch | Select | Apply, slots: Slots, kernels: Sequence[Callable[..., Any]]
) -> tuple[Code | None, Any]:
    """Return the code to continue with and its frame; for a constructor, None and its value."""
    match instruction:
        case Branch(cond=cond, then=then, other=other):
            return (then if plain_array(slots[cond]).item() else other), slots
        case Select(data=data, arms=arms):
            value = slots[data]
            for takes, code in arms:
                if takes(value, slots):
                    return code, slots
            raise _failure(instruction, value)
        case Apply(callee=callee, args=args):
            values = [slots[arg] for arg in args]
            if isinstance(callee, FunctionCode):
                return callee.body, _frame(callee, (), values, kernels)
            function = slots[callee]
            if isinstance(function, Constructor):
                return None, AdtValue(function.name, tuple(values))
            assert isinstance(function, Closure)
            return function.code.body, _frame(function.code, function.captured, values, kernels)


def _failure(instruction: Select, value: Any) -> Exception:
    """Return the exception for a value that no arm takes."""
    if instruction.assertion is not None:
        message = instruction.assertion or "the assertion does not hold"
        return AssertionError(append_location(message, instruction.span))
    what = value.constructor if isinstance(value, AdtValue) else "this value"
    where = "" if instruction.span is None else f" at {instruction.span}"
    return RuntimeError(f"no arm of the match{where} takes {what}")


def _frame(
    function: FunctionCode,
    captured: Sequence[Any],
    args: Sequence[Any],
    kernels: Sequence[Callable[..., Any]],
) -> Slots:
    slots: Slots = [None] * function.size
    slots[0] = kernels
    for slot, value in zip(function.captures, captured, strict=True):
        slots[slot] = value
    for slot, value in zip(function.params, args, strict=True):
        slots[slot] = value
    return slots


def _kernel(
    run: Callable[..., Any], function: str, deep: bool, assertions: Sequence[str]
) -> Callable[[Sequence[Any]], Any]:
    """Wrap a kernel to raise ValueError or RecursionError with the machine's message."""

    def call(tensors: Sequence[Any]) -> Any:
        try:
            return on_deep_stack(run, *tensors) if deep else run(*tensors)
        except (RuntimeError, AssertionError, ValueError) as error:
            raise reason_of(error, function, assertions) from error

    return call


def _own_array(tensor: Any) -> np.ndarray:
    """Return a copy: the tensor may be an argument, a constant, or occur twice in the result."""
    return np.array(as_array(tensor))


def _map_leaves(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """Apply ``leaf`` to each array or tensor of a value, without recursion because lists nest deep."""
    made: list[Any] = []
    work: list[tuple[Any, bool]] = [(value, False)]
    while work:
        item, entered = work.pop()
        if not isinstance(item, tuple | AdtValue):
            made.append(leaf(item))
            continue
        parts = item if isinstance(item, tuple) else item.fields
        if not entered:
            work.append((item, True))
            work.extend((part, False) for part in reversed(parts))
            continue
        fields = tuple(made[len(made) - len(parts) :])
        del made[len(made) - len(parts) :]
        made.append(fields if isinstance(item, tuple) else AdtValue(item.constructor, fields))
    return made[0]
