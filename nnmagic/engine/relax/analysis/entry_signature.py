"""Check the types of an entry: Python can pass and take tensors, tuples and data types.

It can hold neither functions nor references.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnmagic.diagnostics import Span
from nnmagic.engine import engine_error
from nnmagic.engine.arguments import Parameter
from nnmagic.limits import MAX_ARRAYS, MAX_NAMED_SIZES, MAX_RANK
from nnmagic.relay.text.types import type_text
from nnmagic.relay.types import FuncType, GlobalTypeVar, RefType, TensorType, TupleType, Type, TypeCall

if TYPE_CHECKING:
    from nnmagic.relay.expr import Var
    from nnmagic.relay.module import Module


def parameters_of(module: Module, entry: str) -> list[Parameter]:
    """Return an entry's parameters, to check arguments by. Raises EngineError for what Python cannot hold."""
    function = module.functions[entry]
    for var in function.params:
        _refuse_unrepresentable(module, type_of(var), f"the parameter %{var.name_hint}", var.span)
    if function.ret_type is not None:
        _refuse_unrepresentable(module, function.ret_type, "the result", function.span)
    return [Parameter(var.name_hint, type_of(var), module.types) for var in function.params]


def check_widths(module: Module, entry: str) -> None:
    """Refuse an entry with more tensors, named sizes or axes than TVM compiles in reasonable time.

    Raises:
        EngineError: which names the limit.

    """
    from nnmagic.engine.relax.analysis.dim_labels import label_of

    function = module.functions[entry]
    parameters = [tensor for var in function.params for tensor in _tensors_in(type_of(var))]
    results = [] if function.ret_type is None else _tensors_in(function.ret_type)
    count = len(parameters) + len(results)
    if count > MAX_ARRAYS:
        message = f"@{entry} takes {len(parameters)} tensors and returns {len(results)}"
        hint = "stack tensors of the same shape into one"
        raise engine_error(f"{message} (at most {MAX_ARRAYS} together)", function.span, hint=hint)
    rank = max((len(tensor.shape) for tensor in (*parameters, *results)), default=0)
    if rank > MAX_RANK:
        message = f"@{entry} takes or returns a tensor of {rank} axes (at most {MAX_RANK})"
        raise engine_error(message, function.span, hint="an array of NumPy has no more")
    names = {label_of(dim) for tensor in parameters for dim in tensor.shape if not isinstance(dim, int)}
    if len(names) > MAX_NAMED_SIZES:
        message = f"@{entry} has {len(names)} named sizes (at most {MAX_NAMED_SIZES})"
        raise engine_error(message, function.span, hint="give sizes that are equal the same name")


def _tensors_in(type_: Type) -> list[TensorType]:
    """Return the tensors of a type, with those of its tuples."""
    tensors: list[TensorType] = []
    work = [type_]
    while work:
        match work.pop():
            case TensorType() as tensor:
                tensors.append(tensor)
            case TupleType(fields=fields):
                work.extend(fields)
    return tensors


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
                    work.extend(
                        input_type for constructor in constructors for input_type in constructor.inputs
                    )


def type_of(var: Var) -> Type:
    """Return the type of a parameter. Raises EngineError if it is not known."""
    type_ = var.checked_type or var.type_annotation
    if type_ is None:
        raise engine_error(f"the type of %{var.name_hint} is not known", var.span, hint="infer types first")
    return type_
