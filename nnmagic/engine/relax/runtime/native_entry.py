"""Run the entry of an AOT program's machine code: workspaces, interrupts, and what it raises."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import islice
from typing import Any, NoReturn

import numpy as np

from nnmagic.engine.failed_checks import FailedCheck, attach_check, refused_value
from nnmagic.engine.relax.artifact import VALUE, Json
from nnmagic.engine.relax.runtime import callbacks, numpy_abi
from nnmagic.engine.relax.runtime.compiled_program import MAX_CALL_DEPTH, MAX_LEVELS, reason_of
from nnmagic.engine.relax.runtime.compiled_program import TOO_DEEP as TOO_DEEP_MESSAGE
from nnmagic.engine.relax.runtime.ffi import take_error_kind
from nnmagic.engine.relax.runtime.sizes import size_function
from nnmagic.engine.relax.runtime.thread_pool import on_deep_stack, run_on_pool, run_on_worker
from nnmagic.relay.failures import Failure
from nnmagic.relay.types import NUMPY_DTYPES

#: The name of the entry in the library.
ENTRY = "nnmagic_entry"

#: What the name of the function ends with that frees what the entry leaves: it takes the state's address.
RELEASE = "_release"

#: What the entry gives else than 0: an array is not what it should be, or shapes do not fit; there is not
#: enough memory; the workspace is too small; an interrupt; too deep recursion; a call that CPython makes
#: directly takes long; more than MAX_LEVELS calls. From FAILURES on: a failure.
REFUSED, FAILED, GROW, INTERRUPTED, TOO_DEEP, TOO_LONG, TOO_MANY_LEVELS = 1, 2, 3, 4, 5, 6, 7
FAILURES = 16

#: Where the state has the details of a failure, the limit of recursion, and whether CPython makes the call
#: directly.
_DETAIL, _LEVELS, _DIRECT = 1, 4, 6

#: Calls inside calls that the stack of any thread holds.
_SHALLOW = 1000

_ALIGNMENT = 64

#: No machine has so much memory.
_MOST_BYTES = 1 << 50

#: The most bytes of a workspace that a function keeps.
_SMALL_WORKSPACE = 1 << 16

#: Of a block of this size that is freed glibc learns to keep what programs free, up to twice as much: each
#: call would else get new pages from the system, whose first use takes longer than most kernels.
_LEARNED_BYTES = (1 << 25) - (1 << 16)

#: The workspace of a program that needs none.
NOTHING = np.empty(0, np.uint8)


@cache
def _keep_freed_memory() -> None:
    """Let C's allocator keep memory between calls, by freeing one large block."""
    np.empty(_LEARNED_BYTES, np.uint8)


class NativeEntry:
    """The entry of a program, with the workspaces of its calls.

    ``sizes`` of a call are its dimensions, ``dims``: each is the extent of an array along an axis. It holds
    nothing that holds it, so that a function that is dropped gives its memory back at once.
    """

    def __init__(
        self,
        name: str,
        library: Any,
        facts: Json,
        constants: Sequence[np.ndarray],
        assertions: Sequence[Failure],
    ) -> None:
        """Find the entry in the library, which is loaded.

        Args:
            name: the function's name, for messages.
            library: the machine code.
            facts: what the artifact says of it.
            constants: the arrays that it reads.
            assertions: what the function's assertions raise, by number.

        """
        _keep_freed_memory()
        self.name = name
        self._library = library
        self._assertions = assertions
        self._state = int(facts["state"])
        #: The entry as it is; ``run`` is the same where a thread pool is, if it needs one.
        self.function: Any = library[facts.get("symbol", ENTRY)]
        #: Of a program that leaves results: their numbers, dtypes and ranks, the number of the array that
        #: takes their addresses, and what frees them.
        addresses, self._left = facts.get("left", (0, ()))
        self._addresses = len(facts["parameters"]) + addresses
        self.release: Any = library[facts.get("symbol", ENTRY) + RELEASE] if self._left else None
        self.run: Callable[..., int] = self.function
        self._run_deep = callbacks.keep_pending(self.run, partial(partial, on_deep_stack))
        if facts["parallel"]:
            self._run_deep = callbacks.keep_pending(self.run, run_on_worker)
            self.run = run_on_pool(self.run, self._run_deep)
        self.dims = [(int(array), int(axis)) for array, axis in facts["dims"]]
        self._failures: Sequence[Json] = facts["failures"]
        self._workspace_of = size_function([facts["workspace"]], len(self.dims))
        #: What any call needs at least; more if sizes of the call say so.
        self.least_workspace = self._workspace_bytes((0,) * len(self.dims))
        if self.dims and not isinstance(facts["workspace"], int):
            self.least_workspace = max(self.least_workspace, _ALIGNMENT)
        # The workspaces of calls that have ended: one for each thread at most.
        self.idle: list[np.ndarray] = []
        self._constants = constants
        words = [id(np.ndarray), *(id(NUMPY_DTYPES[dtype]) for dtype in facts["dtypes"])]
        words += [constant.ctypes.data for constant in constants]
        self.table = np.array(words, np.int64)

    def sizes_of(self, arrays: Sequence[np.ndarray]) -> tuple[int, ...]:
        """Return the dimensions of a call."""
        return tuple(
            int(arrays[array]) if axis == VALUE else arrays[array].shape[axis] for array, axis in self.dims
        )

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray] | None:
        """Run the machine code, and return the results that it left; None if it refused an array.

        Raises what the run raises.
        """
        workspace = self.borrow_workspace()
        left: list[np.ndarray] = []
        return (
            None if self.finish(self._start(self.run, arrays, workspace), workspace, arrays, left) else left
        )

    def finish(
        self,
        code: int,
        workspace: np.ndarray | None,
        arrays: Sequence[np.ndarray],
        left: list[np.ndarray] | None = None,
    ) -> bool:
        """Finish a call that ended with a code, and return whether it refused an array.

        Raises what the call raises. ``workspace`` is None if the program needs none. ``left`` takes the
        results that the machine code left.
        """
        if workspace is None:
            workspace = NOTHING
        if code == GROW:
            workspace = self._new_workspace(self._workspace_bytes(self.sizes_of(arrays)))
            code = self._start(self.run, arrays, workspace)
        if code == TOO_DEEP:
            self._set_limit(workspace, MAX_CALL_DEPTH)
            code = self._start(self._run_deep, arrays, workspace)
            self._set_limit(workspace, _SHALLOW)
        error = self._error(code, workspace) if code else None
        if self._left and left is not None and not code:
            try:
                left += self._copy_left(arrays[self._addresses])
            except MemoryError:
                error = out_of_memory(self.name)
            self.release(state_address(workspace))
        if workspace is not NOTHING:
            self.idle.append(workspace)
        if error is not None:
            raise error
        return code != 0

    def _copy_left(self, addresses: np.ndarray) -> Iterator[np.ndarray]:
        """Yield copies of the results that the machine code left."""
        words = iter(addresses.tolist())
        for _, dtype, rank in self._left:
            address, shape = next(words), tuple(islice(words, rank))
            copy = np.empty(shape, NUMPY_DTYPES[dtype])
            ctypes.memmove(copy.ctypes.data, address, copy.nbytes)
            yield copy

    def _start(self, entry: Callable[..., int], arrays: Sequence[np.ndarray], workspace: np.ndarray) -> int:
        """Run the machine code once, and return how it ended."""
        objects = (*arrays, workspace, self.table)
        try:
            if numpy_abi.address is not None:
                return entry(*map(id, objects))
            tables = [numpy_abi.description(array) for array in objects]
            return entry(*(words.ctypes.data for words in tables))
        except (RuntimeError, ValueError) as error:
            self.raise_reason(error)

    def raise_reason(self, error: Exception) -> NoReturn:
        """Raise what a call raises whose machine code raised the error."""
        raise reason_of(error, self.name, self._assertions) from error

    def _error(self, code: int, workspace: np.ndarray) -> BaseException | None:
        """Return what a call raises that ended with a code; None if an array was refused."""
        if (pending := callbacks.take_pending()) is not None:
            return reason_of(pending, self.name) if isinstance(pending, callbacks.CheckError) else pending
        match code:
            case _ if code == REFUSED:
                return None
            case _ if code == INTERRUPTED:
                return KeyboardInterrupt()
            case _ if code == TOO_DEEP:
                return RecursionError(TOO_DEEP_MESSAGE)
            case _ if code == TOO_MANY_LEVELS:
                return RecursionError(f"the recursion is deeper than {MAX_LEVELS} calls")
            case _ if code < FAILURES:
                is_interrupt = take_error_kind() == KeyboardInterrupt.__name__
                return KeyboardInterrupt() if is_interrupt else out_of_memory(self.name)
        match self._failures[code - FAILURES]:
            case ["assertion", int() as number]:
                return self._assertions[number].error()
            case ["index"]:
                index, length = self._state_words(workspace)[_DETAIL : _DETAIL + 2].tolist()
                message = callbacks.index_message(index, length)
                return attach_check(IndexError(message), FailedCheck("take", length))
            case [_, str() as message, str() as operator]:
                return refused_value(message, operator)
            case [_, str() as message]:
                return ValueError(message)
        raise AssertionError(f"the machine code ended with the code {code}")

    # Workspaces

    def _workspace_bytes(self, sizes: tuple[int, ...]) -> int:
        """Return the bytes of a call's workspace: of its state, and of its temporaries."""
        (temporaries,) = self._workspace_of(*sizes)
        state = -(-self._state * 8 // _ALIGNMENT) * _ALIGNMENT
        return state + temporaries + _ALIGNMENT if state or temporaries else 0

    def borrow_workspace(self) -> np.ndarray:
        """Return a workspace for one call, which goes to ``idle`` afterwards."""
        if not self.least_workspace:
            return NOTHING
        try:
            return self.idle.pop()
        except IndexError:
            return self._new_workspace(self.least_workspace)

    def small_workspace(self) -> np.ndarray | None:
        """Return a workspace for calls that CPython makes directly, one at a time; None if it is large.

        Where the sizes of a call decide how large it must be, the machine code says if it is too small.
        """
        nbytes = self.least_workspace
        if nbytes and self.dims:
            nbytes = max(nbytes, _SMALL_WORKSPACE)
        if nbytes > _SMALL_WORKSPACE:
            return None
        if not nbytes:
            return NOTHING
        workspace = self._new_workspace(nbytes)
        if self._state:
            self._state_words(workspace)[_DIRECT] = 1
        return workspace

    def _new_workspace(self, nbytes: int) -> np.ndarray:
        if nbytes > _MOST_BYTES:
            raise out_of_memory(self.name)
        try:
            workspace = np.empty(nbytes, np.uint8)
        except MemoryError:
            raise out_of_memory(self.name) from None
        if self._state:
            workspace[: self._state * 8 + _ALIGNMENT] = 0
            self._set_limit(workspace, _SHALLOW)
        return workspace

    def _state_words(self, workspace: np.ndarray) -> np.ndarray:
        begin = state_address(workspace) - workspace.ctypes.data
        return workspace[begin : begin + 8 * self._state].view(np.int64)

    def _set_limit(self, workspace: np.ndarray, depth: int) -> None:
        """Set how deep the call may recurse."""
        self._state_words(workspace)[_LEVELS] = depth


def state_address(workspace: np.ndarray) -> int:
    """Return the address of a call's state, with which its workspace begins."""
    return workspace.ctypes.data + -workspace.ctypes.data % _ALIGNMENT


def out_of_memory(function: str) -> MemoryError:
    """Return the error of a call of the function that needs more memory than there is."""
    return MemoryError(f"@{function}: a tensor of this call needs more memory than there is")
