"""Find the first-order functions of a module.

These take and return tensors and tuples, and hold only branches and calls of operators and of first-order
functions, none of Python. TVM runs them without help; other functions need the interpreter.
"""

from __future__ import annotations

from nnmagic.relay import expr as ir
from nnmagic.relay.callbacks import is_callback
from nnmagic.relay.module import Module
from nnmagic.relay.structure.callgraph import CallGraph, components, recursive_functions
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.types import TensorType, TupleType, Type


def is_first_order(type_: Type | None) -> bool:
    """Return whether the values of a type are tensors, or tuples of them."""
    if isinstance(type_, TupleType):
        return all(map(is_first_order, type_.fields))
    return isinstance(type_, TensorType)


def first_order_functions(module: Module, graph: CallGraph) -> frozenset[str]:
    """Return the names of the first-order functions of a module, whose call graph is ``graph``.

    Linear in the size of the module.
    """
    recursive = recursive_functions(graph)
    first_order: set[str] = set()
    for group in components(graph):  # callees first
        assumed = first_order.union(group)
        functions = {name: module.functions[name] for name in group}
        if all(_is_first_order_function(f, assumed, name in recursive) for name, f in functions.items()):
            first_order.update(group)
    return frozenset(first_order)


def _is_first_order_function(function: ir.Function, assumed: set[str], recursive: bool) -> bool:
    """Return whether a function is first-order if the functions of the names ``assumed`` are."""
    if recursive or not function.type_params:  # generic functions are inlined where they are called
        types = [var.checked_type or var.type_annotation for var in function.params]
        if function.type_params or not all(map(is_first_order, [*types, function.ret_type])):
            return False
    return all(_is_first_order_node(node, assumed) for node in post_order(function.body))


def _is_first_order_node(node: ir.Expr, assumed: set[str]) -> bool:
    match node:
        case ir.Call(op=ir.OpRef()):
            if is_callback(node):
                return False
        case ir.Call(op=ir.GlobalVar(name=name)):
            if name not in assumed:
                return False
        case (
            ir.Var()
            | ir.Constant()
            | ir.Tuple()
            | ir.TupleGetItem()
            | ir.Let()
            | ir.If()
            | ir.OpRef()
            | ir.GlobalVar()
        ):
            pass
        case _:
            return False
    values = node.args if isinstance(node, ir.Call) else ir.children(node)
    return not any(isinstance(value, ir.GlobalVar) for value in values)
