"""Check loops over ``parallel``, ``vectorized`` and ``tiled``, and nest those over ``grid`` and ``tiled``.

What such a range asks for changes the speed of a loop and never its meaning: it is proven from the source, or
refused with the two places that forbid it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from synr import ast

from nnmagic.diagnostics import Note
from nnmagic.relay.types import AnyDim, TensorType, is_float, is_integer
from nnmagic.tinynn.analysis.bound_names import find_assigned_names, find_mentioned_names, targets_of, walk
from nnmagic.tinynn.analysis.dependences import Access, LoopAccesses, Surroundings, find_reduction
from nnmagic.tinynn.analysis.index_bounds import IndexPolynomial, Interval, number, of_name
from nnmagic.tinynn.analysis.liveness import flow_of
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.operators.scheduled_ranges import tile_range
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values import values as v

# -- independence --------------------------------------------------------------------------------------


def check_independent(ctx: Elaboration, stmt: tree.For, schedule: v.ScheduledRange) -> dict[str, str]:
    """Check that the rounds of a loop are independent; return the names that they reduce to, with operators.

    Raises RefusalError, with the two places that clash.
    """
    word = schedule.word
    variable = _single_target(ctx, stmt, word)
    _refuse_leaving(ctx, stmt, word)
    if word == "vectorized":
        _refuse_inner_loops(ctx, stmt)
    elif ctx.parallel is not None:
        message = "a parallel loop stands inside another one, whose threads are all that there are"
        notes = [Note("this loop is parallel", ctx.parallel)]
        raise v.RefusalError(message, ctx.span(stmt.iterable.span), hint="write range(...)", notes=notes)
    reductions = _check_names(ctx, stmt, word)
    _refuse_captures(ctx, stmt)
    surroundings = _surroundings(ctx)
    variables = {variable: _interval(schedule.ranges[0], surroundings)}
    clash = LoopAccesses(stmt, variables, surroundings).clash(variable)
    if clash is not None:
        _refuse_clash(ctx, word, *clash)
    return reductions


def _refuse_captures(ctx: Elaboration, stmt: tree.For) -> None:
    """Refuse functions from before a loop that read what its rounds assign."""
    assigned = find_assigned_names(stmt).keys()
    for node in walk(stmt.body):
        captured = assigned & _captured_by(ctx, node.id.name) if isinstance(node, ast.Var) else set()
        if captured:
            name = min(captured)
            message = f"a function that reads `{name}` is used in a loop whose independent rounds assign it"
            hint = f"give it `{name}` as an argument, or write range(...)"
            raise v.RefusalError(message, ctx.span(node.span), hint=hint)


def _captured_by(ctx: Elaboration, name: str) -> set[str]:
    """Return the names that a function of that name captures, and those that these capture."""
    captured, work = set[str](), [name]
    while work:
        each = work.pop()
        owner = ctx.environment.owner(each)
        value = None if owner is None else owner.bindings.locals.get(each)
        fresh = v.captured_names([] if value is None else [value]) - captured
        captured |= fresh
        work += fresh
    return captured


def _refuse_clash(ctx: Elaboration, word: str, write: Access, other: Access) -> None:
    message = f"{_ASKED[word]}: it may change an element of `{write.name}` that another round uses"
    kind = "changed" if other.writes else "read"
    notes = [Note(f"`{other.name}` is {kind} here, perhaps by another round", ctx.span(other.span))]
    hint = "give each round elements of its own, as y[i] with the loop's i, or write range(...)"
    raise v.RefusalError(message, ctx.span(write.span), hint=hint, notes=notes)


_ASKED = {
    "parallel": "a round of this parallel loop is not independent",
    "vectorized": "a round of this vectorized loop is not independent",
}


def _single_target(ctx: Elaboration, stmt: tree.For, word: str) -> str:
    if not isinstance(stmt.target, ast.Var):
        message = f"`{word}` gives one number a round"
        hint = f"nest two loops, as in for i in {word}(n): and for j in range(m):"
        raise v.RefusalError(message, ctx.span(stmt.target.span), hint=hint)
    name: str = stmt.target.id.name
    return name


def _refuse_leaving(ctx: Elaboration, stmt: tree.For, word: str) -> None:
    """Refuse what ends a loop before its last round, and its ``else``."""
    for part in _leaving(stmt.body.stmts, inside=False):
        what = "return" if isinstance(part, ast.Return) else "break"
        message = f"`{what}` leaves a `{word}` loop, whose rounds have no order"
        raise v.RefusalError(message, ctx.span(part.span), hint="write range(...), or compute in all rounds")
    if stmt.orelse.stmts:
        message = f"a `{word}` loop has no `else`"
        span = ctx.span(stmt.orelse.stmts[0].span)
        raise v.RefusalError(message, span, hint="write what follows behind the loop")


def _leaving(statements: Sequence[ast.Stmt], *, inside: bool) -> Iterator[ast.Stmt]:
    """Yield the returns among statements, and the breaks that are not of an inner loop."""
    for stmt in statements:
        if isinstance(stmt, ast.Return) or (isinstance(stmt, tree.Break) and not inside):
            yield stmt
        elif isinstance(stmt, ast.If):
            yield from _leaving([*stmt.true.stmts, *stmt.false.stmts], inside=inside)
        elif isinstance(stmt, tree.For | tree.While):
            yield from _leaving(stmt.body.stmts, inside=True)
            yield from _leaving(stmt.orelse.stmts, inside=inside)
        elif isinstance(stmt, tree.MatchNode):
            yield from _leaving([part for case in stmt.cases for part in case.body.stmts], inside=inside)


def _refuse_inner_loops(ctx: Elaboration, stmt: tree.For) -> None:
    for node in walk(stmt.body):
        if isinstance(node, tree.For | tree.While) and not _is_unrolled(ctx, node):
            message = "a vectorized loop contains another loop"
            hint = "vectorize the innermost loop, or unroll the one inside"
            notes = [Note("this loop is vectorized", ctx.span(stmt.iterable.span))]
            raise v.RefusalError(message, ctx.span(node.span), hint=hint, notes=notes)


def _is_unrolled(ctx: Elaboration, stmt: tree.For | tree.While) -> bool:
    is_call = isinstance(stmt, tree.For) and isinstance(stmt.iterable, ast.Call)
    return is_call and _builtin_of(ctx, stmt.iterable.func_name) == "unrolled"


def _check_names(ctx: Elaboration, stmt: tree.For, word: str) -> dict[str, str]:
    """Check the names that rounds assign; return those that they reduce to."""
    names, live = ctx.environment.bindings.locals, ctx.live.to_set()
    exposed = flow_of(stmt.body).exposed
    targets = {target.id.name for target in targets_of(stmt.target)}
    reductions: dict[str, str] = {}
    for name in find_assigned_names(stmt):
        value = names.get(name)
        if name in targets:
            if name in live and value is not None:
                _refuse_last(ctx, stmt, name, word)
            continue
        if value is None or v.is_failed(value) or _has_elements(value):
            continue  # the round's own, or an array whose elements are changed: see the clash of accesses
        if name in exposed:
            operator = find_reduction(stmt.body, name, lambda expr: _builtin_of(ctx, expr))
            if operator is None:
                _refuse_carried_values(ctx, stmt, name, word)
            assert operator is not None
            if word == "vectorized" and not _is_whole(value):
                _refuse_carried_values(ctx, stmt, name, word)
            reductions[name] = operator
        elif name in live:
            _refuse_last(ctx, stmt, name, word)
    for name in sorted(exposed & find_assigned_names(stmt).keys()):
        if name in names and _has_elements(names[name]) and _is_rebound(stmt, name):
            _refuse_carried_values(ctx, stmt, name, word)
    return reductions


def _has_elements(value: v.Value) -> bool:
    return isinstance(value, v.Computed) and isinstance(value.type, TensorType) and bool(value.type.shape)


def _is_whole(value: v.Value) -> bool:
    if isinstance(value, v.Known):
        return isinstance(value.value, int)
    return (
        isinstance(value, v.Computed)
        and isinstance(value.type, TensorType)
        and not is_float(value.type.dtype)
    )


def _is_rebound(stmt: tree.For, name: str) -> bool:
    """Return whether a statement of a loop lets a name stand for another array."""
    return any(
        isinstance(node, ast.Assign) and name in [target.id.name for target in node.lhs]
        for node in walk(stmt.body)
    )


def _refuse_carried_values(ctx: Elaboration, stmt: tree.For, name: str, word: str) -> None:
    assigned = next(
        stmt_node
        for stmt_node in walk(stmt.body)
        if name in find_assigned_names(stmt_node)
        and not isinstance(stmt_node, ast.Block | ast.If | tree.For | tree.While)
    )
    others = [
        stmt_node
        for stmt_node in walk(stmt.body)
        if isinstance(stmt_node, ast.Var)
        and stmt_node.id.name == name
        and stmt_node.span != _target_span(assigned)
    ]
    message = f"{_ASKED[word]}: it needs `{name}` of the round before"
    ways = f"reduce as in {name} += x or {name} = max({name}, x), assign `{name}` before it is read"
    hint = f"{ways}, or write range(...)"
    notes = [Note(f"`{name}` is read here", ctx.span(stmt_node.span)) for stmt_node in others[:1]]
    raise v.RefusalError(message, ctx.span(assigned.span), hint=hint, notes=notes)


def _target_span(stmt: ast.Stmt) -> ast.Span | None:
    return stmt.lhs[0].span if isinstance(stmt, ast.Assign) else None


def _refuse_last(ctx: Elaboration, stmt: tree.For, name: str, word: str) -> None:
    message = f"`{name}` is used after a {word} loop, whose rounds have no last one"
    hint = "write range(...), or keep what is needed in an array"
    raise v.RefusalError(message, ctx.span(stmt.span), hint=hint)


# -- what names are ------------------------------------------------------------------------------------


def _surroundings(ctx: Elaboration) -> Surroundings:
    sizes: set[str] = set()

    def number_of(expr: ast.Expr) -> IndexPolynomial | None:
        return _number_of(ctx, expr, sizes)

    return Surroundings(number_of, lambda expr: _builtin_of(ctx, expr), sizes)


def _interval(bounds: v.RangeOf, surroundings: Surroundings) -> Interval:
    """Return the interval of a range that is known."""
    start = _polynomial_of(bounds.start, surroundings.sizes)
    stop = _polynomial_of(bounds.stop, surroundings.sizes)
    assert isinstance(bounds.step, v.Known)
    assert isinstance(bounds.step.value, int)
    one = number(1)
    if bounds.step.value > 0:
        return Interval(start, None if stop is None else stop - one)
    return Interval(None if stop is None else stop + one, start)


def _polynomial_of(value: v.Value, sizes: set[str]) -> IndexPolynomial | None:
    """Return a number as a polynomial; None for what is not known to be one."""
    match value:
        case v.Known(value=int() as known) if not isinstance(known, bool):
            return number(known)
        case v.Dimension(dim=AnyDim(label=str() as label)):
            sizes.add(f"size {label}")
            return of_name(f"size {label}")
        case v.Dimension(number=inner):
            return _polynomial_of(inner, sizes)
        case v.Computed(expr=expr, type=TensorType(shape=(), dtype=dtype), least=least) if is_integer(dtype):
            name = f"number {id(expr)}"
            if least is not None and least >= 0:
                sizes.add(name)
            return of_name(name)
    return None


def _number_of(ctx: Elaboration, expr: ast.Expr, sizes: set[str]) -> IndexPolynomial | None:
    match expr:
        case ast.Var(id=ast.Id(name=name)):
            owner = ctx.environment.owner(name)
            if owner is not None:
                value = owner.bindings.locals.get(name)
                return None if value is None else _polynomial_of(value, sizes)
        case ast.Call(func_name=ast.Op(name=ast.BuiltinOp.Subscript), params=[ast.Attr(), _]):
            pass
        case ast.Attr() | ast.Call(func_name=ast.Var(id=ast.Id(name="len"))):
            pass
        case _:
            return None
    value = _try(ctx, expr)
    return None if value is None else _polynomial_of(value, sizes)


def _builtin_of(ctx: Elaboration, expr: ast.Expr) -> str | None:
    """Return the name of the language's function, or operator, that an expression stands for; else None."""
    if not isinstance(expr, ast.Var | ast.Attr):
        return None
    match _try(ctx, expr):
        case v.BuiltinName(builtin=builtin):
            return builtin.name
        case v.OperatorName(operator=operator):
            return operator.name
    return None


def _try(ctx: Elaboration, expr: ast.Expr) -> v.Value | None:
    with ctx.trial() as diagnostics:
        value = ctx.evaluate(expr)
        return None if diagnostics.errors else value


# -- nests ---------------------------------------------------------------------------------------------


def nest(
    ctx: Elaboration, stmt: tree.For, schedule: v.ScheduledRange
) -> tuple[tree.For, Mapping[str, v.Value]]:
    """Return the nested loops of one over ``grid`` or ``tiled``, and what the names that it adds stand for.

    Raises RefusalError.
    """
    word = schedule.word
    targets = list(stmt.target.values) if isinstance(stmt.target, ast.Tuple) else [stmt.target]
    if len(targets) != len(schedule.ranges) or not all(isinstance(target, ast.Var) for target in targets):
        count = len(schedule.ranges)
        message = f"this `{word}` gives {count} number{'s' * (count > 1)} a round"
        written = ", ".join("ijklmnpq"[:count]) if count < 9 else "a name for each of them"
        raise v.RefusalError(message, ctx.span(stmt.target.span), hint=f"write for {written} in {word}(...)")
    _refuse_leaving(ctx, stmt, word)
    names = [target.id.name for target in targets]
    if word == "tiled":
        _check_tiles(ctx, stmt, schedule, names)
    rewritten = ctx.rewritten.get(id(stmt))
    added = _added_names(ctx, stmt, names)
    if rewritten is None:
        rewritten = _build(stmt, targets, added, tiled=word == "tiled")
        ctx.rewritten[id(stmt)] = rewritten
        ctx.rewritten_sources.append(stmt)
    return rewritten, _added_values(schedule, added)


def _check_tiles(ctx: Elaboration, stmt: tree.For, schedule: v.ScheduledRange, names: Sequence[str]) -> None:
    """Check that tiles change no order that matters."""
    if len(names) == 1:
        return
    exposed = flow_of(stmt.body).exposed
    for name in find_assigned_names(stmt):
        value = ctx.environment.bindings.locals.get(name)
        if (
            value is None
            or v.is_failed(value)
            or name in names
            or (_has_elements(value) and not _is_rebound(stmt, name))
        ):
            continue
        if name in exposed:
            assigned = next(
                node
                for node in walk(stmt.body)
                if name in find_assigned_names(node)
                and not isinstance(node, ast.Block | ast.If | tree.For | tree.While)
            )
            message = f"tiles change the order of rounds, and a round needs `{name}` of the one before"
            hint = "keep it in an element of an array, or write grid(...)"
            raise v.RefusalError(message, ctx.span(assigned.span), hint=hint)
    surroundings = _surroundings(ctx)
    variables = {
        name: _interval(bounds, surroundings) for name, bounds in zip(names, schedule.ranges, strict=True)
    }
    clash = LoopAccesses(stmt, variables, surroundings).clash_of_tiles(names)
    if clash is not None:
        write, other = clash
        message = f"tiles change the order of rounds, which `{write.name}` may depend on"
        kind = "changed" if other.writes else "read"
        notes = [Note(f"`{other.name}` is {kind} here", ctx.span(other.span))]
        raise v.RefusalError(message, ctx.span(write.span), hint="write grid(...)", notes=notes)


def _added_names(ctx: Elaboration, stmt: tree.For, names: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return names for the range of each loop, the function of its tiles, and the first number of a tile."""
    taken = find_mentioned_names(stmt) | ctx.environment.assigned
    added: list[tuple[str, str, str]] = []
    for name in names:
        first = f"{name}_tile"
        while first in taken:
            first += "_"
        place = f"{name} in line {stmt.span.start_line}, column {stmt.span.start_column}"
        added.append((f"range of {place}", f"tile of {place}", first))
    return added


def _added_values(schedule: v.ScheduledRange, added: Sequence[tuple[str, str, str]]) -> dict[str, v.Value]:
    values: dict[str, v.Value] = {}
    for number_, (whole, tile, _) in enumerate(added):
        bounds = schedule.ranges[number_]
        if schedule.word == "grid":
            values[whole] = bounds
            continue
        size = schedule.tiles[number_]
        assert isinstance(bounds.step, v.Known)
        assert isinstance(bounds.step.value, int)
        values[whole] = v.RangeOf(bounds.start, bounds.stop, v.Known(bounds.step.value * size))

        def make(call: Arguments, bounds: v.RangeOf = bounds, size: int = size) -> v.Value:
            return tile_range(bounds, size, call.given["first"], call.span)

        values[tile] = v.BuiltinName(Builtin("tile", "first", make, "Return the range of a tile."))
    return values


def _build(
    stmt: tree.For, targets: Sequence[ast.Var], added: Sequence[tuple[str, str, str]], *, tiled: bool
) -> tree.For:
    span, empty = stmt.iterable.span, ast.Block(stmt.span, [])

    def variable(name: str) -> ast.Var:
        return ast.Var(span, ast.Id(span, name))

    heads: list[tuple[ast.Var, ast.Expr]] = []
    if tiled:
        heads += [(variable(first), variable(stop)) for stop, _, first in added]
        heads += [
            (target, ast.Call(span, variable(tile), [variable(first)], {}))
            for target, (_, tile, first) in zip(targets, added, strict=True)
        ]
    else:
        heads += [(target, variable(stop)) for target, (stop, *_) in zip(targets, added, strict=True)]
    body = stmt.body
    for target, iterable in reversed(heads):
        body = ast.Block(stmt.span, [tree.For(stmt.span, target, iterable, body, empty)])
    (outermost,) = body.stmts
    assert isinstance(outermost, tree.For)
    return outermost


def static_rounds(ctx: Elaboration, stmt: tree.For, count: int | v.Computed, most: int) -> int:
    """Return the number of rounds of an unrolled loop. Raises RefusalError."""
    span = ctx.span(stmt.iterable.span)
    if not isinstance(count, int):
        message = "an unrolled loop has a number of rounds that is known at compile time"
        raise v.RefusalError(message, span, hint="write range(...)")
    if count > most:
        message = f"a loop of {count} rounds is too long to be unrolled (at most {most})"
        raise v.RefusalError(message, span, hint="write range(...), and unroll a loop inside it")
    return count


__all__ = ["check_independent", "nest", "static_rounds"]
