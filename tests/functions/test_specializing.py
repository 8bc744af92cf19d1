"""Functions whose parameters have no type, or a part of one: compiled for the types of each call.

They judge functions/cells/specializations and functions/arguments/open_signatures, too.
"""

import copy
import inspect
import pickle
import sys

import numpy as np
import numpy.typing as npt
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import nnmagic
from nnmagic import Out, Tensor, f32, f64

RNG = np.random.default_rng(7)
X = RNG.random((5, 3))
W = RNG.random((3, 4))


@nnmagic.function
def standardize(x, axis=0, eps=1e-5):
    """Give each column mean 0 and variance 1."""
    mean = x.mean(axis=axis, keepdims=True)
    return (x - mean) / np.sqrt(x.var(axis=axis, keepdims=True) + eps)


def numpy_standardize(x: np.ndarray, axis: int = 0, eps: float = 1e-5) -> np.ndarray:
    return (x - x.mean(axis=axis, keepdims=True)) / np.sqrt(x.var(axis=axis, keepdims=True) + eps)


def test_the_types_are_those_of_the_call() -> None:
    @nnmagic.function
    def center(x):
        return x - x.mean(axis=0, keepdims=True)

    for x in (X, X[:2], X.astype("f4"), RNG.random((2, 3, 4))):
        result = center(x)
        assert result.dtype == x.dtype
        np.testing.assert_allclose(result, x - x.mean(axis=0, keepdims=True), rtol=1e-4, atol=1e-6)
    assert "center(x: Tensor[(5, 3), f64]) -> Tensor[(5, 3), f64]" in center.annotated
    kinds = [each.relay.functions["center"].params[0].type_annotation for each in center.specializations]
    assert len(kinds) == len(set(map(str, kinds))) == 4


def test_an_equal_call_compiles_nothing_anew() -> None:
    f = nnmagic.compile("def f(x, y):\n    return x + y\n")
    f(X, X)
    (first,) = f.specializations
    f(X + 1, y=X)
    assert f.specializations == (first,)
    again = nnmagic.compile("def f(x, y):\n    return x + y\n")
    assert again is f or again.specializations == () or again.specializations == (first,)


def test_a_default_that_the_call_leaves_out_is_known_when_it_is_compiled() -> None:
    f = nnmagic.compile(
        "def f(x, axis=1, mode='sum'):\n    return x.sum(axis) if mode == 'sum' else x.max(axis)\n"
    )
    np.testing.assert_allclose(f(X), X.sum(1))
    np.testing.assert_allclose(f(X, mode="max"), X.max(1))
    np.testing.assert_allclose(f(X, 0), X.sum(0))


#: Functions with numbers that they cannot be compiled without, in NumPy's spelling, and their calls.
NEEDED = {
    "an axis": ("x, axis=-1", "x.sum(axis=axis)", [{"axis": 0}, {"axis": 1}, {"axis": np.int64(-2)}, {}]),
    "axes": ("x, axis=None", "np.mean(x, axis=axis)", [{"axis": (0, 1)}, {"axis": (1,)}, {"axis": None}]),
    "keepdims": (
        "x, axis=None, keepdims=False",
        "x.max(axis=axis, keepdims=keepdims)",
        [{"axis": 0, "keepdims": True}, {"keepdims": True}, {"axis": (1,), "keepdims": True}],
    ),
    "an axis beside a number": ("x, scale, axis=0", "(x * scale).sum(axis)", [{"scale": 2, "axis": 1}]),
    "an order of axes": ("x, order", "np.transpose(x, order)", [{"order": (1, 0)}, {"order": (0, 1)}]),
    "a branch with another shape": (
        "x, flat",
        "x.ravel() if flat else x",
        [{"flat": True}, {"flat": False}],
    ),
    "a number of repetitions": ("x, n", "np.stack([x for _ in range(n)])", [{"n": 1}, {"n": 3}]),
    "a declared integer": ("x, axis: i64 = -1", "x.sum(axis)", [{"axis": 0}, {"axis": 1}, {}]),
    "a declared bool": ("x, back: bool_", "x[::-1] if back else x[1:]", [{"back": True}, {"back": False}]),
    "types of NumPy": ("x: npt.NDArray[np.float64], axis: int = -1", "x.sum(axis)", [{"axis": 0}, {}]),
    "a computed axis": ("x, back", "np.cumsum(x, axis=x.ndim - back)", [{"back": 1}, {"back": 2}]),
}


@pytest.mark.parametrize(("head", "body", "calls"), NEEDED.values(), ids=NEEDED)
def test_numbers_that_compiling_needs_are_known_by_then(head: str, body: str, calls: list[dict]) -> None:
    source = f"def f({head}):\n    return {body}\n"
    names: dict = {"np": np, "npt": npt, "i64": int, "bool_": bool}
    exec(source, names)
    f = nnmagic.compile(source, namespace={"np": np, "npt": npt}, engine="numpy")
    for keywords in [*calls, *calls]:
        np.testing.assert_allclose(f(X, **keywords), names["f"](X, **keywords))
    assert len(f.specializations) <= len(calls)


def test_numbers_that_compiling_does_not_need_stay_numbers_of_each_call() -> None:
    f = nnmagic.compile(
        "def f(x, scale, axis, by=1):\n    return (x * scale + by).sum(axis)\n", engine="numpy"
    )
    for scale in range(1, 5):
        np.testing.assert_allclose(f(X, scale, 1, scale + 3), (X * scale + scale + 3).sum(1))
    assert len(f.specializations) == 1
    (shown,) = f.annotated
    assert shown.startswith("f(x: Tensor[(5, 3), f64], scale: i64, by: i64)")
    assert shown.endswith("# axis=1")


def test_which_numbers_are_needed_may_depend_on_others() -> None:
    f = nnmagic.compile("def f(x, flag, n):\n    return x.sum(n) if flag else x * n\n", engine="numpy")
    for flag, n in ((False, 1), (True, 0), (False, 2), (True, 1), (True, 0)):
        np.testing.assert_allclose(f(X, flag, n), X.sum(n) if flag else X * n)


def test_numbers_that_do_not_fit_are_refused_for_what_they_are() -> None:
    f = nnmagic.compile("def f(x, axis):\n    return x.sum(axis=axis)\n", engine="numpy")
    with pytest.raises(nnmagic.TinyNNError, match="axis 5 is out of range"):
        f(X, 5)
    with pytest.raises(nnmagic.TinyNNError, match="must be known at compile time"):
        f(X, np.array(0))
    assert f.specializations == ()


def test_a_warning_of_many_compilations_stands_at_the_call_and_says_why() -> None:
    f = nnmagic.compile("def f(x, axis):\n    return x.sum(axis)\n", engine="numpy")
    for rank in range(1, 7):
        for axis in range(-rank, rank) if rank < 6 else (0,):
            f(np.ones((1,) * rank), axis)
    with pytest.warns(nnmagic.TinyNNWarning, match="compiled for each value of axis") as caught:
        f(np.ones((1,) * 6), 1)
    assert [each.filename for each in caught] == [__file__]


def test_libraries_choose_the_axis_of_a_reduction() -> None:
    total = nnmagic.compile("def total(x, axis=-1):\n    return x.sum(axis=axis)\n", engine="numpy")
    keeping = nnmagic.compile(
        "def f(x, axis=None, keepdims=False):\n    return x.sum(axis=axis, keepdims=keepdims)\n",
        engine="numpy",
    )
    np.testing.assert_allclose(np.apply_over_axes(total, X, [0]), np.apply_over_axes(np.sum, X, [0]))
    np.testing.assert_allclose(np.apply_along_axis(total, 0, X), X.sum(0))
    stats = pytest.importorskip("scipy.stats")
    data = (RNG.random(20),)
    ours, wanted = (
        stats.bootstrap(data, f, axis=-1, rng=np.random.default_rng(1), n_resamples=30, vectorized=True)
        for f in (total, np.sum)
    )
    np.testing.assert_allclose(ours.standard_error, wanted.standard_error)
    dask = pytest.importorskip("dask.array")
    blocks = dask.from_array(X, chunks=(2, 3))
    for axis in (0, 1, None):
        reduced = dask.reduction(blocks, keeping, keeping, axis=axis, dtype="f8")
        np.testing.assert_allclose(reduced.compute(scheduler="sync"), X.sum(axis))


def test_xarray_reduces_by_it() -> None:
    xarray = pytest.importorskip("xarray")
    total = nnmagic.compile("def total(x, axis=-1):\n    return x.sum(axis=axis)\n", engine="numpy")
    array = xarray.DataArray(X, dims=("t", "x"), coords={"t": np.arange(5)})
    xarray.testing.assert_allclose(array.reduce(total, "x"), array.sum("x"))
    xarray.testing.assert_allclose(array.reduce(total, ("t", "x")), array.sum())


def test_python_numbers_and_tuples() -> None:
    f = nnmagic.compile("def f(p, n, flag):\n    return (p[0] * p[1] if flag else p[0] + p[1]) * n\n")
    np.testing.assert_allclose(f((X, 2.0), 3, True), X * 6)
    np.testing.assert_allclose(f((X, 2.0), 3, False), (X + 2) * 3)
    (compiled,) = f.specializations
    assert compiled._format_signature().startswith(
        "(p: tuple[Tensor[(5, 3), f64], f64], n: i64, flag: bool_)"
    )


def test_partial_types() -> None:
    source = (
        'def f(x: Tensor[("n", "m")], y: Tensor[..., f32], z: Tensor):\n'
        "    return x.sum(axis=1) * y + z.sum()\n"
    )
    f = nnmagic.compile(source)
    y = np.float32(2)
    z = np.ones(5, "f4")
    x = X.astype("f4")
    np.testing.assert_allclose(f(x, y, z), x.sum(1) * 2 + 5, rtol=1e-6)
    np.testing.assert_allclose(f(x[:, :1], y, z), x[:, 0] * 2 + 5, rtol=1e-6)
    assert len(f.specializations) == 1, "the shape is named, and fits any size"
    with pytest.raises(TypeError, match=r"'x' must be Tensor\[\('n', 'm'\)\], of rank 2, not of rank 1"):
        f(x[0], y, z)
    with pytest.raises(TypeError, match=r"'y' must be Tensor\[..., f32\], not an array of float64"):
        f(x, X, z)


def test_annotations_of_python_are_taken() -> None:
    @nnmagic.function
    def scaled(x: Tensor[..., f32], rows: Tensor[("n", 3)], alpha: f64 = 2.0):  # noqa: F821
        return x.sum() + rows.astype(f32).sum(), alpha

    total, alpha = scaled(np.ones(4, "f4"), np.ones((2, 3), "i4"))
    assert (float(total), float(alpha)) == (10.0, 2.0)
    assert "x: Tensor[..., f32], rows: Tensor[('n', 3)], alpha: f64 = 2.0" in repr(scaled)


def test_a_cell_inlines_its_own_functions() -> None:
    source = (
        "def norm(x, axis=-1, eps=None):\n"
        "    s = (x * x).sum(axis=axis, keepdims=True)\n"
        "    if eps is None:\n        return x / np.sqrt(s)\n"
        "    return x / np.sqrt(s + eps)\n\n"
        'def rows(x: Tensor[("n", "m")]) -> Tensor[("n",), f64]:\n'
        '    y: Tensor[("n",), f64] = x.sum(axis=1)\n    return y\n\n'
        'def main(x: Tensor[(5, 3), f64], w: Tensor[(3, "k"), f64]):\n'
        "    return norm(x @ w, axis=0), norm(x, 1, 0.5), rows(x), rows(w)\n"
    )
    a, b, c, d = nnmagic.compile(source, namespace={"np": np})(X, W)
    y = X @ W
    np.testing.assert_allclose(a, y / np.sqrt((y * y).sum(0, keepdims=True)))
    np.testing.assert_allclose(b, X / np.sqrt((X * X).sum(1, keepdims=True) + 0.5))
    np.testing.assert_allclose(c, X.sum(1))
    np.testing.assert_allclose(d, W.sum(1))


def test_a_later_cell_has_it_compiled_for_its_types() -> None:
    source = (
        'def f(x: Tensor[("n", 3), f32]):\n    return standardize(x, axis=1), standardize(x[:1], eps=0.5)\n'
    )
    f = nnmagic.compile(source, namespace={"standardize": standardize})
    x = X.astype("f4")
    first, second = f(x)
    np.testing.assert_allclose(first, numpy_standardize(x, 1), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(second, numpy_standardize(x[:1], 0, 0.5), atol=1e-6)
    assert "standardize" in f.relay_text


def test_it_calls_itself() -> None:
    f = nnmagic.compile("def f(n):\n    if n <= 1:\n        return 1\n    return n * f(n - 1)\n")
    assert f(10) == 3628800


def test_what_it_captures_is_of_its_definition() -> None:
    scale = np.array([2.0, 3.0, 4.0])
    f = nnmagic.compile("def f(x):\n    return x * scale\n", namespace={"scale": scale})
    scale[:] = 0
    np.testing.assert_array_equal(f(X), X * [2, 3, 4])
    restored = pickle.loads(pickle.dumps(f))
    np.testing.assert_array_equal(restored(X), X * [2, 3, 4])
    assert copy.deepcopy(f) is f


def test_a_pickle_never_uses_another_meaning_of_a_name() -> None:
    f = nnmagic.compile("def f(x):\n    return relu(x)\n", namespace={"relu": lambda x: x})
    restored = pickle.loads(pickle.dumps(f))
    np.testing.assert_array_equal(f(-X), -X)
    with pytest.raises(nnmagic.TinyNNError, match="relu"):
        restored(-X)


def test_a_pickle_has_the_code_of_its_specializations() -> None:
    f = nnmagic.compile("def f(x, axis):\n    return np.tanh(x).sum(axis)\n", namespace={"np": np})
    f(X, 0)
    restored = pickle.loads(pickle.dumps(f))
    (first,) = restored.specializations
    assert first._definition.content is not None
    np.testing.assert_array_equal(restored(X, 0), f(X, 0))
    assert restored.specializations == (first,)
    np.testing.assert_allclose(restored(X, 1), np.tanh(X).sum(1))


def test_pickles_of_one_function_are_one_function() -> None:
    """Tasks load their function each time: what one has compiled the next need not."""
    f = nnmagic.compile("def f(x):\n    return x * 5\n", engine="numpy")
    early = pickle.dumps(f)
    first = pickle.loads(early)
    first(X)
    f(X[:2])
    second = pickle.loads(pickle.dumps(f))
    assert second is first is pickle.loads(early)
    assert len(first.specializations) == 2
    other = nnmagic.compile("def f(x):\n    return x * 6\n", engine="numpy")
    assert pickle.loads(pickle.dumps(other)) is not first


def test_its_signature() -> None:
    assert str(inspect.signature(standardize)) == "(x, axis=0, eps=1e-05)"
    assert standardize.__doc__ == "Give each column mean 0 and variance 1."
    assert standardize.__name__ == "standardize"
    target = np.empty_like(X)
    assert standardize(X, out=target) is target
    np.testing.assert_allclose(target, numpy_standardize(X))


def test_arrays_of_other_libraries() -> None:
    torch = pytest.importorskip("torch")
    np.testing.assert_allclose(standardize(torch.from_numpy(X)), numpy_standardize(X))


def test_records_of_other_names_are_other_types() -> None:
    @nnmagic.function(engine="numpy")
    def f(d):
        return d["a"] + d[list(d)[1]] if "a" in d else d["b"] * 3

    for given in ({"a": 1.0, "b": 2.0}, {"a": 1.0, "c": 3.0}, {"b": 1.0, "c": 3.0}, {"c": 1.0, "b": 3.0}):
        expected = given["a"] + given[list(given)[1]] if "a" in given else given["b"] * 3
        assert f(given) == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: f({1, 2}), "'x' must be an array or a number, not a set"),
        (lambda f: f(np.array(["a"])), "'x' must be an array of numbers, not an array of <U1"),
        (lambda f: f(), "missing 1 required positional argument: 'x'"),
        (lambda f: f(X, 1), "takes 1 positional argument but 2 were given"),
        (lambda f: f.save("f.nnm"), "save one of its specializations"),
    ],
)  # fmt: skip
def test_refused_calls(call, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call(nnmagic.compile("def f(x):\n    return x + 1\n"))


def test_refused_uses_in_cells() -> None:
    source = (
        "def fill(a: Out[Tensor[(3,), f32]], v):\n    a[...] = v\n\n"
        "def f(a: Out[Tensor[(3,), f32]]):\n    fill(a, 2.0)\n"
    )
    with pytest.raises(nnmagic.TinyNNError, match="is called from a cell only if") as caught:
        nnmagic.compile(source)
    assert caught.value.diagnostics[0].hint == "write the types of its other parameters"


def test_an_earlier_function_takes_functions() -> None:
    g = nnmagic.compile("def g(x, h):\n    return h(x)\n")
    source = "def f(x: f32):\n    return g(x, lambda y: y + 1) + g(x, exp)\n"
    f = nnmagic.compile(source, namespace={"g": g}, engine="numpy")
    assert f(np.float32(2)) == pytest.approx(3 + np.exp(2))


def test_arrays_that_it_changes() -> None:
    @nnmagic.function
    def fill(a: Out[Tensor[("n",), f32]], v):  # noqa: F821
        a[...] = v

    target = np.zeros(3, "f4")
    fill(target, np.float32(2))
    np.testing.assert_array_equal(target, [2, 2, 2])


def test_an_error_names_the_place() -> None:
    f = nnmagic.compile("def f(x, y):\n    return x @ y\n")
    with pytest.raises(nnmagic.TinyNNError) as caught:
        f(X, X)
    assert caught.value.diagnostics[0].span.line == 2


def test_in_a_notebook() -> None:
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "nnmagic")
    try:
        cell = "def foo(x, y=2.0):\n    return x * y\n\ndef bar(x: Tensor[(3,), f32]):\n    return foo(x)\n"
        assert "foo(x, y=2.0): compiled at its first call" in displayed(shell, "tinynn", "", cell)
        foo, bar = shell.user_ns["foo"], shell.user_ns["bar"]
        np.testing.assert_array_equal(foo(np.ones(3)), [2, 2, 2])
        np.testing.assert_array_equal(bar(np.ones(3, "f4")), [2, 2, 2])
        shown = displayed(shell, "tinynn", "show foo")
        assert "def foo(x: Tensor[(3,), f64]) -> Tensor[(3,), f64]" in shown
        assert "multiply(%x, 2f64)" in shown
        displayed(
            shell, "tinynn", "--promote --convert", "def baz(x, w: Tensor[(3,), f32]):\n    return x + w\n"
        )
        assert shell.user_ns["baz"]([1.0, 2.0, 3.0], [1, 2, 3]).dtype == np.float64
    finally:
        shell.run_line_magic("unload_ext", "nnmagic")


def displayed(shell: InteractiveShell, magic: str, line: str, cell: str | None = None) -> str:
    with capture_output() as captured:
        if cell is None:
            shell.run_line_magic(magic, line)
        else:
            shell.run_cell_magic(magic, line, cell)
    return "\n".join(each.data["text/plain"] for each in captured.outputs)


def test_a_shape_without_axes_is_one_number_of_any_dtype() -> None:
    f = nnmagic.compile("def f(a: Tensor[()], b: Tensor[('n',)]):\n    return a * b[0]\n", namespace={})
    assert f(np.float32(3), np.float32([2, 1])) == 6
    assert f(np.int16(3), np.int16([2, 1])).dtype == "int16"
    with pytest.raises(TypeError, match="of rank 0, not of rank 1"):
        f(np.ones(3, "float32"), np.float32([2, 1]))


def test_named_sizes_beside_open_types() -> None:
    function = nnmagic.compile(
        "def f(x: np.ndarray, y: Tensor[('n', 'n'), f64]):\n    return x @ y\n",
        namespace={"np": np},
        engine="numpy",
    )
    for size in (3, 2, 3):
        x, y = np.arange(float(size)), np.ones((size, size))
        np.testing.assert_array_equal(function(x, y), x @ y)
    assert len(function.specializations) == 2
    with pytest.raises(nnmagic.TinyNNError, match="inner dimensions"):
        function(np.arange(3.0), np.ones((3, 2)))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="a bare raise of Python 3.10 brings the frames back")
def test_an_error_of_a_run_ends_in_the_caller_s_line() -> None:
    item = nnmagic.compile("def item(x, i):\n    return x[i]\n", engine="numpy")
    for x, kind in ((X, IndexError), ({1: 2.0}, KeyError)):  # of a dictionary another path
        with pytest.raises(kind) as caught:
            item(x, 5)
        assert {str(entry.path) for entry in caught.traceback} == {__file__}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="a bare raise of Python 3.10 brings the frames back")
def test_errors_of_destinations_end_in_the_caller_s_line() -> None:
    f = nnmagic.compile("def f(x: InOut[Tensor[('n',), f64]], i: i64):\n    x[i] = 1\n", engine="numpy")
    g = nnmagic.compile("def g(x):\n    return x + 1\n", engine="numpy")
    for call, kind in (
        (lambda: f(np.ones(4)[::2], 5), IndexError),
        (lambda: g(1.0, out=3), TypeError),
        (lambda: g(X, out=np.ones(3)), ValueError),
    ):
        with pytest.raises(kind) as caught:
            call()
        assert {str(entry.path) for entry in caught.traceback} == {__file__}


def test_what_cannot_be_saved_says_what_can() -> None:
    f = nnmagic.compile("def f(saved):\n    return saved + 1\n", engine="numpy")
    for first in ("call it, then ", ""):
        for name in ("stages", "relay_text", "to_onnx", "capsule"):
            with pytest.raises(AttributeError, match=rf": {first}write f\.specializations\[0\]\.{name}$"):
                getattr(f, name)
        for verb in ("save", "export"):
            with pytest.raises(TypeError, match=rf": {first}{verb} one of its specializations, as in f\."):
                getattr(f, verb)("x")
        f(1.0)


def test_a_list_that_is_no_array_is_not_told_to_become_one() -> None:
    f = nnmagic.compile("def f(x):\n    return x.mean() + sum(x)\n", engine="numpy")
    for given, is_told in (([1, 2], True), ([1, "a"], False), ([1, None], False), ([[1], [2, 3]], False)):
        with pytest.raises(nnmagic.TinyNNError) as caught:
            f(given)
        assert ("give an array: numpy.asarray(x)" in str(caught.value)) is is_told
