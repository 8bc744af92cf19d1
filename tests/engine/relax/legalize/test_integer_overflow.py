"""Arithmetic of integers that overflows wraps, and what is asked of its results sees that, as in NumPy."""

import numpy as np
import pytest

import nnmagic

DTYPES = {short: np.dtype(name) for short, name in
          [("i8", "int8"), ("i16", "int16"), ("i32", "int32"), ("i64", "int64"),
           ("u8", "uint8"), ("u16", "uint16"), ("u32", "uint32"), ("u64", "uint64")]}  # fmt: skip
TEXTS = {
    "sums": "x + 1 > x; x + x < 0; (x + y) < x; (x - y) > 0; x - y < 0; x + y > y; 2 - x > 2; x + 7 <= 6",
    "products": "x * x < 0; x ** 2 < 0; np.square(x) < 0; (x * y) < (x * 3); x * 2 > y * 2; x * 4 == y * 4",
    "signs": "-x < 0; -x < -y; np.sign(x + y); np.sign(-x); np.maximum(-x, 0); abs(-x); abs(x) < 0",
    "limits": "np.clip(x * 3, 0, 9); np.clip(x + y, 1, 100); np.clip(abs(x), 0, 100); np.maximum(x + 1, x); "
    "np.minimum(x - 1, x); np.where(x + y > 0, x, y)",
    "quotients": "x * 2 // 2 == x; (x * 4) // 4; (x + y) % 5; x * 6 % 3; (x + 1) // 2; (x * 5 + 3) >> 3; "
    "(x + x + x) // 3",
    "differences": "(x + y) - y == x; x + 5 == y + 5; x + 5 < y + 5; x * 3 < y * 3; "
    "(x < x + 1) & (y - 1 < y)",
}


def operands(dtype):
    limits = np.iinfo(dtype)
    most = limits.max
    edges = [
        most,
        limits.min,
        most - 1,
        limits.min + 1,
        0,
        1,
        2,
        3,
        most // 2 + 1,
        limits.min // 2,
        most // 3 + 1,
    ]
    edges = np.array(edges, dtype)
    return np.repeat(edges, len(edges)), np.tile(edges, len(edges))


@pytest.mark.sampled(every=9)
@pytest.mark.parametrize(
    "size",
    [pytest.param("'n'", id="named_length"), pytest.param("121", id="known_length", marks=pytest.mark.full)],
)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", TEXTS)
def test_vectors(kind, dtype, size):
    x, y = operands(DTYPES[dtype])
    texts = TEXTS[kind].split("; ")
    values = ", ".join(texts)
    compiled = nnmagic.compile(
        f"def f(x: Tensor[({size},), {dtype}], y: Tensor[({size},), {dtype}]):\n    return {values}\n",
        namespace={"np": np},
    )
    with np.errstate(all="ignore"):
        expected = [eval(text, {"x": x, "y": y, "np": np}) for text in texts]
    for text, got, wanted in zip(texts, compiled(x, y), expected, strict=True):
        np.testing.assert_array_equal(got, wanted, err_msg=text)


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_in_a_loop(dtype):
    x, y = operands(DTYPES[dtype])
    source = """
for i in range(len(x)):
    a, b = x[i], y[i]
    total = total * 31 + a - b
    if a + b < a:
        count += 1
    if total < b and a * 3 > b:
        count += 2
return total, count"""
    body = source.replace("\n", "\n    ")
    annotated = f'Tensor[("n",), {dtype}]'
    compiled = nnmagic.compile(
        f"def f(x: {annotated}, y: {annotated}):\n    total, count = x[0], 0{body}\n", namespace={"np": np}
    )
    names = {}
    exec(f"def f(x, y):\n    total, count = x[0], 0{body}\n", names)
    with np.errstate(all="ignore"):
        assert tuple(map(int, compiled(x, y))) == tuple(map(int, names["f"](x, y)))
