"""Write what replaces Python that a cell refuses: assignments to items, growing lists, untyped parameters."""

from __future__ import annotations

import ast as py
from collections.abc import Iterator, Sequence

#: Longer source is abbreviated in a hint.
_LONGEST = 60


def item_assignment(target: py.Subscript, value: py.expr | None, sign: str, function: py.AST | None) -> str:
    """Return the hint for ``x[index] = value`` and, with the ``sign`` of an operator, ``x[index] += value``.

    Args:
        target: The left side.
        value: The right side; None where there is none, as in a ``for``.
        sign: ``+`` of ``+=``; empty for a plain assignment.
        function: The function around it, whose annotations and assignments tell ranks.

    """
    if not isinstance(target.value, py.Name):
        return "make a new tensor with where(condition, value, x), and assign it to a name"
    name = target.value.id
    ranks = _ranks(function)
    index = target.slice
    parts = list(index.elts) if isinstance(index, py.Tuple) else [index]
    if value is None:
        return f"give the items a name of their own, and write {name} = where(condition, value, {name})"
    if len(parts) == 1 and _is_mask(index, ranks):
        kept = value.value if _selects(value, index) and isinstance(value, py.Subscript) else value
        taken = f"{name} {sign} {_operand(kept)}" if sign else _text(kept)
        return f"write {name} = where({_text(index)}, {taken}, {name})"
    rank = max(ranks.get(name, 1), len(parts))
    if any(_is_ellipsis_or_none(part) for part in parts):
        return f"make a new tensor: {name} = where(condition, value, {name})"
    conditions = [
        test + "[" + ":, " + ", ".join(["None"] * (rank - 1 - axis)) + "]" if axis < rank - 1 else test
        for axis, part in enumerate(parts)
        for test in [_test(name, axis, part)]
        if test
    ]
    if not conditions:  # x[:] = value
        taken = f"{name} {sign} {_operand(value)}" if sign else f"broadcast_to({_text(value)}, {name}.shape)"
        number = isinstance(value, py.Constant) and not sign
        return f"write {name} = " + (f"full_like({name}, {_text(value)})" if number else taken)
    shown = _operand(value) if sign else _text(value)
    columns = isinstance(parts[-1], py.Constant | py.Name) and isinstance(parts[0], py.Slice)
    if columns and len(parts) == rank == 2 and _rank_of(value, ranks) != 0:
        shown = f"{_operand(value)}[:, None]"
    taken = f"{name} {sign} {shown}" if sign else shown
    chosen = (
        conditions[0][1:-1] if len(conditions) == 1 and conditions[0][-1] == ")" else " & ".join(conditions)
    )
    return f"write {name} = where({chosen}, {taken}, {name})"


def _test(name: str, axis: int, part: py.expr) -> str:
    """Return the condition of the chosen positions of an axis, in brackets; empty if all are chosen."""
    positions, size = f"arange({name}.shape[{axis}])", f"{name}.shape[{axis}]"
    if not isinstance(part, py.Slice):
        return f"({positions} == {_position(part, size)})"
    tests = []
    if part.lower is not None:
        tests.append(f"({positions} >= {_position(part.lower, size)})")
    if part.upper is not None:
        tests.append(f"({positions} < {_position(part.upper, size)})")
    if part.step is not None:
        start = "" if part.lower is None else f" - {_position(part.lower, size)}"
        shifted = f"({positions}{start})" if start else positions
        tests.append(f"({shifted} % {_operand(part.step)} == 0)")
    return f"({' & '.join(tests)})" if len(tests) > 1 else "".join(tests)


def _position(part: py.expr, size: str) -> str:
    match part:
        case py.UnaryOp(op=py.USub(), operand=py.Constant(value=int() as number)):
            return f"{size} - {number}"
    return _operand(part)


def _is_mask(index: py.expr, ranks: dict[str, int]) -> bool:
    match index:
        case py.Compare() | py.UnaryOp(op=py.Invert()):
            return True
        case py.BinOp(op=py.BitAnd() | py.BitOr() | py.BitXor()):
            return True
        case py.Call(func=py.Name(id=word) | py.Attribute(attr=word)):
            return word.startswith(("is", "logical_"))
        case py.Name(id=name):
            return ranks.get(name, 0) > 0 or name.startswith("mask")
    return False


def _is_ellipsis_or_none(part: py.expr) -> bool:
    return isinstance(part, py.Constant) and (part.value is None or part.value is ...)


def _selects(value: py.expr, index: py.expr) -> bool:
    return isinstance(value, py.Subscript) and py.unparse(value.slice) == py.unparse(index)


def _ranks(function: py.AST | None) -> dict[str, int]:
    """Return the ranks of a function's names, as far as annotations and calls of ``zeros`` tell them."""
    ranks: dict[str, int] = {}
    if not isinstance(function, py.FunctionDef):
        return ranks
    arguments = function.args
    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        match each.annotation:
            case py.Subscript(slice=py.Tuple(elts=[py.Tuple(elts=dims), _])):
                ranks[each.arg] = len(dims)
            case py.Subscript(slice=py.Tuple(elts=[_, _])):
                ranks[each.arg] = 1
            case py.Name():
                ranks[each.arg] = 0
    for node in py.walk(function):
        match node:
            case py.Assign(targets=[py.Name(id=name)], value=value):
                rank = _rank_of(value, ranks)
                if rank is not None:
                    ranks.setdefault(name, rank)
            case py.For(target=py.Name(id=name), iter=py.Call(func=py.Name(id="range"))):
                ranks.setdefault(name, 0)
    return ranks


_MAKERS = ("zeros", "ones", "empty", "full")


def _rank_of(value: py.expr, ranks: dict[str, int]) -> int | None:
    match value:
        case py.Constant() | py.UnaryOp(operand=py.Constant()):
            return 0
        case py.Name(id=name):
            return ranks.get(name)
        case py.Call(func=py.Name(id=word) | py.Attribute(attr=word), args=[shape, *_]) if word in _MAKERS:
            return len(shape.elts) if isinstance(shape, py.Tuple | py.List) else 1
        case py.Call(func=py.Name(id=word) | py.Attribute(attr=word), args=[array, *_]) if word in (
            "zeros_like",
            "ones_like",
            "full_like",
            "empty_like",
            "copy",
            "array",
        ):
            return _rank_of(array, ranks)
        case py.Call(func=py.Attribute(attr="copy", value=array), args=[]):
            return _rank_of(array, ranks)
    return None


# -- lists that grow -----------------------------------------------------------------------------------


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
