"""Nests of loops over arrays whose sizes are arguments.

Each function takes two integers, which decide the sizes of the arrays that it makes, and a vector. The nests
read and write elements, choose between them, take slices and rows, and make arrays anew in each round. It
must give what Python gives, or raise what Python raises.
"""

from __future__ import annotations

import numpy as np

from tests.random_programs.program import Family, Program, Rules, seeded
from tests.random_programs.writer import Grammar, Writer, words

_SIZES = ("n", "n + m", "m + n + 1", "n + m + 2", "2 * n + m", "(n + 1) * (m + 1)", "(3 * n + 3 * m) // 2")

_GRAMMAR = Grammar(
    {
        "program": """
            def f(n: i64, m: i64, x: Tensor[("k",), f64]):
                a = np.zeros(<shape_a>)
                b = np.ones(<shape_b>)
                c = 0.25
                <+loop>
                ? <+loop>
                ? <+loop>
                return a, b, c
        """,
        "loop": """
            for <counter i> in range(<bounds>):
                <block 1-3>
        """,
        "statement": """
            4* [shallow] <+loop>

            3* <matrix>[<index>, <index>] <assign> <element> * 0.5 + <element>

            c = c * 0.5 + <element>

            [shallow] if <element> > <element>:
                <block 1-1>
            ? else:
                <block 1-1>

            <m=matrix>[<index>, :] = <m>[<index>, :] * 0.5 + c

            <matrix>[<index>, 1:] += <matrix>[<index>, :-1]

            0.5* new = <new_a>
            new[<index>, <index>] = <matrix>[<index>, <index>]
            a = new

            0.5* new = <new_b>
            new[<index>, <index>] = <matrix>[<index>, <index>]
            b = new
        """,
        "new_a": "np.zeros(<shape_a>)\na + 1\na.copy()",
        "new_b": "np.zeros(<shape_b>)\nb + 1\nb.copy()",
        "bounds": """
            n
            m
            1, n
            n - 1, -1, -1
            0, m, 2
            a.shape[0]
            b.shape[1]
            <name i>
            <name i> + 1, n
            <name i>, -1, -1
        """,
        "index": """
            <0|-1|n - 1|m>
            3* <name i>
            <name i> - 1
            <name i> + 1
            (<name i> + 1) % 3
            -<name i>
        """,
        "element": """
            2* <matrix>[<index>, <index>]
            x[<index>]
            c
            0.5
            np.sum(<matrix>[<index>])
            np.sum(<matrix>[<index>, :<index>])
        """,
        "matrix": words("a b"),
        "assign": words("= += -="),
    },
    nesting=3,
)


def write(seed: int) -> Program:
    """Return the program of a seed."""
    chance = seeded("sized_nests", seed)
    first, second, *others = (chance.choice(_SIZES) for _ in range(4))
    shape = f"({first}, {first if chance.random() < 0.4 else second})"
    other = shape if chance.random() < 0.5 else f"({', '.join(others)})"
    source = Writer(_GRAMMAR, chance, size=16).program(shape_a=shape, shape_b=other)
    sizes = ((3, 4), (1, 1), (5, 2), (0, 3), (2, 0), (-1, 2))
    return Program("sized_nests", seed, source, tuple((n, m, np.arange(12.0)) for n, m in sizes), RULES)


RULES = Rules(rtol=1e-10, errors=(IndexError, ValueError, MemoryError), numpy=True)
FAMILY = Family("sized_nests", write, ("numpy", "relax"))
