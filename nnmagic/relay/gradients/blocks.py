"""Read functions in A-normal form as blocks, and copy their values as graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np

from nnmagic.relay import expr as ir
from nnmagic.relay.ops.declaration import Trait, traits_of
from nnmagic.relay.passes.scopes import opens_sizes
from nnmagic.relay.structure.traverse import pattern_vars, rewrite
from nnmagic.relay.types import NUMPY_DTYPES, TensorType, TupleType, Type


def type_of(expr: ir.Expr) -> Type:
    """Return the type of a node of a typed module."""
    type_ = expr.checked_type or (expr.type_annotation if isinstance(expr, ir.Var) else None)
    assert type_ is not None
    return type_


@dataclass(frozen=True, slots=True)
class LetBlock:
    """A chain of lets and its result, which is a name."""

    bindings: tuple[tuple[ir.Var, ir.Expr], ...]
    result: ir.Expr


def block_of(expr: ir.Expr) -> LetBlock:
    """Return the block of an expression in A-normal form."""
    bindings = []
    while isinstance(expr, ir.Let):
        bindings.append((expr.var, expr.value))
        expr = expr.body
    return LetBlock(tuple(bindings), expr)


def with_bindings(bindings: Sequence[tuple[ir.Var, ir.Expr]], body: ir.Expr) -> ir.Expr:
    """Return an expression behind bindings."""
    for var, value in reversed(bindings):
        body = ir.Let(var, value, body, checked_type=body.checked_type)
    return body


def branches(expr: ir.If | ir.Match) -> list[ir.Expr]:
    """Return the branches of an ``if``, the arms of a ``match``."""
    if isinstance(expr, ir.If):
        return [expr.true_branch, expr.false_branch]
    return [clause.rhs for clause in expr.clauses]


def arm_variables(expr: ir.If | ir.Match) -> list[list[ir.Var]]:
    """Return the variables that the pattern of each branch binds."""
    if isinstance(expr, ir.If):
        return [[], []]
    return [list(pattern_vars(clause.lhs)) for clause in expr.clauses]


def bindings_with_reads(var: ir.Var, value: ir.If) -> tuple[list[tuple[ir.Var, ir.Expr]], list[ir.Var]]:
    """Return bindings of a decision, and of the elements that its branches read, by their names there."""
    decided, names = with_reads(value)
    if not names:
        return [(var, value)], []
    whole = ir.Var(var.name_hint, decided.checked_type, checked_type=decided.checked_type)
    parts = (
        (each, ir.TupleGetItem(whole, at, checked_type=type_of(each)))
        for at, each in enumerate([var, *names])
    )
    return [(whole, decided), *parts], names


def with_reads(expr: ir.If) -> tuple[ir.If, list[ir.Var]]:
    """Return a decision that gives the elements that its branches read of arrays, too, and their names there.

    The result is a tuple of its value and of these; an element of the branch that is not taken is zero.
    """
    bodies = list[LetBlock]()
    kept: list[list[ir.Var]] = []
    for branch in (expr.true_branch, expr.false_branch):
        block, bindings, reads = block_of(branch), list[tuple[ir.Var, ir.Expr]](), list[ir.Var]()
        for var, value in block.bindings:
            if isinstance(value, ir.If):
                more, names = bindings_with_reads(var, value)
                bindings += more
                reads += names
                continue
            if reads_element(value):
                reads.append(var)
            bindings.append((var, value))
        kept.append(reads)
        bodies.append(LetBlock(tuple(bindings), block.result))
    names = [var for reads in kept for var in reads]
    if not names:
        return expr, []
    type_ = TupleType((type_of(expr), *map(type_of, names)))
    made = []
    for body, reads in zip(bodies, kept, strict=True):
        fields = (body.result, *(var if var in reads else _zero(var) for var in names))
        whole = ir.Var("kept", type_, checked_type=type_)
        kept_values = ir.Tuple(fields, span=expr.span, checked_type=type_)
        made.append(with_bindings((*body.bindings, (whole, kept_values)), whole))
    return ir.If(expr.cond, made[0], made[1], span=expr.span, checked_type=type_), names


def reads_element(value: ir.Expr) -> TypeGuard[ir.Call]:
    """Return whether a value is an element that is read of an array."""
    type_ = value.checked_type
    is_element = isinstance(type_, TensorType) and not type_.shape
    return is_element and ir.operator_of(value) in ("take", "gather_nd")


def reads_before_changes(
    results: Sequence[ir.Expr],
) -> tuple[list[tuple[ir.Var, ir.Expr]], list[ir.Expr]]:
    """Return bindings of elements that are read of arrays that change, and expressions over these.

    Relay has no order among calls: an array would be copied to be read after its elements have changed.
    """
    always, work = set[ir.Expr](), list(results)
    while work:
        node = work.pop()
        if node not in always:
            always.add(node)
            work += [node.cond] if isinstance(node, ir.If) else ir.children(node)
    if any(isinstance(node, ir.Let | ir.Match | ir.Function) for node in always):
        return [], list(results)
    calls = [node for node in always if isinstance(node, ir.Call)]
    changed = {node.args[0] for node in calls if Trait.UPDATES in traits_of(node)}
    bindings = list[tuple[ir.Var, ir.Expr]]()

    def bind(old: ir.Expr, new: ir.Expr) -> ir.Expr:
        if old not in always or not isinstance(old, ir.Call) or ir.operator_of(old) != "gather_nd":
            return new
        if old.args[0] not in changed:
            return new
        bindings.append((ir.Var("read", span=old.span), new))
        return bindings[-1][0]

    whole = rewrite(ir.Tuple(tuple(results)), bind)
    assert isinstance(whole, ir.Tuple)
    return bindings, list(whole.fields)


def is_taken_row(value: ir.Expr) -> TypeGuard[ir.Call]:
    """Return whether a value is what an array has at one index along an axis."""
    if ir.operator_of(value) != "take" or not isinstance(value, ir.Call):
        return False
    index, attrs = type_of(value.args[1]), value.attrs
    is_one = isinstance(index, TensorType) and not index.shape and index.dtype != "bool"
    return is_one and attrs["axis"] is not None and attrs["mode"] == "fast" and not attrs["batch_dims"]


def _zero(var: ir.Var) -> ir.Constant:
    type_ = type_of(var)
    assert isinstance(type_, TensorType)
    return ir.Constant(np.zeros((), NUMPY_DTYPES[type_.dtype]), span=var.span, checked_type=type_)


def with_branches(
    expr: ir.If | ir.Match,
    env: Mapping[ir.Expr, ir.Expr],
    bodies: list[ir.Expr],
    variables: list[dict[ir.Expr, ir.Expr]],
) -> ir.Expr:
    """Return the same decision with other bodies; ``variables``: the new pattern variables of each."""
    if isinstance(expr, ir.If):
        return ir.If(rename(expr.cond, env), bodies[0], bodies[1], span=expr.span)
    clauses = tuple(
        ir.Clause(_pattern(clause.lhs, new), body)
        for clause, body, new in zip(expr.clauses, bodies, variables, strict=True)
    )
    return ir.Match(rename(expr.data, env), clauses, expr.complete, expr.assertion, span=expr.span)


def fresh_variables(expr: ir.If | ir.Match) -> list[dict[ir.Expr, ir.Expr]]:
    """Return new variables for those that the patterns bind."""
    return [{var: fresh(var) for var in bound} for bound in arm_variables(expr)]


def fresh(var: ir.Var) -> ir.Var:
    """Return a new variable of the same name and type."""
    return ir.Var(var.name_hint, var.checked_type or var.type_annotation, span=var.span)


def _pattern(pattern: ir.Pattern, new: Mapping[ir.Expr, ir.Expr]) -> ir.Pattern:
    match pattern:
        case ir.PatternVar(var=var):
            renamed = new[var]
            assert isinstance(renamed, ir.Var)
            return ir.PatternVar(renamed)
        case ir.PatternConstructor(patterns=parts) | ir.PatternTuple(patterns=parts):
            return replace(pattern, patterns=tuple(_pattern(part, new) for part in parts))
        case ir.PatternWildcard():
            return pattern


def rename(expr: ir.Expr, env: Mapping[ir.Expr, ir.Expr]) -> ir.Expr:
    """Return what a name stands for."""
    return env.get(expr, expr)


def forward(expr: ir.Expr, env: Mapping[ir.Expr, ir.Expr]) -> ir.Expr:
    """Return the value of a binding as a graph over what ``env`` says of its names."""
    match expr:
        case ir.Call(op=op, args=args):
            new = tuple(rename(arg, env) for arg in args)
            attrs = {name: _attribute(value, args, new) for name, value in expr.attrs.items()}
            return replace(expr, op=rename(op, env), args=new, attrs=attrs, checked_type=None)
        case ir.Tuple(fields=fields):
            return replace(expr, fields=tuple(rename(field, env) for field in fields), checked_type=None)
        case ir.TupleGetItem(tuple_value=value):
            renamed = rename(value, env)
            if isinstance(renamed, ir.Tuple):
                return renamed.fields[expr.index]
            return replace(expr, tuple_value=renamed, checked_type=None)
        case ir.If() | ir.Match():
            variables = fresh_variables(expr)
            bodies = [
                forward_block(body, {**env, **new})
                for body, new in zip(branches(expr), variables, strict=True)
            ]
            return with_branches(expr, env, bodies, variables)
        case ir.Constant():
            return expr
        case _:
            return rename(expr, env)


def forward_block(expr: ir.Expr, env: Mapping[ir.Expr, ir.Expr]) -> ir.Expr:
    """Return the result of a block as a graph."""
    block, meanings = block_of(expr), dict(env)
    for var, value in block.bindings:
        meanings[var] = forward(value, meanings)
        if opens_sizes(var):
            name = fresh(var)
            meanings[var] = ir.Let(name, meanings[var], name, span=name.span)
    return rename(block.result, meanings)


def _attribute(value: object, old: tuple[ir.Expr, ...], new: tuple[ir.Expr, ...]) -> object:
    """Return an attribute; one that repeats an argument repeats the new one."""
    return next((after for before, after in zip(old, new, strict=True) if before is value), value)
