"""Declare element-wise operators of two tensors: arithmetic, comparison, logic, bits."""

from nnmagic.relay.ops.declaration import Elements, Family, Trait
from nnmagic.relay.ops.relations import broadcast, broadcast_compare

declare = Family("binary").declare

_ANYWHERE = Trait.SPECULATABLE | Trait.CHECKS_SIZES
_COMMUTATIVE = _ANYWHERE | Trait.COMMUTATIVE
#: Real Relay's machine code ends the process where an integer is divided by 0.
_ON_FLOATS = Trait.SPECULATABLE_FLOATS | Trait.CHECKS_SIZES

_ANY: Elements = "any"
_FLOATS: Elements = "floats"
_NUMBERS: Elements = "numbers"
_INTEGERS: Elements = "integers"
_BITS: Elements = "integers or bools"
_BOOLS: Elements = "bools"

# Name, NumPy twin, summary, traits, elements. Relay checks that dtypes agree, not which they are.
_SAME_DTYPE = (
    ("add", "add", "Sum, element by element.", _COMMUTATIVE, _NUMBERS),
    ("subtract", "subtract", "Difference, element by element.", _ANYWHERE, _NUMBERS),
    ("multiply", "multiply", "Product, element by element.", _COMMUTATIVE, _NUMBERS),
    ("divide", "divide", "Quotient; of integers it is truncated towards zero.", _ON_FLOATS, _ANY),
    ("floor_divide", "floor_divide", "Quotient rounded down.", _ON_FLOATS, _NUMBERS),
    ("trunc_divide", None, "Quotient truncated towards zero.", _ON_FLOATS, _NUMBERS),
    ("mod", "fmod", "Remainder with the sign of the dividend.", _ON_FLOATS, _ANY),
    ("floor_mod", "mod", "Remainder with the sign of the divisor.", _ON_FLOATS, _NUMBERS),
    ("trunc_mod", "fmod", "Remainder with the sign of the dividend.", _ON_FLOATS, _NUMBERS),
    ("power", "power", "First operand to the power of the second.", _ON_FLOATS, _NUMBERS),
    ("maximum", "maximum", "The larger of two, element by element.", _COMMUTATIVE, _ANY),
    ("minimum", "minimum", "The smaller of two, element by element.", _COMMUTATIVE, _ANY),
    ("logical_and", "logical_and", "Whether both are true, element by element.", _COMMUTATIVE, _BOOLS),
    ("logical_or", "logical_or", "Whether at least one is true, element by element.", _COMMUTATIVE, _BOOLS),
    ("logical_xor", "logical_xor", "Whether exactly one is true, element by element.", _COMMUTATIVE, _BOOLS),
    ("bitwise_and", "bitwise_and", "Bits that are set in both integers.", _COMMUTATIVE, _BITS),
    ("bitwise_or", "bitwise_or", "Bits that are set in at least one of two integers.", _COMMUTATIVE, _BITS),
    ("bitwise_xor", "bitwise_xor", "Bits that are set in exactly one of two integers.", _COMMUTATIVE, _BITS),
    ("left_shift", "left_shift", "Bits shifted to the left by the second operand.", _ANYWHERE, _INTEGERS),
    ("right_shift", "right_shift", "Bits shifted to the right by the second operand.", _ANYWHERE, _INTEGERS),
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
for _name, _twin, _summary, _traits, _elements in (
    *_SAME_DTYPE,
    *((f"numpy.{name}", name, summary, _ANYWHERE, _FLOATS) for name, summary in _BEYOND_RELAY),
):
    declare(
        f"{_name}(lhs, rhs)",
        broadcast,
        _summary,
        numpy=_twin and f"numpy.{_twin}",
        traits=_traits,
        elements=_elements,
    )
for _name, _summary, _traits in _COMPARISONS:
    _numpy = f"numpy.{_name}"
    declare(f"{_name}(lhs, rhs)", broadcast_compare, _summary, numpy=_numpy, traits=_traits)
