"""Functions that assign elements: indices, slices, masks, calls, aliases, nests of loops, lists.

Each changes arrays of one shape. One in three changes an array of the caller. It must give what Python gives,
raise IndexError where Python does, or be refused because names share memory.
"""

from __future__ import annotations

import functools
import re

from tests.random_programs.program import Family, Program, Rules, choose, seeded, uniform
from tests.random_programs.writer import Grammar, Writer, words

_SIZES = (4, 4, 5, 3, 1, 0, 37)
#: Python takes minutes for four loops, one in the other, over more elements.
_LARGEST_OF_DEEP_NESTS = 5
_LOOP_IN_THREE = re.compile(r"^ {16,}for ", re.MULTILINE)

_PROGRAM = """
    <+helper>
    def f(x: Tensor[<shape>, f32], k: Tensor[(2,), i64]<destination>):
        n = len(x)
        c = <first> + 0
        <y>
        <block 2-7>
        return (<names A>, c)
"""
_HELPER = """
    def change(p, q, v):
        p[1:] = q[:-1] * v
        if v > 0:
            p[:1] += q[-1:]
        p *= 0.5
        return p.sum() * 0.1
"""
_STATEMENTS = """
    4* <name A>[<position>] <assign> <number>

    0.7* <name A>[<cut>] <assign> <number>

    0.7* <name A>[<s=cut>] <assign> <name A>[<s>]

    0.7* <name A>[<s=cut>] <assign> <name A>[<s>] * 0.5 + 1

    [top] <named A u v w> = <source>

    [nested] <u|v|w> = <source>

    [shallow] if <number> > <number>:
        <block 1-3>
    ? else:
        <block 1-3>

    2* [shallow] for <counter c> in range(<|||1, ><end>):
        <block 1-3>
        ? if <number> > 1:
            <break|continue>
        c += 0.25

    0.5* <a=name A>, <b=name A> = <b>, <a>

    c = <number> + y.sum() * 0

    2* [top] <+nest>

    2* [nested] c = c * 0.5
"""
_STATEMENTS_OF_ELEMENTS = """
    <name A>[<name A> <less> <number>] <assign> <number>

    <name A>[k] <assign> <gathered>

    np.<add|subtract|multiply|maximum|minimum>.at(<name A>, k, <number>)

    0.3* <name A>.fill(<number>)

    0.3* np.putmask(<a=name A>, <a> <less> <number>, 0.5)

    0.3* np.copyto(<name A>, x)

    <|c = >change(<name A>, <x|copied>, <number>)

    kept = [c]
    for e in range(<n|3>):
        if <r=name A>.ravel()[e % n] > <number>:
            kept.append(kept[-1] * 0.5 + <r>.ravel()[e % n])
            <continue|break|c = c * 0.5>
    c = c * 0.5 + np.array(kept).sum() * 0.1 + len(kept)
"""
_TABLES = {
    "program": _PROGRAM,
    "helper": _HELPER,
    "source": """
        2* <name A>
        <name A>[::-1]
        <name A>[:]
        (<a=name A> if c > 0 else <a> * 2)
        2* <name A>.copy()
        <name A> + 1
        <name A> * 0.5
        np.zeros_like(x)
    """,
    "nest": """
        for <counter c> in range(<bounds>):
            <+elements>

        s = c
        for <counter c> in range(<bounds>):
            <+sums>
    """,
    "elements": """
        3* for <counter c> in range(<bounds>):
            <+elements>

        2* <name A>[<position>] <changes> <number> * 0.5

        2* <name A>[<position>] <changes> <number> * 0.5
        <name A>[<position>] <changes> <number> * 0.5
    """,
    "sums": """
        for <counter c> in range(<bounds>):
            <+sums>

        s <+|->= <number>
        <a=name A>[<position>] = s
        <+elements>
    """,
    "bounds": """
        3* <high>
        3* <low>, <high>
        2* <low>, <high>, <2|3>
        3* <high> - 1, <low> - 1, <-1|-1|-2>
    """,
    "low": "2* 0\n1\n<name c>\n<name c> + 1",
    "high": "2* n\nn - 1\nlen(x)\n<name c>\n<name c> + 1",
    "end": "<0..4>\n2* n\n<name c>",
    "assign": words("= = = += *= -="),
    "changes": words("= += -="),
    "less": words("< >"),
    "gathered": "<number>\n<name A>[k]",
    "copied": "<name A>.copy()",
    "number": """
        <-2..1>.<10..99>
        c
        (<number> <+|-|*> <number>)
        <reduction> * 0.1
        3* <name A>[<position>]
    """,
    "leaf number": "c\n2* <name A>[<position>]",
    "index": """
        [sized] <fixed>
        [sized] 0
        [sized] -1
        2* <name c>
        <name c> - 1
        n - 1 - <name c>
    """,
    "slice": "<bound>:<bound><||||:2|:-1|:-2>",
    "bound": "2* <|>\n<-5..5>\n<name c>",
}
_VECTOR = {
    "position": "<index>",
    "cut": "<slice>",
    "reduction": """
        <name A>[<slice>].sum()
        (<name A>[<s=slice>] @ <name A>[<s>])
        (<name A>[<s=slice>] * <name A>[<s>] + 1).sum()
    """,
}
_MATRIX = {
    "position": "<index>, <index>",
    "cut": "<slice>, <slice>\n<index>, <slice>\n<slice>, <index>\n<slice>",
    "reduction": """
        <name A>[<index>, <slice>].sum()
        (<name A>[<index>, <s=slice>] @ <name A>[<s>, <index>])
        (<name A>[<index>, <s=slice>] * <name A>[<s>, <index>] + 1).sum()
    """,
}
_SWAPS = """
    0.5* <name A>[<position>], <name A>[<position>] = <number>, <number>
"""


@functools.cache
def _grammar(size: int, *, is_matrix: bool) -> Grammar:
    """Return the productions for arrays of this size; of arrays without elements only loops have some."""
    statements = _STATEMENTS + _STATEMENTS_OF_ELEMENTS * (size > 0) + _SWAPS * (not is_matrix)
    tables = {**_TABLES, **(_MATRIX if is_matrix else _VECTOR), "statement": statements}
    tables["fixed"] = f"<{-size}..{max(size - 1, 0)}>"
    if not size:
        tables["index"] = tables["index"].replace("[sized]", "0*")
    return Grammar({name: table.replace("[sized] ", "") for name, table in tables.items()}, nesting=3)


def write(seed: int) -> Program:
    """Return the program of a seed."""
    chance = seeded("assignments", seed)
    size, is_matrix = chance.choice(_SIZES), chance.random() < 0.5
    shape = (size, size) if is_matrix else (size,)
    written = str(shape if size and chance.random() < 0.5 else ("n", "n")[: len(shape)]).replace("'", '"')
    changes = chance.random() < 1 / 3
    source = ""
    while not source or (size > _LARGEST_OF_DEEP_NESTS and _LOOP_IN_THREE.search(source)):
        writer = Writer(_grammar(size, is_matrix=is_matrix), chance)
        writer.bind("A", "y")
        source = writer.program(
            shape=written,
            destination=f", y: InOut[Tensor[{written}, f32]]" if changes else "",
            first="x.ravel()[0]" if size else "x.sum()",
            y="" if changes else "y = x.copy()",
        )
    x, k = uniform(chance, shape, "f4"), choose(chance, (2,), "i8", (-1, 0))
    return Program("assignments", seed, source, ((x, k, x[::-1].copy()) if changes else (x, k),), RULES)


RULES = Rules(
    rtol=1e-3,
    errors=(IndexError, UnboundLocalError),
    refusals=("share memory", "out of range", "the caller's array"),
    numpy=True,
    changes=True,
    largest=1e6,
    agrees=True,
)
FAMILY = Family("assignments", write, ("numpy", "relax"))
