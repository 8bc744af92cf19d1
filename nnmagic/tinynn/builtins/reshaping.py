"""Define NumPy's reshape, with named and dynamic dimensions.

Their reference: https://numpy.org/doc/stable/reference/generated/numpy.reshape.html
"""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.diagnostics import Span
from nnmagic.relay.ops.dims import as_polynomial, floor_divide, product
from nnmagic.relay.polynomials import NoPolynomialError
from nnmagic.relay.signatures import format_shape
from nnmagic.relay.types import ANY, AnyDim, Dim
from nnmagic.tinynn.builtins.argument_checks import formula
from nnmagic.tinynn.calls.argument_binding import Arguments
from nnmagic.tinynn.values.reshaping import reshape_codes, reshape_to, reshape_to_sizes
from nnmagic.tinynn.values.symbolic_sizes import dynamic_sizes
from nnmagic.tinynn.values.values import Known, RefusalError, Value, static_or


def reshape(call: Arguments) -> Value:
    """Reshape as NumPy does: to numbers, one -1, dimensions, and sizes that are known only at run time."""
    data = formula(call, "a")
    operand = call.given["newshape"]
    sizes = dynamic_sizes(operand)
    if sizes is None:
        shape = call.static("newshape")
        sizes = [Known(dim) for dim in (shape if isinstance(shape, tuple) else (shape,))]
    wanted = [_check_size(size, operand.span) for size in sizes]
    if wanted.count(-1) > 1:
        raise RefusalError("reshape: only one dimension can be -1", operand.span)
    full = _complete_shape(data.shape, wanted, operand.span)
    if ANY not in wanted and reshape_codes(data.shape, full) is not None:  # else an integer must be checked
        return reshape_to(data.value, full, call.span)
    return reshape_to_sizes(data.value, sizes, full, call.span)


def _check_size(size: Value, span: Span) -> Dim:
    """Return one dimension of a new shape; raise RefusalError if it is no size."""
    dim = static_or(size, None)
    if isinstance(dim, bool) or not isinstance(dim, int | AnyDim) or (isinstance(dim, int) and dim < -1):
        raise RefusalError(f"reshape: a shape holds ints and -1, not {dim!r}", span)
    return dim


def _complete_shape(given: Sequence[Dim], wanted: Sequence[Dim], span: Span) -> tuple[Dim, ...]:
    """Return the new shape with -1 filled in; element counts must agree as far as they are static."""
    size, known_dim = product(given), product(dim for dim in wanted if dim != -1)
    refusal = RefusalError(f"reshape: {format_shape(given)} cannot become {format_shape(wanted)}", span)
    if -1 in wanted:
        if isinstance(size, int) and isinstance(known_dim, int) and (known_dim == 0 or size % known_dim):
            raise refusal
        if known_dim == 0:
            raise refusal
        filled = floor_divide(size, known_dim)
        return tuple(filled if dim == -1 else dim for dim in wanted)
    if _may_be_equal(size, known_dim):
        return tuple(wanted)
    hint = None
    if all(isinstance(dim, int) for dim in wanted):
        hint = "its size is known only when the function is called: write -1 for one dimension"
    elif not isinstance(size, int) or not isinstance(known_dim, int):
        hint = "write -1 for one dimension, which follows from the others"
    raise RefusalError(
        str(refusal), span, hint=None if isinstance(size, int) and isinstance(known_dim, int) else hint
    )


def _may_be_equal(size: Dim, rest: Dim) -> bool:
    """Return whether two element counts are equal, or can be told apart only at run time."""
    size_polynomial, rest_polynomial = as_polynomial(size), as_polynomial(rest)
    if size_polynomial is None or rest_polynomial is None or size_polynomial == rest_polynomial:
        return True
    if isinstance(size, int) or isinstance(rest, int):
        return False
    try:
        return "//" in str(
            size_polynomial - rest_polynomial
        )  # whether a division is exact is known only at run time
    except NoPolynomialError:
        return True
