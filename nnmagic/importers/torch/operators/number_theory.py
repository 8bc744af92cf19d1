"""Import divisors of integers, which a loop over whole tensors finds.

What they compute: https://docs.pytorch.org/docs/stable/generated/torch.gcd.html
"""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.importers.onnx.blocks import OnnxBlock
from nnmagic.importers.onnx.loops import emit_loop
from nnmagic.importers.onnx.values import Value, op
from nnmagic.importers.torch.calls import AtenCall
from nnmagic.importers.torch.mathematics import convert
from nnmagic.importers.torch.registry import operator

#: The dtypes in which C multiplies narrow integers.
_WIDER = {"int8": "int32", "int16": "int32"}


def _remainder(number: Value, divisor: Value) -> Value:
    """Return the remainder of a division that rounds towards 0, as in C; of one by 0 the number."""
    none = divisor.equal(0)
    return none.choose(number, op("trunc_mod", number, none.choose(1, divisor)))


def _divisor(call: AtenCall, first: Value, second: Value) -> Value:
    """Return the greatest common divisors of numbers of one shape, by Euclid's algorithm."""

    def build(block: OnnxBlock, _step: Value, carried: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
        a, b = carried
        none = a.equal(0)
        after = [block.bind(none.choose(a, _remainder(b, a))), block.bind(none.choose(b, a))]
        return _remain(after[0]), after

    start = [call.block.bind(op("abs", number)) for number in (first, second)]
    return emit_loop(call.block, start, None, call.block.bind(_remain(start[0])), build).carried[1]


def _remain(numbers: Value) -> Value:
    """Return whether a number is not 0 yet."""
    left = op("not_equal", numbers, numbers.like(0))
    return op("any", left) if left.rank else left


@operator("gcd", "lcm")
def _common(call: AtenCall) -> Value:
    numbers = [call.expand(convert(call[name], call.dtype), call.shape) for name in ("self", "other")]
    if 0 in call.shape:
        return numbers[0]
    divisor = _divisor(call, *numbers)
    if call.own_name == "gcd":
        return divisor
    first, second, divisor = (
        number.cast(_WIDER.get(call.dtype, call.dtype)) for number in (*numbers, divisor)
    )
    quotient = op("trunc_divide", first, divisor.equal(0).choose(1, divisor))
    return op("abs", quotient * second)
