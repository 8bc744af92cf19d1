"""Define the methods of generators that choose and order: choice, permutation, permuted.

Their reference: https://numpy.org/doc/stable/reference/random/generator.html#permutations
"""

from __future__ import annotations

import numpy as np

from nnmagic.relay.types import is_float
from nnmagic.tinynn.builtins.argument_checks import flag, one_axis
from nnmagic.tinynn.builtins.distributions import array_of, draw, number_of_constant, of_size, require_number
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.symbolic_sizes import as_size, number_of, size_along, weak_int


def _population(call: Arguments, parameter: str) -> tuple[v.Value, Formula | None, int]:
    """Return how many items there are, the items (None for indices), and along which axis they lie."""
    operand = call.given[parameter]
    count = as_size(operand)
    if count is not None:
        return count, None, 0
    data = array_of(call, parameter)
    if not data.rank:
        raise call.mismatch(parameter, "an int or an array")
    axis = one_axis(call, "axis", data.rank, 0)
    return size_along(data.value, axis, call.span), data, axis


def _order_of(call: Arguments, count: v.Value) -> Formula:
    """Return a tensor of so many indices."""
    given = {**call.given, "size": v.Operand(v.TupleOf((count,)), call.span)}
    return of_size(Arguments(call.name, given, call.span), "int64")


def permutation(call: Arguments) -> v.Value:
    """Define how a generator permutes a sequence, or so many integers."""
    count, data, axis = _population(call, "x")
    if data is None:
        return draw(call, "order", _order_of(call, count))

    def finish(order: Formula) -> v.Value:
        return data.op("take", order, axis=axis).value

    return draw(call, "order", _order_of(call, count), finish=finish)


def permute(call: Arguments) -> v.Value:
    """Define how a generator shuffles each row on its own."""
    data = array_of(call, "x")
    if "axis" not in call:
        flat = data.flat()
        count = size_along(flat.value, 0, call.span)

        def finish(order: Formula) -> v.Value:
            return flat.op("take", order, axis=0).reshape(data.shape, data).value

        return draw(call, "order", _order_of(call, count), finish=finish)
    axis = one_axis(call, "axis", data.rank)
    others = [index for index in range(data.rank) if index != axis]
    moved = data.transpose([*others, axis])
    rows = moved.op("reshape", newshape=(-1, moved.shape[-1])) if data.rank != 2 else moved
    like = rows.op("zeros_like").cast("int64")

    def finish_rows(orders: Formula) -> v.Value:
        taken = rows.op("gather", orders, axis=1).reshape(moved.shape, moved)
        back = sorted(range(data.rank), key=[*others, axis].__getitem__)
        return taken.transpose(back).value

    return draw(call, "orders", like, finish=finish_rows)


def choice(call: Arguments) -> v.Value:
    """Define how a generator chooses elements."""
    count, data, axis = _population(call, "a")
    operand = call.given["a"]
    if isinstance(count, v.Known) and isinstance(count.value, int) and count.value <= 0:
        what = "a must be a positive integer" if data is None else "a cannot be empty"
        raise v.RefusalError(f"{call.name}: {what} unless no samples are taken", operand.span)
    alone = "size" not in call
    like = of_size(call, "int64")

    def finish(index: Formula) -> v.Value:
        if data is None:
            return weak_int(index.value) if alone else index.value
        return data.op("take", index, axis=axis).value

    number = Formula(number_of(count, call.span), call.span)
    p = _probabilities(call, number) if "p" in call else None
    if flag(call, "replace", default=True):
        if p is not None:
            return draw(call, "weighted", like, [p], finish)
        last = number - 1
        if isinstance(count, v.Known):
            last = Formula(number_constant(int(count.value) - 1, "int64", call.span), call.span)  # type: ignore[call-overload]  # an int
        else:
            last = require_number(
                call, last, last >= 0, "a must be a positive integer unless no samples are taken"
            )
        return draw(
            call, "integers", like, [Formula(number_constant(0, "int64", call.span), call.span), last], finish
        )
    flat = like if like.rank == 1 else like.reshape((1,)) if not like.rank else like.flat()

    def finish_flat(index: Formula) -> v.Value:
        return finish(index if like.rank == 1 else index.reshape(like.shape, like))

    wanted = Formula(number_of(size_along(flat.value, 0, call.span), call.span), call.span)
    message = "Cannot take a larger sample than population when replace is False"
    sizes = [number_of_constant(each) for each in (number, wanted)]
    if all(isinstance(size, int) for size in sizes):
        if sizes[1] > sizes[0]:  # type: ignore[operator]  # both are ints
            raise v.RefusalError(f"{call.name}: {message}", call.span)
    else:
        number = require_number(call, number, wanted <= number, message)
    if p is not None:
        enough = p.op("greater", p.like(0)).cast("int64").reduce("sum") >= wanted
        p = require_number(call, p, enough, "Fewer non-zero entries in p than size")
        return draw(call, "weighted different", flat, [p], finish_flat)
    shuffled = flag(call, "shuffle", default=True)
    return draw(call, "choice" if shuffled else "choice unshuffled", flat, [number], finish_flat)


def _probabilities(call: Arguments, count: Formula) -> Formula:
    """Return the probabilities of a choice, checked as NumPy does. Raises RefusalError."""
    operand = call.given["p"]
    p = array_of(call, "p", "float64")
    if p.rank != 1:
        raise v.RefusalError(f"{call.name}: p must be 1-dimensional", operand.span)
    exact = np.sqrt(np.finfo(p.dtype).eps) if is_float(p.dtype) and p.dtype != "bfloat16" else 0.0
    tolerance = float(max(np.sqrt(np.finfo("float64").eps), exact))
    size = Formula(number_of(size_along(p.value, 0, call.span), call.span), call.span)
    sizes = [number_of_constant(each) for each in (size, count)]
    p = p.cast("float64")
    if all(isinstance(each, int) for each in sizes):
        if sizes[0] != sizes[1]:
            raise v.RefusalError(f"{call.name}: a and p must have same size", operand.span)
    else:
        p = require_number(call, p, size.equal(count), "a and p must have same size")
    p = require_number(call, p, ~(p < 0), "Probabilities are not non-negative")
    total = (p.reduce("sum") - 1).abs()
    return require_number(call, p, total <= tolerance, "Probabilities do not sum to 1")
