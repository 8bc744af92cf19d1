"""Functions of neural networks by PyTorch's names; the twin has their definitions in NumPy."""

# ruff: noqa: E501  # a case reads best on one line

import numpy as np

from tests.tinynn.programs.snippets.cases import Case, accepted, function, refused

X = "x: Tensor[(2, 3), f32], y: Tensor[(2, 3), f32]"
N = 'x: Tensor[("n", 4), f32]'
IMAGE = "x: Tensor[(2, 4, 6, 6), f32]"
NIMAGE = 'x: Tensor[("n", 4, 6, 6), f32]'
SUMS = {"rtol": 2e-4, "why": "the order of a sum"}
ENDS = np.array([-1e30, -100.0, -30.0, -1.0, -1e-6, 0.0, 1e-6, 1.0, 30.0, 100.0, 1e30], "float32")

CASES: list[Case] = [
    accepted(
        "rectified",
        X,
        "relu(x), leaky_relu(x), leaky_relu(x, 0.2), relu6(x * 4), threshold(x, 0.5, 9.0), x.relu()",
    ),
    accepted("exponential-units", X, "elu(x), elu(x, 0.5), selu(x), celu(x), celu(x, alpha=2.0)", **SUMS),
    accepted("gated-units", X, "silu(x), swish(y), mish(x), gelu(x), gelu(x, approximate='tanh')", **SUMS),
    accepted(
        "hard-units",
        X,
        "hardswish(x), hardsigmoid(x), hardtanh(x), hardtanh(y, -2.0, 0.5), hardshrink(x), softshrink(x), softshrink(x, 0.1)",
    ),
    accepted(
        "soft-units",
        X,
        "softplus(x), softplus(x, 2.0), softsign(x), tanhshrink(x), logsigmoid(x), sigmoid(y)",
        **SUMS,
    ),
    accepted(
        "units-far-out",
        "x: Tensor[(11,), f32]",
        "softplus(x), logsigmoid(x), sigmoid(x), elu(x), softsign(x), relu6(x), hardtanh(x)",
        arguments=[(ENDS,)],
        rtol=2e-3,
        why="exp near its end",
    ),
    accepted(
        "learned-slopes", f"{IMAGE}, w: Tensor[(4,), f32], v: Tensor[(1,), f32]", "prelu(x, w), prelu(x, v)"
    ),
    accepted(
        "shares",
        X,
        "softmax(x), softmax(x, 0), softmax(x, dim=1), softmin(x), log_softmax(x), log_softmax(x, axis=0)",
        **SUMS,
    ),
    accepted("gates", "x: Tensor[(2, 6), f32]", "glu(x), glu(x.T, axis=0)", **SUMS),
    accepted(
        "logarithm-of-a-sum",
        X,
        "logsumexp(x), logsumexp(x, axis=1), logsumexp(x, 0, keepdims=True), logsumexp(x * 1000, 1)",
        **SUMS,
    ),
    accepted(
        "logarithm-of-a-sum-of-nothing",
        "x: Tensor[(2, 2), f32]",
        "logsumexp(x, 1)",
        arguments=[(np.array([[-np.inf, -np.inf], [np.inf, 0]], "float32"),)],
    ),
    accepted(
        "units-of-a-named-dimension",
        N,
        "relu(x), gelu(x), softmax(x), silu(x), elu(x), mish(x), logsumexp(x, 1), glu(x), softplus(x), dropout(x, 0.1)",
        **SUMS,
    ),
    accepted(
        "linear-layers",
        "x: Tensor[(2, 3), f32], w: Tensor[(4, 3), f32], b: Tensor[(4,), f32]",
        "linear(x, w), linear(x, w, b), linear(x[0], w, bias=b)",
        **SUMS,
    ),
    accepted(
        "convolutions",
        f"{IMAGE}, w: Tensor[(8, 4, 3, 3), f32], b: Tensor[(8,), f32]",
        "conv2d(x, w), conv2d(x, w, b, stride=2, padding=1), conv2d(x, w, b, 1, 1), conv2d(x, w, padding='same'), conv2d(x, w, padding='valid', dilation=2)",
        **SUMS,
    ),
    accepted(
        "convolutions-of-groups",
        f"{IMAGE}, w: Tensor[(8, 2, 3, 3), f32]",
        "conv2d(x, w, groups=2), conv2d(x, w, groups=2, strides=2, padding=1)",
        **SUMS,
    ),
    accepted(
        "convolutions-of-a-named-batch",
        f"{NIMAGE}, w: Tensor[(8, 4, 3, 3), f32], b: Tensor[(8,), f32]",
        "conv2d(x, w, b, padding=1), max_pool2d(relu(conv2d(x, w)), 2)",
        **SUMS,
    ),
    accepted(
        "transposed-convolutions",
        "x: Tensor[(2, 4, 3, 3), f32], w: Tensor[(4, 2, 3, 3), f32], b: Tensor[(2,), f32]",
        "conv_transpose2d(x, w), conv_transpose2d(x, w, b, stride=2, padding=1), conv_transpose2d(x, w, stride=2, padding=1, output_padding=1)",
        **SUMS,
    ),
    accepted(
        "transposed-convolutions-of-a-line",
        "x: Tensor[(2, 4, 5), f32], w: Tensor[(4, 3, 3), f32]",
        "conv_transpose1d(x, w), conv_transpose1d(x, w, stride=2)",
        **SUMS,
    ),
    accepted(
        "convolutions-of-a-line",
        "x: Tensor[(2, 4, 9), f32], w: Tensor[(3, 4, 3), f32], b: Tensor[(3,), f32]",
        "conv1d(x, w, b, stride=2), conv1d(x, w, padding=1), max_pool1d(x, 3), avg_pool1d(x, 2, 1)",
        **SUMS,
    ),
    accepted(
        "largest-of-windows",
        IMAGE,
        "max_pool2d(x, 2), max_pool2d(x, 3, stride=2), max_pool2d(x, (2, 3), padding=1), max_pool2d(x, kernel_size=2, stride=1), max_pool2d(x, pool_size=2), max_pool2d(x, pool_size=2, strides=2)",
    ),
    accepted(
        "means-of-windows",
        IMAGE,
        "avg_pool2d(x, 2), avg_pool2d(x, 3, 1, 1), avg_pool2d(x, 3, 2, 1, count_include_pad=False), avg_pool2d(x, pool_size=2, strides=2)",
        **SUMS,
    ),
    accepted("windows-over-the-end", IMAGE, "max_pool2d(x, 4, ceil_mode=True)"),
    accepted(
        "windows-of-a-given-number",
        IMAGE,
        "adaptive_avg_pool2d(x, 1), adaptive_avg_pool2d(x, (2, 3)), adaptive_max_pool2d(x, 4)",
        **SUMS,
    ),
    accepted(
        "normalised-batches",
        f"{IMAGE}, m: Tensor[(4,), f32], v: Tensor[(4,), f32], w: Tensor[(4,), f32], b: Tensor[(4,), f32]",
        "batch_norm(x, m, v), batch_norm(x, running_mean=m, running_var=v, weight=w, bias=b), batch_norm(x, m, v, eps=0.1)",
        within={"v": (0.5, 2)},
        **SUMS,
    ),
    accepted(
        "normalised-batches-of-relay",
        f"{IMAGE}, m: Tensor[(4,), f32], v: Tensor[(4,), f32], w: Tensor[(4,), f32], b: Tensor[(4,), f32]",
        "batch_norm(x, gamma=w, beta=b, moving_mean=m, moving_var=v)[0]",
        within={"v": (0.5, 2)},
        **SUMS,
    ),
    accepted(
        "normalised-layers",
        "x: Tensor[(2, 3, 4), f32], w: Tensor[(4,), f32], b: Tensor[(4,), f32], u: Tensor[(3, 4), f32]",
        "layer_norm(x, 4), layer_norm(x, (4,), w, b), layer_norm(x, (3, 4)), layer_norm(x, (3, 4), u, u), layer_norm(x, w, b), layer_norm(x, (4,), eps=0.1, weight=w)",
        **SUMS,
    ),
    accepted(
        "normalised-by-the-root",
        "x: Tensor[(2, 4), f32], w: Tensor[(4,), f32]",
        "rms_norm(x, 4), rms_norm(x, (4,), w), rms_norm(x, w, eps=1e-5)",
        **SUMS,
    ),
    accepted(
        "normalised-groups",
        f"{IMAGE}, w: Tensor[(4,), f32], b: Tensor[(4,), f32]",
        "group_norm(x, 2), group_norm(x, 4, w, b), group_norm(x, w, b, 2), group_norm(x, num_groups=1, weight=w, bias=b), instance_norm(x), instance_norm(x, weight=w, bias=b), instance_norm(x, w, b)",
        rtol=1e-3,
        why="the order of a sum",
    ),
    accepted(
        "unit-vectors",
        "x: Tensor[(2, 4), f32]",
        "normalize(x), normalize(x, p=1.0, dim=0), normalize(x * 0)",
        **SUMS,
    ),
    accepted(
        "normalised-with-a-named-batch",
        f"{N}, w: Tensor[(4,), f32], b: Tensor[(4,), f32]",
        "layer_norm(x, 4), layer_norm(x, (4,), w, b), rms_norm(x, w), normalize(x), batch_norm(x, w, w * w + 1)",
        **SUMS,
    ),
    accepted(
        "rows-of-a-table",
        "k: Tensor[(2, 3), i64], t: Tensor[(7, 4), f32]",
        "embedding(k, t)",
        within={"k": (0, 6)},
    ),
    accepted(
        "one-hot",
        "k: Tensor[(3,), i32]",
        "one_hot(k, 5), one_hot(k, num_classes=7), one_hot(k, 5, dtype=f32), one_hot(k, 1, 0, 5, -1, f32), one_hot(k, 3)",
        within={"k": (0, 4)},
    ),
    accepted(
        "resized-images",
        "x: Tensor[(1, 2, 3, 4), f32]",
        "interpolate(x, scale_factor=2), interpolate(x, (5, 7)), interpolate(x, size=(6, 8), mode='bilinear'), interpolate(x, scale_factor=2, mode='bilinear', align_corners=True), upsample(x, 6)",
        **SUMS,
    ),
    accepted(
        "shuffled-pixels",
        "x: Tensor[(2, 8, 3, 4), f32], y: Tensor[(1, 2, 4, 6), f32]",
        "pixel_shuffle(x, 2), pixel_unshuffle(y, 2), pixel_unshuffle(y[0], 2), pixel_unshuffle(y[None], 2)",
    ),
    accepted("flattened-dimensions", "x: Tensor[(2, 3, 4), f32]", "x.flatten()"),
    accepted(
        "attention",
        "q: Tensor[(2, 5, 4), f32], k: Tensor[(2, 6, 4), f32], v: Tensor[(2, 6, 3), f32]",
        "scaled_dot_product_attention(q, k, v), scaled_dot_product_attention(q, k, v, scale=0.3), scaled_dot_product_attention(q, k, v, is_causal=True)",
        **SUMS,
    ),
    accepted(
        "attention-with-a-mask",
        "q: Tensor[(2, 2, 5, 4), f32], k: Tensor[(2, 2, 6, 4), f32], v: Tensor[(2, 2, 6, 3), f32], m: Tensor[(5, 6), f32]",
        "scaled_dot_product_attention(q, k, v, m), scaled_dot_product_attention(q, k, v, attn_mask=(m > -9))",
        **SUMS,
    ),
    accepted(
        "attention-of-named-dimensions",
        'q: Tensor[("n", 2, "l", 4), f32]',
        "scaled_dot_product_attention(q, q, q), scaled_dot_product_attention(q, q, q, is_causal=True)",
        **SUMS,
    ),
    accepted(
        "losses",
        X,
        "mse_loss(x, y), mse_loss(x, y, reduction='sum'), l1_loss(x, y, reduction='none'), smooth_l1_loss(x, y), smooth_l1_loss(x, y, beta=0.5), huber_loss(x, y), huber_loss(x, y, delta=0.5)",
        **SUMS,
    ),
    accepted(
        "binary-losses",
        "p: Tensor[(2, 3), f32], y: Tensor[(2, 3), f32], w: Tensor[(3,), f32]",
        "binary_cross_entropy(p, y), binary_cross_entropy(p, y, w, reduction='sum'), binary_cross_entropy_with_logits(p, y), binary_cross_entropy_with_logits(p, y, pos_weight=w)",
        within={"p": (0.1, 0.9), "y": (0, 1)},
        **SUMS,
    ),
    accepted(
        "binary-losses-far-out",
        "x: Tensor[(2,), f32], y: Tensor[(2,), f32]",
        "binary_cross_entropy_with_logits(x, y)",
        arguments=[(np.array([30.0, -20.0], "float32"), np.array([1.0, 0.0], "float32"))],
        **SUMS,
    ),
    accepted(
        "divergence",
        "p: Tensor[(2, 3), f32], q: Tensor[(2, 3), f32]",
        "kl_div(log(p), q), kl_div(log(p), q, reduction='batchmean'), kl_div(log(p), log(q), log_target=True, reduction='sum')",
        within={"p": (0.1, 0.9), "q": (0.1, 0.9)},
        **SUMS,
    ),
    accepted(
        "losses-of-classes",
        "x: Tensor[(4, 5), f32], t: Tensor[(4,), i64], w: Tensor[(5,), f32], p: Tensor[(4, 5), f32]",
        "cross_entropy(x, t), cross_entropy(x, t, w), cross_entropy(x, t, reduction='none'), nll_loss(log_softmax(x), t), nll_loss(log_softmax(x), t, w, reduction='sum'), cross_entropy(x, p), cross_entropy(x, p, label_smoothing=0.1), cross_entropy(x, t, ignore_index=2)",
        within={"t": (0, 4), "w": (0.5, 2), "p": (0.1, 0.3)},
        **SUMS,
    ),
    accepted(
        "losses-of-pixels",
        "x: Tensor[(2, 3, 4), f32], t: Tensor[(2, 4), i32]",
        "cross_entropy(x, t), cross_entropy(x, t, reduction='none')",
        within={"t": (0, 2)},
        **SUMS,
    ),
    accepted("angles-between", X, "cosine_similarity(x, y), cosine_similarity(x, y, dim=0)", **SUMS),
    # refused
    refused(
        "norm-of-four-vectors",
        function(f"{IMAGE}, a: Tensor[(4,), f32]", "«batch_norm(x, a, a, a, a)»"),
        "batch_norm: PyTorch and Relay have these four in different orders",
    ),
    refused(
        "training",
        function(X, "«dropout(x, training=True)»"),
        "dropout: training needs a key",
        "give key=, an integer that is another one at each step",
    ),
    refused(
        "a-key-of-floats",
        function(X, "dropout(x, key=«x»)"),
        "dropout: `key` must be an integer, or a vector of them, not a Tensor[(2, 3), f32]",
        "give an i64 or, as jax.random.key_data gives it, a vector of u32",
    ),
    refused(
        "a-batch-of-one",
        function("x: Tensor[(1, 4), f32], a: Tensor[(4,), f32]", "«batch_norm(x, a, a, training=True)»"),
        "batch_norm: a channel with one element has no variance",
    ),
    refused(
        "a-table-first",
        function("k: Tensor[(2,), i64], t: Tensor[(7, 4), f32]", "embedding(«t», k)"),
        "embedding: `indices` must be integers, not f32",
        "the indices come first: embedding(indices, table)",
    ),
    refused(
        "shape-of-a-norm",
        function("x: Tensor[(2, 4), f32]", "layer_norm(x, «3»)"),
        "layer_norm: `normalized_shape` is no end of the shape (2, 4)",
    ),
    refused(
        "uneven-gate",
        function("x: Tensor[(2, 5), f32]", "glu(«x»)"),
        "glu: axis 1 of size 5 does not divide into two halves",
    ),
    refused(
        "losses-of-two-shapes",
        function("x: Tensor[(2, 3), f32], y: Tensor[(2,), f32]", "«mse_loss(x, y)»"),
        "mse_loss: the predictions have the shape (2, 3), the targets (2,)",
        "both must have one shape: reshape one of them",
    ),
    refused(
        "unknown-reduction",
        function(X, "mse_loss(x, y, reduction=«'avg'»)"),
        "mse_loss: `reduction` must be one of 'mean', 'sum', 'none', not the string 'avg'",
    ),
    refused(
        "groups-of-channels",
        function(IMAGE, "group_norm(x, «3»)"),
        "group_norm: 4 channels do not divide into 3 groups",
    ),
    refused(
        "window-without-a-size",
        function(IMAGE, "«max_pool2d(x)»"),
        "max_pool2d: missing argument `kernel_size`",
    ),
    refused(
        "pixels-between",
        function("x: Tensor[(1, 2, 3, 4), f32]", "interpolate(x, scale_factor=«1.5»)"),
        "interpolate: the result would have 4.5 pixels along an axis",
        "give `size`, the number of pixels",
    ),
    refused(
        "unit-of-integers",
        function("i: Tensor[(3,), i32]", "silu(«i»)"),
        "silu is defined for floats, not i32",
        "convert it first, as in i.astype(f32)",
    ),
    refused(
        "classes-of-floats",
        function("x: Tensor[(4, 5), f32], t: Tensor[(4,), f32]", "«cross_entropy(x, t)»"),
        "cross_entropy: the predictions have the shape (4, 5), the targets (4,)",
        "targets are classes (integers), or a probability for each class",
    ),
    refused("misspelt-unit", function(X, "«sofmax»(x)"), "unknown name `sofmax`", "did you mean softmax?"),
]
