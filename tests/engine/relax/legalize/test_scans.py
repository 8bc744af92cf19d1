"""Cumulative sums and products against NumPy: dtypes, axes, named dimensions, nothing to add, neighbours."""

import numpy as np
import pytest

from tests.engine.programs import compile_text


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("shape", ["(4, 3, 5)", "(?, ?, 5)"])
def test_axes(dtype, shape):
    x = np.random.default_rng(0).integers(-3, 4, (4, 3, 5)).astype(dtype)
    calls = [f"cum{kind}(%x, axis={axis})" for kind in ("sum", "prod") for axis in (0, 1, -1)]
    calls += ["cumsum(%x, axis=None)", "cumsum(%x, axis=1, exclusive=True)"]
    executable = compile_text(f"def @main(%x: Tensor[{shape}, {dtype}]) {{ ({', '.join(calls)}) }}")
    result = executable([x])
    expected = [scan(x, axis, dtype=dtype) for scan in (np.cumsum, np.cumprod) for axis in (0, 1, -1)]
    expected += [np.cumsum(x, None, dtype=dtype), np.cumsum(x, 1, dtype=dtype) - x]
    for one, other in zip(result, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    if "?" in shape:
        assert executable([x[:0]])[0].shape == (0, 3, 5)
        assert executable([x[:, :0]])[1].shape == (4, 0, 5)


def test_bools_stay_bools():
    x = np.array([False, True, False, True])
    result = compile_text("def @main(%x: Tensor[(4), bool]) { (cumsum(%x, axis=0), cumprod(%x, axis=0)) }")(
        [x]
    )
    np.testing.assert_array_equal(result[0], np.logical_or.accumulate(x))
    np.testing.assert_array_equal(result[1], np.logical_and.accumulate(x))


@pytest.mark.parametrize("shape", ["(3, 4)", "(?, 4)", "(0, 4)"])
def test_between_other_operators(shape):
    inner = "cumsum(reshape(add(%x, 1f), newshape=[-1, 2]), axis=1)"
    x = np.arange(12, dtype="f4").reshape(3, 4)[: 0 if shape.startswith("(0") else 3]
    result = compile_text(f"def @main(%x: Tensor[{shape}, float32]) {{ exp(add({inner}, 1f)) }}")([x])
    np.testing.assert_allclose(result, np.exp(np.cumsum((x + 1).reshape(x.size // 2, 2), 1) + 1), rtol=1e-5)


def test_a_kernel_without_loops_takes_data_of_unknown_size():
    take = compile_text("def @main(%x: Tensor[(?), float32]) { take(%x, 0) }")
    assert take([np.full(5, 3, "f4")]) == 3
