"""Differentiate functions of modules: their checks, forward mode, and what comes out as a module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnmagic.diagnostics import Diagnostic, RelayError
from nnmagic.relay.expr import Constant, Expr, Function, GlobalVar, Tuple, TupleGetItem, Var, constant
from nnmagic.relay.gradients.blocks import forward_block, type_of
from nnmagic.relay.gradients.complex_numbers import from_pairs, inexact_leaves, on_pairs, to_pairs
from nnmagic.relay.gradients.data_types import DataTypes
from nnmagic.relay.gradients.registry import declared_operators
from nnmagic.relay.gradients.transformation import prepare, pullback, with_types
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module, TypeData
from nnmagic.relay.structure.traverse import post_order, rewrite
from nnmagic.relay.structure.tuple_trees import leaf_types, nest, project, tree_of
from nnmagic.relay.types import NUMPY_DTYPES, TensorType, TupleType, is_float


@dataclass(frozen=True, slots=True)
class Differentiated:
    """A body over parameters, functions that it calls, data types, and the parameters that it leaves out."""

    params: tuple[Var, ...]
    body: Expr
    helpers: dict[str, Function]
    types: Mapping[str, TypeData]
    unused: tuple[int, ...] = ()


def value_and_gradient(module: Module, name: str, argnums: int | Sequence[int]) -> Module:
    """Replace a function by one that gives ``(value, gradient)``; see ``passes.gradient``."""
    if name not in module.functions:
        raise KeyError(f"the module has no function @{name}")
    module = infer_type(module, look_into_callees=True)
    function = module.functions[name]
    numbers = _numbers(module, name, argnums)
    seeds = scalar_seeds(function, name)
    inner = name
    taken = set(module.functions)
    pulled = pullback(module, name, numbers, taken, seeds=seeds)
    helpers = dict(pulled.helpers)
    # The public name becomes the gradient's; the function that it was keeps living under another
    # one.
    if name in helpers:  # it calls itself
        inner = f"{name}_forward"
        while inner in taken or inner in helpers:
            inner += "_"
        helpers = {
            (inner if key == name else key): _rename(helper, name, inner) for key, helper in helpers.items()
        }
    gradients = pulled.cotangents[0] if isinstance(argnums, int) else Tuple(pulled.cotangents)
    body = _renamed_expr(Tuple((pulled.value, gradients), span=function.span), name, inner)
    result = Function(pulled.params, body, span=function.span)
    others = {key: function_ for key, function_ in module.functions.items() if key != name}
    functions = {**others, **helpers, name: result}
    return with_types(Module(functions, {**module.types, **pulled.data_types.types}))


def reverse(
    module: Module, name: str, argnums: Sequence[int], taken: set[str], *, seeded: bool
) -> Differentiated:
    """Return ``(value, (gradients, ...))``; ``seeded``: the last parameters are the result's cotangents."""
    function, real = module.functions[name], on_pairs(module, name, taken)
    seeds = None if seeded else scalar_seeds(real.functions[name], name)
    pulled = pullback(real, name, argnums, {*taken, *real.functions}, seeds=seeds)
    body = Tuple((pulled.value, Tuple(pulled.cotangents, span=function.span)), span=function.span)
    differentiated = Differentiated(
        pulled.params, body, pulled.helpers, pulled.data_types.types, pulled.unused
    )
    return differentiated if real is module else _of_complex(differentiated, function, argnums, reverse=True)


def forward_mode(module: Module, name: str, argnums: Sequence[int], taken: set[str]) -> Differentiated:
    """Return ``(value, tangent)``; the last parameters are the tangents of the leaves of ``argnums``."""
    real = on_pairs(module, name, taken)
    differentiated = _forward_mode(real, name, argnums, {*taken, *real.functions})
    return (
        differentiated
        if real is module
        else _of_complex(differentiated, module.functions[name], argnums, reverse=False)
    )


def _of_complex(
    differentiated: Differentiated, function: Function, argnums: Sequence[int], *, reverse: bool
) -> Differentiated:
    """Return a derivative over pairs of floats as one of complex numbers."""
    param_types = [type_of(param) for param in function.params]
    types = [leaf for index in argnums for leaf in inexact_leaves(param_types[index])]
    if reverse:
        types = inexact_leaves(function.result_type)
    env, params = dict[Expr, Expr](), list[Var]()
    for number, (old, type_) in enumerate(zip(differentiated.params, [*param_types, *types], strict=False)):
        params.append(Var(old.name_hint, type_, span=old.span))
        # The conjugate, df/dx - i df/dy, is what JAX calls the gradient of a real function.
        env[old] = to_pairs(params[-1], type_, conjugate=reverse and number >= len(param_types))
    body = rewrite(differentiated.body, lambda _old, new: new, env)
    result = TupleType(tuple(param_types[index] for index in argnums)) if reverse else function.result_type
    value, derivative = (TupleGetItem(body, index, span=function.span) for index in range(2))
    parts = (from_pairs(value, function.result_type), from_pairs(derivative, result, conjugate=reverse))
    return Differentiated(
        tuple(params),
        Tuple(parts, span=function.span),
        differentiated.helpers,
        differentiated.types,
        differentiated.unused,
    )


def _forward_mode(module: Module, name: str, argnums: Sequence[int], taken: set[str]) -> Differentiated:
    """Differentiate in forward mode.

    The backward pass is linear in its cotangents: its own backward pass by these is the forward mode.
    """
    function = module.functions[name]
    first = pullback(module, name, argnums, taken, seeds=None)
    linear = Function(first.params, Tuple((first.value, Tuple(first.cotangents))), span=function.span)
    inner = with_types(Module({**first.helpers, "": linear}, first.data_types.types))
    count = len(function.params)
    cotangents = list(range(count, len(first.params)))
    flows = first.data_types.flows
    types = [leaf for index in argnums for leaf in leaf_types(type_of(function.params[index])) if flows(leaf)]
    tangents = [Var(f"t{index}" if len(types) > 1 else "t", leaf) for index, leaf in enumerate(types)]
    skipped = [None] * (len(first.params) - count)
    # The double-backward trick (Townsend, A new trick for calculating Jacobian vector products,
    # 2017): the pullback is linear, and the transpose of a transpose is the forward derivative. So
    # operators need no second rule.
    second = pullback(inner, "", cotangents, {*taken, *first.helpers}, seeds=[*skipped, *tangents])
    value: Expr = TupleGetItem(second.value, 0)
    if isinstance(second.value, Tuple):
        value = second.value.fields[0]
    # The value must not depend on the cotangents that are about to be replaced: it is computed from
    # the program itself then.
    if not set(second.params[count:]).isdisjoint(post_order(value)):  # a branch that gives both
        plain = prepare(module, name, taken, declared_operators()).functions[name]
        env: dict[Expr, Expr] = dict(zip(plain.params, second.params[:count], strict=True))
        value = forward_block(plain.body, env)
    data_types = second.data_types
    leaves = list(zip(project(value, function.result_type), leaf_types(function.result_type), strict=True))
    primals = (data_types.full(leaf_value, leaf) for leaf_value, leaf in leaves if flows(leaf))
    zeros: dict[Expr, Expr] = dict(zip(second.params[count:], primals, strict=True))
    given = iter(second.cotangents)
    tangent = [
        next(given) if flows(leaf) else data_types.full(leaf_value, leaf) for leaf_value, leaf in leaves
    ]
    tree = nest(tree_of(iter(tangent), function.result_type))
    body = rewrite(Tuple((value, tree), span=function.span), lambda _old, new: new, zeros)
    helpers = {**first.helpers, **second.helpers, **data_types.functions}
    return Differentiated((*second.params[:count], *tangents), body, helpers, data_types.types)


def scalar_seeds(function: Function, name: str) -> list[Constant | None]:
    """Return the cotangents of a result whose first part is differentiated. Raises RelayError."""
    type_ = function.ret_type
    assert type_ is not None
    first = type_.fields[0] if isinstance(type_, TupleType) and type_.fields else type_
    if not (isinstance(first, TensorType) and first.shape == () and is_float(first.dtype)):
        message = f"@{name} gives {type_}: only a float of rank 0 has a gradient"
        raise RelayError([Diagnostic(message, function.span, "sum it, or take its mean")])
    others = 0 if first is type_ else len(leaf_types(type_)) - 1
    return [constant(np.asarray(1, NUMPY_DTYPES[first.dtype]), first.dtype), *([None] * others)]


def _numbers(module: Module, name: str, argnums: int | Sequence[int]) -> list[int]:
    """Return the numbers of the parameters to differentiate by. Raises RelayError."""
    function, data_types = module.functions[name], DataTypes(module.types, str)
    count, numbers = len(function.params), list[int]()
    for number in [argnums] if isinstance(argnums, int) else argnums:
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"argnums must be an int or several, not {number!r}")
        if not -count <= number < count:
            plural = "" if count == 1 else "s"
            message = f"@{name} has {count} parameter{plural}, and none of the number {number}"
            raise RelayError([Diagnostic(message, function.span, "parameters are counted from 0")])
        param = function.params[number % count]
        type_ = type_of(param)
        if not any(map(data_types.flows, leaf_types(type_))):
            message = f"%{param.name_hint} is of {type_}: only floats have a gradient"
            hint = "leave its number out of argnums, or make it a float"
            raise RelayError([Diagnostic(message, param.span, hint)])
        numbers.append(number % count)
    return numbers


def _rename(function: Function, old: str, new: str) -> Function:
    renamed = _renamed_expr(function, old, new)
    assert isinstance(renamed, Function)
    return renamed


def _renamed_expr(expr: Expr, old: str, new: str) -> Expr:
    if old == new:
        return expr
    return rewrite(
        expr,
        lambda _old, node: (
            replace(node, name=new) if isinstance(node, GlobalVar) and node.name == old else node
        ),
    )
