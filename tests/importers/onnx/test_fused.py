"""The operators of com.microsoft, alone and in an optimised model, beside onnxruntime."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import nnmagic
from tests.importers.onnx.graphs import node

onnxruntime.set_default_logger_severity(4)
RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


def bytes_(*shape: int, dtype: str = "uint8") -> np.ndarray:
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def scale(number: float) -> np.ndarray:
    return np.float32(number)


def zero(number: int, dtype: str = "uint8") -> np.ndarray:
    return np.dtype(dtype).type(number)


def proto_of(
    nodes: list[onnx.NodeProto], inputs: dict[str, np.ndarray], outputs: list[str]
) -> onnx.ModelProto:
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    graph = helper.make_graph(nodes, "net", infos, [onnx.ValueInfoProto(name=name) for name in outputs])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


LAYER = (normal(2, 3, 8), normal(2, 3, 8), normal(8), normal(8))
Q = (normal(2, 5, 8), normal(2, 4, 8), normal(2, 4, 8))
MASK = np.array([[1, 1, 1, 0], [1, 0, 1, 1]], "int32")
A, B = bytes_(2, 3, 5), bytes_(3, 5)
PLACES = np.array([[0, 1, 2], [4, 5, 6]])
ANGLES = (np.cos(normal(9, 4)), np.sin(normal(9, 4)))
#: Operator, inputs (None: left out), attributes, number of outputs.
CASES: list[tuple[str, list[np.ndarray | None], dict[str, object], int]] = [
    ("Gelu", [normal(3, 4)], {}, 1),
    ("BiasGelu", [normal(2, 3, 4), normal(4)], {}, 1),
    ("FastGelu", [normal(2, 3, 4), normal(4)], {}, 1),
    ("FastGelu", [normal(2, 3, 4)], {}, 1),
    ("QuickGelu", [normal(2, 3, 4)], {"alpha": 1.5}, 1),
    ("FusedConv", [normal(1, 2, 6, 6), normal(3, 2, 3, 3), normal(3)], {"activation": "Relu"}, 1),
    (
        "FusedConv",
        [normal(1, 2, 6, 6), normal(3, 2, 3, 3), normal(3), normal(1, 3, 4, 4)],
        {"activation": "Relu"},
        1,
    ),
    (
        "FusedConv",
        [normal(1, 2, 6, 6), normal(4, 1, 3, 3)],
        {"activation": "LeakyRelu", "activation_params": [0.3], "group": 2, "pads": [1, 1, 1, 1]},
        1,
    ),
    (
        "FusedConv",
        [normal(1, 2, 6, 6), normal(3, 2, 3, 3)],
        {"activation": "Clip", "activation_params": [-0.5, 1.0], "strides": [2, 2]},
        1,
    ),
    ("FusedGemm", [normal(3, 4), normal(5, 4), normal(5)], {"transB": 1, "activation": "Relu"}, 1),
    (
        "FusedGemm",
        [normal(4, 3), normal(4, 5), normal(5)],
        {"transA": 1, "alpha": 0.5, "beta": 2.0, "activation": "LeakyRelu", "activation_alpha": 0.2},
        1,
    ),
    ("FusedMatMul", [normal(2, 3, 4), normal(2, 5, 4)], {"transB": 1, "alpha": 0.25}, 1),
    ("FusedMatMul", [normal(2, 4, 3), normal(4, 5)], {"transA": 1}, 1),
    ("SkipLayerNormalization", [*LAYER], {"epsilon": 1e-6}, 1),
    ("SkipLayerNormalization", [*LAYER[:3], None, normal(8)], {}, 1),
    ("SkipLayerNormalization", [*LAYER, normal(8)], {}, 4),
    ("SkipSimplifiedLayerNormalization", [*LAYER[:3]], {"epsilon": 1e-6}, 4),
    (
        "EmbedLayerNormalization",
        [
            *(RANDOM.integers(0, 9, (2, 4), "int32"), RANDOM.integers(0, 2, (2, 4), "int32")),
            *(normal(9, 8), normal(6, 8), normal(2, 8), normal(8), normal(8)),
        ],
        {"epsilon": 1e-6, "mask_index_type": 0},
        1,
    ),
    ("Attention", [normal(2, 4, 8), normal(8, 24), normal(24)], {"num_heads": 2}, 1),
    ("Attention", [normal(2, 4, 8), normal(8, 24), normal(24), MASK], {"num_heads": 2}, 1),
    ("Attention", [normal(2, 4, 8), normal(8, 24), normal(24)], {"num_heads": 4, "unidirectional": 1}, 1),
    ("MultiHeadAttention", [*Q], {"num_heads": 2}, 1),
    ("MultiHeadAttention", [*Q, normal(24), MASK], {"num_heads": 4, "scale": 0.3}, 1),
    ("QLinearAdd", [A, scale(0.1), zero(100), B, scale(0.2), zero(7), scale(0.3), zero(50)], {}, 1),
    ("QLinearMul", [A, scale(0.1), zero(100), B, scale(0.2), zero(7), scale(9.3), zero(50)], {}, 1),
    ("QLinearSigmoid", [A, scale(0.02), zero(128), scale(1 / 256), zero(0)], {}, 1),
    ("QLinearLeakyRelu", [A, scale(0.1), zero(100), scale(0.08), zero(30)], {"alpha": 0.2}, 1),
    (
        "QLinearGlobalAveragePool",
        [bytes_(2, 3, 4, 5), scale(0.1), zero(100), scale(0.03), zero(90)],
        {"channels_last": 0},
        1,
    ),
    (
        "QLinearConcat",
        [scale(0.3), zero(50), A, scale(0.1), zero(100), A[::-1].copy(), scale(0.2), zero(3)],
        {"axis": 1},
        1,
    ),
    ("QLinearSoftmax", [A, scale(0.05), zero(10), scale(1 / 256), zero(0)], {"axis": -1, "opset": 13}, 1),
    (
        "MatMulIntegerToFloat",
        [bytes_(3, 4), bytes_(4, 5), scale(0.1), normal(5), zero(9), zero(120), normal(5)],
        {},
        1,
    ),
    (
        "QGemm",
        [
            A[0],
            scale(0.1),
            zero(100),
            bytes_(5, 8),
            scale(0.2),
            zero(7),
            np.arange(8, dtype="int32"),
            scale(9.0),
            zero(9),
        ],
        {"alpha": 0.5},
        1,
    ),
    (
        "QGemm",
        [A[0], scale(0.1), zero(100), bytes_(8, 5, dtype="int8"), normal(8), bytes_(8, dtype="int8")],
        {"transB": 1},
        1,
    ),
    ("RotaryEmbedding", [normal(2, 3, 16), PLACES, *ANGLES], {"num_heads": 2}, 1),
    ("RotaryEmbedding", [normal(2, 4, 3, 8), PLACES, *ANGLES], {"interleaved": 1}, 1),
    ("RotaryEmbedding", [normal(2, 3, 16), np.array([2]), *ANGLES], {}, 1),
    (
        "RotaryEmbedding",
        [normal(2, 3, 24), PLACES, *ANGLES],
        {"num_heads": 2, "rotary_embedding_dim": 8},
        1,
    ),
    ("DynamicQuantizeMatMul", [normal(3, 4), bytes_(4, 5), scale(0.1), zero(120), normal(5)], {}, 1),
]


PAST = (normal(2, 2, 5, 4), normal(2, 2, 5, 4))
#: Grouped heads: 4 heads of queries, 2 of keys and values, each of 16 elements.
KEYS, GROUPS_PAST = (normal(2, 4, 32), normal(2, 4, 32)), (normal(2, 2, 5, 16), normal(2, 2, 5, 16))
GROUPS: dict[str, object] = {"num_heads": 4, "kv_num_heads": 2}
#: The last place of each sequence, and the length, which includes the past.
LENGTHS = {length: (np.full(2, length - 1, "int32"), np.int32(length)) for length in (4, 6)}
WIDE_ANGLES = (np.cos(normal(9, 8)), np.sin(normal(9, 8)))
#: With a past, a batch of several tokens has one sequence.
ONE_SEQUENCE = (*(each[:1] for each in (*KEYS, *GROUPS_PAST)), np.full(1, 8, "int32"), np.int32(9))
CASES += [
    ("MultiHeadAttention", [*Q[1:2] * 3, None, None, None, *PAST], {"num_heads": 2, "unidirectional": 1}, 3),
    ("MultiHeadAttention", [*Q[1:2] * 3, None, np.ones((2, 9), "int32"), None, *PAST], {"num_heads": 2}, 3),
    (
        "Attention",
        [normal(2, 4, 8), normal(8, 24), normal(24), None, np.stack(PAST)],
        {"num_heads": 2, "unidirectional": 1},
        2,
    ),
    ("Attention", [normal(2, 4, 8), normal(8, 24), normal(24)], {"num_heads": 2}, 2),
    ("GroupQueryAttention", [normal(2, 4, 64), *KEYS, None, None, *LENGTHS[4]], GROUPS, 3),
    (
        "GroupQueryAttention",
        [normal(1, 4, 64), *ONE_SEQUENCE],
        GROUPS,
        3,
    ),
    ("GroupQueryAttention", [normal(2, 1, 128), None, None, *GROUPS_PAST, *LENGTHS[6]], GROUPS, 3),
    (
        "GroupQueryAttention",
        [
            normal(1, 4, 64),
            *ONE_SEQUENCE,
            *WIDE_ANGLES,
        ],
        {**GROUPS, "do_rotary": 1, "scale": 0.5, "softcap": 2.0},
        3,
    ),
    *(
        (
            "DynamicQuantizeLSTM",
            [
                normal(steps, 1, 6),  # onnxruntime's threads quantize parts of a batch
                *(bytes_(count, size, 32, dtype="int8") for size in (6, 8)),
                *(normal(count, 64), None, None, None, None),
                *[np.full(count, 0.004, "float32"), np.full(count, 3, "int8")] * 2,
            ],
            {"hidden_size": 8, "direction": "bidirectional" if count == 2 else "forward"},
            3,
        )
        for steps, count in ((3, 1), (7, 2))
    ),
    (
        "GroupQueryAttention",
        [normal(2, 4, 64), *KEYS, None, None, *LENGTHS[4], *WIDE_ANGLES],
        {**GROUPS, "do_rotary": 1, "rotary_interleaved": 1},
        3,
    ),
]


@pytest.mark.sampled(every=8)
@pytest.mark.full("DynamicQuantizeLSTM-47", "GroupQueryAttention-48", "DynamicQuantizeLSTM-46")
@pytest.mark.parametrize(
    ("op_type", "values", "attributes", "count"),
    CASES,
    ids=[f"{each[0]}-{i}" for i, each in enumerate(CASES)],
)
def test_an_operator_gives_what_onnxruntime_gives(
    op_type: str, values: list[np.ndarray | None], attributes: dict[str, object], count: int
) -> None:
    inputs = {f"x{index}": np.asarray(value) for index, value in enumerate(values) if value is not None}
    names = [f"x{index}" if value is not None else "" for index, value in enumerate(values)]
    outputs = {1: ["y"], 2: ["y", "past"], 3: ["y", "keys", "values"], 4: ["y", "", "", "total"]}[count]
    made = node(op_type, names, outputs, domain="com.microsoft", **attributes)
    proto = proto_of([made], inputs, [name for name in outputs if name])
    wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, inputs)
    found = nnmagic.from_onnx(proto)(*inputs.values())
    for have, want in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        assert have.dtype == want.dtype
        if want.dtype == "uint8":  # which of two neighbours a half is rounded to may depend on the order
            assert np.abs(have.astype(int) - want).max() <= 1
            assert (have != want).mean() <= 0.05
        else:
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("bits", "given"), [(4, False), (4, True), (8, True)])
def test_weights_of_few_bits_have_a_scale_for_each_block(bits: int, given: bool) -> None:
    rows, columns, block = 40, 6, 16
    blocks = -(-rows // block)
    weights = {"b": bytes_(columns, blocks, block * bits // 8), "s": normal(columns * blocks)}
    if given:
        weights["z"] = bytes_(columns * -(-blocks * bits // 8))
    made = node(
        *("MatMulNBits", ["x", *weights], ["y"]),
        domain="com.microsoft",
        K=rows,
        N=columns,
        bits=bits,
        block_size=block,
    )
    inputs = {"x": normal(2, 3, rows)}
    proto = proto_of([made], inputs, ["y"])
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, inputs)
    np.testing.assert_allclose(nnmagic.from_onnx(proto)(*inputs.values()), want, rtol=1e-4, atol=1e-3)


def test_a_root_mean_square_norm_is_in_the_standards_domain() -> None:
    inputs = {"x": normal(2, 3, 8), "s": normal(8)}
    made = node("SimplifiedLayerNormalization", ["x", "s"], ["y"], axis=-1, epsilon=1e-6)
    proto = proto_of([made], inputs, ["y"])
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, inputs)
    np.testing.assert_allclose(nnmagic.from_onnx(proto)(*inputs.values()), want, rtol=1e-4, atol=1e-5)


@pytest.mark.full
def test_attention_takes_sizes_that_only_the_call_knows() -> None:
    inputs = {"x": normal(2, 4, 8), "w": normal(8, 24), "b": normal(24), "mask": MASK}
    made = node("Attention", [*inputs], ["y"], domain="com.microsoft", num_heads=2, unidirectional=1)
    proto = proto_of([made], inputs, ["y"])
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    for value, sizes in ((proto.graph.input[0], ("n", "m")), (proto.graph.input[3], ("n", "m"))):
        for dim, name in zip(value.type.tensor_type.shape.dim, sizes, strict=False):
            dim.dim_param = name
    function = nnmagic.from_onnx(proto)
    (want,) = session.run(None, inputs)
    np.testing.assert_allclose(function(*inputs.values()), want, rtol=1e-4, atol=1e-5)
    first = [inputs["x"][:1, :3], inputs["w"], inputs["b"], MASK[:1, :3]]
    np.testing.assert_allclose(function(*first), want[:1, :3], rtol=1e-4, atol=1e-5)  # none looks ahead


def test_what_is_not_supported_is_refused_by_name() -> None:
    x = normal(2, 3)
    made = node("QuickGelu", ["x"], ["y"], domain="com.microsoft", beta=1.0)
    with pytest.raises(nnmagic.RelayError, match="QuickGelu: the attribute 'beta' is not supp"):
        nnmagic.relay.from_onnx(proto_of([made], {"x": x}, ["y"]))
    made = node(
        *("GroupQueryAttention", ["x", "k", "v", "", "", "last", "length"], ["y"]),
        domain="com.microsoft",
        local_window_size=2,
        **GROUPS,
    )
    given = {"x": normal(2, 4, 64), "k": KEYS[0], "v": KEYS[1], "last": LENGTHS[4][0], "length": np.int32(4)}
    with pytest.raises(nnmagic.RelayError, match="local windows are not supported"):
        nnmagic.relay.from_onnx(proto_of([made], given, ["y"]))


def test_a_batch_of_sequences_of_other_lengths_is_refused_at_the_call() -> None:
    made = node(
        *("GroupQueryAttention", ["x", "k", "v", "", "", "last", "length"], ["y"]),
        domain="com.microsoft",
        **GROUPS,
    )
    given = {"x": normal(2, 4, 64), "k": KEYS[0], "v": KEYS[1], "last": LENGTHS[4][0], "length": np.int32(4)}
    function = nnmagic.from_onnx(proto_of([made], given, ["y"]))
    given["last"] = np.array([3, 2], "int32")
    with pytest.raises(AssertionError, match="seqlens_k must be the length with the past"):
        function(*given.values())


@pytest.mark.full
def test_a_decoder_takes_a_past_of_any_length() -> None:
    """Steps of one token each, whose keys become the next one's past."""
    names = ["x", "k", "v", "past_keys", "past_values", "last", "length", "cosines", "sines"]
    made = node(
        *("GroupQueryAttention", names, ["y", "keys", "values"]),
        domain="com.microsoft",
        do_rotary=1,
        **GROUPS,
    )
    past = [np.zeros((2, 2, 1, 16), "float32")] * 2
    given = [normal(2, 1, 64), normal(2, 1, 32), normal(2, 1, 32), *past, *LENGTHS[4], *WIDE_ANGLES]
    proto = proto_of([made], dict(zip(names, given, strict=True)), ["y", "keys", "values"])
    for value in proto.graph.input[3:5]:
        value.type.tensor_type.shape.dim[2].dim_param = "past"
    session, function = onnxruntime.InferenceSession(proto.SerializeToString()), nnmagic.from_onnx(proto)
    for step in range(4):
        tokens = [normal(2, 1, 64), normal(2, 1, 32), normal(2, 1, 32)]
        last = np.full(2, step + 1, "int32")
        given = [*tokens, *past, last, np.int32(step + 2), *WIDE_ANGLES]
        want = session.run(None, dict(zip(names, map(np.asarray, given), strict=True)))
        have = function(*given)
        for ours, theirs in zip(have, want, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
        past = [np.asarray(each) for each in have[1:]]


def test_a_model_that_onnxruntime_optimised_gives_the_same_numbers(tmp_path: Path) -> None:
    """A convolution with an activation, and a block of a transformer written out, as exporters write them."""
    tensors = {
        "k": normal(4, 3, 3, 3), "kb": normal(4), "w1": normal(16, 8) / 4, "b1": normal(8),
        "w2": normal(8, 16) / 4, "g": normal(8), "s": normal(8), "root": scale(math.sqrt(2)),
        "half": scale(0.5), "one": scale(1), "flat": np.array([0, 4, 16]),
    }  # fmt: skip
    nodes = [
        node("Conv", ["x", "k", "kb"], ["c"]),
        node("Relu", ["c"], ["r"]),
        node("Reshape", ["r", "flat"], ["rows"]),
        node("MatMul", ["rows", "w1"], ["m"]),
        node("Add", ["m", "b1"], ["h"]),
        node("Div", ["h", "root"], ["d"]),
        node("Erf", ["d"], ["e"]),
        node("Add", ["e", "one"], ["e1"]),
        node("Mul", ["h", "e1"], ["he"]),
        node("Mul", ["he", "half"], ["gelu"]),
        node("Add", ["gelu", "skip"], ["sum"]),
        node("LayerNormalization", ["sum", "g", "s"], ["n"], axis=-1),
        node("Transpose", ["n"], ["t"], perm=[0, 2, 1]),
        node("MatMul", ["n", "t"], ["y"]),
    ]
    inputs = {"x": normal(2, 3, 6, 6), "skip": normal(2, 4, 8)}
    proto = proto_of(nodes, inputs, ["y"])
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in tensors.items())
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, inputs)
    fused = onnx.load(tmp_path / "fused.onnx")
    assert {each.op_type for each in fused.graph.node if each.domain == "com.microsoft"} >= {
        *("FusedConv", "SkipLayerNormalization", "FusedMatMul")
    }
    found = nnmagic.from_onnx(tmp_path / "fused.onnx")(*inputs.values())
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
