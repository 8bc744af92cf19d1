"""Find the types of local names in a cell that the user is still editing.

The elaboration of a cell continues after each error; a subclass observes it.
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

#: Maximal number of unreadable lines of a cell that are replaced.
_MOST_LINES = 20


def type_of_local(cell: str, name: str, line: int, namespace: Mapping[str, object]) -> str | None:
    """Return the types of a name in the function around a line: ``d: Tensor[(2, 4), f32]``, one per line.

    ``line`` counts from 1, the line of the magic. Return None if the function does not bind the name, or if
    its type is unknown.
    """
    read = parse_incomplete(cell)
    if read is None:
        return None
    source, diagnostics, module = read
    observer = _TypeObserver(name, _lines_around(module, line))
    elaboration = new_elaboration(source, namespace, diagnostics)
    elaboration.observe = observer.observe
    elaborate_cell(elaboration, module)
    return "\n".join(f"{name}: {type_}" for type_ in observer.types()) or None


def parse_incomplete(cell: str) -> tuple[Source, Diagnostics, tree.CellNode] | None:
    """Return the readable text of an incomplete cell, and its tree."""
    _, _, body = cell.partition("\n")
    source = Source("<tinynn>", _readable(body), first_line=2)
    diagnostics = Diagnostics()
    module = parse(source, diagnostics)
    return None if module is None else (source, diagnostics, module)


def _readable(body: str) -> str:
    """Replace the lines that Python cannot parse by ``pass``; failing that, keep only the text above."""
    lines = body.split("\n")
    for _ in range(_MOST_LINES):
        text = "\n".join(lines)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                py.parse(text)
        except SyntaxError as error:
            if head := re.match(r"expected an indented block after .* on line (\d+)", error.msg or ""):
                lines[int(head[1]) - 1] += " pass"  # its block is still missing
                continue
            index = min(max(error.lineno or 1, 1), len(lines)) - 1
            if lines[index].strip() not in ("", "pass"):
                lines[index] = f"{_indentation(lines[index])}pass"
                continue
            del lines[index:]
        except (ValueError, RecursionError, MemoryError):
            break
        else:
            break
    return "\n".join(lines)


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _lines_around(module: tree.CellNode, line: int) -> range:
    """Return the lines of the function around a line, up to the next function; all lines outside one."""
    starts = [definition.span.start_line for definition in module.funcs.values()]
    above = [start for start in starts if start <= line]
    below = [start for start in starts if start > line]
    return range(max(above), min(below, default=1 << 31)) if above else range(1 << 31)


@dataclass(frozen=True, slots=True)
class _TypeObserver:
    """Observer that records the types of a name before and after each statement of some lines."""

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
        shown = _format_type(value)
        if shown is not None:
            (self.tried if elaboration.trials else self.final)[shown] = None

    def types(self) -> list[str]:
        """Return the types of the name; those of trials count only if there are no others."""
        return list(self.final or self.tried)


def _format_type(value: Value, *, inside: bool = False) -> str | None:
    """Return the type of a value as text, ``inside`` a tuple's; None if it has an error."""
    match value:
        case Failed() | Unassigned():
            return None
        case Computed(weak=True):
            return describe(value).removeprefix("a Python ")
        case Computed(type=type_):
            return format_type(type_)
        case TupleOf(items=items):
            parts = [_format_type(item, inside=True) for item in items]
            shown_items = [part for part in parts if part is not None]
            return f"tuple[{', '.join(shown_items) or '()'}]" if len(shown_items) == len(parts) else None
        case Dimension(dim=dim):
            return "int" if inside else f"int, the dimension {format_dim(dim)}"
        case Known(value=bool() | int() | float() | str() as number):
            kind = type(number).__name__
            return kind if inside else f"{kind}, known at compile time"
    return describe(value)
