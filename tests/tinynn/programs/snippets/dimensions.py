"""Sizes that only the call knows: as numbers, in shapes, and arithmetic on their names in annotations."""

# ruff: noqa: E501  # a case reads best on one line

import numpy as np

from tests.tinynn.programs.snippets.cases import Accepted, Case, Fails, accepted, function, refused

V = 'v: Tensor[("n",), f32]'
N = 'x: Tensor[("n", 4, 6), f32]'
BTC = 'x: Tensor[("b", "t", "c"), f32]'
SUMS = {"rtol": 1e-5, "why": "sums in another order"}
SAME = "give both dimensions the same name or number in the annotations"


ROWS = np.arange(12, dtype="float32").reshape(3, 4)


def vectors(*sizes: int) -> list[tuple[np.ndarray, ...]]:
    """One call for each size."""
    return [(np.arange(size, dtype=np.float32),) for size in sizes]


CASES: list[Case] = [
    # -- as numbers --------------------------------------------------------------------------------------
    accepted("the-size-of-a-batch", N, "batch, *sizes = x.shape\nreturn x.reshape(batch, -1), batch"),
    accepted("a-size-beside-a-tensor", N, "x * x.shape[0] + len(x), x / x.shape[0], x.size - x, x.sum(axis=0) / len(x)", **SUMS),
    accepted("numbers-of-a-size", N, "n = x.shape[0]\nreturn n, n * 2 + 1, n / 2, n // 2, n % 2, n ** 2, -n, 3 - n, x.size, x.nbytes"),
    accepted("functions-of-a-size", N, "n = len(x)\nreturn max(n, 3), min(2, n), float(n), int(n), abs(n), bool(n)"),
    accepted("comparisons-of-a-size", N, "n = x.shape[0]\nreturn n > 2, n == 3, n != 1, 2 < n <= 4, n >= 0, n + 1 == 0"),
    accepted("shapes-compared", 'x: Tensor[("n", 4), f32], y: Tensor[("n", 4), f32]', "x.shape == y.shape, x.shape == (3, 4), x.shape != (2, 4), x.shape == (3, 5), x.shape == (4,)"),
    accepted("a-branch-by-size", V, "if v.shape[0] > 3:\n    return v + 1\nelse:\n    return v - len(v)", arguments=vectors(2, 3, 4, 7)),
    accepted("a-branch-decided-by-names", 'x: Tensor[("n", 4), f32], y: Tensor[("n", 4), f32]', "if x.shape == y.shape:\n    z = x + y\nelse:\n    z = x @ nothing\nreturn z", everything=False),
    accepted("a-size-that-branches-change", V, "n = len(v)\nif v.sum() > 9:\n    n = n * 2\nelse:\n    n = 0\nreturn v * n", arguments=vectors(2, 3, 7)),
    accepted("a-match-of-a-size", V, "match len(v):\n    case 1:\n        return v + 1\n    case 2 | 3:\n        return v * 2\n    case _:\n        return -v", arguments=vectors(1, 2, 3, 5)),
    accepted("a-conditional-size", V, "k = 2 if len(v) % 2 == 0 else 3\nreturn v * k, v if len(v) else v + 1", arguments=vectors(2, 3)),
    accepted("a-loop-over-the-size", V, "total = 0.0\nfor i in range(len(v)):\n    total = total + v[i] * i\nreturn total", **SUMS),
    accepted("a-loop-by-twos", V, "total = f32(0)\nfor i in range(0, v.shape[0] - 1, 2):\n    total = total + v[i] - v[i + 1]\nreturn total", **SUMS),
    accepted("a-loop-backwards", V, "last = v[0]\nfor i in range(len(v) - 1, -1, -1):\n    last = last * 0.5 + v[i]\nreturn last", **SUMS),
    accepted("while-below-the-size", V, "i = 0\nwhile i * i < len(v):\n    i += 1\nreturn i", arguments=vectors(0, 1, 5, 17)),
    accepted("rows-with-their-numbers", 'x: Tensor[("n", 3), f32]', "total = zeros((3,), f32)\nfor i, row in enumerate(x):\n    total = total + i * row\nreturn total", **SUMS),
    accepted("rows-of-two", 'x: Tensor[("n", 3), f32], y: Tensor[("n", 3), f32]', "total = f32(0)\nfor a, b in zip(x, y):\n    total = total + (a * b).sum()\nreturn total", **SUMS),
    accepted("a-size-to-a-function", V, "def scaled(t: Tensor[(\"n\",), f32], k: f32):\n    return t * k\nreturn scaled(v, len(v)), scaled(v, v.shape[0] * 2)"),
    accepted("a-size-to-a-lambda", V, "f = lambda t, k: t.reshape(k, 1) * k\nreturn f(v, len(v))"),
    accepted("a-mean-by-hand", V, "m = v.sum() / v.shape[0]\nreturn ((v - m) ** 2).sum() / (len(v) - 0.5)", **SUMS),
    # -- in shapes ---------------------------------------------------------------------------------------
    accepted("merge-and-split", BTC, "b, t, c = x.shape\nreturn x.reshape(b * t, c), x.reshape(b, t * c), x.reshape(b, t, c, 1), x.reshape(-1), x.reshape(b, -1)"),
    accepted("heads", 'x: Tensor[("b", "t", 12), f32]', "b, t, c = x.shape\nh = x.reshape(b, t, 3, c // 3).transpose(0, 2, 1, 3)\nreturn h, h.transpose(0, 2, 1, 3).reshape(b, t, c)"),
    accepted("another-order", BTC, "b, t, c = x.shape\nreturn x.reshape(c, b, t), x.reshape(t, -1), x.reshape(1, t * b, -1), x.reshape(b * t * c)"),
    accepted("halves", V, "n = v.shape[0]\nreturn v.reshape(n // 2, 2), v.reshape(2, -1), v.reshape(-1, n // 2)", arguments=vectors(2, 4, 10)),
    accepted("a-half-of-a-known-dimension", N, "x.reshape(-1, x.shape[1] // 2, 2), x.reshape(x.shape[0], x.shape[1] * x.shape[2])"),
    accepted("reshape-to-the-shape-of-another", 'x: Tensor[("n", 4), f32], y: Tensor[(2, "n", 2), f32]', "x.reshape(y.shape) + y, y.reshape(x.shape) - x"),
    accepted("filled", V, "n = len(v)\nreturn zeros((n, 3)), ones(n, i32), full((2, n), 7), zeros(v.shape, f32) + v, ones((n + 1,), f32), full(v.shape, 0.5, f32)"),
    accepted("counted", V, "n = len(v)\nreturn arange(n), arange(1, n + 1), arange(n, dtype=f32) * v, arange(0, n, 2), arange(n, 0, -1)"),
    accepted("broadcast-to-sizes", 'x: Tensor[("n", 1), f32], y: Tensor[("m",), f32]', "broadcast_to(x, (x.shape[0], len(y))), broadcast_to(y, (x.shape[0], len(y))) + x, broadcast_to(y, (2, *y.shape))"),
    accepted("an-outer-product", 'x: Tensor[("n",), f32], y: Tensor[("m",), f32]', "x.reshape(len(x), 1) * y.reshape(1, len(y)), x[:, None] + y"),
    accepted("positions-beside-tokens", 'x: Tensor[("b", "t", 4), f32]', "positions = arange(x.shape[1], dtype=f32)\nreturn x + positions[:, None], x * positions.reshape(1, -1, 1)"),
    accepted("a-causal-mask", 'x: Tensor[("t", "t"), f32]', "t = x.shape[0]\nkeep = arange(t)[:, None] >= arange(t)[None]\nreturn where(keep, x, -1)"),
    accepted("products-of-rank-4", 'q: Tensor[("b", "h", "t", 8), f32], k: Tensor[("b", "h", "s", 8), f32]', "scores = q @ k.transpose(0, 1, 3, 2) / 8\nreturn softmax(scores, axis=-1) @ k, scores.shape[2] + scores.shape[3]", **SUMS),
    accepted("statistics-over-names", BTC, "x.mean(axis=(0, 1)), x.var(axis=1), x.max(axis=0), x.sum(axis=-1, keepdims=True), softmax(x, axis=1), x.std(axis=(1, 2))", rtol=1e-4, why="sums in another order, of differences"),
    # -- arithmetic on names in annotations -------------------------------------------------------------
    accepted("twice-as-long", 'x: Tensor[("n",), f32], y: Tensor[("2*n",), f32]', "concatenate([x, x]) + y"),
    accepted("one-more", 'x: Tensor[("n + 1",), f32], y: Tensor[("n",), f32]', "x[1:] - y, x[:-1] * y, concatenate([y, x[:1]]) + x"),
    accepted("a-product-of-names", 'x: Tensor[("n*m",), f32], y: Tensor[("n", "m"), f32]', "x.reshape(y.shape) + y, y.reshape(-1) * x, y.flatten() + x"),
    accepted("a-product-told-by-later-names", 'x: Tensor[("m*n",), f32], y: Tensor[("n",), f32], z: Tensor[("m",), f32]', "x.reshape(len(z), len(y)) + y + z[:, None]"),
    accepted("half-as-long", 'x: Tensor[("n // 2",), f32], y: Tensor[("n",), f32]', "y[: len(y) // 2] + x"),
    accepted("a-sum-of-names", 'x: Tensor[("n",), f32], y: Tensor[("m",), f32], z: Tensor[("n + m",), f32]', "concatenate([x, y]) * z, concatenate([y, x]) + z, z[: len(x)] + x"),
    Accepted("a-declared-result", 'def f(x: Tensor[("n",), f32], y: Tensor[("m",), f32]) -> Tensor[("2*n + m",), f32]:\n    return concatenate([x, y, x])\n'),
    accepted("every-second", V, "v[::2] * 2, v[::-2], v[1::2], v[: len(v) // 2] - 1, v[len(v) // 2 :]"),
    accepted("a-callee-of-twice-the-size", V, "def halves(t: Tensor[(\"2*n\",), f32]):\n    return t.reshape(2, -1)\nreturn halves(concatenate([v, v]))"),
    accepted("windows-of-a-named-length", 'x: Tensor[(1, 2, "n", 9), f32], w: Tensor[(3, 2, 3, 3), f32]', "y = conv2d(x, w, padding=1)\nreturn y + 1, y.sum(axis=1), y + conv2d(x, w, padding=1)", rtol=1e-4, why="sums in another order"),
    accepted("rows-beside-themselves", 'x: Tensor[("n", 3), f32]', "concatenate([x, x[::-1]], axis=1) @ concatenate([x, x], axis=1).T", **SUMS),
    accepted("an-axis-of-one-by-its-name", 'x: Tensor[("n", 1, 3), f32]', "x.squeeze(0), squeeze(x, axis=(0, 1)), np.squeeze(x, -2)", arguments=[(np.ones((1, 1, 3), "float32"),)], namespace={"np": np}),
    accepted("equal-in-shape-and-elements", 'x: Tensor[("n", "k"), f32], y: Tensor[("m", 4), f32]', "array_equal(x, y), array_equal(x, x), array_equal(y, y[:, :3]), array_equal(x[0], y[0], equal_nan=True)", arguments=[(ROWS, ROWS), (ROWS, -ROWS), (ROWS[:1], ROWS), (ROWS[:, :1], ROWS), (ROWS.reshape(6, 2), ROWS)]),
    accepted("equal-beside-a-mask", 'x: Tensor[(4,), f32], keep: Tensor[(4,), bool_]', "array_equal(x, x[keep]), array_equal(x[keep], x[keep]), array_equal(x[:1], x[keep])", arguments=[(np.ones(4, "float32"), np.arange(4) < count) for count in (0, 1, 2, 4)]),
    accepted("products-of-vectors", 'x: Tensor[(2, 3, 4), f32], y: Tensor[(3, 4), f32], keep: Tensor[(4,), bool_]', "vecdot(x, y), vecdot(x, y, axis=-2), vecdot(x[:, :, keep], y[:, keep]), vecdot(x[0, 0, keep], y[1, keep])", **SUMS),
    # -- what fails at the call --------------------------------------------------------------------------
    Fails("a-reshape-that-does-not-fit", function(V, "v.reshape(v.shape[0] // 2, 2)"), vectors(3)[0], ValueError, "reshape: the new shape has not as many elements"),
    Fails("an-index-beyond-the-size", function(V, "v[len(v)]"), vectors(3)[0], IndexError, "index 3 is out of range for an axis of size 3"),
    Fails("an-axis-that-is-not-of-one", function('x: Tensor[("n", 3), f32]', "squeeze(x, axis=0)"), (np.ones((2, 3), "float32"),), ValueError, "squeeze: axis 0 of Tensor[(2, 3), float32] is not of length 1"),
    Fails("a-vector-of-one-beside-four", function("x: Tensor[(4,), f32], keep: Tensor[(4,), bool_]", "vecdot(x, x[keep])"), (np.ones(4, "float32"), np.arange(4) < 1), ValueError, "nn.matmul: the inner dimensions differ"),
    # -- refused -----------------------------------------------------------------------------------------
    refused("names-that-differ", function('x: Tensor[("n",), f32], y: Tensor[("2*n",), f32]', "«x + y»"), '`+`: the shapes ("n",) and ("2*n",) do not broadcast ("n" against "2*n")', SAME),
    refused("a-result-of-another-size", 'def f(x: Tensor[("n",), f32]) -> Tensor[("n + 1",), f32]:\n    return «concatenate([x, x])»\n', 'the result of `f` is declared as Tensor[("n + 1",), f32], but is Tensor[("2*n",), f32]', SAME),
    refused("squeeze-of-a-name", function('x: Tensor[("n", 1, 3), f32]', "«x.squeeze()»"), 'squeeze: which axes of ("n", 1, 3) have size 1 is known only in a call', "name the axes that go, as in axis=1"),
    refused("squeeze-of-what-a-mask-left", function("x: Tensor[(3,), f32]", "«squeeze(x[x > 2])»"), "squeeze: which axes of (?,) have size 1 is known only in a call", "name the axes that go, as in axis=0"),
    refused("vectors-of-one-and-three", function("x: Tensor[(2, 3), f32], y: Tensor[(1,), f32]", "«vecdot(x, y)»"), "vecdot: the vectors have different lengths, 3 and 1"),
    refused("vectors-along-different-axes", function("x: Tensor[(2, 3), f32], y: Tensor[(3,), f32]", "«vecdot(x, y, axis=0)»"), "vecdot: the vectors have different lengths, 2 and 3"),
    refused("two-sums-over-sizes-of-the-call", function("x: Tensor[(4, 4), f32], a: Tensor[(4,), bool_]", "«tensordot(x[a], x[a], 2)»"), "tensordot: the size of axis 0 of (?, 4) is known only in a call"),
    refused("reshape-to-other-names", function('x: Tensor[("n", 4), f32], y: Tensor[("m",), f32]', "x.reshape(«y.shape[0], 4»)"), 'reshape: ("n", 4) cannot become ("m", 4)', "write -1 for one dimension, which follows from the others"),
    refused("reshape-to-other-numbers", function('x: Tensor[("n", 4), f32]', "x.reshape(«x.shape[0], 5»)"), 'reshape: ("n", 4) cannot become ("n", 5)'),
    refused("reshape-of-a-name-to-numbers", function('x: Tensor[("n", 4), f32]', "x.reshape(«2, 2»)"), 'reshape: ("n", 4) cannot become (2, 2)', "its size is known only when the function is called: write -1 for one dimension"),
    refused("broadcast-to-other-names", function('x: Tensor[("n",), f32], y: Tensor[("m",), f32]', "broadcast_to(x, «(2, len(y))»)"), 'broadcast_to: ("n",) cannot become the shape (2, "m")'),
    refused("a-callee-of-other-names", 'def g(x: Tensor[("2*n",), f32], y: Tensor[("n",), f32]):\n    return x\ndef f(a: Tensor[("m",), f32], b: Tensor[("k",), f32]):\n    return g(«a», b)\n', 'g: the dimension "2*n" would be "2*k" and "m"'),
    refused("a-remainder-in-a-name", 'def f(x: Tensor[(«"n % 2"»,), f32]):\n    return x\n', "'n % 2' is no name of a dimension", 'name the dimension with one word, as in "n", or compute it of names, as in "2*n + 1"'),
    refused("a-number-in-quotes", 'def f(x: Tensor[(«"2*3"»,), f32]):\n    return x\n', "'2*3' is no name of a dimension", "write 6 without the quotes"),
    refused("a-size-divided-by-zero", function(V, "v * (len(v) // «0»)"), "division by zero"),
    refused("a-size-as-an-axis", function('x: Tensor[("n", 4), f32]', "x.sum(axis=«len(x)»)"), 'sum: `axis` must be an int or a tuple of ints, not the dimension "n"'),
    refused("a-size-that-is-no-function", function(V, "«len(v)»(2)"), 'the dimension "n" cannot be called'),
]  # fmt: skip
