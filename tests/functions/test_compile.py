"""nnmagic.compile and @nnmagic.function: what they take, what they refuse, where names are looked up."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import nnmagic
from nnmagic import Tensor, f32, f64, relay
from nnmagic.tracebacks import short_errors

offset = 10
IDENTITY = "def identity(x: Tensor[(2,), f32]):\n    return x\n"
ONES = np.ones(2, "float32")


@nnmagic.function
def plus_offset(x: Tensor[(2,), f32]):
    """Adds the global."""
    return x + offset


def test_a_decorated_function() -> None:
    np.testing.assert_array_equal(plus_offset(ONES), [11, 11])
    assert plus_offset.__doc__ == "Adds the global."
    assert plus_offset.__module__ == __name__
    assert plus_offset.__dsl_code__.startswith("def plus_offset(x")


def test_names_in_annotations_and_bodies_come_from_the_enclosing_scope() -> None:
    width, scale = 2, 3.0

    @nnmagic.function(opt_level=1)
    def scaled(x: Tensor[(width,), f32]):
        return plus_offset(x) * scale

    np.testing.assert_array_equal(scaled(ONES), [33, 33])
    assert scaled.__qualname__.endswith("<locals>.scaled")
    assert scaled.__dsl_code__ == "def scaled(x: Tensor[(width,), f32]):\n    return plus_offset(x) * scale"
    assert set(scaled.relay.functions) == {"scaled", "plus_offset"}


def test_the_enclosing_scope_is_found_however_often_nnmagic_wraps_its_functions() -> None:
    width = 2

    def same(x: Tensor[(width,), f32]):
        return x

    for wrapped in (
        nnmagic.function,
        short_errors(nnmagic.function),
        short_errors(nnmagic.function(opt_level=1)),
    ):
        np.testing.assert_array_equal(wrapped(same)(ONES), [1, 1])


def test_an_error_in_a_nested_function_points_into_this_file() -> None:
    with pytest.raises(nnmagic.TinyNNError) as caught:

        @nnmagic.function
        def wrong(x: Tensor[(2,), f32]):
            return x + unknown_name  # noqa: F821

    span = caught.value.diagnostics[0].span
    line = Path(__file__).read_text().splitlines()[span.line - 1]
    assert Path(span.filename) == Path(__file__)
    assert line[span.column - 1 : span.end_column - 1] == "unknown_name"
    assert line in str(caught.value)


def test_python_functions_without_source_are_refused_in_words(tmp_path: Path) -> None:
    scope: dict[str, object] = {}
    exec(compile("def f(x): return x", "<typed>", "exec"), scope)  # Python 3.13 knows the <string> of `-c`
    with pytest.raises(ValueError, match=r"the source of f\(\) cannot be read \(it was defined in <typed>\)"):
        nnmagic.compile(scope["f"])
    with pytest.raises(TypeError, match="a lambda cannot be compiled"):
        nnmagic.compile(lambda x: x)
    file = tmp_path / "changed.py"
    file.write_text("\n\ndef f(x): return x\n")
    exec(compile(file.read_text(), str(file), "exec"), scope)
    file.write_text("\n\nother = 1\n")
    with pytest.raises(ValueError, match=r"was the file changed since|cannot be read"):
        nnmagic.compile(scope["f"])


@pytest.mark.full
def test_the_same_from_python_s_command_line() -> None:
    code = (
        "import nnmagic\nfrom nnmagic import *\ntry:\n"
        "    @nnmagic.function\n    def f(x: Tensor[(2,), f32]):\n        return x\n    print(f)\n"
        "except ValueError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # Python keeps the source of -c from 3.13 on.
    kept = "<nnmagic function f(x: Tensor[(2,), f32]) -> Tensor[(2,), f32]>"
    assert (kept if sys.version_info >= (3, 13) else "cannot be read") in done.stdout


def test_text_gives_its_last_public_function_and_sees_the_namespace() -> None:
    table = np.arange(2, dtype="float32")
    source = (
        "def _twice(x: Tensor[(n,), f32]):\n    return x + x\n\n"
        "def first(x: Tensor[(n,), f32]):\n    return x\n\n"
        "def second(x: Tensor[(n,), f32]):\n    return _twice(x) + table\n\n"
        "def _third(x: Tensor[(n,), f32]):\n    return x\n"
    )
    second = nnmagic.compile(source, namespace={"n": 2, "table": table})
    assert second.name == "second"
    np.testing.assert_array_equal(second(ONES), [2, 3])


def test_nothing_public_is_an_error() -> None:
    with pytest.raises(nnmagic.TinyNNError, match="nothing here is bound"):
        nnmagic.compile("def _f(x: Tensor[(2,), f32]):\n    return x\n")
    with pytest.raises(nnmagic.TinyNNError):
        nnmagic.compile("")


def test_a_decorated_function_may_have_any_name() -> None:
    @nnmagic.function(engine="numpy")
    def _half(x):  # type: ignore[no-untyped-def]
        return x / 2

    @nnmagic.function(engine="numpy")
    def __total(x: Tensor[(3,), f64]) -> f64:
        return _half(x).sum()

    assert __total(np.ones(3)) == 1.5
    assert _half(3.0) == 1.5
    np.testing.assert_array_equal(nnmagic.vmap(__total)(np.ones((2, 3))), [1.5, 1.5])
    assert pickle.loads(pickle.dumps(_half))(5.0) == 2.5


def test_a_relay_module_gives_main_or_its_only_function() -> None:
    head = '#[version = "0.0.5"]\n'
    one = relay.parse(head + "def @one(%x: Tensor[(2), float32]) { exp(%x) }")
    two = relay.parse(
        head + "def @other(%x: float32) { %x }\n def @main(%x: Tensor[(2), float32]) { negative(%x) }"
    )
    np.testing.assert_allclose(nnmagic.compile(one)(ONES), np.exp(ONES), rtol=1e-6)
    np.testing.assert_array_equal(nnmagic.compile(two)(ONES), -ONES)
    assert "tree" not in nnmagic.compile(one).stages
    neither = relay.parse(head + "def @a(%x: float32) { %x }\n def @b(%x: float32) { %x }")
    with pytest.raises(ValueError, match="@main, or just one function: its functions are @a, @b"):
        nnmagic.compile(neither)
    with pytest.raises(ValueError, match="it has no function"):
        nnmagic.compile(relay.Module())


def test_an_untyped_module_is_inferred_first() -> None:
    x = relay.Var("x", relay.TensorType((2,), "float32"))
    module = relay.Module({"main": relay.Function((x,), relay.call("tanh", [x]))})
    np.testing.assert_allclose(nnmagic.compile(module)(ONES), np.tanh(ONES), rtol=1e-6)


@pytest.mark.parametrize(
    ("keywords", "kind", "words"),
    [
        (
            {"engine": "tpu"},
            ValueError,
            "engine must be one of 'auto', 'relax', 'relay', 'numpy', 'python', not 'tpu'",
        ),
        ({"engine": None}, TypeError, "engine must be"),
        ({"opt_level": 4}, ValueError, "opt_level must be 0, 1, 2 or 3, not 4"),
        ({"opt_level": "3"}, TypeError, "opt_level must be"),
        ({"opt_level": True}, TypeError, "opt_level must be"),
        ({"target": 7}, TypeError, "target must be None, a string or a dict"),
        ({"target": ""}, ValueError, "target must not be empty"),
        ({"target": "gpu9000"}, nnmagic.EngineError, "gpu9000"),
        ({"target": {"kind": "llvm", "mcpu": 3.5}}, nnmagic.EngineError, "mcpu must be a string, not 3.5"),
        ({"target": {"kind": object()}}, TypeError, "target must hold"),
        ({"namespace": [1]}, TypeError, "namespace must be a dict"),
        ({"engine": "relay"}, nnmagic.EngineError, "needs a TVM that has Relay"),
    ],
)
def test_wrong_options(keywords: dict[str, object], kind: type, words: str) -> None:
    with pytest.raises(kind, match=words):
        nnmagic.compile(IDENTITY, **keywords)


@pytest.mark.parametrize("source", [None, 3, b"def f(): pass", plus_offset, print, int])
def test_wrong_sources(source: object) -> None:
    with pytest.raises(TypeError, match=r"takes TinyNN text, a Python function or a relay\.Module"):
        nnmagic.compile(source)


def test_the_decorator_takes_functions_only() -> None:
    with pytest.raises(TypeError, match="takes a Python function, not a str"):
        nnmagic.function(IDENTITY)
    with pytest.raises(ValueError, match="engine must be"):
        nnmagic.function(engine="nope")


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_level_gives_the_same(level: int) -> None:
    function = nnmagic.compile("def f(x: Tensor[(2,), f32]):\n    return exp(x) * 2 + 1\n", opt_level=level)
    np.testing.assert_allclose(function(ONES), np.exp(ONES) * 2 + 1, rtol=1e-6)


def test_blank_lines_of_an_indented_function_count() -> None:
    def f(x: Tensor[(3,), f32]):
        y = x * 2

        return y + 1

    np.testing.assert_array_equal(nnmagic.compile(f, engine="numpy")(np.ones(3, "float32")), [3, 3, 3])

    def wrong(x: Tensor[(3,), f32]):
        y = x * 2

        return y + nothing  # noqa: F821

    with pytest.raises(nnmagic.TinyNNError) as caught:
        nnmagic.compile(wrong)
    span = caught.value.diagnostics[0].span
    assert span is not None
    assert span.line == wrong.__code__.co_firstlineno + 3


def test_importing_is_cheap_and_names_are_there() -> None:
    code = textwrap.dedent(
        """
        import sys, nnmagic
        heavy = {"numpy", "tvm", "IPython", "synr", "inspect"} & set(sys.modules)
        assert not heavy, heavy
        for name in nnmagic.__all__:
            assert getattr(nnmagic, name) is not None, name
        for name in nnmagic.relay.__all__:
            assert getattr(nnmagic.relay, name) is not None, name
        assert callable(nnmagic.function) and callable(nnmagic.compile)
        assert set(nnmagic.__all__) <= set(dir(nnmagic))
        assert "tvm" not in sys.modules
        assert nnmagic.Tensor[(2, "n"), nnmagic.f32].shape == (2, "n")
        try:
            nnmagic.nothing
        except AttributeError as error:
            print(error)
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "module 'nnmagic' has no attribute 'nothing'\n"
