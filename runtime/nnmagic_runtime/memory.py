"""Reserve memory for machine code, which can be written or run, and never both."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence


class CodeMemory:
    """Three ranges of memory side by side, of code, of constants and of data, that live as long as this."""

    def __init__(self, sizes: Sequence[int]) -> None:
        """Reserve ranges of these sizes, all of which can be written."""
        self._pages = [-(-size // mmap.PAGESIZE) * mmap.PAGESIZE for size in sizes]
        self.begins = [sum(self._pages[:number]) for number in range(len(sizes))]
        self.bytes = mmap.mmap(-1, sum(self._pages) or 1, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._first = ctypes.c_char.from_buffer(self.bytes)
        self.address = ctypes.addressof(self._first)

    def protect(self) -> None:
        """Let the first range only be run, and the second only be read. Raises OSError."""
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for begin, size, more in zip(self.begins, self._pages, (mmap.PROT_EXEC, 0), strict=False):
            if size and protect(self.address + begin, size, mmap.PROT_READ | more):
                code = ctypes.get_errno()
                raise OSError(code, f"the system gives no memory for machine code: {os.strerror(code)}")
