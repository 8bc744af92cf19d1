"""Differentiate functions of complex numbers: as functions of pairs of floats, in JAX's convention.

The cotangent of a complex value is the conjugate of what its real and imaginary part have: the gradient of a
real function of z = x + iy is df/dx - i df/dy, and that of a holomorphic one its derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nnmagic.relay.annotations import CUSTOM_VJP, custom_rule
from nnmagic.relay.complex_numbers.lowering import lower_complex, mentions_complex, uses_complex
from nnmagic.relay.complex_numbers.operators import CONJ, IMAG, MAKE, REAL
from nnmagic.relay.expr import Call, Expr, Function, Let, OpRef, Tuple, TupleGetItem, Var, constant
from nnmagic.relay.gradients.blocks import type_of
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.ops.calls import call
from nnmagic.relay.structure.callgraph import rename_globals
from nnmagic.relay.structure.traverse import rewrite
from nnmagic.relay.structure.tuple_trees import leaf_types
from nnmagic.relay.types import TensorType, TupleType, Type, is_inexact


def on_pairs(module: Module, name: str, taken: set[str]) -> Module:
    """Return a typed module over pairs of floats, whose other functions avoid the names ``taken``.

    A module without complex numbers is returned as it is.
    """
    if not uses_complex(module):
        return module
    names = {name: name}
    for each in module.functions:
        new = each
        while new in taken or new in names.values():
            new += "_pairs"
        names.setdefault(each, new)
    functions = {names[each]: rename_globals(own, names) for each, own in _conjugated(module).items()}
    renamed = infer_type(replace(module, functions=functions, printed_types={}), look_into_callees=True)
    return lower_complex(renamed)


def _conjugated(module: Module) -> dict[str, Function]:
    """Return the functions; backward functions of rules take and give the cotangents of pairs."""
    functions = dict(module.functions)
    for function in module.functions.values():
        rule = custom_rule(function)
        if rule is not None and rule.kind == CUSTOM_VJP and rule.functions:
            backward = functions[rule.functions[1]]
            count = len(inexact_leaves(function.result_type))
            functions[rule.functions[1]] = _conjugating(
                backward, backward.params[-count or len(backward.params) :]
            )
    return functions


def inexact_leaves(type_: Type) -> list[Type]:
    """Return the types of the leaves that are floats or complex numbers."""
    return [leaf for leaf in leaf_types(type_) if isinstance(leaf, TensorType) and is_inexact(leaf.dtype)]


def _conjugating(function: Function, cotangents: Sequence[Var]) -> Function:
    """Return a function that takes conjugates of some parameters, and gives those of its result."""
    new = {old: Var(old.name_hint, type_of(old), span=old.span) for old in cotangents}
    memo: dict[Expr, Expr] = {old: _each(param, type_of(old), _conjugate) for old, param in new.items()}
    body = rewrite(function.body, lambda _old, node: node, memo)
    result = Var("result", function.result_type, span=function.span)
    body = Let(result, body, _each(result, function.result_type, _conjugate), span=function.span)
    params = tuple(new.get(param, param) for param in function.params)
    return replace(function, params=params, body=body, checked_type=None)


def _conjugate(leaf: Expr) -> Expr:
    return Call(OpRef(CONJ, span=leaf.span), (leaf,), span=leaf.span)


def to_pairs(expr: Expr, type_: Type, *, conjugate: bool = False) -> Expr:
    """Return a value over pairs of floats; of the conjugates of its complex numbers, if asked for."""

    def pairs(part: Expr) -> Expr:
        real, imaginary = (Call(OpRef(name), (part,), span=part.span) for name in (REAL, IMAG))
        both = Tuple((real, call("negative", [imaginary]) if conjugate else imaginary), span=part.span)
        return call("stack", [both], part.span, axis=-1)

    return _each(expr, type_, pairs)


def from_pairs(expr: Expr, type_: Type, *, conjugate: bool = False) -> Expr:
    """Return a value of its own type that is given over pairs of floats; conjugated, if asked for."""

    def whole(part: Expr) -> Expr:
        real, imaginary = (
            call("take", [part, constant(index, "int64")], part.span, axis=-1, mode="fast")
            for index in range(2)
        )
        imaginary = call("negative", [imaginary], part.span) if conjugate else imaginary
        return Call(OpRef(MAKE), (real, imaginary), span=part.span)

    return _each(expr, type_, whole)


def _each(expr: Expr, type_: Type, change: Callable[[Expr], Expr]) -> Expr:
    """Return a value with its complex tensors changed."""
    if not mentions_complex(type_):
        return expr
    if isinstance(type_, TupleType):
        own = expr.fields if isinstance(expr, Tuple) else None
        parts = own or [TupleGetItem(expr, index, span=expr.span) for index in range(len(type_.fields))]
        rows = zip(parts, type_.fields, strict=True)
        return Tuple(tuple(_each(part, field, change) for part, field in rows), span=expr.span)
    return change(expr)
