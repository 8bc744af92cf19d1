"""The IR as a user meets it: constants from Python and NumPy, and how nodes and types are shown."""

import ml_dtypes
import numpy as np
import pytest

from nnmagic import relay
from nnmagic.relay import Call, Function, Module, OpRef, TensorType, Tuple, Var, constant


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1, "int32"),
        (1.5, "float32"),
        (True, "bool"),
        ([1, 2], "int32"),
        ([[1.5], [2]], "float32"),
        ([True], "bool"),
        (np.float64(1.5), "float64"),
        (np.array([1, 2]), "int64"),
        (np.zeros((2, 0), ml_dtypes.bfloat16), "bfloat16"),
        (np.array([1, 2], ">i4"), "int32"),
    ],
)
def test_numbers_get_relays_default_dtype_and_arrays_keep_theirs(value, dtype):
    made = constant(value)
    assert made.tensor_type == TensorType(np.shape(value), dtype)
    np.testing.assert_array_equal(made.data, value)


def test_a_constant_is_a_copy_that_cannot_be_changed():
    given = np.arange(6).reshape(2, 3).T
    made = constant(given)
    given[0, 0] = 100
    assert made.data[0, 0] == 0
    assert made.data.flags.c_contiguous
    assert not made.data.flags.writeable


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (2**40, None, "1099511627776 does not fit int32"),
        (2**63, None, "9223372036854775808 does not fit int32"),
        (-1, "uint8", "-1 does not fit uint8"),
        ([7, 300], "uint8", "300 does not fit uint8"),
        (3.7, "int32", "3.7 does not fit int32"),
        (float("nan"), "int64", "nan does not fit int64"),
        (1e39, "float32", "1e+39 does not fit float32"),
        (np.float64(1e5), "float16", "100000.0 does not fit float16"),
        (2, "bool", "2 does not fit bool"),
    ],
)
def test_a_value_that_the_dtype_cannot_hold_is_refused(value, dtype, message):
    with pytest.raises(ValueError, match=f"^{message.replace('+', '[+]')}$"):
        constant(value, dtype)


def test_what_a_float_can_hold_is_rounded_and_infinity_stays():
    np.testing.assert_array_equal(
        constant([0.1, 16777217, -np.inf, np.nan]).data, np.float32([0.1, 16777216, -np.inf, np.nan])
    )
    assert constant(np.array([0.1]), "float16").data == np.float16(0.1)


@pytest.mark.parametrize(("value", "dtype"), [("text", None), (1j, None), (1, "float33"), (object(), None)])
def test_what_is_no_element_of_a_tensor_is_refused(value, dtype):
    with pytest.raises(TypeError, match=r"^a Relay constant cannot have the dtype "):
        constant(value, dtype)


def test_an_expression_is_shown_as_text_and_a_node_in_one_line():
    x = Var("x", TensorType((2, 3)))
    y = relay.call("add", [x, constant(1.0)])
    function = Function((x,), relay.call("nn.relu", [y]))
    assert str(y) == "free_var %x: Tensor[(2, 3), float32];\nadd(%x, 1f)"
    assert str(function) == "fn (%x: Tensor[(2, 3), float32]) {\n  %0 = add(%x, 1f);\n  nn.relu(%0)\n}"
    assert [repr(each) for each in (x, y, constant([1, 2]), y.op, function)] == [
        "<Var %x>",
        "<Call add>",
        "<Constant int32[2]>",
        "<OpRef add>",
        "<Function>",
    ]
    typed = relay.infer_type(Module({"main": function}))
    assert repr(typed.functions["main"].body) == "<Call nn.relu: Tensor[(2, 3), float32]>"
    assert repr(typed) == str(typed)
    assert str(relay.parse_expression("free_var %x; add(%x, 1f)")) == "free_var %x;\nadd(%x, 1f)"


def test_a_node_is_shown_whatever_stands_below_it():
    deep = wide = Var("x")
    for _ in range(10_000):
        deep = Call(OpRef("exp"), (deep,))
        wide = Tuple((wide, wide))
    assert repr(deep) == "<Call exp>"
    assert repr(wide) == "<Tuple>"
    assert len(str(wide).splitlines()) == 10_001


def test_a_type_is_shown_as_relay_writes_it():
    a = relay.TypeVar("A")
    listed = relay.TypeCall(relay.GlobalTypeVar("List"), (a,))
    assert str(TensorType((2, relay.ANY))) == "Tensor[(2, ?), float32]"
    assert str(relay.scalar_type("int8")) == "int8"
    assert str(relay.FuncType((a, listed), relay.RefType(a), (a,))) == "fn [A](A, List[A]) -> ref(A)"
    assert str(relay.TupleType((a,))) == "(A,)"
