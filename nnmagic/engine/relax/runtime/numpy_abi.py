"""The memory of NumPy's array objects, as compiled code reads it: type, data, rank, dimensions, dtype, flags.

NumPy compiles this layout into every extension module, so that it has been the same since its version 1.0; it
is checked once against arrays all the same. Where it does not hold, each array is described by a table of the
same layout. Knows NumPy.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

import numpy as np

#: Where what is, in eights of bytes from the object's address.
TYPE, DATA, RANK, DIMS, DESCR, FLAGS = 1, 2, 3, 4, 7, 8

#: How many words are read.
WORDS = 9

#: The flags of an array that can be read in place: C-contiguous and aligned.
READABLE = 0x101

#: Rank and flags are numbers of 32 bits.
LOW = 0xFFFFFFFF


def description(array: np.ndarray) -> np.ndarray:
    """The words of an array object, made by hand, its shape behind them; the array must outlive it."""
    rank = array.ndim
    words = np.zeros(WORDS + rank, np.int64)
    words[TYPE], words[DATA], words[RANK] = id(type(array)), array.ctypes.data, rank
    words[DIMS], words[DESCR] = words.ctypes.data + 8 * WORDS, id(array.dtype)
    words[FLAGS] = READABLE if array.flags.c_contiguous and array.flags.aligned else 0
    words[WORDS:] = array.shape
    return words


def _is_known() -> bool:
    """Whether an array object's own memory says what a description of it says."""
    if sys.implementation.name != "cpython" or sys.maxsize < 2**32 or sys.byteorder != "little":
        return False
    if ctypes.c_int64.from_address(id(1.5) + 8 * TYPE).value != id(float):  # a free-threaded Python
        return False
    for array in (np.zeros((2, 3), np.float32), np.zeros((4, 5, 6), np.int64)[::2].T, np.zeros((), np.bool_)):
        found = (ctypes.c_int64 * WORDS).from_address(id(array))
        wanted = description(array)
        dims = (ctypes.c_int64 * array.ndim).from_address(found[DIMS]) if array.ndim else ()
        exact = all(found[place] == wanted[place] for place in (TYPE, DATA, DESCR))
        if not exact or found[RANK] & LOW != array.ndim or tuple(dims) != array.shape:
            return False
        if (found[FLAGS] & READABLE == READABLE) != bool(wanted[FLAGS]):
            return False
    return True


#: The address at which compiled code finds the words of an array; None where they must be made by hand.
address: Callable[[np.ndarray], int] | None = id if _is_known() else None
