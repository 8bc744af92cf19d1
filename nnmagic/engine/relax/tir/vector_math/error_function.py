"""Compute the error function as vectors."""

from __future__ import annotations

from tvm import tirx

from nnmagic.engine.relax.tir.types import PrimExpr
from nnmagic.engine.relax.tir.vector_math.core import Computation, vector_function
from nnmagic.engine.relax.tir.vector_math.exponential import exp_near_zero, reduce_exp_argument

#: The argument from which on the second polynomial is used.
_NEAR = {"float32": 0.92578125, "float64": 1.0}

#: ``erf(x) / x`` in terms of ``x**2``.
_ERF = {
    "float32": (
        -0.0005451472825370729,
        0.004879152402281761,
        -0.026682602241635323,
        0.11279303580522537,
        -0.3761223256587982,
        1.1283791065216064,
    ),
    "float64": (
        -7.604893939416911e-10,
        1.3615500190615924e-08,
        -1.618378483802683e-07,
        1.6444131184613003e-06,
        -1.4924464552177811e-05,
        0.00012055280459127031,
        -0.0008548325484215734,
        0.005223977596726416,
        -0.02686617064195855,
        0.11283791670936949,
        -0.37612638903183343,
        1.1283791670955126,
    ),
}

#: ``-log(1 - erf(t)) / t``.
_LOG_ERFC = {
    "float32": (
        -0.00021398744138423353,
        0.0032149816397577524,
        -0.022890063002705574,
        0.10526201874017715,
        0.6357181668281555,
        1.1285144090652466,
    ),
    "float64": (
        -1.5186431918803928e-12,
        6.743967830961625e-11,
        -1.4022846615011811e-09,
        1.8129277322258554e-08,
        -1.6301297379018747e-07,
        1.078066798591386e-06,
        -5.384975973967239e-06,
        2.035045408538701e-05,
        -5.603610467475479e-05,
        9.548150282871834e-05,
        -9.666334368796417e-07,
        -0.0005746690610908167,
        0.0016926179829996485,
        -0.00021204382982163803,
        -0.01912496067811372,
        0.10277082558489263,
        0.6366202530235452,
        1.12837911082127,
    ),
}


@vector_function
def erf(steps: Computation, x: PrimExpr) -> PrimExpr:
    """Compute the error function: a polynomial near 0, else ``1 - exp(-t p(t))`` of ``t = |x|``."""
    t = steps.bind("t", tirx.abs(x))
    far = steps.bind("far", steps.at_most(t, 6.0))
    minus = steps.bind("minus", -(far * steps.polynomial(_LOG_ERFC, far)))
    rounded, _, r = reduce_exp_argument(steps, minus)
    e = exp_near_zero(steps, r) * steps.power_of_two(rounded)
    outer = steps.bind("outer", steps.copy_sign(steps.number(1) - e, x))
    inner = steps.bind("inner", x * steps.polynomial(_ERF, x * x))
    return tirx.Select(t < steps.number(_NEAR[steps.form.dtype]), inner, outer)
