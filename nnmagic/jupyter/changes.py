"""Remember the cells that have run: where functions are from, and when one must be compiled again.

A function keeps the values and the functions that it captured. Once one of their names stands for something
else, a cell that mentions the function gets a warning, once.
"""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from argparse import Namespace

    from IPython.core.interactiveshell import InteractiveShell

    from nnmagic.diagnostics import Source
    from nnmagic.functions.cells.compile_cell import CompiledCell
    from nnmagic.functions.compiled import CompiledFunction

#: The cell that has bound a function, as IPython's tracebacks name it.
_CELLS: WeakKeyDictionary[CompiledFunction, str] = WeakKeyDictionary()

#: What a value was when a cell was compiled: a function that gives it, or None once it is gone.
_Reference = Callable[[], object]


@dataclass(slots=True)
class BoundCell:
    """A cell that has run: how it is run again, what it has bound, and what its free names stood for."""

    given: Namespace
    source: Source
    language: str
    bound: Mapping[str, object]
    captured: Mapping[str, str]
    values: dict[str, _Reference]
    #: The names of which a warning has told.
    told: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Changes:
    """The cells of a notebook that are compiled, in the order in which they last ran."""

    namespace: dict[str, object]
    cells: list[BoundCell] = field(default_factory=list)

    def remember(
        self, given: Namespace, source: Source, language: str, cell: CompiledCell, bound: Mapping[str, object]
    ) -> None:
        """Remember a cell that has just bound its functions."""
        from nnmagic.tinynn import look_up

        own = set(re.findall(r"^(\w+)\s*(?::[^=\n]*)?=(?!=)", source.text, re.MULTILINE))  # X = 3 in the cell
        captured = {name: was for name, was in cell.captured.items() if name not in own}
        values = {name: _reference(look_up(self.namespace, name)) for name in captured}
        self.cells = [each for each in self.cells if self._names(each)]
        for each in self.cells:
            each.bound = {name: value for name, value in each.bound.items() if name not in bound}
        self.cells = [each for each in self.cells if each.bound]
        self.cells.append(BoundCell(given, source, language, dict(bound), captured, values))

    def warn(self, text: str) -> None:
        """Warn of the functions that a cell mentions, and that are older than what they captured."""
        words = set(re.findall(r"[^\W\d]\w*", text))
        for cell in self.cells:
            names = sorted(words & {*self._names(cell)})
            changed = [name for name in self.changed(cell) if name not in cell.told] if names else []
            if changed:
                cell.told.update(changed)
                sys.stderr.write(f"{_warning(names[0], changed)}\n")

    def changed(self, cell: BoundCell, seen: frozenset[int] = frozenset()) -> list[str]:
        """Return the names that stand for something else than when a cell was compiled.

        For a function that is itself older than what it captured, these names, too.
        """
        names = [name for name in sorted(cell.captured) if self._is_changed(cell, name)]
        for other in self.cells:
            if other is not cell and id(other) not in seen and {*self._names(other)} & {*cell.captured}:
                names += self.changed(other, seen | {id(cell)})
        return list(dict.fromkeys(names))

    def rerun(self, run: Callable[[BoundCell], None]) -> list[str]:
        """Run the cells again that are older than what they captured; return the names that they bind."""
        done: list[str] = []
        for cell in list(self.cells):
            if not any(self._is_changed(cell, name) for name in cell.captured):
                continue
            names = self._names(cell)
            run(cell)
            done += names
        return done

    def _names(self, cell: BoundCell) -> list[str]:
        """Return the names that still stand for what a cell has bound."""
        return [name for name, value in cell.bound.items() if self.namespace.get(name) is value]

    def _is_changed(self, cell: BoundCell, name: str) -> bool:
        from nnmagic.functions.caching.fingerprint import fingerprint
        from nnmagic.tinynn import MISSING, look_up

        value = look_up(self.namespace, name)
        reference = cell.values[name]
        if value is reference() or (reference() is MISSING and _is_own(name, value)):
            return False
        if fingerprint(value) != cell.captured[name]:
            return True
        cell.values[name] = _reference(value)  # another object of the same value
        return False


def _is_own(name: str, value: object) -> bool:
    """Return whether a name means what it does in a cell, as after ``from nnmagic.numpy import relu``."""
    modules = (sys.modules.get(module) for module in ("nnmagic", "nnmagic.numpy"))
    return any(module and value is getattr(module, name, _GONE) for module in modules)


def _reference(value: object) -> _Reference:
    """Return what gives a value as long as it lives; arrays and the like are not kept alive."""
    try:
        living = weakref.ref(value)
    except TypeError:
        return lambda: value
    return lambda: _GONE if living() is None else living()


_GONE = object()


def _warning(function: str, changed: list[str]) -> str:
    listed = ", ".join(f"`{name}`" for name in changed[:3]) + (", ..." if len(changed) > 3 else "")
    verb, was = ("has", "it was") if len(changed) == 1 else ("have", "they were")
    return (
        f"warning: `{function}` was compiled before {listed} {verb} been assigned anew, and computes with "
        f"what {was}\nhelp: run its cell again, or `%tinynn rerun`; "
        "`%config TinyNNMagics.warn_changed = False` turns this off"
    )


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
