"""Split loops of 2**31 rounds.

TVM narrows a loop to 32 bits where its last index fits, and then finds that the number of rounds does not.
"""

from __future__ import annotations

from tvm import tirx

from nnmagic.engine.relax.tir.builders import static_int
from nnmagic.engine.relax.tir.types import Stmt
from nnmagic.engine.relax.tir.visitors import rewrite

_ROUNDS = 2**31

#: How many rounds the inner loop has.
_INNER = 2**16


def split_longest_loops(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Replace each loop of 2**31 rounds by two nested ones; the outer one keeps what is said of the loop."""
    return rewrite(function, [(tirx.For, _split)])


def _split(loop: tirx.For) -> Stmt:
    if static_int(loop.extent) != _ROUNDS:
        return loop
    outer, inner = (tirx.Var(f"{loop.loop_var.name}_{part}", "int64") for part in ("outer", "inner"))
    index = loop.min + outer * tirx.const(_INNER, "int64") + inner
    body = rewrite(loop.body, [(tirx.Var, lambda var: index if var.same_as(loop.loop_var) else var)])
    zero = tirx.const(0, "int64")
    rounds = tirx.For(inner, zero, tirx.const(_INNER, "int64"), tirx.ForKind.SERIAL, body)
    whole = tirx.const(_ROUNDS // _INNER, "int64")
    return tirx.For(outer, zero, whole, loop.kind, rounds, annotations=loop.annotations)
