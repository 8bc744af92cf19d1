"""Declare element-wise operators of two tensors: arithmetic, comparison, logic, bits."""

from nnmagic.relay.ops.declaration import declare
from nnmagic.relay.ops.relations import broadcast, broadcast_compare

# Name, NumPy twin, summary. Relay checks that the dtypes agree, not that they suit the operator.
_SAME_DTYPE = (
    ("add", "add", "Sum, element by element."),
    ("subtract", "subtract", "Difference, element by element."),
    ("multiply", "multiply", "Product, element by element."),
    ("divide", "divide", "Quotient; of integers it is truncated towards zero."),
    ("floor_divide", "floor_divide", "Quotient rounded down."),
    ("trunc_divide", None, "Quotient truncated towards zero."),
    ("mod", "fmod", "Remainder with the sign of the dividend."),
    ("floor_mod", "mod", "Remainder with the sign of the divisor."),
    ("trunc_mod", "fmod", "Remainder with the sign of the dividend."),
    ("power", "power", "First operand to the power of the second."),
    ("maximum", "maximum", "The larger of two, element by element."),
    ("minimum", "minimum", "The smaller of two, element by element."),
    ("logical_and", "logical_and", "Whether both are true, element by element."),
    ("logical_or", "logical_or", "Whether at least one is true, element by element."),
    ("logical_xor", "logical_xor", "Whether exactly one is true, element by element."),
    ("bitwise_and", "bitwise_and", "Bits that are set in both integers."),
    ("bitwise_or", "bitwise_or", "Bits that are set in at least one of two integers."),
    ("bitwise_xor", "bitwise_xor", "Bits that are set in exactly one of two integers."),
    ("left_shift", "left_shift", "Bits shifted to the left by the second operand."),
    ("right_shift", "right_shift", "Bits shifted to the right by the second operand."),
)
_COMPARISONS = (
    ("equal", "Whether two elements are equal."),
    ("not_equal", "Whether two elements differ."),
    ("less", "Whether the first element is less than the second."),
    ("less_equal", "Whether the first element is at most the second."),
    ("greater", "Whether the first element is greater than the second."),
    ("greater_equal", "Whether the first element is at least the second."),
)
for _name, _twin, _summary in _SAME_DTYPE:
    declare(_name, "lhs rhs", broadcast, _summary, numpy=_twin and f"numpy.{_twin}", family="binary")
for _name, _summary in _COMPARISONS:
    declare(_name, "lhs rhs", broadcast_compare, _summary, numpy=f"numpy.{_name}", family="binary")
