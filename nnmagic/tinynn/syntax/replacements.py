"""Suggest code for Python that a cell refuses: growing lists, untyped parameters."""

from __future__ import annotations

import ast as py

#: Longer source is abbreviated in a hint.
_LONGEST = 60


def in_long_loop(statement: py.stmt, function: py.AST | None) -> bool:
    """Return whether a statement is in a loop that may not be unrolled."""
    loops = [] if function is None else [node for node in py.walk(function) if isinstance(node, _LOOPS)]
    around = [loop for loop in loops if any(node is statement for node in py.walk(loop))]
    return not all(_is_counted(loop, function) for loop in around)


_LOOPS = (py.For, py.While)


def _is_counted(loop: py.AST, function: py.AST | None) -> bool:
    """Return whether a loop is unrolled: it goes over a short range, a list, or a static number of rows."""
    match loop:
        case py.For(iter=py.Name(id=name)) if isinstance(function, py.FunctionDef):
            return any(
                isinstance(rows, int) and rows <= _MOST_ROUNDS
                for argument in function.args.args
                if argument.arg == name
                for rows in [_rows(argument.annotation)]
            )
        case py.For(iter=py.List() | py.Tuple()):
            return True
        case py.For(iter=py.Call(func=py.Name(id="range"), args=args)):
            numbers = [argument.value for argument in args if isinstance(argument, py.Constant)]
            return len(numbers) == len(args) and all(
                isinstance(number, int) and number <= _MOST_ROUNDS for number in numbers
            )
    return False


_MOST_ROUNDS = 64


def _rows(annotation: py.expr | None) -> object:
    """Return the first dimension of an annotation."""
    match annotation:
        case py.Subscript(slice=py.Tuple(elts=[py.Tuple(elts=[py.Constant(value=rows), *_]), _])):
            return rows
    return None


# -- text ----------------------------------------------------------------------------------------------


def _text(expr: py.expr) -> str:
    text = py.unparse(expr)
    return text if len(text) <= _LONGEST and "\n" not in text else "value"


def _operand(expr: py.expr) -> str:
    """Return the source of an expression, in brackets if it is an operand that needs them."""
    text = _text(expr)
    whole = isinstance(expr, py.Name | py.Constant | py.Attribute | py.Subscript | py.Call) or text == "value"
    return text if whole else f"({text})"
