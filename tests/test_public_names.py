"""Every public name, used once as it is promised; what each does in full is tested elsewhere."""

from __future__ import annotations

import copy
import importlib.metadata
import inspect
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import nnmagic

SOURCE = '''def affine(x: Tensor[("n", 2), f32], alpha: f32):
    """Scaled, then moved."""
    return x * alpha + shift
'''
SHIFT = np.array([1, 2], "float32")
X = np.array([[1, 2], [3, 4], [5, 6]], "float32")
EXPECTED = X * np.float32(0.5) + SHIFT
DTYPES = {
    "f16": "float16", "f32": "float32", "f64": "float64",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "bool_": "bool",
    "c64": "complex64", "c128": "complex128",
}  # fmt: skip
STAGES = ["source", "tree", "relay", "relay-typed", "passes", "relax", "tir", "llvm", "asm", "linked"]


@pytest.fixture(scope="module")
def affine() -> nnmagic.CompiledFunction:
    return nnmagic.compile(SOURCE, namespace={"shift": SHIFT}, cache=False)


# -- the package ----------------------------------------------------------------------------------------


def test_every_name_that_is_listed_is_there() -> None:
    for module in (nnmagic, nnmagic.relay):
        assert len(module.__all__) == len(set(module.__all__))
        for name in module.__all__:
            getattr(module, name)
        assert set(module.__all__) <= set(dir(module))
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            _ = module.nothing
    assert nnmagic.__version__ == importlib.metadata.version("nnmagic")


def test_compile_takes_its_keywords() -> None:
    signature = inspect.signature(nnmagic.compile)
    defaults = {name: p.default for name, p in signature.parameters.items() if p.kind is p.KEYWORD_ONLY}
    promised = {"engine": "auto", "target": None, "opt_level": 3, "namespace": None, "cache": True}
    promised |= {"promote": None, "convert": False, "passes": (), "debug": True, "zero_d_arrays": False}
    assert defaults == promised
    function = nnmagic.compile(
        SOURCE, engine="relax", target=None, opt_level=1, namespace={"shift": SHIFT}, cache=False
    )
    np.testing.assert_allclose(function(X, 0.5), EXPECTED)


def test_compile_takes_text_a_function_or_a_module(affine: nnmagic.CompiledFunction) -> None:
    two = "def one(x: f32):\n    return x + 1\n\ndef two(x: f32):\n    return one(x) * 2\n"
    last = nnmagic.compile(two)
    assert (last.__name__, float(last(3))) == ("two", 8)

    def python(x: nnmagic.Tensor[(3, 2), nnmagic.f32]):
        with nnmagic.Tensor:
            return x

    with pytest.raises(nnmagic.TinyNNError, match="`with`"):
        nnmagic.compile(python)

    def negated(x: nnmagic.Tensor[(3, 2), nnmagic.f32]):
        return -x

    np.testing.assert_array_equal(nnmagic.compile(negated)(X), -X)
    np.testing.assert_allclose(nnmagic.compile(affine.relay)(X, 0.5), EXPECTED)
    with pytest.raises(TypeError, match=r"takes TinyNN text, a Python function or a relay\.Module"):
        nnmagic.compile(3)


def test_function_is_a_decorator_bare_or_with_keywords() -> None:
    @nnmagic.function
    def bare(x: nnmagic.Tensor[(3, 2), nnmagic.f32]):
        return x + 1

    @nnmagic.function(engine="relax", opt_level=0, cache=False, namespace={"shift": SHIFT})
    def with_keywords(x: nnmagic.Tensor[(3, 2), nnmagic.f32]):
        return x + shift  # noqa: F821  # the namespace has it

    assert isinstance(bare, nnmagic.CompiledFunction)
    np.testing.assert_array_equal(bare(X), X + 1)
    np.testing.assert_array_equal(with_keywords(X), X + SHIFT)


@pytest.mark.parametrize(("name", "numpy_name"), DTYPES.items())
def test_a_dtype_is_a_python_object_and_an_element_type(name: str, numpy_name: str) -> None:
    dtype = getattr(nnmagic, name)
    assert np.zeros(1, dtype).dtype == np.dtype(numpy_name)
    annotation = nnmagic.Tensor[(2, "n"), dtype]
    assert (annotation.shape, annotation.dtype) == ((2, "n"), dtype)
    text = nnmagic.compile(f"def f(x: Tensor[(2, 3), {name}]):\n    return x\n").relay_text
    pairs = {"complex64": "(2, 3, 2), float32", "complex128": "(2, 3, 2), float64"}
    assert f"%x: Tensor[{pairs.get(numpy_name, f'(2, 3), {numpy_name}')}]" in text


def test_bfloat16() -> None:
    import ml_dtypes

    assert np.zeros(1, nnmagic.bf16).dtype == ml_dtypes.bfloat16
    text = nnmagic.compile("def f(x: Tensor[(2,), bf16]):\n    return x\n").relay_text
    assert "Tensor[(2), bfloat16]" in text


# -- relay ----------------------------------------------------------------------------------------------


def test_relay_text_is_read_and_printed() -> None:
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) {\n  exp(%x)\n}\n'
    module = nnmagic.relay.infer_type(nnmagic.relay.parse(text))
    typed = "def @main(%x: Tensor[(2), float32] /* ty=Tensor[(2), float32] */)"
    assert typed in module.astext()
    assert typed in module.astext(show_meta_data=False)
    assert typed in str(module)
    again = nnmagic.relay.infer_type(nnmagic.relay.erase_types(module))
    assert isinstance(again, nnmagic.relay.Module)
    assert again.astext() == module.astext()


def test_a_value_of_a_data_type() -> None:
    constructor = nnmagic.relay.Constructor("Nil", (), nnmagic.relay.GlobalTypeVar("List"), 0)
    value = nnmagic.relay.AdtValue(constructor, (X,))
    assert value.constructor is constructor
    assert value.fields == (X,)


# -- errors ---------------------------------------------------------------------------------------------


def test_errors_say_what_where_and_what_to_do() -> None:
    assert issubclass(nnmagic.TinyNNError, nnmagic.CompileError)
    assert issubclass(nnmagic.RelayError, nnmagic.CompileError)
    with pytest.raises(nnmagic.TinyNNError) as caught:
        nnmagic.compile("def f(é: Tensor[(2,), f32]):\n    return é + zork, (é\n        @ é)[9]\n")
    first, second = caught.value.diagnostics
    assert first.message == "unknown name `zork`"
    assert first.hint == "assign it first, or define it in another cell"
    span = first.span
    position = (span.filename, span.line, span.column, span.end_line, span.end_column)
    assert position == ("<tinynn>", 2, 16, 2, 20)
    assert (second.span.line, second.span.end_line) == (2, 3)
    with pytest.raises(nnmagic.RelayError) as caught_relay:
        nnmagic.relay.parse('#[version = "0.0.5"]\ndef @f(%x: float32) { exp(%y) }\n')
    assert caught_relay.value.diagnostics[0].span.line == 2


# -- CompiledFunction -----------------------------------------------------------------------------------


class Foreign:
    """An array of another library, by one of the two protocols."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array


class WithArray(Foreign):
    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.array


class WithDlpack(Foreign):
    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_it_is_called_as_promised(affine: nnmagic.CompiledFunction) -> None:
    for x in (X, WithArray(X), WithDlpack(X)):
        result = affine(x, alpha=0.5)
        assert type(result) is np.ndarray
        np.testing.assert_allclose(result, EXPECTED)
    out = np.zeros_like(X)
    assert affine(X, 0.5, out=out) is out
    np.testing.assert_allclose(out, EXPECTED)
    both = nnmagic.compile("def f(x: Tensor[(3, 2), f32]):\n    return x + 1, x - 1\n")(X)
    assert isinstance(both, tuple)
    np.testing.assert_array_equal(both, (X + 1, X - 1))


def test_its_attributes(affine: nnmagic.CompiledFunction) -> None:
    assert isinstance(affine.relay, nnmagic.relay.Module)
    assert "/* ty=" in str(affine.relay)
    assert affine.relay_text.startswith("def @affine(%x: Tensor[(?, 2), float32], %alpha: float32)")
    assert "/* ty=" not in affine.relay_text.split("{")[0]
    assert affine.__relay_code__ == affine.relay_text
    assert affine.__dsl_code__ == SOURCE.rstrip()
    assert affine.__doc__ == "Scaled, then moved."
    assert list(inspect.signature(affine).parameters) == ["x", "alpha"]
    annotations = [parameter.annotation for parameter in affine.__signature__.parameters.values()]
    assert annotations[:2] == [nnmagic.Tensor[("n", 2), nnmagic.f32], nnmagic.f32]


def test_its_stages(affine: nnmagic.CompiledFunction) -> None:
    assert list(affine.stages) == STAGES
    texts = {name: affine.stages[name] for name in STAGES}
    assert all(isinstance(text, str) and text.strip() for text in texts.values())
    assert len(set(texts.values())) == len(STAGES), "each is another text"
    for name, word in {"relax": "R.func", "tir": "T.prim_func", "llvm": "define ", "asm": "ret"}.items():
        assert word in texts[name], name
    with pytest.raises(KeyError, match="the stages are source, tree, relay"):
        affine.stages["nothing"]


def test_its_cache_info() -> None:
    source = SOURCE.replace("affine", "remembered").replace("+ shift", "- shift")
    first = nnmagic.compile(source, namespace={"shift": SHIFT}).cache_info
    second = nnmagic.compile(source, namespace={"shift": SHIFT}).cache_info
    assert (first.hit, second.hit) == (None, "memory")
    assert first.key == second.key
    assert first.seconds > second.seconds > 0
    assert first.why
    assert second.why


def test_it_travels(affine: nnmagic.CompiledFunction, tmp_path: Path) -> None:
    affine.save(tmp_path / "affine.nnm")
    others = [nnmagic.load(tmp_path / "affine.nnm"), pickle.loads(pickle.dumps(affine)), copy.copy(affine)]
    for other in others:
        assert isinstance(other, nnmagic.CompiledFunction)
        np.testing.assert_array_equal(other(X, 0.5), affine(X, 0.5))


# -- the magics -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ip() -> Iterator[InteractiveShell]:
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    nnmagic.load_ipython_extension(shell)
    shell.user_ns["shift"] = SHIFT
    yield shell
    nnmagic.unload_ipython_extension(shell)
    assert shell.find_cell_magic("tinynn") is None
    InteractiveShell.clear_instance()


def run(ip: InteractiveShell, text: str) -> str:
    """What a cell shows."""
    with capture_output() as captured:
        result = ip.run_cell(text)
    result.raise_error()
    return "\n".join(output.data["text/plain"] for output in captured.outputs) + captured.stdout


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ("", "def @affine"),
        ("-o other", "def @affine"),
        ("--engine relax", "def @affine"),
        ("--target llvm", "def @affine"),
        ("--opt-level 2", "def @affine"),
        ("--show source", "def affine"),
        ("--show relay-typed,tree", "/* ty="),
        ("-v", "key "),
        ("-f", "def @affine"),
        ("--force", "def @affine"),
        ("--no-cache", "def @affine"),
        ("-q", None),
    ],
)
def test_the_options_of_a_cell(ip: InteractiveShell, options: str, shown: str | None) -> None:
    for magic, body in (("tinynn", SOURCE), ("relay", "def @affine(%x: float32) { exp(%x) }")):
        if magic == "relay" and "source" in options:
            shown = "def @affine"
        if magic == "relay" and "tree" in options:
            continue  # Relay's text has no syntax tree of Python's
        ip.user_ns.pop("affine", None)
        output = run(ip, f"%%{magic} {options}\n{body}")
        assert isinstance(ip.user_ns["affine"], nnmagic.CompiledFunction)
        assert (output == "") if shown is None else (shown in output)
        if "-o" in options.split():
            assert ip.user_ns.pop("other") is ip.user_ns["affine"]
        if options in ("-f", "--force", "--no-cache"):
            assert ip.user_ns["affine"].cache_info.hit is None
            assert ip.user_ns["affine"].cache_info.why in ("forced", "the cache is off")


def test_the_commands(ip: InteractiveShell) -> None:
    run(ip, f"%%tinynn -q\n{SOURCE}")
    assert "def @affine" in run(ip, "%tinynn show affine")
    assert run(ip, "%tinynn show affine source").strip() == SOURCE.strip()
    assert "nn.conv2d(data, weight" in run(ip, "%tinynn ops nn.conv2d")
    assert len(run(ip, "%tinynn ops").splitlines()) > 200
    assert "affine" in run(ip, "%tinynn cache")
    assert "empty" in run(ip, "%tinynn cache --clear")
    shown = run(ip, "%tinynn help")
    assert all(f"%tinynn {name}" in shown for name in ("show", "ops", "cache", "profile", "help"))


def test_the_settings(ip: InteractiveShell) -> None:
    shown = run(ip, "%config TinyNNMagics")
    for name in ("engine", "target", "opt_level", "show", "quiet", "cache"):
        assert f"TinyNNMagics.{name}=" in shown
    run(ip, "%config TinyNNMagics.quiet = True")
    try:
        assert run(ip, f"%%tinynn\n{SOURCE}") == ""
    finally:
        run(ip, "%config TinyNNMagics.quiet = False")


def test_line_1_is_the_magic_line(ip: InteractiveShell) -> None:
    with pytest.raises(nnmagic.TinyNNError) as caught:
        run(ip, "%%tinynn\ndef f(x: f32):\n    return nowhere\n")
    assert caught.value.diagnostics[0].span.line == 3
