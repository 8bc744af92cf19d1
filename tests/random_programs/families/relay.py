"""Relay programs that real Relay types, prints and runs: small tensors, tuples, lets, ifs, functions.

Values stay small, so that two compilers' roundings stay close.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from nnmagic.relay.infer import erase_types
from nnmagic.relay.module import Module
from tests.random_programs.families.special_forms import each_of
from tests.random_programs.program import Family, Program, Rules, seeded
from tests.random_programs.relay_text import RELAY, module_of
from tests.random_programs.relay_writer import RelayWriter
from tests.random_programs.step_writer import Profile

#: The shapes of parameters.
_SHAPES = ((), (3,), (1, 3), (2, 3), (2, 1), (4, 2, 3), (2, 3, 3), (1, 2, 5, 5))

_COMPARISONS = "less less_equal greater greater_equal equal not_equal"
FORMS = {
    **each_of("tanh sigmoid exp negative abs nn.relu erf cos floor copy sign", "NAME(<x:f>)"),
    **each_of(
        "add subtract multiply maximum minimum",
        "NAME(<x:f>, <y>)",
        "NAME(<x:f>, <z>)",
        "NAME(<x:f>, <scalar 0.5>)",
    ),
    **each_of(
        "less less_equal greater greater_equal equal not_equal", "NAME(<x:f>, <y>)", "NAME(<x:f>, <z>)"
    ),
    "where": ("where(<mask>, <x:f>, <y>)",),
    **each_of("sum mean max min prod", "NAME(<x:f>, <reduction>)"),
    **each_of(  # real Relay cannot build those of no axis
        "argmax argmin",
        "NAME(<x:f 1-4>, axis=[<axis>], keepdims=<flag>)",
        "NAME(<x:f 2-4>, axis=[<axis>], keepdims=<flag>, exclude=True)",
        "NAME(<x:f>, axis=None, keepdims=<flag>)",
    ),
    "transpose": ("transpose(<x:f 1-4>, axes=<permutation>)",),
    "expand_dims": ("expand_dims(<x:f>, axis=<new_axis>)",),
    "squeeze": ("squeeze(<x:f>, axis=None)",),
    "reshape": ("reshape(<x:f>, newshape=<[-1]|[-1, 3]|[0, -1]|[-3, -2]>)",),
    "strided_slice": ("strided_slice(<x:f 1-4>, begin=[0], end=[2], strides=[1], axes=None)",),
    "tile": ("tile(<x:f 1-4>, reps=[2, 1])",),
    "cast": ('cast(<x:f>, dtype="<float32|int32|bool>")',),
    "nn.dense": ("nn.dense(<x:f 2>, <weight 4 inner>, units=<None|4>)",),
    "nn.matmul": ("nn.matmul(<x:f 2>, <weight inner 2>, units=None, transpose_a=False, transpose_b=False)",),
    "nn.softmax": ("nn.softmax(<x:f 1-4>, axis=<-1..1>)",),
    "nn.max_pool2d": ("nn.max_pool2d(<x:f 4>, pool_size=[2, 2], padding=[0, 1, 0, 1])",),
    "nn.conv2d": ("nn.conv2d(<x:f 4>, <weight 3 2 3 3>, padding=<[0, 0, 0, 0]|[1, 1, 1, 1]>)",),
    "nn.leaky_relu": ("nn.leaky_relu(<x:f>, alpha=0.01f)",),
    "clip": ("clip(<x:f>, a_min=-0.5f, a_max=0.5f)", "clip(<x:f>, a_min=-0.5f, a_max=0.333333f)"),
    **each_of(
        "concatenate stack", "NAME((<x:f 1-3>, <same>), axis=0)", "NAME((<x:f 1-3>, <same>, <same>), axis=0)"
    ),
    "tuple": ("(<x:f>, <z>)", "(<x:f>, <z>, <z>)", "(<x:f>,)", "(<z>, <x:f>).<0..1>"),
    "let": (
        "(let %t = <x:f>; <operator>(%t, <y>))",
        "(let %t: <type_of_x> = <x:f>; <operator>(%t, <z>))",
        "(let %t = tanh(<x:f>); let %u = add(%t, <x>); let %t = tanh(%u); <operator>(%t, %u))",
        "(let %t1 = <x:f>; let %t = add(%t1, %t1); multiply(%t, %t1))",
    ),
    "if": ("if (less(sum(<z>), <scalar 0.125>)) { tanh(<x:f>) } else { <same> }",),
    "function": (
        "(fn (%z: <type_of_x>) { add(%z, <x:f>) })(<same>)",
        "(fn (%z: <type_of_x>) { <operator>(%z, <y>) })(<x:f>)",
        "(fn (%z: <type_of_x>) { (fn (%z: <type_of_x>) { tanh(%z) })(add(%z, %z)) })(<x:f>)",
    ),
    "helper": ("@helper(<weight 2 3>)",),
}


class RelayTextWriter(RelayWriter):
    """Draws the parameters from a list of shapes."""

    def pick(self, kinds: str, low: int, high: int):
        shapes = [shape for shape in _SHAPES if low <= len(shape) <= high]
        known = [each for each in self.known() if each.dtype.kind in kinds and low <= each.rank <= high]
        if known and self.chance(0.85):
            return self.random.choice(known[-6:])
        return self.new_param("float32", self.random.choice(shapes))

    def hole_z(self, _argument: str) -> str:
        """Any other value of floats."""
        return self.take(self.pick("f", 0, 4))

    def hole_weight(self, argument: str) -> str:
        """A constant of a shape, in which ``inner`` is the last dimension of ``x``."""
        dims = [int(dim) if dim.isdigit() else self.x.dims[-1] for dim in argument.split()]
        return self.take(self.new_param("float32", dims, constant=True))

    def hole_type_of_x(self, _argument: str) -> str:
        return f"Tensor[({', '.join(map(str, self.x.dims))}), {self.x.kind}]"

    def hole_operator(self, _argument: str) -> str:
        return self.random.choice(["add", "subtract", "multiply", "maximum", "minimum"])

    def helpers_of(self, text: str) -> tuple[str, ...]:
        return ()


PROFILE = Profile(
    RELAY,
    FORMS,
    {"f": ("float32",), "b": ("bool",), "i": ("int32",)},
    letters="f",
    dims=(2, 3),
    more_dims=(1, 2, 3),
    # Relay prints six digits of a scalar: a value that survives that is computed with exactly.
    values={"f": [number / 512 for number in range(-511, 512, 2)], "b": (0, 1), "i": range(-3, 4)},
    weights={
        **dict.fromkeys(
            ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "floor", "copy", "sign"],
            0.3,
        ),
        **dict.fromkeys(("let", "if", "function", "tuple"), 3),
    },
    most_params=12,
    inexact=True,
)


@functools.lru_cache(maxsize=1024)
def write(seed: int) -> Program:
    """Return the program of a seed."""
    chance = seeded("relay", seed)
    writer = RelayTextWriter(PROFILE, chance, {}, "inexact")
    for _ in range(chance.randint(2, 16)):
        writer.statement()
    return replace(writer.steps(), fused=True).program("relay", seed, Rules(rtol=1e-4))


def write_module(seed: int) -> Module:
    """Return the program of a seed as a module without types."""
    steps = write(seed).steps
    assert steps is not None
    return erase_types(module_of(steps))


def arguments_of(seed: int) -> tuple[np.ndarray, ...]:
    """Return the arguments of ``@main`` of a seed's program."""
    steps = write(seed).steps
    assert steps is not None
    return steps.given(0)


FAMILY = Family("relay", write, ("reference", "graph"))
