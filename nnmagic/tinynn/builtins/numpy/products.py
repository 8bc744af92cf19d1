"""Define NumPy's products of vectors, matrices and tensors.

NumPy's reference: https://numpy.org/doc/stable/reference/generated/numpy.einsum.html
"""

from __future__ import annotations

import numpy as np

from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.ops.dims import product, same_dim
from nnmagic.relay.signatures import format_dim, format_shape
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import stack
from nnmagic.tinynn.calls.argument_binding import Arguments, cell_function, free_function, numpy_function
from nnmagic.tinynn.operators.matmul import matrix_product
from nnmagic.tinynn.values.operator_calls import as_computed, call_operator
from nnmagic.tinynn.values.operator_restrictions import dims_differ
from nnmagic.tinynn.values.values import Computed, Known, Operand, RefusalError, TupleOf, Value

_PAIR = "x=a y=b lhs=a rhs=b input=a other=b tensor_a=a tensor_b=b"


def _product(call: Arguments, lhs: Formula, rhs: Formula) -> Formula:
    left_operand, right_operand = list(call.given.values())[:2]
    result = matrix_product(
        Operand(lhs.value, left_operand.span), Operand(rhs.value, right_operand.span), call.span, call.name
    )
    return Formula(result, call.span)


def _multiply(lhs: Formula, rhs: Formula) -> Formula:
    """Multiply element by element; the product of bools is their ``and``."""
    return lhs & rhs if lhs.dtype == rhs.dtype == "bool" else lhs * rhs


def _matmul(call: Arguments) -> Value:
    lhs, rhs = args.tensors_or_numbers(call, [call.given["a"], call.given["b"]])
    return matrix_product(lhs, rhs, call.span, call.name)


def _dot(call: Arguments) -> Value:
    """Multiply scalars; of tensors, sum over the last axis of one and the second to last of the other."""
    lhs, rhs = args.pair(call, "a", "b")
    if lhs.rank == 0 or rhs.rank == 0:
        return _multiply(lhs, rhs).value
    if rhs.rank <= 2 or lhs.rank == 1:
        if lhs.rank == 1 and rhs.rank > 2:
            return _contract(call, lhs, rhs, (0,), (rhs.rank - 2,)).value
        return _product(call, lhs, rhs).value
    return _contract(call, lhs, rhs, (lhs.rank - 1,), (rhs.rank - 2,)).value


def _vdot(call: Arguments) -> Value:
    lhs, rhs = args.pair(call, "a", "b")
    return _product(call, *(each.flat() for each in (lhs.conj(), rhs))).value


def _inner(call: Arguments) -> Value:
    lhs, rhs = args.pair(call, "a", "b")
    if lhs.rank == 0 or rhs.rank == 0:
        return _multiply(lhs, rhs).value
    return _contract(call, lhs, rhs, (lhs.rank - 1,), (rhs.rank - 1,)).value


def _outer(call: Arguments) -> Value:
    lhs, rhs = args.pair(call, "a", "b")
    lhs, rhs = (each.flat() for each in (lhs, rhs))
    return _multiply(lhs.expand(1), rhs).value


def _vecdot(call: Arguments) -> Value:
    """Compute dot products along an axis; the other axes broadcast, the vectors do not."""
    lhs, rhs = (_move_axis_last(call, each) for each in args.pair(call, "a", "b"))
    lhs = lhs.conj()
    first, second = lhs.shape[-1], rhs.shape[-1]
    if dims_differ(first, second):
        shown = f"{format_dim(first)} and {format_dim(second)}"
        raise RefusalError(f"vecdot: the vectors have different lengths, {shown}", call.span)
    if same_dim(first, second):
        product_ = _multiply(lhs, rhs)
        return product_.reduce("any" if product_.dtype == "bool" else "sum", (product_.rank - 1,)).value
    rows, columns = lhs.expand(lhs.rank - 1), rhs.expand(rhs.rank)  # matmul checks the lengths
    result = _product(call, rows, columns)
    return result.op("squeeze", axis=[result.rank - 2, result.rank - 1]).value


def _move_axis_last(call: Arguments, data: Formula) -> Formula:
    axis = args.normalize_axis(call, "axis", args.static_int(call, "axis", -1), data.rank)
    return data.transpose([*(index for index in range(data.rank) if index != axis), axis])


def _contract(
    call: Arguments, lhs: Formula, rhs: Formula, left_axes: tuple[int, ...], right_axes: tuple[int, ...]
) -> Formula:
    """Sum over pairs of axes, as one matrix product."""
    for first, second in zip(left_axes, right_axes, strict=True):
        if dims_differ(lhs.shape[first], rhs.shape[second]):
            shown = f"{format_shape(lhs.shape)} and {format_shape(rhs.shape)}"
            message = f"{call.name}: axis {first} and axis {second} of {shown} have different sizes"
            raise RefusalError(message, call.span)
    unknown = [
        first
        for first, second in zip(left_axes, right_axes, strict=True)
        if not same_dim(lhs.shape[first], rhs.shape[second])
    ]
    if unknown and len(left_axes) > 1:  # two products of dynamic sizes may be equal
        shape = format_shape(lhs.shape)
        message = f"{call.name}: the size of axis {unknown[0]} of {shape} is known only in a call"
        raise RefusalError(
            message, call.span, hint="sum over one axis, or give the sizes names in the annotations"
        )
    free_left = [axis for axis in range(lhs.rank) if axis not in left_axes]
    free_right = [axis for axis in range(rhs.rank) if axis not in right_axes]
    inner = product(tuple(lhs.shape[axis] for axis in left_axes))
    rows = lhs.transpose([*free_left, *left_axes])
    columns = rhs.transpose([*right_axes, *free_right])
    result_shape = (*(lhs.shape[axis] for axis in free_left), *(rhs.shape[axis] for axis in free_right))
    rows = rows.reshape((product(tuple(lhs.shape[axis] for axis in free_left)), inner))
    columns = columns.reshape((inner, product(tuple(rhs.shape[axis] for axis in free_right))))
    if lhs.dtype == "bool":
        # A sum of ones in float32 may be rounded, but never to 0; in int8, 256 ones would be 0.
        result = rows.cast("float32").op("nn.matmul", columns.cast("float32")).truth()
    else:
        result = rows.op("nn.matmul", columns)
    return result if len(result_shape) == 2 else result.reshape(result_shape, lhs, rhs)


def _tensordot(call: Arguments) -> Value:
    lhs, rhs = args.pair(call, "a", "b")
    axes_argument = call.static("axes") if "axes" in call else 2
    span = call.at("axes") if "axes" in call else call.span
    if isinstance(axes_argument, int) and not isinstance(axes_argument, bool):
        if not 0 <= axes_argument <= min(lhs.rank, rhs.rank):
            raise RefusalError(f"tensordot: {axes_argument} axes", span)
        return _contract(
            call, lhs, rhs, tuple(range(lhs.rank - axes_argument, lhs.rank)), tuple(range(axes_argument))
        ).value
    if not isinstance(axes_argument, tuple) or len(axes_argument) != 2:
        hint = "write a number, or two lists of axes: axes=([1], [0])"
        raise RefusalError("tensordot: `axes` must be an int or a pair", span, hint=hint)
    left_listed, right_listed = (axes_ if isinstance(axes_, tuple) else (axes_,) for axes_ in axes_argument)
    if len(left_listed) != len(right_listed):
        raise RefusalError("tensordot: both lists of axes must have one length", span)
    first = tuple(args.normalize_axis(call, "axes", axis, lhs.rank) for axis in left_listed)
    second = tuple(args.normalize_axis(call, "axes", axis, rhs.rank) for axis in right_listed)
    return _contract(call, lhs, rhs, first, second).value


def _kron(call: Arguments) -> Value:
    lhs, rhs = args.pair(call, "a", "b")
    rank = max(lhs.rank, rhs.rank)
    first = (1,) * (rank - lhs.rank) + lhs.shape
    second = (1,) * (rank - rhs.rank) + rhs.shape
    # Axes of both alternate: (a, 1) times (1, b) for each axis, which is then one of a * b.
    spread = lhs.reshape([dim for dims in first for dim in (dims, 1)])
    tiled = rhs.reshape([dim for dims in second for dim in (1, dims)])
    shape = [product(dims) for dims in zip(first, second, strict=True)]
    return _multiply(spread, tiled).reshape(shape, lhs, rhs).value


def _cross(call: Arguments) -> Value:
    """Compute the cross product of vectors with three components along an axis; of two, its third one."""
    lhs, rhs = args.pair(call, "a", "b")
    if (flat := _cross_of_two(call, lhs, rhs)) is not None:
        return flat.value
    parts: list[list[Formula]] = []
    for vector in (lhs, rhs):
        axis = args.one_axis(call, "axis", vector.rank, -1)
        if vector.shape[axis] != 3:
            message = (
                f"cross takes vectors of 3 components, not a tensor of shape {format_shape(vector.shape)}"
            )
            raise RefusalError(message, call.span)
        parts.append([vector.row(axis, index) for index in range(3)])
    (a0, a1, a2), (b0, b1, b2) = parts
    components = [a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0]
    axis = args.static_int(call, "axis", -1)
    return stack(components, axis if axis >= 0 else components[0].rank + 1 + axis).value


def _cross_of_two(call: Arguments, lhs: Formula, rhs: Formula) -> Formula | None:
    """Return the cross product of vectors with two components, a number each; None of others."""
    places = [args.one_axis(call, "axis", vector.rank, -1) if vector.rank else -1 for vector in (lhs, rhs)]
    if not all(
        place >= 0 and vector.shape[place] == 2 for place, vector in zip(places, (lhs, rhs), strict=True)
    ):
        return None
    (a0, a1), (b0, b1) = (
        [vector.row(place, index) for index in range(2)]
        for place, vector in zip(places, (lhs, rhs), strict=True)
    )
    return a0 * b1 - a1 * b0


def _einsum(call: Arguments) -> Value:
    """Compute an Einstein summation, equation first; without ``->`` unrepeated indices remain, in order."""
    equation = call.static("equation")
    if not isinstance(equation, str):
        raise RefusalError(
            "einsum: the equation must be a string",
            call.at("equation"),
            hint='as in einsum("ij,jk->ik", a, b)',
        )
    operands, span = call.items("operands"), call.at("operands")
    if not operands:
        raise RefusalError("einsum needs at least one tensor", call.span)
    parts = args.unify_dtypes(call, operands)
    plain = equation.replace(" ", "")
    if "->" not in plain and "." not in plain:
        letters = sorted({letter for letter in plain if letter != "," and plain.count(letter) == 1})
        plain = f"{plain}->{''.join(letters)}"
    computed = as_computed(Operand(TupleOf(tuple(part.value for part in parts)), span))
    return call_operator(
        OPERATORS["einsum"],
        [Operand(computed, span)],
        {"equation": plain},
        call.span,
        {"equation": call.at("equation")},
    )


def _einsum_path(call: Arguments) -> Value:
    """Return in which order NumPy contracts the operands, and its table of costs; both follow from shapes."""
    equation, optimize = call.static("equation"), call.static("optimize", "greedy")
    arrays = []
    for item in call.items("operands"):
        shape = args.as_formula(item, call.span, call.name).shape
        sizes = [args.static_size(call, size, item.span) for size in shape]
        # Views of one number, which need no memory: NumPy looks at the shapes only.
        arrays.append(np.broadcast_to(np.float64(0), sizes))
    try:
        path, costs = np.einsum_path(equation, *arrays, optimize=optimize)  # type: ignore[arg-type]  # it checks them
    except (KeyError, TypeError, ValueError) as error:
        raise RefusalError(f"einsum_path: {error}", call.span) from None
    steps = (TupleOf(tuple(map(Known, step))) if isinstance(step, tuple) else Known(step) for step in path)
    return TupleOf((TupleOf(tuple(steps), written="list"), Known(costs)))


def _multi_dot(call: Arguments) -> Value:
    arrays = call.given["arrays"].value
    if not isinstance(arrays, TupleOf) or len(arrays.items) < 2:
        raise RefusalError("multi_dot takes a list of matrices", call.at("arrays"))
    span = call.at("arrays")
    result = args.as_formula(Operand(arrays.items[0], span), call.span, call.name).value
    for item in arrays.items[1:]:
        result = matrix_product(Operand(result, span), Operand(item, span), call.span, call.name)
    assert isinstance(result, Computed)
    return result


PRODUCTS = (
    numpy_function("matmul", "a b", _matmul, "Compute a @ b.", _PAIR),
    numpy_function(
        "dot", "a b", _dot, "Compute the product over the last axis of a and the second to last of b.", _PAIR
    ),
    numpy_function(
        "vdot",
        "a b",
        _vdot,
        "Compute the dot product of the flattened tensors; of a, the complex conjugate.",
        _PAIR,
    ),
    numpy_function(
        "vecdot",
        "a b * axis?=-1",
        _vecdot,
        "Compute the dot products of vectors along an axis; of a, the complex conjugate.",
        _PAIR,
    ),
    numpy_function("inner", "a b", _inner, "Compute the product over the last axes of both.", _PAIR),
    numpy_function("outer", "a b", _outer, "Compute the outer product.", _PAIR),
    numpy_function("tensordot", "a b axes?", _tensordot, "Compute the product over the given axes.", _PAIR),
    numpy_function("kron", "a b", _kron, "Compute the Kronecker product.", _PAIR),
    numpy_function(
        "cross", "a b * axis?", _cross, "Compute the cross product of vectors with three components.", _PAIR
    ),
    free_function("einsum", "equation *operands * optimize?", _einsum, "Compute an Einstein summation."),
    free_function(
        "einsum_path",
        "equation *operands * optimize?",
        _einsum_path,
        "Return the order of the contractions of an Einstein summation, at compile time.",
    ),
    cell_function(
        "multi_dot", "arrays", _multi_dot, "Compute the product of several matrices (numpy.linalg.multi_dot)."
    ),
)
