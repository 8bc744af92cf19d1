"""Whatever the source, a cell is a program or located errors: no other exception, no hang, no warning.

The search compiles the same sources on every machine. NNMAGIC_FUZZ_SECONDS makes it last so many seconds of
the processor instead, NNMAGIC_FUZZ_SEED another one.
"""

# ruff: noqa: E501  # tables of forms

from __future__ import annotations

import ast
import itertools
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.suites import sample
from tests.tinynn.fuzz.fuzzing import fault_of, namespace
from tests.tinynn.programs.snippets.cases import Accepted
from tests.tinynn.programs.test_snippets import TOPICS, cases_of

ROOT = Path(__file__).parents[3]
SEED = int(os.environ.get("NNMAGIC_FUZZ_SEED", "20"))
SECONDS = float(os.environ.get("NNMAGIC_FUZZ_SECONDS", "0"))
#: How many sources are compiled where no time is given.
_SOURCES = 4_000
#: A source that has not ended by then, by whatever clock, waits for something that does not come.
_PATIENCE = 300


_NAMESPACE = namespace()


def _without_lapack(text: str) -> str:
    """Return what a child wrote without the lines that LAPACK writes when NumPy gives it a NaN."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(" ** On entry to"))


def _search(tmp_path: Path) -> tuple[list[str], int]:
    """The faults that a search in a process of its own finds, and how many sources it compiled."""
    state, output, errors = (tmp_path / name for name in ("source", "output", "errors"))
    state.write_text("")
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "tests.tinynn.fuzz.fuzzing",
        str(10**9 if SECONDS else _SOURCES),
        str(SECONDS or 10**9),
        str(SEED),
        str(state),
    ]
    faults = []
    with output.open("wb") as out, errors.open("wb") as err:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=err)
        while process.poll() is None:
            time.sleep(0.2)
            if time.time() - state.stat().st_mtime > _PATIENCE:
                process.kill()
                process.wait()
    lines = [json.loads(line) for line in _without_lapack(output.read_text("utf-8")).splitlines()]
    faults += [f"{line['fault']}:\n{line['source']}" for line in lines if "fault" in line]
    if process.returncode:  # a crash; SIGVTALRM and SIGKILL: a source that hangs
        last = state.read_bytes().decode("utf-8", "replace")
        faults.append(
            f"ended by {process.returncode}: {errors.read_text('utf-8', 'replace')[-2000:]}\n{last}"
        )
        return faults, 0
    return faults, lines[-1]["count"]


#: What searches have found, made short by hand: exceptions, and sources that hung.
FOUND = [
    "def f(x: []):\n    return x\n",
    "def f(x: [(4,)]):\n    return x\n",
    "def f(a: Tensor[()], b: [a if n else a]):\n    return a\n",
    "def f(x: f32):\n    for i in range(2 ** 63):\n        x = x + 1\n    return x\n",
    "def f():\n for i in range(2**63):5\n",
    "def f(x: f32):\n    for i in range(10 ** 18):\n        x = x + 1\n    return x\n",
    "def f(s: f32):\n    count = i32\n    while (s := (2)) > 1:\n        count += 9\n    return (count,)\n",
    "def f(x: f64):\n    for i in range(100):\n        step = (x)\n        if step < 1:\n            break\n        x = x ^ step\n",
    "def f(s: f32, t: f32):\n    if s:\n        break\n    return t\n",
    "def f(s: f32):\n    if s < 0:\n        return s\n    continue\n",
    "def f(a: i64, b: i64) -> tuple[i64, i64]:\n    if b:\n        return (i64(0), a)\n    break\n",
    "class List:\n    def Nil(): ...\n    def Cons(ad: Tensor[(3,), f32], l: List): ...\n\ndef f(items: List):\n    total = zeros((0,), f32)\n    going = bool_(True)\n    while going:\n        match items:\n            case Cons(head,):\n                total = total * 2 + head\n            case List.Nil():\n                g = bool_(False)\n    return total\n",
    "def f(x: Tensor[(3,), f32]):\n    return trapezoid(x, x=1)\n",
    "def f(x: Tensor[(1, 2, 3, 4), f32]):\n    return interpolate(x, scale_factor=inf, mode='bilinear', align_corners=True)\n",
    "def f(x: Tensor[(4,), f32]):\n    return arange(None, dtype=f32)\n",
    "def f(x: Tensor[(11,), f32]):\n    return around(x, -9223372036854775808)\n",
    "def f(x: Tensor[(11,), f32]):\n    return x.round(400)\n",
    "def f(x: f32):\n    return x * round(5, -10 ** 18)\n",
    "def f(n: i32, x: f32):\n    for i in range(n):\n        x = x @ i\n    return x\n",
    "def f(x: f32):\n    return x * linspace(inf, 3, dtype=f32)\n",
    "def f(x: f32):\n    return x * logspace(472, 3)\n",
    "def f(x: Tensor[('n',), f32]):\n    return x.reshape(x.shape[0], '')\n",
    "def f(x: Tensor[('n',), f32]):\n    return x[: len(x) // 2][len(x) // 2]\n",
    "def f(t: Tensor[(3,), f32]):\n    return t[9223372036854775808:]\n",
    "def f(x: Tensor[(), f32]):\n    return reshape(x, 10000000000000000000)\n",
    "def f(x: Tensor[('n',), f32]):\n    return reshape(x, 10000000000000000000)\n",
    "def f(x: Tensor[('n',), f32]):\n    return x[10000000000000000000 - len(x):]\n",
    "def f(x: Tensor[(2, 3), f32]):\n    return pad(x, 2147483648, mode='edge')\n",
    "def f(n: i64):\n    a = n\n    def u(y):\n        for i in range(n % 4):\n            y = a.reshape(1) + a\n        return y\n    return u(n), u(a) + a\n",
    "def f(x: Tensor[('n',), f32], z: Tensor[('and',), f32]):\n    return x.reshape(len(z))\n",
    "def f(x: Tensor[('b', 'False'), f32]):\n    b, c = x.shape\n    return x.reshape(b * c)\n",
    "def f(x: Tensor[(8,), bf16]):\n    return x * 2 ** 63\n",
    "def f(x: Tensor[(), f32], w: Tensor[(6,), f32]):\n    return conv2d(x, w, padding='same')\n",
    "def f(x: Tensor[(3, 4), f32]):\n    return diff(x, n=2147483648)\n",
    "def f(x: Tensor[(3,), f32]):\n    return vander(x, 1000000000)\n",
    "def f(x: f32):\n    return x * linspace(0, 1e+39, 3, dtype=f32)\n",
    f"def f(x: f32):\n    return x * {'9' * 400}\n",
    "def f(x: f32):\n    return x * sign(True)\n",
    "def f(x: Tensor[(1, 2, 2, 3), f32]):\n    return upsampling(x, scale_h=1e308, scale_w=2)\n",
    "def f(x: Tensor[(1, 1, 2, 4, 6), f32]):\n    return pixel_unshuffle(x, 2)\n",
    "def f(x: f32):\n    return x, () * 9223372036854775808\n",
    "def f(s: Tensor[(6,), f32], x: Tensor[(3,), f32]):\n    return digitize(x, sort(searchsorted(sort(s), x)))\n",
    f"def f(x: f32):\n    return x * 0x{'f' * 4000}\n",
    f"def f(x: Tensor[('0x{'f' * 4000}',), f32]):\n    return x\n",
    "def f(x: f32):\n    a, b, c, h, k = x, x, x, x, x\n    for _ in range(100):\n        a, b, c, k = (b, c, k, (a, h, k))\n    return a\n",
    "def f(x: f32):\n    for _ in range(60):\n        x = (x, x)\n    return x\n",
    "def f(x: f32):\n" + "    x = (x, x)\n" * 60 + "    return x\n",
    "def f(x: f32):\n    x = (x, x)\n" + "    x = zip(x, x)\n" * 60 + "    return list(x)\n",
    "class L:\n    def A(): ...\ndef f(x: L) -> t():\n    match x:\n        case t:\n            return zeros(())\n",
]


@pytest.mark.timeout(_PATIENCE)
@pytest.mark.parametrize("text", FOUND, ids=range(len(FOUND)))
def test_what_was_found_is_a_program_or_located_errors(text: str) -> None:
    fault = fault_of(text, namespace())
    assert fault is None, fault


@pytest.mark.full
@pytest.mark.timeout(4 * SECONDS + 900)
def test_changed_snippets_are_programs_or_located_errors(tmp_path: Path) -> None:
    faults, count = _search(tmp_path)
    assert not faults, "\n\n".join(faults)
    assert count == _SOURCES or SECONDS


@pytest.mark.full
@pytest.mark.timeout(900)
def test_changed_snippets_that_are_called_and_interrupted_answer() -> None:
    """``python -m tests.tinynn.fuzz.executed_mutations`` runs more of them, with less patience."""
    count = "50"
    command = [sys.executable, "-W", "ignore", "-m", "tests.tinynn.fuzz.executed_mutations", "0", count]
    done = subprocess.run(
        [*command, "--patience", "120"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert _without_lapack(done.stdout).startswith(f"{count} sources: ")
    assert "'called'" in done.stdout


#: Numbers at which something ends: dtypes, dimensions, what a constant of the program may hold, floats.
_EXTREMES = [2**31, 2**32 + 1, 10**9, 2**62, 2**63, 2**64, 10**30, 10**400, -1, -(2**31) - 1, -(2**63) - 1]
_EXTREMES += [1e39, 1e300, -1e300, 1e-320, math.inf, math.nan]


@pytest.mark.full
@pytest.mark.timeout(900)
def test_snippets_with_extreme_numbers_are_programs_or_located_errors() -> None:
    """Each number of each snippet becomes another one, all of them in turn."""
    accepted = sorted(
        {case.source for topic in TOPICS for case in cases_of(topic) if isinstance(case, Accepted)}
    )
    numbers = itertools.cycle(_EXTREMES)
    faults = []
    for source in sample(accepted, 3):
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and type(node.value) in (int, float):
                kept, node.value = node.value, next(numbers)
                text = ast.unparse(tree)
                fault = fault_of(text, _NAMESPACE)
                faults += [] if fault is None else [f"{fault}:\n{text}"]
                node.value = kept
    assert not faults, "\n\n".join(faults)


# -- programs by a grammar: Hypothesis finds the smallest one that fails -----------------------------------

_NAMES = st.sampled_from(["x", "y", "i", "t", "n", "W", "z", "f", "g"])
_ATOMS = st.sampled_from(
    """x; y; i; t; n; W; z; 0; 1; -1; 2; 0.5; True; None; x.shape; x.T; x.shape[0]; t[0]; (x,); [x, y]; 'a'; ...;
    len(x); x.sum(); nn.relu; range(3); x > 0""".replace("\n    ", " ").split("; ")
)
_FORMS = """({} + {}); ({} @ {}); ({} ** {}); ({} // {}); ({} < {}); ({} & {}); (-{}); (~{}); {}[{}]; {}[{}:]; {}[..., {}];
    relu({}); maximum({}, {}); where({} < 0, {}, {}); {}.reshape({}); {}.sum(axis={}); {}.astype(f64); ({}, {});
    concatenate([{}, {}]); softmax({}, axis={}); g({}); ({} if {} else {}); ({} and {}); (not {}); ({} < {} < {});
    (z := {}); (lambda a: a + {})({}); g(*{}); [a for a in {}]""".replace("\n    ", " ").split("; ")


def _expressions(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def fill(form: str) -> st.SearchStrategy[str]:
        return st.tuples(*[inner] * form.count("{}")).map(lambda parts: form.format(*parts))

    return st.sampled_from(_FORMS).flatmap(fill)


_EXPRESSIONS = st.recursive(_ATOMS, _expressions, max_leaves=6)


def _indent(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


_SIMPLE = st.one_of(
    st.builds("{} = {}".format, _NAMES, _EXPRESSIONS),
    st.builds("{} += {}".format, _NAMES, _EXPRESSIONS),
    st.builds("{}, {} = {}".format, _NAMES, _NAMES, _EXPRESSIONS),
    st.builds("{}, *{} = {}".format, _NAMES, _NAMES, _EXPRESSIONS),
    st.builds("return {}".format, _EXPRESSIONS),
    st.builds("assert {}".format, _EXPRESSIONS),
    st.sampled_from(["pass", "break", "continue"]),
).map(lambda line: [line])


def _join(parts: list[list[str]]) -> list[str]:
    return [line for part in parts for line in part]


def _compound(inner: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    heads = st.one_of(
        st.builds("if {}:".format, _EXPRESSIONS),
        st.builds("while {}:".format, _EXPRESSIONS),
        st.builds("for {} in {}:".format, _NAMES, _EXPRESSIONS),
        st.builds("for {} in range({}):".format, _NAMES, _EXPRESSIONS),
        st.builds("def {}(a: f32, b: f32 = 1.0):".format, _NAMES),
        st.builds("match {}:\n        case 0: pass\n        case ({}, y) if y:".format, _EXPRESSIONS, _NAMES),
    )

    def with_body(head: str, body: list[str], other: list[str]) -> list[str]:
        if head.startswith("match"):
            first, *rest = head.split("\n")
            return [first, *(line[4:] for line in rest), *_indent(_indent(body))]
        more = ["else:", *_indent(other)] if other and not head.startswith("def") else []
        return [head, *_indent(body), *more]

    block = st.lists(inner, min_size=1, max_size=3).map(_join)
    return st.builds(with_body, heads, block, st.one_of(st.just([]), block))


_STATEMENTS = st.recursive(_SIMPLE, _compound, max_leaves=6)
_HEADS = [
    "def f(x: Tensor[(2, 3), f32], y: Tensor[(2, 3), f32], i: i32, t: tuple[f32, f32]):",
    'def f(x: Tensor[("n", 3), f32], y: Tensor[("n", 3), f32], i: Tensor[("n",), i32]):',
    "def f(x: f32, y: f64, i: bool_) -> f32:",
]


def _cell(head: str, parts: list[list[str]], result: str) -> str:
    body = _indent([*_join(parts), f"return {result}"])
    lines = ["def g(a: Tensor[(2, 3), f32]):", "    return a * 2", "", head, *body]
    return "".join(f"{line}\n" for line in lines)


_CELLS = st.builds(_cell, st.sampled_from(_HEADS), st.lists(_STATEMENTS, max_size=5), _EXPRESSIONS)


@pytest.mark.full
@settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(_CELLS)
def test_random_programs_are_programs_or_located_errors(text: str) -> None:
    fault = fault_of(text, _NAMESPACE)
    assert fault is None, f"{fault}\n{text}"
