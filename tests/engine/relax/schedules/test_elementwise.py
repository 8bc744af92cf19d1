"""Element-wise kernels against NumPy: odd sizes, broadcasts, moved elements, narrow dtypes, all machines.

Squares of moved elements are exchanged in registers (`engine/relax/tir/transposition`).
"""

import numpy as np
import pytest
from tvm.target import codegen

import nnmagic
from tests.engine.programs import compile_text

MACHINES = [
    None,
    *([{"kind": "llvm", "mcpu": "haswell"}] if "x86_64" in codegen.llvm_get_system_triple() else []),
]


def draw_values(*shape, dtype="float32"):
    """Numbers with some that are not finite, zeros of both signs and denormals."""
    generator = np.random.default_rng(sum(shape) + len(shape))
    numbers = generator.uniform(-9, 9, shape)
    if dtype == "bool":
        return np.asarray(numbers > 0)
    if "int" in dtype:
        return np.asarray(generator.integers(0 if dtype[0] == "u" else -99, 99, shape)).astype(dtype)
    special = generator.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-310, 1e-42], shape)
    return np.asarray(np.where(generator.random(shape) < 0.1, special, numbers)).astype(dtype)


def type_of(array):
    """The Relay type of an array."""
    return f"Tensor[({', '.join(map(str, array.shape))}), {array.dtype}]"


def check(body, arrays, expected, target=None, rtol=0.0):
    """Runs a body of parameters %a, %b, ... and compares."""
    params = ", ".join(f"%{name}: {type_of(array)}" for name, array in zip("abcdef", arrays, strict=False))
    result = compile_text(f"def @main({params}) {{ {body} }}", target=target)(arrays)
    expected = np.asarray(expected)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(result, expected, rtol=rtol, atol=0)


SIZES = [(1,), (2,), (3,), (7,), (15,), (16,), (17,), (63,), (130,), (1, 1), (3, 5), (5, 1), (1, 9), (33, 31)]


pytestmark = [pytest.mark.filterwarnings("ignore::RuntimeWarning"), pytest.mark.sampled(every=6)]


@pytest.mark.sampled(every=9)
@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_chains_of_all_sizes(dtype, shape, target):
    a, b = draw_values(*shape, dtype=dtype), draw_values(*shape, dtype=dtype)[..., ::-1].copy()
    expected = np.where((a + b) * a < b, a - b, np.abs(a))
    check("where(less(multiply(add(%a, %b), %a), %b), subtract(%a, %b), abs(%a))", [a, b], expected, target)


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "bool", "float16"]
)
def test_chains_of_all_dtypes(dtype):
    a, b = draw_values(3, 37, dtype=dtype), draw_values(3, 37, dtype=dtype)[::-1].copy()
    with np.errstate(all="ignore"):
        expected = (a ^ b if dtype == "bool" else a + b), (a & b if dtype == "bool" else a * b)
    check("add(%a, %b)", [a, b], expected[0])
    check("multiply(%a, %b)", [a, b], expected[1])
    check("where(equal(%a, %b), %b, %a)", [a, b], a)
    check("logical_and(not_equal(%a, %b), greater(%a, %b))", [a, b], a > b)


@pytest.mark.sampled(every=9)
@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((5, 37), (37,)),
        ((5, 37), (5, 1)),
        ((5, 1), (37,)),
        ((4, 3, 5, 7), (3, 1, 1)),
        ((4, 3, 5, 7), (3, 1, 7)),
        ((4, 1, 5, 1), (1, 3, 1, 7)),
        ((2, 3, 4), (1,)),
        ((1,), (1, 1, 70)),
    ],
)
def test_broadcasts(left, right, target):
    a, b = draw_values(*left), draw_values(*right)
    check("add(multiply(%a, 2f), abs(%b))", [a, b], a * np.float32(2) + abs(b), target)
    exps = np.exp(a.astype("f8")).astype("f4") + np.exp(b.astype("f8")).astype("f4")
    check("add(exp(%a), exp(%b))", [a, b], exps, target, rtol=5e-7)


MOVES = [
    ("transpose(%a, axes=[1, 0])", (37, 53), lambda a: a.T),
    ("transpose(%a, axes=[1, 0])", (8, 300), lambda a: a.T),
    ("transpose(%a, axes=[0, 2, 1])", (3, 19, 33), lambda a: a.transpose(0, 2, 1)),
    ("transpose(%a, axes=[2, 0, 1])", (3, 19, 33), lambda a: a.transpose(2, 0, 1)),
    ("transpose(%a, axes=[1, 0, 2])", (3, 19, 33), lambda a: a.transpose(1, 0, 2)),
    ("add(transpose(%a, axes=[1, 0]), %a)", (25, 25), lambda a: a.T + a),
    ("reshape(%a, newshape=[6, -1])", (4, 3, 35), lambda a: a.reshape(6, 70)),
    (
        "abs(reshape(transpose(%a, axes=[1, 0]), newshape=[4, -1]))",
        (12, 14),
        lambda a: abs(a.T.reshape(4, 42)),
    ),
    ("concatenate((%a, abs(%a), %a), axis=1)", (3, 19), lambda a: np.concatenate([a, abs(a), a], 1)),
    ("concatenate((%a, abs(%a)), axis=0)", (3, 19), lambda a: np.concatenate([a, abs(a)], 0)),
    (
        "negative(nn.pad(abs(%a), 2f, pad_width=[[1, 0], [2, 17], [0, 3]]))",
        (2, 5, 31),
        lambda a: -np.pad(abs(a), [(1, 0), (2, 17), (0, 3)], constant_values=2),
    ),
    ("repeat(%a, repeats=3, axis=1)", (5, 9), lambda a: np.repeat(a, 3, 1)),
    ("tile(%a, reps=[2, 3])", (5, 9), lambda a: np.tile(a, (2, 3))),
    ("reverse(%a, axis=1)", (5, 39), lambda a: a[:, ::-1]),
    (
        "strided_slice(%a, begin=[1, 2], end=[5, 39], strides=[2, 3], axes=None)",
        (5, 39),
        lambda a: a[1:5:2, 2:39:3],
    ),
    (
        "nn.depth_to_space(%a, block_size=2)",
        (1, 8, 3, 5),
        lambda a: a.reshape(1, 2, 2, 2, 3, 5).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 6, 10),
    ),
]


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize(("body", "shape", "expected"), MOVES)
def test_moved_elements(body, shape, expected, target):
    a = draw_values(*shape)
    check(body, [a], expected(a), target)


@pytest.mark.parametrize("rows", [0, 1, 3, 40])
def test_a_dimension_that_only_the_call_knows(rows):
    function = compile_text("def @main(%a: Tensor[(?, 7), float32]) { abs(multiply(%a, %a)) }")
    a = draw_values(rows, 7)
    np.testing.assert_array_equal(function([a]), abs(a * a))


def test_work_for_the_threads():
    a, b = draw_values(1031, 1033), draw_values(1033)
    check("subtract(nn.relu(multiply(add(%a, %b), %a)), %b)", [a, b], np.maximum((a + b) * a, 0) - b)
    c = draw_values(3, 500_003)
    check("add(%a, abs(%a))", [c], c + abs(c))
    d = draw_values(1_500_001)
    check("add(%a, abs(%a))", [d], d + abs(d))


def test_arrays_that_begin_anywhere():
    memory = draw_values(600)
    function = compile_text("def @main(%a: Tensor[(123), float32]) { multiply(%a, %a) }")
    for begin in range(17):
        part = memory[begin : begin + 123]
        np.testing.assert_array_equal(function([part]), part * part)


def test_a_value_that_is_needed_often_is_computed_once():
    function = compile_text(
        "def @main(%a: Tensor[(64), float32], %b: Tensor[(50, 64), float32]) { add(exp(%a), %b) }"
    )
    a, b = draw_values(64), draw_values(50, 64)
    np.testing.assert_allclose(function([a, b]), np.exp(a) + b, rtol=5e-7, atol=1e-6)
    assert function.stage("tir").count("alloc_buffer((64,)") == 1


def test_values_used_twice_do_not_grow_the_code():
    steps = " ".join(f"let %x{i + 1} = multiply(%x{i}, %x{i});" for i in range(24))
    x = np.ones(33, "f4")
    np.testing.assert_array_equal(
        compile_text(f"def @main(%x0: Tensor[(33), float32]) {{ {steps} %x24 }}")([x]), x
    )


@pytest.mark.parametrize("size", [1, 15, 16, 17, 40])
def test_two_dimensions_of_one_name(size):
    results = "x + x.T, x + x[0], x[:, None] * x[None]"
    result = nnmagic.compile(f'def f(x: Tensor[("n", "n"), f32]):\n    return {results}\n')
    x = np.random.default_rng(0).standard_normal((size, size)).astype("f4")
    for given, expected in zip(result(x), (x + x.T, x + x[0], x[:, None] * x[None]), strict=True):
        np.testing.assert_array_equal(given, expected)


@pytest.mark.sampled(every=9)
@pytest.mark.full("shape0-9")
@pytest.mark.parametrize("count", [2, 3, 8, 9])
@pytest.mark.parametrize("shape", [(1, 1), (3, 21), (40, 16)])
def test_stacks_along_the_last_axis(shape, count):
    rows, columns = shape
    arrays = [draw_values(*shape) + np.float32(number) for number in range(count)]
    names = [f"x{number}" for number in range(count)]
    values = [f"{name} * 2.0" if number % 2 else name for number, name in enumerate(names)]
    expected = np.stack([array * np.float32(1 + number % 2) for number, array in enumerate(arrays)], -1)
    for dims in (f"{rows}, {columns}", '"n", "k"'):
        params = ", ".join(f"{name}: Tensor[({dims}), f32]" for name in names)
        body = f"def f({params}):\n    return stack([{', '.join(values)}], -1)\n"
        for target in MACHINES:
            np.testing.assert_array_equal(nnmagic.compile(body, target=target)(*arrays), expected)


def test_a_piece_without_elements_at_the_end_of_a_named_size():
    v = draw_values(7)
    function = nnmagic.compile('def f(v: Tensor[("n",), f32]):\n    return diff(v, append=0)\n', cache=False)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(function(v), np.diff(v, append=np.float32(0)))
