"""Refuse what a function would change of its defaults, each of which Python makes once for all calls."""

from __future__ import annotations

from synr import ast

from nnmagic.tinynn.analysis.bound_names import find_lists_changed
from nnmagic.tinynn.analysis.changing_calls import find_changed_parameters
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.namespace.lookup import look_up
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import source_text


def refuse_changed_defaults(ctx: Elaboration, definition: tree.DefinitionNode) -> None:
    """Report the lists, sets and dictionaries that are defaults and that the function changes."""
    changed = find_changed_parameters(definition) | find_lists_changed(definition.body)
    for parameter in definition.params:
        name = parameter.name
        if name not in changed or parameter.default is None:
            continue
        value, made = (
            ctx.evaluate(parameter.default),
            source_text(ctx.span(parameter.default.span), as_argument=True),
        )
        shared = look_up(ctx.resolver.namespace, made) if isinstance(parameter.default, ast.Var) else None
        if v.is_set(value):
            kind, word = "set", "set"
        elif isinstance(value, v.DictOf | v.TableOf) or v.entries_of(value) is not None:
            kind, word = "dict", "dictionary"
        elif isinstance(value, v.TupleOf) and (value.written == "list" or isinstance(shared, list)):
            kind, word = "list", "list"
        else:
            continue
        made = f"{kind}({made})" if isinstance(parameter.default, ast.Var) else made
        message = f"the default of `{name}` is one {word} for all calls, which Python would change"
        hint = f"write {name}=None as the default, and begin with: if {name} is None: {name} = {made}"
        ctx.report(v.RefusalError(message, ctx.span(parameter.default.span), hint=hint))
