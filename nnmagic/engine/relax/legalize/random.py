"""Random numbers by Threefry (Salmon et al. 2011), bit for bit Relay's.

A key is ten words: key 0-3, path 4-5, counter 6-7, and 8-9 with the one bit where the path goes on. A split
writes a 0 or a 1 there; a full path, or counter, is hashed into a new key (Claessen and Palka 2013).
Words are unsigned, but the kernels compute with int64, which has the same bits: TVM's constants are signed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812 - TVM's own name for its builder

from nnmagic.engine.relax.legalize.manipulation import product
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value

#: The rotations of eight rounds, for the two pairs of words (Skein, version 1.3).
_ROTATIONS = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))

#: What the last part of a key's schedule is made of, with the key's words (the same).
_PARITY = 0x1BD11BDAA9FC1A22

_ROUNDS = 20
_KEY = 10

#: The leftmost bit, as the number that it is in an int64.
_TOP = -(1 << 63)


def _word(value: int) -> Any:
    return tirx.const(value, "int64")


def _shifted_right(word: Any, count: int) -> Any:
    """Zeros come in from the left."""
    return (word >> _word(count)) & _word((1 << (64 - count)) - 1)


def _below(left: Any, right: Any) -> Any:
    """Whether a word is the smaller one, both without a sign."""
    return (left ^ _word(_TOP)) < (right ^ _word(_TOP))


def _local(size: int) -> Any:
    return T.buffer_proxy(T.alloc_buffer((size,), "int64", scope="local"))


class _Words:
    """A buffer of uint64 read and written as int64."""

    def __init__(self, buffer: Any) -> None:
        self._buffer = T.buffer_proxy(buffer)

    def __getitem__(self, place: Any) -> Any:
        return tirx.reinterpret("int64", self._buffer[place])

    def __setitem__(self, place: Any, word: Any) -> None:
        held = _local(1)  # TVM cannot reinterpret a constant
        held[0] = word
        self._buffer[place] = tirx.reinterpret("uint64", held[0])


def _hash(key: Any, counter: Sequence[Any]) -> list[Any]:
    """Emits the hash of four words under the key in ``key[0:4]``; gives its four words."""
    words, schedule = _local(4), _local(5)
    schedule[4] = _word(_PARITY)
    for place in range(4):
        words[place] = counter[place]
        schedule[place] = key[place]
        schedule[4] = schedule[4] ^ key[place]
    order = [0, 1, 2, 3]  # which of ``words`` is the first, the second, ...: permuted in each round
    for number in range(_ROUNDS):
        if number % 4 == 0:
            part = number // 4
            for place in range(4):
                words[place] = words[place] + schedule[(part + place) % 5]
            words[3] = words[3] + _word(part)
        for pair, rotation in enumerate(_ROTATIONS[number % 8]):
            left, right = order[2 * pair], order[2 * pair + 1]
            words[left] = words[left] + words[right]
            turned = (words[right] << _word(rotation)) | _shifted_right(words[right], 64 - rotation)
            # Threefry has words[left] here. Relay reads both words after it has written the sum; so do we.
            words[right] = (words[left] + words[right]) ^ turned
        order = [order[0], order[3], order[2], order[1]]
    return [words[place] for place in range(4)]


def _is_full(key: Any) -> Any:
    """Whether the path has no place left; Relay never goes on in its second word."""
    return key[8] == _word(0)


def _write(target: Any, words: Sequence[Any]) -> None:
    for place, word in enumerate(words):
        target[place] = word


def _next_place(key: Any) -> tuple[Any, Any]:
    """The bit at which the path goes on, one to the right."""
    return _shifted_right(key[8], 1), tirx.Select(key[8] == _word(1), _word(_TOP), _word(0))


def _split(key: Any, left: Any, right: Any) -> None:
    """Two keys: the path with a 0, and the path with a 1."""
    with T.If(_is_full(key)):
        with T.Then():
            hashed = _hash(key, [key[4 + place] for place in range(4)])
            for half, bit in ((left, 0), (right, _TOP)):
                _write(half, [*hashed, *map(_word, (bit, 0, 0, 0, 1 << 62, 0))])
        with T.Else():
            for half in (left, right):
                _write(half, [*(key[place] for place in range(8)), *_next_place(key)])
            for place in (4, 5):
                right[place] = key[place] | key[place + 4]


def _with_room(key: Any, count: Any, ready: Any) -> None:
    """The key itself where its counter has room for so many numbers, or the one that comes after it.

    Where the path is full, too, Relay hashes memory beyond an array of its own; here it is a counter of ones,
    which is what it says that it hashes.
    """
    zero = _word(0)
    with T.If(_below(key[7], _word(-1) - count)):
        with T.Then():
            _write(ready, [key[place] for place in range(_KEY)])
        with T.Else(), T.If(_is_full(key)):
            with T.Then():
                hashed = _hash(key, [_word(-1)] * 4)
                _write(ready, [*hashed, zero, zero, zero, zero, _word(_TOP), zero])
            with T.Else():
                path = [key[4] | key[8], key[5] | key[9]]
                kept = [key[place] for place in range(4)]
                _write(ready, [*kept, *path, zero, zero, *_next_place(key)])


def _generate(key: Any, after: Any, numbers: Any, count: Any) -> None:
    """So many words, and the key for what comes after.

    Four words are the hash of one counter. The last block, where it is not full, counts from where the full
    ones end, in the last word of the counter alone.
    """
    count = tirx.convert(count).astype("int64")
    full, rest = tirx.floordiv(count, _word(4)), tirx.floormod(count, _word(4))
    ready = _local(_KEY)
    _with_room(key, count, ready)
    with T.serial(0, full) as block:
        step = block.astype("int64")
        words = _hash(ready, [ready[4 + place] + step for place in range(4)])
        for place, word in enumerate(words):
            numbers[step * 4 + place] = word
    ready[7] = ready[7] + full * 4
    with T.If(rest > 0), T.Then():
        words = _hash(ready, [ready[4 + place] for place in range(4)])
        for place, word in enumerate(words[:3]):
            with T.If(rest > place), T.Then():
                numbers[full * 4 + place] = word
        ready[7] = ready[7] + _word(4)
    ready[6] = _word(0)
    _write(after, [ready[place] for place in range(_KEY)])


def _kernel(body: Callable[..., None], key: Any, shapes: Sequence[Any]) -> Any:
    """What ``body`` writes: arrays of words of these shapes, computed of a key."""

    def emit(ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        with IRBuilder() as builder:
            with T.seq_scope():
                body(*map(_Words, (*ins, *outs)))
            return builder.get()

    return te.extern(list(shapes), [key], emit, dtype=["uint64"] * len(shapes), name="threefry")


def _random_words(key: Any, count: Any) -> Any:
    """The key for what comes after, and so many words."""

    def body(key: Any, after: Any, numbers: Any) -> None:
        _generate(key, after, numbers, count)

    return _kernel(body, key, [(_KEY,), (count,)])


def _threefry_split(key: Any) -> Any:
    return _kernel(_split, key, [(_KEY,), (_KEY,)])


def _flat(index: Sequence[Any], shape: Sequence[Any]) -> Any:
    place: Any = tirx.const(0, "int64")
    for at, length in zip(index, shape, strict=True):
        place = place * length + at
    return place


def _fraction(word: Any, dtype: str) -> Any:
    """A number in [0, 1): random bits as the fraction of a number in [1, 2), less 1."""
    if dtype == "float32":
        bits = (word & _word((1 << 32) - 1)) >> _word(9)
        return tirx.reinterpret(dtype, (bits | _word(127 << 23)).astype("int32")) - tirx.const(1, dtype)
    return tirx.reinterpret(dtype, _shifted_right(word, 12) | _word(1023 << 52)) - tirx.const(1, dtype)


def _rounded(value: Any) -> Any:
    """A product that is rounded before it is added to: LLVM makes no fused instruction of the two."""
    return tirx.call_llvm_pure_intrin(str(value.ty.dtype), "llvm.arithmetic.fence", value)


def _shape(site: OpCall) -> list[Any]:
    shape = site.attrs["out_shape"]
    return site.dims(shape if isinstance(shape, tuple) else (shape,))


def _threefry_generate(site: OpCall) -> Value:
    def compute(key: Any, shape: Any) -> list[Any]:
        after, words = _random_words(key, product(list(shape)))
        return [after, te.compute(shape, lambda *index: words(_flat(index, shape)))]

    return site.te(compute, site.args[0], relax.ShapeExpr(_shape(site)))


def _uniform(site: OpCall) -> Value:
    dtype = str(site.attrs["out_dtype"])

    def compute(key: Any, low: Any, high: Any, shape: Any) -> list[Any]:
        after, words = _random_words(key, product(list(shape)))

        def element(*index: Any) -> Any:
            word = tirx.reinterpret("int64", words(_flat(index, shape)))
            return _rounded(_fraction(word, dtype) * (high() - low())) + low()

        return [after, te.compute(shape, element)]

    return site.te(compute, *site.args, relax.ShapeExpr(_shape(site)))


def _normal(site: OpCall) -> Value:
    """Box and Muller's transform of two uniform numbers."""
    dtype = str(site.attrs["out_dtype"])

    def compute(key: Any, mean: Any, scale: Any, shape: Any) -> list[Any]:
        count = product(list(shape))
        after, words = _random_words(key, 2 * count)

        def element(*index: Any) -> Any:
            place = _flat(index, shape)
            first, second = (
                _fraction(tirx.reinterpret("int64", words(at)), dtype) for at in (place, place + count)
            )
            radius = tirx.sqrt(tirx.const(-2, dtype) * tirx.log(tirx.const(1, dtype) - first))
            sine = tirx.sin(tirx.const(2 * math.pi, dtype) * second)
            return _rounded(radius * sine * scale()) + mean()

        return [after, te.compute(shape, element)]

    return site.te(compute, *site.args, relax.ShapeExpr(_shape(site)))


RULES.update(
    {
        "random.normal": _normal,
        "random.threefry_generate": _threefry_generate,
        "random.threefry_split": lambda site: site.te(_threefry_split, site.args[0]),
        "random.uniform": _uniform,
    }
)
