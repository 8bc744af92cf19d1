"""Legalize element-wise operators of two tensors: arithmetic, comparison, logic, bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tvm import relax, te, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812 - TVM's own name for its builder

from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.extern_loops import fill_by_loops
from nnmagic.engine.relax.legalize.registry import (
    INJECTIVE,
    OPAQUE,
    RULES,
    OpCall,
    Rule,
    Value,
    is_normal,
    shape_of,
    tensor_dtype,
)
from nnmagic.engine.relax.legalize.sizes import broadcast_size, same_size
from nnmagic.engine.relax.legalize.types import ElementFunction, Tensor
from nnmagic.engine.relax.runtime.tensors import as_array
from nnmagic.engine.relax.tir import builders, vector_math
from nnmagic.engine.relax.tir.builders import static_int
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, RelaxExpr
from nnmagic.relay.types import is_float


def broadcast_rule(function: ElementFunction, relax_op: Callable[..., RelaxExpr] | None = None) -> Rule:
    """Lower to an element function of any number of tensors, broadcast as in NumPy.

    ``relax_op`` is the Relax operator of the same meaning; it is used where the shapes are known to fit.
    """

    def rule(call: OpCall) -> Value:
        shape, fits = _require_broadcast(call, [shape_of(arg) for arg in call.args])
        fits = fits and all(map(is_normal, call.args))
        if relax_op is not None and fits and not any(map(_is_float_zero, call.args)):
            return relax_op(*call.args)
        return _broadcast_to(call, function, map(_as_immediate, call.args), shape)

    return rule


def _broadcast_to(
    call: OpCall, function: ElementFunction, operands: Iterable[Value], shape: Sequence[Extent]
) -> Value:
    """Apply ``function`` to the elements of operands that broadcast to a shape."""
    if all(isinstance(dim, int) for dim in shape):
        return call.te(lambda *tensors: broadcast(function, *tensors), *operands)

    def compute(dims: Sequence[Extent], *tensors: Tensor | PrimExpr) -> Tensor:
        return _apply(function, tensors, dims)

    attrs = {} if _are_read_alike(call, shape) else {"op_pattern": INJECTIVE}
    return call.te(compute, relax.ShapeExpr(shape), *operands, primfunc_attrs=attrs)


def _are_read_alike(call: OpCall, shape: Sequence[Extent]) -> bool:
    """Return whether it is known which axes repeat an operand: TVM sees no pattern in ``Select``."""
    pairs = (
        pair for arg in call.args for pair in zip(reversed(shape_of(arg)), reversed(shape), strict=False)
    )
    return all(static_int(own) == 1 or same_size(own, common) for own, common in pairs)


def broadcast(function: ElementFunction, *operands: Tensor | PrimExpr) -> Tensor:
    """Apply ``function`` to the elements of the broadcast operands, which are tensors or TIR scalars."""
    shape: Sequence[Extent] = ()
    for operand in operands:
        shape = broadcast_shape(shape, operand.shape if isinstance(operand, te.Tensor) else ())
    return _apply(function, operands, shape)


def _apply(
    function: ElementFunction, operands: Sequence[Tensor | PrimExpr], shape: Sequence[Extent]
) -> Tensor:
    return te.compute(
        shape, lambda *index: function(*(element_at(operand, index, shape) for operand in operands))
    )


def broadcast_shape(lhs: Sequence[Extent], rhs: Sequence[Extent]) -> list[Extent]:
    """Return the shape that broadcasting gives; of two dynamic dimensions, the one that is not 1."""
    rank = max(len(lhs), len(rhs))
    pairs = zip([1] * (rank - len(lhs)) + list(lhs), [1] * (rank - len(rhs)) + list(rhs), strict=True)
    return [broadcast_size(a, b) for a, b in pairs]


def element_at(operand: Tensor | PrimExpr, index: Sequence[Index], shape: Sequence[Extent]) -> PrimExpr:
    """Return the element of an operand at ``index`` of the common shape."""
    if not isinstance(operand, te.Tensor):
        return operand
    skipped = len(shape) - len(operand.shape)
    dims = zip(operand.shape, shape[skipped:], index[skipped:], strict=True)
    return operand(*(index_in(own, common, i) for own, common, i in dims))


def index_in(extent: Extent, common: Extent, at: Index) -> PrimExpr:
    """Return the index in an operand's dimension for an index in the common one."""
    if static_int(extent) == 1:
        return tirx.const(0, "int64")
    return at if same_size(extent, common) else tirx.Select(extent == 1, tirx.const(0, "int64"), at)


def _require_broadcast(call: OpCall, shapes: Sequence[Sequence[Extent]]) -> tuple[list[Extent], bool]:
    """Require that the shapes broadcast; return the result's, and whether they clearly do at compile time."""
    static = True
    result: list[Extent] = []
    for shape in shapes:
        for lhs, rhs in zip(reversed(result), reversed(shape), strict=False):
            if not (1 in (static_int(lhs), static_int(rhs)) or same_size(lhs, rhs)):
                static = False
                call.require(tirx.any(lhs == rhs, lhs == 1, rhs == 1), "the shapes do not broadcast together")
        result = [call.name_size(dim) for dim in broadcast_shape(result, shape)]
    return result, static


def division_rule(
    function: ElementFunction, by_constant: Callable[[PrimExpr, int], PrimExpr] | None = None
) -> Rule:
    """Lower to a division. TVM refuses one by a literal 0, which therefore stays a tensor.

    ``by_constant`` divides an int64 by a constant of at least 2.
    """

    def operand(value: Value) -> Value:
        immediate = _as_immediate(value)
        return value if getattr(immediate, "value", None) == 0 else immediate

    def rule(call: OpCall) -> Value:
        shape, _ = _require_broadcast(call, [shape_of(arg) for arg in call.args])
        lhs, rhs = call.args
        if by_constant is not None and (divisor := _int64_constant(rhs)) >= 2:

            def divide(value: PrimExpr) -> PrimExpr:
                if not shape:  # no vector
                    return function(value, tirx.const(divisor, "int64"))
                return by_constant(value, divisor)

            return _broadcast_to(call, divide, [lhs], shape)
        return _broadcast_to(call, function, map(operand, call.args), shape)

    return rule


def _int64_constant(value: Value) -> int:
    """Return a constant of rank 0 and dtype int64; 0 for another value."""
    if isinstance(value, relax.Var) or shape_of(value) or tensor_dtype(value) != "int64":
        return 0
    return int(as_array(value.value))


def _is_float_zero(value: Value) -> bool:
    """Return whether it is a literal 0.0: TVM takes ``x * 0.0`` for 0, but infinities and NaN give NaN."""
    if isinstance(value, relax.Var) or shape_of(value) or not is_float(tensor_dtype(value)):
        return False
    return float(as_array(value.value)) == 0


def _as_immediate(value: Value) -> Value:
    """Convert a constant of rank 0 to a number in the kernel's code."""
    if isinstance(value, relax.Var) or shape_of(value) or tensor_dtype(value) in {"uint64", "int64"}:
        return value
    if _is_float_zero(value):
        return value
    return tirx.const(as_array(value.value).item(), tensor_dtype(value))


def in_float32(function: ElementFunction) -> ElementFunction:
    """Compute the function in float32 where the operands are narrower."""

    def compute_wide(lhs: PrimExpr, rhs: PrimExpr) -> PrimExpr:
        dtype = scalar_functions.dtype_of(lhs)
        if dtype not in {"float16", "bfloat16"}:
            return function(lhs, rhs)
        return function(lhs.astype("float32"), rhs.astype("float32")).astype(dtype)

    return compute_wide


def _arithmetic_rule(
    function: ElementFunction, relax_op: Callable[..., RelaxExpr], of_bools: ElementFunction
) -> Rule:
    """Lower to arithmetic; Relay computes with bools as with numbers of one bit."""
    floats = broadcast_rule(function, relax_op)
    integers = broadcast_rule(scalar_functions.wrap_overflow(function))
    bools = broadcast_rule(of_bools)

    def rule(call: OpCall) -> Value:
        dtype = tensor_dtype(call.args[0])
        return (floats if is_float(dtype) else bools if dtype == "bool" else integers)(call)

    return rule


def _comparison_rule(function: ElementFunction, relax_op: Callable[..., RelaxExpr]) -> Rule:
    bools, numbers = broadcast_rule(function), broadcast_rule(function, relax_op)
    return lambda call: (bools if tensor_dtype(call.args[0]) == "bool" else numbers)(call)


def _integer_power(call: OpCall, exponent_value: object) -> Value:
    """Lower by squaring, with overflow that wraps; as in NumPy, an integer has no negative powers."""
    base, exponent = call.args
    dtype = tensor_dtype(base)
    if dtype == "bool":
        call.refuse("of bool is not a number")
    if isinstance(exponent_value, int) and 0 < exponent_value <= _MAX_FACTORS:
        power = scalar_functions.wrap_overflow(lambda a: scalar_functions.multiply_all([a] * exponent_value))
        return call.te(lambda x: broadcast(power, x), base)
    if dtype.startswith("int"):
        call.require_all(exponent, lambda value: value >= scalar_functions.constant(0, value), _NEGATIVE)
    return call.te(_raise_by_squaring, base, exponent, primfunc_attrs={"op_pattern": OPAQUE})


#: How many integers are raised together, in as many rounds as the largest of their exponents has bits.
_TOGETHER = 16


def _raise_by_squaring(base: Tensor, exponent: Tensor) -> Tensor:
    """Raise integers to non-negative powers by squaring; overflow wraps."""
    dtype = scalar_functions.dtype_of(base)
    wide = scalar_functions.WRAPPING.get(dtype, dtype)
    zero, one, unit = tirx.const(0, dtype), tirx.const(1, dtype), tirx.const(1, wide)

    def loops(*buffers: Buffer) -> None:
        size = builders.product(buffers[-1].shape)
        lanes = min(_TOGETHER, static_int(size) or _TOGETHER)

        def local(of: str, size: int) -> Buffer:
            return T.buffer_proxy(T.alloc_buffer((size,), of, scope="local"))

        factors, powers, result = (
            T.buffer_proxy(T.decl_buffer((size,), builders.dtype_of(buffer), data=buffer.data))
            for buffer in buffers
        )
        square, total, exponent_left = local(wide, lanes), local(wide, lanes), local(dtype, lanes)
        bits = local(dtype, 1)
        with T.serial(builders.round_up_div(size, lanes)) as number:
            first = number * lanes
            count = builders.minimum(lanes, size - first)
            with T.serial(lanes) as lane:
                square[lane], total[lane], exponent_left[lane] = unit, unit, zero
            bits[0] = zero
            with T.serial(count) as lane:
                square[lane], exponent_left[lane] = factors[first + lane], powers[first + lane]
                bits[0] = tirx.bitwise_or(bits[0], exponent_left[lane])
            with T.While(bits[0] > zero):
                with T.serial(lanes) as lane:
                    is_odd = tirx.bitwise_and(exponent_left[lane], one) == one
                    total[lane] = total[lane] * tirx.Select(is_odd, square[lane], unit)
                    square[lane] = square[lane] * square[lane]
                    exponent_left[lane] = tirx.shift_right(exponent_left[lane], one)
                bits[0] = tirx.shift_right(bits[0], one)
            with T.serial(count) as lane:
                result[first + lane] = total[lane]

    pair = [broadcast(lambda a, _: a.astype(wide), base, exponent), broadcast(lambda _, b: b, base, exponent)]
    power = fill_by_loops(loops, (pair[0].shape, wide), *pair)
    return te.compute(power.shape, lambda *index: power(*index).astype(dtype))


#: A constant exponent up to this becomes a product.
_MAX_FACTORS = 8

_NEGATIVE = "an integer to a negative power is not defined; convert it to a floating-point number first"


def _power(call: OpCall) -> Value:
    """Lower to a power."""
    base, exponent = call.args
    _require_broadcast(call, [shape_of(base), shape_of(exponent)])
    dtype, value = tensor_dtype(base), _constant_number(exponent)
    if not is_float(dtype):
        return _integer_power(call, value)
    if _constant_number(base) == 2:
        return call.te(lambda x: broadcast(vector_math.exp2, x), exponent)
    if value in _POWERS:
        power = in_float32(lambda x, _: _POWERS[value](x))
        return call.te(lambda x: broadcast(power, x, tirx.const(value, dtype)), base)
    # TVM folds numbers in the code with overflow, and warns of exponents from 3.
    operand = exponent if isinstance(value, float) and value >= 3 else _as_immediate(exponent)
    return call.te(lambda *pair: broadcast(vector_math.power, *pair), base, operand)


#: The powers of floats that have a formula of their own, by the exponent.
_POWERS: dict[object, ElementFunction] = {
    1: lambda x: x,
    -1: lambda x: scalar_functions.constant(1, x) / x,
    -0.5: scalar_functions.inverse_square_root,
    1.5: scalar_functions.three_halves_power,
    2: lambda x: x * x,
    3: lambda x: x * x * x,
    4: lambda x: x * x * x * x,
}


def _constant_number(value: Value) -> float | None:
    """Return the number that a constant of rank 0 holds; None for other values."""
    return None if isinstance(value, relax.Var) or shape_of(value) else as_array(value.value).item()


def _where(condition: PrimExpr, x: PrimExpr, y: PrimExpr) -> PrimExpr:
    return tirx.Select(scalar_functions.is_true(condition), x, y)


RULES.update(
    {
        "add": _arithmetic_rule(lambda a, b: a + b, relax.op.add, scalar_functions.not_equal),
        "subtract": _arithmetic_rule(lambda a, b: a - b, relax.op.subtract, scalar_functions.not_equal),
        "multiply": _arithmetic_rule(lambda a, b: a * b, relax.op.multiply, tirx.all),
        "divide": division_rule(scalar_functions.divide),
        "floor_divide": division_rule(
            in_float32(scalar_functions.floor_divide), scalar_functions.floor_divide_by
        ),
        "floor_mod": division_rule(in_float32(scalar_functions.floor_mod), scalar_functions.floor_mod_by),
        "trunc_divide": division_rule(in_float32(scalar_functions.trunc_divide)),
        "trunc_mod": division_rule(in_float32(scalar_functions.trunc_mod)),
        "mod": division_rule(in_float32(scalar_functions.trunc_mod)),
        "power": _power,
        "maximum": broadcast_rule(scalar_functions.maximum),
        "minimum": broadcast_rule(scalar_functions.minimum),
        "equal": broadcast_rule(scalar_functions.equal),
        "not_equal": broadcast_rule(scalar_functions.not_equal),
        "less": _comparison_rule(scalar_functions.less, relax.op.less),
        "less_equal": _comparison_rule(scalar_functions.less_equal, relax.op.less_equal),
        "greater": _comparison_rule(lambda a, b: scalar_functions.less(b, a), relax.op.greater),
        "greater_equal": _comparison_rule(
            lambda a, b: scalar_functions.less_equal(b, a), relax.op.greater_equal
        ),
        "logical_and": broadcast_rule(tirx.all, relax.op.logical_and),
        "logical_or": broadcast_rule(scalar_functions.logical_or),
        "logical_xor": broadcast_rule(scalar_functions.not_equal, relax.op.logical_xor),
        "bitwise_and": broadcast_rule(tirx.bitwise_and, relax.op.bitwise_and),
        "bitwise_or": broadcast_rule(tirx.bitwise_or, relax.op.bitwise_or),
        "bitwise_xor": broadcast_rule(tirx.bitwise_xor, relax.op.bitwise_xor),
        "left_shift": broadcast_rule(scalar_functions.shift_left),
        "right_shift": broadcast_rule(scalar_functions.shift_right),
        "where": broadcast_rule(_where),
    }
)
