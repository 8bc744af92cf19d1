"""Convert functions to let normal form (Relay's A-normal form) and to graph normal form, from any form."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace

from nnmagic.relay.expr import Clause, Expr, Function, If, Let, Match, Var
from nnmagic.relay.module import Module
from nnmagic.relay.passes.effects import Effects
from nnmagic.relay.passes.rewriting import keeps_types, map_functions, substitute, with_flat_lets
from nnmagic.relay.passes.scopes import PlacementScope, Scopes, is_atom, is_opaque, opens_sizes, scopes_of
from nnmagic.relay.structure.traverse import with_parts


@keeps_types
def to_a_normal_form(module: Module) -> Module:
    """Bind every computed value, constants too, by a let, which makes the order of computation explicit.

    Each body of a function, branch of an ``if`` and arm of a ``match`` is a chain of lets of its own; what
    several of them share is bound before them. New variables are ``%x_0``, ``%x_1`` and so on.
    """
    count = 0

    def fresh(value: Expr) -> Var:
        nonlocal count
        count += 1
        return Var(f"x_{count - 1}", span=value.span)

    return map_functions(module, lambda function: _LetChains(function, fresh).function())


class _LetChains:
    """The chains of lets of one function while they grow: a let of the program, or None, for each binding."""

    def __init__(self, function: Function, fresh: Callable[[Expr], Var]) -> None:
        self.old = function
        self.fresh = fresh
        self.scopes: Scopes = scopes_of(function)
        self.names: dict[Expr, Expr] = {}
        self.chains: dict[PlacementScope, list[tuple[Let | None, Var, Expr]]] = {}

    def function(self) -> Function:
        order, ended = self.scopes.order, set[Expr]()
        for position, node in enumerate(order):
            if isinstance(node, Let):
                if node in ended:
                    self.names[node] = self.name(node.body)
                elif self.name(node.value) is not node.var:  # it has another name, or is a name
                    self.bind(node, node, self.name(node.value))
                ended.add(node)
            elif not is_atom(node):
                user = order[position + 1] if position + 1 < len(order) else None
                let = user if isinstance(user, Let) and user.value is node and user not in ended else None
                self.bind(let, node, self.compute(node))
        return replace(self.old, body=self.block(self.scopes.outermost, self.old.body))

    def name(self, expr: Expr) -> Expr:
        return self.names.get(expr, expr)

    def bind(self, let: Let | None, node: Expr, value: Expr) -> None:
        var = let.var if let else self.fresh(node)
        self.chains.setdefault(self.scopes.scope_of[node], []).append((let, var, value))
        self.names[node] = var

    def block(self, scope: PlacementScope, result: Expr) -> Expr:
        """Return the chain of a scope, which is complete, with its result at the end."""
        body = self.name(result)
        for let, var, value in reversed(self.chains.pop(scope, [])):
            body = replace(let, value=value, body=body) if let else Let(var, value, body, span=value.span)
        return body

    def compute(self, node: Expr) -> Expr:
        """Return a node whose parts are names, or chains of lets."""
        inner = self.scopes.inner.get(node, ())
        match node:
            case If(cond=cond, true_branch=then, false_branch=other):
                branches = self.block(inner[0], then), self.block(inner[1], other)
                return replace(node, cond=self.name(cond), true_branch=branches[0], false_branch=branches[1])
            case Match(data=data, clauses=clauses):
                arms = zip(clauses, inner, strict=True)
                blocks = tuple(Clause(arm.lhs, self.block(scope, arm.rhs)) for arm, scope in arms)
                return replace(node, data=self.name(data), clauses=blocks)
            case Function(body=body):
                return node if is_opaque(node) else replace(node, body=self.block(inner[0], body))
            case _:
                return with_parts(node, self.name)


@keeps_types
def to_graph_normal_form(module: Module) -> Module:
    """Replace the variables of lets by their values: a graph, in which sharing says what is computed once.

    A let stays if its value may have an effect, so that effects keep their order, if a function calls itself
    by it, and if only an inner function uses it, which would compute the value at every call.
    """
    effects = Effects(module)
    return map_functions(module, lambda function: without_lets(function, effects))


def without_lets(function: Function, effects: Effects, only: Container[Let] | None = None) -> Function:
    """Return the function without the lets (or those of ``only``) that graph normal form removes."""
    scopes = scopes_of(function)
    replaced: dict[Expr, Expr] = {}
    for node in scopes.order:
        if (
            isinstance(node, Let)
            and (only is None or node in only)
            and _is_free_to_move(node, scopes, effects)
        ):
            replaced |= {node: node.body, node.var: node.value}
    new = substitute(function, replaced)
    return with_flat_lets(new)


def _is_free_to_move(let: Let, scopes: Scopes, effects: Effects) -> bool:
    if let.var in scopes.early or opens_sizes(let.var):
        return False
    if is_atom(let.value):
        return True
    used_in = scopes.scope_of.get(let.var)  # None if nothing uses it
    in_same_function = used_in is None or used_in.function is scopes.scope_of[let].function
    return in_same_function and not effects.within(let.value)
