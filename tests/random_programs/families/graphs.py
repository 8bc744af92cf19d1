"""Relay programs of tensors that the compiler fuses, schedules and plans memory for.

A program with ``exact`` numbers has those that every order of operations computes alike: small integers, with
many ties. One with ``special`` numbers moves and compares NaN, infinities, zeros and denormal numbers. One
with ``smooth`` numbers has functions of vector mathematics and is judged with a tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tests.engine.relax.codegen.targets import OLDER
from tests.random_programs.families.special_forms import each_of
from tests.random_programs.program import Family, Program, Rules, seeded
from tests.random_programs.relay_text import RELAY
from tests.random_programs.relay_writer import RelayWriter
from tests.random_programs.step_writer import Profile

_SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 128, 130, 1000, 1030)
_TARGETS = (None, None, OLDER)
_LEVELS = (3, 3, 3, 2, 1, 0)

_MOVES = {
    "transpose": ("transpose(<x: 2-5>, axes=<permutation>)", "transpose(<x: 2-5>, axes=None)"),
    "reshape": ("reshape(<x>, newshape=<reshape>)",),
    "expand_dims": ("expand_dims(<x>, axis=<new_axis>, num_newaxis=<1..2>)",),
    "squeeze": ("squeeze(<x>, axis=<singles>)",),
    "strided_slice": ("strided_slice(<x: 1-5>, <slice>)",),
    "stack": (
        "stack((<x>, <same>), axis=<new_axis>)",
        "stack((<x>, <same>, <same>), axis=<new_axis>)",
    ),
    "concatenate": (
        "concatenate((<x: 1-5>, <x>), axis=<axis>)",
        "concatenate((<x: 1-5>, <same>, <another>), axis=<axis>)",
        "concatenate((<x: 1-5>, <joinable>), axis=<last_axis>)",
    ),
    "split": ("split(<x: 1-5>, <sections>)",) * 2,
    "tile": ("tile(<x>, reps=<reps>)",),
    "repeat": ("repeat(<x: 1-5>, repeats=<1..3>, axis=<axis>)",),
    "reverse": ("reverse(<x: 1-5>, axis=<axis>)",),
    "nn.pad": (
        "nn.pad(<x:iuf 1-5>, <number>, pad_width=<widths>)",
        'nn.pad(<x:iuf 1-5>, <scalar 0>, pad_width=<widths reflect>, pad_mode="<edge|reflect>")',
    ),
    "take": ("take(<x: 1-5>, <taken>)",),
    "gather": ("gather(<x: 1-5>, <gathered>)",),
    "one_hot": ("one_hot(<x:int32 0-3>, <hot>)", "one_hot(<x:int64 0-3>, <hot>)"),
    "scatter": ("scatter_elements(<x:iuf 1-5>, <scattered>)",),
    "nn.batch_flatten": ("nn.batch_flatten(<x: 1-5>)",),
    "layout_transform": (
        'layout_transform(<x: 4>, src_layout="NCHW", dst_layout="<NHWC|NWHC>")',
        'layout_transform(<x: 4>, src_layout="NCHW", dst_layout=<blocks>)',
    ),
    "broadcast_to": ("broadcast_to(<x>, shape=<broader>)",),
    "trilu": ("trilu(<x: 2-5>, <triangle>, upper=<flag>)",),
}
_COMMON = {
    **each_of("maximum minimum", "NAME(<x:iuf>, <y>)", "NAME(<y>, <x:iuf>)"),
    **each_of("abs copy", "NAME(<x:iuf>)"),
    **each_of("nn.relu floor ceil trunc", "NAME(<x:f>)"),
    "negative": ("negative(<x:if>)",),
    "where": ("where(<mask>, <x>, <y>)", "where(<mask>, <y>, <x>)", "where(<mask>, <x>, <another>)"),
    "logical_not": ("logical_not(<x:b>)",),
    **each_of("logical_and logical_or logical_xor", "NAME(<x:b>, <y>)"),
    "cast": ("cast(<x>, dtype=<cast>)",),
    **each_of("max min", "NAME(<x>, <reduction>)"),
    **each_of("all any", "NAME(<x:b>, <reduction>)"),
    **each_of("argmax argmin", "NAME(<x: 1-5>, <reduction>, select_last_index=<flag>)"),
    "sort": ("sort(<x: 1-5>, axis=<axis>, is_ascend=<flag>)",),
    "argsort": ('argsort(<x: 1-5>, axis=<axis>, is_ascend=<flag>, dtype="int32")',),
    "topk": (
        'topk(<x: 1-5>, k=<0..5>, axis=<axis>, is_ascend=<flag>, ret_type="both", dtype="int32")',
        'topk(<x: 1-5>, k=<0..5>, axis=<axis>, is_ascend=<flag>, ret_type="<values|indices>", dtype="int32")',
    ),
    "pool": ("<pool>",),
    **_MOVES,
}
_COMPARE = "less less_equal greater greater_equal equal not_equal"
_ARITHMETIC = each_of("add subtract multiply", "NAME(<x:iuf>, <y>)", "NAME(<y>, <x:iuf>)")
FORMS = {
    "exact": {
        **_COMMON,
        **_ARITHMETIC,
        **each_of("round sign", "NAME(<x:f>)"),
        "nn.leaky_relu": ("nn.leaky_relu(<x:f>, alpha=0.5f)",),
        **each_of(
            "floor_divide floor_mod",
            "NAME(<x:iuf>, maximum(abs(<y>), <scalar 1>))",
            "NAME(<x:if>, negative(maximum(abs(<y>), <scalar 1>)))",
        ),
        **each_of(
            "trunc_divide trunc_mod divide mod",
            "NAME(<x:iu>, maximum(abs(<y>), <scalar 1>))",
            "NAME(<x:i>, negative(maximum(abs(<y>), <scalar 1>)))",
        ),
        "clip": ("clip(<x:if>, a_min=<-4..1>f, a_max=<2..7>f)", "clip(<x:u>, a_min=0f, a_max=<0..6>f)"),
        **each_of(_COMPARE, "NAME(<x:iuf>, <y>)"),
        **each_of("bitwise_and bitwise_or bitwise_xor", "NAME(<x:iu>, <y>)"),
        **each_of("sum prod", "NAME(<x:iuf>, <reduction>)"),
        **each_of(
            "cumsum cumprod",
            "NAME(<x:iuf 1-5>, axis=<axis>, exclusive=<flag>)",
            "NAME(<x:iuf 1-5>, axis=None)",
        ),
        "product": ("<pick:if 2-3><product>",),
        "attend": ("<attend>",),
        "convolve": ("<convolve>",),
        "convolve_transpose": ("<convolve_transpose>",),
    },
    "special": {
        **_COMMON,
        **each_of(
            _COMPARE, "NAME(<x:iuf>, <another>)"
        ),  # TVM takes what is compared with itself for a number
        **each_of("isnan isinf isfinite", "NAME(<x:f>)"),
    },
    "smooth": {
        **{
            name: forms
            for name, forms in _COMMON.items()
            if name in _MOVES or name in ("abs", "nn.relu", "pool")
        },
        **_ARITHMETIC,
        **each_of("maximum minimum", "NAME(<x:f>, <y>)"),
        **each_of("exp tanh sigmoid erf sin", "NAME(<x:f>)"),
        **each_of("sqrt rsqrt log", "NAME(add(abs(<x:f>), <scalar 1>))"),
        "gelu": (
            "multiply(multiply(<x:f>, <scalar 0.5>), add(erf(multiply(<x>, <scalar 0.75>)), <scalar 1>))",
        ),
        **each_of("nn.softmax nn.log_softmax", "NAME(<x:f 1-5>, axis=<axis>)"),
        "nn.layer_norm": ("nn.layer_norm(<x:f 1-5>, <stat new>, <stat>, axis=<last_axis>, epsilon=0.5f)",),
        "nn.batch_norm": (
            "nn.batch_norm(<x:f 2-5>, <another 1>, <another 1>, <another 1>, abs(<another 1>), axis=1, "
            "epsilon=0.5f)",
        ),
        "mean": ("mean(<x:f>, <reduction>)",),
        "variance": ("variance(<x:f>, mean(<x>, <reduction kept>), <reduction again>, unbiased=False)",),
        "sum": ("sum(<x:f>, <reduction>)",),
        "product": ("<pick:f 2-3><product>",),
        "attend": ("<attend>",),
        "convolve": ("<convolve>",),
    },
}
_WEIGHTS = {
    **dict.fromkeys(("floor_divide", "floor_mod", "trunc_divide", "trunc_mod", "divide", "mod"), 0.3),
    **dict.fromkeys(
        (*_COMPARE.split(), "isnan", "isinf", "isfinite", "abs", "copy", "floor", "ceil", "trunc"), 0.4
    ),
    **dict.fromkeys(("round", "sign", "nn.relu", "negative", "nn.leaky_relu"), 0.4),
    **dict.fromkeys(("argmax", "argmin", "sum", "where", "product", "convolve", "nn.softmax"), 2),
    **dict.fromkeys(_MOVES, 0.5),
}

_KINDS = {
    "b": ("bool",),
    "i": ("int32", "int64", "int8"),
    "u": ("uint8",),
    "f": ("float32",) * 5 + ("float64",),
}
_TIES = (*range(-4, 5), *(-1, 0, 1) * 3)
_VALUES = {
    "exact": _TIES,
    "special": (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 1.0, -1.0, 3e38, -3e38, 2.5, 1e-38),
    "smooth": tuple(number / 64 for number in range(-128, 129)),
}


def profile(numbers: str, dims: Sequence[int]) -> Profile:
    """Return what programs with such numbers, of some dimensions, are made of."""
    return Profile(
        RELAY,
        FORMS[numbers],
        _KINDS,
        letters="ff" if numbers == "smooth" else "fffffiiub",
        dims=dims,
        more_dims=(*dims, 1),
        values={"f": _VALUES[numbers], "i": _TIES, "u": range(5), "b": (0, 1)},
        weights=_WEIGHTS,
        most_params=16,
        reuse=0.9,
        inexact=numbers != "exact",
    )


def write(seed: int) -> Program:
    """Return the program of a seed."""
    chance = seeded("graphs", seed)
    numbers = chance.choice(("exact", "exact", "exact", "special", "smooth"))
    some = _SIZES if chance.random() < 0.7 else [size for size in _SIZES if 2 <= size <= 33]
    dims = [chance.choice(some) for _ in range(chance.randint(1, 4))]
    sizes = {}
    if chance.random() < 0.25:
        sizes = {
            f"n{number}": (dim, *chance.choices(_SIZES[:-4], k=3)) for number, dim in enumerate(dims[:3])
        }
    named, calls = (0.6, 4) if sizes else (0.0, 1)
    writer = RelayWriter(profile(numbers, dims), chance, sizes, numbers, named=named, calls=calls)
    for _ in range(chance.randint(2, 12)):
        writer.statement()
    steps = writer.steps(target=chance.choice(_TARGETS), opt_level=chance.choice(_LEVELS))
    rules = Rules(rtol=2e-4 if numbers == "smooth" else 0.0)
    return replace(steps, fused=chance.random() < 0.7).program("graphs", seed, rules)


FAMILY = Family("graphs", write, ("graph",))
