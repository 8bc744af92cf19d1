"""Element-wise operators of two tensors: arithmetic, comparison, logic, bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm
import tvm_ffi
from tvm import relax, te, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812  # the name that TVM gives it everywhere

from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.extern_loops import fill_by_loops, grid
from nnmagic.engine.relax.legalize.registry import OPAQUE, RULES, OpCall, Rule, Value, shape_of, tensor_dtype
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.runtime.tensors import as_array
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr
from nnmagic.relay.types import is_float


def broadcast_rule(function: Callable[..., PrimExpr], named: Callable[..., PrimExpr] | None = None) -> Rule:
    """An element function of any number of tensors, broadcast as in NumPy.

    ``named`` is the Relax operator that means the same; it is used where the shapes are known to fit.
    """

    def rule(call: OpCall) -> Value:
        known = _require_broadcast(call, [shape_of(arg) for arg in call.args])
        if named is not None and known and not any(map(_is_float_zero, call.args)):
            return named(*call.args)
        return call.te(lambda *tensors: broadcast(function, *tensors), *map(_as_immediate, call.args))

    return rule


def broadcast(function: Callable[..., PrimExpr], *operands: Tensor) -> Tensor:
    """The tensor of ``function`` of the operands' elements; an operand may be a TIR scalar."""
    shape: Sequence[PrimExpr] = ()
    for operand in operands:
        shape = broadcast_shape(shape, operand.shape if isinstance(operand, te.Tensor) else ())
    return te.compute(
        shape, lambda *index: function(*(element_at(operand, index, shape) for operand in operands))
    )


def broadcast_shape(left: Sequence[Extent], right: Sequence[Extent]) -> list[Extent]:
    """NumPy's rule; of two dimensions that only the call knows, the one that is not 1."""
    rank = max(len(left), len(right))
    pairs = zip([1] * (rank - len(left)) + list(left), [1] * (rank - len(right)) + list(right), strict=True)
    return [_broadcast_dim(a, b) for a, b in pairs]


def _broadcast_dim(left: PrimExpr, right: PrimExpr) -> PrimExpr:
    a, b = _static_size(left), _static_size(right)
    if a == 1 or (b is not None and b != 1):
        return right
    if b == 1 or a is not None or _same_dim(left, right):
        return left
    return tirx.Select(left == 1, right, left)


def _static_size(dim: Extent) -> int | None:
    value = getattr(dim, "value", dim)
    return value if isinstance(value, int) else None


def _same_dim(left: PrimExpr, right: PrimExpr) -> bool:
    a, b = _static_size(left), _static_size(right)
    return a == b if a is not None or b is not None else bool(tvm_ffi.structural_equal(left, right))


def element_at(operand: Tensor, index: Sequence[Index], shape: Sequence[Extent]) -> PrimExpr:
    """The element that is seen at ``index`` of the common shape."""
    if not isinstance(operand, te.Tensor):
        return operand
    skipped = len(shape) - len(operand.shape)
    places = zip(operand.shape, shape[skipped:], index[skipped:], strict=True)
    return operand(*(index_in(own, common, at) for own, common, at in places))


def index_in(own: Extent, common: Extent, at: Index) -> PrimExpr:
    """The place in a dimension that is seen at ``at`` of the common one."""
    if _static_size(own) == 1:
        return tirx.const(0, "int64")
    return at if _same_dim(own, common) else tirx.Select(own == 1, tirx.const(0, "int64"), at)


def _require_broadcast(call: OpCall, shapes: Sequence[Sequence[Extent]]) -> bool:
    """Checks when the program runs what cannot be known now; whether everything is known."""
    known = True
    result: Sequence[PrimExpr] = ()
    for shape in shapes:
        for left, right in zip(reversed(result), reversed(shape), strict=False):
            a, b = _static_size(left), _static_size(right)
            if not (_same_dim(left, right) or 1 in (a, b)):
                known = False
                call.require(
                    tirx.any(left == right, left == 1, right == 1), "the shapes do not broadcast together"
                )
        result = broadcast_shape(result, shape)
    return known


def division_rule(function: Callable[[PrimExpr, PrimExpr], PrimExpr]) -> Rule:
    """A division. TVM refuses one by a literal 0, which therefore stays a tensor."""

    def operand(value: Value) -> Value:
        found = _as_immediate(value)
        return value if getattr(found, "value", None) == 0 else found

    def rule(call: OpCall) -> Value:
        _require_broadcast(call, [shape_of(arg) for arg in call.args])
        return call.te(lambda *tensors: broadcast(function, *tensors), *map(operand, call.args))

    return rule


def _is_float_zero(value: Value) -> bool:
    """Whether it is a literal 0.0: TVM takes ``x * 0.0`` for 0, which of infinities and NaN it is not."""
    if isinstance(value, relax.Var) or shape_of(value) or not is_float(tensor_dtype(value)):
        return False
    return float(as_array(value.value)) == 0


def _as_immediate(value: Value) -> Value:
    """A constant of rank 0 as a number in the kernel's code."""
    if isinstance(value, relax.Var) or shape_of(value) or tensor_dtype(value) in {"uint64", "int64"}:
        return value
    if _is_float_zero(value):
        return value
    return tirx.const(as_array(value.value).item(), tensor_dtype(value))


def in_float32(
    function: Callable[[PrimExpr, PrimExpr], PrimExpr],
) -> Callable[[PrimExpr, PrimExpr], PrimExpr]:
    """The function computed in float32 where the operands are narrower."""

    def computed(left: PrimExpr, right: PrimExpr) -> PrimExpr:
        dtype = scalar_functions.dtype_of(left)
        if dtype not in {"float16", "bfloat16"}:
            return function(left, right)
        return function(left.astype("float32"), right.astype("float32")).astype(dtype)

    return computed


def _arithmetic_rule(
    function: Callable[[PrimExpr, PrimExpr], PrimExpr],
    named: Callable[[PrimExpr, PrimExpr], PrimExpr],
    of_bools: Callable[[PrimExpr, PrimExpr], PrimExpr],
) -> Rule:
    """Relay computes with bools as with numbers of one bit."""
    floats, integers = (
        broadcast_rule(function, named),
        broadcast_rule(scalar_functions.wrap_overflow(function)),
    )
    bools = broadcast_rule(of_bools)

    def rule(call: OpCall) -> Value:
        dtype = tensor_dtype(call.args[0])
        return (floats if is_float(dtype) else bools if dtype == "bool" else integers)(call)

    return rule


def _comparison_rule(
    function: Callable[[PrimExpr, PrimExpr], PrimExpr], named: Callable[[PrimExpr, PrimExpr], PrimExpr]
) -> Rule:
    bools, numbers = broadcast_rule(function), broadcast_rule(function, named)
    return lambda call: (bools if tensor_dtype(call.args[0]) == "bool" else numbers)(call)


def _integer_power(call: OpCall, known: object) -> Value:
    """By squaring, wrapped as NumPy does; as there, no integer has a power of a negative number."""
    base, exponent = call.args
    dtype = tensor_dtype(base)
    if dtype == "bool":
        call.refuse("of bool is not a number")
    if isinstance(known, int) and 0 < known <= _MOST_FACTORS:
        return call.te(
            lambda x: broadcast(
                scalar_functions.wrap_overflow(lambda a: scalar_functions.multiply_all([a] * known)), x
            ),
            base,
        )
    if dtype.startswith("int"):
        call.require_all(exponent, lambda value: value >= scalar_functions.constant(0, value), _NEGATIVE)
    return call.te(_raise_by_squaring, base, exponent, primfunc_attrs={"op_pattern": OPAQUE})


def _raise_by_squaring(base: PrimExpr, exponent: PrimExpr) -> Tensor:
    """Integers to powers that are not negative, by squaring; they wrap."""
    dtype = scalar_functions.dtype_of(base)
    wide = scalar_functions.WRAPPING.get(dtype, dtype)
    bits = tvm.DataType(dtype).bits - dtype.startswith("int")

    def loops(factors: Tensor, powers: Buffer, result: Buffer) -> None:
        with grid(factors.shape) as at:
            where = tuple(at)
            T.buffer_store(result, tirx.const(1, wide), at)
            with T.serial(0, bits) as step:
                left = tirx.const(bits - 1, dtype) - step.astype(dtype)
                bit = tirx.bitwise_and(tirx.shift_right(powers[where], left), tirx.const(1, dtype))
                factor = tirx.Select(bit == tirx.const(1, dtype), factors[where], tirx.const(1, wide))
                T.buffer_store(result, result[where] * result[where] * factor, at)

    pair = [
        broadcast(lambda a, _: a.astype(wide), base, exponent),
        broadcast(lambda _, b: b, base, exponent),
    ]
    found = fill_by_loops(loops, (pair[0].shape, wide), *pair)
    return te.compute(found.shape, lambda *at: found(*at).astype(dtype))


#: A known exponent up to this is written as a product.
_MOST_FACTORS = 8

_NEGATIVE = "an integer has no power of a negative number; cast it to a floating-point number first"


def _power(call: OpCall) -> Value:
    """TVM folds numbers in the code with overflow and warns of exponents from 3: those stay tensors."""
    base, exponent = call.args
    _require_broadcast(call, [shape_of(base), shape_of(exponent)])
    dtype, known = tensor_dtype(base), _as_immediate(exponent)
    value = getattr(known, "value", None)
    if known is exponent and not isinstance(exponent, relax.Var) and not shape_of(exponent):
        value = as_array(exponent.value).item()
    if not is_float(dtype):
        return _integer_power(call, value)
    if value in (3, 4):
        times = int(value)
        return call.te(
            lambda x: broadcast(
                in_float32(lambda a, _: scalar_functions.multiply_all([a] * times)), x, known
            ),
            base,
        )
    operand = exponent if isinstance(value, float) and value >= 3 else known
    return call.te(lambda *pair: broadcast(in_float32(tirx.power), *pair), base, operand)


def _where(condition: Tensor, x: PrimExpr, y: PrimExpr) -> PrimExpr:
    return tirx.Select(scalar_functions.is_true(condition), x, y)


RULES.update(
    {
        "add": _arithmetic_rule(lambda a, b: a + b, relax.op.add, scalar_functions.not_equal),
        "subtract": _arithmetic_rule(lambda a, b: a - b, relax.op.subtract, scalar_functions.not_equal),
        "multiply": _arithmetic_rule(lambda a, b: a * b, relax.op.multiply, tirx.all),
        "divide": division_rule(scalar_functions.divide),
        "floor_divide": division_rule(in_float32(scalar_functions.floor_divide)),
        "floor_mod": division_rule(in_float32(scalar_functions.floor_mod)),
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
