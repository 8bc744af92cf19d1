"""Write machine code, and the text of cells, into a folder, where the environment names one.

Debuggers and profilers read files: GDB, perf, py-spy and valgrind then see the functions of cells by name,
and coverage their lines.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nnmagic.diagnostics import Source
from nnmagic.engine import EngineError, engine_error

#: The environment variable that names the folder.
VARIABLE = "NNMAGIC_DEBUG_FOLDER"

_NUMBERS = itertools.count(1)


def debug_folder() -> Path | None:
    """Return the folder, which is made if it is missing; None where machine code stays in memory alone.

    Raises EngineError for one in which no file can be written.
    """
    named = os.environ.get(VARIABLE, "").strip()
    if not named:
        return None
    folder = Path(named).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(named, error.strerror) from None
    if not os.access(folder, os.W_OK):
        raise _unusable(named, "no file can be written there")
    return folder


def _unusable(named: str, reason: str | None) -> EngineError:
    hint = f"name a folder of yours, or unset {VARIABLE}"
    return engine_error(f"{VARIABLE} is {named}, which is no folder to write to: {reason}", hint=hint)


def file_of(source: Source, folder: Path) -> Path:
    """Return the file of a source; one in the folder, with the same lines, for a cell."""
    path = Path(source.filename)
    if not source.filename.startswith("<") and path.is_file():
        return path.absolute()
    text = "\n" * (source.first_line - 1) + source.text
    path = folder / f"cell-{hashlib.sha256(text.encode()).hexdigest()[:8]}.py"
    path.write_text(text, "utf-8")
    return path


def load_library(code: Sequence[bytes], folder: Path) -> Any:
    """Return the functions of object files, linked by the C compiler. Raises EngineError if it cannot."""
    names = (os.environ.get("CC", "cc"), "gcc", "clang")
    compiler = next(filter(None, map(shutil.which, names)), None)
    if compiler is None:
        hint = f"install one, name it by CC, or unset {VARIABLE}"
        raise engine_error(f"{VARIABLE} needs a C compiler that links, and there is none", hint=hint)
    path = folder / f"nnmagic-{os.getpid()}-{next(_NUMBERS)}.so"
    with tempfile.TemporaryDirectory(dir=folder) as parts:
        objects = [Path(parts, f"part{number}.o") for number in range(len(code))]
        for each, data in zip(objects, code, strict=True):
            each.write_bytes(data)
        command = [compiler, "-shared", "-Wl,-Bsymbolic", "-o", str(path), *map(str, objects), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the user's
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it gave no reason"])[0]
        raise engine_error(f"{compiler} cannot link machine code: {reason}", hint=f"unset {VARIABLE}")
    from nnmagic.engine.relax.runtime.ffi import tvm_ffi

    return tvm_ffi.load_module(str(path))
