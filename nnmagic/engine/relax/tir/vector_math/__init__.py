"""Build mathematical functions as TIR that LLVM vectorizes: no branches, and no calls of the C library.

Each function maps expressions of float32 or float64 to one of the same dtype; float16 and bfloat16 are
computed in float32. Arguments are reduced as in W. J. Cody and W. Waite, Software Manual for the Elementary
Functions, 1980. The polynomials are minimax fits of our own (Remez exchange with 50 digits). NaN stays NaN;
infinities, signs of zeros and denormal results are correct. Rare arguments that need another algorithm
(angles beyond 100,000, quotients from 2**23 on) are given to the C library, one at a time
(``Computation.call_library_if``); the others stay vectors.

The errors are at most, in units in the last place, measured over all exponents:

==================================  =======  =======
                                    float32  float64
==================================  =======  =======
exp                                 1.1      1.5
log                                 1        1
log2                                1.8      1.8
log10                               2        2
power                               1.5      1.5
exp2, sin, cos                      2        2
expm1                               2        4
tanh                                2.5      3.4
sigmoid                             2.5      2.5
erf                                 2.5      4
erfc                                6        8
sinh, cosh, asin, acos, atan,       3        3
asinh, acosh, atanh
tan                                 3.5      3.5
fmod                                exact    exact
==================================  =======  =======
"""

from nnmagic.engine.relax.tir.vector_math.error_function import erf, erfc
from nnmagic.engine.relax.tir.vector_math.exponential import (
    cosh,
    exp,
    exp2,
    exp_scale,
    expm1,
    scaled_exp,
    sigmoid,
    sinh,
    tanh,
)
from nnmagic.engine.relax.tir.vector_math.inverse_trigonometric import acos, asin, atan
from nnmagic.engine.relax.tir.vector_math.logarithm import acosh, asinh, atanh, log, log2, log10
from nnmagic.engine.relax.tir.vector_math.power import power
from nnmagic.engine.relax.tir.vector_math.remainder import fmod
from nnmagic.engine.relax.tir.vector_math.trigonometric import cos, sin, small_sine_and_cosine, tan

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "exp_scale",
    "expm1",
    "fmod",
    "log",
    "log2",
    "log10",
    "power",
    "scaled_exp",
    "sigmoid",
    "sin",
    "sinh",
    "small_sine_and_cosine",
    "tan",
    "tanh",
]
