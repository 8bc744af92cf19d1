"""Results of rank 0 are NumPy's scalars, in every place of a result; NumPy's own functions are the judge."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nnmagic
from nnmagic.diagnostics import Source
from nnmagic.functions.caching.compile_options import Options
from nnmagic.functions.cells.compile_cell import compile_cell
from nnmagic.relay.types import ARRAY_DTYPES

pytestmark = pytest.mark.sampled(every=2)

#: How cells write each dtype.
ANNOTATIONS = {
    "bool": "bool_",
    "bfloat16": "bf16",
    "complex64": "c64",
    "complex128": "c128",
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    **{f"{kind}{bits}": f"{kind[0]}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}
X = np.array([1.5, 2.5, 4.0])


def compiled(source: str, **options: Any) -> Any:
    return nnmagic.compile(source, namespace={"np": np}, cache=False, **options)


def test_every_dtype_is_tested() -> None:
    assert set(ANNOTATIONS) == set(ARRAY_DTYPES)


@pytest.mark.parametrize("engine", ["numpy", "relax"])
def test_a_result_is_a_scalar_of_its_dtype(engine: str) -> None:
    """One by itself and three in a tuple: a call by position, and one by keywords, which Python makes."""
    names = {name: f"a_{short}" for name, short in ANNOTATIONS.items()}
    parameters = ", ".join(f"{names[name]}: {short}" for name, short in ANNOTATIONS.items())
    every = compiled(f"def f({parameters}):\n    return {', '.join(names.values())}\n", engine=engine)
    given = {name: ARRAY_DTYPES[dtype].type(1) for dtype, name in names.items()}
    for results in (every(*given.values()), every(**given)):
        for dtype, result in zip(names, results, strict=True):
            assert type(result) is ARRAY_DTYPES[dtype].type
            assert result == 1


@pytest.mark.parametrize(
    "dtype", ["bool", "bfloat16", "float16", "float32", "float64", "int8", "int64", "uint64", "complex64"]
)
def test_a_direct_call_returns_a_scalar(dtype: str) -> None:
    short, kind = ANNOTATIONS[dtype], ARRAY_DTYPES[dtype].type
    one = compiled(f"def f(x: {short}):\n    return x\n")
    pair = compiled(f"def f(x: {short}, y: Tensor[(2,), {short}]):\n    return y, x, y[1]\n")
    y = np.array([0, 1], ARRAY_DTYPES[dtype])
    for value in (kind(1), kind(0), np.array(1, ARRAY_DTYPES[dtype]), kind(1)):
        result = one(value)
        assert type(result) is kind
        assert result == value
        array, first, second = pair(value, y)
        assert type(array) is np.ndarray
        assert np.array_equal(array, y)
        assert type(first) is type(second) is kind
        assert (first, second) == (value, 1)


def test_results_of_calls_are_objects_of_their_own() -> None:
    """A call fills the same memory as the call before: what that has returned stays as it is."""
    total = compiled("def total(x: Tensor[('n',), f64], k: f64):\n    return x.sum() + k, x * k, x.max()\n")
    kept = [total(X[:count], float(k)) for k in range(40) for count in (1, 3)]
    for (value, array, largest), (k, count) in zip(
        kept, ((k, n) for k in range(40) for n in (1, 3)), strict=True
    ):
        assert value == X[:count].sum() + k
        assert largest == X[:count].max()
        np.testing.assert_array_equal(array, X[:count] * k)


def test_python_takes_the_results_as_numbers() -> None:
    mean = compiled("def mean(x: Tensor[('n',), f64]):\n    return x.mean()\n")
    count = compiled("def count(x: Tensor[('n',), f64]):\n    return (x > 2).sum()\n")
    positive = compiled("def positive(x: Tensor[('n',), f64]):\n    return (x > 0).all()\n")
    value, expected = mean(X), np.mean(X)
    assert type(value) is type(expected)
    assert isinstance(value, float)
    assert round(value, 2) == round(expected, 2)
    assert json.dumps({"mean": value}) == json.dumps({"mean": expected})
    assert {value: 1}[expected] == 1
    assert f"{value:.2f}" == "2.67"
    assert [0, 1, 2][count(X)] == 2
    assert list(range(count(X))) == [0, 1]
    assert positive(X) is np.True_
    assert sorted([mean(X), mean(-X)]) == [np.mean(-X), expected]


NESTED = """
class Point:
    x: f64
    y: Tensor[("n",), f64]

class Line:
    start: Point
    length: f64

def scaled(line: Line, k: f64):
    start = Point(line.start.x * k, line.start.y * k)
    return Line(start, line.length * k), (k, (line.start.y.sum(), line.start.y))
"""


@dataclass
class Start:
    x: Any
    y: Any


@pytest.mark.parametrize("engine", ["numpy", pytest.param("relax", marks=pytest.mark.full)])
def test_records_and_tuples_hold_scalars(engine: str) -> None:
    cell = compile_cell(Source("<cell>", NESTED), {}, Options(engine=engine), cache=False)
    scaled: Any = cell.result
    line, (k, (total, array)) = scaled({"start": Start(1.0, X), "length": 2.0}, 3.0)
    assert type(line["start"].x) is type(line["length"]) is type(k) is type(total) is np.float64
    assert (line["start"].x, line["length"], k, total) == (3.0, 6.0, 3.0, X.sum())
    assert type(line["start"].y) is type(array) is np.ndarray
    named, _ = scaled((((1.0), X), 2.0), 3.0)
    assert json.dumps(named[1]) == "6.0"


LIST = """
class Numbers:
    def Nil(): ...
    def Cons(head: f64, pair: tuple[i64, Tensor[(2,), f64]], tail: Numbers): ...

def doubled(numbers: Numbers) -> Numbers:
    match numbers:
        case Nil():
            return Nil()
        case Cons(head, pair, tail):
            return Cons(head * 2, pair, doubled(tail))
"""


@pytest.mark.parametrize("engine", ["numpy", "relax"])
def test_values_of_data_types_hold_scalars(engine: str) -> None:
    bound: Any = compile_cell(Source("<cell>", LIST), {}, Options(engine=engine), cache=False).bindings
    made = bound["Numbers"]
    value = made.Cons(1.5, (np.int64(3), np.ones(2)), made.Cons(2.5, (4, np.zeros(2)), made.Nil()))
    assert (
        repr(value).startswith("Cons(np.float64(1.5), (np.int64(3), array([1., 1.]))") or np.__version__ < "2"
    )
    result = bound["doubled"](value)
    for expected in ((3.0, 3), (5.0, 4)):
        head, (number, array), result = result.fields
        assert type(head) is np.float64
        assert type(number) is np.int64
        assert type(array) is np.ndarray
        assert (head, number) == expected
    assert bound["doubled"](bound["doubled"](value)).fields[0] == 6.0, "it is taken back"


@pytest.mark.full
def test_a_long_list_is_converted_without_recursion() -> None:
    bound: Any = compile_cell(Source("<cell>", LIST), {}, Options(engine="numpy"), cache=False).bindings
    value = bound["Numbers"].Nil()
    for number in range(5_000):
        value = bound["Numbers"].Cons(number, (number, np.zeros(2)), value)
    assert type(bound["doubled"](value).fields[0]) is np.float64


@pytest.mark.full
def test_what_is_made_of_functions_returns_scalars(tmp_path: Path) -> None:
    loss = compiled("def loss(w: f64, x: Tensor[('n',), f64]):\n    return ((x * w) ** 2).sum()\n")
    gradient = nnmagic.grad(loss)(2.0, X)
    assert type(gradient) is np.float64
    assert gradient == pytest.approx(4 * (X**2).sum())
    value, (slope, array) = nnmagic.value_and_grad(loss, (0, 1))(2.0, X)
    assert type(value) is type(slope) is np.float64
    assert array.shape == (3,)
    batched = nnmagic.vmap(loss, in_axes=(0, None))(X, X)
    assert batched.shape == (3,)
    loss.save(tmp_path / "loss.nnm")
    for other in (pickle.loads(pickle.dumps(loss)), nnmagic.load(tmp_path / "loss.nnm")):
        assert type(other(2.0, X)) is np.float64
        assert type(other(w=2.0, x=X)) is np.float64
    untyped = compiled("def f(x, k=2.0):\n    return x.sum() * k\n")
    assert type(untyped(X)) is np.float64
    assert type(untyped(X.astype("f4"))) is np.float32
    bumped = compiled("def bump(x: InOut[Tensor[('n',), f64]]):\n    x[0] = 0\n    return x.sum()\n")
    for argument in (X.copy(), X.repeat(2)[::2]):
        assert type(bumped(argument)) is np.float64
    constant = compiled("def f():\n    return 3\n")
    assert type(constant()) is np.int64


def test_own_engines_return_scalars() -> None:
    engine = nnmagic.compile(
        "def f(x: f64):\n    return x, 2.0\n",
        engine=lambda _module: lambda x: (x, np.float64(7)),
        cache=False,
    )
    assert [type(part) for part in engine(1.0)] == [np.float64, np.float64]


@pytest.mark.full
@pytest.mark.parametrize("engine", ["numpy", "relax"])
def test_out_takes_arrays_of_rank_0(engine: str) -> None:
    both = compiled("def both(x: Tensor[('n',), f64]):\n    return x.sum(), x * 2\n", engine=engine)
    total = compiled("def total(x: Tensor[('n',), f64]):\n    return x.sum()\n", engine=engine)
    out = np.zeros(())
    assert total(X, out=out) is out
    assert out == X.sum()
    outs = np.zeros(()), np.zeros(3)
    assert both(X, out=outs) is outs
    assert outs[0] == X.sum()
    with pytest.raises(TypeError, match="must be a NumPy array, not a float"):
        total(X, out=0.0)


@pytest.mark.parametrize("engine", ["numpy", "relax"])
def test_an_option_keeps_arrays(engine: str, tmp_path: Path) -> None:
    f = compiled(
        "def f(x: Tensor[('n',), f64], k: f64):\n    return x.sum() * k, (k, x)\n",
        zero_d_arrays=True,
        engine=engine,
    )
    f.save(tmp_path / "f.nnm")
    for each in (f, pickle.loads(pickle.dumps(f)), nnmagic.load(tmp_path / "f.nnm")):
        for total, (k, x) in (each(X, k=2.0), each(X, 2.0)):
            assert [type(part) for part in (total, k, x)] == [np.ndarray] * 3
            assert total.shape == k.shape == ()
            assert (total, k) == (X.sum() * 2, 2)
    square = compiled("def square(x: f64):\n    return x * x\n", zero_d_arrays=True, engine=engine)
    for result in (square(3.0), square(3.0), square(x=3.0)):
        assert type(result) is np.ndarray
        assert result.shape == ()
        result[...] = 0  # it belongs to the caller
    assert square(3.0) == 9
    assert type(nnmagic.grad(square)(3.0)) is np.ndarray
    with pytest.raises(TypeError, match="zero_d_arrays must be True or False, not 1"):
        compiled("def f(x: f64):\n    return x\n", zero_d_arrays=1)


def test_the_option_is_part_of_the_key() -> None:
    source = "def f(x: f64):\n    return x + 1\n"
    arrays, scalars = (nnmagic.compile(source, zero_d_arrays=each) for each in (True, False))
    assert arrays.cache_info.key != scalars.cache_info.key
    assert type(arrays(1.0)) is np.ndarray
    assert type(scalars(1.0)) is np.float64
    assert type(nnmagic.compile(source)(1.0)) is np.float64


def test_bfloat16_is_a_scalar_of_ml_dtypes() -> None:
    total = compiled("def total(x: Tensor[('n',), bf16]):\n    return x.sum()\n")
    result = total(np.ones(3, ml_dtypes.bfloat16))
    assert type(result) is ml_dtypes.bfloat16
    assert float(result) == 3


def test_a_result_is_captured_as_a_number() -> None:
    mean = compiled("def mean(x: Tensor[('n',), f32]):\n    return x.mean()\n")
    center = mean(X.astype("f4"))
    shifted = nnmagic.compile(
        "def f(x: Tensor[('n',), f32]):\n    return x - center\n", namespace={"center": center}, cache=False
    )
    np.testing.assert_array_equal(shifted(X.astype("f4")), X.astype("f4") - center)
