"""Run programs with closures, data types, match or references.

Kernels are machine code; the interpreter runs the control flow between them on an explicit stack. So neither
Python's stack nor C's limits recursion, and a tail call takes no stack at all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnmagic.engine.arguments import Parameter, convert_argument
from nnmagic.engine.executable import KernelCode
from nnmagic.engine.relax.analysis.entry_signature import type_of
from nnmagic.engine.relax.analysis.tuple_flattening import leaves, named_leaves
from nnmagic.engine.relax.artifact import AOT, Artifact
from nnmagic.engine.relax.interpreter.instructions import Block, Frame, FunctionCode, Kernels
from nnmagic.engine.relax.runtime.aot_executable import AotExecutable
from nnmagic.engine.relax.runtime.ffi import tvm_ffi
from nnmagic.engine.relax.runtime.loader import load_objects
from nnmagic.engine.relax.runtime.tensors import as_array, as_tensor
from nnmagic.engine.relax.runtime.thread_pool import on_deep_stack, run_on_pool, run_on_worker
from nnmagic.engine.relax.runtime.vm_executable import CompiledProgram, MachineExecutable, reason_of
from nnmagic.relay.expr import Function, Var
from nnmagic.relay.failures import Failure
from nnmagic.relay.types import TupleType
from nnmagic.relay.values import AdtValue


class InterpretedProgram(ABC):
    """A program that the interpreter runs on NumPy arrays, tuples and AdtValue; several threads may call it.

    Raises TypeError or ValueError for an argument that does not fit, RecursionError for recursion that is too
    deep, AssertionError with message and location for a failed assertion, RuntimeError if no arm of a match
    takes a value.
    """

    def __init__(
        self,
        entry: FunctionCode,
        parameters: Sequence[Parameter],
        artifact: Artifact,
        compiled: Callable[[], CompiledProgram],
        run: Callable[..., Any],
    ) -> None:
        """Make a program of an INTERPRETER artifact.

        Args:
            entry: the code of the entry.
            parameters: its parameters, to check arguments.
            artifact: an INTERPRETER artifact.
            compiled: returns the stages, compiling if it must.
            run: does what ``interpret`` does.

        """
        self.artifact = artifact
        self.compiled = compiled
        self._entry = entry
        self._parameters = parameters
        self._interpret = run

    def __call__(self, arrays: Sequence[object]) -> Any:
        """Return the result for these arguments."""
        return self._run(self._convert(arrays))

    def fast_path(self, args: tuple[Any, ...]) -> Any:
        """Return the result for the arguments of a call as they are; None if one does not fit."""
        try:
            values = self._convert(args)
        except (TypeError, ValueError):
            return None
        return self._run(values)

    def stage(self, name: str) -> str:
        """Return the text of a stage: ``relax``, ``tir``, ``llvm`` or ``asm``. Raises KeyError for others."""
        return self.compiled().stage(name)

    def kernels(self) -> Sequence[KernelCode]:
        """Return the functions of the machine code, and what each computes."""
        return self.compiled().kernels()

    def _convert(self, arrays: Sequence[object]) -> Sequence[Any]:
        """Return the interpreter's values for arguments."""
        dims: dict[str, int] = {}
        return [
            _map_leaves(convert_argument(parameter, value, dims), lambda array: array)
            for parameter, value in zip(self._parameters, arrays, strict=True)
        ]

    @abstractmethod
    def _run(self, values: Sequence[object]) -> Any:
        """Return the result for these values."""

    def _run_with(self, kernels: Kernels, values: Sequence[object]) -> Any:
        return _map_leaves(self._interpret(self._entry, values, kernels), np.array)


class NativeInterpretedProgram(InterpretedProgram):
    """An interpreted program of which each kernel is an AOT program."""

    def __init__(
        self,
        entry: FunctionCode,
        parameters: Sequence[Parameter],
        kernels: Sequence[Function],
        artifact: Artifact,
        compiled: Callable[[], CompiledProgram],
        assertions: Sequence[Failure] = (),
    ) -> None:
        """Load the kernels.

        Args:
            entry: the code of the entry.
            parameters: its parameters, to check arguments.
            kernels: the Relay functions of the kernels, by number.
            artifact: an INTERPRETER artifact.
            compiled: returns the stages, compiling if it must.
            assertions: what the assertions in kernels raise, by number.

        """
        super().__init__(entry, parameters, artifact, compiled, interpret)
        library = load_objects(artifact.code)
        self._kernels: list[Callable[..., Any]] = []
        for function, facts in zip(kernels, artifact.facts["programs"], strict=True):
            constants = [artifact.constants[number] for number in facts["constants"]]
            part = Artifact(AOT, facts, (), b"", constants)
            executable = AotExecutable(entry.name, _flat(function), part, compiled, assertions, library)
            self._kernels.append(executable.complete_path())

    def _run(self, values: Sequence[object]) -> Any:
        return self._run_with(self._kernels, values)


class MachineInterpretedProgram(InterpretedProgram, MachineExecutable[Kernels]):
    """An interpreted program of which TVM's virtual machine runs the kernels."""

    def __init__(
        self,
        entry: FunctionCode,
        parameters: Sequence[Parameter],
        kernels: Sequence[tuple[str, bool]],
        artifact: Artifact,
        compiled: Callable[[], CompiledProgram],
        assertions: Sequence[Failure] = (),
    ) -> None:
        """Load the kernels.

        Args:
            entry: the code of the entry.
            parameters: its parameters, to check arguments.
            kernels: by number, each kernel's name in the machine code and whether it may recurse.
            artifact: an INTERPRETER artifact.
            compiled: returns the stages, compiling if it must.
            assertions: what the assertions in kernels raise, by number.

        """
        MachineExecutable.__init__(self, artifact, compiled)
        deep = any(deep for _, deep in kernels)
        run = interpret
        if self._parallel:
            run = run_on_worker(interpret) if deep else run_on_pool(interpret)
        InterpretedProgram.__init__(self, entry, parameters, artifact, compiled, run)
        self._kernels = kernels
        self._assertions = assertions

    def _run(self, values: Sequence[object]) -> Any:
        try:
            kernels = self._idle.pop()
        except IndexError:
            kernels = self._start()
        result = self._run_with(kernels, values)
        self._idle.append(kernels)  # not where it raised: such a machine is not used again
        return result

    def _start(self, instrument: Callable[..., Any] | None = None) -> Kernels:
        """Return the kernels of a new virtual machine."""
        machine = self._program.start(instrument)
        deep_here = self._parallel  # as the whole run is, then
        return [
            _kernel(machine[name], self._entry.name, deep and not deep_here, self._assertions)
            for name, deep in self._kernels
        ]


def interpret(function: FunctionCode, args: Sequence[object], kernels: Kernels) -> Any:
    """Run a function and return its value."""
    stack: list[tuple[Block, Frame]] = [(_end, ())]  # where to go on, and what is live there
    block, frame = function.start, tuple(args)
    while block is not _end:
        block, frame = block(kernels, stack, frame)
    return frame[0]


def _end(_kernels: Kernels, _stack: list[tuple[Block, Frame]], _frame: Frame) -> None:
    """Stand for the return from the entry."""


def _kernel(
    run: Callable[..., Any], function: str, deep: bool, assertions: Sequence[Failure]
) -> Callable[[Sequence[np.ndarray]], Any]:
    """Wrap a kernel of a virtual machine to take and return arrays, and raise what a call raises."""

    def call(arrays: Sequence[np.ndarray]) -> Any:
        tensors = map(as_tensor, arrays)
        try:
            result = on_deep_stack(run, *tensors) if deep else run(*tensors)
        except (RuntimeError, AssertionError, ValueError) as error:
            raise reason_of(error, function, assertions) from error
        return as_array(result) if isinstance(result, tvm_ffi.Tensor) else map(as_array, result)

    return call


def _flat(kernel: Function) -> Function:
    """Return a function with the signature of a kernel, tuples flattened."""
    params = tuple(
        Var(name, type_, checked_type=type_)
        for param in kernel.params
        for name, type_ in named_leaves(param.name_hint, type_of(param))
    )
    assert kernel.ret_type is not None
    results = tuple(leaves(kernel.ret_type))
    return Function(params, kernel.body, results[0] if len(results) == 1 else TupleType(results))


def _map_leaves(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """Apply ``leaf`` to each array of a value, and make lists of AdtValue or the reverse.

    Without recursion because lists nest deep.
    """
    if isinstance(value, np.ndarray):
        return leaf(value)
    mapped: list[Any] = []
    work: list[tuple[Any, bool]] = [(value, False)]
    while work:
        item, entered = work.pop()
        if not isinstance(item, tuple | list | AdtValue):
            mapped.append(leaf(item))
            continue
        parts = item.fields if isinstance(item, AdtValue) else item[1:] if isinstance(item, list) else item
        if not entered:
            work.append((item, True))
            work.extend((part, False) for part in reversed(parts))
            continue
        fields = tuple(mapped[len(mapped) - len(parts) :])
        del mapped[len(mapped) - len(parts) :]
        match item:
            case AdtValue(constructor=name):
                mapped.append([name, *fields])
            case list():
                mapped.append(AdtValue(item[0], fields))
            case _:
                mapped.append(fields)
    return mapped[0]
