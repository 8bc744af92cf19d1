"""Elaborate ``callback(function, x, result=Tensor[...])``: a call of a function of Python.

It is bound by let, so that it runs where it is written, in the order of the source.
"""

from __future__ import annotations

from synr import ast

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.callbacks import CALLBACK, PythonFunction
from nnmagic.relay.ops.calls import call
from nnmagic.relay.polynomials import NoPolynomialError, names, polynomial
from nnmagic.relay.signatures import format_type
from nnmagic.relay.types import AnyDim, RecordType, TensorType, TupleType, Type, is_complex
from nnmagic.tinynn.builtins.callbacks import CALLBACK as BUILTIN
from nnmagic.tinynn.elaborate.annotation_types import annotation_type, in_caller
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.conversions import to_relay
from nnmagic.tinynn.elaborate.expressions import evaluate_operands
from nnmagic.tinynn.elaborate.let_bindings import let_bind
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe, with_article

_FORM = "callback(function, x, result=Tensor[(3,), f32])"


def is_callback(value: v.Value) -> bool:
    """Return whether a value is the language's ``callback``."""
    return isinstance(value, v.BuiltinName) and value.builtin is BUILTIN


def call_callback(ctx: Elaboration, expr: ast.Call) -> v.Value:
    """Elaborate a call of ``callback``. Raises RefusalError."""
    span = ctx.span(expr.span)
    if ctx.parallel is not None:
        hint = "write range(...), or call it outside of the loop"
        raise v.RefusalError("a callback stands in a loop whose rounds have no order", span, hint=hint)
    if not expr.params:
        raise v.RefusalError("callback: the function is missing", span, hint=f"write {_FORM}")
    function = _function(ctx, expr.params[0])
    operands = evaluate_operands(ctx, expr.params[1:])
    keywords = {key.value: node for key, node in expr.keyword_params.items()}
    unknown = [key for key in keywords if key not in ("result", "effects")]
    if unknown:
        hint = f"give its arguments by position, as in {_FORM}"
        raise v.RefusalError(f"callback has no parameter `{unknown[0]}`", span, hint=hint)
    effects = _effects(ctx, keywords.get("effects"))
    results = _result(ctx, keywords.get("result"))
    if effects is None or results is None or any(v.is_failed(operand.value) for operand in operands):
        return v.FAILED
    if not results and not effects:
        hint = "say what it returns, as result=Tensor[(3,), f32], or that it has effects, effects=True"
        raise v.RefusalError("callback: neither a result nor effects are declared", span, hint=hint)
    arguments = ir.Tuple(tuple(_argument(operand) for operand in operands), span=span)
    attrs = {
        "function": function,
        "shapes": [type_.shape for type_ in results],
        "dtypes": [type_.dtype for type_ in results],
        "effects": effects,
    }
    whole: Type = results[0] if len(results) == 1 else TupleType(tuple(results))
    made = let_bind(ctx, v.Computed(call(CALLBACK, [arguments], span, **attrs), whole), function.name)
    return v.as_value(made.expr, whole) if results else v.Known(None)


def _function(ctx: Elaboration, node: ast.Expr) -> PythonFunction:
    """Return the function of the notebook that an expression names. Raises RefusalError."""
    path, root = [], node
    while isinstance(root, ast.Attr):
        path.append(root.field.name)
        root = root.object
    span = ctx.span(node.span)
    if isinstance(root, ast.Var) and ctx.environment.owner(root.id.name) is None:
        path.append(root.id.name)
        name = ".".join(reversed(path))
        return ctx.resolver.python_function(name, span)
    value = v.FAILED if isinstance(node, tree.Starred) else ctx.evaluate(node)
    what = "this" if v.is_failed(value) else describe(value)
    hint = "define the function in a cell of its own, and write its name"
    raise v.RefusalError(f"callback calls a function of the notebook, and {what} is none", span, hint=hint)


def _argument(operand: v.Operand) -> ir.Expr:
    """Return an argument, which is a tensor. Raises RefusalError."""
    value = to_relay(operand)
    if not isinstance(value.type, TensorType) or is_complex(value.type.dtype):
        hint = "give tensors, one by one"
        if isinstance(value.type, TensorType):
            hint = "give it the real and the imaginary part"
        message = f"callback gives a function tensors of real numbers, not {with_article(value.type)}"
        raise v.RefusalError(message, operand.span, hint=hint)
    return value.expr


def _effects(ctx: Elaboration, node: ast.Expr | None) -> bool | None:
    """Return whether effects are declared; None where an error was reported. Raises RefusalError."""
    if node is None:
        return False
    operand = ctx.operand(node)
    if v.is_failed(operand.value):
        return None
    if not (isinstance(operand.value, v.Known) and isinstance(operand.value.value, bool)):
        message = f"callback: `effects` must be True or False, not {describe(operand.value)}"
        raise v.RefusalError(message, operand.span)
    return operand.value.value


def _result(ctx: Elaboration, node: ast.Expr | None) -> list[TensorType] | None:
    """Return the declared results; None where an error was reported. Raises RefusalError."""
    if node is None:
        return []
    operand = ctx.operand(node)
    if v.is_failed(operand.value):
        return None
    if operand.value == v.Known(None):
        return []
    type_ = in_caller(ctx, annotation_type(operand))
    parts = list(type_.fields) if isinstance(type_, TupleType) else [type_]
    tensors = [field for field in parts if isinstance(field, TensorType) and not is_complex(field.dtype)]
    if len(tensors) != len(parts) or isinstance(type_, RecordType) or len(_type_parts(type_)) == 1:
        message = f"a callback returns a tensor of real numbers, or a tuple of some, not {format_type(type_)}"
        raise v.RefusalError(message, operand.span, hint="write result=Tensor[(3,), f32]")
    for tensor in tensors:
        _check_sizes(ctx, tensor, operand.span)
    return tensors


def _type_parts(type_: Type) -> tuple[Type, ...]:
    """Return the parts of a tuple type; of any other, none."""
    return type_.fields if isinstance(type_, TupleType) else ()


def _check_sizes(ctx: Elaboration, type_: TensorType, span: Span) -> None:
    """Raise RefusalError for a size that no parameter has: what the function returns is checked by it."""
    size_names = {name for environment in ctx.environment.chain() for name in environment.dimensions}
    for dim in type_.shape:
        label = dim.label if isinstance(dim, AnyDim) else None
        try:
            used = set(names(polynomial(label))) if label is not None else set[str]()
        except NoPolynomialError:
            used = set()
        if unknown := sorted(used - size_names):
            has = (
                f"the parameters have {', '.join(sorted(size_names))}"
                if size_names
                else "no parameter has a named size"
            )
            raise v.RefusalError(f'callback: the size "{unknown[0]}" is not known here; {has}', span)
