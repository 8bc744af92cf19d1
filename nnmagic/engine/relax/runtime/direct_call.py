"""Make functions that CPython calls directly: machine code takes NumPy's arrays and makes the result.

``codegen/direct_call.py`` has the code, one function for all programs. A table says what a program takes and
gives; it has arrays of rank 0 for the numbers that Python and NumPy give, and for the scalars that a call
returns. What is not as the table says, the code hands over to a callable of Python: other arguments,
keywords, and calls that fail, loop for long or need threads, which are run again. Python's lock is released
for all but small arrays. A table has one workspace: it is busy while other threads run.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

import numpy as np

from nnmagic.engine.relax.artifact import Json
from nnmagic.engine.relax.runtime import numpy_abi
from nnmagic.engine.relax.runtime.fast_path import exact_ints
from nnmagic.engine.relax.runtime.ffi import tvm_ffi
from nnmagic.engine.relax.runtime.loader import load_objects, runtime_function
from nnmagic.engine.relax.runtime.native_entry import state_address

#: The function of the object file that returns the address of the code.
ADDRESS = "nnmagic_address_of_direct_call"

#: What a table can describe at most: parameters, results, named sizes, and sizes of a result with what they
#: are computed from, which are held at once.
MAX_ARITY, MAX_RESULTS, MAX_DIMS, MAX_DEPTH = 8, 8, 8, 16

#: The largest size, and the largest number that one is computed from: products of two are below 2**63.
LARGEST = (1 << 31) - 1

#: The function that takes three addresses: of a mark that threads can have, of what reads it, and of TVM's
#: function that starts tasks of a thread pool. It returns that of a function that refuses to there.
LAUNCH = "nnmagic_guard_launch"

#: The most elements of a call, an array of so many or the product of the sizes that a call names, and the
#: most for which it holds Python's lock.
_MOST, _MOST_LOCKED = 1 << 26, 1 << 13

#: The most elements that a program computes while it holds Python's lock, if that is known.
_MOST_WORK = 1 << 17

#: The name under which kernels find TVM's function that starts tasks of a thread pool.
_LAUNCH_OF_TVM = "TVMBackendParallelLaunch"


class Word(Enum):
    """The words at the beginning of a table, with their places."""

    ARITY = 0
    DIMS = 1
    LIMIT = 2
    MOST_LOCKED = 3
    RESULTS = 4
    IS_TUPLE = 5
    BUSY = 6
    SKIPS = 7
    PROGRAM = 8
    WORKSPACE = 9
    CONSTANTS = 10
    ARRAY_TYPE = 11
    NEW_ARRAY = 12
    CALL_PYTHON = 13
    CALL = 14
    INCREF = 15
    DECREF = 16
    CLEAR_ERROR = 17
    SWITCH = 18
    ADDRESSES = 19
    RELEASE = 20
    FLOAT_TYPE = 21
    INT_TYPE = 22
    READ_INT = 23
    MARK = 24
    WRITE_MARK = 25
    SAVE_THREAD = 26
    RESTORE_THREAD = 27
    NEW_TUPLE = 28
    SET_ITEM = 29
    TO_SCALAR = 30
    STATE = 31
    LEFT_COUNT = 32
    FIRST_LEFT = 33
    SCALARS = 34

    @property
    def is_number(self) -> bool:
        """Whether it is a number; the others are addresses."""
        return self.value <= Word.SKIPS.value or self.value >= Word.STATE.value


class StackCode(Enum):
    """The instructions that compute the shape of a result on a stack: two words each, this and an operand."""

    NUMBER = 0
    DIM = 1
    ADD = 2
    SUBTRACT = 3
    MULTIPLY = 4
    DIVIDE = 5
    REMAINDER = 6
    MINIMUM = 7
    MAXIMUM = 8
    LESS = 9
    AT_MOST = 10
    GREATER = 11
    AT_LEAST = 12
    EQUAL = 13
    DIFFERENT = 14
    AND = 15
    OR = 16
    IF = 17

    @property
    def operands(self) -> int:
        """The sizes that it takes from the stack."""
        match self:
            case StackCode.NUMBER | StackCode.DIM:
                return 0
            case StackCode.DIVIDE | StackCode.REMAINDER:  # by the operand, a number above 0
                return 1
        return 3 if self is StackCode.IF else 2


#: The operators of sizes and conditions, as an artifact states them.
_OPERATORS = {
    "+": StackCode.ADD,
    "-": StackCode.SUBTRACT,
    "*": StackCode.MULTIPLY,
    "min": StackCode.MINIMUM,
    "max": StackCode.MAXIMUM,
    "<": StackCode.LESS,
    "<=": StackCode.AT_MOST,
    ">": StackCode.GREATER,
    ">=": StackCode.AT_LEAST,
    "==": StackCode.EQUAL,
    "!=": StackCode.DIFFERENT,
    "and": StackCode.AND,
    "or": StackCode.OR,
    "if": StackCode.IF,
}
_DIVISIONS = {"//": StackCode.DIVIDE, "%": StackCode.REMAINDER}


class NumberWords(Enum):
    """The words of an argument of rank 0, with their places.

    ARRAY: an array of eight bytes that a number is put into, 0 where none is taken. SCALAR: NumPy's type of
    such numbers. FLOAT_KIND: 1 of float64, 2 of float32, else 0. LEAST, LARGEST: the ints that it takes.
    """

    ARRAY = 0
    SCALAR = 1
    FLOAT_KIND = 2
    LEAST = 3
    LARGEST = 4


#: Where the words of the arguments begin.
NUMBERS = len(Word)

#: Where the named sizes begin, with three words each: an argument, its axis (below 0 where its value is the
#: size), its rank. The results that the program fills follow: rank, dtype, the most elements, the number of
#: instructions, and the array that the program fills where a scalar is returned, else 0; then the
#: instructions for the shape. Then dtype, rank and bytes of an element of each result that it
#: leaves. At last, for each of all results, its number among those that are filled and then those that are
#: left.
RESULT_WORDS, LEFT_WORDS = 5, 3
DIMENSIONS = NUMBERS + MAX_ARITY * len(NumberWords)

#: CPython's flags of a function that takes its arguments as a vector, with keywords.
_FASTCALL_WITH_KEYWORDS = 0x80 | 0x02

#: The number of PyArray_Return in NumPy's table of functions of arrays. It takes one, and returns a scalar
#: in its place if it is of rank 0.
_RETURN = 76

#: The two switches that tables point to: one that is never set, and that of programs with kernels for
#: threads, which is set in a forked child: its parent's threads are not there.
_switches = np.zeros(2, np.int64)


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


#: The shape of an array, as an artifact states it, and its dtype.
Array = tuple[Sequence[Json], np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Signature:
    """What a program takes and gives.

    Attributes:
        parameters: the arrays that it takes.
        dims: the array and the axis that has each size that a call names, or the integer and ``VALUE``.
        results: the arrays that it fills.
        left: the arrays that it leaves where they are: their numbers among all results, dtypes and ranks.
        is_tuple: whether a call returns a tuple of all, else the only one.
        scalars: whether results of rank 0 are NumPy's scalars, else arrays.
        parallel: whether it has kernels for threads; these were loaded after ``guard_launches``.
        work: how many elements it computes, if that is known.

    """

    parameters: Sequence[Array]
    dims: Sequence[tuple[int, int]]
    results: Sequence[Array]
    left: Sequence[tuple[int, np.dtype[Any], int]]
    is_tuple: bool
    scalars: bool
    parallel: bool
    work: int | None


def make_direct_call(
    code: bytes,
    program: Signature,
    run: tuple[Any, Any],
    held: tuple[np.ndarray, np.ndarray],
    otherwise: Callable[..., Any],
) -> Callable[..., Any] | None:
    """Return a function of the arguments of a call; None if a table cannot describe the program.

    Args:
        code: the object file, if it is not loaded yet.
        program: what it takes and gives.
        run: the entry, and what frees the results that it left if it leaves some: functions of TVM's.
        held: what its last two arguments are, the workspace and the table of constants.
        otherwise: what is called for all other arguments.

    """
    parameters, dims, results = program.parameters, program.dims, program.results
    filled = [np.zeros((), dtype) if program.scalars and not shape else None for shape, dtype in results]
    described = [_describe(*result, slot) for result, slot in zip(results, filled, strict=True)]
    constant = max(_known_elements(shape) for shape, _ in (*parameters, *results, ((), None)))
    is_light = constant <= _MOST_LOCKED if program.work is None else program.work <= _MOST_WORK
    if None in described or constant > _MOST or not _fits(program):
        return None
    if (method := _loaded_method(code)) is None:
        return None
    addresses = np.empty(sum(1 + rank for _, _, rank in program.left), np.int64)
    words = {
        Word.ARITY: len(parameters),
        Word.DIMS: len(dims),
        Word.LIMIT: _MOST // constant,
        Word.MOST_LOCKED: _MOST_LOCKED // constant if dims else int(is_light),
        Word.RESULTS: len(results),
        Word.IS_TUPLE: int(program.is_tuple),
        Word.BUSY: 0,
        Word.SKIPS: 0,
        Word.PROGRAM: run[0].__chandle__(),
        Word.WORKSPACE: id(held[0]),
        Word.CONSTANTS: id(held[1]),
        Word.ARRAY_TYPE: id(np.ndarray),
        **_functions(),
        Word.SWITCH: _switches[int(program.parallel) :].ctypes.data,
        Word.ADDRESSES: id(addresses) if program.left else 0,
        Word.RELEASE: 0 if run[1] is None else run[1].__chandle__(),
        Word.STATE: state_address(held[0]),
        Word.LEFT_COUNT: len(program.left),
        Word.FIRST_LEFT: DIMENSIONS + 3 * len(dims) + sum(len(argument or ()) for argument in described),
        Word.MARK: launch_mark().value if program.parallel else 0,
        Word.SCALARS: sum(slot is not None for slot in filled),
    }
    slots = [None if shape else _slot(kind) for shape, kind in parameters]
    table = [*(words[word] for word in Word), *_tail(program, slots, described)]
    parts = np.empty(3, object)
    parts[:] = (
        otherwise,
        np.array(table, np.int64),
        (run, held, results, addresses, program.left, slots, filled),
    )
    return _new_function(method, parts)


def _fits(program: Signature) -> bool:
    """Return whether a table has room for the arrays and the sizes of a program."""
    return (
        0 < len(program.parameters) <= MAX_ARITY
        and 0 < len(program.results) + len(program.left) <= MAX_RESULTS
        and len(program.dims) <= MAX_DIMS
        and (bool(program.dims) or not program.parallel)
    )


def _tail(
    program: Signature, slots: Sequence[np.ndarray | None], described: Sequence[list[int] | None]
) -> list[int]:
    """Return the words of a table behind those of ``Word``: see ``DIMENSIONS``."""
    parameters, results = program.parameters, program.results
    named = [word for array, axis in program.dims for word in (array, axis, len(parameters[array][0]))]
    numbers = np.zeros((MAX_ARITY, len(NumberWords)), np.int64)
    for at, (slot, (_, kind)) in enumerate(zip(slots, parameters, strict=True)):
        if slot is not None:
            numbers[at] = _number_words(slot, kind)
    of_result = [word for argument in described for word in argument or ()]
    of_left = [word for _, dtype, rank in program.left for word in (id(dtype), rank, dtype.itemsize)]
    order = list(range(len(results)))
    for at, (number, _, _) in enumerate(program.left, len(results)):
        order.insert(number, at)
    return [*numbers.flat, *named, *of_result, *of_left, *order]


def _describe(shape: Sequence[Json], dtype: np.dtype[Any], slot: np.ndarray | None) -> list[int] | None:
    """Return the words that describe a result, of which `slot` becomes a scalar; None if they cannot."""
    codes = [_instructions(size, depth) for depth, size in enumerate(shape)]
    if None in codes:
        return None
    pairs = [pair for code in codes for pair in code or ()]
    most = max(_MOST, _known_elements(shape))
    head = [len(shape), id(dtype), most, len(pairs), 0 if slot is None else id(slot)]
    return [*head, *(word for pair in pairs for word in pair)]


def _slot(dtype: np.dtype[Any]) -> np.ndarray | None:
    """Return an array of rank 0 in eight bytes for numbers; None of a dtype that has no such scalars."""
    if dtype.isbuiltin != 1 or dtype.itemsize > 8 or dtype.kind not in "fiub":
        return None
    return np.zeros(8 // dtype.itemsize, dtype)[:1].reshape(())


def _number_words(slot: np.ndarray, dtype: np.dtype[Any]) -> list[int]:
    """Return the words of an argument, as ``NumberWords`` has them: no ints that may be rounded."""
    float_kind = {"float64": 1, "float32": 2}.get(dtype.name, 0)
    takes_ints = float_kind or (dtype.kind in "iu" and dtype != np.uint64)  # which are read as int64
    least, largest = exact_ints(dtype.name) if takes_ints else (1, 0)
    return [id(slot), id(dtype.type), float_kind, least, largest]


def _instructions(size: Json, depth: int) -> list[tuple[int, int]] | None:
    """Return the instructions that compute a size above others on the stack; None if a table has none."""
    if depth >= MAX_DEPTH:
        return None
    match size:
        case int() if abs(size) <= LARGEST:
            return [(StackCode.NUMBER.value, size)]
        case ["dim", int() as number]:
            return [(StackCode.DIM.value, number)]
        case [str() as name, part, int() as divisor] if name in _DIVISIONS and 0 < divisor <= LARGEST:
            inner = _instructions(part, depth)
            return None if inner is None else [*inner, (_DIVISIONS[name].value, divisor)]
        case [str() as name, *parts] if name in _OPERATORS:
            codes = [_instructions(part, depth + place) for place, part in enumerate(parts)]
            if None not in codes:
                return [*(pair for code in codes for pair in code or ()), (_OPERATORS[name].value, 0)]
    return None


def _known_elements(shape: Sequence[Json]) -> int:
    """Return the product of the sizes that are known."""
    count = 1
    for size in shape:
        count *= max(size, 1) if isinstance(size, int) else 1
    return count


def _address_of(function: Any) -> int:
    value = ctypes.cast(function, ctypes.c_void_p).value
    assert value is not None
    return value


@cache
def _functions() -> dict[Word, int]:
    """Return the addresses of functions of CPython, NumPy and TVM."""
    api = ctypes.pythonapi
    return {
        Word.NEW_ARRAY: numpy_abi.array_function(numpy_abi.NEW_FROM_DESCR),
        Word.TO_SCALAR: numpy_abi.array_function(_RETURN),
        Word.CALL_PYTHON: _address_of(api.PyObject_Vectorcall),
        Word.CALL: _address_of(tvm_ffi.LIB.TVMFFIFunctionCall),
        Word.INCREF: _address_of(api.Py_IncRef),
        Word.DECREF: _address_of(api.Py_DecRef),
        Word.CLEAR_ERROR: _address_of(api.PyErr_Clear),
        Word.FLOAT_TYPE: id(float),
        Word.INT_TYPE: id(int),
        Word.NEW_TUPLE: _address_of(api.PyTuple_New),
        Word.SET_ITEM: _address_of(api.PyTuple_SetItem),
        Word.READ_INT: _address_of(api.PyLong_AsLongLongAndOverflow),
        Word.WRITE_MARK: _address_of(api.PyThread_tss_set),
        Word.SAVE_THREAD: _address_of(api.PyEval_SaveThread),
        Word.RESTORE_THREAD: _address_of(api.PyEval_RestoreThread),
    }


#: Whether machine code finds what calls a function of Python; before Python 3.11 it is in C headers alone.
_CAN_CALL_BACK = hasattr(ctypes.pythonapi, "PyObject_Vectorcall")

#: The library that is loaded and its description for CPython, for the life of the process.
_loaded: list[tuple[Any, _Method]] = []


def guard_launches(code: bytes) -> bool:
    """Have kernels that are loaded from now on refuse to start threads in calls that CPython makes directly.

    Returns whether they do. ``code`` is the object file.
    """
    return _loaded_method(code) is not None


@cache
def launch_mark() -> ctypes.c_void_p:
    """Return the key of a mark that threads have while CPython calls a program with kernels for threads."""
    api = ctypes.pythonapi
    allocate = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThread_tss_alloc", api))
    key = ctypes.c_void_p(allocate())
    if not key.value or ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(("PyThread_tss_create", api))(key):
        raise MemoryError("there is no thread-specific storage left")
    return key


def _loaded_method(code: bytes) -> _Method | None:
    """Return the description of the code for CPython; None where it cannot be used."""
    if not _loaded and code and _CAN_CALL_BACK and numpy_abi.address is id:
        library = load_objects([code])
        read_mark = _address_of(ctypes.pythonapi.PyThread_tss_get)
        launch = _address_of(runtime_function(_LAUNCH_OF_TVM))
        guard = ctypes.c_void_p(library[LAUNCH](launch_mark().value, read_mark, launch))
        if tvm_ffi.LIB.TVMFFIEnvModRegisterContextSymbol(f"__{_LAUNCH_OF_TVM}".encode(), guard):
            return None
        _loaded.append((library, _Method(b"__call__", library[ADDRESS](), _FASTCALL_WITH_KEYWORDS, None)))
    return _loaded[0][1] if _loaded else None


def _new_function(method: _Method, parts: np.ndarray) -> Callable[..., Any]:
    create = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
        ("PyCFunction_NewEx", ctypes.pythonapi)
    )
    function: Callable[..., Any] = create(ctypes.addressof(method), parts, None)
    return function


def _in_child() -> None:
    _switches[1] = 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
