"""The programs of ``benchmarks.programs``: each spelling at two sizes beside NumPy, numba and jax."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks import peers, programs
from benchmarks.case import BEST, Case, Compilation, Growth, Ratio, Row, Within

SPELLINGS = ("arrays", "loops", "mixed")

#: Of each row; over all of them the goal is a geometric mean of 1.5.
_OF_PEERS = Ratio(BEST, 0.9)

#: How much longer a spelling may take than another one of the same program.
_OF_SPELLINGS = 1.2

#: How long a compilation may take, in seconds.
_COMPILATION = Within(1.5)


def all_programs() -> Iterator[type]:
    """Yield the programs, in the order of their names."""
    for module in sorted(found.name for found in pkgutil.iter_modules(programs.__path__)):
        members = vars(importlib.import_module(f"benchmarks.programs.{module}")).values()
        yield from (member for member in members if isinstance(member, type) and hasattr(member, "types"))


def cell(program: Any, spelling: str, dtype: str = "f64") -> str:
    """Return the cell of a spelling: its helpers, and its body with types."""
    lines = textwrap.dedent(inspect.getsource(getattr(program, spelling))).partition(":\n")[2]
    helpers = "".join(f"{inspect.getsource(helper)}\n" for helper in getattr(program, "helpers", ()))
    return f"{helpers}def {program.__name__}({program.types}):\n{lines}".replace("f64", dtype)


def _draw(program: Any, size: int, dtype: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    drawn = {name: np.asarray(value) for name, value in program.draw(rng, size).items()}
    return {name: value.astype(dtype) if value.dtype == "float64" else value for name, value in drawn.items()}


def _spellings(program: Any) -> list[str]:
    return [spelling for spelling in SPELLINGS if hasattr(program, spelling)]


def _label(program: Any, spelling: str, size: int, dtype: str) -> str:
    return f"{program.__name__.replace('_', ' ')} of {size} in {dtype}: {spelling}"


def rows_of(program: Any) -> Iterator[Row]:
    """Yield the rows of a program."""
    spellings = _spellings(program)
    dtypes = ("f64", "f32") if "f64" in program.types and getattr(program, "single", True) else ("f64",)
    for dtype in dtypes:
        for size in program.sizes:
            for spelling in spellings:
                others = (other for other in spellings if other != spelling)
                alike = (Growth(_label(program, other, size, dtype), _OF_SPELLINGS) for other in others)
                yield _row(program, spelling, size, dtype, (_OF_PEERS, *alike))
    yield from (_compilation(program, spelling) for spelling in spellings)


def _row(program: Any, spelling: str, size: int, dtype: str, goals: tuple[Any, ...]) -> Case:
    precise = getattr(program, "tolerance", 1e-9)
    return Case(
        _label(program, spelling, size, dtype),
        "programs",
        goals,
        partial(_draw, program, size, "float64" if dtype == "f64" else "float32"),
        cell(program, spelling, dtype),
        program.arrays,
        numba=getattr(program, spelling),
        jax=getattr(program, "jax", None),
        tolerance=precise if dtype == "f64" else max(precise, 1e-3),
        optional=dtype == "f32",
    )


def _compilation(program: Any, spelling: str) -> Compilation:
    """Return the row of how long a spelling takes from its source to its first result."""
    draw = partial(_draw, program, program.sizes[0], "float64")

    def arguments() -> list[Any]:
        return peers.numbers_of(draw(np.random.default_rng(0)).values())

    def ours() -> Callable[[], Any]:
        return peers.compilation(cell(program, spelling), arguments(), peers.SCOPE)

    def by_numba() -> Callable[[], Any]:
        given = arguments()
        return lambda: peers.joined(peers.jitted(getattr(program, spelling))(*given))

    return Compilation(
        f"compile {program.__name__.replace('_', ' ')}: {spelling}",
        "compiling programs",
        (_COMPILATION, Ratio("numba", 1.0)),
        {"nnmagic": ours, "numba": by_numba},
        lambda: peers.joined(program.arrays(*arguments())),
        tolerance=getattr(program, "tolerance", 1e-9),
    )


ROWS = tuple(row for program in all_programs() for row in rows_of(program))
