"""The networks that sort columns: they sort, and blocks of several matrices are the same function."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import ir, tirx

import nnmagic
from nnmagic.engine.relax.codegen import shared_rounds
from nnmagic.engine.relax.legalize import sorting_network
from nnmagic.engine.relax.tir import builders


@pytest.mark.parametrize("count", [1, 2, 4, 8, 16])
def test_pairs_sort_all_zeros_and_ones(count: int) -> None:
    """What sorts all sequences of zeros and ones sorts all sequences (Knuth, volume 3, theorem 5.3.4 Z)."""
    rows = (np.arange(1 << count) >> np.arange(count)[:, None]) & 1
    for low, high in sorting_network.batcher_pairs(count):
        rows[[low, high]] = np.minimum(rows[low], rows[high]), np.maximum(rows[low], rows[high])
    assert (np.diff(rows, axis=0) >= 0).all()


@pytest.mark.parametrize(("dtypes", "functions"), [(["int64"] * 2, 2), (["int64", "int32"], 4)])
def test_blocks_of_several_matrices_are_one_function(dtypes: list[str], functions: int) -> None:
    """One sorts the rows of a block, the other merges them."""
    rows = [tirx.Var(name, "int64") for name in "nm"]
    statements = []
    for count, dtype in zip(rows, dtypes, strict=True):
        words = tirx.decl_buffer((count * 8,), dtype, "words")
        columns = sorting_network.SortedColumns((words,), 8, count, sorting_network.BLOCK, calls=True)
        statements += [tirx.AllocBuffer(words), sorting_network.sort_columns(columns)]
    kernel = tirx.PrimFunc(rows, builders.sequence(statements))
    outlined = shared_rounds.outline_shared({ir.GlobalVar("sort"): kernel})
    assert sum(shared_rounds.INTERNAL in (each.attrs or {}) for each in outlined.values()) == functions


def test_blocks_of_known_numbers() -> None:
    """Their loops count in 32 bits, and give the function that they call 64."""
    x = np.random.default_rng(0).permutation(200)
    f = nnmagic.compile("def f(x: Tensor[(200,), i64]):\n    return sort(x)\n", cache=False)
    np.testing.assert_array_equal(f(x), np.arange(200))
