"""Sizes of tensors with named dimensions: one simple form, whatever computed them, and NumPy's results."""

import itertools
import re

import numpy as np
import pytest

import nnmagic
from nnmagic import relay

pytestmark = pytest.mark.sampled(every=3)

SIZES = (0, 1, 2, 3, 4, 33)

NEIGHBOURS = [
    f"g[{i}:{i - 2 or ''}, {j}:{j - 2 or ''}]" for i in range(3) for j in range(3) if (i, j) != (1, 1)
]

#: Statements, and the most characters of a size in the Relax module.
PROGRAMS = {
    "differences of differences": (["return diff(x, n=3, axis=0)"], 40),
    "neighbours on a torus": (
        [
            "g = concatenate([x[-1:], x, x[:1]], axis=0)",
            "g = concatenate([g[:, -1:], g, g[:, :1]], axis=1)",
            "return " + " + ".join(NEIGHBOURS[:8]),
        ],
        120,
    ),
    "neighbours in a border": (["g = pad(x, 1)", "return " + " + ".join(NEIGHBOURS)], 40),
    "bounds from both ends": (["return x[1:-1], x[1:-1:2], x[-1:0:-1], x[-1:1:-2], x[2:-1, 1:-2]"], 60),
    "bounds out of order": (["return x[3:-3], x[-2:2], x[2:-4:3]"], 80),
    "slices of slices": (["return x[1:][:-1][1:][:-1][::2], x[-3:][:2], x[:3][1:]"], 60),
}


@pytest.mark.full("neighbours on a torus")
@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_stay_simple_and_right(name):
    statements, most = PROGRAMS[name]
    lines = "".join(f"    {line}\n" for line in statements)
    compiled = nnmagic.compile(f'def f(x: Tensor[("n", "m"), f32]):\n{lines}', cache=False)
    text = compiled.stages["relax"]
    assert max(map(len, re.findall(r"R\.Tensor\(\((.*?)\), dtype", text))) < most
    namespace = {**vars(np), "concatenate": np.concatenate}
    exec(f"def f(x):\n{lines}", namespace)
    for rows in SIZES:
        for columns in SIZES:
            x = np.random.default_rng(rows).random((rows, columns), "f4")
            try:
                expected = namespace["f"](x)
            except ValueError:  # what does not fit raises here, too
                with pytest.raises(ValueError, match=r"broadcast|fit"):
                    compiled(x)
                continue
            results, wanted = compiled(x), expected
            if not isinstance(expected, tuple):
                results, wanted = (results,), (expected,)
            for result, correct in zip(results, wanted, strict=True):
                np.testing.assert_allclose(result, correct, rtol=1e-5, atol=1e-5, strict=True)


@pytest.mark.parametrize(
    "expression",
    ["x[1:] - x[:-1]", "diff(x, axis=1) * 2", "exp(x)[1:, 2:]", "x[:-1, 1:] * x[1:, :-1]", "x.T[1:] + 1"],
)
def test_checks_of_sizes_do_not_keep_kernels_apart(expression):
    compiled = nnmagic.compile(f'def f(x: Tensor[("n", "m"), f32]):\n    return {expression}\n', cache=False)
    assert compiled.stages["tir"].count("@T.prim_func") == 1
    names = {"exp": np.exp, "diff": np.diff}
    for n, m in itertools.product(SIZES, SIZES):
        x = np.random.default_rng(n).standard_normal((n, m)).astype("float32")
        np.testing.assert_allclose(compiled(x), eval(expression, {**names, "x": x}), rtol=1e-6)


@pytest.mark.parametrize("reps", [2, (2,), (1, 3), (3, 1), (2, 2, 2), (1, 1), (0, 2)])
def test_tiles_of_named_sizes(reps):
    compiled = nnmagic.compile(
        f'def f(x: Tensor[("n", "m"), f32]):\n    return tile(x, {reps}), tile(x, {reps}) * 2\n', cache=False
    )
    for n, m in itertools.product(SIZES, SIZES):
        x = np.random.default_rng(n).standard_normal((n, m)).astype("float32")
        once, twice = compiled(x)
        np.testing.assert_array_equal(once, np.tile(x, reps))
        np.testing.assert_array_equal(twice, np.tile(x, reps) * 2)


def test_an_assertion_comes_before_the_checks_of_what_follows_it():
    compiled = nnmagic.compile(
        'def f(x: Tensor[("n",), f32]):\n'
        "    y = x * 2\n"
        "    assert len(x) % 3 == 0, 'three columns'\n"
        "    return y.reshape(-1, 3)\n",
        cache=False,
    )
    assert compiled(np.ones(6, "float32")).shape == (2, 3)
    with pytest.raises(AssertionError, match="three columns"):
        compiled(np.ones(7, "float32"))


@pytest.mark.parametrize(
    ("sizes", "index", "expected"),
    [("%0", "-1", 3), ("%0", "1", 4), ("reshape(%0, newshape=[2, 1])", "1", 4)],
)
def test_a_size_that_is_taken_of_a_shape(sizes, index, expected):
    """Relay clips an index below 0; of a matrix of sizes it takes a row."""
    flat = "reshape(%2, newshape=[1])"
    text = f"""#[version = "0.0.5"]
def @main(%x: Tensor[(?, ?), float32]) {{
  %0 = shape_of(%x, dtype="int64");
  %1 = {sizes};
  %2 = take(%1, {index}, axis=0);
  dyn.zeros({flat}, shape=None, dtype="float32")
}}"""
    assert nnmagic.compile(relay.parse(text))(np.zeros((3, 4), "float32")).shape == (expected,)
