"""Arithmetic on the names of dimensions, judged by Python's own arithmetic on the values of the names."""

from __future__ import annotations

import random

import pytest

from nnmagic.relay.polynomials import NoPolynomialError, evaluate, is_nonnegative, names, polynomial, solution


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("n*2", "2 * n"),
        ("1 + n", "n + 1"),
        ("m*n", "n*m"),
        ("(n + 1) * (n - 1)", "n**2 - 1"),
        ("(4*n + 4) // 4", "n + 1"),
        ("(n + 5) // 3", "(n + 2) // 3 + 1"),
        ("n // 2 // 3", "n // 6"),
        ("n*m // (2*n)", "m // 2"),
        ("(2*n + 1) // 4", "n // 2"),
        ("n - n", "0"),
        ("(n + m) * 3 // 3", "m + n"),
    ],
)
def test_equal_polynomials_have_one_text(one: str, other: str) -> None:
    assert str(polynomial(one)) == str(polynomial(other))


def _expression(rng: random.Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(["n", "m", "k", "1", "2", "3", "4"])
    left, right = _expression(rng, depth - 1), _expression(rng, depth - 1)
    operator = rng.choice(["+", "-", "*", "+", "*", "//"])
    if operator == "//":
        right = rng.choice(["1", "2", "3", "4", "6", "m", "(k + 1)"])
    return f"({left} {operator} {right})"


def test_any_expression_means_what_it_means_in_python() -> None:
    rng = random.Random(7)
    compared = 0
    for _ in range(3000):
        text = _expression(rng, rng.choice([1, 2, 3, 4]))
        try:
            found = polynomial(text)
        except NoPolynomialError:
            continue
        assert polynomial(str(found)) == found
        for _ in range(5):
            sizes = {"n": rng.randrange(9), "m": rng.randrange(1, 9), "k": rng.randrange(9)}
            expected = eval(text, {}, sizes)
            assert evaluate(found, sizes) == expected, (text, str(found), sizes)
            assert expected >= 0 or not is_nonnegative(found), (text, str(found), sizes)
            compared += 1
    assert compared > 10_000


@pytest.mark.parametrize("text", ["n - n // 2", "2*n + m", "n // 3", "3*n - 2*(n // 2)", "n*m - n*m // 2"])
def test_what_is_surely_not_negative(text: str) -> None:
    assert is_nonnegative(polynomial(text))


@pytest.mark.parametrize("text", ["n - 1", "n - m", "1 - n // 2", "-n"])
def test_what_may_be_negative(text: str) -> None:
    assert not is_nonnegative(polynomial(text))


@pytest.mark.parametrize(
    ("text", "size", "known", "found"),
    [
        ("2*n + 1", "7", {}, "3"),
        ("n*m", "12", {"m": "4"}, "3"),
        ("n*m", "k*m + 2*m", {"m": "m"}, "k + 2"),
        ("n - m", "k", {"m": "k"}, "2*k"),
        ("2*n + 1", "8", {}, None),
        ("n*n", "9", {}, None),
        ("n // 2", "9", {}, None),
        ("n*n*n - 3*n*n + 3*n", "1", {}, None),
    ],
)
def test_a_polynomial_is_solved_for_a_name(
    text: str, size: str, known: dict[str, str], found: str | None
) -> None:
    values = {name: polynomial(each) for name, each in known.items()}
    solved = solution(polynomial(text), polynomial(size), "n", values)
    assert (None if solved is None else str(solved)) == found


@pytest.mark.parametrize(
    "text",
    ["n / 2", "n % 2", "f(n)", "n +", "1.5", "", "n // 0", "n.m", "+".join("abcdefghijklmnopqrstuvwxyz")],
)
def test_what_is_no_polynomial_is_refused(text: str) -> None:
    with pytest.raises(NoPolynomialError):
        polynomial(text)


def test_names() -> None:
    assert set(names(polynomial("2*n + m // k"))) == {"n", "m", "k"}
