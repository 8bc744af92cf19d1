"""Break long lines of Relay text between tokens, so that they fit a page and stay valid Relay.

A line is filled and goes on indented. Only blanks between tokens turn into line ends, so parsing the broken
text gives the same module.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pygments.token import Comment, Text

from nnmagic.rendering.lexer import RelayLexer

#: How far a line that goes on is indented beyond the line that it continues.
_CONTINUATION = 4
#: Added to the depth of a blank inside a comment.
_COMMENT_DEPTH = 100


@dataclass(frozen=True, slots=True)
class _Blank:
    """A blank where a line may be broken: its offset, and how many brackets of the line are open there.

    natural: whether it follows a comma, or stands before a result type or a comment.
    """

    offset: int
    depth: int
    natural: bool


def line_breaks(text: str, width: int) -> Mapping[int, int]:
    """Return the blanks of Relay text to break at, by offset, and how far the line after each is indented."""
    breaks: dict[int, int] = {}
    for start, line, blanks in _long_lines(text, width):
        breaks.update((start + offset, indent) for offset, indent in _fill(line, blanks, width))
    return breaks


def _long_lines(text: str, width: int) -> Iterator[tuple[int, str, Sequence[_Blank]]]:
    """Yield the lines that are too long: the offset of each, its text, and the blanks in it."""
    lines = text.split("\n")
    if max(map(len, lines)) <= width:
        return
    blanks = list(_blanks(text))
    offsets = [blank.offset for blank in blanks]
    start = 0
    for line in lines:
        if len(line) > width:
            inside = blanks[bisect_left(offsets, start) : bisect_left(offsets, start + len(line))]
            outermost = min((blank.depth for blank in inside), default=0)
            yield (
                start,
                line,
                [
                    replace(blank, offset=blank.offset - start, depth=blank.depth - outermost)
                    for blank in inside
                ],
            )
        start += len(line) + 1


def _blanks(text: str) -> Iterator[_Blank]:
    """Yield the blanks between the tokens of a line, and those inside comments, which are broken last."""
    depth, before = 0, ""
    for offset, kind, source_text in RelayLexer().get_tokens_unprocessed(text):
        if kind is Text.Whitespace and source_text == " ":
            yield _Blank(offset, depth, before == "," or text.startswith(("->", "/*"), offset + 1))
        elif kind is Comment.Multiline:
            for blank in re.finditer("(?<=,) ", source_text):
                yield _Blank(offset + blank.start(), depth + _COMMENT_DEPTH, natural=True)
        elif kind not in Comment:
            depth += (source_text in "([{") - (source_text in ")]}")
            before = source_text


def _fill(line: str, blanks: Sequence[_Blank], width: int) -> Iterator[tuple[int, int]]:
    """Break a line as late as possible.

    Of the blanks that fit, natural ones come first, and of those the last one inside the fewest brackets.
    """
    indent = _indent(line) + _CONTINUATION
    start = shift = 0
    while len(line) - start + shift > width:
        later = [blank for blank in blanks if blank.offset > start and blank.offset - start + shift > indent]
        fitting = [blank for blank in later if blank.offset - start + shift <= width]
        if not later:
            return
        best = max(fitting, key=_preference) if fitting else later[0]
        yield best.offset, indent
        start, shift = best.offset + 1, indent


def _preference(blank: _Blank) -> tuple[bool, int, int]:
    return blank.natural, -blank.depth, blank.offset


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def break_lines(text: str, breaks: Mapping[int, int]) -> str:
    """Return a text with its lines broken at the given blanks."""
    lines, start = [], 0
    for offset, indent in sorted(breaks.items()):
        lines.append(f"{text[start:offset]}\n{' ' * indent}")
        start = offset + 1
    return "".join(lines) + text[start:]
