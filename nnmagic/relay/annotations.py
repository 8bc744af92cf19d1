"""Name the attributes of functions that say how they are to run; they never change what is computed."""

from __future__ import annotations

from collections.abc import Mapping

from nnmagic.relay.expr import Function

#: Of a function that is one kernel: a single function of machine code, without operators of whole arrays.
KERNEL = "kernel"

#: The operator by which Relay's text calls such a function, with a tuple of its arguments.
CALL_LOWERED = "call_lowered"

#: Of a loop whose rounds threads share: 1, or what it reduces to, as in ``"2:add,3:max"``: numbers of
#: parameters, each with the operator.
PARALLEL = "parallel"

#: Of a parallel loop that may as well run its rounds one after the other, where threads cannot share them.
PRANGE = "prange"

#: Of a loop that is a function of the module: it calls itself at its end only, which takes no stack.
LOOP = "loop"

#: Of the backward pass of a loop: it may call itself as often as memory has room for.
BACKWARD_LOOP = "backward_loop"

#: The operators of reductions.
REDUCTIONS = ("add", "mul", "max", "min", "and", "or", "xor")


def reductions_to_text(reductions: Mapping[int, str]) -> int | str:
    """Return the value of ``PARALLEL`` for parameters with the operators that reduce to them."""
    return ",".join(f"{number}:{operator}" for number, operator in reductions.items()) or 1


def reductions_of(function: Function) -> dict[int, str] | None:
    """Return the parameters that a parallel loop reduces to, with the operators; None of another function."""
    if PARALLEL not in function.attrs:
        return None
    parts = (part.split(":") for part in str(function.attrs[PARALLEL]).split(",") if ":" in part)
    return {int(number): operator for number, operator in parts}
