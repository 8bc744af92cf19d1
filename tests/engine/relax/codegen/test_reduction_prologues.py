"""Elements at computed indices that reductions and element-wise operators read where they are."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

pytestmark = pytest.mark.sampled(every=4)

BODIES = [
    "x[s].mean(axis=1)",
    "x[s].sum(axis=0)",
    "np.take(x, s).max(axis=1)",
    "x[s].std(axis=1)",
    "(x[s] * x[s]).sum()",
    "x[s] * 2 + x[s[:, :1]]",
    "np.exp(x)[s].sum(axis=1)",
    "x[s % 3].argmax(axis=1)",
    "np.outer(x, x)[:, s[0]].sum(axis=0)",
    "np.outer(x, x)[s].sum(axis=2)",
    "x[s], x[s].sum(axis=1)",
]


def compiled(body: str, sizes: tuple[object, object, object], index: str):
    n, r, k = (size if isinstance(size, int) else f'"{size}"' for size in sizes)
    source = f"def f(x: Tensor[({n},), f64], s: Tensor[({r}, {k}), {index}]):\n    return {body}\n"
    return nnmagic.compile(source, namespace={"np": np})


@pytest.mark.machine_code
@pytest.mark.parametrize("sizes", [("n", "r", "k"), (40, 30, 33)])
@pytest.mark.parametrize("body", BODIES)
def test_what_is_read_at_indices_and_reduced(body: str, sizes: tuple[object, object, object]) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal(40)
    x[3] = np.nan
    s = rng.integers(-40, 40, (30, 33))
    got, want = compiled(body, sizes, "i64")(x, s), eval(body, {"np": np}, {"x": x, "s": s})
    for ours, numpys in zip(
        *(each if isinstance(each, tuple) else (each,) for each in (got, want)), strict=True
    ):
        assert ours.dtype == numpys.dtype
        np.testing.assert_allclose(ours, numpys, rtol=1e-12)


@pytest.mark.machine_code
@pytest.mark.parametrize("index", ["i32", "u8", "i64"])
def test_indices_of_other_types_and_none_at_all(index: str) -> None:
    function = compiled("x[s].sum(axis=1)", ("n", "r", "k"), index)
    x = np.arange(5.0)
    for shape in ((4, 7), (4, 0), (0, 7)):
        s = np.random.default_rng(1).integers(0 if index == "u8" else -5, 5, shape)
        s = s.astype({"i32": "i4", "u8": "u1", "i64": "i8"}[index])
        np.testing.assert_array_equal(function(x, s), x[s].sum(axis=1))
    np.testing.assert_array_equal(function(x[:0], np.zeros((3, 0), s.dtype)), np.zeros(3))


@pytest.mark.machine_code
@pytest.mark.parametrize("sizes", [("n", "r", "k"), (5, 2, 2)])
@pytest.mark.parametrize("wrong", [5, -6, 2**62, -(2**62), 2**63 - 1, -(2**63)])
def test_an_index_out_of_range_raises(sizes: tuple[object, object, object], wrong: int) -> None:
    function = compiled("x[s].sum(axis=1)", sizes, "i64")
    s = np.array([[-5, 4], [0, wrong]])
    with pytest.raises(IndexError, match=rf"index {wrong} is out of range for an axis of size 5"):
        function(np.arange(5.0), s)


@pytest.mark.full
def test_what_only_looks_like_counting_from_the_end_is_not() -> None:
    for size in ("4", "len(y)"):
        source = (
            'def f(x: Tensor[("n",), f64], y: Tensor[("m",), f64], s: Tensor[("k",), i64]):\n'
            f"    return x[np.where(s < 0, s + {size}, s)]\n"
        )
        x, y, s = np.arange(6.0), np.arange(4.0), np.array([-1, 2, -4])
        want = x[np.where(s < 0, s + 4, s)]
        np.testing.assert_array_equal(nnmagic.compile(source, namespace={"np": np})(x, y, s), want)
