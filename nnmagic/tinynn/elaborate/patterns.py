"""Interpret patterns: what they test, and which part of the value each part of them takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from synr import ast
from synr.ast import BuiltinOp

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.types import TupleType, Type, TypeCall
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.truth import truth_of
from nnmagic.tinynn.operators.arithmetic import binary
from nnmagic.tinynn.parameters import MISSING
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.operator_calls import is_tensor
from nnmagic.tinynn.values.symbolic_sizes import as_number


def equals_pattern(ctx: Elaboration, pattern: tree.ValuePattern, value: v.Operand) -> bool | v.Computed:
    """Return whether a value equals that of a pattern. Raises RefusalError."""
    wanted = ctx.operand(pattern.value)
    if v.is_failed(wanted.value):
        return True
    if isinstance(wanted.value, v.ConstructorName):
        raise v.RefusalError(f"write {wanted.value.constructor.name}() with its brackets", wanted.span)
    value, wanted = as_number(value), as_number(wanted)
    lhs, rhs = (v.static_or(operand.value, MISSING) for operand in (value, wanted))
    if MISSING not in (lhs, rhs):
        return lhs is rhs or (lhs is not None and rhs is not None and lhs == rhs)
    if is_tensor(value.value) and wanted.value == v.Known(None):
        return False
    if not is_tensor(value.value):
        return False
    equal = truth_of(v.Operand(binary(BuiltinOp.Eq, "==", value, wanted, wanted.span), wanted.span), "case")
    assert equal is not None
    return equal


def split_sequence(
    ctx: Elaboration, pattern: tree.SequencePattern, value: v.Operand
) -> list[tuple[ast.Node, v.Operand]] | None:
    """Pair the items of a tuple with their patterns; None where the number differs. Raises RefusalError."""
    if not isinstance(value.value, v.TupleOf):
        if isinstance(value.value, v.Known):
            return None
        message = f"a tuple pattern does not take {describe(value.value)}"
        raise v.RefusalError(message, ctx.span(pattern.span), hint="match a tuple, as in match (x, y):")
    items = [v.Operand(item, value.span) for item in value.value.items]
    patterns = list(pattern.patterns)
    stars = [index for index, part in enumerate(patterns) if isinstance(part, tree.StarPattern)]
    if len(items) < len(patterns) - len(stars) or (not stars and len(items) != len(patterns)):
        return None
    if stars:
        star_index = stars[0]
        end = len(items) - (len(patterns) - star_index - 1)
        rest = v.Operand(v.TupleOf(tuple(item.value for item in items[star_index:end])), value.span)
        star = patterns[star_index]
        patterns[star_index] = tree.CapturePattern(star.span, star.name)
        items = [*items[:star_index], rest, *items[end:]]
    return list(zip(patterns, items, strict=True))


def is_native(ctx: Elaboration, pattern: ast.Node) -> bool:
    """Return whether Relay has the pattern."""
    match pattern:
        case tree.CapturePattern(pattern=None):
            return True
        case tree.ConstructorPattern(patterns=parts, keywords=named):
            return all(map(partial(is_native, ctx), [*parts, *named.values()]))
        case tree.SequencePattern(patterns=parts):
            return all(map(partial(is_native, ctx), parts))
    return False


def to_relay_pattern(ctx: Elaboration, pattern: ast.Node, type_: Type) -> ir.Pattern:
    """Convert to a pattern of Relay, and bind its names. Raises RefusalError."""
    span = ctx.span(pattern.span)
    match pattern, type_:
        case tree.CapturePattern(name=None), _:
            return ir.PatternWildcard()
        case tree.CapturePattern(name=str() as name), _:
            variable = ir.Var(name, type_, span=span)
            ctx.environment.bindings.bind(name, v.as_value(variable, type_), span)
            return ir.PatternVar(variable)
        case tree.SequencePattern(patterns=subpatterns), TupleType(fields=fields) if len(subpatterns) == len(
            fields
        ):
            return ir.PatternTuple(tuple(map(partial(to_relay_pattern, ctx), subpatterns, fields)))
        case tree.ConstructorPattern(), _:
            constructor, subpatterns = resolve_constructor(ctx, pattern)
            _check_belongs(constructor, type_, span)
            return ir.PatternConstructor(
                constructor, tuple(map(partial(to_relay_pattern, ctx), subpatterns, constructor.inputs))
            )
    raise v.RefusalError(f"this pattern does not take {describe(v.Computed(ir.Tuple(()), type_))}", span)


def resolve_constructor(
    ctx: Elaboration, pattern: tree.ConstructorPattern
) -> tuple[ir.Constructor, list[ast.Node]]:
    """Return the constructor of a pattern, and a pattern for each of its fields. Raises RefusalError."""
    callee = ctx.operand(pattern.constructor)
    span = ctx.span(pattern.span)
    if isinstance(callee.value, v.DataTypeName) and (own := v.record_constructor(callee.value)) is not None:
        callee = v.Operand(own, callee.span)
    if not isinstance(callee.value, v.ConstructorName):
        hint = "write a constructor of a class of the cell, a number, a name or `_`"
        raise v.RefusalError(f"{describe(callee.value)} is no constructor", callee.span, hint=hint)
    name, fields = callee.value.constructor.name, callee.value.fields
    if len(pattern.patterns) > len(fields):
        given = len(pattern.patterns)
        signature = f"{name}({', '.join(fields)})"
        raise v.RefusalError(
            f"`{name}` has {len(fields)} fields, not {given}", span, hint=f"it is {signature}"
        )
    subpatterns: list[ast.Node] = list(pattern.patterns)
    subpatterns += [tree.CapturePattern(pattern.span, None)] * (len(fields) - len(subpatterns))
    for keyword, part in pattern.keywords.items():
        if keyword not in fields:
            raise v.RefusalError(
                f"`{name}` has no field `{keyword}`", span, hint=f"its fields: {', '.join(fields)}"
            )
        subpatterns[fields.index(keyword)] = part
    return callee.value.constructor, subpatterns


def check_subject(
    ctx: Elaboration, value: v.Operand, constructor: ir.Constructor, pattern: ast.Node
) -> v.Computed:
    """Return the value that a constructor's pattern matches. Raises RefusalError for another type."""
    if not isinstance(value.value, v.Computed):
        message = f"`{constructor.name}` does not take {describe(value.value)}"
        raise v.RefusalError(message, ctx.span(pattern.span))
    _check_belongs(constructor, value.value.type, ctx.span(pattern.span))
    return value.value


def _check_belongs(constructor: ir.Constructor, type_: Type, span: Span) -> None:
    if type_ != TypeCall(constructor.belong_to, ()):
        subject = describe(v.Computed(ir.Tuple(()), type_))
        owner = constructor.belong_to.name
        raise v.RefusalError(f"`{constructor.name}` is a constructor of {owner}, but this is {subject}", span)


def expand_alternatives(case: tree.Case) -> Iterator[tree.Case]:
    """Yield the case once for each alternative of ``|`` in its pattern."""
    for pattern in _alternatives(case.pattern):
        yield tree.Case(case.span, pattern, case.guard, case.body)


def _alternatives(pattern: ast.Node) -> Iterator[ast.Node]:
    def products(alternatives: Sequence[ast.Node]) -> Iterator[list[ast.Node]]:
        if not alternatives:
            yield []
            return
        for first in _alternatives(alternatives[0]):
            for product in products(alternatives[1:]):
                yield [first, *product]

    match pattern:
        case tree.OrPattern(patterns=alternatives):
            for part in alternatives:
                yield from _alternatives(part)
        case tree.SequencePattern(span=span, patterns=alternatives):
            for chosen in products(alternatives):
                yield tree.SequencePattern(span, chosen)
        case tree.ConstructorPattern(
            span=span, constructor=constructor, patterns=alternatives, keywords=named
        ):
            for chosen in products([*alternatives, *named.values()]):
                keywords = dict(zip(named, chosen[len(alternatives) :], strict=True))
                yield tree.ConstructorPattern(span, constructor, chosen[: len(alternatives)], keywords)
        case tree.CapturePattern(span=span, name=name, pattern=inner) if inner is not None:
            for alternative in _alternatives(inner):
                yield tree.CapturePattern(span, name, alternative)
        case _:
            yield pattern
