"""Compile Python's expressions to synr's tree: accepted forms have a case each, all others are refused."""

from __future__ import annotations

import ast as py
from collections.abc import Sequence

from synr import DiagnosticContext, ast
from synr.compiler import Compiler

from nnmagic.diagnostics import Diagnostics
from nnmagic.tinynn.syntax import tree, unsupported_syntax
from nnmagic.tinynn.syntax.destinations import with_new_out
from nnmagic.tinynn.syntax.in_place_calls import by_places
from nnmagic.tinynn.syntax.source_spans import SpanMap
from nnmagic.tinynn.syntax.tree_building import subscripts_of


class ExprContext(DiagnosticContext):  # type: ignore[misc]  # synr is untyped
    """Diagnostic context of synr that adds its errors to our collection."""

    def __init__(self, spans: SpanMap, diagnostics: Diagnostics) -> None:
        self.spans = spans
        self.diagnostics = diagnostics

    def add_source(self, name: str, source: str) -> None:
        """Ignore the source: every span carries it."""

    def emit(self, level: str, message: str, span: ast.Span) -> None:  # noqa: ARG002  # synr's signature
        """Record an error that synr's own code found."""
        self.diagnostics.error(message, self.spans.public(span))

    def render(self) -> None:
        """Do nothing: the caller raises the errors."""


#: Python's operators, each with its sign and its operator in the tree.
SYMBOLS: dict[type[py.AST], tuple[str, ast.BuiltinOp | tree.ExtraOp]] = {
    py.Add: ("+", ast.BuiltinOp.Add),
    py.Sub: ("-", ast.BuiltinOp.Sub),
    py.Mult: ("*", ast.BuiltinOp.Mul),
    py.Div: ("/", ast.BuiltinOp.Div),
    py.FloorDiv: ("//", ast.BuiltinOp.FloorDiv),
    py.Mod: ("%", ast.BuiltinOp.Mod),
    py.Pow: ("**", tree.ExtraOp.Pow),
    py.MatMult: ("@", tree.ExtraOp.MatMul),
    py.LShift: ("<<", tree.ExtraOp.LShift),
    py.RShift: (">>", tree.ExtraOp.RShift),
    py.BitAnd: ("&", ast.BuiltinOp.BitAnd),
    py.BitOr: ("|", ast.BuiltinOp.BitOr),
    py.BitXor: ("^", ast.BuiltinOp.BitXor),
    py.Eq: ("==", ast.BuiltinOp.Eq),
    py.NotEq: ("!=", ast.BuiltinOp.NotEq),
    py.Lt: ("<", ast.BuiltinOp.LT),
    py.LtE: ("<=", ast.BuiltinOp.LE),
    py.Gt: (">", ast.BuiltinOp.GT),
    py.GtE: (">=", ast.BuiltinOp.GE),
    py.Is: ("is", tree.ExtraOp.Is),
    py.IsNot: ("is not", tree.ExtraOp.IsNot),
    py.In: ("in", tree.ExtraOp.In),
    py.NotIn: ("not in", tree.ExtraOp.NotIn),
    py.USub: ("-", ast.BuiltinOp.USub),
    py.UAdd: ("+", ast.BuiltinOp.UAdd),
    py.Invert: ("~", ast.BuiltinOp.Invert),
    py.Not: ("not", ast.BuiltinOp.Not),
}
#: The signs of the operators, for messages.
SIGNS: dict[ast.BuiltinOp | tree.ExtraOp, str] = {op: sign for sign, op in SYMBOLS.values()}


class ExpressionCompiler(Compiler):  # type: ignore[misc]  # synr is untyped
    """synr's compiler with character-exact spans and Python's whole operator set."""

    def __init__(self, spans: SpanMap, diagnostics: Diagnostics) -> None:
        super().__init__(spans.source.filename, 1, 0, None, ExprContext(spans, diagnostics))
        self.spans = spans
        self.diagnostics = diagnostics
        self.function: py.FunctionDef | None = None  # the enclosing one, for hints

    # -- spans and errors ------------------------------------------------------------------------------

    def span_from_ast(self, node: py.AST) -> ast.Span:
        """Return the span of a node; of a keyword argument, that of its name alone."""
        if isinstance(node, py.keyword):
            return self.spans.word(node.lineno, node.col_offset)
        return self.spans.of(node)

    def refuse(self, message: str, span: ast.Span, hint: str | None = None) -> None:
        """Record an error."""
        self.diagnostics.error(message, self.spans.public(span), hint=hint)

    def refuse_node(self, message: str, node: py.AST, hint: str) -> None:
        """Record an error of a node of Python's tree."""
        self.refuse(message, self.spans.of(node), hint)

    def refuse_expression(self, node: py.AST, kind: str) -> ast.Expr:
        """Refuse an expression by its entry in the table, or by its name."""
        general = (f"this syntax ({kind}) is not part of TinyNN", None)
        message, hint = unsupported_syntax.EXPRESSIONS.get(kind, general)
        span = self.spans.of(node)
        self.refuse(message, span, hint)
        return tree.Invalid(span)

    # -- expressions -----------------------------------------------------------------------------------

    def compile_expr(self, expr: py.expr) -> ast.Expr:
        """Compile one expression."""
        span = self.spans.of(expr)
        match expr:
            case py.Name() | py.Attribute():
                return self._compile_name(expr, span)
            case py.Constant():
                return self._constant(expr, span)
            case py.BinOp():
                return self._binary(expr)
            case py.UnaryOp(op=op, operand=operand):
                return self._unary(expr, op, operand, span)
            case py.BoolOp(op=op, values=values):
                keyword = "and" if isinstance(op, py.And) else "or"
                return tree.Logical(span, keyword, [self.compile_expr(value) for value in values])
            case py.Compare():
                return self._comparison(expr, span)
            case py.Call(func=py.Name(id="dict"), args=args, keywords=keywords) if len(args) <= 1:
                others = [(None, self.compile_expr(arg)) for arg in args]
                named = [
                    (
                        None if each.arg is None else ast.Constant(span, each.arg),
                        self.compile_expr(each.value),
                    )
                    for each in keywords
                ]
                return tree.Dictionary(span, [*others, *named])
            case py.Call(func=py.Name(id="set" | "frozenset"), args=[] | [_] as args, keywords=[]):
                members = self.compile_expr(args[0]) if args else ast.Tuple(span, [])
                return tree.MadeSet(span, members)
            case py.Call(func=py.Attribute(attr="__missing__", value=owner), args=[key, _]):
                return self.compile_expr(py.copy_location(py.Subscript(owner, key, py.Load()), expr))
            case py.Call():
                return self._call(with_new_out(expr))
            case py.IfExp(test=test, body=then, orelse=other):
                return tree.Conditional(span, *map(self.compile_expr, (test, then, other)))
            case py.Lambda(args=args, body=body):
                params = self.compile_args_to_params(args)
                return tree.Lambda(span, params, self.compile_expr(body))
            case py.NamedExpr(target=target, value=value):
                return tree.NamedExpr(span, self.compile_var(target), self.compile_expr(value))
            case py.JoinedStr():
                return self._formatted_string(expr, expr)
            case py.Subscript():
                value, index = self.compile_expr(expr.value), self.compile_subscript_slice(expr.slice)
                return ast.Call(span, ast.Op(index.span, ast.BuiltinOp.Subscript), [value, index], {})
            case py.Slice():
                return self._slice(expr, span)
            case py.Tuple(elts=parts):
                return ast.Tuple(span, [self.compile_expr(child) for child in parts])
            case py.List(elts=parts):
                return ast.ArrayLiteral(span, [self.compile_expr(child) for child in parts])
            case py.Starred(value=value):
                return tree.Starred(span, self.compile_expr(value))
        return self._collection(expr, span)

    def _collection(self, expr: py.expr, span: ast.Span) -> ast.Expr:
        """Compile a dictionary, a set or a comprehension."""
        match expr:
            case py.Dict(keys=keys, values=values):
                rows = zip(keys, values, strict=True)
                compile_ = self.compile_expr
                items = [(None if key is None else compile_(key), compile_(value)) for key, value in rows]
                return tree.Dictionary(span, items)
            case py.DictComp(key=key, value=value, generators=generators):
                pair = py.copy_location(py.Tuple([key, value], py.Load()), value)
                listed = py.copy_location(py.ListComp(pair, generators), expr)
                return tree.DictionaryComprehension(span, self._comprehension(listed, span))
            case py.Set(elts=parts):
                return tree.MadeSet(span, ast.Tuple(span, [self.compile_expr(child) for child in parts]))
            case py.SetComp(elt=element, generators=generators):
                listed = py.copy_location(py.ListComp(element, generators), expr)
                return tree.DictionaryComprehension(span, self._comprehension(listed, span), is_set=True)
            case py.ListComp() | py.GeneratorExp():
                return self._comprehension(expr, span)
        return self.refuse_expression(expr, type(expr).__name__)

    def _compile_name(self, expr: py.Name | py.Attribute, span: ast.Span) -> ast.Expr:
        if isinstance(expr, py.Name):
            return self.compile_var(expr)
        length = len(expr.attr)
        field = ast.Span(
            span.filename, span.end_line, span.end_column - length, span.end_line, span.end_column
        )
        return ast.Attr(span, self.compile_expr(expr.value), ast.Id(field, expr.attr))

    def _constant(self, expr: py.Constant, span: ast.Span) -> ast.Expr:
        if expr.value is Ellipsis:
            return tree.EllipsisLiteral(span)
        if isinstance(expr.value, bytes):
            return self.refuse_expression(expr, type(expr.value).__name__)
        return ast.Constant(span, expr.value)

    def _formatted_string(self, expr: py.JoinedStr, text_node: py.JoinedStr) -> tree.FormattedString:
        """Compile a formatted string; its parts have the span of the whole, as before Python 3.12."""
        texts: list[str | tree.FormattedValue] = []
        for piece_node in expr.values:
            if isinstance(piece_node, py.Constant):
                texts.append(str(piece_node.value))
                continue
            assert isinstance(piece_node, py.FormattedValue)
            for inner in py.walk(piece_node.value):
                py.copy_location(inner, text_node)
            spec = piece_node.format_spec
            inner_spec = self._formatted_string(spec, text_node) if isinstance(spec, py.JoinedStr) else None
            value = self.compile_expr(piece_node.value)
            texts.append(
                tree.FormattedValue(self.spans.of(text_node), value, piece_node.conversion, inner_spec)
            )
        return tree.FormattedString(self.spans.of(text_node), texts)

    def _unary(self, expr: py.UnaryOp, op: py.unaryop, operand: py.expr, span: ast.Span) -> ast.Expr:
        sign, builtin = SYMBOLS[type(op)]
        first = self.spans.character(expr.lineno, expr.col_offset)
        op_span = self.spans.span(expr.lineno, first, expr.lineno, first + len(sign))
        return ast.Call(span, ast.Op(op_span, builtin), [self.compile_expr(operand)], {})

    def _binary(self, expr: py.BinOp) -> ast.Expr:
        """Compile an operator; a loop walks down the left side, so that a long sum does not recurse."""
        chain: list[py.BinOp] = []
        operand: py.expr = expr
        while isinstance(operand, py.BinOp):
            chain.append(operand)
            operand = operand.left
        result = self.compile_expr(operand)
        for node in reversed(chain):
            sign, op = SYMBOLS[type(node.op)]
            op_span = self.spans.operator(node.left, sign)
            operands = [result, self.compile_expr(node.right)]
            result = ast.Call(self.spans.of(node), ast.Op(op_span, op), operands, {})
        return result

    def _comparison(self, expr: py.Compare, span: ast.Span) -> ast.Expr:
        operands_ = [expr.left, *expr.comparators]
        ops = []
        for left, op in zip(operands_, expr.ops, strict=False):
            sign, builtin = SYMBOLS[type(op)]
            ops.append(ast.Op(self.spans.operator(left, sign), builtin))
        operands = [self.compile_expr(part) for part in operands_]
        if len(ops) == 1:
            return ast.Call(span, ops[0], operands, {})
        return tree.Chain(span, operands, ops)

    def _call(self, expr: py.Call) -> ast.Expr:
        for keyword in expr.keywords:
            if keyword.arg is None:
                hint = "write each argument out as name=value"
                self.refuse("`**` in a call is not part of TinyNN", self.spans.of(keyword.value), hint)
        if any(keyword.arg is None for keyword in expr.keywords):
            return tree.Invalid(self.spans.of(expr))
        return self.compile_call(expr)

    def _slice(self, expr: py.Slice, span: ast.Span) -> ast.Expr:
        def compile_bound(part: py.expr | None) -> ast.Expr:
            return ast.Constant(span, None) if part is None else self.compile_expr(part)

        return ast.Slice(span, compile_bound(expr.lower), compile_bound(expr.step), compile_bound(expr.upper))

    def _comprehension(self, expr: py.ListComp | py.GeneratorExp, span: ast.Span) -> ast.Expr:
        generators = []
        for generator in expr.generators:
            target = self.compile_target(generator.target)
            if target is None or generator.is_async:
                return tree.Invalid(span)
            iterable = self.compile_expr(generator.iter)
            conditions = [self.compile_expr(condition) for condition in generator.ifs]
            generators.append(tree.Generator(target.span, target, iterable, conditions))
        return tree.Comprehension(span, self.compile_expr(expr.elt), generators)

    # -- targets ---------------------------------------------------------------------------------------

    def compile_target(
        self, target: py.expr, *, elements: bool = False, in_tuple: bool = False
    ) -> ast.Expr | None:
        """Compile the left side of an assignment or of a ``for``; return None if it was refused.

        ``elements``: whether elements of a tensor may be assigned.
        """
        span = self.spans.of(target)
        match target:
            case py.Name():
                return self.compile_var(target)
            case py.Starred(value=py.Name() as value) if in_tuple:
                return tree.Starred(span, self.compile_var(value))
            case py.Tuple(elts=parts) | py.List(elts=parts):
                inner = [self.compile_target(item, elements=elements, in_tuple=True) for item in parts]
                starred = [item for item in inner if isinstance(item, tree.Starred)]
                if len(starred) > 1:
                    self.refuse("only one name of an assignment can be starred", starred[1].span)
                    return None
                return None if any(item is None for item in inner) else ast.Tuple(span, inner)
            case py.Subscript() if elements:
                compiled = self.compile_expr(by_places(target))
                if isinstance(subscripts_of(compiled)[0], ast.Var):
                    return compiled
                hint = "give the tensor a name first: y = ..., then y[i] = value"
                self.refuse("elements are assigned by one index of a name", span, hint)
            case py.Subscript():
                hint = "give the items a name, and assign that: y[i] = item"
                self.refuse("elements cannot be assigned here", span, hint)
            case py.Attribute():
                self.refuse("an attribute cannot be assigned", span, "assign to a name")
            case _:
                self.refuse("this cannot be assigned to", span, "assign to a name")
        return None

    # -- parameters ------------------------------------------------------------------------------------

    def compile_type(self, ty: py.expr) -> ast.Type:
        """Keep an annotation as an expression; it is evaluated once the names are resolved."""
        return tree.Annotation(self.spans.of(ty), self.compile_expr(ty))

    def compile_args_to_params(self, args: py.arguments, *, typed: bool = False) -> list[tree.ParameterNode]:
        """Compile all parameters; ``*args`` and ``**kwargs`` are reported and kept as silent names.

        ``typed``: whether each needs a type, as the fields of a constructor do.
        """
        for starred, sign in ((args.vararg, "*"), (args.kwarg, "**")):
            if starred is not None and (sign == "**" or typed or starred.annotation is not None):
                hint = "give each parameter a name and a type; several tensors go in a tuple[...]"
                self.refuse(f"`{sign}{starred.arg}` is not part of TinyNN", self.spans.of(starred), hint)
        positional = [*args.posonlyargs, *args.args]
        defaults: Sequence[py.expr | None] = [
            *[None] * (len(positional) - len(args.defaults)),
            *args.defaults,
            *args.kw_defaults,
        ]
        kinds = [
            *["POSITIONAL_ONLY"] * len(args.posonlyargs),
            *["POSITIONAL_OR_KEYWORD"] * len(args.args),
            *["KEYWORD_ONLY"] * len(args.kwonlyargs),
        ]
        parameters = [
            self._parameter(arg, kind, default, typed)
            for arg, kind, default in zip([*positional, *args.kwonlyargs], kinds, defaults, strict=True)
        ]
        if args.vararg is not None and args.vararg.annotation is None and not typed:
            gathered = tree.ParameterNode(
                self.spans.of(args.vararg), args.vararg.arg, None, "VAR_POSITIONAL", None
            )
            parameters.insert(len(positional), gathered)
        elif args.vararg is not None:
            parameters.append(self._silent_parameter(args.vararg))
        parameters += [] if args.kwarg is None else [self._silent_parameter(args.kwarg)]
        # Python's own compiler reports a name that stands twice; what comes after wants each once.
        return list({parameter.name: parameter for parameter in parameters}.values())

    def _parameter(self, arg: py.arg, kind: str, default: py.expr | None, typed: bool) -> tree.ParameterNode:
        span = self.spans.word(arg.lineno, arg.col_offset)
        value = None if default is None else self.compile_expr(default)
        if arg.annotation is not None:
            return tree.ParameterNode(span, arg.arg, self.compile_type(arg.annotation), kind, value)
        if not typed:
            return tree.ParameterNode(span, arg.arg, None, kind, value)
        hint = f"write its type, as in {arg.arg}: Tensor[(2, 3), f32]"
        self.refuse(f"parameter `{arg.arg}` has no type", span, hint)
        return self._silent_parameter(arg)

    def _silent_parameter(self, arg: py.arg) -> tree.ParameterNode:
        span = self.spans.of(arg)
        return tree.ParameterNode(span, arg.arg, tree.Annotation(span, tree.Invalid(span)))
