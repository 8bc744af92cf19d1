"""Describe the memory of NumPy's array objects as compiled code reads it.

The layout is that of ``PyArrayObject_fields`` in numpy/ndarraytypes.h, which NumPy compiles into every
extension module and has kept since version 1.0; it is checked against arrays once all the same. If the check
fails, each array is described by a table of the same layout.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from importlib import import_module

import numpy as np

#: Field offsets in 8-byte words from the address of the object.
TYPE, DATA, RANK, DIMS, DESCR, FLAGS = 1, 2, 3, 4, 7, 8

#: How many words are read.
WORDS = 9

#: The flags of an array that can be read in place: C-contiguous and aligned.
READABLE = 0x101

#: Rank and flags are numbers of 32 bits.
LOW = 0xFFFFFFFF

#: The number of PyArray_NewFromDescr in NumPy's table of functions of arrays for extension modules.
NEW_FROM_DESCR = 94


def layout() -> str:
    """Return the field offsets by which machine code reads NumPy's array objects."""
    words = ("TYPE", "DATA", "RANK", "DIMS", "DESCR", "FLAGS", "WORDS", "READABLE")
    return " ".join(f"{word}={globals()[word]}" for word in words)


def array_function(number: int) -> int:
    """Return the address of a function in NumPy's table of functions of arrays."""
    return _function("_ARRAY_API", number)


def ufunc_function(number: int) -> int:
    """Return the address of a function in NumPy's table of functions of ufuncs."""
    return _function("_UFUNC_API", number)


def _function(table: str, number: int) -> int:
    get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    package = "numpy._core" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "numpy.core"
    begin = get_pointer(getattr(import_module(f"{package}._multiarray_umath"), table), None)
    return ctypes.c_int64.from_address(begin + 8 * number).value


def description(array: np.ndarray) -> np.ndarray:
    """Return a table with the layout of an array object, followed by its shape; the array must outlive it."""
    rank = array.ndim
    words = np.zeros(WORDS + rank, np.int64)
    words[TYPE], words[DATA], words[RANK] = id(type(array)), array.ctypes.data, rank
    words[DIMS], words[DESCR] = words.ctypes.data + 8 * WORDS, id(array.dtype)
    words[FLAGS] = READABLE if array.flags.c_contiguous and array.flags.aligned else 0
    words[WORDS:] = array.shape
    return words


def _is_known() -> bool:
    """Return whether the memory of an array object equals its description."""
    if sys.implementation.name != "cpython" or sys.maxsize < 2**32 or sys.byteorder != "little":
        return False
    if ctypes.c_int64.from_address(id(1.5) + 8 * TYPE).value != id(float):  # a free-threaded Python
        return False
    for array in (np.zeros((2, 3), np.float32), np.zeros((4, 5, 6), np.int64)[::2].T, np.zeros((), np.bool_)):
        words = (ctypes.c_int64 * WORDS).from_address(id(array))
        wanted = description(array)
        dims = (ctypes.c_int64 * array.ndim).from_address(words[DIMS]) if array.ndim else ()
        exact = all(words[index] == wanted[index] for index in (TYPE, DATA, DESCR))
        if not exact or words[RANK] & LOW != array.ndim or tuple(dims) != array.shape:
            return False
        if (words[FLAGS] & READABLE == READABLE) != bool(wanted[FLAGS]):
            return False
    return True


#: The address at which compiled code finds the words of an array; None where they must be made by hand.
address: Callable[[np.ndarray], int] | None = id if _is_known() else None
