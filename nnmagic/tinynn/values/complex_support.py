"""Decide what takes complex numbers, and say of everything else why it does not."""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.relay.complex_numbers.elementwise import converts_to_real
from nnmagic.relay.complex_numbers.lowering import RULES
from nnmagic.relay.complex_numbers.site import holds_complex as type_holds_complex
from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.declaration import RelationError
from nnmagic.relay.types import TensorType, Type
from nnmagic.tinynn.values.values import Computed, Known, TupleOf, Value

#: Operators and functions that compare numbers by size.
ORDERING = frozenset(
    {
        *("less", "less_equal", "greater", "greater_equal", "maximum", "minimum", "max", "min", "amax"),
        *("amin", "argmax", "argmin", "sort", "argsort", "topk", "searchsorted", "clip", "fmax", "fmin"),
        *("median", "quantile", "percentile", "ptp", "unique", "floor", "ceil", "trunc", "rint", "fix"),
        *("floor_divide", "floor_mod", "mod", "remainder", "fmod", "divmod", "signbit"),
        *("heaviside", "nanmax", "nanmin", "histogram", "digitize", "relu", "threshold", "copysign"),
    }
)


def refusal(what: str, name: str) -> tuple[str, str]:
    """Return the message and the hint for something that takes no complex numbers; ``{0}`` is the operand."""
    if name in ORDERING:
        return f"{what}: complex numbers have no order", "compare sizes, as in abs({0}), or parts, {0}.real"
    return f"{what} is not defined for complex numbers", "apply it to the parts, {0}.real and {0}.imag"


def check_complex(what: str, name: str, types: Sequence[Type]) -> bool:
    """Check an operator of complex tensors, and return whether it is one.

    Raises RelationError where it does not take them.
    """
    index = next((index for index, type_ in enumerate(types) if type_holds_complex(type_)), None)
    if index is None:
        return False
    if name not in RULES:
        message, hint = refusal(what, name)
        raise RelationError(message, index, hint=hint)
    return True


def gives_complex(name: str) -> bool:
    """Return whether an operator may have a complex result."""
    return name in RULES


def check_conversion(types: Sequence[Type], attrs: Attrs) -> None:
    """Check that a cast drops no imaginary parts. Raises RelationError."""
    data, like = types[0], types[-1]
    assert isinstance(data, TensorType)
    assert isinstance(like, TensorType)
    wanted = attrs.get("dtype", like.dtype)
    if converts_to_real(data.dtype, str(wanted)):
        message = "the imaginary part would be lost: a complex number does not become a real one"
        raise RelationError(message, 0, hint="take the part that you want, as in z.real")


def holds_complex(value: Value) -> bool:
    """Return whether a value is a complex number or tensor, or a tuple that holds one."""
    match value:
        case Known(value=complex()):
            return True
        case Computed(type=type_):
            return type_holds_complex(type_)
        case TupleOf(items=items):
            return any(map(holds_complex, items))
    return False
