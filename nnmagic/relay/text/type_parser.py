"""Parse types and variables with their annotations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nnmagic.relay import types as ty
from nnmagic.relay.expr import Constant, Var
from nnmagic.relay.text.cursor import MAX_NESTING, TokenCursor, clip, did_you_mean
from nnmagic.relay.text.lexer import Token
from nnmagic.relay.text.literals import read_number
from nnmagic.relay.text.metadata import VAR_KEY
from nnmagic.relay.text.metadata_reader import MetadataReader

#: A dtype as Relay reads it, even one that no tensor can have (`float33`).
_DTYPE = re.compile(r"bool|(?:int|uint|float|bfloat)[0-9]{1,3}(?:x[0-9]{1,4})?")
_OTHER_NAMES = {"int": "int32", "uint": "uint32", "float": "float32", "uint1": "bool"}


@dataclass(frozen=True, slots=True)
class TypeHeader:
    """The first half of a data type's declaration: ``List[A]``."""

    name: ty.GlobalTypeVar
    type_vars: tuple[ty.TypeVar, ...]
    token: Token


@dataclass(slots=True)
class Metadata:
    """The metadata section of a text, if it has one."""

    reader: MetadataReader | None = None
    _entries: dict[tuple[str, int], object] = field(default_factory=dict)

    def entry(self, cursor: TokenCursor) -> object:
        """Parse ``meta[relay.Constant][0]`` and look it up; it is the same object each time."""
        first = cursor.advance()
        cursor.expect("[")
        key = cursor.expect_kind("name").text
        cursor.expect("]")
        cursor.expect("[")
        index = cursor.expect_kind("number")
        cursor.expect("]")
        span = cursor.span_from(first)
        if self.reader is None:
            cursor.fail(
                "the text has no metadata section, which this refers to",
                span,
                hint="print the module with `astext()`, which writes the section",
            )
        if not index.text.isdecimal() or len(index.text) > 9:
            cursor.fail(f"invalid index `{clip(index.text)}`", index)
        position = (key, int(index.text))
        try:
            if position not in self._entries:
                entry = self.reader.entry(*position)
                self._entries[position] = replace(entry, span=span) if isinstance(entry, Constant) else entry
        except ValueError as error:
            cursor.fail(str(error), span)
        return self._entries[position]


@dataclass(slots=True)
class TypeParser:
    """A parser of the types of one definition."""

    cursor: TokenCursor
    metadata: Metadata
    headers: Mapping[str, TypeHeader]
    type_vars: dict[str, ty.TypeVar] = field(default_factory=dict)
    _depth: int = 0

    def annotation(self) -> ty.Type | None:
        """Parse a type, or ``_`` for one that is to be inferred."""
        if self.cursor.at_word("_"):
            self.cursor.advance()
            return None
        return self.type()

    def binder(self) -> Var:
        """Parse ``%x`` or ``%x: T``, where a variable is bound."""
        token = self.cursor.expect_kind("local")
        annotation = self.annotation() if self.cursor.accept(":") else None
        return Var(token.text[1:], annotation, span=self.cursor.span_from(token))

    def type(self) -> ty.Type:
        """Parse a type."""
        if self._depth >= MAX_NESTING:
            self.cursor.fail(f"types are nested more than {MAX_NESTING} deep", self.cursor.current)
        self._depth += 1
        type_ = self._tuple() if self.cursor.at("(") else self._type_by_name()
        self._depth -= 1
        return type_

    def _tuple(self) -> ty.TupleType:
        """Parse ``(A, B)``; ``(A)`` is a tuple, too."""
        return ty.TupleType(tuple(self.cursor.parse_list("(", ")", self.type)))

    def _type_by_name(self) -> ty.Type:
        token = self.cursor.current
        if token.kind != "name":
            self.cursor.fail_expecting("a type")
        if token.text == "meta" and self.cursor.ahead().text == "[":
            return self._incomplete(token)
        self.cursor.advance()
        match token.text:
            case "Tensor":
                return self._tensor()
            case "fn":
                return self._function()
            case "ref":
                self.cursor.expect("(")
                value = self.type()
                self.cursor.expect(")")
                return ty.RefType(value)
            case "_":
                self.cursor.fail("`_` can only stand for a whole type", token, hint="leave the type out")
        if token.text in self.type_vars:
            return self.type_vars[token.text]
        if token.text in self.headers:
            return self._data_type(token, self.headers[token.text])
        return ty.TensorType((), self._dtype(token))

    def _incomplete(self, token: Token) -> ty.IncompleteType:
        """Parse ``meta[IncompleteType][k]``."""
        type_ = self.metadata.entry(self.cursor)
        if not isinstance(type_, ty.IncompleteType):
            self.cursor.fail("this is no type", self.cursor.span_from(token))
        return type_

    def _tensor(self) -> ty.TensorType:
        self.cursor.expect("[")
        shape = self.cursor.parse_list("(", ")", self._dim)
        self.cursor.expect(",", hint="a tensor type is written `Tensor[(2, 3), float32]`")
        dtype = self._dtype(self.cursor.expect_kind("name"))
        self.cursor.expect("]")
        return ty.TensorType(tuple(shape), dtype)

    def _dim(self) -> ty.Dim:
        token = self.cursor.current
        if self.cursor.accept("?"):
            return ty.ANY
        if self.cursor.at_word("meta"):
            dim = self.metadata.entry(self.cursor)
            if not isinstance(dim, ty.VarDim):
                self.cursor.fail(f"a dimension must be a {VAR_KEY}", self.cursor.span_from(token))
            return dim
        if token.kind != "number":
            self.cursor.fail_expecting("a dimension (a number or `?`)")
        self.cursor.advance()
        try:
            value = read_number(token.text).attr_value()
        except ValueError as error:
            self.cursor.fail(str(error), token)
        if isinstance(value, float):
            self.cursor.fail("a dimension must be an integer", token)
        return value

    def _dtype(self, token: Token) -> str:
        name = _OTHER_NAMES.get(token.text, token.text)
        if not _DTYPE.fullmatch(name):
            dtypes = [*ty.NUMPY_DTYPES, "Tensor", *self.type_vars, *self.headers]
            self.cursor.fail(f"unknown type `{clip(name)}`", token, hint=did_you_mean(name, dtypes))
        return name

    def _function(self) -> ty.FuncType:
        outer = dict(self.type_vars)
        params = self.declare_type_vars()
        args = self.cursor.parse_list("(", ")", self.type)
        self.cursor.expect("->")
        result = self.type()
        self.type_vars = outer
        return ty.FuncType(tuple(args), result, params)

    def _data_type(self, token: Token, header: TypeHeader) -> ty.TypeCall:
        args = self.cursor.parse_list("[", "]", self.type) if self.cursor.at("[") else []
        if len(args) != len(header.type_vars):
            wanted = len(header.type_vars)
            self.cursor.fail(
                f"`{token.text}` takes {wanted} type argument{'' if wanted == 1 else 's'}, found {len(args)}",
                self.cursor.span_from(token),
            )
        return ty.TypeCall(header.name, tuple(args))

    def declare_type_vars(self) -> tuple[ty.TypeVar, ...]:
        """Parse ``[A, B]`` at the cursor: new type variables, in scope from here on."""
        if not self.cursor.at("["):
            return ()
        names = self.cursor.parse_list("[", "]", lambda: self.cursor.expect_kind("name").text)
        declared = tuple(ty.TypeVar(name) for name in names)
        self.type_vars = self.type_vars | dict(zip(names, declared, strict=True))
        return declared
