"""Make copies of generic functions for the types that they are called with."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from nnmagic.relay.expr import Call, Expr, Function, GlobalVar
from nnmagic.relay.infer import infer_type
from nnmagic.relay.infer.unify import type_parts
from nnmagic.relay.module import Module
from nnmagic.relay.passes.inlining import specialize
from nnmagic.relay.passes.rewriting import copy_graph
from nnmagic.relay.structure.callgraph import call_graph, reachable
from nnmagic.relay.structure.traverse import rewrite
from nnmagic.relay.types import Type

#: The most copies, and the most parts of a type that one is made for: a generic function that calls itself
#: with larger types would need copies without an end.
_MOST_COPIES, _MOST_PARTS = 200, 200


def specialize_functions(module: Module, entry: str) -> Module:
    """Return a module in which an entry calls copies of generic functions, each for certain types.

    The module must be typed. One that needs too many copies comes out as it is.
    """
    functions = module.functions
    if not any(functions[name].type_params for name in reachable(call_graph(module), entry)):
        return module
    names: dict[Hashable, str] = {(entry, ()): entry}
    made: dict[str, Function] = {}
    waiting = [(entry, functions[entry])]

    def copy_of(name: str, type_args: Sequence[Type]) -> str:
        """Return the name of the copy of a function; of one that is not generic its own."""
        key = name, type_args
        if key not in names:
            copy, callee = name, functions[name]
            while callee.type_params and (copy in functions or copy in names.values()):
                copy += "_"
            names[key] = copy
            own = specialize(copy_graph(callee), type_args) if callee.type_params else callee
            waiting.append((copy, own))
        return names[key]

    def call_copy(_old: Expr, new: Expr) -> Expr:
        if isinstance(new, GlobalVar) and not functions[new.name].type_params:
            copy_of(new.name, ())
        if not isinstance(new, Call) or not isinstance(new.op, GlobalVar) or not new.type_args:
            return new
        if any(map(_is_large, new.type_args)):
            return new
        copy = GlobalVar(copy_of(new.op.name, new.type_args), span=new.op.span)
        return replace(new, op=copy, type_args=(), checked_type=None)

    while waiting:
        name, function = waiting.pop()
        copied = rewrite(function, call_copy)
        assert isinstance(copied, Function)
        made[name] = copied
        if len(names) > len(functions) + _MOST_COPIES:
            return module
    copies = replace(module, functions={**functions, **made}, printed_types={})
    return infer_type(copies, look_into_callees=True)


def _is_large(type_: Type) -> bool:
    """Return whether a type has more than so many parts; those of a tuple may have been doubled often."""
    count, work = 0, [type_]
    while work and count <= _MOST_PARTS:
        count += 1
        work += type_parts(work.pop())
    return count > _MOST_PARTS
