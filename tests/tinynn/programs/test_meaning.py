"""The same source as Python over NumPy and as a cell gives the same: shapes, dtypes and numbers."""

from __future__ import annotations

import numpy as np
import pytest

from nnmagic.engine.relax import build
from nnmagic.tinynn.types.annotations import DTYPES
from tests.tinynn.cases import program_of

SHAPES = {
    "x": ("f32", (2, 3)),
    "y": ("f32", (2, 3)),
    "v": ("f32", (3,)),
    "w": ("f32", (3, 4)),
    "s": ("f32", ()),
    "t": ("f32", (2, 1, 3)),
    "u": ("f32", (5, 3, 4)),
    "q": ("f32", (2, 5, 2, 3)),
    "d": ("f64", (4,)),
    "i": ("i32", (6,)),
    "j": ("i32", (6,)),
    "k": ("i64", (2, 6)),
    "c": ("u8", (4,)),
    "b": ("bool_", (2, 3)),
    "e": ("bool_", (3,)),
}

#: Each is an expression that NumPy and a cell both take.
EXPRESSIONS = {
    "float arithmetic": """
        x + y; x - v; x * s; x / y; x // y; x % y; x ** 2; 2 ** x; -x; +x; x + 1; 1 - x; x * 2.5;
        x / 3; 7 // x; 7 % x; x // 0.3; x % -0.3; -x // 2; -x % 2; d * 2; d ** 0.5; 1 / d; x +
        True; x * 2 + y * 3 - v / s; x - y - v - 1; x ** 2 ** 0.5; -x ** 2
    """,
    "integer arithmetic": """
        i + j; i - j; i * j; i // j; i % j; i / j; i // 3; i % 3; i // -3; i % -3; -7 // j; -7 %
        j; i / 2; 1 / j; -i; +i; i + 1; k - 1; k // 2; i << 2; i >> 1; i & j; 6 ^ i; ~i; c + 3; c
        * 2; c // 3; c % 3; ~c; c & 3; i / 2.5; i | j; i | 1
    """,
    "comparison and logic": """
        x < y; x <= v; x > 0; x >= 0.5; x == x; x != y; i == j; i < 3; 3 < i; b & e; b ^ e; ~b;
        ~(x > 0); (x > 0) & (y > 0); (x > 0) ^ b; b & True; b | e; (x > 0) | b
    """,
    "products": """
        x @ w; v @ w; x @ v; v @ v; t @ w; u @ w.T; t @ u[:2]; x @ u; u.transpose(0, 2, 1) @ v; v
        @ u; q @ w; q @ u; q @ v; (x @ w) @ w.T + x
    """,
    "indexing": """
        x[0]; x[-1]; x[1, 2]; x[:, 1]; x[:, -1:]; x[1:]; x[:-1]; x[::-1]; x[:, ::-1]; x[:, ::2];
        x[:, 2:0:-1]; x[1:0]; x[5:]; x[-9:1]; x[...]; x[..., 0]; x[0, ...]; x[None]; x[:, None,
        1:]; x[..., None]; v[-2]; i[1:5:2]; i[-1:-6:-2]; i[::-3]; u[1, :, 2]; u[..., 1, None];
        u[-1][0][1]; x[0][None, ::-1]; i[4:1:-1]; i[9223372036854775808:]; i[:-18446744073709551616];
        i[1::18446744073709551616]; i[::-9223372036854775808]
    """,
    "members": """
        x.T; u.T; v.T; x.reshape(3, 2); x.reshape(-1); x.reshape((6, 1)); x.reshape(2, -1, 1);
        x.flatten(); x.transpose(); u.transpose(2, 0, 1); u.transpose((1, 0, 2)); x.sum();
        x.sum(axis=0); x.sum(1, keepdims=True); x.mean(); x.mean(axis=1); x.max(); x.min(axis=0);
        x.std(); x.var(axis=1); x.prod(); x.clip(-0.5, 0.5);
        x.clip(None, 0.5); x.clip(0.5, None); i.clip(-2, 3); k.clip(None, -9007199254740993);
        k.clip(9007199254740993, 9007199254740995); u.sum(axis=(0, 2)); b.all();
        b.any(axis=1); x.copy(); x.ravel(); x.squeeze(); t.squeeze(1); i.max(); x * x.shape[0] +
        x.ndim - x.size; x.reshape(x.shape[1], x.shape[0]); x * len(x)
    """,
}


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    arguments = {}
    for name, (dtype, shape) in SHAPES.items():
        kind = DTYPES[dtype].dtype
        if dtype == "bool_":
            arguments[name] = rng.integers(0, 2, shape).astype(kind)
        elif dtype in ("f32", "f64"):
            arguments[name] = (rng.standard_normal(shape) + (2.5 if name == "d" else 0)).astype(kind)
        else:
            arguments[name] = np.asarray(rng.integers(1 if dtype == "u8" else -9, 9, shape), kind)
    arguments["j"][arguments["j"] == 0] = 4
    return arguments


def compare(expressions: list[str]) -> None:
    """All of them as the results of one function, against NumPy."""
    given = arrays()
    parameters = ", ".join(f"{name}: Tensor[{shape!r}, {dtype}]" for name, (dtype, shape) in SHAPES.items())
    lines = ",\n        ".join(expressions)
    program = program_of(f"def f({parameters}):\n    return (\n        {lines},\n    )\n")
    results = build(program.module, "f")(list(given.values()))
    assert len(results) == len(expressions)
    with np.errstate(all="ignore"):
        for expression, result in zip(expressions, results, strict=True):
            expected = np.asarray(eval(expression, {}, given))  # the expressions stand above
            assert result.shape == expected.shape, expression
            assert result.dtype == expected.dtype, expression
            tolerance = 1e-12 if expected.dtype == np.float64 else 2e-5
            np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance, err_msg=expression)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("subject", EXPRESSIONS)
def test_numpy_agrees(subject: str) -> None:
    compare([" ".join(text.split()) for text in EXPRESSIONS[subject].split(";")])


@pytest.mark.parametrize(
    "expressions",
    [
        "i ** 2; k ** 3; c ** 2; x ** 3; x ** 4; x ** 5; d ** 3.5; x ** -1",
        "b == b; b == e; b != e; b < e; b <= e; b > e; b >= e; b == True; b < True",
        "x / 0.0; x // 0.0; x % 0.0; 0.0 / x; x % 1e-3; x // 0.1; d % 0.1; d // 0.1",
    ],
)
def test_numpy_agrees_on_powers_bools_and_divisions(expressions: str) -> None:
    compare(expressions.split("; "))
