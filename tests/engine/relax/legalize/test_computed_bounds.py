"""Operators whose bounds, widths and lengths are computed: against NumPy and what real Relay computed."""

import numpy as np
import pytest

from nnmagic.engine.relax import build
from nnmagic.relay.expr import Function, Var
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.ops.calls import call
from nnmagic.relay.types import TensorType
from tests.engine.programs import compile_text

pytestmark = pytest.mark.sampled(every=3)

DATA = np.arange(12, dtype="float32").reshape(4, 3)
X = "%x: Tensor[(4, 3), float32]"


def ints(*values, dtype="int64"):
    return np.array(values, dtype)


def ranges(dtype):
    """A program of ``arange`` whose three operands are parameters."""
    params = tuple(Var(name, TensorType((), dtype)) for name in ("start", "stop", "step"))
    main = Function(params, call("arange", list(params), dtype=dtype))
    return build(infer_type(Module({"main": main})), "main")


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8", "uint8", "float16", "float32", "float64"])
def test_arange_from_operands(dtype):
    program = ranges(dtype)
    bounds = [(0, 5, 1), (0, 5, 2), (1, 1, 1), (3, 10, 4), (5, 0, 1)]
    bounds += [] if dtype == "uint8" else [(5, 0, -2), (0, 5, -1), (-3, 2, 1)]
    bounds += [(0.5, 3.25, 0.5), (2, -1, -0.75)] if dtype.startswith("float") else []
    for each in bounds:
        result = program([np.array(one, dtype) for one in each])
        np.testing.assert_array_equal(result, np.arange(*each).astype(dtype), strict=True)


def test_arange_without_a_step_is_refused():
    with pytest.raises(ValueError, match="the step must not be 0"):
        ranges("int32")([np.int32(0), np.int32(5), np.int32(0)])


@pytest.mark.full
def test_strided_set_at_computed_places():
    generator = np.random.default_rng(4)
    programs = {}
    for _ in range(40):
        begin, end, strides = (generator.integers(low, high, 2) for low, high in ((-4, 4), (-4, 7), (-3, 4)))
        strides[strides == 0] = 1
        end = np.where((strides < 0) & (end > 3), 0, end)
        where = tuple(map(slice, begin, end, strides))
        expected = DATA.copy()
        values = -1 - np.arange(expected[where].size, dtype="float32").reshape(expected[where].shape)
        if values.size == 0:
            continue
        expected[where] = values
        shape = values.shape
        if shape not in programs:
            vector = "Tensor[(2), int32]"
            programs[shape] = (
                compile_text(f"""def @main({X}, %v: Tensor[{shape}, float32], %b: {vector}, %e: {vector},
              %s: {vector}) {{ strided_set(%x, %v, %b, %e, %s) }}""")
            )
        bounds = [part.astype("int32") for part in (begin, end, strides)]
        np.testing.assert_array_equal(programs[shape]([DATA, values, *bounds]), expected)
    assert len(programs) >= 4


def test_slices_by_lengths():
    program = compile_text(
        f"def @main({X}, %b: Tensor[(2), int64], %l: Tensor[(2), int64], %s: Tensor[(2), int64]) {{"
        "dyn.strided_slice(%x, %b, %l, %s, begin=None, end=None, strides=None, "
        'slice_mode="size", axes=None) }'
    )
    for begin, lengths, expected in [
        ((1, 0), (2, 3), DATA[1:3]),
        ((-3, 1), (2, -1), DATA[1:3, 1:]),
    ]:
        result = program([DATA, ints(*begin), ints(*lengths), ints(1, 1)])
        np.testing.assert_array_equal(result, expected, strict=True)


def test_strided_set_of_values_that_do_not_fit_is_refused():
    vector = "Tensor[(1), int32]"
    program = compile_text(f"""def @main({X}, %v: Tensor[(2, 3), float32], %b: {vector}, %e: {vector},
      %s: {vector}) {{
      strided_set(%x, %v, %b, %e, %s) }}""")
    with pytest.raises(ValueError, match="the shape of the slice"):
        program([DATA, DATA[:2], *(ints(one, dtype="int32") for one in (0, 3, 1))])
    result = program([DATA, DATA[2:], *(ints(one, dtype="int32") for one in (0, 2, 1))])
    np.testing.assert_array_equal(result, DATA[[2, 3, 2, 3]])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize("widths", [[[1, 0], [0, 2]], [[0, 0], [0, 0]], [[2, 3], [1, 1]]])
def test_pad_by_computed_widths(mode, widths):
    program = compile_text(f"""def @main({X}, %w: Tensor[(2, 2), int32], %v: float32) {{
      dyn.nn.pad(%x, add(%w, %w), %v, pad_width=[], pad_mode="{mode}") }}""")
    half = np.array(widths, "int32")
    if mode == "reflect":
        half = np.minimum(half, 1)
    options = {"constant_values": 0.5} if mode == "constant" else {}
    expected = np.pad(DATA, half * 2, mode=mode, **options)
    np.testing.assert_array_equal(program([DATA, half, np.float32(0.5)]), expected, strict=True)


#: Measured on real Relay: shape of the data, the codes, the new shape.
RESHAPES = [
    ((2, 2, 3), (-3, 3), (4, 3)),
    ((2, 2, 3), (0, -3), (2, 6)),
    ((2, 2, 3), (0, -1), (2, 6)),
    ((4, 3), (-1, 0), (4, 3)),
]


@pytest.mark.parametrize(("shape", "codes", "expected"), RESHAPES)
def test_reshape_by_computed_codes(shape, codes, expected):
    program = compile_text(f"""def @main(%x: Tensor[{shape}, float32], %s: Tensor[(2), int64]) {{
      dyn.reshape(%x, %s, newshape=[]) }}""")
    result = program([DATA.reshape(shape), ints(*codes)])
    np.testing.assert_array_equal(result, DATA.reshape(expected), strict=True)


def test_topk_of_no_number_is_everything():
    program = compile_text(
        f'def @main({X}, %k: int64) {{ dyn.topk(%x, %k, k=None, ret_type="values", dtype="int32") }}'
    )
    for k in (0, -1, 3):
        np.testing.assert_array_equal(program([DATA, np.int64(k)]), DATA[:, ::-1])


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_unique_in_the_order_of_the_data(dtype):
    program = compile_text(f"""def @main(%x: Tensor[(?), {dtype}]) {{
      unique(%x, sorted=False, return_counts=True) }}""")
    for data in ([5, 3, 5, 1, 1, 3, 9, 0], [7] * 8, [2], [], [0, 9, 3, 1, 1, 5, 3, 5]):
        given = np.array(data, dtype)
        elements, starts, inverse, number, counts = program([given])
        _, first, every = np.unique(given, return_index=True, return_counts=True)
        order = np.argsort(first)
        assert number == len(order)
        np.testing.assert_array_equal(starts[: len(order)], first[order])
        np.testing.assert_array_equal(elements[: len(order)], given[first[order]])
        np.testing.assert_array_equal(counts[: len(order)], every[order])
        np.testing.assert_array_equal(elements[inverse], given)
        assert not elements[len(order) :].any()


@pytest.mark.parametrize(("stride", "dilation"), [(1, 2), (2, 3)])
def test_dilated_transposed_convolution(stride, dilation):
    """Real Relay has a type for it and no kernel."""
    generator = np.random.default_rng(6)
    data, weight = (
        generator.standard_normal(shape).astype("float32") for shape in ((1, 2, 4, 3), (2, 3, 2, 3))
    )
    program = compile_text(f"""def @main(
        %x: Tensor[(1, 2, 4, 3), float32], %w: Tensor[(2, 3, 2, 3), float32]) {{
      nn.conv2d_transpose(%x, %w, channels=3, kernel_size=[2, 3], strides=[{stride}, {stride}],
                          padding=[0, 0, 0, 0], dilation=[{dilation}, {dilation}]) }}""")
    expected = np.zeros((1, 3, 3 * stride + dilation + 1, 2 * stride + 2 * dilation + 1))
    for row, column in np.ndindex(4, 3):
        added = np.einsum("ni,iohw->nohw", data[:, :, row, column], weight)
        top, left = row * stride, column * stride
        expected[:, :, top : top + dilation + 1 : dilation, left : left + 2 * dilation + 1 : dilation] += (
            added
        )
    np.testing.assert_allclose(program([data, weight]), expected, rtol=1e-5, atol=1e-5)
