"""Calls of operators with all their arguments, and of functions of the module. Knows values and operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnmagic.diagnostics import Note, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.ops.declaration import NONE_GIVEN, Operator
from nnmagic.relay.types import AnyDim, Dim, FuncType, TensorType, TupleType, Type
from nnmagic.tinynn.annotations import DType, dtype_named
from nnmagic.tinynn.binding import bind, known_argument
from nnmagic.tinynn.emit import call_operator, cast, computed_part, is_tensor, tensor_type
from nnmagic.tinynn.strict import dims_differ
from nnmagic.tinynn.values import (
    FAILED,
    Computed,
    GlobalFunction,
    Known,
    NotKnown,
    Operand,
    Refusal,
    TupleOf,
    Value,
    computed,
    described,
    dim_shown,
    is_number,
    known_value,
    number_constant,
    source_text,
    type_shown,
    with_article,
)

# -- operators -----------------------------------------------------------------------------------------

#: Arguments that count or choose; a Python number there is an int32, whatever the data is.
_INDEX_ARGUMENTS = frozenset({"indices", "k", "index"})


#: Arguments that Relay's Python function makes of numbers, in the dtype of the result.
_NUMBERS: dict[str, dict[str, float]] = {
    "random.normal": {"mean": 0.0, "scale": 1.0},
    "random.uniform": {"low": 0.0, "high": 1.0},
}
#: Operators whose numbers have the dtype that an attribute names.
_DTYPE_ATTRIBUTE = {
    "full": "dtype",
    "one_hot": "dtype",
    "random.normal": "out_dtype",
    "random.uniform": "out_dtype",
}

#: What ``max`` and ``min`` are in Python beside reductions: of two tensors an operator, of numbers a number.
_OF_TWO: dict[str, tuple[str, Callable[[Sequence[bool | int | float]], bool | int | float]]] = {
    "max": ("maximum", max),
    "min": ("minimum", min),
}

#: Operators of which Relay's Python function gives the first result alone.
_FIRST_RESULT = frozenset({"nn.dropout"})


def operator_call(operator: Operator, operands: Sequence[Operand], span: Span) -> Value:
    """A call of an operator as it was written: tensors, numbers beside them, attributes. Raises Refusal."""
    name = operator.name
    if name in _OF_TWO and len(operands) > 1:
        pair = _of_two(name, operands, span)
        if pair is not None:
            return pair
    order = list(operator.call_order or (*operator.args, *(attr.name for attr in operator.attrs)))
    required = [parameter for parameter in order if _is_required(operator, parameter)]
    given = bind(name, order, required, operands, span, operator.keywords)
    attrs = {
        parameter: known_argument(name, parameter, operand)
        for parameter, operand in given.items()
        if parameter not in operator.args
    }
    args = [_argument(operator, parameter, given, attrs, span) for parameter in operator.args]
    places = {parameter: given[parameter].span for parameter in attrs}
    result = call_operator(operator, args, attrs, span, places)
    if operator.name in _FIRST_RESULT and isinstance(result, TupleOf):
        return result.items[0]
    return result


def _of_two(name: str, operands: Sequence[Operand], span: Span) -> Value | None:
    """``max(2, 3)`` of numbers known while compiling is Python's; None where Relay's reduction is meant."""
    positional = [operand for operand in operands if operand.keyword is None]
    if len(positional) < 2:
        return None
    if is_tensor(positional[1].value):
        hint = f"write {_OF_TWO[name][0]}({', '.join(source_text(each.span) for each in positional[:2])})"
        raise Refusal(f"{name} takes one tensor and its axes, not two tensors", span, hint=hint)
    numbers = [each.value.value for each in operands if isinstance(each.value, Known)]
    known = [number for number in numbers if isinstance(number, bool | int | float)]
    if len(known) == len(operands) == len(positional):
        return Known(_OF_TWO[name][1](known))
    return None


def _is_required(operator: Operator, parameter: str) -> bool:
    if parameter in operator.args:
        return parameter not in operator.arg_defaults and parameter not in _NUMBERS.get(operator.name, {})
    attr = operator.attr(parameter)
    return attr is not None and attr.default_in_call is NONE_GIVEN


def _argument(
    operator: Operator, parameter: str, given: dict[str, Operand], attrs: dict[str, object], span: Span
) -> Operand:
    operand = given.get(parameter)
    if operand is None:
        defaults = {**operator.arg_defaults, **_NUMBERS.get(operator.name, {})}
        operand = Operand(Known(defaults[parameter]), span)
    if isinstance(operand.value, Known):
        return _number_argument(operator, parameter, operand, given, attrs)
    if isinstance(operand.value, TupleOf) and operator.variadic:
        return _tensors(operator, operand)
    if isinstance(operand.value, TupleOf):
        hint = "make it an array in another cell, as in indices = numpy.array([0, 2], 'int32')"
        raise Refusal(
            f"{operator.name}: `{parameter}` must be a tensor, not {described(operand.value)}",
            operand.span,
            hint=hint if parameter in _INDEX_ARGUMENTS else None,
        )
    return Operand(_tensor(operator, parameter, operand), operand.span)


def _tensor(operator: Operator, parameter: str, operand: Operand) -> Computed:
    if not is_tensor(operand.value):
        wanted = "a tuple of tensors" if operator.variadic else "a tensor"
        message = f"{operator.name}: `{parameter}` must be {wanted}, not {described(operand.value)}"
        raise Refusal(message, operand.span)
    assert isinstance(operand.value, Computed)
    if operator.variadic:
        hint = "write them in brackets, as in concatenate([a, b], axis=0)"
        raise Refusal(f"{operator.name} takes a list of tensors, not one tensor", operand.span, hint=hint)
    return operand.value


def _tensors(operator: Operator, operand: Operand) -> Operand:
    """The one argument of an operator of many tensors."""
    assert isinstance(operand.value, TupleOf)
    if not operand.value.items:
        raise Refusal(f"{operator.name} needs at least one tensor", operand.span)
    tensors = [item for item in operand.value.items if is_tensor(item)]
    dtypes = [tensor_type(Operand(item, operand.span)).dtype for item in tensors]
    items: list[Value] = []
    for item in operand.value.items:
        if isinstance(item, Known) and is_number(item.value) and dtypes:
            assert isinstance(item.value, bool | int | float)
            item = number_constant(item.value, dtypes[0], operand.span)  # noqa: PLW2901  # the number as a tensor
        if not is_tensor(item):
            raise Refusal(f"{operator.name} takes a list of tensors, found {described(item)}", operand.span)
        items.append(item)
    if len(set(dtypes)) > 1:
        shown = " and ".join(dict.fromkeys(dtypes))
        raise Refusal(
            f"{operator.name} of {shown}: dtypes never mix by themselves",
            operand.span,
            hint="convert all to one dtype, as in x.astype(f32)",
        )
    value = TupleOf(tuple(items), operand.value.whole if operand.value.items == tuple(items) else None)
    return Operand(computed_part(Operand(value, operand.span)), operand.span)


def _number_argument(
    operator: Operator,
    parameter: str,
    operand: Operand,
    given: dict[str, Operand],
    attrs: dict[str, object],
) -> Operand:
    """A Python number where a tensor is wanted: it takes the dtype of the tensors beside it."""
    assert isinstance(operand.value, Known)
    number = operand.value.value
    if not isinstance(number, bool | int | float):
        message = f"{operator.name}: `{parameter}` must be a tensor, not {described(operand.value)}"
        raise Refusal(message, operand.span)
    dtype = _dtype_beside(operator, parameter, given, attrs) or _natural_dtype(number)
    return Operand(number_constant(number, dtype, operand.span), operand.span)


def _dtype_beside(
    operator: Operator, parameter: str, given: dict[str, Operand], attrs: dict[str, object]
) -> str | None:
    if parameter in _INDEX_ARGUMENTS:
        return "int32"
    wanted = attrs.get(_DTYPE_ATTRIBUTE.get(operator.name, ""))
    if isinstance(wanted, str | DType):
        found = wanted if isinstance(wanted, DType) else dtype_named(wanted)
        return None if found is None else found.name
    passed_over = {parameter, "condition", *_INDEX_ARGUMENTS}
    for name in operator.args:
        operand = given.get(name)
        if operand is not None and name not in passed_over and is_tensor(operand.value):
            return tensor_type(operand).dtype
    return None


def _natural_dtype(number: bool | int | float) -> str:
    """Relay's own choice for a lone Python number."""
    if isinstance(number, bool):
        return "bool"
    return "int32" if isinstance(number, int) else "float32"


# -- functions of the module --------------------------------------------------------------------------


def function_call(function: GlobalFunction, operands: Sequence[Operand], span: Span) -> Value:
    """A call of another function of the module. Raises Refusal where an argument's type does not fit."""
    parameters = function.parameters
    given = bind(function.written, parameters, parameters, operands, span)
    if function.type is None:
        return FAILED
    dims: dict[str, tuple[Dim, Span]] = {}
    args = [
        _fitted(function, parameter, type_, given[parameter], dims)
        for parameter, type_ in zip(parameters, function.type.arg_types, strict=True)
    ]
    call = ir.Call(ir.GlobalVar(function.name, span=span), tuple(arg.expr for arg in args), span=span)
    return computed(call, _with_dims(function.type.ret_type, {name: dim for name, (dim, _) in dims.items()}))


def _fitted(
    function: GlobalFunction,
    parameter: str,
    wanted: Type,
    operand: Operand,
    dims: dict[str, tuple[Dim, Span]],
) -> Computed:
    """An argument as a value of the parameter's type."""
    value = operand.value
    if (
        isinstance(value, Known)
        and is_number(value.value)
        and isinstance(wanted, TensorType)
        and not wanted.shape
    ):
        assert isinstance(value.value, bool | int | float)
        return number_constant(value.value, wanted.dtype, operand.span)
    if not isinstance(value, Computed | TupleOf) or isinstance(getattr(value, "type", None), FuncType):
        raise Refusal(
            f"{function.written}: `{parameter}` is {with_article(wanted)}, not {described(value)}",
            operand.span,
        )
    part = computed_part(operand)
    _match(function, parameter, wanted, part.type, operand, dims)
    return part


def _match(
    function: GlobalFunction,
    parameter: str,
    wanted: Type,
    found: Type,
    operand: Operand,
    dims: dict[str, tuple[Dim, Span]],
) -> None:
    """The argument's type against the parameter's; named dimensions of the function take the argument's."""

    def refuse(hint: str | None = None, notes: tuple[Note, ...] = ()) -> Refusal:
        message = f"{function.written}: `{parameter}` is {with_article(wanted)}, not {with_article(found)}"
        return Refusal(message, operand.span, hint=hint, notes=notes)

    match wanted, found:
        case TupleType(fields=ours), TupleType(fields=theirs) if len(ours) == len(theirs):
            for one, other in zip(ours, theirs, strict=True):
                _match(function, parameter, one, other, operand, dims)
        case TensorType(), TensorType() if len(wanted.shape) == len(found.shape):
            if wanted.dtype != found.dtype:
                short = type_shown(TensorType((), wanted.dtype))
                raise refuse(hint=f"convert it, as in x.astype({short})")
            for ours_, theirs_ in zip(wanted.shape, found.shape, strict=True):
                if isinstance(ours_, AnyDim) and ours_.label is not None:
                    known, place = dims.setdefault(ours_.label, (theirs_, operand.span))
                    if dims_differ(known, theirs_):
                        note = Note(f'here "{ours_.label}" is {dim_shown(known)}', place)
                        both = f"{dim_shown(known)} and {dim_shown(theirs_)}"
                        message = f'{function.written}: the dimension "{ours_.label}" would be {both}'
                        raise Refusal(message, operand.span, notes=(note,))
                elif dims_differ(ours_, theirs_):
                    raise refuse()
        case _ if wanted != found:
            raise refuse()


def _with_dims(type_: Type, dims: dict[str, Dim]) -> Type:
    """The type with a callee's named dimensions as the caller knows them; its own are ``?``."""
    match type_:
        case TensorType(shape=shape, dtype=dtype):
            return TensorType(
                tuple(
                    dims.get(dim.label, AnyDim()) if isinstance(dim, AnyDim) and dim.label else dim
                    for dim in shape
                ),
                dtype,
            )
        case TupleType(fields=fields):
            return TupleType(tuple(_with_dims(field, dims) for field in fields))
    return type_


# -- dtypes -------------------------------------------------------------------------------------------


def dtype_call(dtype: str, short: str, operands: Sequence[Operand], span: Span) -> Value:
    """``f32(x)``: a number as a tensor of rank 0, a tensor converted. Raises Refusal."""
    value = bind(short, ("x",), ("x",), operands, span)["x"]
    if is_tensor(value.value):
        assert isinstance(value.value, Computed)
        return cast(value.value, dtype, span)
    try:
        number = known_value(value.value)
    except NotKnown:
        number = None
    if not isinstance(number, bool | int | float):
        raise Refusal(f"{short}(...) takes a number or a tensor, not {described(value.value)}", value.span)
    return number_constant(number, dtype, span)
