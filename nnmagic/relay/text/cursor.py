"""Where a parser stands in the tokens, and how it reports what it does not expect.

Knows tokens and diagnostics, no grammar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn, TypeVar

from nnmagic.diagnostics import Diagnostic, Note, Source, Span, closest
from nnmagic.relay.text.lexer import Kind, Places, Token, tokenize

T = TypeVar("T")

#: How deeply types, patterns and lists of attributes may be nested.
MAX_NESTING = 64

_KIND_WORDS: dict[Kind, str] = {
    "name": "a name",
    "local": "a local variable (`%x`)",
    "graph": "a graph variable (`%0`)",
    "global": "a global function (`@f`)",
    "number": "a number",
    "string": "a string",
    "version": "the version line",
    "end": "the end of the text",
}


class ParseFailure(Exception):  # noqa: N818  it ends the parsing of one definition, and is reported with others
    """Text that cannot be parsed on from here."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class Cursor:
    """The tokens of a text and a position in them."""

    def __init__(self, source: Source) -> None:
        self.tokens = tokenize(source.text)
        self.index = 0
        self.current = self.tokens[0]
        self._places = Places(source)

    def move_to(self, index: int) -> None:
        """Goes on at the token of that index."""
        self.index = index
        self.current = self.tokens[index]

    def advance(self) -> Token:
        """The current token; goes on to the next one. At the end it stays there."""
        token = self.current
        if token.kind == "error":
            self.fail(token.text, token)
        if token.kind != "end":
            self.index += 1
            self.current = self.tokens[self.index]
        return token

    def ahead(self, distance: int = 1) -> Token:
        """The token ``distance`` behind the current one."""
        return self.tokens[min(self.index + distance, len(self.tokens) - 1)]

    def at(self, symbol: str) -> bool:
        """Whether the current token is that symbol."""
        return self.current.text == symbol and self.current.kind == "symbol"

    def at_word(self, word: str) -> bool:
        """Whether the current token is that name."""
        return self.current.text == word and self.current.kind == "name"

    def accept(self, symbol: str) -> bool:
        """Steps over a symbol, if it is there."""
        found = self.at(symbol)
        if found:
            self.advance()
        return found

    def expect(self, symbol: str, *, hint: str | None = None) -> Token:
        """Steps over a symbol that must be there."""
        if not self.at(symbol):
            self.unexpected(f"`{symbol}`", hint=hint)
        return self.advance()

    def expect_kind(self, kind: Kind, *, hint: str | None = None) -> Token:
        """Steps over a token of a kind that must be there."""
        if self.current.kind != kind:
            self.unexpected(_KIND_WORDS[kind], hint=hint)
        return self.advance()

    def listed(self, opening: str, closing: str, item: Callable[[], T]) -> list[T]:
        """``(item, item, ...)``; a comma may follow the last one."""
        self.expect(opening)
        items: list[T] = []
        while not self.at(closing):
            items.append(item())
            if not self.accept(","):
                break
        self.expect(closing)
        return items

    # Spans and errors

    def span(self, first: Token, last: Token | None = None) -> Span:
        """The span from ``first`` to ``last``."""
        return self._places.span(first.start, (last or first).end)

    def span_from(self, first: Token) -> Span:
        """The span from ``first`` to the last token that was stepped over."""
        return self._places.span(first.start, max(first.end, self.tokens[self.index - 1].end))

    def offset_span(self, start: int, end: int) -> Span:
        """The span of a stretch of the text."""
        return self._places.span(start, end)

    def unexpected(self, wanted: str, *, hint: str | None = None) -> NoReturn:
        """Fails at the current token because it is not ``wanted``."""
        token = self.current
        if token.kind == "error":
            self.fail(token.text, token)
        if hint is None and token.kind == "number" and token.text.startswith("-"):
            hint = "to subtract, put a blank behind the minus sign"
        self.fail(f"expected {wanted}, found {_words(token)}", token, hint=hint)

    def fail(
        self, message: str, at: Token | Span, *, hint: str | None = None, notes: Sequence[Note] = ()
    ) -> NoReturn:
        """Fails at a token or a span."""
        span = at if isinstance(at, Span) else self.span(at)
        raise ParseFailure(Diagnostic(message, span, hint, tuple(notes)))


def shown(text: str) -> str:
    """Text of the user as a message shows it: not at any length."""
    return text if len(text) <= 60 else f"{text[:57]}..."


def did_you_mean(wrong: str, known: Iterable[str], mark: str = "") -> str | None:
    """A hint at the name of ``known`` that looks most like ``wrong``; ``mark`` (``%``) is put before it."""
    close = closest(wrong, known)
    return f"did you mean `{mark}{close}`?" if close else None


def _words(token: Token) -> str:
    if token.kind == "end":
        return "the end of the text"
    if token.kind in ("version", "metadata"):
        return f"`#[{token.kind}]`"
    return f"`{shown(token.text)}`"
