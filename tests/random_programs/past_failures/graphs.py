"""Relay programs that were once wrong: fused graphs, and dimensions that only the call knows."""

from __future__ import annotations

import numpy as np

from tests.random_programs.program import Program, Rules
from tests.random_programs.relay_text import VERSION


def small(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    """Small integers, among which are many equal ones."""
    return np.random.default_rng([seed, *shape]).integers(-3, 4, shape).astype(dtype)


def special(*shape: int) -> np.ndarray:
    """What is not finite, zeros of both signs, and others."""
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1, 1, -3e38], "float32")
    return np.random.default_rng(shape).choice(values, shape)


_ONES = 1 - 2 * (small(15, 9, 1, 9, dtype="int8") > 0).astype("int8")
_SPECIAL = [special(9, 5), special(9, 5)[::-1].copy()]
_CHANNELS_LAST = 'padding=[0, 0, 0, 0], data_layout="NHWC", kernel_layout="HWIO"'
_CONVOLUTION = [small(1, 4, 6, 3), small(1, 1, 3, 8)]

#: What was wrong -> the body, and arrays of %a, %b and so on.
_FUSED: dict[str, tuple[str, list[np.ndarray]]] = {
    "a reduction read what its own loop had not yet computed": (
        "argmax(maximum(%a, %b), axis=[-1])",
        [small(4, 5, 33), small(4, 5, 33, seed=1)],
    ),
    "a kernel read what the one before it had not yet written": (
        "negative(cumsum(negative(prod(%a, axis=[1], keepdims=True))))",
        [_ONES],
    ),
    "a place of no elements that another kernel computes": (
        "argmax(expand_dims(%a, axis=0, num_newaxis=2))",
        [small(0, 31)],
    ),
    "a sum of a part without elements": (
        "sum(strided_slice(%a, begin=[3], end=[3], strides=[1], axes=[0]), axis=[0], keepdims=True)",
        [small(3, 4)],
    ),
    "an addend that is broader than the convolution of one channel": (
        "add(nn.conv2d(%a, %b, padding=[0, 0, 0, 0]), %c)",
        [small(2, 3, 5, 6), small(1, 3, 1, 1), small(1, 2, 1, 1)],
    ),
    "a pool of channels that the convolution has elsewhere": (
        f"nn.max_pool2d(nn.conv2d(%a, %b, {_CHANNELS_LAST}), pool_size=[2, 2], padding=[0, 0, 0, 0])",
        _CONVOLUTION,
    ),
    "a global pool of channels that the convolution has elsewhere": (
        f"nn.global_max_pool2d(nn.conv2d(%a, %b, {_CHANNELS_LAST}))",
        _CONVOLUTION,
    ),
    "a negated comparison with NaN inside of a reduction": (
        "(any(logical_not(greater(%a, %b)), axis=[0]), "
        "sum(where(logical_not(less(%a, %b)), 1f, 2f), axis=[1]), "
        "argmax(greater(%a, %b), axis=[0], select_last_index=True))",
        _SPECIAL,
    ),
    "comparisons of which one holds but where there is NaN": (
        "(all(logical_or(less_equal(%a, %b), less(%b, %a)), axis=[0]), "
        "sum(where(logical_or(less(%a, %b), greater_equal(%a, %b)), 1f, 2f), axis=[1]))",
        _SPECIAL,
    ),
    "the largest element of a window of what is not finite": (
        "nn.max_pool2d(%a, pool_size=[3, 2], padding=[0, 0, 0, 0])",
        [special(2, 3, 9, 10)],
    ),
    "the largest element of images of what is not finite": (
        "(nn.global_max_pool2d(%a), nn.adaptive_max_pool2d(%a, output_size=[2, 1]))",
        [special(5, 8, 4, 3)],
    ),
}
#: What could not be built or had another shape: the body, the type of %a, and its shape in the call.
_OPEN = [
    (
        "add(strided_slice(strided_slice(%a, begin=[0], end=[-1], strides=[1], axes=[0]), "
        "begin=[281474976710656], end=[-281474976710656], strides=[-2], axes=[0]), 1f)",
        "(?, 3)",
    ),
    ("expand_dims(%a, axis=0, num_newaxis=2)", "(?, 3, 0)"),
    ("reshape(%a, newshape=[-1])", "(?, 3, 0)"),
    ("squeeze(%a, axis=[1])", "(?, 1, 0)"),
    ("let %s = split(%a, indices_or_sections=2, axis=1); %s.1", "(?, 0, 3)"),
    (
        'nn.conv1d(%a, ones(shape=[3, 1, 1], dtype="float32"), padding=[0, 0], groups=3, channels=3, '
        "kernel_size=[1])",
        "(2, ?, 3)",
    ),
]


def _program(body: str, types: list[str], arrays: list[np.ndarray]) -> Program:
    params = ", ".join(
        f"%{letter}: Tensor[{type_}, {array.dtype}]"
        for letter, type_, array in zip("abc", types, arrays, strict=False)
    )
    return Program("graphs", 0, f"{VERSION}def @main({params}) {{ {body} }}", (tuple(arrays),), Rules())


def load_graphs() -> dict[str, Program]:
    """Return the programs by what was wrong."""
    made = {
        what: _program(body, [str(array.shape) for array in arrays], arrays)
        for what, (body, arrays) in _FUSED.items()
    }
    for body, shape in _OPEN:
        sizes = [3 if dim.strip() == "?" else int(dim) for dim in shape.strip("()").split(",")]
        made[f"open dimensions: {body.partition('(')[0]}"] = _program(body, [shape], [small(*sizes)])
    return made
