"""Element-wise operators of two tensors: arithmetic, comparison, logic, bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, te, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812  # the name that TVM gives it everywhere

from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.extern_loops import filled_by, grid
from nnmagic.engine.relax.legalize.registry import OPAQUE, RULES, OpCall, Rule, Value, attr_dtype, shape_of
from nnmagic.engine.relax.runtime.tensors import as_array
from nnmagic.relay.types import is_float


def broadcasting(function: Callable[..., Any], named: Callable[..., Any] | None = None) -> Rule:
    """An element function of any number of tensors, broadcast as in NumPy.

    ``named`` is the Relax operator that means the same; it is used where the shapes are known to fit.
    """

    def rule(site: OpCall) -> Value:
        known = _require_broadcast(site, [shape_of(arg) for arg in site.args])
        if named is not None and known and not any(map(_is_float_zero, site.args)):
            return named(*site.args)
        return site.te(lambda *tensors: broadcast(function, *tensors), *map(_immediate, site.args))

    return rule


def broadcast(function: Callable[..., Any], *operands: Any) -> Any:
    """The tensor of ``function`` of the operands' elements; an operand may be a TIR scalar."""
    shape: Sequence[Any] = ()
    for operand in operands:
        shape = broadcast_shape(shape, operand.shape if isinstance(operand, te.Tensor) else ())
    return te.compute(
        shape, lambda *index: function(*(element_at(operand, index, shape) for operand in operands))
    )


def broadcast_shape(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """NumPy's rule; of two dimensions that only the call knows, the one that is not 1."""
    rank = max(len(left), len(right))
    pairs = zip([1] * (rank - len(left)) + list(left), [1] * (rank - len(right)) + list(right), strict=True)
    return [_common(a, b) for a, b in pairs]


def _common(left: Any, right: Any) -> Any:
    a, b = _number(left), _number(right)
    if a == 1 or (b is not None and b != 1):
        return right
    if b == 1 or a is not None or _same(left, right):
        return left
    return tirx.Select(left == 1, right, left)


def _number(dim: Any) -> int | None:
    value = getattr(dim, "value", dim)
    return value if isinstance(value, int) else None


def _same(left: Any, right: Any) -> bool:
    a, b = _number(left), _number(right)
    return a == b if a is not None or b is not None else bool(tvm_ffi.structural_equal(left, right))


def element_at(operand: Any, index: Sequence[Any], shape: Sequence[Any]) -> Any:
    """The element that is seen at ``index`` of the common shape."""
    if not isinstance(operand, te.Tensor):
        return operand
    skipped = len(shape) - len(operand.shape)
    places = zip(operand.shape, shape[skipped:], index[skipped:], strict=True)
    return operand(*(place_in(own, common, at) for own, common, at in places))


def place_in(own: Any, common: Any, at: Any) -> Any:
    """The place in a dimension that is seen at ``at`` of the common one."""
    if _number(own) == 1:
        return tirx.const(0, "int64")
    return at if _same(own, common) else tirx.Select(own == 1, tirx.const(0, "int64"), at)


def _require_broadcast(site: OpCall, shapes: Sequence[Sequence[Any]]) -> bool:
    """Checks when the program runs what cannot be known now; whether everything is known."""
    known = True
    result: Sequence[Any] = ()
    for shape in shapes:
        for left, right in zip(reversed(result), reversed(shape), strict=False):
            a, b = _number(left), _number(right)
            if not (_same(left, right) or 1 in (a, b)):
                known = False
                site.require(
                    tirx.any(left == right, left == 1, right == 1), "the shapes do not broadcast together"
                )
        result = broadcast_shape(result, shape)
    return known


def dividing(function: Callable[[Any, Any], Any]) -> Rule:
    """A division. TVM refuses one by a literal 0, which therefore stays a tensor."""

    def operand(value: Value) -> Value:
        found = _immediate(value)
        return value if getattr(found, "value", None) == 0 else found

    def rule(site: OpCall) -> Value:
        _require_broadcast(site, [shape_of(arg) for arg in site.args])
        return site.te(lambda *tensors: broadcast(function, *tensors), *map(operand, site.args))

    return rule


def _is_float_zero(value: Value) -> bool:
    """Whether it is a literal 0.0: TVM takes ``x * 0.0`` for 0, which of infinities and NaN it is not."""
    if isinstance(value, relax.Var) or shape_of(value) or not is_float(attr_dtype(value)):
        return False
    return float(as_array(value.value)) == 0


def _immediate(value: Value) -> Value:
    """A constant of rank 0 as a number in the kernel's code."""
    if isinstance(value, relax.Var) or shape_of(value) or attr_dtype(value) in {"uint64", "int64"}:
        return value
    if _is_float_zero(value):
        return value
    return tirx.const(as_array(value.value).item(), attr_dtype(value))


def floating(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The function computed in float32 where the operands are narrower."""

    def computed(left: Any, right: Any) -> Any:
        dtype = scalar_functions.dtype_of(left)
        if dtype not in {"float16", "bfloat16"}:
            return function(left, right)
        return function(left.astype("float32"), right.astype("float32")).astype(dtype)

    return computed


def _arithmetic(
    function: Callable[[Any, Any], Any],
    named: Callable[[Any, Any], Any],
    of_bools: Callable[[Any, Any], Any],
) -> Rule:
    """Relay computes with bools as with numbers of one bit."""
    floats, integers = broadcasting(function, named), broadcasting(scalar_functions.wrapping(function))
    bools = broadcasting(of_bools)

    def rule(site: OpCall) -> Value:
        dtype = attr_dtype(site.args[0])
        return (floats if is_float(dtype) else bools if dtype == "bool" else integers)(site)

    return rule


def _comparison(function: Callable[[Any, Any], Any], named: Callable[[Any, Any], Any]) -> Rule:
    bools, numbers = broadcasting(function), broadcasting(function, named)
    return lambda site: (bools if attr_dtype(site.args[0]) == "bool" else numbers)(site)


def _integer_power(site: OpCall, known: object) -> Value:
    """By squaring, wrapped as NumPy does; as there, no integer has a power of a negative number."""
    base, exponent = site.args
    dtype = attr_dtype(base)
    if dtype == "bool":
        site.refuse("of bool is not a number")
    if isinstance(known, int) and 0 < known <= _MOST_FACTORS:
        return site.te(
            lambda x: broadcast(
                scalar_functions.wrapping(lambda a: scalar_functions.product([a] * known)), x
            ),
            base,
        )
    if dtype.startswith("int"):
        site.require_all(exponent, lambda value: value >= scalar_functions.constant(0, value), _NEGATIVE)
    return site.te(_powers, base, exponent, primfunc_attrs={"op_pattern": OPAQUE})


def _powers(base: Any, exponent: Any) -> Any:
    """Integers to powers that are not negative, by squaring; they wrap."""
    dtype = scalar_functions.dtype_of(base)
    wide = scalar_functions.WRAPPING.get(dtype, dtype)
    bits = tvm.DataType(dtype).bits - dtype.startswith("int")

    def loops(factors: Any, powers: Any, result: Any) -> None:
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
    found = filled_by(loops, (pair[0].shape, wide), *pair)
    return te.compute(found.shape, lambda *at: found(*at).astype(dtype))


#: A known exponent up to this is written as a product.
_MOST_FACTORS = 8

_NEGATIVE = "an integer has no power of a negative number; cast it to a floating-point number first"


def _power(site: OpCall) -> Value:
    """TVM folds numbers in the code with overflow and warns of exponents from 3: those stay tensors."""
    base, exponent = site.args
    _require_broadcast(site, [shape_of(base), shape_of(exponent)])
    dtype, known = attr_dtype(base), _immediate(exponent)
    value = getattr(known, "value", None)
    if known is exponent and not isinstance(exponent, relax.Var) and not shape_of(exponent):
        value = as_array(exponent.value).item()
    if not is_float(dtype):
        return _integer_power(site, value)
    if value in (3, 4):
        times = int(value)
        return site.te(
            lambda x: broadcast(floating(lambda a, _: scalar_functions.product([a] * times)), x, known), base
        )
    operand = exponent if isinstance(value, float) and value >= 3 else known
    return site.te(lambda *pair: broadcast(floating(tirx.power), *pair), base, operand)


def _where(condition: Any, x: Any, y: Any) -> Any:
    return tirx.Select(scalar_functions.is_true(condition), x, y)


RULES.update(
    {
        "add": _arithmetic(lambda a, b: a + b, relax.op.add, scalar_functions.not_equal),
        "subtract": _arithmetic(lambda a, b: a - b, relax.op.subtract, scalar_functions.not_equal),
        "multiply": _arithmetic(lambda a, b: a * b, relax.op.multiply, tirx.all),
        "divide": dividing(scalar_functions.divide),
        "floor_divide": dividing(floating(scalar_functions.floored_quotient)),
        "floor_mod": dividing(floating(scalar_functions.floored_rest)),
        "trunc_divide": dividing(floating(scalar_functions.truncated_quotient)),
        "trunc_mod": dividing(floating(scalar_functions.truncated_rest)),
        "mod": dividing(floating(scalar_functions.truncated_rest)),
        "power": _power,
        "maximum": broadcasting(scalar_functions.maximum),
        "minimum": broadcasting(scalar_functions.minimum),
        "equal": broadcasting(scalar_functions.equal),
        "not_equal": broadcasting(scalar_functions.not_equal),
        "less": _comparison(scalar_functions.less, relax.op.less),
        "less_equal": _comparison(scalar_functions.less_equal, relax.op.less_equal),
        "greater": _comparison(lambda a, b: scalar_functions.less(b, a), relax.op.greater),
        "greater_equal": _comparison(lambda a, b: scalar_functions.less_equal(b, a), relax.op.greater_equal),
        "logical_and": broadcasting(tirx.all, relax.op.logical_and),
        "logical_or": broadcasting(scalar_functions.either),
        "logical_xor": broadcasting(scalar_functions.not_equal, relax.op.logical_xor),
        "bitwise_and": broadcasting(tirx.bitwise_and, relax.op.bitwise_and),
        "bitwise_or": broadcasting(tirx.bitwise_or, relax.op.bitwise_or),
        "bitwise_xor": broadcasting(tirx.bitwise_xor, relax.op.bitwise_xor),
        "left_shift": broadcasting(scalar_functions.shift_left),
        "right_shift": broadcasting(scalar_functions.shift_right),
        "where": broadcasting(_where),
    }
)
