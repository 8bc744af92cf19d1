"""Interpret annotations: from the value of an annotation to a Relay type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from keyword import iskeyword
from typing import TypeVar

from synr import ast

from nnmagic.diagnostics import Span, closest
from nnmagic.relay.polynomials import NoPolynomialError, polynomial
from nnmagic.relay.types import AnyDim, Dim, FuncType, TensorType, TupleType, Type, TypeCall
from nnmagic.tinynn.builtins.argument_checks import WHICH_DTYPES, dtype_meant, static_value_or_none
from nnmagic.tinynn.calls.function_calls import substitute_dims
from nnmagic.tinynn.elaborate.context import Elaboration, WorkLimitError
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.syntax.tree_building import is_subscript
from nnmagic.tinynn.types.annotations import (
    PYTHON_DTYPES,
    Destination,
    DType,
    DTypeKind,
    OpenTensor,
    OpenType,
    Tensor,
    dtype_named,
    parse_named_dim,
)
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.declared_sizes import DeclaredSizes
from nnmagic.tinynn.values.descriptions import describe

_Result = TypeVar("_Result")
_Type = TypeVar("_Type", Type, Type | None)

_KNOWN_LATER = 'for a size known at the call, write its name in quotes, as in "n"'


_EXAMPLE = "write a type, as in Tensor[(2, 3), f32]"


_WHOLE_TYPES = {
    "Tensor": "say its shape and its dtype, as in Tensor[(2, 3), f32]",
    "tuple": "say what it holds, as in tuple[Tensor[(2, 3), f32], f32]",
    "Tuple": "say what it holds, as in tuple[Tensor[(2, 3), f32], f32]",
    "Callable": "say what it takes and gives, as in Callable[[Tensor[(3,), f32]], f32]",
    "Out": "say of what, as in Out[Tensor[(2, 3), f32]]",
    "InOut": "say of what, as in InOut[Tensor[(2, 3), f32]]",
}


def annotation_type(operand: v.Operand) -> Type:
    """Return the Relay type that an annotation means. Raises RefusalError."""
    match operand.value:
        case v.Known(value=OpenTensor(dtype=None)):
            raise v.RefusalError("the tensor's dtype is missing", operand.span, hint=_EXAMPLE)
        case v.Known(value=DTypeKind()) | v.Known(value=OpenTensor(dtype=DTypeKind())):
            raise v.RefusalError("the dtype must be known here", operand.span, hint=_EXAMPLE)
        case v.Known(value=OpenType()):
            raise v.RefusalError("the whole type must be known here", operand.span, hint=_EXAMPLE)
        case v.Known(value=OpenTensor()):
            hint = 'name each dimension, as in Tensor[("n", "m"), f32]'
            raise v.RefusalError("a tensor's rank must be known here", operand.span, hint=hint)
        case v.TypeOf(destination=str() as destination) if destination:
            raise _misplaced_annotation(destination, operand)
        case v.Known(value=Destination() as marked):
            raise _misplaced_annotation(type(marked).__name__, operand)
        case v.TypeOf(type=type_):
            return type_
        case v.RecordName(type=record):
            return record
        case v.DataTypeName(type=data):
            return TypeCall(data.header, ())
        case v.Known(value=DType() | Tensor() as annotation):
            return annotation.relay_type()
        case v.Known(value=str()):
            raise v.RefusalError(
                "a type in quotes is not supported", operand.span, hint="write it without the quotes"
            )
        case v.BuiltinName(builtin=builtin) if builtin.name in PYTHON_DTYPES:
            return PYTHON_DTYPES[builtin.name].relay_type()
        case v.TupleConstructor(name=name):
            hint = _WHOLE_TYPES.get(name, _EXAMPLE)
            raise v.RefusalError(f"`{name}` alone is no type", operand.span, hint=hint)
        case v.TupleOf():
            raise v.RefusalError(
                "a tuple is no type", operand.span, hint="write tuple[Tensor[(2, 3), f32], f32]"
            )
    raise v.RefusalError(f"{describe(operand.value)} is no type", operand.span, hint=_EXAMPLE)


def _misplaced_annotation(destination: str, operand: v.Operand) -> v.RefusalError:
    message = f"`{destination}` is for parameters of the functions of a cell"
    return v.RefusalError(message, operand.span, hint="write the type of the tensor alone")


def parameter_type(operand: v.Operand) -> tuple[Type | OpenTensor | OpenType, str]:
    """Return the type of a parameter, and ``"Out"`` or ``"InOut"`` if a call changes its argument."""
    match operand.value:
        case v.TypeOf(type=type_, destination=destination) if destination:
            return type_, destination
        case v.Known(value=Destination(tensor=tensor) as marked):
            return tensor.relay_type(), type(marked).__name__
    return result_type(operand), ""


def is_type(value: v.Value) -> bool:
    """Return whether a value is written as an annotation."""
    match value:
        case v.TupleConstructor() | v.TypeOf() | v.RecordName() | v.DataTypeName():
            return True
        case v.Known(value=DType() | DTypeKind() | Tensor() | OpenTensor() | OpenType()):
            return True
        case v.BuiltinName(builtin=builtin):
            return builtin.name in PYTHON_DTYPES or builtin.name == "ndarray"
    return False


def result_type(operand: v.Operand) -> Type | OpenTensor | OpenType:
    """Return the type of a result, or the part of it that is written."""
    match operand.value:
        case v.Known(value=OpenType() as open_type):
            return open_type
        case v.TupleConstructor(name="Any"):
            return OpenType()
        case v.Known(value=OpenTensor() as partial):
            return partial
        case v.Known(value=DTypeKind() as kind):
            return OpenTensor((), kind)
        case v.TupleConstructor(name="Tensor" | "ndarray" | "NDArray"):
            return OpenTensor()
        case v.BuiltinName(builtin=builtin) if builtin.name == "ndarray":
            return OpenTensor()
    return annotation_type(operand)


def has_python_numbers(annotation: tree.Annotation | None) -> bool:
    """Return whether an annotation is Python's ``float`` or the like, or a tuple that has one."""
    written = None if annotation is None else annotation.expr
    if is_subscript(written):
        parts = (node for params in written.params[1:] for node in params.values)
        return any(isinstance(node, ast.Var) and node.id.name in PYTHON_DTYPES for node in parts)
    return is_python_number(annotation)


def is_python_number(annotation: tree.Annotation | None) -> bool:
    """Return whether an annotation is Python's ``int``, ``float`` or ``complex``, and no dtype of a cell."""
    written = None if annotation is None else annotation.expr
    return isinstance(written, ast.Var) and written.id.name in PYTHON_DTYPES and written.id.name != "bool"


def destination_annotation(name: str, items: Sequence[v.Operand], span: Span) -> v.Value:
    """Return ``Out[type]`` or ``InOut[type]``. Raises RefusalError."""
    hint = _WHOLE_TYPES[name]
    if len(items) != 1:
        raise v.RefusalError(f"`{name}` takes the type of a tensor", span, hint=hint)
    type_ = annotation_type(items[0])
    if not isinstance(type_, TensorType):
        raise v.RefusalError(f"`{name}` takes the type of a tensor", items[0].span, hint=hint)
    if not type_.shape:
        message = f"`{name}` takes a tensor with elements to assign: one of rank 1 or more"
        raise v.RefusalError(message, items[0].span, hint="return the number instead")
    return v.TypeOf(type_, name)


def tensor_annotation(items: Sequence[v.Operand], shape_parts: Sequence[v.Operand], span: Span) -> v.Value:
    """Return ``Tensor[shape, dtype]``; ``shape_parts``: the dimensions with their own spans, if written."""
    if _are_dimensions(items):  # of none it is one number
        return v.Known(OpenTensor(tuple(map(_open_dim, shape_parts or items)), None))
    if len(items) == 1 and isinstance(items[0].value, v.TupleOf):
        dims = list(shape_parts) or [v.Operand(item, items[0].span) for item in items[0].value.items]
        return v.Known(OpenTensor(tuple(map(_open_dim, dims)), None))
    if len(items) != 2:
        raise v.RefusalError("Tensor takes a shape and a dtype", span, hint=_in_brackets(items))
    shape, element = items
    dtype = dtype_meant(element.value)
    if isinstance(element.value, v.Known) and isinstance(element.value.value, int):
        raise v.RefusalError("the tensor's dtype is missing", span, hint=_EXAMPLE)
    if dtype is None:
        if not isinstance(static_value_or_none(shape.value), str) and dtype_meant(shape.value) is not None:
            raise v.RefusalError("the shape of a tensor comes first, then its dtype", span, hint=_EXAMPLE)
        message = f"a tensor's dtype cannot be {describe(element.value)}"
        raise v.RefusalError(message, element.span, hint=WHICH_DTYPES)
    if shape.value == v.Known(Ellipsis):
        return v.Known(OpenTensor(None, dtype))
    if isinstance(shape.value, v.TupleOf):
        dims = list(shape_parts) or [v.Operand(item, shape.span) for item in shape.value.items]
    else:
        dims = [shape]
    return v.TypeOf(TensorType(tuple(map(_dim, dims)), dtype.name))


def _are_dimensions(items: Sequence[v.Operand]) -> bool:
    """Return whether all parts are dimensions; ``Tensor["n", "float32"]`` has a dtype."""
    last = items[-1].value if len(items) == 2 else None
    if isinstance(last, v.Known) and isinstance(last.value, str) and dtype_named(last.value) is not None:
        return False
    return all(map(_is_dimension, items))


def _is_dimension(operand: v.Operand) -> bool:
    """Return whether a part of an annotation is a dimension, and neither a shape nor a dtype."""
    match operand.value:
        case v.Known(value=bool()):
            return False
        case v.Known(value=int() | str()):
            return True
    return False


def _open_dim(operand: v.Operand) -> int | str:
    """Return a dimension as an annotation holds it. Raises RefusalError."""
    dim = _dim(operand)
    if isinstance(dim, int):
        return dim
    assert isinstance(dim, AnyDim)
    assert dim.label is not None
    return dim.label


def _in_brackets(items: Sequence[v.Operand]) -> str:
    """Suggest the brackets that a shape lacks, or show the example."""
    dtype = dtype_meant(items[-1].value) if items else None
    if len(items) > 2 and dtype is not None:
        dims = [item.value for item in items[:-1]]
        sizes = [dim.value for dim in dims if isinstance(dim, v.Known) and isinstance(dim.value, int | str)]
        if len(sizes) == len(dims):
            written = ", ".join(f'"{dim}"' if isinstance(dim, str) else str(dim) for dim in sizes)
            return f"put the shape in brackets, as in Tensor[({written}), {dtype.short}]"
    return _EXAMPLE


def _dim(operand: v.Operand) -> Dim:
    static = v.static_or(operand.value, None)
    match static:
        case AnyDim():
            return static
        case str():
            return _parse_dimension(static, operand.span)
        case int() if not isinstance(static, bool):
            if 0 <= static < 2**63:
                return static
            raise v.RefusalError(
                f"a dimension cannot be {static}", operand.span, hint=_KNOWN_LATER if static < 0 else None
            )
    if static is Ellipsis:
        hint = 'name each dimension, as in Tensor[("n", "m"), f32]'
        raise v.RefusalError("a tensor's rank must be known", operand.span, hint=hint)
    later = _KNOWN_LATER if operand.value == v.Known(None) else None
    message = f"a dimension must be an int or a name, not {describe(operand.value)}"
    raise v.RefusalError(message, operand.span, hint=later)


def _parse_dimension(text: str, span: Span) -> Dim:
    """Return a named dimension, or arithmetic on some. Raises RefusalError."""
    try:
        dim = parse_named_dim(text)
    except ValueError:
        hint = 'name the dimension with one word, as in "n", or compute it of names, as in "2*n + 1"'
        try:
            number = polynomial(text).number
            hint = hint if number is None else f"write {number} without the quotes"
        except NoPolynomialError:
            if iskeyword(text):
                hint = f'it is a keyword of Python: write another, as in "{text}_"'
        shown = repr(text) if len(text) <= 40 else "the string"
        raise v.RefusalError(f"{shown} is no name of a dimension", span, hint=hint) from None
    assert isinstance(dim, str)
    return AnyDim(dim)


def unknown_dimension(name: str, span: Span, namespace: Mapping[str, object]) -> v.RefusalError:
    """Explain an unknown name in a shape: most often a dimension that lacks its quotes."""
    sizes = [key for key, value in namespace.items() if isinstance(value, int) and key[:1] != "_"]
    meant = closest(name, sizes) if len(name) > 2 else None
    hint = f'for a size known at the call, write "{name}"'
    if meant is not None:
        hint = f"did you mean {meant}? {hint[:1].upper()}{hint[1:]}"
    return v.RefusalError(f"unknown name `{name}`", span, hint=hint)


def tuple_annotation(items: Sequence[v.Operand]) -> v.Value:
    """Return ``tuple[A, B]``. Raises RefusalError."""
    if items and items[-1].value == v.Known(Ellipsis):
        hint = "write one type for each item"
        raise v.RefusalError("a tuple's length must be known", items[-1].span, hint=hint)
    fields = tuple(map(result_type, items))
    if any(isinstance(field, OpenTensor | OpenType) for field in fields):
        return v.Known(OpenType(fields))
    return v.TypeOf(TupleType(tuple(map(annotation_type, items))))


def callable_annotation(items: Sequence[v.Operand], span: Span) -> v.Value:
    """Return ``Callable[[A, B], R]``. Raises RefusalError."""
    if len(items) != 2 or not isinstance(items[0].value, v.TupleOf):
        hint = (
            "write Callable[[Tensor[(3,), f32]], Tensor[(3,), f32]]: parameters in brackets, then the result"
        )
        raise v.RefusalError("Callable takes the parameters' types and the result's", span, hint=hint)
    parameters = (annotation_type(v.Operand(item, items[0].span)) for item in items[0].value.items)
    return v.TypeOf(FuncType(tuple(parameters), annotation_type(items[1])))


def is_open(ctx: Elaboration, ty: tree.Annotation) -> bool:
    """Return whether the annotation of a parameter leaves something to each call."""
    with ctx.trial():
        try:
            return isinstance(_resolve(ctx, ty, result_type), OpenTensor | OpenType)
        except v.RefusalError:
            return False


def elaborate_type(ctx: Elaboration, ty: tree.Annotation) -> Type | None:
    """Return the type that an annotation means; None where an error was reported. Raises RefusalError."""
    return in_caller(ctx, _resolve(ctx, ty, annotation_type))


def elaborate_result_type(ctx: Elaboration, ty: tree.Annotation) -> Type | OpenTensor | OpenType | None:
    """Return what the annotation of a result means, as `elaborate_type` does."""
    type_ = _resolve(ctx, ty, result_type)
    return type_ if isinstance(type_, OpenTensor | OpenType) else in_caller(ctx, type_)


def in_caller(ctx: Elaboration, type_: _Type) -> _Type:
    """Return a type with the named dimensions of inlined functions as the function around them has them."""
    for environment in ctx.environment.chain():
        if environment.sizes and type_ is not None:
            type_ = substitute_dims(type_, environment.sizes, own=False)
    return type_


def sizes_in_scope(ctx: Elaboration) -> DeclaredSizes:
    """Return what the named dimensions are where a type is declared."""
    known: dict[str, v.Value] = {}
    for innermost in (*ctx.callers, ctx.environment):
        for environment in reversed(innermost.chain()):
            known |= {label: named.size for label, named in environment.dimensions.items()}
    return DeclaredSizes(known)


def _resolve(
    ctx: Elaboration, ty: tree.Annotation, resolve: Callable[[v.Operand], _Result]
) -> _Result | None:
    value = ctx.evaluate(ty.expr)
    return None if v.is_failed(value) else resolve(v.Operand(value, ctx.span(ty.span)))


def type_or_none(ctx: Elaboration, annotation: tree.Annotation) -> Type | None:
    """Return the type that an annotation means; None where there is an error, which is reported."""
    return in_caller(ctx, _resolve_or_report(ctx, annotation, annotation_type))


def result_type_or_none(ctx: Elaboration, annotation: tree.Annotation) -> Type | OpenTensor | OpenType | None:
    """Return what the annotation of a result means, as `type_or_none` does."""
    type_ = _resolve_or_report(ctx, annotation, result_type)
    return type_ if isinstance(type_, OpenTensor | OpenType) else in_caller(ctx, type_)


def parameter_type_or_none(
    ctx: Elaboration, annotation: tree.Annotation
) -> tuple[Type | OpenTensor | OpenType | None, str]:
    """Return what `parameter_type` does; None and ``""`` where there is an error, which is reported."""
    return _resolve_or_report(ctx, annotation, parameter_type) or (None, "")


def _resolve_or_report(
    ctx: Elaboration, annotation: tree.Annotation, resolve: Callable[[v.Operand], _Result]
) -> _Result | None:
    try:
        return _resolve(ctx, annotation, resolve)
    except v.RefusalError as refusal:
        ctx.report(refusal)
    except RecursionError:
        ctx.report_depth(annotation.span)
    except WorkLimitError:
        ctx.diagnostics.error("this type takes too long to compile", ctx.span(annotation.span))
    return None
