"""Indices, lengths and boxes from anywhere: no operator reads or writes outside its data."""

import contextlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nnmagic
from nnmagic.engine import EngineError
from tests.engine.programs import compile_text, module

#: parameters of @main -> body. ``%i`` and its like get every extreme of their dtype.
PROGRAMS = [
    ("%x: Tensor[(7, 5), float32], %i: Tensor[(9), int64]", "take(%x, %i, axis=0)"),
    ("%x: Tensor[(7, 5), float32], %i: Tensor[(9), int64]", 'take(%x, %i, mode="fast")'),
    ("%x: Tensor[(7, 5), float32], %i: Tensor[(9), int32]", 'take(%x, %i, axis=1, mode="wrap")'),
    ("%x: Tensor[(7, 5), float32], %i: Tensor[(7, 5), int64]", "gather(%x, %i, axis=1)"),
    ("%x: Tensor[(7, 5), float32], %i: Tensor[(2, 9), int32]", "gather_nd(%x, %i)"),
    ("%x: Tensor[(7, 5), float32], %i: Tensor[(9), int64]", "adv_index((%x, %i, %i))"),
    ("%x: Tensor[(7, 5), float32], %i: Tensor[(7, 5), int64], %u: Tensor[(7, 5), float32]",
     "scatter_elements(%x, %i, %u, axis=1)"),
    ("%x: Tensor[(7, 5), float32], %i: Tensor[(2, 9), int64], %u: Tensor[(9), float32]",
     "scatter_nd(%x, %i, %u)"),
    ("%x: Tensor[(7, 5), float32], %i: Tensor[(2), int64], %u: float32", "scatter_nd(%x, %i, %u)"),
    ("%x: Tensor[(7, 5), float32], %i: int64, %j: int32, %u: float32",
     'add(take(take(%x, %i, axis=0, mode="fast"), %j, axis=0, mode="fast"), %u)'),
    ("%i: Tensor[(9, 2), int32], %u: Tensor[(9), float32]",
     "sparse_to_dense(%i, %u, 0f, output_shape=[7, 5])"),
    ("%i: Tensor[(9), int32], %s: Tensor[(2), int32]", "unravel_index(%i, %s)"),
    ("%i: Tensor[(9), int32]", 'one_hot(%i, 1f, 0f, depth=4, dtype="float32")'),
    ("%x: Tensor[(4, 9), float32], %i: Tensor[(9), int32]",
     "reverse_sequence(%x, %i, seq_axis=0, batch_axis=1)"),
    ("%x: Tensor[(4, 9), float32], %i: Tensor[(9), int32]", "sequence_mask(%x, %i)"),
    ("%x: Tensor[(9, 5), float32], %i: Tensor[(9), int32], %u: Tensor[(5), float32]",
     "nn.nll_loss(%x, %i, %u, ignore_index=-100)"),
    ("%x: Tensor[(2, 3, 6, 6), float32], %r: Tensor[(4, 5), float32]",
     "vision.roi_align(%x, %r, pooled_size=[2, 2], spatial_scale=1f, sample_ratio=2)"),
    ("%x: Tensor[(2, 6, 6, 3), float32], %r: Tensor[(4, 4), float32], %i: Tensor[(4), int32]",
     'image.crop_and_resize(%x, %r, %i, crop_size=[2, 2], layout="NHWC")'),
    ("%x: Tensor[(1, 5, 6), float32], %i: Tensor[(1), int32], %j: Tensor[(1, 5), int32]",
     "vision.non_max_suppression(%x, %i, %j, -1, 0.5f)"),
    ("%i: Tensor[(9), int32], %j: Tensor[(9), int32]", "(divide(%i, %j), mod(%i, %j), floor_mod(%i, %j))"),
    ("%i: Tensor[(9), int64], %j: Tensor[(9), int64]", "(floor_divide(%i, %j), left_shift(%i, %j))"),
]  # fmt: skip


def wild(type_, seed):
    """Numbers of all sizes: the dtype's extremes, near and far from 0, for floats NaN and infinities."""
    generator = np.random.default_rng(seed)
    dtype = np.dtype(type_.dtype)
    if dtype.kind == "f":
        edges = [np.nan, np.inf, -np.inf, 1e30, -1e30, 0, 1, -3, 100]
        return generator.choice(np.array(edges, dtype), type_.shape)
    info = np.iinfo(dtype)
    edges = [info.min, info.max, info.min + 1, -1000, -1, 0, 1, 4, 5, 7, 1000, 2**20]
    return generator.choice(np.array(edges, dtype), type_.shape)


def main():
    for params, body in PROGRAMS:
        text = f"def @main({params}) {{ {body} }}"
        types = [param.checked_type for param in module(text).functions["main"].params]
        executable = compile_text(text)
        for seed in range(40):
            told = [IndexError] if re.search("fast|scatter_nd", body) else []
            with contextlib.suppress(*told):
                executable([wild(type_, [seed, index]) for index, type_ in enumerate(types)])


@pytest.mark.full
def test_wild_indices_in_a_child_process():
    run = subprocess.run(
        [sys.executable, "-m", "tests.engine.relax.legalize.test_out_of_range_indices"],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, f"exit status {run.returncode}\n{run.stdout}\n{run.stderr}"


def test_there_is_nothing_to_take_from_empty_data():
    with pytest.raises(EngineError, match="take: there is no element to take"):
        compile_text("def @main(%x: Tensor[(0), float32], %i: Tensor[(2), int32]) { take(%x, %i, axis=0) }")
    take = compile_text(
        "def @main(%x: Tensor[(?), float32], %i: Tensor[(?), int32]) { take(%x, %i, axis=0) }"
    )
    x, none = np.zeros(0, "f4"), np.zeros(0, "i4")
    assert take([x, none]).shape == (0,)
    with pytest.raises(ValueError, match="take: there is no element to take"):
        take([x, np.zeros(2, "i4")])


@pytest.mark.full("'n'-'k'")
@pytest.mark.parametrize(("rows", "columns"), [("3", "4"), ("'n'", "'k'")])
def test_what_is_taken_along_an_axis_exists(rows, columns):
    """Sizes that only the call knows are checked, too."""
    parameters = f"x: Tensor[({rows}, {columns}), f32], i: Tensor[({rows}, 'j'), i64]"
    source = f"def f({parameters}):\n    return "
    take = nnmagic.compile(f"{source}np.take_along_axis(x, i, 1)\n", namespace={"np": np}, cache=False)
    loss = nnmagic.compile(f"{source}nll_loss(x, i[:, 0])\n", namespace={}, cache=False)
    x = np.arange(12, dtype="f4").reshape(3, 4)
    i = np.array([[0], [-4], [3]])
    np.testing.assert_array_equal(take(x, i), np.take_along_axis(x, i, 1))
    np.testing.assert_allclose(loss(x, abs(i) % 4), -(x[0, 0] + x[1, 0] + x[2, 3]) / 3)
    for index in (4, -5, 1 << 40, -(1 << 63)):
        for function in (take, loss):
            with pytest.raises(IndexError, match=f"index {index} is out of range for an axis of size 4"):
                function(x, np.array([[0], [1], [index]]))


if __name__ == "__main__":
    main()
