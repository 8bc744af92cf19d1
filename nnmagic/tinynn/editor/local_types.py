"""What a name inside a cell that is being typed stands for, as far as the cell can be read as it stands.

The elaboration of a cell with errors goes on after each of them; this watches it.
"""

from __future__ import annotations

import ast as py
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from synr import ast

from nnmagic.diagnostics import Diagnostics, Source
from nnmagic.relay.signatures import format_dim, format_type
from nnmagic.tinynn.elaborate import Elaborator
from nnmagic.tinynn.elaborate.control_flow_blocks import Terminator
from nnmagic.tinynn.syntax import parse, tree
from nnmagic.tinynn.values.values import (
    Computed,
    Dimension,
    Failed,
    Known,
    TupleOf,
    Unassigned,
    Value,
    described,
)

#: How many lines of a cell that Python cannot read are passed over.
_MOST_LINES = 20


def type_of_local(cell: str, name: str, line: int, namespace: Mapping[str, object]) -> str | None:
    """What the function around a line binds a name to: ``d: Tensor[(2, 4), f32]``, a line a type.

    ``line`` counts from 1, the line of the magic. None for a name that the function does not bind, and where
    nothing is known of it.
    """
    read = parse_incomplete(cell)
    if read is None:
        return None
    source, found, module = read
    watcher = _Watcher(source, namespace, found, name, _lines_around(module, line))
    watcher.transform_module(module)
    return "\n".join(f"{name}: {type_}" for type_ in watcher.found_types()) or None


def parse_incomplete(cell: str) -> tuple[Source, Diagnostics, tree.CellNode] | None:
    """The text of a cell that somebody is typing, as far as Python can read it, and its tree."""
    _, _, body = cell.partition("\n")
    source = Source("<tinynn>", _readable(body), first_line=2)
    found = Diagnostics()
    module = parse(source, found)
    return None if module is None else (source, found, module)


def _readable(body: str) -> str:
    """The text with ``pass`` in place of the lines that Python cannot read, or what stands above them."""
    lines = body.split("\n")
    for _ in range(_MOST_LINES):
        text = "\n".join(lines)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                py.parse(text)
        except SyntaxError as error:
            if head := re.match(r"expected an indented block after .* on line (\d+)", error.msg or ""):
                lines[int(head[1]) - 1] += " pass"  # its block is not typed yet
                continue
            place = min(max(error.lineno or 1, 1), len(lines)) - 1
            if lines[place].strip() not in ("", "pass"):
                lines[place] = f"{_indentation(lines[place])}pass"
                continue
            del lines[place:]
        except (ValueError, RecursionError, MemoryError):
            break
        else:
            break
    return "\n".join(lines)


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _lines_around(module: tree.CellNode, line: int) -> range:
    """The lines of the function around a line, up to the next one; of all where there is none."""
    starts = [definition.span.start_line for definition in module.funcs.values()]
    above = [start for start in starts if start <= line]
    below = [start for start in starts if start > line]
    return range(max(above), min(below, default=1 << 31)) if above else range(1 << 31)


class _Watcher(Elaborator):
    """An elaboration that looks at one name after each statement of some lines."""

    def __init__(
        self, source: Source, namespace: Mapping[str, object], found: Diagnostics, name: str, lines: range
    ) -> None:
        super().__init__(source, namespace, found)
        self._name, self._lines = name, lines
        self._trials = 0
        #: What the name was, in order; and what it was where that was only tried.
        self._sure: dict[str, None] = {}
        self._tried: dict[str, None] = {}

    def found_types(self) -> list[str]:
        """What the name stands for."""
        return list(self._sure or self._tried)

    @contextmanager
    def trial(self) -> Iterator[Diagnostics]:
        """As it is, and remembered."""
        self._trials += 1
        try:
            with super().trial() as found:
                yield found
        finally:
            self._trials -= 1

    def _step(self, statement: ast.Stmt, live: frozenset[str]) -> Terminator | None:
        self._look(statement)
        try:
            return super()._step(statement, live)
        finally:
            self._look(statement)

    def _look(self, statement: ast.Stmt) -> None:
        value = self.frame.env.locals.get(self._name)
        if value is None or statement.span.start_line not in self._lines:
            return
        shown = _shown(value)
        if shown is not None:
            (self._tried if self._trials else self._sure)[shown] = None


def _shown(value: Value, *, inside: bool = False) -> str | None:
    """A value as its type, ``inside`` a tuple's; None where an error was found in it."""
    match value:
        case Failed() | Unassigned():
            return None
        case Computed(weak=True):
            return described(value).removeprefix("a Python ")
        case Computed(type=type_):
            return format_type(type_)
        case TupleOf(items=items):
            parts = [_shown(item, inside=True) for item in items]
            known = [part for part in parts if part is not None]
            return f"tuple[{', '.join(known) or '()'}]" if len(known) == len(parts) else None
        case Dimension(dim=dim):
            return "int" if inside else f"int, the dimension {format_dim(dim)}"
        case Known(value=bool() | int() | float() | str() as found):
            kind = type(found).__name__
            return kind if inside else f"{kind}, known while compiling"
    return described(value)
