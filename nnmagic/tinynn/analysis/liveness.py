"""Find the names whose values a statement reads, and those that it replaces, whatever way control takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from synr import ast

from nnmagic.tinynn.analysis.bound_names import find_mentioned_names, once_per_node, targets_of
from nnmagic.tinynn.syntax import tree

_NO_NAMES: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Flow:
    """What a piece of a function does with the values that names have before it.

    exposed: the names that it may read before it assigns them; what a nested function mentions counts as read
        where that is made, not where it is called.
    assigned: the names that have another value wherever control goes on behind it; None where it never does.
    """

    exposed: frozenset[str]
    assigned: frozenset[str] | None = _NO_NAMES


@once_per_node
def flow_of(node: object) -> Flow:
    """Return the flow of a statement or of a block."""
    match node:
        case ast.Block(stmts=stmts):
            return _flow_of_sequence(stmts)
        case ast.Assign(lhs=targets, rhs=rhs, ty=annotation):
            exposed = find_mentioned_names(rhs) | find_mentioned_names(annotation)
            return Flow(exposed, frozenset(target.id.name for target in targets))
        case tree.Unpack() if not isinstance(node, tree.WriteOut):
            exposed = find_mentioned_names(node.rhs).union(*map(_names_read_by, node.targets))
            names = [variable.id.name for target in node.targets for variable in targets_of(target)]
            return Flow(exposed, frozenset(names))
        case ast.If():
            return _flow_of_branches(node)
        case tree.For(target=target, iterable=iterable, body=body, orelse=orelse):
            bound = frozenset(variable.id.name for variable in targets_of(target))
            inside = (flow_of(body).exposed | _names_read_by(target)) - bound
            return Flow(find_mentioned_names(iterable) | inside | flow_of(orelse).exposed)
        case tree.While(condition=condition, body=body, orelse=orelse):
            inside = flow_of(body).exposed | flow_of(orelse).exposed
            return Flow(find_mentioned_names(condition) | inside)
        case ast.Return() | tree.Raise():
            return Flow(find_mentioned_names(node), None)
        case tree.Break() | tree.Continue():
            return Flow(_NO_NAMES, None)
    return Flow(find_mentioned_names(node))


def _flow_of_sequence(statements: Sequence[ast.Stmt]) -> Flow:
    exposed, assigned = set[str](), set[str]()
    for statement in statements:
        flow = flow_of(statement)
        exposed |= flow.exposed - assigned
        if flow.assigned is None:
            return Flow(frozenset(exposed), None)
        assigned |= flow.assigned
    return Flow(frozenset(exposed), frozenset(assigned))


def _flow_of_branches(node: ast.If) -> Flow:
    """Return the flow of an ``if``; each ``elif`` is nested in the one before."""
    exposed, branches = set[str](), list[Flow]()
    while True:
        exposed |= find_mentioned_names(node.condition)
        branches.append(flow_of(node.true))
        others = node.false.stmts
        if len(others) != 1 or not isinstance(others[0], ast.If):
            branches.append(flow_of(node.false))
            break
        node = others[0]
    going_on = [branch.assigned for branch in branches if branch.assigned is not None]
    assigned = going_on[0].intersection(*going_on[1:]) if going_on else None
    return Flow(frozenset(exposed.union(*(branch.exposed for branch in branches))), assigned)


def _names_read_by(target: ast.Expr) -> frozenset[str]:
    """Return the names that the left side of an assignment reads: those of the arrays that it changes."""
    match target:
        case ast.Var():
            return _NO_NAMES
        case tree.Starred():
            return _names_read_by(target.value)
        case ast.Tuple():
            return _NO_NAMES.union(*map(_names_read_by, target.values))
    return find_mentioned_names(target)
