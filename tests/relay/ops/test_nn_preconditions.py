"""Calls of nn, image and signal operators that real Relay gives a type, as measured, and that mean nothing.

Cells and engines refuse them.
"""

from __future__ import annotations

import pytest

from nnmagic.relay.infer import infer_type
from nnmagic.relay.ops import OPERATORS, RelationError
from nnmagic.relay.text.parser import parse_module

#: Parameters, the call, the type that real Relay gives it, what the refusal says.
MEASURED = [
    ("1,1,2,9 1,1,5,1", "nn.conv2d(%a, %b, strides=[2, 1])", "1, 1, -1, 9", "larger than the padded data"),
    ("1,4,6 4,4,3", "nn.conv1d(%a, %b, strides=[2, 2])", "1, 4, 2", "strides must have 1 element"),
    ("1,3,8,8 4,3,3,3", "nn.conv2d(%a, %b, dilation=[0, 0])", "1, 4, 8, 8", "dilation must be positive"),
    ("1,4,6,6 4,4,3,3", "nn.conv2d(%a, %b, strides=[-1, 1])", "1, 4, -2, 4", "strides must be positive"),
    ("1,1,2,9", "nn.max_pool2d(%a, pool_size=[5, 1], strides=[2, 1])", "1, 1, 0, 9", "window is larger"),
    (
        "1,1,2,9",
        "nn.max_pool2d(%a, pool_size=[4, 1], strides=[2, 1], ceil_mode=True)",
        "1, 1, 1, 9",
        "window",
    ),
    ("1,7,2", "nn.avg_pool1d(%a, pool_size=[3], strides=[2])", "1, 7, 1", "window is larger"),
    ("1,4,6", "nn.max_pool1d(%a, pool_size=[2, 2])", "1, 4, 5", "pool_size must have 1 element"),
    ("2,3 3,2", "dyn.nn.pad(%a, %b, 0f, pad_width=[])", "?, ?", "expected pad_width to be"),
    ("2,3 2,1", "dyn.tile(%a, %b, reps=[])", "?, ?", "expected a tensor of rank 1"),
    ("2,3 1", "nn.pad(%a, %b, pad_width=[[1, 1], [2, 0]])", "4, 5", "expected a tensor of rank 0"),
    ("1,8,2,2", "nn.depth_to_space(%a, block_size=3)", "1, 0, 6, 6", "cannot be divided by 9"),
    ("1,2,5,4", "nn.space_to_depth(%a, block_size=2)", "1, 8, 2, 2", "cannot be divided by 2"),
    ("2,3,4", "nn.space_to_batch_nd(%a, block_shape=[2], paddings=[[0, 0]])", "4, 1, 4", "divided by 2"),
    ("3,3,2", "nn.batch_to_space_nd(%a, block_shape=[2], crops=[[0, 1]])", "1, 5, 2", "cannot be divided"),
    ("4,3,2", "nn.batch_to_space_nd(%a, block_shape=[2], crops=[[4, 4]])", "2, -2, 2", "crops are larger"),
    ("3,1 2,4", "nn.fifo_buffer(%a, %b, axis=1)", "2, 4", "differ on another axis"),
    ("1,2,6,5 1,2,5,4", "nn.correlation(%a, %b)", "1, 9, 4, 2", "expected the second image"),
    ("1,2,5,5 1,2,5,4", "nn.correlation(%a, %b)", "1, 9, 3, 2", "expected the second image"),
    ("1,2,4,5 1,3,3,3", "image.grid_sample(%a, %b)", "1, 2, 3, 3", "a coordinate for each axis"),
    ("1,2,6,6 3,3,3", "image.dilation2d(%a, %b)", "1, 3, 4, 4", "channels of the weight"),
    (
        "1,2,8,8 3,4",
        "vision.roi_pool(%a, %b, pooled_size=[2, 2], spatial_scale=1f)",
        "3, 2, 2, 2",
        "5 numbers",
    ),
]


@pytest.mark.parametrize(("params", "call", "shape", "message"), MEASURED)
def test_relays_type_is_given_and_the_call_refused(params, call, shape, message):
    shapes = [tuple(map(int, one.split(","))) for one in params.split()]
    listed = (
        f"%{name}: Tensor[({', '.join(map(str, dims))}), float32]"
        for name, dims in zip("ab", shapes, strict=False)
    )
    text = f'#[version = "0.0.5"]\ndef @main({", ".join(listed)}) {{\n  {call}\n}}\n'
    body = infer_type(parse_module(text)).functions["main"].body
    assert str(body.checked_type) == f"Tensor[({shape}), float32]"
    operator = OPERATORS[body.op.name]
    with pytest.raises(RelationError, match=message) as caught:
        operator.check_preconditions([arg.checked_type for arg in body.args], body.attrs)
    assert caught.value.message.startswith(f"{operator.name}: ")
