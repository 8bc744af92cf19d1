"""Methods and attributes of tensors, as NumPy's arrays have them."""

# ruff: noqa: E501  # a case reads best on one line

from tests.tinynn.programs.snippets.cases import Case, accepted, function, refused

X = "x: Tensor[(2, 3), f32]"
I = "i: Tensor[(2, 3), i32]"  # noqa: E741
U = "u: Tensor[(2, 3, 4), f32]"
N = 'x: Tensor[("n", 3), f32]'
SUMS = {"rtol": 1e-4, "why": "the order of a sum"}

CASES: list[Case] = [
    accepted(
        "what-is-known",
        U,
        "u * u.shape[1], u + u.ndim, u - u.size, u * u.itemsize, u + u.nbytes, u * len(u), u.astype(u.dtype)",
    ),
    accepted(
        "turned",
        U,
        "u.T, u.mT, u.transpose(), u.transpose(2, 0, 1), u.transpose((1, 0, 2)), u.swapaxes(0, 1), u.real",
    ),
    accepted(
        "reshaped",
        U,
        "u.reshape(6, 4), u.reshape((4, -1)), u.reshape(-1), u.flatten(), u.ravel(), u.reshape(1, 24).squeeze(), u[:, :1].squeeze(1)",
    ),
    accepted(
        "sums",
        f"{X}, {I}",
        "x.sum(), x.sum(0), x.sum(axis=1, keepdims=True), i.sum(), i.sum(axis=-1), i.prod(), x.prod(axis=0), (x > 0).sum(), x.sum(axis=(0, 1)), i.sum(dtype='int32')",
        **SUMS,
    ),
    accepted(
        "statistics",
        f"{X}, {I}",
        "x.mean(), x.mean(axis=0), i.mean(), x.std(), x.var(axis=1), x.std(ddof=1), i.var(), x.var(0, ddof=1, keepdims=True)",
        **SUMS,
    ),
    accepted(
        "extremes",
        f"{X}, {I}",
        "x.max(), x.min(axis=0), x.max(1, keepdims=True), i.max(), i.min(axis=(0, 1)), x.argmax(), x.argmin(axis=0), i.argmax(axis=-1)",
    ),
    accepted(
        "truth",
        f"{X}, b: Tensor[(3,), bool_]",
        "(x > 0).all(), (x > 0).any(axis=0), b.all(), x.any(), b.any(keepdims=True)",
    ),
    accepted(
        "running",
        f"{X}, {I}",
        "x.cumsum(), x.cumsum(0), i.cumsum(axis=1), x.cumprod(axis=-1), i.cumprod()",
        **SUMS,
    ),
    accepted(
        "limited-and-rounded",
        f"{X}, {I}",
        "x.clip(-1, 1), x.clip(0), x.clip(min=0), x.clip(max=0.5), i.clip(-2, 3), x.round(), x.round(1), i.round()",
    ),
    accepted(
        "converted",
        f"{X}, {I}",
        "x.astype(i32), x.astype('float64'), i.astype(f32), (x > 0).astype(i64), i.astype(u8), i.astype(bool_), x.copy()",
        within={"i": (0, 9)},
    ),
    accepted(
        "taken",
        f"{X}, k: Tensor[(2,), i64]",
        "x.take(k), x.take(k, axis=0), x.take([0, -1], axis=1), x.repeat(2), x.repeat(2, axis=0), x.diagonal(), x.trace(), x.argsort(), x.argsort(axis=0)",
        within={"k": (-2, 1)},
    ),
    accepted(
        "products",
        "x: Tensor[(2, 3), f32], w: Tensor[(3, 2), f32], v: Tensor[(3,), f32]",
        "x.dot(w), x.dot(v), v.dot(v)",
    ),
    accepted("one-element", "s: f32, v: Tensor[(1,), f32]", "v.item() + s, s.item() + v"),
    accepted(
        "of-a-named-dimension",
        N,
        "x.sum(axis=0), x.mean(axis=1), x.max(axis=0), x.T, x.reshape(-1), x.ravel(), x.argmax(axis=1), x.clip(0, 1), x.cumsum(axis=1), x.std(axis=1), x.astype(f64), x.round(), x.swapaxes(0, 1), (x > 0).any()",
        **SUMS,
    ),
    accepted(
        "chained",
        U,
        "u.transpose(0, 2, 1).reshape(2, -1).sum(axis=1).astype(f64).round(2), u.max(axis=0).argmin(axis=-1)",
        **SUMS,
    ),
    accepted(
        "of-no-elements",
        "x: Tensor[(0, 3), f32], i: Tensor[(2, 0), i32]",
        "x.sum(), x.sum(axis=0), x.prod(), i.sum(axis=1), x.all(), x.any(axis=0), x.reshape(3, 0), x.T, x.max(axis=1)",
    ),
    refused(
        "sorting-in-place",
        function(X, "«x.sort»()"),
        "`sort` would change the tensor, and tensors do not change",
        "write y = sort(x, axis=-1)",
    ),
    refused(
        "filling",
        function(X, "«x.fill»(0)"),
        "`fill` would change the tensor, and tensors do not change",
        "write y = full_like(x, value), or x[...] = value for an array that the function made",
    ),
    refused(
        "misspelt-method",
        function(X, "«x.reshpe»(3, 2)"),
        "a Tensor[(2, 3), f32] has no attribute `reshpe`",
        "did you mean .reshape?",
    ),
    refused(
        "item-of-many",
        function(X, "«x.item()»"),
        "item() of a Tensor[(2, 3), f32]",
        "index it, as in x[0], or reduce it, as in x.sum()",
    ),
    refused(
        "matrix-transpose-of-a-vector",
        function("v: Tensor[(3,), f32]", "«v.mT»"),
        "`.mT` is of tensors of rank 2 or more",
        "write .T",
    ),
    refused(
        "axis-of-a-sum", function(X, "x.sum(axis=«2»)"), "sum: axis 2 is out of range for a tensor of rank 2"
    ),
    refused(
        "too-many-arguments",
        function(X, "x.cumsum(0, f32, «1»)"),
        "cumsum takes 3 arguments (a, axis, dtype), but 4 are given",
    ),
    refused(
        "product-of-different-sizes",
        function("x: Tensor[(2, 3), f32]", "«x.dot(x)»"),
        "`dot`: the inner dimensions of (2, 3) and (2, 3) differ (3 and 2)",
    ),
    refused(
        "no-dtype",
        function(X, "x.astype(«2»)"),
        "astype: the number 2 is no dtype",
        "write one of f16 bf16 f32 f64, c64 c128, i8 to i64, u8 to u64, bool_",
    ),
]
