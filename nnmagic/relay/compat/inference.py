"""Follow the original Relay's type inference where its outcome differs from nnmagic's.

The original unifies types step by step, in an order of its own. So it accepts some modules in which two sizes
differ, does not find the result of some calls, and prints some types wider than they are. This file asks
``infer_printed_types``, which does the original's steps, what became of a module whose types are inferred.
"""

from __future__ import annotations

from collections.abc import Mapping

from nnmagic.relay.compat.printed_types import UnlikeRelayError, infer_printed_types
from nnmagic.relay.expr import Call, Expr, GlobalVar
from nnmagic.relay.infer.context import Context, explicit_annotation
from nnmagic.relay.infer.unify import Hole
from nnmagic.relay.types import FuncType, Type


def original_accepts(context: Context, look_into_callees: bool) -> bool:
    """Return whether the original Relay would type the module without an error."""
    try:
        infer_printed_types(context.module, context.attrs, _types_for_callers(context, look_into_callees))
    except UnlikeRelayError:
        return False
    return True


def original_types(context: Context, look_into_callees: bool) -> Mapping[Expr, Type]:
    """Return the types that the original Relay prints, none where they are those of the context.

    Reports the calls whose result type it does not find.
    """
    untyped = {name for name, function in context.module.functions.items() if function.ret_type is None}
    calls_untyped = not look_into_callees and any(
        isinstance(node, GlobalVar) and node.name in untyped for node in context.types
    )
    if not (context.solver.widened or context.type_args or calls_untyped):
        return {}
    try:
        printed = infer_printed_types(
            context.module, context.attrs, _types_for_callers(context, look_into_callees)
        )
    except UnlikeRelayError:
        return {}
    if calls_untyped:
        _report_unknown_results(context, printed)
    return printed


def _report_unknown_results(context: Context, printed: Mapping[Expr, Type]) -> None:
    for node, type_ in printed.items():
        if isinstance(type_, Hole) and isinstance(node, Call) and isinstance(node.op, GlobalVar):
            name = f"@{node.op.name}"
            message = f"cannot infer the result type of {name}: callers know of it only what is written"
            context.error(node, message, hint=f"write it in {name}, after the parameters: `-> <its type>`")


def _types_for_callers(context: Context, look_into_callees: bool) -> dict[str, FuncType]:
    """Return the types of the globals as callers know them: as written, or as inferred."""
    signatures = {}
    for name, function in context.module.functions.items():
        if look_into_callees:
            inferred = context.signatures[name]
            params, result = inferred.arg_types, inferred.ret_type
        else:
            written = map(explicit_annotation, function.params)
            params = tuple(Hole() if type_ is None else type_ for type_ in written)
            result = Hole() if function.ret_type is None else function.ret_type
        signatures[name] = FuncType(params, result, function.type_params)
    return signatures
