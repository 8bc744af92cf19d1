"""Find the values of a program that are made of shapes alone, which displays leave out or write in short."""

from __future__ import annotations

from collections.abc import Mapping

from nnmagic.relay.expr import Call, Constant, Expr, Function, Let, OpRef, Var, operator_of
from nnmagic.relay.ops.declaration import Trait, traits_of
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.text.literals import scalar_text
from nnmagic.relay.types import TensorType

#: Operators of sizes that Python has as signs.
_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "floor_divide": "//", "divide": "/", "floor_mod": "%"}


def shape_values(function: Function) -> Mapping[Expr, str]:
    """Return the values that are numbers of shapes, or shapes, and what each is: ``x.shape[1]``.

    ``function`` is typed. A value is one of shapes if all of its operands are, or constants.
    """
    texts: dict[Expr, str] = {}
    for node in post_order(function):
        match node:
            case Let(var=var, value=value) if value in texts:
                texts[var] = texts[value]
            case Call(op=OpRef(name="shape_of"), args=(Var(name_hint=name),)):
                texts[node] = f"{name}.shape"
            case Call(op=OpRef(name="shape_of")):
                texts[node] = "(...).shape"
            case Call(op=OpRef(name=name), args=args) if not _makes_array(node) and _is_small(node):
                operands = [texts.get(arg) or _number(arg) for arg in args]
                if any(arg in texts for arg in args) and None not in operands:
                    texts[node] = _text(name, [str(operand) for operand in operands])
    return {node: text for node, text in texts.items() if isinstance(node, Call)}


def _makes_array(node: Expr) -> bool:
    """Return whether a value is an array of the program, though sizes decide it."""
    return operator_of(node) == "arange" or Trait.FILLS in traits_of(node)


def _is_small(node: Expr) -> bool:
    """Return whether a value is a number, or a few in a vector."""
    type_ = node.checked_type
    return (
        isinstance(type_, TensorType)
        and len(type_.shape) <= 1
        and all(isinstance(size, int) and size <= 8 for size in type_.shape)
    )


def _number(node: Expr) -> str | None:
    if not isinstance(node, Constant):
        return None
    text = scalar_text(node)
    return "..." if text is None else text.removesuffix("i64").removesuffix("i32")


def _text(name: str, operands: list[str]) -> str:
    if name in _SIGNS and len(operands) == 2:
        return f"({operands[0]} {_SIGNS[name]} {operands[1]})"
    if name == "take" and len(operands) == 2:
        return f"{operands[0]}[{operands[1]}]"
    if name in ("cast", "squeeze", "reshape", "copy"):
        return operands[0]
    return f"{name}({', '.join(operands)})"
