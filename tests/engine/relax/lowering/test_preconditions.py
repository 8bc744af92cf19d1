"""Calls that Relay types although they mean nothing: typed as measured on real Relay, refused by engines."""

import pytest

from nnmagic.engine import EngineError
from nnmagic.engine.relax import build
from nnmagic.relay.infer import infer_type
from nnmagic.relay.text.parser import parse_module

X = "%x: Tensor[(2, 3), float32]"

#: Parameters, a body, its type on real Relay, and why there is nothing to run.
TYPED_BUT_MEANINGLESS = [
    (f"{X}, %i: Tensor[(4), int32]", "take(%x, %i, axis=2)", "Tensor[(2, 3, 4), float32]", "axis 2"),
    (
        f"{X}, %i: Tensor[(1, 5), int32]",
        "gather_nd(%x, %i, batch_dims=-1)",
        "Tensor[(5, 2, 3), float32]",
        "-1",
    ),
    (
        f"{X}, %i: Tensor[(1, 3), int32], %u: Tensor[(3, 4), float32]",
        'scatter_nd(%x, %i, %u, attrs_type_key="relay.attrs.ScatterNDAttrs")',
        "Tensor[(2, 3), float32]",
        "updates",
    ),
    (f"{X}, %d: Tensor[(5), float32]", "matrix_set_diag(%x, %d)", "Tensor[(2, 3), float32]", "the diagonal"),
    (
        f"{X}, %b: Tensor[(1), float32]",
        "strided_set(%x, %x, %b, %b, %b)",
        "Tensor[(2, 3), float32]",
        "integers",
    ),
    (X, "split(%x, indices_or_sections=-1)", "()", "positive"),
    (X, 'one_hot(1, %x, %x, depth=2, dtype="float32")', "Tensor[(2), float32]", "rank 0"),
    (X, "sliding_window(%x, axis=1, window_shape=[9], strides=[3])", "Tensor[(2, -1, 9), float32]", "larger"),
    (X, 'searchsorted(%x, %x, dtype="int8")', "Tensor[(2, 3), int8]", "int32 or int64"),
    (
        "%i: Tensor[(2), int32], %s: Tensor[(2, 2), int32]",
        "unravel_index(%i, %s)",
        "Tensor[(2, 2), int32]",
        "rank 1",
    ),
    (
        "%i: Tensor[(2, 2, 2), int32], %v: Tensor[(2), float32]",
        "sparse_to_dense(%i, %v, 0f, output_shape=[4])",
        "Tensor[(4), float32]",
        "rank",
    ),
]


@pytest.mark.parametrize(
    ("parameters", "body", "type_", "reason"), TYPED_BUT_MEANINGLESS, ids=lambda value: str(value)[:30]
)
def test_relays_type_but_nothing_to_run(parameters, body, type_, reason):
    text = f'#[version = "0.0.5"]\ndef @main({parameters}) {{\n  {body}\n}}\n'
    typed = infer_type(parse_module(text))
    assert str(typed.functions["main"].ret_type) == type_
    with pytest.raises(EngineError, match=reason):
        build(typed, "main")
