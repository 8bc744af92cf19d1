"""Records from objects, structured arrays and data frames (functions/arguments/records)."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest

import nnmagic

CELL = """
class P:
    a: Tensor[("n",), f64]
    b: Tensor[("n",), f64]

def total(p: P):
    return p.a + p.b

def swap(p: P):
    return P(p.b, p.a * 2.0)
"""
A, B = np.array([1.0, 2.0, 4.0]), np.array([8.0, 16.0, 32.0])


def compiled(name: str) -> Any:
    text = CELL + f"\ndef chosen(p: P):\n    return {name}(p)\n"
    return nnmagic.compile(text, engine="numpy")


@attrs.define
class Slotted:
    a: object
    b: object


@attrs.frozen
class Frozen:
    a: object
    b: object = attrs.field(alias="other")


@dataclasses.dataclass
class Plain:
    a: object
    b: object


class Named(NamedTuple):
    a: object
    b: object


def structured(kind: type = np.ndarray) -> np.ndarray:
    made = np.zeros(3, [("b", "f8"), ("a", "f8")])
    made["a"], made["b"] = A, B
    return made.view(kind)


def pydantic_model() -> object:
    pydantic = pytest.importorskip("pydantic")
    settings = pydantic.ConfigDict(arbitrary_types_allowed=True)
    return pydantic.create_model("Model", __config__=settings, a=(np.ndarray, ...), b=(np.ndarray, ...))(
        a=A, b=B
    )


KINDS = {
    "dict": lambda: {"b": B, "a": A},
    "dataclass": lambda: Plain(A, B),
    "NamedTuple": lambda: Named(A, B),
    "attrs": lambda: Slotted(A, B),
    "frozen attrs": lambda: Frozen(A, other=B),
    "SimpleNamespace": lambda: SimpleNamespace(a=A, b=B),
    "structured array": structured,
    "recarray": lambda: structured(np.recarray),
    "pydantic": pydantic_model,
    "pandas": lambda: pytest.importorskip("pandas").DataFrame({"b": B, "a": A}, index=["x", "y", "z"]),
    "polars": lambda: pytest.importorskip("polars").DataFrame({"b": B, "a": A}),
}


def field(value: Any, name: str) -> np.ndarray:
    by_name = isinstance(value, dict | np.ndarray) or hasattr(value, "columns")
    return np.asarray(value[name] if by_name else getattr(value, name))


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_each_kind_is_taken_and_given_back(make) -> None:
    value = make()
    np.testing.assert_array_equal(compiled("total")(value), A + B)
    swapped = compiled("swap")(value)
    assert type(swapped) is type(value)
    np.testing.assert_array_equal(field(swapped, "a"), B)
    np.testing.assert_array_equal(field(swapped, "b"), 2 * A)
    np.testing.assert_array_equal(field(value, "a"), A)


def test_a_data_frame_keeps_its_index() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": A, "b": B}, index=["x", "y", "z"])
    assert list(compiled("swap")(frame).index) == ["x", "y", "z"]


def test_a_row_of_a_structured_array_and_arrays_inside() -> None:
    f = nnmagic.compile(
        "class Body:\n    mass: f64\n    place: Tensor[(3,), f64]\n"
        "def f(body: Body, by: f64):\n    return Body(body.mass * by, body.place + by)",
        engine="numpy",
    )
    bodies = np.zeros(2, [("mass", "f8"), ("place", "f8", 3)])
    bodies["mass"] = [1, 2]
    moved = f(bodies[1], 3.0)
    assert type(moved) is np.void
    assert moved["mass"] == 6.0
    np.testing.assert_array_equal(moved["place"], [3, 3, 3])


def test_a_structured_array_takes_the_result() -> None:
    out = np.zeros(3, [("a", "f8"), ("b", "f8")])
    assert compiled("swap")(structured(), out=out) is out
    np.testing.assert_array_equal(out["b"], 2 * A)


REFUSED = {
    "a field is missing": (lambda: SimpleNamespace(a=A), "argument 'p' has no field 'b'"),
    "a field is unknown": (lambda: {"a": A, "b": B, "c": B}, "P has no field 'c'"),
    "a column is unknown": (lambda: np.zeros(3, [("a", "f8"), ("b", "f8"), ("bb", "f8")]), "no field 'bb'"),
    "a dtype": (
        lambda: np.zeros(3, [("a", "f4"), ("b", "f8")]),
        r"'p'.a must be Tensor.* not an array of float32",
    ),
    "an array": (lambda: A, "must be a P, or have its fields: a, b, not an? ndarray; give a dictionary"),
    "a class": (lambda: Slotted, "must be a P, or have its fields: a, b"),
    "a number": (lambda: 3, "must be a P, or have its fields: a, b, not an int"),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_named(make, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        compiled("total")(make())
