"""Random numbers, against what real Relay computed, and against what makes numbers random."""

import json

import numpy as np
import pytest

from nnmagic.engine import EngineError
from nnmagic.engine.relax import build
from nnmagic.relay.expr import Function, constant
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.ops.calls import call
from tests.engine.programs import compile_text
from tests.relay import corpus

pytestmark = pytest.mark.sampled(every=3)

#: Measured on real Relay (TVM 0.16, target llvm of the baseline x86-64).
MEASURED = [
    json.loads(line)
    for line in (corpus.FOLDER / "random_numbers.jsonl").read_text(encoding="utf-8").splitlines()
]
PROGRAMS = {}
KEY = "Tensor[(10), uint64]"


def compile_once(text):
    if text not in PROGRAMS:
        PROGRAMS[text] = compile_text(text)
    return PROGRAMS[text]


def key(seed=0, **words):
    """The key that Relay makes of a seed, some words changed: ``w7=3``."""
    made = np.array([seed, 0, 0, 0, 0, 0, 0, 0, 1 << 63, 0], "uint64")
    for name, word in words.items():
        made[int(name[1:])] = word
    return made


def words_of(record):
    """A recorded array; a word may be too large for the int64 that NumPy would make of a list."""
    return np.array(record["data"], record["dtype"]).reshape(record["shape"])


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("record", MEASURED)
def test_the_numbers_are_those_of_real_relay(record):
    result = compile_once(record["text"])([words_of(one) for one in record["inputs"]])
    rough = "normal" in record["text"]  # its logarithm and sine are the C library's
    for got, wanted in zip(result, map(words_of, record["outputs"]), strict=True):
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        if rough and got.dtype.kind == "f":
            np.testing.assert_allclose(got, wanted, rtol=4 * np.finfo(got.dtype).eps, atol=1e-6)
        else:
            np.testing.assert_array_equal(got, wanted)


ROTATIONS = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))
MASK = (1 << 64) - 1


def threefry(key, counter):
    """Relay's hash, in whole numbers: Threefry-4x64-20, but a word is added to the sum once more."""
    parts = [*key, 0x1BD11BDAA9FC1A22 ^ key[0] ^ key[1] ^ key[2] ^ key[3]]
    a, b, c, d = counter
    for number in range(20):
        if number % 4 == 0:
            k = number // 4
            a, b, c, d = (word + parts[(k + i) % 5] & MASK for i, word in enumerate((a, b, c, d + k)))
        left, right = ROTATIONS[number % 8]
        a, c = a + b & MASK, c + d & MASK
        mixed = (a + b ^ (b << left | b >> 64 - left)) & MASK, (c + d ^ (d << right | d >> 64 - right)) & MASK
        d, b = mixed
    return [a, b, c, d]


def test_any_bits_are_a_key():
    generator = np.random.default_rng(5)
    split = compile_once(f"def @main(%k: {KEY}) {{ random.threefry_split(%k) }}")
    draw = compile_once(f"def @main(%k: {KEY}) {{ random.threefry_generate(%k, out_shape=[11]) }}")
    corners = np.array([0, 1, MASK, 1 << 63], "uint64")
    for _ in range(200):
        bits = generator.integers(0, 1 << 64, 10, dtype="uint64")
        bits[generator.integers(0, 10, 5)] = generator.choice(corners, 5)
        words = [int(word) for word in bits]
        if words[8] == 0:
            new = threefry(words[:4], words[4:8])
            expected = [[*new, bit << 63, 0, 0, 0, 1 << 62, 0] for bit in (0, 1)]
        else:
            position = [words[8] >> 1, (words[8] == 1) << 63]
            right = [*words[:4], words[4] | words[8], words[5] | words[9], *words[6:8]]
            expected = [[*words[:8], *position], [*right, *position]]
        np.testing.assert_array_equal(split([bits]), np.array(expected, "uint64"))
        if words[7] >= MASK - 11:
            continue
        blocks = [threefry(words[:4], [word + i & MASK for word in words[4:8]]) for i in range(2)]
        last = threefry(words[:4], [*words[4:7], words[7] + 8])
        after, numbers = draw([bits])
        np.testing.assert_array_equal(numbers, np.array([*blocks[0], *blocks[1], *last[:3]], "uint64"))
        words[6:8] = 0, words[7] + 12 & MASK
        np.testing.assert_array_equal(after, np.array(words, "uint64"))


def test_a_counter_and_a_path_that_are_full_make_a_new_key():
    """Where both are, Relay hashes memory that it does not own; here the result is always the same."""
    draw = compile_once(f"def @main(%k: {KEY}) {{ random.threefry_generate(%k, out_shape=[7]) }}")
    full = key(3, w7=(1 << 64) - 2, w8=0)
    after, numbers = draw([full])
    np.testing.assert_array_equal(after[4:], [0, 0, 0, 8, 1 << 63, 0])
    assert len({*after[:4], *full}) == 4 + 3
    np.testing.assert_array_equal(draw([full])[1], numbers)


def test_a_key_as_a_constant_gives_the_same_numbers():
    words = key((1 << 64) - 5, w4=1 << 63, w5=(1 << 63) + 1)
    numbers = call("random.threefry_generate", [constant(words)], out_shape=(5,))
    drawn = build(infer_type(Module({"main": Function((), numbers)})), "main")([])
    given = compile_once(f"def @main(%k: {KEY}) {{ random.threefry_generate(%k, out_shape=[5]) }}")([words])
    for one, other in zip(drawn, given, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform_and_normal_numbers_are_distributed_as_they_should(dtype):
    low, high, mean, scale = (f'cast({number}f, dtype="{dtype}")' for number in (-1, 3, 5, 2))
    shape = f'out_shape=[100, 1000], out_dtype="{dtype}"'
    text = f"""def @main(%k: {KEY}) {{
      %0 = random.uniform(%k, {low}, {high}, {shape});
      %1 = random.normal(%0.0, {mean}, {scale}, {shape});
      (%0.1, %1.1) }}"""
    uniform, normal = compile_once(text)([key(42)])
    assert (uniform.min() >= -1, uniform.max() < 3) == (True, True)
    np.testing.assert_allclose(np.quantile(uniform, [0.25, 0.5, 0.75]), [0, 1, 2], atol=0.03)
    np.testing.assert_allclose([normal.mean(), normal.std()], [5, 2], atol=0.03)
    within = np.abs(normal - 5) < 2
    assert abs(within.mean() - 0.6827) < 0.01
    assert abs(np.corrcoef(uniform.ravel(), normal.ravel())[0, 1]) < 0.02


def test_a_key_in_branches_closures_and_references():
    text = f"""def @main(%c: bool, %k: {KEY}) {{
      let %r = ref(%k);
      let %draw = fn () {{
        let %pair = random.threefry_generate(ref_read(%r), out_shape=[3]);
        let %done = ref_write(%r, %pair.0);
        %pair.1
      }};
      let %a = %draw();
      let %b = if (%c) {{ %draw() }} else {{ %a }};
      (%a, %b, ref_read(%r)) }}"""
    plain = compile_once(f"def @main(%k: {KEY}) {{ random.threefry_generate(%k, out_shape=[3]) }}")
    start = key(1)
    first = plain([start])
    second = plain([first[0]])
    for condition, (after, numbers) in ((True, second), (False, first)):
        result = compile_once(text)([np.array(condition), start])
        for got, wanted in zip(result, (first[1], numbers, after), strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_a_shape_that_nobody_knows_is_refused():
    text = f"def @main(%k: {KEY}) {{ random.threefry_generate(%k, out_shape=[?]) }}"
    with pytest.raises(EngineError, match="dimension"):
        compile_text(text)
