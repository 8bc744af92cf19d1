"""NumPy ufuncs of compiled functions: NumPy's own ufuncs are the judge.

Tests functions/ufuncs and engine/relax/runtime/ufunc.
"""

from __future__ import annotations

import gc
import pickle
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nnmagic
from nnmagic import CompiledFunction, f64, i64

RNG = np.random.default_rng(11)
A, B = RNG.random((2, 40, 7))


def of(text: str, **names: object) -> CompiledFunction:
    made = nnmagic.compile(text, engine="numpy", namespace=names)
    assert isinstance(made, CompiledFunction)
    return made


@nnmagic.function
def hypotenuse(x: f64, y: f64):
    """Return the length of a vector."""
    return np.sqrt(x * x + y * y)


@nnmagic.function(engine="numpy")
def interpreted(x: f64, y: f64):
    return np.sqrt(x * x + y * y)


@pytest.fixture(params=[hypotenuse, interpreted], ids=["machine code", "interpreter"])
def hypot(request: pytest.FixtureRequest) -> np.ufunc:
    made = request.param.ufunc
    assert isinstance(made, np.ufunc)
    return made


CALLS = {
    "one shape": lambda f: f(A, B),
    "broadcast": lambda f: f(A, B[0]),
    "a number": lambda f: f(A, 2.0),
    "numbers": lambda f: f(3.0, 4.0),
    "integers": lambda f: f(np.arange(3), np.int8(2)),
    "another dtype": lambda f: f(A.astype("f4"), B),
    "strides": lambda f: f(A[::2, ::-1], B.T[:7, :20].T),
    "another byte order": lambda f: f(A.astype(">f8"), B),
    "no elements": lambda f: f(A[:0], B[:0]),
    "where": lambda f: f(A, B, where=A > 0.5, out=np.zeros_like(A)),
    "dtype": lambda f: f(A, B, dtype="f8"),
    "out": lambda f: f(A, B, out=np.empty((40, 7))),
    "out of another dtype": lambda f: f(A, B, out=np.empty((40, 7), "f4"), casting="same_kind"),
    "buffers": lambda f: f(np.tile(A.astype("f4"), (100, 1)), 1.0, dtype="f8"),
    "reduce": lambda f: f.reduce(A),
    "reduce rows": lambda f: f.reduce(A, axis=1),
    "reduce with a first value": lambda f: f.reduce(A[0], initial=2.0),
    "reduce and keep axes": lambda f: f.reduce(A, axis=1, keepdims=True),
    "reduce where": lambda f: f.reduce(A, where=A > 0.5, initial=1.0),
    "accumulate": lambda f: f.accumulate(A),
    "accumulate rows": lambda f: f.accumulate(A, axis=1),
    "reduceat": lambda f: f.reduceat(A[:, 0], [0, 5, 9]),
    "outer": lambda f: f.outer(A[0], B[1]),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_it_is_a_ufunc_like_those_of_numpy(hypot: np.ufunc, call) -> None:
    result, wanted = call(hypot), call(np.hypot)
    assert type(result) is type(wanted)
    assert result.dtype == wanted.dtype
    np.testing.assert_allclose(result, wanted, rtol=1e-12 if result.dtype == "f8" else 1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_short_loops_of_any_memory(seed: int) -> None:
    """Machine code runs loops of few rows: of any strides, in place, over memory that operands share."""
    rng = np.random.default_rng(seed)
    memory = rng.random(600)
    ours, judge = hypotenuse.ufunc, np.hypot
    ours(memory, memory)  # compiled

    def window(length: int) -> slice:
        step = int(rng.choice([-3, -1, 1, 2]))
        begin = int(rng.integers(0, 599))
        end = begin + step * length
        return slice(begin, end if end >= 0 else None, step)

    for _ in range(60):
        length = int(rng.integers(1, 160))
        parts = [window(length) for _ in range(3)]
        size = min(len(memory[part]) for part in parts)
        mine, theirs = memory.copy(), memory.copy()
        for made, data in ((ours, mine), (judge, theirs)):
            first, second, out = (data[part][:size] for part in parts)
            made(first, second, out=out, where=memory[:size] < 0.7)
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
        rows = memory[: length * 3].reshape(length, 3)[:, :: int(rng.choice([-1, 1]))]
        for made, wanted in (
            (ours.reduce(rows, axis=1), judge.reduce(rows, axis=1)),
            (ours.accumulate(rows, axis=1), judge.accumulate(rows, axis=1)),
            (ours.accumulate(rows.T, axis=1), judge.accumulate(rows.T, axis=1)),
            (ours.reduceat(rows[:, 0], [0, length // 2]), judge.reduceat(rows[:, 0], [0, length // 2])),
        ):
            np.testing.assert_allclose(made, wanted, rtol=1e-12)


def test_elements_are_updated_where_indices_say() -> None:
    ours, wanted = A[0].copy(), A[0].copy()
    hypotenuse.ufunc.at(ours, [0, 2, 0], 3.0)
    np.hypot.at(wanted, [0, 2, 0], 3.0)
    np.testing.assert_allclose(ours, wanted)


def test_the_output_may_be_an_input(hypot: np.ufunc) -> None:
    ours = A.copy()
    assert hypot(ours, B, out=ours) is ours
    np.testing.assert_allclose(ours, np.hypot(A, B))
    ours = np.arange(9.0)
    hypot(ours[:-1], ours[1:], out=ours[1:])
    np.testing.assert_allclose(ours[1:], np.hypot(np.arange(8.0), np.arange(1.0, 9.0)))


def test_what_it_says_of_itself() -> None:
    made = hypotenuse.ufunc
    assert made is hypotenuse.ufunc
    assert (made.nin, made.nout, made.types, made.signature) == (2, 1, ["dd->d"], None)
    assert made.__name__ == "hypotenuse"
    assert "Return the length of a vector." in str(made.__doc__)
    with pytest.raises(TypeError, match="not supported for the input types"):
        made(1j, 2.0)
    with pytest.raises(TypeError, match="positional arguments"):
        made(1.0)


SIGNATURES = [
    ('def f(x: Tensor[("n",), f64]) -> f64:\n    return x.sum()', "(n)->()"),
    ('def f(x: Tensor[("n",), f64]):\n    return x - x.mean()', "(n)->(n)"),
    ('def f(x: Tensor[("m", "n"), f64], y: Tensor[("n",), f64]):\n    return x @ y', "(m,n),(n)->(m)"),
    ("def f(x: Tensor[(3,), f64], y: Tensor[(3,), f64]):\n    return np.cross(x, y)", "(3),(3)->(3)"),
    ('def f(x: Tensor[("n",), f64], k: f64):\n    return x * k, x.max()', "(n),()->(n),()"),
    ("def f(x: f64):\n    return np.stack([x, x * x])", "()->(2)"),
    ('def f(x: Tensor[("rows", "größe"), f32]):\n    return x.T', "(size_0,size_1)->(size_1,size_0)"),
]


@pytest.mark.parametrize(("text", "signature"), SIGNATURES, ids=[row[1] for row in SIGNATURES])
def test_the_signature_has_the_sizes_of_the_types(text: str, signature: str) -> None:
    """A generalized ufunc gives for each row what the function gives for it."""
    f = of(text, np=np)
    made = f.ufunc
    assert made.signature == signature
    dtype = made.types[0][0]
    sizes = {"m": 4, "n": 5, "3": 3, "size_0": 2, "size_1": 3}
    parts = [part.strip("()").split(",") for part in signature.partition("->")[0].split("),(")]
    cores = [tuple(sizes[name] for name in part if name) for part in parts]
    arguments = [RNG.random((6, *core)).astype(dtype) for core in cores]
    assert all(made.nin == len(arguments) for _ in (0,))
    rows = [f(*(argument[row] for argument in arguments)) for row in range(6)]
    wanted = [np.stack(each) for each in zip(*rows, strict=True)] if made.nout > 1 else [np.stack(rows)]
    result = made(*arguments)
    for ours, each in zip(result if made.nout > 1 else [result], wanted, strict=True):
        np.testing.assert_allclose(ours, each, rtol=1e-6)
    shared = made(*arguments[:-1], arguments[-1][0])  # which all rows share
    first = shared[0] if made.nout > 1 else shared
    last = [f(*(argument[row] for argument in arguments[:-1]), arguments[-1][0]) for row in range(6)]
    if len(arguments) > 1:
        np.testing.assert_allclose(first[3], last[3][0] if made.nout > 1 else last[3], rtol=1e-6)
    else:
        np.testing.assert_allclose(first, wanted[0][0], rtol=1e-6)


def test_axes_and_sizes_of_a_generalized_ufunc_are_checked() -> None:
    made = of('def f(x: Tensor[("n", 3), f64], w: Tensor[(3,), f64]):\n    return x @ w').ufunc
    points, weights = RNG.random((5, 4, 3)), RNG.random(3)
    np.testing.assert_allclose(made(points, weights), points @ weights)
    moved = np.moveaxis(points, -1, 0)
    np.testing.assert_allclose(made(moved, weights, axes=[(-1, 0), (0,), (-1,)]), (points @ weights))
    with pytest.raises(ValueError, match="size 2 is different from 3"):
        made(points[..., :2], weights)


DTYPES = [np.dtype(char) for char in "?bBhHiIlLefdFD"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_of_each_dtype(dtype: np.dtype) -> None:
    name = {"bool": "bool_"}.get(dtype.name, dtype.name.replace("uint", "u").replace("int", "i"))
    name = name.replace("float", "f").replace("complex", "c")
    made = of(f"def f(x: {name}, y: {name}):\n    return x == y").ufunc
    x, y = (RNG.integers(0, 2, 30).astype(dtype) for _ in range(2))
    assert made.types == [f"{dtype.char * 2}->?"]
    np.testing.assert_array_equal(made(x, y), x == y)


def test_several_results() -> None:
    both = of("def f(x: f64, y: f64):\n    return x // y, x % y").ufunc
    out = (np.empty_like(A), np.empty_like(A))
    for ours, wanted in zip(both(A, B, out=out), np.divmod(A, B), strict=True):
        np.testing.assert_allclose(ours, wanted)
    assert both(A, B, out=out)[1] is out[1]


def test_what_vmap_refuses_runs_for_each_element() -> None:
    made = of(
        "def f(x: f64):\n    return callback(double, x, result=f64) + 1.0", double=lambda x: 2 * x
    ).ufunc
    np.testing.assert_allclose(made(A), 2 * A + 1)


def test_branches_and_loops_run_for_each_element() -> None:
    @nnmagic.function
    def steps(x: i64):
        count = 0
        while x != 1:
            x = x // 2 if x % 2 == 0 else 3 * x + 1
            count += 1
        return count

    def python_steps(x: int) -> int:
        return 0 if x == 1 else 1 + python_steps(x // 2 if x % 2 == 0 else 3 * x + 1)

    numbers = np.arange(1, 60).reshape(-1, 1)
    result = steps.ufunc(numbers)
    np.testing.assert_array_equal(result, [[python_steps(int(number))] for number in numbers[:, 0]])


def test_parameters_with_a_default_keep_it_and_names_are_kept() -> None:
    made = of("def f(x: f64, *, y: f64, scale: f64 = 2.0):\n    return (x - y) * scale").ufunc
    assert made.nin == 2
    np.testing.assert_allclose(made(A, B), (A - B) * 2.0)


def test_an_error_in_a_loop_is_raised_by_the_call() -> None:
    look_up = of('def f(table: Tensor[("n",), f64], i: i64):\n    return table[i]').ufunc
    table = np.arange(5.0)
    np.testing.assert_array_equal(look_up(table, [0, 4, 2]), [0, 4, 2])
    for indices in ([9], [[0, 1], [2, 9]], np.full(2000, 9)):
        with pytest.raises(IndexError, match="9"):
            look_up(table, indices)
    with pytest.raises(IndexError):
        look_up(np.stack([table] * 3), np.array([0, 1, 5]))
    positive = of("def f(x: f64):\n    assert x > 0, 'x is positive'\n    return x").ufunc
    for dtype in ("f8", "f4"):  # one loop; several over buffers of what is converted
        numbers = np.tile([-1.0, 1.0], 40_000).astype(dtype)
        with pytest.raises(AssertionError, match="x is positive"):
            positive(numbers)
        with pytest.raises(AssertionError, match="x is positive"):
            positive(numbers.reshape(400, -1)[:, ::2], np.empty((400, 100)), where=np.ones(100, bool))
    np.testing.assert_array_equal(positive([1.0, 2.0]), [1, 2])


def test_no_warning_tells_of_elements_that_nobody_asked_for() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        guarded = nnmagic.compile("def f(x: f64):\n    return log(x) if x > 0 else 0.0", opt_level=0)
        np.testing.assert_allclose(guarded.ufunc(np.array([-1.0, 0.0, 1.0])), [0, 0, 0])


def test_threads_share_it() -> None:
    for size, count in ((3000, 8), (100, 400)):
        rows = RNG.random((count, size))
        with ThreadPoolExecutor(4) as threads:
            results = list(threads.map(lambda row: hypotenuse.ufunc(row[::-1], row), rows))
        np.testing.assert_allclose(results, np.hypot(rows[:, ::-1], rows))


@pytest.mark.usefixtures("few_objects")
def test_it_lives_as_long_as_it_is_used() -> None:
    f = nnmagic.compile("def f(x: f64):\n    return x + 1", engine="numpy", cache=False)
    made, alive = f.ufunc, weakref.ref(f)
    del f
    gc.collect()
    assert made(1.0) == 2.0
    assert alive() is not None
    del made
    gc.collect()
    assert alive() is None


def test_a_pickle_holds_the_function_and_what_its_loops_have_compiled() -> None:
    made = interpreted.ufunc
    made(A, B)
    other = pickle.loads(pickle.dumps(made))
    assert isinstance(other, np.ufunc)
    np.testing.assert_allclose(other(A, B), np.hypot(A, B))
    assert pickle.loads(pickle.dumps(np.add)) is np.add


REFUSED = [
    ("def f(x: tuple[f64, f64]):\n    return x[0]", r"`x` is tuple\[f64, f64\]"),
    ("def f(x: bf16):\n    return x", "`x` is bf16"),
    ('def f(x: Tensor[("n",), f64]):\n    return np.concatenate([x, x])', "a size that no parameter has"),
    ('def f(x: Tensor[("n",), f64]):\n    return x[x > 0]', "a size that no parameter has"),
    ("def f(x: f64 = 1.0):\n    return x", "no arguments that have no default"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_can_be_no_ufunc_says_why(text: str, message: str) -> None:
    with pytest.raises(TypeError, match=rf"^f\(\).* has no ufunc.*{message}|^f\(\).*{message}.*no ufunc"):
        of(text, np=np).ufunc  # noqa: B018


def test_a_function_that_changes_arguments_has_none() -> None:
    fill = of('def fill(x: Out[Tensor[("n",), f32]]):\n    x[...] = 1.0\n')
    with pytest.raises(TypeError, match=r"fill\(\) changes its arguments"):
        fill.ufunc  # noqa: B018


def test_a_function_without_types_has_a_loop_for_each_dtype() -> None:
    @nnmagic.function(engine="numpy")
    def mix(x, y, weight=0.25):
        return x + (y - x) * weight

    made = mix.ufunc
    assert {"ff->f", "dd->d", "DD->D"} <= set(made.types)
    np.testing.assert_allclose(made(A, 1), A + (1 - A) * 0.25)
    assert made(A.astype("f4"), 1.0).dtype == "f4"
    assert pickle.loads(pickle.dumps(made))(1.0, 2.0) == 1.25


def test_types_as_python_writes_them() -> None:
    f = of("def f(x: float, y: float) -> float:\n    return x * y").ufunc
    assert f.types == ["dd->d"]
    np.testing.assert_allclose(f(A, 2), A * 2)


def test_a_function_without_types_that_no_dtype_suits_says_why() -> None:
    @nnmagic.function(engine="numpy")
    def rows(x):
        return x.reshape(2, 3)

    with pytest.raises(nnmagic.TinyNNError, match="reshape"):
        rows.ufunc  # noqa: B018

    @nnmagic.function(engine="numpy")
    def total(x):
        return len(x) + x[0]

    hint = r'an f64 has no len\(\)[\s\S]*a type, as in x: Tensor\[\("n",\), f64\]'
    with pytest.raises(nnmagic.TinyNNError, match=hint):
        total.ufunc  # noqa: B018


# -- what ufuncs are for: the containers of other libraries keep what they are -----------------------------


def test_pandas_keeps_index_and_names() -> None:
    pandas = pytest.importorskip("pandas")
    series = pandas.Series([3.0, 5.0], index=["a", "b"], name="side")
    pandas.testing.assert_series_equal(interpreted.ufunc(series, 4.0), np.hypot(series, 4.0))
    frame = pandas.DataFrame({"x": [3.0, 5.0], "y": [1.0, 2.0]}, index=["a", "b"])
    pandas.testing.assert_frame_equal(interpreted.ufunc(frame, frame), np.hypot(frame, frame))


def test_xarray_keeps_dimensions_and_coordinates() -> None:
    xarray = pytest.importorskip("xarray")
    array = xarray.DataArray(A, dims=("t", "x"), coords={"x": np.arange(7)})
    xarray.testing.assert_allclose(interpreted.ufunc(array, 2.0), np.hypot(array, 2.0))


def test_polars_series_and_expressions() -> None:
    polars = pytest.importorskip("polars")
    series = polars.Series("side", [3.0, 5.0])
    assert interpreted.ufunc(series, 4.0).to_list() == np.hypot(series, 4.0).to_list()
    frame = polars.DataFrame({"x": [3.0, 5.0]}).select(interpreted.ufunc(polars.col("x"), 4.0))
    np.testing.assert_allclose(frame["x"].to_numpy(), np.hypot([3.0, 5.0], 4.0))


def test_dask_stays_lazy() -> None:
    dask = pytest.importorskip("dask.array")
    blocks = dask.from_array(A, chunks=(10, 7))
    lazy = interpreted.ufunc(blocks, 2.0)
    assert isinstance(lazy, dask.Array)
    np.testing.assert_allclose(lazy.compute(scheduler="threads"), np.hypot(A, 2.0))
    norm = of('def f(x: Tensor[("n",), f64]) -> f64:\n    return np.sqrt((x * x).sum())', np=np).ufunc
    each = norm(blocks)
    assert isinstance(each, dask.Array)
    np.testing.assert_allclose(each.compute(scheduler="sync"), np.linalg.norm(A, axis=1))


def test_a_lazy_array_is_not_computed_by_a_call() -> None:
    dask = pytest.importorskip("dask.array")
    blocks = dask.from_array(A, chunks=(10, 7))
    typed = of('def f(x: Tensor[("n", "m"), f64]):\n    return x * 2')
    untyped = nnmagic.compile("def f(x):\n    return x * 2", engine="numpy")
    for f in (typed, untyped):
        with pytest.raises(
            TypeError, match=r"'x' is a lazy array.*nnmagic\.dask\.map_blocks\(f, x\).*compute\(\)"
        ):
            f(blocks)
        lazy = blocks.map_blocks(f, dtype="f8")
        np.testing.assert_array_equal(lazy.compute(scheduler="sync"), A * 2)
        np.testing.assert_array_equal(f(blocks.compute(scheduler="sync")), A * 2)


def test_dask_asks_for_the_dtype_of_a_function_of_a_fixed_size() -> None:
    dask = pytest.importorskip("dask.array")
    blocks = dask.from_array(np.ones((4, 6), "f4"), chunks=(2, 6))
    f = of('def f(x: Tensor[("n", 6), f32]):\n    return x * 2')
    with pytest.raises(ValueError, match=r"specify the dtype explicitly"):  # Dask calls it with one element
        blocks.map_blocks(f)
    lazy = blocks.map_blocks(f, dtype="f4")
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), np.full((4, 6), 2.0))


def test_xarray_over_dask_is_not_computed_by_a_call() -> None:
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("dask.array")
    typed = of('def f(x: Tensor[("n", "m"), f64]):\n    return x * 2')
    array = xarray.DataArray(A, dims=("t", "x"))
    np.testing.assert_array_equal(typed(array), A * 2)
    with pytest.raises(TypeError, match=r"is a lazy array.*dask='parallelized', output_dtypes"):
        typed(array.chunk())
