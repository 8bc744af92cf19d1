"""Write generators as functions that give lists: ``yield x`` appends ``x``.

That means the same where the items are taken at once, and where nothing changes between them what the
generator reads: in a comprehension, in a call such as ``sum(pairs(x))``, and in a loop that changes nothing
but what its function has made. Any other generator stays as it is, which is refused.
"""

from __future__ import annotations

import ast as py
import copy
from collections.abc import Mapping, Sequence, Set

from nnmagic.tinynn.syntax.name_scopes import bound_names, changed_names, changes_names, names_in, own_nodes
from nnmagic.tinynn.syntax.written_code import statements_at

#: What takes all items of an iterable.
_TAKING = frozenset(
    (
        *("list", "tuple", "set", "dict", "sorted", "sum", "max", "min", "any", "all", "array", "asarray"),
        *("fromiter", "stack", "concatenate", "Counter", "chain", "join"),
    )
)
_WRAPPING = frozenset({"zip", "enumerate", "map", "reversed"})
#: What makes a container that shares memory with nothing.
_MAKING = frozenset(
    (
        *("zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like", "copy"),
        *("list", "dict", "set", "defaultdict", "Counter", "deque"),
    )
)


def with_lists_for_generators(body: Sequence[py.stmt]) -> list[py.stmt]:
    """Return the statements of a cell without the generators that can be lists."""
    module = py.Module(list(body), [])
    methods = {id(each) for node in py.walk(module) if isinstance(node, py.ClassDef) for each in node.body}
    functions = {node.name: node for node in py.walk(module) if isinstance(node, py.FunctionDef)}
    changing = {name for name, node in functions.items() if changes_names(node)}
    generators = [node for node in functions.values() if _yields(node) and id(node) not in methods]
    names = {
        node.name for node in generators if not changing & {node.name, *names_in(node)} and _can_be_list(node)
    }
    if not names:
        return list(body)
    module = copy.deepcopy(module)
    names = {name for name in names if _is_taken_whole(module, functions[name], changing)}
    for node in py.walk(module):
        if isinstance(node, py.FunctionDef) and node.name in names and _yields(node):
            _write(node)
    return module.body


def _yields(function: py.FunctionDef) -> bool:
    return any(isinstance(node, py.Yield | py.YieldFrom) for node in own_nodes(function))


def _can_be_list(function: py.FunctionDef) -> bool:
    """Return whether a generator ends, has no other effect, and yields in statements of their own."""
    statements = [node for node in own_nodes(function) if isinstance(node, py.Expr)]
    written = {node.value for node in statements if isinstance(node.value, py.Yield | py.YieldFrom)}
    for node in own_nodes(function):
        match node:
            case py.Yield() | py.YieldFrom() if node not in written or node.value is None:
                return False
            case py.Raise() | py.Assert() | py.Try() | py.With() | py.Nonlocal() | py.Global():
                return False
            case py.Return(value=py.expr()):
                return False
            case py.Call(func=py.Name(id="print")):
                return False
            case py.Subscript(ctx=py.Store()):
                return False
            case py.While(test=py.Constant(value=value)) if value and not any(
                isinstance(inner, py.Break | py.Return) for inner in own_nodes(node)
            ):
                return False
    return True


def _is_taken_whole(module: py.Module, function: py.FunctionDef, changing: Set[str]) -> bool:
    """Return whether all uses of a generator are calls whose items are taken at once."""
    parents = {child: node for node in py.walk(module) for child in py.iter_child_nodes(node)}
    for node in py.walk(module):
        if not isinstance(node, py.Name) or node.id != function.name:
            continue
        call = parents[node]
        if not isinstance(call, py.Call) or call.func is not node or not _is_taken(call, parents):
            return False
        loop = parents[call]
        while isinstance(loop, py.Call):
            loop = parents[loop]
        if isinstance(loop, py.For) and _changes_read(loop, call, function, parents, changing):
            return False
    return True


def _changes_read(
    loop: py.For,
    call: py.Call,
    function: py.FunctionDef,
    parents: Mapping[py.AST, py.AST],
    changing: Set[str],
) -> bool:
    """Return whether a loop changes what its generator reads later, or may leave one that has no end."""
    body = py.Module(loop.body, [])
    nodes = list(py.walk(body))
    leaves = any(isinstance(node, py.Break | py.Return) for node in nodes)
    if leaves and any(isinstance(node, py.While) for node in py.walk(function)):
        return True
    own = bound_names(function) | {part.arg for part in py.walk(function) if isinstance(part, py.arg)}
    read = names_in(call) | (names_in(function) - own)
    owner: py.AST = loop
    while owner in parents and not isinstance(owner, py.FunctionDef):
        owner = parents[owner]
    for _ in range(3):  # names of the same containers
        for node in py.walk(owner):
            if isinstance(node, py.Assign) and not _is_made(node.value):
                targets = {
                    part.id for each in node.targets for part in py.walk(each) if isinstance(part, py.Name)
                }
                if targets & read:
                    read |= names_in(node.value)
    changed = changed_names(body) | {  # type: ignore[arg-type]
        node.id for node in nodes if isinstance(node, py.Name) and isinstance(node.ctx, py.Store)
    }
    for node in nodes:
        if isinstance(node, py.Call) and names_in(node.func) & changing:
            return True
    return bool(read & changed)


def _is_taken(call: py.Call, parents: dict[py.AST, py.AST]) -> bool:
    taker = parents[call]
    match taker:
        case py.Call(func=py.Name(id=word) | py.Attribute(attr=word)) if call is not taker.func:
            return word in _TAKING or (word in _WRAPPING and _is_taken(taker, parents))
        case py.comprehension() | py.YieldFrom() | py.Starred():
            return True
        case py.For(body=body):
            return all(_changes_own(node, parents) for stmt in body for node in py.walk(stmt))
    return False


def _changes_own(node: py.AST, parents: dict[py.AST, py.AST]) -> bool:
    """Return whether a node of a loop changes no memory but that of containers which its function makes."""
    match node:
        case py.Subscript(value=owner, ctx=py.Store()):
            while isinstance(owner, py.Subscript):
                owner = owner.value
        case py.AugAssign(target=py.Name() as owner):
            pass
        case _:
            return True
    function: py.AST = node
    while function in parents and not isinstance(function, py.FunctionDef):
        function = parents[function]
    if not isinstance(owner, py.Name):
        return False
    made = [
        inner.value
        for inner in py.walk(function)
        if isinstance(inner, py.Assign)
        and any(
            isinstance(part, py.Name) and part.id == owner.id
            for target in inner.targets
            for part in py.walk(target)
        )
    ]
    return bool(made) and all(map(_is_made, made))


def _is_made(value: py.expr) -> bool:
    match value:
        case py.Call(func=py.Name(id=word) | py.Attribute(attr=word)):
            return word in _MAKING
        case py.Tuple(elts=items):
            return all(map(_is_made, items))
    return isinstance(
        value, py.List | py.ListComp | py.Dict | py.DictComp | py.Set | py.SetComp | py.Constant | py.BinOp
    )


def _write(function: py.FunctionDef) -> None:
    """Let a generator return a list of what it yields."""
    mentioned = {node.id for node in py.walk(function) if isinstance(node, py.Name)}
    name = "items"
    while name in mentioned:
        name += "_"
    _Written(name).visit(function)
    doc, body = (
        ([], function.body) if py.get_docstring(function) is None else (function.body[:1], function.body[1:])
    )
    (first,) = statements_at(function, f"{name} = []")
    (last,) = statements_at(function.body[-1], f"return {name}")
    is_endless = isinstance(body[-1], py.While) and isinstance(body[-1].test, py.Constant)
    if is_endless and not any(isinstance(node, py.Break) for node in own_nodes(body[-1])):
        function.body = [*doc, first, *body]
    else:
        function.body = [*doc, first, *body, last]
    function.returns = None


class _Written(py.NodeTransformer):
    """Writes the statements of a generator; ``name``: of the list."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.depth = 0

    def visit_FunctionDef(self, node: py.FunctionDef) -> py.AST:
        """Leave functions inside the generator as they are."""
        if self.depth:
            return node
        self.depth += 1
        self.generic_visit(node)
        return node

    def visit_Expr(self, node: py.Expr) -> py.AST:
        """Return an append for ``yield``, and a loop of these for ``yield from``."""
        match node.value:
            case py.Yield(value=py.expr() as value):
                text = f"{self.name}.append({py.unparse(value)})"
            case py.YieldFrom(value=value):
                text = (
                    f"for {self.name}_item in {py.unparse(value)}:\n    {self.name}.append({self.name}_item)"
                )
            case _:
                return node
        return statements_at(node, text)[0]

    def visit_Return(self, node: py.Return) -> py.AST:
        """Return the list where the generator ends."""
        return statements_at(node, f"return {self.name}")[0]
