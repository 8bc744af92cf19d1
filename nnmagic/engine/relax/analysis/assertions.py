"""Lower assertions to branches: ``match?`` on a condition's constructor, of which one arm is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nnmagic.relay.expr import Call, Constructor, Expr, Function, If, Match, OpRef, PatternConstructor
from nnmagic.relay.failures import Failure
from nnmagic.relay.module import Module
from nnmagic.relay.structure.traverse import post_order, rewrite

#: An operator of this engine: ends the program with the assertion of the number that its attribute states.
FAIL = "nnmagic.fail"


def lower_assertions(module: Module, failures: list[Failure]) -> Module:
    """Replace assertions by branches that end in a call of ``FAIL``.

    ``failures`` takes what each assertion raises, whose number is its position.
    """

    def lower(_old: Expr, new: Expr) -> Expr:
        if not isinstance(new, Match) or new.assertion is None or not _is_assertion(new):
            return new
        assert isinstance(new.data, If)
        failure = Call(
            OpRef(FAIL), (), {"number": len(failures)}, span=new.span, checked_type=new.checked_type
        )
        # Machine code knows the number alone; the message is made from this table when it is
        # raised.
        failures.append(new.assertion.at(new.span))
        return If(new.data.cond, new.clauses[0].rhs, failure, span=new.span, checked_type=new.checked_type)

    functions = {name: _rewrite(function, lower) for name, function in module.functions.items()}
    return replace(module, functions=functions)


def _rewrite(function: Function, transform: Callable[[Expr, Expr], Expr]) -> Function:
    if not any(isinstance(node, Match) and node.assertion is not None for node in post_order(function)):
        return function
    return rewrite(function, transform)


def _is_assertion(match: Match) -> bool:
    """Return whether a match takes just the first of two constructors, which a branch chooses."""
    data = match.data
    if not isinstance(data, If) or len(match.clauses) != 1:
        return False
    pattern = match.clauses[0].lhs
    return (
        isinstance(pattern, PatternConstructor)
        and not pattern.patterns
        and _tag(data.true_branch) == pattern.constructor.tag
        and _tag(data.false_branch) not in (None, pattern.constructor.tag)
    )


def _tag(expr: Expr) -> int | None:
    """Return the number of the constructor that an expression is, or calls without arguments."""
    callee = expr.op if isinstance(expr, Call) and not expr.args else expr
    return callee.tag if isinstance(callee, Constructor) else None
