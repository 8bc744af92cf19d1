"""Find the names that a cell's tree binds and mentions, and the statements that may leave it."""

from __future__ import annotations

import functools
import weakref
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import TypeVar

from synr import ast

from nnmagic.relay.structure.callgraph import components
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.syntax.tree_building import subscripts_of

_Result = TypeVar("_Result")

#: After so many results those of nodes that are gone are looked for.
_MANY_RESULTS = 1000


def once_per_node(function: Callable[[object], _Result]) -> Callable[[object], _Result]:
    """Remember the result for each node of a tree: loops and calls elaborate the same nodes many times.

    The result must not be changed. What is no node, such as a list of nodes, has no result remembered. Those
    of nodes that are gone are dropped now and then: what Python calls as a node is freed swallows interrupts.
    """
    results: dict[int, tuple[weakref.ref[ast.Node], _Result]] = {}
    most = [_MANY_RESULTS]

    @functools.wraps(function)
    def find(node: object) -> _Result:
        if not isinstance(node, ast.Node):
            return function(node)
        key = id(node)
        cached = results.get(key)
        if cached is not None and cached[0]() is node:
            return cached[1]
        if len(results) > most[0]:
            for other in [key for key, (reference, _) in list(results.items()) if reference() is None]:
                results.pop(other, None)
            most[0] = max(_MANY_RESULTS, 2 * len(results))
        result = function(node)
        results[key] = weakref.ref(node), result
        return result

    return find


def names_of(target: ast.Expr) -> list[str]:
    """Return every name that the left side of an assignment binds, anew where it assigns elements."""
    match target:
        case ast.Var():
            return [target.id.name]
        case ast.Call():
            return names_of(subscripts_of(target)[0])
        case tree.Starred():
            return names_of(target.value)
        case ast.Tuple():
            return [name for value in target.values for name in names_of(value)]
    return []


def targets_of(target: ast.Expr) -> Iterator[ast.Var]:
    """Return every variable that the left side of an assignment binds."""
    match target:
        case ast.Var():
            yield target
        case tree.Starred():
            yield from targets_of(target.value)
        case ast.Tuple():
            for value in target.values:
                yield from targets_of(value)


def bound_names_of(node: ast.Node) -> list[str]:
    """Return the names that one node binds, without those of its parts."""
    match node:
        case ast.Assign():
            return [target.id.name for target in node.lhs]
        case tree.Unpack():
            return [name for target in node.targets for name in names_of(target)]
        case tree.UpdateElements():
            return names_of(node.target)
        case tree.ChangeTable(name=name):
            return [name.id.name]
        case tree.Grow(rows=rows):
            return [rows.id.name]
        case tree.InvalidStatement() | tree.InvalidPattern():
            return list(node.names)
        case tree.For():
            return names_of(node.target)
        case tree.NamedExpr():
            return [node.target.id.name]
        case tree.ChangingCall():
            return list(node.changed)
        case tree.DefinitionNode():
            return [node.name]
        case tree.CapturePattern() | tree.StarPattern():
            return [] if node.name is None else [node.name]
    return []


@once_per_node
def find_assigned_names(node: object) -> Mapping[str, None]:
    """Return the names that a piece of a function binds, in source order; nested functions keep theirs."""
    return dict.fromkeys(name for part in walk(node, into_functions=False) for name in bound_names_of(part))


@once_per_node
def find_local_names(node: object) -> frozenset[str]:
    """Return the names that are a function's own, as in Python: an assignment to elements makes none."""
    bound = find_assigned_names(node)
    changed = {name for inner in walk(node, into_functions=False) for name in _changed_names(inner)}
    if not changed:
        return frozenset(bound)
    nodes = list(walk(node, into_functions=False))
    also_bound = {
        name for inner in nodes for name in bound_names_of(inner) if name not in _changed_names(inner)
    }
    also_bound |= {target.id.name for inner in nodes for target in _bound_variables(inner)}
    return frozenset(name for name in bound if name not in changed or name in also_bound)


@once_per_node
def find_element_assignments(node: object) -> frozenset[str]:
    """Return the names whose elements a piece of a function assigns, without nested functions."""
    return frozenset(name for part in walk(node, into_functions=False) for name in _changed_names(part))


def _changed_names(node: ast.Node) -> list[str]:
    """Return the names whose elements a statement assigns."""
    match node:
        case tree.Unpack():
            return [name for target in node.targets for name in _owners_of(target)]
        case tree.UpdateElements():
            return names_of(node.target)
        case tree.ChangeTable(name=name):
            return [name.id.name]
        case tree.ChangingCall():
            return list(node.changed)
    return []


def _owners_of(target: ast.Expr) -> Iterator[str]:
    match target:
        case ast.Call():
            yield from names_of(target)
        case ast.Tuple():
            for value in target.values:
                yield from _owners_of(value)


def _bound_variables(node: ast.Node) -> Iterator[ast.Var]:
    if isinstance(node, tree.Unpack):
        for target in node.targets:
            yield from targets_of(target)


@once_per_node
def changes_tensors(node: object) -> bool:
    """Return whether a piece of a cell changes tensors in place, or mentions what does."""
    return any(
        type(inner) is tree.UpdateName or _changed_names(inner) or _mentioned_word(inner) in ASSIGNING
        for inner in walk(node)
    )


@once_per_node
def deletes_entries(node: object) -> bool:
    """Return whether a piece of a cell may delete entries of dictionaries, or members of sets."""
    for inner in walk(node):
        if isinstance(inner, tree.ChangeList):
            return True
        if isinstance(inner, tree.ChangeTable) and inner.word not in ("add", "update_by"):
            return True
    return False


#: The functions of the language that are loops which assign elements.
ASSIGNING = frozenset({"scan", "apply_along_axis", "piecewise", "gcd", "lcm", "delete"})


def _mentioned_word(node: ast.Node) -> str | None:
    """Return a name, or the attribute of an object."""
    word = node.field if isinstance(node, ast.Attr) else node.id if isinstance(node, ast.Var) else None
    return None if word is None else str(word.name)


def find_reassigned_names(node: object, given: Container[str] = ()) -> frozenset[str]:
    """Return the names that are bound more than once, or in a loop; ``given``: those bound before it."""
    return frozenset(name for name, times in _count_bindings(node).items() if times > 1 or name in given)


@once_per_node
def _count_bindings(node: object) -> Mapping[str, int]:
    """Return how often a piece of a function binds its names; a loop binds its own twice."""
    bound: Counter[str] = Counter()
    for inner in walk(node, into_functions=False):
        bound.update(bound_names_of(inner))
        if isinstance(inner, tree.For | tree.While):
            bound.update(find_assigned_names(inner).keys())
    return bound


@once_per_node
def find_mentioned_names(node: object) -> frozenset[str]:
    """Return every name that a piece of a function mentions, including nested functions."""
    return frozenset(inner.id.name for inner in walk(node) if isinstance(inner, ast.Var))


def reads_outer_name(function: tree.DefinitionNode | tree.Lambda, name: str) -> bool:
    """Return whether the body of a function, or one inside it, mentions a name that is not its own."""
    if name in find_local_names(function.body) or any(param.name == name for param in function.params):
        return False
    for node in walk([function.body], into_functions=False):
        if isinstance(node, ast.Var) and node.id.name == name:
            return True
        if isinstance(node, tree.DefinitionNode | tree.Lambda):
            given = [value for key, value in vars(node).items() if key != "body"]
            if name in find_mentioned_names(given) or reads_outer_name(node, name):
                return True
    return False


@once_per_node
def assigns_in_expressions(node: object) -> bool:
    """Return whether an expression of a piece of a function assigns a name, with ``:=`` or by a call."""
    assigning = tree.NamedExpr | tree.ChangingCall
    return any(isinstance(part, assigning) for part in walk(node, into_functions=False))


def find_rebindings(node: object, names: Container[str]) -> Iterator[tuple[str, ast.Span]]:
    """Yield those of the names that a piece of a function lets stand for another value, with the statement.

    An assignment to elements does not, nor does one with an operator, which changes the tensor.
    """
    for inner in walk(node, into_functions=False):
        if isinstance(inner, tree.UpdateName):
            continue
        bound = [target.id.name for target in _bound_variables(inner)]
        if not isinstance(inner, tree.Unpack):
            bound = [name for name in bound_names_of(inner) if name not in _changed_names(inner)]
        for name in bound:
            if name in names:
                yield name, inner.span


def find_lists_changed(node: object) -> frozenset[str]:
    """Return the names of lists that a piece of a function changes and never lets stand for another value."""
    changed, bound = set[str](), set[str]()
    for inner in walk(node, into_functions=False):
        names = {target.id.name for target in _bound_variables(inner)}
        if not isinstance(inner, tree.Unpack):
            names = set(bound_names_of(inner)) - set(_changed_names(inner))
        (changed if isinstance(inner, tree.UpdateName | tree.ChangeList) else bound).update(names)
    return frozenset(changed - bound)


def returns(definition: tree.DefinitionNode) -> bool:
    """Return whether a function returns a value anywhere."""
    return any(
        isinstance(node, ast.Return) and node.value is not None
        for node in walk(definition.body, into_functions=False)
    )


@once_per_node
def may_leave(node: object) -> bool:
    """Return whether a piece of a function may leave its block, by ``return``, ``raise`` and the like."""
    leaving = ast.Return | tree.Break | tree.Continue | ast.Assert | tree.Raise | tree.MatchNode
    return any(isinstance(part, leaving) for part in walk(node, into_functions=False))


#: What the fields of a node hold, beside names, numbers and spans.
_PARTS = (ast.Node, list, tuple, dict)


def walk(node: object, *, into_functions: bool = True) -> Iterator[ast.Node]:
    """Yield a node and all its parts in source order, without recursion."""
    if isinstance(node, ast.Block):
        yield node
        yield from (_parts_of_block if into_functions else _own_parts_of_block)(node)
    else:
        yield from _walk(node, into_functions=into_functions)


@once_per_node
def _parts_of_block(block: object) -> Sequence[ast.Node]:
    return list(_walk(block, into_functions=True))[1:]


@once_per_node
def _own_parts_of_block(block: object) -> Sequence[ast.Node]:
    return list(_walk(block, into_functions=False))[1:]


def _walk(node: object, *, into_functions: bool) -> Iterator[ast.Node]:
    work: list[object] = [node]
    while work:
        item = work.pop()
        if isinstance(item, ast.Node):
            yield item
            if (
                not into_functions
                and item is not node
                and isinstance(item, tree.DefinitionNode | tree.Lambda)
            ):
                continue
            work += [value for value in reversed(vars(item).values()) if isinstance(value, _PARTS)]
        elif isinstance(item, list | tuple):
            work += reversed(item)
        elif isinstance(item, dict):
            work += [part_ for pair in reversed(item.items()) for part_ in reversed(pair)]


def callees_first(functions: Mapping[str, tree.DefinitionNode], *, of_rules: bool = True) -> list[list[str]]:
    """Group the functions so that each group follows its callees; mutually recursive ones share a group.

    of_rules: a function calls those of its gradient rule, too.
    """
    graph = {
        name: tuple(
            node.id.name for node in called_names(definition, of_rules=of_rules) if node.id.name in functions
        )
        for name, definition in functions.items()
    }
    return [list(group) for group in components(graph)]


def called_names(definition: tree.DefinitionNode, *, of_rules: bool) -> Iterator[ast.Var]:
    """Yield the names that a function mentions; ``of_rules``: also those of gradient rules."""
    rules = set[int]()
    for node in () if of_rules else walk(definition.body):
        if isinstance(node, ast.Call) and _last_word(node.func_name) in ("custom_vjp", "custom_jvp"):
            rules |= {id(part) for param in node.params[1:] for part in walk(param)}
    for node in walk(definition.body):
        if isinstance(node, ast.Var) and id(node) not in rules:
            yield node


def _last_word(callee: ast.Node) -> str:
    name = callee.field if isinstance(callee, ast.Attr) else getattr(callee, "id", None)
    return str(getattr(name, "name", ""))


def calls_for_effects(definition: tree.DefinitionNode) -> bool:
    """Return whether a function writes ``callback(..., effects=...)``."""
    return any(
        isinstance(node, ast.Call) and any(key.value == "effects" for key in node.keyword_params)
        for node in walk(definition.body)
    )
