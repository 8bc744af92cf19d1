"""Type relations beyond the measurements: unknown dimensions, refusals, assumed types, NumPy as judge."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnmagic.relay.expr import constant
from nnmagic.relay.ops import OPERATORS, RelationError
from nnmagic.relay.types import ANY, AnyDim, Int64, TensorType, TupleType, VarDim

N, M = AnyDim("n"), AnyDim("m")


def tensor(*shape, dtype="float32"):
    return TensorType(shape, dtype)


def infer(name, *arg_types, **attrs):
    operator = OPERATORS[name]
    return operator.result_type(arg_types, operator.complete_attrs(attrs, from_call=True))


def fields(*types):
    return TupleType(types)


# --- labels of unknown dimensions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arg_types", "attrs", "shape"),
    [
        ("add", [tensor(N, 3), tensor(3)], {}, (N, 3)),
        ("add", [tensor(N, 3), tensor(N, 1)], {}, (N, 3)),
        ("add", [tensor(N), tensor(5)], {}, (5,)),
        ("add", [tensor(N), tensor(M)], {}, (ANY,)),
        ("equal", [tensor(N, 3), tensor()], {}, (N, 3)),
        ("where", [tensor(N, 1, dtype="bool"), tensor(3), tensor()], {}, (N, 3)),
        ("sum", [tensor(N, 3)], {"axis": 1}, (N,)),
        ("sum", [tensor(N, 3)], {"axis": 0, "keepdims": True}, (1, 3)),
        ("argmax", [tensor(N, 3)], {"axis": -1}, (N,)),
        ("cumsum", [tensor(N, 3)], {}, (ANY,)),
        ("nn.dense", [tensor(N, 3), tensor(4, 3)], {}, (N, 4)),
        ("nn.matmul", [tensor(3, N), tensor(3, M)], {"transpose_a": True}, (N, M)),
        ("nn.batch_matmul", [tensor(N, 2, 3), tensor(N, 4, 3)], {}, (N, 2, 4)),
        ("einsum", [fields(tensor(N, 3), tensor(3, M))], {"equation": "ij,jk->ik"}, (N, M)),
        ("nn.conv2d", [tensor(N, 3, 8, 8), tensor(4, 3, 3, 3)], {"padding": 1}, (N, 4, 8, 8)),
        ("nn.conv2d", [tensor(1, 3, N, M), tensor(4, 3, 3, 3)], {"padding": 1}, (1, 4, N, M)),
        ("nn.conv2d", [tensor(1, 3, N, 8), tensor(4, 3, 3, 3)], {}, (1, 4, ANY, 6)),
        ("nn.max_pool2d", [tensor(N, 3, 8, 8)], {"pool_size": 2, "strides": 2}, (N, 3, 4, 4)),
        ("nn.global_avg_pool2d", [tensor(N, 3, M, M)], {}, (N, 3, 1, 1)),
        ("nn.batch_flatten", [tensor(N, 3, 4)], {}, (N, 12)),
        ("reshape", [tensor(N, 3, 4)], {"newshape": (0, -1)}, (N, 12)),
        ("reshape", [tensor(N, 12)], {"newshape": (-1, 3, 4)}, (ANY, 3, 4)),
        ("reshape", [tensor(N, 3)], {"newshape": (-1, 3)}, (N, 3)),
        ("reshape", [tensor(N, 3)], {"newshape": (-1,)}, (ANY,)),
        ("reshape", [tensor(N)], {"newshape": (1, -1)}, (1, N)),
        ("reshape", [tensor(N, 3)], {"newshape": (-2, 1)}, (N, 3, 1)),
        ("reshape", [tensor(N, 3)], {"newshape": (-3,)}, (ANY,)),
        ("transpose", [tensor(N, 3, M)], {}, (M, 3, N)),
        ("squeeze", [tensor(N, 1)], {"axis": 1}, (N,)),
        ("expand_dims", [tensor(N)], {"axis": -1}, (N, 1)),
        ("concatenate", [fields(tensor(N, 3), tensor(N, 2))], {"axis": 1}, (N, 5)),
        ("concatenate", [fields(tensor(N, 3), tensor(N, 3))], {"axis": 0}, (ANY, 3)),
        ("stack", [fields(tensor(N), tensor(N))], {"axis": 0}, (2, N)),
        ("tile", [tensor(N, 3)], {"reps": (1, 2)}, (N, 6)),
        ("repeat", [tensor(N, 3)], {"repeats": 2, "axis": 0}, (ANY, 3)),
        ("take", [tensor(5, 3), tensor(N, dtype="int32")], {"axis": 0}, (N, 3)),
        ("gather", [tensor(N, 3), tensor(N, 2, dtype="int32")], {"axis": 1}, (N, 2)),
        ("strided_slice", [tensor(N, 5)], {"begin": [0], "end": [-1], "slice_mode": "size"}, (N, 5)),
        ("strided_slice", [tensor(N, 5)], {"begin": [1], "end": [3], "axes": [1]}, (N, 2)),
        ("strided_slice", [tensor(N)], {"begin": [1], "end": [3]}, (ANY,)),
        ("nn.pad", [tensor(N, 3), tensor()], {"pad_width": ((0, 0), (1, 1))}, (N, 5)),
        ("nn.softmax", [tensor(N, 3)], {}, (N, 3)),
        ("nn.layer_norm", [tensor(N, 3), tensor(3), tensor(3)], {}, (N, 3)),
        ("nn.bias_add", [tensor(N, 3), tensor(3)], {}, (N, 3)),
        (
            "one_hot",
            [tensor(N, dtype="int32"), tensor(), tensor()],
            {"depth": 4, "axis": -1, "dtype": "float32"},
            (N, 4),
        ),
        ("broadcast_to", [tensor(3)], {"shape": (N, 3)}, (N, 3)),
        ("zeros", [], {"shape": (N, 3), "dtype": "float32"}, (N, 3)),
        ("image.resize2d", [tensor(N, 3, M, M)], {"size": 4}, (N, 3, 4, 4)),
        (
            "layout_transform",
            [tensor(N, 8, 2, 2)],
            {"src_layout": "NCHW", "dst_layout": "NCHW4c"},
            (N, 2, 2, 2, 4),
        ),
    ],
)
def test_unknown_dimensions(name, arg_types, attrs, shape):
    """As Relay has them; what names say beyond that stands in test_polynomials.py."""
    assert without_names(infer(name, *arg_types, **attrs).shape) == without_names(shape)


def without_names(shape):
    return tuple(ANY if isinstance(dim, AnyDim) else dim for dim in shape)


def test_layout_transform_fills_up_an_axis_that_the_inner_part_does_not_divide():
    """Typed, and run with zeros in the rest, by real Relay."""
    result = infer("layout_transform", tensor(1, 3, 8, 8), src_layout="NCHW", dst_layout="NCHW2c")
    assert result.shape == (1, 2, 8, 8, 2)
    result = infer("layout_transform", tensor(1, 2, 8, 8, 2), src_layout="NCHW2c", dst_layout="NCHW3c")
    assert result.shape == (1, 2, 8, 8, 3)


def test_concatenate_is_unknown_where_one_operand_is_as_in_relay():
    result = infer("concatenate", fields(tensor(2, N), tensor(3, 4)), axis=0)
    assert result.shape == (5, N)  # printed as ?


def test_split_of_an_unknown_dimension():
    parts = infer("split", tensor(N, 4), indices_or_sections=2).fields
    assert [without_names(part.shape) for part in parts] == [(ANY, 4)] * 2


def test_symbolic_variables_are_equal_to_themselves_only():
    assert infer("add", tensor(VarDim("k")), tensor(VarDim("k"))).shape == (VarDim("k"),)
    with pytest.raises(RelationError, match="do not broadcast"):
        infer("add", tensor(VarDim("k")), tensor(VarDim("l")))


def test_64_bit_dimensions_stay_64_bit():
    result = infer("concatenate", fields(tensor(Int64(2)), tensor(3)), axis=0).shape[0]
    assert isinstance(result, Int64)
    assert result == 5


# --- what Relay accepts -------------------------------------------------------------------------------------


def test_identity_accepts_anything():
    pair = fields(tensor(), tensor(2))
    assert infer("nn.relu", pair) is pair


def test_matrix_products_compare_what_they_sum_over_only_with_units():
    assert infer("nn.matmul", tensor(2, 3), tensor(2, 3)).shape == (2, 3)
    assert infer("nn.dense", tensor(2, 3), tensor(4, 5)).shape == (2, 4)
    with pytest.raises(RelationError):
        infer("nn.dense", tensor(2, 3), tensor(4, 5), units=4)


# --- layouts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "weight", "attrs", "shape"),
    [
        ((1, 8, 8, 3), (3, 3, 3, 4), {"data_layout": "NHWC", "kernel_layout": "HWIO"}, (1, 6, 6, 4)),
        ((1, 8, 8, 3), (4, 3, 3, 3), {"data_layout": "NHWC", "kernel_layout": "OHWI"}, (1, 6, 6, 4)),
        ((1, 3, 8, 8), (4, 3, 3, 3), {"out_layout": "NHWC"}, (1, 6, 6, 4)),
        (
            (1, 1, 8, 8, 16),
            (2, 1, 3, 3, 16, 8),
            {"data_layout": "NCHW16c", "kernel_layout": "OIHW16i8o", "out_layout": "NCHW8c"},
            (1, 2, 6, 6, 8),
        ),
    ],
)
def test_convolution_in_other_layouts(data, weight, attrs, shape):
    assert infer("nn.conv2d", tensor(*data), tensor(*weight), **attrs).shape == shape


def test_pooling_in_a_blocked_layout():
    result = infer("nn.max_pool2d", tensor(1, 2, 8, 8, 16), pool_size=2, strides=2, layout="NCHW16c")
    assert result.shape == (1, 2, 4, 4, 16)


# --- refusals -----------------------------------------------------------------------------------------------

REFUSED = [
    ("add", [tensor(2, 3), tensor(2, 4)], {}, "Tensor[(2, 3), float32] and Tensor[(2, 4), float32]", (0, 1)),
    ("add", [tensor(2), tensor(2, dtype="int32")], {}, "the dtypes float32 and int32 differ", (0, 1)),
    ("add", [fields(tensor()), tensor()], {}, "expected a tensor, found (float32,)", (0,)),
    ("sum", [tensor(2, 3)], {"axis": 5}, "axis 5 is out of range for a tensor of rank 2", (0,)),
    ("sum", [tensor(2, 3)], {"axis": (0, -2)}, "an axis is listed twice", ()),
    ("nn.softmax", [tensor(2, 3)], {"axis": 2}, "axis 2 is out of range", (0,)),
    ("nn.dense", [tensor(2, 3), tensor(4, 3)], {"units": 7}, "to be Tensor[(7, 3), float32], found", (1, 0)),
    ("nn.dense", [tensor(), tensor(4, 3)], {}, "rank 1 or more, found float32", (0,)),
    ("nn.matmul", [tensor(2, 3), tensor(3)], {}, "expected a matrix, found Tensor[(3), float32]", (1,)),
    ("nn.batch_matmul", [tensor(2, 3, 4), tensor(3, 5, 4)], {}, "the batches of", (0, 1)),
    ("nn.batch_matmul", [tensor(2, 3, 4), tensor(2, 5, 6)], {}, "summed over differ: 4 is not 6", (0, 1)),
    ("nn.bias_add", [tensor(2, 3), tensor(4)], {}, "bias to be Tensor[(3), float32], found", (1, 0)),
    ("nn.bias_add", [tensor(2, 3), tensor(3, dtype="float64")], {}, "found Tensor[(3), float64]", (1, 0)),
    ("nn.batch_norm", [tensor(2, 3), *[tensor(3)] * 3, tensor(2)], {}, "expected moving_var to be", (4, 0)),
    ("nn.conv2d", [tensor(3, 8, 8), tensor(4, 3, 3, 3)], {}, "wants rank 4, found shape (3, 8, 8)", (0,)),
    ("nn.conv2d", [tensor(1, 3, 8, 8), tensor(4, 2, 3, 3)], {}, "input channels are not the data's", (1, 0)),
    ("nn.conv2d", [tensor(1, 3, 8, 8), tensor(4, 3, 3, 3)], {"kernel_size": 5}, "5 is not 3", (1,)),
    ("nn.conv2d", [tensor(1, 3, 8, 8), tensor(4, 3, 3, 3)], {"strides": 0}, "strides must not be 0", ()),
    ("nn.conv2d", [tensor(1, 3, 8, 8), tensor(4, 3, 3, 3)], {"data_layout": "NQHW"}, "'NQHW'", ()),
    ("nn.conv2d", [tensor(1, 3, 8, 8), tensor(4, 3, 3, 3)], {"data_layout": "?"}, "is not a layout", ()),
    ("nn.max_pool2d", [tensor(2, 3)], {"pool_size": 2}, "layout NCHW wants rank 4", (0,)),
    (
        "reshape",
        [tensor(2, 3)],
        {"newshape": (4, 2)},
        "shape (2, 3) has 6 elements, shape (4, 2) has 8",
        (0,),
    ),
    ("reshape", [tensor(2, 3)], {"newshape": (-1, -1)}, "-1 only once", ()),
    ("reshape", [tensor(2, 3)], {"newshape": (4, -1)}, "6 elements cannot be divided by 4", (0,)),
    ("reshape", [tensor(2)], {"newshape": (-4, 1)}, "-4 must be followed by two numbers", ()),
    ("reshape", [tensor(2)], {"newshape": (0, 0)}, "no dimension of the data is left", (0,)),
    ("reshape", [tensor(2)], {"newshape": (-7,)}, "newshape cannot have -7", ()),
    ("transpose", [tensor(2, 3)], {"axes": (0, 2)}, "axis 2 is out of range", (0,)),
    ("transpose", [tensor(2, 3)], {"axes": (0,)}, "axes must have 2 elements, it has 1", ()),
    ("transpose", [tensor(2, 3)], {"axes": (1, -1)}, "an axis is listed twice", (0,)),
    ("squeeze", [tensor(2, 3)], {"axis": 0}, "axis 0 of Tensor[(2, 3), float32] is not of length 1", (0,)),
    ("squeeze", [tensor(N, 1)], {}, "needs an axis", (0,)),
    ("expand_dims", [tensor(2, 3)], {"axis": 9}, "axis 9 is out of range for a tensor of rank 2", (0,)),
    ("concatenate", [fields(tensor(2, 3), tensor(2))], {"axis": 0}, "one rank and one dtype", (0,)),
    ("concatenate", [fields(tensor(2, 3), tensor(2, 4))], {"axis": 0}, "differ on another axis", (0,)),
    ("concatenate", [fields()], {"axis": 0}, "expected a tuple of tensors, found ()", (0,)),
    ("concatenate", [tensor(2)], {"axis": 0}, "expected a tuple of tensors", (0,)),
    ("stack", [fields(tensor(2, 3), tensor(2, 4))], {"axis": 0}, "must have one shape", (0,)),
    (
        "split",
        [tensor(2, 3)],
        {"indices_or_sections": 2, "axis": 1},
        "3 elements cannot be split into 2",
        (0,),
    ),
    ("split", [tensor(5)], {"indices_or_sections": (3, 2)}, "must increase", (0,)),
    ("split", [tensor(5)], {"indices_or_sections": (5,)}, "must increase", (0,)),
    ("split", [tensor(5)], {"indices_or_sections": 0}, "must not be 0", ()),
    (
        "take",
        [tensor(2, 3), tensor(2)],
        {},
        "expected a tensor of integers, found Tensor[(2), float32]",
        (1,),
    ),
    ("gather", [tensor(2, 3), tensor(2, dtype="int32")], {"axis": 0}, "must have one rank", (0, 1)),
    ("where", [tensor(4, dtype="bool"), tensor(2, 3), tensor(2, 3)], {}, "does not broadcast with", (0, 1)),
    ("where", [tensor(dtype="bool"), tensor(2), tensor(3)], {}, "do not broadcast together", (1, 2)),
    ("strided_slice", [tensor(4)], {"begin": [0], "end": [4], "strides": [0]}, "strides must not be 0", ()),
    ("strided_slice", [tensor(4)], {"begin": [3], "end": [1]}, "runs backwards", (0,)),
    ("strided_slice", [tensor(4)], {"begin": [0, 0], "end": [1, 1]}, "longer than the rank", (0,)),
    (
        "strided_slice",
        [tensor(4, 4)],
        {"begin": [0, 0], "end": [1, 1], "axes": [0, 1]},
        "differ in length",
        (0,),
    ),
    ("full", [tensor(2)], {"shape": (2,)}, "expected a tensor of rank 0", (0,)),
    ("nn.pad", [tensor(2, 3), tensor()], {"pad_width": ((1, 1),)}, "must have 2 pairs, found [[1, 1]]", (0,)),
    ("nn.pad", [tensor(2, 3), tensor()], {"pad_width": ((-3, 0), (0, 0))}, "crops more than", (0,)),
    ("tile", [tensor(2)], {"reps": (0,)}, "reps must be positive", ()),
    ("topk", [tensor(2)], {"axis": 9}, "axis 9 is out of range", (0,)),
    (
        "image.resize2d",
        [tensor(1, 1, 2, 2)],
        {"size": 4, "layout": "ABCD"},
        "cannot be converted to NCHW",
        (),
    ),
    (
        "einsum",
        [fields(tensor(2, 3), tensor(4, 5))],
        {"equation": "ij,jk->ik"},
        "'j' of the equation differs",
        (0,),
    ),
    ("einsum", [fields(tensor(2, 3))], {"equation": "ij,jk->ik"}, "has 2 operands, found 1", (0,)),
    ("einsum", [fields(tensor(2, 3))], {"equation": "ij->ik"}, "'k', which no operand has", (0,)),
    (
        "qnn.quantize",
        [tensor(2, dtype="int8"), tensor(), tensor(dtype="int32")],
        {},
        "the data's dtype",
        (0,),
    ),
    (
        "random.normal",
        [tensor(9, dtype="uint64"), tensor(), tensor()],
        {"out_shape": 2},
        "expected the key",
        (0, 0),
    ),
]


@pytest.mark.parametrize(("name", "arg_types", "attrs", "message", "operands"), REFUSED)
def test_refusals_say_what_was_expected_and_point_at_the_operand(name, arg_types, attrs, message, operands):
    with pytest.raises(RelationError, match=re.escape(message)) as caught:
        infer(name, *arg_types, **attrs)
    assert caught.value.message.startswith(f"{name}: ")
    assert caught.value.operands == operands


def test_the_number_of_arguments_is_checked():
    with pytest.raises(RelationError, match=re.escape("add takes 2 arguments (lhs, rhs), got 1")):
        infer("add", tensor())


def test_arange_knows_its_length_from_constants():
    def length(start, stop, step, dtype):
        attrs = {
            key: constant(value, dtype)
            for key, value in zip(("start", "stop", "step"), (start, stop, step), strict=True)
        }
        return infer("arange", *[tensor(dtype=dtype)] * 3, dtype=dtype, **attrs)

    assert length(0, 5, 1, "int32") == tensor(5, dtype="int32")
    assert length(1, 4, 0.5, "float32") == tensor(6)
    assert length(5, 0, -2, "int32") == tensor(3, dtype="int32")
    for empty in [(5, 0, 1), (0, 5, 0)]:
        with pytest.raises(RelationError, match="is empty"):
            length(*empty, "int32")


# --- types that Relay fills in ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "known", "attrs", "assumed"),
    [
        ("nn.dense", [tensor(2, 3), None], {"units": 4}, [tensor(4, 3)]),
        ("nn.dense", [tensor(2, 3), None], {}, [None]),
        ("nn.matmul", [tensor(2, 3), None], {"units": 4}, [tensor(3, 4)]),
        ("nn.matmul", [tensor(3, 2), None], {"units": 4, "transpose_a": True}, [tensor(3, 4)]),
        ("nn.conv2d", [tensor(1, 4, 8, 8), None], {"channels": 6, "kernel_size": 3}, [tensor(6, 4, 3, 3)]),
        (
            "nn.conv2d",
            [tensor(1, 8, 8, 4), None],
            {"channels": 6, "kernel_size": 3, "groups": 2, "data_layout": "NHWC", "kernel_layout": "HWIO"},
            [tensor(3, 3, 2, 6)],
        ),
        ("nn.conv2d", [tensor(1, 4, 8, 8), None], {"channels": 6}, [None]),
        (
            "nn.conv2d_transpose",
            [tensor(1, 4, 8, 8), None],
            {"channels": 6, "kernel_size": 3},
            [tensor(4, 6, 3, 3)],
        ),
        ("nn.bias_add", [tensor(2, 3, dtype="float16"), None], {}, [tensor(3, dtype="float16")]),
        ("nn.bias_add", [None, tensor(3)], {}, [tensor(3)]),
        ("nn.batch_norm", [tensor(2, 3), None, tensor(3), None, None], {}, [tensor(3)] * 4),
        ("nn.layer_norm", [tensor(2, 3), None, None], {}, [tensor(3)] * 2),
        ("nn.prelu", [tensor(2, 3), None], {}, [tensor(3)]),
    ],
)
def test_assumed_argument_types(name, known, attrs, assumed):
    operator = OPERATORS[name]
    result = operator.assume(known, operator.complete_attrs(attrs, from_call=True))
    assert list(result) == [known[0], *assumed]


# --- NumPy as judge -----------------------------------------------------------------------------------------

DIM = st.integers(0, 4)
SHAPE = st.lists(DIM, max_size=4).map(tuple)


@given(SHAPE, SHAPE)
def test_broadcasting_is_numpys(left, right):
    try:
        expected = np.broadcast_shapes(left, right)
    except ValueError:
        with pytest.raises(RelationError):
            infer("add", tensor(*left), tensor(*right))
    else:
        assert infer("add", tensor(*left), tensor(*right)).shape == expected


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_reductions_are_numpys(shape, data):
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    signed = tuple(axis - len(shape) * data.draw(st.booleans()) for axis in axes)
    keepdims = data.draw(st.booleans())
    expected = np.zeros(shape).sum(axis=tuple(axes), keepdims=keepdims).shape
    assert infer("sum", tensor(*shape), axis=signed, keepdims=keepdims).shape == expected


@given(st.integers(0, 5), st.integers(-7, 7), st.integers(-7, 7), st.sampled_from([-3, -2, -1, 1, 2, 3]))
def test_strided_slice_is_numpys(size, begin, end, step):
    attrs = {"begin": [begin], "end": [end], "strides": [step]}
    first, last, _ = slice(begin, end, step).indices(size)
    if (last - first) * step < 0:  # NumPy gives an empty array where Relay refuses
        with pytest.raises(RelationError, match="runs backwards"):
            infer("strided_slice", tensor(size), **attrs)
    else:
        assert infer("strided_slice", tensor(size), **attrs).shape == np.zeros(size)[begin:end:step].shape


@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2))
def test_pooling_counts_the_places_of_the_window(size, window, stride, dilation, pad):
    span = (window - 1) * dilation + 1
    windows = len(range(0, size + 2 * pad - span + 1, stride))
    attrs = {"pool_size": window, "strides": stride, "dilation": dilation, "padding": pad}
    if size + 2 * pad >= span:
        assert infer("nn.max_pool1d", tensor(1, 1, size), **attrs).shape == (1, 1, windows)
    else:
        operator = OPERATORS["nn.max_pool1d"]  # Relay gives such a call a type; it means nothing
        with pytest.raises(RelationError, match="larger than the padded data"):
            operator.check_preconditions([tensor(1, 1, size)], operator.complete_attrs(attrs, from_call=True))


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=3), st.lists(st.integers(1, 3), min_size=1, max_size=4)
)
def test_tile_is_numpys(shape, reps):
    assert infer("tile", tensor(*shape), reps=reps).shape == np.tile(np.zeros(shape), reps).shape


@pytest.mark.parametrize(
    "equation", ["ij,jk->ik", "ij,jk", "ii", "ii->i", "...ij,...jk->...ik", "bij,bjk->bki", "i,j->ij"]
)
def test_einsum_is_numpys(equation):
    sizes = {"i": 3, "j": 4, "k": 5, "b": 2}
    operands = [
        np.zeros([2] * ("..." in term) + [sizes[letter] for letter in term.replace("...", "")])
        for term in equation.split("->")[0].split(",")
    ]
    types = fields(*(tensor(*operand.shape) for operand in operands))
    assert infer("einsum", types, equation=equation).shape == np.einsum(equation, *operands).shape


# --- bad input ----------------------------------------------------------------------------------------------

DIMS = st.lists(st.sampled_from([0, 1, 2, 3, 4, N, ANY, VarDim("k")]), max_size=5).map(tuple)
TENSORS = st.builds(TensorType, DIMS, st.sampled_from(["float32", "int32", "bool", "uint64", "int8"]))
TYPES = TENSORS | st.lists(TENSORS, max_size=3).map(lambda parts: TupleType(tuple(parts)))
NUMBERS = st.integers(-3, 5)
VALUES = (
    st.sampled_from(["", "NCHW", "NHWC", "NCHW2c", "NCW", "size", "ij,jk->ik", "...i->i", "->", "int8"])
    | st.sampled_from([0.0, 0.5, -1.0, float("inf"), float("nan")])
    | st.lists(st.lists(NUMBERS, max_size=3), max_size=3)
    | st.lists(NUMBERS, max_size=5)
    | NUMBERS
    | st.sampled_from([None, constant(2), constant(float("inf"))])
)


def find_valid_value(attr, values):
    """The first of the values that the attribute's kind takes."""
    for value in values:
        try:
            attr.kind.in_call(value)
        except (TypeError, ValueError):
            continue
        return {attr.name: value}
    return {}


@pytest.mark.sampled(every=9)
@pytest.mark.parametrize("name", sorted(OPERATORS))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_whatever_is_given_the_answer_is_a_type_or_a_refusal(name, data):
    operator = OPERATORS[name]
    arg_types = [data.draw(TYPES) for _ in operator.args]
    attrs = {}
    for attr in operator.attrs:
        attrs |= find_valid_value(attr, data.draw(st.lists(VALUES, max_size=6)))
    for from_call in (True, False):
        try:
            result = operator.result_type(arg_types, operator.complete_attrs(attrs, from_call=from_call))
        except RelationError:
            continue
        assert isinstance(result, TensorType | TupleType)
