"""Write methods that change a list as assignments: ``x = s.pop()`` is ``x = s[-1]``, then ``s = s[:-1]``."""

from __future__ import annotations

import ast as py
from collections.abc import Callable, Iterator, Mapping, Sequence

from nnmagic.tinynn.syntax.comprehension_loops import COMPREHENSION, as_loop
from nnmagic.tinynn.syntax.heaps import gives_item, heap_function, heap_statements
from nnmagic.tinynn.syntax.names_in_python import replace_nodes

#: The methods that change a list as a whole, and what it is then.
_CHANGED = {
    "reverse": (0, "{owner}[::-1]"),
    "clear": (0, "[]"),
    "popleft": (0, "{owner}[1:]"),
    "extend": (1, "{owner} + list({0})"),
    "insert": (2, "{owner}[:{0}] + [{1}] + {owner}[{0}:]"),
    "appendleft": (1, "[{0}] + {owner}"),
    "extendleft": (1, "list({0})[::-1] + {owner}"),
    "rotate": (
        1,
        "{owner}[len({owner}) - ({0}) % max(len({owner}), 1):] + "
        "{owner}[:len({owner}) - ({0}) % max(len({owner}), 1)]",
    ),
}

#: The functions of `bisect` that insert into a list, and on which side of equal items.
_INSERTING = {"insort": "right", "insort_right": "right", "insort_left": "left"}

#: The attribute that marks the statements of Python's tree which change a list.
CHANGES_LIST = "changes_list"


def expand_statements(statements: Sequence[py.stmt], new_name: Callable[[str], str]) -> list[py.stmt]:
    """Return statements with those written out that change lists; ``new_name`` makes a name of another."""
    return [part for stmt in statements for part in _expand(stmt, new_name)]


def _expand(stmt: py.stmt, new_name: Callable[[str], str]) -> Iterator[py.stmt]:
    for write in (_written_test, _written_call, _written_parts):
        if (made := write(stmt, new_name)) is not None:
            yield from made
            return
    yield stmt


def _written_test(stmt: py.stmt, new_name: Callable[[str], str]) -> Iterator[py.stmt] | None:
    """Return what an ``if`` or a ``while`` does whose test takes items of lists; None for others."""
    match stmt:
        case py.If(test=test) | py.While(test=test, orelse=[]) if _takes_on_the_way(stmt):
            pass
        case _:
            return None
    holds = new_name("holds")
    found = [_at(test, part) for part in truth(test, holds)]
    if isinstance(stmt, py.While):
        leave = _at(test, py.If(_not(holds), [py.Break()], []))
        always = py.copy_location(py.Constant(value=True), test)
        return iter([py.copy_location(py.While(always, [*found, leave, *stmt.body], []), stmt)])
    name = py.copy_location(py.Name(holds, py.Load()), test)
    last = py.copy_location(py.If(name, stmt.body, stmt.orelse), stmt)
    return iter([*(part for each in found for part in _expand(each, new_name)), last])


def _written_call(stmt: py.stmt, new_name: Callable[[str], str]) -> Iterator[py.stmt] | None:
    """Return what a statement does that is a call which changes a list, and what returns texts; else None."""
    match stmt:
        case py.Expr(value=py.Call(func=py.Attribute(attr=method, value=py.Name() as owner), args=args)) if (
            method in _CHANGED and len(args) == _CHANGED[method][0]
        ):
            text = _CHANGED[method][1].format(*map(py.unparse, args), owner=owner.id)
            return iter([_change(stmt, owner.id, text)])
        case py.Expr(
            value=py.Call(
                func=py.Name(id=word) | py.Attribute(attr=word), args=[py.Name() as owner, item], keywords=[]
            )
        ) if word in _INSERTING:
            place = new_name(f"place_in_{owner.id}")
            array = f"numpy.asarray({owner.id})"
            expanded = f"numpy.searchsorted({array}, {py.unparse(item)}, side={_INSERTING[word]!r})"
            insert = _CHANGED["insert"][1].format(place, py.unparse(item), owner=owner.id)
            found = _at(stmt, py.parse(f"{place} = {expanded}").body[0])
            return iter([found, _change(stmt, owner.id, insert)])
        case py.Expr(value=py.Call() as call) if heap_function(call):
            return _take(call, None, new_name)
        case py.Expr(
            value=py.Call(
                func=py.Attribute(attr="sort", value=py.Name() as owner), args=[], keywords=[_, *_] as given
            )
        ) if {each.arg for each in given} <= {"key", "reverse"}:
            options = ", ".join(map(py.unparse, given))
            return iter([_change(stmt, owner.id, f"sorted({owner.id}, {options})")])
        case py.Expr(
            value=py.Call(func=py.Attribute(attr="update", value=py.Name() as owner), args=[others])
        ):
            return _update(stmt, owner, others, new_name)
        case py.Return(value=py.IfExp(test=test, body=body, orelse=orelse)) if _is_text(body) or _is_text(
            orelse
        ):
            paths: list[py.stmt] = [py.copy_location(py.Return(each), each) for each in (body, orelse)]
            return iter([py.copy_location(py.If(test, paths[:1], paths[1:]), stmt)])
    return None


def _written_parts(stmt: py.stmt, new_name: Callable[[str], str]) -> Iterator[py.stmt] | None:
    """Return what a statement does with a part that changes a list, which comes first; None without one."""
    if not isinstance(stmt, py.Assign | py.AugAssign | py.Expr | py.Return | py.If):
        return None
    inside = stmt.test if isinstance(stmt, py.If) else stmt
    if (changing := _changing_comprehension(inside)) is not None:
        name = new_name("made")
        if (loop := as_loop(changing, name, new_name)) is not None:
            made = py.copy_location(py.Name(name, py.Load()), changing)
            return iter([*loop, *_expand(replace_nodes({id(changing): made}, stmt), new_name)])
    if defaults := _setdefaults_in(inside):
        added = [before for before, _ in defaults]
        if isinstance(stmt, py.Expr) and defaults[-1][1] is stmt.value:
            return iter(added)
        items = {
            id(call): py.copy_location(py.Subscript(call.func.value, call.args[0], py.Load()), call)  # type: ignore[attr-defined]  # a method
            for _, call in defaults
        }
        return iter([*added, *_expand(replace_nodes(items, stmt), new_name)])
    if updates := list(_updates_in(inside)):
        return _with_updates(stmt, updates, new_name)
    pops = list(_pops_in(inside))
    if isinstance(stmt, py.Assign) and pops == list(_pops_in(stmt.value)):  # before the targets
        inside = stmt.value
    if not pops or not _may_come_first(inside, pops):
        return None
    if isinstance(stmt, py.Expr) and pops[0] is stmt.value:
        return _take(pops[0], None, new_name)
    taken: dict[int, py.expr] = {}
    before_all: list[py.stmt] = []
    for pop in pops:
        name = new_name(f"item_of_{_owner(pop)}")
        taken[id(pop)] = py.copy_location(py.Name(name, py.Load()), pop)
        before_all += _take(pop, name, new_name)
    return iter([*before_all, replace_nodes(taken, stmt)])


def _takes_on_the_way(stmt: py.If | py.While) -> bool:
    """Return whether a test takes items of a list in each round, or behind ``and`` or ``or``."""
    parts = (
        [stmt.test]
        if isinstance(stmt, py.While)
        else [n for n in py.walk(stmt.test) if isinstance(n, py.BoolOp)]
    )
    return any(_pops(node) for part in parts for node in py.walk(part))


def truth(test: py.expr, holds: str) -> Iterator[py.stmt]:
    """Yield the statements that give a name the truth of a test; they compute no more of it than Python."""
    match test:
        case py.BoolOp(op=op, values=[first, *rest]):
            yield from truth(first, holds)
            for value in rest:
                asked = py.Name(holds, py.Load()) if isinstance(op, py.And) else _not(holds)
                yield py.If(asked, list(truth(value, holds)), [])
        case py.UnaryOp(op=py.Not(), operand=operand):
            yield from truth(operand, holds)
            yield py.Assign([py.Name(holds, py.Store())], _not(holds))
        case _:
            yield py.Assign([py.Name(holds, py.Store())], py.UnaryOp(py.Not(), py.UnaryOp(py.Not(), test)))


def _not(name: str) -> py.expr:
    return py.UnaryOp(py.Not(), py.Name(name, py.Load()))


def _changing_comprehension(node: py.AST) -> COMPREHENSION | None:
    """Return the first comprehension of a statement if it takes items of a list; None otherwise."""
    for child in py.iter_child_nodes(node):
        if isinstance(child, py.Lambda) or _skips(child):
            continue
        if isinstance(child, COMPREHENSION):
            return child if any(map(_pops, py.walk(child))) else None
        if (found := _changing_comprehension(child)) is not None:
            return found
    return None


def _is_text(value: py.expr) -> bool:
    """Return whether an expression is a string or None, or a tuple or a condition that has one."""
    match value:
        case py.Constant(value=known):
            return known is None or isinstance(known, str)
        case py.Tuple(elts=parts):
            return any(map(_is_text, parts))
        case py.IfExp(body=body, orelse=orelse):
            return _is_text(body) or _is_text(orelse)
    return False


#: JAX's `x.at[i].set(v)` and its kin, as statements that change a copy; `{0}` is the index.
_OF_JAX = {
    "set": "{copy}[{0}] = {1}",
    "add": "numpy.add.at({copy}, {0}, {1})",
    "subtract": "numpy.subtract.at({copy}, {0}, {1})",
    "multiply": "numpy.multiply.at({copy}, {0}, {1})",
    "mul": "numpy.multiply.at({copy}, {0}, {1})",
    "divide": "{copy}[{0}] /= {1}",
    "min": "numpy.minimum.at({copy}, {0}, {1})",
    "max": "numpy.maximum.at({copy}, {0}, {1})",
}
#: The same of an index with slices, which chooses no element twice.
_OF_SLICES = {
    "add": "{copy}[{0}] += {1}",
    "subtract": "{copy}[{0}] -= {1}",
    "multiply": "{copy}[{0}] *= {1}",
    "mul": "{copy}[{0}] *= {1}",
    "min": "{copy}[{0}] = numpy.minimum({copy}[{0}], {1})",
    "max": "{copy}[{0}] = numpy.maximum({copy}[{0}], {1})",
}


def _updates_in(node: py.AST) -> Iterator[py.Call]:
    """Yield the calls of ``x.at[i].set(v)`` and its kin that a statement always makes, inner ones first."""
    if isinstance(node, py.Lambda | py.ListComp | py.GeneratorExp | py.SetComp | py.DictComp):
        return
    for child in py.iter_child_nodes(node):
        if not isinstance(node, py.BoolOp | py.IfExp):
            yield from _updates_in(child)
    match node:
        case py.Call(
            func=py.Attribute(attr=word, value=py.Subscript(value=py.Attribute(attr="at"))),
            args=[_],
            keywords=[],
        ) if word in _OF_JAX:
            yield node


def _with_updates(
    stmt: py.stmt, updates: Sequence[py.Call], new_name: Callable[[str], str]
) -> Iterator[py.stmt]:
    """Yield a statement behind those that make what its calls of ``x.at[i].set(v)`` give."""
    taken: dict[int, py.expr] = {}
    for update in updates:
        name = new_name("changed")
        taken[id(update)] = py.copy_location(py.Name(name, py.Load()), update)
        yield from _updated(update, name, taken)
    yield from _expand(replace_nodes(taken, stmt), new_name)


def _updated(call: py.Call, name: str, inner: Mapping[int, py.expr]) -> Iterator[py.stmt]:
    """Yield the statements that make a copy of an array and change it."""
    method: py.Attribute = call.func  # type: ignore[assignment]  # see _updates_in
    chosen: py.Subscript = method.value  # type: ignore[assignment]
    array, index, value = (
        py.unparse(replace_nodes(inner, node))
        for node in (chosen.value.value, chosen.slice, call.args[0])  # type: ignore[attr-defined]
    )
    has_slices = any(isinstance(node, py.Slice) for node in py.walk(chosen.slice))
    if has_slices and isinstance(chosen.slice, py.Tuple):
        index = index[1:-1]  # without brackets, in which Python takes no slices
    text = _OF_SLICES.get(method.attr, _OF_JAX[method.attr]) if has_slices else _OF_JAX[method.attr]
    index = f"({index})" if isinstance(chosen.slice, py.Tuple) and not has_slices else index
    yield _at(call, py.parse(f"{name} = numpy.copy({array})").body[0])
    yield _at(call, py.parse(text.format(index, value, copy=name)).body[0])


def _calls_in(node: py.AST) -> Iterator[py.Call]:
    """Yield the calls in the order in which Python makes them; not those of functions and comprehensions."""
    if isinstance(node, py.Lambda | py.ListComp | py.GeneratorExp | py.SetComp | py.DictComp):
        return
    for child in py.iter_child_nodes(node):
        yield from _calls_in(child)
    if isinstance(node, py.Call):
        yield node


def _pops_in(node: py.AST) -> Iterator[py.Call]:
    """Yield the calls of ``pop`` and ``popleft`` in the order in which Python makes them."""
    for call in _calls_in(node):
        match call:
            case py.Call(func=py.Attribute(attr="pop", value=py.Name()), args=args, keywords=[]) if len(
                args
            ) < 3 and not any(_pops(part) for arg in args for part in py.walk(arg)):
                yield call
            case py.Call(func=py.Attribute(attr="popleft", value=py.Name()), args=[], keywords=[]):
                yield call
            case py.Call(args=args) if gives_item(call):
                if not any(_pops(part) for each in args for part in py.walk(each)):
                    yield call


def _pops(node: py.AST) -> bool:
    is_method = isinstance(node, py.Attribute) and node.attr in (
        "pop",
        "popleft",
        "setdefault",
        "__missing__",
    )
    return is_method or (isinstance(node, py.Call) and gives_item(node))


def _may_come_first(inside: py.AST, pops: Sequence[py.Call]) -> bool:
    """Return whether items may be taken before the rest of a statement is computed.

    What Python computes behind them may read the lists.
    """
    owners = {_owner(pop) for pop in pops}
    inner = {id(node) for pop in pops for node in py.walk(pop)}
    in_order = not any(isinstance(node, py.Assign | py.JoinedStr) for node in py.walk(inside))
    last = max(((pop.lineno, pop.col_offset) for pop in pops), default=(0, 0))
    for node in py.walk(inside):
        if _skips(node) and any(id(pop) in map(id, py.walk(node)) for pop in pops):
            return False
        if isinstance(node, py.NamedExpr) and any(
            isinstance(part, py.Name) and part.id == node.target.id for pop in pops for part in py.walk(pop)
        ):
            return False
        if not isinstance(node, py.Name) or not isinstance(node.ctx, py.Load) or node.id not in owners:
            continue
        is_behind = in_order and (node.lineno, node.col_offset) > last
        if id(node) not in inner and not is_behind and not _is_appended_to(inside, node):
            return False
    return True


def _skips(node: py.AST) -> bool:
    """Return whether Python may leave out a part of an expression."""
    if (
        isinstance(node, py.Call)
        and isinstance(node.func, py.Name)
        and node.func.id in ("any", "all", "next")
    ):
        return any(isinstance(arg, py.GeneratorExp) for arg in node.args)
    return isinstance(node, py.BoolOp | py.IfExp) or (isinstance(node, py.Compare) and len(node.ops) > 1)


def _is_appended_to(stmt: py.AST, name: py.Name) -> bool:
    """Return whether a statement is ``name.append(...)``."""
    match stmt:
        case py.Expr(value=py.Call(func=py.Attribute(attr="append", value=owner))):
            return owner is name
    return False


def _setdefaults_in(inside: py.AST) -> list[tuple[py.stmt, py.Call]]:
    """Return what the calls of ``d.setdefault(k, v)`` do, and the calls, in order, if all may come first."""
    parts = [inside.value, *inside.targets] if isinstance(inside, py.Assign) else [inside]
    calls = [call for part in parts for call in _calls_of_setdefault(part)]
    if calls == list(_calls_of_setdefault(parts[0])):  # before the targets
        inside = parts[0]
    if not _may_come_first(inside, calls):
        return []
    return [(_at(call, _with_default(call)), call) for call in calls]


def _calls_of_setdefault(node: py.AST) -> Iterator[py.Call]:
    for call in _calls_in(node):
        match call:
            case py.Call(
                func=py.Attribute(attr="setdefault" | "__missing__", value=py.Name()),
                args=[key, _],
                keywords=[],
            ):
                if _is_place(key):
                    yield call


def _with_default(call: py.Call) -> py.stmt:
    owner, key, value = _owner(call), *map(py.unparse, call.args)
    return py.parse(f"if {key} not in {owner}:\n    {owner}[{key}] = {value}").body[0]


def _update(
    stmt: py.stmt, owner: py.Name, others: py.expr, new_name: Callable[[str], str]
) -> Iterator[py.stmt]:
    """Yield what ``d.update(others)`` does of a dictionary, or of a set."""
    others_name, key = new_name(f"others_of_{owner.id}"), new_name(f"key_of_{owner.id}")
    yield py.copy_location(
        py.Assign([py.copy_location(py.Name(others_name, py.Store()), others)], others), stmt
    )
    text = f"for {key} in {others_name}:\n    {owner.id}.update_by({key}, {others_name})"
    yield _at(stmt, py.parse(text).body[0])


def _owner(pop: py.Call) -> str:
    if heap_function(pop):
        return py.unparse(pop.args[0])
    assert isinstance(pop.func, py.Attribute)
    assert isinstance(pop.func.value, py.Name)
    return pop.func.value.id


def _place(index: py.expr) -> int | None:
    """Return the place of the item that ``pop(index)`` takes, if it is an int that is written."""
    match index:
        case py.Constant(value=int() as number) if not isinstance(number, bool):
            return number
        case py.UnaryOp(op=py.USub(), operand=py.Constant(value=int() as number)):
            return -number
    return None


def _is_place(index: py.expr) -> bool:
    """Return whether an index may be computed twice as well as once: it is made of numbers and names."""
    parts = (py.Name, py.Constant, py.Tuple, py.BinOp, py.UnaryOp, py.Subscript, py.operator, py.unaryop)
    return all(isinstance(node, (*parts, py.expr_context)) for node in py.walk(index))


def _take(pop: py.Call, name: str | None, new_name: Callable[[str], str]) -> Iterator[py.stmt]:
    """Yield the assignment of the item, and that of the list without it."""
    if heap_function(pop):
        for stmt in heap_statements(pop, name, new_name):
            yield from _expand(_at(pop, stmt), new_name)
        return
    owner, place = _owner(pop), "-1"
    if pop.args and not _is_place(pop.args[0]):
        key = new_name(f"key_of_{owner}")
        yield _at(pop, py.Assign([py.Name(key, py.Store())], pop.args[0]))
        pop = py.copy_location(py.Call(pop.func, [py.Name(key, py.Load()), *pop.args[1:]], []), pop)
        py.copy_location(pop.args[0], pop)
    if len(pop.args) == 2:  # of a dictionary, with another value
        key, other = map(py.unparse, pop.args)
        if name is not None:
            value = py.parse(f"{owner}.get({key}, {other})", mode="eval").body
            yield _at(pop, py.Assign([py.Name(name, py.Store())], value))
        yield _at(pop, py.Expr(py.parse(f"{owner}.discard_key({key})", mode="eval").body))
        return
    if isinstance(pop.func, py.Attribute) and pop.func.attr == "popleft":
        place = "0"
    elif pop.args:
        place = py.unparse(pop.args[0])
    if name is not None:
        target = py.Name(name, py.Store())
        yield _at(pop, py.Assign([target], py.parse(f"{owner}[{place}]", mode="eval").body))
    rest = {"-1": f"{owner}[:-1]", "0": f"{owner}[1:]"}.get(place, f"list(numpy.delete({owner}, {place}, 0))")
    yield _change(pop, owner, rest)


def _change(node: py.stmt | py.expr, owner: str, text: str) -> py.stmt:
    assign = _at(node, py.Assign([py.Name(owner, py.Store())], py.parse(text, mode="eval").body))
    setattr(assign, CHANGES_LIST, True)
    return assign


def _at(node: py.stmt | py.expr, made: py.stmt) -> py.stmt:
    """Return a statement whose parts are all at the place of another node."""
    for inner in py.walk(made):
        if isinstance(inner, py.stmt | py.expr):
            py.copy_location(inner, node)
    return made
