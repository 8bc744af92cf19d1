"""A compiled program with functions as values, data types, match or references. Knows TVM's machine, NumPy.

Kernels are machine code; the control flow between them is carried out here, on a stack of its own: neither
Python's nor C's limits how deep a program calls itself, and a call in the last place takes no stack at all.
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
from nnmagic.engine.relax.runtime.loader import VmProgram
from nnmagic.engine.relax.runtime.tensors import as_array, as_tensor, plain_array
from nnmagic.engine.relax.runtime.thread_pool import run_on_pool
from nnmagic.engine.relax.runtime.vm_executable import CompiledProgram, on_deep_stack, reason_of
from nnmagic.relay.expr import Constructor
from nnmagic.relay.values import AdtValue

#: Calls and branches inside one another that are still to be gone back to: a frame takes about 0.5 kB.
MAX_DEPTH = 1_000_000


class InterpretedProgram:
    """An executable: takes and gives NumPy arrays, tuples and AdtValue, from several threads at once.

    Raises TypeError or ValueError for an argument that does not fit, RecursionError for a program that calls
    itself too deep, AssertionError with its message and place for an assertion that does not hold,
    RuntimeError where no arm of another match takes a value.
    """

    def __init__(
        self,
        entry: FunctionCode,
        parameters: Sequence[Parameter],
        kernels: Sequence[tuple[str, bool]],
        artifact: Artifact,
        compiled: Callable[[], CompiledProgram],
    ) -> None:
        """``kernels``: by number, their names in the machine code and whether they may recurse;
        ``compiled``: gives the stages, compiling where it must.
        """
        self._entry = entry
        self._parameters = parameters
        self._kernels = kernels
        self.artifact = artifact
        self.compiled = compiled
        self._machines = VmProgram(artifact.bytecode, artifact.code)
        self._parallel = bool(artifact.facts["parallel"])
        self._evaluate = (
            run_on_pool(interpret, deep=any(deep for _, deep in kernels)) if self._parallel else interpret
        )
        # A virtual machine is not thread-safe: a call takes the kernels of one that is idle.
        self._idle: list[list[Callable[..., Any]]] = []

    def __call__(self, arrays: Sequence[Any]) -> Any:
        """The result for these arguments."""
        dims: dict[str, int] = {}
        values = [
            _converted(convert_argument(parameter, value, dims), as_tensor)
            for parameter, value in zip(self._parameters, arrays, strict=True)
        ]
        try:
            kernels = self._idle.pop()
        except IndexError:
            kernels = self._start()
        result = self._evaluate(self._entry, values, kernels)
        self._idle.append(kernels)  # not where it raised: such a machine is not used again
        return _converted(result, _own_array)

    def watched(self, arrays: Sequence[Any], watch: Callable[..., Any]) -> Any:
        """As a call, with ``watch`` called before and after each step of the virtual machine."""
        idle, self._idle = self._idle, [self._start(watch)]
        try:
            return self(arrays)
        finally:
            self._idle = idle

    def _start(self, watch: Callable[..., Any] | None = None) -> list[Callable[..., Any]]:
        """The kernels of a new virtual machine."""
        machine = self._machines.start(watch)
        deep_here = self._parallel  # as the whole run is, then
        return [
            _kernel(machine[name], self._entry.name, deep and not deep_here) for name, deep in self._kernels
        ]

    def stage(self, name: str) -> str:
        """The text of a stage: ``relax``, ``tir``, ``llvm`` or ``asm``. Raises KeyError for another name."""
        return self.compiled().stage(name)


def interpret(function: FunctionCode, args: Sequence[Any], kernels: Sequence[Callable[..., Any]]) -> Any:
    """What a function comes to."""
    slots = _frame(function, (), args, kernels)
    code, place = function.body, 0
    back: list[tuple[Code, int, Slots, int]] = []  # where to go on, and where the value belongs
    while True:
        if place == len(code.instructions):
            value = slots[code.result]
            if not back:
                return value
            code, place, slots, target = back.pop()
            slots[target] = value
            continue
        instruction = code.instructions[place]
        place += 1
        if isinstance(instruction, Step):
            instruction.run(slots)
            continue
        goal, goal_slots = _goal(instruction, slots, kernels)
        if goal is None:
            slots[instruction.target] = goal_slots
            continue
        if not instruction.last:
            if len(back) >= MAX_DEPTH:
                raise RecursionError(f"the recursion is deeper than {MAX_DEPTH} calls and branches")
            back.append((code, place, slots, instruction.target))
        code, place, slots = goal, 0, goal_slots


def _goal(
    instruction: Branch | Select | Apply, slots: Slots, kernels: Sequence[Callable[..., Any]]
) -> tuple[Code | None, Any]:
    """The code to go on with and its frame; for a constructor, which has no code, None and its value."""
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
    """What a value that no arm takes raises."""
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


def _kernel(run: Callable[..., Any], function: str, deep: bool) -> Callable[[Sequence[Any]], Any]:
    """A function of tensors that raises ValueError or RecursionError with what the machine says."""

    def call(tensors: Sequence[Any]) -> Any:
        try:
            return on_deep_stack(run, *tensors) if deep else run(*tensors)
        except (RuntimeError, AssertionError, ValueError) as error:
            raise reason_of(error, function) from error

    return call


def _own_array(tensor: Any) -> np.ndarray:
    """A copy: the tensor may be an argument's, a constant's or twice in the result."""
    return np.array(as_array(tensor))


def _converted(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """The value with ``leaf`` of each array or tensor; without recursion, because lists nest deep."""
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
