"""Explain the rows that miss a goal: what the profile says, and what was tried."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase


def _of_calls(names: str, note: str, sizes: str = "*512x512*") -> Iterator[tuple[str, int | None, str]]:
    """Yield the same note for the rows of several functions of the vocabulary."""
    for name in names.split():
        yield f"{name}, {sizes}", None, note


#: (pattern of row names, threads or None for any, what holds it back); the first that fits counts.
NOTES: tuple[tuple[str, int | None, str], ...] = (
    (
        "mlp, training",
        1,
        "the products take 0.87 of 1.06 ms, at 135 to 154 GFLOP/s where the best sgemm has 151; at its speed "
        "they alone take 0.86, and the goal is 0.99. It was 1.54 ms before products went by blocks",
    ),
    (
        "mlp with adam, training",
        1,
        "the products of the row without it, whose epilogues read four arrays of 235,000 numbers and write "
        "three. Another order of tiles, in which rows are written as a whole, made no difference",
    ),
    (
        "resnet-18 3x64x64, training",
        1,
        "a seventh of the time are convolutions of 512 channels with 2x2 results, of whose nine products "
        "five are with padding's zeros; a ninth reverses, transposes and blocks weights for the backward "
        "pass, and a fifteenth updates them: both move 9 MB for each of the last layers. 171 ms before "
        "products went by blocks",
    ),
    (
        "compile resnet-18, training",
        None,
        "256 kernels take 12 s of processor time: 1 for types and passes, 5 for lowering and schedules, 7 of "
        "LLVM on other threads, of which 1.6 compile the entry, which checks 200 arrays and calls the "
        "kernels, and 1 the backward pass of max pooling",
    ),
    (
        "compile lstm, training",
        None,
        "more than half of the processor time is LLVM's, on other threads; a third lowers and schedules",
    ),
    *_of_calls(
        "power pow float_power",
        "of 440 us in float32 270 are polynomials in float64, one vector of eight lanes a cycle, 85 a "
        "division and its correction, 80 the special cases. Only logarithms of two floats would be "
        "quicker; polynomials in float32 behind the first terms were estimated at 0.55x",
    ),
    *_of_calls(
        "log2 log10",
        "34 instructions a vector, of which 18 (products and comparisons) share two ports: 17 to 20 "
        "cycles. NumPy's 11 are by instructions for exponents and tables in registers, which TIR's "
        "expressions of single elements cannot name",
    ),
    *_of_calls(
        "arcsinh asinh arccosh acosh arctanh atanh log1p",
        "bound by arithmetic: a logarithm of a sum and of what its rounding lost, with a division or a "
        "root; NumPy's bound is 4 units in the last place, ours 3",
    ),
    ("tan, *512x512*", None, "bound by arithmetic: sine and cosine, and a division"),
    (
        "cbrt, *512x512*",
        None,
        "bound by arithmetic, 32 operators of Relay. It was 190 us before its first step became a polynomial "
        "without subtractions",
    ),
    (
        "take_along_axis, *512x512*",
        None,
        "of 190 us the gather takes 115, an element at a time; wrapping negative indices takes 48 and the "
        "check of all of them 24, in kernels of their own because both are needed twice. It was 440 us as "
        "long as an array was indexed to check them",
    ),
    ("count_nonzero, 512x512, named", None, "counts in int64, as the size is not known; int32 takes half"),
    (
        "unique*, *512x512*",
        None,
        "the sort takes 1.2 of 1.4 ms (it was an argsort: 1.9 in all). NumPy's is x86-simd-sort, which packs "
        "lanes by instructions that TIR cannot name",
    ),
    (
        "bincount, *512x512*",
        None,
        "of 230 us 112 are the additions, one an element through memory; the check of the range, the largest "
        "element and the copies of the elements are passes of their own, 13 to 37 us each",
    ),
    *_of_calls(
        "eigh eigvalsh qr svd svdvals pinv cond matrix_rank inv slogdet det solve cholesky",
        "the routine of SciPy's LAPACK, over OpenBLAS, takes more than nine tenths of the time, as in "
        "NumPy; torch's is MKL's",
    ),
    *_of_calls(
        "iscomplex isreal",
        "NumPy's result is memory that the system has cleared; the kernel writes its zeros, in 5 us",
    ),
    (
        "block, 512x512, named",
        None,
        "the rows are joined first, then the block: 25 MB move where known sizes move 12",
    ),
    (
        "sliding_window_view, 512x512*",
        None,
        "bound by memory: 1 MB in and 1 MB out, level with torch within the spread",
    ),
    *_of_calls(
        "array_equal stack astype nanmin nanmax",
        "bound by memory: level within the spread, which is a tenth from run to run",
    ),
    (
        "lstsq, *512x512*",
        None,
        "QR and an estimate of the condition, in float64 as NumPy computes; torch computes in float32",
    ),
    *_of_calls(
        "union1d intersect1d setdiff1d setxor1d sort argpartition partition",
        "the sort takes most of the time, as in unique: NumPy packs lanes by instructions that TIR "
        "cannot name",
    ),
    *_of_calls(
        "exp exp2 log cos sin",
        "torch's is MKL's vector mathematics; level with NumPy or faster",
    ),
    (
        "program: sparse times vector",
        1,
        "ten elements a row, each of which waits for the sum before it; numba adds them in another order",
    ),
    *(
        (
            f"program: {name}",
            1,
            "bound by memory: each of two products reads a matrix of 2.4 or 2.9 MB in 19 to 25 us, 120 GB/s",
        )
        for name in ("atax", "mvt")
    ),
    (
        "program: durbin",
        1,
        "a dot product of at most 100 elements a round, which the next round waits for, and one update of as "
        "many; both begin anew each time, with a tail",
    ),
    (
        "program: shortest paths",
        1,
        "rows i and k may be the same one, so LLVM makes no vectors of the inner loop",
    ),
    *_of_calls(
        "matmul inner linear einsum tensordot multi_dot matrix_power dot bilinear",
        "torch multiplies by MKL, which is faster at 512 than OpenBLAS and we are, by up to a quarter",
    ),
    *_of_calls(
        "abs absolute negative sign square sqrt add subtract multiply divide true_divide minimum maximum "
        "fmin fmax floor ceil trunc fix rint around clip positive copy ascontiguousarray reshape ravel "
        "squeeze expand_dims atleast_1d atleast_2d atleast_3d broadcast_arrays flip flipud concatenate "
        "concat append vstack hstack column_stack zeros tile diff ediff1d equal not_equal less less_equal "
        "greater greater_equal left_shift invert right_shift bitwise_* signbit deg2rad rad2deg take "
        "batch_norm vecdot diag nan_to_num",
        "bound by memory: 2 to 6 MB a call, which no cache holds, at the rate of a copy; such rows move "
        "by a tenth to a quarter from run to run, and NumPy's and torch's beside them",
    ),
    (
        "logical_*, *512x512*",
        None,
        "bound by memory of the second cache: 262 kB, one byte an element",
    ),
    ("rot90, *512x512*", None, "bound by the transposition: squares of eight, read in reverse"),
    (
        "logaddexp2, *512x512*",
        None,
        "bound by arithmetic: an exponential, a logarithm, what its rounding lost, two divisions. It was 570 "
        "us where LLVM made the vectors of the chain, not the schedule",
    ),
    (
        "correlate, *512x512*",
        None,
        "a convolution of one channel, whose 16 blocked lanes hold one kernel of seven numbers; of a named "
        "size, with plain loops, it takes 0.9 us",
    ),
    (
        "remainder, *512x512*",
        None,
        "a division in float64 and its correction, two vectors for one of 64-bit integers",
    ),
    *_of_calls("max sum prod", "bound by memory: 2 MB a call, read once; level within the spread"),
    (
        "mlp*batch 1, n rows",
        None,
        "level within the spread since CPython calls it directly, 0.6 us less; what is left is the choice "
        "between versions in both products and the addresses of panels. Reading four panels of the packed "
        "weights at a time took 0.7 us off; two or one at a time were slower, 7.0 against 6.1 us for the "
        "first layer alone",
    ),
    (
        "dense+bias+relu 256x512x512",
        1,
        "the product alone takes 98% of the time, at 113 GFLOP/s where NumPy's has 95 to 103, and bias and "
        "relu are 6% of NumPy's",
    ),
    (
        "dense+bias+relu 16x*, n rows",
        None,
        "level within the spread since CPython calls it directly: it was 0.35 us more; what is left is the "
        "choice between versions",
    ),
    (
        "*1x1*, n rows",
        None,
        "level on one thread; with two, the tasks of a dynamic batch are not cut as evenly",
    ),
    (
        "depthwise*, n rows",
        None,
        "the three kernels (blocked, convolution, unblocked) take what those of known sizes take; the call "
        "takes up to 1 us more, which shows below 20 us. Looking up the number of threads once instead of at "
        "each call took 0.5 us off",
    ),
    (
        "*, n rows",
        None,
        "kernels alone are level within the spread; what is left is 1 to 13%: rows of known length are one "
        "loop over the whole array, those of a named count are loops with a tail, and indices have 64 bits",
    ),
    (
        "foo*",
        None,
        "level with numba within the spread: CPython calls the machine code directly, which takes about 0.1 "
        "us with the allocation of the result; the rest is the kernels",
    ),
    (
        "chain of 5*",
        None,
        "bound by memory: 12 MB move in 118 to 132 us, 90% of a copy; what numba does differently, with its "
        "freedom to fuse products and sums, was not found",
    ),
    (
        "exp 1024*",
        None,
        "bound by arithmetic, and by memory for half of the time. It was 0.94x onnxruntime before AVX-512's "
        "instruction for 2**n, which took a third of the time off",
    ),
    (
        "x.T + y 1024x1024",
        None,
        "squares of 16 by 16 are transposed in registers: each line is read once (608 us before). Rows of "
        "4096 bytes share a few sets of the cache: 1000x1000 elements take 0.35 to 0.45 of the time. To "
        "fetch one, two or four squares ahead made no difference; strips of 2 to 16 squares, panels of 4 to "
        "32, and blocks of 4x4 by way of a local array took from 0.8 to 1.6 times as long, depending on the "
        "pages that a run got, and 1000x1000 elements up to twice",
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
        "bound by memory, 4 MB in 38 to 43 us on one thread, 26 on two, 98% of a copy: level with numba "
        "within the spread",
    ),
    (
        "variance*",
        None,
        "two passes over a row, the second in the first cache (they were two kernels: 75 us, now 56)."
        " LLVM unrolls both loops and keeps the row's vectors on the stack in between; without "
        "unrolling it was slower, 61 to 71 us",
    ),
    (
        "argm[ai][xn]*",
        None,
        "of 61 us 44 are what a maximum of rows takes; the rest is the search at the end of each row,"
        " folds of vectors that wait for one another. An index for each element was slower (104 us), "
        "groups of eight vectors, too (71)",
    ),
    (
        "collatz",
        None,
        "level with numba within the spread: CPython calls it directly, 0.6 us less than before",
    ),
    ("gcd", None, "some thirty rounds: the call itself, as in collatz"),
    (
        "logistic map",
        None,
        "a chain of three dependent operations, 1.8 ns a round; numba may reorder them",
    ),
    ("compensated sum", None, "a chain of four dependent operations: level with numba within the spread"),
    (
        "moving average",
        None,
        "a chain of a product and a sum a round, level with numba within the spread",
    ),
    (
        "jacobi by elements",
        None,
        "both are vectors of the same width. A row of 98 elements takes 17.6 ns, numba's 14.6: before each "
        "row LLVM checks that it does not overlap with what is read, and the program whether to poll. A "
        "call copies three times 80 kB, numba twice: which of the two arrays is the result is known at "
        "the end",
    ),
    (
        "jacobi by slices",
        None,
        "each round makes a new array, in one kernel that asks of each element whether it is inside. Two "
        "kernels, one for the values and one that stores them in place, took as long",
    ),
    ("triangular solve", None, "a chain of sums through memory, as numba's: level within the spread"),
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
        "of 0.65 s of work LLVM has 0.33, beside the rest and 0.15 s after it; the front end 0.03, Relax "
        "0.04, fusion 0.02, the rest schedules and TVM's passes, on one core. Levels 1 and 2 of LLVM's "
        "optimiser saved 5% and were left. It was 0.58 s before equal calls were lowered once and LLVM "
        "began after a fifth of the kernels; smaller parts cost 10 ms each",
    ),
)


def note_of(name: str, threads: int) -> str | None:
    """The note of a row."""
    for pattern, count, note in NOTES:
        if count in (None, threads) and fnmatchcase(name, pattern):
            return note
    return None
