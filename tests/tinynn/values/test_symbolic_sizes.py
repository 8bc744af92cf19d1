"""Sizes that only the call knows are ints where Python has ints: in lists, as keys, for functions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import nnmagic
from tests.tinynn.python_twin import plain

NAMES = {"np": np, "math": math, "itertools": itertools}
#: Of ``k`` and ``m``, the sizes of ``x``, which are equal in one call, and ``n``, a number of items.
ROWS = {
    "functions": (
        "max([k, 2]), min((k, 2.5)), max(x.shape), any([k - 3, 0]), all(x.shape), max([k, m], default=1)"
    ),
    "of NumPy": (
        "np.prod(x.shape), np.argmax([k, m]), np.sqrt([k, 1]), np.max([[n, 1], [k, 2]]), np.array([True, k])"
    ),
    "two lists": (
        "np.maximum([k, 2], [1, 9]), np.dot([k, n], [1, 2]), np.stack([[k, 3], [1, 2]]), np.isin(k, [k, 2])"
    ),
    "indices": (
        "np.take(y, [k, 1]), np.digitize(2, [1, k]), "
        "np.repeat(y[:2], [k, 1]), y[max([n, 2])], y[: max([k, n])]"
    ),
    "dtypes": (
        "np.array([k, 2.5]).dtype == np.float64, "
        "(np.ones(2, np.float32) * max([k, 2]) * math.sqrt(k)).dtype == np.float32, "
        "np.add(y.astype(np.int8), [[k + 200]] * 8).sum()"
    ),
    "sorted": (
        "sorted([n, 2, k]), sorted([k, m], reverse=True), max([(k, 1), (m, 7)]), max([1, 2], key=lambda e: k)"
    ),
    "math": "math.sqrt(k + 1), math.gcd(k, m), math.prod(x.shape), math.dist([k, 1], [0, 0]), math.log(k, 3)",
    "itertools": "list(itertools.combinations([k, m, 1], 2))",
    "among tuples": (
        "(k, 1) in [(3, 1), (4, 1)], x.shape not in [(3, 3), (3, 4)], "
        "((k, 1), 2) in [((3, 1), 2)], (k,) in ()"
    ),
    "compared": (
        "(k, 1) < (m, 2), (k, 1) <= (m, 1), ((k, 1), 2) == ((3, 1), 2), [[k, 1], [m, 2]] != [[3, 1], [3, 2]]"
    ),
    "keys": (
        "len({(k, 1): 5, (m, 1): 6}), {(3, 2): 1.5}.get((k, 2), 0.5), {3: 7, 4: 8}[m], x.shape in {(3, 3): 1}"
    ),
    "sets": (
        "len({k, m}), 3 in {k, 2}, (m, 2) in {(3, 2), (4, 5)}, len({v for v in [k, m]}), sorted({n: 1, 5: 2})"
    ),
}


@pytest.mark.filterwarnings("ignore:.*is assigned:nnmagic.TinyNNWarning")
@pytest.mark.parametrize("name", ROWS)
def test_sizes_are_ints(name: str) -> None:
    body = f"n = len([v for v in y if v > 5])\n    k, m = x.shape\n    return {ROWS[name]}\n"
    source = f'def f(x: Tensor[("n", "m"), f64], y: Tensor[(8,), i64]):\n    {body}'
    own: dict[str, object] = dict(NAMES)
    exec(f"from __future__ import annotations\n{source}", own)
    function = nnmagic.compile(source, namespace=NAMES, engine="numpy", cache=False)
    for shape in ((3, 3), (3, 4)):
        arguments = np.ones(shape), np.arange(8)
        wanted, found = own["f"](*arguments), plain(function(*arguments))  # type: ignore[operator]
        for one, other in zip(found, wanted, strict=True):
            assert np.array_equal(np.asarray(one), np.asarray(other)), (one, other)


def test_machine_code_finds_keys_that_are_sizes() -> None:
    function = nnmagic.compile(
        'def f(x: Tensor[("n", "m"), f64]):\n'
        "    d = {(x.shape[0], 1): 5}\n    d[(x.shape[1], 1)] = 6\n"
        "    return len(d), d[(3, 1)], (x.shape[1], 1) in [(4, 1)], max(x.shape)\n",
        cache=False,
    )
    assert [*map(int, function(np.ones((3, 3))))] == [1, 6, 0, 3]
    assert [*map(int, function(np.ones((3, 4))))] == [2, 5, 1, 4]


def test_what_holds_no_numbers_is_refused() -> None:
    for items in ("[k, None]", "[k, 'a']"):
        source = f'def f(x: Tensor[("n",), f64]):\n    k = x.shape[0]\n    return max({items})\n'
        with pytest.raises(nnmagic.TinyNNError, match="must hold numbers"):
            nnmagic.compile(source, engine="numpy", cache=False)
