"""Link the functions and data types of earlier cells into the module of this one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType

from nnmagic.diagnostics import Note, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.callbacks import callbacks_in, has_effects
from nnmagic.relay.failures import Failure
from nnmagic.relay.infer.unify import substitute
from nnmagic.relay.module import Module, TypeData
from nnmagic.relay.signatures import format_type
from nnmagic.relay.structure.callgraph import components, definition_graph, reachable, rename_globals
from nnmagic.relay.structure.structural_equality import structural_equal
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.structure.used_types import collect_used_types
from nnmagic.relay.types import FuncType
from nnmagic.tinynn.calls.defaults import from_python
from nnmagic.tinynn.namespace.compiled_values import CompiledGlobal, FunctionTemplate
from nnmagic.tinynn.namespace.notebook_functions import source_code
from nnmagic.tinynn.parameters import MISSING, ParameterInfo
from nnmagic.tinynn.program import DataTypeInfo
from nnmagic.tinynn.values import values as v


@dataclass(slots=True)
class Linker:
    """Linked functions, by their names in this module, and all data types.

    A compiled function keeps its meaning: if its name, or that of a function that it calls, is taken by
    another function here, it gets a numbered name. Data types and constructors keep their names, because
    values of the notebook carry them; two different types of one name are refused.
    """

    functions: dict[str, ir.Function] = field(default_factory=dict)
    types: dict[str, TypeData] = field(default_factory=dict)
    infos: dict[str, DataTypeInfo] = field(default_factory=dict)
    reserved: set[str] = field(default_factory=set)
    #: Whether a linked function calls Python for its effects.
    has_effects: bool = False
    #: For each data type, its origin and the span that mentions it.
    _origins: dict[str, tuple[str, Span]] = field(default_factory=dict)

    def link_function(self, name_in_cell: str, compiled: CompiledGlobal, span: Span) -> v.GlobalFunction:
        """Link a function and everything that it calls; return it as this module knows it."""
        name, module = compiled.name, compiled.module
        names: dict[str, str] = {}
        groups = _callees_first(module, name)
        callees = (module.functions[callee] for group in groups for callee in group)
        self.link_types(f"`{name_in_cell}`", collect_used_types(callees, module.types), compiled.infos, span)
        for group in groups:
            names |= self.link({callee: module.functions[callee] for callee in group}, names)
        function = module.functions[name]
        parameters = {parameter.name: parameter for parameter in compiled.parameters}
        formals = []
        for param in function.params:
            info = parameters.get(param.name_hint, ParameterInfo(param.name_hint))
            default = None if info.default is MISSING else from_python(info.default, module.types)
            formals.append(v.Formal(info.name, info.kind, default, info.destination))
        return v.GlobalFunction(names[name], name_in_cell, tuple(formals), _type_of(function))

    def link_template(self, name_in_cell: str, template: FunctionTemplate) -> v.SpecializableFunction:
        """Return a function of an earlier cell with open types, as this cell calls it."""
        formals = [
            v.Formal(
                parameter.name,
                parameter.kind,
                None if parameter.default is MISSING else v.Known(None),
                parameter.destination,
            )
            for parameter in template.parameters
        ]
        return v.SpecializableFunction(
            name_in_cell, tuple(formals), template.specialize, source_code(template)
        )

    def link_types(
        self, origin: str, types: Mapping[str, TypeData], infos: Mapping[str, DataTypeInfo], span: Span
    ) -> None:
        """Add data types that ``origin`` brings; raise RefusalError if a different one has the same name."""
        for name, data in types.items():
            present = self.types.get(name)
            if present is None:
                self._check_constructors(origin, data, span)
                self.types[name] = data
                self._origins[name] = (origin, span)
                if name in infos:
                    self.infos[name] = infos[name]
            elif not same_type(present, data):
                raise self._clash(name, present, data, origin, span)

    def _clash(
        self, name: str, present: TypeData, added: TypeData, origin: str, span: Span
    ) -> v.RefusalError:
        first, first_span = self._origins[name]
        notes = (
            Note(f"{name} of {first}: {format_constructors(present)}", first_span),
            Note(f"{name} of {origin}: {format_constructors(added)}", span),
        )
        message = f"two different data types are called {name}: that of {first} and that of {origin}"
        hint = "give one of them another name, and run again the cells that use it"
        return v.RefusalError(message, span, hint=hint, notes=notes)

    def _check_constructors(self, origin: str, data: TypeData, span: Span) -> None:
        """Refuse a constructor name that another type has: Relay calls constructors by their bare names."""
        mine = {constructor.name for constructor in data.constructors}
        for name, present in self.types.items():
            for constructor in present.constructors:
                if constructor.name in mine:
                    first, first_span = self._origins[name]
                    note = Note(f"{name} of {first}: {format_constructors(present)}", first_span)
                    message = (
                        f"{data.header.name} of {origin} has a constructor {constructor.name}, as {name} has"
                    )
                    hint = "give one of them another name: constructors are called by their bare names"
                    raise v.RefusalError(message, span, hint=hint, notes=(note,))

    def link(
        self, group: Mapping[str, ir.Function], names: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, str]:
        """Add functions that use one another if they are not here yet; return their names in this module.

        What is behind "#" in a name is left out. names: those of the other functions that they call.
        """
        for number in count():
            stems = {name: name.partition("#")[0] for name in group}
            own = {name: f"{stem}_{number}" if number else stem for name, stem in stems.items()}
            renamed = {own[name]: rename_globals(each, {**names, **own}) for name, each in group.items()}
            present = [self.functions.get(name) for name in renamed]
            pairs = zip(present, renamed.values(), strict=True)
            if all(old is not None and (old is new or _same(old, new)) for old, new in pairs):
                break
            if not any(present) and self.reserved.isdisjoint(renamed):
                self.functions |= renamed
                self.has_effects |= any(
                    has_effects(each) for new in renamed.values() for each in callbacks_in(new)
                )
                break
        return own


def same_type(first: TypeData, second: TypeData) -> bool:
    """Return whether two data types of one name have the same constructors, by names and fields."""
    if first is second or len(first.type_vars) != len(second.type_vars):
        return first is second
    variables = dict(zip(second.type_vars, first.type_vars, strict=True))
    ours = [(constructor.name, constructor.inputs) for constructor in first.constructors]
    return ours == [
        (constructor.name, tuple(substitute(input_type, variables) for input_type in constructor.inputs))
        for constructor in second.constructors
    ]


def format_constructors(data: TypeData) -> str:
    """Return a data type's constructors as a cell calls them: ``Nil(), Cons(Tensor[(3,), f32], List)``."""
    return ", ".join(
        f"{constructor.name}({', '.join(map(format_type, constructor.inputs))})"
        for constructor in data.constructors
    )


def _same(first: ir.Function, second: ir.Function) -> bool:
    """Return whether two functions behave the same, including the errors of their assertions."""
    return structural_equal(first, second) and _assertions(first) == _assertions(second)


def _assertions(function: ir.Function) -> list[tuple[Failure, Span | None]]:
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


def _callees_first(module: Module, name: str) -> list[tuple[str, ...]]:
    graph = definition_graph(module)
    reached = reachable(graph, name)
    return [group for group in components(graph) if reached.issuperset(group)]
