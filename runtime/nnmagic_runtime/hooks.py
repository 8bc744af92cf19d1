"""Stand for TVM where machine code calls it: memory, threads, and functions of Python by name.

Machine code calls a function with its handle: here the address of machine code that takes what any function
takes, `int (void *, const value *, int32_t, value *)`. Python is entered by way of ``_ASK``, which first has
the signals handled that came meanwhile: where Python handled one in a function that C calls, its exception
would be lost. The function says by a word whether it has ended well, which is 0 only then.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from nnmagic.engine.threads import num_threads
from nnmagic_runtime.memory import CodeMemory

#: A value: its type, and 64 bits.
VALUE = struct.Struct("<qq")
_NONE, _INT = 0, 1

#: What a function of Python is to C that takes up to four words, and where it says how it has ended.
_HOOK = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * 4, ctypes.POINTER(ctypes.c_int64))

#: What a poll is, and the part of a parallel loop.
_POLL, _PART = (
    ctypes.CFUNCTYPE(ctypes.c_int),
    ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, *[ctypes.c_void_p] * 2),
)


def _code(text: str, *words: int) -> bytes:
    """Return instructions, in hexadecimal, and words behind them: ``@k`` is the distance of word k."""
    parts = " ".join(line.partition(";")[0] for line in text.splitlines()).split()
    size = sum(4 if part.startswith("@") else 1 for part in parts)
    size = -(-size // 8) * 8
    code = b""
    for part in parts:
        if part.startswith("@"):
            code += struct.pack("<i", size + 8 * int(part[1:]) - len(code) - 4)
        else:
            code += bytes.fromhex(part)
    return code.ljust(size, b"\x90") + struct.pack(f"<{len(words)}Q", *words)


#: TVMFFIFunctionCall(handle, …): a handle is the address of the code.
_CALL = "ff e7 ; jmp rdi"

#: TVMFFIHandleInitOnce(handle, find): look for it unless it is there.
_ONCE = """
    48 83 3f 00          ; cmp qword [rdi], 0
    75 02                ; jne done
    ff e6                ; jmp rsi
    31 c0                ; done: xor eax, eax
    c3                   ; ret
"""

#: TVMBackendAllocWorkspace(device, number, bytes, …): aligned_alloc(64, bytes, rounded up).
_ALLOCATE = """
    48 8d 72 7f          ; lea rsi, [rdx + 127]
    48 83 e6 c0          ; and rsi, -64
    bf 40 00 00 00       ; mov edi, 64
    ff 25 @0             ; jmp [aligned_alloc]
"""

#: TVMBackendFreeWorkspace(device, number, memory).
_FREE = """
    50                   ; push rax
    48 89 d7             ; mov rdi, rdx
    ff 15 @0             ; call [free]
    31 c0                ; xor eax, eax
    59                   ; pop rcx
    c3                   ; ret
"""

#: The function that asks whether to stop: it gives the int that Python answers.
_POLLED = """
    51                   ; push rcx
    ff 15 @0             ; call [poll]
    59                   ; pop rcx
    48 c7 01 01 00 00 00 ; mov qword [rcx], 1
    48 98                ; cdqe
    48 89 41 08          ; mov [rcx + 8], rax
    31 c0                ; xor eax, eax
    c3                   ; ret
"""

#: Polls; then calls a function of Python with the four words and a fifth, for its status.
_ASK = """
    57 56 52 51          ; push rdi, rsi, rdx, rcx
    6a ff                ; push -1
    ff 15 @0             ; call [poll]
    85 c0                ; test eax, eax
    75 1d                ; jne end
    48 8b 4c 24 08       ; mov rcx, [rsp + 8]
    48 8b 54 24 10       ; mov rdx, [rsp + 16]
    48 8b 74 24 18       ; mov rsi, [rsp + 24]
    48 8b 7c 24 20       ; mov rdi, [rsp + 32]
    49 89 e0             ; mov r8, rsp
    ff 15 @1             ; call [the function]
    58                   ; end: pop rax
    48 83 c4 20          ; add rsp, 32
    c3                   ; ret
"""

#: What machine code refers to for the life of the process.
_held: list[object] = []


class _Raised(threading.local):
    """What a function of Python raised in machine code of this thread."""

    error: BaseException | None = None


_raised = _Raised()


def take_error() -> BaseException | None:
    """Return what a function of Python raised in this thread's machine code, once."""
    error, _raised.error = _raised.error, None
    return error


def _placed(text: str, *words: int) -> int:
    """Return the address of instructions."""
    code = _code(text, *words)
    memory = CodeMemory([len(code)])
    memory.bytes[: len(code)] = code
    memory.protect()
    _held.append(memory)
    return memory.address


def _address_of(function: Any) -> int:
    _held.append(function)
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _hook(function: Callable[[int, int, int, int], None]) -> int:
    """Return the address of a function of Python for machine code, which gets -1 where it raises."""

    def run(a: int, b: int, c: int, d: int, status: Any) -> None:
        try:
            function(a, b, c, d)
        except BaseException as error:  # noqa: BLE001 - it is raised when the machine code has returned
            _raised.error = error
        else:
            status[0] = 0

    return _placed(_ASK, _poll_address(), _address_of(_HOOK(run)))


# -- functions by name ----------------------------------------------------------------------------------

#: The functions of Python that machine code may call, and the name of that which it polls with.
_functions: dict[str, Callable[..., Any]] = {}
_POLL_NAME = "nnmagic.poll"


def register(name: str, function: Callable[..., Any], *, override: bool = False) -> None:
    """Let machine code call a function by its name."""
    del override
    _functions[name] = function


@cache
def _poll_address() -> int:
    return _address_of(_POLL(_functions[_POLL_NAME]))


@cache
def _handle(name: str) -> int:
    """Return the handle of a function. Raises RuntimeError if there is none."""
    if name == _POLL_NAME:
        return _placed(_POLLED, _poll_address())
    if name not in _functions:
        raise RuntimeError(f"the machine code calls {name}, which the runtime does not have")
    function = _functions[name]

    def call(_handle: int, values: int, count: int, result: int) -> None:
        size = count & 0xFFFFFFFF
        given = [_python(*VALUE.unpack(ctypes.string_at(values + 16 * k, 16))) for k in range(size)]
        returned = function(*given)
        kind = _NONE if returned is None else _INT
        ctypes.memmove(result, VALUE.pack(kind, int(returned or 0)), 16)

    return _hook(call)


def _python(kind: int, word: int) -> Any:
    """Return a value of machine code as one of Python."""
    match kind & 0xFFFFFFFF:
        case 0:
            return None
        case 1:
            return word
        case 2:
            return bool(word)
        case 3:
            return struct.unpack("<d", struct.pack("<q", word))[0]
        case 4:
            return ctypes.c_void_p(word)
        case 8:
            return ctypes.string_at(word).decode()
    raise RuntimeError(f"the machine code gives a value of the kind {kind}, which the runtime does not know")


def _look_up(_context: int, name: int, handle: int, _unused: int) -> None:
    """Stand for TVMFFIEnvModLookupFromImports."""
    ctypes.c_uint64.from_address(handle).value = _handle(ctypes.string_at(name).decode())


def _raise(kind: int, message: int, _unused: int, _unused_too: int) -> None:
    """Stand for TVMFFIErrorSetRaisedFromCStr: keep an error; the machine code then says that it failed."""
    raise _ERRORS.get(ctypes.string_at(kind), RuntimeError)(ctypes.string_at(message).decode())


def _raise_parts(kind: int, parts: int, count: int, _unused: int) -> None:
    """Stand for TVMFFIErrorSetRaisedFromCStrParts, which takes the message in parts."""
    words = (ctypes.c_char_p * (count & 0xFFFFFFFF)).from_address(parts)
    raise _ERRORS.get(ctypes.string_at(kind), RuntimeError)(b"".join(filter(None, words)).decode())


#: The errors of Python that TVM's code raises by their names; others are RuntimeErrors.
_ERRORS = {each.__name__.encode(): each for each in (TypeError, ValueError, IndexError, AssertionError)}


# -- threads --------------------------------------------------------------------------------------------


class _Group(ctypes.Structure):
    """What the parts of a parallel loop are told of it."""

    _fields_ = (("unused", ctypes.c_void_p), ("count", ctypes.c_int32))


class _Loop:
    """A parallel loop that runs: once it is closed, no part begins, and ``close`` waits for the others.

    It needs no lock, which the exception of a signal could leave locked: a part is active before it looks.
    """

    def __init__(self, body: int, data: int, count: int) -> None:
        self._part, self._data, self._group = _PART(body), data, _Group(None, count)
        self._active, self._is_closed = set[int](), False
        self.codes: list[int] = []

    def run(self, number: int) -> None:
        """Run a part."""
        self._active.add(number)
        if not self._is_closed:
            self.codes.append(self._part(number, ctypes.addressof(self._group), self._data))
        self._active.discard(number)

    def close(self) -> None:
        """Wait until no part runs."""
        self._is_closed = True
        while self._active:
            time.sleep(1e-4)


class _Threads:
    """The threads that parallel loops use beside the caller's own."""

    def __init__(self) -> None:
        self.size = 0
        self._pool: Any = None
        self._pool_size = 0

    def launch(self, body: int, data: int, wanted: int) -> None:
        """Run the parts of a loop. Raises what a signal raises meanwhile, RuntimeError where a part fails."""
        most = self.size or num_threads()
        count = min(wanted & 0xFFFFFFFF or most, most)
        loop, errors = _Loop(body, data, count), list[BaseException]()
        try:
            others = [self._submit(loop, number, count) for number in range(1, count)]
            loop.run(0)
            for other in others:
                other.result()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)
        while True:  # they use the caller's memory
            try:
                loop.close()
                break
            except BaseException as error:  # noqa: BLE001 - raised below
                errors.append(error)
        if errors:
            raise errors[0]
        if len(loop.codes) != count or any(loop.codes):
            raise RuntimeError("a part of a parallel loop failed")

    def _submit(self, loop: _Loop, number: int, count: int) -> Any:
        if self._pool_size < count:
            from concurrent.futures import ThreadPoolExecutor

            # The one before ends when no loop uses it: another thread may be about to.
            self._pool, self._pool_size = ThreadPoolExecutor(count - 1, "nnmagic"), count
        return self._pool.submit(loop.run, number)


_threads = _Threads()


def _launch(body: int, data: int, wanted: int, _unused: int) -> None:
    """Stand for TVMBackendParallelLaunch."""
    _threads.launch(body, data, wanted)


def _barrier(_number: int, _group: int, _unused: int, _unused_too: int) -> None:
    """Stand for TVMBackendParallelBarrier, which code that was not optimised names, and none calls."""
    raise RuntimeError("the machine code waits for a barrier, which the runtime does not have")


def set_pool_size(_mode: int, size: int, _cores: object) -> None:
    """Set how many threads parallel loops use; the other arguments are TVM's."""
    _threads.size = size


# -- the table ------------------------------------------------------------------------------------------


@cache
def hooks() -> dict[str, int]:
    """Return the addresses that machine code finds TVM's functions by."""
    library = ctypes.CDLL(None)
    return {
        "__TVMFFIFunctionCall": _placed(_CALL),
        "__TVMFFIHandleInitOnce": _placed(_ONCE),
        "__TVMFFIEnvModLookupFromImports": _hook(_look_up),
        "__TVMFFIErrorSetRaisedFromCStr": _hook(_raise),
        "__TVMFFIErrorSetRaisedFromCStrParts": _hook(_raise_parts),
        "__TVMBackendAllocWorkspace": _placed(_ALLOCATE, _address_of(library.aligned_alloc)),
        "__TVMBackendFreeWorkspace": _placed(_FREE, _address_of(library.free)),
        "__TVMBackendParallelLaunch": _hook(_launch),
        "__TVMBackendParallelBarrier": _hook(_barrier),
    }


def _in_child() -> None:
    global _threads  # noqa: PLW0603 - the parent's threads are not here
    _threads = _Threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
