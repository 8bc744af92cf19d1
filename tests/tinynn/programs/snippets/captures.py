"""What a cell takes from the notebook's lists, dictionaries and objects, and what it cannot."""

# ruff: noqa: E501  # a case reads best on one line

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

import nnmagic
from tests.tinynn.programs.snippets.cases import Case, accepted, function, refused


@dataclass
class Settings:
    """Settings as people keep them."""

    hidden: int = 4

    @property
    def doubled(self) -> int:
        """Code of the notebook."""
        raise AssertionError("nothing of the notebook runs")

    def half(self) -> int:
        """Code of the notebook."""
        raise AssertionError("nothing of the notebook runs")


@dataclass(frozen=True)
class Slotted:
    """Settings without a dictionary of their own."""

    __slots__ = ("scale",)
    scale: float


class Lazy:
    """An object that makes its members when asked."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError("nothing of the notebook runs")


Pair = namedtuple("Pair", "weight bias")

W, B = np.arange(16, dtype=np.float32).reshape(4, 4) / 16, np.ones(4, np.float32)
LAYERS = [(W, B), (W.T.copy(), B / 2)]
PARAMS = {"w": W, "b": B, "depth": 2, "inner": {"scale": 0.5, "layers": [Pair(W, B)]}}
ENDLESS: list[object] = []
ENDLESS.append(ENDLESS)
COMPILED = nnmagic.compile("def g(x: f32):\n    return x\n", namespace={})
X = "x: Tensor[(3, 4), f32]"

CASES: list[Case] = [
    accepted("layers-in-a-list", X, "for w, b in layers:\n    x = relu(x @ w + b)\nreturn x", namespace={"layers": LAYERS}),
    accepted("one-of-a-list", X, "x @ layers[1][0] + stack([b for _, b in layers]).sum(axis=0)", namespace={"layers": LAYERS}),
    accepted("a-dictionary", X, "for _ in range(params['depth']):\n    x = x @ params['w'] + params['b'] * params['inner']['scale']\nreturn x", namespace={"params": PARAMS}),
    accepted("a-dictionary-gone-over", X, "for key, value in biases.items():\n    x = x + value * key\nreturn x * len(biases)", namespace={"biases": {2: B, 3: B * 2}}),
    accepted("the-values-of-a-dictionary", X, "for value in biases.values():\n    x = x + value\nfor key in biases.keys():\n    x = x + key\nreturn x", namespace={"biases": {2: B, 3: B * 2}}),
    accepted("fields-of-objects", X, "x.reshape(-1, settings.hidden) * slotted.scale + space.inner.b", namespace={"settings": Settings(), "slotted": Slotted(0.5), "space": SimpleNamespace(inner=SimpleNamespace(b=B))}),
    accepted("fields-of-a-class", X, "x * Settings.hidden", namespace={"Settings": Settings}),
    accepted("a-named-tuple-both-ways", X, "w, b = pair\nreturn x @ pair.weight + pair[1] + b + w[0]", namespace={"pair": Pair(W, B)}),
    accepted("lists-in-objects", X, "x @ space.layers[0].weight if False else x @ space.layers[0][0]", namespace={"space": SimpleNamespace(layers=[Pair(W, B)])}, everything=False),
    refused("a-function-in-a-list", function(X, "x + «fs»[1]"), "`fs[1]` is the Python function <lambda>, which a cell cannot use", None, {"fs": [1, lambda x: x]}),
    refused("a-list-that-holds-itself", function(X, "x + «endless»[0]"), f"`endless{('[0]' * 20)}...` is a list nested too deeply, which a cell cannot use", "make it a NumPy array", {"endless": ENDLESS}),
    refused("a-compiled-function-in-a-list", function(X, "«fs»[0](x)"), "`fs[0]` is a compiled function, which a cell cannot use", "give it a name of its own in another cell", {"fs": [COMPILED]}),
    refused("text-deep-inside", function(X, "x + «p»['a'][0]"), "`p['a'][1]` is a NumPy array of <U1, which a cell cannot use", "a cell computes with numbers: give each string a number", {"p": {"a": (1, np.array(["a"]))}}),
    refused("a-key-that-is-a-float", function(X, "x + «p»[0.5]"), "`p` is a dict with a key that is a float, which a cell cannot use", "give its values names of their own in another cell", {"p": {0.5: 1}}),
    refused("a-key-that-is-not-there", function(X, "x + params[«'B'»]"), "the dictionary has no key 'B'", "its keys: 'w', 'b', 'depth', 'inner'", {"params": PARAMS}),
    refused("a-key-written-as-a-member", function(X, "x + «params.b»"), "a dictionary of 4 has no attribute `b`", "index it with a key, as in params['b']", {"params": PARAMS}),
    refused("an-index-beyond-a-list", function(X, "x @ layers[«2»][0]"), "index 2 is out of range for a tuple of 2", None, {"layers": LAYERS}),
    refused("a-property", function(X, "x * «settings.doubled»"), "`settings.doubled` is made by code of a Settings, and nothing of Python runs in a cell", "give it a name in another cell, as in doubled = settings.doubled", {"settings": Settings()}),
    refused("a-field-that-is-misspelt", function(X, "x * «settings.hiden»"), "`settings` (a Settings) holds no `hiden`", "did you mean settings.hidden?", {"settings": Settings()}),
    refused("a-member-that-is-made-when-asked", function(X, "x * «lazy.weight»"), "`lazy` (a Lazy) holds no `weight`", "if code makes it, give it a name in another cell, as in weight = lazy.weight", {"lazy": Lazy()}),
]  # fmt: skip
