"""Lower complex tensors to tensors of pairs of floats.

A complex tensor of shape s becomes a tensor of floats of shape (*s, 2), the real part before the imaginary
part, as NumPy holds it in memory. Between operators both parts are tensors of their own (``complex.make``),
which become pairs where a function, a tuple, a branch or a loop takes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from nnmagic.relay import expr as ir
from nnmagic.relay import types as ty
from nnmagic.relay.complex_numbers import elementwise, linear_algebra, products, structure
from nnmagic.relay.complex_numbers.site import ComplexCall, Forms, Rule, holds_complex
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module, TypeData
from nnmagic.relay.structure.traverse import post_order, with_parts

#: How each operator that takes or gives complex tensors is lowered.
RULES: dict[str, Rule] = {**elementwise.RULES, **structure.RULES, **products.RULES, **linear_algebra.RULES}


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
    forms, lowered = Forms(), dict[ir.Expr, ir.Expr]()

    def new(node: ir.Expr) -> ir.Expr:
        lowered_node = lowered.get(node)
        if lowered_node is None:  # a binder that is used nowhere
            lowered_node = lowered[node] = _lower_leaf(node)
        return lowered_node

    for node in post_order(function):
        if node not in lowered:
            lowered[node] = _lower_node(node, new, forms, lowered)
    result = lowered[function]
    assert isinstance(result, ir.Function)
    return result


def _lower_node(
    node: ir.Expr, new: Callable[[ir.Expr], ir.Expr], forms: Forms, lowered: dict[ir.Expr, ir.Expr]
) -> ir.Expr:
    if isinstance(node, ir.Call) and isinstance(node.op, ir.OpRef):
        if holds_complex(node.checked_type) or any(holds_complex(arg.checked_type) for arg in node.args):
            site = ComplexCall(node, tuple(map(new, node.args)), forms, lowered)
            return RULES[node.op.name](site)
        return with_parts(node, new)
    tuple_ = with_parts(node, lambda part: forms.pairs(new(part)))
    match tuple_:
        case ir.Function(ret_type=result) if result is not None:
            return replace(tuple_, ret_type=ty.lower_complex_type(result))
        case ir.Call(type_args=type_args) if type_args:
            return replace(tuple_, type_args=tuple(map(ty.lower_complex_type, type_args)))
    return _lower_leaf(tuple_)


def _lower_leaf(node: ir.Expr) -> ir.Expr:
    match node:
        case ir.Var(type_annotation=type_) if mentions_complex(type_ or node.checked_type):
            annotation = None if type_ is None else ty.lower_complex_type(type_)
            return replace(node, type_annotation=annotation, checked_type=None)
        case ir.Constant(data=data) if data.dtype.kind == "c":
            return ir.Constant(pairs_of(data), span=node.span)
        case ir.Constructor():
            return _lower_constructor(node)
    return node


def pairs_of(array: np.ndarray) -> np.ndarray:
    """Return a complex array as pairs of floats in the same memory."""
    dtype = array.dtype
    part = _PARTS[dtype] if dtype.isnative else _PARTS[dtype.newbyteorder("=")].newbyteorder(dtype.byteorder)
    return array[..., None].view(part)


_PARTS = {dtype: ty.NUMPY_DTYPES[ty.part_dtype(name)] for name, dtype in ty.COMPLEX_DTYPES.items()}

_WHOLES = {part: dtype for dtype, part in _PARTS.items()}


def complex_of(array: np.ndarray) -> np.ndarray:
    """Return an array of pairs of floats as a complex array, in the same memory if its pairs lie there."""
    if array.strides[-1] != array.itemsize:
        array = np.ascontiguousarray(array)
    whole: np.ndarray = array.view(_WHOLES[array.dtype.newbyteorder("=")])
    return whole[..., 0]
