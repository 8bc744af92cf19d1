"""Which values go between Python and a program: tensors, tuples and data types, not functions or references.

Knows the IR and the checks of arguments.
"""

from __future__ import annotations

from nnmagic.diagnostics import Span
from nnmagic.engine import engine_error
from nnmagic.engine.arguments import Parameter
from nnmagic.relay.expr import Var
from nnmagic.relay.module import Module
from nnmagic.relay.text.types import type_text
from nnmagic.relay.types import FuncType, GlobalTypeVar, RefType, TupleType, Type, TypeCall


def parameters_of(module: Module, entry: str) -> list[Parameter]:
    """The parameters of a function, to check arguments by. Raises EngineError for what Python cannot hold."""
    function = module.functions[entry]
    for var in function.params:
        _check(module, type_of(var), f"the parameter %{var.name_hint}", var.span)
    if function.ret_type is not None:
        _check(module, function.ret_type, "the result", function.span)
    return [Parameter(var.name_hint, type_of(var), module.types) for var in function.params]


def _check(module: Module, type_: Type, what: str, span: Span | None) -> None:
    """Refuses a type that holds a function or a reference anywhere."""
    seen: set[str] = set()
    work: list[Type] = [type_]
    while work:
        match work.pop():
            case TupleType(fields=fields):
                work.extend(fields)
            case FuncType() | RefType() as inner:
                kind = "a function" if isinstance(inner, FuncType) else "a reference"
                raise engine_error(
                    f"{what}, {type_text(type_)}, holds {kind}, which cannot go between Python and Relay",
                    span,
                )
            case TypeCall(func=GlobalTypeVar(name=name), args=args):
                work.extend(args)
                if name not in seen and name in module.types:
                    seen.add(name)
                    work.extend(part for each in module.types[name].constructors for part in each.inputs)


def type_of(var: Var) -> Type:
    """The type of a parameter. Raises EngineError where it is not known."""
    type_ = var.checked_type or var.type_annotation
    if type_ is None:
        raise engine_error(f"the type of %{var.name_hint} is not known", var.span, hint="infer types first")
    return type_
