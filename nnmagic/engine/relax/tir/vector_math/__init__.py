"""Build mathematical functions as TIR that LLVM vectorizes: no calls of the C library, no branches.

Each function maps an expression of float32 or float64 to one of the same dtype; float16 and bfloat16 are
computed in float32. Arguments are reduced as in W. J. Cody and W. Waite, Software Manual for the Elementary
Functions, 1980. The polynomials are minimax fits of our own (Remez exchange with 50 digits). NaN stays NaN;
infinities and denormal results are correct. The largest errors, measured over all exponents, in units in the
last place:

=======  =======  =======
         float32  float64
=======  =======  =======
exp      1.1      1.5
log      0.9      0.9
log2     1.7      1.7
log10    1.9      1.9
tanh     2.5      3.3
sigmoid  2.5      2.5
erf      2.3      3.0
=======  =======  =======
"""

from nnmagic.engine.relax.tir.vector_math.error_function import erf
from nnmagic.engine.relax.tir.vector_math.exponential import (
    cosh,
    exp,
    exp2,
    exp_scale,
    scaled_exp,
    sigmoid,
    sinh,
    tanh,
)
from nnmagic.engine.relax.tir.vector_math.inverse_trigonometric import acos, asin, atan
from nnmagic.engine.relax.tir.vector_math.logarithm import acosh, asinh, atanh, log, log2, log10
from nnmagic.engine.relax.tir.vector_math.power import power
from nnmagic.engine.relax.tir.vector_math.remainder import fmod
from nnmagic.engine.relax.tir.vector_math.trigonometric import cos, sin, tan

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
    "exp",
    "exp2",
    "exp_scale",
    "fmod",
    "log",
    "log2",
    "log10",
    "power",
    "scaled_exp",
    "sigmoid",
    "sin",
    "sinh",
    "tan",
    "tanh",
]
