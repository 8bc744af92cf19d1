"""Find the values of a program that are made of shapes alone, which displays leave out or write in short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from nnmagic.relay.expr import Call, Constant, Expr, Function, Let, OpRef, Tuple, Var, operator_of
from nnmagic.relay.ops.declaration import Trait, traits_of
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.text.literals import scalar_text
from nnmagic.relay.text.printer import non_default_attrs
from nnmagic.relay.types import TensorType

#: Operators of sizes that Python has as signs.
_SIGNS = {"add": "+", "subtract": "-", "multiply": "*"}
#: A longer text is left out.
_LONGEST = 60


def shape_values(function: Function, names: Mapping[Expr, str] = MappingProxyType({})) -> Mapping[Expr, str]:
    """Return the values that are numbers of shapes, or shapes, and what each is: ``x.shape[1]``.

    ``function`` is typed. A value is one of shapes if all of its operands are, or constants. ``names`` are
    those that the text gives values; a value without a name is written ``(...)``.
    """
    texts: dict[Expr, str] = {}
    for node in post_order(function):
        match node:
            case Let(var=var, value=value) if value in texts:
                texts[var] = texts[value]
            case Call(op=OpRef(name="shape_of"), args=(arg,)):
                name = names.get(arg, arg.name_hint if isinstance(arg, Var) else "(...)")
                texts[node] = f"{name.lstrip('%') if isinstance(arg, Var) else name}.shape"
            case Call(op=OpRef(name="concatenate"), args=(Tuple(fields=fields),)) if _is_small(node):
                _describe(node, fields, texts)
            case Call() if not _makes_array(node) and _is_small(node):
                _describe(node, node.args, texts)
            case Tuple(fields=fields) if all(map(_is_small, fields)):
                _describe(node, fields, texts)
    return {node: text for node, text in texts.items() if isinstance(node, Call | Tuple)}


def _describe(node: Call | Tuple, operands: Sequence[Expr], texts: dict[Expr, str]) -> None:
    """Add the text of a value if all of its operands are values of shapes or constants."""
    given = [texts.get(operand) or _number(operand) for operand in operands]
    known = [text for text in given if text is not None]
    if len(known) == len(given) and any(operand in texts for operand in operands):
        text = _text(node, known) if isinstance(node, Call) else f"({', '.join(known)})"
        texts[node] = text if isinstance(node, Tuple) or len(text) <= _LONGEST else "(...)"


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
    if node.data.ndim == 1 and node.data.size:
        return str(node.data.tolist())
    text = scalar_text(node)
    return "..." if text is None else text.removesuffix("i64").removesuffix("i32")


def _text(node: Call, operands: Sequence[str]) -> str:
    name, first = operator_of(node), operands[0]
    if name in _SIGNS and len(operands) == 2:
        return f"({first} {_SIGNS[name]} {operands[1]})"
    if name == "take" and len(operands) == 2:
        return f"{first}[{operands[1]}]"
    if name == "concatenate":
        return f"[{', '.join([text[1:-1] if text.startswith('[') else f'*{text}' for text in operands])}]"
    if name in ("cast", "copy") or Trait.KEEPS_ORDER in traits_of(node):
        is_vector, was_vector = _is_vector(node), _is_vector(node.args[0])
        unpacked = first[1:-1] if first.startswith("[") else f"{first}[0]"
        return first if is_vector == was_vector else f"[{first}]" if is_vector else unpacked
    attrs = [f"{key}={value}" for key, value in non_default_attrs(node).items()]
    return f"{name}({', '.join([*operands, *attrs])})"


def _is_vector(node: Expr) -> bool:
    return isinstance(node.checked_type, TensorType) and len(node.checked_type.shape) == 1
