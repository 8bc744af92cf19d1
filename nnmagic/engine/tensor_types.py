"""Refuse programs with tensors that no machine holds, and with calls that no engine gives a meaning.

Relay's type rules accept both, as the original Relay does. An engine would fail in the middle of its work, or
compile forever.
"""

from __future__ import annotations

from collections.abc import Iterator

from nnmagic.engine import engine_error
from nnmagic.relay.expr import Call, Expr, Function, Let, OpRef
from nnmagic.relay.infer.context import span_of
from nnmagic.relay.infer.unify import type_parts
from nnmagic.relay.module import Module
from nnmagic.relay.ops.checks import find_problem
from nnmagic.relay.ops.declaration import OPERATORS, RelationError
from nnmagic.relay.structure.callgraph import call_graph, reachable
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.types import ARRAY_DTYPES, TensorType, Type


def check_tensors(module: Module, entry: str) -> None:
    """Raise EngineError at the first variable or call of a typed module that cannot be.

    Tensors have elements of one of NumPy's dtypes, no negative sizes, and fit into a memory; calls meet the
    preconditions of their operators.
    """
    accepted: set[int] = set()
    for name in sorted(reachable(call_graph(module), entry)):
        for node in post_order(module.functions[name]):
            for expr, what in _named_values(node):
                type_ = expr.checked_type
                if type_ is not None and id(type_) not in accepted:
                    _check_type(type_, what, expr)
                    accepted.add(id(type_))
            if isinstance(node, Call):
                _check_preconditions(node)


def _named_values(node: Expr) -> Iterator[tuple[Expr, str]]:
    """Yield the variables that an expression binds, or the call that it is, with their names in messages."""
    match node:
        case Function(params=params):
            yield from ((param, f"%{param.name_hint}") for param in params)
        case Let(var=var):
            yield var, f"%{var.name_hint}"
        case Call(op=OpRef(name=operator)):
            yield node, f"{operator}: the result"


def _check_preconditions(call: Call) -> None:
    operator = OPERATORS.get(call.op.name) if isinstance(call.op, OpRef) else None
    types = [arg.checked_type for arg in call.args if arg.checked_type is not None]
    if operator is None or len(types) != len(call.args):
        return
    try:
        operator.check_preconditions(types, call.attrs)
    except RelationError as error:
        raise engine_error(error.message, span_of(call), hint=error.hint) from None


def _check_type(type_: Type, what: str, node: Expr) -> None:
    work = [type_]
    while work:
        inner = work.pop()
        work.extend(type_parts(inner))
        if isinstance(inner, TensorType) and (problem := find_problem(inner)) is not None:
            hint = f"the dtypes are {', '.join(ARRAY_DTYPES)}" if inner.dtype not in ARRAY_DTYPES else None
            raise engine_error(f"{what}{problem}", span_of(node), hint=hint)
