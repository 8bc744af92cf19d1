"""Functions whose work depends on a size that only the call knows, beside NumPy, from no elements on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import nnmagic

_GENERATOR = np.random.default_rng(0)

VECTOR, MATRIX = "x: Tensor[('n',), f32]", "x: Tensor[('n', 'm'), f32]"


def _normal(*shape: int) -> np.ndarray:
    return _GENERATOR.standard_normal(shape).astype("float32")


VECTORS = [
    *map(_normal, (0, 1, 2, 3, 4, 5, 17)),
    *(np.array(values, "float32") for values in ([1, np.nan, 2], [-0.0], [-0.0] * 4, [np.inf, -np.inf])),
    *(np.full(count, 3e38, "float32") for count in (1, 2)),
]
MATRICES = [_normal(*shape) for shape in ((0, 0), (0, 3), (3, 0), (1, 1), (1, 4), (4, 1), (3, 5), (5, 3))]


def _assert_as_numpy(
    body: str, parameters: str, calls: Sequence[Sequence[np.ndarray]], expected: Callable[..., Any]
) -> None:
    source = f"def f({parameters}):\n    return {body}\n"
    f = nnmagic.compile(source, namespace={"np": np}, cache=False)
    for arguments in calls:
        with np.errstate(all="ignore"):
            wanted = expected(*arguments)
        got = f(*arguments)
        pairs = zip(got, wanted, strict=True) if isinstance(got, tuple) else [(got, wanted)]
        for result, numpys in pairs:
            assert result.dtype == np.asarray(numpys).dtype
            np.testing.assert_allclose(result, numpys, rtol=1e-5, atol=1e-7)
            zeros = np.asarray(numpys) == 0
            np.testing.assert_array_equal(np.signbit(result)[zeros], np.signbit(numpys)[zeros])


@pytest.mark.sampled(every=2)
@pytest.mark.full("median(x)-median")
@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("median(x)", np.median),
        ("eye(len(x))", lambda x: np.eye(len(x))),
        ("eye(len(x), 3, 1)", lambda x: np.eye(len(x), 3, 1)),
        ("eye(3, len(x), -1, dtype=f32)", lambda x: np.eye(3, len(x), -1, dtype="float32")),
        ("identity(len(x) + 1)", lambda x: np.identity(len(x) + 1)),
        ("tri(len(x), 4, 1)", lambda x: np.tri(len(x), 4, 1)),
        ("diag(x)", np.diag),
        ("diag(x, 2)", lambda x: np.diag(x, 2)),
        ("diag(x, -1)", lambda x: np.diag(x, -1)),
        ("linspace(-1.5, 2.0, len(x))", lambda x: np.linspace(-1.5, 2.0, len(x))),
        ("linspace(5, 5, len(x), dtype=f32)", lambda x: np.linspace(5, 5, len(x), dtype="float32")),
        ("linspace(0, 9, len(x), endpoint=False)", lambda x: np.linspace(0, 9, len(x), endpoint=False)),
        ("linspace(0, 9, len(x), dtype=i32)", lambda x: np.linspace(0, 9, len(x), dtype="int32")),
        ("linspace(0, 1, len(x), retstep=True)", lambda x: np.linspace(0, 1, len(x), retstep=True)),
        ("linspace(0, 5e-324, len(x))", lambda x: np.linspace(0, 5e-324, len(x))),
        ("f64(len(x))", lambda x: np.float64(len(x))),
        ("np.float32(len(x)) * x", lambda x: np.float32(len(x)) * x),
        ("i32(x.shape[0] * 2)", lambda x: np.int32(len(x) * 2)),
    ],
)
def test_of_vectors(body: str, expected: Callable[..., Any]) -> None:
    _assert_as_numpy(body, VECTOR, [(x,) for x in VECTORS], expected)


@pytest.mark.full
@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.77, 1.0])
def test_quantiles_of_vectors(share: float) -> None:
    some = [(x,) for x in VECTORS if len(x)]
    _assert_as_numpy(f"quantile(x, {share})", VECTOR, some, lambda x: np.quantile(x, share))
    _assert_as_numpy(
        f"percentile(x, [{100 * share}])", VECTOR, some, lambda x: np.percentile(x, [100 * share])
    )


@pytest.mark.machine_code
@pytest.mark.full
def test_there_is_no_quantile_of_no_elements() -> None:
    f = nnmagic.compile(f"def f({VECTOR}):\n    return quantile(x, 0.3)\n", namespace={}, cache=False)
    with pytest.raises(IndexError, match="index 0 is out of range for an axis of size 0"):
        f(np.empty(0, "float32"))


@pytest.mark.full("median(x, axis=0)-<lambda>", "median(x, axis=1, keepdims=True)-<lambda>")
@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("median(x, axis=0)", lambda x: np.median(x, axis=0)),
        ("median(x, axis=1, keepdims=True)", lambda x: np.median(x, axis=1, keepdims=True)),
        ("diagonal(x)", np.diagonal),
        ("diag(x, 1)", lambda x: np.diag(x, 1)),
        ("diagonal(x, -3)", lambda x: np.diagonal(x, -3)),
        ("trace(x, 2)", lambda x: np.trace(x, 2)),
    ],
)
def test_of_matrices(body: str, expected: Callable[..., Any]) -> None:
    _assert_as_numpy(body, MATRIX, [(x,) for x in MATRICES], expected)


def test_the_diagonal_of_a_square_matrix_has_its_size() -> None:
    square = "x: Tensor[('n', 'n'), f32]"
    _assert_as_numpy("diagonal(x) + x[0]", square, [(_normal(4, 4),)], lambda x: np.diagonal(x) + x[0])


def test_the_diagonal_of_other_axes() -> None:
    calls = [(_normal(4, 3, 2),), (_normal(0, 3, 2),)]
    _assert_as_numpy(
        "diagonal(x, 0, 0, 2)", "x: Tensor[('n', 3, 'm'), f32]", calls, lambda x: np.diagonal(x, 0, 0, 2)
    )


@pytest.mark.full
def test_gradients() -> None:
    vectors = [(_normal(count),) for count in (2, 3, 4, 17)]
    _assert_as_numpy("gradient(x, 0.5) + x", VECTOR, vectors, lambda x: np.gradient(x, 0.5) + x)
    matrices = [(x,) for x in MATRICES if min(x.shape) > 1]
    _assert_as_numpy("gradient(x)", MATRIX, matrices, np.gradient)


@pytest.mark.parametrize("count", [0, 1])
def test_a_gradient_needs_two_elements(count: int) -> None:
    f = nnmagic.compile(f"def f({VECTOR}):\n    return gradient(x)\n", namespace={}, cache=False)
    with pytest.raises(IndexError, match=f"index 1 is out of range for an axis of size {count}"):
        f(np.ones(count, "float32"))


@pytest.mark.full
@pytest.mark.parametrize("count", [1, 2, 5])
def test_interpolation(count: int) -> None:
    wanted = np.array([-1, 0, 0.5, 1, 2.7, 9, np.nan], "float32")
    points, values = np.sort(_normal(count)), _normal(count)
    parameters = "q: Tensor[('m',), f32], x: Tensor[('n',), f32], y: Tensor[('n',), f32]"
    calls = [(wanted, points, values), (wanted[:0], points, values)]
    _assert_as_numpy("interp(q, x, y)", parameters, calls, np.interp)
    _assert_as_numpy(
        "interp(q, x, y, left=-5.0, right=7.0)", parameters, calls, lambda q, x, y: np.interp(q, x, y, -5, 7)
    )


@pytest.mark.full
def test_concatenations_and_sums_of_slices_of_two_named_sizes() -> None:
    def joined(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        one, other = np.concatenate((x[1:], y[:-1])), np.concatenate((x[:-1], y[1:]))
        return one + other, (x[1:] + x[:-1])[1:] - x[1:-1], (y[1:] - y[:-1])[::-1], one[1:] * other[:-1]

    results = "one + other, (x[1:] + x[:-1])[1:] - x[1:-1], (y[1:] - y[:-1])[::-1], one[1:] * other[:-1]"
    body = (
        f"    one, other = concatenate((x[1:], y[:-1])), concatenate((x[:-1], y[1:]))\n    return {results}\n"
    )
    source = f"def f(x: Tensor[('n',), f32], y: Tensor[('m',), f32]):\n{body}"
    f = nnmagic.compile(source, namespace={}, cache=False)
    for n, m in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 1), (1, 3), (4, 3), (17, 9)]:
        x, y = _normal(n), _normal(m)
        for result, expected in zip(f(x, y), joined(x, y), strict=True):
            np.testing.assert_array_equal(result, expected)


@pytest.mark.full
def test_differences_of_differences_of_named_sizes_are_numpys() -> None:
    expressions = [f"diff(x, n={n}, axis={axis})" for n in range(5) for axis in (0, 1)]
    expressions += ["diff(diff(x, axis=0), n=3, axis=1)", "diff(x[1:] + x[:-1], n=2, axis=0)[:-1]"]
    _assert_as_numpy(
        ", ".join(expressions),
        MATRIX,
        [(x,) for x in MATRICES],
        lambda x: tuple(eval(each, {"x": x, "diff": np.diff}) for each in expressions),
    )


@pytest.mark.parametrize(
    "items",
    [
        "[len(x)]",
        "[len(x), 2]",
        "[1, len(x) - 1]",
        "[[x.size, 1], [2, x.shape[0]]]",
        "(len(x), len(x) * 0.5)",
    ],
)
def test_sizes_are_items_of_arrays(items: str) -> None:
    source = f"def f(x: Tensor[('n',), f32]):\n    return np.array({items})\n"
    f = nnmagic.compile(source, namespace={"np": np}, cache=False, engine="numpy")
    for count in (0, 1, 5):
        expected = eval(f"np.array({items})", {"np": np, "x": _normal(count)})
        np.testing.assert_array_equal(f(_normal(count)), expected)
        assert f(_normal(count)).dtype == expected.dtype
