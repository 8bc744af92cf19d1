"""Make the ranges that say how a loop is to run, such as ``parallel`` and ``tiled``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from synr.ast import BuiltinOp

from nnmagic.diagnostics import Span
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.operators.arithmetic import binary
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.operator_calls import apply
from nnmagic.tinynn.values.symbolic_sizes import weak_int

#: Returns the range of a call of ``range`` with these arguments.
RangeMaker = Callable[[Arguments], v.Value]


def scheduled_ranges(make_range: RangeMaker) -> dict[str, Builtin]:
    """Return the functions, by name; ``make_range`` is that of ``range``."""
    maker = _Maker(make_range)
    one = {
        "parallel": "Range whose rounds threads share; they must be independent.",
        "prange": "numba's: `parallel` where that can be, else `range`.",
        "vectorized": "Range of an innermost loop whose rounds are independent, and become vectors.",
        "unrolled": "Range whose rounds are written out.",
    }
    table = {
        name: Builtin(name, "start stop? step?=1", maker.single(name), summary)
        for name, summary in one.items()
    }
    table["grid"] = Builtin("grid", "*stops", maker.grid, "Ranges inside one another, as nested loops.")
    table["ndindex"] = replace(table["grid"], name="ndindex")
    summary = "The same in tiles: first the numbers of rounds, then the sizes of a tile."
    table["tiled"] = Builtin("tiled", "*stops_and_sizes", maker.tiled, summary)
    return table


def _with_known_step(bounds: v.RangeOf, span: Span) -> v.RangeOf:
    """Return a range whose step is known at compile time. Raises RefusalError for another."""
    if not isinstance(bounds.step, v.Known):
        message = "the step of a range that says how it runs must be known at compile time"
        raise v.RefusalError(message, span, hint="write range(start, stop, step)")
    return bounds


@dataclass(frozen=True, slots=True)
class _Maker:
    make_range: RangeMaker

    def single(self, word: str) -> Callable[[Arguments], v.Value]:
        def make(call: Arguments) -> v.Value:
            arguments = call.given
            if isinstance(arguments["start"].value, v.RangeOf) and len(arguments) == 1:
                return v.ScheduledRange(word, (_with_known_step(arguments["start"].value, call.span),))
            return v.ScheduledRange(word, (self._range(arguments, call.span),))

        return make

    def _range(self, given: Mapping[str, v.Operand], span: Span) -> v.RangeOf:
        range_ = self.make_range(Arguments("range", dict(given), span))
        assert isinstance(range_, v.RangeOf)
        return _with_known_step(range_, span)

    def _ranges(self, stops: Sequence[v.Value], span: Span) -> tuple[v.RangeOf, ...]:
        made = (
            stop if isinstance(stop, v.RangeOf) else self._range({"start": v.Operand(stop, span)}, span)
            for stop in stops
        )
        return tuple(_with_known_step(bounds, span) for bounds in made)

    def grid(self, call: Arguments) -> v.Value:
        stops = call.given["stops"].value
        assert isinstance(stops, v.TupleOf)
        if not stops.items:
            raise v.RefusalError("grid: it needs a number of rounds", call.span, hint="write grid(n, m)")
        return v.ScheduledRange("grid", self._ranges(stops.items, call.span))

    def tiled(self, call: Arguments) -> v.Value:
        value = call.given["stops_and_sizes"].value
        assert isinstance(value, v.TupleOf)
        half, odd = divmod(len(value.items), 2)
        if odd or not half:
            message = "tiled: it takes a number of rounds for each loop, then a size for each of them"
            raise v.RefusalError(message, call.span, hint="write tiled(n, m, 32, 32)")
        sizes: list[int] = []
        for size in value.items[half:]:
            number = v.static_or(size, None)
            if not isinstance(number, int) or isinstance(number, bool) or number < 1:
                message = f"tiled: the size of a tile is a number above 0 that is known, not {describe(size)}"
                raise v.RefusalError(message, call.span, hint="write tiled(n, m, 32, 32)")
            sizes.append(number)
        return v.ScheduledRange("tiled", self._ranges(value.items[:half], call.span), tuple(sizes))


def tile_range(bounds: v.RangeOf, size: int, first: v.Operand, span: Span) -> v.RangeOf:
    """Return the rounds of a range from ``first`` on, ``size`` of them or those that are left."""
    step = bounds.step
    assert isinstance(step, v.Known)
    assert isinstance(step.value, int)
    end = binary(BuiltinOp.Add, "+", first, v.Operand(v.Known(size * step.value), span), span)
    stop = v.Operand(bounds.stop, span)
    if isinstance(end, v.Known) and isinstance(bounds.stop, v.Known):
        assert isinstance(end.value, int)
        assert isinstance(bounds.stop.value, int)
        nearer = min if step.value > 0 else max
        return v.RangeOf(first.value, v.Known(nearer(end.value, bounds.stop.value)), step)
    operator = "minimum" if step.value > 0 else "maximum"
    nearest = apply(operator, span, _number(v.Operand(end, span)), _number(stop))
    return v.RangeOf(first.value, weak_int(nearest), step)


def _number(operand: v.Operand) -> v.Computed:
    from nnmagic.tinynn.values.numbers import number_constant

    value = operand.value
    if isinstance(value, v.Known):
        return number_constant(value.value, "int64", operand.span)  # type: ignore[arg-type]  # an int
    assert isinstance(value, v.Computed)
    return value
