"""Nests whose outermost loop is parallel.

A cell takes only those whose rounds do not clash, and computes what Python computes with ``range``. Which
rounds use which elements is found by running the source on arrays that record it.
"""

from __future__ import annotations

from tests.random_programs.program import Family, Program, Rules, seeded, uniform
from tests.random_programs.writer import Grammar, Writer, words

PARAMETERS = 'x: Tensor[("n", "m"), f64], y: InOut[Tensor[("n", "m"), f64]], k: i64'
_SHAPES = ((7, 6), (0, 3), (100, 100), (1, 1), (65, 66))

_GRAMMAR = Grammar(
    {
        "program": """
            def f(<parameters>):
                n, m = x.shape
                s = 0.0
                t = -1.0
                for i in parallel(<outer>):
                    <+round>
                return s, t
        """,
        "round": """
            7* <+nest>

            3* <named p p> = <i|i + 1|2 * i|i - 1|i // 2|i * i>
            <+nest>
        """,
        "nest": """
            2* <+changes>

            6* for <named j j> in range(<m|m - 1|1, m|i|i, m|2>):
                <+changes>
        """,
        "changes": """
            <let common=place>
            <+change>
            <total>

            <let common=place>
            <+change>
            <+change>
            <total>
        """,
        "change": """
            y[<at>] <assign> <value>
        """,
        "value": "5* x[<at>]\n5* y[<at>] * 0.5\n5* 1.0\ns\n4* i",
        "total": """
            2* <|>
            s += x[<at>]
            s -= x[<at>]
            t = max(t, x[<at>])
            s = s * 0.5 + x[<at>]
        """,
        "at": "3* <common>\n2* <place>",
        "place": "<row>, <column>",
        "outer": """
            2* n
            n - 1
            1, n
            0, n, 2
            n // 2
            n - 1, -1, -1
            k, n
            -1, n - 1
            5
        """,
        "row": """
            3* i
            i + 1
            i - 1
            2 * i
            2 * i + 1
            n - 1 - i
            0
            k
            i // 2
            2* <name p>
        """,
        "column": """
            3* <name j>
            1.5* <name j> + 1
            1.5* <name j> - 1
            2* 0
            i
            0.3* 1
            0.3* m - 1
        """,
        "assign": words("= = += *="),
    },
)


def write(seed: int) -> Program:
    """Return the program of a seed."""
    chance = seeded("parallel_loops", seed)
    source = Writer(_GRAMMAR, chance).program(parameters=PARAMETERS)
    pairs = [(uniform(chance, shape), uniform(chance, shape)) for shape in _SHAPES]
    calls = tuple((x, y, k) for x, y in pairs for k in (0, 1, -1))
    return Program("parallel_loops", seed, source, calls, RULES)


RULES = Rules(rtol=1e-9, errors=(IndexError,), refusals=("",), numpy=True, changes=True)
FAMILY = Family("parallel_loops", write, ("races", "relax"))
