"""Convolutions and pools of a batch that only the call knows: the kernels of a static batch are the judge.

Each kernel of a program runs alone, on arrays between guarded pages.
"""

import itertools
import sys

import numpy as np
import pytest

from tests.child_process import run_python
from tests.engine.programs import compile_text
from tests.engine.relax.codegen.targets import OLDER
from tests.engine.relax.schedules.program_kernels import program_kernels, with_named_sizes
from tests.engine.relax.schedules.test_convolution import with_constant_weight
from tests.suites import sample

TARGETS = {"own": None, "avx2": OLDER}
BATCHES = (1, 5)

#: The programs to try with constant weights, too.
PACKED_WEIGHTS = ("3x3", "many images in parallel", "transposed")

#: name -> (shape of an image, shape of the weights, body; N is the batch).
PROGRAMS = {
    "3x3": (
        (3, 9, 21),
        (20, 3, 3, 3),
        "nn.relu(nn.conv2d(%x, %w, padding=[1, 1], channels=20, kernel_size=[3, 3]))",
    ),
    "many images in parallel": (
        (16, 30, 31),
        (32, 16, 3, 3),
        "nn.conv2d(%x, %w, strides=[2, 1], padding=[1, 0], channels=32, kernel_size=[3, 3])",
    ),
    "each channel": (
        (20, 8, 9),
        (20, 1, 3, 3),
        "nn.conv2d(%x, %w, padding=[1, 1], groups=20, channels=20, kernel_size=[3, 3])",
    ),
    "groups": (
        (12, 8, 9),
        (18, 4, 3, 3),
        "nn.conv2d(%x, %w, padding=[1, 1], groups=3, channels=18, kernel_size=[3, 3])",
    ),
    "channels last": (
        (8, 9, 6),
        (3, 3, 6, 17),
        "nn.conv2d(%x, %w, padding=[1, 1], channels=17, kernel_size=[3, 3], data_layout='NHWC', "
        "kernel_layout='HWIO')",
    ),
    "one axis": ((5, 50), (19, 5, 3), "nn.conv1d(%x, %w, padding=[1, 1], channels=19, kernel_size=[3])"),
    "three axes": (
        (4, 5, 6, 7),
        (9, 4, 3, 3, 3),
        "nn.conv3d(%x, %w, padding=[1, 1, 1], channels=9, kernel_size=[3, 3, 3])",
    ),
    "transposed": (
        (6, 7, 9),
        (6, 20, 3, 3),
        "nn.conv2d_transpose(%x, %w, strides=[2, 2], padding=[1, 1], channels=20, kernel_size=[3, 3])",
    ),
    "a residual and pools": (
        (16, 8, 10),
        (16, 16, 3, 3),
        """%0 = nn.conv2d(%x, %w, padding=[1, 1], channels=16, kernel_size=[3, 3]);
      %1 = nn.relu(add(add(%0, %x), 0.5f));
      %2 = add(nn.conv2d(%1, %w, padding=[1, 1], channels=16, kernel_size=[3, 3]), %1);
      %3 = nn.max_pool2d(%2, pool_size=[2, 2], strides=[2, 2]);
      %4 = nn.avg_pool2d(%3, pool_size=[3, 3], padding=[1, 1]);
      (%4, nn.global_avg_pool2d(%4))""",
    ),
}


def program(name, batch, dtype, *, constant):
    image, weight, body = PROGRAMS[name]
    body = body.replace("0.5f", "0.5f64" if dtype == "float64" else "0.5f").replace("'", '"')
    shapes = [", ".join(map(str, shape)) for shape in ((batch, *image), weight)]
    params = f"%x: Tensor[({shapes[0]}), {dtype}], %w: Tensor[({shapes[1]}), {dtype}]"
    text = f"def @main({params}) {{\n      {body}\n}}"
    if constant:
        return with_constant_weight(text, np.random.default_rng(1).standard_normal(weight).astype(dtype))
    return with_named_sizes(text, *["n"] * text.count("?"))


def check(name, dtype, target, *, constant):
    generator = np.random.default_rng(0)
    dynamic = program_kernels(program(name, "?", dtype, constant=constant), TARGETS[target])
    for batch in BATCHES:
        judged = program(name, batch, dtype, constant=constant)
        static = program_kernels(judged, TARGETS[target], is_optimized=False)  # which takes most of the time
        assert list(static) == list(dynamic)
        for kernel, judge in static.items():
            sys.stdout.write(f"{name} {kernel} {batch}\n")  # what was the last, if it crashes
            sys.stdout.flush()
            values = [generator.standard_normal(shape).astype(each) for shape, each in judge.shapes()[:-1]]
            (wanted,) = judge(*values)
            for at_end in (True, False):
                (found,) = dynamic[kernel](*values, at_end=at_end)
                np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.full
@pytest.mark.parametrize(("dtype", "target"), sample(itertools.product(["float32", "float64"], TARGETS), 4))
def test_kernels_of_a_dynamic_batch(target, dtype):
    run_python("-m", "tests.engine.relax.schedules.test_dynamic_batches", target, dtype, TVM_NUM_THREADS="2")


@pytest.mark.full
def test_a_program_of_any_batch():
    def text(batch):
        return f"""def @main(%x: Tensor[({batch}, 3, 12, 14), float32], %w: Tensor[(20, 3, 3, 3), float32],
                             %v: Tensor[(20, 20, 3, 3), float32]) {{
      %0 = nn.relu(nn.conv2d(%x, %w, padding=[1, 1], channels=20, kernel_size=[3, 3]));
      %1 = add(nn.conv2d(%0, %v, padding=[1, 1], channels=20, kernel_size=[3, 3]), %0);
      (nn.max_pool2d(%1, pool_size=[2, 2], strides=[2, 2]), %1)
    }}"""

    dynamic, static = compile_text(text("?")), compile_text(text(4))
    generator = np.random.default_rng(0)
    shapes = (20, 3, 3, 3), (20, 20, 3, 3)
    weights = [generator.standard_normal(shape).astype("float32") for shape in shapes]
    images = generator.standard_normal((4, 3, 12, 14)).astype("float32")
    wanted = static([images, *weights])
    for batch in (4, 1, 0, 3):
        for found, whole in zip(dynamic([images[:batch], *weights]), wanted, strict=True):
            np.testing.assert_allclose(found, whole[:batch], rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    for case in PROGRAMS:
        for known in (False, True)[: 1 + (case in PACKED_WEIGHTS)]:
            check(case, sys.argv[2], sys.argv[1], constant=known)
