"""Names whose values nobody reads are not carried through loops and branches; the others are."""

import inspect

import numpy as np
import pytest

import nnmagic


def temporaries_of_two_loops(x, n):
    total = 0.0
    row = x[0] * 2.0
    total += row.sum()
    for i in range(1, n):
        row = x[i, :2]
        total += row.sum() * i
    for i in range(n):
        row = x[i, 1:]
        total -= row.prod()
    row = x.sum()
    return total + row


def values_after_a_loop(x, n):
    last = 0.0
    for i in range(n):
        last = x[i, 0]
    return last * 2.0 + x[0, 0]


def values_of_the_round_before(x, n):
    before, total = 0.0, 0.0
    for i in range(n):
        total += before
        before = x[i, 0]
    return total


def a_name_that_one_branch_assigns(x, n):
    y, total = 1.0, 0.0
    for i in range(n):
        if x[i, 0] > 0:
            y = x[i, 1]
        total += y
        y = y * 0.5
    return total


def a_break_before_the_assignment(x, n):
    y = 7.0
    for i in range(n):
        if x[i, 0] > 0.2:
            if x[i, 1] > 0.5:  # noqa: SIM108
                y = x[i, 1]
            else:
                y = x[i, 2]
            break
        y = x[i, 0] - 1.0
    return y


def a_continue_before_the_assignment(x, n):
    y, total = 3.0, 0.0
    for i in range(n):
        if x[i, 0] > 0:
            continue
        y = x[i, 1]
        total += y
    return total


def a_function_that_reads_the_name(x, n):
    y = x[0, 0]

    def twice():
        return y * 2.0

    total = 0.0
    for i in range(n):
        total += twice()
        y = x[i, 1]
    total = total + twice()
    y = 0.0
    return total + twice()


def the_index_of_a_loop(x, n):
    i = 5
    for i in range(n):
        x = x + i
    return x[0, 0] + i


def a_tuple_of_targets(x, n):
    i, row, total = 0, x[0], 0.0
    for i, row in enumerate(x):
        row = row * 2.0  # noqa: PLW2901
        total += row.sum() + i
    return total + i


def an_else(x, n):
    y = 1.0
    for i in range(n):
        if x[i, 0] > 5:
            y = 2.0
            break
        y = 3.0
    else:
        y = y + 4.0
    return y + x[0, 0]


def a_while_loop_inside(x, n):
    i, total, value = 0, 0.0, x[0, 0]
    while i < n:
        value = x[i, 0]
        k = 0
        while value < 2.0:
            value = abs(value) + 0.7
            k = k + 1
        total += value + k
        i += 1
    return total


def an_assertion_between(x, n):
    y = 1.0
    for i in range(n):
        assert x[i, 0] < 100
        y = x[i, 0]
    return y


def replaced_elements(x, n):
    y = x[0] * 1.0
    z = x[1] * 1.0
    for i in range(n):
        y = x[i] * 2.0
        y[0] = 0.0
        z = z + y
    return z


PROGRAMS = [
    temporaries_of_two_loops,
    values_after_a_loop,
    values_of_the_round_before,
    a_name_that_one_branch_assigns,
    a_break_before_the_assignment,
    a_continue_before_the_assignment,
    a_function_that_reads_the_name,
    the_index_of_a_loop,
    a_tuple_of_targets,
    an_else,
    a_while_loop_inside,
    an_assertion_between,
    replaced_elements,
]


@pytest.mark.parametrize("rows", ['"n"', "4"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs_compute_what_python_computes(program, rows):
    head, body = inspect.getsource(program).split("\n", 1)
    assert head.endswith("(x, n):")
    text = f"def {program.__name__}(x: Tensor[({rows}, 3), f64], n: i64):\n{body}"
    compiled = nnmagic.compile(text, cache=False)
    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=(4, 3))
        np.testing.assert_allclose(compiled(x, 4), program(x, 4), rtol=1e-12)


def parameters_of_loops(text):
    printed = str(nnmagic.compile(text, cache=False).relay)
    return [line.split("= fn (")[1].split(") ->")[0] for line in printed.splitlines() if "_loop: fn" in line]


def test_a_temporary_is_not_carried():
    (parameters,) = parameters_of_loops(
        """
def f(x: Tensor[("n", 3), f64]):
    row = x[0] * 2.0
    total = row.sum()
    for i in range(len(x)):
        row = x[i, :2]
        total += row.sum()
    row = x[0]
    return total, row
"""
    )
    assert "%total" in parameters
    assert "%row" not in parameters


def test_a_name_of_another_type_in_each_loop_is_no_conflict():
    text = """
def f(x: Tensor[("n", 3), f64]):
    y = 0
    for i in range(len(x)):
        y = x[i].sum()
        x = x + y
    y = (x, x)
    for i in range(len(x)):
        y = len(x)
        x = x * y
    return x
"""
    x = expected = np.random.default_rng(0).normal(size=(4, 3))
    for i in range(4):
        expected = expected + expected[i].sum()
    np.testing.assert_allclose(nnmagic.compile(text, cache=False)(x), expected * 4.0**4, rtol=1e-12)
