"""What rewriting adds to a cell (nnmagic/tinynn/syntax/written_code.py) has the place that errors show."""

import ast

from nnmagic.tinynn.syntax.written_code import expression_at, moved, placed, statements_at

PLACE = ast.parse("\n\n   \nif a:\n    b = total(c)").body[0].body[0]


def _lines(*nodes):
    return {part.lineno for node in nodes for part in ast.walk(node) if hasattr(part, "lineno")}


def test_what_is_written_has_one_place():
    loop = statements_at(PLACE, "for i in range(3):\n    f(i, key=1)\n")
    assert _lines(*loop, expression_at(PLACE, "(1,\n x)[0]")) == {5}
    assert ast.unparse(loop[0]) == "for i in range(3):\n    f(i, key=1)"


def test_what_has_a_place_keeps_it_unless_it_is_moved():
    first = ast.parse("first").body[0].value
    made = ast.BinOp(first, ast.Add(), ast.Name("second", ast.Load()))
    assert _lines(placed(PLACE, made)) == {1, 5}
    assert _lines(moved(PLACE, made)) == {5}
    compile(ast.fix_missing_locations(ast.Expression(made)), "cell", "eval")
