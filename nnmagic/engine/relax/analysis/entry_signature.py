"""Check the types of an entry: Python can pass and take tensors, tuples and data types.

It can hold neither functions nor references.
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
    """Return an entry's parameters, to check arguments by. Raises EngineError for what Python cannot hold."""
    function = module.functions[entry]
    for var in function.params:
        _refuse_unrepresentable(module, type_of(var), f"the parameter %{var.name_hint}", var.span)
    if function.ret_type is not None:
        _refuse_unrepresentable(module, function.ret_type, "the result", function.span)
    return [Parameter(var.name_hint, type_of(var), module.types) for var in function.params]


def _refuse_unrepresentable(module: Module, type_: Type, what: str, span: Span | None) -> None:
    """Refuse a type that holds a function or a reference anywhere."""
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
                    constructors = module.types[name].constructors
                    work.extend(part for constructor in constructors for part in constructor.inputs)


def type_of(var: Var) -> Type:
    """Return the type of a parameter. Raises EngineError if it is not known."""
    type_ = var.checked_type or var.type_annotation
    if type_ is None:
        raise engine_error(f"the type of %{var.name_hint} is not known", var.span, hint="infer types first")
    return type_
