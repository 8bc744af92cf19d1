"""Legalize random numbers by Threefry (Salmon et al. 2011), bit for bit as in Relay.

A key is ten words: key 0-3, path 4-5, counter 6-7, and 8-9 with the one bit where the path goes on. A split
writes a 0 or a 1 there; a full path, or counter, is hashed into a new key (Claessen and Palka 2013).
Words are unsigned, but the kernels compute with int64, which has the same bits: TVM's constants are signed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tvm import relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812 - TVM's own name for its builder

from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, shape_of
from nnmagic.engine.relax.legalize.reshaping import element_count, reshape_to
from nnmagic.engine.relax.legalize.types import Tensor, Tensors
from nnmagic.engine.relax.tir import vector_math
from nnmagic.engine.relax.tir.builders import is_for_gpu
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, RelaxExpr, Stmt
from nnmagic.relay.expr import Constant

#: The rotations of eight rounds, for the two pairs of words (Skein, version 1.3).
_ROTATIONS = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))

#: The last word of a key's schedule is this, xor the key's words (the same source).
_PARITY = 0x1BD11BDAA9FC1A22

_ROUNDS = 20
_KEY = 10

#: The leftmost bit, as the number that it is in an int64.
_TOP = -(1 << 63)


def _word(value: int) -> PrimExpr:
    return tirx.const(value, "int64")


def _shift_right(word: PrimExpr, count: int) -> PrimExpr:
    """Shift a word right; zeros come in from the left."""
    return (word >> _word(count)) & _word((1 << (64 - count)) - 1)


def _is_less_in_magnitude(lhs: PrimExpr, rhs: PrimExpr) -> PrimExpr:
    """Return whether a word is smaller, both as unsigned numbers."""
    return (lhs ^ _word(_TOP)) < (rhs ^ _word(_TOP))


def _local(size: int) -> Buffer:
    return T.buffer_proxy(T.alloc_buffer((size,), "int64", scope="local"))


class _Words:
    """A buffer of uint64 that is read and written as int64."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = T.buffer_proxy(buffer)

    def __getitem__(self, index: Index) -> PrimExpr:
        return tirx.reinterpret("int64", self._buffer[index])

    def __setitem__(self, index: Index, word: PrimExpr) -> None:
        held = _local(1)  # TVM cannot reinterpret a constant
        held[0] = word
        self._buffer[index] = tirx.reinterpret("uint64", held[0])


def _hash(key: Buffer | _Words, counter: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Emit the hash of four words under the key in ``key[0:4]``, and return its four words."""
    words, schedule = _local(4), _local(5)
    schedule[4] = _word(_PARITY)
    for i in range(4):
        words[i] = counter[i]
        schedule[i] = key[i]
        schedule[4] = schedule[4] ^ key[i]
    order = [0, 1, 2, 3]  # which of ``words`` is the first, the second, ...: permuted in each round
    for number in range(_ROUNDS):
        if number % 4 == 0:
            part = number // 4
            for i in range(4):
                words[i] = words[i] + schedule[(part + i) % 5]
            words[3] = words[3] + _word(part)
        for pair, rotation in enumerate(_ROTATIONS[number % 8]):
            lhs, rhs = order[2 * pair], order[2 * pair + 1]
            words[lhs] = words[lhs] + words[rhs]
            turned = (words[rhs] << _word(rotation)) | _shift_right(words[rhs], 64 - rotation)
            # Threefry has words[left] here. Relay reads both words after it has written the sum; so do we.
            words[rhs] = (words[lhs] + words[rhs]) ^ turned
        order = [order[0], order[3], order[2], order[1]]
    return [words[i] for i in range(4)]


def _is_full(key: _Words) -> PrimExpr:
    """Return whether the path has no bit left; Relay never continues in its second word."""
    return key[8] == _word(0)


def _write(target: Buffer | _Words, words: Sequence[PrimExpr]) -> None:
    for i, word in enumerate(words):
        target[i] = word


def _next_bit(key: _Words) -> tuple[PrimExpr, PrimExpr]:
    """Return the bit at which the path continues, one to the right."""
    return _shift_right(key[8], 1), tirx.Select(key[8] == _word(1), _word(_TOP), _word(0))


def _split(key: _Words, lhs: _Words, rhs: _Words) -> None:
    """Emit two keys: that with a 0 at the end of its path, and that with a 1."""
    with T.If(_is_full(key)):
        with T.Then():
            hashed = _hash(key, [key[4 + i] for i in range(4)])
            for half, bit in ((lhs, 0), (rhs, _TOP)):
                _write(half, [*hashed, *map(_word, (bit, 0, 0, 0, 1 << 62, 0))])
        with T.Else():
            for half in (lhs, rhs):
                _write(half, [*(key[i] for i in range(8)), *_next_bit(key)])
            for i in (4, 5):
                rhs[i] = key[i] | key[i + 4]


def _make_room(key: _Words, count: PrimExpr, ready: Buffer) -> None:
    """Emit the key if its counter has room for ``count`` numbers, else the key that follows it.

    Where the path is full, too, Relay hashes memory beyond an array of its own. Here a counter of ones is
    hashed, as Relay's comment says.
    """
    zero = _word(0)
    with T.If(_is_less_in_magnitude(key[7], _word(-1) - count)):
        with T.Then():
            _write(ready, [key[i] for i in range(_KEY)])
        with T.Else(), T.If(_is_full(key)):
            with T.Then():
                hashed = _hash(key, [_word(-1)] * 4)
                _write(ready, [*hashed, zero, zero, zero, zero, _word(_TOP), zero])
            with T.Else():
                path = [key[4] | key[8], key[5] | key[9]]
                kept = [key[i] for i in range(4)]
                _write(ready, [*kept, *path, zero, zero, *_next_bit(key)])


def _generate(key: _Words, after: _Words, numbers: _Words, count: Extent) -> None:
    """Emit ``count`` words, and the key for the words after them.

    Four words are the hash of one counter. The last block, if it is not full, counts from where the full ones
    end, in the last word of the counter alone.
    """
    count = tirx.convert(count).astype("int64")
    full, partial = tirx.floordiv(count, _word(4)), tirx.floormod(count, _word(4))
    ready = _local(_KEY)
    _make_room(key, count, ready)
    with T.serial(0, full) as block:
        step = block.astype("int64")
        words = _hash(ready, [ready[4 + i] + step for i in range(4)])
        for i, word in enumerate(words):
            numbers[step * 4 + i] = word
    ready[7] = ready[7] + full * 4
    with T.If(partial > 0), T.Then():
        words = _hash(ready, [ready[4 + i] for i in range(4)])
        for i, word in enumerate(words[:3]):
            with T.If(partial > i), T.Then():
                numbers[full * 4 + i] = word
        ready[7] = ready[7] + _word(4)
    ready[6] = _word(0)
    _write(after, [ready[i] for i in range(_KEY)])


def _kernel(body: Callable[..., None], key: Tensor, shapes: Sequence[Sequence[Extent]]) -> Tensors:
    """Return arrays of words of these shapes, which ``body`` computes from a key."""

    def emit(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        with IRBuilder() as builder:
            with T.seq_scope():
                body(*map(_Words, (*ins, *outs)))
            return builder.get()

    return te.extern(list(shapes), [key], emit, dtype=["uint64"] * len(shapes), name="threefry")


def _random_words(key: Tensor, count: Extent) -> Tensors:
    """Return the key for the words that follow, and ``count`` words."""

    def body(key: _Words, after: _Words, numbers: _Words) -> None:
        _generate(key, after, numbers, count)

    return _kernel(body, key, [(_KEY,), (count,)])


def _threefry_split(key: Tensor) -> Tensors:
    return _kernel(_split, key, [(_KEY,), (_KEY,)])


def _flat_index(index: Sequence[Index], shape: Sequence[Extent]) -> PrimExpr:
    flat: PrimExpr = tirx.const(0, "int64")
    for i, length in zip(index, shape, strict=True):
        flat = flat * length + i
    return flat


def _fraction(word: PrimExpr, dtype: str) -> PrimExpr:
    """Return a number in [0, 1): random bits as the fraction of a number in [1, 2), minus 1."""
    if dtype == "float32":
        bits = (word & _word((1 << 32) - 1)) >> _word(9)
        return tirx.reinterpret(dtype, (bits | _word(127 << 23)).astype("int32")) - tirx.const(1, dtype)
    return tirx.reinterpret(dtype, _shift_right(word, 12) | _word(1023 << 52)) - tirx.const(1, dtype)


def _round_product(value: PrimExpr) -> PrimExpr:
    """Keep LLVM from fusing a product with a following addition, so that the product is rounded."""
    if is_for_gpu():  # an option keeps its compiler from it
        return value
    return tirx.call_llvm_pure_intrin(str(value.ty.dtype), "llvm.arithmetic.fence", value)


def _shape(call: OpCall) -> list[Extent]:
    shape = call.attrs["out_shape"]
    return call.lower_dims(shape if isinstance(shape, tuple) else (shape,))


def _threefry_generate(call: OpCall) -> Value:
    shape = _shape(call)
    after, words = _emit_words(call, element_count(shape))
    return relax.Tuple([after, reshape_to(words, shape)])


def _threefry_generate_like(call: OpCall) -> Value:
    shape = shape_of(call.args[1])
    _, words = _emit_words(call, element_count(shape))
    return reshape_to(words, shape)


def _uniform(call: OpCall) -> Value:
    dtype, shape, standard = str(call.attrs["out_dtype"]), _shape(call), _is_standard(call)
    after, words = _emit_words(call, element_count(shape))

    def compute(words: Tensor, low: Tensor, high: Tensor, shape: Sequence[Extent]) -> Tensor:
        def element(*index: Index) -> PrimExpr:
            number = _fraction(tirx.reinterpret("int64", words(_flat_index(index, shape))), dtype)
            return number if standard else _round_product(number * (high() - low())) + low()

        return te.compute(shape, element)

    numbers = call.te(compute, words, *call.args[1:], relax.ShapeExpr(shape))
    return relax.Tuple([after, call.emit(numbers)])


def _normal(call: OpCall) -> Value:
    """Lower to the Box-Muller transform of two uniform numbers."""
    dtype, shape, standard = str(call.attrs["out_dtype"]), _shape(call), _is_standard(call)
    after, words = _emit_words(call, 2 * element_count(shape))

    def compute(words: Tensor, mean: Tensor, scale: Tensor, shape: Sequence[Extent]) -> Tensor:
        count = element_count(shape)

        def element(*index: Index) -> PrimExpr:
            position = _flat_index(index, shape)
            first, second = (
                _fraction(tirx.reinterpret("int64", words(i)), dtype) for i in (position, position + count)
            )
            radius = tirx.sqrt(tirx.const(-2, dtype) * vector_math.log(tirx.const(1, dtype) - first))
            sine = vector_math.sin(tirx.const(2 * math.pi, dtype) * second)
            return radius * sine if standard else _round_product(radius * sine * scale()) + mean()

        return te.compute(shape, element)

    numbers = call.te(compute, words, *call.args[1:], relax.ShapeExpr(shape))
    return relax.Tuple([after, call.emit(numbers)])


def _is_standard(call: OpCall) -> bool:
    """Return whether the numbers are between 0 and 1, or have the mean 0 and the deviation 1."""
    _, *ends = call.node.args
    return [end.data.item() if isinstance(end, Constant) else None for end in ends] == [0, 1]


def _emit_words(call: OpCall, count: Extent) -> tuple[RelaxExpr, RelaxExpr]:
    """Emit a kernel of random words alone, so that what they become is computed in vectors, by threads.

    Return the key for the words that follow, and the words.
    """
    pair = call.te(lambda key, shape: _random_words(key, shape[0]), call.args[0], relax.ShapeExpr([count]))
    bound = call.emit(pair)
    after, words = (call.emit(relax.TupleGetItem(bound, part)) for part in (0, 1))
    return after, words


RULES.update(
    {
        "random.normal": _normal,
        "random.threefry_generate": _threefry_generate,
        "numpy.random.bits_like": _threefry_generate_like,
        "random.threefry_split": lambda call: call.te(_threefry_split, call.args[0]),
        "random.uniform": _uniform,
    }
)
