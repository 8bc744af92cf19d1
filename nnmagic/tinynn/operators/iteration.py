"""Iterate over ranges, tuples, rows of tensors, ``zip`` and the like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from synr.ast import BuiltinOp

from nnmagic.diagnostics import Span
from nnmagic.limits import MAX_ITEMS
from nnmagic.relay import expr as ir
from nnmagic.relay.ops.dims import as_polynomial
from nnmagic.relay.polynomials import NoPolynomialError, Polynomial, constant
from nnmagic.relay.types import TensorType, is_integer
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.operators.arithmetic import binary, check_not_zero, least_of, unary
from nnmagic.tinynn.operators.scheduled_ranges import scheduled_ranges
from nnmagic.tinynn.operators.strings import index_string
from nnmagic.tinynn.operators.subscripts import subscript, tuple_of
from nnmagic.tinynn.syntax.unsupported_syntax import FILL_A_TENSOR
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.affine import affine_of
from nnmagic.tinynn.values.descriptions import describe, source_text
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply, cast, is_tensor, tensor_type
from nnmagic.tinynn.values.symbolic_sizes import as_number, dimension_size, weak_int

# -- builtins ------------------------------------------------------------------------------------------


def _range(call: Arguments) -> v.Value:
    bounds = {name: _range_bound(call, name) for name in ("start", "stop", "step") if name in call.given}
    if "stop" not in bounds:
        bounds["stop"] = bounds.pop("start")
    step = bounds.get("step", v.Known(1))
    if step == v.Known(0):
        raise v.RefusalError("the step of a range cannot be zero", call.at("step"))
    if isinstance(step, v.Computed):
        step = weak_int(check_not_zero(step, call.at("step")))
    return v.RangeOf(bounds.get("start", v.Known(0)), bounds["stop"], step)


def _range_bound(call: Arguments, name: str) -> v.Value:
    """Return a bound of a range: a static int, or an integer of rank 0 as a weak number."""
    operand = as_number(call.given[name])
    bound = v.static_or(operand.value, None)
    if isinstance(bound, int):
        return v.Known(int(bound))
    number = as_weak_int(operand)
    if number is None:
        hint = "write a range of ints, and compute with them, as in i * 0.1"
        if is_tensor(operand.value):
            whole = tensor_type(operand).shape
            text = source_text(operand.span)
            hint = f"write range(len({text}))" if whole else f"convert it, as in int({text})"
        raise v.RefusalError(f"range takes ints, not {describe(operand.value)}", operand.span, hint=hint)
    return number


def as_weak_int(operand: v.Operand) -> v.Computed | None:
    """Return a dimension, or an integer of rank 0, as a weak number; None for any other value."""
    value = as_number(operand).value
    if not isinstance(value, v.Computed) or not isinstance(value.type, TensorType):
        return None
    if value.type.shape or not is_integer(value.type.dtype):
        return None
    return weak_int(cast(value, "int64", operand.span))


def _zip_like(name: str) -> Builtin:
    def apply_to(call: Arguments) -> v.Value:
        iterables = call.items("iterables") if name == "zip" else [call.given["iterable"]]
        parts = tuple(v.Operand(item.value, call.span) for item in iterables)
        zipped = v.Zipped(name, parts, strict="strict" in call and call.static("strict") is True)
        count(v.Operand(zipped, call.span))
        return zipped

    signature = "*iterables * strict?" if name == "zip" else "iterable"
    return Builtin(name, signature, apply_to, f"Return Python's {name}, for a loop to iterate over.")


def columns_of_rows(rows: v.ListOfRows, span: Span) -> v.Value:
    """Return what ``zip(*rows)`` gives of a list of tuples: a list for each of their places."""
    number = count(v.Operand(rows, span))
    size = number if isinstance(number, v.Computed) else number_constant(number, "int64", span)
    some = apply("greater", span, size, number_constant(0, "int64", span))
    message = f"not enough values to unpack (expected {len(rows.columns)}, got 0)"
    table = v.Operand(apply("python.require", span, rows.rows, some, message=message), span)
    whole = v.Operand(v.SliceOf(*[v.Known(None)] * 3), span)
    lists: list[v.Value] = []
    for place, column in enumerate(rows.columns):
        if not isinstance(column, v.Column):
            raise v.RefusalError(
                "zip(*rows) takes tuples of numbers", span, hint="write a loop over the rows"
            )
        numbers = subscript(table, [whole, v.Operand(v.Known(place), span)], span)
        assert isinstance(numbers, v.Computed)
        lists.append(v.ListOfRows(replace(cast(numbers, column.dtype, span), weak=column.weak)))
    return v.TupleOf(tuple(lists), written="list")


def _enumerate(call: Arguments) -> v.Value:
    """Return Python's enumerate; from another number it is a zip with a range."""
    iterable = call.given["iterable"]
    number = count(iterable)
    start = _range_bound(call, "start") if "start" in call else v.Known(0)
    if start == v.Known(0):
        return v.Zipped("enumerate", (v.Operand(iterable.value, call.span),))
    size = v.Operand(v.Known(number) if isinstance(number, int) else number, call.span)
    stop = binary(BuiltinOp.Add, "+", v.Operand(start, call.span), size, call.span)
    numbers = v.Operand(v.RangeOf(start, stop, v.Known(1)), call.span)
    return v.Zipped("zip", (numbers, v.Operand(iterable.value, call.span)))


def _list(call: Arguments) -> v.Value:
    if "iterable" not in call.given:
        return v.TupleOf(())
    value = call.given["iterable"].value
    if isinstance(value, v.ListOfRows):
        return replace(value, is_row=False, is_shared=value.is_table > 0)
    return v.TupleOf(tuple(items(call.given["iterable"], "list")))


def _map(call: Arguments) -> v.Value:
    """Return the calls of a function for the items, which the elaboration makes a list of."""
    items_ = call.items("iterables")
    for each in items_:
        count(each)
    return v.LoopCall("map", (call.given["function"], *items_))


#: Ranges of this step and more can go over more than 63 bits in a number of rounds that a loop has.
_LONG_STEP = 1 << 31

#: Functions that make or convert iterables, by name.
ITERATION: dict[str, Builtin] = {
    "range": Builtin(
        "range", "start stop? step?=1", _range, "Return Python's range, for a loop to iterate over."
    ),
    **{word: _zip_like(word) for word in ("zip", "reversed")},
    "enumerate": Builtin(
        "enumerate", "iterable start?=0", _enumerate, "Return Python's enumerate, for a loop to iterate over."
    ),
    "list": Builtin(
        "list",
        "iterable?=()",
        _list,
        "Return the items as a tuple; their number must be known at compile time.",
    ),
    "map": Builtin(
        "map", "function *iterables", _map, "Return a list of what a function gives for each item."
    ),
    **scheduled_ranges(_range),
}


# -- queries of a loop ---------------------------------------------------------------------------------


def count(operand: v.Operand) -> int | v.Computed:
    """Return the number of items: an int, or a weak number if it is known only at run time."""
    value, span = operand.value, operand.span
    match value:
        case v.ListOfRows(rows=rows):
            return count(v.Operand(rows, span))
        case v.TableOf(size=size):
            return size
        case v.TupleOf(items=items_):
            return len(items_)
        case v.Known(value=str() as text):
            return len(text)
        case v.RangeOf(
            start=v.Known(value=int() as start),
            stop=v.Known(value=int() as stop),
            step=v.Known(value=int() as step),
        ):
            return max(0, -((start - stop) // step))  # len(range(...)) of any size
        case v.RangeOf(start=start, stop=stop, step=v.Known(value=int() as step)):
            return _range_count(v.Operand(start, span), v.Operand(stop, span), step, span)
        case v.RangeOf(start=start, stop=stop, step=step):
            back = v.Operand(
                binary(BuiltinOp.Sub, "-", v.Operand(start, span), v.Operand(stop, span), span), span
            )
            steps = v.Operand(binary(BuiltinOp.FloorDiv, "//", back, v.Operand(step, span), span), span)
            return v.dynamic(unary(BuiltinOp.USub, "-", steps, span))
        case v.Zipped(parts=parts, strict=strict):
            counts = [count(part) for part in parts]
            if strict and len(counts) > 1:
                return _same_count(counts, span)
            static = [number for number in counts if isinstance(number, int)]
            dynamic = [number for number in counts if not isinstance(number, int)]
            if not dynamic:
                return min(static, default=0)
            others: list[v.Value] = [*dynamic[1:], *(v.Known(number) for number in static)]
            least: v.Value = dynamic[0]
            for other in others:
                least = _smaller(least, other, span)
            assert isinstance(least, v.Computed)
            return least
    if is_tensor(value):
        shape = tensor_type(operand).shape
        if shape:
            assert isinstance(value, v.Computed)
            return int(shape[0]) if isinstance(shape[0], int) else dimension_size(value, 0, span)
    raise v.RefusalError(f"{describe(value)} cannot be gone over", span, hint=_hint(value))


def count_polynomial(operand: v.Operand) -> Polynomial | None:
    """Return how many items a value has at most, by sizes alone, if it has any; None if that is not known."""
    match operand.value:
        case v.RangeOf(start=start, stop=stop, step=v.Known(value=int() as step)):
            ends = affine_of(start), affine_of(stop)
            first, last = ends if step > 0 else ends[::-1]
            if first is None or last is None or abs(step) >= _LONG_STEP:
                return None
            try:
                distance = last.minus(first)
                if distance is None or abs(step) == 1:
                    return distance
                return (distance + constant(abs(step) - 1)) // constant(abs(step))
            except NoPolynomialError:
                return None
        case v.Zipped(parts=parts):
            counts = [count for part in parts if (count := count_polynomial(part)) is not None]
            return counts[0] if counts else None
        case v.Computed(type=TensorType(shape=(dim, *_))):
            return as_polynomial(dim)
    return None


def _same_count(counts: Sequence[int | v.Computed], span: Span) -> int | v.Computed:
    """Return the number of items of all of several iterables; have the program raise ValueError otherwise."""
    message = "zip: with strict=True the iterables must have the same length"
    static_counts = {number for number in counts if isinstance(number, int)}
    if len(static_counts) > 1:
        raise v.RefusalError(message, span)
    dynamic = [number for number in counts if not isinstance(number, int)]
    if not dynamic:
        return static_counts.pop()
    first, *others = dynamic
    for other in (*others, *(number_constant(number, "int64", span) for number in static_counts)):
        first = apply("python.require", span, first, apply("equal", span, first, other), message=message)
    return weak_int(first)


def _hint(value: v.Value) -> str | None:
    if isinstance(value, v.ScheduledRange):
        return "it stands at the head of a `for` statement, alone"
    if isinstance(value, v.Dimension):
        return "write range(n) of it"
    if isinstance(value, v.Known) and isinstance(value.value, int):
        return f"write range({value.value})"
    if is_tensor(value):
        return "go over range(n), or over the rows of a tensor of rank 1 or more"
    return None


def _range_count(start: v.Operand, stop: v.Operand, step: int, span: Span) -> int | v.Computed:
    """Return ceil((stop - start) / step); negative for some empty ranges, which a loop's test accepts."""
    first, last = (start, stop) if step > 0 else (stop, start)
    if abs(step) >= _LONG_STEP:
        return _count_of_long_steps(first, last, abs(step), span)
    distance = last
    if first.value != v.Known(0):
        distance = _cancel(last, first, span) or v.Operand(
            binary(BuiltinOp.Sub, "-", last, first, span), span
        )
    result = distance.value
    if isinstance(result, v.Known):
        assert isinstance(result.value, int)
        return max(0, -(-result.value // abs(step)))
    size = abs(step)
    if size != 1:
        shifted = binary(BuiltinOp.Add, "+", distance, v.Operand(v.Known(size - 1), span), span)
        result = binary(
            BuiltinOp.FloorDiv, "//", v.Operand(shifted, span), v.Operand(v.Known(size), span), span
        )
    assert isinstance(result, v.Computed)
    return result


def _cancel(last: v.Operand, first: v.Operand, span: Span) -> v.Operand | None:
    """Return a difference in which something cancels: of ``i + r + 1`` and ``i - r`` this is ``2*r + 1``.

    Integers wrap, so the two are the same of any numbers.
    """
    terms: Counter[ir.Expr | None] = Counter()
    shared: list[set[ir.Expr]] = []
    for operand, factor in ((last, 1), (first, -1)):
        own: Counter[ir.Expr | None] = Counter()
        if not _add_terms(own, operand.value, factor):
            return None
        shared.append({term for term in own if term is not None})
        for term, count in own.items():
            terms[term] += count
    if not any(terms[term] == 0 for term in shared[0] & shared[1]):
        return None
    number = terms.pop(None, 0)
    if abs(number) >= _LONG_STEP:
        return None
    result: v.Value = v.Known(number)
    for term, factor in terms.items():
        if factor and term is not None:
            value: v.Value = weak_int(v.Computed(term, TensorType((), "int64")))
            if factor != 1:
                value = binary(
                    BuiltinOp.Mul, "*", v.Operand(value, span), v.Operand(v.Known(factor), span), span
                )
            result = binary(BuiltinOp.Add, "+", v.Operand(value, span), v.Operand(result, span), span)
    return v.Operand(result, span)


def _add_terms(terms: Counter[ir.Expr | None], value: v.Value, factor: int) -> bool:
    """Add the terms of an integer with their factors, the number under None; return whether it is one."""
    if isinstance(value, v.Known) and type(value.value) is int:
        terms[None] += factor * value.value
        return True
    if not isinstance(value, v.Computed) or value.type != TensorType((), "int64"):
        return False
    work = [(value.expr, factor)]
    while work:
        expr, times = work.pop()
        match expr:
            case ir.Call(op=ir.OpRef(name="add" | "subtract" as name), args=(lhs, rhs)):
                work += [(lhs, times), (rhs, times if name == "add" else -times)]
            case ir.Constant(data=data) if data.dtype == np.int64 and not data.ndim:
                terms[None] += times * int(data)
            case _:
                terms[expr] += times
    return True


def _count_of_long_steps(first: v.Operand, last: v.Operand, step: int, span: Span) -> v.Computed:
    """Return ceil((last - first) / step), of which the difference may be beyond 64 bits."""

    def divide(operator: BuiltinOp, symbol: str, value: v.Operand) -> v.Operand:
        return v.Operand(binary(operator, symbol, value, v.Operand(v.Known(step), span), span), span)

    whole = binary(
        BuiltinOp.Sub,
        "-",
        divide(BuiltinOp.FloorDiv, "//", last),
        divide(BuiltinOp.FloorDiv, "//", first),
        span,
    )
    is_more = binary(
        BuiltinOp.GT, ">", divide(BuiltinOp.Mod, "%", last), divide(BuiltinOp.Mod, "%", first), span
    )
    return v.dynamic(binary(BuiltinOp.Add, "+", v.Operand(whole, span), v.Operand(is_more, span), span))


def _smaller(lhs: v.Value, rhs: v.Value, span: Span) -> v.Value:
    tensors = [size if isinstance(size, v.Computed) else _constant(size, span) for size in (lhs, rhs)]
    least = apply("minimum", span, *tensors)
    return v.Computed(least.expr, least.type, weak=True)


def _constant(value: v.Value, span: Span) -> v.Computed:
    assert isinstance(value, v.Known)
    return v.Computed(ir.constant(value.value, "int64", span=span), TensorType((), "int64"))


def items(operand: v.Operand, what: str) -> list[v.Value]:
    """Return all items of a value whose number of items must be static."""
    number = count(operand)
    if not isinstance(number, int):
        hint = (
            "compute on a whole tensor at once, as in x * 2 or arange(n) * 2; "
            f"or write a `for` loop: {FILL_A_TENSOR}"
        )
        raise v.RefusalError(
            f"{what} needs a number of items that is known at compile time", operand.span, hint=hint
        )
    if number > MAX_ITEMS:
        raise v.RefusalError(f"{what} of {number} items is too long (at most {MAX_ITEMS})", operand.span)
    return [item(operand, v.Known(index), operand.span) for index in range(number)]


def has_known_items(value: v.Value) -> bool:
    """Return whether items can only be taken at a static index."""
    if isinstance(value, v.Zipped):
        return any(has_known_items(part.value) for part in value.parts)
    return isinstance(value, v.TupleOf)


def item(operand: v.Operand, index: v.Value, span: Span) -> v.Value:
    """Return the item at an index in range: Known, or a weak number."""
    value = operand.value
    match value:
        case v.RangeOf(start=start, step=step):
            stepped = (
                index
                if step == v.Known(1)
                else binary(BuiltinOp.Mul, "*", v.Operand(index, span), v.Operand(step, span), span)
            )
            if start == v.Known(0):
                return _count_from(0, stepped, step)
            first = binary(BuiltinOp.Add, "+", v.Operand(start, span), v.Operand(stepped, span), span)
            return _count_from(least_of(start), first, step)
        case v.Zipped(word="enumerate", parts=(only,)):
            return v.TupleOf((index, item(only, index, span)), written="tuple")
        case v.Zipped(word="reversed", parts=(only,)):
            return item(only, _from_end(count(only), index, span), span)
        case v.Zipped(word=word, parts=parts):
            written = "held" if word == "values" else "tuple"
            return v.TupleOf(tuple(item(part, index, span) for part in parts), written=written)
        case v.ListOfRows(rows=rows, is_table=is_table, columns=columns):
            row = item(v.Operand(rows, operand.span), index, span)
            if columns:
                return tuple_of(row, columns, span)
            is_list = is_table and isinstance(row, v.Computed)
            return v.ListOfRows(row, is_table - 1, is_row=True) if is_list else row  # type: ignore[arg-type]  # it is
        case v.Known(value=str() as text):
            return index_string(text, v.Operand(index, span), span)
        case v.TupleOf(items=items_):
            assert isinstance(index, v.Known)
            assert isinstance(index.value, int)
            keys = v.entries_of(value)
            return items_[index.value] if keys is None else v.known_value(list(keys)[index.value])
    if isinstance(index, v.Known):
        return subscript(operand, [v.Operand(index, span)], span)
    assert isinstance(value, v.Computed)
    assert isinstance(index, v.Computed)
    return apply("take", span, value, index, axis=0)


def _count_from(least: int | None, value: v.Value, step: v.Value) -> v.Value:
    """Return an item of a range that begins with ``least`` or more; it is no less if the range goes up."""
    goes_up = isinstance(step, v.Known) and isinstance(step.value, int) and step.value > 0
    return replace(value, least=least) if goes_up and isinstance(value, v.Computed) else value


def _from_end(number: int | v.Computed, index: v.Value, span: Span) -> v.Value:
    if isinstance(number, int) and isinstance(index, v.Known):
        assert isinstance(index.value, int)
        return v.Known(number - 1 - index.value)
    whole: v.Value = v.Known(number) if isinstance(number, int) else number
    last = binary(BuiltinOp.Sub, "-", v.Operand(whole, span), v.Operand(v.Known(1), span), span)
    return binary(BuiltinOp.Sub, "-", v.Operand(last, span), v.Operand(index, span), span)


def is_silent(value: v.Value) -> bool:
    """Return whether an error in the iterable was already reported."""
    if isinstance(value, v.Zipped):
        return any(is_silent(part.value) for part in value.parts)
    if isinstance(value, v.ScheduledRange):
        return any(map(is_silent, value.ranges))
    if isinstance(value, v.RangeOf):
        return any(map(v.is_failed, (value.start, value.stop, value.step)))
    return v.is_failed(value)
