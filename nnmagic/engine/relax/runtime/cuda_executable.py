"""Call a program whose kernels run on a CUDA device with NumPy arrays, from any thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from nnmagic.engine import engine_error
from nnmagic.engine.relax.analysis.entry_signature import type_of
from nnmagic.engine.relax.analysis.tuple_flattening import leaves, named_leaves
from nnmagic.engine.relax.runtime.callbacks import CheckError
from nnmagic.engine.relax.runtime.compiled_program import ENTRY, MAX_CALL_DEPTH, TOO_DEEP, reason_of
from nnmagic.engine.relax.runtime.cuda_device import CUDA, FIRST, to_device
from nnmagic.engine.relax.runtime.loader import global_function
from nnmagic.engine.relax.runtime.tensors import argument_array, copy_from_device
from nnmagic.engine.relax.runtime.thread_pool import on_deep_stack
from nnmagic.relay.expr import Function
from nnmagic.relay.failures import Failure
from nnmagic.relay.structure.tuple_trees import flatten, rebuild
from nnmagic.relay.types import NUMPY_DTYPES

#: A virtual machine's settings: the device with a pool of buffers, as CUDA takes long to allocate; and the
#: CPU, where sizes are, without one.
_DEVICES = (CUDA, FIRST, 2, 1, 0, 1)

#: What TVM says where CUDA itself fails. The device takes no more work from a process after most of it.
_FAILURES = ("CUDA", "cuda")


class CudaCode(Protocol):
    """A program that is compiled for CUDA."""

    @property
    def machine(self) -> Any:
        """TVM's program with its kernels; None where there is no device that runs it."""

    @property
    def refusal(self) -> str:
        """Why there is no such device."""

    @property
    def deep(self) -> bool:
        """Whether functions call each other when it runs."""

    def stage(self, name: str) -> str:
        """Return the text of a stage: ``relax``, ``tir`` or ``cuda``. Raises KeyError for others."""


class CudaExecutable:
    """A program on the first CUDA device.

    A call copies its arguments to the device and returns new arrays of the host. The calls of several threads
    run one after the other. Raises TypeError for an array of a wrong dtype, ValueError for one of a wrong
    shape, and EngineError where no device runs the program.
    """

    #: Nothing of it is kept on disk.
    artifact = None

    def __init__(
        self, name: str, function: Function, code: CudaCode, assertions: Sequence[Failure] = ()
    ) -> None:
        """Keep a program; ``assertions`` are what the function's assertions raise, by number."""
        self._name, self._code, self._assertions = name, code, assertions
        self._parameters = [
            (flat, NUMPY_DTYPES[leaf.dtype])
            for var in function.params
            for flat, leaf in named_leaves(var.name_hint, type_of(var), var.span)
        ]
        self._result = function.result_type
        self._results = len(list(leaves(self._result, function.span)))
        self._turn = threading.Lock()
        #: The program with the constants on the device; None before the first call, and after a failed one.
        self._run: Callable[..., Any] | None = None
        self._process = os.getpid()

    def stage(self, name: str) -> str:
        """Return the text of a stage: ``relax``, ``tir`` or ``cuda``. Raises KeyError for others."""
        return self._code.stage(name)

    def __call__(self, arrays: Sequence[object]) -> Any:
        """Return the results for these arguments: an array, or (nested) tuples of arrays."""
        self._check_process()
        values = flatten(tuple(arrays))
        pairs = zip(values, self._parameters, strict=True)
        hosts = [argument_array(value, *known) for value, known in pairs]
        with self._turn:
            try:
                outputs = self._call(hosts)
            except MemoryError:  # the pool may hold what is missing
                outputs = None
            if outputs is None:
                global_function("vm.builtin.memory_manager.clear")()
                outputs = self._call(hosts)
        return rebuild(self._result, iter(outputs))

    def _call(self, hosts: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Copy arguments to the device, run the program there, and copy its results back."""
        try:
            run, self._run = self._run or self._start(), None
            results = self.run_on_device(run, list(map(to_device, hosts)))
            outputs = list(map(copy_from_device, results))
        except (RuntimeError, AssertionError, ValueError, MemoryError) as error:
            raise self._reason(error) from error
        self._run = run
        return outputs

    def run_on_device(self, run: Callable[..., Any], tensors: Sequence[Any]) -> list[Any]:
        """Return the results on the device, tuples flattened, of arguments that are there."""
        result = run(*tensors)
        return [result] if self._results == 1 else list(result)

    def _start(self) -> Callable[..., Any]:
        """Return what a call runs; puts the constants on the device."""
        machine = self._code.machine["vm_load_executable"]()
        machine["vm_initialization"](*_DEVICES)
        run: Callable[..., Any] = machine[ENTRY]
        return partial(on_deep_stack, run) if self._code.deep else run

    def _check_process(self) -> None:
        """Raise EngineError where the program cannot run."""
        hint = f"{self._name}.stages['cuda'] is its source; leave the target out to run it on the CPU"
        if self._code.machine is None:
            raise engine_error(f"@{self._name} was compiled for CUDA, and {self._code.refusal}", hint=hint)
        if self._process != os.getpid():
            message = f"@{self._name} was compiled for CUDA, which a forked process cannot use"
            raise engine_error(message, hint="start the process by spawn, and compile the function there")

    def _reason(self, error: Exception) -> BaseException:
        """Return what TVM's machine raised as the exception of the call."""
        text = str(error)
        if isinstance(error, CheckError):
            return reason_of(error, self._name, self._assertions)
        if "out of memory" in text:
            return MemoryError(f"@{self._name}: a tensor of this call needs more memory than the device has")
        if TOO_DEEP in text:
            return RuntimeError(
                f"@{self._name}: on a CUDA device each round of a loop and each call of a function is a "
                f"call, and this is deeper than {MAX_CALL_DEPTH} calls"
            )
        if any(word in text for word in _FAILURES):
            return RuntimeError(f"@{self._name}: the CUDA device failed: {text.splitlines()[0]}")
        return reason_of(error, self._name, self._assertions)
