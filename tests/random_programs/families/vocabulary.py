"""Cells over the whole vocabulary: every statement gives, for its operands, what NumPy gives for them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import replace

import ml_dtypes
import numpy as np

from tests.random_programs.environment import WRITTEN, Value
from tests.random_programs.families.forms import FUNCTIONS, NEURAL, SYNTAX
from tests.random_programs.families.helpers import HELPERS, python_functions
from tests.random_programs.families.special_forms import DERIVATIVES, FOURIER, HELPED, LINALG
from tests.random_programs.program import Family, Program, Rules, seeded
from tests.random_programs.step_writer import Profile, StepWriter
from tests.random_programs.steps import Language, Steps
from tests.random_programs.writer import Grammar, words
from tests.tinynn.python_twin import plain
from tests.tinynn.python_twin.names import NAMES
from tests.tinynn.python_twin.tensor import DTYPES, Dtype, lift, lift_results

_CALLS = 4
_COMPLEX = {"c64": Dtype(np.complex64), "c128": Dtype(np.complex128)}
#: Names of the cell that the twin lacks, or that it gives Relay's parameters.
_NAMES = {
    **NAMES,
    **_COMPLEX,
    **{name: lift_results(getattr(np.linalg, name)) for name in LINALG},
    **{name: lift_results(getattr(np.fft, name)) for name in FOURIER},
    "sliding_window_view": lift_results(np.lib.stride_tricks.sliding_window_view),
    **{name: lift_results(function) for name, function in python_functions().items()},
    "pad": lift_results(np.pad),
    "sign": lift_results(lambda x: np.sign(x) + np.zeros((), np.asarray(x).dtype)),  # of bf16 it may be -0
}
_NAMES["__builtins__"] = {**NAMES["__builtins__"], "slice": slice, "Ellipsis": ...}  # type: ignore[dict-item]
_HELPER = re.compile(r"\b_h_\w+")


def run(text: str, values: Mapping[str, object]) -> object:
    """Evaluate an expression of a cell, or lines that assign ``RESULT``, by Python over NumPy."""
    names = {**_NAMES, **{name: lift(value) for name, value in values.items()}}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "\n" not in text:
            return plain(eval(text, names))
        exec(text, names)
        return plain(names["RESULT"])


def helpers_of(text: str) -> tuple[str, ...]:
    """Return the functions that an expression calls, after those that they need."""
    found: dict[str, None] = {}

    def find(text: str) -> None:
        for name in _HELPER.findall(text):
            if name not in found:
                find(HELPERS[name].source.replace(name, ""))
                found[name] = None

    find(text)
    return tuple(found)


def annotate(value: Value) -> str:
    """Return a parameter with as much of its type as is written."""
    dims = ", ".join(f'"{dim}"' if isinstance(dim, str) else str(dim) for dim in value.dims)
    shape = f"({dims},)" if value.rank == 1 else f"({dims})"
    return value.name + WRITTEN[value.written].format(shape=shape, dtype=value.kind)


def _source(steps: Steps) -> str:
    """Return the cell's text: the functions that it needs, and the one that is judged."""
    results = ", ".join(statement.name for statement in steps.returned)
    lines = [f"def f({', '.join(map(annotate, steps.params))}):"]
    for statement in steps.statements:
        if "\n" in statement.text:
            lines += [f"    {line}" for line in statement.text.replace("RESULT", statement.name).split("\n")]
        else:
            lines.append(f"    {statement.name} = {statement.text}")
    helpers = "".join(HELPERS[name].source for name in steps.helpers)
    return helpers + "\n".join([*lines, f"    return ({results},)", ""])


def _tuple(numbers) -> str:
    return str(tuple(numbers))


CELL = Language(
    param=lambda number: f"v{number}",
    result=lambda number: f"v{number}",
    dtypes={name: kind.dtype for name, kind in {**DTYPES, **_COMPLEX}.items()},
    run=run,
    source=_source,
    list=_tuple,
    item=lambda name, index: f"{name}[{index}]",
)
_KINDS = {
    "b": ("bool_",),
    "i": ("i8", "i16", "i32", "i64", "i64"),
    "u": ("u8", "u16", "u32", "u64"),
    "f": ("f16", "f16", "bf16", "f32", "f32", "f32", "f64", "f64"),
    "c": ("c64", "c128"),
}
PROFILE = Profile(
    CELL,
    forms={**FUNCTIONS, **SYNTAX, **HELPED},
    kinds=_KINDS,
    letters="biiuuffffc",
    dims=(1, 2, 3),
    more_dims=(0, 1, 2, 3, 4, 17, 33),
    values={
        "b": (0, 1),
        "i": (-3, -2, -1, 0, 0, 1, 2, 3),
        "u": (0, 0, 1, 2, 3, 4),
        "f": (-3.0, -2.0, -1.5, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0),
        "c": (-2.0, -1.5, -1.0, 0.0, 0.5, 1.0, 2.0),
    },
    grammar=Grammar(
        {
            "count": words("0 1 1 2 2 3"),
            "pieces": "<1..3>",
            "k": "<-2..3>",
            "step": words("-2 -1 1 2 3"),
            "number_dtype": words(" ".join([*_KINDS["i"], *_KINDS["u"], *_KINDS["f"]])),
            "float_dtype": words(" ".join(_KINDS["f"])),
            "indices": "0\n-1\n[0]\n[0, -1]\n[1, 0, 1]\n[[0, 0], [0, -1]]",
        }
    ),
)


class VocabularyWriter(StepWriter):
    """Knows for which operands NumPy is no judge."""

    def is_usable(self, function: str) -> bool:
        dtypes = [each.dtype for each in self.operands]
        wide = function.startswith("nan") or function in {*NEURAL, "searchsorted", "digitize", "sort"}
        if wide and ml_dtypes.bfloat16 in dtypes:
            return False  # NumPy looks for no NaN in bfloat16, and the twin's functions take none
        if self.special and (function in LINALG | DERIVATIVES or "grad" in function):
            return False  # NumPy's LAPACK does not always return from infinities and NaN
        # NumPy rounds the factor of the inverse to f16
        return not (function in FOURIER and np.dtype(np.float16) in dtypes)

    def helpers_of(self, text: str) -> tuple[str, ...]:
        return helpers_of(text)

    def hole_wider(self, _argument: str) -> str:
        kinds = {"b": "i64 f32 i32", "i": "i64 f64", "u": "u64 f32", "f": "f64 f32", "c": "c128"}
        kind = "f" if self.x.dtype == ml_dtypes.bfloat16 else self.x.dtype.kind
        return self.random.choice(kinds[kind].split())


def writer(seed: int) -> VocabularyWriter:
    """Return the writer of a seed, which has written nothing yet."""
    chance = seeded("vocabulary", seed)
    sizes: dict[str, tuple[int, ...]] = {}
    for name in "nmk":
        while name not in sizes:
            drawn = chance.sample([0, 1, 2, 3], _CALLS)
            if chance.random() < 0.3:
                drawn[chance.randrange(_CALLS)] = chance.choice([17, 33])
            if tuple(drawn) not in sizes.values():
                sizes[name] = tuple(drawn)
    made = VocabularyWriter(PROFILE, chance, sizes, named=chance.choice([0.0, 0.6, 0.6, 1.0]), calls=_CALLS)
    made.special = made.chance(0.15)
    return made


def write(seed: int) -> Program:
    """Return the program of a seed."""
    made = writer(seed)
    for _ in range(made.random.randint(3, 8)):
        made.statement()
        if made.statements and made.statements[-1].always_raises:
            break
    steps = made.steps()
    if made.chance(0.1):
        ways = [made.random.choice(list(WRITTEN)) for _ in steps.params]
        params = tuple(replace(param, written=way) for param, way in zip(steps.params, ways, strict=True))
        steps = replace(steps, params=params)
    return steps.program("vocabulary", seed, RULES)


RULES = Rules(errors=(ValueError, IndexError, ZeroDivisionError))
FAMILY = Family("vocabulary", write, ("steps",))
