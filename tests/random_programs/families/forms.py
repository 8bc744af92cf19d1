"""Say how each function of the language may be called, as text with holes that a generator fills.

``<x:if 1-2>`` is an array of signed integers or floats (letters ``b i u f``, all without any) of rank 1 or 2.
The other holes depend on it; each is a method of ``generator.Filler``. Knows nothing of nnmagic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.random_programs.families.special_forms import FOURIER, HELPED, LINALG, SPECIAL
from tests.random_programs.families.special_forms import each_of as _each
from tests.random_programs.families.special_forms import names_of as _names

_UNARY = (
    "exp log log2 log10 sqrt sin cos tan sinh cosh tanh arcsin asin arccos acos arctan atan arcsinh asinh "
    "arccosh acosh arctanh atanh exp2 expm1 log1p cbrt deg2rad radians rad2deg degrees sinc absolute abs "
    "fabs negative positive square sign rint floor ceil trunc fix isnan isinf isfinite isposinf isneginf "
    "signbit logical_not reciprocal invert bitwise_not bitwise_invert modf"
)
_BINARY = (
    "add subtract multiply divide true_divide floor_divide mod remainder equal not_equal less less_equal "
    "greater greater_equal bitwise_and bitwise_or bitwise_xor maximum minimum fmax fmin fmod hypot arctan2 "
    "atan2 logaddexp logaddexp2 copysign heaviside logical_and logical_or logical_xor isclose allclose divmod"
)
_SHIFTS = "left_shift right_shift bitwise_left_shift bitwise_right_shift"
_VARIANCE = (
    "NAME(<x>)",
    "NAME(<x>, axis=<axes>)",
    "NAME(<x>, axis=<axes>, ddof=<count>)",
    "NAME(<x>, <axis>, keepdims=True, ddof=1)",
)

_ACTIVATIONS = (
    "relu relu6 sigmoid silu swish gelu elu celu selu leaky_relu mish hardsigmoid hardswish hardtanh "
    "softplus softsign tanhshrink softshrink hardshrink logsigmoid erf erfc rsqrt"
)

#: How the functions of neural networks are called, which the twin computes from PyTorch's manual.
NEURAL: Mapping[str, tuple[str, ...]] = {
    **_each(_ACTIVATIONS, "NAME(<x:f>)"),
    "threshold": ("threshold(<x:f>, 0.5, 2)",),
    "glu": ("glu(concatenate([<x:f 1-4>, <same>], axis=-1))",),
    "dropout": ("dropout(<x:f>, 0.5, training=False)",),
    **_each("softmax softmin log_softmax logsumexp", "NAME(<x:f 1-4>, dim=<axis>)"),
    **_each("layer_norm rms_norm", "NAME(<x:f 1-4>, (<x>.shape[-1],), eps=1e-5)"),
    "instance_norm": ("instance_norm(<x:f 3-4>)",),
    **_each(
        "mse_loss l1_loss smooth_l1_loss huber_loss",
        "NAME(<x:f>, <same>)",
        "NAME(<x:f>, <same>, reduction='sum')",
        "NAME(<x:f>, <same>, reduction='none')",
    ),
    "binary_cross_entropy": ("binary_cross_entropy(sigmoid(<x:f>), sigmoid(<same>))",),
    "binary_cross_entropy_with_logits": ("binary_cross_entropy_with_logits(<x:f>, sigmoid(<same>))",),
    "linear": ("linear(<x:f 2>, <same>)",),
    "scaled_dot_product_attention": ("scaled_dot_product_attention(<x:f 2-4>, <same>, <same>)",),
    "one_hot": ("one_hot(absolute(<x:i>) % 4, 4)",),
    "conv1d": ("conv1d(<x:f 3>, <same>)", "conv1d(<x:f 3>, <same>, padding=1)"),
    "conv2d": ("conv2d(<x:f 4>, <same>)", "conv2d(<x:f 4>, <same>, padding=1)"),
    **_each("max_pool1d avg_pool1d", "NAME(<x:f 3>, 2)", "NAME(<x:f 3>, 3, stride=1, padding=1)"),
    **_each("max_pool2d avg_pool2d", "NAME(<x:f 4>, 2)", "NAME(<x:f 4>, 3, stride=1, padding=1)"),
    **_each("adaptive_avg_pool1d adaptive_max_pool1d", "NAME(<x:f 3>, 1)"),
    **_each("adaptive_avg_pool2d adaptive_max_pool2d", "NAME(<x:f 4>, 1)"),
    "interpolate": ("interpolate(<x:f 4>, scale_factor=2)",),
}

#: How each function is called.
FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    **NEURAL,
    **SPECIAL,
    # element by element
    **_each(_UNARY, "NAME(<x>)"),
    **_each(_BINARY, "NAME(<x>, <y>)", "NAME(<x>, <y>)", "NAME(<number>, <x>)"),
    **_each(_SHIFTS, "NAME(<x:iu>, <count>)", "NAME(<x:iu>, absolute(<array>) % 4)"),
    **_each("power pow", "NAME(<x>, <count>)", "NAME(<x>, <y>)", "NAME(<x:u>, <y>)"),
    **_each("round around", "NAME(<x>)", "NAME(<x>, <k>)"),
    "nan_to_num": ("nan_to_num(<x>)", "nan_to_num(<x>, nan=1, posinf=2, neginf=-3)"),
    "clip": (
        "clip(<x>, -1, 2)",
        "clip(<x>, None, 1)",
        "clip(<x>, 1, None)",
        "clip(<x>, <y>, 2)",
        "clip(<x>, <y>, <y>)",
        "clip(<x>, 2, -1)",
    ),
    "array_equal": ("array_equal(<x>, <same>)", "array_equal(<x>, <x>)"),
    "where": (
        "where(<mask>, <x>, <y>)",
        "where(<mask>, <number>, <x>)",
        "where(<x:b>, <any>, <y>)",
        "where(<x>)",
    ),
    # along axes
    **_each(
        "sum prod",
        "NAME(<x>)",
        "NAME(<x>, axis=<axes>)",
        "NAME(<x>, <axis>, keepdims=True)",
        "NAME(<x>, axis=<axes>, dtype=<wider>)",
        "NAME(<x>, axis=<axes>, initial=<count>)",
        "NAME(<x>, axis=<axes>, where=<mask>)",
    ),
    **_each(
        "max amax min amin",
        "NAME(<x>)",
        "NAME(<x>, axis=<axes>)",
        "NAME(<x>, axis=<axes>, keepdims=True)",
        "NAME(<x>, axis=<axes>, initial=<count>)",
        "NAME(<x>, axis=<axes>, initial=<count>, where=<mask>)",
    ),
    **_each(
        "all any", "NAME(<x>)", "NAME(<x>, axis=<axes>)", "NAME(<x>, <axis>, keepdims=True, where=<mask>)"
    ),
    **_each(
        "mean nanmean",
        "NAME(<x>)",
        "NAME(<x>, axis=<axes>)",
        "NAME(<x>, <axis>, keepdims=True)",
        "NAME(<x>, axis=<axes>, dtype=f64)",
        "NAME(<x>, axis=<axes>, where=<mask>)",
    ),
    **_each("var std", *_VARIANCE, "NAME(<x>, axis=<axes>, dtype=f64)"),
    **_each("nanvar nanstd", *_VARIANCE),  # with ``dtype``, NumPy rounds deviations to the dtype of the data
    "variance": ("variance(<x>, axis=<axes>)",),
    **_each(
        "argmax argmin",
        "NAME(<x>)",
        "NAME(<x>, axis=<axis>)",
        "NAME(<x>, <axis>, keepdims=True)",
        "NAME(<x>, keepdims=True)",
    ),
    "ptp": ("ptp(<x>)", "ptp(<x>, axis=<axes>)", "ptp(<x>, <axis>, keepdims=True)"),
    "average": (
        "average(<x>)",
        "average(<x>, axis=<axes>)",
        "average(<x>, weights=<same>)",
        "average(<x>, <axis>, <same>, keepdims=True)",
    ),
    "count_nonzero": (
        "count_nonzero(<x>)",
        "count_nonzero(<x>, axis=<axes>)",
        "count_nonzero(<x>, <axis>, keepdims=True)",
    ),
    **_each("cumsum cumprod", "NAME(<x>)", "NAME(<x>, axis=<axis>)", "NAME(<x>, <axis>, dtype=<wider>)"),
    **_each(
        "nansum nanprod nanmax nanmin",
        "NAME(<x>)",
        "NAME(<x>, axis=<axes>)",
        "NAME(<x>, axis=<axes>, keepdims=True)",
    ),
    "median": ("median(<x>)", "median(<x>, axis=<axis>)", "median(<x>, axis=<axes>, keepdims=True)"),
    "quantile": (
        "quantile(<x>, 0.5)",
        "quantile(<x>, 0.25, axis=<axis>)",
        "quantile(<x>, [0.0, 0.75, 1.0], axis=<axes>)",
        "quantile(<x>, 0.5, axis=<axis>, keepdims=True)",
    ),
    "percentile": ("percentile(<x>, 50)", "percentile(<x>, [25, 100], axis=<axis>)"),
    "nanmedian": (
        "nanmedian(<x>)",
        "nanmedian(<x>, axis=<axis>)",
        "nanmedian(<x>, axis=<axes>, keepdims=True)",
    ),
    "nanquantile": ("nanquantile(<x>, 0.5)", "nanquantile(<x>, [0.0, 0.75, 1.0], axis=<axes>)"),
    "nanpercentile": ("nanpercentile(<x>, 50)", "nanpercentile(<x>, [25, 100], axis=<axis>)"),
    **_each("gcd lcm", "NAME(<x:iu>, <same>)", "NAME(<x:iu>, 6)"),
    "delete": (
        "delete(<x: 1-3>, 0)",
        "delete(<x: 1-3>, -1, axis=<axis>)",
        "delete(<x: 1>, <x> > 0)",
    ),
    # shapes
    "reshape": ("reshape(<x>, <reshape>)",) * 3,
    "flatten": ("<x>.flatten()",),
    "ravel": ("ravel(<x>)",),
    "transpose": ("transpose(<x>)", "transpose(<x>, <permutation>)"),
    "permute_dims": ("permute_dims(<x>, <permutation>)",),
    "matrix_transpose": ("matrix_transpose(<x: 2-4>)",),
    "swapaxes": ("swapaxes(<x>, <axis>, <axis>)",),
    **_each("moveaxis rollaxis", "NAME(<x>, <axis>, <axis>)"),
    "squeeze": ("squeeze(<x>, <single>)", "squeeze(<x>, (<single>,))", "squeeze(<x>)"),
    "expand_dims": ("expand_dims(<x>, <new_axis>)", "expand_dims(<x>, (0, <new_axis>))"),
    "broadcast_to": ("broadcast_to(<x>, (2,) + <x>.shape)", "broadcast_to(<x>, <any>.shape)"),
    "broadcast_arrays": ("broadcast_arrays(<x>, <other>)", "broadcast_arrays(<x>, <any>)"),
    **_each("atleast_1d atleast_2d atleast_3d", "NAME(<x>)", "NAME(<x>, <any>)"),
    "flip": ("flip(<x>)", "flip(<x>, <axis>)", "flip(<x>, axis=<axes>)"),
    **_each("fliplr flipud", "NAME(<x>)"),
    "roll": ("roll(<x>, <k>)", "roll(<x>, <k>, <axis>)", "roll(<x: 2-4>, (<k>, <k>), (<axis>, <axis>))"),
    "rot90": ("rot90(<x: 2-4>, <k>)", "rot90(<x: 2-4>, <k>, <two_axes>)", "rot90(<x: 2-4>)"),
    **_each("tril triu", "NAME(<x: 1-4>)", "NAME(<x: 2-4>, <k>)"),
    "diagonal": (
        "diagonal(<x: 2-4>)",
        "diagonal(<x: 2-4>, <k>)",
        "diagonal(<x: 2-4>, <k>, *<two_axes>)",
    ),
    "trace": ("trace(<x: 2-4>)", "trace(<x: 2-4>, <k>)", "trace(<x: 2-4>, <k>, *<two_axes>)"),
    "diag": ("diag(<x: 1-2>)", "diag(<x: 1-2>, <k>)"),
    **_each(
        "concatenate concat",
        "NAME([<x: 1-4>, <same>])",
        "NAME((<x: 1-4>, <same>, <x>), axis=<axis>)",
        "NAME([<x: 1-4>, <joined>], axis=<join_axis>)",
        "NAME([<x>, <same>], axis=None)",
    ),
    "stack": ("stack([<x>, <same>])", "stack((<x>, <same>, <x>), <new_axis>)"),
    **_each("hstack vstack dstack column_stack", "NAME([<x>, <same>])", "NAME((<x>, <same>, <x>))"),
    "append": ("append(<x>, <same>)", "append(<x>, <same>, <axis>)", "append(<x>, <any>)"),
    **_each(
        "split array_split",
        "NAME(<x>, <pieces>, <axis>)",
        "NAME(<x>, [1, 2], axis=<axis>)",
        "NAME(<x>, [2, 1, 40], axis=<axis>)",
        "NAME(<x>, [-1], axis=<axis>)",
    ),
    **_each("hsplit vsplit dsplit", "NAME(<x: 1-4>, <pieces>)", "NAME(<x: 1-4>, [1])"),
    "repeat": ("repeat(<x>, <count>)", "repeat(<x>, <count>, <axis>)", "repeat(<x: 1>, <x>.shape[0])"),
    "tile": ("tile(<x>, <count>)", "tile(<x>, (<count>, <count>))", "tile(<x>, (2, 1, <count>))"),
    "pad": (
        "pad(<x>, <count>)",
        "pad(<x>, (<count>, <count>), constant_values=<count>)",
        "pad(<x>, <count>, mode='edge')",
        "pad(<x>, <count>, mode='reflect')",
        "pad(<x: 2>, ((<count>, <count>), (<count>, <count>)))",
    ),
    # new tensors
    "array": (
        "array([<x>, <same>])",
        "array(<x>)",
        "array([[1, 2], [3, <k>]], <dtype>)",
        "array(<x>, ndmin=3)",
    ),
    "asarray": ("asarray([<x>, <same>])", "asarray(<x>)", "asarray(<x>, dtype=<cast>)"),
    "ascontiguousarray": ("ascontiguousarray(<x>)",),
    **_each(
        "zeros ones",
        "NAME(<shape>)",
        "NAME(<shape>, <dtype>)",
        "NAME(<x>.shape, <dtype>)",
        "NAME(<x: 1-4>.shape[0])",
    ),
    "empty": ("zeros_like(empty(<shape>, <dtype>))",),
    "full": ("full(<shape>, <count>)", "full(<shape>, <count>, <dtype>)", "full(<x>.shape, 1.5, f32)"),
    **_each("zeros_like ones_like", "NAME(<x>)", "NAME(<x>, dtype=<dtype>)"),
    "empty_like": ("zeros_like(empty_like(<x>))",),
    "full_like": ("full_like(<x>, <count>)", "full_like(<x>, <count>, dtype=<dtype>)"),
    "arange": (
        "arange(<count>)",
        "arange(<k>, <k>)",
        "arange(<k>, <k>, <step>)",
        "arange(<x: 1-4>.shape[0])",
        "arange(<x: 1-4>.shape[0], dtype=<number_dtype>)",
        "arange(<x: 1-4>.shape[0], <k>, <step>)",
        "arange(0.5, 3, 0.5, dtype=<float_dtype>)",
    ),
    "linspace": (
        "linspace(<k>, <k>, <count>)",
        "linspace(<k>, <k>, <count>, endpoint=False)",
        "linspace(<k>, <k>, <count>, dtype=<float_dtype>)",
        "linspace(<k>, <k>, <count>, retstep=True)",
    ),
    "logspace": ("logspace(<k>, <k>, <count>)", "logspace(0, 3, <count>, base=2.0)"),
    "geomspace": ("geomspace(1, 8, <count>)", "geomspace(1, 1000, <count>, endpoint=False)"),
    "eye": ("eye(<count>)", "eye(<count>, <count>, <k>, dtype=<dtype>)", "eye(<count>, k=<k>)"),
    "identity": ("identity(<count>)", "identity(<count>, <dtype>)"),
    "tri": ("tri(<count>)", "tri(<count>, <count>, <k>)", "tri(<count>, dtype=<dtype>)"),
    "vander": ("vander(<x: 1>)", "vander(<x: 1>, <count>)", "vander(<x: 1>, 3, increasing=True)"),
    "meshgrid": (
        "meshgrid(<x: 1>, <any: 1>)",
        "meshgrid(<x: 1>, <any: 1>, indexing='ij')",
        "meshgrid(<x: 1>, <any: 1>, sparse=True)",
    ),
    "astype": ("<x>.astype(<cast>)",) * 2,
    "copy": ("copy(<x>)",),
    # searching and sorting
    "take": (
        "take(<x: 1-4>, <indices>)",
        "take(<x: 1-4>, <indices>, <axis>)",
        "take(<x: 1-4>, <index_array>, axis=<axis>)",
        "take(<x: 1-4>, <index_array>, axis=<axis>, mode='clip')",
        # Padded, because NumPy 2.4 hangs where it wraps indices around an axis without elements.
        "take(pad(<x: 1-4>, (0, 1)), <index_array>, axis=<axis>, mode='wrap')",
    ),
    "take_along_axis": (
        "take_along_axis(<x: 1-4>, argsort(<x>, axis=0, stable=True), 0)",
        "take_along_axis(<x: 1-4>, argmax(<x>, axis=-1, keepdims=True), axis=-1)",
    ),
    **_each("nonzero argwhere flatnonzero", "NAME(<x>)"),
    "searchsorted": (
        "searchsorted(sort(<x: 1>), <any>)",
        "searchsorted(sort(<x: 1>), <any>, side='right')",
        "searchsorted([-1, 0, 2], <x>)",
        "searchsorted(sort(<x: 1>), <k>)",
    ),
    "digitize": (
        "digitize(<x>, [-1, 0, 2])",
        "digitize(<x>, sort(<any: 1>))",
        "digitize(<x>, [0, 1], right=True)",
    ),
    "unravel_index": ("unravel_index(absolute(<x:i>) % 6, (2, 3))", "unravel_index(<x:iu>, (5, 2, 3))"),
    "unique": ("unique(<x>)",),
    **_each("union1d intersect1d setdiff1d", "NAME(<x>, <any>)"),
    **_each("nancumsum nancumprod", "NAME(<x:if 1-3>)", "NAME(<x:if 1-3>, axis=<axis>)"),
    **_each("nanargmax nanargmin", "NAME(<x:if 1-3>, axis=<last_axis>)"),
    "sort": ("sort(<x>)", "sort(<x>, <axis>)", "sort(<x>, axis=None)"),
    "argsort": ("argsort(<x>, stable=True)", "argsort(<x>, <axis>, stable=True)"),
    "diff": (
        "diff(<x>)",
        "diff(<x>, <count>)",
        "diff(<x>, <count>, <axis>)",
        "diff(<x>, axis=<axis>, prepend=<same>)",
        "diff(<x>, 2, <axis>, append=<same>)",
    ),
    "ediff1d": ("ediff1d(<x>)",),
    "gradient": ("gradient(<x>)", "gradient(<x>, 2.0, axis=<axis>)"),
    "trapezoid": ("trapezoid(<x>)", "trapezoid(<x>, dx=2.0, axis=<axis>)", "trapezoid(<x>, <same>)"),
    "interp": (
        "interp(<x>, [-1.0, 0.0, 2.0], [1.0, 3.0, -2.0])",
        "interp(<x:f>, sort(<any: 1>), <same_as_last>)",
        "interp(<x>, [0, 1], [2, 5], left=-1, right=7)",
    ),
    # products
    **_each("matmul", "NAME(<x: 1-4>, <matrix>)", "NAME(<x: 2-4>, matrix_transpose(<same>))"),
    "dot": ("dot(<x>, <matrix>)", "dot(<x: 1>, <same>)", "dot(<x>, <same>)"),
    **_each("vdot inner vecdot", "NAME(<x>, <same>)"),
    "outer": ("outer(<x>, <other>)",),
    "tensordot": (
        "tensordot(<x>, <other>, 0)",
        "tensordot(<x>, <same>, <rank>)",
        "tensordot(<x: 1-4>, <same>, axes=([<axis>], [<last_axis>]))",
        "tensordot(<x: 2-4>, matrix_transpose(<same>), 1)",
    ),
    "kron": ("kron(<x>, <other>)",),
    "cross": ("cross(<x: 1-3>, <same>)",),
    "einsum": ("einsum(<einsum>)",) * 3,
    "norm": (
        "norm(<x>)",
        "norm(<x: 1-4>, axis=<axis>)",
        "norm(<x: 1-4>, ord=1, axis=<axis>, keepdims=True)",
        "norm(<x: 1-4>, ord=inf, axis=<axis>)",
        "norm(<x: 2>, ord='fro')",
        "norm(<x: 2>, ord=1, keepdims=True)",
    ),
    # Integers, because NumPy multiplies three matrices in the order that is cheapest.
    "multi_dot": ("multi_dot([<x:biu 2>, <matrix>, <same_as_last>.T])", "multi_dot([<x: 2>, <same>.T])"),
    # others
    "bincount": ("bincount(absolute(<x:i 1>))", "bincount(absolute(<x:i 1>), minlength=<count>)"),
    **_each("convolve correlate", "NAME(<x:iuf 1>, <any: 1>)", "NAME(<x:f 1>, <same>, 'same')"),
    "select": ("select([<mask>, <x> > 1], [<x>, <same>])", "select([<mask>], [<x>], 1)"),
    "piecewise": ("piecewise(<x:if>, [<x> > 0], [lambda v: v + 1, lambda v: v * 2])",),
    "apply_along_axis": ("apply_along_axis(lambda v: v.sum(), <axis>, <x:if 1-3>)",),
    "isin": ("isin(<x>, <any>)", "isin(<x>, <any>, invert=True)"),
    **_each(
        "cumulative_sum cumulative_prod", "NAME(<x: 1>)", "NAME(<x: 1-3>, axis=<axis>, include_initial=True)"
    ),
    "nextafter": ("nextafter(<x:f>, <same>)",),
    "unstack": ("unstack(<x: 1-3>)", "unstack(<x: 1-3>, axis=<axis>)"),
    "insert": (
        "insert(<x: 1>, 0, 1)",
        "insert(<x: 1-3>, 1, 1, axis=<axis>)",
        "insert(<x: 1-3>, -1, 0, axis=<axis>)",
    ),
    "packbits": ("packbits(<x:i 1>)", "packbits(<x:i 1-3>, axis=<axis>)"),
    "unpackbits": ("unpackbits(<x:i 1>.astype(np.uint8))",),
    "sliding_window_view": (
        "sliding_window_view(<x: 1>, 2)",
        "sliding_window_view(<x: 2>, (1, 2))",
        "sliding_window_view(<x: 1-3>, 2, axis=<axis>)",
    ),
    "partition": (
        "partition(<x: 1>, 1)[1]",
        "take(partition(<x: 1-3>, 0, axis=<axis>), 0, axis=<last_axis>)",
    ),
    "argpartition": ("<x: 1>[argpartition(<x>, 1)[1]]",),
    # NumPy's result of one variable has no axes, which a named size cannot say.
    "cov": ("cov(<x:if 1>)", "cov(pad(<x:f 2>, 1))", "cov(pad(<x:f 2>, 1), rowvar=False)"),
    # Python's
    "len": ("<x: 1-4> + f32(len(<x>)).astype(<dtype_of_x>)", "zeros(len(<x: 1-4>))"),
}

#: Operators and subscripts.
SYNTAX: Mapping[str, tuple[str, ...]] = {
    **{
        f"operator {sign}": (f"<x> {sign} <y>", f"<number> {sign} <x>")
        for sign in ["+", "-", "*", "/", "//", "%", "==", "!=", "<", "<=", ">", ">="]
    },
    **{f"operator {sign}": (f"<x:biu> {sign} <y>", f"<x> {sign} <y>") for sign in ["&", "|", "^"]},
    **{f"operator {sign}": (f"<x:iu> {sign} <count>",) for sign in ["<<", ">>"]},
    "operator **": ("<x:iuf> ** <count>", "<x:iuf> ** 2", "<x:f> ** 0.5", "<x:u> ** <y>"),
    "operator @": ("<x: 1-4> @ <matrix>", "<x: 2-4> @ <same>.mT"),
    "unary -": ("-<x>",),
    "unary ~": ("~<x>",),
    "subscript": ("<x: 1-4>[<subscript>]",) * 4,
    "mask": ("<x: 1-4>[<mask>]", "<x: 1-3>[<x> > 0]"),
    "attribute": ("<x>.T", "<x: 2-4>.mT", "<x>.real"),
}

#: Functions without a form, with the reason.
WITHOUT_FORM: Mapping[str, str] = {
    **dict.fromkeys(("tolist",), "it gives a list: tests/tinynn/builtins/test_python_names.py"),
    **dict.fromkeys(("bool",), "Python's conversions of one number: tests/tinynn/programs/snippets"),
    **dict.fromkeys(("normalize", "cosine_similarity"), "their eps is 0 in f16, and not in the twin"),
    **dict.fromkeys(
        _names("""unique_values unique_counts unique_inverse unique_all"""),
        "tests/tinynn/builtins/numpy/test_more_of_numpy.py and tests/array_api compare them",
    ),
    **dict.fromkeys(
        _names(
            """c_ r_ indices ix_ triu_indices tril_indices diag_indices polyval polyfit
            bartlett blackman hamming hanning"""
        ),
        "tests/tinynn/builtins/numpy/test_changes_by_calls.py compares them",
    ),
    **dict.fromkeys(
        _names(
            """block choose histogram2d lexsort ravel_multi_index unwrap polyadd polysub polymul polyder
            polyint poly vectorize"""
        ),
        "tests/tinynn/builtins/numpy/test_more_of_numpy.py compares them",
    ),
    **dict.fromkeys(
        _names(
            """apply_over_axes array_equiv asfortranarray bitwise_count compress diag_indices_from diagflat
            extract float_power frexp fromfunction histogram_bin_edges i0 kaiser ldexp mask_indices matvec
            polydiv resize row_stack setxor1d sort_complex spacing tril_indices_from trim_zeros
            triu_indices_from vecmat"""
        ),
        "tests/tinynn/builtins/numpy/test_derived.py compares them",
    ),
    **dict.fromkeys(
        ("tensorinv", "tensorsolve"), "tests/tinynn/builtins/numpy/test_other_forms.py compares them"
    ),
    "ord": "of strings: tests/tinynn/operators/test_strings.py",
    **dict.fromkeys(("chr", "str"), "of strings: tests/tinynn/builtins/test_python_names.py"),
    **dict.fromkeys(
        ("histogram", "corrcoef", "mgrid", "ogrid", "ndarray"),
        "tests/tinynn/programs/test_numpy.py compares them",
    ),
    "callback": "of functions of Python: tests/functions/test_callbacks.py",
    **dict.fromkeys(
        ("complex", "iscomplexobj", "isrealobj", "iscomplex", "isreal"),
        "numbers: tests/tinynn/values/test_complex.py",
    ),
    **dict.fromkeys(
        _names(
            """t contiguous cpu expand scatter type_as to dim numel chunk gather index_select topk float
            double half long int numpy lerp unfold aminmax fold cummax cummin kthvalue mode"""
        ),
        "PyTorch's names, which NumPy lacks: tests/tinynn/builtins/test_torch_names.py",
    ),
    **dict.fromkeys(
        _names(
            """random.key random.split random.fold_in random.exponential random.gumbel random.categorical
            random.bits"""
        ),
        "NumPy draws other numbers: tests/tinynn/builtins/test_random.py",
    ),
    **dict.fromkeys(
        ("eig", "eigvals"), "complex whatever they are: tests/tinynn/builtins/numpy/test_linalg.py"
    ),
    **dict.fromkeys(
        ("roots", "einsum_path", "real_if_close"), "tests/tinynn/builtins/numpy/test_linalg.py compares them"
    ),
    "histogramdd": "tests/tinynn/builtins/numpy/test_changes_by_calls.py compares it",
    "sorted": "of lists: tests/tinynn/operators/test_tables.py",
    **dict.fromkeys(("svd", "eigh"), "vectors of any sign: tests/tinynn/builtins/numpy/test_linalg.py"),
    **dict.fromkeys(
        _names("rnn rnn_cell lstm lstm_cell gru gru_cell"),
        "tests/tinynn/builtins/nn/test_recurrent.py has programs",
    ),
    **dict.fromkeys(
        _names(
            """adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d max_pool3d conv3d conv_transpose1d
            conv_transpose2d conv_transpose3d batch_norm group_norm bilinear cross_entropy nll_loss kl_div
            embedding pixel_shuffle pixel_unshuffle prelu upsample"""
        ),
        "shapes that depend on one another: tests/tinynn/programs/snippets/nn_functions.py",
    ),
}

#: Functions that are no methods, in a cell or in the twin.
NO_METHODS = _names(
    """where permute_dims broadcast_arrays atleast_1d atleast_2d atleast_3d append array asarray
    ascontiguousarray arange linspace vander meshgrid unravel_index ediff1d gradient trapezoid interp
    sort norm multi_dot"""
)

#: Functions that move elements: they may take any number, and give the very same.
MOVES = _names(
    """positive reshape flatten ravel transpose permute_dims matrix_transpose swapaxes moveaxis rollaxis
    squeeze expand_dims broadcast_to broadcast_arrays atleast_1d atleast_2d atleast_3d flip fliplr flipud roll
    rot90 tril triu diagonal diag concatenate concat stack hstack vstack dstack column_stack append split
    array_split hsplit vsplit dsplit repeat tile array ascontiguousarray copy subscript attribute meshgrid
    delete"""
)

#: Functions of floats that round in their own way: their results are inexact, whatever they are given.
ROUNDS = _names(
    """exp log log2 log10 sqrt sin cos tan sinh cosh tanh arcsin asin arccos acos arctan atan arcsinh asinh
    arccosh acosh arctanh atanh exp2 expm1 log1p cbrt deg2rad radians rad2deg degrees sinc reciprocal hypot
    arctan2 atan2 logaddexp logaddexp2 mean nanmean var std nanvar nanstd variance average median quantile
    percentile nanmedian nanquantile nanpercentile linspace logspace geomspace norm interp gradient
    trapezoid angle grad value_and_grad jacobian jacfwd jacrev
    hessian vjp jvp vmap checkpoint custom_vjp custom_jvp stop_gradient detach cov convolve correlate"""
) | {*NEURAL, *LINALG, *FOURIER, *(name for name in HELPED if "grad" in name)}

#: Functions that add up terms: their rounding errors are relative to the sum of the terms' sizes.
ADDS = (
    {"operator @"}
    | _names(
        """sum cumsum nansum mean nanmean var std nanvar nanstd variance average trace matmul dot vdot vecdot
    inner tensordot einsum norm multi_dot trapezoid cross kron outer linear conv1d conv2d
    scaled_dot_product_attention mse_loss l1_loss smooth_l1_loss huber_loss grad value_and_grad vjp jvp vmap
    checkpoint custom_vjp custom_jvp cumulative_sum convolve correlate cov mm bmm mv lstsq solve inv pinv"""
    )
    | FOURIER
)

#: Functions that multiply many factors.
MULTIPLIES = {"operator **", "function grad_loop", "function grad_rows"} | _names(
    "prod nanprod cumprod cumulative_prod power pow vander matrix_power det hessian"
)

#: Functions that take complex numbers, too.
COMPLEX = _names(
    """absolute abs add subtract multiply divide true_divide negative positive square reciprocal exp log log2
    log10 sqrt sin cos tan sinh cosh tanh power equal not_equal isnan isinf isfinite isclose allclose
    array_equal sum mean prod cumsum var std any all count_nonzero diff ediff1d trace matmul dot vdot vecdot
    inner outer tensordot einsum kron norm reshape flatten ravel transpose permute_dims matrix_transpose
    swapaxes moveaxis rollaxis squeeze expand_dims broadcast_to flip fliplr flipud roll rot90 tril triu
    diagonal diag concatenate concat stack hstack vstack repeat tile pad zeros_like ones_like full_like
    astype copy take where fftshift ifftshift subscript attribute mask"""
) | {
    "operator +",
    "operator -",
    "operator *",
    "operator /",
    "operator ==",
    "operator !=",
    "operator @",
    "unary -",
}

#: Functions that take inexact numbers, too: a small change of an argument is a small change of the result.
CONTINUOUS = {
    *(ADDS - {"norm"}),
    *_names("add subtract multiply negative absolute abs sin cos tanh arctan maximum minimum max min where"),
    *("operator +", "operator -", "operator *", "unary -"),
}

#: Functions that give exact complex numbers of exact ones.
COMPLEX_EXACT = (
    MOVES
    | _names(
        "add subtract multiply negative square sum diff real imag conj conjugate equal not_equal zeros_like"
    )
    | {"operator +", "operator -", "operator *", "operator ==", "operator !=", "unary -", "mask"}
)

#: Functions for which NumPy leaves the sign of a zero to the order of its loops, or adds zeros.
ANY_ZERO = {
    *ADDS,
    *MULTIPLIES,
    *_names(
        """maximum minimum fmax fmin max min amax amin nanmax nanmin clip ptp sinc median quantile percentile
        nanmedian nanquantile nanpercentile"""
    ),
    *_names(
        """interp gradient linspace arange diff ediff1d sort unique scan partition select
        union1d intersect1d setdiff1d"""
    ),
    *("function prefix_slices", "function parallel_sum", "function append", "function comprehension"),
    *("function record",),
}


def uncovered(vocabulary: Iterable[str]) -> list[str]:
    """The functions that have neither a form nor a reason why not."""
    return sorted(set(vocabulary) - set(FUNCTIONS) - set(WITHOUT_FORM))
