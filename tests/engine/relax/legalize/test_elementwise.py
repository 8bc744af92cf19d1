"""Element-wise operators, reductions and scans against NumPy: dtypes, odd and empty shapes, NaN."""

import itertools
import warnings

import ml_dtypes
import numpy as np
import pytest

import nnmagic
from tests.engine.programs import compile_text, numpy_dtype

pytestmark = pytest.mark.sampled(every=9)

FLOATS = ("float16", "bfloat16", "float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
ALL = (*FLOATS, *INTEGERS)

#: One compiled function applies an operator at all of these: odd, longer than a vector, scalar, empty.
SHAPES = ((3, 5), (2, 3, 67), (), (0, 4))

TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-6, "float64": 1e-14}

_erf = np.vectorize(__import__("math").erf, otypes=["f8"])
_nan_sign = lambda x: np.where(np.isnan(x), x, np.sign(x))  # noqa: E731

#: name -> (NumPy in float64, range of the inputs). NaN and infinities are added to the inputs by the test.
MATHEMATICS = {
    "exp": (np.exp, (-8, 8)),
    "log": (np.log, (0.01, 50)),
    "log2": (np.log2, (0.01, 50)),
    "log10": (np.log10, (0.01, 50)),
    "sqrt": (np.sqrt, (0, 50)),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (0.01, 50)),
    "sin": (np.sin, (-6, 6)),
    "cos": (np.cos, (-6, 6)),
    "tan": (np.tan, (-1.4, 1.4)),
    "sinh": (np.sinh, (-8, 8)),
    "cosh": (np.cosh, (-8, 8)),
    "tanh": (np.tanh, (-8, 8)),
    "asin": (np.arcsin, (-1, 1)),
    "acos": (np.arccos, (-1, 1)),
    "atan": (np.arctan, (-20, 20)),
    "asinh": (np.arcsinh, (-20, 20)),
    "acosh": (np.arccosh, (1, 20)),
    "atanh": (np.arctanh, (-0.99, 0.99)),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), (-15, 15)),
    "erf": (_erf, (-4, 4)),
}


def round_half_away(x):
    return np.trunc(x) + np.where(np.abs(x - np.trunc(x)) >= 0.5, np.sign(x), 0)


#: name -> (NumPy in the operator's own dtype, dtypes).
EXACT = {
    "abs": (np.abs, ALL),
    "negative": (np.negative, ALL),
    "sign": (_nan_sign, ALL),
    "floor": (np.floor, FLOATS),
    "ceil": (np.ceil, FLOATS),
    "trunc": (np.trunc, FLOATS),
    "round": (round_half_away, FLOATS),
    "numpy.rint": (np.rint, FLOATS),
    "isnan": (np.isnan, FLOATS),
    "isinf": (np.isinf, FLOATS),
    "isfinite": (np.isfinite, FLOATS),
    "copy": (lambda x: x, ALL),
    "bitwise_not": (np.invert, INTEGERS),
    "nn.relu": (lambda x: np.maximum(x, np.zeros((), x.dtype)), ALL),
    "zeros_like": (np.zeros_like, ALL),
    "ones_like": (np.ones_like, ALL),
    "logical_not": (np.logical_not, ("bool",)),
}


def values(dtype, shape, seed, low=None, high=None):
    """Random values: small numbers of either sign, and for floats NaN, infinities and signed zeros."""
    generator = np.random.default_rng(seed)
    kind = numpy_dtype(dtype)
    if dtype == "bool":
        return np.asarray(generator.integers(0, 2, shape)).astype(bool)
    if dtype in INTEGERS:
        info = np.iinfo(kind)
        drawn = generator.integers(max(info.min, -100), min(info.max, 100), shape)
        edges = generator.choice(np.array([0, 1, info.min, info.max], kind), shape)
        return np.where(generator.random(shape) < 0.2, edges, drawn.astype(kind)).astype(kind)
    drawn = generator.uniform(-30 if low is None else low, 30 if high is None else high, shape)
    halves = np.where(generator.random(shape) < 0.2, np.round(drawn) + 0.5, drawn) if low is None else drawn
    special = generator.choice([0.0, -0.0, np.inf, -np.inf, np.nan], shape)
    return np.asarray(np.where(generator.random(shape) < 0.15, special, halves)).astype(kind)


def text(shape, dtype):
    return f"Tensor[({', '.join(map(str, shape))}), {dtype}]" if shape else dtype


def compile_call(call, dtypes, shapes=SHAPES):
    """Compiles ``call`` (with {0}, {1}, ... for its operands) at every shape; takes rows of operands."""
    names = [[f"%x{row}_{column}" for column in range(len(dtypes))] for row in range(len(shapes))]
    params = [
        f"{name}: {text(shape, dtype)}"
        for shape, row in zip(shapes, names, strict=True)
        for name, dtype in zip(row, dtypes, strict=True)
    ]
    calls = [call.format(*row) for row in names]
    executable = compile_text(f"def @main({', '.join(params)}) {{ ({', '.join(calls)},) }}")
    return lambda rows: executable([operand for row in rows for operand in row])


def assert_same(result, expected, dtype, rtol=0.0, atol=0.0):
    """Equal results; NaN equals NaN, and the sign of a zero is left open."""
    assert result.shape == expected.shape
    assert result.dtype == numpy_dtype(dtype)
    if result.dtype.kind in "fV":
        np.testing.assert_allclose(result.astype("f8"), expected.astype("f8"), rtol=rtol, atol=atol)
    else:
        np.testing.assert_array_equal(result, expected)


@pytest.mark.sampled(every=12)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", MATHEMATICS)
def test_mathematics(name, dtype):
    function, (low, high) = MATHEMATICS[name]
    rows = [[values(dtype, shape, seed, low, high)] for seed, shape in enumerate(SHAPES)]
    for (operand,), result in zip(rows, compile_call(f"{name}({{0}})", [dtype])(rows), strict=True):
        with np.errstate(all="ignore"):
            expected = function(operand.astype("f8")).astype(operand.dtype)
        assert_same(result, expected, dtype, TOLERANCE[dtype], 1e-3 * TOLERANCE[dtype])


@pytest.mark.full
def test_mathematics_inside_of_a_reduction():
    params = ", ".join(f"%x{number}: Tensor[(5, 9), float32]" for number in range(len(MATHEMATICS)))
    text = ", ".join(f"max({name}(%x{number}), axis=[1])" for number, name in enumerate(MATHEMATICS))
    ranges = [bounds for _, bounds in MATHEMATICS.values()]
    arrays = [np.random.default_rng(0).uniform(*bounds, (5, 9)).astype("f4") for bounds in ranges]
    results = compile_text(f"def @main({params}) {{ ({text},) }}")(arrays)
    for (function, _), array, result in zip(MATHEMATICS.values(), arrays, results, strict=True):
        np.testing.assert_allclose(result, function(array).max(axis=1), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["tanh", "sinh", "asinh", "atanh", "sin", "tan", "asin", "atan", "erf"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_odd_functions_keep_their_precision_near_zero(name, dtype):
    x = np.array([0.0, 1e-12, -1e-8, 1e-6, -1e-5, 1e-4, 3e-3, -0.02, 0.1, 0.4], dtype)
    function = MATHEMATICS[name][0]
    (result,) = compile_call(f"{name}({{0}})", [dtype], [x.shape])([[x]])
    np.testing.assert_allclose(result, function(x.astype("f8")), rtol=4e-7 if dtype == "float32" else 1e-14)


@pytest.mark.sampled(every=12)
@pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for name, (_, kinds) in EXACT.items() for dtype in kinds]
)
def test_exact_functions(name, dtype):
    rows = [[values(dtype, shape, seed)] for seed, shape in enumerate(SHAPES)]
    for (operand,), result in zip(rows, compile_call(f"{name}({{0}})", [dtype])(rows), strict=True):
        with np.errstate(all="ignore"):
            expected = np.asarray(EXACT[name][0](operand))
        assert_same(result, expected, "bool" if name.startswith("is") else dtype)


def trunc_divide(a, b):
    """As C divides; by zero 0, as NumPy's integer division says."""
    wide = a.astype(object)
    by = np.where(b == 0, 1, b).astype(object)
    quotient = np.vectorize(
        lambda x, y: abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1), otypes=[object]
    )
    return wrap(np.where(b == 0, 0, quotient(wide, by)), a.dtype)


def trunc_mod(a, b):
    by = np.where(b == 0, 1, b).astype(object)
    rest = np.vectorize(lambda x, y: x - abs(x) // abs(y) * (abs(y) if x >= 0 else -abs(y)), otypes=[object])
    return wrap(np.where(b == 0, 0, rest(a.astype(object), by)), a.dtype)


def wrap(numbers, dtype):
    """Python integers modulo the dtype's range."""
    bits = dtype.itemsize * 8
    return (
        np.vectorize(lambda n: int(n) & ((1 << bits) - 1), otypes=["u8"])(numbers)
        .astype(f"u{dtype.itemsize}")
        .view(dtype)
    )


#: name -> (NumPy, dtypes, dtype of the result or None for the operands').
BINARY = {
    "add": (np.add, ALL, None),
    "subtract": (np.subtract, ALL, None),
    "multiply": (np.multiply, ALL, None),
    "maximum": (np.maximum, ALL, None),
    "minimum": (np.minimum, ALL, None),
    "divide": (lambda a, b: a / b if a.dtype.kind in "fV" else trunc_divide(a, b), ALL, None),
    "trunc_divide": (trunc_divide, INTEGERS, None),
    "trunc_mod": (trunc_mod, INTEGERS, None),
    "mod": (trunc_mod, INTEGERS, None),
    "floor_divide": (np.floor_divide, INTEGERS, None),
    "floor_mod": (np.mod, INTEGERS, None),
    "bitwise_and": (np.bitwise_and, INTEGERS, None),
    "bitwise_or": (np.bitwise_or, INTEGERS, None),
    "bitwise_xor": (np.bitwise_xor, INTEGERS, None),
    "left_shift": (np.left_shift, INTEGERS, None),
    "right_shift": (np.right_shift, INTEGERS, None),
    "equal": (np.equal, ALL, "bool"),
    "not_equal": (np.not_equal, ALL, "bool"),
    "less": (np.less, ALL, "bool"),
    "less_equal": (np.less_equal, ALL, "bool"),
    "greater": (np.greater, ALL, "bool"),
    "greater_equal": (np.greater_equal, ALL, "bool"),
    "logical_and": (np.logical_and, ("bool",), "bool"),
    "logical_or": (np.logical_or, ("bool",), "bool"),
    "logical_xor": (np.logical_xor, ("bool",), "bool"),
}


@pytest.mark.sampled(every=12)
@pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for name, (_, kinds, _) in BINARY.items() for dtype in kinds]
)
def test_binary(name, dtype):
    function, _, result = BINARY[name]
    rows = [
        [values(dtype, shape, seed), values(dtype, shape, seed + 50)] for seed, shape in enumerate(SHAPES)
    ]
    call = compile_call(f"{name}({{0}}, {{1}})", [dtype, dtype])
    for (left, right), actual in zip(rows, call(rows), strict=True):
        with np.errstate(all="ignore"):
            expected = (
                np.asarray(function(left, right)) if left.size else left.astype(numpy_dtype(result or dtype))
            )
        narrow = {"float16": 1e-3, "bfloat16": 8e-3}.get(dtype, 0)
        assert_same(actual, expected, result or dtype, rtol=narrow)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_power_and_divisions_of_floats(dtype):
    generator = np.random.default_rng(5)
    x, y = generator.uniform(0.1, 9, (7, 33)).astype(dtype), generator.uniform(-3, 3, (7, 33)).astype(dtype)
    calls = ["power", "floor_divide", "floor_mod", "trunc_divide", "trunc_mod", "mod"]
    shape = text(x.shape, dtype)
    body = ", ".join(f"{name}(%x, %y)" for name in calls)
    result = dict(
        zip(calls, compile_text(f"def @main(%x: {shape}, %y: {shape}) {{ ({body}) }}")([x, y]), strict=True)
    )
    rest = np.fmod(x, y)
    tight = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(result["power"], np.power(x, y), rtol=tight)
    np.testing.assert_array_equal(result["floor_divide"], np.floor(x / y))
    np.testing.assert_array_equal(result["trunc_divide"], np.trunc(x / y))
    np.testing.assert_allclose(result["floor_mod"], np.mod(x, y), rtol=tight, atol=10 * tight)
    np.testing.assert_allclose(result["trunc_mod"], rest, rtol=tight, atol=10 * tight)
    np.testing.assert_allclose(result["mod"], rest, rtol=tight, atol=10 * tight)


@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 1), (1, 4)), ((5,), (2, 5)), ((), (3, 2)), ((1,), (0,)), ((2, 1, 3), (7, 1)), ((0, 1), (1, 6))],
)
def test_broadcasting_is_numpys(left, right):
    x, y = values("float32", left, 1), values("float32", right, 2)
    body = "(add(%x, %y), maximum(%y, %x), less(%x, %y), where(less(%y, %x), %x, %y))"
    program = f"def @main(%x: {text(left, 'float32')}, %y: {text(right, 'float32')}) {{ {body} }}"
    with np.errstate(all="ignore"):
        expected = (x + y, np.maximum(x, y), x < y, np.where(y < x, x, y))
    for result, wanted in zip(compile_text(program)([x, y]), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("source", ["bool", *FLOATS, *INTEGERS])
def test_cast(source):
    targets = [dtype for dtype in ("bool", *FLOATS, *INTEGERS) if dtype != source]
    x = np.arange(0, 60).reshape(4, 15).astype(numpy_dtype(source))
    body = ", ".join(f'cast(%x, dtype="{target}")' for target in targets)
    actual = compile_text(f"def @main(%x: {text(x.shape, source)}) {{ ({body}) }}")([x])
    for target, result in zip(targets, actual, strict=True):
        assert result.dtype == numpy_dtype(target)
        np.testing.assert_array_equal(result, x.astype(numpy_dtype(target)))


def test_cast_rounds_to_nearest_even():
    x = np.random.default_rng(3).standard_normal(4096).astype("f4") * (10.0 ** np.arange(-8, 8)).repeat(
        256
    ).astype("f4")
    program = (
        'def @main(%x: Tensor[(4096), float32]) { (cast(%x, dtype="bfloat16"), cast(%x, dtype="float16")) }'
    )
    brain, half = compile_text(program)([x])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(brain.view("u2"), x.astype(ml_dtypes.bfloat16).view("u2"))
        np.testing.assert_array_equal(half, x.astype("f2"))


def test_clip_keeps_nan_and_limits_to_the_dtypes_range():
    x = np.array([np.nan, -np.inf, -3.0, 0.25, 9.0, np.inf], "f4")
    result = compile_text("def @main(%x: Tensor[(6), float32]) { clip(%x, a_min=-1f, a_max=6f) }")([x])
    np.testing.assert_array_equal(result, np.clip(x, -1, 6))
    small = np.array([0, 3, 200, 255], "u1")
    result = compile_text("def @main(%x: Tensor[(4), uint8]) { clip(%x, a_min=-5f, a_max=1000f) }")([small])
    np.testing.assert_array_equal(result, small)


REDUCTIONS = {
    "sum": (np.sum, (*FLOATS, *INTEGERS)),
    "prod": (np.prod, ("float32", "float64", "int32", "int64")),
    "max": (np.max, (*FLOATS, *INTEGERS)),
    "min": (np.min, (*FLOATS, *INTEGERS)),
    "mean": (np.mean, FLOATS),
    "all": (np.all, ("bool",)),
    "any": (np.any, ("bool",)),
    "argmax": (np.argmax, (*FLOATS, *INTEGERS)),
    "argmin": (np.argmin, (*FLOATS, *INTEGERS)),
}
AXES = {"": None, ", axis=[1]": 1, ", axis=[-1], keepdims=True": -1, ", axis=[0]": 0}


@pytest.mark.sampled(every=12)
@pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for name, (_, kinds) in REDUCTIONS.items() for dtype in kinds]
)
def test_reductions(name, dtype):
    function, _ = REDUCTIONS[name]
    x = values(dtype, (4, 3, 37), 11) if name not in ("sum", "prod", "mean") else finite(dtype, (4, 3, 37))
    calls = ", ".join(f"{name}(%x{axes})" for axes in AXES)
    actual = compile_text(f"def @main(%x: {text(x.shape, dtype)}) {{ ({calls}) }}")([x])
    wide = x.astype("f8") if x.dtype.kind in "fV" else x
    for axes, result in zip(AXES, actual, strict=True):
        keyword = {"keepdims": True} if "keepdims" in axes else {}
        if name == "prod" and dtype.startswith("int"):
            keyword["dtype"] = x.dtype
        expected = np.asarray(function(wide, axis=AXES[axes], **keyword))
        kind = "int32" if name.startswith("arg") else dtype
        assert_same(
            result, expected.astype(numpy_dtype(kind)), kind, rtol=20 * TOLERANCE.get(dtype, 0), atol=1e-5
        )


def finite(dtype, shape):
    generator = np.random.default_rng(17)
    drawn = generator.uniform(0.5, 1.5, shape) if dtype in FLOATS else generator.integers(1, 4, shape)
    return drawn.astype(numpy_dtype(dtype))


def test_reductions_over_several_axes_and_the_others():
    x = finite("float64", (2, 3, 4, 5))
    program = (
        "def @main(%x: Tensor[(2, 3, 4, 5), float64]) { "
        "(sum(%x, axis=[0, 2]), sum(%x, axis=[1], exclude=True), "
        "max(%x, axis=[-1, 1], keepdims=True), argmax(%x, axis=[1, 2])) }"
    )
    total, others, largest, position = compile_text(program)([x])
    np.testing.assert_allclose(total, x.sum((0, 2)))
    np.testing.assert_allclose(others, x.sum((0, 2, 3)))
    np.testing.assert_array_equal(largest, x.max((1, 3), keepdims=True))
    np.testing.assert_array_equal(position, x.reshape(2, 12, 5).argmax(1))


def test_the_first_or_the_last_of_equal_elements():
    x = np.array([[1, 5, 5, 0], [7, 7, 7, 7]], "i4")
    program = "argmax(%x, axis=[1]), argmax(%x, axis=[1], select_last_index=True), argmin(%x, axis=[1])"
    actual = compile_text(f"def @main(%x: Tensor[(2, 4), int32]) {{ ({program}) }}")([x])
    assert [result.tolist() for result in actual] == [[1, 0], [2, 3], [3, 0]]


def test_integer_means_are_truncated_and_sums_wrap():
    x = np.array([[7, 8, 8], [-7, -8, -8]], "i4")
    mean = compile_text("def @main(%x: Tensor[(2, 3), int32]) { mean(%x, axis=[1]) }")([x])
    assert mean.tolist() == [7, -7]
    big = np.array([100, 100, 100], "i1")
    assert compile_text("def @main(%x: Tensor[(3), int8]) { sum(%x) }")([big]) == np.sum(big, dtype="i1")


def test_what_reductions_over_nothing_give():
    program = (
        "def @main(%x: Tensor[(2, 0), float32], %b: Tensor[(2, 0), bool]) { "
        "(sum(%x, axis=[1]), prod(%x, axis=[1]), "
        "mean(%x, axis=[1]), max(%x, axis=[1]), argmax(%x, axis=[1]), all(%b, axis=[1]), any(%b, axis=[1])) }"
    )
    actual = compile_text(program)([np.zeros((2, 0), "f4"), np.zeros((2, 0), bool)])
    expected = [0, 1, np.nan, -np.inf, -1, True, False]
    for result, wanted in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(result, np.full(2, wanted))


@pytest.mark.full
@pytest.mark.parametrize(("rows", "columns"), [(0, 3), (3, 0), (0, 0), (1, 1), (5, 17)])
def test_symbolic_dimensions_may_be_empty(rows, columns):
    program = (
        "(sum(%x, axis=[1]), max(%x, axis=[0]), nn.softmax(%x), nn.matmul(%x, %y, units=None), add(%x, 1f))"
    )
    executable = compile_text(
        f"def @main(%x: Tensor[(?, ?), float32], %y: Tensor[(?, 4), float32]) {{ {program} }}"
    )
    generator = np.random.default_rng(2)
    x, y = generator.random((rows, columns), "f4"), generator.random((columns, 4), "f4")
    total, largest, soft, product, plus = executable([x, y])
    np.testing.assert_allclose(total, x.sum(1), rtol=1e-6)
    np.testing.assert_array_equal(largest, x.max(0, initial=-np.inf))
    exponent = np.exp(x - x.max(1, keepdims=True, initial=-np.inf))
    np.testing.assert_allclose(soft, exponent / exponent.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(product, x @ y, rtol=1e-5)
    np.testing.assert_array_equal(plus, x + 1)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_scans(name, dtype):
    x = finite(dtype, (3, 11))
    function = getattr(np, name)
    program = f"({name}(%x, axis=1, exclusive=None), {name}(%x, axis=0, exclusive=None), {name}(%x))"
    actual = compile_text(f"def @main(%x: {text(x.shape, dtype)}) {{ {program} }}")([x])
    expected = [function(x, 1, dtype=dtype), function(x, 0, dtype=dtype), function(x, dtype=dtype)]
    for result, wanted in zip(actual, expected, strict=True):
        assert_same(result, wanted, dtype, rtol=1e-5)


def test_variance():
    x = np.random.default_rng(8).normal(1000, 0.1, (6, 50)).astype("f4")
    program = (
        "def @main(%x: Tensor[(6, 50), float32]) { let %m = mean(%x, axis=[1], keepdims=True); "
        "(variance(%x, %m, axis=[1]), variance(%x, %m, axis=[1], unbiased=True)) }"
    )
    result, unbiased = compile_text(program)([x])
    np.testing.assert_allclose(result, x.var(1), rtol=1e-3)
    np.testing.assert_allclose(unbiased, x.var(1, ddof=1), rtol=1e-3)


@pytest.mark.parametrize("rows", ["?", 0, 1, 2])
def test_an_unbiased_variance_of_too_few_is_nan(rows):
    program = (
        f"def @main(%x: Tensor[({rows}, 3), float32]) {{ "
        "variance(%x, mean(%x, axis=[0], keepdims=True), axis=[0], unbiased=True) }"
    )
    run = compile_text(program)
    for count in range(3) if rows == "?" else [rows]:
        x = np.arange(3 * count, dtype="f4").reshape(count, 3) ** 2
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of too few degrees of freedom
            expected = x.var(0, ddof=1)
        np.testing.assert_allclose(run([x]), expected, rtol=1e-6)


@pytest.mark.optimized
@pytest.mark.parametrize("width", [3, 5])
def test_the_border_of_a_padded_array_stays_loops(width: int) -> None:
    """LLVM wrote out every row of borders that overlapping vectors cover: 11 s for these."""
    source = (
        "def pad(x: Tensor[(8, 3, 64, 64), f32]):\n"
        f"    return np.pad(x, ((0, 0), (0, 0), ({width}, {width}), ({width}, {width})))\n"
    )
    compiled = nnmagic.compile(source, namespace={"np": np}, cache=False)
    x = np.random.default_rng(0).normal(size=(8, 3, 64, 64)).astype("float32")
    widths = ((0, 0), (0, 0), (width, width), (width, width))
    np.testing.assert_array_equal(compiled(x), np.pad(x, widths))
    assert compiled.stages["llvm"].count("\n  store ") < 1000  # 24 planes of 64 rows have 1536


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint64", "int8", "float16", "bool"])
@pytest.mark.parametrize("is_named", [False, True])
def test_transposed_arrays_among_others(dtype: str, is_named: bool) -> None:
    """Squares of any part of the arrays; the last ones overlap."""
    generator = np.random.default_rng(0)
    shapes = [(16, 16), (17, 33), (40, 16), (16, 7), (8, 64), (100, 19), (5, 3), (1, 1), (0, 20)]
    join = "logical_and" if dtype == "bool" else "add"
    runs = []
    for rows, columns in shapes:
        if not runs or not is_named:
            x_type, y_type = (f"Tensor[({sizes}), {dtype}]" for sizes in ("?, ?", "?, ?"))
            if not is_named:
                x_type, y_type = (
                    f"Tensor[({a}, {b}), {dtype}]" for a, b in ((rows, columns), (columns, rows))
                )
            bodies = "transpose(%x, axes=None)", f"{join}(transpose(%x, axes=None), %y)"
            runs = [compile_text(f"def @main(%x: {x_type}, %y: {y_type}) {{ {body} }}") for body in bodies]
        x, y = (
            generator.integers(0, 2 if dtype == "bool" else 50, shape)
            for shape in [(rows, columns), (columns, rows)]
        )
        x, y = x.astype(dtype), y.astype(dtype)
        plain, joined = (run([x, y]) for run in runs)
        np.testing.assert_array_equal(plain, x.T)
        np.testing.assert_array_equal(joined, x.T & y if dtype == "bool" else x.T + y)


@pytest.mark.full
def test_transposed_arrays_of_three_axes_and_slices() -> None:
    x = np.random.default_rng(0).normal(size=(20, 33, 40))
    for axes in itertools.permutations(range(3)):
        run = compile_text(
            f"def @main(%x: Tensor[(20, 33, 40), float64]) {{ add(transpose(%x, axes={list(axes)}), 1f64) }}"
        )
        np.testing.assert_array_equal(run([x]), x.transpose(axes) + 1)
    for source in ("x[::-1].T", "x[:, ::-1].T * 2.0", "x.T[::-1]", "x[1:].T + x[:-1].T", "x[::2].T"):
        text = f"def f(x: Tensor[(33, 40), f64]):\n    return {source}\n"
        compiled = nnmagic.compile(text, namespace={}, cache=False)
        np.testing.assert_array_equal(compiled(x[0]), eval(source, {"x": x[0]}))


@pytest.mark.machine_code
def test_the_power_three_halves_is_that_of_hard_values() -> None:
    f = nnmagic.compile('def f(x: Tensor[("n",), f64]): return x ** 1.5', cache=False)
    hard = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, 1e-310, 1e300, 2.25]
    x = np.concatenate([hard, 10.0 ** np.random.default_rng(0).uniform(-200, 200, 500)])
    with np.errstate(all="ignore"):
        wanted = x**1.5
    np.testing.assert_allclose(f(x), wanted, rtol=4e-16)
    np.testing.assert_array_equal(np.signbit(f(x[:3])), np.signbit(wanted[:3]))
