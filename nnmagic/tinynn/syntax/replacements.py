"""Write what replaces Python that a cell refuses: growing lists, untyped parameters."""

from __future__ import annotations

import ast as py
from collections.abc import Iterator, Sequence

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
                for each in function.args.args
                if each.arg == name
                for rows in [_rows(each.annotation)]
            )
        case py.For(iter=py.List() | py.Tuple()):
            return True
        case py.For(iter=py.Call(func=py.Name(id="range"), args=args)):
            numbers = [each.value for each in args if isinstance(each, py.Constant)]
            return len(numbers) == len(args) and all(
                isinstance(each, int) and each <= _MOST_ROUNDS for each in numbers
            )
    return False


_MOST_ROUNDS = 64


def _rows(annotation: py.expr | None) -> object:
    """Return the first dimension of an annotation."""
    match annotation:
        case py.Subscript(slice=py.Tuple(elts=[py.Tuple(elts=[py.Constant(value=rows), *_]), _])):
            return rows
    return None


# -- parameters ----------------------------------------------------------------------------------------


def parameter_type(name: str, default: py.expr | None, function: py.AST | None) -> str:
    """Return the hint for a parameter without a type, by its default and by its uses."""
    try:
        number = py.literal_eval(default) if default is not None else None
    except ValueError:
        number = None
    if isinstance(number, bool | int | float):
        dtype = {bool: "bool_", int: "i64", float: "f32"}[type(number)]
        return f"write its type, as in {name}: {dtype} = {number}"
    uses = [] if function is None else list(_uses(name, function))
    if "int" in uses:
        return f"write its type, as in {name}: i64"
    if uses and set(uses) == {"number"}:
        return f"write its type, as in {name}: f32, or {name}: Tensor[(2, 3), f32]"
    return f"write its type, as in {name}: Tensor[(2, 3), f32]"


_OF_SIZES = ("range", "zeros", "ones", "full", "empty", "arange", "eye", "reshape", "broadcast_to")


def _uses(name: str, function: py.AST) -> Iterator[str]:
    """Yield what each use of a name makes likely: an int, a number, or a tensor."""

    def is_name(node: py.AST | None) -> bool:
        return isinstance(node, py.Name) and node.id == name

    def contains_name(nodes: Sequence[py.expr]) -> bool:
        return any(
            is_name(each) or (isinstance(each, py.Tuple) and contains_name(each.elts)) for each in nodes
        )

    for node in py.walk(function):
        match node:
            case py.Call(func=py.Name(id=word) | py.Attribute(attr=word), args=args) if contains_name(args):
                yield "int" if word in _OF_SIZES else "tensor"
            case py.Subscript(slice=index) if is_name(index):
                yield "int"
            case py.Slice(lower=lower, upper=upper) if is_name(lower) or is_name(upper):
                yield "int"
            case py.Attribute(value=value) | py.Subscript(value=value) if is_name(value):
                yield "tensor"
            case py.BinOp(op=py.MatMult(), left=left, right=right) if is_name(left) or is_name(right):
                yield "tensor"
            case py.BinOp(left=left, right=right) if is_name(left) or is_name(right):
                yield "number"


# -- text ----------------------------------------------------------------------------------------------


def _text(expr: py.expr) -> str:
    text = py.unparse(expr)
    return text if len(text) <= _LONGEST and "\n" not in text else "value"


def _operand(expr: py.expr) -> str:
    """Return the source of an expression, in brackets if it is an operand that needs them."""
    text = _text(expr)
    whole = isinstance(expr, py.Name | py.Constant | py.Attribute | py.Subscript | py.Call) or text == "value"
    return text if whole else f"({text})"
