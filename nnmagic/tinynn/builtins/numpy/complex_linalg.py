"""Solve complex linear systems as real ones of twice the size.

The matrix ``[[Re A, -Im A], [Im A, Re A]]`` multiplies ``[Re x, Im x]`` to ``[Re Ax, Im Ax]``; its singular
values are those of A, each twice, so that no digits are lost.
"""

from __future__ import annotations

from collections.abc import Callable

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
    rows = sides.rank - 2
    re, im = real_part(sides), imaginary_part(sides)
    solution = solve(embed(call, matrix), concatenate(call, [re, im], rows))
    return make_complex(*_halves(solution, rows, re))


def invert_embedded(call: Arguments, matrix: Formula, invert: Callable[[Formula], Formula]) -> Formula:
    """Invert a complex matrix with a function that inverts real ones."""
    last, like = matrix.rank - 1, real_part(matrix)
    columns, _ = _halves(invert(embed(call, matrix)), last, like)
    return make_complex(*_halves(columns, last - 1, like))


def _halves(both: Formula, axis: int, like: Formula) -> tuple[Formula, Formula]:
    """Return the halves of an axis, each as long as that of ``like``."""
    size = like.shape[axis]
    if isinstance(size, int):
        return static_slice(both, axis, 0, int(size)), static_slice(both, axis, int(size), 2 * int(size))

    def first(data: Formula) -> Formula:
        return data.op("slice_like", like, axes=[axis])

    return first(both), first(both.op("reverse", axis=axis)).op("reverse", axis=axis)
