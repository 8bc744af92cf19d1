"""Engines of one's own: as a callable, by an entry point of a package, and in the magics."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

import nnmagic

SOURCE = """
def main(x: Tensor[("n",), f32]):
    return x + 1.0

def foo(x: Tensor[("n",), f32], k: f32):
    return main(x) * k, len(x)
"""
X = np.array([1, 2, 4], "float32")


def traced(modules: list[nnmagic.relay.Module]):
    def engine(module):
        modules.append(module)
        return nnmagic.compile(module, engine="numpy", cache=False)

    return engine


def test_an_engine_is_a_callable_from_module_to_callable() -> None:
    modules: list[nnmagic.relay.Module] = []
    function = nnmagic.compile(SOURCE, engine=traced(modules))
    result, size = function(X, 2.0)
    np.testing.assert_array_equal(result, (X + 1) * 2)
    assert size == 3
    (module,) = modules
    assert [param.name_hint for param in module.functions["main"].params] == ["x", "k"]
    assert "main_1" in module.functions  # the cell's own @main has made room
    assert function.cache_info.hit is None
    assert function.cache_info.why.endswith("traced.<locals>.engine keeps nothing on disk")


def test_the_cache_in_memory_tells_engines_apart() -> None:
    first: list[nnmagic.relay.Module] = []
    second: list[nnmagic.relay.Module] = []
    one, other = traced(first), traced(second)
    assert nnmagic.compile(SOURCE, engine=one).cache_info.hit is None
    assert nnmagic.compile(SOURCE, engine=one).cache_info.hit == "memory"
    assert nnmagic.compile(SOURCE, engine=other).cache_info.hit is None


def test_the_decorator_takes_an_engine() -> None:
    modules: list[nnmagic.relay.Module] = []

    @nnmagic.function(engine=traced(modules))
    def double(x: nnmagic.Tensor[(3,), nnmagic.f32]):
        return x + x

    np.testing.assert_array_equal(double(X), X + X)
    assert len(modules) == 1


def test_a_result_is_a_copy() -> None:
    kept = np.zeros(3, "float32")
    function = nnmagic.compile(
        "def f(x: Tensor[(3,), f32]): return x", engine=lambda _module: lambda _x: kept
    )
    function(X)[0] = 5
    assert kept[0] == 0


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (lambda _module: 3, "the engine .*lambda> returned an int for @f"),
        (lambda _module: 1 / 0, "cannot build @f: ZeroDivisionError: division by zero"),
        (
            lambda _module: lambda _x: None,
            r"the result of the engine .* must be Tensor\[\(3,\), f32\], not None",
        ),
        (lambda _module: lambda x: x[:2], r"must be Tensor\[\(3,\), f32\], not of shape \(2,\)"),
        (lambda _module: lambda x: x.astype("float64"), "not an array of float64"),
        (lambda _module: lambda x: x[None], "of rank 1, not of rank 2"),
        (lambda _module: lambda x: (x, x), "must be Tensor"),
    ],
)
def test_what_an_engine_does_wrong_is_named(engine, message: str) -> None:
    with pytest.raises(nnmagic.EngineError, match=message):
        nnmagic.compile("def f(x: Tensor[(3,), f32]): return x", engine=engine, cache=False)(X)


def test_an_error_of_a_run_passes_through() -> None:
    def engine(_module):
        def run(_x):
            raise ZeroDivisionError("in the engine")

        return run

    function = nnmagic.compile("def f(x: Tensor[(3,), f32]): return x", engine=engine)
    with pytest.raises(ZeroDivisionError, match="in the engine"):
        function(X)


def test_a_callable_cannot_be_saved_and_a_name_can(tmp_path: Path) -> None:
    function = nnmagic.compile(SOURCE, engine=traced([]))
    with pytest.raises(TypeError, match=r"its engine .* is a Python callable; register it"):
        pickle.dumps(function)
    with pytest.raises(TypeError, match="foo cannot be saved"):
        function.save(tmp_path / "foo")
    assert not list(tmp_path.iterdir())
    named = pickle.loads(pickle.dumps(nnmagic.compile(SOURCE, engine="numpy")))
    np.testing.assert_array_equal(named(X, 2.0)[0], (X + 1) * 2)


def test_unknown_engines_and_settings_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"engine must be one of 'auto', 'relax', 'relay', 'numpy'.*not 'numpi'"
    ):
        nnmagic.compile(SOURCE, engine="numpi")
    with pytest.raises(TypeError, match="or a callable, not 3"):
        nnmagic.compile(SOURCE, engine=3)
    with pytest.raises(nnmagic.EngineError, match="the engine 'numpy' takes no target"):
        nnmagic.compile(SOURCE, engine="numpy", target={"kind": "llvm"}, cache=False)(X, 2.0)
    with pytest.raises(nnmagic.EngineError, match="the engine 'numpy' has no stage 'asm'"):
        _ = nnmagic.compile(SOURCE, engine="numpy").stages["asm"]


@pytest.mark.full
def test_a_package_registers_an_engine(tmp_path: Path) -> None:
    """In a process of its own: a distribution as pip installs it, found by its entry points."""
    (tmp_path / "toy_engine.py").write_text(
        "import nnmagic\n"
        "def build(module):\n"
        "    print('built', sorted(module.functions))\n"
        "    return nnmagic.compile(module, engine='numpy', cache=False)\n"
    )
    info = tmp_path / "toy_engine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-engine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[nnmagic.engines]\ntoy = toy_engine:build\nbroken = toy_engine:nothing\nauto = toy_engine:build\n"
    )
    script = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import pickle, numpy, nnmagic
source = "def f(x: Tensor[(3,), f32]): return x + 1.0"
f = nnmagic.compile(source, engine="toy")
print(f(numpy.zeros(3, "float32")), f.cache_info.why)
print(pickle.loads(pickle.dumps(f))(numpy.ones(3, "float32")))
try:
    nnmagic.compile(source, engine="broken", cache=False).build()
except nnmagic.EngineError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert lines[0] == "built ['main']"
    assert lines[1].startswith("[1. 1. 1.]")
    assert lines[1].endswith("the engine 'toy' keeps nothing on disk")
    assert "[2. 2. 2.]" in lines
    assert any("the engine 'broken' cannot be imported from toy_engine:nothing" in line for line in lines)


def test_the_magic_takes_a_function_of_the_notebook() -> None:
    shell = InteractiveShell()
    try:
        shell.run_line_magic("load_ext", "nnmagic")
        shell.user_ns.update(modules := {"modules": []})
        assert shell.run_cell(
            "def mine(module):\n    modules.append(module)\n    import nnmagic\n"
            "    return nnmagic.compile(module, engine='numpy', cache=False)\n"
        ).success
        cell = "def foo(x: Tensor[(3,), f32]):\n    return x + 1.0\n"
        shell.run_cell_magic("tinynn", "-q --engine mine", cell)
        np.testing.assert_array_equal(shell.user_ns["foo"](X), X + 1)
        assert len(modules["modules"]) == 1
        with pytest.raises(Exception, match="name of a function of the notebook, not 'nobody'"):
            shell.run_cell_magic("tinynn", "-q --engine nobody", cell)
        shell.run_line_magic("config", "TinyNNMagics.engine = 'mine'")
        shell.run_cell_magic("tinynn", "-q", cell.replace("1.0", "2.0"))
        np.testing.assert_array_equal(shell.user_ns["foo"](X), X + 2)
        assert len(modules["modules"]) == 2
        from nnmagic.jupyter.option_completion import complete_cell_options

        offered = complete_cell_options("tinynn", "%%tinynn --engine ", shell.user_ns)
        assert {"auto", "relax", "relay", "numpy", "mine"} <= set(offered)
    finally:
        InteractiveShell.clear_instance()
