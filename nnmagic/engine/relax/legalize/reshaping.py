"""Legalize operators that only change the shape: reshape, expand_dims, squeeze, batch_flatten."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from nnmagic.engine.relax.analysis.attribute_values import integer, integers
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, shape_of, tensor_dtype
from nnmagic.engine.relax.legalize.sizes import difference, exact_quotient, maximum, simplify
from nnmagic.engine.relax.tir.builders import are_equal, as_expr
from nnmagic.engine.relax.tir.types import Extent, PrimExpr


def element_count(dims: Sequence[Extent]) -> Extent:
    """Return how many elements a shape has, an int if it is static."""
    total: Extent = 1
    for dim in dims:
        total = total * dim
    return simplify(total)


def resolve_newshape(shape: Sequence[Extent], codes: Sequence[Extent], *, allowzero: bool) -> list[Extent]:
    """Return the dimensions that Relay's ``newshape`` means.

    0 copies one, -1 is inferred, -2 copies the rest, -3 merges two, -4 splits one into the two that follow
    (one of which may be -1). A size that is no number means itself.
    """
    result: list[Extent] = []
    inferred: int | None = None
    axis, code = 0, 0
    while code < len(codes):
        wanted = codes[code]
        if not isinstance(wanted, int):
            result.append(wanted)
            axis += 1
        elif wanted == -4:
            first, second = codes[code + 1], codes[code + 2]
            first = shape[axis] // second if first == -1 else first
            result += [first, shape[axis] // first if second == -1 else second]
            axis, code = axis + 1, code + 2
        elif wanted == -3:
            result.append(simplify(shape[axis] * shape[axis + 1]))
            axis += 2
        elif wanted == -2:
            result += shape[axis:]
            axis = len(shape)
        elif wanted == -1:
            inferred = len(result)
            result.append(1)
            axis += 1
        else:
            result.append(shape[axis] if wanted == 0 and not allowzero else wanted)
            axis += 1
        code += 1
    if inferred is not None:
        result[inferred] = _quotient(shape, [*result[:inferred], *result[inferred + 1 :]])
    return result


def _quotient(dims: Sequence[Extent], divisors: Sequence[Extent]) -> Extent:
    """Divide a product of dimensions by another one; a divisor that may be 0 counts as 1.

    Where the quotient is exact for all sizes, it is that also for a divisor of 0.
    """
    total, number = element_count(dims), element_count(divisors)
    if isinstance(number, int):
        return simplify(as_expr(total) // number) if number else 0
    quotient = exact_quotient(total, number)
    return simplify(as_expr(total) // maximum(number, 1)) if quotient is None else quotient


def reshape_to(data: Value, shape: Sequence[Extent]) -> Value:
    """Reshape data to a shape of as many elements."""
    sizes = [getattr(dim, "value", dim) for dim in shape]
    if any(isinstance(size, int) and size == 0 for size in sizes):
        # In TVM's reshape, 0 copies a dimension of the data.
        return relax.op.zeros(relax.ShapeExpr(list(shape)), tensor_dtype(data))
    own = shape_of(data)
    units = _unit_axes(own)
    if len(own) - len(units) == len(shape) and all(map(are_equal, _without(own, units), shape)):
        return relax.op.squeeze(data, sorted(units))  # a reshape divides indices by the sizes
    return relax.op.reshape(data, list(shape))


def reshape_by_codes(call: OpCall, data: Value, codes: Sequence[Extent]) -> Value:
    """Lower a reshape to the dimensions that the codes mean."""
    shape = resolve_newshape(shape_of(data), codes, allowzero=bool(call.attrs["allowzero"]))
    return _check_and_reshape(call, data, shape)


def _check_and_reshape(call: OpCall, data: Value, shape: Sequence[Extent]) -> Value:
    """Reshape data; require that the shape has as many elements."""
    call.require(same_element_count(shape_of(data), shape), "the new shape has not as many elements")
    return reshape_to(data, shape)


def same_element_count(lhs: Sequence[Extent], rhs: Sequence[Extent]) -> PrimExpr | bool:
    """Return whether two shapes have as many elements: a bool, or a condition on dynamic dimensions."""
    before, after = element_count(lhs), element_count(rhs)
    if isinstance(before, int) and isinstance(after, int):
        return before == after
    distance = difference(before, after)
    return as_expr(before) == as_expr(after) if distance is None else distance == 0


def _reverse_reshape(call: OpCall) -> Value:
    """Lower a reshape whose codes are read from the last dimension to the first."""
    (data,) = call.args
    codes = integers(call.attrs["newshape"])[::-1]
    shape = resolve_newshape(shape_of(data)[::-1], codes, allowzero=bool(call.attrs["allowzero"]))
    return _check_and_reshape(call, data, shape[::-1])


def _reshape_like(call: OpCall) -> Value:
    data, like = call.args
    lhs, rhs = shape_of(data), shape_of(like)
    spans = []
    for side, shape in (("lhs", lhs), ("rhs", rhs)):
        begin, end = call.attrs[f"{side}_begin"], call.attrs[f"{side}_end"]
        first = integer(begin)
        last = len(shape) if end is None else integer(end)
        spans.append((first % len(shape) if first < 0 else first, last % len(shape) if last < 0 else last))
    (a, b), (c, d) = spans
    return _check_and_reshape(call, data, [*lhs[:a], *rhs[c:d], *lhs[b:]])


def _batch_flatten(call: OpCall) -> Value:
    (data,) = call.args
    rows, *rest = shape_of(data)
    return reshape_to(data, [rows, element_count(rest)])


def _expand_dims(call: OpCall) -> Value:
    (data,) = call.args
    axis, number = integer(call.attrs["axis"]), integer(call.attrs["num_newaxis"])
    shape = shape_of(data)
    axis = axis if axis >= 0 else axis + len(shape) + 1
    return reshape_to(data, [*shape[:axis], *[1] * number, *shape[axis:]])


def _squeeze(call: OpCall) -> Value:
    """Drop the given axes, which must have length 1, or else all axes of the static length 1."""
    (data,) = call.args
    shape = shape_of(data)
    axis = call.attrs["axis"]
    dropped = {a % len(shape) for a in integers(axis)} if axis is not None else _unit_axes(shape)
    for a in dropped:
        call.require(shape[a] == 1, f"the dimension at axis {a} is not 1")
    return reshape_to(data, _without(shape, dropped))


def _without(shape: Sequence[Extent], axes: set[int]) -> list[Extent]:
    return [dim for axis, dim in enumerate(shape) if axis not in axes]


def _unit_axes(shape: Sequence[Extent]) -> set[int]:
    return {axis for axis, dim in enumerate(shape) if isinstance(dim, int) and dim == 1}


RULES.update(
    {
        "reshape": lambda call: reshape_by_codes(call, call.args[0], integers(call.attrs["newshape"])),
        "contrib_reverse_reshape": _reverse_reshape,
        "reshape_like": _reshape_like,
        "nn.batch_flatten": _batch_flatten,
        "expand_dims": _expand_dims,
        "squeeze": _squeeze,
    }
)
