"""Call a program of TVM's virtual machine with NumPy arrays, from any thread."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from nnmagic.diagnostics import last_line
from nnmagic.engine.executable import KernelCode, Remark
from nnmagic.engine.relax.analysis.entry_signature import type_of
from nnmagic.engine.relax.analysis.tuple_flattening import leaves, named_leaves
from nnmagic.engine.relax.artifact import Artifact
from nnmagic.engine.relax.runtime import callbacks
from nnmagic.engine.relax.runtime.loader import VmProgram
from nnmagic.engine.relax.runtime.tensors import argument_array, as_tensor, bfloat16_array, plain_array
from nnmagic.engine.relax.runtime.thread_pool import on_deep_stack, run_on_pool, run_on_worker
from nnmagic.relay.expr import Function
from nnmagic.relay.failures import Failure
from nnmagic.relay.structure.tuple_trees import flatten, rebuild
from nnmagic.relay.types import NUMPY_DTYPES, TensorType

_Machine = TypeVar("_Machine")

#: The name of the entry function in the Relax module.
ENTRY = "main"

#: Calls inside calls when the program runs: TVM's machine uses about 4 kB of C stack for each, of which
#: Windows' threads have less.
MAX_CALL_DEPTH = 25_000 if os.name == "nt" else 100_000

#: What the program says when it calls itself more often.
TOO_DEEP = f"the recursion is deeper than {MAX_CALL_DEPTH} calls"


class CompiledProgram(Protocol):
    """A compiled program with the texts of its stages; ``lowered`` is its module before fusion."""

    artifact: Artifact
    lowered: Any

    def stage(self, name: str) -> str:
        """Return the text of a stage: ``relax``, ``tir``, ``llvm`` or ``asm``. Raises KeyError for others."""

    def kernels(self) -> Sequence[KernelCode]:
        """Return the functions of the machine code, and what each computes."""

    def remarks(self) -> Sequence[Remark]:
        """Return how its loops and kernels run, if it is machine code alone."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A tensor parameter; ``direct``: whether TVM imports such arrays itself."""

    name: str
    dtype: np.dtype[np.generic]
    direct: bool


class MachineExecutable(ABC, Generic[_Machine]):
    """An executable on TVM's virtual machines.

    A virtual machine is not thread-safe: a call takes one that is idle, or starts another.
    """

    def __init__(self, artifact: Artifact, compiled: Callable[[], CompiledProgram]) -> None:
        """Load the machine code; ``compiled`` returns the stages, compiling if it must."""
        self.artifact = artifact
        self.compiled = compiled
        self._program = VmProgram(artifact.bytecode, artifact.code)
        self._parallel = bool(artifact.facts["parallel"])
        self._idle: list[_Machine] = []

    @abstractmethod
    def __call__(self, arrays: Sequence[np.ndarray]) -> Any:
        """Return the result for these arguments."""

    @abstractmethod
    def _start(self, instrument: Callable[..., Any] | None = None) -> _Machine:
        """Return what a call runs of a new virtual machine."""

    def run_instrumented(self, arrays: Sequence[np.ndarray], instrument: Callable[..., Any]) -> Any:
        """Call it with ``instrument`` called before and after each instruction of the virtual machine."""
        idle, self._idle = self._idle, [self._start(instrument)]
        try:
            return self(arrays)
        finally:
            self._idle = idle

    def stage(self, name: str) -> str:
        """Return the text of a stage: ``relax``, ``tir``, ``llvm`` or ``asm``. Raises KeyError for others."""
        return self.compiled().stage(name)

    def kernels(self) -> Sequence[KernelCode]:
        """Return the functions of the machine code, and what each computes."""
        return self.compiled().kernels()


class VmExecutable(MachineExecutable[Callable[..., Any]]):
    """A program of TVM's virtual machine.

    A call takes one array (or tuple of arrays) per parameter and returns new arrays, which never share memory
    with an argument or a constant. Several threads, and a forked child, may call it. Raises TypeError for an
    array of a wrong dtype, ValueError for one of a wrong shape, RecursionError for too deep recursion.
    """

    def __init__(
        self,
        name: str,
        function: Function,
        artifact: Artifact,
        compiled: Callable[[], CompiledProgram],
        assertions: Sequence[Failure] = (),
    ) -> None:
        """Load the machine code.

        ``compiled`` returns the stages, compiling if it must; ``assertions`` are what the function's
        assertions raise, by number.
        """
        self._assertions = assertions
        super().__init__(artifact, compiled)
        self._name = name
        types = [(var, type_of(var)) for var in function.params]
        self._leaves = [
            _leaf(name, leaf)
            for var, type_ in types
            for name, leaf in named_leaves(var.name_hint, type_, var.span)
        ]
        self._flat = all(isinstance(type_, TensorType) for _, type_ in types)
        assert function.ret_type is not None
        self._result = function.ret_type
        results = leaves(self._result, function.span)
        self._readers = [bfloat16_array if leaf.dtype == "bfloat16" else plain_array for leaf in results]
        self._deep = bool(artifact.facts["deep"])
        self._single = isinstance(self._result, TensorType)

    def __call__(self, arrays: Sequence[np.ndarray]) -> Any:
        """Return the results for these arguments: an array, or (nested) tuples of arrays."""
        values = arrays if self._flat else list(flatten(tuple(arrays)))
        tensors = [
            value
            if leaf.direct and value.dtype is leaf.dtype and value.flags.carray and value.size
            else _tensor(value, leaf)
            for value, leaf in zip(values, self._leaves, strict=True)
        ]
        try:
            run = self._idle.pop()
        except IndexError:
            run = self._start()
        try:
            result = run(*tensors)
        except (RuntimeError, AssertionError, ValueError) as error:  # a machine that raised is not used again
            raise reason_of(error, self._name, self._assertions) from error
        self._idle.append(run)
        if self._single:
            return self._readers[0](result)
        tensors = [result] if len(self._readers) == 1 else result
        return rebuild(self._result, (read(one) for read, one in zip(self._readers, tensors, strict=True)))

    def _start(self, instrument: Callable[..., Any] | None = None) -> Callable[..., Any]:
        run: Callable[..., Any] = self._program.start(instrument)[ENTRY]
        elsewhere = callbacks.prepared(run)
        if self._parallel:
            on_worker = run_on_worker(elsewhere)
            return on_worker if self._deep else run_on_pool(run, on_worker)
        return partial(on_deep_stack, elsewhere) if self._deep else run


def _leaf(name: str, type_: TensorType) -> _Leaf:
    return _Leaf(name, NUMPY_DTYPES[type_.dtype], direct=type_.dtype != "bfloat16")


def _tensor(value: Any, leaf: _Leaf) -> Any:
    """Convert an argument that TVM cannot import itself."""
    return as_tensor(argument_array(value, leaf.name, leaf.dtype))


def reason_of(error: Exception, function: str, assertions: Sequence[Failure] = ()) -> BaseException:
    """Return what TVM's machine raised as the built-in exception of the call."""
    if isinstance(error, callbacks.CheckError):
        return error.to_builtin(assertions)
    reason = last_line(error)
    if "bad_alloc" in reason or "out of memory" in reason.lower():
        return MemoryError(f"@{function}: a tensor of this call needs more memory than there is")
    return (RecursionError if reason == TOO_DEEP else ValueError)(reason)
