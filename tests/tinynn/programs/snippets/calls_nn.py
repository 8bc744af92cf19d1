"""Operators of neural networks, and what every call checks."""

# ruff: noqa: E501  # a case reads best on one line

import math
from types import ModuleType

import numpy as np
import numpy.random  # NumPy loads it on its first use

from nnmagic.relay.types import NUMPY_DTYPES
from tests.tinynn.programs.snippets.cases import Accepted, Case, accepted, function, refused

X = "x: Tensor[(2, 3), f32]"
IMAGE = "x: Tensor[(1, 4, 6, 6), f32]"
LINE = "x: Tensor[(2, 4, 8), f32]"
SUMS = {"rtol": 1e-4, "why": "long sums in another order"}


def called(name: str) -> str:
    """What to do about a function of Python that is called with ``x``."""
    return (
        "call it in another cell, and pass its result as an argument; where a function needs it in the "
        f"middle, write callback({name}, x, result=Tensor[(2, 3), f32]), which calls Python"
    )


#: What a library's module looks like to a cell, which reads names off it and runs nothing.
TORCH = ModuleType("torch.nn.functional")


def _raise(*_args: object) -> object:
    raise AssertionError("nothing of the notebook runs")


class Layer:
    """What a user of PyTorch would call: a cell must not."""

    __call__ = _raise


TORCH.multi_margin_loss = TORCH.topk = _raise  # type: ignore[attr-defined]  # a module holds what it is given
CASES: list[Case] = [
    accepted("mathematics", X, "exp(x), log(abs(x) + 1), sqrt(abs(x)), x.sin(), cos(x), tanh(x), floor(x), ceil(x), trunc(x), sign(x)"),
    accepted("inverse-functions", "x: Tensor[(3,), f64]", "asin(x), acos(x), atan(x), sinh(x), cosh(x), tan(x)", within={"x": (-0.9, 0.9)}),
    accepted("logarithms", "x: Tensor[(3,), f64]", "log(x), log2(x), log10(x), rsqrt(x)", within={"x": (0.1, 9)}),
    accepted("absolute-values", "x: Tensor[(3,), f32], i: Tensor[(3,), i32]", "abs(x), abs(i), x.abs(), i.abs()"),
    accepted("activations", X, "relu(x), sigmoid(x), tanh(x), softmax(x), log_softmax(x), leaky_relu(x, alpha=0.1), gelu(x)", rtol=2e-6, why="single precision of exp and erf"),
    accepted("operators-by-their-whole-name", X, "nn.relu(x), nn.softmax(x, axis=0), relay.nn.relu(x), nn.leaky_relu(x, 0.2), relay.exp(x)"),
    accepted("operators-as-methods", X, "x.relu(), x.softmax(axis=0), x.exp().log(), x.tanh() * x.sigmoid()"),
    accepted("softmax-of-an-axis", "x: Tensor[(2, 3, 4), f32]", "softmax(x, axis=0), softmax(x, 1), softmax(x, axis=-1), log_softmax(x, axis=1)"),
    accepted("softmax-of-large-numbers", X, "softmax(x * 100), log_softmax(x * 100)", rtol=1e-4, why="differences of large logarithms"),
    accepted("softmax-of-a-named-batch", 'x: Tensor[("n", 4), f32]', "softmax(x, axis=-1), softmax(x, axis=0)"),
    accepted("bias", "x: Tensor[(2, 3, 4), f32], b: Tensor[(3,), f32], c: Tensor[(4,), f32]", "bias_add(x, b), nn.bias_add(x, c, axis=-1)"),
    accepted("prelu", "x: Tensor[(2, 3, 4), f32], a: Tensor[(3,), f32]", "prelu(x, a)"),
    accepted("linear-layers", "x: Tensor[(2, 3), f32], w: Tensor[(4, 3), f32], b: Tensor[(4,), f32]", "linear(x, w, b), linear(x, w), dense(x, w), nn.dense(x, w)"),
    accepted("products", "x: Tensor[(2, 3), f32], y: Tensor[(3, 4), f32], z: Tensor[(4, 3), f32]", "matmul(x, y), x.matmul(y), nn.matmul(x, z, transpose_b=True)"),
    accepted("products-of-batches", "x: Tensor[(5, 2, 3), f32], y: Tensor[(5, 4, 3), f32]", "batch_matmul(x, y), nn.batch_matmul(x, y, transpose_b=True)"),
    accepted("conv2d", f"{IMAGE}, w: Tensor[(2, 4, 3, 3), f32]", "conv2d(x, w), conv2d(x, w, padding=1), conv2d(x, w, strides=2, padding=(1, 1)), conv2d(x, w, dilation=2)", **SUMS),
    accepted("conv2d-with-a-bias", f"{IMAGE}, w: Tensor[(2, 4, 3, 3), f32], b: Tensor[(2,), f32]", "conv2d(x, w, b), conv2d(x, w, bias=b, strides=(2, 1), kernel_size=(3, 3))", **SUMS),
    accepted("conv2d-of-groups", f"{IMAGE}, w: Tensor[(4, 2, 3, 3), f32], d: Tensor[(4, 1, 3, 3), f32]", "conv2d(x, w, groups=2), conv2d(x, d, groups=4, padding=1)", **SUMS),
    accepted("conv2d-with-channels-last", "x: Tensor[(1, 6, 6, 4), f32], w: Tensor[(3, 3, 4, 2), f32]", "conv2d(x, w, data_layout='NHWC', kernel_layout='HWIO', padding=1)", **SUMS),
    accepted("conv2d-with-channels-last-as-large-as-the-data", "x: Tensor[(1, 6, 6, 4), f32], w: Tensor[(3, 5, 4, 2), f32]", "conv2d(x, w, data_layout='NHWC', kernel_layout='HWIO', padding='same'), conv2d(x, w, data_layout='NHWC', kernel_layout='HWIO', padding='same', dilation=(2, 1))", **SUMS),
    accepted("conv2d-with-uneven-padding", f"{IMAGE}, w: Tensor[(2, 4, 2, 3), f32]", "conv2d(x, w, padding=(1, 0, 2, 1))", **SUMS),
    accepted("conv2d-of-a-named-batch", 'x: Tensor[("n", 2, 5, 5), f32], w: Tensor[(3, 2, 3, 3), f32]', "relu(conv2d(x, w, padding=1))", **SUMS),
    accepted("conv1d", f"{LINE}, w: Tensor[(3, 4, 3), f32], b: Tensor[(3,), f32]", "conv1d(x, w), conv1d(x, w, b, padding=1, strides=2)", **SUMS),
    accepted("conv3d", "x: Tensor[(1, 2, 4, 4, 4), f32], w: Tensor[(2, 2, 2, 2, 2), f32]", "conv3d(x, w), conv3d(x, w, padding=1, strides=2)", **SUMS),
    accepted("max-pooling", IMAGE, "max_pool2d(x, pool_size=2), max_pool2d(x, pool_size=(2, 3), strides=2), max_pool2d(x, pool_size=3, strides=2, padding=1)"),
    accepted("average-pooling", IMAGE, "avg_pool2d(x, pool_size=2, strides=2), avg_pool2d(x, pool_size=3, padding=1)"),
    accepted("pooling-of-lines", LINE, "max_pool1d(x, pool_size=2, strides=2), avg_pool1d(x, pool_size=3, strides=1)"),
    accepted("pooling-that-rounds-up", IMAGE, "max_pool2d(x, pool_size=4, strides=3, ceil_mode=True)"),
    accepted("global-pooling", IMAGE, "global_avg_pool2d(x), global_max_pool2d(x), adaptive_avg_pool2d(x, (1, 1)), adaptive_max_pool2d(x, (2, 3))"),
    accepted("adaptive-pooling", IMAGE, "adaptive_avg_pool2d(x, (4, 4)), adaptive_avg_pool2d(x, output_size=(3, 2))"),
    accepted("layer-norm", "x: Tensor[(2, 8), f32], g: Tensor[(8,), f32], b: Tensor[(8,), f32]", "layer_norm(x, g, b), layer_norm(x, g, b, epsilon=0.1)", **SUMS),
    accepted("batch-norm", f"{IMAGE}, g: Tensor[(4,), f32], b: Tensor[(4,), f32], m: Tensor[(4,), f32], v: Tensor[(4,), f32]", "y, mean, variance = nn.batch_norm(x, g, b, m, v)\nreturn y, mean, variance", within={"v": (0.5, 2)}),
    accepted("instance-norm", f"{IMAGE}, g: Tensor[(4,), f32], b: Tensor[(4,), f32]", "instance_norm(x, g, b)", **SUMS),
    accepted("group-norm", f"{IMAGE}, g: Tensor[(4,), f32], b: Tensor[(4,), f32]", "group_norm(x, g, b, num_groups=2)", **SUMS),
    accepted("l2-normalize", X, "l2_normalize(x, eps=1e-6, axis=[1]), l2_normalize(x, 1e-6, [0])"),
    accepted("flatten-and-pad", IMAGE, "batch_flatten(x), nn.pad(x, ((0, 0), (0, 0), (1, 1), (2, 0)))"),
    accepted("dropout-does-nothing", X, "dropout(x), dropout(x, rate=0.9), nn.dropout(x)"),
    accepted("upsampling", "x: Tensor[(1, 2, 2, 3), f32]", "upsampling(x, scale_h=2, scale_w=2)"),
    accepted("depth-to-space", "x: Tensor[(1, 8, 2, 3), f32]", "depth_to_space(x, block_size=2)"),
    accepted("sorting", "x: Tensor[(3, 5), f32]", "sort(x, axis=1), sort(x, axis=0)"),
    accepted("reverse", X, "reverse(x, axis=0), reverse(x, axis=1)"),
    accepted("topk", "x: Tensor[(3, 5), f32]", "topk(x, k=2, axis=1, ret_type='values', is_ascend=False)"),
    accepted("tests-of-numbers", "x: Tensor[(4,), f32]", "isnan(log(x - 9)), isfinite(x / 0.0), isinf(x / 0.0)"),
    accepted("convert", X, "cast(x, f64), cast(x, 'int32'), f64(x), i32(x) + i32(3), f32(2) * x"),
    accepted("numbers-with-a-dtype", "x: f64", "f64(0.5) + x, f32(1.5), i8(-3), u8(200), bool_(True), i64(2) ** 3"),
    accepted("constants-of-modules", X, "x * np.pi + math.e - np.inf", namespace={"np": np, "math": math}),
    accepted(
        "a-small-network",
        'x: Tensor[("n", 1, 8, 8), f32], w: Tensor[(4, 1, 3, 3), f32], b: Tensor[(4,), f32], d: Tensor[(10, 64), f32]',
        "h = relu(conv2d(x, w, b, padding=1))\nh = max_pool2d(h, pool_size=2, strides=2)\nreturn softmax(linear(batch_flatten(h), d))",
        **SUMS,
    ),
    accepted(
        "attention",
        "q: Tensor[(2, 5, 4), f32], k: Tensor[(2, 5, 4), f32], v: Tensor[(2, 5, 4), f32]",
        "scores = q @ k.transpose(0, 2, 1) / sqrt(f32(4))\nreturn softmax(scores, axis=-1) @ v",
        **SUMS,
    ),
    accepted(
        "a-gated-recurrent-step",
        'x: Tensor[("n", 3), f32], h: Tensor[("n", 4), f32], w: Tensor[(3, 12), f32], u: Tensor[(4, 12), f32]',
        "a, b = x @ w, h @ u\nz = sigmoid(a[:, :4] + b[:, :4])\nr = sigmoid(a[:, 4:8] + b[:, 4:8])\nn = tanh(a[:, 8:] + r * b[:, 8:])\nreturn (1 - z) * n + z * h",
        **SUMS,
    ),
    Accepted("an-operator-hidden-by-a-parameter", "def f(relu: f32, x: f32):\n    return relu * x + nn.relu(x)\n"),
    # -- refused ---------------------------------------------------------------------------------------------
    refused("unknown-function", function(X, "«rleu»(x)"), "unknown name `rleu`", "did you mean relu?"),
    refused("unknown-operator", function(X, "«nn.sotfmax»(x)"), "unknown operator `nn.sotfmax`", "did you mean nn.softmax?"),
    refused("unknown-name", function(X, "x * «alhpa»"), "unknown name `alhpa`", "did you mean alpha?", {"alpha": 0.5}),
    refused("unknown-name-like-a-local-one", function(X, "hidden = x * 2\nreturn «hiden» + 1"), "unknown name `hiden`", "did you mean hidden?"),
    refused("missing-argument", function(X, "«nn.conv2d(x)»"), "nn.conv2d: missing argument `weight`"),
    refused("too-many-arguments", function(X, "nn.relu(x, «x»)"), "nn.relu takes 1 argument (data), but 2 are given"),
    refused("unknown-parameter", function(X, "softmax(x, axs=«1»)"), "softmax has no parameter `axs`", "did you mean `axis`?"),
    refused("pytorchs-parameter", function(X, "std(x, dim=«1»)"), "std has no parameter `dim`", "did you mean `axis`?"),
    refused("parameter-twice", function(X, "softmax(x, 1, axis=«0»)"), "softmax: `axis` is given twice"),
    refused("axis-out-of-range", function(X, "softmax(x, axis=«2»)"), "softmax: axis 2 is out of range for a tensor of rank 2"),
    refused("axis-of-text", function(X, 'softmax(x, axis=«"rows"»)'), "softmax: `axis` must be an int, not the string 'rows'"),
    refused("axis-of-a-tensor", function(X, "softmax(x, axis=«x»)"), "softmax: `axis` must be known at compile time, not a Tensor[(2, 3), f32]"),
    refused("integers-where-floats-are-wanted", function("i: Tensor[(3,), i32]", "relay.exp(«i»)"), "exp is defined for floats, not i32", "convert it first, as in i.astype(f32)"),
    refused("floats-where-bools-are-wanted", function(X, "relay.logical_and(«x», x > 0)"), "logical_and is defined for bools, not f32", "compare it first, as in x != 0"),
    refused("a-tuple-where-a-tensor-is-wanted", function(X, "nn.relu(«(x, x)»)"), "nn.relu: `data` must be a tensor, not a tuple of 2"),
    refused("channels-differ", function("x: Tensor[(1, 3, 8, 8), f32], w: Tensor[(4, 2, 3, 3), f32]", "«conv2d(x, w)»"), "nn.conv2d: the weight's input channels are not the data's (by groups): 2 is not 3"),
    refused("dense-dimensions", function("x: Tensor[(2, 3), f32], w: Tensor[(3, 4), f32]", "«nn.dense(x, w)»"), "nn.dense: the inner dimensions of (2, 3) and (3, 4) differ (3 and 4)"),
    refused("relays-division", function("i: Tensor[(3,), i32]", "«relay.divide(i, i)»"), "divide of integers would be truncated, unlike NumPy's", "write a / b (NumPy's, gives f64), a // b, or trunc_divide(a, b)"),
    refused("calling-a-tensor", function(X, "«x»(x)"), "a Tensor[(2, 3), f32] cannot be called"),
    refused("calling-a-number", function(X, "x * «rate»(2)"), "the number 0.5 cannot be called", None, {"rate": 0.5}),
    refused("double-star", function(X, "nn.relu(**«x»)"), "`**` in a call is not part of TinyNN", "write each argument out as name=value"),
    refused("a-value-called-as-a-method", function(X, "«x.ndim»()"), "the number 2 cannot be called", "it is a value, not a method: leave the brackets out, or index a shape, as in x.shape[0]"),
    refused("a-dtype-of-text", function(X, 'cast(x, dtype=«"float33"»)'), f"cast: attribute 'dtype' must be one of the dtypes {', '.join(NUMPY_DTYPES)}, not 'float33'"),
    # -- outside code ----------------------------------------------------------------------------------------
    refused("a-function-of-numpy", function(X, "x + «np.random.random»(3)"), "`np.random.random` is not supported in a cell, which has no hidden state", None, {"np": np}),
    refused("a-function-of-numpys", function(X, "«np.busday_count»(x)"), "`np.busday_count` is not supported in a cell", called("np.busday_count"), {"np": np}),
    refused("a-function-that-numpy-had", function(X, "«np.trapz»(x)"), "`np.trapz` is not supported in a cell", "write np.trapezoid", {"np": np}),
    refused("a-function-of-numpy-mistyped", function(X, "«np.sine»(x)"), "the module numpy has no sine", "did you mean np.sin?", {"np": np}),
    refused("a-function-of-numpys-dates", function(X, "«np.is_busday»(x)"), "`np.is_busday` is not supported in a cell", called("np.is_busday"), {"np": np}),
    refused("a-function-by-its-name", function(X, "«is_busday»(x)"), "`is_busday` is not supported in a cell", called("is_busday"), {"is_busday": np.is_busday}),
    refused("a-function-of-torch", function(X, "«F.multi_margin_loss»(x)"), "`F.multi_margin_loss` is not supported in a cell", called("F.multi_margin_loss"), {"F": TORCH}),
    refused("a-function-of-torch-that-is-an-operator", function(X, "«torch.topk»(x, 2)"), "`torch.topk` is not supported in a cell", "write topk", {"torch": TORCH}),
    refused("an-array-as-the-type-of-a-variable", "def f(x: f32):\n    y: «np.ndarray» = x\n    return y\n", "the function ndarray is no type", "write a type, as in Tensor[(2, 3), f32]", {"np": np}),
    refused("a-class-of-numpy", function(X, "«np.poly1d»(x)"), "`np.poly1d` is not supported in a cell", called("np.poly1d"), {"np": np}),
    refused("a-member-of-an-object", function(X, "«layer.weight» @ x"), "`layer` (a Layer) holds no `weight`", "if code makes it, give it a name in another cell, as in weight = layer.weight", {"layer": Layer()}),
    refused("a-class", function(X, "«Layer»()(x)"), "`Layer` is the class Layer, which a cell cannot use", None, {"Layer": Layer}),
    refused("an-array-of-text", function(X, "«words» * x"), "`words` is a NumPy array of <U1, which a cell cannot use", "a cell computes with numbers: give each string a number", {"words": np.array(["a"])}),
    refused("a-module", function(X, "«np» * x"), "`np` is the module numpy, which a cell cannot use", None, {"np": np}),
    refused("a-member-that-a-module-has-not", function(X, "«math.pie» * x"), "the module math has no pie", "did you mean math.pi?", {"math": math}),
    refused("open", function(X, 'y = «open»("file")\nreturn x'), "`open` is not part of TinyNN"),
    refused("eval", function(X, '«eval»("x")'), "`eval` is not part of TinyNN", "compute it in another cell"),
    refused("isinstance", function(X, "y = isinstance(x, «x»)\nreturn x"), "`isinstance` asks for tuple, list, dict, str, bool, int, float, complex, np.ndarray and NumPy's kinds of numbers, not for `x`"),
]  # fmt: skip
