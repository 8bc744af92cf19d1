"""Runs one snippet: against the Python twin, or against the words and the place of its refusal."""

from __future__ import annotations

import re
import warnings

import ml_dtypes
import numpy as np
import pytest

import nnmagic
from nnmagic.relay.values import AdtValue
from tests.tinynn.cases import errors_of
from tests.tinynn.python_twin import plain, twin
from tests.tinynn.snippets.arguments import arguments_of
from tests.tinynn.snippets.cases import Accepted, Case, Fails, Refused

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
            _accepted(case)
        case Refused():
            _refused(case)
        case Fails():
            _fails(case)


def _accepted(case: Accepted) -> None:
    compiled = _compiled(case)
    python = twin(case.source, case.namespace)
    for number, arguments in enumerate(arguments_of(case)):
        found = compiled(*arguments)
        expected = plain(python.call(python.last, *arguments))
        same(found, expected, f"call {number}", case.rtol)
    if case.everything:
        lines = python.never_ran()
        assert not lines, f"no call reaches the lines {lines} of the source: give other arguments"


def _compiled(case: Accepted | Fails) -> nnmagic.CompiledFunction:
    """The last function; what a case is about may leave variables unused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nnmagic.TinyNNWarning)
        return nnmagic.compile(case.source, namespace=case.namespace, cache=False)


def same(found: object, expected: object, where: str, rtol: float | None) -> None:
    """Raises AssertionError where a result is not the twin's; ``where`` says which it is."""
    if isinstance(expected, AdtValue):
        assert isinstance(found, AdtValue), f"{where}: {found!r} is no {expected.constructor}"
        assert found.constructor == expected.constructor, where
        found, expected = found.fields, expected.fields
    if isinstance(expected, tuple):
        assert isinstance(found, tuple), f"{where}: {type(found).__name__} instead of a tuple"
        assert len(found) == len(expected), f"{where}: {len(found)} parts, not {len(expected)}"
        for place, (one, other) in enumerate(zip(found, expected, strict=True)):
            same(one, other, f"{where}[{place}]", rtol)
        return
    assert isinstance(expected, np.ndarray)
    assert isinstance(found, np.ndarray), f"{where}: {type(found).__name__} instead of an array"
    assert found.shape == expected.shape, f"{where}: shape {found.shape}, not {expected.shape}"
    assert found.dtype == expected.dtype, f"{where}: dtype {found.dtype}, not {expected.dtype}"
    if expected.dtype not in RTOL:
        np.testing.assert_array_equal(found, expected, where)
        return
    tolerance = RTOL[expected.dtype] if rtol is None else rtol
    one, other = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    largest = np.max(np.abs(other), initial=0, where=np.isfinite(other))
    np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * float(largest), err_msg=where)


def _refused(case: Refused) -> None:
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
    compiled = _compiled(case)
    python = twin(case.source, case.namespace)
    with pytest.raises(case.error):
        python.call(python.last, *case.arguments)
    with pytest.raises(case.error, match=f"^{re.escape(case.message)}(\n --> |$)"):  # the place may follow
        compiled(*case.arguments)
