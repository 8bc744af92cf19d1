"""Bind the arguments of calls that are written out, and write returns as assignments of what they return."""

from __future__ import annotations

import ast as py
import copy
from collections.abc import Sequence
from dataclasses import dataclass

from nnmagic.tinynn.syntax.name_scopes import FUNCTIONS, own_nodes, parameter_names
from nnmagic.tinynn.syntax.written_code import placed


class StaysCallError(Exception):
    """A call that stays a call."""


@dataclass
class Ends:
    """Statements without returns; ``falls``: whether their end may be reached without a return."""

    statements: list[py.stmt]
    falls: bool


def without_returns(statements: Sequence[py.stmt], result: str | None) -> Ends:
    """Return statements that assign what they would return. Raises StaysCallError where none can."""
    made: list[py.stmt] = []
    for number, stmt in enumerate(statements):
        rest = statements[number + 1 :]
        match stmt:
            case py.Return():
                return Ends([*made, *_assigned(stmt, result)], falls=False)
            case py.Raise():
                return Ends([*made, stmt], falls=False)
            case py.If(test=test, body=body, orelse=orelse) if _returns(stmt):
                # Of copies: what is written of them once more must be as it was.
                first, second = (without_returns(copy.deepcopy(each), result) for each in (body, orelse))
                if not first.falls:
                    second = without_returns([*orelse, *rest], result)
                elif not second.falls:
                    first = without_returns([*body, *rest], result)
                elif rest:
                    raise StaysCallError
                last = py.If(test, first.statements or [py.Pass()], second.statements)
                return Ends([*made, placed(stmt, last)], falls=first.falls or second.falls)
            case py.For(body=body, orelse=[]) | py.While(body=body, orelse=[]) if _returns(stmt):
                if any(isinstance(each, py.Break) for each in own_nodes(body)):
                    raise StaysCallError
                stmt.body = _leaving(body, result)
                is_endless = (
                    isinstance(stmt, py.While)
                    and isinstance(stmt.test, py.Constant)
                    and bool(stmt.test.value)
                )
                after = Ends([], falls=False) if is_endless else without_returns(rest, result)
                stmt.orelse = after.statements
                return Ends([*made, stmt], falls=after.falls)
            case _ if _returns(stmt):
                raise StaysCallError
        made.append(stmt)
    return Ends(made, falls=True)


def _leaving(body: Sequence[py.stmt], result: str | None) -> list[py.stmt]:
    """Return the body of a loop in which a return ends the loop."""
    left: list[py.stmt] = []
    for stmt in body:
        match stmt:
            case py.Return():
                return [*left, *_assigned(stmt, result), placed(stmt, py.Break())]
            case py.If() if _returns(stmt):
                stmt.body, stmt.orelse = _leaving(stmt.body, result), _leaving(stmt.orelse, result)
            case _ if _returns(stmt):
                raise StaysCallError
        left.append(stmt)
    return left


def _returns(stmt: py.stmt) -> bool:
    return any(isinstance(each, py.Return) for each in (stmt, *own_nodes(stmt))) and not isinstance(
        stmt, FUNCTIONS
    )


def _assigned(stmt: py.Return, result: str | None) -> list[py.stmt]:
    if result is None:
        is_simple = stmt.value is None or not any(isinstance(each, py.Call) for each in py.walk(stmt.value))
        if not is_simple:
            raise StaysCallError
        return [placed(stmt, py.Pass())]
    value = py.Constant(None) if stmt.value is None else stmt.value
    return [placed(stmt, py.Assign([py.Name(result, py.Store())], value))]


def arguments_of(call: py.Call, function: py.FunctionDef) -> dict[str, py.expr]:
    """Return the arguments of a call by parameter. Raises StaysCallError for a call that does not fit."""
    arguments = function.args
    positional = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    if any(isinstance(each, py.Starred) for each in call.args) or len(call.args) > len(positional):
        raise StaysCallError
    given: dict[str, py.expr] = dict(zip(positional, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in given or keyword.arg not in parameter_names(function):
            raise StaysCallError
        given[keyword.arg] = keyword.value
    last = positional[len(positional) - len(arguments.defaults) :]
    defaults: dict[str, py.expr | None] = dict(zip(last, arguments.defaults, strict=True))
    defaults |= {
        each.arg: default for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    }
    for name in parameter_names(function):
        if name not in given:
            default = defaults.get(name)
            number = default.operand if isinstance(default, py.UnaryOp) else default  # -1, too
            if default is None or not isinstance(number, py.Constant):
                raise StaysCallError
            given[name] = default
    return given
