"""Completion and help know every name that a cell can use, with what it does and an example."""

from __future__ import annotations

import ast
import math
import re
from pathlib import Path

import numpy as np
import pytest

from nnmagic.tinynn.builtins import BUILTINS, METHODS, MODULES
from nnmagic.tinynn.builtins.generators import GENERATOR_METHODS
from nnmagic.tinynn.editor.library_symbols import first_sentence, numpy_example, numpy_signature
from nnmagic.tinynn.editor.symbols import Symbol, meaning, searchable
from nnmagic.tinynn.operators.iteration import ITERATION

NOTEBOOK = {"np": np, "numpy": np, "math": math}
PAGE = (Path(__file__).parents[3] / "docs" / "language.md").read_text(encoding="utf-8")
#: Names that the page says a cell has not, and those of modules and classes.
REFUSED = {"np.random.normal", "np.random.seed", "x.resize", "x.item", "x.dtype.kind", "jax.Array"}
REFUSED |= {"np.lib.stride_tricks", "np.linalg.LinAlgError", "np.can_cast", "jax.lax", "jax.nn"}
REFUSED |= {"jax.scipy.special", "numpy.linalg", "np.ndarray"}
OWNERS = "np numpy math random lax jax special F x y z d s rows params i"
ON_THE_PAGE = sorted(
    name
    for name in set(re.findall(r"`([A-Za-z_]\w*(?:\.\w+)+)(?:\([^`]*\))?`", PAGE))
    if name.partition(".")[0] in OWNERS.split()
)


def described(path: str) -> Symbol | None:
    return meaning(tuple(path.split(".")), NOTEBOOK)


def well(symbol: Symbol | None) -> bool:
    """Whether a symbol says what a name does, and its example is Python."""
    if symbol is None or not re.match(r"[A-Z`].*[.?]`?$|.*:", symbol.summary, re.DOTALL):
        return False
    if symbol.example:
        ast.parse(f"{symbol.example} pass" if symbol.example.endswith(":") else symbol.example)
    return bool(symbol.example) == (symbol.parameters is not None)


def test_names_of_the_page_are_described() -> None:
    assert len(ON_THE_PAGE) > 90
    assert [name for name in ON_THE_PAGE if name not in REFUSED and described(name) is None] == []
    assert [name for name in REFUSED if name not in PAGE] == []


def test_every_function_and_method_is_described_with_an_example() -> None:
    known = {name: row for name, row in {**ITERATION, **BUILTINS}.items() if not row.is_refused}
    assert [name for name in known if not well(described(name))] == []
    methods = [f"x.{name}" for name, row in METHODS.items() if not row.is_refused]
    assert [
        name
        for name in (*methods, *(f"rng.{each}" for each in GENERATOR_METHODS))
        if not well(described(name))
    ] == []


@pytest.mark.parametrize("module", MODULES)
def test_the_functions_of_libraries_are_described(module: str) -> None:
    names = [f"{module}.{name}" for name, row in MODULES[module].items() if not row.is_refused]
    assert [name for name in names if not well(described(name))] == []


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("math.floor", "math.floor(x)"),
        ("lax.scan", "lax.scan(f, init, xs=None, length=None)"),
        ("np.fft.rfft", "np.fft.rfft(a, n=None, axis=-1, norm=None)"),
        ("np.add.outer", "add.outer(A, B)"),
        ("rows.append", "append(object)"),
        ("rng.normal", "normal(loc=0, scale=1, size=None)"),
        ("special.gammaln", "gammaln(x)"),
        ("callback", "callback(function, *arguments, result=None, effects=False)"),
    ],
)
def test_a_name_has_its_signature(name: str, signature: str) -> None:
    found = described(name)
    assert found is not None
    assert found.signature == signature


def test_an_example_is_numpy_s_own_or_a_call() -> None:
    assert numpy_example("numpy.fft.rfft").startswith("np.fft.rfft(")
    assert numpy_signature("numpy.fft.rfft").startswith("numpy.fft.rfft(a, n=None, axis=-1, norm=None")
    assert numpy_signature("numpy.nosuchthing") == "numpy.nosuchthing"
    assert first_sentence(dict) == "Return a new empty dictionary."
    examples = {
        name: symbol.example
        for name in ("softmax", "mgrid", "prange", "print")
        if (symbol := described(name))
    }
    assert examples == {
        "softmax": "y = softmax(x)",
        "mgrid": "y = mgrid[0:n, 0:m]",
        "prange": "for i in prange(start):",
        "print": "print(*args)",
    }


def test_a_search_finds_names_with_their_modules() -> None:
    names = searchable()
    assert {
        "exp",
        "nn.conv2d",
        "math.floor",
        "scan",
        "special.gammaln",
        "torch.cat",
        "random.key",
    } <= set(names)
    assert all(symbol.kind == "operator" or well(symbol) for symbol in names.values())
