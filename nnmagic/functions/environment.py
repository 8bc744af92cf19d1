"""List what compiled code depends on besides its program: versions, nnmagic's own compiler, the processor.

Each has a name, by which a cache miss is explained.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from nnmagic._version import __version__
from nnmagic.engine import cpu
from nnmagic.engine.relax.runtime import numpy_abi

_PACKAGE = Path(__file__).parent.parent

#: The parts of nnmagic that make machine code of a typed Relay module.
_COMPILER = ("engine", "relay")

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
        "layout of arrays": _layout(),
        "processor": cpu.processor(),
    }


@cache
def front_end() -> str:
    """Return a hash of the state of nnmagic's other files, which make a typed program of a cell's source.

    It stays the same for the life of a process.
    """
    return _front_end_now()


def is_front_end_current() -> bool:
    """Return whether these files are still those that ``front_end`` describes."""
    return _front_end_now() == front_end()


def _front_end_now() -> str:
    state = hashlib.sha256()
    for path in sorted(set(_PACKAGE.rglob("*.py")) - set(_sources())):
        state.update(f"{path.relative_to(_PACKAGE).as_posix()} {_state(path)}\n".encode())
    return state.hexdigest()


def is_current() -> bool:
    """Return whether the compilers' files are still those that ``environment`` describes."""
    return _files_of_compilers() == _AT_IMPORT


def _files_of_compilers() -> Mapping[Path, tuple[int, int]]:
    """Return size and modification time (ns) of each file that makes machine code."""
    return {path: _state(path) for path in (*_sources(), *_libraries())}


def _state(path: Path) -> tuple[int, int]:
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


def _sources() -> Iterator[Path]:
    for part in _COMPILER:
        yield from sorted((_PACKAGE / part).rglob("*.py"))


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _compiler() -> str:
    """Hash the compiler's own source, as a version that nobody has to remember to change."""
    state = hashlib.sha256()
    for path in _sources():
        data = path.read_bytes()
        state.update(f"{path.relative_to(_PACKAGE).as_posix()} {len(data)}\n".encode())
        state.update(data)
    return state.hexdigest()


def _layout() -> str:
    """Return the field offsets by which machine code reads NumPy's array objects."""
    words = ("TYPE", "DATA", "RANK", "DIMS", "DESCR", "FLAGS", "WORDS", "READABLE")
    return " ".join(f"{word}={getattr(numpy_abi, word)}" for word in words)


#: Taken before the first compilation: what is imported later may be of another version.
_AT_IMPORT = _files_of_compilers()
