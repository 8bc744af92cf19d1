"""Say what random numbers are: NumPy's, and Threefry's (Salmon et al. 2011) as Relay has it, bit for bit.

A key is ten words: key 0-3, path 4-5, counter 6-7, and 8-9 with the one bit where the path goes on.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnmagic.relay.generators import draw, seeded
from nnmagic.relay.reference.eval_call import Array, EvalCall, Rule

_ROTATIONS = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))
_PARITY = np.uint64(0x1BD11BDAA9FC1A22)
_ROUNDS = 20
_TOP, _ONES = 1 << 63, (1 << 64) - 1


def _words(*values: int) -> Any:
    return np.array(values, np.uint64)


def _hash(key: Array, counters: Array) -> Array:
    """Return the hashes of counters, each a row of four words, under the first four words of a key."""
    words = [counters[:, i].copy() for i in range(4)]
    schedule = [*key[:4], np.bitwise_xor.reduce([*key[:4], _PARITY])]
    order = [0, 1, 2, 3]
    for number in range(_ROUNDS):
        if number % 4 == 0:
            block = number // 4
            for i in range(4):
                words[i] += schedule[(block + i) % 5]
            words[3] += np.uint64(block)
        for pair, rotation in enumerate(_ROTATIONS[number % 8]):
            lhs, rhs = order[2 * pair : 2 * pair + 2]
            words[lhs] = words[lhs] + words[rhs]
            turned = (words[rhs] << np.uint64(rotation)) | (words[rhs] >> np.uint64(64 - rotation))
            # Threefry has words[left] here. Relay reads both words after it has written the sum.
            words[rhs] = (words[lhs] + words[rhs]) ^ turned
        order = [order[0], order[3], order[2], order[1]]
    return np.stack(words, axis=1)


def _next_bit(key: Array) -> Any:
    """Return the bit at which the path continues, one to the right."""
    return _words(int(key[8]) >> 1, _TOP if key[8] == 1 else 0)


def _split(_given: EvalCall, key: Array) -> Any:
    """Return two keys: that with a 0 at the end of its path, and that with a 1."""
    if key[8] == 0:  # the path is full: it becomes a key
        hashed = _hash(key, key[np.newaxis, 4:8])[0]
        return tuple(np.concatenate((hashed, _words(bit, 0, 0, 0, 1 << 62, 0))) for bit in (0, _TOP))
    lhs = np.concatenate((key[:8], _next_bit(key)))
    rhs = lhs.copy()
    rhs[4:6] |= key[8:10]
    return lhs, rhs


def _with_room(key: Array, count: int) -> Any:
    """Return the key if its counter has room for ``count`` numbers, else the key that follows it."""
    if int(key[7]) < _ONES - count:
        return key.copy()
    if key[8] == 0:
        return np.concatenate((_hash(key, _words(*[_ONES] * 4)[np.newaxis])[0], _words(0, 0, 0, 0, _TOP, 0)))
    return np.concatenate((key[:4], key[4:6] | key[8:10], _words(0, 0), _next_bit(key)))


def _generate(key: Array, count: int) -> tuple[Array, Array]:
    """Return the key for the words that follow, and ``count`` words: four are the hash of one counter."""
    key = _with_room(key, count)
    full, remainder = divmod(count, 4)
    steps = np.arange(full, dtype=np.uint64)[:, np.newaxis]
    words = _hash(key, key[np.newaxis, 4:8] + steps).reshape(-1)
    key[7] += np.uint64(full * 4)
    if remainder:
        words = np.concatenate((words, _hash(key, key[np.newaxis, 4:8])[0, :remainder]))
        key[7] += np.uint64(4)
    key[6] = 0
    return key, words


def _fractions(words: Array, dtype: np.dtype[Any]) -> Any:
    """Return numbers in [0, 1): random bits as the fraction of a number in [1, 2), minus 1."""
    if dtype == np.float32:
        bits = (words & np.uint64(0xFFFFFFFF)) >> np.uint64(9)
        return (bits | np.uint64(127 << 23)).astype(np.uint32).view(np.float32) - np.float32(1)
    return ((words >> np.uint64(12)) | np.uint64(1023 << 52)).view(np.float64) - 1.0


def _shape_and_dtype(call: EvalCall) -> tuple[tuple[int, ...], np.dtype[Any]]:
    _, numbers = call.parts
    return tuple(dim for dim in numbers.shape if isinstance(dim, int)), np.dtype(numbers.dtype)


def _threefry_generate(call: EvalCall, key: Array) -> Any:
    shape, _ = _shape_and_dtype(call)
    after, words = _generate(key, math.prod(shape))
    return after, words.reshape(shape)


def _threefry_generate_like(_given: EvalCall, key: Array, like: Array) -> Any:
    _, words = _generate(key, like.size)
    return words.reshape(like.shape)


def _uniform(call: EvalCall, key: Array, low: Array, high: Array) -> Any:
    shape, dtype = _shape_and_dtype(call)
    after, words = _generate(key, math.prod(shape))
    return after, (_fractions(words, dtype) * (high - low) + low).reshape(shape)


def _normal(call: EvalCall, key: Array, mean: Array, scale: Array) -> Any:
    """Return the Box-Muller transform of two uniform numbers."""
    shape, dtype = _shape_and_dtype(call)
    count = math.prod(shape)
    after, words = _generate(key, 2 * count)
    first, second = _fractions(words[:count], dtype), _fractions(words[count:], dtype)
    radius = np.sqrt(dtype.type(-2) * _in_float64(np.log, dtype.type(1) - first))
    sine = _in_float64(np.sin, dtype.type(2 * math.pi) * second)
    return after, (radius * sine * scale + mean).reshape(shape)


def _in_float64(function: Any, values: Array) -> Any:
    """Apply a function in float64: NumPy's own of float32 is off by some units in the last place."""
    return function(values.astype(np.float64)).astype(values.dtype)


RULES: dict[str, Rule] = {
    "numpy.pcg64": lambda call, state, like, parameters: draw(str(call["function"]), state, like, parameters),
    "numpy.pcg64_seed": lambda _given, seed: seeded(int(seed)),
    "random.threefry_generate": _threefry_generate,
    "numpy.random.bits_like": _threefry_generate_like,
    "random.threefry_split": _split,
    "random.uniform": _uniform,
    "random.normal": _normal,
}
