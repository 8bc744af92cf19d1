"""Random cells over the whole vocabulary: every statement gives what NumPy gives for the same operands.

``make fuzz`` searches for longer; ``python -m tests.tinynn.random_vocabulary SEED 1`` judges one cell again.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from nnmagic.tinynn.builtins import BUILTINS, METHODS
from tests.suites import FULL
from tests.tinynn.random_vocabulary.forms import FUNCTIONS, SYNTAX, WITHOUT_FORM, uncovered
from tests.tinynn.random_vocabulary.generator import Generator, program
from tests.tinynn.random_vocabulary.judge import compare, depends_on_zeros, judge, minimal, shorten
from tests.tinynn.random_vocabulary.program import Program, Statement, Value
from tests.tinynn.random_vocabulary.search import search
from tests.tinynn.random_vocabulary.special_forms import HELPED

_PROGRAMS = 80 if FULL else 24
_FORMS = {**FUNCTIONS, **SYNTAX, **HELPED}


def test_each_function_has_a_form_or_a_reason_why_not() -> None:
    vocabulary = {*BUILTINS, *METHODS}
    assert not uncovered(vocabulary)
    assert {*FUNCTIONS, *WITHOUT_FORM} <= vocabulary | {"len"}
    assert not {*FUNCTIONS} & {*WITHOUT_FORM}


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("function", sorted(_FORMS))
def test_numpy_computes_each_form(function: str) -> None:
    for form in _FORMS[function]:
        tries = (Generator(random.Random(seed)) for seed in range(200))
        assert any(each.write(function, form) and each.values for each in tries), form


def test_a_seed_always_gives_the_same_program() -> None:
    for seed in range(20):
        first, second = program(seed), program(seed)
        assert first.source == second.source
        for call in range(first.calls):
            for one, other in zip(first.arguments(call), second.arguments(call), strict=True):
                np.testing.assert_array_equal(one, other)


def test_programs_have_named_sizes_and_arrays_without_elements() -> None:
    programs = [program(seed) for seed in range(100)]
    sizes = {array.size for each in programs for array in each.arguments(0)}
    assert {0, 1} < sizes
    assert sum('"n"' in each.source for each in programs) > 30
    dtypes = {param.dtype.name for each in programs for param in each.params}
    assert len(dtypes) == 15


def _statement(function: str = "add", *, exact: bool = True) -> Statement:
    return Statement("v1", f"{function}(v0, v0)", function, ("v0",), (None,), exact, (1.0,))


@pytest.mark.parametrize(
    ("result", "expected", "difference"),
    [
        (np.zeros(2, np.float32), np.zeros((2, 1), np.float32), "the shape"),
        (np.zeros(2, np.float32), np.zeros(2), "the dtype"),
        (np.float32([0.0]), np.float32([-0.0]), "the sign of zero"),
        (np.float32([np.nan]), np.float32([1.0]), "values"),
        (np.int8([1]), np.int8([2]), "values"),
        (np.float32([np.nan, -0.0]), np.float32([np.nan, -0.0]), None),
        ((np.zeros(2),), (np.zeros(2), np.zeros(2)), "the number of results"),
    ],
)
def test_a_difference_is_seen(result: object, expected: object, difference: str | None) -> None:
    found = compare(result, expected, _statement(), 1.0)
    assert (found and found.split("\n")[0]) == difference


def test_inexact_results_are_compared_with_the_tolerance_of_their_dtype() -> None:
    statement, one = _statement("exp", exact=False), np.float32([1.0])
    assert compare(one + np.float32(1e-6), one, statement, 1.0) is None
    assert compare(one + np.float32(1e-3), one, statement, 1.0) == "values, beyond the tolerance\n"


def _program(*statements: tuple[str, str, tuple[str, ...], np.ndarray]) -> Program:
    """A program of one call over v0 = [1, 2], whose results are believed to be the given ones."""
    values = {"v0": Value("v0", (np.float32([1, 2]),), (2,), True)}
    made = []
    for name, text, operands, result in statements:
        made.append(Statement(name, text, text.split("(")[0], operands, (None,), True, (1.0,)))
        values[name] = Value(name, (result,), result.shape, True)
    return Program((values["v0"],), tuple(made), values, 1)


def test_what_the_language_refuses_is_counted_and_the_rest_is_judged() -> None:
    x = np.float32([1, 2])
    verdict = judge(
        _program(
            ("v1", "bincount(v0)", ("v0",), x),
            ("v2", "add(v1, v0)", ("v1", "v0"), x),
            ("v3", "negative(v0)", ("v0",), -x),
        )
    )
    assert not verdict.faults
    assert [function for function, _ in verdict.refusals] == ["bincount"]
    assert dict(verdict.compared) == {"negative": 1}


def test_a_fault_is_cut_down_to_the_statement_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.tinynn.random_vocabulary import judge as judging

    def believe(text: str, values: dict[str, object]) -> object:
        return np.float32([0]) if text == "square(v1)" else run(text, values)

    run = judging.run
    monkeypatch.setattr(judging, "run", believe)
    x = np.float32([1, 2])
    verdict = judge(
        _program(
            ("v1", "negative(v0)", ("v0",), -x),
            ("v2", "square(v1)", ("v1",), x * x),
            ("v3", "add(v2, v2)", ("v2",), 2 * x * x),
        )
    )
    (fault,) = verdict.faults
    assert fault.signature == "square: the shape"
    expected = "def f(v1: Tensor[(2,), f32]):\n    v2 = square(v1)\n    return (v2,)\n"
    assert minimal(fault).program.source == expected


@pytest.mark.parametrize(
    ("function", "text", "signs", "is_open"),
    [
        ("max", "v0.max(initial=0)", True, True),
        ("max", "v0.max(initial=0)", False, True),
        ("multiply", "v0 * 2", [False, True], False),
    ],
)
def test_a_fused_sign_of_a_zero_is_open_only_where_numpy_leaves_it_open(
    function: str, text: str, signs: object, is_open: bool
) -> None:
    x = np.array([-0.0, -1.0], np.float32)
    one = Statement("v1", text, function, ("v0",), (None,), True, (1.0,))
    sign = Statement("v2", "signbit(v1)", "signbit", ("v1",), (None,), True, (1.0,))
    values = {"v0": Value("v0", (x,), (2,), True), "v1": Value("v1", (x * 2,), (2,), True)}
    cell = Program((values["v0"],), (one, sign), values, 1, fused=True)
    assert depends_on_zeros(cell, sign, (x,), np.array(signs), 1.0) == is_open


def test_messages_are_counted_without_what_differs() -> None:
    one = shorten('`+` of f32 and f64: Tensor[("n", 3), f32] has 3 rows (v12)')
    assert one == shorten("`+` of i8 and f16: Tensor[(2,), i8] has 17 rows (v3)")


@pytest.mark.full
@pytest.mark.timeout(900)
def test_random_cells_compute_what_numpy_computes() -> None:
    report = search(0, _PROGRAMS)
    assert not report.shown, "\n\n".join(report.shown.values())
    assert report.programs == _PROGRAMS
    assert len(report.compared) > 3 * _PROGRAMS
