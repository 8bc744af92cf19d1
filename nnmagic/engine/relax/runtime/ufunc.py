"""Make NumPy's ufuncs of functions of Python, each of which runs a whole loop.

``codegen/direct_call.py`` has the machine code that NumPy calls, one function for all ufuncs: it takes
Python's lock and calls the function with the addresses that NumPy gives. What the function raises the call of
the ufunc raises.
"""

from __future__ import annotations

import copyreg
import ctypes
import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from nnmagic.engine.relax.runtime.loader import load_objects

#: The function of the object file that returns the address of the loop.
LOOP = "nnmagic_address_of_ufunc_loop"

#: The number of PyUFunc_FromFuncAndDataAndSignature in NumPy's table, and its argument for no identity.
_FROM_FUNCTIONS, _NO_IDENTITY = 31, -1

#: A loop: the addresses of the operands' addresses, of the sizes, and of the strides.
Loop = Callable[[int, int, int], None]


class LoopWord(Enum):
    """The words that machine code finds at the address of a loop's data, all of them addresses."""

    PYTHON = 0
    TAKE_LOCK = 1
    RELEASE_LOCK = 2
    TO_INT = 3
    CALL = 4
    DECREF = 5

    @property
    def is_number(self) -> bool:
        """Whether it is a number."""
        return False


class _Fields(ctypes.Structure):
    """NumPy's PyUFuncObject behind the head that all objects have, as far as it has been since NumPy 1.0."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("inputs", "outputs", "operands", "identity")),
        *((name, ctypes.c_void_p) for name in ("functions", "data")),
        *((name, ctypes.c_int) for name in ("loops", "reserved")),
        *((name, ctypes.c_void_p) for name in ("name", "types", "doc", "memory", "object")),
    )


@dataclass(frozen=True, eq=False)
class Parts:
    """What a ufunc is made of, which it keeps alive; ``owner`` is pickled in its place by ``restore``."""

    loops: Sequence[Loop]
    owner: object
    restore: Callable[..., np.ufunc]
    memory: Sequence[object]


def make_ufunc(
    code: bytes,
    name: str,
    doc: str,
    signature: str,
    loops: Sequence[tuple[Sequence[np.dtype[Any]], Loop]],
    inputs: int,
    owner: object,
    restore: Callable[..., np.ufunc],
) -> np.ufunc:
    """Return a ufunc; it is generalized if ``signature`` is not empty.

    Args:
        code: the object file of the machine code that calls loops.
        name: of the ufunc.
        doc: its docstring.
        signature: as NumPy writes it.
        loops: the dtypes of the operands and what runs each loop.
        inputs: how many operands are inputs.
        owner: what a pickle holds, and ``restore`` takes.
        restore: returns the ufunc again for the owner and the loops.

    """
    outputs = len(loops[0][0]) - inputs
    words = [_words(loop) for _, loop in loops]
    functions = (ctypes.c_void_p * len(loops))(*[_loop_address(code)] * len(loops))
    data = (ctypes.c_void_p * len(loops))(*map(ctypes.addressof, words))
    types = ctypes.create_string_buffer(bytes(dtype.num for dtypes, _ in loops for dtype in dtypes))
    texts = [ctypes.create_string_buffer(text.encode()) for text in (name, doc)]
    parts = Parts([loop for _, loop in loops], owner, restore, (words, functions, data, types, texts))
    made: np.ufunc = _from_functions()(
        *(functions, data, types, len(loops), inputs, outputs, _NO_IDENTITY),
        *(*texts, 0, signature.encode() if signature else None),
    )
    fields = _fields_of(made)
    if fields.name != ctypes.addressof(texts[0]) or fields.object:
        raise RuntimeError("this version of NumPy has ufuncs of another layout")
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(parts))
    fields.object = id(parts)
    if not gc.is_tracked(made):  # as those of np.frompyfunc are: its parts may hold it
        ctypes.pythonapi.PyObject_GC_Track(ctypes.py_object(made))
    _pickle_ufuncs()
    return made


def _words(loop: Loop) -> Any:
    """Return the data of a loop for the machine code."""
    api = ctypes.pythonapi
    found: dict[LoopWord, Any] = {
        LoopWord.PYTHON: id(loop),
        LoopWord.TAKE_LOCK: api.PyGILState_Ensure,
        LoopWord.RELEASE_LOCK: api.PyGILState_Release,
        LoopWord.TO_INT: api.PyLong_FromVoidPtr,
        LoopWord.CALL: api.PyObject_CallFunctionObjArgs,
        LoopWord.DECREF: api.Py_DecRef,
    }
    addresses = [ctypes.cast(each, ctypes.c_void_p).value for each in found.values()]
    return (ctypes.c_void_p * len(LoopWord))(*addresses)


@cache
def _from_functions() -> Callable[..., Any]:
    """Return NumPy's function that makes ufuncs."""
    get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    package = "numpy._core" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "numpy.core"
    table = get_pointer(import_module(f"{package}._multiarray_umath")._UFUNC_API, None)
    address = ctypes.c_void_p.from_address(table + ctypes.sizeof(ctypes.c_void_p) * _FROM_FUNCTIONS).value
    assert address is not None
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


def parts_of(ufunc: np.ufunc) -> Parts | None:
    """Return what a ufunc was made of by ``make_ufunc``; None for any other."""
    address = _fields_of(ufunc).object
    found: object = ctypes.cast(address, ctypes.py_object).value if address else None
    return found if isinstance(found, Parts) else None


@cache
def _pickle_ufuncs() -> None:
    """Have our ufuncs pickled with their owners; others are pickled as before, by their names."""
    otherwise: Callable[[np.ufunc], str] = copyreg.dispatch_table.get(np.ufunc, lambda ufunc: ufunc.__name__)

    def reduce(ufunc: np.ufunc) -> str | tuple[Any, ...]:
        parts = parts_of(ufunc)
        if parts is None:
            return otherwise(ufunc)
        return parts.restore, (parts.owner, parts.loops)

    copyreg.pickle(np.ufunc, reduce)
