"""``convert=True`` takes arguments that lose nothing; ``promote`` says how dtypes meet."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import nnmagic

SOURCE = 'def f(x: Tensor[("n",), f64], k: i64 = 2):\n    return x * float(k)\n'


@pytest.mark.parametrize(
    "value",
    [
        np.array([1.5, 2.5], "float32"),
        np.array([1, 2], "int32"),
        np.array([True, False]),
        [1, 2, 3],
        [0.5, 1.5],
        np.array([1.5, 2.5], ">f8"),
    ],
    ids=str,
)
def test_arguments_that_lose_nothing_are_converted(value: object) -> None:
    f = nnmagic.compile(SOURCE, convert=True)
    for each in (f, pickle.loads(pickle.dumps(f))):
        np.testing.assert_array_equal(each(value, np.int16(3)), np.asarray(value, "float64") * 3)
    if not isinstance(value, np.ndarray) or value.dtype.newbyteorder("=") != np.float64:
        with pytest.raises(TypeError, match=r"'x' must be Tensor\[\(\"n\",\), f64\]"):
            nnmagic.compile(SOURCE)(value)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        ("f32", np.array([1.5], "float64")),
        ("f64", np.array([1], "int64")),
        ("i32", np.array([1], "int64")),
        ("u32", np.array([1], "int32")),
        ("i64", [1.5]),
        ("u8", [300]),
        ("f32", [1e300]),
        ("f32", ["a"]),
    ],
    ids=str,
)
def test_what_may_lose_something_is_refused(annotation: str, value: object) -> None:
    f = nnmagic.compile(f'def f(x: Tensor[("n",), {annotation}]):\n    return x\n', convert=True)
    with pytest.raises((TypeError, ValueError), match="argument 'x' must be"):
        f(value)


def test_open_types_take_lists() -> None:
    f = nnmagic.compile("def f(x: Tensor[..., f64], y):\n    return x.sum() + y.sum()\n", convert=True)
    assert f(np.ones(3, "float32"), [0.5, 1.5]) == 5.0


def test_both_are_part_of_the_key() -> None:
    keys = {
        nnmagic.compile(SOURCE, **options).cache_info.key
        for options in ({}, {"promote": True}, {"promote": False}, {"convert": True})
    }
    assert len(keys) == 4
    with pytest.raises(TypeError, match="promote must be True, False or None"):
        nnmagic.compile(SOURCE, promote=1)


@pytest.mark.parametrize(
    ("given", "converts"),
    [
        (np.ones(3, np.float32), True),
        ([1, 2, 3], True),
        (np.ones(3, np.int64), False),
        (np.ones((3, 1), np.float32), False),
        (["a"], False),
    ],
)
def test_the_message_says_whether_convert_would_do(given: object, converts: bool) -> None:
    source = "def f(x: Tensor[(3,), f64]):\n    return x\n"
    with pytest.raises(TypeError) as caught:
        nnmagic.compile(source)(given)
    hint = ", or in every call: %%tinynn --convert, in a file convert=True"
    assert str(caught.value).endswith(hint) == converts
    if converts:
        np.testing.assert_array_equal(nnmagic.compile(source, convert=True)(given), given)
