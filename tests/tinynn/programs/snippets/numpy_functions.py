"""NumPy's functions by the names that a NumPy user types: of floats, integers, bools, edges."""

# ruff: noqa: E501  # a case reads best on one line

import numpy as np

from tests.tinynn.programs.snippets.cases import Case, accepted, function, refused

X = "x: Tensor[(2, 3), f32], y: Tensor[(2, 3), f32]"
D = "d: Tensor[(3, 4), f64]"
I = "i: Tensor[(2, 3), i32], j: Tensor[(2, 3), i32]"  # noqa: E741
B = "a: Tensor[(2, 3), bool_], b: Tensor[(2, 3), bool_]"
N = 'x: Tensor[("n", 3), f32]'
SPECIAL = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 2.5, -2.5, 0.5, 1e-6], "float32")
OTHER = np.array([1.0, 2.0, np.nan, -1.5, np.inf, 3.0, 1.0, -0.0, 0.0, -np.inf, 2.0], "float32")
S = "x: Tensor[(11,), f32], y: Tensor[(11,), f32]"
SPECIALS = [(SPECIAL, OTHER), (OTHER, SPECIAL)]
MATH = {"rtol": 2e-4, "why": "TVM's functions differ from the C library's by some units"}

CASES: list[Case] = [
    accepted("exponentials", X, "exp(x), exp2(x), expm1(x), np.exp(y)", namespace={"np": np}, **MATH),
    accepted(
        "logarithms", X, "log(x), log2(x), log10(x), log1p(y)", within={"x": (0.1, 9), "y": (-0.9, 9)}, **MATH
    ),
    accepted("small-arguments", D, "expm1(d), log1p(d), tanh(d), arctan(d)", within={"d": (-1e-9, 1e-9)}),
    accepted("trigonometry", X, "sin(x), cos(x), tan(x), np.sin(y)", namespace={"np": np}, **MATH),
    accepted(
        "inverse-trigonometry",
        X,
        "arcsin(x), arccos(x), arctan(y), asin(x), acos(x), atan(y)",
        within={"x": (-0.9, 0.9)},
        **MATH,
    ),
    accepted(
        "hyperbolic",
        X,
        "sinh(x), cosh(x), tanh(x), arcsinh(x), asinh(y), arccosh(x * x + 1.5), arctanh(x / 10), atanh(y / 10), acosh(y * y + 2)",
        **MATH,
    ),
    accepted(
        "roots",
        X,
        "sqrt(x), cbrt(y), cbrt(-x), square(y), reciprocal(x), hypot(x, y)",
        within={"x": (0.1, 9)},
        **MATH,
    ),
    accepted(
        "angles", X, "deg2rad(x), rad2deg(y), radians(x), degrees(y), arctan2(x, y), atan2(y, x)", **MATH
    ),
    accepted("angles-of-special-numbers", S, "arctan2(x, y), hypot(x, y)", arguments=SPECIALS, **MATH),
    accepted(
        "functions-of-integers", I, "exp(i), sqrt(abs(j)), sin(i), log1p(abs(i))", within={"i": (-5, 5)}
    ),
    accepted(
        "functions-of-small-integers",
        "c: Tensor[(4,), i8], h: Tensor[(4,), i16], u: Tensor[(4,), u8]",
        "exp(c), exp(h), sqrt(u)",
        within={"c": (-4, 4), "h": (-4, 4), "u": (0, 9)},
        rtol=2e-3,
        why="half precision",
    ),
    accepted("functions-of-bools", B, "exp(a), sin(b), sqrt(a)", rtol=2e-3, why="half precision"),
    accepted(
        "rounding",
        X,
        "floor(x), ceil(x), trunc(x), fix(y), rint(y), round(x), around(y, 1), np.round(x * 10, -1)",
        namespace={"np": np},
    ),
    accepted(
        "halves-go-to-even",
        "x: Tensor[(8,), f32]",
        "round(x), rint(x), around(x, 0)",
        arguments=[(np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.5, 1e9], "float32"),)],
    ),
    accepted(
        "rounding-of-special-numbers",
        "x: Tensor[(11,), f32]",
        "rint(x), floor(x), ceil(x), trunc(x), around(x, 2)",
        arguments=[(SPECIAL,)],
    ),
    accepted(
        "rounding-of-integers",
        I,
        "floor(i), ceil(j), trunc(i), round(i), round(i * 7, -1), around(j, 2), rint(i)",
    ),
    accepted(
        "absolute-value-and-sign",
        X,
        "abs(x), absolute(y), fabs(x), sign(x), negative(y), positive(x), copysign(x, y), heaviside(x, y)",
    ),
    accepted(
        "signs-of-special-numbers",
        S,
        "sign(x), abs(x), signbit(x), copysign(x, y), heaviside(x, y)",
        arguments=SPECIALS,
    ),
    accepted(
        "absolute-value-of-integers", I, "abs(i), sign(j), negative(i), positive(j), square(i), signbit(i)"
    ),
    accepted(
        "tests-of-numbers", S, "isnan(x), isinf(x), isfinite(x), isposinf(y), isneginf(y)", arguments=SPECIALS
    ),
    accepted("tests-of-integers", I, "isnan(i), isinf(i), isfinite(j)"),
    accepted(
        "nan-to-numbers",
        S,
        "nan_to_num(x), nan_to_num(y, nan=1.5), nan_to_num(x, posinf=9.0, neginf=-9.0)",
        arguments=SPECIALS,
    ),
    accepted(
        "two-arguments",
        X,
        "add(x, y), subtract(x, y), multiply(x, y), divide(x, y), true_divide(x, 2), np.add(1, y)",
        namespace={"np": np},
    ),
    accepted(
        "division-by-name",
        I,
        "floor_divide(i, j), mod(i, j), remainder(i, j), divide(i, j), fmod(i, j)",
        within={"j": (1, 9)},
    ),
    accepted(
        "division-of-floats-by-name",
        X,
        "floor_divide(x, y), mod(x, y), remainder(x, y), fmod(x, y)",
        within={"y": (0.5, 9)},
    ),
    accepted("division-of-special-numbers", S, "mod(x, y), fmod(x, y), x % y", arguments=SPECIALS),
    accepted("quotient-and-rest", X, "divmod(x, y)", within={"y": (0.5, 9)}),
    accepted(
        "powers-by-name",
        X,
        "power(x, y), pow(x, 2), np.power(x, 0.5)",
        within={"x": (0.1, 4)},
        namespace={"np": np},
        **MATH,
    ),
    accepted("powers-of-integers-by-name", I, "power(i, 3), i ** 0, i ** 1, i ** 13"),
    accepted(
        "powers-of-tensors-of-integers",
        "i: Tensor[(4,), u32], j: Tensor[(4,), u32]",
        "i ** j, power(i, j)",
        within={"i": (0, 9), "j": (0, 9)},
    ),
    accepted(
        "comparisons-by-name",
        X,
        "equal(x, y), not_equal(x, y), less(x, y), less_equal(x, 0), greater(x, y), greater_equal(x, y)",
    ),
    accepted(
        "bits-by-name",
        I,
        "bitwise_and(i, j), bitwise_or(i, j), bitwise_xor(i, 3), invert(i), bitwise_not(j), left_shift(i, 2), right_shift(i, 1)",
    ),
    accepted(
        "shifts-out-of-range",
        "i: Tensor[(4,), i32], j: Tensor[(4,), i32]",
        "i << j, i >> j",
        within={"j": (-3, 70)},
    ),
    accepted("bits-of-bools", B, "bitwise_and(a, b), bitwise_or(a, b), invert(a), bitwise_xor(a, b)"),
    accepted(
        "logic-of-numbers", X, "logical_and(x, y), logical_or(x, y > 0), logical_not(x), logical_xor(x, 0)"
    ),
    accepted(
        "logic-of-integers",
        I,
        "logical_and(i, j), logical_or(i, j), logical_not(i)",
        within={"i": (-1, 1), "j": (-1, 1)},
    ),
    accepted(
        "arithmetic-of-bools",
        B,
        "a + b, a * b, a + True, add(a, b), multiply(a, b), a + 1, a * 2, a * 0.5, a & 1",
    ),
    accepted(
        "larger-and-smaller", S, "maximum(x, y), minimum(x, y), fmax(x, y), fmin(x, y)", arguments=SPECIALS
    ),
    accepted("larger-than-a-number", S, "maximum(x, 0), minimum(1, y), fmax(x, 0.5)", arguments=SPECIALS),
    accepted(
        "larger-of-integers-and-bools",
        f"{I}, {B}",
        "maximum(i, j), minimum(i, 0), fmax(i, j), maximum(a, b), minimum(a, b)",
    ),
    accepted("sums-of-exponentials", X, "logaddexp(x, y), logaddexp2(x, y)", **MATH),
    accepted("sums-of-exponentials-of-special-numbers", S, "logaddexp(x, y)", arguments=SPECIALS, **MATH),
    accepted(
        "nearly-equal",
        X,
        "isclose(x, y), isclose(x, x + 1e-7), allclose(x, x), allclose(x, y), array_equal(x, x), array_equal(x, y)",
    ),
    accepted(
        "nearly-equal-special-numbers",
        S,
        "isclose(x, y), isclose(x, x), isclose(x, x, equal_nan=True), allclose(x, x), array_equal(x, x)",
        arguments=SPECIALS,
    ),
    accepted(
        "limits",
        X,
        "clip(x, -1, 1), clip(x, None, 0.5), clip(x, 0, None), np.clip(x, y, 2), clip(x, y, y + 1), clip(x, min=0)",
        namespace={"np": np},
    ),
    accepted(
        "choices",
        f"{X}, {I}",
        "where(x > 0, x, y), where(x, y, 0), where(i, 1.0, 0.0), where(i > j, i, 0), where(x > 0, 1, -1)",
    ),
    accepted("fractions", "x: Tensor[(5,), f32]", "modf(x), sinc(x)", **MATH),
    # reductions
    accepted(
        "sums",
        X,
        "sum(x), sum(x, 0), sum(x, axis=1), sum(x, axis=-1, keepdims=True), sum(x, axis=(0, 1)), np.sum(x, axis=())",
        namespace={"np": np},
    ),
    accepted(
        "sums-of-lists",
        f"{X}, {I}, s: f32, t: f32",
        "sum([x, y]), sum((x, y, x)), sum([x]), sum([1, x, 2.5]), sum([i, j]), sum([x, s]), sum([s, t, 1]), "
        "sum(row * 2 for row in x), sum([row for row in x if True]), sum([x > 0, 2]), sum([])",
    ),
    accepted(
        "sum-of-sizes", 'x: Tensor[("n", 3), f32]', "sum([x.shape[0], 2, len(x)]) * x, sum(x.shape) + x"
    ),
    accepted(
        "sums-of-numpy-and-python", X, "sum([np.sum(x, axis=0), x]), np.sum(x, axis=0)", namespace={"np": np}
    ),
    accepted(
        "sums-of-integers",
        f"{I}, c: Tensor[(4,), u8], {B}",
        "sum(i), sum(c), sum(a), sum(j, axis=0), prod(i, axis=1), prod(c), prod(b), sum(i, dtype=f32)",
    ),
    accepted(
        "sums-of-half-precision",
        "h: Tensor[(64,), f16]",
        "sum(h), mean(h), h.sum()",
        rtol=5e-3,
        why="half precision",
    ),
    accepted(
        "sums-with-more",
        X,
        "sum(x, initial=2), sum(x, where=y > 0), prod(x, axis=0, initial=3), sum(x, axis=1, where=y > 0, initial=1)",
        rtol=1e-4,
        why="the order of a sum",
    ),
    accepted("products", X, "prod(x), prod(x, axis=0), prod(x, axis=1, keepdims=True)"),
    accepted(
        "means",
        X,
        "mean(x), mean(x, axis=0), mean(x, (0, 1)), mean(x, axis=-1, keepdims=True), average(x), average(x, axis=1)",
    ),
    accepted(
        "means-of-integers",
        f"{I}, {B}",
        "mean(i), mean(j, axis=0), mean(a), average(i, axis=1), var(i), std(j, axis=1), mean(i, dtype=f32)",
    ),
    accepted(
        "weighted-means",
        "x: Tensor[(2, 3), f32], w: Tensor[(3,), f32], v: Tensor[(2, 3), f32]",
        "average(x, axis=1, weights=w), average(x, weights=v), average(x, axis=0, weights=v)",
        within={"w": (0.5, 2), "v": (0.5, 2)},
    ),
    accepted(
        "variances",
        X,
        "var(x), std(x), var(x, axis=0), std(x, axis=1, keepdims=True), var(x, ddof=1), std(x, axis=0, ddof=1), var(x, axis=1, ddof=2)",
        rtol=1e-4,
        why="the order of a sum",
    ),
    accepted(
        "extremes",
        S,
        "max(x), min(y), amax(x), amin(y), max(x, axis=0), ptp(x)",
        arguments=[
            (np.abs(SPECIAL), OTHER),
            (np.arange(11, dtype="float32"), -np.arange(11, dtype="float32")),
        ],
    ),
    accepted(
        "extremes-along-axes",
        f"{X}, {I}, {B}",
        "max(x, axis=1), min(x, axis=(0, 1)), max(i), min(i, 0), amax(j, axis=-1, keepdims=True), ptp(x), ptp(i, axis=1), max(x, initial=2.5), max(a), min(b, axis=0)",
    ),
    accepted(
        "all-and-any",
        f"{X}, {B}",
        "all(a), any(b), all(a, axis=0), any(b, axis=1, keepdims=True), all(x), any(x > 2, axis=0), any(x)",
    ),
    accepted(
        "counts",
        f"{X}, {I}, {B}",
        "count_nonzero(a), count_nonzero(i, axis=0), count_nonzero(x > 0, axis=1, keepdims=True)",
    ),
    accepted(
        "indices-of-extremes",
        f"{X}, {I}",
        "argmax(x), argmin(x, axis=0), argmax(i, axis=-1), argmax(x, axis=1, keepdims=True), argmin(j), argmax(x[0, 0], keepdims=True), argmin(x.sum(), axis=0, keepdims=True)",
    ),
    accepted("indices-of-nan", S, "argmax(x), argmin(x), argmax(y), argmin(y)", arguments=SPECIALS),
    accepted(
        "running-sums",
        f"{X}, {I}",
        "cumsum(x), cumsum(x, axis=0), cumprod(x, axis=1), cumsum(i), cumsum(i, axis=-1), cumprod(j, axis=0), cumsum(x, axis=1, dtype=f64), cumsum(x > 0)",
    ),
    accepted(
        "without-nan",
        S,
        "nansum(x), nanmean(where(isinf(x), 0, x)), nanmax(x), nanmin(x), nanprod(where(isinf(x), 1, x)), nanvar(where(isinf(x), 0, x)), nanstd(where(isinf(y), 0, y))",
        arguments=SPECIALS,
        rtol=1e-4,
        why="the order of a sum",
    ),
    accepted(
        "without-nan-along-axes",
        "x: Tensor[(2, 3), f32]",
        "nansum(x, axis=0), nanmean(x, axis=1), nanmax(x, axis=0, keepdims=True), nanmin(x, axis=1), nanvar(x, axis=1, ddof=1)",
        arguments=[(np.array([[1, np.nan, 2], [3, 4, 5]], "float32"),)],
    ),
    accepted(
        "order-statistics",
        f"{X}, {I}",
        "median(x), median(x, axis=0), median(x, axis=1, keepdims=True), median(i), percentile(x, 30), quantile(x, 0.25, axis=1), percentile(x, (10, 50, 90)), quantile(i, 0.9)",
        rtol=1e-4,
        why="interpolation",
    ),
    accepted("median-of-nan", S, "median(x), median(y)", arguments=SPECIALS),
    accepted(
        "empty-reductions",
        "x: Tensor[(0, 3), f32], i: Tensor[(2, 0), i32]",
        "sum(x), sum(x, axis=0), prod(x), sum(i, axis=1), all(x), any(x), max(x, axis=1), cumsum(i, axis=1), count_nonzero(x), max(i, axis=1, initial=3)",
    ),
    accepted(
        "reductions-of-a-named-dimension",
        N,
        "sum(x, axis=0), mean(x), max(x, axis=0), var(x, axis=0), argmax(x, axis=1), cumsum(x, axis=0), any(x > 0), std(x), min(x, axis=1, keepdims=True), count_nonzero(x > 0)",
        rtol=1e-4,
        why="the order of a sum",
    ),
    accepted(
        "reductions-of-scalars",
        "s: f32",
        "sum(s), mean(s), max(s), prod(s), var(s), argmax(s), cumsum(s), all(s)",
    ),
    accepted(
        "pythons-own",
        "s: f32, t: f32, x: Tensor[(3,), f32]",
        "max(s, t), max(1, 2) * s, (min(x.shape) + s).astype(f32), (sum((1, 2, 3)) * s).astype(f32), abs(s), round(s), pow(s, 2), len(x) * s",
    ),
    # shapes
    accepted(
        "shapes",
        X,
        "reshape(x, (3, 2)), reshape(x, -1), np.reshape(y, (1, 6)), ravel(x), squeeze(x.reshape(1, 2, 1, 3)), squeeze(x.reshape(1, 6), axis=0)",
        namespace={"np": np},
    ),
    accepted(
        "axes",
        "u: Tensor[(2, 3, 4), f32]",
        "transpose(u), transpose(u, (1, 0, 2)), swapaxes(u, 0, 2), moveaxis(u, 0, -1), moveaxis(u, (0, 1), (2, 0)), rollaxis(u, 2), permute_dims(u, (2, 0, 1)), matrix_transpose(u)",
    ),
    accepted(
        "new-axes",
        X,
        "expand_dims(x, 0), expand_dims(x, -1), expand_dims(x, (0, 2)), x[:, None], x[newaxis], atleast_1d(x), atleast_2d(x[0]), atleast_3d(x), atleast_1d(x[0, 0])",
        namespace={"newaxis": None},
    ),
    accepted(
        "broadcasting",
        "v: Tensor[(3,), f32], c: Tensor[(2, 1), f32]",
        "broadcast_to(v, (2, 3)), broadcast_to(c, (2, 3)), broadcast_arrays(v, c)",
    ),
    accepted(
        "joining",
        X,
        "concatenate([x, y]), concatenate((x, y), axis=1), concat([x, y], axis=-1), concatenate([x, y], axis=None), stack([x, y]), stack([x, y], axis=-1), np.stack((x, y), 1)",
        namespace={"np": np},
    ),
    accepted(
        "stacks",
        "x: Tensor[(2, 3), f32], v: Tensor[(3,), f32], w: Tensor[(3,), f32], s: f32",
        "hstack([x, x]), vstack([x, v]), dstack([x, x]), hstack([v, w]), vstack([v, w]), dstack([v, w]), column_stack([v, w]), column_stack([x, x]), hstack([s, s]), append(v, w), append(x, x, axis=0), append(x, v)",
    ),
    accepted(
        "splitting",
        "x: Tensor[(6, 4), f32]",
        "split(x, 3), split(x, 2, axis=1), split(x, [1, 4]), array_split(x, 4), hsplit(x, 2), vsplit(x, 2), split(x, (2, 9)), array_split(x, 3, axis=1)",
    ),
    accepted(
        "repeating",
        X,
        "repeat(x, 2), repeat(x, 2, axis=1), tile(x, 2), tile(x, (2, 1)), tile(x, (2, 1, 1)), repeat(x, 0, axis=0), tile(x, 0)",
    ),
    accepted(
        "turning",
        X,
        "flip(x), flip(x, 0), flip(x, axis=(0, 1)), fliplr(x), flipud(x), roll(x, 1), roll(x, -1, axis=1), roll(x, (1, 2), (0, 1)), rot90(x), rot90(x, 2), rot90(x, -1), rot90(x, 3)",
    ),
    accepted(
        "padding",
        X,
        "pad(x, 1), pad(x, (1, 2)), pad(x, ((0, 1), (2, 0))), pad(x, 1, constant_values=3.5), pad(x, 1, mode='edge'), pad(x, 1, 'reflect'), pad(x, 2, mode='symmetric'), pad(x, ((1, 0), (2, 1)), mode='wrap')",
    ),
    accepted(
        "triangles",
        f"{X}, {I}, v: Tensor[(3,), f32]",
        "tril(x), triu(x), tril(x, -1), triu(x, 1), tril(i), triu(i, k=-1), tril(v), triu(x > 0)",
    ),
    accepted(
        "diagonals",
        f"{X}, {I}, v: Tensor[(3,), f32]",
        "diag(x), diag(v), diag(v, 1), diag(v, k=-2), diag(x, 1), diagonal(x), diagonal(x, 1), diagonal(x, -1), trace(x), trace(i), trace(x, 1)",
    ),
    accepted(
        "diagonals-of-stacks",
        "u: Tensor[(2, 3, 3), f32]",
        "diagonal(u), diagonal(u, 0, 1, 2), diagonal(u, offset=1, axis1=1, axis2=2), trace(u), trace(u, axis1=1, axis2=2)",
    ),
    accepted(
        "shapes-of-a-named-dimension",
        N,
        "ravel(x), transpose(x), swapaxes(x, 0, 1), expand_dims(x, 1), concatenate([x, x], axis=1), stack([x, x]), flip(x, axis=0), repeat(x, 2, axis=1), tril(x), squeeze(x[:, :1], axis=1), pad(x, ((0, 0), (1, 1))), fliplr(x)",
    ),
    # creation
    accepted(
        "filled",
        "x: Tensor[(2, 3), f32]",
        "zeros((2, 3)), ones(4), full((2,), 7), full((2, 2), 0.5), zeros(3, dtype=i32), ones((2,), 'float32'), np.zeros((2, 0), np.int64), full((2,), True), full((2,), 3, dtype=f32), full((1, 2), x[0, 0])",
        namespace={"np": np},
    ),
    accepted(
        "filled-like",
        f"{X}, {I}",
        "zeros_like(x), ones_like(i), full_like(x, 2), full_like(i, 7), zeros_like(x, dtype=i32), ones_like(x > 0), full_like(x, 1, dtype=i64), full_like(x > 0, True)",
    ),
    accepted(
        "filled-like-a-named-dimension",
        N,
        "zeros_like(x), ones_like(x), full_like(x, 2.5), zeros_like(x, dtype=i32)",
    ),
    accepted(
        "ranges",
        "x: f32",
        "arange(5), arange(2, 8), arange(0, 1, 0.25), arange(5, dtype=f32), arange(5, 0, -2), linspace(0, 1, 5), linspace(0, 1, 4, endpoint=False), linspace(-2, 2, 3, dtype=f32), np.arange(3), logspace(0, 2, 3), geomspace(1, 8, 4), linspace(0, 1), arange(3.0)",
        namespace={"np": np},
    ),
    accepted(
        "matrices-of-numbers",
        "x: f32",
        "eye(3), eye(2, 3), eye(3, k=1), identity(2), tri(3), tri(2, 3, -1), eye(2, dtype=i32), eye(3, 4, -1, dtype=f32), vander(arange(3), 3)",
    ),
    accepted(
        "arrays-of-numbers",
        "x: Tensor[(2, 2), f32]",
        "array([1, 2, 3]), array([[1.0, 2.0], [3, 4]]), array([True, False]), array([1, 2], dtype=f32), asarray(x), array([[1, 2], [3, 4]], f32) @ x, np.array([x, x]), array(3), array([x[0, 0], x[1, 1]])",
        namespace={"np": np},
    ),
    accepted(
        "leading-axes-of-arrays",
        N,
        "array(x, ndmin=4), array([x, x], ndmin=3, dtype=f64), array(3, ndmin=1), array([1, 2], ndmin=2), array(2, dtype=f32, ndmin=2), array(x, ndmin=1), ascontiguousarray(x.sum()), ascontiguousarray(x)",
    ),
    accepted(
        "grids",
        "v: Tensor[(3,), f32], w: Tensor[(2,), f32]",
        "meshgrid(v, w), meshgrid(v, w, indexing='ij'), np.meshgrid(v, w, sparse=True)",
        namespace={"np": np},
    ),
    accepted(
        "dtypes-under-numpys-names",
        "x: Tensor[(2,), f32]",
        "x.astype(np.float64), x.astype('int32'), x.astype(float64), zeros(2, int32), x.astype(np.bool_), np.float64(x), x.astype(int), x.astype(bool), x.astype(float)",
        namespace={"np": np, "float64": np.float64, "int32": np.int32},
    ),
    accepted(
        "numbers-under-numpys-names",
        "x: Tensor[(2,), f32]",
        "x * np.pi + np.e, x < np.inf, x + np.nan, x[np.newaxis]",
        namespace={"np": np},
    ),
    # indices
    accepted(
        "taking",
        "x: Tensor[(4, 3), f32], k: Tensor[(2,), i32]",
        "take(x, k, axis=0), take(x, k), take(x, [0, 2], axis=1), take(x, -1, axis=0), take(x, 5, axis=0, mode='clip'), take(x, 5, axis=0, mode='wrap'), x.take(k, axis=1)",
        within={"k": (-3, 2)},
    ),
    accepted(
        "taking-along-an-axis",
        "x: Tensor[(4, 3), f32], k: Tensor[(2, 3), i64]",
        "take_along_axis(x, k, axis=0), take_along_axis(x, argsort(x, axis=1), axis=1), take_along_axis(x, argmax(x, axis=1, keepdims=True), axis=1)",
        within={"k": (-4, 3)},
    ),
    accepted(
        "sorting",
        f"{X}, {I}",
        "sort(x), sort(x, axis=0), sort(x, axis=None), sort(i), argsort(x), argsort(i, axis=0), argsort(x, axis=None)",
    ),
    accepted("sorting-special-numbers", S, "sort(x), sort(y)", arguments=SPECIALS),
    accepted(
        "searching",
        "s: Tensor[(6,), f32], x: Tensor[(2, 3), f32]",
        "searchsorted(sort(s), x), searchsorted(sort(s), x, side='right'), searchsorted(sort(s), x[0, 0]), digitize(x, sort(s))",
    ),
    accepted(
        "differences",
        "x: Tensor[(3, 4), f32], i: Tensor[(5,), i32]",
        "diff(x), diff(x, axis=0), diff(i), diff(x, n=2), diff(i, prepend=i[:1]), gradient(i), gradient(x, axis=1), gradient(x), ediff1d(i), trapezoid(x), diff(x > 0)",
    ),
    accepted(
        "broadcasts-of-sizes-without-names",
        'x: Tensor[("n",), f32]',
        "y = x[x > 0]\nreturn broadcast_arrays(y, y[:, None]), broadcast_arrays(y, x[:1] > 0), meshgrid(y, x), meshgrid(y, x, indexing='ij', sparse=True), triu(y), tril(y > 2), cosine_similarity(y, y + 1, axis=0)",
        arguments=[(np.array(row, "float32"),) for row in ([1, -2, 3, 4], [2, -1], [5])],
    ),
    accepted(
        "norms-of-no-elements",
        N,
        "np.linalg.norm(x[:, 0], ord=inf), np.linalg.norm(x, ord=inf, axis=0), np.linalg.norm(x, ord=inf, axis=1), np.linalg.norm(x)",
        arguments=[
            (np.zeros((0, 3), "float32"),),
            (np.array([[-3, 1, 2], [1, np.nan, -np.inf]], "float32"),),
        ],
        namespace={"np": np},
    ),
    accepted(
        "integrals-of-integers-and-bools",
        "i: Tensor[(2, 3), i8], u: Tensor[(2, 3), u8], b: Tensor[(2, 3), bool_]",
        "trapezoid(i), trapezoid(u, axis=0), trapezoid(b), trapezoid(i, i), trapezoid(u, u[0]), trapezoid(b, b), trapezoid(b, i)",
        arguments=[
            (
                np.array([[100, 100, -3], [1, 2, 3]], "int8"),
                np.array([[200, 100, 3], [100, 2, 1]], "uint8"),
                np.array([[True, True, False], [False, True, True]]),
            )
        ],
    ),
    accepted(
        "interpolation",
        "x: Tensor[(7,), f64]",
        "interp(x, [-1.0, 0.0, 2.0], [3.0, 1.0, 4.0]), interp(x, [0.0, 1.0], [0.0, 1.0], left=-1.0, right=5.0)",
    ),
    accepted(
        "coordinates",
        "k: Tensor[(4,), i64]",
        "unravel_index(k, (3, 4)), unravel_index(5, (2, 3))",
        within={"k": (0, 11)},
    ),
    # products
    accepted(
        "products-by-name",
        "x: Tensor[(2, 3), f32], w: Tensor[(3, 4), f32], v: Tensor[(3,), f32], s: f32",
        "matmul(x, w), dot(x, w), dot(v, v), dot(x, v), dot(s, x), vdot(x, x), inner(x, v), inner(x, x), outer(v, v), x.dot(w), np.dot(x, w), inner(v, v)",
        namespace={"np": np},
    ),
    accepted(
        "products-of-tensors",
        "t: Tensor[(2, 3, 4), f32], u: Tensor[(4, 3, 2), f32], w: Tensor[(5, 4, 3), f32]",
        "tensordot(t, u, 1), tensordot(t, u, axes=([1, 2], [1, 0])), tensordot(t, u, axes=2 - 2), dot(t, w), einsum('ijk,kjl->il', t, u), einsum('ijk->kij', t), inner(t, t), matmul(t, w[:2])",
        rtol=1e-4,
        why="the order of a sum",
    ),
    accepted(
        "products-of-vectors",
        "a: Tensor[(2, 3), f32], b: Tensor[(2, 3), f32], c: Tensor[(2, 2), f32]",
        "cross(a, b), kron(a, c), kron(c, a[0]), vecdot(a, b), np.linalg.norm(a), np.linalg.norm(a, axis=1), np.linalg.norm(a, axis=0, keepdims=True), np.linalg.norm(a, 1, axis=1)",
        namespace={"np": np},
    ),
    accepted(
        "products-of-integers",
        I,
        "i @ j.T, dot(i, j.T), inner(i, j), outer(i, j), einsum('ij,ij->i', i, j), einsum('ij,kj', i, j)",
    ),
    accepted(
        "products-of-named-dimensions",
        'q: Tensor[("n", 2, "l", 4), f32], k: Tensor[("n", 2, "l", 4), f32]',
        "q @ k.transpose(0, 1, 3, 2)",
        rtol=1e-4,
        why="the order of a sum",
    ),
    accepted(
        "numbers-alone",
        "x: Tensor[(3, 64), f32]",
        "(x / sqrt(64)).astype(f32), (x * exp(0.5)).astype(f32), (x / np.sqrt(x.shape[-1])).astype(f32), x / math.sqrt(x.shape[1]), (x * maximum(2, 3)).astype(f32), (x * floor(2.5)).astype(f32), (x * prod(x.shape)).astype(f32)",
        namespace={"np": np, "math": __import__("math")},
    ),
    accepted(
        "functions-of-a-loops-counter",
        "x: Tensor[(3,), f32], n: i64",
        "y = x\nfor i in range(n):\n    y = maximum(y, i) + where(y > i, y, i)\nreturn y",
        within={"n": (0, 4)},
    ),
    # refused
    refused(
        "maximum-of-no-elements",
        function("x: Tensor[(0, 3), f32]", "max(«x», axis=0)"),
        "max of no elements: (0, 3) has an axis of size 0",
        "give `initial`, what it is then",
    ),
    refused(
        "index-in-no-elements",
        function("x: Tensor[(0, 3), f32]", "argmax(«x»)"),
        "argmax of no elements: (0, 3) has an axis of size 0",
    ),
    refused(
        "sum-axis", function(X, "sum(x, axis=«2»)"), "sum: axis 2 is out of range for a tensor of rank 2"
    ),
    accepted("sum-of-two-dtypes", "x: Tensor[(3,), f32], y: Tensor[(3,), f64]", "sum([x, y])"),
    refused(
        "sum-of-half-precisions",
        function("x: Tensor[(3,), f16], y: Tensor[(3,), bf16]", "sum(«[x, y]»)"),
        "`+` of f16 and bf16, which have no common dtype",
        "convert them first, as in sum([item.astype(bf16) for item in [x, y]])",
    ),
    refused(
        "sum-of-two-shapes",
        function("x: Tensor[(3,), f32], y: Tensor[(4,), f32]", "sum(«(x, y)»)"),
        "`+`: the shapes (3,) and (4,) do not broadcast (3 against 4)",
    ),
    accepted("sum-of-bools", X, "sum([x > 0, y > 0])"),
    refused("sum-axis-twice", function(X, "sum(x, axis=«(0, -2)»)"), "sum: an axis is listed twice"),
    refused(
        "output-parameter",
        function(X, "sum(x, out=«y»)"),
        "sum has no parameter `out`",
        "a call with out= is a statement of its own: write it on a line before",
    ),
    refused(
        "misspelt-function", function(X, "«maximun»(x, y)"), "unknown name `maximun`", "did you mean maximum?"
    ),
    refused(
        "misspelt-parameter",
        function(X, "sum(x, axes=«1»)"),
        "sum has no parameter `axes`",
        "did you mean `axis`?",
    ),
    accepted("dtypes-meet", "x: Tensor[(2,), f32], d: Tensor[(2,), f64]", "add(x, d)"),
    refused(
        "shapes-do-not-broadcast",
        function("x: Tensor[(2, 3), f32], y: Tensor[(2,), f32]", "«add(x, y)»"),
        "`add`: the shapes (2, 3) and (2,) do not broadcast (3 against 2)",
    ),
    refused("integer-to-a-negative-power", function(I, "power(i, «-1»)"), "an integer to a negative power"),
    refused("minus-of-bools-by-name", function(B, "«subtract(a, b)»"), "`subtract` is not defined for bools"),
    refused(
        "split-into-unequal-parts",
        function("x: Tensor[(5,), f32]", "split(x, «2»)"),
        "split: axis 0 of size 5 does not divide into 2 equal parts",
        "array_split takes parts of different sizes",
    ),
    refused(
        "index-known-out-of-range",
        function(X, "take(x, «[0, 2]», axis=0)"),
        "take: index 2 is out of range for an axis of size 2",
    ),
    refused(
        "index-of-floats",
        function(X, "take(x, «y»)"),
        "take: `indices` must be integers, not f32",
        "convert them with .astype(i32)",
    ),
    refused(
        "quantile-of-bools",
        function(B, "quantile(«a», 0.5)"),
        "quantile is defined for numbers, not bool_",
        "convert it first, as in a.astype(f64)",
    ),
    refused(
        "array-of-300-axes",
        function(X, "array(x, ndmin=«300»)"),
        "array: `ndmin` is at most 64, not 300",
    ),
    refused(
        "ragged-array", function("x: f32", "array(«[[1, 2], [3]]»)"), "array: the rows are not of one length"
    ),
    refused(
        "eye-of-a-float",
        function("x: f32", "eye(«x»)"),
        "eye: `N` must be known at compile time, not an f32",
    ),
    refused(
        "squeeze-of-a-wide-axis", function(X, "squeeze(x, axis=«1»)"), "squeeze: axis 1 has the size 3, not 1"
    ),
    refused(
        "zeros-of-a-negative-size", function("x: f32", "zeros(«(2, -1)»)"), "zeros: a dimension cannot be -1"
    ),
    refused(
        "arithmetic-mean-in-integers",
        function(X, "mean(x, dtype=«i32»)"),
        "mean: `dtype` must be a float dtype, not i32",
    ),
]
