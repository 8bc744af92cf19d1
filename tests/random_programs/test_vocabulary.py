"""The vocabulary has a form for each function, and its judge sees what is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnmagic.tinynn.builtins import BUILTINS, METHODS
from tests.random_programs.environment import Value
from tests.random_programs.families import graphs, relay, tensors, vocabulary
from tests.random_programs.families.forms import FUNCTIONS, WITHOUT_FORM, uncovered
from tests.random_programs.judges import judge, shorten
from tests.random_programs.program import Program, seeded
from tests.random_programs.relay_writer import RelayWriter
from tests.random_programs.shrink import shrink
from tests.random_programs.step_judge import compare_step, depends_on_zeros
from tests.random_programs.steps import Statement, Steps

_FORMS = vocabulary.PROFILE.forms


def test_each_function_has_a_form_or_a_reason_why_not() -> None:
    names = {*BUILTINS, *METHODS}
    assert not uncovered(names)
    assert {*FUNCTIONS, *WITHOUT_FORM} <= names | {"len"}
    assert not {*FUNCTIONS} & {*WITHOUT_FORM}


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("function", sorted(_FORMS))
def test_numpy_computes_each_form(function: str) -> None:
    for form in _FORMS[function]:
        tries = map(vocabulary.writer, range(200))
        assert any(each.step(function, form) and each.values for each in tries), form


def _graph_writer(numbers: str, seed: int) -> RelayWriter:
    return RelayWriter(graphs.profile(numbers, (1, 2, 3, 4, 8)), seeded("form", seed), {}, numbers)


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize(
    ("numbers", "function"), [(each, name) for each in graphs.FORMS for name in graphs.FORMS[each]]
)
def test_the_reference_computes_each_form_of_graphs(numbers: str, function: str) -> None:
    for form in graphs.FORMS[numbers][function]:
        assert any(_graph_writer(numbers, seed).step(function, form) for seed in range(120)), form


@pytest.mark.parametrize("function", relay.FORMS)
def test_the_reference_computes_each_form_for_real_relay(function: str) -> None:
    for form in relay.FORMS[function]:
        tries = (
            relay.RelayTextWriter(relay.PROFILE, seeded("form", seed), {}, "inexact") for seed in range(60)
        )
        assert any(each.step(function, form) for each in tries), form


def test_numpy_computes_each_form_of_tensors() -> None:
    for function, forms in tensors.PROFILE.forms.items():
        for form in forms:
            tries = map(tensors.writer, range(100))
            assert any(each.step(function, form) for each in tries), form


def test_programs_have_named_sizes_and_arrays_without_elements() -> None:
    programs = [vocabulary.write(seed) for seed in range(100)]
    sizes = {array.size for each in programs for array in each.calls[0]}  # type: ignore[attr-defined]
    assert {0, 1} < sizes
    assert sum('"n"' in each.source for each in programs) > 30
    dtypes = {param.kind for each in programs for param in each.steps.params}  # type: ignore[union-attr]
    assert len(dtypes) == 15


def _statement(function: str = "add", *, exact: bool = True) -> Statement:
    text = f"{function}(v0, v0)"
    return Statement("v1", text, function, ("v0",), (None,), exact, (1.0,), text)


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
    found = compare_step(result, expected, _statement(), 1.0)
    assert (found and found.split("\n")[0]) == difference


def test_inexact_results_are_compared_with_the_tolerance_of_their_dtype() -> None:
    statement, one = _statement("exp", exact=False), np.float32([1.0])
    assert compare_step(one + np.float32(1e-6), one, statement, 1.0) is None
    found = compare_step(one + np.float32(1e-3), one, statement, 1.0)
    assert found is not None
    assert found.startswith("values, beyond the tolerance\n")


def _program(*statements: tuple[str, str, tuple[str, ...], np.ndarray]) -> Program:
    """A program of one call over v0 = [1, 2], whose results are believed to be the given ones."""
    values = {"v0": Value("v0", "f32", (2,), (np.float32([1, 2]),))}
    made = []
    for name, text, operands, result in statements:
        made.append(Statement(name, text, text.split("(")[0], operands, (None,), True, (1.0,), text))
        values[name] = Value(name, "f32", result.shape, (result,))
    steps = Steps(vocabulary.CELL, (values["v0"],), tuple(made), values)
    return steps.program("vocabulary", 0, vocabulary.RULES)


def test_what_the_language_refuses_is_counted_and_the_rest_is_judged() -> None:
    x = np.float32([1, 2])
    verdict = judge(
        _program(
            ("v1", "bincount(v0)", ("v0",), x),
            ("v2", "add(v1, v0)", ("v1", "v0"), x),
            ("v3", "negative(v0)", ("v0",), -x),
        ),
        ["steps of numpy"],
    )
    assert not verdict.faults
    assert [what.split(":")[0] for outcome, what in verdict.counts if outcome == "refused"] == ["bincount"]
    assert [what for outcome, what in verdict.counts if outcome == "compared"] == ["negative"]


def test_a_fault_is_cut_down_to_the_statement_that_is_wrong() -> None:
    def believe(text: str, values: dict[str, object]) -> object:
        return np.float32([0]) if text == "square(v1)" else vocabulary.run(text, values)

    x = np.float32([1, 2])
    program = _program(
        ("v1", "negative(v0)", ("v0",), -x),
        ("v2", "square(v1)", ("v1",), x * x),
        ("v3", "add(v2, v2)", ("v2",), 2 * x * x),
    )
    assert program.steps is not None
    steps = replace(program.steps, language=replace(vocabulary.CELL, run=believe))
    (fault,) = judge(replace(program, steps=steps), ["steps of numpy"]).faults
    assert fault.kind == "square: the shape"
    expected = "def f(v1: Tensor[(2,), f32]):\n    v2 = square(v1)\n    return (v2,)\n"
    assert shrink(fault, ["steps of numpy"]).program.source == expected


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
    one = Statement("v1", text, function, ("v0",), (None,), True, (1.0,), text)
    sign = Statement("v2", "signbit(v1)", "signbit", ("v1",), (None,), True, (1.0,), "signbit(v1)")
    values = {"v0": Value("v0", "f32", (2,), (x,)), "v1": Value("v1", "f32", (2,), (x * 2,))}
    steps = Steps(vocabulary.CELL, (values["v0"],), (one, sign), values, fused=True)
    assert depends_on_zeros(steps, sign, (x,), np.array(signs), 1.0) == is_open


def test_messages_are_counted_without_what_differs() -> None:
    one = shorten('`+` of f32 and f64: Tensor[("n", 3), f32] has 3 rows (v12)')
    assert one == shorten("`+` of i8 and f16: Tensor[(2,), i8] has 17 rows (v3)")
