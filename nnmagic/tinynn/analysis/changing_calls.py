"""Mark the calls of functions that change arguments, so that the names count as assigned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import attr
from synr import ast

from nnmagic.tinynn.analysis import bound_names as bound
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values.values import Formal

#: Finds the parameters of a function that changes arguments, by how a call writes it; None for any other.
FindFormals = Callable[[ast.Expr], Sequence[Formal] | None]


def mark_changing_calls(definition: tree.DefinitionNode, find_formals: FindFormals) -> tree.DefinitionNode:
    """Return a function whose calls of functions that change arguments are ChangingCall nodes.

    A call inside an expression stands before its statement, where what it changes is not mentioned otherwise.
    """
    calls = (node for node in bound.walk(definition.body) if isinstance(node, ast.Call))
    if all(isinstance(call.func_name, ast.Op) or find_formals(call.func_name) is None for call in calls):
        return definition
    taken = set(bound.find_mentioned_names(definition))
    return attr.evolve(definition, body=_mark(_hoist_in(definition.body, find_formals, taken), find_formals))


def find_changed_parameters(definition: tree.DefinitionNode) -> frozenset[str]:
    """Return the parameters whose arrays a function changes, and that never stand for another value.

    ``x += value`` changes an array. Where the function returns nothing, ``x`` is one, or the line is useless.
    """
    names = {parameter.name for parameter in definition.params}
    changed = bound.find_element_assignments(definition.body) & names
    if not bound.returns(definition):
        nodes = bound.walk(definition.body, into_functions=False)
        changed |= {node.lhs[0].id.name for node in nodes if type(node) is tree.UpdateName} & names
    return changed - {name for name, _ in bound.find_rebindings(definition.body, changed)}


# -- calls inside expressions ----------------------------------------------------------------------------


def _hoist_in(block: ast.Block, find_formals: FindFormals, taken: set[str]) -> ast.Block:
    """Return a block with the calls inside its expressions as statements before."""
    return attr.evolve(
        block, stmts=[part for stmt in block.stmts for part in _hoist(stmt, find_formals, taken)]
    )


def _hoist(stmt: ast.Stmt, find_formals: FindFormals, taken: set[str]) -> Iterator[ast.Stmt]:
    blocks = {
        name: _hoist_in(var, find_formals, taken)
        for name, var in vars(stmt).items()
        if isinstance(var, ast.Block) and not isinstance(stmt, tree.DefinitionNode)
    }
    stmt = attr.evolve(stmt, **blocks) if blocks else stmt
    field = _EXPRESSIONS.get(type(stmt))
    root = None if field is None else getattr(stmt, field)
    calls = [] if root is None else list(_calls_in(root, find_formals))
    if not calls or (calls[0] is root and not isinstance(stmt, ast.If)):
        yield stmt
        return
    changed = {name for call in calls for name in _changed_by(call, find_formals)}
    names = dict[int, ast.Expr]()
    before = list[ast.Stmt]()
    for call in calls:  # those inside a call come before it
        name = f"{call.func_name.id.name}_result"
        while name in taken:
            name += "_"
        taken.add(name)
        target = ast.Var(call.span, ast.Id(call.span, name))
        before.append(ast.Assign(call.span, [target], None, _with_names(call, names)))
        names[id(call)] = target
    assert field is not None
    header = attr.evolve(stmt, **{field: _with_names(root, names)})
    # What is assigned is read last.
    late = () if isinstance(stmt, tree.UpdateElements) else ("targets", "lhs")
    read = attr.evolve(header, **{field: _without_names(getattr(header, field))})
    if changed & bound.find_mentioned_names(
        [var for name, var in vars(read).items() if name not in blocks and name not in late]
    ):
        yield stmt
        return
    yield from before
    yield header


#: The expressions of statements, which are computed before anything else.
_EXPRESSIONS = {
    ast.Assign: "rhs",
    tree.UpdateName: "rhs",
    tree.Unpack: "rhs",
    tree.UpdateElements: "rhs",
    ast.Return: "value",
    ast.If: "condition",
    ast.Assert: "condition",
}


def _calls_in(expr: ast.Expr, find_formals: FindFormals) -> Iterator[ast.Call]:
    """Yield the calls that change arguments and that are always made, in the order in which they are."""
    match expr:
        case ast.Tuple(values=values):
            for value in values:
                yield from _calls_in(value, find_formals)
        case ast.Call(params=params, keyword_params=keywords):
            for value in (*params, *keywords.values()):
                yield from _calls_in(value, find_formals)
            if not isinstance(expr.func_name, ast.Op) and find_formals(expr.func_name) is not None:
                yield expr


def _with_names(expr: ast.Expr, names: Mapping[int, ast.Expr]) -> ast.Expr:
    if id(expr) in names:
        return names[id(expr)]
    match expr:
        case ast.Tuple(values=values):
            return attr.evolve(expr, values=[_with_names(argument, names) for argument in values])
        case ast.Call(params=params, keyword_params=keywords):
            given = {key: _with_names(argument, names) for key, argument in keywords.items()}
            return attr.evolve(
                expr, params=[_with_names(argument, names) for argument in params], keyword_params=given
            )
    return expr


def _without_names(expr: ast.Expr) -> ast.Expr:
    """Return a tuple without the names in it: each is the array itself, before a change and after it."""
    if not isinstance(expr, ast.Tuple):
        return expr
    values = [_without_names(value) for value in expr.values if not isinstance(value, ast.Var)]
    return attr.evolve(expr, values=values)


def _changed_by(call: ast.Call, find_formals: FindFormals) -> list[str]:
    marked = _mark_call(call, find_formals)
    return list(marked.changed) if isinstance(marked, tree.ChangingCall) else []


# -- marks ----------------------------------------------------------------------------------------------


def _mark(node: ast.Node, find_formals: FindFormals) -> ast.Node:
    """Return a block or a statement with its calls marked."""

    def inner(part: ast.Node) -> ast.Node:
        return _mark(part, find_formals)

    def call(expr: ast.Expr) -> ast.Expr:
        return _mark_call(expr, find_formals)

    match node:
        case tree.WriteOut(rhs=rhs) if find_formals(rhs.func_name) is not None:  # a parameter called `out`
            target = node.targets[0]
            is_whole = any(isinstance(part, tree.EllipsisLiteral) for part in bound.walk(target.params[1]))
            out = {ast.Constant(node.span, "out"): target.params[0] if is_whole else target}
            whole = ast.Call(rhs.span, rhs.func_name, rhs.params, {**rhs.keyword_params, **out})
            return tree.CallStatement(node.span, call(whole))
        case ast.Block(stmts=stmts):
            return attr.evolve(node, stmts=[inner(statement) for statement in stmts])
        case ast.Assign(rhs=rhs) | tree.Unpack(rhs=rhs):
            return attr.evolve(node, rhs=call(rhs))
        case ast.Return(value=value) if value is not None:
            return attr.evolve(node, value=call(value))
        case tree.CallStatement():
            return attr.evolve(node, call=call(node.call))
        case ast.If():
            return attr.evolve(node, true=inner(node.true), false=inner(node.false))
        case tree.For() | tree.While():
            return attr.evolve(node, body=inner(node.body), orelse=inner(node.orelse))
        case tree.MatchNode(cases=cases):
            return attr.evolve(node, cases=[attr.evolve(case, body=inner(case.body)) for case in cases])
        case tree.DefinitionNode():
            return attr.evolve(node, body=inner(node.body))
    return node


def _mark_call(expr: ast.Expr, find_formals: FindFormals) -> ast.Expr:
    if not isinstance(expr, ast.Call) or isinstance(expr.func_name, ast.Op):
        return expr
    formals = find_formals(expr.func_name)
    if formals is None:
        return expr
    positional = [formal for formal in formals if formal.kind != "KEYWORD_ONLY"]
    passed = list(zip(positional, expr.params, strict=False))
    by_name = {formal.name: formal for formal in formals}
    passed += [(by_name[key.value], arg) for key, arg in expr.keyword_params.items() if key.value in by_name]
    changed = [arg.id.name for formal, arg in passed if formal.destination and isinstance(arg, ast.Var)]
    return tree.ChangingCall(expr.span, expr.func_name, expr.params, expr.keyword_params, changed)
