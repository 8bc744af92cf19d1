"""An index that several reads share is checked for each size: `engine/relax/legalize/index_checks`."""

import numpy as np
import pytest

import nnmagic

ROWS = np.arange(24, dtype="f4").reshape(8, 3)


@pytest.mark.parametrize("indices", [(1, 100), (100, 1), (-9, 1), (1, -9)])
@pytest.mark.parametrize("shape", ["(8, 3)", "(8,)"])
def test_an_index_out_of_range_raises(shape, indices):
    kind = f"Tensor[{shape}, f32]"
    f = nnmagic.compile(
        f"def f(x: {kind}, y: {kind}, z: {kind}, i: i64, j: i64):\n    return x[i] + y[i] + z[j]\n",
        cache=False,
    )
    x = ROWS if shape == "(8, 3)" else ROWS[:, 0].copy()
    np.testing.assert_array_equal(f(x, x, x, 1, -8), x[1] + x[1] + x[-8])
    with pytest.raises(IndexError):
        f(x, x, x, *indices)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8"])
def test_a_counter_of_any_dtype_paces_a_loop(dtype):
    f = nnmagic.compile(
        f"""def f(n: i64):
    i = {dtype}(0)
    s = 1
    while i < 100:
        s = (s * 31) ^ (s >> 3)
        i = i + {dtype}(1)
    return s
""",
        cache=False,
    )
    s = 1
    for _ in range(100):
        s = ((s * 31) ^ (s >> 3)) & (2**64 - 1)
        s = s - 2**64 if s >= 2**63 else s
    assert f(1) == s
