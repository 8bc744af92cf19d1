"""Write the object files of LLVM modules."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import tvm

from nnmagic.engine import engine_error
from nnmagic.engine.relax.compiler_process import file_limit

#: How much room on a disk the machine code of a module needs at most, but for very large programs.
_ROOM_BYTES = 64 << 20


def write_module(module: tvm.runtime.Module) -> bytes:
    """Return the object file of a module; TVM writes it to memory where the system supports that.

    Raises EngineError where LLVM would end the process because there is no room for the file.
    """
    if (limit := file_limit()) is not None:
        message = f"LLVM cannot write machine code here, because files may have {limit} bytes at most"
        raise engine_error(message, hint="raise the limit of the size of files (ulimit -f)")
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("nnmagic"), "rb") as file:
            module.write_to_file(f"/proc/self/fd/{file.fileno()}", "o")
            return file.read()
    with tempfile.TemporaryDirectory() as folder:
        if (free := shutil.disk_usage(folder).free) < _ROOM_BYTES:
            message = (
                f"LLVM cannot write machine code here, because the disk of {folder} has {free} free bytes"
            )
            raise engine_error(message, hint="free some, or name another folder by TMPDIR")
        path = Path(folder, "module.o")
        module.write_to_file(_path_for_tvm(folder, path.name), "o")
        return path.read_bytes()


def _path_for_tvm(folder: str, name: str) -> str:
    """Return the path of a file for TVM, which takes the letters of one code page only on Windows."""
    if os.name == "nt" and not folder.isascii():
        folder = _short_name(folder, getattr(ctypes, "windll").kernel32)  # noqa: B009 # Windows' own
    return str(Path(folder, name))


def _short_name(folder: str, kernel: Any) -> str:
    """Return the old name of a folder of Windows, which is in ASCII; the folder where it has none."""
    size = kernel.GetShortPathNameW(folder, None, 0)
    buffer = ctypes.create_unicode_buffer(size or 1)
    return buffer.value if kernel.GetShortPathNameW(folder, buffer, size) else folder
