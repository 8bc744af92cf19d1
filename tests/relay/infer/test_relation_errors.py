"""Test that an operator's refusal carries what is to blame as data, not only as words."""

from __future__ import annotations

import pytest

from nnmagic.relay.ops import OPERATORS, RelationError
from nnmagic.relay.ops.notation import RELAY, Notation
from nnmagic.relay.types import AnyDim, TensorType, TupleType, Type

VECTOR, MATRIX = TensorType((3,), "float32"), TensorType((2, 3), "float32")
IMAGE = TensorType((1, 2, 8, 8), "float32")
BRIEF = Notation(lambda type_: "a type", lambda shape: "a shape", lambda dim: "a size", str.upper)

REFUSED: list[tuple[str, list[Type], dict[str, object], tuple[str, ...], tuple[int, ...]]] = [
    ("squeeze", [MATRIX], {"axis": [0]}, ("axis",), (0,)),
    ("transpose", [MATRIX], {"axes": [0, 5]}, ("axes",), (0,)),
    ("reshape", [MATRIX], {"newshape": [4, 2]}, ("newshape",), (0,)),
    ("layout_transform", [IMAGE], {"src_layout": "NCHW", "dst_layout": "NCDHW"}, ("dst_layout",), (0,)),
    ("layout_transform", [IMAGE], {"src_layout": "NCH", "dst_layout": "NHC"}, ("src_layout",), (0,)),
    ("image.resize2d", [IMAGE], {"size": [4, 4], "layout": "NCDHW"}, ("layout",), ()),
    ("nn.max_pool2d", [IMAGE], {"pool_size": [2, 2], "strides": [0, 0]}, ("strides",), ()),
    ("nn.upsampling", [IMAGE], {"scale_h": 1.0, "scale_w": -1.0}, ("scale_w",), ()),
    ("strided_slice", [MATRIX], {"begin": [0], "end": [1], "strides": [0]}, ("strides",), ()),
    ("strided_slice", [VECTOR], {"begin": [0, 0], "end": [1], "strides": [1]}, ("begin",), (0,)),
    ("concatenate", [TupleType((VECTOR, MATRIX))], {"axis": 0}, (), (0,)),
    ("add", [MATRIX, TensorType((4,), "float32")], {}, (), (0, 1)),
]


def refuse(name: str, types: list[Type], attrs: dict[str, object]) -> RelationError:
    operator = OPERATORS[name]
    complete = operator.complete_attrs(attrs, from_call=True)
    with pytest.raises(RelationError) as caught:
        operator.result_type(types, complete)
    return caught.value


@pytest.mark.parametrize(("name", "types", "attrs", "blamed", "operands"), REFUSED)
def test_an_error_names_the_attributes_and_operands_to_blame(
    name: str,
    types: list[Type],
    attrs: dict[str, object],
    blamed: tuple[str, ...],
    operands: tuple[int, ...],
) -> None:
    error = refuse(name, types, attrs)
    assert (error.attrs, error.operands) == (blamed, operands)
    assert error.message.startswith(f"{name}: ")


def test_a_message_is_formatted_in_a_notation() -> None:
    error = refuse("add", [MATRIX, TensorType((3,), "int8")], {})
    assert str(error) == error.message == error.message_in(RELAY) == "add: the dtypes float32 and int8 differ"
    assert error.message_in(BRIEF) == "add: the dtypes FLOAT32 and INT8 differ"
    error = refuse("reshape", [MATRIX], {"newshape": [4, 2]})
    assert error.message_in(RELAY) == "reshape: a tensor of shape (2, 3) has 6 elements, shape (4, 2) has 8"
    assert error.message_in(BRIEF) == "reshape: a tensor of shape a shape has 6 elements, shape a shape has 8"
    error = refuse("nn.batch_flatten", [TupleType((VECTOR, MATRIX))], {})
    assert error.message_in(RELAY).endswith("found (Tensor[(3), float32], Tensor[(2, 3), float32])")
    assert error.message_in(BRIEF) == "nn.batch_flatten: expected a tensor, found a type"


def test_several_types_and_dtypes_are_joined() -> None:
    values = {"types": (VECTOR, TensorType((AnyDim("n"),), "int8")), "dtypes": ("int8", "bool"), "n": 2}
    template = "{types:types}; {dtypes:dtype}; {dtypes:dtype or}; {n} {n:dim}"
    assert RELAY.format(template, values) == (
        "Tensor[(3), float32], Tensor[(?), int8]; int8, bool; int8 or bool; 2 2"
    )
    assert RELAY.format("{as it is}", {}) == "{as it is}"
