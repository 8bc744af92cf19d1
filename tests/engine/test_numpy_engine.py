"""The engine ``numpy`` against real Relay's measurements, the snippets' Python twins and random programs."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.numpy import Interpreter
from nnmagic.relay.callbacks import CALLBACK
from nnmagic.relay.infer import infer_type
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.reference import RULES
from nnmagic.relay.text.parser import parse_module
from tests.engine.programs import make_input
from tests.engine.test_corpus import NO_NUMBERS, check, tolerance
from tests.relay.corpus import parameters
from tests.tinynn.random_programs import program
from tests.tinynn.snippets import runner
from tests.tinynn.snippets.cases import Accepted
from tests.tinynn.snippets.runner import same
from tests.tinynn.test_snippets import TOPICS, cases_of

#: Operators without a rule: a program with one of them is refused by name. This list is to get shorter.
MISSING = {
    *("dft", "linalg.eigh", "linalg.full_rank", "linalg.lstsq", "linalg.qr", "linalg.svd", "matrix_set_diag"),
    *("nn.avg_pool2d_grad", "nn.max_pool2d_grad", "nn.batch_to_space_nd", "nn.space_to_batch_nd"),
    *("nn.correlation", "nn.deformable_conv2d", "nn.fifo_buffer", "nn.upsampling", "nn.upsampling3d"),
    *("sparse_to_dense", "stft", "unique"),
}
MISSING_FAMILIES = ("image.", "qnn.", "random.", "vision.")
#: Real Relay's own measurements of these keep float32 where the program rounds to bfloat16.
NOT_ROUNDED = {"cast_bf16_roundtrip"}


def is_missing(name: str) -> bool:
    return name in MISSING or name.startswith(MISSING_FAMILIES)


def test_the_operators_without_a_rule_are_those_listed() -> None:
    without = set(OPERATORS) - set(RULES) - {CALLBACK}  # which the interpreter runs itself
    assert {name for name in OPERATORS if is_missing(name)} == without
    assert set(RULES) <= set(OPERATORS)


@pytest.mark.parametrize("record", parameters("programs"))
def test_a_program_of_the_corpus_computes_what_real_relay_computed(record) -> None:
    if record["id"] in {*NO_NUMBERS, *NOT_ROUNDED} or record["outputs"] is None:
        pytest.skip("there are no numbers to compare with")
    module = infer_type(parse_module(record["text"]))
    if any(f"{name}(" in record["text"] for name in OPERATORS if is_missing(name)):
        pytest.skip("the reference has no rule for an operator of it")
    result = Interpreter(module).run("main", [make_input(one) for one in record["inputs"]])
    outputs = record["outputs"]
    check(result, {"tuple": outputs} if isinstance(outputs, list) else outputs, *tolerance(record))


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{topic}-{case.id}")
        for topic in TOPICS
        for case in cases_of(topic)
        if isinstance(case, Accepted)
    ],
)
def test_a_snippet_computes_what_python_computes(case: Accepted, monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_for_numpy(case: Accepted) -> nnmagic.CompiledFunction:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", nnmagic.TinyNNWarning)
            return nnmagic.compile(case.source, namespace=case.namespace, cache=False, engine="numpy")

    monkeypatch.setattr(runner, "_compile", compile_for_numpy)
    try:
        runner.run(case)
    except nnmagic.TinyNNError:
        pytest.skip("the cell is refused for every engine: test_snippets.py judges that")
    except nnmagic.EngineError as error:
        if not any(f"the operator {name}" in str(error) for name in OPERATORS if is_missing(name)):
            raise
        pytest.skip("the reference has no rule for an operator of it")


@pytest.mark.sampled(every=25)
@pytest.mark.parametrize("seed", range(1000))
def test_a_random_program_computes_what_the_compiled_engine_computes(seed: int) -> None:
    source, calls = program(seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            interpreted = nnmagic.compile(source, cache=False, engine="numpy")
            compiled = nnmagic.compile(source, cache=False, engine="relax")
    except nnmagic.TinyNNError:
        pytest.skip("the cell is refused")
    for arguments in calls:
        same(interpreted(*arguments), compiled(*arguments), f"seed {seed}, {arguments}", None)


def test_an_operator_without_a_rule_is_named() -> None:
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(4), float32]) { unique(%x) }'
    with pytest.raises(nnmagic.EngineError, match="the engine 'numpy' has no rule for the operator unique"):
        nnmagic.compile(nnmagic.relay.parse(text), engine="numpy", cache=False)(np.zeros(4, "float32"))


def test_a_loop_may_be_long_and_recursion_deep() -> None:
    source = """
def count(n: i64, s: i64) -> i64:
    while n > 0:
        n, s = n - 1, s + n
    return s

def deep(n: i64) -> i64:
    if n == 0:
        return 0
    return 1 + deep(n - 1)

def both(n: i64):
    return count(n, 0), deep(n)
"""
    result = nnmagic.compile(source, engine="numpy", cache=False)(np.int64(5000))
    assert [int(part) for part in result] == [5000 * 5001 // 2, 5000]


def test_errors_of_operators_have_their_place() -> None:
    function = nnmagic.compile(
        "def f(x: Tensor[(3,), f32], i: i64):\n    return x[i]\n", engine="numpy", cache=False
    )
    with pytest.raises(IndexError, match=r"(?s)index 7 is out of range for an axis of size 3.*:2:12"):
        function(np.zeros(3, "float32"), 7)
