"""Annotations as Python, NumPy and jaxtyping write them: what each allows, in source and as an object."""

from __future__ import annotations

import typing
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import pytest

import nnmagic
from nnmagic import InOut, Out, Tensor, f32, f64
from nnmagic.tinynn.types.foreign_types import ForeignTypeError, element_of, foreign_annotation

Real = TypeVar("Real", np.float32, np.float64)
Element = TypeVar("Element", bound=np.generic)
NAMES = {
    "Annotated": Annotated,
    "Any": Any,
    "Element": Element,
    "InOut": InOut,
    "Literal": Literal,
    "Out": Out,
    "Real": Real,
    "Tensor": Tensor,
    "f32": f32,
    "f64": f64,
    "nnmagic": nnmagic,
    "np": np,
    "npt": npt,
    "typing": typing,
}
A32, A64 = np.ones((2, 3), "float32"), np.ones((2, 3))
V32, I64, B = np.ones(3, "float32"), np.ones((2, 3), "int64"), np.ones((2, 3), bool)

#: An annotation, arguments that it allows and arguments that it does not.
NUMPY: list[tuple[str, list[Any], list[Any]]] = [
    ("np.ndarray", [A32, A64, V32, B], []),
    ("nnmagic.Array", [A32, V32, I64], []),
    ("npt.ArrayLike", [A32, 2.0, I64], []),
    ("npt.NDArray", [A32, I64], []),
    ("npt.NDArray[np.float32]", [A32, V32], [A64, I64]),
    ("npt.NDArray[np.float64]", [A64], [A32]),
    ("npt.NDArray[float]", [A64], [A32]),
    ("npt.NDArray[np.bool_]", [B], [A32]),
    ("npt.NDArray[np.floating]", [A32, A64], [I64, B]),
    ("npt.NDArray[np.floating[Any]]", [A32, A64], [I64]),
    ("npt.NDArray[np.integer]", [I64, I64.astype("uint8")], [A32, B]),
    ("npt.NDArray[np.signedinteger]", [I64], [I64.astype("uint8")]),
    ("npt.NDArray[np.number]", [A32, I64, A32.astype("complex64")], [B]),
    ("npt.NDArray[np.complexfloating]", [A32.astype("complex64")], [A32]),
    ("npt.NDArray[Any]", [A32, I64, B], []),
    ("np.ndarray[Any, np.dtype[np.float32]]", [A32, V32], [A64]),
    ("np.ndarray[tuple[int, int], np.dtype[np.float32]]", [A32], [V32, A64]),
    ("np.ndarray[tuple[int, Literal[3]], np.dtype[Any]]", [A32, I64], [A32[:, :2], V32]),
    ("np.ndarray[tuple[Any, ...], np.dtype[np.float32]]", [A32, V32], [A64]),
    ("np.floating", [np.float32(2), A64[0, 0]], [np.int64(2), V32]),
    ("np.float32", [np.float32(2)], [V32]),
    ("np.dtype('float32')", [np.float32(2)], [V32]),
    ("float", [2.0, np.float64(2)], [A64]),
    ("int", [2, np.int64(2)], [2.5]),
    ("complex", [2j, 2.0], [A64]),
    ("bool", [True], [B]),
    ("Annotated[np.ndarray, Tensor[('n', 3), f32]]", [A32], [A64, V32]),
    ("Annotated[Any, 'rows', Tensor[('n', 3), float]]", [A64], [A32]),
    ("Annotated[npt.NDArray[np.float32], 'metres']", [A32, V32], [A64]),
    ("Annotated[float, 'metres']", [2.0], [A64]),
    ("typing.Annotated[np.ndarray, Tensor[..., f32]]", [A32, V32], [A64]),
    ("Tensor[('n', 3), np.float32]", [A32], [A64]),
    ("Tensor[('n', 3), 'f4']", [A32], [A64]),
    ("Tensor[('n', 3), bool]", [B], [I64]),
    ("Tensor[..., int]", [I64, I64[0]], [A32]),
    ("Tensor[3, float]", [A64[0]], [A64]),
]
JAXTYPING: list[tuple[str, list[Any], list[Any]]] = [
    ("Float[np.ndarray, 'n 3']", [A32, A64], [V32, I64, A32[:, :2]]),
    ("Float32[np.ndarray, 'n 3']", [A32], [A64, V32]),
    ("Float[np.ndarray, '...']", [A32, V32], [I64]),
    ("Float[np.ndarray, '*batch 3']", [A32, V32, A32[None]], [A32[:, :2]]),
    ("Float[np.ndarray, '... 2 3']", [A32, A32[None]], [V32]),
    ("Float[np.ndarray, '_ 3']", [A32], [V32]),
    ("Float[np.ndarray, 'rows=2 n+1']", [A32], [V32]),
    ("Float[np.ndarray, '']", [np.float32(2), 2.0], [V32]),
    ("Int[np.ndarray, 'a b']", [I64], [A32, I64.astype("uint8")]),
    ("UInt8[np.ndarray, 'a b']", [I64.astype("uint8")], [I64]),
    ("Bool[np.ndarray, 'a b']", [B], [I64]),
    ("Num[np.ndarray, 'a b']", [A32, I64], [B]),
    ("Inexact[np.ndarray, 'a b']", [A32, A32.astype("complex64")], [I64]),
    ("Shaped[np.ndarray, 'a b']", [A32, I64, B], [V32]),
]


def compiled(annotation: str, namespace: dict[str, Any]) -> Any:
    source = f"def f(x: {annotation}):\n    return x\n"
    return nnmagic.compile(source, namespace=namespace, engine="numpy", cache=False)


def check(function: Any, allowed: list[Any], others: list[Any]) -> None:
    for argument in allowed:
        result = function(argument)
        np.testing.assert_array_equal(result, argument)
        if isinstance(argument, np.ndarray):
            assert result.dtype == argument.dtype
    for argument in others:
        with pytest.raises((TypeError, ValueError), match=r"f\(\) argument 'x' must be"):
            function(argument)


@pytest.mark.parametrize(("annotation", "allowed", "others"), NUMPY, ids=[row[0] for row in NUMPY])
def test_an_annotation_allows_what_it_says(annotation: str, allowed: list[Any], others: list[Any]) -> None:
    check(compiled(annotation, NAMES), allowed, others)
    alias = eval(annotation, dict(NAMES))  # the object that the notebook has under a name
    check(compiled("Alias", {"Alias": alias}), allowed, others)


@pytest.mark.parametrize(("annotation", "allowed", "others"), JAXTYPING, ids=[row[0] for row in JAXTYPING])
def test_an_annotation_of_jaxtyping(annotation: str, allowed: list[Any], others: list[Any]) -> None:
    jaxtyping = pytest.importorskip("jaxtyping")
    name = annotation.partition("[")[0]
    names = {**NAMES, name: getattr(jaxtyping, name)}
    check(compiled(annotation, names), allowed, others)
    check(compiled("Alias", {"Alias": eval(annotation, names)}), allowed, others)


def test_named_dimensions_of_jaxtyping_must_agree() -> None:
    jaxtyping = pytest.importorskip("jaxtyping")
    source = (
        "def f(x: Float[np.ndarray, 'n k'], y: Float[np.ndarray, 'k']) -> Float[np.ndarray, 'n']:\n"
        "    return x @ y\n"
    )
    names = {"np": np, "Float": jaxtyping.Float}
    f = nnmagic.compile(source, namespace=names, engine="numpy", cache=False)
    np.testing.assert_array_equal(f(A32, V32), A32 @ V32)
    assert f(A64, V32.astype(float)).dtype == "float64"
    with pytest.raises(ValueError, match="k"):
        f(A32, V32[:2])
    wrong = source.replace("'n']:", "'k']:")
    with pytest.raises(nnmagic.TinyNNError, match="is declared as"):
        nnmagic.compile(wrong, namespace=names, engine="numpy", cache=False)(A32, V32)


#: The annotation of a result, what the function returns, and the dtype of the result or the error.
RESULTS = [
    ("npt.NDArray[np.float32]", "x * 2", "float32"),
    ("npt.NDArray[np.float64]", "x * 2", "is declared as Tensor[..., f64], but is Tensor[(2, 3), f32]"),
    ("npt.NDArray[np.float32]", "np.zeros(3)", "float32"),
    ("np.ndarray", "x.sum()", "float32"),
    ("np.floating", "x.sum()", "float32"),
    ("np.floating", "x.sum(axis=0)", "is declared as Tensor[(), floating], but is Tensor[(3,), f32]"),
    ("np.ndarray[tuple[int], np.dtype[Any]]", "x.sum(axis=0)", "float32"),
    ("Annotated[np.ndarray, Tensor[(3,), f32]]", "x.sum(axis=0)", "float32"),
    ("Tensor", "x > 0", "bool"),
    ("float", "x.sum()", "float64"),
    ("float", "x.sum().astype(f64)", "float64"),
    ("float", "1", "float64"),
    ("float", "x.argmax()", "is declared as f64, but is i64"),
    ("float", "x", "is declared as f64, but is Tensor[(2, 3), f32]"),
    ("int", "x.astype('i4')[0, 0]", "int64"),
    ("int", "x.argmax()", "int64"),
    ("int", "x.sum()", "is declared as i64, but is f32"),
    ("complex", "x.sum()", "complex128"),
    ("bool", "x.sum() > 0", "bool"),
    ("np.float32", "x.sum()", "float32"),
    ("Any", "x.sum(axis=0)", "float32"),
    ("float | np.ndarray", "x.sum(axis=0)", "float32"),
]
#: The same of tuples, with the dtypes of the items.
TUPLES = [
    ("tuple[np.ndarray, np.ndarray]", "x, x.sum()", ["float32", "float32"]),
    ("tuple[float, float]", "x.sum(), 1", ["float64", "float64"]),
    ("tuple[npt.NDArray[np.float32], float]", "x, x.sum()", ["float32", "float64"]),
    ("tuple[int, tuple[Tensor, bool]]", "x.argmax(), (x, True)", ["int64", "float32", "bool"]),
    ("tuple[np.ndarray, float]", "x", "is declared as a tuple of 2, but is Tensor[(2, 3), f32]"),
    ("tuple[np.ndarray, np.float64]", "x, x.sum()", "f[1]` is declared as f64, but is f32"),
]


@pytest.mark.parametrize(("annotation", "result", "expected"), RESULTS)
def test_a_result_is_what_its_annotation_says(annotation: str, result: str, expected: str) -> None:
    source = f"def f(x: Tensor[(2, 3), f32]) -> {annotation}:\n    return {result}\n"
    if expected.startswith("is declared"):
        with pytest.raises(nnmagic.TinyNNError) as caught:
            nnmagic.compile(source, namespace=NAMES, engine="numpy", cache=False)
        assert expected in str(caught.value)
        return
    value = nnmagic.compile(source, namespace=NAMES, engine="numpy", cache=False)(A32)
    assert value.dtype == expected
    np.testing.assert_array_equal(value, eval(result, {"np": np, "x": A32, "f64": "f8"}))


@pytest.mark.parametrize(("annotation", "result", "expected"), TUPLES)
def test_items_of_a_result_are_what_the_annotation_says(
    annotation: str, result: str, expected: list[str] | str
) -> None:
    source = f"def f(x: Tensor[(2, 3), f32]) -> {annotation}:\n    return {result}\n"
    if isinstance(expected, str):
        with pytest.raises(nnmagic.TinyNNError) as caught:
            nnmagic.compile(source, namespace=NAMES, engine="numpy", cache=False)
        assert expected.replace("f[1]`", "the result of `f`[1]") in str(caught.value)
        return
    value = nnmagic.compile(source, namespace=NAMES, engine="numpy", cache=False)(A32)
    flat = [leaf for item in value for leaf in (item if isinstance(item, tuple) else (item,))]
    assert [leaf.dtype for leaf in flat] == expected


@pytest.mark.parametrize(
    ("annotation", "arguments"),
    [
        ("Any", [A32, 2.0, (A32, 1)]),
        ("np.ndarray | float", [A32, 2.0]),
        ("Tensor[('n', 3), f32] | None", [A32, None]),
        ("typing.Optional[float]", [2.0, None]),
        ("typing.Union[np.ndarray, float]", [A32, 2.0]),
        ("tuple[np.ndarray, float]", [(A32, 2.0)]),
    ],
)
def test_a_parameter_takes_what_a_union_allows(annotation: str, arguments: list[Any]) -> None:
    source = "def f(y: Tensor[(3,), f32], x: {0} = None):\n    return y if x is None else (y, x)\n"
    alias = eval(annotation, dict(NAMES))
    for names, written in ((NAMES, annotation), ({"Alias": alias}, "Alias")):
        text = source.format(written)
        if "tuple" in annotation and written == "Alias":
            continue
        function = nnmagic.compile(text, namespace=names, engine="numpy", cache=False)
        for argument in arguments:
            result = function(V32, argument)
            if argument is None:
                np.testing.assert_array_equal(result, V32)
            elif not isinstance(argument, tuple):
                np.testing.assert_array_equal(result[1], argument)


def test_a_result_on_several_paths_has_one_annotation() -> None:
    source = (
        "def f(x: Tensor[(3,), f32]) -> npt.NDArray[np.float32]:\n"
        "    if x.sum() > 0:\n        return x * 2\n    return np.zeros(3)\n"
    )
    function = nnmagic.compile(source, namespace=NAMES, engine="numpy", cache=False)
    assert function(V32).dtype == function(-V32).dtype == "float32"
    np.testing.assert_array_equal(function(-V32), [0, 0, 0])


def test_numbers_of_python_are_weak_as_in_numpy() -> None:
    def scaled(x: Tensor[(2, 3), f32], a: float, n: int) -> np.ndarray:
        half = a / 2
        return x * half + n

    function = nnmagic.compile(scaled, engine="numpy", cache=False)
    result = function(A32, 0.3, 2)
    assert result.dtype == scaled(A32, 0.3, 2).dtype == np.float32
    np.testing.assert_allclose(result, scaled(A32, 0.3, 2), rtol=1e-6)


def test_functions_with_numbers_of_python_call_each_other_and_themselves() -> None:
    source = """
def factorial(n: int) -> int:
    return 1 if n < 2 else n * factorial(n - 1)

def power(x: float, n: int) -> float:
    result = 1.0
    for _ in range(n):
        result = result * x
    return result

def f(x: float, n: int) -> complex:
    def twice(y: float) -> float:
        return y * 2
    return twice(power(x, n)) + factorial(n)
"""
    result = nnmagic.compile(source, engine="numpy", cache=False)(1.5, 4)
    assert result == 1.5**4 * 2 + 24
    assert result.dtype == "complex128"


def test_dtypes_of_python_and_numpy_inside_a_function() -> None:
    def f(x: Tensor[(2, 3), f32]):
        kind = np.dtype("i4")
        return (
            x.astype(float),
            x.astype("f4"),
            x.astype(np.dtype("float16")),
            x.astype(kind),
            np.zeros(2, dtype=int),
            np.ones(2, np.uint8),
            np.full(2, 1, "complex64"),
            x.astype(bool),
        )

    for got, expected in zip(nnmagic.compile(f, engine="numpy", cache=False)(A32), f(A32), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


def test_an_array_that_a_call_fills_is_annotated_for_type_checkers() -> None:
    source = (
        "def double(x: Annotated[np.ndarray, Tensor[('n',), f32]], "
        "out: Annotated[np.ndarray, Out[Tensor[('n',), f32]]]):\n    out[...] = x * 2\n"
    )
    filled = np.empty(3, "float32")
    nnmagic.compile(source, namespace=NAMES, engine="numpy", cache=False)(V32, filled)
    np.testing.assert_array_equal(filled, [2, 2, 2])


def test_metadata_of_other_libraries_is_left_to_them() -> None:
    def f(x: Annotated[float, Field(gt=0), ("a", unknown)]) -> float:  # noqa: F821  # names that no cell knows
        return x + 1

    assert nnmagic.compile(f, engine="numpy", cache=False)(2.0) == 3


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("npt.NDArray[np.object_]", "`np.object_` is the NumPy dtype object_, which a cell cannot use"),
        ("npt.NDArray[str]", "the elements of an array cannot be the function str"),
        ("np.ndarray[np.float32]", "`ndarray` is not subscripted like this"),
        ("Annotated[Tensor]", "`Annotated` is not subscripted like this"),
        ("npt.NDArray['float32']", "the elements of an array cannot be the string 'float32'"),
        ("Annotated[np.ndarray, Tensor[('n', 3), f33]]", "unknown name `f33`"),
    ],
)
def test_what_is_no_annotation(annotation: str, message: str) -> None:
    with pytest.raises(nnmagic.TinyNNError) as caught:
        compiled(annotation, NAMES)
    assert message in str(caught.value)


def test_what_the_elements_of_an_array_cannot_be() -> None:
    with pytest.raises(ForeignTypeError, match="object_"):
        element_of(np.object_)
    with pytest.raises(nnmagic.TinyNNError, match="`Alias` is the type of an array of `object_`"):
        compiled("Alias", {"Alias": npt.NDArray[np.object_]})
    assert foreign_annotation(3) is None
    assert repr(element_of(Real)) == "f32 | f64"
    assert element_of(Element) is None
    assert repr(element_of(np.float32 | np.int8)) == "f32 | i8"


def test_an_annotation_is_part_of_what_the_cache_knows() -> None:
    source = "def f(x: Alias):\n    return x * 2\n"
    for alias, argument in (
        (Annotated[np.ndarray, Tensor[(3,), f32]], V32),
        (Annotated[np.ndarray, Tensor[(3,), f64]], A64[0]),
    ):
        function = nnmagic.compile(source, namespace={"Alias": alias}, engine="numpy")
        assert function(argument).dtype == argument.dtype
        again = nnmagic.compile(source, namespace={"Alias": alias}, engine="numpy")
        assert again.cache_info.hit == "memory"


def test_annotations_of_a_file_are_read_with_and_without_postponed_evaluation(tmp_path: Any) -> None:
    body = (
        "import numpy as np\nimport numpy.typing as npt\nimport nnmagic\nfrom typing import Annotated\n"
        "from nnmagic import Tensor, f32\n\n"
        '@nnmagic.function(engine="numpy")\n'
        "def f(x: Annotated[np.ndarray, Tensor[(2, 3), f32]], y: npt.NDArray[np.float32], a: float, "
        "m: Tensor[(3,), bool]) -> np.ndarray:\n"
        "    return np.where(m, x * a, y.astype(np.float32))\n"
    )
    for number, first in enumerate(("", "from __future__ import annotations\n")):
        path = tmp_path / f"file{number}.py"
        path.write_text(first + body)
        names: dict[str, Any] = {}
        exec(compile(path.read_text(), str(path), "exec"), names)
        result = names["f"](A32, A32, 2.0, np.array([True, False, True]))
        np.testing.assert_array_equal(result, [[2, 1, 2]] * 2)


class Nosy:
    """A value of the notebook that notes which of its attributes are asked for."""

    asked: typing.ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        raise AttributeError(name)


def test_no_code_of_the_notebook_runs_to_read_an_annotation() -> None:
    with pytest.raises(nnmagic.TinyNNError, match="`nosy` is a Nosy, which a cell cannot use"):
        nnmagic.compile("def f(x: nosy):\n    return x\n", namespace={"nosy": Nosy()}, engine="numpy")
    assert Nosy.asked == []
