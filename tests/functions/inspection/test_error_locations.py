"""An error of a call tells where in the cell it arose."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

X = np.ones((3, 4), np.float32)

ENDLESS = "def down(n: i64) -> i64:\n    return down(n + 1) + 1\n\ndef f(n: i64):\n    return down(n)\n"
MUTUAL = (
    "def even(n: i64) -> i64:\n    return odd(n - 1) + 1\n\n"
    "def odd(n: i64) -> i64:\n    return even(n - 1) + 1\n"
)
TWO = "def f(x: Tensor[(3, 4), f32], i: i64):\n    y = x[i]\n    return y, x[:, i]\n"
SAME = "def f(x: Tensor[(3, 3), f32], i: i64):\n    y = x[i]\n    return y, x[:, i]\n"


@pytest.mark.parametrize(
    ("source", "arguments", "kind", "message"),
    [
        (
            TWO,
            (X, 3),
            IndexError,
            "axis of size 3\n --> <tinynn>:2:9\n  |\n2 |     y = x[i]\n  |         ^^^^",
        ),
        (TWO, (X, -5), IndexError, "axis of size 3\n --> <tinynn>:2:9"),
        (SAME, (X[:, :3].copy(), 3), IndexError, "size 3\n --> one of <tinynn>:2:9, <tinynn>:3:15"),
        (
            ENDLESS,
            (0,),
            RecursionError,
            "number of rounds is not known before it begins\n --> <tinynn>:2:12\n",
        ),
        (MUTUAL, (0,), RecursionError, "before it begins\n --> one of <tinynn>:2:12, <tinynn>:5:12"),
        (
            'def f(x: Tensor[("n",), f32]):\n    half = len(x) // 2\n    return x.reshape(2, half)\n',
            (np.ones(5, np.float32),),
            ValueError,
            "reshape: the new shape has not as many elements\n --> <tinynn>:3:12\n",
        ),
        (
            "def f(k: i64):\n    d = {k: 1.0}\n    return d[2 * k]\n",
            (3,),
            KeyError,
            "the dictionary has no such key\n --> <tinynn>:3:12\n",
        ),
    ],
)
def test_the_location_of_an_error_of_a_run(
    source: str, arguments: tuple[object, ...], kind: type[Exception], message: str
) -> None:
    function = nnmagic.compile(source, namespace={}, cache=False)
    for _ in range(2):
        with pytest.raises(kind) as caught:
            function(*arguments)
        assert message in str(caught.value)
        assert str(caught.value).count("-->") == 1
        assert caught.value.__cause__ is None  # TVM's own error, with TVM's frames, says nothing more
    if source is TWO:
        np.testing.assert_array_equal(function(X, 2)[0], X[2])


def test_the_location_is_shown_from_another_cell() -> None:
    inner = nnmagic.compile("def g(x: Tensor[(3,), f32], i: i64):\n    return x[i] + 1\n", namespace={})
    outer = nnmagic.compile("def h(x: Tensor[(3,), f32]):\n    return g(x, 3)\n", namespace={"g": inner})
    with pytest.raises(IndexError, match=r"size 3\n --> <tinynn>:2:12\n  \|\n2 \|     return x\[i\] \+ 1\n"):
        outer(X[0, :3].copy())
