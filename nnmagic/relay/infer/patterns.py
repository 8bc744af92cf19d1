"""Infer the types of what patterns bind, and check that a match handles every value."""

from __future__ import annotations

from nnmagic.relay.expr import Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from nnmagic.relay.infer.context import TOO_DEEP, Context
from nnmagic.relay.infer.exhaustive import TooManyCasesError, find_unmatched_cases
from nnmagic.relay.infer.unify import MAX_NESTING, UNKNOWN, Hole, describe_type, substitute
from nnmagic.relay.types import TupleType, Type, TypeCall


def bind_patterns(context: Context, match_: Match) -> bool:
    """Give the variables of all patterns their types; return False after an error."""
    data = context.type_of(match_.data)
    results = [_bind_pattern(context, match_, clause.lhs, data) for clause in match_.clauses]
    return all(results)


def _bind_pattern(context: Context, match_: Match, pattern: Pattern, data: Type) -> bool:
    good = True
    work = [(pattern, data, 0)]
    while work:
        subpattern, type_, depth = work.pop()
        if depth > MAX_NESTING:
            context.error(match_, TOO_DEEP)
            return False
        inner: tuple[Type, ...] | None = ()
        match subpattern:
            case PatternVar(var=var):
                declared = context.declare(var)
                agreed = context.agree(type_, declared, match_, f"the pattern %{var.name_hint}")
                context.types[var] = declared if agreed is None else agreed
                good = good and agreed is not None
            case PatternTuple(patterns=parts):
                inner = _tuple_parts(context, match_, subpattern, type_)
                work += _pair_parts(parts, inner, depth)
            case PatternConstructor(patterns=parts):
                inner = _constructor_parts(context, match_, subpattern, type_)
                work += _pair_parts(parts, inner, depth)
        good = good and inner is not None
    return good


def _pair_parts(
    patterns: tuple[Pattern, ...], types: tuple[Type, ...] | None, depth: int
) -> list[tuple[Pattern, Type, int]]:
    """Pair the parts of a pattern with their types, which are unknown after an error."""
    part_types = types if types is not None else (UNKNOWN,) * len(patterns)
    return [(pattern, type_, depth + 1) for pattern, type_ in zip(patterns, part_types, strict=True)]


def _tuple_parts(
    context: Context, match_: Match, pattern: PatternTuple, data: Type
) -> tuple[Type, ...] | None:
    expected = TupleType(tuple(Hole() for _ in pattern.patterns))
    agreed = context.agree(data, expected, match_, "a tuple pattern")
    return None if agreed is None else expected.fields


def _constructor_parts(
    context: Context, match_: Match, pattern: PatternConstructor, data: Type
) -> tuple[Type, ...] | None:
    declaration = context.constructor(pattern.constructor, match_)
    if declaration is None:
        return None
    declared, constructor = declaration
    if len(pattern.patterns) != len(constructor.inputs):
        wanted = f"{len(constructor.inputs)} part" + "s" * (len(constructor.inputs) != 1)
        context.error(match_, f"the pattern {constructor.name} takes {wanted}, found {len(pattern.patterns)}")
        return None
    holes = {var: Hole() for var in declared.type_vars}
    expected = TypeCall(declared.header, tuple(holes.values()))
    if context.agree(data, expected, match_, f"the pattern {constructor.name}") is None:
        return None
    return tuple(substitute(type_, holes) for type_ in constructor.inputs)


def check_exhaustive(context: Context, match_: Match) -> None:
    """Report the values that a complete match leaves out."""
    patterns = [clause.lhs for clause in match_.clauses]
    hint = "write an arm for each, or `match?`, which fails when it is run"
    try:
        cases = find_unmatched_cases(patterns, context.module.types)
    except TooManyCasesError:
        data = describe_type(context.type_of(match_.data))
        context.error(match_, f"too many combinations of patterns to see whether they handle all of {data}")
        return
    if cases:
        context.error(match_, f"this match does not handle {', '.join(cases)}", hint=hint)
