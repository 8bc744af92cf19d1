"""Run programs with closures, data types, match or references.

Kernels are machine code; the interpreter of Relay runs the control flow between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from nnmagic.engine.arguments import Parameter
from nnmagic.engine.numpy import Interpreter
from nnmagic.engine.relax.analysis.entry_signature import type_of
from nnmagic.engine.relax.analysis.tuple_flattening import leaves, named_leaves
from nnmagic.engine.relax.artifact import AOT, Artifact
from nnmagic.engine.relax.runtime.aot_executable import AotExecutable, with_result
from nnmagic.engine.relax.runtime.compiled_program import CheckedExecutable, CompiledProgram
from nnmagic.engine.relax.runtime.loader import load_objects
from nnmagic.relay.expr import Function, Var
from nnmagic.relay.failures import Failure
from nnmagic.relay.module import Module
from nnmagic.relay.structure.tuple_trees import flatten, rebuild
from nnmagic.relay.types import TensorType, TupleType
from nnmagic.relay.values import AdtValue

if TYPE_CHECKING:
    from nnmagic.engine.relax.interpreter.compiler import ProgramKernel

#: A kernel: takes its tensors, and returns one or several.
_Kernel = Callable[[tuple[Any, ...]], Any]


class InterpretedProgram(CheckedExecutable):
    """A program that the interpreter runs on NumPy arrays, tuples and AdtValue; several threads may call it.

    Each kernel is an AOT program. Raises TypeError or ValueError for an argument that does not fit,
    RecursionError for recursion that is too deep, AssertionError with message and location for a failed
    assertion, RuntimeError if no arm of a match takes a value.
    """

    def __init__(
        self,
        entry: str,
        control: Module,
        parameters: Sequence[Parameter],
        kernels: Sequence[ProgramKernel],
        artifact: Artifact,
        compiled: Callable[[], CompiledProgram],
        assertions: Sequence[Failure] = (),
    ) -> None:
        """Load the kernels.

        Args:
            entry: the name of the entry.
            control: the control flow of the entry and of what it calls.
            parameters: those of the entry, to check arguments.
            kernels: the functions that the control flow calls by name.
            artifact: an INTERPRETER artifact.
            compiled: returns the stages, compiling if it must.
            assertions: what the assertions in kernels raise, by number.

        """
        self.artifact = artifact
        self.compiled = compiled
        self._entry = entry
        self._control = control
        self._parameters = parameters
        self._program_kernels = kernels
        self._functions = [_flat(kernel.function) for kernel in kernels]
        self._assertions = assertions
        self._interpret = self._interpreter(
            [kernel.complete_path() for kernel in self._load(artifact, self._functions)]
        )

    def _load(self, artifact: Artifact, functions: Sequence[Function]) -> list[AotExecutable]:
        """Load the kernels of an artifact, which have the types of these functions."""
        library = load_objects(artifact.code)
        kernels = []
        for function, facts in zip(functions, artifact.facts["programs"], strict=True):
            constants = [artifact.constants[number] for number in facts["constants"]]
            part = Artifact(AOT, facts, (), constants)
            kernels.append(
                AotExecutable(self._entry, function, part, self.compiled, self._assertions, library)
            )
        return kernels

    def _interpreter(self, kernels: Sequence[_Kernel]) -> Callable[[Sequence[object]], Any]:
        """Return what runs the entry with these kernels."""
        natives = {
            kernel.name: _with_tuples(kernel.function, native)
            for kernel, native in zip(self._program_kernels, kernels, strict=True)
        }
        return partial(Interpreter(self._control, natives=natives).run, self._entry)

    def _run(self, values: Sequence[object]) -> Any:
        """Return the result for these values."""
        return _copy(self._interpret(values))

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

        interpret = self._interpreter(
            [noting(*numbered) for numbered in enumerate(self._load(artifact, functions))]
        )

        def run(arrays: Sequence[object]) -> list[tuple[int, np.ndarray]]:
            times.clear()
            interpret(self.convert(arrays))
            return times

        return run


def _with_tuples(function: Function, kernel: _Kernel) -> _Kernel:
    """Return a kernel, which takes and returns tensors in sequence, as a function with tuples."""
    type_ = function.ret_type
    assert type_ is not None
    takes, gives = [
        any(isinstance(part, TupleType) for part in parts)
        for parts in (map(type_of, function.params), type_.fields if isinstance(type_, TupleType) else ())
    ]
    if isinstance(type_, TupleType) and len(type_.fields) == 1:
        gives = True  # one tensor comes as it is
    if not takes and not gives:
        return kernel

    def call(values: tuple[Any, ...]) -> Any:
        result = kernel(tuple(flatten(values)))
        return rebuild(type_, flatten(result)) if gives else result

    return call


def _flat(kernel: Function) -> Function:
    """Return a function with the signature of a kernel, tuples flattened."""
    params = tuple(
        Var(name, type_, checked_type=type_)
        for param in kernel.params
        for name, type_ in named_leaves(param.name_hint, type_of(param))
    )
    results = tuple(leaves(kernel.result_type))
    return Function(params, kernel.body, results[0] if len(results) == 1 else TupleType(results))


def _copy(value: Any) -> Any:
    """Return a result with arrays of its own; without recursion because lists nest deep."""
    copied: list[Any] = []
    work: list[tuple[Any, bool]] = [(value, False)]
    while work:
        item, entered = work.pop()
        if not isinstance(item, tuple | AdtValue):
            copied.append(np.array(item))
            continue
        parts = item.fields if isinstance(item, AdtValue) else item
        if not entered:
            work.append((item, True))
            work.extend((part, False) for part in reversed(parts))
            continue
        start = len(copied) - len(parts)
        fields = tuple(copied[start:])
        copied[start:] = [AdtValue(item.constructor, fields) if isinstance(item, AdtValue) else fields]
    return copied[0]
