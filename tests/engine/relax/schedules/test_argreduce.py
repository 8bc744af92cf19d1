"""Places of the best elements of rows: ties, NaN, infinities, zeros of both signs, lengths of all kinds."""

import numpy as np
import pytest

import nnmagic
from tests.engine.relax.codegen.targets import OLDER

DTYPES = {"f32": "f4", "f64": "f8", "i32": "i4", "i8": "i1"}


def draw_values(kind, shape, dtype):
    generator = np.random.default_rng(7)
    x = generator.integers(-3, 3, shape).astype(dtype)
    if kind == "spread":
        x = (generator.standard_normal(shape) * 30).astype(dtype)
    if kind == "not finite":
        for value, share in ((np.inf, 0.05), (-np.inf, 0.05), (np.nan, 0.02)):
            x[generator.random(shape) < share] = value
        x[0] = -np.inf
    if kind == "zeros":
        x = np.where(generator.random(shape) < 0.3, 0.0, -0.0).astype(dtype)
    return x


@pytest.mark.full
@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("target", [None, OLDER], ids=["own", "avx2"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_first_and_last_places(name, dtype, target):
    kinds = ["ties", "spread", *(["not finite", "zeros"] if dtype.startswith("f") else [])]
    for length in (63, 64, 65, 127, 200, 1030):
        result = nnmagic.compile(
            f"def f(x: Tensor[(9, {length}), {dtype}]):\n"
            f"    return {name}(x, axis=1), relay.{name}(x, axis=[1], select_last_index=True)",
            target=target,
            cache=False,
        )
        for kind in kinds:
            x = draw_values(kind, (9, length), DTYPES[dtype])
            first, last = result(x)
            judge = getattr(np, name)
            np.testing.assert_array_equal(first, judge(x, 1), err_msg=f"{kind} {length}")
            expected = length - 1 - judge(x[:, ::-1], 1)
            np.testing.assert_array_equal(last, expected, err_msg=f"{kind} {length}")
