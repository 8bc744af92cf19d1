"""Write names of views out: after ``p = q[0]``, ``p[1:] -= x`` is ``q[0, 1:] -= x``.

A cell's arrays are values: an assignment to elements of ``p`` gives a new array, of which ``q`` knows
nothing. Where both names are used, each use of ``p`` becomes that of the part of ``q`` that it stands for, so
that all names show the same memory, as NumPy's do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import attr
from synr import ast

from nnmagic.tinynn.analysis.bound_names import bound_names_of, find_mentioned_names, targets_of, walk
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.syntax.tree_building import is_subscript, map_parts, subscript, subscripts_of

#: How many views may be views of each other.
_MOST = 16


class _KeptError(Exception):
    """A use of a name cannot be written as one of the array that it is a view of."""


@dataclass(frozen=True, slots=True)
class _View:
    """What a name stands for: a part of the array ``root``, by one index after the other, or all of it."""

    name: str
    root: str
    indices: tuple[tuple[ast.Expr, ...], ...]
    source: ast.Expr

    def reads(self) -> frozenset[str]:
        """Return the names in the indices."""
        return frozenset[str]().union(*(find_mentioned_names(list(index)) for index in self.indices))


def write_out_views(definition: tree.DefinitionNode, names: Collection[str]) -> tree.DefinitionNode | None:
    """Return a function in which names that share memory with ``names`` are written out.

    Return None if none can be: where a name, its array or a name of its index is bound anew, or a nested
    function uses it.
    """
    wanted, kept = set(names), set[str]()
    result = definition
    while True:
        views = [view for view in _find_views(result) if view.name not in kept]
        wanted |= {view.root for view in views if view.name in wanted}
        chosen = next((view for view in views if {view.name, view.root} & wanted), None)
        if chosen is None:
            result = _write_out_inside(result, names)
            return None if result is definition else result
        written = _write_out(result, chosen.name, names)
        if written is None:
            kept.add(chosen.name)
        else:
            result = written


def _write_out_inside(definition: tree.DefinitionNode, names: Collection[str]) -> tree.DefinitionNode:
    """Return a function with the views of its local functions written out."""
    for node in walk(definition.body, into_functions=False):
        if isinstance(node, tree.DefinitionNode) and (written := write_out_views(node, names)) is not None:
            definition = attr.evolve(definition, body=_with(definition.body, node, written))
    return definition


def _with(node: ast.Node, old: ast.Node, new: ast.Node) -> ast.Node:
    """Return a part of a tree with another node in place of one."""
    return new if node is old else map_parts(node, lambda part: _with(part, old, new))


def _find_views(definition: tree.DefinitionNode) -> Iterator[_View]:
    for node in walk(definition.body, into_functions=False):
        for name, value in _bindings_of(node):
            if (view := _read_view(name, value)) is not None:
                yield view


def _bindings_of(stmt: ast.Node) -> list[tuple[str, ast.Expr]]:
    """Return the names that a statement binds, with the values that it gives each."""
    if type(stmt) is ast.Assign and stmt.ty is None:
        return [(stmt.lhs[0].id.name, stmt.rhs)]
    if type(stmt) is tree.Unpack and len(stmt.targets) == 1:
        target, value = stmt.targets[0], stmt.rhs
        if isinstance(target, ast.Var):
            return [(target.id.name, value)]
        are_tuples = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
        if are_tuples and len(target.values) == len(value.values):
            pairs = zip(target.values, value.values, strict=True)
            return [
                (target_item.id.name, item) for target_item, item in pairs if isinstance(target_item, ast.Var)
            ]
    return []


def _read_view(name: str, value: ast.Expr) -> _View | None:
    """Return the view that a name stands for; None for other values than parts by slices and ints."""
    root, chain = subscripts_of(value)
    indices = [tuple(part.params[1].values) for part in chain]
    if not all(isinstance(item, ast.Slice) or _is_number(item) for index in indices for item in index):
        return None
    if len(indices) > _MOST or not isinstance(root, ast.Var) or root.id.name == name:
        return None
    return _View(name, root.id.name, tuple(indices), value)


def _is_number(item: ast.Expr) -> bool:
    """Return whether an index may be an int: what is arithmetic on names and numbers."""
    match item:
        case ast.Constant(value=value):
            return isinstance(value, int) and not isinstance(value, bool)
        case ast.Var():
            return True
        case ast.Call(func_name=ast.Op(), params=params):
            return not is_subscript(item) and all(map(_is_number, params))
    return False


# -- one name ------------------------------------------------------------------------------------------


def _write_out(
    definition: tree.DefinitionNode, name: str, asked: Collection[str]
) -> tree.DefinitionNode | None:
    """Return a function without a name of views, wherever it is bound; None where that cannot be."""
    try:
        body = _write_out_in_block(definition.body, name, name in asked)
    except _KeptError:
        return None
    if name in find_mentioned_names(body) or any(param.name == name for param in definition.params):
        return None
    return attr.evolve(definition, body=body)


def _write_out_in_block(block: ast.Block, name: str, is_asked: bool) -> ast.Block:
    statements = list(block.stmts)
    done: list[ast.Stmt] = []
    while statements:
        stmt = statements.pop(0)
        bound = dict(_bindings_of(stmt))
        if name not in bound:
            done.append(_in_blocks_of(stmt, name, is_asked))
            continue
        view = _read_view(name, bound[name])
        if view is None or not _lasts(view, stmt, statements):
            raise _KeptError
        items = [item for index in view.indices for item in index]
        if not is_asked and not (items and all(map(_is_certain, items))):
            raise _KeptError  # an array as an index makes a copy, and what has another name may be a number
        done += _without(stmt, name)
        statements = [part for each in statements for part in _Replacing(view).statements(each)]
    return attr.evolve(block, stmts=done)


def _in_blocks_of(stmt: ast.Stmt, name: str, is_asked: bool) -> ast.Stmt:
    """Return a statement with the name written out in the blocks inside it."""
    changed = {
        key: _write_out_in_block(value, name, is_asked)
        for key, value in vars(stmt).items()
        if isinstance(value, ast.Block) and name in find_mentioned_names(value)
    }
    if isinstance(stmt, tree.DefinitionNode) and changed:
        raise _KeptError
    if isinstance(stmt, tree.MatchNode) and name in find_mentioned_names(stmt):
        raise _KeptError
    return attr.evolve(stmt, **changed) if changed else stmt


def _is_certain(item: ast.Expr) -> bool:
    return isinstance(item, ast.Slice) or not find_mentioned_names(item)


def _lasts(view: _View, stmt: ast.Stmt, rest: Sequence[ast.Stmt]) -> bool:
    """Return whether a name stands for the view in all statements of a block after the one that binds it."""
    fixed = {view.name, view.root} | view.reads()
    others = {name for name, _ in _bindings_of(stmt)} - {view.name}
    if others & fixed:
        return False
    for node in walk(list(rest), into_functions=False):
        has_scope = isinstance(node, tree.DefinitionNode | tree.Lambda | tree.Comprehension)
        if has_scope and view.name in find_mentioned_names(node):
            return False
        changed = set(bound_names_of(node))
        if isinstance(node, tree.UpdateName):
            changed -= {view.name, view.root}
        elif isinstance(node, tree.Unpack):
            changed = {target.id.name for whole in node.targets for target in targets_of(whole)}
        elif isinstance(node, tree.UpdateElements):
            changed = set()
        if changed & fixed:
            return False
    return True


def _without(stmt: ast.Stmt, name: str) -> list[ast.Stmt]:
    """Return a statement that does not bind one of its names."""
    if isinstance(stmt, tree.Unpack) and isinstance(stmt.targets[0], ast.Tuple):
        target, value = stmt.targets[0], stmt.rhs
        pairs = [
            (target_item, item)
            for target_item, item in zip(target.values, value.values, strict=True)
            if not (isinstance(target_item, ast.Var) and target_item.id.name == name)
        ]
        if pairs:
            lhs, rhs = ([pair[side] for pair in pairs] for side in (0, 1))
            targets = [attr.evolve(target, values=lhs)]
            return [attr.evolve(stmt, targets=targets, rhs=attr.evolve(value, values=rhs))]
    return []


@dataclass(frozen=True, slots=True)
class _Replacing:
    """Replaces a name by the view that it stands for."""

    view: _View

    def statements(self, stmt: ast.Stmt) -> list[ast.Stmt]:
        """Return what a statement becomes."""
        name = self.view.name
        if name not in find_mentioned_names(stmt):
            return [stmt]
        if type(stmt) is tree.UpdateName and stmt.lhs[0].id.name == name:
            whole = subscript(stmt.span, stmt.lhs[0], [tree.EllipsisLiteral(stmt.span)])
            stmt = tree.UpdateElements(stmt.span, whole, stmt.rhs.func_name, stmt.rhs.params[1])
        bound = set(bound_names_of(stmt))
        match stmt:
            case tree.UpdateElements():
                bound = set()
            case tree.Unpack(targets=targets):
                bound = {each.id.name for target in targets for each in targets_of(target)}
        if name in bound:
            raise _KeptError
        return [map_parts(stmt, self._part)]

    def expression(self, node: ast.Expr) -> ast.Expr:
        """Return an expression with the view for the name."""
        if isinstance(node, ast.Var):
            if node.id.name != self.view.name:
                return node
            return attr.evolve(self.view.source, span=node.span)
        if isinstance(node, tree.ChangingCall) and self.view.name in node.changed:
            raise _KeptError
        return map_parts(node, self._part)

    def _part(self, node: ast.Node) -> ast.Node:
        match node:
            case ast.Block():
                statements = [part for stmt in node.stmts for part in self.statements(stmt)]
                return attr.evolve(node, stmts=statements)
            case ast.Stmt():
                raise _KeptError
        return self.expression(node)
