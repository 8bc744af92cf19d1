"""Solve complex linear systems as real ones of twice the size.

The matrix ``[[Re A, -Im A], [Im A, Re A]]`` multiplies ``[Re x, Im x]`` to ``[Re Ax, Im Ax]``; its singular
values are those of A, each twice, so that no digits are lost.
"""

from __future__ import annotations

from collections.abc import Callable

from nnmagic.tinynn.builtins.argument_checks import static_size
from nnmagic.tinynn.builtins.numpy.complex_numbers import imaginary_part, make_complex, real_part
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import concatenate, static_slice
from nnmagic.tinynn.calls.argument_binding import Arguments


def embed(call: Arguments, matrix: Formula) -> Formula:
    """Return the real matrix of twice the size that stands for a complex one."""
    re, im = real_part(matrix), imaginary_part(matrix)
    last = matrix.rank - 1
    upper = concatenate(call, [re, -im], last)
    return concatenate(call, [upper, concatenate(call, [im, re], last)], last - 1)


def solve_embedded(
    call: Arguments, matrix: Formula, sides: Formula, solve: Callable[[Formula, Formula], Formula]
) -> Formula:
    """Solve a complex system for the columns of ``sides`` with a solver of real ones."""
    size = static_size(call, matrix.shape[-1], call.given["a"].span, "the size of a complex matrix")
    rows = sides.rank - 2
    both = concatenate(call, [real_part(sides), imaginary_part(sides)], rows)
    solution = solve(embed(call, matrix), both)
    re, im = (static_slice(solution, rows, begin, begin + size) for begin in (0, size))
    return make_complex(re, im)


def invert_embedded(call: Arguments, matrix: Formula, invert: Callable[[Formula], Formula]) -> Formula:
    """Invert a complex matrix with a function that inverts real ones."""
    size = static_size(call, matrix.shape[-1], call.given["a"].span, "the size of a complex matrix")
    last = matrix.rank - 1
    columns = static_slice(invert(embed(call, matrix)), last, 0, size)
    re, im = (static_slice(columns, last - 1, begin, begin + size) for begin in (0, size))
    return make_complex(re, im)
