"""What holds a row back that misses its goal: what the profile says, and what was tried."""

from __future__ import annotations

from fnmatch import fnmatchcase

#: (pattern of row names, threads or None for any, what holds it back); the first that fits counts.
NOTES: tuple[tuple[str, int | None, str], ...] = (
    (
        "foo*",
        None,
        "level with numba within the spread: of 0.8 us most is the call and NumPy's allocation of the"
        " result; no virtual machine is left, the entry reads NumPy's array objects itself",
    ),
    (
        "chain of 5*",
        None,
        "bound by memory: 12 MB move in 118 us, 100 GB/s; what numba does differently, with its "
        "freedom to fuse products and sums, was not found",
    ),
    (
        "gelu*",
        None,
        "bound by arithmetic: the loop has 89 vector instructions, most of them two polynomials of "
        "erf of which each element uses one; a shorter erf was not found within the stated error",
    ),
    (
        "softmax*",
        None,
        "bound by arithmetic: exp, whose argument is known not to be above 0 (it was 0.83x before "
        "that), then memory; rows are fetched ahead",
    ),
    (
        "layer_norm*",
        None,
        "the row is read three times, from the first cache but for the first, fetched ahead; LLVM "
        "unrolls these loops and keeps the row's vectors on the stack in between (see variance)",
    ),
    (
        "row sums*",
        None,
        "bound by memory, 4 MB in 38 to 41 us, level with torch and numba within the spread on one thread",
    ),
    (
        "variance*",
        None,
        "two passes over a row, the second in the first cache (they were two kernels: 75 us, now 56)."
        " LLVM unrolls both loops and keeps the row's vectors on the stack in between; without "
        "unrolling it was slower, 61 to 71 us",
    ),
    (
        "argmax*",
        None,
        "of 61 us 44 are what a maximum of rows takes; the rest is the search at the end of each row,"
        " folds of vectors that wait for one another. An index for each element was slower (104 us), "
        "groups of eight vectors, too (71)",
    ),
    (
        "compile foo",
        None,
        "of 43 ms LLVM has 28, 13 to optimise and 15 for the object file, TVM's passes 12. Code in "
        "memory only instead of an object file was no faster, 45 ms; LLVM's optimisation level makes "
        "no difference that shows",
    ),
    (
        "compile 100 *",
        None,
        "of 0.7 s of work LLVM has 0.33, beside the rest; schedules, Relax and TVM's passes 0.37, on "
        "one core. Levels 1 and 2 of LLVM's optimiser saved 5% and were left",
    ),
    (
        "compile 1000*",
        None,
        "as of 100: kernels get their loops part by part while LLVM compiles those before; of 5.5 s "
        "of work 3.3 s are Python's, on one core. 4.0 s within the spread",
    ),
)


def note_of(name: str, threads: int) -> str | None:
    """The note of a row."""
    for pattern, count, note in NOTES:
        if count in (None, threads) and fnmatchcase(name, pattern):
            return note
    return None
