"""Parse Relay text to a module or an expression, and report every error at once, each with its span.

Everything that Relay's own parser accepts is accepted, with the same meaning, and some more where Relay has
no reason to refuse.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise

from nnmagic.diagnostics import Diagnostics, Note, RelayError, Source
from nnmagic.relay.expr import Constructor, Expr, Function, GlobalVar
from nnmagic.relay.module import Module, TypeData
from nnmagic.relay.text.cursor import ParseError, TokenCursor, clip, did_you_mean
from nnmagic.relay.text.expression_parser import MAX_ERRORS, ExpressionParser
from nnmagic.relay.text.lexer import Token
from nnmagic.relay.text.lexical_scope import LexicalScope
from nnmagic.relay.text.metadata_reader import MetadataReader
from nnmagic.relay.text.trampoline import run
from nnmagic.relay.text.type_parser import Metadata, TypeHeader, TypeParser
from nnmagic.relay.types import GlobalTypeVar

VERSION = "0.0.5"


def parse_module(text: str | Source, filename: str = "from_string") -> Module:
    """Parse a text that begins with the version line; no types are inferred.

    ``text`` may be a Source, which says where in a file or a cell the text is. Raises RelayError.
    """
    return _ModuleParser(_source(text, filename)).module()


def parse_expression(text: str | Source, filename: str = "from_string") -> Expr:
    """Parse an expression without a version line; ``free_var %x: T;`` declares a variable of it.

    Raises RelayError.
    """
    return _ModuleParser(_source(text, filename)).expression()


def _source(text: str | Source, filename: str) -> Source:
    return text if isinstance(text, Source) else Source(filename, text)


class _ModuleParser:
    """A parser of data types first, then functions: both may be used before they are declared."""

    def __init__(self, source: Source) -> None:
        self.cursor = TokenCursor(source)
        self.diagnostics = Diagnostics()
        self.metadata = Metadata()
        self.headers: dict[str, TypeHeader] = {}
        self.constructors: dict[str, Constructor] = {}
        self.types: dict[str, TypeData] = {}
        self.functions: dict[str, Function] = {}
        self.used_globals: list[GlobalVar] = []
        self.graph: dict[str, Expr] = {}
        self.ends: dict[int, int] = {}  # where the declarations of data types begin and end, in tokens

    def module(self) -> Module:
        try:
            self.version_line()
        except ParseError as failure:
            raise RelayError([failure.diagnostic]) from None
        self.read_metadata()
        self.declare_types()
        while (
            self.cursor.current.kind not in ("end", "metadata") and len(self.diagnostics.errors) < MAX_ERRORS
        ):
            self.definition()
        self.check_globals()
        self.diagnostics.raise_if_any(RelayError)
        return Module(self.functions, self.types)

    def expression(self) -> Expr:
        self.read_metadata()
        parser = self.expression_parser()
        try:
            expr = run(parser.body())
            if self.cursor.current.kind not in ("end", "metadata"):
                self.cursor.fail_expecting("the end of the text")
        except ParseError as failure:
            self.diagnostics.add(failure.diagnostic)
        self.diagnostics.raise_if_any(RelayError)
        return expr

    def version_line(self) -> None:
        token = self.cursor.current
        line = f'#[version = "{VERSION}"]'
        if token.kind != "version":
            self.cursor.fail_expecting("the version line", hint=f"the text of a module begins with `{line}`")
        if token.text != VERSION:
            self.cursor.fail(f"invalid version `{clip(token.text)}`", token, hint=f"this is `{line}`")
        self.cursor.advance()

    def read_metadata(self) -> None:
        section = self.cursor.tokens[-2] if len(self.cursor.tokens) > 1 else None
        if section is None or section.kind != "metadata":
            return
        try:
            self.metadata.reader = MetadataReader(section.text)
        except json.JSONDecodeError as error:
            offset = section.end + error.pos
            span = self.cursor.offset_span(offset, offset + 1)
            self.diagnostics.error(f"the metadata section is not JSON: {error.msg}", span)
        except ValueError as error:
            self.diagnostics.error(f"the metadata section cannot be read: {error}", self.cursor.span(section))

    # Data types

    def declare_types(self) -> None:
        """Read all declarations of data types: the headers, then the constructors."""
        start = self.cursor.index
        words = [index for index, token in enumerate(self.cursor.tokens) if token.text == "type"]
        positions = list(filter(self.begins_type, words))
        for index in positions:
            self.cursor.move_to(index)
            self.attempt(self.type_header)
        for index in positions:
            self.cursor.move_to(index)
            self.attempt(self.type_data)
        self.cursor.move_to(start)

    def begins_type(self, index: int) -> bool:
        match self.cursor.tokens[index : index + 3]:
            case [Token("name", "type"), Token("name"), Token("symbol", "[" | "{")]:
                return True
        return False

    def type_header(self) -> None:
        self.cursor.advance()
        token = self.cursor.advance()
        if token.text in self.headers:
            first = Note("it was declared here", self.cursor.span(self.headers[token.text].token))
            self.cursor.fail(f"the type `{token.text}` is declared twice", token, notes=[first])
        type_vars = self.type_parser().declare_type_vars()
        self.headers[token.text] = TypeHeader(GlobalTypeVar(token.text), type_vars, token)

    def type_data(self) -> None:
        first = self.cursor.index
        self.cursor.advance()
        header = self.headers.get(self.cursor.advance().text)
        if header is None or header.token is not self.cursor.tokens[first + 1]:
            return  # reported already
        types = self.type_parser()
        types.declare_type_vars()
        types.type_vars = {var.name: var for var in header.type_vars}
        constructors: list[Constructor] = []
        self.cursor.parse_list(
            "{", "}", lambda: constructors.append(self.constructor(types, header, len(constructors)))
        )
        self.types[header.name.name] = TypeData(header.name, header.type_vars, tuple(constructors))
        self.ends[first] = self.cursor.index

    def constructor(self, types: TypeParser, header: TypeHeader, tag: int) -> Constructor:
        token = self.cursor.expect_kind("name")
        if token.text in self.constructors:
            before = self.constructors[token.text].span
            notes = [Note("it was declared here", before)] if before is not None else []
            self.cursor.fail(f"a constructor with the name `{token.text}` exists already", token, notes=notes)
        inputs = self.cursor.parse_list("(", ")", types.type) if self.cursor.at("(") else []
        span = self.cursor.span_from(token)
        self.constructors[token.text] = Constructor(token.text, tuple(inputs), header.name, tag, span=span)
        return self.constructors[token.text]

    # Functions

    def definition(self) -> None:
        """Parse the definition at the cursor; after an error, go to the next one."""
        start = self.cursor.index
        if start in self.ends:
            self.cursor.move_to(self.ends[start])
        elif self.begins_type(start) or not self.attempt(self.function_definition):
            self.cursor.move_to(
                next(filter(self.begins_definition, range(start + 1, len(self.cursor.tokens))))
            )

    def begins_definition(self, index: int) -> bool:
        token = self.cursor.tokens[index]
        following = self.cursor.tokens[min(index + 1, len(self.cursor.tokens) - 1)]
        is_function = token.text == "def" and token.kind == "name" and following.kind == "global"
        return is_function or self.begins_type(index) or token.kind in ("end", "metadata")

    def function_definition(self) -> None:
        first = self.cursor.current
        if not self.cursor.at_word("def"):
            self.cursor.fail_expecting("a definition (`def @f` or `type T`)")
        self.cursor.advance()
        hint = f"write `@{self.cursor.current.text}`" if self.cursor.current.kind == "name" else None
        name = self.cursor.expect_kind("global", hint=hint).text[1:]
        parser = self.expression_parser()
        function = run(parser.function(first))
        self.used_globals += parser.globals
        assert isinstance(function, Function)
        self.functions[name] = function

    def check_globals(self) -> None:
        """Report used functions that are not defined; a definition with an error counts as one."""
        tokens = self.cursor.tokens
        defined = [name.text[1:] for word, name in pairwise(tokens) if word.text == "def"]
        defined_names = {*defined, *self.functions}
        unknown = [used for used in self.used_globals if used.name not in defined_names]
        for used in unknown[:MAX_ERRORS]:
            hint = did_you_mean(used.name, defined_names, "@")
            self.diagnostics.error(f"`@{clip(used.name)}` is not defined", used.span, hint=hint)

    # Parts

    def attempt(self, parse: Callable[[], None]) -> bool:
        """Run a parser; record the error that ends it."""
        try:
            parse()
        except ParseError as failure:
            self.diagnostics.add(failure.diagnostic)
            return False
        return True

    def type_parser(self) -> TypeParser:
        return TypeParser(self.cursor, self.metadata, self.headers)

    def expression_parser(self) -> ExpressionParser:
        scope = LexicalScope(self.constructors, self.graph)
        return ExpressionParser(self.cursor, self.type_parser(), self.metadata, scope, self.diagnostics)
