"""The benchmarks work: figures are right, wrong results are caught, table and JSON have their form."""

import inspect
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import layers, peers
from benchmarks.__main__ import main
from benchmarks.case import (
    BEST,
    CONTESTANTS,
    KNOWN,
    Case,
    Compilation,
    Growth,
    OfPeak,
    Overhead,
    Program,
    Ratio,
    Within,
)
from benchmarks.cases import ROWS, programs, vocabulary
from benchmarks.judge import goals_of, ratios, verdict
from benchmarks.measure import QUICK, measure, quartiles, timing
from benchmarks.report import _means, document, duration, table
from benchmarks.worker import judge, row_result
from nnmagic.tinynn.builtins import BUILTINS
from tests.newer_libraries import is_onnxruntime_old

ROOT = Path(__file__).parent.parent.parent
CASES = [row for row in ROWS if isinstance(row, Case)]


def a_case(**changes):
    case = Case(
        "sum of two",
        "test",
        (Ratio("numpy", 1.0),),
        lambda generator: {"a": generator.random(5, dtype="float32"), "b": np.ones(5, "float32")},
        "def add(a: Tensor[(5,), f32], b: Tensor[(5,), f32]):\n    return a + b\n",
        lambda a, b: a + b,
    )
    return replace(case, **changes)


def a_result(**medians):
    timings = {name.replace("_", "."): {"median": value} for name, value in medians.items()}
    return {"threads": 1, "timings": timings, "absent": {}, "wrong": {}}


def test_medians_and_spread():
    assert quartiles([4.0, 1.0, 3.0, 2.0, 5.0]) == (2.0, 3.0, 4.0)
    assert quartiles([7.0]) == (7.0, 7.0, 7.0)
    spread = timing([4.0, 1.0, 3.0, 2.0, 5.0], 10, [1.0, 2.0, 1.0, 1.0, 1.0])
    assert (spread.median, spread.low, spread.high, spread.least) == (3.0, 2.0, 4.0, 1.0)
    assert (spread.calls, spread.rounds, spread.busy) == (10, 5, 1.0)


def test_calls_take_turns():
    called = []
    timings = measure({"a": lambda: called.append("a"), "b": lambda: called.append("b")}, QUICK)
    assert set(timings) == {"a", "b"}
    turns = [one for one, before in zip(called, [None, *called], strict=False) if one != before]
    assert len(turns) >= 2 * QUICK.rounds[0]
    assert all(each.rounds == QUICK.rounds[1] and each.median > 0 for each in timings.values())


def test_a_ratio_is_our_speed_over_theirs():
    assert ratios(a_result(nnmagic=2.0, numpy=4.0, torch=1.0)) == {"numpy": 2.0, "torch": 0.5}
    assert ratios(a_result(numpy=4.0)) == {}


def test_our_own_other_cell_is_no_peer():
    result = a_result(**{"nnmagic": 2.0, "torch": 4.0, KNOWN: 1.0})
    assert verdict(Ratio(BEST, 1.0), a_case(), result, {}, None).reached == 2.0
    assert verdict(Ratio(KNOWN, 0.95), a_case(), result, {}, None).reached == 0.5


@pytest.mark.parametrize(
    ("goal", "reached", "met"),
    [
        (Ratio("numpy", 1.5), 2.0, True),
        (Ratio("numpy", 2.5), 2.0, False),
        (Ratio("numba", 1.0), None, None),
        (Ratio(BEST, 1.0), 0.5, False),
        (Within(2.0), 2.0, True),
        (Within(1.9), 2.0, False),
        (OfPeak(0.5), 0.5, True),
        (OfPeak(0.51), 0.5, False),
        (Growth("other", 4.0), 4.0, True),
        (Growth("other", 3.9), 4.0, False),
        (Growth("not measured", 3.9), None, None),
        (Overhead("torch", 1.0), 1.0, True),
        (Overhead("torch", 0.5), 1.0, False),
        (Overhead(KNOWN, 0.5), None, None),
    ],
    ids=str,
)
def test_goals_are_judged(goal, reached, met):
    result = a_result(nnmagic=2.0, numpy=4.0, torch=1.0)
    results = {("other", 1): a_result(nnmagic=0.5)}
    judgement = verdict(goal, a_case(flops=2e9), result, results, {"sgemm": {"flops": 2e9}})
    assert (judgement.reached, judgement.met) == (reached, met)


def test_a_row_with_goals_must_not_be_slower_than_numpy():
    assert goals_of(a_case(goals=(Ratio(BEST, 1.0),))) == (Ratio(BEST, 1.0), Ratio("numpy", 1.0))
    assert goals_of(a_case(goals=(Ratio("numpy", 5.0),))) == (Ratio("numpy", 5.0),)
    assert goals_of(a_case(goals=())) == ()


def test_a_right_result_is_timed():
    row = row_result(a_case(), 1, ("nnmagic", "numpy", "numba"), QUICK)
    assert set(row["timings"]) == {"nnmagic", "numpy"}
    assert row["absent"] == {"numba": "no loops written"}
    assert row["wrong"] == {}


def wrong(problem):
    arguments = list(problem.arguments.values())
    return peers.Ready(lambda: arguments[0] - arguments[1], np.asarray)


def only_once(problem):
    results = iter([problem.case.numpy(*problem.arguments.values())])
    return peers.Ready(lambda: next(results, np.zeros(5, "float32")), np.asarray)


def fail(problem):
    raise RuntimeError("no such instruction")


@pytest.mark.parametrize(
    ("maker", "where", "what"),
    [
        (wrong, "wrong", "the error is"),
        (only_once, "wrong", "the error is"),
        (fail, "absent", "failed: RuntimeError: no such instruction"),
    ],
)
def test_who_computes_something_else_is_not_timed(maker, where, what):
    row = row_result(a_case(), 1, ("nnmagic", "torch"), QUICK, {**peers.MAKERS, "torch": maker})
    assert set(row["timings"]) == {"nnmagic"}
    assert row[where]["torch"].startswith(what)


def test_our_own_failure_is_a_wrong_result():
    row = row_result(a_case(source="def add(a: Tensor[(5,), f32]):\n    return c\n"), 1, ("nnmagic",), QUICK)
    assert row["wrong"]["nnmagic"].startswith("failed: TinyNNError")


def test_results_are_judged():
    ones = np.ones((2, 3))
    assert judge(ones.astype("float32"), ones, 1e-6) is None
    assert judge(np.full((2, 3), np.nan), ones, 1e-6) is not None
    assert judge(ones[0], ones, 1e-6) == "the shape is (3,), not (2, 3)"
    assert judge(1000 * ones + 1e-4, 1000 * ones, 1e-6) is None
    assert judge(1000 * ones + 1e-2, 1000 * ones, 1e-6) is not None


def test_a_compilation_is_checked():
    row = Compilation("one", "test", (), {"nnmagic": lambda: lambda: np.ones(1)}, lambda: np.zeros(1))
    assert row_result(row, 1, CONTESTANTS, QUICK)["wrong"] == {
        "nnmagic": "the error is 1.0e+00, allowed is 2e-05"
    }


def a_program(ours, judge=lambda arguments: arguments["a"] + 1):
    runs = {"nnmagic": lambda arguments, _: peers.Ready(lambda: ours(arguments["a"]), np.asarray)}
    return Program("a + 1", "test", (), lambda _: {"a": np.ones(3, "float32")}, runs, judge)


def test_a_program_is_judged_before_it_is_timed():
    right = row_result(a_program(lambda a: a + 1), 1, CONTESTANTS, QUICK)
    assert set(right["timings"]) == {"nnmagic"}
    other = row_result(a_program(lambda a: a + 2), 1, CONTESTANTS, QUICK)
    assert (other["timings"], other["wrong"]) == ({}, {"nnmagic": "the error is 5.0e-01, allowed is 1e-04"})


def test_a_program_without_its_judge_is_not_timed():
    def judge(_arguments):
        raise peers.AbsentError("not installed")

    row = row_result(a_program(lambda a: a + 1, judge), 1, CONTESTANTS, QUICK)
    assert (row["timings"], row["absent"]) == ({}, {"nnmagic": "the judge: not installed"})


@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["transformer, 2 layers", "lstm, bidirectional", "quantised cnn", "scikit-learn pipeline"]
)
def test_onnx_models_compute_what_onnxruntime_does(name):
    """Those that compile quickly."""
    pytest.importorskip("onnxruntime")
    if name == "quantised cnn" and is_onnxruntime_old():
        pytest.skip("onnxruntime runs the model from 1.24 on")
    (row,) = (row for row in ROWS if row.name == f"onnx: {name}")
    result = row_result(row, 1, ("nnmagic", "onnxruntime"), QUICK)
    assert (set(result["timings"]), result["wrong"]) == ({"nnmagic", "onnxruntime"}, {})


def test_names_are_different_and_contestants_known():
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert set(peers.MAKERS) == set(CONTESTANTS)


def test_every_function_of_the_language_has_a_row():
    measured = {row.name.partition(",")[0] for row in ROWS if row.family == "vocabulary"}
    assert set(BUILTINS) == measured | set(vocabulary.WITHOUT_ROW)


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")  # from NumPy 2.5 on
def test_numpy_takes_the_calls_of_the_vocabulary():
    """A new function whose call is not the usual one needs a text of its own."""
    for row in CASES:
        if row.family == "vocabulary" and row.name.endswith(", 8x16") and "numpy" in row.peers:
            arrays = row.arguments(np.random.default_rng(0))
            assert np.asarray(row.numpy(*arrays.values())).dtype != object, row.name


@pytest.mark.full("einsum", "sort")
@pytest.mark.parametrize("name", ["sin", "sort", "einsum", "take", "divmod"])
def test_a_row_of_the_vocabulary_compares_with_numpy(name):
    for row in CASES:
        if row.name in (f"{name}, 8x16", f"{name}, 8x16, named"):
            result = row_result(row, 1, ("nnmagic", "numpy"), QUICK)
            assert set(result["timings"]) == {"nnmagic", "numpy"}


def test_rows_of_the_vocabulary_come_last_the_worst_first():
    row = a_case(family="vocabulary")
    rows = [replace(row, name=name) for name in ("fast", "slow")] + [a_case(name="other")]
    results = {
        (each.name, 1): {**a_result(nnmagic=1.0, numpy=numpy), "name": each.name, "family": each.family}
        for each, numpy in zip(rows, (3.0, 0.5, 1.0), strict=True)
    }
    report = document(rows, results, {}, quick=True)
    assert [each["name"] for each in report["rows"]] == ["other", "slow", "fast"]


def test_numpy_convolutions_are_convolutions():
    x, w = np.arange(2 * 5 * 5.0).reshape(1, 2, 5, 5), np.arange(3 * 2 * 3 * 3.0).reshape(3, 2, 3, 3)
    result = layers.convolution(x, w, 2, 1, 1)
    assert result.shape == (1, 3, 3, 3)
    assert result[0, 1, 1, 1] == (x[0, :, 1:4, 1:4] * w[1]).sum()
    assert result[0, 2, 0, 0] == (x[0, :, :2, :2] * w[2, :, 1:, 1:]).sum()
    each = layers.convolution(x, w[:2, :1], 1, 1, 2)
    assert each[0, 1, 2, 2] == (x[0, 1, 1:4, 1:4] * w[1, 0]).sum()


def test_networks_are_what_the_papers_say():
    """Parameters and multiplications as published (He et al., table 1; Howard et al., table 4)."""
    resnet, mobilenet = layers.resnet18(), layers.mobilenet()
    count = {
        net.flops: sum(int(np.prod(shape)) for shape in net.weights.values()) for net in (resnet, mobilenet)
    }
    assert resnet.flops == pytest.approx(3.63e9, rel=0.01)
    assert mobilenet.flops == pytest.approx(1.137e9, rel=0.01)
    running = sum(2 * shape[0] for name, shape in resnet.weights.items() if name.startswith("scale"))
    assert count[resnet.flops] - running == 11_689_512
    assert len([row for row in CASES if row.family == "convolutions"]) == 20


@pytest.mark.parametrize(
    ("seconds", "text"), [(1.5, "1.5 s"), (2e-3, "2 ms"), (12.34e-6, "12.3 us"), (5e-9, "5 ns")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


PROGRAMS = list(programs.all_programs())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_has_its_spellings(program):
    assert program.__doc__
    assert len(program.sizes) == 2
    spellings = [getattr(program, spelling) for spelling in programs.SPELLINGS]
    names = [inspect.signature(spelling).parameters.keys() for spelling in spellings]
    drawn = program.draw(np.random.default_rng(0), program.sizes[0])
    assert names == [drawn.keys()] * len(spellings)
    before = [np.copy(value) for value in drawn.values()]
    results = [peers.joined(spelling(*drawn.values())) for spelling in spellings]
    for result in results:
        assert judge(result, results[0], 1e-9) is None
    for value, old in zip(drawn.values(), before, strict=True):
        np.testing.assert_array_equal(value, old)


@pytest.mark.full
@pytest.mark.parametrize(
    ("program", "spelling"),
    [
        (program, programs.SPELLINGS[number % len(programs.SPELLINGS)])
        for number, program in enumerate(PROGRAMS)
    ],
)
def test_a_program_is_that_of_numpy(program, spelling):
    """One spelling of each; the table judges all before it times them."""
    (row,) = (
        row for row in programs.rows_of(program) if f"{program.sizes[0]} in f64: {spelling}" in row.name
    )
    assert row_result(row, 1, ("nnmagic",), QUICK)["wrong"] == {}


@pytest.mark.full
def test_the_whole_way_in_children(tmp_path, capfd):
    """Some rows as `make bench` runs them, with whoever is installed but torch.compile, which takes long."""
    paths = {"json": tmp_path / "bench.json", "markdown": tmp_path / "bench.md"}
    options = ["--quick", "--threads", "1", "--peers", "onnxruntime", "torch", "jax.jit", "numba"]
    names = ["foo: a @ b + c, 2x3 3x4", "collatz", "column sums 1024x1024, n rows", "a repeated cell: foo"]
    outputs = ["--json", str(paths["json"]), "--markdown", str(paths["markdown"])]
    assert main([*options, *outputs, "--only", *names]) == 0
    report = json.loads(paths["json"].read_text())
    assert set(report) == {"format", "quick", "machine", "versions", "peak", "rows"}
    assert [row["name"] for row in report["rows"]] == names
    for row in report["rows"]:
        assert row["wrong"] == {}
        assert not [why for why in row["absent"].values() if why.startswith("failed")]
        for spread in row["timings"].values():
            assert set(spread) == {"median", "low", "high", "least", "calls", "rounds", "busy"}
            assert 0 < spread["least"] <= spread["low"] <= spread["median"] <= spread["high"]
    assert {"nnmagic", "numpy"} <= set(report["rows"][0]["timings"])
    assert {goal["goal"] for goal in report["rows"][0]["goals"]} == {"1x numpy", "1x best peer"}
    shown = capfd.readouterr().out
    assert shown.rstrip() == table(report).rstrip() == paths["markdown"].read_text().rstrip()
    assert f"| {names[0]} " in shown


def test_geometric_means_of_families():
    rows = [
        {"family": "loops", "threads": 1, "ratios": {"numpy": 8.0, "numba": 1.0, "known sizes": 0.1}},
        {"family": "loops", "threads": 1, "ratios": {"numpy": 2.0, "numba": 4.0}},
        {"family": "loops", "threads": 1, "ratios": {"numpy": 4.0}},
        {"family": "rows", "threads": 1, "ratios": {"numpy": 3.0}},
    ]
    assert _means(rows) == [
        "geometric means of loops, 1 thread: 4.00x numpy (3 rows), 2.00x numba (2 rows), "
        "2.00x best peer (3 rows), 1.41x best of several peers (2 rows)"
    ]


@pytest.mark.full
def test_a_dead_worker_is_a_wrong_row_and_the_next_goes_on(tmp_path):
    """A segfault in a kernel must not take the other rows with it."""
    script = (
        "import os, sys\n"
        "from benchmarks import __main__ as bench\n"
        "text = 'import os, sys, json\\nfrom benchmarks import worker\\n'\n"
        "text += 'task = json.loads(sys.argv[3])\\n'\n"
        "text += 'for name in task[\"rows\"]:\\n'\n"
        "text += '    print(json.dumps({\"begun\": name}), flush=True)\\n'\n"
        "text += '    if name == \"bad\": os.abort()\\n'\n"
        'text += \'    print(json.dumps({"row": {"name": name}}), flush=True)\\n\'\n'
        "real = bench.subprocess.Popen\n"
        "def popen(command, **keywords):\n"
        "    return real([sys.executable, '-c', text, *command[1:]], **keywords)\n"
        "bench.subprocess.Popen = popen\n"
        "task = {'threads': 1, 'quick': True, 'peers': [], 'peak': False}\n"
        "print([each['row'].get('wrong', 'fine') for each in bench._measure(task, ['a', 'bad', 'b'])])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "['fine', {'nnmagic': 'the process ended with -6'}, 'fine']"
