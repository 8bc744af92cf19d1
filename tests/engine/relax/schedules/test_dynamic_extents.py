"""Kernels of sizes that only the call knows: every size, only their memory, and the loops of static rows."""

import itertools

import pytest

from tests.child_process import run_python
from tests.engine.relax.schedules.dynamic_extents import DTYPES
from tests.engine.relax.schedules.guarded_kernels import kernels_of
from tests.engine.relax.schedules.test_elementwise import MACHINES
from tests.suites import sample

CPUS = ["native", "haswell"][: len(MACHINES)]


@pytest.mark.full
@pytest.mark.parametrize(("dtype", "cpu"), sample(itertools.product(DTYPES, CPUS), 8))
def test_all_sizes_between_guard_pages(dtype, cpu):
    run = run_python("-m", "tests.engine.relax.schedules.dynamic_extents", dtype, cpu)
    assert not run.stdout, run.stdout[:5000]


def text_of(program):
    (kernel,), _ = kernels_of(program)
    return str(kernel.script(show_meta=False))


@pytest.mark.parametrize(
    "body", ["nn.softmax(%a)", "argmax(%a, axis=[1])", "sum(%a, axis=[1])", "nn.log_softmax(%a)"]
)
def test_static_rows_of_a_dynamic_batch_are_computed_as_those_of_a_static_one(body):
    static = text_of(f"def @main(%a: Tensor[(7, 200), float32]) {{ {body} }}")
    dynamic = text_of(f"def @main(%a: Tensor[(1009, 200), float32]) {{ {body} }}")

    def lines(text):
        stored = [line.strip() for line in text.splitlines() if "vectorized" in line or "unroll" in line]
        return [line.split(" in ")[1] for line in stored]

    assert lines(static)
    assert lines(dynamic) == lines(static)


def test_no_dimension_of_an_elementwise_kernel_is_left_alone():
    text = text_of("def @main(%a: Tensor[(1009, 2003, 3), float32]) { abs(multiply(%a, %a)) }")
    assert text.count("range(") == 2  # one loop: of vectors, and of elements
    assert "T.parallel" in text


def test_a_flat_index_is_not_divided_by_the_dimensions_of_its_array():
    text = text_of("def @main(%a: Tensor[(1009, 8, 2003, 6), float32]) { vision.yolo_reorg(%a, stride=2) }")
    assert "% m" not in text
    assert "// m" not in text
    assert text.count("%") == 1  # by all elements, where the second array is read in its new shape
