"""Annotations as Python objects."""

from __future__ import annotations

import pickle
import subprocess
import sys
import typing

import numpy as np
import pytest

from nnmagic.relay.types import ARRAY_DTYPES, AnyDim, TensorType
from nnmagic.tinynn.types.annotations import DTYPES, DType, Tensor, bool_, dtype_named, f32, i64
from tests.tinynn.cases import errors_of


def test_they_evaluate_compare_and_print() -> None:
    tensor = Tensor[(2, "n"), f32]
    assert tensor == Tensor[[2, "n"], f32]
    assert tensor != Tensor[(2, "m"), f32]
    assert hash(tensor) == hash(Tensor[(2, "n"), f32])
    assert repr(tensor) == "Tensor[(2, 'n'), f32]"
    assert repr(Tensor[(), i64]) == "Tensor[(), i64]"
    assert Tensor[3, f32] == Tensor[(3,), f32]
    assert repr(tuple[tensor, f32]) == "tuple[Tensor[(2, 'n'), f32], f32]"
    assert pickle.loads(pickle.dumps(tensor)) == tensor


def test_every_dtype_has_a_relay_and_a_numpy_dtype() -> None:
    assert {dtype.name for dtype in DTYPES.values()} == set(ARRAY_DTYPES)
    for short, dtype in DTYPES.items():
        assert repr(dtype) == short
        assert np.zeros(2, dtype=dtype).dtype == ARRAY_DTYPES[dtype.name]
        assert dtype_named(dtype.name) is dtype
        assert dtype_named(short) is dtype


def test_relay_types() -> None:
    assert Tensor[(2, "n"), f32].relay_type() == TensorType((2, AnyDim("n")), "float32")
    assert bool_.relay_type() == TensorType((), "bool")


@pytest.mark.parametrize(
    "name", ["and", "None", "True", "lambda", "n.m", "n m", "", "2n", "f(n)", "n[0]", "'n'"]
)
def test_what_is_no_name_is_no_dimension(name: str) -> None:
    with pytest.raises(ValueError, match="a dimension's name must be an identifier"):
        Tensor[(name,), f32]
    (error,) = errors_of(f"def f(x: Tensor[(2, {name!r}), f32]):\n    return x\n")
    assert error.message == f"{name!r} is no name of a dimension"
    assert error.span is not None
    assert (error.span.line, error.span.column) == (2, 21)
    if name.isidentifier():
        assert error.hint == f'it is a keyword of Python: write another, as in "{name}_"'


def test_names_are_compared_as_python_compares_them() -> None:
    ligature, letters = "\ufb01", "fi"
    assert Tensor[(ligature,), f32] == Tensor[(letters,), f32]
    assert Tensor[(f"2*{ligature}",), f32] == Tensor[(f"2*{letters}",), f32]
    assert Tensor[("é",), f32] == Tensor[("e\u0301",), f32]


def test_annotations_of_a_python_function() -> None:
    def f(x: Tensor[(2, "n"), f32], alpha: f32) -> Tensor[(2,), f32]: ...  # noqa: UP037, F821  # a dimension's name

    hints = typing.get_type_hints(f, localns={"Tensor": Tensor, "f32": f32})
    assert hints == {"x": Tensor[(2, "n"), f32], "alpha": f32, "return": Tensor[(2,), f32]}


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (f32, "Tensor takes a shape and a dtype, as in Tensor[(2, 3), f32]"),
        (((2, 3),), "Tensor takes a shape and a dtype, as in Tensor[(2, 3), f32]"),
        (((2, 3), "f23"), "the second part of Tensor[...] must be a dtype such as f32, not 'f23'"),
        (((2, 3), str), "the second part of Tensor[...] must be a dtype such as f32, not <class 'str'>"),
        (
            ((2, 3), np.dtype("M8[s]")),
            "the second part of Tensor[...] must be a dtype such as f32, not dtype('<M8[s]')",
        ),
        (
            ((2, ...), f32),
            "a tensor's rank must be known: name each dimension, as in Tensor[('n', 'm'), f32]",
        ),
        (((2.5,), f32), "a dimension must be an int or a name, not 2.5"),
        (((True,), f32), "a dimension must be an int or a name, not True"),
        (((-1,), f32), "a dimension cannot be -1"),
        ((("2*3",), f32), "the dimension '2*3' is the number 6: write it without quotes"),
        (
            (("n % 2",), f32),
            "a dimension's name must be an identifier or arithmetic on names, not 'n % 2': it may hold "
            "names, whole numbers, +, -, *, // and brackets",
        ),
        (
            (("max(n - 1, 0)",), f32),
            "the dimension 'max(n - 1, 0)' is a maximum: name it, and compute it where it is needed",
        ),
        ((2.5, f32), "a shape must be a tuple of ints and names, not 2.5"),
    ],
)
def test_what_is_no_type(item: object, message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        Tensor[item]
    assert str(caught.value) == message


def test_importing_them_imports_neither_numpy_nor_synr() -> None:
    code = (
        "import sys; import nnmagic.tinynn.types.annotations, nnmagic.tinynn;"
        "print(sorted({'numpy', 'synr', 'tvm', 'IPython'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_dtype_is_no_string() -> None:
    assert isinstance(f32, DType)
    assert f32 != "f32"


def test_a_dtype_converts_as_it_does_in_a_cell() -> None:
    assert f32(0.1) == np.float32(0.1)
    assert isinstance(f32(1), np.float32)
    assert i64(np.array([1.7, -1.7])).tolist() == [1, -1]
    with pytest.raises(TypeError, match="is a type; it does not make tensors"):
        Tensor[(2,), f32](np.zeros(2))
