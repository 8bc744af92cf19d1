"""Say how functions are called that NumPy has under another name or not at all, and those of helpers.

The holes are those of forms. Knows nothing of nnmagic.
"""

from __future__ import annotations

from collections.abc import Mapping


def each_of(names: str, *forms: str) -> dict[str, tuple[str, ...]]:
    """The same forms for several functions; ``NAME`` is the function's name."""
    return {name: tuple(form.replace("NAME", name) for form in forms) for name in names.split()}


def names_of(text: str) -> frozenset[str]:
    """The names of a text."""
    return frozenset(text.split())


#: Functions whose derivatives of infinities are NaN by the chain rule, where a formula knows better.
DERIVATIVES = names_of(
    "grad value_and_grad jacobian hessian vjp jvp vmap checkpoint stop_gradient detach custom_vjp custom_jvp"
)

#: Parts of forms: a matrix that is far from singular, and a key.
_REGULAR = "(<x:iuf 2-3> @ <x>.mT + eye(<x>.shape[-2], dtype=<dtype_of_x>) * 40)"
_KEY = "random.key(<count>)"

#: NumPy's functions of ``np.linalg`` and ``np.fft`` in forms.
LINALG = names_of(
    """norm multi_dot solve inv cholesky det slogdet qr svdvals eigvalsh lstsq matrix_rank pinv cond
    matrix_power vector_norm matrix_norm"""
)
FOURIER = names_of(
    """fft ifft rfft irfft fft2 ifft2 fftn ifftn rfft2 irfft2 rfftn irfftn hfft ihfft fftshift ifftshift
    fftfreq rfftfreq"""
)

#: After ``=>`` stands what NumPy has for it.
SPECIAL: Mapping[str, tuple[str, ...]] = {
    # complex numbers
    **each_of("real imag conj conjugate angle", "NAME(<x:fc>)"),
    **each_of("fft ifft", "NAME(<x:iufc 1-3>)", "NAME(<x:fc 1-3>, axis=<axis>)", "NAME(<x:fc 1-2>, <count>)"),
    **each_of("rfft ihfft", "NAME(<x:iuf 1-3>)", "NAME(<x:f 1-2>, <count>, axis=<axis>)"),
    **each_of("irfft hfft", "NAME(<x:fc 1-3>)", "NAME(<x:fc 1-2>, 5, <axis>)"),
    **each_of(
        "fft2 ifft2", "NAME(<x:fc 2-3>)", "NAME(<x:fc 2-3>, (2, 3))", "NAME(<x:fc 2-3>, axes=<two_axes>)"
    ),
    **each_of("fftn ifftn", "NAME(<x:fc 1-3>)", "NAME(<x:fc 2-3>, axes=<two_axes>, norm='ortho')"),
    **each_of("rfft2 rfftn", "NAME(<x:f 2-3>)", "NAME(<x:f 2-3>, axes=<two_axes>)"),
    **each_of("irfft2 irfftn", "NAME(<x:fc 2-3>)", "NAME(<x:c 2>, (3, 4))"),
    **each_of("fftshift ifftshift", "NAME(<x>)", "NAME(<x: 1-4>, axes=<axis>)"),
    **each_of("fftfreq rfftfreq", "NAME(5)", "NAME(<x: 1-4>.shape[0], 0.5)"),
    # derivatives
    "grad": (
        "grad(lambda v: (v * v).sum())(<x:f>) => <x> * 2",
        "grad(lambda v: sin(v).sum())(<x:f>) => cos(<x>)",
        "grad(lambda v: (v * <same>).sum())(<x:f>) => +<same>",
        "grad(lambda v: where(v > 0, v * 3, v).sum())(<x:f>) => where(<x> > 0, 3 * ones_like(<x>), 1)",
        "grad(lambda v: cumsum(v).sum())(<x:f 1>) => arange(len(<x>), 0, -1).astype(<dtype_of_x>)",
        "grad(lambda v: (v[1:] * v[:-1]).sum())(pad(<x:f 1>, 1)) => pad(<x>, 2)[2:] + pad(<x>, 2)[:-2]",
        "grad(lambda v: concatenate([v, v * 2]).sum())(<x:f 1-3>) => full_like(<x>, 3)",
        "grad(lambda v, w: (v @ w.T).sum())(<x:f 2>, <same>) => ones_like(<x> @ <same>.T) @ <same>",
        "grad(lambda v, w: (v @ w.T).sum(), argnums=1)(<x:f 2>, <same>) => ones_like(<x> @ <same>.T) @ <x>",
        "grad(lambda v: sort(v, 0)[:1].sum() + flip(v).sum())(<x:f 0> * ones((1,), <dtype_of_x>))"
        " => full((1,), 2, <dtype_of_x>)",
    ),
    "value_and_grad": (
        "value_and_grad(lambda v: (v * v * 0.5).sum())(<x:f>) => ((<x> * <x> * 0.5).sum(), +<x>)",
    ),
    "jacobian": (
        "jacobian(lambda v: v * v)(<x:f 1>) => diag(2 * <x>)",
        "jacobian(lambda v: v.sum())(<x:f>) => ones_like(<x>)",
    ),
    "jacfwd": ("jacfwd(lambda v: v * v)(<x:f 1>) => diag(2 * <x>)",),
    "jacrev": ("jacrev(lambda v: v * v)(<x:f 1>) => diag(2 * <x>)",),
    "hessian": ("hessian(lambda v: (v * v * v).sum())(<x:f 1>) => diag(6 * <x>)",),
    "vjp": ("_h_vjp(<x:f>, <same>)",),
    "jvp": ("_h_jvp(<x:f>, <same>)",),
    "vmap": (
        "_h_vmap(<x:iuf 1-3>)",
        "_h_vmap_loop(<x:f 1>)",
        "vmap(grad(lambda v: (v * v).sum()))(<x:f 1-3>) => 2 * <x>",
        "vmap(lambda v: v.sum(), in_axes=1)(<x:if 2>) => <x>.sum(axis=0)",
        "vmap(lambda v, w: v + w, in_axes=(None, 0))(<x: 1>, <x>) => <x>[:, None] + <x>",
        "vmap(sort)(<x:iuf 2-3>) => sort(<x>)",
        "vmap(lambda v: v[::-1], out_axes=-1)(<x: 2>) => <x>[:, ::-1].T",
    ),
    "checkpoint": ("grad(checkpoint(lambda v: (exp(v) * v).sum()))(<x:f>) => exp(<x>) * (<x> + 1)",),
    "custom_vjp": (
        "grad(lambda v: custom_vjp(lambda x: x * x, lambda x: (x, x), lambda x, d: (x * d * 3,))(v).sum())"
        "(<x:f>) => <x> * 3",
    ),
    "custom_jvp": (
        "grad(lambda v: custom_jvp(lambda x: x * x, lambda p, t: (p[0] * p[0], p[0] * t[0] * 3))(v).sum())"
        "(<x:f>) => <x> * 3",
    ),
    **each_of("stop_gradient", "grad(lambda v: (v * NAME(v)).sum())(<x:f>) => +<x>"),
    "detach": ("grad(lambda v: (v * v.detach()).sum())(<x:f>) => +<x>",),
    "tree_map": ("tree_map(lambda a, b: a + b, (<x>, <same>), (<x>, <x>)) => (<x> + <x>, <same> + <x>)",),
    # linear algebra
    "solve": (f"solve({_REGULAR}, <x>)",),
    **each_of("inv cholesky det slogdet svdvals eigvalsh matrix_rank cond", f"NAME({_REGULAR})"),
    "pinv": (f"pinv({_REGULAR.replace('iuf', 'f')})",),  # NumPy's of integers without elements are integers
    "qr": ("absolute(qr(<x:iuf 2>, 'r'))",),
    "lstsq": (f"lstsq({_REGULAR.replace('2-3', '2')}, <x>, rcond=None)[0]",),
    "matrix_power": ("matrix_power(<x:iuf 2> @ <x>.T, 3)", f"matrix_power({_REGULAR}, <count>)"),
    "vector_norm": (
        "vector_norm(<x:fc>)",
        "vector_norm(<x:fc 1-4>, axis=<axes>)",
        "vector_norm(<x:f 1-3>, ord=1)",
    ),
    "matrix_norm": ("matrix_norm(<x:fc 2-4>)", "matrix_norm(<x:f 2-4>, ord=1, keepdims=True)"),
    # random numbers, of which NumPy knows where they must lie
    "random.permutation": (
        f"sort(random.permutation({_KEY}, <x:iu 1>)) => sort(<x>)",
        f"sort(random.permutation({_KEY}, <x:iu 2>, axis=1), axis=1) => sort(<x>, 1)",
        f"sort(random.permutation({_KEY}, <x:iu 1-3>.shape[0])) => arange(<x>.shape[0])",
    ),
    "random.uniform": (
        f"random.uniform({_KEY}, <x>.shape, f32, low=2, high=3) // 1 => full(<x>.shape, 2, f32)",
        f"abs(random.uniform(random.fold_in({_KEY}, 7), <shape>, f64)) < 1 => ones(<shape>, bool_)",
    ),
    "random.normal": (f"isfinite(random.normal({_KEY}, <x>.shape)) => ones(<x>.shape, bool_)",),
    "random.integers": (
        f"random.integers({_KEY}, 5, 6, <x>.shape) => full(<x>.shape, 5)",
        f"random.integers(random.split({_KEY})[1], 0, 3, <x>.shape, i32) // 3 => zeros(<x>.shape, i32)",
    ),
    "random.bernoulli": (f"random.bernoulli({_KEY}, 1.0, <x>.shape) => ones(<x>.shape, bool_)",),
    "random.choice": (f"isin(random.choice({_KEY}, <x:iu 1>, (3,)), <x>) => <x>[[0, 0, 0]] == <x>[0]",),
    "scan": ("_h_scan(<x:iuf 1-3>)",),
    # PyTorch's names
    "permute": ("<x>.permute(<permutation>) => transpose(<x>, <permutation>)",),
    "view": (
        "<x>.view(-1) => <x>.reshape(-1)",
        "<x: 2-3>.view(<x>.shape[0], -1) => <x>.reshape(<x>.shape[0], -1)",
    ),
    "unsqueeze": ("<x>.unsqueeze(<new_axis>) => expand_dims(<x>, <new_axis>)",),
    "clamp": ("<x:if>.clamp(-1, 2) => clip(<x>, -1, 2)", "<x:iuf>.clamp(min=1) => clip(<x>, 1, None)"),
    "mm": ("<x:if 2>.mm(<same>.T) => <x> @ <same>.T",),
    "bmm": ("<x:if 3>.bmm(<same>.mT) => <x> @ <same>.mT",),
    "mv": ("<x:if 2>.mv(<x>[0]) => <x> @ <x>[0]",),
    "sub": ("<x:if>.sub(<same>) => <x> - <same>",),
    "mul": ("<x:if>.mul(<same>) => <x> * <same>",),
    "div": ("<x:f>.div(<same>) => <x> / <same>",),
    "masked_fill": ("<x:if>.masked_fill(<mask>, 2) => where(<mask>, array(2, <dtype_of_x>), <x>)",),
    "clone": ("<x>.clone() => <x>.copy()",),
}
#: Functions of the cell: loops, assignments and the like, see helpers.
HELPED: Mapping[str, tuple[str, ...]] = {
    **{
        f"function {name}": (f"_h_{name}(<x:iuf 2>)",)
        for name in ("nest", "triangle", "vectorized", "tiled", "columns")
    },
    **{
        f"function {name}": (f"_h_{name}(<x:iuf 1>)",)
        for name in ("prefix", "prefix_slices", "until", "search")
    },
    # half floats are no single elements to a loop that threads share
    "function rows": tuple(f"_h_rows(<x:{name} 2>)" for name in ("f32", "f64", "i32", "u8")),
    "function parallel_sum": tuple(f"_h_parallel_sum(<x:{name} 1>)" for name in ("f32", "f64", "i32")),
    "function histogram": ("_h_histogram(<x:iu 1>)",),
    **{
        f"function {name}": (f"_h_{name}(<x:iuf 1-3>)",)
        for name in ("assign", "scatter", "append", "append_path", "comprehension", "stencil")
    },
    **{f"function {name}": (f"_h_{name}(<x:iuf>)",) for name in ("rotate", "branch", "closure", "doubled")},
    "function match": ("_h_match(<x: 1-3>)",),
    "function kernel": tuple(f"_h_kernel_{name}(<x:{name} 1>)" for name in ("f32", "f64", "i64")),
    "function scaled": tuple(f"_h_scaled_{name}(<x:{name} 2>)" for name in ("f32", "f64", "i32")),
    "function power": tuple(f"_h_power_{name}(<x:{name} 1>, <count>)" for name in ("f32", "i64")),
    "function record": ("_h_record(<x:f32 2>)",),
    "function list": ("_h_list(<x:f32 1>)",),
    "function grad_loop": ("_h_grad_loop(<x:f>)",),
    "function grad_assign": ("_h_grad_assign(<x:f 1-3>)",),
    "function grad_scan": ("_h_grad_scan(<x:f 1-2>)",),
    "function grad_rows": ("_h_grad_rows(<x:f 2>, <same>)",),
}
