"""Programs that Relay types, with tensors that no machine holds or calls that mean nothing, are refused."""

from __future__ import annotations

import pytest

import nnmagic
from nnmagic import relay
from nnmagic.engine import EngineError

X = "%x: Tensor[(2, 3), float32]"

#: What is refused: parameters, body, the message, and the text that it points at.
REFUSED = [
    (
        "%x: Tensor[(-1, 3), float32]",
        "%x",
        "%x would have a negative dimension, Tensor[(-1, 3)",
        "%x",
    ),
    (
        "%x: (float32, Tensor[(-3), int8])",
        "%x.0",
        "%x would have a negative dimension, Tensor[(-3)",
        "%x",
    ),
    ("%x: fn (Tensor[(-3), int8]) -> bool", "1f", "%x would have a negative dimension", "%x"),
    ("%x: Tensor[(2, 3), int4]", "%x", "%x would have elements of the dtype 'int4'", "%x"),
    (X, 'cast(%x, dtype="handle")', "cast: the result would have elements of the dtype 'handle'", "cast"),
    (
        X,
        'cast(%x, dtype="float32x4")',
        "cast: the result would have elements of the dtype 'float",
        "cast",
    ),
    (X, "argsort(%x, axis=0)", "argsort: the result would have elements of the dtype ''", "argsort"),
    (
        X.replace("float", "int"),
        "one_hot(%x, 1f, 0f, depth=9, axis=-1)",
        "one_hot: the result would have elements of the dtype ''",
        "one_hot",
    ),
    (
        f"%x: Tensor[({2**63 - 1}, {2**63 - 1}), int8]",
        "%x",
        "%x, Tensor[(9223372036854775807i64, 9223372036854775807i64), int8], is larger than any memory",
        "%x",
    ),
    (
        f"%x: Tensor[(0, {2**62}), int8]",
        "%x",
        "%x, Tensor[(0, 4611686018427387904i64), int8], ",
        "%x",
    ),
    ("", 'zeros(shape=[-3], dtype="int8")', "zeros: the result would have a negative dimension", "zeros"),
    ("%x: float32", "sort(%x, axis=-1)", "sort: axis -1 is out of range for a tensor of rank 0", "sort"),
    (
        "%x: float32",
        'argsort(%x, axis=-1, dtype="int32")',
        "argsort: axis -1 is out of range for a tensor of rank 0",
        "argsort",
    ),
    (
        "%x: int32",
        "fixed_point_multiply(%x, multiplier=-2, shift=2147483648)",
        "fixed_point_multiply: shift must be from -31 to 31, not 2147483648",
        "fixed_point_multiply",
    ),
    (
        "%x: int32",
        "fixed_point_multiply(%x, multiplier=2147483648, shift=1)",
        "fixed_point_multiply: multiplier must be of 32 bits, not 2147483648",
        "fixed_point_multiply",
    ),
    (X, "sort(%x, axis=2)", "sort: axis 2 is out of range for a tensor of rank 2", "sort"),
]


@pytest.mark.parametrize(("params", "body", "message", "place"), REFUSED)
@pytest.mark.parametrize("engine", ["relax", "numpy"])
def test_what_cannot_be_is_refused_at_its_place(
    params: str, body: str, message: str, place: str, engine: str
) -> None:
    text = f'#[version = "0.0.5"]\ndef @main({params}) {{ {body} }}'
    with pytest.raises(EngineError) as caught:
        nnmagic.compile(relay.parse(text), engine=engine, cache=False)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message.startswith(message)
    span = diagnostic.span
    assert span is not None
    assert text.splitlines()[1][span.column - 1 :].startswith(place)


def test_what_is_not_reached_is_not_looked_at() -> None:
    text = "def @other(%x: Tensor[(-1), float32]) { %x }\ndef @main(%x: float32) { add(%x, 1f) }"
    assert (
        nnmagic.compile(relay.parse(f'#[version = "0.0.5"]\n{text}'), engine="numpy", cache=False)(2.0) == 3
    )


LARGE = {
    "expand_dims": ("expand_dims(%x, axis=0, num_newaxis=20000000)", "num_newaxis is at most 10000"),
    "expand_dims twice": (
        "expand_dims(expand_dims(%x, axis=0, num_newaxis=9000), axis=0, num_newaxis=9000)",
        "the number of the result's axes is at most 10000, not 18002",
    ),
    "split": ("split(%y, indices_or_sections=100000000)", "indices_or_sections is at most 10000"),
    "dyn.reshape": (
        "dyn.reshape(%x, %z, newshape=[])",
        "the length of a vector of sizes is at most 10000, not 100000000",
    ),
    "dyn.zeros": (
        'dyn.zeros(%z, shape=None, dtype="int8")',
        "the length of a vector of sizes is at most 10000",
    ),
}


@pytest.mark.parametrize("call", LARGE)
def test_a_type_that_would_fill_the_memory_is_not_made(call: str) -> None:
    """A text of a hundred characters asks for a type of 10⁸ parts."""
    body, message = LARGE[call]
    params = f"{X}, %y: Tensor[(100000000), float32], %z: Tensor[(100000000), int64]"
    with pytest.raises(nnmagic.RelayError) as caught:
        relay.infer_type(relay.parse(f'#[version = "0.0.5"]\ndef @main({params}) {{ {body} }}'))
    assert message in caught.value.diagnostics[0].message
