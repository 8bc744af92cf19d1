"""What a name inside a cell that is being typed stands for, as far as the cell can be read as it stands.

The elaboration of a cell with errors goes on after each of them; this watches it.
"""

from __future__ import annotations

import ast as py
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

from synr import ast

from nnmagic.diagnostics import Diagnostics, Source
from nnmagic.relay.signatures import format_dim, format_type
from nnmagic.tinynn.elaborate import Elaboration, elaborate_cell, new_elaboration
from nnmagic.tinynn.syntax import parse, tree
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.values import Computed, Dimension, Failed, Known, TupleOf, Unassigned, Value

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
    observer = _TypeObserver(name, _lines_around(module, line))
    elaboration = new_elaboration(source, namespace, found)
    elaboration.observe = observer.observe
    elaborate_cell(elaboration, module)
    return "\n".join(f"{name}: {type_}" for type_ in observer.types()) or None


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


@dataclass(frozen=True, slots=True)
class _TypeObserver:
    """Record what a name stands for before and after each statement of some lines."""

    name: str
    lines: range
    #: The types in order: those of statements that are kept, and those of trials.
    final: dict[str, None] = field(default_factory=dict)
    tried: dict[str, None] = field(default_factory=dict)

    def observe(self, elaboration: Elaboration, statement: ast.Stmt) -> None:
        """Record the type of the name, if it has one here."""
        value = elaboration.environment.bindings.locals.get(self.name)
        if value is None or statement.span.start_line not in self.lines:
            return
        shown = _shown(value)
        if shown is not None:
            (self.tried if elaboration.trials else self.final)[shown] = None

    def types(self) -> list[str]:
        """Return what the name stands for; what a trial found counts where nothing else is known."""
        return list(self.final or self.tried)


def _shown(value: Value, *, inside: bool = False) -> str | None:
    """A value as its type, ``inside`` a tuple's; None where an error was found in it."""
    match value:
        case Failed() | Unassigned():
            return None
        case Computed(weak=True):
            return describe(value).removeprefix("a Python ")
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
            return kind if inside else f"{kind}, known at compile time"
    return describe(value)
