"""Call the machine code of an AOT program with NumPy's array objects as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import numpy as np

from nnmagic.engine.failed_checks import FailedCheck, attach_check
from nnmagic.engine.relax.analysis.entry_signature import type_of
from nnmagic.engine.relax.analysis.tuple_flattening import flat_names, flatten, nested_source, rebuild
from nnmagic.engine.relax.artifact import Artifact, Json
from nnmagic.engine.relax.runtime import callbacks, numpy_abi
from nnmagic.engine.relax.runtime.fast_path import FastPath, make_fast_path
from nnmagic.engine.relax.runtime.loader import load_objects
from nnmagic.engine.relax.runtime.sizes import size_function
from nnmagic.engine.relax.runtime.thread_pool import on_deep_stack, run_on_pool, run_on_worker
from nnmagic.engine.relax.runtime.vm_executable import MAX_CALL_DEPTH, CompiledProgram, reason_of
from nnmagic.engine.relax.runtime.vm_executable import TOO_DEEP as TOO_DEEP_MESSAGE
from nnmagic.relay.expr import Function
from nnmagic.relay.types import NUMPY_DTYPES, TensorType, TupleType

#: The name of the entry in the library.
ENTRY = "nnmagic_entry"

#: What the entry gives else than 0: an array is not what it should be, or shapes do not fit; there is not
#: enough memory; the workspace is too small; an interrupt; too deep recursion. From FAILURES on: a failure.
REFUSED, FAILED, GROW, INTERRUPTED, TOO_DEEP = 1, 2, 3, 4, 5
FAILURES = 16

#: Where the state has the details of a failure, and the limit of recursion.
_DETAIL, _DEPTH, _LIMIT = 1, 4, 5

#: Calls inside calls that the stack of any thread holds.
_SHALLOW = 1000

_ALIGNMENT = 64

#: No machine has so much memory.
_MOST_BYTES = 1 << 50

_NOTHING = np.empty(0, np.uint8)


class AotExecutable:
    """A native program.

    A call takes one array (or tuple of arrays) per parameter and returns new arrays, which never share memory
    with an argument or a constant. Several threads, and a forked child, may call it. Raises TypeError for an
    array of a wrong dtype, ValueError for one of a wrong shape, and what the program raises.
    """

    def __init__(
        self,
        name: str,
        function: Function,
        artifact: Artifact,
        compiled: Callable[[], CompiledProgram],
        assertions: Sequence[str] = (),
        library: Any = None,
    ) -> None:
        """Load the machine code.

        Args:
            name: the function's name, for messages.
            function: the Relay function, for its types.
            artifact: an AOT artifact.
            compiled: returns the stages, compiling if it must.
            assertions: the texts of the function's assertions, by number.
            library: the artifact's code where it is loaded already.

        """
        self._name = name
        self._function = function
        self.artifact = artifact
        self.compiled = compiled
        self._assertions = assertions
        self._library = load_objects(artifact.code) if library is None else library
        facts = artifact.facts
        self._state = int(facts["state"])
        self._entry: Callable[..., int] = self._library[facts.get("symbol", ENTRY)]
        self._deep_entry = self._on_thread(partial(partial, on_deep_stack))
        if facts["parallel"]:
            self._deep_entry = self._on_thread(partial(run_on_worker, uninterruptible=True))
            self._entry = run_on_pool(self._entry, self._deep_entry)
        dims = [(int(array), int(axis)) for array, axis in facts["dims"]]
        self._dims = dims
        self._arrays = [_Array(array, len(dims)) for array in facts["parameters"]]
        self._results = [_Array(array, len(dims)) for array in facts["results"]]
        self._failures: Sequence[Json] = facts["failures"]
        self._workspace_of = size_function([facts["workspace"]], len(dims))
        #: What any call needs at least; more if sizes of the call say so.
        self._least_workspace = self._workspace_bytes((0,) * len(dims))
        if dims and not isinstance(facts["workspace"], int):
            self._least_workspace = max(self._least_workspace, _ALIGNMENT)
        # The workspaces of calls that have ended: one for each thread at most.
        self._idle: list[np.ndarray] = []
        types = [(var, type_of(var)) for var in function.params]
        self._names = [name for var, type_ in types for name in flat_names(var.name_hint, type_)]
        self._flat = all(isinstance(type_, TensorType) for _, type_ in types)
        assert function.ret_type is not None
        self._result = function.ret_type
        self._constants = artifact.constants
        words = [id(np.ndarray), *(id(NUMPY_DTYPES[dtype]) for dtype in facts["dtypes"])]
        words += [constant.ctypes.data for constant in self._constants]
        self._table = np.array(words, np.int64)
        #: The result for the arguments of a call as they are; None where they need a look.
        self.fast_path: FastPath | None = None
        if self._flat and numpy_abi.address is id:
            self.fast_path = self._make_fast_path("None")

    def __call__(self, arrays: Sequence[Any]) -> Any:
        """Return the results for these arguments: an array, or (nested) tuples of arrays."""
        values = arrays if self._flat else list(flatten(tuple(arrays)))
        given = [
            _readable(value, expected, name)
            for value, expected, name in zip(values, self._arrays, self._names, strict=True)
        ]
        sizes = self._sizes_of(given)
        for array, expected, name in zip(given, self._arrays, self._names, strict=True):
            shape = expected.shape_of(*sizes)
            if array.shape != shape:
                raise ValueError(f"{name} must be of shape {shape}, not {array.shape}")
        results = [result.new(sizes, self._name) for result in self._results]
        if self._run_entry([*given, *results]):
            raise AssertionError("the machine code refuses arrays that were made for it")
        return rebuild(self._result, iter(results))

    def _on_thread(
        self, run_on_thread: Callable[[Callable[..., int]], Callable[..., int]]
    ) -> Callable[..., int]:
        """Return a function that runs the entry on another thread; without a state no check can fail."""
        if not self._state:
            return run_on_thread(self._entry)
        return callbacks.keep_pending(self._entry, run_on_thread)

    def _sizes_of(self, arrays: Sequence[np.ndarray]) -> tuple[int, ...]:
        """Return the dimensions of a call."""
        return tuple(arrays[array].shape[axis] for array, axis in self._dims)

    def _run_entry(self, arrays: Sequence[Any]) -> bool:
        """Run the machine code, and return whether it refused an array. Raises what the run raises."""
        workspace = self._borrow_workspace()
        return self._finish(self._start(self._entry, arrays, workspace), workspace, arrays)

    def _finish(self, code: int, workspace: np.ndarray | None, arrays: Sequence[Any]) -> bool:
        """Finish a call that ended with a code, and return whether it refused an array.

        Raises what the call raises. ``workspace`` is None if the program needs none.
        """
        if workspace is None:
            workspace = _NOTHING
        if code == GROW:
            workspace = self._new_workspace(self._workspace_bytes(self._sizes_of(arrays)))
            code = self._start(self._entry, arrays, workspace)
        if code == TOO_DEEP:
            self._set_limit(workspace, MAX_CALL_DEPTH)
            code = self._start(self._deep_entry, arrays, workspace)
            self._set_limit(workspace, _SHALLOW)
        error = self._error(code, workspace) if code else None
        if workspace is not _NOTHING:
            self._idle.append(workspace)
        if error is not None:
            raise error
        return code != 0

    def _start(self, entry: Callable[..., int], arrays: Sequence[Any], workspace: np.ndarray) -> int:
        """Run the machine code once, and return how it ended."""
        objects = (*arrays, workspace, self._table)
        try:
            if numpy_abi.address is not None:
                return entry(*map(id, objects))
            tables = [numpy_abi.description(array) for array in objects]
            return entry(*(words.ctypes.data for words in tables))
        except (RuntimeError, ValueError) as error:
            self._raise_reason(error)

    def _raise_reason(self, error: Exception) -> NoReturn:
        raise reason_of(error, self._name, self._assertions) from error

    def _error(self, code: int, workspace: np.ndarray) -> BaseException | None:
        """Return what a call raises that ended with a code; None if an array was refused."""
        if (pending := callbacks.take_pending()) is not None:
            return reason_of(pending, self._name) if isinstance(pending, callbacks.CheckError) else pending
        match code:
            case _ if code == REFUSED:
                return None
            case _ if code == INTERRUPTED:
                return KeyboardInterrupt()
            case _ if code == TOO_DEEP:
                return RecursionError(TOO_DEEP_MESSAGE)
            case _ if code < FAILURES:
                return _out_of_memory(self._name)
        match self._failures[code - FAILURES]:
            case ["assertion", int() as number]:
                return AssertionError(self._assertions[number])
            case ["index"]:
                index, length = self._state_words(workspace)[_DETAIL : _DETAIL + 2].tolist()
                message = callbacks.index_message(index, length)
                return attach_check(IndexError(message), FailedCheck("take", length))
            case [_, str() as message, str() as operator]:
                return attach_check(ValueError(message), FailedCheck(operator))
            case [_, str() as message]:
                return ValueError(message)
        raise AssertionError(f"the machine code ended with the code {code}")

    # Workspaces

    def _workspace_bytes(self, sizes: tuple[int, ...]) -> int:
        """Return the bytes of a call's workspace: of its state, and of its temporaries."""
        (temporaries,) = self._workspace_of(*sizes)
        state = -(-self._state * 8 // _ALIGNMENT) * _ALIGNMENT
        return state + temporaries + _ALIGNMENT if state or temporaries else 0

    def _borrow_workspace(self) -> np.ndarray:
        """Return a workspace for one call, which goes to ``_idle`` afterwards."""
        if not self._least_workspace:
            return _NOTHING
        try:
            return self._idle.pop()
        except IndexError:
            return self._new_workspace(self._least_workspace)

    def _new_workspace(self, nbytes: int) -> np.ndarray:
        if nbytes > _MOST_BYTES:
            raise _out_of_memory(self._name)
        workspace = np.empty(nbytes, np.uint8)
        if self._state:
            workspace[: self._state * 8 + _ALIGNMENT] = 0
            self._set_limit(workspace, _SHALLOW)
        return workspace

    def _state_words(self, workspace: np.ndarray) -> np.ndarray:
        begin = -workspace.ctypes.data % _ALIGNMENT
        return workspace[begin : begin + 8 * self._state].view(np.int64)

    def _set_limit(self, workspace: np.ndarray, depth: int) -> None:
        """Set how deep the call may recurse."""
        words = self._state_words(workspace)
        words[_DEPTH], words[_LIMIT] = 0, depth

    def stage(self, name: str) -> str:
        """Return the text of a stage: ``relax``, ``tir``, ``llvm`` or ``asm``. Raises KeyError for others."""
        return self.compiled().stage(name)

    def with_result(self, type_: TensorType, compiled: CompiledProgram) -> AotExecutable:
        """Return the executable of another compilation, which has one more result."""
        assert self._function.ret_type is not None
        function = replace(self._function, ret_type=TupleType((self._function.ret_type, type_)))
        return AotExecutable(self._name, function, compiled.artifact, lambda: compiled, self._assertions)

    def complete_path(self) -> FastPath:
        """Return a function of the arguments of a call that is fast for those that need no look."""
        if self.fast_path is None:
            return self
        return self._make_fast_path("slow_path(args)")

    def _make_fast_path(self, otherwise: str) -> FastPath:
        names: dict[str, Any] = {
            "entry": self._entry,
            "array": np.array,
            "empty": np.empty,
            **{f"p{number}": array.dtype for number, array in enumerate(self._arrays)},
            "finish": self._finish,
            "slow_path": self,
            "table": id(self._table),
            "nothing": id(_NOTHING),
            "raise_reason": self._raise_reason,
            "idle": self._idle,
            "new_workspace": self._borrow_workspace,
            **{f"t{number}": result.dtype for number, result in enumerate(self._results)},
        }
        return make_fast_path(
            [(array.dtype.name, len(array.shape)) for array in self._arrays],
            self._dims,
            [result.shape for result in self._results],
            names,
            workspace=bool(self._least_workspace),
            result=nested_source(self._result, (f"r{number}" for number in range(len(self._results)))),
            otherwise=otherwise,
        )


def _out_of_memory(function: str) -> MemoryError:
    return MemoryError(f"@{function}: a tensor of this call needs more memory than there is")


class _Array:
    """The dtype and the shape of a parameter or result.

    ``shape_of`` returns the shape for the dimensions of a call.
    """

    def __init__(self, facts: Json, dims: int) -> None:
        dtype, sizes = facts
        self.dtype = NUMPY_DTYPES[dtype]
        self.shape: Sequence[Json] = sizes
        self.shape_of = size_function(sizes, dims)

    def new(self, sizes: tuple[int, ...], function: str) -> np.ndarray:
        """Return an array for a result."""
        try:
            return np.empty(self.shape_of(*sizes), self.dtype)
        except ValueError as error:  # more elements than can be counted
            raise _out_of_memory(function) from error


def _readable(value: Any, expected: _Array, name: str) -> np.ndarray:
    """Return an argument as an array that the machine code can read: itself if possible, else a copy."""
    array = np.asarray(value)
    dtype = expected.dtype
    if array.dtype.newbyteorder("=") != dtype:
        raise TypeError(f"{name} must be an array of {dtype}, not of {array.dtype}")
    if array.ndim != len(expected.shape):
        raise ValueError(
            f"{name} must be an array of {len(expected.shape)} dimensions, not of shape {array.shape}"
        )
    if array.dtype is dtype and array.flags.c_contiguous and array.flags.aligned:
        return array
    copy = np.empty(array.shape, dtype)
    copy[...] = array
    return copy
