"""Name the attributes of functions that say how they run or differentiate; none changes what is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nnmagic.relay.expr import Attrs, Function

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
    parts = (entry.split(":") for entry in str(function.attrs[PARALLEL]).split(",") if ":" in entry)
    return {int(number): operator for number, operator in parts}


#: Of a function that has a gradient rule of its own: its forward function, its backward function and a letter
#: for each parameter, as in ``"f_forward f_backward gn"``. Forward: (parameters) -> (result, residuals), a
#: flat tuple. Backward: (parameters that are read, residuals, cotangents of the result's floats) -> the
#: cotangents of the parameters ``g``. A parameter ``n`` has none, one that is read, ``r``, must not have one.
CUSTOM_VJP = "custom_vjp"

#: Of a function that has a rule for tangents: that function and the letters. It takes the parameters, then
#: the tangents of those that are ``g``, and gives (result, tangents of its floats).
CUSTOM_JVP = "custom_jvp"


@dataclass(frozen=True, slots=True)
class CustomRule:
    """How a function is differentiated instead of what its body says.

    kind: ``CUSTOM_VJP`` or ``CUSTOM_JVP``. functions: the names of the functions of the rule. letters: what
    each parameter of the function is for it.
    """

    kind: str
    functions: tuple[str, ...]
    letters: str

    def attrs(self, names: Mapping[str, str] | None = None) -> Attrs:
        """Return the attribute of a function; ``names``: the new names of the rule's functions."""
        words = ((names or {}).get(name, name) for name in self.functions)
        return {self.kind: " ".join((*words, self.letters or "-"))}


def custom_rule(function: Function) -> CustomRule | None:
    """Return the gradient rule that a function has of its own; None of any other."""
    for kind in (CUSTOM_VJP, CUSTOM_JVP):
        if kind in function.attrs:
            *functions, letters = str(function.attrs[kind]).split()
            return CustomRule(kind, tuple(functions), letters.strip("-"))
    return None
