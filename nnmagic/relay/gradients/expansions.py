"""Type the expression that an operator without a rule of its own is differentiated through."""

from __future__ import annotations

from nnmagic.relay.expr import Function, Var
from nnmagic.relay.gradients.registry import EXPANSIONS
from nnmagic.relay.gradients.vjp_call import VjpCall
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.passes.normal_forms import to_a_normal_form


def expand(place: VjpCall) -> Function:
    """Return a function in A-normal form that computes the same as a call."""
    params = tuple(Var(f"a{index}", type_, span=place.span) for index, type_ in enumerate(place.types))
    inner = VjpCall(
        place.name,
        params,
        place.types,
        place.attrs,
        place.out,
        place.out_type,
        None,
        place.wanted,
        place.span,
    )
    function = Function(params, EXPANSIONS[place.name](inner), span=place.span)
    typed = to_a_normal_form(infer_type(Module({"main": function})))
    return typed.functions["main"]
