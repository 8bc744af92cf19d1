"""List what compiled code depends on besides its program: versions, nnmagic's own compiler, the processor.

Each has a name, by which a cache miss is explained.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

from nnmagic._version import __version__
from nnmagic.engine import cpu
from nnmagic.engine.relax.runtime import numpy_abi

_PACKAGE = Path(__file__).parent.parent.parent

#: The parts of nnmagic that make machine code of a typed Relay module.
_COMPILER = ("engine/", "relay/")

#: The names of what code depends on that was compiled before, elsewhere.
FOR_RUNNING = ("version of nnmagic", "version of TVM", "version of TVM's FFI", "layout of arrays")


@cache
def environment() -> Mapping[str, str]:
    """Return what a compilation depends on, by name. It stays the same for the life of a process."""
    return {
        "version of nnmagic": __version__,
        "version of TVM": _version("apache-tvm"),
        "compiler library": " ".join(f"{size} {changed}" for size, changed in map(_state, _libraries())),
        "version of TVM's FFI": _version("apache-tvm-ffi"),
        "version of NumPy": _version("numpy"),
        "compiler of nnmagic": _compiler(),
        "layout of arrays": numpy_abi.layout(),
        "processor": cpu.processor(),
    }


@cache
def front_end() -> str:
    """Return a hash of the state of nnmagic's other files, which make a typed program of a cell's source.

    It stays the same for the life of a process.
    """
    return _front_end_now()


def is_front_end_current() -> bool:
    """Return whether what has been imported of these files is what ``front_end`` describes."""
    return _recheck_files("front end", lambda: _front_end_now() == front_end())


def _front_end_now() -> str:
    state = hashlib.sha256()
    for name, size_and_time in _files(""):
        if not name.startswith(_COMPILER):
            state.update(f"{name} {size_and_time}\n".encode())
    return state.hexdigest()


def is_current() -> bool:
    """Return whether what has been imported of the compilers is what ``environment`` describes."""
    return _recheck_files("compilers", lambda: _files_of_compilers() == _AT_IMPORT)


def _recheck_files(library: str, look: Callable[[], bool]) -> bool:
    """Look at files again if anything was imported since the last look: what is in memory stays as it is."""
    imported = len(sys.modules)
    if _looked_at.get(library) != imported:
        if not look():
            return False
        _looked_at[library] = imported
    return True


def _files_of_compilers() -> Mapping[str, tuple[int, int]]:
    """Return size and modification time (ns) of each file that makes machine code."""
    return {**dict(_sources()), **{str(path): _state(path) for path in _libraries()}}


def _state(path: Path | os.DirEntry[str]) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return -1, 0
    return status.st_size, status.st_mtime_ns


def _libraries() -> list[Path]:
    """Return the files of TVM's compiler: a TVM built from source may have no version, or always the same."""
    spec = importlib.util.find_spec("tvm")
    folder = None if spec is None or spec.origin is None else Path(spec.origin).parent / "lib"
    return [] if folder is None else sorted(folder.glob("*tvm_compiler*"))


def _sources() -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the compiler's own files, as ``_files`` does."""
    for part in _COMPILER:
        yield from _files(part)


def _files(folder: str) -> list[tuple[str, tuple[int, int]]]:
    """Return the Python files in a folder of nnmagic's, which ends with a slash or is empty, in order.

    Each as its path below the package, with slashes, and its size and time; ``Path.rglob`` takes ten times as
    long.
    """
    files: list[tuple[str, tuple[int, int]]] = []
    with contextlib.suppress(OSError), os.scandir(_PACKAGE / folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                files.append((folder + entry.name, _state(entry)))
            elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                files += _files(f"{folder}{entry.name}/")
    return sorted(files)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _compiler() -> str:
    """Hash the compiler's own source, as a version that nobody has to remember to change."""
    state = hashlib.sha256()
    for name, _ in _sources():
        data = (_PACKAGE / name).read_bytes()
        state.update(f"{name} {len(data)}\n".encode())
        state.update(data)
    return state.hexdigest()


#: How many modules were there when the files of a part were last as they were at first.
_looked_at: dict[str, int] = {}

#: Taken before the first compilation: what is imported later may be of another version.
_AT_IMPORT = _files_of_compilers()
