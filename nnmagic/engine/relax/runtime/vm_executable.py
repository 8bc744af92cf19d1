"""A compiled function of tensors that takes and gives NumPy arrays, from any thread.

Knows TVM's virtual machine and NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from nnmagic.diagnostics import last_line
from nnmagic.engine.relax.analysis.entry_signature import type_of
from nnmagic.engine.relax.analysis.tuple_flattening import flat_names, flatten, leaves, rebuild
from nnmagic.engine.relax.artifact import Artifact
from nnmagic.engine.relax.runtime import callbacks  # noqa: F401 - what programs ask Python
from nnmagic.engine.relax.runtime.loader import VmProgram
from nnmagic.engine.relax.runtime.tensors import as_tensor, bfloat16_array, plain_array
from nnmagic.engine.relax.runtime.thread_pool import Outcome, run_on_pool, start_deep
from nnmagic.relay.expr import Function
from nnmagic.relay.types import NUMPY_DTYPES, TensorType

#: The name of the entry function in the Relax module.
ENTRY = "main"

#: Calls inside calls when the program runs: TVM's machine uses about 4 kB of C stack for each.
MAX_CALL_DEPTH = 100_000

#: What the program says when it calls itself more often.
TOO_DEEP = f"the recursion is deeper than {MAX_CALL_DEPTH} calls"


class CompiledProgram(Protocol):
    """What the compiler made, with the texts of its stages; ``lowered``: the module before fusion."""

    artifact: Artifact
    lowered: Any

    def stage(self, name: str) -> str:
        """The text of a stage: ``relax``, ``tir``, ``llvm`` or ``asm``. Raises KeyError for another name."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A tensor that the compiled function takes; ``direct`` where TVM reads such arrays by itself."""

    name: str
    dtype: np.dtype[np.generic]
    direct: bool


class VmExecutable:
    """The machine code of one entry function.

    Calling it takes one array (or tuple of arrays) a parameter and gives new arrays: never the memory of an
    argument or a constant. It may be called from several threads at once and in a forked child. Raises
    TypeError for an array of a wrong dtype, ValueError for one of a wrong shape, RecursionError for a program
    that calls itself too deep.
    """

    def __init__(
        self, name: str, function: Function, artifact: Artifact, compiled: Callable[[], CompiledProgram]
    ) -> None:
        """``function``: its types; ``compiled``: gives the stages, compiling where it must."""
        self._name = name
        self.artifact = artifact
        self.compiled = compiled
        self._machines = VmProgram(artifact.bytecode, artifact.code)
        types = [(var, type_of(var)) for var in function.params]
        self._leaves = [
            _leaf(name, leaf)
            for var, type_ in types
            for name, leaf in zip(flat_names(var.name_hint, type_), leaves(type_, var.span), strict=True)
        ]
        self._flat = all(isinstance(type_, TensorType) for _, type_ in types)
        assert function.ret_type is not None
        self._result = function.ret_type
        results = leaves(self._result, function.span)
        self._readers = [bfloat16_array if leaf.dtype == "bfloat16" else plain_array for leaf in results]
        self._deep = bool(artifact.facts["deep"])
        self._parallel = bool(artifact.facts["parallel"])
        self._single = isinstance(self._result, TensorType)
        # The virtual machine is not thread-safe: a call takes one that is idle, or starts another.
        self._idle: list[Callable[..., Any]] = []

    def __call__(self, arrays: Sequence[Any]) -> Any:
        """The results for these arguments: an array, or (nested) tuples of arrays."""
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
            raise reason_of(error, self._name) from error
        self._idle.append(run)
        if self._single:
            return self._readers[0](result)
        tensors = [result] if len(self._readers) == 1 else result
        return rebuild(self._result, (read(one) for read, one in zip(self._readers, tensors, strict=True)))

    def watched(self, arrays: Sequence[Any], watch: Callable[..., Any]) -> Any:
        """As a call, with ``watch`` called before and after each step of the virtual machine."""
        idle, self._idle = self._idle, [self._start(watch)]
        try:
            return self(arrays)
        finally:
            self._idle = idle

    def _start(self, watch: Callable[..., Any] | None = None) -> Callable[..., Any]:
        run: Callable[..., Any] = self._machines.start(watch)[ENTRY]
        if self._parallel:
            return run_on_pool(run, deep=self._deep)
        return partial(on_deep_stack, run) if self._deep else run

    def stage(self, name: str) -> str:
        """The text of a stage: ``relax``, ``tir``, ``llvm`` or ``asm``. Raises KeyError for another name."""
        return self.compiled().stage(name)


def on_deep_stack(run: Callable[..., Any], *args: Any) -> Any:
    """``run(*args)`` on a thread whose C stack holds ``MAX_CALL_DEPTH`` calls of the virtual machine."""
    outcome = Outcome()
    start_deep(outcome.take, run, *args)
    return outcome.wait()


def _leaf(name: str, type_: TensorType) -> _Leaf:
    return _Leaf(name, NUMPY_DTYPES[type_.dtype], direct=type_.dtype != "bfloat16")


def _tensor(value: Any, leaf: _Leaf) -> Any:
    """An argument that TVM cannot read by itself, as one that it can."""
    array = np.asarray(value)
    if array.dtype.newbyteorder("=") != leaf.dtype:
        raise TypeError(f"{leaf.name} must be an array of {leaf.dtype}, not of {array.dtype}")
    return as_tensor(array)


def reason_of(error: Exception, function: str) -> Exception:
    """What TVM's machine raised, as the exception of a call: a RecursionError, MemoryError or ValueError."""
    reason = last_line(error)
    if "bad_alloc" in reason or "out of memory" in reason.lower():
        return MemoryError(f"@{function}: a tensor of this call needs more memory than there is")
    return (RecursionError if reason == TOO_DEEP else ValueError)(reason)
