"""Map a module's text to its expressions, for colours and tooltips."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from nnmagic.relay.expr import Expr
from nnmagic.relay.module import Module
from nnmagic.relay.text.printer import module_body

#: Unicode's noncharacters, for a program's own use; three that the text does not contain delimit marks.
_NONCHARACTERS = tuple(map(chr, range(0xFDD0, 0xFDF0)))


@dataclass(frozen=True, slots=True)
class TextRange:
    """The range ``text[start:end]`` that stands for ``expr``: its own text, its name, or its number."""

    start: int
    end: int
    expr: Expr


def text_with_ranges(
    module: Module, in_place: Mapping[Expr, str] | None = None
) -> tuple[str, tuple[TextRange, ...]]:
    """Return ``str(module)`` and the ranges of its expressions, outer ones before those inside them.

    ``in_place``: what ``module_body`` makes shorter.
    """
    text = module_body(module, in_place=in_place)
    begin, middle, end = [char for char in _NONCHARACTERS if char not in text][:3]
    exprs: list[Expr] = []

    def mark(expr: Expr, token: str) -> str:
        exprs.append(expr)
        return f"{begin}{len(exprs) - 1}{middle}{token}{end}"

    marked = module_body(module, mark, in_place)
    ranges: list[TextRange] = []
    opened: list[tuple[int, int, Expr]] = []
    position = 0
    for token in re.split(f"({begin}[0-9]+{middle}|{end})", marked):
        if token.startswith(begin):
            opened.append((len(ranges), position, exprs[int(token[1:-1])]))
            ranges.append(TextRange(position, position, opened[-1][2]))
        elif token == end:
            index, start, expr = opened.pop()
            ranges[index] = TextRange(start, position, expr)
        else:
            position += len(token)
    return text, tuple(ranges)
