"""The engine ``numpy`` against real Relay's measurements, and the snippets' Python twins."""

from __future__ import annotations

import json
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
from nnmagic.relay.types import NUMPY_DTYPES
from tests.engine.programs import make_input, read_array
from tests.engine.relax.test_corpus import NO_NUMBERS, NOT_ROUNDED, check_outputs
from tests.newer_libraries import IS_NUMPY_OLD
from tests.relay import corpus
from tests.relay.corpus import parameters
from tests.tinynn.programs.snippets import runner
from tests.tinynn.programs.snippets.cases import Accepted
from tests.tinynn.programs.test_snippets import TOPICS, cases_of


def test_every_operator_has_a_rule() -> None:
    assert set(RULES) == set(OPERATORS) - {CALLBACK}, "the interpreter itself calls Python"


@pytest.mark.parametrize("record", parameters("programs"))
def test_a_program_of_the_corpus_computes_what_real_relay_computed(record) -> None:
    if record["id"] in {*NO_NUMBERS, *NOT_ROUNDED} or record["outputs"] is None:
        pytest.skip("there are no numbers to compare with")
    module = infer_type(parse_module(record["text"]))
    check_outputs(record, Interpreter(module).run("main", [make_input(one) for one in record["inputs"]]))


@pytest.mark.full("core_edges-long-loops")
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

    if IS_NUMPY_OLD and case.id == "norms-of-no-elements":
        pytest.skip("NumPy has norms of matrices without elements from 2.3 on")
    monkeypatch.setattr(runner, "_compile", compile_for_numpy)
    try:
        runner.run(case)
    except nnmagic.TinyNNError:
        pytest.skip("the cell is refused for every engine: test_snippets.py judges that")


def test_an_operator_without_a_rule_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RULES, "unique")
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(4), float32]) { unique(%x) }'
    with pytest.raises(nnmagic.EngineError, match="the engine 'numpy' has no rule for the operator unique"):
        nnmagic.compile(nnmagic.relay.parse(text), engine="numpy", cache=False)(np.zeros(4, "float32"))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_pads_by_computed_widths_have_modes(mode: str) -> None:
    text = f"""#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(2, 2), int64]) {{
  dyn.nn.pad(%x, %w, 0f, pad_width=[], pad_mode="{mode}")
}}"""
    data, widths = np.arange(6, dtype="float32").reshape(2, 3), np.array([[1, 0], [0, 1]])
    padded = Interpreter(infer_type(parse_module(text))).run("main", [data, widths])
    np.testing.assert_array_equal(padded, np.pad(data, widths, mode))  # type: ignore[call-overload]


@pytest.mark.full
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


def _lines(name: str) -> list[dict]:
    return [json.loads(line) for line in (corpus.FOLDER / name).read_text("utf-8").splitlines()]


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_a_mean_of_halves_is_added_up_in_float32(dtype: str) -> None:
    f = nnmagic.compile(
        f"def f(x: Tensor[(3000,), {dtype}]):\n    return mean(x), var(x - 30)\n", engine="numpy"
    )
    name = {"f16": "float16", "bf16": "bfloat16"}[dtype]
    x = np.resize(np.array([30, 90]), 3000).astype(NUMPY_DTYPES[name])
    assert [float(value) for value in f(x)] == [60, 900]


def test_quantized_numbers_are_those_of_real_relay() -> None:
    wrong = []
    for record in _lines("qnn.jsonl"):
        module = infer_type(parse_module(record["text"]))
        result = Interpreter(module).run("main", [make_input(each) for each in record["inputs"]])
        expected = read_array(record["output"])
        if (result.dtype, result.shape) != (expected.dtype, expected.shape) or (result != expected).any():
            wrong.append(record["seed"])
    assert not wrong


def test_random_bits_are_those_of_real_relay() -> None:
    for record in _lines("random_numbers.jsonl"):
        given = [np.array(each["data"], each["dtype"]).reshape(each["shape"]) for each in record["inputs"]]
        module = infer_type(parse_module(f'#[version = "0.0.5"]\n{record["text"]}'))
        result = Interpreter(module).run("main", given)
        for got, each in zip(result, record["outputs"], strict=True):
            wanted = np.array(each["data"], each["dtype"]).reshape(each["shape"])
            assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
            if "normal" in record["text"] and got.dtype.kind == "f":  # the C library's logarithm and sine
                np.testing.assert_allclose(got, wanted, rtol=4 * np.finfo(got.dtype).eps, atol=1e-6)
            else:
                np.testing.assert_array_equal(got, wanted)


def test_boxes_are_those_of_real_relay() -> None:
    for record in _lines("boxes.jsonl"):
        module = infer_type(parse_module(f'#[version = "0.0.5"]\n{record["text"]}'))
        result = Interpreter(module).run("main", [read_array(one) for one in record["inputs"]])
        for got, each in zip(
            result if isinstance(result, tuple) else (result,), record["outputs"], strict=True
        ):
            wanted = read_array(each)
            valid = wanted.shape[0] if 'output_format="onnx"' in record["text"] else None
            np.testing.assert_array_equal(got[:valid], wanted)
