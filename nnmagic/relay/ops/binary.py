"""Declare element-wise operators of two tensors: arithmetic, comparison, logic, bits."""

from nnmagic.relay.ops.declaration import Trait, declare
from nnmagic.relay.ops.relations import broadcast, broadcast_compare

_ANYWHERE = Trait.SPECULATABLE
_COMMUTATIVE = Trait.SPECULATABLE | Trait.COMMUTATIVE
#: Real Relay's machine code ends the process where an integer is divided by 0.
_ON_FLOATS = Trait.SPECULATABLE_FLOATS

# Name, NumPy twin, summary, traits. Relay checks that the dtypes agree, not that they suit the operator.
_SAME_DTYPE = (
    ("add", "add", "Sum, element by element.", _COMMUTATIVE),
    ("subtract", "subtract", "Difference, element by element.", _ANYWHERE),
    ("multiply", "multiply", "Product, element by element.", _COMMUTATIVE),
    ("divide", "divide", "Quotient; of integers it is truncated towards zero.", _ON_FLOATS),
    ("floor_divide", "floor_divide", "Quotient rounded down.", _ON_FLOATS),
    ("trunc_divide", None, "Quotient truncated towards zero.", _ON_FLOATS),
    ("mod", "fmod", "Remainder with the sign of the dividend.", _ON_FLOATS),
    ("floor_mod", "mod", "Remainder with the sign of the divisor.", _ON_FLOATS),
    ("trunc_mod", "fmod", "Remainder with the sign of the dividend.", _ON_FLOATS),
    ("power", "power", "First operand to the power of the second.", _ON_FLOATS),
    ("maximum", "maximum", "The larger of two, element by element.", _COMMUTATIVE),
    ("minimum", "minimum", "The smaller of two, element by element.", _COMMUTATIVE),
    ("logical_and", "logical_and", "Whether both are true, element by element.", _COMMUTATIVE),
    ("logical_or", "logical_or", "Whether at least one is true, element by element.", _COMMUTATIVE),
    ("logical_xor", "logical_xor", "Whether exactly one is true, element by element.", _COMMUTATIVE),
    ("bitwise_and", "bitwise_and", "Bits that are set in both integers.", _COMMUTATIVE),
    ("bitwise_or", "bitwise_or", "Bits that are set in at least one of two integers.", _COMMUTATIVE),
    ("bitwise_xor", "bitwise_xor", "Bits that are set in exactly one of two integers.", _COMMUTATIVE),
    ("left_shift", "left_shift", "Bits shifted to the left by the second operand.", _ANYWHERE),
    ("right_shift", "right_shift", "Bits shifted to the right by the second operand.", _ANYWHERE),
)
# Those of floats that real Relay lacks; `passes/expand_operators` says what they stand for in it.
_BEYOND_RELAY = (
    ("arctan2", "Angle of the point (second operand, first operand), in radians."),
    ("copysign", "First operand with the sign of the second."),
    ("hypot", "Square root of the sum of squares, without overflow."),
    ("logaddexp", "Logarithm of the sum of exponentials, without overflow."),
)
_COMPARISONS = (
    ("equal", "Whether two elements are equal.", _COMMUTATIVE),
    ("not_equal", "Whether two elements differ.", _COMMUTATIVE),
    ("less", "Whether the first element is less than the second.", _ANYWHERE),
    ("less_equal", "Whether the first element is at most the second.", _ANYWHERE),
    ("greater", "Whether the first element is greater than the second.", _ANYWHERE),
    ("greater_equal", "Whether the first element is at least the second.", _ANYWHERE),
)
for _name, _twin, _summary, _traits in _SAME_DTYPE:
    _numpy = _twin and f"numpy.{_twin}"
    declare(_name, "lhs rhs", broadcast, _summary, numpy=_numpy, traits=_traits, family="binary")
for _name, _summary in _BEYOND_RELAY:
    _full = f"numpy.{_name}"
    declare(_full, "lhs rhs", broadcast, _summary, numpy=_full, traits=_ANYWHERE, family="binary")
for _name, _summary, _traits in _COMPARISONS:
    _numpy = f"numpy.{_name}"
    declare(_name, "lhs rhs", broadcast_compare, _summary, numpy=_numpy, traits=_traits, family="binary")
