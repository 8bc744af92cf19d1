"""Arithmetic on the names of dimensions, judged by Python's own arithmetic on the values of the names."""

from __future__ import annotations

import random
import re

import pytest

from nnmagic.relay.polynomials import (
    NoPolynomialError,
    constant,
    evaluate,
    is_nonnegative,
    maximum,
    minimum,
    names,
    polynomial,
    positive_part,
    solution,
)


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


@pytest.mark.full
def test_any_expression_means_what_it_means_in_python() -> None:
    rng = random.Random(7)
    compared = 0
    for _ in range(3000):
        text = _expression(rng, rng.choice([1, 2, 3, 4]))
        try:
            result = polynomial(text)
        except NoPolynomialError:
            continue
        assert polynomial(str(result)) == result
        for _ in range(5):
            sizes = {"n": rng.randrange(9), "m": rng.randrange(1, 9), "k": rng.randrange(9)}
            expected = eval(text, {}, sizes)
            assert evaluate(result, sizes) == expected, (text, str(result), sizes)
            assert expected >= 0 or not is_nonnegative(result), (text, str(result), sizes)
            compared += 1
    assert compared > 10_000


@pytest.mark.parametrize(
    "text",
    [
        "n - n // 2",
        "2*n + m",
        "n // 3",
        "3*n - 2*(n // 2)",
        "n*m - n*m // 2",
        "2*(w // 2) - w + 1",
        "4*((n - 1) // 4) - n + 4",
    ],
)
def test_what_is_surely_not_negative(text: str) -> None:
    assert is_nonnegative(polynomial(text))


@pytest.mark.parametrize(
    "text", ["n - 1", "n - m", "1 - n // 2", "-n", "2*(w // 2) - w", "n // 2 - n // 3 - 1"]
)
def test_what_may_be_negative(text: str) -> None:
    assert not is_nonnegative(polynomial(text))


@pytest.mark.parametrize(
    ("text", "size", "known", "result"),
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
    text: str, size: str, known: dict[str, str], result: str | None
) -> None:
    values = {name: polynomial(each) for name, each in known.items()}
    solved = solution(polynomial(text), polynomial(size), "n", values)
    assert (None if solved is None else str(solved)) == result


@pytest.mark.parametrize(
    "text",
    [
        "n / 2",
        "n % 2",
        "f(n)",
        "max(n, 1)",
        "max(n, 0, m)",
        "n +",
        "1.5",
        "",
        "n // 0",
        "n.m",
        "+".join("abcdefghijklmnopqrstuvwxyz"),
    ],
)
def test_what_is_no_polynomial_is_refused(text: str) -> None:
    with pytest.raises(NoPolynomialError):
        polynomial(text)


def test_names() -> None:
    assert set(names(polynomial("2*n + m // k"))) == {"n", "m", "k"}


@pytest.mark.full
def test_minima_maxima_and_broadcasts_are_computed_right() -> None:
    rng = random.Random(11)
    names_ = {"n": polynomial("n"), "m": polynomial("m")}

    def expression(depth: int) -> str:
        if not depth:
            return rng.choice(["n", "m", str(rng.randrange(-4, 5))])
        left, right = expression(depth - 1), expression(depth - 1)
        match rng.randrange(7):
            case 0:
                return f"minimum({left}, {right})"
            case 1:
                return f"({left} // {rng.randrange(1, 4)})"
            case 2 | 3:
                return f"({left} {rng.choice('+-')} {right})"
            case 4:
                return f"positive_part({left})"
        return f"maximum({left}, {right})"

    functions = {
        "minimum": minimum,
        "maximum": maximum,
        "positive_part": positive_part,
        "number": constant,
    }
    on_ints = {"minimum": min, "maximum": max, "positive_part": lambda p: max(p, 0), "number": int}
    compared = proven = 0
    for _ in range(1500):
        text = re.sub(r"-?\d+", lambda found: f"number({found[0]})", expression(rng.randrange(1, 5)))
        try:
            result = eval(text, {**functions, **names_})
        except NoPolynomialError:
            continue
        assert polynomial(str(result)) == result
        for _ in range(8):
            sizes = {"n": rng.randrange(12), "m": rng.randrange(12)}
            expected = eval(text, {**on_ints, **sizes})
            assert evaluate(result, sizes) == expected, (text, str(result), sizes)
            assert expected >= 0 or not is_nonnegative(result), (text, str(result), sizes)
            compared += 1
        proven += is_nonnegative(result)
    assert compared > 8000
    assert proven > 200


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("maximum(n - 1, 0)", "n - minimum(n, 1)"),
        ("minimum(maximum(n - 1, 0), n)", "maximum(n, 1) - 1"),
        ("maximum(minimum(n + 1, 9), 1)", "minimum(n, 8) + 1"),
        ("positive_part(positive_part(positive_part(n - 2) - 1) - 3)", "positive_part(n - 6)"),
        ("maximum(2*n, 2*m)", "2*maximum(n, m)"),
        ("maximum(n, m) + minimum(n, m)", "n + m"),
    ],
)
def test_equal_sizes_have_one_form(left: str, right: str) -> None:
    namespace = {"minimum": minimum, "maximum": maximum, "positive_part": positive_part}
    names_ = {"n": polynomial("n"), "m": polynomial("m")}

    def value(text: str) -> object:
        return eval(
            re.sub(r"\d+", lambda found: f"number({found[0]})", text),
            {**namespace, **names_, "number": constant},
        )

    assert value(left) == value(right)
