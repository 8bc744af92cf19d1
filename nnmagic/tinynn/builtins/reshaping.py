"""NumPy's reshape, with named dimensions. Knows values and operators."""

from __future__ import annotations

from nnmagic.diagnostics import Span
from nnmagic.relay.ops.dims import product
from nnmagic.relay.types import AnyDim, Dim, TensorType
from nnmagic.tinynn.binding import Arguments
from nnmagic.tinynn.builtins.operands import formula
from nnmagic.tinynn.emit import apply, reshape_to
from nnmagic.tinynn.values import Computed, Refusal, Value, dim_shown, shape_shown


def reshape(call: Arguments) -> Value:
    """NumPy's: numbers, one -1, named dimensions of the tensor."""
    given_data = formula(call, "a")
    data, shape = given_data.value, call.known("newshape")
    wanted = shape if isinstance(shape, tuple) else (shape,)
    span = call.given["newshape"].span
    given = given_data.shape
    for dim in wanted:
        if isinstance(dim, bool) or not isinstance(dim, int | AnyDim) or (isinstance(dim, int) and dim < -1):
            raise Refusal(f"reshape: a shape holds ints and -1, not {dim!r}", span)
    if wanted.count(-1) > 1:
        raise Refusal("reshape: only one dimension can be -1", span)
    full = _completed(given, wanted, span)
    if sum(not isinstance(dim, int) for dim in full) > 1:
        return _reshape_keeping(data, given, wanted, full, call)
    return reshape_to(data, full, call.span)


def _completed(given: tuple[Dim, ...], wanted: tuple[Dim, ...], span: Span) -> tuple[Dim, ...]:
    """The new shape with -1 filled in, where that is known; the sizes must agree where they are known."""
    left, right = list(given), [dim for dim in wanted if dim != -1]
    for dim in [dim for dim in right if isinstance(dim, AnyDim) and dim.label is not None]:
        if dim not in left:
            hint = f"the tensor's shape is {shape_shown(given)}; write -1 for one dimension that follows"
            raise Refusal(f"reshape: the tensor has no dimension {dim_shown(dim)}", span, hint=hint)
        left.remove(dim)
        right.remove(dim)
    size, rest = product(left), product(right)
    open_ = -1 in wanted
    if isinstance(size, int) and isinstance(rest, int):
        if (rest == 0 and open_) or (size != rest and not open_) or (open_ and size % rest):
            raise Refusal(f"reshape: {shape_shown(given)} cannot become {shape_shown(wanted)}", span)
        return tuple(size // rest if dim == -1 else dim for dim in wanted)
    if not open_ and all(isinstance(dim, int) for dim in right):
        raise Refusal(
            f"reshape: {shape_shown(given)} cannot become {shape_shown(wanted)}",
            span,
            hint="its size is known only when the function is called: write -1 for one dimension",
        )
    filled = size if rest == 1 else AnyDim()
    return tuple(filled if dim == -1 else dim for dim in wanted)


def _reshape_keeping(
    data: Computed, given: tuple[Dim, ...], wanted: tuple[Dim, ...], full: tuple[Dim, ...], call: Arguments
) -> Value:
    """Several unknown dimensions: those that stay in their place are kept (Relay's 0), one may be -1."""
    newshape = [
        0 if isinstance(dim, AnyDim) and place < len(given) and dim == given[place] else dim
        for place, dim in enumerate(wanted)
    ]
    if any(isinstance(dim, AnyDim) for dim in newshape) or 0 in wanted:
        message = f"reshape of {shape_shown(given)} to {shape_shown(wanted)} is not supported yet"
        raise Refusal(
            message, call.span, hint="keep the named dimensions at their places, with one -1 at most"
        )
    result = apply("reshape", call.span, data, newshape=tuple(newshape))
    assert isinstance(result.type, TensorType)
    return Computed(result.expr, TensorType(full, result.type.dtype))
