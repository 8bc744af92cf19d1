"""Questions about types are answered at compile time; tinynn/operators/dtype_questions compares dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnmagic

#: Questions about a vector ``x`` of f64 and an i64 ``k``, which Python answers alike.
QUESTIONS = [
    *("x.dtype == np.float64", "x.dtype == np.float32", "x.dtype != np.float32", "x.dtype == 'float64'"),
    *("x.dtype == 'f8'", "x.dtype == float", "x.dtype == int", "np.float64 == x.dtype", "x.dtype == k.dtype"),
    *("x.dtype.kind == 'f'", "x.dtype.name", "x.dtype.itemsize == 8", "x.ndim == 1", "len(x.shape) == 1"),
    *(
        "isinstance(x, np.ndarray)",
        "isinstance(x, tuple)",
        "isinstance(x.shape, tuple)",
        "isinstance(x, dict)",
    ),
    *(
        "isinstance((x, 1), tuple)",
        "isinstance(3, int)",
        "isinstance(3, float)",
        "isinstance(3.0, (int, float))",
    ),
    *(
        "isinstance(True, bool)",
        "isinstance(True, int)",
        "isinstance('a', str)",
        "isinstance(None, type(None))",
    ),
    *(
        "isinstance(1j, complex)",
        "isinstance({'a': 1}, dict)",
        "isinstance(x.ndim, int)",
        "isinstance(x, str)",
    ),
    *("np.issubdtype(x.dtype, np.floating)", "np.issubdtype(x.dtype, np.integer)"),
    *("np.issubdtype(x.dtype, np.number)", "not isinstance(x, (tuple, list))"),
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_as_python_answers_it(question: str) -> None:
    x, k = np.arange(3.0), np.int64(2)
    expected = eval(question, {"np": np, "x": x, "k": k})
    source = f'def f(x: Tensor[("n",), f64], k: i64):\n    return 1 if {question} else 0\n'
    function = nnmagic.compile(source, namespace={"np": np}, engine="numpy", cache=False)
    assert function(x, k) == bool(expected)


@pytest.mark.parametrize("given", [(1.0, 2.0), [1.0, 2.0], (), [], (np.ones(2), 1), [np.ones(2), np.ones(3)]])
def test_a_list_is_no_tuple(given: Any) -> None:
    def asked(x):  # type: ignore[no-untyped-def]
        either = [x] if len(x) else (x,)
        exact = type(x) == list, type(x) is not tuple, type(x) == np.ndarray, type(x) != str  # noqa: E721
        return isinstance(x, list), isinstance(x, tuple), isinstance(either, list), *exact

    assert nnmagic.function(asked, engine="numpy")(given) == asked(given)


@pytest.mark.parametrize("number", ["np.sqrt(x.shape[-1])", "np.log(2.5)", "np.float64(2.7)"])
@pytest.mark.parametrize("dtype", ["np.float32", "np.int64", "x.dtype"])
def test_numbers_of_numpy_functions_are_converted(number: str, dtype: str) -> None:
    source = f"def f(x):\n    s = {number}\n    return x * s.astype({dtype})\n"
    x = np.arange(6, dtype="f4").reshape(2, 3)
    names: dict[str, Any] = {"np": np}
    exec(source, names)
    result = nnmagic.compile(source, namespace={"np": np}, engine="numpy", cache=False)(x)
    np.testing.assert_allclose(result, names["f"](x), rtol=1e-6)


def test_the_branch_that_is_not_taken_is_not_checked() -> None:
    @nnmagic.function(engine="numpy")
    def total(x):  # type: ignore[no-untyped-def]
        if isinstance(x, tuple):
            return x[0].sum() + x[1].sum()
        if isinstance(x, (int, float)):
            return x + 1
        if x.dtype == np.float32:
            return x.sum() * 2
        return x.sum()

    data = np.arange(3.0)
    results: list[Any] = [total((data, data)), total(3), total(2.5), total(data), total(data.astype("f4"))]
    assert [float(result) for result in results] == [6, 4, 3.5, 3, 6]


def test_the_dtypes_of_a_cell_are_compared() -> None:
    source = (
        "def f(x: Tensor[(2,), f32]):\n    return x.dtype == f32, x.dtype == f64, x.dtype in (f16, f32)\n"
    )
    assert list(map(bool, nnmagic.compile(source, engine="numpy")(np.ones(2, "f4")))) == [True, False, True]


def test_an_unknown_kind_is_refused_where_it_is() -> None:
    with pytest.raises(nnmagic.TinyNNError, match="not for `Leaf`") as caught:
        nnmagic.compile("def f(x: f64):\n    return isinstance(x, Leaf)\n", cache=False)
    assert caught.value.diagnostics[0].hint is None  # no constructor made an f64
