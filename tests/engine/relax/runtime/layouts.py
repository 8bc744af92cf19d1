"""Run in a child process: draws array layouts for compiled functions until something is wrong, and says what.

A crash of the process is a finding, too; the parent sees it by the exit status.
"""

import sys

import ml_dtypes
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.programs import compile_text

DTYPES = ("float32", "float64", "float16", "int32", "int8", "uint64", "bool", "bfloat16")


#: Shapes that are known when compiling let TVM and LLVM emit other code than ``?`` does.
FIXED = (16, 64)


def program(dtype, rows="?", columns="?"):
    """Element-wise kernels, broadcast and fused, a transpose, a reshape, and a result that is a parameter."""
    plus = "logical_or" if dtype == "bool" else "add"
    twice = f"{plus}({plus}(%x, %x), %y)"
    body = f"({plus}(%x, %y), transpose(%x, axes=None), reshape(%x, newshape=[-1]), %y, {twice})"
    return (
        f"def @main(%x: Tensor[({rows}, {columns}), {dtype}], %y: Tensor[({columns}), {dtype}]) {{ {body} }}"
    )


def compute_expected(x, y):
    plus = np.logical_or if x.dtype == bool else np.add
    return plus(x, y), x.T, x.reshape(-1), y, plus(plus(x, x), y)


@st.composite
def layouts(draw, shape, dtype):
    """An array of random values: a view of bytes at any offset, strided, flipped, byte-swapped, locked."""
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    steps = [draw(st.integers(1, 3)) for _ in shape]
    padded = [dim * step + draw(st.integers(0, 2)) for dim, step in zip(shape, steps, strict=True)]
    offset = draw(st.integers(0, 70))
    count = int(np.prod(padded))
    memory = np.zeros(offset + count * kind.itemsize + 64, np.uint8)
    base = (
        memory[offset : offset + count * kind.itemsize]
        .view(kind)
        .reshape(padded, order=draw(st.sampled_from("CF")))
    )
    base[...] = (
        np.random.default_rng(draw(st.integers(0, 99)))
        .integers(0, 2 if dtype == "bool" else 50, padded)
        .astype(kind)
    )
    flips = [draw(st.sampled_from((1, 1, -1))) for _ in shape]
    cut = tuple(slice(0, dim * step, step) for dim, step in zip(shape, steps, strict=True))
    array = base[cut][tuple(slice(None, None, flip) for flip in flips)]
    if draw(st.booleans()) and array.ndim and 0 not in shape:
        array = np.broadcast_to(array[:1], shape)
    if draw(st.integers(0, 4)) == 0 and kind.itemsize > 1 and dtype != "bfloat16":
        array = array.astype(kind.newbyteorder("S"))
    if draw(st.booleans()):
        array = array.view()
        array.flags.writeable = False
    return array


DIMS = st.one_of(st.integers(0, 3), st.integers(4, 70))


def main(examples):
    executables = {(dtype, False): compile_text(program(dtype)) for dtype in DTYPES}
    executables |= {(dtype, True): compile_text(program(dtype, *FIXED)) for dtype in DTYPES}

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=False,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data(), st.sampled_from(sorted(executables)), DIMS, DIMS)
    def check(data, key, rows, columns):
        dtype, fixed = key
        rows, columns = FIXED if fixed else (rows, columns)
        x = data.draw(layouts((rows, columns), dtype))
        y = data.draw(layouts((columns,), dtype))
        before = x.copy(), y.copy()
        actual = executables[key]([x, y])
        for result, wanted in zip(
            actual, compute_expected(x.astype(x.dtype.newbyteorder("=")), y), strict=True
        ):
            assert result.shape == wanted.shape
            assert result.dtype == wanted.dtype.newbyteorder("=")
            np.testing.assert_array_equal(result, wanted)
            assert result.flags.writeable
            assert not np.may_share_memory(result, x)
            assert not np.may_share_memory(result, y)
            result[...] = 0
        np.testing.assert_array_equal(x, before[0])
        np.testing.assert_array_equal(y, before[1])

    check()


if __name__ == "__main__":
    main(int(sys.argv[1]))
