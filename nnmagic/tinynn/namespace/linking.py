"""Brings the functions and data types of earlier cells into the module of this one. Knows Relay, values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nnmagic.diagnostics import Note, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.callgraph import call_graph, components, reachable
from nnmagic.relay.infer.unify import substitute
from nnmagic.relay.module import Module, TypeData
from nnmagic.relay.signatures import format_type
from nnmagic.relay.structural_equality import structural_equal
from nnmagic.relay.traverse import post_order, rewrite
from nnmagic.relay.types import FuncType
from nnmagic.relay.used_types import used_types
from nnmagic.tinynn.calls.defaults import of_python
from nnmagic.tinynn.namespace.capture import CompiledGlobal
from nnmagic.tinynn.program import MISSING, DataTypeInfo, ParameterInfo
from nnmagic.tinynn.values.values import Formal, GlobalFunction, RefusalError


@dataclass(slots=True)
class Linker:
    """The functions that are linked, by the names that they have in this module, and all data types.

    A compiled function stays what it was when it was compiled: where its name, or that of a function that it
    calls, is taken here by another function, it gets a name with a number. Data types and constructors keep
    their names, for the values that the notebook holds have them: two different ones of a name are refused.
    """

    functions: dict[str, ir.Function] = field(default_factory=dict)
    types: dict[str, TypeData] = field(default_factory=dict)
    infos: dict[str, DataTypeInfo] = field(default_factory=dict)
    reserved: set[str] = field(default_factory=set)
    #: Of each data type, who brought it and where that is mentioned.
    _origins: dict[str, tuple[str, Span]] = field(default_factory=dict)

    def use(self, written: str, found: CompiledGlobal, place: Span) -> GlobalFunction:
        """Links a function and all that it calls; gives it as this module knows it. Raises Refusal."""
        name, module = found.name, found.module
        names: dict[str, str] = {}
        callees = _callees_first(module, name)
        types = used_types((module.functions[each] for each in callees), module.types)
        self.use_types(f"`{written}`", types, found.infos, place)
        for each in callees:
            names[each] = self._link(each, module.functions[each], names)
        function = module.functions[name]
        known = {each.name: each for each in found.parameters}
        formals = []
        for param in function.params:
            info = known.get(param.name_hint, ParameterInfo(param.name_hint))
            default = None if info.default is MISSING else of_python(info.default, module.types)
            formals.append(Formal(info.name, info.kind, default))
        return GlobalFunction(names[name], written, tuple(formals), _type_of(function))

    def use_types(
        self, origin: str, types: Mapping[str, TypeData], infos: Mapping[str, DataTypeInfo], place: Span
    ) -> None:
        """Adds data types that ``origin`` brings. Raises Refusal where one of them is another here."""
        for name, data in types.items():
            present = self.types.get(name)
            if present is None:
                self._check_constructors(origin, data, place)
                self.types[name] = data
                self._origins[name] = (origin, place)
                if name in infos:
                    self.infos[name] = infos[name]
            elif not same_type(present, data):
                raise self._clash(name, present, data, origin, place)

    def _clash(self, name: str, one: TypeData, other: TypeData, origin: str, place: Span) -> RefusalError:
        first, first_place = self._origins[name]
        notes = (
            Note(f"{name} of {first}: {constructors_shown(one)}", first_place),
            Note(f"{name} of {origin}: {constructors_shown(other)}", place),
        )
        message = f"two different data types are called {name}: that of {first} and that of {origin}"
        hint = "give one of them another name, and run again the cells that use it"
        return RefusalError(message, place, hint=hint, notes=notes)

    def _check_constructors(self, origin: str, data: TypeData, place: Span) -> None:
        """Relay calls constructors by their bare names, so that two types cannot share one."""
        mine = {constructor.name for constructor in data.constructors}
        for name, present in self.types.items():
            for constructor in present.constructors:
                if constructor.name in mine:
                    first, first_place = self._origins[name]
                    note = Note(f"{name} of {first}: {constructors_shown(present)}", first_place)
                    message = (
                        f"{data.header.name} of {origin} has a constructor {constructor.name}, as {name} has"
                    )
                    hint = "give one of them another name: constructors are called by their bare names"
                    raise RefusalError(message, place, hint=hint, notes=(note,))

    def _link(self, name: str, function: ir.Function, names: Mapping[str, str]) -> str:
        """The name under which a function is here, now or from before."""
        candidate, number = name, 0
        while True:
            renamed = _with_names(function, {**names, name: candidate})
            present = self.functions.get(candidate)
            if present is not None and (present is renamed or _same(present, renamed)):
                return candidate
            if present is None and candidate not in self.reserved:
                self.functions[candidate] = renamed
                return candidate
            number += 1
            candidate = f"{name}_{number}"


def same_type(one: TypeData, other: TypeData) -> bool:
    """Whether two data types of one name are the same: the names and fields of their constructors are."""
    if one is other or len(one.type_vars) != len(other.type_vars):
        return one is other
    variables = dict(zip(other.type_vars, one.type_vars, strict=True))
    ours = [(each.name, each.inputs) for each in one.constructors]
    return ours == [
        (each.name, tuple(substitute(part, variables) for part in each.inputs)) for each in other.constructors
    ]


def constructors_shown(data: TypeData) -> str:
    """The constructors of a data type as a cell calls them: ``Nil(), Cons(Tensor[(3,), f32], List)``."""
    return ", ".join(f"{each.name}({', '.join(map(format_type, each.inputs))})" for each in data.constructors)


def _same(one: ir.Function, other: ir.Function) -> bool:
    """Whether two functions are the same in all that a call can tell, the errors of assertions among it."""
    return structural_equal(one, other) and _assertions(one) == _assertions(other)


def _assertions(function: ir.Function) -> list[tuple[str, Span | None]]:
    return [
        (node.assertion, node.span)
        for node in post_order(function)
        if isinstance(node, ir.Match) and node.assertion is not None
    ]


def _type_of(function: ir.Function) -> FuncType | None:
    arguments = [param.checked_type or param.type_annotation for param in function.params]
    if function.ret_type is None or any(argument is None for argument in arguments):
        return None
    return FuncType(tuple(argument for argument in arguments if argument is not None), function.ret_type)


def _callees_first(module: Module, name: str) -> list[str]:
    graph = call_graph(module)
    reached = reachable(graph, name)
    return [each for group in components(graph) for each in group if each in reached]


def _with_names(function: ir.Function, names: Mapping[str, str]) -> ir.Function:
    """The function with the globals in it renamed; itself where none changes."""

    def renamed(_old: ir.Expr, node: ir.Expr) -> ir.Expr:
        if isinstance(node, ir.GlobalVar) and names.get(node.name, node.name) != node.name:
            return replace(node, name=names[node.name])
        return node

    if all(old == new for old, new in names.items()):
        return function
    result = rewrite(function, renamed)
    assert isinstance(result, ir.Function)
    return result
