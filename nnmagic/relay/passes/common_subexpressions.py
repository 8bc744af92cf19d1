"""Eliminate common subexpressions.

Values are numbered by their operator and operands (Cocke and Schwartz, 1970).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from nnmagic.relay import expr as ir
from nnmagic.relay.module import Module
from nnmagic.relay.passes.effects import Effects
from nnmagic.relay.passes.rewriting import keeps_types, map_functions, substitute
from nnmagic.relay.passes.scopes import PlacementScope, is_atom, scopes_of

#: Larger constants are not compared with others.
_MOST_BYTES = 4096


@keeps_types
def eliminate_common_subexpr(module: Module, *, apart: Callable[[ir.Call], bool] = lambda _: False) -> Module:
    """Merge equal calls, tuples, projections and constants if one is computed before the other.

    The calls are those of operators, of constructors and of functions without effects. What two branches of
    an ``if`` or two functions compute stays apart: merged, it would have to be computed before the branch. So
    do the calls that ``apart`` chooses, but for what is computed from them.
    """
    effects = Effects(module)
    return map_functions(module, lambda function: _Numbering(function, effects, apart).function())


@dataclass(slots=True)
class _Visit:
    """A scope to visit, and the let that opens it if one does; then, what to forget on leaving it."""

    scope: PlacementScope
    let: ir.Let | None = None
    is_left: bool = False
    keys: list[Hashable] = field(default_factory=list)
    named: ir.Expr | None = None


class _Numbering:
    """Global value numbering: scope by scope, outer ones first, so that an equal node is computed anyway.

    numbers: for a node the first one equal to it, for a variable the number of its value. first: by key, the
    nodes of the scopes around. names: by number, the variable that a let around binds to it.
    """

    def __init__(self, function: ir.Function, effects: Effects, apart: Callable[[ir.Call], bool]) -> None:
        self.old = function
        self.effects = effects
        self.apart = apart
        self.scopes = scopes_of(function, lets=True)
        self.numbers: dict[ir.Expr, ir.Expr] = {}
        self.first: dict[Hashable, ir.Expr] = {}
        self.names: dict[ir.Expr, ir.Var] = {}
        self.replaced: dict[ir.Expr, ir.Expr] = {}

    def function(self) -> ir.Function:
        nodes: dict[PlacementScope, dict[ir.Expr, None]] = {}
        for node in self.scopes.order:
            nodes.setdefault(self.scopes.scope_of[node], {})[node] = None
        work = [_Visit(self.scopes.outermost)]
        while work:
            visit = work.pop()
            if visit.is_left:
                for key in visit.keys:
                    del self.first[key]
                if visit.named is not None:
                    del self.names[visit.named]
                continue
            visit.is_left = True
            work.append(visit)
            visit.named = None if visit.let is None else self.name(visit.let)
            for node in nodes.get(visit.scope, ()):
                key = self.visit(node)
                if key is not None:
                    visit.keys.append(key)
            for node in nodes.get(visit.scope, ()):
                let = node if isinstance(node, ir.Let) else None
                work.extend(_Visit(inner, let) for inner in self.scopes.inner.get(node, ()))
        return substitute(self.old, self.replaced)

    def number(self, expr: ir.Expr) -> ir.Expr:
        return self.numbers.get(expr, expr)

    def name(self, let: ir.Let) -> ir.Expr | None:
        """Let a variable name its value in the let's body; return the number, unless that has a name."""
        number = self.number(let.value)
        if let.var in self.scopes.early or number in self.names:
            return None
        self.names[number] = let.var
        return number

    def visit(self, node: ir.Expr) -> Hashable:
        """Assign a number to a node, and return its key if it is the first of its kind."""
        if isinstance(node, ir.Let):
            self.visit_let(node)
        elif not is_atom(node) and not self.effects.own(node) and (key := self.key(node)) is not None:
            number = self.first.setdefault(key, node)
            if number is node:
                return key
            self.numbers[node] = number
            if isinstance(node, ir.Call) and self.apart(node):
                return None
            self.replaced[node] = number if isinstance(node, ir.Constant) else self.names.get(number, number)
        return None

    def visit_let(self, let: ir.Let) -> None:
        """Remove a let of a value that has a name in scope."""
        number = self.number(let.value)
        if let.var not in self.scopes.early:
            self.numbers[let.var] = number
        stays = isinstance(let.value, ir.Call) and self.apart(let.value)
        if not is_atom(let.value) and not stays and number in self.names:
            self.replaced |= {let: let.body, let.var: self.names[number]}

    def key(self, node: ir.Expr) -> Hashable:
        """Return a key that equal nodes share; None for nodes that are never merged."""
        match node:
            case ir.Constant(data=data) if data.nbytes > _MOST_BYTES:
                return None
            case ir.Constant(data=data):
                return "constant", data.dtype.name, data.shape, data.tobytes()
            case ir.Call(op=op, args=args, attrs=attrs, type_args=type_args):
                types = () if isinstance(op, ir.OpRef) else type_args
                return "call", self.part(op), tuple(map(self.part, args)), attrs_key(attrs), types
            case ir.Tuple(fields=fields):
                return "tuple", tuple(map(self.part, fields))
            case ir.TupleGetItem(tuple_value=value, index=index):
                return "projection", self.part(value), index
            case _:
                return None

    def part(self, expr: ir.Expr) -> Hashable:
        """Return a part of a key, equal for equal parts."""
        match self.number(expr):
            case ir.GlobalVar(name=name):
                return "global", name
            case ir.OpRef(name=name):
                return "operator", name
            case ir.Constructor(name=name, belong_to=data_type):
                return "constructor", data_type.name, name
            case node:
                return node


def attrs_key(attrs: ir.Attrs) -> Hashable:
    """Return a key that is equal for equal attributes.

    1, True, 1.0 and 64-bit 1 differ, 0.0 and -0.0 too; NaN equals itself.
    """
    return tuple((name, _value_key(value)) for name, value in sorted(attrs.items()))


def _value_key(value: object) -> Hashable:
    match value:
        case tuple() | list():
            return tuple(map(_value_key, value))
        case ir.Constant(data=data):
            return "constant", data.dtype.name, data.shape, data.tobytes()
        case float():
            return "float", value.hex()
        case Hashable():
            return type(value), value
        case _:
            raise TypeError(f"not an attribute's value: {value!r}")
