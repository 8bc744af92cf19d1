"""Queues, counters and lists whose items go, beside Python's (tinynn/syntax/comprehension_loops)."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque

import numpy as np
import pytest

import nnmagic
from tests.tinynn.cases import assert_as_in_python

X = np.random.default_rng(0).random(9)

BODIES = [
    "w, out = deque(maxlen=n), []\nfor v in x:\n    w.append(v)\n"
    "    out.append(sum(w) / len(w))\nreturn np.array(out)",
    "w = deque([1.0, 2.0, 3.0, 4.0], maxlen=n)\nfor v in x:\n    w.appendleft(v)\nreturn list(w)",
    "q = deque(range(7))\nout = []\nwhile len(q) > 1:\n    q.rotate(-n)\n"
    "    out.append(q.popleft())\nreturn out, q[0]",
    "q = deque()\nq.extend([1, 2, 3])\nq.extendleft([7, 8])\nq.reverse()\nreturn list(q)",
    "kept, hits = [], 0\nfor v in (x * 5).astype(int):\n    if v in kept:\n        hits += 1\n"
    "        kept.remove(v)\n"
    "    elif len(kept) == n:\n        kept.pop(0)\n    kept.append(v)\nreturn hits, kept",
    "d = {1: 2.0, 5: 3.0}\nfor i in range(len(x)):\n    d[i + 7] = x[i]\nk, v = d.popitem()\n"
    "return k, v, len(d)",
    "c = Counter((x * 4).astype(int))\nc.update([1, 1, 2])\nc.update(Counter([7]))\nc.subtract([2])\n"
    "return c.most_common(1), sum(c.values()), c[77]",
    "h = list(x)\nheapq.heapify(h)\nout = np.array([heapq.heappop(h) for _ in range(n)])\nreturn out, len(h)",
    "s = list(x)\nt = sum([s.pop() for i in range(n)])\nreturn t, len(s)",
    "s = list(x)\nif not (n < 2 or s.pop() > 0.9):\n    n += 5\nelif n == 3 and s.pop() == 4:\n    n = 70\n"
    "while s and s.pop() > 0.2:\n    n += 1\nreturn n, len(s)",
    "s, k = list(x), 0\nwhile s.pop() < 0.95:\n    k += 1\n    if k == n:\n        break\nreturn k, len(s)",
]


@pytest.mark.full("c = Counter", "h = list", "q = deque(range", "d = {")
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body[:20])
def test_items_that_come_and_go(body: str) -> None:
    text = "def f(x, n=3):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    assert_as_in_python(text, X, deque=deque, Counter=Counter, heapq=heapq)


COUNTED = "d = defaultdict(int)\nfor v in (x * 4).astype(int):\n    d[v] += 1\n"

READS = [
    "return max(d, key=lambda k: d[k]), sorted(d, key=lambda k: -d[k])",
    "def twice(k):\n    return d[k] * 2\nreturn twice(1), sum([d[k] if d[k] > 1 else 0 for k in d])",
    "i, n = 0, 0\nwhile i < 4 and d[i] > 0:\n    i += 1\nassert d[1]\n"
    "n = d[77] + len(d)\nreturn i, n, d[1] + len(d)",
    "def at(d):\n    return d[3]\nd[3] = 7\nc = d[1] > 99 and d[50] > 0\nreturn at({3: 5}), c, len(d)",
]


@pytest.mark.parametrize("body", READS, ids=lambda body: body[:20])
def test_keys_that_are_read_beside_what_looks_at_them(body: str) -> None:
    text = "def f(x):\n" + "".join(f"    {line}\n" for line in (COUNTED + body).split("\n"))
    assert_as_in_python(text, X, defaultdict=defaultdict)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("s = list(x)\nc = 5 < s.pop() < s.pop()\nreturn c, len(s)", "takes the item|no attribute `pop`"),
        ("s = list(x)\nc = any(s.pop() > 0 for _ in range(3))\nreturn c, len(s)", "no attribute `pop`"),
        (COUNTED + "c = any(d[k + 60] == 0 for k in range(3))\nreturn c, len(d)", "no such key"),
        ("d = defaultdict(int)\nk = 5\nd[7] = 2\na = (k := int(x[0]) + 7) + d[k]\nreturn a, d", None),
        ("d = {3: 4}\nif x[0] > 2:\n    d = defaultdict(int)\nd[x[0] > 5] = 1\nreturn d[9]", "no such key"),
    ],
)
def test_what_python_may_leave_out_is_not_done(body: str, error: str | None) -> None:
    text = "def f(x):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    if error is None:
        assert_as_in_python(text, X, defaultdict=defaultdict)
        return
    namespace = {"defaultdict": defaultdict}
    with pytest.raises((nnmagic.TinyNNError, KeyError), match=error):
        nnmagic.compile(text, namespace=namespace, engine="numpy", cache=False)(X)
