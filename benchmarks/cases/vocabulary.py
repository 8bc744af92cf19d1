"""Every function of the language beside NumPy and eager torch: rows written from the declarations.

A function is called with as many tensors as it has required parameters, by the same text in the cell, in
NumPy and in torch. ``_CALLS`` has the text of the others; ``_IN_TORCH`` what differs there. Torch in f64 is
the judge of functions for neural networks. Rows of other dtypes are optional: ``--only ', f64'``.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.case import BEST, OURS, Case, Goal, Ratio
from benchmarks.peers import module
from nnmagic.tinynn.builtins import BUILTINS
from nnmagic.tinynn.calls.argument_binding import Builtin

#: Rows and columns of the large and of the small matrices.
_SIZES = ((512, 512), (8, 16))


def _each(names: str, text: str) -> dict[str, str]:
    """The same text for several functions; ``NAME`` is the function's name."""
    return {name: text.replace("NAME", name) for name in names.split()}


#: The sizes of images and of volumes, by the rows of matrices.
_IMAGES = {512: (64, 64), 8: (4, 4)}
_VOLUMES = {512: (16, 16, 16), 8: (4, 4, 4)}

#: How a function is called whose required parameters are not one or two tensors of any numbers.
_CALLS: dict[str, str] = {
    **_each("log log2 log10 sqrt log1p arcsin asin arccos acos arctanh atanh", "NAME(p)"),
    **_each("arccosh acosh", "NAME(q)"),
    **_each("invert bitwise_not bitwise_invert", "NAME(i)"),
    **_each("bitwise_and bitwise_or bitwise_xor", "NAME(i, j)"),
    "packbits": "packbits(m, axis=1)",
    "unpackbits": "unpackbits(packbits(m, axis=1), axis=1)",
    "diagflat": "diagflat(v)",
    "bitwise_count": "bitwise_count(i)",
    "float_power": "float_power(p, x)",
    "frexp": "frexp(x)[0]",
    "ldexp": "ldexp(x, 3)",
    "matvec": "matvec(x, x[0])",
    "vecmat": "vecmat(x[:, 0], x)",
    "setxor1d": "setxor1d(v, v + 0.5)",
    "compress": "compress(v > 0, v)",
    "extract": "extract(x > 0, x)",
    "trim_zeros": "trim_zeros(v)",
    "fromfunction": "fromfunction(lambda i, j: i * 2 + j, (300, 300))",
    "histogram_bin_edges": "histogram_bin_edges(v)",
    "resize": "resize(x, (ROWS, 2 * COLUMNS))",
    "sort_complex": "sort_complex(x)",
    "apply_over_axes": "apply_over_axes(sum, x, [0, 1])",
    "polydiv": "polydiv(v[:40], v[:7])[0]",
    **_each("left_shift right_shift bitwise_left_shift bitwise_right_shift", "NAME(i, j)"),
    **_each("floor_divide mod remainder fmod", "NAME(x, q)"),
    **_each("power pow", "NAME(p, x)"),
    **_each("logical_and logical_or logical_xor", "NAME(m, l)"),
    **_each("logical_not all any count_nonzero", "NAME(m)"),
    "heaviside": "heaviside(x, y)",
    "polyfit": "polyfit(x[0], y[0], 2)",
    "polyval": "polyval([0.5, -1.0, 2.0], x)",
    "block": "block([[x, y], [y, x]])",
    "round": "round(x, 2)",
    "around": "around(x)",
    "modf": "modf(x)[0] + modf(x)[1]",
    "divmod": "divmod(x, q)[0] + divmod(x, q)[1]",
    "clip": "clip(x, -1.0, 1.0)",
    "where": "where(m, x, y)",
    "variance": "variance(x, axis=1)",
    **_each("sum max amax min amin mean var std nansum nanmax nanmin nanmean nanvar", "NAME(x, axis=1)"),
    **_each("prod nanprod", "NAME(o, axis=1)"),
    **_each("nanstd ptp argmax argmin cumsum average median", "NAME(x, axis=1)"),
    "cumprod": "cumprod(o, axis=1)",
    "quantile": "quantile(x, 0.25, axis=1)",
    "percentile": "percentile(x, 25.0, axis=1)",
    "nanmedian": "nanmedian(x, axis=1)",
    "nanquantile": "nanquantile(x, 0.25, axis=1)",
    "nanpercentile": "nanpercentile(x, 25.0, axis=1)",
    "reshape": "reshape(x, (ROWS * COLUMNS,)) + 1.0",
    "ravel": "ravel(x) + 1.0",
    "flatten": "x.flatten() + 1.0",
    "transpose": "ravel(transpose(x))",
    "matrix_transpose": "ravel(matrix_transpose(x))",
    "permute_dims": "ravel(permute_dims(x, (1, 0)))",
    "swapaxes": "ravel(swapaxes(x, 0, 1))",
    "moveaxis": "ravel(moveaxis(x, 0, 1))",
    "rollaxis": "ravel(rollaxis(x, 1))",
    "squeeze": "squeeze(expand_dims(x, 0), 0) + 1.0",
    "expand_dims": "expand_dims(x, 0) + 1.0",
    "broadcast_to": "broadcast_to(v, (ROWS, COLUMNS)) + 1.0",
    "broadcast_arrays": "broadcast_arrays(x, v)[1] + 1.0",
    **_each("atleast_1d atleast_2d atleast_3d positive", "NAME(x) + 1.0"),
    **_each("flip fliplr flipud rot90", "NAME(x) + 1.0"),
    "roll": "roll(x, 3, axis=1)",
    "diagonal": "diagonal(x) + 1.0",
    "diag": "diag(v)",
    **_each("concatenate concat", "NAME([x, y], axis=1)"),
    **_each("stack hstack vstack dstack column_stack", "NAME([x, y])"),
    "append": "append(x, y, 0)",
    **_each("split array_split", "NAME(x, 2, axis=1)[0] + NAME(x, 2, axis=1)[1]"),
    **_each("hsplit vsplit", "NAME(x, 2)[0] + NAME(x, 2)[1]"),
    "dsplit": "dsplit(t, 2)[0] + dsplit(t, 2)[1]",
    "repeat": "repeat(x, 2, axis=1)",
    "tile": "tile(x, (2, 2))",
    "pad": "pad(x, 1)",
    **_each("array asarray", "NAME([v, v])"),
    "ascontiguousarray": "ascontiguousarray(x) + 1.0",
    **_each("zeros ones", "NAME((ROWS, COLUMNS), 'float32') + x"),
    "full": "full((ROWS, COLUMNS), 2.0, 'float32') + x",
    **_each("zeros_like ones_like", "NAME(x) + v"),
    "full_like": "full_like(x, 2.0) + v",
    "arange": "arange(COLUMNS) + i",
    "linspace": "linspace(0.0, 1.0, COLUMNS, dtype='float32') * x",
    "logspace": "logspace(0.0, 1.0, COLUMNS, dtype='float32') * x",
    "geomspace": "geomspace(1.0, 8.0, COLUMNS, dtype='float32') * x",
    **_each("eye identity tri", "NAME(COLUMNS, dtype='float32') + w"),
    "vander": "vander(v, 8)",
    "meshgrid": "meshgrid(v, v)[0] + meshgrid(v, v)[1]",
    "astype": "x.astype('int32')",
    "copy": "copy(x)",
    "take": "take(x, i[0], axis=0)",
    "take_along_axis": "take_along_axis(x, i, axis=1)",
    "flatnonzero": "flatnonzero(m)",
    "nonzero": "nonzero(m)[0] + nonzero(m)[1]",
    "argwhere": "argwhere(m)",
    "searchsorted": "searchsorted(u, x)",
    "bincount": "bincount(ravel(i))",
    "isin": "isin(i, j[0])",
    "convolve": "convolve(v, v[:7])",
    "correlate": "correlate(v, v[:7])",
    "select": "select([m, l], [x, y])",
    "unstack": "unstack(x)[0] + unstack(x)[1]",
    **_each("cumulative_sum cumulative_prod", "NAME(x, axis=1)"),
    **_each("vector_norm matrix_norm", "linalg.NAME(x)"),
    "digitize": "digitize(x, u)",
    "histogram": "histogram(x, 16)[0]",
    "histogram2d": "histogram2d(ravel(x), ravel(y), 8)[0]",
    "unwrap": "unwrap(x)",
    "lexsort": "lexsort((v, v))",
    "choose": "choose(i, [x, y, x, y, x, y, x, y])",
    "ravel_multi_index": "ravel_multi_index((i, i), (8, 8))",
    **_each("cov corrcoef", "NAME(x)"),
    "unravel_index": "unravel_index(i, (2, 4))[0] + unravel_index(i, (2, 4))[1]",
    "sort": "sort(x, axis=1)",
    **_each("partition argpartition", "NAME(x, 3, axis=1)[:, 3]"),
    "insert": "insert(x, 2, y[0], axis=0)",
    "delete": "delete(x, [2, 5, 7], axis=1)",
    **_each("gcd lcm", "NAME(i, j)"),
    **_each("polyadd polysub", "NAME(v, v[:7])"),
    "polymul": "polymul(v, v[:7])",
    **_each("polyder polyint", "NAME(v)"),
    "poly": "poly(v[:7])",
    "sliding_window_view": "sliding_window_view(x, 4, axis=1).sum(axis=-1)",
    "argsort": "argsort(x, axis=1, stable=True)",
    "diff": "diff(x, axis=1)",
    "gradient": "gradient(x, axis=1)",
    "trapezoid": "trapezoid(x, axis=1)",
    "interp": "interp(x, u, v)",
    "matmul": "matmul(x, w)",
    "dot": "dot(x, v)",
    "vdot": "vdot(x, y)",
    "outer": "outer(v, v)",
    "tensordot": "tensordot(x, w, 1)",
    "kron": "kron(x[:8, :8], y[:8, :8])",
    "cross": "cross(x[:, :3], y[:, :3])",
    "einsum": "einsum('ij,kj->ik', x, y)",
    "norm": "norm(x, axis=1)",
    "multi_dot": "multi_dot([x, w, w])",
    "solve": "solve(d, v)",
    "tensorinv": "tensorinv(d, 1)",
    "tensorsolve": "tensorsolve(d, v)",
    "ord": "x + ord('a')",
    **_each("inv cholesky eigvalsh cond", "NAME(d)"),
    "det": "det(x[:8, :8])",
    "slogdet": "slogdet(d)[1]",
    "qr": "abs(qr(x)[1])",
    "svd": "svd(x)[1]",
    **_each("svdvals matrix_rank pinv", "NAME(x)"),
    "eigh": "eigh(d)[0]",
    "eig": "eig(d)[0]",
    "eigvals": "eigvals(d)",
    "roots": "roots(x[0])",
    "histogramdd": "histogramdd(x[:, :3], 4)[0]",
    "real_if_close": "real_if_close(x)",
    "sorted": "sorted(v)",
    "lstsq": "lstsq(d, v)[0]",
    "matrix_power": "matrix_power(d, 3)",
}
#: Functions that have no row of their own, with the reason.
WITHOUT_ROW = {
    **dict.fromkeys(("int", "float", "bool", "len"), "of one number"),
    **dict.fromkeys(("empty", "empty_like", "ndarray"), "any result is right"),
    **dict.fromkeys(("mgrid", "ogrid"), "indexed: meshgrid has a row"),
    **dict.fromkeys(("chr", "str"), "a string that is known at compile time"),
    **dict.fromkeys(("c_", "r_"), "indexed: concatenate has a row"),
    **dict.fromkeys(
        (
            *("indices", "ix_", "triu_indices", "tril_indices", "diag_indices", "diag_indices_from"),
            *("tril_indices_from", "triu_indices_from", "mask_indices"),
        ),
        "computed at compile time",
    ),
    **dict.fromkeys(("bartlett", "blackman", "hamming", "hanning", "kaiser"), "computed at compile time"),
    "einsum_path": "computed at compile time",
    "callback": "of a function of Python",
    **dict.fromkeys(("swish", "upsample"), "another name of silu, of interpolate"),
    **dict.fromkeys(("row_stack", "asfortranarray"), "another name of vstack, of asarray"),
    **dict.fromkeys(
        ("rnn", "lstm", "gru", "rnn_cell", "lstm_cell", "gru_cell"), "loops have rows of their own"
    ),
    **dict.fromkeys(("complex", "iscomplexobj", "isrealobj"), "of one number, or of a dtype"),
    **dict.fromkeys(("real", "imag", "conj", "conjugate", "angle"), "of complex numbers"),
    **dict.fromkeys(("fft", "rfft", "fft2", "rfft2"), "transforms have rows of their own"),
    **dict.fromkeys(
        ("ifft", "irfft", "ifft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn", "hfft", "ihfft"),
        "gives complex numbers, or takes them",
    ),
    **dict.fromkeys(("unique_values", "unique_counts", "unique_inverse", "unique_all"), "unique has a row"),
    **dict.fromkeys(("scan", "apply_along_axis", "piecewise", "vectorize"), "of functions, not of tensors"),
    **dict.fromkeys(("fftshift", "ifftshift"), "roll has a row"),
    **dict.fromkeys(("fftfreq", "rfftfreq"), "computed at compile time"),
    **dict.fromkeys(
        (
            *("random.key", "random.split", "random.fold_in", "random.normal", "random.uniform"),
            *("random.integers", "random.bernoulli", "random.exponential", "random.gumbel"),
            *("random.permutation", "random.choice", "random.categorical", "random.bits"),
        ),
        "each library has a generator of its own",
    ),
    **dict.fromkeys(
        (
            *(
                "grad",
                "value_and_grad",
                "vjp",
                "jvp",
                "jacobian",
                "jacfwd",
                "jacrev",
                "hessian",
                "vmap",
                "checkpoint",
                "tree_map",
            ),
            *("custom_vjp", "custom_jvp"),
        ),
        "of functions, not of tensors",
    ),
    **dict.fromkeys(("stop_gradient", "detach"), "returns its argument"),
    **dict.fromkeys(("unfold", "fold"), "of PyTorch alone: slices and pads have rows"),
    "dropout": "drops nothing",
    "bilinear": "einsum has a row",
}

#: Functions that need a known size, so that they have no rows of named sizes.
_KNOWN_SIZES = _each(
    "median quantile percentile delete poly diagonal trace diag roll split array_split hsplit vsplit dsplit "
    "gradient "
    "interp kron cross vander linspace logspace geomspace eye identity tri broadcast_to glu pixel_shuffle "
    "pixel_unshuffle interpolate upsample one_hot insert unstack",
    "NAME",
)

#: What torch calls by another name, or with other arguments; empty where it has nothing of that meaning.
_IN_TORCH: dict[str, str] = {
    **dict.fromkeys(
        [
            "allclose",
            "median",
            "unravel_index",
            "percentile",
            "array",
            "vander",
            "average",
            "append",
            "insert",
            "nanmedian",
            "partition",
            "argpartition",
            "meshgrid",
            "packbits",
            "unpackbits",
        ]
    ),
    "round": "round(x, decimals=2)",
    "equal": "eq(x, y)",
    "divmod": "floor_divide(x, q) + remainder(x, q)",
    "max": "amax(x, 1)",
    "min": "amin(x, 1)",
    **_each("var std", "NAME(x, 1, correction=0)"),
    "variance": "var(x, 1, correction=0)",
    "quantile": "quantile(x, 0.25, 1)",
    "transpose": "ravel(transpose(x, 0, 1))",
    "flip": "flip(x, (0, 1)) + 1.0",
    "roll": "roll(x, 3, 1)",
    **_each("split array_split", "chunk(x, 2, 1)[0] + chunk(x, 2, 1)[1]"),
    "pad": "pad(x, (1, 1, 1, 1))",
    "asarray": "stack([v, v])",
    "zeros": "zeros(ROWS, COLUMNS) + x",
    "ones": "ones(ROWS, COLUMNS) + x",
    "full": "full((ROWS, COLUMNS), 2.0) + x",
    "linspace": "linspace(0.0, 1.0, COLUMNS) * x",
    "logspace": "logspace(0.0, 1.0, COLUMNS) * x",
    "eye": "eye(COLUMNS) + w",
    "astype": "x.to(int32)",
    "copy": "x.clone()",
    "take": "x[i[0]]",
    "take_along_axis": "gather(x, 1, i)",
    "nonzero": "nonzero(m, as_tuple=True)[0] + nonzero(m, as_tuple=True)[1]",
    "flatnonzero": "nonzero(m.ravel()).ravel()",
    "repeat": "repeat_interleave(x, 2, 1)",
    "tile": "tile(x, (2, 2))",
    "searchsorted": "searchsorted(u, x)",
    "digitize": "bucketize(x, u, right=True)",
    "sort": "sort(x, 1)[0]",
    "sliding_window_view": "x.unfold(1, 4, 1).sum(-1)",
    "argsort": "argsort(x, dim=1, stable=True)",
    "gradient": "gradient(x, dim=1)[0]",
    "trapezoid": "trapezoid(x, dim=1)",
    "dot": "mv(x, v)",
    "vdot": "vdot(x.ravel(), y.ravel())",
    "norm": "torch.linalg.vector_norm(x, dim=1)",
    "multi_dot": "torch.linalg.multi_dot([x, w, w])",
    "solve": "torch.linalg.solve(d, v)",
    **_each("inv cholesky eigvalsh cond", "torch.linalg.NAME(d)"),
    "det": "torch.linalg.det(x[:8, :8])",
    "slogdet": "torch.linalg.slogdet(d)[1]",
    "qr": "abs(torch.linalg.qr(x)[1])",
    "svd": "torch.linalg.svd(x)[1]",
    **_each("svdvals matrix_rank pinv", "torch.linalg.NAME(x)"),
    "eigh": "torch.linalg.eigh(d)[0]",
    "lstsq": "torch.linalg.lstsq(d, v[:, None])[0][:, 0]",
    "matrix_power": "torch.linalg.matrix_power(d, 3)",
    "kron": "kron(x[:8, :8].contiguous(), y[:8, :8].contiguous())",
    "cumprod": "cumprod(o, 1)",
    "cumsum": "cumsum(x, 1)",
    "prod": "prod(o, 1)",
    "hstack": "hstack([x, y])",
}

#: Functions for neural networks; the first tensor is the one with the batch.
_NEURAL: dict[str, str] = {
    **_each("relu sigmoid erf erfc elu celu selu silu mish hardsigmoid hardswish relu6 softplus", "NAME(x)"),
    **_each("softsign tanhshrink softshrink hardshrink logsigmoid hardtanh gelu leaky_relu", "NAME(x)"),
    "rsqrt": "rsqrt(p)",
    "threshold": "threshold(x, 0.5, 2.0)",
    **_each("softmax log_softmax softmin glu logsumexp", "NAME(x, 1)"),
    "linear": "linear(x, w, v)",
    "conv2d": "conv2d(c, k, padding=1)",
    "conv1d": "conv1d(s, g, padding=1)",
    "conv_transpose2d": "conv_transpose2d(c, k)",
    **_each("max_pool2d avg_pool2d", "NAME(c, 2)"),
    **_each("max_pool1d avg_pool1d", "NAME(s, 2)"),
    **_each("adaptive_avg_pool2d adaptive_max_pool2d", "NAME(c, 1)"),
    "batch_norm": "batch_norm(c, running_mean=h, running_var=b, weight=h, bias=b)",
    "layer_norm": "layer_norm(x, (COLUMNS,), v, v)",
    "rms_norm": "rms_norm(x, (COLUMNS,), v)",
    "group_norm": "group_norm(c, 4, h, b)",
    "instance_norm": "instance_norm(c)",
    "normalize": "normalize(x)",
    "embedding": "embedding(i, w)",
    "one_hot": "one_hot(i, 8)",
    "interpolate": "interpolate(c, scale_factor=2)",
    "pixel_shuffle": "pixel_shuffle(c, 2)",
    "pixel_unshuffle": "pixel_unshuffle(c, 2)",
    "scaled_dot_product_attention": "scaled_dot_product_attention(a, a, a)",
    **_each("mse_loss l1_loss smooth_l1_loss huber_loss", "NAME(x, y)"),
    **_each("binary_cross_entropy", "NAME(p, p)"),
    "binary_cross_entropy_with_logits": "binary_cross_entropy_with_logits(x, p)",
    "kl_div": "kl_div(x, p)",
    "cosine_similarity": "cosine_similarity(x, y)",
    **_each("nll_loss cross_entropy", "NAME(x, r)"),
    "prelu": "prelu(c, h)",
    "conv_transpose1d": "conv_transpose1d(s, g)",
    **_each("adaptive_avg_pool1d adaptive_max_pool1d", "NAME(s, 1)"),
    "conv3d": "conv3d(f, z, padding=1)",
    "conv_transpose3d": "conv_transpose3d(f, z)",
    **_each("max_pool3d avg_pool3d", "NAME(f, 2)"),
    **_each("adaptive_avg_pool3d adaptive_max_pool3d", "NAME(f, 1)"),
}

#: What is rounded in f32 may differ from what is rounded in f64 by one in the last place.
_TOLERANCES = {"round": 1e-2}


def _positive_definite(matrix: np.ndarray) -> np.ndarray:
    result: np.ndarray = matrix @ matrix.T / np.float32(len(matrix)) + np.eye(len(matrix), dtype="float32")
    return result


#: What the names in a call stand for: ``x`` and ``y`` hold normal numbers, ``p`` some between 0 and 1, ``q``
#: between 1 and 3, ``o`` near 1, ``i`` and ``j`` integers from 0 to 7, ``m`` and ``l`` truth values, all of
#: one shape; ``v`` has a row's length, ``w`` is square, ``d`` is positive definite, ``u`` is sorted, ``r``
#: are labels, ``t`` has three axes. Images ``c``, sequences ``s``, volumes ``f`` and their kernels ``k``,
#: ``g``, ``z`` have 16 channels, as have ``h`` and ``b``.
_ARGUMENTS: dict[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    **dict.fromkeys(("x", "y"), lambda g, rows, columns: g.standard_normal((rows, columns), "float32")),
    "p": lambda g, rows, columns: g.uniform(0.01, 0.99, (rows, columns)).astype("float32"),
    "o": lambda g, rows, columns: g.uniform(0.99, 1.01, (rows, columns)).astype("float32"),
    "q": lambda g, rows, columns: g.uniform(1, 3, (rows, columns)).astype("float32"),
    **dict.fromkeys(("i", "j"), lambda g, rows, columns: g.integers(0, 8, (rows, columns))),
    **dict.fromkeys(("m", "l"), lambda g, rows, columns: g.random((rows, columns)) < 0.5),
    "v": lambda g, _, columns: g.standard_normal(columns, "float32"),
    "u": lambda g, _, columns: np.sort(g.standard_normal(columns, "float32")),
    "w": lambda g, _, columns: g.standard_normal((columns, columns), "float32"),
    "d": lambda g, _, columns: _positive_definite(g.standard_normal((columns, columns), "float32")),
    "t": lambda g, rows, columns: g.standard_normal((2, rows // 2, columns), "float32"),
    "a": lambda g, rows, columns: g.standard_normal((4, rows, columns // 8), "float32"),
    "c": lambda g, rows, _: g.standard_normal((rows // 64 or 1, 16, *_IMAGES[rows]), "float32"),
    "s": lambda g, rows, _: g.standard_normal((rows // 64 or 1, 16, _IMAGES[rows][0] ** 2), "float32"),
    "k": lambda g, _rows, _columns: g.standard_normal((16, 16, 3, 3), "float32"),
    "g": lambda g, _rows, _columns: g.standard_normal((16, 16, 3), "float32"),
    "f": lambda g, rows, _: g.standard_normal((rows // 64 or 1, 16, *_VOLUMES[rows]), "float32"),
    "z": lambda g, _rows, _columns: g.standard_normal((16, 16, 3, 3, 3), "float32"),
    "r": lambda g, rows, columns: g.integers(0, columns, rows),
    **dict.fromkeys(("h", "b"), lambda g, _rows, _columns: g.uniform(1, 2, 16).astype("float32")),
}
_DTYPES = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "bool": "bool_"}

#: Calls whose operands differ for integers: no integer has a negative power, and 0 / 0 is NaN.
_CALLS_OF_INTEGERS = {**_each("power pow", "NAME(x, p)"), "true_divide": "true_divide(x, q)"}

#: The functions that have rows of integers.
_OF_INTEGERS = frozenset(
    {
        **_each("add subtract multiply floor_divide mod remainder divmod power maximum minimum abs", ""),
        **_each("absolute sign negative square clip where equal not_equal less less_equal greater", ""),
        **_each(
            "greater_equal logical_and sum prod max min mean ptp argmax argmin cumsum cumprod any all", ""
        ),
        **_each("count_nonzero nonzero sort argsort median unique searchsorted diff take roll flip", ""),
        **_each("transpose concatenate stack dstack repeat tile pad copy outer dot matmul tensordot", ""),
        **_each("einsum tri triu tril trace diagonal gradient true_divide isin bitwise_and left_shift", ""),
    }
)


def _call_of(builtin: Builtin) -> str | None:
    """Return the text of a function's call; None where it has no row."""
    if builtin.name in WITHOUT_ROW:
        return None
    if builtin.numpy is None:
        return _CALLS.get(builtin.name) or _NEURAL.get(builtin.name)
    required = [word for word in builtin.signature.split(" *")[0].split() if not word.endswith("?")]
    tensors = ", ".join(("x", "y")[: len(required)])
    return _CALLS.get(builtin.name, f"{builtin.name}({tensors})")


def _function(text: str, parameters: Sequence[str], namespace: Mapping[str, Any]) -> Callable[..., Any]:
    """Define a Python function that returns the text."""
    scope = dict(namespace)
    exec(f"def function({', '.join(parameters)}):\n    return {text}\n", scope)
    function: Callable[..., Any] = scope["function"]
    return function


def _in_torch(text: str, parameters: Sequence[str]) -> Callable[..., Any]:
    """Return a function of torch and tensors, defined at its first call."""
    functions: list[Callable[..., Any]] = []

    def function(torch: Any, *tensors: Any) -> Any:
        if not functions:
            namespace = {**vars(torch), **vars(torch.nn.functional), "torch": torch}
            functions.append(_function(text, parameters, namespace))
        return functions[0](*tensors)

    return function


def _judged_by_torch(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of torch as one of arrays."""

    def judge(*arrays: np.ndarray) -> np.ndarray:
        torch = module("torch")
        result: np.ndarray = function(torch, *map(torch.from_numpy, arrays)).numpy()
        return result

    return judge


def _with_sizes(text: str, rows: int | str, columns: int | str) -> str:
    return text.replace("ROWS", str(rows)).replace("COLUMNS", str(columns))


def _annotation(array: np.ndarray, names: Mapping[int, str]) -> str:
    dims = ", ".join(f'"{names[size]}"' if size in names else str(size) for size in array.shape)
    return f"Tensor[({dims}{',' * (array.ndim == 1)}), {_DTYPES[str(array.dtype)]}]"


def _cast(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return float32 numbers in another dtype: a hundred times as large as integers."""
    if array.dtype != "float32":
        return array
    return (array * 100 if dtype.startswith("int") else array).astype(dtype)


@functools.cache
def _example(name: str, rows: int, columns: int) -> np.ndarray:
    """Return an array for a name of a call: its shape and dtype are those of every draw."""
    return _ARGUMENTS[name](np.random.default_rng(0), rows, columns)


def _row(
    builtin: Builtin, text: str, shape: tuple[int, int], *, named: bool = False, dtype: str = "float32"
) -> Case:
    """Return the row of a call on matrices of a shape; ``named``: their sizes are names, or the batch is."""
    rows, columns = shape
    if dtype.startswith("int"):
        text = _CALLS_OF_INTEGERS.get(builtin.name, text)
    text = text.replace("float32", dtype)
    written = _with_sizes(text, rows, columns)
    used = {node.id for node in ast.walk(ast.parse(written)) if isinstance(node, ast.Name)}
    parameters = [name for name in _ARGUMENTS if name in used]

    def draw(generator: np.random.Generator) -> dict[str, np.ndarray]:
        return {name: _cast(_ARGUMENTS[name](generator, rows, columns), dtype) for name in parameters}

    arrays = {name: _cast(_example(name, rows, columns), dtype) for name in parameters}
    names = {rows: "n", columns: "n" if rows == columns else "k"} if named else {}
    if named and builtin.name in _NEURAL and arrays[parameters[0]].ndim > 2:
        names = {rows // 64 or 1: "n"}
    annotations = ", ".join(f"{name}: {_annotation(array, names)}" for name, array in arrays.items())
    matrix = next((name for name in parameters if arrays[name].shape == shape), "w")
    sizes = (f"{matrix}.shape[0]", f"{matrix}.shape[1]") if named and matrix in parameters else shape
    torch_text = _IN_TORCH.get(builtin.name, text)
    in_torch = _in_torch(_with_sizes(torch_text, rows, columns), parameters) if torch_text else None
    numpy_text = written.replace(f"{builtin.name}(", f"{builtin.numpy}(") if builtin.numpy else written
    is_neural = builtin.name in _NEURAL
    in_numpy = _function(numpy_text, parameters, {**vars(np.linalg), **vars(np)})
    goals: tuple[Goal, ...] = (
        (Ratio(BEST, 0.95),) if shape == _SIZES[0] or is_neural else (Ratio("numpy", 1.0),)
    )
    usual = dtype == "float32"
    size = f"{rows}x{columns}" if usual else f"{_DTYPES[dtype]} {rows}x{columns}"
    return Case(
        f"{builtin.name}, {size}" + (", named" if named else ""),
        "vocabulary",
        goals,
        draw,
        f"def function({annotations}):\n    return {_with_sizes(text, *sizes)}\n",
        _judged_by_torch(in_torch) if is_neural and in_torch else in_numpy,
        torch=in_torch,
        peers=(OURS, "torch") if is_neural else (OURS, "numpy", "torch"),
        tolerance=_TOLERANCES.get(builtin.name, 1e-4),
        optional=not usual,
    )


def _rows() -> Iterator[Case]:
    for builtin in BUILTINS.values():
        text = _call_of(builtin)
        if text is not None:
            for shape in _SIZES:
                for named in (False,) if builtin.name in _KNOWN_SIZES else (False, True):
                    yield _row(builtin, text, shape, named=named)


def _rows_of_dtypes() -> Iterator[Case]:
    """Return the rows of NumPy's functions in other dtypes: ``sin, f64 512x512``."""
    for builtin in BUILTINS.values():
        text = _call_of(builtin)
        if text is not None and builtin.name not in _NEURAL:
            for dtype in ("float64", "int32", "int64"):
                if dtype == "float64" or builtin.name in _OF_INTEGERS:
                    yield _row(builtin, text, _SIZES[0], dtype=dtype)


ROWS = (*_rows(), *_rows_of_dtypes())
