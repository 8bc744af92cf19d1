"""Hand the functions that draw NumPy's random numbers to machine code: NumPy's own library has them.

They are found as LAPACK's are: see ``lapack.py``.
"""

from __future__ import annotations

import ctypes
from functools import cache

#: The prefix of the stub of a function, and that of its setter.
PREFIX, SETTER = "nnmagic_random_", "nnmagic_set_random_"


@cache
def address_of(name: str) -> int:
    """Return the address of a function. Raises RuntimeError if NumPy's library does not have it."""
    from numpy.random import _generator

    library = ctypes.CDLL(_generator.__file__)
    try:
        function = getattr(library, f"random_{name}")
    except AttributeError as error:
        raise RuntimeError(f"the installed NumPy has no function random_{name}") from error
    return ctypes.cast(function, ctypes.c_void_p).value or 0
