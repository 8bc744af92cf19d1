"""Parse expressions by precedence climbing; deep text needs no deep stack, as each parser is a generator."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import NoReturn

from nnmagic.diagnostics import Diagnostic, Diagnostics, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.annotations import CALL_LOWERED
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.structure.traverse import pattern_vars
from nnmagic.relay.text import attribute_parser as attributes
from nnmagic.relay.text.cursor import ParseError, TokenCursor, clip, did_you_mean
from nnmagic.relay.text.lexer import Token
from nnmagic.relay.text.lexical_scope import LexicalScope
from nnmagic.relay.text.literals import read_number
from nnmagic.relay.text.pattern_parser import parse_pattern
from nnmagic.relay.text.trampoline import Steps
from nnmagic.relay.text.type_parser import Metadata, TypeParser

#: How deeply expressions may be nested; expressions with bindings, which are printed with indentation; and
#: the scopes of functions, branches and arms, which other parts of the compiler visit recursively.
MAX_NESTING_OF = {"expressions": 10_000, "bindings": 400, "scopes": 100}

#: The number of errors after which the parser stops.
MAX_ERRORS = 100

#: The symbols that end an operand.
_ENDS_OPERAND = frozenset(("", ",", ")", ";", "}"))

#: Infix operators: the level (a higher one binds tighter) and the operator that they call.
_INFIX = {
    "*": (3, "multiply"),
    "/": (3, "divide"),
    "+": (2, "add"),
    "-": (2, "subtract"),
    "<": (1, "less"),
    ">": (1, "greater"),
    "<=": (1, "less_equal"),
    ">=": (1, "greater_equal"),
    "==": (0, "equal"),
    "!=": (0, "not_equal"),
}


class ExpressionParser:
    """A parser of the expressions of one definition."""

    def __init__(
        self,
        cursor: TokenCursor,
        types: TypeParser,
        metadata: Metadata,
        scope: LexicalScope,
        diagnostics: Diagnostics,
    ) -> None:
        self.cursor = cursor
        self.types = types
        self.metadata = metadata
        self.scope = scope
        self.diagnostics = diagnostics
        self.globals: list[ir.GlobalVar] = []
        self._expression_depth = 0
        self._scope_depth = 0

    # Scopes

    def body(self) -> Steps[ir.Expr]:
        """Parse the content of a scope: bindings and statements, then an expression."""
        lets: list[tuple[ir.Var, ir.Expr, Span]] = []
        scopes = 0
        while True:
            first = self.cursor.current
            if self.cursor.at_word("let"):
                var, value = yield from self._let()
                scopes += 1
            elif self.cursor.at_word("free_var"):
                self._free_variable()
                continue
            elif first.kind == "graph" and self.cursor.ahead().text == "=":
                self.cursor.advance()
                self.cursor.advance()
                self._bind_graph(first, (yield self._infix(0)))
                self.cursor.expect(";")
                continue
            else:
                var, value = ir.Var(""), (yield self.block() if self.cursor.at("{") else self._infix(0))
                if not self.cursor.at(";"):
                    break
            self._check_depth("bindings", self._expression_depth, first)
            lets.append((var, value, self.cursor.span_from(first)))
            self.cursor.expect(";")
        for var, bound, span in reversed(lets):
            value = ir.Let(var, bound, value, span=span)
            self.scope.ended.add(var)
        self.scope.leave(scopes)
        return value

    def _bind_graph(self, token: Token, value: ir.Expr) -> None:
        """Parse ``%0 = value``: the first value of a number counts, in the whole module."""
        if not self.scope.bind_graph(_graph_key(token), value):
            self._foreign(token)

    def _foreign(self, token: Token) -> NoReturn:
        self.cursor.fail(
            f"`{clip(token.text)}` is bound already, in another function and from its variables",
            token,
            hint="the numbers count through the whole module: take one that is free",
        )

    def block(self) -> Steps[ir.Expr]:
        """Parse ``{ body }``."""
        opening = self.cursor.expect("{")
        self._scope_depth += 1
        self._check_depth("scopes", self._scope_depth, opening)
        self.scope.enter()
        value = yield self.body()
        self.scope.leave()
        self.cursor.expect("}")
        self._scope_depth -= 1
        return value

    def _let(self) -> Generator[Steps[ir.Expr], ir.Expr, tuple[ir.Var, ir.Expr]]:
        """Parse ``let %x: T = value``.

        The current scope binds the variable, a scope that is closed later what follows. So a variable means
        itself in its own value (type inference refuses that for all but functions), and a let that stands
        first in a function does not hide a parameter, as in Relay.
        """
        self.cursor.advance()
        var = self.types.binder()
        self.cursor.expect("=")
        if self.cursor.at_word("let"):
            self.cursor.fail(
                "a `let` cannot be the value of a `let`", self.cursor.current, hint="put it in parentheses"
            )
        self.scope.bind(var.name_hint, var)
        value = yield self._infix(0)
        self.scope.enter()
        return var, value

    def _free_variable(self) -> None:
        self.cursor.advance()
        var = self.types.binder()
        self.scope.bind(var.name_hint, var)
        self.cursor.expect(";")

    # Operators, calls, projections

    def _infix(self, lowest: int) -> Steps[ir.Expr]:
        first = self.cursor.current
        lhs = self._leaf()
        if lhs is None:
            lhs = yield self._postfix()
        while True:
            token = self.cursor.current
            level, name = _INFIX.get(token.text, (-1, "")) if token.kind == "symbol" else (-1, "")
            if level < lowest:
                return lhs
            self.cursor.advance()
            rhs = yield self._infix(level + 1)
            lhs = ir.Call(
                ir.OpRef(name, span=self.cursor.span(token)), (lhs, rhs), span=self.cursor.span_from(first)
            )

    def _leaf(self) -> ir.Expr | None:
        """Parse a variable, a graph variable or a number that nothing follows: most operands are one."""
        token, following = self.cursor.current, self.cursor.ahead()
        if following.text not in _ENDS_OPERAND or token.kind not in ("local", "graph", "number"):
            return None
        self.cursor.advance()
        return self._variable(token) if token.kind != "number" else self._number(token)

    def _postfix(self) -> Steps[ir.Expr]:
        """Parse an atom, its projection, and calls behind it; as in Relay, calls come last."""
        first = self.cursor.current
        self._expression_depth += 1
        self._check_depth("expressions", self._expression_depth, first)
        expr = yield self._atom()
        if self.cursor.at("."):
            expr = self._projection(expr, first)
        while self.cursor.at("("):
            expr = yield self._call(expr, first)
        if self.cursor.at("."):
            what = "a projection" if isinstance(expr, ir.TupleGetItem) else "a call"
            self.cursor.fail(
                f"the result of {what} cannot be projected",
                self.cursor.current,
                hint="give it a name first: `%0 = ...; %0.0`",
            )
        if isinstance(expr, ir.Constructor) and not expr.inputs:
            expr = ir.Call(expr, (), span=self.cursor.span(first))
        self._expression_depth -= 1
        return expr

    def _projection(self, expr: ir.Expr, first: Token) -> ir.Expr:
        self.cursor.advance()
        index = self.cursor.expect_kind("number")
        if not index.text.isdecimal() or len(index.text) > 9:
            self.cursor.fail(
                f"invalid index `{clip(index.text)}`",
                index,
                hint="bind the inner projection first: `%0 = %t.0; %0.1`" if "." in index.text else None,
            )
        return ir.TupleGetItem(expr, int(index.text), span=self.cursor.span_from(first))

    def _call(self, callee: ir.Expr, first: Token) -> Steps[ir.Expr]:
        self.cursor.expect("(")
        args: list[ir.Expr] = []
        attrs = attributes.GivenAttrs()
        while not self.cursor.at(")"):
            if attributes.at_attribute(self.cursor):
                attrs = attributes.parse_attributes(self.cursor, self.metadata)
                break
            if self._at_metadata_attrs():
                attrs = self._metadata_attrs()
                break
            args.append((yield self.body()))
            if not self.cursor.accept(","):
                break
        self.cursor.expect(")")
        span = self.cursor.span_from(first)
        if isinstance(callee, ir.OpRef) and callee.name == CALL_LOWERED:
            match args:
                case [ir.GlobalVar() as kernel, ir.Tuple(fields=fields)]:
                    return ir.Call(kernel, fields, span=span)
            self.cursor.fail("call_lowered takes a function of the module and a tuple of its arguments", span)
        return ir.Call(callee, tuple(args), self._call_attrs(callee, attrs, span), span=span)

    def _at_metadata_attrs(self) -> bool:
        return self.cursor.at_word("meta") and self.cursor.ahead(2).text.startswith("relay.attrs.")

    def _metadata_attrs(self) -> attributes.GivenAttrs:
        first = self.cursor.current
        values = self.metadata.entry(self.cursor)
        span = self.cursor.span_from(first)
        if not isinstance(values, dict):
            self.cursor.fail("these are no attributes", span)
        self.cursor.accept(",")
        return attributes.attrs_from_metadata(values, span)

    def _call_attrs(self, callee: ir.Expr, attrs: attributes.GivenAttrs, span: Span) -> ir.Attrs:
        """Return the attributes of a call: all of an operator's, or those written for another callee."""
        if isinstance(callee, ir.OpRef):
            operator = OPERATORS.get(callee.name)
            if operator is None:  # reported already
                return attrs.values
            try:
                return attributes.complete(self.cursor, operator, attrs, span)
            except ParseError as failure:
                self._report(failure)
        elif attrs.values and "attrs_type_key" not in attrs.values:
            location = next(iter(attrs.name_spans.values()))
            self._error("only an operator's call takes attributes", location)
        return attrs.values

    # Atoms

    def _atom(self) -> Steps[ir.Expr]:
        token = self.cursor.current
        match token.kind:
            case "local" | "graph":
                self.cursor.advance()
                return self._variable(token)
            case "name" if token.text == "meta" and self.cursor.ahead().text == "[":
                return self._metadata_constant()
            case "number":
                self.cursor.advance()
                return self._number(token)
            case "global":
                self.cursor.advance()
                self.globals.append(ir.GlobalVar(token.text[1:], span=self.cursor.span(token)))
                return self.globals[-1]
            case "name" if token.text in ("True", "False"):
                self.cursor.advance()
                return ir.constant(token.text == "True", span=self.cursor.span(token))
            case "name":
                word = _WORDS.get(token.text)
                return (yield word(self)) if word else self._name()
        if self.cursor.at("("):
            return (yield self._parentheses())
        self.cursor.fail_expecting("an expression")

    def _variable(self, token: Token) -> ir.Expr:
        if token.kind == "graph":
            var: ir.Expr | None = self.scope.graph.get(_graph_key(token))
            if var is not None and not self.scope.may_use(_graph_key(token)):
                self._foreign(token)
        else:
            var = self.scope.variables.get(token.text[1:])
            if var in self.scope.ended:
                hint = "take another name for a second one: Relay reads this as the first"
                self._error(f"the let of `{token.text}` has ended", self.cursor.span(token), hint=hint)
        if var is not None:
            return var
        names = [*self.scope.variables] if token.kind == "local" else []
        self._error(
            f"`{clip(token.text)}` is not defined",
            self.cursor.span(token),
            hint=did_you_mean(token.text[1:], names, "%"),
        )
        return ir.Var(token.text[1:], span=self.cursor.span(token))

    def _number(self, token: Token) -> ir.Expr:
        try:
            data = read_number(token.text).constant_data()
        except ValueError as error:
            self.cursor.fail(str(error), token)
        return ir.Constant(data, span=self.cursor.span(token))

    def _metadata_constant(self) -> ir.Constant:
        token = self.cursor.current
        entry = self.metadata.entry(self.cursor)
        if not isinstance(entry, ir.Constant):
            self.cursor.fail("this is no constant", self.cursor.span_from(token))
        return entry

    def _name(self) -> ir.Expr:
        """Parse the name of a constructor or an operator."""
        token = self.cursor.advance()
        name = token.text
        if name in self.scope.constructors:
            return self.scope.constructors[name]
        span = self.cursor.span(token)
        if name not in OPERATORS and (name != CALL_LOWERED or not self.cursor.at("(")):
            self._error(f"operator `{clip(name)}` is not known", span, hint=self._name_hint(name))
        return ir.OpRef(name, span=span)

    def _name_hint(self, name: str) -> str | None:
        if name.rstrip("0123456789") in ("nan", "nanf"):
            return "Relay text has no literal for NaN: divide 0f by 0f"
        if name in self.scope.variables:
            return f"a variable is written `%{name}`"
        full_names = [operator for operator in OPERATORS if operator.endswith(f".{name}")]
        if full_names:
            return f"did you mean `{full_names[0]}`?"
        return did_you_mean(name, [*OPERATORS, *self.scope.constructors])

    def _parentheses(self) -> Steps[ir.Expr]:
        first = self.cursor.advance()
        fields: list[ir.Expr] = []
        comma = True
        while comma and not self.cursor.at(")"):
            fields.append((yield self.body()))
            comma = self.cursor.accept(",")
        self.cursor.expect(")")
        if len(fields) == 1 and not comma:
            return fields[0]
        return ir.Tuple(tuple(fields), span=self.cursor.span_from(first))

    def _if(self) -> Steps[ir.Expr]:
        first = self.cursor.advance()
        self.cursor.expect("(", hint="the condition stands in parentheses: `if (%c) { ... } else { ... }`")
        cond = yield self.body()
        self.cursor.expect(")")
        then = yield self.block()
        if not self.cursor.at_word("else"):
            self.cursor.fail_expecting("`else`", hint="an `if` has a value, so it needs both branches")
        self.cursor.advance()
        other = yield self.block()
        return ir.If(cond, then, other, span=self.cursor.span_from(first))

    def _match(self) -> Steps[ir.Expr]:
        first = self.cursor.advance()
        complete_match = not self.cursor.accept("?")
        self.cursor.expect("(")
        data = yield self.body()
        self.cursor.expect(")")
        self.cursor.expect("{")
        self._scope_depth += 1
        self._check_depth("scopes", self._scope_depth, first)
        clauses: list[ir.Clause] = []
        while not self.cursor.at("}"):
            self.scope.enter()
            pattern = parse_pattern(self.cursor, self.types, self.scope.constructors)
            self._bind_all(pattern_vars(pattern))
            self.cursor.expect("=>")
            clauses.append(ir.Clause(pattern, (yield self.body())))
            self.scope.leave()
            if not self.cursor.accept(","):
                break
        self.cursor.expect("}")
        self._scope_depth -= 1
        return ir.Match(data, tuple(clauses), complete_match, span=self.cursor.span_from(first))

    def _ref(self) -> Steps[ir.Expr]:
        """Parse ``ref(a)``, ``ref_read(r)``, ``ref_write(r, a)``."""
        first = self.cursor.advance()
        self.cursor.expect("(")
        target = yield self.body()
        value: ir.Expr | None = None
        if first.text == "ref_write":
            self.cursor.expect(",")
            value = yield self.body()
        self.cursor.expect(")")
        span = self.cursor.span_from(first)
        if value is not None:
            return ir.RefWrite(target, value, span=span)
        return ir.RefCreate(target, span=span) if first.text == "ref" else ir.RefRead(target, span=span)

    def _report_misplaced_token(self) -> Steps[ir.Expr]:
        token = self.cursor.current
        hint = "put it in parentheses" if token.text == "let" else None
        self.cursor.fail(f"`{token.text}` cannot stand here", token, hint=hint)

    # Functions and patterns

    def _fn(self) -> Steps[ir.Expr]:
        return self.function(self.cursor.advance())

    def function(self, first: Token) -> Steps[ir.Expr]:
        """Parse ``[A](%x: T, Primitive=1) -> R { body }``, behind ``fn`` or ``def @name``."""
        self.scope.enter()
        outer_type_vars = self.types.type_vars
        type_params = self.types.declare_type_vars()
        params, attrs = self._parameters()
        result = self.types.annotation() if self.cursor.accept("->") else None
        self.cursor.expect("{")
        self._scope_depth += 1
        self._check_depth("scopes", self._scope_depth, first)
        body = yield self.body()
        self.cursor.expect("}")
        self._scope_depth -= 1
        self.types.type_vars = outer_type_vars
        self.scope.leave()
        return ir.Function(params, body, result, type_params, attrs, span=self.cursor.span_from(first))

    def _parameters(self) -> tuple[tuple[ir.Var, ...], ir.Attrs]:
        self.cursor.expect("(")
        params: list[ir.Var] = []
        attrs: ir.Attrs = {}
        while not self.cursor.at(")"):
            if attributes.at_attribute(self.cursor):
                attrs = attributes.parse_attributes(self.cursor, self.metadata).values
                break
            params.append(self.types.binder())
            if not self.cursor.accept(","):
                break
        self.cursor.expect(")")
        self._bind_all(params)
        return tuple(params), attrs

    def _bind_all(self, variables: Iterable[ir.Var]) -> None:
        """Bind the variables of a pattern or a list of parameters."""
        for var in variables:
            self.scope.bind(var.name_hint, var)

    # Errors

    def _check_depth(self, what: str, depth: int, location: Token) -> None:
        if depth > MAX_NESTING_OF[what]:
            hint = "give inner parts names, `%0 = ...;`, or functions of their own"
            self.cursor.fail(f"{what} are nested more than {MAX_NESTING_OF[what]} deep", location, hint=hint)

    def _error(self, message: str, span: Span, *, hint: str | None = None) -> None:
        self._report(ParseError(Diagnostic(message, span, hint)))

    def _report(self, failure: ParseError) -> None:
        if len(self.diagnostics.errors) >= MAX_ERRORS:
            raise failure
        self.diagnostics.add(failure.diagnostic)


#: The keywords that begin an expression, and their parsers.
_WORDS: dict[str, Callable[[ExpressionParser], Steps[ir.Expr]]] = {
    "fn": ExpressionParser._fn,
    "if": ExpressionParser._if,
    "match": ExpressionParser._match,
    "ref": ExpressionParser._ref,
    "ref_read": ExpressionParser._ref,
    "ref_write": ExpressionParser._ref,
    **dict.fromkeys(
        ("let", "free_var", "else", "def", "type", "extern"), ExpressionParser._report_misplaced_token
    ),
}


def _graph_key(token: Token) -> str:
    """Return the number of a graph variable: ``%007`` is ``%7``."""
    return token.text[1:].lstrip("0")
