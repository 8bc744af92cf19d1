"""Export compiled functions to C: an object file, a library, or an archive with an example for CMake."""

from __future__ import annotations

import ctypes
import ctypes.util
import io
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnmagic.diagnostics import kind_of
from nnmagic.engine import engine_error
from nnmagic.engine.target_kind import is_cuda
from nnmagic.functions.caching.compile_options import Target
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.functions.exporting.archive import archive
from nnmagic.functions.exporting.cpp import cpp_text
from nnmagic.functions.exporting.header import example_text, header_text
from nnmagic.functions.exporting.rust import rust_text
from nnmagic.relay.complex_numbers.lowering import mentions_complex
from nnmagic.tracebacks import short_errors

if TYPE_CHECKING:
    from nnmagic.engine.relax.codegen.c.export import CSource

_CMAKE = """cmake_minimum_required(VERSION 3.15)
project({name}_example C)
add_library({name} STATIC IMPORTED)
set_target_properties({name} PROPERTIES
  IMPORTED_LOCATION ${{CMAKE_CURRENT_SOURCE_DIR}}/lib{name}.a
  INTERFACE_INCLUDE_DIRECTORIES ${{CMAKE_CURRENT_SOURCE_DIR}})
add_executable({name}_example example.c)
target_link_libraries({name}_example {name} m)
"""

#: Names that no function of C may have.
_KEYWORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int
    long main register restrict return short signed sizeof static struct switch typedef union unsigned void
    volatile while bool true false class new delete this template typename namespace operator private public
    try catch throw""".split()  # noqa: SIM905 - a list of words
)


@short_errors
def export(path: str | os.PathLike[str], *functions: CompiledFunction, target: Target = None) -> None:
    """Write functions as C, which needs neither Python nor NumPy nor nnmagic: libm and libc alone.

    The path's suffix says what is written. ``.o`` is an object file, ``.a`` a static library, ``.so`` a
    shared one, each with a header beside it; ``.zip`` holds a static library, its header, and an example for
    CMake, and the wrappers that ``.hpp`` (C++20) and ``.rs`` (Rust) are alone. ``.wasm`` is a module for
    browsers and node. A function ``f`` becomes ``int f(…)``, which returns 0 or a code, ``f_message(code)``,
    and ``f_with(host, …)``, which takes memory and threads from its host.

    Args:
        path: the file.
        functions: the functions, whose names differ.
        target: None for this machine; ``"x86_64-v3"``, ``"aarch64-linux"``, ``"riscv64-linux"``,
            ``"wasm32"``; or a dict of LLVM's settings, in which ``mtriple`` names the machine.

    Raises:
        EngineError: for a function that needs more than C's libraries, such as LAPACK, or that is refused
            for another reason; if there is no linker for a shared library.
        ValueError: for another suffix, or a name that C has.
        TypeError: for what is no compiled function of typed parameters.
        OSError: if the file cannot be written.

    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"export takes a path, as text or a pathlib.Path, not {kind_of(path)}")
    path = Path(path)
    if (write := _WRITERS.get(path.suffix)) is None:
        raise ValueError(
            f"export writes {', '.join(_WRITERS)}, not {path.suffix or 'a file without a suffix'!r}"
        )
    if not functions:
        raise TypeError("export takes one function or more")
    from nnmagic.engine.relax.codegen.c.export import compile_c_functions

    sources = [source_of(function) for function in functions]
    names = [symbol for source in sources for symbol in _symbols(source.symbol)]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two functions would have the name {twice!r} in C; export them to two libraries")
    if target is None:
        target = "wasm32" if path.suffix == ".wasm" else functions[0]._definition.options.target
    compiled, code = compile_c_functions(sources, target)
    docs = [function.__doc__ or "" for function in functions]
    name = path.stem.removeprefix("lib") or "functions"
    header = header_text(compiled, name, docs, _machine(target))
    write(_Export(path, name, header, docs, code, compiled, target))


class _Export:
    """What is written: a header, an object file, and what they define."""

    def __init__(
        self,
        path: Path,
        name: str,
        header: str,
        docs: Sequence[str],
        code: bytes,
        functions: Sequence[Any],
        target: Target,
    ) -> None:
        self.path, self.name, self.header, self.docs, self.code = path, name, header, docs, code
        self.functions, self.target = functions, target

    @property
    def symbols(self) -> list[str]:
        return [symbol for function in self.functions for symbol in _symbols(function.name)]

    def write_header(self) -> None:
        self.path.with_suffix(".h").write_text(self.header, "utf-8")

    def archive(self) -> bytes:
        return archive("functions.o", self.code, self.symbols)


def _write_object(export: _Export) -> None:
    export.write_header()
    export.path.write_bytes(export.code)


def _write_static(export: _Export) -> None:
    export.write_header()
    export.path.write_bytes(export.archive())


def _write_shared(export: _Export) -> None:
    compiler = _compiler(export.target)
    _link(export, [*compiler, "-shared", "-Wl,--no-undefined", f"-Wl,-soname,{export.path.name}"], ["-lm"])


def _write_wasm(export: _Export) -> None:
    linker = shutil.which("wasm-ld")
    if linker is None:
        raise engine_error(
            "a .wasm needs the linker wasm-ld, which is not here", hint="install lld, or write a .o"
        )
    exports = [f"--export={symbol}" for symbol in export.symbols]
    options = ["--no-entry", "--allow-undefined", "--export=__heap_base", "--stack-first"]
    _link(export, [linker, *options, *exports], [])


def _link(export: _Export, command: Sequence[str], after: Sequence[str]) -> None:
    """Run a linker, and put the library where it belongs when it is complete."""
    with tempfile.TemporaryDirectory(dir=export.path.parent) as folder:
        code, library = Path(folder, "functions.o"), Path(folder, export.path.name)
        code.write_bytes(export.code)
        whole = [*command, "-o", str(library), str(code), *after]
        done = subprocess.run(whole, capture_output=True, text=True, check=False)  # noqa: S603 - the user's linker
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["it gave no reason"])[0]
            raise engine_error(
                f"the linker {command[0]} failed: {reason}", hint="write a .o or .a, and link it"
            )
        export.write_header()
        library.replace(export.path)


def _write_zip(export: _Export) -> None:
    files = {
        f"lib{export.name}.a": export.archive(),
        f"{export.name}.h": export.header.encode(),
        f"{export.name}.hpp": cpp_text(
            export.functions, export.name, f"{export.name}.h", export.docs
        ).encode(),
        f"{export.name}.rs": rust_text(export.functions, export.name, export.docs).encode(),
        "example.c": example_text(export.functions, f"{export.name}.h").encode(),
        "CMakeLists.txt": _CMAKE.format(name=export.name).encode(),
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as whole:
        for name, data in files.items():  # a ZipInfo has a fixed time: the same bytes every time
            whole.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    export.path.write_bytes(packed.getvalue())


def _write_cpp(export: _Export) -> None:
    header = export.path.with_suffix(".h").name
    export.path.write_text(cpp_text(export.functions, export.name, header, export.docs), "utf-8")


def _write_rust(export: _Export) -> None:
    export.path.write_text(rust_text(export.functions, export.name, export.docs), "utf-8")


_WRITERS: Mapping[str, Callable[[_Export], None]] = {
    ".o": _write_object,
    ".a": _write_static,
    ".so": _write_shared,
    ".zip": _write_zip,
    ".wasm": _write_wasm,
    ".hpp": _write_cpp,
    ".rs": _write_rust,
}


def _machine(target: Target) -> str:
    return "the machine that it was made on" if target is None else str(target)


def _compiler(target: Target) -> list[str]:
    """Return the command of a C compiler that links for a target. Raises EngineError if there is none."""
    architecture = None
    if isinstance(target, str) and not target.startswith(("{", "llvm")):
        architecture = target.split("-")[0]
    elif target is not None and not isinstance(target, str) and "mtriple" in target:
        architecture = str(target["mtriple"]).split("-")[0]
    own = os.uname().machine if hasattr(os, "uname") else ""
    names = [os.environ.get("CC", "cc"), "gcc", "clang"]
    if architecture not in (None, own):
        names = [f"{architecture}-linux-gnu-gcc"]
    if found := next(filter(None, map(shutil.which, names)), None):
        return [found]
    message = f"a shared library needs a linker, and {' or '.join(names)} is not here"
    raise engine_error(message, hint="install one, name it by CC, or write a .o or .a")


def source_of(function: CompiledFunction, *, exported: bool = True) -> CSource:
    """Return what is compiled of a function; ``exported``: whether it keeps its name in C.

    Raises TypeError, ValueError or EngineError.
    """
    from nnmagic.engine.relax.codegen.c.export import IN_PROCESS, CSource
    from nnmagic.functions.compiled import CompiledFunction

    if not isinstance(function, CompiledFunction):
        raise TypeError(f"export takes compiled functions, not {kind_of(function)}")
    definition = function._definition
    options, name = definition.options, definition.name
    if options.resolve_engine != "relax" or is_cuda(options.target):
        message = f"@{name} cannot become C: its engine is {options.engine_label}"
        raise engine_error(message, hint="export a function of the default engine on the CPU")
    typed = definition.module.functions[name]
    if any(map(mentions_complex, (typed.ret_type, *(param.checked_type for param in typed.params)))):
        message = f"@{name} cannot become C: it takes or returns complex numbers"
        raise engine_error(message, hint="take and return real and imaginary parts")
    if exported:
        _check_name(name)
    symbol = name if exported else f"{IN_PROCESS}{re.sub('[^A-Za-z0-9_]', '_', name)}"
    return CSource(definition.relay, name, symbol, definition.call.destinations_read(), options.opt_level)


def _symbols(name: str) -> list[str]:
    """Return the symbols of a function."""
    return [name, f"{name}_with", f"{name}_message"]


def _check_name(name: str) -> None:
    """Raise ValueError for a name that a function of C cannot have."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or name in _KEYWORDS:
        raise ValueError(f"a function of C cannot have the name {name!r}; give it another name in the cell")
    for library in ("c", "m"):
        path = ctypes.util.find_library(library)
        if path is not None and hasattr(ctypes.CDLL(path), name):
            raise ValueError(f"C's library has a function {name!r}; give this one another name in the cell")
