"""``raise``, and messages with values: Python's exception with Python's message, by every engine.

What makes texts of values by ``%`` and ``format`` is rewritten by tinynn/syntax/formatted_texts.
"""

# ruff: noqa: E501  # a program reads best on one line

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic.relay.failures import is_raisable

_ONE = "def f(x: f64):\n"
_MANY = 'def f(x: Tensor[("n",), f64]):\n'

#: Programs, and arguments: of each call either the result or the exception is Python's.
PROGRAMS: dict[str, tuple[str, list[Any]]] = {
    "a known message": (
        _ONE + "    if x < 0:\n        raise ValueError('negative')\n    return x * 2\n",
        [1.0, -1.0],
    ),
    "a value": (
        _ONE + "    if x < 0:\n        raise ValueError(f'negative: {x}')\n    return x * 2\n",
        [1.0, -1.5],
    ),
    "classes": (
        _ONE + "    if x < 0:\n        raise KeyError('low')\n    elif x > 9:\n        raise TypeError\n"
        "    elif x > 5:\n        raise np.linalg.LinAlgError('middle')\n"
        "    elif x > 3:\n        raise OSError(f'{x!s:>20}') from None\n    return x\n",
        [1.0, -1.0, 10.0, 6.0, 4.0],
    ),
    "else": (
        _ONE + "    if x > 0:\n        y = x\n    else:\n        raise OverflowError()\n    return y + 1\n",
        [1.0, 0.0],
    ),
    "nested": (
        _ONE + "    if x < 0:\n        if x < -10:\n            raise ValueError('low')\n        x = -x\n"
        "        if x > 5:\n            raise ValueError(f'{x:.3f} of ' + str(x) + ', %5.1f%%' % x)\n"
        "    return x + 1\n",
        [-30.0, -7.0, -1.0, 3.0],
    ),
    "one of two": (
        _ONE
        + "    if x < 0:\n        y = x * 2\n        if y < -4:\n            raise ValueError('{:+} {y}'.format(x, y=y))\n"
        "        else:\n            raise KeyError('small')\n    return x\n",
        [-3.0, -1.0, 2.0],
    ),
    "a loop": (
        _MANY + "    s = 0.0\n    for i in range(len(x)):\n        if x[i] < 0:\n"
        "            raise ValueError(f'x[{i}] = {x[i]:.2f} of {len(x)}')\n        if x[i] > 100:\n"
        "            raise OverflowError('too large')\n        s += x[i]\n    return s\n",
        [np.array([1.0, 2]), np.array([1.0, -2]), np.array([101.0, -2])],
    ),
    "after a loop": (
        _MANY + "    for i in range(len(x)):\n        if x[i] > 5:\n            return i\n"
        "    raise LookupError(f'nothing in {x}')\n",
        [np.array([1.0, 7]), np.array([1.0, -2])],
    ),
    "while": (
        _ONE + "    n = 0\n    while True:\n        x = x * 2\n        n += 1\n        if x > 100:\n"
        "            raise RuntimeError(f'{n} rounds')\n        if x == 4:\n            break\n    return n\n",
        [1.0, 3.0],
    ),
    "only an exception ends it": (
        _ONE
        + "    while True:\n        x = x * 2\n        if x > 100:\n            raise RuntimeError(f'{x}')\n",
        [1.0],
    ),
    "match": (
        "def f(k: i64):\n    match k:\n        case 0:\n            return 1.0\n        case 1:\n"
        "            raise ValueError('one')\n        case _:\n            raise ValueError(f'no {k}')\n",
        [0, 1, 7],
    ),
    "a join": (
        _ONE + "    if x < 0:\n        if x < -1:\n            return 5.0\n    else:\n        if x > 1:\n"
        "            return 6.0\n    raise ValueError(f'{x} is small')\n",
        [-2.0, 2.0, 0.5, -0.5],
    ),
    "a helper": (
        "def check(x):\n    if x < 0:\n        raise ValueError(f'bad {x}')\n    return x\n\n"
        "def f(x: f64):\n    return check(x) + check(x - 1)\n",
        [3.0, 0.5, -1.0],
    ),
    "a function of the cell": (
        "def g(x: f64):\n    if x < 0:\n        raise ValueError(f'bad {x}')\n    return x\n\n"
        "def f(x: f64):\n    return g(x) if x < 100 else g(-x)\n",
        [3.0, -1.0, 200.0],
    ),
    "in any case": ("def f(x: f64):\n    raise NotImplementedError(f'{x} is not known')\n", [1.0]),
    "assert": (_ONE + "    assert x > 0, f'x = {x}'\n    assert x < 9, x\n    return x\n", [1.0, -3.0, 10.0]),
    "arrays": (
        "def f(x: Tensor[(2, 2), f32], k: i8, b: bool_):\n    if b:\n"
        "        raise RuntimeError(f'{x} {x.shape} {k:03d} {b} {(3, 2)} {k + 1}')\n    return x\n",
        [(np.eye(2, dtype="f4"), np.int8(3), np.True_), (np.eye(2, dtype="f4"), np.int8(3), np.False_)],
    ),
}


def outcome(function: Any, arguments: Any) -> tuple[Any, str]:
    """Return the result of a call, or its exception's class and its message without the location."""
    try:
        result = function(*(arguments if isinstance(arguments, tuple) else (arguments,)))
    except Exception as error:  # noqa: BLE001  # they are compared
        return type(error), re.split(r"\n? +--> ", str(error.args[0] if error.args else ""))[0].strip()
    return np.asarray(result).tolist(), ""


@pytest.mark.parametrize("engine", ["numpy", "relax"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_call_raises_what_python_raises(name: str, engine: str) -> None:
    source, calls = PROGRAMS[name]
    namespace: dict[str, Any] = {"np": np}
    exec("from __future__ import annotations\n" + source, namespace)
    function = nnmagic.compile(source, engine=engine, namespace={"np": np}, cache=False)
    for arguments in calls:
        assert outcome(function, arguments) == outcome(namespace["f"], arguments)


@pytest.mark.parametrize("engine", ["numpy", "relax"])
@pytest.mark.parametrize("message", ["'negative'", "f'negative {x}'", "f'{x}\\n is negative'"])
def test_the_message_ends_with_the_line(engine: str, message: str) -> None:
    source = f"def f(x: f64):\n    if x < 0:\n        raise ValueError({message})\n    return x\n"
    function = nnmagic.compile(source, engine=engine, cache=False)
    with pytest.raises(ValueError, match="negative") as caught:
        function(-2.0)
    assert " --> <tinynn>:3:9\n" in str(caught.value)
    assert "raise ValueError(" in str(caught.value)


def test_each_of_several_says_its_own_line() -> None:
    source = "def f(x: f64):\n    if x < 0:\n        raise ValueError(f'{x}')\n"
    source += "    if x > 9:\n        raise ValueError(f'{x}')\n    return x\n"
    function = nnmagic.compile(source, cache=False)
    for number, line in ((-1.0, 3), (10.0, 5)):
        with pytest.raises(ValueError, match=f"<tinynn>:{line}:9"):
            function(number)


def test_saved_functions_raise_the_same(tmp_path: Path) -> None:
    source, calls = PROGRAMS["classes"]
    function = nnmagic.compile(source, namespace={"np": np}, cache=False)
    function.save(tmp_path / "f.nnm")
    for copy in (nnmagic.load(tmp_path / "f.nnm"), pickle.loads(pickle.dumps(function))):
        for arguments in calls:
            assert outcome(copy, arguments) == outcome(function, arguments)


def test_arguments_stay_as_they_are() -> None:
    source = 'def f(x: InOut[Tensor[("n",), f64]], k: i64):\n    if k < 0:\n        raise ValueError(f"{k}")\n    x[0] = k\n'
    function, data = nnmagic.compile(source, cache=False), np.zeros(2)
    with pytest.raises(ValueError, match="-1"):
        function(data, -1)
    assert data.tolist() == [0, 0]


def test_conditions_on_types_raise_at_the_call() -> None:
    @nnmagic.function
    def total(x, n=3):  # type: ignore[no-untyped-def]
        if x.ndim != 1:
            raise ValueError(f"expected a vector, got {x.ndim} axes")
        if len(x) < n:
            raise IndexError("too short: {} < {}".format(len(x), n))  # noqa: UP032
        return x.sum()

    assert total(np.ones(4)) == 4
    with pytest.raises(ValueError, match="expected a vector, got 2 axes"):
        total(np.ones((2, 2)))
    with pytest.raises(IndexError, match="too short: 2 < 3"):
        total(np.ones(2))


@pytest.mark.parametrize("message", ["'negative'", "f'negative {x}'"])
def test_gradients_and_batches_raise_for_the_example(message: str) -> None:
    source = (
        f"def g(x: f64):\n    if x < 0:\n        raise ValueError({message})\n    return x * x\n\n"
        'def f(x: Tensor[("n",), f64]):\n    return vmap(grad(g))(x)\n'
    )
    function = nnmagic.compile(source, engine="numpy", cache=False)
    assert function(np.array([1.0, 2])).tolist() == [2, 4]
    with pytest.raises(ValueError, match="negative"):
        function(np.array([1.0, -2]))


def test_kernels_and_parallel_loops_raise() -> None:
    body = "        if x[i] < 0:\n            raise KeyError({})\n        y[i] = x[i]\n"
    head = 'def f(x: Tensor[("n",), f64], y: Out[Tensor[("n",), f64]]):\n    for i in {}(len(x)):\n'
    data = np.ones(1000)
    data[[300, 700]] = -1
    for source in (
        "@kernel\n" + head.format("range") + body.format("f'{x[i]}'"),
        head.format("parallel") + body.format("'negative'"),
    ):
        function, out = nnmagic.compile(source, cache=False), np.zeros(1000)
        with pytest.raises(KeyError):
            function(data, out)
        function(abs(data), out)
        assert out.sum() == 1000
    with pytest.raises(nnmagic.TinyNNError, match="messages that are known before"):
        nnmagic.compile(head.format("parallel") + body.format("f'{x[i]}'"), cache=False)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("raise", "`raise` alone raises no exception here"),
        ("raise x", "a cell cannot raise `x`"),
        ("raise MyError('no')", "a cell cannot raise `MyError`"),
        ("raise StopIteration", "a cell cannot raise `StopIteration`"),
        ("raise UnicodeDecodeError('no')", "a cell cannot raise `UnicodeDecodeError`"),
        ("raise ValueError('no', x)", "an exception of a cell has one message"),
        (
            "raise ValueError(f'{x + 1j}')",
            "a text shows tensors, numbers, strings and tuples of them, not a c128",
        ),
        ("raise ValueError(y)", "unknown name `y`"),
    ],
)
def test_what_cannot_be_raised_is_refused_where_it_is(statement: str, message: str) -> None:
    source = f"def f(x: f64):\n    if x < 0:\n        {statement}\n    return x\n"
    with pytest.raises(nnmagic.TinyNNError) as caught:
        nnmagic.compile(source, cache=False)
    assert message in str(caught.value)
    assert caught.value.diagnostics[0].span.line == 3
    assert len(caught.value.diagnostics) == 1


def test_a_program_raises_ordinary_exceptions() -> None:
    assert all(map(is_raisable, ("ValueError", "LinAlgError", "KeyError", "OSError", "DeprecationWarning")))
    assert not any(map(is_raisable, ("print", "KeyboardInterrupt", "SystemExit", "StopIteration", "no")))
