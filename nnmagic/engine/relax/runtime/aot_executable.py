"""Call the machine code of an AOT program with NumPy's array objects as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from nnmagic.engine.relax.analysis.entry_signature import type_of
from nnmagic.engine.relax.analysis.tuple_flattening import flat_names, flatten, rebuild
from nnmagic.engine.relax.artifact import Artifact
from nnmagic.engine.relax.runtime import numpy_abi
from nnmagic.engine.relax.runtime.loader import load_objects
from nnmagic.engine.relax.runtime.thread_pool import run_on_pool
from nnmagic.engine.relax.runtime.vm_executable import CompiledProgram, reason_of
from nnmagic.relay.expr import Function
from nnmagic.relay.types import NUMPY_DTYPES, TensorType

#: The name of the entry in the library.
ENTRY = "nnmagic_entry"

#: What the entry gives else than 0: an array is not what it should be; a kernel had not enough memory.
REFUSED, FAILED = 1, 2

_NOTHING = np.empty(0, np.uint8)


class AotExecutable:
    """A program of static-shape dataflow.

    A call takes one array (or tuple of arrays) per parameter and returns new arrays, which never share memory
    with an argument or a constant. Several threads, and a forked child, may call it. Raises TypeError for an
    array of a wrong dtype, ValueError for one of a wrong shape.
    """

    def __init__(
        self, name: str, function: Function, artifact: Artifact, compiled: Callable[[], CompiledProgram]
    ) -> None:
        """Load the machine code.

        Args:
            name: the function's name, for messages.
            function: the Relay function, for its types.
            artifact: an AOT artifact.
            compiled: returns the stages, compiling if it must.

        """
        self._name = name
        self.artifact = artifact
        self.compiled = compiled
        self._library = load_objects(artifact.code)
        self._entry: Callable[..., int] = self._library[ENTRY]
        facts = artifact.facts
        if facts["parallel"]:
            self._entry = run_on_pool(self._entry, uninterruptible=True)
        self._arrays = [(NUMPY_DTYPES[dtype], tuple(shape)) for dtype, shape in facts["parameters"]]
        self._results = [(tuple(shape), NUMPY_DTYPES[dtype]) for dtype, shape in facts["results"]]
        self._workspace = int(facts["workspace"])
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
        self.fast_path: Callable[[tuple[Any, ...]], Any] | None = None
        if self._flat and numpy_abi.address is id:
            self.fast_path = self._single() if isinstance(self._result, TensorType) else self._several

    def __call__(self, arrays: Sequence[Any]) -> Any:
        """Return the results for these arguments: an array, or (nested) tuples of arrays."""
        values = arrays if self._flat else list(flatten(tuple(arrays)))
        given = [
            _readable(value, *expected, name)
            for value, expected, name in zip(values, self._arrays, self._names, strict=True)
        ]
        results = [np.empty(*result) for result in self._results]
        self._run([*given, *results])
        return rebuild(self._result, iter(results))

    def _run(self, arrays: Sequence[np.ndarray]) -> None:
        workspace = self._borrow_workspace()
        objects = [*arrays, workspace, self._table]
        if numpy_abi.address is None:
            objects = [numpy_abi.description(array) for array in objects]
            addresses = [words.ctypes.data for words in objects]
        else:
            addresses = [numpy_abi.address(array) for array in objects]
        if self._run_entry(addresses):
            raise AssertionError("the machine code refuses arrays that were made for it")
        self._idle.append(workspace)

    def _borrow_workspace(self) -> np.ndarray:
        """Return a workspace for one call; the caller appends it to ``_idle`` afterwards."""
        try:
            return self._idle.pop()
        except IndexError:
            return np.empty(self._workspace, np.uint8)

    def _run_entry(self, addresses: Iterable[int]) -> bool:
        """Run the machine code and return whether it refused an array. Raises what the run raises."""
        try:
            code = self._entry(*addresses)
        except (RuntimeError, ValueError) as error:
            raise reason_of(error, self._name) from error
        if code == FAILED:
            raise MemoryError(f"@{self._name}: a tensor of this call needs more memory than there is")
        return code != 0

    def stage(self, name: str) -> str:
        """Return the text of a stage: ``relax``, ``tir``, ``llvm`` or ``asm``. Raises KeyError for others."""
        return self.compiled().stage(name)

    def _single(self) -> Callable[[tuple[Any, ...]], Any]:
        """Return the ``fast_path`` of a function with one result."""
        if self._workspace:
            return self._single_with_workspace
        few = _FEW.get(len(self._arrays), _many)
        return few(self._entry, self._results[0], (id(_NOTHING), id(self._table)), self._name)

    def _single_with_workspace(self, args: tuple[Any, ...]) -> Any:
        result, workspace = np.empty(*self._results[0]), self._borrow_workspace()
        refused = self._run_entry((*map(id, args), id(result), id(workspace), id(self._table)))
        self._idle.append(workspace)
        return None if refused else result

    def _several(self, args: tuple[Any, ...]) -> Any:
        """Run the ``fast_path`` of a function with several results."""
        results = [np.empty(*result) for result in self._results]
        workspace = self._borrow_workspace()
        refused = self._run_entry((*map(id, args), *map(id, results), id(workspace), id(self._table)))
        self._idle.append(workspace)
        return None if refused else rebuild(self._result, iter(results))


def _readable(value: Any, dtype: np.dtype[np.generic], shape: tuple[int, ...], name: str) -> np.ndarray:
    """Return an argument as an array that the machine code can read: itself if possible, else a copy."""
    array = np.asarray(value)
    if array.dtype.newbyteorder("=") != dtype:
        raise TypeError(f"{name} must be an array of {dtype}, not of {array.dtype}")
    if array.shape != shape:
        raise ValueError(f"{name} must be of shape {shape}, not {array.shape}")
    if array.dtype is dtype and array.flags.c_contiguous and array.flags.aligned:
        return array
    copy = np.empty(shape, dtype)
    copy[...] = array
    return copy


# What calls machine code of one result: with the addresses of its arguments, of the result, of a workspace
# that it does not need, and of its table. All that it needs is in its closure, and the arguments of few
# parameters are written out: to gather and unpack them would be a quarter of the time of a small call.

_FastPath = Callable[[tuple[Any, ...]], Any]
_Result = tuple[tuple[int, ...], np.dtype[Any]]


def _one(entry: Callable[..., int], result_of: _Result, rest: tuple[int, int], name: str) -> _FastPath:
    (shape, dtype), (nothing, table), empty = result_of, rest, np.empty

    def fast_path(args: tuple[Any, ...]) -> Any:
        (a,) = args
        result = empty(shape, dtype)
        try:
            return None if entry(id(a), id(result), nothing, table) else result
        except (RuntimeError, ValueError) as error:
            raise reason_of(error, name) from error

    return fast_path


def _two(entry: Callable[..., int], result_of: _Result, rest: tuple[int, int], name: str) -> _FastPath:
    (shape, dtype), (nothing, table), empty = result_of, rest, np.empty

    def fast_path(args: tuple[Any, ...]) -> Any:
        a, b = args
        result = empty(shape, dtype)
        try:
            return None if entry(id(a), id(b), id(result), nothing, table) else result
        except (RuntimeError, ValueError) as error:
            raise reason_of(error, name) from error

    return fast_path


def _three(entry: Callable[..., int], result_of: _Result, rest: tuple[int, int], name: str) -> _FastPath:
    (shape, dtype), (nothing, table), empty = result_of, rest, np.empty

    def fast_path(args: tuple[Any, ...]) -> Any:
        a, b, c = args
        result = empty(shape, dtype)
        try:
            return None if entry(id(a), id(b), id(c), id(result), nothing, table) else result
        except (RuntimeError, ValueError) as error:
            raise reason_of(error, name) from error

    return fast_path


def _many(entry: Callable[..., int], result_of: _Result, rest: tuple[int, int], name: str) -> _FastPath:
    (shape, dtype), empty = result_of, np.empty

    def fast_path(args: tuple[Any, ...]) -> Any:
        result = empty(shape, dtype)
        try:
            return None if entry(*map(id, args), id(result), *rest) else result
        except (RuntimeError, ValueError) as error:
            raise reason_of(error, name) from error

    return fast_path


_FEW = {1: _one, 2: _two, 3: _three}
