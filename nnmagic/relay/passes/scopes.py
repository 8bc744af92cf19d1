"""Decide where and in what order a function computes the nodes of its graph.

Relay's graphs leave both open; Relay's ToANormalForm decides, and this is its rule. A node is computed once,
in the innermost scope that holds all its uses; a scope is the body of a function, a branch of an ``if`` or an
arm of a ``match``. Inside a scope arguments come from left to right, then the callee, then the call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnmagic.relay import expr as ir
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.types import AnyDim, TensorType


class PlacementScope:
    """A scope that nodes are placed in.

    ``function`` is the innermost function around it; ``jump`` an ancestor, to climb fast. The outermost scope
    is its own parent.
    """

    __slots__ = ("depth", "function", "jump", "parent")

    def __init__(self, function: ir.Function, parent: PlacementScope | None = None) -> None:
        self.function = function
        self.parent = parent or self
        self.depth: int = parent.depth + 1 if parent else 0
        self.jump = self.parent
        if parent and parent.depth - parent.jump.depth == parent.jump.depth - parent.jump.jump.depth:
            # Myers (1983): ancestors at skew-binary distances, so that climbing takes logarithmic time.
            self.jump = parent.jump.jump

    def inner(self, function: ir.Function | None = None) -> PlacementScope:
        """Return a new scope inside this one; ``function`` if it is that function's body."""
        return PlacementScope(function or self.function, self)


@dataclass(frozen=True, slots=True)
class Scopes:
    """The scopes of one function.

    order: the nodes, each after what it needs; a let stands twice, where it binds (between its value and its
    body) and where it ends. scope_of: the scope that computes a node; of a variable, the innermost one that
    holds all its uses. inner: the scopes that a node opens, in the order of its parts. early: the variables
    that are used before their let binds them, as those of recursive functions are.
    """

    outermost: PlacementScope
    order: list[ir.Expr]
    scope_of: dict[ir.Expr, PlacementScope]
    inner: dict[ir.Expr, tuple[PlacementScope, ...]]
    early: frozenset[ir.Var]


def opens_sizes(var: ir.Var) -> bool:
    """Return whether a variable is declared with open sizes, where those of its value may be known."""
    declared = var.type_annotation
    return not var.inferred and isinstance(declared, TensorType) and AnyDim() in declared.shape


def is_opaque(function: ir.Function) -> bool:
    """Return whether a function is marked as one kernel, or as another compiler's: passes skip it."""
    return "Primitive" in function.attrs or "Compiler" in function.attrs


def opaque_functions(root: ir.Expr) -> set[ir.Expr]:
    """Return the functions in a graph that passes skip."""
    return {node for node in post_order(root) if isinstance(node, ir.Function) and is_opaque(node)}


def scopes_of(function: ir.Function, *, lets: bool = False) -> Scopes:
    """Place every node of a function's body. With ``lets`` the body of a let is a scope, too."""
    outermost = PlacementScope(function)
    order, early = computing_order(function.body)
    scope_of: dict[ir.Expr, PlacementScope] = {function.body: outermost}
    inner: dict[ir.Expr, tuple[PlacementScope, ...]] = {}
    ended: set[ir.Expr] = set()
    for node in reversed(order):  # users first, so a node's scope is final when it is reached
        if node in ended:
            continue  # where a let binds
        if isinstance(node, ir.Let):
            ended.add(node)
        uses = list(_uses(node, scope_of[node], lets))
        if opened := tuple(scope for _, scope in uses if scope is not scope_of[node]):
            inner[node] = opened
        for used, user in uses:
            current = scope_of.get(used)
            # The lowest common ancestor of all users: the latest place that dominates every use, as
            # in Click, Global code motion, global value numbering (1995), but without moving out of
            # loops.
            scope_of[used] = user if current is None else common_scope(current, user)
    return Scopes(outermost, order, scope_of, inner, early)


def common_scope(lhs: PlacementScope, rhs: PlacementScope) -> PlacementScope:
    """Return the innermost scope that holds both."""
    if lhs.depth < rhs.depth:
        lhs, rhs = rhs, lhs
    while lhs.depth > rhs.depth:
        lhs = lhs.jump if lhs.jump.depth >= rhs.depth else lhs.parent
    while lhs is not rhs:
        if lhs.jump is rhs.jump:
            lhs, rhs = lhs.parent, rhs.parent
        else:
            lhs, rhs = lhs.jump, rhs.jump
    return lhs


def computing_order(root: ir.Expr) -> tuple[list[ir.Expr], frozenset[ir.Var]]:
    """Return the nodes in the order of computation, and the variables used before they are bound."""
    order: list[ir.Expr] = []
    entered: set[ir.Expr] = set()
    early: set[ir.Var] = set()
    # What to do next: (0) enter a node, (1) note where a let binds, (2) note the node.
    work: list[tuple[int, ir.Expr]] = [(0, root)]
    while work:
        stage, node = work.pop()
        if stage == 0:
            if node not in entered:
                entered.add(node)
                work.extend(_steps(node))
            continue
        order.append(node)
        # The variable was met in the let's own value: the function that it binds calls itself.
        if stage == 1 and isinstance(node, ir.Let) and node.var in entered:
            early.add(node.var)
    return order, frozenset(early)


def _steps(node: ir.Expr) -> list[tuple[int, ir.Expr]]:
    """Return the steps that computing a node takes, the last first."""
    match node:
        case ir.Call(op=op, args=args):
            return [(2, node), (0, op), *((0, arg) for arg in reversed(args))]
        case ir.Let(value=value, body=body):
            return [(2, node), (0, body), (1, node), (0, value)]
        case ir.Function() if is_opaque(node):
            return [(2, node)]
        case _:
            return [(2, node), *((0, child) for child in reversed(ir.children(node)))]


def _uses(node: ir.Expr, scope: PlacementScope, lets: bool) -> Iterator[tuple[ir.Expr, PlacementScope]]:
    """Yield the parts of a node, each with the scope that uses it."""
    match node:
        case ir.If(cond=cond, true_branch=then, false_branch=other):
            yield cond, scope
            yield then, scope.inner()
            yield other, scope.inner()
        case ir.Match(data=data, clauses=clauses):
            yield data, scope
            yield from ((clause.rhs, scope.inner()) for clause in clauses)
        case ir.Function(body=body) if not is_opaque(node):
            yield body, scope.inner(node)
        case ir.Let(value=value, body=body):
            yield value, scope
            yield body, scope.inner() if lets else scope
        case ir.Function():
            pass
        case _:
            yield from ((child, scope) for child in ir.children(node))


def is_atom(expr: ir.Expr) -> bool:
    """Return whether an expression is a name: it has no value to compute."""
    return isinstance(expr, ir.Var | ir.GlobalVar | ir.OpRef | ir.Constructor)
