"""Define what layers do in training: dropout by a key, batch normalization by the batch.

PyTorch's reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.dropout.html
"""

from __future__ import annotations

import math

from nnmagic.relay.functions.normalization import scale_channels, standardize
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.signatures import format_type
from nnmagic.relay.types import is_integer
from nnmagic.tinynn.builtins.argument_checks import flag, formula, require_float, static_number
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import arange, size_along, size_of
from nnmagic.tinynn.calls.argument_binding import Arguments
from nnmagic.tinynn.values.operator_calls import call_operator
from nnmagic.tinynn.values.values import Known, Operand, RefusalError, TupleOf, Value

#: 2**32 over the golden ratio, by which counters are spread.
_GOLDEN = 0x9E3779B9


def dropout(call: Arguments) -> Value:
    """Return the data; with a key, zeros at random places, and the others divided by ``1 - p``."""
    share = static_number(call, "p", 0.5)
    if not 0 <= share <= 1:
        raise RefusalError(f"dropout: `p` must be from 0 to 1, not {share!r}", call.at("p"))
    data = formula(call, "x")
    require_float(call, data, "x")
    has_key = "key" in call and call.given["key"].value != Known(None)
    if flag(call, "training", default=has_key):
        if not has_key:
            hint = "give key=, an integer that is another one at each step"
            raise RefusalError("dropout: training needs a key", call.span, hint=hint)
        return _drop(call, data, share).value
    operand = Operand(data.value, call.at("x"))
    result = call_operator(OPERATORS["nn.dropout"], [operand], {"rate": float(share)}, call.span)
    assert isinstance(result, TupleOf)
    return result.items[0]


def _drop(call: Arguments, data: Formula, share: float) -> Formula:
    bits = random_bits(call, data)
    if share == 1:
        return data.op("zeros_like")
    keep = bits >= min(round(share * 2**32), 2**32 - 1)
    return keep.choose(data / (1 - share), 0.0)


def random_bits(call: Arguments, like: Formula) -> Formula:
    """Return 32 random bits for each element of a tensor, a function of the key and of its index."""
    key = formula(call, "key")
    if not is_integer(key.dtype) or key.rank > 1 or (key.rank and not isinstance(key.shape[0], int)):
        message = f"{call.name}: `key` must be an integer, or a vector of them, not a {format_type(key.type)}"
        hint = "give an i64 or, as jax.random.key_data gives it, a vector of u32"
        raise RefusalError(message, call.at("key"), hint=hint)
    state = key.op("zeros_like").cast("uint32") if not key.rank else None
    words = [key]
    if key.rank:
        count = key.shape[0]
        assert isinstance(count, int)
        words = [key.op("take", _integer(key, number), axis=0, mode="fast") for number in range(count)]
    for word in words:
        wide = word.cast("uint64")
        for part in (wide, wide.op("right_shift", 32)):
            low = part.cast("uint32")
            state = _mix(low if state is None else state.op("bitwise_xor", low) + _GOLDEN)
    assert state is not None
    for axis in range(like.rank):
        counter = arange(size_of(like, axis), like.span).cast("uint32") * _GOLDEN
        state = _mix((state.expand(axis) if axis else state) + counter)
    return state


def _integer(key: Formula, number: int) -> Formula:
    return key.cast("int64").like(number)


def _mix(state: Formula) -> Formula:
    """Mix the bits of 32-bit words, a bijection in which each bit depends on all (Wellons' lowbias32)."""
    state = state.op("bitwise_xor", state.op("right_shift", 16)) * 0x21F0AAAD
    state = state.op("bitwise_xor", state.op("right_shift", 15)) * 0x735A2D97
    return state.op("bitwise_xor", state.op("right_shift", 15))


def batch_statistics(call: Arguments, data: Formula) -> Value:
    """Normalize by the mean and variance of the batch; return that, and the new running statistics.

    The data is divided by the biased deviation; the running variance takes the unbiased one, as in PyTorch.
    """
    momentum = static_number(call, "momentum", 0.1)
    epsilon = float(static_number(call, "eps", static_number(call, "epsilon", 1e-5)))
    axes = [axis for axis in range(data.rank) if axis != 1]
    if all(data.shape[axis] == 1 for axis in axes):
        raise RefusalError("batch_norm: a channel with one element has no variance", call.span)
    normal, mean, variance, _ = standardize(data, axes, epsilon)
    result = scale_channels(
        normal, *(formula(call, name) if name in call else None for name in ("weight", "bias"))
    )
    vector = (data.shape[1],)
    old_mean, old_variance = formula(call, "running_mean"), formula(call, "running_var")
    count = old_mean.like(math.prod(dim for axis in axes if isinstance(dim := data.shape[axis], int)))
    for axis in axes:
        if not isinstance(data.shape[axis], int):
            count = count * size_along(data, axis, count)
    unbiased = variance.reshape(vector, data) * (count / (count - 1))
    new_mean = old_mean * (1 - momentum) + mean.reshape(vector, data) * momentum
    new_variance = old_variance * (1 - momentum) + unbiased * momentum
    return TupleOf((result.value, new_mean.value, new_variance.value))
