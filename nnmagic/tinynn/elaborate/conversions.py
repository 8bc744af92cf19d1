"""Convert values to Relay expressions, and check them against declared types."""

from __future__ import annotations

from dataclasses import replace
from typing import overload

from nnmagic.diagnostics import Note, Span
from nnmagic.relay import expr as ir
from nnmagic.relay import types as ty
from nnmagic.relay.signatures import format_type
from nnmagic.tinynn.operators import tables
from nnmagic.tinynn.types.annotations import DType, OpenTensor, OpenType, Tensor
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.declared_sizes import DeclaredSizes
from nnmagic.tinynn.values.default_dtypes import convert_default_dtype
from nnmagic.tinynn.values.descriptions import describe, source_text
from nnmagic.tinynn.values.numbers import natural_dtype, number_constant
from nnmagic.tinynn.values.operator_calls import cast, is_tensor, tensor_type
from nnmagic.tinynn.values.operator_restrictions import dims_differ
from nnmagic.tinynn.values.symbolic_sizes import as_number


def convert_to_declared(
    what: str, declared: ty.Type, value: v.Operand, span: Span | None, sizes: DeclaredSizes | None = None
) -> v.Computed:
    """Convert a value to its declared type; a Python number takes the dtype. Raises RefusalError.

    ``sizes``: those that the function's named dimensions have.
    """
    expr = to_relay(value, declared)
    if not _fits(declared, expr.type):
        notes = () if span is None else (Note("declared here", span),)
        message = f"{what} is declared as {format_type(declared)}, but is {format_type(expr.type)}"
        hint = _cast_hint(declared, expr.type, source_text(value.span))
        raise v.RefusalError(message, value.span, hint=hint, notes=notes)
    (checked,) = (sizes or DeclaredSizes({})).check_all([(what, expr, declared, value.span)])
    return v.Computed(checked.expr, refine(declared, expr.type))


def convert_result(
    what: str,
    declared: ty.Type | OpenTensor | OpenType,
    value: v.Operand,
    span: Span | None,
    sizes: DeclaredSizes,
    *,
    of_python: bool = False,
) -> v.Computed:
    """Convert a result to what its annotation says. Raises RefusalError.

    ``of_python``: the annotation is Python's ``float`` or the like, which a number of a narrower dtype fits.
    """
    if isinstance(declared, OpenType):
        return _convert_items(what, declared, value, span, sizes, of_python=of_python)
    if of_python and type(declared) is ty.TupleType:
        return _convert_items(what, OpenType(declared.fields), value, span, sizes, of_python=True)
    if not isinstance(declared, OpenTensor):
        expr = to_relay(value, declared)
        if of_python and isinstance(expr.type, ty.TensorType) and isinstance(declared, ty.TensorType):
            dtypes = (expr.type.dtype, declared.dtype)
            if not expr.type.shape and dtypes[0] != dtypes[1] and _widens(*dtypes):
                return cast(expr, declared.dtype, value.span)
        return convert_to_declared(what, declared, value, span, sizes)
    expr, dtype = to_relay(value), declared.own_dtype
    if dtype is not None and isinstance(expr.type, ty.TensorType):  # Python's numbers take the dtype
        expr = to_relay(value, ty.TensorType(expr.type.shape, dtype.name))
    if not _fits_pattern(declared, expr.type):
        notes = () if span is None else (Note("declared here", span),)
        message = f"{what} is declared as {declared!r}, but is {format_type(expr.type)}"
        hint = (
            None
            if dtype is None
            else _cast_hint(ty.scalar_type(dtype.name), expr.type, source_text(value.span))
        )
        raise v.RefusalError(message, value.span, hint=hint, notes=notes)
    if isinstance(expr.type, ty.TensorType):
        (expr,) = sizes.check_all([(what, expr, declared.relay_type(expr.type), value.span)])
    return expr


def _convert_items(
    what: str,
    declared: OpenType,
    value: v.Operand,
    span: Span | None,
    sizes: DeclaredSizes,
    *,
    of_python: bool,
) -> v.Computed:
    """Convert a tuple whose items have types of their own; anything where nothing is said of it."""
    expr = to_relay(value)
    if declared.fields is None:
        return expr
    split = value.value if isinstance(value.value, v.TupleOf) else v.as_value(expr.expr, expr.type)
    items = split.items if isinstance(split, v.TupleOf) else ()
    if len(items) != len(declared.fields):
        notes = () if span is None else (Note("declared here", span),)
        message = f"{what} is declared as a tuple of {len(declared.fields)}, but is {format_type(expr.type)}"
        raise v.RefusalError(message, value.span, notes=notes)
    parts = [
        convert_result(
            f"{what}[{number}]", field, v.Operand(item, value.span), span, sizes, of_python=of_python
        )
        for number, (field, item) in enumerate(zip(declared.fields, items, strict=True))
    ]
    node = ir.Tuple(tuple(part.expr for part in parts), span=value.span)
    return v.Computed(node, ty.TupleType(tuple(part.type for part in parts)))


def _widens(dtype: str, wanted: str) -> bool:
    """Return whether a dtype of Python's numbers holds all numbers of another dtype of their kind."""
    if wanted == "int64":
        return dtype not in ("uint64", "bool") and not ty.is_float(dtype) and not ty.is_complex(dtype)
    return ty.is_float(dtype) if wanted == "float64" else ty.is_float(dtype) or ty.is_complex(dtype)


def _fits_pattern(pattern: OpenTensor, type_: ty.Type) -> bool:
    if not isinstance(type_, ty.TensorType) or not pattern.allows(type_.dtype):
        return False
    return pattern.dims(len(type_.shape)) is not None and not any(
        map(dims_differ, pattern.relay_type(type_).shape, type_.shape)
    )


def _cast_hint(declared: ty.Type, actual: ty.Type, text: str) -> str | None:
    match declared, actual:
        case ty.TensorType(dtype=wanted), ty.TensorType(dtype=given) if wanted != given:
            return f"convert it, as in {text}.astype({format_type(ty.scalar_type(wanted))})"
        case ty.TensorType(shape=wanted_shape), ty.TensorType(shape=given_shape) if any(
            isinstance(dim, ty.AnyDim) for dim in (*wanted_shape, *given_shape)
        ):
            return "give both dimensions the same name or number in the annotations"
        case ty.TensorType(), ty.TensorType():
            return f"declare it as {format_type(actual)}, or change its shape"
    return None


def _fits(declared: ty.Type, type_: ty.Type) -> bool:
    match declared, type_:
        case ty.TensorType(), ty.TensorType():
            dims = zip(declared.shape, type_.shape, strict=False)
            same_rank = len(declared.shape) == len(type_.shape)
            return (
                declared.dtype == type_.dtype and same_rank and not any(dims_differ(*pair) for pair in dims)
            )
        case ty.TupleType(fields=ours), ty.TupleType(fields=theirs):
            return len(ours) == len(theirs) and all(map(_fits, ours, theirs))
    return declared == type_


@overload
def refine(declared: ty.TensorType, type_: ty.TensorType) -> ty.TensorType: ...
@overload
def refine(declared: ty.Type, type_: ty.Type) -> ty.Type: ...
def refine(declared: ty.Type, type_: ty.Type) -> ty.Type:
    """Return the more precise of two types that fit."""
    match declared, type_:
        case ty.TensorType(), ty.TensorType():
            dims = zip(declared.shape, type_.shape, strict=True)
            return ty.TensorType(tuple(a if b == ty.AnyDim() else b for a, b in dims), type_.dtype)
        case ty.TupleType(fields=ours), ty.TupleType(fields=theirs):
            named = declared if isinstance(declared, ty.RecordType) else type_
            return replace(named, fields=tuple(map(refine, ours, theirs)))
    return type_


def to_relay(value: v.Operand, wanted: ty.Type | None = None) -> v.Computed:
    """Convert a value to one Relay expression: a tensor, or a tuple of them. Raises RefusalError."""
    match value.value:
        case v.Computed(weak=True) as computed if isinstance(wanted, ty.TensorType) and not wanted.shape:
            if _takes_weak(wanted.dtype, getattr(computed.type, "dtype", "")):
                return cast(computed, wanted.dtype, value.span)
            return computed
        case v.Computed(default_dtype=Span()) if isinstance(wanted, ty.TensorType) and _takes(value, wanted):
            return convert_default_dtype(value, wanted.dtype)
        case v.Computed() as computed:
            return v.Computed(computed.expr, computed.type)
        case v.ListOfRows(rows=rows):
            return rows
        case v.TableOf() as table:
            return _entries(table, value.span)
        case v.TupleOf(whole=v.Computed() as whole):
            return whole
        case v.ClosureValue(function=function):
            return function
        case v.GlobalFunction(written=name) as function if v.changes_arguments(function):
            raise v.RefusalError(
                f"`{name}` changes its arguments, and is no value", value.span, hint="call it"
            )
        case v.GlobalFunction(name=name, type=ty.FuncType() as type_):
            return v.Computed(ir.GlobalVar(name, span=value.span), type_)
        case v.TupleOf(record=ty.RecordType(names=names)) if v.is_set(value.value):
            return v.Computed(ir.Tuple((), span=value.span), ty.RecordType((), ty.SET, names))
        case v.ConstructorName(constructor=constructor):
            hint = f"write {constructor.name}()" if not constructor.inputs else "give its fields in brackets"
            raise v.RefusalError(f"{describe(value.value)} is no value", value.span, hint=hint)
        case v.TupleOf(items=items):
            fields = (
                wanted.fields if isinstance(wanted, ty.TupleType) and len(wanted.fields) == len(items) else ()
            )
            parts = [
                to_relay(v.Operand(item, value.span), fields[span] if fields else None)
                for span, item in enumerate(items)
            ]
            node = ir.Tuple(tuple(part.expr for part in parts), span=value.span)
            return v.Computed(node, v.tuple_type([part.type for part in parts], value.value.record))
        case v.Known(value=bool() | int() | float() | complex() as number):
            if isinstance(wanted, ty.TensorType) and not wanted.shape:
                return number_constant(number, wanted.dtype, value.span)
            return number_constant(number, natural_dtype(number), value.span)
        case v.Dimension():
            return to_relay(as_number(value), wanted)
    raise v.RefusalError(
        f"expected a tensor, found {describe(value.value)}", value.span, hint=_no_tensor_hint(value)
    )


def _entries(table: v.TableOf, span: Span) -> v.Computed:
    """Return the keys and the values of a table, of which Python makes a dictionary or a set."""

    def whole(values: v.Value) -> v.Computed:
        if isinstance(values, v.TupleOf):
            columns = list(map(whole, values.items))
            node = ir.Tuple(tuple(entry_item.expr for entry_item in columns), span=span)
            return v.Computed(node, ty.TupleType(tuple(entry_item.type for entry_item in columns)))
        assert isinstance(values, v.Computed)
        return tables.rows_of(table, values, span).rows

    columns = [whole(each) for each in (table.keys, table.values) if each != v.Known(None)]
    record = ty.RecordType(
        tuple(entry_item.type for entry_item in columns), ty.TABLE, ("keys", "values")[: len(columns)]
    )
    return v.Computed(ir.Tuple(tuple(entry_item.expr for entry_item in columns), span=span), record)


def _takes_weak(dtype: str, given: str) -> bool:
    """Return whether a Python number at run time, of one dtype, becomes a number of another."""
    if ty.is_complex(given) or ty.is_complex(dtype):
        return ty.is_complex(dtype)
    return ty.is_float(dtype) or not ty.is_float(given)


def _takes(value: v.Operand, wanted: ty.TensorType) -> bool:
    """Return whether an array of a default dtype may become a tensor of a dtype: all but floats integers."""
    given = tensor_type(value).dtype
    return given != wanted.dtype and (ty.is_float(wanted.dtype) or not ty.is_float(given))


def _no_tensor_hint(value: v.Operand) -> str | None:
    """Suggest what to write for a value that is no tensor."""
    match value.value:
        case v.Known(value=None):
            return "give a tensor, or a tuple of them"
        case v.Known(value=str()):
            return "a string is known at compile time only: leave it out"
        case v.Method(name=name):
            return f"call it, as in {source_text(value.value.receiver.span)}.{name}()"
        case v.BuiltinName(builtin=builtin):
            return f"call it, as in {builtin.name}(x)"
        case v.GradientOf():
            return f"call it, as in {source_text(value.span)}(x)"
        case v.LocalFunction():
            return "call it: a function without types is no value of Relay"
        case v.DictOf():
            return "take one of its items, as in d['key']"
        case v.RangeOf():
            return "write arange(n)"
        case v.Zipped(word="reversed"):
            return "write x[::-1]"
        case v.Known(value=DType() | Tensor()):
            return "types are known at compile time only: leave it out"
    return None


def convert_declared_value(
    what: str, declared: ty.Type, value: v.Operand, span: Span | None, sizes: DeclaredSizes | None = None
) -> v.Value:
    """Convert a value to its declared type; a tuple can be unpacked afterwards. Raises RefusalError."""
    expr = convert_to_declared(what, declared, value, span, sizes)
    if isinstance(value.value, v.TupleOf) and isinstance(expr.type, ty.TupleType):
        items = (
            item if is_tensor(item) else to_relay(v.Operand(item, value.span), type_)
            for item, type_ in zip(value.value.items, expr.type.fields, strict=True)
        )
        return v.TupleOf(tuple(items), expr, expr.type if isinstance(expr.type, ty.RecordType) else None)
    return v.as_value(expr.expr, expr.type)
