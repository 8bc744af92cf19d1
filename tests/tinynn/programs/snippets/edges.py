"""Floats where they end: infinities, what is no number, zeros with a sign.

``x * 0``, ``x - x`` and ``x + 0`` are not here: TVM simplifies them as if every float were finite and no zero
negative, under real Relay, too.
"""

# ruff: noqa: E501  # a case reads best on one line

import numpy as np

from tests.tinynn.programs.snippets.cases import Case, accepted

X = "x: Tensor[(6,), f32]"
VALUES = [(np.array([1, -2, 0.0, -0.0, np.inf, np.nan], np.float32),)]

CASES: list[Case] = [
    accepted("divided-by-itself", X, "x / x", arguments=VALUES),
    accepted("zero-divided", X, "0 / x, 0.0 // x, x % x", arguments=VALUES),
    accepted("equal-to-itself", X, "x == x, x != x, x < x, x <= x, x >= x", arguments=VALUES),
    accepted("extremes-of-what-is-no-number", X, "maximum(x, 0), minimum(0, x), maximum(x, x)", arguments=VALUES),
    accepted("rounding", X, "floor(x), ceil(x), trunc(x), sign(x), abs(x)", arguments=VALUES),
    accepted("activations", X, "relu(x), sigmoid(x), tanh(x), exp(x)", arguments=VALUES),
    accepted("powers", X, "x ** 0, x ** 2, x ** 0.5", arguments=VALUES),
    accepted("sums", X, "x.sum(), x.max(), x.min(), x[:5].max(), x.mean(), x[:4].prod()", arguments=VALUES),
    accepted("choices", X, "where(x > 0, x, 0), where(isnan(x), 1, x), x.clip(-1, 1)", arguments=VALUES),
]  # fmt: skip
