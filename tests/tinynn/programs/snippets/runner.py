"""Runs one snippet: against the Python twin, or against the words and the span of its refusal."""

from __future__ import annotations

import re
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nnmagic
from nnmagic.relay.values import AdtValue
from tests.tinynn.cases import errors_of
from tests.tinynn.programs.snippets.arguments import arguments_of
from tests.tinynn.programs.snippets.cases import Accepted, Case, Fails, Refused
from tests.tinynn.python_twin import plain, twin

#: How far a float may be from the twin's, relative to the largest of its tensor.
RTOL = {
    np.dtype(np.float64): 1e-12,
    np.dtype(np.float32): 1e-5,
    np.dtype(np.float16): 4e-3,
    np.dtype(ml_dtypes.bfloat16): 3e-2,
}


def run(case: Case) -> None:
    """Raises AssertionError where the case is not as it says."""
    match case:
        case Accepted():
            _check_accepted(case)
        case Refused():
            _check_refused(case)
        case Fails():
            _fails(case)


def _check_accepted(case: Accepted) -> None:
    compiled = _compile(case)
    python = twin(case.source, case.namespace)
    for number, arguments in enumerate(arguments_of(case)):
        result = compiled(*arguments)
        expected = plain(python.call(python.last, *arguments))
        same(result, expected, f"call {number}", case.rtol)
    if case.everything:
        lines = python.never_ran()
        assert not lines, f"no call reaches the lines {lines} of the source: give other arguments"


def _compile(case: Accepted | Fails) -> nnmagic.CompiledFunction:
    """The last function; what a case is about may leave variables unused.

    What fails is machine code: the engine `numpy` has NumPy's messages.
    """
    machine_code: dict[str, Any] = {"engine": "auto"} if isinstance(case, Fails) else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nnmagic.TinyNNWarning)
        return nnmagic.compile(case.source, namespace=case.namespace, cache=False, **machine_code)


def same(result: object, expected: object, where: str, rtol: float | None) -> None:
    """Raises AssertionError where a result is not the twin's; ``where`` says which it is."""
    if isinstance(expected, AdtValue):
        assert isinstance(result, AdtValue), f"{where}: {result!r} is no {expected.constructor}"
        assert result.constructor == expected.constructor, where
        result, expected = result.fields, expected.fields
    if isinstance(expected, tuple):
        assert isinstance(result, tuple), f"{where}: {type(result).__name__} instead of a tuple"
        assert len(result) == len(expected), f"{where}: {len(result)} parts, not {len(expected)}"
        for index, (one, other) in enumerate(zip(result, expected, strict=True)):
            same(one, other, f"{where}[{index}]", rtol)
        return
    assert isinstance(expected, np.ndarray)
    kind = np.ndarray if expected.shape else np.generic
    assert isinstance(result, kind), f"{where}: {type(result).__name__} instead of {kind.__name__}"
    assert result.shape == expected.shape, f"{where}: shape {result.shape}, not {expected.shape}"
    assert result.dtype == expected.dtype, f"{where}: dtype {result.dtype}, not {expected.dtype}"
    if expected.dtype not in RTOL:
        np.testing.assert_array_equal(result, expected, where)
        return
    tolerance = RTOL[expected.dtype] if rtol is None else rtol
    one, other = np.asarray(result, np.float64), np.asarray(expected, np.float64)
    largest = np.max(np.abs(other), initial=0, where=np.isfinite(other))
    np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * float(largest), err_msg=where)


def _check_refused(case: Refused) -> None:
    compile(case.source, "<cell>", "exec")  # a cell that Python itself refuses belongs into test_errors.py
    errors = errors_of(case.source, case.namespace)
    assert errors, "the cell is taken"
    assert len(errors) == 1, "\n".join(error.render() for error in errors)
    (error,) = errors
    span = error.span
    assert span is not None
    assert error.message == case.message, error.render()
    assert (span.line, span.column) == (case.line, case.column), error.render()
    if case.end is not None:
        assert (span.end_line, span.end_column) == case.end, error.render()
    if case.hint is not None:
        assert error.hint == case.hint, error.render()


def _fails(case: Fails) -> None:
    compiled = _compile(case)
    python = twin(case.source, case.namespace)
    with pytest.raises(case.error):
        python.call(python.last, *case.arguments)
    with pytest.raises(case.error, match=f"^{re.escape(case.message)}(\n --> |$)"):  # the span may follow
        compiled(*case.arguments)
