"""Declare arithmetic on quantized numbers: real = scale * (quantized - zero_point), both given as arguments.

Attributes and result shapes are those of the operators on real numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import DTYPE, INT, STR
from nnmagic.relay.ops.declaration import OPERATORS, REQUIRED, Attr, Family, RelationError, Trait
from nnmagic.relay.ops.dims import multiply
from nnmagic.relay.ops.layouts import parse_layout
from nnmagic.relay.ops.relations import broadcast, normalize_axis, require_type, tensor
from nnmagic.relay.types import Dim, TensorType, TupleType, Type, is_float

declare = Family("quantization", Trait.SPECULATABLE).declare

_SCALE, _ZERO_POINT = "float32", "int32"
_BYTES = ("int8", "uint8")


def _of_dtype(types: Sequence[Type], index: int, what: str, allowed: Sequence[str]) -> TensorType:
    """Return argument ``index``. Raises RelationError unless it is a tensor of one of the dtypes."""
    operand = tensor(types, index)
    if operand.dtype not in allowed:
        message = "expected {what} to be of dtype {allowed:dtype or}, found {operand}"
        raise RelationError(message, index, what=what, allowed=allowed, operand=operand)
    return operand


def _require_out_dtype(attrs: Attrs, *allowed: str) -> str:
    dtype = str(attrs["out_dtype"])
    if dtype not in allowed:
        message = "out_dtype must be one of {allowed:dtype}, not {dtype!r}"
        raise RelationError(message, attr="out_dtype", allowed=allowed, dtype=dtype)
    return dtype


def _require_scalar(types: Sequence[Type], index: int, what: str, dtype: str) -> None:
    operand = _of_dtype(types, index, what, (dtype,))
    if operand.shape:
        message = "expected {what} to be a scalar, found {operand}"
        raise RelationError(message, index, what=what, operand=operand)


def _require_per_channel(types: Sequence[Type], index: int, what: str, dtype: str, channels: Dim) -> None:
    """Raise RelationError unless an argument is a scalar, or a vector with an element for each channel."""
    operand = _of_dtype(types, index, what, (dtype,))
    if operand.shape:
        require_type(operand, (channels,), what, index)


def _require_scalars(types: Sequence[Type], first: int, name: str) -> None:
    """Require arguments ``first`` and the next to be a scale and a zero point of a whole tensor."""
    _require_scalar(types, first, f"the scale of {name}", _SCALE)
    _require_scalar(types, first + 1, f"the zero point of {name}", _ZERO_POINT)


def _channels(data: TensorType, axis: int, operand: int = 0, *, attr: str = "axis") -> Dim:
    """Return the number of channels along the axis, which ``attr`` gives; a scalar has one."""
    if not data.shape and axis <= 0:
        return 1
    return data.shape[normalize_axis(axis, len(data.shape), operand, attr=attr)]


# --- from one scale and zero point to another ---------------------------------------------------------------


def _requantize(types: Sequence[Type], attrs: Attrs) -> TensorType:
    data = _of_dtype(types, 0, "the data", ("int8", "uint8", "int16", "int32", "int64"))
    channels = _channels(data, cast(int, attrs["axis"]))
    _require_per_channel(types, 1, "the scale of the data", _SCALE, channels)
    _require_per_channel(types, 2, "the zero point of the data", _ZERO_POINT, channels)
    _require_scalars(types, 3, "the result")
    return TensorType(data.shape, _require_out_dtype(attrs, "int8", "uint8", "int16", "int32"))


def _require_choice(attrs: Attrs, name: str, *values: str) -> None:
    """Raise RelationError unless an attribute is one of the values, or "None", Relay's default."""
    if attrs[name] not in (*values, "None"):
        choices = ", ".join(map(repr, values))
        raise RelationError(f"{name} must be one of {choices}, not {attrs[name]!r}", attr=name)


def _check_modes(_types: Sequence[Type], attrs: Attrs) -> None:
    _require_choice(attrs, "rounding", "UPWARD", "TONEAREST")
    _require_choice(attrs, "compute_dtype", "int64", "float32", "float64")


declare(
    "qnn.requantize(data, input_scale, input_zero_point, output_scale, output_zero_point)",
    _requantize,
    "Quantized numbers brought to another scale and zero point.",
    Attr("axis", INT, -1),
    Attr("rounding", STR, "None"),
    Attr("compute_dtype", STR, "None"),
    Attr("out_dtype", DTYPE, "", call_default="int8"),
    preconditions=[_check_modes],
)


# --- element by element -------------------------------------------------------------------------------------


def _arithmetic(types: Sequence[Type], attrs: Attrs) -> TensorType:
    for index, name in enumerate(("lhs", "rhs")):
        data = tensor(types, index)
        axis = cast(int, attrs[f"{name}_axis"]) if len(data.shape) > 1 else 0  # Relay ignores it there
        channels = _channels(data, axis, index, attr=f"{name}_axis")
        _require_per_channel(types, 2 + 2 * index, f"the scale of {name}", _SCALE, channels)
        _require_per_channel(types, 3 + 2 * index, f"the zero point of {name}", _ZERO_POINT, channels)
    _require_scalars(types, 6, "the result")
    return broadcast(types, attrs)


def _check_integers(types: Sequence[Type], _attrs: Attrs) -> None:
    data = types[0].fields if isinstance(types[0], TupleType) else types[:1]
    for type_ in data:
        _of_dtype([type_], 0, "the data", ("int8", "uint8", "int16", "uint16", "int32"))


def _check_axes(types: Sequence[Type], attrs: Attrs) -> None:
    """Require the scales of both operands of a product to lie along one axis of the result."""
    axes = set()
    for index, name in enumerate(("lhs_axis", "rhs_axis")):
        rank = len(tensor(types, index).shape)
        if tensor(types, 2 + 2 * index).shape:
            axis = normalize_axis(cast(int, attrs[name]), rank, index, attr=name) if rank > 1 else rank - 1
            axes.add(axis - rank)
    if len(axes) > 1:
        message = "the scales of lhs and rhs must be along one axis of the result"
        raise RelationError(message, 2, 4, attr=("lhs_axis", "rhs_axis"))


for _name, _what in (("add", "Sum"), ("subtract", "Difference"), ("mul", "Product")):
    declare(
        f"qnn.{_name}(lhs, rhs, lhs_scale, lhs_zero_point, rhs_scale, rhs_zero_point, "
        "output_scale, output_zero_point)",
        _arithmetic,
        f"{_what} of quantized numbers, quantized.",
        Attr("lhs_axis", INT, -1),
        Attr("rhs_axis", INT, -1),
        attrs_key="BroadcastAttrs",
        traits=Trait.SPECULATABLE,
        preconditions=[_check_integers, _check_axes] if _name == "mul" else [_check_integers],
    )


def _unary(types: Sequence[Type], _attrs: Attrs) -> Type:
    _of_dtype(types, 0, "the data", _BYTES)
    _require_scalars(types, 1, "the data")
    _require_scalars(types, 3, "the result")
    return types[0]


_UNARY = {
    "abs": "Absolute value",
    "erf": "Error function",
    "exp": "Exponential",
    "hardswish": "x * min(max(x + 3, 0), 6) / 6",
    "log": "Natural logarithm",
    "rsqrt": "1 / square root",
    "sigmoid": "1 / (1 + exp(-x))",
    "sqrt": "Square root",
    "tanh": "Hyperbolic tangent",
}
for _name, _what in _UNARY.items():
    declare(
        f"qnn.{_name}(x, scale, zero_point, output_scale, output_zero_point)",
        _unary,
        f"{_what} of quantized numbers, quantized.",
        traits=Trait.SPECULATABLE,
    )


def _leaky_relu(types: Sequence[Type], attrs: Attrs) -> Type:
    alpha = cast(float, attrs["alpha"])
    if alpha < 0:
        raise RelationError(f"alpha must not be negative, it is {alpha:g}", attr="alpha")
    return _unary(types, attrs)


def _softmax(types: Sequence[Type], attrs: Attrs) -> Type:
    _of_dtype(types, 0, "the data", ("int8",))
    return _unary(types, attrs)


declare(
    "qnn.softmax(data, scale, zero_point, output_scale, output_zero_point)",
    _softmax,
    "Softmax of quantized numbers along an axis, in integers.",
    Attr("axis", INT, -1),
)
declare(
    "qnn.leaky_relu(data, input_scale, input_zero_point, output_scale, output_zero_point)",
    _leaky_relu,
    "The quantized number where it stands for a positive one, else alpha times it.",
    *OPERATORS["nn.leaky_relu"].attrs,
)


def _avg_pool2d(types: Sequence[Type], attrs: Attrs) -> Type:
    _unary(types, attrs)
    return OPERATORS["nn.avg_pool2d"].relation(types[:1], attrs)


declare(
    "qnn.avg_pool2d(data, input_scale, input_zero_point, output_scale, output_zero_point)",
    _avg_pool2d,
    "Mean of each window of quantized numbers, quantized.",
    *OPERATORS["nn.avg_pool2d"].attrs,
    attrs_key="AvgPool2DAttrs",
    traits=Trait.HEAVY,
    preconditions=OPERATORS["nn.avg_pool2d"].preconditions,
)


# --- products -----------------------------------------------------------------------------------------------


def _with_int32(name: str, **call_defaults: object) -> list[Attr]:
    """Return the attributes of the operator on real numbers; in a call from Python out_dtype is int32."""
    defaults: dict[str, object] = {"out_dtype": "int32", **call_defaults}
    return [
        Attr(attr.name, attr.kind, attr.default, defaults.get(attr.name, attr.call_default))
        for attr in OPERATORS[name].attrs
    ]


def _scale_count(types: Sequence[Type], index: int, attrs: Attrs, name: str) -> Dim:
    """Return the number of scales that an attribute gives. Relay needs it where each channel has one."""
    count = cast("Dim | None", attrs[name])
    if count is None and tensor(types, index).shape:
        raise RelationError(f"a scale for each channel needs {name} to be given", index, attr=name)
    return 1 if count is None else count


_PRODUCT_ARGS = "input_zero_point, kernel_zero_point, input_scale, kernel_scale"


def _dense(types: Sequence[Type], attrs: Attrs) -> Type:
    _of_dtype(types, 0, "the data", ("int8", "uint8", "int16", "uint16"))
    _of_dtype(types, 1, "the weight", _BYTES)
    _require_out_dtype(attrs, "int32", "int64")
    _require_scalar(types, 2, "the zero point of the data", _ZERO_POINT)
    _require_scalar(types, 4, "the scale of the data", _SCALE)
    _require_per_channel(types, 5, "the scale of the weight", _SCALE, _scale_count(types, 5, attrs, "units"))
    return OPERATORS["nn.dense"].relation(types[:2], attrs)


def _require_zero_points(types: Sequence[Type], channels: Dim) -> None:
    """Raise RelationError unless the weight has one zero point, or one for each channel."""
    zero_point = _of_dtype(types, 3, "the zero point of the weight", (_ZERO_POINT,))
    if zero_point.shape not in ((), (1,)):
        require_type(zero_point, (channels,), "the zero point of the weight", 3)


def _check_row_zero_points(types: Sequence[Type], _attrs: Attrs) -> None:
    _require_zero_points(types, tensor(types, 1).shape[0])


def _check_kernel_zero_points(types: Sequence[Type], attrs: Attrs) -> None:
    channels = parse_layout(attrs["kernel_layout"], "kernel_layout").index("O")
    _require_zero_points(types, tensor(types, 1).shape[channels])


declare(
    f"qnn.dense(data, weight, {_PRODUCT_ARGS})",
    _dense,
    "Product of quantized data with the rows of a quantized weight; the scale of the result is theirs, too.",
    *_with_int32("nn.dense", units=REQUIRED),
    traits=Trait.HEAVY,
    preconditions=[_check_row_zero_points],
)


def _batch_matmul(types: Sequence[Type], attrs: Attrs) -> Type:
    _of_dtype(types, 0, "x", _BYTES)
    _of_dtype(types, 1, "y", _BYTES)
    _require_out_dtype(attrs, "int32")
    for index, name in ((2, "x"), (3, "y")):
        _require_scalar(types, index, f"the zero point of {name}", _ZERO_POINT)
        _require_scalar(types, index + 2, f"the scale of {name}", _SCALE)
    return OPERATORS["nn.batch_matmul"].relation(types[:2], attrs)


declare(
    "qnn.batch_matmul(x, y, x_zero_point, y_zero_point, x_scale, y_scale)",
    _batch_matmul,
    "Matrix product of each pair of two quantized batches.",
    *_with_int32("nn.batch_matmul"),
    traits=Trait.HEAVY,
)


def _conv2d(types: Sequence[Type], attrs: Attrs) -> Type:
    dtypes = ("int8", "uint8", "int16")
    _of_dtype(types, 0, "the data", dtypes)
    weight = _of_dtype(types, 1, "the kernel", dtypes)
    _require_out_dtype(attrs, "int16", "int32", "int64")
    result = OPERATORS["nn.conv2d"].relation(types[:2], attrs)
    _require_scalar(types, 2, "the zero point of the data", _ZERO_POINT)
    _require_scalar(types, 4, "the scale of the data", _SCALE)
    if attrs["groups"] == 1:
        channels = weight.shape[parse_layout(attrs["kernel_layout"], "kernel_layout").index("O")]
    else:
        channels = _scale_count(types, 5, attrs, "channels")
    _require_per_channel(types, 5, "the scale of the kernel", _SCALE, channels)
    return result


def _conv2d_transpose(types: Sequence[Type], attrs: Attrs) -> Type:
    _of_dtype(types, 0, "the data", ("int8", "uint8", "int16", "uint16"))
    weight = _of_dtype(types, 1, "the weight", _BYTES)
    _require_out_dtype(attrs, "int16", "int32", "int64")
    result = OPERATORS["nn.conv2d_transpose"].relation(types[:2], attrs)
    _require_per_channel(types, 2, "the zero point of the data", _ZERO_POINT, 1)
    _of_dtype(types, 3, "the zero point of the weight", (_ZERO_POINT,))
    _require_per_channel(types, 4, "the scale of the data", _SCALE, 1)
    layout = parse_layout(attrs["kernel_layout"], "kernel_layout")
    channels = weight.shape[layout.index("O")]
    if attrs["groups"] != 1:  # Relay's rule, although the result has groups times as many
        channels = multiply(weight.shape[layout.index("I")], channels)
    _require_per_channel(types, 5, "the scale of the weight", _SCALE, channels)
    return result


declare(
    f"qnn.conv2d(data, kernel, {_PRODUCT_ARGS})",
    _conv2d,
    "Convolution of quantized data with a quantized kernel; the scale of the result is that of both.",
    *_with_int32("nn.conv2d", kernel_size=REQUIRED, channels=REQUIRED),
    attrs_key="Conv2DAttrs",
    call_order=f"data kernel {_PRODUCT_ARGS} kernel_size channels strides padding dilation groups "
    "data_layout kernel_layout out_layout out_dtype",
    traits=Trait.HEAVY,
    preconditions=[*OPERATORS["nn.conv2d"].preconditions, _check_kernel_zero_points],
    shape_constraints=OPERATORS["nn.conv2d"].shape_constraints,
)
declare(
    f"qnn.conv2d_transpose(data, weight, {_PRODUCT_ARGS})",
    _conv2d_transpose,
    "Transposed convolution of quantized data with a quantized weight.",
    *_with_int32("nn.conv2d_transpose"),
    attrs_key="Conv2DTransposeAttrs",
    call_order=f"data weight {_PRODUCT_ARGS} strides padding dilation groups channels kernel_size "
    "data_layout kernel_layout out_layout output_padding out_dtype",
    traits=Trait.HEAVY,
    preconditions=[*OPERATORS["nn.conv2d_transpose"].preconditions, _check_kernel_zero_points],
    shape_constraints=OPERATORS["nn.conv2d_transpose"].shape_constraints,
)


# --- joining ------------------------------------------------------------------------------------------------


def _require_scalar_fields(types: Sequence[Type], index: int, what: str, dtype: str) -> None:
    """Raise RelationError unless argument ``index`` is a tuple of scalars."""
    operand = types[index]
    fields = operand.fields if isinstance(operand, TupleType) else ()
    if not isinstance(operand, TupleType) or any(field != TensorType((), dtype) for field in fields):
        message = "expected {what} to be a tuple of {dtype:dtype} scalars, found {operand}"
        raise RelationError(message, index, what=what, dtype=dtype, operand=operand)


def _concatenate(types: Sequence[Type], attrs: Attrs) -> Type:
    _require_scalar_fields(types, 1, "the scales", _SCALE)
    _require_scalar_fields(types, 2, "the zero points", _ZERO_POINT)
    _require_scalars(types, 3, "the result")
    return OPERATORS["concatenate"].relation(types[:1], attrs)


def _check_counts(types: Sequence[Type], _attrs: Attrs) -> None:
    """Require as many scales and zero points as tensors."""
    counts = [len(type_.fields) for type_ in types[:3] if isinstance(type_, TupleType)]
    if len(set(counts)) > 1:
        tensors, scales, zero_points = counts
        message = f"there are {tensors} tensors, {scales} scales and {zero_points} zero points"
        raise RelationError(message, 0, 1, 2)


declare(
    "qnn.concatenate(data, input_scales, input_zero_points, output_scale, output_zero_point)",
    _concatenate,
    "Quantized tensors joined along an axis, each brought to the scale and zero point of the result.",
    *OPERATORS["concatenate"].attrs,
    preconditions=[_check_integers, _check_counts],
)


# --- simulated ----------------------------------------------------------------------------------------------


def _simulate(types: Sequence[Type], _attrs: Attrs) -> Type:
    tensor(types, 1)  # the code of a dtype
    return tensor(types)


def _check_simulation(types: Sequence[Type], attrs: Attrs) -> None:
    data = tensor(types)
    if not is_float(data.dtype):
        raise RelationError("expected real numbers, found {data}", 0, data=data)
    _require_scalar(types, 1, "the code of the dtype", "int32")
    for index, what in ((2, "the scale"), (3, "the zero point")):
        parameter = tensor(types, index)
        if len(parameter.shape) > 1:
            message = "expected {what} to be a scalar or a vector, found {parameter}"
            raise RelationError(message, index, what=what, parameter=parameter)
    _channels(data, cast(int, attrs["axis"]))


declare(
    "qnn.simulated_quantize(data, out_dtype, output_scale, output_zero_point)",
    _simulate,
    "Real numbers as far as a quantized dtype can hold them: 0 is none, 1 int8, 2 uint8, 3 int32.",
    Attr("axis", INT, -1),
    call_order="data output_scale output_zero_point axis out_dtype",
    preconditions=[_check_simulation],
)
declare(
    "qnn.simulated_dequantize(data, in_dtype, input_scale, input_zero_point)",
    _simulate,
    "The real numbers that simulated quantized ones stand for.",
    Attr("out_dtype", DTYPE, call_default=""),
    Attr("axis", INT, -1),
    attrs_key="DequantizeAttrs",
    call_order="data input_scale input_zero_point axis in_dtype",
    preconditions=[_check_simulation],
)
