"""What kind of kernel a TIR function is, and the table of schedules, which the families fill. Knows TVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import s_tir, tirx

from nnmagic.engine.relax.schedules.machine_model import CpuModel
from nnmagic.engine.relax.tir.visitors import visit

#: The annotation by which a rule says what its block is: ``te.compute(..., attrs={KIND: "product"})``.
KIND = "nnmagic.kind"

#: Gives a kernel other loops. By kind: an annotation's, or "elementwise" or "reduction", found by structure.
Schedule = Callable[[tirx.PrimFunc, CpuModel], Any]

SCHEDULES: dict[str, Schedule] = {}


def kind_of(function: tirx.PrimFunc) -> str:
    """The annotated kind; without one ``"reduction"`` where a block reduces, else ``"elementwise"``."""
    found = blocks(function)
    named = [str(block.annotations[KIND]) for block in found if KIND in block.annotations]
    if named:
        return named[0]
    reduces = any(var.iter_type == tirx.IterVar.CommReduce for block in found for var in block.iter_vars)
    return "reduction" if reduces else "elementwise"


def blocks(function: tirx.PrimFunc) -> list[Any]:
    """The blocks of a kernel in order, with the root block around them, which comes last."""
    found: list[Any] = []
    visit(function.body, [(s_tir.SBlock, found.append)])
    return found
