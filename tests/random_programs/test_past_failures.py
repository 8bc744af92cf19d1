"""Programs that were once wrong are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from nnmagic.engine.relax import build
from nnmagic.relay import ANY, Function, Module, TensorType, Tuple, Var, call, constant, infer_type
from tests.random_programs.families import family_of
from tests.random_programs.judges import judge
from tests.random_programs.past_failures import load_cells
from tests.random_programs.past_failures.graphs import load_graphs, small
from tests.random_programs.program import Program
from tests.random_programs.test_families import INTERPRETED

CELLS, GRAPHS = load_cells(), load_graphs()


@pytest.mark.parametrize("what", CELLS)
def test_a_cell_for_the_interpreter(what: str) -> None:
    program = CELLS[what]
    judges = INTERPRETED[program.family]
    check(replace(program, calls=program.calls[:2]), ["numpy"] if "steps of numpy" in judges else judges)


@pytest.mark.full
@pytest.mark.parametrize("what", CELLS)
def test_a_cell_for_compiled_code(what: str) -> None:
    judges = family_of(CELLS[what].family).judges
    check(CELLS[what], ["relax"] if "steps" in judges else judges)


@pytest.mark.parametrize("what", GRAPHS)
def test_a_graph(what: str) -> None:
    check(GRAPHS[what], ["text"])


def check(program: Program, judges: Sequence[str]) -> None:
    faults = judge(program, judges).faults
    assert not faults, str(faults[0])


def test_a_constant_without_elements() -> None:
    x = Var("x", TensorType((ANY, 3)))
    whole = call("concatenate", [Tuple((x, constant(np.zeros((0, 3), "f4"))))], axis=0)
    function = build(infer_type(Module({"main": Function((x,), whole)})), "main")
    np.testing.assert_array_equal(function([small(2, 3)]), small(2, 3))
