"""``%onnx``: compiles a model, shows it and binds it; Tab completes its line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import nnmagic
from nnmagic.jupyter.errors import MagicError
from nnmagic.jupyter.onnx_magic import complete_onnx, complete_path, name_of, parse_shapes
from tests.importers.onnx.graphs import info, model, node

X = np.arange(6, dtype="float32").reshape(2, 3)


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    config = Config()
    config.HistoryManager.enabled = False
    ip = InteractiveShell.instance(config=config)
    nnmagic.load_ipython_extension(ip)
    yield ip
    nnmagic.unload_ipython_extension(ip)
    InteractiveShell.clear_instance()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "my-net.v1.onnx"
    onnx.save(model([node("Exp", ["x"], ["y"])], [info("x", ("n", 3))], [info("y", None)]), file)
    return file


def run(shell: InteractiveShell, text: str) -> str:
    with capture_output() as captured:
        result = shell.run_cell(text)
    result.raise_error()
    return "\n".join(output.data["text/plain"] for output in captured.outputs)


def test_it_binds_the_model_to_the_name_of_its_file(shell: InteractiveShell, path: Path) -> None:
    shown = run(shell, f"%onnx {path}")
    assert "def @my_net(%x: Tensor[(?, 3), float32])" in shown
    np.testing.assert_allclose(shell.user_ns["my_net"](X), np.exp(X), rtol=1e-6)


def test_options(shell: InteractiveShell, path: Path) -> None:
    assert run(shell, f"%onnx {path} -o net -q --shape x=2,3") == ""
    assert "Tensor[(2, 3), f32]" in str(shell.user_ns["net"].__signature__)
    assert "ty=Tensor" in run(shell, f"%onnx '{path}' --show relay-typed")


def double(module: nnmagic.relay.Module) -> nnmagic.relay.Module:
    """Double what every function returns."""
    functions = {}
    for name, function in module.functions.items():
        body = nnmagic.relay.call("add", [function.body, function.body])
        functions[name] = nnmagic.relay.Function(function.params, body)
    return nnmagic.relay.Module(functions, module.types)


def test_passes_run_on_the_model_s_relay(shell: InteractiveShell, path: Path) -> None:
    shell.user_ns["double"] = double
    shown = run(shell, f"%onnx {path} --passes double,fold_constants")
    assert "add(%0, %0)" in shown
    np.testing.assert_allclose(shell.user_ns["my_net"](X), 2 * np.exp(X), rtol=1e-6)
    function = nnmagic.from_onnx(path, passes=[double])
    np.testing.assert_allclose(function(X), 2 * np.exp(X), rtol=1e-6)
    assert next(each.name for each in function.passes) == "double"
    with pytest.raises(TypeError, match="passes must be a list"):
        nnmagic.from_onnx(path, passes="double")
    with pytest.raises(ValueError, match="no pass"):
        run(shell, f"%onnx {path} --passes nothing")
    assert "fold_constants" in complete_onnx("%onnx a.onnx --passes ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("none.onnx", "there is no file 'none.onnx'"),
        ("{path} -o 3", "-o takes a variable's name"),
        ("{path} --shape x", "--shape takes an input's name and sizes"),
        ("{path} --show nothing", "there is no stage 'nothing'"),
        ("", "%onnx? lists the options"),
    ],
)
def test_bad_lines_bind_nothing(shell: InteractiveShell, path: Path, options: str, message: str) -> None:
    names = set(shell.user_ns)
    with pytest.raises(MagicError, match=message.replace("?", r"\?")):
        run(shell, f"%onnx {options.format(path=path)}")
    assert {name for name in shell.user_ns if not name.startswith("_")} <= names


def test_names_and_shapes() -> None:
    assert [name_of(each) for each in ("a/b-c.onnx", "9.onnx", "if.onnx", ".onnx")] == [
        "b_c",
        "_9",
        "if_",
        "model",
    ]
    assert parse_shapes(["x=1,n", "a=b=(2,)"]) == {"x": (1, "n"), "a=b": (2,)}


def test_completion(path: Path) -> None:
    (path.parent / "folder").mkdir()
    (path.parent / "text.txt").touch()
    assert complete_path(f"{path.parent}/") == [f"{path.parent}/folder/", str(path)]
    assert complete_path(f"{path.parent}/my") == [str(path)]
    assert "graph" in (complete_onnx(f"%onnx {path} --show gr") or ())
    assert "--shape" in (complete_onnx(f"%onnx {path} --sh") or ())
