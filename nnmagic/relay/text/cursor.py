"""Keep a parser's position in the tokens, and report unexpected tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn, TypeVar

from nnmagic.diagnostics import Diagnostic, Note, Source, Span, closest
from nnmagic.relay.text.lexer import Kind, TextSpans, Token, tokenize

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


class ParseError(Exception):
    """A text that cannot be parsed on from here."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class TokenCursor:
    """The tokens of a text and a position in them."""

    def __init__(self, source: Source) -> None:
        self.tokens = tokenize(source.text)
        self.index = 0
        self.current = self.tokens[0]
        self._spans = TextSpans(source)

    def move_to(self, index: int) -> None:
        """Continue at the token of that index."""
        self.index = index
        self.current = self.tokens[index]

    def advance(self) -> Token:
        """Step over the current token and return it; the end token is never stepped over."""
        token = self.current
        if token.kind == "error":
            self.fail(token.text, token)
        if token.kind != "end":
            self.index += 1
            self.current = self.tokens[self.index]
        return token

    def ahead(self, distance: int = 1) -> Token:
        """Return the token ``distance`` behind the current one."""
        return self.tokens[min(self.index + distance, len(self.tokens) - 1)]

    def at(self, symbol: str) -> bool:
        """Return whether the current token is that symbol."""
        return self.current.text == symbol and self.current.kind == "symbol"

    def at_word(self, word: str) -> bool:
        """Return whether the current token is that name."""
        return self.current.text == word and self.current.kind == "name"

    def accept(self, symbol: str) -> bool:
        """Step over a symbol if it is next."""
        is_next = self.at(symbol)
        if is_next:
            self.advance()
        return is_next

    def expect(self, symbol: str, *, hint: str | None = None) -> Token:
        """Step over a symbol that must be next."""
        if not self.at(symbol):
            self.fail_expecting(f"`{symbol}`", hint=hint)
        return self.advance()

    def expect_kind(self, kind: Kind, *, hint: str | None = None) -> Token:
        """Step over a token of a kind that must be next."""
        if self.current.kind != kind:
            self.fail_expecting(_KIND_WORDS[kind], hint=hint)
        return self.advance()

    def parse_list(self, opening: str, closing: str, item: Callable[[], T]) -> list[T]:
        """Parse ``(item, item, ...)``; a comma may follow the last one."""
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
        """Return the span from ``first`` to ``last``."""
        return self._spans.span(first.start, (last or first).end)

    def span_from(self, first: Token) -> Span:
        """Return the span from ``first`` to the last token that was stepped over."""
        return self._spans.span(first.start, max(first.end, self.tokens[self.index - 1].end))

    def offset_span(self, start: int, end: int) -> Span:
        """Return the span of a stretch of the text."""
        return self._spans.span(start, end)

    def fail_expecting(self, wanted: str, *, hint: str | None = None) -> NoReturn:
        """Fail at the current token because it is not ``wanted``."""
        token = self.current
        if token.kind == "error":
            self.fail(token.text, token)
        if hint is None and token.kind == "number" and token.text.startswith("-"):
            hint = "to subtract, put a blank behind the minus sign"
        self.fail(f"expected {wanted}, found {_words(token)}", token, hint=hint)

    def fail(
        self, message: str, location: Token | Span, *, hint: str | None = None, notes: Sequence[Note] = ()
    ) -> NoReturn:
        """Fail at a token or a span."""
        span = location if isinstance(location, Span) else self.span(location)
        raise ParseError(Diagnostic(message, span, hint, tuple(notes)))


def clip(text: str) -> str:
    """Cut a user's text for a message, if it is long."""
    return text if len(text) <= 60 else f"{text[:57]}..."


def did_you_mean(wrong: str, known: Iterable[str], mark: str = "") -> str | None:
    """Hint at the name of ``known`` that looks most like ``wrong``, with ``mark`` (``%``) before it."""
    close = closest(wrong, known)
    return f"did you mean `{mark}{close}`?" if close else None


def _words(token: Token) -> str:
    if token.kind == "end":
        return "the end of the text"
    if token.kind in ("version", "metadata"):
        return f"`#[{token.kind}]`"
    return f"`{clip(token.text)}`"
