"""Define NumPy's gcd and lcm of integers.

NumPy's reference: https://numpy.org/doc/stable/reference/generated/numpy.gcd.html
"""

from __future__ import annotations

import math

from nnmagic.relay.signatures import dtype_short_name
from nnmagic.tinynn.builtins.argument_checks import pair, python_number
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import broadcast_together
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, free_function
from nnmagic.tinynn.values.values import Known, LoopCall, Operand, RefusalError, Value


def _divisor(name: str) -> Builtin:
    """Declare a function of the absolute values of two integers, which unsigned integers hold."""

    def apply_to(call: Arguments) -> Value:
        numbers = [python_number(call.given[parameter].value) for parameter in ("x1", "x2")]
        if all(isinstance(number, int) and not isinstance(number, bool) for number in numbers):
            return Known(getattr(math, name)(*numbers))
        lhs, rhs = pair(call, "x1", "x2")
        if not lhs.is_integer:
            message = f"{name} is defined for integers, not {dtype_short_name(lhs.dtype)}"
            raise RefusalError(message, call.span)
        sides = broadcast_together(call, [_magnitude(lhs), _magnitude(rhs)])
        operands = (Operand(side.value, call.span) for side in sides)
        return LoopCall(name, tuple(operands), dtypes=(lhs.dtype,))

    what = "greatest common divisor" if name == "gcd" else "least common multiple"
    return free_function(name, "x1 x2", apply_to, f"Return the {what} of integers.")


def _magnitude(data: Formula) -> Formula:
    """Return the absolute value in the unsigned dtype of the same width."""
    return data if data.dtype.startswith("u") else data.abs().cast(f"u{data.dtype}")


NUMBER_THEORY = (_divisor("gcd"), _divisor("lcm"))
