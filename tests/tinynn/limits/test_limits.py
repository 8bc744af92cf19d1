"""Wide and deep cells compile, or a located error names the limit, and they can be interrupted.

Each is compiled in a child process with a limit of processor time, which ends what hangs. The complete set of
sources is compiled by hand: ``python -m tests.tinynn.limits.constructed_sources``.
"""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest

import nnmagic
from nnmagic.diagnostics import Source, TinyNNError
from nnmagic.functions.caching.fingerprint import fingerprint
from nnmagic.limits import MAX_ERRORS
from nnmagic.tinynn import compile_source
from tests.systems import POSIX
from tests.tinynn.limits.constructed_sources import FAMILIES, compile_in_child
from tests.work import count_calls

COMPILED = [
    ("doubled_tuple", 10),
    ("doubled_sum", 2000),
    ("doubled_call", 500),
    ("doubled_lambda", 10),
    ("chained_lambdas", 25),
    ("chained_functions", 1000),
    ("chained_recursive_functions", 200),
    ("assignments", 2000),
    ("named_assignments", 1000),
    ("consecutive_ifs", 500),
    ("consecutive_while", 200),
    ("conjunction", 50),
    ("nested_for", 19),
    ("nested_for_of_changing_types", 12),
    ("nested_for_of_own_types", 12),
    ("match_alternatives", 150),
    ("parameters", 1200),
    ("results", 1200),
    ("stacked", 5000),
    ("split_returned", 5000),
    ("tuple_fields", 2000),
    ("constructor_fields", 1000),
    ("captured_names", 2000),
    ("deep_records", 90),
    ("doubled_records", 10),
    ("gradient_of_assignments", 100),
    ("gradient_of_branches", 50),
    ("nested_gradients", 4),
    ("nested_batches", 15),
    ("complex_statements", 300),
    ("element_assignments", 200),
    ("element_loops", 50),
    ("nested_element_loops", 19),
    ("appended", 1000),
    ("appended_rounds", 5000),
    ("record_fields", 200),
    ("kernels", 30),
    ("changing_functions", 100),
    ("random_keys", 200),
]

REFUSED = [
    (
        "doubled_tuple",
        60,
        "a tuple of 16382 items, with those of the tuples in it, is too long (at most 10000)",
    ),
    ("doubled_list", 15, "`items` is a list of more than 10000 items, with those of the items"),
    ("doubled_list", 60, "is a list nested too deeply"),
    ("doubled_alias", 60, "`Alias` is a type of more than 10000 parts"),
    ("doubled_local_type", 60, "this type has more than 10000 parts"),
    ("doubled_records", 20, "the record `P12` has more than 10000 parts"),
    ("deep_records", 2000, "the record `P100` nests more than 100 deep"),
    ("captured_numbers", 100_000, "`items` is a list of more than 10000 items, with those of the items"),
    ("captured_dict", 100_000, "`items` is a dict of more than 10000 items, with those of the items"),
    ("captured_arrays", 100_000, "`items` is a list of more than 10000 items, with those of the items"),
    ("doubled_lambda", 20, "`f` takes too long to compile"),
    ("chained_lambdas", 40, "functions without types are inlined into one another at most 30 deep"),
    ("chained_lambdas", 1100, "the functions of a cell hold at most 1000 functions and comprehensions"),
    ("match_product", 20, "a match has at most 200 cases, one for each alternative of `|`"),
    ("match_cases", 201, "a match has at most 200 cases, one for each alternative of `|`"),
    ("meshgrid_named", 65, "meshgrid of 65 tensors has as many axes (at most 64)"),
    ("minus_signs", 10_000, "this is nested too deeply"),
    ("parentheses", 10_000, "too many nested parentheses"),
    ("sum_of_names", 30_000, "this is nested too deeply"),
    ("nested_calls", 10_000, "too many nested parentheses"),
    ("conjunction", 1000, "this is nested too deeply"),
    ("comparisons", 1000, "this is nested too deeply"),
    ("long_names", 1_000_000, "a cell has at most 500000 characters"),
]


@pytest.mark.full
@POSIX
@pytest.mark.parametrize(("family", "size"), COMPILED)
def test_a_wide_or_deep_cell_compiles(family: str, size: int) -> None:
    assert compile_in_child(FAMILIES[family](size), build=False).kind == "compiled"


@pytest.mark.full(
    "conjunction-1000-this is nested too deeply",
    "doubled_lambda-20-`f` takes too long to compile",
    "comparisons-1000-this is nested too deeply",
)
@POSIX
@pytest.mark.parametrize(("family", "size", "message"), REFUSED)
def test_a_limit_is_told_where_it_is_exceeded(family: str, size: int, message: str) -> None:
    outcome = compile_in_child(FAMILIES[family](size), build=False)
    assert outcome.kind == "refused"
    assert message in outcome.message


def test_statements_that_are_differentiated_count_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a gradient of 10,000 took a minute."""
    cell = FAMILIES["gradient_of_assignments"](100)
    compile_source(Source("cell", cell.source), cell.names)
    monkeypatch.setattr("nnmagic.tinynn.elaborate.gradients.MAX_WORK", 500)
    with pytest.raises(TinyNNError, match="this derivative takes too long to compile") as caught:
        compile_source(Source("cell", cell.source), cell.names)
    (error,) = caught.value.diagnostics
    assert error.span is not None
    assert error.span.line == cell.source.rstrip().count("\n") + 1


def test_statements_of_nested_derivatives_count_more_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnmagic.tinynn.elaborate.gradients.MAX_WORK", 400)
    body = "        y = y * 1.5\n" * 30
    source = f"def f(x: f32):\n    def h(y):\n{body}        return y * y\n    return grad(grad(h))(x)\n"
    compile_source(Source("cell", source), {})


@pytest.mark.full
@POSIX
@pytest.mark.parametrize(
    ("family", "size", "message"),
    [
        ("parameters", 300, None),
        ("parameters", 2000, "@f takes 2000 tensors and returns 1 (at most 1000 together)"),
        ("parameters", 1000, "@f takes 1000 tensors and returns 1 (at most 1000 together)"),
        ("results", 1000, "@f takes 1 tensors and returns 1000 (at most 1000 together)"),
        ("named_sizes", 257, "@f has 257 named sizes (at most 256)"),
        ("stacked", 5000, None),
        ("assignments", 700, None),
        ("assignments_in_branch", 100, None),
        ("assignments_in_loop", 50, None),
        ("captured_names", 150, None),
        ("nested_loops_of_tuples", 100, None),
        ("new_axes", 64, "@f takes or returns a tensor of 65 axes (at most 64)"),
    ],
)
def test_machine_code_of_a_wide_program_is_made_or_refused(
    family: str, size: int, message: str | None
) -> None:
    outcome = compile_in_child(FAMILIES[family](size), build=True)
    assert (outcome.kind, outcome.message) == (("compiled", "") if message is None else ("refused", message))


@pytest.mark.full
@pytest.mark.parametrize(
    "family",
    [
        "assignments",
        "named_assignments",
        "tuple_fields",
        "parameters",
        "private_parameters",
        "errors",
        "chained_functions",
    ],
)
def test_the_work_is_linear(family: str) -> None:
    def work(size: int) -> int:
        cell = FAMILIES[family](size)

        def compile_() -> None:
            try:
                compile_source(Source("cell", cell.source), cell.names)
            except TinyNNError:
                assert family == "errors"

        return count_calls(compile_)

    work(1)
    assert work(400) < 2.5 * work(200)


@pytest.mark.full
def test_the_first_errors_are_reported() -> None:
    cell = FAMILIES["errors"](2_000)
    with pytest.raises(TinyNNError) as info:
        compile_source(Source("cell", cell.source), cell.names)
    errors = info.value.diagnostics
    assert [error.message for error in errors] == [f"unknown name `missing{n}`" for n in range(MAX_ERRORS)]

    cell = FAMILIES["syntax_errors"](2_000)
    with pytest.raises(TinyNNError) as info:
        compile_source(Source("cell", cell.source), cell.names)
    *_, first, last = info.value.diagnostics
    assert first.message == "`del` is not part of TinyNN"
    assert last.message == f"{2_000 - MAX_ERRORS} more errors from here on are left out"
    assert last.span is not None
    assert last.span.line == 2 + MAX_ERRORS


def test_lists_that_share_parts_have_a_fingerprint() -> None:
    def doubled(last: float) -> list[object]:
        items: list[object] = [last]
        for _ in range(200):
            items = [items, items]
        return items

    assert fingerprint(doubled(1.0)) == fingerprint(doubled(1.0))
    assert fingerprint(doubled(1.0)) != fingerprint(doubled(2.0))


@pytest.mark.full
@pytest.mark.parametrize(("count", "length"), [(32, '"n"'), (33, '"n"'), (70, 3)])
@pytest.mark.parametrize(("function", "axis"), [("stack", 0), ("stack", 1), ("concatenate", 0)])
def test_many_tensors_are_joined_as_in_numpy(count: int, length: object, function: str, axis: int) -> None:
    names = ", ".join(f"x * {number}" for number in range(count))
    cell = f"def f(x: Tensor[({length},), f32]):\n    return {function}(({names}), axis={axis})\n"
    x = np.arange(1, 4, dtype=np.float32)
    expected = getattr(np, function)([x * number for number in range(count)], axis=axis)
    np.testing.assert_array_equal(nnmagic.compile(cell)(x), expected)


def test_many_tensors_of_different_lengths_are_joined_as_in_numpy() -> None:
    parameters = ", ".join(f"x{number}: Tensor[(2, {number % 5}), f32]" for number in range(70))
    names = ", ".join(f"x{number}" for number in range(70))
    cell = f"def f({parameters}):\n    return concatenate(({names}), axis=1)\n"
    numbers = itertools.count()
    arrays = [
        np.array([[next(numbers) for _ in range(number % 5)] for _ in range(2)], np.float32).reshape(2, -1)
        for number in range(70)
    ]
    np.testing.assert_array_equal(nnmagic.compile(cell)(*arrays), np.concatenate(arrays, axis=1))


@pytest.mark.full
def test_many_parameters_and_results_are_those_of_numpy() -> None:
    parameters = ", ".join(f"x{number}: Tensor[(2,), f32]" for number in range(100))
    results = ", ".join(f"x{number} * {number}" for number in range(100))
    f = nnmagic.compile(f"def f({parameters}):\n    return {results}\n")
    arrays = [np.full(2, number, np.float32) for number in range(100)]
    np.testing.assert_array_equal(np.stack(f(*arrays)), np.stack([a * i for i, a in enumerate(arrays)]))
    with pytest.raises((TypeError, ValueError), match="x70"):
        f(*arrays[:70], np.zeros(3, np.float32), *arrays[71:])


INTERRUPTED = """
import signal, threading
from nnmagic.diagnostics import Source
from nnmagic.tinynn import compile_source
from tests.tinynn.limits.constructed_sources import FAMILIES

signal.signal(signal.SIGINT, signal.default_int_handler)
cell = FAMILIES[{family!r}]({size})
small = FAMILIES["assignments"](1)
begun = threading.Event()

def interrupt():
    begun.wait()
    signal.raise_signal(signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    begun.set()
    while True:
        try:
            compile_source(Source("cell", cell.source), cell.names)
        except Exception:
            pass
except KeyboardInterrupt:
    print("stopped")
print(len(compile_source(Source("cell", small.source), small.names).functions))
"""


@pytest.mark.parametrize(
    ("family", "size"),
    [("comprehension_rounds", 30), ("doubled_lambda", 20), ("errors", 5000), ("captured_names", 5000)],
)
def test_a_compilation_is_interrupted(family: str, size: int) -> None:
    script = INTERRUPTED.format(family=family, size=size)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "stopped\n1\n"), done.stderr[-2000:]


@pytest.mark.full("40")
@pytest.mark.parametrize("count", [8, 40])
def test_a_loop_hands_values_on_through_many_names(count: int) -> None:
    names = [f"a{number}" for number in range(count)]
    lines = [f"{name} = x + {number}" for number, name in enumerate(names)]
    lines += ["while x.sum() < 200:", "    x = x + 1"]
    lines += [f"    {', '.join(names)} = {', '.join(names[1:])}, {names[0]} * 0.5 + x"]
    body = "".join(f"    {line}\n" for line in [*lines, f"return stack(({', '.join(names)}))"])
    x = np.arange(4, dtype=np.float32)
    values = [x + np.float32(number) for number in range(count)]
    y = x
    while y.sum() < 200:
        y = y + np.float32(1)
        values = [*values[1:], values[0] * np.float32(0.5) + y]
    f = nnmagic.compile(f"def f(x: Tensor[(4,), f32]):\n{body}")
    np.testing.assert_allclose(f(x), np.stack(values), rtol=1e-6)


def test_a_long_transform_has_no_table() -> None:
    source = "def f(v: Tensor[(2**31,), f32]):\n    return fft.fft(v)\n"
    cell = compile_source(Source("cell", source), {"fft": np.fft})
    assert "numpy.fft" in str(cell.module)


def test_deleting_from_a_long_axis_lists_none_of_its_elements() -> None:
    source = "def f(x: Tensor[(10**12,), f32]):\n    return np.delete(x, [1, 5, 9])\n"
    cell = compile_source(Source("cell", source), {"np": np})
    assert "Tensor[(999999999997), float32]" in str(cell.module)
