"""Warn of unused variables and unreachable statements in a cell that compiles.

Names that begin with ``_``, loop variables, and the names of an unpacked tuple or a pattern never warn.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from synr import ast

from nnmagic.diagnostics import Diagnostic, Note, Span
from nnmagic.tinynn.analysis.bound_names import find_lists_changed, targets_of, walk
from nnmagic.tinynn.syntax import tree

#: Converts a span of the tree to a span of a diagnostic.
ToSpan = Callable[[ast.Span], Span]


def lint(cell: tree.CellNode, to_span: ToSpan, changed: Mapping[str, Container[str]]) -> list[Diagnostic]:
    """Return every warning of a cell, in source order.

    ``changed``: for each function, the parameters whose arrays it changes.
    """
    warnings: list[Diagnostic] = []
    for definition in cell.funcs.values():
        statements = list(walk(definition.body))
        dead: set[int] = set()
        for stmt in statements:
            if isinstance(stmt, ast.Block) and id(stmt) not in dead:
                warnings += _unreachable(stmt.stmts, to_span, dead)
        warnings += _find_unused_variables(definition, to_span, dead, changed[definition.name])
        for function in (stmt for stmt in statements if isinstance(stmt, tree.DefinitionNode)):
            warnings += _find_unused_variables(function, to_span, dead)
    return sorted(warnings, key=lambda each: (each.span.line, each.span.column) if each.span else (0, 0))


# -- unused variables ----------------------------------------------------------------------------------


def _find_unused_variables(
    function: tree.DefinitionNode, to_span: ToSpan, dead: set[int], changed: Container[str] = ()
) -> Iterator[Diagnostic]:
    """Yield a warning for each variable that neither its function nor a nested one reads."""
    nodes = list(walk(function.body))
    targets = {
        id(target) for stmt in nodes for target in (*_assignment_targets(stmt), *_exempt_variables(stmt))
    }
    quiet = {stmt.id.name for stmt in nodes if isinstance(stmt, ast.Var) and id(stmt) not in targets}
    quiet.update(target.id.name for stmt in nodes for target in _exempt_variables(stmt))
    quiet.update(stmt.name for stmt in nodes if isinstance(stmt, tree.CapturePattern) and stmt.name)
    quiet.update(find_lists_changed(function.body) & {parameter.name for parameter in function.params})
    for stmt in walk(function.body, into_functions=False):
        for target in _assignment_targets(stmt):
            name = target.id.name
            if name in quiet or name in changed or name.startswith("_") or id(target) in dead:
                continue
            quiet.add(name)  # one warning per name
            if not _is_written(name, to_span(target.span)):
                continue
            hint = "leave it out, or begin its name with `_`"
            message = f"`{name}` is assigned, but nothing uses it"
            yield Diagnostic(message, to_span(target.span), hint, severity="warning")


def _is_written(name: str, span: Span) -> bool:
    """Return whether a name stands in the source, as one for an attribute of an object does not."""
    line = span.source.line(span.line) if span.source else None
    return line is None or line.startswith(name, span.column - 1)


def _assignment_targets(node: ast.Node) -> Iterator[ast.Var]:
    """Yield the variables that an assignment binds to its whole value."""
    match node:
        case ast.Assign(lhs=targets) | tree.Unpack(targets=targets):
            yield from (target for target in targets if isinstance(target, ast.Var))
        case tree.NamedExpr(target=target):
            yield target


def _exempt_variables(node: ast.Node) -> Iterator[ast.Var]:
    """Yield the variables that a loop or an unpacked tuple binds, which may stay unused."""
    match node:
        case tree.Unpack(targets=targets):
            for target in targets:
                if not isinstance(target, ast.Var):
                    yield from targets_of(target)
        case tree.For(target=target) | tree.Generator(target=target):
            yield from targets_of(target)


# -- unreachable statements ----------------------------------------------------------------------------


def _unreachable(statements: Sequence[ast.Stmt], to_span: ToSpan, dead: set[int]) -> Iterator[Diagnostic]:
    """Yield a warning for the first unreachable statement; add the parts of all of them to ``dead``."""
    for index, before in enumerate(statements):
        if _leaves(before):
            unreachable = [
                statement for statement in statements[index + 1 :] if not isinstance(statement, tree.Pass)
            ]
            dead.update(id(node) for statement in unreachable for node in walk(statement))
            if unreachable:
                note = Note("nothing goes on after this", to_span(before.span))
                message, hint = "this is never reached", "leave it out"
                yield Diagnostic(message, to_span(unreachable[0].span), hint, (note,), severity="warning")
            return


def _leaves(statement: ast.Stmt) -> bool:
    """Return whether control never reaches the statements that follow in the block."""
    match statement:
        case ast.Return() | tree.Raise() | tree.Break() | tree.Continue():
            return True
        case ast.Assert(condition=ast.Constant(value=False)):
            return True
        case ast.If(true=then, false=other):
            return _block_leaves(then) and _block_leaves(other)
        case tree.While(condition=ast.Constant(value=True), body=body):
            return not _has_break(body)
        case tree.MatchNode(cases=cases):
            last = cases[-1]
            takes_all = isinstance(last.pattern, tree.CapturePattern) and last.pattern.pattern is None
            return takes_all and last.guard is None and all(_block_leaves(case.body) for case in cases)
    return False


def _block_leaves(block: ast.Block) -> bool:
    return any(map(_leaves, block.stmts))


def _has_break(block: ast.Block) -> bool:
    """Return whether the body has a ``break`` of this very loop."""
    work: list[ast.Stmt] = list(block.stmts)
    while work:
        match work.pop():
            case tree.Break():
                return True
            case ast.If(true=then, false=other):
                work += [*then.stmts, *other.stmts]
            case tree.MatchNode(cases=cases):
                work += [statement for case in cases for statement in case.body.stmts]
            case tree.For(orelse=orelse) | tree.While(orelse=orelse):
                work += orelse.stmts
    return False
