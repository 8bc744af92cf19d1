"""Answer ``isinstance(x, kinds)``, ``type(x) == kind`` and ``np.issubdtype(dtype, kind)`` at compile time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from synr import ast

from nnmagic.relay.types import ARRAY_DTYPES, TensorType, TypeCall
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.optional_values import may_be_none
from nnmagic.tinynn.elaborate.truth import negate
from nnmagic.tinynn.operators.dtype_questions import as_dtype
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.operator_calls import is_tensor


def _number_kind(value: v.Value) -> str:
    """Return the kind of a number's dtype, as NumPy has it; "" of anything else."""
    match value:
        case v.Known(value=bool() | int() | float() | complex() as number):
            return np.dtype(type(number)).kind
        case v.Dimension():
            return "i"
        case v.Computed(type=TensorType(shape=(), dtype=dtype)):
            return "V" if dtype == "bfloat16" else ARRAY_DTYPES[dtype].kind
    return ""


def _is_tuple(value: v.Value, *others: str) -> bool:
    """Return whether it is a tuple or a list, and is not written in one of ``others``."""
    return isinstance(value, v.TupleOf) and v.entries_of(value) is None and value.written not in others


def _is_array(value: v.Value) -> bool:
    return is_tensor(value) and isinstance(value, v.Computed) and bool(getattr(value.type, "shape", ()))


def _of_kinds(kinds: str) -> Callable[[v.Value], bool]:
    return lambda value: _number_kind(value) in tuple(kinds)


_FUNCTIONS = (v.BuiltinName, v.ClosureValue, v.GlobalFunction, v.LocalFunction)

#: Whether an operator asks for sameness, or for its contrary.
_SAME = {
    **dict.fromkeys((ast.BuiltinOp.Eq, tree.ExtraOp.Is), True),
    **dict.fromkeys((ast.BuiltinOp.NotEq, tree.ExtraOp.IsNot), False),
}

#: What the names of types ask.
_KINDS: dict[str, Callable[[v.Value], bool]] = {
    "tuple": lambda value: _is_tuple(value, "list", "held"),
    "Sequence": _is_tuple,
    "list": lambda value: isinstance(value, v.ListOfRows) or _is_tuple(value, "tuple"),
    **dict.fromkeys(("dict", "Mapping"), lambda value: v.entries_of(value) is not None),
    "str": lambda value: isinstance(value, v.Known) and isinstance(value.value, str),
    **dict.fromkeys(("ndarray", "Tensor", "Array"), _is_array),
    "bool": _of_kinds("b"),
    "bool_": _of_kinds("b"),
    "int": _of_kinds("biu"),
    **dict.fromkeys(("integer", "Integral"), _of_kinds("iu")),
    "signedinteger": _of_kinds("i"),
    "unsignedinteger": _of_kinds("u"),
    **dict.fromkeys(("float", "floating"), _of_kinds("f")),
    **dict.fromkeys(("complex", "complexfloating"), _of_kinds("c")),
    "Real": _of_kinds("biuf"),
    **dict.fromkeys(("Number", "number", "generic"), _of_kinds("biufc")),
    "NoneType": lambda value: value == v.Known(None),
    **dict.fromkeys(("Callable", "FunctionType"), lambda value: isinstance(value, _FUNCTIONS)),
}


def answer_type_question(ctx: Elaboration, expr: ast.Call) -> v.Value | None:
    """Return the answer of a call that asks for a type; None for any other call. Raises RefusalError."""
    if isinstance(expr.func_name, ast.Op):
        return _exact_type(ctx, expr) if expr.func_name.name in _SAME else None
    name = _last_name(expr.func_name)
    if len(expr.params) != 2 or expr.keyword_params:
        return None
    is_free = isinstance(expr.func_name, ast.Var) and ctx.environment.owner(name) is None
    if name == "isinstance" and is_free and name not in ctx.resolver.namespace:
        value = ctx.condition(expr.params[0]).value
        kinds = list(_names(expr.params[1]))
        if v.is_failed(value):
            return value
        if isinstance(value, v.TupleOf) and may_be_none(value):
            given, held = value.items
            answers = [any(_is_of(ctx, each, kind) for kind in kinds) for each in (held, v.Known(None))]
            if len(set(answers)) == 2:
                return (
                    given
                    if answers[0]
                    else negate(v.Operand(given, ctx.span(expr.span)), ctx.span(expr.span))
                )
            return v.Known(answers[0])
        return v.Known(any(_is_of(ctx, value, kind) for kind in kinds))
    if name == "issubdtype" and isinstance(expr.func_name, ast.Attr):
        dtype = as_dtype(ctx.evaluate(expr.params[0]))
        kind = getattr(np, _last_name(expr.params[1]), None)
        if dtype is not None and isinstance(kind, type) and dtype.name != "bfloat16":
            return v.Known(bool(np.issubdtype(ARRAY_DTYPES[dtype.name], kind)))
    return None


def _exact_type(ctx: Elaboration, expr: ast.Call) -> v.Value | None:
    """Return the answer of ``type(x) == list``; None where a value may be of another type than it seems."""
    asked, kind = expr.params
    names = ("type", _last_name(kind))
    if not (isinstance(asked, ast.Call) and len(asked.params) == 1 and isinstance(asked.func_name, ast.Var)):
        return None
    if asked.func_name.id.name != "type" or names[1] not in ("list", "tuple", "str", "ndarray"):
        return None
    if any(ctx.environment.owner(name) or name in ctx.resolver.namespace for name in names):
        return None
    value = ctx.condition(asked.params[0]).value
    if isinstance(value, v.TupleOf) and (value.record is not None or not value.written):
        return None
    return v.Known(_KINDS[names[1]](value) is _SAME[expr.func_name.name])


def _last_name(expr: ast.Expr) -> str:
    return expr.id.name if isinstance(expr, ast.Var) else getattr(getattr(expr, "field", None), "name", "")


def _names(expr: ast.Expr) -> Iterator[ast.Expr]:
    """Yield the types of ``(int, float)`` and of ``int | float``."""
    if isinstance(expr, ast.Tuple):
        for node in expr.values:
            yield from _names(node)
    elif isinstance(expr, ast.Call) and isinstance(expr.func_name, ast.Op):
        for node in expr.params:
            yield from _names(node)
    else:
        yield expr


def _is_of(ctx: Elaboration, value: v.Value, kind: ast.Expr) -> bool:
    name = _last_name(kind)
    if isinstance(kind, ast.Constant) and kind.value is None:
        name = "NoneType"
    if isinstance(kind, ast.Call) and _last_name(kind.func_name) == "type":  # type(None)
        name = "NoneType"
    dtype = as_dtype(v.Known(name)) if name not in _KINDS else None
    if dtype is not None:  # np.float64
        return isinstance(value, v.Computed) and value.type == TensorType((), dtype.name)
    if name not in _KINDS:
        known = "tuple, list, dict, str, bool, int, float, complex, np.ndarray"
        message = f"`isinstance` asks for {known} and NumPy's kinds of numbers, not for `{name}`"
        hint = None
        if isinstance(value, v.Computed) and isinstance(value.type, TypeCall):
            hint = f"to ask which constructor made a value write match, as in case {name}(value): ..."
        raise v.RefusalError(message, ctx.span(kind.span), hint=hint)
    return _KINDS[name](value)
