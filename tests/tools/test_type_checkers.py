"""What mypy, basedpyright and ruff find in files that use nnmagic: nothing, or the one mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.check_examples import python_files

pytestmark = pytest.mark.full
TOOLS = Path(sys.executable).parent

FILE = '''\
from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt

import nnmagic
from nnmagic import Array, Out, Tensor, f32, f64, vmap
from nnmagic.numpy import exp, grad, pi, relu, softmax, where, zeros

Rows = Annotated[Array, Tensor[("n", 3), f32]]
Weights = Annotated[Array, Tensor[(3,), f32]]


@nnmagic.function
def affine(x: Rows, w: Annotated[Array, Tensor[(3, 4), f32]], scale: float = 1.0) -> Array:
    """Scale a product."""
    y = x.astype(f32)
    if scale > 0:
        y = y[:, ::-1] + 1
    return relu(softmax(y @ w * scale + pi, axis=-1)) + zeros(4, f32)


@nnmagic.function(opt_level=2)
def loss(w: Weights) -> float:
    total = 0.0
    for i in range(3):
        total += w[i] ** 2
    return total + (w * w).sum()


@nnmagic.function
def scaled(a: f32, b: f64, n: int) -> f32:
    return where(a > 0, -a * 2, exp(a)) - n


@nnmagic.function
def slope(w: Weights) -> Array:
    return grad(loss)(w) + nnmagic.grad(loss)(w)


@nnmagic.function
def plain(x: npt.NDArray[np.float32], y: np.ndarray) -> np.ndarray:
    return exp(x * 2) + y


@nnmagic.function
def any_types(x: Tensor, y: Tensor) -> Tensor:
    return x @ y + 1


@nnmagic.function
def fills(x: Rows, out: Annotated[Array, Out[Tensor[("n", 3), f32]]]) -> None:
    out[...] = x * 2


result = affine(np.ones((5, 3), "float32"), np.ones((3, 4), "float32"))
print(result.shape, result[0].sum() + 1, np.sin(result).mean())
print(len(affine.relay_text), len(affine.stages["llvm"]), affine.cache_info.hit, plain.specializations)
value: float = loss(np.ones(3, "float32")) + 1.5
g = nnmagic.grad(loss)
print(g(np.ones(3, "float32")).shape, g.relay_text, slope(np.ones(3, "float32")), scaled(1.0, 2, 3))
affine.save("affine.nnm")
text = nnmagic.compile("def f(x: f32):\\n    return x\\n")
print(nnmagic.load("affine.nnm"), text.relay_text, text(1.0), vmap(loss).stages["relay"])
print(any_types(np.ones((2, 5), "float32"), result))
'''
#: A line, what replaces it, and the word that each type checker says.
MISTAKES = [
    ("value: float = loss(np.ones(3", "value: str = loss(np.ones(3", "str"),
    ("scaled(1.0, 2, 3)", 'scaled(1.0, 2, "3")', "int"),
    ("affine.save(", "affine.sav(", "sav"),
    ("axis=-1", "axes=-1", "axes"),
    ("import exp, grad,", "import exp, grade as grad,", "grade"),
]


def found(folder: Path, text: str, checker: str) -> str:
    """What a checker says of a file; empty if it is content."""
    (folder / "file.py").write_text(text, encoding="utf-8")
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}), encoding="utf-8")
    commands = {
        "mypy": ("mypy", "--strict", "--config-file=", "file.py"),
        "basedpyright": ("basedpyright", "--pythonpath", sys.executable, "file.py"),
        "ruff": ("ruff", "check", "--isolated", "--select", "E9,F", "file.py"),
        "pyflakes": ("pyflakes", "file.py"),
    }
    name, *arguments = commands[checker]
    if not (TOOLS / name).exists():
        pytest.skip(f"`make test-tools` installs {name}")
    done = subprocess.run([TOOLS / name, *arguments], cwd=folder, check=False, capture_output=True, text=True)
    return done.stdout if done.returncode else ""


@pytest.mark.parametrize("checker", ["mypy", "basedpyright", "ruff", "pyflakes"])
def test_a_file_has_no_errors(tmp_path: Path, checker: str) -> None:
    assert not found(tmp_path, FILE, checker)


@pytest.mark.parametrize("checker", ["mypy", "basedpyright"])
@pytest.mark.parametrize(("line", "wrong", "word"), MISTAKES, ids=[row[2] for row in MISTAKES])
def test_a_mistake_is_found(tmp_path: Path, checker: str, line: str, wrong: str, word: str) -> None:
    assert line in FILE
    assert word in found(tmp_path, FILE.replace(line, wrong), checker)


def test_the_documentation_has_such_files() -> None:
    files = python_files()
    assert any("@nnmagic.function" in text for name, text in files.items() if name.startswith("readme"))
    assert len(files) > 8
