"""Arrays without elements, whose sizes have names: shapes come from the arguments, never from a quotient."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import nnmagic
from nnmagic.diagnostics import CompileError
from tests.child_process import run_python
from tests.newer_libraries import newer_numpy

CASES: list[tuple[str, tuple[object, ...], list[tuple[int, ...]], Callable[[np.ndarray], object]]] = [
    ("x.reshape(x.shape)", (0, 3, "n"), [(0, 3, 4), (0, 3, 0)], lambda x: x.reshape(x.shape)),
    ("x.reshape(x.shape[0], 0)", ("n", 0), [(4, 0), (0, 0)], lambda x: x.reshape(len(x), 0)),
    ("x.reshape(0, x.shape[0])", ("n", 0), [(4, 0), (0, 0)], lambda x: x.reshape(0, len(x))),
    (
        "x.reshape(x.shape[1], x.shape[0])",
        ("n", "k"),
        [(0, 5), (5, 0), (2, 3)],
        lambda x: x.reshape(x.T.shape),
    ),
    (
        "x.reshape(x.shape[0] * x.shape[1], -1)",
        ("n", "k", 2, "m"),
        [(1, 2, 2, 3), (2, 1, 2, 1)],
        lambda x: x.reshape(x.shape[0] * x.shape[1], -1),
    ),
    (
        "x.reshape(x.shape[2], x.shape[0], x.shape[1])",
        ("a", "b", "c"),
        [(0, 2, 3), (2, 0, 3), (2, 3, 4)],
        lambda x: x.reshape(x.shape[2], *x.shape[:2]),
    ),
    ("ravel(x)", (0, "n"), [(0, 5)], np.ravel),
    ("roll(x, 1)", ("n", 0), [(4, 0), (0, 0)], lambda x: np.roll(x, 1)),
    (
        "roll(x, (2, -3), (0, 1))",
        ("n", "k"),
        [(0, 0), (1, 0), (0, 1), (1, 1), (3, 4), (5, 2)],
        lambda x: np.roll(x, (2, -3), (0, 1)),
    ),
    ("roll(x, (2, 3), (1, -1))", (2, "k"), [(2, 4), (2, 0)], lambda x: np.roll(x, (2, 3), (1, -1))),
    ("roll(x, 7)", ("n", "k"), [(0, 3), (1, 1), (2, 3), (5, 4)], lambda x: np.roll(x, 7)),
    ("diagonal(x)", (0, 1, "n"), [(0, 1, 5), (0, 1, 0)], np.diagonal),
    ("searchsorted(ravel(x), x)", (0, "n"), [(0, 5)], lambda x: np.searchsorted(x.ravel(), x)),
    (
        "take_along_axis(x, argsort(x), axis=0)",
        ("n", 3),
        [(0, 3), (3, 3)],
        lambda x: np.take_along_axis(x, np.argsort(x), axis=0),
    ),
    ("x[[0], [0]]", (3, 4, "n"), [(3, 4, 0), (3, 4, 2)], lambda x: x[[0], [0]]),
    ("x[[0], :, [0]]", (2, "n", 2), [(2, 0, 2), (2, 3, 2)], lambda x: x[[0], :, [0]]),
    (
        "x @ x.swapaxes(-1, -2)",
        ("n", 2, "m", 3),
        [(0, 2, 4, 3), (2, 2, 0, 3), (2, 2, 1, 3)],
        lambda x: x @ x.swapaxes(-1, -2),
    ),
    (
        "x @ ones((3, 2), f32)",
        ("n", "m", 3),
        [(0, 4, 3), (4, 0, 3), (2, 2, 3)],
        lambda x: x @ np.ones((3, 2), "f4"),
    ),
    ("kron(x, x)", ("n", "k"), [(0, 2), (2, 0), (2, 3)], lambda x: np.kron(x, x)),
    ("tensordot(x, x, 0)", ("n", "k"), [(0, 2), (2, 3)], lambda x: np.tensordot(x, x, 0)),
    ("diff(x, n=2, axis=0)", ("n", 3), [(0, 3), (1, 3), (2, 3), (4, 3)], lambda x: np.diff(x, n=2, axis=0)),
    ("diff(x, n=3, axis=0)", ("n", 3), [(0, 3), (3, 3), (5, 3)], lambda x: np.diff(x, n=3, axis=0)),
]


@pytest.mark.machine_code
@pytest.mark.sampled(every=3)
@pytest.mark.full("x @ x.swapaxes(-1, -2)")
@pytest.mark.parametrize(("body", "shape", "shapes", "expected"), CASES, ids=[case[0] for case in CASES])
def test_shapes_are_numpys(
    body: str,
    shape: tuple[object, ...],
    shapes: list[tuple[int, ...]],
    expected: Callable[[np.ndarray], np.ndarray],
) -> None:
    written = str(shape).replace("'", '"')
    function = nnmagic.compile(f"def f(x: Tensor[{written}, f32]):\n    return {body}\n", namespace={})
    for size in shapes:
        x = np.random.default_rng(0).integers(0, 5, size).astype(np.float32)
        wanted, result = expected(x), function(x)
        assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype), f"{body} of {size}"
        np.testing.assert_array_equal(result, wanted)


def test_an_index_of_an_empty_axis_is_refused() -> None:
    function = nnmagic.compile('def f(x: Tensor[(3, "n"), f32]):\n    return x[[0], [0]]\n', namespace={})
    with pytest.raises(IndexError, match="index 0 is out of range for an axis of size 0"):
        function(np.zeros((3, 0), np.float32))


def test_temporaries_without_elements_need_no_memory() -> None:
    text = """
def f(x: Tensor[(3, "n", 0, 2), u8], s: u8, w: Tensor[(2, 2), f32]):
    y = bitwise_right_shift(x, absolute(s) % 4)
    return less_equal(x, y), less_equal(y, s), min(w, axis=0), eye(2, 2, -1), arcsin(ones_like(y))
"""
    x, s, w = np.zeros((3, 2, 0, 2), np.uint8), np.uint8(3), np.float32([[1, 2], [0, 3]])
    results = nnmagic.compile(text, namespace={}, cache=False)(x, s, w)
    assert [result.shape for result in results] == [x.shape, x.shape, (2,), (2, 2), x.shape]
    np.testing.assert_array_equal(results[2], [0, 2])


@pytest.mark.sampled(every=2)
@newer_numpy
@pytest.mark.parametrize("shape", ["(0, 0)", '("n", 0)', '(0, "n")', '("n", "m")', '(0, 2, "n")'])
@pytest.mark.parametrize("text", ["x[i]", "x[i, i]", "take(x, i)", "take(x, i, axis=0)", "x[:1][i]"])
@pytest.mark.parametrize("indices", ["(2,)", '("k",)', "()"])
def test_an_index_of_an_empty_axis_is_refused_where_the_result_has_no_elements(
    shape: str, text: str, indices: str
) -> None:
    x = np.zeros(tuple(0 if isinstance(dim, str) else dim for dim in eval(shape)), np.float32)
    i = np.zeros(tuple(2 if isinstance(dim, str) else dim for dim in eval(indices)), np.int64)
    with pytest.raises(IndexError):
        eval(text, {"x": x, "i": i, "take": np.take})
    source = f"def f(x: Tensor[{shape}, f32], i: Tensor[{indices}, i64]):\n    return {text}\n"
    with pytest.raises((IndexError, CompileError), match=r"out of range|no element to take"):
        nnmagic.compile(source, namespace={}, cache=False)(x, i)


@pytest.mark.parametrize("shape", ["(0, 0)", '("n", 0)', '(0, "n")', '("n", "m")'])
def test_no_indices_of_an_empty_axis(shape: str) -> None:
    source = f'def f(x: Tensor[{shape}, f32], i: Tensor[("k",), i64]):\n    return x[i], take(x, i, axis=1)\n'
    function = nnmagic.compile(source, namespace={}, cache=False)
    results = function(np.zeros((0, 0), np.float32), np.zeros(0, np.int64))
    assert [result.shape for result in results] == [(0, 0), (0, 0)]


_CONVOLUTION = "conv2d(x, ones((5, 3, 2, 2), f32), padding=1)"
_POOL = "adaptive_avg_pool2d(x, 2), max_pool2d(x, 2), adaptive_max_pool2d(x, 1), avg_pool2d(x, 3, padding=1)"


@pytest.mark.full('("n", 3, "h", "w")')
@pytest.mark.parametrize("shape", ["(0, 3, 4, 4)", '("n", 3, 4, 4)', '("n", 3, "h", "w")'])
def test_batches_of_no_images_give_pytorchs_shapes(shape: str) -> None:
    source = f"def f(x: Tensor[{shape}, f32]):\n    return {_CONVOLUTION}, {_POOL}\n"
    results = nnmagic.compile(source, namespace={}, cache=False)(np.zeros((0, 3, 4, 4), np.float32))
    shapes = [(0, 5, 5, 5), (0, 3, 2, 2), (0, 3, 2, 2), (0, 3, 1, 1), (0, 3, 2, 2)]
    assert [result.shape for result in results] == shapes


@pytest.mark.machine_code
@pytest.mark.full('conv2d(x, ones((5, 3, 2, 2), f32), padding=1)-("n", 3, "')
@pytest.mark.parametrize("shape", ["(2, 3, 0, 4)", '("n", 3, 0, 4)', '("n", 3, "h", "w")'])
@pytest.mark.parametrize("text", [_CONVOLUTION, *_POOL.split("), ")])
def test_images_without_pixels_are_refused_as_by_pytorch(shape: str, text: str) -> None:
    text += ")" * (text.count("(") - text.count(")"))
    source = f"def f(x: Tensor[{shape}, f32]):\n    return {text}\n"
    with pytest.raises((ValueError, CompileError), match=r"no elements along H of|larger than the"):
        nnmagic.compile(source, namespace={}, cache=False)(np.zeros((2, 3, 0, 4), np.float32))


@pytest.mark.machine_code
@pytest.mark.parametrize("shape", ["(2, 3, 2)", '("n", 3, 2)', '("n", 3, "w")'])
def test_a_kernel_that_fits_nowhere_is_refused_as_by_pytorch(shape: str) -> None:
    source = f"def f(x: Tensor[{shape}, f32]):\n    return conv1d(x, ones((5, 3, 3), f32))\n"
    with pytest.raises((ValueError, CompileError), match="the kernel is larger than the padded data"):
        nnmagic.compile(source, namespace={}, cache=False)(np.zeros((2, 3, 2), np.float32))


@pytest.mark.machine_code
@pytest.mark.parametrize("ddof", [0, 1])
def test_a_variance_of_one_row_or_of_none_is_numpys(ddof: int) -> None:
    source = f'def f(x: Tensor[("n", 2), f64]):\n    return x[:1].var(0, ddof={ddof}), x[:1].mean(0)\n'
    function = nnmagic.compile(source, namespace={}, cache=False)
    for size in (0, 1, 3):
        x = np.arange(2.0 * size).reshape(size, 2)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = x[:1].var(0, ddof=ddof), x[:1].mean(0)
        np.testing.assert_array_equal(function(x), expected)


def test_bools_have_no_gradient_as_in_numpy() -> None:
    with pytest.raises(CompileError, match="gradient takes numbers, not bools"):
        nnmagic.compile(
            'def f(x: Tensor[("n",), bool_]):\n    return gradient(x)\n', namespace={}, cache=False
        )


@pytest.mark.machine_code
@pytest.mark.full
def test_products_over_no_elements_are_zeros_for_no_rows_too() -> None:
    """It was a division by the number of rows, which ended the process."""
    script = """
import numpy as np
import nnmagic

source = '''def f(a: Tensor[(3, "m", 0), f64]):
    return a @ a.mT + eye(a.shape[-2], dtype=f64)
'''
f = nnmagic.compile(source, cache=False)
for m in (0, 1, 4):
    assert np.array_equal(f(np.zeros((3, m, 0))), np.broadcast_to(np.eye(m), (3, m, m)))
"""
    finished = run_python("-c", script)
    assert finished.returncode == 0, finished.stderr


@pytest.mark.machine_code
@pytest.mark.full
@newer_numpy
@pytest.mark.parametrize("dims", ["(3, 0)", '(0, "n")'])
def test_indices_of_assignments_that_change_nothing_are_checked_as_by_numpy(dims: str) -> None:
    shape = tuple(size if isinstance(size, int) else 3 for size in eval(dims))
    for text in ("y[i] = v", "y[:, i] = v", "y[0:0] = x[i]", "y[0:0, i] = 1", "y[[i, i]] = 1"):
        source = (
            f"def f(x: Tensor[{dims}, f64], v: f64, i: i64):\n    y = x.copy()\n    {text}\n    return y\n"
        )
        for index in (0, -3, 5):
            x = np.zeros(shape)
            try:
                exec(text, {"x": x, "y": x.copy(), "v": 2.0, "i": index})
            except IndexError:  # of an axis that has no elements whatever the call, when it is compiled
                with pytest.raises((IndexError, CompileError), match=r"out of range|no element to take"):
                    nnmagic.compile(source, namespace={}, cache=False)(x, 2.0, index)
            else:
                function = nnmagic.compile(source, namespace={}, cache=False)
                assert function(x, 2.0, index).shape == shape


def test_a_first_row_of_no_rows_is_an_error_where_rows_have_no_elements() -> None:
    source = """def f(a: Tensor[("m", 0), f64]):
    path = [a[0]]
    for row in a[1:]:
        path.append(path[-1] + row)
    return array(path), len(path)
"""
    function = nnmagic.compile(source, namespace={}, cache=False)
    rows, count = function(np.zeros((3, 0)))
    assert (rows.shape, count) == ((3, 0), 3)
    with pytest.raises(IndexError):
        function(np.zeros((0, 0)))
