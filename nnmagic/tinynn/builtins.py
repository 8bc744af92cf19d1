"""The functions of the language that are more than one operator, or that take arguments in another form.

A table: name -> signature and meaning. Everything else that a cell calls is an operator by its Relay name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nnmagic.diagnostics import Span
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.ops.dims import product
from nnmagic.relay.types import AnyDim, Dim, TensorType, is_float
from nnmagic.tinynn.annotations import DType, dtype_named, dtype_short_name
from nnmagic.tinynn.binding import Arguments, Builtin
from nnmagic.tinynn.calls import operator_call
from nnmagic.tinynn.emit import apply, call_operator, cast, is_tensor, reshape_to
from nnmagic.tinynn.products import matrix_product
from nnmagic.tinynn.values import (
    Computed,
    Known,
    Operand,
    Refusal,
    TupleOf,
    Value,
    described,
    dim_shown,
    is_number,
    number_constant,
    shape_shown,
)

_CONV = (
    "strides? padding? dilation? groups? channels? kernel_size? "
    "data_layout? kernel_layout? out_layout? out_dtype?"
)


def _convolution(name: str) -> Callable[[Arguments], Value]:
    def apply_to(call: Arguments) -> Value:
        attrs = call.attrs(*(word.rstrip("?") for word in _CONV.split()))
        operands = [call.given["data"], call.given["weight"]]
        result = call_operator(OPERATORS[name], operands, attrs, call.span)
        if "bias" not in call:
            return result
        default = OPERATORS[name].attr("data_layout")
        layout = attrs.get("out_layout") or attrs.get("data_layout") or (default and default.default)
        axis = str(layout).find("C")
        operands = [Operand(result, call.span), call.given["bias"]]
        return call_operator(OPERATORS["nn.bias_add"], operands, {"axis": axis}, call.span)

    return apply_to


def _linear(call: Arguments) -> Value:
    result = apply("nn.dense", call.span, call.given["data"], call.given["weight"])
    if "bias" not in call:
        return result
    return apply("nn.bias_add", call.span, result, call.given["bias"], axis=-1)


def _gelu(call: Arguments) -> Value:
    """The exact form, x * (1 + erf(x / sqrt(2))) / 2 (Hendrycks and Gimpel, arXiv:1606.08415)."""
    data, span = call.tensor("x"), call.span
    dtype = call.type("x").dtype
    if not is_float(dtype):
        hint = "convert it first, as in x.astype(f32)"
        raise Refusal(f"gelu is defined for floats, not {dtype_short_name(dtype)}", span, hint=hint)
    scaled = apply("multiply", span, data, number_constant(2**-0.5, dtype, span))
    factor = apply("add", span, apply("erf", span, scaled), number_constant(1.0, dtype, span))
    half = apply("multiply", span, data, number_constant(0.5, dtype, span))
    return apply("multiply", span, half, factor)


def _matmul(call: Arguments) -> Value:
    return matrix_product(call.given["a"], call.given["b"], call.span)


def _length(call: Arguments) -> Value:
    value = call.given["x"].value
    if isinstance(value, TupleOf):
        return Known(len(value.items))
    if is_tensor(value) and (shape := call.type("x").shape):
        return Known(shape[0])
    raise Refusal(f"{described(value)} has no len()", call.given["x"].span)


def _reshape(call: Arguments) -> Value:
    """NumPy's: numbers, one -1, named dimensions of the tensor."""
    data, shape = call.tensor("x"), call.known("newshape")
    wanted = shape if isinstance(shape, tuple) else (shape,)
    span = call.given["newshape"].span
    given = call.type("x").shape
    for dim in wanted:
        if isinstance(dim, bool) or not isinstance(dim, int | AnyDim) or (isinstance(dim, int) and dim < -1):
            raise Refusal(f"reshape: a shape holds ints and -1, not {dim!r}", span)
    if wanted.count(-1) > 1:
        raise Refusal("reshape: only one dimension can be -1", span)
    full = _completed(given, wanted, span)
    if sum(not isinstance(dim, int) for dim in full) > 1:
        return _reshape_keeping(data, given, wanted, full, call)
    return reshape_to(data, full, call.span)


def _completed(given: tuple[Dim, ...], wanted: tuple[Dim, ...], span: Span) -> tuple[Dim, ...]:
    """The new shape with -1 filled in, where that is known; the sizes must agree where they are known."""
    left, right = list(given), [dim for dim in wanted if dim != -1]
    for dim in [dim for dim in right if isinstance(dim, AnyDim) and dim.label is not None]:
        if dim not in left:
            hint = f"the tensor's shape is {shape_shown(given)}; write -1 for one dimension that follows"
            raise Refusal(f"reshape: the tensor has no dimension {dim_shown(dim)}", span, hint=hint)
        left.remove(dim)
        right.remove(dim)
    size, rest = product(left), product(right)
    open_ = -1 in wanted
    if isinstance(size, int) and isinstance(rest, int):
        if (rest == 0 and open_) or (size != rest and not open_) or (open_ and size % rest):
            raise Refusal(f"reshape: {shape_shown(given)} cannot become {shape_shown(wanted)}", span)
        return tuple(size // rest if dim == -1 else dim for dim in wanted)
    if not open_ and all(isinstance(dim, int) for dim in right):
        raise Refusal(
            f"reshape: {shape_shown(given)} cannot become {shape_shown(wanted)}",
            span,
            hint="its size is known only when the function is called: write -1 for one dimension",
        )
    filled = size if rest == 1 else AnyDim()
    return tuple(filled if dim == -1 else dim for dim in wanted)


def _reshape_keeping(
    data: Computed, given: tuple[Dim, ...], wanted: tuple[Dim, ...], full: tuple[Dim, ...], call: Arguments
) -> Value:
    """Several unknown dimensions: those that stay in their place are kept (Relay's 0), one may be -1."""
    newshape = [
        0 if isinstance(dim, AnyDim) and place < len(given) and dim == given[place] else dim
        for place, dim in enumerate(wanted)
    ]
    if any(isinstance(dim, AnyDim) for dim in newshape) or 0 in wanted:
        message = f"reshape of {shape_shown(given)} to {shape_shown(wanted)} is not supported yet"
        raise Refusal(
            message, call.span, hint="keep the named dimensions at their places, with one -1 at most"
        )
    result = apply("reshape", call.span, data, newshape=tuple(newshape))
    assert isinstance(result.type, TensorType)
    return Computed(result.expr, TensorType(full, result.type.dtype))


def _astype(call: Arguments) -> Value:
    return cast(call.tensor("x"), dtype_argument(call, "dtype"), call.span)


def dtype_argument(call: Arguments, parameter: str) -> str:
    """An argument that must be a dtype: ``f32``, ``"float32"``. Raises Refusal."""
    found = call.known(parameter)
    dtype = found if isinstance(found, DType) else dtype_named(found) if isinstance(found, str) else None
    if dtype is None:
        operand = call.given[parameter]
        hint = "write one of f16 bf16 f32 f64, i8 to i64, u8 to u64, bool_"
        raise Refusal(f"{call.name}: {described(operand.value)} is no dtype", operand.span, hint=hint)
    return dtype.name


def _arange(call: Arguments) -> Value:
    """NumPy's: int64 for ints and float64 for floats, unless a dtype is given."""
    numbers = [call.known(name) for name in ("start", "stop", "step") if name in call]
    for number in numbers:
        if isinstance(number, bool) or not is_number(number):
            shown = f"the dimension {dim_shown(number)}" if isinstance(number, AnyDim) else repr(number)
            raise Refusal(f"arange takes numbers that are known while compiling, not {shown}", call.span)
    if "stop" not in call:
        numbers.insert(0, 0)
    if "step" not in call:
        numbers.append(1)
    natural = "int64" if all(isinstance(number, int) for number in numbers) else "float64"
    dtype = dtype_argument(call, "dtype") if "dtype" in call else natural
    if numbers[2] == 0:
        raise Refusal("arange: the step cannot be zero", call.span)
    ends = [
        number_constant(number, dtype, call.span) for number in numbers if isinstance(number, int | float)
    ]
    return apply(
        "arange",
        call.span,
        *ends,
        start=ends[0].expr,
        stop=ends[1].expr,
        step=ends[2].expr,
        dtype=dtype,
    )


def _statistic(name: str) -> Callable[[Arguments], Value]:
    def apply_to(call: Arguments) -> Value:
        call.tensor("x")
        data, attrs = call.given["x"], call.attrs("axis", "keepdims")
        mean = apply("mean", call.span, data, **{**attrs, "keepdims": True})
        variance = apply("variance", call.span, data, mean, unbiased=bool(call.known("unbiased")), **attrs)
        return apply("sqrt", call.span, variance) if name == "std" else variance

    return apply_to


def _flatten(call: Arguments) -> Value:
    return reshape_to(call.tensor("x"), (product(call.type("x").shape),), call.span)


def _transpose(call: Arguments) -> Value:
    axes = call.known("axes") if "axes" in call else None
    return apply("transpose", call.span, call.given["x"], axes=axes or None)


def _broadcast_to(call: Arguments) -> Value:
    return apply("broadcast_to", call.span, call.given["x"], shape=call.known("shape"))


#: Relay holds the bounds of clip as doubles, which tell whole numbers apart up to here.
_EXACT = 2**53


def _clip(call: Arguments) -> Value:
    """NumPy's: a bound may be None, and must be a number that the dtype can hold."""
    data, dtype = call.tensor("x"), call.type("x").dtype
    bounds: dict[str, tuple[bool | int | float, Computed]] = {}
    for name in ("a_min", "a_max"):
        if name not in call:
            continue
        number, span = call.known(name), call.given[name].span
        if not isinstance(number, bool | int | float):
            raise Refusal(f"clip: `{name}` must be a number, not {described(call.given[name].value)}", span)
        bounds[name] = number, number_constant(number, dtype, span)
    if not bounds:
        raise Refusal("clip needs a bound", call.span, hint="write clip(x, a_min, a_max); one may be None")
    if len(bounds) == 2 and all(abs(number) <= _EXACT for number, _ in bounds.values()):
        numbers = {name: number for name, (number, _) in bounds.items()}
        return apply("clip", call.span, data, **numbers)
    for name, operator in (("a_min", "maximum"), ("a_max", "minimum")):
        if name in bounds:
            data = apply(operator, call.span, data, bounds[name][1])
    return data


def _copy(call: Arguments) -> Value:
    return call.tensor("x")


def _joined(name: str) -> Builtin:
    """NumPy's axis, 0, is the default."""

    def apply_to(call: Arguments) -> Value:
        axis = call.given.get("axis", Operand(Known(0), call.span))
        operands = [replace(operand, keyword=None) for operand in (call.given["data"], axis)]
        return operator_call(OPERATORS[name], operands, call.span)

    return Builtin(name, "data axis?", apply_to, OPERATORS[name].summary)


def _einsum(call: Arguments) -> Value:
    """NumPy's order: the equation first."""
    operands = [replace(call.given[name], keyword=None) for name in ("operands", "equation")]
    return operator_call(OPERATORS["einsum"], operands, call.span)


def _table(*builtins: Builtin) -> dict[str, Builtin]:
    return {builtin.name: builtin for builtin in builtins}


_CLIP = Builtin("clip", "x a_min? a_max?", _clip, "Each element limited to a range; a bound may be None.")

#: Free functions, by the bare name; an operator's whole name (``nn.conv2d``) always means the operator alone.
BUILTINS: dict[str, Builtin] = _table(
    *(
        Builtin(
            f"conv{rank}d",
            f"data weight bias? {_CONV}",
            _convolution(f"nn.conv{rank}d"),
            f"nn.conv{rank}d, then nn.bias_add where there is a bias.",
        )
        for rank in (1, 2, 3)
    ),
    _CLIP,
    Builtin("linear", "data weight bias?", _linear, "nn.dense, then nn.bias_add where there is a bias."),
    Builtin("gelu", "x", _gelu, "x times the normal distribution function of x; exact, with erf."),
    Builtin("matmul", "a b", _matmul, "The same as a @ b."),
    Builtin("len", "x", _length, "How many items a tuple has; a tensor's first dimension."),
    Builtin("reshape", "x newshape", _reshape, "NumPy's reshape: -1 for one dimension that follows."),
    Builtin(
        "arange", "start stop? step? dtype?", _arange, "NumPy's arange of numbers known while compiling."
    ),
    Builtin("std", "x axis? keepdims? unbiased?", _statistic("std"), "Standard deviation along axes."),
    Builtin("var", "x axis? keepdims? unbiased?", _statistic("var"), "Variance along axes."),
    _joined("concatenate"),
    _joined("stack"),
    Builtin("variance", "x axis? keepdims? unbiased?", _statistic("var"), "Variance along axes."),
    Builtin("einsum", "equation *operands", _einsum, "NumPy's einsum."),
)

#: Methods of tensors; beside them every operator whose first argument is one tensor is a method.
METHODS: dict[str, Builtin] = _table(
    Builtin("reshape", "x *newshape", _reshape, "NumPy's reshape."),
    Builtin("astype", "x dtype", _astype, "The tensor in another dtype."),
    Builtin("transpose", "x *axes", _transpose, "The axes in another order; without any, reversed."),
    Builtin("flatten", "x", _flatten, "All elements in one dimension."),
    Builtin("ravel", "x", _flatten, "All elements in one dimension."),
    Builtin("broadcast_to", "x *shape", _broadcast_to, "Repeated along dimensions of size 1."),
    _CLIP,
    Builtin("copy", "x", _copy, "The tensor itself: tensors do not change."),
    BUILTINS["std"],
    BUILTINS["var"],
    BUILTINS["matmul"],
)

#: Names that every Python program has and a cell has not: (message, hint).
PYTHON_ONLY: dict[str, tuple[str, str]] = {
    "print": (
        "`print` cannot run inside a compiled function",
        "return the value and print it in another cell",
    ),
    "range": ("`range` is not supported yet", "write arange(n) for a tensor of numbers"),
    "list": ("`list` is not part of TinyNN", "write [a, b]"),
    "dict": ("`dict` is not part of TinyNN", "use names or a tuple"),
    "set": ("`set` is not part of TinyNN", "use a tuple"),
    "open": ("`open` is not part of TinyNN", "read the file in another cell and use what it gave"),
    "input": ("`input` is not part of TinyNN", "read it in another cell and use what it gave"),
    "eval": ("`eval` is not part of TinyNN", "compute it in another cell"),
    "exec": ("`exec` is not part of TinyNN", "compute it in another cell"),
    "isinstance": ("`isinstance` is not part of TinyNN", "types are known from the annotations"),
    "type": ("`type` is not part of TinyNN", "write x.dtype or x.shape"),
    "getattr": ("`getattr` is not part of TinyNN", "write x.name"),
    "enumerate": ("`enumerate` is not supported yet", "write the steps out"),
    "zip": ("`zip` is not supported yet", "write the steps out"),
    "map": ("`map` is not part of TinyNN", "write the steps out"),
    "sorted": ("`sorted` is not part of TinyNN", "write sort(x)"),
    "float": ("`float` is not a TinyNN type", "write f32 or f64"),
    "int": ("`int` is not a TinyNN type", "write i32 or i64"),
    "bool": ("`bool` is not a TinyNN type", "write bool_"),
    "str": ("`str` is not a TinyNN type", "strings are known while compiling only"),
    "complex": ("`complex` is not a TinyNN type", "hold real and imaginary parts in two tensors"),
    "super": ("`super` is not part of TinyNN", "call a function of the cell"),
    "Optional": ("`Optional` is not part of TinyNN", "give the parameter one type"),
    "List": ("`List` is not part of TinyNN", "write tuple[Tensor[(2, 3), f32], f32]"),
    "Any": ("`Any` is not part of TinyNN", "write the type, as in Tensor[(2, 3), f32]"),
}
