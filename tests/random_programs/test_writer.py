"""The writer fills holes, binds names where they are in scope, and gives up where nothing fits."""

from __future__ import annotations

import ast
import random

import pytest

from tests.random_programs.environment import Environment, Unfit, Value
from tests.random_programs.writer import Grammar, Writer, read_productions

GRAMMAR = Grammar(
    {
        "program": "def f(<params kind 1-2>):\n    <block 6-6>\n    return <F>",
        "statement": """
            <new KIND> = <KIND>

            [shallow] if <F> > 0:
                <s=new F> = <F>
            else:
                <bound s F> = <F> + 1

            [shallow] for <counter F> in range(<1..3>):
                <block 1-2>

            2* [loop] break
        """,
        "F": "<F> + <F>\n<0..9>.5",
        "leaf F": "1.5",
    },
    kinds={"KIND": "F"},
    types={"F": "f32"},
)


@pytest.mark.parametrize("seed", range(20))
def test_programs_are_python_whose_names_are_bound(seed: int) -> None:
    source = Writer(GRAMMAR, random.Random(seed), size=10).program()
    names: dict[str, object] = {}
    exec("from __future__ import annotations\n" + source, names)
    count = len(ast.parse(source).body[0].args.args)  # type: ignore[attr-defined]
    assert isinstance(names["f"](*[0.5] * count), float)  # type: ignore[operator]


def test_a_table_has_a_production_a_line_or_a_paragraph() -> None:
    lines = read_productions("a\n3* b\n2* [loop top] c")
    assert [(each.text, each.weight, each.needs) for each in lines] == [
        ("a", 1, ()),
        ("b", 3, ()),
        ("c", 2, ("loop", "top")),
    ]
    (one, other) = read_productions("if <F>:\n    <block 1-2>\n\n[loop] break")
    assert one.lines == [("if <F>:", [("<block 1-2>", [])])]
    assert other.needs == ("loop",)


def test_a_label_is_the_same_text_and_own_names_differ() -> None:
    writer = Writer(Grammar({}), random.Random(0))
    writer.bind("F", "x", "y")
    assert writer.fill("<a=own F> <a>").split()[0] == writer.fill("<a>")
    writer.labels = {}
    one, other = writer.fill("<a=own F> <b=own F>").split()
    assert {one, other} == {"x", "y"}
    with pytest.raises(Unfit):
        writer.fill("<c=own F>")
    with pytest.raises(Unfit):
        writer.fill("<name G>")


def test_names_of_all_branches_stay() -> None:
    outer = Environment()
    one, other = outer.inner(), outer.inner()
    one.values = {"a": Value("a", "F"), "b": Value("b", "F"), "c": Value("c", "F")}
    other.values = {"a": Value("a", "F"), "b": Value("b", "I")}
    outer.join([one, other])
    assert set(outer.values) == {"a"}
