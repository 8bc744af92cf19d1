"""Warn where an array grows in each round of a loop, which copies all that was there before."""

from __future__ import annotations

from collections.abc import Mapping

from synr import ast

from nnmagic.relay.types import AnyDim, TensorType
from nnmagic.tinynn.analysis.bound_names import walk
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.merge_plans import MergePlan, types_of
from nnmagic.tinynn.syntax import tree

#: What makes an array of one and more, and copies both.
_JOINING = ("append", "concatenate", "hstack", "vstack")


def note_growing_arrays(
    ctx: Elaboration, stmt: tree.For | tree.While, plans: Mapping[str, MergePlan]
) -> None:
    """Say that an array which grows in each round is copied: a list, or one that is made before, is not."""
    changing = {
        name
        for name, plan in plans.items()
        for part in types_of(plan)
        if isinstance(part.type, TensorType) and AnyDim() in part.type.shape
    }
    for part in walk(stmt.body) if changing else ():
        if not isinstance(part, ast.Assign) or not isinstance(part.rhs, ast.Call):
            continue
        name, function = part.lhs[0].id.name, part.rhs.func_name
        called = function.field if isinstance(function, ast.Attr) else getattr(function, "id", None)
        parts = [each for param in part.rhs.params for each in getattr(param, "values", [param])]
        grows = any(isinstance(each, ast.Var) and each.id.name == name for each in parts)
        if name in changing and grows and getattr(called, "name", "") in _JOINING:
            message = f"`{name}` grows in each round, which copies all of it, as in NumPy"
            hint = f"append to a list, or make `{name}` before the loop and assign its elements"
            ctx.note(message, ctx.span(part.span), hint=hint)
