"""Cut Relay text into tokens.

Text that is no token (an unknown character, an unterminated string) becomes a token of kind "error" whose
``text`` is the message, so that the parser reports it where it meets it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Literal, NamedTuple, cast

from nnmagic.diagnostics import Source, Span

Kind = Literal[
    "name", "local", "graph", "global", "number", "string", "symbol", "version", "metadata", "error", "end"
]


class Token(NamedTuple):
    """A token and its position in the text (0-based offsets, end exclusive).

    ``text`` is as written; of "version" it is the version, of "metadata" the JSON text that follows.
    """

    kind: Kind
    text: str
    start: int
    end: int


#: Letters, digits, `_`, and `/` unless it begins a comment.
_IDENTIFIER = r"(?:[^\W\d]|/(?![/*]))(?:\w|/(?![/*]))*"

_TOKEN = re.compile(
    rf"""
      (?P<space>[\s\ufeff]+ | //[^\r\n]*)
    | (?P<number>(?<!-)-*(?:[0-9](?:[eE][+-](?=[0-9])|[\w.])*|inff(?:16|32|64)?(?![\w./])))
    | (?P<name>(?!/){_IDENTIFIER}(?:\.[^\W\d]\w*)*)
    | (?P<local>%{_IDENTIFIER})
    | (?P<graph>%[0-9]+)
    | (?P<global>@{_IDENTIFIER})
    | (?P<comment>/\*)
    | (?P<symbol>->|=>|[=!<>]=|[-+*/=<>(){{}}\[\],;:.?])
    | (?P<string>"(?:[^"\\\r\n]|\\.)*")
    | (?P<attribute>\#\[[^\[\]\#\r\n]*\])
    """,
    re.VERBOSE,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_VERSION = re.compile(r'\#\[\s*version\s*=\s*"([^"]*)"\s*\]')
_LINE_END = re.compile(r"\r\n|\r|\n")
_METADATA = re.compile(r"\#\[\s*metadata\s*\]")


def tokenize(text: str) -> list[Token]:
    """Return the tokens of ``text``, the last of which is the end. An open comment reaches to the end."""
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            token = _no_token(text, position)
        elif match.lastgroup == "space":
            position = match.end()
            continue
        elif match.lastgroup == "comment":
            position = _comment_end(text, position)
            continue
        elif match.lastgroup == "attribute":
            token = _attribute(text, position, match.end())
        else:
            token = Token(cast("Kind", match.lastgroup), match[0], position, match.end())
        tokens.append(token)
        position = len(text) if token.kind == "metadata" else token.end
    tokens.append(Token("end", "", len(text), len(text)))
    return tokens


def _comment_end(text: str, start: int) -> int:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    return len(text)


def _attribute(text: str, start: int, end: int) -> Token:
    """Read ``#[...]``."""
    version = _VERSION.fullmatch(text, start, end)
    if version:
        return Token("version", version[1], start, end)
    if _METADATA.fullmatch(text, start, end):
        return Token("metadata", text[end:], start, end)
    return Token("error", f"unsupported attribute `{text[start + 2 : end - 1]}`", start, end)


def _no_token(text: str, start: int) -> Token:
    char = text[start]
    if char == '"':
        line = re.compile(r"[^\r\n]*").match(text, start)
        assert line is not None
        return Token("error", "unterminated string", start, line.end())
    if char == "#":
        return Token("error", '`#` must be followed by `[`, as in `#[version = "0.0.5"]`', start, start + 1)
    if char in "%@":
        what = "a variable" if char == "%" else "a global function"
        return Token("error", f"`{char}` must be followed by the name of {what}", start, start + 1)
    return Token("error", f"unexpected character {char!r}", start, start + 1)


class TextSpans:
    """A map from offsets in a source's text to spans."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._line_starts = [0, *(end.end() for end in _LINE_END.finditer(source.text))]

    def span(self, start: int, end: int) -> Span:
        """Return the span of ``text[start:end]``."""
        line, column = self._line_and_column(start)
        end_line, end_column = self._line_and_column(end)
        return Span(self._source.filename, line, column, end_line, end_column, self._source)

    def _line_and_column(self, offset: int) -> tuple[int, int]:
        index = bisect_right(self._line_starts, offset) - 1
        line = self._source.first_line + index
        return line, offset - self._line_starts[index] + 1 + self._source.indent
