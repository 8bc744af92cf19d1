"""Which functions are plain: tensors and tuples in and out, and only branches and known calls inside.

TVM's machine runs plain functions by itself; the others need the evaluator. Knows the IR only.
"""

from __future__ import annotations

from nnmagic.relay.callgraph import call_graph, components, recursive_functions
from nnmagic.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    OpRef,
    Tuple,
    TupleGetItem,
    Var,
    children,
)
from nnmagic.relay.module import Module
from nnmagic.relay.traverse import post_order
from nnmagic.relay.types import TensorType, TupleType, Type


def is_first_order(type_: Type | None) -> bool:
    """Whether the type's values are tensors, or tuples of them."""
    if isinstance(type_, TupleType):
        return all(map(is_first_order, type_.fields))
    return isinstance(type_, TensorType)


def first_order_functions(module: Module) -> frozenset[str]:
    """The names of the plain functions. Linear in the size of the module."""
    graph = call_graph(module)
    recursive = recursive_functions(graph)
    plain: set[str] = set()
    for group in components(graph):  # callees first
        known = plain.union(group)
        if all(_is_first_order(module.functions[name], known, name in recursive) for name in group):
            plain.update(group)
    return frozenset(plain)


def _is_first_order(function: Function, known: set[str], recursive: bool) -> bool:
    """Whether a function is plain if those of the names ``known`` are."""
    if recursive or not function.type_params:  # generic functions are inlined where they are called
        types = [var.checked_type or var.type_annotation for var in function.params]
        if function.type_params or not all(map(is_first_order, [*types, function.ret_type])):
            return False
    return all(_fits(node, known) for node in post_order(function.body))


def _fits(node: Expr, known: set[str]) -> bool:
    match node:
        case Call(op=OpRef()):
            pass
        case Call(op=GlobalVar(name=name)):
            if name not in known:
                return False
        case Var() | Constant() | Tuple() | TupleGetItem() | Let() | If() | OpRef() | GlobalVar():
            pass
        case _:
            return False
    values = node.args if isinstance(node, Call) else children(node)
    return not any(isinstance(part, GlobalVar) for part in values)
