"""A default that a function changes is one for all calls of Python, and refused; others give its numbers."""

from __future__ import annotations

from collections import defaultdict

import pytest

import nnmagic

NAMES = {"defaultdict": defaultdict, "ROWS": (1, 2)}
LIST, DICTIONARY, SET = "one list for all", "one dictionary for all", "one set for all"

CHANGED = {
    "append": ("a=[]", "a.append(x)\nreturn len(a)", LIST),
    "extend": ("a=[]", "a += [x]\nreturn len(a)", LIST),
    "an item": ("a=[1, 2]", "a[0] += x\nreturn a[0]", LIST),
    "pop": ("a=[1, 2]", "a.pop()\nreturn len(a)", LIST),
    "in a loop": ("a=[]", "for i in range(x):\n    a.append(i)\nreturn len(a)", LIST),
    "a list of the notebook": ("a=SHARED", "a.append(x)\nreturn len(a)", LIST),
    "an entry": ("d={}", "d[x] = d.get(x, 0) + 1\nreturn d[x]", DICTIONARY),
    "update": ("d=dict()", 'd.update({"a": x})\nreturn len(d)', DICTIONARY),
    "defaultdict": ("d=defaultdict(int)", "d[x] += 1\nreturn d[x]", DICTIONARY),
    "a memo": ("d={}", "if x in d or x < 2:\n    return x\nd[x] = f(x - 1, d) + x\nreturn d[x]", DICTIONARY),
    "a set": ("s=set()", "s.add(x)\nreturn len(s)", SET),
    "of an inner one": ("k=2", "def g(a=[]):\n    a.append(x)\n    return len(a)\nreturn g() + g()", LIST),
}  # fmt: skip
KEPT = {
    "a copy": ("a=[]", "a = list(a)\na.append(x)\nreturn len(a)"),
    "a new list": ("a=[]", "a = a + [x]\nreturn len(a)"),
    "none": ("a=None", "if a is None:\n    a = []\na.append(x)\nreturn len(a)"),
    "a tuple": ("a=()", "a += (x,)\nreturn len(a)"),
    "a tuple of the notebook": ("a=ROWS", "a += (x,)\nreturn len(a)"),
    "read": ("a=[1, 2], d={'a': 3}", "return a[0] + d['a'] + x"),
}


def _text(default: str, body: str) -> str:
    return f"def f(x, {default}):\n    " + body.replace("\n", "\n    ") + "\n"


@pytest.mark.parametrize(("default", "body", "message"), CHANGED.values(), ids=CHANGED)
def test_a_default_that_changes_is_refused(default: str, body: str, message: str) -> None:
    namespace = {**NAMES, "SHARED": [1, 2]}
    with pytest.raises(nnmagic.TinyNNError, match=message):
        nnmagic.compile(_text(default, body), engine="numpy", namespace=namespace)(3)


@pytest.mark.parametrize(("default", "body"), KEPT.values(), ids=KEPT)
def test_a_default_that_stays_gives_the_numbers_of_python(default: str, body: str) -> None:
    text, namespace = _text(default, body), dict(NAMES)
    found = nnmagic.compile(text, engine="numpy", namespace=dict(NAMES))
    exec(text, namespace)
    for _ in range(2):
        assert found(3) == namespace["f"](3)
