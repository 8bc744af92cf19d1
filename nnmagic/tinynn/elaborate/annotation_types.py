"""Annotations of a cell -> Relay types, and whether a value has the type that was declared. Knows values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from keyword import iskeyword

from nnmagic.diagnostics import Note, Span, closest
from nnmagic.relay import expr as ir
from nnmagic.relay.polynomials import NoPolynomialError, polynomial
from nnmagic.relay.signatures import format_type
from nnmagic.relay.types import (
    AnyDim,
    Dim,
    FuncType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    is_float,
    scalar_type,
)
from nnmagic.tinynn.builtins import PYTHON_TYPES
from nnmagic.tinynn.types.annotations import DType, Tensor, dtype_named, named_dim
from nnmagic.tinynn.values.operator_calls import cast, is_tensor
from nnmagic.tinynn.values.operator_restrictions import dims_differ
from nnmagic.tinynn.values.symbolic_sizes import as_number
from nnmagic.tinynn.values.values import (
    BuiltinName,
    ClosureValue,
    Computed,
    ConstructorName,
    DataTypeName,
    DictOf,
    Dimension,
    GlobalFunction,
    Known,
    LocalFunction,
    Method,
    NotStaticError,
    Operand,
    RangeOf,
    RefusalError,
    TupleConstructor,
    TupleOf,
    TypeOf,
    Value,
    Zipped,
    computed,
    described,
    known_value,
    natural_dtype,
    number_constant,
    source_text,
)

_KNOWN_LATER = 'for a size known at the call, write its name in quotes, as in "n"'
_EXAMPLE = "write a type, as in Tensor[(2, 3), f32]"
_WHOLE_TYPES = {
    "Tensor": "say its shape and its dtype, as in Tensor[(2, 3), f32]",
    "tuple": "say what it holds, as in tuple[Tensor[(2, 3), f32], f32]",
    "Tuple": "say what it holds, as in tuple[Tensor[(2, 3), f32], f32]",
    "Callable": "say what it takes and gives, as in Callable[[Tensor[(3,), f32]], f32]",
}


def annotated_type(operand: Operand) -> Type:
    """The Relay type that an annotation means. Raises Refusal."""
    match operand.value:
        case TypeOf(type=type_):
            return type_
        case DataTypeName(type=data):
            return TypeCall(data.header, ())
        case Known(value=DType() | Tensor() as annotation):
            return annotation.relay_type()
        case Known(value=str()):
            raise RefusalError(
                "a type in quotes is not supported", operand.span, hint="write it without the quotes"
            )
        case BuiltinName(builtin=builtin) if builtin.name in PYTHON_TYPES:
            message, hint = PYTHON_TYPES[builtin.name]
            raise RefusalError(message, operand.span, hint=hint)
        case TupleConstructor(name=name):
            raise RefusalError(f"`{name}` alone is no type", operand.span, hint=_WHOLE_TYPES[name])
        case TupleOf():
            raise RefusalError(
                "a tuple is no type", operand.span, hint="write tuple[Tensor[(2, 3), f32], f32]"
            )
    raise RefusalError(f"{described(operand.value)} is no type", operand.span, hint=_EXAMPLE)


def tensor_annotation(items: Sequence[Operand], shape_parts: Sequence[Operand], span: Span) -> Value:
    """``Tensor[shape, dtype]``; ``shape_parts`` are the dimensions with their own places, if written out."""
    if len(items) != 2:
        raise RefusalError("Tensor takes a shape and a dtype", span, hint=_in_brackets(items))
    shape, dtype = items
    if isinstance(dtype.value, Known) and isinstance(dtype.value.value, int):
        raise RefusalError("the tensor's dtype is missing", span, hint=_EXAMPLE)
    if not (isinstance(dtype.value, Known) and isinstance(dtype.value.value, DType)):
        if isinstance(shape.value, Known) and isinstance(shape.value.value, DType):
            raise RefusalError("the shape of a tensor comes first, then its dtype", span, hint=_EXAMPLE)
        meant = dtype_named(str(known.value)) if isinstance(known := dtype.value, Known) else None
        hint = (
            f"write {meant.short}" if meant else "write one of f16 bf16 f32 f64, i8 to i64, u8 to u64, bool_"
        )
        raise RefusalError(f"a tensor's dtype cannot be {described(dtype.value)}", dtype.span, hint=hint)
    if isinstance(shape.value, TupleOf):
        parts = list(shape_parts) or [Operand(item, shape.span) for item in shape.value.items]
    else:
        parts = [shape]
    return TypeOf(TensorType(tuple(map(_dim, parts)), dtype.value.value.name))


def _in_brackets(items: Sequence[Operand]) -> str:
    """What was meant by a shape whose brackets are missing, or the example."""
    last = items[-1].value if items else None
    if len(items) > 2 and isinstance(last, Known) and isinstance(last.value, DType):
        dims = [item.value for item in items[:-1]]
        known = [dim.value for dim in dims if isinstance(dim, Known) and isinstance(dim.value, int | str)]
        if len(known) == len(dims):
            written = ", ".join(f'"{dim}"' if isinstance(dim, str) else str(dim) for dim in known)
            return f"put the shape in brackets, as in Tensor[({written}), {last.value.short}]"
    return _EXAMPLE


def _dim(operand: Operand) -> Dim:
    try:
        found = known_value(operand.value)
    except NotStaticError:
        found = None
    match found:
        case AnyDim():
            return found
        case str():
            return _named(found, operand.span)
        case int() if not isinstance(found, bool):
            if 0 <= found < 2**63:
                return found
            raise RefusalError(
                f"a dimension cannot be {found}", operand.span, hint=_KNOWN_LATER if found < 0 else None
            )
    if found is Ellipsis:
        hint = 'name each dimension, as in Tensor[("n", "m"), f32]'
        raise RefusalError("a tensor's rank must be known", operand.span, hint=hint)
    later = _KNOWN_LATER if operand.value == Known(None) else None
    message = f"a dimension must be an int or a name, not {described(operand.value)}"
    raise RefusalError(message, operand.span, hint=later)


def _named(text: str, span: Span) -> Dim:
    """A named dimension, or arithmetic on some."""
    try:
        found = named_dim(text)
    except ValueError:
        hint = 'name the dimension with one word, as in "n", or compute it of names, as in "2*n + 1"'
        try:
            number = polynomial(text).number
            hint = hint if number is None else f"write {number} without the quotes"
        except NoPolynomialError:
            if iskeyword(text):
                hint = f'it is a keyword of Python: write another, as in "{text}_"'
        shown = repr(text) if len(text) <= 40 else "the string"
        raise RefusalError(f"{shown} is no name of a dimension", span, hint=hint) from None
    assert isinstance(found, str)
    return AnyDim(found)


def unknown_dimension(name: str, span: Span, namespace: Mapping[str, object]) -> RefusalError:
    """A name in a shape that stands for nothing: most often a dimension that lacks its quotes."""
    sizes = [key for key, value in namespace.items() if isinstance(value, int) and key[:1] != "_"]
    meant = closest(name, sizes) if len(name) > 2 else None
    hint = f'for a size known at the call, write "{name}"'
    if meant is not None:
        hint = f"did you mean {meant}? {hint[:1].upper()}{hint[1:]}"
    return RefusalError(f"unknown name `{name}`", span, hint=hint)


def named_dimensions(written: str, type_: Type) -> Iterator[tuple[str, str]]:
    """The named dimensions of a parameter, each with how a body writes its size: ``x.shape[0]``."""
    match type_:
        case TensorType(shape=shape):
            for axis, dim in enumerate(shape):
                if isinstance(dim, AnyDim) and dim.label is not None:
                    yield dim.label, f"{written}.shape[{axis}]"
        case TupleType(fields=fields):
            for index, part in enumerate(fields):
                yield from named_dimensions(f"{written}[{index}]", part)


def tuple_annotation(items: Sequence[Operand]) -> Value:
    """``tuple[A, B]``."""
    if items and items[-1].value == Known(Ellipsis):
        hint = "write one type for each item"
        raise RefusalError("a tuple's length must be known", items[-1].span, hint=hint)
    return TypeOf(TupleType(tuple(map(annotated_type, items))))


def callable_annotation(items: Sequence[Operand], span: Span) -> Value:
    """``Callable[[A, B], R]``."""
    if len(items) != 2 or not isinstance(items[0].value, TupleOf):
        hint = (
            "write Callable[[Tensor[(3,), f32]], Tensor[(3,), f32]]: parameters in brackets, then the result"
        )
        raise RefusalError("Callable takes the parameters' types and the result's", span, hint=hint)
    parameters = (annotated_type(Operand(item, items[0].span)) for item in items[0].value.items)
    return TypeOf(FuncType(tuple(parameters), annotated_type(items[1])))


def as_declared(
    what: str, declared: Type, value: Operand, place: Span | None, words: str = "declared here"
) -> Computed:
    """A value as the type that was declared for it; a Python number takes the dtype. Raises Refusal."""
    part = relay_value(value, declared)
    if not _fits(declared, part.type):
        notes = () if place is None else (Note(words, place),)
        message = f"{what} is declared as {format_type(declared)}, but is {format_type(part.type)}"
        hint = _cast_hint(declared, part.type, source_text(value.span))
        raise RefusalError(message, value.span, hint=hint, notes=notes)
    return Computed(part.expr, _refined(declared, part.type))


def _cast_hint(declared: Type, found: Type, written: str) -> str | None:
    match declared, found:
        case TensorType(dtype=wanted), TensorType(dtype=given) if wanted != given:
            return f"convert it, as in {written}.astype({format_type(scalar_type(wanted))})"
        case TensorType(shape=wanted_shape), TensorType(shape=given_shape) if any(
            isinstance(dim, AnyDim) for dim in (*wanted_shape, *given_shape)
        ):
            return "give both dimensions the same name or number in the annotations"
        case TensorType(), TensorType():
            return f"declare it as {format_type(found)}, or change its shape"
    return None


def _fits(declared: Type, found: Type) -> bool:
    match declared, found:
        case TensorType(), TensorType():
            dims = zip(declared.shape, found.shape, strict=False)
            same_rank = len(declared.shape) == len(found.shape)
            return (
                declared.dtype == found.dtype and same_rank and not any(dims_differ(*pair) for pair in dims)
            )
        case TupleType(fields=ours), TupleType(fields=theirs):
            return len(ours) == len(theirs) and all(map(_fits, ours, theirs))
    return declared == found


def _refined(declared: Type, found: Type) -> Type:
    """The more precise of two types that fit."""
    match declared, found:
        case TensorType(), TensorType():
            dims = zip(declared.shape, found.shape, strict=True)
            return TensorType(tuple(a if b == AnyDim() else b for a, b in dims), found.dtype)
        case TupleType(fields=ours), TupleType(fields=theirs):
            return TupleType(tuple(map(_refined, ours, theirs)))
    return found


def relay_value(value: Operand, wanted: Type | None = None) -> Computed:
    """A value as one Relay expression: a tensor, or a tuple of them. Raises Refusal."""
    match value.value:
        case Computed(weak=True) as found if isinstance(wanted, TensorType) and not wanted.shape:
            if is_float(wanted.dtype) or not is_float(getattr(found.type, "dtype", "")):
                return cast(found, wanted.dtype, value.span)
            return found
        case Computed() as found:
            return Computed(found.expr, found.type)
        case TupleOf(whole=Computed() as whole):
            return whole
        case ClosureValue(function=function):
            return function
        case GlobalFunction(name=name, type=FuncType() as type_):
            return Computed(ir.GlobalVar(name, span=value.span), type_)
        case ConstructorName(constructor=constructor):
            hint = f"write {constructor.name}()" if not constructor.inputs else "give its fields in brackets"
            raise RefusalError(f"{described(value.value)} is no value", value.span, hint=hint)
        case TupleOf(items=items) if items:
            fields = (
                wanted.fields if isinstance(wanted, TupleType) and len(wanted.fields) == len(items) else ()
            )
            parts = [
                relay_value(Operand(item, value.span), fields[place] if fields else None)
                for place, item in enumerate(items)
            ]
            node = ir.Tuple(tuple(part.expr for part in parts), span=value.span)
            return Computed(node, TupleType(tuple(part.type for part in parts)))
        case Known(value=bool() | int() | float() as number):
            if isinstance(wanted, TensorType) and not wanted.shape:
                return number_constant(number, wanted.dtype, value.span)
            return number_constant(number, natural_dtype(number), value.span)
        case Dimension():
            return relay_value(as_number(value), wanted)
    raise RefusalError(
        f"expected a tensor, found {described(value.value)}", value.span, hint=_no_tensor_hint(value)
    )


def _no_tensor_hint(value: Operand) -> str | None:
    """What to write in place of a value that is no tensor."""
    match value.value:
        case Known(value=None):
            return "give a tensor, or a tuple of them"
        case Known(value=str()):
            return "a string is known while compiling only: leave it out"
        case Method(name=name):
            return f"call it, as in {source_text(value.value.receiver.span)}.{name}()"
        case BuiltinName(builtin=builtin):
            return f"call it, as in {builtin.name}(x)"
        case LocalFunction():
            return "call it: a function without types is no value of Relay"
        case DictOf():
            return "take one of its items, as in d['key']"
        case RangeOf():
            return "write arange(n)"
        case Zipped(word="reversed"):
            return "write x[::-1]"
        case Known(value=DType() | Tensor()):
            return "types are known while compiling only: leave it out"
    return None


def declared_value(what: str, declared: Type, value: Operand, place: Span | None) -> Value:
    """A value as the declared type, ready for use; tuples can be unpacked."""
    part = as_declared(what, declared, value, place)
    if isinstance(value.value, TupleOf) and isinstance(part.type, TupleType):
        items = (
            item if is_tensor(item) else relay_value(Operand(item, value.span), type_)
            for item, type_ in zip(value.value.items, part.type.fields, strict=True)
        )
        return TupleOf(tuple(items), part)
    return computed(part.expr, part.type)
