"""Lower complex tensors to tensors of pairs of floats.

A complex tensor of shape s becomes a tensor of floats of shape (*s, 2), the real part before the imaginary
part, as NumPy holds it in memory. Between operators both parts are tensors of their own (``complex.make``),
which become pairs where a function, a tuple, a branch or a loop takes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import is_
from typing import cast

from nnmagic.relay import expr as ir
from nnmagic.relay import types as ty
from nnmagic.relay.complex_numbers import elementwise, products, structure
from nnmagic.relay.complex_numbers.pairs import pairs_of
from nnmagic.relay.complex_numbers.site import ComplexCall, Forms, Rule, holds_complex, holds_numbers, is_data
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module, TypeData
from nnmagic.relay.structure.traverse import post_order, with_parts

#: How each operator that takes or gives complex tensors is lowered.
RULES: dict[str, Rule] = {**elementwise.RULES, **structure.RULES, **products.RULES}


def uses_complex(module: Module) -> bool:
    """Return whether a module with types has complex tensors."""
    functions = module.functions.values()
    if any(mentions_complex(node.checked_type) for root in functions for node in post_order(root)):
        return True
    constructors = (constructor for data in module.types.values() for constructor in data.constructors)
    return any(
        mentions_complex(input_type) for constructor in constructors for input_type in constructor.inputs
    )


def lower_complex(module: Module) -> Module:
    """Return a module with types without complex tensors, typed anew; itself if it has none."""
    if not uses_complex(module):
        return module
    functions = {name: _lower_function(function) for name, function in module.functions.items()}
    types = {name: _lower_data(data) for name, data in module.types.items()}
    return infer_type(Module(functions, types), look_into_callees=True)


def mentions_complex(type_: ty.Type | None) -> bool:
    """Return whether a type has complex tensors."""
    return type_ is not None and ty.lower_complex_type(type_) != type_


def _lower_data(data: TypeData) -> TypeData:
    constructors = tuple(map(_lower_constructor, data.constructors))
    return data if constructors == data.constructors else replace(data, constructors=constructors)


def _lower_constructor(constructor: ir.Constructor) -> ir.Constructor:
    inputs = tuple(map(ty.lower_complex_type, constructor.inputs))
    return constructor if inputs == constructor.inputs else replace(constructor, inputs=inputs)


def _lower_function(function: ir.Function) -> ir.Function:
    """Lower a function; walks the graph from its leaves up, so that what is shared stays shared."""
    forms, lowered = Forms(_has_tuples(function)), dict[ir.Expr, ir.Expr]()
    params = tuple(_lower_leaf(param, ty.lower_complex_type) for param in function.params)
    for param, new_param in zip(function.params, params, strict=True):
        lowered[param] = forms.given(new_param, param.checked_type)

    def new(node: ir.Expr) -> ir.Expr:
        lowered_node = lowered.get(node)
        if lowered_node is None:  # a binder that is used nowhere
            lowered_node = forms.number(_lower_leaf(node, forms.lower_type), node.checked_type)
            lowered[node] = lowered_node
        return lowered_node

    for node in post_order(function.body):
        if node not in lowered:
            lowered[node] = _lower_node(node, new, forms, lowered)
    body, type_ = lowered[function.body], function.body.checked_type
    if forms.tuples and holds_numbers(type_):
        result = ir.Var("result")
        body = ir.Let(result, forms.held(body), forms.taken(forms.number(result, type_), type_))
    body = forms.pairs(body)
    if body is function.body and all(map(is_, params, function.params)):
        return function
    result_type = function.ret_type and ty.lower_complex_type(function.ret_type)
    return replace(function, params=cast("tuple[ir.Var, ...]", params), body=body, ret_type=result_type)


def _has_tuples(function: ir.Function) -> bool:
    """Return whether numbers in a function are tuples of floats, which its loops hold in registers.

    Data types and references hold pairs in memory, as do other functions, to which no function that takes
    tuples is passed. Calls that may be the last thing that a function does stay so.
    """
    nodes = list(post_order(function.body))
    of_globals = [node for node in nodes if isinstance(node, ir.Call) and isinstance(node.op, ir.GlobalVar)]
    called = {call.op for call in of_globals}
    held = ir.Constructor | ir.Match | ir.RefCreate | ir.RefRead | ir.RefWrite
    if any(
        isinstance(each, held) or (isinstance(each, ir.GlobalVar) and each not in called) for each in nodes
    ):
        return False
    passed = [arg.checked_type for call in of_globals for arg in call.args]
    passed += [
        *(param.checked_type for param in function.params),
        *(call.checked_type for call in of_globals),
    ]
    if any(holds_numbers(type_) and not is_data(type_) for type_ in passed):
        return False
    return not holds_numbers(function.ret_type) or not any(
        holds_numbers(call.checked_type) for call in of_globals
    )


def _lower_node(
    node: ir.Expr, new: Callable[[ir.Expr], ir.Expr], forms: Forms, lowered: dict[ir.Expr, ir.Expr]
) -> ir.Expr:
    match node:
        case ir.Call(op=ir.OpRef(name=name)):
            if holds_complex(node.checked_type) or any(holds_complex(arg.checked_type) for arg in node.args):
                site = ComplexCall(node, tuple(map(new, node.args)), forms, lowered)
                return forms.given(RULES[name](site), node.checked_type)
            return with_parts(node, new)
        case ir.Call(op=ir.GlobalVar(), args=args):
            args = tuple(forms.taken(new(arg), arg.checked_type) for arg in args)
            called = replace(node, args=args, type_args=tuple(map(ty.lower_complex_type, node.type_args)))
            return forms.given(called, node.checked_type)
        case ir.Constant():
            return forms.given(_lower_leaf(node, forms.lower_type), node.checked_type)
    held = with_parts(node, lambda part: forms.held(new(part)))
    match held:
        case ir.Function(ret_type=result) if result is not None:
            return replace(held, ret_type=forms.lower_type(result))
        case ir.Call(type_args=type_args) if type_args:
            held = replace(held, type_args=tuple(map(forms.lower_type, type_args)))
    return forms.number(_lower_leaf(held, forms.lower_type), node.checked_type)


def _lower_leaf(node: ir.Expr, lower_type: Callable[[ty.Type], ty.Type]) -> ir.Expr:
    match node:
        case ir.Var(type_annotation=type_) if mentions_complex(type_ or node.checked_type):
            annotation = None if type_ is None else lower_type(type_)
            return replace(node, type_annotation=annotation, checked_type=None)
        case ir.Constant(data=data) if data.dtype.kind == "c":
            return ir.Constant(pairs_of(data), span=node.span)
        case ir.Constructor():
            return _lower_constructor(node)
    return node
