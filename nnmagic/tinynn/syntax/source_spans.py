"""Convert the positions that Python's parser gives to character-exact spans."""

from __future__ import annotations

import ast as py
import io
import re
import tokenize

from synr import ast

from nnmagic.diagnostics import Source, Span


class SpanMap:
    """Spans in one source: Python's UTF-8 byte offsets become character columns."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.lines = re.split(r"\r\n|\r|\n", source.text)

    @property
    def start(self) -> Span:
        """Return the span of the first character."""
        return self.public(self.span(1, 0, 1, 1))

    def span(self, line: int, start: int, end_line: int, end: int) -> ast.Span:
        """Return a span from character offsets in lines counted from 1 in the text."""
        first, indent = self.source.first_line - 1, self.source.indent + 1
        return ast.Span(self.source.filename, line + first, start + indent, end_line + first, end + indent)

    def character(self, line: int, byte: int) -> int:
        """Return the character offset of a byte offset in a line."""
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        return byte if text.isascii() else len(text.encode()[:byte].decode(errors="ignore"))

    def of(self, node: py.AST) -> ast.Span:
        """Return the span of a node of Python's tree."""
        line, end_line = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]  # present on every node we pass
        start, end = node.col_offset, node.end_col_offset  # type: ignore[attr-defined]  # present on every node we pass
        return self.span(line, self.character(line, start), end_line, self.character(end_line, end))

    def word(self, line: int, byte: int, prefix: str = "") -> ast.Span:
        """Return the span of the word at an offset, after ``prefix``; of one character without a word."""
        start = self.character(line, byte)
        match = re.compile(rf"{prefix}(\w+)").match(self.lines[line - 1], start)
        begin, end = match.span(1) if match else (start, start + 1)
        return self.span(line, begin, line, end)

    def operator(self, after: py.expr, symbol: str) -> ast.Span:
        """Return the span of the operator that follows an expression, past blanks, brackets and comments."""
        line = after.end_lineno or after.lineno
        column = self.character(line, after.end_col_offset or 0)
        while line <= len(self.lines):
            text = self.lines[line - 1]
            while column < len(text) and text[column] in " \t\f)\\":
                column += 1
            if column < len(text) and text[column] != "#":
                return self.span(line, column, line, column + len(symbol))
            line, column = line + 1, 0
        return self.of(after)

    def of_syntax_error(self, error: SyntaxError, *, in_bytes: bool) -> Span:
        """Return the span of an error that Python found. Its parser counts characters, its compiler bytes."""
        line = min(max(error.lineno or 1, 1), len(self.lines))
        length = len(self.lines[line - 1])
        start = max((error.offset or 1) - 1, 0)
        end = (error.end_offset or 0) - 1
        same_line = (error.end_lineno or line) == line
        if in_bytes:
            start, end = self.character(line, start), self.character(line, max(end, 0))
        start = min(start, length)
        end = end if same_line and start < end <= length else start + 1
        return self.public(self.span(line, start, line, end))

    def of_longest_line(self) -> Span:
        """Return the statement with the most tokens: likely the one that was too deep for Python's parser."""
        longest, begin, count = ((1, 0), (1, 0)), None, 0
        best = -1
        try:
            for token in tokenize.generate_tokens(io.StringIO(self.source.text).readline):
                if token.type in (tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.NL):
                    continue
                begin, count = begin or token.start, count + 1
                if token.type == tokenize.NEWLINE:
                    if count > best:
                        best, longest = count, (begin, token.start)
                    begin, count = None, 0
        except (tokenize.TokenError, SyntaxError):
            pass  # choose among the lines read so far
        (line, start), (end_line, end) = longest
        return self.public(self.span(line, start, end_line, end))

    def public(self, span: ast.Span) -> Span:
        """Convert a span of the tree to a span of a diagnostic."""
        return Span(
            span.filename, span.start_line, span.start_column, span.end_line, span.end_column, self.source
        )
