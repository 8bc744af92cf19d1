"""Write a comprehension as the loop that it is."""

from __future__ import annotations

import ast as py
from collections.abc import Callable

from nnmagic.tinynn.syntax.names_in_python import bound_by, substitute_names
from nnmagic.tinynn.syntax.written_code import moved, statements_at

COMPREHENSION = py.ListComp | py.GeneratorExp | py.SetComp | py.DictComp


def as_loop(node: COMPREHENSION, made: str, new_name: Callable[[str], str]) -> list[py.stmt] | None:
    """Return the statements that give a name what a comprehension makes; a list for a generator.

    None where what it goes over has a name of one of its own.
    """
    match node:
        case py.DictComp(key=key, value=value):
            begin, last = "{}", f"{made}[{py.unparse(key)}] = {py.unparse(value)}"
        case py.SetComp(elt=item):
            begin, last = "set()", f"{made}.add({py.unparse(item)})"
        case py.ListComp(elt=item) | py.GeneratorExp(elt=item):
            begin, last = "[]", f"{made}.append({py.unparse(item)})"
    outer = {part.id for part in py.walk(node.generators[0].iter) if isinstance(part, py.Name)}
    if bound_by(node) & outer:
        return None
    body = py.parse(last).body
    for generator in reversed(node.generators):
        for condition in reversed(generator.ifs):
            body = [py.If(condition, body, [])]
        body = [py.For(generator.target, generator.iter, body, [])]
    loop = substitute_names(body[0], {name: _named(new_name(name)) for name in sorted(bound_by(node))})
    assert isinstance(loop, py.stmt)
    return [*statements_at(node, f"{made} = {begin}"), moved(node, loop)]


def _named(name: str) -> Callable[[], py.expr]:
    return lambda: py.Name(name, py.Load())
