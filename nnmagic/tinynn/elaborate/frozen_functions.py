"""Freeze functions: bind what they capture at once, whatever is assigned before they are called."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.let_bindings import atomize
from nnmagic.tinynn.values import values as v


def freeze(ctx: Elaboration, value: v.Value) -> v.Value:
    """Return a value whose functions, and those that they call, keep what their names stand for now."""
    return _Freezing(ctx).of_value(value, "function")


@dataclass(slots=True)
class _Freezing:
    """Copies of environments and functions, by the identities of these, which are kept alive."""

    ctx: Elaboration
    environments: dict[int, tuple[v.Environment, v.Environment]] = field(default_factory=dict)
    functions: dict[int, tuple[v.Value, v.LocalFunction | v.ClosureValue]] = field(default_factory=dict)
    #: The names of copies that were frozen.
    done: set[tuple[int, str]] = field(default_factory=set)

    def of_value(self, value: v.Value, name: str) -> v.Value:
        """Return a value over atoms, with its functions frozen; ``name``: what to call its parts."""
        match value:
            case v.LocalFunction() | v.ClosureValue():
                return self._of_function(value)
            case v.GradientOf(kind=kind, function=function, arguments=arguments) if kind != "pullback":
                given = tuple(self._of_operand(argument, name) for argument in arguments)
                return replace(value, function=self._of_operand(function, name), arguments=given)
            case v.TupleOf(items=items, whole=None):
                parts = (self.of_value(item, f"{name}_{index}") for index, item in enumerate(items))
                return replace(value, items=tuple(parts))
            case v.Method(receiver=receiver):
                return replace(value, receiver=self._of_operand(receiver, name))
            case v.Zipped(parts=operands):
                return replace(value, parts=tuple(self._of_operand(operand, name) for operand in operands))
        return atomize(self.ctx, value, name, set())

    def _of_operand(self, operand: v.Operand, name: str) -> v.Operand:
        return replace(operand, value=self.of_value(operand.value, name))

    def _of_function(self, function: v.LocalFunction | v.ClosureValue) -> v.LocalFunction | v.ClosureValue:
        if id(function) in self.functions:
            return self.functions[id(function)][1]
        environment = self._of_environment(function.environment)
        frozen = replace(function, environment=environment)
        self.functions[id(function)] = (function, frozen)
        for name in sorted(function.versions):
            owner = environment.owner(name)
            if owner is None or (id(owner), name) in self.done or name not in owner.bindings.locals:
                continue
            self.done.add((id(owner), name))
            owner.bindings.locals[name] = self.of_value(owner.bindings.locals[name], name)
        if any(formal.default is not None for formal in function.parameters):
            formals = (
                formal
                if formal.default is None
                else replace(formal, default=self.of_value(formal.default, formal.name))
                for formal in function.parameters
            )
            frozen = replace(frozen, parameters=tuple(formals))
            self.functions[id(function)] = (function, frozen)
        return frozen

    def _of_environment(self, environment: v.Environment) -> v.Environment:
        """Return a copy of an environment, and of those around it."""
        if id(environment) not in self.environments:
            parent = None if environment.parent is None else self._of_environment(environment.parent)
            frozen = replace(environment, parent=parent, bindings=environment.bindings.copy())
            self.environments[id(environment)] = (environment, frozen)
        return self.environments[id(environment)][1]
