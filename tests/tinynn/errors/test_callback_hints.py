"""The line that a hint says to write for a function of Python, written as it stands, works."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy import special

import nnmagic


class Scale:
    """An object of the notebook with a method."""

    def twice(self, x: Any) -> Any:
        return np.asarray(x) * 2


def helper(x: Any) -> Any:
    """A plain function of the notebook."""
    return x + 1


#: A call, the type of ``x``, and a value of it.
CALLS = [
    ("special.j0(x)", 'Tensor[("n",), f64]', np.linspace(0, 2, 4)),
    ("special.jv(x, x)", "f64", 1.5),
    ("special.j1(x + 1)", "Tensor[(3,), f64]", np.arange(3.0)),
]


@pytest.mark.parametrize(("call", "type_", "value"), CALLS, ids=[call for call, _, _ in CALLS])
def test_what_the_hint_says_works(call: str, type_: str, value: Any) -> None:
    namespace = {"np": np, "special": special, "helper": helper, "scale": Scale()}
    source = f"def f(x: {type_}):\n    for _ in range(2):\n        y = {call}\n    return y\n"
    with pytest.raises(nnmagic.TinyNNError) as caught:
        nnmagic.compile(source, namespace=namespace, cache=False)
    hint = caught.value.diagnostics[0].hint or ""
    found = re.search(r"write (callback\(.*\)), which calls Python", hint)
    assert found is not None, hint
    name, _, arguments = call.removesuffix(")").partition("(")
    assert found[1].startswith(f"callback({name}, {arguments}, result=")
    function = nnmagic.compile(
        source.replace(call, found[1]), namespace=namespace, engine="numpy", cache=False
    )
    expected = eval(call, {**namespace, "x": value})
    np.testing.assert_allclose(function(value), expected, rtol=1e-6)
