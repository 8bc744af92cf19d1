"""Find where a compiled function was defined: a cell or a file, and a line, as IPython names them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from nnmagic.functions.compiled import CompiledFunction

#: The cell that has bound a function, as IPython's tracebacks name it.
_CELLS: WeakKeyDictionary[CompiledFunction, str] = WeakKeyDictionary()


def remember_cell(functions: Iterable[CompiledFunction], shell: InteractiveShell) -> None:
    """Remember that the running cell has bound functions."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if (cell := _cell(frame.f_code.co_filename, shell)) is not None:
            _CELLS.update(dict.fromkeys(functions, cell))
            return
        frame = frame.f_back


def _cell(filename: str, shell: InteractiveShell) -> str | None:
    """Return ``Cell In[3]`` for the file name of a cell's code; None for any other."""
    format_code_name = getattr(shell.compile, "format_code_name", None)  # which IPython 7 lacks
    label = format_code_name(filename) if format_code_name else None
    return None if label is None else " ".join(label)


def find_origin(function: CompiledFunction, shell: InteractiveShell) -> str | None:
    """Return ``Cell In[3], line 2`` or ``~/model.py:12``; None for a text given to ``nnmagic.compile``."""
    name, line = function._definition.source.filename, function._definition.line
    cell = _CELLS.get(function) or _cell(name, shell)  # the latter of one that nnmagic.function has compiled
    if cell is not None:
        return f"{cell}, line {line}"
    path = Path(name)
    if not path.is_file():
        return None
    home = Path.home()
    return f"~/{path.relative_to(home)}:{line}" if path.is_relative_to(home) else f"{path}:{line}"
