"""Move what does not change from round to round out of loops.

A loop is a function that calls itself. A parameter that it hands on unchanged has one value in all rounds,
and so has what is computed from such parameters alone. The caller computes that once, and passes it as a
further argument.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from nnmagic.relay.callgraph import call_graph, components
from nnmagic.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    Let,
    OpRef,
    Tuple,
    TupleGetItem,
    Var,
    children,
)
from nnmagic.relay.module import Module
from nnmagic.relay.passes.rewriting import keeps_types, substitute
from nnmagic.relay.passes.scopes import is_opaque
from nnmagic.relay.traverse import post_order, rewrite
from nnmagic.relay.types import TensorType, TupleType, Type

#: Operators that may raise (those that check an index), and those that are random.
_MAY_FAIL = re.compile(r"take|gather|scatter|adv_index|unravel|invert_perm|embedding|random|dyn\.")

#: Operators that move or repeat elements: kernels read through them, so that they cost nothing to repeat.
_MOVES = {
    *(
        "broadcast_to",
        "broadcast_to_like",
        "expand_dims",
        "repeat",
        "reshape",
        "squeeze",
        "tile",
        "transpose",
    ),
    *("arange", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like", "nn.batch_flatten"),
    *("cast", "copy", "flip", "reverse", "split", "strided_slice"),
}

#: Operators that are worth computing once whatever the size of the result.
_HEAVY = re.compile(r"matmul|dense|conv|pool|sort|topk")


@keeps_types
def hoist_loop_invariants(module: Module, entry: str) -> Module:
    """Compute before each loop what its rounds share, where that cannot fail.

    A loop is a global function that calls itself; ``entry`` is none, as it is called from outside.
    Tensors whose shapes are known at compile time are looked at alone. The module must be typed.
    """
    functions = dict(module.functions)
    for group in components(call_graph(module)):  # callees first: inner loops before those around them
        name = group[0]
        if len(group) > 1 or name == entry or is_opaque(functions[name]):
            continue
        callers = [function for caller, function in functions.items() if caller != name]
        if not _is_loop(functions[name], name) or any(_is_passed_on(function, name) for function in callers):
            continue
        loop = _inline_invariant_lets(functions[name], name)
        parts = _parts_to_hoist(loop, name)
        if not parts:
            continue
        functions = {
            caller: function if is_opaque(function) else _pass_parts(function, name, loop, parts)
            for caller, function in functions.items()
            if caller != name
        } | {name: _take_parts(loop, name, parts)}
    return replace(module, functions={name: functions[name] for name in module.functions})


def _calls_to(function: Function, name: str) -> list[Call]:
    return [node for node in post_order(function.body) if isinstance(node, Call) and _is_call(node, name)]


def _is_call(node: Expr, name: str) -> bool:
    return isinstance(node, Call) and isinstance(node.op, GlobalVar) and node.op.name == name


def _is_passed_on(function: Function, name: str) -> bool:
    """Return whether a function uses the function of a name as a value."""
    return any(
        isinstance(part, GlobalVar) and part.name == name and not (isinstance(node, Call) and node.op is part)
        for node in post_order(function.body)
        for part in (node.args if isinstance(node, Call) else children(node))
    )


def _is_loop(function: Function, name: str) -> bool:
    """Return whether a function calls itself, and is used in no other way inside."""
    return bool(_calls_to(function, name)) and not function.type_params and not _is_passed_on(function, name)


@dataclass(slots=True)
class _Invariants:
    """The expressions of a loop that have one value in all rounds.

    working: those that compute anything. sizes: of each, the number of elements of the largest tensor that it
    is computed from.
    """

    working: set[Expr] = field(default_factory=set)
    sizes: dict[Expr, int] = field(default_factory=dict)

    def add(self, node: Expr, parts: Sequence[Expr], *, works: bool) -> None:
        """Add a node that is made of ``parts``, if they have one value and its shape is known."""
        size = _elements(node)
        if size is not None and all(part in self.sizes for part in parts):
            self.sizes[node] = max((self.sizes[part] for part in parts), default=size)
            if works or any(part in self.working for part in parts):
                self.working.add(node)


def _invariants_of(function: Function, name: str) -> _Invariants:
    invariants, calls = _Invariants(), _calls_to(function, name)
    for index, param in enumerate(function.params):
        if all(call.args[index] is param for call in calls):
            invariants.add(param, (), works=False)
    nodes = list(post_order(function.body))
    values = {node.var: node.value for node in nodes if isinstance(node, Let)}
    for node in nodes:
        match node:
            case Var() if node in values:
                invariants.add(node, (values[node],), works=False)
            case Constant() | Tuple() | TupleGetItem():
                invariants.add(node, children(node), works=False)
            case Call(op=OpRef(name=operator), args=args) if not _MAY_FAIL.search(operator):
                invariants.add(node, args, works=operator not in _MOVES)
    return invariants


def _inline_invariant_lets(function: Function, name: str) -> Function:
    """Return a loop without the lets of what has one value in all rounds."""
    sizes = _invariants_of(function, name).sizes
    replaced: dict[Expr, Expr] = {}
    for node in post_order(function.body):
        if isinstance(node, Let) and node.value in sizes:
            replaced |= {node: node.body, node.var: node.value}
    inlined = substitute(function, replaced)
    assert isinstance(inlined, Function)
    return inlined


def _parts_to_hoist(function: Function, name: str) -> list[Expr]:
    """Return the largest parts that are worth an argument."""
    invariants = _invariants_of(function, name)
    nodes = list(post_order(function.body))
    work = [part for node in nodes if node not in invariants.sizes for part in children(node)]
    parts: set[Expr] = set()
    seen: set[Expr] = set()
    while work:
        node = work.pop()
        if node not in seen and node in invariants.working:
            seen.add(node)
            if _is_worth(node, invariants.sizes[node]):
                parts.add(node)
            else:
                work.extend(children(node))
    return [node for node in nodes if node in parts]


def _is_worth(node: Expr, size: int) -> bool:
    """Return whether an expression is computed once; ``size``: of the largest tensor that it is made of.

    A tensor that is larger than that is repeated, which costs a kernel less than reading it.
    """
    if not isinstance(node, Call) or not isinstance(node.op, OpRef) or node.op.name in _MOVES:
        return False
    elements = _elements(node)
    return bool(_HEAVY.search(node.op.name)) or (size > 1 and elements is not None and elements <= size)


def _elements(node: Expr) -> int | None:
    """Return the number of elements of a tensor, or of the largest of a tuple; None if that is not known."""
    type_ = node.checked_type or (node.type_annotation if isinstance(node, Var) else None)
    return _size_of(type_)


def _size_of(type_: Type | None) -> int | None:
    match type_:
        case TensorType(shape=shape):
            dims = [dim for dim in shape if isinstance(dim, int)]
            return math.prod(dims) if len(dims) == len(shape) else None
        case TupleType(fields=fields):
            sizes = [_size_of(part) for part in fields]
            known = [size for size in sizes if size is not None]
            return max(known, default=0) if len(known) == len(sizes) else None
    return None


def _take_parts(function: Function, name: str, parts: Sequence[Expr]) -> Function:
    """Return the loop that takes the parts as its last parameters, and hands them on."""
    params = [
        Var(
            f"v{len(function.params) + index}",
            part.checked_type,
            span=part.span,
            checked_type=part.checked_type,
        )
        for index, part in enumerate(parts)
    ]

    def transform(_old: Expr, new: Expr) -> Expr:
        if isinstance(new, Call) and _is_call(new, name):
            return replace(new, args=(*new.args, *params), checked_type=None)
        return new

    body = rewrite(function.body, transform, dict(zip(parts, params, strict=True)))
    return replace(function, params=(*function.params, *params), body=body, checked_type=None)


def _pass_parts(caller: Function, name: str, loop: Function, parts: Sequence[Expr]) -> Function:
    """Return a function that computes the parts wherever it calls the loop."""

    def transform(_old: Expr, new: Expr) -> Expr:
        if not isinstance(new, Call) or not _is_call(new, name):
            return new
        values: dict[Expr, Expr] = dict(zip(loop.params, new.args, strict=True))
        more = [rewrite(part, lambda _before, after: after, values) for part in parts]
        return replace(new, args=(*new.args, *more), checked_type=None)

    changed = rewrite(caller, transform)
    assert isinstance(changed, Function)
    return changed
