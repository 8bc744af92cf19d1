"""NumPy's products of vectors, matrices and tensors."""

from __future__ import annotations

import math

from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.ops.dims import product, same_dim
from nnmagic.relay.signatures import format_dim, format_shape
from nnmagic.tinynn.builtins.argument_checks import (
    as_formula,
    axes,
    checked_axis,
    flag,
    formula,
    known_int,
    known_number,
    known_or_none,
    of_one_dtype,
    one_axis,
    pair,
)
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import stacked
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.operators.matmul import matrix_product
from nnmagic.tinynn.values.operator_calls import call_operator, computed_part
from nnmagic.tinynn.values.operator_restrictions import dims_differ
from nnmagic.tinynn.values.values import Computed, Operand, RefusalError, TupleOf, Value, is_number

_PAIR = "x=a y=b lhs=a rhs=b input=a other=b tensor_a=a tensor_b=b"


def _product(call: Arguments, one: Formula, other: Formula) -> Formula:
    left, right = list(call.given.values())[:2]
    found = matrix_product(
        Operand(one.value, left.span), Operand(other.value, right.span), call.span, call.name
    )
    return Formula(found, call.span)


def _matmul(call: Arguments) -> Value:
    left, right = (_tensor(call, name) for name in ("a", "b"))
    return matrix_product(left, right, call.span, call.name)


def _tensor(call: Arguments, name: str) -> Operand:
    operand = call.given[name]
    if isinstance(known_or_none(operand.value), tuple):
        return Operand(formula(call, name).value, operand.span)
    return operand


def _dot(call: Arguments) -> Value:
    """Of scalars the product, of tensors the sum over the last axis and the second to last."""
    one, other = pair(call, "a", "b")
    if one.rank == 0 or other.rank == 0:
        return (one * other).value
    if other.rank <= 2 or one.rank == 1:
        if one.rank == 1 and other.rank > 2:
            return _contracted(call, one, other, (0,), (other.rank - 2,)).value
        return _product(call, one, other).value
    return _contracted(call, one, other, (one.rank - 1,), (other.rank - 2,)).value


def _vdot(call: Arguments) -> Value:
    one, other = pair(call, "a", "b")
    return _product(call, *(each.flat() if each.rank else each.reshape((1,)) for each in (one, other))).value


def _inner(call: Arguments) -> Value:
    one, other = pair(call, "a", "b")
    if one.rank == 0 or other.rank == 0:
        return (one * other).value
    return _contracted(call, one, other, (one.rank - 1,), (other.rank - 1,)).value


def _outer(call: Arguments) -> Value:
    one, other = pair(call, "a", "b")
    one, other = (each.flat() if each.rank else each.reshape((1,)) for each in (one, other))
    return (one.expand(1) * other).value


def _vecdot(call: Arguments) -> Value:
    """The other axes broadcast, the vectors do not."""
    one, other = (_axis_last(call, each) for each in pair(call, "a", "b"))
    first, second = one.shape[-1], other.shape[-1]
    if dims_differ(first, second):
        shown = f"{format_dim(first)} and {format_dim(second)}"
        raise RefusalError(f"vecdot: the vectors have different lengths, {shown}", call.span)
    if same_dim(first, second):
        product_ = one * other
        return product_.reduce("sum", (product_.rank - 1,)).value
    rows, columns = one.expand(one.rank - 1), other.expand(other.rank)  # matmul looks at the lengths
    found = _product(call, rows, columns)
    return found.op("squeeze", axis=[found.rank - 2, found.rank - 1]).value


def _axis_last(call: Arguments, data: Formula) -> Formula:
    axis = checked_axis(call, "axis", known_int(call, "axis", -1), data.rank)
    return data.transpose([*(each for each in range(data.rank) if each != axis), axis])


def _contracted(
    call: Arguments, one: Formula, other: Formula, left: tuple[int, ...], right: tuple[int, ...]
) -> Formula:
    """The sum over pairs of axes, as one matrix product."""
    for first, second in zip(left, right, strict=True):
        if dims_differ(one.shape[first], other.shape[second]):
            shown = f"{format_shape(one.shape)} and {format_shape(other.shape)}"
            message = f"{call.name}: axis {first} and axis {second} of {shown} have different sizes"
            raise RefusalError(message, call.span)
    unknown = [
        first
        for first, second in zip(left, right, strict=True)
        if not same_dim(one.shape[first], other.shape[second])
    ]
    if unknown and len(left) > 1:  # one product of sizes may be another's
        message = (
            f"{call.name}: the size of axis {unknown[0]} of {format_shape(one.shape)} is known only in a call"
        )
        raise RefusalError(
            message, call.span, hint="sum over one axis, or give the sizes names in the annotations"
        )
    kept = [axis for axis in range(one.rank) if axis not in left]
    rest = [axis for axis in range(other.rank) if axis not in right]
    inner = product(tuple(one.shape[axis] for axis in left))
    rows = one.transpose([*kept, *left])
    columns = other.transpose([*right, *rest])
    shape = (*(one.shape[axis] for axis in kept), *(other.shape[axis] for axis in rest))
    rows = rows.reshape((product(tuple(one.shape[axis] for axis in kept)), inner))
    columns = columns.reshape((inner, product(tuple(other.shape[axis] for axis in rest))))
    if one.dtype == "bool":
        found = rows.cast("int32").op("nn.matmul", columns.cast("int32")).truth()
    else:
        found = rows.op("nn.matmul", columns)
    return found if len(shape) == 2 else found.reshape(shape)


def _tensordot(call: Arguments) -> Value:
    one, other = pair(call, "a", "b")
    given = call.known("axes") if "axes" in call else 2
    at = call.given["axes"].span if "axes" in call else call.span
    if isinstance(given, int) and not isinstance(given, bool):
        if not 0 <= given <= min(one.rank, other.rank):
            raise RefusalError(f"tensordot: {given} axes", at)
        return _contracted(
            call, one, other, tuple(range(one.rank - given, one.rank)), tuple(range(given))
        ).value
    if not isinstance(given, tuple) or len(given) != 2:
        hint = "write a number, or two lists of axes: axes=([1], [0])"
        raise RefusalError("tensordot: `axes` must be an int or a pair", at, hint=hint)
    left, right = (each if isinstance(each, tuple) else (each,) for each in given)
    if len(left) != len(right):
        raise RefusalError("tensordot: both lists of axes must have one length", at)
    first = tuple(checked_axis(call, "axes", axis, one.rank) for axis in left)
    second = tuple(checked_axis(call, "axes", axis, other.rank) for axis in right)
    return _contracted(call, one, other, first, second).value


def _kron(call: Arguments) -> Value:
    one, other = pair(call, "a", "b")
    rank = max(one.rank, other.rank)
    first = (1,) * (rank - one.rank) + one.shape
    second = (1,) * (rank - other.rank) + other.shape
    spread = one.reshape([dim for each in first for dim in (each, 1)])
    tiled = other.reshape([dim for each in second for dim in (1, each)])
    return (spread * tiled).reshape([product(each) for each in zip(first, second, strict=True)]).value


def _cross(call: Arguments) -> Value:
    """Of vectors with three components along an axis."""
    one, other = pair(call, "a", "b")
    parts: list[list[Formula]] = []
    for each in (one, other):
        axis = one_axis(call, "axis", each.rank, -1)
        if each.shape[axis] != 3:
            message = f"cross takes vectors of 3 components, not a tensor of shape {format_shape(each.shape)}"
            raise RefusalError(message, call.span)
        parts.append([_component(each, axis, place) for place in range(3)])
    (a0, a1, a2), (b0, b1, b2) = parts

    found = [a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0]
    axis = known_int(call, "axis", -1)
    return stacked(found, axis if axis >= 0 else found[0].rank + 1 + axis).value


def _component(data: Formula, axis: int, place: int) -> Formula:
    cut = data.op("strided_slice", begin=[place], end=[place + 1], strides=[1], axes=[axis])
    return cut.op("squeeze", axis=[axis])


def _einsum(call: Arguments) -> Value:
    """The equation first, as in NumPy; without ``->`` the indices that stand once, in order."""
    equation = call.known("equation")
    if not isinstance(equation, str):
        raise RefusalError(
            "einsum: the equation must be a string",
            call.given["equation"].span,
            hint='as in einsum("ij,jk->ik", a, b)',
        )
    given = call.given["operands"].value
    assert isinstance(given, TupleOf)
    span = call.given["operands"].span
    if not given.items:
        raise RefusalError("einsum needs at least one tensor", call.span)
    parts = of_one_dtype(call, [Operand(item, span) for item in given.items])
    plain = equation.replace(" ", "")
    if "->" not in plain and "." not in plain:
        letters = sorted({letter for letter in plain if letter != "," and plain.count(letter) == 1})
        plain = f"{plain}->{''.join(letters)}"
    whole = computed_part(Operand(TupleOf(tuple(part.value for part in parts)), span))
    return call_operator(
        OPERATORS["einsum"],
        [Operand(whole, span)],
        {"equation": plain},
        call.span,
        {"equation": call.given["equation"].span},
    )


def _norm(call: Arguments) -> Value:
    """Of vectors, or of all elements; ``ord`` 1, 2 or inf."""
    data = formula(call, "x")
    if not data.is_float:
        data = data.cast("float64")
    along = axes(call, data.rank)
    keepdims = flag(call, "keepdims")
    order = call.known("ord") if "ord" in call else None
    if is_number(order):
        order = known_number(call, "ord", 2)
    if order is not None and ((along is None and data.rank > 1) or (along is not None and len(along) > 1)):
        hint = "give the axis of the vectors, or leave `ord` out"
        raise RefusalError("norm: matrix norms are not part of TinyNN", call.given["ord"].span, hint=hint)
    if order in (math.inf, -math.inf):
        return data.abs().reduce("max" if order == math.inf else "min", along, keepdims=keepdims).value
    if order == 1:
        return data.abs().reduce("sum", along, keepdims=keepdims).value
    if order in (None, 2, "fro"):
        return (data * data).reduce("sum", along, keepdims=keepdims).sqrt().value
    if isinstance(order, int | float) and order > 0:
        return (
            (data.abs() ** float(order)).reduce("sum", along, keepdims=keepdims).op("power", 1 / order).value
        )
    raise RefusalError("norm: `ord` must be a number above 0", call.given["ord"].span)


def _multi_dot(call: Arguments) -> Value:
    given = call.given["arrays"].value
    if not isinstance(given, TupleOf) or len(given.items) < 2:
        raise RefusalError("multi_dot takes a list of matrices", call.given["arrays"].span)
    span = call.given["arrays"].span
    found = as_formula(Operand(given.items[0], span), call.span, call.name).value
    for item in given.items[1:]:
        found = matrix_product(Operand(found, span), Operand(item, span), call.span, call.name)
    assert isinstance(found, Computed)
    return found


PRODUCTS = (
    Builtin("matmul", "a b", _matmul, "The same as a @ b.", "matmul", _PAIR),
    Builtin("dot", "a b", _dot, "Product over the last and second to last axis.", "dot", _PAIR),
    Builtin("vdot", "a b", _vdot, "Product of both flattened.", "vdot", _PAIR),
    Builtin("vecdot", "a b * axis?=-1", _vecdot, "Products of vectors along an axis.", "vecdot", _PAIR),
    Builtin("inner", "a b", _inner, "Product over both last axes.", "inner", _PAIR),
    Builtin("outer", "a b", _outer, "Each element times each.", "outer", _PAIR),
    Builtin("tensordot", "a b axes?", _tensordot, "Product over given axes.", "tensordot", _PAIR),
    Builtin("kron", "a b", _kron, "Kronecker product.", "kron", _PAIR),
    Builtin("cross", "a b * axis?", _cross, "Product of vectors with three components.", "cross", _PAIR),
    Builtin("einsum", "equation *operands", _einsum, "Einstein's summation.", "einsum", method=False),
    Builtin(
        "norm", "x ord? axis? keepdims?", _norm, "Length of vectors (numpy.linalg.norm).", None, "input=x"
    ),
    Builtin(
        "multi_dot", "arrays", _multi_dot, "Product of several matrices (numpy.linalg).", None, method=False
    ),
)
