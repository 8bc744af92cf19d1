"""What compiled code depends on besides its program: versions, nnmagic's own compiler, the processor.

Each has a name, in which a miss of the cache is explained.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from nnmagic.engine import cpu
from nnmagic.engine.relax import array_objects

_PACKAGE = Path(__file__).parent.parent

#: The parts of nnmagic that make machine code of a typed Relay module.
_COMPILER = ("engine", "relay")

#: The names of what code depends on that was compiled before, in another place.
FOR_RUNNING = ("version of TVM", "version of TVM's FFI", "layout of arrays")


@cache
def environment() -> Mapping[str, str]:
    """What a compilation depends on, by name. The same for the life of a process."""
    return {
        "version of TVM": _version("apache-tvm"),
        "version of TVM's FFI": _version("apache-tvm-ffi"),
        "version of NumPy": _version("numpy"),
        "compiler of nnmagic": _compiler(),
        "layout of arrays": _layout(),
        "processor": cpu.processor(),
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _compiler() -> str:
    """A hash of the compiler's own source: a version that no one has to remember to change."""
    state = hashlib.sha256()
    for part in _COMPILER:
        for path in sorted((_PACKAGE / part).rglob("*.py")):
            data = path.read_bytes()
            state.update(f"{path.relative_to(_PACKAGE).as_posix()} {len(data)}\n".encode())
            state.update(data)
    return state.hexdigest()


def _layout() -> str:
    """Where machine code finds what in NumPy's array objects."""
    words = ("TYPE", "DATA", "RANK", "DIMS", "DESCR", "FLAGS", "WORDS", "READABLE")
    return " ".join(f"{word}={getattr(array_objects, word)}" for word in words)
