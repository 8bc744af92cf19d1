"""Questions about a cell's tree: which names it binds, which functions it mentions. Knows the tree only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from synr import ast

from nnmagic.relay.callgraph import components
from nnmagic.tinynn import tree
from nnmagic.tinynn.unpacking import names_of


def names_bound(statement: ast.Stmt) -> list[str]:
    """The names that a statement binds."""
    match statement:
        case ast.Assign():
            return [target.id.name for target in statement.lhs]
        case tree.Unpack():
            return [name for target in statement.targets for name in names_of(target)]
        case tree.InvalidStatement():
            return list(statement.names)
    return []


def assigned_names(body: ast.Block) -> Iterator[str]:
    """The names that a function's statements bind: they are its own wherever they stand in it."""
    for statement in body.stmts:
        yield from names_bound(statement)


def callees_first(functions: Mapping[str, tree.Definition]) -> list[str]:
    """The functions in an order in which each stands after those that it mentions, as far as there is one."""
    graph = {name: tuple(_mentioned(definition, functions)) for name, definition in functions.items()}
    return [name for group in components(graph) for name in group]


def _mentioned(definition: tree.Definition, functions: Mapping[str, tree.Definition]) -> dict[str, None]:
    """The cell's functions whose names appear in a body."""
    found: dict[str, None] = {}
    work: list[object] = [definition.body]
    while work:
        node = work.pop()
        if isinstance(node, ast.Var):
            if node.id.name in functions:
                found[node.id.name] = None
        elif isinstance(node, ast.Node):
            work += [part for name, part in vars(node).items() if name != "span"]
        elif isinstance(node, list | tuple):
            work += node
        elif isinstance(node, dict):
            work += [*node.keys(), *node.values()]
    return found
