"""Elaborate ``vmap`` and ``checkpoint``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.batching.site import BatchSize
from nnmagic.relay.gradients.markers import mark
from nnmagic.relay.ops.calls import call
from nnmagic.relay.signatures import format_dim
from nnmagic.relay.types import Dim, TensorType, TupleType, Type
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, BlockExit, ExitKind, render
from nnmagic.tinynn.elaborate.conversions import to_relay
from nnmagic.tinynn.elaborate.custom_rules import Leaves
from nnmagic.tinynn.elaborate.generators import is_state
from nnmagic.tinynn.elaborate.let_bindings import atomize
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe, source_text, with_article
from nnmagic.tinynn.values.operator_calls import apply as apply_operator
from nnmagic.tinynn.values.operator_restrictions import dims_differ

#: Calls a value: `calls.apply_value`.
Apply = Callable[[Elaboration, v.Operand, list[v.Operand], Span], v.Value]


# -- vmap ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Leaves:
    """The tensors that are mapped over: with their examples in front, and where they stand in the cell."""

    batches: list[v.Computed] = field(default_factory=list)
    examples: list[ir.Var] = field(default_factory=list)
    places: list[tuple[Dim, str, Span]] = field(default_factory=list)

    def add(self, value: v.Computed, axis: int, name: str, operand: v.Operand) -> v.Value:
        """Map over an axis of a tensor; return what stands for it in one example. Raises RefusalError."""
        type_ = value.type
        text = source_text(operand.span)
        if not isinstance(type_, TensorType):
            message = f"vmap: `{text}` is {with_article(type_)}, which has no axes"
            raise v.RefusalError(message, operand.span, hint="write None for it in in_axes")
        rank = len(type_.shape)
        if not -rank <= axis < rank:
            message = f"vmap: `{text}` has rank {rank}, and so no axis {axis} to map over"
            raise v.RefusalError(
                message, operand.span, hint="write None in in_axes for what all examples share"
            )
        axis %= rank
        moved = _move(value, axis, 0, operand.span)
        own = TensorType(moved.shape[1:], type_.dtype)
        variable = ir.Var(
            name if not self.examples else f"{name}{len(self.examples)}", own, span=operand.span
        )
        self.batches.append(moved)
        self.examples.append(variable)
        self.places.append((moved.shape[0], f"axis {axis} of `{text}`", operand.span))
        return v.as_value(variable, own)

    def check_sizes(self, span: Span) -> None:
        """Check that there are examples, and as many of each argument. Raises RefusalError."""
        if not self.places:
            hint = "write the axis of the examples for one of the arguments"
            raise v.RefusalError("vmap: there is nothing to map over", span, hint=hint)
        first, what, _ = self.places[0]
        for dim, other, place in self.places[1:]:
            if dims_differ(first, dim):
                message = f"vmap: {what} has size {format_dim(first)}, {other} size {format_dim(dim)}"
                raise v.RefusalError(
                    message, place, hint="map over axes of one size, or write None in in_axes"
                )


def call_vmap(
    ctx: Elaboration, gradient: v.GradientOf, operands: Sequence[v.Operand], span: Span, apply: Apply
) -> v.Value:
    """Call ``vmap(f, in_axes, out_axes)``."""
    in_axes, out_axes = gradient.axes
    positional = sum(operand.keyword is None for operand in operands)
    if isinstance(in_axes, tuple) and len(in_axes) != positional:
        message = f"vmap: in_axes has {len(in_axes)} axes, but {positional} arguments are given by position"
        raise v.RefusalError(message, span, hint="write an axis, or None, for each")
    leaves, inner = _Leaves(), list[v.Operand]()
    for index, operand in enumerate(operands):
        axes = 0 if operand.keyword is not None else in_axes[index] if isinstance(in_axes, tuple) else in_axes
        name = operand.keyword or f"x{index or ''}"
        inner.append(replace(operand, value=_example(ctx, leaves, operand, axes, name)))
    leaves.check_sizes(span)
    examples = zip(leaves.examples, leaves.batches, strict=True)
    ctx.memory.bound.update((example, batch.expr) for example, batch in examples)
    block = Block()
    value = _call_inside(ctx, block, gradient.function, inner, span, apply)
    if value is None:
        return v.FAILED
    _check_tensors(value.type, span)
    whole = _mark(block, leaves, value, span)
    made = v.as_value(whole, _batched_type(value.type, leaves.places[0][0]))
    return _with_axes(made, out_axes, span)


def _call_inside(
    ctx: Elaboration, block: Block, function: v.Operand, inner: list[v.Operand], span: Span, apply: Apply
) -> v.Computed | None:
    """Return the result of a call in a block of its own; None where it failed."""
    # Bound outside of the block: a function that is made in it would be made for each example.
    callee = replace(function, value=atomize(ctx, function.value, "function", set()))
    # Names that the call binds, and generators that it draws from, must not be seen behind it.
    with ctx.inside(block, ctx.environment.bindings.copy()), ctx.frozen_generators(is_state):
        result = apply(ctx, callee, inner, span)
    return None if v.is_failed(result) else to_relay(v.Operand(result, span))


def _example(ctx: Elaboration, leaves: _Leaves, operand: v.Operand, axes: object, name: str) -> v.Value:
    """Return what stands for an argument in one example. Raises RefusalError."""
    value = operand.value
    if axes is None:
        return atomize(ctx, value, name, set())
    if isinstance(value, v.TupleOf):
        if isinstance(axes, tuple) and len(axes) != len(value.items):
            message = f"vmap: in_axes has {len(axes)} axes for a tuple of {len(value.items)}"
            raise v.RefusalError(message, operand.span, hint="write an axis, or None, for each item")
        each = axes if isinstance(axes, tuple) else (axes,) * len(value.items)
        items = (
            _example(ctx, leaves, replace(operand, value=item), axis, name)
            for item, axis in zip(value.items, each, strict=True)
        )
        return replace(value, items=tuple(items), whole=None)
    if isinstance(axes, tuple):
        message = f"vmap: in_axes has a tuple for {describe(value)}"
        raise v.RefusalError(message, operand.span, hint="write one axis")
    if not isinstance(value, v.Computed):
        message = f"vmap: {describe(value)} has no axis to map over"
        raise v.RefusalError(message, operand.span, hint="write None for it in in_axes")
    assert isinstance(axes, int)
    kept = v.dynamic(atomize(ctx, value, name, set()))
    return leaves.add(kept, axes, name, operand)


def _mark(block: Block, leaves: _Leaves, value: v.Computed, span: Span) -> ir.Expr:
    """Return the values of all examples, as a call that is replaced once the types are known."""
    wide = [ir.Var(f"all{index}", batch.type, span=span) for index, batch in enumerate(leaves.batches)]
    dim = leaves.places[0][0]
    batched = _batched_type(value.type, dim)
    whole = TupleType((value.type, batched))
    inner = leaves.batches[0].type
    assert isinstance(inner, TensorType)
    size = BatchSize(dim, wide[0], len(inner.shape) - 1)
    body = ir.Tuple((value.expr, size.spread(value.expr, value.type, span)), span=span)
    block.end = BlockExit(ExitKind.RETURNS, span)
    expr = render(block, whole, lambda _exit: body)
    function = mark([*leaves.examples, *wide], expr, whole, "batch", len(leaves.examples))
    first = [call("take", [batch.expr, ir.constant(0, "int64")], span, axis=0) for batch in leaves.batches]
    args = (*first, *(batch.expr for batch in leaves.batches))
    return ir.TupleGetItem(ir.Call(replace(function, span=span), args, span=span), 1, span=span)


def _batched_type(type_: Type, dim: Dim) -> Type:
    if isinstance(type_, TupleType):
        return replace(type_, fields=tuple(_batched_type(field, dim) for field in type_.fields))
    assert isinstance(type_, TensorType)
    return TensorType((dim, *type_.shape), type_.dtype)


def _check_tensors(type_: Type, span: Span) -> None:
    """Check that a result is made of tensors. Raises RefusalError."""
    if isinstance(type_, TupleType):
        for field in type_.fields:
            _check_tensors(field, span)
    elif not isinstance(type_, TensorType):
        hint = "return tensors, or tuples of them"
        raise v.RefusalError(f"vmap: the function returns {with_article(type_)}", span, hint=hint)


def _with_axes(value: v.Value, axes: object, span: Span) -> v.Value:
    """Return a result with the axis of the examples where ``out_axes`` wants it. Raises RefusalError."""
    if isinstance(value, v.TupleOf):
        if isinstance(axes, tuple) and len(axes) != len(value.items):
            message = f"vmap: out_axes has {len(axes)} axes for a tuple of {len(value.items)}"
            raise v.RefusalError(message, span, hint="write one axis, or one for each item")
        if axes == 0:
            return value
        each = axes if isinstance(axes, tuple) else (axes,) * len(value.items)
        items = (_with_axes(item, axis, span) for item, axis in zip(value.items, each, strict=True))
        return replace(value, items=tuple(items), whole=None)
    assert isinstance(value, v.Computed)
    rank = len(value.shape)
    if not isinstance(axes, int) or not -rank <= axes < rank:
        message = f"vmap: the result has rank {rank} with its examples, and so no axis {axes}"
        raise v.RefusalError(message, span, hint="leave out_axes out: the examples come first")
    return _move(value, 0, axes % rank, span)


def _move(value: v.Computed, source: int, to: int, span: Span) -> v.Computed:
    """Return a tensor with an axis at another place."""
    order = [axis for axis in range(len(value.shape)) if axis != source]
    order.insert(to, source)
    if source == to:
        return value
    return apply_operator("transpose", span, value, axes=tuple(order))


# -- partial ------------------------------------------------------------------------------------------


def call_partial(
    ctx: Elaboration, partial: v.GradientOf, operands: Sequence[v.Operand], span: Span, apply: Apply
) -> v.Value:
    """Call a function with some of its arguments given before; return a part of its result."""
    arguments = list(partial.arguments)
    assert isinstance(partial.argnums, tuple)
    for number, operand in zip(partial.argnums, operands, strict=True):
        assert isinstance(number, int)
        arguments[number] = replace(arguments[number], value=operand.value)
    value = apply(ctx, partial.function, arguments, span)
    for index in partial.axes:
        if v.is_failed(value):
            return value
        assert isinstance(value, v.TupleOf)
        assert isinstance(index, int)
        value = value.items[index]
    return value


# -- checkpoint ----------------------------------------------------------------------------------------


def call_checkpoint(
    ctx: Elaboration, gradient: v.GradientOf, operands: Sequence[v.Operand], span: Span, apply: Apply
) -> v.Value:
    """Call ``checkpoint(f)``: a function of the module, which no pass takes apart."""
    leaves = Leaves(ctx, span)
    inner = [
        replace(operand, value=leaves.stand_in(operand.value, operand.keyword or "x")) for operand in operands
    ]
    block = Block()
    value = _call_inside(ctx, block, gradient.function, inner, span, apply)
    if value is None:
        return v.FAILED
    whole = TupleType((value.type, value.type))
    body = ir.Tuple((value.expr, value.expr), span=span)
    block.end = BlockExit(ExitKind.RETURNS, span)
    expr = render(block, whole, lambda _exit: body)
    assert isinstance(gradient.argnums, int)
    function = mark(leaves.params, expr, whole, "checkpoint", len(leaves.params), gradient.argnums)
    made = ir.Call(replace(function, span=span), tuple(arg.expr for arg in leaves.args), span=span)
    return v.as_value(ir.TupleGetItem(made, 0, span=span), value.type)
