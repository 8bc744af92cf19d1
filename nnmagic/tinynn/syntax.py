"""Source text -> synr tree: Python's own parser, then synr's Compiler with exact spans. Knows no Relay.

The arms of ``CellCompiler`` are the whitelist of Python's syntax. What they do not take is refused in its
place, by the tables of refusals.py, and the rest of the cell is compiled nevertheless, so that every error
shows.
"""

from __future__ import annotations

import ast as py
import inspect
import re
import warnings
from collections.abc import Sequence

from synr import DiagnosticContext, ast
from synr.compiler import Compiler

from nnmagic.diagnostics import Diagnostics, Source
from nnmagic.tinynn import refusals, tree
from nnmagic.tinynn.places import Places

_NESTED = "this is nested too deeply"
_NESTED_HINT = "split it into several assignments"


def parse(source: Source, found: Diagnostics) -> ast.Module | None:
    """The tree of a cell; errors go to ``found``. None where Python itself cannot read the text."""
    places = Places(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `x is 1` and "\d" are refused or harmless here
        try:
            module = py.parse(source.text, source.filename)
        except SyntaxError as error:
            found.error(_message(error, source), places.of_syntax_error(error, in_bytes=False))
            return None
        except (RecursionError, MemoryError):
            found.error(_NESTED, places.of_longest_line(), hint=_NESTED_HINT)
            return None
        except ValueError as error:  # null bytes and lone surrogates
            found.error(f"the source cannot be read: {error}", places.start)
            return None
        compiler = CellCompiler(places, found)
        result = compiler.compile_module(module)
        _check_by_python(module, places, found)
    return result


def _check_by_python(module: py.Module, places: Places, found: Diagnostics) -> None:
    """Python's own compiler finds what is no matter of grammar: duplicate arguments, a stray return."""
    try:
        compile(module, places.source.filename, "exec", dont_inherit=True)
    except SyntaxError as error:
        span = places.of_syntax_error(error, in_bytes=True)
        if all(other.span is None or other.span.line != span.line for other in found.found):
            found.error(_message(error, places.source), span)
    except (RecursionError, MemoryError):
        found.error(_NESTED, places.of_longest_line(), hint=_NESTED_HINT)


def _message(error: SyntaxError, source: Source) -> str:
    """Python's message; the lines that it names are counted as the user counts them."""

    def renumbered(found: re.Match[str]) -> str:
        return f"{found[1]}{int(found[2]) + source.first_line - 1}"

    return re.sub(r"(\b(?:on|at) line )(\d+)", renumbered, error.msg or "invalid syntax")


class _Context(DiagnosticContext):  # type: ignore[misc]  # synr is untyped
    """Hands what synr itself reports to our collection."""

    def __init__(self, places: Places, found: Diagnostics) -> None:
        self.places = places
        self.found = found

    def add_source(self, name: str, source: str) -> None:
        """Every span carries its source."""

    def emit(self, level: str, message: str, span: ast.Span) -> None:  # noqa: ARG002  # synr's signature
        self.found.error(message, self.places.public(span))

    def render(self) -> None:
        """The caller raises."""


_SYMBOLS: dict[type[py.AST], tuple[str, ast.BuiltinOp | tree.ExtraOp]] = {
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
    py.USub: ("-", ast.BuiltinOp.USub),
    py.UAdd: ("+", ast.BuiltinOp.UAdd),
    py.Invert: ("~", ast.BuiltinOp.Invert),
}
#: The signs of the operators, for messages.
SIGNS: dict[ast.BuiltinOp | tree.ExtraOp, str] = {op: sign for sign, op in _SYMBOLS.values()}

_ONE_WORD = re.compile(r"If|For|While|Match|With|Try|Async|FunctionDef|ClassDef")


class CellCompiler(Compiler):  # type: ignore[misc]  # synr is untyped
    """synr's compiler with character-exact spans, Python's whole operator set, and refusals in place."""

    def __init__(self, places: Places, found: Diagnostics) -> None:
        super().__init__(places.source.filename, 1, 0, None, _Context(places, found))
        self.places = places
        self.found = found

    # -- places and errors -----------------------------------------------------------------------------

    def span_from_ast(self, node: py.AST) -> ast.Span:
        """Of a keyword argument, the name alone; of any other node, all of it."""
        if isinstance(node, py.keyword):
            return self.places.word(node.lineno, node.col_offset)
        return self.places.of(node)

    def refuse(self, message: str, span: ast.Span, hint: str | None = None) -> None:
        """Records an error."""
        self.found.error(message, self.places.public(span), hint=hint)

    def refuse_statement(self, node: py.stmt, message: str, hint: str) -> ast.Stmt:
        """Refuses a statement; the names that it would bind stay silent."""
        span = self.places.of(node)
        shown = self.places.word(node.lineno, node.col_offset) if _is_compound(node) else span
        self.refuse(message, shown, hint)
        return tree.InvalidStatement(span, _bound_names(node), any(_returns(part) for part in py.walk(node)))

    def refuse_expression(self, node: py.AST, kind: str) -> ast.Expr:
        """Refuses an expression by its entry in the table, or by its name."""
        general = (f"this syntax ({kind}) is not part of TinyNN", None)
        message, hint = refusals.EXPRESSIONS.get(kind, general)
        span = self.places.of(node)
        self.refuse(message, span, hint)
        return tree.Invalid(span)

    # -- the top of the cell ---------------------------------------------------------------------------

    def compile_module(self, program: py.Module) -> ast.Module:
        """All functions of the cell, by name in source order."""
        functions: dict[str, ast.Function] = {}
        for statement in program.body:
            if isinstance(statement, py.FunctionDef):
                self._add_function(functions, statement)
            elif not _is_harmless(statement):
                kind = type(statement).__name__
                message, hint = refusals.TOP_LEVEL.get(kind) or _statement_refusal(kind)
                self.refuse_statement(statement, message, hint)
        if not functions and not self.found.found:
            hint = "write one, as in def f(x: Tensor[(2, 3), f32]): return x + 1"
            self.found.error("the cell holds no function", self.places.start, hint=hint)
        last = len(self.places.lines)
        return ast.Module(self.places.span(1, 0, last, len(self.places.lines[-1])), functions)

    def _add_function(self, functions: dict[str, ast.Function], statement: py.FunctionDef) -> None:
        name_span = self._name_span(statement)
        if statement.name in functions:
            first = functions[statement.name].name_span.start_line
            hint = f"the first one is on line {first}; give one of them another name"
            self.refuse(f"`{statement.name}` is defined twice", name_span, hint)
            return
        try:
            functions[statement.name] = self.compile_def(statement)
        except RecursionError:
            self.refuse(_NESTED, name_span, _NESTED_HINT)

    def _name_span(self, statement: py.FunctionDef) -> ast.Span:
        return self.places.word(statement.lineno, statement.col_offset, r"def\s+")

    def compile_def(self, stmt: py.FunctionDef) -> tree.Definition:
        """A function, with the place of its name and its docstring."""
        for decorator in stmt.decorator_list:
            hint = "remove it; options go on the %%tinynn line"
            self.refuse("a function of a cell takes no decorator", self.places.of(decorator), hint)
        for parameter in getattr(stmt, "type_params", []):
            self.refuse("type parameters are not part of TinyNN", self.places.of(parameter))
        docstring = py.get_docstring(stmt, clean=False)
        return tree.Definition(
            self.places.of(stmt),
            stmt.name,
            self.compile_args_to_params(stmt.args),
            None if stmt.returns is None else self.compile_type(stmt.returns),
            self.compile_block(stmt.body),
            [],
            self._name_span(stmt),
            None if docstring is None else inspect.cleandoc(docstring),
        )

    def compile_args_to_params(self, args: py.arguments) -> list[ast.Parameter]:
        """All parameters; those of a kind that is not taken are reported and stay as silent names."""
        for default in [*args.defaults, *filter(None, args.kw_defaults)]:
            self.refuse("default values are not supported yet", self.places.of(default), "leave it out")
        for argument in args.posonlyargs:
            hint = "leave out the `/` after it; a call may name any argument"
            self.refuse("positional-only parameters are not supported yet", self.places.of(argument), hint)
        for argument in args.kwonlyargs:
            hint = "leave out the `*` before it; a call may name any argument"
            self.refuse("keyword-only parameters are not supported yet", self.places.of(argument), hint)
        for rest, sign in ((args.vararg, "*"), (args.kwarg, "**")):
            if rest is not None:
                hint = "give each parameter a name and a type; several tensors go in a tuple[...]"
                self.refuse(f"`{sign}{rest.arg}` is not part of TinyNN", self.places.of(rest), hint)
        taken = [self._parameter(arg) for arg in [*args.posonlyargs, *args.args]]
        extra = [arg for arg in (*args.kwonlyargs, args.vararg, args.kwarg) if arg is not None]
        return taken + [self._silent_parameter(arg) for arg in extra]

    def _parameter(self, arg: py.arg) -> ast.Parameter:
        span = self.places.word(arg.lineno, arg.col_offset)
        if arg.annotation is None:
            hint = f"write its type, as in {arg.arg}: Tensor[(2, 3), f32]"
            if arg.arg == "self":
                hint = "a method cannot be compiled: write a function, and give it what it needs"
            self.refuse(f"parameter `{arg.arg}` has no type", span, hint)
            return self._silent_parameter(arg)
        return ast.Parameter(span, arg.arg, self.compile_type(arg.annotation))

    def _silent_parameter(self, arg: py.arg) -> ast.Parameter:
        span = self.places.of(arg)
        return ast.Parameter(span, arg.arg, tree.Annotation(span, tree.Invalid(span)))

    def compile_type(self, ty: py.expr) -> ast.Type:
        """Annotations stay expressions; they are evaluated where the names are known."""
        return tree.Annotation(self.places.of(ty), self.compile_expr(ty))

    # -- statements ------------------------------------------------------------------------------------

    def compile_stmt(self, stmt: py.stmt) -> ast.Stmt:
        """One statement of a function's body."""
        try:
            match stmt:
                case py.Return():
                    return super().compile_stmt(stmt)
                case py.Pass():
                    return tree.Pass(self.places.of(stmt))
                case py.Assign():
                    return self._assignment(stmt)
                case py.AnnAssign():
                    return self._annotated(stmt)
                case py.AugAssign():
                    return self._augmented(stmt)
                case py.Expr():
                    return self._bare_expression(stmt)
        except RecursionError:
            return self.refuse_statement(stmt, _NESTED, _NESTED_HINT)
        return self.refuse_statement(stmt, *_statement_refusal(type(stmt).__name__))

    def _assignment(self, stmt: py.Assign) -> ast.Stmt:
        span, rhs = self.places.of(stmt), self.compile_expr(stmt.value)
        targets = [self._target(target) for target in stmt.targets]
        if any(target is None for target in targets):
            return tree.InvalidStatement(span, _bound_names(stmt), returns=False)
        if len(targets) == 1 and isinstance(targets[0], ast.Var):
            return ast.Assign(span, targets, None, rhs)
        return tree.Unpack(span, targets, rhs)

    def _target(self, target: py.expr, *, in_tuple: bool = False) -> ast.Expr | None:
        """The left side of an assignment, or None where it was refused."""
        span = self.places.of(target)
        match target:
            case py.Name():
                return self.compile_var(target)
            case py.Starred(value=py.Name() as value) if in_tuple:
                return tree.Starred(span, self.compile_var(value))
            case py.Tuple(elts=parts) | py.List(elts=parts):
                inner = [self._target(part, in_tuple=True) for part in parts]
                starred = [part for part in inner if isinstance(part, tree.Starred)]
                if len(starred) > 1:
                    self.refuse("only one name of an assignment can be starred", starred[1].span)
                    return None
                return None if any(part is None for part in inner) else ast.Tuple(span, inner)
            case py.Subscript():
                hint = "make a new one, as in x = where(mask, value, x)"
                self.refuse("a tensor cannot be changed in place", span, hint)
            case py.Attribute():
                self.refuse("an attribute cannot be assigned", span, "assign to a name")
            case _:
                self.refuse("this cannot be assigned to", span, "assign to a name")
        return None

    def _annotated(self, stmt: py.AnnAssign) -> ast.Stmt:
        span = self.places.of(stmt)
        target = self._target(stmt.target)
        declared = self.compile_type(stmt.annotation)
        if stmt.value is None:
            self.refuse("a name is declared without a value", span, "assign a value, or leave the line out")
        elif target is not None:
            return ast.Assign(span, [target], declared, self.compile_expr(stmt.value))
        return tree.InvalidStatement(span, _bound_names(stmt), returns=False)

    def _augmented(self, stmt: py.AugAssign) -> ast.Stmt:
        span, rhs = self.places.of(stmt), self.compile_expr(stmt.value)
        target = self._target(stmt.target)
        if target is None:
            return tree.InvalidStatement(span, _bound_names(stmt), returns=False)
        sign, op = _SYMBOLS[type(stmt.op)]
        op_span = self.places.operator(stmt.target, f"{sign}=")
        return ast.Assign(span, [target], None, ast.Call(span, ast.Op(op_span, op), [target, rhs], {}))

    def _bare_expression(self, stmt: py.Expr) -> ast.Stmt:
        span = self.places.of(stmt)
        match stmt.value:
            case py.Constant(value=str()):
                return tree.Pass(span)
            case py.Call(func=py.Name(id="print")):
                hint = "return the value and print it in another cell"
                self.refuse("`print` cannot run inside a compiled function", span, hint)
            case py.Yield() | py.YieldFrom() | py.Await():
                self.compile_expr(stmt.value)
            case _:
                hint = "assign it to a name, return it, or leave the line out"
                self.refuse("the value of this expression is not used", span, hint)
        return tree.InvalidStatement(span, (), returns=False)

    # -- expressions -----------------------------------------------------------------------------------

    def compile_expr(self, expr: py.expr) -> ast.Expr:
        """One expression; each form that a cell takes has its arm."""
        span = self.places.of(expr)
        match expr:
            case py.Name() | py.Attribute():
                return self._named(expr, span)
            case py.Constant():
                return self._constant(expr, span)
            case py.BinOp():
                return self._binary(expr)
            case py.UnaryOp(op=py.Not()):
                return self.refuse_expression(expr, "Not")
            case py.UnaryOp(op=op, operand=operand):
                _, builtin = _SYMBOLS[type(op)]
                op_span = self.places.span(
                    expr.lineno,
                    first := self.places.character(expr.lineno, expr.col_offset),
                    expr.lineno,
                    first + 1,
                )
                return ast.Call(span, ast.Op(op_span, builtin), [self.compile_expr(operand)], {})
            case py.Compare():
                return self._comparison(expr, span)
            case py.Call():
                return self._call(expr)
            case py.Subscript():
                value, index = self.compile_expr(expr.value), self.compile_subscript_slice(expr.slice)
                return ast.Call(span, ast.Op(index.span, ast.BuiltinOp.Subscript), [value, index], {})
            case py.Slice():
                return self._slice(expr, span)
            case py.Tuple(elts=parts):
                return ast.Tuple(span, [self.compile_expr(part) for part in parts])
            case py.List(elts=parts):
                return ast.ArrayLiteral(span, [self.compile_expr(part) for part in parts])
            case py.Starred(value=value):
                return tree.Starred(span, self.compile_expr(value))
        return self.refuse_expression(expr, type(expr).__name__)

    def _named(self, expr: py.Name | py.Attribute, span: ast.Span) -> ast.Expr:
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
        if isinstance(expr.value, complex | bytes):
            return self.refuse_expression(expr, type(expr.value).__name__)
        return ast.Constant(span, expr.value)

    def _binary(self, expr: py.BinOp) -> ast.Expr:
        """Walks down the left side in a loop, so that a long sum needs no deep recursion."""
        chain: list[py.BinOp] = []
        left: py.expr = expr
        while isinstance(left, py.BinOp):
            chain.append(left)
            left = left.left
        result = self.compile_expr(left)
        for node in reversed(chain):
            sign, op = _SYMBOLS[type(node.op)]
            op_span = self.places.operator(node.left, sign)
            operands = [result, self.compile_expr(node.right)]
            result = ast.Call(self.places.of(node), ast.Op(op_span, op), operands, {})
        return result

    def _comparison(self, expr: py.Compare, span: ast.Span) -> ast.Expr:
        if len(expr.ops) != 1:
            return self.refuse_expression(expr, "Chain")
        found = _SYMBOLS.get(type(expr.ops[0]))
        if found is None:
            return self.refuse_expression(expr, "In" if isinstance(expr.ops[0], py.In | py.NotIn) else "Is")
        sign, op = found
        op_span = self.places.operator(expr.left, sign)
        operands = [self.compile_expr(expr.left), self.compile_expr(expr.comparators[0])]
        return ast.Call(span, ast.Op(op_span, op), operands, {})

    def _call(self, expr: py.Call) -> ast.Expr:
        for keyword in expr.keywords:
            if keyword.arg is None:
                hint = "write each argument out as name=value"
                self.refuse("`**` in a call is not part of TinyNN", self.places.of(keyword.value), hint)
        if any(keyword.arg is None for keyword in expr.keywords):
            return tree.Invalid(self.places.of(expr))
        return self.compile_call(expr)

    def _slice(self, expr: py.Slice, span: ast.Span) -> ast.Expr:
        def bound(part: py.expr | None) -> ast.Expr:
            return ast.Constant(span, None) if part is None else self.compile_expr(part)

        return ast.Slice(span, bound(expr.lower), bound(expr.step), bound(expr.upper))


def _statement_refusal(kind: str) -> tuple[str, str]:
    general = (f"this statement ({kind}) is not part of TinyNN", "leave it out")
    return refusals.STATEMENTS.get(kind, general)


def _is_compound(node: py.stmt) -> bool:
    return bool(_ONE_WORD.match(type(node).__name__))


def _is_harmless(statement: py.stmt) -> bool:
    """A docstring of the cell, or an import from the future."""
    if isinstance(statement, py.ImportFrom):
        return statement.module == "__future__"
    return isinstance(statement, py.Expr) and isinstance(getattr(statement.value, "value", None), str)


def _returns(node: py.AST) -> bool:
    return isinstance(node, py.Return)


def _bound_names(node: py.AST) -> Sequence[str]:
    """Every name that a statement binds, whatever it is."""
    names: list[str] = []
    for part in py.walk(node):
        match part:
            case py.Name(id=name, ctx=py.Store() | py.Del()):
                names.append(name)
            case py.FunctionDef(name=name) | py.AsyncFunctionDef(name=name) | py.ClassDef(name=name):
                names.append(name)
            case py.alias(name=name, asname=other):
                names.append(other or name.split(".")[0])
            case py.ExceptHandler(name=str() as name) | py.MatchAs(name=str() as name):
                names.append(name)
            case py.Global(names=several) | py.Nonlocal(names=several):
                names += several
    return names
