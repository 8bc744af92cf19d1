"""Programs that were once wrong are right."""

from __future__ import annotations

import numpy as np
import pytest

from nnmagic.engine.relax import build
from nnmagic.relay import ANY, Function, Module, TensorType, Tuple, Var, call, constant, infer_type
from tests.random_programs.families import family_of
from tests.random_programs.judges import judge
from tests.random_programs.past_failures import load_cells
from tests.random_programs.past_failures.graphs import load_graphs, small

CELLS, GRAPHS = load_cells(), load_graphs()


@pytest.mark.parametrize("what", CELLS)
def test_a_cell(what: str) -> None:
    program = CELLS[what]
    judges = family_of(program.family).judges
    faults = judge(program, ("numpy", "relax") if "steps" in judges else judges).faults
    assert not faults, str(faults[0])


@pytest.mark.parametrize("what", GRAPHS)
def test_a_graph(what: str) -> None:
    faults = judge(GRAPHS[what], ("text",)).faults
    assert not faults, str(faults[0])


def test_a_constant_without_elements() -> None:
    x = Var("x", TensorType((ANY, 3)))
    whole = call("concatenate", [Tuple((x, constant(np.zeros((0, 3), "f4"))))], axis=0)
    function = build(infer_type(Module({"main": Function((x,), whole)})), "main")
    np.testing.assert_array_equal(function([small(2, 3)]), small(2, 3))
