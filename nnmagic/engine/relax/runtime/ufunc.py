"""Make NumPy's ufuncs of functions of Python, each of which runs a whole loop.

``codegen/direct_call.py`` has the machine code that NumPy calls, one function for all ufuncs: it takes
Python's lock and calls the function with an array for each operand, over NumPy's memory. What the function
raises the call of the ufunc raises; NumPy may go on with the next loop first, which does nothing. The flags
of floats are cleared afterwards: machine code for several elements at once computes some that nobody asked
for.
"""

from __future__ import annotations

import contextlib
import copyreg
import ctypes
import gc
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, Protocol

import numpy as np

from nnmagic.engine.relax.runtime import numpy_abi
from nnmagic.engine.relax.runtime.direct_call import launch_mark
from nnmagic.engine.relax.runtime.ffi import tvm_ffi
from nnmagic.engine.relax.runtime.loader import load_objects

#: The function of the object file that returns the address of the loop.
LOOP = "nnmagic_address_of_ufunc_loop"

#: The most axes of a row.
MAX_RANK = 31

#: The number of PyUFunc_FromFuncAndDataAndSignature in NumPy's table, and its argument for no identity.
_FROM_FUNCTIONS, _NO_IDENTITY = 31, -1

#: The most operands of a loop that runs without Python.
MOST_OPERANDS = 8


class UfuncLoop(Protocol):
    """A loop, which takes an array for each operand: its rows are along the first axis."""

    #: The words that machine code finds at the address of its data.
    words: np.ndarray | None

    def __call__(self, *arrays: np.ndarray) -> None:
        """Run the loop."""


class LoopWord(Enum):
    """The words that machine code finds at the address of a loop's data; those of the operands follow.

    Each operand has its dtype, the bytes of an element, the rank of its rows, and for each axis the number
    of its size, from 1 on. PROGRAM: what runs rows of numbers without Python; 0 if nothing does yet.
    """

    PYTHON = 0
    TAKE_LOCK = 1
    RELEASE_LOCK = 2
    ARRAY_TYPE = 3
    NEW_ARRAY = 4
    NEW_TUPLE = 5
    SET_ITEM = 6
    CALL_OBJECT = 7
    INCREF = 8
    DECREF = 9
    ERROR_OCCURRED = 10
    CLEAR_FLAGS = 11
    PROGRAM = 12
    WORKSPACE = 13
    CONSTANTS = 14
    RUN = 15
    MARK = 16
    WRITE_MARK = 17
    FLOAT_FLAGS = 18
    OPERANDS = 19
    INPUTS = 20
    BUSY = 21

    @property
    def is_number(self) -> bool:
        """Whether it is a number; the others are addresses."""
        return self.value >= LoopWord.FLOAT_FLAGS.value


class _Fields(ctypes.Structure):
    """NumPy's PyUFuncObject behind the head that all objects have, as far as it has been since NumPy 1.0."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("inputs", "outputs", "operands", "identity")),
        *((name, ctypes.c_void_p) for name in ("functions", "data")),
        *((name, ctypes.c_int) for name in ("loops", "reserved")),
        *((name, ctypes.c_void_p) for name in ("name", "types", "doc", "memory", "object")),
    )


@dataclass(frozen=True, eq=False)
class UfuncParts:
    """What a ufunc is made of, which it keeps alive; ``owner`` is pickled in its place by ``restore``."""

    loops: Sequence[UfuncLoop]
    owner: object
    restore: Callable[..., np.ufunc]
    memory: Sequence[object]


@dataclass(frozen=True, slots=True)
class Rows:
    """What the loops of a ufunc take: for each operand, the numbers of the sizes of a row among all sizes.

    ``signature`` is empty where rows are numbers.
    """

    inputs: int
    sizes: Sequence[Sequence[int]]
    signature: str


def make_ufunc(
    code: bytes,
    name: str,
    doc: str,
    rows: Rows,
    loops: Sequence[tuple[Sequence[np.dtype[np.generic]], UfuncLoop]],
    owner: object,
    restore: Callable[..., np.ufunc],
) -> np.ufunc:
    """Return a ufunc, generalized if its rows are arrays.

    Args:
        code: the object file of the machine code that calls loops.
        name: of the ufunc.
        doc: its docstring.
        rows: what the loops take.
        loops: the dtypes of the operands and what runs each loop.
        owner: what a pickle holds, and ``restore`` takes.
        restore: returns the ufunc again for the owner and the loops.

    """
    words = [_words(dtypes, rows, loop) for dtypes, loop in loops]
    functions = (ctypes.c_void_p * len(loops))(*[_loop_address(code)] * len(loops))
    data = (ctypes.c_void_p * len(loops))(*(word.ctypes.data for word in words))
    types = ctypes.create_string_buffer(bytes(dtype.num for dtypes, _ in loops for dtype in dtypes))
    texts = [ctypes.create_string_buffer(text.encode()) for text in (name, doc)]
    parts = UfuncParts(
        [loop for _, loop in loops], owner, restore, (words, functions, data, types, texts, loops)
    )
    outputs = len(rows.sizes) - rows.inputs
    ufunc: np.ufunc = _from_functions()(
        *(functions, data, types, len(loops), rows.inputs, outputs, _NO_IDENTITY),
        *(*texts, 0, rows.signature.encode() if rows.signature else None),
    )
    fields = _fields_of(ufunc)
    if fields.name != ctypes.addressof(texts[0]) or fields.object:
        raise RuntimeError("this version of NumPy has ufuncs of another layout")
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(parts))
    fields.object = id(parts)
    if not gc.is_tracked(ufunc):  # as those of np.frompyfunc are: its parts may hold it
        ctypes.pythonapi.PyObject_GC_Track(ctypes.py_object(ufunc))
    _pickle_ufuncs()
    return ufunc


def _words(dtypes: Sequence[np.dtype[np.generic]], rows: Rows, loop: UfuncLoop) -> np.ndarray:
    """Return the data of a loop for the machine code."""
    clear, flags = _float_flags()
    words: dict[LoopWord, Any] = {
        **_functions(),
        LoopWord.PYTHON: id(loop),
        LoopWord.ARRAY_TYPE: id(np.ndarray),
        LoopWord.CLEAR_FLAGS: clear,
        LoopWord.FLOAT_FLAGS: flags,
        LoopWord.OPERANDS: len(dtypes),
        LoopWord.INPUTS: rows.inputs,
        **dict.fromkeys((LoopWord.PROGRAM, LoopWord.WORKSPACE, LoopWord.CONSTANTS), 0),
        **dict.fromkeys((LoopWord.MARK, LoopWord.BUSY), 0),
    }
    operands = [
        word
        for dtype, sizes in zip(dtypes, rows.sizes, strict=True)
        for word in (id(dtype), dtype.itemsize, len(sizes), *(1 + number for number in sizes))
    ]
    loop.words = np.array([*(words[word] for word in LoopWord), *operands], np.int64)
    return loop.words


@dataclass(frozen=True, slots=True)
class LoopProgram:
    """A program of numbers that machine code may run.

    It takes an array for each operand, then the outputs again. ``parallel``: whether it has kernels for
    threads, which refuse to start any in marked threads.
    """

    run: Any
    workspace: np.ndarray
    constants: np.ndarray
    parallel: bool


def run_without_python(words: np.ndarray, program: LoopProgram) -> None:
    """Let machine code run short loops from now on; the program must stay as long as the words do."""
    if words[LoopWord.OPERANDS.value] <= MOST_OPERANDS:
        words[LoopWord.WORKSPACE.value] = id(program.workspace)
        words[LoopWord.CONSTANTS.value] = id(program.constants)
        words[LoopWord.MARK.value] = launch_mark().value if program.parallel else 0
        words[LoopWord.PROGRAM.value] = program.run.__chandle__()


@cache
def _functions() -> dict[LoopWord, int]:
    """Return the addresses of functions of CPython and NumPy."""
    api = ctypes.pythonapi
    found = {
        LoopWord.TAKE_LOCK: api.PyGILState_Ensure,
        LoopWord.RELEASE_LOCK: api.PyGILState_Release,
        LoopWord.NEW_TUPLE: api.PyTuple_New,
        LoopWord.SET_ITEM: api.PyTuple_SetItem,
        LoopWord.CALL_OBJECT: api.PyObject_CallObject,
        LoopWord.INCREF: api.Py_IncRef,
        LoopWord.DECREF: api.Py_DecRef,
        LoopWord.ERROR_OCCURRED: api.PyErr_Occurred,
        LoopWord.WRITE_MARK: api.PyThread_tss_set,
        LoopWord.RUN: tvm_ffi.LIB.TVMFFIFunctionCall,
    }
    addresses = {word: ctypes.cast(each, ctypes.c_void_p).value or 0 for word, each in found.items()}
    return {**addresses, LoopWord.NEW_ARRAY: numpy_abi.array_function(numpy_abi.NEW_FROM_DESCR)}


@cache
def _float_flags() -> tuple[int, int]:
    """Return the address of what clears flags of floats and the flags of errors; 0 where it is not known."""
    flags = {"x86_64": 0x3D, "AMD64": 0x3D, "aarch64": 0x1F, "arm64": 0x1F}.get(platform.machine())
    library = {"linux": "libm.so.6", "darwin": "libm.dylib"}.get(sys.platform)
    if flags is not None and library is not None:
        with contextlib.suppress(OSError, AttributeError):
            clear = ctypes.CDLL(library).feclearexcept
            return ctypes.cast(clear, ctypes.c_void_p).value or 0, flags
    return 0, 0


@cache
def _from_functions() -> Callable[..., Any]:
    """Return NumPy's function that makes ufuncs."""
    address = numpy_abi.ufunc_function(_FROM_FUNCTIONS)
    arrays, numbers = [ctypes.c_void_p] * 3, [ctypes.c_int] * 4
    texts = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]
    return ctypes.PYFUNCTYPE(ctypes.py_object, *arrays, *numbers, *texts)(address)


#: The library with the machine code, for the life of the process.
_loaded: list[Any] = []


def _loop_address(code: bytes) -> int:
    if not _loaded:
        _loaded.append(load_objects([code]))
    return int(_loaded[0][LOOP]())


def _fields_of(ufunc: np.ufunc) -> _Fields:
    return _Fields.from_address(id(ufunc) + object.__basicsize__)


def parts_of(ufunc: np.ufunc) -> UfuncParts | None:
    """Return what a ufunc was made of by ``make_ufunc``; None for any other."""
    address = _fields_of(ufunc).object
    object_: object = ctypes.cast(address, ctypes.py_object).value if address else None
    return object_ if isinstance(object_, UfuncParts) else None


@cache
def _pickle_ufuncs() -> None:
    """Have our ufuncs pickled with their owners; others are pickled as before, by their names."""
    otherwise: Callable[[np.ufunc], str] = copyreg.dispatch_table.get(np.ufunc, lambda ufunc: ufunc.__name__)

    def reduce(ufunc: np.ufunc) -> str | tuple[Any, ...]:
        fields = parts_of(ufunc)
        if fields is None:
            return otherwise(ufunc)
        return fields.restore, (fields.owner, fields.loops)

    copyreg.pickle(np.ufunc, reduce)
