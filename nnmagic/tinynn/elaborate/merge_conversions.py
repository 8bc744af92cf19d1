"""Convert the values that meet at a join point to the type of the merge."""

from __future__ import annotations

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay import types as ty
from nnmagic.relay.signatures import format_type
from nnmagic.tinynn.elaborate.lists_as_rows import held
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.default_dtypes import convert_default_dtype
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import as_computed, cast
from nnmagic.tinynn.values.promotion import note_join

_COMPLEX_HINT = "make the other one complex, too, as in x.astype(c128)"


def convert(value: v.Value, type_: ty.Type, span: Span) -> ir.Expr:
    """Convert a value to an expression of a type that the plan chose for it. Raises RefusalError."""
    expr = _convert(value, type_, span)
    own = value.type if isinstance(value, v.Computed) else None
    if not isinstance(own, ty.TensorType) or not isinstance(type_, ty.TensorType):
        return expr
    sizes = zip(own.shape, type_.shape, strict=True)
    if not any(isinstance(size, int) and isinstance(open_, ty.AnyDim) for size, open_ in sizes):
        return expr
    name = ir.Var("branch", type_, span=span)  # where the paths have other sizes, the type has open ones
    return ir.Let(name, expr, name, span=span)


def _convert(value: v.Value, type_: ty.Type, span: Span) -> ir.Expr:
    match value:
        case v.Dimension(number=number_later):
            return _convert(number_later, type_, span)
        case v.Known(value=bool() | int() | float() | complex() as number):
            assert isinstance(type_, ty.TensorType)
            if isinstance(number, bool) and type_.dtype != "bool":
                number = int(number)
            return number_constant(number, type_.dtype, span).expr
        case v.Computed(weak=True, type=ty.TensorType(dtype=dtype)):
            assert isinstance(type_, ty.TensorType)
            if ty.is_complex(dtype) and not ty.is_complex(type_.dtype):
                message = f"a complex number cannot become {format_type(type_)}"
                raise v.RefusalError(message, span, hint=_COMPLEX_HINT)
            if dtype == "float64" and not type_.dtype.startswith(("float", "bfloat", "complex")):
                hint = "convert it, as in int(x), or give both the same dtype"
                raise v.RefusalError(f"a Python float cannot become {format_type(type_)}", span, hint=hint)
            return cast(value, type_.dtype, span).expr
        case v.Computed(type=ty.TensorType(dtype=dtype)) if (
            isinstance(type_, ty.TensorType) and dtype != type_.dtype
        ):
            if value.default_dtype is not None:
                return convert_default_dtype(v.Operand(value, span), type_.dtype).expr
            note_join(dtype, type_.dtype, span)
            if ty.is_integer(dtype) and type_.dtype != "float64":
                message = f"{format_type(value.type)} and {format_type(type_)} are one name's here"
                raise v.RefusalError(message, span, hint="give both the same dtype")
            value = held(value, type_.dtype, span, "a name that stands for floats, too,")
            return cast(value, type_.dtype, span).expr
        case v.GlobalFunction(name=name):
            return ir.GlobalVar(name, span=span)
        case v.ClosureValue(name=name, changing=(other, *_)):
            hint = f"give `{other}` to `{name}` as a parameter"
            message = f"`{name}` is one of several functions here, and uses `{other}`, which may change later"
            raise v.RefusalError(message, span, hint=hint)
        case v.ClosureValue(function=function):
            return function.expr
    return as_computed(v.Operand(value, span)).expr
