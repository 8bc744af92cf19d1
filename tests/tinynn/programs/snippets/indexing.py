"""NumPy's indexing where the call decides: named dimensions, computed indices, arrays, masks."""

# ruff: noqa: E501  # a case reads best on one line

import numpy as np

from tests.tinynn.programs.snippets.cases import Case, Fails, accepted, function, refused

V = 'v: Tensor[("n",), f32]'
X = 'x: Tensor[("n", 4), f32]'
T = "t: Tensor[(3, 4, 5), f32]"
M = 't: Tensor[("n", "m", 5), f32]'
I = "i: i32"  # noqa: E741  # as it is called in every loop
J = "j: Tensor[(2,), i64]"
BEYOND = "index {} is out of range for an axis of size {}"


def vectors(*sizes: int) -> list[tuple[np.ndarray, ...]]:
    """One call for each size."""
    return [(np.arange(size, dtype=np.float32),) for size in sizes]


def at(*indices: int) -> list[tuple[np.ndarray, ...]]:
    """A matrix of five rows and an index, for each index."""
    return [(np.arange(20, dtype=np.float32).reshape(5, 4), np.int32(index)) for index in indices]


def with_indices(*indices: object) -> list[tuple[np.ndarray, ...]]:
    """A tensor of rank 3 and indices into it."""
    return [(np.arange(60, dtype=np.float32).reshape(3, 4, 5), np.array(each, np.int64)) for each in indices]


def with_masks(*masks: object) -> list[tuple[np.ndarray, ...]]:
    """A matrix and a mask of its rows."""
    return [(np.arange(12, dtype=np.float32).reshape(3, 4), np.array(mask)) for mask in masks]


MASKS = with_masks([True, False, True], [False] * 3, [True] * 3)
INDICES = with_indices([1, -1], [2, -3])
ROWS = 'x: Tensor[("n", 4), f32], m: Tensor[("n",), bool_]'

CASES: list[Case] = [
    # -- named dimensions ---------------------------------------------------------------------------------
    accepted("ints-of-a-named-dimension", X, "x[0], x[-1], x[0, 1], x[-1, -1], x[:, 0], x[0][1:]"),
    accepted("ints-of-both-named", M, "t[0, 0], t[-1, :, 2], t[0, -1, ::2], t[..., -1], t[:, -1, None]"),
    accepted("slices-of-a-named-dimension", V, "v[1:], v[:-1], v[2:5], v[-3:], v[:3], v[3:3], v[-100:100], v[100:]", arguments=vectors(0, 1, 2, 4, 9)),
    accepted("steps-along-a-named-dimension", V, "v[::2], v[1::2], v[::3], v[1:-1:2], v[:5:2]", arguments=vectors(0, 1, 2, 4, 9)),
    accepted("backwards-along-a-named-dimension", V, "v[::-1], v[::-3], v[5:1:-1], v[:2:-1], v[-2::-2], v[1::-1], v[-1:-4:-1]", arguments=vectors(0, 1, 2, 4, 9)),
    accepted("bounds-that-are-sizes", V, "v[: v.shape[0] // 2], v[len(v) // 2 :], v[: len(v)], v[len(v) // 3 : len(v) // 2], v[: len(v) - 1], v[len(v) - 2 :], v[1 : len(v) - 1 : 2], v[len(v) :: -1]", arguments=vectors(0, 1, 2, 4, 9)),
    accepted("neighbours", V, "v[1:] - v[:-1], (v[2:] + v[:-2]) / 2 - v[1:-1]", arguments=vectors(3, 4, 9)),
    accepted("several-slices", M, "t[1:, :-1], t[::-1, 1:, ::2], t[..., 1:3], t[None, :, ::2, None], t[:2, :2, :2]"),
    accepted("halves-put-together", V, "n = len(v)\nreturn concatenate([v[n // 2 :], v[: n // 2]])", arguments=vectors(0, 1, 4, 7)),
    accepted("rotary-halves", 'x: Tensor[("b", "d"), f32]', "d = x.shape[1]\na, b = x[:, : d // 2], x[:, d // 2 :]\nreturn concatenate([-b, a], axis=1)"),
    # -- computed indices --------------------------------------------------------------------------------
    accepted("a-computed-index", f"{X}, {I}", "x[i], x[i, 1:], x[i][::-1], x[None, i], x[i, None], x[i, ...]", arguments=at(0, 1, 4, -1, -5)),
    accepted("a-computed-column", f"{X}, {I}", "x[:, i], x[1:, i], x[0, i], x[-1, i, None]", arguments=at(0, 3, -1, -4)),
    accepted("computed-bounds", f"{X}, {I}", "x[i:], x[:i], x[i : i + 3], x[:, i:], x[:, : i + 1], x[i::-1], x[i : i + 6 : 2], x[: i - 9]", arguments=at(0, 1, 4, -1, -5, 7, -9)),
    accepted("a-computed-step-beside-none", f"{V}, k: i32", "v[None, ::k], v[::k]", arguments=[(np.arange(n, dtype=np.float32), np.int32(k)) for n in (0, 1, 5) for k in (1, 2, -1, -3)]),
    accepted("an-index-of-each-dtype", "x: Tensor[(300,), f32], a: u8, b: i8, c: i16, d: u32, e: u64", "x[a], x[b], x[c], x[d], x[e], x[b:], x[:a]", arguments=[(np.arange(300, dtype=np.float32), np.uint8(255), np.int8(-128), np.int16(-300), np.uint32(299), np.uint64(7))]),
    accepted("the-index-of-the-largest", X, "x[x[:, 0].argmax()], x[:, x[0].argmin()], x[0].argmax()"),
    accepted("a-window-in-a-loop", "v: Tensor[(9,), f32], w: Tensor[(3,), f32]", "total = f32(0)\nfor i in range(7):\n    total = total * 0.5 + (v[i : i + 3] * w).sum()\nreturn total", rtol=1e-5, why="sums in another order"),
    accepted("a-window-in-a-loop-by-size", f"{V}, w: Tensor[(3,), f32]", "total = f32(0)\nfor i in range(len(v) - 2):\n    total = total * 0.5 + (v[i : i + 3] * w).sum()\nreturn total", arguments=[(np.arange(size, dtype=np.float32), np.ones(3, np.float32)) for size in (1, 3, 8)]),
    accepted("an-index-in-a-while", X, "i = 0\nwhile i < len(x) - 1 and x[i, 0] < 9:\n    i += 1\nreturn x[i], i", arguments=[(np.arange(4 * size, dtype=np.float32).reshape(size, 4),) for size in (1, 2, 6)]),
    accepted("the-last-but-k", V, "k = 2\nreturn v[len(v) - k], v[-k], v[len(v) // 2]", arguments=vectors(2, 3, 8)),
    # -- arrays of indices ---------------------------------------------------------------------------------
    accepted("an-array-along-each-axis", f"{T}, {J}", "t[j], t[:, j], t[..., j], t[::-1, j], t[1:, j], t[j, 1:, ::2]", arguments=INDICES),
    accepted("an-array-along-named-axes", f"{M}, {J}", "t[j], t[:, j], t[..., j], t[::-1, j], t[1:, j], t[j, 1:, ::2]", arguments=INDICES),
    accepted("arrays-together", f"{T}, {J}", "t[j, j], t[:, j, j], t[j, :, j], t[j, j, j], t[..., j, j], t[j[:, None], j], t[j, j[:, None], 1:]", arguments=INDICES),
    accepted("arrays-along-named-axes-together", f"{M}, {J}", "t[j, j], t[:, j, j], t[j, :, j], t[j, j, j], t[..., j, j], t[j[:, None], j], t[j, j[:, None], 1:]", arguments=INDICES),
    accepted("ints-beside-arrays", f"{T}, {J}", "t[0, j], t[j, 0], t[0, :, j], t[:, 0, j], t[j, :, 0], t[0, 1:, j], t[-1, j, j]", arguments=INDICES),
    accepted("computed-ints-beside-arrays", f"{M}, {J}", "k = j[0]\nreturn t[k, j], t[j, k], t[k, :, j], t[:, k, j], t[j, :, k], t[k, j, j]", arguments=INDICES),
    accepted("new-axes-beside-arrays", f"{T}, {J}", "t[None, j], t[j, None], t[:, None, j], t[j, None, j], t[0, None, j], t[j, ..., None], t[None, :, j, None, j]", arguments=INDICES),
    accepted("arrays-of-higher-rank", "x: Tensor[(6, 4), f32], j: Tensor[(2, 3), i32]", "x[j], x[:, j], x[j, j], x[j, 1:], x[j.T]", within={"j": (-4, 3)}),
    accepted("lists-of-indices", T, "t[[0, 2]], t[:, [1, -1]], t[[0, 1], [2, 3]], t[[[0], [1]], [2, 3]], t[[0, 2], 1:], t[:, [], 0]"),
    accepted("lists-of-indices-along-named-axes", 't: Tensor[("n", 4, 5), f32]', "t[[0, 0]], t[[-1]], t[:, [1, -1]], t[[0, 0], [2, 3]], t[[[0], [0]], [2, 3]]"),
    accepted("lists-with-computed-indices", f"{X}, {I}", "x[[0, i]], x[[i, i - 1, -1]], x[:, [0, 1]]", arguments=at(1, 2, -1)),
    accepted("arrays-of-the-notebook", "x: Tensor[(3, 4), f32]", "x[J], x[:, J], x[K], x[K, J], x[J, J], x[L]", namespace={"J": np.array([0, 2]), "K": np.array([True, False, True]), "L": np.array([[True, False, True, False]] * 3)}),
    accepted("sorted-by-the-first-column", X, "x[argsort(x[:, 0])], x[:, argsort(x[0])]"),
    accepted("a-table-of-rows", 'table: Tensor[(7, 3), f32], tokens: Tensor[("b", "t"), i32]', "table[tokens], table[tokens].sum(axis=1), table[tokens[0]]", within={"tokens": (-7, 6)}, rtol=1e-5, why="sums in another order"),
    accepted("one-of-each-row", 'x: Tensor[("n", 5), f32], label: Tensor[("n",), i64]', "x[arange(len(x)), label], -x[arange(x.shape[0]), label].mean()", within={"label": (0, 4)}, rtol=1e-5, why="sums in another order"),
    accepted("a-diagonal", 'x: Tensor[("n", "n"), f32]', "k = arange(len(x))\nreturn x[k, k], x[k, k[::-1]]"),
    accepted("no-indices-at-all", f"{T}, j: Tensor[(0,), i64]", "t[j], t[:, j], t[j, j]", arguments=with_indices([])),
    # -- masks --------------------------------------------------------------------------------------------
    accepted("rows-by-a-mask", ROWS, "x[m], x[~m], x[m, 1:], x[m, 0], x[m, None], x[m][:, ::-1], x[None, m]", arguments=MASKS),
    accepted("elements-by-a-mask", "x: Tensor[(3, 4), f32]", "x[x > 0], x[x < 0] * 2, x[(x > -1) & (x < 1)].sum()", rtol=1e-5, why="sums in another order"),
    accepted("elements-by-a-mask-of-named-axes", X, "x[x > 0], x[x[:, 0] > 0], x[x[:, 0] > 0, 1], x[:, x[0] > 0]"),
    accepted("a-mask-of-what-a-mask-chose", V, "y = v[v > 1]\nreturn y[y < 6], y.sum(), len(y), y.shape[0] * 2", arguments=vectors(0, 1, 4, 9)),
    accepted("a-mask-of-some-axes", "t: Tensor[(3, 4, 5), f32]", "t[t[:, :, 0] > 0], t[:, t[0] > 0], t[0, t[0] > 0], t[t[..., 0] > 0, 1:]"),
    accepted("a-mask-beside-an-int", ROWS, "x[m, 0], x[m, -1]", arguments=MASKS),
    # -- what fails at the call ---------------------------------------------------------------------------
    Fails("an-index-beyond-the-end", function(f"{X}, {I}", "x[i]"), at(5)[0], IndexError, BEYOND.format(5, 5)),
    Fails("an-index-before-the-start", function(f"{X}, {I}", "x[i]"), at(-6)[0], IndexError, BEYOND.format(-6, 5)),
    Fails("an-index-twice-before-the-start", function(f"{X}, {I}", "x[i]"), at(-11)[0], IndexError, BEYOND.format(-11, 5)),
    Fails("a-column-beyond-the-end", function(f"{X}, {I}", "x[:, i]"), at(4)[0], IndexError, BEYOND.format(4, 4)),
    Fails("the-first-of-nothing", function(V, "v[0]"), vectors(0)[0], IndexError, BEYOND.format(0, 0)),
    Fails("the-last-of-nothing", function(V, "v[-1]"), vectors(0)[0], IndexError, BEYOND.format(-1, 0)),
    Fails("the-third-of-two", function(V, "v[2]"), vectors(2)[0], IndexError, BEYOND.format(2, 2)),
    Fails("an-array-beyond-the-end", function(f"{T}, {J}", "t[j]"), with_indices([1, 3])[0], IndexError, BEYOND.format(3, 3)),
    Fails("arrays-beyond-one-end", function(f"{T}, {J}", "t[:, j, j]"), with_indices([1, 4])[0], IndexError, BEYOND.format(4, 4)),
    Fails("arrays-before-one-start", function(f"{M}, {J}", "t[j, :, j]"), with_indices([-4, 1])[0], IndexError, BEYOND.format(-4, 3)),
    Fails("an-index-in-a-loop", function(V, "total = f32(0)\nfor i in range(len(v)):\n    total = total + v[i + 1]\nreturn total"), vectors(3)[0], IndexError, BEYOND.format(3, 3)),
    Fails("a-list-beyond-the-end", function(X, "x[[0, 7]]"), at(0)[0][:1], IndexError, BEYOND.format(7, 5)),
    Fails("an-index-beside-a-data-type", "class L:\n    def End(): ...\n    def More(head: i64, tail: L): ...\n\ndef g(v: Tensor[(4,), f32], p: L) -> f32:\n    match p:\n        case L.More(k, rest):\n            return v[k] + g(v, rest)\n        case L.End():\n            return f32(0)\n\ndef f(v: Tensor[(4,), f32]):\n    return g(v, L.More(2, L.More(4, L.End())))\n", vectors(4)[0], IndexError, BEYOND.format(4, 4)),
    # -- refused ------------------------------------------------------------------------------------------
    refused("a-list-out-of-range", function(T, "t[«[0, 3]»]"), "index 3 is out of range for axis 0 of size 3"),
    refused("an-array-of-the-notebook-out-of-range", function(T, "t[:, «J»]"), "index 4 is out of range for axis 1 of size 4", namespace={"J": np.array([0, 4])}),
    refused("floats-as-indices", function(f"{T}, j: Tensor[(2,), f32]", "t[«j»]"), "an index must be an int or a slice, not a Tensor[(2,), f32]", "convert it, as in j.astype(i32)"),
    refused("a-float-as-a-bound", function(f"{V}, k: f32", "v[«:k»]"), "a slice's bound must be an int, not an f32", "make it an int with int(), or divide with // where / gave it"),
    refused("a-mask-of-another-size", function("x: Tensor[(3, 4), f32], m: Tensor[(4,), bool_]", "x[«m»]"), "a mask of shape (4,) does not fit axes of (3,)", "a mask has the shape of the axes that it chooses from"),
    refused("a-mask-of-another-name", function('x: Tensor[("n",), f32], m: Tensor[("m",), bool_]', "x[«m»]"), 'a mask of shape ("m",) does not fit axes of ("n",)'),
    refused("indices-that-do-not-broadcast", function(f"{T}, a: Tensor[(2,), i32], b: Tensor[(3,), i32]", "«t[a, b]»"), "the indices have the shapes (2,) and (3,), which do not broadcast"),
    refused("a-bool-as-an-index", function(T, "t[«True»]"), "an index must be an int or a slice, not True"),
    refused("a-tuple-as-an-index", function(T, "t[«P»]"), "a tuple as an index means several axes, a list one: this may be either", "write the indices out, as in x[i, j]; or make a tensor of them, as in x[array(t)]", namespace={"P": (0, 1)}),
    refused("too-many-indices", function(f"v: Tensor[(3,), f32], {J}", "«v[j, j]»"), "2 indices for a Tensor[(3,), f32]"),
    refused("a-mask-with-too-many-axes", function("v: Tensor[(3,), f32], m: Tensor[(3, 3), bool_]", "«v[m]»"), "2 indices for a Tensor[(3,), f32]"),
]  # fmt: skip
