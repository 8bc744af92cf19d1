"""`vmap` against the same function of each example, one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnmagic

RNG = np.random.default_rng(11)
#: Four examples of a matrix, a vector, a number, an index, an image and a choice.
EXAMPLES: dict[str, Any] = {
    "a": (RNG.normal(size=(4, 3, 3)), "(3, 3), f64"),
    "v": (RNG.normal(size=(4, 3)), "(3,), f64"),
    "s": (RNG.normal(size=4), "(), f64"),
    "i": (np.array([0, 2, 1, 2], "int64"), "(), i64"),
    "image": (RNG.normal(size=(4, 1, 2, 6, 6)), "(1, 2, 6, 6), f64"),
    "yes": (np.array([True, False, True, True]), "(), bool_"),
}
#: What all examples share.
SHARED: dict[str, Any] = {
    "w": (RNG.normal(size=(3, 3)), "(3, 3), f64"),
    "u": (RNG.normal(size=3), "(3,), f64"),
    "k": (RNG.normal(size=(4, 2, 3, 3)), "(4, 2, 3, 3), f64"),
    "j": (np.array([2, 0], "int64"), "(2,), i64"),
}

BODIES = {
    "elements": "sin(v) * s + u - abs(a) * where(yes, v, u) + clip(a, -0.5, 0.5)",
    "broadcasting": "a + v + s + a * v[:, None] + (v[None] - u[:, None])",
    "products": "(a @ v, a @ w, w @ a, v @ w, a @ a, w @ v, v @ u, u @ v, a.T @ w, outer(v, u))",
    "batched products": "(stack([a, a]) @ stack([w, a]), stack([a, w]) @ w, einsum('ij,j->i', a, u))",
    "einsum": "(einsum('ij,jk->ik', a, w), einsum('ii->', a), einsum('i,j->ij', u, v))",
    "linear": "(linear(v, w, u), linear(a, w), linear(u, a), linear(a, a))",
    "reductions": "(a.sum(), a.mean(axis=0), a.max(axis=1, keepdims=True), prod(v), all(a > 0), any(a > 0))",
    "positions": "(a.argmax(), a.argmax(axis=1), v.argmin(), a.cumsum(), a.cumsum(axis=1), cumprod(v))",
    "statistics": "(std(a), var(a, axis=0), median(v), sort(a, axis=0), argsort(v), norm(a), logsumexp(v))",
    "softmax": "(softmax(a), log_softmax(a, axis=0), layer_norm(a, u, v))",
    "norms": "(nn.l2_normalize(a, eps=0.1, axis=[1]), layer_norm(a, u, u))",
    "shapes": "(a.reshape(9), a.reshape(-1), a.T, a[None], a.ravel(), squeeze(a[:1]), a.transpose(1, 0))",
    "joining": "(concatenate([a, w]), stack([v, u], axis=1), split(a, 3), repeat(v, 2), flip(a))",
    "padding": "(pad(a, 1), tile(v, (2, 2)), pad(v, (1, 2)), triu(a), broadcast_to(v, (2, 3)), roll(v, 1))",
    "creation": "(zeros_like(a), full((2,), s), ones_like(v) * s, full_like(a, s), one_hot(i, 3))",
    "slices": "(a[0], a[1:, ::2], a[:, -1], v[::-1], a[1, 2], a[..., 0])",
    "indices": "(v[i], a[i], a[:, i], u[i], w[:, i], v[j], a[j], a[:, j])",
    "indices of each element": "take_along_axis(a, a.argsort(axis=1), 1)",
    "embedding": "(embedding(j, a), embedding(i, w), a[j, j], a[i, i], w[i, j], a[j, i])",
    "linear algebra": "(linalg.inv(a), linalg.solve(a, v), linalg.det(a), diag(v), diagonal(a))",
    "layers": "(conv2d(image, k, padding=1), max_pool2d(image, 2), avg_pool2d(image, 2))",
    "losses": "(cross_entropy(a, v.argsort()), mse_loss(v, u), where(v > 0, log(abs(v)), 0.0).sum())",
    "what all share": "(u.sum(), 3, w @ w, v)",
    "a whole function of sizes": "v.reshape(v.shape[0], 1) / v.size",
}
PROGRAMS = {
    "a branch that examples decide": """
    if yes:
        return v * s
    return a[0] - v
""",
    "a branch that is shared": """
    if u.sum() > 0:
        return v * s
    return u
""",
    "a loop of known length": """
    z = v
    for n in range(5):
        z = sin(a @ z) + u
    return z
""",
    "a loop that all share": """
    z = v
    for n in range(j.max() + 3):
        z = sin(a @ z) + n
    return z, u
""",
    "a loop that examples decide": """
    z = v
    n = 0
    while (z * z).sum() > 0.1:
        z = z * 0.7 * abs(s).clip(0.1, 1)
        n += 1
    return z, n, yes
""",
    "assignment to elements": """
    z = a.copy()
    z[0] = v
    z[j] = 1.5
    z[1, 2] += s
    return z
""",
    "an index that examples decide": """
    z = a.copy()
    z[i] = v
    z[:, i] += u
    return z
""",
    "a loop over rows": """
    t = 0.0
    for row in a:
        if row[0] > 0:
            t = t + (row * v).sum()
    return t
""",
}


def parameters(table: dict[str, Any], batch: str = "") -> str:
    kinds = {name: f"({batch}{kind[1:]}" for name, (_, kind) in table.items()}
    return ", ".join(f"{name}: Tensor[{kind}]" for name, kind in kinds.items())


def leaves(value: Any) -> list[np.ndarray]:
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [np.asarray(value)]


def check(program: str, batch: str) -> None:
    """Compare a batch with its examples; the program defines ``one``."""
    own = nnmagic.compile(program)
    names = ", ".join([*EXAMPLES, *SHARED])
    axes = ", ".join(["0"] * len(EXAMPLES) + ["None"] * len(SHARED))
    whole = nnmagic.compile(
        f"def f({parameters(EXAMPLES, batch)}, {parameters(SHARED)}):\n"
        f"    return vmap(one, in_axes=({axes}))({names})\n",
        namespace={"one": own},
    )
    values = [value for value, _ in EXAMPLES.values()]
    rest = [value for value, _ in SHARED.values()]
    found = leaves(whole(*values, *rest))
    each = [leaves(own(*(value[n] for value in values), *rest)) for n in range(4)]
    for index, leaf in enumerate(found):
        expected = np.stack([example[index] for example in each])
        assert leaf.dtype == expected.dtype
        np.testing.assert_allclose(leaf, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.full("layers-named")
@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("batch", ["4, ", '"n", '], ids=["static", "named"])
@pytest.mark.parametrize("name", [*BODIES, *PROGRAMS])
def test_a_batch_is_its_examples(name: str, batch: str) -> None:
    body = PROGRAMS.get(name) or f"    return {BODIES[name]}\n"
    check(f"def one({parameters(EXAMPLES)}, {parameters(SHARED)}):\n{body}", batch)


#: Two functions of an example whose loops have the same names and types.
TWO_LOOPS = """
    def doubled(r):
        while r < 100.0:
            r = r * 2.0
        return r

    def tripled(r):
        while r < 100.0:
            r = r * 3.0
        return r
"""


@pytest.mark.full
def test_each_batch_has_loops_of_its_own() -> None:
    body = "    return vmap(doubled)(x), vmap(tripled)(x), vmap(lambda r: tripled(r) - doubled(r))(x)\n"
    f = nnmagic.compile(f'def f(x: Tensor[("n",), f64]):{TWO_LOOPS}{body}')
    doubled, tripled, difference = f(np.array([1.0, 3.0, 70.0]))
    np.testing.assert_array_equal(doubled, [128, 192, 140])
    np.testing.assert_array_equal(tripled, [243, 243, 210])
    np.testing.assert_array_equal(difference, [115, 51, 70])


def test_each_derivative_has_loops_of_its_own() -> None:
    forward = "jvp(doubled, (x,), (1.0,)), jvp(tripled, (x,), (1.0,))"
    body = f"    return {forward}, grad(doubled)(x), grad(tripled)(x)\n"
    f = nnmagic.compile(f"def f(x: Tensor[(), f64]):{TWO_LOOPS}{body}")
    assert f(np.float64(3)) == ((192, 64), (243, 81), 64, 81)


#: Functions of (x, y, n) that call themselves or each other with fewer examples, or with others.
RECURSIONS = {
    "a circle": """
def one(x: {kind}, y: {kind}, n: i64) -> {kind}:
    return x if n <= 0 else x + other(x, y, n - 1)
def other(x: {kind}, y: {kind}, n: i64) -> f64:
    return sum(one(x, y, n - 1)) * 0.5
""",
    "a circle that swaps": """
def one(x: {kind}, y: {kind}, n: i64) -> {kind}:
    return x * 2 if n <= 0 else y + other(y, x, n - 1)
def other(x: {kind}, y: {kind}, n: i64) -> {kind}:
    return x if n <= 0 else sin(y) * one(x, y, n - 1) + third(y, n - 1)[1]
def third(x: {kind}, n: i64) -> tuple[{kind}, {kind}]:
    return (x, x * 3) if n <= 0 else (one(x, x, n - 1), x)
""",
    "swapped": """
def one(x: {kind}, y: {kind}, n: i64) -> {kind}:
    return x if n <= 0 else y + one(y, x, n - 1) * 0.5
""",
    "without examples": """
def one(x: {kind}, y: {kind}, n: i64) -> {kind}:
    return x if n <= 0 else y + one(y, y, n - 1) * 0.5
""",
    "examples decide": """
def one(x: {kind}, y: {kind}, n: i64) -> {kind}:
    z = x if n <= 0 else other(x, y, n - 1) - y
    return z if sum(x) > 0 else z + other(y, x, n)
def other(x: {kind}, y: {kind}, n: i64) -> {kind}:
    return y * 0.5 + one(y, x, n - 1) if sum(y) > 0.5 and n > 0 else x
""",
    "a loop": """
def one(x: {kind}, y: {kind}, n: i64) -> tuple[{kind}, {kind}, {kind}]:
    z = x
    for i in range(n):
        x, y, z = y * 0.5, z + i, y
    return x, y, z
""",
    "a loop with less": """
def one(x: {kind}, y: {kind}, n: i64) -> tuple[{kind}, {kind}]:
    z = x * 1
    for i in range(n):
        x, z = z * 2, y * i
    return x, z
""",
    "a loop that forgets": """
def one(x: {kind}, y: {kind}, n: i64) -> {kind}:
    z = y
    for i in range(n):
        x, z = z, y * i
    return x
""",
    "two loops": """
def one(x: {kind}, y: {kind}, n: i64) -> {kind}:
    for i in range(n):
        z = y
        for j in range(n - i):
            x, z = z, sum(x) * y * 0.1
        y = z
    return x + y
""",
}


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("rank", [0, 1], ids=["numbers", "vectors"])
@pytest.mark.parametrize("axes", ["0, None", "None, 0", "0, 0"])
@pytest.mark.parametrize("name", RECURSIONS)
def test_recursion_that_passes_other_examples_on(name: str, axes: str, rank: int) -> None:
    shape = "(3,)" if rank else "()"
    program = RECURSIONS[name].format(kind=f"Tensor[{shape}, f64]")
    python: dict[str, Any] = {"sum": np.sum, "sin": np.sin}
    exec(f"from __future__ import annotations\n{program}", python)
    rows = [axis == "0" for axis in axes.split(", ")]
    kinds = [f'Tensor[("n", {shape[1:]}, f64]' if row else f"Tensor[{shape}, f64]" for row in rows]
    body = f"    return vmap(one, in_axes=({axes}, None))(x, y, n)\n"
    f = nnmagic.compile(f"{program}def f(x: {kinds[0]}, y: {kinds[1]}, n: i64):\n{body}")
    x, y = (RNG.normal(size=(4 * row,) * row + (3,) * rank) for row in rows)
    for n in range(5):
        each = [leaves(python["one"](x[i] if rows[0] else x, y[i] if rows[1] else y, n)) for i in range(4)]
        for index, leaf in enumerate(leaves(f(x, y, n))):
            np.testing.assert_allclose(leaf, np.stack([part[index] for part in each]), rtol=1e-9)


def test_slices_by_sizes_of_the_call() -> None:
    source = """
def f(a: Tensor[("n", "m", "k"), f64]):
    return vmap(lambda v: v[1 : len(v) - 1, :: len(v)])(a), vmap(lambda v: v[len(v) // 2 :] * 2)(a)
"""
    f = nnmagic.compile(source)
    for shape in ((4, 5, 6), (1, 2, 3), (0, 3, 1), (2, 1, 0)):
        a = RNG.normal(size=shape)
        inner, half = f(a)
        np.testing.assert_array_equal(inner, a[:, 1 : shape[1] - 1, :: shape[1]])
        np.testing.assert_array_equal(half, a[:, shape[1] // 2 :] * 2)


def test_sums_of_all_elements_so_far() -> None:
    source = 'def f(a: Tensor[("n", "m", "k"), f64]):\n    return vmap(lambda x: x.cumsum())(a)\n'
    f = nnmagic.compile(source)
    for shape in ((4, 2, 3), (1, 3, 1), (0, 2, 3), (2, 0, 3)):
        a = RNG.normal(size=shape)
        np.testing.assert_allclose(f(a), a.reshape(shape[0], shape[1] * shape[2]).cumsum(axis=1))


@pytest.mark.full
@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)], ids=["both", "first", "second"])
@pytest.mark.parametrize("piles", [("p", "p"), (1, "p"), ("p", 1), (2, 2)], ids=str)
def test_piles_of_matrices_of_sizes_of_the_call(
    piles: tuple[str | int, str | int], axes: tuple[int | None, int | None]
) -> None:
    shapes = [(piles[0], "i", "k"), (piles[1], "k", "j")]
    whole = [("n", *shape) if axis == 0 else shape for shape, axis in zip(shapes, axes, strict=True)]
    kinds = [f"Tensor[({', '.join(map(repr, shape))}), f64]" for shape in whole]
    body = f"    return vmap(lambda a, b: a @ b, in_axes={axes})(a, b)\n"
    f = nnmagic.compile(f"def f(a: {kinds[0]}, b: {kinds[1]}):\n{body}")
    for sizes in ((4, 2, 3, 5, 2), (1, 1, 2, 1, 3), (3, 2, 0, 2, 2), (0, 2, 3, 1, 2)):
        known = dict(zip("npikj", sizes, strict=True))
        a, b = (RNG.normal(size=[known.get(str(dim), dim) for dim in shape]) for shape in whole)
        np.testing.assert_allclose(f(a, b), np.matmul(a, b), rtol=1e-12)
