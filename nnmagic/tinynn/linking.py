"""Brings the functions of earlier cells into the module of this one. Knows Relay modules and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nnmagic.relay import expr as ir
from nnmagic.relay.callgraph import call_graph, components, reachable
from nnmagic.relay.equal import structural_equal
from nnmagic.relay.module import Module, TypeData
from nnmagic.relay.traverse import rewrite
from nnmagic.relay.types import FuncType
from nnmagic.tinynn.values import Formal, GlobalFunction


@dataclass(slots=True)
class Linker:
    """The functions that are linked, by the names that they have in this module.

    A compiled function stays what it was when it was compiled: where its name, or that of a function that it
    calls, is taken here by another function, it gets a name with a number.
    """

    functions: dict[str, ir.Function] = field(default_factory=dict)
    types: dict[str, TypeData] = field(default_factory=dict)
    reserved: set[str] = field(default_factory=set)

    def use(self, written: str, name: str, module: Module) -> GlobalFunction:
        """Links a function and all that it calls; gives it as this module knows it."""
        names: dict[str, str] = {}
        for each in _callees_first(module, name):
            names[each] = self._link(each, module.functions[each], names)
        self.types.update(module.types)
        function = module.functions[name]
        parameters = tuple(Formal(param.name_hint) for param in function.params)
        return GlobalFunction(names[name], written, parameters, _type_of(function))

    def _link(self, name: str, function: ir.Function, names: Mapping[str, str]) -> str:
        """The name under which a function is here, now or from before."""
        candidate, number = name, 0
        while True:
            renamed = _with_names(function, {**names, name: candidate})
            present = self.functions.get(candidate)
            if present is not None and (present is renamed or structural_equal(present, renamed)):
                return candidate
            if present is None and candidate not in self.reserved:
                self.functions[candidate] = renamed
                return candidate
            number += 1
            candidate = f"{name}_{number}"


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
