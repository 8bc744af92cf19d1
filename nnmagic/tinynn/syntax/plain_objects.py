"""Write objects of a cell's classes as names: ``s = Stack()`` and ``s.items`` become ``s_items``.

Methods become functions, whose calls are written out. That can be where a name stands for objects of one
class, and where nothing but its attributes and methods is used; a class with another use stays as it is.
"""

from __future__ import annotations

import ast as py
import copy
from collections.abc import Mapping, Sequence, Set

from nnmagic.tinynn.syntax.inlined_calls import with_inlined_calls
from nnmagic.tinynn.syntax.name_scopes import Renamed, names_in, own_nodes
from nnmagic.tinynn.syntax.written_code import statements_at

#: What is between the name of a class and that of a method in the name of a function.
_OF = "__of__"
_BEGIN = "__init__"


def with_plain_objects(body: Sequence[py.stmt]) -> list[py.stmt]:
    """Return the statements of a cell with calls written out, and objects as names where that can be."""
    classes = {
        node.name: made for node in body if isinstance(node, py.ClassDef) and (made := _methods_of(node))
    }
    if not classes:
        return with_inlined_calls(body)
    rest = [copy.deepcopy(node) for node in body if getattr(node, "name", "") not in classes]
    functions = [method for made in classes.values() for method in made.values()]
    objects = dict[str, dict[str, str]]()
    for stmt in (*functions, *rest):
        if isinstance(stmt, py.FunctionDef):
            found = _objects_of(stmt, classes)
            # An object has a name of its own in a caller where the call is written out.
            elsewhere = set[str]().union(*(names_in(other) for other in rest if other is not stmt))
            names = {name: f"{name}_of_{stmt.name}" for name in found.keys() & elsewhere}
            Renamed(names).visit(stmt)
            objects[stmt.name] = {names.get(name, name): kind for name, kind in found.items()}
            _Calls(objects[stmt.name], classes).visit(stmt)
    before = {stmt.name: names_in(stmt) for stmt in (*functions, *rest) if isinstance(stmt, py.FunctionDef)}
    called = set[str]().union(*map(names_in, rest))
    written = with_inlined_calls([*functions, *rest], always={each.name for each in functions})
    written = [stmt for stmt in written if _OF not in getattr(stmt, "name", "")]
    mentioned = {node.id for stmt in written for node in py.walk(stmt) if isinstance(node, py.Name)}
    kept: list[py.stmt] = []
    for stmt in written:
        if isinstance(stmt, py.FunctionDef):
            changed, own = _with_changed_attributes(stmt), objects[stmt.name].keys()
            if changed & before[stmt.name] - own and stmt.name in called - mentioned:
                continue  # a helper, whose calls are all written out
            # What the calls that are written out have made is an object, too.
            if not _write_attributes(stmt, own | changed - before[stmt.name]):
                return with_inlined_calls(body)
        kept.append(stmt)
    if mentioned & {*classes, *(each.name for each in functions)}:
        return with_inlined_calls(body)
    return kept


def _methods_of(node: py.ClassDef) -> dict[str, py.FunctionDef] | None:
    """Return the methods of a class as functions, by their names; None of a class that is no plain one."""
    decorators = [py.unparse(each).partition("(")[0].rpartition(".")[2] for each in node.decorator_list]
    bases = [each for each in node.bases if py.unparse(each) != "object"]
    if bases or node.keywords or decorators not in ([], ["dataclass"]):
        return None
    methods: dict[str, py.FunctionDef] = {}
    fields: list[py.AnnAssign] = []
    for stmt in node.body:
        match stmt:
            case py.FunctionDef(decorator_list=[], args=py.arguments(args=[py.arg(arg="self"), *_])):
                methods[stmt.name] = copy.deepcopy(stmt)
            case py.AnnAssign(target=py.Name()) if decorators:
                fields.append(stmt)
            case py.Expr(value=py.Constant()) | py.Pass():
                pass
            case _:
                return None
    if decorators and _BEGIN not in methods:
        methods[_BEGIN] = _first_method(node, fields, has_more="__post_init__" in methods)
    if _BEGIN not in methods:
        return None
    for name, method in methods.items():
        method.name = f"{node.name}{_OF}{name}"
    return methods


def _first_method(node: py.ClassDef, fields: Sequence[py.AnnAssign], *, has_more: bool) -> py.FunctionDef:
    """Return the method that gives an object of a dataclass its fields."""
    given, lines = ["self"], list[str]()
    for each in fields:
        name = py.unparse(each.target)
        match each.value:
            case py.Call(
                func=py.Name(id="field"), args=[], keywords=[py.keyword(arg="default_factory", value=maker)]
            ):
                lines.append(f"    self.{name} = {py.unparse(maker)}()")
                continue
            case None:
                given.append(name)
            case default:
                given.append(f"{name}={py.unparse(default)}")
        lines.append(f"    self.{name} = {name}")
    lines += ["    self.__post_init__()"] if has_more else [] if lines else ["    pass"]
    (made,) = statements_at(node, f"def {_BEGIN}({', '.join(given)}):\n" + "\n".join(lines))
    assert isinstance(made, py.FunctionDef)
    return made


def _objects_of(
    function: py.FunctionDef, classes: Mapping[str, Mapping[str, py.FunctionDef]]
) -> dict[str, str]:
    """Return the names that stand for objects wherever a function assigns them, with their classes."""
    found: dict[str, set[str]] = {}
    if _OF in function.name:
        found["self"] = {function.name.partition(_OF)[0]}
    for node in own_nodes(function.body):
        match node:
            case py.Assign(targets=[py.Name(id=name)], value=py.Call(func=py.Name(id=made))) if (
                made in classes
            ):
                found.setdefault(name, set()).add(made)
    return {name: next(iter(kinds)) for name, kinds in found.items() if len(kinds) == 1}


class _Calls(py.NodeTransformer):
    """Writes calls of methods as those of functions; ``objects``: the classes of names."""

    def __init__(
        self, objects: Mapping[str, str], classes: Mapping[str, Mapping[str, py.FunctionDef]]
    ) -> None:
        self.objects = objects
        self.classes = classes

    def visit_Assign(self, node: py.Assign) -> py.AST:
        """Return the call of the first method for an object that is made."""
        self.generic_visit(node)
        match node:
            case py.Assign(
                targets=[py.Name(id=name)], value=py.Call(func=py.Name(id=made), args=args) as call
            ) if self.objects.get(name) == made:
                owner = py.copy_location(py.Name(name, py.Load()), call)
                function = py.copy_location(py.Name(f"{made}{_OF}{_BEGIN}", py.Load()), call)
                written = py.copy_location(py.Call(function, [owner, *args], call.keywords), call)
                return py.copy_location(py.Expr(written), node)
        return node

    def visit_Call(self, node: py.Call) -> py.AST:
        """Return the call of a function for that of a method."""
        self.generic_visit(node)
        match node.func:
            case py.Attribute(value=py.Name(id=name) as owner, attr=word) if name in self.objects:
                made = self.objects[name]
                if word in self.classes[made]:
                    function = py.copy_location(py.Name(f"{made}{_OF}{word}", py.Load()), node)
                    return py.copy_location(py.Call(function, [owner, *node.args], node.keywords), node)
        return node


def _with_changed_attributes(function: py.FunctionDef) -> set[str]:
    """Return the names of whose objects a function assigns attributes."""
    names = set[str]()
    for node in own_nodes(function.body):
        match node:
            case py.Attribute(value=py.Name(id=name), attr=word, ctx=py.Store()) if word != "shape":
                names.add(name)
    return names


def _write_attributes(function: py.FunctionDef, objects: Set[str]) -> bool:
    """Write the attributes of objects as names; return whether nothing else of the objects is used."""
    taken = {node.id for node in py.walk(function) if isinstance(node, py.Name)}
    names = dict[tuple[str, str], str]()
    inner = [node for node in own_nodes(function.body) if isinstance(node, py.FunctionDef | py.Lambda)]
    if any(isinstance(part, py.Name) and part.id in objects for node in inner for part in py.walk(node)):
        return False

    class Written(py.NodeTransformer):
        def visit_Attribute(self, node: py.Attribute) -> py.AST:
            self.generic_visit(node)
            if not isinstance(node.value, py.Name) or node.value.id not in objects:
                return node
            key = (node.value.id, node.attr)
            if key not in names:
                name = "_".join(key)
                while name in taken:
                    name += "_"
                taken.add(name)
                names[key] = name
            return py.copy_location(py.Name(names[key], node.ctx), node)

    Written().visit(function)
    return not any(isinstance(node, py.Name) and node.id in objects for node in py.walk(function))
