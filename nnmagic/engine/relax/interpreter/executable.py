"""Run programs with closures, data types, match or references.

Kernels are machine code; the interpreter runs the control flow between them on an explicit stack. So neither
Python's stack nor C's limits recursion, and a tail call takes no stack at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnmagic.engine.arguments import Parameter, convert_argument
from nnmagic.engine.executable import KernelCode
from nnmagic.engine.relax.analysis.entry_signature import type_of
from nnmagic.engine.relax.analysis.tuple_flattening import leaves, named_leaves
from nnmagic.engine.relax.artifact import AOT, Artifact
from nnmagic.engine.relax.interpreter.instructions import Block, Frame, FunctionCode, Kernels
from nnmagic.engine.relax.runtime.aot_executable import AotExecutable, with_result
from nnmagic.engine.relax.runtime.compiled_program import CompiledProgram
from nnmagic.engine.relax.runtime.loader import load_objects
from nnmagic.relay.expr import Function, Var
from nnmagic.relay.failures import Failure
from nnmagic.relay.types import TensorType, TupleType
from nnmagic.relay.values import AdtValue


class InterpretedProgram:
    """A program that the interpreter runs on NumPy arrays, tuples and AdtValue; several threads may call it.

    Each kernel is an AOT program. Raises TypeError or ValueError for an argument that does not fit,
    RecursionError for recursion that is too deep, AssertionError with message and location for a failed
    assertion, RuntimeError if no arm of a match takes a value.
    """

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
        self.artifact = artifact
        self.compiled = compiled
        self._entry = entry
        self._parameters = parameters
        self._functions = [_flat(kernel) for kernel in kernels]
        self._assertions = assertions
        self._kernels = [kernel.complete_path() for kernel in self._load(artifact, self._functions)]

    def _load(self, artifact: Artifact, functions: Sequence[Function]) -> list[AotExecutable]:
        """Load the kernels of an artifact, which have the types of these functions."""
        library = load_objects(artifact.code)
        kernels = []
        for function, facts in zip(functions, artifact.facts["programs"], strict=True):
            constants = [artifact.constants[number] for number in facts["constants"]]
            part = Artifact(AOT, facts, (), constants)
            kernels.append(
                AotExecutable(self._entry.name, function, part, self.compiled, self._assertions, library)
            )
        return kernels

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

    def _run(self, values: Sequence[object]) -> Any:
        """Return the result for these values."""
        return _map_leaves(interpret(self._entry, values, self._kernels), np.array)

    def clocked(
        self, artifact: Artifact, tables: Sequence[TensorType]
    ) -> Callable[[Sequence[object]], list[tuple[int, np.ndarray]]]:
        """Return what runs it with kernels that read the clock.

        It returns the times of each call of a kernel, with the kernel's number.

        Args:
            artifact: one whose kernels have one more result, the last one: their times.
            tables: the types of these results.

        """
        times: list[tuple[int, np.ndarray]] = []
        functions = [with_result(*pair) for pair in zip(self._functions, tables, strict=True)]

        def noting(number: int, kernel: AotExecutable) -> Callable[[Sequence[Any]], Any]:
            def call(args: Sequence[Any]) -> Any:
                result, table = kernel(args)
                times.append((number, table))
                return result

            return call

        kernels = [noting(*numbered) for numbered in enumerate(self._load(artifact, functions))]

        def run(arrays: Sequence[object]) -> list[tuple[int, np.ndarray]]:
            times.clear()
            interpret(self._entry, self._convert(arrays), kernels)
            return times

        return run


def interpret(function: FunctionCode, args: Sequence[object], kernels: Kernels) -> Any:
    """Run a function and return its value."""
    stack: list[tuple[Block, Frame]] = [(_end, ())]  # where to go on, and what is live there
    block, frame = function.start, tuple(args)
    while block is not _end:
        block, frame = block(kernels, stack, frame)
    return frame[0]


def _end(_kernels: Kernels, _stack: list[tuple[Block, Frame]], _frame: Frame) -> None:
    """Stand for the return from the entry."""


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
