"""Compile Python's statements to synr's tree: accepted forms have a case each, all others are refused."""

from __future__ import annotations

import ast as py
import re
from collections.abc import Sequence
from itertools import count
from types import EllipsisType

from synr import ast

from nnmagic.diagnostics import Diagnostics
from nnmagic.relay.failures import is_raisable
from nnmagic.tinynn.syntax import replacements, tree, unsupported_syntax
from nnmagic.tinynn.syntax.destinations import find_out, whole_of
from nnmagic.tinynn.syntax.enumerated_elements import over_indices
from nnmagic.tinynn.syntax.expressions import SYMBOLS
from nnmagic.tinynn.syntax.formatted_texts import to_formatted_string
from nnmagic.tinynn.syntax.gradient_rules import with_gradient_rules
from nnmagic.tinynn.syntax.in_place_calls import as_assignment
from nnmagic.tinynn.syntax.list_methods import CHANGES_LIST, expand_statements
from nnmagic.tinynn.syntax.patterns import PatternCompiler, find_bound_names
from nnmagic.tinynn.syntax.printing import prints
from nnmagic.tinynn.syntax.source_spans import SpanMap

NESTED = "this is nested too deeply"
NESTED_HINT = "split it into several assignments"

UNUSED = "the value of this expression is not used"
UNUSED_HINT = "return it, assign it to a name, or leave the line out"

#: Contexts that mean nothing in a cell, and those without gradients.
_ERRSTATE = re.compile(r"(np|numpy)\.errstate\([^()]*\)")
_NO_GRAD = re.compile(r"torch\.(no_grad|inference_mode|set_grad_enabled)\b")
_COMPOUND = re.compile(r"If|For|While|Match|With|Try|Async|FunctionDef|ClassDef")


class StatementCompiler(PatternCompiler):
    """Compiler of the statements of a function's body."""

    def __init__(self, spans: SpanMap, diagnostics: Diagnostics) -> None:
        super().__init__(spans, diagnostics)
        self._messages = count()

    def compile_block(self, stmts: list[py.stmt]) -> ast.Block:
        """Compile a block: statements that change lists are written out, rules are parts of functions."""
        block: ast.Block = super().compile_block(
            expand_statements(with_gradient_rules(stmts, self.refuse_node), self._new_name)
        )
        return block

    def _new_name(self, name: str) -> str:
        """Return a name that the function does not mention."""
        assert self.function is not None
        mentioned = {node.id for node in py.walk(self.function) if isinstance(node, py.Name)}
        numbered = (f"{name}_{next(self._messages)}" for _ in count())
        return next(each for each in numbered if each not in mentioned)

    def compile_stmt(self, stmt: py.stmt) -> ast.Stmt:
        """Compile one statement."""
        try:
            return self._statement(stmt)
        except RecursionError:
            return self.refuse_statement(stmt, NESTED, NESTED_HINT)

    def _statement(self, stmt: py.stmt) -> ast.Stmt:
        span = self.spans.of(stmt)
        always = ast.Constant(span, value=True)
        match stmt:
            case py.Return(value=value):
                return ast.Return(span, None if value is None else self.compile_expr(value))
            case py.Pass():
                return tree.Pass(span)
            case py.Import() | py.ImportFrom():
                return self._import(stmt, span)
            case py.Break():
                return tree.Break(span)
            case py.Continue():
                return tree.Continue(span)
            case py.Expr(value=py.Call() as call) if (written := find_out(call)) is not None:
                return self._write_out(span, *written)
            case py.Expr(value=py.Call() as call) if (assignment := as_assignment(call)) is not None:
                return self._assignment(assignment)
            case py.Assign():
                return self._assignment(stmt)
            case py.AnnAssign():
                return self._compile_annotated(stmt)
            case py.AugAssign():
                return self._compile_augmented(stmt)
            case py.Expr():
                return self._bare_expression(stmt)
            case py.If(test=test, body=body, orelse=orelse):
                return ast.If(
                    span, self.compile_expr(test), self._block(body, span), self._block(orelse, span)
                )
            case py.While(test=test, body=body, orelse=orelse):
                condition = self.compile_expr(test)
                return tree.While(span, condition, self._block(body, span), self._block(orelse, span))
            case py.For():
                loop = over_indices(stmt)
                return self._for(loop, loop.target, loop.iter, loop.body, loop.orelse)
            case py.Assert(test=test, msg=message):
                condition = self.compile_expr(test)
                return ast.Assert(
                    span, condition, None if message is None else self._message([message], span)
                )
            case py.Raise():
                return self._raise(stmt, span)
            case py.FunctionDef():
                return self.compile_def(stmt)
            case py.Delete(targets=[py.Subscript(value=py.Name() as owner, slice=key) as target]):
                name, place = self.compile_var(owner), self.compile_expr(key)
                return tree.ChangeTable(span, name, "del", place, self.compile_expr(target))
            case py.With(items=[py.withitem(context_expr=context, optional_vars=None)], body=body) if (
                _ERRSTATE.fullmatch(py.unparse(context))
            ):  # a cell warns of no division by zero
                return ast.If(span, always, self._block(body, span), self._block([], span))
            case py.With(items=[py.withitem(context_expr=context)]) if _NO_GRAD.match(py.unparse(context)):
                return self.refuse_statement(stmt, *unsupported_syntax.NO_GRAD)
            case py.Match(subject=subject, cases=cases):
                return tree.MatchNode(span, self.compile_expr(subject), [self._case(case) for case in cases])
        return self.refuse_statement(stmt, *statement_refusal(type(stmt).__name__))

    def _import(self, stmt: py.Import | py.ImportFrom, span: ast.Span) -> ast.Stmt:
        match stmt:
            case py.Import(names=aliases):
                whole = ((alias.name, alias.asname) for alias in aliases)
                return tree.Import(
                    span,
                    {
                        to or name.partition(".")[0]: (name if to else name.partition(".")[0], "")
                        for name, to in whole
                    },
                )
            case py.ImportFrom(module=str() as module, names=aliases, level=0) if aliases[0].name != "*":
                return tree.Import(
                    span, {alias.asname or alias.name: (module, alias.name) for alias in aliases}
                )
        return self.refuse_statement(stmt, *statement_refusal(type(stmt).__name__))

    def refuse_statement(self, node: py.stmt, message: str, hint: str) -> ast.Stmt:
        """Refuse a statement; the names that it would bind stay silent."""
        span = self.spans.of(node)
        compound = _COMPOUND.match(type(node).__name__)
        shown = self.spans.word(node.lineno, node.col_offset) if compound else span
        self.refuse(message, shown, hint)
        returns = any(isinstance(part, py.Return | py.Raise) for part in py.walk(node))
        return tree.InvalidStatement(span, find_bound_names(node), returns)

    def _block(self, statements: Sequence[py.stmt], span: ast.Span) -> ast.Block:
        if not statements:
            return ast.Block(span, [])
        block: ast.Block = self.compile_block(list(statements))
        return block

    def _for(
        self,
        stmt: py.For,
        target: py.expr,
        iterable: py.expr,
        body: Sequence[py.stmt],
        orelse: Sequence[py.stmt],
    ) -> ast.Stmt:
        span, loop_target = self.spans.of(stmt), self.compile_target(target)
        over = self.compile_expr(iterable)
        blocks = self._block(body, span), self._block(orelse, span)
        if loop_target is None:
            returns = any(isinstance(node, py.Return) for node in py.walk(stmt))
            return tree.InvalidStatement(span, find_bound_names(stmt), returns)
        return tree.For(span, loop_target, over, *blocks)

    def _case(self, case: py.match_case) -> tree.Case:
        pattern = self.compile_pattern(case.pattern)
        guard = None if case.guard is None else self.compile_expr(case.guard)
        return tree.Case(pattern.span, pattern, guard, self._block(case.body, pattern.span))

    # -- assignments -----------------------------------------------------------------------------------

    def _assignment(self, stmt: py.Assign) -> ast.Stmt:
        if all(_is_shape_of_name(target) for target in stmt.targets):
            return self._set_shape(stmt)
        span, rhs = self.spans.of(stmt), self.compile_expr(stmt.value)
        targets = [self.compile_target(target, elements=True) for target in stmt.targets]
        if any(target is None for target in targets):
            return tree.InvalidStatement(span, find_bound_names(stmt), returns=False)
        if len(targets) == 1 and isinstance(targets[0], ast.Var):
            kind = tree.ChangeList if hasattr(stmt, CHANGES_LIST) else ast.Assign
            return kind(span, targets, None, rhs)
        return tree.Unpack(span, targets, rhs)

    def _set_shape(self, stmt: py.Assign) -> ast.Stmt:
        span, names, calls = self.spans.of(stmt), list[ast.Expr](), list[ast.Expr]()
        for target in stmt.targets:
            assert isinstance(target, py.Attribute)
            reshape = py.copy_location(py.Attribute(target.value, "reshape", py.Load()), target)
            call = py.copy_location(py.Call(reshape, [stmt.value], []), target)
            names.append(self.compile_var(target.value))
            calls.append(self.compile_expr(py.fix_missing_locations(call)))
        return tree.SetShape(span, names, None, ast.Tuple(span, calls))

    def _write_out(self, span: ast.Span, call: py.Call, out: py.expr) -> ast.Stmt:
        """Compile a call with a destination: its result is assigned to all elements of that."""
        target = self.compile_target(whole_of(out), elements=True)
        rhs = self.compile_expr(call)
        if target is None:
            return tree.InvalidStatement(span, find_bound_names(out), returns=False)
        return tree.WriteOut(span, [target], rhs)

    def _compile_annotated(self, stmt: py.AnnAssign) -> ast.Stmt:
        span = self.spans.of(stmt)
        target = self.compile_target(stmt.target)
        declared = self.compile_type(stmt.annotation)
        if stmt.value is None:
            self.refuse("a name is declared without a value", span, "assign a value, or leave the line out")
        elif target is not None:
            return ast.Assign(span, [target], declared, self.compile_expr(stmt.value))
        return tree.InvalidStatement(span, find_bound_names(stmt), returns=False)

    def _compile_augmented(self, stmt: py.AugAssign) -> ast.Stmt:
        span, rhs = self.spans.of(stmt), self.compile_expr(stmt.value)
        target = self.compile_target(stmt.target, elements=True)
        if target is None:
            return tree.InvalidStatement(span, find_bound_names(stmt), returns=False)
        sign, op = SYMBOLS[type(stmt.op)]
        op_span = self.spans.operator(stmt.target, f"{sign}=")
        if isinstance(target, ast.Call):
            return tree.UpdateElements(span, target, ast.Op(op_span, op), rhs)
        return tree.UpdateName(span, [target], None, ast.Call(span, ast.Op(op_span, op), [target, rhs], {}))

    def _compile_print(self, call: py.Call, span: ast.Span) -> tree.Printed:
        """Compile what a call of ``print`` writes."""
        separator, end = " ", "\n"
        for keyword in call.keywords:
            match keyword:
                case py.keyword(arg="sep", value=py.Constant(value=str(text))):
                    separator = text
                case py.keyword(arg="end", value=py.Constant(value=str(text))):
                    end = text
                case py.keyword(arg="flush"):
                    pass
                case _:
                    hint = "print takes values, and strings for sep and end"
                    self.refuse(f"`{py.unparse(keyword)}` is not supported", self.spans.of(keyword), hint)
        texts: list[str | tree.FormattedValue] = []
        for number, arg in enumerate(call.args):
            texts += [separator] if number else []
            texts += self._text(arg)
        return tree.Printed(span, [*texts, end])

    def _text(self, expr: py.expr) -> Sequence[str | tree.FormattedValue]:
        """Compile what ``print`` and an exception write of a value: the parts of a formatted string."""
        expr = to_formatted_string(expr)
        value = self.compile_expr(expr)
        if isinstance(value, tree.FormattedString):
            return value.parts
        return [tree.FormattedValue(self.spans.of(expr), value, -1, None)]

    # -- exceptions ------------------------------------------------------------------------------------

    def _message(self, args: Sequence[py.expr], span: ast.Span) -> tree.Message:
        parts = [part for arg in args for part in self._text(arg)]
        return tree.Message(span, parts, next(self._messages))

    def _raise(self, stmt: py.Raise, span: ast.Span) -> ast.Stmt:
        """Compile ``raise``: of a built-in exception, with a message or without."""
        call = stmt.exc if isinstance(stmt.exc, py.Call) else None
        exception = stmt.exc if call is None else call.func
        args, keywords = ([], []) if call is None else (call.args, call.keywords)
        if exception is None:
            self.refuse("`raise` alone raises no exception here", span, unsupported_syntax.RAISE)
        elif not isinstance(exception, py.Name | py.Attribute) or not is_raisable(name := name_of(exception)):
            what = py.unparse(exception)
            self.refuse(f"a cell cannot raise `{what}`", self.spans.of(exception), unsupported_syntax.RAISE)
        elif len(args) > 1 or keywords or any(isinstance(arg, py.Starred) for arg in args):
            hint = "put what it says into one formatted string, as in raise ValueError(f'{x} is negative')"
            self.refuse("an exception of a cell has one message", span, hint)
        else:
            return tree.Raise(span, name, self._message(args, span))
        return tree.InvalidStatement(span, [], returns=True)

    def _refuse_change(
        self, stmt: py.Expr, owner: py.expr, method: str, args: Sequence[py.expr]
    ) -> tree.InvalidStatement:
        """Refuse a call of a method that changes a list, and say what to write for it."""
        span, name = self.spans.of(stmt), owner.id if isinstance(owner, py.Name) else "items"
        hint = unsupported_syntax.CHANGE_A_LIST[method].format(name, *map(py.unparse, args), "i", "x")
        if method in ("append", "extend") and replacements.in_long_loop(stmt, self.function):
            hint += f"; in a loop of dynamic length, {unsupported_syntax.FILL_A_TENSOR}"
        self.refuse(
            f"`.{method}` would change `{py.unparse(owner)}` in place, which a cell cannot", span, hint
        )
        return tree.InvalidStatement(span, [name], returns=False)

    def _bare_expression(self, stmt: py.Expr) -> ast.Stmt:
        span = self.spans.of(stmt)
        match stmt.value:
            case py.Constant(value=str()) | py.Constant(value=EllipsisType()):
                return tree.Pass(span)
            case py.NamedExpr(target=target, value=value):
                return ast.Assign(span, [self.compile_var(target)], None, self.compile_expr(value))
            case py.Call(func=py.Name(id="print")) if not prints():
                message, hint = unsupported_syntax.PRINT
                self.refuse(message, span, hint)
                return tree.InvalidStatement(span, [], returns=False)
            case py.Call(func=py.Name(id="print")):
                return ast.Assert(span, self._compile_print(stmt.value, span), None)
            case py.Call(
                func=py.Attribute(attr="append", value=py.Name() as owner), args=[item], keywords=[]
            ) if not isinstance(item, py.Starred):
                target = self.compile_var(owner)
                items = ast.Tuple(self.spans.of(item), [self.compile_expr(item)])
                plus = ast.Op(span, ast.BuiltinOp.Add)
                return tree.Append(span, [target], None, ast.Call(span, plus, [target, items], {}))
            case py.Call(
                func=py.Attribute(
                    attr="add" | "discard" | "discard_key" | "remove" | "update_by" as word,
                    value=py.Name() as owner,
                ),
                args=[key, *_],
                keywords=[],
            ):
                target, call = self.compile_var(owner), self.compile_expr(stmt.value)
                return tree.ChangeTable(span, target, word, self.compile_expr(key), call)
            case py.Call(
                func=py.Attribute(attr="append", value=py.Subscript(value=py.Name(), slice=index) as owner),
                args=[item],
                keywords=[],
            ) if not isinstance(item, py.Starred) and not isinstance(index, py.Slice):
                stored = py.copy_location(py.Subscript(owner.value, index, py.Store()), owner)
                place = self.compile_target(stored, elements=True)
                items = ast.ArrayLiteral(self.spans.of(item), [self.compile_expr(item)])
                if not isinstance(place, ast.Call):
                    return tree.InvalidStatement(span, find_bound_names(stmt), returns=False)
                plus = ast.Op(span, ast.BuiltinOp.Add)
                return tree.UpdateElements(span, place, plus, items, py.unparse(owner))
            case py.Call(func=py.Attribute(attr=method, value=owner), args=args) if (
                method in unsupported_syntax.CHANGE_A_LIST
            ):
                return self._refuse_change(stmt, owner, method, args)
            case py.Yield() | py.YieldFrom() | py.Await():
                self.compile_expr(stmt.value)
                return tree.InvalidStatement(span, find_bound_names(stmt), returns=True)
            case py.Call(func=py.Name() | py.Attribute()):
                return tree.CallStatement(span, self.compile_expr(stmt.value))
            case _:
                self.refuse(UNUSED, span, UNUSED_HINT)
                # A `return` may be what was meant.
                return tree.InvalidStatement(span, find_bound_names(stmt), returns=True)


def _is_shape_of_name(target: py.expr) -> bool:
    return isinstance(target, py.Attribute) and target.attr == "shape" and isinstance(target.value, py.Name)


def name_of(exception: py.Name | py.Attribute) -> str:
    """Return the name of a class, without the module."""
    return exception.id if isinstance(exception, py.Name) else exception.attr


def statement_refusal(kind: str) -> tuple[str, str]:
    """Return the message and the hint for an unsupported statement."""
    general = (f"this statement ({kind}) is not part of TinyNN", "leave it out")
    return unsupported_syntax.STATEMENTS.get(kind, general)
