"""Hand LAPACK's routines to machine code: those of SciPy, which gives their addresses to other libraries.

Machine code moves between processes, so it holds no addresses. A program that calls a routine has a stub for
it, which jumps to the address in a variable; the program's setter fills that when the program is loaded.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

#: The prefix of the stub of a routine, and that of its setter.
PREFIX, SETTER = "nnmagic_lapack_", "nnmagic_set_lapack_"

#: Why a program that needs LAPACK cannot be compiled or loaded, and what to do.
WHY = "linear algebra is computed by LAPACK, which comes with SciPy, and SciPy is not installed"
HOW_TO_INSTALL = "pip install scipy"


def names_after(prefix: str, code: Iterable[bytes]) -> list[str]:
    """Return the names of the routines that occur after a prefix in object files."""
    text = prefix.encode()
    pattern = re.compile(rb"(?<![A-Za-z])%s([a-z0-9_]+)" % text)
    parts = (name_ for name_ in code if text in name_)  # a search of bytes is far quicker
    return sorted({name.decode() for name_ in parts for name in pattern.findall(name_)})


def set_routines(
    library: Any, code: Sequence[bytes], setter: str = SETTER, find: Callable[[str], int] | None = None
) -> None:
    """Set the routines of a program that was loaded from these object files.

    ``setter``: the prefix of what sets them; ``find`` returns their addresses. Raises RuntimeError if SciPy
    is needed and not installed.
    """
    for name in names_after(setter, code):
        library[f"{setter}{name}"]((find or address_of)(name))


@cache
def address_of(name: str) -> int:
    """Return the address of a routine. Raises RuntimeError if there is none that machine code can call."""
    try:
        from scipy.linalg import cython_lapack
    except ImportError as error:
        raise RuntimeError(f"{WHY}: {HOW_TO_INSTALL}") from error
    capsule = cython_lapack.__pyx_capi__[name]
    of_capsule = ctypes.pythonapi.PyCapsule_GetName
    of_capsule.restype, of_capsule.argtypes = ctypes.c_char_p, [ctypes.py_object]
    signature = of_capsule(capsule)
    if b"int *" not in signature:
        raise RuntimeError(f"SciPy's LAPACK does not count in 32-bit integers: {signature.decode()}")
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer(capsule, signature))
