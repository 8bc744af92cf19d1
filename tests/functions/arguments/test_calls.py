"""Kinds and defaults of parameters at the call; Python's own functions are the judges."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import nnmagic
from nnmagic import CompiledFunction, TinyNNError
from nnmagic.functions.cells.compile_cell import MEMORY
from nnmagic.relay import AdtValue

W0 = np.array([1, 2, 3], "float32")
SOURCE = """
def f(x: Tensor[(3,), f32], /, y: f32 = 2.0, *, k: Tensor[(3,), f32] = w0, t: tuple[f32, i32] = (0.5, 3)):
    a, b = t
    return x * y + k * a + b.astype(f32)
"""
X = np.array([4, 5, 6], "float32")


def python_f(x, /, y=2.0, *, k=W0, t=(0.5, 3)):
    return x * y + k * t[0] + t[1]


def compile_source(source: str = SOURCE, **names: object) -> CompiledFunction:
    return nnmagic.compile(source, namespace={"w0": W0, **names})


@pytest.fixture(scope="module")
def f() -> CompiledFunction:
    return compile_source()


CALLS: list[tuple[tuple[object, ...], dict[str, object]]] = [
    ((X,), {}),
    ((X, 3), {}),
    ((X,), {"y": np.float32(3)}),
    ((X,), {"k": X, "y": 1}),
    ((X, 1), {"t": (1.0, 2), "k": X * 2}),
]


@pytest.mark.parametrize(("args", "keywords"), CALLS)
def test_defaults_stand_in(
    f: CompiledFunction, args: tuple[object, ...], keywords: dict[str, object]
) -> None:
    np.testing.assert_allclose(f(*args, **keywords), python_f(*args, **keywords), rtol=1e-6)


@pytest.mark.parametrize(
    ("args", "keywords"),
    [
        ((), {}),
        ((), {"x": X}),
        ((X, 1, 2), {}),
        ((X, 1, 2), {"k": X}),
        ((X, 1), {"y": 1}),
        ((X,), {"zzz": 1}),
    ],
)
def test_what_does_not_bind_is_told_in_python_s_words(
    f: CompiledFunction, args: tuple[object, ...], keywords: dict[str, object]
) -> None:
    with pytest.raises(TypeError) as python:
        python_f(*args, **keywords)
    with pytest.raises(TypeError) as ours:
        f(*args, **keywords)
    assert str(ours.value) == str(python.value).replace("python_f", "f")


def test_keyword_only_parameters_without_defaults() -> None:
    g = compile_source("def g(*, a: f32, b: f32):\n    return a - b\n")

    def python_g(*, a, b): ...

    assert g(b=1.0, a=3.0) == 2
    for args in ((1.0, 2.0), (np.array(1, "f4"), np.array(2, "f4")), ()):
        with pytest.raises(TypeError) as python:
            python_g(*args)
        with pytest.raises(TypeError) as ours:
            g(*args)
        assert str(ours.value).endswith(str(python.value).rpartition("python_g")[2])


def test_the_signature_is_python_s(f: CompiledFunction) -> None:
    ours, python = inspect.signature(f).parameters, inspect.signature(python_f).parameters
    assert [(p.name, p.kind) for p in ours.values()] == [(p.name, p.kind) for p in python.values()]
    assert ours["y"].default == 2.0
    assert ours["x"].default is inspect.Parameter.empty
    np.testing.assert_array_equal(np.asarray(ours["k"].default), W0)
    assert ours["t"].default == (0.5, 3)
    assert repr(f) == (
        "<nnmagic function f(x: Tensor[(3,), f32], /, y: f32 = 2.0, *, k: Tensor[(3,), f32] = <array>, "
        "t: tuple[f32, i32] = (0.5, 3)) -> Tensor[(3,), f32]>"
    )
    bound = inspect.signature(f).bind(X)
    bound.apply_defaults()
    np.testing.assert_allclose(f(*bound.args, **bound.kwargs), python_f(X), rtol=1e-6)


def test_a_default_is_what_it_was_when_the_function_was_compiled() -> None:
    table = W0.copy()
    g = compile_source("def g(k: Tensor[(3,), f32] = table):\n    return k * 2\n", table=table)
    table[:] = 0
    np.testing.assert_array_equal(g(), W0 * 2)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(inspect.signature(g).parameters["k"].default)[0] = 7


@pytest.mark.usefixtures("memory_only")
def test_a_changed_default_is_a_new_function() -> None:
    source = "def g(x: f32, k: f32 = one):\n    return x + k\n"
    assert compile_source(source, one=1)(1.0) == 2
    changed = compile_source(source, one=2)
    assert changed.cache_info.why == "captured number `one` changed"
    assert changed(1.0) == 3
    again = compile_source(source, one=1)
    assert again.cache_info.hit == "memory"
    assert again(1.0) == 2


@pytest.mark.parametrize("way", ["pickle", "file", "cache"])
def test_defaults_survive(f: CompiledFunction, way: str, tmp_path: Path) -> None:
    if way == "pickle":
        other = pickle.loads(pickle.dumps(f))
    elif way == "file":
        f.save(tmp_path / "f")
        other = nnmagic.load(tmp_path / "f")
        other.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "f").read_bytes()
    else:
        MEMORY.clear()
        compile_source()
        other = compile_source()
        assert other.cache_info.hit == "memory"
    assert inspect.signature(other) == inspect.signature(f)
    for args, keywords in CALLS:
        np.testing.assert_array_equal(other(*args, **keywords), f(*args, **keywords))


@pytest.mark.parametrize("loaded", [False, True])
def test_another_cell_knows_kinds_and_defaults(f: CompiledFunction, loaded: bool) -> None:
    callee = pickle.loads(pickle.dumps(f)) if loaded else f
    source = (
        "def g(x: Tensor[(3,), f32], z: Tensor[(3,), f32]):\n    return f(x), f(x, 3), f(x, k=z, t=(1, 2))\n"
    )
    one, two, three = compile_source(source, f=callee)(X, X * 2)
    np.testing.assert_allclose(one, python_f(X), rtol=1e-6)
    np.testing.assert_allclose(two, python_f(X, 3), rtol=1e-6)
    np.testing.assert_allclose(three, python_f(X, k=X * 2, t=(1, 2)), rtol=1e-6)
    for call, words in (
        ("f(x=x)", "`x` is given by its place only"),
        ("f(x, 1, x)", "takes 2 positional arguments, but 3 are given"),
        ("f()", "`x`"),
    ):
        with pytest.raises(TinyNNError, match=words):
            compile_source(f"def g(x: Tensor[(3,), f32]):\n    return {call}\n", f=callee)


def test_defaults_of_other_dtypes_and_data_types() -> None:
    source = (
        "class L:\n    def N(): ...\n    def C(head: Tensor[(2,), bf16], tail: L): ...\n\n"
        "def g(h: Tensor[(2,), bf16] = half, n: i64 = -3, b: bool_ = True, l: L = C(half, N())):\n"
        "    return h, n, b, l\n"
    )
    half = np.array([0.5, 1.5], ml_dtypes.bfloat16)
    g = compile_source(source, half=half)
    for function in (g, pickle.loads(pickle.dumps(g))):
        h, n, b, items = function()
        assert h.dtype == half.dtype
        np.testing.assert_array_equal(h, half)
        assert (n.dtype, int(n), b.dtype, bool(b)) == (np.int64, -3, np.bool_, True)
        assert items == AdtValue("C", (half, AdtValue("N")))
    calls = "def h(n: i64):\n    if n > 0:\n        return g(n=n)\n    return g(n=-n)\n"
    assert compile_source(calls, g=pickle.loads(pickle.dumps(g)))(5)[3] == g()[3]


@pytest.mark.parametrize(
    ("default", "words"),
    [
        ("w0 * 2", "not known at compile time"),
        ("None", "is None, which is no tensor"),
        ("'a'", "a string|the string"),
        ("(1, 2)", "is declared as"),
    ],
)
def test_a_default_that_cannot_be_one_is_refused(default: str, words: str) -> None:
    with pytest.raises(TinyNNError, match=words) as caught:
        compile_source(f"def g(k: Tensor[(3,), f32] = {default}):\n    return k\n")
    (error,) = caught.value.diagnostics
    assert error.span is not None
    assert (error.span.line, error.span.column) == (1, 30)


def test_out_stays_the_last_of_all(f: CompiledFunction) -> None:
    out = np.empty(3, "float32")
    assert f(X, 3, out=out) is out
    np.testing.assert_allclose(out, python_f(X, 3), rtol=1e-6)
    own = compile_source("def g(x: f32, *, out: f32 = 1):\n    return x + out\n")
    assert own(1.0) == 2
    assert own(1.0, out=5.0) == 6
    assert repr(own) == "<nnmagic function g(x: f32, *, out: f32 = 1) -> f32>"


def test_functions_and_data_types_are_shown_as_they_are_written() -> None:
    source = (
        "class L:\n    def N(): ...\n    def C(head: f32, tail: L): ...\n\n"
        "def twice(g: Callable[[Tensor[('n',), f32], f32], Tensor[('n',), f32]],\n"
        "          x: Tensor[('n',), f32], l: L):\n"
        "    return g(g(x, 1), 2)\n"
    )
    function = compile_source(source)
    shown = "g: Callable[[Tensor[('n',), f32], f32], Tensor[('n',), f32]], x: Tensor[('n',), f32], l: L"
    assert shown in repr(function)
    assert shown in str(inspect.signature(function))
    with pytest.raises(TypeError, match=r"twice\(\) argument 'g' .*cannot be passed from Python"):
        function(np.exp, X, AdtValue("N"))
