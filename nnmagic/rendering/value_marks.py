"""Mark the definition and the uses of a value of Relay where the pointer is on it, by CSS alone."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping

from pygments.token import Name

from nnmagic.rendering.lexer import RelayLexer

#: More values get no marks: browsers match every rule whenever the pointer moves.
_MOST_MARKED = 300
_MARK = "outline:2px solid #1971c2;border-radius:2px"


def value_classes(relay: str) -> Mapping[int, str]:
    """Return the classes of the names of values in Relay text, by offset: one for each value that recurs."""
    classes: dict[tuple[int, str], list[int]] = defaultdict(list)
    functions = [match.start() for match in re.finditer(r"(?m)^def ", relay)]
    for start, kind, token in RelayLexer().get_tokens_unprocessed(relay):
        if kind is Name.Variable:
            classes[bisect_right(functions, start), token].append(start)
    recurring = [starts for starts in classes.values() if len(starts) > 1]
    if len(recurring) > _MOST_MARKED:
        return {}
    return {start: f"v{number}" for number, starts in enumerate(recurring) for start in starts}


def value_rules(classes: Iterable[str], within: str) -> str:
    """Return the rule of the style sheet that marks values inside of the elements of a selector."""
    selectors = [f"{within}:has(.{name}:hover) .{name}" for name in dict.fromkeys(classes)]
    return f"{','.join(selectors)}{{{_MARK}}}" if selectors else ""
