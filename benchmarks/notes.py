"""What holds a row back that misses its goal: what the profile says, and what was tried."""

from __future__ import annotations

from fnmatch import fnmatchcase

#: (pattern of row names, threads or None for any, what holds it back); the first that fits counts.
NOTES: tuple[tuple[str, int | None, str], ...] = (
    (
        "foo*",
        None,
        "level with numba within the spread: of 0.8 us most is the call and NumPy's allocation of the "
        "result; no virtual machine is left, the entry reads NumPy's array objects itself",
    ),
    (
        "chain of 5*",
        None,
        "bound by memory: 12 MB move in 118 us, 100 GB/s; what numba does differently, with its freedom "
        "to fuse products and sums, was not found",
    ),
    (
        "gelu*",
        None,
        "bound by arithmetic: the loop has 89 vector instructions, most of them two polynomials of erf "
        "of which each element uses one; a shorter erf was not found within the stated error",
    ),
    (
        "softmax*",
        None,
        "bound by arithmetic: exp serves all arguments, also those above 88 and with denormal results; "
        "here none is above 0, and an exp that knows it is not written yet",
    ),
    (
        "layer_norm*",
        None,
        "the row is read three times, from the first cache but for the first; LLVM unrolls these loops "
        "and keeps the row's vectors on the stack in between (see variance)",
    ),
    (
        "row sums*",
        None,
        "bound by memory, 4 MB in 38 to 41 us, level with torch and numba within the spread on one thread",
    ),
    (
        "variance*",
        None,
        "two passes over a row, the second in the first cache (they were two kernels: 75 us, now 56). "
        "LLVM unrolls both loops and keeps the row's vectors on the stack in between; without unrolling "
        "it was slower, 61 to 71 us",
    ),
    (
        "argmax*",
        None,
        "of 66 us 44 are what a maximum of rows takes; the rest is the search at the end of each row, "
        "folds of vectors that wait for one another. An index for each element was slower (104 us), "
        "groups of eight vectors, too (70)",
    ),
    (
        "compile foo",
        None,
        "of 43 ms LLVM has 28, 13 to optimise and 15 for the object file, TVM's passes 12. Code in "
        "memory only instead of an object file was no faster, 45 ms; LLVM's optimisation level makes no "
        "difference that shows",
    ),
    (
        "compile 100*",
        None,
        "about a third each, all linear in the number of kernels: LLVM, on another core than the rest; "
        "TVM's passes; schedules and Relax. Levels 1 and 2 of LLVM's optimiser saved 5% and were left",
    ),
    (
        "compile 1000*",
        None,
        "as of 100; 3 s of schedules, Relax and TVM's passes are Python and C++ on one core, with LLVM "
        "beside them only after the schedules",
    ),
)


def note_of(name: str, threads: int) -> str | None:
    """The note of a row."""
    for pattern, count, note in NOTES:
        if count in (None, threads) and fnmatchcase(name, pattern):
            return note
    return None
