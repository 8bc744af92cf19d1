"""Arrays whose sizes change: in loops, in branches, from function to function.

Vectors lose and gain elements, are masked, sorted and put together by values and by arguments, in nested
loops, branches and functions of the cell. It must give what Python gives, or raise what Python raises.
"""

from __future__ import annotations

import numpy as np

from tests.random_programs.program import Family, Program, Rules, seeded
from tests.random_programs.writer import Grammar, Writer

_GRAMMAR = Grammar(
    {
        "program": """
            <+helper>
            <+main>
        """,
        "helper": """
            def g(x: Tensor[("n",), f64], m: i64, k: i64):
                a, b = x, x * 2.0
                c = 0.5
                i = 0
                <block 1-2>
                return <vector>
        """,
        "main": """
            def f(x: Tensor[("n",), f64], m: i64, k: i64):
                a, b = x, x[:m]
                c = 0.25
                i = 0
                <+loop>
                ? <+loop>
                ? <+choice>
                ? a = g(<vector>, <size>, k)
                return <result>
        """,
        "choice": """
            if <condition>:
                a = <resized>
            else:
                a = <resized>
        """,
        "loop": """
            for i in range(<bound>):
                <block 1-3>
        """,
        "statement": """
            3* <name>= <resized>

            2* [shallow] <+loop>

            2* [shallow] if <condition>:
                <block 1-1>
            ? else:
                <block 1-1>

            [shallow] <+choice>

            a, b = <resized>, <resized>

            c = c * 0.5 + np.sum(<vector>)

            a = <vector> * 0.5 + c

            b = a + a[::-1]

            b = <vector> + 0.0
            b[:1] = c
        """,
        "name": "a \nb ",
        "vector": "2* a\n2* b\nx",
        "resized": """
            3* <vector>[:<size>]
            3* <vector>[<size>:]
            <vector>[<size>:<size>]
            <vector>[::2]
            <vector>[::-1]
            2* <v=vector>[<v> > c]
            <v=vector>[<v> <= c]
            2* np.concatenate([<vector>[:<size>], <vector>[:3]])
            np.sort(<vector>)
            np.diff(<vector>)
            <v=vector>[1:] * 0.5 - <v>[:-1]
            np.zeros(<count>)
            np.arange(<count>) * 0.5
            np.repeat(<vector>[:2], 2)
            np.unique(<vector>)
            np.append(<vector>[:4], c)
            <vector> + 1.0
            np.roll(<vector>, <size>)
        """,
        "size": "k\n2* 1\n-1\n3\nk - 1\ni\nlen(a) // 2\n-2",
        "count": "abs(k)\nlen(a)\nlen(b) // 2 + 1\nm",
        "bound": "k\nm\n3\nlen(x) // 2\nlen(b)",
        "condition": "len(a) > 2\nlen(a) > len(b)\nc > 0.5\nnp.sum(b) > c\nk > 1",
        "result": "a, b, c\na\na, c\nb * 1.0\nx, a\nc",
    },
    nesting=2,
)


def write(seed: int) -> Program:
    """Return the program of a seed."""
    source = Writer(_GRAMMAR, seeded("changing_sizes", seed), size=14).program()
    chance = np.random.default_rng(seed)
    calls = tuple(
        (chance.integers(-8, 8, size) * 0.25, m, k)
        for size, m, k in ((6, 2, 3), (9, 3, 2), (1, 1, 1), (0, 2, 1), (4, 0, 0), (5, 4, -1))
    )
    return Program("changing_sizes", seed, source, calls, RULES)


RULES = Rules(rtol=1e-10, errors=(IndexError, ValueError, MemoryError), numpy=True)
FAMILY = Family("changing_sizes", write, ("numpy", "relax"))
