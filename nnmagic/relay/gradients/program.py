"""Differentiate functions of modules: their checks, forward mode, and what comes out as a module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnmagic.diagnostics import Diagnostic, RelayError, Span
from nnmagic.relay.expr import Constant, Expr, Function, GlobalVar, Tuple, TupleGetItem, Var, constant
from nnmagic.relay.gradients.activity import type_of
from nnmagic.relay.gradients.blocks import forward_block
from nnmagic.relay.gradients.complex_numbers import from_pairs, inexact_leaves, on_pairs, to_pairs
from nnmagic.relay.gradients.cotangents import zeros_like
from nnmagic.relay.gradients.registry import declared_operators
from nnmagic.relay.gradients.transformation import prepare, pullback, with_types
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.structure.traverse import post_order, rewrite
from nnmagic.relay.structure.tuple_trees import float_leaves, leaf_types, leaves, project
from nnmagic.relay.types import NUMPY_DTYPES, TensorType, TupleType, Type, is_float


@dataclass(frozen=True, slots=True)
class Differentiated:
    """A body over the parameters, the functions that it calls, and the parameters that it does not use."""

    params: tuple[Var, ...]
    body: Expr
    helpers: dict[str, Function]
    unused: tuple[int, ...] = ()


def value_and_gradient(module: Module, name: str, argnums: int | Sequence[int]) -> Module:
    """Replace a function by one that gives ``(value, gradient)``; see ``passes.gradient``."""
    if name not in module.functions:
        raise KeyError(f"the module has no function @{name}")
    module = infer_type(module, look_into_callees=True)
    function = module.functions[name]
    numbers = _numbers(function, name, argnums)
    seeds = scalar_seeds(function, name)
    inner = name
    taken = set(module.functions)
    pulled = pullback(module, name, numbers, taken, seeds=seeds)
    helpers = dict(pulled.helpers)
    if name in helpers:  # it calls itself
        inner = f"{name}_forward"
        while inner in taken or inner in helpers:
            inner += "_"
        helpers = {
            (inner if each == name else each): _rename(helper, name, inner)
            for each, helper in helpers.items()
        }
    gradients = pulled.cotangents[0] if isinstance(argnums, int) else Tuple(pulled.cotangents)
    body = _renamed_expr(Tuple((pulled.value, gradients), span=function.span), name, inner)
    result = Function(pulled.params, body, span=function.span)
    others = {each: own for each, own in module.functions.items() if each != name}
    return with_types(replace(module, functions={**others, **helpers, name: result}, printed_types={}))


def reverse(
    module: Module, name: str, argnums: Sequence[int], taken: set[str], *, seeded: bool
) -> Differentiated:
    """Return ``(value, (gradients, ...))``; ``seeded``: the last parameters are the result's cotangents."""
    function, real = module.functions[name], on_pairs(module, name, taken)
    seeds = None if seeded else scalar_seeds(real.functions[name], name)
    pulled = pullback(real, name, argnums, {*taken, *real.functions}, seeds=seeds)
    body = Tuple((pulled.value, Tuple(pulled.cotangents, span=function.span)), span=function.span)
    made = Differentiated(pulled.params, body, pulled.helpers, pulled.unused)
    return made if real is module else _of_complex(made, function, argnums, reverse=True)


def forward_mode(module: Module, name: str, argnums: Sequence[int], taken: set[str]) -> Differentiated:
    """Return ``(value, tangent)``; the last parameters are the tangents of the leaves of ``argnums``."""
    real = on_pairs(module, name, taken)
    made = _forward_mode(real, name, argnums, {*taken, *real.functions})
    return made if real is module else _of_complex(made, module.functions[name], argnums, reverse=False)


def _of_complex(
    made: Differentiated, function: Function, argnums: Sequence[int], *, reverse: bool
) -> Differentiated:
    """Return a derivative over pairs of floats as one of complex numbers."""
    assert function.ret_type is not None
    own = [type_of(param) for param in function.params]
    types = [leaf for index in argnums for leaf in inexact_leaves(own[index])]
    if reverse:
        types = inexact_leaves(function.ret_type)
    env, params = dict[Expr, Expr](), list[Var]()
    for number, (old, type_) in enumerate(zip(made.params, [*own, *types], strict=False)):
        params.append(Var(old.name_hint, type_, span=old.span))
        env[old] = to_pairs(params[-1], type_, conjugate=reverse and number >= len(own))
    body = rewrite(made.body, lambda _old, new: new, env)
    result = TupleType(tuple(own[index] for index in argnums)) if reverse else function.ret_type
    value, derivative = (TupleGetItem(body, index, span=function.span) for index in range(2))
    parts = (from_pairs(value, function.ret_type), from_pairs(derivative, result, conjugate=reverse))
    return Differentiated(tuple(params), Tuple(parts, span=function.span), made.helpers, made.unused)


def _forward_mode(module: Module, name: str, argnums: Sequence[int], taken: set[str]) -> Differentiated:
    """Differentiate in forward mode.

    The backward pass is linear in its cotangents: its own backward pass by these is the forward mode.
    """
    function = module.functions[name]
    first = pullback(module, name, argnums, taken, seeds=None)
    linear = Function(first.params, Tuple((first.value, Tuple(first.cotangents))), span=function.span)
    inner = with_types(Module({**first.helpers, "": linear}, module.types))
    count = len(function.params)
    cotangents = list(range(count, len(first.params)))
    types = [leaf for index in argnums for leaf in _float_types(type_of(function.params[index]))]
    tangents = [Var(f"t{index}" if len(types) > 1 else "t", leaf) for index, leaf in enumerate(types)]
    assert function.ret_type is not None
    skipped = [None] * len(_float_types(function.ret_type))
    second = pullback(inner, "", cotangents, {*taken, *first.helpers}, seeds=[*skipped, *tangents])
    value: Expr = TupleGetItem(second.value, 0)
    if isinstance(second.value, Tuple):
        value = second.value.fields[0]
    if not set(second.params[count:]).isdisjoint(post_order(value)):  # a branch that gives both
        plain = prepare(module, name, taken, declared_operators()).functions[name]
        env: dict[Expr, Expr] = dict(zip(plain.params, second.params[:count], strict=True))
        value = forward_block(plain.body, env)
    zeros: dict[Expr, Expr] = {
        param: _zeros(value, function.ret_type, number) for number, param in enumerate(second.params[count:])
    }
    seeds = iter(second.cotangents)
    tree = _result_tree(function.ret_type, value, seeds)
    body = rewrite(Tuple((value, tree), span=function.span), lambda _old, new: new, zeros)
    return Differentiated((*second.params[:count], *tangents), body, {**first.helpers, **second.helpers})


def _float_types(type_: Type) -> list[Type]:
    floats = leaves(float_leaves(type_), type_)
    return [leaf for leaf, is_floating in zip(leaf_types(type_), floats, strict=True) if is_floating]


def _zeros(value: Expr, type_: Type, number: int) -> Expr:
    """Return zeros like the float leaf of that number of a value."""
    floats = leaves(float_leaves(type_), type_)
    parts = [leaf for leaf, is_floating in zip(project(value, type_), floats, strict=True) if is_floating]
    return zeros_like(parts[number])


def _result_tree(type_: Type, value: Expr, leaves: Iterator[Expr]) -> Expr:
    """Return the tangent of a value: that of each float, zeros for integers."""
    if isinstance(type_, TupleType):
        parts = (
            _result_tree(field, TupleGetItem(value, index), leaves)
            for index, field in enumerate(type_.fields)
        )
        return Tuple(tuple(parts))
    if isinstance(type_, TensorType) and is_float(type_.dtype):
        return next(leaves)
    return zeros_like(value)


def scalar_seeds(function: Function, name: str) -> list[Constant | None]:
    """Return the cotangents of a result whose first part is differentiated. Raises RelayError."""
    type_ = function.ret_type
    assert type_ is not None
    first = type_.fields[0] if isinstance(type_, TupleType) and type_.fields else type_
    if not (isinstance(first, TensorType) and first.shape == () and is_float(first.dtype)):
        message = f"@{name} gives {type_}: only a float of rank 0 has a gradient"
        raise RelayError([Diagnostic(message, function.span, "sum it, or take its mean")])
    others = len(_float_types(type_)) - 1
    return [constant(np.asarray(1, NUMPY_DTYPES[first.dtype]), first.dtype), *([None] * others)]


def _numbers(function: Function, name: str, argnums: int | Sequence[int]) -> list[int]:
    """Return the numbers of the parameters to differentiate by. Raises RelayError."""
    count, numbers = len(function.params), list[int]()
    for number in [argnums] if isinstance(argnums, int) else argnums:
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"argnums must be an int or several, not {number!r}")
        if not -count <= number < count:
            plural = "" if count == 1 else "s"
            message = f"@{name} has {count} parameter{plural}, and none of the number {number}"
            raise RelayError([Diagnostic(message, function.span, "parameters are counted from 0")])
        param = function.params[number % count]
        _check_float(type_of(param), f"%{param.name_hint}", param.span)
        numbers.append(number % count)
    return numbers


def _check_float(type_: Type, what: str, span: Span | None) -> None:
    floats = leaves(float_leaves(type_), type_)
    if not floats or not all(floats):
        message = f"{what} is of {type_}: only floats have a gradient"
        raise RelayError([Diagnostic(message, span, "leave its number out of argnums, or make it a float")])


def _rename(function: Function, old: str, new: str) -> Function:
    made = _renamed_expr(function, old, new)
    assert isinstance(made, Function)
    return made


def _renamed_expr(expr: Expr, old: str, new: str) -> Expr:
    if old == new:
        return expr
    return rewrite(
        expr,
        lambda _old, node: (
            replace(node, name=new) if isinstance(node, GlobalVar) and node.name == old else node
        ),
    )
