"""Dictionaries and sets whose keys only the call knows: Python is the judge.

Also of tinynn/elaborate/tables, tinynn/elaborate/dictionary_items, tinynn/syntax/plain_dictionaries,
engine/relax/legalize/tables, relay/ops/tables and relay/reference/tables.
"""

# ruff: noqa: E501  # a body reads best on one line

from __future__ import annotations

import collections
import copy
import random
from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic.relay.reference import tables

X = np.array([3, 1, 3, 2, 1, 3, 7, -2])
NAMES: dict[str, Any] = {
    "np": np,
    "defaultdict": collections.defaultdict,
    "Counter": collections.Counter,
}

#: Bodies of functions of a vector of ints, by what they are about.
BODIES = {
    "get": "d = {}\nfor v in x:\n    d[v] = d.get(v, 0) + 1\nreturn d",
    "in": "d = {}\nfor v in x:\n    if v in d:\n        d[v] += 1\n    else:\n        d[v] = 1\nreturn d",
    "ints become floats": "d = {}\nfor i, v in enumerate(x):\n    if v not in d:\n        d[v] = 0\n    d[v] += 0.5 * i\nreturn d",
    "begun with known keys": "memo = {0: 0, 1: 1}\nfor i in range(2, 40):\n    memo[i] = memo[i - 1] + memo[i - 2]\nreturn memo[39], len(memo)",
    "returned from a loop": "seen = {}\nfor i in range(len(x)):\n    if 9 - x[i] in seen:\n        return seen[9 - x[i]], i\n    seen[x[i]] = i\nreturn -1, -1",
    "defaultdict": "d = defaultdict(int)\nfor v in x:\n    d[v % 3] += v\nreturn d, sum(d.values()), max(d.keys())",
    "Counter": "c = Counter()\nfor v in x:\n    c[v] += 1\nreturn max(c.values()), list(c.keys())",
    "deleted": "d = {}\nfor v in x:\n    d[v] = v * v\ndel d[3]\na = d.pop(1)\nb = d.pop(100, -5)\nd[3] = 4\nreturn d, a, b",
    "deleted many": "d = {}\nfor i in range(300):\n    d[i * 7919 % 1000] = i\nfor i in range(0, 300, 2):\n    if i * 7919 % 1000 in d:\n        del d[i * 7919 % 1000]\nreturn d, len(d)",
    "deleted while it grows": "d = {}\nfor i in range(500):\n    d[i * i % 101] = i\n    if len(d) > 20:\n        for j in range(101):\n            if j in d:\n                del d[j]\n                break\nreturn d",
    "tuples of ints": "seen = {}\na, b = 0, 0\nfor i in range(50):\n    a, b = (a * 3 + i) % 5, (b + a) % 4\n    seen[a, b] = seen.get((a, b), 0) + 1\ns = 0\nfor (i, j), n in seen.items():\n    s += i * n - j\nfor key in seen:\n    s += seen[key] * key[0]\nreturn seen, s",
    "tuples in a set": "seen = set()\nseen.add((0, 0))\nfor v in x:\n    if (v, v + 1) in seen:\n        continue\n    seen.add((v, v + 1))\nreturn seen, len(seen)",
    "floats": "d = {}\nfor v in x:\n    d[v * 0.5] = d.get(v * 0.5, 0.0) + 1.5\nd[-0.0] = 5.0\nd[0.0] = 6.0\nreturn d",
    "values that are tuples": "d = {}\nfor i, v in enumerate(x):\n    d[v] = (i, v * 2.0)\ns = 0.0\nfor k in d:\n    a, b = d[k]\n    s += a * b\nreturn d, s, d[3][1]",
    "values that are arrays": "d = {}\nfor v in x:\n    d[v] = np.zeros(2)\nfor i, v in enumerate(x):\n    d[v] = d[v] + np.array([i, 1.0])\nreturn d",
    "setdefault": "ids = {}\nout = np.zeros(len(x), dtype=np.int64)\nfor i in range(len(x)):\n    out[i] = ids.setdefault(x[i], len(ids))\nids.setdefault(100, 5)\nreturn out, ids",
    "comprehensions": "return {v: v * 2 for v in x}, {v % 3 for v in x}, {v for v in x if v > 2}, {i: i * i for i in range(100)}",
    "clear": "d = {}\nfor v in x:\n    d[v] = 1\nd.clear()\nfor v in x[:2]:\n    d[v] = 2\nreturn d",
    "update": "d = {}\ne = {}\nfor v in x:\n    d[v] = 1\n    e[v + 1] = 2\nd.update(e)\nd.update({1: 7})\ns = set()\ns.update(x)\ns.update({9})\nreturn d, s",
    "changed sets": "s = set(x)\ns.discard(3)\ns.discard(33)\ns.remove(7)\ns.add(8)\nreturn s, 3 in s, 8 in s, sorted(s)",
    "while": "best = {}\ni = 0\nwhile i < 100:\n    k = i * i % 17\n    if k not in best or best[k] < i:\n        best[k] = i\n    i += 1\nwhile best:\n    if len(best) < 5:\n        break\n    best.pop(max(best))\nreturn best",
    "one after the other": "dp = {0: 1}\nfor i in range(8):\n    new = {}\n    for s, c in dp.items():\n        new[s + i] = new.get(s + i, 0) + c\n        new[s] = new.get(s, 0) + c\n    dp = new\nreturn dp",
    "branches": "d = {}\nif x[0] > 0:\n    d[x[0]] = 1.5\nelse:\n    d[x[1]] = 2.5\nif x[1] > 0:\n    d = {}\nelse:\n    d[7] = 1\nreturn d",
    "returns": "if x[0] > 100:\n    return {}\nd = {}\nfor v in x:\n    d[v] = v\nreturn d",
    "another name": "d = {}\nfor v in x:\n    d[v] = v\ne = d\nd[x[0]] = 5\nreturn e, d",
    "keys in a literal": "a = x[0] % 5\nd = {7: 3, a: 1, a + 1: 2}\nd[a] += 5\nreturn d",
    "a copy": "d = {}\nfor v in x:\n    d[v] = v\ne = d.copy()\nf = dict(d)\ne[1] = 100\ndel f[3]\nreturn d, e, f",
    "sorted": "d = {}\nfor v in x:\n    d[v] = d.get(v, 0) + 1\nout = []\nfor k, c in sorted(d.items(), key=lambda kv: (-kv[1], kv[0])):\n    out.append(k * 10 + c)\nreturn np.array(out), sorted(d), sorted(d, reverse=True), sorted(x, key=lambda v: -v % 5)",
    "popitem": "d = {}\nfor v in x:\n    d[v] = v * 2\nd.popitem()\nreturn d",
    "constant keys": "d = {5: x[0], 2: x[1]}\ns = {4, 2, 9}\nreturn max(d), min(d), sum(d), any(d), max(d, key=d.get), max(s), sum(s), all({0: x[0]})",
    "members": "a = set(x)\nn = 0\nfor v in a:\n    if v + 1 in a:\n        n += v\nreturn n, len(a), min(a), sum(a)",
    "a helper": "def count(values):\n    d = {}\n    for v in values:\n        d[v] = d.get(v, 0) + 1\n    return d\nreturn count(x), len(count(x % 3))",
    "nested loops": "d = {}\nfor a in x:\n    for b in x:\n        if a < b:\n            d[a * b] = d.get(a * b, 0) + 1\nreturn d",
    "no such key": "d = {}\nfor v in x:\n    d[v] = 1\nreturn d[1000]",
    "no such key to delete": "d = {}\nfor v in x:\n    d[v] = 1\ndel d[x[0] + 1000]\nreturn d",
    "no such member": "s = set()\nfor v in x:\n    s.add(v)\ns.remove(x[0] + 1000)\nreturn s",
}


def _source(body: str, head: str = "def f(x):") -> str:
    return f"{head}\n" + "".join(f"    {line}\n" for line in body.split("\n"))


def _same(wanted: Any, got: Any) -> bool:
    if isinstance(wanted, dict):
        same_keys = isinstance(got, dict) and list(wanted) == list(got)
        return same_keys and all(_same(wanted[key], got[key]) for key in wanted)
    if isinstance(wanted, set):
        return isinstance(got, set) and wanted == got
    if isinstance(wanted, tuple):
        return len(wanted) == len(got) and all(map(_same, wanted, got))
    return np.array_equal(np.asarray(wanted), np.asarray(got))


def _compare(source: str, engine: str, *args: Any) -> None:
    names = dict(NAMES)
    exec(source, names)
    function = nnmagic.compile(source, engine=engine, namespace=dict(NAMES), cache=False)
    try:
        wanted = names["f"](*copy.deepcopy(args))
    except KeyError:
        with pytest.raises(KeyError, match="no such key"):
            function(*args)
        return
    got = function(*args)
    assert _same(wanted, got), (wanted, got)


@pytest.mark.full("deleted while it grows")
@pytest.mark.parametrize("name", BODIES)
def test_what_python_computes(name: str) -> None:
    _compare(_source(BODIES[name]), "numpy", X)


@pytest.mark.machine_code
@pytest.mark.full("get", "deleted while it grows", "tuples of ints", "one after the other", "no such key")
@pytest.mark.sampled(every=16)
@pytest.mark.parametrize("name", BODIES)
def test_what_machine_code_computes(name: str) -> None:
    _compare(_source(BODIES[name]), "relax", X)


@pytest.mark.machine_code
@pytest.mark.full("uint64")
@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_many_entries_grow_and_are_found(dtype: Any) -> None:
    """Keys that a poor hash would put into one place, and of both signs."""
    body = "d = {}\nfor i in range(len(x)):\n    d[x[i]] = i\nn = 0\nfor i in range(len(x)):\n    n += d[x[i]] == i\nreturn len(d), n"
    f = nnmagic.compile(_source(body), cache=False)
    generator = np.random.default_rng(0)
    far = np.arange(-1000, 1000) * 2**53
    for keys in (far, np.arange(5000), generator.integers(-(2**63), 2**63 - 1, 20000)):
        distinct = np.unique(keys.astype(dtype))
        assert f(distinct) == (len(distinct), len(distinct))


@pytest.mark.parametrize(
    ("given", "body"),
    [
        (
            {3: 2, 7: 5, 9: 1},
            "t = 0\nfor v in x:\n    if v in d:\n        t += d[v]\nreturn t, len(d), d.get(5, -1)",
        ),
        ({3: 2, 7: 5, 9: 1}, "d = dict(d)\nfor v in x:\n    d[v] = d.get(v, 0) + 1\nreturn d"),
        ({(1, 2): 0.5, (3, 4): 2.5}, "t = 0.0\nfor (i, j), w in d.items():\n    t += i * w - j\nreturn t"),
        ({0.5: np.arange(3), 1.5: np.ones(3)}, "return d[x[1] * 0.5], list(d.keys())[0]"),
    ],
)
def test_a_dictionary_of_the_caller(given: dict[Any, Any], body: str) -> None:
    _compare(_source(body, "def f(d, x):"), "numpy", given, X)


def test_a_dictionary_of_another_size_is_not_compiled_anew() -> None:
    f = nnmagic.compile("def f(d):\n    return sum(d.values())\n", engine="numpy", cache=False)
    assert [f(dict.fromkeys(range(size), 1.5)) for size in (1, 5, 2000)] == [1.5, 7.5, 3000.0]
    assert len(f.specializations) == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("d[3] = 5\nreturn d", "`d` is the caller's dictionary, which Python would change"),
        ("d.pop(3)\nreturn d", "`d` is the caller's dictionary, which Python would change"),
        ("del d[3]\nreturn d", "`d` is the caller's dictionary, which Python would change"),
        ("d.clear()\nreturn d", "`d` is the caller's dictionary, which Python would change"),
    ],
)
def test_a_dictionary_of_the_caller_does_not_change(body: str, message: str) -> None:
    f = nnmagic.compile(_source(body, "def f(d):"), engine="numpy", cache=False)
    with pytest.raises(nnmagic.TinyNNError, match=message):
        f({3: 1, 4: 2})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("d = {}\ne = d\nfor v in x:\n    d[v] = v\nreturn e", "`e` is the same dictionary as `d`"),
        (
            "d = {}\nfor v in x:\n    d[v] = 1\n    d[v * 0.5] = 2\nreturn d",
            "the keys of this dictionary are",
        ),
        ("d = {}\nfor v in x:\n    d[v] = 1\n    d[(v, v)] = 2\nreturn d", "the keys of this dictionary are"),
        ("d = {}\nfor v in x:\n    d[v] = 1\n    d[v + 1] = (1, 2)\nreturn d", "the values of a dictionary"),
        (
            "d = {}\nfor v in x:\n    d[v] = (1, 2)\n    d[v] = (1, 2, 3)\nreturn d",
            "tuples of 2, not a tuple of 3",
        ),
        ("d = {}\nfor v in x:\n    d[v] = np.zeros(2)\n    d[v] += 1\nreturn d", "not changed in place"),
        ("s = {1, 2}\nfor v in x:\n    s[v] = 1\nreturn s", "a set has no items to assign"),
        ("d = {'a': 1}\nfor v in x:\n    d[v] = 1\nreturn d", "the keys of a dict are known at compile time"),
        ("d = {}\nfor v in x:\n    d[v] = 1\nreturn d.get(x[0])", "None"),
        ("d = {None: 1}\nreturn d", "a dictionary's key must be a string, a number, or a tuple of these"),
    ],
)
def test_what_is_refused(body: str, message: str) -> None:
    with pytest.raises(nnmagic.TinyNNError) as caught:
        nnmagic.compile(_source(body), engine="numpy", namespace=dict(NAMES), cache=False)(X)
    assert message in str(caught.value)


def test_a_change_is_seen_by_no_alias_of_a_loop() -> None:
    """Names that took turns are one dictionary where they may be."""
    body = "d, e = {}, {}\nfor v in x:\n    d[v] = v\n    e[v] = 1\nif x[0] > 0:\n    e = d\ne[100] = 1\nreturn d"
    with pytest.raises(nnmagic.TinyNNError, match="`d` may share memory with `e`"):
        nnmagic.compile(_source(body), engine="numpy", cache=False)(X)


def test_numbas_dictionaries_are_dictionaries() -> None:
    source = _source(
        "d = Dict.empty(key_type=types.int64, value_type=types.float64)\ne = typed.Dict()\n"
        "for v in x:\n    d[v] = d.get(v, 0.0) + 1.0\n    e[v] = 1\nreturn d, e"
    )
    counts, ones = nnmagic.compile(source, engine="numpy", cache=False)(X)
    assert counts == {3: 3.0, 1: 2.0, 2: 1.0, 7: 1.0, -2: 1.0}
    assert ones == dict.fromkeys(counts, 1)


def test_the_gradient_goes_through_the_values_of_entries() -> None:
    source = (
        'def total(w: Tensor[("n",), f64], k: Tensor[("n",), i64]):\n    d = {}\n'
        "    for i in range(len(k)):\n        d[k[i]] = d.get(k[i], 0.0) + w[i] * w[i]\n"
        "    s = 0.0\n    for v in d.values():\n        s = s + v * v\n    return s\n\n"
        'def f(w: Tensor[("n",), f64], k: Tensor[("n",), i64]):\n    return grad(total)(w, k)\n'
    )
    w, k = np.arange(1.0, 7.0), np.array([0, 1, 0, 2, 1, 0])
    sums = np.bincount(k, w * w)
    f = nnmagic.compile(source, engine="numpy", cache=False)
    np.testing.assert_allclose(f(w, k), 4 * w * sums[k])


def test_a_result_is_found_on_disk_with_its_keys(tmp_path: Any) -> None:
    """Keys that are ints, floats and tuples keep their types in a file."""
    f = nnmagic.compile("def f(x: f64):\n    return {1: x, 2.5: x, (1, 2): x, 'a': x}, {1, 2}\n", cache=False)
    f.save(tmp_path / "f")
    found, members = nnmagic.load(tmp_path / "f")(2.0)
    assert (list(found), members) == ([1, 2.5, (1, 2), "a"], {1, 2})


def test_random_changes() -> None:
    """The order of the entries, after additions and deletions of any kind, is Python's."""
    body = "d = {}\nfor i in range(len(x)):\n    if o[i] == 0:\n        d[x[i]] = i\n    elif o[i] == 1:\n        d.pop(x[i], 0)\n    elif x[i] in d:\n        d[x[i]] += 100\nreturn d"
    source = _source(body, "def f(x, o):")
    generator = random.Random(3)
    for keys in (5, 40):
        x = np.array([generator.randrange(keys) for _ in range(400)])
        o = np.array([generator.choice((0, 0, 0, 1, 1, 2)) for _ in x])
        _compare(source, "numpy", x, o)


def test_the_slots_are_the_same_in_the_reference_and_in_machine_code() -> None:
    """Constants are folded by the reference: its hash is that of the machine code."""
    keys = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, (50, 2))
    f = nnmagic.compile("def f(k: Tensor[(50, 2), i64]):\n    return relay.table.slots(k, 50)\n", cache=False)
    np.testing.assert_array_equal(f(keys), tables.RULES["table.slots"](None, keys, np.int64(50)))
