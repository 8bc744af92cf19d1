"""Compute with quantized numbers in integers: saturate, multiply by fixed-point factors, requantize."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import te, tirx

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.tir.types import Index, PrimExpr


def channel_parameter(parameter: Tensor, index: Sequence[Index], axis: int) -> PrimExpr:
    """Return the scale or zero point of an element: that of the tensor, or of the element's channel."""
    if not len(parameter.shape):
        return parameter()
    return parameter(0 if parameter.shape[0] == 1 else index[axis])


def channel_axis(value: object, rank: int) -> int:
    """Count an axis from the front; the only axis of a vector, and the channel of a scalar, are 0."""
    return integer(value) % rank if rank > 1 else 0


def wrap_int32(value: PrimExpr) -> PrimExpr:
    """Wrap an int64 as int32 does, in int64."""
    return value.astype("int32").astype("int64")


def center_element(data: Tensor, zero_point: Tensor, index: Sequence[Index], axis: int) -> PrimExpr:
    """Subtract the zero point from an element; the result wraps as int32."""
    return wrap_int32(
        data(*index).astype("int64") - channel_parameter(zero_point, index, axis).astype("int64")
    )


def saturate(value: PrimExpr, dtype: str) -> PrimExpr:
    """Wrap an int64 as int32 does, then limit it to the dtype's range."""
    return scalar_functions.clip(wrap_int32(value), *dtype_limits(dtype)).astype(dtype)


def dtype_limits(dtype: str) -> tuple[int, int]:
    """Return the lowest and the highest number of an integer dtype."""
    return int(tirx.min_value(dtype).value), int(tirx.max_value(dtype).value)


class Factors:
    """Real factors, one per channel, as a 31-bit multiplier and a power of 2 (as ``frexp`` splits them)."""

    def __init__(self, real: Tensor) -> None:
        def parts(*index: Index) -> tuple[PrimExpr, PrimExpr]:
            # ``frexp`` by bits: with the exponent of 1022, one less than the bias, the mantissa is
            # a number from 1/2 to 1. (Jacob et al., Quantization and Training of Neural Networks
            # for Efficient Integer-Arithmetic-Only Inference, 2018, multiply by such factors.)
            bits = tirx.reinterpret("int64", real(*index))
            fraction = (bits & tirx.const((1 << 52) - 1, "int64")) | tirx.const(1022 << 52, "int64")
            scaled = tirx.reinterpret("float64", fraction) * tirx.const(2.0**31, "float64")
            exponent = ((bits >> tirx.const(52, "int64")) & tirx.const(2047, "int64")) - 1022
            size = (scaled + tirx.const(0.5, "float64")).astype("int64")
            return tirx.Select(bits < tirx.const(0, "int64"), -size, size), exponent

        # A multiplier that is rounded up to 2**31 does not matter: it is 2**30 times one power of 2 more.
        self.multiplier = te.compute(real.shape, lambda *index: parts(*index)[0], "multiplier")
        self.exponent = te.compute(real.shape, lambda *index: parts(*index)[1], "exponent")

    def times(
        self, value: PrimExpr, index: Sequence[Index], axis: int, *, rounding: str = "UPWARD"
    ) -> PrimExpr:
        """Multiply an int64 that int32 can hold by the factor of its channel.

        Halves are rounded up, or away from zero with the rounding ``TONEAREST``.
        """
        zero, one = tirx.const(0, "int64"), tirx.const(1, "int64")
        exponent = channel_parameter(self.exponent, index, axis)
        # LLVM leaves a shift by as many bits as the number has undefined, so the shifts are
        # limited.
        lhs = tirx.min(tirx.max(exponent, zero), tirx.const(62, "int64"))
        rhs = tirx.const(31, "int64") - tirx.min(exponent, zero)
        total = tirx.min(rhs, tirx.const(62, "int64"))
        product = (value << lhs) * channel_parameter(self.multiplier, index, axis)
        half = one << (total - one)
        if rounding == "TONEAREST":
            # A shift to the right rounds down: without the one that is missing here, -0.5 would
            # become 0.
            half = half - tirx.Select(product < zero, one, zero)
        # A product has at most 62 bits, so that what is shifted further is rounded to 0.
        return tirx.Select(rhs == total, (product + half) >> total, zero)


def scale_ratios(scale: Tensor, output_scale: Tensor) -> Tensor:
    """Return the real factors from one scale to another."""
    return te.compute(
        scale.shape,
        lambda *index: scale(*index).astype("float64") / output_scale().astype("float64"),
        "ratio",
    )


def scalar_tensor(value: PrimExpr) -> Tensor:
    """Return a number as a tensor of rank 0."""
    return te.compute((), lambda: value)


def requantize_to_int64(
    data: Tensor, parameters: Sequence[Tensor], axis: int, *, rounding: str = "UPWARD"
) -> Tensor:
    """Return an int64 tensor that is still to be saturated; ``parameters``: both scales and zero points."""
    scale, zero_point, output_scale, output_zero_point = parameters
    factors = Factors(scale_ratios(scale, output_scale))

    def element(*index: Index) -> PrimExpr:
        moved = factors.times(center_element(data, zero_point, index, axis), index, axis, rounding=rounding)
        return moved + output_zero_point().astype("int64")

    return te.compute(data.shape, element, "requantized")


def requantize_in_floats(
    data: Tensor, parameters: Sequence[Tensor], axis: int, rounding: str, dtype: str, out_dtype: str
) -> Tensor:
    """Requantize in floats of ``dtype``; the result is limited to the range before it becomes an integer."""
    scale, zero_point, output_scale, output_zero_point = parameters
    ratio = scale_ratios(scale, output_scale)

    def product(*index: Index) -> PrimExpr:
        distance = data(*index).astype(dtype) - channel_parameter(zero_point, index, axis).astype(dtype)
        return distance * channel_parameter(ratio, index, axis).astype(dtype)

    # Stored, so that LLVM cannot make one operation of it and the addition, which rounds otherwise.
    products = te.compute(data.shape, product, "product")
    half = tirx.const(0.5, dtype)

    def element(*index: Index) -> PrimExpr:
        moved = products(*index) + output_zero_point().astype(dtype)
        if rounding == "UPWARD":
            rounded = tirx.floor(moved + half)
        else:
            rounded = tirx.trunc(moved + tirx.Select(moved < tirx.const(0, dtype), -half, half))
        low, high = map(float, dtype_limits(out_dtype))
        return scalar_functions.clip(rounded.astype("float64"), low, high).astype(out_dtype)

    return te.compute(data.shape, element)
