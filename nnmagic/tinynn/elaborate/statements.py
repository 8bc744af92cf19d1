"""The statements of a function, one after the other, and where they leave it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from functools import partial

from synr import ast

from nnmagic.relay import expr as ir
from nnmagic.tinynn.analysis.bound_names import assigned_names, mentioned_names, walk
from nnmagic.tinynn.elaborate.annotation_types import declared_value
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, BlockExit, ExitKind, Switch, Terminator
from nnmagic.tinynn.elaborate.matching import Matching
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values.values import FAILED, Known, Operand, RefusalError, is_failed


class Statements(Matching):
    """The statements of a function."""

    def sequence(self, steps: Iterable[Callable[[], Terminator | None]]) -> bool:
        """Carries out statements in the current block; False where it got an end."""
        rest = iter(steps)
        last = len(steps) - 1 if isinstance(steps, Sized) else None
        for index, step in enumerate(rest):
            end = step()
            if end is not None:
                self.block.end = end if index == last else self.followed(end, rest, ExitKind.GOES_ON)
                return False
        return True

    def steps(self, statements: Sequence[ast.Stmt]) -> list[Callable[[], Terminator | None]]:
        """Statements, each to be carried out; keeps account of the names that follow."""
        following = [self.live]
        for statement in reversed(statements[1:]):
            following.append(following[-1] | mentioned_names(statement))
        return [
            partial(self._step, statement, live)
            for statement, live in zip(statements, reversed(following), strict=bool(statements))
        ]

    def _step(self, statement: ast.Stmt, live: frozenset[str]) -> Terminator | None:
        self.live = live
        if any(isinstance(part, tree.NamedExpr) for part in walk(statement, into_functions=False)):
            self.live |= mentioned_names(statement)  # what an expression assigns is used in it, too
        self.count_work()
        try:
            return self._statement(statement)
        except (RefusalError, RecursionError) as problem:
            if isinstance(problem, RefusalError):
                self.report(problem)
            else:
                self.report_depth(statement.span)
            for name in assigned_names(statement):
                self.frame.env.bind(name, FAILED)
            if not isinstance(statement, ast.Assign | tree.Unpack | tree.FunctionNode):
                self.frame.failed = True
            return None

    def _statement(self, statement: ast.Stmt) -> Terminator | None:
        match statement:
            case ast.Assign():
                self._assign(statement)
            case tree.Unpack():
                self._unpack(statement)
            case ast.Return():
                return self._return(statement)
            case tree.Break():
                return BlockExit(ExitKind.BREAKS, self.place(statement.span), self.frame.env)
            case tree.Continue():
                return BlockExit(ExitKind.CONTINUES, self.place(statement.span), self.frame.env)
            case ast.If():
                return self.branch(statement)
            case tree.For():
                return self.for_loop(statement)
            case tree.While():
                return self.while_loop(statement)
            case tree.MatchNode():
                return self.match_statement(statement)
            case ast.Assert():
                return self._assert(statement)
            case tree.FunctionNode():
                self.nested(statement)
            case tree.InvalidStatement(names=names, returns=returns):
                for name in names:
                    self.frame.env.bind(name, FAILED)
                self.frame.failed = self.frame.failed or returns
        return None

    def _return(self, stmt: ast.Return) -> Terminator:
        place = self.place(stmt.span)
        if stmt.value is None:
            hint = "return a tensor, or a tuple of them"
            self.report(RefusalError("`return` without a value", place, hint=hint))
            return BlockExit(ExitKind.RETURNS, place, self.frame.env, Operand(FAILED, place))
        value = self.operand(stmt.value)
        return BlockExit(ExitKind.RETURNS, place, self.frame.env, value)

    # -- assignments -----------------------------------------------------------------------------------

    def _assign(self, stmt: ast.Assign) -> None:
        target = stmt.lhs[0]
        name = target.id.name
        value = self.transform_expr(stmt.rhs)
        if stmt.ty is not None:
            declared = self.type_or_none(stmt.ty)
            if declared is None or is_failed(value):
                value = FAILED
            else:
                operand = Operand(value, self.place(stmt.rhs.span))
                value = declared_value(f"`{name}`", declared, operand, self.place(stmt.ty.span))
        self.frame.env.bind(name, value, self.place(target.span))

    def _unpack(self, stmt: tree.Unpack) -> None:
        value = Operand(self.transform_expr(stmt.rhs), self.place(stmt.rhs.span))
        for target in stmt.targets:
            self.assign(target, value)

    # -- assert ----------------------------------------------------------------------------------------

    def _assert(self, stmt: ast.Assert) -> Terminator | None:
        """A condition that is known is checked now; any other when the function runs."""
        condition = self.truth(self.operand(stmt.condition), "assert")
        message = self._message(stmt)
        if condition is None or condition is True:
            return None
        place = self.place(stmt.span)
        if condition is False:
            said = f": {message}" if message else ""
            raise RefusalError(f"this assertion does not hold{said}", self.place(stmt.condition.span))
        self.settle(name for name in list(self.frame.names()) if name in self.live)
        holds, fails = self.scope.assertion(place)
        check = ir.If(condition.expr, ir.Call(holds, ()), ir.Call(fails, ()), span=place)
        block = Block(end=BlockExit(ExitKind.GOES_ON, place, self.frame.env.copy()))
        arms: list[tuple[ir.Pattern, Block]] = [(ir.PatternConstructor(holds), block)]
        span = self.place(stmt.condition.span)
        return Switch(check, arms, complete=False, span=span, assertion=message or "")

    def _message(self, stmt: ast.Assert) -> str | None:
        if stmt.msg is None:
            return None
        found = self.operand(stmt.msg)
        if is_failed(found.value):
            return None
        if not (isinstance(found.value, Known) and isinstance(found.value.value, str)):
            hint = "write a plain string, as in assert condition, 'message'"
            raise RefusalError("the message of an assertion must be a string", found.span, hint=hint)
        return found.value.value
