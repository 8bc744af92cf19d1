"""Find where the cursor stands in an unfinished cell: which call it is in, and what is known before it.

Reads characters, not Python's grammar: what is typed seldom parses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import zip_longest

_NAME = r"[^\W\d]\w*"
_PATH = re.compile(rf"(?:{_NAME}\.)*(?:{_NAME})?$")
_CALLEE = re.compile(rf"(?P<define>\bdef\s+)?(?P<path>{_NAME}(?:\.{_NAME})*)\s*$")
_KEYWORD = re.compile(rf"\s*({_NAME})\s*=(?!=)")
_STRING_START = re.compile(r"\"\"\"|'''|\"|'")


@dataclass(frozen=True, slots=True)
class Bracket:
    """A bracket that is open at the cursor.

    kind: ``(``, ``[`` or ``{``. callee: the dotted name before it. defines: whether ``def`` stands before
    that. part: what was typed since its last comma. commas: how many came before. keywords: those that were
    given.
    """

    kind: str
    callee: str
    defines: bool
    part: str
    commas: int
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CursorContext:
    """The cursor of a cell's body.

    path: the dotted name that ends at it. quoted: whether it is in a string or a comment. bracket: the
    innermost one that is open, outer: the one around that. line: what stands before it in its line.
    """

    path: tuple[str, ...]
    quoted: bool
    bracket: Bracket | None
    line: str
    outer: Bracket | None = None

    @property
    def prefix(self) -> str:
        """The part of the name that is being typed."""
        return self.path[-1]

    @property
    def owner(self) -> str:
        """The line up to the dot of a member of something in brackets; "" where there is none."""
        before = self.line.removesuffix(".".join(self.path))
        return before[:-1] if re.search(r"[)\]]\.$", before) else ""

    def begins_definition(self) -> bool:
        """Whether it stands where nothing but a function or a class may begin."""
        return self.bracket is None and self.line == self.prefix

    def expects_type(self) -> bool:
        """Whether an annotation is being typed."""
        bracket = self.bracket
        if bracket is not None and bracket.kind == "[":
            return bracket.callee in ("Tensor", "tuple", "Callable", "InOut", "Out")
        if bracket is not None and bracket.kind == "(":
            return bracket.defines and ":" in bracket.part
        return bool(
            re.search(r"->\s*[\w.]*$", self.line) or re.match(rf"\s*{_NAME}\s*:\s*[\w.]*$", self.line)
        )

    def expects_dimension(self) -> bool:
        """Whether a dimension of a type is being typed."""
        inner, outer = self.bracket, self.outer
        if inner is None or inner.kind != "(" or inner.callee or outer is None or outer.kind != "[":
            return False
        return outer.callee.rpartition(".")[2] == "Tensor" and not outer.commas

    def expects_keyword(self) -> bool:
        """Whether a keyword argument may be typed here."""
        bracket = self.bracket
        if bracket is None or bracket.kind != "(" or not bracket.callee or bracket.defines:
            return False
        return len(self.path) == 1 and re.fullmatch(r"\s*\w*", bracket.part) is not None


@dataclass(slots=True)
class _OpenBracket:
    kind: str
    start: int
    comma: int
    commas: int = 0
    keywords: list[str] = field(default_factory=list)


def cursor_in(text: str) -> CursorContext:
    """Return the context of the cursor at the end of ``text``, a cell's body up to the cursor."""
    opened: list[_OpenBracket] = []
    position, quoted = 0, False
    while position < len(text):
        char = text[position]
        if char == "#":
            end = text.find("\n", position)
            quoted = end < 0
            position = len(text) if quoted else end
            continue
        if quote := _STRING_START.match(text, position):
            after = _string_end(text, position, quote[0])
            quoted = after is None
            position = len(text) if after is None else after
            continue
        if char in "([{":
            opened.append(_OpenBracket(char, position, position + 1))
        elif char in ")]}" and opened:
            opened.pop()
        elif char == "," and opened:
            inner = opened[-1]
            if keyword := _KEYWORD.match(text, inner.comma):
                inner.keywords.append(keyword[1])
            inner.commas, inner.comma = inner.commas + 1, position + 1
        position += 1
    line = text.rsplit("\n", 1)[-1]
    path = _PATH.search(line)
    assert path is not None
    brackets = [_bracket(text, each) for each in opened[-2:]]
    return CursorContext(
        tuple(path[0].split(".")),
        quoted,
        brackets[-1] if brackets else None,
        line,
        brackets[0] if len(brackets) == 2 else None,
    )


def _string_end(text: str, start: int, quote: str) -> int | None:
    """Return where the string that begins at ``start`` ends; None if it is still open."""
    position = start + len(quote)
    while position < len(text):
        if text[position] == "\\":
            position += 2
        elif text.startswith(quote, position):
            return position + len(quote)
        elif text[position] == "\n" and len(quote) == 1:
            return position  # an unfinished string ends with its line
        else:
            position += 1
    return None


def _bracket(text: str, opened: _OpenBracket) -> Bracket:
    callee = _CALLEE.search(text, 0, opened.start)
    return Bracket(
        opened.kind,
        callee["path"] if callee else "",
        callee is not None and callee["define"] is not None,
        text[opened.comma :],
        opened.commas,
        tuple(opened.keywords),
    )


_TOP = re.compile(rf"^(?:def|class)\s+({_NAME})", re.MULTILINE)
_NESTED = re.compile(rf"^[ \t]+def\s+({_NAME})", re.MULTILINE)
_TARGETS = re.compile(
    rf"^[ \t]*(?:for[ \t]+)?((?:\*?{_NAME}|[(), \t*\[\]])+?)[ \t]*(?::[^=\n]*)?"
    r"(?:[-+*/@%&|^]|//|\*\*|<<|>>)?(?:=(?!=)|\bin\b)",
    re.MULTILINE,
)
_WALRUS = re.compile(rf"({_NAME})\s*:=")
_CAPTURES = re.compile(r"^[ \t]*case[ \t]+(.+):", re.MULTILINE)
_PARAMETER = re.compile(rf"[(,]\s*\**({_NAME})\s*:")


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a cell's own text defines.

    functions: the names of their parameters. classes: their constructors. local: the names that the function
    around the cursor has bound.
    """

    functions: dict[str, tuple[str, ...]]
    classes: dict[str, tuple[str, ...]]
    local: tuple[str, ...]


def names_in(body: str, above: str) -> Names:
    """Return the names that a cell's body defines; ``above`` is the text before the cursor."""
    functions: dict[str, tuple[str, ...]] = {}
    classes: dict[str, tuple[str, ...]] = {}
    tops = list(_TOP.finditer(body))
    local: tuple[str, ...] = ()
    for top, following in zip_longest(tops, tops[1:]):
        text = body[top.start() : following.start() if following else len(body)]
        if text.startswith("class"):
            classes[top[1]] = tuple(re.findall(rf"^[ \t]+({_NAME})", text, re.MULTILINE))
            continue
        functions[top[1]] = _parameters(text)
        if top.start() < len(above) and (following is None or len(above) <= following.start()):
            local = _local(body[top.start() : len(above)])
    return Names(functions, classes, local)


def _parameters(text: str) -> tuple[str, ...]:
    """Return the parameters of the function that the text begins with."""
    depth, end = 0, len(text)
    for position, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char == ")" and depth == 0:
            end = position
            break
    return tuple(dict.fromkeys(_PARAMETER.findall(text[:end])))


def _local(text: str) -> tuple[str, ...]:
    """Return the names that a function has bound."""
    names = list(_parameters(text))
    for nested in re.finditer(r"^[ \t]+def\s.*$", text, re.MULTILINE):
        names += _PARAMETER.findall(nested[0])
    names += _NESTED.findall(text)
    head, _, typed = text.rpartition("\n")  # the line at hand binds nothing yet
    lines = head if not typed.lstrip().startswith("for") else text
    for targets in [*_TARGETS.findall(lines), *_CAPTURES.findall(head)]:
        names += re.findall(_NAME, targets)
    names += _WALRUS.findall(text)
    return tuple(name for name in dict.fromkeys(names) if name not in ("for", "in", "if", "else", "return"))
