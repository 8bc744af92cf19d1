"""Infer the types of a module, as Relay's InferType does, and erase them again.

Inference proper is in ``inference`` and the files that it uses. Only ``infer_type`` also asks
``nnmagic.relay.compat`` how the original's own inference would have ended.
"""

from __future__ import annotations

from nnmagic.diagnostics import RelayError, kind_of
from nnmagic.relay.infer.context import Context
from nnmagic.relay.infer.erase import erase_types
from nnmagic.relay.infer.inference import build_typed_module, infer_context
from nnmagic.relay.module import NOT_PRINTED, Module
from nnmagic.tracebacks import short_errors

__all__ = ["ensure_types", "erase_types", "infer_type"]


def ensure_types(module: Module) -> Module:
    """Return a module itself if its functions have types, otherwise with types inferred across calls."""
    if all(function.checked_type is not None for function in module.functions.values()):
        return module
    return infer_type(module, look_into_callees=True)


@short_errors
def infer_type(module: Module, *, look_into_callees: bool = False) -> Module:
    """Return a new module in which every expression has its ``checked_type``, every function its result type.

    As in Relay: parameters and lets without annotation get one, generic calls their type arguments; a caller
    knows of a global what is written, so without a written result type something else must say what a call
    gives, unless ``look_into_callees``. Annotations that an earlier inference filled in are inferred anew.
    Sharing and spans are kept, ``AnyDim`` labels where they are known to hold.
    Raises RelayError with every independent error.
    """
    if not isinstance(module, Module):
        raise TypeError(f"relay.infer_type takes a relay.Module, not {kind_of(module)}")
    from nnmagic.relay.compat.inference import original_accepts, original_types

    context = infer_context(Context(module))
    errors = context.diagnostics.errors
    if errors and context.size_errors == len(errors):
        # If the original has made a size dynamic before it meets another one, it finds no error.
        loose = infer_context(Context(module, loose=True))
        if not loose.diagnostics.errors and original_accepts(loose, look_into_callees):
            context = loose
    context.diagnostics.raise_if_any(RelayError)
    if look_into_callees and module.printed_types is NOT_PRINTED:
        return build_typed_module(context, NOT_PRINTED)
    printed = original_types(context, look_into_callees)
    context.diagnostics.raise_if_any(RelayError)
    return build_typed_module(context, printed)
