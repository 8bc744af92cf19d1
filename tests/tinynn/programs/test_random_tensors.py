"""Random cells over tensors against the same text run by Python over NumPy, at sizes that only calls know.

NNMAGIC_TENSOR_PROGRAMS makes the search longer; ``random_tensors.program(seed)`` is the cell of a failure.
"""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest

import nnmagic
from tests.tinynn.programs.random_tensors import program
from tests.tinynn.programs.snippets.runner import same
from tests.tinynn.python_twin import Twin, plain, twin

PROGRAMS = int(os.environ.get("NNMAGIC_TENSOR_PROGRAMS", "40"))
SEED = int(os.environ.get("NNMAGIC_TENSOR_SEED", "0"))


def judge(seed: int) -> int:
    """In how many calls the cell gave what Python gives; where Python refuses, no call counts."""
    source, calls = program(seed)
    python = twin(source, {})
    results = [(arguments, _result(python, arguments)) for arguments in calls]
    expected = [(arguments, result) for arguments, result in results if result is not None]
    if not expected:
        return 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nnmagic.TinyNNWarning)  # names that chance leaves unused
        function = nnmagic.compile(source, namespace={}, cache=False)
    for arguments, wanted in expected:
        shapes = [argument.shape for argument in arguments]
        same(function(*arguments), wanted, f"seed {seed}, {shapes}\n{source}", None)
    return len(expected)


def _result(python: Twin, arguments: tuple[np.ndarray, ...]) -> object | None:
    """What Python gives; None where it refuses: no element is the largest of none, or has an index there."""
    try:
        return plain(python.call("f", *arguments))
    except (ValueError, IndexError):
        return None


@pytest.mark.sampled(every=2)
@pytest.mark.full
@pytest.mark.parametrize("part", range(4))
def test_cells_compute_what_numpy_computes(part: int) -> None:
    calls = sum(judge(seed) for seed in range(SEED + part, SEED + PROGRAMS, 4))
    assert calls >= PROGRAMS  # several of each cell, all in all
