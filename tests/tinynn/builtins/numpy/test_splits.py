"""Splits of dynamic sizes are NumPy's: of named ones and of ones that only the run knows."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic

_SPLITS = [
    *(f"{name}(x, {count}, axis=1)" for name in ("split", "array_split") for count in (1, 2, 3)),
    *(f"split(x, {indices}, axis=1)" for indices in ("[2]", "[1, 3]", "[3, 1, 40]", "[-2]", "[0, -1]", "[]")),
    "hsplit(x, 2)",
    "array_split(x[:, ::2], 3, axis=-1)",
    "array_split(x, 2, axis=1)[0] + array_split(x, 2, axis=1)[0]",
]


@pytest.mark.full("array_split(x[:, ::2], 3, axis=-1)")
@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("text", _SPLITS)
def test_parts_are_numpys(text: str) -> None:
    source = f'def f(x: Tensor[(2, "n", "m"), f32]):\n    return {text}\n'
    function = nnmagic.compile(source, namespace={}, cache=False)
    for shape in ((2, 6, 2), (2, 5, 1), (2, 1, 3), (2, 0, 2), (2, 5, 0)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        names = {"x": x, "split": np.split, "array_split": np.array_split, "hsplit": np.hsplit}
        try:
            expected = eval(text, names)
        except ValueError:  # NumPy's, of parts that would differ
            with pytest.raises(ValueError, match=r"cannot be split into \d equal sections"):
                function(x)
            continue
        results = function(x)
        parts = list(results) if isinstance(results, tuple) else [results]
        wanted = expected if isinstance(expected, list) else [expected]
        assert [part.shape for part in parts] == [part.shape for part in wanted]
        for part, other in zip(parts, wanted, strict=True):
            np.testing.assert_array_equal(part, other)


def test_parts_have_names_for_their_sizes() -> None:
    source = """
def f(x: Tensor[("2*n",), f32], y: Tensor[("n",), f32]):
    left, right = split(x, 2)
    return left * y + right
"""
    function = nnmagic.compile(source, namespace={}, cache=False)
    x, y = np.arange(6, dtype=np.float32), np.ones(3, np.float32)
    np.testing.assert_array_equal(function(x, y), x[:3] + x[3:])
