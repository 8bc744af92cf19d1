"""Results at the edges of NumPy's functions: no axes, rank 0, lists of numbers, bools, sizes beyond 2**31."""

from __future__ import annotations

import importlib
import warnings

import numpy as np
import pytest

import nnmagic

ARRAYS = {
    "x": np.array([[0.5, -1.5, 2.25], [np.nan, 3, 1]], "float32"),
    "h": np.array([1.5, 3, 2], "float16"),
    "v": np.array([3, 1, 2], "float32"),
    "s": np.float32(3),
    "u": np.array([1, 2**40, 3, 2**63], "uint64"),
    "i": np.array([0, 1, 2], "int8"),
    "k": np.array([0, 1, 2], "uint16"),
    "b": np.array([False, False, True, True]),
    "c": np.array([True, False]),
    "m": np.array([[False, True], [True, True]]),
}
PARAMETERS = (
    'x: Tensor[("n", "k"), f32], h: Tensor[(3,), f16], v: Tensor[(3,), f32], s: f32, u: Tensor[(4,), u64], '
    "i: Tensor[(3,), i8], k: Tensor[(3,), u16], b: Tensor[(4,), bool_], c: Tensor[(2,), bool_], "
    "m: Tensor[(2, 2), bool_]"
)

#: Each is an expression of a cell; where NumPy is written differently, ``=>`` comes before it.
EXPRESSIONS = {
    "rank 0": "roll(s, 1); roll(s, (1, 2)); argmax(s); argmax(s, keepdims=True); argmin(s, keepdims=True)",
    "powers": "vander(u); vander(v); vander(h, 2); vander(i, increasing=True); vander(u, 1)",
    "sinc": "sinc(i); sinc(k); sinc(c); sinc(h); sinc(u)",
    "no axes": """
        std(x, axis=(), ddof=1); var(x, axis=(), ddof=1); var(x, axis=(), ddof=2);
        var(x, axis=(), ddof=0.5); std(x, axis=()); var(i, axis=(), ddof=1); var(h, axis=(), ddof=1)
    """,
    "empty ranges": "clip(v, 2, 1); clip(v, 2.5, 1); clip(i, 2, 1); clip(v, nan, 1)",
    "lists": """
        digitize(x, [0, 2, 5]); digitize(v, [0, 2, 5], right=True); searchsorted([0, 2, 5], v);
        searchsorted([0, 2, 5], x); searchsorted([0, 2, 5], i); interp(x, [0, 2, 5], [1, 2, 3]);
        where(v > 1, v, [1, 2, 3]) => where(v > 1, v, w); maximum(v, [1, 2, 3]) => maximum(v, w);
        add(v, [1, 2, 3]) => v + w; divmod(v, [1, 2, 3])[0] => v // w;
        clip(v, [1, 2, 3], [2, 2, 4]) => clip(v, w, w + 1 - (w == 2));
        append(v, [1, 2, 3]) => append(v, w); concatenate([v, [1, 2, 3]]) => concatenate([v, w]);
        stack([[1, 2, 3], v]) => stack([w, v]); matmul(v, [1, 2, 3]) => v @ w;
        dot([1, 2, 3], v) => w @ v; average(v, weights=[1, 2, 3]) => average(v, weights=w);
        copysign(v, [1, -2, 3]) => copysign(v, array([1, -1, 1], 'f4')); array_equal(v, [3, 1, 2]);
        isclose(v, [3, 1, 0])
    """,
    "masks of rank 0": """
        v[s > 1]; v[s < 1]; i[s > 1].sum(); x[s < 1]; s[s > 1] => array(s)[s > 1]; s[s < 1] => array(s)[s < 1]
    """,
    "masks without elements": """
        v[zeros(0, dtype=bool)]; m[zeros((0, 2), dtype=bool)]; m[zeros((2, 0), dtype=bool)];
        m[zeros(0, dtype=bool)]
    """,
    "diagonals that no matrix has": """
        eye(2, k=1180591620717411303424); eye(2, 3, k=-9223372036854775809); eye(2, k=9223372036854775807)
    """,
    "shifts by the width and more": "u >> 64; u << 100; i >> 8; i << 127; -i >> 100",
    "bools": """
        searchsorted(b, c); searchsorted(b, c, side='right'); searchsorted(b, m);
        searchsorted([False, True], b); einsum('ij,jk->ik', m, m); einsum('ij->', m);
        einsum('i,j->ij', b, c); einsum('ii->i', m);
        m @ m; m @ c; m[0] @ m[1]; matmul(stack([m, m]), m); dot(m, m); dot(c[0], m); vdot(m, m); inner(m, m);
        vecdot(m, m); outer(b, c); kron(m, c); tensordot(m, m, 2);
        multi_dot([m, m, m]) => linalg.multi_dot([m, m, m])
    """,
    "empty counts": """
        arange(2, 1); arange(1, 1); arange(0, -3.5); arange(5, 2, 4)[1:]; arange(3, 5, -1);
        arange(2, 1, dtype=f32) => arange(2, 1, dtype='float32')
    """,
    "means where": """
        nanmean(x, axis=1, where=x < 3); nanmean(x, where=x[:1] > 0); nanmean(x, where=True);
        nanmean(x, 0, keepdims=True, where=x > 0); nanmean(i[:2], where=c); mean(i, where=True)
    """,
    "no degrees of freedom": """
        nanvar(i, ddof=3); nanvar(i, ddof=4); nanstd(b, ddof=4); nanstd(i, ddof=5); nanvar(i - i, ddof=3);
        nanvar(v, ddof=3); nanvar(x, axis=1, ddof=2); nanvar(m, axis=0, ddof=2); nanstd(i, keepdims=True)
    """,
    "quantiles beside infinities": """
        quantile(where(v < 2, -inf, v), 0.0); quantile(where(v > 2, inf, v), 1.0); quantile(v, 1.0);
        quantile(where(v < 2, -inf, v), [0.0, 0.5, 0.75]); percentile(where(v > 2, inf, v), 50)
    """,
    "one point": """
        interp(x, [2.0], [5.0]); interp(x, [2.0], [5.0], left=-1, right=7); interp(x[1], v[:1], v[1:2])
    """,
}


@pytest.mark.full("means where", "lists")
@pytest.mark.parametrize("subject", EXPRESSIONS)
def test_results_are_numpys(subject: str) -> None:
    cells, twins = [], []
    for expression in EXPRESSIONS[subject].split(";"):
        cell, _, twin = " ".join(expression.split()).partition(" => ")
        cells.append(cell)
        twins.append(twin or cell)
    results = nnmagic.compile(f"def f({PARAMETERS}):\n    return ({', '.join(cells)},)\n", cache=False)(
        *ARRAYS.values()
    )
    names = {**vars(np), **ARRAYS, "w": np.array([1, 2, 3], "float32")}
    for cell, twin, result in zip(cells, twins, results, strict=True):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = np.asarray(eval(twin, names))
        assert (np.asarray(result).dtype, np.shape(result)) == (expected.dtype, expected.shape), cell
        tolerance = 2e-3 if expected.dtype == "float16" else 1e-6
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=1e-15, err_msg=cell)


def test_a_mask_of_rank_0_chooses_what_is_assigned() -> None:
    source = (
        "def f(x: Tensor[(2, 3), f64], y: Tensor[(3,), f64], m: bool_):\n"
        "    a, b = x.copy(), x.copy()\n    a[m] = 7\n    b[m] = y\n    return a, b\n"
    )
    f = nnmagic.compile(source, cache=False)
    x, y = np.arange(6.0).reshape(2, 3), np.array([7.0, 8, 9])
    for mask in (True, False):
        for result, new in zip(f(x, y, mask), (7, y), strict=True):
            expected = x.copy()
            expected[np.bool_(mask)] = new
            np.testing.assert_array_equal(result, expected)


def test_an_axis_without_elements_has_no_slices() -> None:
    source = "def f(x: Tensor[(2, 0), f32]):\n    return unstack(x, axis=1), len(unstack(x, axis=1))\n"
    assert nnmagic.compile(source, cache=False)(np.zeros((2, 0), "float32")) == ((), 0)


def test_a_variance_in_f64_is_computed_in_f64() -> None:
    x = np.random.default_rng(0).normal(size=(5, 7)).astype("float32")
    x[1, 2] = np.nan
    text = "def f(x: Tensor[(5, 7), f32]):\n    return nanvar(x, dtype=f64), nanstd(x, (0, 1), dtype=f64)\n"
    # np.nanvar(x, dtype="f8") rounds the deviations to f32.
    expected = np.nanvar(x.astype("float64"))
    variance, deviation = nnmagic.compile(text, cache=False)(x)
    np.testing.assert_allclose([variance, deviation], [expected, np.sqrt(expected)], rtol=1e-14)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("searchsorted([0, 300], i)", "300 does not fit in i8 (-128 to 127)"),
        ("maximum(v, [True, None])", "maximum must hold numbers"),
    ],
)
def test_a_list_that_the_dtype_beside_it_cannot_hold(call: str, message: str) -> None:
    with pytest.raises(nnmagic.CompileError) as caught:
        nnmagic.compile(f"def f({PARAMETERS}):\n    return {call}\n", cache=False)
    assert caught.value.diagnostics[0].message == message


@pytest.mark.machine_code
@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    "call", ["argmax(x)", "argmin(x)", "argmax(x, axis=0)", "argwhere(x)[:, 0]", "flatnonzero(x)"]
)
@pytest.mark.parametrize("size", ['"n"', "2**31 + 8"])
def test_indices_have_64_bits_on_their_whole_way(call: str, size: str) -> None:
    compiled = nnmagic.compile(f"def f(x: Tensor[({size},), i8]):\n    return {call}\n", cache=False)
    kernels = compiled.stages["tir"]
    assert "int64" in kernels
    # The only 32-bit numbers are those of groups of elements, of which there are fewer by two orders.
    narrow = [
        line
        for line in kernels.splitlines()
        if "int32" in line and "group" not in line and "half" not in line
    ]
    assert not narrow


@pytest.mark.machine_code
@pytest.mark.parametrize("size", ['"n"', "2**31 + 8"])
def test_a_negative_index_counts_from_the_end_of_a_long_axis_in_64_bits(size: str) -> None:
    text = f"def f(x: Tensor[({size},), i8], i: Tensor[(2,), i32]):\n    return take(x, i), x[i]\n"
    compiled = nnmagic.compile(text, cache=False)
    assert 'int32") <' not in compiled.stages["tir"]
    assert 'cast(%i, dtype="int64")' in compiled.relay_text


@pytest.mark.parametrize(
    "program",
    [
        "def f(x: Tensor[(2**31,), i8]):\n    return sort(x), x + 1, x[::-1], x.sum(), argmax(x)\n",
        "def f(x: Tensor[(2**31, 0), i8]):\n    return x.T, x + 1, sort(x)\n",
        "def f(x: f32):\n    return zeros((2**31,)), zeros((0, 2**31)), arange(2**31)[:3]\n",
    ],
)
def test_loops_of_2_to_the_31_rounds_compile(program: str) -> None:
    nnmagic.compile(program, cache=False)


@pytest.mark.machine_code
@pytest.mark.parametrize(("call", "line"), [("x.sum()", 1), ("argmax(x)", 1), ("x.T", 2), ("x[0]", 2)])
def test_what_is_larger_than_any_memory_is_refused_at_its_place(call: str, line: int) -> None:
    """A parameter, or the result of a call."""
    with pytest.raises(nnmagic.CompileError, match=r"Tensor\[.* is larger than any memory") as caught:
        nnmagic.compile(f"def f(x: Tensor[(2**62, 2**62), f32]):\n    return {call}\n", cache=False)
    span = caught.value.diagnostics[0].span
    assert span is not None
    assert span.line == line


@pytest.mark.parametrize(
    "bounds", ["2**31:", ":2**31", "-2**31:", ":-2**31:-1", "2**40:", "::-1", "5:1:-2", "-3:"]
)
def test_a_bound_beyond_31_bits_of_a_named_size(bounds: str) -> None:
    x = np.arange(6)
    result = nnmagic.compile(f'def f(x: Tensor[("n",), i64]):\n    return x[{bounds}]\n', cache=False)(x)
    np.testing.assert_array_equal(result, eval(f"x[{bounds}]"))


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("dtype", ["f16", "f64", "i8", "u64", "bool_"])
@pytest.mark.parametrize(
    ("declared", "shape"), [("(2, 3)", (2, 3)), ('("n",)', (6,)), ('("n",)', (0,)), ("()", ())]
)
def test_unique_is_numpys(dtype: str, declared: str, shape: tuple[int, ...]) -> None:
    numbers = [1, np.nan, -2, 1, np.nan, 0] if dtype[0] == "f" else [1, 3, 0, 1, 3, 7]
    kind = {"f16": "float16", "f64": "float64", "i8": "int8", "u64": "uint64", "bool_": "bool"}[dtype]
    x = np.array(numbers[: int(np.prod(shape))]).astype(kind).reshape(shape)
    text = f"def f(x: Tensor[{declared}, {dtype}]):\n    return unique(x), x.unique(), np.unique(x)\n"
    expected = np.unique(x)
    for result in nnmagic.compile(text, namespace={"np": np}, cache=False)(x):
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)


@pytest.mark.machine_code
def test_what_tvm_cannot_compile_is_reported_at_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    from tvm import tirx

    from nnmagic.engine.relax.legalize.registry import RULES
    from nnmagic.engine.relax.legalize.unary import elementwise_rule

    # LLVM refuses this comparison of bools, after the operators have become kernels.
    monkeypatch.setitem(RULES, "logical_not", elementwise_rule(lambda value: tirx.LT(value, value)))
    with pytest.raises(nnmagic.CompileError) as caught:
        nnmagic.compile("def f(x: Tensor[(3,), bool_]):\n    y = x | x\n    return (~y).any()\n", cache=False)
    (error,) = caught.value.diagnostics
    assert error.message == "logical_not: TVM cannot build this call"
    assert error.span is not None
    assert (error.span.line, error.span.column) == (3, 13)


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("part", "attribute"),
    [
        ("nnmagic.engine.relax.legalize.registry.RULES", "multiply"),
        ("nnmagic.engine.relax.codegen.aot.planning.calls", "is_reshape"),
        ("nnmagic.engine.relax.analysis.value_sizes", "find_value_sizes"),
    ],
)
def test_a_fault_of_ours_is_told_as_one(monkeypatch: pytest.MonkeyPatch, part: str, attribute: str) -> None:
    """It was taken for a program that machine code cannot be made of, which then ran slowly."""
    module, _, name = part.rpartition(".")
    if name.isupper():
        monkeypatch.setitem(getattr(importlib.import_module(module), name), attribute, None)
    else:
        monkeypatch.setattr(f"{part}.{attribute}", None)
    source = """def f(x: Tensor[("n", 3), f32], n: i64):
    y = zeros((n, 3), f32)
    for i in range(n):
        y[i] = x[i] * 2
    return y
"""
    with pytest.raises(nnmagic.CompileError, match=r"internal error of nnmagic: .* cannot be ") as caught:
        nnmagic.compile(source, namespace={}, cache=False)
    (error,) = caught.value.diagnostics
    assert error.span is not None
    assert error.hint is not None
    assert "please report it" in error.hint


@pytest.mark.parametrize(("dtype", "beyond"), [("f16", 1e5), ("f32", 3.5e38)])
def test_an_attribute_beyond_a_dtype_is_infinite(dtype: str, beyond: float) -> None:
    x = np.array([-1, 0.5, 2], "float16" if dtype == "f16" else "float32")
    text = f"relay.clip(x, a_min=-{beyond}, a_max={beyond}), relay.nn.leaky_relu(x, alpha={beyond})"
    clipped, leaky = nnmagic.compile(f"def f(x: Tensor[(3,), {dtype}]):\n    return {text}\n", cache=False)(x)
    np.testing.assert_array_equal(clipped, x)
    np.testing.assert_array_equal(leaky, np.where(x > 0, x, x * np.inf).astype(x.dtype))


def test_unravel_index_refuses_what_is_outside_of_the_shape() -> None:
    text = 'def f(i: Tensor[("n",), i64]):\n    return unravel_index(i, (5, 2, 3))\n'
    function, x = nnmagic.compile(text, cache=False), np.array([0, 29, 7])
    np.testing.assert_array_equal(function(x), np.unravel_index(x, (5, 2, 3)))
    for outside in (30, -1, 1000):
        with pytest.raises(ValueError, match="unravel_index: an index is out of range for 30 elements"):
            function(np.array([0, outside]))


@pytest.mark.parametrize("size", [1, 2, 3, 5000])
@pytest.mark.parametrize("axis", [0, 1])
def test_trapezoid_of_few_and_many_numbers(size: int, axis: int) -> None:
    y = np.random.default_rng(size).standard_normal((size, 2) if axis == 0 else (2, size))
    y.flat[0] = np.inf
    cell = f"def f(y: Tensor[{y.shape}, f64]):\n    return trapezoid(y, dx=0.25, axis={axis})\n"
    later, earlier = y.take(range(1, size), axis), y.take(range(size - 1), axis)
    expected = (0.125 * (later + earlier)).sum(axis)
    np.testing.assert_allclose(nnmagic.compile(cell, cache=False)(y), expected, rtol=1e-11, atol=1e-13)
