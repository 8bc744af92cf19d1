"""Write nested functions that call themselves as functions of the cell, which take what they capture.

A list of numbers whose items such a function assigns is made an array, where it is used as one could be.
"""

from __future__ import annotations

import ast as py
import copy
from collections.abc import Sequence

from nnmagic.tinynn.syntax.name_scopes import (
    bound_names,
    changed_names,
    grown_names,
    is_hint,
    outer_names,
    own_nodes,
    parameter_names,
)
from nnmagic.tinynn.syntax.written_code import expression_at

#: What is behind the names of arrays that hold what lists do: they convert nothing.
OF_LIST = "__list"


def with_lifted_functions(body: Sequence[py.stmt]) -> list[py.stmt]:
    """Return the statements of a cell without nested functions that call themselves, where that can be."""
    made: list[py.stmt] = []
    taken = {part.id for stmt in body for part in py.walk(stmt) if isinstance(part, py.Name)}
    taken |= {stmt.name for stmt in body if isinstance(stmt, py.FunctionDef)}
    for given in body:
        stmt = given
        if isinstance(given, py.FunctionDef) and any(_calls_itself(node) for node in own_nodes(given.body)):
            stmt = copy.deepcopy(given)
            inner = [node for node in own_nodes(stmt.body) if isinstance(node, py.FunctionDef)]
            made += [lifted for node in inner if (lifted := _lifted(node, stmt, taken)) is not None]
        made.append(stmt)
    return made


def _calls_itself(node: py.AST) -> bool:
    if not isinstance(node, py.FunctionDef):
        return False
    return any(isinstance(part, py.Name) and part.id == node.name for part in py.walk(node))


def _lifted(node: py.FunctionDef, owner: py.FunctionDef, taken: set[str]) -> py.FunctionDef | None:
    """Return a nested function as one of the cell, and let its calls give it what it captures; else None."""
    if (
        not _calls_itself(node)
        or node.decorator_list
        or outer_names(node)
        or node.args.vararg
        or node.args.kwarg
        or node.args.defaults
        or node.args.kwonlyargs
    ):
        return None
    hints = [each.annotation for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    around = bound_names(owner) | set(parameter_names(owner))
    own = bound_names(node) | set(parameter_names(node))
    captured = sorted(
        {part.id for part in py.walk(node) if isinstance(part, py.Name)} & around - own - {node.name}
    )
    others = {each.name for each in own_nodes(owner.body) if isinstance(each, py.FunctionDef)}
    if set(captured) & (grown_names(node) | others) or not all(
        each is None or is_hint(each) for each in hints
    ):
        return None
    calls = [part for part in py.walk(owner) if isinstance(part, py.Call) and _is(part.func, node.name)]
    if len(calls) != sum(_is(part, node.name) for part in py.walk(owner)):
        return None
    if any(call.keywords for call in calls) or _hidden_at(calls, owner) & set(captured):
        return None
    if any(isinstance(part, py.FunctionDef | py.Lambda) for part in own_nodes(node.body)):
        return None
    lists = [name for name in captured if name in changed_names(node) and name not in parameter_names(owner)]
    arrays = [_as_array(name, owner) for name in lists]
    if any(each is None for each in arrays):
        return None
    for name, assignment in zip(lists, arrays, strict=True):
        if isinstance(assignment, py.Assign):
            captured[captured.index(name)] = name + OF_LIST
            for part in py.walk(owner):
                if isinstance(part, py.Name) and part.id == name:
                    part.id += OF_LIST
            text = f"numpy.array({py.unparse(assignment.value)})"
            assignment.value = expression_at(assignment.value, text)
    name = f"_{node.name}"
    while name in taken:
        name = f"_{owner.name}{name}"
    taken.add(name)
    for call in calls:
        call.func = py.copy_location(py.Name(name, py.Load()), call)
        call.args += [py.copy_location(py.Name(each, py.Load()), call) for each in captured]
    for block in (getattr(part, word, None) for part in py.walk(owner) for word in ("body", "orelse")):
        if isinstance(block, list) and node in block:
            block.remove(node)
    node.name = name
    node.args.args += [py.copy_location(py.arg(each), node) for each in captured]
    return node


def _hidden_at(calls: Sequence[py.Call], owner: py.FunctionDef) -> set[str]:
    """Return the names that comprehensions and lambdas around calls bind."""
    found = set(map(id, calls))
    inner = [
        part
        for part in py.walk(owner)
        if isinstance(part, py.ListComp | py.GeneratorExp | py.SetComp | py.DictComp | py.Lambda)
        and any(id(each) in found for each in py.walk(part))
    ]
    parts = [each for part in inner for each in py.walk(part)]
    names = {each.id for each in parts if isinstance(each, py.Name) and isinstance(each.ctx, py.Store)}
    return names | {each.arg for each in parts if isinstance(each, py.arg)}


def _is(node: py.AST, name: str) -> bool:
    return isinstance(node, py.Name) and node.id == name


def _is_list(made: py.expr) -> bool:
    """Return whether an expression makes a list of numbers, or of lists of as many."""
    match made:
        case py.List(elts=[py.UnaryOp(op=py.USub(), operand=item)]) | py.List(elts=[item]):
            number = item.value if isinstance(item, py.Constant) else None
            return isinstance(number, bool | int | float) or py.unparse(item) in (
                "float('inf')",
                "math.inf",
                "np.inf",
            )
        case py.BinOp(left=left, op=py.Mult()):
            return _is_list(left)
        case py.ListComp(elt=item, generators=[py.comprehension(ifs=[])]):
            return isinstance(item, py.BinOp) and _is_list(item)
    return False


def _as_array(name: str, owner: py.FunctionDef) -> py.Assign | bool | None:
    """Return the assignment of a list that can be an array; True of a name that is no list; else None."""
    made = [
        node
        for node in own_nodes(owner.body)
        if isinstance(node, py.Assign)
        and any(_is(part, name) for target in node.targets for part in py.walk(target))
        if not isinstance(node.targets[0], py.Subscript)
    ]
    if len(made) != 1 or not _is(made[0].targets[0], name):
        return None
    if not _is_list(made[0].value):
        is_container = isinstance(
            made[0].value, py.List | py.ListComp | py.Dict | py.Set | py.DictComp | py.BinOp
        )
        return None if is_container else True
    parents = {child: node for node in py.walk(owner) for child in py.iter_child_nodes(node)}
    for node in py.walk(owner):
        if _is(node, name) and node is not made[0].targets[0]:
            depth, item, parent = 1 + isinstance(made[0].value, py.ListComp), node, parents[node]
            while (
                isinstance(parent, py.Subscript)
                and parent.value is item
                and not isinstance(parent.slice, py.Slice)
            ):
                depth, item, parent = depth - 1, parent, parents[parent]
            is_part, parent = depth == 0, parents[node]
            is_length = isinstance(parent, py.Call) and _is(parent.func, "len")
            if not is_part and not is_length:
                return None
    return made[0]
