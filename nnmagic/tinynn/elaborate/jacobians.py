"""Elaborate ``jacobian``: as a batch of pullbacks, or of directional derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from nnmagic.diagnostics import Span
from nnmagic.relay.structure.tuple_trees import leaf_types
from nnmagic.relay.types import RecordType, TensorType, Type, is_float
from nnmagic.tinynn.builtins import BUILTINS
from nnmagic.tinynn.elaborate.batching import call_vmap
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.conversions import to_relay
from nnmagic.tinynn.types.annotations import dtype_named
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import with_article
from nnmagic.tinynn.values.symbolic_sizes import product_of, shape_of

#: Calls a value: `calls.apply_value`.
Apply = Callable[[Elaboration, v.Operand, list[v.Operand], Span], v.Value]


@dataclass(frozen=True, slots=True)
class PartsOf:
    """The Jacobians of a function that returns a tuple, one for each part."""

    items: tuple[v.Value | PartsOf, ...]
    record: RecordType | None = None


def jacobian_of(
    ctx: Elaboration, kind: str, function: v.Operand, chosen: tuple[v.Operand, ...], span: Span, apply: Apply
) -> v.Value | PartsOf:
    """Return the Jacobians of a function by each of its arguments, as a tuple. Raises RefusalError.

    kind: ``"jacfwd"``: a directional derivative for each element of the arguments; ``"jacrev"``: a pullback
    for each element of the result; ``"jacobian"``: whatever are fewer, as far as sizes are known.
    """
    vjp = v.GradientOf("vjp", function, arguments=chosen)
    applied = apply(ctx, v.Operand(vjp, span), [], span)
    if v.is_failed(applied):
        return v.FAILED
    assert isinstance(applied, v.TupleOf)
    result, pull = applied.items
    types = [to_relay(operand).type for operand in chosen]
    if kind == "jacfwd" or (kind == "jacobian" and _has_fewer(types, to_relay(v.Operand(result, span)).type)):
        return _forward(ctx, function, chosen, result, span, apply)
    if isinstance(result, v.TupleOf):
        return PartsOf(
            tuple(
                jacobian_of(
                    ctx, "jacrev", replace(function, value=_part(function.value, index)), chosen, span, apply
                )
                for index in range(len(result.items))
            ),
            result.record,
        )
    out = _differentiable(result, span)
    sizes = shape_of(out, span).items
    basis = _basis(ctx, out, span, apply)
    columns = call_vmap(
        ctx, v.GradientOf("vmap", v.Operand(pull, span), axes=(0, 0)), [v.Operand(basis, span)], span, apply
    )
    return columns if v.is_failed(columns) else _rows(ctx, columns, sizes, span, apply)


def _rows(ctx: Elaboration, value: v.Value, sizes: tuple[v.Value, ...], span: Span, apply: Apply) -> v.Value:
    """Return gradients of all elements in the shape of the result, then that of the parameter."""
    if isinstance(value, v.TupleOf):
        items = tuple(_rows(ctx, item, sizes, span, apply) for item in value.items)
        return replace(value, items=items, whole=None)
    assert isinstance(value, v.Computed)
    own = shape_of(value, span).items[1:]
    return value if len(sizes) == 1 else _reshape(ctx, value, (*sizes, *own), span, apply)


def _forward(
    ctx: Elaboration,
    function: v.Operand,
    chosen: tuple[v.Operand, ...],
    result: v.Value,
    span: Span,
    apply: Apply,
) -> v.Value | PartsOf:
    """Return the Jacobians by a directional derivative for each element of the arguments."""
    primals = ((operand, to_relay(operand)) for operand in chosen)
    chosen = tuple(replace(operand, value=v.as_value(own.expr, own.type)) for operand, own in primals)
    push = v.Operand(v.GradientOf("pushforward", function, arguments=chosen), span)
    columns: list[v.Value] = []
    for place in _places(chosen):
        tangents, axes = zip(*(_tangent(ctx, place, each, span, apply) for each in chosen), strict=True)
        vmap = v.GradientOf("vmap", push, axes=(axes, -1))
        made = call_vmap(ctx, vmap, [v.Operand(each, span) for each in tangents], span, apply)
        if v.is_failed(made):
            return v.FAILED
        columns.append(made)

    def rows(out: v.Value, columns: Sequence[v.Value]) -> v.Value | PartsOf:
        if isinstance(out, v.TupleOf):
            parts = [column.items for column in columns if isinstance(column, v.TupleOf)]
            items = zip(out.items, *parts, strict=True)
            return PartsOf(tuple(rows(item, own) for item, *own in items), out.record)
        _differentiable(out, span)
        each = iter(columns)
        return v.TupleOf(tuple(_shaped(ctx, out, operand.value, each, span, apply) for operand in chosen))

    return rows(result, columns)


def _places(chosen: Sequence[v.Operand]) -> Iterator[v.Value]:
    """Yield the tensors of the arguments."""
    for operand in chosen:
        value = operand.value
        if isinstance(value, v.TupleOf):
            yield from _places([v.Operand(item, operand.span) for item in value.items])
        else:
            yield value


def _tangent(
    ctx: Elaboration, place: v.Value, operand: v.Operand, span: Span, apply: Apply
) -> tuple[v.Value, object]:
    """Return the tangents of an argument, zeros but at one place, and the axes of their examples."""
    value = operand.value
    if isinstance(value, v.TupleOf):
        parts = [_tangent(ctx, place, replace(operand, value=item), span, apply) for item in value.items]
        items, axes = zip(*parts, strict=True) if parts else ((), ())
        return replace(value, items=items, whole=None), axes
    if value is place:
        return _basis(ctx, to_relay(operand), span, apply), 0
    return _builtin(ctx, "zeros_like", [operand], span, apply), None


def _shaped(
    ctx: Elaboration, out: v.Value, primal: v.Value, columns: Iterator[v.Value], span: Span, apply: Apply
) -> v.Value:
    """Return what was computed for an argument in the shape of the result, then that of the argument."""
    if isinstance(primal, v.TupleOf):
        items = tuple(_shaped(ctx, out, item, columns, span, apply) for item in primal.items)
        return replace(primal, items=items, whole=None)
    own = shape_of(to_relay(v.Operand(primal, span)), span).items
    column = next(columns)
    if len(own) == 1:
        return column
    sizes = shape_of(to_relay(v.Operand(out, span)), span).items
    return _reshape(ctx, column, (*sizes, *own), span, apply)


def _differentiable(result: v.Value, span: Span) -> v.Computed:
    """Return a part of a result, which must be a tensor of floats. Raises RefusalError."""
    out = to_relay(v.Operand(result, span))
    if not isinstance(out.type, TensorType) or not is_float(out.type.dtype):
        message = f"jacobian: the function returns {with_article(out.type)}: only floats have a gradient"
        raise v.RefusalError(message, span, hint="return floats, or tuples of them")
    return out


def _has_fewer(arguments: Sequence[Type], result: Type) -> bool:
    """Return whether arguments have fewer elements than a result; what is not known counts as many."""
    count = _count(arguments)
    return count is not None and ((many := _count([result])) is None or 2 * count <= many)


def _count(types: Sequence[Type]) -> int | None:
    """Return the number of elements; None where a size is known at run time only."""
    total = 0
    for leaf in (leaf for type_ in types for leaf in leaf_types(type_)):
        sizes = [dim for dim in leaf.shape if isinstance(dim, int)] if isinstance(leaf, TensorType) else []
        if not isinstance(leaf, TensorType) or len(sizes) < len(leaf.shape):
            return None
        total += prod(sizes)
    return total


def _basis(ctx: Elaboration, value: v.Computed, span: Span, apply: Apply) -> v.Value:
    """Return a tensor like a value for each of its elements, which is one there and zero elsewhere."""
    sizes = shape_of(value, span).items
    count = product_of(sizes, span)
    dtype = v.Operand(v.Known(dtype_named(value.dtype)), span, keyword="dtype")
    basis = _builtin(ctx, "eye", [v.Operand(count, span), dtype], span, apply)
    return basis if len(sizes) == 1 else _reshape(ctx, basis, (count, *sizes), span, apply)


def _reshape(
    ctx: Elaboration, value: v.Value, sizes: tuple[v.Value, ...], span: Span, apply: Apply
) -> v.Value:
    shape = v.Operand(v.TupleOf(sizes), span)
    return _builtin(ctx, "reshape", [v.Operand(value, span), shape], span, apply)


def _builtin(ctx: Elaboration, name: str, operands: list[v.Operand], span: Span, apply: Apply) -> v.Value:
    return apply(ctx, v.Operand(v.BuiltinName(BUILTINS[name]), span), operands, span)


def _part(function: v.Value, index: int) -> v.Value:
    """Return a function that gives a part of what another gives."""
    assert isinstance(function, v.GradientOf)
    return replace(function, axes=(*function.axes, index))
