"""Compiles cells for the tests: to a program, to its untyped text, to its errors, or to run beside Python."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping

import numpy as np

import nnmagic
from nnmagic.diagnostics import Diagnostic, Source, TinyNNError
from nnmagic.relay.infer import erase_types
from nnmagic.tinynn import Program, compile_source


def program_of(text: str, namespace: Mapping[str, object] | None = None) -> Program:
    """The program of a cell whose first line is line 2, as in a notebook."""
    return compile_source(Source("cell", text, first_line=2), namespace or {})


def text_of(text: str, namespace: Mapping[str, object] | None = None) -> str:
    """The Relay text that a cell shows."""
    return str(erase_types(program_of(text, namespace).module))


def errors_of(text: str, namespace: Mapping[str, object] | None = None) -> tuple[Diagnostic, ...]:
    """The errors of a cell; none where it compiles."""
    try:
        program_of(text, namespace)
    except TinyNNError as error:
        return error.diagnostics
    return ()


def messages_of(text: str, namespace: Mapping[str, object] | None = None) -> list[tuple[int, int, int, str]]:
    """The errors of a cell as (line, column, end column, message)."""
    messages = []
    for error in errors_of(text, namespace):
        assert error.span is not None
        messages.append((error.span.line, error.span.column, error.span.end_column, error.message))
    return messages


def assert_as_in_python(text: str, *args: object, **namespace: object) -> None:
    """Assert that the last function of a text gives what Python's gives, by the engine ``numpy``."""
    scope: dict[str, object] = {"np": np, **namespace}
    exec(text, scope)
    name = re.findall(r"^def (\w+)", text, flags=re.MULTILINE)[-1]
    found = nnmagic.compile(text, namespace={"np": np, **namespace}, engine="numpy", cache=False)
    expected = scope[name](*copy.deepcopy(args))  # type: ignore[operator]
    assert_same(found(*copy.deepcopy(args)), expected)


def assert_same(got: object, expected: object) -> None:
    """Assert that a result is Python's: arrays and scalars of NumPy in place of its lists and numbers."""
    if isinstance(expected, dict):
        assert isinstance(got, dict)
        assert set(got) == set(expected)
        for key, value in expected.items():
            assert_same(got[key], value)
        return
    if isinstance(expected, tuple | list) and not isinstance(got, np.ndarray):
        assert isinstance(got, tuple | list)
        for one, other in zip(got, expected, strict=True):
            assert_same(one, other)
        return
    kind = type(expected.item() if isinstance(expected, np.generic) else expected)  # in lists of lists
    assert type(got) is kind or isinstance(got, np.ndarray | np.generic)
    rtol = 1e-12 if np.asarray(expected).dtype.kind == "f" else 0
    if isinstance(expected, str | None):
        assert got == expected
        return
    np.testing.assert_allclose(got, expected, rtol=rtol)
    if isinstance(expected, np.ndarray | np.generic):
        assert np.asarray(got).dtype == expected.dtype
