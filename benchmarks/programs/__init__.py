"""Whole programs as people write them in notebooks, a file for each kind.

A program is a class. Its docstring says what it computes. ``types`` are the parameters of the cell, of f64
where numbers are real; ``sizes`` are two, of a call of some 10 us and of one of some milliseconds; ``draw``
takes NumPy's generator and a size and returns the arguments by name. The spellings are functions of the same
parameters: ``arrays`` as one writes for NumPy, ``loops`` over single elements as for numba, and ``mixed``,
which has loops over rows, blocks or steps around expressions of arrays. ``helpers`` are functions of the
module that they call. ``jax`` takes the package and the parameters. ``tolerance`` is the largest error,
relative to the largest magnitude of the results; ``single`` is False where float32 computes something else.
"""
