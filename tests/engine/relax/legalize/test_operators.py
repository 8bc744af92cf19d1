"""Operators of networks, of shapes and of indices against NumPy.

`engine/relax/legalize/scattering` has those that assign elements.
"""

import numpy as np
import pytest

from nnmagic.engine import EngineError
from tests.engine.programs import compile_text, numpy_dtype

pytestmark = pytest.mark.sampled(every=6)

TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-12}


def draw_values(dtype, *shape, seed=0):
    generator = np.random.default_rng([seed, *shape])
    if dtype.startswith(("int", "uint")):
        return generator.integers(0, 7, shape).astype(dtype)
    return generator.standard_normal(shape).astype(numpy_dtype(dtype))


def tensor(array):
    dtype = "bfloat16" if array.dtype.kind == "V" or array.dtype.name == "bfloat16" else array.dtype.name
    return f"Tensor[({', '.join(map(str, array.shape))}), {dtype}]" if array.shape else dtype


def run(body, **arrays):
    """The results of a body whose variables are the arrays."""
    params = ", ".join(f"%{name}: {tensor(array)}" for name, array in arrays.items())
    return compile_text(f"def @main({params}) {{ {body} }}")(list(arrays.values()))


def assert_close(result, expected, tolerance=2e-5):
    assert result.shape == expected.shape
    np.testing.assert_allclose(result.astype("f8"), expected.astype("f8"), rtol=tolerance, atol=tolerance)


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("m", "k", "n"), [(2, 3, 4), (1, 1, 1), (17, 33, 5), (3, 0, 2), (0, 3, 2)])
def test_matrix_products(dtype, m, k, n):
    a, b = draw_values(dtype, m, k), draw_values(dtype, k, n)
    wide = a.astype("f8") @ b.astype("f8")
    body = (
        "(nn.matmul(%a, %b, units=None), nn.dense(%a, %w, units=None), "
        "nn.matmul(%t, %w, units=None, transpose_a=True, transpose_b=True))"
    )
    for result in run(body, a=a, b=b, w=np.ascontiguousarray(b.T), t=np.ascontiguousarray(a.T)):
        assert result.dtype == a.dtype
        assert_close(result, wide, TOLERANCE[dtype])


def test_batched_and_integer_products():
    a, b = draw_values("float32", 4, 2, 3), draw_values("float32", 1, 5, 3)
    assert_close(run("nn.batch_matmul(%a, %b, transpose_b=True)", a=a, b=b), a @ b.transpose(0, 2, 1))
    x = np.full((2, 300), 100, "i1")
    result = run('nn.dense(%x, %x, units=None, out_dtype="int32")', x=x)
    np.testing.assert_array_equal(result, np.full((2, 2), 300 * 100 * 100, "i4"))


def test_a_product_of_matrices_that_do_not_fit_is_refused():
    with pytest.raises(EngineError, match=r"nn\.dense: the inner dimensions differ"):
        run("nn.dense(%a, %b, units=None)", a=draw_values("float32", 2, 3), b=draw_values("float32", 4, 5))
    params = "%a: Tensor[(2, ?), float32], %b: Tensor[(?, 4), float32]"
    program = f"def @main({params}) {{ nn.matmul(%a, %b, units=None) }}"
    with pytest.raises(ValueError, match=r"nn\.matmul: the inner dimensions differ"):
        compile_text(program)([draw_values("float32", 2, 3), draw_values("float32", 5, 4)])


def test_shapes_that_turn_out_not_to_broadcast_are_refused():
    add = compile_text("def @main(%a: Tensor[(?), float32], %b: Tensor[(?), float32]) { add(%a, %b) }")
    one, three, four = (draw_values("float32", size) for size in (1, 3, 4))
    np.testing.assert_array_equal(add([one, three]), one + three)
    np.testing.assert_array_equal(add([three, one]), three + one)
    np.testing.assert_array_equal(add([three, three]), three + three)
    with pytest.raises(ValueError, match="do not broadcast together"):
        add([three, four])
    np.testing.assert_array_equal(add([four, one]), four + one)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_activations(dtype):
    x = draw_values(dtype, 3, 5, 7)
    wide = x.astype("f8")
    body = "(nn.softmax(%x), nn.softmax(%x, axis=1), nn.log_softmax(%x), nn.leaky_relu(%x, alpha=0.1f))"
    expected = (
        softmax(wide, -1),
        softmax(wide, 1),
        np.log(softmax(wide, -1)),
        np.where(wide > 0, wide, wide * 0.1),
    )
    for result, wanted in zip(run(body, x=x), expected, strict=True):
        assert result.dtype == x.dtype
        assert_close(result, wanted, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_normalisation(dtype):
    x = (draw_values(dtype, 4, 6, 5) * np.asarray(0.5, numpy_dtype(dtype))).astype(numpy_dtype(dtype))
    g, b, m = (draw_values(dtype, 6, seed=seed) for seed in (1, 2, 3))
    v = np.abs(draw_values(dtype, 6, seed=4)) + np.asarray(0.5, x.dtype)
    wide, gw, bw, mw, vw = (array.astype("f8") for array in (x, g, b, m, v))
    column = (slice(None), None)
    batch = (wide - mw[column]) / np.sqrt(vw[column] + 1e-5) * gw[column] + bw[column]

    def standard(axes):
        return (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + 1e-5)

    groups = wide.reshape(4, 2, 3, 5)
    grouped = (groups - groups.mean((2, 3), keepdims=True)) / np.sqrt(
        groups.var((2, 3), keepdims=True) + 1e-5
    )
    body = (
        "let %n = nn.batch_norm(%x, %g, %b, %m, %v); (%n.0, %n.1, %n.2, nn.layer_norm(%x, %g, %b, axis=1), "
        "nn.instance_norm(%x, %g, %b), nn.group_norm(%x, %g, %b, num_groups=2))"
    )
    actual = run(body, x=x, g=g, b=b, m=m, v=v)
    scale = lambda values: values * gw[column] + bw[column]  # noqa: E731
    expected = [batch, mw, vw, scale(standard(1)), scale(standard(2)), scale(grouped.reshape(4, 6, 5))]
    for result, wanted in zip(actual, expected, strict=True):
        assert_close(result, wanted, 2 * TOLERANCE[dtype])


def test_layer_norm_does_not_cancel():
    x = (10_000 + np.random.default_rng(1).standard_normal((2, 64))).astype("f4")
    ones, zeros = np.ones(64, "f4"), np.zeros(64, "f4")
    wide = x.astype("f8")
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    assert_close(run("nn.layer_norm(%x, %g, %b)", x=x, g=ones, b=zeros), expected, 2e-3)


def windows(x, size, stride, pad, dilation=1, fill=0.0):
    """Sliding windows of the last two axes: (..., rows, columns, size, size)."""
    padded = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(pad, pad)] * 2, constant_values=fill)
    reach = (size - 1) * dilation + 1
    view = np.lib.stride_tricks.sliding_window_view(padded, (reach, reach), axis=(-2, -1))
    return view[..., ::stride, ::stride, ::dilation, ::dilation]


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("stride", "pad", "dilation", "groups"),
    [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 1), (1, 1, 1, 2), (1, 1, 1, 4)],
)
def test_conv2d(dtype, stride, pad, dilation, groups):
    x, w = draw_values(dtype, 2, 4, 9, 7), draw_values(dtype, 8, 4 // groups, 3, 3)
    attrs = f"strides={[stride] * 2}, padding={[pad] * 4}, dilation={[dilation] * 2}, groups={groups}"
    body = f"nn.conv2d(%x, %w, {attrs})"
    view = windows(x.astype("f8"), 3, stride, pad, dilation)
    split = zip(np.split(view, groups, 1), np.split(w.astype("f8"), groups, 0), strict=True)
    expected = np.concatenate([np.einsum("ncrskl,ockl->nors", part, kernel) for part, kernel in split], 1)
    result = run(body, x=x, w=w)
    assert result.dtype == x.dtype
    assert_close(result, expected, TOLERANCE[dtype])


def test_pooling():
    x = draw_values("float32", 2, 3, 8, 8)
    size = "pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1]"
    body = (
        f"(nn.max_pool2d(%x, {size}), nn.avg_pool2d(%x, {size}), "
        f"nn.avg_pool2d(%x, {size}, count_include_pad=True), "
        "nn.global_avg_pool2d(%x), nn.global_max_pool2d(%x), nn.adaptive_avg_pool2d(%x, output_size=[4, 4]))"
    )
    real = windows(np.ones_like(x), 3, 2, 1).sum((-1, -2))
    sums = windows(x, 3, 2, 1).sum((-1, -2))
    expected = [
        windows(x, 3, 2, 1, fill=-np.inf).max((-1, -2)),
        sums / real,
        sums / 9,
        x.mean((2, 3), keepdims=True),
        x.max((2, 3), keepdims=True),
        windows(x, 2, 2, 0).mean((-1, -2)),
    ]
    for result, wanted in zip(run(body, x=x), expected, strict=True):
        assert_close(result, wanted)


X = np.arange(24, dtype="i4").reshape(2, 3, 4)
#: body of %x = X -> what NumPy gives.
SHAPING = {
    "reshape(%x, newshape=[4, -1])": X.reshape(4, 6),
    "reshape(%x, newshape=[0, -1])": X.reshape(2, 12),
    "reshape(%x, newshape=[-3, 4])": X.reshape(6, 4),
    "reshape(%x, newshape=[-4, 1, 2, -2])": X.reshape(1, 2, 3, 4),
    "reshape(%x, newshape=[-4, -1, 2, -3])": X.reshape(1, 2, 12),
    "contrib_reverse_reshape(%x, newshape=[-1, 0])": X.reshape(6, 4),
    "transpose(%x, axes=None)": X.transpose(),
    "transpose(%x, axes=[1, -1, 0])": X.transpose(1, 2, 0),
    "expand_dims(%x, axis=-1)": X[..., None],
    "expand_dims(%x, axis=1, num_newaxis=2)": X[:, None, None],
    "squeeze(expand_dims(%x, axis=1), axis=[1])": X,
    "nn.batch_flatten(%x)": X.reshape(2, 12),
    "concatenate((%x, %x), axis=1)": np.concatenate([X, X], 1),
    "concatenate((%x, %x), axis=-1)": np.concatenate([X, X], -1),
    "stack((%x, %x), axis=2)": np.stack([X, X], 2),
    "split(%x, indices_or_sections=[1, 3], axis=2)": tuple(np.split(X, [1, 3], 2)),
    "split(%x, indices_or_sections=2)": tuple(np.split(X, 2)),
    "strided_slice(%x, begin=[0, 1], end=[2, 3], strides=[1], axes=None)": X[0:2, 1:3],
    "strided_slice(%x, begin=[-1], end=[-100], strides=[-2], axes=[2])": X[..., ::-2],
    "strided_slice(%x, begin=[1], end=[100], strides=[2], axes=[2])": X[..., 1::2],
    'strided_slice(%x, begin=[0, 1, 1], end=[-1, 2, 2], strides=[1], slice_mode="size", axes=None)': (
        X[:, 1:3, 1:3]
    ),
    "broadcast_to(%x, shape=[5, 2, 3, 4])": np.broadcast_to(X, (5, 2, 3, 4)),
    "reverse(%x, axis=1)": X[:, ::-1],
    "repeat(%x, repeats=2, axis=1)": X.repeat(2, 1),
    "tile(%x, reps=[2, 1, 1, 3])": np.tile(X, (2, 1, 1, 3)),
    "nn.pad(%x, 7, pad_width=[[0, 0], [1, 0], [2, 3]])": (
        np.pad(X, [(0, 0), (1, 0), (2, 3)], constant_values=7)
    ),
    'nn.pad(%x, 0, pad_width=[[0, 0], [1, 2], [3, 1]], pad_mode="reflect")': (
        np.pad(X, [(0, 0), (1, 2), (3, 1)], "reflect")
    ),
    'nn.pad(%x, 0, pad_width=[[1, 0], [1, 2], [3, 1]], pad_mode="edge")': (
        np.pad(X, [(1, 0), (1, 2), (3, 1)], "edge")
    ),
    'layout_transform(%x, src_layout="NCW", dst_layout="NWC")': X.transpose(0, 2, 1),
    'zeros(shape=[2, 0, 3], dtype="int8")': np.zeros((2, 0, 3), "i1"),
    'ones(shape=[2, 3], dtype="float16")': np.ones((2, 3), "f2"),
    'full(2.5f, shape=[2], dtype="float64")': np.full(2, 2.5),
    "full_like(%x, 3)": np.full_like(X, 3),
    'shape_of(%x, dtype="int64")': np.array([2, 3, 4]),
    'ndarray_size(%x, dtype="int32")': np.array(24, "i4"),
    'one_hot(%x, 1f, 0f, depth=24, dtype="float32")': np.eye(24, dtype="f4")[X],
    "sort(%x, axis=1, is_ascend=False)": np.sort(X, 1)[:, ::-1],
    'argsort(%x, axis=1, is_ascend=False, dtype="int32")': np.argsort(-X, 1).astype("i4"),
}


def test_shaping_with_every_shape_known():
    bodies = list(SHAPING)
    flat = [
        part for wanted in SHAPING.values() for part in (wanted if isinstance(wanted, tuple) else (wanted,))
    ]
    parts = run(f"({', '.join(bodies)})", x=X)
    actual = [one for part in parts for one in (part if isinstance(part, tuple) else (part,))]
    for result, wanted in zip(actual, flat, strict=True):
        assert result.dtype == wanted.dtype
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize(
    "body",
    [
        "reshape(%x, newshape=[-1])",
        "transpose(%x, axes=None)",
        "concatenate((%x, %x), axis=1)",
        "strided_slice(%x, begin=[-3], end=[100], strides=[2], axes=[0])",
        "strided_slice(%x, begin=[-1], end=[-100], strides=[-1], axes=[0])",
        "stack((%x, %x), axis=0)",
        "repeat(%x, repeats=2, axis=0)",
        "tile(%x, reps=[2, 1])",
        'shape_of(%x, dtype="int64")',
        "argwhere(%x)",
    ],
)
def test_shaping_of_an_unknown_number_of_rows(body):
    executable = compile_text(f"def @main(%x: Tensor[(?, 3), int32]) {{ {body} }}")
    numpy = {
        "reshape": lambda x: x.reshape(-1),
        "transpose": lambda x: x.T,
        "concatenate": lambda x: np.concatenate([x, x], 1),
        "strided_slice": lambda x: x[-3:100:2] if "[100]" in body else x[::-1],
        "stack": lambda x: np.stack([x, x]),
        "repeat": lambda x: x.repeat(2, 0),
        "tile": lambda x: np.tile(x, (2, 1)),
        "shape_of": lambda x: np.array(x.shape),
        "argwhere": np.argwhere,
    }[body.partition("(")[0]]
    for rows in (0, 1, 2, 5, 40):
        x = np.random.default_rng(rows).integers(0, 3, (rows, 3)).astype("i4")
        np.testing.assert_array_equal(executable([x]), numpy(x))


def test_taking_and_gathering():
    x = draw_values("float32", 4, 5)
    i = np.array([[0, 3], [2, 1]], "i4")
    body = (
        "(take(%x, %i), take(%x, %i, axis=1), take(%x, %i, axis=0), gather(%x, %j, axis=0), "
        "gather_nd(%x, %p), adv_index((%x, %r, %r)))"
    )
    j = np.array([[0, 1, 2, 3, 0], [3, 2, 1, 0, 3]], "i8")
    p, r = np.array([[0, 3, 1], [4, 0, 2]], "i4"), np.array([1, 3], "i4")
    actual = run(body, x=x, i=i, j=j, p=p, r=r)
    expected = [x.ravel()[i], x[:, i], x[i], np.take_along_axis(x, j, 0), x[p[0], p[1]], x[r, r]]
    for result, wanted in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_no_index_reaches_outside_the_data():
    x = np.arange(5, dtype="f4")
    wild = np.array([-(2**31), -6, -1, 4, 5, 2**31 - 1], "i4")
    body = (
        '(take(%x, %i, axis=0), take(%x, %i, axis=0, mode="wrap"), '
        "gather(%x, %i, axis=0), scatter_elements(%x, %i, %u, axis=0))"
    )
    clipped, wrapped, gathered, scattered = run(body, x=x, i=wild, u=np.full(6, 9, "f4"))
    np.testing.assert_array_equal(clipped, np.take(x, wild, mode="clip"))
    np.testing.assert_array_equal(wrapped, np.take(x, wild, mode="wrap"))
    np.testing.assert_array_equal(gathered, [0, 0, 4, 4, 4, 4])
    assert scattered.shape == (5,)


def test_taking_fast_refuses_an_index_that_there_is_not():
    x = np.arange(5, dtype="f4")
    body = 'take(%x, %i, axis=0, mode="fast")'
    np.testing.assert_array_equal(run(body, x=x, i=np.array([[4, 0], [2, 2]])), [[4, 0], [2, 2]])
    for wild in ([0, 5, 2], [[1, 5]], 5):
        with pytest.raises(IndexError, match=r"^index 5 is out of range for an axis of size 5$"):
            run(body, x=x, i=np.array(wild))
    assert run(body, x=x[:0], i=np.zeros((0, 2), "i4")).shape == (0, 2)


def test_scattering():
    x, u = np.zeros((3, 4), "f4"), np.array([[1, 2], [3, 4], [5, 6]], "f4")
    i = np.array([[0, 3], [1, 1], [2, 0]], "i8")
    body = '(scatter_elements(%x, %i, %u, axis=1), scatter_elements(%x, %i, %u, axis=1, reduction="add"))'
    update, total = run(body, x=x, i=i, u=u)
    expected = np.zeros((3, 4), "f4")
    np.put_along_axis(expected, i, u, 1)
    np.testing.assert_array_equal(update, expected)
    summed = np.zeros((3, 4), "f4")
    np.add.at(summed, (np.arange(3)[:, None], i), u)
    np.testing.assert_array_equal(total, summed)


@pytest.mark.sampled(every=9)
@pytest.mark.full("float64")
@pytest.mark.parametrize("dtype", [*TOLERANCE, "int8", "uint16", "int32", "int64", "uint32", "uint64"])
def test_sorting(dtype):
    x = np.random.default_rng(4).permutation(60).reshape(3, 20).astype(numpy_dtype(dtype))
    result = run('(sort(%x), topk(%x, k=4, dtype="int32"), searchsorted(%s, %x))', x=x, s=np.sort(x, 1))
    ordered, (largest, positions), where = result
    np.testing.assert_array_equal(ordered, np.sort(x))
    np.testing.assert_array_equal(largest, np.sort(x)[:, :-5:-1])
    np.testing.assert_array_equal(positions, np.argsort(x)[:, :-5:-1])
    np.testing.assert_array_equal(where, np.argsort(np.argsort(x)))


@pytest.mark.full
def test_sorting_puts_nan_last_and_keeps_the_order_of_equals():
    generator = np.random.default_rng(6)
    x = generator.integers(-3, 4, (4, 300)).astype("f4")
    x[generator.random(x.shape) < 0.3] = np.nan
    x[generator.random(x.shape) < 0.1] = -np.inf
    ordered, positions, (largest, _) = run(
        '(sort(%x), argsort(%x, dtype="int32"), topk(%x, k=300, dtype="int32"))', x=x
    )
    np.testing.assert_array_equal(ordered, np.sort(x))
    np.testing.assert_array_equal(positions, np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(largest, np.sort(x)[:, ::-1])


@pytest.mark.full
def test_shapes_from_values():
    x = draw_values("float32", 2, 6)
    program = (
        "def @main(%x: Tensor[(2, 6), float32], %s: Tensor[(3), int64], %k: int64) { "
        '(dyn.reshape(%x, %s, newshape=[]), dyn.zeros(%s, shape=None, dtype="int32"), '
        'dyn.full(2f, %s, shape=None, dtype="float32"), dyn.topk(%x, %k, k=None, dtype="int32")) }'
    )
    executable = compile_text(program)
    for shape in ((3, 2, 2), (1, 12, 1)):
        reshaped, zeros, full, (largest, _) = executable([x, np.array(shape), np.array(shape[2] + 1)])
        np.testing.assert_array_equal(reshaped, x.reshape(shape))
        np.testing.assert_array_equal(zeros, np.zeros(shape, "i4"))
        np.testing.assert_array_equal(full, np.full(shape, 2, "f4"))
        np.testing.assert_array_equal(largest, -np.sort(-x)[:, : shape[2] + 1])
    with pytest.raises(ValueError, match="has not as many elements"):
        executable([x, np.array((5, 2, 2)), np.array(1)])
    with pytest.raises(ValueError, match="negative"):
        executable([x, np.array((-3, -2, 2)), np.array(1)])


def test_fourier_transforms():
    re, im = draw_values("float32", 3, 16), draw_values("float32", 3, 16, seed=1)
    forward, backward = run("(dft(%re, %im), dft(%re, %im, inverse=True))", re=re, im=im)
    signal = re + 1j * im
    for (real, imaginary), wanted in ((forward, np.fft.fft(signal)), (backward, np.fft.ifft(signal))):
        assert_close(real, wanted.real, 1e-5)
        assert_close(imaginary, wanted.imag, 1e-5)
